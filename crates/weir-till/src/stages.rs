//! What a worker spends its time on: the stages that [`probe::Laps`] tells apart.
//!
//! A worker's turn is a wake-up: it begins when the kernel call of the loop returns and ends before the next one. Within
//! a turn the boundaries form a chain: each stage lasts from the boundary before it to its own, so everything between them belongs to
//! some stage. Calls of the kernel in the middle of a turn (epoll's receives and sends) belong to none.

use probe::{Laps, stages};

stages! {
    /// Of a worker.
    WorkerStage {
        Receive = "receive", "The loop: completions, buffers, finding the connection. An item is a receive.";
        FrameDecode = "frame_decode", "Batch: the frame is split off, checked and read in place. An item is a frame.";
        Encode = "encode", "Batch: room for the answer, its head, its end. An item is an ask.";
        Lookup = "lookup", "Batch: budget ids to slots, what they lead to is fetched. An item is an ask.";
        Judge = "judge", "Batch: checks, plan, purse, verdict; pods and remembered answers too. An item is an ask.";
        Token = "token", "Batch: tokens are sealed. An item is a granted ask.";
        Resolve = "resolve", "Batch: tokens that come back are opened and queued. An item is a confirm, settle or release.";
        Http = "http", "OpenRTB: the head is read, the body found and inflated. An item is a request of any kind.";
        JsonRead = "json_read", "OpenRTB: the body is read in place into a view. An item is a bid request.";
        UserProfile = "user_profile", "OpenRTB: checks the deadline and reads the user's profile. An item is a bid request.";
        Translate = "translate", "OpenRTB: texts to keys. An item is a bid request.";
        Survey = "survey", "OpenRTB: counts why campaigns do not bid, in a sample of the requests. An item is a sampled request.";
        Auction = "auction", "OpenRTB: who bids, with what, at what price; plan, caps, purse. An item is a bid request.";
        SealNote = "seal_note", "OpenRTB: the note for the notices is made and sealed. An item is a bid.";
        AnswerWrite = "answer_write", "OpenRTB: bids are checked and written as JSON. An item is a bid.";
        HttpWrite = "http_write", "OpenRTB: the answer's head and body go to the output. An item is a request of any kind.";
        Notice = "notice", "OpenRTB: a notice is opened, judged and queued. An item is a notice.";
        SpendHttp = "spend_http", "Spend: the head is read, the body found and inflated. An item is a request of any kind.";
        SpendRead = "spend_read", "Spend: who sends it, and its body to calls. An item is a call.";
        SpendJudge = "spend_judge", "Spend: calls are judged, tokens sealed, what must wait is kept. An item is a call.";
        SpendWrite = "spend_write", "Spend: the answer goes to the output. An item is a request of any kind.";
        FromBank = "from_bank", "What the bank sent: purses, snapshots, answers to resolves and notices. An item is a message.";
        Timers = "timers", "Deadlines that have passed, the tick for the bank. An item is a turn.";
        ToBank = "to_bank", "What goes to the bank. An item is a message.";
        WakeBank = "wake_bank", "The bank is woken, which is a call of the kernel. An item is a call.";
        Gauges = "gauges", "Counters and gauges for other threads. An item is a turn.";
        Send = "send", "The loop: time-outs, and each connection that changed. An item is a turn.";
    }
}

stages! {
    /// What judging an ask is made of.
    JudgePart {
        Check = "check", "Is the ask sound, and the loop over the asks. An item is an ask.";
        Pacing = "pacing", "The plan's decision. An item is an ask.";
        Purse = "purse", "The reservation. An item is an ask that the plan lets pass.";
        Verdict = "verdict", "The verdict and the token's fields are written. An item is an ask.";
    }
}

/// A worker's probes.
///
/// A turn is sampled by its stages, or by the parts of judging, or not at all: boundaries of the parts would count as
/// time of judging.
#[derive(Debug)]
pub struct WorkerProbes {
    /// By stages.
    pub laps: Laps<WorkerStage>,
    /// By the parts of judging.
    pub parts: Laps<JudgePart>,
    has_parts: bool,
}

impl WorkerProbes {
    /// Of its two kinds of laps.
    #[must_use]
    pub fn new(laps: Laps<WorkerStage>, parts: Laps<JudgePart>) -> WorkerProbes {
        WorkerProbes { laps, parts, has_parts: false }
    }

    /// A wake-up begins.
    #[inline]
    pub fn begin(&mut self) {
        self.laps.begin();
        self.has_parts = false;
        if !self.laps.is_on() {
            self.parts.begin();
            self.has_parts = self.parts.is_on();
        }
    }

    /// Are the parts of judging to be told apart in this turn?
    #[inline(always)]
    pub fn has_parts(&self) -> bool {
        self.has_parts
    }

    /// A stage ends.
    #[inline(always)]
    pub fn lap(&mut self, stage: WorkerStage, items: usize) {
        self.laps.lap(stage, count(items));
    }
}

/// A number of items; there are never 2^32.
#[inline(always)]
pub fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_turn_is_sampled_in_both_ways() {
        let ((laps, all), (parts, of_judge)) = (Laps::new(2), Laps::new(2));
        let mut probes = WorkerProbes::new(laps, parts);
        let (mut by_stages, mut by_parts) = (0, 0);
        for _ in 0..1_000 {
            probes.begin();
            assert!(!(probes.laps.is_on() && probes.has_parts()));
            by_stages += u64::from(probes.laps.is_on());
            by_parts += u64::from(probes.has_parts());
        }
        // The last turn ends with its probes.
        drop(probes);
        let (all, of_judge) = (all.read(), of_judge.read());
        assert_eq!((all.turns, all.sampled), (1_000, by_stages));
        assert_eq!((of_judge.turns, of_judge.sampled), (1_000 - by_stages, by_parts));
        assert!(by_stages > 0 && by_parts > 0);
    }
}
