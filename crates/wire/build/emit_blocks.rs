//! Prints the fixed blocks: root blocks of messages and entries of groups.
//!
//! A block all of whose fields are as old as itself is one struct, read in place. A block with fields that were added
//! later becomes three: the whole struct (what we write), a `...Base` struct of the first fields (what every writer
//! sends), and a `...View` whose getters of added fields are `Option`s.

use super::emit_types::{doc_line, put};
use super::model::{Block, Field, Kind};

const DERIVES: &str = "#[derive(Clone, Copy, Debug, PartialEq, Eq, ::zerocopy::FromBytes, ::zerocopy::IntoBytes, ::zerocopy::KnownLayout, ::zerocopy::Immutable, ::zerocopy::Unaligned)]
#[repr(C)]";
/// Byte arrays up to this length are handed out by value.
const ARRAY_LEN_BY_VALUE_MAX: usize = 8;

/// One getter: its name, its return type and the expression over a stored field `f`.
pub(super) struct Getter {
    pub(super) name: String,
    pub(super) ty: String,
    pub(super) expr: String,
}

/// The type that lies in the buffer.
fn stored(kind: &Kind) -> String {
    match kind {
        Kind::Number(prim) | Kind::Set(_, prim) => prim.stored().to_owned(),
        Kind::Bytes { len, .. } => format!("[u8; {len}]"),
        Kind::Enum(_) => "u8".to_owned(),
    }
}

/// The type that `new` and setters take.
fn taken(kind: &Kind) -> String {
    match kind {
        Kind::Number(prim) => prim.native().to_owned(),
        Kind::Bytes { len, .. } => format!("[u8; {len}]"),
        Kind::Enum(name) | Kind::Set(name, _) => format!("super::{name}"),
    }
}

/// The stored value made from the taken value `v`.
fn store_expr(kind: &Kind, v: &str) -> String {
    match kind {
        Kind::Number(prim) if prim.len() == 1 => v.to_owned(),
        Kind::Number(prim) => format!("{}::new({v})", prim.stored()),
        Kind::Set(_, prim) if prim.len() == 1 => format!("{v}.as_raw()"),
        Kind::Set(_, prim) => format!("{}::new({v}.as_raw())", prim.stored()),
        Kind::Bytes { .. } => v.to_owned(),
        Kind::Enum(_) => format!("{v}.as_raw()"),
    }
}

/// Getters of a field that lies at the place expression `f`; `life` is the lifetime of long arrays.
pub(super) fn getters(field: &Field, f: &str, life: &str) -> Vec<Getter> {
    let name = field.rust.clone();
    let get = |len: usize| if len == 1 { f.to_owned() } else { format!("{f}.get()") };
    match &field.kind {
        Kind::Number(prim) => {
            vec![Getter { name, ty: prim.native().to_owned(), expr: get(prim.len()) }]
        }
        Kind::Set(set, prim) => {
            let expr = format!("super::{set}::from_raw({})", get(prim.len()));
            vec![Getter { name, ty: format!("super::{set}"), expr }]
        }
        Kind::Bytes { len, .. } if *len <= ARRAY_LEN_BY_VALUE_MAX => {
            vec![Getter { name, ty: format!("[u8; {len}]"), expr: f.to_owned() }]
        }
        Kind::Bytes { len, .. } => {
            vec![Getter { name, ty: format!("&{life}[u8; {len}]"), expr: format!("&{f}") }]
        }
        Kind::Enum(e) => vec![
            Getter {
                name: name.clone(),
                ty: format!("Option<super::{e}>"),
                expr: format!("super::{e}::from_raw({f})"),
            },
            Getter { name: format!("{name}_raw"), ty: "u8".to_owned(), expr: f.to_owned() },
        ],
    }
}

/// The getters of an added field: the same, in an `Option`.
pub(super) fn late_getters(field: &Field) -> Vec<Getter> {
    let at = format!(
        "::wire::rt::late::<{}>(self.bytes, {}, self.version, {})",
        stored(&field.kind),
        field.offset,
        field.since
    );
    let is_long = matches!(field.kind, Kind::Bytes { len, .. } if len > ARRAY_LEN_BY_VALUE_MAX);
    let wrap = |Getter { name, ty, expr }: Getter| match expr.as_str() {
        _ if is_long => Getter { name, ty: format!("Option<{ty}>"), expr: at.clone() },
        "f" => Getter { name, ty: format!("Option<{ty}>"), expr: format!("{at}.copied()") },
        _ if ty.starts_with("Option<") => {
            Getter { name, ty, expr: format!("{at}.and_then(|&f| {expr})") }
        }
        _ => Getter { name, ty: format!("Option<{ty}>"), expr: format!("{at}.map(|&f| {expr})") },
    };
    getters(field, "f", "'a ").into_iter().map(wrap).collect()
}

fn field_doc(field: &Field) -> String {
    let doc = doc_line(&field.doc, &format!("The field `{}`", field.name));
    match field.kind {
        Kind::Enum(_) => format!("{doc} `None` for a code this schema does not know."),
        _ => doc,
    }
}

/// Prints a getter as a method.
pub(super) fn put_getter(code: &mut String, field: &Field, getter: &Getter) {
    let Getter { name, ty, expr } = getter;
    let doc = match name == &field.rust {
        true => field_doc(field),
        false => format!("/// The code of `{}` as it stands on the wire.", field.name),
    };
    put!(
        code,
        "    {doc}
    #[inline]
    pub fn {name}(&self) -> {ty} {{
        {expr}
    }}
"
    );
}

/// Prints all types of one block.
pub(super) fn block(code: &mut String, name: &str, what: &str, block: &Block) {
    put_struct(code, name, what, &block.fields.iter().collect::<Vec<_>>());
    put!(code, "impl {name} {{");
    put_new(code, &block.fields);
    if !block.is_versioned() {
        put_getters(code, &block.fields.iter().collect::<Vec<_>>());
    }
    block.fields.iter().for_each(|f| put_setters(code, f));
    put!(code, "}}\n");
    put!(
        code,
        "impl Default for {name} {{
    fn default() -> Self {{
        ::zerocopy::FromZeros::new_zeroed()
    }}
}}
"
    );
    if block.is_versioned() {
        put_versioned(code, name, what, block);
    }
    put_entry_impl(code, name, block);
}

fn put_struct(code: &mut String, name: &str, what: &str, fields: &[&Field]) {
    let len: usize = fields.iter().map(|f| f.kind.len()).sum();
    put!(
        code,
        "/// {what}: {len} bytes, read and written in place.\n{DERIVES}\npub struct {name} {{"
    );
    fields.iter().for_each(|f| put!(code, "    {}: {},", f.rust, stored(&f.kind)));
    put!(
        code,
        "}}

const _: () = assert!(size_of::<{name}>() == {len});
"
    );
}

fn put_new(code: &mut String, fields: &[Field]) {
    put!(
        code,
        "    /// All fields, in the order of the schema.
    #[inline]"
    );
    if fields.len() > 7 {
        put!(code, "    #[allow(clippy::too_many_arguments)] // one for each field");
    }
    let taken: Vec<String> =
        fields.iter().map(|f| format!("{}: {}", f.rust, taken(&f.kind))).collect();
    put!(
        code,
        "    pub fn new({}) -> Self {{
        Self {{",
        taken.join(", ")
    );
    for f in fields {
        match store_expr(&f.kind, &f.rust) {
            expr if expr == f.rust => put!(code, "            {expr},"),
            expr => put!(code, "            {}: {expr},", f.rust),
        }
    }
    put!(code, "        }}\n    }}\n");
}

fn put_getters(code: &mut String, fields: &[&Field]) {
    for field in fields {
        for getter in getters(field, &format!("self.{}", field.rust), "") {
            put_getter(code, field, &getter);
        }
    }
}

fn put_setters(code: &mut String, field: &Field) {
    let (name, ty, expr) = (&field.rust, taken(&field.kind), store_expr(&field.kind, "value"));
    put!(
        code,
        "    /// Sets `{}`.
    #[inline]
    pub fn set_{name}(&mut self, value: {ty}) {{
        self.{name} = {expr};
    }}
",
        field.name
    );
    if matches!(field.kind, Kind::Bytes { .. }) {
        put!(
            code,
            "    /// `{}`, to be written in place.
    #[inline]
    pub fn {name}_mut(&mut self) -> &mut {ty} {{
        &mut self.{name}
    }}
",
            field.name
        );
    }
    if matches!(field.kind, Kind::Enum(_)) {
        put!(
            code,
            "    /// Sets the code of `{}`, known to this schema or not.
    #[inline]
    pub fn set_{name}_raw(&mut self, value: u8) {{
        self.{name} = value;
    }}
",
            field.name
        );
    }
}

fn put_versioned(code: &mut String, name: &str, what: &str, block: &Block) {
    let base = format!("{name}Base");
    put_struct(
        code,
        &base,
        &format!("{what}, the fields every writer sends"),
        &block.base().collect::<Vec<_>>(),
    );
    put!(code, "impl {base} {{");
    put_getters(code, &block.base().collect::<Vec<_>>());
    put!(code, "}}\n");
    put!(
        code,
        "/// {what}, as received: fields that were added later are `None` when the writer is older."
    );
    put!(
        code,
        "#[derive(Clone, Copy, Debug)]
pub struct {name}View<'a> {{
    base: &'a {base},
    bytes: &'a [u8],
    version: u16,
}}
"
    );
    put!(code, "impl<'a> {name}View<'a> {{");
    for field in block.base() {
        for getter in getters(field, &format!("self.base.{}", field.rust), "'a ") {
            put_getter(code, field, &getter);
        }
    }
    for field in block.added() {
        late_getters(field).iter().for_each(|g| put_getter(code, field, g));
    }
    put!(code, "}}\n");
}

fn put_entry_impl(code: &mut String, name: &str, block: &Block) {
    let view = if block.is_versioned() { format!("{name}View<'a>") } else { format!("&'a {name}") };
    put!(
        code,
        "impl ::wire::Entry for {name} {{
    type View<'a> = {view};"
    );
    put!(
        code,
        "    const LEN_MIN: usize = {};
    const VERSION: u16 = {};
",
        block.base_len(),
        block.version()
    );
    put!(
        code,
        "    #[inline]
    fn view(bytes: &[u8], version: u16) -> Option<Self::View<'_>> {{"
    );
    if block.is_versioned() {
        put!(
            code,
            "        let base = ::wire::rt::prefix::<{name}Base>(bytes)?;
        Some({name}View {{ base, bytes, version }})"
        );
    } else {
        put!(
            code,
            "        let _ = version; // every field is as old as the block
        ::wire::rt::prefix::<Self>(bytes)"
        );
    }
    put!(code, "    }}\n}}\n");
}
