//! Who may do what: bearer tokens with roles.

use std::fmt;
use std::sync::Arc;

use axum::http::{HeaderMap, header};
use serde::Serialize;
use sha2::{Digest, Sha256};
use utoipa::ToSchema;

/// Characters of a token: at least so many...
const TOKEN_MIN: usize = 16;
/// ...and at most so many.
const TOKEN_MAX: usize = 256;
/// Characters of a token's name.
const NAME_MAX: usize = 64;
/// Begins the WebSocket subprotocol that carries a token: a browser can set no header there.
const SUBPROTOCOL: &str = "bearer.";

/// What a token allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything that changes nothing.
    Read,
    /// Everything.
    Operate,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The name of the token; `local` where there are none.
    pub name: Arc<str>,
    /// What it allows.
    pub role: Role,
}

impl Who {
    /// Everybody, on a door without tokens.
    #[must_use]
    pub fn local() -> Who {
        Who { name: "local".into(), role: Role::Operate }
    }
}

/// The tokens of a door. Only their digests are kept in memory.
#[derive(Clone)]
pub struct Tokens(Arc<[Entry]>);

struct Entry {
    who: Who,
    digest: [u8; 32],
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|entry| &entry.who)).finish()
    }
}

impl Tokens {
    /// Reads lines `name role token`; `#` begins a comment. A name is 1 to 64 of `A-Za-z0-9._-`, a role `read` or
    /// `operate`, a token 16 to 256 of `A-Za-z0-9_-` (base64url).
    ///
    /// # Errors
    /// Every line that cannot be read, with its number and what was expected; no token is ever repeated in them.
    pub fn parse(text: &str) -> Result<Tokens, Vec<String>> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut errors = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let entry = Entry::parse(line).and_then(|entry| entry.unlike(&entries));
            match entry {
                Ok(entry) => entries.push(entry),
                Err(error) => errors.push(format!("line {}: {error}", index + 1)),
            }
        }
        if entries.is_empty() && errors.is_empty() {
            errors.push("no token: expected lines `name role token`".to_string());
        }
        if errors.is_empty() { Ok(Tokens(entries.into())) } else { Err(errors) }
    }

    /// Whose token it is. Takes as long for any token.
    pub(crate) fn find(&self, token: &str) -> Option<&Who> {
        let digest = digest(token);
        self.0.iter().fold(None, |found, entry| {
            if same(&entry.digest, &digest) { Some(&entry.who) } else { found }
        })
    }
}

impl Entry {
    fn parse(line: &str) -> Result<Entry, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, role, token] = words[..] else {
            return Err(format!("found {} words, expected `name role token`", words.len()));
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.len() > NAME_MAX || !name.chars().all(is_name) {
            return Err(format!("the name: expected 1 to {NAME_MAX} of A-Za-z0-9._-"));
        }
        let role = match role {
            "read" => Role::Read,
            "operate" => Role::Operate,
            _ => return Err(format!("the role of {name}: expected read or operate")),
        };
        let is_token = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if !(TOKEN_MIN..=TOKEN_MAX).contains(&token.len()) || !token.chars().all(is_token) {
            let expected = format!("expected {TOKEN_MIN} to {TOKEN_MAX} of A-Za-z0-9_-");
            return Err(format!("the token of {name}: {expected}"));
        }
        Ok(Entry { who: Who { name: name.into(), role }, digest: digest(token) })
    }

    /// The entry, if neither its name nor its token was there before.
    fn unlike(self, others: &[Entry]) -> Result<Entry, String> {
        let name = &self.who.name;
        match others.iter().find(|other| other.who.name == *name || other.digest == self.digest) {
            None => Ok(self),
            Some(other) if other.who.name == *name => Err(format!("a second {name}")),
            Some(other) => Err(format!("the token of {name} is the one of {}", other.who.name)),
        }
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Compares all bytes, wherever the first difference is.
fn same(a: &[u8; 32], b: &[u8; 32]) -> bool {
    let differences = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    std::hint::black_box(differences) == 0
}

/// The token of a request: of `Authorization: Bearer`, or of the WebSocket subprotocol `bearer.TOKEN`.
pub(crate) fn token_of(headers: &HeaderMap) -> Option<&str> {
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
        return scheme.eq_ignore_ascii_case("bearer").then(|| token.trim());
    }
    let protocols = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL);
    let mut names =
        protocols.iter().filter_map(|value| value.to_str().ok()).flat_map(|v| v.split(','));
    names.find_map(|name| name.trim().strip_prefix(SUBPROTOCOL))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        "# people\nann operate 0123456789abcdef\n\nboard read fedcba9876543210 # screen\n";

    #[test]
    fn tokens_are_found() {
        let tokens = Tokens::parse(FILE).unwrap();
        let who = tokens.find("0123456789abcdef").unwrap();
        assert_eq!((&*who.name, who.role), ("ann", Role::Operate));
        assert_eq!(tokens.find("fedcba9876543210").unwrap().role, Role::Read);
        for wrong in ["", "0123456789abcde", "0123456789abcdeg", "0123456789ABCDEF"] {
            assert_eq!(tokens.find(wrong), None, "{wrong}");
        }
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn every_bad_line_is_told_and_no_token() {
        let text = "a operate short\nb owner 0123456789abcdef\nc read\nd read 0123456789abcdef\n\
                    e read 0123456789abcdef\nd read aaaaaaaaaaaaaaaa\né read bbbbbbbbbbbbbbbb\n";
        let errors = Tokens::parse(text).unwrap_err();
        let lines: Vec<&str> = errors.iter().map(|e| e.split(':').next().unwrap()).collect();
        assert_eq!(lines, ["line 1", "line 2", "line 3", "line 5", "line 6", "line 7"]);
        assert!(!errors.concat().contains("0123456789abcdef"));
        assert_eq!(Tokens::parse("# nothing").unwrap_err().len(), 1);
    }

    #[test]
    fn tokens_come_in_a_header_or_a_subprotocol() {
        let with = |name: &'static str, value: &'static str| {
            HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
        };
        assert_eq!(token_of(&with("authorization", "Bearer abc")), Some("abc"));
        assert_eq!(token_of(&with("authorization", "bearer abc")), Some("abc"));
        assert_eq!(token_of(&with("authorization", "Basic abc")), None);
        assert_eq!(
            token_of(&with("sec-websocket-protocol", "weir.live.1, bearer.abc")),
            Some("abc")
        );
        assert_eq!(token_of(&HeaderMap::new()), None);
    }
}
