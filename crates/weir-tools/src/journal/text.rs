//! Records as lines for people and as JSON.

use door_fix::gate::kill::Kill;
use ledger::{
    Amount, BudgetSpec, Clock, Door, EditAction, KeptWith, Line, Memo, NamedHold, NamedLeg,
    OnExpiry, Period, Record, Status, TimedChange, Verdict, WindowKind,
};
use money::{Instant, Unit};
use serde_json::{Value, json};
use wire::Handle;

use super::trail::Known;

/// What records are called.
pub(super) const TYPES: [&str; 37] = [
    "run_started",
    "budget",
    "budget_ended",
    "day_rolled",
    "period_rolled",
    "granted",
    "returned",
    "confirmed",
    "settled",
    "settled_over",
    "settled_late",
    "released",
    "billing_lapsed",
    "expired",
    "reconciled",
    "retired",
    "suspended",
    "resumed",
    "grant_closed",
    "key_added",
    "key_retired",
    "operator",
    "edited",
    "budget_idled",
    "budget_forgotten",
    "window_rolled",
    "answered",
    "answer_secret",
    "memo",
    "topped_up",
    "clicked",
    "named",
    "named_ended",
    "timed",
    "beat",
    "handover",
    "kept",
];

/// The type of a record, one of [`TYPES`].
pub(super) fn type_of(record: &Record) -> &'static str {
    match record {
        Record::RunStarted { .. } => "run_started",
        Record::Beat { .. } => "beat",
        Record::Handover { .. } => "handover",
        Record::Kept { .. } => "kept",
        Record::Budget { .. } => "budget",
        Record::BudgetEnded { .. } => "budget_ended",
        Record::DayRolled { .. } => "day_rolled",
        Record::PeriodRolled { .. } => "period_rolled",
        Record::WindowRolled { .. } => "window_rolled",
        Record::Granted { .. } => "granted",
        Record::Returned { .. } => "returned",
        Record::Resolved { verdict: Verdict::Granted, .. } => "answered",
        Record::Resolved { verdict, .. } => verdict.name(),
        Record::BillingLapsed { .. } => "billing_lapsed",
        Record::Expired { .. } => "expired",
        Record::Reconciled { .. } => "reconciled",
        Record::Retired { .. } => "retired",
        Record::Suspended { .. } => "suspended",
        Record::Resumed { .. } => "resumed",
        Record::GrantClosed { .. } => "grant_closed",
        Record::KeyAdded { .. } => "key_added",
        Record::KeyRetired { .. } => "key_retired",
        Record::AnswerSecret { .. } => "answer_secret",
        Record::Memo { .. } => "memo",
        Record::ToppedUp { .. } => "topped_up",
        Record::Clicked { .. } => "clicked",
        Record::Named { .. } => "named",
        Record::NamedEnded { .. } => "named_ended",
        Record::Timed(_) => "timed",
        Record::Operator { .. } => "operator",
        Record::Edited { .. } => "edited",
        Record::BudgetIdled { .. } => "budget_idled",
        Record::BudgetForgotten { .. } => "budget_forgotten",
    }
}

/// The grant that a record is about.
pub(super) fn grant_of(record: &Record) -> Option<u64> {
    match record {
        Record::Granted { grant, .. }
        | Record::Returned { grant, .. }
        | Record::BillingLapsed { grant, .. }
        | Record::Expired { grant, .. }
        | Record::Reconciled { grant, .. }
        | Record::Retired { grant, .. }
        | Record::Suspended { grant, .. }
        | Record::Resumed { grant, .. }
        | Record::GrantClosed { grant } => Some(*grant),
        Record::Resolved { hold, .. }
        | Record::ToppedUp { hold, .. }
        | Record::Clicked { hold, .. } => Some(hold.grant),
        _ => None,
    }
}

/// The budgets that a record is about, as far as they are known.
pub(super) fn budgets_of(record: &Record, known: &Known) -> Vec<u64> {
    match record {
        Record::Named { hold, .. } => hold.legs.iter().map(|leg| leg.budget).collect(),
        Record::Timed(change) => change.row.hold.legs.iter().map(|leg| leg.budget).collect(),
        other => budget_of(other, known).into_iter().collect(),
    }
}

/// The budget that a record is about, where that is known, and it is only one.
pub(super) fn budget_of(record: &Record, known: &Known) -> Option<u64> {
    match record {
        Record::Budget { spec } => Some(spec.id),
        Record::BudgetEnded { id }
        | Record::BudgetIdled { id }
        | Record::BudgetForgotten { id }
        | Record::DayRolled { id, .. }
        | Record::PeriodRolled { id, .. }
        | Record::WindowRolled { id, .. } => Some(*id),
        Record::Granted { budget, .. } | Record::Edited { budget, .. } => Some(*budget),
        other => known.budget_of(grant_of(other)?),
    }
}

/// Named values in the order they are shown.
pub(super) type Fields = Vec<(&'static str, Value)>;

/// One JSON object, its fields in order.
pub(super) fn json(fields: &Fields) -> String {
    let pairs: Vec<String> =
        fields.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    format!("{{{}}}", pairs.join(","))
}

/// A value without quotes; nothing for null.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// RFC 3339, UTC.
pub(super) fn time(at_ms: u64) -> String {
    Instant::from_ms(at_ms).to_string()
}

/// An amount as decimal text; in base units where the unit is not known.
pub(super) fn amount(unit: Option<Unit>, amount: impl Into<i128>) -> String {
    let amount = amount.into();
    match (unit, i64::try_from(amount)) {
        (Some(unit), Ok(small)) => unit.format(Amount::new(small)),
        // A sum over many budgets may be beyond what one amount can be.
        (Some(unit @ Unit::Currency(..)), Err(_)) => {
            let (sign, size) = (if amount < 0 { "-" } else { "" }, amount.unsigned_abs());
            let decimals = unit.decimals();
            let one = (0..decimals).fold(1, |one, _| one * 10);
            format!("{sign}{}.{:0decimals$}", size / one, size % one)
        }
        _ => amount.to_string(),
    }
}

/// The name of a door.
pub(super) fn door(door: Door) -> &'static str {
    match door {
        Door::Batch => "batch",
        Door::Openrtb => "openrtb",
        Door::Fix => "fix",
        Door::Keys => "keys",
        Door::Admin => "admin",
        Door::Spend => "spend",
    }
}

/// What a record says. Never the bytes of a key.
pub(super) fn fields(record: &Record, known: &Known) -> Fields {
    let mut all: Fields = Vec::new();
    let budget = budget_of(record, known);
    let unit = budget.and_then(|id| known.unit_of(id));
    if let Some(grant) = grant_of(record) {
        all.push(("grant", grant.into()));
    }
    if budget.is_some() || grant_of(record).is_some() {
        all.push(("budget", budget.into()));
        all.push(("unit", unit.map(|unit| unit.to_string()).into()));
    }
    let money = |value: &Amount| Value::from(amount(unit, value.get()));
    let at = |ms: &u64| Value::from(time(*ms));
    match record {
        Record::RunStarted {
            run,
            at_ms,
            suspended_until_ms,
            hold_ms_max,
            billing_ms,
            win_notices,
            lease_ms,
            node,
        } => {
            all.push(("run", (*run).into()));
            all.push(("at", at(at_ms)));
            all.push(("suspended_until", at(suspended_until_ms)));
            all.push(("hold_ms_max", (*hold_ms_max).into()));
            all.push(("billing_ms", (*billing_ms).into()));
            all.push(("win_notices", (*win_notices).into()));
            all.push(("lease_ms", (*lease_ms).into()));
            all.push(("node", node.as_ref().into()));
        }
        Record::Budget { spec } => budget_fields(spec, &mut all),
        Record::BudgetEnded { .. }
        | Record::BudgetIdled { .. }
        | Record::BudgetForgotten { .. }
        | Record::GrantClosed { .. } => {}
        Record::DayRolled { start_ms, end_ms, .. }
        | Record::PeriodRolled { start_ms, end_ms, .. } => {
            all.extend([("start", at(start_ms)), ("end", at(end_ms))]);
        }
        Record::WindowRolled { period, start_ms, end_ms, .. } => all.extend([
            ("period", period.name().into()),
            ("start", at(start_ms)),
            ("end", at(end_ms)),
        ]),
        Record::Granted { worker, amount, at_ms, .. } => {
            all.extend([
                ("amount", money(amount)),
                ("worker", (*worker).into()),
                ("at", at(at_ms)),
            ]);
        }
        Record::Returned { amount, .. } | Record::Resumed { amount, .. } => {
            all.push(("amount", money(amount)));
        }
        Record::Resolved { hold, amount, at_ms, origin, keeps_rest, clicked, kept, .. } => {
            all.push(("hold", hold.seq.into()));
            all.push(("held", money(&hold.amount)));
            all.push(("amount", money(amount)));
            all.push(("at", at(at_ms)));
            all.push(("deadline", at(&hold.deadline_ms)));
            all.push(("node", hold.node.into()));
            all.push(("door", door(origin.door).into()));
            all.push(("request_id", origin.request_id.into()));
            if *keeps_rest {
                all.push((
                    "rest_held",
                    money(&Amount::new(hold.amount.get().saturating_sub(amount.get()))),
                ));
            }
            if *clicked {
                all.push(("clicked", true.into()));
            }
            match kept.as_deref() {
                None => {}
                // Never the answer: it may hold a token.
                Some(KeptWith::Answer(kept)) => {
                    all.push(("key", format!("{:032x}", kept.key).into()));
                }
                Some(KeptWith::Memo(memo)) => all.extend(memo_fields(memo)),
            }
        }
        Record::ToppedUp { hold, verdict, amount, total, at_ms, origin, .. } => all.extend([
            ("outcome", verdict.name().into()),
            ("hold", hold.seq.into()),
            ("held", money(&hold.amount)),
            ("amount", money(amount)),
            ("total", money(total)),
            ("of_rest", money(&record.of_rest())),
            ("at", at(at_ms)),
            ("deadline", at(&hold.deadline_ms)),
            ("node", hold.node.into()),
            ("door", door(origin.door).into()),
            ("request_id", origin.request_id.into()),
        ]),
        Record::Clicked { hold, billed, at_ms, origin } => all.extend([
            ("hold", hold.seq.into()),
            ("held", money(&hold.amount)),
            ("billed", (*billed).into()),
            ("at", at(at_ms)),
            ("deadline", at(&hold.deadline_ms)),
            ("node", hold.node.into()),
            ("door", door(origin.door).into()),
            ("request_id", origin.request_id.into()),
        ]),
        Record::BillingLapsed { deadline_ms, amount, .. } => {
            all.extend([("amount", money(amount)), ("deadline", at(deadline_ms))]);
        }
        Record::Expired { clock, deadline_ms, amount, .. } => {
            let clock = match clock {
                Clock::Hold => "hold",
                Clock::Billing => "billing",
                Clock::Suspension => "suspension",
            };
            all.extend([
                ("amount", money(amount)),
                ("clock", clock.into()),
                ("deadline", at(deadline_ms)),
            ]);
        }
        Record::Reconciled { until_ms, amount, .. } => {
            all.extend([("amount", money(amount)), ("until", at(until_ms))]);
        }
        Record::Retired { deadline_ms, .. } => all.push(("deadline", at(deadline_ms))),
        Record::Suspended { until_ms, amount, .. } => {
            all.extend([("amount", money(amount)), ("until", at(until_ms))]);
        }
        Record::KeyAdded { key_id, at_ms, .. } => {
            all.extend([("key_id", (*key_id).into()), ("at", at(at_ms))]);
        }
        Record::AnswerSecret { at_ms, .. }
        | Record::Beat { at_ms }
        | Record::Handover { at_ms } => all.push(("at", at(at_ms))),
        // Never the bytes: they may be a key.
        Record::Kept { room, part, last, bytes } => all.extend([
            ("room", room.name().into()),
            ("part", (*part).into()),
            ("last", (*last).into()),
            ("bytes", bytes.len().into()),
        ]),
        Record::Memo { memo, at_ms } => {
            all.push(("at", at(at_ms)));
            all.extend(memo_fields(memo));
        }
        Record::Named { hold, fact, opens, at_ms } => {
            all.extend([
                ("at", at(at_ms)),
                ("door", door(hold.door).into()),
                ("key", format!("{:032x}", hold.key).into()),
                ("fact", (*fact).into()),
                ("opens", (*opens).into()),
                ("label", hold.label.as_ref().into()),
                ("legs", hold.legs.iter().map(|leg| leg_fields(leg, known)).collect()),
            ]);
        }
        Record::Timed(change) => {
            let TimedChange { row, opens, moved, at_ms, origin, kept } = &**change;
            let unit = row.hold.legs.first().and_then(|leg| known.unit_of(leg.budget));
            let moved = moved.map(|hold| format!("{}.{}", hold.grant, hold.seq));
            all.extend([
                ("at", at(at_ms)),
                ("door", door(origin.door).into()),
                ("key", format!("{:032x}", row.hold.key).into()),
                ("state", row.state.name().into()),
                ("opens", (*opens).into()),
                ("amount", amount(unit, row.amount.get()).into()),
                ("until", at(&row.until_ms)),
                ("moved", moved.into()),
                ("keyed", kept.is_some().into()),
                ("legs", row.hold.legs.iter().map(|leg| leg_fields(leg, known)).collect()),
            ]);
        }
        Record::NamedEnded { door: of, key, at_ms } => {
            let key = format!("{key:032x}").into();
            all.extend([("at", at(at_ms)), ("door", door(*of).into()), ("key", key)]);
        }
        Record::KeyRetired { key_id } => all.push(("key_id", (*key_id).into())),
        Record::Operator { at_ms, who, why } => {
            all.extend([
                ("at", at(at_ms)),
                ("who", who.as_ref().into()),
                ("why", why.as_ref().into()),
            ]);
        }
        Record::Edited { at_ms, record, action, before, after, .. } => {
            all.extend([
                ("at", at(at_ms)),
                ("edit", (*record).into()),
                ("action", edit_action(*action).into()),
                ("before", before.as_ref().into()),
                ("after", after.as_ref().into()),
            ]);
        }
    }
    all
}

/// What a leg of a named hold says.
fn leg_fields(leg: &NamedLeg, known: &Known) -> Value {
    let unit = known.unit_of(leg.budget);
    let spent = Line::SPENT.into_iter().zip(leg.amounts.spent);
    let lines = std::iter::once((Line::Held, leg.amounts.hold)).chain(spent);
    let mut all: serde_json::Map<String, Value> = lines
        .map(|(line, value)| (line.name().to_string(), amount(unit, value.get()).into()))
        .collect();
    all.insert("budget".to_string(), leg.budget.into());
    all.into()
}

/// Tells in words what a memo says; `None` where it cannot be read.
type MemoPrinter = fn(&[u8]) -> Option<String>;

/// How doors' memos are told; their bytes mean something to their door alone.
const MEMO_PRINTERS: [(Door, MemoPrinter); 1] = [(Door::Fix, |bytes| {
    let checkpoint = fix_store::Checkpoint::from_bytes(bytes).map(|found| found.to_string());
    checkpoint.or_else(|| Kill::from_bytes(bytes).map(|found| found.to_string()))
})];

/// A door's memo, and what it says where the door has a printer that can read it.
fn memo_fields(memo: &Memo) -> Vec<(&'static str, Value)> {
    let hex: String = memo.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut fields = vec![
        ("memo_door", door(memo.door).into()),
        ("memo_key", format!("{:032x}", memo.key).into()),
        ("memo", hex.into()),
    ];
    let printer = MEMO_PRINTERS.iter().find(|(door, _)| *door == memo.door);
    let text = printer.and_then(|(_, print)| print(&memo.bytes));
    fields.extend(text.map(|text| ("memo_text", text.into())));
    fields
}

fn edit_action(action: EditAction) -> &'static str {
    match action {
        EditAction::Create => "create",
        EditAction::Set => "set",
        EditAction::Pause => "pause",
        EditAction::Resume => "resume",
        EditAction::Undo => "undo",
    }
}

fn budget_fields(spec: &BudgetSpec, all: &mut Fields) {
    let money = |value: Amount| Value::from(amount(Some(spec.unit), value.get()));
    let status = match spec.status {
        Status::Active => "active",
        Status::Paused => "paused",
        Status::Ended => "ended",
    };
    let windows = spec
        .windows
        .all()
        .iter()
        .filter(|window| window.period != Period::Day || window.kind == WindowKind::Bucket);
    let windows: serde_json::Map<String, Value> = windows
        .map(|window| {
            let limit = match window.kind {
                WindowKind::Fixed => money(window.limit),
                WindowKind::Bucket => json!({"limit": money(window.limit), "kind": "bucket"}),
            };
            (window.period.name().to_string(), limit)
        })
        .collect();
    let on_expiry = match spec.on_expiry {
        OnExpiry::Hold => "hold",
        OnExpiry::Release => "release",
    };
    all.extend([
        ("limit", money(spec.limit)),
        ("daily", spec.windows.day_limit().map(money).into()),
        ("windows", (!windows.is_empty()).then_some(windows).into()),
        ("start", spec.start.to_string().into()),
        ("end", spec.end.to_string().into()),
        ("zone", spec.zone.name().into()),
        ("status", status.into()),
        ("parent", spec.parent.into()),
        ("late_reserve_bp", spec.late_reserve_bp.into()),
        ("on_expiry", on_expiry.into()),
        ("tolerance_ppm", spec.tolerance_ppm.into()),
        ("handle", spec.handle.as_ref().map(ToString::to_string).into()),
    ]);
}

/// A settlement, or what a later price added to one: what of its amount is spent within the hold, above it, and after it was gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) settled: i128,
    pub(super) over: i128,
    pub(super) late: i128,
    pub(super) inferred: i128,
    pub(super) unknown: i128,
}

impl Spent {
    pub(super) fn of(record: &Record) -> Option<Spent> {
        if let Record::ToppedUp { verdict, amount, .. } = record {
            let settled = i128::from(record.of_rest().get());
            let more = i128::from(amount.get()) - settled;
            return Some(match verdict {
                Verdict::SettledLate => Spent { settled, late: more, ..Spent::default() },
                _ => Spent { settled, over: more, ..Spent::default() },
            });
        }
        let Record::Resolved { hold, verdict, amount, .. } = record else { return None };
        let (held, amount) = (i128::from(hold.amount.get()), i128::from(amount.get()));
        match verdict {
            Verdict::Settled => Some(Spent { settled: amount, ..Spent::default() }),
            Verdict::SettledOver => {
                let over = (amount - held).max(0);
                Some(Spent { settled: held.min(amount), over, ..Spent::default() })
            }
            Verdict::SettledLate => Some(Spent { late: amount, ..Spent::default() }),
            _ => None,
        }
    }

    /// In the order of [`Line::SPENT`].
    pub(super) fn from_lines([settled, over, late, inferred, unknown]: [i128; 5]) -> Spent {
        Spent { settled, over, late, inferred, unknown }
    }

    /// In the same order.
    pub(super) fn lines(&self) -> [i128; 5] {
        [self.settled, self.over, self.late, self.inferred, self.unknown]
    }

    pub(super) fn total(&self) -> i128 {
        self.lines().into_iter().sum()
    }

    pub(super) fn add(&mut self, more: &Spent) {
        self.settled += more.settled;
        self.over += more.over;
        self.late += more.late;
        self.inferred += more.inferred;
        self.unknown += more.unknown;
    }
}

/// Names of the fields of a settlement.
pub(super) const SETTLEMENT: [&str; 19] = [
    "sequence",
    "budget",
    "unit",
    "outcome",
    "amount",
    "held",
    "over",
    "late",
    "at",
    "grant",
    "hold",
    "node",
    "door",
    "request_id",
    "deadline",
    "handle",
    "inferred",
    "unknown_order",
    "order",
];

/// A settlement as finance gets it.
pub(super) fn settlement(sequence: u64, record: &Record, known: &Known) -> Option<Fields> {
    let spent = Spent::of(record)?;
    let (Record::Resolved { hold, amount: total, at_ms, origin, .. }
    | Record::ToppedUp { hold, amount: total, at_ms, origin, .. }) = record
    else {
        return None;
    };
    let budget = known.budget_of(hold.grant);
    let unit = budget.and_then(|id| known.unit_of(id));
    let money = |value: i128| Value::from(amount(unit, value));
    let values: [Value; 19] = [
        sequence.into(),
        budget.into(),
        unit.map(|unit| unit.to_string()).into(),
        type_of(record).into(),
        money(total.get().into()),
        money(hold.amount.get().into()),
        money(spent.over),
        money(spent.late),
        time(*at_ms).into(),
        hold.grant.into(),
        hold.seq.into(),
        hold.node.into(),
        door(origin.door).into(),
        origin.request_id.into(),
        time(hold.deadline_ms).into(),
        budget.and_then(|id| known.handle_of(id)).map(Handle::as_str).into(),
        money(spent.inferred),
        money(spent.unknown),
        Value::Null,
    ];
    Some(SETTLEMENT.into_iter().zip(values).collect())
}

/// What a leg of a named hold booked or was credited, as finance gets it.
pub(super) fn leg_settlement(
    sequence: u64,
    (hold, leg, at_ms): (&NamedHold, &NamedLeg, u64),
    spent: &Spent,
    known: &Known,
) -> Fields {
    let unit = known.unit_of(leg.budget);
    let money = |value: i128| Value::from(amount(unit, value));
    let handle = known.handle_of(leg.budget).map(Handle::as_str);
    let told = [
        ("sequence", sequence.into()),
        ("budget", leg.budget.into()),
        ("unit", unit.map(|unit| unit.to_string()).into()),
        ("outcome", "named".into()),
        ("amount", money(spent.total())),
        ("held", money(leg.amounts.hold.get().into())),
        ("over", money(spent.over)),
        ("late", money(spent.late)),
        ("at", time(at_ms).into()),
        ("door", door(hold.door).into()),
        ("handle", handle.into()),
        ("inferred", money(spent.inferred)),
        ("unknown_order", money(spent.unknown)),
        ("order", format!("{:032x}", hold.key).into()),
    ];
    let value = |name| told.iter().find(|(of, _)| *of == name).map(|(_, value)| value.clone());
    SETTLEMENT.into_iter().map(|name| (name, value(name).unwrap_or(Value::Null))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Hold, KeyBytes, Origin};

    #[test]
    fn a_memo_is_shown_as_hex_alone_and_with_its_money() {
        let memo = Memo { door: Door::Fix, key: 0xF1, bytes: [0, 255][..].into() };
        let shown =
            r#""memo_door":"fix","memo_key":"000000000000000000000000000000f1","memo":"00ff"}"#;
        let alone = Record::Memo { memo: Box::new(memo.clone()), at_ms: 1_000 };
        assert_eq!(type_of(&alone), "memo");
        let fields_of = |record| json(&fields(&record, &Known::default()));
        let head = r#"{"at":"1970-01-01T00:00:01Z","#;
        assert_eq!(fields_of(alone), format!("{head}{shown}"));
        let hold = Hold { grant: 1, seq: 2, node: 1, deadline_ms: 3, amount: Amount::new(4) };
        let origin = Origin { door: Door::Fix, request_id: 5 };
        let with_money = Record::Resolved {
            hold,
            verdict: Verdict::Settled,
            amount: Amount::new(4),
            at_ms: 5,
            origin,
            keeps_rest: false,
            clicked: false,
            kept: Some(Box::new(KeptWith::Memo(memo))),
        };
        assert!(TYPES.contains(&type_of(&with_money)));
        assert!(fields_of(with_money).ends_with(&format!(r#""request_id":5,{shown}"#)));
    }

    #[test]
    fn memos_of_the_fix_door_are_told_in_words_too() {
        // A session "A" of 1970 that has sent 6 messages and got 4.
        let numbers = [7_u64, 5, 0, 0, 0, 1, 640, 0, 0, 0, 0, 0];
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        let checkpoint: Vec<u8> = [1, 0, 1, 0, b'A'].into_iter().chain(numbers).collect();
        let kill = [b"K\x02\x07\0\0\0\0\0\0\0\x03ada\x04ACME".as_slice(), b"why"].concat();
        for (bytes, expected) in [
            (checkpoint, "A: next out 7, next in 5, file 1 up to 640"),
            (kill, "orders of the firm ACME are stopped by ada: why"),
        ] {
            let memo = Memo { door: Door::Fix, key: 1, bytes: bytes.into() };
            let record = Record::Memo { memo: Box::new(memo), at_ms: 1_000 };
            let told = json(&fields(&record, &Known::default()));
            assert!(told.ends_with(&format!(r#""memo_text":"{expected}"}}"#)), "{told}");
        }
    }

    #[test]
    fn keys_are_never_shown() {
        let record = Record::KeyAdded { key_id: 3, key: KeyBytes([0xAB; 16]), at_ms: 1_000 };
        let shown = json(&fields(&record, &Known::default()));
        assert_eq!(shown, r#"{"key_id":3,"at":"1970-01-01T00:00:01Z"}"#);
    }

    #[test]
    fn settlements_are_split() {
        let hold = Hold { grant: 1, seq: 2, node: 3, deadline_ms: 4, amount: Amount::new(10) };
        let origin = Origin { door: Door::Batch, request_id: 0 };
        let lines =
            |[settled, over, late]: [i128; 3]| Spent { settled, over, late, ..Spent::default() };
        let spent = |verdict, amount| {
            let amount = Amount::new(amount);
            Spent::of(&Record::Resolved {
                hold,
                verdict,
                amount,
                at_ms: 5,
                origin,
                keeps_rest: false,
                clicked: false,
                kept: None,
            })
        };
        assert_eq!(spent(Verdict::Settled, 7), Some(lines([7, 0, 0])));
        assert_eq!(spent(Verdict::SettledOver, 12), Some(lines([10, 2, 0])));
        assert_eq!(spent(Verdict::SettledLate, 12), Some(lines([0, 0, 12])));
        assert_eq!(spent(Verdict::Released, 0), None);
        let topped_up = |verdict, uses_rest| {
            let (amount, total) = (Amount::new(5), Amount::new(11));
            Record::ToppedUp { hold, verdict, amount, total, uses_rest, at_ms: 5, origin }
        };
        let (over, late) =
            (topped_up(Verdict::SettledOver, false), topped_up(Verdict::SettledLate, false));
        let of_rest = topped_up(Verdict::SettledOver, true);
        assert_eq!(Spent::of(&of_rest), Some(lines([4, 1, 0])));
        assert_eq!(Spent::of(&over), Some(lines([0, 5, 0])));
        assert_eq!(Spent::of(&late), Some(lines([0, 0, 5])));
        let row = settlement(9, &over, &Known::default()).unwrap();
        let of = |name| row.iter().find(|(known, _)| *known == name).unwrap().1.to_string();
        let told = [of("outcome"), of("amount"), of("over")];
        assert_eq!(told, [r#""topped_up""#, r#""5""#, r#""5""#]);
    }

    #[test]
    fn sums_beyond_an_amount_are_shown() {
        let usd = Unit::parse("USD").ok();
        assert_eq!(amount(usd, 1_500_000i64), "1.50");
        assert_eq!(amount(usd, -20_000_000_000_000_000_001i128), "-20000000000000.000001");
        assert_eq!(amount(None, 12i64), "12");
    }
}
