//! The node's journal on the simulated disk. `weir` runs its parts on three threads; here they take turns.

use std::cell::{Ref, RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use ledger::{
    Bank, Claimed, MemoAnswer, NamedLeg, Options, Out, Record, ToWorker, TokenKey, UnsealedCredits,
};
use ledger_journal::files::BLOCK_BYTES;
use ledger_journal::snapshot::{self, Advanced};
use ledger_journal::{Gather, Group, Keep, Log, NotAppended, ReadError, Tail, Writer};
use ledger_journal::{format, prepare_short, segment_head, segments};

use wire::Handle;

use crate::Bug;
use crate::engine::{NodeLog, SharedEngine};
use crate::files::SimFolder;
use crate::lease::Lease;
use crate::named::Message;
use crate::planted::NodeFolder;
use crate::rng::Rng;
use crate::timed::Told;

/// The node's number, in its tokens and its files.
pub(crate) const NODE: u16 = 1;

/// How a run's journal is configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) segment_bytes: u64,
    pub(crate) unsealed_bytes_max: usize,
    pub(crate) keep: Keep,
}

impl Sizes {
    /// Small, so that a short run sees many segments and snapshots.
    pub(crate) fn draw(rng: &mut Rng) -> Sizes {
        let segment_bytes = (4 + rng.below(40)) * BLOCK_BYTES as u64;
        let keep = Keep {
            snapshot_bytes: segment_bytes * rng.below(4),
            bytes_max: segment_bytes * rng.below(6),
            ms_max: if rng.chance(500) { u64::MAX } else { rng.below(20_000) },
            unread: u64::MAX,
        };
        let unsealed_bytes_max = if rng.chance(300) { 2_000 + rng.index(20_000) } else { 1 << 24 };
        Sizes { segment_bytes, unsealed_bytes_max, keep }
    }
}

/// Something that may be known only once the records before it are sealed.
#[derive(Debug)]
pub(crate) enum Held {
    Down(usize, ToWorker),
    /// What became of a claim, for a worker.
    Claimed(usize, u64, Claimed),
    /// What became of a memo, for a worker.
    Memo(usize, u64, MemoAnswer),
    /// A worker hears of a budget that was made: which template, and its slot.
    Opened(usize, usize, u32),
    /// All workers hear that a made budget ended.
    Ended(Handle),
    /// The door hears what became of its message: was anything changed, and how many changes there are by now.
    Named(Message, bool, usize),
    /// A client hears what became of its hold that ends by time.
    Timed(Told),
    /// Workers may make tokens with it.
    Key(TokenKey),
    /// An owner hears of a change: how many were made by then.
    Change(u64),
}

/// A journal of one run.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: NodeFolder,
    sizes: Sizes,
    gather: Gather,
    sealer: Rc<RefCell<Sealer>>,
    /// With the first sequence that need not be sealed for it, in order.
    held: VecDeque<(u64, Held)>,
    credits: UnsealedCredits,
    /// Workers were told that the journal cannot seal.
    pub(crate) told_failing: bool,
}

impl Journal {
    /// A journal that goes on where a recovery ended.
    pub(crate) fn new(
        folder: NodeFolder,
        sizes: Sizes,
        tail: Tail,
        engine: Option<SharedEngine>,
        rng: Rng,
    ) -> Journal {
        let disk = Writer::with_short_segments(folder.clone(), NODE, sizes.segment_bytes, tail);
        let bug = folder.bug();
        let log = NodeLog::new(disk, engine, bug);
        Journal {
            folder,
            sizes,
            gather: Gather::new(tail.position),
            sealer: Rc::new(RefCell::new(Sealer::new(log, bug, rng))),
            held: VecDeque::new(),
            credits: UnsealedCredits::default(),
            told_failing: false,
        }
    }

    /// Takes over what a step of the bank led to; returns the records.
    pub(crate) fn append(&mut self, out: &mut Out, bank: &Bank) -> Vec<Record> {
        self.credits.note(bank, out, self.gather.next_sequence());
        self.credits.sealed(self.sealed());
        for record in &out.records {
            self.gather.append(record, bank.now_ms());
        }
        let downs = out.messages.drain(..);
        let downs = downs.map(|(worker, message)| Held::Down(usize::from(worker), message));
        let needed = self.gather.next_sequence();
        self.held.extend(downs.map(|down| (needed, down)));
        std::mem::take(&mut out.records)
    }

    /// Holds something back until all records so far are sealed.
    pub(crate) fn hold(&mut self, held: Held) {
        self.held.push_back((self.gather.next_sequence(), held));
    }

    /// Does an ask for these legs, granted just now, lean on what is not sealed?
    pub(crate) fn leans(&self, bank: &Bank, legs: &[NamedLeg]) -> bool {
        self.credits.lean(bank, legs, self.sealed())
    }

    /// Gives the writer the next group, if it has none.
    pub(crate) fn turn(&mut self) {
        let mut sealer = self.sealer.borrow_mut();
        if let Some(group) = sealer.sealed_group.take() {
            self.gather.recycle(group);
        }
        if sealer.group.is_none() {
            sealer.group = self.gather.take();
        }
    }

    /// The next thing whose records are sealed; with `early` (a planted bug) whether or not they are.
    pub(crate) fn next_held(&mut self, early: bool) -> Option<Held> {
        let sealed = self.sealed();
        let (_, held) = self.held.pop_front_if(|(needed, _)| early || *needed <= sealed)?;
        Some(held)
    }

    /// Messages to workers that wait for their records.
    pub(crate) fn held_messages(&self) -> impl Iterator<Item = (usize, &ToWorker)> {
        self.held.iter().filter_map(|(_, held)| match held {
            Held::Down(worker, message) => Some((*worker, message)),
            _ => None,
        })
    }

    /// The writer, between two turns.
    pub(crate) fn sealer(&self) -> Ref<'_, Sealer> {
        self.sealer.borrow()
    }

    pub(crate) fn sealer_mut(&mut self) -> RefMut<'_, Sealer> {
        self.sealer.borrow_mut()
    }

    /// All records before this sequence are sealed.
    pub(crate) fn sealed(&self) -> u64 {
        self.sealer().log.position().sequence
    }

    /// All records were sealed.
    pub(crate) fn is_sealed(&self) -> bool {
        self.sealed() == self.gather.next_sequence()
    }

    /// So much waits that no more should be taken on.
    pub(crate) fn is_full(&self) -> bool {
        let writing = self.sealer().group.as_ref().map_or(0, |group| group.bytes().len());
        self.gather.bytes() + writing >= self.sizes.unsealed_bytes_max
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.sealer().failing
    }

    /// The housekeeper makes the next segment ready, while the writer goes on.
    pub(crate) fn prepare(&mut self) -> std::io::Result<()> {
        prepare_short(&self.folder.beside(&self.sealer), self.sizes.segment_bytes)
    }

    /// The housekeeper makes a snapshot if one is due, and removes what is old, while the writer goes on.
    pub(crate) fn advance(
        &mut self,
        options: &Options,
        now_ms: u64,
    ) -> Result<Advanced, ReadError> {
        let folder = self.folder.beside(&self.sealer);
        snapshot::advance(&folder, options, &self.sizes.keep, now_ms, &AtomicBool::new(false))
    }

    /// A housekeeper with a bug: it takes the snapshot from the running bank, not from what is sealed.
    pub(crate) fn snapshot_of(&mut self, bank: &Bank, options: &Options) -> Result<(), ReadError> {
        let Some(open) = segments(&self.folder)?.pop() else { return Ok(()) };
        let head = segment_head(&self.folder, open)?;
        let head = format::FileHead { kind: format::Kind::Snapshot, ..head };
        snapshot::write(&self.folder, bank, &head, options)
    }
}

/// The writer and the group that it has.
#[derive(Debug)]
pub(crate) struct Sealer {
    log: NodeLog,
    group: Option<Group>,
    /// The last one that was sealed, to be recycled.
    sealed_group: Option<Group>,
    /// The last attempt failed.
    pub(crate) failing: bool,
    /// The last attempt was its last one: the crash met it.
    pub(crate) stopped: bool,
    /// What an acknowledged append renews, and when the group at hand was sent first.
    pub(crate) lease: Option<Rc<Lease>>,
    sent_ms: Option<u64>,
    /// The log refused a group for good: the bank has to stop.
    pub(crate) refused: Option<NotAppended>,
    bug: Option<Bug>,
    /// Segments begun, as far as they were counted.
    segments: u64,
    /// It does nothing before this: a slow disk.
    pub(crate) stuck_until_ms: u64,
    pub(crate) now_ms: u64,
    /// Decides when it interrupts the housekeeper.
    rng: Rng,
    /// What happened, to be counted.
    pub(crate) events: Vec<&'static str>,
}

impl Sealer {
    fn new(log: NodeLog, bug: Option<Bug>, rng: Rng) -> Sealer {
        Sealer {
            log,
            bug,
            group: None,
            sealed_group: None,
            failing: false,
            stopped: false,
            lease: None,
            sent_ms: None,
            refused: None,
            segments: 0,
            stuck_until_ms: 0,
            now_ms: 0,
            rng,
            events: Vec::new(),
        }
    }

    /// Writes its group, if it has one. One that failed is written again.
    pub(crate) fn turn(&mut self) {
        if self.is_stuck() || self.refused.is_some() {
            return;
        }
        let Some(group) = &self.group else { return };
        self.log.set_now_ms(self.now_ms);
        self.sent_ms.get_or_insert(self.now_ms);
        match self.log.append(group) {
            Ok(()) => self.sealed(),
            Err(NotAppended::Unknown(error)) => self.failed(&error),
            Err(refused) => self.refused = Some(refused),
        }
    }

    /// Why the log was right to refuse a group for good; an error if it was not.
    pub(crate) fn check_refused(&self, refused: &NotAppended) -> Result<(), String> {
        self.log.check_refused(refused)
    }

    fn sealed(&mut self) {
        self.sealed_group = self.group.take();
        let sent_ms = self.sent_ms.take().filter(|_| self.bug != Some(Bug::LeaseFromReceipt));
        if let Some(lease) = &self.lease {
            lease.renew(sent_ms.unwrap_or(self.now_ms));
        }
        let begun = self.log.segments_begun();
        if begun > std::mem::replace(&mut self.segments, begun) {
            self.events.push("segment begun");
        }
        if std::mem::take(&mut self.failing) {
            self.events.push("writer works again");
        }
    }

    fn failed(&mut self, error: &std::io::Error) {
        if SimFolder::is_crash(error) {
            self.stopped = true;
            return;
        }
        self.failing = true;
        if self.bug == Some(Bug::DoubtIsFailure) {
            self.group = self.group.take().map(|group| closed_again(&group));
        }
        self.events.push(match error.kind() {
            std::io::ErrorKind::TimedOut => "writer in doubt",
            std::io::ErrorKind::StorageFull => "writer failed: disk full",
            _ => "writer failed",
        });
    }

    /// In the middle of something else.
    pub(crate) fn interrupt(&mut self) {
        if self.group.is_some() && self.rng.chance(50) {
            self.events.push("writer beside the housekeeper");
            self.turn();
        }
    }

    /// Does it seal nothing at present?
    pub(crate) fn is_stuck(&self) -> bool {
        self.now_ms < self.stuck_until_ms
    }
}

/// A planted bug: what was in doubt is closed once more, as another group of the same records.
fn closed_again(group: &Group) -> Group {
    let mut gather = Gather::new(*group.before());
    let read = group.each_record(|record| {
        gather.append(&record, group.at_ms() + 1);
    });
    read.expect("its own records");
    gather.take().expect("a group has records")
}
