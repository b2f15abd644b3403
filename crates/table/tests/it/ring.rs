//! The ring: order, limits, close, counters.

use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;
use table::ring::{Counts, SendError, channel};

#[test]
fn a_full_ring_gives_the_item_back_and_counts() {
    let (mut sender, mut receiver) = channel(2);
    assert_eq!(sender.room(), 2);
    assert_eq!((sender.try_send('a'), sender.try_send('b')), (Ok(()), Ok(())));
    assert_eq!(sender.try_send('c'), Err(SendError::Full('c')));
    assert_eq!(receiver.recv(), Some('a'));
    assert_eq!(sender.try_send('c'), Ok(()));
    let counts = sender.gauge().read();
    assert_eq!(counts, Counts { sent: 3, received: 1, full: 1 });
    assert_eq!((counts.depth(), receiver.depth()), (2, 2));
}

#[test]
fn a_dropped_receiver_closes_the_ring() {
    let (mut sender, receiver) = channel(2);
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!(sender.try_send(1), Err(SendError::Closed(1)));
    assert_eq!(sender.gauge().read(), Counts::default());
}

#[test]
fn a_dropped_sender_closes_only_when_all_is_received() {
    let (mut sender, mut receiver) = channel(2);
    sender.try_send(1).expect("there is room");
    drop(sender);
    assert!(!receiver.is_closed());
    assert_eq!(receiver.recv(), Some(1));
    assert!(receiver.is_closed());
    assert_eq!(receiver.recv(), None);
}

#[test]
fn items_left_in_the_ring_are_dropped_with_it() {
    let item = Rc::new(());
    let (mut sender, receiver) = channel(4);
    sender.try_send(Rc::clone(&item)).expect("there is room");
    drop(receiver);
    drop(sender);
    assert_eq!(Rc::strong_count(&item), 1);
}

#[test]
fn a_capacity_of_zero_is_one() {
    let (mut sender, _receiver) = channel(0);
    assert_eq!(sender.try_send(1), Ok(()));
    assert_eq!(sender.try_send(2), Err(SendError::Full(2)));
}

/// Two real threads: everything arrives once and in order, whether taken singly or in chunks.
#[test]
fn items_cross_threads_in_order() {
    let count: u64 = if cfg!(miri) { 200 } else { 200_000 };
    let (mut sender, mut receiver) = channel(16);
    let gauge = receiver.gauge();
    let sending = std::thread::spawn(move || {
        for number in 0..count {
            while sender.try_send(number).is_err() {
                std::thread::yield_now();
            }
        }
    });
    let mut next = 0;
    while !receiver.is_closed() {
        if next % 3 == 0 {
            next += u64::from(receiver.recv().inspect(|&got| assert_eq!(got, next)).is_some());
        } else if receiver.drain(5, |got| {
            assert_eq!(got, next);
            next += 1
        }) == 0
        {
            std::thread::yield_now();
        }
    }
    sending.join().expect("the sending thread ends well");
    assert_eq!(next, count);
    let counts = gauge.read();
    assert_eq!((counts.sent, counts.received, counts.depth()), (count, count, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn behaves_like_a_bounded_queue(
        capacity in 1usize..9,
        steps in proptest::collection::vec((any::<bool>(), 0usize..6), 0..200),
    ) {
        let (mut sender, mut receiver) = channel(capacity);
        let mut model = VecDeque::new();
        let mut full = 0;
        for (number, (send, max)) in steps.into_iter().enumerate() {
            match (send, max) {
                (true, _) if model.len() == capacity => {
                    prop_assert_eq!(sender.try_send(number), Err(SendError::Full(number)));
                    full += 1;
                }
                (true, _) => {
                    prop_assert_eq!(sender.try_send(number), Ok(()));
                    model.push_back(number);
                }
                (false, 0) => prop_assert_eq!(receiver.recv(), model.pop_front()),
                (false, max) => {
                    let mut got = Vec::new();
                    let taken = receiver.drain(max, |item| got.push(item));
                    let expected: Vec<usize> = model.drain(..max.min(model.len())).collect();
                    prop_assert_eq!(taken, got.len());
                    prop_assert_eq!(got, expected);
                }
            }
            prop_assert_eq!(receiver.depth(), model.len());
            prop_assert_eq!(sender.room(), capacity - model.len());
        }
        let counts = sender.gauge().read();
        prop_assert_eq!((counts.depth(), counts.full), (model.len() as u64, full));
    }
}
