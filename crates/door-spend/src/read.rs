//! Bodies to calls: one object, or an array of objects that name their calls.

use access::KeySecret;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use wire::{Handle, HandleError};

use crate::call::{Budget, Call, CallKind, Subject};
use crate::json::{Cursor, Value, Written};
use crate::key::{self, KEY_LEN_MAX};
use crate::problem::BadCall;
use crate::text::Text;
use crate::write::TOKEN_CHARS;

/// Calls that stay allocated between requests; what a larger batch took is given back.
const CALLS_KEPT: usize = 256;
/// Longest life of a hold that a call may ask for, ms; `ledger.hold_ms` bounds it further.
const HOLD_MS_MAX: u32 = 600_000;
/// Shortest life of a confirmed hold that a call may ask for, ms.
const CONFIRM_MS_MIN: u32 = 1_000;
/// How many budgets one hold may draw on.
const BUDGETS: std::ops::RangeInclusive<usize> = 2..=ledger::named::LEGS_MAX;
/// Longest wait for money that a call may ask for, ms.
const WAIT_MS_MAX: u32 = 1_000;
/// Largest number that every reader of JSON takes exactly: 2^53.
pub(crate) const EXACT_MAX: u64 = 1 << 53;

/// What a call may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Longest life that a hold can ask for, ms: what all holds of the node have.
    pub hold_ms_max: u32,
    /// Longest end of its own that a confirmed hold can ask for, ms.
    pub confirm_ms_max: u32,
    /// Entries of a batch.
    pub entries_max: usize,
}

/// A call that was read, or why it cannot be.
pub type Entry = Result<Call, BadCall>;

/// Under which conditions a body was sent.
#[derive(Clone, Copy, Debug)]
pub struct Sender<'a> {
    /// What keys are hashed under.
    pub secret: &'a KeySecret,
    /// Whose token it came with; empty where nobody is told apart.
    pub who: &'a str,
    /// The value of `Idempotency-Key`.
    pub key: Option<&'a [u8]>,
}

/// Reads bodies; one per worker. After a few requests of the usual size it allocates nothing.
#[derive(Debug, Default)]
pub struct Reader {
    /// What the last body had in it.
    calls: Vec<Entry>,
}

impl Reader {
    /// The calls of the last body that was read.
    pub fn calls(&self) -> &[Entry] {
        &self.calls
    }

    /// Reads the body of one call: an object.
    pub fn one(&mut self, kind: CallKind, body: &[u8], from: &Sender<'_>, limits: &ReadLimits) {
        self.begin();
        let read = text(body).and_then(|text| {
            let mut cursor = Cursor::new(text);
            let members = Members::read(&mut cursor, 0)?;
            cursor.end()?;
            members.no_batch_members(kind)?;
            let mut call = members.call(kind, limits)?;
            if let Some(value) = from.key {
                let key = key::parse(value)?;
                call.keyed = Some(key::keyed(from.secret, from.who, kind, key, body));
            }
            Ok(call)
        });
        self.calls.push(read);
    }

    /// Reads the body of a batch: an array of objects. An entry that is wrong is wrong alone.
    ///
    /// # Errors
    /// The body is no such array, or has too many entries: none of it is a call.
    pub fn batch(
        &mut self,
        body: &[u8],
        from: &Sender<'_>,
        limits: &ReadLimits,
    ) -> Result<(), BadCall> {
        self.begin();
        if from.key.is_some() {
            return Err(BadCall::Key(
                "none with a batch, whose entries are calls of their own: give them a member \"key\"",
            ));
        }
        let read = text(body).and_then(|text| self.entries(text, from, limits));
        if read.is_err() {
            self.calls.clear();
        }
        read
    }

    fn begin(&mut self) {
        self.calls.clear();
        self.calls.shrink_to(CALLS_KEPT);
    }

    fn entries(
        &mut self,
        text: &str,
        sender: &Sender<'_>,
        limits: &ReadLimits,
    ) -> Result<(), BadCall> {
        let mut cursor = Cursor::new(text);
        cursor.expect(b'[', "an array of calls")?;
        if cursor.take(b']') {
            return cursor.end();
        }
        loop {
            if self.calls.len() == limits.entries_max {
                return Err(BadCall::Entries { max: limits.entries_max });
            }
            let is_object = cursor.peek() == Some(b'{');
            let from = cursor.at();
            let entry = match is_object {
                true => {
                    let members = Members::read(&mut cursor, 1)?;
                    members.entry(cursor.between(from, cursor.at()), sender, limits)
                }
                false => {
                    cursor.value(1)?;
                    Err(BadCall::Json { at: from + 1, expected: "an object" })
                }
            };
            self.calls.push(entry);
            if !cursor.take(b',') {
                break;
            }
        }
        cursor.expect(b']', "a comma or the end of the array")?;
        cursor.end()
    }
}

/// The body as text.
fn text(body: &[u8]) -> Result<&str, BadCall> {
    std::str::from_utf8(body).map_err(|error| BadCall::Utf8 { at: error.valid_up_to() + 1 })
}

/// No name of a member is longer.
const NAME_BYTES: usize = 16;

macro_rules! members {
    ($($field:ident = $name:literal),*) => {
        /// What stands in an object, by the names that are known.
        #[derive(Clone, Copy, Debug, Default)]
        struct Members<'a> {
            $($field: Option<Value<'a>>,)*
            /// The first name that is not known.
            unknown: Option<Text<40>>,
            /// The first that stands there twice.
            twice: Option<&'static str>,
        }

        impl<'a> Members<'a> {
            fn add(&mut self, written: Written<'a>, value: Value<'a>) {
                let mut room = [0; NAME_BYTES];
                let (place, name) = match written.read(&mut room) {
                    $(Some($name) => (&mut self.$field, $name),)*
                    _ => {
                        self.unknown.get_or_insert(written.shown());
                        return;
                    }
                };
                if place.replace(value).is_some() {
                    self.twice.get_or_insert(name);
                }
            }

            /// The first of these that is there, but should not be.
            fn stray(&self, allowed: &[&str]) -> Option<&'static str> {
                [$((self.$field.is_some(), $name)),*]
                    .into_iter()
                    .find(|(is_there, name)| *is_there && !allowed.contains(name))
                    .map(|(_, name)| name)
            }
        }
    };
}

members! {
    call = "call", budget = "budget", budgets = "budgets", amount = "amount", unit = "unit", hold_ms = "hold_ms", wait_ms = "wait_ms",
    confirm = "confirm", confirm_ms = "confirm_ms", token = "token", key = "key"
}

/// The members of each call, and how they are listed to people.
fn allowed(kind: CallKind) -> (&'static [&'static str], &'static str) {
    match kind {
        CallKind::Reserve => (
            &["budget", "budgets", "amount", "unit", "hold_ms", "wait_ms", "confirm", "confirm_ms"],
            "budget or budgets, amount, unit, hold_ms, wait_ms, confirm, confirm_ms",
        ),
        CallKind::Spend => (
            &["budget", "budgets", "amount", "unit", "wait_ms"],
            "budget or budgets, amount, unit, wait_ms",
        ),
        CallKind::Extend => (&["token", "confirm_ms"], "token, confirm_ms"),
        CallKind::Settle => (&["token", "amount"], "token, amount"),
        CallKind::Confirm | CallKind::Release => (&["token"], "token"),
    }
}

const CALL: &str = "\"reserve\", \"confirm\", \"extend\", \"settle\", \"release\" or \"spend\"";
const BUDGET: &str =
    "an id (a whole number up to 2^53, or a text of digits without leading zeros) or a handle";
const BUDGETS_SHAPE: &str =
    "2 to 8 different budgets in an array, each an id or a handle, and no \"budget\" beside it";
const NO_CONFIRM_MS: &str =
    "none without \"confirm\":true, as it is how long a confirmed hold lives";
const CONFIRM_MS: &str = "how long the hold lives from now on, in ms";
const AMOUNT: &str = "digits, perhaps a point and digits, without sign, exponent, blanks or leading zeros, as a text or a number, such as \
     \"0.15\"";
const UNIT: &str = "the name of a unit, such as \"USD\"";
const FLAG: &str = "true or false";
const TOKEN: &str = "exactly the 43 characters of base64url that a reservation returned";
const KEY: &str = "a text of 1 to 255 printable ASCII characters";
const NO_HOLD_MS: &str = "none beside \"confirm\":true, which keeps the hold until its billing deadline (ledger.billing_ms)";

impl<'a> Members<'a> {
    /// Reads an object that stands within so many others.
    fn read(cursor: &mut Cursor<'a>, depth: usize) -> Result<Members<'a>, BadCall> {
        cursor.expect(b'{', "an object")?;
        let mut members = Members::default();
        if cursor.take(b'}') {
            return Ok(members);
        }
        loop {
            let name = cursor.text()?;
            cursor.expect(b':', "a colon")?;
            members.add(name, cursor.value(depth + 1)?);
            if !cursor.take(b',') {
                break;
            }
        }
        cursor.expect(b'}', "a comma or the end of the object")?;
        Ok(members)
    }

    /// An entry of a batch. `written`: its own bytes.
    fn entry(&self, written: &str, sender: &Sender<'_>, limits: &ReadLimits) -> Entry {
        self.sound()?;
        let found = self.call.ok_or(BadCall::Missing { member: "call", expected: CALL })?;
        let mut room = [0; NAME_BYTES];
        let kind = match found {
            Value::Text(name) => name.read(&mut room).and_then(CallKind::of),
            _ => None,
        };
        let kind = kind.ok_or_else(|| wrong("call", &found, CALL))?;
        let mut call = self.call(kind, limits)?;
        if let Some(found) = present(self.key) {
            // Two more, for the quotes around it.
            let mut room = [0; KEY_LEN_MAX + 2];
            let key = match found {
                Value::Text(text) => {
                    text.read(&mut room).and_then(|text| key::check(text.as_bytes()))
                }
                _ => None,
            };
            let key = key.ok_or_else(|| wrong("key", &found, KEY))?;
            call.keyed = Some(key::keyed(sender.secret, sender.who, kind, key, written.as_bytes()));
        }
        Ok(call)
    }

    fn sound(&self) -> Result<(), BadCall> {
        self.twice.map_or(Ok(()), |member| Err(BadCall::Twice { member }))
    }

    /// A call that is alone is named by its path, and its key by a header.
    fn no_batch_members(&self, kind: CallKind) -> Result<(), BadCall> {
        let strays = [(self.call, "call"), (self.key, "key")];
        let stray = strays.iter().find(|(value, _)| value.is_some());
        stray.map_or(Ok(()), |(_, name)| Err(unknown(Text::cut(name), kind)))
    }

    fn call(&self, kind: CallKind, limits: &ReadLimits) -> Result<Call, BadCall> {
        self.sound()?;
        if let Some(found) = self.unknown {
            return Err(unknown(found, kind));
        }
        let (names, _) = allowed(kind);
        let without_batch = Members { call: None, key: None, ..*self };
        if let Some(stray) = without_batch.stray(names) {
            return Err(unknown(Text::cut(stray), kind));
        }
        let subject = match kind.asks() {
            true => match present(self.budgets) {
                Some(found) => Subject::Budgets(self.budgets(found)?),
                None => Subject::Budget(self.budget()?),
            },
            false => Subject::Hold(self.token()?),
        };
        let amount = self.amount()?;
        if amount.is_none() && kind.asks() {
            return Err(BadCall::Missing { member: "amount", expected: AMOUNT });
        }
        let confirm = self.confirm()?;
        let confirm_ms = self.confirm_ms(kind, confirm, limits.confirm_ms_max)?;
        Ok(Call {
            kind,
            subject,
            amount,
            unit: self.unit()?,
            hold_ms: self.hold_ms(confirm, limits.hold_ms_max)?,
            wait_ms: number("wait_ms", self.wait_ms, 0, WAIT_MS_MAX)?,
            confirm,
            confirm_ms,
            keyed: None,
        })
    }

    fn hold_ms(&self, confirm: bool, max: u32) -> Result<Option<u32>, BadCall> {
        let hold_ms = number("hold_ms", self.hold_ms, 1, HOLD_MS_MAX)?;
        match hold_ms {
            Some(found) if confirm => Err(value("hold_ms", &found.to_string(), NO_HOLD_MS)),
            Some(found) if found > max => Err(BadCall::HoldTooLong { found, max }),
            fits => Ok(fits),
        }
    }

    fn confirm_ms(&self, kind: CallKind, confirm: bool, max: u32) -> Result<Option<u32>, BadCall> {
        let found = number("confirm_ms", self.confirm_ms, CONFIRM_MS_MIN.min(max), max)?;
        match found {
            None if kind == CallKind::Extend => {
                Err(BadCall::Missing { member: "confirm_ms", expected: CONFIRM_MS })
            }
            Some(found) if kind.asks() && !confirm => {
                Err(value("confirm_ms", &found.to_string(), NO_CONFIRM_MS))
            }
            fits => Ok(fits),
        }
    }

    /// Those of an array. Two names of one budget are found where budgets are looked up.
    fn budgets(&self, found: Value<'a>) -> Result<Box<[Budget]>, BadCall> {
        let bad = |found: &Value<'_>| wrong("budgets", found, BUDGETS_SHAPE);
        let Value::Nested(written) = found else { return Err(bad(&found)) };
        let mut cursor = Cursor::new(written);
        if present(self.budget).is_some() || !cursor.take(b'[') {
            return Err(bad(&found));
        }
        let mut budgets = Vec::new();
        while !cursor.take(b']') {
            let found = cursor.value(1)?;
            budgets.push(budget(found).map_err(|_| bad(&found))?);
            cursor.take(b',');
            if budgets.len() > *BUDGETS.end() {
                break;
            }
        }
        let is_named_once = |at: usize| !budgets[..at].contains(&budgets[at]);
        if !BUDGETS.contains(&budgets.len()) || !(0..budgets.len()).all(is_named_once) {
            return Err(value("budgets", written, BUDGETS_SHAPE));
        }
        Ok(budgets.into())
    }

    fn budget(&self) -> Result<Budget, BadCall> {
        let found = present(self.budget);
        budget(found.ok_or(BadCall::Missing { member: "budget", expected: BUDGET })?)
    }

    fn token(&self) -> Result<[u8; 32], BadCall> {
        let found = present(self.token);
        let found = found.ok_or(BadCall::Missing { member: "token", expected: TOKEN })?;
        let Value::Text(text) = found else { return Err(value("token", "no text", TOKEN)) };
        let (mut token, mut room) = ([0; 32], [0; TOKEN_CHARS]);
        match text.read(&mut room) {
            // Only the length is told apart from a token that is wrong: the text may be somebody's.
            Some(text) if text.len() == TOKEN_CHARS => {
                let len = URL_SAFE_NO_PAD.decode_slice(text, &mut token);
                let is_whole = len == Ok(token.len());
                is_whole.then_some(token).ok_or_else(|| value("token", "...", TOKEN))
            }
            // As many characters, but not all of them of the alphabet.
            None if text.chars() == TOKEN_CHARS => Err(value("token", "...", TOKEN)),
            _ => Err(value("token", &format!("{} characters", text.chars()), TOKEN)),
        }
    }

    fn amount(&self) -> Result<Option<Text<40>>, BadCall> {
        let Some(found) = present(self.amount) else { return Ok(None) };
        let mut room = [0; 40];
        let text = match found {
            Value::Text(text) => text.read(&mut room),
            Value::Number(text) => Some(text),
            _ => None,
        };
        let amount = text.filter(|text| is_amount(text)).and_then(Text::new);
        amount.map(Some).ok_or_else(|| wrong("amount", &found, AMOUNT))
    }

    fn unit(&self) -> Result<Option<[u8; 4]>, BadCall> {
        let Some(found) = present(self.unit) else { return Ok(None) };
        let mut room = [0; 8];
        let unit = match found {
            Value::Text(text) => {
                text.read(&mut room).and_then(|text| money::Unit::parse(text).ok())
            }
            _ => None,
        };
        unit.map(|unit| Some(unit.to_code())).ok_or_else(|| wrong("unit", &found, UNIT))
    }

    fn confirm(&self) -> Result<bool, BadCall> {
        match present(self.confirm) {
            None => Ok(false),
            Some(Value::Flag(flag)) => Ok(flag),
            Some(other) => Err(wrong("confirm", &other, FLAG)),
        }
    }
}

fn budget(found: Value<'_>) -> Result<Budget, BadCall> {
    let bad = || wrong("budget", &found, BUDGET);
    match found {
        Value::Text(text) => {
            let mut room = [0; wire::HANDLE_BYTES_MAX];
            let length = HandleError::Length { found: text.bytes() };
            let text = text.read(&mut room).ok_or(BadCall::Handle(length))?;
            if let Some(id) = id(text) {
                return Ok(Budget::Digits(id));
            }
            if is_digits(text) {
                return Err(bad());
            }
            Handle::check(text).map_err(BadCall::Handle)?;
            // A handle has at most as many bytes as there is room for.
            Ok(Budget::Handle(Text::new(text).ok_or_else(bad)?))
        }
        Value::Number(text) => {
            id(text).filter(|id| *id <= EXACT_MAX).map(Budget::Id).ok_or_else(bad)
        }
        _ => Err(bad()),
    }
}

/// `null` is as good as nothing.
fn present(value: Option<Value<'_>>) -> Option<Value<'_>> {
    value.filter(|value| *value != Value::Null)
}

pub(crate) fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// An id by its digits: "007" and "7" would be two names of one budget.
pub(crate) fn id(digits: &str) -> Option<u64> {
    let is_plain = is_digits(digits) && (digits == "0" || !digits.starts_with('0'));
    digits.parse().ok().filter(|_| is_plain)
}

/// `digits[.digits]` without leading zeros; how many decimals there may be is the unit's matter.
fn is_amount(text: &str) -> bool {
    let (whole, decimals) = text.split_once('.').map_or((text, None), |(w, d)| (w, Some(d)));
    is_digits(whole) && (whole == "0" || !whole.starts_with('0')) && decimals.is_none_or(is_digits)
}

fn number(
    member: &'static str,
    found: Option<Value<'_>>,
    min: u32,
    max: u32,
) -> Result<Option<u32>, BadCall> {
    let Some(found) = present(found) else { return Ok(None) };
    let number = match found {
        Value::Number(text) if is_digits(text) => text.parse().ok(),
        _ => None,
    };
    let fits = number.filter(|number| (min..=max).contains(number));
    let range = BadCall::Range { member, found: shown(&found), min: min.into(), max: max.into() };
    fits.map(Some).ok_or(range)
}

/// A value as it was written.
fn shown(value: &Value<'_>) -> Text<40> {
    Text::cut(match value {
        Value::Text(text) => return text.shown(),
        Value::Number(text) => text,
        Value::Flag(true) => "true",
        Value::Flag(false) => "false",
        Value::Null => "null",
        Value::Nested(_) => "an object or an array",
    })
}

fn value(member: &'static str, found: &str, expected: &'static str) -> BadCall {
    BadCall::Value { member, found: Text::cut(found), expected }
}

fn wrong(member: &'static str, found: &Value<'_>, expected: &'static str) -> BadCall {
    value(member, shown(found).as_str(), expected)
}

fn unknown(found: Text<40>, kind: CallKind) -> BadCall {
    BadCall::Unknown { found, call: kind.name(), expected: allowed(kind).1 }
}

#[cfg(test)]
mod tests;
