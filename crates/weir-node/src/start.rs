//! How the threads of a node start and stop: the bank and the workers, on doors that are bound before. What the admin door shows of
//! them is composed above this crate.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc::Sender as Commands;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use door_fix::gate::checkpoints::known as fix_known;
use door_fix::gate::desk::FixDesk;
use door_keys::gate::desk::KeysDesk;
use door_keys::gate::{KeysTerms, KeysThreads};
use door_openrtb::exchanges::ExchangeDesk;
use door_transport::cores::Placement;
use door_transport::{Handle, Listener, Listeners, Options as TransportOptions, RunError};
use gate_profile::Profiles;
use ledger::{Bank, KeyRing, PurseOptions, Purses};
use table::ring;
use weir_config::config::Config;
use weir_config::doors::{DOORS, DoorSpec, transport_options};
use weir_config::private;
use weir_door::{DoorSet, OnDoors, Tokens, WorkerCounters, thread::spawn};
use weir_till::{Facts, Till, stages::WorkerProbes};

use crate::bank::Callers;
use crate::bank::figures::names;
use crate::bank::keys;
use crate::bank::recover::recover;
use crate::bank::warm::Warm;
use crate::bank::{BankProbes, BankThread, Command, Link, Start, ask};
use crate::certificates::Certificates;
use crate::doors::Desks;
use crate::doors::{self, DoorTerms, Doors, Parts};
use crate::error::{StartError, system};
use crate::known::Permits;
use crate::measured::Sources;
use crate::memory::{self, Part};
use crate::messages::{Down, Up};
use crate::pulse::Pulse;
use crate::rooms::carrier;
use crate::whole_folder::make_whole;
use crate::worker::{Lines, Worker};

/// Descriptors that connections leave to files and to the admin door, where a process has so many that they are shared out.
const DESCRIPTORS_LEFT: usize = 1_024;
const DESCRIPTORS_SHARED: usize = 4 * DESCRIPTORS_LEFT;

/// How long a door's address may be taken by a process that just ended.
const BIND_WAIT: Duration = Duration::from_secs(3);
const BIND_PAUSE: Duration = Duration::from_millis(20);

/// Messages that fit between a worker and the bank, each way.
const RING_LEN: usize = 65_536;

type WorkerThread = JoinHandle<Result<Worker<Doors>, RunError>>;

/// Cores and addresses for the workers.
struct Seats {
    cores: Placement,
    transport: TransportOptions,
    /// By place: where the door listens, and a listener per worker; `None` for one that is off.
    doors: Vec<Option<BoundDoor>>,
}

/// What a start has before its threads run.
struct Ground {
    seats: Seats,
    /// By place.
    addresses: Vec<Option<SocketAddr>>,
    keys: (Option<Arc<KeysTerms>>, KeysThreads),
    start: Start,
    /// The bank's: what is asked of it before its thread runs waits.
    commands: (Commands<Command>, mpsc::Receiver<Command>),
}

#[derive(Debug)]
struct BoundDoor {
    address: SocketAddr,
    /// Each with the number of its worker.
    listeners: Vec<(usize, Listener)>,
}

impl Seats {
    /// Places the workers.
    ///
    /// # Errors
    /// A core or the transport cannot be had.
    fn place(config: &Config) -> Result<Seats, StartError> {
        let cores = place(config)?;
        let mut transport = transport_options(config);
        leave_descriptors(&mut transport, cores.workers.len());
        door_transport::choose(&transport).map_err(|e| StartError::Transport(e.to_string()))?;
        Ok(Seats { cores, transport, doors: Vec::new() })
    }

    /// Binds the doors; returns where each listens.
    ///
    /// # Errors
    /// An address cannot be had.
    fn bind(
        &mut self,
        config: &Config,
        certificates: &Certificates,
    ) -> Result<Vec<Option<SocketAddr>>, StartError> {
        let workers = self.cores.workers.len();
        let bind = |(place, door)| open_door(config, certificates, place, door, workers);
        self.doors = DOORS.iter().enumerate().map(bind).collect::<Result<_, StartError>>()?;
        Ok(self.doors.iter().map(|door| Some(door.as_ref()?.address)).collect())
    }
}

impl Ground {
    /// On the own disk, addresses are taken before the journal is read: what cannot be had is known at once. Where the log is on other machines, once
    /// the run has begun: until then callers go on to another node.
    fn take(
        config: &Config,
        permits: Permits,
        certificates: &Certificates,
        tokens: &Tokens,
        warm: Option<Warm>,
    ) -> Result<Ground, StartError> {
        let mut seats = Seats::place(config)?;
        let workers = seats.cores.workers.len();
        let begun = warm.map(|warm| warm.begin(config, doors::DOORS)).transpose()?;
        let addresses = seats.bind(config, certificates)?;
        // Before the first record: a start with the wrong key changes nothing.
        let commands = mpsc::channel();
        let carrier = begun.is_some().then(|| carrier(commands.0.clone()));
        let keys = doors::open_keys(config, &addresses, tokens, &seats.cores, carrier)?;
        let recovered = || recover(config, permits, workers, doors::DOORS);
        let start = begun.map_or_else(recovered, Ok)?;
        Ok(Ground { seats, addresses, keys, start, commands })
    }
}

/// Lowers the connections of each worker, so that a crowd at one door leaves descriptors to the files of the journal and to the admin door. A
/// process that may have few of them has to live with accepting that pauses.
fn leave_descriptors(transport: &mut TransportOptions, workers: usize) {
    let limit = door_transport::descriptor_limit().unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let Some(most) = connections_most(limit, workers) else { return };
    if transport.connections_max > most {
        tracing::info!(
            connections_max = transport.connections_max,
            lowered_to = most,
            descriptors = limit,
            "each worker takes fewer connections than transport.connections_max, so that files and the admin door have descriptors left; ulimit -n has more"
        );
        transport.connections_max = most;
    }
}

/// How many connections a worker may have at most in a process with so many descriptors; `None`: these are too few to be shared out.
fn connections_most(descriptors: usize, workers: usize) -> Option<usize> {
    (descriptors >= DESCRIPTORS_SHARED).then(|| (descriptors - DESCRIPTORS_LEFT) / workers.max(1))
}

/// Binds the door at this place, unless it is off.
fn open_door(
    config: &Config,
    certificates: &Certificates,
    place: usize,
    door: &'static DoorSpec,
    workers: usize,
) -> Result<Option<BoundDoor>, StartError> {
    let listen = (door.listen)(config);
    let Some(wanted) = listen.address() else { return Ok(None) };
    let homes = homes(config, door, workers)?;
    let (address, listeners) = match bind(door.name, wanted, homes.len()) {
        Err(StartError::Bind { source, .. })
            if source.is_in_use() && door.may_be_missed && !listen.is_chosen() =>
        {
            tracing::warn!(
                "the {} is off: {source}; {name}.listen = \"\" says that this is meant",
                door.title,
                name = door.name
            );
            return Ok(None);
        }
        bound => bound?,
    };
    let limits = (door.limits)(config);
    let of_door = |listener: Listener| {
        let listener = listener.with_door(place).with_limits(limits);
        match certificates.of(place) {
            Some(tls) => listener.with_tls(tls.clone()),
            None => listener,
        }
    };
    let listeners = homes.zip(listeners.into_iter().map(of_door)).collect();
    Ok(Some(BoundDoor { address, listeners }))
}

/// The workers that have a door: all of them, or the one that is its home.
fn homes(config: &Config, door: &DoorSpec, workers: usize) -> Result<Range<usize>, StartError> {
    let Some(home) = door.home else { return Ok(0..workers) };
    let home = home(config).of(workers).ok_or_else(|| {
        let (name, last) = (door.name, workers - 1);
        StartError::Cores(format!(
            "{name}.worker: there is no such worker, expected 0 to {last} or \"last\""
        ))
    })?;
    Ok(home..home + 1)
}

/// The running bank and workers of a node.
#[derive(Debug)]
pub struct Engine {
    /// Where the doors listen, in the order of [`DOORS`]; `None` for one that is off.
    addresses: Vec<Option<SocketAddr>>,
    /// By worker, the core that it was given.
    cores: Vec<Option<usize>>,
    handles: Vec<Handle>,
    counters: Vec<Arc<WorkerCounters>>,
    pulse: Arc<Pulse>,
    figures: figures_store::Desk,
    sources: Arc<Sources>,
    workers: Vec<WorkerThread>,
    commands: Commands<Command>,
    bank: JoinHandle<bool>,
    profiles: Profiles,
    desks: Desks,
    keys_threads: KeysThreads,
    run: u32,
    run_id: String,
}

/// A worker's ends of what joins it with the bank.
struct End {
    up: ring::Sender<Up>,
    down: ring::Receiver<Down>,
    counters: Arc<WorkerCounters>,
    handle: Handle,
}

/// What one worker is started with, beside what all have.
struct Seat {
    end: End,
    probes: WorkerProbes,
    /// The doors that the worker has...
    on: OnDoors,
    /// ...and a listener for each.
    listeners: Vec<Listener>,
    /// The core that it is pinned to.
    core: Option<usize>,
}

/// What all workers are started with.
struct Common {
    facts: Arc<Facts>,
    parts: Parts,
    transport: TransportOptions,
    bank: std::thread::Thread,
    keys: Arc<KeyRing>,
    /// Where the log is on other machines.
    lease: Option<Arc<probe::Lease>>,
    purses: PurseOptions,
    /// The bank may fill the purses of budgets it recovered before workers have the first snapshot.
    slots: usize,
}

impl Engine {
    /// Reads the journal back, unless that was done already ([`cold`](crate::cluster::cold)), and starts the bank and the workers: from then on the doors accept.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(
        config: &Config,
        permits: Permits,
        certificates: &Certificates,
        tokens: &Tokens,
        warm: Option<Warm>,
    ) -> Result<Engine, StartError> {
        let ground = Ground::take(config, permits, certificates, tokens, warm)?;
        let Ground { seats, addresses, keys: (keys_terms, keys_threads), start, commands } = ground;
        let Seats { cores, transport, doors } = seats;
        let listeners = by_worker(doors, cores.workers.len());
        let purses = PurseOptions { node: config.node.id, hold_ms: config.ledger.hold_ms };
        let facts = Arc::new(facts(config, &start.bank)?);
        let (run, run_id) = (facts.run, run_id(&facts)?);
        let profiles = open_profiles(config)?;
        let known = (keys_terms, fix_known(start.bank.memos(ledger::Door::Fix)));
        let terms =
            DoorTerms::new(config, &addresses, tokens, facts.earliest_ms, known, &cores.rest)?;
        let (links, ends) = join_all(cores.workers.len())?;
        let counters: Vec<_> = ends.iter().map(|end| Arc::clone(&end.counters)).collect();
        let handles: Vec<_> = ends.iter().map(|end| end.handle.clone()).collect();
        let (probes, sources) = Sources::new(config.probes.every, &counters);
        let (pulse, figures) = (Arc::clone(&start.pulse), start.figures.1.clone());
        let (keys, lease) = (start.keys.ring(&start.bank), start.journal.0.lease.clone());
        let (commands, inbox) = commands;
        let (secret, tick_ms) = (table::Secret::new(facts.secret), config.pacing.tick_ms);
        let (slots, rest, said) = (start.bank.slots(), cores.rest, start.named.said);
        let callers = Callers::new(answer_secret(&start.bank), tokens.of("spend").cloned());
        let bank = spawn("bank", move || {
            confine(&rest);
            let probes = BankProbes { bank: probes.bank, writer: probes.writer };
            run_bank(BankThread::new(start, links, inbox, secret, tick_ms, probes), callers)
        })?;
        let desks = terms.desks(listeners.iter().map(|(on, _)| *on).zip(&handles));
        let common = Common {
            facts,
            parts: Parts { terms, profiles: profiles.clone(), meanings: names(&figures) },
            transport,
            bank: bank.thread().clone(),
            keys,
            lease,
            purses,
            slots,
        };
        let seats = ends.into_iter().zip(probes.workers).zip(listeners).zip(&cores.workers);
        let seats = seats.map(|(((end, probes), (on, listeners)), core)| {
            let core = core.filter(|_| config.workers.pin);
            Seat { end, probes, on, listeners, core }
        });
        let engine = Engine {
            addresses,
            cores: cores.workers.clone(),
            handles,
            counters,
            pulse,
            figures,
            sources: Arc::new(sources),
            workers: Vec::new(),
            commands,
            bank,
            profiles,
            desks,
            keys_threads,
            run,
            run_id,
        };
        engine.with_workers(&common, said, seats)
    }

    /// Starts a worker at each seat, once what doors `said` of named holds is sealed; if one cannot start, all that runs is stopped.
    fn with_workers(
        mut self,
        common: &Common,
        said: usize,
        seats: impl Iterator<Item = Seat>,
    ) -> Result<Engine, StartError> {
        if said > 0 && ask(&self.commands, |reply| Command::Seal { reply }).is_none() {
            let _ = self.stop(|| ());
            return Err(StartError::Unsealed { said });
        }
        for (number, seat) in seats.enumerate() {
            match common.start_worker(number, seat) {
                Ok(worker) => self.workers.push(worker),
                Err(error) => {
                    let _ = self.stop(|| ());
                    return Err(error);
                }
            }
        }
        Ok(self)
    }

    /// Where each door listens, by its name; `None` for one that is off.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, Option<SocketAddr>)> {
        DOORS.iter().map(|door| door.name).zip(self.addresses.iter().copied())
    }

    /// The cores that the workers were given, by worker; `None`: it runs where the system wants.
    #[must_use]
    pub fn cores(&self) -> &[Option<usize>] {
        &self.cores
    }

    /// The event loops of the workers, by worker.
    #[must_use]
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }

    /// What the workers count, by worker.
    #[must_use]
    pub fn counters(&self) -> &[Arc<WorkerCounters>] {
        &self.counters
    }

    /// Impressions and spend of every budget.
    #[must_use]
    pub fn figures(&self) -> &figures_store::Desk {
        &self.figures
    }

    /// Signs of life of the bank.
    #[must_use]
    pub fn pulse(&self) -> &Arc<Pulse> {
        &self.pulse
    }

    /// Where the probes of all threads are read.
    #[must_use]
    pub fn sources(&self) -> &Arc<Sources> {
        &self.sources
    }

    /// The queue of the bank's commands.
    #[must_use]
    pub fn commands(&self) -> &Commands<Command> {
        &self.commands
    }

    /// Users' segments and counters.
    #[must_use]
    pub fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Where FIX sessions are asked about and acted upon; `None` where that door is off.
    #[must_use]
    pub fn fix(&self) -> Option<&FixDesk> {
        self.desks.fix.as_ref()
    }

    /// Where the exchanges of the OpenRTB door are replaced.
    #[must_use]
    pub fn exchanges(&self) -> &ExchangeDesk {
        &self.desks.exchanges
    }

    /// Where the keys of the vault are looked at; `None` where their door is off.
    #[must_use]
    pub fn vault(&self) -> Option<&KeysDesk> {
        self.desks.vault.as_ref()
    }

    /// Number of this run of the node, from 1.
    #[must_use]
    pub fn run(&self) -> u32 {
        self.run
    }

    /// Which run of which node this is: no other run of any node has the same.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.run_id
    }

    /// Has a worker or the bank ended on its own?
    #[must_use]
    pub fn is_broken(&self) -> bool {
        let is_any = |threads: &[WorkerThread]| threads.iter().any(JoinHandle::is_finished);
        self.bank.is_finished() || self.keys_threads.is_broken() || is_any(&self.workers)
    }

    /// Answers what is in flight, accepting nothing new, and ends the workers and the bank. True if all went well. `last` runs
    /// between the bank's end and the closing of the profiles: it ends what asks the bank.
    #[must_use]
    pub fn stop(self, last: impl FnOnce()) -> bool {
        for handle in &self.handles {
            handle.stop();
        }
        let mut well = true;
        for worker in self.workers {
            match worker.join() {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => {
                    tracing::error!(%error, "a worker failed");
                    well = false;
                }
                Err(_) => well = false,
            }
        }
        let _ = self.commands.send(Command::Stop);
        self.bank.thread().unpark();
        well &= self.bank.join().unwrap_or(false);
        well &= self.keys_threads.join();
        last();
        if let Err(error) = self.profiles.close() {
            tracing::error!(%error, "closing the profiles failed");
            well = false;
        }
        well
    }
}

impl Common {
    fn start_worker(&self, number: usize, seat: Seat) -> Result<WorkerThread, StartError> {
        let Seat { end, probes, on, listeners, core } = seat;
        let End { up, down, counters, handle } = end;
        let number = u16::try_from(number).expect("workers are counted in 16 bits");
        let (facts, transport) = (Arc::clone(&self.facts), self.transport.clone());
        let (keys, lease) = (Arc::clone(&self.keys), self.lease.clone());
        let purses = Purses::new(self.purses, self.slots);
        let waker = handle.waker();
        self.parts.profiles.on_written(Box::new(move || waker.wake()));
        let doors = Doors::new(&self.parts, on, number, handle.waker(), &counters);
        let lines = Lines { up, down, bank: self.bank.clone(), counters };
        let worker = spawn("worker", move || {
            if let Some(core) = core
                && let Err(error) = door_transport::cores::pin(core)
            {
                tracing::warn!(%error, "worker runs unpinned");
            }
            lines.counters.thread.sign();
            let refusals = Arc::clone(&lines.counters.refusals);
            let mut till = Till::new(number, facts, refusals, purses, keys, probes);
            if let Some(lease) = lease {
                till.set_lease(lease);
            }
            door_transport::run(listeners, &transport, Worker::new(till, doors, lines), &handle)
        })?;
        Ok(worker)
    }
}

/// The listeners of each worker, and which doors that makes.
fn by_worker(doors: Vec<Option<BoundDoor>>, workers: usize) -> Vec<(OnDoors, Vec<Listener>)> {
    let mut of_workers: Vec<(OnDoors, Vec<Listener>)> =
        (0..workers).map(|_| Default::default()).collect();
    for (place, door) in doors.into_iter().enumerate() {
        for (worker, listener) in door.into_iter().flat_map(|door| door.listeners) {
            let (on, listeners) = &mut of_workers[worker];
            on.add(place);
            listeners.push(listener);
        }
    }
    of_workers
}

/// The bank's ends of what joins it with so many workers, and theirs.
fn join_all(workers: usize) -> Result<(Vec<Link>, Vec<End>), StartError> {
    (0..workers).map(|_| join()).collect()
}

/// Two ends of what joins a worker with the bank.
fn join() -> Result<(Link, End), StartError> {
    let handle = Handle::new().map_err(|e| system("an event descriptor", &e))?;
    let (up, from_worker) = ring::channel(RING_LEN);
    let (to_worker, down) = ring::channel(RING_LEN);
    let counters = Arc::new(Doors::counters());
    let link = Link {
        up: from_worker,
        down: to_worker,
        waker: handle.waker(),
        counters: Arc::clone(&counters),
        backlog: VecDeque::new(),
        is_full: false,
    };
    Ok((link, End { up, down, counters, handle }))
}

/// Binds a door once for each worker; port 0 becomes the one that was found free.
///
/// After a kill the kernel takes a ring's operations apart behind the process's end, and until then its sockets listen
/// on: an address that is taken is tried again for a while.
fn bind(
    door: &'static str,
    listen: SocketAddr,
    workers: usize,
) -> Result<(SocketAddr, Vec<Listener>), StartError> {
    let began = std::time::Instant::now();
    let listeners = loop {
        match Listeners::bind(listen, workers) {
            Err(error) if error.is_in_use() && began.elapsed() < BIND_WAIT => {
                std::thread::sleep(BIND_PAUSE);
            }
            bound => break bound.map_err(|source| StartError::Bind { door, source })?,
        }
    };
    let bound = listeners.first().and_then(Listener::local_addr);
    Ok((bound.unwrap_or(listen), listeners))
}

/// Opens the profiles of the node's data folder.
///
/// # Errors
/// The folder cannot be used, or the system has no randomness.
pub fn open_profiles(config: &Config) -> Result<Profiles, StartError> {
    let options = gate_profile::Options {
        memory_bytes_max: config.profiles.memory_bytes_max,
        secret: u128::from_le_bytes(keys::random()?),
        holds_kept_ms: holds_kept_ms(config),
        ..gate_profile::Options::default()
    };
    let folder = config.node.data_dir.join("profiles");
    make_whole(&folder, &folder.join("users"), |beside| {
        drop(Profiles::open(beside, &options)?);
        Ok::<_, StartError>(())
    })?;
    Ok(memory::rebuilt(Part::Profiles, || Profiles::open(&folder, &options))?)
}

/// A counted hold is remembered as long as its notices are judged.
fn holds_kept_ms(config: &Config) -> u64 {
    const DAYS_30: u64 = 30 * 86_400_000;
    let l = &config.ledger;
    (2 * l.hold_ms + l.billing_ms + l.late_ms + 60_000).min(DAYS_30)
}

/// Makes a data folder and holds it for one node: as long as the file is open, no other one has it.
///
/// # Errors
/// The folder cannot be used, or another node runs on it.
pub fn lock_data(folder: &Path) -> Result<std::fs::File, StartError> {
    let failed = |source| StartError::Data { path: folder.to_path_buf(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = std::fs::File::create(folder.join("lock")).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            private::tighten(folder).map_err(failed)?;
            Ok(file)
        }
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(StartError::Locked { path: folder.to_path_buf() })
        }
        Err(std::fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}

/// How many workers a node has.
pub(crate) fn workers(config: &Config) -> Result<usize, StartError> {
    place(config).map(|cores| cores.workers.len())
}

fn place(config: &Config) -> Result<door_transport::cores::Placement, StartError> {
    let allowed = door_transport::cores::allowed().map_err(|e| system("the list of cores", &e))?;
    config.workers.cores.place(&allowed).map_err(|e| StartError::Cores(e.to_string()))
}

/// Runs the bank until the node ends; false if its threads did not start.
fn run_bank(made: std::io::Result<BankThread>, callers: Callers) -> bool {
    match made {
        Ok(thread) => thread.knowing(callers).run(),
        Err(error) => {
            tracing::error!(%error, "the journal's threads did not start");
            false
        }
    }
}

fn confine(rest: &[usize]) {
    if let Err(error) = door_transport::cores::confine(rest) {
        tracing::warn!(%error, "the bank may run on the workers' cores");
    }
}

/// Names this run. Its number alone does not tell: two nodes, or a restored folder, can have the same.
fn run_id(facts: &Facts) -> Result<String, StartError> {
    let random = u128::from_le_bytes(keys::random()?);
    Ok(format!("{}-{}-{random:032x}", facts.node, facts.run))
}

/// What keys of idempotency are hashed under: of the journal, so that a repeat after a restart has the same hash.
fn answer_secret(bank: &Bank) -> access::KeySecret {
    access::KeySecret::new(bank.answer_secret().expect("made before the workers start").0)
}

fn facts(config: &Config, bank: &Bank) -> Result<Facts, StartError> {
    let small = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX);
    Ok(Facts {
        node: config.node.id,
        run: bank.run(),
        earliest_ms: bank.now_ms(),
        hold_ms: small(config.ledger.hold_ms),
        billing_ms: small(config.ledger.billing_ms),
        secret: u128::from_le_bytes(keys::random()?),
        answer_secret: answer_secret(bank),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_descriptors_to_files() {
        assert_eq!(connections_most(1_024, 1), None);
        assert_eq!(connections_most(4_096, 1), Some(3_072));
        assert_eq!(connections_most(20_000, 2), Some(9_488));
        let mut transport = TransportOptions { connections_max: usize::MAX, ..Default::default() };
        leave_descriptors(&mut transport, 1_000_000);
        let limit = door_transport::descriptor_limit().unwrap();
        assert_eq!(transport.connections_max == usize::MAX, limit < 4_096);
    }
}
