//! Kills: orders of a session, an account or a firm are stopped, and the open ones cancelled by the gate.
//!
//! | message of a client whose orders are stopped | answer |
//! | --- | --- |
//! | D, G | refused, also where it waits for its budgets; what was granted comes back |
//! | E, s, t, AB, AC, i, S, AJ, J, AE, n, U... | refused (j) |
//! | D, G with a ClOrdID that it has used | as without a kill: its order may be open |
//! | F, status requests, all else | passes |
//!
//! The gate looks through the book of each venue, some rows at a time, and sends an F for each open order that is stopped: at the kill, at each
//! logon of the venue, and when a report shows another version of an order. An F has a ClOrdID of the gate's own, `KILL-` and a number that
//! rises over starts; no client's message of the book has it. Its client hears what the venue reports on the order, not what the venue says of
//! the F alone.
//!
//! Orders of a client that is away for longer than its `cancel_on_disconnect_s` are cancelled in the same way, as long as it is away.

use std::collections::{BTreeMap, BTreeSet};

use fix::{Message, TimestampText};
use fix_session::MessageStores;

use crate::book::State;
use crate::door::{Clock, Door, Happening};
use crate::exposure::Exposure;
use crate::gate::limits::Denied;
use crate::ids::{key, put_field};
use crate::peer::Guard;
use crate::refusal::Cause;
use crate::report::text;
use crate::rows::{RowPlace, Said};
use crate::seat::Seat;

/// How many cancels a part of a search sends at most.
const CANCELS_AT_ONCE: usize = 128;
/// What the ClOrdIDs of the gate's cancels begin with.
const OWN: &[u8] = b"KILL-";
/// Text (58) of the gate's cancels.
const CANCELLED: &[u8] = b"cancelled by the gate";

/// Whose orders are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KillScope {
    /// Those of one client's session.
    Session,
    /// Those of one Account (1).
    Account,
    /// Those of all sessions of a firm.
    Firm,
}

impl KillScope {
    /// As the API has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            KillScope::Session => "session",
            KillScope::Account => "account",
            KillScope::Firm => "firm",
        }
    }
}

/// What is stopped, and how far the search for open orders is.
#[derive(Debug, Default)]
pub(crate) struct Kills {
    kills: BTreeSet<(KillScope, String)>,
    /// There may be clients that are away for too long.
    is_anyone_away: bool,
    /// Venues that are searched, each from a place on.
    searches: BTreeMap<usize, RowPlace>,
    /// Venues that were logged on when this was looked at last, each with its connection.
    open: BTreeSet<(usize, Option<u64>)>,
    /// Orders that were cancelled, by venue and the id of the version.
    cancelled: BTreeSet<(usize, Box<[u8]>)>,
    /// The number of the last cancel.
    last: u64,
}

impl Kills {
    /// Finds why orders of a client and an account are stopped.
    fn of(&self, client: &str, firm: &str, account: &[u8]) -> Option<KillScope> {
        let is_meant = |(scope, name): &&(KillScope, String)| match scope {
            KillScope::Session => name == client,
            KillScope::Account => name.as_bytes() == account,
            KillScope::Firm => name == firm,
        };
        self.kills.iter().find(is_meant).map(|kill| kill.0)
    }

    /// Reports whether nothing is to be cancelled.
    fn is_idle(&self) -> bool {
        self.kills.is_empty() && !self.is_anyone_away
    }
}

/// Reports whether a ClOrdID looks like one of the gate's own.
fn is_own(id: &[u8]) -> bool {
    id.strip_prefix(OWN).is_some_and(|rest| !rest.is_empty() && rest.iter().all(u8::is_ascii_digit))
}

impl<S: MessageStores, G: Guard> Door<S, G> {
    /// Stops orders, and cancels the open ones, also those that were cancelled before. To be called before any connection for what was stopped
    /// when the process ended.
    pub fn kill(&mut self, scope: KillScope, name: &str) {
        self.search(scope, name);
        self.kills.kills.insert((scope, name.to_owned()));
    }

    /// Notes which clients are away for longer than they may, and cancels their open orders; tells of venues that do not answer. To be called each second from when clients may log
    /// on: then the time of all begins that are not there.
    pub fn look_for_absent(&mut self, clock: Clock) {
        self.kills.is_anyone_away = false;
        for at in self.order.clone() {
            if self.seats[at].is_newly_away(clock.ms) {
                let name = self.seats[at].keys.name.clone();
                self.search(KillScope::Session, &name);
                self.happenings.push(Happening::Away(at));
            }
            self.kills.is_anyone_away |= self.seats[at].is_away();
        }
        self.look_at_doubts(clock);
    }

    /// Begins to search for all open orders of a kind, also for those that were cancelled before.
    fn search(&mut self, scope: KillScope, name: &str) {
        let one = Kills { kills: [(scope, name.to_owned())].into(), ..Kills::default() };
        let mut cancelled = std::mem::take(&mut self.kills.cancelled);
        let is_meant = |client: &str, account: &[u8]| {
            let firm = self.client(client).map(|at| &self.seats[at]).map_or("", Seat::firm);
            one.of(client, firm, account).is_some()
        };
        cancelled.retain(|(venue, id)| {
            let book = self.seats[*venue].book.as_ref();
            let place = book.and_then(|book| book.place(id));
            !book.zip(place).is_some_and(|(book, place)| book.is_open_order(place, is_meant))
        });
        self.kills.cancelled = cancelled;
        self.kills.searches = self.venues_ever().map(|venue| (venue, 0)).collect();
    }

    /// Lets orders pass again. Those that were cancelled stay cancelled.
    pub fn enable(&mut self, scope: KillScope, name: &str) {
        self.kills.kills.remove(&(scope, name.to_owned()));
    }

    /// Returns the configured sessions that a kill stops as a whole.
    #[must_use]
    pub fn sessions_of(&self, scope: KillScope, name: &str) -> Vec<String> {
        let seats = self.order.iter().map(|at| &self.seats[*at]).filter(|seat| !seat.is_venue());
        let is_meant = |seat: &&Seat| match scope {
            KillScope::Session => seat.keys.name == name,
            KillScope::Firm => seat.firm() == name,
            KillScope::Account => false,
        };
        seats.filter(is_meant).map(|seat| seat.keys.name.clone()).collect()
    }

    /// Venues, also those that are not configured any more.
    fn venues_ever(&self) -> impl Iterator<Item = usize> {
        (0..self.seats.len()).filter(|at| self.seats[*at].is_venue())
    }

    /// Reports whether open orders of a client of a book and of an account are to be cancelled.
    fn is_to_cancel(&self, client: &str, account: &[u8]) -> bool {
        let seat = self.client(client).map(|at| &self.seats[at]);
        let firm = seat.map_or("", Seat::firm);
        seat.is_some_and(Seat::is_away) || self.kills.of(client, firm, account).is_some()
    }

    /// Finds why a client's message is stopped: what room there is to keep something is for what ends orders.
    pub(crate) fn stopped(&self, at: usize, message: &Message<'_>) -> Option<Denied> {
        let is_short = self.stores.is_short();
        if !is_short && self.kills.kills.is_empty()
            || Exposure::of(message.msg_type()) == Exposure::None
        {
            return None;
        }
        let short = is_short.then_some(Denied::Journal);
        self.killed(at, message).map(Denied::Killed).or(short)
    }

    fn killed(&self, at: usize, message: &Message<'_>) -> Option<KillScope> {
        let (name, firm) = (&self.seats[at].keys.name, self.seats[at].firm());
        let of = |account: &[u8]| self.kills.of(name, firm, account);
        let own = || {
            let (original, venue) = (text(message, 41)?, self.seats[at].next()?);
            let book = self.seats[venue].book.as_ref()?;
            let place = book.place(&key(41, self.seats[at].prefix(), original))?;
            of(book.order_at(place)?.0.account)
        };
        // An allocation (79) is for an account, too.
        let tags = (message.body_at()..message.len())
            .filter(|field| matches!(message.tag_at(*field), Some(1 | 79)));
        let mut accounts = tags.filter_map(|field| message.value_at(field));
        of(b"").or_else(|| accounts.find_map(of)).or_else(own)
    }

    /// Refuses a message that is stopped.
    pub(crate) fn refuse_stopped(
        &mut self,
        at: usize,
        (message, denied): (&Message<'_>, Denied),
        clock: Clock,
    ) {
        if Exposure::of(message.msg_type()) == Exposure::Unpriced {
            self.happenings.push(Happening::OrderRefused(at, denied.counted()));
            let text = denied.to_string();
            self.step(at, clock, |seat, _, turn| seat.session.refuse(message, 0, &text, turn));
            return;
        }
        let id = key(11, self.seats[at].prefix(), message.value(11).unwrap_or_default());
        let venue = self.seats[at].next();
        let owner = venue.and_then(|venue| self.seats[venue].book.as_ref()?.owner(&id));
        match venue.filter(|_| owner.is_some_and(|one| one.0 == self.seats[at].keys.name)) {
            Some(venue) => self.answer_known([at, venue], message, clock),
            None => self.refuse_order(at, message, Cause::Denied(denied), clock),
        }
    }

    /// Goes on with the search for orders to cancel, for a part of a turn. What it sends leaves with the next flush. Reports whether there is more
    /// to search.
    pub fn cancel_stopped(&mut self, clock: Clock) -> bool {
        if self.kills.is_idle() {
            self.kills.searches.clear();
            self.kills.open.clear();
            self.kills.cancelled.clear();
            return false;
        }
        let open = self.venues_ever().filter(|venue| self.seats[*venue].is_open);
        let open: BTreeSet<_> = open.map(|venue| (venue, self.seats[venue].line)).collect();
        let kills = &mut self.kills;
        // What was sent before a logon may be lost.
        for (venue, _) in open.difference(&kills.open) {
            kills.searches.insert(*venue, 0);
            kills.cancelled.retain(|one| one.0 != *venue);
        }
        kills.searches.retain(|venue, _| open.iter().any(|one| one.0 == *venue));
        kills.open = open;
        let Some((venue, from)) = kills.searches.pop_first() else { return false };
        let Some(book) = &self.seats[venue].book else { return true };
        let (found, next) = book.open_orders(from, CANCELS_AT_ONCE, |client, account| {
            self.is_to_cancel(client, account)
        });
        if let Some(next) = next {
            self.kills.searches.insert(venue, next);
        }
        found.into_iter().for_each(|place| self.cancel(venue, place, clock));
        !self.kills.searches.is_empty()
    }

    /// Cancels the order that a report names, if it is one to cancel: it may be open again, or have another version.
    pub(crate) fn cancel_reported(&mut self, venue: usize, message: &Message<'_>, clock: Clock) {
        if self.kills.is_idle() || message.msg_type() != b"8" || !self.seats[venue].is_open {
            return;
        }
        let book = self.seats[venue].book.as_mut();
        let Some(place) = book.and_then(|book| book.place_of(message)) else { return };
        let Some(book) = &self.seats[venue].book else { return };
        let is_meant = |client: &str, account: &[u8]| self.is_to_cancel(client, account);
        if book.is_open_order(place, is_meant) {
            self.cancel(venue, place, clock);
        }
    }

    /// Sends an F for the order at a place, once for each of its versions.
    fn cancel(&mut self, venue: usize, place: RowPlace, clock: Clock) {
        self.touch(venue);
        let (last, now) = (&mut self.kills.last, u64::try_from(clock.unix_us).unwrap_or(0));
        let Some(book) = &self.seats[venue].book else { return };
        let Some((head, order, _)) = book.order_at(place) else { return };
        let original = head.key();
        if !self.kills.cancelled.insert((venue, original[..].into())) {
            return;
        }
        let id = loop {
            *last = now.max(*last + 1);
            let id = [b"11=", OWN, last.to_string().as_bytes()].concat();
            if book.owner(&id).is_none() {
                break id;
            }
        };
        let quantity = match order.standing().size {
            Some(gate_orders::Size::Quantity { quantity, .. }) => quantity.to_string(),
            _ => String::new(),
        };
        let (mut body, mut time) = (Vec::new(), TimestampText::default());
        for (tag, value) in [
            (1, head.account),
            (11, &id[3..]),
            (37, head.order_id),
            (38, quantity.as_bytes()),
            (41, head.id),
            (54, head.side),
            (55, head.symbol),
            (58, CANCELLED),
            (60, time.of_unix_ms(clock.unix_us.div_euclid(1_000))),
        ] {
            if !value.is_empty() {
                put_field(&mut body, tag, value);
            }
        }
        let client = book.client_at(place).to_owned();
        let sent = self.step(venue, clock, |seat, _, turn| seat.session.send(b"F", &body, turn));
        if sent.is_err() {
            // The flush finds it, and the venue is searched at its next logon.
            return;
        }
        self.with_book(venue, |book, store| {
            // It is no order: its room may be needed.
            let new = ((&*client, None), State::Asked, clock.ms);
            book.join([&id, &original], new, Said::Cancel, store)
        });
        self.happenings.push(Happening::Cancelled(venue));
    }

    /// Reports whether a ClOrdID is that of an F of the gate, as far as the book of the venue knows.
    pub(crate) fn is_own_cancel(&self, venue: usize, id: &[u8]) -> bool {
        let book = self.seats[venue].book.as_ref().filter(|_| is_own(id));
        book.is_some_and(|book| book.sender(&key(11, "", id)).is_none_or(|one| one.1.is_none()))
    }

    /// Takes a venue's refusal of an F of the gate (9; 8 with 39=8), which its client has not sent. Reports whether it is one.
    pub(crate) fn takes_refusal(&mut self, venue: usize, message: &Message<'_>) -> bool {
        let is_refusal = match message.msg_type() {
            b"9" => true,
            b"8" => text(message, 39) == Some(b"8"),
            _ => false,
        };
        let id = text(message, 11).filter(|_| is_refusal);
        let is_taken = id.is_some_and(|id| self.is_own_cancel(venue, id));
        if is_taken {
            self.happenings.push(Happening::CancelRefused(venue, told(message)));
        }
        is_taken
    }
}

/// What a log says of a refusal: the order, and the venue's text.
pub(crate) fn told(message: &Message<'_>) -> String {
    let field = |tag| String::from_utf8_lossy(text(message, tag).unwrap_or_default()).into_owned();
    format!("OrderID (37) {:?}, OrigClOrdID (41) {:?}: {:?}", field(37), field(41), field(58))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gates_own_ids_are_told_from_others() {
        for (id, expected) in [
            ("KILL-1", true),
            ("KILL-1795428930000001", true),
            ("KILL-", false),
            ("KILL-1a", false),
            ("kill-1", false),
            ("A-KILL-1", false),
        ] {
            assert_eq!(is_own(id.as_bytes()), expected, "{id}");
        }
    }
}
