//! What the door stands on, found at the start: the key that unseals, the keys, the token that the node makes for itself.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use access::{AccessToken, LiveTokens, TokenFile};
use vault::{KeyEncryptionKey, KeyStore, SecretKey};
use vault_store::{KeyFile, Options};
use weir_config::config::Config;
use weir_config::private;
use zeroize::Zeroizing;

/// Bytes of the file of the KEK at most: 64 digits and the end of a line.
const KEK_FILE_BYTES_MAX: usize = 66;
const KEK_DIGITS: usize = 64;
const TOKEN_FILE: &str = "vault-token";
/// What the token of the node's own making is called in the audit.
const TOKEN_NAME: &str = "vault-token";
const ID_FILE: &str = "vault/id";
const OWN_FILE_BYTES_MAX: u64 = 1 << 10;

/// Opens the keys and unseals them; `None` where no key that unseals is to be had: the door is sealed.
///
/// # Errors
/// What is wrong with which file, and what to do; nothing was written where it is the wrong key.
pub(super) fn store(config: &Config) -> Result<Option<KeyStore<KeyFile>>, String> {
    let path = &config.vault.key_file;
    if path.is_empty() {
        return Ok(None);
    }
    let told = |text: String| format!("vault.key_file {path}: {text}");
    let Some(kek) = kek(Path::new(path)).map_err(told)? else {
        tracing::warn!(
            path,
            "vault.key_file: there is no such file, so that the keys stay sealed; put it there and restart the node"
        );
        return Ok(None);
    };
    // From here on there are secrets in memory.
    vault::protect_process().map_err(|error| {
        told(format!("the system does not keep the process's memory out of core dumps: {error}"))
    })?;
    let folder = config.node.data_dir.join("vault");
    let options = Options { keys_max: config.keys.keys_max, ..Options::default() };
    let (file, keys) = KeyFile::open(&folder, options).map_err(|error| error.to_string())?;
    let mut store = KeyStore::new(keys, file).map_err(|error| error.to_string())?;
    store.unseal(kek).map_err(|error| told(format!("{error} ({})", folder.display())))?;
    Ok(Some(store))
}

/// Reads the KEK; `None`: there is no such file.
fn kek(path: &Path) -> Result<Option<KeyEncryptionKey>, String> {
    let mut file = match access::file::open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| error.to_string())?,
    };
    check_mode(&file)?;
    let mut bytes = Zeroizing::new([0; KEK_FILE_BYTES_MAX + 1]);
    let mut count = 0;
    while let Some(room) = bytes.get_mut(count..).filter(|room| !room.is_empty()) {
        match file.read(room).map_err(|error| error.to_string())? {
            0 => break,
            more => count += more,
        }
    }
    let expected =
        || "expected 64 hexadecimal digits, or exactly 32 bytes, and nothing else".to_owned();
    let secret = secret(bytes.get(..count).unwrap_or_default()).ok_or_else(expected)?;
    Ok(Some(KeyEncryptionKey::new(&secret)))
}

fn secret(bytes: &[u8]) -> Option<SecretKey> {
    if let Ok(bytes) = bytes.try_into() {
        return Some(SecretKey::from_bytes(bytes));
    }
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let digits = line.strip_suffix(b"\r").unwrap_or(line);
    if digits.len() != KEK_DIGITS {
        return None;
    }
    let mut key = Zeroizing::new([0; vault::KEY_BYTES]);
    for (byte, pair) in key.iter_mut().zip(digits.chunks(2)) {
        *byte = pair.iter().try_fold(0, |byte, digit| {
            let value = char::from(*digit).to_digit(16)?;
            u8::try_from(value).ok().map(|value| byte << 4 | value)
        })?;
    }
    Some(SecretKey::from_bytes(&key))
}

/// A secret is its owner's alone.
fn check_mode(file: &File) -> Result<(), String> {
    let mode = file.metadata().map_err(|error| error.to_string())?.mode() & 0o7777;
    if matches!(mode, 0o400 | 0o600) {
        return Ok(());
    }
    Err(format!("its mode is {mode:o}, expected 600 or 400: others must not read it; chmod 600"))
}

/// Who may enter: those of the tokens file, or who has the token of the node's own making.
///
/// # Errors
/// Why that token cannot be made or read.
pub(super) fn tokens(data: &Path, configured: Option<&LiveTokens>) -> Result<LiveTokens, String> {
    let path = data.join(TOKEN_FILE);
    if let Some(tokens) = configured {
        if path.exists() {
            tracing::info!(
                path = %path.display(),
                "the token in this file does not count, because keys.tokens_file is set; the file can be removed"
            );
        }
        return Ok(tokens.clone());
    }
    let random = || AccessToken::random().map(|token| token.text().to_owned());
    let text = own_file(&path, random)?;
    let told = |why: &str| {
        format!("{}: {why}; remove the file, and a start makes a new one", path.display())
    };
    let token =
        AccessToken::parse(text.trim()).ok_or_else(|| told("expected one line, a token"))?;
    if token.is_broken() {
        return Err(told("the token was cut or mistyped: its checksum does not hold"));
    }
    let line = Zeroizing::new(format!("{TOKEN_NAME} keys {}", token.text()));
    let file = TokenFile::parse(&line).map_err(|_| told("expected one line, a token"))?;
    Ok(LiveTokens::new(file))
}

/// The UUID by which clients know this node over restarts.
///
/// # Errors
/// Why it cannot be made or read.
pub(super) fn cluster_id(data: &Path) -> Result<String, String> {
    private::make_folder(&data.join("vault"))
        .map_err(|error| format!("{}: {error}", data.join("vault").display()))?;
    let made = || {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(uuid(bytes))
    };
    let text = own_file(&data.join(ID_FILE), made)?;
    Ok(text.trim().chars().filter(|c| c.is_ascii_hexdigit() || *c == '-').take(36).collect())
}

/// A random UUID (RFC 9562, version 4).
fn uuid(bytes: [u8; 16]) -> String {
    let bits = u128::from_be_bytes(bytes) & !(0xf << 76 | 3 << 62) | 4 << 76 | 2 << 62;
    let hex = format!("{bits:032x}");
    let parts = [(0, 8), (8, 12), (12, 16), (16, 20), (20, 32)];
    parts.map(|(from, to)| hex.get(from..to).unwrap_or_default()).join("-")
}

/// Reads a file of the node's own, or makes it: whole, or not at all.
fn own_file(
    path: &Path,
    make: impl FnOnce() -> std::io::Result<String>,
) -> Result<Zeroizing<String>, String> {
    let told = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    match access::file::open_regular(path) {
        Ok(file) => {
            check_mode(&file).map_err(|error| told(&error))?;
            let mut text = Zeroizing::new(String::new());
            let read = file.take(OWN_FILE_BYTES_MAX).read_to_string(&mut text);
            read.map_err(|error| told(&error))?;
            Ok(text)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let text = Zeroizing::new(make().map_err(|error| told(&error))?);
            write_whole(path, &text).map_err(|error| told(&error))?;
            Ok(text)
        }
        Err(error) => Err(told(&error)),
    }
}

fn write_whole(path: &Path, line: &str) -> std::io::Result<()> {
    let new = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(line.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(folder: &Path, bytes: &[u8], mode: u32) -> std::path::PathBuf {
        let path = folder.join("kek");
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_key_file_has_digits_or_bytes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let read = |bytes: &[u8], mode| kek(&file(folder.path(), bytes, mode));
        let digits = "5a".repeat(32);
        let prints: Vec<_> = [
            digits.clone(),
            digits.to_uppercase(),
            format!("{digits}\n"),
            format!("{digits}\r\n"),
            "Z".repeat(32),
        ]
        .iter()
        .map(|text| read(text.as_bytes(), 0o600).unwrap().unwrap().fingerprint())
        .collect();
        assert!(prints.iter().all(|print| *print == prints[0]), "0x5a is Z");
        for wrong in [
            "",
            "5a",
            &digits[1..],
            &format!("{digits}0"),
            &format!("{digits}\n\n"),
            &"g".repeat(64),
        ] {
            let error = read(wrong.as_bytes(), 0o400).unwrap_err();
            assert!(error.contains("expected 64 hexadecimal digits"), "{error}");
            assert!(wrong.is_empty() || !error.contains(wrong), "{error}");
        }
        for mode in [0o644, 0o640, 0o660, 0o700, 0o604] {
            let error = read(digits.as_bytes(), mode).unwrap_err();
            assert!(error.contains("chmod 600"), "{error}");
        }
        assert!(kek(&folder.path().join("none")).unwrap().is_none());
        assert!(kek(folder.path()).unwrap_err().contains("expected a regular file"));
    }

    #[test]
    fn another_key_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.node.data_dir = folder.path().join("data");
        config.vault.key_file =
            file(folder.path(), "5a".repeat(32).as_bytes(), 0o600).display().to_string();
        private::make_folder(&config.node.data_dir).unwrap();
        assert!(!store(&config).unwrap().unwrap().keys().is_sealed());
        let keys = config.node.data_dir.join("vault/keys");
        let before = std::fs::read(&keys).unwrap();
        file(folder.path(), "5b".repeat(32).as_bytes(), 0o600);
        let error = store(&config).map(|_| ()).unwrap_err();
        assert!(
            error.starts_with("vault.key_file ") && error.contains("nothing was written"),
            "{error}"
        );
        assert_eq!(std::fs::read(&keys).unwrap(), before);
        std::fs::remove_file(&config.vault.key_file).unwrap();
        assert!(store(&config).unwrap().is_none(), "without the file the keys stay sealed");
    }

    #[test]
    fn a_token_is_made_once_and_a_bad_one_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let made = tokens(folder.path(), None).unwrap();
        let path = folder.path().join(TOKEN_FILE);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!((text.lines().count(), path.metadata().unwrap().mode() & 0o777), (1, 0o600));
        let again = tokens(folder.path(), None).unwrap();
        for tokens in [made, again] {
            let file = tokens.file();
            let principal = file.find(text.trim().as_bytes()).unwrap();
            assert_eq!(principal.role(), access::Role::Keys);
            assert!(!principal.scopes().is_limited());
        }
        for wrong in ["", "short\n", &text[..text.len() - 3]] {
            std::fs::write(&path, wrong).unwrap();
            let error = tokens(folder.path(), None).unwrap_err();
            assert!(error.contains("remove the file") && !error.contains(text.trim()), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(tokens(folder.path(), None).unwrap_err().contains("chmod 600"));
        let configured = LiveTokens::new(TokenFile::parse("a keys aaaaaaaaaaaaaaaa").unwrap());
        let file = tokens(folder.path(), Some(&configured)).unwrap().file();
        assert!(file.find(b"aaaaaaaaaaaaaaaa").is_some());
        assert!(
            file.find(text.trim().as_bytes()).is_none(),
            "the one of its own making does not count"
        );
    }

    #[test]
    fn the_id_stays_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let id = cluster_id(folder.path()).unwrap();
        assert_eq!((id.len(), &id[14..15]), (36, "4"));
        assert_eq!(cluster_id(folder.path()).unwrap(), id);
    }
}
