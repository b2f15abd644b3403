//! The stores of all sessions of a folder, which change together.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use disk::Lock;
use fix_session::{Durability, MessageStores, StoreError};

use crate::checkpoint::{Checkpoint, caught_up};
use crate::memo::{Change, Memo, Numbers};
use crate::numbers::NumbersFile;
use crate::reserve::Reserve;
use crate::store::FileStore;
use crate::{OpenError, segment};

const DAY_US: i64 = 86_400_000_000;

/// How messages are kept. [`Options::default`] has the defaults.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// A segment is closed before it gets longer; a step that is longer has a segment of its own.
    pub segment_bytes: u64,
    /// Messages are kept at least so long, days, as far as `bytes_max` allows; numbers and times of sessions stay for ever.
    pub keep_days: u32,
    /// Messages of one session take about so many bytes at most; the oldest go first.
    pub bytes_max: u64,
    /// So many bytes are set aside for when the disk is full; with 0 there is never little room.
    pub reserve_bytes: u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            segment_bytes: 4 << 20,
            keep_days: 30,
            bytes_max: 16 << 30,
            reserve_bytes: if cfg!(test) { 0 } else { 4 << 20 },
        }
    }
}

/// The stores of the sessions of one folder. One process has it at a time.
#[derive(Debug)]
pub struct FileStores<N> {
    root: PathBuf,
    options: Options,
    numbers: N,
    stores: Vec<FileStore>,
    /// Of sessions that have one, by their numbers.
    books: BTreeMap<usize, FileStore>,
    /// Books that could not be opened since the last flush of their sessions: what was to be kept there must not be missed.
    unopened: BTreeMap<usize, OpenError>,
    now_us: i64,
    reserve: Reserve,
    _lock: Lock,
}

impl FileStores<NumbersFile> {
    /// Opens a folder, or makes it, with the numbers in a file of their own.
    ///
    /// # Errors
    /// [`OpenError`]; in particular if another process has it, or if there are messages and no numbers.
    pub fn open(root: &Path, options: Options) -> Result<FileStores<NumbersFile>, OpenError> {
        disk::make_folder(root)?;
        let lock = disk::lock(&root.join("lock"))?;
        if !root.join("numbers").exists() {
            for name in disk::names(root)? {
                let is_session = segment::session_name(&name).is_some();
                if is_session && !segment::numbers(&root.join(&name))?.is_empty() {
                    return Err(OpenError::NoNumbers { folder: root.to_owned() });
                }
            }
        }
        let numbers = NumbersFile::open(root)?;
        Ok(FileStores::new(root, options, numbers, lock))
    }
}

#[cfg(test)]
impl FileStores<NumbersFile> {
    /// The file, for the tests of this crate.
    pub(crate) fn numbers_file(&mut self) -> &mut NumbersFile {
        &mut self.numbers
    }
}

impl<N: Numbers> FileStores<N> {
    /// Opens a folder, or makes it, with the numbers elsewhere.
    ///
    /// # Errors
    /// [`OpenError`]; in particular if another process has it.
    pub fn with_numbers(
        root: &Path,
        options: Options,
        numbers: N,
    ) -> Result<FileStores<N>, OpenError> {
        disk::make_folder(root)?;
        let lock = disk::lock(&root.join("lock"))?;
        Ok(FileStores::new(root, options, numbers, lock))
    }

    fn new(root: &Path, options: Options, numbers: N, lock: Lock) -> FileStores<N> {
        let root = root.to_owned();
        let (stores, books) = (Vec::new(), BTreeMap::new());
        let unopened = BTreeMap::new();
        let reserve = Reserve::new(&root, options.reserve_bytes);
        FileStores {
            root,
            options,
            numbers,
            stores,
            books,
            unopened,
            now_us: 0,
            reserve,
            _lock: lock,
        }
    }

    /// Adds a session and returns its number: 0 for the first, then 1. A session that is new begins its life at `unix_ms`.
    ///
    /// # Errors
    /// [`OpenError`] if its messages cannot be opened, or if it is there already.
    pub fn add(
        &mut self,
        name: &str,
        durability: Durability,
        unix_ms: i64,
    ) -> Result<usize, OpenError> {
        let memo = self.numbers.newest(name).unwrap_or(Memo::new(unix_ms));
        self.add_with(name, durability, memo)
    }

    /// The same of a session of which somebody kept a checkpoint. Where the files are older, it goes on behind that: no number is used for a second
    /// message, what they do not have a peer gets as a gap fill, and nothing that came before is asked for again. Returns how many sent
    /// messages are missing then, too; `None` if the files are not older. That it was so at `unix_ms` is kept for later processes
    /// ([`fix_session::MessageStore::doubtful_before_unix_ms`]).
    ///
    /// On the disk they are so from the next flush of the session on that changes anything: until then the files are still older, for whoever
    /// opens them, and [`FileStores::kept`] says nothing. So what has to be known of it is not lost where something fails in between.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn add_behind(
        &mut self,
        name: &str,
        durability: Durability,
        checkpoint: &Checkpoint,
        unix_ms: i64,
    ) -> Result<(usize, Option<u64>), OpenError> {
        let then = checkpoint.memo;
        let newest = self.numbers.newest(name);
        let Some((memo, missing)) = caught_up(newest, then) else {
            return Ok((self.add(name, durability, then.created_unix_ms)?, None));
        };
        let at = self.add_with(name, durability, memo)?;
        if let Err(error) = self.stores[at].mark_behind(unix_ms) {
            self.truncate(at);
            return Err(error);
        }
        Ok((at, Some(missing)))
    }

    fn add_with(
        &mut self,
        name: &str,
        durability: Durability,
        memo: Memo,
    ) -> Result<usize, OpenError> {
        if self.stores.iter().any(|store| store.name() == name) {
            return Err(OpenError::Twice { name: name.to_owned() });
        }
        let folder = self.root.join(segment::folder_name(name)?);
        self.numbers.bring_back(name)?;
        let mut store = FileStore::open(folder, name, memo, self.options.segment_bytes)?;
        store.sealed = durability == Durability::Sealed;
        self.stores.push(store);
        let at = self.stores.len() - 1;
        if self.has_book(at) {
            let book = self.open_book(at).inspect_err(|_| drop(self.stores.pop()))?;
            self.books.insert(at, book);
        }
        Ok(at)
    }

    /// Forgets the sessions that were added last, so that `sessions` of them are left. What they have on the disk stays.
    pub fn truncate(&mut self, sessions: usize) {
        let books = self.books.split_off(&sessions).into_values();
        for mut store in self.stores.drain(sessions.min(self.stores.len())..).chain(books) {
            let Err(error) = store.write_out() else { continue };
            let name = store.name();
            match self.numbers.hold_back(name) {
                Ok(()) => {
                    tracing::warn!(session = name, %error, "messages of a session that is gone stay among the sequence numbers")
                }
                Err(_) => {
                    tracing::warn!(session = name, %error, "messages of a session that is gone may be lost")
                }
            }
        }
    }

    /// Says from now on when what a session sends may leave.
    pub fn set_durability(&mut self, session: usize, durability: Durability) {
        for store in both(&mut self.stores, &mut self.books, session) {
            store.sealed = durability == Durability::Sealed;
        }
    }

    /// Sets both numbers of a session, as an operator does between two connections, and flushes. Messages that were sent under `next_out`
    /// or a greater number are never sent again; for numbers that were never used a peer gets gap fills.
    ///
    /// # Errors
    /// [`StoreError`] if they cannot be kept; they are then as before.
    pub fn set_numbers(
        &mut self,
        session: usize,
        next_out: u64,
        next_in: u64,
    ) -> Result<(), StoreError> {
        self.stores[session].set_numbers(next_out, next_in);
        self.flush(&[session])
    }

    /// Returns what is kept of a session, by its last flush; `None` where nothing was yet.
    #[must_use]
    pub fn kept(&self, session: usize) -> Option<Memo> {
        let store = self.stores.get(session)?;
        self.numbers.newest(store.name()).filter(|memo| *memo == store.flushed())
    }

    /// Finds out whether the file of numbers is still in its folder. Where somebody moved it away or removed it, it is written anew with the next
    /// change, or that fails. To be called now and then, for instance each second.
    ///
    /// # Errors
    /// [`OpenError`]: it was moved or removed since this was called last.
    pub fn look(&mut self) -> Result<(), OpenError> {
        self.reserve.look();
        self.numbers.look()
    }

    /// Removes messages that are too old or too many, whole segments at a time, and returns how many bytes. A peer that asks for one of
    /// them gets a gap fill. To be called now and then, for instance each minute.
    pub fn trim(&mut self) -> u64 {
        let oldest_us = self.now_us.saturating_sub(i64::from(self.options.keep_days) * DAY_US);
        let bytes_max = self.options.bytes_max;
        let read: u64 = self.books.values_mut().map(FileStore::trim_read).sum();
        let stores = self.stores.iter_mut();
        read + stores.map(|store| store.trim(oldest_us, bytes_max)).sum::<u64>()
    }

    /// Opens the book of a session: messages and numbers under a name that no session has.
    fn open_book(&mut self, session: usize) -> Result<FileStore, OpenError> {
        let of = &self.stores[session];
        let (name, sealed) = (segment::book_name(of.name()), of.sealed);
        self.numbers.bring_back(&name)?;
        let memo = self.numbers.newest(&name).unwrap_or(Memo::new(self.now_us / 1_000));
        let folder = self.root.join(segment::folder_of(&name)?);
        let mut book = FileStore::open(folder, &name, memo, self.options.segment_bytes)?;
        book.sealed = sealed;
        Ok(book)
    }

    /// Keeps what changed of some sessions, but for those groups of which a session has no place for it: these are returned. `group_of` has the
    /// group of the session at a place of the list.
    fn write(
        &mut self,
        sessions: &[usize],
        group_of: impl Fn(usize) -> usize,
    ) -> Result<Vec<LeftOut>, OpenError> {
        let FileStores { stores, books, unopened, .. } = self;
        let (mut changed, mut sealed) = (0, false);
        for at in sessions {
            for store in both(stores, books, *at).filter(|store| store.is_changed()) {
                changed += 1;
                sealed |= store.sealed;
            }
        }
        if changed == 0 {
            return Ok(Vec::new());
        }
        if self.numbers.is_full() {
            let (mut all, mut unsynced) = (stores.iter_mut().chain(books.values_mut()), Vec::new());
            let written = all.try_for_each(|store| store.write_to_system(&mut unsynced));
            let written = written.map(|()| unsynced);
            if self.numbers.begin_anew(written)? {
                let all = stores.iter_mut().chain(books.values_mut());
                all.for_each(FileStore::is_handed_over);
            }
        }
        let mut left_out: Vec<LeftOut> = Vec::new();
        for (place, at) in sessions.iter().enumerate() {
            if let Some(error) = unopened.remove(at) {
                left_out.push(LeftOut { group: group_of(place), session: *at, error });
            }
            for store in both(stores, books, *at).filter(|store| store.is_changed()) {
                if let Err(error) = store.place(sealed) {
                    left_out.push(LeftOut { group: group_of(place), session: *at, error });
                }
            }
        }
        let mut changes: Vec<Change<'_>> = Vec::with_capacity(changed);
        for (place, at) in sessions.iter().enumerate() {
            if left_out.iter().any(|one| one.group == group_of(place)) {
                continue;
            }
            let both = [stores.get(*at), books.get(at)].into_iter().flatten();
            changes.extend(both.filter(|store| store.is_changed()).map(FileStore::change));
        }
        if !changes.is_empty() {
            self.numbers.keep(&changes, sealed)?;
        }
        Ok(left_out)
    }

    /// Keeps what changed of some sessions, and takes back what cannot be kept: of which sessions, and why.
    fn flush_groups(
        &mut self,
        sessions: &[usize],
        group_of: impl Fn(usize) -> usize,
    ) -> Vec<(usize, StoreError)> {
        let mut written = self.write(sessions, &group_of);
        let full = match &written {
            Err(error) => Some(error),
            Ok(left_out) => left_out.iter().map(|one| &one.error).find(|error| error.is_full()),
        };
        if full.is_some_and(|error| self.reserve.give_back(error)) {
            written = self.write(sessions, &group_of);
        }
        let mut failed = Vec::new();
        for (place, at) in sessions.iter().enumerate() {
            let reason = match &written {
                Err(error) => Some(error.to_string()),
                Ok(left_out) => {
                    let why = left_out.iter().find(|one| one.group == group_of(place));
                    why.map(|why| why.reason(*at, &self.stores))
                }
            };
            for store in both(&mut self.stores, &mut self.books, *at) {
                match (store.is_changed(), &reason) {
                    (false, _) => {}
                    (true, None) => store.settle(),
                    (true, Some(_)) => store.undo(),
                }
                if let Some(error) = store.failure.take() {
                    self.reserve.give_back(&error);
                }
            }
            failed.extend(reason.map(|reason| (*at, StoreError { reason })));
        }
        failed
    }
}

/// A group of sessions of which nothing is kept, because one of them cannot write.
#[derive(Debug)]
struct LeftOut {
    group: usize,
    session: usize,
    error: OpenError,
}

impl LeftOut {
    /// What is told to a session of the group.
    fn reason(&self, session: usize, stores: &[FileStore]) -> String {
        let LeftOut { error, .. } = self;
        match stores.get(self.session).filter(|_| session != self.session) {
            Some(other) => format!(
                "the session {}, with which messages were exchanged in this step, cannot keep them: {error}",
                other.name()
            ),
            None => error.to_string(),
        }
    }
}

impl<N: Numbers> MessageStores for FileStores<N> {
    type Store = FileStore;

    fn is_short(&self) -> bool {
        self.reserve.is_short()
    }

    fn set_time(&mut self, unix_us: i64) {
        self.now_us = unix_us;
    }

    fn store(&mut self, session: usize) -> &mut FileStore {
        let store = &mut self.stores[session];
        store.now_us = self.now_us;
        store
    }

    fn book(&mut self, session: usize) -> Result<Option<&mut FileStore>, StoreError> {
        if !self.books.contains_key(&session) {
            let book = self.open_book(session).map_err(|error| {
                let reason = error.to_string();
                self.unopened.insert(session, error);
                StoreError { reason }
            });
            self.books.insert(session, book?);
        }
        let mut book = self.books.get_mut(&session);
        if let Some(book) = &mut book {
            book.now_us = self.now_us;
        }
        Ok(book)
    }

    fn has_book(&self, session: usize) -> bool {
        let of = self.stores.get(session);
        of.is_some_and(|of| self.numbers.newest(&segment::book_name(of.name())).is_some())
    }

    fn flush(&mut self, sessions: &[usize]) -> Result<(), StoreError> {
        let failed = self.flush_groups(sessions, |_| 0).into_iter().next();
        failed.map_or(Ok(()), |(_, error)| Err(error))
    }

    fn flush_apart(&mut self, sessions: &[usize], groups: &[usize]) -> Vec<(usize, StoreError)> {
        self.flush_groups(sessions, |place| groups.get(place).copied().unwrap_or_default())
    }
}

/// The store of a session, and its book if it has one.
fn both<'s>(
    stores: &'s mut [FileStore],
    books: &'s mut BTreeMap<usize, FileStore>,
    session: usize,
) -> impl Iterator<Item = &'s mut FileStore> {
    stores.get_mut(session).into_iter().chain(books.get_mut(&session))
}
