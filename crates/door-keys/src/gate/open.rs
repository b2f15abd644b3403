//! What the door stands on, found at the start: the key that unseals, the keys, the token that the node makes for itself.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use access::{AccessToken, LiveTokens, TokenFile};
use vault::{KeyEncryptionKey, KeyStore, KeyStoreError};
use vault_store::{
    Carrier, KekSource, KeyFile, Options, PassphraseError, TravellingFile, check_owner_only,
    kek_of_passphrase, passphrase_hint,
};
use weir_config::config::Config;
use weir_config::private;
use zeroize::Zeroizing;

use super::again::Again;
use super::transit::{Brought, NotBrought, Transit};
use crate::{NotUnsealed, UnsealKey, Unsealing};

/// What is said where the first key has to be meant as such.
const NONE_YET: &str = "this data folder has no key that wraps its keys yet: with first (weir vault unseal --first) this one becomes it, for good";
const TOKEN_FILE: &str = "vault-token";
/// What the token of the node's own making is called in the audit.
const TOKEN_NAME: &str = "vault-token";
const ID_FILE: &str = "vault/id";
/// Stands behind the folder's name in the name of the file that says that it has had keys.
const BEGUN: &str = "-begun";
const OWN_FILE_BYTES_MAX: u64 = 1 << 10;

/// Where the keys are: for the start, and for a key that comes later.
#[derive(Clone, Debug)]
pub(super) struct KeysPlace {
    folder: PathBuf,
    options: Options,
    /// Who keeps the key of these keys, where another Transit does.
    transit: Option<Transit>,
    /// Where changes are sent before they are here; `None`: there is no log on other machines.
    carrier: Option<Carrier>,
}

/// What a start finds.
#[derive(Default)]
pub(super) struct Opened {
    /// The unsealed keys; `None` where no key that unseals is to be had: the door is sealed.
    pub(super) store: Option<KeyStore<TravellingFile>>,
    /// Who is asked for that key beside the node.
    pub(super) again: Option<Again>,
}

impl Opened {
    fn unsealed(store: KeyStore<TravellingFile>) -> Opened {
        Opened { store: Some(store), again: None }
    }
}

/// Opens the keys and unseals them, where the key that unseals is to be had.
///
/// # Errors
/// What is wrong with which file, and what to do; nothing was written where it is the wrong key.
pub(super) fn store(config: &Config, place: &KeysPlace) -> Result<Opened, String> {
    place.check_kept(true)?;
    let vault = &config.vault;
    let source = KekSource::of_config(&vault.key_file, &vault.key_env, &vault.key_program);
    let source = source.map_err(|error| error.to_string())?;
    if let Some(transit) = &place.transit {
        if let Some(source) = source {
            return Err(format!("{source} and {transit}: both are set, expected one at most"));
        }
        return by_transit(transit, place);
    }
    let Some(source) = source else {
        if place.folder.join("keys").exists() {
            tracing::warn!(
                "there are keys in {}, and nothing that unseals them is set (vault.key_file and others): they stay sealed until weir vault unseal",
                place.folder.display()
            );
        } else {
            tracing::info!(
                "the keys door is sealed: there are no keys yet, and nothing that unseals them is set; to use it, set vault.key_file (docs/vault.md) or run weir vault unseal --first"
            );
        }
        return Ok(Opened::default());
    };
    let Some(kek) = source.read().map_err(|error| error.to_string())? else {
        tracing::warn!(
            "{}; the keys stay sealed: restart the node when it is there, or use weir vault unseal",
            source.absence()
        );
        return Ok(Opened::default());
    };
    // From here on there are secrets in memory.
    vault::protect_process().map_err(|error| {
        format!(
            "{source}: the system does not keep the process's memory out of core dumps: {error}"
        )
    })?;
    let mut store = place.open()?;
    let hint = passphrase_hint(&place.folder);
    let told = |error| format!("{source}: {error} ({}){hint}", place.folder.display());
    store.unseal(kek).map_err(told)?;
    place.note_begun()?;
    Ok(Opened::unsealed(store))
}

/// Opens the keys and unseals them with what another Transit keeps. Where it does not bring the key soon, it is asked beside the node.
fn by_transit(transit: &Transit, place: &KeysPlace) -> Result<Opened, String> {
    place.check_begun_by(transit)?;
    let mut again = Again::new(transit.clone());
    match again.start() {
        Some(Ok(brought)) => return place.unseal_by(transit, brought).map(Opened::unsealed),
        Some(Err(NotBrought::Wrong(why))) => return Err(format!("{transit}: {why}")),
        Some(Err(NotBrought::Now(why))) => again.failed(&why),
        None => {}
    }
    Ok(Opened { store: None, again: Some(again) })
}

impl KeysPlace {
    pub(super) fn of(config: &Config, carrier: Option<Carrier>) -> KeysPlace {
        let options = Options { keys_max: config.keys.keys_max, ..Options::default() };
        let folder = config.node.data_dir.join("vault");
        KeysPlace { folder, options, transit: Transit::of_config(config), carrier }
    }

    /// Opens the keys, sealed. Keys that were there before have to be there.
    fn open(&self) -> Result<KeyStore<TravellingFile>, String> {
        let (file, keys) =
            KeyFile::open(&self.folder, self.options).map_err(|error| error.to_string())?;
        self.check_kept(keys.is_begun())?;
        let file = TravellingFile::new(&self.folder, file, self.carrier.clone());
        let file = file.map_err(|error| error.to_string())?;
        KeyStore::new(keys, file).map_err(|error| error.to_string())
    }

    /// Refuses keys that were begun with a key from elsewhere: the other Transit has never seen that one.
    fn check_begun_by(&self, transit: &Transit) -> Result<(), String> {
        let wrapped = transit.wrapped();
        if wrapped.exists() || !self.folder.join("keys").exists() || !self.open()?.keys().is_begun()
        {
            return Ok(());
        }
        Err(format!(
            "{transit}: the keys in {} are wrapped under a key that is not in {}: restore that file from a copy, or have the other Transit encrypt this key and keep the ciphertext there (docs/vault.md)",
            self.folder.display(),
            wrapped.display()
        ))
    }

    /// Opens the keys and unseals them with what another Transit brought. A new key is on disk, encrypted, before it wraps anything.
    ///
    /// # Errors
    /// What cannot be, and what to do; nothing of the keys was written where it is the wrong key.
    pub(super) fn unseal_by(
        &self,
        transit: &Transit,
        brought: Brought,
    ) -> Result<KeyStore<TravellingFile>, String> {
        self.check_kept(true)?;
        self.check_begun_by(transit)?;
        vault::protect_process().map_err(|error| {
            format!("{transit}: the system does not keep the process's memory out of core dumps: {error}")
        })?;
        let mut store = self.open()?;
        if let Some(sealed) = &brought.new {
            let wrapped = transit.wrapped();
            write_whole(wrapped, sealed)
                .map_err(|error| format!("{}: {error}", wrapped.display()))?;
        }
        let told = |error| format!("{transit}: {error} ({})", self.folder.display());
        store.unseal(brought.kek).map_err(told)?;
        self.note_begun()?;
        Ok(store)
    }

    /// The file beside the folder that says that there are keys in it.
    fn begun(&self) -> PathBuf {
        let mut name = self.folder.file_name().unwrap_or_default().to_owned();
        name.push(BEGUN);
        self.folder.with_file_name(name)
    }

    /// Refuses a folder whose keys are gone: an empty one in its place would get other keys of the same names, and what the old ones sealed
    /// would be lost without a word. `is_begun`: as far as the file of keys says.
    fn check_kept(&self, is_begun: bool) -> Result<(), String> {
        let (keys, begun) = (self.folder.join("keys"), self.begun());
        // What cannot be looked at may be there.
        if (is_begun && keys.exists()) || !begun.try_exists().unwrap_or(true) {
            return Ok(());
        }
        let (folder, begun) = (self.folder.display(), begun.display());
        Err(format!(
            "{}: the keys of this data folder are gone, and {begun} says that there were some: restore {folder} from a copy; or, to begin anew and never open what these keys sealed, remove {begun}",
            keys.display()
        ))
    }

    /// Notes, beside the folder, that there are keys in it.
    fn note_begun(&self) -> Result<(), String> {
        let path = self.begun();
        if path.exists() {
            return Ok(());
        }
        let line = format!("{} has keys: see docs/vault.md", self.folder.join("keys").display());
        write_whole(&path, &line).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Refuses a caller's key that would become the first one of this folder without being meant as such, or beside another Transit, which
    /// would never have seen it: the next start would be refused.
    fn check_first(&self, with: &Unsealing) -> Result<(), NotUnsealed> {
        match &self.transit {
            Some(transit) => Err(NotUnsealed::Refused(format!(
                "{transit}: the first key of this data folder comes from there, and none by hand becomes it. The node asks it by itself, and the log says what is in the way (after weir vault seal it asks from the next start on); to unseal by hand instead, take vault.transit_address out of the configuration and restart"
            ))),
            None if !with.first => Err(NotUnsealed::Refused(NONE_YET.into())),
            None => Ok(()),
        }
    }

    /// Opens the keys and unseals them with what a caller sent.
    ///
    /// # Errors
    /// [`NotUnsealed`]: nothing was written where it is the wrong key.
    pub(super) fn unseal(&self, with: Unsealing) -> Result<KeyStore<TravellingFile>, NotUnsealed> {
        self.check_kept(true).map_err(NotUnsealed::Refused)?;
        if !self.folder.join("keys").exists() {
            self.check_first(&with)?;
        }
        vault::protect_process().map_err(unavailable)?;
        let mut store = self.open().map_err(unavailable)?;
        let is_first = !store.keys().is_begun();
        if is_first {
            self.check_first(&with)?;
        }
        let kek = match &with.key {
            UnsealKey::Secret(secret) => KeyEncryptionKey::new(secret),
            UnsealKey::Passphrase(words) => {
                let made = kek_of_passphrase(&self.folder, words.as_bytes(), is_first);
                made.map_err(|why| match why {
                    PassphraseError::Disk(why) => unavailable(why),
                    why => NotUnsealed::Refused(why.to_string()),
                })?
            }
        };
        let hint = match &with.key {
            UnsealKey::Secret(_) => passphrase_hint(&self.folder),
            UnsealKey::Passphrase(_) => "",
        };
        store.unseal(kek).map_err(|why| match why {
            KeyStoreError::Unseal(why) => NotUnsealed::Refused(format!("{why}{hint}")),
            why => unavailable(why),
        })?;
        self.note_begun().map_err(unavailable)?;
        Ok(store)
    }
}

fn unavailable(why: impl std::fmt::Display) -> NotUnsealed {
    tracing::error!("the keys were not unsealed: {why}");
    NotUnsealed::Unavailable
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
            check_owner_only(&file).map_err(|wrong| match wrong {
                Ok(mode) => told(&format_args!(
                    "its mode is {mode:o}, expected 600 or 400: others must not read it; chmod 600"
                )),
                Err(error) => told(&error),
            })?;
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
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;

    fn file(folder: &Path, bytes: &[u8], mode: u32) -> std::path::PathBuf {
        let path = folder.join("kek");
        let _ = std::fs::remove_file(&path);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn place(folder: PathBuf) -> KeysPlace {
        KeysPlace { folder, options: Options::default(), transit: None, carrier: None }
    }

    fn kek(path: PathBuf) -> Result<Option<KeyEncryptionKey>, String> {
        KekSource::File(path).read().map_err(|error| error.to_string())
    }

    #[test]
    fn a_key_file_has_digits_or_bytes_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let read = |bytes: &[u8], mode| kek(file(folder.path(), bytes, mode));
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
        assert!(kek(folder.path().join("none")).unwrap().is_none());
        assert!(kek(folder.path().into()).unwrap_err().contains("expected a regular file"));
    }

    #[test]
    fn another_key_is_refused_and_nothing_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.node.data_dir = folder.path().join("data");
        config.vault.key_file =
            file(folder.path(), "5a".repeat(32).as_bytes(), 0o600).display().to_string();
        private::make_folder(&config.node.data_dir).unwrap();
        let store = |config: &Config| super::store(config, &KeysPlace::of(config, None));
        assert!(!store(&config).unwrap().store.unwrap().keys().is_sealed());
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
        assert!(store(&config).unwrap().store.is_none(), "without the file the keys stay sealed");
        config.vault.key_env = "KEK".into();
        let error = store(&config).map(|_| ()).unwrap_err();
        assert!(error.contains("2 of them are set, expected one at most"), "{error}");
    }

    /// Keys that are gone are not begun anew by themselves, whoever brings which key; what says so can be removed.
    #[test]
    fn keys_that_vanished_or_were_emptied_are_not_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let place = place(folder.path().join("vault"));
        let unseal = || {
            let key = UnsealKey::Secret(vault::SecretKey::from_bytes(&[1; 32]));
            place.unseal(Unsealing { key, first: true })
        };
        let (keys, begun) = (place.folder.join("keys"), folder.path().join("vault-begun"));
        let empty = {
            drop(place.open().unwrap());
            std::fs::read(&keys).unwrap()
        };
        assert!(!begun.exists(), "nothing wraps keys yet");
        drop(unseal().unwrap());
        assert!(begun.exists());
        let refused = || match unseal().map(|_| ()) {
            Err(NotUnsealed::Refused(why)) => assert!(why.contains("are gone"), "{why}"),
            Err(NotUnsealed::Unavailable) => {}
            other => panic!("{other:?}"),
        };
        let whole = std::fs::read(&keys).unwrap();
        std::fs::remove_file(&keys).unwrap();
        refused();
        assert!(!keys.exists(), "nothing was made in their place");
        std::fs::write(&keys, &empty).unwrap();
        refused();
        std::fs::remove_dir_all(&place.folder).unwrap();
        refused();
        let config = Config::default();
        assert!(super::store(&config, &place).map(|_| ()).unwrap_err().contains("are gone"));
        private::make_folder(&place.folder).unwrap();
        std::fs::write(&keys, &whole).unwrap();
        drop(unseal().unwrap());
        // A folder of before that has keys gets its file; without it, one may begin anew.
        std::fs::remove_file(&begun).unwrap();
        drop(unseal().unwrap());
        assert!(begun.exists());
        std::fs::remove_file(&begun).unwrap();
        std::fs::remove_file(&keys).unwrap();
        assert!(!unseal().unwrap().keys().is_sealed());
    }

    /// A key that comes later: the first one has to be meant as such, another one changes nothing, and a passphrase has its own salt.
    #[test]
    fn keys_are_unsealed_later_with_their_own_key_only() {
        let secret = |byte| UnsealKey::Secret(vault::SecretKey::from_bytes(&[byte; 32]));
        let words = || UnsealKey::Passphrase(Zeroizing::new("correct horse battery".into()));
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| place(folder.path().join(name));
        let unseal = |name: &str, key, first| place(name).unseal(Unsealing { key, first });
        let refused = |name: &str, key, first| match unseal(name, key, first).map(|_| ()) {
            Err(NotUnsealed::Refused(why)) => why,
            other => panic!("{other:?}"),
        };
        let names = |name: &str| {
            let found = std::fs::read_dir(folder.path().join(name)).into_iter().flatten();
            let mut names: Vec<_> = found.map(|entry| entry.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert!(refused("key", secret(1), false).contains("--first"));
        assert!(names("key").is_empty(), "nothing was written");
        assert!(!unseal("key", secret(1), true).unwrap().keys().is_sealed());
        let before = std::fs::read(place("key").folder.join("keys")).unwrap();
        for first in [false, true] {
            assert!(refused("key", secret(2), first).contains("nothing was written"));
            assert!(refused("key", words(), first).contains("were not begun with a passphrase"));
        }
        assert_eq!(std::fs::read(place("key").folder.join("keys")).unwrap(), before);
        assert_eq!(names("key"), ["keys", "lock"]);
        unseal("key", secret(1), false).unwrap();
        assert!(refused("words", words(), false).contains("--first"));
        unseal("words", words(), true).unwrap();
        unseal("words", words(), false).unwrap();
        // A kill after the salt was written, and before the first key was.
        let torn = place("torn").folder;
        kek_of_passphrase(&torn, b"correct horse battery", true).unwrap();
        let salt = std::fs::read(torn.join("passphrase")).unwrap();
        assert!(refused("torn", words(), false).contains("--first"));
        unseal("torn", words(), true).unwrap();
        unseal("torn", words(), false).unwrap();
        assert_eq!(std::fs::read(torn.join("passphrase")).unwrap(), salt);
        let other = UnsealKey::Passphrase(Zeroizing::new("correct horse batterie".into()));
        assert!(refused("words", other, true).contains("nothing was written"));
    }

    /// A key by hand is none that another Transit keeps, so that it begins no keys beside one: not in a folder that is torn, either.
    #[test]
    fn beside_another_transit_no_key_by_hand_becomes_the_first_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config::default();
        config.node.data_dir = folder.path().into();
        config.vault.transit_address = "http://127.0.0.1:1".into();
        let place = KeysPlace::of(&config, None);
        let secret = |byte| UnsealKey::Secret(vault::SecretKey::from_bytes(&[byte; 32]));
        let words = || UnsealKey::Passphrase(Zeroizing::new("correct horse battery".into()));
        let unseal = |key, first| match place.unseal(Unsealing { key, first }).map(|_| ()) {
            Err(NotUnsealed::Refused(why)) => Err(why),
            other => {
                other.unwrap();
                Ok(())
            }
        };
        let refused = || {
            for first in [false, true] {
                for key in [secret(1), words()] {
                    let why = unseal(key, first).unwrap_err();
                    assert!(why.starts_with("vault.transit_address http://127.0.0.1:1"), "{why}");
                    assert!(!why.contains("--first"), "{why}");
                }
            }
            assert!(!folder.path().join("vault/passphrase").exists());
            assert!(!folder.path().join("vault-begun").exists());
        };
        refused();
        assert!(!place.folder.exists(), "nothing was written");
        drop(place.open().unwrap());
        refused();
        // A kill after the other's key was written, and before it wrapped anything.
        std::fs::write(place.folder.join("kek-of-transit"), "vault:v1:AAAA\n").unwrap();
        refused();
        // Keys that there are take their own key from anybody's hand: nothing is begun with it.
        drop(
            KeysPlace { transit: None, ..place.clone() }
                .unseal(Unsealing { key: secret(1), first: true }),
        );
        unseal(secret(1), false).unwrap();
        assert!(unseal(secret(2), false).unwrap_err().contains("nothing was written"));
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
