//! The ledger stays within its memory, and the hot path allocates nothing. In a binary of its own, because it
//! counts every allocation of the process; one test, so that nothing else runs beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::System;

use ledger::{
    Action, Amount, Bank, BudgetSpec, Door, LegAmounts, NamedHold, NamedLeg, Options, Origin, Out,
    PurseOptions, Purses, Restore, ToBank, Windows,
};
use money::Unit;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const BUDGETS: u64 = 50_000;
const HOLDS: usize = 1_000_000;
const CONFIRMED: usize = 100_000;
const NOW_MS: u64 = 1_767_268_800_000;
const MIB: usize = 1 << 20;
/// What an allocator adds to an allocation: the header and the rounding of glibc's malloc.
const OVERHEAD: usize = 16;

/// Bytes in use, with the allocator's own.
fn bytes() -> usize {
    let stats = ALLOCATOR.stats();
    let live = stats.allocations - stats.deallocations;
    stats.bytes_allocated - stats.bytes_deallocated + live * OVERHEAD
}

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

fn spec(id: u64) -> BudgetSpec {
    BudgetSpec {
        windows: Windows::daily(Some(Amount::new(500_000_000))),
        ..BudgetSpec::plain(id, Unit::parse("USD").unwrap(), Amount::new(1_000_000_000))
    }
}

struct Node {
    bank: Bank,
    purses: Purses,
    out: Out,
}

impl Node {
    fn new() -> Node {
        let purse_options = PurseOptions { node: 1, hold_ms: 2_000 };
        let hold_ms_max = purse_options.hold_ms_max();
        let mut bank = Bank::new(Options { hold_ms_max, ..Options::default() });
        let mut out = Out::default();
        bank.start_run(NOW_MS, &mut out);
        {
            let specs: Vec<BudgetSpec> = (1..=BUDGETS).map(spec).collect();
            bank.configure(&specs, &mut out).unwrap();
        }
        let purses = Purses::new(purse_options, bank.slots());
        let mut node = Node { bank, purses, out };
        node.deliver();
        // Its room is reused from now on; at the start it was as large as the configuration.
        node.out = Out::default();
        node
    }

    fn deliver(&mut self) {
        self.out.records.clear();
        for (_, message) in self.out.messages.drain(..) {
            self.purses.take(message, NOW_MS);
        }
    }

    fn step(&mut self, message: ToBank) {
        self.bank.step(0, message, &mut self.out);
        self.deliver();
    }
}

#[test]
fn fifty_thousand_budgets_and_a_million_holds() {
    let before = bytes();
    let mut node = Node::new();
    let empty = bytes() - before;

    assert_eq!(HOLDS / 50_000 / 10 * 50_000, CONFIRMED);
    // Holds all over the budgets; what is kept of them here is the test's own and not counted.
    let mut holds = Vec::with_capacity(CONFIRMED);
    let base = bytes();
    for i in 0..HOLDS {
        let slot = u32::try_from(i % 50_000).unwrap();
        let at = node.purses.at(NOW_MS + i as u64 / 1_000);
        let hold =
            node.purses.reserve(slot, Amount::new(100), at).expect("the first money covers it");
        // The dearest way to lie: two in every budget, so that no two budgets share anything.
        if i / 50_000 % 10 == 0 {
            holds.push(hold);
        }
    }
    let open = bytes() - base;
    let base = bytes();
    for (i, hold) in holds.iter().enumerate() {
        let action = Action::Confirm;
        let (amount, at_ms, reply) = (Amount::ZERO, NOW_MS + 1_000, i as u64);
        let origin = Origin { door: Door::Batch, request_id: reply };
        node.step(ToBank::Resolve { action, hold: *hold, amount, at_ms, origin, reply });
    }
    node.bank.audit().unwrap();
    let confirmed = bytes() - base;
    println!("{BUDGETS} budgets, one worker: {} MiB, {} bytes each", empty / MIB, empty / 50_000);
    println!("{HOLDS} unconfirmed holds: {open} bytes more");
    println!(
        "{CONFIRMED} confirmed holds: {} MiB, {} bytes each",
        confirmed / MIB,
        confirmed / CONFIRMED
    );
    let (in_parts, restored) = parts_and_copy_bytes(&node.bank);
    println!("parts: {} MiB; the bank made of them: {} MiB", in_parts / MIB, restored / MIB);
    assert!(restored <= empty + confirmed, "{restored} bytes, more than the bank that grew");
    let all = bytes() - before - holds.capacity() * size_of::<ledger::Hold>();
    println!("all: {} MiB", all / MIB);
    assert!(all < 256 * MIB, "{all} bytes");
    assert!(open < 1_000_000, "an unconfirmed hold costs less than a byte: {open} for all");

    let each = named_bytes();
    println!("a named hold: {each} bytes");
    assert!(each <= 200, "{each} bytes");

    // The thread that started this one allocates a little too, at a time of its own: that spoils one try, not all.
    let made = [(); 3].map(|()| made_when_warm(&mut node));
    assert!(made.contains(&[0, 0]), "allocations, granted and refused: {made:?}");
}

/// Bytes of one of a million named holds, with labels as orders have them.
fn named_bytes() -> usize {
    let mut bank = Bank::new(Options::default());
    let mut out = Out::default();
    bank.start_run(NOW_MS, &mut out);
    bank.configure(&[spec(1)], &mut out).unwrap();
    let base = bytes();
    for key in 0..HOLDS as u128 {
        let amounts = LegAmounts { hold: Amount::new(1), ..LegAmounts::default() };
        let (label, legs) = (format!("ORDER-{key:014}"), vec![NamedLeg { budget: 1, amounts }]);
        let hold = NamedHold { door: Door::Fix, key, label: label.into(), legs };
        assert_eq!(bank.ask_named(hold, &mut out), Ok(true));
        out.records.clear();
    }
    (bytes() - base) / bank.named_len()
}

/// Bytes of the parts of a bank, and of a bank made from them.
fn parts_and_copy_bytes(bank: &Bank) -> (usize, usize) {
    let base = bytes();
    let mut parts = Vec::new();
    bank.parts(&mut |part| parts.push(part));
    let in_parts = bytes() - base;
    let mut restore = Restore::new(Options::default());
    parts.into_iter().for_each(|part| restore.take(part).unwrap());
    let copy = restore.finish().unwrap();
    assert_eq!(copy.digest(), bank.digest());
    (in_parts, bytes() - base)
}

/// Allocations of what stays off the allocator once it is warm: reserving, undoing and a turn without messages; refusing.
fn made_when_warm(node: &mut Node) -> [usize; 2] {
    let before = allocations();
    for i in 0..100_000_u32 {
        let slot = i % 50_000;
        let at = node.purses.at(NOW_MS + 1_000);
        let kept = node.purses.reserve(slot, Amount::new(1), at).unwrap();
        let undone = node.purses.reserve(slot, Amount::new(2), at).unwrap();
        node.purses.undo(slot, &undone);
        assert!(kept.seq < undone.seq);
        if i % 100 == 0 {
            node.purses.turn(NOW_MS + 1_000);
        }
    }
    let granted = allocations() - before;
    let before = allocations();
    let at = node.purses.at(NOW_MS + 1_000);
    for slot in 0..50_000 {
        assert!(node.purses.reserve(slot, money::ASK_MAX, at).is_err());
    }
    [granted, allocations() - before]
}
