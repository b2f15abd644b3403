//! Frames of resolves that wait for the bank's answers.

use std::collections::VecDeque;

use door_transport::Out;
use wire::{ResolvedFlags, Verdict, resolved};

use crate::doors::Reply;

/// A frame of resolves and the answers to it so far.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The connection, as bits of its id.
    pub(crate) conn: u64,
    frame: u64,
    left: usize,
    answers: Vec<resolved::Answer>,
}

impl Batch {
    /// Writes the whole answer.
    pub(crate) fn write(&self, out: &mut Out<'_>) {
        let block = resolved::Block::new(self.frame);
        let len = resolved::encoded_len(self.answers.len());
        door_batch::write(out, len, |buf| {
            Ok(resolved::encode(buf, &block)?.answers(&self.answers)?.finish())
        });
    }
}

/// All waiting frames of a worker; their number is bounded.
#[derive(Debug)]
pub(crate) struct Waiting {
    batches: Vec<Option<Batch>>,
    free: Vec<u32>,
    complete: VecDeque<u32>,
    /// Kept for their memory.
    spare: Vec<Batch>,
    /// Answers by verdict.
    pub(crate) counts: [u64; 256],
}

impl Waiting {
    pub(crate) fn new(max: usize) -> Waiting {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        Waiting {
            batches: (0..max).map(|_| None).collect(),
            free: (0..max).rev().collect(),
            complete: VecDeque::new(),
            spare: Vec::new(),
            counts: [0; 256],
        }
    }

    /// Makes room for a frame's answers; `None` if too many frames wait.
    pub(crate) fn open(&mut self, conn: u64, frame: u64, entries: usize) -> Option<u32> {
        let index = self.free.pop()?;
        let mut batch = self.spare.pop().unwrap_or_default();
        (batch.conn, batch.frame, batch.left) = (conn, frame, entries);
        let empty = resolved::Answer::new(Verdict::Busy, ResolvedFlags::default());
        batch.answers.clear();
        batch.answers.resize(entries, empty);
        self.batches[index as usize] = Some(batch);
        Some(index)
    }

    /// Takes the answer to one entry.
    pub(crate) fn answer(&mut self, place: Reply, verdict: Verdict, repeat: bool) {
        let batch =
            self.batches[place.index as usize].as_mut().expect("answered once, while it waits");
        let flags = if repeat { ResolvedFlags::REPEAT } else { ResolvedFlags::default() };
        batch.answers[place.entry as usize] = resolved::Answer::new(verdict, flags);
        batch.left -= 1;
        self.counts[usize::from(verdict.as_raw())] += 1;
        if batch.left == 0 {
            self.complete.push_back(place.index);
        }
    }

    /// The next frame all of whose answers are there.
    pub(crate) fn next_complete(&mut self) -> Option<Batch> {
        let index = self.complete.pop_front()?;
        self.free.push(index);
        self.batches[index as usize].take()
    }

    /// Waits a frame of this connection?
    pub(crate) fn has(&self, conn: u64) -> bool {
        self.batches.iter().flatten().any(|batch| batch.conn == conn)
    }

    pub(crate) fn recycle(&mut self, batch: Batch) {
        self.spare.push(batch);
    }

    pub(crate) fn len(&self) -> usize {
        self.batches.len() - self.free.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: u32, entry: u32) -> Reply {
        Reply { door: 0, index, entry }
    }

    #[test]
    fn a_frame_is_complete_when_all_its_entries_are_answered() {
        let mut waiting = Waiting::new(2);
        let first = waiting.open(1, 10, 2).unwrap();
        let second = waiting.open(2, 20, 1).unwrap();
        assert_eq!(waiting.open(3, 30, 1), None, "bounded");
        waiting.answer(place(first, 1), Verdict::Settled, false);
        assert!(waiting.next_complete().is_none());
        waiting.answer(place(second, 0), Verdict::Forged, false);
        assert_eq!(waiting.next_complete().map(|batch| batch.frame), Some(20));
        waiting.answer(place(first, 0), Verdict::Released, true);
        let batch = waiting.next_complete().unwrap();
        assert_eq!(batch.answers[1].verdict(), Some(Verdict::Settled));
        assert!(batch.answers[0].flags().repeat());
        assert!(waiting.is_empty());
    }
}
