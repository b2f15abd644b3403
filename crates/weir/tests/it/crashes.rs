//! The real binary under load, killed again and again: what it acknowledged is in the books, once.
//!
//! One data folder lives through all cycles. In each one clients ask and settle as fast as the node answers, and write
//! down what it said; then it is killed, while it starts, or in the middle of the work, or asked to stop. After every
//! start the clients hold it to its word.

mod keys;
mod orders;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::Value;
use table::SplitMix64;
use wire::{Action, DecideFlags, Reason, Verdict, decide, resolve};

use crate::client::{Client, Reply, Token, decide_frame, fresh_id, resolve_frame};
use crate::support::{Node, PATIENCE, Setup, line, output, stderr, stdout, text, wait_for, weir};

/// Connections that load the node, each with a thread of its own.
const CONNECTIONS: u64 = 3;
/// Frames of asks, and frames of settles, that one connection has under way.
const FRAMES_MAX: usize = 5;
/// Asks, or settles, in a frame.
const FRAME_LEN: usize = 100;
/// Acknowledged settles that are sent again after each start.
const SAMPLE: usize = 300;
/// Short, so that holds lapse and suspended money comes back while the test runs.
const HOLD_MS: &str = "300";

/// The children's parent, which nobody asks from directly.
const PARENT: u64 = 20;
/// The budget with a daily limit.
const DAILY: u64 = 30;
/// That limit, in micros.
const DAILY_MICROS: i64 = 4_000_000;

/// Budgets that are asked, with their lines in the file. The first four never run out; most asks go to them.
fn budgets() -> Vec<(u64, String)> {
    let rich = (1..=4).map(|id| (id, line(id, "1000000", "")));
    let poor = [(5, "1"), (6, "3"), (7, "8"), (8, "20"), (9, "60"), (10, "200")];
    let poor = poor.map(|(id, limit)| (id, line(id, limit, "")));
    let children = [21, 22].map(|id| (id, line(id, "1000", &format!(r#","parent":{PARENT}"#))));
    let daily = (DAILY, line(DAILY, "1000", r#","daily":"4""#));
    rich.chain(poor).chain(children).chain([daily]).collect()
}

/// Everything that a crash can fall into happens often: new segments, snapshots, and files that are removed.
fn setup() -> Setup {
    let mut lines = line(PARENT, "6", "");
    lines.extend(budgets().into_iter().map(|(_, line)| line));
    Setup::new(&lines)
        .with("journal.segment_bytes", "4194304")
        .with("journal.snapshot_bytes", "1048576")
        .with("journal.keep_bytes_max", "1")
        .with("ledger.hold_ms", HOLD_MS)
}

/// Its seed repeats a run as far as the clock lets it.
struct Rng(SplitMix64);

impl Rng {
    /// A number from `low` to `high`, both included.
    fn from(&mut self, low: u64, high: u64) -> u64 {
        low + self.0.below(high - low + 1)
    }

    fn percent(&mut self, share: u64) -> bool {
        self.from(1, 100) <= share
    }
}

/// A settle that was, or is to be, sent.
#[derive(Clone, Copy, Debug)]
struct Settle {
    token: Token,
    budget: u64,
    hold: i64,
    amount: i64,
}

impl Settle {
    fn item(&self) -> resolve::Item {
        resolve::Item::new(self.token, self.amount, Action::Settle, self.budget)
    }
}

/// What the node said in one life, as one connection heard it.
#[derive(Default)]
struct Heard {
    granted: u64,
    refused: BTreeMap<&'static str, u64>,
    acknowledged: Vec<(Settle, Verdict)>,
    /// Sent, and no answer came.
    unanswered: Vec<Settle>,
    /// Not sent yet, or refused for now.
    unsent: Vec<Settle>,
}

/// A frame under way.
enum Flight {
    Asks(Vec<(u64, i64)>),
    /// `None` is a confirm, which goes right before its settle.
    Settles(Vec<Option<Settle>>),
}

/// A connection that works as fast as the node answers, until the node is gone.
struct Load<'a> {
    client: Client,
    /// Acknowledgements that any connection heard in this life.
    heard_now: &'a AtomicU64,
    rng: Rng,
    /// The first four are the rich ones.
    ids: Vec<u64>,
    flights: HashMap<u64, Flight>,
    asking: usize,
    settling: usize,
    granted: Vec<Settle>,
    heard: Heard,
}

impl Load<'_> {
    fn new(client: Client, seed: u64, heard_now: &AtomicU64) -> Load<'_> {
        let ids = budgets().into_iter().map(|(id, _)| id).collect();
        let (flights, heard) = (HashMap::new(), Heard::default());
        let rng = Rng(SplitMix64::new(seed));
        let granted = Vec::new();
        Load { client, heard_now, rng, ids, flights, asking: 0, settling: 0, granted, heard }
    }

    fn run(mut self) -> Heard {
        // After a failed write there may still be answers to read.
        let mut writable = true;
        loop {
            writable = writable && self.fill();
            let Some(frame) = self.client.try_receive_bytes() else { break };
            self.take(crate::client::reply(&frame));
        }
        for flight in self.flights.into_values() {
            if let Flight::Settles(settles) = flight {
                self.heard.unanswered.extend(settles.into_iter().flatten());
            }
        }
        self.heard.unsent.append(&mut self.granted);
        self.heard
    }

    /// Sends as much as may be under way; false if the node is gone.
    fn fill(&mut self) -> bool {
        while self.settling < FRAMES_MAX
            && (self.granted.len() >= FRAME_LEN || (self.asking == 0 && !self.granted.is_empty()))
        {
            if !self.send_settles() {
                return false;
            }
        }
        while self.asking < FRAMES_MAX && self.granted.len() < 10 * FRAME_LEN {
            if !self.send_asks() {
                return false;
            }
        }
        true
    }

    fn send_asks(&mut self) -> bool {
        let (mut asks, mut wanted) = (Vec::new(), Vec::new());
        for _ in 0..FRAME_LEN {
            let last = if self.rng.percent(70) { 4 } else { self.ids.len() as u64 };
            let budget = self.ids[usize::try_from(self.rng.from(1, last)).unwrap() - 1];
            let amount = i64::try_from(self.rng.from(100, 2_000)).unwrap();
            asks.push(decide::Ask::new(fresh_id(), budget, amount, 7, [0; 4], 0, 0));
            wanted.push((budget, amount));
        }
        let frame = self.client.next_frame();
        self.flights.insert(frame, Flight::Asks(wanted));
        self.asking += 1;
        self.client.try_send(&decide_frame(frame, DecideFlags::default(), &asks))
    }

    fn send_settles(&mut self) -> bool {
        let (mut items, mut settles) = (Vec::new(), Vec::new());
        for settle in self.granted.drain(..FRAME_LEN.min(self.granted.len())) {
            if self.rng.percent(5) {
                items.push(resolve::Item::new(settle.token, 0, Action::Confirm, settle.budget));
                settles.push(None);
            }
            items.push(settle.item());
            settles.push(Some(settle));
        }
        let frame = self.client.next_frame();
        self.flights.insert(frame, Flight::Settles(settles));
        self.settling += 1;
        self.client.try_send(&resolve_frame(frame, &items))
    }

    fn take(&mut self, reply: Reply) {
        match reply {
            Reply::Decided { frame, answers } => {
                let Some(Flight::Asks(wanted)) = self.flights.remove(&frame) else {
                    panic!("an answer to asks {frame}, which are not under way");
                };
                assert_eq!(answers.len(), wanted.len());
                self.asking -= 1;
                for ((verdict, token), (budget, hold)) in answers.into_iter().zip(wanted) {
                    self.decided(verdict, token, budget, hold);
                }
            }
            Reply::Resolved { frame, answers } => {
                self.heard_now.fetch_add(1, Relaxed);
                let settles = self.answered(frame);
                assert_eq!(answers.len(), settles.len());
                for ((verdict, repeat), settle) in answers.into_iter().zip(settles) {
                    let Some(settle) = settle else { continue };
                    if is_booked(verdict) {
                        assert!(!repeat, "{settle:?} was sent once, and answered as a repeat");
                        self.heard.acknowledged.push((settle, verdict));
                    } else {
                        put_off(verdict, &settle);
                        self.heard.unsent.push(settle);
                    }
                }
            }
            Reply::Refused { frame, reason, detail } => {
                let transient =
                    matches!(reason, Reason::Busy | Reason::Journal | Reason::ShuttingDown);
                assert!(transient, "{reason:?}: {detail}");
                *self.heard.refused.entry(reason.name()).or_default() += 1;
                match self.flights.remove(&frame) {
                    Some(Flight::Asks(_)) => self.asking -= 1,
                    Some(Flight::Settles(settles)) => {
                        self.settling -= 1;
                        self.heard.unsent.extend(settles.into_iter().flatten());
                    }
                    None => assert_eq!(frame, 0, "{reason:?}: {detail}"),
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn answered(&mut self, frame: u64) -> Vec<Option<Settle>> {
        let Some(Flight::Settles(settles)) = self.flights.remove(&frame) else {
            panic!("an answer to settles {frame}, which are not under way");
        };
        self.settling -= 1;
        settles
    }

    fn decided(&mut self, verdict: Verdict, token: Token, budget: u64, hold: i64) {
        use Verdict::{Busy, DayExhausted, Exhausted, Granted, Journal, PurseEmpty};
        if verdict != Granted {
            let expected = [Exhausted, DayExhausted, PurseEmpty, Busy, Journal].contains(&verdict);
            assert!(expected, "{verdict:?} for {hold} of budget {budget}");
            *self.heard.refused.entry(verdict.name()).or_default() += 1;
            return;
        }
        self.heard.granted += 1;
        let above = if self.rng.percent(2) { hold + 500 } else { hold };
        let least = if above > hold { hold + 1 } else { 1 };
        let amount = self.rng.from(least.unsigned_abs(), above.unsigned_abs());
        let settle = Settle { token, budget, hold, amount: i64::try_from(amount).unwrap() };
        if self.rng.percent(1) {
            // Its first settle is sent in a later life of the node, perhaps when its hold is gone.
            self.heard.unsent.push(settle);
        } else {
            self.granted.push(settle);
        }
    }
}

fn is_booked(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate)
}

/// Whatever else a node says of a settle must mean "again later".
fn put_off(verdict: Verdict, settle: &Settle) {
    assert!(matches!(verdict, Verdict::Busy | Verdict::Journal), "{verdict:?} for {settle:?}");
}

/// Settled, over-settled and late, in micros.
type Lines = [i64; 3];

/// The knowledge of all clients from all lives of the node.
#[derive(Default)]
struct Memory {
    acknowledged: Vec<(Settle, Verdict)>,
    /// Sent, never answered: the node may have booked them or not.
    unanswered: Vec<Settle>,
    unsent: Vec<Settle>,
    spent: BTreeMap<u64, Lines>,
    granted: u64,
    refused: BTreeMap<&'static str, u64>,
    /// Unanswered settles that turned out to be booked, and those that did not.
    found: u64,
    not_found: u64,
}

impl Memory {
    fn merge(&mut self, heard: Heard) {
        self.granted += heard.granted;
        for (why, count) in heard.refused {
            *self.refused.entry(why).or_default() += count;
        }
        self.unanswered.extend(heard.unanswered);
        self.unsent.extend(heard.unsent);
        for (settle, verdict) in heard.acknowledged {
            self.acknowledge(settle, verdict);
        }
    }

    fn acknowledge(&mut self, settle: Settle, verdict: Verdict) {
        let lines = match verdict {
            Verdict::Settled => [settle.amount, 0, 0],
            Verdict::SettledOver => [settle.hold, settle.amount - settle.hold, 0],
            _ => [0, 0, settle.amount],
        };
        let above = settle.amount > settle.hold;
        assert!(
            verdict == Verdict::SettledLate || above == (verdict == Verdict::SettledOver),
            "{settle:?}"
        );
        let parent = matches!(settle.budget, 21 | 22).then_some(PARENT);
        for budget in [settle.budget].into_iter().chain(parent) {
            let spent = self.spent.entry(budget).or_default();
            spent.iter_mut().zip(lines).for_each(|(sum, line)| *sum += line);
        }
        self.acknowledged.push((settle, verdict));
    }

    /// Sends what was not answered, or not sent, and notes what comes back.
    fn send_open(&mut self, client: &mut Client, stopped_cleanly: bool) {
        for settle in each_answer(client, std::mem::take(&mut self.unanswered)) {
            let (settle, verdict, repeat) = settle;
            if !is_booked(verdict) {
                put_off(verdict, &settle);
                self.unanswered.push(settle);
                continue;
            }
            let lost = stopped_cleanly && repeat;
            assert!(!lost, "booked before a clean stop, which did not answer it: {settle:?}");
            *(if repeat { &mut self.found } else { &mut self.not_found }) += 1;
            self.acknowledge(settle, verdict);
        }
        for (settle, verdict, repeat) in each_answer(client, std::mem::take(&mut self.unsent)) {
            if is_booked(verdict) {
                assert!(!repeat, "never sent, and answered as a repeat: {settle:?}");
                self.acknowledge(settle, verdict);
            } else {
                put_off(verdict, &settle);
                self.unsent.push(settle);
            }
        }
    }

    /// Sends settles that were acknowledged once more: each must get its first answer, as a repeat.
    fn hold_to_its_word(&self, client: &mut Client, sample: impl Iterator<Item = usize>) {
        let sample: Vec<_> = sample.map(|at| self.acknowledged[at]).collect();
        for frame in sample.chunks(1_000) {
            let items: Vec<_> = frame.iter().map(|(settle, _)| settle.item()).collect();
            for (answer, (settle, first)) in client.resolve_all(&items).into_iter().zip(frame) {
                assert_eq!(answer, (*first, true), "{settle:?} was acknowledged as {first:?}");
            }
        }
    }
}

/// The answers to settles, in order.
fn each_answer(client: &mut Client, settles: Vec<Settle>) -> Vec<(Settle, Verdict, bool)> {
    let answers = settles.chunks(FRAME_LEN).flat_map(|frame| {
        let items: Vec<_> = frame.iter().map(Settle::item).collect();
        client.resolve_all(&items)
    });
    let answers: Vec<_> = answers.collect();
    settles
        .into_iter()
        .zip(answers)
        .map(|(settle, (verdict, repeat))| (settle, verdict, repeat))
        .collect()
}

/// A row of `GET /books`.
struct Row {
    id: u64,
    limit: i64,
    free: i64,
    spent: Lines,
}

/// The books of all budgets; that every micro is on one line, and none was overspent, is checked at every look.
fn books(node: &Node) -> Vec<Row> {
    let (status, body) = node.get("/books");
    assert_eq!(status, 200, "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let rows = body["budgets"].as_array().unwrap().iter().map(|row| {
        let line = |name: &str| row[name].as_i64().unwrap_or_else(|| panic!("{name} in {row}"));
        let (limit, free) = (line("limit"), line("free"));
        let spent = [line("settled"), line("over_settled"), line("late")];
        let out = line("purses") + line("held");
        assert_eq!(free + out + spent.iter().sum::<i64>(), limit, "{row}");
        // Only what the outside world spent without asking may have taken what was not there.
        assert!(free + spent[1] + spent[2] >= 0, "over its limit: {row}");
        Row { id: row["id"].as_u64().unwrap(), limit, free, spent }
    });
    rows.collect()
}

/// Says where it broke; the seed repeats it as far as the clock lets it.
struct Place {
    seed: u64,
    cycle: usize,
    cycles: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Place { seed, cycle, cycles } = self;
            eprintln!(
                "broken in cycle {cycle}: again with CRASH_SEED={seed} CRASH_CYCLES={cycles}"
            );
        }
    }
}

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

/// How a life of the node ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    KilledWhileStarting,
    Killed,
    Stopped,
}

/// A recovered bank fills purses at its first tick. Once these messages could be sealed, and reach the workers, before
/// the first snapshot had told them of any budget, and the workers panicked.
#[test]
fn purses_may_be_filled_before_the_first_snapshot() {
    let setup = setup().with("journal.durability", "os");
    for life in 0..30 {
        let mut node = setup.clone().start();
        node.client().grant(1, 1);
        assert_eq!(node.child.try_wait().unwrap(), None, "life {life}: {}", node.log());
        assert!(!node.log().contains("panicked"), "life {life}: {}", node.log());
    }
}

#[test]
fn what_was_acknowledged_survives_every_crash() {
    let cycles = usize::try_from(number("CRASH_CYCLES", 12)).unwrap();
    let mut place = Place { seed: number("CRASH_SEED", 1), cycle: 0, cycles };
    println!("CRASH_SEED={} CRASH_CYCLES={cycles}", place.seed);
    let (mut rng, setup, mut memory) =
        (Rng(SplitMix64::new(place.seed)), setup(), Memory::default());
    let (mut ready_ms, mut endings, mut stopped_cleanly) = (Vec::new(), BTreeMap::new(), false);
    let days_from = today();
    // A slow machine does less in each life: it has more of them, until they fell into everything.
    let falls_into_nothing = |cycle, memory: &Memory| {
        let (snapshots, removed) = snapshots_and_removals(&setup.data());
        let all = snapshots > 0 && removed && memory.found > 0;
        cycles >= 12 && cycle < 10 * cycles && !all
    };
    while place.cycle < cycles || falls_into_nothing(place.cycle, &memory) {
        place.cycle += 1;
        let ending = match rng.from(1, 100) {
            1..=15 => Ending::KilledWhileStarting,
            16..=30 => Ending::Stopped,
            _ => Ending::Killed,
        };
        *endings.entry(ending).or_insert(0_u64) += 1;
        if ending == Ending::KilledWhileStarting {
            kill_while_starting(&setup, Duration::from_millis(rng.from(0, 150)));
            continue;
        }
        let began = Instant::now();
        let node = another_life(&setup, &mut rng).start();
        ready_ms.push(u64::try_from(began.elapsed().as_millis()).unwrap());
        check_after_start(&node, &mut memory, &mut rng, stopped_cleanly);
        let until = Duration::from_millis(rng.from(20, 400));
        for heard in live_and_end(node, &mut rng, until, ending) {
            memory.merge(heard);
        }
        if rng.percent(20) {
            // As the crash left it, half-written end included.
            journal(&["verify"], &setup.data());
            journal(&["audit"], &setup.data());
        }
        stopped_cleanly = ending == Ending::Stopped;
    }
    let mut node = setup.clone().start();
    let (all, days) = (memory.acknowledged.len(), today() - days_from + 1);
    check_after_start(&node, &mut memory, &mut rng, stopped_cleanly);
    memory.hold_to_its_word(&mut node.client(), 0..memory.acknowledged.len());
    compare_books(&node, &memory, i64::try_from(days).unwrap());
    let target = node.admin.to_string();
    let live = journal(&["audit", "--json", "--target", &target], &setup.data());
    let live: Value = serde_json::from_str(&live).unwrap();
    assert_eq!((&live["well"], &live["live"]["equal"]), (&Value::from(true), &Value::from(true)));
    node.terminate();
    assert!(node.wait_end().success(), "{}", node.log());
    let verified = journal(&["verify"], &setup.data());
    let audited = journal(&["audit"], &setup.data());
    let (snapshots, removed) = snapshots_and_removals(&node.data());
    if cycles >= 12 {
        assert!(snapshots > 0, "no snapshot was ever made");
        assert!(removed, "nothing was ever removed");
        assert!(all > 0 && memory.found > 0, "crashes fell into nothing");
    }
    report(&memory, &endings, ready_ms);
    println!("{}\n{audited}", verified.lines().last().unwrap());
}

/// The snapshots in a data folder, and whether its first segment is gone.
fn snapshots_and_removals(data: &Path) -> (usize, bool) {
    let files = std::fs::read_dir(data.join("journal")).into_iter().flatten();
    let files: Vec<_> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    let snapshots = files.iter().filter(|name| name.starts_with("snapshot-0")).count();
    let first = files.iter().filter(|name| name.starts_with("segment-")).min();
    (snapshots, first.is_some_and(|first| !first.contains("-0000000001")))
}

/// The day of UTC, counted from 1970.
fn today() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    since.as_secs() / 86_400
}

/// A kill leaves to the system what it has: neither way of writing may lose anything by it.
fn another_life(setup: &Setup, rng: &mut Rng) -> Setup {
    let transport = if rng.percent(50) { "epoll" } else { "auto" };
    let durability = if rng.percent(20) { "os" } else { "sealed" };
    setup.clone().over(transport).with("journal.durability", durability)
}

fn kill_while_starting(setup: &Setup, after: Duration) {
    let mut command: Command = setup.command();
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    let early = child.try_wait().unwrap();
    assert_eq!(early, None, "the node did not start");
    child.kill().unwrap();
    child.wait().unwrap();
}

fn check_after_start(node: &Node, memory: &mut Memory, rng: &mut Rng, stopped_cleanly: bool) {
    let mut client = node.client();
    books(node);
    let count = memory.acknowledged.len() as u64;
    if count > 0 {
        let sample = (0..SAMPLE).map(|_| usize::try_from(rng.from(1, count)).unwrap() - 1);
        memory.hold_to_its_word(&mut client, sample);
    }
    memory.send_open(&mut client, stopped_cleanly);
    wait_for("an answer to every settle", || {
        memory.send_open(&mut client, false);
        memory.unanswered.is_empty() && memory.unsent.is_empty()
    });
    books(node);
}

/// Full load until the end comes; what each connection heard.
fn live_and_end(mut node: Node, rng: &mut Rng, until: Duration, ending: Ending) -> Vec<Heard> {
    let (heard_now, at_once) = (AtomicU64::new(0), rng.percent(60));
    let loads = (0..CONNECTIONS).map(|_| Load::new(node.client(), rng.0.draw(), &heard_now));
    let loads: Vec<_> = loads.collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = loads.into_iter().map(|load| scope.spawn(|| load.run())).collect();
        std::thread::sleep(until);
        assert_eq!(node.child.try_wait().unwrap(), None, "it ended by itself: {}", node.log());
        if ending == Ending::Stopped {
            node.terminate();
            assert!(node.wait_end().success(), "{}", node.log());
        } else {
            if at_once {
                wait_acknowledgement(&heard_now);
            }
            node.child.kill().unwrap();
            node.child.wait().unwrap();
        }
        assert!(!node.log().contains("panicked"), "{}", node.log());
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// Waits for the next one without sleeping: a kill right after it finds what was acknowledged and is not on its way
/// to the disk yet, if there ever is such a thing.
fn wait_acknowledgement(heard_now: &AtomicU64) {
    let (before, until) = (heard_now.load(Relaxed), Instant::now() + PATIENCE);
    while heard_now.load(Relaxed) == before {
        assert!(Instant::now() < until, "nothing is acknowledged any more");
        std::hint::spin_loop();
    }
}

/// Every acknowledged settle is in the books once, and nothing else is.
fn compare_books(node: &Node, memory: &Memory, days: i64) {
    for row in books(node) {
        let heard = memory.spent.get(&row.id).copied().unwrap_or_default();
        assert_eq!(row.spent, heard, "budget {}: the books, and what was acknowledged", row.id);
        if row.id == DAILY {
            assert!(row.spent[0] <= days * DAILY_MICROS, "{:?} in {days} days", row.spent);
        }
        println!(
            "budget {}: limit {}, free {}, spent {:?}",
            row.id, row.limit, row.free, row.spent
        );
    }
}

/// `weir journal` on a node's folder: it must end well.
fn journal(words: &[&str], data: &Path) -> String {
    let mut command = weir();
    let output = output(command.arg("journal").args(words).arg("--data").arg(text(data)));
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

fn report(memory: &Memory, endings: &BTreeMap<Ending, u64>, mut ready_ms: Vec<u64>) {
    ready_ms.sort_unstable();
    let at = |part: usize| ready_ms.get((ready_ms.len() - 1) * part / 100).copied().unwrap_or(0);
    println!("endings: {endings:?}");
    println!("ready after a start, ms: p50 {}, p99 {}, max {}", at(50), at(99), at(100));
    println!(
        "granted {}, settles acknowledged {}; unanswered at the end of a life: {} were booked, {} were not",
        memory.granted,
        memory.acknowledged.len(),
        memory.found,
        memory.not_found
    );
    println!("refused: {:?}", memory.refused);
}
