//! Who is at the other end of a connection.

use std::fmt;
use std::sync::Arc;

use access::{Principal, Role};

/// Who sends asks over a connection.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The number that it gave itself in Hello.
    pub id: u64,
    /// Whose token it showed; `None` where the door has one key for all, or none.
    pub principal: Option<Arc<Principal>>,
}

impl Client {
    /// May it name some budgets only?
    #[inline]
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.principal.as_ref().is_some_and(|principal| principal.scopes().is_limited())
    }

    /// Its principal, where that may name some budgets only.
    #[inline]
    #[must_use]
    pub fn limited(&self) -> Option<Arc<Principal>> {
        self.principal.as_ref().filter(|principal| principal.scopes().is_limited()).cloned()
    }
}

/// Why nobody is let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// Nobody has this token, or nobody has it any more.
    Unknown,
    /// Its role means nothing to this door.
    Role(Role),
}

impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Unknown => f.write_str(
                "the auth token in Hello is not one that this door knows; see batch.auth_token and batch.tokens_file",
            ),
            Denied::Role(role) => {
                write!(f, "the auth token in Hello has the role {role}; this door knows {}", Role::Spend)
            }
        }
    }
}
