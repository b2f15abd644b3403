//! The `<types>` of a schema: named types, enums, sets, and the three composites every message needs.

use std::collections::BTreeMap;

use roxmltree::Node;

use super::SchemaError;
use super::model::{Choice, Enum, Kind, Prim, Set, Value};
use super::names;
use super::parse::{Source, elements};

/// A variable-length composite.
#[derive(Clone, Copy)]
pub(super) struct VarData {
    pub(super) text: bool,
    pub(super) len_max: u32,
}

/// Everything that fields can refer to by name.
#[derive(Default)]
pub(super) struct Types {
    pub(super) kinds: BTreeMap<String, Kind>,
    pub(super) enums: Vec<Enum>,
    pub(super) sets: Vec<Set>,
    pub(super) var_data: BTreeMap<String, VarData>,
    /// Composites of the expected group dimension form (u16 block length, u16 count).
    pub(super) dimensions: Vec<String>,
    has_message_header: bool,
}

/// Reads all `<types>` elements.
pub(super) fn parse_types(
    source: &Source<'_>,
    root: Node<'_, '_>,
    version: u16,
) -> Result<Types, SchemaError> {
    let mut types = Types::default();
    for list in elements(root).filter(|n| n.tag_name().name() == "types") {
        for node in elements(list) {
            parse_type(source, node, version, &mut types)?;
        }
    }
    if !types.has_message_header {
        return Err(source.error(root, "the composite messageHeader is missing"));
    }
    Ok(types)
}

fn parse_type(
    source: &Source<'_>,
    node: Node<'_, '_>,
    version: u16,
    types: &mut Types,
) -> Result<(), SchemaError> {
    let name = source.name(node)?;
    if types.kinds.contains_key(&name) || Prim::from_schema(&name).is_some() {
        return Err(source.error(node, "the name is used before"));
    }
    match node.tag_name().name() {
        "type" => {
            let kind = parse_named_type(source, node)?;
            types.kinds.insert(name, kind);
        }
        "enum" => {
            types.kinds.insert(name.clone(), Kind::Enum(name));
            types.enums.push(parse_enum(source, node, version)?);
        }
        "set" => {
            let set = parse_set(source, node)?;
            types.kinds.insert(name.clone(), Kind::Set(name, set.prim));
            types.sets.push(set);
        }
        "composite" => parse_composite(source, node, types)?,
        _ => return Err(source.error(node, "unsupported: expected type, enum, set or composite")),
    }
    Ok(())
}

fn parse_named_type(source: &Source<'_>, node: Node<'_, '_>) -> Result<Kind, SchemaError> {
    source.allow(node, &["name", "primitiveType", "length", "description", "semanticType"])?;
    let prim = parse_prim(source, node, "primitiveType")?;
    let len: usize = source.number_or(node, "length", 1)?;
    let is_text = node.attribute("primitiveType") == Some("char");
    match (len, prim) {
        (0, _) => Err(source.error(node, "length 0 is supported in varData only")),
        (1, _) if !is_text => Ok(Kind::Number(prim)),
        (_, Prim::U8) => Ok(Kind::Bytes { len, text: is_text }),
        _ => Err(source.error(node, "arrays are supported for uint8 and char only")),
    }
}

fn parse_enum(source: &Source<'_>, node: Node<'_, '_>, version: u16) -> Result<Enum, SchemaError> {
    source.allow(node, &["name", "encodingType", "description"])?;
    if node.attribute("encodingType") != Some("uint8") {
        return Err(source.error(node, "unsupported encodingType: enums are uint8"));
    }
    let mut values: Vec<Value> = Vec::new();
    for value in elements(node) {
        source.expect_tag(value, "validValue")?;
        source.allow(value, &["name", "description", "sinceVersion"])?;
        // A reader takes unknown codes as numbers, so nothing hangs on the version but that it exists.
        source.since(value, version, 0, 0)?;
        let name = source.name(value)?;
        let text = value.text().unwrap_or_default().trim();
        let raw: u8 = text
            .parse()
            .map_err(|_| source.error(value, &format!("value {text:?}: expected 0 to 254")))?;
        if raw == u8::MAX {
            return Err(source.error(value, "255 means null in SBE: expected 0 to 254"));
        }
        if values.iter().any(|v| v.raw == raw || v.name == name) {
            return Err(source.error(value, "name or value is used before in this enum"));
        }
        values.push(Value { rust: names::camel_of_upper(&name), doc: doc(value), name, raw });
    }
    Ok(Enum { name: source.name(node)?, doc: doc(node), values })
}

fn parse_set(source: &Source<'_>, node: Node<'_, '_>) -> Result<Set, SchemaError> {
    source.allow(node, &["name", "encodingType", "description"])?;
    let prim = parse_prim(source, node, "encodingType")?;
    if !matches!(prim, Prim::U8 | Prim::U16 | Prim::U32 | Prim::U64) {
        return Err(source.error(node, "a set lies in an unsigned integer"));
    }
    let mut choices: Vec<Choice> = Vec::new();
    for choice in elements(node) {
        source.expect_tag(choice, "choice")?;
        source.allow(choice, &["name", "description"])?;
        let name = source.name(choice)?;
        let text = choice.text().unwrap_or_default().trim();
        let bit = text.parse::<u32>().ok().filter(|bit| (*bit as usize) < prim.len() * 8);
        let Some(bit) = bit else {
            let problem = format!("bit {text:?}: expected 0 to {}", prim.len() * 8 - 1);
            return Err(source.error(choice, &problem));
        };
        if choices.iter().any(|c| c.bit == bit || c.name == name) {
            return Err(source.error(choice, "name or bit is used before in this set"));
        }
        choices.push(Choice { rust: names::snake(&name), doc: doc(choice), name, bit });
    }
    Ok(Set { name: source.name(node)?, doc: doc(node), prim, choices })
}

/// Composites are not general: only the forms that SBE itself needs are supported.
fn parse_composite(
    source: &Source<'_>,
    node: Node<'_, '_>,
    types: &mut Types,
) -> Result<(), SchemaError> {
    let name = source.name(node)?;
    let members: Vec<_> = elements(node).collect();
    for member in &members {
        source.expect_tag(*member, "type")?;
    }
    let shape: Vec<(&str, &str)> = members
        .iter()
        .map(|m| (m.attribute("name").unwrap_or(""), m.attribute("primitiveType").unwrap_or("")))
        .collect();
    match shape.as_slice() {
        [
            ("blockLength", "uint16"),
            ("templateId", "uint16"),
            ("schemaId", "uint16"),
            ("version", "uint16"),
        ] if name == "messageHeader" => types.has_message_header = true,
        [("blockLength", "uint16"), ("numInGroup", "uint16")] => types.dimensions.push(name),
        [("length", "uint32"), ("varData", "uint8")] => {
            let text = match members[1].attribute("characterEncoding") {
                None => false,
                Some("UTF-8") => true,
                Some(_) => {
                    return Err(source.error(members[1], "characterEncoding: expected UTF-8"));
                }
            };
            let len_max = source.number_or(members[0], "maxValue", 1 << 30)?;
            types.var_data.insert(name, VarData { text, len_max });
        }
        _ => {
            let problem = "unsupported composite: expected messageHeader (four uint16), a group size \
                           (uint16 blockLength, uint16 numInGroup) or var data (uint32 length, uint8 varData)";
            return Err(source.error(node, problem));
        }
    }
    Ok(())
}

fn parse_prim(
    source: &Source<'_>,
    node: Node<'_, '_>,
    attribute: &str,
) -> Result<Prim, SchemaError> {
    let text = node.attribute(attribute).unwrap_or_default();
    Prim::from_schema(text).ok_or_else(|| {
        let problem =
            format!("{attribute}={text:?} is unsupported: expected an integer type or char");
        source.error(node, &problem)
    })
}

/// The description of an element, as doc text.
pub(super) fn doc(node: Node<'_, '_>) -> String {
    node.attribute("description").unwrap_or_default().to_owned()
}
