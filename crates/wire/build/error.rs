use std::fmt;

/// What is wrong with a schema, and where.
#[derive(Debug)]
pub(crate) struct SchemaError {
    /// File as named by the caller.
    pub(crate) file: String,
    /// Line of the element, from 1.
    pub(crate) line: u32,
    /// The element, as `<field name="x">`.
    pub(crate) element: String,
    /// What was found and what is supported.
    pub(crate) problem: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, element, problem } = self;
        write!(f, "{file}:{line}: {element}: {problem}")
    }
}

impl std::error::Error for SchemaError {}
