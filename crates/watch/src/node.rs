//! What the admin API asks of the node behind it.

use axum::body::Bytes;
use money::{Amount, Unit};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::State;
use crate::cluster::Cluster;
use crate::fix::{
    FixChange, FixError, FixKillChange, FixKills, FixMessages, FixOrders, FixPage, FixSession,
};
use crate::report::{Report, ReportAsk, ReportError};
use crate::vault::{Vault, VaultPage};

/// Fields of a budget by name, as in the budgets file: amounts as decimal text (`"12.50"`), instants as text.
pub type Fields = Map<String, Value>;

/// The node. Every call may block for some milliseconds (a change for as long as the disk needs) and comes from a thread
/// that may wait; none comes from a worker.
pub trait Node: Send + Sync + 'static {
    /// Judges every row, carries out and seals what can be, and says of each row what became of it.
    ///
    /// # Errors
    /// Nothing was done, or exactly what [`EditError`] says.
    fn edit(&self, edit: Edit) -> Result<Edited, EditError>;

    /// The first answer to an idempotency key of `who`, where it is remembered with the same digest. `None`: the key is new; an
    /// [`edit`](Node::edit) with it still judges it for itself.
    ///
    /// # Errors
    /// [`EditError::KeyReused`]: it came with another digest.
    fn replay(
        &self,
        _who: &str,
        _key: &str,
        _digest: &[u8; 32],
    ) -> Result<Option<Edited>, EditError> {
        Ok(None)
    }

    /// Revision of a budget's configuration at this moment; the board's may be older by a survey. `None`: no such budget.
    fn revision(&self, id: u64) -> Option<u64>;

    /// The id of the live budget with this handle, as of now.
    fn id_of(&self, handle: &str) -> Option<u64>;

    /// The fields of a budget's configuration, as in the budgets file, with what was changed by the API.
    fn fields(&self, id: u64) -> Option<Fields>;

    /// What the budgets file says of a budget, word by word, and what the API changed on top; `None` where no file says
    /// anything of it.
    fn source(&self, _id: u64) -> Option<Source> {
        None
    }

    /// The access tokens, by name and in order, whose scopes reach a budget under the one of these two handles and not under the
    /// other: those that may name it with the second and not with the first gain it.
    fn reach(&self, _id: u64, _before: Option<&str>, _after: Option<&str>) -> Vec<TokenReach> {
        Vec::new()
    }

    /// What the board does not hold of one budget.
    fn detail(&self, id: u64) -> Option<Detail>;

    /// What became of its asks, or of the impressions it could have bid for.
    fn refusals(&self, id: u64) -> Option<Refusals>;

    /// What was changed by people, newest first: at most `max` records older than `before` (a record's number), all or of
    /// one budget. Rows of a record are cut to 20.
    fn audit(&self, budget: Option<u64>, before: Option<u64>, max: usize) -> Vec<AuditRecord>;

    /// One record with all its rows.
    fn audit_record(&self, record: u64) -> Option<AuditRecord>;

    /// How the FIX sessions stand: clients first, then venues; none where their door is off.
    ///
    /// # Errors
    /// [`FixError::NotReady`].
    fn fix_sessions(&self) -> Result<Vec<FixSession>, FixError> {
        Ok(Vec::new())
    }

    /// How many connections the FIX door closed in this run because they showed no Logon of a session that they may have.
    fn fix_refused_logons(&self) -> u64 {
        0
    }

    /// Messages of a FIX session, also of one that is not configured any more.
    ///
    /// # Errors
    /// [`FixError::Unknown`], or [`FixError::NotReady`] where the disk does not give them.
    fn fix_messages(&self, session: &str, _page: &FixPage) -> Result<FixMessages, FixError> {
        Err(FixError::Unknown(format!("there is no FIX session {session:?}")))
    }

    /// Orders that the FIX venues know, from a place on, so many at most, and where a budget is named, of those that it binds.
    ///
    /// # Errors
    /// [`FixError::NotReady`].
    fn fix_orders(
        &self,
        _from: u64,
        _max: usize,
        _budget: Option<u64>,
    ) -> Result<FixOrders, FixError> {
        Ok(FixOrders::default())
    }

    /// Records and does something to a FIX session; returns how it stands then.
    ///
    /// # Errors
    /// [`FixError`]: it was not done, but for one that the worker may still do where it does not answer.
    fn fix_act(&self, change: FixChange) -> Result<FixSession, FixError> {
        Err(FixError::Unknown(format!("there is no FIX session {:?}", change.session)))
    }

    /// Lists whose orders are stopped at the FIX door.
    ///
    /// # Errors
    /// [`FixError::NotReady`].
    fn fix_kills(&self) -> Result<FixKills, FixError> {
        Ok(FixKills::default())
    }

    /// Stops orders or lets them pass again, and records it; returns what is stopped then.
    ///
    /// # Errors
    /// [`FixError`]; of a kill it says whether the orders are stopped.
    fn fix_kill(&self, _change: FixKillChange) -> Result<FixKills, FixError> {
        Err(FixError::Unknown("the FIX door is off".into()))
    }

    /// Adds up what was counted of campaigns.
    ///
    /// # Errors
    /// [`ReportError`].
    fn report(&self, _ask: &ReportAsk) -> Result<Report, ReportError> {
        Ok(Report::default())
    }

    /// How the node stands in its cluster; `None`: its log is on its own disk.
    fn cluster(&self) -> Option<Cluster> {
        None
    }

    /// How the vault stands, with a page of its keys. No secret is in it.
    fn vault(&self, _page: &VaultPage) -> Vault {
        Vault::default()
    }

    /// How the node stands, as JSON: `GET /v1/node`.
    fn status(&self) -> Value;

    /// The cost sheet, as JSON, over the last minute: `GET /v1/costs`.
    fn costs(&self) -> Value;

    /// The configuration with secrets hidden, as JSON `{"section":{"key":value}}`.
    fn config(&self) -> Value;

    /// All metrics, OpenMetrics text.
    fn metrics(&self) -> Bytes;

    /// Does the node answer asks and seal what it answers? If not, why.
    ///
    /// # Errors
    /// The reason, for people.
    fn ready(&self) -> Result<(), String>;
}

/// A budget as its line stands in the budgets file.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Number of the line, from 1.
    pub line: usize,
    /// The line, at most 65,536 bytes of UTF-8; or why it cannot be shown, for people.
    pub text: Result<String, String>,
    /// The changes that the API made on top of it.
    pub changed: Vec<FieldEdit>,
}

/// A field that the API changed, on top of the budgets file.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldEdit {
    /// The field.
    pub field: String,
    /// What the file says of it; null: nothing.
    pub in_file: Value,
    /// The value in force; null: it is removed.
    pub in_force: Value,
}

/// What a change does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A new budget.
    Create,
    /// Fields of budgets are set.
    Set,
    /// Budgets are paused.
    Pause,
    /// Paused budgets go on.
    Resume,
    /// An earlier record is taken back.
    Undo,
    /// Both sequence numbers of a FIX session are set.
    FixSequence,
    /// Both begin again at 1.
    FixReset,
    /// The peer of a FIX session is asked to send messages again.
    FixResend,
    /// A FIX session is logged out.
    FixLogout,
    /// Orders of a FIX session, an account or a firm are stopped.
    FixKill,
    /// They pass again.
    FixEnable,
    /// The budgets file changed budgets.
    File,
}

/// A change that somebody asks for.
#[derive(Clone, Debug)]
pub struct Edit {
    /// Name of the token's owner; `local` without tokens.
    pub who: Box<str>,
    /// The reason, 3 to 500 characters.
    pub why: Box<str>,
    /// What is done.
    pub action: Action,
    /// What becomes of each budget.
    pub rows: EditRows,
    /// Judge only.
    pub dry_run: bool,
    /// Limits may become more than [`LARGE_TIMES`] as large, or go; by a creation and an undo always.
    pub confirm_large: bool,
    /// The idempotency key with a digest of the request: the same pair of the same `who` within 24 h gets the first answer again.
    pub key: Option<(Box<str>, [u8; 32])>,
}

/// The rows of a change.
#[derive(Clone, Debug)]
pub enum EditRows {
    /// A new budget, as a line of the budgets file without a campaign's fields.
    Create(Fields),
    /// Fields of known budgets. Which: those of [`EDITABLE`].
    Change(Vec<RowChange>),
    /// What this record changed is put back, where it still is as the record left it.
    Undo(u64),
}

/// Fields of a known budget that the API changes, as in the budgets file; `null` takes an optional one away.
pub const EDITABLE: [&str; 11] = [
    "handle", "name", "limit", "daily", "windows", "status", "start", "end", "pacing", "orders",
    "alerts",
];

/// A limit, or one of a window, that becomes more than so many times what it was is refused until it is confirmed: who writes base units
/// for units is off by a million. So is a change that takes one away.
pub const LARGE_TIMES: i128 = 100;

/// What a change does to a limit that somebody may not have meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LargeChange {
    /// The limit in this field becomes more than [`LARGE_TIMES`] as large.
    Grows(&'static str),
    /// The limits of these periods, which stood in this field, are no more.
    Goes(&'static str, Vec<String>),
}

impl LargeChange {
    /// The field: `limit`, `daily` or `windows`.
    #[must_use]
    pub const fn field(&self) -> &'static str {
        match self {
            LargeChange::Grows(field) | LargeChange::Goes(field, _) => field,
        }
    }
}

/// Does a change make a limit more than [`LARGE_TIMES`] as large, or take one away? Fields are as in the budgets file; nothing is many
/// times nothing. A budget that begins or ends changes no limit.
#[must_use]
pub fn large_change(unit: Unit, before: &Fields, after: &Fields) -> Option<LargeChange> {
    let (was, now) = (limits(unit, before), limits(unit, after));
    let grows = |period: &str, now: i128| {
        let was = was.iter().find(|(of, _, was)| of == period && *was > 0);
        was.is_some_and(|(_, _, was)| now > was * LARGE_TIMES)
    };
    if let Some((_, field, _)) = now.iter().find(|(period, _, now)| grows(period, *now)) {
        return Some(LargeChange::Grows(field));
    }
    let goes = was.iter().filter(|(period, field, _)| {
        after.contains_key(*field) && now.iter().all(|(of, _, _)| of != period)
    });
    let gone: Vec<_> = goes.collect();
    let (_, field, _) = gone.first()?;
    let of_it = gone.iter().filter(|(_, of, _)| of == field);
    Some(LargeChange::Goes(field, of_it.map(|(period, _, _)| period.clone()).collect()))
}

/// What fields say of limits: of the life or a period, where that stands, and how much. `daily` is the window of a day.
fn limits(unit: Unit, fields: &Fields) -> Vec<(String, &'static str, i128)> {
    let amount = |value: &Value| match value {
        Value::Object(window) => window.get("limit").and_then(|limit| amount_of(unit, limit)),
        plain => amount_of(unit, plain),
    };
    let plain = [("life", "limit"), ("day", "daily")].into_iter().filter_map(|(period, field)| {
        Some((period.to_owned(), field, amount(fields.get(field)?)?))
    });
    let windows: Vec<(String, Value)> = match fields.get("windows") {
        Some(Value::Object(windows)) => windows.clone().into_iter().collect(),
        // As in a table: `minute=10;month=1000.00b`.
        Some(Value::String(table)) => {
            let windows = table.split(';').filter_map(|one| one.split_once('='));
            let limit = |limit: &str| Value::from(limit.trim().trim_end_matches('b').trim_end());
            windows.map(|(period, of)| (period.trim().to_owned(), limit(of))).collect()
        }
        _ => Vec::new(),
    };
    let windows =
        windows.into_iter().filter_map(|(period, of)| Some((period, "windows", amount(&of)?)));
    plain.chain(windows).collect()
}

fn amount_of(unit: Unit, value: &Value) -> Option<i128> {
    let text = value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    unit.parse_amount(&text).ok().map(|amount| amount.get().into())
}

/// The outcome for one budget.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// The budget.
    pub id: u64,
    /// Its fields from now on; others stay.
    pub fields: Fields,
    /// Only if its revision is this.
    pub revision: Option<u64>,
}

/// Why a change is not in force. Nothing was done, but for [`EditError::Pending`] and [`EditError::Unsure`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// The idempotency key was used with another request.
    #[error("the idempotency key was used with another request; take a new one")]
    KeyReused,
    /// There is no such record.
    #[error("there is no record {0}")]
    NoRecord(u64),
    /// The record was undone before, or is an undo that was.
    #[error("record {0} was undone by record {1}")]
    Undone(u64, u64),
    /// The journal cannot seal it, or the log of edits cannot be written; with what to do.
    #[error("nothing was done: {0}")]
    Journal(String),
    /// The bank does not take what was judged sound; with why.
    #[error("nothing was done: {0}")]
    Refused(String),
    /// It is written down for good, but in force in part only, or the bank does not say.
    #[error(
        "record {record} is written down and comes into force by itself, whatever happens: {done} of {of} budgets are known to be \
         changed. What stands in the way: {why}. Do not ask for it again; GET /v1/audit/{record} shows what it says"
    )]
    Pending {
        /// Number of the record.
        record: u64,
        /// Budgets that are changed and sealed.
        done: usize,
        /// Budgets that it changes.
        of: usize,
        /// What stands in the way of the others.
        why: String,
    },
    /// The disk failed twice.
    #[error(
        "it is not in force, but it may be after the next start: {0}. The node takes no change until then; start it again and \
         look at GET /v1/audit"
    )]
    Unsure(String),
    /// The node stops.
    #[error("nothing was done: the node is stopping")]
    Stopping,
}

/// What became of a change.
#[derive(Clone, Debug, Default)]
pub struct Edited {
    /// Number of the record; `None` where nothing changed, or in a dry run.
    pub record: Option<u64>,
    /// This is the first answer again.
    pub replay: bool,
    /// Row by row, in the order asked for.
    pub rows: Vec<EditedRow>,
}

/// What became of one row.
#[derive(Clone, Debug)]
pub struct EditedRow {
    /// The budget.
    pub id: u64,
    /// Changed (or would be), unchanged, or refused and why.
    pub result: RowResult,
    /// The changed fields before...
    pub before: Fields,
    /// ...and after.
    pub after: Fields,
    /// Revision of the budget now.
    pub revision: u64,
}

/// A token whose reach changed with the handle of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenReach {
    /// Its name in the tokens file.
    pub token: String,
    /// It may name the budget now and could not before; else the other way round.
    pub gains: bool,
}

/// Changed, unchanged, or refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowResult {
    /// It is so now.
    Changed,
    /// It was so before.
    Unchanged,
    /// It stays as it was.
    Refused(RowProblem),
}

/// From this id on, budgets are made from templates on their first ask.
const MADE_ID_MIN: u64 = 1 << 62;

/// Why a budget cannot be changed that is not among those of the file.
fn no_budget(id: u64) -> String {
    match id < MADE_ID_MIN {
        true => format!("there is no budget {id}"),
        false => format!(
            "budget {id} cannot be changed alone: it is made from a template on its first ask; change the template in the budgets file"
        ),
    }
}

/// Why a row stays as it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RowProblem {
    /// There is no such budget, or none that can be changed alone.
    #[error("{}", no_budget(*.0))]
    Unknown(u64),
    /// A budget with this id exists.
    #[error("there is a budget {0} already; choose another id")]
    Exists(u64),
    /// Another live budget has the handle.
    #[error(
        "handle: found {handle:?}, which is that of budget {holder}; a handle names one live budget: choose another, or rename \
         budget {holder} first"
    )]
    HandleTaken {
        /// What was asked for.
        handle: String,
        /// The budget that has it.
        holder: u64,
    },
    /// It changed since the caller looked.
    #[error(
        "the budget is at revision {found}, expected {expected}; read it again and decide anew"
    )]
    Revision {
        /// Its revision.
        found: u64,
        /// What the caller wanted.
        expected: u64,
    },
    /// A field that cannot be what was asked for: which, what was found, what was expected.
    #[error("{0}")]
    Field(String),
}

/// What the board does not hold of a budget.
#[derive(Clone, Debug, Default)]
pub struct Detail {
    /// Its lines, base units.
    pub lines: Lines,
    /// Its amounts and windows as at the moment of the lines, with no word about how it stands; `None`: those of the board are.
    pub amounts: Option<State>,
    /// Holds since the start of the run.
    pub holds: Holds,
    /// Frequency caps of its campaign.
    pub caps: Vec<Cap>,
    /// Its windows, the shortest first.
    pub windows: Vec<WindowState>,
    /// Its named holds.
    pub named_holds: NamedHolds,
}

/// The named holds that a budget and those under it have legs of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedHolds {
    /// These legs.
    pub count: u32,
    /// What they hold, base units: a part of its held line.
    pub hold: Amount,
}

/// How a window of a budget stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowState {
    /// `minute`, `hour`, `day`, `week` or `month`.
    pub period: &'static str,
    /// It refills all the time; else it is whole again at its end.
    pub bucket: bool,
    /// What may be handed out in it, base units.
    pub limit: Amount,
    /// What was, and did not come back.
    pub used: Amount,
    /// First instant after it, ms since 1970 UTC: in the past where nobody asked since. Of a bucket now.
    pub ends_ms: u64,
}

/// The lines of a budget's books, base units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "the words of docs/ledger.md")]
pub struct Lines {
    pub free: Amount,
    pub purses: Amount,
    /// Unconfirmed and confirmed.
    pub held: Amount,
    pub suspended: Amount,
    pub expired: Amount,
    pub settled: Amount,
    pub over_settled: Amount,
    pub late: Amount,
    pub inferred: Amount,
    pub unknown_order: Amount,
}

/// What became of a budget's own holds (not those of budgets under it) since the start of the run; counts, `None` where nobody
/// counts it. Every hold of the run is open, settled, released or expired.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the words of docs/ledger.md")]
pub struct Holds {
    pub made: u64,
    /// Their time is not over, and nobody settled or released them.
    pub open: Option<u64>,
    /// Settled, and the hold's money was still set aside. Those of earlier runs are counted too.
    pub settled: Option<u64>,
    /// Released, as above.
    pub released: Option<u64>,
    /// Their time is over, and nobody settled or released them: unconfirmed at their deadline, or confirmed and not billed in
    /// the billing window. Where expired money is kept, one that is settled or released afterwards is no longer counted.
    pub expired: Option<u64>,
    /// Settled when their money was gone: of the expired or the released ones.
    pub late: Option<u64>,
}

/// A frequency cap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cap {
    /// So many impressions...
    pub max: u32,
    /// ...in this time, as configured (`"1d"`).
    pub per: String,
    /// Of the campaign, or of one of its creatives.
    pub of: String,
}

/// What became of a budget's asks.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Refusals {
    /// Counts since the start of the run, by verdict (`paced`), most first.
    pub verdicts: Vec<(String, u64)>,
    /// One request in so many is surveyed for `why`, and the first of each 10 ms; 0: none.
    pub survey_every: u64,
    /// Impressions auctioned since the campaigns last changed...
    pub auctioned: u64,
    /// ...and those of them that were surveyed.
    pub surveyed: u64,
    /// Why the campaign did not bid, surveyed, most first. Counted since the campaigns last changed.
    pub why: Vec<(String, u64)>,
    /// The last asks that got nothing, newest first: those of the budget and of budgets under it, among the last `recent_of`
    /// refused asks of the node.
    pub recent: Vec<Refused>,
    /// See `recent`.
    pub recent_of: u64,
}

/// One refused ask.
#[derive(Clone, Debug, Serialize)]
pub struct Refused {
    /// When, ms since 1970 UTC.
    pub at_ms: u64,
    /// The verdict.
    pub verdict: String,
    /// Whom it named: the budget, or one under it.
    pub budget: u64,
}

/// A change that somebody made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditRecord {
    /// Its number; numbers rise.
    pub record: u64,
    /// When, ms since 1970 UTC.
    pub at_ms: u64,
    /// Who.
    pub who: String,
    /// What.
    pub action: Action,
    /// Why.
    pub why: String,
    /// The record that it took back.
    pub undo_of: Option<u64>,
    /// The record that took it back.
    pub undone_by: Option<u64>,
    /// The number of budgets it changed.
    pub rows: usize,
    /// These, perhaps not all.
    pub changes: Vec<AuditRow>,
    /// The FIX session that it is about, in place of budgets.
    pub session: Option<AuditSession>,
    /// How many budgets the budgets file changed, where it is that which did.
    pub file: Option<FileChange>,
}

/// How many budgets one load of the budgets file changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileChange {
    /// The file names them, and did not before.
    pub added: usize,
    /// A field that [`EDITABLE`] has is another.
    pub changed: usize,
    /// The file left them out.
    pub ended: usize,
}

impl FileChange {
    /// All of them.
    #[must_use]
    pub const fn total(self) -> usize {
        self.added + self.changed + self.ended
    }
}

/// What was done to a FIX session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AuditSession {
    /// Its name.
    pub name: String,
    /// Its numbers before...
    pub before: Fields,
    /// ...and after; or what was asked of its peer.
    pub after: Fields,
}

/// The changes of one budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AuditRow {
    /// The budget.
    pub id: u64,
    /// The changed fields before...
    pub before: Fields,
    /// ...and after.
    pub after: Fields,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::LargeChange::{Goes, Grows};
    use super::*;

    #[test]
    fn more_than_a_hundred_times_is_large_and_a_hundred_times_is_not() {
        let usd = Unit::parse("USD").unwrap();
        let large = |before: Value, after: Value| {
            let fields = |of: &Value| of.as_object().unwrap().clone();
            large_change(usd, &fields(&before), &fields(&after))
        };
        let limit = |of: Value| json!({ "limit": of });
        assert_eq!(large(limit(json!("1.5")), limit(json!("150.00"))), None);
        assert_eq!(large(limit(json!("1.5")), limit(json!("150.000001"))), Some(Grows("limit")));
        assert_eq!(
            large(limit(json!(10_100)), limit(json!(10_100_000_000_u64))),
            Some(Grows("limit"))
        );
        assert_eq!(large(limit(json!("150.01")), limit(json!("1.5"))), None, "down");
        assert_eq!(large(limit(json!("0")), limit(json!("5000"))), None);
        assert_eq!(large(json!({"daily": null}), json!({"daily": "5000"})), None);
        assert_eq!(large(json!({"daily": "1"}), json!({"daily": "101"})), Some(Grows("daily")));
        assert_eq!(large(json!({}), limit(json!("5000"))), None, "a new budget");
        let windows = |of: Value| json!({ "windows": of });
        let minute = windows(json!({"minute": "1", "month": "7"}));
        assert_eq!(large(minute.clone(), windows(json!({"minute": "100", "month": "7"}))), None);
        assert_eq!(
            large(minute.clone(), windows(json!({"minute": "101"}))),
            Some(Grows("windows"))
        );
        let bucket = windows(json!({"minute": {"limit": "101", "kind": "bucket"}}));
        assert_eq!(large(minute, bucket), Some(Grows("windows")));
        let (day, table) = (json!({"daily": "1"}), windows(json!("day=5000; minute=2b")));
        assert_eq!(
            large(day.clone(), table.clone()),
            Some(Grows("windows")),
            "daily is the day's window"
        );
        assert_eq!(large(table, json!({"daily": "500000.01"})), Some(Grows("daily")));
        assert_eq!(
            large(windows(json!("minute=2b")), windows(json!("minute=201 b"))),
            Some(Grows("windows"))
        );
    }
    #[test]
    fn a_limit_that_goes_is_large() {
        let usd = Unit::parse("USD").unwrap();
        let large = |before: Value, after: Value| {
            let fields = |of: &Value| of.as_object().unwrap().clone();
            large_change(usd, &fields(&before), &fields(&after))
        };
        let windows = |of: Value| json!({ "windows": of });
        let goes = |field: &'static str, periods: &[&str]| {
            Some(Goes(field, periods.iter().map(|of| (*of).to_owned()).collect()))
        };
        let three =
            windows(json!({"hour": "1", "minute": "1", "month": {"limit": "7", "kind": "bucket"}}));
        let one = windows(json!({"minute": "0.5"}));
        assert_eq!(large(three.clone(), one.clone()), goes("windows", &["hour", "month"]));
        assert_eq!(large(one.clone(), three.clone()), None, "limits that are new");
        for none in [json!(null), json!({}), json!(""), json!({"minute": null})] {
            assert_eq!(large(one.clone(), windows(none)), goes("windows", &["minute"]));
        }
        assert_eq!(
            large(windows(json!("minute=0")), windows(json!(null))),
            goes("windows", &["minute"])
        );
        let daily = |of: Value| json!({ "daily": of });
        assert_eq!(large(daily(json!("5")), daily(json!(null))), goes("daily", &["day"]));
        let (to, back) = (
            json!({"daily": null, "windows": {"day": "5"}}),
            json!({"daily": "5", "windows": null}),
        );
        assert_eq!(large(back.clone(), to.clone()), None, "the day has it elsewhere");
        assert_eq!(large(to, back), None);
        assert_eq!(
            large(json!({"limit": "5", "windows": {"day": "5"}}), json!({})),
            None,
            "it ends"
        );
    }
}
