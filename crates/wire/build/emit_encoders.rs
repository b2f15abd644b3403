//! Prints the encoder of a message: one type a step, so that parts cannot be left out or swapped.

use super::emit_types::put;
use super::model::{Data, Group, Message};

pub(super) fn encoder(code: &mut String, message: &Message) {
    let name = &message.name;
    put_encoded_len(code, message);
    put!(
        code,
        "/// Starts `{name}`, with its headers, at the beginning of `buf`.
///
/// # Errors
/// The buffer is too small."
    );
    put!(
        code,
        "#[inline]
pub fn encode<'a>(buf: &'a mut [u8], block: &Block) -> Result<Encoder<'a>, ::wire::EncodeError> {{"
    );
    put!(
        code,
        "    Ok(Encoder {{ out: ::wire::rt::Out::begin(buf, TEMPLATE_ID, &super::SCHEMA, block)? }})
}}
"
    );
    put!(
        code,
        "/// Writes `{name}` in the order of the schema: each step takes the encoder and gives the next one."
    );
    put!(
        code,
        "#[derive(Debug)]
#[must_use = \"a message is complete only after `finish`\"]"
    );
    put!(
        code,
        "pub struct Encoder<'a, const STEP: usize = 0> {{
    out: ::wire::rt::Out<'a>,
}}
"
    );
    let mut step = 0;
    for group in &message.groups {
        put_group_step(code, group, step);
        step += 1;
    }
    for data in &message.data {
        put_data_step(code, data, step);
        step += 1;
    }
    put!(
        code,
        "impl Encoder<'_, {step}> {{
    /// Completes the headers; returns the bytes of the whole message with them."
    );
    put!(
        code,
        "    #[inline]
    pub fn finish(self) -> usize {{
        self.out.finish()
    }}
}}
"
    );
}

fn put_encoded_len(code: &mut String, message: &Message) {
    let mut taken = Vec::new();
    let mut sum = String::new();
    for g in &message.groups {
        taken.push(format!("{}: usize", g.rust));
        sum += &format!(
            ".saturating_add(::wire::rt::group_len({}, size_of::<{}>()))",
            g.rust, g.entry
        );
    }
    for d in &message.data {
        taken.push(format!("{}_len: usize", d.rust));
        sum += &format!(".saturating_add(::wire::rt::data_len({}_len))", d.rust);
    }
    put!(
        code,
        "/// Bytes of the whole message with its headers, for these counts of entries and lengths of data.
#[inline]"
    );
    put!(
        code,
        "pub const fn encoded_len({}) -> usize {{
    super::SCHEMA.headers_len().saturating_add(size_of::<Block>()){sum}
}}
",
        taken.join(", ")
    );
}

fn put_group_step(code: &mut String, group: &Group, step: usize) {
    let Group { name, rust, entry, .. } = group;
    let next = step + 1;
    put!(code, "impl<'a> Encoder<'a, {step}> {{");
    put!(
        code,
        "    /// Makes room for `count` entries of `{name}`, to be filled in place.
    ///
    /// They hold whatever the buffer held: overwrite every entry.
    ///
    /// # Errors
    /// The buffer is too small, or more entries than a group can have."
    );
    put!(
        code,
        "    #[inline]
    pub fn {rust}_mut(mut self, count: usize) -> Result<(&'a mut [{entry}], Encoder<'a, {next}>), ::wire::EncodeError> {{"
    );
    put!(
        code,
        "        let entries = self.out.group_mut::<{entry}>({name:?}, count)?;
        Ok((entries, Encoder {{ out: self.out }}))
    }}
"
    );
    put!(
        code,
        "    /// Copies all entries of `{name}`.
    ///
    /// # Errors
    /// The buffer is too small, or more entries than a group can have."
    );
    put!(
        code,
        "    #[inline]
    pub fn {rust}(mut self, entries: &[{entry}]) -> Result<Encoder<'a, {next}>, ::wire::EncodeError> {{"
    );
    put!(
        code,
        "        self.out.group({name:?}, entries)?;
        Ok(Encoder {{ out: self.out }})
    }}
}}
"
    );
}

fn put_data_step(code: &mut String, data: &Data, step: usize) {
    let Data { name, rust, len_max, .. } = data;
    let next = step + 1;
    let (ty, expr) =
        if data.text { ("&str", format!("{rust}.as_bytes()")) } else { ("&[u8]", rust.clone()) };
    put!(code, "impl<'a> Encoder<'a, {step}> {{");
    put!(
        code,
        "    /// Copies `{name}`, at most {len_max} bytes.
    ///
    /// # Errors
    /// The buffer is too small, or the data too long."
    );
    put!(
        code,
        "    #[inline]
    pub fn {rust}(mut self, {rust}: {ty}) -> Result<Encoder<'a, {next}>, ::wire::EncodeError> {{"
    );
    put!(
        code,
        "        self.out.data({name:?}, {expr}, {len_max})?;
        Ok(Encoder {{ out: self.out }})
    }}
}}
"
    );
}
