//! Records and parts of snapshots as messages of `schema/journal.xml`.

use std::cell::RefCell;

use ledger::{
    Amount, BudgetSpec, Clock, Door, EditAction, Hold, KeyBytes, LedgerEvidence, OnExpiry, Origin,
    Part, Period, PeriodCap, Record, Status, TokenKey, Verdict,
};
use money::{Instant, Unit, Zone, ZoneCache};
use wire::EncodeError;
use wire::journal::{self as schema, Message as View, *};

/// Something that is written as a message.
pub trait Message {
    /// Writes it to the front of a buffer of `RECORD_BYTES_MAX` bytes; returns its length.
    fn write(&self, buf: &mut [u8]) -> usize;
}

const FITS: &str = "texts and groups of a message are bounded where they are made";

impl Message for Record {
    #[inline]
    fn write(&self, buf: &mut [u8]) -> usize {
        match self {
            // The most frequent ones first, and here: everything else may cost a call.
            Record::Resolved { hold, verdict, amount, at_ms, origin } => {
                let outcome = Outcome::from_raw(verdict.as_raw()).expect("a verdict that books");
                let door =
                    schema::Door::from_raw(origin.door as u8).expect("doors are numbered alike");
                let block = resolved::Block::new(
                    hold.grant,
                    hold.deadline_ms,
                    hold.amount.get(),
                    amount.get(),
                    *at_ms,
                    origin.request_id,
                    hold.seq,
                    hold.node,
                    outcome,
                    door,
                );
                resolved::encode(buf, &block).expect(FITS).finish()
            }
            other => write_other(other, buf).expect(FITS),
        }
    }
}

#[inline(never)]
fn write_other(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(match record {
        Record::Resolved { .. } => unreachable!("written by the caller"),
        Record::RunStarted {
            run,
            at_ms,
            suspended_until_ms,
            hold_ms_max,
            billing_ms,
            win_notices,
        } => {
            let block = run_started::Block::new(
                *at_ms,
                *suspended_until_ms,
                *hold_ms_max,
                *billing_ms,
                *run,
                run_flags(*win_notices),
            );
            run_started::encode(buf, &block)?.finish()
        }
        Record::Budget { spec } => write_budget(spec, buf)?,
        Record::BudgetEnded { id } => {
            budget_ended::encode(buf, &budget_ended::Block::new(*id))?.finish()
        }
        Record::DayRolled { id, start_ms, end_ms } => {
            day_rolled::encode(buf, &day_rolled::Block::new(*id, *start_ms, *end_ms))?.finish()
        }
        Record::PeriodRolled { id, start_ms, end_ms } => {
            let block = period_rolled::Block::new(*id, *start_ms, *end_ms);
            period_rolled::encode(buf, &block)?.finish()
        }
        Record::Granted { grant, budget, worker, amount, at_ms } => {
            let block = granted::Block::new(*grant, *budget, amount.get(), *at_ms, *worker);
            granted::encode(buf, &block)?.finish()
        }
        Record::Returned { grant, amount } => {
            returned::encode(buf, &returned::Block::new(*grant, amount.get()))?.finish()
        }
        Record::BillingLapsed { grant, deadline_ms, amount } => {
            let block = billing_lapsed::Block::new(*grant, *deadline_ms, amount.get());
            billing_lapsed::encode(buf, &block)?.finish()
        }
        Record::Expired { grant, clock, deadline_ms, amount } => {
            let clock = schema::Clock::from_raw(*clock as u8).expect("clocks are numbered alike");
            let block = expired::Block::new(*grant, *deadline_ms, amount.get(), clock);
            expired::encode(buf, &block)?.finish()
        }
        Record::Reconciled { grant, until_ms, amount } => {
            let block = reconciled::Block::new(*grant, *until_ms, amount.get());
            reconciled::encode(buf, &block)?.finish()
        }
        Record::Retired { grant, deadline_ms } => {
            retired::encode(buf, &retired::Block::new(*grant, *deadline_ms))?.finish()
        }
        Record::Suspended { grant, until_ms, amount } => {
            let block = suspended::Block::new(*grant, *until_ms, amount.get());
            suspended::encode(buf, &block)?.finish()
        }
        Record::Resumed { grant, amount } => {
            resumed::encode(buf, &resumed::Block::new(*grant, amount.get()))?.finish()
        }
        Record::GrantClosed { grant } => {
            grant_closed::encode(buf, &grant_closed::Block::new(*grant))?.finish()
        }
        Record::KeyAdded { key_id, key, at_ms } => {
            key_added::encode(buf, &key_added::Block::new(*at_ms, key.0, *key_id))?.finish()
        }
        Record::KeyRetired { key_id } => {
            key_retired::encode(buf, &key_retired::Block::new(*key_id))?.finish()
        }
        Record::Operator { at_ms, who, why } => {
            operator::encode(buf, &operator::Block::new(*at_ms))?.who(who)?.why(why)?.finish()
        }
        Record::Edited { at_ms, record, budget, action, before, after } => {
            let action =
                schema::EditAction::from_raw(*action as u8).expect("actions are numbered alike");
            let block = edited::Block::new(*at_ms, *record, *budget, action);
            edited::encode(buf, &block)?.before(before)?.after(after)?.finish()
        }
    })
}

fn run_flags(win_notices: bool) -> RunFlags {
    if win_notices { RunFlags::NONE } else { RunFlags::NO_WIN_NOTICES }
}

/// Runs of the first journals are without flags: whoever won said so.
fn win_notices(flags: Option<RunFlags>) -> bool {
    !flags.unwrap_or(RunFlags::NONE).no_win_notices()
}

fn write_budget(spec: &BudgetSpec, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let status = match spec.status {
        Status::Active => schema::Status::Active,
        Status::Paused => schema::Status::Paused,
        Status::Ended => schema::Status::Ended,
    };
    let mut flags = BudgetFlags::NONE;
    if spec.daily.is_some() {
        flags = flags.with(BudgetFlags::HAS_DAILY);
    }
    if spec.parent.is_some() {
        flags = flags.with(BudgetFlags::HAS_PARENT);
    }
    if spec.on_expiry == OnExpiry::Hold {
        flags = flags.with(BudgetFlags::HOLDS);
    }
    if let Some(PeriodCap { period, .. }) = spec.period {
        flags = flags.with(match period {
            Period::Week => BudgetFlags::CAPS_WEEK,
            Period::Month => BudgetFlags::CAPS_MONTH,
        });
    }
    let block = budget::Block::new(
        spec.id,
        spec.parent.unwrap_or(0),
        spec.limit.get(),
        spec.daily.map_or(0, Amount::get),
        spec.start.ms(),
        spec.end.ms(),
        spec.unit.to_code(),
        spec.late_reserve_bp,
        status,
        flags,
        spec.tolerance_ppm,
        spec.period.map_or(0, |period| period.cap.get()),
    );
    Ok(budget::encode(buf, &block)?.zone(spec.zone.name())?.finish())
}

/// Reads a record.
///
/// # Errors
/// What is wrong with the message.
#[inline]
pub(crate) fn record(message: &[u8]) -> Result<Record, String> {
    let view = View::decode(message).map_err(|error| error.to_string())?;
    if let View::Resolved(view) = &view {
        return resolved_record(view);
    }
    other_record(&view)
}

#[inline]
fn resolved_record(view: &Resolved<'_>) -> Result<Record, String> {
    let verdict = view.outcome().and_then(|outcome| Verdict::from_raw(outcome.as_raw()));
    let verdict = verdict.ok_or_else(|| unknown("outcome", view.outcome_raw()))?;
    let door = view.door().map(door).ok_or_else(|| unknown("door", view.door_raw()))?;
    let hold = Hold {
        grant: view.grant(),
        seq: view.seq(),
        node: view.node(),
        deadline_ms: view.deadline_ms(),
        amount: Amount::new(view.held()),
    };
    let origin = Origin { door, request_id: view.request_id() };
    let (amount, at_ms) = (Amount::new(view.amount()), view.at_ms());
    Ok(Record::Resolved { hold, verdict, amount, at_ms, origin })
}

fn door(door: schema::Door) -> Door {
    match door {
        schema::Door::Batch => Door::Batch,
        schema::Door::Openrtb => Door::Openrtb,
        schema::Door::Fix => Door::Fix,
        schema::Door::Keys => Door::Keys,
        schema::Door::Admin => Door::Admin,
    }
}

fn clock(clock: schema::Clock) -> Clock {
    match clock {
        schema::Clock::Hold => Clock::Hold,
        schema::Clock::Billing => Clock::Billing,
        schema::Clock::Suspension => Clock::Suspension,
    }
}

fn edit_action(action: schema::EditAction) -> EditAction {
    match action {
        schema::EditAction::Create => EditAction::Create,
        schema::EditAction::Set => EditAction::Set,
        schema::EditAction::Pause => EditAction::Pause,
        schema::EditAction::Resume => EditAction::Resume,
        schema::EditAction::Undo => EditAction::Undo,
    }
}

fn unknown(field: &str, code: u8) -> String {
    format!("{field} {code} is not one that this version knows")
}

#[inline(never)]
fn other_record(view: &View<'_>) -> Result<Record, String> {
    Ok(match view {
        View::Resolved(view) => return resolved_record(view),
        View::RunStarted(v) => Record::RunStarted {
            run: v.run(),
            at_ms: v.at_ms(),
            suspended_until_ms: v.suspended_until_ms(),
            hold_ms_max: v.hold_ms_max(),
            billing_ms: v.billing_ms(),
            win_notices: win_notices(v.flags()),
        },
        View::Budget(v) => Record::Budget { spec: Box::new(spec(v)?) },
        View::BudgetEnded(v) => Record::BudgetEnded { id: v.budget_id() },
        View::DayRolled(v) => {
            Record::DayRolled { id: v.budget_id(), start_ms: v.start_ms(), end_ms: v.end_ms() }
        }
        View::PeriodRolled(v) => {
            Record::PeriodRolled { id: v.budget_id(), start_ms: v.start_ms(), end_ms: v.end_ms() }
        }
        View::Granted(v) => Record::Granted {
            grant: v.grant(),
            budget: v.budget_id(),
            worker: v.worker(),
            amount: Amount::new(v.amount()),
            at_ms: v.at_ms(),
        },
        View::Returned(v) => Record::Returned { grant: v.grant(), amount: Amount::new(v.amount()) },
        View::BillingLapsed(v) => Record::BillingLapsed {
            grant: v.grant(),
            deadline_ms: v.deadline_ms(),
            amount: Amount::new(v.amount()),
        },
        View::Expired(v) => Record::Expired {
            grant: v.grant(),
            clock: v.clock().map(clock).ok_or_else(|| unknown("clock", v.clock_raw()))?,
            deadline_ms: v.deadline_ms(),
            amount: Amount::new(v.amount()),
        },
        View::Reconciled(v) => Record::Reconciled {
            grant: v.grant(),
            until_ms: v.until_ms(),
            amount: Amount::new(v.amount()),
        },
        View::Retired(v) => Record::Retired { grant: v.grant(), deadline_ms: v.deadline_ms() },
        View::Suspended(v) => Record::Suspended {
            grant: v.grant(),
            until_ms: v.until_ms(),
            amount: Amount::new(v.amount()),
        },
        View::Resumed(v) => Record::Resumed { grant: v.grant(), amount: Amount::new(v.amount()) },
        View::GrantClosed(v) => Record::GrantClosed { grant: v.grant() },
        View::KeyAdded(v) => {
            Record::KeyAdded { key_id: v.key_id(), key: KeyBytes(*v.secret()), at_ms: v.at_ms() }
        }
        View::KeyRetired(v) => Record::KeyRetired { key_id: v.key_id() },
        View::Operator(v) => Record::Operator {
            at_ms: v.at_ms(),
            who: text(v.who())?.into(),
            why: text(v.why())?.into(),
        },
        View::Edited(v) => Record::Edited {
            at_ms: v.at_ms(),
            record: v.edit(),
            budget: v.budget_id(),
            action: v.action().map(edit_action).ok_or_else(|| unknown("action", v.action_raw()))?,
            before: text(v.before())?.into(),
            after: text(v.after())?.into(),
        },
        _ => return Err("a part of a snapshot stands where a record should".into()),
    })
}

fn text(text: Result<&str, std::str::Utf8Error>) -> Result<&str, String> {
    text.map_err(|error| format!("a text is not UTF-8: {error}"))
}

thread_local! {
    /// Budgets share few zones, and to look one up in the database takes long.
    static ZONES: RefCell<ZoneCache> = RefCell::default();
}

fn zone(name: &str) -> Result<Zone, String> {
    ZONES.with_borrow_mut(|zones| zones.get(name)).map_err(|error| error.to_string())
}

fn spec(view: &Budget<'_>) -> Result<BudgetSpec, String> {
    let unit = Unit::from_code(view.unit()).map_err(|error| error.to_string())?;
    let status = match view.status() {
        Some(schema::Status::Active) => Status::Active,
        Some(schema::Status::Paused) => Status::Paused,
        Some(schema::Status::Ended) => Status::Ended,
        None => return Err(unknown("status", view.status_raw())),
    };
    let flags = view.flags();
    let period = match (flags.caps_week(), flags.caps_month()) {
        (false, false) => None,
        (true, false) => Some(Period::Week),
        (false, true) => Some(Period::Month),
        (true, true) => return Err("a budget with a cap that is for weeks and for months".into()),
    };
    let cap = Amount::new(view.period_cap().unwrap_or(0));
    Ok(BudgetSpec {
        id: view.budget_id(),
        unit: unit.ok_or("a budget without a unit")?,
        limit: Amount::new(view.lifetime_limit()),
        daily: flags.has_daily().then(|| Amount::new(view.daily())),
        period: period.map(|period| PeriodCap { period, cap }),
        start: Instant::from_ms(view.start_ms()),
        end: Instant::from_ms(view.end_ms()),
        zone: zone(text(view.zone())?)?,
        status,
        parent: flags.has_parent().then(|| view.parent()),
        late_reserve_bp: view.late_reserve_bp(),
        on_expiry: if flags.holds() { OnExpiry::Hold } else { OnExpiry::Release },
        tolerance_ppm: view.tolerance_ppm().unwrap_or(0),
    })
}

impl Message for Part {
    fn write(&self, buf: &mut [u8]) -> usize {
        write_part(self, buf).expect(FITS)
    }
}

fn write_part(part: &Part, buf: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(match part {
        Part::Head { now_ms, hold_ms_max, billing_ms, win_notices, next_grant, run } => {
            let block = state_head::Block::new(
                *now_ms,
                *hold_ms_max,
                *billing_ms,
                *next_grant,
                *run,
                run_flags(*win_notices),
            );
            state_head::encode(buf, &block)?.finish()
        }
        Part::Budget { spec } => write_budget(spec, buf)?,
        Part::Books {
            day_start_ms,
            day_end_ms,
            lines,
            day_lines,
            evidence,
            period_start_ms,
            period_end_ms,
            period_used,
        } => {
            let [free, purses, held, suspended, expired, settled, over, late] =
                lines.map(Amount::get);
            let [day_purses, day_held, day_suspended, day_expired, day_settled, day_over, day_late] =
                day_lines.map(Amount::get);
            let block = state_books::Block::new(
                *day_start_ms,
                *day_end_ms,
                free,
                purses,
                held,
                suspended,
                settled,
                over,
                late,
                day_purses,
                day_held,
                day_suspended,
                day_settled,
                day_over,
                day_late,
                expired,
                day_expired,
                evidence.resolved.get(),
                evidence.paid.get(),
                evidence.won.get(),
                evidence.expired_resolved.get(),
                evidence.expired_paid.get(),
                *period_start_ms,
                *period_end_ms,
                period_used.get(),
            );
            state_books::encode(buf, &block)?.finish()
        }
        Part::Grant {
            grant,
            budget,
            worker,
            billing_ms,
            out,
            keeps,
            stage,
            days,
            billing,
            expired_ms,
            unconfirmed,
            unbilled,
        } => {
            let (stage, stage_ms) = match stage {
                ledger::Stage::Open => (schema::Stage::Open, 0),
                ledger::Stage::Retired { deadline_ms } => (schema::Stage::Retired, *deadline_ms),
                ledger::Stage::Suspended { until_ms } => (schema::Stage::Suspended, *until_ms),
                ledger::Stage::Expired { until_ms } => (schema::Stage::Expired, *until_ms),
            };
            let [day0, day1, day2, day3] = *days;
            let block = state_grant::Block::new(
                *grant,
                *budget,
                *billing_ms,
                out.get(),
                stage_ms,
                day0,
                day1,
                day2,
                day3,
                *worker,
                stage,
                keep_flags(*keeps),
                *expired_ms,
            );
            let billing = entries(billing, state_grant::Billing::new);
            let unconfirmed = entries(unconfirmed, state_grant::Unconfirmed::new);
            let unbilled = entries(unbilled, state_grant::Unbilled::new);
            state_grant::encode(buf, &block)?
                .billing(&billing)?
                .unconfirmed(&unconfirmed)?
                .unbilled(&unbilled)?
                .finish()
        }
        Part::Marks { page, marks } => {
            state_marks::encode(buf, &state_marks::Block::new(*page, *marks))?.finish()
        }
        Part::Key(TokenKey { id, key, since_ms }) => {
            state_key::encode(buf, &state_key::Block::new(*since_ms, key.0, *id))?.finish()
        }
        Part::End { parts, digest } => {
            state_end::encode(buf, &state_end::Block::new(*parts, *digest))?.finish()
        }
    })
}

fn entries<E>(sums: &[(u64, Amount)], entry: impl Fn(u64, i64) -> E) -> Vec<E> {
    sums.iter().map(|(deadline_ms, amount)| entry(*deadline_ms, amount.get())).collect()
}

fn keep_flags(keeps: ledger::Keeps) -> Keeps {
    let unconfirmed = if keeps.unconfirmed { Keeps::UNCONFIRMED } else { Keeps::NONE };
    if keeps.confirmed { unconfirmed.with(Keeps::CONFIRMED) } else { unconfirmed }
}

/// Reads a part of a snapshot.
///
/// # Errors
/// What is wrong with the message.
pub(crate) fn part(message: &[u8]) -> Result<Part, String> {
    let view = View::decode(message).map_err(|error| error.to_string())?;
    Ok(match view {
        View::StateHead(v) => Part::Head {
            now_ms: v.now_ms(),
            hold_ms_max: v.hold_ms_max(),
            billing_ms: v.billing_ms(),
            win_notices: win_notices(v.flags()),
            next_grant: v.next_grant(),
            run: v.run(),
        },
        View::Budget(v) => Part::Budget { spec: Box::new(spec(&v)?) },
        View::StateBooks(v) => Part::Books {
            day_start_ms: v.day_start_ms(),
            day_end_ms: v.day_end_ms(),
            lines: [
                v.free(),
                v.purses(),
                v.held(),
                v.suspended(),
                v.expired().unwrap_or(0),
                v.settled(),
                v.over_settled(),
                v.late(),
            ]
            .map(Amount::new),
            day_lines: [
                v.day_purses(),
                v.day_held(),
                v.day_suspended(),
                v.day_expired().unwrap_or(0),
                v.day_settled(),
                v.day_over_settled(),
                v.day_late(),
            ]
            .map(Amount::new),
            evidence: LedgerEvidence {
                resolved: Amount::new(v.resolved_sum().unwrap_or(0)),
                paid: Amount::new(v.paid_sum().unwrap_or(0)),
                won: Amount::new(v.won_sum().unwrap_or(0)),
                expired_resolved: Amount::new(v.expired_resolved_sum().unwrap_or(0)),
                expired_paid: Amount::new(v.expired_paid_sum().unwrap_or(0)),
            },
            period_start_ms: v.period_start_ms().unwrap_or(0),
            period_end_ms: v.period_end_ms().unwrap_or(0),
            period_used: Amount::new(v.period_used().unwrap_or(0)),
        },
        View::StateGrant(v) => Part::Grant {
            grant: v.grant(),
            budget: v.budget_id(),
            worker: v.worker(),
            billing_ms: v.billing_ms(),
            out: Amount::new(v.out()),
            keeps: keeps(v.keeps()),
            stage: match v.stage() {
                Some(schema::Stage::Open) => ledger::Stage::Open,
                Some(schema::Stage::Retired) => {
                    ledger::Stage::Retired { deadline_ms: v.stage_ms() }
                }
                Some(schema::Stage::Suspended) => {
                    ledger::Stage::Suspended { until_ms: v.stage_ms() }
                }
                Some(schema::Stage::Expired) => ledger::Stage::Expired { until_ms: v.stage_ms() },
                None => return Err(unknown("stage", v.stage_raw())),
            },
            days: [v.day0_ms(), v.day1_ms(), v.day2_ms(), v.day3_ms()],
            billing: v
                .billing()
                .iter()
                .map(|entry| (entry.deadline_ms(), Amount::new(entry.amount())))
                .collect(),
            expired_ms: v.expired_ms().unwrap_or(0),
            unconfirmed: (v.unconfirmed().into_iter().flatten())
                .map(|entry| (entry.deadline_ms(), Amount::new(entry.amount())))
                .collect(),
            unbilled: (v.unbilled().into_iter().flatten())
                .map(|entry| (entry.deadline_ms(), Amount::new(entry.amount())))
                .collect(),
        },
        View::StateMarks(v) => Part::Marks { page: v.page(), marks: *v.marks() },
        View::StateKey(v) => {
            Part::Key(TokenKey { id: v.key_id(), key: KeyBytes(*v.secret()), since_ms: v.at_ms() })
        }
        View::StateEnd(v) => Part::End { parts: v.parts(), digest: v.digest() },
        _ => return Err("a record stands where a part of a snapshot should".into()),
    })
}

/// Grants of the first journals keep nothing.
fn keeps(flags: Option<Keeps>) -> ledger::Keeps {
    let flags = flags.unwrap_or(Keeps::NONE);
    ledger::Keeps { unconfirmed: flags.unconfirmed(), confirmed: flags.confirmed() }
}

#[cfg(test)]
mod tests {
    use ledger::{EDIT_TEXT_MAX, OPERATOR_TEXT_MAX, Stage};
    use proptest::prelude::*;

    use super::*;
    use crate::format::{RECORD_BYTES_MAX, RECORD_HEAD_BYTES};

    /// What can be in a message behind its head.
    const MESSAGE_BYTES_MAX: usize = RECORD_BYTES_MAX - RECORD_HEAD_BYTES;

    fn bytes(message: &impl Message) -> Vec<u8> {
        let mut buf = vec![0; MESSAGE_BYTES_MAX];
        let len = message.write(&mut buf);
        buf.truncate(len);
        buf
    }

    fn amount() -> impl Strategy<Value = Amount> {
        any::<i64>().prop_map(Amount::new)
    }

    /// Up to a limit in bytes, whatever the letters.
    fn text(bytes_max: usize) -> impl Strategy<Value = Box<str>> {
        let any = any::<String>().prop_map(move |text| {
            let end = text.floor_char_boundary(bytes_max);
            Box::from(&text[..end])
        });
        let full = Just("€".repeat(bytes_max / 3).into_boxed_str());
        prop_oneof![4 => any, 1 => full, 1 => Just("\0".repeat(bytes_max).into())]
    }

    fn edited() -> impl Strategy<Value = Record> {
        let actions = [
            EditAction::Create,
            EditAction::Set,
            EditAction::Pause,
            EditAction::Resume,
            EditAction::Undo,
        ];
        let numbers = (any::<[u64; 3]>(), prop::sample::select(actions.to_vec()));
        (numbers, text(EDIT_TEXT_MAX), text(EDIT_TEXT_MAX)).prop_map(
            |(([at_ms, record, budget], action), before, after)| Record::Edited {
                at_ms,
                record,
                budget,
                action,
                before,
                after,
            },
        )
    }

    fn unit() -> impl Strategy<Value = Unit> {
        let known = ["USD", "EUR", "JPY", "count"].map(|name| Unit::parse(name).unwrap());
        prop::sample::select(known.to_vec())
    }

    fn zone() -> impl Strategy<Value = Zone> {
        let names = ["UTC", "Europe/Berlin", "Asia/Kathmandu", "America/Argentina/ComodRivadavia"];
        prop::sample::select(names.to_vec()).prop_map(|name| Zone::parse(name).unwrap())
    }

    fn instant() -> impl Strategy<Value = Instant> {
        (0..=Instant::MAX.ms()).prop_map(Instant::from_ms)
    }

    fn spec() -> impl Strategy<Value = Box<BudgetSpec>> {
        let status = prop::sample::select(vec![Status::Active, Status::Paused, Status::Ended]);
        let money = (amount(), prop::option::of(amount()), unit(), any::<u16>());
        let time = (instant(), instant(), zone());
        let week = prop::sample::select(vec![Period::Week, Period::Month]);
        let period = prop::option::of((week, amount()));
        let expiry = (any::<bool>(), any::<u32>(), period);
        let rest = (any::<u64>(), prop::option::of(any::<u64>()), status, expiry);
        (money, time, rest).prop_map(
            |(
                (limit, daily, unit, late_reserve_bp),
                (start, end, zone),
                (id, parent, status, (holds, tolerance_ppm, period)),
            )| {
                let dates = BudgetSpec {
                    id,
                    unit,
                    limit,
                    daily,
                    start,
                    end,
                    zone,
                    status,
                    parent,
                    late_reserve_bp,
                    on_expiry: if holds { OnExpiry::Hold } else { OnExpiry::Release },
                    tolerance_ppm,
                    period: period.map(|(period, cap)| PeriodCap { period, cap }),
                };
                Box::new(dates)
            },
        )
    }

    fn verdict() -> impl Strategy<Value = Verdict> {
        prop::sample::select(vec![
            Verdict::Confirmed,
            Verdict::Settled,
            Verdict::SettledOver,
            Verdict::SettledLate,
            Verdict::Released,
        ])
    }

    fn door() -> impl Strategy<Value = Door> {
        let doors = [Door::Batch, Door::Openrtb, Door::Fix, Door::Keys, Door::Admin];
        prop::sample::select(doors.to_vec())
    }

    fn resolved() -> impl Strategy<Value = Record> {
        let hold = (any::<u64>(), any::<u32>(), any::<u16>(), any::<u64>(), amount());
        let origin = (door(), any::<u64>());
        (hold, verdict(), amount(), any::<u64>(), origin).prop_map(
            |(
                (grant, seq, node, deadline_ms, held),
                verdict,
                amount,
                at_ms,
                (door, request_id),
            )| {
                let hold = Hold { grant, seq, node, deadline_ms, amount: held };
                let origin = Origin { door, request_id };
                Record::Resolved { hold, verdict, amount, at_ms, origin }
            },
        )
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
        let small = (any::<u32>(), any::<u16>(), any::<u8>(), any::<[u8; 16]>());
        let plain = (0..15usize, numbers, small, amount()).prop_map(
            |(kind, (a, b, c, d), (run, worker, key_id, key), amount)| match kind {
                0 => Record::RunStarted {
                    run,
                    at_ms: a,
                    suspended_until_ms: b,
                    hold_ms_max: c,
                    billing_ms: d,
                    win_notices: worker % 2 == 0,
                },
                1 => Record::BudgetEnded { id: a },
                2 => Record::DayRolled { id: a, start_ms: b, end_ms: c },
                3 => Record::Granted { grant: a, budget: b, worker, amount, at_ms: c },
                4 => Record::Returned { grant: a, amount },
                5 => Record::BillingLapsed { grant: a, deadline_ms: b, amount },
                6 => Record::Retired { grant: a, deadline_ms: b },
                7 => Record::Suspended { grant: a, until_ms: b, amount },
                8 => Record::Resumed { grant: a, amount },
                9 => Record::GrantClosed { grant: a },
                10 => Record::KeyAdded { key_id, key: key.into(), at_ms: a },
                11 => Record::Expired {
                    grant: a,
                    clock: [Clock::Hold, Clock::Billing, Clock::Suspension][run as usize % 3],
                    deadline_ms: b,
                    amount,
                },
                12 => Record::Reconciled { grant: a, until_ms: b, amount },
                13 => Record::PeriodRolled { id: a, start_ms: b, end_ms: c },
                _ => Record::KeyRetired { key_id },
            },
        );
        let operator = (any::<u64>(), text(OPERATOR_TEXT_MAX), text(OPERATOR_TEXT_MAX))
            .prop_map(|(at_ms, who, why)| Record::Operator { at_ms, who, why });
        let budget = spec().prop_map(|spec| Record::Budget { spec });
        prop_oneof![6 => plain, 2 => resolved(), 2 => operator, 2 => budget, 2 => edited()]
    }

    fn evidence_of(
        [resolved, paid, won, expired_resolved, expired_paid]: [Amount; 5],
    ) -> LedgerEvidence {
        LedgerEvidence { resolved, paid, won, expired_resolved, expired_paid }
    }

    fn any_part() -> impl Strategy<Value = Part> {
        let numbers = any::<[u64; 4]>();
        let head = (numbers, any::<u32>()).prop_map(|([a, b, c, d], run)| Part::Head {
            now_ms: a,
            hold_ms_max: b,
            billing_ms: c,
            win_notices: run % 2 == 0,
            next_grant: d,
            run,
        });
        let numbers = (any::<[u64; 4]>(), any::<[i64; 8]>(), any::<[i64; 7]>(), any::<[i64; 6]>());
        let books = numbers.prop_map(
            |(
                [day_start_ms, day_end_ms, period_start_ms, period_end_ms],
                lines,
                day_lines,
                [used, sums @ ..],
            )| {
                Part::Books {
                    day_start_ms,
                    day_end_ms,
                    lines: lines.map(Amount::new),
                    day_lines: day_lines.map(Amount::new),
                    evidence: evidence_of(sums.map(Amount::new)),
                    period_start_ms,
                    period_end_ms,
                    period_used: Amount::new(used),
                }
            },
        );
        let stage = prop_oneof![
            Just(Stage::Open),
            any::<u64>().prop_map(|deadline_ms| Stage::Retired { deadline_ms }),
            any::<u64>().prop_map(|until_ms| Stage::Suspended { until_ms }),
            any::<u64>().prop_map(|until_ms| Stage::Expired { until_ms }),
        ];
        let sums = || prop::collection::vec((any::<u64>(), amount()), 0..100);
        let sums = (sums(), sums(), sums());
        let keeps = any::<[bool; 2]>()
            .prop_map(|[unconfirmed, confirmed]| ledger::Keeps { unconfirmed, confirmed });
        let plain = (any::<[u64; 4]>(), any::<u16>(), amount(), keeps, stage, any::<[u64; 4]>());
        let grant = (plain, sums).prop_map(
            |(([grant, budget, billing_ms, expired_ms], worker, out, keeps, stage, days), sums)| {
                let (billing, unconfirmed, unbilled) = sums;
                Part::Grant {
                    grant,
                    budget,
                    worker,
                    billing_ms,
                    out,
                    keeps,
                    stage,
                    days,
                    billing,
                    expired_ms,
                    unconfirmed,
                    unbilled,
                }
            },
        );
        let marks = (any::<u32>(), any::<[u64; 16]>()).prop_map(|(page, words)| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Part::Marks { page, marks: bytes.try_into().unwrap() }
        });
        let key = (any::<u8>(), any::<[u8; 16]>(), any::<u64>())
            .prop_map(|(id, key, since_ms)| Part::Key(TokenKey { id, key: key.into(), since_ms }));
        let end = any::<[u64; 2]>().prop_map(|[parts, digest]| Part::End { parts, digest });
        let budget = spec().prop_map(|spec| Part::Budget { spec });
        prop_oneof![head, budget, books, grant, marks, key, end]
    }

    proptest! {
        #[test]
        fn records_come_back(expected in any_record()) {
            let bytes = bytes(&expected);
            prop_assert_eq!(record(&bytes).unwrap(), expected.clone());
            prop_assert_eq!(part(&bytes).is_ok(), matches!(expected, Record::Budget { .. }));
        }

        #[test]
        fn parts_come_back(expected in any_part()) {
            let bytes = bytes(&expected);
            prop_assert_eq!(part(&bytes).unwrap(), expected.clone());
            prop_assert_eq!(record(&bytes).is_ok(), matches!(expected, Part::Budget { .. }));
        }

        /// Bytes that were changed are refused, or read as something that can be written again.
        #[test]
        fn strange_bytes_are_refused_or_read(
            from in prop_oneof![
                any_record().prop_map(|record| bytes(&record)),
                any_part().prop_map(|part| bytes(&part)),
                prop::collection::vec(any::<u8>(), 0..200),
            ],
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            length in any::<prop::sample::Index>(),
            cut in any::<bool>(),
        ) {
            let mut strange = from;
            for (at, byte) in changes.iter().filter(|_| !strange.is_empty()).copied().collect::<Vec<_>>() {
                let at = at.index(strange.len());
                strange[at] = byte;
            }
            if cut {
                strange.truncate(length.index(strange.len() + 1));
            }
            if let Ok(found) = record(&strange) {
                prop_assert_eq!(record(&bytes(&found)).unwrap(), found);
            }
            if let Ok(found) = part(&strange) {
                prop_assert_eq!(part(&bytes(&found)).unwrap(), found);
            }
        }
    }

    /// The most that a group of billing deadlines may have, and still fit a record.
    #[test]
    fn the_longest_row_of_billing_deadlines_fits() {
        let row = |count| (0..count).map(|deadline_ms| (deadline_ms, Amount::new(1))).collect();
        let longest = Part::Grant {
            grant: 1,
            budget: 2,
            worker: 3,
            billing_ms: 4,
            out: Amount::ZERO,
            keeps: ledger::Keeps::default(),
            stage: Stage::Open,
            days: [0; 4],
            billing: row(1_300),
            expired_ms: 5,
            unconfirmed: row(1_300),
            unbilled: row(1_300),
        };
        assert_eq!(part(&bytes(&longest)).unwrap(), longest);
    }
}
