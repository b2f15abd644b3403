//! Frames at a worker's till, without sockets.

use std::sync::Arc;

use gate_pacing::Pace;
use ledger::{KeyRing, No, Purses, ToBank, ToWorker};
use probe::{Laps, NodeClock};
use proptest::prelude::*;
use table::{Map, Secret};
use weir_budgets::campaign_index::CampaignIndex;
use weir_till::{Facts, Snapshot, cells::SlotCells, stages::WorkerProbes};
use wire::{DecideFlags, decide, resolve};

use super::*;

const NOW_MS: u64 = 1_000_000;
const BUDGETS: u32 = 8;
/// What every purse has.
const FILLED: i64 = 1_000;

/// The door at a till.
struct Bench {
    door: BatchDoor,
    till: Till,
}

impl Bench {
    fn gate(&mut self) -> BatchGate<'_> {
        BatchGate { door: &mut self.door, till: &mut self.till }
    }

    /// What the worker does when a wake-up has nothing more to read.
    fn run_timers(&mut self) {
        let now_ms = self.till.at.now_ms;
        self.door.ask_echo(&mut self.till);
        self.till.purses.turn(now_ms);
        self.till.send_echoes();
        self.till.purses.tick(now_ms);
    }
}

/// A door at a fixed instant: every third plan is closed, every purse has the same money.
fn worker(probes: WorkerProbes) -> Bench {
    let keys = Arc::new(KeyRing::new(1, 1, [7; 16]));
    let options = ledger::PurseOptions { node: 1, hold_ms: 2_000 };
    let mut purses = Purses::new(options, BUDGETS as usize);
    let (valid_from_ms, valid_until_ms) = (0, u64::MAX);
    for slot in 0..BUDGETS {
        let (grant, amount) = (u64::from(slot) + 1, Amount::new(FILLED));
        let fill = ToWorker::Fill { slot, grant, amount, valid_from_ms, valid_until_ms };
        purses.take(fill, NOW_MS);
    }
    let counters = WorkerCounters::with(vec![Arc::<BatchCounts>::default()]);
    let refusals = Arc::clone(&counters.refusals);
    let mut till = Till::new(0, Arc::new(facts()), refusals, purses, keys, probes);
    till.at = till.purses.at(NOW_MS);
    let pace = |slot: u32| if slot.is_multiple_of(3) { Pace::CLOSED } else { Pace::OPEN };
    till.paces = (0..BUDGETS).map(pace).collect();
    let ids = (0..BUDGETS).map(|slot| (u64::from(slot) + 1, slot));
    till.snapshot = Arc::new(Snapshot {
        number: 1,
        slots: Map::build(Secret::new(5), ids).unwrap(),
        units: vec![*b"USD\0"; BUDGETS as usize],
        names: weir_till::Names::none(),
        campaign_index: CampaignIndex::empty(),
        orders: Arc::default(),
    });
    till.cells = SlotCells::new(BUDGETS as usize);
    Bench { door: BatchDoor::new(0, terms(), &counters), till }
}

fn facts() -> Facts {
    Facts {
        node: 1,
        run: 1,
        hold_ms: 2_000,
        billing_ms: 3_600_000,
        earliest_ms: 0,
        secret: 9,
        answer_secret: access::KeySecret::new([0; 16]),
    }
}

fn terms() -> Arc<BatchTerms> {
    let terms = BatchTerms::new(&Config::default(), None);
    Arc::new(BatchTerms { waiting_max: 16, wait_ms: 10, remember_max: 1_024, ..terms })
}

/// What the worker answers to these frames, each in a turn of its own.
fn answers(worker: &mut Bench, frames: &[(DecideFlags, Vec<decide::Ask>)]) -> Vec<u8> {
    let mut all = Vec::new();
    for (number, (flags, asks)) in (0..).zip(frames) {
        let mut frame = vec![0; decide::encoded_len(asks.len())];
        let block = decide::Block::new(number, *flags);
        decide::encode(&mut frame, &block).unwrap().asks(asks).unwrap().finish();
        let Message::Decide(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
        let mut answer = vec![0; decided::encoded_len(asks.len())];
        let block = decided::Block::new(number, 1);
        let encoder = decided::encode(&mut answer, &block).unwrap();
        let (answers, encoder) = encoder.answers_mut(asks.len()).unwrap();
        worker.till.probes.begin();
        worker.gate().decide(&client(7), &batch, answers);
        encoder.finish();
        all.append(&mut answer);
    }
    all
}

fn probes(stages_every: u32, parts_every: u32) -> WorkerProbes {
    WorkerProbes::new(Laps::new(stages_every).0, Laps::new(parts_every).0)
}

fn ask() -> impl Strategy<Value = decide::Ask> {
    let unit = prop_oneof![8 => Just([0; 4]), 1 => Just(*b"USD\0"), 1 => Just(*b"EUR\0")];
    let (budgets, amounts) = (0..=u64::from(BUDGETS) + 1, -1..FILLED / 2);
    let pod = prop_oneof![9 => Just(0), 1 => 1..3_u16];
    (0..500_u64, budgets, amounts, unit, pod).prop_map(|(id, budget, amount, unit, pod)| {
        decide::Ask::new(id, budget, amount, 7, unit, pod, 0)
    })
}

fn frame() -> impl Strategy<Value = (DecideFlags, Vec<decide::Ask>)> {
    let flags = prop_oneof![4 => Just(DecideFlags::default()), 1 => Just(DecideFlags::REMEMBER)];
    let alone = prop::collection::vec(ask(), 1..12).prop_map(|mut asks| {
        asks.iter_mut().for_each(|ask| ask.set_pod(0));
        asks
    });
    (flags, prop_oneof![3 => alone, 1 => prop::collection::vec(ask(), 1..12)])
}

#[test]
fn measuring_changes_no_answer() {
    let answers =
        |frames: &[_], (stages, parts)| answers(&mut worker(probes(stages, parts)), frames);
    proptest!(|(frames in prop::collection::vec(frame(), 1..30))| {
        let plain = answers(&frames, (0, 0));
        for measured in [(1, 0), (0, 1), (2, 2)] {
            prop_assert_eq!(&answers(&frames, measured), &plain);
        }
    });
}

#[test]
fn a_refusal_is_remembered_with_the_budget_that_was_named() {
    let mut worker = worker(probes(0, 0));
    let ask = |budget, amount| decide::Ask::new(1, budget, amount, 7, [0; 4], 0, 0);
    let frame = |asks| (DecideFlags::default(), asks);
    answers(&mut worker, &[frame(vec![ask(2, 10), ask(3, 0), ask(99, 10), ask(1, 10)])]);
    worker.till.set_journal_fails(true);
    answers(&mut worker, &[frame(vec![ask(6, 10)])]);
    let last = worker.till.refusals.read(NOW_MS + 5);
    let last: Vec<_> = last.map(|one| (one.at_ms, one.slot, one.verdict)).collect();
    let refused = |slot, verdict| (NOW_MS, slot, verdict);
    let expected =
        [refused(5, Verdict::Journal), refused(0, Verdict::Paced), refused(2, Verdict::BadAmount)];
    assert_eq!(last, expected);
    for (_, slot, verdict) in expected {
        let tally = &worker.till.cells.tallies[slot as usize];
        assert_eq!(tally.count(verdict.as_raw().into()), 1, "{verdict:?}");
    }
}

/// The log does not answer: asks are granted until the lease is over. Then each ask and each settle hears `CutOff`.
#[test]
fn asks_go_on_until_the_lease_is_over_and_then_all_is_cut_off() {
    let mut worker = worker(probes(0, 0));
    let hand = probe::HandClock::new(NOW_MS);
    worker.till.clock = NodeClock::by_hand(Arc::clone(&hand));
    let lease = probe::Lease::by_hand(15_000, Arc::clone(&hand));
    worker.till.set_lease(Arc::clone(&lease));
    lease.renew(lease.send());
    worker.till.set_journal_fails(true);
    let asked = |worker: &mut Bench| {
        worker.till.wake();
        let ask = decide::Ask::new(1, 2, 10, 7, [0; 4], 0, 0);
        let answer = answers(worker, &[(DecideFlags::default(), vec![ask])]);
        let Message::Decided(decided) = Message::decode(&answer).unwrap() else { unreachable!() };
        decided.answers().get(0).unwrap().verdict().unwrap()
    };
    let settled = |worker: &mut Bench| {
        let resolves = [resolve::Item::new([0; 32], 10, wire::Action::Settle, 1)];
        let mut frame = vec![0; resolve::encoded_len(1)];
        let block = resolve::Block::new(1);
        resolve::encode(&mut frame, &block).unwrap().resolves(&resolves).unwrap().finish();
        let Message::Resolve(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
        worker.gate().resolve(ConnId::from_bits(5), &batch).unwrap();
        let counts = &worker.door.resolving.counts;
        (counts.iter().sum::<u64>(), counts[usize::from(Verdict::CutOff.as_raw())])
    };
    hand.pass(14_999);
    assert_eq!((asked(&mut worker), settled(&mut worker)), (Verdict::Granted, (1, 0)));
    hand.pass(1);
    assert_eq!((asked(&mut worker), settled(&mut worker)), (Verdict::CutOff, (2, 1)));
    let (reply, memo) = (Reply { door: 0, index: 0, entry: 0 }, [].into());
    let memo = ledger::Memo { door: ledger::Door::Batch, key: 1, bytes: memo };
    let refused = worker.till.memo(reply, memo, ledger::MemoMoney::Without);
    assert_eq!(refused, Err(ledger::MemoRefusal::Unsealed(Verdict::CutOff)));
    lease.renew(lease.send());
    assert_eq!(asked(&mut worker), Verdict::Granted);
}

/// A hold's later end goes to the bank, but for what no bank need see; without the journal nothing does.
#[test]
fn a_later_end_is_asked_of_the_bank() {
    let mut worker = worker(probes(0, 0));
    let ask = decide::Ask::new(1, 2, 10, 7, [0; 4], 0, 0);
    let answer = answers(&mut worker, &[(DecideFlags::default(), vec![ask])]);
    let Message::Decided(decided) = Message::decode(&answer).unwrap() else { unreachable!() };
    let token = *decided.answers().get(0).unwrap().token();
    let extend = |worker: &mut Bench, holds: &[(&[u8; 32], u32)]| {
        let holds = holds.iter().map(|(token, ms)| extend::Hold::new(**token, *ms));
        let holds: Vec<extend::Hold> = holds.collect();
        let mut frame = vec![0; extend::encoded_len(holds.len())];
        let encoder = extend::encode(&mut frame, &extend::Block::new(9)).unwrap();
        encoder.holds(&holds).unwrap().finish();
        let Message::Extend(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
        worker.gate().extend(ConnId::from_bits(5), &batch)
    };
    let holds = [
        (&token, 999),
        (&token, 1_000),
        (&token, 3_600_000),
        (&token, 3_600_001),
        (&[0; 32], 1_000),
    ];
    extend(&mut worker, &holds).unwrap();
    let asked: Vec<(u32, u64)> = worker
        .till
        .apart
        .drain(..)
        .map(|apart| match apart.message {
            weir_till::ApartMessage::Timed(request) => match request.ask {
                TimedAsk::Extend { until_ms, confirms: false, .. } => {
                    (Reply::from_bits(request.reply).entry, until_ms - NOW_MS)
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(asked, [(1, 1_000), (2, 3_600_000)]);
    let counts = |worker: &Bench, verdict: Verdict| {
        worker.door.resolving.counts[usize::from(verdict.as_raw())]
    };
    assert_eq!((counts(&worker, Verdict::BadAmount), counts(&worker, Verdict::Foreign)), (2, 1));
    let timed = ledger::Timed { verdict: Verdict::Confirmed, until_ms: 7, judged: Handled::Before };
    let reply = |entry| Reply { door: 0, index: 0, entry };
    worker.door.extended(reply(1), Ok(timed));
    assert!(worker.door.resolving.frames.next_done().is_none());
    worker.door.extended(reply(2), Err(TimedRefusal::No(Verdict::Busy)));
    assert!(worker.door.resolving.frames.next_done().is_some());
    worker.till.set_journal_fails(true);
    assert_eq!(extend(&mut worker, &holds), Err(Reason::Journal));
}

/// The node's clock stands still for a day, as the system's time of day was a day ahead and was put right: purses want
/// money, and what is counted is told.
#[test]
fn a_worker_goes_on_while_its_clock_stands() {
    let mut worker = worker(probes(0, 0));
    let hand = probe::HandClock::new(NOW_MS);
    worker.till.clock = NodeClock::by_hand(Arc::clone(&hand));
    hand.step(-86_400_000);
    worker.till.wake();
    hand.pass(probe::STEP_STANDS_MS);
    worker.till.wake();
    let stood_ms = worker.till.at.now_ms;
    for round in 1..=5 {
        hand.pass(6);
        worker.till.wake();
        assert_eq!(worker.till.at.now_ms, stood_ms);
        let ask = decide::Ask::new(round, 2, FILLED + 1, 7, [0; 4], 0, 0);
        answers(&mut worker, &[(DecideFlags::default(), vec![ask])]);
        worker.run_timers();
        worker.door.publish();
        let said: Vec<ToBank> = std::iter::from_fn(|| worker.till.purses.next_message()).collect();
        assert!(said.iter().any(|message| matches!(message, ToBank::Want { .. })), "{said:?}");
        assert_eq!(worker.door.counters.verdict(Verdict::PurseEmpty), round, "published");
    }
}

/// Two requests whose ids lie so that they were once taken for one: two holds, of which each settles.
#[test]
fn requests_of_different_clients_have_holds_of_their_own() {
    let mut worker = worker(probes(0, 0));
    let mut token = |number, id| {
        let asks = [decide::Ask::new(id, 2, 10, 7, [0; 4], 0, 0)];
        let mut frame = vec![0; decide::encoded_len(1)];
        let block = decide::Block::new(1, DecideFlags::REMEMBER);
        decide::encode(&mut frame, &block).unwrap().asks(&asks).unwrap().finish();
        let Message::Decide(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
        let mut answers = [decided::Answer::new([0; 32], Verdict::Busy)];
        worker.gate().decide(&client(number), &batch, &mut answers);
        assert_eq!(answers[0].verdict(), Some(Verdict::Granted));
        *answers[0].token()
    };
    let first = token(1, 1_000);
    assert_ne!(token(2, 1_000 ^ 0x6000_0000), first);
    assert_ne!(token(2, 1_000), first);
    assert_eq!(token(1, 1_000), first, "the same request");
}

fn client(id: u64) -> Client {
    Client { id, principal: None }
}

/// Client 7 with the token of a principal of these scopes.
fn limited(scopes: &str) -> Client {
    let line = format!("shop spend shop-0123456789a {scopes}");
    let file = access::TokenFile::parse(&line).unwrap();
    Client { id: 7, principal: file.find(b"shop-0123456789a").cloned() }
}

/// Verdicts on one ask of 10 for each of these budgets, and whether there is a token.
fn verdicts(
    worker: &mut Bench,
    client: &Client,
    (flags, pod): (DecideFlags, u16),
    budgets: &[u64],
) -> Vec<(Verdict, bool)> {
    let ask = |budget: &u64| decide::Ask::new(*budget, *budget, 10, 7, [0; 4], pod, 0);
    let asks: Vec<decide::Ask> = budgets.iter().map(ask).collect();
    let mut frame = vec![0; decide::encoded_len(asks.len())];
    let block = decide::Block::new(1, flags);
    decide::encode(&mut frame, &block).unwrap().asks(&asks).unwrap().finish();
    let Message::Decide(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
    let mut answers = vec![decided::Answer::new([9; 32], Verdict::Busy); asks.len()];
    worker.gate().decide(client, &batch, &mut answers);
    answers.iter().map(|a| (a.verdict().unwrap(), *a.token() != [0; 32])).collect()
}

#[test]
fn a_budget_out_of_scope_is_unknown_however_it_is_asked_for() {
    let mut worker = worker(probes(0, 0));
    let (granted, unknown) = ((Verdict::Granted, true), (Verdict::UnknownBudget, false));
    let (plain, remember) = (DecideFlags::default(), DecideFlags::REMEMBER);
    // Somebody else with the same number had a yes, which is remembered.
    assert_eq!(verdicts(&mut worker, &client(7), (remember, 0), &[3]), [granted]);
    let held = worker.till.purses.held(2);
    let shop = limited("budget:2,budget:5*");
    for flags in [plain, remember] {
        let found = verdicts(&mut worker, &shop, (flags, 0), &[2, 3, 5, 99]);
        assert_eq!(found, [granted, unknown, granted, unknown], "{flags:?}");
    }
    let pod = verdicts(&mut worker, &shop, (plain, 1), &[2, 3]);
    assert_eq!(pod, [(Verdict::PodRefused, false), unknown]);
    assert_eq!(worker.till.purses.held(2), held, "nothing of it was taken");
    let tally = &worker.till.cells.tallies[2];
    assert_eq!(tally.count(Verdict::UnknownBudget.as_raw().into()), 0, "or counted for it");
    assert_eq!(worker.door.counters.out_of_scope.get(), 5);
    let all = [2, 3, 5, 8];
    assert_eq!(verdicts(&mut worker, &limited(""), (plain, 0), &all), [granted; 4]);
    assert_eq!(verdicts(&mut worker, &limited("budget:*"), (plain, 0), &all), [granted; 4]);
}

/// A frame with the flag `awaitFill` that asks `amount` of the second budget; true if it waits.
fn postpone(worker: &mut Bench, amount: i64) -> bool {
    postpone_of(worker, &client(7), amount)
}

fn postpone_of(worker: &mut Bench, client: &Client, amount: i64) -> bool {
    let asks = [decide::Ask::new(1, 2, amount, 7, [0; 4], 0, 0)];
    let mut frame = vec![0; decide::encoded_len(asks.len())];
    let block = decide::Block::new(1, DecideFlags::AWAIT_FILL);
    decide::encode(&mut frame, &block).unwrap().asks(&asks).unwrap().finish();
    let Message::Decide(batch) = Message::decode(&frame).unwrap() else { unreachable!() };
    worker.gate().postpone(ConnId::from_bits(5), client, &batch, &frame)
}

fn said(worker: &mut Bench) -> Vec<ToBank> {
    worker.run_timers();
    std::iter::from_fn(|| worker.till.purses.next_message()).collect()
}

#[test]
fn a_frame_waits_until_the_bank_has_answered_or_its_time_is_up() {
    let mut worker = worker(probes(0, 0));
    let hand = probe::HandClock::new(NOW_MS);
    worker.till.clock = NodeClock::by_hand(Arc::clone(&hand));
    worker.till.wake();
    assert!(!postpone(&mut worker, FILLED), "the purse has it");
    assert!(postpone(&mut worker, 5 * FILLED));
    let said_now = said(&mut worker);
    let called = Amount::new(5 * FILLED);
    let wants = |of: &ToBank| matches!(of, ToBank::Want { slot: 1, need } if need.called == called);
    let want = said_now.iter().position(wants).expect("a want");
    let echo = said_now.iter().position(|of| *of == ToBank::Echo { reply: 1 }).expect("an echo");
    assert!(want < echo, "{said_now:?}");
    let due =
        |worker: &mut Bench| worker.door.parking.next_due(worker.till.clock.steady_ms()).is_some();
    assert!(!due(&mut worker));
    // The bank says no: the frame is judged at once, and the next one does not wait.
    worker.till.purses.take(ToWorker::Deny { slot: 1, no: No::to_all(Verdict::Exhausted) }, NOW_MS);
    worker.door.parking.frames.reached(1);
    assert!(due(&mut worker));
    assert!(!postpone(&mut worker, 5 * FILLED));
    // The bank is silent: its time is up.
    let fill = ToWorker::Fill {
        slot: 1,
        grant: 2,
        amount: Amount::new(1),
        valid_from_ms: 0,
        valid_until_ms: u64::MAX,
    };
    worker.till.purses.take(fill, NOW_MS);
    assert!(postpone(&mut worker, 5 * FILLED));
    hand.pass(worker.door.terms.wait_ms - 1);
    worker.till.wake();
    assert!(
        !due(&mut worker)
            && worker.door.parking.frames.wait_ms(worker.till.clock.steady_ms()) == Some(1)
    );
    hand.pass(1);
    worker.till.wake();
    assert!(due(&mut worker) && worker.door.parking.frames.is_empty());
}

/// A filling was on its way when the bank said that it has no more: the frame is not judged by half of its money.
#[test]
fn the_bank_is_asked_again_for_a_frame_four_times_at_once_and_no_longer_than_it_may_wait() {
    let mut worker = worker(probes(0, 0));
    let hand = probe::HandClock::new(NOW_MS);
    worker.till.clock = NodeClock::by_hand(Arc::clone(&hand));
    worker.till.wake();
    let due = |worker: &mut Bench, number: u64| {
        worker.door.parking.frames.reached(number);
        worker.door.parking.next_due(worker.till.clock.steady_ms()).expect("it is due")
    };
    let wants = |worker: &mut Bench| {
        said(worker).iter().filter(|of| matches!(of, ToBank::Want { slot: 1, .. })).count()
    };
    assert!(postpone(&mut worker, 5 * FILLED));
    assert_eq!(wants(&mut worker), 1);
    for number in 1..=3 {
        let parked = due(&mut worker, number);
        assert!(worker.gate().asks_again(parked).is_none(), "{number}");
        worker.till.purses.take(ToWorker::Deny { slot: 1, no: No::LATER }, NOW_MS);
        assert_eq!(wants(&mut worker), 1, "{number}");
    }
    let parked = due(&mut worker, 4);
    assert!(worker.gate().asks_again(parked).is_none(), "it waits");
    assert_eq!(wants(&mut worker), 0, "four times at once");
    // Then now and then.
    let pause_ms = worker.door.parking.frames.wait_ms(worker.till.clock.steady_ms()).unwrap();
    hand.pass(pause_ms);
    worker.till.wake();
    let parked = due(&mut worker, 4);
    assert!(worker.gate().asks_again(parked).is_none());
    assert_eq!(wants(&mut worker), 1, "after {pause_ms} ms");
    hand.pass(worker.door.terms.wait_ms);
    worker.till.wake();
    let parked = due(&mut worker, 0);
    assert!(worker.gate().asks_again(parked).is_some(), "its time is up");
    // Its time is up before that.
    assert!(postpone(&mut worker, 5 * FILLED));
    hand.pass(worker.door.terms.wait_ms);
    worker.till.wake();
    let parked = due(&mut worker, 0);
    let parked = worker.gate().asks_again(parked).expect("its time is up");
    worker.door.parking.recycle(parked);
    // Nothing is short any more.
    assert!(postpone(&mut worker, 5 * FILLED));
    let amount = Amount::new(9 * FILLED);
    let fill =
        ToWorker::Fill { slot: 1, grant: 3, amount, valid_from_ms: 0, valid_until_ms: u64::MAX };
    worker.till.purses.take(fill, NOW_MS);
    let parked = due(&mut worker, u64::MAX);
    assert!(worker.gate().asks_again(parked).is_some());
}

#[test]
fn a_frame_does_not_wait_for_what_no_bank_can_give() {
    let mut worker = worker(probes(0, 0));
    assert!(!postpone(&mut worker, 0), "no amount");
    assert!(!postpone(&mut worker, i64::MAX), "no amount that may be asked");
    let other = limited("budget:3");
    assert!(!postpone_of(&mut worker, &other, 5 * FILLED), "no budget that it may name");
    assert!(!said(&mut worker).iter().any(|of| matches!(of, ToBank::Want { .. })));
    worker.till.set_journal_fails(true);
    assert!(!postpone(&mut worker, 5 * FILLED), "nothing can be sealed");
    worker.till.set_journal_fails(false);
    let places = (0..10_000).take_while(|_| postpone(&mut worker, 5 * FILLED)).count();
    assert!((1..10_000).contains(&places), "bounded: {places}");
    worker.door.terms = Arc::new(BatchTerms { wait_ms: 0, ..(*terms()).clone() });
    worker.door.parking = Parking::default();
    assert!(!postpone(&mut worker, 5 * FILLED), "switched off");
}

/// Asks of all forms: alone, in a pod, to be remembered, which are judged anew once a configuration came.
#[test]
fn before_a_configuration_is_in_force_no_budget_is_said_to_be_unknown() {
    let mut worker = worker(probes(0, 1));
    let snapshot = std::mem::replace(&mut worker.till.snapshot, Snapshot::empty(Secret::new(5)));
    let ask = |pod| decide::Ask::new(1, 2, 10, 7, [0; 4], pod, 0);
    let remember = DecideFlags::REMEMBER;
    let forms = [
        (DecideFlags::default(), vec![ask(0)]),
        (DecideFlags::default(), vec![ask(5), ask(5)]),
        (remember, vec![ask(0)]),
    ];
    let count =
        |worker: &Bench, verdict: Verdict| worker.door.verdicts[usize::from(verdict.as_raw())];
    answers(&mut worker, &forms);
    assert_eq!((count(&worker, Verdict::Busy), count(&worker, Verdict::PodRefused)), (3, 1));
    worker.till.snapshot = snapshot;
    answers(&mut worker, &forms);
    assert_eq!(count(&worker, Verdict::Granted), 4);
    assert_eq!(count(&worker, Verdict::UnknownBudget), 0);
}

#[test]
fn all_verdicts_of_an_ask_come_up() {
    let mut worker = worker(probes(0, 1));
    let ask = |budget, amount, unit| decide::Ask::new(1, budget, amount, 7, unit, 0, 0);
    let asks = vec![
        ask(2, 10, [0; 4]),
        ask(1, 10, [0; 4]),
        ask(99, 10, [0; 4]),
        ask(2, 0, [0; 4]),
        ask(2, 10, *b"EUR\0"),
        ask(2, FILLED, [0; 4]),
    ];
    answers(&mut worker, &[(DecideFlags::default(), asks)]);
    for verdict in [
        Verdict::Granted,
        Verdict::Paced,
        Verdict::UnknownBudget,
        Verdict::BadAmount,
        Verdict::UnitMismatch,
        Verdict::PurseEmpty,
    ] {
        assert_eq!(worker.door.verdicts[usize::from(verdict.as_raw())], 1, "{verdict:?}");
    }
}
