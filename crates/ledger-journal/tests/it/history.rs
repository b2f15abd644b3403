//! Records as a real bank makes them, and journals of them.

use ledger::{
    Action, Amount, Bank, BudgetSpec, Door, Hold, Options, Origin, Out, PurseOptions, Purses,
    Record, ToBank, ToWorker, Windows,
};
use money::{Unit, Zone};

use crate::files::{AT_MS, Mem, NODE, groups, writer};
use ledger_journal::files::{BLOCK_BYTES, Folder};
use ledger_journal::{Log, RecoverError, Recovered, Tail, recover};

const WORKERS: u16 = 2;

fn purse_options() -> PurseOptions {
    PurseOptions { node: NODE, hold_ms: 400 }
}

pub(crate) fn options() -> Options {
    Options {
        workers: WORKERS,
        hold_ms_max: purse_options().hold_ms_max(),
        billing_ms: 6_400,
        late_ms: 20_000,
        ..Options::default()
    }
}

fn spec(id: u64, parent: Option<u64>) -> BudgetSpec {
    BudgetSpec {
        windows: Windows::daily((id == 1).then(|| Amount::new(4_000_000))),
        zone: Zone::parse("Europe/Berlin").unwrap(),
        parent,
        late_reserve_bp: 50,
        ..BudgetSpec::plain(id, Unit::parse("USD").unwrap(), Amount::new(5_000_000))
    }
}

/// A bank at work. It begins a run, takes budgets over, and spends.
pub(crate) struct Work {
    pub(crate) bank: Bank,
    purses: Vec<Purses>,
    /// What was not taken by [`Work::take`] yet.
    records: Vec<Record>,
    holds: Vec<Hold>,
    now_ms: u64,
    step: u64,
}

impl Work {
    /// Begins a run of this bank.
    pub(crate) fn new(mut bank: Bank) -> Work {
        let now_ms = bank.now_ms().max(AT_MS) + 1;
        let mut out = Out::default();
        bank.start_run(now_ms, &mut out);
        if bank.keys().is_empty() {
            bank.add_key(7, [9; 16].into(), &mut out).unwrap();
        }
        bank.configure(&[spec(1, None), spec(2, Some(1)), spec(3, None)], &mut out).unwrap();
        bank.open_all(&mut out);
        let purses = (0..WORKERS).map(|_| Purses::new(purse_options(), bank.slots())).collect();
        let (records, holds) = (Vec::new(), Vec::new());
        let mut work = Work { bank, purses, records, holds, now_ms, step: 0 };
        work.deliver(out);
        work
    }

    pub(crate) fn fresh() -> Work {
        Work::new(Bank::new(options()))
    }

    /// Makes a budget on its first ask.
    fn open(&mut self, handle: &str) {
        let handle = wire::Handle::parse(handle).ok();
        let made = BudgetSpec { handle, idle_ms: 86_400_000, ..spec(0, Some(2)) };
        self.act(|bank, out| _ = bank.open(made, out).unwrap());
    }

    fn deliver(&mut self, mut out: Out) {
        self.records.append(&mut out.records);
        for (worker, message) in out.messages {
            if !matches!(message, ToWorker::Resolved { .. }) {
                self.purses[usize::from(worker)].take(message, self.now_ms);
            }
        }
    }

    fn act(&mut self, act: impl FnOnce(&mut Bank, &mut Out)) {
        let mut out = Out::default();
        act(&mut self.bank, &mut out);
        self.deliver(out);
    }

    fn pump(&mut self) {
        let now_ms = self.now_ms;
        self.act(|bank, out| bank.tick(now_ms, out));
        for worker in 0..WORKERS {
            let index = usize::from(worker);
            self.purses[index].turn(now_ms);
            self.purses[index].tick(now_ms);
            while let Some(message) = self.purses[index].next_message() {
                self.act(|bank, out| bank.step(worker, message, out));
            }
        }
    }

    /// The next of a row of steps that is always the same.
    fn step(&mut self) {
        self.step += 1;
        let step = self.step;
        self.now_ms += step % 7 * 5;
        let worker = usize::from(step.is_multiple_of(3));
        let slot = self.bank.slot(1 + step % 3).unwrap();
        let at = self.purses[worker].at(self.now_ms);
        let amount = i64::try_from(step % 50 + 1).unwrap();
        self.holds.extend(self.purses[worker].reserve(slot, Amount::new(amount), at));
        if step % 4 != 3 && !self.holds.is_empty() {
            let hold = self.holds[usize::try_from(step * 31).unwrap() % self.holds.len()];
            let action = [Action::Confirm, Action::Settle, Action::Settle, Action::Release];
            let action = action[usize::try_from(step / 4 % 4).unwrap()];
            let spent = if action == Action::Settle { amount } else { 0 };
            let origin = Origin { door: Door::Batch, request_id: step };
            let (at_ms, amount) = (self.now_ms, Amount::new(spent));
            let message = ToBank::Resolve { action, hold, amount, at_ms, origin, reply: 0 };
            self.act(|bank, out| bank.step(0, message, out));
        }
        if step.is_multiple_of(97) {
            self.act(|bank, out| bank.note_operator("ada", "a look", out));
        }
        if step.is_multiple_of(10) {
            self.pump();
        }
    }

    /// Works until there are at least so many records, and hands them out.
    pub(crate) fn take(&mut self, records: usize) -> Vec<Record> {
        for steps in 0.. {
            if self.records.len() >= records {
                break;
            }
            assert!(steps < 100_000 + 100 * records, "work makes records");
            self.step();
        }
        self.bank.audit().unwrap();
        std::mem::take(&mut self.records)
    }
}

/// Replayed from nothing.
pub(crate) fn replay(records: &[Record]) -> Bank {
    let mut bank = Bank::new(options());
    bank.replay_all(records).unwrap();
    bank
}

pub(crate) fn start<F: Folder>(folder: &F) -> Result<Recovered, RecoverError> {
    recover(folder, &options(), NODE, &mut |_| {})
}

/// A journal of several segments, a run each, of some groups each.
pub(crate) struct Made {
    pub(crate) folder: Mem,
    pub(crate) records: Vec<Record>,
}

impl Made {
    /// Groups of these many records; files end where their groups do, but for a block of zeros in the last.
    pub(crate) fn new(runs: usize, records_per_run: usize, sizes: &[usize]) -> Made {
        let folder = Mem::default();
        let mut made = Made { folder, records: Vec::new() };
        for _ in 0..runs {
            made.run(records_per_run, sizes);
        }
        let last = made.segments().pop().unwrap();
        made.folder.change(&last, |bytes| {
            let used = used(bytes);
            bytes.truncate(used + BLOCK_BYTES);
        });
        made
    }

    /// One more run: recovers, works, seals.
    pub(crate) fn run(&mut self, records: usize, sizes: &[usize]) {
        let Recovered { bank, tail, .. } = start(&self.folder).unwrap();
        assert_eq!(bank.digest(), replay(&self.records).digest());
        self.write(bank, tail, records, sizes);
    }

    /// The same, and budgets with these handles are made on their first ask.
    pub(crate) fn run_opening(&mut self, handles: &[&str], records: usize, sizes: &[usize]) {
        let Recovered { bank, tail, .. } = start(&self.folder).unwrap();
        let mut work = Work::new(bank);
        handles.iter().for_each(|handle| work.open(handle));
        self.seal(tail, work.take(records), sizes);
    }

    fn write(&mut self, bank: Bank, tail: Tail, records: usize, sizes: &[usize]) {
        self.seal(tail, Work::new(bank).take(records), sizes);
    }

    fn seal(&mut self, tail: Tail, records: Vec<Record>, sizes: &[usize]) {
        let mut writer = writer(self.folder.clone(), tail);
        for group in groups(tail.position, &records, sizes) {
            writer.append(&group).unwrap();
        }
        self.records.extend(records);
    }

    pub(crate) fn segments(&self) -> Vec<String> {
        self.folder.names().into_iter().filter(|name| name.starts_with("segment-")).collect()
    }

    pub(crate) fn snapshots(&self) -> Vec<String> {
        self.folder.names().into_iter().filter(|name| name.starts_with("snapshot-")).collect()
    }

    /// Recovery gives what the first so many records lead to, and a run can go on from there.
    pub(crate) fn assert_recovers(&self, folder: &Mem, records: usize) -> Recovered {
        let recovered = start(folder).unwrap();
        assert_eq!(recovered.tail.position.sequence, records as u64 + 1);
        let expected = replay(&self.records[..records]);
        assert_eq!(recovered.bank.digest(), expected.digest(), "after {records} records");
        recovered
    }
}

/// Bytes up to the end of the last block that is not zero.
pub(crate) fn used(bytes: &[u8]) -> usize {
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    (last + 1).next_multiple_of(BLOCK_BYTES)
}

/// Byte ranges of the groups of a segment.
pub(crate) fn group_ranges(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let starts = (BLOCK_BYTES..bytes.len()).step_by(BLOCK_BYTES);
    let starts: Vec<usize> = starts.filter(|at| bytes[*at..].starts_with(b"WGRP")).collect();
    let ends = starts.iter().skip(1).copied().chain([used(bytes)]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}
