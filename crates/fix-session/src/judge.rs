//! What becomes of a received message: the checks in their order, then what its type asks for.
//!
//! The order is that of QuickFIX: BeginString, dictionary, SendingTime, CompIDs, number too high, number too low, application.

use std::cmp::Ordering;

use fix::{Message, RejectReason, Rejection, Tag, Timestamp};

use crate::compose::{Fields, put};
use crate::session::{Session, SessionState};
use crate::store::MessageStore;
use crate::turn::{Disconnect, Notice, Turn};

impl Session {
    /// Judges a message as it comes from the peer. Returns whether it is for the application, now.
    pub(crate) fn judge<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
    ) -> bool {
        if self.state == SessionState::LoggingOn {
            self.first_message(message, turn);
            return false;
        }
        self.link.last_in_ms = turn.now.ms;
        self.link.test_sent = false;
        self.note_heard(turn);
        if message.begin_string() != self.config.begin_string.as_bytes() {
            self.log_out("Incorrect BeginString", turn);
            return false;
        }
        let Some(seq) = message.number(34) else {
            self.log_out_at_once("Received message without MsgSeqNum", turn);
            return false;
        };
        if let Err(rejection) = self.config.strictness.validation().check(message) {
            self.reject_and_count(message, seq, rejection, turn);
            return false;
        }
        if let Err(rejection) = self.check_header(message, turn) {
            self.reject_and_count(message, seq, rejection, turn);
            if rejection.reason != RejectReason::IncorrectDataFormat {
                self.log_out("", turn);
            }
            return false;
        }
        if message.msg_type() == b"A" && is_yes(message, 141) {
            self.reset_by_peer(message, seq, turn);
            return false;
        }
        self.link.reset_sent = false;
        match message.msg_type() {
            b"2" => self.resend_request(message, seq, turn),
            b"4" => self.sequence_reset(message, seq, turn),
            b"5" => self.peer_logs_out(message, seq, turn),
            _ => return self.is_next(message, seq, turn) && self.handle(message, seq, turn),
        }
        false
    }

    /// Checks SendingTime and the CompIDs.
    fn check_header<S>(
        &mut self,
        message: &Message<'_>,
        turn: &Turn<'_, S>,
    ) -> Result<(), Rejection> {
        let Some(sent) = message.value(52).and_then(|sent| self.times.parse(sent)) else {
            return Err(rejection(RejectReason::IncorrectDataFormat, Some(52)));
        };
        if !self.is_near(sent, turn.now.unix_ms) {
            return Err(rejection(RejectReason::SendingTimeAccuracyProblem, None));
        }
        if !self.has_comp_ids(message) {
            return Err(rejection(RejectReason::CompIdProblem, None));
        }
        Ok(())
    }

    pub(crate) fn is_near(&self, sent: Timestamp, unix_ms: i64) -> bool {
        let max_ms = u64::from(self.config.max_latency_s) * 1_000;
        max_ms == 0 || sent.unix_ms().abs_diff(unix_ms) <= max_ms
    }

    /// Judges the number of a message, and answers one that is not the expected.
    pub(crate) fn is_next<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) -> bool {
        match seq.cmp(&turn.store.next_in()) {
            Ordering::Equal => return true,
            Ordering::Greater => self.too_high(message, seq, turn),
            Ordering::Less => self.too_low(message, seq, turn),
        }
        false
    }

    fn too_low<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) {
        if !is_yes(message, 43) {
            let text = too_low_text(turn.store.next_in(), seq);
            self.log_out_at_once(&text, turn);
            return;
        }
        if message.msg_type() == b"4" {
            return;
        }
        let first_sent = message.value(122);
        let Some(first_sent) = first_sent.filter(|value| !value.is_empty()) else {
            self.reject(message, seq, rejection(RejectReason::RequiredTagMissing, Some(122)), turn);
            return;
        };
        let sent = message.value(52).and_then(Timestamp::parse);
        match Timestamp::parse(first_sent) {
            Some(first) if Some(first) > sent => {
                let late = rejection(RejectReason::SendingTimeAccuracyProblem, None);
                self.reject(message, seq, late, turn);
                self.log_out("", turn);
            }
            Some(_) => {}
            None => {
                let form = rejection(RejectReason::IncorrectDataFormat, Some(122));
                self.reject(message, seq, form, turn);
            }
        }
    }

    /// Does what the expected message asks for. Returns whether it is for the application.
    pub(crate) fn handle<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) -> bool {
        if message.msg_type() == b"4" {
            // It waited for its turn: only gap fills do.
            self.gap_fill(message, seq, turn);
            return false;
        }
        if !self.expect_next(seq + 1, turn) {
            return false;
        }
        match message.msg_type() {
            b"0" | b"A" => {}
            b"1" => self.test_request(message, seq, turn),
            b"3" => {
                let (ref_seq, text) = (message.number(45), text_of(message));
                turn.out.notices.push(Notice::PeerRejected { ref_seq, text });
                return true;
            }
            _ => return self.is_within_rate(message, seq, turn),
        }
        false
    }

    fn test_request<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) {
        match message.value(112) {
            Some(id) => self.say(b"0", &Fields::new().text(112, id), turn),
            None => {
                let missing = rejection(RejectReason::RequiredTagMissing, Some(112));
                self.reject(message, seq, missing, turn);
            }
        }
    }

    /// Rejects a message, which counts as received if it was the expected one.
    pub(crate) fn reject_and_count<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        rejection: Rejection,
        turn: &mut Turn<'_, S>,
    ) {
        // A Reject is never answered with a Reject: two sides that dislike each other's would never end.
        if message.msg_type() != b"3" {
            self.reject(message, seq, rejection, turn);
        }
        if seq == turn.store.next_in() {
            self.expect_next(seq + 1, turn);
        }
    }

    pub(crate) fn reject<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        rejection: Rejection,
        turn: &mut Turn<'_, S>,
    ) {
        let reason = rejection.reason;
        let fields = Fields::new()
            .number(45, seq)
            .text(58, reason.text().as_bytes())
            .number_if(371, rejection.tag)
            .text_unless_empty(372, message.msg_type())
            .number_if(373, reason.code_in(self.config.begin_string.as_bytes()));
        self.say_to(b"3", &way_back(message), &fields, turn);
        turn.out.notices.push(Notice::Rejected { seq, rejection });
    }

    /// Sends a Logout and waits for the answer; a second call changes nothing. An empty text is left out.
    pub fn log_out<S: MessageStore>(&mut self, text: &str, turn: &mut Turn<'_, S>) {
        if self.state != SessionState::LoggedOn {
            return;
        }
        self.say_logout(text, turn);
        if self.state == SessionState::LoggedOn {
            self.state = SessionState::LoggingOut;
            self.link.since_ms = turn.now.ms;
            self.link.logout_text = text.to_owned();
        }
    }

    /// Asks the peer to send messages again, from one number to another (0 for all there are), as an operator may want. What was taken
    /// before is not taken twice. Does nothing unless both sides are logged on.
    pub fn request_resend<S: MessageStore>(&mut self, from: u64, to: u64, turn: &mut Turn<'_, S>) {
        if self.state == SessionState::LoggedOn {
            self.say(b"2", &Fields::new().number(7, from).number(16, to), turn);
        }
    }

    /// Sends a Logout and disconnects.
    pub(crate) fn log_out_at_once<S: MessageStore>(&mut self, text: &str, turn: &mut Turn<'_, S>) {
        self.say_logout(text, turn);
        self.disconnect(Disconnect::LoggedOut { reason: text.to_owned() }, turn);
    }

    fn say_logout<S: MessageStore>(&mut self, text: &str, turn: &mut Turn<'_, S>) {
        let text = Some(text.as_bytes()).filter(|text| !text.is_empty());
        self.say(b"5", &Fields::new().text_if(58, text), turn);
    }

    fn peer_logs_out<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) {
        if seq == turn.store.next_in() && !self.expect_next(seq + 1, turn) {
            return;
        }
        if self.state == SessionState::LoggingOut {
            let reason = std::mem::take(&mut self.link.logout_text);
            self.disconnect(Disconnect::LoggedOut { reason }, turn);
        } else {
            self.say_logout("", turn);
            self.disconnect(Disconnect::PeerLoggedOut { text: text_of(message) }, turn);
        }
    }
}

pub(crate) fn too_low_text(expected: u64, received: u64) -> String {
    format!("MsgSeqNum too low, expecting {expected} but received {received}")
}

pub(crate) fn rejection(reason: RejectReason, tag: Option<i64>) -> Rejection {
    Rejection { reason, tag }
}

pub(crate) fn is_yes(message: &Message<'_>, tag: Tag) -> bool {
    message.value(tag) == Some(b"Y")
}

pub(crate) fn text_of(message: &Message<'_>) -> String {
    String::from_utf8_lossy(message.value(58).unwrap_or_default()).into_owned()
}

/// The routing fields of an answer: on behalf of whom the message came, to him the answer is to be delivered, and the other way round.
pub(crate) fn way_back(message: &Message<'_>) -> Vec<u8> {
    const PAIRS: [(Tag, Tag); 6] =
        [(115, 128), (116, 129), (128, 115), (129, 116), (144, 145), (145, 144)];
    let mut routing = Vec::new();
    for (to, from) in PAIRS {
        if let Some(value) = message.value(from).filter(|value| !value.is_empty()) {
            put(&mut routing, to, value);
        }
    }
    routing
}
