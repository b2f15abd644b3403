//! The books of a node that stands by: its own journal, read back, and what the log on other machines has behind it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ledger::{Bank, Record};
use ledger_cluster::{
    AnyEngine, Asked, BeginError, CaughtUp, ClusterLog, Connect, Copies, NodeLog, catch_up, replay,
};
use ledger_journal::snapshot::advance;
use ledger_journal::{Disk, Group, JournalOptions, Keep, Log, Writer};
use probe::NodeClock;
use weir_config::config::Config;
use weir_door::DoorFacts;
use weir_door::thread::spawn;

use super::recover::{ReadBack, machine};
use super::{Start, keys};
use crate::cluster;
use crate::error::StartError;
use crate::in_force::{Copy, Digest};
use crate::known::Permits;
use crate::rooms::Rooms;

/// A snapshot that is due is looked for this often.
const KEEP_EVERY: Duration = Duration::from_secs(60);

/// What hears every group that is read from the log, beside the journal's own copy of it. Here it is replayed, and what else travels in the log is kept.
#[derive(Default)]
pub(crate) struct OfLog {
    /// Who began the last run, where that was read here.
    bank: Option<(Box<str>, u32)>,
    rooms: Option<Rooms>,
    budgets: Copy,
}

impl OfLog {
    /// Takes one: each comes once, in order, and before this node's disk has it.
    ///
    /// # Errors
    /// Which record does not fit, or is not known here.
    pub(crate) fn take(&mut self, bank: &mut Bank, group: &Group) -> Result<(), String> {
        for record in replay(bank, group)? {
            if let Some(rooms) = &mut self.rooms {
                rooms.take(&record);
            }
            if let Record::RunStarted { run, node, .. } = record {
                self.bank = Some((machine(&node).into(), run));
            }
        }
        Ok(())
    }

    /// Has the copy of the budgets file be the one that is in force.
    fn follow_budgets(&mut self, read: &ReadBack, node: &mut NodeLog<Disk, AnyEngine>) {
        let said = self.rooms.as_ref().and_then(Rooms::budgets);
        self.budgets.follow(node.log(), said, &read.data);
    }
}

/// A bank that has not begun its run: it follows the log.
pub struct Warm {
    read: ReadBack,
    node: NodeLog<Disk, AnyEngine>,
    of_log: OfLog,
    housekeeper: Option<Housekeeper>,
    /// When the files beside the journal were last brought to where the log is.
    settled: Option<Instant>,
}

/// How a follower stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    /// The number of the log's last entry.
    pub(crate) last: u64,
    /// Is all of it here?
    pub(crate) is_even: bool,
    /// Does it end with a clean stop of its bank?
    pub(crate) is_free: bool,
}

impl Warm {
    /// Goes on in the log behind what was read back.
    pub(crate) fn new(
        (read, writer): (ReadBack, Writer<Disk>),
        log: ClusterLog<AnyEngine>,
    ) -> Warm {
        let (node, of_log) = (NodeLog::new(log, writer), OfLog::default());
        Warm { read, node, of_log, housekeeper: None, settled: None }
    }

    /// Reads the journal back, and what the log has behind it, for a run that begins at once.
    pub(crate) fn cold(
        config: &Config,
        permits: Permits,
        workers: usize,
        doors: &[DoorFacts],
        log: ClusterLog<AnyEngine>,
    ) -> Result<Warm, StartError> {
        let read = ReadBack::of(config, permits, workers, doors, true)?;
        let mut warm = Warm::new(read, log).with_rooms(config)?;
        match warm.catch_up() {
            Err(StartError::Log(error)) if error.is_trimmed() => {
                let mut warm = warm.begun_anew(config, (permits, workers, doors))?;
                warm.catch_up()?;
                Ok(warm)
            }
            caught_up => caught_up.map(|_| warm),
        }
    }

    /// Begins anew from a base copy: the log begins behind what is here.
    pub(crate) fn begun_anew(
        self,
        config: &Config,
        (permits, workers, doors): (Permits, usize, &[DoorFacts]),
    ) -> Result<Warm, StartError> {
        let Warm { read, node, of_log, housekeeper, .. } = self;
        // Nobody has the files any more.
        drop((read, of_log, housekeeper));
        let mut log = node.into_log();
        cluster::folder(config).begin(&mut log).map_err(BeginError::from)?;
        let read = ReadBack::of(config, permits, workers, doors, true)?;
        Warm::new(read, log).with_rooms(config)
    }

    /// Has the files of the data folder follow, too.
    pub(crate) fn with_rooms(mut self, config: &Config) -> Result<Warm, StartError> {
        let journal = (&self.read.disk, self.node.position().sequence);
        let rooms = Rooms::open(config, &self.read.bank, journal)?;
        self.of_log.rooms = Some(rooms);
        Ok(self)
    }

    /// Has snapshots made of what is followed, and base copies of them.
    pub(crate) fn with_housekeeper(
        mut self,
        config: &Config,
        connect: Connect<AnyEngine>,
    ) -> Result<Warm, StartError> {
        let options = self.read.journal(config, Arc::default(), None);
        let (disk, data) = (self.read.disk.clone(), &config.node.data_dir);
        let maker = (u128::from_le_bytes(keys::random()?) >> 64).try_into().unwrap_or(0);
        let copies = Copies::new(data, maker, connect);
        self.housekeeper = Some(Housekeeper::start(disk, options, copies)?);
        Ok(self)
    }

    /// Reads on as far as the log has more.
    ///
    /// # Errors
    /// [`StartError`]; after one that is away or of the disk it can be tried again.
    pub(crate) fn follow(&mut self) -> Result<Followed, StartError> {
        let Warm { read, node, of_log, .. } = self;
        let each = &mut |group: &Group| of_log.take(&mut read.bank, group);
        let last = node.follow(NodeClock::new().now_ms(), each);
        let last = last.map_err(BeginError::from)?;
        let is_even = node.at().get().1 >= last;
        let is_due = |rooms: &&mut Rooms| match self.settled {
            None => is_even,
            Some(at) => is_even && rooms.failed && at.elapsed() >= KEEP_EVERY,
        };
        if let Some(rooms) = of_log.rooms.as_mut().filter(is_due) {
            match rooms.settle((&read.disk, node.position().sequence)) {
                // It is tried again: no copy is made until then.
                Err(error) if self.settled.is_some() => tracing::warn!(%error, "files"),
                settled => settled?,
            }
            self.settled = Some(Instant::now());
        }
        of_log.follow_budgets(read, node);
        if let Some(housekeeper) = &self.housekeeper
            && self.settled.is_some()
            && of_log.rooms.as_ref().is_some_and(Rooms::are_whole)
        {
            housekeeper.hand_files(&read.data);
        }
        Ok(Followed { last, is_even, is_free: is_even && read.bank.is_handed_over() })
    }

    /// Of the books.
    #[cfg(test)]
    pub(crate) fn digest(&self) -> u64 {
        self.read.bank.digest()
    }

    /// The last record and the last entry that are here.
    pub(crate) fn position(&self) -> (u64, u64) {
        self.node.at().get()
    }

    /// Who began the last run that was followed.
    pub(crate) fn bank(&self) -> Option<&(Box<str>, u32)> {
        self.of_log.bank.as_ref()
    }

    /// Makes disk and log the same: what the log has lost it has again.
    ///
    /// # Errors
    /// [`StartError`].
    pub(crate) fn catch_up(&mut self) -> Result<CaughtUp, StartError> {
        let Warm { read, node, of_log, .. } = self;
        let known = read.known;
        let each: &mut dyn FnMut(&mut Bank, &Group) -> _ =
            &mut |bank, group| of_log.take(bank, group);
        let caught_up = catch_up((node, &read.disk), &mut read.bank, &known, each)?;
        if let Some(rooms) = &mut of_log.rooms {
            rooms.settle((&read.disk, node.position().sequence))?;
        }
        of_log.follow_budgets(read, node);
        Ok(caught_up)
    }

    /// The digest of the budgets file that is in force, as far as the log was followed.
    pub fn budgets(&self) -> Option<Digest> {
        self.of_log.rooms.as_ref().and_then(Rooms::budgets)
    }

    /// Begins the run behind what was caught up with: whoever appended since is the bank.
    pub(crate) fn begin(self, config: &Config, doors: &[DoorFacts]) -> Result<Start, StartError> {
        let Warm { read, node, of_log, housekeeper, .. } = self;
        // The files are for who changes them from now on.
        drop(of_log);
        // The journal has one of its own from now on.
        drop(housekeeper);
        let at = node.at();
        read.begin(config, doors, Box::new(node), Some(at))
    }
}

/// What makes snapshots while a node stands by, as the journal's housekeeper does while it runs, and puts a copy of each beside the log.
struct Housekeeper {
    asked: Arc<Asked>,
    thread: Option<JoinHandle<()>>,
}

impl Housekeeper {
    fn start(
        disk: Disk,
        options: JournalOptions,
        mut copies: Copies<AnyEngine>,
    ) -> Result<Housekeeper, StartError> {
        let asked = Arc::new(Asked::default());
        let told = Arc::clone(&asked);
        // Nobody has folded what is followed into figures yet.
        let keep = Keep { unread: 0, ..options.keep };
        let work = move || {
            let stop = &told.stop;
            while !stop.load(Relaxed) {
                let now_ms = NodeClock::new().now_ms();
                match advance(&disk, &options.bank, &keep, now_ms, stop) {
                    Err(error) if !stop.load(Relaxed) => {
                        tracing::warn!(%error, "no snapshot of what is followed; it will be tried again");
                    }
                    _ => copies.look(&told),
                }
                std::thread::park_timeout(KEEP_EVERY);
            }
        };
        Ok(Housekeeper { asked, thread: Some(spawn("housekeeper", work)?) })
    }

    /// Hands the files beside the journal over, where they are wanted.
    fn hand_files(&self, data: &Path) {
        if self.asked.hand(data) {
            self.thread.iter().for_each(|thread| thread.thread().unpark());
        }
    }
}

impl Drop for Housekeeper {
    fn drop(&mut self) {
        self.asked.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
