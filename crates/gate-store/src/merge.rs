//! Sorted sources to one sorted, folded sequence.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::run::RunReader;
use crate::{Record, StoreError};

/// Which ids may be forgotten, so that their records become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forget {
    /// All: nothing is written, or no repeat can come any more.
    All,
    /// Those whose life ended at this time: every record that was appended before it is at hand.
    EndedBy(u64),
}

/// What folding depends on.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// Records older than this are left out.
    pub(crate) dead_before_ms: u64,
    pub(crate) forget: Forget,
    /// Key ranges of runs that may hold repeats and are not at hand: ids of these keys are kept.
    pub(crate) elsewhere: Vec<(u64, u64)>,
}

impl Rule {
    fn keeps_id<R: Record>(&self, record: &R) -> bool {
        let alive = match self.forget {
            Forget::All => false,
            Forget::EndedBy(by_ms) => record.time_ms().saturating_add(R::ID_LIFE_MS) > by_ms,
        };
        let (id, key) = (record.id(), record.key());
        id != 0 && (alive || self.elsewhere.iter().any(|(min, max)| (*min..=*max).contains(&key)))
    }
}

/// Where the order puts a record; sources of one window are numbered from the oldest on.
pub(crate) fn order<R: Record>(record: &R) -> (u64, u64, u64) {
    (record.key(), record.sub(), record.id())
}

/// Folds records of one (key, sub, window) that are in order of id and, among equal ids, of age.
pub(crate) fn fold_group<R: Record>(group: &mut Vec<R>, rule: &Rule) {
    group.dedup_by(|next, first| next.id() != 0 && next.id() == first.id());
    group.retain(|record| record.time_ms() >= rule.dead_before_ms);
    let mut foldable = group.iter().filter(|record| !rule.keeps_id(*record));
    let (Some(first), Some(second)) = (foldable.next(), foldable.next()) else { return };
    let total = foldable.fold(first.merge(second), |total, next| total.merge(next));
    debug_assert_eq!(total.id(), 0, "a merged record has no id");
    group.retain(|record| rule.keeps_id(record));
    group.insert(0, total);
}

/// Folds any records of one key and window that arrived oldest first.
pub(crate) fn fold_key<R: Record>(records: &mut Vec<R>, from: usize, rule: &Rule) {
    let mut unfolded = records.split_off(from);
    unfolded.sort_by_key(order);
    let mut group = Vec::new();
    for same_sub in unfolded.chunk_by(|one, next| one.sub() == next.sub()) {
        group.clear();
        group.extend_from_slice(same_sub);
        fold_group(&mut group, rule);
        records.extend_from_slice(&group);
    }
}

/// Something in order of [`order`].
#[derive(Debug)]
pub(crate) enum Source<R> {
    /// A run, read as it is needed.
    Run(RunReader<R>),
    /// A segment, sorted in memory.
    Memory(std::vec::IntoIter<R>),
}

impl<R: Record> Source<R> {
    /// A segment's records, from the order of their arrival.
    pub(crate) fn unsorted(mut records: Vec<R>) -> Source<R> {
        records.sort_by_key(order);
        Source::Memory(records.into_iter())
    }

    fn next(&mut self) -> Result<Option<R>, StoreError> {
        match self {
            Source::Run(reader) => reader.next(),
            Source::Memory(records) => Ok(records.next()),
        }
    }
}

/// The next record of a source.
#[derive(Debug)]
struct Head<R> {
    record: R,
    window_ms: u64,
    source: usize,
}

impl<R: Record> Head<R> {
    fn group(&self) -> (u64, u64, u64) {
        (self.record.key(), self.record.sub(), self.window_ms)
    }
}

impl<R: Record> Ord for Head<R> {
    /// The greatest is the first in order: [`BinaryHeap`] gives the greatest.
    fn cmp(&self, other: &Head<R>) -> Ordering {
        let own = (self.group(), self.record.id(), self.source);
        let others = (other.group(), other.record.id(), other.source);
        others.cmp(&own)
    }
}

impl<R: Record> PartialOrd for Head<R> {
    fn partial_cmp(&self, other: &Head<R>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<R: Record> PartialEq for Head<R> {
    fn eq(&self, other: &Head<R>) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<R: Record> Eq for Head<R> {}

/// Merges sources, group by group.
#[derive(Debug)]
pub(crate) struct Merger<R> {
    sources: Vec<Source<R>>,
    heads: BinaryHeap<Head<R>>,
    group: Vec<R>,
    rule: Rule,
    read: u64,
}

impl<R: Record> Merger<R> {
    /// Merges sources with the windows they are of, oldest first.
    pub(crate) fn new(sources: Vec<(u64, Source<R>)>, rule: Rule) -> Result<Merger<R>, StoreError> {
        let mut merger = Merger {
            sources: Vec::new(),
            heads: BinaryHeap::new(),
            group: Vec::new(),
            rule,
            read: 0,
        };
        for (source, (window_ms, mut records)) in sources.into_iter().enumerate() {
            if let Some(record) = records.next()? {
                merger.heads.push(Head { record, window_ms, source });
            }
            merger.sources.push(records);
        }
        Ok(merger)
    }

    /// Records taken from the sources so far.
    pub(crate) fn read(&self) -> u64 {
        self.read
    }

    /// The records of the next (key, sub, window), folded; `None` at the end. It is empty if all were dead.
    pub(crate) fn next_group(&mut self) -> Result<Option<&[R]>, StoreError> {
        self.group.clear();
        let Some(group) = self.heads.peek().map(Head::group) else { return Ok(None) };
        while let Some(mut head) = self.heads.peek_mut() {
            if head.group() != group {
                break;
            }
            self.group.push(head.record);
            self.read += 1;
            match self.sources[head.source].next()? {
                Some(record) => head.record = record,
                None => drop(PeekMut::pop(head)),
            }
        }
        fold_group(&mut self.group, &self.rule);
        Ok(Some(&self.group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Delta {
        id: u64,
        time_ms: u64,
        count: u64,
    }

    impl Record for Delta {
        const BYTES: usize = 1;
        const LAYOUT: u32 = 0;
        const ID_LIFE_MS: u64 = 100;

        fn key(&self) -> u64 {
            0
        }

        fn id(&self) -> u64 {
            self.id
        }

        fn time_ms(&self) -> u64 {
            self.time_ms
        }

        fn merge(&self, newer: &Delta) -> Delta {
            let time_ms = self.time_ms.max(newer.time_ms);
            Delta { id: 0, time_ms, count: self.count + newer.count }
        }

        fn to_bytes(&self, _: &mut [u8]) {}

        fn from_bytes(_: &[u8]) -> Delta {
            Delta { id: 0, time_ms: 0, count: 0 }
        }
    }

    fn rule(forget: Forget) -> Rule {
        Rule { dead_before_ms: 0, forget, elsewhere: vec![] }
    }

    fn folded(rule: &Rule, group: &[(u64, u64, u64)]) -> Vec<(u64, u64, u64)> {
        let delta = |&(id, time_ms, count)| Delta { id, time_ms, count };
        let mut group: Vec<Delta> = group.iter().map(delta).collect();
        fold_group(&mut group, rule);
        group.into_iter().map(|delta| (delta.id, delta.time_ms, delta.count)).collect()
    }

    #[test]
    fn a_repeat_counts_once_and_ids_are_kept_while_they_live() {
        let group = [(0, 1_000, 5), (7, 1_000, 1), (7, 1_000, 1), (8, 1_000, 1)];
        let kept = folded(&rule(Forget::EndedBy(1_099)), &group);
        assert_eq!(kept, [(0, 1_000, 5), (7, 1_000, 1), (8, 1_000, 1)]);
        assert_eq!(folded(&rule(Forget::EndedBy(1_100)), &group), [(0, 1_000, 7)]);
        assert_eq!(folded(&rule(Forget::All), &group), [(0, 1_000, 7)]);
    }

    #[test]
    fn only_what_is_old_enough_becomes_a_total() {
        let group = [(7, 1_000, 1), (8, 1_060, 2), (9, 1_000, 4)];
        let folded = folded(&rule(Forget::EndedBy(1_110)), &group);
        assert_eq!(folded, [(0, 1_000, 5), (8, 1_060, 2)]);
    }

    #[test]
    fn ids_are_kept_where_another_run_may_hold_a_repeat() {
        let group = [(7, 1_000, 1), (8, 1_000, 2)];
        let rule = Rule { elsewhere: vec![(0, 3)], ..rule(Forget::All) };
        assert_eq!(folded(&rule, &group), group);
        let rule = Rule { elsewhere: vec![(1, 3)], ..rule };
        assert_eq!(folded(&rule, &group), [(0, 1_000, 3)]);
    }

    #[test]
    fn what_is_dead_is_left_out() {
        let rule = |dead_before_ms| Rule { dead_before_ms, ..rule(Forget::All) };
        assert_eq!(folded(&rule(1_001), &[(0, 1_000, 5), (0, 1_001, 1)]), [(0, 1_001, 1)]);
        assert_eq!(folded(&rule(9_000), &[(0, 1_000, 5)]), []);
    }
}
