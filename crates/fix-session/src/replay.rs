//! ResendRequest (2): what was sent is sent again.

use fix::{Framing, Index, Message, RejectReason, Sending, frame};

use crate::compose::{Composer, Fields, Heading};
use crate::judge::rejection;
use crate::session::{Application, Session, SessionState, append};
use crate::store::MessageStore;
use crate::turn::{Notice, Turn};

/// How full sending again makes the outbox, so that a request of a hundred bytes does not fill the memory and other sessions are served
/// between two turns; and how many messages one turn looks at.
pub(crate) const TURN_BYTES: usize = 64 << 10;
pub(crate) const TURN_MESSAGES: u32 = 1_024;

/// A range that is being sent again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replay {
    /// The next message to look at.
    next: u64,
    /// The last one.
    to: u64,
    /// Where the run of messages begins that are not sent again, if the ones looked at last are such.
    fill_from: Option<u64>,
    /// Where the run of messages begins that the store does not have.
    missing_from: Option<u64>,
}

impl Replay {
    /// Goes on behind a number that has no message, at the next one that may have one: one step, however far that is.
    fn pass_missing<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        let here = Some(self.next);
        (self.missing_from, self.fill_from) = (self.missing_from.or(here), self.fill_from.or(here));
        let [after, end] = [self.next + 1, self.to + 1];
        self.next = turn.store.next_kept(after).map_or(end, |next| next.clamp(after, end));
    }

    /// Tells of the run of missing messages that ends before the next one: once, however long it is.
    fn tell_missing<S>(&mut self, turn: &mut Turn<'_, S>) {
        if let Some(from) = self.missing_from.take() {
            turn.out.notices.push(Notice::NotInStore { from, to: self.next - 1 });
        }
    }
}

/// What becomes of one message of the range.
#[derive(PartialEq, Eq)]
enum Again {
    Sent,
    Filled,
}

impl Session {
    /// Takes a ResendRequest, whatever its own number is.
    pub(crate) fn resend_request<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        seq: u64,
        turn: &mut Turn<'_, S>,
    ) {
        let (from, to) = match (message.number_or_max(7), message.number_or_max(16)) {
            (Some(from), Some(to)) if from > 0 && (to == 0 || from <= to) => (from, to),
            (from, to) => {
                let missing = [(7, from), (16, to)].into_iter().find(|range| range.1.is_none());
                let wrong = match missing {
                    None => rejection(RejectReason::ValueIncorrect, Some(7)),
                    Some((tag, _)) if message.value(tag).is_none() => {
                        rejection(RejectReason::RequiredTagMissing, Some(i64::from(tag)))
                    }
                    Some((tag, _)) => {
                        rejection(RejectReason::IncorrectDataFormat, Some(i64::from(tag)))
                    }
                };
                self.reject_and_count(message, seq, wrong, turn);
                return;
            }
        };
        if seq == turn.store.next_in() && !self.expect_next(seq + 1, turn) {
            return;
        }
        let last = turn.store.next_out() - 1;
        let to = if to == 0 { last } else { to.min(last) };
        if from <= to {
            self.start_replay(from, to, turn);
        }
    }

    /// Begins to send a range again; one that is under way is joined with it.
    pub(crate) fn start_replay<S: MessageStore>(
        &mut self,
        from: u64,
        to: u64,
        turn: &mut Turn<'_, S>,
    ) {
        self.note_asked(from, turn);
        self.replay = Some(match self.replay {
            None => Replay { next: from, to, fill_from: None, missing_from: None },
            Some(other) => Replay {
                next: from.min(other.fill_from.unwrap_or(other.next)),
                to: to.max(other.to),
                fill_from: None,
                missing_from: None,
            },
        });
    }

    /// Sends the next part of what is being sent again, under its numbers or after a reset as new messages: up to 1,024 messages, until the outbox has 64 KiB. To be called while
    /// [`Session::is_resending`], each time the bytes of the outbox have left; [`Session::feed`] calls it too.
    pub fn resume<S: MessageStore, A: Application<S>>(
        &mut self,
        index: &mut Index,
        turn: &mut Turn<'_, S>,
        application: &mut A,
    ) {
        if matches!(self.state, SessionState::Disconnected | SessionState::LoggingOn) {
            return;
        }
        if let Some(replay) = self.replay.take() {
            self.send_part(replay, index, turn, application);
        }
        if self.replay.is_none() {
            self.repeat(index, turn);
        }
    }

    fn send_part<S: MessageStore, A: Application<S>>(
        &mut self,
        mut replay: Replay,
        index: &mut Index,
        turn: &mut Turn<'_, S>,
        application: &mut A,
    ) {
        let start = turn.out.bytes.len();
        let mut stored = Vec::new();
        let mut looked_at = 0;
        while replay.next <= replay.to
            && looked_at < TURN_MESSAGES
            && turn.out.bytes.len() < TURN_BYTES
        {
            stored.clear();
            let there = turn.store.get(replay.next, &mut stored);
            let message = match frame(&stored, usize::MAX) {
                Framing::Whole(frame) if there => index.read(frame).ok(),
                _ => None,
            };
            match message {
                Some(message) => {
                    replay.tell_missing(turn);
                    if self.send_again(&message, &mut replay, turn, application) == Again::Filled {
                        replay.fill_from = replay.fill_from.or(Some(replay.next));
                    }
                    replay.next += 1;
                }
                None => replay.pass_missing(turn),
            }
            looked_at += 1;
        }
        if replay.next > replay.to {
            replay.tell_missing(turn);
            self.flush_fill(&mut replay, turn);
            self.note_sent(turn);
        } else {
            self.replay = Some(replay);
        }
        if turn.out.bytes.len() > start {
            self.link.last_out_ms = turn.now.ms;
        }
    }

    fn send_again<S: MessageStore, A: Application<S>>(
        &mut self,
        message: &Message<'_>,
        replay: &mut Replay,
        turn: &mut Turn<'_, S>,
        application: &mut A,
    ) -> Again {
        let msg_type = message.msg_type();
        // Reject is the one message of the session itself that is sent again. A UserRequest has a password, which no store keeps.
        let resendable = !matches!(msg_type, b"0" | b"1" | b"2" | b"4" | b"5" | b"A" | b"BE");
        if !resendable || msg_type != b"3" && !application.may_resend(message) {
            return Again::Filled;
        }
        self.flush_fill(replay, turn);
        let time = self.composer.time(turn.now.unix_ms);
        let first_sent = Some(message.value(52).unwrap_or(&time));
        let sending = Sending { seq: replay.next, time: &time, first_sent };
        match append(&self.envelope, message, sending, &mut turn.out.bytes) {
            Ok(()) => {
                self.traffic.note_out(turn.now.unix_ms);
                Again::Sent
            }
            Err(_) => Again::Filled,
        }
    }

    /// Writes the gap fill of the run that ends before the next message.
    fn flush_fill<S>(&mut self, replay: &mut Replay, turn: &mut Turn<'_, S>) {
        if let Some(from) = replay.fill_from.take() {
            let unix_ms = turn.now.unix_ms;
            write_gap_fill(&mut self.composer, &mut turn.out.bytes, from, replay.next, unix_ms);
            self.traffic.note_out(unix_ms);
        }
    }
}

fn write_gap_fill(composer: &mut Composer, out: &mut Vec<u8>, from: u64, next: u64, unix_ms: i64) {
    let heading = Heading { msg_type: b"4", seq: from, resent: true, routing: &[] };
    let fields = Fields::new().number(36, next).text(123, b"Y");
    composer.write(out, heading, unix_ms, fields.bytes());
}
