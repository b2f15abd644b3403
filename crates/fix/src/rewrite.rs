//! Messages that pass through: a new header and trailer around a body that is kept byte for byte.

use crate::frame::{SOH, sum};
use crate::index::Message;
use crate::tag::{self, Tag};

/// What every rewritten message gets anew or loses, wherever it stands.
const REPLACED: [u16; 11] = [8, 9, 10, 34, 35, 43, 49, 52, 56, 122, 369];
/// Encrypted and signed parts, which end with the header they were made for.
const SIGNED: [u16; 4] = [89, 90, 91, 93];
/// What becomes of the fields with small tags; those above pass.
const PASSING: [Passing; 512] = {
    let (mut passing, mut at) = ([Passing::Stays; 512], 0);
    while at < REPLACED.len() {
        passing[REPLACED[at] as usize] = Passing::Replaced;
        at += 1;
    }
    at = 0;
    while at < SIGNED.len() {
        passing[SIGNED[at] as usize] = Passing::Signed;
        at += 1;
    }
    passing
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    Stays,
    Replaced,
    Signed,
}

impl Passing {
    #[inline]
    fn of(tag: u16) -> Passing {
        PASSING.get(usize::from(tag)).copied().unwrap_or(Passing::Stays)
    }
}

/// The header that messages get which leave in one direction of one session.
///
/// The new header is 8, 9, 35, 34, 49, 52, 56, with 43 and 122 among them for a message that is sent again, then the other fields of the
/// old header in their order. PossDupFlag and OrigSendingTime of the old header are dropped (towards the new peer it is a new message),
/// and so is LastMsgSeqNumProcessed. Everything behind the header stays as it came: order, repeats, groups, data, empty values, zeros.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// `8=...|9=`
    begin: Vec<u8>,
    /// `|49=...|52=`
    sender: Vec<u8>,
    /// `|56=...|`
    target: Vec<u8>,
    /// Fields of the old header that are dropped, and those that are put behind 56 instead.
    dropped: Vec<Tag>,
    put: Vec<u8>,
    signed: Signed,
}

/// What becomes of a message with encrypted data or a signature (89, 90, 91, 93), which cannot survive a new header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Signed {
    /// It is refused with [`RewriteError::Signed`].
    #[default]
    Refuse,
    /// These fields are left out.
    Strip,
}

/// What is new in each message.
#[derive(Clone, Copy, Debug)]
pub struct Sending<'a> {
    /// MsgSeqNum.
    pub seq: u64,
    /// The text of SendingTime, see [`crate::TimestampText`].
    pub time: &'a [u8],
    /// The SendingTime of the first sending, for a message that is sent again: adds PossDupFlag and OrigSendingTime.
    pub first_sent: Option<&'a [u8]>,
}

/// Why a message was not rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// The room for the new message is too small.
    #[error("the new message needs {needed} bytes")]
    NoRoom {
        /// How many bytes it needs.
        needed: usize,
    },
    /// The message has a signature or encrypted data.
    #[error(
        "a message with a signature or encrypted data (89, 90, 91, 93) cannot get a new header"
    )]
    Signed,
    /// The message has a [`crate::Fault`]: its fields are not known.
    #[error("the length of a data field is wrong, so that the fields behind it are not known")]
    Fault,
}

/// A value that cannot stand in a header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value of header field {tag} is empty or contains SOH")]
pub struct ValueError {
    /// The field.
    pub tag: Tag,
}

impl Envelope {
    /// Returns the envelope of messages from `sender` to `target`.
    ///
    /// # Errors
    /// [`ValueError`] if a value is empty or contains SOH.
    pub fn new(begin_string: &str, sender: &str, target: &str) -> Result<Envelope, ValueError> {
        let values = [(8, begin_string), (49, sender), (56, target)];
        values.into_iter().try_for_each(|(tag, value)| check(tag, value))?;
        Ok(Envelope {
            begin: format!("8={begin_string}\x019=").into_bytes(),
            sender: format!("\x0149={sender}\x0152=").into_bytes(),
            target: format!("\x0156={target}\x01").into_bytes(),
            dropped: Vec::new(),
            put: Vec::new(),
            signed: Signed::Refuse,
        })
    }

    /// Drops a field of the old header, and puts the value there is in its place.
    ///
    /// # Errors
    /// [`ValueError`] if the value is empty or contains SOH.
    pub fn set(mut self, tag: Tag, value: Option<&str>) -> Result<Envelope, ValueError> {
        self.dropped.push(tag);
        if let Some(value) = value {
            check(tag, value)?;
            self.put.extend_from_slice(format!("{tag}={value}\x01").as_bytes());
        }
        Ok(self)
    }

    /// Says what becomes of signatures and encrypted data.
    #[must_use]
    pub fn signed(mut self, signed: Signed) -> Envelope {
        self.signed = signed;
        self
    }

    /// Writes the message with its new header and trailer to the start of `out` and returns its length.
    ///
    /// # Errors
    /// See [`RewriteError`]; `out` is then as it was.
    pub fn write(
        &self,
        message: &Message<'_>,
        sending: Sending<'_>,
        out: &mut [u8],
    ) -> Result<usize, RewriteError> {
        if message.fault().is_some() {
            return Err(RewriteError::Fault);
        }
        let kept = self.kept(message)?;
        let mut seq = [0; 20];
        let seq = decimal(sending.seq, &mut seq);
        let mut body_bytes = b"35=".len() + message.msg_type().len() + b"|34=".len() + seq.len();
        body_bytes += self.sender.len() + sending.time.len() + self.target.len() + self.put.len();
        if let Some(first) = sending.first_sent {
            body_bytes += b"|43=Y".len() + b"122=|".len() + first.len();
        }
        body_bytes += kept.bytes;
        let mut length = [0; 20];
        let length = decimal(body_bytes as u64, &mut length);
        let needed = self.begin.len() + length.len() + 1 + body_bytes + b"10=ddd|".len();
        let out = out.get_mut(..needed).ok_or(RewriteError::NoRoom { needed })?;
        let mut writer = Writer { out, at: 0 };
        writer.put(&self.begin);
        writer.put(length);
        writer.put(b"\x0135=");
        writer.put(message.msg_type());
        writer.put(b"\x0134=");
        writer.put(seq);
        if sending.first_sent.is_some() {
            writer.put(b"\x0143=Y");
        }
        writer.put(&self.sender);
        writer.put(sending.time);
        writer.put(&self.target);
        if let Some(first) = sending.first_sent {
            writer.put(b"122=");
            writer.put(first);
            writer.put(b"\x01");
        }
        writer.put(&self.put);
        self.copy(message, &kept, &mut writer);
        writer.finish();
        Ok(needed)
    }

    /// Walks the header and looks for what may not pass behind it.
    fn kept(&self, message: &Message<'_>) -> Result<Kept, RewriteError> {
        let tags = message.short_tags();
        let last = tags.len() - 1;
        let (mut body, mut bytes) = (3, 0);
        let mut passing = [false; 3];
        while body < last && tag::is_header(Tag::from(tags[body])) {
            passing[Passing::of(tags[body]) as usize] = true;
            if self.keeps(tags[body]) {
                bytes += field_bytes(message, body);
            }
            body += 1;
        }
        passing[Passing::Replaced as usize] = false;
        for tag in &tags[body..last] {
            passing[Passing::of(*tag) as usize] = true;
        }
        let [_, replaced, signed] = passing;
        if signed && self.signed == Signed::Refuse {
            return Err(RewriteError::Signed);
        }
        let plain = !replaced && !signed;
        bytes += match plain {
            true => message.stretch(body, last).map_or(0, <[u8]>::len),
            false => (body..last)
                .filter(|at| Passing::of(tags[*at]) == Passing::Stays)
                .map(|at| field_bytes(message, at))
                .sum(),
        };
        Ok(Kept { body, plain, bytes })
    }

    fn copy(&self, message: &Message<'_>, kept: &Kept, writer: &mut Writer<'_>) {
        let tags = message.short_tags();
        let last = tags.len() - 1;
        for at in (3..kept.body).filter(|at| self.keeps(tags[*at])) {
            writer.put(message.stretch(at, at + 1).unwrap_or_default());
        }
        if kept.plain {
            return writer.put(message.stretch(kept.body, last).unwrap_or_default());
        }
        for at in (kept.body..last).filter(|at| Passing::of(tags[*at]) == Passing::Stays) {
            writer.put(message.stretch(at, at + 1).unwrap_or_default());
        }
    }

    /// Reports whether a field of the old header stays.
    fn keeps(&self, tag: u16) -> bool {
        Passing::of(tag) == Passing::Stays && !self.dropped.contains(&Tag::from(tag))
    }
}

/// What stays of a message.
struct Kept {
    /// The first field behind the header.
    body: usize,
    /// Nothing has to be left out behind the header: it is copied at once.
    plain: bool,
    /// How many bytes stay.
    bytes: usize,
}

fn check(tag: Tag, value: &str) -> Result<(), ValueError> {
    match value.is_empty() || value.bytes().any(|byte| byte == SOH) {
        true => Err(ValueError { tag }),
        false => Ok(()),
    }
}

fn field_bytes(message: &Message<'_>, at: usize) -> usize {
    message.stretch(at, at + 1).map_or(0, <[u8]>::len)
}

/// Writes a number into the end of a buffer and returns its digits.
fn decimal(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut start = buffer.len();
    loop {
        start -= 1;
        buffer[start] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            return &buffer[start..];
        }
    }
}

/// Fills a place whose size was computed before.
struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        self.out[self.at..end].copy_from_slice(bytes);
        self.at = end;
    }

    fn finish(mut self) {
        let sum = sum(&self.out[..self.at]);
        let digits = [sum / 100, sum / 10 % 10, sum % 10].map(|digit| b'0' + digit);
        self.put(b"10=");
        self.put(&digits);
        self.put(&[SOH]);
    }
}
