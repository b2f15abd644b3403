//! SequenceReset (4): the peer fills a gap, or gives messages up.

use fix::{Message, RejectReason};

use crate::judge::{is_yes, rejection};
use crate::session::Session;
use crate::store::MessageStore;
use crate::turn::{Notice, Turn};

/// The largest NewSeqNo (36): far beyond any session, and far enough from the end of the numbers to count on.
const NEW_SEQ_NO_MAX: u64 = 1_000_000_000_000_000_000;

impl Session {
    pub(crate) fn sequence_reset<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) {
        if !is_yes(message, 123) {
            self.skip(message, seq, turn);
        } else if self.is_next(message, seq, turn) {
            self.gap_fill(message, seq, turn);
        }
    }

    /// A gap fill with the expected number.
    pub(crate) fn gap_fill<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) {
        match self.new_seq(message, seq, turn) {
            None => {}
            Some(new_seq) if new_seq > seq => {
                self.expect_next(new_seq, turn);
            }
            Some(_) => {
                let low = rejection(RejectReason::ValueIncorrect, Some(36));
                self.reject_and_count(message, seq, low, turn);
            }
        }
    }

    /// SequenceReset-Reset: its own number does not matter.
    fn skip<S: MessageStore>(&mut self, message: &Message<'_>, seq: u64, turn: &mut Turn<'_, S>) {
        let Some(new_seq) = self.new_seq(message, seq, turn) else { return };
        let expected = turn.store.next_in();
        if new_seq < expected {
            let low = rejection(RejectReason::ValueIncorrect, None);
            self.reject(message, seq, low, turn);
        } else if new_seq > expected && self.expect_next(new_seq, turn) {
            turn.out.notices.push(Notice::PeerSkipped { from: expected, to: new_seq - 1 });
        }
    }

    /// NewSeqNo (36); a message without one is rejected.
    fn new_seq<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) -> Option<u64> {
        let reason = match (message.value(36), message.number_or_max(36)) {
            (_, Some(new_seq)) if new_seq <= NEW_SEQ_NO_MAX => return Some(new_seq),
            (_, Some(_)) => RejectReason::ValueIncorrect,
            (Some(_), None) => RejectReason::IncorrectDataFormat,
            (None, None) => RejectReason::RequiredTagMissing,
        };
        self.reject_and_count(message, seq, rejection(reason, Some(36)), turn);
        None
    }
}
