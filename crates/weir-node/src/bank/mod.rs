//! The bank's thread: takes what workers and the watcher say, in turn, writes what changes into the journal, and tells
//! workers what follows from it once that is sealed.

mod callers;
mod command;
pub(crate) mod figures;
mod key_alarm;
pub(crate) mod keys;
mod look;
mod named;
mod openings;
pub(crate) mod pacing_store;
mod plans;
pub mod reconcile;
pub(crate) mod recover;
pub mod rows;
#[cfg(test)]
mod tests;
pub(crate) mod warm;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{Receiver as Commands, Sender as Reply, TryRecvError};
use std::time::Duration;

use door_batch::gate::counts::BatchCounts;
use door_transport::Waker;
use figures_store::{Desk, Follow};
use gate_pacing::Before;
use ledger::{
    Bank, BudgetSpec, Claimed, Door, EditReason, Keyed, MADE_SLOT, Memo, MemoAnswer, MemoRefusal,
    Out, Record, Resolution, Room, TimedAsk, TimedRefusal, ToBank, ToWorker,
};
use ledger_journal::{Disk, Journal, JournalOptions, Log, Watermarks, WriterProbes, WriterStage};
use money::Instant;
use probe::{Laps, NodeClock};
use table::ring::{Receiver, SendError, Sender};
use table::{Map, Secret};
use weir_budgets::budgets::Budget;
use weir_budgets::campaign_index::CampaignIndex;
use weir_budgets::orders::Bindings;
use weir_pacer::PacerOptions;
use wire::{BudgetName, Handle, Verdict};

use crate::measured::Probes;
use crate::memory::{self, Part};
use crate::messages::{BySlot, Down, Old, Piece, Up};
use crate::pulse::Pulse;
use crate::stages::BankStage;
pub(crate) use callers::Callers;
pub use command::{AboutBudget, Applied, BooksPage, Command, Judged, Refusal, Report, ask};
use figures::FiguresThread;
use key_alarm::KeyAlarm;
use keys::Keys;
use named::NamedSays;
use openings::Openings;
use pacing_store::{Memory, PacingSaver};
use plans::{Plans, Sight};
use reconcile::{book_rows, free_until, judge_rows};
use rows::{Resolutions, Scene, SlotSpec, SurveyPart, SurveyRow};
use weir_door::WorkerCounters;
use weir_till::{
    Answer, Apart, ApartMessage, BookLine, BudgetStanding, Names, Question, Snapshot, Totals,
    cells::{SlotCells, reported_held},
    stages::count,
};

/// Messages taken from one worker before the next one's turn.
const UP_MAX: usize = 4096;
/// How long the thread sleeps when there is nothing to do; urgent messages wake it.
const SLEEP: Duration = Duration::from_millis(1);
/// Seals that take longer count as so long for who may call money back: a disk that failed for minutes is none of minutes.
const SEALING_MS_MAX: u64 = 2_000;

/// Commands and clients' questions that a turn takes at most. Whoever asks waits for others who ask; settlements and fillings
/// wait for one turn.
pub(super) const COMMANDS_MAX: usize = 16;
/// Budgets that a turn tells of at most, with one page more.
pub(super) const LINES_MAX: usize = 1_024;
/// A page of the books that took this long ends, and a turn that took as long over commands leaves the rest to the next one.
const COMMANDS_TIME: Duration = Duration::from_micros(250);
/// Lines of a page that are told before the clock is asked.
const LINES_A_LOOK: usize = 64;
/// How long the thread sleeps while others only ask, so that no burst of its work is long.
const PAUSE: Duration = Duration::from_micros(50);

/// Memos of a door, by key.
type MemoPage = Vec<(u128, Box<[u8]>)>;

/// Something that may be known only once the records before it are sealed.
enum AwaitingSeal {
    Down(usize, Down),
    Reply(Box<dyn FnOnce() + Send>),
}

/// One worker, as the bank sees it.
pub(crate) struct Link {
    pub(crate) up: Receiver<Up>,
    pub(crate) down: Sender<Down>,
    pub(crate) waker: Waker,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) backlog: VecDeque<Down>,
    /// The queue was full at the last attempt.
    pub(crate) is_full: bool,
}

/// The bank and everything it talks to.
pub(crate) struct BankThread {
    pub(crate) bank: Bank,
    pub(crate) links: Vec<Link>,
    pub(crate) commands: Commands<Command>,
    pub(crate) secret: Secret,
    keys: Keys,
    plans: Plans,
    /// What people call budgets, by slot.
    titles: Vec<Box<str>>,
    key_alarm: KeyAlarm,
    callers: Option<Callers>,
    cells: Vec<SlotCells>,
    /// What became of holds, by slot.
    resolved: Vec<Resolutions>,
    /// Rises with every change of a budget's configuration.
    generation: u64,
    /// A sequence that is not sealed yet, and since when it is awaited.
    awaited: Option<(u64, u64)>,
    /// How long seals take at present.
    sealing_ms: u64,
    campaign_index: Arc<CampaignIndex>,
    bindings: Bindings,
    snapshot: u32,
    out: Out,
    clock: NodeClock,
    journal: Journal,
    figures: Option<FiguresThread>,
    laps: Laps<BankStage>,
    /// With the first sequence that need not be sealed for it, in order.
    held: VecDeque<(u64, AwaitingSeal)>,
    /// Workers were told that the journal cannot seal.
    failing: bool,
    /// Clients' questions, in the order in which they came: link, connection, question.
    questions: VecDeque<(usize, u64, Question)>,
    /// Budgets that are to be made.
    openings: Openings,
    /// What doors say of named holds.
    named: NamedSays,
    pulse: Arc<Pulse>,
    /// When keys and the journal were looked at last, by the steady clock.
    kept_up_ms: u64,
    /// It was said that the node's clock is held.
    clock_held: bool,
    /// For a log on other machines.
    beat: Option<Beat>,
    /// Told to stop. It stays so: messages that are queued by then are taken first.
    stopping: bool,
}

/// How often whoever follows a log on other machines hears that its bank is alive.
struct Beat {
    every_ms: u64,
    due_ms: u64,
}

/// What a turn came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turned {
    /// There may be more to do at once.
    Busy,
    /// Those who ask wait for the next turn, and nobody else.
    Asked,
    /// There was nothing to do.
    Idle,
    /// It was told to stop, and all messages are taken.
    Stopped,
    /// The log is another bank's, or lost what it had: nothing can be sealed or answered any more.
    Replaced,
}

/// How much of a turn went into commands and questions.
struct Spent {
    began: std::time::Instant,
    commands: usize,
    lines: usize,
}

impl Spent {
    fn is_enough(&self) -> bool {
        self.commands >= COMMANDS_MAX
            || self.lines >= LINES_MAX
            || (self.commands > 0 && self.began.elapsed() >= COMMANDS_TIME)
    }
}

/// What a bank's thread begins with.
pub(crate) struct Start {
    /// The recovered bank, its run started...
    pub(crate) bank: Bank,
    /// ...and the records of that.
    pub(crate) out: Out,
    /// What doors said of named holds in these records: sealed, with [`Command::Seal`], before a worker runs.
    pub(crate) named: NamedSays,
    pub(crate) keys: Keys,
    pub(crate) disk: Disk,
    pub(crate) writer: Box<dyn Log + Send>,
    /// How it keeps its journal, and how often it beats where the log is on other machines.
    pub(crate) journal: (JournalOptions, Option<u64>),
    pub(crate) watermarks: Option<Watermarks<Disk>>,
    /// What folds the journal into figures of campaigns, and where others read them.
    pub(crate) figures: (Option<Follow<Disk>>, Desk),
    /// What pacing learned, and what keeps it.
    pub(crate) memory: Memory,
    pub(crate) saver: PacingSaver,
    pub(crate) pacing: PacerOptions,
    /// What tells others that the bank's thread lives.
    pub(crate) pulse: Arc<Pulse>,
}

/// The probes of the bank's thread and of the journal's writer.
pub(crate) struct BankProbes {
    pub(crate) bank: Probes<BankStage>,
    pub(crate) writer: Probes<WriterStage>,
}

/// How long a stop waits for the disk.
const FINISH: Duration = Duration::from_secs(10);

impl BankThread {
    /// To be called on the bank's thread.
    ///
    /// # Errors
    /// The system has no threads for the journal.
    pub(crate) fn new(
        start: Start,
        links: Vec<Link>,
        commands: Commands<Command>,
        secret: Secret,
        tick_ms: u64,
        probes: BankProbes,
    ) -> std::io::Result<BankThread> {
        let BankProbes { bank: Probes { laps, thread }, writer: seal } = probes;
        thread.sign();
        let probes = WriterProbes { laps: seal.laps, begun: Box::new(move || seal.thread.sign()) };
        let Start {
            mut bank,
            out,
            named,
            keys,
            disk,
            writer,
            journal: (options, beat_ms),
            watermarks,
            figures,
            memory,
            saver,
            pacing,
            pulse,
        } = start;
        let wake = std::thread::current();
        let journal = Journal::start_measured(disk, writer, options, wake, probes, watermarks)?;
        let figures = figures.0.map(|of| FiguresThread::start(of, journal.status())).transpose()?;
        let clock = NodeClock::not_before(bank.now_ms());
        bank.steady(clock.steady_ms());
        Ok(BankThread {
            clock,
            bank,
            cells: links.iter().map(|_| SlotCells::new(0)).collect(),
            links,
            commands,
            secret,
            keys,
            plans: Plans::new(pacing, tick_ms, saver, memory),
            titles: Vec::new(),
            key_alarm: KeyAlarm::default(),
            callers: None,
            resolved: Vec::new(),
            generation: 0,
            awaited: None,
            sealing_ms: 0,
            campaign_index: CampaignIndex::empty(),
            bindings: Bindings::default(),
            snapshot: 0,
            out,
            journal,
            figures,
            laps,
            held: VecDeque::new(),
            failing: false,
            questions: VecDeque::new(),
            openings: Openings::default(),
            named,
            pulse,
            kept_up_ms: 0,
            clock_held: false,
            beat: beat_ms.map(|every_ms| Beat { every_ms, due_ms: 0 }),
            stopping: false,
        })
    }

    /// Knows the callers of the spend door from now on, whose keys it counts.
    pub(crate) fn knowing(mut self, callers: Callers) -> BankThread {
        self.callers = Some(callers);
        self
    }

    /// Runs until it is told to stop; true if everything was sealed by then.
    pub(crate) fn run(mut self) -> bool {
        loop {
            match self.turn() {
                Turned::Busy => {}
                Turned::Asked => std::thread::park_timeout(PAUSE),
                Turned::Idle => std::thread::park_timeout(SLEEP),
                Turned::Stopped => return self.finish(),
                Turned::Replaced => return false,
            }
        }
    }

    /// Everything once: what workers say, what is due, what others ask, what is sealed. Bounded in each of these, so that none
    /// keeps another waiting for long.
    pub(super) fn turn(&mut self) -> Turned {
        self.laps.begin();
        self.pulse.turn();
        let now_ms = self.clock.now_ms();
        let steady_ms = self.clock.steady_ms();
        self.watch_clock();
        self.bank.steady(steady_ms);
        let taken = self.take_up();
        self.laps.lap(BankStage::Booking, count(taken));
        self.bank.tick(now_ms, &mut self.out);
        self.beat(steady_ms);
        self.laps.lap(BankStage::Timeline, 1);
        // Also while the node's clock stands: workers need new allowances to go on.
        self.plans.begin_round(steady_ms);
        let sight = Sight { bank: &self.bank, cells: &self.cells };
        let paced = self.plans.turn(sight, (now_ms, steady_ms), &mut self.links);
        self.laps.lap(BankStage::Pacing, count(paced));
        if steady_ms >= self.kept_up_ms + self.plans.tick_ms {
            self.kept_up_ms = steady_ms;
            self.rotate_keys(now_ms);
            self.look_at_keys();
            if self.journal.is_broken() {
                let why = self.journal.failure().expect("the journal's writer ended by a panic");
                tracing::error!(why, "this node is not the bank of its log any more");
                if self.journal.is_fenced() {
                    self.pulse.fence();
                }
                return Turned::Replaced;
            }
            self.laps.lap(BankStage::Upkeep, 1);
        }
        let more = self.take_commands(now_ms);
        self.laps.lap(BankStage::Commands, 1);
        self.seal_and_send();
        match (taken, more, self.stopping) {
            (0, _, true) => Turned::Stopped,
            (0, false, false) => Turned::Idle,
            (0, true, false) => Turned::Asked,
            _ => Turned::Busy,
        }
    }

    /// Appends a beat where nothing else was appended for a while. What waits to be sealed says as much.
    fn beat(&mut self, steady_ms: u64) {
        let Some(beat) = &mut self.beat else { return };
        let waits = self.journal.sealed() < self.journal.next_sequence();
        if waits || !self.out.records.is_empty() {
            beat.due_ms = steady_ms + beat.every_ms;
        } else if steady_ms >= beat.due_ms {
            beat.due_ms = steady_ms + beat.every_ms;
            self.bank.beat(&mut self.out);
        }
    }

    /// Warns before the table of keys, or what one caller may have of it, is full.
    fn look_at_keys(&mut self) {
        let (kept, max) = (self.bank.answers(), self.bank.answers_max());
        self.key_alarm.look(kept, max);
        if let Some(callers) = &mut self.callers {
            callers.look(&self.bank.answers_by_caller(), max);
        }
    }

    /// Says once, in the log, that the node's time has not been the system's for some seconds, and once that it is again.
    fn watch_clock(&mut self) {
        let state = self.clock.state();
        let held = self.pulse.clock(&state);
        if held == std::mem::replace(&mut self.clock_held, held) {
            return;
        }
        let (ahead_ms, behind_ms) = (state.ahead_ms(), state.behind_ms());
        match held {
            true => tracing::error!(
                ahead_ms,
                behind_ms,
                "the node's clock is held: the system's time of day was set back, or steps; see docs/operations.md, the clock"
            ),
            false => tracing::info!("the node's clock is the system's time of day again"),
        }
    }

    /// Seals what is left. Workers have ended by now: whoever waited for an answer has it, or went away.
    fn finish(mut self) -> bool {
        if self.beat.is_some() {
            // Who follows the log takes over at once.
            self.bank.hand_over(&mut self.out);
            self.journal.append(&self.out.records, self.bank.now_ms());
        }
        self.plans.finish(&self.bank);
        let finished = self.journal.finish(FINISH);
        drop(self.figures);
        if let Err(error) = &finished {
            tracing::error!(error, "what the journal could not seal was not acknowledged");
        }
        finished.is_ok()
    }

    fn take_up(&mut self) -> usize {
        let mut taken = 0;
        let refuse = self.journal.refuses();
        for index in 0..self.links.len() {
            let worker = u16::try_from(index).expect("at most 1,024 workers");
            for _ in 0..UP_MAX {
                let Some(message) = self.links[index].up.recv() else { break };
                taken += 1;
                match message {
                    Up::Ledger(ToBank::Resolve { reply, .. } | ToBank::Click { reply, .. })
                        if refuse =>
                    {
                        let resolution = Resolution::refused(Verdict::Journal);
                        let answer = ToWorker::Resolved { reply, resolution };
                        self.links[index].backlog.push_back(Down::Ledger(answer));
                    }
                    Up::Ledger(message) => {
                        self.plans.pacer.watch(&message);
                        let before = self.out.records.len();
                        self.bank.step(worker, message, &mut self.out);
                        self.told_of(before, worker);
                    }
                    Up::Apart(apart) => self.take_apart(worker, *apart, refuse),
                    // As many as workers let wait.
                    Up::Question { conn, question } => {
                        self.questions.push_back((index, conn, question));
                    }
                    Up::Old(Old::Piece(piece)) => self.plans.used(piece),
                    Up::Old(Old::Snapshot(_, old)) => self.plans.pacer.used(0, &old.paces),
                    // As many as workers let wait.
                    Up::Open(handle) => self.openings.ask(index, handle),
                }
            }
        }
        taken + self.take_openings(refuse) + self.take_named(refuse)
    }

    /// Takes a message that no purse sent. What books is refused while the journal cannot seal, as others are, and where the hold is of a
    /// budget that whoever asks may not name.
    #[cold]
    fn take_apart(&mut self, worker: u16, apart: Apart, refuse: bool) {
        if let Some(refusal) = self.refuses(&apart, refuse) {
            return self.links[usize::from(worker)].backlog.push_back(refusal);
        }
        let before = self.out.records.len();
        match apart.message {
            ApartMessage::Keyed(message) => {
                self.bank.step_keyed(worker, message, &mut self.out);
            }
            ApartMessage::Resolve(message) => self.bank.step(worker, message, &mut self.out),
            ApartMessage::Named(request) => self.named.push(worker, request),
            ApartMessage::Timed(request) => {
                let reply = request.reply;
                let answer = self.bank.step_timed(worker, *request, &mut self.out);
                self.named.timed.push((worker, reply, answer));
            }
        }
        self.told_of(before, worker);
    }

    /// The answer to a message that is not for the ledger; `None`: it is.
    fn refuses(&self, apart: &Apart, refuse: bool) -> Option<Down> {
        let (reply, hold) = match &apart.message {
            ApartMessage::Keyed(Keyed::Memo(request)) if refuse => {
                let answer = Box::new(MemoAnswer::Refused(MemoRefusal::Unsealed(Verdict::Journal)));
                return Some(Down::Memo { reply: request.reply, answer });
            }
            ApartMessage::Keyed(
                Keyed::Resolve { reply, hold, .. } | Keyed::Keep { reply, hold, .. },
            )
            | ApartMessage::Resolve(ToBank::Resolve { reply, hold, .. }) => (*reply, Some(hold)),
            ApartMessage::Timed(request) => match &request.ask {
                TimedAsk::Extend { hold, .. } => (request.reply, Some(hold)),
                // Its budgets were judged where they were named.
                TimedAsk::Open { .. } => (request.reply, None),
            },
            _ => return None,
        };
        let is_outside = |slot: u32| {
            let spec = self.bank.spec(slot);
            apart.is_outside(spec.id, spec.handle.as_ref().map(Handle::as_str))
        };
        let why = match refuse {
            true => Verdict::Journal,
            // Of all its budgets. What nothing is known of any more books nothing, and is told so.
            false => hold
                .is_some_and(|hold| self.bank.slots_of(hold).any(is_outside))
                .then_some(Verdict::UnknownBudget)?,
        };
        if let ApartMessage::Timed(_) = apart.message {
            let answer = Box::new(Err(TimedRefusal::No(why)));
            return Some(Down::Timed { reply, answer });
        }
        let resolution = Resolution::refused(why);
        Some(Down::Ledger(ToWorker::Resolved { reply, resolution }))
    }

    /// What calls at this worker came to, by the records since `before`.
    fn told_of(&mut self, before: usize, worker: u16) {
        self.tell_pacer(before);
        if self.links.len() == 1 || !self.out.records[before..].iter().any(gives_back) {
            return;
        }
        let all = self.links.iter().enumerate();
        for (_, link) in all.filter(|(number, _)| *number != usize::from(worker)) {
            link.counters.returned.note();
        }
    }

    /// What was settled by the records since `before`. A hold that is topped up was settled before, and counts once.
    fn tell_pacer(&mut self, before: usize) {
        for record in &self.out.records[before..] {
            let Record::Resolved { hold, verdict, amount, .. } = record else { continue };
            let Some(slot) = self.bank.slot_of(hold) else { continue };
            if let Some(resolved) = self.resolved.get_mut(slot as usize) {
                resolved.count(*verdict, self.bank.is_of_run(hold.grant));
            }
            if *verdict == Verdict::Settled {
                self.plans.pacer.settled(slot, hold.amount, *amount);
                self.plans.pacer.won_reserved(slot, hold.amount);
            }
        }
    }

    /// Gives the journal what the steps since the last call changed, and hands out what follows from records that
    /// are sealed.
    fn seal_and_send(&mut self) {
        let now_ms = self.bank.now_ms();
        self.note_credits();
        self.journal.append(&self.out.records, now_ms);
        self.laps.lap(BankStage::JournalAppend, count(self.out.records.len()));
        self.out.records.clear();
        let needed = self.journal.next_sequence();
        self.hold_openings(needed);
        self.hold_named(needed);
        for (worker, message) in self.out.messages.drain(..) {
            let link = usize::from(worker);
            if let Some(opened) = openings::met_by(&self.bank, &message) {
                self.held.push_back((needed, AwaitingSeal::Down(link, opened)));
            }
            self.held.push_back((needed, AwaitingSeal::Down(link, Down::Ledger(message))));
        }
        for (worker, reply, claimed) in self.out.claimed.drain(..) {
            let (link, waits) = (usize::from(worker), matches!(claimed, Claimed::Answer { .. }));
            let down = Down::Claimed { reply, claimed: Box::new(claimed) };
            match waits {
                // The record that it repeats may not be sealed yet.
                true => self.held.push_back((needed, AwaitingSeal::Down(link, down))),
                false => self.links[link].backlog.push_back(down),
            }
        }
        for (worker, reply, answer) in self.out.memos.drain(..) {
            let down = Down::Memo { reply, answer: Box::new(answer) };
            self.held.push_back((needed, AwaitingSeal::Down(usize::from(worker), down)));
        }
        let sealed = self.journal.sealed();
        self.await_seal(sealed, self.clock.steady_ms());
        let mut replies = Vec::new();
        let waited = self.held.len();
        while let Some((_, held)) = self.held.pop_front_if(|(needed, _)| *needed <= sealed) {
            match held {
                AwaitingSeal::Down(link, down) => self.links[link].backlog.push_back(down),
                AwaitingSeal::Reply(reply) => replies.push(reply),
            }
        }
        self.tell_failure();
        for link in &mut self.links {
            link.send();
        }
        // After the workers: who hears that a configuration is in force may use it at once.
        for reply in replies {
            reply();
        }
        self.laps.lap(BankStage::SendDown, count(waited - self.held.len()));
    }

    /// Notes how long something waits for the disk: one sequence after the other is awaited.
    fn await_seal(&mut self, sealed: u64, steady_ms: u64) {
        let next = self.journal.next_sequence();
        if let Some((awaited, since_ms)) = self.awaited {
            let waited_ms = steady_ms.saturating_sub(since_ms);
            // What it takes falls by parts, so that one quick seal among slow ones does not count alone.
            let kept_ms = if awaited > sealed { self.sealing_ms } else { self.sealing_ms / 8 * 7 };
            self.sealing_ms = kept_ms.max(waited_ms).min(SEALING_MS_MAX);
            self.bank.sealing_takes(self.sealing_ms);
        }
        self.awaited = self.awaited.filter(|(awaited, _)| *awaited > sealed);
        if self.awaited.is_none() && next > sealed {
            self.awaited = Some((next, steady_ms));
        }
    }

    /// Workers stop granting at once when the disk fails, and go on when it works. Those with a lease go by its end.
    fn tell_failure(&mut self) {
        let failing = self.journal.is_failing();
        if failing != std::mem::replace(&mut self.failing, failing) {
            for link in &mut self.links {
                link.backlog.push_back(Down::JournalFails(failing));
            }
        }
    }

    fn rotate_keys(&mut self, now_ms: u64) {
        let Some(ring) = self.keys.rotate_if_due(&mut self.bank, now_ms, &mut self.out) else {
            return;
        };
        self.laps.lap(BankStage::Upkeep, 0);
        // No token is made with a key that a crash could forget.
        self.seal_and_send();
        let needed = self.journal.next_sequence();
        for link in 0..self.links.len() {
            let down = Down::Keys(Arc::clone(&ring));
            self.held.push_back((needed, AwaitingSeal::Down(link, down)));
        }
    }

    /// Takes commands and questions in turn, as many as a turn has time for; true if there may be more.
    fn take_commands(&mut self, now_ms: u64) -> bool {
        let mut spent = Spent { began: std::time::Instant::now(), commands: 0, lines: 0 };
        while !spent.is_enough() {
            let asked = self.take_question(now_ms);
            let commanded = match self.commands.try_recv() {
                Ok(command) => Some(self.obey(command)),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => {
                    self.stopping = true;
                    None
                }
            };
            if asked.is_none() && commanded.is_none() {
                return false;
            }
            spent.commands += usize::from(asked.is_some()) + usize::from(commanded.is_some());
            spent.lines += asked.unwrap_or(0) + commanded.unwrap_or(0);
        }
        true
    }

    /// Answers the first question that waits, and says of how many budgets it told.
    fn take_question(&mut self, now_ms: u64) -> Option<usize> {
        let (link, conn, question) = self.questions.pop_front()?;
        let answer = self.answer(question, now_ms);
        let lines = match &answer {
            Answer::Books { lines, .. } => lines.len(),
            Answer::Totals { .. } | Answer::Budget(_) => 1,
        };
        self.links[link].backlog.push_back(Down::Answer { conn, answer: Box::new(answer) });
        Some(lines)
    }

    /// Does what it is told to, and says of how many budgets it had to look at.
    fn obey(&mut self, command: Command) -> usize {
        match command {
            Command::Amend { budgets, reason, reply } => {
                let amended = self.amend(budgets, &reason);
                self.reply_once_sealed(amended, reply);
                LINES_MAX
            }
            Command::Judge { spec, reply } => tell(&reply, self.judged(&spec), 1),
            Command::Configure { budgets, campaign_index, reason, reply } => {
                // Sealed, and on its way to the workers, before anybody hears that it is in force.
                let applied = self.configure(budgets, campaign_index, &reason);
                self.reply_once_sealed(applied, reply);
                LINES_MAX
            }
            Command::Templates { templates } => self.take_templates(templates),
            Command::Why { campaign, reply } => {
                self.ask_workers(|| Down::Why { campaign, reply: reply.clone() });
                1
            }
            Command::Fates { campaigns, reply } => {
                let campaigns = || Arc::clone(&campaigns);
                self.ask_workers(|| Down::Fates { campaigns: campaigns(), reply: reply.clone() });
                1
            }
            Command::Survey { from_slot, max, rows, reply } => {
                let part = self.survey(from_slot, max, rows);
                let lines = part.rows.len();
                tell(&reply, part, lines)
            }
            Command::Scene { reply } => tell(&reply, self.scene(), 1),
            Command::Specs { from_slot, max, reply } => {
                let specs = self.specs(from_slot, max);
                let lines = specs.len();
                tell(&reply, specs, lines)
            }
            Command::JudgeRows { rows, reply } => {
                let judged = judge_rows(&rows, &self.keys.ring(&self.bank), &self.bank);
                tell(&reply, judged, rows.len())
            }
            Command::Reconcile { rows, reply } => {
                let lines = rows.len();
                let outcomes =
                    self.can_seal().map(|()| book_rows(&rows, &mut self.bank, &mut self.out));
                self.reply_once_sealed(outcomes, reply);
                lines
            }
            Command::Complete { until_ms, why, reply } => {
                let freed = self.can_seal().map(|()| self.free_until(until_ms, &why));
                self.reply_once_sealed(freed, reply);
                LINES_MAX
            }
            Command::Books { from, max, reply } => {
                let page = self.books(from, max);
                let lines = page.lines.len();
                tell(&reply, page, lines)
            }
            Command::Find { handle, reply } => tell(&reply, self.find(&handle), 1),
            Command::About { id, reply } => tell(&reply, self.about(id), 1),
            Command::Keep { memos, reply } => self.keep_memos(memos, reply),
            Command::Carry { room, message, reply } => self.carry(room, &message, reply),
            Command::Memos { door, from, max, reply } => self.tell_memos(door, from, max, &reply),
            Command::Report { reply } => tell(&reply, self.report(), 1),
            Command::Seal { reply } => self.seal(reply),
            Command::Stop => {
                self.stopping = true;
                1
            }
        }
    }

    fn seal(&mut self, reply: Reply<()>) -> usize {
        self.once_sealed(move || _ = reply.send(()));
        1
    }

    fn tell_memos(&self, door: Door, from: u128, max: usize, reply: &Reply<MemoPage>) -> usize {
        let page = self.bank.memos(door).from(from).take(max);
        tell(reply, page.map(|(key, bytes)| (key, bytes.into())).collect(), max)
    }

    /// Records memos of a door without a worker, and says of each whether it is.
    fn keep_memos(&mut self, memos: Vec<Memo>, reply: Reply<Result<Vec<bool>, String>>) -> usize {
        let (lines, can_seal) = (memos.len(), self.can_seal());
        let keep = |memo| match self.bank.keep_memo(memo, &mut self.out) {
            MemoAnswer::Refused(why) => {
                tracing::error!(%why, "a memo is not recorded");
                false
            }
            _ => true,
        };
        let kept = can_seal.map(|()| memos.into_iter().map(keep).collect());
        self.reply_once_sealed(kept, reply);
        lines
    }

    fn carry(&mut self, room: Room, message: &[u8], reply: Reply<Result<u64, String>>) -> usize {
        let number = self.can_seal().and_then(|()| {
            self.bank.keep(room, message, &mut self.out).map_err(|error| error.to_string())
        });
        self.reply_once_sealed(number, reply);
        1
    }

    /// Nothing before this instant will be billed: somebody says so.
    fn free_until(&mut self, until_ms: u64, why: &str) -> Vec<reconcile::Freed> {
        self.bank.note_operator("reconcile", why, &mut self.out);
        free_until(until_ms, &mut self.bank, &mut self.out)
    }

    fn ask_workers(&mut self, question: impl Fn() -> Down) {
        for link in &mut self.links {
            link.backlog.push_back(question());
        }
    }

    /// Tells a refusal at once, and what was done once it is sealed.
    fn reply_once_sealed<T, E>(&mut self, done: Result<T, E>, reply: Reply<Result<T, E>>)
    where
        T: Send + 'static,
        E: Send + 'static,
    {
        match done {
            Err(refusal) => drop(reply.send(Err(refusal))),
            Ok(done) => self.once_sealed(move || drop(reply.send(Ok(done)))),
        }
    }

    /// Seals what was done, and then tells it.
    fn once_sealed(&mut self, reply: impl FnOnce() + Send + 'static) {
        self.laps.lap(BankStage::Commands, 0);
        self.seal_and_send();
        let needed = self.journal.next_sequence();
        self.held.push_back((needed, AwaitingSeal::Reply(Box::new(reply))));
    }

    fn can_seal(&self) -> Result<(), String> {
        match self.journal.failure() {
            Some(failure) => Err(failure),
            None if self.journal.is_full() => Err("too many records wait for the disk".into()),
            None => Ok(()),
        }
    }

    fn configure(
        &mut self,
        budgets: Vec<Budget>,
        campaign_index: Arc<CampaignIndex>,
        reason: &EditReason,
    ) -> Result<Applied, Refusal> {
        if let Some(failure) = self.journal.failure() {
            return Err(Refusal::Journal(failure));
        }
        let now_ms = self.clock.now_ms();
        self.bank.tick(now_ms, &mut self.out);
        let specs: Vec<_> = budgets.iter().map(|budget| budget.spec.clone()).collect();
        let errors = self.bank.check(&specs);
        if !errors.is_empty() {
            return Err(Refusal::Specs(errors));
        }
        let edited = self.plans.edited(self.sight(), &budgets);
        let mut out = Out::default();
        self.note(reason, &mut out);
        let configure = || self.bank.configure(&specs, &mut out);
        memory::built(Part::Ledger, configure).map_err(Refusal::Specs)?;
        if self.snapshot == 0 {
            // Budgets that an earlier run knew have not changed, but their purses are empty.
            self.bank.open_all(&mut out);
        }
        let parent = |id| self.bank.slot(id).and_then(|slot| self.bank.spec(slot).parent);
        self.bindings.replace(&budgets, parent);
        self.take_plans(budgets, &edited);
        self.campaign_index = campaign_index;
        self.snapshot += 1;
        self.send_snapshots(now_ms);
        self.out.records.append(&mut out.records);
        self.out.messages.append(&mut out.messages);
        Ok(Applied { snapshot: self.snapshot })
    }

    fn amend(&mut self, budgets: Vec<Budget>, reason: &EditReason) -> Result<(), Refusal> {
        self.can_seal().map_err(Refusal::Journal)?;
        let now_ms = self.clock.now_ms();
        self.bank.tick(now_ms, &mut self.out);
        let edited = self.plans.edited(self.sight(), &budgets);
        let specs: Vec<_> = budgets.iter().map(|budget| budget.spec.clone()).collect();
        let handle_now =
            |id| self.bank.slot(id).and_then(|slot| self.bank.spec(slot).handle.as_ref());
        let renames = specs.iter().any(|spec| handle_now(spec.id) != spec.handle.as_ref());
        let mut out = Out::default();
        self.note(reason, &mut out);
        self.bank.amend(&specs, &mut out).map_err(Refusal::Specs)?;
        let parent = |id| self.bank.slot(id).and_then(|slot| self.bank.spec(slot).parent);
        let binds = self.bindings.amend(&budgets, parent);
        self.take_plans(budgets, &edited);
        if renames || binds {
            // Workers look handles and bindings up in their snapshot, which never changes.
            self.snapshot += 1;
            self.send_snapshots(now_ms);
        }
        self.out.records.append(&mut out.records);
        self.out.messages.append(&mut out.messages);
        Ok(())
    }

    fn note(&mut self, reason: &EditReason, out: &mut Out) {
        self.bank.note_operator(&reason.who, &reason.why, out);
        for edit in &reason.edits {
            self.bank.note_edit(&edit.as_edit(), out);
        }
    }

    fn take_plans(&mut self, budgets: Vec<Budget>, edited: &[(u64, Option<Before>)]) {
        self.generation += 1;
        self.resolved.resize(self.bank.slots(), Resolutions::default());
        self.titles.resize(self.bank.slots(), Box::default());
        let BankThread { bank, cells, plans, titles, .. } = self;
        let taken = budgets.into_iter().map(|budget| {
            let slot = bank.slot(budget.spec.id).expect("just configured");
            titles[slot as usize] = budget.name.into();
            (slot, budget.spec.id, budget.pacing)
        });
        plans.take(Sight { bank, cells }, taken, edited);
    }

    fn sight(&self) -> Sight<'_> {
        Sight { bank: &self.bank, cells: &self.cells }
    }

    fn now(&self) -> Instant {
        Instant::from_ms(self.bank.now_ms())
    }

    /// Every worker gets the same snapshot; each has gauges of its own to write to.
    fn send_snapshots(&mut self, now_ms: u64) {
        let units: Vec<[u8; 4]> =
            (0..self.slots()).map(|slot| self.bank.spec(slot).unit.to_code()).collect();
        for cells in self.cells.iter_mut().filter(|cells| cells.gauges.len() < units.len()) {
            *cells = cells.grown(units.len());
        }
        let slot = |id| self.bank.slot(id).expect("a campaign is a budget");
        self.campaign_index.index().put(slot);
        // Those that were made on their first ask are no part of it: workers meet them one by one.
        let ids = self.bank.slots_from(0).take_while(|(_, slot)| *slot < MADE_SLOT);
        let snapshot = Arc::new(Snapshot {
            number: self.snapshot,
            slots: Map::build(self.secret, ids.collect::<Vec<_>>()).expect("ids are unique"),
            units,
            names: Names::new(self.secret, &self.bank),
            campaign_index: Arc::clone(&self.campaign_index),
            orders: Arc::clone(self.bindings.index()),
        });
        let sight = Sight { bank: &self.bank, cells: &self.cells };
        let all = self.plans.all(sight, now_ms);
        for (link, cells) in self.links.iter_mut().zip(&self.cells) {
            let by_slot = BySlot { cells: cells.clone(), paces: all.into() };
            link.backlog.push_back(Down::Snapshot(Arc::clone(&snapshot), Box::new(by_slot)));
        }
    }

    fn answer(&self, question: Question, now_ms: u64) -> Answer {
        match question {
            Question::Books { frame, from, max } => {
                let mut slots = self.bank.slots_from(from);
                let line = |(_, slot)| self.book_line(slot);
                let lines = page(slots.by_ref().map(line), max.into());
                Answer::Books { frame, now_ms, more: slots.next().is_some(), lines }
            }
            Question::Totals { frame } => Answer::Totals { frame, now_ms, totals: self.totals() },
            Question::Budget(id) => Answer::Budget(self.look(BudgetName::Id(id)).map(Box::new)),
            Question::Handle(handle) => {
                Answer::Budget(self.look(BudgetName::Handle(&handle)).map(Box::new))
            }
        }
    }

    /// Where a budget stands, for people.
    fn look(&self, name: BudgetName<'_>) -> Option<BudgetStanding> {
        let slot = match name {
            BudgetName::Id(id) => self.bank.slot(id)?,
            BudgetName::Handle(handle) => self.bank.named(&Handle::parse(handle).ok()?)?,
        };
        let title = self.titles.get(slot as usize).map_or("", |title| title);
        Some(look::standing(&self.bank, slot, title, &|slot| self.book_line(slot)))
    }

    fn book_line(&self, slot: u32) -> BookLine {
        BookLine::of(&self.bank, slot, &|slot| reported_held(&self.cells, slot))
    }

    fn judged(&self, spec: &BudgetSpec) -> Judged {
        let known = self.bank.slot(spec.id).is_some();
        Judged { known, error: self.bank.check_spec(spec).err() }
    }

    fn find(&self, handle: &str) -> Option<u64> {
        let slot = self.bank.named(&Handle::parse(handle).ok()?)?;
        Some(self.bank.spec(slot).id)
    }

    fn about(&self, id: u64) -> Option<AboutBudget> {
        let slot = self.bank.slot(id)?;
        let handle = self.bank.spec(slot).handle.clone();
        Some(AboutBudget { handle, windows: self.bank.windows(slot).collect() })
    }

    fn books(&self, from: u64, max: usize) -> BooksPage {
        let now = self.now();
        let mut slots = self.bank.slots_from(from);
        let row = |(_, slot)| (self.book_line(slot), self.plans.standing(self.sight(), slot, now));
        let lines = page(slots.by_ref().map(row), max);
        BooksPage { lines, next: slots.next().map(|(id, _)| id) }
    }

    fn survey(&self, from_slot: u32, max: u32, mut rows: Vec<SurveyRow>) -> SurveyPart {
        let now = self.now();
        rows.clear();
        rows.extend(self.slots_in(from_slot, max).map(|slot| {
            let resolved = self.resolved.get(slot as usize).copied().unwrap_or_default();
            let stands = (self.book_line(slot), self.plans.standing(self.sight(), slot, now));
            SurveyRow::of(&self.bank, slot, stands, resolved)
        }));
        let one = if let [row] = &rows[..] { Some(row.slot) } else { None };
        let windows = one.map(|slot| self.bank.windows(slot)).into_iter().flatten().collect();
        let named_holds = one.map(|slot| self.bank.named_on(slot)).unwrap_or_default();
        SurveyPart { rows, windows, named_holds, now_ms: now.ms() }
    }

    /// The slots with a budget among so many, from a slot of configured or of made budgets on.
    fn slots_in(&self, from: u32, max: u32) -> impl Iterator<Item = u32> + '_ {
        let end = if from < MADE_SLOT { self.slots() } else { MADE_SLOT + self.made_slots() };
        let to = from.saturating_add(max).min(end);
        (from..to).filter(|slot| !self.bank.is_vacant(*slot))
    }

    fn made_slots(&self) -> u32 {
        u32::try_from(self.bank.made_slots()).expect("far below 2^31")
    }

    fn scene(&self) -> Scene {
        let since_ms = self.awaited.map(|(_, since_ms)| since_ms);
        Scene {
            generation: self.generation,
            slots: self.slots(),
            made: self.bank.made_live(),
            made_slots: self.made_slots(),
            run: self.bank.run(),
            report: self.report(),
            journal_lag_ms: since_ms
                .map_or(0, |since| self.clock.steady_ms().saturating_sub(since)),
            journal_full: self.journal.is_full(),
            cells: self.cells.clone(),
            campaign_index: Arc::clone(&self.campaign_index),
        }
    }

    fn specs(&self, from_slot: u32, max: u32) -> Vec<SlotSpec> {
        let strategy = |slot| self.plans.of(slot).map(|pacing| pacing.plan.spec().strategy);
        let spec = |slot| {
            let spec = self.bank.spec(slot).clone();
            let handle = spec.handle.as_ref().filter(|_| slot >= MADE_SLOT);
            let template = handle.and_then(|handle| self.openings.template_of(handle));
            let alerts = template.map(|template| template.alerts.clone()).unwrap_or_default();
            let template = template.map(|template| template.pattern.as_str().into());
            SlotSpec { spec, strategy: strategy(slot), template, alerts }
        };
        self.slots_in(from_slot, max).map(spec).collect()
    }

    fn slots(&self) -> u32 {
        u32::try_from(self.bank.slots()).expect("slots are counted in 32 bits")
    }

    fn totals(&self) -> Totals {
        let asked = self.count(BatchCounts::verdict);
        let resolved = self.count(BatchCounts::resolved);
        let granted = asked.iter().find(|(verdict, _)| *verdict == Verdict::Granted);
        Totals {
            worker_cpu_ns: self.links.iter().map(|link| link.counters.cpu_ns()).sum(),
            decisions: asked.iter().map(|(_, count)| count).sum(),
            granted: granted.map_or(0, |(_, count)| *count),
            resolves: resolved.iter().map(|(_, count)| count).sum(),
            repeats: self.bank.counts().repeats,
            verdicts: asked,
        }
    }

    /// Sums over the workers, verdicts that occurred.
    fn count(&self, read: impl Fn(&BatchCounts, Verdict) -> u64) -> Vec<(Verdict, u64)> {
        let sum = |verdict: &Verdict| {
            let workers = self.links.iter().map(|link| read(link.counters.of(), *verdict));
            (*verdict, workers.sum::<u64>())
        };
        Verdict::ALL.iter().map(sum).filter(|(_, count)| *count > 0).collect()
    }

    fn report(&self) -> Report {
        Report {
            totals: self.totals(),
            resolved: self.count(BatchCounts::resolved),
            bank: self.bank.counts(),
            budgets: self.bank.slots(),
            grants: self.bank.grants(),
            keys: self.bank.answers(),
            keys_by_caller: self
                .callers
                .as_ref()
                .map_or_else(Vec::new, |callers| callers.told(&self.bank.answers_by_caller())),
            snapshot: self.snapshot,
            journal: self.journal.status().read(),
        }
    }
}

/// At most `max` lines, and not many more than there is time for.
fn page<T>(mut lines: impl Iterator<Item = T>, max: usize) -> Vec<T> {
    let (began, mut page) = (std::time::Instant::now(), Vec::new());
    while page.len() < max && (page.len() < LINES_A_LOOK || began.elapsed() < COMMANDS_TIME) {
        let before = page.len();
        page.extend(lines.by_ref().take(LINES_A_LOOK.min(max - before)));
        if page.len() == before {
            break;
        }
    }
    page
}

/// Answers who asked, who may have given up, and passes on of how many budgets the answer tells.
fn tell<T>(reply: &Reply<T>, answer: T, lines: usize) -> usize {
    let _ = reply.send(answer);
    lines
}

impl Link {
    /// Has parameters sent. Those that could not be delivered yet are out of date now.
    fn push_paces(&mut self, piece: Piece) {
        if self.is_full {
            let is_old = |old: &Piece| old.first == piece.first;
            self.backlog.retain(|message| !matches!(message, Down::Paces(old) if is_old(old)));
        }
        self.backlog.push_back(Down::Paces(piece));
    }

    /// Sends as much of the backlog as the queue takes, and wakes the worker for it. Not for parameters alone: a worker that rests takes
    /// them when it wakes up.
    fn send(&mut self) {
        self.is_full = false;
        let mut wakes = false;
        while let Some(message) = self.backlog.pop_front() {
            let rests = matches!(message, Down::Paces(_));
            match self.down.try_send(message) {
                Ok(()) => wakes |= !rests,
                Err(SendError::Full(message)) => {
                    self.backlog.push_front(message);
                    (self.is_full, wakes) = (true, true);
                    break;
                }
                Err(SendError::Closed(_)) => {
                    self.backlog.clear();
                    return;
                }
            }
        }
        if wakes {
            self.waker.wake();
        }
    }
}

/// Does a hold end for less than it had set aside?
fn gives_back(record: &Record) -> bool {
    match record {
        Record::Resolved { verdict: Verdict::Released, .. } => true,
        Record::Resolved { verdict: Verdict::Settled, hold, amount, .. } => *amount < hold.amount,
        Record::Timed(change) => {
            let booked = change.row.hold.legs[0].amounts.booked();
            match change.row.state {
                Verdict::Released => true,
                Verdict::Settled => booked < i128::from(change.row.amount.get()),
                _ => false,
            }
        }
        _ => false,
    }
}
