//! The sending thread: one readiness loop over its connections.
//!
//! A wake-up of a connection is one read, one pass over the answers, and one write of everything there is to send. Asks
//! are copied from the plan's table with fresh ids; answers are scanned in place, and only the few rows that have a fate
//! are looked at closer. Time is read once a wake-up, latency is recorded once a frame.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use hdrhistogram::Histogram;
use mio::{Events, Interest, Poll, Token as PollToken};
use wire::{Decided, Split, decided};

use crate::conn::{Conn, Flight, OPEN_IN_FLIGHT_MAX, is_notice_frame};
use crate::cpu::ThreadTimes;
use crate::latency::histogram;
use crate::plan::Plan;
use crate::random::Random;
use crate::schedule::Schedule;
use crate::tally::{REASONS, Tally, VERDICTS};
use crate::timetable::{Lateness, Timetable, sleep_for_answers};

/// Longest frame a node may send us, in bytes.
const FRAME_LEN_MAX: u32 = 16 << 20;
/// Between two publications of the counters, in ns.
const PUBLISH_NS: u64 = 10_000_000;
/// Between two hand-overs of the latency histogram, in ns.
const HAND_OVER_NS: u64 = 200_000_000;
/// Fault texts kept a thread.
const ERRORS_KEPT_MAX: usize = 10;

/// What a sending thread has to say at the end, beside its tally.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Faults of the peer or the connection, in words; the first few.
    pub errors: Vec<String>,
    /// All of them.
    pub errors_count: u64,
    /// How long asks were sent, in ns.
    pub load_ns: u64,
    /// Asks answered within that time.
    pub decisions_loaded: u64,
    /// CPU time of the thread within that time.
    pub cpu_ns: Option<u64>,
    /// Open loop: how late the thread was itself.
    pub lateness: Lateness,
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

/// One sending thread.
pub(crate) struct Engine<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) tally: &'a Tally,
    pub(crate) conns: Vec<Conn>,
    pub(crate) outcome: Outcome,
    pub(crate) waiting: usize,
    pub(crate) draining: bool,
    thread: u64,
    /// Open loop; made by `run`, when there is something to wait with.
    timetable: Option<Timetable>,
    next_conn: usize,
    /// Connections that got frames and want to be flushed; kept for its memory.
    touched: Vec<usize>,
    cursor: usize,
    pass: u64,
    id_xor: u64,
    random: Random,
    latency: Histogram<u64>,
    verdicts: [[u64; VERDICTS]; 2],
    pub(crate) reasons: [u64; REASONS],
    start: Instant,
    published_ns: u64,
    handed_over_ns: u64,
    bytes: [u64; 2],
    frames: [u64; 2],
}

impl<'a> Engine<'a> {
    /// A thread with its connections; `start` is the run's zero of time, the same for all threads.
    pub(crate) fn new(
        plan: &'a Plan,
        tally: &'a Tally,
        streams: Vec<mio::net::TcpStream>,
        thread: u64,
        start: Instant,
    ) -> Self {
        let depth = if plan.rate.is_some() { OPEN_IN_FLIGHT_MAX } else { plan.depth };
        Self {
            plan,
            tally,
            conns: streams.into_iter().map(|s| Conn::new(s, depth)).collect(),
            outcome: Outcome::new(),
            waiting: 0,
            draining: false,
            thread,
            timetable: None,
            next_conn: 0,
            touched: Vec::new(),
            cursor: 0,
            pass: thread,
            id_xor: plan.table.ids.pass_xor(thread),
            random: Random::new(plan.seed, 100 + thread),
            latency: histogram(),
            verdicts: [[0; VERDICTS]; 2],
            reasons: [0; REASONS],
            start,
            published_ns: 0,
            handed_over_ns: 0,
            bytes: [0; 2],
            frames: [0; 2],
        }
    }

    /// Sends until the time is over or `stop` is set, then waits for what is outstanding. `loaded` is set in between.
    ///
    /// # Errors
    /// The system refuses the readiness queue.
    pub(crate) fn run(mut self, stop: &AtomicBool, loaded: &AtomicBool) -> io::Result<Outcome> {
        let mut poll = Poll::new()?;
        let mut events = Events::with_capacity(1_024);
        for (at, conn) in self.conns.iter_mut().enumerate() {
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut conn.stream, PollToken(at), interest)?;
        }
        if let Some(rate) = self.plan.rate {
            let schedule =
                Schedule::new(rate, self.plan.batch as u64, self.thread, self.plan.threads);
            self.timetable = Some(Timetable::new(schedule, &poll, PollToken(self.conns.len()))?);
        }
        let times_begin = ThreadTimes::now();
        if self.timetable.is_none() {
            let now = self.now_ns();
            (0..self.conns.len()).for_each(|at| self.serve(at, now));
        }
        let mut end_ns = u64::MAX;
        let mut swept_ns = 0;
        loop {
            let now = self.now_ns();
            if !self.draining && self.is_load_over(now, stop) {
                self.end_load(now, times_begin);
                loaded.store(true, Ordering::Release);
                end_ns = now.saturating_add(self.plan.drain_ns);
            }
            if self.draining
                && (now >= end_ns || self.conns.iter().all(|c| !c.alive || c.is_idle()))
            {
                break;
            }
            self.send_due(now);
            match self.sleep(&mut poll, &mut events) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                // The one behind the connections is the timetable's.
                if event.token().0 < self.conns.len() {
                    self.wake(event.token().0, event.is_readable(), event.is_read_closed());
                }
            }
            let now = self.now_ns();
            if now >= swept_ns {
                (0..self.conns.len()).for_each(|at| self.serve(at, now));
                swept_ns = now + 1_000_000 + self.conns.len() as u64 * 1_000;
                self.publish(now);
            }
        }
        Ok(self.finish())
    }

    fn now_ns(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_load_over(&self, now: u64, stop: &AtomicBool) -> bool {
        now >= self.plan.load_ns
            || stop.load(Ordering::Relaxed)
            || self.conns.iter().all(|conn| !conn.alive)
    }

    fn end_load(&mut self, now: u64, begin: Option<ThreadTimes>) {
        self.draining = true;
        self.outcome.load_ns = now;
        self.outcome.decisions_loaded = self.decisions();
        let times = ThreadTimes::now().zip(begin).map(|(end, begin)| end.since(begin));
        self.outcome.cpu_ns = times.map(|times| times.cpu_ns);
        if let Some(timetable) = &mut self.timetable {
            timetable.end(now, times);
        }
    }

    fn decisions(&self) -> u64 {
        self.verdicts.iter().flatten().sum()
    }

    fn sleep(&mut self, poll: &mut Poll, events: &mut Events) -> io::Result<()> {
        let now = self.now_ns();
        match &mut self.timetable {
            Some(timetable) if !self.draining => timetable.sleep(poll, events, now),
            _ => sleep_for_answers(poll, events),
        }
    }

    /// A connection is ready.
    fn wake(&mut self, at: usize, readable: bool, closed: bool) {
        if !self.conns[at].alive {
            return;
        }
        if (readable || closed)
            && let Err(e) = self.read(at, closed)
        {
            self.lose(at, &e);
            return;
        }
        let now = self.now_ns();
        self.serve(at, now);
    }

    /// Reads what is there. With `closed`, to the very end: it came together with the last bytes and wakes no second time.
    fn read(&mut self, at: usize, closed: bool) -> io::Result<()> {
        while let Some((n, more)) = self.conns[at].read()? {
            self.bytes[1] += n as u64;
            let now = self.now_ns();
            let mut input = std::mem::take(&mut self.conns[at].input);
            let filled = self.conns[at].filled;
            let result = self.take_frames(at, &input[..filled], now);
            if let Ok((used, need)) = result {
                input.copy_within(used..filled, 0);
                self.conns[at].filled = filled - used;
                if need > input.len() {
                    input.resize(need, 0);
                }
            }
            self.conns[at].input = input;
            result.map_err(|text| io::Error::new(io::ErrorKind::InvalidData, text))?;
            if !more && !closed {
                break;
            }
        }
        Ok(())
    }

    /// Takes all whole frames; returns the bytes used, and how many the next frame needs in all.
    fn take_frames(&mut self, at: usize, input: &[u8], now: u64) -> Result<(usize, usize), String> {
        let mut used = 0;
        loop {
            match wire::frame::split(&input[used..], FRAME_LEN_MAX) {
                Ok(Split::Frame(frame)) => {
                    self.take_frame(at, frame, now)?;
                    used += frame.len();
                }
                Ok(Split::Incomplete { need }) => return Ok((used, need)),
                Err(e) => return Err(e.to_string()),
            }
        }
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
        self.latency.saturating_record(waited_ns);
        let plan = self.plan;
        for fated in plan.table.fates(flight.first, batch) {
            let answer = &answers[fated.row as usize - flight.first];
            if answer.verdict_raw() == 0 {
                self.begin_fate(at, fated, *answer.token(), &flight, now);
            }
        }
        Ok(())
    }

    /// Sends what there is to send on a connection: new asks, notices that are due, bytes that were left.
    pub(crate) fn serve(&mut self, at: usize, now: u64) {
        if !self.conns[at].alive {
            return;
        }
        if self.timetable.is_none() && !self.draining {
            while self.conns[at].has_room(self.plan.depth) {
                self.ask(at, now, now);
            }
        }
        self.send_notices(at, now);
        self.flush(at);
    }

    fn flush(&mut self, at: usize) {
        match self.conns[at].flush() {
            Ok(written) => self.bytes[0] += written as u64,
            Err(e) => self.lose(at, &e),
        }
    }

    /// Open loop: sends every frame whose time has come, over the connections in turn; one write a connection, however
    /// many frames it got.
    fn send_due(&mut self, now: u64) {
        let Some(mut timetable) = self.timetable.take() else { return };
        let mut touched = std::mem::take(&mut self.touched);
        while !self.draining && timetable.is_due(now) {
            let Some(at) = self.next_with_room() else {
                timetable.full();
                break;
            };
            let Some(due_ns) = timetable.take(now) else { break };
            // What the socket did not take before goes out when it is writable again.
            if self.conns[at].is_flushed() {
                touched.push(at);
            }
            self.ask(at, due_ns, now);
        }
        for at in touched.drain(..) {
            self.flush(at);
        }
        self.touched = touched;
        self.timetable = Some(timetable);
    }

    fn next_with_room(&mut self) -> Option<usize> {
        for _ in 0..self.conns.len() {
            let at = self.next_conn;
            self.next_conn = if at + 1 == self.conns.len() { 0 } else { at + 1 };
            if self.conns[at].has_room(OPEN_IN_FLIGHT_MAX) {
                return Some(at);
            }
        }
        None
    }

    /// Encodes the next frame of asks.
    #[inline]
    fn ask(&mut self, at: usize, from_ns: u64, now: u64) {
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
        let flight = Flight { frame: 0, first, from_ns, sent_ns: now, id_xor: 0 };
        self.frames[0] += 1;
        if let Err(e) = self.conns[at].ask(rows, plan.flags, self.id_xor, flight) {
            self.fault(format!("a frame of asks cannot be encoded: {e}"));
            self.conns[at].alive = false;
        }
    }

    /// A connection is gone.
    pub(crate) fn lose(&mut self, at: usize, e: &io::Error) {
        let conn = &mut self.conns[at];
        if !conn.alive {
            return;
        }
        conn.alive = false;
        // The node must not wait for us; what this says of a socket that is gone does not matter.
        let _ = conn.stream.shutdown(std::net::Shutdown::Both);
        let notices: usize = conn.notice_flights.iter().map(|f| f.notices.len()).sum();
        let (asks, waiting) = (conn.in_flight, conn.waiting.len());
        let what = match e.kind() {
            io::ErrorKind::UnexpectedEof => "the node closed it".to_owned(),
            _ => e.to_string(),
        };
        let seconds = self.start.elapsed().as_secs_f64();
        let number = at as u64 * self.plan.threads + self.thread;
        self.fault(format!(
            "connection {number} was lost after {seconds:.2} s: {what}; unanswered: {asks} frames of asks, {notices} \
             notices; {waiting} notices not sent"
        ));
        self.waiting = self.waiting.saturating_sub(waiting);
    }

    /// Notes a fault of the peer.
    pub(crate) fn fault(&mut self, text: String) {
        self.outcome.errors_count += 1;
        if self.outcome.errors.len() < ERRORS_KEPT_MAX {
            self.outcome.errors.push(text);
        }
    }

    fn publish(&mut self, now: u64) {
        if now < self.published_ns + PUBLISH_NS {
            return;
        }
        self.published_ns = now;
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
        if now >= self.handed_over_ns + HAND_OVER_NS {
            self.handed_over_ns = now;
            tally.latency.offer(&mut self.latency);
        }
    }

    /// Counts what never came, and publishes for the last time.
    fn finish(mut self) -> Outcome {
        for conn in &self.conns {
            if conn.alive {
                self.outcome.lost_answers += conn.in_flight;
                let lost: usize = conn.notice_flights.iter().map(|f| f.notices.len()).sum();
                self.outcome.notices.lost += lost as u64;
            }
            self.outcome.notices.unsent += conn.waiting.len() as u64;
        }
        if let Some(timetable) = self.timetable.take() {
            self.outcome.lateness = timetable.figures();
        }
        (self.published_ns, self.handed_over_ns) = (0, 0);
        // The last hand-over may meet the reader at the door; it is gone in a moment.
        while !self.latency.is_empty() {
            self.publish(u64::MAX);
            self.published_ns = 0;
            self.handed_over_ns = 0;
            std::thread::yield_now();
        }
        self.publish(u64::MAX);
        self.outcome
    }

    /// Whether the frame number belongs to notices.
    pub(crate) fn is_notice(frame: u64) -> bool {
        is_notice_frame(frame)
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

impl Outcome {
    fn new() -> Self {
        Self {
            errors: Vec::new(),
            errors_count: 0,
            load_ns: 0,
            decisions_loaded: 0,
            cpu_ns: None,
            lateness: Lateness::new(),
            notice_latency: histogram(),
            lost_answers: 0,
            notices: NoticeCounts::default(),
        }
    }
}
