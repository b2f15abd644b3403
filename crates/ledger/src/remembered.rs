//! Remembered answers: repeating a request id within its lifetime gives the first answer, and a "no" stays "no".
//!
//! Optional, because it is the dear part of a gate: a table touched at random once more a request. It is a
//! fixed table of sets of eight; where all eight places of a set hold live answers, the request is refused
//! (`Busy`) rather than answered in a way that could not be repeated.

use wire::Verdict;

use crate::Hold;

const WAYS: usize = 8;

/// What was answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answer {
    /// The verdict.
    pub verdict: Verdict,
    /// The hold, if one was granted. Its token is made again from it.
    pub hold: Option<Hold>,
}

/// What the table knows of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recall {
    /// New: decide it, then [`Remembered::store`] the answer at this place.
    New(Place),
    /// Seen before with the same content: the first answer.
    Answered(Answer),
    /// Seen before with other content: refuse with `IdReused`.
    Different,
    /// No place for another answer: refuse with `Busy`.
    Full,
}

/// Where an answer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    set: usize,
    way: usize,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Keys([u64; WAYS]);

#[derive(Clone, Copy, Debug)]
struct Entry {
    expires_ms: u64,
    content: u64,
    answer: Answer,
}

/// A worker's table of remembered answers.
#[derive(Clone, Debug)]
pub struct Remembered {
    keys: Vec<Keys>,
    entries: Vec<[Entry; WAYS]>,
    lifetime_ms: u64,
    secret: u64,
}

impl Remembered {
    /// A table for about `answers` live answers (four times as many places of about 100 bytes, so that
    /// sets seldom fill up), each remembered for `lifetime_ms`.
    /// `secret` keeps strangers from choosing ids that fall into one set.
    pub fn new(answers: usize, lifetime_ms: u64, secret: u64) -> Remembered {
        let sets = (answers / 2).max(64).next_power_of_two();
        let nothing = Answer { verdict: Verdict::Busy, hold: None };
        let free = Entry { expires_ms: 0, content: 0, answer: nothing };
        Remembered {
            keys: vec![Keys([0; WAYS]); sets],
            entries: vec![[free; WAYS]; sets],
            lifetime_ms,
            secret,
        }
    }

    /// Looks a request up. `key` names it (client and request id), `content` is a digest of the rest of it.
    pub fn recall(&self, key: u64, content: u64, now_ms: u64) -> Recall {
        let set = self.set(key);
        let (keys, entries) = (&self.keys[set].0, &self.entries[set]);
        let mut free = None;
        for way in 0..WAYS {
            let live = entries[way].expires_ms > now_ms;
            if live && keys[way] == key {
                let same = entries[way].content == content;
                return if same {
                    Recall::Answered(entries[way].answer)
                } else {
                    Recall::Different
                };
            }
            if !live && free.is_none() {
                free = Some(way);
            }
        }
        free.map_or(Recall::Full, |way| Recall::New(Place { set, way }))
    }

    /// Stores the answer to a request that [`Remembered::recall`] called new, before any other is looked up.
    pub fn store(&mut self, place: Place, key: u64, content: u64, answer: Answer, now_ms: u64) {
        let expires_ms = now_ms.saturating_add(self.lifetime_ms);
        self.keys[place.set].0[place.way] = key;
        self.entries[place.set][place.way] = Entry { expires_ms, content, answer };
    }

    /// The splitmix64 finaliser (Steele, Lea, Flood, 2014) over key and secret.
    fn set(&self, key: u64) -> usize {
        let mut x = key ^ self.secret;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^= x >> 31;
        usize::try_from(x % self.keys.len() as u64).expect("below a length")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Answer = Answer { verdict: Verdict::Exhausted, hold: None };

    fn ask(table: &mut Remembered, key: u64, content: u64, now_ms: u64) -> Recall {
        let recall = table.recall(key, content, now_ms);
        if let Recall::New(place) = recall {
            table.store(place, key, content, NO, now_ms);
        }
        recall
    }

    #[test]
    fn a_no_stays_no_for_its_lifetime() {
        let mut table = Remembered::new(64, 1000, 5);
        assert!(matches!(ask(&mut table, 1, 10, 0), Recall::New(_)));
        assert_eq!(ask(&mut table, 1, 10, 999), Recall::Answered(NO));
        assert_eq!(ask(&mut table, 1, 11, 999), Recall::Different);
        assert!(matches!(ask(&mut table, 1, 11, 1000), Recall::New(_)));
    }

    #[test]
    fn a_full_set_refuses_and_recovers() {
        let mut table = Remembered::new(64, 1000, 5);
        let full = (0..2000).filter(|key| ask(&mut table, *key, 0, 0) == Recall::Full).count();
        assert_eq!(full, 2000 - 64 * WAYS, "every place is used before any request is refused");
        for key in 0..2000 {
            assert!(!matches!(table.recall(key, 0, 1000), Recall::Full));
        }
    }
}
