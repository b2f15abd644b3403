//! The fields of a message: their tags, and where their values lie. Values stay where they were received.

use crate::frame::Frame;
use crate::garbled::Garbled;
use crate::kept::MessageColumns;
use crate::simd::{Columns, Met, SLACK, Simd};
use crate::tag::{self, DataFields, Tag};

/// The most digits of a tag.
const TAG_DIGITS_MAX: usize = 9;

/// Room for the fields of one message at a time, used again for each: [`Index::read`] allocates nothing.
#[derive(Clone, Debug)]
pub struct Index {
    simd: Simd,
    data: DataFields,
    fields_max: usize,
    /// Where each field begins, and behind the last one the end of the message.
    bounds: Box<[u32]>,
    /// Each field's tag; 0 for one that is odd or above 65,535.
    tags: Box<[u16]>,
    /// Where each field's value begins.
    values: Box<[u32]>,
}

impl Index {
    /// Returns an index for messages of at most `fields_max` fields (at most 2^24), read in the fastest way of this processor, with the
    /// data fields of the published versions.
    #[must_use]
    pub fn new(fields_max: usize) -> Index {
        Index::with(fields_max, Simd::best(), DataFields::standard())
    }

    /// Returns an index that reads in a given way and knows the given data fields.
    #[must_use]
    pub fn with(fields_max: usize, simd: Simd, data: DataFields) -> Index {
        let fields_max = fields_max.min(1 << 24);
        // One bound more than fields, and the slack that whole vectors write to.
        let room = fields_max + 1 + SLACK;
        Index {
            simd,
            data,
            fields_max,
            bounds: vec![0; room].into(),
            tags: vec![0; room].into(),
            values: vec![0; room].into(),
        }
    }

    /// Finds the fields of a message.
    ///
    /// A length field ([`DataFields`]) followed by its data field decides how long that field's value is, whatever bytes it has. If that
    /// is impossible, the message has a [`Fault`] and its fields end with the length field: what follows cannot be told apart.
    ///
    /// # Errors
    /// [`Garbled::Tag`] if a field does not begin with a number and `=`, [`Garbled::TooManyFields`] if the index has no room for them.
    pub fn read<'a>(&'a mut self, frame: Frame<'a>) -> Result<Message<'a>, Garbled> {
        let bytes = frame.bytes();
        let mut columns =
            Columns { bounds: &mut self.bounds, tags: &mut self.tags, values: &mut self.values };
        let (mut len, met) = match self.simd.fields(bytes, &mut columns, &self.data) {
            Some(found) if found.0 <= self.fields_max => found,
            _ => self.read_in_passes(bytes)?,
        };
        // The frame knows the last field, CheckSum.
        let last = len - 1;
        self.tags[last] = 10;
        self.values[last] = narrow(frame.trailer_start() + 3);
        let mut fault = None;
        if met != Met::default() {
            (len, fault) = self.mend(bytes, len, met)?;
        }
        Ok(Message {
            frame,
            simd: self.simd,
            bounds: &self.bounds[..=len],
            tags: &self.tags[..len],
            values: &self.values[..len],
            fault,
        })
    }

    /// Finds where all fields end, then their tags.
    fn read_in_passes(&mut self, bytes: &[u8]) -> Result<(usize, Met), Garbled> {
        let too_many = Garbled::TooManyFields { fields_max: narrow(self.fields_max) };
        self.bounds[0] = 0;
        let len = self.simd.field_ends(bytes, &mut self.bounds[1..]).ok_or(too_many)?;
        if len > self.fields_max {
            return Err(too_many);
        }
        let mut columns =
            Columns { bounds: &mut self.bounds, tags: &mut self.tags, values: &mut self.values };
        // Without CheckSum eight bytes can be read from the start of each field.
        let met = self.simd.tags(bytes, len - 1, &mut columns, &self.data);
        Ok((len, met))
    }

    /// Does what the passes leave open: puts the parts of data fields together, and looks at odd tags one by one.
    #[cold]
    #[inline(never)]
    fn mend(
        &mut self,
        bytes: &[u8],
        mut len: usize,
        met: Met,
    ) -> Result<(usize, Option<Fault>), Garbled> {
        let mut fault = None;
        if met.length {
            (len, fault) = self.join_data_fields(bytes, len);
        }
        for at in (0..len).filter(|at| self.tags[*at] == 0) {
            let start = self.bounds[at];
            let field = &bytes[start as usize..self.bounds[at + 1] as usize];
            let name = tag_text(field).ok_or(Garbled::Tag { at: start })?;
            self.values[at] = start + narrow(name.len()) + 1;
        }
        Ok((len, fault))
    }

    /// Drops the bounds that lie within the values of data fields. Returns how many fields are left.
    fn join_data_fields(&mut self, bytes: &[u8], len: usize) -> (usize, Option<Fault>) {
        let (mut from, mut to) = (0, 0);
        while from < len {
            self.bounds[to] = self.bounds[from];
            self.tags[to] = self.tags[from];
            self.values[to] = self.values[from];
            from += 1;
            to += 1;
            let is_data =
                to >= 2 && self.data.data_of(self.tags[to - 2]) == Some(self.tags[to - 1]);
            if !is_data {
                continue;
            }
            match self.end_of_data(bytes, to, from, len) {
                Some(next) => from = next,
                None => {
                    let length = Tag::from(self.tags[to - 2]);
                    return (to - 1, Some(Fault::DataLength { length }));
                }
            }
        }
        self.bounds[to] = narrow(bytes.len());
        (to, None)
    }

    /// Returns the field behind the data field that was written to place `to` - 1 and read before place `from`.
    fn end_of_data(&self, bytes: &[u8], to: usize, from: usize, len: usize) -> Option<usize> {
        let length_value = &bytes[self.values[to - 2] as usize..(self.bounds[to - 1] - 1) as usize];
        let data_bytes = u32::try_from(digits(length_value)?).ok()?;
        let end = self.values[to - 1].checked_add(data_bytes)?;
        // The field ends with an SOH before CheckSum, and that SOH is one of those that were found.
        let next = from + self.bounds[from..len].partition_point(|start| *start <= end);
        (self.bounds.get(next) == Some(&(end + 1)) && next < len).then_some(next)
    }
}

/// What makes a message unfit as a whole although it is not garbled: it is to be rejected, and counts as received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The value of a length field is no number, or does not lead to the SOH of the data field behind it.
    DataLength {
        /// The length field.
        length: Tag,
    },
}

/// A message whose fields were found. It borrows the bytes that were received and the [`Index`].
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    frame: Frame<'a>,
    simd: Simd,
    bounds: &'a [u32],
    tags: &'a [u16],
    values: &'a [u32],
    fault: Option<Fault>,
}

/// One field of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    /// The number before `=`; see [`Tag`] for odd ones.
    pub tag: Tag,
    /// The bytes behind `=`, without the SOH; may be empty.
    pub value: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message that was read before, of its frame and columns.
    pub(crate) fn of_columns(
        frame: Frame<'a>,
        columns: MessageColumns<'a>,
        fault: Option<Fault>,
    ) -> Message<'a> {
        let MessageColumns { simd, bounds, tags, values } = columns;
        Message { frame, simd, bounds, tags, values, fault }
    }

    pub(crate) fn columns(&self) -> MessageColumns<'a> {
        let Message { simd, bounds, tags, values, .. } = *self;
        MessageColumns { simd, bounds, tags, values }
    }

    /// Returns the frame of the message.
    #[must_use]
    pub fn frame(&self) -> Frame<'a> {
        self.frame
    }

    /// Returns what makes the message unfit as a whole, if anything does.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Returns how many fields were found; at least 4, unless there is a [`Fault`].
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a message is never empty")]
    pub fn len(&self) -> usize {
        self.tags.len()
    }

    /// Returns the value of MsgType.
    #[must_use]
    pub fn msg_type(&self) -> &'a [u8] {
        self.value_at(2).unwrap_or_default()
    }

    /// Returns the value of BeginString.
    #[must_use]
    pub fn begin_string(&self) -> &'a [u8] {
        self.value_at(0).unwrap_or_default()
    }

    /// Returns the field at a place, from 0.
    #[must_use]
    pub fn field(&self, at: usize) -> Option<Field<'a>> {
        Some(Field { tag: self.tag_at(at)?, value: self.value_at(at)? })
    }

    /// Returns all fields in the order of the message.
    pub fn fields(&self) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let message = *self;
        (0..self.len()).filter_map(move |at| message.field(at))
    }

    /// Returns the tag at a place.
    #[must_use]
    #[inline]
    pub fn tag_at(&self, at: usize) -> Option<Tag> {
        match *self.tags.get(at)? {
            0 => self.tag_text_at(at).map(odd_tag),
            tag => Some(Tag::from(tag)),
        }
    }

    /// The tags as the index has them: 0 for those that are odd or above 65,535.
    pub(crate) fn short_tags(&self) -> &'a [u16] {
        self.tags
    }

    /// Returns the bytes before the `=` of the field at a place: `-1` for a negative tag.
    #[must_use]
    pub fn tag_text_at(&self, at: usize) -> Option<&'a [u8]> {
        let (start, value) = (*self.bounds.get(at)?, *self.values.get(at)?);
        self.frame.bytes().get(start as usize..(value as usize).checked_sub(1)?)
    }

    /// Returns the value at a place.
    #[must_use]
    #[inline]
    pub fn value_at(&self, at: usize) -> Option<&'a [u8]> {
        let end = *self.bounds.get(at + 1)? as usize;
        self.frame.bytes().get(*self.values.get(at)? as usize..end.checked_sub(1)?)
    }

    /// Returns the bytes of the fields from one place to before another, with the SOH of the last.
    #[must_use]
    pub fn stretch(&self, from: usize, to: usize) -> Option<&'a [u8]> {
        let (start, end) = (*self.bounds.get(from)?, *self.bounds.get(to)?);
        self.frame.bytes().get(start as usize..end as usize)
    }

    /// Returns the place of the first field with a tag.
    #[must_use]
    #[inline]
    pub fn find(&self, tag: Tag) -> Option<usize> {
        self.find_from(tag, 0)
    }

    /// Returns the place of the first field with a tag at or behind a place.
    #[must_use]
    #[inline]
    pub fn find_from(&self, tag: Tag, from: usize) -> Option<usize> {
        match u16::try_from(tag) {
            Ok(short) if short != 0 => self.simd.find(self.tags, from, self.tags.len(), short),
            _ => (from..self.len()).find(|at| self.tag_at(*at) == Some(tag)),
        }
    }

    /// Returns the value of the first field with a tag.
    ///
    /// A field of a repeating group may have the tag as well, before the one of the body that is meant; a dictionary knows.
    #[must_use]
    #[inline]
    pub fn value(&self, tag: Tag) -> Option<&'a [u8]> {
        self.value_at(self.find(tag)?)
    }

    /// Returns the value of the first field with a tag as a number without sign; `None` too if it is none or above 2^64 - 1.
    #[must_use]
    pub fn number(&self, tag: Tag) -> Option<u64> {
        digits(self.value(tag)?)
    }

    /// The same, with 2^64 - 1 for all that is above: a number that is too large is not one that is missing.
    #[must_use]
    pub fn number_or_max(&self, tag: Tag) -> Option<u64> {
        let value = self.value(tag)?;
        let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
        is_number.then(|| digits(value).unwrap_or(u64::MAX))
    }

    /// Returns the place of the first field behind the standard header.
    #[must_use]
    pub fn body_at(&self) -> usize {
        (3..self.len())
            .find(|at| !self.tag_at(*at).is_some_and(tag::is_header))
            .unwrap_or(self.len())
    }
}

/// The bytes before `=`, if they are a number: at most nine digits without leading zeros, with `-` before them or not.
fn tag_text(field: &[u8]) -> Option<&[u8]> {
    let room = &field[..field.len().min(TAG_DIGITS_MAX + 2)];
    let name = &field[..room.iter().position(|byte| *byte == b'=')?];
    let digits = name.strip_prefix(b"-").unwrap_or(name);
    let number =
        matches!(digits.len(), 1..=TAG_DIGITS_MAX) && digits.iter().all(u8::is_ascii_digit);
    (number && (digits[0] != b'0' || digits.len() == 1)).then_some(name)
}

fn odd_tag(text: &[u8]) -> Tag {
    digits(text).and_then(|number| Tag::try_from(number).ok()).unwrap_or(0)
}

/// Reads one or more digits; `None` for anything else and above 2^64 - 1.
pub(crate) fn digits(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Places in a message are below 2^31: a frame is no longer.
fn narrow(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
