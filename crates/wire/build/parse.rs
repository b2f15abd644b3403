//! Messages of a schema, and what makes every problem name its element.

use roxmltree::{Document, Node};

use super::SchemaError;
use super::model::{Block, Data, Field, Group, Kind, Message, Prim, Schema};
use super::names;
use super::parse_types::{Types, VarData, doc, parse_types};

/// The text being parsed, for errors.
pub(super) struct Source<'a> {
    file: &'a str,
    document: &'a Document<'a>,
}

/// Reads and checks a whole schema.
pub(super) fn parse(file: &str, xml: &str) -> Result<Schema, SchemaError> {
    let document = Document::parse(xml).map_err(|e| SchemaError {
        file: file.to_owned(),
        line: e.pos().row,
        element: "XML".to_owned(),
        problem: e.to_string(),
    })?;
    let source = Source { file, document: &document };
    let root = document.root_element();
    source.expect_tag(root, "messageSchema")?;
    if !matches!(root.attribute("byteOrder"), None | Some("littleEndian")) {
        return Err(source.error(root, "unsupported byteOrder: expected littleEndian"));
    }
    let version = source.number(root, "version")?;
    let types = parse_types(&source, root, version)?;
    let mut messages: Vec<Message> = Vec::new();
    for node in elements(root) {
        match node.tag_name().name() {
            "types" => {}
            "message" => {
                let message = parse_message(&source, node, &types, version)?;
                if messages.iter().any(|m| m.id == message.id || m.name == message.name) {
                    return Err(source.error(node, "name or id is used by an earlier message"));
                }
                messages.push(message);
            }
            _ => return Err(source.error(node, "unsupported: expected types or message")),
        }
    }
    let Types { enums, sets, .. } = types;
    Ok(Schema {
        file: file.to_owned(),
        id: source.number(root, "id")?,
        version,
        enums,
        sets,
        messages,
    })
}

fn parse_message(
    source: &Source<'_>,
    node: Node<'_, '_>,
    types: &Types,
    version: u16,
) -> Result<Message, SchemaError> {
    source.allow(node, &["name", "id", "description", "sinceVersion", "semanticType"])?;
    let name = source.name(node)?;
    let since = source.since(node, version, 0, 0)?;
    let mut message = Message {
        module: names::snake(&name),
        id: source.number(node, "id")?,
        doc: doc(node),
        since,
        block: parse_block(source, node, types, version, since)?,
        groups: Vec::new(),
        data: Vec::new(),
        name,
    };
    for child in elements(node) {
        match child.tag_name().name() {
            "field" => {}
            "group" => {
                let group = parse_group(source, child, types, version, &message)?;
                message.groups.push(group);
            }
            "data" => {
                let data = parse_data(source, child, types, version, &message)?;
                message.data.push(data);
            }
            _ => return Err(source.error(child, "unsupported: expected field, group or data")),
        }
    }
    Ok(message)
}

fn parse_group(
    source: &Source<'_>,
    node: Node<'_, '_>,
    types: &Types,
    version: u16,
    message: &Message,
) -> Result<Group, SchemaError> {
    source.allow(
        node,
        &["name", "id", "description", "dimensionType", "sinceVersion", "semanticType"],
    )?;
    if !message.data.is_empty() {
        return Err(source.error(node, "a group after a data element: groups come before data"));
    }
    let dimension = node.attribute("dimensionType").unwrap_or("groupSizeEncoding");
    if !types.dimensions.iter().any(|d| d == dimension) {
        return Err(source.error(
            node,
            &format!("dimensionType {dimension:?} is not a known group size composite"),
        ));
    }
    if let Some(inner) = elements(node).find(|n| n.tag_name().name() != "field") {
        return Err(source.error(inner, "unsupported inside a group: expected field"));
    }
    let newest = message.groups.last().map_or(message.since, |g| g.since);
    let since = source.since(node, version, message.since, newest)?;
    let name = source.name(node)?;
    let mut entry = names::singular(&name);
    if entry == message.name
        || types.kinds.contains_key(&entry)
        || ["Block", "Encoder"].contains(&entry.as_str())
    {
        "Item".clone_into(&mut entry);
    }
    if message.groups.iter().any(|g| g.entry == entry) {
        return Err(source.error(node, &format!("two groups would have the entry type {entry}")));
    }
    let block = parse_block(source, node, types, version, since)?;
    Ok(Group { rust: source.rust_name(node)?, entry, doc: doc(node), since, block, name })
}

fn parse_data(
    source: &Source<'_>,
    node: Node<'_, '_>,
    types: &Types,
    version: u16,
    message: &Message,
) -> Result<Data, SchemaError> {
    source.allow(node, &["name", "id", "type", "description", "sinceVersion", "semanticType"])?;
    let type_name = node.attribute("type").unwrap_or_default();
    let Some(VarData { text, len_max }) = types.var_data.get(type_name).copied() else {
        return Err(
            source.error(node, &format!("type {type_name:?} is not a known var data composite"))
        );
    };
    let newest_group = message.groups.last().map_or(message.since, |g| g.since);
    let newest = message.data.last().map_or(newest_group, |d| d.since);
    let since = source.since(node, version, message.since, newest)?;
    Ok(Data {
        name: source.name(node)?,
        rust: source.rust_name(node)?,
        doc: doc(node),
        since,
        text,
        len_max,
    })
}

/// The fields directly under a message or group.
fn parse_block(
    source: &Source<'_>,
    node: Node<'_, '_>,
    types: &Types,
    version: u16,
    since: u16,
) -> Result<Block, SchemaError> {
    let mut block = Block { since, fields: Vec::new() };
    let mut fields_are_over = false;
    for child in elements(node) {
        if child.tag_name().name() != "field" {
            fields_are_over = true;
            continue;
        }
        if fields_are_over {
            return Err(
                source.error(child, "a field after a group or data element: fields come first")
            );
        }
        source.allow(
            child,
            &[
                "name",
                "id",
                "type",
                "description",
                "sinceVersion",
                "semanticType",
                "timeUnit",
                "epoch",
            ],
        )?;
        let newest = block.fields.last().map_or(since, |f| f.since);
        let field = Field {
            name: source.name(child)?,
            rust: source.rust_name(child)?,
            doc: doc(child),
            kind: field_kind(source, child, types)?,
            since: source.since(child, version, since, newest)?,
            offset: block.len(),
        };
        if block.fields.iter().any(|f| f.name == field.name) {
            return Err(source.error(child, "the name is used by an earlier field of the block"));
        }
        block.fields.push(field);
    }
    if block.base().next().is_none() {
        return Err(source.error(node, "unsupported: a block without fields of its first version"));
    }
    if u16::try_from(block.len()).is_err() {
        return Err(source.error(node, "the block is longer than 65,535 bytes"));
    }
    Ok(block)
}

fn field_kind(source: &Source<'_>, node: Node<'_, '_>, types: &Types) -> Result<Kind, SchemaError> {
    let type_name = node.attribute("type").unwrap_or_default();
    if let Some(kind) = types.kinds.get(type_name) {
        return Ok(kind.clone());
    }
    match Prim::from_schema(type_name) {
        Some(prim) => Ok(Kind::Number(prim)),
        None => Err(source.error(
            node,
            &format!("type {type_name:?} is unsupported here: expected an integer type, or a type, enum or set declared above"),
        )),
    }
}

/// Child elements, without text and comments.
pub(super) fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

impl Source<'_> {
    /// A problem at an element.
    pub(super) fn error(&self, node: Node<'_, '_>, problem: &str) -> SchemaError {
        let tag = node.tag_name().name();
        let element = match node.attribute("name") {
            Some(name) => format!("<{tag} name={name:?}>"),
            None => format!("<{tag}>"),
        };
        let line = self.document.text_pos_at(node.range().start).row;
        SchemaError { file: self.file.to_owned(), line, element, problem: problem.to_owned() }
    }

    pub(super) fn expect_tag(&self, node: Node<'_, '_>, tag: &str) -> Result<(), SchemaError> {
        if node.tag_name().name() == tag {
            return Ok(());
        }
        Err(self.error(node, &format!("unsupported: expected <{tag}>")))
    }

    /// Refuses attributes that would change the meaning without the generator knowing.
    pub(super) fn allow(&self, node: Node<'_, '_>, names: &[&str]) -> Result<(), SchemaError> {
        match node.attributes().find(|a| !names.contains(&a.name())) {
            None => Ok(()),
            Some(found) => {
                let problem =
                    format!("the attribute {}={:?} is unsupported", found.name(), found.value());
                Err(self.error(node, &problem))
            }
        }
    }

    /// The `name` attribute.
    pub(super) fn name(&self, node: Node<'_, '_>) -> Result<String, SchemaError> {
        match node.attribute("name") {
            Some(name) if names::is_plain(name) => Ok(name.to_owned()),
            Some(_) => Err(self.error(node, "the name is not plain ASCII letters and digits")),
            None => Err(self.error(node, "the attribute name is missing")),
        }
    }

    fn rust_name(&self, node: Node<'_, '_>) -> Result<String, SchemaError> {
        let rust = names::snake(&self.name(node)?);
        if names::is_reserved(&rust) {
            return Err(self.error(
                node,
                &format!("the name {rust:?} is reserved in Rust or in generated code"),
            ));
        }
        Ok(rust)
    }

    fn number<T: std::str::FromStr>(
        &self,
        node: Node<'_, '_>,
        name: &str,
    ) -> Result<T, SchemaError> {
        let text = node.attribute(name).unwrap_or_default();
        text.parse()
            .map_err(|_| self.error(node, &format!("{name}={text:?}: expected a number in range")))
    }

    pub(super) fn number_or<T: std::str::FromStr>(
        &self,
        node: Node<'_, '_>,
        name: &str,
        default: T,
    ) -> Result<T, SchemaError> {
        if node.has_attribute(name) { self.number(node, name) } else { Ok(default) }
    }

    /// `sinceVersion`, by default that of the parent: not newer than the schema and not older than what stands before,
    /// because things are only ever added at the end.
    pub(super) fn since(
        &self,
        node: Node<'_, '_>,
        version: u16,
        parent: u16,
        newest: u16,
    ) -> Result<u16, SchemaError> {
        let since: u16 = self.number_or(node, "sinceVersion", parent)?;
        if since > version {
            return Err(self.error(
                node,
                &format!("sinceVersion {since} is newer than the schema's version {version}"),
            ));
        }
        if since < newest {
            let problem = format!(
                "sinceVersion {since} after an element of version {newest}: add at the end only"
            );
            return Err(self.error(node, &problem));
        }
        Ok(since)
    }
}
