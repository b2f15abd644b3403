//! Messages that were read, kept for later in the step.

use crate::frame::Frame;
use crate::index::{Fault, Message};
use crate::simd::Simd;

/// Copies of messages, one behind the other, with the places of their fields: nothing of them is read twice. Its room is used again, so
/// that it allocates nothing once it is large enough.
#[derive(Clone, Debug, Default)]
pub struct KeptMessages {
    bytes: Vec<u8>,
    bounds: Vec<u32>,
    tags: Vec<u16>,
    values: Vec<u32>,
    messages: Vec<KeptPlaces>,
}

/// What is known of one of them besides its columns.
#[derive(Clone, Copy, Debug)]
struct KeptPlaces {
    simd: Simd,
    fault: Option<Fault>,
    /// Where its bytes begin and end, and where they have the body.
    start: usize,
    end: usize,
    body: usize,
    /// Where its fields begin in the columns. The bounds have one entry more than fields.
    fields: usize,
    bounds: usize,
    len: usize,
}

impl KeptMessages {
    /// Keeps a message behind the others.
    pub fn push(&mut self, message: &Message<'_>) {
        let (frame, columns) = (message.frame(), message.columns());
        let (start, fields, bounds) = (self.bytes.len(), self.tags.len(), self.bounds.len());
        self.bytes.extend_from_slice(frame.bytes());
        self.bounds.extend_from_slice(columns.bounds);
        self.tags.extend_from_slice(columns.tags);
        self.values.extend_from_slice(columns.values);
        self.messages.push(KeptPlaces {
            simd: columns.simd,
            fault: message.fault(),
            start,
            end: self.bytes.len(),
            body: frame.body_start(),
            fields,
            bounds,
            len: columns.tags.len(),
        });
    }

    /// Returns a message by its number, from 0.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<Message<'_>> {
        let kept = self.messages.get(at)?;
        let frame = Frame::of_kept(self.bytes.get(kept.start..kept.end)?, kept.body);
        let columns = MessageColumns {
            simd: kept.simd,
            bounds: self.bounds.get(kept.bounds..=kept.bounds + kept.len)?,
            tags: self.tags.get(kept.fields..kept.fields + kept.len)?,
            values: self.values.get(kept.fields..kept.fields + kept.len)?,
        };
        Some(Message::of_columns(frame, columns, kept.fault))
    }

    /// Returns how many messages are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Reports whether none is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Forgets all messages, and keeps the room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bounds.clear();
        self.tags.clear();
        self.values.clear();
        self.messages.clear();
    }
}

/// The columns of a message, as its index has them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MessageColumns<'a> {
    pub(crate) simd: Simd,
    pub(crate) bounds: &'a [u32],
    pub(crate) tags: &'a [u16],
    pub(crate) values: &'a [u32],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DataFields, Framing, Index, frame};

    fn framed(body: &str) -> Vec<u8> {
        let body = body.replace('|', "\x01");
        let mut message = format!("8=FIX.4.4\x019={}\x01{body}", body.len()).into_bytes();
        let sum = crate::sum(&message);
        message.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
        message
    }

    /// Data fields, odd tags and faults too.
    #[test]
    fn what_is_kept_is_what_was_read() {
        let bodies = [
            "35=D|34=2|49=A|56=B|52=20261123-10:15:30|11=id|38=5|",
            "35=B|34=3|95=5|96=a|b=c|58=text|",
            "35=B|34=4|95=7|96=a|58=text|",
            "35=8|34=5|70000=x|-1=y|0=z|",
        ];
        for simd in Simd::all() {
            let mut index = Index::with(64, simd, DataFields::standard());
            let (mut kept, messages) = (KeptMessages::default(), bodies.map(framed));
            for _ in 0..2 {
                kept.clear();
                assert!(kept.is_empty() && kept.get(0).is_none());
                for message in &messages {
                    let Framing::Whole(frame) = frame(message, 1_000) else {
                        panic!("{message:?}")
                    };
                    kept.push(&index.read(frame).unwrap());
                }
                assert_eq!(kept.len(), messages.len());
            }
            for (at, message) in messages.iter().enumerate() {
                let Framing::Whole(frame) = frame(message, 1_000) else { panic!("{message:?}") };
                let (read, kept) = (index.read(frame).unwrap(), kept.get(at).unwrap());
                assert_eq!((kept.frame(), kept.fault()), (read.frame(), read.fault()));
                assert_eq!(kept.fault().is_some(), at == 2, "{at}");
                assert!(kept.fields().eq(read.fields()));
                for field in read.fields() {
                    assert_eq!(kept.find(field.tag), read.find(field.tag));
                }
                assert_eq!(kept.stretch(3, kept.len()), read.stretch(3, read.len()));
            }
        }
    }
}
