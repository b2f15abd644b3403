//! One thread records, another reads meanwhile.
//!
//! The reader is the thread that is spawned: loom runs the other one first, up to its end, and then tries what the reader
//! may see of it. The other way round loom misses orders, as the recorder reads each counter before it stores it.

use crate::shared::{Reader, shared_histogram};

/// What a reader cannot be told: a count that was not made, or one whose value is above the maximum.
fn assert_sound(reader: &Reader) {
    let read = reader.read();
    let mut counts = read.counts.iter().zip(0..);
    let sound = counts.all(|(&count, value)| count <= 1 && (count == 0 || value <= read.max));
    assert!(sound, "{read:?}");
}

/// A reader that counts a value knows a maximum that is not below it.
///
/// # Panics
/// When it does not hold.
pub fn a_reader_sees_the_maximum_of_what_it_counts() {
    loom::model(|| {
        let (mut recorder, reader) = shared_histogram();
        let looking = loom::thread::spawn(move || assert_sound(&reader));
        for value in [1, 3] {
            recorder.record(value);
        }
        looking.join().expect("what it read is sound");
        let read = recorder.reader().read();
        assert_eq!((read.counts, read.max), (vec![0, 1, 0, 1], 3));
    });
}

/// Of two readings, the later one lacks nothing of the earlier one.
///
/// # Panics
/// When it does not hold.
pub fn what_was_seen_once_is_seen_again() {
    loom::model(|| {
        let (mut recorder, reader) = shared_histogram();
        let looking = loom::thread::spawn(move || {
            let (earlier, later) = (reader.read(), reader.read());
            let mut counts = earlier.counts.iter().zip(&later.counts);
            assert!(counts.all(|(then, now)| then <= now) && earlier.max <= later.max);
        });
        recorder.record_many(2, 5);
        looking.join().expect("what it read is sound");
    });
}
