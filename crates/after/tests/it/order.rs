//! Nothing is lost, nothing is done twice, and each producer's order is kept.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use after::{Items, PushError, Setup};
use proptest::prelude::*;

use crate::ending::LONG;

/// (producer, number), in the order in which the work saw them.
type Seen = Arc<Mutex<Vec<(u8, u32)>>>;

/// Each producer's numbers, in the order in which the work saw them.
fn of(seen: &[(u8, u32)], producer: u8) -> Vec<u32> {
    seen.iter().filter(|(from, _)| *from == producer).map(|(_, number)| *number).collect()
}

/// Pushes 0..count from `producers` threads at once; a full queue is tried again.
fn run(producers: u8, capacity: usize, count: u32, batch: usize) -> (Vec<(u8, u32)>, after::Ended) {
    let seen = Seen::default();
    let mut setup = Setup::new("order", capacity);
    let ends: Vec<_> = (0..producers).map(|_| setup.producer()).collect();
    let into = Arc::clone(&seen);
    let after = setup
        .start(move |items: &mut Items<'_, (u8, u32)>| {
            into.lock().unwrap().extend(items.take(batch));
        })
        .unwrap();
    std::thread::scope(|scope| {
        for (name, mut end) in (0_u8..).zip(ends) {
            scope.spawn(move || {
                for number in 0..count {
                    // Now and then long enough a pause for the worker to fall asleep.
                    if number % 97 == 96 {
                        std::thread::sleep(Duration::from_micros(u64::from(number % 5) * 100));
                    }
                    while let Err(PushError::Full(_)) = end.push((name, number)) {
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let ended = after.finish(LONG);
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    (seen, ended)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn every_item_once_and_in_order(
        producers in 1_u8..4,
        capacity in 1_usize..200,
        count in 0_u32..800,
        batch in 1_usize..300,
    ) {
        let (seen, ended) = run(producers, capacity, count, batch);
        prop_assert!(ended.is_complete(), "{ended:?}");
        prop_assert_eq!(ended.figures.pushed, u64::from(count) * u64::from(producers));
        prop_assert_eq!(ended.figures.in_doubt, 0);
        for producer in 0..producers {
            prop_assert!(of(&seen, producer).into_iter().eq(0..count));
        }
    }
}

#[test]
fn what_a_producer_left_behind_is_done() {
    let (to_test, seen) = std::sync::mpsc::channel();
    let mut setup = Setup::new("gone", 8);
    let (mut gone, mut stays) = (setup.producer(), setup.producer());
    (0..8).for_each(|item| gone.push(item).unwrap());
    drop(gone);
    let after = setup
        .start(move |items: &mut Items<'_, u32>| items.for_each(|item| to_test.send(item).unwrap()))
        .unwrap();
    assert!((0..8).eq(seen.iter().take(8)));
    stays.push(8).unwrap();
    assert_eq!(seen.recv(), Ok(8));
    assert!(after.finish(LONG).is_complete());
}
