//! Prints schema constants, enums and sets.

use super::Options;
use super::model::{Enum, Schema, Set};

/// Writes to the code text; a `String` never fails.
macro_rules! put {
    ($code:expr, $($text:tt)*) => {{
        let _ = ::std::fmt::Write::write_fmt($code, format_args!("{}\n", format_args!($($text)*)));
    }};
}
pub(super) use put;

/// One doc comment, with a fallback: every public item is documented.
pub(super) fn doc_line(description: &str, otherwise: &str) -> String {
    let text = if description.is_empty() { otherwise } else { description };
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase()).into_iter().collect::<String>();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("/// {first}{}{end}", letters.as_str())
}

pub(super) fn schema_constants(code: &mut String, schema: &Schema, options: Options) {
    let Options { version_min, framed } = options;
    let Schema { file, id, version, .. } = schema;
    put!(code, "// Generated from {file}; do not edit.\n");
    put!(
        code,
        "/// Id of this schema, in every message header.
pub const SCHEMA_ID: u16 = {id};"
    );
    put!(
        code,
        "/// Version of this schema: the one that encoders write.
pub const SCHEMA_VERSION: u16 = {version};"
    );
    put!(
        code,
        "/// Oldest schema version that decoders accept.
pub const SCHEMA_VERSION_MIN: u16 = {version_min};
"
    );
    put!(
        code,
        "const SCHEMA: ::wire::rt::SchemaInfo = ::wire::rt::SchemaInfo {{
    id: SCHEMA_ID,
    version: SCHEMA_VERSION,
    version_min: SCHEMA_VERSION_MIN,
    framed: {framed},
}};
"
    );
}

pub(super) fn enumeration(code: &mut String, e: &Enum) {
    let name = &e.name;
    put!(code, "{}", doc_line(&e.doc, &format!("The values of {name}")));
    put!(
        code,
        "#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum {name} {{"
    );
    for v in &e.values {
        put!(
            code,
            "    {}\n    {} = {},",
            doc_line(&v.doc, &format!("`{}`", v.name)),
            v.rust,
            v.raw
        );
    }
    put!(code, "}}\n\nimpl {name} {{");
    put!(
        code,
        "    /// Every value, in the order of the schema.
    pub const ALL: [Self; {}] = [",
        e.values.len()
    );
    e.values.iter().for_each(|v| put!(code, "        Self::{},", v.rust));
    put!(code, "    ];\n");
    put!(code, "    /// The value of a code on the wire; `None` if this schema does not know it.");
    put!(
        code,
        "    #[inline]
    pub const fn from_raw(raw: u8) -> Option<Self> {{
        match raw {{"
    );
    e.values.iter().for_each(|v| put!(code, "            {} => Some(Self::{}),", v.raw, v.rust));
    put!(
        code,
        "            _ => None,
        }}
    }}
"
    );
    put!(
        code,
        "    /// The code on the wire.
    #[inline]
    pub const fn as_raw(self) -> u8 {{
        self as u8
    }}
"
    );
    put!(
        code,
        "    /// The name in JSON, metrics and logs (snake_case).
    pub const fn name(self) -> &'static str {{
        match self {{"
    );
    e.values.iter().for_each(|v| {
        put!(code, "            Self::{} => {:?},", v.rust, v.name.to_ascii_lowercase())
    });
    put!(code, "        }}\n    }}\n");
    put!(
        code,
        "    /// What it means, in one sentence; empty where the schema says nothing.
    pub const fn description(self) -> &'static str {{
        match self {{"
    );
    e.values.iter().for_each(|v| put!(code, "            Self::{} => {:?},", v.rust, v.doc));
    put!(code, "        }}\n    }}\n}}\n");
    put!(
        code,
        "impl ::core::fmt::Display for {name} {{
    fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {{
        f.pad(self.name())
    }}
}}
"
    );
}

pub(super) fn set(code: &mut String, s: &Set) {
    let (name, native) = (&s.name, s.prim.native());
    put!(code, "{}", doc_line(&s.doc, &format!("The bits of {name}")));
    put!(code, "/// Bits that this schema does not know are kept.");
    put!(
        code,
        "#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct {name}({native});

impl {name} {{"
    );
    put!(
        code,
        "    /// No bit set.
    pub const NONE: Self = Self(0);"
    );
    for c in &s.choices {
        let doc = doc_line(&c.doc, &format!("Bit {}, `{}`", c.bit, c.name));
        put!(
            code,
            "    {doc}
    pub const {}: Self = Self(1 << {});",
            c.rust.to_ascii_uppercase(),
            c.bit
        );
    }
    put!(
        code,
        "
    /// The set of a number on the wire.
    #[inline]
    pub const fn from_raw(raw: {native}) -> Self {{
        Self(raw)
    }}
"
    );
    put!(
        code,
        "    /// The number on the wire.
    #[inline]
    pub const fn as_raw(self) -> {native} {{
        self.0
    }}
"
    );
    put!(
        code,
        "    /// Whether all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Self) -> bool {{
        self.0 & other.0 == other.0
    }}
"
    );
    put!(
        code,
        "    /// The bits of both.
    #[inline]
    #[must_use]
    pub const fn with(self, other: Self) -> Self {{
        Self(self.0 | other.0)
    }}
"
    );
    for c in &s.choices {
        let doc = doc_line(&c.doc, &format!("Bit {}, `{}`", c.bit, c.name));
        put!(
            code,
            "    {doc}
    #[inline]
    pub const fn {}(self) -> bool {{
        self.0 & (1 << {}) != 0
    }}
",
            c.rust,
            c.bit
        );
    }
    put!(code, "}}\n");
}
