//! Who is at the other end of a connection.

use std::sync::Arc;

use access::{Denied, Principal, Role};

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

/// Says to a client why it is not let in.
pub(crate) fn told(why: Denied) -> String {
    match why {
        Denied::Unknown => {
            "the auth token in Hello is not one that this door knows; see batch.auth_token and batch.tokens_file".into()
        }
        Denied::Role(role) => {
            format!("the auth token in Hello has the role {role}; this door knows {}", Role::Spend)
        }
    }
}
