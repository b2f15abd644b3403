//! The Logon, both sides of it.

use fix::{Message, Rejection, Timestamp};

use crate::compose::Fields;
use crate::config::{Role, SessionConfig};
use crate::judge::{is_yes, text_of, too_low_text};
use crate::session::{Session, SessionState};
use crate::store::MessageStore;
use crate::turn::{Disconnect, Notice, Turn};

/// Text of a Logon with ResetSeqNumFlag whose MsgSeqNum is another than 1: nobody may set the numbers to anything else.
const RESET_TEXT: &str = "MsgSeqNum of a Logon with ResetSeqNumFlag must be 1";

/// What a Logon that may be answered says.
struct Offer {
    seq: u64,
    heart_bt_int_s: u32,
    reset: bool,
    next_expected: Option<u64>,
}

/// Why a Logon is not taken.
enum Refusal {
    /// Without a byte: nothing may be learnt by probing.
    Silent(Disconnect),
    /// With a Logout that says why.
    Told(String),
}

impl Session {
    /// Sends the Logon of an initiator.
    pub(crate) fn open<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        if self.config.schedule.period_at(turn.now.unix_ms).is_none() {
            self.disconnect(Disconnect::Closed, turn);
            return;
        }
        if self.config.reset_on_logon && !self.reset(turn) {
            return;
        }
        self.link.reset_sent = self.config.reset_on_logon;
        self.say_logon(self.config.heart_bt_int_s, turn);
    }

    fn say_logon<S: MessageStore>(&mut self, heart_bt_int_s: u32, turn: &mut Turn<'_, S>) {
        let expected = self.config.uses_next_expected().then(|| turn.store.next_in());
        let reset = self.link.reset_sent.then_some(&b"Y"[..]);
        let SessionConfig { credentials, default_appl_ver_id, .. } = &self.config;
        let version = self.config.is_fixt().then_some(default_appl_ver_id.as_bytes());
        let fields = Fields::new()
            .number(98, 0)
            .number(108, heart_bt_int_s)
            .text_if(141, reset)
            .text_unless_empty(553, credentials.username.as_bytes())
            .text_unless_empty(554, credentials.password.as_bytes())
            .number_if(789, expected)
            .text_if(1137, version);
        self.say(b"A", &fields, turn);
    }

    /// Judges the first message of a connection.
    pub(crate) fn first_message<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
    ) {
        match self.offer(message, turn) {
            Ok(offer) => self.accept(message, &offer, turn),
            Err(Refusal::Silent(reason)) => self.disconnect(reason, turn),
            Err(Refusal::Told(text)) => self.log_out_at_once(&text, turn),
        }
    }

    fn offer<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
    ) -> Result<Offer, Refusal> {
        let silent = |reason| Err(Refusal::Silent(reason));
        if !self.is_named_by(message) {
            return silent(Disconnect::OtherSession);
        }
        if message.msg_type() == b"5" && self.config.role == Role::Initiator {
            self.count_logout(message, turn);
            return silent(Disconnect::PeerLoggedOut { text: text_of(message) });
        }
        if message.msg_type() != b"A" {
            return silent(Disconnect::NoLogon);
        }
        if self.config.schedule.period_at(turn.now.unix_ms).is_none() {
            return silent(Disconnect::Closed);
        }
        let version = message.value(1137).filter(|value| !value.is_empty());
        let sent = message.value(52).and_then(Timestamp::parse);
        let (Some(seq), Some(sent)) = (message.number(34), sent) else {
            return silent(Disconnect::UnfitLogon);
        };
        if self.config.is_fixt() && version.is_none() {
            return silent(Disconnect::UnfitLogon);
        }
        if !self.is_near(sent, turn.now.unix_ms) {
            return silent(Disconnect::LogonTime);
        }
        let told = |text: &str| Err(Refusal::Told(text.to_owned()));
        let Some(heart_bt) = message.number(108).and_then(|value| u32::try_from(value).ok()) else {
            return told("HeartBtInt is missing or invalid");
        };
        if message.value(98).is_some_and(|method| method != b"0") {
            return told("Unsupported EncryptMethod");
        }
        let is_known =
            version.is_none_or(|version| version == self.config.default_appl_ver_id.as_bytes());
        if self.config.is_fixt() && self.config.role == Role::Acceptor && !is_known {
            return told("Invalid/unsupported application version (1137)");
        }
        if let Err(Rejection { reason, tag }) = self.config.strictness.validation().check(message) {
            let tag = tag.map(|tag| format!(" ({tag})")).unwrap_or_default();
            return told(&format!("{}{tag}", reason.text()));
        }
        let reset = is_yes(message, 141);
        if reset && seq != 1 {
            return told(RESET_TEXT);
        }
        let next_expected = message.number_or_max(789).filter(|_| self.config.uses_next_expected());
        Ok(Offer { seq, heart_bt_int_s: heart_bt, reset, next_expected })
    }

    /// A Logout in place of the Logon that an initiator waits for counts as received.
    fn count_logout<S: MessageStore>(&mut self, message: &Message<'_>, turn: &mut Turn<'_, S>) {
        let next_in = turn.store.next_in();
        if message.number(34) == Some(next_in) {
            self.expect_next(next_in + 1, turn);
        }
    }

    fn accept<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        offer: &Offer,
        turn: &mut Turn<'_, S>,
    ) {
        // The connection may have begun before the period did.
        if let Err(error) = self.enter_period(turn) {
            self.store_failed(error, turn);
            return;
        }
        let acceptor = self.config.role == Role::Acceptor;
        let asked = offer.reset && !self.link.reset_sent;
        if (asked || acceptor && self.config.reset_on_logon) && !self.reset(turn) {
            return;
        }
        let expected = turn.store.next_in();
        if offer.seq < expected {
            if !is_yes(message, 43) {
                self.log_out_at_once(&too_low_text(expected, offer.seq), turn);
            }
            return;
        }
        // What the peer lacks is counted before this side's answer takes a number.
        let next_out = turn.store.next_out();
        if let Some(peer_expects) = offer.next_expected.filter(|expects| *expects > next_out) {
            self.peer_is_ahead(next_out, peer_expects, turn);
            return;
        }
        if offer.seq == expected && !self.expect_next(expected + 1, turn) {
            return;
        }
        turn.store.note_received(message.frame().bytes());
        if let Some(peer_expects) = offer.next_expected {
            self.note_has(peer_expects, turn);
        }
        self.begin(offer, turn);
        if acceptor || asked {
            self.link.reset_sent = offer.reset;
            let heart_bt = self.heart_bt_s(offer);
            self.say_logon(heart_bt, turn);
        }
        // A peer that reset without being asked may answer this side's answer.
        self.link.reset_sent = asked && !acceptor;
        if self.state == SessionState::Disconnected {
            return;
        }
        if let Some(from) = offer.next_expected.filter(|expects| *expects < next_out) {
            self.start_replay(from.max(1), turn.store.next_out() - 1, turn);
        }
        self.note_sent(turn);
        if offer.seq > expected {
            self.early.keep(offer.seq, message.frame().bytes());
            self.open_gap(offer.seq - 1, offer.next_expected.is_none(), turn);
        }
    }

    fn heart_bt_s(&self, offer: &Offer) -> u32 {
        match self.config.role {
            Role::Acceptor => offer.heart_bt_int_s,
            Role::Initiator => self.config.heart_bt_int_s,
        }
    }

    /// Starts the life of the connection as a session.
    fn begin<S: MessageStore>(&mut self, offer: &Offer, turn: &mut Turn<'_, S>) {
        let heart_bt_int_s = self.heart_bt_s(offer);
        if heart_bt_int_s != offer.heart_bt_int_s {
            let seconds = offer.heart_bt_int_s;
            turn.out.notices.push(Notice::OtherHeartBtInt { seconds });
        }
        self.state = SessionState::LoggedOn;
        self.link.heart_bt_ms = u64::from(heart_bt_int_s) * 1_000;
        self.link.last_in_ms = turn.now.ms;
        self.link.last_out_ms = turn.now.ms;
        self.plan_end(turn);
        self.begin_repeating(turn);
        turn.out.notices.push(Notice::LoggedOn { heart_bt_int_s });
    }

    fn peer_is_ahead<S: MessageStore>(
        &mut self,
        next_out: u64,
        expected: u64,
        turn: &mut Turn<'_, S>,
    ) {
        turn.out.notices.push(Notice::PeerIsAhead { next_out, expected });
        let text =
            format!("NextExpectedMsgSeqNum too high, expecting {next_out} but received {expected}");
        self.log_out_at_once(&text, turn);
    }

    /// A Logon with ResetSeqNumFlag inside a session: both numbers begin again, heartbeats go on.
    pub(crate) fn reset_by_peer<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) {
        if seq != 1 {
            self.log_out_at_once(RESET_TEXT, turn);
            return;
        }
        if std::mem::take(&mut self.link.reset_sent) {
            // It is an answer, and answering it in turn would never end.
            self.expect_next(2, turn);
            return;
        }
        if !self.reset(turn) || !self.expect_next(2, turn) {
            return;
        }
        let heart_bt = message.number(108).and_then(|value| u32::try_from(value).ok());
        let heart_bt = heart_bt.unwrap_or(self.config.heart_bt_int_s);
        self.link.heart_bt_ms = u64::from(heart_bt) * 1_000;
        self.link.reset_sent = true;
        self.say_logon(heart_bt, turn);
        self.link.reset_sent = false;
        self.begin_repeating(turn);
    }
}
