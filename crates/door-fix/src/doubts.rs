//! Orders of which nobody knows whether their venue has them, because its numbers began again: it is asked.
//!
//! | the venue answers a status request (H) of the gate | what happens |
//! | --- | --- |
//! | a report with another status than rejected | it counts as any other, and goes to the client |
//! | it does not know the ClOrdID: 8 with 39=8, as a status or with 103=5; 9 with 102=1; j with 380=1; Reject with 373=5 and 371=11 | what the message held is free, its client gets a refusal: it was not sent |
//! | nothing within 10 s, or another rejection | the hold stays: an alarm |
//!
//! Asked for are messages (D, G, F) of orders that budgets bind, sent before the venue's present numbers began, that no report has answered: at
//! each logon of the venue, and when its numbers begin again. A venue that refuses a cancel because it does not know the order is asked for an
//! order that it has reported on; one that it never reported on was not sent.

use std::collections::BTreeMap;
use std::mem::take;

use fix::{Framing, Message, frame, sum};
use fix_session::{MessageStore, MessageStores, Notice};

use crate::door::{Clock, Door, Happening};
use crate::ids::{key, put_field};
use crate::kills::told;
use crate::known::Slot;
use crate::peer::Guard;
use crate::refusal::Cause;
use crate::report::{id, text};
use crate::rows::RowPlace;

/// How long a venue has for its answer.
const ANSWER_MS: u64 = 10_000;
/// How many orders an alarm names.
const NAMED_MAX: usize = 8;

/// Messages that nothing is known of.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    /// Venues to be searched once they are open, and whether their numbers began again in this process.
    to_search: BTreeMap<usize, bool>,
    /// Venues that are searched, each from an id on, for orders that were opened before a time, microseconds.
    searches: BTreeMap<usize, (Slot, u64)>,
    /// What was asked of an order, by venue and place.
    asked: BTreeMap<(usize, RowPlace), Vec<Question>>,
}

#[derive(Debug)]
struct Question {
    /// Type of the message that the venue may not have, and its id.
    kind: &'static [u8],
    id: Vec<u8>,
    /// MsgSeqNum (34) of the status request, and when it was sent.
    seq: u64,
    since_ms: u64,
    is_told: bool,
}

impl Doubts {
    /// Reports whether a venue was asked for an order and has not answered.
    pub(crate) fn has(&self, venue: usize, place: RowPlace) -> bool {
        self.asked.contains_key(&(venue, place))
    }

    /// Learns what happened to a venue.
    pub(crate) fn hear(&mut self, venue: usize, notices: &[Notice]) {
        for notice in notices {
            let is_reset = matches!(notice, Notice::Reset);
            if is_reset || matches!(notice, Notice::LoggedOn { .. }) {
                *self.to_search.entry(venue).or_default() |= is_reset;
            }
        }
    }

    fn take_if(
        &mut self,
        of: (usize, RowPlace),
        is_it: impl Fn(&Question) -> bool,
    ) -> Option<Question> {
        let questions = self.asked.get_mut(&of)?;
        let found = questions.iter().position(is_it).map(|at| questions.remove(at));
        if questions.is_empty() {
            self.asked.remove(&of);
        }
        found
    }
}

impl<S: MessageStores, G: Guard> Door<S, G> {
    /// Goes on asking venues for orders that they may not have, for a part of a turn. What it sends leaves with the next flush. Reports whether
    /// there is more to ask for.
    pub fn ask_venues(&mut self, clock: Clock) -> bool {
        if self.doubts.to_search.is_empty() && self.doubts.searches.is_empty() {
            return false;
        }
        for (venue, is_reset) in take(&mut self.doubts.to_search) {
            if !self.seats[venue].is_open {
                self.doubts.to_search.insert(venue, is_reset);
                continue;
            }
            let created_us = self.stores.store(venue).created_unix_ms().saturating_mul(1_000);
            let before_us = if is_reset { clock.unix_us.saturating_add(1) } else { created_us };
            let search = (0, u64::try_from(before_us).unwrap_or(0));
            self.doubts.searches.insert(venue, search);
        }
        let Some((venue, (from, before_us))) = self.doubts.searches.pop_first() else {
            return false;
        };
        let Some(book) = self.seats[venue].book.as_ref().filter(|_| self.seats[venue].is_open)
        else {
            return !self.doubts.searches.is_empty();
        };
        let (found, next) = book.unanswered(from, before_us);
        self.doubts.searches.extend(next.map(|next| (venue, (next, before_us))));
        found.into_iter().for_each(|(place, kind, id)| self.ask((venue, place), kind, id, clock));
        !self.doubts.searches.is_empty()
    }

    /// Asks the venue for the status of an order, by the id of a message.
    fn ask(&mut self, of: (usize, RowPlace), kind: &'static [u8], id: Vec<u8>, clock: Clock) {
        let venue = of.0;
        let Some((head, ..)) = self.seats[venue].book.as_ref().and_then(|book| book.order_at(of.1))
        else {
            return;
        };
        let (mut body, own) = (Vec::new(), id.strip_prefix(b"11=").unwrap_or_default());
        for (tag, value) in [(1, head.account), (11, own), (54, head.side), (55, head.symbol)] {
            if !value.is_empty() {
                put_field(&mut body, tag, value);
            }
        }
        self.touch(venue);
        let sent = self.step(venue, clock, |seat, _, turn| seat.session.send(b"H", &body, turn));
        // The flush finds a store that fails, and it is asked for at the next logon.
        let Ok(seq) = sent else { return };
        self.doubts.take_if(of, |one| one.id == id);
        let question = Question { kind, id, seq, since_ms: clock.ms, is_told: false };
        self.doubts.asked.entry(of).or_default().push(question);
    }

    /// Takes a venue's report as the answer to a status request of the gate. Reports whether it says that the venue does not know the order: then
    /// its client was told.
    pub(crate) fn takes_unknown(
        &mut self,
        venue: usize,
        message: &Message<'_>,
        clock: Clock,
    ) -> bool {
        if self.doubts.asked.is_empty() || !matches!(message.msg_type(), b"8" | b"9") {
            return false;
        }
        let Some(own) = id(message, 11).map(|id| key(11, "", id)) else { return false };
        let book = self.seats[venue].book.as_ref();
        let Some(place) = book.and_then(|book| book.place(&own)) else { return false };
        let Some(question) = self.doubts.take_if((venue, place), |one| one.id == own) else {
            return false;
        };
        let value = |tag| text(message, tag).unwrap_or_default();
        let is_status = value(150) == b"I" || value(20) == b"3" || value(103) == b"5";
        let is_unknown = match message.msg_type() {
            // What is no answer to the message itself.
            b"9" => value(102) == b"1" && question.kind == b"D",
            _ => value(39) == b"8" && is_status,
        };
        if is_unknown {
            self.not_sent(venue, question.kind, &question.id, clock);
        }
        is_unknown
    }

    /// Takes a venue's rejection (3, j) of a status request of the gate. Reports whether it is one.
    pub(crate) fn takes_rejection(
        &mut self,
        venue: usize,
        (rejection, rejected): (&Message<'_>, Option<&Message<'_>>),
        clock: Clock,
    ) -> bool {
        let asks = rejected.filter(|rejected| rejected.msg_type() == b"H");
        let own = asks.and_then(|asks| id(asks, 11)).map(|id| key(11, "", id));
        let book = self.seats[venue].book.as_ref();
        let place = own.as_ref().zip(book).and_then(|(own, book)| book.place(own));
        let is_it = |one: &Question| Some(one.seq) == rejection.number(45);
        let question = place.and_then(|place| self.doubts.take_if((venue, place), is_it));
        let Some((mut question, place)) = question.zip(place) else { return false };
        let value = |tag| text(rejection, tag).unwrap_or_default();
        let is_unknown = match rejection.msg_type() {
            b"j" => value(380) == b"1",
            _ => value(373) == b"5" && value(371) == b"11",
        };
        if is_unknown {
            self.not_sent(venue, question.kind, &question.id, clock);
        } else {
            question.is_told = true;
            let why = format!("{}: {}", named(&question.id), told(rejection));
            self.happenings.push(Happening::InDoubt(venue, 1, why));
            self.doubts.asked.entry((venue, place)).or_default().push(question);
        }
        true
    }

    /// Looks at a venue's refusal of a cancel (9): one that does not know the order may never have had it.
    pub(crate) fn look_at_refusal(&mut self, venue: usize, message: &Message<'_>, clock: Clock) {
        let value = |tag| text(message, tag).unwrap_or_default();
        if message.msg_type() != b"9" || (value(102), value(39)) != (b"1", b"8") {
            return;
        }
        let Some(own) = id(message, 41).map(|id| key(41, "", id)) else { return };
        let Some(book) = self.seats[venue].book.as_ref() else { return };
        let Some(place) = book.place(&own).filter(|_| book.is_open(&own)) else { return };
        let Some((head, order, _)) = book.order_at(place).filter(|one| one.0.key.is_some()) else {
            return;
        };
        // A version that was replaced, or that waits, says nothing of the order.
        match (head.key() == own, head.is_answered(&order), head.waits.is_empty()) {
            (true, false, _) => self.not_sent(venue, b"D", &own, clock),
            (true, true, true) => self.ask((venue, place), b"D", own, clock),
            _ => {}
        }
    }

    /// Tells the client of a message that the venue does not have it; what it held is free.
    fn not_sent(&mut self, venue: usize, kind: &'static [u8], own: &[u8], clock: Clock) {
        let Some(book) = self.seats[venue].book.as_ref() else { return };
        let Some(client) = book.owner(own).and_then(|owner| self.client(owner.0)) else { return };
        let Some((head, order, _)) = book.place(own).and_then(|place| book.order_at(place)) else {
            return;
        };
        let quantity = match order.standing().size {
            Some(gate_orders::Size::Quantity { quantity, .. }) => quantity.to_string(),
            _ => String::new(),
        };
        let original = if kind == b"D" { &[][..] } else { head.id };
        let mut rest = Vec::new();
        for (tag, value) in [
            (35, kind),
            (11, own.strip_prefix(b"11=").unwrap_or_default()),
            (38, quantity.as_bytes()),
            (41, original),
            (54, head.side),
            (55, head.symbol),
        ] {
            if !value.is_empty() {
                put_field(&mut rest, tag, value);
            }
        }
        let mut bytes = Vec::new();
        put_field(&mut bytes, 8, self.seats[venue].keys.begin_string.as_bytes());
        put_field(&mut bytes, 9, rest.len().to_string().as_bytes());
        bytes.append(&mut rest);
        let sum = format!("{:03}", sum(&bytes));
        put_field(&mut bytes, 10, sum.as_bytes());
        // The other one has the venue's message.
        let mut index = fix::Index::new(16);
        let Framing::Whole(frame) = frame(&bytes, usize::MAX) else { return };
        let Ok(message) = index.read(frame) else { return };
        self.close(venue, own, kind, clock);
        self.answer_sent(venue, client, (&message, Cause::Unknown), clock);
        self.tie(venue, client);
    }

    /// Tells of questions that are not answered in time; forgets those of orders that are closed. To be called each second.
    pub(crate) fn look_at_doubts(&mut self, clock: Clock) {
        let (seats, mut late) = (&self.seats, BTreeMap::<usize, Vec<String>>::new());
        self.doubts.asked.retain(|(venue, place), questions| {
            let book = seats[*venue].book.as_ref();
            questions.retain(|one| book.is_some_and(|book| book.place(&one.id) == Some(*place)));
            for one in questions.iter_mut() {
                if !one.is_told && clock.ms >= one.since_ms + ANSWER_MS {
                    one.is_told = true;
                    late.entry(*venue).or_default().push(named(&one.id));
                }
            }
            !questions.is_empty()
                && book.is_some_and(|book| book.is_open_order(*place, |_, _| true))
        });
        for (venue, ids) in late {
            let told = ids[..ids.len().min(NAMED_MAX)].join(", ");
            self.happenings.push(Happening::InDoubt(venue, ids.len(), told));
        }
    }
}

fn named(id: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(id.strip_prefix(b"11=").unwrap_or(id)))
}
