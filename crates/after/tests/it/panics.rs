//! A panic of the work ends one call.

use std::sync::mpsc;

use after::{Items, Setup};

use crate::ending::LONG;

#[test]
fn the_rest_of_the_batch_is_done_and_what_was_taken_is_in_doubt() {
    let (to_test, seen) = mpsc::channel();
    let mut setup = Setup::new("panics", 16);
    let mut producer = setup.producer();
    (0..10).for_each(|item| producer.push(item).unwrap());
    let work = move |items: &mut Items<'_, u32>| {
        for item in items {
            assert!(item % 5 != 3, "planted at {item}");
            to_test.send(item).unwrap();
        }
    };
    let after = setup.start(work).unwrap();
    let ended = after.finish(LONG);
    assert!(seen.iter().eq([0, 1, 2, 4, 5, 6, 7, 9]));
    let figures = ended.figures;
    assert_eq!(figures.panics, 2);
    // Taken in the calls that panicked: 0 to 3, 4 to 8. Only 9 was taken by a call that returned.
    assert_eq!((figures.in_doubt, figures.done, figures.depth()), (9, 1, 0));
    assert!(!ended.stuck && !ended.is_complete());
}
