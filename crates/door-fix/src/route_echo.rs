//! The route `echo`: what QuickFIX's test acceptor does with application messages.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use fix::{Dictionary, Framing, Index, Message, SOH, Tag, frame, tag};
use fix_session::{Application, MessageStore, SendError, Session, Turn};

use crate::passing::UNSUPPORTED_TYPE;

/// How many ClOrdIDs of a session are known; the oldest are forgotten.
const SEEN_MAX: usize = 100_000;
/// Room for the fields of a message.
const FIELDS_MAX: usize = 4_096;

/// Sends a NewOrderSingle (D) or SecurityDefinition (d) back, with the fields of its body in ascending order of tags; a group stays behind its
/// count. An order with PossResend (97=Y) whose ClOrdID was seen is not answered. Any other message is refused: j with 380=3.
#[derive(Debug)]
pub(crate) struct Echo {
    dictionary: Arc<Dictionary>,
    seen: Seen,
    index: Index,
    sorted: Vec<u8>,
}

/// ClOrdIDs.
#[derive(Debug, Default)]
struct Seen {
    ids: BTreeSet<Box<[u8]>>,
    order: VecDeque<Box<[u8]>>,
}

impl Seen {
    /// Notes an id; false if it was noted before.
    fn note(&mut self, id: &[u8]) -> bool {
        if !self.ids.insert(id.into()) {
            return false;
        }
        self.order.push_back(id.into());
        if self.order.len() > SEEN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
        true
    }
}

impl Echo {
    pub(crate) fn new(dictionary: Arc<Dictionary>) -> Echo {
        let index = Index::with(FIELDS_MAX, fix::Simd::best(), dictionary.data_fields());
        Echo { dictionary, seen: Seen::default(), index, sorted: Vec::new() }
    }

    fn send_back<S: MessageStore>(
        &mut self,
        session: &mut Session,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
    ) {
        sort_body(message, &self.dictionary, &mut self.sorted);
        let sorted = match frame(&self.sorted, usize::MAX) {
            Framing::Whole(frame) => self.index.read(frame).ok(),
            _ => None,
        };
        // The fields are those of a message that was read before.
        let Some(sorted) = sorted else { return };
        if let Err(SendError::Rewrite(error)) = session.forward(&sorted, turn) {
            session.refuse(message, 0, &error.to_string(), turn);
        }
    }
}

impl<S: MessageStore> Application<S> for Echo {
    fn take(&mut self, session: &mut Session, message: &Message<'_>, turn: &mut Turn<'_, S>) {
        match message.msg_type() {
            b"D" => {
                let is_new = self.seen.note(message.value(11).unwrap_or_default());
                if is_new || message.value(97) != Some(b"Y") {
                    self.send_back(session, message, turn);
                }
            }
            b"d" => self.send_back(session, message, turn),
            _ => session.refuse(message, 3, UNSUPPORTED_TYPE, turn),
        }
    }
}

/// Writes a message with the fields of its body in ascending order of tags. A data field stays behind its length, a group behind its count.
fn sort_body(message: &Message<'_>, dictionary: &Dictionary, out: &mut Vec<u8>) {
    let data = dictionary.data_fields();
    let (body, end) = (message.body_at(), message.len());
    let starts: Vec<usize> = match dictionary.grouped(message) {
        Some(grouped) => grouped.outside_groups().filter(|at| *at >= body).collect(),
        None => (body..end).collect(),
    };
    let tag_at = |at: usize| message.tag_at(at).unwrap_or(0);
    let is_data_of = |length: Tag, value: Tag| {
        u16::try_from(length).ok().and_then(|length| data.data_of(length)).map(Tag::from)
            == Some(value)
    };
    let mut parts: Vec<(Tag, usize, usize)> = Vec::with_capacity(starts.len());
    for (place, from) in starts.iter().copied().enumerate() {
        let to = starts.get(place + 1).copied().unwrap_or(end);
        match parts.last_mut() {
            Some(last) if last.2 == from && is_data_of(tag_at(from - 1), tag_at(from)) => {
                last.2 = to
            }
            _ if tag::is_trailer(tag_at(from)) => {}
            _ => parts.push((tag_at(from), from, to)),
        }
    }
    parts.sort_by_key(|part| part.0);
    let stretch = |from, to| message.stretch(from, to).unwrap_or_default();
    let fields: usize = parts.iter().map(|part| stretch(part.1, part.2).len()).sum();
    let length = stretch(2, body).len() + fields;
    out.clear();
    out.extend_from_slice(stretch(0, 1));
    out.extend_from_slice(format!("9={length}").as_bytes());
    out.push(SOH);
    out.extend_from_slice(stretch(2, body));
    for (_, from, to) in parts {
        out.extend_from_slice(stretch(from, to));
    }
    out.extend_from_slice(format!("10={:03}", fix::sum(out)).as_bytes());
    out.push(SOH);
}
