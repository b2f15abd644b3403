//! Parts of snapshots.

use ledger::{Amount, KeyBytes, LedgerEvidence, Part, TokenKey};
use wire::EncodeError;
use wire::journal::{self as schema, Message as View, *};

use super::{FITS, Message, run_flags, spec, unknown, win_notices, write_budget};

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
        Part::Books { .. } => write_books(part, buf)?,
        Part::Grant { .. } => write_grant(part, buf)?,
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

fn write_books(part: &Part, buf: &mut [u8]) -> Result<usize, EncodeError> {
    let Part::Books {
        day_start_ms,
        day_end_ms,
        lines,
        day_lines,
        evidence,
        period_start_ms,
        period_end_ms,
        period_used,
    } = part
    else {
        unreachable!("chosen by the caller")
    };
    let [free, purses, held, suspended, expired, settled, over, late] = lines.map(Amount::get);
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
    Ok(state_books::encode(buf, &block)?.finish())
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
    Ok(state_grant::encode(buf, &block)?
        .billing(&billing)?
        .unconfirmed(&unconfirmed)?
        .unbilled(&unbilled)?
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
            next_grant: v.next_grant(),
            run: v.run(),
        },
        View::Budget(v) => Part::Budget { spec: Box::new(spec(&v)?) },
        View::StateBooks(v) => books(&v),
        View::StateGrant(v) => grant(&v)?,
        View::StateMarks(v) => Part::Marks { page: v.page(), marks: *v.marks() },
        View::StateKey(v) => {
            Part::Key(TokenKey { id: v.key_id(), key: KeyBytes(*v.secret()), since_ms: v.at_ms() })
        }
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
