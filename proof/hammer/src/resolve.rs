//! The sending thread's other half: confirms, settles and releases, and what their answers mean to the books.

use wire::{Message, Reason, Refused, Resolved, Verdict, resolved};

use crate::asks::{Fate, Fated, Repeat};
use crate::conn::{Flight, NOTICE_FRAMES_MAX};
use crate::frames::Frames;
use crate::notices::{Kind, Notice, Token};
use crate::plan::LATE_MARGIN_NS;
use crate::tally::{REASONS, add, count};

/// Notices that make a frame worth sending at once.
const GROUP: usize = 64;
/// How long a notice may wait for company, in ns.
const LINGER_NS: u64 = 1_000_000;
/// Notices a thread keeps waiting at most; wins beyond it are let go, and counted.
const WAITING_MAX: usize = 1 << 20;
/// How often a settle that the node puts off is sent again.
const ATTEMPTS_MAX: u8 = 100;
/// How long after it was put off, in ns.
const RETRY_NS: u64 = 10_000_000;

impl Frames<'_> {
    /// A hold of a fated row was granted.
    pub(crate) fn begin_fate(
        &mut self,
        at: usize,
        fated: &Fated,
        token: Token,
        flight: &Flight,
        now: u64,
    ) {
        if self.waiting >= WAITING_MAX {
            self.notices.dropped += 1;
            return;
        }
        let target = self.plan.targets[fated.row as usize];
        let soon = now.saturating_add(self.plan.settle_delay_ns);
        let sent_id = self.plan.asks[fated.row as usize].request_id() ^ flight.id_xor;
        let base = Notice {
            token,
            request_id: sent_id,
            due_ns: soon,
            alive_until_ns: flight.sent_ns.saturating_add(self.plan.hold_sure_ns),
            gone_from_ns: now.saturating_add(self.plan.hold_ns),
            price: 0,
            hold: target.amount,
            budget: target.budget,
            kind: Kind::Release,
            repeat: Repeat::Never,
            confirmed: false,
            attempts: 0,
        };
        let confirm = Notice { kind: Kind::Confirm, due_ns: now, ..base };
        match fated.fate {
            Fate::Lost => self.wait(at, base, false),
            Fate::Unbilled => self.wait(at, confirm, false),
            Fate::Win { confirm: first, price, repeat, late } => {
                if first {
                    self.wait(at, confirm, false);
                }
                let due_ns = if late { base.gone_from_ns + LATE_MARGIN_NS } else { soon };
                let kind = Kind::Settle;
                let settle = Notice { kind, price, repeat, due_ns, confirmed: first, ..base };
                self.wait(at, settle, late);
            }
        }
    }

    fn wait(&mut self, at: usize, notice: Notice, late: bool) {
        self.waiting += 1;
        self.conns[at].waiting.push(notice, late);
    }

    /// Sends the notices of a connection that are due, as few frames as possible.
    pub(crate) fn send_notices(&mut self, at: usize, now: u64) {
        let linger_ns = if self.run.draining { 0 } else { LINGER_NS };
        let group = GROUP.min(self.plan.notices_max);
        while self.conns[at].notice_flights.len() < NOTICE_FRAMES_MAX
            && self.conns[at].waiting.is_ripe(now, group, linger_ns)
        {
            let notices = self.take_due(at, now);
            for notice in &notices {
                self.account_sent(notice);
            }
            if let Err(e) = self.conns[at].notify(notices, now) {
                self.fault(format!("a frame of notices cannot be encoded: {e}"));
                self.conns[at].pipe.alive = false;
                return;
            }
        }
    }

    fn take_due(&mut self, at: usize, now: u64) -> Vec<Notice> {
        let room = self.plan.notices_max;
        let conn = &mut self.conns[at];
        let mut notices = conn.spare_list();
        while notices.len() < room {
            let Some(mut notice) = conn.waiting.take(now) else { break };
            self.waiting = self.waiting.saturating_sub(1);
            let doubled = notice.kind == Kind::Settle && notice.repeat == Repeat::SameFrame;
            if doubled && notices.len() + 1 == room {
                // No room for the second: it follows the answer instead.
                notice.repeat = Repeat::AfterAnswer;
            }
            notices.push(notice);
            if notice.repeat == Repeat::SameFrame && doubled {
                notices.push(Notice { kind: Kind::Again { first: None }, ..notice });
            }
        }
        notices
    }

    /// Money that is on its way counts before the node can know of it.
    fn account_sent(&mut self, notice: &Notice) {
        let cell = &self.tally.cells[notice.budget as usize];
        match notice.kind {
            Kind::Settle if notice.attempts == 0 => {
                self.notices.settles_sent += 1;
                add(&cell.ended, notice.hold);
                add(&cell.sent, notice.price);
            }
            Kind::Release if notice.attempts == 0 => add(&cell.ended, notice.hold),
            Kind::Again { .. } => self.notices.repeats_sent += 1,
            _ => {}
        }
    }

    /// Every message but `Decided`.
    pub(crate) fn take_other(&mut self, at: usize, frame: &[u8], now: u64) -> Result<(), String> {
        match Message::decode(frame).map_err(|e| e.to_string())? {
            Message::Resolved(resolved) => self.take_resolved(at, &resolved, now),
            Message::Refused(refused) => self.take_refused(at, &refused, now),
            Message::Pong(_) => Ok(()),
            other => Err(format!("{} where an answer was expected", other.name())),
        }
    }

    fn take_resolved(
        &mut self,
        at: usize,
        resolved: &Resolved<'_>,
        now: u64,
    ) -> Result<(), String> {
        let number = resolved.frame();
        let Some(flight) = self.conns[at].notices_answered(number) else {
            return Err(format!("an answer to notices {number}, which are not in flight"));
        };
        let answers = resolved.answers();
        if answers.len() != flight.notices.len() {
            let sent = flight.notices.len();
            return Err(format!("{} answers to a frame of {sent} notices", answers.len()));
        }
        let waited_ns = now.saturating_sub(flight.sent_ns);
        self.notice_latency.saturating_record(waited_ns);
        let mut previous = 0;
        for (notice, answer) in flight.notices.iter().zip(answers) {
            let seen = Seen { at, previous, sent_ns: flight.sent_ns, now };
            self.take_answer(notice, answer, seen);
            previous = answer.verdict_raw();
        }
        self.conns[at].give_back(flight.notices);
        Ok(())
    }

    fn take_answer(&mut self, notice: &Notice, answer: &resolved::Answer, seen: Seen) {
        let flagged = answer.flags().contains(wire::ResolvedFlags::REPEAT);
        self.notices.flagged += u64::from(flagged);
        let Some(verdict) = answer.verdict() else {
            self.wrong(notice, &format!("unknown verdict code {}", answer.verdict_raw()));
            return;
        };
        match notice.kind {
            Kind::Settle => self.take_settle(notice, verdict, flagged, seen),
            Kind::Again { first } => {
                self.take_again(notice, verdict, flagged, first.unwrap_or(seen.previous));
            }
            Kind::Confirm => self.take_ended(notice, verdict, Verdict::Confirmed, seen),
            Kind::Release => self.take_ended(notice, verdict, Verdict::Released, seen),
        }
    }

    /// A confirm or a release.
    fn take_ended(&mut self, notice: &Notice, verdict: Verdict, good: Verdict, seen: Seen) {
        let counts = &mut self.notices;
        match verdict {
            _ if verdict == good && good == Verdict::Confirmed => counts.confirmed += 1,
            _ if verdict == good => counts.released += 1,
            Verdict::Busy | Verdict::Journal => counts.put_off += 1,
            Verdict::Expired if seen.now >= notice.alive_until_ns => counts.expired += 1,
            _ => self.wrong(notice, verdict.name()),
        }
    }

    /// The first answer to a settle: the money.
    fn take_settle(&mut self, notice: &Notice, verdict: Verdict, flagged: bool, seen: Seen) {
        if matches!(verdict, Verdict::Busy | Verdict::Journal) {
            self.put_off(*notice, seen.at, seen.now);
            return;
        }
        if flagged && notice.attempts == 0 {
            self.wrong(notice, "the first settle is answered as a repeat");
        }
        let cell = &self.tally.cells[notice.budget as usize];
        let above = (notice.price - notice.hold).max(0);
        let fault = match verdict {
            Verdict::Settled => {
                add(&cell.settled, notice.price);
                let gone = seen.sent_ns > notice.gone_from_ns.saturating_add(LATE_MARGIN_NS / 2);
                let late = gone && !notice.confirmed;
                match (above > 0, late) {
                    (true, _) => Some("settled, though the price is above the hold"),
                    (_, true) => Some("settled, though the hold had expired"),
                    _ => None,
                }
            }
            Verdict::SettledOver => {
                add(&cell.settled, notice.price - above);
                add(&cell.over, above);
                add(&cell.debts_own, above);
                (above == 0).then_some("settled_over, though the price is within the hold")
            }
            Verdict::SettledLate => {
                add(&cell.late, notice.price);
                let early = seen.now < notice.alive_until_ns;
                add(&cell.debts_own, if early { 0 } else { notice.price });
                early.then_some("settled_late, though the hold was alive")
            }
            other => {
                self.notices.settles_refused += 1;
                Some(other.name())
            }
        };
        // After the lines above: whoever reads `answered` first finds the money in them.
        add(&cell.answered, notice.price);
        self.notices.settles_answered += 1;
        count(&self.tally.settles, 1);
        if let Some(fault) = fault {
            self.wrong(notice, fault);
        }
        if notice.repeat == Repeat::AfterAnswer {
            let due_ns = seen.now.saturating_add(self.plan.settle_delay_ns);
            let kind = Kind::Again { first: Some(verdict.as_raw()) };
            self.wait(seen.at, Notice { kind, due_ns, ..*notice }, false);
        }
    }

    /// The answer to a settle that was sent before.
    fn take_again(&mut self, notice: &Notice, verdict: Verdict, flagged: bool, first: u8) {
        let is_put_off = |raw| raw == Verdict::Busy.as_raw() || raw == Verdict::Journal.as_raw();
        if is_put_off(first) || is_put_off(verdict.as_raw()) {
            // There was no first answer, or there is none now: nothing to compare.
            self.notices.put_off += 1;
            return;
        }
        let booked =
            matches!(verdict, Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate);
        if verdict.as_raw() == first && flagged {
            self.notices.repeats_ok += 1;
        } else if booked && !flagged {
            self.notices.duplicates += 1;
        } else {
            let before = Verdict::from_raw(first).map_or("an unknown verdict", Verdict::name);
            let mark = if flagged { "" } else { " without the repeat flag" };
            self.wrong(notice, &format!("{}{mark}, the first answer was {before}", verdict.name()));
        }
    }

    fn put_off(&mut self, notice: Notice, at: usize, now: u64) {
        self.notices.put_off += 1;
        if notice.attempts >= ATTEMPTS_MAX {
            self.give_up(&notice);
            return;
        }
        let due_ns = now.saturating_add(RETRY_NS.max(self.plan.settle_delay_ns));
        // The second of the same frame has gone already.
        let repeat = match notice.repeat {
            Repeat::SameFrame => Repeat::Never,
            other => other,
        };
        self.wait(at, Notice { due_ns, repeat, attempts: notice.attempts + 1, ..notice }, false);
    }

    fn give_up(&mut self, notice: &Notice) {
        add(&self.tally.cells[notice.budget as usize].answered, notice.price);
        self.notices.settles_refused += 1;
        self.notices.settles_answered += 1;
    }

    /// A whole frame was refused: nothing in it took effect.
    fn take_refused(&mut self, at: usize, refused: &Refused<'_>, now: u64) -> Result<(), String> {
        let number = refused.frame();
        let reason = refused.reason();
        self.reasons[usize::from(refused.reason_raw()).min(REASONS - 1)] += 1;
        let name = reason.map_or("unknown reason", Reason::name);
        let detail = String::from_utf8_lossy(refused.detail_bytes());
        if number == 0 {
            return Err(format!("the node refused: {name}: {detail}"));
        }
        if !is_for_now(reason) && reason != Some(Reason::ShuttingDown) {
            self.fault(format!("frame {number} was refused: {name}: {detail}"));
        }
        if !Self::is_notice(number) {
            return match self.conns[at].answered(number) {
                Some(_) => Ok(()),
                None => Err(format!("{name} for frame {number}, which is not in flight: {detail}")),
            };
        }
        let Some(flight) = self.conns[at].notices_answered(number) else {
            return Err(format!("{name} for notices {number}, which are not in flight: {detail}"));
        };
        for notice in &flight.notices {
            match notice.kind {
                Kind::Settle if is_for_now(reason) => self.put_off(*notice, at, now),
                Kind::Settle => self.give_up(notice),
                // A notice can get lost; the hold then expires, or is settled without it.
                _ => self.notices.put_off += 1,
            }
        }
        self.conns[at].give_back(flight.notices);
        Ok(())
    }

    fn wrong(&mut self, notice: &Notice, what: &str) {
        self.notices.wrong += 1;
        let kind = match notice.kind {
            Kind::Confirm => "confirm",
            Kind::Settle => "settle",
            Kind::Again { .. } => "repeated settle",
            Kind::Release => "release",
        };
        let (price, hold) = (notice.price, notice.hold);
        self.fault(format!("wrong answer to a {kind} of {price} on a hold of {hold}: {what}"));
    }
}

/// The node takes the same frame again once it has caught up, or its disk has.
fn is_for_now(reason: Option<Reason>) -> bool {
    matches!(reason, Some(Reason::Busy | Reason::Journal))
}

/// How an answer was seen.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The connection.
    at: usize,
    /// The verdict before it in the frame.
    previous: u8,
    /// When its frame was sent.
    sent_ns: u64,
    /// When the answer was read.
    now: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_will_be_taken_later_is_sent_again() {
        let for_now: Vec<_> =
            Reason::ALL.into_iter().filter(|reason| is_for_now(Some(*reason))).collect();
        assert_eq!(for_now, [Reason::Busy, Reason::Journal]);
        assert!(!is_for_now(None), "a reason of a later version");
    }
}
