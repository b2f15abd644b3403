//! Folders of files that are there together or not at all.

use std::fs;
use std::io;
use std::path::Path;

use weir_config::private;

use crate::StartError;

/// What the store of users and the history have of their own before they are known to be theirs, in the order in which it is made.
const BEGUN: [&str; 4] = ["lock", "keyspaces", "0.jnl", "version"];
/// Bytes of the marker that is written last.
const VERSION_BYTES: u64 = 4;

/// Makes a folder, where it is not there yet, so that a kill meanwhile leaves none: `make` fills one beside it, closes all of its files, and
/// then the folder gets its name. What an earlier version began in `store`, and a kill cut short before anything could be kept in it, is
/// removed: it would be refused for good.
///
/// # Errors
/// What `make` says, or the folder cannot be written.
pub fn make_whole<E: From<StartError>>(
    folder: &Path,
    store: &Path,
    make: impl FnOnce(&Path) -> Result<(), E>,
) -> Result<(), E> {
    let failed = |source| E::from(StartError::Data { path: folder.to_path_buf(), source });
    if is_begun(store).map_err(failed)? {
        tracing::warn!(folder = %store.display(), "made anew: a kill cut its first making short, and nothing was kept in it");
        fs::remove_dir_all(store).map_err(failed)?;
    }
    // A start makes it empty, closed to others; anything else that is there stays.
    if folder.try_exists().map_err(failed)? && fs::remove_dir(folder).is_err() {
        return Ok(());
    }
    let beside = folder.with_extension("making");
    match fs::remove_dir_all(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    private::make_folder(&beside).map_err(failed)?;
    make(&beside)?;
    fs::rename(&beside, folder).map_err(failed)?;
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    fs::File::open(above).and_then(|above| above.sync_all()).map_err(failed)
}

/// Was the making of a store cut short before it could hold anything?
fn is_begun(store: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(store) {
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            return Ok(false);
        }
        entries => entries?,
    };
    let mut is_empty = true;
    for entry in entries {
        let entry = entry?;
        is_empty = false;
        let name = entry.file_name();
        let is_of_it = BEGUN.iter().any(|known| name == *known);
        let holds = name == "keyspaces" && fs::read_dir(entry.path())?.next().is_some();
        let is_made = name == "version" && entry.metadata()?.len() >= VERSION_BYTES;
        if !is_of_it || holds || is_made {
            return Ok(false);
        }
    }
    Ok(!is_empty)
}

#[cfg(test)]
mod tests {
    use gate_profile::{Options, Profiles};
    use tempfile::TempDir;

    use super::*;

    fn open(folder: &Path) -> Result<(), StartError> {
        drop(Profiles::open(folder, &Options::default())?);
        Ok(())
    }

    fn make(folder: &Path) -> Result<(), StartError> {
        make_whole(folder, &folder.join("users"), open)
    }

    /// What an earlier version left that was killed after each step of its first start.
    #[test]
    fn a_store_whose_making_was_cut_short_is_made_anew() {
        for steps in 0..=BEGUN.len() {
            let data = TempDir::new().unwrap();
            let (profiles, users) =
                (data.path().join("profiles"), data.path().join("profiles/users"));
            fs::create_dir_all(&users).unwrap();
            for name in &BEGUN[..steps] {
                match *name {
                    "keyspaces" => fs::create_dir(users.join(name)).unwrap(),
                    "0.jnl" => fs::write(users.join(name), [0; 4_096]).unwrap(),
                    "version" => fs::write(users.join(name), b"FJL").unwrap(),
                    _ => fs::write(users.join(name), b"").unwrap(),
                }
            }
            if steps == 0 {
                assert!(!is_begun(&users).unwrap(), "as a start makes it");
            }
            if steps >= 3 {
                open(&profiles).expect_err("the store itself refuses it");
            }
            make(&profiles).unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
            open(&profiles).unwrap_or_else(|error| panic!("after {steps} steps: {error}"));
        }
    }

    #[test]
    fn a_making_that_was_cut_short_leaves_nothing_and_one_that_is_there_stays() {
        let data = TempDir::new().unwrap();
        let profiles = data.path().join("profiles");
        let half = |folder: &Path| {
            fs::create_dir_all(folder.join("users")).unwrap();
            fs::write(folder.join("users/0.jnl"), b"half").unwrap();
            Err(StartError::Spend("killed".into()))
        };
        make_whole(&profiles, &profiles.join("users"), half).unwrap_err();
        assert!(!profiles.exists(), "it has no name yet");
        fs::create_dir(&profiles).unwrap();
        make_whole(&profiles, &profiles.join("users"), half).unwrap_err();
        assert!(!profiles.join("users").exists(), "nor where a start has made it, empty");
        make(&profiles).unwrap();
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&profiles.metadata().unwrap().permissions());
        assert_eq!(mode & 0o077, 0, "its user's alone");
        fs::write(profiles.join("mine"), b"kept").unwrap();
        make(&profiles).unwrap();
        assert_eq!(fs::read(profiles.join("mine")).unwrap(), b"kept");
        assert!(!profiles.with_extension("making").exists());
    }

    #[test]
    fn nothing_is_removed_that_can_hold_something() {
        let data = TempDir::new().unwrap();
        let store = data.path().join("users");
        for (path, bytes) in [
            ("version", &b"FJL\x03"[..]),
            ("keyspaces/0/current", b"x"),
            ("1.jnl", b"x"),
            ("somebody's.txt", b"x"),
        ] {
            let file = store.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, bytes).unwrap();
            assert!(!is_begun(&store).unwrap(), "{path}");
            fs::remove_dir_all(&store).unwrap();
        }
        assert!(!is_begun(&store).unwrap(), "not there");
    }
}
