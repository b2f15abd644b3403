//! What may not have reached the peer, and sending it as new messages once the numbers began again.
//!
//! A message counts as having arrived when something comes from the peer 2.4 heartbeat intervals or more after it was sent: until then a
//! connection may be dead without either side knowing. So does all below the NextExpectedMsgSeqNum (789) of its Logon. What was stored without
//! a connection is sent when the peer logs on and sees a gap; a peer that asks for messages again has not got them.

use std::collections::VecDeque;

use fix::{Framing, Index, Message, Sending, frame};

use crate::compose::{Heading, put};
use crate::replay::{TURN_BYTES, TURN_MESSAGES};
use crate::session::{Session, SessionState, append};
use crate::store::{MessageStore, StoreError, Waiting};
use crate::turn::{Notice, Turn};

/// How long it takes to be sure where there are no heartbeats: as with 30 s between them.
const WITHOUT_HEARTBEATS_MS: u64 = 72_000;
/// Into how many parts the time is cut that it takes to be sure.
const PARTS: u64 = 64;

/// Which numbers were used by which times, on one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsure {
    /// Time, and the next number then; ascending.
    marks: VecDeque<(u64, u64)>,
    /// Messages of earlier lives are being sent.
    pub(crate) repeating: bool,
}

impl Unsure {
    pub(crate) fn clear(&mut self) {
        self.marks.clear();
        self.repeating = false;
    }

    /// Notes that everything below a number was sent by now. Times that are close to each other become one.
    fn note(&mut self, now_ms: u64, next_out: u64, wait_ms: u64) {
        let last_but_one = self.marks.len().checked_sub(2).and_then(|at| self.marks.get(at));
        if last_but_one.is_some_and(|mark| now_ms < mark.0 + wait_ms / PARTS) {
            self.marks.pop_back();
        }
        self.marks.push_back((now_ms, next_out));
    }

    /// Takes the number below which everything was sent so long ago.
    fn sure(&mut self, now_ms: u64, wait_ms: u64) -> Option<u64> {
        let mut sure = None;
        while let Some(mark) = self.marks.pop_front_if(|mark| mark.0 + wait_ms <= now_ms) {
            sure = Some(mark.1);
        }
        sure
    }
}

impl Session {
    /// Says whether the store is to know what may not have reached the peer.
    pub(crate) fn track<S: MessageStore>(&self, turn: &mut Turn<'_, S>) {
        match (self.config.repeat_after_reset, turn.store.unsure_from()) {
            (true, None) => turn.store.set_unsure_from(Some(1)),
            (false, Some(_)) => turn.store.set_unsure_from(None),
            _ => {}
        }
    }

    fn sure_after_ms(&self) -> u64 {
        match self.silence_max_ms() {
            0 => WITHOUT_HEARTBEATS_MS,
            wait_ms => wait_ms,
        }
    }

    /// Notes that everything so far was sent by now, unless older messages are being sent again.
    pub(crate) fn note_sent<S: MessageStore>(&mut self, turn: &Turn<'_, S>) {
        if self.config.repeat_after_reset && self.replay.is_none() {
            let wait_ms = self.sure_after_ms();
            self.unsure.note(turn.now.ms, turn.store.next_out(), wait_ms);
        }
    }

    /// Notes that something came from the peer.
    pub(crate) fn note_heard<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        if !self.config.repeat_after_reset || self.replay.is_some() {
            return;
        }
        let sure = self.unsure.sure(turn.now.ms, self.sure_after_ms());
        if let Some(sure) = sure {
            self.note_has(sure, turn);
        }
    }

    /// Notes that everything below a number has reached the peer.
    pub(crate) fn note_has<S: MessageStore>(&self, below: u64, turn: &mut Turn<'_, S>) {
        if self.config.repeat_after_reset && turn.store.unsure_from() < Some(below) {
            turn.store.set_unsure_from(Some(below));
        }
    }

    /// Notes that the peer asked for messages from a number on.
    pub(crate) fn note_asked<S: MessageStore>(&mut self, from: u64, turn: &mut Turn<'_, S>) {
        if self.config.repeat_after_reset {
            self.unsure.marks.clear();
            if turn.store.unsure_from() > Some(from) {
                turn.store.set_unsure_from(Some(from));
            }
        }
    }

    /// After a logon: what waits is sent, part by part, by [`Session::resume`].
    pub(crate) fn begin_repeating<S: MessageStore>(&mut self, turn: &Turn<'_, S>) {
        self.unsure.clear();
        self.unsure.repeating = self.config.repeat_after_reset && turn.store.has_waiting();
    }

    /// Sends the next part of what waits.
    pub(crate) fn repeat<S: MessageStore>(&mut self, index: &mut Index, turn: &mut Turn<'_, S>) {
        let mut bytes = Vec::new();
        for _ in 0..TURN_MESSAGES {
            let goes_on = self.unsure.repeating && self.state == SessionState::LoggedOn;
            if !goes_on || turn.out.bytes.len() >= TURN_BYTES {
                return;
            }
            bytes.clear();
            match turn.store.next_waiting(&mut bytes) {
                Waiting::None => self.unsure.repeating = false,
                Waiting::Later => return,
                Waiting::Lost => turn.out.notices.push(Notice::WaitingLost),
                Waiting::Message => {
                    let message = match frame(&bytes, usize::MAX) {
                        Framing::Whole(frame) => index.read(frame).ok(),
                        _ => None,
                    };
                    if let Some(message) = message
                        && self.send_as_new(&message, turn).is_err()
                    {
                        // The store failed; the message still waits.
                        return;
                    }
                }
            }
            turn.store.pass_waiting();
        }
    }

    /// Sends a message of an earlier life under the next number, with PossResend.
    fn send_as_new<S: MessageStore>(
        &mut self,
        message: &Message<'_>,
        turn: &mut Turn<'_, S>,
    ) -> Result<(), StoreError> {
        let start = turn.out.bytes.len();
        let seq = turn.store.next_out();
        match message.msg_type() {
            b"0" | b"1" | b"2" | b"3" | b"4" | b"5" | b"A" | b"BE" => return Ok(()),
            b"j" => {
                let heading = Heading { msg_type: b"j", seq, routing: b"97=Y\x01", resent: false };
                let body = without_number(message);
                self.composer.write(&mut turn.out.bytes, heading, turn.now.unix_ms, &body);
            }
            _ => {
                let time = self.composer.time(turn.now.unix_ms);
                let sending = Sending { seq, time: &time, first_sent: None };
                if append(&self.repeated, message, sending, &mut turn.out.bytes).is_err() {
                    turn.out.notices.push(Notice::WaitingLost);
                    return Ok(());
                }
            }
        }
        self.keep(start, turn).map(|_| ())
    }
}

/// The body of a BusinessMessageReject (j) whose RefSeqNum (45) names no message any more: the numbers of the peer began again, and the
/// message that has this one now was not refused.
fn without_number(message: &Message<'_>) -> Vec<u8> {
    let mut body = Vec::new();
    for at in message.body_at()..message.len() {
        match message.tag_at(at) {
            Some(45) => put(&mut body, 45, b"0"),
            Some(10) => {}
            _ => body.extend_from_slice(message.stretch(at, at + 1).unwrap_or_default()),
        }
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_few_and_never_say_too_much() {
        let mut unsure = Unsure::default();
        let mut sure = 0;
        for ms in 0..1_000_000_u64 {
            unsure.note(ms, ms + 1, 72_000);
            if let Some(found) = unsure.sure(ms, 72_000) {
                assert!(found <= ms + 1 - 72_000 && found > sure, "{ms}");
                sure = found;
            }
            assert!(unsure.marks.len() < 200);
        }
        assert!(sure > 1_000_000 - 72_000 - 2 * 72_000 / PARTS, "{sure}");
    }
}
