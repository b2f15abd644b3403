//! A log on other machines, as `[cluster]` says: what is wrong with the section, how the log is opened, and how a node stands by, which
//! follows it meanwhile. How a run begins there is in `ledger-cluster`.

use std::path::Path;
use std::time::{Duration, Instant};

use ledger_cluster::{
    AnyEngine, BeginError, CaughtUp, ClusterLog, ClusterName, Connect, DataFolder, EntryKey,
    JetStream, Listening, NodeLog, Servers, make,
};
use ledger_journal::{Disk, Writer};
use vault::SecretKey;
use weir_config::config::{Config, ConfigError, Takeover};
use weir_config::paths::told;

use crate::bank::recover::{ReadBack, put_into};
use crate::bank::warm::Followed;
pub use crate::bank::warm::Warm;
use crate::doors::DOORS;
use crate::error::StartError;
use crate::in_force::Digest;
use crate::known::Permits;
use crate::start::{lock_data, workers};

/// How long a server may take to answer; then another one is asked.
const ANSWER: Duration = Duration::from_millis(400);
/// A standby looks for more in the log this often.
const LOOK: Duration = Duration::from_millis(100);
/// A base copy that could not be begun from is tried again after this time.
const AGAIN: Duration = Duration::from_secs(2);
/// A stream is gone where the engine says so as often.
const GONE_TIMES: u32 = 2;

/// What is durable in the data folder and does not travel in the log.
pub const NOT_CARRIED: [&str; 3] = ["audit of keys", "profiles", "history"];

/// Returns what is wrong with `[cluster]`, and with what else a log on other machines needs.
#[must_use]
pub fn judge(config: &Config) -> Vec<ConfigError> {
    let c = &config.cluster;
    if c.log.is_empty() {
        return Vec::new();
    }
    let door = |name| weir_config::doors::all_doors().find(|door| door.name == name);
    let is_on = |name| door(name).is_some_and(|door| (door.listen)(config).address().is_some());
    let is_monitor = |address: &String| address.starts_with("http://");
    let rules = [
        (addresses(&c.log).is_some(), "cluster.log: expected servers as nats://a:4222,b:4222,c:4222 or tls://a:4222, without paths".into()),
        (c.name.parse::<ClusterName>().is_ok(), format!("cluster.name: {}", c.name.parse::<ClusterName>().err().map_or_else(String::new, |error| error.to_string()))),
        (node_name(config).is_some(), "cluster.node is empty, and this machine has no host name: name it".into()),
        (!c.log_monitors.is_empty() && c.log_monitors.iter().all(is_monitor), "cluster.log_monitors: expected the monitor of each server that keeps the log, as [\"http://a:8222\", \"http://b:8222\", \"http://c:8222\"]".into()),
        (!c.secret_file.is_empty(), "cluster.secret_file is empty, expected a file with 64 hexadecimal digits that all nodes of the cluster have: `openssl rand -hex 32` makes them".into()),
        (c.lease_ms >= 2 * c.beat_ms, format!("cluster.lease_ms: found {}, expected at least twice cluster.beat_ms ({}): a bank that is alive would stop granting", c.lease_ms, c.beat_ms)),
        (c.takeover_ms > 2 * c.beat_ms, format!("cluster.takeover_ms: found {}, expected more than twice cluster.beat_ms ({}): a bank that is alive would be replaced", c.takeover_ms, c.beat_ms)),
        (!is_on("fix"), "fix.listen: the numbers of FIX sessions do not travel in the log yet: leave out [[fix.session]], or close the door with fix.listen = \"\"".into()),
        (!is_on("keys") || !config.keys.tokens_file.is_empty(), "keys.tokens_file is empty: with a log on other machines the keys door takes no token that one node made for itself; set it, or close the door with keys.listen = \"\"".into()),
    ];
    let wrong = rules.into_iter().filter(|(holds, _)| !holds);
    wrong.map(|(_, text)| ConfigError { place: String::new(), text }).collect()
}

/// Returns what is wrong with the files that `[cluster]` names.
#[must_use]
pub fn judge_files(config: &Config) -> Vec<ConfigError> {
    if config.cluster.log.is_empty() || config.cluster.secret_file.is_empty() {
        return Vec::new();
    }
    let wrong = secret(config.cluster.secret_file.as_ref()).err();
    wrong.map(|text| ConfigError { place: String::new(), text }).into_iter().collect()
}

/// The addresses of the servers, each with its scheme: the first one says it for those that have none.
fn addresses(log: &str) -> Option<Vec<String>> {
    let scheme = if log.trim_start().starts_with("tls://") { "tls" } else { "nats" };
    let address = |part: &str| {
        let (scheme, host) = part.trim().split_once("://").unwrap_or((scheme, part.trim()));
        let is_one =
            ["nats", "tls"].contains(&scheme) && !host.is_empty() && !host.contains(['/', ' ']);
        is_one.then(|| format!("{scheme}://{host}"))
    };
    log.split(',').map(address).collect()
}

/// The name of this machine within the cluster; `None`: it has none.
#[must_use]
pub fn node_name(config: &Config) -> Option<String> {
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = Some(config.cluster.node.clone()).filter(|name| !name.is_empty());
    Some(name.unwrap_or_else(host).trim().to_string()).filter(|name| !name.is_empty())
}

/// Reads the secret of the cluster.
fn secret(file: &Path) -> Result<SecretKey, String> {
    use std::os::unix::fs::PermissionsExt;
    let io = |error| format!("cluster.secret_file {}", told(file, &error));
    let mode = std::fs::metadata(file).map_err(io)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!(
            "cluster.secret_file {}: its mode is {mode:o}, expected 600 or 400: others must not read it; chmod 600",
            file.display()
        ));
    }
    let bytes = access::file::read_regular(file, 66).map_err(io)?;
    SecretKey::parse(&bytes).filter(|_| bytes.len() >= 64).ok_or_else(|| {
        format!(
            "cluster.secret_file {}: expected 64 hexadecimal digits and nothing else",
            file.display()
        )
    })
}

/// Opens the log; `None` where it is on the own disk alone.
///
/// # Errors
/// The secret cannot be read, or no server answers.
pub fn open(config: &Config) -> Result<Option<ClusterLog<AnyEngine>>, StartError> {
    let c = &config.cluster;
    if c.log.is_empty() {
        return Ok(None);
    }
    let secret = secret(c.secret_file.as_ref()).map_err(StartError::Cluster)?;
    let wrong =
        |error: &dyn ToString| StartError::Cluster(format!("cluster.name: {}", error.to_string()));
    let name: ClusterName = c.name.parse().map_err(|error| wrong(&error))?;
    let key = EntryKey::new(&name, &secret).map_err(|error| wrong(&error))?;
    let path = |text: &String| (!text.is_empty()).then(|| text.into());
    let servers = Servers {
        addresses: addresses(&c.log).unwrap_or_default(),
        monitors: c.log_monitors.clone(),
        credentials: path(&c.log_credentials),
        ca: path(&c.log_ca),
        answer: ANSWER,
    };
    let shown = servers.shown();
    let engine: AnyEngine = Box::new(JetStream::connect(&name, servers).map_err(BeginError::from)?);
    Ok(Some(ClusterLog::new(engine, name, config.node.id, key, &shown)))
}

fn connect(config: &Config) -> Connect<AnyEngine> {
    let config = config.clone();
    Box::new(move || match open(&config) {
        Ok(log) => log.ok_or_else(|| unset().to_string()),
        Err(error) => Err(error.to_string()),
    })
}

/// What [`init`] found and did.
#[derive(Clone, Copy, Debug)]
pub struct Made {
    /// Entries that the log had before.
    pub entries: u64,
    /// What disk and log did not both have.
    pub caught_up: CaughtUp,
}

/// Makes the stream of a new cluster, judges it and all its servers, and puts the journal of the data folder into it, where there is one.
///
/// # Errors
/// What of the engine is not as it must be, or why the journal and the log do not belong together.
pub fn init(config: &Config) -> Result<Made, StartError> {
    init_in(config, open(config)?.ok_or_else(unset)?)
}

pub(crate) fn init_in(config: &Config, mut log: ClusterLog<AnyEngine>) -> Result<Made, StartError> {
    let data = &config.node.data_dir;
    if !data.join("journal").exists() {
        let mut kept = log.all_kept("file").map_err(BeginError::from)?;
        kept.extend(log.all_kept("copy").map_err(BeginError::from)?);
        if !kept.is_empty() && log.there().map_err(BeginError::from)?.is_none() {
            return Err(StartError::Cluster(format!(
                "the log of cluster {:?} is gone, and files beside it are there: a node that begins an empty one spends every budget again. \
                 Stop all nodes, and run `weir cluster heal --keep disk --why TEXT` with the data folder of the last bank; a new cluster takes another cluster.name",
                config.cluster.name
            )));
        }
        let entries = make(&mut log, 0)?;
        return Ok(Made { entries, caught_up: CaughtUp::default() });
    }
    let _lock = lock_data(data)?;
    let (entries, caught_up) = put_into(config, log)?;
    Ok(Made { entries, caught_up })
}

pub use ledger_cluster::{Healed, Histories, History, Side};

/// Shows where the log and the journal of the data folder part, and keeps the one that is named; the other one is moved aside.
///
/// # Errors
/// They cannot be read, a node runs, or what is to be kept cannot be.
pub fn heal(config: &Config, keep: Option<(Side, &str)>) -> Result<Healed, StartError> {
    let log = open(config)?.ok_or_else(unset)?;
    let lock = lock_data(&config.node.data_dir)?;
    let healed = heal_in(config, log, keep)?;
    drop(lock);
    if let Some((Side::Disk, _)) = keep {
        init(config)?;
    }
    Ok(healed)
}

/// All of it but a new log, which an `init` makes.
pub(crate) fn heal_in(
    config: &Config,
    log: ClusterLog<AnyEngine>,
    keep: Option<(Side, &str)>,
) -> Result<Healed, StartError> {
    let (read, writer) = ReadBack::of(config, Permits::default(), 1, &[], true)?;
    let silence = Duration::from_millis(config.cluster.takeover_ms);
    let node = NodeLog::new(log, writer);
    Ok(ledger_cluster::heal(node, &read.disk, &folder(config), keep, silence)?)
}

/// The data folder, for a log.
pub(crate) fn folder(config: &Config) -> DataFolder {
    DataFolder {
        path: config.node.data_dir.clone(),
        durability: config.journal.durability,
        node: config.node.id,
        segment_bytes: config.journal.segment_bytes,
    }
}

fn unset() -> StartError {
    StartError::Cluster(
        "cluster.log is empty: name the servers there, or with --log nats://a:4222,b:4222,c:4222"
            .into(),
    )
}

/// Reads the journal back, and what the log has behind it, for a run that begins at once; `None` where the log is on the own disk.
///
/// # Errors
/// They do not belong together, or cannot be read or written.
pub fn cold(config: &Config, permits: Permits) -> Result<Option<Warm>, StartError> {
    let Some(log) = open(config)? else { return Ok(None) };
    Warm::cold(config, permits, workers(config)?, DOORS, log).map(Some)
}

/// What a standby knows of the log.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    /// The last record, and the last entry, that are here.
    pub position: (u64, u64),
    /// How long ago all of the log was here, ms.
    pub lag_ms: u64,
    /// Does the log answer?
    pub is_up: bool,
    /// For how long it has, or has not, ms.
    pub since_ms: u64,
    /// The bank and its run, where the standby has read who began it.
    pub bank: Option<(String, u32)>,
    /// Why what is in the log is not on this node's disk.
    pub failure: Option<String>,
    /// The digest of the budgets file that is in force, as far as the log was followed.
    pub budgets: Option<Digest>,
}

/// A node that follows the log and waits until no bank speaks there.
pub(crate) struct Standby<'c> {
    config: &'c Config,
    /// What was read back, until the log is open.
    read: Option<(ReadBack, Writer<Disk>)>,
    pub(crate) warm: Option<Warm>,
    listening: Listening,
    began: Instant,
    /// How often in a row the engine has said that there is no stream.
    gone: u32,
    pub(crate) heard: Heard,
    /// When `heard.is_up` last changed, and when all of the log was here, ms.
    turned_ms: u64,
    even_ms: u64,
}

/// Stands by until no bank speaks in the log: it stopped cleanly, nothing was appended for `cluster.takeover_ms`, or there never was one. Meanwhile it
/// follows: its disk and its books have what the log has, and a run can begin. `None` if it was told to stop before. `hear` is told what is known, and
/// says whether to take over at once.
///
/// # Errors
/// What waiting does not mend: the own journal cannot be read, no such stream, another secret, an entry of a later version.
pub fn stand_by(
    config: &Config,
    permits: Permits,
    is_stop: &dyn Fn() -> bool,
    hear: &dyn Fn(&Heard) -> bool,
) -> Result<Option<Warm>, StartError> {
    let read = ReadBack::of(config, permits, workers(config)?, DOORS, true)?;
    let mut standby = Standby { read: Some(read), ..Standby::new(config) };
    while !is_stop() {
        let is_over = standby.look()?;
        let is_told = hear(&standby.heard);
        if (is_over || is_told) && standby.is_alone(is_told)? {
            return Ok(standby.warm);
        }
        std::thread::sleep(LOOK);
    }
    Ok(None)
}

impl<'c> Standby<'c> {
    pub(crate) fn new(config: &'c Config) -> Standby<'c> {
        Standby {
            config,
            read: None,
            warm: None,
            listening: Listening::default(),
            began: Instant::now(),
            gone: 0,
            heard: Heard { is_up: true, ..Heard::default() },
            turned_ms: 0,
            even_ms: 0,
        }
    }

    /// Follows as far as the log has more. Is there no bank?
    pub(crate) fn look(&mut self) -> Result<bool, StartError> {
        let c = &self.config.cluster;
        let takeover_ms = (c.takeover == Takeover::Auto).then_some(c.takeover_ms);
        let followed = self.follow();
        let followed = self.judge(followed)?;
        let now_ms = self.now_ms();
        let is_over = match (&followed, &self.heard.failure) {
            // It cannot be the bank, however long the log is silent.
            (None, Some(_)) => false,
            _ => {
                let last = followed.map(|followed| followed.last);
                let is_free = followed.is_some_and(|followed| followed.is_free);
                self.listening.is_over(takeover_ms, now_ms, last, is_free)
            }
        };
        if followed.is_some_and(|followed| followed.is_even) {
            self.even_ms = now_ms;
        }
        let heard = &mut self.heard;
        (heard.lag_ms, heard.since_ms) = (now_ms - self.even_ms, now_ms - self.turned_ms);
        if let Some(warm) = &self.warm {
            heard.position = warm.position();
            heard.budgets = warm.budgets();
            heard.bank = warm.bank().map(|(node, run)| (node.to_string(), *run));
        }
        Ok(is_over)
    }

    fn follow(&mut self) -> Result<Followed, StartError> {
        let (config, permits) = (self.config, Permits::default());
        let warm = match &mut self.warm {
            Some(warm) => warm,
            none => {
                let log = open(config)?.expect("cluster.log is set");
                let read = match self.read.take() {
                    Some(read) => read,
                    None => ReadBack::of(config, permits, workers(config)?, DOORS, true)?,
                };
                let warm = Warm::new(read, log).with_rooms(config)?;
                none.insert(warm.with_housekeeper(config, connect(config))?)
            }
        };
        match warm.follow() {
            Err(StartError::Log(error)) if error.is_trimmed() => {
                let warm = self.warm.take().expect("it follows");
                let begun = warm.begun_anew(config, (permits, workers(config)?, DOORS));
                // It is tried again from the beginning, which takes long.
                let begun = begun.inspect_err(|_| std::thread::sleep(AGAIN))?;
                let warm = begun.with_housekeeper(config, connect(config))?;
                self.warm.insert(warm).follow()
            }
            followed => followed,
        }
    }

    /// Is all of the log here, and was nothing appended since it was found silent? Then a run can begin. Where somebody tells it to, in any case: the
    /// append decides.
    pub(crate) fn is_alone(&mut self, is_told: bool) -> Result<bool, StartError> {
        let Some(warm) = &mut self.warm else { return Ok(false) };
        let caught_up = warm.catch_up();
        let Some(caught_up) = self.judge(caught_up)? else { return Ok(false) };
        let is_alone = caught_up.read == 0 || is_told;
        if is_alone {
            tracing::info!(
                record = self.heard.position.0,
                "no bank speaks in the log: taking over"
            );
        }
        Ok(is_alone)
    }

    /// Takes what waiting mends for nothing, and says it once.
    fn judge<T>(&mut self, asked: Result<T, StartError>) -> Result<Option<T>, StartError> {
        let (is_up, failure) = match &asked {
            Err(StartError::Log(error)) if error.is_disk() => (true, Some(error.to_string())),
            asked => (asked.is_ok(), None),
        };
        if is_up != std::mem::replace(&mut self.heard.is_up, is_up) {
            self.turned_ms = self.now_ms();
            if let Err(error) = &asked {
                tracing::warn!(%error, "standing by until the log answers");
            }
        }
        if self.heard.failure != failure {
            match &failure {
                Some(error) => tracing::error!(
                    error,
                    "this node does not follow, and cannot take over; it tries again"
                ),
                None => tracing::info!("this node follows again"),
            }
            self.heard.failure = failure;
        }
        match asked {
            Ok(asked) => {
                self.gone = 0;
                return Ok(Some(asked));
            }
            Err(StartError::Log(error)) if error.is_disk() || error.is_away() => {}
            Err(StartError::Log(error)) if error.is_no_stream() && self.gone + 1 < GONE_TIMES => {
                self.gone += 1;
            }
            Err(error) => return Err(error),
        }
        Ok(None)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_log_elsewhere_needs_is_asked_for_with_its_key() {
        let mut sound = Config::default();
        assert_eq!(judge(&sound), []);
        sound.cluster.log = "nats://u:p@a:4222, b:4222".into();
        sound.cluster.log_monitors = vec!["http://a:8222".into()];
        sound.cluster.secret_file = "secret".into();
        sound.keys.tokens_file = "tokens".into();
        assert_eq!(judge(&sound), []);
        assert_eq!(addresses("tls://a:1,b:2"), Some(vec!["tls://a:1".into(), "tls://b:2".into()]));
        type Change = fn(&mut Config);
        let changes: [(&str, Change); 9] = [
            ("cluster.log: expected servers", |c| c.cluster.log = "http://a:8222".into()),
            ("cluster.log: expected servers", |c| c.cluster.log = "nats://a,".into()),
            ("cluster.name: the cluster name `a.b`", |c| c.cluster.name = "a.b".into()),
            ("cluster.log_monitors: expected the monitor", |c| c.cluster.log_monitors.clear()),
            ("cluster.secret_file is empty", |c| c.cluster.secret_file.clear()),
            ("cluster.lease_ms: found 999, expected at least", |c| c.cluster.lease_ms = 999),
            ("cluster.takeover_ms: found 1000, expected more", |c| c.cluster.takeover_ms = 1_000),
            ("fix.listen: the numbers of FIX", |c| c.arrays.fix_session.push(Default::default())),
            ("keys.tokens_file is empty", |c| c.keys.tokens_file.clear()),
        ];
        for (expected, change) in changes {
            let mut config = sound.clone();
            change(&mut config);
            let wrong = judge(&config);
            assert!(wrong.len() == 1 && wrong[0].text.starts_with(expected), "{wrong:?}");
        }
        sound.keys.tokens_file.clear();
        sound.keys.listen = weir_config::listen::Listen::OFF;
        assert_eq!(judge(&sound), []);
    }

    #[test]
    fn a_secret_is_64_digits_that_nobody_else_reads() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let digits = "5a".repeat(32);
        for (text, mode, expected) in [
            (digits.clone(), 0o600, None),
            (format!("{digits}\n"), 0o400, None),
            (digits.clone(), 0o640, Some("its mode is 640")),
            ("5a".repeat(31), 0o600, Some("expected 64 hexadecimal digits")),
            ("x".repeat(32), 0o600, Some("expected 64 hexadecimal digits")),
            ("x".repeat(64), 0o600, Some("expected 64 hexadecimal digits")),
        ] {
            let _ = std::fs::remove_file(&file);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            let found = secret(&file).err();
            assert_eq!(found.is_none(), expected.is_none());
            assert!(found.is_none_or(|text| text.contains(expected.unwrap())));
        }
        std::fs::remove_file(&file).unwrap();
        assert!(secret(&file).err().unwrap().starts_with("cluster.secret_file "));
    }
}
