mod elsewhere;
mod memos;
mod named;
mod plans;

use std::sync::mpsc;
use std::time::Instant as Clock;

use door_transport::Handle;
use ledger::{Amount, Door, EditReason, Hold, Need, Origin};
use ledger_cluster::{AnyEngine, ClusterLog};
use probe::HandClock;
use table::ring;
use weir_budgets::orders::OrderKeys;
use weir_budgets::templates::Templates;
use weir_config::config::Config;
use weir_door::{DoorFacts, DoorSet};
use weir_till::Made;
use wire::Action;

use super::warm::Warm;
use super::*;
use crate::doors::Doors;
use crate::error::StartError;
use crate::known::Permits;
use crate::measured::Sources;

const BUDGETS: u64 = 5_000;
/// A bound where something of the system is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A bank's thread that takes its turns when it is told to, with one worker, or more.
struct Bench {
    thread: BankThread,
    commands: mpsc::Sender<Command>,
    up: Sender<Up>,
    down: Receiver<Down>,
    /// The queues of the other workers.
    others: Vec<(Sender<Up>, Receiver<Down>)>,
    data: tempfile::TempDir,
    _handle: Handle,
}

impl Bench {
    fn new() -> Bench {
        Bench::with(tempfile::tempdir().unwrap(), 1, &[])
    }

    fn with(data: tempfile::TempDir, workers: usize, doors: &[DoorFacts]) -> Bench {
        Bench::on(data, workers, doors, None).unwrap()
    }

    /// The same with a log on other machines.
    fn on(
        data: tempfile::TempDir,
        workers: usize,
        doors: &[DoorFacts],
        log: Option<ClusterLog<AnyEngine>>,
    ) -> Result<Bench, StartError> {
        let mut config = Config::default();
        config.node.data_dir = data.path().to_path_buf();
        let permits = Permits::default();
        let start = match log {
            None => super::recover::recover(&config, permits, workers, doors)?,
            Some(log) => {
                Warm::cold(&config, permits, workers, doors, log)?.begin(&config, doors)?
            }
        };
        let handle = Handle::new().unwrap();
        let (mut links, mut others) = (Vec::new(), Vec::new());
        for _ in 0..workers {
            let (up, from_worker) = ring::channel(1_024);
            let (to_worker, down) = ring::channel(65_536);
            others.push((up, down));
            links.push(Link {
                up: from_worker,
                down: to_worker,
                waker: handle.waker(),
                counters: Arc::new(Doors::counters()),
                backlog: VecDeque::new(),
                is_full: false,
            });
        }
        let (up, down) = others.remove(0);
        let counters: Vec<_> = links.iter().map(|link| Arc::clone(&link.counters)).collect();
        let (probes, _) = Sources::new(0, &counters);
        let (commands, inbox) = mpsc::channel();
        let probes = BankProbes { bank: probes.bank, writer: probes.writer };
        // Plans are looked at once: they are not what is tested here.
        let tick_ms = 1 << 40;
        let secret = Secret::new(7);
        let thread = BankThread::new(start, links, inbox, secret, tick_ms, probes).unwrap();
        Ok(Bench { thread, commands, up, down, others, data, _handle: handle })
    }

    fn configure(&mut self) {
        let lines = (1..=BUDGETS).map(|id| {
            format!("{{\"id\":{id},\"name\":\"b{id}\",\"unit\":\"USD\",\"limit\":\"100\"}}\n")
        });
        assert_eq!(self.configure_with(&lines.collect::<String>()), 1);
    }

    /// Puts these lines of a budgets file in force; the number of the snapshot.
    fn configure_with(&mut self, lines: &str) -> u32 {
        let file = self.data.path().join("budgets.jsonl");
        std::fs::write(&file, lines).unwrap();
        let budgets = weir_budgets::budgets::read(&file).unwrap();
        let (reply, applied) = mpsc::channel();
        let reason = EditReason { who: "a test".into(), why: "".into(), edits: Vec::new() };
        let campaign_index = CampaignIndex::empty();
        self.commands.send(Command::Configure { budgets, campaign_index, reason, reply }).unwrap();
        let applied = self.until(|_| applied.try_recv().ok());
        applied.unwrap().snapshot
    }

    /// Takes turns until something is so.
    fn until<T>(&mut self, mut is_so: impl FnMut(&mut Bench) -> Option<T>) -> T {
        let began = Clock::now();
        loop {
            self.thread.turn();
            if let Some(found) = is_so(self) {
                return found;
            }
            assert!(began.elapsed() < PATIENCE, "waited for too long");
            std::thread::yield_now();
        }
    }

    /// From here on time passes when the test says so.
    fn set_by_hand(&mut self, now_ms: u64) -> Arc<HandClock> {
        let hand = HandClock::new(now_ms);
        self.thread.clock = NodeClock::by_hand(Arc::clone(&hand));
        hand
    }

    /// A hold of the first budget, as its worker would make it.
    fn hold(&mut self) -> Hold {
        let (grant, _) = self.until(|bench| {
            while let Some(down) = bench.down.recv() {
                if let Down::Ledger(ToWorker::Fill { slot: 0, grant, amount, .. }) = down {
                    return Some((grant, amount));
                }
            }
            None
        });
        let deadline_ms = (self.thread.bank.now_ms() + 60_000).next_multiple_of(10);
        Hold { grant, seq: 0, node: 1, deadline_ms, amount: Amount::new(1_000) }
    }

    fn page(&mut self, from: u64, max: usize) -> (Vec<u64>, Option<u64>) {
        let (reply, answer) = mpsc::channel();
        self.commands.send(Command::Books { from, max, reply }).unwrap();
        let page = self.until(|_| answer.try_recv().ok());
        (page.lines.iter().map(|(line, _)| line.id).collect(), page.next)
    }

    /// Is the settlement answered?
    fn resolved(&mut self) -> Option<Verdict> {
        while let Some(down) = self.down.recv() {
            if let Down::Ledger(ToWorker::Resolved { resolution, .. }) = down {
                return Some(resolution.verdict);
            }
        }
        None
    }
}

/// Templates as a file says them.
fn templates(lines: &str) -> Arc<Templates> {
    let file = std::path::Path::new("f.jsonl");
    let lines = format!("{{\"id\":1,\"limit\":\"100\"}}\n{lines}");
    Arc::new(weir_budgets::budgets::file_of(file, lines.as_bytes()).unwrap().templates)
}

impl Bench {
    fn take_templates(&mut self, lines: &str) {
        self.commands.send(Command::Templates { templates: templates(lines) }).unwrap();
        self.thread.turn();
    }

    /// What the bank says of this handle, once that is sealed.
    fn open(&mut self, handle: &str) -> Result<Made, Verdict> {
        self.up.try_send(Up::Open(handle.into())).unwrap();
        self.until(|bench| {
            while let Some(down) = bench.down.recv() {
                if let Down::Opened(opened, made) = down {
                    assert_eq!(&*opened, handle);
                    return Some(made);
                }
            }
            None
        })
    }
}

#[test]
fn budgets_are_made_with_their_parents_and_told_once_they_are_sealed() {
    let mut bench = Bench::new();
    bench.configure();
    bench.take_templates(
        r#"{"template":"llm/{team}","limit":"10","parent":1}
{"template":"llm/{team}/{user}","limit":"5","parent":"llm/{team}"}"#,
    );
    let made = bench.open("llm/a/ann").unwrap();
    assert_eq!(made.slot, ledger::MADE_SLOT + 1, "its parent came first");
    let bank = &bench.thread.bank;
    assert_eq!(bench.thread.journal.sealed(), bench.thread.journal.next_sequence());
    let spec = bank.spec(made.slot);
    assert_eq!((spec.limit, bank.made_live()), (Amount::new(5_000_000), 2));
    assert_eq!(bank.slot(spec.parent.unwrap()), Some(ledger::MADE_SLOT));
    assert_eq!(bench.open("llm/a/ann"), Ok(made), "there is one of it");
    assert_eq!(bench.open("llm/a/bob").map(|made| made.slot), Ok(ledger::MADE_SLOT + 2));
    for none in ["other", "llm/", "llm/a/b/c", "llm/\u{e9}", ""] {
        assert_eq!(bench.open(none), Err(Verdict::UnknownBudget), "{none:?}");
    }
    // Nothing that is kept by slot of configured budgets grew.
    assert_eq!(bench.thread.resolved.len(), usize::try_from(BUDGETS).unwrap());
}

/// Workers meet them one by one: no configuration has them in it, and none ends them.
#[test]
fn what_was_made_is_no_part_of_a_configuration_and_outlives_it() {
    let mut bench = Bench::new();
    bench.configure();
    bench.take_templates(r#"{"template":"llm/{team}","limit":"10","parent":1}"#);
    let made = bench.open("llm/a").unwrap();
    assert!(made.id >= ledger::spec::MADE_ID_MIN && made.slot >= MADE_SLOT);
    bench.thread.send_snapshots(bench.thread.bank.now_ms());
    let snapshot = bench.until(|bench| {
        while let Some(down) = bench.down.recv() {
            if let Down::Snapshot(snapshot, _) = down {
                return Some(snapshot);
            }
        }
        None
    });
    assert_eq!((snapshot.slots.get(BUDGETS).is_some(), snapshot.slots.get(made.id)), (true, None));
    assert_eq!(snapshot.names.find("llm/a"), None);
    assert_eq!(snapshot.units.len(), usize::try_from(BUDGETS).unwrap());
    assert_eq!(bench.open("llm/a"), Ok(made), "it is still there");
}

/// Whoever has a configuration keeps it; another binding comes with the next one.
#[test]
fn a_binding_reaches_workers_with_a_snapshot_of_its_own() {
    let mut bench = Bench::new();
    bench.configure_with(
        "{\"id\":1,\"limit\":\"1\",\"orders\":{\"account\":\"A\"}}\n{\"id\":2,\"limit\":\"1\"}\n",
    );
    let next = |bench: &mut Bench| {
        bench.until(|bench| match bench.down.recv() {
            Some(Down::Snapshot(snapshot, _)) => Some(snapshot),
            _ => None,
        })
    };
    let bound = |snapshot: &weir_till::Snapshot| {
        let (account, side) = (&b"A"[..], weir_budgets::orders::Side::Buy);
        let order = OrderKeys { account, session: b"", firm: b"", symbol: b"", side };
        let mut legs = Vec::new();
        let found = snapshot.orders.bind(&order, &mut legs);
        found.map(|()| legs.iter().map(|leg| leg.budget).collect::<Vec<_>>())
    };
    let first = next(&mut bench);
    let file = bench.data.path().join("amended.jsonl");
    std::fs::write(&file, "{\"id\":2,\"limit\":\"2\",\"orders\":{\"side\":\"any\"}}\n").unwrap();
    let mut amend = |orders: bool| {
        let mut budgets = weir_budgets::budgets::read(&file).unwrap();
        budgets[0].orders.take_if(|_| !orders);
        let reason = EditReason { who: "a test".into(), why: "".into(), edits: Vec::new() };
        let (reply, amended) = mpsc::channel();
        bench.commands.send(Command::Amend { budgets, reason, reply }).unwrap();
        bench.until(|_| amended.try_recv().ok()).unwrap();
        // What is no binding makes no snapshot.
        (orders, bench.thread.snapshot)
    };
    assert_eq!([amend(false), amend(true)], [(false, 1), (true, 2)]);
    let second = next(&mut bench);
    assert_eq!((bound(&first), bound(&second)), (Ok(vec![1]), Ok(vec![1, 2])));
}

/// A worker that is told whose budget a grant was made from hears of the budget itself first, where it was made on its first ask.
#[test]
fn the_owner_of_a_grant_comes_after_its_budget() {
    let mut bench = Bench::new();
    bench.configure();
    bench.take_templates(r#"{"template":"llm/{team}","limit":"10","parent":1}"#);
    let made = bench.open("llm/a").unwrap();
    let of = |slot| {
        let (id, unit) = (made.id, money::Unit::parse("USD").unwrap());
        ToWorker::Owner { reply: 1, of: Some(ledger::Owner { slot, id, unit, billing_ms: 1 }) }
    };
    let met = |bench: &Bench, slot| openings::met_by(&bench.thread.bank, &of(slot));
    match met(&bench, made.slot) {
        Some(Down::Opened(handle, told)) => assert_eq!((&*handle, told), ("llm/a", Ok(made))),
        other => panic!("{other:?}"),
    }
    assert!(met(&bench, 0).is_none(), "of a configured budget it has all it needs");
    assert!(
        openings::met_by(&bench.thread.bank, &ToWorker::Owner { reply: 1, of: None }).is_none()
    );
}

#[test]
fn changed_templates_change_what_was_made_and_removed_ones_do_not() {
    let mut bench = Bench::new();
    bench.configure();
    bench.take_templates(
        r#"{"template":"a/{x}","limit":"10"}
{"template":"b/{x}","limit":"10"}"#,
    );
    let [a, b] = ["a/1", "b/1"].map(|handle| bench.open(handle).unwrap());
    bench.take_templates(r#"{"template":"a/{x}","limit":"20","idle":"7d"}"#);
    bench.until(|bench| bench.thread.openings.sweep.is_none().then_some(()));
    let limit = |bench: &Bench, made: Made| bench.thread.bank.spec(made.slot).limit.get();
    assert_eq!([a, b].map(|made| limit(&bench, made)), [20_000_000, 10_000_000]);
    assert_eq!(bench.open("b/1"), Ok(b), "it goes on until nobody asks of it");
    assert_eq!(bench.open("b/2"), Err(Verdict::UnknownBudget), "but there are no new ones");
    // In another unit they are other budgets; those that are live keep theirs.
    bench.take_templates(r#"{"template":"a/{x}","limit":"7","unit":"count"}"#);
    bench.until(|bench| bench.thread.openings.sweep.is_none().then_some(()));
    assert_eq!(limit(&bench, a), 20_000_000);
}

#[test]
fn a_turn_makes_a_bounded_number_of_budgets() {
    let mut bench = Bench::new();
    bench.configure();
    bench.take_templates(r#"{"template":"flood/{x}","limit":"1"}"#);
    for number in 0..1_000 {
        bench.up.try_send(Up::Open(format!("flood/{number}").into())).unwrap();
    }
    let mut live = 0;
    while live < 1_000 {
        let turned = bench.thread.turn();
        let now = bench.thread.bank.made_live();
        assert!((1..=64).contains(&(now - live)), "{} in one turn", now - live);
        assert!(now == 1_000 || turned == Turned::Busy, "it does not sleep while somebody waits");
        live = now;
    }
}

fn settle(hold: Hold, at_ms: u64) -> Up {
    let origin = Origin { door: Door::Batch, request_id: 0 };
    let (action, amount, reply) = (Action::Settle, hold.amount, 1);
    Up::Ledger(ToBank::Resolve { action, hold, amount, at_ms, origin, reply })
}

/// Of two budgets the one with this number has the handle `shop/a`.
fn named(bench: &mut Bench, number: u64) {
    let line = |id: u64| {
        let handle = if id == number { r#""handle":"shop/a","# } else { "" };
        format!("{{\"id\":{id},\"name\":\"b{id}\",{handle}\"unit\":\"USD\",\"limit\":\"100\"}}\n")
    };
    bench.configure_with(&(1..=2).map(line).collect::<String>());
}

/// What a caller with these scopes is told who settles a hold, with a key or without, and what the budget of it has settled then.
fn settled_by(bench: &mut Bench, scopes: &str, keyed: bool, hold: Hold) -> (Verdict, Amount) {
    let scopes = access::Scopes::parse(scopes).unwrap();
    let (role, digest) = (access::Role::Spend, access::TokenDigest::of(b"token"));
    let principal = access::Principal::new("caller", role, digest, scopes).unwrap();
    let Up::Ledger(resolve) = settle(hold, bench.thread.bank.now_ms()) else { unreachable!() };
    let message = match (keyed, resolve) {
        (true, ToBank::Resolve { action, hold, amount, at_ms, origin, reply }) => {
            let (key, answer) = (0xA1, b"answer".as_slice().into());
            let resolve =
                Keyed::Resolve { action, hold, amount, at_ms, origin, reply, key, answer };
            ApartMessage::Keyed(resolve)
        }
        (_, resolve) => ApartMessage::Resolve(resolve),
    };
    let apart = Apart { before: 0, limited: Some(Arc::new(principal)), message };
    bench.up.try_send(Up::Apart(Box::new(apart))).unwrap();
    let verdict = bench.until(Bench::resolved);
    let slot = bench.thread.bank.slot(1).unwrap();
    (verdict, bench.thread.bank.books(slot).line(ledger::Line::Settled))
}

/// The worker judged by what it knew; meanwhile the handle may be another budget's.
#[test]
fn the_bank_judges_whose_budget_a_hold_is_of_before_it_books() {
    let mut bench = Bench::new();
    named(&mut bench, 1);
    let hold = bench.hold();
    let refused = (Verdict::UnknownBudget, Amount::ZERO);
    for keyed in [false, true] {
        for scopes in ["budget:2", "budget:2*,handle:shop/b"] {
            assert_eq!(settled_by(&mut bench, scopes, keyed, hold), refused, "{scopes}");
        }
        named(&mut bench, 2);
        assert_eq!(settled_by(&mut bench, "handle:shop/*", keyed, hold), refused, "it moved");
        named(&mut bench, 1);
    }
    // One with a key reaches the ledger, too, which knows of no claim of it.
    let unclaimed = settled_by(&mut bench, "handle:shop/*", true, hold);
    assert_eq!(unclaimed, (Verdict::Busy, Amount::ZERO));
    let settled = settled_by(&mut bench, "handle:shop/*", false, hold);
    assert_eq!(settled, (Verdict::Settled, hold.amount));
}

#[test]
fn a_settlement_waits_for_no_more_than_one_turn_of_those_who_read_books() {
    let mut bench = Bench::new();
    bench.configure();
    let hold = bench.hold();
    let (reply, pages) = mpsc::channel();
    for _ in 0..500 {
        let (from, max) = (1, 1_000);
        bench.commands.send(Command::Books { from, max, reply: reply.clone() }).unwrap();
        let question = Question::Books { frame: 1, from, max: 1_000 };
        bench.up.try_send(Up::Question { conn: 1, question }).unwrap();
    }
    bench.up.try_send(settle(hold, bench.thread.bank.now_ms())).unwrap();
    let before = bench.thread.journal.next_sequence();
    bench.thread.turn();
    assert!(bench.thread.journal.next_sequence() > before, "it is booked in the very next turn");
    let read = pages.try_iter().count();
    assert!(read <= 2, "{read} pages in one turn");
    // Sealing takes as long as the disk needs; the turn after it sends the answer.
    let needed = bench.thread.journal.next_sequence();
    let began = Clock::now();
    while bench.thread.journal.sealed() < needed {
        assert!(began.elapsed() < PATIENCE, "not sealed");
        std::thread::yield_now();
    }
    bench.thread.turn();
    assert_eq!(bench.resolved(), Some(Verdict::Settled));
    assert!(read + pages.try_iter().count() < 10, "those who read are still waiting");
    // They are all answered in the end.
    let mut read = 0;
    bench.until(|bench| {
        read += pages.try_iter().count();
        (read > 480 && bench.thread.questions.is_empty()).then_some(())
    });
}

#[test]
fn a_turn_takes_a_bounded_number_of_commands() {
    let mut bench = Bench::new();
    bench.configure();
    let (reply, reports) = mpsc::channel();
    for _ in 0..10 * COMMANDS_MAX {
        bench.commands.send(Command::Report { reply: reply.clone() }).unwrap();
    }
    let mut answered = 0;
    while answered < 10 * COMMANDS_MAX {
        let turned = bench.thread.turn();
        let now = reports.try_iter().count();
        assert!((1..=COMMANDS_MAX).contains(&now), "{now} in one turn");
        answered += now;
        let done = answered == 10 * COMMANDS_MAX;
        assert!(done || turned == Turned::Asked, "it does not sleep for long while somebody waits");
    }
}

#[test]
fn pages_of_the_books() {
    let mut bench = Bench::new();
    bench.configure();
    assert_eq!(bench.page(0, 2), (vec![1, 2], Some(3)));
    assert_eq!(bench.page(2, 3), (vec![2, 3, 4], Some(5)));
    assert_eq!(bench.page(7, 0), (vec![], Some(7)));
    assert_eq!(bench.page(BUDGETS - 1, 2), (vec![BUDGETS - 1, BUDGETS], None));
    assert_eq!(bench.page(BUDGETS, 1_000), (vec![BUDGETS], None), "fewer than were asked for");
    assert_eq!(bench.page(BUDGETS + 1, 5), (vec![], None));
    assert_eq!(bench.page(u64::MAX, usize::MAX), (vec![], None));
    // A page ends when it took long; the next one goes on.
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let page;
        (page, next) = bench.page(from, usize::MAX);
        assert!(page.len().is_multiple_of(64) || next.is_none());
        all.extend(page);
    }
    assert_eq!(all, Vec::from_iter(1..=BUDGETS));
}

#[test]
fn who_asks_a_bank_that_is_stuck_is_told_so() {
    let mut bench = Bench::new();
    let pulse = Arc::clone(&bench.thread.pulse);
    bench.thread.turn();
    assert!(pulse.age_ms() < PATIENCE.as_millis().try_into().unwrap());
    let began = Clock::now();
    while pulse.check_turns().is_ok() {
        assert!(began.elapsed() < PATIENCE, "a bank that takes no turns counts as alive");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(pulse.check_turns().unwrap_err().contains("ms ago"));
    // Another thread may be off its core just now, so the first good answer is waited for.
    bench.until(|_| pulse.check_turns().ok());
}

/// A second in which the system's time of day is a day ahead, or an hour back: nothing is booked for that day, and the node tells
/// nothing wrong afterwards.
#[test]
fn a_wrong_second_of_the_clock_leaves_no_trace() {
    for step_ms in [86_400_000, -3_600_000] {
        let mut bench = Bench::new();
        bench.configure();
        let start_ms = bench.thread.bank.now_ms();
        let hand = bench.set_by_hand(start_ms);
        hand.step(step_ms);
        for _ in 0..40 {
            hand.pass(10);
            bench.thread.turn();
        }
        hand.step(-step_ms);
        hand.pass(10);
        bench.thread.turn();
        assert_eq!(bench.thread.bank.now_ms(), start_ms + 410);
        assert_eq!(bench.thread.pulse.check_clock(), Ok(()));
    }
}

/// The node's clock is a day ahead, for an earlier run acted on it: it stands still, purses are filled nevertheless, and the node
/// says that it needs help.
#[test]
fn purses_are_filled_while_the_clock_stands_and_the_node_says_that_it_does() {
    let mut bench = Bench::new();
    bench.configure();
    let hand = bench.set_by_hand(bench.thread.bank.now_ms());
    hand.step(-86_400_000);
    bench.thread.turn();
    hand.pass(probe::STEP_STANDS_MS);
    bench.thread.turn();
    let stood_ms = bench.thread.bank.now_ms();
    let pulse = Arc::clone(&bench.thread.pulse);
    for round in 0..20 {
        hand.pass(300);
        let short = Amount::new(1_000_000);
        let want = ToBank::Want { slot: 0, need: Need { short, seq: round, ..Need::default() } };
        bench.up.try_send(Up::Ledger(want)).unwrap();
        let filled = bench.until(|bench| {
            let fill = |down| matches!(down, Down::Ledger(ToWorker::Fill { slot: 0, amount, .. }) if amount >= short);
            std::iter::from_fn(|| bench.down.recv()).any(fill).then_some(true)
        });
        assert!(filled, "round {round}");
        assert_eq!(bench.thread.bank.now_ms(), stood_ms, "it stands");
        assert_eq!(pulse.check_clock().is_ok(), pulse.clock_held_ms() < 5_000);
    }
    let why = pulse.check_clock().unwrap_err();
    assert!(why.contains("stands still") && why.contains("ms ahead"), "{why}");
    assert_eq!(pulse.clock_held(), 1, "told once");
    // A step forward again: it is believed once it has stood.
    hand.step(86_400_000);
    bench.thread.turn();
    assert!(pulse.check_clock().unwrap_err().contains("ms behind"));
    hand.pass(probe::STEP_STANDS_MS);
    bench.thread.turn();
    assert_eq!(pulse.check_clock(), Ok(()));
    assert_eq!((pulse.clock_held_ms(), pulse.clock_ahead_ms()), (0, 0));
}
