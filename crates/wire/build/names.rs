//! Names of the schema turned into names of Rust.

/// `fromBudgetId` -> `from_budget_id`
pub(crate) fn snake(camel: &str) -> String {
    let mut out = String::with_capacity(camel.len() + 4);
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

/// `UNKNOWN_BUDGET` -> `UnknownBudget`
pub(crate) fn camel_of_upper(upper: &str) -> String {
    upper.split('_').map(|word| first_upper(&word.to_ascii_lowercase())).collect()
}

/// `segments` -> `Segments`
pub(crate) fn first_upper(word: &str) -> String {
    let mut letters = word.chars();
    match letters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + letters.as_str(),
        None => String::new(),
    }
}

/// The name of one entry of a group: `asks` -> `Ask`, `entries` -> `Entry`.
pub(crate) fn singular(group: &str) -> String {
    let one = match (group.strip_suffix("ies"), group.strip_suffix('s')) {
        (Some(stem), _) => format!("{stem}y"),
        (None, Some(stem)) => stem.to_owned(),
        (None, None) => group.to_owned(),
    };
    first_upper(&one)
}

/// Names that a field, group or data element may not have, because Rust or the generated code uses them.
pub(crate) fn is_reserved(rust: &str) -> bool {
    const RESERVED: [&str; 55] = [
        "as",
        "async",
        "await",
        "become",
        "block",
        "box",
        "break",
        "const",
        "continue",
        "crate",
        "decode",
        "do",
        "dyn",
        "else",
        "encode",
        "encoded_len",
        "enum",
        "extern",
        "false",
        "final",
        "finish",
        "fn",
        "for",
        "gen",
        "if",
        "impl",
        "in",
        "let",
        "loop",
        "macro",
        "match",
        "mod",
        "move",
        "mut",
        "new",
        "override",
        "priv",
        "pub",
        "read",
        "ref",
        "return",
        "self",
        "static",
        "struct",
        "super",
        "trait",
        "true",
        "try",
        "type",
        "unsafe",
        "use",
        "visit",
        "where",
        "while",
        "yield",
    ];
    RESERVED.binary_search(&rust).is_ok()
}

/// Whether a name is plain ASCII letters and digits (and `_`), starting with a letter.
pub(crate) fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
