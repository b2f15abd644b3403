//! The generator: SBE schema (XML) in, Rust source text out.
//!
//! `parse` checks the XML and builds the `model`; the `emit_*` modules print Rust from the model. Whatever the
//! generator does not support is an error that names file, line and element, never something silently left out.

mod emit_blocks;
mod emit_encoders;
mod emit_messages;
mod emit_types;
mod error;
mod model;
mod names;
mod parse;
mod parse_types;

pub(crate) use error::SchemaError;

/// What the schema itself does not say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// The oldest schema version whose messages the generated code accepts.
    pub(crate) version_min: u16,
    /// Whether a framing header stands in front of each message. Without one, the length of a message is known from
    /// outside.
    pub(crate) framed: bool,
}

/// Translates one schema. `file` is only shown in errors.
pub(crate) fn generate(file: &str, xml: &str, options: Options) -> Result<String, SchemaError> {
    let schema = parse::parse(file, xml)?;
    let mut code = String::with_capacity(256 * 1024);
    emit_types::schema_constants(&mut code, &schema, options);
    schema.enums.iter().for_each(|e| emit_types::enumeration(&mut code, e));
    schema.sets.iter().for_each(|s| emit_types::set(&mut code, s));
    schema.messages.iter().for_each(|m| emit_messages::module(&mut code, m));
    emit_messages::message_enum(&mut code, &schema);
    Ok(code)
}
