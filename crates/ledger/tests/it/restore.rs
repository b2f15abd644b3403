//! A state that was taken apart and put together again is the same state, for everything that can follow.

use ledger::{
    Action, Amount, Bank, BudgetSpec, OnExpiry, Out, Part, Record, Restore, RestoreError, Stage,
    ToBank, WindowUse, Windows,
};
use proptest::prelude::*;

use crate::bench::{Bench, NOON, child, options, replay, spec};
use crate::random::{Op, Play, op};

pub(crate) fn parts(bank: &Bank) -> Vec<Part> {
    let mut parts = Vec::new();
    bank.parts(&mut |part| parts.push(part));
    parts
}

pub(crate) fn restore(parts: Vec<Part>) -> Result<Bank, RestoreError> {
    let mut restore = Restore::new(options(2));
    parts.into_iter().try_for_each(|part| restore.take(part))?;
    restore.finish()
}

/// What a bank does when a run begins and hours pass.
fn what_follows(mut bank: Bank) -> Vec<Record> {
    let mut out = Out::default();
    let start_ms = bank.now_ms().max(NOON) + 10;
    bank.start_run(start_ms, &mut out);
    bank.open_all(&mut out);
    for now_ms in (start_ms..start_ms + 40_000).step_by(333).chain([start_ms + 100_000_000]) {
        bank.tick(now_ms, &mut out);
        for worker in 0..2 {
            bank.step(worker, ToBank::Tick { now_ms }, &mut out);
        }
    }
    bank.reconcile(None, u64::MAX, &mut out);
    bank.audit().unwrap();
    out.records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_restored_bank_goes_on_as_one_that_replayed_all(
        ops in proptest::collection::vec(op(), 1..100),
        at in any::<prop::sample::Index>(),
    ) {
        let play = played(&ops);
        let records = &play.bench.records;
        let (before, after) = records.split_at(at.index(records.len() + 1));
        let first = replay(&options(2), before);
        let mut bank = restore(parts(&first)).unwrap();
        prop_assert_eq!(bank.digest(), first.digest());
        prop_assert_eq!(bank.now_ms(), first.now_ms());
        prop_assert_eq!(parts(&bank), parts(&first));
        for record in after {
            bank.replay(record).unwrap();
        }
        let all = replay(&options(2), records);
        prop_assert_eq!(bank.digest(), all.digest());
        prop_assert_eq!(bank.digest(), play.bench.bank.digest());
        prop_assert_eq!(what_follows(bank), what_follows(all));
    }

    /// The live bank hands out what a replay of its records does, but for the time that passed since.
    #[test]
    fn a_live_bank_hands_out_the_same_parts(ops in proptest::collection::vec(op(), 1..60)) {
        let play = played(&ops);
        let copy = replay(&options(2), &play.bench.records);
        prop_assert_eq!(&parts(&play.bench.bank)[1..], &parts(&copy)[1..]);
        restore(parts(&play.bench.bank)).unwrap();
    }

    #[test]
    fn changed_parts_are_refused_or_make_a_sound_bank(
        ops in proptest::collection::vec(op(), 1..60),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), change()), 1..4),
        mend in any::<bool>(),
    ) {
        let mut parts = parts(&played(&ops).bench.bank);
        for (at, change) in changes {
            let index = at.index(parts.len());
            apply(&mut parts, index, change);
        }
        if mend {
            mend_end(&mut parts);
        }
        if let Ok(bank) = restore(parts) {
            what_follows(bank);
        }
    }
}

fn played(ops: &[Op]) -> Play {
    let mut play = Play::new();
    ops.iter().for_each(|op| play.play(op));
    play
}

#[derive(Clone, Debug)]
enum Change {
    Drop,
    Twice,
    Swap(prop::sample::Index),
    Field { field: usize, value: u64 },
}

fn change() -> impl Strategy<Value = Change> {
    let value = prop_oneof![
        0..4u64,
        Just(u64::MAX),
        Just(u64::MAX / 2),
        Just(1 << 63),
        Just(1_000_000_000_000_000_000),
        (0..64u32).prop_map(|shift| 1 << shift),
        any::<u64>(),
    ];
    prop_oneof![
        1 => Just(Change::Drop),
        1 => Just(Change::Twice),
        1 => any::<prop::sample::Index>().prop_map(Change::Swap),
        6 => (0..24usize, value).prop_map(|(field, value)| Change::Field { field, value }),
    ]
}

fn apply(parts: &mut Vec<Part>, index: usize, change: Change) {
    match change {
        Change::Drop if parts.len() > 1 => drop(parts.remove(index)),
        Change::Drop => {}
        Change::Twice => parts.insert(index, parts[index].clone()),
        Change::Swap(other) => {
            let other = other.index(parts.len());
            parts.swap(index, other);
        }
        Change::Field { field, value } => set(&mut parts[index], field, value),
    }
}

fn set_head(part: &mut Part, field: usize, value: u64) {
    match part {
        Part::Head {
            now_ms,
            hold_ms_max,
            billing_ms,
            win_notices,
            lease_ms,
            handed_over,
            next_grant,
            run,
            next_made,
            kept,
        } => match field % 10 {
            0 => *now_ms = value,
            1 => *hold_ms_max = value,
            2 => *billing_ms = value,
            3 => *next_grant = value,
            4 => *win_notices = value == 0,
            5 => *next_made = value,
            6 => *lease_ms = value,
            7 => *handed_over = value == 0,
            8 => kept[1] = value,
            _ => *run = u32::try_from(value >> 32).unwrap(),
        },
        _ => unreachable!("chosen by the caller"),
    }
}

/// Puts a number where it does not belong.
fn set(part: &mut Part, field: usize, value: u64) {
    let amount = Amount::new(value.cast_signed());
    match part {
        Part::Head { .. } => set_head(part, field, value),
        Part::Budget { spec } => match field % 8 {
            0 => spec.id = value,
            1 => spec.limit = amount,
            2 => spec.windows = Windows::daily(Some(amount)),
            3 => spec.parent = Some(value),
            4 => spec.late_reserve_bp = u16::try_from(value >> 48).unwrap(),
            5 => spec.tolerance_ppm = u32::try_from(value >> 32).unwrap(),
            6 => spec.on_expiry = OnExpiry::Release,
            _ => spec.end = money::Instant::from_ms(value),
        },
        Part::Books { .. } => set_books(part, field, value),
        Part::Grant { .. } => set_grant(part, field, value),
        Part::Dormant(dormant) => match field % 5 {
            0 => dormant.id = value,
            1 => dormant.limited ^= true,
            2 => dormant.evidence.paid = amount,
            3 => {
                if let Some(windows) = &mut dormant.windows {
                    windows.day.end = money::Instant::from_ms(value);
                }
            }
            _ => dormant.spent[field % 3] = amount,
        },
        Part::Marks { page, marks, whole, amounts } => match field % 5 {
            0 => *page = u32::try_from(value >> 32).unwrap(),
            1 => amounts.push((u8::try_from(value >> 56).unwrap(), amount)),
            2 => *whole ^= true,
            3 => amounts.clear(),
            _ => marks[field] = u8::try_from(value >> 56).unwrap(),
        },
        Part::Key(key) => key.id = u8::try_from(value >> 56).unwrap(),
        Part::AnswerSecret(secret) => secret.0[field % 16] ^= u8::try_from(value >> 56).unwrap(),
        Part::Answer { kept, at_ms, .. } => match field % 3 {
            0 => kept.key = value.into(),
            1 => kept.digest = value.into(),
            _ => *at_ms = value,
        },
        Part::Memo { memo, at_ms } => match field % 3 {
            0 => memo.key = value.into(),
            1 => memo.bytes = [u8::try_from(value >> 56).unwrap()].into(),
            _ => *at_ms = value,
        },
        Part::Named(_) | Part::Timed(_) => set_row(part, field, value),
        Part::End { parts, digest } => match field % 2 {
            0 => *parts = value,
            _ => *digest = value,
        },
    }
}

fn set_row(part: &mut Part, field: usize, value: u64) {
    let amount = Amount::new(value.cast_signed());
    match part {
        Part::Named(hold) => match field % 5 {
            0 => hold.key = value.into(),
            1 => hold.legs.push(hold.legs[0]),
            2 => hold.legs[0].budget = value,
            3 => hold.legs[0].amounts.spent[1] = amount,
            _ => hold.legs[0].amounts.hold = amount,
        },
        Part::Timed(row) => match field % 5 {
            0 => row.hold.key = value.into(),
            1 => row.amount = amount,
            2 => row.hold.legs[0].amounts.hold = amount,
            3 => row.until_ms = value,
            _ => row.state = ledger::Verdict::Busy,
        },
        _ => unreachable!("chosen by the caller"),
    }
}

fn set_books(part: &mut Part, field: usize, value: u64) {
    let amount = Amount::new(value.cast_signed());
    let Part::Books { day_start_ms, day_end_ms, lines, day_lines, evidence, period, windows } =
        part
    else {
        unreachable!("chosen by the caller")
    };
    match field % 26 {
        0 => *day_start_ms = value,
        1 => *day_end_ms = value,
        line @ 2..12 => lines[line - 2] = amount,
        line @ 12..21 => day_lines[line - 12] = amount,
        21 => evidence.expired_resolved = amount,
        22 => period.until_ms = value,
        23 => windows.push(WindowUse { until_ms: value, ..WindowUse::default() }),
        24 => windows.clear(),
        _ => evidence.paid = amount,
    }
}

fn set_grant(part: &mut Part, field: usize, value: u64) {
    let amount = Amount::new(value.cast_signed());
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
    match field % 17 {
        0 => *grant = value,
        1 => *budget = value,
        2 => *worker = u16::try_from(value >> 48).unwrap(),
        3 => *billing_ms = value,
        4 => *out = amount,
        5 => *stage = Stage::Retired { deadline_ms: value },
        6 => *stage = Stage::Suspended { until_ms: value },
        7 => days[field % 4] = value,
        8 => *stage = Stage::Open,
        9 => *stage = Stage::Expired { until_ms: value },
        10 => keeps.unconfirmed ^= true,
        11 => keeps.confirmed ^= true,
        12 => *expired_ms = value,
        13 => unconfirmed.push((value, amount)),
        14 => unbilled.push((value, amount)),
        15 => rests.push((value, amount)),
        _ => billing.push((value, amount)),
    }
}

/// Makes the end agree with what was changed, as somebody would who wants it to be believed.
fn mend_end(parts: &mut [Part]) {
    let count = u64::try_from(parts.len()).unwrap() - 1;
    let mut digest = 0;
    for _ in 0..2 {
        if let Some(Part::End { parts, digest: expected }) = parts.last_mut() {
            (*parts, *expected) = (count, digest);
        }
        if let Err(RestoreError::Digest { found, .. }) = restore(parts.to_vec()) {
            digest = found;
        }
    }
}

#[test]
fn an_unfinished_row_is_refused() {
    let bench = Bench::new(2, &[spec(1, 1_000)]);
    let parts = parts(&bench.bank);
    for missing in 1..=parts.len() {
        let error = restore(parts[..parts.len() - missing].to_vec()).unwrap_err();
        assert!(matches!(error, RestoreError::Unfinished(_)), "{error}");
    }
    assert!(restore(parts).is_ok());
}

/// Grants of long ago may be open still; but a number alone takes no memory to speak of.
#[test]
fn gaps_between_grants_are_bounded() {
    let bench = Bench::new(2, &[spec(1, 1_000)]);
    let parts = parts(&bench.bank);
    for (next, fits) in [(1 << 20, true), (1 << 26, false), (1 << 40, false)] {
        let mut parts = parts.clone();
        let Part::Head { next_grant, .. } = &mut parts[0] else { unreachable!() };
        *next_grant = next;
        mend_end(&mut parts);
        assert_eq!(restore(parts).is_ok(), fits, "{next}");
    }
}

/// The last two lines come back, count as spent, of the day too, and are part of the figure.
#[test]
fn what_was_inferred_and_of_unknown_orders_is_spent() {
    let [start, end] = [1, 4_000_000_000_000].map(money::Instant::from_ms);
    let windows = ledger::Windows::daily(Some(Amount::new(400)));
    let bench = Bench::new(1, &[BudgetSpec { start, end, windows, ..spec(1, 1_000) }]);
    let mut parts = parts(&bench.bank);
    let books = parts.iter_mut().find(|part| matches!(part, Part::Books { .. })).unwrap();
    let Part::Books { lines, day_lines, .. } = books else { unreachable!() };
    lines[0] = Amount::new(lines[0].get() - 70);
    for (line, spent) in [(8, 20), (9, 50)] {
        (lines[line], day_lines[line - 1]) = (Amount::new(spent), Amount::new(spent));
    }
    mend_end(&mut parts);
    let bank = restore(parts.clone()).unwrap();
    let change = |of: fn(&Bank) -> Amount| of(&bank).get() - of(&bench.bank).get();
    assert_eq!(change(|bank| bank.books(0).spent()), 70);
    assert_eq!(change(|bank| bank.books(0).debts()), 50);
    assert_eq!(change(|bank| bank.day(0).1), 70);
    assert_eq!(change(|bank| bank.available(0)), -70);
    assert_ne!(bank.digest(), bench.bank.digest());
    assert_ne!(bank.books_digest(), bench.bank.books_digest());
    let mut again = Vec::new();
    bank.parts(&mut |part| again.push(part));
    assert_eq!(again, parts);
}

/// Snapshots of the first journals carry a figure over what they knew: a state that has nothing newer keeps it.
#[test]
fn an_older_state_keeps_its_figure() {
    let [start, end] = [1, 4_000_000_000_000].map(money::Instant::from_ms);
    let set = [spec(1, 1_000), child(2, 500, 1)].map(|spec| BudgetSpec { start, end, ..spec });
    let mut bench = Bench::new(2, &set);
    let [first, _] = [0; 2].map(|_| bench.insist(0, 2, 10).unwrap());
    bench.resolve(Action::Confirm, first, 0);
    bench.advance(1_000);
    assert_eq!(bench.bank.digest(), 16_487_593_699_727_782_652);
}
