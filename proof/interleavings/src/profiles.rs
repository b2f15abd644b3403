//! The background thread stores users; workers forget them in memory, and ask whether they are stored.

use std::collections::BTreeMap;

use crate::filter::Filter;
use crate::positions::Positions;
use crate::stripes::Stripes;
use crate::sync::Arc;

const USER: u64 = 42;

/// A worker asks for a user at the moment when the filter takes its last user and is complete.
///
/// # Panics
/// When it does not hold.
pub fn a_stored_user_is_never_a_stranger_when_the_filter_becomes_complete() {
    loom::model(|| {
        let filter = Arc::new(Filter::new(1));
        let warming = {
            let filter = Arc::clone(&filter);
            loom::thread::spawn(move || {
                filter.insert(USER);
                filter.complete();
            })
        };
        assert!(filter.may_contain(USER));
        warming.join().expect("it does not panic");
        assert!(filter.may_contain(USER) && filter.is_complete());
    });
}

/// Two threads insert users whose bits lie in one line.
///
/// # Panics
/// When it does not hold.
pub fn two_who_insert_into_one_line_lose_nothing() {
    loom::model(|| {
        let filter = Arc::new(Filter::new(1));
        filter.complete();
        let inserting = {
            let filter = Arc::clone(&filter);
            loom::thread::spawn(move || filter.insert(USER))
        };
        filter.insert(USER + 1);
        inserting.join().expect("it does not panic");
        assert!(filter.may_contain(USER) && filter.may_contain(USER + 1));
    });
}

/// A worker forgets a user whose counts are in the store; another worker asks for the user right then.
///
/// # Panics
/// When it does not hold.
pub fn a_user_who_left_memory_is_found_in_the_filter() {
    const SEQ: u64 = 7;
    loom::model(|| {
        let filter = Arc::new(Filter::new(1));
        filter.complete();
        let positions = Arc::new(Positions::new(0));
        let stripes = Arc::new(Stripes::new(1, BTreeMap::new));
        stripes.of(USER).insert(USER, SEQ);
        let folding = {
            let (filter, positions) = (Arc::clone(&filter), Arc::clone(&positions));
            loom::thread::spawn(move || {
                filter.insert(USER);
                positions.set_folded(SEQ);
            })
        };
        let forgetting = {
            let (stripes, positions) = (Arc::clone(&stripes), Arc::clone(&positions));
            loom::thread::spawn(move || {
                let folded = positions.folded();
                stripes.of(USER).retain(|_, seq| *seq > folded);
            })
        };
        let in_memory = stripes.of(USER).contains_key(&USER);
        assert!(in_memory || filter.may_contain(USER), "a stored user is taken for a stranger");
        folding.join().expect("it does not panic");
        forgetting.join().expect("it does not panic");
    });
}
