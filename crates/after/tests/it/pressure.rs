//! A full queue.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use after::{Items, PushError, Setup};

use crate::ending::LONG;

#[test]
fn a_full_queue_gives_the_item_back_and_counts_it() {
    let (release, held) = mpsc::channel::<()>();
    let (started, begun) = mpsc::channel();
    let mut setup = Setup::new("full", 2);
    let mut producer = setup.producer();
    let work = move |items: &mut Items<'_, String>| {
        items.for_each(drop);
        started.send(()).unwrap();
        let _ = held.recv();
    };
    let after = setup.start(work).unwrap();
    producer.push("held by the work".to_owned()).unwrap();
    begun.recv().unwrap();
    producer.push("one".to_owned()).unwrap();
    producer.push("two".to_owned()).unwrap();
    let back = producer.push("three".to_owned());
    assert_eq!(back, Err(PushError::Full("three".to_owned())));
    assert_eq!(producer.room(), 0);

    let began = Instant::now();
    let back = producer.push_wait("four".to_owned(), Duration::from_millis(10));
    assert_eq!(back, Err(PushError::Full("four".to_owned())));
    assert!(began.elapsed() >= Duration::from_millis(10));
    let figures = after.gauge().read();
    assert_eq!((figures.pushed, figures.refused, figures.depth()), (3, 2, 3));

    drop(release);
    producer.push_wait("five".to_owned(), LONG).unwrap();
    let ended = after.finish(LONG);
    assert!(ended.is_complete());
    assert_eq!(ended.figures.done, 4);
    assert!(ended.figures.longest_wait >= Duration::from_millis(10), "{ended:?}");
}

#[test]
fn a_wait_ends_when_the_queue_does() {
    let mut setup = Setup::<u8>::new("wait", 1);
    let mut producer = setup.producer();
    producer.push(1).unwrap();
    let waits = std::thread::spawn(move || producer.push_wait(2, LONG));
    drop(setup);
    assert_eq!(waits.join().unwrap(), Err(PushError::Closed(2)));
}
