//! Ways to put a group of records on the disk before it is acknowledged: the journal's choice, measured again.
//!
//! Every method writes the same bytes: records of 80 bytes, a group padded to blocks of 4 KiB, one group in the air at
//! a time, each acknowledged when the kernel says that it is on the disk. Files lie beside this binary, wrap around at
//! [`FILE_BYTES`] and are removed afterwards. Wrapping is not timed, except that a growing file starts empty again.
//!
//! io_uring goes through `compio-driver`, because no unsafe code stands here. It has no flags for one write, so the
//! `RWF_DSYNC` rows open the file with `O_DSYNC`: the kernel turns both into the same flag of the request.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use compio_buf::{BufResult, IoBuf};
use compio_driver::op::{Sync as SyncOp, WriteAt};
use compio_driver::{DriverType, Key, OpCode, Proactor, PushEntry};

use crate::Size;
use crate::daemon::folder_on_disk;
use crate::figures::{Case, Figures, Round, interleave, rate};

const RECORD_BYTES: usize = 80;
const BLOCK_BYTES: usize = 4096;
const FILE_BYTES: u64 = 16 << 20;
const GROUPS: [usize; 4] = [1, 16, 256, 4096];
const ROUNDS: usize = 7;
/// How long a method writes in one round, ms.
const ROUND_MS: u64 = 120;

/// How the blocks of the file come to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Space {
    /// Each write makes the file longer.
    Growing,
    /// Promised by `fallocate`, not yet written.
    Promised,
    /// Written with zeros beforehand.
    Zeroed,
}

/// How a write reaches the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seal {
    /// `pwrite`, then `fdatasync`.
    Sync,
    /// `pwrite` to a file opened with `O_DSYNC`.
    Dsync,
    /// io_uring: a write and an `fdatasync` linked to it, handed in together.
    UringLinked,
    /// io_uring: a write with the flag of `RWF_DSYNC`.
    UringDsync,
}

#[derive(Clone, Copy, Debug)]
struct Method {
    name: &'static str,
    space: Space,
    seal: Seal,
    /// Around the page cache.
    direct: bool,
}

const fn method(name: &'static str, space: Space, direct: bool, seal: Seal) -> Method {
    Method { name, space, seal, direct }
}

const METHODS: [Method; 9] = [
    method("growing file, pwrite + fdatasync", Space::Growing, false, Seal::Sync),
    method("fallocate, not zeroed, pwrite + fdatasync", Space::Promised, false, Seal::Sync),
    method("zeroed, pwrite + fdatasync", Space::Zeroed, false, Seal::Sync),
    method("zeroed, O_DIRECT pwrite + fdatasync", Space::Zeroed, true, Seal::Sync),
    method("zeroed, O_DIRECT|O_DSYNC pwrite", Space::Zeroed, true, Seal::Dsync),
    method("zeroed, io_uring write -> fdatasync", Space::Zeroed, false, Seal::UringLinked),
    method("zeroed, io_uring O_DIRECT write -> fdatasync", Space::Zeroed, true, Seal::UringLinked),
    method("zeroed, io_uring RWF_DSYNC write", Space::Zeroed, false, Seal::UringDsync),
    method("zeroed, io_uring O_DIRECT RWF_DSYNC write", Space::Zeroed, true, Seal::UringDsync),
];

/// Prints the tables.
pub fn run(size: Size) {
    for group in GROUPS {
        if let Err(error) = compare(size, group) {
            println!("\ngroups of {group}: NOT MEASURED: {error}");
        }
    }
}

fn compare(size: Size, group: usize) -> Result<(), String> {
    let folder = folder_on_disk()?;
    let file_bytes = size.pick(FILE_BYTES, 1 << 20);
    let enough = Duration::from_millis(size.pick(ROUND_MS, 1));
    let mut writers = Vec::new();
    for method in METHODS {
        match Writer::new(method, folder.path(), group, file_bytes) {
            Ok(writer) => writers.push(writer),
            Err(error) => println!("\n{}: NOT MEASURED: {error}", method.name),
        }
    }
    let names: Vec<&str> = writers.iter().map(|writer| writer.method.name).collect();
    let mut cases: Vec<Case<'_, Round>> =
        writers.iter_mut().map(|writer| writer.case(enough)).collect();
    let rounds = interleave(size.pick(ROUNDS, 1), &mut cases)?;
    let figures: Vec<Figures> = rounds.iter().map(|rounds| Figures::of(rounds.iter())).collect();
    print_table(group, &names, &figures);
    Ok(())
}

fn print_table(group: usize, names: &[&str], figures: &[Figures]) {
    let bytes = group_bytes(group);
    println!("\n### groups of {group} records of {RECORD_BYTES} bytes, {bytes} bytes per group\n");
    println!("| method | records/s | group p50 us | group p99 us | of the best |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    let faster = |a: &&Figures, b: &&Figures| a.per_second().total_cmp(&b.per_second());
    let Some(best) = figures.iter().max_by(faster) else {
        return;
    };
    for (name, own) in names.iter().zip(figures) {
        println!(
            "| {name} | {} | {:.0} | {:.0} | {:.2} |",
            rate(own.per_second()),
            own.p50_us,
            own.p99_us,
            own.times(best),
        );
    }
}

fn group_bytes(group: usize) -> usize {
    (group * RECORD_BYTES).next_multiple_of(BLOCK_BYTES)
}

/// One method with its file.
struct Writer {
    method: Method,
    file: Arc<File>,
    group: usize,
    bytes: Block,
    file_bytes: u64,
    offset: u64,
    ring: Option<Proactor>,
}

impl Writer {
    fn new(
        method: Method,
        folder: &Path,
        group: usize,
        file_bytes: u64,
    ) -> Result<Writer, std::io::Error> {
        let path = folder.join(method.name.replace([' ', '|', '>', ','], "_"));
        if method.space == Space::Zeroed {
            let zeros = vec![0; file_bytes as usize];
            std::fs::write(&path, zeros)?;
            File::open(&path)?.sync_all()?;
        }
        let mut flags = 0;
        if method.direct {
            flags |= libc::O_DIRECT;
        }
        if matches!(method.seal, Seal::Dsync | Seal::UringDsync) {
            flags |= libc::O_DSYNC;
        }
        let mut options = File::options();
        options.write(true).create(true).truncate(false).custom_flags(flags);
        let file = Arc::new(options.open(&path)?);
        let uring = matches!(method.seal, Seal::UringLinked | Seal::UringDsync);
        let ring = if uring { Some(ring()?) } else { None };
        let bytes = Block::new(group_bytes(group));
        let mut writer = Writer { method, file, group, bytes, file_bytes, offset: 0, ring };
        writer.wrap()?;
        Ok(writer)
    }

    fn case(&mut self, enough: Duration) -> Case<'_, Round> {
        Box::new(move || {
            self.round(enough).map_err(|error| format!("{}: {error}", self.method.name))
        })
    }

    fn round(&mut self, enough: Duration) -> Result<Round, std::io::Error> {
        let mut round = Round::new();
        while round.elapsed < enough {
            if self.offset + self.bytes.len as u64 > self.file_bytes {
                self.wrap()?;
            }
            let started = Instant::now();
            self.put()?;
            let wait = started.elapsed();
            round.acknowledged(self.group as u64, wait);
            round.elapsed += wait;
            self.offset += self.bytes.len as u64;
        }
        Ok(round)
    }

    /// Starts the file anew, as the next segment of a journal would.
    fn wrap(&mut self) -> Result<(), std::io::Error> {
        self.offset = 0;
        match self.method.space {
            Space::Zeroed => Ok(()),
            Space::Growing => self.file.set_len(0),
            Space::Promised => {
                self.file.set_len(0)?;
                let flags = rustix::fs::FallocateFlags::empty();
                rustix::fs::fallocate(&*self.file, flags, 0, self.file_bytes)?;
                self.file.sync_all()
            }
        }
    }

    /// Writes one group and comes back when it is on the disk.
    fn put(&mut self) -> Result<(), std::io::Error> {
        match (self.method.seal, &mut self.ring) {
            (Seal::Sync, _) => {
                self.file.write_all_at(self.bytes.as_init(), self.offset)?;
                self.file.sync_data()
            }
            (Seal::Dsync, _) => self.file.write_all_at(self.bytes.as_init(), self.offset),
            (Seal::UringLinked, Some(ring)) => {
                put_linked(ring, &self.file, &self.bytes, self.offset)
            }
            (Seal::UringDsync, Some(ring)) => {
                let write = WriteAt::new(Arc::clone(&self.file), self.offset, self.bytes.clone());
                let write = ring.push(write);
                whole(finish(ring, write)?, &self.bytes)
            }
            (Seal::UringLinked | Seal::UringDsync, None) => {
                Err(std::io::Error::other("a method of io_uring without a ring"))
            }
        }
    }
}

fn ring() -> Result<Proactor, std::io::Error> {
    let mut builder = Proactor::builder();
    let ring = builder.capacity(8).driver_type(DriverType::IoUring).build()?;
    Ok(ring)
}

/// Both requests go to the kernel in one call; the second starts when the first succeeded.
fn put_linked(
    ring: &mut Proactor,
    file: &Arc<File>,
    bytes: &Block,
    offset: u64,
) -> Result<(), std::io::Error> {
    let mut linked = ring.default_extra();
    linked.set_link();
    let write = WriteAt::new(Arc::clone(file), offset, bytes.clone());
    let write = ring.push_with_extra(write, linked);
    let sync = ring.push(SyncOp::new(Arc::clone(file), true));
    let written = finish(ring, write)?;
    finish(ring, sync)?;
    whole(written, bytes)
}

fn finish<T: OpCode>(
    ring: &mut Proactor,
    mut pushed: PushEntry<Key<T>, BufResult<usize, T>>,
) -> Result<usize, std::io::Error> {
    loop {
        match pushed {
            PushEntry::Ready(BufResult(result, _)) => return result,
            PushEntry::Pending(key) => {
                pushed = ring.pop(key);
                if matches!(pushed, PushEntry::Pending(_)) {
                    ring.poll(None)?;
                }
            }
        }
    }
}

fn whole(written: usize, bytes: &Block) -> Result<(), std::io::Error> {
    if written != bytes.len {
        let text = format!("{written} of {} bytes were written", bytes.len);
        return Err(std::io::Error::other(text));
    }
    Ok(())
}

/// A group's bytes at an address that `O_DIRECT` accepts.
#[derive(Clone, Debug)]
struct Block {
    memory: Arc<[u8]>,
    start: usize,
    len: usize,
}

impl Block {
    fn new(len: usize) -> Block {
        // Not zeros, so that no layer below can take a shortcut.
        let memory: Arc<[u8]> = (0..len + BLOCK_BYTES).map(|at| at as u8 | 1).collect();
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Block { memory, start, len }
    }
}

impl IoBuf for Block {
    fn as_init(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_fill_whole_blocks() {
        assert_eq!(GROUPS.map(group_bytes), [4096, 4096, 20_480, 327_680]);
        let block = Block::new(4096);
        assert_eq!(block.as_init().as_ptr().align_offset(BLOCK_BYTES), 0);
        assert_eq!(block.as_init().len(), 4096);
    }

    /// What each method acknowledged is what a reader finds, also after the file started anew.
    #[test]
    fn every_method_writes_what_it_counts() {
        let folder = folder_on_disk().unwrap();
        for method in METHODS {
            let mut writer = match Writer::new(method, folder.path(), 256, 1 << 20) {
                Ok(writer) => writer,
                // A kernel may forbid io_uring, a file system O_DIRECT; the benchmark then says so.
                Err(error) if method.direct || method.name.contains("io_uring") => {
                    println!("{}: {error}", method.name);
                    continue;
                }
                Err(error) => panic!("{}: {error}", method.name),
            };
            for _ in 0..3 {
                writer.put().unwrap();
                writer.offset += writer.bytes.len as u64;
            }
            let path = folder.path().join(method.name.replace([' ', '|', '>', ','], "_"));
            let bytes = std::fs::read(path).unwrap();
            let written = writer.bytes.as_init().repeat(3);
            assert_eq!(bytes[..written.len()], written, "{}", method.name);
        }
    }
}
