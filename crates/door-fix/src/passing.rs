//! Messages on their way from one session to another.

use std::collections::VecDeque;

use fix::{KeptMessages, Message, SOH, Timestamp};
use fix_session::{Application, MessageStore, Session, Turn};

use crate::book::Book;

/// How many messages of a session are known to have come from another one. What is older can be rejected without anybody being told, but for
/// orders, which the venue's book knows.
const PASSED_MAX: usize = 16_384;

/// What a client reads whose message has a type that is not taken.
pub(crate) const UNSUPPORTED_TYPE: &str = "Unsupported Message Type";

/// Is it a type by which a venue reports and answers? Passed on, it would tell the venue of executions and of other things that only the venue
/// can know.
fn is_of_venues(msg_type: &[u8]) -> bool {
    // Of orders, of quotes, of the market and its instruments, of what was asked for.
    matches!(msg_type, b"8" | b"9" | b"N" | b"r" | b"BZ")
        || matches!(msg_type, b"b" | b"AI")
        || matches!(msg_type, b"d" | b"f" | b"h" | b"w" | b"y")
        || matches!(msg_type, b"AO" | b"AP" | b"AQ" | b"BD" | b"BF")
}

/// What a step leaves to be done for other sessions: the application of clients with a venue, and of venues.
#[derive(Debug, Default)]
pub(crate) struct Passing {
    /// Whether messages can go on at present.
    pub(crate) is_available: bool,
    /// The session is a venue's, which may send what clients may not.
    pub(crate) is_venue: bool,
    /// The time of the step.
    pub(crate) now_unix_ms: i64,
    /// Orders (D, G) that are older are not sent again, milliseconds; 0 for any age.
    pub(crate) max_order_age_ms: u64,
    /// The book that the ids of its messages will be looked up in, lent by the venue for the step.
    pub(crate) book: Option<Box<Book>>,
    waiting: Waiting,
}

/// Messages that wait to go on, as they were read, and what each is.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    pub(crate) messages: KeptMessages,
    pub(crate) items: Vec<Item>,
}

/// One message that waits to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// For the session behind.
    Pass,
    /// A Reject (3) or BusinessMessageReject (j) of something that this session was sent.
    Rejection,
    /// An order that this session was asked to send again, and did not.
    TooLate,
}

impl Passing {
    fn keep(&mut self, item: Item, message: &Message<'_>) {
        self.waiting.messages.push(message);
        self.waiting.items.push(item);
    }

    /// Takes what waits, if anything does.
    pub(crate) fn take(&mut self) -> Option<Waiting> {
        (!self.waiting.items.is_empty()).then(|| std::mem::take(&mut self.waiting))
    }

    /// Gives the room back.
    pub(crate) fn reuse(&mut self, mut waiting: Waiting) {
        waiting.messages.clear();
        waiting.items.clear();
        self.waiting = waiting;
    }
}

impl<S: MessageStore> Application<S> for Passing {
    fn take(&mut self, session: &mut Session, message: &Message<'_>, turn: &mut Turn<'_, S>) {
        if message.msg_type() == b"j" {
            self.keep(Item::Rejection, message);
        } else if !self.is_venue && is_of_venues(message.msg_type()) {
            session.refuse(message, 3, UNSUPPORTED_TYPE, turn);
        } else if self.is_available {
            self.keep(Item::Pass, message);
        } else {
            session.refuse(message, 4, "Application not available", turn);
        }
    }

    /// An id is looked up only after its message is kept and judged: meanwhile the memory comes that has it. Where a client has a prefix, its
    /// ids in the book are others, and the lookup waits.
    fn soon(&self, message: &Message<'_>) {
        let field = message.find(11).and_then(|at| message.stretch(at, at + 1));
        if let Some((book, [id @ .., SOH])) = self.book.as_ref().zip(field) {
            book.prefetch(id);
        }
    }

    fn may_resend(&mut self, message: &Message<'_>) -> bool {
        if self.max_order_age_ms == 0 || !matches!(message.msg_type(), b"D" | b"G") {
            return true;
        }
        // One whose time cannot be read is as old as can be.
        let sent =
            message.value(52).and_then(Timestamp::parse).map_or(i64::MIN, Timestamp::unix_ms);
        let age_ms = self.now_unix_ms.saturating_sub(sent);
        if u64::try_from(age_ms).unwrap_or(0) <= self.max_order_age_ms {
            return true;
        }
        self.keep(Item::TooLate, message);
        false
    }

    fn rejected(&mut self, reject: &Message<'_>) {
        self.keep(Item::Rejection, reject);
    }
}

/// From which message of which session each message that a session sent was made.
#[derive(Debug, Default)]
pub(crate) struct Passed(VecDeque<(u64, Origin)>);

/// The message that another one was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) session: usize,
    /// Its MsgSeqNum there.
    pub(crate) seq: u64,
}

impl Passed {
    pub(crate) fn note(&mut self, seq: u64, origin: Origin) {
        if self.0.back().is_some_and(|last| last.0 >= seq) {
            // The numbers have begun again.
            self.0.clear();
        }
        if self.0.len() == PASSED_MAX {
            self.0.pop_front();
        }
        self.0.push_back((seq, origin));
    }

    pub(crate) fn origin(&self, seq: u64) -> Option<Origin> {
        let at = self.0.binary_search_by_key(&seq, |one| one.0).ok()?;
        self.0.get(at).map(|one| one.1)
    }
}

/// The body of the BusinessMessageReject (j) that tells who sent a message that it was rejected on the other side: 45 names his message and 379
/// its ClOrdID, if it has one; else 379 stays. So do 58, 372 and 380; of a Reject it is 0. A number that is not known is left out.
pub(crate) fn rejection_body(
    rejection: &Message<'_>,
    seq: Option<u64>,
    id: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = Vec::new();
    let mut put = |tag: u32, value: &[u8]| {
        body.extend_from_slice(format!("{tag}=").as_bytes());
        body.extend_from_slice(value);
        body.push(SOH);
    };
    if let Some(seq) = seq {
        put(45, seq.to_string().as_bytes());
    }
    for tag in [58, 372] {
        if let Some(value) = rejection.value(tag).filter(|value| !value.is_empty()) {
            put(tag, value);
        }
    }
    if let Some(id) = id.or_else(|| rejection.value(379)).filter(|id| !id.is_empty()) {
        put(379, id);
    }
    let reason = rejection.value(380).filter(|_| rejection.msg_type() == b"j");
    put(380, reason.unwrap_or(b"0"));
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_known_for_a_while_and_not_of_an_earlier_life() {
        let mut passed = Passed::default();
        let origin = |seq| Origin { session: 3, seq };
        for seq in (2..60_000).step_by(2) {
            passed.note(seq, origin(seq + 1));
        }
        assert_eq!(passed.origin(59_998), Some(origin(59_999)));
        assert_eq!(passed.origin(59_997), None);
        assert_eq!(passed.origin(2), None);
        assert_eq!(passed.0.len(), PASSED_MAX);
        passed.note(2, origin(7));
        assert_eq!((passed.origin(2), passed.origin(59_998)), (Some(origin(7)), None));
    }
}
