//! Paths of the configuration: a relative one is looked for in the working directory of the process, wherever the file stands that names it.

use std::io::{self, ErrorKind};
use std::path::Path;

/// Says what is wrong with a file that a key names; of a relative path that leads nowhere also where it was looked for.
#[must_use]
pub fn told(path: &Path, error: &io::Error) -> String {
    let text = format!("{}: {error}", path.display());
    let working = std::env::current_dir().ok().filter(|_| path.is_relative());
    match working.filter(|_| error.kind() == ErrorKind::NotFound) {
        Some(working) => format!(
            "{text}; it was looked for in {}: paths are relative to the working directory, not to weir.toml",
            working.display()
        ),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_that_leads_nowhere_is_told_with_where_it_was_looked_for() {
        let gone = || io::Error::from(ErrorKind::NotFound);
        let working = std::env::current_dir().unwrap();
        let text = told("keys/tokens".as_ref(), &gone());
        assert!(text.contains(&format!("looked for in {}:", working.display())), "{text}");
        assert!(!told("/keys/tokens".as_ref(), &gone()).contains("looked for"));
        let denied = io::Error::from(ErrorKind::PermissionDenied);
        assert!(!told("keys/tokens".as_ref(), &denied).contains("looked for"));
    }
}
