//! The key that wraps all keys, kept by another Transit: it encrypts it once and decrypts it at each start. Only the encrypted key is on disk.
//!
//! ```text
//!  first start    draw a key ──▶ encrypt/KEY ──▶ decrypt/KEY: the same? ──▶ vault/kek-of-transit ──▶ unseal
//!  later          vault/kek-of-transit ──▶ decrypt/KEY ──▶ unseal
//! ```

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use admin_client::{Client, FetchError, Target, Token, Trust};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vault::{Drbg, KeyEncryptionKey, SecretKey};
use vault_store::check_owner_only;
use weir_config::config::Config;
use zeroize::{Zeroize, Zeroizing};

/// The file of the encrypted key, in the folder of the keys.
const WRAPPED: &str = "kek-of-transit";
/// How long an exchange with the other may take; a first start has two.
const WAIT: Duration = Duration::from_secs(10);
/// Bytes of an answer; an encrypted key has some hundred.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Bytes of an encrypted key, and of a token.
const TEXT_BYTES_MAX: u64 = 4 << 10;
/// Characters of the other's words that the log shows.
const SAID_MAX: usize = 200;

/// Another Transit, as the configuration says.
#[derive(Clone, Debug)]
pub(super) struct Transit {
    address: String,
    token: TokenPlace,
    key: String,
    mount: String,
    /// Who signs its certificate; `None`: whom the system trusts.
    ca: Option<PathBuf>,
    /// Where the encrypted key is.
    wrapped: PathBuf,
    wait: Duration,
}

#[derive(Clone, Debug)]
enum TokenPlace {
    File(PathBuf),
    Variable(String),
}

/// What the other Transit brought. There is no `Debug`: a key is in it.
pub(super) struct Brought {
    pub(super) kek: KeyEncryptionKey,
    /// The encrypted form of a new key, which is not on disk yet.
    pub(super) new: Option<String>,
}

/// Why it brought none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NotBrought {
    /// It may later.
    Now(String),
    /// It will not, before somebody mends something here.
    Wrong(String),
}

impl Transit {
    /// The one that is configured; `None` where none is.
    pub(super) fn of_config(config: &Config) -> Option<Transit> {
        let vault = &config.vault;
        if vault.transit_address.is_empty() {
            return None;
        }
        let token = match vault.transit_token_file.as_str() {
            "" => TokenPlace::Variable(vault.transit_token_env.clone()),
            file => TokenPlace::File(file.into()),
        };
        let ca = &vault.transit_tls_ca_cert;
        Some(Transit {
            address: vault.transit_address.clone(),
            token,
            key: vault.transit_key_name.clone(),
            mount: vault.transit_mount_path.trim_matches('/').to_owned(),
            ca: (!ca.is_empty()).then(|| ca.into()),
            wrapped: config.node.data_dir.join("vault").join(WRAPPED),
            wait: WAIT,
        })
    }

    /// Where the encrypted key is.
    pub(super) fn wrapped(&self) -> &Path {
        &self.wrapped
    }

    /// Has the key decrypted, or draws one and has it encrypted where there is none yet. It waits for the other: at most ten seconds for each
    /// of two exchanges.
    ///
    /// # Errors
    /// [`NotBrought`], with what to do. Nothing was written.
    pub(super) fn bring(&self) -> Result<Brought, NotBrought> {
        match access::file::read_regular(&self.wrapped, TEXT_BYTES_MAX) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes).ok();
                let sound = text.as_deref().map(str::trim).filter(|text| is_sealed_text(text));
                let sealed =
                    sound.ok_or_else(|| self.wrong_file("expected one line, vault:v1:..."))?;
                Ok(Brought { kek: self.decrypt(&self.client()?, sealed)?, new: None })
            }
            Err(error) if error.kind() == ErrorKind::NotFound => self.begin(),
            Err(error) => Err(self.wrong_file(&error.to_string())),
        }
    }

    fn wrong_file(&self, why: &str) -> NotBrought {
        NotBrought::Wrong(format!(
            "{}: {why}; restore it from a copy of the data folder",
            self.wrapped.display()
        ))
    }

    /// Draws a key. It is taken only if the other gives it back: one that nobody decrypts later would be the end of all keys.
    fn begin(&self) -> Result<Brought, NotBrought> {
        let client = self.client()?;
        let no_random = |error| NotBrought::Now(format!("there is no randomness: {error}"));
        let mut random = Drbg::new().map_err(no_random)?;
        let secret = SecretKey::generate(&mut random).map_err(no_random)?;
        let plaintext = Zeroizing::new(STANDARD.encode(secret.expose()));
        let sealed = self.ask(&client, "encrypt", "plaintext", &plaintext, "ciphertext")?;
        if !is_sealed_text(&sealed) {
            return Err(self.other_form("encrypt", "expected data.ciphertext as vault:v1:..."));
        }
        let kek = self.decrypt(&client, &sealed)?;
        if kek.fingerprint() != KeyEncryptionKey::new(&secret).fingerprint() {
            return Err(
                self.other_form("decrypt", "it is not the key that it had encrypted before")
            );
        }
        Ok(Brought { kek, new: Some(sealed.to_string()) })
    }

    fn decrypt(&self, client: &Client, sealed: &str) -> Result<KeyEncryptionKey, NotBrought> {
        let text = self.ask(client, "decrypt", "ciphertext", sealed, "plaintext")?;
        let bytes = STANDARD.decode(text.as_bytes()).map(Zeroizing::new);
        let secret = bytes.ok().and_then(|bytes| SecretKey::parse(&bytes));
        let wrong = || {
            let file = self.wrapped.display();
            self.other_form(
                "decrypt",
                &format!("expected data.plaintext as base64 of 32 bytes; is {file} this folder's?"),
            )
        };
        Ok(KeyEncryptionKey::new(&secret.ok_or_else(wrong)?))
    }

    /// Asks for one thing: the text of `field` becomes that of `wanted`.
    fn ask(
        &self,
        client: &Client,
        verb: &str,
        field: &str,
        text: &str,
        wanted: &str,
    ) -> Result<Zeroizing<String>, NotBrought> {
        let path = self.path(verb);
        let mut body = json!({ field: text });
        let answered = client.post_json(&path, &body);
        wipe(&mut body);
        let mut answer = answered.map_err(|error| self.refused(&path, error))?;
        let found = match answer.pointer_mut(&format!("/data/{wanted}")).map(Value::take) {
            Some(Value::String(text)) => Some(Zeroizing::new(text)),
            _ => None,
        };
        found.ok_or_else(|| self.other_form(verb, &format!("expected a text data.{wanted}")))
    }

    fn path(&self, verb: &str) -> String {
        format!("/v1/{}/{verb}/{}", self.mount, self.key)
    }

    fn other_form(&self, verb: &str, why: &str) -> NotBrought {
        NotBrought::Now(format!(
            "the answer to {} is none of a Transit: {why}; is this the address of a keys door, OpenBao or Vault?",
            self.path(verb)
        ))
    }

    fn client(&self) -> Result<Client, NotBrought> {
        let wrong = |error: &dyn std::fmt::Display| NotBrought::Wrong(error.to_string());
        let target: Target = self.address.parse().map_err(|error| wrong(&error))?;
        let token = self.token()?;
        let trust = match (&self.ca, target.is_tls()) {
            (_, false) => None,
            (None, true) => Some(Trust::system()),
            (Some(file), true) => Some(Trust::of_file(file).map_err(|error| wrong(&error))?),
        };
        let client = Client::new(target, Some(token), trust);
        Ok(client.with_wait(self.wait).with_body_bytes_max(ANSWER_BYTES_MAX))
    }

    /// The token, read anew each time: it may have been replaced.
    fn token(&self) -> Result<Token, NotBrought> {
        let place = self.token.to_string();
        let text = match &self.token {
            TokenPlace::Variable(name) => std::env::var(name).ok().map(Zeroizing::new),
            TokenPlace::File(path) => {
                token_text(path).map_err(|why| NotBrought::Wrong(format!("{place}: {why}")))?
            }
        };
        let none = || NotBrought::Now(format!("{place}: there is no token"));
        let token = Token::new(&text.ok_or_else(none)?, &place);
        token.map_err(|error| NotBrought::Wrong(error.to_string()))
    }

    /// What the other's refusal means here: the names of keys are those of this configuration.
    fn refused(&self, path: &str, error: FetchError) -> NotBrought {
        let (token, key) = (&self.token, &self.key);
        NotBrought::Now(match error {
            FetchError::UnknownToken { .. } | FetchError::Unauthorised { .. } => {
                format!("the token of {token} is not known there; put a good one in")
            }
            FetchError::Forbidden { text, .. } => format!(
                "the token of {token} may not call {path}, or is not known there ({}): it wants update on encrypt/{key} and decrypt/{key} (at a node, the role keys and the scopes transit/encrypt/{key},transit/decrypt/{key})",
                said(&text)
            ),
            FetchError::UnknownCa { .. } | FetchError::OtherCa { .. } => {
                "its certificate is signed by nobody who is trusted here: set vault.transit_tls_ca_cert to the CA's certificate".to_owned()
            }
            FetchError::SpeaksTls { address } => {
                format!("it speaks TLS: set vault.transit_address to https://{address}")
            }
            FetchError::SpeaksNoTls { .. } => {
                "it does not speak TLS: vault.transit_address says https".to_owned()
            }
            FetchError::Unreachable { text, .. } => format!("no connection ({}); is it running?", said(&text)),
            FetchError::Slow { wait, .. } => {
                format!("no whole answer to {path} within {} ms", wait.as_millis())
            }
            FetchError::Broken { text, .. } => {
                format!("the connection ended before the answer to {path} did ({})", said(&text))
            }
            FetchError::NotAdmin { .. } | FetchError::Unknown { .. } => format!(
                "it has no {path}: is vault.transit_mount_path right, and is there a key {key}?"
            ),
            FetchError::Refused { status, text, .. } => {
                format!("it answers {path} with {status}: {}{}", said(&text), advice(status, &text))
            }
            FetchError::OtherForm { .. } | FetchError::NotHttp { .. } | FetchError::TooLong { .. } => {
                format!("the answer to {path} is none of a Transit; is this the address of a keys door, OpenBao or Vault?")
            }
            FetchError::Redirect { to, .. } => {
                format!("it answers with a redirect to {to:?}, which is not followed: set vault.transit_address to that one if it is meant")
            }
            error => escaped(&error.to_string()).collect(),
        })
    }
}

/// The beginning of what the other says, for a line of the log.
fn said(text: &str) -> String {
    escaped(text).take(SAID_MAX).collect()
}

/// A stranger's text; what would not be seen in it, or would disturb a terminal or the lines of a log, is escaped.
fn escaped(text: &str) -> impl Iterator<Item = char> {
    text.chars().flat_map(|c| {
        let quote = matches!(c, '"' | '\'').then_some(c);
        let rest = quote.is_none().then(|| c.escape_debug());
        quote.into_iter().chain(rest.into_iter().flatten())
    })
}

/// What to do about a refusal that has other words for it than an operator needs.
fn advice(status: u16, text: &str) -> &'static str {
    match status {
        400 if text.contains("authentication failed") => {
            "; the encrypted key was made by another key or Transit: set vault.transit_address and vault.transit_key_name to that one"
        }
        503 => "; unseal it",
        _ => "",
    }
}

/// The token in a file of its owner alone; `None` where there is none.
fn token_text(path: &Path) -> Result<Option<Zeroizing<String>>, String> {
    let file = match access::file::open_regular(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|error| error.to_string())?,
    };
    check_owner_only(&file).map_err(|wrong| match wrong {
        Ok(mode) => {
            format!("its mode is {mode:o}, expected 600 or 400: others must not read it; chmod 600")
        }
        Err(error) => error.to_string(),
    })?;
    let bytes = access::file::read_regular(path, TEXT_BYTES_MAX).map(Zeroizing::new);
    let bytes = bytes.map_err(|error| error.to_string())?;
    let text = std::str::from_utf8(&bytes);
    let text = text.map_err(|_| "expected one line, a token, as plain text".to_owned())?;
    Ok(Some(Zeroizing::new(text.to_owned())))
}

/// Whether a text is what Transit calls a ciphertext.
fn is_sealed_text(text: &str) -> bool {
    let rest = text.strip_prefix("vault:v").and_then(|rest| rest.split_once(':'));
    // A longer one could be written, and not read at the next start.
    let fits = (text.len() as u64) < TEXT_BYTES_MAX;
    fits && rest.is_some_and(|(version, sealed)| {
        version.parse::<u32>().is_ok()
            && !sealed.is_empty()
            && sealed.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    })
}

/// Overwrites the texts of a body.
fn wipe(body: &mut Value) {
    match body {
        Value::String(text) => text.zeroize(),
        Value::Object(map) => map.values_mut().for_each(wipe),
        _ => {}
    }
}

impl std::fmt::Display for TokenPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TokenPlace::File(path) => write!(f, "vault.transit_token_file {}", path.display()),
            TokenPlace::Variable(name) => write!(f, "vault.transit_token_env {name}"),
        }
    }
}

impl std::fmt::Display for Transit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "vault.transit_address {}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A Transit that answers with these texts, one after the other, and a folder with a token for it.
    fn transit(answers: &[String]) -> (Transit, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let answers = answers.to_vec();
        std::thread::spawn(move || {
            for answer in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        let token = folder.path().join("token");
        std::fs::write(&token, "aaaaaaaaaaaaaaaa\n").unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o600)).unwrap();
        let mut config = Config::default();
        config.node.data_dir = folder.path().join("data");
        std::fs::create_dir_all(config.node.data_dir.join("vault")).unwrap();
        config.vault.transit_address = address;
        config.vault.transit_token_file = token.display().to_string();
        config.vault.transit_key_name = "kek".into();
        (Transit::of_config(&config).unwrap(), folder)
    }

    fn http(status: u16, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        )
    }

    /// Why there is no key of an encrypted one that lies there, where this is answered.
    fn told(answer: &str) -> String {
        let (transit, _folder) = transit(&[answer.to_owned()]);
        std::fs::write(transit.wrapped(), "vault:v1:AAAA\n").unwrap();
        match transit.bring().map(|_| ()) {
            Err(NotBrought::Now(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    fn plain(bytes: &[u8]) -> String {
        http(200, &json!({"data": {"plaintext": STANDARD.encode(bytes)}}).to_string())
    }

    #[test]
    fn an_encrypted_key_is_decrypted() {
        let (transit, _folder) = transit(&[plain(&[7; 32])]);
        std::fs::write(transit.wrapped(), "vault:v1:AAAA\n").unwrap();
        let brought = transit.bring().unwrap_or_else(|why| panic!("{why:?}"));
        let expected = KeyEncryptionKey::new(&SecretKey::from_bytes(&[7; 32]));
        assert_eq!(brought.kek.fingerprint(), expected.fingerprint());
        assert!(brought.new.is_none());
    }

    #[test]
    fn whatever_is_answered_in_place_of_a_key_is_told_with_what_to_do() {
        for (answer, expected) in [
            (http(200, "garbage"), "is none of a Transit"),
            (http(200, "{}"), "expected a text data.plaintext"),
            (http(200, r#"{"data":{"plaintext":7}}"#), "expected a text data.plaintext"),
            (http(200, r#"{"data":{"plaintext":"%"}}"#), "base64 of 32 bytes"),
            (plain(b"sesame"), "base64 of 32 bytes"),
            (http(200, &" ".repeat(1 << 20)), "is none of a Transit"),
            ("SSH-2.0-x\r\n".into(), "is none of a Transit"),
            (String::new(), "the connection ended before the answer"),
            (http(403, r#"{"errors":["permission denied"]}"#), "scopes transit/encrypt/kek"),
            (http(401, ""), "the token of vault.transit_token_file"),
            (http(404, r#"{"errors":[]}"#), "is vault.transit_mount_path right"),
            (
                http(400, r#"{"errors":["cipher: message authentication failed"]}"#),
                "made by another key or Transit",
            ),
            (http(503, r#"{"errors":["Vault is sealed"]}"#), "Vault is sealed; unseal it"),
            (http(307, "").replace("307 X", "307 X\r\nLocation: http://b"), "http://b"),
        ] {
            let why = told(&answer);
            assert!(why.contains(expected), "{answer}: {why}");
            assert!(!why.contains("sesame") && !why.contains("aaaaaaaa"), "{why}");
        }
    }

    /// Whoever reads the log has a line of the node's own, however long and strange the words of the other are.
    #[test]
    fn the_words_of_the_other_are_short_and_move_nothing() {
        let words = format!("{}\r\n\u{1b}[2J\u{202e}\u{2028}\u{61c}\u{85}", "ü".repeat(5_000));
        let strange = format!("\u{1b}[2J\r\n\u{202e}\u{2028}\u{61c}\u{85}{words}");
        for (status, words) in
            [400, 403, 404, 500, 503].iter().zip([&words, &strange].iter().cycle())
        {
            let why = told(&http(*status, &json!({"errors": [words]}).to_string()));
            assert!(why.chars().count() < 600, "{status}: {} characters", why.chars().count());
            let plain = |c: char| c == 'ü' || c == '…' || c == ' ' || c.is_ascii_graphic();
            assert!(why.chars().all(plain), "{status}: {why:?}");
        }
        let why = told(&http(503, &json!({"errors": ["a\u{2028}b"]}).to_string()));
        assert!(why.contains("503: a\\u{2028}b; unseal it"), "{why}");
    }

    #[test]
    fn a_first_key_that_does_not_come_back_is_not_taken() {
        let sealed = http(200, r#"{"data":{"ciphertext":"vault:v1:AAAA"}}"#);
        let long = format!("vault:v1:{}", "A".repeat(5_000));
        let long = http(200, &json!({"data": {"ciphertext": long}}).to_string());
        for (answers, expected) in [
            (vec![sealed.clone(), plain(&[7; 32])], "not the key that it had encrypted"),
            (vec![sealed.clone(), http(403, "{}")], "decrypt/kek"),
            (vec![http(200, r#"{"data":{"ciphertext":"v1:a b"}}"#)], "expected data.ciphertext"),
            (vec![long, plain(&[7; 32])], "expected data.ciphertext"),
        ] {
            let (transit, _folder) = transit(&answers);
            match transit.bring().map(|_| ()) {
                Err(NotBrought::Now(why)) => assert!(why.contains(expected), "{why}"),
                other => panic!("{other:?}"),
            }
            assert!(!transit.wrapped().exists());
        }
    }

    #[test]
    fn one_that_is_away_or_hangs_is_waited_for_no_longer_than_said() {
        let (away, _folder) = transit(&[]);
        let bring = |transit: &Transit| match transit.bring().map(|_| ()) {
            Err(NotBrought::Now(why)) => why,
            other => panic!("{other:?}"),
        };
        let why = bring(&Transit { address: "http://127.0.0.1:1".into(), ..away });
        assert!(why.contains("is it running?"), "{why}");
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (hangs, _folder) = transit(&[]);
        let address = format!("http://{}", listener.local_addr().unwrap());
        let why = bring(&Transit { address, wait: Duration::from_millis(50), ..hangs });
        assert!(why.contains("no whole answer to /v1/transit/encrypt/kek within 50 ms"), "{why}");
    }

    #[test]
    fn what_is_wrong_here_is_told_apart_from_what_may_pass() {
        let (sound, folder) = transit(&[]);
        let with = |token| Transit { token, ..sound.clone() };
        let bring = |transit: &Transit| transit.bring().map(|_| ()).unwrap_err();
        let file = folder.path().join("token");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let open = bring(&sound);
        assert!(matches!(&open, NotBrought::Wrong(why) if why.contains("chmod 600")), "{open:?}");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&file, "two words").unwrap();
        let words = bring(&sound);
        assert!(
            matches!(&words, NotBrought::Wrong(why) if !why.contains("two words")),
            "{words:?}"
        );
        for none in [
            TokenPlace::File(folder.path().join("none")),
            TokenPlace::Variable("NO_SUCH_VARIABLE_OF_WEIR".into()),
        ] {
            let none = bring(&with(none));
            assert!(matches!(&none, NotBrought::Now(why) if why.contains("no token")), "{none:?}");
        }
        let text = "v".repeat(5_000);
        for wrong in ["", "vault:v1:", "vault:vx:AAAA", "vault:v1:A A", &text] {
            std::fs::write(sound.wrapped(), wrong).unwrap();
            let wrong = bring(&sound);
            assert!(
                matches!(&wrong, NotBrought::Wrong(why) if why.contains("kek-of-transit")),
                "{wrong:?}"
            );
        }
    }
}
