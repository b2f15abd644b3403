//! The name of a cluster, and what is called after it.

use std::fmt;
use std::str::FromStr;

/// Letters of a name.
const NAME_MAX: usize = 32;

/// A cluster's name: its stream and its subject are called after it, and entries are bound to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterName(String);

/// A name that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the cluster name `{0}` is not possible: use 1 to {NAME_MAX} letters, digits, `-` and `_`, as in `weir`"
)]
pub struct NameError(String);

impl FromStr for ClusterName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<ClusterName, NameError> {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        match (1..=NAME_MAX).contains(&name.len()) && name.bytes().all(is_letter) {
            true => Ok(ClusterName(name.to_string())),
            false => Err(NameError(name.chars().take(2 * NAME_MAX).collect())),
        }
    }
}

impl fmt::Display for ClusterName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ClusterName {
    /// Returns the name of the stream.
    pub fn stream(&self) -> String {
        format!("WEIR_{}", self.0)
    }

    /// Returns the name of the stream that keeps what lies beside the log.
    pub fn store(&self) -> String {
        format!("WEIR_{}_base", self.0)
    }

    /// Returns the subject of one of its pieces.
    pub fn piece(&self, name: &str) -> String {
        format!("weir.{}.base.{name}", self.0)
    }

    /// Returns the only subject of the stream.
    pub fn subject(&self) -> String {
        format!("weir.{}.log", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_makes_a_stream_and_a_subject() {
        let name: ClusterName = "eu_1-b".parse().unwrap();
        assert_eq!(
            (name.stream(), name.subject()),
            ("WEIR_eu_1-b".into(), "weir.eu_1-b.log".into())
        );
        let long = "a".repeat(NAME_MAX + 1);
        for bad in ["", "a.b", "a b", "a*", ">", "ä", "a/b", long.as_str()] {
            let error = bad.parse::<ClusterName>().unwrap_err().to_string();
            assert!(error.contains(bad) && error.contains("letters, digits"), "{error}");
        }
    }
}
