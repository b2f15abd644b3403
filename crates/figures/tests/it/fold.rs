//! What counts as an impression; any records in any cut; beginnings in the middle.

use figures::{Figures, FoldError, Total};
use ledger::{Action, Amount, BudgetSpec, Door, Hold, Options, Origin, Record, Verdict};
use proptest::prelude::*;
use wire::Handle;

use crate::bench::{BILLING_MS, BILLING_OVER_MS, Bench, LATE_MS, NOON, child, options, spec};
use crate::naive::{check, folded};
use crate::random::{Play, op};

const NOTICES: Origin = Origin { door: Door::Openrtb, request_id: 1 };

fn total(impressions: u64, spend: i64) -> Option<Total> {
    Some(Total { impressions, clicks: 0, spend: Amount::new(spend) })
}

/// One hold of 100, of budget 2 under 1, and what is asked of it, each after a time.
#[test]
fn a_settled_hold_is_one_impression_however_often_and_however_late() {
    use Action::{Confirm, Release, Settle};
    let late = 2 * BILLING_MS;
    type Ask = (u64, Action, i64);
    let cases: [(&str, &[Ask], u64, i64); 12] = [
        ("nothing", &[], 0, 0),
        ("confirmed", &[(0, Confirm, 0)], 0, 0),
        ("released", &[(0, Release, 0)], 0, 0),
        ("settled", &[(0, Settle, 60)], 1, 60),
        ("settled for nothing", &[(0, Settle, 0)], 1, 0),
        ("after a confirm", &[(0, Confirm, 0), (500, Settle, 60)], 1, 60),
        ("above the hold", &[(0, Settle, 130)], 1, 130),
        ("late", &[(late, Settle, 60)], 1, 60),
        ("late after a release", &[(0, Release, 0), (0, Settle, 60)], 1, 60),
        ("a repeat", &[(0, Settle, 60), (0, Settle, 60), (9, Settle, 20)], 1, 60),
        ("a higher price", &[(0, Settle, 60), (9, Settle, 80), (9, Settle, 250)], 1, 250),
        ("a higher price, late", &[(late, Settle, 60), (9, Settle, 61)], 1, 61),
    ];
    for (name, asks, impressions, spend) in cases {
        let mut bench = Bench::new(1, &[spec(1, 10_000), child(2, 5_000, 1), spec(3, 10)]);
        let hold = bench.insist(0, 2, 100).unwrap();
        for (wait_ms, action, amount) in asks {
            bench.advance(*wait_ms);
            let now_ms = bench.now_ms;
            bench.resolve_from(NOTICES, 0, *action, hold, *amount, now_ms);
        }
        let figures = folded(&bench.records);
        let expected = total(impressions, spend);
        assert_eq!([1, 2].map(|id| figures.total(id)), [expected; 2], "{name}");
        assert_eq!((figures.total(3), figures.total(4)), (total(0, 0), None), "{name}");
        check(&figures, &options(1), &bench.records);
    }
}

/// One hold of 100, and what is done with it, each behind a crash.
#[test]
fn a_click_counts_once_with_its_bill_in_any_order() {
    let cases = [
        ("click", 0),
        ("click click", 0),
        ("confirm click", 0),
        ("bill click", 1),
        ("bill click click", 1),
        ("click bill", 1),
        ("click confirm bill", 1),
        ("click confirm click bill click", 1),
        ("click release", 0),
        ("click release bill", 1),
        ("click over", 1),
        ("over click", 1),
        ("click bill dearer", 1),
        ("bill dearer click", 1),
        ("click wait", 0),
        ("click wait bill", 1),
        ("wait bill click", 1),
    ];
    for (case, clicks) in cases {
        let mut bench = Bench::new(1, &[spec(1, 10_000), child(2, 5_000, 1)]);
        let hold = bench.insist(0, 2, 100).unwrap();
        let mut clicked = false;
        for word in case.split(' ') {
            bench.crash();
            let now_ms = bench.now_ms;
            let mut ask = |action, amount| {
                bench.resolve_from(NOTICES, 0, action, hold, amount, now_ms);
            };
            match word {
                "confirm" => ask(Action::Confirm, 0),
                "release" => ask(Action::Release, 0),
                "bill" => ask(Action::Settle, 60),
                "dearer" => ask(Action::Settle, 70),
                "over" => ask(Action::Settle, 130),
                "wait" => bench.advance(2 * BILLING_MS),
                _ => {
                    let answer = bench.click(hold);
                    assert_eq!(answer.is_repeat(), clicked, "{case}: {answer:?}");
                    clicked = true;
                }
            }
        }
        let figures = folded(&bench.records);
        let found = [1, 2].map(|id| figures.total(id).map(|total| total.clicks));
        assert_eq!(found, [Some(clicks); 2], "{case}");
        check(&figures, &options(1), &bench.records);
    }
}

/// Budgets that are made on their first ask end, come back and are forgotten; what is above them keeps their figures.
#[test]
fn a_made_budget_has_its_figures_until_the_bank_forgets_it() {
    let mut bench = Bench::new(1, &[spec(1, 1_000)]);
    let made = |name: &str| BudgetSpec {
        handle: Some(Handle::parse(name).unwrap()),
        idle_ms: 5_000,
        ..child(0, money::LIMIT_MAX.get(), 1)
    };
    let rest = |bench: &mut Bench| {
        (0..(BILLING_OVER_MS + LATE_MS).div_ceil(1_000) + 20).for_each(|_| bench.advance(1_000));
    };
    let mut copy = None::<Figures>;
    let mut saved = Figures::begin(1);
    for round in 1..=3 {
        let [spends, idles] = ["llm/a", "llm/b"].map(|name| bench.open(made(name)).unwrap());
        let hold = bench.insist(0, spends, 7).unwrap();
        bench.settle(hold, 7);
        let figures = folded(&bench.records);
        assert_eq!(figures.total(1), total(round, 7 * i64::try_from(round).unwrap()));
        assert_eq!(figures.total(idles), total(0, 0));
        check(&figures, &options(1), &bench.records);
        rest(&mut bench);
        let figures = folded(&bench.records);
        assert_eq!(figures.total(idles), None, "nothing is kept of it");
        assert_eq!(figures.total(spends), total(round, 7 * i64::try_from(round).unwrap()));
        check(&figures, &options(1), &bench.records);
        save(&mut saved, &bench.records, &mut copy);
        if round == 3 {
            bench.advance(86_400_000);
            rest(&mut bench);
            let figures = folded(&bench.records);
            let above = total(round, 7 * i64::try_from(round).unwrap());
            assert_eq!((figures.total(spends), figures.total(1)), (None, above), "forgotten");
            check(&figures, &options(1), &bench.records);
            save(&mut saved, &bench.records, &mut copy);
            assert_eq!(copy.take().unwrap().whole(), figures.whole());
        }
    }
}

/// Folds what is new, and takes it over as a store's next reader does.
fn save(figures: &mut Figures, records: &[Record], copy: &mut Option<Figures>) {
    let known = usize::try_from(figures.sequence()).unwrap() - 1;
    figures.fold(figures.sequence(), 7, &records[known..]).unwrap();
    let bytes = figures.unsaved().unwrap();
    match copy {
        None => *copy = Some(Figures::read(&bytes).unwrap()),
        Some(copy) => copy.merge(&bytes).unwrap(),
    }
    figures.saved();
}

#[test]
fn figures_that_begin_in_the_middle_know_what_they_learned() {
    let mut bench = Bench::new(1, &[spec(1, 10_000), child(2, 5_000, 1)]);
    let first = bench.insist(0, 2, 100).unwrap();
    bench.settle(first, 60);
    let hold = bench.insist(0, 2, 100).unwrap();
    let (at, mut learned) = (bench.records.len(), Figures::begin(bench.records.len() as u64 + 1));
    bench.bank.parts(&mut |part| learned.learn(&part));
    let mut ignorant = Figures::begin(learned.sequence());
    bench.settle(hold, 50);
    let next = learned.sequence();
    for figures in [&mut learned, &mut ignorant] {
        figures.fold(next, NOON, &bench.records[at..]).unwrap();
        assert_eq!(figures.since_ms(), Some(NOON));
    }
    assert_eq!((learned.total(1), learned.total(2)), (total(1, 50), total(1, 50)));
    assert_eq!((ignorant.total(2), Some(ignorant.unplaced())), (None, total(1, 50)));
}

#[test]
fn a_gap_and_a_sum_that_cannot_be_are_refused_and_nothing_is_counted() {
    let hold = Hold { amount: Amount::new(1), ..hold_of(1) };
    let settle = |amount| Record::Resolved {
        hold,
        verdict: Verdict::SettledOver,
        amount: Amount::new(amount),
        at_ms: NOON,
        origin: NOTICES,
        keeps_rest: false,
        clicked: false,
        kept: None,
    };
    let specs = [spec(1, 1), child(2, 1, 1)].map(|spec| Record::Budget { spec: Box::new(spec) });
    let amount = Amount::ZERO;
    let granted = Record::Granted { grant: 1, budget: 2, worker: 0, amount, at_ms: NOON };
    let mut figures = Figures::begin(1);
    figures.fold(1, NOON, &specs).unwrap();
    figures.fold(3, NOON, &[granted, settle(i64::MAX - 5)]).unwrap();
    let expected = total(1, i64::MAX - 5);
    for (first, amount, error) in [
        (6, 1, FoldError::Gap { found: 6, expected: 5 }),
        (5, 6, FoldError::TooMuch { sequence: 5 }),
        (5, -1, FoldError::TooMuch { sequence: 5 }),
    ] {
        assert_eq!(figures.fold(first, NOON, &[settle(amount)]), Err(error));
        assert_eq!((figures.total(1), figures.total(2)), (expected, expected));
    }
    figures.fold(5, NOON, &[settle(5)]).unwrap();
    assert_eq!(figures.total(1), total(2, i64::MAX));
}

fn hold_of(grant: u64) -> Hold {
    let mut bench = Bench::new(1, &[spec(1, 10)]);
    Hold { grant, ..bench.insist(0, 1, 1).unwrap() }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever happens to a bank: the model's figures, the books' spend, the same from any cut, with any overlap, and saved and read in between.
    #[test]
    fn any_records_in_any_cut_give_the_figures_of_the_books(
        ops in prop::collection::vec(op(), 1..100),
        cuts in prop::collection::vec((1..40usize, 0..4usize, any::<bool>()), 1..6),
    ) {
        let mut play = Play::new();
        ops.iter().for_each(|op| play.play(op));
        let records = &play.bench.records;
        let one_by_one = folded(records);
        check(&one_by_one, &Options { win_notices: false, ..options(2) }, records);

        let (mut figures, mut at) = (Figures::begin(1), 0);
        let (mut kept, mut copy) = (Figures::begin(1), None::<Figures>);
        for (size, again, keep) in cuts.iter().cycle() {
            let (from, to) = (at - again.min(&at), (at + size).min(records.len()));
            figures.fold(from as u64 + 1, 7, &records[from..to]).unwrap();
            at = to;
            // The last ones were perhaps folded before: then there is nothing to save.
            if *keep && at > usize::try_from(kept.sequence()).unwrap() - 1 {
                save(&mut kept, &records[..at], &mut copy);
            }
            if at == records.len() {
                break;
            }
        }
        prop_assert_eq!(figures.whole(), one_by_one.whole());
        if kept.sequence() < figures.sequence() {
            save(&mut kept, records, &mut copy);
        }
        prop_assert_eq!(copy.unwrap().whole(), one_by_one.whole());
    }
}
