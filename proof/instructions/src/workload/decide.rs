//! A frame of asks: from its bytes to the bytes of its answer, as the node's worker does it.
//!
//! The session of the batch door writes into a connection's output, which only the event loop can make; so this calls
//! what the session and the worker call, in their order (`crates/door-batch/src/lib.rs`,
//! `crates/door-batch/src/gate/mod.rs`). The money, the plans, the table, the tokens and the codec are the node's own.

use std::hint::black_box;

use gate_pacing::{
    Counters, Decision, Forecast, Memo, Pace, Plan, PlanSpec, Shape, Spend, Strategy,
};
use ledger::{Amount, Hold, KeyRing, Purses};
use money::{Instant, Window, Zone};
use table::{Map, Secret};
use wire::decide::Ask;
use wire::{Decide, DecideFlags, Message, Split, Verdict, decide, decided, frame};

use super::Workload;
use super::purses::{self, START_MS};
use super::random::Random;

/// So many budgets, and frames that come in turn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(super) budgets: u32,
    frames: u64,
    /// A wake-up comes every millisecond, a tick of the pacer every so many of them.
    tick_ms: u64,
}

/// What a worker's caches hold.
pub(crate) const FEW: Size = Size { budgets: 1_000, frames: 256, tick_ms: 100 };
/// What they do not: every ask waits for memory, or for what was fetched ahead. A tick copies all plans here, which the node
/// does elsewhere; so it is rare.
pub(crate) const MANY: Size = Size { budgets: 50_000, frames: 8_192, tick_ms: 5_000 };
/// Asks in a frame.
pub(super) const FRAME: u32 = 10;
const FRAME_BYTES_MAX: u32 = 1 << 20;
const UNIT: [u8; 4] = *b"USD\0";
/// Every fourth budget follows a plan.
const PLANNED: u32 = 4;
/// What a planned budget may spend, and what of it is spent.
const LIMIT: Amount = Amount::new(1_000_000_000_000);
const FLIGHT_MS: u64 = 86_400_000;

/// Frames from clients that are answered.
pub(crate) struct Frames {
    frames: Vec<Vec<u8>>,
    next_frame: usize,
    output: Vec<u8>,
    worker: Worker,
    /// What the pacer makes at every tick.
    fresh: Vec<Pace>,
    tick_ms: u64,
}

/// What a worker has.
struct Worker {
    now_ms: u64,
    map: Map<u32>,
    units: Vec<[u8; 4]>,
    paces: Vec<Pace>,
    purses: Purses,
    keys: KeyRing,
    ids: Vec<u64>,
    slots: Vec<Option<u32>>,
    places: Vec<u16>,
    verdicts: [u64; 256],
}

impl Frames {
    /// Frames that one wake-up finds.
    const WAKE_UP: usize = 8;
    /// The tick that plans are made for.
    const TICK_MS: u64 = 100;

    pub(crate) fn new(size: Size) -> Frames {
        let budgets = size.budgets;
        let mut random = Random::new(1);
        let fresh: Vec<Pace> = (0..budgets).map(pace).collect();
        let entries = (0..budgets).map(|slot| (id(slot), slot));
        let worker = Worker {
            now_ms: START_MS,
            map: Map::build(Secret::new(77), entries).expect("the ids differ"),
            units: vec![UNIT; budgets as usize],
            paces: fresh.clone(),
            purses: purses::full(budgets),
            keys: KeyRing::new(1, 1, [7; 16]),
            ids: Vec::new(),
            slots: Vec::new(),
            places: Vec::new(),
            verdicts: [0; 256],
        };
        let frames = self::frames(size, &mut random);
        Frames {
            frames,
            next_frame: 0,
            output: vec![0; 4_096],
            worker,
            fresh,
            tick_ms: size.tick_ms,
        }
    }

    /// What the door does with the bytes of one frame.
    fn answer(&mut self) {
        let input = black_box(&self.frames[self.next_frame]);
        self.next_frame = (self.next_frame + 1) % self.frames.len();
        let Ok(Split::Frame(frame)) = frame::split(input, FRAME_BYTES_MAX) else { return };
        let Ok(Message::Decide(batch)) = Message::decode(frame) else { return };
        let count = batch.asks().len();
        let block = decided::Block::new(batch.frame(), 1);
        let encoder = decided::encode(&mut self.output, &block).expect("the output has room");
        let (answers, encoder) = encoder.answers_mut(count).expect("the output has room");
        self.worker.decide(&batch, answers);
        let written = encoder.finish();
        black_box(&self.output[..written]);
    }
}

impl Workload for Frames {
    fn step(&mut self) -> u64 {
        if self.worker.now_ms.is_multiple_of(self.tick_ms) {
            self.worker.paces.copy_from_slice(&self.fresh);
        }
        for _ in 0..Frames::WAKE_UP {
            self.answer();
        }
        self.worker.turn();
        Frames::WAKE_UP as u64 * u64::from(FRAME)
    }
}

impl Worker {
    fn decide(&mut self, batch: &Decide<'_>, answers: &mut [decided::Answer]) {
        let asks = batch.asks();
        let mut pods = 0;
        self.ids.clear();
        for ask in asks.iter() {
            self.ids.push(ask.budget_id());
            pods |= ask.pod();
        }
        black_box(pods);
        self.slots.resize(asks.len(), None);
        self.map.get_batch(&self.ids, &mut self.slots);
        for slot in self.slots.iter().flatten() {
            table::prefetch(&self.paces[*slot as usize]);
            self.purses.prefetch(*slot);
        }
        let at = self.purses.at(self.now_ms);
        for (i, ask) in asks.iter().enumerate() {
            let judged = self.judge(ask, self.slots[i], at);
            self.note(i, judged, answers);
        }
        self.keys.seal(answers, &self.places, decided::Answer::token_mut);
        self.places.clear();
    }

    #[inline(always)]
    fn judge(&mut self, ask: &Ask, slot: Option<u32>, at: ledger::At) -> Result<Hold, Verdict> {
        let slot = slot.ok_or(Verdict::UnknownBudget)?;
        let amount = Amount::new(ask.amount());
        if !amount.is_ask() {
            return Err(Verdict::BadAmount);
        }
        let (unit, expected) = (ask.unit(), self.units[slot as usize]);
        if unit != expected && unit != [0; 4] {
            return Err(Verdict::UnitMismatch);
        }
        let pace = &mut self.paces[slot as usize];
        if pace.decide(ask.request_id(), amount) == Decision::Paced {
            return Err(Verdict::Paced);
        }
        self.purses.reserve(slot, amount, at).inspect_err(|_| pace.give_back(amount))
    }

    #[inline(always)]
    fn note(&mut self, i: usize, judged: Result<Hold, Verdict>, answers: &mut [decided::Answer]) {
        let verdict = match judged {
            Ok(hold) => {
                self.keys.write(&hold, answers[i].token_mut());
                self.places.push(u16::try_from(i).expect("a frame of ten"));
                Verdict::Granted
            }
            Err(why) => {
                answers[i].set_token([0; 32]);
                why
            }
        };
        answers[i].set_verdict(verdict);
        self.verdicts[usize::from(verdict.as_raw())] += 1;
    }

    /// The end of a wake-up: holds lapse, the bank hears of it.
    fn turn(&mut self) {
        self.purses.turn(self.now_ms);
        while let Some(message) = self.purses.next_message() {
            black_box(&message);
        }
        self.now_ms += 1;
    }
}

/// What clients send.
pub(super) fn frames(Size { budgets, frames, .. }: Size, random: &mut Random) -> Vec<Vec<u8>> {
    (0..frames).map(|number| asks(number, budgets, random)).collect()
}

/// A client's frame: one ask in fifty is for a budget that nobody knows.
fn asks(number: u64, budgets: u32, random: &mut Random) -> Vec<u8> {
    let mut ask = |request| {
        let slot = random.below(budgets);
        let budget = if random.percent(2) { id(slot + budgets) } else { id(slot) };
        let amount = 1_000 + i64::from(random.below(4_000));
        Ask::new(request, budget, amount, random.next(), UNIT, 0, 0)
    };
    let first = number * u64::from(FRAME);
    let asks: Vec<Ask> = (first..first + u64::from(FRAME)).map(&mut ask).collect();
    let mut bytes = vec![0; decide::encoded_len(asks.len())];
    let block = decide::Block::new(number, DecideFlags::default());
    let encoder = decide::encode(&mut bytes, &block).expect("encoded_len says how long it is");
    encoder.asks(&asks).expect("encoded_len says how long it is").finish();
    bytes
}

/// The id of a budget.
pub(super) fn id(slot: u32) -> u64 {
    u64::from(slot) * 7 + 1
}

/// Every fourth budget is a little ahead of its plan, so a coin decides for it.
fn pace(slot: u32) -> Pace {
    if !slot.is_multiple_of(PLANNED) {
        return Pace::OPEN;
    }
    let start = START_MS - FLIGHT_MS / 2;
    let flight =
        Window { start: Instant::from_ms(start), end: Instant::from_ms(start + FLIGHT_MS) };
    let spec = PlanSpec::new(id(slot), Strategy::Curve, flight, Zone::utc());
    let plan = Plan::new(PlanSpec { shape: Shape::linear(), ..spec }).expect("a sound plan");
    let ahead = LIMIT.get() / 1_000_000 * i64::from(slot % 100) * 100;
    let settled = Amount::new(LIMIT.get() / 2 + ahead);
    let life = Spend { settled, ..Spend::default() };
    let counters = Counters { limit: LIMIT, life, ..Counters::default() };
    let now = Instant::from_ms(START_MS);
    plan.parameters(&counters, &Forecast::default(), now, Frames::TICK_MS, 1, &mut Memo::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_asks_are_granted_and_some_are_not() {
        for size in [FEW, MANY] {
            let mut frames = Frames::new(size);
            let asked: u64 = (0..200).map(|_| frames.step()).sum();
            let verdicts = frames.worker.verdicts;
            let of = |verdict: Verdict| verdicts[usize::from(verdict.as_raw())];
            assert_eq!(verdicts.iter().sum::<u64>(), asked, "every frame was read");
            assert!(of(Verdict::Granted) > asked * 8 / 10, "{} granted", of(Verdict::Granted));
            assert!(of(Verdict::Paced) > asked / 100, "{} paced", of(Verdict::Paced));
            assert!(of(Verdict::UnknownBudget) > asked / 200);
        }
    }
}
