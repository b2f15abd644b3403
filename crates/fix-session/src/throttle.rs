//! How many messages of a peer are taken per second.

use std::collections::VecDeque;

use fix::Message;

use crate::compose::Fields;
use crate::config::Role;
use crate::judge::way_back;
use crate::session::Session;
use crate::store::MessageStore;
use crate::turn::{Notice, Turn};

/// Text and BusinessRejectReason of a message above the rate.
const TOO_FAST: (&str, u8) = ("Message rate exceeded", 0);
/// BusinessRejectReason of a type that is not taken.
const NOT_TAKEN: u8 = 3;

/// Lets through at most so many messages in any 1,000 ms.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    /// When the messages of the last second came.
    taken_ms: VecDeque<u64>,
    /// 0 for no limit.
    per_s: usize,
}

impl Throttle {
    pub(crate) fn new(per_s: u32) -> Throttle {
        Throttle { taken_ms: VecDeque::new(), per_s: usize::try_from(per_s).unwrap_or(usize::MAX) }
    }

    /// Counts a message and reports whether it is within the rate. Messages above the rate do not count.
    pub(crate) fn takes(&mut self, now_ms: u64) -> bool {
        if self.per_s == 0 {
            return true;
        }
        while self.taken_ms.front().is_some_and(|taken| taken.saturating_add(1_000) <= now_ms) {
            self.taken_ms.pop_front();
        }
        let takes = self.taken_ms.len() < self.per_s;
        if takes {
            self.taken_ms.push_back(now_ms);
        }
        takes
    }
}

impl Session {
    /// Reports whether a message of the application is within the rate, and refuses it if not. Requests to cancel (F, q) always pass,
    /// and do not count; so do a venue's reports of executions and refusals (8, 9, j), because what happened cannot be refused.
    pub(crate) fn is_within_rate<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) -> bool {
        let always = match self.config.role {
            Role::Initiator => matches!(message.msg_type(), b"8" | b"9" | b"j"),
            Role::Acceptor => matches!(message.msg_type(), b"F" | b"q"),
        };
        if always || self.throttle.takes(turn.now.ms) {
            return true;
        }
        turn.out.notices.push(Notice::RateExceeded { seq });
        self.refuse(message, TOO_FAST.1, TOO_FAST.0, turn);
        false
    }

    /// Answers an application message with a BusinessMessageReject (j) that names its ClOrdID in 379, of a BusinessRejectReason (380), 3 for a type that is not taken, 4
    /// while what stands behind is not available. With FIXT, reason 3 ends with DefaultApplVerID (1137), as QuickFIX's does. No dictionary has
    /// it there, so an engine that checks rejects it and its application hears of nothing: other reasons go without.
    pub fn refuse<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        reason: u8,
        text: &str,
        turn: &mut Turn<'_, S>,
    ) {
        let version = self.config.default_appl_ver_id.clone();
        let version = (self.config.is_fixt() && reason == NOT_TAKEN).then_some(version.as_bytes());
        let fields = Fields::new()
            .text_if(45, message.value(34))
            .text(58, text.as_bytes())
            .text_unless_empty(372, message.msg_type())
            .text_unless_empty(379, business_id(message).unwrap_or_default())
            .number(380, reason)
            .text_if(1137, version);
        self.say_to(b"j", &way_back(message), &fields, turn);
    }
}

/// What a BusinessMessageReject names in 379: the ClOrdID (11), of an execution its ExecID (17).
fn business_id<'m>(message: &Message<'m>) -> Option<&'m [u8]> {
    message.value(if matches!(message.msg_type(), b"8" | b"Q") { 17 } else { 11 })
}
