//! Prints one module a message (views, encoder) and the enum over all messages.

use super::emit_blocks::{self, getters, late_getters, put_getter};
use super::emit_encoders::encoder;
use super::emit_types::{doc_line, put};
use super::model::{Block, Data, Field, Group, Kind, Message, Schema};

pub(super) fn module(code: &mut String, message: &Message) {
    let Message { name, module, id, .. } = message;
    put!(
        code,
        "/// `{name}`, message {id}: {}",
        doc_line(&message.doc, "see the schema").trim_start_matches("/// ")
    );
    put!(code, "pub mod {module} {{");
    put!(
        code,
        "/// Template id of `{name}` in the message header.
pub const TEMPLATE_ID: u16 = {id};
"
    );
    emit_blocks::block(code, "Block", &format!("The root block of `{name}`"), &message.block);
    for group in &message.groups {
        let what = format!("One entry of `{}` in `{name}`", group.name);
        emit_blocks::block(code, &group.entry, &what, &group.block);
    }
    view(code, message);
    visitor(code, message);
    encoder(code, message);
    put!(code, "}}\npub use {module}::{name};\n");
}

/// Whether an element may be absent because the writer is older.
fn is_late(since: u16, message: &Message) -> bool {
    since > message.since
}

fn optional(ty: &str, is_late: bool) -> String {
    if is_late { format!("Option<{ty}>") } else { ty.to_owned() }
}

fn view(code: &mut String, message: &Message) {
    let name = &message.name;
    put!(code, "{}", doc_line(&message.doc, &format!("The message `{name}`")));
    put!(
        code,
        "///
/// A view: checked once against its bytes, then read in place."
    );
    put!(
        code,
        "#[derive(Clone, Copy, Debug)]
pub struct {name}<'a> {{
    block: <Block as ::wire::Entry>::View<'a>,"
    );
    for g in &message.groups {
        put!(
            code,
            "    {}: {},",
            g.rust,
            optional(&format!("::wire::Group<'a, {}>", g.entry), is_late(g.since, message))
        );
    }
    for d in &message.data {
        put!(code, "    {}: {},", d.rust, optional("&'a [u8]", is_late(d.since, message)));
    }
    put!(code, "}}\n\nimpl<'a> {name}<'a> {{");
    put_decode(code, message);
    put!(
        code,
        "    /// The fixed fields in one piece.
    #[inline]
    pub fn block(&self) -> <Block as ::wire::Entry>::View<'a> {{
        self.block
    }}
"
    );
    for field in &message.block.fields {
        put_root_getters(code, &message.block, field);
    }
    message.groups.iter().for_each(|g| put_group_getter(code, message, g));
    message.data.iter().for_each(|d| put_data_getter(code, message, d));
    put!(code, "}}\n");
}

fn put_decode(code: &mut String, message: &Message) {
    put!(
        code,
        "    /// Checks the bytes of one whole message, with its headers, that must be this one.
    ///
    /// # Errors
    /// What does not fit: see [`wire::FrameError`]."
    );
    put!(
        code,
        "    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ::wire::FrameError> {{"
    );
    put!(
        code,
        "        let cursor = ::wire::rt::open(bytes, &super::SCHEMA)?;
        cursor.expect(TEMPLATE_ID)?;
        Self::read(cursor)
    }}
"
    );
    put!(
        code,
        "    #[inline]
    pub(super) fn read(mut cursor: ::wire::rt::Cursor<'a>) -> Result<Self, ::wire::FrameError> {{"
    );
    put!(code, "        let block = cursor.block::<Block>()?;");
    let mut names = vec!["block".to_owned()];
    for Group { name, rust, entry, since, .. } in &message.groups {
        let read = format!("cursor.group::<{entry}>({name:?})?");
        put!(code, "        let {rust} = {};", guarded(&read, *since, message));
        names.push(rust.clone());
    }
    for Data { name, rust, since, len_max, .. } in &message.data {
        let read = format!("cursor.data({name:?}, {len_max})?");
        put!(code, "        let {rust} = {};", guarded(&read, *since, message));
        names.push(rust.clone());
    }
    put!(
        code,
        "        cursor.finish()?;
        Ok(Self {{ {} }})
    }}
",
        names.join(", ")
    );
}

fn guarded(read: &str, since: u16, message: &Message) -> String {
    match is_late(since, message) {
        true => format!("if cursor.version() >= {since} {{ Some({read}) }} else {{ None }}"),
        false => read.to_owned(),
    }
}

fn put_root_getters(code: &mut String, block: &Block, field: &Field) {
    let direct = if block.is_versioned() { "self.block.base" } else { "self.block" };
    let list = match field.since > block.since {
        true => late_getters(field)
            .into_iter()
            .map(|mut g| {
                g.expr = format!("self.block.{}()", g.name);
                g
            })
            .collect(),
        false => getters(field, &format!("{direct}.{}", field.rust), "'a "),
    };
    list.iter().for_each(|g| put_getter(code, field, g));
}

fn put_group_getter(code: &mut String, message: &Message, group: &Group) {
    let Group { name, rust, entry, doc, .. } = group;
    let ty = optional(&format!("::wire::Group<'a, {entry}>"), is_late(group.since, message));
    put!(code, "    {}", doc_line(doc, &format!("The group `{name}`")));
    put!(
        code,
        "    #[inline]
    pub fn {rust}(&self) -> {ty} {{
        self.{rust}
    }}
"
    );
}

fn put_data_getter(code: &mut String, message: &Message, data: &Data) {
    let Data { name, rust, doc, len_max, .. } = data;
    let late = is_late(data.since, message);
    let doc = doc_line(doc, &format!("The data `{name}`"));
    let bytes_name = if data.text { format!("{rust}_bytes") } else { rust.clone() };
    put!(code, "    {doc} At most {len_max} bytes.");
    if data.text {
        put!(
            code,
            "    ///
    /// # Errors
    /// The bytes are not UTF-8: it is checked here, only when asked for."
        );
        let ty = optional("Result<&'a str, ::core::str::Utf8Error>", late);
        let expr = if late {
            format!("self.{rust}.map(::core::str::from_utf8)")
        } else {
            format!("::core::str::from_utf8(self.{rust})")
        };
        put!(
            code,
            "    #[inline]
    pub fn {rust}(&self) -> {ty} {{
        {expr}
    }}
"
        );
        put!(code, "    /// The bytes of `{name}`, UTF-8 or not.");
    }
    put!(
        code,
        "    #[inline]
    pub fn {bytes_name}(&self) -> {} {{
        self.{rust}
    }}
",
        optional("&'a [u8]", late)
    );
}

/// The walk over all fields by name, for logs, tests and fuzzing.
fn visitor(code: &mut String, message: &Message) {
    let name = &message.name;
    put!(
        code,
        "impl {name}<'_> {{
    /// Shows every field, group and data element to a visitor, in the order of the schema."
    );
    put!(code, "    pub fn visit(&self, visitor: &mut dyn ::wire::Visitor) {{");
    message
        .block
        .fields
        .iter()
        .for_each(|f| put_visit(code, f, "self", f.since > message.block.since));
    for g in &message.groups {
        let late = is_late(g.since, message);
        let (open, close) = if late {
            (format!("if let Some(group) = self.{}", g.rust), "}")
        } else {
            (String::new(), "}")
        };
        put!(code, "        {open} {{");
        if !late {
            put!(code, "        let group = self.{};", g.rust);
        }
        put!(
            code,
            "        visitor.group({:?}, group.len());
        for entry in group {{
        visitor.entry();",
            g.name
        );
        g.block.fields.iter().for_each(|f| put_visit(code, f, "entry", f.since > g.block.since));
        put!(
            code,
            "        }}
        visitor.group_end();
        {close}"
        );
    }
    for d in &message.data {
        let method = if d.text { "text" } else { "bytes" };
        if is_late(d.since, message) {
            put!(
                code,
                "        if let Some(bytes) = self.{} {{ visitor.{method}({:?}, bytes); }}",
                d.rust,
                d.name
            );
        } else {
            put!(code, "        visitor.{method}({:?}, self.{});", d.name, d.rust);
        }
    }
    put!(code, "    }}\n}}\n");
}

fn put_visit(code: &mut String, field: &Field, of: &str, late: bool) {
    let (name, rust) = (&field.name, &field.rust);
    let raw = match field.kind {
        Kind::Enum(_) => format!("{of}.{rust}_raw()"),
        _ => format!("{of}.{rust}()"),
    };
    let call = match &field.kind {
        Kind::Number(_) => format!("visitor.number({name:?}, i128::from(value))"),
        Kind::Set(..) => format!("visitor.number({name:?}, i128::from(value.as_raw()))"),
        Kind::Bytes { text: true, .. } => format!("visitor.text({name:?}, value.as_slice())"),
        Kind::Bytes { text: false, .. } => format!("visitor.bytes({name:?}, value.as_slice())"),
        Kind::Enum(e) => format!(
            "visitor.choice({name:?}, value, super::{e}::from_raw(value).map(super::{e}::name))"
        ),
    };
    match late {
        true => put!(code, "        if let Some(value) = {raw} {{ {call}; }}"),
        false => put!(code, "        {{ let value = {raw}; {call}; }}"),
    }
}

/// The enum over all messages.
pub(super) fn message_enum(code: &mut String, schema: &Schema) {
    put!(
        code,
        "/// Any message of the schema, as a checked view.
#[derive(Clone, Copy, Debug)]
pub enum Message<'a> {{"
    );
    for m in &schema.messages {
        put!(
            code,
            "    {}\n    {}({}<'a>),",
            doc_line(&m.doc, &format!("See [`{}`]", m.name)),
            m.name,
            m.name
        );
    }
    put!(code, "}}\n\nimpl<'a> Message<'a> {{");
    put!(
        code,
        "    /// Checks the bytes of one whole message, with its headers, and says which one it is.
    ///
    /// # Errors
    /// What does not fit: see [`wire::FrameError`]."
    );
    put!(
        code,
        "    #[inline]
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ::wire::FrameError> {{
        let cursor = ::wire::rt::open(bytes, &SCHEMA)?;
        match cursor.template_id() {{"
    );
    for m in &schema.messages {
        put!(code, "            {} => {}::read(cursor).map(Message::{}),", m.id, m.name, m.name);
    }
    put!(
        code,
        "            found => Err(::wire::FrameError::UnknownTemplate {{ found }}),
        }}
    }}
"
    );
    each(
        code,
        schema,
        "    /// The name in the schema.
    pub fn name(&self) -> &'static str",
        |m| format!("Message::{}(_) => {:?},", m.name, m.name),
    );
    each(
        code,
        schema,
        "    /// The template id in the message header.
    pub fn template_id(&self) -> u16",
        |m| format!("Message::{}(_) => {}::TEMPLATE_ID,", m.name, m.module),
    );
    each(
        code,
        schema,
        "    /// Shows every field, group and data element to a visitor, in the order of the schema.
    pub fn visit(&self, visitor: &mut dyn ::wire::Visitor)",
        |m| format!("Message::{}(m) => m.visit(visitor),", m.name),
    );
    put!(code, "}}\n");
    let numbered: Vec<String> =
        schema.messages.iter().filter(|m| m.is_numbered()).map(|m| m.id.to_string()).collect();
    if numbered.is_empty() {
        return;
    }
    let pattern = numbered.join(" | ");
    put!(
        code,
        "/// Whether messages of this template begin with the frame number that answers echo.
#[allow(clippy::manual_range_patterns)] // ids as they stand in the schema
pub const fn is_numbered(template_id: u16) -> bool {{
    matches!(template_id, {pattern})
}}"
    );
}

fn each(code: &mut String, schema: &Schema, head: &str, arm: impl Fn(&Message) -> String) {
    put!(code, "{head} {{\n        match self {{");
    schema.messages.iter().for_each(|m| put!(code, "            {}", arm(m)));
    put!(code, "        }}\n    }}\n");
}
