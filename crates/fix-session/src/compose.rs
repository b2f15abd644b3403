//! Messages that a session writes itself.

use fix::{SOH, Tag, TimestampText, ValueError};

/// Fields of a body, which its maker puts in ascending order of tags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields(Vec<u8>);

impl Fields {
    pub(crate) fn new() -> Fields {
        Fields::default()
    }

    pub(crate) fn text(mut self, tag: Tag, value: &[u8]) -> Fields {
        put(&mut self.0, tag, value);
        self
    }

    pub(crate) fn number(self, tag: Tag, value: impl std::fmt::Display) -> Fields {
        self.text(tag, value.to_string().as_bytes())
    }

    pub(crate) fn text_if(self, tag: Tag, value: Option<&[u8]>) -> Fields {
        match value {
            Some(value) => self.text(tag, value),
            None => self,
        }
    }

    /// A field, unless it would be empty: no field of FIX is.
    pub(crate) fn text_unless_empty(self, tag: Tag, value: &[u8]) -> Fields {
        self.text_if(tag, Some(value).filter(|value| !value.is_empty()))
    }

    pub(crate) fn number_if(self, tag: Tag, value: Option<impl std::fmt::Display>) -> Fields {
        match value {
            Some(value) => self.number(tag, value),
            None => self,
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// What stands in the header of one message besides the session's own fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Heading<'h> {
    pub(crate) msg_type: &'h [u8],
    pub(crate) seq: u64,
    /// Adds PossDupFlag (43), and OrigSendingTime (122) with the time of the message itself.
    pub(crate) resent: bool,
    /// Further fields, ascending.
    pub(crate) routing: &'h [u8],
}

/// Writes the messages of one direction of one session.
#[derive(Clone, Debug)]
pub(crate) struct Composer {
    begin_string: String,
    sender: String,
    target: String,
    clock: TimestampText,
    body: Vec<u8>,
}

impl Composer {
    pub(crate) fn new(begin: &str, sender: &str, target: &str) -> Result<Composer, ValueError> {
        // The rules for values are those of passing messages on.
        fix::Envelope::new(begin, sender, target)?;
        Ok(Composer {
            begin_string: begin.to_owned(),
            sender: sender.to_owned(),
            target: target.to_owned(),
            clock: TimestampText::default(),
            body: Vec::new(),
        })
    }

    /// The text of a time.
    pub(crate) fn time(&mut self, unix_ms: i64) -> [u8; 21] {
        *self.clock.of_unix_ms(unix_ms)
    }

    /// Appends a message to `out`.
    pub(crate) fn write(
        &mut self,
        out: &mut Vec<u8>,
        heading: Heading<'_>,
        unix_ms: i64,
        fields: &[u8],
    ) {
        let time = self.time(unix_ms);
        let body = &mut self.body;
        body.clear();
        put(body, 35, heading.msg_type);
        body.extend_from_slice(b"34=");
        put_digits(body, heading.seq);
        body.push(SOH);
        if heading.resent {
            put(body, 43, b"Y");
        }
        put(body, 49, self.sender.as_bytes());
        put(body, 52, &time);
        put(body, 56, self.target.as_bytes());
        if heading.resent {
            put(body, 122, &time);
        }
        body.extend_from_slice(heading.routing);
        body.extend_from_slice(fields);
        let start = out.len();
        put(out, 8, self.begin_string.as_bytes());
        out.extend_from_slice(b"9=");
        put_digits(out, body.len() as u64);
        out.push(SOH);
        out.extend_from_slice(body);
        let sum = fix::sum(&out[start..]);
        let digits = [sum / 100, sum / 10 % 10, sum % 10].map(|digit| b'0' + digit);
        put(out, 10, &digits);
    }
}

/// Appends one field.
pub(crate) fn put(out: &mut Vec<u8>, tag: Tag, value: &[u8]) {
    put_digits(out, u64::from(tag));
    out.push(b'=');
    out.extend_from_slice(value);
    out.push(SOH);
}

/// Appends a number.
fn put_digits(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        start -= 1;
        if number == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_they_are() {
        for number in [0, 7, 10, 999, 1_000_000, u64::MAX] {
            let mut out = Vec::new();
            put_digits(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
    }
}
