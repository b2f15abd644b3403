//! Bodies to members and items.
//!
//! Top-level members are read weakly, as Transit's schema does: a number stands for a text, `"1"` for a number. Items of a batch are
//! read strictly. `null` reads as absent; of a member that stands there twice the last one counts.

use crate::answer::{Halt, Refusal};
use crate::json::{BadJson, Cursor, Span, Value};

/// Items that stay allocated between requests; what a larger batch took is given back.
const ITEMS_KEPT: usize = 4096;
/// Items whose faults are told; the number of the others is.
const FAULTS_MAX: usize = 8;

macro_rules! members {
    ($($id:ident = $name:literal),* $(,)?) => {
        /// The members of bodies that mean something.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Member { $($id),* }

        impl Member {
            const COUNT: usize = [$($name),*].len();

            fn of(name: &str) -> Option<Member> {
                match name { $($name => Some(Member::$id),)* _ => None }
            }

            pub(crate) const fn name(self) -> &'static str {
                match self { $(Member::$id => $name),* }
            }
        }
    };
}

members! {
    Plaintext = "plaintext", Ciphertext = "ciphertext", Context = "context", AssociatedData = "associated_data",
    KeyVersion = "key_version", PartialCode = "partial_failure_response_code", Input = "input", Hmac = "hmac",
    Signature = "signature", Algorithm = "algorithm", HashAlgorithm = "hash_algorithm", Format = "format", Bits = "bits",
    Bytes = "bytes", Type = "type", Derived = "derived", Convergent = "convergent_encryption", Exportable = "exportable",
    PlaintextBackup = "allow_plaintext_backup", AutoRotate = "auto_rotate_period", KeySize = "key_size",
    MinDecryption = "min_decryption_version", MinEncryption = "min_encryption_version",
    MinAvailable = "min_available_version", DeletionAllowed = "deletion_allowed", DisableUpsert = "disable_upsert",
    Backup = "backup", Force = "force", Name = "name", Path = "path", Paths = "paths", Source = "source",
    Nonce = "nonce", Increment = "increment", Prehashed = "prehashed", Key = "key", Passphrase = "passphrase",
    First = "first", Size = "size"
}

/// What the items of a batch have for their main text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemText {
    Plaintext,
    Ciphertext,
    /// A ciphertext too; an item without one fails alone.
    Rewrapped,
    /// An item without one fails alone.
    Input,
}

impl ItemText {
    fn name(self) -> &'static str {
        match self {
            ItemText::Plaintext => "plaintext",
            ItemText::Ciphertext | ItemText::Rewrapped => "ciphertext",
            ItemText::Input => "input",
        }
    }

    /// Returns how an item begins that has nothing before its text and no spaces, as most clients write it.
    fn beginning(self) -> &'static str {
        match self {
            ItemText::Plaintext => "{\"plaintext\":\"",
            ItemText::Ciphertext | ItemText::Rewrapped => "{\"ciphertext\":\"",
            ItemText::Input => "{\"input\":\"",
        }
    }

    fn is_required(self) -> bool {
        matches!(self, ItemText::Plaintext | ItemText::Ciphertext)
    }

    pub(crate) fn missing(self) -> &'static str {
        match self {
            ItemText::Plaintext => "missing plaintext to encrypt",
            ItemText::Ciphertext | ItemText::Rewrapped => "missing ciphertext to decrypt",
            ItemText::Input => "missing input for HMAC",
        }
    }
}

/// One item of a batch: places in the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchItem {
    pub(crate) text: Span,
    pub(crate) context: Span,
    pub(crate) aad: Span,
    pub(crate) reference: Span,
    pub(crate) tag: Span,
    pub(crate) version: i64,
}

impl BatchItem {
    /// Tells whether a context stands there; an empty one is none.
    #[inline]
    pub(crate) fn has_context(&self) -> bool {
        self.context.len() > 0
    }

    pub(crate) const EMPTY: BatchItem = BatchItem {
        text: Span::NONE,
        context: Span::NONE,
        aad: Span::NONE,
        reference: Span::NONE,
        tag: Span::NONE,
        version: 0,
    };
}

/// The items of a batch, kept by whoever reads one body after the other.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) items: Vec<BatchItem>,
    /// Items that were read; more than there are where one has a fault.
    seen: usize,
    faults: Vec<String>,
    more_faults: usize,
}

/// Reads batches of plaintexts as the door does, and does nothing with them: for who measures that alone.
#[derive(Debug, Default)]
pub struct BatchReader(Batch);

impl BatchReader {
    /// Returns the bytes of the plaintexts of a body, as they are written; `None` where it is no batch of them without faults.
    pub fn text_bytes(&mut self, body: &[u8]) -> Option<usize> {
        let fields = Fields::read(body, Some(ItemText::Plaintext), &mut self.0).ok()?;
        let is_batch = fields.is_batch(&self.0).ok()?;
        is_batch.then(|| self.0.items.iter().map(|item| item.text.len()).sum())
    }
}

/// A body that was read.
pub(crate) struct Fields<'a> {
    pub(crate) body: &'a str,
    members: [Value<'a>; Member::COUNT],
    /// There is a batch: its items, or what stands where it should.
    batch: Option<Result<(), &'static str>>,
}

impl<'a> Fields<'a> {
    /// Reads a body; `items` is what the items of its batch have, where it may have one.
    pub(crate) fn read(
        body: &'a [u8],
        items: Option<ItemText>,
        batch: &mut Batch,
    ) -> Result<Fields<'a>, Halt> {
        batch.clear();
        let mut cursor = Cursor::new(body)?;
        let members = [Value::Null; Member::COUNT];
        let mut fields = Fields { body: cursor.body(), members, batch: None };
        match cursor.peek() {
            None => return Ok(fields),
            Some(b'{') => {}
            Some(_) => {
                let value = cursor.value(0)?;
                cursor.end()?;
                return match value {
                    Value::Null => Ok(fields),
                    Value::Flag(_) => Err(BadJson::Kind("bool").into()),
                    Value::Number(_) => Err(BadJson::Kind("number").into()),
                    Value::Text(_) => Err(BadJson::Kind("string").into()),
                    Value::Object(_) | Value::Array(_) => Err(BadJson::Kind("array").into()),
                };
            }
        }
        let (mut room, body) = (String::new(), fields.body);
        cursor.members(|cursor, name| {
            let name = name.text(body, &mut room);
            if name == "batch_input" && items.is_some() {
                fields.batch = batch.read(cursor, items.unwrap_or(ItemText::Input))?;
                return Ok(());
            }
            let value = cursor.value(1)?;
            let member =
                Member::of(name).and_then(|member| fields.members.get_mut(member as usize));
            if let Some(place) = member {
                *place = value;
            }
            Ok(())
        })?;
        cursor.end()?;
        Ok(fields)
    }

    /// Tells whether a batch was sent, once it is one without faults.
    pub(crate) fn is_batch(&self, batch: &Batch) -> Result<bool, Halt> {
        let refuse = |text: String| Halt::Refuse(Refusal::bad(text));
        match self.batch {
            None => Ok(false),
            Some(Err(found)) => Err(refuse(format!(
                "failed to parse batch input: source data must be an array or slice, got {found}"
            ))),
            Some(Ok(())) if !batch.faults.is_empty() => {
                let mut text = batch.faults.join("\n");
                if batch.more_faults > 0 {
                    text += &format!("\nand {} more", batch.more_faults);
                }
                Err(refuse(format!("failed to parse batch input: {text}")))
            }
            Some(Ok(())) if batch.items.is_empty() => {
                Err(refuse("missing batch input to process".into()))
            }
            Some(Ok(())) => Ok(true),
        }
    }

    fn value(&self, member: Member) -> Value<'a> {
        self.members.get(member as usize).copied().unwrap_or(Value::Null)
    }

    /// Returns a text; of a number what is written.
    pub(crate) fn text(&self, member: Member) -> Result<Option<String>, Halt> {
        let span = self.span(member)?;
        let mut room = String::new();
        Ok(span.is_some().then(|| span.text(self.body, &mut room).to_owned()))
    }

    pub(crate) fn flag(&self, member: Member) -> Result<Option<bool>, Halt> {
        match self.value(member) {
            Value::Null => Ok(None),
            Value::Flag(flag) => Ok(Some(flag)),
            Value::Number(number) => match number.raw(self.body) {
                "1" => Ok(Some(true)),
                "0" => Ok(Some(false)),
                _ => Err(unfit(member, "true or false", "another number")),
            },
            Value::Text(span) => match span.raw(self.body) {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Some(true)),
                "" | "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Some(false)),
                _ => Err(unfit(member, "true or false", "another text")),
            },
            other => Err(unfit(member, "true or false", other.go_type())),
        }
    }

    pub(crate) fn number(&self, member: Member) -> Result<Option<i64>, Halt> {
        let written = match self.value(member) {
            Value::Null => return Ok(None),
            Value::Number(number) => number.raw(self.body),
            Value::Text(span) if span.raw(self.body).is_empty() => "0",
            Value::Text(span) => span.raw(self.body),
            Value::Flag(flag) => return Ok(Some(i64::from(flag))),
            other => return Err(unfit(member, "a whole number", other.go_type())),
        };
        let number = written.parse();
        number.map(Some).map_err(|_| unfit(member, "a whole number", "something else"))
    }

    /// Returns a number that is a version, from 0.
    pub(crate) fn version(&self, member: Member) -> Result<Option<u32>, Halt> {
        let Some(number) = self.number(member)? else { return Ok(None) };
        if number < 0 {
            let name = member.name().replace('_', " ");
            return Err(Refusal::bad(format!("{name} cannot be negative")).into());
        }
        // A version that no key can have is above the latest one, as it should be.
        Ok(Some(u32::try_from(number).unwrap_or(u32::MAX)))
    }

    /// Returns a length of time in seconds: a number of them, or a text as `90s`, `1h30m`, `30d`.
    pub(crate) fn seconds(&self, member: Member) -> Result<Option<u64>, Halt> {
        let Some(text) = self.text(member)? else { return Ok(None) };
        let seconds = seconds_of(&text);
        seconds
            .map(Some)
            .ok_or_else(|| unfit(member, "seconds, or a time as 1h30m", "another text"))
    }

    /// Returns the texts of a list; one text is a list of one, with commas of several.
    pub(crate) fn texts(&self, member: Member) -> Result<Vec<String>, Halt> {
        let Value::Array(raw) = self.value(member) else {
            let text = self.text(member)?.unwrap_or_default();
            let texts = text.split(',').map(str::trim).filter(|text| !text.is_empty());
            return Ok(texts.map(String::from).collect());
        };
        let mut texts = Vec::new();
        let mut cursor = Cursor::new(raw.as_bytes())?;
        let mut wrong = false;
        cursor.elements(|cursor| {
            let mut room = String::new();
            match cursor.value(2)? {
                Value::Text(span) => texts.push(span.text(raw, &mut room).to_owned()),
                _ => wrong = true,
            }
            Ok(())
        })?;
        if wrong { Err(unfit(member, "a list of texts", "something else")) } else { Ok(texts) }
    }

    /// Makes a body without a batch a batch of one.
    pub(crate) fn one(&self, text: ItemText, batch: &mut Batch) -> Result<(), Halt> {
        let item = BatchItem {
            text: self.span(match text {
                ItemText::Plaintext => Member::Plaintext,
                ItemText::Ciphertext | ItemText::Rewrapped => Member::Ciphertext,
                ItemText::Input => Member::Input,
            })?,
            context: self.span(Member::Context)?,
            aad: self.span(Member::AssociatedData)?,
            reference: Span::NONE,
            tag: self.span(Member::Hmac)?,
            version: self.number(Member::KeyVersion)?.unwrap_or(0),
        };
        batch.clear();
        batch.items.push(item);
        if item.text.is_some() {
            return Ok(());
        }
        Err(Refusal::bad(text.missing().to_owned()).into())
    }

    /// Returns the place of a text; of a number too, which reads as one.
    pub(crate) fn span(&self, member: Member) -> Result<Span, Halt> {
        match self.value(member) {
            Value::Null => Ok(Span::NONE),
            Value::Text(span) | Value::Number(span) => Ok(span),
            other => Err(unfit(member, "a text", other.go_type())),
        }
    }
}

fn unfit(member: Member, expected: &str, found: &str) -> Halt {
    let name = member.name();
    let text = format!(
        "Field validation failed: error converting input for field {name:?}: expected {expected}, found {found}"
    );
    Refusal::bad(text).into()
}

/// Reads a length of time. Parts of a second are cut off.
fn seconds_of(text: &str) -> Option<u64> {
    let text = text.trim();
    if text.is_empty() {
        return Some(0);
    }
    if let Ok(seconds) = text.parse() {
        return Some(seconds);
    }
    let (mut total, mut rest) = (0_u64, text);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = rest.split_at(digits);
        let each = match unit.as_bytes().first()? {
            b's' => 1,
            b'm' => 60,
            b'h' => 3600,
            b'd' => 86_400,
            _ => return None,
        };
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(each)?)?;
        rest = unit.get(1..)?;
    }
    Some(total)
}

impl Batch {
    fn clear(&mut self) {
        self.items.clear();
        self.items.shrink_to(ITEMS_KEPT);
        self.seen = 0;
        self.faults.clear();
        self.more_faults = 0;
    }

    /// Reads what stands where a batch is: `None` for `null`, its type if it is no list.
    fn read(
        &mut self,
        cursor: &mut Cursor<'_>,
        text: ItemText,
    ) -> Result<Option<Result<(), &'static str>>, BadJson> {
        self.clear();
        if cursor.peek() != Some(b'[') {
            return Ok(match cursor.value(1)? {
                Value::Null => None,
                other => Some(Err(other.go_type())),
            });
        }
        cursor.elements(|cursor| {
            let item = if cursor.peek() == Some(b'{') {
                self.item(cursor, text)?
            } else {
                let (at, found) = (self.seen, cursor.value(2)?.go_type());
                self.fault(|| format!("[{at}] expected a map, got '{found}'"));
                BatchItem::EMPTY
            };
            // A batch with a fault is refused as a whole.
            if self.faults.is_empty() {
                self.items.push(item);
            }
            self.seen += 1;
            Ok(())
        })?;
        Ok(Some(Ok(())))
    }

    #[inline]
    fn item(&mut self, cursor: &mut Cursor<'_>, text: ItemText) -> Result<BatchItem, BadJson> {
        if !cursor.pass(text.beginning()) {
            cursor.expect(b'{', "an object")?;
            let is_empty = cursor.take(b'}');
            return self.item_left(BatchItem::EMPTY, is_empty, cursor, text);
        }
        let item = BatchItem { text: cursor.text_left()?, ..BatchItem::EMPTY };
        if cursor.take(b'}') {
            return Ok(item);
        }
        cursor.expect(b',', "a comma or the end of the object")?;
        self.item_left(item, false, cursor, text)
    }

    /// Reads an item from the name of a member to its end.
    fn item_left(
        &mut self,
        mut item: BatchItem,
        is_empty: bool,
        cursor: &mut Cursor<'_>,
        text: ItemText,
    ) -> Result<BatchItem, BadJson> {
        let (at, body) = (self.seen, cursor.body());
        let (mut room, mut unfit, mut is_null) = (String::new(), false, false);
        let member = |cursor: &mut Cursor<'_>, name: Span| {
            let name = name.text(body, &mut room);
            let place = match name {
                _ if name == text.name() => &mut item.text,
                "context" => &mut item.context,
                "associated_data" => &mut item.aad,
                "reference" => &mut item.reference,
                "hmac" => &mut item.tag,
                "key_version" => {
                    let value = cursor.value(2)?;
                    let whole = match value {
                        Value::Null => Some(0),
                        Value::Number(number) => number.raw(body).parse().ok(),
                        _ => None,
                    };
                    item.version = whole.unwrap_or(0);
                    if whole.is_none() {
                        self.unfit(at, "key_version", "int", value);
                    }
                    return Ok(());
                }
                _ => return cursor.value(2).map(|_| ()),
            };
            match cursor.value(2)? {
                Value::Text(span) => *place = span,
                Value::Null => {
                    *place = Span::NONE;
                    is_null |= name == text.name();
                }
                other => {
                    *place = Span::NONE;
                    unfit = true;
                    self.unfit(at, name, "string", other);
                }
            }
            Ok(())
        };
        if !is_empty {
            cursor.members_left(member)?;
        }
        if !item.text.is_some() && text.is_required() && !unfit {
            match text {
                // It fails alone, as an empty one does.
                ItemText::Ciphertext if is_null => {}
                _ if is_null => self.unfit(at, text.name(), "string", Value::Null),
                _ => self.fault(|| format!("'[{at}].{}' {}", text.name(), text.missing())),
            }
        }
        Ok(item)
    }

    fn unfit(&mut self, at: usize, name: &str, expected: &str, found: Value<'_>) {
        let found = found.go_type();
        self.fault(|| {
            format!("'[{at}].{name}' expected type '{expected}', got unconvertible type '{found}'")
        });
    }

    fn fault(&mut self, text: impl FnOnce() -> String) {
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(text());
        } else {
            self.more_faults += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time_are_read() {
        let known = [
            ("0", 0),
            ("", 0),
            ("3600", 3600),
            ("1h", 3600),
            ("1h30m5s", 5405),
            ("30d", 2_592_000),
        ];
        for (text, seconds) in known {
            assert_eq!(seconds_of(text), Some(seconds), "{text}");
        }
        for bad in ["h", "1", "1h5", "-1", "1w", "1.5h", "99999999999999999999d", "1 h"] {
            assert_eq!(seconds_of(bad).filter(|_| bad != "1"), None, "{bad}");
        }
    }

    #[test]
    fn a_batch_is_read_alone() {
        let mut reader = BatchReader::default();
        let two = br#"{"batch_input":[{"plaintext":"eA=="},{"reference":"r","plaintext":"eHh4"}]}"#;
        assert_eq!(reader.text_bytes(two), Some(8));
        for other in [r#"{"plaintext":"eA=="}"#, r#"{"batch_input":[{}]}"#, "[", ""] {
            assert_eq!(reader.text_bytes(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn an_item_is_small() {
        assert!(size_of::<BatchItem>() <= 48, "{}", size_of::<BatchItem>());
    }
}
