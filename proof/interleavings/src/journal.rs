//! The bank's thread hands records over, and waits until they are sealed; the journal's writer takes and seals them.

use std::time::{Duration, Instant};

use crate::handover::{Handover, Waiting};
use crate::sync::{
    Arc, AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Longer than any run: only somebody who waits for a record ends it.
const FOREVER: Duration = Duration::from_secs(1 << 32);

/// A thread is interrupted so often in one run: sleeping and being woken have too many orders for more.
const PREEMPTIONS: usize = 3;

#[derive(Debug, Default)]
struct Records(Vec<u64>);

impl Waiting for Records {
    type Taken = Vec<u64>;

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn take(&mut self) -> Option<Vec<u64>> {
        (!self.is_empty()).then(|| std::mem::take(&mut self.0))
    }
}

/// The threads share the handover, the last record that is in the log, and whether the writer has ended: loom cannot
/// unpark a thread that joins another.
#[derive(Clone, Debug)]
struct Shared {
    handover: Arc<Handover<Records>>,
    written: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Shared {
    fn new() -> Shared {
        let handover = Arc::new(Handover::new(Records::default(), 1));
        let (written, ended) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        Shared { handover, written, ended }
    }

    /// The writer, up to its end. It gathers as long as nobody waits, where `idle` says so.
    fn write(&self, idle: Duration, bank: &loom::thread::Thread) {
        let mut last = Some(Instant::now());
        while let Some(taken) = self.handover.next(last.take(), [Duration::ZERO, idle]) {
            let before = self.written.load(Relaxed);
            assert_eq!(taken.first(), Some(&(before + 1)), "in order, none twice, none lost");
            let end = before + u64::try_from(taken.len()).expect("few");
            self.written.store(end, Relaxed);
            self.handover.seal(end + 1, bank);
            self.handover.give_back(|_| ());
        }
        self.ended.store(true, Release);
        bank.unpark();
    }

    fn append(&self, record: u64, urgent: bool) {
        self.handover.append(urgent, |records| records.0.push(record));
    }

    /// The bank sleeps until all records up to this one are sealed.
    fn wait_for(&self, record: u64) {
        loop {
            let sealed = self.handover.sealed();
            assert!(self.written.load(Relaxed) + 1 >= sealed, "sealed, and not written");
            if sealed > record {
                return;
            }
            loom::thread::park();
        }
    }
}

fn model(idle: Duration, bank: impl Fn(&Shared) + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.check(move || {
        let shared = Shared::new();
        let (writer, thread) = (shared.clone(), loom::thread::current());
        loom::thread::spawn(move || writer.write(idle, &thread));
        bank(&shared);
        shared.handover.end();
        while !shared.ended.load(Acquire) {
            loom::thread::park();
        }
        assert_eq!((shared.written.load(Relaxed), shared.handover.sealed()), (2, 3));
    });
}

/// Whatever is called sealed is in the log, and the bank is told of each record.
///
/// # Panics
/// When it does not hold.
pub fn what_is_sealed_is_written_and_told() {
    model(Duration::ZERO, |shared| {
        shared.append(1, true);
        shared.append(2, true);
        shared.wait_for(2);
    });
}

/// Who asks at any moment sees of the log what is called sealed. As with histograms, the reader is the spawned thread.
///
/// # Panics
/// When it does not hold.
pub fn a_reader_sees_what_is_sealed() {
    loom::model(|| {
        let shared = Shared::new();
        shared.append(1, true);
        let reading = {
            let shared = shared.clone();
            loom::thread::spawn(move || {
                let sealed = shared.handover.sealed();
                assert!(shared.written.load(Relaxed) + 1 >= sealed, "sealed, and not written");
            })
        };
        let taken = shared.handover.next(None, [Duration::ZERO; 2]);
        assert_eq!(taken, Some(vec![1]));
        shared.written.store(1, Relaxed);
        // Not the reader: for loom, being unparked shows it everything.
        shared.handover.seal(2, &loom::thread::current());
        reading.join().expect("what it read is sound");
    });
}

/// A writer that gathers is woken by the first record that somebody waits for.
///
/// # Panics
/// When it does not hold.
pub fn a_writer_that_gathers_is_woken_by_who_waits() {
    model(FOREVER, |shared| {
        shared.append(1, false);
        shared.append(2, true);
        shared.wait_for(2);
    });
}

/// A record that nobody waits for comes behind one that somebody waits for, before the writer looks.
///
/// # Panics
/// When it does not hold.
pub fn who_waits_is_not_forgotten() {
    model(FOREVER, |shared| {
        shared.append(1, true);
        shared.append(2, false);
        shared.wait_for(1);
    });
}

/// The end meets a writer that sleeps, gathers or writes: everything is written.
///
/// # Panics
/// When it does not hold.
pub fn an_end_leaves_nothing_behind() {
    model(FOREVER, |shared| {
        shared.append(1, true);
        shared.append(2, false);
    });
}
