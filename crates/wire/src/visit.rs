//! Walking over all fields of a message by name.

/// Receives the fields of a message in the order of the schema: for logs, tests and fuzzing, not for a hot path.
///
/// Names are those of the schema (camelCase). Fields that an older writer did not send are not shown.
pub trait Visitor {
    /// An integer, or the bits of a set.
    fn number(&mut self, name: &'static str, value: i128);
    /// An enum: its code, and its name where the schema knows the code.
    fn choice(&mut self, name: &'static str, raw: u8, label: Option<&'static str>);
    /// Bytes without a meaning as text.
    fn bytes(&mut self, name: &'static str, value: &[u8]);
    /// Text; it should be UTF-8, but that is not checked yet.
    fn text(&mut self, name: &'static str, value: &[u8]);
    /// A group begins; `len` entries follow.
    fn group(&mut self, name: &'static str, len: usize);
    /// The next entry of the group begins.
    fn entry(&mut self);
    /// The group is over.
    fn group_end(&mut self);
}
