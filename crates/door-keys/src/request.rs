//! What is asked, and by whom.

use crate::scope::KeyScopes;

/// The methods that the door tells apart. `PUT` and `POST` are the same operation; `HEAD` is `GET` without a body, which is for HTTP to
/// leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET` and `HEAD`.
    Get,
    /// `LIST`, and `GET` with `list=true`.
    List,
    /// `POST` and `PUT`.
    Post,
    /// `DELETE`.
    Delete,
    /// `PATCH`.
    Patch,
}

impl Method {
    /// Returns the method of a name, in capitals as HTTP has it.
    pub fn parse(name: &str) -> Option<Method> {
        match name {
            "GET" | "HEAD" => Some(Method::Get),
            "LIST" => Some(Method::List),
            "POST" | "PUT" => Some(Method::Post),
            "DELETE" => Some(Method::Delete),
            "PATCH" => Some(Method::Patch),
            _ => None,
        }
    }
}

/// One whole request.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The path, beginning with `/`, as sent.
    pub path: &'a str,
    /// What follows the first `?`, as sent; empty when there is none.
    pub query: &'a str,
    /// The value of `X-Vault-Namespace`.
    pub namespace: Option<&'a [u8]>,
    /// The value of `X-Vault-Wrap-TTL`.
    pub wrap_ttl: Option<&'a [u8]>,
    /// The token that was shown, for [`lookup-self`](crate::Door): see [`token_of`].
    pub token: Option<&'a [u8]>,
    /// The body, whole, out of its chunks, inflated.
    pub body: &'a [u8],
    /// Seconds since 1970.
    pub now_s: u64,
}

/// Who asks: the principal of the token that was shown.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    /// The principal's name.
    pub name: &'a str,
    /// What it may do with which keys.
    pub scopes: &'a KeyScopes,
}

/// Returns the token that a request shows: of `X-Vault-Token`, else of `Authorization: Bearer`. Two that differ are none.
pub fn token_of<'a>(
    vault_token: Option<&'a [u8]>,
    authorization: Option<&'a [u8]>,
) -> Option<&'a [u8]> {
    let bearer = authorization.and_then(|value| {
        let (scheme, token) = value.split_at_checked(b"Bearer ".len())?;
        scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
    });
    let own = vault_token.map(<[u8]>::trim_ascii).filter(|token| !token.is_empty());
    match (own, bearer) {
        (Some(own), Some(bearer)) if own != bearer => None,
        (own, bearer) => own.or(bearer),
    }
}

/// Returns the value of a name in a query, as sent.
pub(crate) fn query_value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| {
        let (found, value) = pair.split_once('=').unwrap_or((pair, ""));
        (found == name).then_some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stands_in_one_of_two_headers() {
        let token = |own: &'static str, bearer: &'static str| {
            let header = |text: &'static str| (!text.is_empty()).then_some(text.as_bytes());
            token_of(header(own), header(bearer)).map(|token| str::from_utf8(token).unwrap())
        };
        assert_eq!(token("t1", ""), Some("t1"));
        assert_eq!(token("", "Bearer t1"), Some("t1"));
        assert_eq!(token("", "bearer  t1 "), Some("t1"));
        assert_eq!(token("t1", "Bearer t1"), Some("t1"));
        assert_eq!(token("t1", "Bearer t2"), None, "two readers would see two callers");
        assert_eq!(token("", "Basic t1"), None);
        assert_eq!(token(" ", ""), None);
        assert_eq!(query_value("list=true&limit=5&x", "limit"), Some("5"));
        assert_eq!(query_value("list=true&limit=5&x", "x"), Some(""));
        assert_eq!(query_value("list=true", "after"), None);
    }
}
