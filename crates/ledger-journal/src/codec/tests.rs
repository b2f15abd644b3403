use ledger::{
    Clock, Door, EDIT_TEXT_MAX, EditAction, Hold, Kept, KeptWith, LedgerEvidence, Memo,
    OPERATOR_TEXT_MAX, Origin, Part, Record, Room, Stage, TokenKey, Verdict, WindowUse,
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
    let money = (amount(), unit(), any::<u16>());
    let time = (instant(), instant(), zone());
    let window = prop::option::of((amount(), any::<bool>()));
    let expiry = (any::<bool>(), any::<u32>(), prop::collection::vec(window, 5));
    let made = (prop::option::of(handle()), any::<u64>());
    let rest = (any::<u64>(), prop::option::of(any::<u64>()), status, (expiry, made));
    (money, time, rest).prop_map(
        |(
            (limit, unit, late_reserve_bp),
            (start, end, zone),
            (id, parent, status, ((holds, tolerance_ppm, limits), (handle, idle_ms))),
        )| {
            let windows = Period::ALL.into_iter().zip(limits).filter_map(|(period, limit)| {
                let (limit, bucket) = limit?;
                let kind = if bucket { WindowKind::Bucket } else { WindowKind::Fixed };
                Some(WindowLimit { period, kind, limit })
            });
            let dates = BudgetSpec {
                id,
                handle,
                idle_ms,
                unit,
                limit,
                start,
                end,
                zone,
                status,
                parent,
                late_reserve_bp,
                on_expiry: if holds { OnExpiry::Hold } else { OnExpiry::Release },
                tolerance_ppm,
                windows: Windows::of(windows),
            };
            Box::new(dates)
        },
    )
}

fn handle() -> impl Strategy<Value = Handle> {
    let segments = "[A-Za-z0-9._:@-]{0,61}[a-z](/[A-Za-z0-9._:@-]{0,31}[a-z]){0,2}";
    segments.prop_map(|text| Handle::parse(&text).unwrap())
}

fn dormant() -> impl Strategy<Value = Part> {
    let window = || (instant(), instant()).prop_map(|(start, end)| money::Window { start, end });
    let used = any::<[u64; 3]>().prop_map(|[since, until_ms, rest]| (since, until_ms, rest));
    let one = prop::option::of((amount(), any::<bool>(), used, amount()));
    let all = prop::collection::vec(one, 5);
    let windows = (window(), any::<[i64; 5]>(), all).prop_map(|(day, day_spent, all)| {
        let (mut limits, mut uses) = (Windows::default(), Vec::new());
        for (period, one) in Period::ALL.into_iter().zip(all) {
            let Some((limit, is_bucket, (since, until_ms, rest), used)) = one else { continue };
            let kind = if is_bucket { WindowKind::Bucket } else { WindowKind::Fixed };
            limits = limits.with(WindowLimit { period, kind, limit });
            uses.push(WindowUse { since, until_ms, used, rest });
        }
        let uses = uses.into_boxed_slice();
        let day_spent = day_spent.map(Amount::new);
        Box::new(ledger::DormantWindows { day, day_spent, limits, uses })
    });
    let rest = (any::<[i64; 10]>(), prop::option::of(windows));
    (any::<u64>(), handle(), unit(), any::<bool>(), rest).prop_map(
        |(id, handle, unit, limited, (sums, windows))| {
            let [a, b, c, d, e, rest @ ..] = sums.map(Amount::new);
            let (spent, evidence) = ([a, b, c, d, e], evidence_of(rest));
            Part::Dormant(Box::new(ledger::Dormant {
                id,
                handle,
                unit,
                limited,
                spent,
                evidence,
                windows,
            }))
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
    let doors = [Door::Batch, Door::Openrtb, Door::Fix, Door::Keys, Door::Admin, Door::Spend];
    prop::sample::select(doors.to_vec())
}

fn kept() -> impl Strategy<Value = Kept> {
    let answer = prop::collection::vec(any::<u8>(), 0..=ledger::keyed::ANSWER_BYTES_MAX);
    (any::<[u128; 2]>(), answer).prop_map(|([key, digest], answer)| Kept {
        key,
        digest,
        answer: answer.into(),
    })
}

fn memo() -> impl Strategy<Value = Memo> {
    let bytes = prop::collection::vec(any::<u8>(), 0..=ledger::memo::MEMO_BYTES_MAX);
    (door(), any::<u128>(), bytes).prop_map(|(door, key, bytes)| Memo {
        door,
        key,
        bytes: bytes.into(),
    })
}

fn kept_with() -> impl Strategy<Value = KeptWith> {
    prop_oneof![kept().prop_map(KeptWith::Answer), memo().prop_map(KeptWith::Memo)]
}

fn resolved() -> impl Strategy<Value = Record> {
    let hold = (any::<u64>(), any::<u32>(), any::<u16>(), any::<u64>(), amount());
    let origin = (door(), any::<u64>());
    let kept = prop::option::of(kept_with().prop_map(Box::new));
    (hold, verdict(), amount(), any::<u64>(), origin, kept).prop_map(
        |(
            (grant, seq, node, deadline_ms, held),
            verdict,
            amount,
            at_ms,
            (door, request_id),
            kept,
        )| {
            let hold = Hold { grant, seq, node, deadline_ms, amount: held };
            let origin = Origin { door, request_id };
            let keeps_rest = verdict == Verdict::Settled && kept.is_none() && at_ms % 2 == 0;
            let settles = !matches!(verdict, Verdict::Confirmed | Verdict::Released);
            let clicked = settles && seq % 2 == 0;
            Record::Resolved { hold, verdict, amount, at_ms, origin, keeps_rest, clicked, kept }
        },
    )
}

fn part_of_message() -> impl Strategy<Value = Record> {
    let rooms = prop::sample::select(Room::ALL.to_vec());
    let longest = Just(vec![0xA5; ledger::room::PART_BYTES_MAX]);
    let bytes = prop_oneof![9 => prop::collection::vec(any::<u8>(), 0..100), 1 => longest];
    let part = (rooms, any::<u32>(), any::<bool>(), bytes);
    part.prop_map(|(room, part, last, bytes)| Record::Kept {
        room,
        part,
        last,
        bytes: bytes.into(),
    })
}

fn any_record() -> impl Strategy<Value = Record> {
    let numbers = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    let small = (any::<u32>(), any::<u16>(), any::<u8>(), any::<[u8; 16]>());
    let plain = (0..21usize, numbers, small, amount()).prop_map(
        |(kind, (a, b, c, d), (run, worker, key_id, key), amount)| match kind {
            0 => Record::RunStarted {
                run,
                at_ms: a,
                suspended_until_ms: b,
                hold_ms_max: c,
                billing_ms: d,
                win_notices: worker % 2 == 0,
                lease_ms: a ^ b,
                node: format!("node-{run}").into(),
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
            19 => Record::Beat { at_ms: a },
            20 => Record::Handover { at_ms: a },
            14 => Record::AnswerSecret { secret: key.into(), at_ms: a },
            13 => Record::PeriodRolled { id: a, start_ms: b, end_ms: c },
            15 => Record::BudgetIdled { id: a },
            16 => Record::BudgetForgotten { id: a },
            17 => Record::WindowRolled {
                id: a,
                period: Period::ALL[run as usize % 5],
                start_ms: b,
                end_ms: c,
            },
            _ => Record::KeyRetired { key_id },
        },
    );
    let operator = (any::<u64>(), text(OPERATOR_TEXT_MAX), text(OPERATOR_TEXT_MAX))
        .prop_map(|(at_ms, who, why)| Record::Operator { at_ms, who, why });
    let budget = spec().prop_map(|spec| Record::Budget { spec });
    let memo = (memo(), any::<u64>())
        .prop_map(|(memo, at_ms)| Record::Memo { memo: Box::new(memo), at_ms });
    let topped_up = (resolved(), amount()).prop_filter_map("resolved", |(record, total)| {
        let Record::Resolved { hold, verdict, amount, at_ms, origin, .. } = record else {
            return None;
        };
        let uses_rest = at_ms % 2 == 0;
        Some(Record::ToppedUp { hold, verdict, amount, total, uses_rest, at_ms, origin })
    });
    let clicked = resolved().prop_filter_map("resolved", |record| {
        let Record::Resolved { hold, at_ms, origin, .. } = record else { return None };
        Some(Record::Clicked { hold, billed: at_ms % 2 == 0, at_ms, origin })
    });
    let said = (named(), any::<[bool; 3]>(), any::<u64>());
    let named = said.prop_map(|(hold, [fact, opens, ends], at_ms)| match ends {
        true => Record::NamedEnded { door: hold.door, key: hold.key, at_ms },
        false => Record::Named { hold, fact, opens, at_ms },
    });
    prop_oneof![2 => named, 2 => timed().prop_map(Record::Timed), 6 => plain, 2 => resolved(), 1 => topped_up, 1 => clicked, 1 => part_of_message(), 2 => memo, 2 => operator, 2 => budget, 2 => edited()]
}

fn timed() -> impl Strategy<Value = Box<ledger::TimedChange>> {
    let states = prop::sample::select(vec![
        Verdict::Granted,
        Verdict::Confirmed,
        Verdict::Expired,
        Verdict::Settled,
        Verdict::SettledOver,
        Verdict::SettledLate,
        Verdict::Released,
    ]);
    let row = (named(), amount(), any::<u64>(), states).prop_map(
        |(mut hold, amount, until_ms, state)| {
            hold.label = "".into();
            for leg in &mut hold.legs {
                leg.amounts.spent[3..].fill(Amount::ZERO);
            }
            ledger::TimedHold { hold: *hold, amount, until_ms, state }
        },
    );
    (row, resolved(), any::<[bool; 3]>()).prop_map(|(row, record, [opens, is_moved, has_key])| {
        let Record::Resolved { hold, at_ms, origin, kept, .. } = record else {
            unreachable!("drawn")
        };
        let moved = is_moved.then_some(Hold { amount: row.amount, ..hold });
        let kept = match kept.filter(|_| has_key).map(|kept| *kept) {
            Some(ledger::KeptWith::Answer(kept)) => Some(kept),
            _ => None,
        };
        Box::new(ledger::TimedChange { row, opens, moved, at_ms, origin, kept })
    })
}

fn named() -> impl Strategy<Value = Box<ledger::NamedHold>> {
    let leg = (any::<[i64; 6]>(), any::<u64>()).prop_map(|([hold, spent @ ..], budget)| {
        let (hold, spent) = (Amount::new(hold), spent.map(Amount::new));
        ledger::NamedLeg { budget, amounts: ledger::LegAmounts { hold, spent } }
    });
    let legs = prop::collection::vec(leg, 0..=ledger::named::LEGS_MAX);
    let label = text(ledger::named::LABEL_BYTES_MAX);
    (door(), any::<u128>(), label, legs)
        .prop_map(|(door, key, label, legs)| Box::new(ledger::NamedHold { door, key, label, legs }))
}

fn evidence_of(
    [resolved, paid, won, expired_resolved, expired_paid]: [Amount; 5],
) -> LedgerEvidence {
    LedgerEvidence { resolved, paid, won, expired_resolved, expired_paid }
}

fn answers() -> impl Strategy<Value = Part> {
    let secret = any::<[u8; 16]>().prop_map(|secret| Part::AnswerSecret(secret.into()));
    let answer = (kept(), verdict(), any::<u64>())
        .prop_map(|(kept, verdict, at_ms)| Part::Answer { kept, verdict, at_ms });
    let memo = (memo(), any::<u64>()).prop_map(|(memo, at_ms)| Part::Memo { memo, at_ms });
    let timed = timed().prop_map(|change| Part::Timed(Box::new(change.row)));
    prop_oneof![secret, answer, memo, named().prop_map(Part::Named), timed]
}

fn any_books() -> impl Strategy<Value = Part> {
    let used = || {
        let parts = (any::<[u64; 2]>(), amount());
        let used = |([since, until_ms], used): ([u64; 2], Amount)| WindowUse {
            since,
            until_ms,
            used,
            rest: 0,
        };
        parts.prop_map(used)
    };
    let windows = (used(), prop::collection::vec((used(), any::<u64>()), 0..6));
    let numbers = (any::<[u64; 2]>(), any::<[i64; 10]>(), any::<[i64; 9]>(), any::<[i64; 5]>());
    (numbers, windows).prop_map(
        |(([day_start_ms, day_end_ms], lines, day_lines, sums), (period, windows))| {
            let of = |(of, rest)| WindowUse { rest, ..of };
            let windows = windows.into_iter().map(of).collect();
            Part::Books {
                day_start_ms,
                day_end_ms,
                lines: lines.map(Amount::new),
                day_lines: day_lines.map(Amount::new),
                evidence: evidence_of(sums.map(Amount::new)),
                period,
                windows,
            }
        },
    )
}

fn any_part() -> impl Strategy<Value = Part> {
    let head = (any::<[u64; 5]>(), any::<u32>()).prop_map(|([a, b, c, d, e], run)| Part::Head {
        kept: [e, d, c],
        now_ms: a,
        hold_ms_max: b,
        billing_ms: c,
        win_notices: run % 2 == 0,
        lease_ms: a ^ b,
        handed_over: run % 3 == 0,
        next_grant: d,
        run,
        next_made: e,
    });
    let books = any_books();
    let stage = prop_oneof![
        Just(Stage::Open),
        any::<u64>().prop_map(|deadline_ms| Stage::Retired { deadline_ms }),
        any::<u64>().prop_map(|until_ms| Stage::Suspended { until_ms }),
        any::<u64>().prop_map(|until_ms| Stage::Expired { until_ms }),
    ];
    let sums = || prop::collection::vec((any::<u64>(), amount()), 0..100);
    let sums = (sums(), sums(), sums(), sums());
    let keeps = any::<[bool; 2]>()
        .prop_map(|[unconfirmed, confirmed]| ledger::Keeps { unconfirmed, confirmed });
    let plain = (any::<[u64; 4]>(), any::<u16>(), amount(), keeps, stage, any::<[u64; 4]>());
    let grant = (plain, sums).prop_map(
        |(([grant, budget, billing_ms, expired_ms], worker, out, keeps, stage, days), sums)| {
            let (billing, unconfirmed, unbilled, rests) = sums;
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
                rests,
            }
        },
    );
    let amounts = prop::collection::vec((any::<u8>(), amount()), 0..=256);
    let marks = (any::<u32>(), any::<[u64; 16]>(), any::<bool>(), amounts).prop_map(
        |(page, words, whole, amounts)| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            Part::Marks { page, marks: bytes.try_into().unwrap(), whole, amounts }
        },
    );
    let key = (any::<u8>(), any::<[u8; 16]>(), any::<u64>())
        .prop_map(|(id, key, since_ms)| Part::Key(TokenKey { id, key: key.into(), since_ms }));
    let end = any::<[u64; 2]>().prop_map(|[parts, digest]| Part::End { parts, digest });
    let budget = spec().prop_map(|spec| Part::Budget { spec });
    prop_oneof![head, budget, books, dormant(), grant, marks, key, end, answers()]
}

proptest! {
    #[test]
    fn records_come_back(expected in any_record()) {
        let bytes = bytes(&expected);
        prop_assert_eq!(record(&bytes).unwrap(), expected.clone());
        let is_both =
            matches!(expected, Record::Budget { .. } | Record::Named { .. } | Record::Timed(_));
        prop_assert_eq!(part(&bytes).is_ok(), is_both);
    }

    #[test]
    fn parts_come_back(expected in any_part()) {
        let bytes = bytes(&expected);
        prop_assert_eq!(part(&bytes).unwrap(), expected.clone());
        let is_both =
            matches!(expected, Part::Budget { .. } | Part::Named(_) | Part::Timed(_));
        prop_assert_eq!(record(&bytes).is_ok(), is_both);
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
        billing: row(1_000),
        expired_ms: 5,
        unconfirmed: row(1_000),
        unbilled: row(1_000),
        rests: row(1_000),
    };
    assert_eq!(part(&bytes(&longest)).unwrap(), longest);
}
