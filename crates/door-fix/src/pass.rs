//! What the steps of one session do to others: messages pass on, and rejections come back.

use fix::{Framing, Message, Timestamp, frame};
use fix_session::{MessageStore, MessageStores, SendError, StoreError};
use gate_orders::Phase;

use crate::book::{Book, State};
use crate::door::{Clock, Door, Happening};
use crate::gate::limits::Denied;
use crate::ids::{Claims, Named, changes, enters, key, named, with_ids};
use crate::kills::told;
use crate::line_up::{Grant, Granted};
use crate::passing::{Item, Origin, rejection_body};
use crate::peer::Guard;
use crate::refusal::{Cause, refusal};
use crate::report::{head, opened, text};
use crate::rows::{OrderView, Said, Unknown};
use crate::seat::Behind;

/// How many messages that were kept are given at once.
const GIVEN_AT_ONCE: usize = 1_024;

impl<S: MessageStores, G: Guard> Door<S, G> {
    /// Returns how many messages of a venue are kept because they named nobody's order or request.
    #[must_use]
    pub fn kept(&self, venue: usize) -> usize {
        self.seats.get(venue).and_then(|seat| seat.book.as_ref()).map_or(0, |book| book.kept())
    }

    /// Gives messages that are kept to a client of the venue, the oldest first, 1,024 at most. Returns how many are still kept: to be called
    /// again until there are none. What leaves for the client is in [`Door::take_ready`]; an absent one sees a gap.
    pub fn give_kept(&mut self, venue: usize, client: usize, clock: Clock) -> usize {
        let is_client = self.seats.get(venue).is_some_and(|seat| seat.others().contains(&client));
        if is_client && self.seats[venue].is_venue() {
            self.touch(venue);
            self.give(venue, client, clock);
            self.flush(clock);
        }
        self.kept(venue)
    }

    /// Gives what is kept to the client that the configuration names.
    pub(crate) fn give_to_named(&mut self, at: usize, clock: Clock) {
        if let Some(client) = self.seats[at].named.filter(|_| self.kept(at) > 0) {
            self.give(at, client, clock);
        }
    }

    fn give(&mut self, venue: usize, client: usize, clock: Clock) {
        for _ in 0..GIVEN_AT_ONCE {
            let given = self.with_book(venue, |book, store| book.give(store)).flatten();
            let Some(bytes) = given else { return };
            let sent = self.send_bytes(client, &bytes, false, clock);
            self.note_sent(venue, client, 0, sent);
        }
    }

    /// Opens the book of a venue. One that begins with one client says first that what it does not know is that client's.
    pub(crate) fn open_book(&mut self, at: usize) {
        if !self.seats[at].is_venue() {
            return;
        }
        let is_new = !self.stores.has_book(at);
        self.load_book(at);
        let [client] = *self.seats[at].others() else { return };
        if !is_new {
            return;
        }
        let name = self.seats[client].keys.name.clone();
        self.with_book(at, |book, store| book.begin_with(&name, store));
        let kept = self.stores.flush(&[at]);
        self.end_changes(at, kept.is_ok());
        self.happenings.extend(kept.err().map(|error| Happening::StoreFailed(at, error)));
    }

    /// Says that the stores of some sessions are older than what these sent and got. What their peers send again may have been passed on, and goes
    /// on with 97=Y from now on; whose an order is that the book of a venue does not know nobody can say, also where it was one client's. The
    /// numbers behind which they go on are kept with that, of all of them or of none.
    ///
    /// # Errors
    /// [`StoreError`] if that cannot be kept.
    pub fn doubt(&mut self, sessions: &[usize]) -> Result<(), StoreError> {
        for at in sessions.iter().copied() {
            (self.seats[at].is_behind, self.seats[at].owes_doubt) = (true, true);
        }
        for at in sessions.iter().copied() {
            self.doubt_book(at)?;
            let store = self.stores.store(at);
            // It is the same number, and a change that brings all that is known of the session to the disk.
            store.set_next_in(store.next_in())?;
        }
        let kept = self.stores.flush(sessions);
        sessions.iter().for_each(|at| self.end_changes(*at, kept.is_ok()));
        kept
    }

    /// Does something to a session that its stores keep, such as numbers that an operator sets. What its book owes it says before, and owes again
    /// where `keep` fails.
    ///
    /// # Errors
    /// [`StoreError`] of either.
    pub fn keep(
        &mut self,
        at: usize,
        clock: Clock,
        keep: impl FnOnce(&mut S) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.doubt_book(at)?;
        let before = self.stores.store(at).next_in();
        let kept = keep(&mut self.stores);
        self.end_changes(at, kept.is_ok());
        let store = self.stores.store(at);
        if store.next_in() < before {
            self.seats[at].is_set_back = true;
            if let Err(error) = store.doubt_before(clock.unix_us.div_euclid(1_000)) {
                self.happenings.push(Happening::StoreFailed(at, error));
            }
        }
        kept
    }

    /// Writes down that of a venue whose store was behind nobody knows whose the orders are that its book does not know. A book whose
    /// changes were not kept says so again; to be called before anything else of its session is kept, or judged by its book.
    ///
    /// # Errors
    /// [`StoreError`] if that cannot be said.
    pub(crate) fn doubt_book(&mut self, at: usize) -> Result<(), StoreError> {
        if std::mem::take(&mut self.seats[at].owes_doubt) {
            let said = self.try_book(at, |book, store| book.doubt(store));
            self.seats[at].owes_doubt = said.is_err();
            said?;
        }
        Ok(())
    }

    /// Ends the changes of a venue's book with a flush: they are kept, or were never made. A book that was read is not read again for that.
    pub(crate) fn end_changes(&mut self, at: usize, are_kept: bool) {
        let seat = &mut self.seats[at];
        seat.owes_doubt |= !are_kept && seat.is_behind;
        match &mut seat.book {
            Some(book) if are_kept => book.settle(),
            Some(book) if seat.is_book_read => book.undo(),
            Some(_) => self.load_book(at),
            None => {}
        }
        self.tell_holds(at);
    }

    /// Reads the book of a venue that has one, as soon as it can be opened.
    fn load_book(&mut self, at: usize) {
        self.seats[at].owes_doubt = self.seats[at].is_behind;
        let lost = self.with_book(at, |book, store| Ok(book.load(store)));
        self.seats[at].is_book_read = lost.is_some();
        let last_key = self.seats[at].book.as_ref().and_then(|book| book.last_key());
        self.sayings.last_key = self.sayings.last_key.max(last_key.unwrap_or(0));
        if let Some(lost) = lost.filter(|lost| *lost > 0) {
            self.happenings.push(Happening::IdsLost(at, lost));
        }
    }

    /// Lets something be done with the book of a venue; `None` if it has none or fails, which is told.
    pub(crate) fn with_book<R>(
        &mut self,
        venue: usize,
        act: impl FnOnce(&mut Book, &mut dyn MessageStore) -> Result<R, StoreError>,
    ) -> Option<R> {
        let done = self.try_book(venue, act);
        done.map_err(|error| self.happenings.push(Happening::StoreFailed(venue, error))).ok()?
    }

    /// The same, for those who have to know why it failed.
    fn try_book<R>(
        &mut self,
        venue: usize,
        act: impl FnOnce(&mut Book, &mut dyn MessageStore) -> Result<R, StoreError>,
    ) -> Result<Option<R>, StoreError> {
        let seat = &mut self.seats[venue];
        let Some(book) = seat.book.as_mut() else { return Ok(None) };
        match self.stores.book(venue)? {
            Some(store) => act(book, store),
            None => act(book, &mut seat.book_memory),
        }
        .map(Some)
    }

    /// Gives the messages that a session left for others to these, in order; notes the sessions that this touches.
    pub(crate) fn pass_on(&mut self, at: usize, clock: Clock) {
        let Behind::Sessions(_, passing) = &mut self.seats[at].behind else { return };
        let Some(waiting) = passing.take() else { return };
        for (number, item) in waiting.items.iter().copied().enumerate() {
            let Some(message) = waiting.messages.get(number) else { continue };
            match item {
                Item::Pass if self.seats[at].is_venue() => self.pass_down(at, &message, clock),
                Item::Pass => self.take_up(at, &message, clock),
                Item::Rejection => self.pass_rejection(at, &message, clock),
                Item::TooLate => self.too_late(at, &message, clock),
            }
        }
        if let Behind::Sessions(_, passing) = &mut self.seats[at].behind {
            passing.reuse(waiting);
        }
    }

    /// Passes a client's message on to its venue, unless it names what is another client's. A grant is taken with the order that leaves.
    pub(crate) fn pass_up(
        &mut self,
        at: usize,
        message: &Message<'_>,
        grant: &mut Option<Box<Grant>>,
        clock: Clock,
    ) {
        let Some(to) = self.seats[at].next() else { return };
        if let Err(error) = self.doubt_book(to) {
            self.happenings.push(Happening::StoreFailed(to, error));
            return self.refuse_unavailable(at, message, clock);
        }
        let mut claims = std::mem::take(&mut self.claims);
        let (client, prefix) = (&self.seats[at].keys.name, self.seats[at].prefix());
        let looked = match &self.seats[to].book {
            Some(book) => claims.look(message, client, prefix, book),
            None => Ok(()),
        };
        match looked {
            Ok(()) => self.pass_claimed([at, to], (message, grant), &claims, clock),
            Err(tag) => {
                self.tie_if_touched(at, to);
                self.refuse_duplicate(at, tag, message, clock);
            }
        }
        self.claims = claims;
    }

    /// Passes a message on from a client to its venue, whose ids are nobody else's.
    fn pass_claimed(
        &mut self,
        [at, to]: [usize; 2],
        (message, grant): (&Message<'_>, &mut Option<Box<Grant>>),
        claims: &Claims,
        clock: Clock,
    ) {
        if self.seats[at].is_limited() && matches!(message.msg_type(), b"D" | b"G") {
            if claims.is_known() {
                return self.answer_known([at, to], message, clock);
            }
            // Another venue is behind the session by now, or what was known of the id is not any more.
            if grant.as_ref().is_none_or(|grant| grant.venue != to) {
                return self.refuse_order(at, message, Cause::Denied(Denied::Unanswered), clock);
            }
        }
        let new = claims.new_ids().len();
        let room = self.seats[to].book.as_ref().is_none_or(|book| book.has_room(new));
        if !room && message.msg_type() != b"F" {
            self.happenings.push(Happening::IdsFull(to));
            self.tie_if_touched(at, to);
            return self.refuse_order(at, message, Cause::NoRoom, clock);
        }
        // An order whose owner cannot be written down does not go; why not is told.
        if self.with_book(to, |_, _| Ok(())).is_none() {
            return self.refuse_unavailable(at, message, clock);
        }
        let is_again = self.is_again(at, message, claims.is_known());
        let sent = self.send_on(to, self.prefix_of(at), (message, is_again), true, clock);
        match sent {
            Ok(_) => self.claim([at, to], claims, (message, grant), clock),
            Err(SendError::Rewrite(error)) => {
                let text = error.to_string();
                self.step(at, clock, |seat, _, turn| seat.session.refuse(message, 0, &text, turn));
                return;
            }
            Err(SendError::Store(_)) => self.refuse_unavailable(at, message, clock),
        }
        self.note_sent(at, to, message.number(34).unwrap_or(0), sent.ok());
    }

    pub(crate) fn refuse_unavailable(&mut self, at: usize, message: &Message<'_>, clock: Clock) {
        let text = "Application not available";
        self.step(at, clock, |seat, _, turn| seat.session.refuse(message, 4, text, turn));
    }

    fn prefix_of(&self, client: usize) -> String {
        self.seats[client].prefix().to_owned()
    }

    /// Notes ids that are a client's from now on, and the order or the version that comes with them.
    fn claim(
        &mut self,
        [at, venue]: [usize; 2],
        claims: &Claims,
        (message, grant): (&Message<'_>, &mut Option<Box<Grant>>),
        clock: Clock,
    ) {
        if claims.new_ids().len() + claims.doubtful_ids().len() == 0 {
            return;
        }
        // Away while the venue's book is written; no message of the client is in work meanwhile.
        let client = std::mem::take(&mut self.seats[at].keys.name);
        let original = message.value(41).filter(|id| !id.is_empty());
        let original = original.map(|id| key(41, self.seats[at].prefix(), id)).unwrap_or_default();
        let seat = &self.seats[venue];
        // Where orders do not grow too old, nobody asks whether a report has come: writing that down is saved.
        let ages = seat.max_order_age_ms() > 0;
        let fills = self.with_book(venue, |book, store| {
            for (id, state) in claims.new_ids() {
                let is_order = state == State::Sent;
                let state = if is_order && !ages { State::Live } else { state };
                let text = id.strip_prefix(b"11=").unwrap_or(id);
                let new = ((&*client, message.number(34)), state, clock.ms);
                let ids = [id, &original[..]];
                match message.msg_type() {
                    b"D" if is_order => {
                        let granted = grant.take();
                        let opened = if granted.is_none() { opened(message) } else { None };
                        let (key, order) = match granted.as_deref() {
                            Some(Grant { key, what: Granted::Order(order), .. }) => {
                                (Some(*key), Some(order))
                            }
                            _ => (None, opened.as_ref()),
                        };
                        match order {
                            Some(order) => {
                                book.open(id, new, (&head(message, text, key), order), store)
                            }
                            None => book.note(id, new.0, state, clock.ms, store),
                        }
                    }
                    b"G" if is_order => {
                        let granted = grant.take().and_then(|grant| grant.size());
                        book.join(ids, new, Said::Replace(message, text, granted), store)
                    }
                    b"F" if is_order => book.join(ids, new, Said::Cancel, store),
                    _ => book.note(id, new.0, state, clock.ms, store),
                }?;
            }
            for id in claims.doubtful_ids() {
                book.forget(id, store)?;
            }
            Ok(book.fills())
        });
        self.seats[at].keys.name = client;
        if let Some(ids) = fills.flatten() {
            self.happenings.push(Happening::IdsFill(venue, ids));
        }
    }

    /// Answers a message with an id that is another client's; what that one does with it is not told.
    fn refuse_duplicate(&mut self, at: usize, tag: u32, message: &Message<'_>, clock: Clock) {
        if matches!(message.msg_type(), b"D" | b"F" | b"G") && matches!(tag, 11 | 41) {
            return self.refuse_order(at, message, Cause::Duplicate, clock);
        }
        let text = format!("The value of tag {tag} is in use");
        self.step(at, clock, |seat, _, turn| seat.session.refuse(message, 0, &text, turn));
    }

    pub(crate) fn refuse_order(
        &mut self,
        at: usize,
        message: &Message<'_>,
        cause: Cause<'_>,
        clock: Clock,
    ) {
        let known = self.seats[at].next().and_then(|venue| {
            self.tie_if_touched(at, venue);
            self.own_order([at, venue], self.seats[at].prefix(), message)
        });
        self.answer_order(at, "", (message, known.as_ref()), cause, clock);
    }

    /// Answers an order that was sent to a venue, with the ids that it has there.
    pub(crate) fn answer_sent(
        &mut self,
        venue: usize,
        client: usize,
        (message, cause): (&Message<'_>, Cause<'_>),
        clock: Clock,
    ) {
        let known = self.own_order([client, venue], "", message);
        let prefix = self.prefix_of(client);
        self.answer_order(client, &prefix, (message, known.as_ref()), cause, clock);
    }

    /// How the client's own order stands that a request to cancel or replace it names. The prefix is put before its ids.
    fn own_order(
        &self,
        [client, venue]: [usize; 2],
        prefix: &str,
        message: &Message<'_>,
    ) -> Option<OrderView> {
        let original = text(message, 41).filter(|_| message.msg_type() != b"D")?;
        let (book, id) = (self.seats[venue].book.as_ref()?, key(41, prefix, original));
        let (owner, _) = book.owner(&id)?;
        if owner == self.seats[client].keys.name { book.known(&id) } else { None }
    }

    /// The ExecID (17) of a report that is made here.
    pub(crate) fn exec_id(&mut self, clock: Clock) -> String {
        self.refused_orders += 1;
        format!("GATE-{}-{}", clock.unix_us, self.refused_orders)
    }

    /// Sends a client the answer to an order that does not go to the venue, or that the venue did not take.
    fn answer_order(
        &mut self,
        client: usize,
        prefix: &str,
        (message, known): (&Message<'_>, Option<&OrderView>),
        cause: Cause<'_>,
        clock: Clock,
    ) {
        self.happenings.push(Happening::OrderRefused(client, cause.counted()));
        let id = self.exec_id(clock);
        let unix_ms = clock.unix_us.div_euclid(1_000);
        let answer = refusal((message, known), cause, prefix, &id, unix_ms);
        self.step(client, clock, |seat, _, turn| match &answer {
            // A store that fails is found by the flush.
            Some((msg_type, body)) => drop(seat.session.send(msg_type, body, turn)),
            None => {
                let text = String::from_utf8_lossy(&cause.text()).into_owned();
                seat.session.refuse(message, 0, &text, turn);
            }
        });
    }

    /// Passes a venue's message on to whose it is.
    fn pass_down(&mut self, at: usize, message: &Message<'_>, clock: Clock) {
        if self.takes_unknown(at, message, clock) {
            return;
        }
        let targets = self.targets(at, message);
        let unknown = self.unknown(at, (message, &targets), clock);
        self.note_changes(at, (message, unknown), clock);
        if targets.iter().any(|client| self.seats[*client].is_limited()) {
            self.references.note(message, clock.unix_us.div_euclid(1_000));
        }
        if self.takes_refusal(at, message) {
            return self.look_at_refusal(at, message, clock);
        }
        if targets.is_empty() {
            // What cannot be kept fails its step, and comes again.
            let kept = self.try_book(at, |book, store| book.keep(message.frame().bytes(), store));
            self.happenings.push(match kept {
                Ok(_) => Happening::Unaddressed(at),
                Err(error) => Happening::StoreFailed(at, error),
            });
        }
        let seq = message.number(34).unwrap_or(0);
        let is_again = self.is_again(at, message, false);
        for client in targets {
            let prefix = self.prefix_of(client);
            let sent = self.send_on(client, prefix, (message, is_again), false, clock);
            if let Err(SendError::Rewrite(error)) = &sent {
                let text = error.to_string();
                self.step(at, clock, |seat, _, turn| seat.session.refuse(message, 0, &text, turn));
            }
            self.note_sent(at, client, seq, sent.ok());
        }
        self.look_at_refusal(at, message, clock);
        self.cancel_reported(at, message, clock);
    }

    /// The clients that a venue's message goes to.
    fn targets(&mut self, at: usize, message: &Message<'_>) -> Vec<usize> {
        let unnamed = self.seats[at].book.as_mut().and_then(|book| book.unnamed(message));
        let seat = &self.seats[at];
        let clients = seat.others();
        let is_news = matches!(message.msg_type(), b"B" | b"h");
        let book = seat.book.as_ref();
        // Who was named gets what is for nobody, also while that is the first client's.
        let before = book.and_then(|book| book.owner_before());
        let before = before.filter(|_| !is_news && seat.named.is_none());
        let owner = book.zip(unnamed).map(|(book, place)| book.client_at(place));
        let owner = owner.filter(|name| !name.is_empty()).or(before);
        let found = match book.map_or(Named::Nobody, |book| named(message, book)) {
            Named::Nobody => owner.map_or(Named::Nobody, Named::Client),
            found => found,
        };
        match found {
            // The client of an order may not be configured any more; it is nobody else's.
            Named::Client(name) => self.client(name).or(seat.named).into_iter().collect(),
            Named::Several => seat.named.into_iter().collect(),
            Named::Nobody => match (seat.named, clients) {
                (Some(named), _) => vec![named],
                (None, [client]) => vec![*client],
                (None, all) if is_news => all.to_vec(),
                (None, _) => Vec::new(),
            },
        }
    }

    /// The client of a name, also of one that was removed or has another venue by now: its orders are still its own.
    pub(crate) fn client(&self, name: &str) -> Option<usize> {
        self.seats.iter().position(|seat| !seat.is_venue() && seat.keys.name == name)
    }

    /// Notes what a report says of orders.
    fn note_changes(
        &mut self,
        at: usize,
        (message, unknown): (&Message<'_>, Option<Unknown>),
        clock: Clock,
    ) {
        let value = |tag| message.value(tag).unwrap_or_default();
        let revives = matches!(value(150), b"D" | b"G" | b"H") || matches!(value(20), b"1" | b"2");
        self.with_book(at, |book, store| {
            let phase = book.report(message, unknown, clock.ms, store)?;
            for (id, state) in changes(message) {
                let Some((_, before)) = book.owner(&id) else { continue };
                let state = if phase == Some(Phase::Closed) { State::Closed } else { state };
                let changes = match (before, state) {
                    (State::Closed, State::Live) => revives,
                    (State::Asked, _) => false,
                    // A refused cancel may have the id of its order.
                    (_, State::Closed) if book.is_open(&id) => false,
                    (before, state) => before != state,
                };
                if changes {
                    book.mark(&id, state, clock.ms, store)?;
                }
            }
            Ok(())
        });
        let alarms = self.seats[at].book.as_mut().map(|book| book.take_alarms());
        let alarms = alarms.unwrap_or_default().into_iter();
        self.happenings.extend(alarms.map(|alarm| Happening::OrderAlarm(at, alarm)));
    }

    /// Reports whether a message that a session sends again (43=Y) may have been passed on before, under another number: its numbers were set back
    /// or are of a store that was behind, it was sent before they began or messages were found missing, or the client's order is known.
    fn is_again(&mut self, from: usize, message: &Message<'_>, is_known: bool) -> bool {
        if message.value(43) != Some(b"Y") {
            return false;
        }
        let seat = &self.seats[from];
        // Without a bound the peer's clock says nothing.
        if is_known || seat.is_behind || seat.is_set_back || seat.keys.max_latency_s == 0 {
            return true;
        }
        let sent = message.value(122).or_else(|| message.value(52)).and_then(Timestamp::parse);
        // The peer's clock may be as far off as a SendingTime may.
        let off_ms = i64::from(seat.keys.max_latency_s) * 1_000;
        let before = self.stores.store(from).doubtful_before_unix_ms().saturating_add(off_ms);
        sent.is_none_or(|sent| sent.unix_ms() < before)
    }

    /// Sends a message on through another session, one that may be its second time with 97=Y, with or without a prefix of the ids of orders.
    fn send_on(
        &mut self,
        to: usize,
        prefix: String,
        (message, is_again): (&Message<'_>, bool),
        put: bool,
        clock: Clock,
    ) -> Result<u64, SendError> {
        if prefix.is_empty() || message.fault().is_some() {
            return self.step(to, clock, |seat, _, turn| seat.pass(message, is_again, turn));
        }
        let bytes = with_ids(message, &prefix, put);
        self.step(to, clock, |seat, index, turn| match frame(&bytes, usize::MAX) {
            Framing::Whole(frame) => match index.read(frame) {
                Ok(message) => seat.pass(&message, is_again, turn),
                Err(_) => Err(SendError::Rewrite(fix::RewriteError::Fault)),
            },
            _ => Err(SendError::Rewrite(fix::RewriteError::Fault)),
        })
    }

    /// Sends a client a message of its venue that was kept.
    fn send_bytes(&mut self, to: usize, bytes: &[u8], put: bool, clock: Clock) -> Option<u64> {
        let mut index = self.second_index.take()?;
        let sent = match frame(bytes, usize::MAX) {
            Framing::Whole(frame) => index.read(frame).ok().and_then(|message| {
                self.send_on(to, self.prefix_of(to), (&message, false), put, clock).ok()
            }),
            _ => None,
        };
        self.second_index = Some(index);
        sent
    }

    /// Notes what a message of a session was made from, and that the session was touched.
    fn note_sent(&mut self, from: usize, to: usize, seq: u64, sent: Option<u64>) {
        if let Some(own) = sent {
            self.seats[to].passed.note(own, Origin { session: from, seq });
        }
        self.tie(from, to);
    }

    /// Tells the session whose message was rejected on the other side.
    fn pass_rejection(&mut self, at: usize, rejection: &Message<'_>, clock: Clock) {
        let Some(mut index) = self.second_index.take() else { return };
        let (seq, mut bytes) = (rejection.number(45), Vec::new());
        // What a venue was sent under that number, as it was sent.
        if let Some(seq) = seq.filter(|_| self.seats[at].book.is_some()) {
            self.stores.store(at).get(seq, &mut bytes);
        }
        let rejected = match frame(&bytes, usize::MAX) {
            Framing::Whole(frame) => index.read(frame).ok(),
            _ => None,
        };
        self.tell_rejected(at, (rejection, rejected.as_ref()), clock);
        self.second_index = Some(index);
    }

    fn tell_rejected(
        &mut self,
        at: usize,
        (rejection, rejected): (&Message<'_>, Option<&Message<'_>>),
        clock: Clock,
    ) {
        if self.takes_rejection(at, (rejection, rejected), clock) {
            return;
        }
        let id = rejected.and_then(|rejected| rejected.value(11));
        if let Some(cancel) = rejected.filter(|_| id.is_some_and(|id| self.is_own_cancel(at, id))) {
            self.happenings.push(Happening::CancelRefused(at, told(cancel)));
            return;
        }
        let passed = rejection.number(45).and_then(|seq| self.seats[at].passed.origin(seq));
        let passed = passed.map(|origin| (origin.session, Some(origin.seq)));
        let Some((to, seq)) = passed.or_else(|| self.sender(at, id?)) else {
            self.happenings.push(Happening::UnknownRejected(at));
            return;
        };
        if let Some((rejected, id)) = rejected.zip(id) {
            self.close(at, &key(11, "", id), rejected.msg_type(), clock);
        }
        let is_order = |message: &&Message<'_>| matches!(message.msg_type(), b"D" | b"F" | b"G");
        match rejected.filter(is_order).filter(|_| self.seats[to].is_limited()) {
            Some(order) => {
                let text = text(rejection, 58).unwrap_or(b"rejected by the venue");
                self.answer_sent(at, to, (order, Cause::Venue(text)), clock);
            }
            None => {
                let prefix = self.seats[to].prefix().as_bytes();
                let id = id.map(|id| id.strip_prefix(prefix).unwrap_or(id));
                let body = rejection_body(rejection, seq, id);
                // A store that fails is found by the flush.
                let _ = self.step(to, clock, |seat, _, turn| seat.session.send(b"j", &body, turn));
            }
        }
        self.tie(at, to);
    }

    /// Finds who sent an order, and with which message, by what its venue's book knows, which outlives the process.
    fn sender(&self, at: usize, id: &[u8]) -> Option<(usize, Option<u64>)> {
        let (name, seq) = self.seats[at].book.as_ref()?.sender(&key(11, "", id))?;
        Some((self.client(name)?, seq))
    }

    /// Closes what the venue did not take. Only an order (D) or a replace (G) frees money: what else has an order's id leaves that as it is.
    pub(crate) fn close(&mut self, venue: usize, id: &[u8], msg_type: &[u8], clock: Clock) {
        self.with_book(venue, |book, store| {
            let text = id.strip_prefix(b"11=").unwrap_or(id);
            if let Some(place) = book.place(id).filter(|_| matches!(msg_type, b"D" | b"G")) {
                book.hear(place, Said::Rejected(text), clock.ms, store)?;
            }
            match book.owner(id).map(|owner| owner.1) {
                Some(State::Sent | State::Live) if enters(msg_type) && !book.is_open(id) => {
                    book.mark(id, State::Closed, clock.ms, store)
                }
                _ => Ok(()),
            }
        });
    }

    /// Tells the client of an order that the venue asked for again, and that is too old to be sent: unless the venue has reported on it.
    fn too_late(&mut self, at: usize, message: &Message<'_>, clock: Clock) {
        let id = key(11, "", message.value(11).unwrap_or_default());
        let seat = &self.seats[at];
        let owner = seat.book.as_ref().and_then(|book| book.owner(&id));
        let client = owner.filter(|one| one.1 == State::Sent).and_then(|one| self.client(one.0));
        let Some(client) = client else {
            self.happenings.push(Happening::NotSentAgain(at));
            return;
        };
        self.answer_sent(at, client, (message, Cause::TooLate), clock);
        self.close(at, &id, message.msg_type(), clock);
        self.tie(at, client);
    }
}
