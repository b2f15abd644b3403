//! What records say beside the money: who asked, what was suspended, which keys, who acted.

use ledger::{
    Action, BudgetSpec, EDIT_TEXT_MAX, Edit, EditAction, KeyError, Line, OPERATOR_TEXT_MAX, Record,
    ReplayError, Status,
};
use money::Instant;

use crate::bench::{Bench, HOLD_MS, ORIGIN, options, replay, spec};

#[test]
fn a_resolve_is_recorded_with_its_origin() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let hold = bench.insist(0, 1, 10).unwrap();
    bench.resolve(Action::Settle, hold, 10);
    let origin = bench.records.iter().find_map(|record| match record {
        Record::Resolved { origin, .. } => Some(*origin),
        _ => None,
    });
    assert_eq!(origin, Some(ORIGIN));
}

#[test]
fn the_trail_names_every_suspension_once_and_its_end() {
    let mut bench = Bench::new(2, &[spec(1, 1_000), spec(2, 500)]);
    let _ = bench.insist(0, 1, 300).unwrap();
    bench.crash();
    let suspended = bench.line(1, Line::Suspended) + bench.line(2, Line::Suspended);
    // A second crash before the end: what is suspended already is not named again.
    bench.crash();
    bench.advance(HOLD_MS + 100);
    bench.advance(HOLD_MS + 100);
    let mut first_run = 0;
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for record in &bench.records {
        match record {
            Record::RunStarted { run: 3, .. } => first_run = begun.iter().map(|(_, a)| a).sum(),
            Record::Suspended { grant, amount, .. } => begun.push((*grant, amount.get())),
            Record::Resumed { grant, amount } => ended.push((*grant, amount.get())),
            _ => {}
        }
    }
    assert_eq!(first_run, suspended);
    begun.sort_unstable();
    ended.sort_unstable();
    assert_eq!(begun, ended, "nothing was confirmed or settled in between");
    assert!(begun.windows(2).all(|pair| pair[0].0 < pair[1].0), "no grant twice");
}

#[test]
fn a_suspension_that_did_not_happen_is_refused() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let _ = bench.insist(0, 1, 300).unwrap();
    bench.crash();
    let at = bench.records.iter().position(|r| matches!(r, Record::Suspended { .. })).unwrap();
    let Record::Suspended { grant, until_ms, amount } = bench.records[at] else { unreachable!() };
    let bank = replay(&options(1), &bench.records[..at]);
    let other = ledger::Amount::new(amount.get() + 1);
    let (there, missing) = (amount, grant + 99);
    for (record, error) in [
        (
            Record::Suspended { grant, until_ms, amount: other },
            ReplayError::NotThere { grant, amount: other, there },
        ),
        (Record::Suspended { grant, until_ms: until_ms + 1, amount }, ReplayError::NotOpen(grant)),
        (Record::Suspended { grant: missing, until_ms, amount }, ReplayError::NoGrant(missing)),
    ] {
        let mut bank = bank.clone();
        assert_eq!(bank.replay(&record), Err(error));
    }
}

#[test]
fn keys_survive_a_crash_in_their_order() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    bench.act(|bank, out| {
        for id in [7, 8, 9] {
            bank.add_key(id, [id; 16].into(), out).unwrap();
        }
        bank.retire_key(8, out).unwrap();
        assert_eq!(bank.retire_key(9, out), Err(KeyError::Minting(9)));
        assert_eq!(bank.retire_key(8, out), Err(KeyError::Unknown(8)));
        assert_eq!(bank.add_key(7, [0; 16].into(), out), Err(KeyError::Twice(7)));
    });
    let before = bench.bank.keys().to_vec();
    bench.crash();
    assert_eq!(bench.bank.keys(), before);
    assert_eq!(before.iter().map(|key| key.id).collect::<Vec<_>>(), [7, 9]);
    let mut bank = replay(&options(1), &bench.records);
    let unknown = bank.replay(&Record::KeyRetired { key_id: 8 });
    assert_eq!(unknown, Err(ReplayError::Key(KeyError::Unknown(8))));
    let text = format!("{:?}", bench.records);
    assert!(text.contains("KeyAdded") && !text.contains("[7, 7"), "keys do not show");
}

#[test]
fn an_operator_is_noted_and_changes_nothing() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let before = bench.bank.digest();
    let why = format!("x{}", "\u{e9}".repeat(OPERATOR_TEXT_MAX));
    bench.act(|bank, out| bank.note_operator("ada", &why, out));
    let Some(Record::Operator { at_ms, who, why }) = bench.records.last() else { unreachable!() };
    assert_eq!((*at_ms, &**who, why.len()), (bench.bank.now_ms(), "ada", OPERATOR_TEXT_MAX - 1));
    assert_eq!(bench.bank.digest(), before);
    bench.check();
}

#[test]
fn an_edit_is_noted_and_changes_nothing() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let before = bench.bank.digest();
    let long = "\u{e9}".repeat(EDIT_TEXT_MAX);
    let edit = Edit { record: 8, budget: 1, action: EditAction::Set, before: "{}", after: &long };
    bench.act(|bank, out| bank.note_edit(&edit, out));
    let Some(Record::Edited { at_ms, record, budget, action, before: text, after }) =
        bench.records.last()
    else {
        unreachable!()
    };
    assert_eq!((*at_ms, *record, *budget), (bench.bank.now_ms(), 8, 1));
    assert_eq!((*action, &**text, after.len()), (EditAction::Set, "{}", EDIT_TEXT_MAX));
    assert_eq!(bench.bank.digest(), before);
    bench.check();
}

#[test]
fn some_budgets_are_changed_as_a_whole_configuration_would() {
    let all = [spec(1, 1_000), spec(2, 1_000), spec(3, 1_000)];
    let changed = [
        BudgetSpec { status: Status::Paused, ..spec(1, 1_000) },
        BudgetSpec { end: Instant::from_ms(2_000_000_000_000), ..spec(3, 500) },
    ];
    let (mut some, mut whole) = (Bench::new(2, &all), Bench::new(2, &all));
    some.act(|bank, out| bank.amend(&changed, out).unwrap());
    let [first, last] = changed.clone();
    whole.act(|bank, out| bank.configure(&[first, spec(2, 1_000), last], out).unwrap());
    assert_eq!(some.bank.digest(), whole.bank.digest());
    assert_eq!(some.records, whole.records);
    some.check();
}

#[test]
fn a_change_of_some_budgets_is_all_or_nothing() {
    let mut bench = Bench::new(1, &[spec(1, 1_000), spec(2, 1_000)]);
    let (before, records) = (bench.bank.digest(), bench.records.len());
    let wrong =
        [spec(1, 2_000), BudgetSpec { parent: Some(1), ..spec(2, 1) }, spec(9, 1), spec(1, -1)];
    let mut errors = Vec::new();
    bench.act(|bank, out| errors = bank.amend(&wrong, out).unwrap_err());
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert!(texts[0].contains("parent of a known budget cannot change"), "{texts:?}");
    assert!(texts[1].contains("budget 9: there is no such budget"), "{texts:?}");
    assert!(texts[2].contains("limit is -1"), "{texts:?}");
    assert_eq!((bench.bank.digest(), bench.records.len()), (before, records));
}
