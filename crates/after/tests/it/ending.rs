//! How a queue ends; where its end is a matter of time, the tests of `handle.rs` show it.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use after::{Items, PushError, Setup};

/// More than any step here takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(600);

#[test]
fn work_that_does_not_return_is_not_waited_for() {
    let (release, held) = mpsc::channel::<()>();
    let (started, begun) = mpsc::channel();
    let mut setup = Setup::new("stuck", 4);
    let mut producer = setup.producer();
    let work = move |items: &mut Items<'_, u64>| {
        let _ = items.next();
        started.send(()).unwrap();
        let _ = held.recv();
    };
    let after = setup.start(work).unwrap();
    producer.push(1).unwrap();
    producer.push(2).unwrap();
    begun.recv().unwrap();
    let began = Instant::now();
    let ended = after.finish(Duration::from_millis(10));
    assert!(ended.stuck && !ended.is_complete());
    assert_eq!(ended.figures.depth(), 2, "one in the hands of the work, one in the queue");
    assert!(began.elapsed() < LONG);
    drop(release);
}

#[test]
fn a_queue_that_never_started_takes_what_fits_and_then_says_that_it_is_closed() {
    let mut setup = Setup::new("never", 2);
    let mut producer = setup.producer();
    producer.push(1).unwrap();
    producer.push(2).unwrap();
    assert_eq!(producer.push(3), Err(PushError::Full(3)));
    drop(setup);
    assert_eq!(producer.push(3), Err(PushError::Closed(3)));
}

#[test]
fn a_queue_without_producers_ends() {
    let after = Setup::new("nobody", 1).start(|_: &mut Items<'_, u8>| {}).unwrap();
    assert!(after.finish(LONG).is_complete());
}

#[test]
fn the_work_is_dropped_with_the_queue() {
    let (to_test, seen) = mpsc::channel::<u8>();
    let mut setup = Setup::new("work", 1);
    let mut producer = setup.producer();
    let after = setup
        .start(move |items: &mut Items<'_, u8>| items.for_each(|item| to_test.send(item).unwrap()))
        .unwrap();
    producer.push(7).unwrap();
    assert!(after.finish(LONG).is_complete());
    assert!(seen.iter().eq([7]), "the sender went with the work");
}
