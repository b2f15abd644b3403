//! The door: connections, the sessions they belong to, and the steps of both.

use core::net::IpAddr;
use std::sync::Arc;

use fix::{Framing, Index, ValueError, frame, is_misled};
use fix_session::{
    Disconnect, MessageStores, Notice, Now, Outbox, Session, SessionState, StoreError, Turn,
};
use gate_orders::{Alarm, Leg};
use ledger::NamedRefusal;
use table::Secret;
use weir_budgets::orders::OrderIndex;

use crate::config::FixSessions;
use crate::doubts::Doubts;
use crate::gate::limits::RefusedFor;
use crate::half_logons::HalfLogons;
use crate::ids::Claims;
use crate::kills::Kills;
use crate::peer::{Admission, Guard, Peer};
use crate::prices::References;
use crate::sayings::Sayings;
use crate::seat::{Behind, Seat};

/// How much of a CompID of a stranger is told.
const TOLD_MAX: usize = 64;
/// How long a connection has for its Logon.
const LOGON_WAIT_MS: u64 = 10_000;
/// The largest BodyLength (9) of a Logon. A session's own limit counts from its Logon on, and for it if it is lower.
const LOGON_BYTES_MAX: usize = 16 << 10;
/// How many buffers are kept for the bytes of other connections, and how large.
const SPARE_MAX: usize = 16;
const SPARE_BYTES_MAX: usize = 64 << 10;
/// Room for the fields of one message.
const FIELDS_MAX: usize = 4_096;

/// The time of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// A clock that never goes back, milliseconds from any origin.
    pub ms: u64,
    /// The wall clock, microseconds since 1970-01-01T00:00:00Z.
    pub unix_us: i64,
}

impl Clock {
    fn now(self) -> Now {
        Now { ms: self.ms, unix_ms: self.unix_us.div_euclid(1_000) }
    }
}

/// One connection, for as long as it lives.
#[derive(Debug)]
pub struct Line {
    id: u64,
    peer: Peer,
    place: Place,
    /// What the guard says of its Logon, and of which configuration; `None`: it was not asked.
    admission: Option<(u64, Admission)>,
}

impl Line {
    /// Takes the guard's answer that was to come later.
    pub fn judged(&mut self, admitted: bool) {
        if let Some((_, admission)) = &mut self.admission
            && *admission == Admission::Later
        {
            *admission = if admitted { Admission::Yes } else { Admission::No };
        }
    }

    /// Reports whether its Logon is being judged: until then nothing of it is read.
    #[must_use]
    pub fn is_judged_later(&self) -> bool {
        matches!(self.admission, Some((_, Admission::Later)))
            && matches!(self.place, Place::Half { .. })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// No Logon has come.
    Half { since_ms: u64 },
    /// It is this session's.
    Seated(usize),
    /// It is to be closed.
    Over,
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes from the start of the input that are done with.
    pub consumed: usize,
    /// Length of the message that now begins the input, as far as it is known; 0 if it is not.
    pub need: usize,
    /// The connection is to be closed once the bytes for it are sent.
    pub close: bool,
}

/// Why a connection was closed before it had a session. The peer is told nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too many connections have not logged on, of all or of its address: it was the oldest, and went for a new one.
    #[error("too many connections have not logged on, and a new one came")]
    TooMany,
    /// Its first bytes are no FIX message, or one that is too large.
    #[error("the first bytes are no FIX message that a Logon could be")]
    NoMessage,
    /// Its first message is no Logon.
    #[error("the first message is no Logon")]
    NoLogon,
    /// There is no session of its BeginString and CompIDs.
    #[error("no session has this BeginString, SenderCompID and TargetCompID")]
    NoSession,
    /// The session has a connection.
    #[error("the session has a connection already")]
    Taken,
    /// The session may not be used from there.
    #[error("the session may not be used from this address or with this certificate")]
    Origin,
    /// The guard does not admit the Logon.
    #[error("the Logon's user is not admitted")]
    Guard,
    /// No Logon came in time.
    #[error("no Logon within 10 s")]
    Late,
}

/// Who was refused, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caller {
    /// Where it came from; `None` for a process of this machine over a Unix socket.
    pub address: Option<IpAddr>,
    /// SenderCompID (49) and TargetCompID (56) of its first message, if there was one: the first 64 characters, whatever these are.
    pub comp_ids: Option<[String; 2]>,
}

/// What happened at a door; for logs, counters and alarms.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Happening {
    /// A connection was refused; the session that it named, if it named one.
    Refused(Option<usize>, Refused, Caller),
    /// A session says something.
    Notice(usize, Notice),
    /// A session's connection ends.
    Ends(usize, Disconnect),
    /// A session's store failed. What it wrote in that step did not leave.
    StoreFailed(usize, StoreError),
    /// **Alarm.** A venue's message has no client that it could go to. It is in the venue's store, and kept until [`Door::give_kept`] or the
    /// venue's `unaddressed` names a client.
    Unaddressed(usize),
    /// **Alarm.** A venue knows so many ids of orders that are not closed, 7/8 of those that it has room for.
    IdsFill(usize, usize),
    /// **Alarm.** A new order was refused: the venue has no room for its id.
    IdsFull(usize),
    /// **Alarm.** So many records of whose an order is could not be read. Reports on these orders go to nobody until somebody names a client.
    IdsLost(usize, u64),
    /// **Alarm.** A venue asked for an order again that is too old, and has reported on it: it was not sent, and its client was told nothing.
    NotSentAgain(usize),
    /// A peer rejected a message that is not known to be anybody's.
    UnknownRejected(usize),
    /// **Alarm.** What a venue says of an order does not fit what is known of it. It is booked as well as it can be.
    OrderAlarm(usize, Alarm),
    /// **Alarm.** A venue executed an order that nobody sent from here; booked if a budget binds it.
    NobodysOrder {
        /// The venue.
        venue: usize,
        /// A budget binds it.
        is_booked: bool,
    },
    /// A session's order, or a cancel or replace of one, was refused, or the venue rejected it.
    OrderRefused(usize, RefusedFor),
    /// A session whose orders budgets bind is not configured any more. Its open orders keep their budgets.
    Removed(usize),
    /// A session has another firm. Its open orders keep the budgets that they were opened with.
    OtherFirm(usize),
    /// A client is away for longer than it may: its open orders are cancelled.
    Away(usize),
    /// The gate has sent a venue a cancel (F) of its own.
    Cancelled(usize),
    /// **Alarm.** A venue refused a cancel of the gate: the order, and why.
    CancelRefused(usize, String),
    /// **Alarm.** A venue does not say whether it has so many messages of orders: the ClOrdIDs of some, and why.
    InDoubt(usize, usize, String),
    /// **Alarm.** What became of an order cannot be booked.
    NotBooked(NamedRefusal),
}

/// What a step has for another connection than its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The connection, as [`Door::opened`] or [`Door::dialled`] got it.
    pub line: u64,
    /// What is to be sent.
    pub bytes: Vec<u8>,
    /// The connection is to be closed once they are sent.
    pub close: bool,
}

/// The sessions of a door, with what stands behind them.
#[derive(Debug)]
pub struct Door<S, G> {
    pub(crate) seats: Vec<Seat>,
    /// The numbers of the configured sessions, in the order of the configuration.
    pub(crate) order: Vec<usize>,
    /// Which configuration this is; another one is judged by its own passwords.
    pub(crate) generation: u64,
    pub(crate) stores: S,
    guard: G,
    pub(crate) secret: Secret,
    pub(crate) index: Index,
    /// Reads what was kept for a client; it is away only while it does.
    pub(crate) second_index: Option<Index>,
    half_logons: HalfLogons,
    pub(crate) happenings: Vec<Happening>,
    ready: Vec<Ready>,
    /// The sessions that steps touched since the last flush, each once.
    touched: Vec<usize>,
    /// Room for the group of each of them.
    groups: Vec<usize>,
    /// One of them has ended its connection.
    has_ended: bool,
    /// Room that is used again by each step: for the bytes of [`Ready`], and the ids of a message.
    spare_bytes: Vec<Vec<u8>>,
    pub(crate) claims: Claims,
    /// How many answers to orders were made here; part of their ids.
    pub(crate) refused_orders: u64,
    pub(crate) references: References,
    /// Which budgets bind orders.
    pub(crate) orders: Arc<OrderIndex>,
    /// Work space: those of one order.
    pub(crate) legs: Vec<Leg>,
    pub(crate) sayings: Sayings,
    pub(crate) kills: Kills,
    pub(crate) doubts: Doubts,
}

impl<S: MessageStores, G: Guard> Door<S, G> {
    /// Returns a door to sessions, whose stores have the same numbers. The secret is drawn by the caller: who does not know it cannot choose
    /// ids of orders that are slow to find.
    ///
    /// # Errors
    /// [`ValueError`] if a session's BeginString or CompIDs cannot stand in a message.
    pub fn new(
        config: FixSessions,
        stores: S,
        guard: G,
        secret: Secret,
    ) -> Result<Door<S, G>, ValueError> {
        let max = config.orders_max;
        let seats = config.sessions.into_iter().map(|one| Seat::new(one, max, secret));
        let seats = seats.collect::<Result<Vec<Seat>, ValueError>>()?;
        let (index, happenings, ready) = (Index::new(FIELDS_MAX), Vec::new(), Vec::new());
        let half_logons = HalfLogons::default();
        let second_index = Some(Index::new(FIELDS_MAX));
        let mut door = Door {
            order: (0..seats.len()).collect(),
            generation: 0,
            seats,
            stores,
            guard,
            secret,
            index,
            second_index,
            half_logons,
            happenings,
            ready,
            touched: Vec::new(),
            groups: Vec::new(),
            has_ended: false,
            spare_bytes: Vec::new(),
            claims: Claims::default(),
            refused_orders: 0,
            references: References::default(),
            orders: Arc::default(),
            legs: Vec::new(),
            sayings: Sayings::default(),
            kills: Kills::default(),
            doubts: Doubts::default(),
        };
        (0..door.seats.len()).for_each(|at| door.open_book(at));
        Ok(door)
    }

    /// Returns the stores, for what an operator does between two connections.
    pub fn stores(&mut self) -> &mut S {
        &mut self.stores
    }

    /// Returns the guard, for its answers.
    pub fn guard(&mut self) -> &mut G {
        &mut self.guard
    }

    /// Returns a session by its number.
    #[must_use]
    pub fn session(&self, session: usize) -> Option<&Session> {
        self.seats.get(session).map(|seat| &seat.session)
    }

    /// Returns the number of the session that a connection has.
    #[must_use]
    pub fn session_of(&self, line: &Line) -> Option<usize> {
        match line.place {
            Place::Seated(at) => Some(at),
            Place::Half { .. } | Place::Over => None,
        }
    }

    /// Returns a session's name.
    #[must_use]
    pub fn name(&self, session: usize) -> Option<&str> {
        self.seats.get(session).map(|seat| seat.keys.name.as_str())
    }

    /// Returns what happened since the last call, in order.
    pub fn take_happenings(&mut self) -> Vec<Happening> {
        std::mem::take(&mut self.happenings)
    }

    /// Returns the numbers of the venues: sessions whose connections the gate opens.
    pub fn venues(&self) -> impl Iterator<Item = usize> {
        self.order.iter().copied().filter(|at| self.seats[*at].is_venue())
    }

    /// Returns what the steps since the last call have for other connections than their own, in order. It is to be sent before the bytes of
    /// a later step of that connection, whose numbers are higher.
    pub fn take_ready(&mut self) -> Vec<Ready> {
        std::mem::take(&mut self.ready)
    }

    /// The same, behind what `into` has; the room for the list stays here.
    pub fn take_ready_into(&mut self, into: &mut Vec<Ready>) {
        into.append(&mut self.ready);
    }

    /// Takes the bytes of a [`Ready`] back once they were sent, for the next one: without it each has room of its own.
    pub fn reuse(&mut self, mut bytes: Vec<u8>) {
        if self.spare_bytes.len() < SPARE_MAX && bytes.capacity() <= SPARE_BYTES_MAX {
            bytes.clear();
            self.spare_bytes.push(bytes);
        }
    }

    /// Takes a connection that the gate opened to a venue, and appends the Logon to `out`. `None` if the venue has one; it is then to be
    /// closed.
    pub fn dialled(
        &mut self,
        id: u64,
        venue: usize,
        clock: Clock,
        out: &mut Vec<u8>,
    ) -> Option<Line> {
        let seat = self.seats.get(venue)?;
        let is_free = seat.session.state() == SessionState::Disconnected && !seat.is_removed;
        if !seat.is_venue() || !is_free {
            return None;
        }
        let place = Place::Seated(venue);
        let mut line = Line { id, peer: Peer::default(), place, admission: None };
        self.connect(&line, venue, clock);
        self.finish(&mut line, venue, clock, out);
        Some(line)
    }

    /// Takes a connection, whose number may be any that no other open one has. Where too many have not logged on, the one that waited longest
    /// goes for it: [`Door::take_ready`] says which. `None` if the connection is to be closed, which does not happen at present.
    pub fn opened(&mut self, id: u64, peer: Peer, clock: Clock) -> Option<Line> {
        if let Some(line) = self.half_logons.take(id, peer.address) {
            self.happenings.push(Happening::Refused(None, Refused::TooMany, Caller::default()));
            self.ready.push(Ready { line, bytes: Vec::new(), close: true });
        }
        let place = Place::Half { since_ms: clock.ms };
        Some(Line { id, peer, place, admission: None })
    }

    /// Takes received bytes and appends those for the peer to `out`. What was not consumed is to be given again with what follows it.
    pub fn received(
        &mut self,
        line: &mut Line,
        input: &[u8],
        clock: Clock,
        out: &mut Vec<u8>,
    ) -> Step {
        self.received_by(line, input, clock, |door, line, at| door.finish(line, at, clock, out))
    }

    /// The same, but nothing leaves before [`Door::flush`], which is one for the steps of many connections: to be called before the worker
    /// sleeps. A step that ends a connection, or sends messages again, does not wait: it flushes all that steps left, and appends its own
    /// bytes to `out`, also those of earlier steps.
    pub fn received_and_held(
        &mut self,
        line: &mut Line,
        input: &[u8],
        clock: Clock,
        out: &mut Vec<u8>,
    ) -> Step {
        self.received_by(line, input, clock, |door, line, at| {
            door.gather(at, clock);
            !door.can_wait(at) && door.leave_with(line, at, clock, out)
        })
    }

    /// Takes received bytes. `end` has the session that they were for, and reports whether the connection is to be closed.
    fn received_by(
        &mut self,
        line: &mut Line,
        input: &[u8],
        clock: Clock,
        end: impl FnOnce(&mut Self, &mut Line, usize) -> bool,
    ) -> Step {
        self.look_for(line);
        if let Place::Half { .. } = line.place {
            match self.first_message(line, input) {
                Ok(Some(session)) => self.seat(line, session, clock),
                Ok(None) => return Step { consumed: 0, need: need(input), close: false },
                Err((session, why)) => return self.refuse(line, session, why, input),
            }
        }
        let Place::Seated(at) = line.place else {
            return Step { consumed: input.len(), need: 0, close: true };
        };
        let is_available = self.seats[at].next().is_some_and(|next| {
            // A client that is absent gets what it missed; a venue gets only what is new.
            let next = &self.seats[next];
            next.is_open || !next.is_venue()
        });
        let (is_venue, is_removed) = (self.seats[at].is_venue(), self.seats[at].is_removed);
        if let Behind::Sessions(_, passing) = &mut self.seats[at].behind {
            passing.is_available = is_available && !is_removed || is_venue;
        }
        self.swap_book(at);
        let consumed = self.step(at, clock, |seat, index, turn| seat.feed(input, index, turn));
        self.swap_book(at);
        let close = end(self, line, at);
        Step { consumed, need: need(&input[consumed..]), close }
    }

    /// Lends a session the book that the ids of its messages are looked up in; the second call gives it back.
    fn swap_book(&mut self, at: usize) {
        let seat = &self.seats[at];
        let venue = if seat.is_venue() { Some(at) } else { seat.next() };
        let Some(venue) = venue else { return };
        let mut book = self.seats[venue].book.take();
        if let Behind::Sessions(_, passing) = &mut self.seats[at].behind {
            std::mem::swap(&mut passing.book, &mut book);
        }
        self.seats[venue].book = book;
    }

    /// Returns when [`Door::tick`] is to be called for a connection, on the clock of [`Clock::ms`].
    #[must_use]
    pub fn deadline_ms(&self, line: &Line) -> Option<u64> {
        match line.place {
            Place::Half { since_ms } => Some(since_ms + LOGON_WAIT_MS),
            Place::Seated(at) => {
                let seat = self.seats.get(at)?;
                [seat.session.deadline_ms(), seat.line_up.due_ms()].into_iter().flatten().min()
            }
            Place::Over => None,
        }
    }

    /// Does what is due by time; calling it early is harmless.
    pub fn tick(&mut self, line: &mut Line, clock: Clock, out: &mut Vec<u8>) -> Step {
        self.look_for(line);
        match line.place {
            Place::Half { since_ms } if clock.ms >= since_ms + LOGON_WAIT_MS => {
                self.refuse(line, None, Refused::Late, &[])
            }
            Place::Half { .. } => Step { consumed: 0, need: 0, close: false },
            Place::Seated(at) => {
                self.give_up(at, clock);
                self.step(at, clock, |seat, _, turn| seat.session.tick(turn));
                let close = self.finish(line, at, clock, out);
                Step { consumed: 0, need: 0, close }
            }
            Place::Over => Step { consumed: 0, need: 0, close: true },
        }
    }

    /// Reports whether messages are being sent again over a connection: [`Door::resume`] goes on with it once what was sent has left.
    #[must_use]
    pub fn is_resending(&self, line: &Line) -> bool {
        matches!(line.place, Place::Seated(at) if self.seats[at].session.is_resending())
    }

    /// Sends the next part of what is being sent again, up to 64 KiB.
    pub fn resume(&mut self, line: &mut Line, clock: Clock, out: &mut Vec<u8>) -> Step {
        self.look_for(line);
        let Place::Seated(at) = line.place else { return self.tick(line, clock, out) };
        self.step(at, clock, |seat, index, turn| seat.resume(index, turn));
        let close = self.finish(line, at, clock, out);
        Step { consumed: 0, need: 0, close }
    }

    /// Sends a Logout to the session of a connection, with a reason that the peer gets, and waits for the answer.
    pub fn log_out(
        &mut self,
        line: &mut Line,
        text: &str,
        clock: Clock,
        out: &mut Vec<u8>,
    ) -> Step {
        self.look_for(line);
        let Place::Seated(at) = line.place else {
            return Step { consumed: 0, need: 0, close: true };
        };
        self.step(at, clock, |seat, _, turn| seat.session.log_out(text, turn));
        let close = self.finish(line, at, clock, out);
        // Who has not answered our Logon has nothing to be told.
        let is_early = self.seats[at].session.state() == SessionState::LoggingOn;
        Step { consumed: 0, need: 0, close: close || is_early }
    }

    /// Returns how many bytes may wait for the peer of a connection. One that has more is to be closed: its messages are in the store, and
    /// it gets them by a gap.
    #[must_use]
    pub fn unsent_bytes_max(&self, line: &Line) -> usize {
        match line.place {
            Place::Seated(at) => self.seats[at].keys.outbound_bytes_max,
            Place::Half { .. } | Place::Over => 0,
        }
    }

    /// Learns that a connection is gone. Returns how its session stood, where that had not ended it.
    pub fn closed(&mut self, line: Line) -> Option<(usize, SessionState)> {
        match line.place {
            Place::Half { .. } => drop(self.half_logons.leave(line.id)),
            // Another step may have ended it, and the session may have a new connection.
            Place::Seated(at) if self.seats[at].line == Some(line.id) => {
                let stood = self.seats[at].session.state();
                self.seats[at].session.disconnected();
                self.seats[at].line = None;
                self.seats[at].look();
                // They are kept by the next flush, and come by a gap: the next connection gets nothing of this one.
                self.seats[at].out.bytes.clear();
                self.drop_line_up(at);
                return (stood != SessionState::Disconnected).then_some((at, stood));
            }
            Place::Seated(_) | Place::Over => {}
        }
        None
    }

    /// A connection that had to go for another one is over, and so is one whose session has ended it: the session may have another by now.
    fn look_for(&self, line: &mut Line) {
        let is_over = match line.place {
            Place::Half { .. } => !self.half_logons.has(line.id),
            Place::Seated(at) => self.seats[at].line != Some(line.id),
            Place::Over => true,
        };
        if is_over {
            line.place = Place::Over;
        }
    }

    /// Judges the first message of a connection. `None` if it is not there yet.
    fn first_message(
        &mut self,
        line: &mut Line,
        input: &[u8],
    ) -> Result<Option<usize>, (Option<usize>, Refused)> {
        let frame = match frame(input, LOGON_BYTES_MAX) {
            Framing::Partial { .. } if !is_misled(input) => return Ok(None),
            Framing::Whole(frame) => frame,
            Framing::Partial { .. } | Framing::Ignored { .. } | Framing::TooLong { .. } => {
                return Err((None, Refused::NoMessage));
            }
        };
        let message = self.index.read(frame).map_err(|_| (None, Refused::NoMessage))?;
        if message.msg_type() != b"A" {
            return Err((None, Refused::NoLogon));
        }
        let (seats, guard, id) = (&self.seats, &mut self.guard, line.id);
        let is_it = |seat: &Seat| !seat.is_removed && seat.session.is_named_by(&message);
        let at = seats.iter().position(is_it);
        let at = at.ok_or((None, Refused::NoSession))?;
        let of_these = |(generation, _): &(u64, Admission)| *generation == self.generation;
        let known = line.admission.filter(of_these).map(|one| one.1);
        let judge = |at| known.unwrap_or_else(|| guard.admits(at, id, &message));
        let admission = seats[at].admits(at, &line.peer, judge).map_err(|why| (Some(at), why))?;
        line.admission = Some((self.generation, admission));
        Ok((admission == Admission::Yes).then_some(at))
    }

    fn seat(&mut self, line: &mut Line, at: usize, clock: Clock) {
        self.half_logons.leave(line.id);
        line.place = Place::Seated(at);
        self.connect(line, at, clock);
    }

    fn connect(&mut self, line: &Line, at: usize, clock: Clock) {
        self.seats[at].line = Some(line.id);
        // The session is free: this was asked before.
        let _ = self.step(at, clock, |seat, _, turn| seat.session.connected(turn));
    }

    fn refuse(
        &mut self,
        line: &mut Line,
        session: Option<usize>,
        why: Refused,
        input: &[u8],
    ) -> Step {
        self.half_logons.leave(line.id);
        line.place = Place::Over;
        let message = match frame(input, LOGON_BYTES_MAX) {
            Framing::Whole(frame) => self.index.read(frame).ok(),
            _ => None,
        };
        let told = |value: &[u8]| {
            String::from_utf8_lossy(value).chars().take(TOLD_MAX).collect::<String>()
        };
        let comp_ids =
            message.map(|message| [49, 56].map(|tag| told(message.value(tag).unwrap_or_default())));
        let caller = Caller { address: line.peer.address, comp_ids };
        self.happenings.push(Happening::Refused(session, why, caller));
        Step { consumed: 0, need: 0, close: true }
    }

    pub(crate) fn step<R>(
        &mut self,
        at: usize,
        clock: Clock,
        act: impl FnOnce(&mut Seat, &mut Index, &mut Turn<'_, S::Store>) -> R,
    ) -> R {
        self.stores.set_time(clock.unix_us);
        let seat = &mut self.seats[at];
        if let Behind::Sessions(_, passing) = &mut seat.behind {
            passing.now_unix_ms = clock.now().unix_ms;
        }
        let mut out = std::mem::take(&mut seat.out);
        let store = self.stores.store(at);
        let done = act(seat, &mut self.index, &mut Turn { now: clock.now(), store, out: &mut out });
        seat.out = out;
        done
    }

    /// Hands on what a step has for other sessions, makes it all outlive the process with what earlier steps left, hands out the bytes, and
    /// tells what happened. Reports whether the connection is to be closed.
    fn finish(&mut self, line: &mut Line, at: usize, clock: Clock, out: &mut Vec<u8>) -> bool {
        self.gather(at, clock);
        self.leave_with(line, at, clock, out)
    }

    fn leave_with(&mut self, line: &mut Line, at: usize, clock: Clock, out: &mut Vec<u8>) -> bool {
        self.settle(clock);
        self.hand_out_but(Some(at));
        let over = self.hand_out(at, out);
        if over {
            line.place = Place::Over;
            self.seats[at].line = None;
        }
        over
    }

    /// Hands on what a step of a session has for others; the next flush is of all that this touches.
    fn gather(&mut self, at: usize, clock: Clock) {
        self.touch(at);
        self.give_to_named(at, clock);
        self.pass_on(at, clock);
    }

    /// Notes that a session may have changed.
    pub(crate) fn touch(&mut self, at: usize) {
        let seat = &mut self.seats[at];
        let is_new = !std::mem::replace(&mut seat.is_touched, true);
        seat.look();
        self.has_ended |= seat.has_ended();
        if is_new {
            self.touched.push(at);
            if let Err(error) = self.doubt_book(at) {
                self.happenings.push(Happening::StoreFailed(at, error));
            }
        }
    }

    /// Notes that a session, which is touched, gave something to another one, or went by what that one has: of both all is kept or nothing.
    pub(crate) fn tie(&mut self, from: usize, to: usize) {
        debug_assert!(self.seats[from].is_touched, "untied by the next flush");
        self.touch(to);
        let (from, to) = (self.group(from), self.group(to));
        if from != to {
            self.seats[from].tied_to = Some(to);
        }
    }

    /// The same of a session that went by what another one has, where that may be of this wake-up, and so not be kept: what is of an earlier one
    /// stays, whatever becomes of this session.
    pub(crate) fn tie_if_touched(&mut self, from: usize, to: usize) {
        if self.seats[to].is_touched {
            self.tie(from, to);
        }
    }

    /// The session that stands for all that are tied to each other.
    fn group(&self, mut at: usize) -> usize {
        while let Some(next) = self.seats[at].tied_to {
            at = next;
        }
        at
    }

    /// Reports whether what steps did may wait for the next flush, of which the last was this session's: no connection has ended, whose bytes
    /// the next one of the same session would get, and nothing is being sent again, which goes on when bytes have left.
    fn can_wait(&self, at: usize) -> bool {
        let seat = &self.seats[at];
        !self.has_ended && !seat.has_ended() && !seat.session.is_resending()
    }

    /// Reports whether bytes for a connection wait for [`Door::flush`].
    #[must_use]
    pub fn owes(&self, line: &Line) -> bool {
        matches!(line.place, Place::Seated(at) if !self.seats[at].out.bytes.is_empty())
    }

    /// Makes what steps did outlive the process, with one write and at most one wait for the disk for all of them. Their bytes are then in
    /// [`Door::take_ready`]; what cannot be kept did not happen, and its sessions log out. Others go on.
    pub fn flush(&mut self, clock: Clock) {
        self.settle(clock);
        self.hand_out_but(None);
    }

    /// Makes what steps did outlive the process. What cannot be kept did not happen, of a session and of those with which it exchanged
    /// something; the others go on.
    fn settle(&mut self, clock: Clock) {
        let touched = std::mem::take(&mut self.touched);
        if !touched.is_empty() {
            let mut groups = std::mem::take(&mut self.groups);
            groups.clear();
            groups.extend(touched.iter().map(|at| self.group(*at)));
            let failed = self.stores.flush_apart(&touched, &groups);
            for at in &touched {
                self.end_changes(*at, !failed.iter().any(|one| one.0 == *at));
            }
            for (at, error) in failed {
                self.seats[at].out = Outbox::default();
                self.happenings.push(Happening::StoreFailed(at, error.clone()));
                self.step(at, clock, |seat, _, turn| seat.session.store_failed(error, turn));
            }
            self.groups = groups;
        }
        self.touched = touched;
    }

    /// Makes the bytes of all touched sessions ready but those of one, after they were settled.
    fn hand_out_but(&mut self, one: Option<usize>) {
        let mut touched = std::mem::take(&mut self.touched);
        for at in touched.drain(..) {
            (self.seats[at].is_touched, self.seats[at].tied_to) = (false, None);
            if Some(at) != one {
                self.make_ready(at);
            }
        }
        (self.touched, self.has_ended) = (touched, false);
    }

    /// Hands out what a session has for its connection, which is not that of the step.
    fn make_ready(&mut self, at: usize) {
        let mut bytes = self.spare_bytes.pop().unwrap_or_default();
        // They leave as they are, and the session goes on with other room.
        std::mem::swap(&mut bytes, &mut self.seats[at].out.bytes);
        let close = self.hand_out(at, &mut Vec::new());
        match self.seats[at].line.filter(|_| close || !bytes.is_empty()) {
            Some(line) => self.ready.push(Ready { line, bytes, close }),
            None => self.reuse(bytes),
        }
    }

    /// Has something for another connection than that of the step.
    pub(crate) fn push_ready(&mut self, ready: Option<Ready>) {
        self.ready.extend(ready);
    }

    /// Appends a session's bytes and tells what happened to it. Reports whether its connection is over.
    fn hand_out(&mut self, at: usize, out: &mut Vec<u8>) -> bool {
        if self.seats[at].session.state() == SessionState::Disconnected {
            self.drop_line_up(at);
        }
        let seat = &mut self.seats[at];
        seat.look();
        out.extend_from_slice(&seat.out.bytes);
        seat.out.bytes.clear();
        if seat.is_venue() && !seat.out.notices.is_empty() {
            self.doubts.hear(at, &seat.out.notices);
        }
        let notices = seat.out.notices.drain(..);
        self.happenings.extend(notices.map(|notice| Happening::Notice(at, notice)));
        if let Some(why) = seat.out.disconnect.take() {
            self.happenings.push(Happening::Ends(at, why));
        }
        seat.session.state() == SessionState::Disconnected
    }
}

/// How long the input must be before it makes sense to look at it again.
fn need(input: &[u8]) -> usize {
    match frame(input, usize::MAX) {
        Framing::Partial { more } if !input.is_empty() => input.len().saturating_add(more),
        _ => 0,
    }
}
