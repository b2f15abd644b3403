//! What the gate shows a venue in its Logon.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use fix_session::Credentials;

use weir_config::paths;

/// Bytes of a file with a password.
const PASSWORD_BYTES_MAX: u64 = 4 << 10;
/// What is shown to a venue is a field of a message.
const EXPECTED: &str =
    "expected printable characters without a control character, as a field of FIX has them";

/// Returns what a venue is shown, and what is wrong with it: of which key, and why. The password is in no text.
pub(crate) fn read(
    username: &str,
    password_file: &str,
) -> (Credentials, Vec<(&'static str, String)>) {
    let mut faults = Vec::new();
    if username.chars().any(char::is_control) {
        faults.push(("username", format!("found {username:?}, {EXPECTED}")));
    }
    let password = match password_file {
        "" => Ok(String::new()),
        path => password(path.as_ref()),
    };
    let password = password.unwrap_or_else(|why| {
        faults.push(("password_file", why));
        String::new()
    });
    (Credentials { username: username.to_owned(), password }, faults)
}

fn password(path: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| paths::told(path, &error).to_string();
    let file = access::file::open_regular(path).map_err(told)?;
    let mode = file.metadata().map_err(told)?.permissions().mode();
    let place = path.display();
    if mode & 0o077 != 0 {
        return Err(format!(
            "{place}: its mode is {:o}, expected 600 or 400: others must not read it; chmod 600",
            mode & 0o777
        ));
    }
    let mut text = String::new();
    file.take(PASSWORD_BYTES_MAX + 1).read_to_string(&mut text).map_err(told)?;
    let is_long = text.len() as u64 > PASSWORD_BYTES_MAX;
    match text.strip_suffix('\n').unwrap_or(&text) {
        "" => Err(format!("{place}: it is empty, expected the password on one line")),
        password if is_long || password.chars().any(char::is_control) => {
            Err(format!("{place}: {EXPECTED}, on one line of at most 4 KiB"))
        }
        password => Ok(password.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};

    use super::*;

    #[test]
    fn a_password_is_one_line_of_a_file_that_is_its_owners_and_in_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        let judge = |text: &str, mode: u32| {
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read("desk", path.to_str().unwrap())
        };
        for text in ["s3cret pass", "s3cret pass\n"] {
            let (shown, faults) = judge(text, 0o600);
            assert_eq!((shown.password.as_str(), faults), ("s3cret pass", vec![]));
            assert!(!format!("{shown:?}").contains("s3cret"));
        }
        let long = "s3cret".repeat(1_000);
        for (text, mode, why) in [
            ("s3cret", 0o640, "its mode is 640, expected 600 or 400"),
            ("", 0o600, "it is empty"),
            ("s3cret\nmore", 0o600, "on one line"),
            ("s3cret\u{1}58=x", 0o600, "without a control character"),
            (&long, 0o600, "at most 4 KiB"),
        ] {
            let (shown, faults) = judge(text, mode);
            let [(key, told)] = &faults[..] else { panic!("{faults:?}") };
            assert!(*key == "password_file" && told.contains(why), "{told}");
            assert!(shown.password.is_empty() && !told.contains("s3cret"), "{told}");
        }
        let (_, faults) = read("a\u{1}b", "nowhere/password");
        let keys: Vec<&str> = faults.iter().map(|fault| fault.0).collect();
        assert_eq!(keys, ["username", "password_file"]);
    }
}
