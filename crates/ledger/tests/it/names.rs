//! Handles: one live budget each, whatever changes in which order.

use ledger::{BudgetSpec, Out, Restore, SpecError, Status};

use wire::Handle;

use crate::bench::{Bench, options, replay, spec};

fn handle(text: &str) -> Handle {
    Handle::parse(text).unwrap()
}

fn named(id: u64, name: &str) -> BudgetSpec {
    BudgetSpec { handle: Some(handle(name)), ..spec(id, 1_000) }
}

/// Ids by handle, live and after a replay and a snapshot.
fn ids<const N: usize>(bench: &Bench, names: [&str; N]) -> [Option<u64>; N] {
    let of = |bank: &ledger::Bank| {
        names.map(|name| bank.named(&handle(name)).map(|slot| bank.spec(slot).id))
    };
    let live = of(&bench.bank);
    assert_eq!(of(&replay(&options(1), &bench.records)), live, "after a replay");
    let mut restore = Restore::new(options(1));
    bench.bank.parts(&mut |part| restore.take(part).unwrap());
    assert_eq!(of(&restore.finish().unwrap()), live, "after a snapshot");
    live
}

#[test]
fn budgets_that_change_names_with_each_other_keep_them_apart() {
    let mut bench = Bench::new(1, &[named(1, "a"), named(2, "b"), spec(3, 1_000)]);
    assert_eq!(ids(&bench, ["a", "b", "c"]), [Some(1), Some(2), None]);
    bench.configure(&[named(1, "b"), named(2, "a"), named(3, "c")]);
    assert_eq!(ids(&bench, ["a", "b", "c"]), [Some(2), Some(1), Some(3)]);
    bench.act(|bank, out| bank.amend(&[named(2, "c"), named(3, "a")], out).unwrap());
    assert_eq!(ids(&bench, ["a", "b", "c"]), [Some(3), Some(1), Some(2)]);
    bench.check();
}

#[test]
fn a_handle_is_free_when_its_budget_ended() {
    let mut bench = Bench::new(1, &[named(1, "a"), named(2, "b")]);
    // Budget 1 is missing, and another takes its handle in the same configuration.
    bench.configure(&[named(2, "b"), named(3, "a")]);
    assert_eq!(ids(&bench, ["a", "b"]), [Some(3), Some(2)]);
    // Who comes back finds it taken.
    let back = [named(1, "a"), named(2, "b"), named(3, "a")];
    let errors = bench.bank.check(&back);
    assert!(matches!(errors[..], [SpecError::HandleTwice { id: 3, other: 1, .. }]), "{errors:?}");
    let errors = bench.bank.amend(&back[..1], &mut Out::default()).unwrap_err();
    assert!(matches!(errors[..], [SpecError::HandleTwice { id: 1, other: 3, .. }]), "{errors:?}");
    let ended = BudgetSpec { status: Status::Ended, ..named(3, "a") };
    bench.act(|bank, out| bank.amend(&[named(1, "a"), ended], out).unwrap());
    assert_eq!(ids(&bench, ["a", "b"]), [Some(1), Some(2)]);
    bench.check();
}

#[test]
fn a_rename_to_the_name_of_another_is_refused_whole() {
    let mut bench = Bench::new(1, &[named(1, "a"), named(2, "b")]);
    let before = bench.bank.digest();
    let errors = bench.bank.amend(&[named(1, "b")], &mut Out::default()).unwrap_err();
    assert!(matches!(errors[..], [SpecError::HandleTwice { id: 1, other: 2, .. }]), "{errors:?}");
    let both = [named(1, "c"), named(2, "c")];
    assert_eq!(bench.bank.amend(&both, &mut Out::default()).unwrap_err().len(), 1);
    assert_eq!(bench.bank.digest(), before);
    assert_eq!(ids(&bench, ["a", "b", "c"]), [Some(1), Some(2), None]);
    bench.act(|bank, out| bank.amend(&[named(1, "b"), named(2, "a")], out).unwrap());
    assert_eq!(ids(&bench, ["a", "b"]), [Some(2), Some(1)]);
}
