//! The folder on a real disk.

use std::cell::Cell;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zerocopy::IntoBytes;

use crate::block::blocks;
use crate::files::{Access, BLOCK_BYTES, File, Folder};

/// When a record counts as sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the disk has it. A crash of the process, the system or the power loses nothing that was acknowledged.
    #[default]
    Sealed,
    /// When the system has it. A crash of the process loses nothing; a crash of the system or the power loses what
    /// the kernel had not written yet: some seconds, up to half a minute.
    Os,
}

/// How bytes get to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Around the page cache, each write sealed when it returns (`O_DIRECT | O_DSYNC`).
    Direct,
    /// Through the page cache, then `fdatasync`.
    Fdatasync,
    /// Through the page cache only.
    Cache,
}

impl Durability {
    /// Does a log that keeps groups in this way keep them at least as well as `asked`?
    pub fn is_at_least(self, asked: Durability) -> bool {
        self == Durability::Sealed || asked == Durability::Os
    }
}

impl Method {
    /// For logs and reports.
    pub fn name(self) -> &'static str {
        match self {
            Method::Direct => "O_DIRECT|O_DSYNC",
            Method::Fdatasync => "fdatasync",
            Method::Cache => "page cache",
        }
    }
}

/// A folder on a disk.
#[derive(Clone, Debug)]
pub struct Disk {
    path: Arc<PathBuf>,
    method: Method,
}

/// Only the node's user may read it: the journal holds the token keys.
const MODE: u32 = 0o600;
const PROBE: &str = "probe.tmp";

impl Disk {
    /// A folder, made if it is not there. Tries out how it can be written to.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(path: &Path, durability: Durability) -> io::Result<Disk> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let disk = |method| Disk { path: Arc::new(path.to_path_buf()), method };
        if durability == Durability::Os {
            return Ok(disk(Method::Cache));
        }
        let direct = disk(Method::Direct);
        match direct.probe() {
            Ok(()) => Ok(direct),
            // File systems in memory and some over networks cannot; a disk that fails says so again at once.
            Err(_) => Ok(disk(Method::Fdatasync)),
        }
    }

    /// A folder that is only looked at.
    pub fn read(path: &Path) -> Disk {
        Disk { path: Arc::new(path.to_path_buf()), method: Method::Cache }
    }

    /// The same folder, whose files' `sync` makes durable what anybody wrote to them.
    pub fn syncing(&self) -> Disk {
        Disk { path: Arc::clone(&self.path), method: Method::Fdatasync }
    }

    /// How bytes get to the disk.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn probe(&self) -> io::Result<()> {
        let _ = self.remove(PROBE);
        let file = self.create(PROBE)?;
        let written = file.write_at(0, blocks(BLOCK_BYTES).as_bytes());
        self.remove(PROBE)?;
        written
    }

    fn options(&self, access: Access) -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(access == Access::Write);
        if access == Access::Write && self.method == Method::Direct {
            options.custom_flags(libc::O_DIRECT | libc::O_DSYNC);
        }
        options
    }
}

impl Folder for Disk {
    type File = DiskFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(self.path.as_ref())?;
        // A name that is not UTF-8 is none of ours.
        let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
        names.filter_map(Result::transpose).collect()
    }

    fn create(&self, name: &str) -> io::Result<DiskFile> {
        let mut options = self.options(Access::Write);
        let file = options.create_new(true).mode(MODE).open(self.path.join(name))?;
        Ok(DiskFile { file, method: self.method, resized: Cell::new(false) })
    }

    fn open(&self, name: &str, access: Access) -> io::Result<DiskFile> {
        let file = self.options(access).open(self.path.join(name))?;
        Ok(DiskFile { file, method: self.method, resized: Cell::new(false) })
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        if self.method == Method::Cache {
            Ok(())
        } else {
            fs::File::open(self.path.as_ref())?.sync_all()
        }
    }

    fn durability(&self) -> Durability {
        match self.method {
            Method::Cache => Durability::Os,
            Method::Direct | Method::Fdatasync => Durability::Sealed,
        }
    }
}

/// A file on a disk.
#[derive(Debug)]
pub struct DiskFile {
    file: fs::File,
    method: Method,
    /// Its length was changed, which direct writes do not seal.
    resized: Cell<bool>,
}

impl File for DiskFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(bytes, offset)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        match self.method {
            Method::Cache => Ok(()),
            Method::Fdatasync => self.file.sync_data(),
            Method::Direct if self.resized.replace(false) => self.file.sync_data(),
            Method::Direct => Ok(()),
        }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.resized.set(true);
        self.file.set_len(bytes)
    }
}
