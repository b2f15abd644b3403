//! Keys whose changes travel in a log on other machines.
//!
//! ```text
//!   one node      KeyStore::change ──▶ TravellingFile::append ── the log has it ──▶ keys ──▶ carried: one more
//!   every other   a message of the log ──▶ CarriedKeys::take ──▶ keys ──▶ carried: one more
//! ```
//! `carried` beside the file says how many messages it has, so that each is applied once: a crash may come between a record and its number, and then the
//! record is the last one. The first message is the folder as it is, with what makes the KEK; every other one is a record. They hold wrapped keys only.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use disk::{DiskFile, Mark, replace};
use vault::{AppendError, KeyRecords, Keys};

use crate::key_file::{KIND, KeyFile, Options};
use crate::{OpenError, passphrase};

const CARRIED: &str = "carried";
/// What is in a whole folder, in this order. The third is written by the node, where another Transit keeps the KEK.
const FILES: [&str; 3] = [KIND.name, passphrase::FILE, "kek-of-transit"];

/// What travels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Travelling {
    /// The folder as it is.
    Whole(Vec<u8>),
    /// The next record.
    Record(Vec<u8>),
}

/// Why something does not travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// The log does not have it, and will not.
    Nothing(String),
    /// It may have it.
    Unsure(String),
}

type Carry = dyn Fn(Travelling) -> Result<(), NotSent> + Send + Sync;

/// Has a log on other machines keep something, and waits until it has.
#[derive(Clone)]
pub struct Carrier {
    carry: Arc<Carry>,
    /// Why no changes are taken until a restart, however often the folder is opened before.
    failed: Arc<OnceLock<String>>,
}

impl Carrier {
    /// By this way.
    pub fn new(
        carry: impl Fn(Travelling) -> Result<(), NotSent> + Send + Sync + 'static,
    ) -> Carrier {
        Carrier { carry: Arc::new(carry), failed: Arc::default() }
    }
}

impl std::fmt::Debug for Carrier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Carrier")
    }
}

/// Do the keys of a folder travel? Then no tool may change them here alone.
#[must_use]
pub fn travels(folder: &Path) -> bool {
    folder.join(CARRIED).exists()
}

/// The records of a folder whose changes travel first, where there is a log on other machines.
#[derive(Debug)]
pub struct TravellingFile {
    folder: PathBuf,
    file: KeyFile,
    mark: Mark,
    /// `None`: there is no such log.
    carrier: Option<Carrier>,
    /// Nothing can be sent yet.
    waits: bool,
}

impl TravellingFile {
    /// Of an open folder. Until [`TravellingFile::begin`] changes of a folder of which nothing was sent stay here and go with the first message,
    /// such as its KEK; another one takes none.
    ///
    /// # Errors
    /// An [`OpenError`].
    pub fn new(
        folder: &Path,
        file: KeyFile,
        carrier: Option<Carrier>,
    ) -> Result<TravellingFile, OpenError> {
        let (folder, mark) = (folder.to_owned(), Mark::open(&folder.join(CARRIED))?);
        Ok(TravellingFile { folder, file, mark, carrier, waits: true })
    }

    /// From now on the log can be written to. Sends the folder as it is, where nothing of it was sent before.
    ///
    /// # Errors
    /// It was not sent, and is with the next change; or nobody knows.
    pub fn begin(&mut self) -> Result<(), AppendError> {
        self.waits = false;
        self.bring()
    }

    fn bring(&mut self) -> Result<(), AppendError> {
        if self.waits || self.mark.get() > 0 || self.carrier.is_none() {
            return Ok(());
        }
        let whole = whole(&self.folder).map_err(|error| AppendError(error.to_string()))?;
        self.sent(Travelling::Whole(whole))?;
        self.note()
    }

    fn sent(&mut self, what: Travelling) -> Result<(), AppendError> {
        if let Some(why) = self.failure() {
            return Err(AppendError(why.clone()));
        }
        let carried = self.carrier.as_ref().map_or(Ok(()), |carrier| (carrier.carry)(what));
        carried.map_err(|why| match why {
            NotSent::Nothing(text) => AppendError(text),
            NotSent::Unsure(text) => self.fail(&text),
        })
    }

    fn note(&mut self) -> Result<(), AppendError> {
        let noted = self.mark.set(self.mark.get() + 1);
        noted.map_err(|error| self.fail(&error.to_string()))
    }

    /// What is here may not be what the log has.
    fn fail(&self, why: &str) -> AppendError {
        if let Some(carrier) = &self.carrier {
            let text = format!("{why}; changes of keys are refused until a restart");
            // The first reason stays.
            let _ = carrier.failed.set(text);
        }
        AppendError(why.into())
    }

    fn failure(&self) -> Option<&String> {
        self.carrier.as_ref()?.failed.get()
    }
}

impl KeyRecords for TravellingFile {
    fn append(&mut self, record: &[u8]) -> Result<(), AppendError> {
        if let Some(why) = self.failure() {
            return Err(AppendError(why.clone()));
        }
        if self.carrier.is_none() {
            return self.file.append(record);
        }
        if self.mark.get() == 0 {
            // The first message is the folder, with this record.
            self.file.append(record)?;
            return self.bring().map_err(|why| self.fail(&why.0));
        }
        if self.waits {
            return Err(AppendError("the log on other machines cannot be written to yet".into()));
        }
        self.sent(Travelling::Record(record.to_vec()))?;
        self.file.append(record).map_err(|why| self.fail(&why.0))?;
        self.note()
    }

    fn applied(&mut self, keys: &Keys) {
        if self.failure().is_none() {
            self.file.applied(keys);
        }
    }
}

/// The files of a folder behind each other, each behind its length; one that is not there has none.
fn whole(folder: &Path) -> disk::Result<Vec<u8>> {
    let mut all = Vec::new();
    for name in FILES {
        let file = DiskFile::read_if_there(&folder.join(name))?;
        let bytes = file.map_or_else(|| Ok(Vec::new()), |file| file.read_all())?;
        all.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        all.extend_from_slice(&bytes);
    }
    Ok(all)
}

/// The files of a folder that travelled whole.
fn files(mut all: &[u8]) -> Option<[&[u8]; FILES.len()]> {
    let mut files = [&[][..]; FILES.len()];
    for file in &mut files {
        let (length, rest) = all.split_first_chunk()?;
        (*file, all) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    }
    all.is_empty().then_some(files)
}

/// Why a message is not in the folder.
#[derive(Debug, thiserror::Error)]
pub enum NotTaken {
    /// The folder cannot be opened or written. It can be tried again.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A message that this version does not know.
    #[error(
        "a change of keys that this version does not know: is it older than the one that wrote it?"
    )]
    Unknown,
    /// The folder has keys that are not of the log.
    #[error("{} has keys that are not those of the log on other machines: move it aside, and start again", .0.display())]
    Others(PathBuf),
}

impl From<disk::Error> for NotTaken {
    fn from(error: disk::Error) -> NotTaken {
        NotTaken::Open(error.into())
    }
}

/// The records of a folder, for a node that follows.
#[derive(Debug)]
pub struct CarriedKeys {
    folder: PathBuf,
    options: Options,
    mark: Mark,
    /// Opened with the first message: until then others may have the folder.
    open: Option<(KeyFile, Keys)>,
}

impl CarriedKeys {
    /// Of a folder that need not be there.
    ///
    /// # Errors
    /// An [`OpenError`].
    pub fn new(folder: &Path, options: Options) -> Result<CarriedKeys, OpenError> {
        let (folder, mark) = (folder.to_owned(), Mark::open(&folder.join(CARRIED))?);
        // It is not written anew here: a record that a crash kept its number from has to be the last one.
        let options = Options { rewrite_bytes: u64::MAX, ..options };
        Ok(CarriedKeys { folder, options, mark, open: None })
    }

    /// How many messages it has. It may have one more, where a crash came between.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.mark.get()
    }

    /// Takes the next message.
    ///
    /// # Errors
    /// [`NotTaken`].
    pub fn take(&mut self, message: &Travelling) -> Result<(), NotTaken> {
        if self.open.is_none() {
            self.open = Some(KeyFile::open(&self.folder, self.options)?);
        }
        let (file, keys) = self.open.as_mut().expect("opened above");
        match message {
            Travelling::Record(record) => {
                if self.mark.get() == 0 {
                    return Err(NotTaken::Unknown);
                }
                if !file.ends_with(record)? {
                    keys.replay(record).map_err(|_| NotTaken::Unknown)?;
                    let appended = file.append_raw(record);
                    appended.inspect_err(|_| self.open = None)?;
                }
                self.mark.set(self.mark.get() + 1)?;
            }
            Travelling::Whole(all) => {
                let files = files(all).ok_or(NotTaken::Unknown)?;
                if self.mark.get() > 0 || (!keys.is_empty() && whole(&self.folder)? != *all) {
                    return Err(NotTaken::Others(self.folder.clone()));
                }
                // The records last: a start that finds keys finds what makes their KEK.
                self.open = None;
                for (name, bytes) in
                    FILES.iter().zip(files).rev().filter(|(_, bytes)| !bytes.is_empty())
                {
                    let path = self.folder.join(name);
                    replace(&path.with_extension("new"), &path, bytes)
                        .map_err(disk::Error::from)?;
                }
                self.mark.set(1)?;
            }
        }
        Ok(())
    }
}
