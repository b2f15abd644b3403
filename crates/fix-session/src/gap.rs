//! Messages that are missing, and those that came before their turn.

use std::collections::BTreeMap;

use fix::Message;

use crate::compose::Fields;
use crate::session::{Session, SessionState};
use crate::store::MessageStore;
use crate::turn::{Notice, Turn};

/// How long the peer has to send something that was asked for, and how often it is asked for the same.
pub(crate) const RESEND_WAIT_MS: u64 = 10_000;
const REQUESTS_MAX: u32 = 3;

/// What is missing, and what was done about it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gap {
    /// The last message that is known to be missing.
    to: u64,
    /// The last message that was asked for; the largest number for all there are.
    asked_to: u64,
    /// When it was asked for, or when the expected number last moved.
    pub(crate) since_ms: u64,
    requests: u32,
    /// The expected number, to see whether it moves.
    next_in: u64,
}

/// Messages with numbers above the expected one, up to a number of bytes. Those beyond are not kept: they are asked for again once their
/// turn comes.
#[derive(Clone, Debug)]
pub(crate) struct EarlyMessages {
    messages: BTreeMap<u64, Box<[u8]>>,
    bytes: usize,
    bytes_max: usize,
}

impl EarlyMessages {
    pub(crate) fn new(bytes_max: usize) -> EarlyMessages {
        EarlyMessages { messages: BTreeMap::new(), bytes: 0, bytes_max }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn keep(&mut self, seq: u64, bytes: &[u8]) {
        if self.bytes + bytes.len() <= self.bytes_max && !self.messages.contains_key(&seq) {
            self.bytes += bytes.len();
            self.messages.insert(seq, bytes.into());
        }
    }

    /// Gives the message with a number, and forgets those below it.
    pub(crate) fn take(&mut self, seq: u64) -> Option<Box<[u8]>> {
        while let Some(first) = self.messages.first_entry() {
            if *first.key() > seq {
                return None;
            }
            let (found, bytes) = first.remove_entry();
            self.bytes -= bytes.len();
            if found == seq {
                return Some(bytes);
            }
        }
        None
    }

    fn first(&self) -> Option<u64> {
        self.messages.keys().next().copied()
    }

    pub(crate) fn clear(&mut self) {
        self.messages.clear();
        self.bytes = 0;
    }
}

impl Session {
    /// Keeps a message that came before its turn, and asks for those before it unless that was done.
    pub(crate) fn too_high<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) {
        if self.state != SessionState::LoggedOn {
            // On the way out nothing is asked for any more: the next logon finds the gap.
            return;
        }
        self.early.keep(seq, message.frame().bytes());
        if self.gap.is_none() {
            self.open_gap(seq - 1, true, turn);
        }
    }

    /// Notes that messages up to `to` are missing. `ask` is false where the peer knows it already and sends them by itself.
    pub(crate) fn open_gap<S: MessageStore>(&mut self, to: u64, ask: bool, turn: &mut Turn<'_, S>) {
        let next_in = turn.store.next_in();
        let since_ms = turn.now.ms;
        self.traffic.gaps += 1;
        self.gap = Some(Gap { to, asked_to: u64::MAX, since_ms, requests: 0, next_in });
        turn.out.notices.push(Notice::GapOpened { from: next_in, to });
        if ask {
            self.ask(turn);
        }
    }

    /// Asks for what is missing, from the expected number on.
    fn ask<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        let Some(gap) = &mut self.gap else { return };
        let from = turn.store.next_in();
        gap.since_ms = turn.now.ms;
        gap.requests += 1;
        gap.asked_to = match self.config.resend_chunk {
            0 => u64::MAX,
            chunk => gap.to.min(from.saturating_add(chunk - 1)),
        };
        let to = if gap.asked_to == u64::MAX { 0 } else { gap.asked_to };
        self.say(b"2", &Fields::new().number(7, from).number(16, to), turn);
    }

    /// Looks at what is still missing after the expected number may have moved.
    pub(crate) fn settle_gap<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        let next_in = turn.store.next_in();
        if let Some(gap) = &mut self.gap {
            if next_in > gap.next_in {
                gap.next_in = next_in;
                gap.since_ms = turn.now.ms;
                gap.requests = 1;
            }
            if next_in > gap.to {
                self.gap = None;
                turn.out.notices.push(Notice::GapClosed);
            } else if next_in > gap.asked_to {
                self.ask(turn);
            }
        }
        // What came early may have a gap of its own: something was garbled on the way.
        if let (None, SessionState::LoggedOn, Some(first)) =
            (&self.gap, self.state, self.early.first())
        {
            self.open_gap(first - 1, true, turn);
        }
    }

    /// Asks again, or gives up: gapped messages alone would keep a session alive for ever.
    pub(crate) fn gap_is_late<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        let Some(gap) = &self.gap else { return };
        if turn.now.ms < gap.since_ms + RESEND_WAIT_MS {
            return;
        }
        if gap.requests < REQUESTS_MAX {
            self.ask(turn);
        } else {
            self.log_out("ResendRequest was not answered", turn);
        }
    }
}
