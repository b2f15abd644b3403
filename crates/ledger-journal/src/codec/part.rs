//! Parts of snapshots.

use ledger::{
    Amount, Dormant, DormantWindows, KeyBytes, LedgerEvidence, Origin, Part, TimedChange, TokenKey,
    WindowKind, WindowLimit, WindowUse, Windows,
};
use money::{Instant, Unit, Window};
use wire::journal::{self as schema, Message as View, *};
use wire::{EncodeError, Handle};

use super::record::{
    door_code, kept, memo, named_hold, outcome, timed_change, write_named, write_timed,
};
use super::{FITS, Message, run_flags, spec, text, unknown, win_notices, write_budget};

impl Message for Part {
    fn write(&self, buf: &mut [u8]) -> usize {
        write_part(self, buf).expect(FITS)
    }
}

fn write_head(part: &Part, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let Part::Head {
        now_ms,
        hold_ms_max,
        billing_ms,
        win_notices,
        lease_ms,
        handed_over,
        next_grant,
        run,
        next_made,
        kept: [edits, vault, budgets],
    } = part
    else {
        unreachable!("chosen by the caller")
    };

    let ended = if *handed_over { RunFlags::HANDED_OVER } else { RunFlags::NONE };
    let block = state_head::Block::new(
        *now_ms,
        *hold_ms_max,
        *billing_ms,
        *next_grant,
        *run,
        run_flags(*win_notices).with(ended),
        *next_made,
        *lease_ms,
        *edits,
        *vault,
        *budgets,
    );
    Ok(state_head::encode(buf, &block)?.finish())
}

fn write_part(part: &Part, buf: &mut [u8]) -> Result<usize, EncodeError> {
    Ok(match part {
        Part::Head { .. } => write_head(part, buf)?,
        Part::Budget { spec } => write_budget(spec, buf)?,
        Part::Books { .. } => write_books(part, buf)?,
        Part::Dormant(dormant) => write_dormant(dormant, buf)?,
        Part::Grant { .. } => write_grant(part, buf)?,
        Part::Marks { page, marks, whole, amounts } => {
            let block = state_marks::Block::new(*page, *marks, u8::from(*whole));
            let entry =
                |(place, spent): &(u8, Amount)| state_marks::Amount::new(*place, spent.get());
            let amounts: Vec<_> = amounts.iter().map(entry).collect();
            state_marks::encode(buf, &block)?.amounts(&amounts)?.finish()
        }
        Part::Key(TokenKey { id, key, since_ms }) => {
            state_key::encode(buf, &state_key::Block::new(*since_ms, key.0, *id))?.finish()
        }
        Part::AnswerSecret(secret) => {
            state_answer_secret::encode(buf, &state_answer_secret::Block::new(secret.0))?.finish()
        }
        Part::Answer { kept, verdict, at_ms } => {
            let block = state_answer::Block::new(
                *at_ms,
                kept.key.to_le_bytes(),
                kept.digest.to_le_bytes(),
                Outcome::from_raw(verdict.as_raw()).expect("a verdict that books"),
            );
            state_answer::encode(buf, &block)?.answer(&kept.answer)?.finish()
        }
        Part::Memo { memo, at_ms } => {
            let (key, door) = (memo.key.to_le_bytes(), door_code(memo.door));
            let block = state_memo::Block::new(*at_ms, key, door);
            state_memo::encode(buf, &block)?.memo(&memo.bytes)?.finish()
        }
        Part::Timed(row) => {
            let origin = Origin { door: row.hold.door, request_id: 0 };
            let row = (**row).clone();
            let (opens, moved, at_ms, kept) = (true, None, 0, None);
            write_timed(&TimedChange { row, opens, moved, at_ms, origin, kept }, buf)?
        }
        Part::Named(hold) => write_named(hold, NamedFlags::FACT.with(NamedFlags::OPENS), 0, buf)?,
        Part::End { parts, digest } => {
            state_end::encode(buf, &state_end::Block::new(*parts, *digest))?.finish()
        }
    })
}

fn write_books(part: &Part, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let Part::Books { day_start_ms, day_end_ms, lines, day_lines, evidence, period, windows } =
        part
    else {
        unreachable!("chosen by the caller")
    };
    let [free, purses, held, suspended, expired, spent @ ..] = lines.map(Amount::get);
    let [day_purses, day_held, day_suspended, day_expired, day_spent @ ..] =
        day_lines.map(Amount::get);
    let [settled, over, late, inferred, unknown] = spent;
    let [day_settled, day_over, day_late, day_inferred, day_unknown] = day_spent;
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
        period.since,
        period.until_ms,
        period.used.get(),
        inferred,
        unknown,
        day_inferred,
        day_unknown,
    );
    let window =
        |of: &WindowUse| state_books::Window::new(of.since, of.until_ms, of.used.get(), of.rest);
    let windows: Vec<_> = windows.iter().map(window).collect();
    Ok(state_books::encode(buf, &block)?.windows(&windows)?.finish())
}

fn write_dormant(dormant: &Dormant, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let mut flags = if dormant.limited { DormantFlags::LIMITED } else { DormantFlags::NONE };
    let windows = dormant.windows.as_deref();
    if windows.is_some() {
        flags = flags.with(DormantFlags::HAS_WINDOWS);
    }
    let none = Window { start: Instant::EPOCH, end: Instant::EPOCH };
    let day = windows.map_or(none, |windows| windows.day);
    let [settled, over, late, inferred, unknown] = dormant.spent.map(Amount::get);
    let day_spent = windows.map_or(Default::default(), |windows| windows.day_spent);
    let [day_settled, day_over, day_late, day_inferred, day_unknown] = day_spent.map(Amount::get);
    let evidence = &dormant.evidence;
    let block = state_dormant::Block::new(
        dormant.id,
        settled,
        over,
        late,
        evidence.resolved.get(),
        evidence.paid.get(),
        evidence.won.get(),
        evidence.expired_resolved.get(),
        evidence.expired_paid.get(),
        day.start.ms(),
        day.end.ms(),
        day_settled,
        day_over,
        day_late,
        dormant.unit.to_code(),
        flags,
        inferred,
        unknown,
        day_inferred,
        day_unknown,
    );
    let each = windows.map_or(Vec::new(), |windows| {
        let all = windows.limits.all().iter().zip(&windows.uses);
        all.map(|(window, used)| dormant_window(*window, *used)).collect()
    });
    let encoder = state_dormant::encode(buf, &block)?.windows(&each)?;
    Ok(encoder.handle(dormant.handle.as_str())?.finish())
}

fn dormant_window(window: WindowLimit, used: WindowUse) -> state_dormant::Window {
    let period = schema::Period::from_raw(window.period as u8).expect("periods are numbered alike");
    let is_bucket = u8::from(window.kind == WindowKind::Bucket);
    let WindowUse { since, until_ms, used, rest } = used;
    state_dormant::Window::new(
        window.limit.get(),
        since,
        until_ms,
        used.get(),
        rest,
        period,
        is_bucket,
    )
}

fn used_window(entry: &state_dormant::Window) -> Result<(WindowLimit, WindowUse), String> {
    let period = ledger::Period::ALL.into_iter().find(|p| *p as u8 == entry.period_raw());
    let period = period.ok_or_else(|| unknown("period", entry.period_raw()))?;
    let kind = if entry.is_bucket() == 0 { WindowKind::Fixed } else { WindowKind::Bucket };
    let limit = WindowLimit { period, kind, limit: Amount::new(entry.window_limit()) };
    let (since, until_ms, rest) = (entry.since(), entry.until_ms(), entry.rest());
    let used = WindowUse { since, until_ms, used: Amount::new(entry.used_sum()), rest };
    Ok((limit, used))
}

fn dormant(v: &StateDormant<'_>) -> Result<Dormant, String> {
    let flags = v.flags();
    let window = |start_ms, end_ms| Window {
        start: Instant::from_ms(start_ms),
        end: Instant::from_ms(end_ms),
    };
    let (mut limits, mut uses) = (Windows::default(), Vec::new());
    for entry in v.windows() {
        let (limit, used) = used_window(entry)?;
        // In the order of periods, each once: as they were written.
        limits = limits.with(limit);
        uses.push(used);
    }
    let windows = flags.has_windows().then(|| {
        Box::new(DormantWindows {
            day: window(v.day_start_ms(), v.day_end_ms()),
            day_spent: [
                v.day_settled(),
                v.day_over_settled(),
                v.day_late(),
                v.day_inferred().unwrap_or(0),
                v.day_unknown_order().unwrap_or(0),
            ]
            .map(Amount::new),
            limits,
            uses: uses.into_boxed_slice(),
        })
    });
    let unit = Unit::from_code(v.unit()).map_err(|error| error.to_string())?;
    Ok(Dormant {
        id: v.budget_id(),
        handle: Handle::parse(text(v.handle())?).map_err(|error| error.to_string())?,
        unit: unit.ok_or("a budget without a unit")?,
        limited: flags.limited(),
        spent: [
            v.settled(),
            v.over_settled(),
            v.late(),
            v.inferred().unwrap_or(0),
            v.unknown_order().unwrap_or(0),
        ]
        .map(Amount::new),
        evidence: LedgerEvidence {
            resolved: Amount::new(v.resolved_sum()),
            paid: Amount::new(v.paid_sum()),
            won: Amount::new(v.won_sum()),
            expired_resolved: Amount::new(v.expired_resolved_sum()),
            expired_paid: Amount::new(v.expired_paid_sum()),
        },
        windows,
    })
}

fn write_grant(part: &Part, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let Part::Grant {
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
        rests,
    } = part
    else {
        unreachable!("chosen by the caller")
    };
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
    let rests = entries(rests, state_grant::Rest::new);
    Ok(state_grant::encode(buf, &block)?
        .billing(&billing)?
        .unconfirmed(&unconfirmed)?
        .unbilled(&unbilled)?
        .rests(&rests)?
        .finish())
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
            lease_ms: v.lease_ms().unwrap_or(0),
            handed_over: v.flags().unwrap_or(RunFlags::NONE).handed_over(),
            next_grant: v.next_grant(),
            run: v.run(),
            next_made: v.next_made().unwrap_or(ledger::spec::MADE_ID_MIN),
            kept: [v.kept_edits(), v.kept_vault(), v.kept_budgets()].map(Option::unwrap_or_default),
        },
        View::Budget(v) => Part::Budget { spec: Box::new(spec(&v)?) },
        View::StateBooks(v) => books(&v),
        View::StateDormant(v) => Part::Dormant(Box::new(dormant(&v)?)),
        View::StateGrant(v) => grant(&v)?,
        View::StateMarks(v) => Part::Marks {
            page: v.page(),
            marks: *v.marks(),
            whole: v.whole() == Some(1),
            amounts: (v.amounts().into_iter().flatten())
                .map(|entry| (entry.place(), Amount::new(entry.spent())))
                .collect(),
        },
        View::StateKey(v) => {
            Part::Key(TokenKey { id: v.key_id(), key: KeyBytes(*v.secret()), since_ms: v.at_ms() })
        }
        View::StateAnswerSecret(v) => Part::AnswerSecret(KeyBytes(*v.secret())),
        View::StateAnswer(v) => Part::Answer {
            kept: kept(v.idempotency(), v.digest(), v.answer()),
            verdict: outcome(v.outcome(), v.outcome_raw())?,
            at_ms: v.at_ms(),
        },
        View::StateMemo(v) => Part::Memo {
            memo: memo((v.memo_door(), v.memo_door_raw()), v.memo_key(), v.memo())?,
            at_ms: v.at_ms(),
        },
        View::Named(v) => Part::Named(Box::new(named_hold(&v)?)),
        View::Timed(v) => Part::Timed(Box::new(timed_change(&v)?.row)),
        View::StateEnd(v) => Part::End { parts: v.parts(), digest: v.digest() },
        _ => return Err("a record stands where a part of a snapshot should".into()),
    })
}

fn books(v: &StateBooks<'_>) -> Part {
    Part::Books {
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
            v.inferred().unwrap_or(0),
            v.unknown_order().unwrap_or(0),
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
            v.day_inferred().unwrap_or(0),
            v.day_unknown_order().unwrap_or(0),
        ]
        .map(Amount::new),
        evidence: LedgerEvidence {
            resolved: Amount::new(v.resolved_sum().unwrap_or(0)),
            paid: Amount::new(v.paid_sum().unwrap_or(0)),
            won: Amount::new(v.won_sum().unwrap_or(0)),
            expired_resolved: Amount::new(v.expired_resolved_sum().unwrap_or(0)),
            expired_paid: Amount::new(v.expired_paid_sum().unwrap_or(0)),
        },
        period: WindowUse {
            since: v.period_start_ms().unwrap_or(0),
            until_ms: v.period_end_ms().unwrap_or(0),
            used: Amount::new(v.period_used().unwrap_or(0)),
            rest: 0,
        },
        windows: (v.windows().into_iter().flatten())
            .map(|of| WindowUse {
                since: of.since(),
                until_ms: of.until_ms(),
                used: Amount::new(of.used_sum()),
                rest: of.rest(),
            })
            .collect(),
    }
}

fn grant(v: &StateGrant<'_>) -> Result<Part, String> {
    Ok(Part::Grant {
        grant: v.grant(),
        budget: v.budget_id(),
        worker: v.worker(),
        billing_ms: v.billing_ms(),
        out: Amount::new(v.out()),
        keeps: keeps(v.keeps()),
        stage: stage(v)?,
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
        rests: (v.rests().into_iter().flatten())
            .map(|entry| (entry.deadline_ms(), Amount::new(entry.amount())))
            .collect(),
    })
}

fn stage(v: &StateGrant<'_>) -> Result<ledger::Stage, String> {
    match v.stage() {
        Some(schema::Stage::Open) => Ok(ledger::Stage::Open),
        Some(schema::Stage::Retired) => Ok(ledger::Stage::Retired { deadline_ms: v.stage_ms() }),
        Some(schema::Stage::Suspended) => Ok(ledger::Stage::Suspended { until_ms: v.stage_ms() }),
        Some(schema::Stage::Expired) => Ok(ledger::Stage::Expired { until_ms: v.stage_ms() }),
        None => Err(unknown("stage", v.stage_raw())),
    }
}

/// Grants of the first journals keep nothing.
fn keeps(flags: Option<Keeps>) -> ledger::Keeps {
    let flags = flags.unwrap_or(Keeps::NONE);
    ledger::Keeps { unconfirmed: flags.unconfirmed(), confirmed: flags.confirmed() }
}
