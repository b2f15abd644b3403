//! What answers hold. Amounts are whole numbers of base units as text, ids are text, times are ms since 1970 UTC.

use std::borrow::Cow;

use money::{Amount, Unit};
use serde::{Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::types::Id;
use crate::auth::AdminRole;
use crate::model::Pacing;
use crate::node::{
    AuditRecord, AuditRow, AuditSession, Cap, Detail, FieldEdit, Fields, FileChange, Holds, Lines,
    Source, TokenReach, WindowState, large_change,
};
use crate::problem::Problem;
use crate::query::{Row, index_ppm, verdict_word};
use crate::{Flags, Reason, Status};

/// An amount as decimal text in the budget's unit, exact, as changes and the budgets file have it.
#[derive(Clone, Copy, Debug, ToSchema)]
#[schema(value_type = String, pattern = "^-?[0-9]{1,20}(\\.[0-9]{2,9})?$", example = "1.25")]
pub(super) struct DecimalAmount((i128, Unit));

impl DecimalAmount {
    pub(super) fn of(amount: Amount, unit: Unit) -> DecimalAmount {
        DecimalAmount::sum(amount.get().into(), unit)
    }

    /// Of base units, of which a sum has more than 64 bits.
    pub(super) const fn sum(base_units: i128, unit: Unit) -> DecimalAmount {
        DecimalAmount((base_units, unit))
    }

    pub(super) fn add(&mut self, amount: Amount) {
        self.0.0 += i128::from(amount.get());
    }
}

impl Serialize for DecimalAmount {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (base_units, unit) = self.0;
        to.collect_str(&unit.format_sum(base_units))
    }
}

/// The words of an enum of the model, in the document.
macro_rules! words {
    ($($kind:ident),*) => { $(
        impl PartialSchema for $kind {
            fn schema() -> RefOr<Schema> {
                let words = $kind::ALL.iter().map(|one| one.word());
                ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).into()
            }
        }

        impl ToSchema for $kind {
            fn name() -> Cow<'static, str> {
                Cow::Borrowed(stringify!($kind))
            }
        }
    )* };
}

words!(Status, Reason, Pacing);

/// How a budget stands.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Budget)]
pub(super) struct BudgetRow<'a> {
    id: Id,
    name: &'a str,
    /// Its unique text name; null where it has none.
    #[schema(required, example = "team-42/gpt-5")]
    handle: Option<&'a str>,
    /// The template that it was made from: the pattern of its handle; null for every other budget.
    #[schema(required, example = "{team}/{model}")]
    template: Option<&'a str>,
    /// ISO 4217, or `count`.
    #[schema(pattern = "^([A-Z]{3}n?|count)$", example = "USD")]
    unit: &'static str,
    /// It bids.
    campaign: bool,
    status: Status,
    /// Why; null where nothing is to be said.
    #[schema(required)]
    reason: Option<Reason>,
    /// How long status and reason are what they are.
    since_ms: u64,
    /// The amount that may be spent in its life.
    limit: DecimalAmount,
    /// Settled, over-settled and late.
    spent: DecimalAmount,
    /// Of these over-settled and late.
    debt: DecimalAmount,
    /// In holds of any kind.
    held: DecimalAmount,
    /// Free and in purses: limit = spent + held + available. May be negative.
    available: DecimalAmount,
    /// The pacing window: a day of the zone, or the flight.
    window_start_ms: u64,
    window_end_ms: u64,
    /// What the plan spends in the window; null without a plan.
    #[schema(required)]
    window_budget: Option<DecimalAmount>,
    /// Of this by now.
    #[schema(required)]
    window_planned: Option<DecimalAmount>,
    /// Spent in the window, as the plan counts it.
    #[schema(required)]
    window_spent: Option<DecimalAmount>,
    /// Spent of planned, in millionths, rounded down; null while nothing is planned.
    #[schema(required)]
    index_ppm: Option<i64>,
    /// The daily limit.
    #[schema(required)]
    daily: Option<DecimalAmount>,
    /// Spent in the civil day of the zone.
    day_spent: DecimalAmount,
    /// When the next day begins, where there is a daily limit.
    #[schema(required)]
    day_ends_ms: Option<u64>,
    /// Means of the last 10 s.
    asks_per_s: f64,
    grants_per_s: f64,
    refusals_per_s: f64,
    /// The verdict that most refused asks met; null without any. What stops bids are no verdicts: `refusals` tells them.
    #[schema(required, example = "paced")]
    top_refusal: Option<&'static str>,
    top_refusals_per_s: f64,
    /// Spent in the last 60 s.
    spend_minute: DecimalAmount,
    /// Billed impressions of its campaigns and of those under it, since `figures_since_ms` of the list; null where nothing bids.
    #[schema(required)]
    impressions: Option<u64>,
    /// Their clicks; null where none are counted.
    #[schema(required)]
    clicks: Option<u64>,
    /// Clicks in a million impressions, rounded down; null without impressions.
    #[schema(required)]
    ctr_ppm: Option<u64>,
    /// What a thousand of them cost, rounded up; null without any.
    #[schema(required)]
    cpm: Option<DecimalAmount>,
    /// What a click cost, rounded up; null without any.
    #[schema(required)]
    cpc: Option<DecimalAmount>,
    /// IANA name of its time zone.
    #[schema(example = "Europe/Berlin")]
    tz: &'a str,
    /// Its flight; null: open.
    #[schema(required)]
    start_ms: Option<u64>,
    #[schema(required)]
    end_ms: Option<u64>,
    pacing: Pacing,
    /// The budget that binds it too.
    #[schema(required)]
    parent: Option<Id>,
    /// What else is true of it.
    #[schema(value_type = Vec<FlagWord>)]
    flags: Vec<&'static str>,
}

/// `debt`: spent above holds. `open`: its window is open. `lowered`: the limit is below what is out. `edited`: changed by
/// the API.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[allow(dead_code, reason = "only its description is used")]
pub(super) enum FlagWord {
    Debt,
    Open,
    Lowered,
    Edited,
}

impl<'a> BudgetRow<'a> {
    pub(super) fn new(row: Row<'a>) -> BudgetRow<'a> {
        let (budget, state) = (row.budget, row.state);
        let counted = state.counted;
        let price = |price: i128| DecimalAmount::sum(price, budget.unit);
        let per_s = |hundredths: u32| f64::from(hundredths) / 100.0;
        let decimal = |amount| DecimalAmount::of(amount, budget.unit);
        let flags =
            Flags::ALL.iter().filter(|(bit, _)| state.flags.has(*bit)).map(|(_, name)| *name);
        BudgetRow {
            id: Id(budget.id),
            name: &budget.name,
            handle: budget.handle.as_deref(),
            template: row.template,
            unit: budget.unit.as_str(),
            campaign: budget.campaign,
            status: state.status,
            reason: Some(state.reason).filter(|reason| *reason != Reason::None),
            since_ms: state.since_ms,
            limit: decimal(state.limit),
            spent: decimal(state.spent),
            debt: decimal(state.debt),
            held: decimal(state.held),
            available: decimal(state.available),
            window_start_ms: state.window_start_ms,
            window_end_ms: state.window_end_ms,
            window_budget: state.window_budget.map(decimal),
            window_planned: state.window_planned.map(decimal),
            window_spent: state.window_spent.map(decimal),
            index_ppm: index_ppm(row),
            daily: state.daily.map(decimal),
            day_spent: decimal(state.day_spent),
            day_ends_ms: state.day_ends_ms,
            asks_per_s: per_s(state.asks),
            grants_per_s: per_s(state.grants),
            refusals_per_s: per_s(state.refusals),
            top_refusal: verdict_word(state.top_refusal),
            top_refusals_per_s: per_s(state.top_refusals),
            spend_minute: decimal(state.spend_minute),
            impressions: counted.map(|counted| counted.impressions),
            clicks: counted.and_then(|counted| counted.clicks),
            ctr_ppm: counted.and_then(|counted| counted.ctr_ppm()),
            cpm: counted.and_then(|counted| counted.cpm()).map(price),
            cpc: counted.and_then(|counted| counted.cpc()).map(price),
            tz: &budget.zone,
            start_ms: budget.start_ms,
            end_ms: budget.end_ms,
            pacing: budget.pacing,
            parent: budget.parent.map(Id),
            flags: flags.collect(),
        }
    }
}

/// A page of budgets.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BudgetPage<'a> {
    /// The bank's clock when the figures were taken.
    pub(super) as_of_ms: u64,
    /// Since when impressions are counted; null: none is counted yet.
    #[schema(required)]
    pub(super) figures_since_ms: Option<u64>,
    /// The number of match, on all pages.
    pub(super) matched: usize,
    pub(super) budgets: Vec<BudgetRow<'a>>,
    /// To be given back as `cursor`; null on the last page.
    #[schema(required)]
    pub(super) next: Option<String>,
}

/// A budget with all that is known of it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BudgetWhole<'a> {
    #[serde(flatten)]
    pub(super) row: BudgetRow<'a>,
    /// Its configuration, as in the budgets file, with what was changed by the API.
    #[schema(value_type = Object, additional_properties = true)]
    pub(super) config: Fields,
    /// Its line of the budgets file, whole; null where none has it as text: it was made by the API, is read from a table
    /// (`.csv`), or was removed.
    #[schema(required)]
    pub(super) file: Option<FileLine>,
    /// Spent in each 30 s, oldest first: the last ten minutes, or fewer after a start.
    pub(super) spark: Vec<DecimalAmount>,
    pub(super) lines: BookLines,
    pub(super) holds: HoldCounts,
    pub(super) caps: Vec<FrequencyCap>,
    /// Its windows, the shortest first.
    pub(super) windows: Vec<BudgetWindow>,
    pub(super) named_holds: OpenNamedHolds,
    /// After a change of its handle: the access tokens that may name it by their scopes from now on, or may no more. Else empty.
    pub(super) reach: Vec<Reach>,
}

/// An access token whose scopes name handles, and what a budget's new handle means for it. It counts from the next batch and call on.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Reach {
    /// Its name in the tokens file.
    #[schema(example = "team-42")]
    token: String,
    /// True: it may name the budget now. False: it may name it no more.
    gains: bool,
}

impl From<TokenReach> for Reach {
    fn from(reach: TokenReach) -> Reach {
        let TokenReach { token, gains } = reach;
        Reach { token, gains }
    }
}

/// A line of the budgets file.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FileLine {
    /// From 1.
    line: usize,
    /// As it stands in the file, a campaign's fields among them. Null where it cannot be shown: `problem` says why.
    #[schema(required, max_length = 65_536)]
    text: Option<String>,
    /// It is too long, or the file has changed since.
    #[schema(required)]
    problem: Option<String>,
    /// The changes that the API made on top of it.
    changed: Vec<ChangedField>,
}

/// A field that the API changed on top of the budgets file.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct ChangedField {
    #[schema(example = "limit")]
    field: String,
    /// What the file says; null: nothing.
    #[schema(required, value_type = Value)]
    in_file: serde_json::Value,
    /// The value in force; null: it is removed.
    #[schema(required, value_type = Value)]
    in_force: serde_json::Value,
}

impl From<Source> for FileLine {
    fn from(Source { line, text, changed }: Source) -> FileLine {
        let (text, problem) = match text {
            Ok(text) => (Some(text), None),
            Err(problem) => (None, Some(problem)),
        };
        let field =
            |FieldEdit { field, in_file, in_force }| ChangedField { field, in_file, in_force };
        FileLine { line, text, problem, changed: changed.into_iter().map(field).collect() }
    }
}

/// The lines of its books. They add up to the limit.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BookLines {
    free: DecimalAmount,
    purses: DecimalAmount,
    held: DecimalAmount,
    suspended: DecimalAmount,
    expired: DecimalAmount,
    settled: DecimalAmount,
    over_settled: DecimalAmount,
    late: DecimalAmount,
    inferred: DecimalAmount,
    unknown_order: DecimalAmount,
}

impl BookLines {
    fn of(lines: Lines, unit: Unit) -> BookLines {
        let decimal = |amount| DecimalAmount::of(amount, unit);
        BookLines {
            free: decimal(lines.free),
            purses: decimal(lines.purses),
            held: decimal(lines.held),
            suspended: decimal(lines.suspended),
            expired: decimal(lines.expired),
            settled: decimal(lines.settled),
            over_settled: decimal(lines.over_settled),
            late: decimal(lines.late),
            inferred: decimal(lines.inferred),
            unknown_order: decimal(lines.unknown_order),
        }
    }
}

/// What became of its own holds since the start of the run, without those of budgets under it; null where nobody counts it.
/// Every hold that was made is open, settled, released or expired.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct HoldCounts {
    made: u64,
    /// Their time is not over, and nobody settled or released them. Some tenths of a second behind.
    #[schema(required)]
    open: Option<u64>,
    /// Settled while their money was set aside; those of earlier runs too.
    #[schema(required)]
    settled: Option<u64>,
    /// Released while their money was set aside; those of earlier runs too.
    #[schema(required)]
    released: Option<u64>,
    /// Their time is over, and nobody settled or released them: not confirmed by their deadline, or confirmed and not billed
    /// within the billing window. Where expired money is kept, one that is settled or released afterwards leaves this count.
    #[schema(required)]
    expired: Option<u64>,
    /// Settled when their money was gone: they stay counted as expired, or released.
    #[schema(required)]
    late: Option<u64>,
}

impl From<Holds> for HoldCounts {
    fn from(holds: Holds) -> HoldCounts {
        let Holds { made, open, settled, released, expired, late } = holds;
        HoldCounts { made, open, settled, released, expired, late }
    }
}

/// A window of the budget itself.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BudgetWindow {
    /// `minute`, `hour`, `day`, `week` or `month`.
    #[schema(example = "minute")]
    period: &'static str,
    /// It refills all the time; else it is whole again at its end.
    bucket: bool,
    limit: DecimalAmount,
    /// Handed out in it, and not come back.
    used: DecimalAmount,
    /// What is left of it; below zero after a limit was lowered, or after debts.
    left: DecimalAmount,
    /// First instant after it: in the past where nobody asked since. Of a bucket now.
    ends_ms: u64,
}

impl BudgetWindow {
    fn of(state: WindowState, unit: Unit) -> BudgetWindow {
        let WindowState { period, bucket, limit, used, ends_ms } = state;
        let left = DecimalAmount::sum(i128::from(limit.get()) - i128::from(used.get()), unit);
        let (limit, used) = (DecimalAmount::of(limit, unit), DecimalAmount::of(used, unit));
        BudgetWindow { period, bucket, limit, used, left, ends_ms }
    }
}

/// The legs of open named holds on the budget and on those under it: money of orders.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct OpenNamedHolds {
    count: u32,
    /// What they hold: a part of `held` in `lines`.
    hold: DecimalAmount,
}

/// A frequency cap of its campaign.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct FrequencyCap {
    /// So many impressions...
    max: u32,
    /// ...in this time.
    #[schema(example = "1d")]
    per: String,
    /// Of the campaign, or of one of its creatives.
    of: String,
}

impl From<Cap> for FrequencyCap {
    fn from(cap: Cap) -> FrequencyCap {
        FrequencyCap { max: cap.max, per: cap.per, of: cap.of }
    }
}

impl<'a> BudgetWhole<'a> {
    pub(super) fn new(
        row: Row<'a>,
        config: Fields,
        source: Option<Source>,
        spark: &[i64],
        detail: Detail,
    ) -> BudgetWhole<'a> {
        let unit = row.budget.unit;
        BudgetWhole {
            row: BudgetRow::new(row),
            config,
            file: source.map(FileLine::from),
            spark: spark.iter().map(|spent| DecimalAmount::sum((*spent).into(), unit)).collect(),
            lines: BookLines::of(detail.lines, unit),
            holds: detail.holds.into(),
            caps: detail.caps.into_iter().map(FrequencyCap::from).collect(),
            windows: detail.windows.into_iter().map(|one| BudgetWindow::of(one, unit)).collect(),
            named_holds: OpenNamedHolds {
                count: detail.named_holds.count,
                hold: DecimalAmount::of(detail.named_holds.hold, unit),
            },
            reach: Vec::new(),
        }
    }
}

/// Who asks.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Me {
    /// The name of the token.
    #[schema(example = "local")]
    pub(super) name: String,
    pub(super) role: AdminRole,
}

/// What became of one budget.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BulkRow {
    pub(super) id: Id,
    pub(super) result: Outcome,
    /// Of its configuration now.
    #[schema(pattern = "^\"[0-9]+\"$", example = "\"9\"")]
    pub(super) etag: String,
    /// The changed fields before, as in the budgets file...
    #[schema(value_type = Object, additional_properties = true)]
    pub(super) before: Fields,
    /// ...and after.
    #[schema(value_type = Object, additional_properties = true)]
    pub(super) after: Fields,
    /// Its limit, or that of a window, becomes more than a hundred times as large, or one of them goes.
    pub(super) large: bool,
    /// Why it was refused.
    #[schema(required)]
    pub(super) problem: Option<Problem>,
    /// Where the handle changed (or would): the access tokens that may name the budget by their scopes from then on, or may no more.
    pub(super) reach: Vec<Reach>,
}

/// Changed (or would be), unchanged because it was so before, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Changed,
    Unchanged,
    Refused,
}

/// What a change means in money, over the changed budgets of one unit.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Effect {
    /// ISO 4217, or `count`.
    #[schema(pattern = "^([A-Z]{3}n?|count)$", example = "USD")]
    pub(super) unit: &'static str,
    pub(super) rows: usize,
    pub(super) limit_before: DecimalAmount,
    pub(super) limit_after: DecimalAmount,
    /// What they could still spend when this was answered.
    pub(super) available_before: DecimalAmount,
    /// What they spent in the last 60 s.
    pub(super) spend_minute: DecimalAmount,
}

/// What became of a bulk change. Each row stands for itself.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct BulkAnswer {
    /// The record of the audit; null where nothing changed, or in a dry run.
    #[schema(required)]
    pub(super) record: Option<Id>,
    pub(super) dry_run: bool,
    /// Rows; the sum of the next three.
    pub(super) matched: usize,
    pub(super) changed: usize,
    pub(super) unchanged: usize,
    pub(super) refused: usize,
    /// Until then the dashboard offers to undo it. Later it works too, where a budget still is as this left it.
    pub(super) undo_until_ms: u64,
    /// By unit, never summed over units.
    pub(super) effect: Vec<Effect>,
    pub(super) rows: Vec<BulkRow>,
}

/// A change that somebody made.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct Record {
    record: Id,
    at_ms: u64,
    /// The name of the token.
    who: String,
    action: ActionWord,
    why: String,
    /// The number of budgets it changed.
    rows: usize,
    /// The record that took it back.
    #[schema(required)]
    undone_by: Option<Id>,
    /// The record that it took back.
    #[schema(required)]
    undo_of: Option<Id>,
    /// The changed budgets; in a list at most 20.
    changes: Vec<RecordRow>,
    /// The FIX session that it is about, in place of budgets.
    #[schema(required)]
    session: Option<RecordSession>,
    /// How many budgets a load of the budgets file changed. Its record has the first 100 of them, those that changed before those that
    /// ended and those that were added, and cannot be undone here: the file says it.
    #[schema(required)]
    file: Option<RecordFile>,
}

/// How many budgets a load of the budgets file changed.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecordFile {
    added: usize,
    changed: usize,
    ended: usize,
}

impl From<FileChange> for RecordFile {
    fn from(FileChange { added, changed, ended }: FileChange) -> RecordFile {
        RecordFile { added, changed, ended }
    }
}

/// What was done to a FIX session.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecordSession {
    name: String,
    /// Its numbers before...
    #[schema(value_type = Object, additional_properties = true)]
    before: Fields,
    /// ...and after; or what was asked of its peer.
    #[schema(value_type = Object, additional_properties = true)]
    after: Fields,
}

impl From<AuditSession> for RecordSession {
    fn from(session: AuditSession) -> RecordSession {
        let AuditSession { name, before, after } = session;
        RecordSession { name, before, after }
    }
}

/// The effect of a change.
#[derive(Clone, Copy, Debug, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ActionWord {
    Create,
    Set,
    Pause,
    Resume,
    Undo,
    FixSequence,
    FixReset,
    FixResend,
    FixLogout,
    FixKill,
    FixEnable,
    File,
}

impl From<crate::node::Action> for ActionWord {
    fn from(action: crate::node::Action) -> ActionWord {
        use crate::node::Action;
        match action {
            Action::Create => ActionWord::Create,
            Action::Set => ActionWord::Set,
            Action::Pause => ActionWord::Pause,
            Action::Resume => ActionWord::Resume,
            Action::Undo => ActionWord::Undo,
            Action::FixSequence => ActionWord::FixSequence,
            Action::FixReset => ActionWord::FixReset,
            Action::FixResend => ActionWord::FixResend,
            Action::FixLogout => ActionWord::FixLogout,
            Action::FixKill => ActionWord::FixKill,
            Action::FixEnable => ActionWord::FixEnable,
            Action::File => ActionWord::File,
        }
    }
}

/// The changes of one budget.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecordRow {
    id: Id,
    /// Its name now; null: there is no such budget any more.
    #[schema(required, example = "Shoes, autumn")]
    name: Option<String>,
    /// The unit of its amounts: ISO 4217, with an `n` where it counts nanos, or `count`; null as above.
    #[schema(required, pattern = "^([A-Z]{3}n?|count)$", example = "USD")]
    unit: Option<String>,
    /// Its limit, or that of a window, became more than a hundred times as large, or one of them went.
    large: bool,
    /// The changed fields before, as in the budgets file...
    #[schema(value_type = Object, additional_properties = true)]
    before: Fields,
    /// ...and after.
    #[schema(value_type = Object, additional_properties = true)]
    after: Fields,
}

impl RecordRow {
    fn of(row: AuditRow, known: &Known<'_>) -> RecordRow {
        let (name, unit) = known(row.id).unzip();
        let known = unit.as_deref().and_then(|unit| Unit::parse(unit).ok());
        let large = known.is_some_and(|unit| large_change(unit, &row.before, &row.after).is_some());
        RecordRow { id: Id(row.id), name, unit, large, before: row.before, after: row.after }
    }
}

/// Tells a budget's name and its unit.
type Known<'a> = dyn Fn(u64) -> Option<(String, String)> + 'a;

impl Record {
    /// With the names and units that are known of its budgets.
    pub(super) fn of(record: AuditRecord, known: &Known<'_>) -> Record {
        let changes = record.changes.into_iter().map(|row| RecordRow::of(row, known));
        Record {
            record: Id(record.record),
            at_ms: record.at_ms,
            who: record.who,
            action: record.action.into(),
            why: record.why,
            rows: record.rows,
            undone_by: record.undone_by.map(Id),
            undo_of: record.undo_of.map(Id),
            changes: changes.collect(),
            session: record.session.map(RecordSession::from),
            file: record.file.map(RecordFile::from),
        }
    }
}

/// A page of records, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct RecordPage {
    pub(super) records: Vec<Record>,
    /// To be given back as `cursor`; null on the last page.
    #[schema(required)]
    pub(super) next: Option<Id>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// What was read can be written back: a change with exactly this text changes nothing.
        #[test]
        fn an_amount_is_read_as_it_was_written(base_units: i64, unit in prop::sample::select(vec!["USD", "JPY", "KWD", "EURn", "count"])) {
            let unit = Unit::parse(unit).unwrap();
            let shown = serde_json::to_value(DecimalAmount::of(Amount::new(base_units), unit)).unwrap();
            let text = shown.as_str().unwrap();
            prop_assert_eq!(unit.parse_amount(text).map(Amount::get).ok(), Some(base_units), "{}", text);
        }
    }

    #[test]
    fn sums_have_more_than_64_bits() {
        let mut sum = DecimalAmount::sum(i64::MAX.into(), Unit::parse("USD").unwrap());
        sum.add(Amount::new(i64::MAX));
        assert_eq!(serde_json::to_value(sum).unwrap(), "18446744073709.551614");
    }
}
