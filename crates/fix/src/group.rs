//! Fields outside and inside of repeating groups.
//!
//! The quantity of an order is its field 38, but that of an order's leg, side or allocation may be called 38 too: what a message says of
//! itself has to be read outside groups. These readers follow a message as it came, valid or not: a report whose group is counted wrongly
//! is still a report.

use std::ops::Range;

use crate::dictionary::{Dictionary, Group, MEMBERS_MAX, Members};
use crate::index::Message;
use crate::tag::Tag;

/// A message seen with the groups that a dictionary knows of its type.
#[derive(Clone, Copy, Debug)]
pub struct Grouped<'m, 'a, 'd> {
    message: &'m Message<'a>,
    dictionary: &'d Dictionary,
    members: &'d Members,
}

/// The entries of one group, as ranges of places of fields; see [`Grouped::entries`].
#[derive(Clone, Debug)]
pub struct Entries<'m, 'a, 'd> {
    grouped: Grouped<'m, 'a, 'd>,
    outer: &'d Members,
    group: &'d Group,
    at: usize,
}

impl Dictionary {
    /// Returns the message with its groups; `None` if the dictionary does not know the fields of its type.
    #[must_use]
    pub fn grouped<'m, 'a, 'd>(&'d self, message: &'m Message<'a>) -> Option<Grouped<'m, 'a, 'd>> {
        let members = self.members(message.msg_type())??;
        Some(Grouped { message, dictionary: self, members })
    }
}

impl<'m, 'a, 'd> Grouped<'m, 'a, 'd> {
    /// Returns the place of the first field with a tag that stands in no group.
    #[must_use]
    pub fn find(&self, tag: Tag) -> Option<usize> {
        // A field that is nowhere needs no walk.
        self.message.find(tag)?;
        self.outside_groups().find(|at| self.tag(*at) == Some(tag))
    }

    /// Returns the value of the first field with a tag that stands in no group.
    #[must_use]
    pub fn value(&self, tag: Tag) -> Option<&'a [u8]> {
        self.message.value_at(self.find(tag)?)
    }

    /// Returns the places of all fields that stand in no group, ascending; the counts of groups are among them.
    pub fn outside_groups(&self) -> impl Iterator<Item = usize> + use<'m, 'a, 'd> {
        let grouped = *self;
        let mut next = 0;
        std::iter::from_fn(move || {
            let at = next;
            next = match grouped.group_at(at, grouped.members) {
                Some(group) => grouped.end_of_group(at, grouped.members, group),
                None => at + 1,
            };
            (at < grouped.message.len()).then_some(at)
        })
    }

    /// Returns the entries of a group of the message, whose count field has a tag and stands in no group itself.
    /// A group within an entry is found by [`Entries::inner`].
    #[must_use]
    pub fn entries(&self, count: Tag) -> Option<Entries<'m, 'a, 'd>> {
        let at = self.find(count)?;
        let group = self.group_at(at, self.members)?;
        Some(Entries { grouped: *self, outer: self.members, group, at: at + 1 })
    }

    fn tag(&self, at: usize) -> Option<Tag> {
        self.message.tag_at(at)
    }

    fn group_at(&self, at: usize, members: &'d Members) -> Option<&'d Group> {
        let tag = self.tag(at)?;
        let header = || {
            self.dictionary.header.find(tag).and_then(|place| self.dictionary.header.group(place))
        };
        members.find(tag).map_or_else(header, |place| members.group(place))
    }

    /// Returns the place behind the group whose count stands at a place.
    fn end_of_group(&self, count_at: usize, outer: &'d Members, group: &'d Group) -> usize {
        let mut at = count_at + 1;
        while self.tag(at) == Some(group.delimiter) {
            at = self.end_of_entry(at, outer, group);
        }
        at
    }

    /// Returns the place behind the entry that begins at a place. It ends where its first field comes again, or a field that belongs to
    /// what the group stands in, or to the trailer. A field that the dictionary has nowhere in the message belongs to the entry; one
    /// that the entry has already and its surroundings may have belongs to these.
    fn end_of_entry(&self, from: usize, outer: &'d Members, group: &'d Group) -> usize {
        let mut seen = [0_u64; MEMBERS_MAX / 64];
        let mut at = from;
        while let Some(tag) = self.tag(at) {
            if at > from && tag == group.delimiter {
                break;
            }
            let Some(place) = group.members.find(tag) else {
                if self.belongs_outside(tag, outer) {
                    break;
                }
                at += 1;
                continue;
            };
            let (word, bit) = (&mut seen[place / 64], 1 << (place % 64));
            if *word & bit != 0 && self.belongs_outside(tag, outer) {
                break;
            }
            *word |= bit;
            at = match group.members.group(place) {
                Some(inner) => self.end_of_group(at, &group.members, inner),
                None => at + 1,
            };
        }
        at
    }

    fn belongs_outside(&self, tag: Tag, outer: &Members) -> bool {
        outer.has(tag)
            || self.members.has(tag)
            || self.dictionary.is_header(tag)
            || self.dictionary.trailer.has(tag)
    }
}

impl<'m, 'a, 'd> Iterator for Entries<'m, 'a, 'd> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let from = self.at;
        if self.grouped.tag(from) != Some(self.group.delimiter) {
            return None;
        }
        self.at = self.grouped.end_of_entry(from, self.outer, self.group);
        Some(from..self.at)
    }
}

impl<'m, 'a, 'd> Entries<'m, 'a, 'd> {
    /// Returns the value of a field of one of these entries, outside the groups within it.
    #[must_use]
    pub fn value(&self, entry: Range<usize>, tag: Tag) -> Option<&'a [u8]> {
        self.grouped.message.value_at(self.place(entry, tag)?)
    }

    /// Returns the entries of a group within one of these entries.
    #[must_use]
    pub fn inner(&self, entry: Range<usize>, count: Tag) -> Option<Entries<'m, 'a, 'd>> {
        let at = self.place(entry, count)?;
        let group = self.group.members.group(self.group.members.find(count)?)?;
        Some(Entries { grouped: self.grouped, outer: &self.group.members, group, at: at + 1 })
    }

    fn place(&self, entry: Range<usize>, tag: Tag) -> Option<usize> {
        let mut at = entry.start;
        while at < entry.end {
            let found = self.grouped.tag(at)?;
            if found == tag {
                return Some(at);
            }
            let inner =
                self.group.members.find(found).and_then(|place| self.group.members.group(place));
            at = match inner {
                Some(inner) => self.grouped.end_of_group(at, &self.group.members, inner),
                None => at + 1,
            };
        }
        None
    }
}
