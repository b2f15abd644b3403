//! A running node: the bank and the workers, the watcher and the admin door, and how they start and stop.

use std::cell::RefCell;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use weir_budgets::budgets::LineError;
use weir_config::config::Config;
use weir_config::doors::ADMIN;
use weir_door::{Tokens, thread::SystemError};
use weir_edits::{Edits, LogError, Opened};
use weir_node::certificates::Certificates;
use weir_node::cluster::{Heard, Warm, cold, node_name};
use weir_node::known::{self, Permits};
use weir_node::start::{Engine, lock_data};
use weir_node::whole_folder::make_whole;

use crate::admin::{self, door_options};
use crate::in_force::OwnFile;
use crate::reload::{ConfigSource, InForce, NotReloaded, Reloader};
use crate::standby::{metrics_of_standby, of_standby};
use crate::{watcher, watching};

/// Why a node does not start. Every text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The bank and the workers.
    #[error(transparent)]
    Engine(#[from] weir_node::StartError),
    /// The system has no threads for what people see.
    #[error(transparent)]
    System(#[from] SystemError),
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
    /// Tokens or certificates of the doors.
    #[error("{}", .0.join("\n"))]
    DoorFiles(Vec<String>),
    /// The admin door does not open.
    #[error(transparent)]
    Door(#[from] watch::StartError),
    /// The log of what the API changed.
    #[error("edits: {0}")]
    Edits(#[from] LogError),
    /// Changes by the API that were made without a log on other machines, and are to travel in one.
    #[error(
        "edits: the log on other machines did not take the changes by the API that this data folder has: {0}; start again"
    )]
    EditsStay(String),
    /// Where alerts are sent.
    #[error("{0}")]
    Alerts(String),
    /// The budgets file, line by line.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Budgets(Vec<LineError>),
}

/// A running node.
#[derive(Debug)]
pub struct Node {
    engine: Engine,
    watcher: watcher::Watcher,
    door: watch::Server,
    watching: watching::Watching,
    tokens: Tokens,
    reloader: Arc<Reloader>,
    data: PathBuf,
    /// Held while the node runs.
    _lock: std::fs::File,
}

impl Node {
    /// Starts everything and returns when the doors accept.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start(config: &Config) -> Result<Node, StartError> {
        let same = config.clone();
        let source = Box::new(move || Ok(same.clone()));
        Node::start_permitted(config, Permits::default(), &[], source, None)
    }

    /// The same with what an operator permits this start to do, with pages of documentation for the admin door, with where the
    /// configuration is read again, and with what stood by.
    ///
    /// # Errors
    /// [`StartError`]; nothing is left running.
    pub fn start_permitted(
        config: &Config,
        permits: Permits,
        docs: &'static [watch::Asset],
        source: ConfigSource,
        standby: Option<Box<Standby>>,
    ) -> Result<Node, StartError> {
        let (lock, budgets, warm) = begun(config, permits, standby)?;
        match door_transport::raise_descriptor_limit() {
            Ok(limit) => tracing::debug!(limit, "open descriptors"),
            Err(error) => tracing::warn!(%error, "the limit of open descriptors stays as it is"),
        }
        let edits = Opened::open(&config.node.data_dir.join("edits"))?;
        let certificates = Certificates::read(config).map_err(StartError::DoorFiles)?;
        let (mut door_options, tokens) = door_options(config).map_err(StartError::DoorFiles)?;
        let admin_address =
            config.admin.listen.address().expect("the admin door is never off: checked");
        let admin_listener = admin::bind(admin_address)?;
        let engine = Engine::start(config, permits, &certificates, &tokens, warm)?;
        door_options.run_id = engine.run_id().to_string();
        door_options.docs = docs;
        let status = admin::Status::new(config, &engine);
        let in_force = InForce {
            tokens: tokens.clone(),
            certificates,
            admin_tls: door_options.tls.clone(),
            fix: engine.fix().cloned(),
            exchanges: engine.exchanges().clone(),
        };
        let reloader = Arc::new(Reloader::new(source, status.clone(), in_force));
        let commands = engine.commands().clone();
        let watcher = watcher::Watcher::start(
            config,
            budgets,
            edits,
            engine.run(),
            commands.clone(),
            status.clone(),
        );
        let watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => {
                // The error says what the caller can mend; how the end went is in the log.
                let _ = engine.stop(|| ());
                return Err(error);
            }
        };
        let seen = (commands.clone(), status.clone(), watcher.edits().clone());
        let watched =
            Arc::new(watching::Watched::new(config, engine.cores(), seen, tokens.clone()));
        let extra = admin::routes(status, commands, Arc::clone(&reloader));
        let (door, watching) = match open_admin(&watched, admin_listener, door_options, extra) {
            Ok(opened) => opened,
            Err(error) => {
                watcher.stop();
                let _ = engine.stop(|| ());
                return Err(error);
            }
        };
        let data = config.node.data_dir.clone();
        let node = Node { engine, watcher, door, watching, tokens, reloader, data, _lock: lock };
        node.write_addresses(config.admin_scheme() == "https");
        Ok(node)
    }

    /// Where each door listens, by its name, `None` for one that is off; the admin door is the last.
    pub fn addresses(&self) -> impl Iterator<Item = (&'static str, Option<SocketAddr>)> {
        self.engine.addresses().chain([(ADMIN.name, Some(self.door.address()))])
    }

    /// Where a door listens.
    ///
    /// # Panics
    /// The door is off, or there is none of this name.
    pub fn address(&self, door: &str) -> SocketAddr {
        let found = self.addresses().find(|(name, _)| *name == door);
        found.and_then(|(_, address)| address).unwrap_or_else(|| panic!("no door {door} is open"))
    }

    /// The token files of the doors, which can be read again while the node runs.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Reads the configuration again and puts its live keys in force, or changes nothing. Either is written to the log.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub fn reload(&self) -> Result<Vec<String>, NotReloaded> {
        admin::reload(&self.reloader, "a signal")
    }

    /// Does the same on a thread of its own, once no other reload is under way: a disk that does not answer stops nobody.
    pub fn reload_aside(&self) -> Option<JoinHandle<()>> {
        let reloader = Arc::clone(&self.reloader);
        let work = move || admin::tell_reloaded("a signal", &reloader.reload_in_turn());
        let thread = std::thread::Builder::new().name("reload".into()).spawn(work);
        thread.inspect_err(|error| tracing::error!(%error, "nothing is reloaded")).ok()
    }

    /// The configuration, and changes of it by the API.
    pub fn edits(&self) -> &Edits {
        self.watcher.edits()
    }

    /// Has a worker or the bank ended on its own?
    pub fn is_broken(&self) -> bool {
        self.engine.is_broken()
    }

    /// Is another node the bank of the log? Then this one has ended.
    pub fn is_fenced(&self) -> bool {
        self.engine.pulse().is_fenced()
    }

    /// Stops accepting, answers what is in flight, and ends all threads. True if all went well.
    pub fn stop(self) -> bool {
        let Node { engine, watcher, door, watching, tokens: _, reloader: _, data, _lock } = self;
        watcher.stop();
        watching.stop();
        let well = engine.stop(|| door.stop());
        if well {
            known::forget_addresses(&data);
        }
        well
    }

    /// For `weir stat --data`: where this node is reached, and what every answer of its admin door says of the run.
    fn write_addresses(&self, admin_tls: bool) {
        let open = self.addresses().filter_map(|(name, address)| Some((name, address?)));
        let mut all: serde_json::Map<String, serde_json::Value> =
            open.map(|(name, address)| (name.to_string(), address.to_string().into())).collect();
        all.insert("admin_tls".into(), admin_tls.into());
        all.insert("run_id".into(), self.engine.run_id().into());
        let text = format!("{}\n", serde_json::Value::from(all));
        if let Err(error) = std::fs::write(self.data.join(known::ADDRESSES), text) {
            tracing::warn!(%error, "addresses.json was not written; weir stat needs --target");
        }
    }
}

/// What stood by: a folder that is held, and books that a run can begin from.
pub struct Standby {
    lock: std::fs::File,
    budgets: watcher::FirstRead,
    warm: Warm,
}

/// What became of standing by.
pub enum StoodBy {
    /// The node was told to stop.
    Stopped,
    /// A run can begin. `None`: the log is on the own disk, there was nothing to wait for.
    Over(Option<Box<Standby>>),
}

/// What a run begins with: a folder that is held, the budgets that count, and what stood by.
fn begun(
    config: &Config,
    permits: Permits,
    standby: Option<Box<Standby>>,
) -> Result<(std::fs::File, watcher::FirstRead, Option<Warm>), StartError> {
    let (lock, budgets, warm) = match standby.map(|standby| *standby) {
        None => {
            let lock = lock_data(&config.node.data_dir)?;
            (lock, watcher::first_read(config)?, cold(config, permits)?)
        }
        Some(Standby { lock, budgets, warm }) => (lock, budgets.read_again(config), Some(warm)),
    };
    let budgets = budgets.in_force(config, warm.as_ref().and_then(Warm::budgets));
    Ok((lock, budgets, warm))
}

/// Stands by until no other node is the bank of the log, behind an admin door that says so; `say` hears its address, and `standby`. What a start of
/// the doors would refuse is refused before.
///
/// # Errors
/// The data folder is another node's, the door does not open, a file of the configuration is wrong, or the log cannot be read.
pub fn stand_by(
    config: &Config,
    permits: Permits,
    is_stop: &dyn Fn() -> bool,
    say: &dyn Fn(&str),
) -> Result<StoodBy, StartError> {
    if config.cluster.log.is_empty() {
        return Ok(StoodBy::Over(None));
    }
    let lock = lock_data(&config.node.data_dir)?;
    Certificates::read(config).map_err(StartError::DoorFiles)?;
    let budgets = watcher::first_read(config)?;
    let (options, _) = door_options(config).map_err(StartError::DoorFiles)?;
    let address = config.admin.listen.address().expect("the admin door is never off: checked");
    let (heard, node) =
        (Arc::new(Mutex::new(Heard::default())), node_name(config).unwrap_or_default());
    let (shared, of) = (Arc::clone(&heard), config.clone());
    let latest = move || {
        of_standby(&of, node.clone(), &shared.lock().unwrap_or_else(PoisonError::into_inner))
    };
    let (shared, differs) = (Arc::clone(&heard), Arc::new(AtomicBool::new(false)));
    let files_differ = Arc::clone(&differs);
    let metrics = move || {
        let heard = shared.lock().unwrap_or_else(PoisonError::into_inner);
        metrics_of_standby(&heard, files_differ.load(Relaxed))
    };
    let is_told = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&is_told);
    let take_over = move |who: &str, why: &str| {
        tracing::warn!(who, why, "told to take over");
        told.store(true, Relaxed);
    };
    let door = watch::Standby::start(admin::bind(address)?, options, latest, metrics, take_over)?;
    say(&format!("{} {}://{}/", ADMIN.name, config.admin_scheme(), door.address()));
    say("standby");
    let own = RefCell::new(OwnFile::of(config));
    let hear = |now: &Heard| {
        differs.store(own.borrow_mut().differs(now.budgets), Relaxed);
        heard.lock().unwrap_or_else(PoisonError::into_inner).clone_from(now);
        is_told.load(Relaxed)
    };
    let warm = weir_node::cluster::stand_by(config, permits, is_stop, &hear)?;
    let over = |warm| StoodBy::Over(Some(Box::new(Standby { lock, budgets, warm })));
    Ok(warm.map_or(StoodBy::Stopped, over))
}

/// The admin door, and the survey that feeds it.
fn open_admin(
    watched: &Arc<watching::Watched>,
    listener: TcpListener,
    options: watch::Options,
    extra: axum::Router,
) -> Result<(watch::Server, watching::Watching), StartError> {
    let (history, keep_days) = (&options.history, options.keep_days);
    make_whole(history, history, |beside| {
        let made = watch::History::open(beside, keep_days).map_err(watch::StartError::from);
        drop(made?);
        Ok::<_, StartError>(())
    })?;
    let door = watch::Server::start(listener, options, Arc::clone(watched) as _, extra)?;
    let watching = watched.survey(Arc::clone(door.board()), Arc::clone(door.history()))?;
    Ok((door, watching))
}
