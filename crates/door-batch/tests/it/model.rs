//! What the door should make of any bytes, said once more and slowly.

use wire::{Message, Reason, SCHEMA_VERSION, SCHEMA_VERSION_MIN, Split, frame};

use crate::support::{AUTH, LIMITS};

/// What the door says to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Welcome,
    Decided(usize),
    Pong(u64),
    Refused(Reason),
}

/// The answers to a stream of bytes, in order.
pub(crate) fn expected(mut bytes: &[u8]) -> Vec<Said> {
    let (mut said, mut greeted) = (Vec::new(), false);
    loop {
        let frame = match frame::split(bytes, LIMITS.frame_bytes_max) {
            Ok(Split::Frame(frame)) => frame,
            Ok(Split::Incomplete { .. }) => return said,
            Err(error) => {
                said.push(Said::Refused(error.reason()));
                return said;
            }
        };
        bytes = &bytes[frame.len()..];
        let (answer, closes) = answer(frame, greeted);
        greeted |= answer == Said::Welcome;
        said.push(answer);
        if closes {
            return said;
        }
    }
}

/// The answer to one frame, and whether it is the last one.
fn answer(frame: &[u8], greeted: bool) -> (Said, bool) {
    let message = match Message::decode(frame) {
        Ok(message) => message,
        Err(error) => return (Said::Refused(error.reason()), false),
    };
    let refused = |reason| (Said::Refused(reason), false);
    let batch = |count: usize| match count {
        0 => Some(Reason::BatchEmpty),
        count if count > LIMITS.batch_max => Some(Reason::BatchTooLarge),
        _ => None,
    };
    match message {
        Message::Hello(hello) => {
            let ours = SCHEMA_VERSION_MIN..=SCHEMA_VERSION;
            let common =
                ours.into_iter().any(|v| (hello.version_min()..=hello.version_max()).contains(&v));
            match (common, hello.auth() == AUTH) {
                (false, _) => (Said::Refused(Reason::VersionUnsupported), true),
                (true, false) => (Said::Refused(Reason::Unauthorised), true),
                (true, true) => (Said::Welcome, false),
            }
        }
        _ if !greeted => (Said::Refused(Reason::HelloExpected), true),
        Message::Decide(decide) => {
            let count = decide.asks().len();
            batch(count).map_or((Said::Decided(count), false), refused)
        }
        Message::Resolve(resolve) => {
            refused(batch(resolve.resolves().len()).unwrap_or(Reason::Busy))
        }
        Message::Extend(extend) => refused(batch(extend.holds().len()).unwrap_or(Reason::Busy)),
        Message::Ping(ping) => (Said::Pong(ping.frame()), false),
        Message::BooksRequest(_) | Message::TotalsRequest(_) => refused(Reason::ShuttingDown),
        _ => refused(Reason::UnknownTemplate),
    }
}

/// What a frame of the door says.
pub(crate) fn said(frame: &[u8]) -> Said {
    match Message::decode(frame).unwrap() {
        Message::Welcome(_) => Said::Welcome,
        Message::Decided(decided) => Said::Decided(decided.answers().len()),
        Message::Pong(pong) => Said::Pong(pong.frame()),
        Message::Refused(refused) => Said::Refused(refused.reason().unwrap()),
        other => panic!("the door does not say {other:?}"),
    }
}
