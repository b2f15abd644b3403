//! Notices on their way: first to the profiles' log, where a billed impression is counted, then to the bank, then back
//! to who sent them. Nothing is acknowledged before it is on disk.

use std::collections::VecDeque;

use door_transport::ConnId;
use ledger::{Action, Amount, Hold};

use super::note::Note;

/// A notice that was found genuine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitingNotice {
    /// Who waits.
    pub(crate) conn: ConnId,
    /// What it wants of the hold.
    pub(crate) action: Action,
    /// The hold.
    pub(crate) hold: Hold,
    /// Settle: what was spent.
    pub(crate) amount: Amount,
    /// What the bid noted.
    pub(crate) note: Note,
}

/// All notices of a worker that wait; their number is bounded.
#[derive(Debug)]
pub(crate) struct WaitingNotices {
    all: Vec<Option<WaitingNotice>>,
    free: Vec<u32>,
    /// Those that wait for the profiles' log, with the number it must reach, in order.
    logged: VecDeque<(u64, u32)>,
}

impl WaitingNotices {
    pub(crate) fn new(max: usize) -> WaitingNotices {
        let max = u32::try_from(max).unwrap_or(u32::MAX);
        WaitingNotices {
            all: (0..max).map(|_| None).collect(),
            free: (0..max).rev().collect(),
            logged: VecDeque::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len() - self.free.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.free.is_empty()
    }

    /// Keeps a notice and returns its place; `None` if too many wait.
    pub(crate) fn open(&mut self, waiting: WaitingNotice) -> Option<u32> {
        let index = self.free.pop()?;
        self.all[index as usize] = Some(waiting);
        Some(index)
    }

    /// The notice goes to the bank once the profiles' log has written so far.
    pub(crate) fn after_log(&mut self, index: u32, sequence: u64) {
        self.logged.push_back((sequence, index));
    }

    /// The next notice whose count is written, with its place.
    pub(crate) fn next_logged(&mut self, written: u64) -> Option<(u32, WaitingNotice)> {
        let (_, index) = self.logged.pop_front_if(|(sequence, _)| *sequence <= written)?;
        let waiting = self.all[index as usize].expect("it waits until it is closed");
        Some((index, waiting))
    }

    /// The bank has answered.
    pub(crate) fn close(&mut self, index: u32) -> WaitingNotice {
        self.free.push(index);
        self.all[index as usize].take().expect("answered once, while it waits")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doors::openrtb::note::Naming;

    fn waiting(campaign: u64) -> WaitingNotice {
        let note = Note {
            campaign,
            user: 1,
            price_micros: 1,
            multiplier_micros: 1,
            rate: weir_config::campaign_index::PinnedRate::ONE,
            capped: true,
            test: false,
            creative: 0,
            kind: None,
            naming: Naming::Earlier,
        };
        let amount = Amount::new(1);
        let hold = Hold { grant: 1, seq: 1, node: 1, deadline_ms: 0, amount };
        WaitingNotice { conn: ConnId::from_bits(7), action: Action::Settle, hold, amount, note }
    }

    #[test]
    fn notices_go_to_the_bank_when_they_are_logged() {
        let mut all = WaitingNotices::new(2);
        let first = all.open(waiting(1)).unwrap();
        let second = all.open(waiting(2)).unwrap();
        assert!(all.is_full() && all.open(waiting(3)).is_none());
        all.after_log(first, 10);
        all.after_log(second, 11);
        assert!(all.next_logged(9).is_none());
        let (reply, logged) = all.next_logged(10).unwrap();
        assert_eq!((reply, logged.note.campaign), (first, 1));
        assert!(all.next_logged(10).is_none());
        assert_eq!(all.next_logged(12).unwrap().0, second);
        assert_eq!(all.close(second).note.campaign, 2);
        assert_eq!((all.len(), all.close(first).note.campaign), (1, 1));
        assert_eq!(all.len(), 0);
    }
}
