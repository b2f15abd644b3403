//! Records.

use ledger::{
    Amount, Clock, Door, EditAction, Hold, Kept, KeptWith, KeyBytes, LegAmounts, Memo, NamedHold,
    NamedLeg, Origin, Period, Record, Room, TimedChange, TimedHold, Verdict,
};
use wire::EncodeError;
use wire::journal::{self as schema, Message as View, *};

use super::{FITS, Message, run_flags, spec, text, unknown, win_notices, write_budget};

impl Message for Record {
    #[inline]
    fn write(&self, buf: &mut [u8]) -> usize {
        match self {
            // The most frequent ones first, and here: everything else may cost a call.
            Record::Resolved {
                hold,
                verdict,
                amount,
                at_ms,
                origin,
                keeps_rest,
                clicked,
                kept: None,
            } => {
                let outcome = match (keeps_rest, clicked) {
                    (true, false) => Outcome::SettledKeepsRest,
                    (keeps_rest, true) => clicked_outcome(*verdict, *keeps_rest),
                    _ => Outcome::from_raw(verdict.as_raw()).expect("a verdict that books"),
                };
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

/// The begin of a run, and what says that it lives or has ended.
fn write_of_run(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(match record {
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
            let block = run_started::Block::new(
                *at_ms,
                *suspended_until_ms,
                *hold_ms_max,
                *billing_ms,
                *run,
                run_flags(*win_notices),
                *lease_ms,
            );
            run_started::encode(buf, &block)?.node(node)?.finish()
        }
        Record::Beat { at_ms } => beat::encode(buf, &beat::Block::new(*at_ms))?.finish(),
        Record::Handover { at_ms } => {
            handover::encode(buf, &handover::Block::new(*at_ms))?.finish()
        }
        Record::Kept { room, part, last, bytes } => {
            let room = schema::Room::from_raw(*room as u8).expect("rooms are numbered alike");
            let flags = if *last { KeptFlags::LAST } else { KeptFlags::NONE };
            let block = schema::kept::Block::new(*part, room, flags);
            schema::kept::encode(buf, &block)?.bytes(bytes)?.finish()
        }
        _ => unreachable!("chosen by the caller"),
    })
}

#[inline(never)]
fn write_other(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(match record {
        Record::Resolved { kept: Some(kept), .. } => match &**kept {
            KeptWith::Answer(kept) => write_keyed(record, kept, buf)?,
            KeptWith::Memo(memo) => write_with_memo(record, memo, buf)?,
        },
        Record::ToppedUp { .. } | Record::Clicked { .. } => write_later(record, buf)?,
        Record::Timed(_) | Record::Memo { .. } => write_later(record, buf)?,
        Record::Named { .. } | Record::NamedEnded { .. } => write_of_named(record, buf)?,
        Record::Resolved { .. } => unreachable!("written by the caller"),
        Record::RunStarted { .. }
        | Record::Beat { .. }
        | Record::Handover { .. }
        | Record::Kept { .. } => write_of_run(record, buf)?,
        Record::Budget { spec } => write_budget(spec, buf)?,
        Record::BudgetEnded { id } => {
            budget_ended::encode(buf, &budget_ended::Block::new(*id))?.finish()
        }
        Record::BudgetIdled { id } => {
            budget_idled::encode(buf, &budget_idled::Block::new(*id))?.finish()
        }
        Record::BudgetForgotten { id } => {
            budget_forgotten::encode(buf, &budget_forgotten::Block::new(*id))?.finish()
        }
        Record::DayRolled { .. } | Record::PeriodRolled { .. } | Record::WindowRolled { .. } => {
            write_rolled(record, buf)?
        }
        Record::Granted { .. }
        | Record::Returned { .. }
        | Record::BillingLapsed { .. }
        | Record::Expired { .. }
        | Record::Reconciled { .. }
        | Record::Retired { .. }
        | Record::Suspended { .. }
        | Record::Resumed { .. }
        | Record::GrantClosed { .. } => write_of_grant(record, buf)?,
        Record::KeyAdded { key_id, key, at_ms } => {
            key_added::encode(buf, &key_added::Block::new(*at_ms, key.0, *key_id))?.finish()
        }
        Record::AnswerSecret { secret, at_ms } => {
            answer_secret::encode(buf, &answer_secret::Block::new(*at_ms, secret.0))?.finish()
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

fn write_rolled(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(match record {
        Record::DayRolled { id, start_ms, end_ms } => {
            day_rolled::encode(buf, &day_rolled::Block::new(*id, *start_ms, *end_ms))?.finish()
        }
        Record::PeriodRolled { id, start_ms, end_ms } => {
            let block = period_rolled::Block::new(*id, *start_ms, *end_ms);
            period_rolled::encode(buf, &block)?.finish()
        }
        Record::WindowRolled { id, period, start_ms, end_ms } => {
            let period =
                schema::Period::from_raw(*period as u8).expect("periods are numbered alike");
            let block = window_rolled::Block::new(*id, *start_ms, *end_ms, period);
            window_rolled::encode(buf, &block)?.finish()
        }
        _ => unreachable!("chosen by the caller"),
    })
}

fn write_keyed(record: &Record, kept: &Kept, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let Record::Resolved { hold, verdict, amount, at_ms, origin, clicked, .. } = record else {
        unreachable!("chosen by the caller")
    };
    let block = resolved_keyed::Block::new(
        hold.grant,
        hold.deadline_ms,
        hold.amount.get(),
        amount.get(),
        *at_ms,
        origin.request_id,
        hold.seq,
        hold.node,
        kept_outcome(*verdict, *clicked),
        schema::Door::from_raw(origin.door as u8).expect("doors are numbered alike"),
        kept.key.to_le_bytes(),
        kept.digest.to_le_bytes(),
    );
    Ok(resolved_keyed::encode(buf, &block)?.answer(&kept.answer)?.finish())
}

/// The outcome of a hold that was clicked before it was settled.
#[cold]
fn clicked_outcome(verdict: Verdict, keeps_rest: bool) -> Outcome {
    match verdict {
        _ if keeps_rest => Outcome::ClickedKeepsRest,
        Verdict::SettledOver => Outcome::ClickedOver,
        Verdict::SettledLate => Outcome::ClickedLate,
        _ => Outcome::ClickedSettled,
    }
}

fn kept_outcome(verdict: Verdict, clicked: bool) -> Outcome {
    match clicked {
        true => clicked_outcome(verdict, false),
        false => Outcome::from_raw(verdict.as_raw()).expect("a verdict that books"),
    }
}

/// What comes after a hold was settled, or before; and what doors keep.
fn write_later(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    match record {
        Record::Clicked { .. } => write_clicked(record, buf),
        Record::Timed(change) => write_timed(change, buf),
        Record::Memo { memo, at_ms } => write_memo(memo, *at_ms, buf),
        _ => write_topped_up(record, buf),
    }
}

fn write_topped_up(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let Record::ToppedUp { hold, verdict, amount, total, uses_rest, at_ms, origin } = record else {
        unreachable!("chosen by the caller")
    };
    let block = topped_up::Block::new(
        hold.grant,
        hold.deadline_ms,
        hold.amount.get(),
        amount.get(),
        total.get(),
        *at_ms,
        origin.request_id,
        hold.seq,
        hold.node,
        Outcome::from_raw(verdict.as_raw()).expect("a verdict that books"),
        door_code(origin.door),
        u8::from(*uses_rest),
    );
    Ok(topped_up::encode(buf, &block)?.finish())
}

fn write_clicked(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let Record::Clicked { hold, billed, at_ms, origin } = record else {
        unreachable!("chosen by the caller")
    };
    let block = schema::clicked::Block::new(
        hold.grant,
        hold.deadline_ms,
        hold.amount.get(),
        *at_ms,
        origin.request_id,
        hold.seq,
        hold.node,
        door_code(origin.door),
        u8::from(*billed),
    );
    Ok(schema::clicked::encode(buf, &block)?.finish())
}

fn write_memo(memo: &Memo, at_ms: u64, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let block = schema::memo::Block::new(at_ms, memo.key.to_le_bytes(), door_code(memo.door));
    Ok(schema::memo::encode(buf, &block)?.memo(&memo.bytes)?.finish())
}

fn write_with_memo(record: &Record, memo: &Memo, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let Record::Resolved { hold, verdict, amount, at_ms, origin, clicked, .. } = record else {
        unreachable!("chosen by the caller")
    };
    let block = resolved_memo::Block::new(
        hold.grant,
        hold.deadline_ms,
        hold.amount.get(),
        amount.get(),
        *at_ms,
        origin.request_id,
        hold.seq,
        hold.node,
        kept_outcome(*verdict, *clicked),
        door_code(origin.door),
        memo.key.to_le_bytes(),
        door_code(memo.door),
    );
    Ok(resolved_memo::encode(buf, &block)?.memo(&memo.bytes)?.finish())
}

fn write_of_named(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    match record {
        Record::Named { hold, fact, opens, at_ms } => {
            let flags = if *fact { NamedFlags::FACT } else { NamedFlags::NONE };
            let flags = if *opens { flags.with(NamedFlags::OPENS) } else { flags };
            write_named(hold, flags, *at_ms, buf)
        }
        Record::NamedEnded { door, key, at_ms } => {
            let block = named_ended::Block::new(*at_ms, key.to_le_bytes(), door_code(*door));
            Ok(named_ended::encode(buf, &block)?.finish())
        }
        _ => unreachable!("chosen by the caller"),
    }
}

/// A named hold, in a record and in a snapshot.
pub(super) fn write_named(
    hold: &NamedHold,
    flags: NamedFlags,
    at_ms: u64,
    buf: &mut [u8],
) -> Result<usize, EncodeError> {
    let (key, door) = (hold.key.to_le_bytes(), door_code(hold.door));
    let leg = |leg: &NamedLeg| {
        let [settled, over, late, inferred, unknown] = leg.amounts.spent.map(Amount::get);
        let held = leg.amounts.hold.get();
        named::Leg::new(leg.budget, held, settled, over, late, inferred, unknown)
    };
    let legs: Vec<_> = hold.legs.iter().map(leg).collect();
    let block = named::Block::new(at_ms, key, door, flags);
    Ok(named::encode(buf, &block)?.legs(&legs)?.label(&hold.label)?.finish())
}

/// A named hold that ends by time.
pub(super) fn write_timed(change: &TimedChange, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let TimedChange { row, opens, moved, at_ms, origin, kept } = change;
    let leg = |leg: &NamedLeg| {
        let [settled, over, late, ..] = leg.amounts.spent.map(Amount::get);
        timed::Leg::new(leg.budget, leg.amounts.hold.get(), settled, over, late)
    };
    let legs: Vec<_> = row.hold.legs.iter().map(leg).collect();
    let all = [
        (*opens, NamedFlags::OPENS),
        (moved.is_some(), NamedFlags::MOVED),
        (kept.is_some(), NamedFlags::KEPT),
    ];
    let flags =
        all.iter().filter(|(is, _)| *is).fold(NamedFlags::NONE, |all, (_, flag)| all.with(*flag));
    let [grant, deadline_ms] = moved.map_or([0; 2], |hold| [hold.grant, hold.deadline_ms]);
    let (seq, node) = moved.map_or((0, 0), |hold| (hold.seq, hold.node));
    let [key, digest] = kept.as_ref().map_or([0; 2], |kept| [kept.key, kept.digest]);
    let block = timed::Block::new(
        *at_ms,
        row.until_ms,
        row.amount.get(),
        origin.request_id,
        grant,
        deadline_ms,
        seq,
        node,
        row.hold.key.to_le_bytes(),
        key.to_le_bytes(),
        digest.to_le_bytes(),
        door_code(row.hold.door),
        door_code(origin.door),
        Outcome::from_raw(row.state.as_raw()).expect("a state of a timed hold"),
        flags,
    );
    let answer = kept.as_ref().map_or(&[][..], |kept| &kept.answer);
    Ok(timed::encode(buf, &block)?.legs(&legs)?.answer(answer)?.finish())
}

pub(super) fn timed_change(v: &schema::Timed<'_>) -> Result<TimedChange, String> {
    let leg = |leg: &timed::Leg| NamedLeg {
        budget: leg.budget_id(),
        amounts: LegAmounts {
            hold: Amount::new(leg.held()),
            spent: [leg.settled(), leg.over_settled(), leg.late(), 0, 0].map(Amount::new),
        },
    };
    let (flags, amount) = (v.flags(), Amount::new(v.amount()));
    let of = |found: Option<schema::Door>, raw| found.map(door).ok_or_else(|| unknown("door", raw));
    let hold = NamedHold {
        door: of(v.hold_door(), v.hold_door_raw())?,
        key: u128::from_le_bytes(*v.hold_key()),
        label: "".into(),
        legs: v.legs().iter().map(leg).collect(),
    };
    let moved = flags.moved().then(|| Hold {
        grant: v.grant(),
        seq: v.seq(),
        node: v.node(),
        deadline_ms: v.deadline_ms(),
        amount,
    });
    let state = outcome(v.state(), v.state_raw())?;
    Ok(TimedChange {
        row: TimedHold { hold, amount, until_ms: v.until_ms(), state },
        opens: flags.opens(),
        moved,
        at_ms: v.at_ms(),
        origin: Origin { door: of(v.door(), v.door_raw())?, request_id: v.request_id() },
        kept: flags.kept().then(|| kept(v.idempotency(), v.digest(), v.answer())),
    })
}

pub(super) fn named_hold(v: &Named<'_>) -> Result<NamedHold, String> {
    let leg = |leg: &named::Leg| NamedLeg {
        budget: leg.budget_id(),
        amounts: LegAmounts {
            hold: Amount::new(leg.held()),
            spent: [
                leg.settled(),
                leg.over_settled(),
                leg.late(),
                leg.inferred(),
                leg.unknown_order(),
            ]
            .map(Amount::new),
        },
    };
    Ok(NamedHold {
        door: v.hold_door().map(door).ok_or_else(|| unknown("door", v.hold_door_raw()))?,
        key: u128::from_le_bytes(*v.hold_key()),
        label: text(v.label())?.into(),
        legs: v.legs().iter().map(leg).collect(),
    })
}

pub(super) fn door_code(door: Door) -> schema::Door {
    schema::Door::from_raw(door as u8).expect("doors are numbered alike")
}

fn write_of_grant(record: &Record, buf: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(match record {
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
        _ => unreachable!("chosen by the caller"),
    })
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
    let (verdict, keeps_rest, clicked) = match view.outcome() {
        Some(Outcome::SettledKeepsRest) => (Verdict::Settled, true, false),
        Some(Outcome::ClickedKeepsRest) => (Verdict::Settled, true, true),
        other => of_kept(other, view.outcome_raw())
            .map(|(verdict, clicked)| (verdict, false, clicked))?,
    };
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
    let kept = None;
    Ok(Record::Resolved { hold, verdict, amount, at_ms, origin, keeps_rest, clicked, kept })
}

fn resolved_keyed(v: &ResolvedKeyed<'_>) -> Result<Record, String> {
    let (verdict, clicked) = of_kept(v.outcome(), v.outcome_raw())?;
    let door = v.door().map(door).ok_or_else(|| unknown("door", v.door_raw()))?;
    let hold = Hold {
        grant: v.grant(),
        seq: v.seq(),
        node: v.node(),
        deadline_ms: v.deadline_ms(),
        amount: Amount::new(v.held()),
    };
    let kept = kept(v.idempotency(), v.digest(), v.answer());
    Ok(Record::Resolved {
        hold,
        verdict,
        amount: Amount::new(v.amount()),
        at_ms: v.at_ms(),
        origin: Origin { door, request_id: v.request_id() },
        keeps_rest: false,
        clicked,
        kept: Some(Box::new(KeptWith::Answer(kept))),
    })
}

fn resolved_memo_record(v: &ResolvedMemo<'_>) -> Result<Record, String> {
    let (verdict, clicked) = of_kept(v.outcome(), v.outcome_raw())?;
    let door = v.door().map(door).ok_or_else(|| unknown("door", v.door_raw()))?;
    let hold = Hold {
        grant: v.grant(),
        seq: v.seq(),
        node: v.node(),
        deadline_ms: v.deadline_ms(),
        amount: Amount::new(v.held()),
    };
    let memo = memo((v.memo_door(), v.memo_door_raw()), v.memo_key(), v.memo())?;
    Ok(Record::Resolved {
        hold,
        verdict,
        amount: Amount::new(v.amount()),
        at_ms: v.at_ms(),
        origin: Origin { door, request_id: v.request_id() },
        keeps_rest: false,
        clicked,
        kept: Some(Box::new(KeptWith::Memo(memo))),
    })
}

fn topped_up_record(v: &ToppedUp<'_>) -> Result<Record, String> {
    let hold = Hold {
        grant: v.grant(),
        seq: v.seq(),
        node: v.node(),
        deadline_ms: v.deadline_ms(),
        amount: Amount::new(v.held()),
    };
    let door = v.door().map(door).ok_or_else(|| unknown("door", v.door_raw()))?;
    Ok(Record::ToppedUp {
        hold,
        verdict: outcome(v.outcome(), v.outcome_raw())?,
        amount: Amount::new(v.amount()),
        total: Amount::new(v.total()),
        uses_rest: v.uses_rest() == Some(1),
        at_ms: v.at_ms(),
        origin: Origin { door, request_id: v.request_id() },
    })
}

/// A door's memo; `of` is the door, and the number in its place.
pub(super) fn memo(
    of: (Option<schema::Door>, u8),
    key: &[u8; 16],
    bytes: &[u8],
) -> Result<Memo, String> {
    let (known, raw) = of;
    let door = known.map(door).ok_or_else(|| unknown("door", raw))?;
    Ok(Memo { door, key: u128::from_le_bytes(*key), bytes: bytes.into() })
}

/// The verdict of an outcome that has the number of one.
#[inline]
pub(super) fn outcome(outcome: Option<Outcome>, raw: u8) -> Result<Verdict, String> {
    let verdict = outcome.and_then(|outcome| Verdict::from_raw(outcome.as_raw()));
    verdict.ok_or_else(|| unknown("outcome", raw))
}

/// The verdict of an outcome, and whether the hold was clicked before.
#[inline]
fn of_kept(found: Option<Outcome>, raw: u8) -> Result<(Verdict, bool), String> {
    Ok(match found {
        Some(Outcome::ClickedSettled) => (Verdict::Settled, true),
        Some(Outcome::ClickedOver) => (Verdict::SettledOver, true),
        Some(Outcome::ClickedLate) => (Verdict::SettledLate, true),
        found => (outcome(found, raw)?, false),
    })
}

pub(super) fn kept(key: &[u8; 16], digest: &[u8; 16], answer: &[u8]) -> Kept {
    let [key, digest] = [key, digest].map(|bytes| u128::from_le_bytes(*bytes));
    Kept { key, digest, answer: answer.into() }
}

fn door(door: schema::Door) -> Door {
    match door {
        schema::Door::Batch => Door::Batch,
        schema::Door::Openrtb => Door::Openrtb,
        schema::Door::Fix => Door::Fix,
        schema::Door::Keys => Door::Keys,
        schema::Door::Admin => Door::Admin,
        schema::Door::Spend => Door::Spend,
    }
}

fn clock(clock: schema::Clock) -> Clock {
    match clock {
        schema::Clock::Hold => Clock::Hold,
        schema::Clock::Billing => Clock::Billing,
        schema::Clock::Suspension => Clock::Suspension,
    }
}

fn period(period: schema::Period) -> Period {
    match period {
        schema::Period::Minute => Period::Minute,
        schema::Period::Hour => Period::Hour,
        schema::Period::Day => Period::Day,
        schema::Period::Week => Period::Week,
        schema::Period::Month => Period::Month,
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

fn edited_record(v: &Edited<'_>) -> Result<Record, String> {
    Ok(Record::Edited {
        at_ms: v.at_ms(),
        record: v.edit(),
        budget: v.budget_id(),
        action: v.action().map(edit_action).ok_or_else(|| unknown("action", v.action_raw()))?,
        before: text(v.before())?.into(),
        after: text(v.after())?.into(),
    })
}

fn rolled_record(view: &View<'_>) -> Result<Record, String> {
    Ok(match view {
        View::DayRolled(v) => {
            Record::DayRolled { id: v.budget_id(), start_ms: v.start_ms(), end_ms: v.end_ms() }
        }
        View::PeriodRolled(v) => {
            Record::PeriodRolled { id: v.budget_id(), start_ms: v.start_ms(), end_ms: v.end_ms() }
        }
        View::WindowRolled(v) => Record::WindowRolled {
            id: v.budget_id(),
            period: v.period().map(period).ok_or_else(|| unknown("period", v.period_raw()))?,
            start_ms: v.start_ms(),
            end_ms: v.end_ms(),
        },
        _ => unreachable!("chosen by the caller"),
    })
}

fn of_hold(view: &View<'_>) -> Result<Record, String> {
    match view {
        View::ResolvedKeyed(view) => resolved_keyed(view),
        View::ResolvedMemo(view) => resolved_memo_record(view),
        View::ToppedUp(view) => topped_up_record(view),
        View::Memo(v) => Ok(Record::Memo {
            memo: Box::new(memo((v.memo_door(), v.memo_door_raw()), v.memo_key(), v.memo())?),
            at_ms: v.at_ms(),
        }),
        View::Clicked(v) => Ok(Record::Clicked {
            hold: Hold {
                grant: v.grant(),
                seq: v.seq(),
                node: v.node(),
                deadline_ms: v.deadline_ms(),
                amount: Amount::new(v.held()),
            },
            billed: v.billed() == 1,
            at_ms: v.at_ms(),
            origin: Origin {
                door: v.door().map(door).ok_or_else(|| unknown("door", v.door_raw()))?,
                request_id: v.request_id(),
            },
        }),
        _ => unreachable!("chosen by the caller"),
    }
}

fn of_named(view: &View<'_>) -> Result<Record, String> {
    Ok(match view {
        View::Named(v) => Record::Named {
            hold: Box::new(named_hold(v)?),
            fact: v.flags().fact(),
            opens: v.flags().opens(),
            at_ms: v.at_ms(),
        },
        View::NamedEnded(v) => Record::NamedEnded {
            door: v.hold_door().map(door).ok_or_else(|| unknown("door", v.hold_door_raw()))?,
            key: u128::from_le_bytes(*v.hold_key()),
            at_ms: v.at_ms(),
        },
        View::Timed(v) => Record::Timed(Box::new(timed_change(v)?)),
        _ => unreachable!("chosen by the caller"),
    })
}

fn of_run(view: &View<'_>) -> Result<Record, String> {
    Ok(match view {
        View::RunStarted(v) => Record::RunStarted {
            run: v.run(),
            at_ms: v.at_ms(),
            suspended_until_ms: v.suspended_until_ms(),
            hold_ms_max: v.hold_ms_max(),
            billing_ms: v.billing_ms(),
            win_notices: win_notices(v.flags()),
            // Before version 12 every log was on the own disk.
            lease_ms: v.lease_ms().unwrap_or(0),
            node: v.node().map_or(Ok(""), text)?.into(),
        },
        View::Beat(v) => Record::Beat { at_ms: v.at_ms() },
        View::Handover(v) => Record::Handover { at_ms: v.at_ms() },
        View::Kept(v) => Record::Kept {
            room: v.room().map(room).ok_or_else(|| unknown("room", v.room_raw()))?,
            part: v.part(),
            last: v.flags().last(),
            bytes: v.bytes().into(),
        },
        _ => unreachable!("chosen by the caller"),
    })
}

fn room(room: schema::Room) -> Room {
    match room {
        schema::Room::Edits => Room::Edits,
        schema::Room::Vault => Room::Vault,
        schema::Room::Budgets => Room::Budgets,
    }
}

fn other_record(view: &View<'_>) -> Result<Record, String> {
    Ok(match view {
        View::ResolvedKeyed(_) | View::ResolvedMemo(_) | View::ToppedUp(_) => of_hold(view)?,
        View::Clicked(_) | View::Memo(_) => of_hold(view)?,
        View::Resolved(view) => return resolved_record(view),
        View::Named(_) | View::NamedEnded(_) | View::Timed(_) => of_named(view)?,
        View::AnswerSecret(v) => {
            Record::AnswerSecret { secret: KeyBytes(*v.secret()), at_ms: v.at_ms() }
        }
        View::RunStarted(_) | View::Beat(_) | View::Handover(_) | View::Kept(_) => of_run(view)?,
        View::Budget(v) => Record::Budget { spec: Box::new(spec(v)?) },
        View::BudgetEnded(v) => Record::BudgetEnded { id: v.budget_id() },
        View::BudgetIdled(v) => Record::BudgetIdled { id: v.budget_id() },
        View::BudgetForgotten(v) => Record::BudgetForgotten { id: v.budget_id() },
        View::DayRolled(_) | View::PeriodRolled(_) | View::WindowRolled(_) => rolled_record(view)?,
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
        View::Edited(v) => edited_record(v)?,
        _ => return Err("a part of a snapshot stands where a record should".into()),
    })
}
