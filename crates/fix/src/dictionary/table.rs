//! The crate's own tables: facts of the published specifications, written down for this crate.
//!
//! A line is one of
//! ```text
//! # a comment
//! range 1 446                       every tag of these is a field of the version
//! not 101 447-65535                 ... but these are none
//! field 54 CHAR 1 2 3               type and values; without values, any of the type
//! field 63 STRING 0 D#              `D#` stands for D1, D2 and so on
//! part Instrument 55! 65 48         members that messages share
//! header 8! 9! 35!                  the same for the header, and `trailer`
//! message D 11! @Instrument! 453(448! 447 452)
//! types J P                         types of messages whose fields are not listed
//! ```
//! `!` marks what is required; `453(448 447)` is a group whose entries begin with 448. A later line replaces an earlier one.

use std::collections::BTreeMap;

use super::{ANY_FIELD, Dictionary, FieldRule, FieldType, Group, Members};
use crate::tag::Tag;

/// Reads tables one after the other. They are part of the crate and tested: a line that cannot be read is left out, and a test fails.
pub(super) fn read(tables: &[&'static str]) -> Dictionary {
    let mut reader = TableReader::default();
    for line in tables.iter().flat_map(|table| logical_lines(table)) {
        if reader.line(&line).is_none() {
            reader.unread.push(line);
        }
    }
    debug_assert!(reader.unread.is_empty(), "{:?}", reader.unread);
    reader.dictionary
}

/// Lines, those that begin with a space joined to the one before.
fn logical_lines(table: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for line in table.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
        match lines.last_mut() {
            Some(last) if line.starts_with(' ') => last.push_str(line),
            _ => lines.push(line.to_string()),
        }
    }
    lines
}

#[derive(Default)]
struct TableReader {
    dictionary: Dictionary,
    parts: BTreeMap<String, String>,
    unread: Vec<String>,
}

impl TableReader {
    fn line(&mut self, line: &str) -> Option<()> {
        let (keyword, rest) = line.split_once(' ')?;
        match keyword {
            "range" => {
                let (from, to) = rest.split_once(' ')?;
                let tags = from.parse::<Tag>().ok()?..=to.parse().ok()?;
                tags.filter(|tag| !self.dictionary.has_field(*tag))
                    .collect::<Vec<Tag>>()
                    .into_iter()
                    .for_each(|tag| self.dictionary.set_place(tag, ANY_FIELD));
            }
            "not" => {
                for tags in rest.split_whitespace() {
                    let (from, to) = tags.split_once('-').unwrap_or((tags, tags));
                    for tag in from.parse::<Tag>().ok()?..=to.parse().ok()? {
                        self.dictionary.remove(tag);
                    }
                }
            }
            "field" => {
                let mut words = rest.split_whitespace();
                let (tag, kind) = (words.next()?.parse().ok()?, FieldType::named(words.next()?));
                let (mut values, mut numbered) = (Vec::new(), Vec::new());
                for word in words {
                    match word.as_bytes() {
                        [letter, b'#'] => numbered.push(*letter),
                        word => values.push(word.to_vec()),
                    }
                }
                let rule = FieldRule { numbered, ..FieldRule::new(kind, values) };
                self.dictionary.define(tag, rule);
            }
            "part" => {
                let (name, members) = rest.split_once(' ')?;
                self.parts.insert(name.to_string(), members.to_string());
            }
            "header" => {
                let header = self.members(rest)?;
                self.dictionary.set_header(header);
            }
            "trailer" => self.dictionary.trailer = self.members(rest)?,
            "message" => {
                let (name, members) = rest.split_once(' ')?;
                let members = self.members(members)?;
                self.dictionary.messages.insert(name.as_bytes().to_vec(), Some(members));
            }
            "types" => {
                for name in rest.split_whitespace() {
                    self.dictionary.messages.insert(name.as_bytes().to_vec(), None);
                }
            }
            _ => return None,
        }
        Some(())
    }

    fn members(&self, text: &str) -> Option<Members> {
        let text = self.expanded(text, true, 0)?;
        let mut rest = text.as_str();
        let (members, _) = members(&mut rest)?;
        rest.trim().is_empty().then_some(members)
    }

    /// Puts the members of parts in the place of their names; those of a part that is not required are not either.
    fn expanded(&self, text: &str, required: bool, depth: usize) -> Option<String> {
        let mut whole = String::new();
        let mut inside = 0;
        for word in text.replace('(', "( ").replace(')', " )").split_whitespace() {
            if let Some(name) = word.strip_prefix('@') {
                let (name, needed) =
                    name.strip_suffix('!').map_or((name, false), |name| (name, true));
                let part = (depth < 8).then(|| self.parts.get(name))??;
                whole.push_str(&self.expanded(
                    part,
                    needed && (required || inside > 0),
                    depth + 1,
                )?);
            } else if required || inside > 0 {
                whole.push_str(word);
            } else {
                whole.push_str(&word.replace('!', ""));
            }
            inside += word.matches('(').count();
            inside = usize::checked_sub(inside, word.matches(')').count())?;
            whole.push(' ');
        }
        Some(whole)
    }
}

/// Reads members up to the end or to `)`, and the first of them.
fn members(rest: &mut &str) -> Option<(Members, Option<Tag>)> {
    let (mut members_read, mut first) = (Members::default(), None);
    loop {
        *rest = rest.trim_start();
        if rest.is_empty() || rest.starts_with(')') {
            return Some((members_read, first));
        }
        let digits = rest.len() - rest.trim_start_matches(|byte: char| byte.is_ascii_digit()).len();
        let tag: Tag = rest[..digits].parse().ok()?;
        *rest = &rest[digits..];
        let required = rest.starts_with('!');
        *rest = rest.strip_prefix('!').unwrap_or(rest);
        let group = match rest.strip_prefix('(') {
            Some(inner) => {
                *rest = inner;
                let (members, delimiter) = members(rest)?;
                *rest = rest.strip_prefix(')')?;
                Some(Group { delimiter: delimiter?, members })
            }
            None => None,
        };
        first.get_or_insert(tag);
        members_read.put(tag, group, required);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_read() {
        for dictionary in [Dictionary::fix42(), Dictionary::fix44(), Dictionary::fixt11_fix50sp2()]
        {
            assert!(dictionary.header.entries.len() > 20 && dictionary.trailer.entries.len() == 3);
            for members in dictionary.messages.values().flatten().chain([&dictionary.header]) {
                known_members(&dictionary, members);
            }
        }
    }

    /// Each member is a field of the version, and each count field is one by its type.
    fn known_members(dictionary: &Dictionary, members: &Members) {
        for member in &members.entries {
            assert!(dictionary.has_field(member.tag), "{}", member.tag);
            if let Some(group) = &member.group {
                let kind = dictionary.field_type(member.tag);
                assert!(matches!(kind, Some(FieldType::Count | FieldType::Int)), "{}", member.tag);
                assert!(group.members.has(group.delimiter));
                known_members(dictionary, &group.members);
            }
        }
    }

    #[test]
    fn a_line_that_cannot_be_read_is_told() {
        let mut reader = TableReader::default();
        for line in [
            "field x INT",
            "message D 1(",
            "message D @Nothing",
            "what 1",
            "range 1",
            "message D 1(2))",
        ] {
            assert!(reader.line(line).is_none(), "{line}");
        }
    }
}
