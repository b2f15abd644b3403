//! Frames of resolves, and of later ends, that wait for the bank's answers.

use door_transport::Out;
use weir_till::{Pending, Reply};
use wire::{ResolvedFlags, Verdict, extended, resolved};

/// A frame of resolves and the answers to it so far.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The connection, as bits of its id.
    pub(crate) conn: u64,
    frame: u64,
    left: usize,
    answers: Vec<resolved::Answer>,
    /// Of a frame of later ends; it has no other answers.
    extended: Vec<extended::Answer>,
}

impl Batch {
    /// Writes the whole answer.
    pub(crate) fn write(&self, out: &mut Out<'_>) {
        if !self.extended.is_empty() {
            return self.write_extended(out);
        }
        let block = resolved::Block::new(self.frame);
        let len = resolved::encoded_len(self.answers.len());
        crate::write(out, len, |buf| {
            Ok(resolved::encode(buf, &block)?.answers(&self.answers)?.finish())
        });
    }

    #[cold]
    fn write_extended(&self, out: &mut Out<'_>) {
        let block = extended::Block::new(self.frame);
        let len = extended::encoded_len(self.extended.len());
        crate::write(out, len, |buf| {
            Ok(extended::encode(buf, &block)?.answers(&self.extended)?.finish())
        });
    }
}

/// All waiting frames of a worker.
#[derive(Debug)]
pub(crate) struct Resolving {
    pub(crate) frames: Pending<Batch>,
    /// Kept for their memory.
    spare: Vec<Batch>,
    /// Answers by verdict.
    pub(crate) counts: [u64; 256],
}

impl Resolving {
    pub(crate) fn new(max: usize) -> Resolving {
        Resolving { frames: Pending::new(max), spare: Vec::new(), counts: [0; 256] }
    }

    /// Makes room for a frame's answers; `None` if too many frames wait.
    pub(crate) fn open(&mut self, conn: u64, frame: u64, entries: usize) -> Option<u32> {
        if self.frames.is_full() {
            return None;
        }
        let mut batch = self.spare.pop().unwrap_or_default();
        (batch.conn, batch.frame, batch.left) = (conn, frame, entries);
        let empty = resolved::Answer::new(Verdict::Busy, ResolvedFlags::default());
        batch.answers.clear();
        batch.answers.resize(entries, empty);
        self.frames.open(batch)
    }

    /// The same for a frame of later ends.
    pub(crate) fn open_extends(&mut self, conn: u64, frame: u64, entries: usize) -> Option<u32> {
        let index = self.open(conn, frame, entries)?;
        let batch = self.frames.get_mut(index).expect("just opened");
        let empty = extended::Answer::new(Verdict::Busy, ResolvedFlags::default(), 0);
        batch.extended.resize(entries, empty);
        Some(index)
    }

    /// Takes the answer to one entry.
    #[inline]
    pub(crate) fn answer(&mut self, place: Reply, verdict: Verdict, repeat: bool) {
        let batch = self.frames.get_mut(place.index).expect("answered once, while it waits");
        let flags = if repeat { ResolvedFlags::REPEAT } else { ResolvedFlags::default() };
        batch.answers[place.entry as usize] = resolved::Answer::new(verdict, flags);
        batch.left -= 1;
        self.counts[usize::from(verdict.as_raw())] += 1;
        if batch.left == 0 {
            self.frames.done(place.index);
        }
    }

    /// The same of a later end.
    pub(crate) fn answer_extend(&mut self, place: Reply, verdict: Verdict, end: (u64, bool)) {
        let (deadline_ms, repeat) = end;
        let batch = self.frames.get_mut(place.index).expect("answered once, while it waits");
        let flags = if repeat { ResolvedFlags::REPEAT } else { ResolvedFlags::default() };
        batch.extended[place.entry as usize] = extended::Answer::new(verdict, flags, deadline_ms);
        self.answer(place, verdict, repeat);
    }

    /// A frame that was answered; its memory is used again.
    pub(crate) fn recycle(&mut self, mut batch: Batch) {
        batch.extended.clear();
        self.spare.push(batch);
    }

    /// Waits a frame of this connection?
    pub(crate) fn has(&self, conn: u64) -> bool {
        self.frames.iter().any(|batch| batch.conn == conn)
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
        let mut resolving = Resolving::new(2);
        let first = resolving.open(1, 10, 2).unwrap();
        let second = resolving.open(2, 20, 1).unwrap();
        assert_eq!(resolving.open(3, 30, 1), None, "bounded");
        resolving.answer(place(first, 1), Verdict::Settled, false);
        assert!(resolving.frames.next_done().is_none() && resolving.has(1));
        resolving.answer(place(second, 0), Verdict::Forged, false);
        assert_eq!(resolving.frames.next_done().map(|batch| batch.frame), Some(20));
        resolving.answer(place(first, 0), Verdict::Released, true);
        let batch = resolving.frames.next_done().unwrap();
        assert_eq!(batch.answers[1].verdict(), Some(Verdict::Settled));
        assert!(batch.answers[0].flags().repeat());
        assert!(resolving.frames.is_empty() && !resolving.has(1));
    }
}
