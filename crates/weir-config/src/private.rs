//! Who may read what a node keeps: its user and nobody else. Names, reasons and amounts are in it, and what users saw.
//!
//! `addresses.json` and `lock` stay readable: tools of other users find the node by them, and nothing is in them.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Bits of a folder, and of a file.
const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;

/// Parts of the data folder that are nobody else's: folders, and files beside them or in them.
const FOLDERS: [&str; 3] = ["edits", "history", "profiles"];
/// Never made here: a journal that is gone is to be found gone. It makes its folder itself, as closed as this.
const JOURNAL: &str = "journal";
const FILES: [&str; 4] = ["edits/log", "edits/log.new", "pacing.bin", "pacing.bin.new"];

/// Makes a folder that only this user may look into; one that is there stays as it is.
pub fn make_folder(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(FOLDER).create(path)
}

/// Makes a file that only this user may read, or empties it.
pub fn create(path: &Path) -> io::Result<File> {
    options().truncate(true).open(path)
}

/// Options that make such a file where there is none, to be read and written.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).mode(FILE);
    options
}

/// Makes the parts of a data folder, and takes from others what an earlier version let them see. What cannot be tightened is
/// told, and the node goes on: it is then no worse than before.
pub fn tighten(data: &Path) -> io::Result<()> {
    for name in FOLDERS {
        make_folder(&data.join(name))?;
        close(&data.join(name), FOLDER);
    }
    if data.join(JOURNAL).exists() {
        close(&data.join(JOURNAL), FOLDER);
    }
    for name in FILES.map(|name| data.join(name)).iter().filter(|path| path.exists()) {
        close(name, FILE);
    }
    Ok(())
}

fn close(path: &Path, bits: u32) {
    let found = fs::metadata(path).map(|metadata| metadata.permissions().mode());
    let is_open = |mode: &u32| mode & 0o077 != 0;
    let closed = match found.as_ref().is_ok_and(is_open) {
        true => fs::set_permissions(path, Permissions::from_mode(bits)),
        false => found.map(drop),
    };
    if let Err(error) = closed {
        let path = path.display();
        tracing::warn!(%error, %path, "other users may be able to read this; its owner can change that with chmod go=");
    }
}
