//! Why the threads of a node do not start.

use std::path::PathBuf;

use door_transport::BindError;
use ledger_cluster::BeginError;
use ledger_journal::RecoverError;
use weir_door::thread::SystemError;

/// Why the bank and the workers do not start. Every text says what to do.
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
    /// A log on other machines, as `[cluster]` says it.
    #[error("{0}")]
    Cluster(String),
    /// That log, or how it and the own disk belong together.
    #[error("cluster.log: {0}")]
    Log(#[from] BeginError),
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
    /// The FIX door.
    #[error("{0}")]
    Fix(String),
    /// The keys door, and what it stands on.
    #[error("{0}")]
    Keys(String),
    /// The OpenRTB door.
    #[error("openrtb: {0}")]
    OpenRtb(String),
    /// The spend door.
    #[error("spend: {0}")]
    Spend(String),
    /// A door could not compare its table of named holds with the bank's.
    #[error("{door}: {why}")]
    Named {
        /// The door.
        door: &'static str,
        /// What is wrong, and what to do.
        why: String,
    },
    /// What doors said of named holds at the start is not sealed.
    #[error(
        "the journal did not seal {said} changes of named holds in time; is the disk full, slow or failing?"
    )]
    Unsealed {
        /// How many they are.
        said: usize,
    },
    /// The event loop.
    #[error("transport: {0}")]
    Transport(String),
    /// The system has no randomness or no threads for us.
    #[error(transparent)]
    System(#[from] SystemError),
}

impl StartError {
    /// Does the node stand by again: another one began a run of the log first, or the log did not answer?
    #[must_use]
    pub fn stands_by(&self) -> bool {
        let StartError::Log(error) = self else { return false };
        error.is_silence() || matches!(error, BeginError::Replaced)
    }
}

/// The system refused `what`.
pub(crate) fn system(what: &'static str, error: &std::io::Error) -> StartError {
    SystemError::new(what, error).into()
}
