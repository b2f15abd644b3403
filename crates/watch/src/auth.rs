//! Who may do what at this door: the principal behind a request.

use std::sync::Arc;

use access::{LiveTokens, Principal, Role};
use axum::http::{HeaderMap, header};
use serde::Serialize;
use utoipa::ToSchema;

/// Begins the WebSocket subprotocol that carries a token: a browser can set no header there.
const SUBPROTOCOL: &str = "bearer.";

/// The roles that mean something to this door; in a token file they have the same names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = Role)]
pub enum AdminRole {
    /// Everything that changes nothing.
    Read,
    /// Everything.
    Operate,
}

impl AdminRole {
    /// As token files have them.
    pub const ROLES: [Role; 2] = [Role::Read, Role::Operate];

    /// What a role of a token file means here; `None`: nothing.
    #[must_use]
    pub fn of(role: Role) -> Option<AdminRole> {
        match role {
            Role::Read => Some(AdminRole::Read),
            Role::Operate => Some(AdminRole::Operate),
            Role::Spend | Role::Keys => None,
        }
    }
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Who {
    /// The name of the principal; `local` where there are no tokens.
    pub name: Arc<str>,
    /// What it may do here.
    pub role: AdminRole,
    /// Whose token it showed, and where it is looked up again.
    shown: Option<(Arc<Principal>, LiveTokens)>,
}

impl Who {
    /// Everybody, on a door without tokens.
    #[must_use]
    pub fn local() -> Who {
        Who { name: "local".into(), role: AdminRole::Operate, shown: None }
    }

    /// Reports whether a token was shown; without tokens everybody is the same.
    #[must_use]
    pub fn has_token(&self) -> bool {
        self.shown.is_some()
    }

    /// Whoever asks for a page without figures.
    pub(crate) fn anybody() -> Who {
        Who { name: "".into(), role: AdminRole::Read, shown: None }
    }

    pub(crate) fn principal(found: &Arc<Principal>, role: AdminRole, tokens: &LiveTokens) -> Who {
        let shown = Some((Arc::clone(found), tokens.clone()));
        Who { name: Arc::clone(found.name()), role, shown }
    }

    /// Would it be let in again, after the token file may have been replaced?
    #[must_use]
    pub fn is_in_force(&self) -> bool {
        self.shown.as_ref().is_none_or(|(principal, tokens)| {
            let found = tokens.file().find_again(principal).cloned();
            found.is_some_and(|found| AdminRole::of(found.role()).is_some())
        })
    }
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

    #[test]
    fn tokens_come_in_a_header_or_a_subprotocol() {
        let with = |name: &'static str, value: &'static str| {
            HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())])
        };
        assert_eq!(token_of(&with("authorization", "Bearer abc")), Some("abc"));
        assert_eq!(token_of(&with("authorization", "bearer abc")), Some("abc"));
        assert_eq!(token_of(&with("authorization", "Basic abc")), None);
        assert_eq!(
            token_of(&with("sec-websocket-protocol", "weir.live.2, bearer.abc")),
            Some("abc")
        );
        assert_eq!(token_of(&HeaderMap::new()), None);
    }
}
