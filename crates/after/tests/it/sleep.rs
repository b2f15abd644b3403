//! A sleeping worker is woken, a working one is not.

use std::sync::mpsc;
use std::time::Duration;

use after::{Items, Setup};

use crate::ending::LONG;

#[test]
fn a_push_after_a_pause_wakes_the_worker_once() {
    let (to_test, seen) = mpsc::channel();
    let mut setup = Setup::new("sleeps", 64);
    let mut producer = setup.producer();
    let work = move |items: &mut Items<'_, u32>| items.for_each(|item| to_test.send(item).unwrap());
    let after = setup.start(work).unwrap();
    let gauge = after.gauge();
    for round in 0..5 {
        // Each time at another moment of the worker's falling asleep.
        std::thread::sleep(Duration::from_micros(40 * round));
        let before = gauge.read().wakes;
        (0..10).for_each(|item| producer.push(item).unwrap());
        assert!((0..10).eq(seen.iter().take(10)));
        assert!(gauge.read().wakes - before <= 10);
    }
    // Long enough to be asleep, on any machine, in one of these rounds.
    let slept = (0..2_000).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        let before = gauge.read().wakes;
        producer.push(7).unwrap();
        assert_eq!(seen.recv(), Ok(7));
        gauge.read().wakes == before + 1
    });
    assert!(slept, "{:?}", gauge.read());
    assert!(after.finish(LONG).is_complete());
}

/// The time asleep is no waiting: nobody waited.
#[test]
fn the_longest_wait_is_that_of_an_item() {
    let (to_test, seen) = mpsc::channel();
    let mut setup = Setup::new("waits", 4);
    let mut producer = setup.producer();
    let work = move |items: &mut Items<'_, u32>| {
        items.for_each(drop);
        std::thread::sleep(Duration::from_millis(30));
        to_test.send(()).unwrap();
    };
    let after = setup.start(work).unwrap();
    let gauge = after.gauge();
    producer.push(1).unwrap();
    seen.recv().unwrap();
    assert!(after.finish(LONG).is_complete());
    assert!(gauge.read().longest_wait >= Duration::from_millis(30), "{:?}", gauge.read());
}
