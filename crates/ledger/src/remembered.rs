//! Remembered answers: repeating a request id within its lifetime gives the first answer, and a "no" stays "no".
//!
//! Optional, because it is the dear part of a gate: a table touched at random once more a request. It is a
//! fixed table of sets of eight; where all eight places of a set hold live answers, the request is refused
//! (`Busy`) rather than answered in a way that could not be repeated.

use table::spread;
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

/// A request: what names it, and what it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What the client wants to be known by.
    pub client: u64,
    /// The client's number for it. The two name a request; both are kept whole, so that no two names are taken for one.
    pub id: u64,
    /// Everything else of it. Kept as a digest under the table's secret: nobody can choose two that pass for the same.
    pub content: [u64; 4],
}

/// Everything that the table knows of a request.
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

/// Of each place a digest of the name: a set is looked through in one cache line. Equal digests are compared as names.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Tags([u64; WAYS]);

#[derive(Clone, Copy, Debug)]
struct Entry {
    expires_ms: u64,
    client: u64,
    id: u64,
    content: u64,
    answer: Answer,
}

/// A worker's table of remembered answers.
#[derive(Clone, Debug)]
pub struct Remembered {
    tags: Vec<Tags>,
    entries: Vec<[Entry; WAYS]>,
    lifetime_ms: u64,
    blind: u64,
    factor: u64,
}

impl Remembered {
    /// A table for about `answers` live answers (four times as many places of about 120 bytes, so that
    /// sets seldom fill up), each remembered for `lifetime_ms`.
    /// `secret`, 128 random bits, keeps strangers from choosing ids that fall into one set, and contents that look the same.
    pub fn new(answers: usize, lifetime_ms: u64, secret: u128) -> Remembered {
        let sets = (answers / 2).max(64).next_power_of_two();
        let nothing = Answer { verdict: Verdict::Busy, hold: None };
        let free = Entry { expires_ms: 0, client: 0, id: 0, content: 0, answer: nothing };
        #[allow(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
        let (low, high) = (secret as u64, (secret >> 64) as u64);
        // Spread first: a weak secret can be guessed, but does no harm.
        let blind = spread(low ^ 0x9e37_79b9_7f4a_7c15);
        Remembered {
            tags: vec![Tags([0; WAYS]); sets],
            entries: vec![[free; WAYS]; sets],
            lifetime_ms,
            blind,
            factor: spread(high ^ blind.rotate_left(32)) | 1,
        }
    }

    /// Looks a request up.
    pub fn recall(&self, request: &Request, now_ms: u64) -> Recall {
        let tag = self.digest(&[request.client, request.id]);
        let set = self.set(tag);
        let (tags, entries) = (&self.tags[set].0, &self.entries[set]);
        let mut free = None;
        for way in 0..WAYS {
            let entry = &entries[way];
            let live = entry.expires_ms > now_ms;
            let same_name = (entry.client, entry.id) == (request.client, request.id);
            if live && tags[way] == tag && same_name {
                return if entry.content == self.digest(&request.content) {
                    Recall::Answered(entry.answer)
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
    pub fn store(&mut self, place: Place, request: &Request, answer: Answer, now_ms: u64) {
        let expires_ms = now_ms.saturating_add(self.lifetime_ms);
        self.tags[place.set].0[place.way] = self.digest(&[request.client, request.id]);
        let Request { client, id, content } = *request;
        let content = self.digest(&content);
        self.entries[place.set][place.way] = Entry { expires_ms, client, id, content, answer };
    }

    /// One word after the other is folded into the sum: a 128-bit product with a secret factor, its halves taken together.
    fn digest(&self, words: &[u64]) -> u64 {
        words.iter().fold(self.blind, |sum, word| {
            let product = u128::from(sum ^ word) * u128::from(self.factor);
            #[allow(clippy::cast_possible_truncation, reason = "the two halves are wanted")]
            let (low, high) = (product as u64, (product >> 64) as u64);
            (low ^ high).wrapping_add(self.blind.rotate_left(23))
        })
    }

    fn set(&self, tag: u64) -> usize {
        usize::try_from(spread(tag) % self.tags.len() as u64).expect("below a length")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO: Answer = Answer { verdict: Verdict::Exhausted, hold: None };

    const SECRET: u128 = 0x0123_4567_89ab_cdef_1122_3344_5566_7788;

    fn request(client: u64, id: u64, content: u64) -> Request {
        Request { client, id, content: [content, 0, 0, 0] }
    }

    fn ask_as(table: &mut Remembered, request: &Request, now_ms: u64) -> Recall {
        let recall = table.recall(request, now_ms);
        if let Recall::New(place) = recall {
            table.store(place, request, NO, now_ms);
        }
        recall
    }

    fn ask(table: &mut Remembered, id: u64, content: u64, now_ms: u64) -> Recall {
        ask_as(table, &request(7, id, content), now_ms)
    }

    #[test]
    fn requests_of_different_names_are_never_one() {
        // Under any secret, weak ones as well.
        for secret in [0, 1, u128::MAX, SECRET] {
            let mut table = Remembered::new(4_096, 1000, secret);
            let mut names =
                vec![(1, 1000), (2, 1000 ^ 0x6000_0000), (1000, 1), (0, 0), (0, 1), (1, 0)];
            // All pairs whose exclusive or is the same, however it is rotated.
            names.extend((0..64).map(|bit| (1_u64 << bit, 5_u64.rotate_left(bit))));
            for (client, id) in &names {
                let recall = ask_as(&mut table, &request(*client, *id, 1), 0);
                assert!(matches!(recall, Recall::New(_)), "{client} {id}: {recall:?}");
            }
            for (client, id) in &names {
                assert_eq!(ask_as(&mut table, &request(*client, *id, 1), 0), Recall::Answered(NO));
            }
        }
    }

    #[test]
    fn every_word_of_the_content_counts() {
        let mut table = Remembered::new(64, 1000, SECRET);
        let first = Request { client: 1, id: 2, content: [3, 4, 5, 6] };
        ask_as(&mut table, &first, 0);
        for word in 0..4 {
            for bit in 0..64 {
                let mut other = first;
                other.content[word] ^= 1 << bit;
                assert_eq!(
                    ask_as(&mut table, &other, 0),
                    Recall::Different,
                    "word {word}, bit {bit}"
                );
            }
        }
        let swapped = Request { content: [4, 3, 5, 6], ..first };
        assert_eq!(ask_as(&mut table, &swapped, 0), Recall::Different);
        assert_eq!(ask_as(&mut table, &first, 0), Recall::Answered(NO));
    }

    #[test]
    fn a_no_stays_no_for_its_lifetime() {
        let mut table = Remembered::new(64, 1000, SECRET);
        assert!(matches!(ask(&mut table, 1, 10, 0), Recall::New(_)));
        assert_eq!(ask(&mut table, 1, 10, 999), Recall::Answered(NO));
        assert_eq!(ask(&mut table, 1, 11, 999), Recall::Different);
        assert!(matches!(ask(&mut table, 1, 11, 1000), Recall::New(_)));
    }

    #[test]
    fn a_full_set_refuses_and_recovers() {
        let mut table = Remembered::new(64, 1000, SECRET);
        let full = (0..2000).filter(|key| ask(&mut table, *key, 0, 0) == Recall::Full).count();
        assert_eq!(full, 2000 - 64 * WAYS, "every place is used before any request is refused");
        for key in 0..2000 {
            assert!(!matches!(table.recall(&request(7, key, 0), 1000), Recall::Full));
        }
    }
}
