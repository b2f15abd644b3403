//! A simulated folder for the journal: it tears, loses, reorders, fills up and lies as a disk may, and no more.
//!
//! ```text
//!   write, set_len            sync                      crash
//!  ───────────────▶  cache ───────────▶ durable image ───────────▶ what the next run finds
//!                      └─ unsealed changes ──── any subset of them ────┘
//! ```
//!
//! Each file has what the living see (the page cache), what is durable, and the changes between the two; the names
//! of the folder have the same three, apart from the files. All chance comes from the folder's own generator, so
//! that the same calls on the same seed end the same.
//!
//! What it leaves out: file systems that copy on write (here a file that has its room never meets a full disk) and
//! removed files that stay open (they take no room here).

use std::cell::{RefCell, RefMut};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::ops::Range;
use std::rc::Rc;

use ledger_journal::files::{Access, BLOCK_BYTES, File, Folder, SECTOR_BYTES};

use crate::rng::Rng;

/// Everything that can go wrong and is counted once it has. Losing what would have changed nothing is not counted.
pub const FAULTS: [&str; 25] = [
    "crash of the process",
    "crash of the power",
    "crash in a write",
    "crash in a sync",
    "crash in a create",
    "crash in a rename",
    "crash in a remove",
    "crash in a set_len",
    "crash in a folder sync",
    "torn write",
    "lost write",
    "lost write: an older one of the sector survived",
    "reordered writes",
    "lost length",
    "lost name",
    "reordered names",
    "half a rename",
    "failed sync",
    "failed sync dropped a write",
    "failed sync dropped a name",
    "failed read",
    "failed write",
    "full disk",
    "flipped bit",
    "cleared sector",
];

/// In so many of 1,000 cases a rename that a power cut met leaves the old name, too.
const HALF_RENAME_PERMILLE: u64 = 300;

/// What a crash takes along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process: its handles are gone, the system keeps what it was given, sealed or not.
    Process,
    /// The power: of what was not sealed, any subset is lost.
    Power,
}

/// The folder. Clones are handles of the same one.
#[derive(Clone, Debug)]
pub struct SimFolder(Rc<RefCell<State>>);

/// A file of it, opened by a process.
#[derive(Debug)]
pub struct SimFile {
    folder: Rc<RefCell<State>>,
    file: u64,
    /// The process that opened it: a later one cannot use it.
    process: u64,
    access: Access,
    /// Keeps the content while the file is open, as the system does, whatever becomes of its names.
    _open: Rc<()>,
}

impl SimFolder {
    /// An empty folder, whose faults follow from the seed.
    pub fn new(seed: u64) -> SimFolder {
        SimFolder(Rc::new(RefCell::new(State::new(seed))))
    }

    /// Ends the process, and with [`Crash::Power`] the system, and begins the next one.
    pub fn crash(&self, crash: Crash) {
        self.0.borrow_mut().crash(crash);
    }

    /// The n-th operation from now that changes anything (the next is 1) stops in its middle. It, and every call
    /// after it, fails until [`SimFolder::crash`]. Zero takes the order back.
    pub fn crash_after_operations(&self, operations: u64) {
        self.0.borrow_mut().crash_in = operations;
    }

    /// Did an operation stop in its middle, with no crash since?
    pub fn is_stopped(&self) -> bool {
        self.0.borrow().stopped
    }

    /// Is it the error of an operation that a crash met?
    pub fn is_crash(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<Stopped>())
    }

    /// How many operations that change anything were begun so far.
    pub fn operations(&self) -> u64 {
        self.0.borrow().operations
    }

    /// Gives the folder only so much room, or with `None` all it wants. Every file takes its length and a block.
    pub fn set_room(&self, bytes: Option<u64>) {
        self.0.borrow_mut().room = bytes;
    }

    /// Room taken, bytes.
    pub fn used_bytes(&self) -> u64 {
        self.0.borrow().used_bytes()
    }

    /// The next so many syncs, of files and of the folder, fail; each drops what it could not seal, and the syncs
    /// after it succeed.
    pub fn fail_syncs(&self, count: u64) {
        self.0.borrow_mut().syncs_to_fail = count;
    }

    /// The next so many syncs of the folder fail, in the same way; those of files do not.
    pub fn fail_folder_syncs(&self, count: u64) {
        self.0.borrow_mut().folder_syncs_to_fail = count;
    }

    /// The next so many calls that read (`list`, `open`, `len`, `read_at`) fail.
    pub fn fail_reads(&self, count: u64) {
        self.0.borrow_mut().reads_to_fail = count;
    }

    /// The next so many calls that change anything but do not seal fail; a write perhaps after a part of it.
    pub fn fail_writes(&self, count: u64) {
        self.0.borrow_mut().writes_to_fail = count;
    }

    /// Turns a bit of the durable content around, in this range; returns the byte's offset, or `None` if the range
    /// or the file has none.
    pub fn flip_bit(&self, name: &str, within: Range<u64>) -> Option<u64> {
        self.0.borrow_mut().flip_bit(name, within)
    }

    /// Makes a sector of the durable content zeros, one that has a byte in this range and is not zeros; returns the
    /// sector's offset, or `None` if there is none.
    pub fn clear_sector(&self, name: &str, within: Range<u64>) -> Option<u64> {
        self.0.borrow_mut().clear_sector(name, within)
    }

    /// A folder of its own with the same content, for trials: what becomes of it does not touch this one. Its faults
    /// are counted from zero.
    pub fn copy(&self) -> SimFolder {
        let mut state = self.0.borrow().clone();
        state.faults = Faults::default();
        for content in state.files.values_mut() {
            content.open = Rc::default();
        }
        SimFolder(Rc::new(RefCell::new(state)))
    }

    /// How often each of [`FAULTS`] happened.
    pub fn faults(&self) -> BTreeMap<&'static str, u64> {
        self.0.borrow().faults.0.clone()
    }

    fn living(&self) -> io::Result<RefMut<'_, State>> {
        let state = self.0.borrow_mut();
        if state.stopped { Err(stopped()) } else { Ok(state) }
    }

    fn handle(&self, state: &State, file: u64, access: Access) -> SimFile {
        let open = Rc::clone(&state.files[&file].open);
        SimFile { folder: Rc::clone(&self.0), file, process: state.process, access, _open: open }
    }
}

impl Folder for SimFolder {
    type File = SimFile;

    fn list(&self) -> io::Result<Vec<String>> {
        let mut state = self.living()?;
        state.read()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<SimFile> {
        let mut state = self.living()?;
        let file = state.create(name)?;
        Ok(self.handle(&state, file, Access::Write))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<SimFile> {
        let mut state = self.living()?;
        state.read()?;
        let file = state.find(name)?;
        Ok(self.handle(&state, file, access))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.living()?.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.living()?.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.living()?.sync_names()
    }
}

impl SimFile {
    fn living(&self) -> io::Result<RefMut<'_, State>> {
        let state = self.folder.borrow_mut();
        if state.stopped {
            return Err(stopped());
        }
        if state.process != self.process {
            return Err(io::Error::other("simulated: the process that opened the file has ended"));
        }
        Ok(state)
    }

    fn assert_writable(&self) {
        assert_eq!(self.access, Access::Write, "the file was opened for reading only");
    }
}

impl File for SimFile {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.living()?;
        state.read()?;
        Ok(state.file(self.file).cache.len)
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let mut state = self.living()?;
        state.read()?;
        state.file(self.file).cache.read(offset, bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.assert_writable();
        assert!(offset.is_multiple_of(BLOCK_BYTES as u64), "offset {offset} is inside a block");
        assert!(bytes.len().is_multiple_of(BLOCK_BYTES), "{} bytes are no blocks", bytes.len());
        let address = bytes.as_ptr().addr();
        assert!(address.is_multiple_of(BLOCK_BYTES), "address {address:#x} is inside a block");
        self.living()?.write(self.file, offset, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.living()?.sync_file(self.file)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.assert_writable();
        self.living()?.set_len(self.file, bytes)
    }
}

/// The error of an operation that a crash met.
#[derive(Debug)]
struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated: the process crashed")
    }
}

impl std::error::Error for Stopped {}

fn stopped() -> io::Error {
    io::Error::other(Stopped)
}

fn broken(what: &str) -> io::Error {
    io::Error::other(format!("simulated: input/output error in a {what}"))
}

/// Everything behind the handles.
#[derive(Clone, Debug)]
struct State {
    rng: Rng,
    files: BTreeMap<u64, Content>,
    next_file: u64,
    /// Names as the living see them.
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    unsealed_names: Vec<NameChange>,
    /// Number of the living process.
    process: u64,
    operations: u64,
    /// Operations until the one that stops; 0: none does.
    crash_in: u64,
    stopped: bool,
    room: Option<u64>,
    syncs_to_fail: u64,
    folder_syncs_to_fail: u64,
    reads_to_fail: u64,
    writes_to_fail: u64,
    faults: Faults,
}

/// A name that went, one that came, or (a rename) both at once.
#[derive(Clone, Debug)]
struct NameChange {
    gone: Option<String>,
    made: Option<(String, u64)>,
}

impl State {
    fn new(seed: u64) -> State {
        State {
            rng: Rng::new(seed),
            files: BTreeMap::new(),
            next_file: 0,
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            unsealed_names: Vec::new(),
            process: 0,
            operations: 0,
            crash_in: 0,
            stopped: false,
            room: None,
            syncs_to_fail: 0,
            folder_syncs_to_fail: 0,
            reads_to_fail: 0,
            writes_to_fail: 0,
            faults: Faults::default(),
        }
    }

    fn file(&mut self, file: u64) -> &mut Content {
        self.files.get_mut(&file).expect("a file that is open or has a name is kept")
    }

    fn find(&self, name: &str) -> io::Result<u64> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Counts a call that reads, and fails it if that is its lot.
    fn read(&mut self) -> io::Result<()> {
        if !due(&mut self.reads_to_fail) {
            return Ok(());
        }
        self.faults.one("failed read");
        Err(broken("read"))
    }

    /// Counts an operation. True if the crash meets it.
    fn stops(&mut self, crash: &'static str) -> bool {
        self.operations += 1;
        if self.crash_in != 1 {
            self.crash_in = self.crash_in.saturating_sub(1);
            return false;
        }
        self.crash_in = 0;
        self.stopped = true;
        self.faults.one(crash);
        true
    }

    fn fails_to_write(&mut self) -> bool {
        let fails = due(&mut self.writes_to_fail);
        if fails {
            self.faults.one("failed write");
        }
        fails
    }

    fn create(&mut self, name: &str) -> io::Result<u64> {
        if self.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = self.next_file;
        self.next_file += 1;
        self.files.insert(file, Content::default());
        let change = NameChange { gone: None, made: Some((name.to_string(), file)) };
        self.change_names("crash in a create", change)?;
        Ok(file)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let file = self.find(from)?;
        if self.names.get(to) == Some(&file) {
            // Two names of one file, which half a rename leaves: POSIX has this do nothing.
            return Ok(());
        }
        let gone = Some(from.to_string());
        let made = Some((to.to_string(), file));
        self.change_names("crash in a rename", NameChange { gone, made })
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.find(name)?;
        let gone = Some(name.to_string());
        self.change_names("crash in a remove", NameChange { gone, made: None })
    }

    fn change_names(&mut self, crash: &'static str, change: NameChange) -> io::Result<()> {
        let stops = self.stops(crash);
        if stops && self.rng.chance(500) {
            return Err(stopped());
        }
        if !stops && self.fails_to_write() {
            return Err(broken("change of a name"));
        }
        if change.gone.is_none() && self.free_bytes() < BLOCK_BYTES as u64 {
            return Err(if stops { stopped() } else { self.full() });
        }
        change.apply(&mut self.names);
        self.unsealed_names.push(change);
        if stops { Err(stopped()) } else { Ok(()) }
    }

    fn sync_names(&mut self) -> io::Result<()> {
        if self.stops("crash in a folder sync") {
            // The crash draws what was sealed, as of everything else.
            return Err(stopped());
        }
        if due(&mut self.folder_syncs_to_fail) || due(&mut self.syncs_to_fail) {
            self.faults.one("failed sync");
            let lost = self.seal_names(false);
            self.faults.add("failed sync dropped a name", lost.names);
            return Err(broken("sync of the folder"));
        }
        for change in std::mem::take(&mut self.unsealed_names) {
            change.apply(&mut self.durable_names);
        }
        self.forget_files();
        Ok(())
    }

    fn write(&mut self, file: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let sectors: Vec<Sector> = bytes.chunks_exact(SECTOR_BYTES).map(sector).collect();
        let (done, result) = self.write_outcome(file, offset, sectors.len());
        self.file(file).write(offset / SECTOR_BYTES as u64, &sectors[..done]);
        result
    }

    /// How many of the sectors are written, and what the writer hears.
    fn write_outcome(&mut self, file: u64, offset: u64, sectors: usize) -> (usize, io::Result<()>) {
        if self.stops("crash in a write") {
            return (self.rng.index(sectors + 1), Err(stopped()));
        }
        if self.fails_to_write() {
            return (self.rng.index(sectors + 1), Err(broken("write")));
        }
        let end_max = self.file(file).cache.len.saturating_add(self.free_bytes());
        let room = end_max.saturating_sub(offset) / SECTOR_BYTES as u64;
        match usize::try_from(room) {
            Ok(room) if room < sectors => (self.rng.index(room + 1), Err(self.full())),
            _ => (sectors, Ok(())),
        }
    }

    fn set_len(&mut self, file: u64, bytes: u64) -> io::Result<()> {
        let stops = self.stops("crash in a set_len");
        if stops && self.rng.chance(500) {
            return Err(stopped());
        }
        if !stops && self.fails_to_write() {
            return Err(broken("set_len"));
        }
        if bytes.saturating_sub(self.file(file).cache.len) > self.free_bytes() {
            return Err(if stops { stopped() } else { self.full() });
        }
        self.file(file).set_len(bytes);
        if stops { Err(stopped()) } else { Ok(()) }
    }

    fn sync_file(&mut self, file: u64) -> io::Result<()> {
        if self.stops("crash in a sync") {
            // The crash draws what was sealed, as of everything else.
            return Err(stopped());
        }
        let fails = due(&mut self.syncs_to_fail);
        let State { rng, files, faults, .. } = self;
        let content = files.get_mut(&file).expect("an open file is kept");
        if !fails {
            let lost = content.seal(Keep::All, rng);
            assert_eq!(lost, Lost::default(), "a sync that succeeds seals everything");
            return Ok(());
        }
        // What Linux does: the pages count as clean from now on, so that no later sync writes them, while every
        // reader still gets them. Some may have reached the disk.
        let keep = Keep::draw(rng, content.units());
        let lost = content.seal(keep, rng);
        faults.one("failed sync");
        faults.add("failed sync dropped a write", lost.torn + lost.whole + lost.lengths);
        Err(broken("sync"))
    }

    fn free_bytes(&self) -> u64 {
        self.room.map_or(u64::MAX, |room| room.saturating_sub(self.used_bytes()))
    }

    fn used_bytes(&self) -> u64 {
        let linked: BTreeSet<u64> = self.names.values().copied().collect();
        linked.iter().map(|file| self.files[file].cache.len + BLOCK_BYTES as u64).sum()
    }

    fn full(&mut self) -> io::Error {
        self.faults.one("full disk");
        io::ErrorKind::StorageFull.into()
    }

    fn crash(&mut self, crash: Crash) {
        self.process += 1;
        self.stopped = false;
        self.crash_in = 0;
        match crash {
            Crash::Process => self.faults.one("crash of the process"),
            Crash::Power => self.cut_power(),
        }
    }

    fn cut_power(&mut self) {
        let State { rng, files, faults, .. } = self;
        faults.one("crash of the power");
        for content in files.values_mut() {
            let keep = Keep::draw(rng, content.units());
            content.seal(keep, rng).count(faults);
            content.cache = content.durable.clone();
        }
        let lost = self.seal_names(true);
        lost.count(&mut self.faults);
        self.names.clone_from(&self.durable_names);
        self.forget_files();
    }

    /// Keeps some of the unsealed names, and forgets that there were others.
    fn seal_names(&mut self, half_renames: bool) -> Lost {
        let changes = std::mem::take(&mut self.unsealed_names);
        let keep = Keep::draw(&mut self.rng, changes.len());
        let mut lost = Lost::default();
        for (index, mut change) in changes.into_iter().enumerate() {
            if !change.would_change(&self.durable_names) {
                continue;
            }
            if !keep.keeps(&mut self.rng, index) {
                lost.names += 1;
                continue;
            }
            lost.names_reordered |= lost.names > 0;
            let rename = change.gone.is_some() && change.made.is_some();
            if half_renames && rename && self.rng.chance(HALF_RENAME_PERMILLE) {
                change.gone = None;
                lost.half_renames += 1;
            }
            change.apply(&mut self.durable_names);
        }
        lost
    }

    /// Drops files that nobody can get at any more.
    fn forget_files(&mut self) {
        let State { files, names, durable_names, unsealed_names, .. } = self;
        let unsealed = unsealed_names.iter().filter_map(|change| change.made.as_ref());
        let named =
            names.values().chain(durable_names.values()).chain(unsealed.map(|(_, file)| file));
        let named: BTreeSet<u64> = named.copied().collect();
        files.retain(|file, content| named.contains(file) || Rc::strong_count(&content.open) > 1);
    }

    fn flip_bit(&mut self, name: &str, within: Range<u64>) -> Option<u64> {
        let file = *self.durable_names.get(name)?;
        let State { rng, files, faults, .. } = self;
        let content = files.get_mut(&file)?;
        let end = within.end.min(content.durable.len);
        let offset = within.start + rng.below(end.checked_sub(within.start).filter(|n| *n > 0)?);
        let bit = 1 << rng.below(8);
        content.damage(offset / SECTOR_BYTES as u64, |bytes| bytes[in_sector(offset)] ^= bit);
        faults.one("flipped bit");
        Some(offset)
    }

    fn clear_sector(&mut self, name: &str, within: Range<u64>) -> Option<u64> {
        let file = *self.durable_names.get(name)?;
        let State { rng, files, faults, .. } = self;
        let content = files.get_mut(&file)?;
        let sector_bytes = SECTOR_BYTES as u64;
        let within = within.start / sector_bytes..within.end.div_ceil(sector_bytes);
        let some: Vec<u64> =
            content.durable.sectors.range(within).map(|(number, _)| *number).collect();
        let number = *some.get(rng.index(some.len()))?;
        content.damage(number, |bytes| bytes.fill(0));
        faults.one("cleared sector");
        Some(number * sector_bytes)
    }
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, u64>) {
        if let Some(name) = &self.gone {
            names.remove(name);
        }
        if let Some((name, file)) = &self.made {
            names.insert(name.clone(), *file);
        }
    }

    fn would_change(&self, names: &BTreeMap<String, u64>) -> bool {
        let gone = self.gone.as_ref().is_some_and(|name| names.contains_key(name));
        gone || self.made.as_ref().is_some_and(|(name, file)| names.get(name) != Some(file))
    }
}

/// A file's bytes.
#[derive(Clone, Debug, Default)]
struct Content {
    /// What the living read.
    cache: Image,
    durable: Image,
    unsealed: Vec<Change>,
    open: Rc<()>,
}

#[derive(Clone, Debug)]
enum Change {
    Write { first: u64, sectors: Vec<Sector> },
    Len(u64),
}

impl Content {
    fn write(&mut self, first: u64, sectors: &[Sector]) {
        let end = (first + sectors.len() as u64) * SECTOR_BYTES as u64;
        if sectors.is_empty() {
            return;
        }
        if end > self.cache.len {
            self.set_len(end);
        }
        for (number, sector) in (first..).zip(sectors) {
            self.cache.set(number, sector.clone());
        }
        self.unsealed.push(Change::Write { first, sectors: sectors.to_vec() });
    }

    fn set_len(&mut self, bytes: u64) {
        self.cache.set_len(bytes);
        self.unsealed.push(Change::Len(bytes));
    }

    /// How many unsealed things a crash keeps or loses one by one.
    fn units(&self) -> usize {
        let units = |change: &Change| match change {
            Change::Write { sectors, .. } => sectors.len(),
            Change::Len(_) => 1,
        };
        self.unsealed.iter().map(units).sum()
    }

    /// Seals what is kept of the unsealed changes, and forgets that there were others.
    fn seal(&mut self, keep: Keep, rng: &mut Rng) -> Lost {
        let mut lost = Lost::default();
        let mut older = BTreeSet::new();
        let mut units = 0..;
        let mut keeps = || keep.keeps(rng, units.next().expect("an endless range"));
        for change in std::mem::take(&mut self.unsealed) {
            match change {
                Change::Len(bytes) if keeps() => self.durable.set_len(bytes),
                Change::Len(bytes) => lost.lengths += u64::from(self.durable.len != bytes),
                Change::Write { first, sectors } => {
                    let before = lost.sectors;
                    let mut written = false;
                    for (number, sector) in (first..).zip(sectors) {
                        let kept = keeps();
                        if self.durable.get(number) == sector {
                            continue;
                        }
                        if kept {
                            lost.reordered |= lost.sectors > 0;
                            written = true;
                            older.insert(number);
                            self.durable.set(number, sector);
                        } else {
                            lost.sectors += 1;
                            lost.older += u64::from(older.contains(&number));
                        }
                    }
                    let any = lost.sectors > before;
                    lost.torn += u64::from(any && written);
                    lost.whole += u64::from(any && !written);
                }
            }
        }
        // A sector behind the end, whose length was lost, is in no file.
        self.durable.set_len(self.durable.len);
        lost
    }

    /// Changes a durable sector; who reads it sees that, unless the cache has something newer.
    fn damage(&mut self, number: u64, change: impl Fn(&mut [u8; SECTOR_BYTES])) {
        let old = self.durable.get(number);
        let mut bytes = old.as_ref().map_or([0; SECTOR_BYTES], |bytes| **bytes);
        change(&mut bytes);
        if self.cache.get(number) == old {
            self.cache.set(number, sector(&bytes));
        }
        self.durable.set(number, sector(&bytes));
    }
}

/// A sector's bytes; `None`: zeros.
type Sector = Option<Rc<[u8; SECTOR_BYTES]>>;

fn sector(bytes: &[u8]) -> Sector {
    let bytes: [u8; SECTOR_BYTES] = bytes.try_into().expect("a whole sector");
    (bytes != [0; SECTOR_BYTES]).then(|| Rc::new(bytes))
}

fn in_sector(offset: u64) -> usize {
    usize::try_from(offset % SECTOR_BYTES as u64).expect("less than a sector")
}

/// Bytes of a file as they are at one place: in the cache, or on the disk.
#[derive(Clone, Debug, Default)]
struct Image {
    len: u64,
    /// Those that are not zeros.
    sectors: BTreeMap<u64, Rc<[u8; SECTOR_BYTES]>>,
}

impl Image {
    fn get(&self, number: u64) -> Sector {
        self.sectors.get(&number).cloned()
    }

    fn set(&mut self, number: u64, sector: Sector) {
        match sector {
            Some(bytes) => self.sectors.insert(number, bytes),
            None => self.sectors.remove(&number),
        };
    }

    fn set_len(&mut self, bytes: u64) {
        self.len = bytes;
        let last = bytes / SECTOR_BYTES as u64;
        let cut = self.sectors.split_off(&last);
        let Some(mut tail) = cut.get(&last).map(|bytes| **bytes) else { return };
        tail[in_sector(bytes)..].fill(0);
        self.set(last, sector(&tail));
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let from = in_sector(offset);
            let (part, behind) = rest.split_at_mut(rest.len().min(SECTOR_BYTES - from));
            match self.sectors.get(&(offset / SECTOR_BYTES as u64)) {
                Some(bytes) => part.copy_from_slice(&bytes[from..from + part.len()]),
                None => part.fill(0),
            }
            offset += part.len() as u64;
            rest = behind;
        }
        Ok(())
    }
}

/// Which of the unsealed things are kept, by their order.
#[derive(Clone, Copy, Debug)]
enum Keep {
    All,
    None,
    /// What came first: a crash in the middle of a disk that does one thing after the other.
    First(usize),
    /// Each with this chance: a disk that does what it likes.
    Each {
        permille: u64,
    },
}

impl Keep {
    fn draw(rng: &mut Rng, units: usize) -> Keep {
        match rng.below(8) {
            0 => Keep::All,
            1 => Keep::None,
            2 | 3 => Keep::First(rng.index(units + 1)),
            4 | 5 => Keep::Each { permille: 500 },
            6 => Keep::Each { permille: 100 },
            _ => Keep::Each { permille: 900 },
        }
    }

    fn keeps(self, rng: &mut Rng, index: usize) -> bool {
        match self {
            Keep::All => true,
            Keep::None => false,
            Keep::First(end) => index < end,
            Keep::Each { permille } => rng.chance(permille),
        }
    }
}

/// What was not kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lost {
    sectors: u64,
    torn: u64,
    whole: u64,
    /// Sectors that have an older content than the last one.
    older: u64,
    reordered: bool,
    lengths: u64,
    names: u64,
    names_reordered: bool,
    half_renames: u64,
}

impl Lost {
    fn count(self, faults: &mut Faults) {
        faults.add("torn write", self.torn);
        faults.add("lost write", self.whole);
        faults.add("lost write: an older one of the sector survived", self.older);
        faults.add("reordered writes", u64::from(self.reordered));
        faults.add("lost length", self.lengths);
        faults.add("lost name", self.names);
        faults.add("reordered names", u64::from(self.names_reordered));
        faults.add("half a rename", self.half_renames);
    }
}

/// How often each of [`FAULTS`] happened.
#[derive(Clone, Debug, Default)]
struct Faults(BTreeMap<&'static str, u64>);

impl Faults {
    fn one(&mut self, fault: &'static str) {
        self.add(fault, 1);
    }

    fn add(&mut self, fault: &'static str, count: u64) {
        assert!(FAULTS.contains(&fault), "{fault} is not a fault");
        if count > 0 {
            *self.0.entry(fault).or_default() += count;
        }
    }
}

/// Takes one off a number of things to come. True if there was one.
fn due(left: &mut u64) -> bool {
    let due = *left > 0;
    *left = left.saturating_sub(1);
    due
}
