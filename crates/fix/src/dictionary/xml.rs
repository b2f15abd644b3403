//! Dictionaries in QuickFIX's XML format, as venues hand them out.

use std::collections::BTreeMap;

use roxmltree::{Document, Node, ParsingOptions};

use super::{
    Dictionary, DictionaryError, FieldRule, FieldType, Group, MEMBERS_MAX, Members, TAG_MAX,
};
use crate::tag::Tag;

/// The largest dictionary: ten times that of FIX 5.0 SP2.
const NODES_MAX: u32 = 1 << 20;
/// How deep groups and components may stand in each other; those of FIX stand 7 deep.
const DEPTH_MAX: usize = 24;
/// How many fields a message may mention, those of all its components with them: components that mention each other several times
/// would otherwise multiply.
const MENTIONS_MAX: usize = 20_000;

type Named<'a> = BTreeMap<&'a str, Node<'a, 'a>>;

pub(super) fn read(text: &str) -> Result<Dictionary, DictionaryError> {
    let options =
        ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    let document = Document::parse_with_options(text, options).map_err(|error| {
        let at = error.pos();
        DictionaryError::Syntax { line: at.row, column: at.col, what: error.to_string() }
    })?;
    let root = document.root_element();
    if !root.has_tag_name("fix") {
        return Err(content(root, "the root element is <fix>"));
    }
    let mut dictionary = Dictionary::default();
    let mut tags = BTreeMap::new();
    for field in children(part(root, "fields")?, &["field"]) {
        let field = field?;
        let tag = tag_of(field)?;
        if tags.insert(attribute(field, "name")?, tag).is_some() {
            return Err(content(field, "a field of this name is defined above"));
        }
        dictionary.define(tag, rule_of(field)?);
    }
    let mut components = BTreeMap::new();
    if let Some(part) = root.children().find(|node| node.has_tag_name("components")) {
        for component in children(part, &["component"]) {
            let component = component?;
            components.insert(attribute(component, "name")?, component);
        }
    }
    let mut reader = MemberReader { tags: &tags, components: &components, mentions: 0 };
    for name in ["header", "trailer"] {
        let Some(node) = root.children().find(|node| node.has_tag_name(name)) else { continue };
        let members = reader.members_of(node)?;
        match name {
            "header" => dictionary.set_header(members),
            _ => dictionary.trailer = members,
        }
    }
    for message in children(part(root, "messages")?, &["message"]) {
        let message = message?;
        let msg_type = attribute(message, "msgtype")?.as_bytes().to_vec();
        dictionary.messages.insert(msg_type, Some(reader.members_of(message)?));
    }
    Ok(dictionary)
}

fn rule_of(field: Node<'_, '_>) -> Result<FieldRule, DictionaryError> {
    let mut values = Vec::new();
    for value in children(field, &["value"]) {
        values.push(attribute(value?, "enum")?.as_bytes().to_vec());
    }
    Ok(FieldRule::new(FieldType::named(attribute(field, "type")?), values))
}

/// Follows the members of messages, groups and components.
struct MemberReader<'a> {
    tags: &'a BTreeMap<&'a str, Tag>,
    components: &'a Named<'a>,
    mentions: usize,
}

impl<'a> MemberReader<'a> {
    fn members_of(&mut self, node: Node<'a, 'a>) -> Result<Members, DictionaryError> {
        let mut members = Members::default();
        self.mentions = 0;
        self.collect(node, true, &mut members, &mut None, 0)?;
        Ok(members)
    }

    /// Adds the members of `node`; `first` becomes the first field, in the order of the dictionary.
    fn collect(
        &mut self,
        node: Node<'a, 'a>,
        required: bool,
        members: &mut Members,
        first: &mut Option<Tag>,
        depth: usize,
    ) -> Result<(), DictionaryError> {
        if depth > DEPTH_MAX {
            return Err(content(
                node,
                "groups and components stand too deep in each other, perhaps in themselves",
            ));
        }
        for member in children(node, &["field", "group", "component"]) {
            let member = member?;
            self.mentions += 1;
            if self.mentions > MENTIONS_MAX {
                return Err(content(member, "the message mentions more than 20,000 fields"));
            }
            let name = attribute(member, "name")?;
            let required = required && member.attribute("required") == Some("Y");
            if member.has_tag_name("component") {
                let component = self.components.get(name);
                let component =
                    *component.ok_or_else(|| content(member, "no component has this name"))?;
                self.collect(component, required, members, first, depth + 1)?;
                continue;
            }
            let tag =
                *self.tags.get(name).ok_or_else(|| content(member, "no field has this name"))?;
            let group = match member.has_tag_name("group") {
                true => Some(self.group(member, depth + 1)?),
                false => None,
            };
            first.get_or_insert(tag);
            if !members.put(tag, group, required) {
                return Err(content(
                    member,
                    &format!("more than {MEMBERS_MAX} fields in one message or group"),
                ));
            }
        }
        Ok(())
    }

    fn group(&mut self, node: Node<'a, 'a>, depth: usize) -> Result<Group, DictionaryError> {
        let (mut members, mut first) = (Members::default(), None);
        self.collect(node, true, &mut members, &mut first, depth)?;
        let delimiter = first.ok_or_else(|| content(node, "a group has at least one field"))?;
        Ok(Group { delimiter, members })
    }
}

/// The elements below a node, each of which has one of the names.
fn children<'a>(
    node: Node<'a, 'a>,
    names: &'static [&'static str],
) -> impl Iterator<Item = Result<Node<'a, 'a>, DictionaryError>> {
    node.children().filter(Node::is_element).map(move |child| {
        let known = names.contains(&child.tag_name().name());
        known
            .then_some(child)
            .ok_or_else(|| content(child, &format!("expected <{}>", names.join("> or <"))))
    })
}

fn part<'a>(root: Node<'a, 'a>, name: &str) -> Result<Node<'a, 'a>, DictionaryError> {
    let found = root.children().find(|node| node.has_tag_name(name));
    found.ok_or_else(|| content(root, &format!("<{name}> is missing")))
}

fn attribute<'a>(node: Node<'a, 'a>, name: &str) -> Result<&'a str, DictionaryError> {
    let value = node.attribute(name).filter(|value| !value.is_empty());
    value.ok_or_else(|| content(node, &format!("the attribute {name} is missing or empty")))
}

fn tag_of(field: Node<'_, '_>) -> Result<Tag, DictionaryError> {
    let number = attribute(field, "number")?.parse::<Tag>().ok();
    let tag = number.filter(|tag| (1..=TAG_MAX).contains(tag));
    tag.ok_or_else(|| content(field, "number is a tag from 1 to 65535"))
}

fn content(node: Node<'_, '_>, what: &str) -> DictionaryError {
    let line = node.document().text_pos_at(node.range().start).row;
    let name = node.attribute("name").map(|name| format!(" {name}")).unwrap_or_default();
    DictionaryError::Content { line, what: format!("<{}{name}>: {what}", node.tag_name().name()) }
}
