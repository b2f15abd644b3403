//! A running node: workers, the bank, the watcher and the admin door, and how they start and stop.

pub(crate) mod admin;
mod answers;
mod bank_thread;
pub mod books;
mod keys;
pub(crate) mod known;
mod memory;
pub(crate) mod openrtb;
mod parking;
mod pending;
pub(crate) mod private;
mod questions;
mod reconcile;
mod refusals;
pub(crate) mod shared;
pub(crate) mod stages;
pub(crate) mod standing;
pub(crate) mod thread;
mod watcher;
pub(crate) mod watching;
mod worker;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::Sender as Commands;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use door_transport::{
    BindError, Handle, Listener, Listeners, Options as TransportOptions, RunError,
};
use gate_profile::Profiles;
use ledger::{Bank, PurseOptions, Purses};
use ledger_journal::{Disk, JournalOptions, Keep, ReadError, RecoverError, Watermarks, Writer};
use probe::NodeClock;
use table::ring;
use weir_pace::pacer::PacerOptions;

use crate::budgets::LineError;
use crate::config::Config;
use crate::costs::measured::Sources;
use crate::edits::{self, Edits};
pub use admin::door_options;
use bank_thread::{BankProbes, BankThread, Command, Link};
pub use known::Permits;
use shared::{Facts, WorkerCounters};
use worker::{Lines, Worker};

/// How long a door's address may be taken by a process that just ended.
const BIND_WAIT: Duration = Duration::from_secs(3);
const BIND_PAUSE: Duration = Duration::from_millis(20);

/// Messages that fit between a worker and the bank, each way.
const RING_LEN: usize = 65_536;

/// Why a node does not start. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder.
    #[error("data folder {path}: {source}; give another with --data or node.data_dir")]
    Data {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Another node runs on this data folder.
    #[error(
        "data folder {path} is in use by another node; stop it, or give this one its own with --data"
    )]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// A door's address.
    #[error("the {door} door ({door}.listen, --{door}): {source}")]
    Bind {
        /// Its section in `weir.toml`, and its flag.
        door: &'static str,
        /// What the system said.
        source: BindError,
    },
    /// The admin door's address.
    #[error(
        "the admin door (admin.listen, --admin): cannot listen on {address}: {source}; choose a free address of this machine, or port 0"
    )]
    Admin {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The admin door's tokens or certificates.
    #[error("{}", .0.join("\n"))]
    AdminFiles(Vec<String>),
    /// The admin door does not open.
    #[error(transparent)]
    Door(#[from] watch::StartError),
    /// The list of cores.
    #[error("workers.cores: {0}")]
    Cores(String),
    /// The journal's folder.
    #[error("journal {path}: {source}; is the disk full, read-only or failing?")]
    Journal {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The journal of a data folder that was used before is gone.
    #[error("{0}")]
    NoJournal(String),
    /// The journal cannot be read back.
    #[error("journal {path}: {source}")]
    Recover {
        /// The folder.
        path: PathBuf,
        /// What is wrong, where, and what can be done.
        source: Box<RecoverError>,
    },
    /// The profiles' folder.
    #[error(transparent)]
    Profiles(#[from] gate_profile::OpenError),
    /// The OpenRTB door.
    #[error("openrtb: {0}")]
    OpenRtb(String),
    /// The event loop.
    #[error("transport: {0}")]
    Transport(String),
    /// The log of what the API changed.
    #[error("edits: {0}")]
    Edits(#[from] edits::LogError),
    /// The budgets file, line by line.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Budgets(Vec<LineError>),
    /// The system has no randomness or no threads for us.
    #[error("{what}: {text}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// What the system said.
        text: String,
    },
}

type WorkerThread = JoinHandle<Result<Worker, RunError>>;

/// A running node.
#[derive(Debug)]
pub struct Node {
    batch: SocketAddr,
    openrtb: SocketAddr,
    admin: SocketAddr,
    handles: Vec<Handle>,
    workers: Vec<WorkerThread>,
    commands: Commands<Command>,
    bank: JoinHandle<bool>,
    watcher: watcher::Watcher,
    door: watch::Server,
    watching: watching::Watching,
    profiles: Profiles,
    data: std::path::PathBuf,
    run_id: String,
    /// Held while the node runs.
    _lock: std::fs::File,
}

impl Node {
    /// Starts everything and returns when the doors accept.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(config: &Config) -> Result<Node, StartError> {
        Node::start_permitted(config, Permits::default())
    }

    /// The same with what an operator permits this start to do.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start_permitted(config: &Config, permits: Permits) -> Result<Node, StartError> {
        let lock = lock_data(&config.node.data_dir)?;
        match door_transport::raise_descriptor_limit() {
            Ok(limit) => tracing::debug!(limit, "open descriptors"),
            Err(error) => tracing::warn!(%error, "the limit of open descriptors stays as it is"),
        }
        let edits = edits::Opened::open(&config.node.data_dir.join("edits"))?;
        let budgets = watcher::first_read(config).map_err(StartError::Budgets)?;
        let cores = place(config)?;
        let transport = transport_options(config);
        door_transport::choose(&transport).map_err(|e| StartError::Transport(e.to_string()))?;
        let (batch, batch_listeners) = bind("batch", config.batch.listen, cores.workers.len())?;
        let (openrtb, openrtb_listeners) =
            bind("openrtb", config.openrtb.listen, cores.workers.len())?;
        let mut door_options = door_options(config).map_err(StartError::AdminFiles)?;
        let admin_listener = admin::bind(config.admin.listen)?;

        let purse_options = PurseOptions { node: config.node.id, hold_ms: config.ledger.hold_ms };
        let start = recover(config, permits, cores.workers.len(), purse_options)?;
        let facts = Arc::new(facts(config, &start.bank)?);
        // The run alone does not tell: two nodes, or a restored folder, can have the same.
        let random = u128::from_le_bytes(keys::random()?);
        let run_id = format!("{}-{}-{random:032x}", facts.node, facts.run);
        door_options.run_id.clone_from(&run_id);
        let profiles = open_profiles(config)?;
        let door = openrtb::Door::new(config, openrtb).map_err(StartError::OpenRtb)?;
        let door = Arc::new(door);
        let (commands, inbox) = mpsc::channel();
        let mut ends = Vec::new();
        let mut links = Vec::new();
        let mut handles = Vec::new();
        for _ in &cores.workers {
            let handle = Handle::new().map_err(|e| system("an event descriptor", &e))?;
            let (up, from_worker) = ring::channel(RING_LEN);
            let (to_worker, down) = ring::channel(RING_LEN);
            let counters = Arc::new(WorkerCounters::default());
            links.push(Link {
                up: from_worker,
                down: to_worker,
                waker: handle.waker(),
                counters: Arc::clone(&counters),
                backlog: std::collections::VecDeque::new(),
            });
            ends.push((up, down, counters));
            handles.push(handle);
        }
        let counters: Vec<_> = ends.iter().map(|(_, _, counters)| Arc::clone(counters)).collect();
        let (probes, sources) = Sources::new(config.probes.every, &counters);
        let watched = (counters, Arc::clone(&start.pulse));
        let status =
            admin::Status::new(config, &handles, watched, profiles.clone(), Arc::new(sources));

        let secret = table::Secret::new(facts.secret);
        let first_keys = start.keys.ring(&start.bank);
        // The bank may fill the purses of budgets it recovered before workers have the first snapshot.
        let recovered_slots = start.bank.slots();
        let (rest, tick_ms) = (cores.rest.clone(), config.pacing.tick_ms);
        let bank_probes = BankProbes { bank: probes.bank, writer: probes.writer };
        let bank = spawn("bank", move || {
            confine(&rest);
            match BankThread::new(start, links, inbox, secret, tick_ms, bank_probes) {
                Ok(thread) => thread.run(),
                Err(error) => {
                    tracing::error!(%error, "the journal's threads did not start");
                    false
                }
            }
        })?;

        let mut workers = Vec::new();
        let listeners = batch_listeners.into_iter().zip(openrtb_listeners);
        let seats = ends.into_iter().zip(listeners).zip(&handles).zip(&cores.workers);
        for (number, (seat, probes)) in seats.zip(probes.workers).enumerate() {
            let ((((up, down, counters), listeners), handle), core) = seat;
            let (facts, handle, core) =
                (Arc::clone(&facts), handle.clone(), core.filter(|_| config.workers.pin));
            let (transport, number) =
                (transport.clone(), u16::try_from(number).unwrap_or(u16::MAX));
            let lines =
                Lines { up, down, bank: bank.thread().clone(), keys: Arc::clone(&first_keys) };
            let purses = Purses::new(purse_options, recovered_slots);
            let waker = handle.waker();
            profiles.on_written(Box::new(move || waker.wake()));
            let openrtb = openrtb::OpenRtb::new(Arc::clone(&door), profiles.clone());
            workers.push(spawn("worker", move || {
                if let Some(core) = core
                    && let Err(error) = door_transport::cores::pin(core)
                {
                    tracing::warn!(%error, "worker runs unpinned");
                }
                counters.thread.sign();
                let worker = Worker::new(number, facts, counters, purses, lines, openrtb, probes);
                // In this order: `worker::BATCH_DOOR`.
                let doors = vec![listeners.0, listeners.1];
                door_transport::run(doors, &transport, worker, &handle)
            })?);
        }
        let watcher = watcher::Watcher::start(
            config,
            budgets,
            edits,
            facts.run,
            commands.clone(),
            status.clone(),
        )?;
        let watched = watching::Watched::new(
            config,
            &cores.workers,
            (commands.clone(), status.clone(), watcher.edits().clone()),
        );
        let watched = Arc::new(watched);
        let extra = admin::routes(status, commands.clone());
        let door = watch::Server::start(admin_listener, door_options, watched.clone(), extra)?;
        let watching = watched.survey(Arc::clone(door.board()), Arc::clone(door.history()))?;
        let node = Node {
            batch,
            openrtb,
            admin: door.address(),
            handles,
            workers,
            commands,
            bank,
            watcher,
            door,
            watching,
            profiles,
            data: config.node.data_dir.clone(),
            run_id,
            _lock: lock,
        };
        node.write_addresses(config.admin_scheme() == "https");
        Ok(node)
    }

    /// Where the batch door listens.
    pub fn batch_address(&self) -> SocketAddr {
        self.batch
    }

    /// Where the OpenRTB door listens.
    pub fn openrtb_address(&self) -> SocketAddr {
        self.openrtb
    }

    /// Where the admin door listens.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// The configuration, and changes of it by the API.
    pub fn edits(&self) -> &Edits {
        self.watcher.edits()
    }

    /// Has a worker or the bank ended on its own?
    pub fn is_broken(&self) -> bool {
        self.bank.is_finished() || self.workers.iter().any(JoinHandle::is_finished)
    }

    /// Stops accepting, answers what is in flight, and ends all threads. True if all went well.
    pub fn stop(self) -> bool {
        self.watcher.stop();
        self.watching.stop();
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
        self.door.stop();
        if let Err(error) = self.profiles.close() {
            tracing::error!(%error, "the profiles were not closed well");
            well = false;
        }
        if well {
            known::forget_addresses(&self.data);
        }
        well
    }

    /// For `weir stat --data`: where this node is reached, and what every answer of its admin door says of the run.
    fn write_addresses(&self, admin_tls: bool) {
        let Node { batch, openrtb, admin, run_id, .. } = self;
        let text = format!(
            "{{\"batch\":\"{batch}\",\"openrtb\":\"{openrtb}\",\"admin\":\"{admin}\",\"admin_tls\":{admin_tls},\
             \"run_id\":\"{run_id}\"}}\n"
        );
        if let Err(error) = std::fs::write(self.data.join(known::ADDRESSES), text) {
            tracing::warn!(%error, "addresses.json was not written; weir stat needs --target");
        }
    }
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

pub(crate) fn open_profiles(config: &Config) -> Result<Profiles, StartError> {
    let options = gate_profile::Options {
        memory_bytes_max: config.profiles.memory_bytes_max,
        secret: u128::from_le_bytes(keys::random()?),
        holds_kept_ms: holds_kept_ms(config),
        ..gate_profile::Options::default()
    };
    Ok(Profiles::open(&config.node.data_dir.join("profiles"), &options)?)
}

/// A counted hold is remembered as long as its notices are judged.
fn holds_kept_ms(config: &Config) -> u64 {
    const DAYS_30: u64 = 30 * 86_400_000;
    let l = &config.ledger;
    (2 * l.hold_ms + l.billing_ms + l.late_ms + 60_000).min(DAYS_30)
}

pub(crate) fn lock_data(folder: &std::path::Path) -> Result<std::fs::File, StartError> {
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

fn place(config: &Config) -> Result<door_transport::cores::Placement, StartError> {
    let allowed = door_transport::cores::allowed().map_err(|e| system("the list of cores", &e))?;
    config.workers.cores.place(&allowed).map_err(|e| StartError::Cores(e.to_string()))
}

fn confine(rest: &[usize]) {
    if let Err(error) = door_transport::cores::confine(rest) {
        tracing::warn!(%error, "the bank may run on the workers' cores");
    }
}

/// What the event loops are told.
pub(crate) fn transport_options(config: &Config) -> TransportOptions {
    let t = &config.transport;
    TransportOptions {
        transport: t.kind,
        cooperative: t.task_run,
        connections_max: t.connections_max,
        input_bytes_max: openrtb::input_bytes_max(config)
            .max(config.batch.frame_bytes_max as usize),
        output_bytes_max: t.output_bytes_max,
        output_total_bytes_max: t.output_total_bytes_max,
        idle_ms_max: t.idle_ms_max,
        partial_ms_max: t.partial_ms_max,
        stalled_ms_max: t.stalled_ms_max,
        ..TransportOptions::default()
    }
}

fn bank_options(config: &Config, workers: usize, purses: PurseOptions) -> ledger::Options {
    let l = &config.ledger;
    ledger::Options {
        workers: u16::try_from(workers).unwrap_or(u16::MAX),
        hold_ms_max: purses.hold_ms_max(),
        billing_ms: l.billing_ms,
        late_ms: l.late_ms,
        win_notices: l.win_notices,
        refresh_ms: l.refresh_ms,
        grants_max: l.grants_max,
        pages_max: l.mark_pages_max,
        ..ledger::Options::default()
    }
}

/// Reads the journal back, starts the run, and begins the segment that the run writes to: a disk that cannot take
/// it is known before any door opens.
fn recover(
    config: &Config,
    permits: Permits,
    workers: usize,
    purses: PurseOptions,
) -> Result<bank_thread::Start, StartError> {
    let path = config.node.data_dir.join("journal");
    let failed = |source| StartError::Journal { path: path.clone(), source };
    let known = known::before_start(&config.node.data_dir, permits)?;
    let disk = Disk::open(&path, config.journal.durability).map_err(failed)?;
    let options = bank_options(config, workers, purses);
    let began = std::time::Instant::now();
    let mut said = began;
    let progress = &mut |records| {
        if said.elapsed() >= Duration::from_secs(1) {
            said = std::time::Instant::now();
            tracing::info!(records, "reading the journal");
        }
    };
    let node = config.node.id;
    let recovered = ledger_journal::recover_known(&disk, &options, node, &known, progress);
    let recovered = recovered.map_err(|error| match error {
        // The disk's trouble is not damage: nobody should reach for a backup or a repair.
        RecoverError::Read(ReadError::Io { file, source }) => {
            failed(std::io::Error::new(source.kind(), format!("{file}: {source}")))
        }
        error => StartError::Recover { path: path.clone(), source: Box::new(error) },
    })?;
    let ledger_journal::Recovered { mut bank, tail, report } = recovered;
    if let Some(cut) = &report.cut {
        tracing::warn!(
            file = cut.file,
            offset = cut.offset,
            bytes = cut.bytes,
            record = cut.sequence,
            "cut off what a crash left half written: it was never acknowledged"
        );
    }
    let now_ms = NodeClock::new().now_ms();
    if bank.now_ms() > now_ms {
        tracing::warn!(
            ahead_ms = bank.now_ms() - now_ms,
            "the journal's last record is from the future: the node's clock stands still until then"
        );
    }
    let (keys, mut out) = (keys::Keys::new(config), ledger::Out::default());
    let (before, first) = (bank.run(), tail.position.sequence);
    bank.start_run(now_ms, &mut out);
    if known.accepted == Some(first) {
        note_accepted(&config.node.data_dir, &known, first, &mut bank, &mut out).map_err(failed)?;
    }
    keys.ensure(&mut bank, &mut out)?;
    tracing::info!(
        run = bank.run(),
        budgets = bank.slots(),
        snapshot = report.snapshot,
        records = report.records,
        ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        method = disk.method().name(),
        "journal read, sums checked"
    );
    let j = &config.journal;
    let mut writer = Writer::new(disk.clone(), config.node.id, j.segment_bytes, tail);
    writer.open(now_ms).map_err(failed)?;
    let watermarks = watermarks(config, &disk, first, [before, bank.run()], now_ms);
    let keep = Keep {
        snapshot_bytes: j.snapshot_bytes,
        bytes_max: j.keep_bytes_max,
        ms_max: j.keep_days_max * 86_400_000,
    };
    let journal = JournalOptions {
        gather: Duration::from_micros(j.gather_us),
        gather_idle: Duration::from_micros(j.gather_idle_us),
        unsealed_bytes_max: j.unsealed_bytes_max,
        segment_bytes: j.segment_bytes,
        keep,
        bank: options,
    };
    let data = &config.node.data_dir;
    let (memory, keeper) = (memory::load(data), memory::Keeper::start(data)?);
    let pacing = PacerOptions { win_notices: config.ledger.win_notices, ..PacerOptions::default() };
    let pulse = Arc::default();
    Ok(bank_thread::Start {
        bank,
        out,
        keys,
        disk,
        writer,
        journal,
        watermarks,
        memory,
        keeper,
        pacing,
        pulse,
    })
}

/// For the trail: somebody let the node go on from a journal that ends before what was sealed. What was known of the
/// other one is kept.
fn note_accepted(
    data: &std::path::Path,
    known: &ledger_journal::Known,
    first: u64,
    bank: &mut Bank,
    out: &mut ledger::Out,
) -> std::io::Result<()> {
    let Some(before) = known.watermark else { return Ok(()) };
    let aside = known::set_aside(data)?;
    let (sealed, run) = (before.sealed, before.run);
    tracing::warn!(
        first,
        sealed,
        run,
        kept = ?aside,
        "going on, as permitted, from a journal that may end before what was sealed; leave --accept-rollback out next \
         time"
    );
    let why = format!("goes on from record {first}; run {run} had sealed all before {sealed}");
    bank.note_operator("weir run --accept-rollback", &why, out);
    // Each lost grant was a record, and some may have been sealed since the last note.
    let lost = before.sealed.saturating_sub(first).saturating_add(NUMBERS_SPARED);
    if lost > NUMBERS_MAX {
        tracing::warn!(
            lost,
            "more is lost than numbers of grants can be passed over: a late notice of a forgotten bid may be booked on \
             another one; let none of that time come any more"
        );
    }
    bank.pass_over(lost.min(NUMBERS_MAX), out);
    Ok(())
}

/// Numbers of grants that are passed over beyond those that the watermark tells of, which lags behind the journal.
const NUMBERS_SPARED: u64 = 1 << 14;
/// Numbers of grants that are passed over at most: two records each, all in the first group of the run.
const NUMBERS_MAX: u64 = 1 << 17;

/// What keeps the watermark, which says from now on that the segment of this run has begun. Where it cannot be
/// written the node runs all the same, and it is tried again.
fn watermarks(
    config: &Config,
    journal: &Disk,
    first: u64,
    runs: [u32; 2],
    now_ms: u64,
) -> Option<Watermarks<Disk>> {
    let data = Disk::open(&config.node.data_dir, ledger_journal::Durability::Sealed);
    let data = data.map_err(|error| tracing::warn!(%error, "no watermark is kept in this run"));
    let mut watermarks =
        Watermarks::new(data.ok()?, journal.syncing(), config.node.id, first, runs);
    if let Err(error) = watermarks.note(first, now_ms) {
        tracing::warn!(%error, "what is sealed was not noted outside of the journal");
    }
    Some(watermarks)
}

fn facts(config: &Config, bank: &Bank) -> Result<Facts, StartError> {
    let small = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX);
    Ok(Facts {
        node: config.node.id,
        run: bank.run(),
        earliest_ms: bank.now_ms(),
        hold_ms: small(config.ledger.hold_ms),
        billing_ms: small(config.ledger.billing_ms),
        auth_token: config.batch.auth_token.clone().into_bytes(),
        batch_max: config.batch.batch_max,
        frame_bytes_max: config.batch.frame_bytes_max,
        waiting_max: config.batch.resolves_waiting_max,
        wait_ms: config.batch.wait_ms,
        secret: u128::from_le_bytes(keys::random()?),
        remember_max: config.ledger.remember_max,
    })
}

fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StartError> {
    let thread = std::thread::Builder::new().name(name.to_string());
    thread.spawn(run).map_err(|e| system("a thread", &e))
}

fn system(what: &'static str, error: &std::io::Error) -> StartError {
    StartError::System { what, text: error.to_string() }
}
