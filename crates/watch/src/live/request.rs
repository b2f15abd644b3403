//! What the page says.

use serde::Deserialize;
use wire::FrameError;
use wire::live::Message;

/// Rows that a page watches.
pub(super) const WATCHED_MAX: usize = 256;
/// Bytes of the longest message of a page, and as much again for what later versions add.
pub(super) const REQUEST_BYTES_MAX: usize = 4_096;

/// A message of the page; numbers are of the last message it received. In debug mode it is JSON: `{"acknowledge":7}`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// It was applied.
    Acknowledge(u64),
    /// These rows are shown.
    Watch(Vec<u32>),
    /// It did not fit, or others are missing.
    Resync(u64),
}

/// What is wrong with a message of the page. The connection is closed with 1002 and this text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Malformed(#[from] FrameError),
    #[error("not JSON such as {{\"acknowledge\":7}}")]
    Json,
    #[error("message {0} is the node's own")]
    Direction(&'static str),
    #[error("{found} rows watched, expected at most {WATCHED_MAX}")]
    Rows { found: usize },
    #[error("sequence {found} was not sent yet; the last one is {last}")]
    Sequence { found: u64, last: u64 },
}

impl Request {
    pub(super) fn decode(bytes: &[u8]) -> Result<Request, Fault> {
        match Message::decode(bytes)? {
            Message::Acknowledge(message) => Ok(Request::Acknowledge(message.sequence())),
            Message::Resync(message) => Ok(Request::Resync(message.sequence())),
            Message::Watch(message) if message.rows().len() > WATCHED_MAX => {
                Err(Fault::Rows { found: message.rows().len() })
            }
            Message::Watch(message) => {
                Ok(Request::Watch(message.rows().iter().map(|row| row.row()).collect()))
            }
            other => Err(Fault::Direction(other.name())),
        }
    }

    pub(super) fn parse(text: &str) -> Result<Request, Fault> {
        match serde_json::from_str(text).map_err(|_| Fault::Json)? {
            Request::Watch(rows) if rows.len() > WATCHED_MAX => {
                Err(Fault::Rows { found: rows.len() })
            }
            request => Ok(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use wire::live::{acknowledge, delta, watch};

    use super::*;

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::decode(&bytes);
            let _ = Request::parse(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn nor_do_spoiled_messages(
            at in any::<prop::sample::Index>(), byte in any::<u8>(), end in any::<prop::sample::Index>()
        ) {
            let mut bytes = watched(3);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            let _ = Request::decode(&bytes);
            prop_assert!(Request::decode(&bytes[..end.index(bytes.len())]).is_err());
        }
    }

    fn watched(count: usize) -> Vec<u8> {
        let mut bytes = vec![0; watch::encoded_len(count)];
        let rows = vec![watch::Row::new(7); count];
        watch::encode(&mut bytes, &watch::Block::new(1)).unwrap().rows(&rows).unwrap().finish();
        bytes
    }

    #[test]
    fn a_page_watches_so_many_rows() {
        assert!(watched(WATCHED_MAX).len() < REQUEST_BYTES_MAX / 2);
        assert_eq!(
            Request::decode(&watched(WATCHED_MAX)),
            Ok(Request::Watch(vec![7; WATCHED_MAX]))
        );
        let many = WATCHED_MAX + 1;
        assert_eq!(Request::decode(&watched(many)), Err(Fault::Rows { found: many }));
        let text = format!("{{\"watch\":{:?}}}", vec![7; many]);
        assert_eq!(Request::parse(&text), Err(Fault::Rows { found: many }));
    }

    #[test]
    fn the_nodes_own_messages_are_refused() {
        let mut bytes = vec![0; delta::encoded_len(0, 0)];
        delta::encode(&mut bytes, &delta::Block::new(1, 2, 3, 0))
            .unwrap()
            .states(&[])
            .unwrap()
            .windows(&[])
            .unwrap()
            .finish();
        assert_eq!(Request::decode(&bytes), Err(Fault::Direction("Delta")));
    }

    #[test]
    fn the_same_in_json() {
        assert_eq!(Request::parse(r#"{"acknowledge":7}"#), Ok(Request::Acknowledge(7)));
        assert_eq!(Request::parse(r#"{"watch":[1,2]}"#), Ok(Request::Watch(vec![1, 2])));
        assert_eq!(Request::parse("hello"), Err(Fault::Json));
        let mut bytes = vec![0; acknowledge::encoded_len()];
        acknowledge::encode(&mut bytes, &acknowledge::Block::new(7)).unwrap().finish();
        assert_eq!(Request::decode(&bytes), Ok(Request::Acknowledge(7)));
    }
}
