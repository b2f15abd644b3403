//! The batch door's frames, as the load tool sends them.
//!
//! Asks are copied from the plan's table with fresh ids; answers are scanned in place, and only the few rows that have a fate
//! are looked at closer. Latency is recorded once per frame.

use std::sync::atomic::Ordering;
use std::time::Instant;

use hdrhistogram::Histogram;
use wire::{Decided, Split, decided};

use crate::conn::{Conn, Flight, is_notice_frame};
use crate::drive::{Figures, OPEN_IN_FLIGHT_MAX, Protocol, Run, Term};
use crate::latency::histogram;
use crate::pipe::{MESSAGE_LEN_MAX, Pipe};
use crate::plan::Plan;
use crate::random::Random;
use crate::schedule::Schedule;
use crate::tally::{REASONS, Tally, VERDICTS};

/// What a sending thread has to say at the end, beside its tally.
#[derive(Debug)]
pub(crate) struct Sent {
    /// The state of the loop.
    pub run: Figures,
    /// From writing a frame of notices to its answer.
    pub notice_latency: Histogram<u64>,
    /// Frames of asks without an answer on connections that stayed up.
    pub lost_answers: u64,
    /// Counts of notices.
    pub notices: NoticeCounts,
}

/// What became of confirms, settles and releases.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct NoticeCounts {
    /// Holds confirmed.
    pub confirmed: u64,
    /// Settles sent, repeats not counted.
    pub settles_sent: u64,
    /// Settles answered for good, repeats not counted.
    pub settles_answered: u64,
    /// Settles sent again on purpose.
    pub repeats_sent: u64,
    /// Repeats answered with the first answer and the repeat flag.
    pub repeats_ok: u64,
    /// Repeats that were booked once more.
    pub duplicates: u64,
    /// Holds released.
    pub released: u64,
    /// Confirms and releases that came too late.
    pub expired: u64,
    /// Answers that the protocol does not allow there.
    pub wrong: u64,
    /// Notices the node put off (busy, journal).
    pub put_off: u64,
    /// Settles the node refused for good.
    pub settles_refused: u64,
    /// Notices without an answer on connections that stayed up.
    pub lost: u64,
    /// Notices that were not sent any more.
    pub unsent: u64,
    /// Wins that were let go because too many notices were waiting.
    pub dropped: u64,
    /// Answers that carried the repeat flag.
    pub flagged: u64,
}

/// The batch door's protocol over one thread's connections.
pub(crate) struct Frames<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) tally: &'a Tally,
    pub(crate) run: Run,
    pub(crate) conns: Vec<Conn>,
    pub(crate) notice_latency: Histogram<u64>,
    pub(crate) notices: NoticeCounts,
    pub(crate) waiting: usize,
    cursor: usize,
    pass: u64,
    id_xor: u64,
    random: Random,
    verdicts: [[u64; VERDICTS]; 2],
    pub(crate) reasons: [u64; REASONS],
    bytes: [u64; 2],
    frames: [u64; 2],
}

impl<'a> Frames<'a> {
    /// A thread with its connections; `start` is the run's zero of time, the same for all threads.
    pub(crate) fn new(
        plan: &'a Plan,
        tally: &'a Tally,
        streams: Vec<mio::net::TcpStream>,
        thread: u64,
        start: Instant,
    ) -> Self {
        let schedule =
            plan.rate.map(|rate| Schedule::new(rate, plan.batch as u64, thread, plan.threads));
        let depth = if schedule.is_some() { OPEN_IN_FLIGHT_MAX } else { plan.depth };
        let Plan { load_ns, drain_ns, threads, .. } = *plan;
        let term = Term { schedule, depth: plan.depth, load_ns, drain_ns, thread, threads };
        Self {
            plan,
            tally,
            run: Run::new(term, start),
            conns: streams.into_iter().map(|stream| Conn::new(stream, depth)).collect(),
            notice_latency: histogram(),
            notices: NoticeCounts::default(),
            waiting: 0,
            cursor: 0,
            pass: thread,
            id_xor: plan.table.ids.pass_xor(thread),
            random: Random::new(plan.seed, 100 + thread),
            verdicts: [[0; VERDICTS]; 2],
            reasons: [0; REASONS],
            bytes: [0; 2],
            frames: [0; 2],
        }
    }

    /// Counts what never came.
    pub(crate) fn finish(mut self) -> Sent {
        let mut lost_answers = 0;
        for conn in &self.conns {
            if conn.pipe.alive {
                lost_answers += conn.in_flight;
                self.notices.lost += conn.notices_in_flight() as u64;
            }
            self.notices.unsent += conn.waiting.len() as u64;
        }
        let Frames { run, notice_latency, notices, .. } = self;
        Sent { run: run.figures, notice_latency, lost_answers, notices }
    }

    fn decisions(&self) -> u64 {
        self.verdicts.iter().flatten().sum()
    }

    fn take_frame(&mut self, at: usize, frame: &[u8], now: u64) -> Result<(), String> {
        match wire::frame::template_id(frame) {
            Some(decided::TEMPLATE_ID) => {
                let decided = Decided::decode(frame).map_err(|e| e.to_string())?;
                self.take_decided(at, &decided, now)
            }
            _ => self.take_other(at, frame, now),
        }
    }

    /// The hot part: counts the verdicts, adds up the grants, and starts the few fates.
    fn take_decided(&mut self, at: usize, decided: &Decided<'_>, now: u64) -> Result<(), String> {
        let number = decided.frame();
        let Some(flight) = self.conns[at].answered(number) else {
            return Err(format!("an answer to frame {number}, which is not in flight"));
        };
        let group = decided.answers();
        let batch = self.plan.batch;
        if group.len() != batch {
            return Err(format!("{} answers to a frame of {batch} asks", group.len()));
        }
        let copied: Vec<decided::Answer>;
        let answers = match group.as_slice() {
            Some(answers) => answers,
            None => {
                copied = group.iter().copied().collect();
                &copied
            }
        };
        let slow_ns = now.saturating_sub(flight.sent_ns);
        if slow_ns > self.tally.latency_ns_max.load(Ordering::Relaxed) {
            // Before the grants are counted: the audit takes from it how long their holds may have lived already.
            self.tally.latency_ns_max.store(slow_ns, Ordering::Release);
        }
        let targets = &self.plan.targets[flight.first..flight.first + batch];
        for (place, (answer, target)) in answers.iter().zip(targets).enumerate() {
            let verdict = usize::from(answer.verdict_raw()).min(VERDICTS - 1);
            // Two arrays by turns: the same counter twice in a row would wait for its own store.
            self.verdicts[place & 1][verdict] += 1;
            let amount = if verdict == 0 { target.amount } else { 0 };
            crate::tally::add(&self.tally.granted[target.budget as usize], amount);
        }
        self.frames[1] += 1;
        let waited_ns = now.saturating_sub(flight.from_ns);
        self.run.latency.saturating_record(waited_ns);
        let plan = self.plan;
        for fated in plan.table.fates(flight.first, batch) {
            let answer = &answers[fated.row as usize - flight.first];
            if answer.verdict_raw() == 0 {
                self.begin_fate(at, fated, *answer.token(), &flight, now);
            }
        }
        Ok(())
    }

    /// Encodes the next frame of asks.
    #[inline]
    fn ask_next(&mut self, at: usize, from_ns: u64, sent_ns: u64) {
        let plan = self.plan;
        if self.cursor + plan.batch > plan.asks.len() {
            self.pass += plan.threads;
            self.id_xor = plan.table.ids.pass_xor(self.pass);
            // Another cut into frames every pass.
            let slack = (plan.asks.len() % plan.batch) as u64;
            self.cursor = usize::try_from(self.random.below(slack + 1)).unwrap_or(0);
        }
        let first = self.cursor;
        self.cursor += plan.batch;
        let rows = &plan.asks[first..self.cursor];
        let flight = Flight { frame: 0, first, from_ns, sent_ns, id_xor: 0 };
        self.frames[0] += 1;
        if let Err(e) = self.conns[at].ask(rows, plan.flags, self.id_xor, flight) {
            self.fault(format!("a frame of asks cannot be encoded: {e}"));
            self.conns[at].pipe.alive = false;
        }
    }

    /// Notes a fault of the peer.
    pub(crate) fn fault(&mut self, text: String) {
        self.run.fault(text);
    }

    /// Whether the frame number belongs to notices.
    pub(crate) fn is_notice(frame: u64) -> bool {
        is_notice_frame(frame)
    }
}

impl Protocol for Frames<'_> {
    fn run(&mut self) -> &mut Run {
        &mut self.run
    }

    fn connections(&self) -> usize {
        self.conns.len()
    }

    fn pipe(&mut self, at: usize) -> &mut Pipe {
        &mut self.conns[at].pipe
    }

    #[inline]
    fn has_room(&self, at: usize, depth: usize) -> bool {
        self.conns[at].has_room(depth)
    }

    #[inline]
    fn ask(&mut self, at: usize, from_ns: u64, now_ns: u64) {
        self.ask_next(at, from_ns, now_ns);
    }

    fn write_due(&mut self, at: usize, now_ns: u64) {
        self.send_notices(at, now_ns);
    }

    fn take(&mut self, at: usize, input: &[u8], now_ns: u64) -> Result<usize, String> {
        let mut used = 0;
        loop {
            match wire::frame::split(&input[used..], MESSAGE_LEN_MAX) {
                Ok(Split::Frame(frame)) => {
                    self.take_frame(at, frame, now_ns)?;
                    used += frame.len();
                }
                Ok(Split::Incomplete { .. }) => return Ok(used),
                Err(e) => return Err(e.to_string()),
            }
        }
    }

    fn give_up(&mut self, at: usize) -> String {
        let conn = &self.conns[at];
        let (asks, notices) = (conn.in_flight, conn.notices_in_flight());
        let waiting = conn.waiting.len();
        self.waiting = self.waiting.saturating_sub(waiting);
        format!("unanswered: {asks} frames of asks, {notices} notices; {waiting} notices not sent")
    }

    fn is_idle(&self) -> bool {
        self.conns.iter().all(|conn| !conn.pipe.alive || conn.is_idle())
    }

    fn answered(&self) -> u64 {
        self.decisions()
    }

    fn moved(&mut self, sent: usize, received: usize) {
        self.bytes[0] += sent as u64;
        self.bytes[1] += received as u64;
    }

    fn publish(&mut self) {
        let set = |counter: &std::sync::atomic::AtomicU64, value: u64| {
            counter.store(value, Ordering::Release);
        };
        let tally = self.tally;
        for (code, counter) in tally.verdicts.iter().enumerate() {
            set(counter, self.verdicts[0][code] + self.verdicts[1][code]);
        }
        for (code, counter) in tally.reasons.iter().enumerate() {
            set(counter, self.reasons[code]);
        }
        set(&tally.decisions, self.decisions());
        set(&tally.frames_sent, self.frames[0]);
        set(&tally.frames_answered, self.frames[1]);
        set(&tally.bytes_sent, self.bytes[0]);
        set(&tally.bytes_received, self.bytes[1]);
    }

    fn hand_over(&mut self) {
        self.tally.latency.offer(&mut self.run.latency);
    }
}

impl NoticeCounts {
    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            confirmed: self.confirmed + other.confirmed,
            settles_sent: self.settles_sent + other.settles_sent,
            settles_answered: self.settles_answered + other.settles_answered,
            repeats_sent: self.repeats_sent + other.repeats_sent,
            repeats_ok: self.repeats_ok + other.repeats_ok,
            duplicates: self.duplicates + other.duplicates,
            released: self.released + other.released,
            expired: self.expired + other.expired,
            wrong: self.wrong + other.wrong,
            put_off: self.put_off + other.put_off,
            settles_refused: self.settles_refused + other.settles_refused,
            lost: self.lost + other.lost,
            unsent: self.unsent + other.unsent,
            dropped: self.dropped + other.dropped,
            flagged: self.flagged + other.flagged,
        }
    }
}
