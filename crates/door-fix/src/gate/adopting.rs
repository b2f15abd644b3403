//! Another configuration of the sessions, while they run: read aside by who reloads, taken by the worker between two steps.

use std::collections::BTreeSet;

use crate::{Clock, FixSessions, PasswordFile};
use door_transport::Dial;
use fix_session::{Durability, SessionState};
use weir_config::config::Config;
use weir_config::doors::fix_connections;

use super::checkpoints::Known;
use super::{DoorOutbox, FixConn, FixDoor, Sessions, Venue};

/// What a configuration says of the sessions, with the files that it names.
#[derive(Debug)]
pub struct FixSettings {
    sessions: FixSessions,
    /// Who may log on with which password, clients only.
    passwords: Vec<Option<PasswordFile>>,
    /// How the venues are reached.
    dials: Vec<Dial>,
    /// Sessions that have to log on anew, whatever their FIX session says.
    anew: BTreeSet<String>,
}

impl FixSettings {
    /// Reads them. Connections have room for the largest message of the sessions of the start, `input_bytes_max`.
    ///
    /// # Errors
    /// Everything that is wrong, or that only a start can change.
    pub(super) fn read(
        before: &Config,
        after: &Config,
        input_bytes_max: usize,
    ) -> Result<FixSettings, Vec<String>> {
        use super::entries::{dials, passwords, sessions, to_log_on_anew};
        let (sessions, dials, passwords) = (sessions(after), dials(after), passwords(after));
        let mut wrong = Vec::new();
        wrong.extend(sessions.as_ref().err().into_iter().flatten().map(ToString::to_string));
        wrong.extend(dials.as_ref().err().into_iter().flatten().map(ToString::to_string));
        wrong.extend(passwords.as_ref().err().into_iter().flatten().map(ToString::to_string));
        if fix_connections(after).input_bytes_max > input_bytes_max {
            wrong.push(
                "fix.session.body_bytes_max, fix.venue.body_bytes_max: one is larger than any at the start, and connections have room for those; restart the node".into(),
            );
        }
        let anew = to_log_on_anew(before, after);
        match (sessions, dials, passwords) {
            (Ok(sessions), Ok(dials), Ok(passwords)) if wrong.is_empty() => {
                Ok(FixSettings { sessions, passwords, dials, anew })
            }
            _ => Err(wrong),
        }
    }
}

impl FixDoor {
    /// Takes other sessions in the place of those that there are.
    pub(super) fn adopt(&mut self, settings: FixSettings, clock: Clock) -> Result<(), Vec<String>> {
        let Some(sessions) = &mut self.sessions else { return Ok(()) };
        let FixSettings { sessions: config, passwords, dials, anew } = settings;
        let durabilities: Vec<Durability> = config.stores().map(|(_, one)| one).collect();
        let behind = prepare(sessions, &config, (&passwords, &self.checkpoints.known), clock)?;
        let numbers =
            sessions.adopt(config, &anew, clock).map_err(|error| vec![format!("fix: {error}")])?;
        self.counters.lost.add(behind.len());
        if let Err(error) = sessions.doubt(&behind) {
            // They go on so, and it is kept with the first that changes: until then the files are still behind, for a start as well.
            tracing::error!(%error, "FIX: the numbers of new sessions could not be kept yet");
        }
        for (number, durability) in numbers.iter().zip(durabilities) {
            sessions.stores().set_durability(*number, durability);
        }
        let (clients, venues) = numbers.split_at(passwords.len());
        sessions.guard().replace(clients.iter().copied().zip(passwords));
        for venue in &mut self.venues {
            venue.is_over = !venues.contains(&venue.session);
        }
        for (session, dial) in venues.iter().copied().zip(dials) {
            let is_other = sessions.name(session).is_some_and(|name| anew.contains(name));
            match self.venues.iter_mut().find(|venue| venue.session == session) {
                // The files of one that has TLS may be others; one that was removed and is back is no longer dialled.
                Some(venue) if is_other || dial.tls.is_some() || venue.id.is_none() => {
                    venue.next = Some(dial);
                }
                Some(_) => {}
                None => self.venues.push(Venue::new(session, dial)),
            }
        }
        self.are_venues_changing = true;
        tracing::info!(
            sessions = numbers.len(),
            "FIX: the sessions are those of the configuration"
        );
        Ok(())
    }

    /// Hangs up venues that are gone, and dials others as they are reached now, each as soon as it has no connection.
    pub(super) fn redial<S>(&mut self, clock: Clock, outbox: &mut DoorOutbox<'_, '_, S, FixConn>) {
        let Some(sessions) = self.sessions.as_ref().filter(|_| self.are_venues_changing) else {
            return;
        };
        for venue in self.venues.iter_mut().filter(|venue| venue.is_changing()) {
            let state = sessions.session(venue.session).map(fix_session::Session::state);
            if state != Some(SessionState::Disconnected) {
                continue;
            }
            if let Some(id) = venue.id.take() {
                outbox.all().hang_up(id);
            }
            if let Some(dial) = venue.next.take() {
                venue.dial = dial;
            }
            if !venue.is_over && sessions.is_in_schedule(venue.session, clock) {
                venue.id = outbox.all().dial(venue.dial.clone());
            }
        }
        self.are_venues_changing = self.venues.iter().any(Venue::is_changing);
    }
}

/// Does everything that can fail. Returns which of the new sessions have files that are older than the journal.
fn prepare(
    sessions: &mut Sessions,
    config: &FixSessions,
    (passwords, checkpoints): (&[Option<PasswordFile>], &Known),
    clock: Clock,
) -> Result<Vec<usize>, Vec<String>> {
    let others = |others: Vec<crate::OtherSession>| {
        others.iter().map(|other| format!("fix.session, fix.venue: {other}")).collect::<Vec<_>>()
    };
    sessions.judge(config).map_err(others)?;
    let needs_checks = passwords.iter().any(Option::is_some);
    let begun = if needs_checks { sessions.guard().begin() } else { Ok(()) };
    begun.map_err(|error| vec![error.to_string()])?;
    // An earlier attempt may have ended half way.
    let known = sessions.sessions();
    sessions.stores().truncate(known);
    let new: Vec<(String, Durability)> = sessions
        .new_stores(config)
        .map(|(name, durability)| (name.to_owned(), durability))
        .collect();
    let mut behind = Vec::new();
    for (name, durability) in new {
        let unix_ms = clock.unix_us.div_euclid(1_000);
        let added = super::add(sessions.stores(), (&name, durability), unix_ms, checkpoints);
        let (at, is_behind) =
            added.map_err(|error| vec![format!("fix: {error}; nothing was changed")])?;
        behind.extend(is_behind.then_some(at));
    }
    Ok(behind)
}
