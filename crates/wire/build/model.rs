//! What a schema says, checked and with every offset worked out.

/// An integer type of the schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prim {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
}

impl Prim {
    /// The integer type by its name in the schema; `char` is a byte.
    pub(crate) fn from_schema(name: &str) -> Option<Self> {
        Some(match name {
            "uint8" | "char" => Self::U8,
            "uint16" => Self::U16,
            "uint32" => Self::U32,
            "uint64" => Self::U64,
            "int8" => Self::I8,
            "int16" => Self::I16,
            "int32" => Self::I32,
            "int64" => Self::I64,
            _ => return None,
        })
    }

    /// Bytes on the wire.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 => 4,
            Self::U64 | Self::I64 => 8,
        }
    }

    /// The type a caller sees.
    pub(crate) fn native(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }

    /// The unaligned little-endian type that lies in the buffer.
    pub(crate) fn stored(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "::zerocopy::little_endian::U16",
            Self::U32 => "::zerocopy::little_endian::U32",
            Self::U64 => "::zerocopy::little_endian::U64",
            Self::I16 => "::zerocopy::little_endian::I16",
            Self::I32 => "::zerocopy::little_endian::I32",
            Self::I64 => "::zerocopy::little_endian::I64",
        }
    }
}

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Number(Prim),
    /// A fixed array of bytes; `text` where the schema says `char`.
    Bytes {
        len: usize,
        text: bool,
    },
    /// A `uint8` enum, by its Rust name.
    Enum(String),
    /// A bit set, by its Rust name.
    Set(String, Prim),
}

impl Kind {
    /// Bytes on the wire.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Number(prim) | Self::Set(_, prim) => prim.len(),
            Self::Bytes { len, .. } => *len,
            Self::Enum(_) => 1,
        }
    }
}

/// One field of a block.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    /// Name in the schema, camelCase.
    pub(crate) name: String,
    /// Name in Rust, snake_case.
    pub(crate) rust: String,
    pub(crate) doc: String,
    pub(crate) kind: Kind,
    /// Schema version that brought the field; fields of the block's own first version have that version.
    pub(crate) since: u16,
    /// Bytes before the field in its block.
    pub(crate) offset: usize,
}

/// The fixed part of a message or of a group entry.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    /// Schema version that brought the block.
    pub(crate) since: u16,
    pub(crate) fields: Vec<Field>,
}

impl Block {
    /// Bytes of the whole block in this version of the schema.
    pub(crate) fn len(&self) -> usize {
        self.fields.iter().map(|f| f.kind.len()).sum()
    }

    /// Fields the block had from the start: every writer sends them.
    pub(crate) fn base(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|f| f.since <= self.since)
    }

    /// Fields that were added later: an older writer does not send them.
    pub(crate) fn added(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|f| f.since > self.since)
    }

    pub(crate) fn is_versioned(&self) -> bool {
        self.added().next().is_some()
    }

    /// Bytes of the base fields.
    pub(crate) fn base_len(&self) -> usize {
        self.base().map(|f| f.kind.len()).sum()
    }

    /// The newest version any field asks for.
    pub(crate) fn version(&self) -> u16 {
        self.fields.iter().map(|f| f.since).max().unwrap_or(self.since)
    }
}

/// A repeating group.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) rust: String,
    /// Rust name of the entry type.
    pub(crate) entry: String,
    pub(crate) doc: String,
    pub(crate) since: u16,
    pub(crate) block: Block,
}

/// A variable-length field.
#[derive(Clone, Debug)]
pub(crate) struct Data {
    pub(crate) name: String,
    pub(crate) rust: String,
    pub(crate) doc: String,
    pub(crate) since: u16,
    /// UTF-8 text; otherwise plain bytes.
    pub(crate) text: bool,
    pub(crate) len_max: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) name: String,
    /// Rust name of its module, snake_case.
    pub(crate) module: String,
    pub(crate) id: u16,
    pub(crate) doc: String,
    /// Schema version that brought the message.
    pub(crate) since: u16,
    pub(crate) block: Block,
    pub(crate) groups: Vec<Group>,
    pub(crate) data: Vec<Data>,
}

impl Message {
    /// Whether the message starts with the frame number that a refusal echoes.
    pub(crate) fn is_numbered(&self) -> bool {
        self.block
            .fields
            .first()
            .is_some_and(|f| f.name == "frame" && f.kind == Kind::Number(Prim::U64))
    }
}

/// One value of an enum.
#[derive(Clone, Debug)]
pub(crate) struct Value {
    /// Name in the schema, UPPER_CASE.
    pub(crate) name: String,
    pub(crate) rust: String,
    pub(crate) doc: String,
    pub(crate) raw: u8,
}

#[derive(Clone, Debug)]
pub(crate) struct Enum {
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) values: Vec<Value>,
}

/// One bit of a set.
#[derive(Clone, Debug)]
pub(crate) struct Choice {
    pub(crate) name: String,
    pub(crate) rust: String,
    pub(crate) doc: String,
    pub(crate) bit: u32,
}

#[derive(Clone, Debug)]
pub(crate) struct Set {
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) prim: Prim,
    pub(crate) choices: Vec<Choice>,
}

/// A whole schema.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) file: String,
    pub(crate) id: u16,
    pub(crate) version: u16,
    pub(crate) enums: Vec<Enum>,
    pub(crate) sets: Vec<Set>,
    pub(crate) messages: Vec<Message>,
}
