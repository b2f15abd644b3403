//! What a version of FIX, or one venue's dialect of it, allows: types of messages, their fields and groups, types and values of fields.

mod table;
mod types;
mod xml;

pub use types::FieldType;
pub(crate) use types::words;

use std::collections::BTreeMap;

use crate::tag::{DataFields, Tag};

/// The most fields and groups of one message or one group.
pub(crate) const MEMBERS_MAX: usize = 1024;
/// The highest tag that a dictionary may define.
const TAG_MAX: Tag = 65_535;

/// The rules of a version or a dialect. Made once, when a session is configured; asked without allocation.
#[derive(Clone, Debug, Default)]
pub struct Dictionary {
    /// By tag: the place in `fields`, or one of the two values below.
    places: Vec<u16>,
    fields: Vec<FieldRule>,
    pub(crate) header: Members,
    pub(crate) trailer: Members,
    /// All fields of the header, those of its groups with them: bit `tag % 64` of word `tag / 64`.
    header_bits: Vec<u64>,
    messages: BTreeMap<Vec<u8>, Option<Members>>,
}

/// In [`Dictionary::places`]: no field has this tag.
const NO_FIELD: u16 = u16::MAX;
/// In [`Dictionary::places`]: the version has a field of this tag, about which no more is known here.
const ANY_FIELD: u16 = u16::MAX - 1;

/// Below this tag members are found by one look; it is above all tags of the published versions.
const LOW_TAGS: usize = 2048;

/// Type and values of a field.
#[derive(Clone, Debug)]
pub(crate) struct FieldRule {
    pub(crate) kind: FieldType,
    /// The values that the field may have, ascending; empty if any of its type.
    values: Vec<Vec<u8>>,
    /// Those among them that are one ASCII character.
    characters: u128,
    /// Letters that may stand before any number above 0, as in a tenor.
    numbered: Vec<u8>,
}

impl FieldRule {
    fn new(kind: FieldType, mut values: Vec<Vec<u8>>) -> FieldRule {
        values.sort();
        let one = |value: &Vec<u8>| match value.as_slice() {
            [character @ 0..=127] => 1_u128 << character,
            _ => 0,
        };
        let characters = values.iter().map(one).fold(0, |all, one| all | one);
        FieldRule { kind, values, characters, numbered: Vec::new() }
    }

    /// Reports whether the field may have a value, which is the whole one or one of a list.
    #[inline]
    pub(crate) fn allows(&self, value: &[u8]) -> bool {
        match value {
            _ if self.values.is_empty() => true,
            [character @ 0..=127] => self.characters >> character & 1 == 1,
            _ => {
                self.values.binary_search_by(|listed| listed.as_slice().cmp(value)).is_ok()
                    || self.is_numbered(value)
            }
        }
    }

    fn is_numbered(&self, value: &[u8]) -> bool {
        match value {
            [letter, b'1'..=b'9', rest @ ..] => {
                self.numbered.contains(letter) && rest.iter().all(u8::is_ascii_digit)
            }
            _ => false,
        }
    }
}

/// Fields and groups of a message, of one entry of a group, of the header or the trailer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Members {
    entries: Vec<Member>,
    /// The place in `entries` of each tag below [`LOW_TAGS`], one higher; 0 for none.
    low: Vec<u16>,
    /// The tags above, ascending, with their places in `entries`.
    high: Vec<(Tag, u16)>,
    pub(crate) required: Vec<Tag>,
}

#[derive(Clone, Debug)]
pub(crate) struct Member {
    tag: Tag,
    pub(crate) group: Option<Box<Group>>,
}

/// A repeating group: its entries begin with `delimiter`.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) delimiter: Tag,
    pub(crate) members: Members,
}

/// Why a dictionary was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DictionaryError {
    /// The text is no well-formed XML.
    #[error("line {line}, column {column}: {what}")]
    Syntax {
        /// The line, from 1.
        line: u32,
        /// The column, from 1.
        column: u32,
        /// What the reader of XML says.
        what: String,
    },
    /// The text is XML, but no dictionary in QuickFIX's format.
    #[error("line {line}: {what}")]
    Content {
        /// The line, from 1.
        line: u32,
        /// What is wrong, and what is expected.
        what: String,
    },
}

impl Dictionary {
    /// Returns what this crate itself knows of FIX 4.2: all types of messages; the fields of those of the session and of order flow.
    #[must_use]
    pub fn fix42() -> Dictionary {
        table::read(&[include_str!("fields.txt"), include_str!("fix42.txt")])
    }

    /// Returns what this crate itself knows of FIX 4.4, as [`Dictionary::fix42`].
    #[must_use]
    pub fn fix44() -> Dictionary {
        table::read(&[
            include_str!("fields.txt"),
            include_str!("common.txt"),
            include_str!("fix44.txt"),
        ])
    }

    /// Returns what this crate itself knows of FIX 5.0 SP2 over FIXT 1.1, as [`Dictionary::fix42`].
    #[must_use]
    pub fn fixt11_fix50sp2() -> Dictionary {
        table::read(&[
            include_str!("fields.txt"),
            include_str!("common.txt"),
            include_str!("fix50sp2.txt"),
        ])
    }

    /// Reads a dictionary in QuickFIX's XML format. A session of FIXT has two, one of the transport and one of the application:
    /// [`Dictionary::joined`] makes one of them.
    ///
    /// # Errors
    /// See [`DictionaryError`]; each names the line.
    pub fn from_xml(text: &str) -> Result<Dictionary, DictionaryError> {
        xml::read(text)
    }

    /// Adds all that another dictionary knows. Where both know a field or a type of message, the other counts.
    #[must_use]
    pub fn joined(mut self, other: Dictionary) -> Dictionary {
        for (tag, place) in (0..).zip(&other.places) {
            match other.fields.get(usize::from(*place)) {
                Some(rule) => self.define(tag, rule.clone()),
                None if *place == ANY_FIELD && !self.has_field(tag) => {
                    self.set_place(tag, ANY_FIELD)
                }
                None => {}
            }
        }
        let mut header = std::mem::take(&mut self.header);
        header.add(other.header);
        self.set_header(header);
        self.trailer.add(other.trailer);
        self.messages.extend(other.messages);
        self
    }

    /// Adds Username (553) and Password (554) to the Logon: FIX 4.2 has no fields for them, and those who ask for a password in it take these.
    #[must_use]
    pub fn with_credentials(mut self) -> Dictionary {
        for tag in [553, 554] {
            if !self.has_field(tag) {
                self.define(tag, FieldRule::new(FieldType::Text, Vec::new()));
            }
            if let Some(Some(logon)) = self.messages.get_mut(&b"A"[..]) {
                logon.put(tag, None, false);
            }
        }
        self
    }

    /// Reports whether a type of message exists.
    #[must_use]
    pub fn has_message(&self, msg_type: &[u8]) -> bool {
        self.messages.contains_key(msg_type)
    }

    /// Returns how many types of messages there are.
    #[must_use]
    pub fn messages_len(&self) -> usize {
        self.messages.len()
    }

    /// Reports whether a field exists.
    #[must_use]
    pub fn has_field(&self, tag: Tag) -> bool {
        self.places.get(tag as usize).is_some_and(|place| *place != NO_FIELD)
    }

    /// Returns the type of a field, if it is known.
    #[must_use]
    pub fn field_type(&self, tag: Tag) -> Option<FieldType> {
        self.rule(tag).map(|rule| rule.kind)
    }

    /// Returns the data fields of the published versions and those of this dictionary: a field of type DATA or XMLDATA belongs to the
    /// field of type LENGTH whose tag is one lower.
    #[must_use]
    pub fn data_fields(&self) -> DataFields {
        let mut data = DataFields::standard();
        let length = |tag: Tag| self.field_type(tag) == Some(FieldType::Length);
        for (tag, _) in (1_u16..).zip(self.places.iter().skip(1)) {
            if self.field_type(Tag::from(tag)) == Some(FieldType::Data)
                && !data.is_data(Tag::from(tag))
                && length(Tag::from(tag - 1))
            {
                data.add(tag - 1, tag);
            }
        }
        data
    }

    pub(crate) fn rule(&self, tag: Tag) -> Option<&FieldRule> {
        self.fields.get(usize::from(*self.places.get(tag as usize)?))
    }

    /// The members of a type of message; `Some(None)` for one that exists and whose fields are not known here.
    pub(crate) fn members(&self, msg_type: &[u8]) -> Option<Option<&Members>> {
        self.messages.get(msg_type).map(Option::as_ref)
    }

    /// Reports whether a field belongs to the header, or to a group of the header.
    pub(crate) fn is_header(&self, tag: Tag) -> bool {
        self.header_bits.get(tag as usize / 64).is_some_and(|word| word >> (tag % 64) & 1 == 1)
    }

    fn set_header(&mut self, header: Members) {
        let mut tags = Vec::new();
        header.collect_tags(&mut tags);
        let words = tags.iter().max().map_or(0, |last| *last as usize / 64 + 1);
        self.header_bits = vec![0; words];
        for tag in tags {
            self.header_bits[tag as usize / 64] |= 1 << (tag % 64);
        }
        self.header = header;
    }

    fn define(&mut self, tag: Tag, rule: FieldRule) {
        match self.places.get(tag as usize).map(|place| usize::from(*place)) {
            Some(place) if place < self.fields.len() => self.fields[place] = rule,
            _ => {
                let place = u16::try_from(self.fields.len()).unwrap_or(ANY_FIELD).min(ANY_FIELD);
                self.set_place(tag, place);
                self.fields.push(rule);
            }
        }
    }

    fn remove(&mut self, tag: Tag) {
        if let Some(place) = self.places.get_mut(tag as usize) {
            *place = NO_FIELD;
        }
    }

    fn set_place(&mut self, tag: Tag, place: u16) {
        let at = tag.min(TAG_MAX) as usize;
        if self.places.len() <= at {
            self.places.resize(at + 1, NO_FIELD);
        }
        self.places[at] = place;
    }
}

impl Members {
    /// Returns the place of a member among all.
    #[inline]
    pub(crate) fn find(&self, tag: Tag) -> Option<usize> {
        if let Some(place) = self.low.get(tag as usize) {
            return usize::from(*place).checked_sub(1);
        }
        let at = self.high.binary_search_by_key(&tag, |(tag, _)| *tag).ok()?;
        self.high.get(at).map(|(_, place)| usize::from(*place))
    }

    pub(crate) fn has(&self, tag: Tag) -> bool {
        self.find(tag).is_some()
    }

    pub(crate) fn group(&self, place: usize) -> Option<&Group> {
        self.entries.get(place)?.group.as_deref()
    }

    /// Adds a field or a group; one that is there already stays. Reports whether there was room.
    fn put(&mut self, tag: Tag, group: Option<Group>, required: bool) -> bool {
        if self.find(tag).is_none() {
            let Some(place) =
                u16::try_from(self.entries.len()).ok().filter(|_| self.entries.len() < MEMBERS_MAX)
            else {
                return false;
            };
            if (tag as usize) < LOW_TAGS {
                let room = self.low.len().max(tag as usize + 1);
                self.low.resize(room, 0);
                self.low[tag as usize] = place + 1;
            } else {
                let at = self.high.partition_point(|(high, _)| *high < tag);
                self.high.insert(at, (tag, place));
            }
            self.entries.push(Member { tag, group: group.map(Box::new) });
        }
        if required && !self.required.contains(&tag) {
            self.required.push(tag);
        }
        true
    }

    fn collect_tags(&self, tags: &mut Vec<Tag>) {
        for member in &self.entries {
            tags.push(member.tag);
            if let Some(group) = &member.group {
                group.members.collect_tags(tags);
            }
        }
    }

    fn add(&mut self, other: Members) {
        for member in other.entries {
            let required = other.required.contains(&member.tag);
            self.put(member.tag, member.group.map(|group| *group), required);
        }
    }
}
