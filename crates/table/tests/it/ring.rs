//! The ring: order, limits, the end.

use std::collections::VecDeque;
use std::rc::Rc;

use proptest::prelude::*;
use table::ring::{SendError, channel};

#[test]
fn a_full_ring_gives_the_item_back() {
    let (mut sender, mut receiver) = channel(2);
    assert_eq!(sender.room(), 2);
    assert_eq!((sender.try_send('a'), sender.try_send('b')), (Ok(()), Ok(())));
    assert_eq!(sender.try_send('c'), Err(SendError::Full('c')));
    assert_eq!(receiver.recv(), Some('a'));
    assert_eq!(sender.try_send('c'), Ok(()));
    assert_eq!((sender.room(), receiver.depth()), (0, 2));
}

#[test]
fn a_ring_without_a_receiver_says_so_and_takes_what_fits() {
    let (mut sender, receiver) = channel(2);
    assert!(!sender.is_closed());
    drop(receiver);
    assert!(sender.is_closed());
    assert_eq!((sender.try_send(1), sender.try_send(2)), (Ok(()), Ok(())));
    assert_eq!(sender.try_send(3), Err(SendError::Closed(3)));
}

#[test]
fn what_was_sent_outlives_its_sender() {
    let (mut sender, mut receiver) = channel(2);
    sender.try_send(1).expect("there is room");
    drop(sender);
    assert_eq!((receiver.recv(), receiver.recv()), (Some(1), None));
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

/// Two real threads: everything arrives once and in order.
#[test]
fn items_cross_threads_in_order() {
    let count: u64 = if cfg!(miri) { 200 } else { 200_000 };
    let (mut sender, mut receiver) = channel(16);
    let sending = std::thread::spawn(move || {
        for number in 0..count {
            while sender.try_send(number).is_err() {
                std::thread::yield_now();
            }
        }
    });
    let mut next = 0;
    while next < count {
        match receiver.recv() {
            Some(got) => {
                assert_eq!(got, next);
                next += 1;
            }
            None => std::thread::yield_now(),
        }
    }
    sending.join().expect("the sending thread ends well");
    assert_eq!(receiver.recv(), None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if cfg!(miri) { 4 } else { 256 }, failure_persistence: None, ..Default::default() })]

    #[test]
    fn behaves_like_a_bounded_queue(
        capacity in 1usize..9,
        steps in proptest::collection::vec(any::<bool>(), 0..200),
    ) {
        let (mut sender, mut receiver) = channel(capacity);
        let mut model = VecDeque::new();
        for (number, send) in steps.into_iter().enumerate() {
            match send {
                true if model.len() == capacity => {
                    prop_assert_eq!(sender.try_send(number), Err(SendError::Full(number)));
                }
                true => {
                    prop_assert_eq!(sender.try_send(number), Ok(()));
                    model.push_back(number);
                }
                false => prop_assert_eq!(receiver.recv(), model.pop_front()),
            }
            prop_assert_eq!(receiver.depth(), model.len());
            prop_assert_eq!(sender.room(), capacity - model.len());
        }
    }
}
