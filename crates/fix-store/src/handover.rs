//! The work on files `numbers` that waits for the disk, beside the thread that keeps.
//!
//! ```text
//!   numbers, numbers.next (empty) ── the thread that keeps: one group with all memos, a plain write ──▶ both in use
//!   both in use ── here: the records of `numbers` are on the disk in their segments, and so is what `numbers.next` begins with
//!               ── here: rename, sync of the folder ──▶ numbers
//!   numbers     ── here: a new file, its head on the disk, sync of the folder ──▶ numbers, numbers.next (empty)
//! ```

use std::path::{Path, PathBuf};

use disk::DiskFile;

use crate::OpenError;
use crate::numbers::{self, NextFile};

/// What is to be done next. What failed is done again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Both files are in use: the records of the older one are to be on the disk in their segments,
    Records,
    /// and what the newer one begins with,
    File,
    /// and it is to have the name of the older one,
    Name,
    /// also on the disk.
    NameOnDisk,
    /// One file is in use: the next one is to be made,
    Make,
    /// and its name to be on the disk.
    MadeOnDisk,
    /// The next file can be used.
    Ready,
}

/// How far the change from one file to the next is. Who has it may do the next step.
#[derive(Debug)]
pub(crate) struct Handover {
    folder: PathBuf,
    phase: Phase,
    /// Segments whose records may be on the disk in the older file alone; `None` if they are to be written to them again.
    segments: Option<Vec<PathBuf>>,
    /// Files that have no name any more, or soon. Their memory goes back with the last handle, a millisecond for each MiB.
    before: Vec<DiskFile>,
    next: Option<NextFile>,
    /// The last step was not done.
    has_failed: bool,
    /// The disk did not take what the file in use has: nothing is believed of it.
    is_in_doubt: bool,
}

impl Handover {
    /// How far it is in a folder in which nobody is at work.
    pub(crate) fn new(folder: &Path, phase: Phase) -> Handover {
        let (before, next) = (Vec::new(), None);
        let folder = folder.to_owned();
        let segments = None;
        Handover { folder, phase, segments, before, next, has_failed: false, is_in_doubt: false }
    }

    /// How far it is where nobody knows: the newer file, if there is one, may be in use or not.
    pub(crate) fn unknown(folder: &Path) -> Handover {
        let is_there = numbers::next_path(folder).exists();
        let phase = if is_there { Phase::Records } else { Phase::NameOnDisk };
        Handover { has_failed: true, is_in_doubt: true, ..Handover::new(folder, phase) }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.phase == Phase::Ready
    }

    /// Reports whether one file alone is in use.
    pub(crate) fn is_settled(&self) -> bool {
        self.phase >= Phase::Make
    }

    /// Reports whether more can be done at once.
    pub(crate) fn is_to_go_on(&self) -> bool {
        !self.is_ready() && !self.has_failed
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        self.is_in_doubt
    }

    /// Reports whether a sync of segments failed, which may have lost records of both files.
    pub(crate) fn are_segments_in_doubt(&self) -> bool {
        self.has_failed && self.phase == Phase::Records
    }

    /// Such a sync failed elsewhere.
    pub(crate) fn doubt_segments(&mut self) {
        self.segments = None;
    }

    /// Takes the next file, which is in use from now on. The records of the one before are in their segments, and `segments` are to be synced;
    /// `None` if the records are to be written there again.
    pub(crate) fn begin(
        &mut self,
        segments: Option<Vec<PathBuf>>,
        before: DiskFile,
    ) -> Option<NextFile> {
        let next = self.next.take()?;
        self.phase = Phase::Records;
        self.segments = segments;
        self.before.push(before);
        Some(next)
    }

    /// The name of the newest file, which is to be replaced.
    pub(crate) fn newest(&mut self) -> Result<PathBuf, OpenError> {
        if self.phase == Phase::NameOnDisk {
            // Not before the last change of names.
            self.step()?;
        }
        let is_older = self.phase >= Phase::Make;
        let path = if is_older { numbers::path } else { numbers::next_path };
        Ok(path(&self.folder))
    }

    /// The newest file is another, which is on the disk.
    pub(crate) fn is_replaced(&mut self) {
        self.is_in_doubt = false;
    }

    /// Takes a file that has no name any more.
    pub(crate) fn put_away(&mut self, before: Option<DiskFile>) {
        self.before.extend(before);
    }

    /// Leaves one file, without one that is made in advance.
    pub(crate) fn settle(&mut self) -> Result<(), OpenError> {
        while !self.is_settled() {
            self.step()?;
        }
        Ok(())
    }

    /// Removes the file that was made in advance and is not in use.
    pub(crate) fn clear(&self) {
        let next = numbers::next_path(&self.folder);
        if self.is_settled() && next.exists() {
            disk::remove(&next);
        }
    }

    /// Does what can be done before the thread that keeps has looked, as far as the disk lets it. That thread looks before the older file goes:
    /// the system may have told it alone that the newer one is not on the disk.
    #[cfg(not(test))]
    fn run(&mut self) {
        while self.step_or_tell() {}
    }

    /// Does the next step, and reports whether there is another to do now.
    fn step_or_tell(&mut self) -> bool {
        let done = self.step();
        self.has_failed = done.is_err();
        if let Err(error) = done {
            let left = self.phase;
            tracing::warn!(%error, ?left, "the next file of sequence numbers has to wait, and is tried again");
        }
        self.is_to_go_on() && self.phase != Phase::Name
    }

    fn step(&mut self) -> Result<(), OpenError> {
        let (path, next) = (numbers::path(&self.folder), numbers::next_path(&self.folder));
        self.phase = match self.phase {
            Phase::Records => {
                self.sync_records()?;
                Phase::File
            }
            Phase::File => {
                // By a handle of its own: the system tells each of them once that it lost something.
                let synced = DiskFile::open(&next)?.sync();
                self.is_in_doubt |= synced.is_err();
                synced?;
                Phase::Name
            }
            Phase::Name => {
                disk::rename(&next, &path)?;
                Phase::NameOnDisk
            }
            Phase::NameOnDisk => {
                disk::sync_folder(&self.folder)?;
                Phase::Make
            }
            Phase::Make => {
                self.before.clear();
                self.next = Some(NextFile::make(&next)?);
                Phase::MadeOnDisk
            }
            Phase::MadeOnDisk => {
                disk::sync_folder(&self.folder)?;
                Phase::Ready
            }
            Phase::Ready => Phase::Ready,
        };
        Ok(())
    }

    /// After a failure they are written again: what a second sync says is nothing about what the first one lost.
    fn sync_records(&mut self) -> Result<(), OpenError> {
        let Some(segments) = self.segments.take() else {
            return numbers::write_records_again(&self.folder);
        };
        Ok(segments.iter().try_for_each(|path| DiskFile::sync_if_there(path))?)
    }
}

#[cfg(test)]
pub(crate) use here::Helper;
#[cfg(not(test))]
pub(crate) use thread::Helper;

/// Who has a handover is not there any more.
#[derive(Debug)]
pub(crate) struct Gone;

/// The work is a thread's.
#[cfg(not(test))]
mod thread {
    use std::io;
    use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
    use std::thread::JoinHandle;

    use super::{Gone, Handover};

    /// A thread that has one handover at a time, or sleeps.
    #[derive(Debug)]
    pub(crate) struct Helper {
        /// `None` when it is to end.
        given: Option<SyncSender<Handover>>,
        done: Receiver<Handover>,
        thread: Option<JoinHandle<()>>,
    }

    impl Helper {
        pub(crate) fn start() -> io::Result<Helper> {
            let (given, work) = sync_channel::<Handover>(1);
            let (back, done) = sync_channel(1);
            let run = move || {
                for mut handover in work {
                    handover.run();
                    if back.send(handover).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("fix-numbers".to_owned()).spawn(run)?;
            Ok(Helper { given: Some(given), done, thread: Some(thread) })
        }

        /// Gives it a handover; back if the thread is gone.
        pub(crate) fn give(&mut self, handover: Handover) -> Result<(), Handover> {
            match &self.given {
                Some(given) => given.send(handover).map_err(|refused| refused.0),
                None => Err(handover),
            }
        }

        /// Returns the handover if the work on it is over.
        pub(crate) fn poll(&mut self) -> Result<Option<Handover>, Gone> {
            match self.done.try_recv() {
                Ok(handover) => Ok(Some(handover)),
                Err(TryRecvError::Empty) => Ok(None),
                Err(TryRecvError::Disconnected) => Err(Gone),
            }
        }

        /// Waits until the work is over.
        pub(crate) fn wait(&mut self) -> Result<Option<Handover>, Gone> {
            self.done.recv().map(Some).map_err(|_| Gone)
        }
    }

    impl Drop for Helper {
        fn drop(&mut self) {
            self.given = None;
            if let Some(thread) = self.thread.take() {
                // It panics nowhere, and if it did, that was told.
                let _ = thread.join();
            }
        }
    }
}

/// The work is done by who asks for it, some steps at a time: so tests can stop between any two, and make any fail.
#[cfg(test)]
pub(crate) mod here {
    use std::cell::Cell;
    use std::io;

    use super::{Gone, Handover};

    thread_local! {
        static STEPS: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// How many steps are done each time that somebody looks whether all are.
    pub(crate) fn set_steps(steps: usize) {
        STEPS.set(steps);
    }

    #[derive(Debug)]
    pub(crate) struct Helper {
        handover: Option<Handover>,
    }

    impl Helper {
        pub(crate) fn start() -> io::Result<Helper> {
            Ok(Helper { handover: None })
        }

        pub(crate) fn give(&mut self, handover: Handover) -> Result<(), Handover> {
            self.handover = Some(handover);
            // One that is quick does something before the next group is written.
            if STEPS.get() == usize::MAX {
                while self.handover.as_mut().is_some_and(Handover::step_or_tell) {}
            }
            Ok(())
        }

        pub(crate) fn poll(&mut self) -> Result<Option<Handover>, Gone> {
            if STEPS.get() == usize::MAX {
                return Ok(self.handover.take());
            }
            for _ in 0..STEPS.get() {
                let is_more = self.handover.as_mut().ok_or(Gone)?.step_or_tell();
                if !is_more {
                    return Ok(self.handover.take());
                }
            }
            Ok(None)
        }

        pub(crate) fn wait(&mut self) -> Result<Option<Handover>, Gone> {
            let mut handover = self.handover.take().ok_or(Gone)?;
            while handover.step_or_tell() {}
            Ok(Some(handover))
        }
    }
}
