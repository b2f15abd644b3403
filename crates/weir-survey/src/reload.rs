//! The configuration read again while the node runs: `weir reload`, `POST /v1/reload` and SIGHUP.
//!
//! Everything is read and judged before anything is put in force: the configuration whole, then each file that a live key names. A key
//! that is read at a start only must be as it was; otherwise all such keys are named, and nothing changes.

use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use door_fix::gate::desk::FixDesk;
use door_openrtb::exchanges::ExchangeDesk;
use weir_config::config::{Config, KeyChange};
use weir_door::Tokens;
use weir_node::certificates::Certificates;

use crate::admin::{Status, tls};

/// Reads the configuration as the start did: its file, its environment, its command line.
pub type ConfigSource = Box<dyn Fn() -> Result<Config, Vec<String>> + Send + Sync>;

/// Why the configuration in force stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotReloaded {
    /// Another reload is under way.
    UnderWay,
    /// What is configured cannot be put in force, a line for each reason.
    Refused(Vec<String>),
}

impl NotReloaded {
    /// The reasons, a line each.
    #[must_use]
    pub fn lines(self) -> Vec<String> {
        match self {
            NotReloaded::UnderWay => {
                vec!["a reload is under way; ask again when it has ended".into()]
            }
            NotReloaded::Refused(lines) => lines,
        }
    }
}

impl From<Vec<String>> for NotReloaded {
    fn from(lines: Vec<String>) -> NotReloaded {
        NotReloaded::Refused(lines)
    }
}

/// What can be replaced while the node runs.
pub(crate) struct Reloader {
    source: ConfigSource,
    status: Status,
    in_force: InForce,
    /// Held for a whole reload: a second one at the same time is refused, so that none waits behind one that does not end.
    turn: Mutex<()>,
}

/// What the doors were opened with, each of which can be replaced.
pub(crate) struct InForce {
    /// Who may enter.
    pub(crate) tokens: Tokens,
    /// Of the workers' doors.
    pub(crate) certificates: Certificates,
    /// Of the admin door; `None` if it speaks HTTP.
    pub(crate) admin_tls: Option<watch::Tls>,
    /// The sessions of the FIX door; `None` if it is off.
    pub(crate) fix: Option<FixDesk>,
    /// The exchanges of the OpenRTB door.
    pub(crate) exchanges: ExchangeDesk,
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reloader")
    }
}

impl Reloader {
    /// For the node that has this status, with what its doors were opened with.
    pub(crate) fn new(source: ConfigSource, status: Status, in_force: InForce) -> Reloader {
        Reloader { source, status, in_force, turn: Mutex::new(()) }
    }

    /// Reads everything again and puts it in force, from the next batch and the next connection on. Returns what was read, a line for
    /// each key.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub(crate) fn reload(&self) -> Result<Vec<String>, NotReloaded> {
        // Nothing is half done behind this lock that a panic could leave.
        let turn = match self.turn.try_lock() {
            Ok(turn) => turn,
            Err(TryLockError::Poisoned(turn)) => turn.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(NotReloaded::UnderWay),
        };
        self.reload_now(&turn)
    }

    /// Does the same once no other reload is under way: a signal has nobody to tell that it should come again.
    ///
    /// # Errors
    /// As [`Reloader::reload`].
    pub(crate) fn reload_in_turn(&self) -> Result<Vec<String>, NotReloaded> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.reload_now(&turn)
    }

    fn reload_now(&self, turn: &MutexGuard<'_, ()>) -> Result<Vec<String>, NotReloaded> {
        let reloaded = self.take_over(turn);
        self.status.reloaded(&reloaded);
        reloaded
    }

    fn take_over(&self, _turn: &MutexGuard<'_, ()>) -> Result<Vec<String>, NotReloaded> {
        let config = (self.source)()?;
        let changes = self.status.config().changes(&config);
        let refused: Vec<String> =
            changes.iter().filter(|change| !change.is_live).map(needs_restart).collect();
        if !refused.is_empty() {
            return Err(refused.into());
        }
        let admin = &config.admin;
        let admin_tls = tls(&admin.tls_cert, &admin.tls_key).map_err(|error| vec![error])?;
        if admin_tls.is_some() != self.in_force.admin_tls.is_some() {
            let text = "admin.tls_cert and admin.tls_key: the door gets or loses HTTPS only at a start; restart the node";
            return Err(vec![text.to_string()].into());
        }
        let certificates = self.in_force.certificates.read_again(&config)?;
        let tokens = self.in_force.tokens.read_again(&config)?;
        let exchanges = self.in_force.exchanges.read_again(&config)?;
        self.adopt_sessions(&config)?;
        // Nothing fails from here on.
        self.in_force.tokens.replace(tokens);
        self.in_force.exchanges.adopt(exchanges);
        self.in_force.certificates.replace(&certificates);
        if let (Some(in_force), Some(read)) = (&self.in_force.admin_tls, &admin_tls) {
            in_force.replace(read);
        }
        let applied = read_again(&self.status.config(), &config);
        self.status.set_config(config);
        Ok(applied)
    }

    /// Puts the sessions of the FIX door in force.
    fn adopt_sessions(&self, config: &Config) -> Result<(), Vec<String>> {
        match &self.in_force.fix {
            Some(desk) => desk.adopt(desk.read_again(&self.status.config(), config)?),
            None if config.arrays.fix_session.is_empty() && config.arrays.fix_venue.is_empty() => {
                Ok(())
            }
            None => Err(vec![
                "fix.session, fix.venue: the FIX door is off, and opens only at a start; restart the node".into(),
            ]),
        }
    }
}

fn needs_restart(change: &KeyChange) -> String {
    let KeyChange { key, from, to, .. } = change;
    match from == to {
        true => format!("{key}: the secret is another one; restart the node"),
        false => format!("{key}: {from} is in force, {to} is configured; restart the node"),
    }
}

/// The live keys that are set, each with its file, as all of them name one; those that were set and are not any more; and what of the
/// arrays is another.
fn read_again(before: &Config, config: &Config) -> Vec<String> {
    let none = Config::default();
    let live = |from: &Config, to: &Config| {
        from.key_changes(to).into_iter().filter(|change| change.is_live)
    };
    let set = live(&none, config)
        .map(|KeyChange { key, to, .. }| format!("{key}: {to} was read and is in force"));
    let emptied = live(before, config)
        .filter(|change| !live(&none, config).any(|set| set.key == change.key))
        .map(|KeyChange { key, from, .. }| {
            format!("{key}: {from} is in force no more; the key is empty")
        });
    let entries = before.arrays.changes(&config.arrays).into_iter();
    let entries =
        entries.map(|KeyChange { key, from, to, .. }| format!("{key}: was {from}, is {to}"));
    set.chain(emptied).chain(entries).chain(files_of_entries(config)).collect()
}

/// The files that entries of arrays name: their lines may be others, whatever the entry says.
fn files_of_entries(config: &Config) -> impl Iterator<Item = String> {
    let arrays = &config.arrays;
    let clients = arrays.fix_session.iter().filter(|one| !one.password_file.is_empty());
    let clients = clients.map(|one| {
        let (name, file) = (one.name(), &one.password_file);
        format!("fix.session {name}: password_file {file:?} was read and is in force")
    });
    let venues = arrays.fix_venue.iter().flat_map(|one| {
        let files = [
            ("password_file", &one.password_file),
            ("tls_ca", &one.tls_ca),
            ("tls_cert", &one.tls_cert),
            ("tls_key", &one.tls_key),
        ];
        let set = files.into_iter().filter(|(_, file)| !file.is_empty());
        set.map(|(key, file)| {
            format!(
                "fix.venue {}: {key} {file:?} was read and counts from the next connection on",
                one.name()
            )
        })
    });
    clients.chain(venues)
}

#[cfg(test)]
mod tests {
    use weir_config::arrays::FixSession;

    use super::*;

    /// A live key that is not read again above would be said to be in force, and is not.
    #[test]
    fn live_keys_are_files_of_tokens_and_certificates() {
        let table = Config::table();
        let of_entries = ["| `fix.session.", "| `fix.venue.", "| `openrtb.exchange."];
        let live = table.lines().filter(|row| row.ends_with("| live |"));
        let live = live.filter(|row| !of_entries.iter().any(|of| row.starts_with(of)));
        let live: Vec<&str> = live.collect();
        let kinds = ["tokens_file`", ".tls_cert`", ".tls_key`", ".tls_clients`"];
        let is_read = |row: &&str| kinds.iter().any(|kind| row.contains(kind));
        assert!(live.len() >= 10 && live.iter().all(is_read), "{live:#?}");

        let mut config = Config::default();
        let session =
            FixSession { name: "A".into(), password_file: "users".into(), ..FixSession::default() };
        config.arrays.fix_session.push(session);
        config.openrtb.tls_cert = "a.pem".into();
        config.pacing.tick_ms += 1;
        let before = Config::default();
        assert_eq!(
            read_again(&before, &config),
            [
                "openrtb.tls_cert: \"a.pem\" was read and is in force",
                "fix.session A: was not there, is there",
                "fix.session A: password_file \"users\" was read and is in force",
            ]
        );
        assert_eq!(
            read_again(&config, &before),
            [
                "openrtb.tls_cert: \"a.pem\" is in force no more; the key is empty",
                "fix.session A: was there, is not there",
            ]
        );
    }
}
