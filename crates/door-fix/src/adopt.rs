//! Another configuration, while sessions are logged on.
//!
//! A session is the same as long as its name, its side, its BeginString and its CompIDs are: it keeps its number, its store and its
//! connection. One that is not configured any more is logged out and keeps its number too: reports on its orders are numbered and kept, and
//! if it is configured again it goes on where it was.

use std::collections::BTreeSet;

use fix::ValueError;
use fix_session::{Durability, MessageStores, SessionState};

use crate::config::{Checked, FixSessions, Kind, SessionKeys};
use crate::door::{Clock, Door, Happening, Ready};
use crate::peer::Guard;
use crate::seat::Seat;

/// What a peer reads in the Logout of a session that is not configured any more.
const REMOVED: &str = "session removed from the configuration";
/// What a peer reads that has to log on anew.
const CHANGED: &str = "session changed in the configuration";

/// A session of a name that stands for another one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "session {name:?}: {key} is {found:?}, and {in_force:?} as long as this node has known it; this is another session, whose numbers and messages are not those of {name:?}: give it another name"
)]
pub struct OtherSession {
    /// The name.
    pub name: String,
    /// The key.
    pub key: &'static str,
    /// What is configured.
    pub found: String,
    /// What was.
    pub in_force: String,
}

impl<S: MessageStores, G: Guard> Door<S, G> {
    /// Says whether these sessions could be taken.
    ///
    /// # Errors
    /// Each session that has the name of another one.
    pub fn judge(&self, config: &FixSessions) -> Result<(), Vec<OtherSession>> {
        let others = config.sessions.iter().filter_map(|one| {
            let seat = self.seats.iter().find(|seat| seat.keys.name == one.keys.name)?;
            let name = &one.keys.name;
            let is_venue = matches!(one.kind, Kind::Venue(_));
            difference((&seat.keys, seat.is_venue()), (&one.keys, is_venue)).map(
                |(key, in_force, found)| OtherSession { name: name.clone(), key, found, in_force },
            )
        });
        let others: Vec<OtherSession> = others.collect();
        if others.is_empty() { Ok(()) } else { Err(others) }
    }

    /// Returns how many sessions have a number, also of such that are not configured any more.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.seats.len()
    }

    /// Returns name and durability of the sessions that have no number yet: what stores are to be added for, in this order, before
    /// [`Door::adopt`] is called.
    pub fn new_stores<'c>(
        &self,
        config: &'c FixSessions,
    ) -> impl Iterator<Item = (&'c str, Durability)> {
        config.stores().filter(|(name, _)| self.known(name).is_none())
    }

    /// Takes other sessions in the place of those that there are, and returns their numbers in the order of the configuration. Sessions that
    /// are gone get a Logout, and so do those that have to log on anew: whose schedule, or who may log on, or what a venue's Logon says is
    /// another, and those that `anew` names. What leaves is in [`Door::take_ready`]. Everything else of a session counts at once.
    ///
    /// # Errors
    /// [`ValueError`] if BeginString or a CompID of a new session cannot stand in a message; all sessions are as they were then.
    ///
    /// # Panics
    /// If there is no store for a session that is new.
    pub fn adopt(
        &mut self,
        config: FixSessions,
        anew: &BTreeSet<String>,
        clock: Clock,
    ) -> Result<Vec<usize>, ValueError> {
        let mut next = self.seats.len();
        let numbers = config.sessions.iter().map(|one| {
            self.known(&one.keys.name).unwrap_or_else(|| {
                next += 1;
                next - 1
            })
        });
        let numbers: Vec<usize> = numbers.collect();
        let (known, max) = (self.seats.len(), config.orders_max);
        let renumbered = config.sessions.into_iter().map(|one| numbered(one, &numbers));
        let (old, new): (Vec<_>, Vec<_>) =
            numbers.iter().copied().zip(renumbered).partition(|(at, _)| *at < known);
        let new = new.into_iter().map(|(_, one)| Seat::new(one, max, self.secret));
        let new = new.collect::<Result<Vec<Seat>, ValueError>>()?;
        // Nothing fails from here on.
        self.flush(clock);
        self.generation += 1;
        self.seats.extend(new);
        (known..self.seats.len()).for_each(|at| self.open_book(at));
        for (at, one) in old {
            let firm = self.seats[at].firm().to_owned();
            let asks_anew = self.seats[at].adopt(one) || anew.contains(&self.seats[at].keys.name);
            if asks_anew {
                self.end(at, CHANGED, clock);
            }
            if self.seats[at].is_limited() && self.seats[at].firm() != firm {
                self.happenings.push(Happening::OtherFirm(at));
            }
        }
        for at in 0..known {
            if !numbers.contains(&at) && !self.seats[at].is_removed {
                self.seats[at].is_removed = true;
                self.end(at, REMOVED, clock);
                if self.seats[at].is_limited() {
                    self.happenings.push(Happening::Removed(at));
                }
            }
        }
        self.order.clone_from(&numbers);
        Ok(numbers)
    }

    /// The number of a session, also of one that is not configured any more.
    fn known(&self, name: &str) -> Option<usize> {
        self.seats.iter().position(|seat| seat.keys.name == name)
    }

    /// Ends the connection of a session, if it has one.
    fn end(&mut self, at: usize, text: &str, clock: Clock) {
        match self.seats[at].session.state() {
            SessionState::LoggedOn => {
                self.step(at, clock, |seat, _, turn| seat.session.log_out(text, turn));
                // What cannot be kept was told, and has ended the session.
                let _ = self.leave(at, clock);
            }
            SessionState::LoggingOn => {
                let close = |line| Ready { line, bytes: Vec::new(), close: true };
                let ready = self.seats[at].line.map(close);
                self.push_ready(ready);
            }
            SessionState::Disconnected | SessionState::LoggingOut => {}
        }
    }
}

/// The first key by which two configurations are not of one session: what it is in each.
fn difference(
    (one, is_venue): (&SessionKeys, bool),
    (other, is_other_venue): (&SessionKeys, bool),
) -> Option<(&'static str, String, String)> {
    let kind = |is_venue| if is_venue { "fix.venue" } else { "fix.session" };
    let pairs = [
        ("its kind", kind(is_venue), kind(is_other_venue)),
        ("begin_string", &one.begin_string, &other.begin_string),
        ("sender_comp_id", &one.sender_comp_id, &other.sender_comp_id),
        ("target_comp_id", &one.target_comp_id, &other.target_comp_id),
    ];
    let found = pairs.into_iter().find(|(_, one, other)| one != other);
    found.map(|(key, one, other)| (key, one.to_owned(), other.to_owned()))
}

/// Puts the numbers that sessions have in the place of those that they have in the configuration.
fn numbered(mut one: Checked, numbers: &[usize]) -> Checked {
    match &mut one.kind {
        Kind::Client(_, venue) => *venue = venue.map(|venue| numbers[venue]),
        Kind::Venue(venue) => {
            venue.clients.iter_mut().for_each(|client| *client = numbers[*client]);
            venue.unaddressed = venue.unaddressed.map(|client| numbers[client]);
        }
    }
    one
}
