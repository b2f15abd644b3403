use ledger::{
    Clock, Door, EDIT_TEXT_MAX, EditAction, Hold, LedgerEvidence, OPERATOR_TEXT_MAX, Origin, Part,
    Record, Stage, TokenKey, Verdict,
};
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
        |((grant, seq, node, deadline_ms, held), verdict, amount, at_ms, (door, request_id))| {
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
