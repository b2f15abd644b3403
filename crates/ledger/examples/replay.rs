//! How fast a bank replays records, and what its state costs to take apart and to put together again.
//!
//! `cargo run --release -p ledger --example replay -- [MILLIONS]`; the tests run it in small. Times are of the core, not of the clock.
#![allow(clippy::print_stdout, reason = "a measurement speaks on standard output")]

use std::time::Duration;

use ledger::{
    Amount, Bank, BudgetSpec, Door, Hold, LegAmounts, NamedHold, NamedLeg, Options, Origin, Part,
    Record, Restore, Verdict, Windows,
};
use table::SplitMix64;

const NOW_MS: u64 = 1_767_268_800_000;
const ORIGIN: Origin = Origin { door: Door::Batch, request_id: 0 };
/// Records made at a time, outside of the measured stretches.
const CHUNK: usize = 1_000_000;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Budgets; records pick them at random.
    pub(crate) budgets: u64,
    /// Records of the mix.
    pub(crate) records: usize,
    /// Holds made from a grant before it is retired.
    pub(crate) holds_a_grant: u32,
}

/// What came out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// Time for the mix: grants, settles, confirms, releases, ends of grants.
    pub(crate) mixed: Duration,
    /// Records of the mix.
    pub(crate) records: usize,
    /// Time for as many, of which a tenth is of named holds.
    pub(crate) named: Duration,
    /// Time for as many settles, with the grants that they need.
    pub(crate) settles: Duration,
    /// The number of settles.
    pub(crate) settled: usize,
    /// Parts of the state then.
    pub(crate) parts: usize,
    /// Pages of 256 marks among them.
    pub(crate) pages: usize,
    /// Time to hand out the parts.
    pub(crate) taken_apart: Duration,
    /// Time to make a bank of them.
    pub(crate) restored: Duration,
}

fn main() {
    let millions = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(10);
    for budgets in [1_000, 50_000] {
        let size = Size { budgets, records: millions * CHUNK, holds_a_grant: 64 };
        let figures = measure(size);
        let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64() / 1e6;
        println!("{budgets} budgets:");
        println!(
            "  {:>9} mixed records    {:6.2} M/s",
            figures.records,
            rate(figures.records, figures.mixed)
        );
        println!(
            "  {:>9} of them, a tenth named {:6.2} M/s",
            figures.records,
            rate(figures.records, figures.named)
        );
        println!(
            "  {:>9} settles          {:6.2} M/s",
            figures.settled,
            rate(figures.settled, figures.settles)
        );
        println!(
            "  {:>9} parts, {} pages: {} ms to take apart, {} ms to restore",
            figures.parts,
            figures.pages,
            figures.taken_apart.as_millis(),
            figures.restored.as_millis()
        );
    }
}

/// Replays a mix of records, then settles alone, then takes the state apart and puts it together.
pub(crate) fn measure(size: Size) -> Figures {
    let mut bank = Bank::new(Options::default());
    let mut maker = Maker::new(size);
    replay(&mut bank, &maker.begin());
    let (records, mixed) = replay_chunks(&mut bank, &mut maker, size.records, Maker::mixed);
    let (_, named) = replay_chunks(&mut bank, &mut maker, size.records, Maker::named);
    let (settled, settles) = replay_chunks(&mut bank, &mut maker, size.records, Maker::settle);
    let begun = cpu_time();
    let mut parts: Vec<Part> = Vec::new();
    bank.parts(&mut |part| parts.push(part));
    let taken_apart = cpu_time() - begun;
    let count = parts.len();
    let pages = parts.iter().filter(|part| matches!(part, Part::Marks { .. })).count();
    let begun = cpu_time();
    let mut restore = Restore::new(Options::default());
    for part in parts {
        restore.take(part).expect("parts of a sound bank");
    }
    let copy = restore.finish().expect("parts of a sound bank");
    let restored = cpu_time() - begun;
    assert_eq!(copy.digest(), bank.digest());
    let parts = count;
    Figures { mixed, records, named, settles, settled, parts, pages, taken_apart, restored }
}

fn replay_chunks(
    bank: &mut Bank,
    maker: &mut Maker,
    count: usize,
    make: fn(&mut Maker, &mut Vec<Record>),
) -> (usize, Duration) {
    let (mut done, mut time) = (0, Duration::ZERO);
    let mut records = Vec::new();
    while done < count {
        records.clear();
        while records.len() < CHUNK.min(count - done) {
            make(maker, &mut records);
        }
        time += replay(bank, &records);
        done += records.len();
    }
    (done, time)
}

fn replay(bank: &mut Bank, records: &[Record]) -> Duration {
    let begun = cpu_time();
    bank.replay_all(records).expect("the maker keeps the rules");
    cpu_time() - begun
}

/// What this thread used of its core: other work on the machine does not count.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0);
    Duration::from_nanos(nanos)
}

/// The present grant of a budget.
#[derive(Clone, Copy, Default)]
struct Open {
    grant: u64,
    seq: u32,
    /// A confirmed hold that is to be settled next.
    confirmed: Option<Hold>,
}

struct Maker {
    size: Size,
    random: SplitMix64,
    next_grant: u64,
    open: Vec<Open>,
    at_ms: u64,
    /// Records of named holds that were made.
    named: u64,
}

impl Maker {
    fn new(size: Size) -> Maker {
        let open = vec![Open::default(); usize::try_from(size.budgets).expect("few")];
        Maker { size, random: SplitMix64::new(1), next_grant: 1, open, at_ms: NOW_MS, named: 0 }
    }

    fn next(&mut self) -> u64 {
        self.random.draw()
    }

    fn begin(&self) -> Vec<Record> {
        let run = Record::RunStarted {
            run: 1,
            at_ms: NOW_MS,
            suspended_until_ms: NOW_MS,
            lease_ms: 0,
            node: "".into(),
            hold_ms_max: 2_250,
            billing_ms: 3_600_000,
            win_notices: true,
        };
        let day = |id| Record::DayRolled { id, start_ms: NOW_MS, end_ms: NOW_MS + 86_400_000 };
        let budgets = (1..=self.size.budgets)
            .flat_map(|id| [Record::Budget { spec: Box::new(spec(id)) }, day(id)]);
        std::iter::once(run).chain(budgets).collect()
    }

    /// One or some records of the mix: mostly resolves, as many grants as they need.
    fn mixed(&mut self, records: &mut Vec<Record>) {
        let index = self.pick(records);
        if let Some(hold) = self.open[index].confirmed.take() {
            return records.push(self.resolved(hold, Verdict::Settled, 90));
        }
        let hold = self.hold(index);
        let kind = self.next() % 10;
        records.push(match kind {
            0..6 => self.resolved(hold, Verdict::Settled, 100),
            6 => self.resolved(hold, Verdict::SettledOver, 110),
            7 => self.resolved(hold, Verdict::Released, 0),
            _ => {
                self.open[index].confirmed = Some(hold);
                self.resolved(hold, Verdict::Confirmed, 0)
            }
        });
    }

    /// Records of the mix, and then one of an order: it opens, is filled, closes, ends.
    fn named(&mut self, records: &mut Vec<Record>) {
        for _ in 0..9 {
            self.mixed(records);
        }
        let (order, step) = (self.named / 4, self.named % 4);
        self.named += 1;
        let (door, key, at_ms) = (Door::Fix, u128::from(order), self.at_ms);
        if step == 3 {
            return records.push(Record::NamedEnded { door, key, at_ms });
        }
        let (hold, settled) = [(100, 0), (60, 40), (0, 40)][usize::try_from(step).expect("few")];
        let mut amounts = LegAmounts { hold: Amount::new(hold), ..LegAmounts::default() };
        amounts.spent[0] = Amount::new(settled);
        let legs = vec![NamedLeg { budget: order % self.size.budgets + 1, amounts }];
        let hold = Box::new(NamedHold { door, key, label: "".into(), legs });
        records.push(Record::Named { hold, fact: step > 0, opens: step == 0, at_ms });
    }

    fn settle(&mut self, records: &mut Vec<Record>) {
        let index = self.pick(records);
        let confirmed = self.open[index].confirmed.take();
        let hold = confirmed.unwrap_or_else(|| self.hold(index));
        records.push(self.resolved(hold, Verdict::Settled, 100));
    }

    /// A budget with a grant that has room for one more hold.
    fn pick(&mut self, records: &mut Vec<Record>) -> usize {
        let index = usize::try_from(self.next() % self.size.budgets).expect("few");
        let Open { grant: old, seq, confirmed } = self.open[index];
        if (old == 0 || seq == self.size.holds_a_grant) && confirmed.is_none() {
            if old != 0 {
                records.push(Record::Retired { grant: old, deadline_ms: self.at_ms });
                // As if its last deadline were long over: else all of them would stay.
                records.extend(
                    (!self.next().is_multiple_of(8)).then_some(Record::GrantClosed { grant: old }),
                );
            }
            let grant = self.next_grant;
            self.next_grant += 1;
            let amount = Amount::new(i64::from(self.size.holds_a_grant) * 100);
            let budget = index as u64 + 1;
            records.push(Record::Granted { grant, budget, worker: 0, amount, at_ms: self.at_ms });
            self.open[index] = Open { grant, seq: 0, confirmed: None };
        }
        index
    }

    fn hold(&mut self, index: usize) -> Hold {
        self.at_ms += self.next() % 2;
        let open = &mut self.open[index];
        let (grant, seq) = (open.grant, open.seq);
        open.seq += 1;
        let deadline_ms = (self.at_ms / 250 + 8) * 250;
        Hold { grant, seq, node: 1, deadline_ms, amount: Amount::new(100) }
    }

    fn resolved(&self, hold: Hold, verdict: Verdict, amount: i64) -> Record {
        let amount = Amount::new(amount);
        Record::Resolved {
            hold,
            verdict,
            amount,
            at_ms: self.at_ms,
            origin: ORIGIN,
            keeps_rest: false,
            clicked: false,
            kept: None,
        }
    }
}

fn spec(id: u64) -> BudgetSpec {
    BudgetSpec {
        windows: Windows::daily(Some(Amount::new(500_000_000_000))),
        ..BudgetSpec::plain(
            id,
            money::Unit::parse("USD").expect("a currency"),
            Amount::new(1_000_000_000_000),
        )
    }
}
