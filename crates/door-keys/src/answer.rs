//! Answers: Transit's frame, its errors, what the audit has to know.

use std::fmt;

use vault::{Drbg, KeyKind, Sealed};

use crate::json::{BadJson, write_text};
use crate::scope::{Act, Verb};

/// One answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// The status: 200, 204, 400, 403, 404, 405, 413, 415, 429, 500, 501, 503, or what a caller asked for, 100 to 599.
    pub status: u16,
    /// Header lines, each with its CRLF; `Content-Type` comes beside them where there is a body.
    pub headers: &'static [u8],
    /// What the body is.
    pub content_type: &'static str,
    /// The body; empty with 204.
    pub body: &'a [u8],
    /// What was done, for the audit.
    pub audit: Audit<'a>,
}

/// What was done: never data, never a secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audit<'a> {
    /// What with a key; `None` for what concerns none.
    pub verb: Option<Verb>,
    /// Which call it was, where the verb is that of several; of encrypting, that it made the key.
    pub act: Option<Act>,
    /// The key's name; empty where there is none.
    pub key: &'a str,
    /// The version of the key that did the work of the items that did not fail: it sealed, opened, tagged or judged them; 0 where that is
    /// none or several. Of what shows a key's policy, its latest version.
    pub version: u32,
    /// Items of the batch, 1 for a single one.
    pub items: u64,
    /// Those that failed.
    pub failed: u64,
}

/// The one version of a key that did all of some work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OneVersion(Option<u32>);

impl OneVersion {
    /// Notes that a version did some of it.
    #[inline]
    pub(crate) fn add(&mut self, version: u32) {
        if self.0 != Some(version) {
            self.0 = Some(if self.0.is_some() { 0 } else { version });
        }
    }

    /// Returns it; 0 where there is none, or several.
    pub(crate) fn get(self) -> u32 {
        self.0.unwrap_or(0)
    }
}

/// Of every answer but whole bulk streams.
pub(crate) const JSON: &str = "application/json";

/// The answer must not be stored by anything on its way.
pub(crate) const HEADERS: &[u8] = b"Cache-Control: no-store\r\n";
/// ... and may be asked for again.
pub(crate) const RETRY_HEADERS: &[u8] = b"Cache-Control: no-store\r\nRetry-After: 1\r\n";

/// Why a request is not done.
#[derive(Debug)]
pub(crate) enum Halt {
    /// It is refused.
    Refuse(Refusal),
    /// It has to be asked on a thread that may wait.
    Elsewhere,
}

/// An answer that says why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    /// The one text; none where a thing is missing.
    pub(crate) text: Option<String>,
}

impl Refusal {
    pub(crate) fn new(status: u16, text: impl Into<String>) -> Refusal {
        Refusal { status, text: Some(text.into()) }
    }

    /// A request that cannot be right.
    pub(crate) fn bad(text: impl Into<String>) -> Refusal {
        Refusal::new(400, text)
    }

    /// A key that is to be deleted, and seals and opens nothing until it is taken back.
    pub(crate) fn soft_deleted() -> Refusal {
        Refusal::bad(vault::ChangeError::SoftDeleted.to_string())
    }

    /// A key of tags, which neither seals nor opens.
    pub(crate) fn seals_nothing(seals: bool, kind: KeyKind) -> Refusal {
        let what = if seals { "encryption" } else { "decryption" };
        Refusal::bad(format!("message {what} not supported for key type {kind}"))
    }

    pub(crate) fn denied() -> Refusal {
        Refusal::new(403, "permission denied")
    }

    /// A thing that is not there.
    pub(crate) fn missing() -> Refusal {
        Refusal { status: 404, text: None }
    }

    /// Transit's frame around texts of its own machinery.
    pub(crate) fn framed(status: u16, text: impl fmt::Display) -> Refusal {
        Refusal::new(status, format!("1 error occurred:\n\t* {text}\n\n"))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"errors\":[");
        if let Some(text) = &self.text {
            write_text(text, out);
        }
        out.extend_from_slice(b"]}\n");
    }
}

impl From<Refusal> for Halt {
    fn from(refusal: Refusal) -> Halt {
        Halt::Refuse(refusal)
    }
}

impl From<BadJson> for Halt {
    fn from(why: BadJson) -> Halt {
        let status = if why == BadJson::Long { 413 } else { 400 };
        Refusal::new(status, why.to_string()).into()
    }
}

impl From<Sealed> for Halt {
    fn from(_: Sealed) -> Halt {
        Refusal::new(503, Sealed.to_string()).into()
    }
}

/// Writes JSON, member after member.
pub(crate) struct Pen<'a> {
    pub(crate) out: &'a mut Vec<u8>,
}

impl Pen<'_> {
    pub(crate) fn raw(&mut self, json: &str) {
        self.out.extend_from_slice(json.as_bytes());
    }

    /// Begins a member: a comma where one is due, the name, a colon.
    pub(crate) fn member(&mut self, name: &str) {
        if !matches!(self.out.last(), None | Some(b'{' | b'[' | b',')) {
            self.out.push(b',');
        }
        write_text(name, self.out);
        self.out.push(b':');
    }

    pub(crate) fn text(&mut self, name: &str, text: &str) {
        self.member(name);
        write_text(text, self.out);
    }

    pub(crate) fn flag(&mut self, name: &str, flag: bool) {
        self.member(name);
        self.raw(if flag { "true" } else { "false" });
    }

    pub(crate) fn number(&mut self, name: &str, number: u64) {
        self.member(name);
        self.digits(number);
    }

    pub(crate) fn digits(&mut self, number: u64) {
        let (mut digits, mut from, mut rest) = ([0; 20], 20, number);
        loop {
            from -= 1;
            if let (Some(digit), Ok(value)) = (digits.get_mut(from), u8::try_from(rest % 10)) {
                *digit = b'0' + value;
            }
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.out.extend_from_slice(digits.get(from..).unwrap_or_default());
    }

    pub(crate) fn texts<'t>(&mut self, name: &str, texts: impl Iterator<Item = &'t str>) {
        self.member(name);
        self.raw("[");
        for (at, text) in texts.enumerate() {
            if at > 0 {
                self.raw(",");
            }
            write_text(text, self.out);
        }
        self.raw("]");
    }

    /// Writes the beginning of Transit's frame, up to the value of `data`.
    pub(crate) fn open_frame(&mut self, random: &mut Drbg) {
        self.raw("{\"request_id\":\"");
        self.raw(&uuid(random));
        self.raw("\",\"lease_id\":\"\",\"renewable\":false,\"lease_duration\":0,\"data\":");
    }

    /// Writes what follows `data`.
    pub(crate) fn close_frame(&mut self, warnings: &[String]) {
        self.raw(",\"wrap_info\":null");
        if warnings.is_empty() {
            self.raw(",\"warnings\":null");
        } else {
            self.texts("warnings", warnings.iter().map(String::as_str));
        }
        self.raw(",\"auth\":null}\n");
    }
}

/// Returns a random UUID (RFC 9562, version 4). Of zeros where there is no randomness: it names a request and keeps no secret.
pub(crate) fn uuid(random: &mut Drbg) -> String {
    let mut bytes = [0; 16];
    if random.fill(&mut bytes).is_err() {
        bytes = [0; 16];
    }
    let bits = u128::from_be_bytes(bytes) & !(0xf << 76 | 3 << 62) | 4 << 76 | 2 << 62;
    let part = |shift: u32, digits: u32| bits >> shift & ((1 << (digits * 4)) - 1);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 8),
        part(80, 4),
        part(64, 4),
        part(48, 4),
        part(0, 12)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_their_version_and_variant() {
        let mut random = Drbg::new().unwrap();
        let (one, other) = (uuid(&mut random), uuid(&mut random));
        assert_ne!(one, other);
        assert_eq!((one.len(), &one[14..15]), (36, "4"));
        assert!(["8", "9", "a", "b"].contains(&&one[19..20]), "{one}");
        assert_eq!(one.bytes().filter(|byte| *byte == b'-').count(), 4, "{one}");
    }

    #[test]
    fn members_have_their_commas() {
        let mut out = b"{".to_vec();
        let mut pen = Pen { out: &mut out };
        pen.text("a", "x\"\n");
        pen.number("b", 1_234_567_890_123);
        pen.number("c", 0);
        pen.flag("d", true);
        pen.texts("e", ["1", "2"].into_iter());
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, r#"{"a":"x\"\n","b":1234567890123,"c":0,"d":true,"e":["1","2"]"#);
    }
}
