//! The pages that may use a door from a browser.

use crate::host::without_port;

/// The pages that may change anything through a door, or open a stream: its own, and those that are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OriginGuard {
    /// `http` or `https`: what the door itself speaks.
    scheme: &'static str,
    listed: Vec<String>,
}

/// An origin that no browser sends.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("found {found:?}, expected an origin such as \"https://ops.example\"")]
pub struct BadOrigin {
    /// The value that was found.
    pub found: String,
}

impl OriginGuard {
    /// A door that speaks HTTPS or HTTP, and the origins of other pages that may use it, as a browser writes them:
    /// `https://ops.example`.
    ///
    /// # Errors
    /// The first that is no origin.
    pub fn new(speaks_tls: bool, listed: Vec<String>) -> Result<OriginGuard, BadOrigin> {
        let is_origin = |origin: &&String| {
            let host = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
            let wrong = ['/', '?', '#', '@', '*', ' '];
            host.is_some_and(|host| !host.is_empty() && !host.contains(wrong))
        };
        if let Some(wrong) = listed.iter().find(|origin| !is_origin(origin)) {
            return Err(BadOrigin { found: wrong.clone() });
        }
        let scheme = if speaks_tls { "https" } else { "http" };
        Ok(OriginGuard { scheme, listed })
    }

    /// May the page of this `Origin` use the door that it called by this `Host`? A request without `Origin` is not that of
    /// another page.
    #[must_use]
    pub fn allows(&self, host: Option<&str>, origin: Option<&[u8]>) -> bool {
        let Some(origin) = origin else { return true };
        let is_own = host.is_some_and(|host| {
            let rest = origin.strip_prefix(self.scheme.as_bytes());
            rest.and_then(|rest| rest.strip_prefix(b"://")) == Some(host.as_bytes())
        });
        is_own || self.listed.iter().any(|listed| listed.as_bytes() == origin)
    }

    /// The names in the listed origins: a door may be called by them, as where a proxy stands before it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.listed.iter().filter_map(|origin| {
            let name = without_port(origin.split_once("://")?.1.as_bytes())?;
            std::str::from_utf8(name).ok().filter(|name| crate::host::is_name(name.as_bytes()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_strangers_are_told_apart() {
        let listed = vec!["https://ops.example".to_string(), "http://a.example:8080".to_string()];
        let guard = OriginGuard::new(false, listed).unwrap();
        let host = Some("127.0.0.1:7780");
        for origin in ["http://127.0.0.1:7780", "https://ops.example", "http://a.example:8080"] {
            assert!(guard.allows(host, Some(origin.as_bytes())), "{origin}");
        }
        for origin in [
            "",
            "null",
            "http://",
            "http://evil.example",
            "https://127.0.0.1:7780",
            "http://127.0.0.1:7781",
            "http://127.0.0.1:7780.evil.example",
            "https://ops.example.evil.example",
            "https://OPS.example:443",
        ] {
            assert!(!guard.allows(host, Some(origin.as_bytes())), "{origin}");
            assert!(!guard.allows(None, Some(origin.as_bytes())), "{origin}");
        }
        assert!(!guard.allows(Some(""), Some(b"\xff")) && guard.allows(host, None));
        assert_eq!(guard.names().collect::<Vec<_>>(), ["ops.example", "a.example"]);
        let own = OriginGuard::new(true, Vec::new()).unwrap();
        assert!(
            own.allows(Some("a"), Some(b"https://a")) && !own.allows(Some("a"), Some(b"http://a"))
        );
    }

    #[test]
    fn what_no_browser_sends_is_refused() {
        for wrong in
            ["", "ops.example", "https://", "https://a/", "https://*.a", "https://u@a", "ftp://a"]
        {
            let guard = OriginGuard::new(true, vec![wrong.to_string()]);
            assert_eq!(guard, Err(BadOrigin { found: wrong.into() }));
        }
    }
}
