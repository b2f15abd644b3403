//! Orders ask their budgets before they leave, and what came behind them waits.
//!
//! ```text
//!   D, G ── take_up ── exposure ──▶ take_says: an ask ──▶ the ledger ──▶ answered ── advance ── serve ──▶ book, venue
//!   others of the session ── behind an order that waits ──────────────────────────────────┘
//! ```
//!
//! What waits is in memory alone. Its client's number is kept only up to the first that waits, so a client whose connection ends, or whose gate
//! does, sends it again.

use std::sync::Arc;

use fix::{Framing, Message, Timestamp, frame};
use fix_session::{MessageStore, MessageStores};
use ledger::{NamedAnswer, NamedSay};
use weir_budgets::orders::OrderIndex;
use weir_budgets::prices::Prices;

use crate::door::{Clock, Door, Happening, Line};
use crate::exposure::{self, Exposure};
use crate::gate::limits::{self, Denied, RefusedFor};
use crate::ids::key;
use crate::line_up::{ANSWER_MS, Grant, Granted, Progress, Waiter};
use crate::passing::UNSUPPORTED_TYPE;
use crate::peer::Guard;
use crate::prices::{PriceTerms, Quote};
use crate::refusal::{Cause, status};
use crate::report::{kind, nobodys_id};
use crate::rows::{HoldChange, RowPlace, Unknown};
use crate::sayings::{Saying, ToLedger, cut};
use crate::seat::Seat;

impl<S: MessageStores, G: Guard> Door<S, G> {
    /// Passes a client's message on, refuses it, or lets it wait for its turn.
    pub(crate) fn take_up(&mut self, at: usize, message: &Message<'_>, clock: Clock) {
        let (seat, is_stopped) = (&self.seats[at], self.stopped(at, message).is_some());
        if !seat.is_limited() && seat.line_up.is_empty() && !is_stopped {
            return self.pass_up(at, message, &mut None, clock);
        }
        let progress = match Exposure::of(message.msg_type()) {
            _ if is_stopped => Progress::Behind,
            Exposure::Order if seat.is_limited() => self.ask_for(at, message, clock),
            // What it replaces may still wait.
            Exposure::Replace if seat.line_up.is_empty() => {
                self.ask_in_turn(at, (message, false), clock)
            }
            _ => Progress::Behind,
        };
        if self.seats[at].line_up.is_empty() && !matches!(progress, Progress::Asked(_)) {
            return self.serve(at, message, progress, clock);
        }
        let (seq, since_ms) = (message.number(34).unwrap_or(0), clock.ms);
        let life_ms = self.stores.store(at).created_unix_ms();
        let bytes = message.frame().bytes().into();
        self.seats[at].line_up.push(Waiter { bytes, seq, life_ms, since_ms, progress });
        self.hold_numbers(at);
    }

    /// Asks the budgets of a new order, unless it is known or cannot be asked for.
    fn ask_for(&mut self, at: usize, message: &Message<'_>, clock: Clock) -> Progress {
        let seat = &self.seats[at];
        let Some(venue) = seat.next() else { return Progress::Behind };
        let id = message.value(11).unwrap_or_default();
        let known = key(11, seat.prefix(), id);
        let book = self.seats[venue].book.as_ref();
        if book.is_some_and(|book| book.owner(&known).is_some()) {
            // It is judged in its turn.
            return Progress::Behind;
        }
        if self.is_too_old(venue, message, clock) {
            return Progress::Denied(Denied::TooOld);
        }
        let (session, mut legs) = (&seat.keys.name, std::mem::take(&mut self.legs));
        let of = (session.as_str(), seat.firm());
        let made = exposure::order(message, of, self.quote(seat, clock), &self.orders, &mut legs);
        let made = made
            .and_then(|order| seat.judge_caps(message, b"", order.standing().size).map(|()| order));
        let label = format!("{session} {}", String::from_utf8_lossy(id));
        self.legs = legs;
        let order = match made {
            Ok(order) => order,
            Err(denied) => return Progress::Denied(denied),
        };
        let key = self.sayings.next_key(&self.seats[venue].keys, clock.unix_us);
        let say = limits::ask(key, cut(&label), order.amounts());
        let grant = Box::new(Grant { key, venue, what: Granted::Order(order) });
        Progress::Asked(self.sayings.say(Saying::Ask { client: at, grant }, vec![say]))
    }

    /// Asks the budgets of an order for what its replace (G) may cost beyond it, unless the replace is known or cannot be asked for.
    fn ask_in_turn(
        &mut self,
        at: usize,
        (message, is_late): (&Message<'_>, bool),
        clock: Clock,
    ) -> Progress {
        if !self.seats[at].is_limited() {
            return Progress::Behind;
        }
        if self.seats[at].next().is_some_and(|venue| self.is_too_old(venue, message, clock)) {
            return Progress::Denied(Denied::TooOld);
        }
        match self.judge_replace(at, message, clock) {
            Ok(Some(_)) if is_late => Progress::Denied(Denied::Unanswered),
            Ok(Some((grant, say))) => {
                self.sayings.begin_replace(grant.key);
                let ask = Saying::Ask { client: at, grant: Box::new(grant) };
                Progress::Asked(self.sayings.say(ask, vec![say]))
            }
            Ok(None) => Progress::Behind,
            Err(denied) => Progress::Denied(denied),
        }
    }

    /// Judges a replace as the order stands, and says what it asks for; nothing where its ids are judged in its turn.
    fn judge_replace(
        &self,
        at: usize,
        message: &Message<'_>,
        clock: Clock,
    ) -> Result<Option<(Grant, NamedSay)>, Denied> {
        let seat = &self.seats[at];
        let [id, original] =
            [11, 41].map(|tag| key(tag, seat.prefix(), message.value(tag).unwrap_or_default()));
        let venue = seat.next().and_then(|venue| Some((venue, self.seats[venue].book.as_ref()?)));
        let Some((venue, book)) = venue.filter(|(_, book)| book.owner(&id).is_none()) else {
            return Ok(None);
        };
        let (owner, _) = book.owner(&original).ok_or(Denied::NoOrder)?;
        if owner != seat.keys.name {
            return Ok(None);
        }
        let place = book.place(&original).ok_or(Denied::NoOrder)?;
        let (head, order, label) = book.order_at(place).ok_or(Denied::NoOrder)?;
        let version = exposure::replace(message, (&head, &order), self.quote(seat, clock))?;
        seat.judge_caps(message, head.symbol, Some(version.size))?;
        let asked = order.ask(&version).map_err(Denied::Order)?;
        let amounts = order
            .amounts()
            .zip(asked)
            .map(|((budget, now), (_, then))| (budget, limits::raised(now, then)));
        let key = head.key.ok_or(Denied::NoOrder)?;
        let say = limits::ask(key, cut(&label), amounts);
        let what = Granted::Replace(place, order.legs().into(), version.size);
        Ok(Some((Grant { key, venue, what }, say)))
    }

    /// Returns what prices a client's order.
    fn quote<'q>(&'q self, seat: &'q Seat, clock: Clock) -> Quote<'q> {
        let (caps, now_ms) = (seat.caps(), clock.unix_us.div_euclid(1_000));
        Quote { references: &self.references, now_ms, refuses_sales: seat.refuses_sales(), caps }
    }

    /// Says how prices are used.
    pub fn set_price_terms(&mut self, terms: PriceTerms) {
        self.references.terms = terms;
    }

    /// Takes what symbols cost from now on; returns what they did before, for somebody else to free.
    pub fn set_prices(&mut self, prices: Arc<Prices>) -> Arc<Prices> {
        std::mem::replace(&mut self.references.file, prices)
    }

    /// Reports whether an order that is sent again (43=Y) was made longer ago than the venue is to get one.
    fn is_too_old(&self, venue: usize, message: &Message<'_>, clock: Clock) -> bool {
        let max_ms = i64::try_from(self.seats[venue].max_order_age_ms()).unwrap_or(i64::MAX);
        if max_ms == 0 || message.value(43) != Some(b"Y") {
            return false;
        }
        let sent = message.value(122).and_then(Timestamp::parse).map(Timestamp::unix_ms);
        sent.is_none_or(|sent| clock.unix_us.div_euclid(1_000).saturating_sub(sent) > max_ms)
    }

    /// Does what a client's message asks for, now that it is its turn.
    fn serve(&mut self, at: usize, message: &Message<'_>, progress: Progress, clock: Clock) {
        if let Some(denied) = self.stopped(at, message) {
            self.give_back(granted(progress));
            return self.refuse_stopped(at, (message, denied), clock);
        }
        let (seat, kind) = (&self.seats[at], Exposure::of(message.msg_type()));
        let may_pass = !seat.is_limited() || seat.passes_unpriced(message.msg_type());
        match (kind, progress) {
            (Exposure::Replace, Progress::Granted(grant)) => {
                self.replace(at, message, grant, clock);
            }
            (_, Progress::Granted(grant)) => {
                let mut grant = Some(grant);
                self.pass_up(at, message, &mut grant, clock);
                self.give_back(grant);
            }
            (_, Progress::Denied(denied)) => {
                self.refuse_order(at, message, Cause::Denied(denied), clock);
            }
            (Exposure::Unpriced, _) if !may_pass => {
                self.happenings.push(Happening::OrderRefused(at, RefusedFor::Unpriced));
                self.step(at, clock, |seat, _, turn| {
                    seat.session.refuse(message, 3, UNSUPPORTED_TYPE, turn);
                });
            }
            _ => self.pass_up(at, message, &mut None, clock),
        }
    }

    /// Passes a replace on that was granted, if its order still takes it.
    fn replace(&mut self, at: usize, message: &Message<'_>, grant: Box<Grant>, clock: Clock) {
        let (key, judged) = (grant.key, self.judge_replace(at, message, clock));
        let mut grant = Some(grant);
        match judged {
            Ok(Some((now, _))) if now.key != key => {
                self.refuse_order(at, message, Cause::Denied(Denied::Unanswered), clock);
            }
            Ok(_) => self.pass_up(at, message, &mut grant, clock),
            Err(denied) => self.refuse_order(at, message, Cause::Denied(denied), clock),
        }
        if grant.is_none() {
            // The flush tells how the order stands.
            self.sayings.end_replace(key, false);
        }
        self.give_back(grant);
    }

    /// Does what is to be done with messages that wait for nothing any more.
    fn advance(&mut self, at: usize, clock: Clock) {
        self.touch(at);
        while let Some(waiter) = self.seats[at].line_up.take_ready() {
            if let Some(asked) = self.serve_waiter(at, waiter, clock) {
                self.seats[at].line_up.put_back(asked);
            }
        }
        self.hold_numbers(at);
    }

    /// Serves a message whose turn it is; returns one that has to ask first.
    fn serve_waiter(&mut self, at: usize, mut waiter: Waiter, clock: Clock) -> Option<Waiter> {
        let mut index = self.second_index.take()?;
        let read = match frame(&waiter.bytes, usize::MAX) {
            Framing::Whole(frame) => index.read(frame).ok(),
            _ => None,
        };
        let is_of_now = self.stores.store(at).created_unix_ms() == waiter.life_ms;
        let venue = self.seats[at].next().filter(|venue| self.seats[*venue].is_open);
        let mut has_asked = false;
        match (read, std::mem::replace(&mut waiter.progress, Progress::Behind)) {
            (Some(message), mut progress) if is_of_now && venue.is_some() => {
                let is_replace = Exposure::of(message.msg_type()) == Exposure::Replace;
                if is_replace && matches!(progress, Progress::Behind) {
                    // Its own time began when it came: a cancel may be behind it.
                    let is_late = waiter.since_ms + ANSWER_MS <= clock.ms;
                    progress = self.ask_in_turn(at, (&message, is_late), clock);
                }
                has_asked = matches!(progress, Progress::Asked(_));
                match has_asked {
                    true => waiter.progress = progress,
                    false => self.serve(at, &message, progress, clock),
                }
            }
            (read, progress) => {
                if let Some(message) = read {
                    match is_of_now {
                        true => self.refuse_unavailable(at, &message, clock),
                        false => self.refuse_order(at, &message, Cause::Reset, clock),
                    }
                }
                self.give_back(granted(progress));
            }
        }
        self.second_index = Some(index);
        has_asked.then_some(waiter)
    }

    /// The client's number is kept only up to the first message that waits.
    fn hold_numbers(&mut self, at: usize) {
        let store = self.stores.store(at);
        store.hold_next_in(self.seats[at].line_up.first_seq(store.created_unix_ms()));
    }

    /// Forgets what waits of a session whose connection is over: the client sends it again.
    pub(crate) fn drop_line_up(&mut self, at: usize) {
        if self.seats[at].line_up.is_empty() {
            return;
        }
        let store = self.stores.store(at);
        if let Some(first) = self.seats[at].line_up.first_seq(store.created_unix_ms()) {
            // It is what the store has kept.
            let _ = store.set_next_in(first.min(store.next_in()));
        }
        store.hold_next_in(None);
        for waiter in self.seats[at].line_up.take() {
            self.give_back(granted(waiter.progress));
        }
    }

    /// Orders of a client that have waited long enough are refused.
    pub(crate) fn give_up(&mut self, at: usize, clock: Clock) {
        if self.seats[at].line_up.due_ms().is_some_and(|due| due <= clock.ms) {
            self.seats[at].line_up.give_up(clock.ms);
            self.advance(at, clock);
        }
    }

    /// Reports whether so many messages of a connection wait that nothing more of it is to be read for now.
    #[must_use]
    pub fn is_full(&self, line: &Line) -> bool {
        self.session_of(line).is_some_and(|at| self.seats[at].line_up.is_full())
    }

    /// What is granted and not used ends.
    pub(crate) fn give_back(&mut self, grant: Option<Box<Grant>>) {
        let Some(grant) = grant else { return };
        let Grant { key, venue, what } = *grant;
        match what {
            Granted::Order(order) => self.sayings.end(key, &order),
            Granted::Replace(place, ..) => self.end_replace((venue, place, key), true),
        }
    }

    /// A replace is not sent. What else its order had to tell the ledger is told.
    fn end_replace(&mut self, of: (usize, RowPlace, u128), is_raised: bool) {
        if self.sayings.end_replace(of.2, is_raised) {
            self.tell_stands(of);
        }
    }

    /// Says which budgets bind orders from now on.
    pub fn set_orders(&mut self, orders: Arc<OrderIndex>) {
        self.orders = orders;
    }

    /// Reports whether orders of a session are held against budgets.
    #[must_use]
    pub fn holds_orders(&self) -> bool {
        self.seats.iter().any(Seat::is_limited)
    }

    /// Says which start of the machine this is, not 0: by that and the venue it is known later whether an order of the ledger may have left.
    pub fn set_boot(&mut self, boot: u32) {
        self.sayings.boot = boot;
    }

    /// Says of which orders, by the keys of their named holds, the ledger may know everything: nothing is said as they are forgotten.
    pub fn leave_unsaid(&mut self, keys: impl IntoIterator<Item = u128>) {
        self.sayings.unsaid = keys.into_iter().collect();
    }

    /// Takes what is to be said to the ledger after a flush, each with the number that its answers come with.
    pub fn take_says(&mut self) -> Vec<ToLedger> {
        self.sayings.take_out()
    }

    /// Takes the ledger's answers. What follows from them leaves with the next [`Door::flush`].
    pub fn answered(&mut self, number: u64, answers: &[NamedAnswer], clock: Clock) {
        match (self.sayings.take(number), answers) {
            (Some(Saying::Ask { client, grant }), [answer]) => {
                self.asked(number, (client, grant), *answer, clock);
            }
            (Some(saying), _) => {
                let told = self.sayings.answered(saying, answers);
                let behind = self.sayings.take_behind();
                told.stands.into_iter().chain(behind).for_each(|stands| self.tell_stands(stands));
                self.happenings.extend(told.refused.map(Happening::NotBooked));
            }
            (None, _) => {}
        }
    }

    /// Tells the ledger again what it could not record; to be called each second.
    pub fn say_again(&mut self) {
        for stands in self.sayings.say_again() {
            self.tell_stands(stands);
        }
    }

    /// Reports whether the ledger has still to hear or to answer something.
    #[must_use]
    pub fn has_sayings(&self) -> bool {
        self.sayings.are_under_way()
    }

    /// Tells the ledger what a flush has made of named holds.
    pub(crate) fn tell_holds(&mut self, venue: usize) {
        let Some(book) = &mut self.seats[venue].book else { return };
        for change in book.take_holds() {
            match change {
                HoldChange::Stands(place, key) => self.tell_stands((venue, place, key)),
                HoldChange::Ends(key, order) => self.sayings.end(key, &order),
                HoldChange::Merged(from, into) => _ = self.sayings.merged.insert(from, into),
            }
        }
    }

    fn tell_stands(&mut self, (venue, place, key): (usize, RowPlace, u128)) {
        if self.sayings.stands_behind((venue, place, key)) {
            return;
        }
        let book = self.seats[venue].book.as_ref();
        if let Some((label, order)) = book.and_then(|book| book.bound_at(place, key)) {
            self.sayings.stands((venue, place, key), (&label, &order));
        }
    }

    /// An order that a report names and nobody sent from here, where it goes to a client whose orders budgets bind, or to nobody.
    pub(crate) fn unknown(
        &mut self,
        venue: usize,
        (message, targets): (&Message<'_>, &[usize]),
        clock: Clock,
    ) -> Option<Unknown> {
        let client = if let [client] = *targets { Some(client) } else { None };
        let clients = client.as_slice();
        let mut clients =
            if clients.is_empty() { self.seats[venue].others() } else { clients }.iter();
        let is_limited = clients.any(|at| self.seats[*at].is_limited());
        let book = self.seats[venue].book.as_mut().filter(|_| is_limited)?;
        let is_execution = message.msg_type() == b"8" && exposure::executes(message);
        if !is_execution || book.place_of(message).is_some() {
            return None;
        }
        if kind(message) != b"F" {
            // It may be of an order that was forgotten, whose executions are booked.
            self.happenings.push(Happening::NobodysOrder { venue, is_booked: false });
            return None;
        }
        let seat = client.map(|client| &self.seats[client]);
        let (name, firm) = seat.map_or(("", ""), |seat| (&seat.keys.name, seat.firm()));
        let (client, mut legs) = (name.to_owned(), std::mem::take(&mut self.legs));
        let order = exposure::unknown(message, (name, firm), &self.orders, &mut legs);
        let order = order.filter(|_| nobodys_id(message).is_some());
        self.legs = legs;
        self.happenings.push(Happening::NobodysOrder { venue, is_booked: order.is_some() });
        let order = order?;
        let key = self.sayings.next_key(&self.seats[venue].keys, clock.unix_us);
        Some(Unknown { client, key, order })
    }

    /// Takes what an ask became. The order leaves with the next [`Door::flush`], or its client hears why it does not.
    fn asked(
        &mut self,
        number: u64,
        (client, grant): (usize, Box<Grant>),
        answer: NamedAnswer,
        clock: Clock,
    ) {
        let progress = match answer {
            Ok(_) => Progress::Granted(grant),
            Err(refusal) => {
                if let Granted::Replace(place, ..) = grant.what {
                    self.end_replace((grant.venue, place, grant.key), false);
                }
                Progress::Denied(Denied::of(refusal, grant.legs()))
            }
        };
        match self.seats[client].line_up.answer(number, progress) {
            Ok(()) => self.advance(client, clock),
            Err(late) => self.give_back(granted(late)),
        }
    }

    /// Answers an order whose ClOrdID its client has used: sent again, it hears how it stands; else it is a duplicate.
    pub(crate) fn answer_known(
        &mut self,
        [at, venue]: [usize; 2],
        message: &Message<'_>,
        clock: Clock,
    ) {
        self.tie_if_touched(at, venue);
        let id = key(11, self.seats[at].prefix(), message.value(11).unwrap_or_default());
        let is_again = [43, 97].iter().any(|tag| message.value(*tag) == Some(b"Y"));
        let known = self.seats[venue].book.as_ref().filter(|_| is_again);
        let Some(known) = known.and_then(|book| book.known(&id)) else {
            return self.refuse_order(at, message, Cause::Duplicate, clock);
        };
        let exec_id = self.exec_id(clock);
        let body = status(message, &known, &exec_id, clock.unix_us.div_euclid(1_000));
        // A store that fails is found by the flush.
        self.step(at, clock, |seat, _, turn| drop(seat.session.send(b"8", &body, turn)));
    }
}

fn granted(progress: Progress) -> Option<Box<Grant>> {
    if let Progress::Granted(grant) = progress { Some(grant) } else { None }
}
