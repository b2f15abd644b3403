//! Named holds: who may say what of them, in which pieces, and when the answers come.

use ledger::{LegAmounts, NamedAnswer, NamedHold, NamedKind, NamedLeg, NamedRefusal, NamedSay};
use weir_door::{NamedDoor, NamedRows};
use weir_till::{NamedRequest, Till, stages::WorkerProbes};

use super::super::named::SAYS_MAX;
use super::*;

/// Doors by place: two that keep named holds, and one that keeps none.
const DOORS: &[DoorFacts] = &[
    DoorFacts { named: Some(NamedDoor { door: Door::Fix, compare }), ..Doors::FACTS[0] },
    DoorFacts {
        named: Some(NamedDoor { door: Door::Spend, compare: |_, _| Ok(Vec::new()) }),
        ..Doors::FACTS[0]
    },
    Doors::FACTS[0],
];
/// The first door's own table: rows of a key, a hold and what is settled.
const BOOK: &str = "book";

/// Says what the book says, and ends what it does not have.
fn compare(config: &Config, rows: &NamedRows<'_>) -> Result<Vec<NamedSay>, String> {
    let Ok(book) = std::fs::read_to_string(config.node.data_dir.join(BOOK)) else {
        return Ok(Vec::new());
    };
    let row =
        |line: &str| line.split(' ').map(|word| word.parse().ok()).collect::<Option<Vec<i64>>>();
    let book: Option<Vec<_>> = book.lines().map(row).collect();
    let book = book.ok_or("the book cannot be read; put a copy of it back")?;
    let key = |hold: &NamedHold| i64::try_from(hold.key).unwrap();
    let gone = rows.holds().filter(|hold| book.iter().all(|row| row[0] != key(hold)));
    let gone = gone.flat_map(|hold| [fact(hold.key, 1, [0, 0]), NamedSay::end(hold.key)]);
    let kept = book.iter().map(|row| fact(row[0].unsigned_abs().into(), 1, [row[1], row[2]]));
    Ok(gone.chain(kept).collect())
}

fn say(kind: NamedKind, key: u128, budget: u64, [hold, settled]: [i64; 2]) -> NamedSay {
    let spent = [settled, 0, 0, 0, 0].map(Amount::new);
    let amounts = LegAmounts { hold: Amount::new(hold), spent };
    NamedSay { kind, key, label: "".into(), legs: vec![NamedLeg { budget, amounts }] }
}

fn ask(key: u128, budget: u64, hold: i64) -> NamedSay {
    say(NamedKind::Ask, key, budget, [hold, 0])
}

fn fact(key: u128, budget: u64, amounts: [i64; 2]) -> NamedSay {
    say(NamedKind::Fact, key, budget, amounts)
}

fn bench(data: tempfile::TempDir) -> Bench {
    let mut bench = Bench::with(data, 1, DOORS);
    bench.configure();
    bench
}

impl Bench {
    fn say(&mut self, door: u8, says: Vec<NamedSay>) {
        let reply = weir_till::Reply { door, index: 7, entry: 0 };
        let message = ApartMessage::Named(Box::new(NamedRequest::new(reply, says)));
        let apart = Apart { before: 0, limited: None, message };
        self.up.try_send(Up::Apart(Box::new(apart))).unwrap();
    }

    fn told(&mut self) -> Option<Vec<NamedAnswer>> {
        while let Some(down) = self.down.recv() {
            if let Down::Named(request) = down {
                assert_eq!(request.reply.index, 7);
                return Some(request.answers().to_vec());
            }
        }
        None
    }

    fn says(&mut self, door: u8, says: Vec<NamedSay>) -> Vec<NamedAnswer> {
        self.say(door, says);
        self.until(Bench::told)
    }

    fn held(&self, budget: u64) -> i64 {
        let slot = self.thread.bank.slot(budget).unwrap();
        self.thread.bank.books(slot).line(ledger::Line::Held).get()
    }
}

#[test]
fn all_of_a_message_is_answered_together_and_once_it_is_sealed() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let before = bench.thread.journal.next_sequence();
    bench.say(0, vec![ask(1, 1, 5), ask(2, 9_999, 5), fact(3, 2, [4, 3]), NamedSay::end(4)]);
    let answers = bench.until(|bench| {
        let answers = bench.told()?;
        assert!(bench.thread.journal.sealed() >= before + 2, "told before it is sealed");
        Some(answers)
    });
    let unknown = NamedRefusal::Wrong(ledger::NamedError::Unknown(9_999));
    assert_eq!(answers, [Ok(true), Err(unknown), Ok(true), Ok(false)]);
    assert_eq!(
        (bench.held(1), bench.held(2), bench.thread.bank.named_on(0)),
        (5, 4, (1, Amount::new(5)))
    );
    assert_eq!([0, 1].map(|slot| bench.thread.bank.forced(slot)), [0, 7], "facts alone");
    assert_eq!(bench.says(0, vec![ask(1, 1, 5)]), [Ok(false)], "said again");
}

/// Keys are a door's own: another one that says something of the same key has a row of its own, and none of the first one's.
#[test]
fn a_door_reaches_its_own_rows_only() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    assert_eq!(bench.says(0, vec![ask(1, 1, 5)]), [Ok(true)]);
    assert_eq!(bench.says(1, vec![NamedSay::end(1), ask(1, 1, 6)]), [Ok(false), Ok(true)]);
    assert_eq!(bench.says(2, vec![ask(1, 1, 5)]), [Err(NamedRefusal::NoDoor)]);
    assert_eq!(bench.held(1), 11);
    let rows = |door| {
        let holds = NamedRows::of(&bench.thread.bank, door).holds();
        holds.map(|hold| (hold.key, hold.legs[0].amounts.hold.get())).collect::<Vec<_>>()
    };
    assert_eq!(
        (rows(Door::Fix), rows(Door::Spend), rows(Door::Keys)),
        (vec![(1, 5)], vec![(1, 6)], vec![])
    );
    assert!(DoorFacts::are_apart(DOORS) && !DoorFacts::are_apart(&[DOORS[0], DOORS[2], DOORS[0]]));
}

#[test]
fn nothing_is_done_while_the_journal_cannot_seal() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let reply = weir_till::Reply { door: 0, index: 7, entry: 0 };
    let says = vec![ask(1, 1, 5), fact(2, 1, [4, 3]), NamedSay::end(3)];
    bench.thread.named.push(0, Box::new(NamedRequest::new(reply, says.clone())));
    bench.thread.take_named(true);
    assert_eq!(bench.until(Bench::told), [Err(NamedRefusal::Journal); 3]);
    assert_eq!((bench.held(1), bench.thread.bank.named_len()), (0, 0));
    assert_eq!(bench.says(0, says), [Ok(true), Ok(true), Ok(false)]);
}

/// An ask that leans on money whose release is not sealed waits with it; another one does not.
#[test]
fn an_ask_waits_for_the_seal_where_it_leans_on_what_is_not_sealed() {
    let mut bench = bench(tempfile::tempdir().unwrap());
    let limit = 100_000_000;
    let all = |bench: &mut Bench| {
        bench.until(|bench| {
            (bench.thread.journal.sealed() == bench.thread.journal.next_sequence()).then_some(())
        })
    };
    assert_eq!(bench.says(0, vec![fact(1, 1, [limit / 2, 0])]), [Ok(true)]);
    all(&mut bench);
    let reply = weir_till::Reply { door: 0, index: 7, entry: 0 };
    // By what the first one frees the third one is covered by what is sealed, the fourth is not; of another budget nothing is.
    let steps = [
        (fact(1, 1, [limit / 4, 0]), true),
        (ask(2, 1, limit / 8), false),
        (ask(3, 1, limit / 8 * 3), true),
        (ask(4, 2, limit / 8), false),
    ];
    for (number, (say, waits)) in steps.into_iter().enumerate() {
        bench.thread.named.push(0, Box::new(NamedRequest::new(reply, vec![say])));
        bench.thread.take_named(false);
        let request = bench.thread.named.through(number);
        assert_eq!(
            (request.answers(), request.waits_for_seal()),
            (&[Ok(true)][..], waits),
            "{number}"
        );
    }
}

#[test]
fn a_hundred_thousand_ends_take_many_turns() {
    const ROWS: u32 = 100_000;
    let mut bench = bench(tempfile::tempdir().unwrap());
    let rows = (0..u128::from(ROWS)).map(|key| fact(key, 1, [0, 1])).collect();
    assert!(bench.says(0, rows).iter().all(|answer| *answer == Ok(true)));
    assert_eq!(bench.thread.bank.named_on(0), (ROWS, Amount::ZERO));
    bench.say(0, (0..u128::from(ROWS)).map(NamedSay::end).collect());
    let (mut left, mut turns) = (ROWS as usize, 0);
    let answers = bench.until(|bench| {
        let now = bench.thread.bank.named_len();
        assert!(left - now <= SAYS_MAX, "{} in one turn", left - now);
        (left, turns) = (now, turns + 1);
        bench.told()
    });
    assert!(turns > ROWS as usize / SAYS_MAX && answers.iter().all(|answer| *answer == Ok(true)));
    assert_eq!((left, bench.thread.bank.named_on(0)), (0, (0, Amount::ZERO)));
}

#[test]
fn a_start_compares_and_seals_what_the_doors_say() {
    let mut before = bench(tempfile::tempdir().unwrap());
    assert_eq!(before.says(0, vec![ask(1, 1, 5), ask(2, 1, 6), ask(3, 1, 7)]), [Ok(true); 3]);
    assert_eq!(before.says(1, vec![ask(2, 1, 9)]), [Ok(true)]);
    let Bench { thread, data, .. } = before;
    assert!(thread.finish());

    // The first was filled, the second never left, the third is as it was, and of the fourth the ledger has lost what it knew.
    std::fs::write(data.path().join(BOOK), "1 2 3\n3 7 0\n4 1 200000000\n").unwrap();
    let mut after = Bench::with(data, 1, DOORS);
    let bank = &after.thread.bank;
    let rows =
        bank.named_holds().map(|hold| (hold.door, hold.key, hold.legs[0].amounts.hold.get()));
    let expected = [(Door::Fix, 1, 2), (Door::Fix, 3, 7), (Door::Fix, 4, 1), (Door::Spend, 2, 9)];
    assert_eq!(rows.collect::<Vec<_>>(), expected);
    assert_eq!(bank.books(0).line(ledger::Line::Settled), Amount::new(200_000_003));
    let unsealed = after.thread.journal.next_sequence();
    let (reply, sealed) = mpsc::channel();
    after.commands.send(Command::Seal { reply }).unwrap();
    after.until(|_| sealed.try_recv().ok());
    assert!(after.thread.journal.sealed() > unsealed);
    let Bench { thread, data, .. } = after;
    assert!(thread.finish());

    std::fs::write(data.path().join(BOOK), "1 2 x\n").unwrap();
    let mut config = Config::default();
    config.node.data_dir = data.path().to_path_buf();
    let (mut bank, mut out) = (Bank::new(ledger::Options::default()), Out::default());
    let started = super::super::named::compare(DOORS, &config, &mut bank, &mut out);
    let error = started.unwrap_err().to_string();
    assert_eq!(error, "batch: the book cannot be read; put a copy of it back");
}

/// The till asks again for what purses have: at once, then every 5 ms, until the door hears after 50 ms that it did not come.
#[test]
fn a_till_asks_again_for_50_ms_and_for_what_is_in_purses_alone() {
    let counters = Doors::counters();
    let purses = ledger::Purses::new(ledger::PurseOptions { node: 1, hold_ms: 2_000 }, 0);
    let probes = WorkerProbes::new(Laps::new(0).0, Laps::new(0).0);
    let facts = Arc::new(crate::bench::facts(&Config::default()));
    let keys = Arc::new(ledger::KeyRing::new(1, 1, [7; 16]));
    let mut till = Till::new(0, facts, Arc::clone(&counters.refusals), purses, keys, probes);
    let hand = HandClock::new(1_000_000);
    till.clock = NodeClock::by_hand(Arc::clone(&hand));
    let reply = weir_till::Reply { door: 0, index: 7, entry: 0 };
    let empty = NamedRefusal::Leg { leg: 0, why: Verdict::PurseEmpty, left: Amount::ZERO };
    let refused = NamedRefusal::Leg { leg: 0, why: Verdict::Exhausted, left: Amount::ZERO };
    till.wake();
    till.named(reply, vec![ask(1, 1, 5), ask(2, 1, 5), fact(3, 1, [5, 0])]).unwrap();
    let (mut asked, mut told) = (Vec::new(), None);
    for now_ms in 0..60 {
        while let Some(Apart { message: ApartMessage::Named(mut request), .. }) =
            till.apart.pop_front()
        {
            let mut keys = Vec::new();
            while request.answer_next(|say| {
                keys.push(say.key);
                let answers = [Err(refused), Err(empty), Ok(true)];
                (answers[keys.len() - 1 + usize::from(!asked.is_empty())], false)
            }) {}
            asked.push((now_ms, keys));
            told = told.or(till.named_answered(request).map(|answers| (now_ms, answers)));
        }
        hand.pass(1);
        till.wake();
        while let Some(due) = till.named_due() {
            told = told.or(till.named_answered(due).map(|answers| (now_ms + 1, answers)));
        }
    }
    assert_eq!(asked[0], (0, vec![1, 2, 3]));
    let again = [0, 0, 0, 5, 10, 15, 20, 25, 30, 35, 40, 45].map(|now_ms| (now_ms, vec![2]));
    assert_eq!(asked[1..], again);
    assert_eq!(told, Some((50, (reply, vec![Err(refused), Err(empty), Ok(true)]))));
    till.set_journal_fails(true);
    assert_eq!(till.named(reply, vec![ask(1, 1, 5)]), Err(Verdict::Journal));
    assert!(till.apart.is_empty() && till.named_wait_ms().is_none());
}
