//! Scopes: with which keys a caller may do what.

use std::fmt;

/// What a call does with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Seals plaintexts.
    Encrypt,
    /// Opens ciphertexts.
    Decrypt,
    /// Seals anew, with a newer version; the caller never sees the plaintext.
    Rewrap,
    /// Makes tags.
    Hmac,
    /// Judges tags.
    Verify,
    /// Makes data keys.
    Datakey,
    /// Looks at policies.
    Read,
    /// Makes, changes and deletes keys.
    Admin,
    /// Reads the bytes of keys.
    Export,
    /// Makes random bytes.
    Random,
    /// Hashes.
    Hash,
}

impl Verb {
    /// All of them.
    pub const ALL: [Verb; 11] = [
        Verb::Encrypt,
        Verb::Decrypt,
        Verb::Rewrap,
        Verb::Hmac,
        Verb::Verify,
        Verb::Datakey,
        Verb::Read,
        Verb::Admin,
        Verb::Export,
        Verb::Random,
        Verb::Hash,
    ];

    /// Returns its name, as scopes and the audit have it.
    pub const fn name(self) -> &'static str {
        match self {
            Verb::Encrypt => "encrypt",
            Verb::Decrypt => "decrypt",
            Verb::Rewrap => "rewrap",
            Verb::Hmac => "hmac",
            Verb::Verify => "verify",
            Verb::Datakey => "datakey",
            Verb::Read => "read",
            Verb::Admin => "admin",
            Verb::Export => "export",
            Verb::Random => "random",
            Verb::Hash => "hash",
        }
    }
}

/// Which call it was, where a verb is that of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Makes a key, also on its first use.
    Create,
    /// Makes a new version.
    Rotate,
    /// Changes a key's policy.
    Config,
    /// Lets old versions go.
    Trim,
    /// Lets a key go.
    Delete,
    /// Takes a key out of use.
    SoftDelete,
    /// Takes it back into use.
    SoftDeleteRestore,
    /// Makes a key of a backup.
    Restore,
    /// Asks or says whether keys are made on their first use.
    ConfigKeys,
    /// Asks or sets the cache, which there is none of.
    CacheConfig,
    /// Unseals the keys.
    Unseal,
    /// Seals them.
    Seal,
    /// Reads a key's policy.
    Read,
    /// Lists names.
    List,
    /// Reads the bytes of a key.
    Export,
    /// Reads a backup of a key.
    Backup,
}

impl Act {
    /// All of them.
    pub const ALL: [Act; 16] = [
        Act::Create,
        Act::Rotate,
        Act::Config,
        Act::Trim,
        Act::Delete,
        Act::SoftDelete,
        Act::SoftDeleteRestore,
        Act::Restore,
        Act::ConfigKeys,
        Act::CacheConfig,
        Act::Unseal,
        Act::Seal,
        Act::Read,
        Act::List,
        Act::Export,
        Act::Backup,
    ];

    /// Returns its name, as the audit has it: that of its path, where that has one.
    pub const fn name(self) -> &'static str {
        match self {
            Act::Create => "create",
            Act::Rotate => "rotate",
            Act::Config => "config",
            Act::Trim => "trim",
            Act::Delete => "delete",
            Act::SoftDelete => "soft-delete",
            Act::SoftDeleteRestore => "soft-delete-restore",
            Act::Restore => "restore",
            Act::ConfigKeys => "config-keys",
            Act::CacheConfig => "cache-config",
            Act::Unseal => "unseal",
            Act::Seal => "seal",
            Act::Read => "read",
            Act::List => "list",
            Act::Export => "export",
            Act::Backup => "backup",
        }
    }

    /// Returns the verb that allows it.
    pub const fn verb(self) -> Verb {
        match self {
            Act::Read | Act::List => Verb::Read,
            Act::Export | Act::Backup => Verb::Export,
            _ => Verb::Admin,
        }
    }
}

/// The scopes of a caller. None at all means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyScopes(Box<[KeyScope]>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyScope {
    /// `None`: all.
    verb: Option<Verb>,
    name: Box<str>,
    /// All names that begin so, not the one that is so.
    begins: bool,
}

/// A scope cannot be read. What was found is not repeated: it may be a token in the wrong column.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "scope {place}: expected transit/VERB/NAME or transit/VERB/NAME*, with VERB one of encrypt, decrypt, rewrap, hmac, verify, datakey, read, admin, export, random, hash and *"
)]
pub struct BadKeyScope {
    /// Which of them, from 1.
    pub place: usize,
}

impl KeyScopes {
    /// Reads scopes that commas separate; an empty text has none.
    ///
    /// # Errors
    /// [`BadKeyScope`]: the first that cannot be read.
    pub fn parse(text: &str) -> Result<KeyScopes, BadKeyScope> {
        if text.is_empty() {
            return Ok(KeyScopes::default());
        }
        let scope = |(place, text)| KeyScope::parse(text).ok_or(BadKeyScope { place });
        (1..).zip(text.split(',')).map(scope).collect::<Result<_, _>>().map(KeyScopes)
    }

    /// Tells whether there are any.
    pub fn is_limited(&self) -> bool {
        !self.0.is_empty()
    }

    /// Tells whether they allow a verb with a key; the empty name is what belongs to no key.
    pub fn allows(&self, verb: Verb, name: &str) -> bool {
        !self.is_limited() || self.0.iter().any(|scope| scope.is_for(verb) && scope.covers(name))
    }

    /// Tells whether they allow a verb with some key.
    pub fn allows_some(&self, verb: Verb) -> bool {
        !self.is_limited() || self.0.iter().any(|scope| scope.is_for(verb))
    }
}

impl KeyScope {
    fn parse(text: &str) -> Option<KeyScope> {
        let (verb, name) = text.strip_prefix("transit/")?.split_once('/')?;
        let verb = match verb {
            "*" => None,
            _ => Some(Verb::ALL.into_iter().find(|known| known.name() == verb)?),
        };
        let (name, begins) = name.strip_suffix('*').map_or((name, false), |name| (name, true));
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let good = name.bytes().all(is_name) && (begins || !name.is_empty());
        good.then(|| KeyScope { verb, name: name.into(), begins })
    }

    fn is_for(&self, verb: Verb) -> bool {
        self.verb.is_none_or(|known| known == verb)
    }

    fn covers(&self, name: &str) -> bool {
        if self.begins { name.starts_with(&*self.name) } else { *name == *self.name }
    }
}

impl fmt::Display for KeyScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, KeyScope { verb, name, begins }) in self.0.iter().enumerate() {
            let (comma, star) = (if at > 0 { "," } else { "" }, if *begins { "*" } else { "" });
            write!(f, "{comma}transit/{}/{name}{star}", verb.map_or("*", Verb::name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_allows_its_verb_with_its_names() {
        let text = "transit/encrypt/shop-*,transit/decrypt/one,transit/random/*";
        let scopes = KeyScopes::parse(text).unwrap();
        assert_eq!(scopes.to_string(), text);
        let allowed = [
            (Verb::Encrypt, "shop-", true),
            (Verb::Encrypt, "shop-a", true),
            (Verb::Encrypt, "sho", false),
            (Verb::Decrypt, "shop-a", false),
            (Verb::Decrypt, "one", true),
            (Verb::Decrypt, "one2", false),
            (Verb::Random, "", true),
            (Verb::Hash, "", false),
            (Verb::Admin, "shop-a", false),
        ];
        for (verb, name, expected) in allowed {
            assert_eq!(scopes.allows(verb, name), expected, "{verb:?} {name}");
        }
        assert!(scopes.allows_some(Verb::Decrypt) && !scopes.allows_some(Verb::Read));
        let all = KeyScopes::parse("transit/*/*").unwrap();
        assert!(Verb::ALL.into_iter().all(|verb| all.allows(verb, "a")) && all.is_limited());
        assert!(KeyScopes::default().allows(Verb::Export, "a"));
    }

    #[test]
    fn what_cannot_be_read_is_named_by_its_place() {
        let bad = ["transit", "transit/", "transit/encrypt", "transit/encrypt/", "transit/sign/a"];
        let more = ["kv/encrypt/a", "transit/encrypt/a/b", "transit/encrypt/*a", "", "*"];
        for text in bad.iter().chain(&more) {
            let text = format!("transit/read/a,{text}");
            assert_eq!(KeyScopes::parse(&text), Err(BadKeyScope { place: 2 }), "{text}");
        }
        let error = KeyScopes::parse("s.secrettoken").unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }
}
