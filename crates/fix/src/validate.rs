//! Whether a message keeps the rules, and with what it is rejected if not.

use crate::dictionary::{Dictionary, FieldType, Group, MEMBERS_MAX, Members, words};
use crate::index::{Fault, Message};
use crate::reject::{RejectReason, Rejection};
use crate::tag::{self, Tag};

/// How much of a message is checked before it is taken.
#[derive(Clone, Copy, Debug)]
pub enum Validation<'a> {
    /// The header fields that every message needs, and the lengths of data fields. Repeats, empty values and any tag pass.
    Off,
    /// Also: no field is empty, and header, body and trailer come in this order.
    Structure,
    /// Also everything that a dictionary says.
    Full(&'a Dictionary),
}

/// What every message needs: MsgSeqNum, SenderCompID, TargetCompID, SendingTime; 8, 9 and 35 are the frame's.
const REQUIRED: [Tag; 4] =
    [tag::SENDER_COMP_ID, tag::TARGET_COMP_ID, tag::MSG_SEQ_NUM, tag::SENDING_TIME];

impl Validation<'_> {
    /// Checks a message, in the order in which engines do: order of fields, type of message, required fields, then the fields.
    ///
    /// # Errors
    /// The first rule that the message breaks.
    pub fn check(self, message: &Message<'_>) -> Result<(), Rejection> {
        if let Some(Fault::DataLength { length }) = message.fault() {
            return Err(Rejection::of(RejectReason::ValueIncorrect, length));
        }
        match self {
            Validation::Off => present(message, &REQUIRED),
            Validation::Structure => {
                in_order(message, tag::is_header, tag::is_trailer)?;
                present(message, &REQUIRED)?;
                filled(message)
            }
            Validation::Full(dictionary) => Check { message, dictionary }.all(),
        }
    }
}

fn present(message: &Message<'_>, required: &[Tag]) -> Result<(), Rejection> {
    match required.iter().find(|tag| message.find(**tag).is_none()) {
        Some(tag) => Err(Rejection::of(RejectReason::RequiredTagMissing, *tag)),
        None => Ok(()),
    }
}

fn filled(message: &Message<'_>) -> Result<(), Rejection> {
    match (0..message.len()).find(|at| message.value_at(*at) == Some(b"")) {
        Some(at) => Err(at_field(message, at, RejectReason::TagWithoutValue)),
        None => Ok(()),
    }
}

/// Checks that no field of the header follows one of the body, and none of either one of the trailer.
fn in_order(
    message: &Message<'_>,
    is_header: impl Fn(Tag) -> bool,
    is_trailer: impl Fn(Tag) -> bool,
) -> Result<(), Rejection> {
    let (mut in_header, mut in_trailer) = (true, false);
    for at in 0..message.len() {
        let tag = message.tag_at(at).unwrap_or(0);
        let (header, trailer) = (is_header(tag), is_trailer(tag));
        if header && !in_header || in_trailer && !trailer {
            return Err(at_field(message, at, RejectReason::TagOutOfRequiredOrder));
        }
        in_header &= header;
        in_trailer |= trailer;
    }
    Ok(())
}

/// The rejection of the field at a place; its tag as it was written, so that negative ones are told.
fn at_field(message: &Message<'_>, at: usize, reason: RejectReason) -> Rejection {
    let text = message.tag_text_at(at).and_then(|text| std::str::from_utf8(text).ok());
    Rejection { reason, tag: text.and_then(|text| text.parse().ok()) }
}

/// One message held against a dictionary.
struct Check<'m, 'a, 'd> {
    message: &'m Message<'a>,
    dictionary: &'d Dictionary,
}

/// Which members of a message or of an entry were met.
struct Seen([u64; MEMBERS_MAX / 64]);

impl Seen {
    /// Reports whether the member was met before.
    fn meet(&mut self, place: usize) -> bool {
        let (word, bit) = (&mut self.0[place / 64], 1 << (place % 64));
        let before = *word & bit != 0;
        *word |= bit;
        before
    }

    fn has(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 == 1
    }
}

impl Check<'_, '_, '_> {
    fn all(&self) -> Result<(), Rejection> {
        let (message, dictionary) = (self.message, self.dictionary);
        in_order(message, |tag| dictionary.is_header(tag), |tag| dictionary.trailer.has(tag))?;
        let msg_type = message.msg_type();
        let members = match dictionary.members(msg_type) {
            Some(members) => members,
            // Types of users' own begin with U.
            None if msg_type.starts_with(b"U") => None,
            None => return Err(Rejection { reason: RejectReason::InvalidMsgType, tag: None }),
        };
        present(message, &dictionary.header.required)?;
        if let Some(members) = members {
            present(message, &members.required)?;
        }
        filled(message)?;
        let (body, trailer) = self.parts();
        self.members(0, body, &dictionary.header)?;
        self.members(trailer, message.len(), &dictionary.trailer)?;
        match members {
            Some(members) => self.members(body, trailer, members)?,
            None => self.numbers(body, trailer)?,
        }
        (0..message.len()).try_for_each(|at| self.value(at))
    }

    /// Where the body begins, and where the trailer does.
    fn parts(&self) -> (usize, usize) {
        let first = |from: usize, wanted: &dyn Fn(Tag) -> bool| {
            let mut places = from..self.message.len();
            places.find(|at| wanted(self.tag(*at))).unwrap_or(self.message.len())
        };
        let body = first(0, &|tag| !self.dictionary.is_header(tag));
        (body, first(body, &|tag| self.dictionary.trailer.has(tag)))
    }

    fn tag(&self, at: usize) -> Tag {
        self.message.tag_at(at).unwrap_or(0)
    }

    fn reject(&self, at: usize, reason: RejectReason) -> Rejection {
        at_field(self.message, at, reason)
    }

    /// Checks which fields stand from one place to before another.
    fn members(&self, from: usize, to: usize, members: &Members) -> Result<(), Rejection> {
        let mut seen = Seen([0; MEMBERS_MAX / 64]);
        let mut at = from;
        while at < to {
            let tag = self.tag(at);
            let Some(place) = members.find(tag) else { return Err(self.stranger(at)) };
            if seen.meet(place) {
                return Err(self.reject(at, RejectReason::TagAppearsMoreThanOnce));
            }
            at = match members.group(place) {
                Some(group) => self.group(at, to, group)?,
                None => at + 1,
            };
        }
        self.all_seen(members, &seen)
    }

    fn all_seen(&self, members: &Members, seen: &Seen) -> Result<(), Rejection> {
        let missing = |tag: &&Tag| !members.find(**tag).is_some_and(|place| seen.has(place));
        match members.required.iter().find(missing) {
            Some(tag) => Err(Rejection::of(RejectReason::RequiredTagMissing, *tag)),
            None => Ok(()),
        }
    }

    /// The rejection of a field that does not belong where it stands.
    fn stranger(&self, at: usize) -> Rejection {
        let reason = match self.dictionary.has_field(self.tag(at)) {
            true => RejectReason::TagNotDefinedForThisMessageType,
            false => RejectReason::InvalidTagNumber,
        };
        self.reject(at, reason)
    }

    /// Walks the entries of the group whose count stands at a place, and returns the place behind them.
    fn group(&self, count_at: usize, to: usize, group: &Group) -> Result<usize, Rejection> {
        let value = self.message.value_at(count_at).unwrap_or_default();
        if !FieldType::Count.fits(value) {
            return Err(self.reject(count_at, RejectReason::IncorrectDataFormat));
        }
        let (mut at, mut entries) = (count_at + 1, 0);
        while at < to && self.tag(at) == group.delimiter {
            at = self.entry(at, to, group)?;
            entries += 1;
        }
        // A count above 2^64 is no count of entries.
        if crate::index::digits(value) == Some(entries) {
            return Ok(at);
        }
        let misplaced = entries == 0 && at < to && group.members.has(self.tag(at));
        Err(match misplaced {
            true => self.reject(at, RejectReason::GroupFieldsOutOfOrder),
            false => self.reject(count_at, RejectReason::IncorrectGroupCount),
        })
    }

    /// Walks one entry, whose first field stands at `from`. It ends where its first field comes again or a field that is none of the
    /// group's.
    fn entry(&self, from: usize, to: usize, group: &Group) -> Result<usize, Rejection> {
        let mut seen = Seen([0; MEMBERS_MAX / 64]);
        let mut at = from;
        while at < to && (at == from || self.tag(at) != group.delimiter) {
            let Some(place) = group.members.find(self.tag(at)) else { break };
            if seen.meet(place) {
                return Err(self.reject(at, RejectReason::TagAppearsMoreThanOnce));
            }
            at = match group.members.group(place) {
                Some(inner) => self.group(at, to, inner)?,
                None => at + 1,
            };
        }
        self.all_seen(&group.members, &seen)?;
        Ok(at)
    }

    /// Checks of a message whose members are not known that its tags exist.
    fn numbers(&self, from: usize, to: usize) -> Result<(), Rejection> {
        match (from..to).find(|at| !self.dictionary.has_field(self.tag(*at))) {
            Some(at) => Err(self.reject(at, RejectReason::InvalidTagNumber)),
            None => Ok(()),
        }
    }

    /// Checks form and value of a field.
    fn value(&self, at: usize) -> Result<(), Rejection> {
        let Some(rule) = self.dictionary.rule(self.tag(at)) else { return Ok(()) };
        let value = self.message.value_at(at).unwrap_or_default();
        if !rule.kind.fits(value) {
            return Err(self.reject(at, RejectReason::IncorrectDataFormat));
        }
        let good = match rule.kind.is_list() {
            true => words(value).all(|word| rule.allows(word)),
            false => rule.allows(value),
        };
        if good { Ok(()) } else { Err(self.reject(at, RejectReason::ValueIncorrect)) }
    }
}
