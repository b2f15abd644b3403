//! Where the key that wraps all keys (the KEK) comes from without anybody typing it: a file, a variable of the environment, a program.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use vault::{KeyEncryptionKey, SecretKey};
use zeroize::Zeroizing;

/// Bytes of a KEK as it is kept, at most: 64 digits and the end of a line.
const BYTES_MAX: usize = 66;
/// How long a program may take.
const PROGRAM_WAIT: Duration = Duration::from_secs(30);
/// How often a program is looked at.
const PROGRAM_LOOK: Duration = Duration::from_millis(5);

/// Where the KEK is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KekSource {
    /// A file of its owner alone.
    File(PathBuf),
    /// A variable of the environment, by its name.
    Variable(String),
    /// A program that prints it.
    Program(PathBuf),
}

/// Why there is no KEK. No part of what was found is in it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KekError {
    /// More than one source is set.
    #[error(
        "vault.key_file, vault.key_env and vault.key_program: {0} of them are set, expected one at most"
    )]
    Several(usize),
    /// It is neither digits nor bytes.
    #[error("{0}: expected 64 hexadecimal digits, or exactly 32 bytes, and nothing else")]
    Form(KekSource),
    /// Others may read the file.
    #[error("{0}: its mode is {1:o}, expected 600 or 400: others must not read it; chmod 600")]
    Mode(KekSource, u32),
    /// The operating system refused.
    #[error("{0}: {1}")]
    Io(KekSource, io::Error),
    /// A variable that cannot be one.
    #[error(
        "vault.key_env: expected the name of an environment variable (letters, digits and _, such as WEIR_KEK), and not the key itself; what was found is not repeated here"
    )]
    NoName,
    /// A path that is a key.
    #[error(
        "vault.key_file or vault.key_program: expected the path of a file, and not the key itself; what was found is not repeated here"
    )]
    SecretAsPath,
    /// The program cannot be found by a name alone.
    #[error(
        "{0}: expected a path with a slash in it, such as /usr/local/bin/kek; the folders of PATH are not searched"
    )]
    NoPath(KekSource),
}

impl KekSource {
    /// Returns the one source that is set; `None` where all are empty.
    ///
    /// # Errors
    /// [`KekError::Several`], and [`KekError::NoName`] or [`KekError::SecretAsPath`] where a name or a path may be the key itself.
    pub fn of_config(
        file: &str,
        variable: &str,
        program: &str,
    ) -> Result<Option<KekSource>, KekError> {
        if !variable.is_empty() && !access::names_variable(variable) {
            return Err(KekError::NoName);
        }
        if access::is_secret(file) || access::is_secret(program) {
            return Err(KekError::SecretAsPath);
        }
        let all = [
            (!file.is_empty()).then(|| KekSource::File(file.into())),
            (!variable.is_empty()).then(|| KekSource::Variable(variable.into())),
            (!program.is_empty()).then(|| KekSource::Program(program.into())),
        ];
        let mut set = all.into_iter().flatten();
        let first = set.next();
        match set.count() {
            0 => Ok(first),
            more => Err(KekError::Several(more + 1)),
        }
    }

    /// Reads the KEK. `None`: it is not to be had now (no such file or variable, a program that fails), and may be later.
    ///
    /// # Errors
    /// A [`KekError`]: what is there must not be used.
    pub fn read(&self) -> Result<Option<KeyEncryptionKey>, KekError> {
        let found = match self {
            KekSource::File(path) => self.file(path)?,
            KekSource::Variable(name) => {
                use std::os::unix::ffi::OsStringExt;
                std::env::var_os(name).map(|value| Zeroizing::new(value.into_vec()))
            }
            KekSource::Program(path) => self.program(path, PROGRAM_WAIT)?,
        };
        let Some(bytes) = found else { return Ok(None) };
        let secret = SecretKey::parse(&bytes).ok_or_else(|| KekError::Form(self.clone()))?;
        Ok(Some(KeyEncryptionKey::new(&secret)))
    }

    /// Says why [`read`](KekSource::read) returned no key, and where it was looked for.
    #[must_use]
    pub fn absence(&self) -> String {
        match self {
            KekSource::File(path) => format!("{self}: there is no such file{}", looked_for(path)),
            KekSource::Variable(_) => format!("{self}: this environment variable is not set"),
            KekSource::Program(_) => {
                format!("{self}: it printed no key: it cannot be started, failed or took too long")
            }
        }
    }

    fn io(&self, error: io::Error) -> KekError {
        KekError::Io(self.clone(), error)
    }

    fn file(&self, path: &Path) -> Result<Option<Zeroizing<Vec<u8>>>, KekError> {
        let mut file = match access::file::open_regular(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(|error| self.io(error))?,
        };
        check_owner_only(&file).map_err(|wrong| match wrong {
            Ok(mode) => KekError::Mode(self.clone(), mode),
            Err(error) => self.io(error),
        })?;
        let mut bytes = Output::default();
        bytes.take(&mut file).map_err(|error| self.io(error))?;
        Ok(Some(bytes.bytes))
    }

    /// Lets a program print the KEK. It has no input, its errors go to the node's own, and one that takes too long is ended.
    fn program(&self, path: &Path, wait: Duration) -> Result<Option<Zeroizing<Vec<u8>>>, KekError> {
        if !path.to_string_lossy().contains('/') {
            return Err(KekError::NoPath(self.clone()));
        }
        let told = |what: &dyn fmt::Display| tracing::warn!("{self}: {what}; the keys stay sealed");
        let mut command = Command::new(path);
        let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = match spawned {
            Ok(child) => child,
            Err(error) => {
                told(&format_args!("it cannot be started: {error}"));
                return Ok(None);
            }
        };
        let ended = listen(&mut child, wait);
        // One that has ended is not there to be killed.
        let _ = child.kill();
        let _ = child.wait();
        match ended.map_err(|error| self.io(error))? {
            (_, bytes) if bytes.len() > BYTES_MAX => Err(KekError::Form(self.clone())),
            (Some(status), bytes) if status.success() => Ok(Some(bytes)),
            (Some(status), _) => {
                told(&format_args!("it failed ({status})"));
                Ok(None)
            }
            (None, _) => {
                told(&format_args!("it had not ended after {} s, and was ended", wait.as_secs()));
                Ok(None)
            }
        }
    }
}

/// Says of a relative path in which folder it was looked for.
fn looked_for(path: &Path) -> String {
    match std::env::current_dir() {
        Ok(working) if path.is_relative() => format!(
            "; it was looked for in {}: paths are relative to the working directory",
            working.display()
        ),
        _ => String::new(),
    }
}

/// Reads what a program prints until it ends, prints too much, or its time is over: then there is no status. Whoever else has its output
/// open is not waited for.
fn listen(
    child: &mut Child,
    wait: Duration,
) -> io::Result<(Option<ExitStatus>, Zeroizing<Vec<u8>>)> {
    let mut output = Output::default();
    let Some(mut pipe) = child.stdout.take() else { return Err(ErrorKind::BrokenPipe.into()) };
    rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK)?;
    let end = Instant::now() + wait;
    loop {
        // What a program printed before it ended is in the pipe then.
        let status = child.try_wait()?;
        output.take(&mut pipe)?;
        if status.is_some() || output.bytes.len() > BYTES_MAX || Instant::now() >= end {
            return Ok((status, output.bytes));
        }
        std::thread::sleep(PROGRAM_LOOK);
    }
}

/// Bytes in one place of the heap, one more than a KEK may have.
struct Output {
    bytes: Zeroizing<Vec<u8>>,
}

impl Default for Output {
    fn default() -> Output {
        Output { bytes: Zeroizing::new(Vec::with_capacity(BYTES_MAX + 1)) }
    }
}

impl Output {
    /// Takes what there is, up to the limit.
    fn take(&mut self, from: &mut impl Read) -> io::Result<()> {
        let mut room = Zeroizing::new([0; BYTES_MAX + 1]);
        while self.bytes.len() <= BYTES_MAX {
            let left = BYTES_MAX + 1 - self.bytes.len();
            match from.read(room.get_mut(..left).unwrap_or_default()) {
                Ok(0) => break,
                Ok(count) => self.bytes.extend_from_slice(room.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// A secret is its owner's alone.
///
/// # Errors
/// The mode, where others may read or write the file; the error of the operating system, where it does not tell.
pub fn check_owner_only(file: &File) -> Result<(), io::Result<u32>> {
    let mode = file.metadata().map_err(Err)?.mode() & 0o7777;
    if matches!(mode, 0o400 | 0o600) { Ok(()) } else { Err(Ok(mode)) }
}

impl fmt::Display for KekSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KekSource::File(path) => write!(f, "vault.key_file {}", path.display()),
            KekSource::Variable(name) => write!(f, "vault.key_env {name}"),
            KekSource::Program(path) => write!(f, "vault.key_program {}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const DIGITS: &str = "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

    fn print() -> [u8; vault::FINGERPRINT_BYTES] {
        KeyEncryptionKey::new(&SecretKey::from_bytes(&[0x5a; 32])).fingerprint()
    }

    #[test]
    fn one_source_at_most() {
        assert_eq!(KekSource::of_config("", "", "").unwrap(), None);
        assert_eq!(
            KekSource::of_config("", "K", "").unwrap(),
            Some(KekSource::Variable("K".into()))
        );
        let error = KekSource::of_config("f", "", "p").unwrap_err().to_string();
        assert!(error.contains("2 of them are set"), "{error}");
        let error = KekSource::of_config("", DIGITS, "").unwrap_err().to_string();
        assert!(error.contains("and not the key itself") && !error.contains("5a5a"), "{error}");
        for (file, program) in [(DIGITS, ""), ("", DIGITS)] {
            let error = KekSource::of_config(file, "", program).unwrap_err().to_string();
            assert!(error.contains("the path of a file") && !error.contains("5a5a"), "{error}");
        }
    }

    #[test]
    fn a_variable_is_read_and_a_missing_one_seals() {
        // Every test has these two variables: cargo's own name, and none.
        let missing = KekSource::Variable("NO_SUCH_VARIABLE_OF_WEIR".into());
        assert!(missing.read().unwrap().is_none());
        let wrong = KekSource::Variable("CARGO_PKG_NAME".into()).read().unwrap_err().to_string();
        assert!(wrong.starts_with("vault.key_env CARGO_PKG_NAME: expected 64"), "{wrong}");
        assert!(!wrong.contains("vault-store"), "what was found is not repeated: {wrong}");
    }

    #[test]
    fn what_is_missing_is_told_with_where_it_was_looked_for() {
        let working = std::env::current_dir().unwrap();
        let told = KekSource::File("no/kek".into()).absence();
        let expected = format!(
            "vault.key_file no/kek: there is no such file; it was looked for in {}:",
            working.display()
        );
        assert!(told.starts_with(&expected), "{told}");
        let told = KekSource::File("/no/kek".into()).absence();
        assert_eq!(told, "vault.key_file /no/kek: there is no such file");
        let told = KekSource::Variable("NO_KEK".into()).absence();
        assert_eq!(told, "vault.key_env NO_KEK: this environment variable is not set");
    }

    /// All in one test: a file that another thread's child has open cannot be started.
    #[test]
    fn a_program_prints_the_key_or_the_keys_stay_sealed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kek");
        let run = |script: &str, wait: Duration| {
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
            let source = KekSource::Program(path.clone());
            let bytes = source.program(&path, wait);
            bytes.map(|bytes| bytes.map(|bytes| bytes.to_vec()))
        };
        let long = Duration::from_secs(60);
        let line = format!("{DIGITS}\n").into_bytes();
        assert_eq!(run(&format!("echo {DIGITS}"), long).unwrap(), Some(line.clone()));
        // A child of its own that goes on does not hold the node up.
        assert_eq!(run(&format!("sleep 100 & echo {DIGITS}; exit 0"), long).unwrap(), Some(line));
        assert_eq!(run(&format!("echo {DIGITS}; exit 3"), long).unwrap(), None, "it failed");
        assert_eq!(run("cat; exit 1", long).unwrap(), None, "it has no input");
        assert_eq!(run("sleep 100", Duration::from_millis(50)).unwrap(), None, "it hangs");
        assert!(matches!(run("yes", long), Err(KekError::Form(_))), "it never stops");
        std::fs::write(&path, format!("#!/bin/sh\necho {DIGITS}\n")).unwrap();
        let source = KekSource::Program(path.clone());
        assert_eq!(source.read().unwrap().unwrap().fingerprint(), print());
        std::fs::write(&path, "#!/bin/sh\necho secret\n").unwrap();
        let error = source.read().unwrap_err().to_string();
        assert!(error.contains("expected 64") && !error.contains("secret"), "{error}");
        assert!(KekSource::Program("/nowhere/kek".into()).read().unwrap().is_none());
        assert!(matches!(KekSource::Program("kek".into()).read(), Err(KekError::NoPath(_))));
    }
}
