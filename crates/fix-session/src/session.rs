//! The session: its state, and the doors into it.

use fix::{
    Envelope, Framing, Garbled, Index, Message, RewriteError, Sending, TimestampReader, ValueError,
    frame,
};

use crate::compose::{Composer, Fields, Heading};
use crate::config::{Role, SessionConfig};
use crate::gap::{EarlyMessages, Gap};
use crate::replay::Replay;
use crate::schedule::Period;
use crate::store::{MessageStore, StoreError};
use crate::throttle::Throttle;
use crate::turn::{Disconnect, Notice, Now, Turn};
use crate::unsure::Unsure;

/// How many garbled messages in a row close the connection.
const GARBLED_MAX: u32 = 10;
/// How long the peer has for its Logon, from the start of the connection.
pub(crate) const LOGON_WAIT_MS: u64 = 10_000;
/// How long the peer has to answer a Logout.
pub(crate) const LOGOUT_WAIT_MS: u64 = 2_000;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// There is no connection.
    Disconnected,
    /// There is a connection, and the peer's Logon has not come.
    LoggingOn,
    /// Both sides are logged on.
    LoggedOn,
    /// This side has sent a Logout and waits for the answer.
    LoggingOut,
}

/// A FIX session, either side of it: bytes and time in, bytes and notices out. It lives as long as its store, over many connections.
#[derive(Debug)]
pub struct Session {
    pub(crate) config: SessionConfig,
    pub(crate) composer: Composer,
    pub(crate) envelope: Envelope,
    /// The same with PossResend.
    pub(crate) repeated: Envelope,
    pub(crate) state: SessionState,
    pub(crate) link: Link,
    pub(crate) gap: Option<Gap>,
    pub(crate) early: EarlyMessages,
    pub(crate) replay: Option<Replay>,
    pub(crate) throttle: Throttle,
    pub(crate) unsure: Unsure,
    pub(crate) traffic: Traffic,
    /// Reads the times of what comes.
    pub(crate) times: TimestampReader,
}

/// What went over the connections of a session since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Messages that came, also those that were refused; without garbled ones.
    pub messages_in: u64,
    /// Messages that were handed out, also those that were sent again.
    pub messages_out: u64,
    /// Gaps in what came.
    pub gaps: u64,
    /// When a message last came, milliseconds since 1970-01-01T00:00:00Z.
    pub last_in_unix_ms: Option<i64>,
    /// When one was last handed out.
    pub last_out_unix_ms: Option<i64>,
}

impl Traffic {
    fn note_in(&mut self, unix_ms: i64) {
        self.messages_in += 1;
        self.last_in_unix_ms = Some(unix_ms);
    }

    pub(crate) fn note_out(&mut self, unix_ms: i64) {
        self.messages_out += 1;
        self.last_out_unix_ms = Some(unix_ms);
    }
}

/// What is known about one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    /// When it began; in [`SessionState::LoggingOut`] when the Logout was sent.
    pub(crate) since_ms: u64,
    pub(crate) heart_bt_ms: u64,
    pub(crate) last_in_ms: u64,
    pub(crate) last_out_ms: u64,
    /// A TestRequest was sent and nothing has come since.
    pub(crate) test_sent: bool,
    /// This side's Logon had ResetSeqNumFlag, and the answer to it has not come.
    pub(crate) reset_sent: bool,
    /// When the period of the schedule ends, on the clock of timers.
    pub(crate) period_end_ms: Option<u64>,
    pub(crate) period: Option<Period>,
    /// Text of the Logout that was sent.
    pub(crate) logout_text: String,
    garbled: u32,
}

/// What stands behind a session.
pub trait Application<S: MessageStore> {
    /// Takes an application message, the next in the order in which the peer sent them, and each only once. It may send through the
    /// session, also answers.
    ///
    /// The expected number has moved on already. That move and what the application did become durable together, by the flush at the end
    /// of the step ([`crate::MessageStores::flush`]): a process that ends in between has neither lost the message nor takes it twice.
    fn take(&mut self, session: &mut Session, message: &Message<'_>, turn: &mut Turn<'_, S>);

    /// Learns of a message once it is read, before it is kept and judged: a hint for what [`Application::take`] will look at in memory. It
    /// may never be taken.
    fn soon(&self, _message: &Message<'_>) {}

    /// Learns that the peer rejected a message with a Reject (3), whose RefSeqNum (45) names it.
    fn rejected(&mut self, _reject: &Message<'_>) {}

    /// Reports whether a message that the peer asks for may be sent again; if not, a gap fill takes its place.
    fn may_resend(&mut self, _message: &Message<'_>) -> bool {
        true
    }
}

/// A second connection of a session that has one: it is to be closed without a byte, and the first stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has a connection already")]
pub struct AlreadyConnected;

/// Why a message was not numbered. Nothing has changed then, except that a failed store disconnects the session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The message cannot get a new header.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    /// The store did not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Session {
    /// Returns a session without a connection.
    ///
    /// # Errors
    /// [`ValueError`] if BeginString or a CompID is empty or contains SOH.
    pub fn new(config: SessionConfig) -> Result<Session, ValueError> {
        let [begin, sender, target] =
            [&config.begin_string, &config.sender_comp_id, &config.target_comp_id];
        let envelope = Envelope::new(begin, sender, target)?.signed(config.signed);
        Ok(Session {
            composer: Composer::new(begin, sender, target)?,
            repeated: envelope.clone().set(97, Some("Y"))?,
            envelope,
            state: SessionState::Disconnected,
            link: Link::default(),
            gap: None,
            early: EarlyMessages::new(config.queue_bytes_max),
            replay: None,
            throttle: Throttle::new(config.throttle_per_s),
            unsure: Unsure::default(),
            traffic: Traffic::default(),
            times: TimestampReader::default(),
            config,
        })
    }

    /// Returns where the session stands.
    #[must_use]
    pub fn state(&self) -> SessionState {
        self.state
    }

    /// Returns what went over its connections.
    #[must_use]
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &SessionConfig {
        &self.config
    }

    /// Takes another configuration, at any time. What it says of a Logon or of a period counts from the next connection on, everything else
    /// at once. Side, BeginString and CompIDs stay: with others it would be another session.
    pub fn set_config(&mut self, config: SessionConfig) {
        let SessionConfig { role, begin_string, sender_comp_id, target_comp_id, signed, .. } =
            self.config.clone();
        if config.throttle_per_s != self.config.throttle_per_s {
            self.throttle = Throttle::new(config.throttle_per_s);
        }
        self.config =
            SessionConfig { role, begin_string, sender_comp_id, target_comp_id, signed, ..config };
    }

    /// Reports whether new messages may be sent with meaning: both sides are logged on, and nothing is missing from before. Orders of
    /// the present wait for this, otherwise fills of the past arrive behind them.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.state == SessionState::LoggedOn && self.gap.is_none()
    }

    /// Reports whether messages are being sent again, under their numbers or after a reset as new ones: [`Session::resume`] goes on with it.
    #[must_use]
    pub fn is_resending(&self) -> bool {
        self.replay.is_some() || self.unsure.repeating
    }

    /// Reports whether a message (the first of a connection) names this session by BeginString, SenderCompID and TargetCompID.
    #[must_use]
    pub fn is_named_by(&self, message: &Message<'_>) -> bool {
        message.begin_string() == self.config.begin_string.as_bytes() && self.has_comp_ids(message)
    }

    pub(crate) fn has_comp_ids(&self, message: &Message<'_>) -> bool {
        message.value(49) == Some(self.config.target_comp_id.as_bytes())
            && message.value(56) == Some(self.config.sender_comp_id.as_bytes())
    }

    /// Takes a connection. An initiator sends its Logon.
    ///
    /// # Errors
    /// [`AlreadyConnected`] if there is one; that one goes on untouched.
    pub fn connected<S: MessageStore>(
        &mut self,
        turn: &mut Turn<'_, S>,
    ) -> Result<(), AlreadyConnected> {
        if self.state != SessionState::Disconnected {
            return Err(AlreadyConnected);
        }
        let now_ms = turn.now.ms;
        self.link =
            Link { since_ms: now_ms, last_in_ms: now_ms, last_out_ms: now_ms, ..Link::default() };
        let entered = self.enter_period(turn);
        self.state = SessionState::LoggingOn;
        if let Err(error) = entered {
            self.disconnect(Disconnect::Store(error), turn);
            return Ok(());
        }
        if self.config.role == Role::Initiator {
            self.open(turn);
        }
        Ok(())
    }

    /// Learns that the connection is gone without a Logout.
    pub fn disconnected(&mut self) {
        self.state = SessionState::Disconnected;
        self.gap = None;
        self.early.clear();
        self.replay = None;
        self.unsure.clear();
    }

    /// Takes received bytes, hands the application its messages, and returns how many bytes were used; the rest is the beginning of a
    /// message and is to be given again with what follows it.
    ///
    /// Garbled bytes are ignored, before the logon they end the connection, and so do ten garbled messages in a row. A message that is
    /// garbled whenever it is sent leaves a gap that cannot be closed: the peer is asked three times, then the session logs out.
    pub fn feed<S: MessageStore, A: Application<S>>(
        &mut self,
        input: &[u8],
        index: &mut Index,
        turn: &mut Turn<'_, S>,
        application: &mut A,
    ) -> usize {
        let mut used = 0;
        while self.state != SessionState::Disconnected {
            match frame(&input[used..], self.config.body_bytes_max) {
                Framing::Partial { .. } => break,
                Framing::TooLong { body_bytes } => {
                    self.disconnect(Disconnect::TooLong { body_bytes }, turn);
                }
                Framing::Ignored { skip, cause } => {
                    used += skip;
                    self.garbled(cause, turn);
                }
                Framing::Whole(frame) => {
                    used += frame.bytes().len();
                    match index.read(frame) {
                        Ok(message) => self.receive(&message, turn, application),
                        Err(cause) => self.garbled(cause, turn),
                    }
                }
            }
            if self.gap.is_some() || !self.early.is_empty() {
                self.play(index, turn, application);
            }
            if self.replay.is_some() {
                self.resume(index, turn, application);
            }
        }
        used
    }

    fn receive<S: MessageStore, A: Application<S>>(
        &mut self,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
        application: &mut A,
    ) {
        application.soon(message);
        self.link.garbled = 0;
        self.traffic.note_in(turn.now.unix_ms);
        if self.state != SessionState::LoggingOn {
            turn.store.note_received(message.frame().bytes());
        }
        if self.judge(message, turn) {
            self.give(message, turn, application);
        }
    }

    /// Gives the application what is for it, once it counts as received.
    fn give<S: MessageStore, A: Application<S>>(
        &mut self,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
        application: &mut A,
    ) {
        match message.msg_type() {
            b"3" => application.rejected(message),
            _ => application.take(self, message, turn),
        }
    }

    fn garbled<S: MessageStore>(&mut self, cause: Garbled, turn: &mut Turn<'_, S>) {
        turn.out.notices.push(Notice::Garbled(cause));
        self.link.garbled += 1;
        if matches!(cause, Garbled::TooManyFields { .. }) {
            self.disconnect(Disconnect::TooManyFields, turn);
        } else if self.state == SessionState::LoggingOn {
            self.disconnect(Disconnect::UnfitLogon, turn);
        } else if self.link.garbled >= GARBLED_MAX {
            self.disconnect(Disconnect::Garbled { messages: self.link.garbled }, turn);
        }
    }

    /// Plays messages that came early as soon as those before them are there, and asks for what is still missing.
    fn play<S: MessageStore, A: Application<S>>(
        &mut self,
        index: &mut Index,
        turn: &mut Turn<'_, S>,
        application: &mut A,
    ) {
        while self.state != SessionState::Disconnected {
            let seq = turn.store.next_in();
            let Some(bytes) = self.early.take(seq) else { break };
            // The bytes were read before; nothing else can come out of them.
            let Framing::Whole(frame) = frame(&bytes, usize::MAX) else { continue };
            let Ok(message) = index.read(frame) else { continue };
            if self.handle(&message, seq, turn) {
                self.give(&message, turn, application);
            }
        }
        self.settle_gap(turn);
    }

    /// Numbers and keeps a message of the application, and sends it if both sides are logged on. Otherwise the peer will see a gap and
    /// ask for it. `body` holds whole fields, each with its SOH. Returns its MsgSeqNum.
    ///
    /// # Errors
    /// [`SendError::Store`] if the store does not take it.
    pub fn send<S: MessageStore>(
        &mut self,
        msg_type: &[u8],
        body: &[u8],
        turn: &mut Turn<'_, S>,
    ) -> Result<u64, SendError> {
        self.enter_period(turn)?;
        let start = turn.out.bytes.len();
        let seq = turn.store.next_out();
        let heading = Heading { msg_type, seq, ..Heading::default() };
        self.composer.write(&mut turn.out.bytes, heading, turn.now.unix_ms, body);
        Ok(self.keep(start, turn)?)
    }

    /// Passes a message of another session on: a new header, and every byte of the body as it is. Otherwise as [`Session::send`].
    ///
    /// # Errors
    /// [`SendError::Rewrite`] if it cannot get a new header, [`SendError::Store`] if the store does not take it.
    pub fn forward<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
    ) -> Result<u64, SendError> {
        self.pass(message, false, turn)
    }

    /// The same of a message that may have been passed on before, under another number: with PossResend (97=Y).
    ///
    /// # Errors
    /// As [`Session::forward`].
    pub fn forward_again<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
    ) -> Result<u64, SendError> {
        self.pass(message, true, turn)
    }

    fn pass<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        is_repeated: bool,
        turn: &mut Turn<'_, S>,
    ) -> Result<u64, SendError> {
        self.enter_period(turn)?;
        let start = turn.out.bytes.len();
        let time = self.composer.time(turn.now.unix_ms);
        let sending = Sending { seq: turn.store.next_out(), time: &time, first_sent: None };
        let envelope = if is_repeated { &self.repeated } else { &self.envelope };
        append(envelope, message, sending, &mut turn.out.bytes)?;
        Ok(self.keep(start, turn)?)
    }

    /// Gives what was written behind `start` to the store, and takes it back from the outbox if it is not to leave now.
    pub(crate) fn keep<S: MessageStore>(
        &mut self,
        start: usize,
        turn: &mut Turn<'_, S>,
    ) -> Result<u64, StoreError> {
        let seq = turn.store.next_out();
        let kept = turn.store.put(&turn.out.bytes[start..]);
        if kept.is_err() || self.state != SessionState::LoggedOn {
            turn.out.bytes.truncate(start);
        } else {
            self.link.last_out_ms = turn.now.ms;
            self.traffic.note_out(turn.now.unix_ms);
            self.note_sent(turn);
        }
        if let Err(error) = kept {
            self.store_failed(error.clone(), turn);
            return Err(error);
        }
        Ok(seq)
    }

    /// Sends a message of the session itself.
    pub(crate) fn say<S: MessageStore>(
        &mut self,
        msg_type: &[u8],
        fields: &Fields,
        turn: &mut Turn<'_, S>,
    ) {
        self.say_to(msg_type, &[], fields, turn);
    }

    /// The same with further fields in the header.
    pub(crate) fn say_to<S: MessageStore>(
        &mut self,
        msg_type: &[u8],
        routing: &[u8],
        fields: &Fields,
        turn: &mut Turn<'_, S>,
    ) {
        if self.state == SessionState::Disconnected {
            return;
        }
        let start = turn.out.bytes.len();
        let heading = Heading { msg_type, seq: turn.store.next_out(), resent: false, routing };
        self.composer.write(&mut turn.out.bytes, heading, turn.now.unix_ms, fields.bytes());
        if let Err(error) = turn.store.put(&turn.out.bytes[start..]) {
            turn.out.bytes.truncate(start);
            self.store_failed(error, turn);
            return;
        }
        self.link.last_out_ms = turn.now.ms;
        self.traffic.note_out(turn.now.unix_ms);
    }

    /// Moves the number that is expected from the peer.
    pub(crate) fn expect_next<S: MessageStore>(
        &mut self,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) -> bool {
        match turn.store.set_next_in(seq) {
            Ok(()) => true,
            Err(error) => {
                self.store_failed(error, turn);
                false
            }
        }
    }

    /// Tells the peer and disconnects, because the store does not keep what the session needs. To be called by who flushes stores, with
    /// an empty outbox, after a [`crate::MessageStores::flush`] that failed. Does nothing without a connection.
    ///
    /// The Logout cannot be kept, so its number is one too high: the peer answers such a Logout without moving on, and the number that
    /// it skips is free for the next logon.
    pub fn store_failed<S: MessageStore>(&mut self, error: StoreError, turn: &mut Turn<'_, S>) {
        if matches!(self.state, SessionState::LoggedOn | SessionState::LoggingOut) {
            let seq = turn.store.next_out() + 1;
            let heading = Heading { msg_type: b"5", seq, ..Heading::default() };
            let fields = Fields::new().text(58, b"Message store not available");
            self.composer.write(&mut turn.out.bytes, heading, turn.now.unix_ms, fields.bytes());
            self.traffic.note_out(turn.now.unix_ms);
        }
        self.disconnect(Disconnect::Store(error), turn);
    }

    pub(crate) fn disconnect<S>(&mut self, reason: Disconnect, turn: &mut Turn<'_, S>) {
        if self.state != SessionState::Disconnected {
            turn.out.disconnect = Some(reason);
            self.disconnected();
        }
    }

    /// Begins a new life of the session on this side.
    pub(crate) fn reset<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) -> bool {
        match self.begin_again(turn) {
            Ok(()) => true,
            Err(error) => {
                self.store_failed(error, turn);
                false
            }
        }
    }

    /// Begins a new life of the session on this side, as an operator does between two connections: both numbers are 1. To be flushed by the
    /// caller. Does nothing while there is a connection.
    ///
    /// # Errors
    /// [`StoreError`] if the store does not take it.
    pub fn reset_numbers<S: MessageStore>(
        &mut self,
        turn: &mut Turn<'_, S>,
    ) -> Result<(), StoreError> {
        match self.state {
            SessionState::Disconnected => self.begin_again(turn),
            _ => Ok(()),
        }
    }

    pub(crate) fn begin_again<S: MessageStore>(
        &mut self,
        turn: &mut Turn<'_, S>,
    ) -> Result<(), StoreError> {
        turn.store.reset(turn.now.unix_ms)?;
        self.gap = None;
        self.early.clear();
        self.replay = None;
        self.unsure.clear();
        turn.out.notices.push(Notice::Reset);
        Ok(())
    }

    /// Returns when [`Session::tick`] is to be called next, on the clock of [`Now::ms`]; `None` as long as there is no connection.
    #[must_use]
    pub fn deadline_ms(&self) -> Option<u64> {
        self.next_timer_ms()
    }

    /// Does what is due by time: heartbeats, test requests, a repeated ResendRequest, and the ends of waits. Calling it early is harmless.
    pub fn tick<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        self.timers(turn);
    }

    /// Reports how long the connection has been silent, milliseconds; 0 without one.
    #[must_use]
    pub fn silent_ms(&self, now: Now) -> u64 {
        match self.state {
            SessionState::Disconnected => 0,
            _ => now.ms.saturating_sub(self.link.last_in_ms),
        }
    }
}

/// Appends a message with a new header to `out`, which is as it was on an error.
pub(crate) fn append(
    envelope: &Envelope,
    message: &Message<'_>,
    sending: Sending<'_>,
    out: &mut Vec<u8>,
) -> Result<(), RewriteError> {
    /// Room for what the new header has more than the old one; most messages need no second try.
    const MORE_BYTES: usize = 128;
    let start = out.len();
    let mut room = message.frame().bytes().len() + MORE_BYTES;
    loop {
        out.resize(start + room, 0);
        match envelope.write(message, sending, &mut out[start..]) {
            Ok(bytes) => {
                out.truncate(start + bytes);
                return Ok(());
            }
            Err(RewriteError::NoRoom { needed }) if needed > room => room = needed,
            Err(error) => {
                out.truncate(start);
                return Err(error);
            }
        }
    }
}
