//! What a million budgets made on their first ask cost: `cargo run --release -p ledger --example made -- 1000000`.
//!
//! Times are of the processor. Prints bytes of memory per budget at the bank and at a worker, live and ended, the bank's time for each, and how long a
//! snapshot of them takes to be read back.
#![allow(clippy::print_stdout, reason = "a measurement speaks on standard output")]

use std::time::Instant;

use ledger::{
    Action, Amount, Bank, BudgetSpec, Door, MADE_SLOT, OnExpiry, Options, Origin, Out, Part,
    PurseOptions, Purses, Restore, Status, ToBank,
};
use money::Unit;
use wire::Handle;

const NOW_MS: u64 = 1_767_268_800_000;
const IDLE_MS: u64 = 86_400_000;
/// As many as one parent may have unless it is configured otherwise.
const CHILDREN: u32 = 10_000;
/// Changes of that parent.
const CHANGES: usize = 3;

fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(100_000);
    let options = Options { made_max: count as usize, ..Options::default() };
    let mut bank = Bank::new(options.clone());
    let mut out = Out::default();
    bank.start_run(NOW_MS, &mut out);
    let usd = Unit::parse("USD").expect("a currency");
    let teams = u64::from(count / 1_000 + 1);
    let specs: Vec<BudgetSpec> =
        (1..=teams).map(|id| BudgetSpec::plain(id, usd, money::LIMIT_MAX)).collect();
    bank.configure(&specs, &mut out).expect("sound budgets");
    let mut purses = Purses::new(PurseOptions { node: 1, hold_ms: 2_000 }, 0);
    out = Out::default();

    let (before, began) = (resident(), Cpu::now());
    for user in 0..count {
        let slot = bank.open(spec(user, usd), &mut out).expect("room for all");
        assert_eq!(slot, MADE_SLOT + user);
        out.records.clear();
    }
    told("made", count, began, before);

    let before = resident();
    purses.grow_to(count as usize, 256);
    told_bytes("purses of one worker", count, before);

    let (before, began) = (resident(), Cpu::now());
    let mut bytes = 0;
    for user in 0..count {
        spend_once(&mut bank, &mut purses, user, &mut out);
        bytes += out.records.len();
        out.records.clear();
    }
    told("asked and settled once", count, began, before);
    println!("records of that per budget: {:.1}", bytes as f64 / f64::from(count));
    let mut least = [("", u128::MAX, 0); CHANGES];
    for _ in 0..5 {
        for (least, (what, us, messages)) in least.iter_mut().zip(parent_changes(usd)) {
            *least = (what, least.1.min(us), messages);
        }
    }
    for (what, us, messages) in least {
        println!("{CHILDREN} under one parent, {what}: {us} us, {messages} messages");
    }

    let began = Cpu::now();
    let copy = restored(&bank, &options);
    let parts_ms = began.elapsed_ns() / 1_000_000;
    println!(
        "as parts and back: {parts_ms} ms, audit and digest included; {} live",
        copy.made_live()
    );
    drop(copy);

    let (before, began) = (resident(), Cpu::now());
    end_all(&mut bank, &mut purses);
    told("ended", count, began, before);
    let began = Cpu::now();
    let copy = restored(&bank, &options);
    let parts_ms = began.elapsed_ns() / 1_000_000;
    println!("as parts and back: {parts_ms} ms; {} ended", copy.made_dormant());
    drop(bank);
    let before = resident();
    let copies = [restored(&copy, &options), restored(&copy, &options)];
    println!(
        "bytes per ended budget: {}",
        resident().saturating_sub(before) / 2 / u64::from(count)
    );
    drop(copies);
}

/// How long the bank stands still when the parent of many changes, each of which has money in a purse, and what it says to workers.
/// By the clock: it is too short for the account of a thread.
fn parent_changes(usd: Unit) -> [(&'static str, u128, usize); CHANGES] {
    let mut bank = Bank::new(Options { made_under_max: CHILDREN as usize, ..Options::default() });
    let mut out = Out::default();
    bank.start_run(NOW_MS, &mut out);
    let parent = BudgetSpec::plain(1, usd, Amount::new(1_000_000_000_000));
    bank.configure(std::slice::from_ref(&parent), &mut out).expect("a sound budget");
    let mut purses = Purses::new(PurseOptions { node: 1, hold_ms: 2_000 }, 0);
    out = Out::default();
    for user in 0..CHILDREN {
        let child = BudgetSpec { parent: Some(1), ..spec(user, usd) };
        bank.open(child, &mut out).expect("room for all");
    }
    purses.grow_to(CHILDREN as usize, 256);
    (0..CHILDREN).for_each(|user| spend_once(&mut bank, &mut purses, user, &mut out));
    let limit = Amount::new(900_000_000_000);
    let paused = Status::Paused;
    let changes = [
        ("its limit changes", BudgetSpec { limit, ..parent.clone() }),
        ("it is paused", BudgetSpec { status: paused, ..parent.clone() }),
        ("it goes on", parent),
    ];
    changes.map(|(what, change)| {
        let (mut out, began) = (Out::default(), Instant::now());
        bank.amend(&[change], &mut out).expect("a sound budget");
        (what, began.elapsed().as_micros(), out.messages.len())
    })
}

/// All of them are idle, in the steps that a node would take.
fn end_all(bank: &mut Bank, purses: &mut Purses) {
    let (mut now_ms, mut out) = (NOW_MS + IDLE_MS + 20_000_000, Out::default());
    while bank.made_live() > 0 {
        now_ms += 10;
        bank.step(0, ToBank::Tick { now_ms }, &mut out);
        bank.tick(now_ms, &mut out);
        for (_, message) in out.messages.drain(..) {
            if let Some((_, message)) = message.made() {
                purses.take(message, now_ms);
            }
        }
        while let Some(message) = purses.next_message() {
            bank.step(0, message.of_made(), &mut out);
        }
        out = Out::default();
    }
}

fn spec(user: u32, unit: Unit) -> BudgetSpec {
    let handle = format!("llm/team-{}/user-{user}", user / 1_000);
    BudgetSpec {
        handle: Handle::parse(&handle).ok(),
        parent: Some(u64::from(user / 1_000) + 1),
        on_expiry: OnExpiry::Release,
        idle_ms: IDLE_MS,
        ..BudgetSpec::plain(0, unit, Amount::new(5_000_000))
    }
}

/// One ask as a worker makes it, and its settlement.
fn spend_once(bank: &mut Bank, purses: &mut Purses, made: u32, out: &mut Out) {
    let (at, amount) = (purses.at(NOW_MS), Amount::new(1_000));
    purses.call(made, [amount], at);
    purses.turn(NOW_MS);
    while let Some(message) = purses.next_message() {
        bank.step(0, message.of_made(), out);
    }
    for (_, message) in out.messages.drain(..) {
        if let Some((_, message)) = message.made() {
            purses.take(message, NOW_MS);
        }
    }
    let hold = purses.reserve(made, amount, at).expect("it was filled");
    let (action, at_ms) = (Action::Settle, NOW_MS);
    let origin = Origin { door: Door::Batch, request_id: 0 };
    bank.step(0, ToBank::Resolve { action, hold, amount, at_ms, origin, reply: 0 }, out);
    out.messages.clear();
}

fn restored(bank: &Bank, options: &Options) -> Bank {
    let mut restore = Restore::new(options.clone());
    bank.parts(&mut |part: Part| restore.take(part).expect("parts of a bank"));
    restore.finish().expect("the same bank")
}

fn told(what: &str, count: u32, began: Cpu, before: u64) {
    let each_ns = began.elapsed_ns() / u64::from(count);
    let bytes = resident().cast_signed() - before.cast_signed();
    println!("{what}: {each_ns} ns each, {} bytes each", bytes / i64::from(count));
}

fn told_bytes(what: &str, count: u32, before: u64) {
    println!("{what}: {} bytes each", resident().saturating_sub(before) / u64::from(count));
}

/// Processor time of this process, which others on the machine do not change.
struct Cpu(u64);

impl Cpu {
    fn now() -> Cpu {
        let stat = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
        Cpu(stat.split(' ').next().and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    fn elapsed_ns(&self) -> u64 {
        Cpu::now().0.saturating_sub(self.0)
    }
}

/// Bytes of this process in memory.
fn resident() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split(' ').nth(1).and_then(|text| text.parse().ok()).unwrap_or(0);
    pages * 4_096
}
