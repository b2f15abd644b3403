//! Token files on the disk: how a node reads one, how `weir token new` adds a line.

use std::fs::{File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::principal::{LineError, LineFault, Principal, TokenFile};

/// Bytes of a file at most: room for the longest lines of all principals that it may have, and for comments.
const BYTES_MAX: u64 = 8 << 20;
/// Permissions of a new file.
const MODE: u32 = 0o600;
/// Permissions that let others than the owner read a file, and change it.
const OTHERS_READ: u32 = 0o044;
const OTHERS_WRITE: u32 = 0o022;
/// How long an append waits for another one.
const LOCK_WAIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Found {
    /// Whom it names.
    pub file: TokenFile,
    /// What is unwise about it, in sentences that say what to do; it can be used all the same.
    pub warnings: Vec<String>,
}

/// Why a file cannot be used or changed. No token is repeated.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refused it.
    #[error("{path}: {source}")]
    System {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// It is too long, or no text.
    #[error("{path}: expected lines of text, at most {BYTES_MAX} bytes")]
    NoText {
        /// The file.
        path: PathBuf,
    },
    /// Lines that cannot be read: all of them, one for each line of this text.
    #[error("{}", .errors.iter().map(|error| format!("{}:{}: {}", .path.display(), error.line, error.fault)).collect::<Vec<_>>().join("\n"))]
    Lines {
        /// The file.
        path: PathBuf,
        /// What is wrong with which lines.
        errors: Vec<LineError>,
    },
    /// A line that does not fit to those that are there.
    #[error("{path}: {fault}; nothing was written")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        fault: LineFault,
    },
    /// Another program is adding a line and does not end.
    #[error("{path}: another program holds its lock; nothing was written")]
    Locked {
        /// The file.
        path: PathBuf,
    },
}

/// Opens a regular file for reading, without waiting: a pipe would wait for who writes to it, and a device may never end.
///
/// # Errors
/// What the system says, or that it is no regular file.
pub fn open_regular(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    let text = "found a pipe, a device or a folder, expected a regular file";
    Err(std::io::Error::new(ErrorKind::InvalidInput, text))
}

/// Reads a regular file of at most `bytes_max` bytes, without waiting for anybody.
///
/// # Errors
/// What the system says, that it is no regular file, or that it is longer.
pub fn read_regular(path: &Path, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 <= bytes_max {
        return Ok(bytes);
    }
    let text = format!("it is longer than {bytes_max} bytes");
    Err(std::io::Error::new(ErrorKind::FileTooLarge, text))
}

/// Reads a token file.
///
/// # Errors
/// [`FileError`]: it cannot be read, or has lines that cannot be used, each with its number.
pub fn read(path: &Path) -> Result<Found, FileError> {
    let system = |source| FileError::System { path: path.to_owned(), source };
    let mut opened = open_regular(path).map_err(system)?;
    let mode = opened.metadata().map_err(system)?.mode();
    let text = text(&mut opened, path)?;
    let file = TokenFile::parse(&text)
        .map_err(|errors| FileError::Lines { path: path.to_owned(), errors })?;
    let mut warnings = Vec::new();
    let shown = path.display();
    if mode & OTHERS_READ != 0 && file.has_plain_token() {
        warnings.push(format!(
            "{shown}: others can read the tokens in it (mode {:o}); chmod 600 {shown}, or keep their sha256 only",
            mode & 0o7777
        ));
    }
    if mode & OTHERS_WRITE != 0 {
        warnings.push(format!(
            "{shown}: others can add themselves to it (mode {:o}); chmod 600 {shown}",
            mode & 0o7777
        ));
    }
    if let Some(name) = open_ended(&text) {
        warnings.push(format!(
            "{shown}: the file ends within the line of {name}, which has no scopes, so that this token may do everything: end the line, if that is meant"
        ));
    }
    let broken = file.broken().map(|name| {
        format!("{shown}: the token of {name} was cut or mistyped: its checksum does not hold")
    });
    warnings.extend(broken);
    Ok(Found { file, warnings })
}

/// Names the principal of a last line that is not ended and has no scopes: a file that was cut there would say more than it did.
fn open_ended(text: &str) -> Option<&str> {
    let last =
        text.lines().next_back().filter(|line| !text.ends_with('\n') && !line.starts_with('#'))?;
    let mut words = last.split_whitespace();
    let name = words.next()?;
    (words.count() == 2).then_some(name)
}

fn text(file: &mut File, path: &Path) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|source| FileError::System { path: path.to_owned(), source })?;
    match String::from_utf8(bytes) {
        Ok(text) if text.len() as u64 <= BYTES_MAX => Ok(text),
        _ => Err(FileError::NoText { path: path.to_owned() }),
    }
}

/// Adds the line of a principal, with the digest of its token. The file keeps its owner and its permissions; a new one is for
/// its owner only. It is replaced whole: a reader sees the lines before or all of them, also after a power cut. Appends
/// of several programs come one after the other.
///
/// # Errors
/// [`FileError`]: the file stays as it was.
pub fn append(path: &Path, principal: &Principal) -> Result<(), FileError> {
    let system = |source| FileError::System { path: path.to_owned(), source };
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(MODE);
    let mut file = lock(path, || options.open(path))?;
    let lines = with_line(text(&mut file, path)?, path, principal)?;
    // A link stays a link: what it leads to is replaced.
    let path = std::fs::canonicalize(path).map_err(system)?;
    replace(&path, &lines, &file.metadata().map_err(system)?).map_err(system)
}

/// Tells whether [`append`] would take the line of a principal, as the file is now: before anybody is shown a token that nobody knows.
///
/// # Errors
/// As of [`append`].
pub fn check_append(path: &Path, principal: &Principal) -> Result<(), FileError> {
    let lines = match File::open(path) {
        Ok(mut file) => text(&mut file, path)?,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(source) => return Err(FileError::System { path: path.to_owned(), source }),
    };
    with_line(lines, path, principal).map(drop)
}

/// The text of a file with one more line.
fn with_line(mut lines: String, path: &Path, principal: &Principal) -> Result<String, FileError> {
    let there = match TokenFile::parse(&lines) {
        Ok(there) => there,
        Err(errors) if errors.iter().all(|error| error.fault == LineFault::Nobody) => {
            TokenFile::default()
        }
        Err(errors) => return Err(FileError::Lines { path: path.to_owned(), errors }),
    };
    there
        .unlike(principal.clone())
        .map_err(|fault| FileError::Unfit { path: path.to_owned(), fault })?;
    if !lines.is_empty() && !lines.ends_with('\n') {
        lines.push('\n');
    }
    lines += &format!("{principal}\n");
    TokenFile::parse(&lines)
        .map_err(|errors| FileError::Lines { path: path.to_owned(), errors })?;
    if lines.len() as u64 > BYTES_MAX {
        return Err(FileError::NoText { path: path.to_owned() });
    }
    Ok(lines)
}

/// Opens a file and locks it. Whoever had the lock may have replaced the file: then the new one is opened.
fn lock(path: &Path, open: impl Fn() -> std::io::Result<File>) -> Result<File, FileError> {
    let system = |source| FileError::System { path: path.to_owned(), source };
    let began = Instant::now();
    while began.elapsed() < LOCK_WAIT {
        let file = open().map_err(system)?;
        match file.try_lock() {
            Ok(()) => {
                let (locked, there) = (file.metadata(), std::fs::metadata(path));
                let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
                if locked.is_ok_and(|a| there.is_ok_and(|b| same(&a, &b))) {
                    return Ok(file);
                }
            }
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            Err(TryLockError::Error(source)) => return Err(system(source)),
        }
    }
    Err(FileError::Locked { path: path.to_owned() })
}

/// Puts a text in the place of a file, with the owner and the permissions of the one that was there.
fn replace(path: &Path, text: &str, before: &Metadata) -> std::io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(MODE).open(&new)?;
        file.write_all(text.as_bytes())?;
        let made = file.metadata()?;
        if (made.uid(), made.gid()) != (before.uid(), before.gid()) {
            fchown(&file, Some(before.uid()), Some(before.gid()))?;
        }
        file.set_permissions(Permissions::from_mode(before.mode() & 0o7777))?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    })();
    match written {
        // The name is on the disk once its folder is.
        Ok(()) => File::open(path.parent().unwrap_or(Path::new(".")))?.sync_all(),
        Err(error) => {
            // Of the first error there is something to say.
            let _ = std::fs::remove_file(&new);
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccessToken, Role, Scopes, TokenDigest};

    const LINE: &str = "ann operate 0123456789abcdef\n";

    fn principal(name: &str) -> Principal {
        let digest = AccessToken::random().unwrap().digest();
        Principal::new(name, Role::Spend, digest, Scopes::default()).unwrap()
    }

    fn written(text: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        (folder, path)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_pipe_a_folder_or_a_device_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for path in [&*pipe, folder.path(), Path::new("/dev/zero")] {
            let error = read(path).unwrap_err().to_string();
            assert!(error.contains("expected a regular file"), "{error}");
        }
        let (_folder, path) = written(LINE.as_bytes(), 0o600);
        assert_eq!(read_regular(&path, LINE.len() as u64).unwrap(), LINE.as_bytes());
        let error = read_regular(&path, LINE.len() as u64 - 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }

    /// Whoever is in the middle of saving a file has perhaps not written the scopes yet.
    #[test]
    fn a_file_that_ends_where_scopes_may_have_stood_is_warned_of() {
        let warnings = |text: &str| read(&written(text.as_bytes(), 0o600).1).unwrap().warnings;
        let told = warnings(LINE.trim_end());
        assert!(told.len() == 1 && told[0].contains("within the line of ann"), "{told:?}");
        for sound in [
            LINE,
            "ann keys 0123456789abcdef transit/encrypt/a",
            "ann read 0123456789abcdef\n# and nobody else",
        ] {
            assert!(warnings(sound).is_empty(), "{sound}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_or_change_is_warned_of() {
        let warnings = |text: &str, mode| {
            let (_folder, path) = written(text.as_bytes(), mode);
            read(&path).unwrap().warnings
        };
        assert!(warnings(LINE, 0o600).is_empty());
        for mode in [0o640, 0o604, 0o644] {
            let told = warnings(LINE, mode);
            assert!(told[0].contains("can read") && told[0].contains("chmod 600"), "{told:?}");
            assert!(!told[0].contains("0123456789abcdef"));
        }
        let digest = format!("ann operate {}\n", TokenDigest::of(b"0123456789abcdef"));
        assert!(warnings(&digest, 0o644).is_empty(), "who reads a digest has no token");
        assert!(warnings(&digest, 0o620)[0].contains("add themselves"));
        assert!(warnings("ann read weir_0123456789abcdef\n", 0o600)[0].contains("token of ann"));
    }

    /// What a start would refuse is not written.
    #[test]
    fn a_line_too_many_is_not_appended() {
        let lines = |from: usize, to: usize| -> String {
            (from..to).map(|n| format!("{}\n", principal(&format!("p{n}")))).collect()
        };
        let (_folder, path) = written(lines(0, 1_024).as_bytes(), 0o600);
        let before = std::fs::read(&path).unwrap();
        assert!(append(&path, &principal("last")).unwrap_err().to_string().contains("1024"));
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }

    #[test]
    fn a_file_that_cannot_be_used_says_where_and_why() {
        let folder = tempfile::tempdir().unwrap();
        let told = |path: &Path| read(path).unwrap_err().to_string();
        assert!(told(&folder.path().join("none")).contains("none: No such file"));
        assert!(told(folder.path()).contains("or a folder, expected a regular file"));
        let (_folder, path) = written(b"ann operate short\nbob owner aaaaaaaaaaaaaaaa\n", 0o600);
        let error = told(&path);
        let lines: Vec<&str> = error.lines().collect();
        assert!(lines[0].contains("tokens:1: ") && lines[1].contains("tokens:2: "));
        let (_folder, path) = written(b"ann read \xff\xff", 0o600);
        assert!(told(&path).contains("expected lines of text"));
    }

    #[test]
    fn a_line_is_added_and_nothing_else_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        append(&path, &principal("first")).unwrap();
        assert_eq!(mode(&path), 0o600, "a new file is for its owner");
        let (_folder, path) = written(format!("# people\n{}", LINE.trim_end()).as_bytes(), 0o640);
        append(&path, &principal("bob")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with(&format!("# people\n{LINE}bob spend sha256:")), "{text}");
        assert_eq!((mode(&path), text.lines().count()), (0o640, 3));
        let folder: Vec<_> = std::fs::read_dir(path.parent().unwrap()).unwrap().collect();
        assert_eq!(folder.len(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_name_that_is_there_and_a_bad_file_stay_as_they_are() {
        for (text, name) in [(LINE, "ann"), ("ann operate short\n", "bob"), ("\u{0}", "bob")] {
            let (_folder, path) = written(text.as_bytes(), 0o600);
            append(&path, &principal(name)).unwrap_err();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_link_stays_a_link() {
        let (folder, path) = written(LINE.as_bytes(), 0o600);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        append(&link, &principal("bob")).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 2);
    }

    #[test]
    fn appends_at_the_same_time_lose_no_line() {
        let (_folder, path) = written(b"", 0o600);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    (0..5)
                        .for_each(|n| append(path, &principal(&format!("p{thread}.{n}"))).unwrap());
                });
            }
        });
        let found = read(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 20);
        assert!(found.file.has_role(&[Role::Spend]) && found.warnings.is_empty());
    }
}
