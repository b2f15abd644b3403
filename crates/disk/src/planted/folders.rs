//! Folders of tests, and copies of them with a damaged file.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

/// Makes a folder; in memory where there is such a place, because these tests write and sync many thousand files.
#[must_use]
pub fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Copies a folder and those in it.
#[must_use]
pub fn copy(from: &Path) -> TempDir {
    let copy = folder();
    copy_into(from, copy.path());
    copy
}

fn copy_into(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            fs::create_dir(&target).unwrap();
            copy_into(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Damages every byte of a file in a copy of its folder, one copy after the other, and lets `check` judge it.
pub fn at_each_byte(
    root: &Path,
    file: &Path,
    damage: impl Fn(&mut Vec<u8>, usize),
    mut check: impl FnMut(usize, &Path),
) {
    let bytes = fs::read(file).unwrap();
    let name = file.strip_prefix(root).unwrap();
    for at in 0..bytes.len() {
        let (copy, mut damaged) = (copy(root), bytes.clone());
        damage(&mut damaged, at);
        fs::write(copy.path().join(name), damaged).unwrap();
        check(at, copy.path());
    }
}
