//! What is still owed to the node: confirms, settles and releases, waiting for their time or for their answer.

use std::collections::VecDeque;

use crate::asks::Repeat;

/// A hold token as it travels.
pub(crate) type Token = [u8; 32];

/// What a notice does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Won.
    Confirm,
    /// Book the spend.
    Settle,
    /// The same settle once more; the node must answer with `first` and book nothing.
    Again {
        /// The verdict of the first; `None` while it is in flight in the same frame.
        first: Option<u8>,
    },
    /// Lost.
    Release,
}

/// One notice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    /// The hold.
    pub token: Token,
    /// The request id of its ask, by which the node's books know the settlement.
    pub request_id: u64,
    /// When to send it, ns since the start of the run.
    pub due_ns: u64,
    /// Until when the hold certainly lives: the ask was sent then, plus the node's hold time.
    pub alive_until_ns: u64,
    /// Since when the hold is certainly gone, were it not confirmed: the grant was read then, plus the hold time.
    pub gone_from_ns: u64,
    /// What to settle, in micros; 0 for the other kinds.
    pub price: i64,
    /// What the hold set aside, in micros.
    pub hold: i64,
    /// Budget index.
    pub budget: u32,
    /// What it does.
    pub kind: Kind,
    /// Whether the settle is to be repeated.
    pub repeat: Repeat,
    /// The hold was confirmed: the billing deadline counts.
    pub confirmed: bool,
    /// How often the node put it off.
    pub attempts: u8,
}

/// Notices of one connection that wait for their time. Each queue has one constant delay, so each is sorted by itself.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// Confirms: due at once.
    prompt: VecDeque<Notice>,
    /// Settles, releases, repeats.
    delayed: VecDeque<Notice>,
    /// Settles that wait for their hold to expire.
    late: VecDeque<Notice>,
}

impl Waiting {
    /// Number of notices waiting.
    #[must_use]
    pub(crate) fn len(&self) -> usize {
        self.prompt.len() + self.delayed.len() + self.late.len()
    }

    /// Whether nothing waits.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a notice behind those of its kind.
    pub(crate) fn push(&mut self, notice: Notice, late: bool) {
        match notice.kind {
            Kind::Confirm => self.prompt.push_back(notice),
            _ if late => self.late.push_back(notice),
            _ => self.delayed.push_back(notice),
        }
    }

    /// When the first notice is due.
    #[must_use]
    pub(crate) fn first_due_ns(&self) -> Option<u64> {
        let due = |queue: &VecDeque<Notice>| queue.front().map(|n| n.due_ns);
        [due(&self.prompt), due(&self.delayed), due(&self.late)].into_iter().flatten().min()
    }

    /// Takes the next notice that is due. Confirms come first: a settle never overtakes its own confirm.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<Notice> {
        for queue in [&mut self.prompt, &mut self.delayed, &mut self.late] {
            if queue.front().is_some_and(|n| n.due_ns <= now_ns) {
                return queue.pop_front();
            }
        }
        None
    }

    /// Whether `group` notices are due, or one has been for `linger_ns`: then a frame is worth sending.
    #[must_use]
    pub(crate) fn is_ripe(&self, now_ns: u64, group: usize, linger_ns: u64) -> bool {
        let Some(first) = self.first_due_ns() else { return false };
        if first.saturating_add(linger_ns) <= now_ns {
            return true;
        }
        let due = |queue: &VecDeque<Notice>| {
            queue.get(group.saturating_sub(1)).is_some_and(|n| n.due_ns <= now_ns)
        };
        due(&self.prompt) || due(&self.delayed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(kind: Kind, due_ns: u64) -> Notice {
        Notice {
            token: [0; 32],
            request_id: 0,
            due_ns,
            alive_until_ns: 0,
            gone_from_ns: 0,
            price: 1,
            hold: 1,
            budget: 0,
            kind,
            repeat: Repeat::Never,
            confirmed: false,
            attempts: 0,
        }
    }

    #[test]
    fn nothing_leaves_before_its_time() {
        let mut waiting = Waiting::default();
        waiting.push(notice(Kind::Settle, 10), false);
        assert!(waiting.take(9).is_none());
        assert!(waiting.take(10).is_some());
        assert!(waiting.is_empty());
    }

    #[test]
    fn a_confirm_goes_before_its_settle_even_without_delay() {
        let mut waiting = Waiting::default();
        waiting.push(notice(Kind::Settle, 5), false);
        waiting.push(notice(Kind::Confirm, 5), false);
        assert_eq!(waiting.take(5).map(|n| n.kind), Some(Kind::Confirm));
        assert_eq!(waiting.take(5).map(|n| n.kind), Some(Kind::Settle));
    }

    #[test]
    fn a_frame_is_ripe_when_full_or_when_one_has_waited() {
        let mut waiting = Waiting::default();
        assert!(!waiting.is_ripe(0, 2, 100));
        waiting.push(notice(Kind::Settle, 5), false);
        assert!(!waiting.is_ripe(6, 2, 100));
        assert!(waiting.is_ripe(105, 2, 100));
        waiting.push(notice(Kind::Settle, 6), false);
        assert!(waiting.is_ripe(6, 2, 100));
    }

    #[test]
    fn late_settles_do_not_hold_up_the_others() {
        let mut waiting = Waiting::default();
        waiting.push(notice(Kind::Settle, 1_000), true);
        waiting.push(notice(Kind::Settle, 10), false);
        assert_eq!(waiting.first_due_ns(), Some(10));
        assert_eq!(waiting.take(10).map(|n| n.due_ns), Some(10));
        assert!(waiting.take(999).is_none());
        assert!(waiting.take(1_000).is_some());
    }
}
