//! A worker without sockets, without a bank and at an instant set by hand: for programs that count or time what a node
//! does between the bytes that it receives and those that it answers (`proof/instructions`).

use std::path::Path;
use std::sync::Arc;

use door_transport::{CloseReason, ConnId, Handle, Peer, Service, Step, Unconnected};
use gate_pacing::Pace;
use gate_profile::Profiles;
use ledger::{Amount, Handled, KeyRing, PurseOptions, Purses, Resolution, Timed, ToBank, ToWorker};
use money::Instant;
use probe::{HandClock, Laps, NodeClock};
use table::ring::{self, Receiver, Sender};
use table::{Map, Secret};
use wire::Verdict;

use weir_budgets::budgets::Budget;
use weir_budgets::campaign_index::{CampaignIndex, ExchangeTerms};
use weir_config::config::Config;
use weir_config::doors::DOORS;
use weir_door::{DoorSet, OnDoors, Tokens};
use weir_till::{
    ApartMessage, Facts, LastRefusals, Snapshot, Till, cells::SlotCells, stages::WorkerProbes,
};

use crate::doors::{self, DoorId, DoorTerms, Doors, Parts, Session};
use crate::error::StartError;
use crate::messages::{Down, Up};
use crate::worker::{Lines, Worker};

/// When it begins, ms since 1970.
pub const START_MS: u64 = 1_800_000_000_000;
/// Money of every purse: more than any run asks for.
const FILLED: Amount = Amount::new(1_000_000_000_000);
/// Messages that each queue holds: more than one turn brings.
const QUEUE: usize = 16_384;
/// How long an empty folder of profiles may take to be known, however busy the machine.
const WARM_WAIT: std::time::Duration = std::time::Duration::from_secs(60);
/// Keeps nobody out here.
const SECRET: u128 = 77;

/// One worker of a node, with one connection of each door.
pub struct Bench {
    worker: Worker<Doors>,
    hand: Arc<HandClock>,
    batch: Session,
    openrtb: Session,
    spend: Session,
    unconnected: Unconnected<Session>,
    from_worker: Receiver<Up>,
    to_worker: Sender<Down>,
}

impl Bench {
    /// A worker with these budgets, whose profiles lie in `folder`. Every budget may spend, and has money.
    ///
    /// # Errors
    /// What of the configuration or the budgets cannot be used.
    pub fn new(config: &Config, budgets: &[Budget], folder: &Path) -> Result<Bench, String> {
        let terms = terms(config).map_err(|error| error.to_string())?;
        let options = gate_profile::Options { secret: SECRET, ..gate_profile::Options::default() };
        let profiles = Profiles::open(folder, &options);
        let profiles = profiles.map_err(|error| error.to_string())?;
        until_warm(&profiles)?;
        let handle = Handle::new().map_err(|error| error.to_string())?;
        let meanings = Arc::new(door_openrtb::NoMeanings);
        let parts = Parts { terms, profiles, meanings };
        let counters = Arc::new(Doors::counters());
        let mut doors = Doors::new(&parts, OnDoors::ALL, 0, handle.waker(), &counters);
        let hand = HandClock::new(START_MS);
        let till = till(config, budgets, &hand, Arc::clone(&counters.refusals))?;
        doors.openrtb.configured(&till);
        let (up, from_worker) = ring::channel(QUEUE);
        let (to_worker, down) = ring::channel(QUEUE);
        let lines = Lines { up, down, bank: std::thread::current(), counters };
        let mut worker = Worker::new(till, doors, lines);
        let id = ConnId::from_bits(1);
        let [batch, openrtb, spend] = [DoorId::Batch, DoorId::OpenRtb, DoorId::Spend]
            .map(|door| worker.opened(id, Peer::Local, door as usize));
        let unconnected = Unconnected::default();
        Ok(Bench { worker, hand, batch, openrtb, spend, unconnected, from_worker, to_worker })
    }

    /// The batch door receives bytes. What it answers goes to `read`.
    pub fn batch<R>(&mut self, input: &[u8], read: impl FnOnce(&[u8]) -> R) -> (Step, R) {
        let Bench { worker, batch, unconnected, .. } = self;
        received(worker, batch, unconnected, input, read)
    }

    /// The OpenRTB door receives bytes. What it answers goes to `read`.
    pub fn openrtb<R>(&mut self, input: &[u8], read: impl FnOnce(&[u8]) -> R) -> (Step, R) {
        let Bench { worker, openrtb, unconnected, .. } = self;
        received(worker, openrtb, unconnected, input, read)
    }

    /// The spend door receives bytes. What it answers goes to `read`.
    pub fn spend<R>(&mut self, input: &[u8], read: impl FnOnce(&[u8]) -> R) -> (Step, R) {
        let Bench { worker, spend, unconnected, .. } = self;
        received(worker, spend, unconnected, input, read)
    }

    /// The OpenRTB door receives a notice on a connection of its own, which closes before the bank has answered: on a
    /// connection that stays, requests wait for the answer to the notice before them.
    pub fn notice(&mut self, input: &[u8]) -> Step {
        let Bench { worker, unconnected, .. } = self;
        let id = ConnId::from_bits(1);
        let mut session = worker.opened(id, Peer::Local, DoorId::OpenRtb as usize);
        let (step, _) = received(worker, &mut session, unconnected, input, <[u8]>::len);
        worker.closed(id, session, CloseReason::PeerClosed);
        step
    }

    /// A wake-up begins, `ms` after the one before.
    pub fn wake(&mut self, ms: u64) {
        self.hand.pass(ms);
        self.worker.woke();
    }

    /// A wake-up ends. The bank, which is this, confirms, extends or settles all that it is asked to.
    pub fn turn(&mut self) {
        self.worker.turn(&mut self.unconnected.outbox());
        while let Some(message) = self.from_worker.recv() {
            // A queue that is full loses an answer, of which more than a turn brings fit in.
            let _ = answer(message).map(|answer| self.to_worker.try_send(answer));
        }
    }
}

/// What the bank says to a worker's message.
fn answer(message: Up) -> Option<Down> {
    match message {
        Up::Ledger(ToBank::Resolve { reply, .. }) => {
            let resolution = Resolution::refused(Verdict::Settled);
            Some(Down::Ledger(ToWorker::Resolved { reply, resolution }))
        }
        Up::Apart(apart) => {
            let ApartMessage::Timed(request) = apart.message else { return None };
            let (verdict, until_ms, judged) = (Verdict::Confirmed, request.at_ms, Handled::Now);
            let answer = Box::new(Ok(Timed { verdict, until_ms, judged }));
            Some(Down::Timed { reply: request.reply, answer })
        }
        _ => None,
    }
}

/// Waits for the thread behind the profiles to say that it knows all users: until then, each is one to be loaded first, and how long that
/// is depends on when the thread runs.
fn until_warm(profiles: &Profiles) -> Result<(), String> {
    let began = std::time::Instant::now();
    while !profiles.figures().warm {
        if began.elapsed() > WARM_WAIT {
            return Err("the profiles do not become warm".into());
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(())
}

/// A till at the beginning: every plan is open, every purse is full.
fn till(
    config: &Config,
    budgets: &[Budget],
    hand: &Arc<HandClock>,
    refusals: Arc<LastRefusals>,
) -> Result<Till, String> {
    let keys = Arc::new(KeyRing::new(1, 1, [7; 16]));
    let probes = WorkerProbes::new(Laps::new(0).0, Laps::new(0).0);
    let purses = purses(budgets.len());
    let mut till = Till::new(0, Arc::new(facts(config)), refusals, purses, keys, probes);
    till.clock = NodeClock::by_hand(Arc::clone(hand));
    till.cells = SlotCells::new(budgets.len());
    till.paces = vec![Pace::OPEN; budgets.len()].into();
    till.snapshot = Arc::new(snapshot(config, budgets)?);
    Ok(till)
}

#[inline(always)]
fn received<R>(
    worker: &mut Worker<Doors>,
    session: &mut Session,
    unconnected: &mut Unconnected<Session>,
    input: &[u8],
    read: impl FnOnce(&[u8]) -> R,
) -> (Step, R) {
    let step = worker.received(ConnId::from_bits(1), session, input, &mut unconnected.out());
    (step, unconnected.sent(read))
}

fn purses(count: usize) -> Purses {
    let options = PurseOptions { node: 1, hold_ms: 2_000 };
    let mut purses = Purses::new(options, count);
    for slot in 0..u32::try_from(count).unwrap_or(u32::MAX) {
        let fill = ToWorker::Fill {
            slot,
            grant: u64::from(slot) + 1,
            amount: FILLED,
            valid_from_ms: 0,
            valid_until_ms: u64::MAX,
        };
        purses.take(fill, START_MS);
    }
    purses
}

fn snapshot(config: &Config, budgets: &[Budget]) -> Result<Snapshot, String> {
    let now = Instant::from_ms(START_MS);
    let campaign_index = CampaignIndex::build(&ExchangeTerms::of(config), budgets, now);
    let campaign_index = campaign_index
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<String>())?;
    let ids: Vec<(u64, u32)> = budgets.iter().map(|budget| budget.spec.id).zip(0..).collect();
    let slots = Map::build(Secret::new(SECRET), ids).map_err(|error| format!("{error:?}"))?;
    campaign_index.index().put(|id| slots.get(id).unwrap_or(0));
    Ok(Snapshot {
        number: 1,
        slots,
        names: weir_till::Names::none(),
        units: budgets.iter().map(|budget| budget.spec.unit.to_code()).collect(),
        campaign_index: Arc::new(campaign_index),
        orders: Arc::default(),
    })
}

/// What its doors are set to: all are on, nobody needs a token, and a frame may hold what the longest run sends.
fn terms(config: &Config) -> Result<DoorTerms, StartError> {
    let mut config = config.clone();
    config.batch.auth_token.clear();
    config.batch.frame_bytes_max = 1 << 20;
    config.batch.resolves_waiting_max = QUEUE;
    config.batch.wait_ms = 0;
    config.ledger.remember_max = 1_024;
    for key in [
        &mut config.batch.tokens_file,
        &mut config.spend.tokens_file,
        &mut config.admin.tokens_file,
    ] {
        key.clear();
    }
    let addresses = DOORS.map(|door| (door.listen)(&config).address());
    let tokens = Tokens::read(&config, doors::DOORS).expect("no file is named");
    DoorTerms::new(&config, &addresses, &tokens, START_MS, (None, doors::FixKnown::default()), &[])
}

/// What a worker is started with here.
pub(crate) fn facts(config: &Config) -> Facts {
    Facts {
        node: 1,
        run: 1,
        hold_ms: 2_000,
        billing_ms: u32::try_from(config.ledger.billing_ms).unwrap_or(u32::MAX),
        earliest_ms: 0,
        secret: SECRET,
        answer_secret: access::KeySecret::new([0; 16]),
    }
}

#[cfg(test)]
mod tests;
