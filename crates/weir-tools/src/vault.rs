//! `weir vault`: the keys of a running node, and those of a stopped one or of a copy of its data folder.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use admin_client::{Access, Client, FetchError, OpenError, encode, harmless};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use vault::{ChangeError, KeyEncryptionKey, KeyStore, KeyStoreError, Keys, SecretKey};
use vault_store::{KekError, KekSource, KeyFile, PASSPHRASE_BYTES_MAX, PassphraseError};
use zeroize::Zeroizing;

/// Bytes of standard input that are read: a passphrase, the end of a line, and one more, which is too much.
const INPUT_BYTES_MAX: u64 = PASSPHRASE_BYTES_MAX as u64 + 3;
/// How many keys there may be, where a folder is looked at: what a node may be set to at most.
const KEYS_MAX: usize = 10_000_000;

/// Looks at the keys of a node, or does something to them.
#[derive(Debug, Args)]
pub struct VaultArgs {
    #[command(subcommand)]
    command: VaultCommand,
}

#[derive(Debug, Subcommand)]
enum VaultCommand {
    /// Say whether the keys of a running node are sealed, and how one key stands.
    #[command(
        after_help = "Example: weir vault status orders\n\nThe exit code is 0 where the keys are unsealed, and 2 where they are sealed."
    )]
    Status(VaultStatusArgs),
    /// Unseal the keys of a running node, with the key or the passphrase on standard input.
    #[command(
        after_help = "Examples:\n  weir vault unseal < kek                                      64 hexadecimal digits\n  read -rs P; printf %s \"$P\" | weir vault unseal --passphrase\n\nNeither is ever an argument: others see arguments. The first one of a data folder counts with --first only, so that a mistyped\none does not become it: keep a copy, nobody opens the keys without. The node has to be told again after each start."
    )]
    Unseal(UnsealArgs),
    /// Seal the keys of a running node: from then on its keys door answers 503, until they are unsealed.
    #[command(
        after_help = "Example: weir vault seal\n\nWhat is under way is answered. A node that has its key from a file, a variable or a program unseals its keys at its next start."
    )]
    Seal(SealArgs),
    /// Give a key of a running node a new version, which seals from then on.
    #[command(
        after_help = "Example: weir vault rotate orders\n\nOlder versions still open what they have sealed; clients seal it anew with POST /v1/transit/rewrap/KEY."
    )]
    Rotate(RotateArgs),
    /// Wrap all keys of a stopped node under a new key; values that were encrypted stay as they are.
    #[command(
        after_help = "Example: weir vault rewrap --data weir-data --key-file kek --new-key-file kek-2\n\nThen name the new file as vault.key_file. The old key opens copies of the data folder that were made before."
    )]
    Rewrap(RewrapArgs),
    /// Prove that the keys in a data folder, or in a copy of one, open with a key, and tell which of them may be exported.
    #[command(
        after_help = "Example: weir vault export-check --data backup/weir-data --key-file kek\n\nThe folder is read and not changed; its node may run. The exit code is 0 if every version of every key opens, and 1 otherwise."
    )]
    ExportCheck(ExportCheckArgs),
}

/// Which node.
#[derive(Debug, Args)]
struct KeysDoorArgs {
    #[command(flatten)]
    access: Access,
    /// The node's data folder; without --token-file and WEIR_TOKEN the token in its vault-token is shown
    #[arg(long, value_name = "DIR", default_value = "weir-data")]
    data: PathBuf,
}

#[derive(Debug, Args)]
struct VaultStatusArgs {
    #[command(flatten)]
    door: KeysDoorArgs,
    /// The name of a key that is shown, too.
    #[arg(value_name = "KEY")]
    key: Option<String>,
    /// The same.
    #[arg(long = "key", value_name = "KEY", hide = true, conflicts_with = "key")]
    key_flag: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct UnsealArgs {
    #[command(flatten)]
    door: KeysDoorArgs,
    /// Standard input is a passphrase, 12 to 1,024 bytes, and not a key.
    #[arg(long)]
    passphrase: bool,
    /// This data folder has no key that wraps its keys yet: this one becomes it, for good.
    #[arg(long)]
    first: bool,
}

#[derive(Debug, Args)]
struct SealArgs {
    #[command(flatten)]
    door: KeysDoorArgs,
}

#[derive(Debug, Args)]
struct RotateArgs {
    #[command(flatten)]
    door: KeysDoorArgs,
    /// The key's name.
    #[arg(value_name = "KEY")]
    key: String,
}

/// Where the key that wraps all keys comes from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct Source {
    /// A file with the key that wraps the keys, as vault.key_file.
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// The name of an environment variable with it, as vault.key_env.
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// The path of a program that prints it, as vault.key_program.
    #[arg(long, value_name = "FILE")]
    key_program: Option<PathBuf>,
    /// A passphrase on standard input makes it.
    #[arg(long)]
    passphrase: bool,
}

#[derive(Debug, Args)]
struct RewrapArgs {
    /// The data folder of the stopped node.
    #[arg(long, value_name = "DIR", default_value = "weir-data")]
    data: PathBuf,
    #[command(flatten)]
    source: Source,
    /// A file with the key that wraps them from then on.
    #[arg(long, value_name = "FILE")]
    new_key_file: PathBuf,
}

#[derive(Debug, Args)]
struct ExportCheckArgs {
    /// The data folder, or a copy of it.
    #[arg(long, value_name = "DIR", default_value = "weir-data")]
    data: PathBuf,
    #[command(flatten)]
    source: Source,
}

/// Why a command did not do what it was asked for. No key and no passphrase is in it.
#[derive(Debug, thiserror::Error)]
pub enum VaultError {
    /// The file ends within a record.
    #[error(
        "{whole}\n{}: the last record is unfinished ({bytes} bytes), and what it said is not here: the file was cut, or copied while a node wrote to it. Take the copy again, \
         or compare the versions above with those of the node (weir vault status)", kept.display()
    )]
    Cut {
        /// The file.
        kept: PathBuf,
        /// How many bytes of the record there are.
        bytes: u64,
        /// What is whole.
        whole: String,
    },
    /// The file with the keys cannot be read.
    #[error("{0}")]
    Kept(String),
    /// The command line.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The node was not reached, or does not do it.
    #[error("{}", of_keys_door(.0))]
    Fetch(#[from] FetchError),
    /// The token may not do it.
    #[error(
        "node at {address}: {text}: {shown}, and this wants one of the role keys with the scope transit/{verb}/{name}, or without scopes; give --token-file FILE \
         or set WEIR_TOKEN (the node's own, where it has no keys.tokens_file, is vault-token in its data folder)"
    )]
    Denied {
        /// Where it is.
        address: String,
        /// Its words.
        text: String,
        /// Which token was shown: never the token itself.
        shown: String,
        /// What the scope needs.
        verb: &'static str,
        /// With which key.
        name: String,
    },
    /// Another node answers where the data folder says that its node is.
    #[error(
        "the node at {address} does not run on {}: nothing was sent; start the node of this folder, or give --target if the other one is meant",
        data.display()
    )]
    OtherNode {
        /// Where it answers.
        address: String,
        /// The data folder.
        data: PathBuf,
    },
    /// There is no such key.
    #[error("node at {address}: there is no key {name:?}")]
    NoKey {
        /// Where it is.
        address: String,
        /// What was asked for.
        name: String,
    },
    /// Standard input.
    #[error("standard input: {0}")]
    Input(String),
    /// The key that wraps the keys.
    #[error("{}", of_option(.0))]
    Kek(#[from] KekError),
    /// The key that is to wrap them.
    #[error("{0}")]
    NewKek(String),
    /// It is not there.
    #[error("{0}")]
    NoKek(String),
    /// The passphrase.
    #[error(transparent)]
    Passphrase(#[from] PassphraseError),
    /// The folder has no keys.
    #[error("{}: there are no keys; expected the data folder of a node whose keys were unsealed once, or a copy of it", .0.display())]
    NoKeys(PathBuf),
    /// The keys cannot be read or written.
    #[error(transparent)]
    Files(#[from] vault_store::OpenError),
    /// They do not open, or the change is not durable.
    #[error("{}: {source}{hint}", folder.display())]
    Store {
        /// Where they are.
        folder: PathBuf,
        /// Why.
        source: KeyStoreError,
        /// What may help.
        hint: &'static str,
    },
    /// The system gives no randomness.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// Another node would not have the change.
    #[error("{}: these keys travel in a log on other machines (cluster.log), and are not wrapped anew on one machine alone: the other nodes would not have it; nothing was written", .0.display())]
    Travels(PathBuf),
    /// Both keys are the same.
    #[error("--new-key-file has the key that wraps the keys already; nothing was written")]
    SameKek,
    /// The answer has another form.
    #[error("the node's answer has another form: no {0}; use the weir of the node's release")]
    Form(&'static str),
    /// A file, or output.
    #[error("{0}: {1}")]
    Io(String, std::io::Error),
}

/// The same with the options' names in the place of the configuration's.
fn of_option(text: impl std::fmt::Display) -> String {
    text.to_string().replace("vault.key_", "--key-")
}

/// The same of another door than the admin door.
fn of_keys_door(error: &FetchError) -> String {
    error.to_string().replace("admin.tls_", "keys.tls_")
}

/// What is wrong with the key of the option `--new-key-file`.
fn of_new_key(error: VaultError) -> VaultError {
    VaultError::NewKek(error.to_string().replacen("--key-file", "--new-key-file", 1))
}

/// How a command ended that did what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All is well.
    Well,
    /// The keys are sealed.
    Sealed,
}

/// Carries out a command. `input` is standard input, and whether that is a terminal.
///
/// # Errors
/// [`VaultError`].
pub fn main(
    args: &VaultArgs,
    input: (&mut dyn Read, bool),
    out: &mut dyn Write,
) -> Result<Found, VaultError> {
    let lines = match &args.command {
        VaultCommand::Status(args) => return status(args, out),
        VaultCommand::Unseal(args) => unseal(args, input)?,
        VaultCommand::Seal(args) => seal(args)?,
        VaultCommand::Rotate(args) => rotate(args)?,
        VaultCommand::Rewrap(args) => rewrap(args, input)?,
        VaultCommand::ExportCheck(args) => export_check(args, input)?,
    };
    print(out, &lines).map(|()| Found::Well)
}

fn print(out: &mut dyn Write, lines: &str) -> Result<(), VaultError> {
    match writeln!(out, "{lines}") {
        // A reader that went away (`| head`) is no failure, and the exit code says what it says otherwise.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(|error| VaultError::Io("standard output".into(), error)),
    }
}

impl KeysDoorArgs {
    fn client(&self) -> Result<Client, VaultError> {
        Ok(self.access.open_door(&self.data, "keys", &self.data.join("vault-token"))?)
    }

    /// Says which token is shown, without saying it.
    fn shown(&self) -> String {
        let own = self.data.join("vault-token");
        match &self.access.token_file {
            Some(file) => format!("the token in {} was shown", file.display()),
            None if std::env::var_os("WEIR_TOKEN").is_some() => {
                "the token in WEIR_TOKEN was shown".into()
            }
            None if own.exists() => format!(
                "the token in {} was shown, which does not count where the node has a keys.tokens_file",
                own.display()
            ),
            None => "no token was shown".into(),
        }
    }

    /// Has the data folder no keys yet? Nobody knows where another address was given.
    fn is_fresh(&self) -> bool {
        self.access.target.is_none() && !self.data.join("vault/keys").exists()
    }

    /// How the keys stand. Where the folder named the node, it must be the folder's.
    fn seal_status(&self, client: &Client) -> Result<Value, VaultError> {
        let status: Value = client.get("/v1/sys/seal-status")?;
        let id = fs::read_to_string(self.data.join("vault/id")).unwrap_or_default();
        let is_other = !id.is_empty() && status["cluster_id"].as_str() != Some(id.trim());
        if self.access.target.is_none() && is_other {
            let (address, data) = (client.address().to_owned(), self.data.clone());
            return Err(VaultError::OtherNode { address, data });
        }
        Ok(status)
    }
}

/// What a refusal means where a token needs a scope.
fn denied(
    door: &KeysDoorArgs,
    client: &Client,
    verb: &'static str,
    name: &str,
) -> impl FnOnce(FetchError) -> VaultError {
    let (address, name, shown) = (client.address().to_owned(), name.to_owned(), door.shown());
    move |error| match error {
        FetchError::Forbidden { text, .. } => {
            VaultError::Denied { address, text, shown, verb, name }
        }
        // Reading says 404 without a text, changing 400 with one.
        FetchError::NotAdmin { .. } => VaultError::NoKey { address, name },
        FetchError::Refused { status: 400, text, .. } if text == "key not found" => {
            VaultError::NoKey { address, name }
        }
        other => other.into(),
    }
}

fn status(args: &VaultStatusArgs, out: &mut dyn Write) -> Result<Found, VaultError> {
    let client = args.door.client()?;
    let status = args.door.seal_status(&client)?;
    let sealed = status["sealed"].as_bool().ok_or(VaultError::Form("sealed"))?;
    let key = match args.key.as_ref().or(args.key_flag.as_ref()) {
        Some(name) if !sealed => Some(read_key(&args.door, &client, name)?),
        _ => None,
    };
    let address = client.address();
    let text = if args.json {
        json!({"address": address, "sealed": sealed, "key": key}).to_string()
    } else {
        let state = match sealed {
            true if args.door.is_fresh() => {
                "sealed: calls are answered 503; this data folder has no key that wraps its keys yet: weir vault unseal --first makes one its own, for good"
            }
            true => "sealed: calls are answered 503; weir vault unseal",
            false => "unsealed",
        };
        let mut text = format!("keys door at {address}: {state}");
        if let Some(key) = &key {
            text += &format!("\n{}", key_line(key)?);
        }
        text
    };
    print(out, &text)?;
    Ok(if sealed { Found::Sealed } else { Found::Well })
}

fn read_key(door: &KeysDoorArgs, client: &Client, name: &str) -> Result<Value, VaultError> {
    let path = format!("/v1/transit/keys/{}", encode(name));
    let answer: Value = client.get(&path).map_err(denied(door, client, "read", name))?;
    Ok(answer["data"].clone())
}

/// What a line of a key says of one that is out of use.
const SOFT_DELETED: &str =
    "soft-deleted: calls with it are refused until POST transit/keys/NAME/soft-delete-restore; ";

fn key_line(key: &Value) -> Result<String, VaultError> {
    let text = |name| key[name].as_str().map(harmless).ok_or(VaultError::Form("name and type"));
    let number = |name| key[name].as_u64().ok_or(VaultError::Form("versions"));
    let latest = number("latest_version")?;
    let (opens, seals) = (number("min_decryption_version")?, number("min_encryption_version")?);
    let seals = if seals == 0 { latest } else { seals };
    let export = if key["exportable"] == true { "exportable" } else { "not exportable" };
    let (name, kind) = (text("name")?, text("type")?);
    let versions = format!("latest version {latest}, opens from version {opens} on");
    let versions = format!("{versions}, seals from version {seals} on");
    let state = if key["soft_deleted"] == true { SOFT_DELETED } else { "" };
    Ok(format!("{name}: {kind}, {state}{versions}, {export}"))
}

/// What stands on standard input, whole.
fn secret((input, is_terminal): (&mut dyn Read, bool)) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    let wrong = |text: &str| VaultError::Input(text.to_owned());
    if is_terminal {
        return Err(wrong(
            "it is a terminal, which would show what is typed; pipe it: weir vault unseal < FILE, or read -rs P; printf %s \"$P\" | weir vault unseal --passphrase",
        ));
    }
    // Room for all: no copy stays behind where it would have grown.
    let mut bytes = Zeroizing::new(Vec::with_capacity(PASSPHRASE_BYTES_MAX + 4));
    let read = input.take(INPUT_BYTES_MAX).read_to_end(&mut bytes);
    read.map_err(|error| wrong(&error.to_string()))?;
    if bytes.is_empty() {
        return Err(wrong("it is empty, expected a key or, with --passphrase, a passphrase"));
    }
    Ok(bytes)
}

/// A passphrase on standard input, without the end of its line.
fn passphrase(input: (&mut dyn Read, bool)) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    let mut bytes = secret(input)?;
    for end in [b'\n', b'\r'] {
        if bytes.last() == Some(&end) {
            bytes.pop();
        }
    }
    match std::str::from_utf8(&bytes) {
        Ok(_) => Ok(bytes),
        Err(_) => Err(VaultError::Input("the passphrase is not UTF-8".into())),
    }
}

/// A key on standard input, as digits.
fn key_digits(input: (&mut dyn Read, bool)) -> Result<Zeroizing<Vec<u8>>, VaultError> {
    let expected = "expected 64 hexadecimal digits, or exactly 32 bytes, and nothing else";
    let key = SecretKey::parse(&secret(input)?);
    let key = key.ok_or_else(|| VaultError::Input(expected.into()))?;
    let mut digits = Zeroizing::new(Vec::with_capacity(2 * key.expose().len()));
    for byte in key.expose() {
        digits.extend([byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]));
    }
    Ok(digits)
}

fn unseal(args: &UnsealArgs, input: (&mut dyn Read, bool)) -> Result<String, VaultError> {
    let client = args.door.client()?;
    let address = client.address().to_owned();
    let is_sealed = |status: &Value| status["sealed"].as_bool().ok_or(VaultError::Form("sealed"));
    if !is_sealed(&args.door.seal_status(&client)?)? {
        return Ok(format!("keys door at {address}: it is unsealed already"));
    }
    let (name, secret) = match args.passphrase {
        true => ("passphrase", passphrase(input)?),
        false => ("key", key_digits(input)?),
    };
    let body = json!({name: String::from_utf8_lossy(&secret), "first": args.first});
    let answer = client
        .post_json("/v1/sys/unseal", &body)
        .map_err(denied(&args.door, &client, "admin", "*"))?;
    match is_sealed(&answer)? {
        true => Err(VaultError::Form("unsealed state")),
        false => Ok(format!("keys door at {address}: unsealed")),
    }
}

fn seal(args: &SealArgs) -> Result<String, VaultError> {
    let client = args.door.client()?;
    args.door.seal_status(&client)?;
    client
        .post_json("/v1/sys/seal", &json!({}))
        .map_err(denied(&args.door, &client, "admin", "*"))?;
    Ok(format!("keys door at {}: sealed", client.address()))
}

fn rotate(args: &RotateArgs) -> Result<String, VaultError> {
    let client = args.door.client()?;
    args.door.seal_status(&client)?;
    let path = format!("/v1/transit/keys/{}/rotate", encode(&args.key));
    let answer = client
        .post_json(&path, &json!({}))
        .map_err(denied(&args.door, &client, "admin", &args.key))?;
    let version = answer["data"]["latest_version"].as_u64();
    let version = version.ok_or(VaultError::Form("latest_version"))?;
    Ok(format!(
        "{}: version {version} seals from now on; older ones still open",
        harmless(&args.key)
    ))
}

impl Source {
    fn read(
        &self,
        folder: &Path,
        input: (&mut dyn Read, bool),
    ) -> Result<KeyEncryptionKey, VaultError> {
        if self.passphrase {
            return Ok(vault_store::kek_of_passphrase(folder, &passphrase(input)?, false)?);
        }
        let source = self.place()?;
        read_source(source.ok_or_else(|| VaultError::NoKek("--key-file: there is no key".into()))?)
    }

    /// Where the key is, if not on standard input. What cannot be a place is refused before anything is looked at.
    fn place(&self) -> Result<Option<KekSource>, KekError> {
        let text = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| path.display().to_string()).unwrap_or_default()
        };
        let variable = self.key_env.as_deref().unwrap_or_default();
        KekSource::of_config(&text(&self.key_file), variable, &text(&self.key_program))
    }
}

fn read_source(source: KekSource) -> Result<KeyEncryptionKey, VaultError> {
    source.read()?.ok_or_else(|| VaultError::NoKek(of_option(source.absence())))
}

/// Opens the keys in a folder, sealed.
fn open(folder: &Path) -> Result<KeyStore<KeyFile>, VaultError> {
    if !folder.join("keys").is_file() {
        return Err(VaultError::NoKeys(folder.to_owned()));
    }
    let options = vault_store::Options { keys_max: KEYS_MAX, ..vault_store::Options::default() };
    let (file, keys) = KeyFile::open(folder, options)?;
    if !keys.is_begun() {
        return Err(VaultError::NoKeys(folder.to_owned()));
    }
    Ok(KeyStore::new(keys, file)?)
}

fn rewrap(args: &RewrapArgs, input: (&mut dyn Read, bool)) -> Result<String, VaultError> {
    args.source.place()?;
    // A key in the place of its path is not repeated.
    KekSource::of_config(&args.new_key_file.display().to_string(), "", "")?;
    let beside = weir_config::warnings::key_beside_its_keys(
        "--new-key-file",
        &args.new_key_file,
        &args.data,
    );
    if let Some(warning) = beside {
        let _ = writeln!(std::io::stderr(), "weir: warning: {warning}");
    }
    let folder = args.data.join("vault");
    let hint = if args.source.passphrase { "" } else { vault_store::passphrase_hint(&folder) };
    let of_folder = |source| VaultError::Store { folder: folder.clone(), source, hint };
    if vault_store::travels(&folder) {
        return Err(VaultError::Travels(folder));
    }
    let mut store = open(&folder)?;
    let (old, new) = (
        args.source.read(&folder, input)?,
        read_source(KekSource::File(args.new_key_file.clone())).map_err(of_new_key)?,
    );
    let is_same = old.fingerprint() == new.fingerprint();
    store.unseal(old).map_err(of_folder)?;
    if is_same {
        return Err(VaultError::SameKek);
    }
    store.rewrap(new).map_err(of_folder)?;
    let (count, file) = (store.keys().len(), args.new_key_file.display());
    Ok(format!(
        "{count} keys are wrapped under the key in {file}: name it as vault.key_file.\nThe old key opens copies of the data folder that were made before; keep it as long as you keep these."
    ))
}

/// Opens a copy of the keys in a folder, so that this stays as it is and its node may run. The copy lasts as long as its folder is held.
fn open_copy(folder: &Path) -> Result<(tempfile::TempDir, KeyFile, Keys), VaultError> {
    let copy =
        tempfile::tempdir().map_err(|error| VaultError::Io("a folder for a copy".into(), error))?;
    let kept = folder.join("keys");
    let copied = fs::copy(&kept, copy.path().join("keys"));
    copied.map_err(|error| VaultError::Io(kept.display().to_string(), error))?;
    let options = vault_store::Options { keys_max: KEYS_MAX, ..vault_store::Options::default() };
    let (file, keys) = KeyFile::open(copy.path(), options).map_err(|error| {
        // Where the copy stands nobody needs to know.
        let of_copy = copy.path().display().to_string();
        VaultError::Kept(error.to_string().replace(&of_copy, &folder.display().to_string()))
    })?;
    Ok((copy, file, keys))
}

/// Judges whether this key unseals the keys in a folder, and says how many there are; `None`: they were never unsealed.
///
/// # Errors
/// The file of keys is damaged, or the key is another one's.
pub(crate) fn judge(folder: &Path, kek: KeyEncryptionKey) -> Result<Option<usize>, String> {
    let (_copy, file, keys) = open_copy(folder).map_err(|error| error.to_string())?;
    if !keys.is_begun() {
        return Ok(None);
    }
    let mut store = KeyStore::new(keys, file).map_err(|error| error.to_string())?;
    let hint = vault_store::passphrase_hint(folder);
    store.unseal(kek).map_err(|error| format!("{error} ({}){hint}", folder.display()))?;
    Ok(Some(store.keys().len()))
}

fn export_check(
    args: &ExportCheckArgs,
    input: (&mut dyn Read, bool),
) -> Result<String, VaultError> {
    args.source.place()?;
    let folder = args.data.join("vault");
    let kept = folder.join("keys");
    if !kept.is_file() {
        return Err(VaultError::NoKeys(folder));
    }
    let kek = args.source.read(&folder, input)?;
    let (_copy, file, keys) = open_copy(&folder)?;
    if !keys.is_begun() {
        return Err(VaultError::NoKeys(folder));
    }
    let cut_bytes = file.cut_bytes();
    let mut store = KeyStore::new(keys, file)?;
    let hint = if args.source.passphrase { "" } else { vault_store::passphrase_hint(&folder) };
    store.unseal(kek).map_err(|source| VaultError::Store { folder, source, hint })?;
    let mut lines = Vec::new();
    let (mut versions, mut leaving) = (0, 0);
    for key in store.keys().iter() {
        let (policy, count) = (key.policy(), key.versions().iter().count());
        let how = match (policy.exportable, policy.allow_plaintext_backup) {
            (true, true) => "may be exported and backed up in clear",
            (true, false) => "may be exported",
            _ => "never leaves the node",
        };
        versions += count;
        leaving += usize::from(policy.exportable);
        let (name, kind, latest) = (key.name(), policy.kind, key.versions().latest());
        lines.push(format!("{name}: {kind}, {count} versions up to {latest}, all open; {how}"));
    }
    let keys = store.keys().len();
    lines.push(format!(
        "{keys} keys with {versions} versions: all open with this key; {leaving} may be exported, of the others the only copies are those of the data folder"
    ));
    match cut_bytes {
        0 => Ok(lines.join("\n")),
        bytes => Err(VaultError::Cut { kept, bytes, whole: lines.join("\n") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_passphrase_ends_with_its_line_and_a_terminal_is_not_read() {
        let of = |mut bytes: &[u8]| passphrase((&mut bytes, false)).map(|bytes| bytes.to_vec());
        for (input, found) in
            [("some words", "some words"), ("a \n", "a "), ("a\r\n", "a"), ("a\n\n", "a\n")]
        {
            assert_eq!(of(input.as_bytes()).unwrap(), found.as_bytes(), "{input:?}");
        }
        assert!(
            of(&[b'x'; 9_000]).unwrap().len() > PASSPHRASE_BYTES_MAX,
            "too long stays too long"
        );
        assert!(of(b"\xff").unwrap_err().to_string().contains("not UTF-8"));
        let mut secret_text = &b"some words"[..];
        let error = passphrase((&mut secret_text, true)).unwrap_err().to_string();
        assert!(error.contains("it is a terminal") && error.contains("pipe it"), "{error}");
        assert_eq!(secret_text.len(), 10, "nothing was read");
    }

    #[test]
    fn a_key_is_sent_as_digits_however_it_is_kept() {
        let of = |mut bytes: &[u8]| key_digits((&mut bytes, false)).map(|bytes| bytes.to_vec());
        let mut raw = [0x5a; 32];
        // The last byte is one of the key, and no end of a line.
        raw[31] = b'\n';
        let digits = format!("{}0a", "5a".repeat(31));
        for kept in [&raw[..], digits.as_bytes(), format!("{digits}\n").as_bytes()] {
            assert_eq!(of(kept).unwrap(), digits.as_bytes());
        }
        for wrong in [&raw[1..], &digits.as_bytes()[2..], b"", &[b'5'; 9_000]] {
            let error = of(wrong).unwrap_err().to_string();
            assert!(error.starts_with("standard input: "), "{error}");
        }
    }
}
