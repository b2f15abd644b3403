//! What is wrong with a request, and how HTTP says it: every error is an object of RFC 9457 with a `verdict`.

use wire::{HandleError, Verdict};

use crate::json::DEPTH_MAX;
use crate::text::Text;

/// Why a call is not even judged: the sender's fault. Nothing was reserved or booked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadCall {
    /// No JSON, or not the shape that a body has here.
    #[error("the body: at byte {at} expected {expected}")]
    Json {
        /// Where, counted in bytes from 1.
        at: usize,
        /// What should have stood there.
        expected: &'static str,
    },
    /// Bytes that are no text.
    #[error("the body: byte {at} is not UTF-8")]
    Utf8 {
        /// Where, counted in bytes from 1.
        at: usize,
    },
    /// Objects and arrays within each other.
    #[error("the body: at byte {at} more than {DEPTH_MAX} objects and arrays within each other")]
    Deep {
        /// Where, counted in bytes from 1.
        at: usize,
    },
    /// A member that the call does not have.
    #[error("member {found:?}: not one of {call}, expected {expected}")]
    Unknown {
        /// Its name, at most the first 40 bytes.
        found: Text<40>,
        /// The call.
        call: &'static str,
        /// Which members it has.
        expected: &'static str,
    },
    /// A member that stands there twice.
    #[error("member {member:?}: found twice, expected once; two readers might take different ones")]
    Twice {
        /// Its name.
        member: &'static str,
    },
    /// A member without which the call means nothing.
    #[error("member {member:?}: missing, expected {expected}")]
    Missing {
        /// Its name.
        member: &'static str,
        /// What it should be.
        expected: &'static str,
    },
    /// A member whose value cannot be used.
    #[error("member {member:?}: found {found:?}, expected {expected}")]
    Value {
        /// Its name.
        member: &'static str,
        /// The value, at most the first 40 bytes.
        found: Text<40>,
        /// What it should be.
        expected: &'static str,
    },
    /// A number outside of its range.
    #[error("member {member:?}: found {found:?}, expected a whole number from {min} to {max}")]
    Range {
        /// Its name.
        member: &'static str,
        /// The value, at most the first 40 bytes.
        found: Text<40>,
        /// The least that it may be.
        min: u64,
        /// The most that it may be.
        max: u64,
    },
    /// A hold that shall live longer than all holds of the node do.
    #[error(
        "member \"hold_ms\": found \"{found}\", expected at most {max}, which is ledger.hold_ms; raise that, or send \"confirm\":true for \
         work that takes longer: it keeps the hold until its billing deadline"
    )]
    HoldTooLong {
        /// How long, ms.
        found: u32,
        /// `ledger.hold_ms`.
        max: u32,
    },
    /// A text that is neither an id nor a handle.
    #[error("member \"budget\": {0}")]
    Handle(HandleError),
    /// More entries than a batch may have.
    #[error("the body: more than {max} entries")]
    Entries {
        /// How many there may be.
        max: usize,
    },
    /// What a path names is neither an id nor a handle.
    #[error("the path: found {found:?}, expected {expected}")]
    Path {
        /// What follows `/v1/budgets/`, as it was sent, at most the first 40 bytes.
        found: Text<40>,
        /// What should stand there.
        expected: &'static str,
    },
    /// The header `Idempotency-Key` cannot be used.
    #[error("header Idempotency-Key: expected {0}")]
    Key(&'static str),
}

/// What of a call cannot be used, for programs: the member, what it was, what it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The member, or the header.
    pub name: Box<str>,
    /// Its value; `None`: it is missing, or it is a secret.
    pub found: Option<Box<str>>,
    /// What it should be.
    pub expected: Box<str>,
}

impl Field {
    /// A member with what was found and what was expected.
    #[must_use]
    pub fn new(name: &str, found: Option<&str>, expected: &str) -> Field {
        Field { name: name.into(), found: found.map(Into::into), expected: expected.into() }
    }
}

impl BadCall {
    /// Status and verdict.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            // What is no amount by its form is told as one that the unit does not allow.
            BadCall::Value { member: "amount", .. } => Kind::of(Verdict::BadAmount),
            _ => self.fault().kind(),
        }
    }

    /// The fault that it is counted as.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self {
            BadCall::Value { member: "token", .. } => Fault::BadToken,
            BadCall::Entries { .. } => Fault::TooLarge,
            _ => Fault::Malformed,
        }
    }

    /// The member that is wrong, where it is one.
    pub(crate) fn field(&self) -> Option<Field> {
        Some(match self {
            BadCall::Json { .. }
            | BadCall::Utf8 { .. }
            | BadCall::Deep { .. }
            | BadCall::Entries { .. } => return None,
            BadCall::Unknown { found, expected, .. } => {
                Field::new(found.as_str(), Some(found.as_str()), expected)
            }
            BadCall::Twice { member } => Field::new(member, Some("twice"), "once"),
            BadCall::Missing { member, expected } => Field::new(member, None, expected),
            BadCall::Value { member, found, expected } => {
                Field::new(member, Some(found.as_str()), expected)
            }
            BadCall::Range { member, found, min, max } => {
                let expected = format!("a whole number from {min} to {max}");
                Field::new(member, Some(found.as_str()), &expected)
            }
            BadCall::HoldTooLong { found, max } => {
                let expected = format!("at most {max}, which is ledger.hold_ms");
                Field::new("hold_ms", Some(&found.to_string()), &expected)
            }
            BadCall::Handle(error) => {
                Field::new("budget", Some(&error.found()), HandleError::EXPECTED)
            }
            BadCall::Path { found, expected } => {
                Field::new("budget", Some(found.as_str()), expected)
            }
            BadCall::Key(expected) => Field::new("Idempotency-Key", None, expected),
        })
    }
}

/// How an error is told: its status, its verdict, and the kind of error for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) status: u16,
    pub(crate) verdict: &'static str,
    pub(crate) title: &'static str,
}

impl Kind {
    /// A refusal by the ledger's verdict.
    pub(crate) fn of(verdict: Verdict) -> Kind {
        Kind { status: status_of(verdict), verdict: verdict.name(), title: about(verdict).0 }
    }
}

macro_rules! faults {
    ($($fault:ident = $status:literal, $verdict:literal, $counter:literal, $title:literal, $doc:literal;)*) => {
        /// Why a request is refused that was not judged at all, beside [`BadCall`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Fault { $(#[doc = $doc] $fault,)* }

        impl Fault {
            /// All of them.
            pub const ALL: &'static [Fault] = &[$(Fault::$fault,)*];

            /// The status.
            #[must_use]
            pub fn status(self) -> u16 {
                match self { $(Fault::$fault => $status,)* }
            }

            /// The word that stands as `verdict`; several may share one.
            #[must_use]
            pub fn verdict(self) -> &'static str {
                match self { $(Fault::$fault => $verdict,)* }
            }

            /// Its name among the counters.
            #[must_use]
            pub fn counter(self) -> &'static str {
                match self { $(Fault::$fault => $counter,)* }
            }

            /// The kind of error, for people.
            pub(crate) fn title(self) -> &'static str {
                match self { $(Fault::$fault => $title,)* }
            }
        }
    };
}

faults! {
    Malformed = 400, "malformed", "malformed", "cannot be read", "The body or a header cannot be read.";
    BadToken = 400, "bad_token", "bad_token", "not a token", "What stands as `token` cannot be read as one.";
    Unauthorised = 401, "unauthorised", "unauthorised", "no token, or an unknown one", "No bearer token, or one that nobody has.";
    Forbidden = 403, "forbidden", "forbidden", "not allowed", "The token's role may not do that here.";
    Page = 403, "forbidden", "page", "not allowed", "A browser sends it for a page.";
    UnknownPath = 404, "malformed", "unknown_path", "no such path", "A path that the door does not have.";
    Method = 405, "malformed", "method", "method not allowed", "A path of the door's with a method that it does not take.";
    KeyReused = 409, "key_reused", "key_reused", "the key was used for something else", "The same `Idempotency-Key` came with another body.";
    TooLarge = 413, "malformed", "too_large", "too large", "The body is larger than `spend.body_bytes_max`, or a batch has more entries than there may be.";
    MediaType = 415, "malformed", "media_type", "the body is not JSON", "A body whose `Content-Type` is not JSON.";
    Host = 421, "malformed", "host", "not a name of this door", "A `Host` that is none of the door's names.";
    ShuttingDown = 503, "shutting_down", "shutting_down", "the node is stopping", "The node takes no calls any more.";
}

impl Fault {
    pub(crate) fn kind(self) -> Kind {
        Kind { status: self.status(), verdict: self.verdict(), title: self.title() }
    }
}

/// The status of an answer to a call.
#[must_use]
pub fn status_of(verdict: Verdict) -> u16 {
    match verdict {
        Verdict::Granted
        | Verdict::Confirmed
        | Verdict::Settled
        | Verdict::SettledOver
        | Verdict::SettledLate
        | Verdict::Released
        | Verdict::Extended => 200,
        Verdict::BadAmount | Verdict::UnitMismatch | Verdict::BadAction => 400,
        Verdict::Exhausted => 402,
        Verdict::NotStarted
        | Verdict::Ended
        | Verdict::Paused
        | Verdict::Forged
        | Verdict::Foreign => 403,
        Verdict::UnknownBudget => 404,
        Verdict::IdReused
        | Verdict::PodRefused
        | Verdict::AlreadySettled
        | Verdict::AlreadyReleased => 409,
        Verdict::Expired | Verdict::TooOld => 410,
        Verdict::Paced
        | Verdict::DayExhausted
        | Verdict::WindowExhausted
        | Verdict::PurseEmpty
        | Verdict::Busy => 429,
        Verdict::Journal | Verdict::CutOff => 503,
    }
}

/// Verdicts of other doors, which no call here comes to: `key_reused` is [`Fault::KeyReused`].
pub(crate) const NEVER: [Verdict; 3] = [Verdict::IdReused, Verdict::PodRefused, Verdict::BadAction];

/// The kind of refusal, for people, and what to do.
pub(crate) fn about(verdict: Verdict) -> (&'static str, &'static str) {
    match verdict {
        Verdict::UnknownBudget => (
            "no such budget",
            "no budget of this name that the caller may use; check the id or the handle",
        ),
        Verdict::BadAmount => (
            "not an amount that can be asked for",
            "an ask is above 0, a settle 0 or more, both at most 10^15 base units: 1000000000.00 in a currency in micros",
        ),
        Verdict::UnitMismatch => (
            "another unit",
            "the budget counts in another unit than the call names; leave unit out, or name the budget's",
        ),
        Verdict::NotStarted => ("the budget has not started", "its flight begins later"),
        Verdict::Ended => ("the budget has ended", "its flight is over, or it was removed"),
        Verdict::Paused => ("the budget is paused", "its owner has paused it"),
        Verdict::Paced => {
            ("not now", "the budget's plan leaves nothing for this moment; ask again later")
        }
        Verdict::Exhausted => (
            "less is left than was asked",
            "the limit of the budget, or of a parent, has less left than was asked; GET /v1/budgets/ and its name shows what is left",
        ),
        Verdict::WindowExhausted => (
            "less is left of a minute, an hour, a week or a month than was asked",
            "a window of the budget or of a parent has less left than was asked; ask again when the window has more",
        ),
        Verdict::DayExhausted => (
            "less is left of the day than was asked",
            "the daily limit of the budget or of a parent has less left than was asked; ask again when the day is over",
        ),
        Verdict::PurseEmpty => (
            "not at hand",
            "this worker's share is used up for the moment, more is asked for; ask again",
        ),
        Verdict::Busy => ("busy", "a bounded queue or table is full; ask again"),
        Verdict::Journal => (
            "nothing can be sealed",
            "the journal cannot seal records at the moment; nothing was booked",
        ),
        Verdict::CutOff => (
            "this node is cut off",
            "the node has had no news of its log for a whole lease, and another node may be the bank by now; nothing was booked: ask another node, or ask again",
        ),
        Verdict::Expired => (
            "too late",
            "the hold's deadline has passed; what was spent can still be settled, and is booked as late",
        ),
        Verdict::AlreadySettled => (
            "settled before",
            "the hold was settled before, with the amount of its first settle; nothing was booked now",
        ),
        Verdict::AlreadyReleased => {
            ("released before", "the hold was released before; nothing was booked now")
        }
        Verdict::Forged => ("not a token of this node", "no token that this node made reads so"),
        Verdict::Foreign => (
            "another node's token",
            "the token was issued by another node, which alone can judge it",
        ),
        Verdict::TooOld => ("too old", "nothing is known of the token's hold any more"),
        _ => ("refused", "the node refused the call"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_a_status_and_words_of_its_own() {
        let mut titles: Vec<&str> = Vec::new();
        for verdict in &Verdict::ALL {
            let status = status_of(*verdict);
            assert!([200, 400, 402, 403, 404, 409, 410, 429, 503].contains(&status), "{verdict:?}");
            if status >= 400 && !NEVER.contains(verdict) {
                titles.push(about(*verdict).0);
            }
        }
        let count = titles.len();
        titles.sort_unstable();
        titles.dedup();
        assert_eq!(titles.len(), count);
        assert!(!titles.contains(&"refused"));
        // Beside the ledger's verdicts the door has these and no others.
        let mut words: Vec<&str> = Fault::ALL.iter().map(|fault| fault.verdict()).collect();
        words.sort_unstable();
        words.dedup();
        let own =
            ["bad_token", "forbidden", "key_reused", "malformed", "shutting_down", "unauthorised"];
        assert_eq!(words, own);
        assert!(Verdict::ALL.iter().all(|verdict| !own.contains(&verdict.name())));
        let mut counters: Vec<&str> = Fault::ALL.iter().map(|fault| fault.counter()).collect();
        counters.sort_unstable();
        counters.dedup();
        assert_eq!(counters.len(), Fault::ALL.len());
    }
}
