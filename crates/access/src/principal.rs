//! Principals, and the file that names them.

use std::fmt;
use std::sync::Arc;

use crate::scope::{ScopeError, Scopes};
use crate::token::{AccessToken, TokenDigest};

/// Characters of a principal's name at most.
const NAME_MAX: usize = 64;
/// Principals of one file at most: a token is compared with all of them.
const PRINCIPALS_MAX: usize = 1_024;

/// What a principal may do. One list for all doors: each accepts the roles that mean something to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// At the admin and spend doors: everything that changes nothing.
    Read,
    /// At the admin door: everything.
    Operate,
    /// At the doors that spend: asks, confirms, settles and releases.
    Spend,
    /// At the keys door: everything within its scopes.
    Keys,
}

/// Why a door lets nobody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Nobody has this token, or nobody has it any more.
    Unknown,
    /// Its role means nothing to this door.
    Role(Role),
}

impl Role {
    /// All of them.
    pub const ALL: [Role; 4] = [Role::Read, Role::Operate, Role::Spend, Role::Keys];

    /// As a file has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Operate => "operate",
            Role::Spend => "spend",
            Role::Keys => "keys",
        }
    }

    /// The role of a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Can it be limited so? A scope that nothing looks at would promise what no door keeps: the admin door, which looks at
    /// none, refuses a file with [`TokenFile::scoped_readers`].
    #[must_use]
    pub fn takes(self, scopes: &Scopes) -> bool {
        match self {
            Role::Spend | Role::Read => !scopes.knows_keys(),
            Role::Keys => scopes.knows_keys() || !scopes.is_limited(),
            Role::Operate => !scopes.is_limited(),
        }
    }

    /// Reads the scopes of a principal with this role.
    ///
    /// # Errors
    /// [`ScopeError`]: the first that cannot be one, or too many.
    pub fn scopes(self, text: &str) -> Result<Scopes, ScopeError> {
        if self == Role::Keys { Scopes::parse_of_keys(text) } else { Scopes::parse(text) }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Who shows a token: a person or a program.
#[derive(Clone, Debug)]
pub struct Principal {
    name: Arc<str>,
    role: Role,
    scopes: Scopes,
    digest: TokenDigest,
}

impl Principal {
    /// A principal: a name of 1 to 64 of `A-Za-z0-9._-`, a role, the digest of its token, and scopes where its role takes
    /// some.
    ///
    /// # Errors
    /// [`LineFault`]: what of these cannot be used.
    pub fn new(
        name: &str,
        role: Role,
        digest: TokenDigest,
        scopes: Scopes,
    ) -> Result<Principal, LineFault> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !(1..=NAME_MAX).contains(&name.len()) || !name.bytes().all(is_name) {
            return Err(LineFault::Name);
        }
        if !role.takes(&scopes) {
            return Err(LineFault::NoScopes { name: name.into(), role });
        }
        Ok(Principal { name: name.into(), role, scopes, digest })
    }

    /// Its name: what books, logs and the audit know it by.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What it may do.
    #[must_use]
    pub fn role(&self) -> Role {
        self.role
    }

    /// Where.
    #[must_use]
    pub fn scopes(&self) -> &Scopes {
        &self.scopes
    }
}

/// As a line of a file, with the digest of the token.
impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.name, self.role, self.digest)?;
        if self.scopes.is_limited() { write!(f, " {}", self.scopes) } else { Ok(()) }
    }
}

/// What is wrong with a line. No token is ever repeated, nor what may be one in a wrong column.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum LineFault {
    /// Too few words or too many.
    #[error(
        "found {0} words, expected `name role token` and perhaps scopes, separated by commas without spaces"
    )]
    Words(usize),
    /// The name.
    #[error("the name: expected 1 to {NAME_MAX} of A-Za-z0-9._-")]
    Name,
    /// The role.
    #[error("the role of {name}: expected read, operate, spend or keys")]
    Role {
        /// Whose.
        name: String,
    },
    /// The token.
    #[error("the token of {name}: expected {}", AccessToken::EXPECTED)]
    Token {
        /// Whose.
        name: String,
    },
    /// The scopes.
    #[error("the scopes of {name}: {source}{found}")]
    Scopes {
        /// Whose.
        name: String,
        /// The faults in them.
        source: ScopeError,
        /// What was found, as [`found_scope`](crate::found_scope) says it.
        found: String,
    },
    /// Scopes beside a role that no door limits so.
    #[error(
        "the scopes of {name}: the role {role} takes none such; spend and read take budgets, keys takes keys"
    )]
    NoScopes {
        /// Whose.
        name: String,
        /// Its role.
        role: Role,
    },
    /// A name that was there before.
    #[error("a second {0}")]
    SecondName(String),
    /// A token that was there before.
    #[error("the token of {name} is the one of {other}")]
    SecondToken {
        /// Whose.
        name: String,
        /// Who has it, too.
        other: String,
    },
    /// More lines than a file may have.
    #[error("expected at most {PRINCIPALS_MAX} lines `name role token`")]
    Many,
    /// No line.
    #[error("no token: expected lines `name role token`")]
    Nobody,
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line}: {fault}")]
pub struct LineError {
    /// Its number, from 1.
    pub line: usize,
    /// The fault in it.
    pub fault: LineFault,
}

/// Everybody whom a file names. Only digests of tokens are kept in memory.
#[derive(Clone, Debug, Default)]
pub struct TokenFile {
    principals: Vec<Arc<Principal>>,
    /// The line of each of them, from 1.
    lines: Vec<usize>,
    /// Is a token in it as it is, and not as its digest?
    has_plain: bool,
    /// Whose tokens look cut or mistyped.
    broken: Vec<Arc<str>>,
}

impl TokenFile {
    /// Reads lines `name role token [scope,...]`; `#` begins a comment. A name is 1 to 64 of `A-Za-z0-9._-`, a role `read`,
    /// `operate` or `spend`, a token 16 to 256 of `A-Za-z0-9_-` or `sha256:` and 64 hexadecimal digits, a scope as
    /// [`Scopes::parse`] reads it.
    ///
    /// # Errors
    /// Every line that cannot be read, or repeats a name or a token.
    pub fn parse(text: &str) -> Result<TokenFile, Vec<LineError>> {
        let mut file = TokenFile::default();
        let mut errors = Vec::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.split('#').next().unwrap_or_default();
            if content.trim().is_empty() {
                continue;
            }
            if file.principals.len() == PRINCIPALS_MAX {
                errors.push(LineError { line, fault: LineFault::Many });
                break;
            }
            match file.add(content) {
                Ok(()) => file.lines.push(line),
                Err(fault) => errors.push(LineError { line, fault }),
            }
        }
        if file.principals.is_empty() && errors.is_empty() {
            errors.push(LineError { line: 1, fault: LineFault::Nobody });
        }
        if errors.is_empty() { Ok(file) } else { Err(errors) }
    }

    fn add(&mut self, line: &str) -> Result<(), LineFault> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (name, role, token, scopes) = match words[..] {
            [name, role, token] => (name, role, token, ""),
            [name, role, token, scopes] => (name, role, token, scopes),
            _ => return Err(LineFault::Words(words.len())),
        };
        // The name is judged first: the other errors repeat it.
        let nobody = TokenDigest::of(b"");
        Principal::new(name, Role::Spend, nobody, Scopes::default())?;
        let owned = || name.to_owned();
        let role = Role::parse(role).ok_or_else(|| LineFault::Role { name: owned() })?;
        let plain = AccessToken::parse(token);
        let digest = match (&plain, TokenDigest::parse(token)) {
            (_, Some(Ok(digest))) => digest,
            (Some(plain), None) => plain.digest(),
            _ => return Err(LineFault::Token { name: owned() }),
        };
        let scopes = role.scopes(scopes).map_err(|source| {
            let found = source.found(scopes);
            LineFault::Scopes { name: owned(), source, found }
        })?;
        let principal = self.unlike(Principal::new(name, role, digest, scopes)?)?;
        self.has_plain |= plain.is_some();
        self.broken
            .extend(plain.filter(AccessToken::is_broken).map(|_| Arc::clone(&principal.name)));
        self.principals.push(Arc::new(principal));
        Ok(())
    }

    /// The principal, if neither its name nor its token is in the file.
    pub(crate) fn unlike(&self, new: Principal) -> Result<Principal, LineFault> {
        let name = || new.name.to_string();
        for other in &self.principals {
            if other.name == new.name {
                return Err(LineFault::SecondName(name()));
            }
            if other.digest.is_same(&new.digest) {
                let other = other.name.to_string();
                return Err(LineFault::SecondToken { name: name(), other });
            }
        }
        Ok(new)
    }

    /// Whose token it is, whatever the caller shows. Takes as long for any token.
    #[must_use]
    pub fn find(&self, shown: &[u8]) -> Option<&Arc<Principal>> {
        self.find_digest(&TokenDigest::of(shown))
    }

    /// Who has the token of this principal, who may be of an earlier file.
    #[must_use]
    pub fn find_again(&self, principal: &Principal) -> Option<&Arc<Principal>> {
        self.find_digest(&principal.digest)
    }

    fn find_digest(&self, digest: &TokenDigest) -> Option<&Arc<Principal>> {
        self.principals.iter().fold(None, |found, principal| {
            if principal.digest.is_same(digest) { Some(principal) } else { found }
        })
    }

    /// Those of all lines, in their order.
    pub fn principals(&self) -> impl Iterator<Item = &Principal> {
        self.principals.iter().map(|principal| &**principal)
    }

    /// Does it name anybody with one of these roles? A door that it lets nobody into is a mistake.
    #[must_use]
    pub fn has_role(&self, roles: &[Role]) -> bool {
        self.principals.iter().any(|principal| roles.contains(&principal.role))
    }

    /// The names of those with the role `read` who are limited to budgets: the spend door heeds that, and no other one.
    pub fn scoped_readers(&self) -> impl Iterator<Item = &str> {
        let scoped = |p: &&Arc<Principal>| p.role == Role::Read && p.scopes.is_limited();
        self.principals.iter().filter(scoped).map(|principal| &*principal.name)
    }

    /// Those with the role `keys`: line, name and scopes, as written. What verbs there are, the keys door knows.
    pub fn key_scopes(&self) -> impl Iterator<Item = (usize, &str, &str)> {
        let all = self.lines.iter().zip(&self.principals);
        let of_keys = all.filter(|(_, principal)| principal.role == Role::Keys);
        of_keys.map(|(line, principal)| (*line, &*principal.name, principal.scopes.of_keys()))
    }

    /// Is a token in it as it is, and not as its digest? Then whoever reads the file has the token.
    #[must_use]
    pub fn has_plain_token(&self) -> bool {
        self.has_plain
    }

    /// The names of those whose tokens begin as one of `weir token new` and do not end as one: nobody can show them.
    pub fn broken(&self) -> impl Iterator<Item = &str> {
        self.broken.iter().map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FILE: &str = "# people\nann operate 0123456789abcdef\n\nboard read fedcba9876543210 # screen\r\n\
         shop spend spend-0123456789 budget:7,budget:1*\n";

    #[test]
    fn principals_are_found_by_their_tokens() {
        let file = TokenFile::parse(FILE).unwrap();
        let ann = file.find(b"0123456789abcdef").unwrap();
        assert_eq!((&**ann.name(), ann.role()), ("ann", Role::Operate));
        assert_eq!(file.find(b"fedcba9876543210").unwrap().role(), Role::Read);
        let shop = file.find(b"spend-0123456789").unwrap();
        assert!(shop.scopes().allows_budget(12) && !shop.scopes().allows_budget(2));
        for wrong in
            [&b""[..], b"0123456789abcde", b"0123456789abcdeg", b"0123456789ABCDEF", b"\xff"]
        {
            assert!(file.find(wrong).is_none());
        }
        assert!(file.has_role(&[Role::Spend]) && file.has_plain_token());
        assert_eq!(file.scoped_readers().count(), 0);
        let scoped =
            TokenFile::parse("a read 0123456789abcdef handle:a/*\nb read fedcba9876543210")
                .unwrap();
        assert_eq!(scoped.scoped_readers().collect::<Vec<_>>(), ["a"]);
        for token in ["0123456789abcdef", "fedcba9876543210", "spend-0123456789"] {
            assert!(!format!("{file:?}").contains(token));
        }
    }

    #[test]
    fn a_digest_stands_for_its_token_and_is_no_token() {
        let digest = TokenDigest::of(b"0123456789abcdef").to_string();
        let file = TokenFile::parse(&format!("ann operate {digest}")).unwrap();
        assert_eq!(&**file.find(b"0123456789abcdef").unwrap().name(), "ann");
        assert!(file.find(digest.as_bytes()).is_none(), "who has read the file cannot enter");
        assert!(file.find(&digest.as_bytes()[7..]).is_none());
        assert!(!file.has_plain_token());
        let both = format!("ann operate {digest}\nbob read 0123456789abcdef");
        let errors = TokenFile::parse(&both).unwrap_err();
        assert_eq!(errors[0].to_string(), "line 2: the token of bob is the one of ann");
    }

    #[test]
    fn every_bad_line_is_told_and_no_token() {
        let text = "a operate short\nb owner 0123456789abcdef\nc read\nd read 0123456789abcdef\n\
                    e read 0123456789abcdef\nd read aaaaaaaaaaaaaaaa\n\u{e9} read bbbbbbbbbbbbbbbb\n\
                    f spend cccccccccccccccc budget:x!\ng operate dddddddddddddddd budget:1\n\
                    h spend eeeeeeeeeeeeeeee budget:1, budget:2\ni 0123456789abcdef spend\n\
                    j spend sha256:0123456789abcdef\n0123456789abcdef! read k\n";
        let errors = TokenFile::parse(text).unwrap_err();
        let lines: Vec<usize> = errors.iter().map(|error| error.line).collect();
        assert_eq!(lines, [1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13]);
        let told: String = errors.iter().map(ToString::to_string).collect();
        for token in ["0123456789abcdef", "bbbbbbbb", "cccccccc", "dddddddd", "eeeeeeee"] {
            assert!(!told.contains(token), "{told}");
        }
        assert_eq!(TokenFile::parse("# nothing").unwrap_err()[0].fault, LineFault::Nobody);
    }

    #[test]
    fn a_file_has_a_limit_and_a_cut_token_is_seen() {
        let lines = |count: usize| {
            (0..count).map(|n| format!("n{n} read token-{n:010}\n")).collect::<String>()
        };
        assert!(TokenFile::parse(&lines(PRINCIPALS_MAX)).is_ok());
        let errors = TokenFile::parse(&lines(PRINCIPALS_MAX + 1)).unwrap_err();
        assert_eq!(errors[0].fault, LineFault::Many);
        let token = AccessToken::random().unwrap();
        let (whole, cut) = (token.text(), &token.text()[..40]);
        let file = TokenFile::parse(&format!("a read {whole}\nb read {cut}")).unwrap();
        assert_eq!(file.broken().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn who_may_use_keys_is_limited_to_keys_and_nobody_else() {
        let text = "safe keys 0123456789abcdef transit/encrypt/shop-*,transit/read/*\nall keys fedcba9876543210\n";
        let file = TokenFile::parse(text).unwrap();
        let safe = file.find(b"0123456789abcdef").unwrap();
        assert_eq!(safe.role(), Role::Keys);
        assert_eq!(safe.scopes().of_keys(), "transit/encrypt/shop-*,transit/read/*");
        assert!(!safe.scopes().allows_budget(1));
        assert!(!file.find(b"fedcba9876543210").unwrap().scopes().is_limited());
        assert_eq!(TokenFile::parse(&safe.to_string()).unwrap().principals.len(), 1);
        for wrong in ["a keys 0123456789abcdef budget:1", "a spend 0123456789abcdef transit/*/*"] {
            let fault = TokenFile::parse(wrong).unwrap_err().remove(0).fault;
            assert!(matches!(fault, LineFault::Scopes { .. }), "{fault}");
        }
        let (digest, keys) = (TokenDigest::of(b""), Scopes::parse_of_keys("transit/*/*").unwrap());
        for role in [Role::Read, Role::Operate, Role::Spend] {
            let fault = Principal::new("a", role, digest, keys.clone()).unwrap_err();
            assert_eq!(fault, LineFault::NoScopes { name: "a".into(), role });
        }
        let budgets = Scopes::parse("budget:1").unwrap();
        assert!(Principal::new("a", Role::Keys, digest, budgets).is_err());
    }

    #[test]
    fn a_line_reads_back() {
        let digest = TokenDigest::of(b"0123456789abcdef");
        let scopes = Scopes::parse("budget:7,budget:1*").unwrap();
        let shop = Principal::new("shop", Role::Spend, digest, scopes).unwrap();
        let file = TokenFile::parse(&shop.to_string()).unwrap();
        let read = file.find(b"0123456789abcdef").unwrap();
        assert_eq!(read.to_string(), shop.to_string());
        assert_eq!(file.find_again(&shop).unwrap().name(), shop.name());
    }

    proptest! {
        #[test]
        fn no_text_panics_or_repeats_a_token(text in "[ -~\n#:,*a-c]{0,200}") {
            let _ = TokenFile::parse(&text);
            let line = ("a ".to_owned() + &text + " 0123456789abcdef").replace('\n', " ");
            let told = TokenFile::parse(&line).err().unwrap_or_default();
            prop_assert!(told.iter().all(|error| !error.to_string().contains("0123456789")));
        }
    }
}
