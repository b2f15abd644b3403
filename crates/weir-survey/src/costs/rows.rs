//! The rows of the cost sheet: every abstraction on the paths of a node, what measures it, and why it may stay.
//!
//! The stages of a turn add up to it, and each stage has exactly one row, so the rows of a thread add up to what its probes
//! saw. Tests hold this table against the stages of the code and the files of the repository.

use probe::Stage;
use weir_door::RequestKind;
use weir_node::doors::DOORS;

/// Which probes measure a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Probes {
    /// Those of a worker.
    Worker,
    /// Those within the stage `judge` of a worker, in turns of their own: "of which" rows, not part of a sum.
    Judge,
    /// The bank's.
    Bank,
    /// The journal writer's.
    Writer,
}

/// The threads of a sheet, each kind with the probes whose rows add up to it.
pub(crate) const THREADS: [(Probes, &str); 3] =
    [(Probes::Worker, "worker"), (Probes::Bank, "bank"), (Probes::Writer, "journal writer")];

impl Probes {
    /// Whose probes a thread has, by its name in [`weir_node::measured::MeasuredThread`].
    pub(crate) fn of_thread(name: &str) -> Option<Probes> {
        match name {
            "bank" => Some(Probes::Bank),
            "journal-writer" => Some(Probes::Writer),
            _ if name.starts_with("worker") => Some(Probes::Worker),
            _ => None,
        }
    }
}

/// What a row is counted per.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Per {
    /// An ask of the batch door.
    Ask,
    /// A bid request of the OpenRTB door.
    BidRequest,
    /// A call of the spend door.
    Call,
    /// A confirm, settle or release of the batch or the spend door, or a notice of the OpenRTB door.
    Resolve,
    /// Any of these: the row serves all of them alike.
    Request,
    /// A message to the bank: mostly resolves, wishes for money, and what lapsed.
    Message,
    /// A write of the journal.
    Group,
    /// Of time: it is done so many times per second, whatever comes.
    Second,
}

impl Per {
    /// The unit in the sheet.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Per::Ask => "ask",
            Per::BidRequest => "bid request",
            Per::Call => "call",
            Per::Resolve => "resolve",
            Per::Request => "request",
            Per::Message => "message",
            Per::Group => "group",
            Per::Second => "second",
        }
    }

    /// The stages whose items are such requests: of a worker, but for the last two; none of a second, which no request makes.
    pub(crate) fn counted_by(self) -> Vec<&'static str> {
        let stages = |is_meant: fn(&RequestKind) -> bool| {
            let kinds = DOORS.iter().flat_map(|door| door.requests).filter(|kind| is_meant(kind));
            kinds.map(|kind| kind.stage.name()).collect()
        };
        match self {
            Per::Ask => stages(|kind| kind.name == "ask"),
            Per::BidRequest => stages(|kind| kind.name == "bid_request"),
            Per::Call => stages(|kind| kind.name == "call"),
            Per::Resolve => stages(|kind| !kind.decides),
            Per::Request => stages(|_| true),
            Per::Message => vec!["booking"],
            Per::Group => vec!["tell"],
            Per::Second => Vec::new(),
        }
    }
}

/// One abstraction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// What it is.
    pub(crate) name: &'static str,
    /// The file that holds it, from the root of the repository.
    pub(crate) file: &'static str,
    /// What measures it...
    pub(crate) probes: Probes,
    /// ...and which of their stages.
    pub(crate) stage: &'static str,
    /// It is a wait, or a call of the kernel: what it takes of a processor is in the row of the kernel.
    pub(crate) waits: bool,
    /// What its cost is counted per.
    pub(crate) per: Per,
    /// What it was compared with.
    pub(crate) alternative: Option<Beside>,
    /// The workload of `proof/costs/baseline.json` that counts the instructions of just this.
    pub(crate) instructions: Option<&'static str>,
    /// Why it may stay: one sentence.
    pub(crate) why: &'static str,
}

/// The pair of `proof/costs/alternatives.json` in which a row was compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside {
    /// Its id.
    pub(crate) pair: &'static str,
    /// The case that could take our place; `None`: the fastest of them.
    pub(crate) case: Option<&'static str>,
}

impl Row {
    const fn new(
        name: &'static str,
        file: &'static str,
        (probes, stage, per): (Probes, &'static str, Per),
        why: &'static str,
    ) -> Row {
        let (waits, alternative, instructions) = (false, None, None);
        Row { name, file, probes, stage, waits, per, alternative, instructions, why }
    }

    const fn beside(self, pair: &'static str) -> Row {
        Row { alternative: Some(Beside { pair, case: None }), ..self }
    }

    const fn beside_case(self, pair: &'static str, case: &'static str) -> Row {
        Row { alternative: Some(Beside { pair, case: Some(case) }), ..self }
    }

    const fn counted(self, workload: &'static str) -> Row {
        Row { instructions: Some(workload), ..self }
    }

    const fn waiting(self) -> Row {
        Row { waits: true, ..self }
    }
}

use Per::{Ask, BidRequest, Call, Group, Message, Request, Resolve, Second};
use Probes::{Bank, Judge, Worker, Writer};

/// All rows, in the order of the sheet: the way of an ask, that of a bid request, what both share, the bank, the disk.
pub(crate) const ROWS: &[Row] = &[
    Row::new(
        "frame, read in place",
        "crates/door-batch/src/lib.rs",
        (Worker, "frame_decode", Ask),
        "A frame is checked once and then read where it lies, so strangers' bytes are used without a copy.",
    )
    .beside("decode/in-place"),
    Row::new(
        "table of budgets",
        "crates/table/src/map.rs",
        (Worker, "lookup", Ask),
        "A frame's ids are looked up together so that the waits for memory overlap; general maps look up one by one.",
    )
    .beside("table/lookup")
    .counted("table"),
    Row::new(
        "judging an ask",
        "crates/door-batch/src/gate/mod.rs",
        (Worker, "judge", Ask),
        "Amounts and units are types, verdicts one byte, and the work space is kept: a no costs no allocation.",
    ),
    Row::new(
        "amount and unit",
        "crates/money/src/amount.rs",
        (Judge, "check", Ask),
        "Money of two units cannot be added by mistake: the compiler sees to it, and two comparisons an ask are left.",
    ),
    Row::new(
        "plan",
        "crates/gate-pacing/src/pace.rs",
        (Judge, "pacing", Ask),
        "Every plan is compiled to the same 32 bytes, so it does not matter to an ask which strategy its budget has.",
    )
    .beside("dispatch/strategies"),
    Row::new(
        "purse",
        "crates/ledger/src/purse.rs",
        (Judge, "purse", Ask),
        "A share of the budget that one worker owns reserves money without a lock and cannot overspend.",
    )
    // The queues among the others cannot give a hold back early, nor hold some longer than others.
    .beside_case("expiry/buckets", "BinaryHeap"),
    Row::new(
        "verdict",
        "crates/door-batch/src/gate/mod.rs",
        (Judge, "verdict", Ask),
        "The answer is written straight into the connection's output, so nothing is copied later.",
    ),
    Row::new(
        "hold token",
        "crates/ledger/src/token.rs",
        (Worker, "token", Ask),
        "A sealed token replaces one object per hold in memory, and nobody else can make one.",
    ),
    Row::new(
        "answer's frame",
        "crates/wire/src/rt/write.rs",
        (Worker, "encode", Ask),
        "A codec generated from a published standard can be evolved and is spoken by other languages.",
    )
    .beside("allocation/frame"),
    Row::new(
        "tokens that come back",
        "crates/ledger/src/token.rs",
        (Worker, "resolve", Resolve),
        "A forged token is refused by the worker that reads it and never costs the bank anything.",
    ),
    Row::new(
        "HTTP, reading",
        "crates/door-http/src/session.rs",
        (Worker, "http", BidRequest),
        "Exchanges speak HTTP/1.1, and what two readers could read in two ways is refused here, once for all doors.",
    ),
    Row::new(
        "JSON",
        "crates/openrtb/src/read.rs",
        (Worker, "json_read", BidRequest),
        "Exchanges speak JSON; one walk over a tape borrows every text from the body and allocates nothing.",
    )
    .beside("decode/openrtb"),
    Row::new(
        "user's profile",
        "crates/gate-profile/src/profiles.rs",
        (Worker, "user_profile", BidRequest),
        "A cap is a promise about a person whose requests come to any worker, so all workers share one table, with one lock per stripe.",
    ),
    Row::new(
        "texts to keys",
        "crates/door-openrtb/src/translate.rs",
        (Worker, "translate", BidRequest),
        "Each text is hashed once per request, and thousands of campaigns are then compared by numbers.",
    ),
    Row::new(
        "why-not survey",
        "crates/gate-auction/src/survey.rs",
        (Worker, "survey", BidRequest),
        "Owners ask why they do not bid, and one request in a thousand answers as well as all of them would.",
    ),
    Row::new(
        "auction",
        "crates/gate-auction/src/auction.rs",
        (Worker, "auction", BidRequest),
        "It visits campaigns from the highest price down and stops where nobody left can win, instead of asking all.",
    ),
    Row::new(
        "notice id",
        "crates/ledger/src/note.rs",
        (Worker, "seal_note", BidRequest),
        "What a notice must know travels with its bid, so nothing is kept of the nine bids in ten that lose in silence.",
    ),
    Row::new(
        "bids, checked and written",
        "crates/openrtb/src/answer.rs",
        (Worker, "answer_write", BidRequest),
        "A bid is checked against its request before it leaves, since exchanges punish a wrong one more than none.",
    ),
    Row::new(
        "HTTP, writing",
        "crates/door-http/src/reply.rs",
        (Worker, "http_write", BidRequest),
        "Head and body leave in one write, compressed where the client takes it.",
    ),
    Row::new(
        "notice",
        "crates/door-openrtb/src/lib.rs",
        (Worker, "notice", Resolve),
        "A notice is believed for its MAC alone and answered once it is sealed, which needs no table of bids.",
    ),
    Row::new(
        "call's HTTP, reading",
        "crates/door-http/src/session.rs",
        (Worker, "spend_http", Call),
        "Every language speaks HTTP/1.1; its pitfalls are in one reader for all doors.",
    ),
    Row::new(
        "call's JSON",
        "crates/door-spend/src/read.rs",
        (Worker, "spend_read", Call),
        "A strict reader of flat objects keeps every digit of an amount and refuses what two readers could read in two ways.",
    ),
    Row::new(
        "call",
        "crates/door-spend/src/gate/desk.rs",
        (Worker, "spend_judge", Call),
        "The same purses and plans as the batch door's, so no client pays for the form of another.",
    ),
    Row::new(
        "call's answer",
        "crates/door-spend/src/answer.rs",
        (Worker, "spend_write", Call),
        "Objects are written from their parts into one buffer, and head and body leave in one write.",
    ),
    Row::new(
        "event loop, receiving",
        "crates/door-transport/src/engine.rs",
        (Worker, "receive", Request),
        "One engine hands whole messages to every door over io_uring and epoll alike, so a door is a plain state machine.",
    )
    .beside("loop/uring-epoll"),
    Row::new(
        "event loop, sending",
        "crates/door-transport/src/uring.rs",
        (Worker, "send", Request),
        "All answers of a wake-up to one connection leave in one send, and all sends in one call of the kernel.",
    ),
    Row::new(
        "ring from the bank",
        "crates/table/src/ring.rs",
        (Worker, "from_bank", Request),
        "Money comes to a worker in messages taken once per wake-up, so no ask ever waits for the bank.",
    ),
    Row::new(
        "deadlines",
        "crates/table/src/buckets.rs",
        (Worker, "timers", Request),
        "Losing is silent and most bids lose, so holds are sums by deadline: one message returns thousands of them.",
    ),
    Row::new(
        "ring to the bank",
        "crates/table/src/ring.rs",
        (Worker, "to_bank", Request),
        "What moves money for good goes to one writer, in order, without a lock.",
    )
    .beside("queue/core-to-core"),
    Row::new(
        "waking the bank",
        "crates/weir-node/src/worker.rs",
        (Worker, "wake_bank", Request),
        "The bank sleeps while nobody needs it; one call wakes it, whatever a turn has for it.",
    )
    .waiting(),
    Row::new(
        "gauges",
        "crates/weir-door/src/counters.rs",
        (Worker, "gauges", Second),
        "Statements are read from counters that the worker writes once per millisecond, so nobody ever asks it to stop.",
    ),
    Row::new(
        "booking",
        "crates/ledger/src/bank/apply.rs",
        (Bank, "booking", Message),
        "One writer judges and books everything, so no balance needs a lock and the simulator runs the same code.",
    ),
    Row::new(
        "expiry and days",
        "crates/ledger/src/bank/timeline.rs",
        (Bank, "timeline", Message),
        "A deadline is acted on when every worker has passed it, so an answer never depends on how far a sweep got.",
    ),
    Row::new(
        "slow loop of pacing",
        "crates/weir-pacer/src/lib.rs",
        (Bank, "pacing", Second),
        "Plans are computed a few times per second, off the workers, so that an ask only compares two numbers.",
    ),
    Row::new(
        "upkeep",
        "crates/weir-node/src/bank/keys.rs",
        (Bank, "upkeep", Second),
        "Token keys rotate and what pacing learned is kept, a few times per second and never for an ask.",
    ),
    Row::new(
        "commands",
        "crates/weir-node/src/bank/mod.rs",
        (Bank, "commands", Second),
        "Configuration and questions take turns with bookings on the one thread that may answer them truly.",
    ),
    Row::new(
        "journal, appending",
        "crates/ledger-journal/src/group.rs",
        (Bank, "journal_append", Message),
        "Records are encoded into the next group while the one before is on its way to the disk.",
    ),
    Row::new(
        "answers after the seal",
        "crates/weir-node/src/bank/mod.rs",
        (Bank, "send_down", Message),
        "An answer about money waits until its record is sealed, or a crash could take back what was promised.",
    ),
    Row::new(
        "group's hash",
        "crates/ledger-journal/src/group.rs",
        (Writer, "close", Group),
        "The hash of a group covers the one before, so whoever changes the past must write everything after it anew.",
    ),
    Row::new(
        "sealed write",
        "crates/ledger-journal/src/write.rs",
        (Writer, "seal_wait", Group),
        "Nothing is acknowledged that a crash could take back, and one write seals all that gathered meanwhile.",
    )
    .waiting(),
    Row::new(
        "telling who waits",
        "crates/ledger-journal/src/journal.rs",
        (Writer, "tell", Group),
        "The writer only wakes the bank, which knows whom to tell.",
    ),
];

/// What the probes of a thread take themselves.
pub(crate) const PROBES: Row = Row::new(
    "probes",
    "crates/probe/src/laps.rs",
    (Worker, "", Request),
    "What is not measured all the time is not known when it matters, and one turn in many is enough.",
)
// The coarse clock of the kernel is faster, and has steps of milliseconds.
.beside_case("clock/read", "std Instant::now");

/// What the kernel does for a thread, as it says itself: no stage sees it.
pub(crate) const KERNEL: Row = Row::new(
    "kernel",
    "crates/door-transport/src/sys.rs",
    (Worker, "", Request),
    "TCP, the disk and the scheduler are the kernel's, and it is asked once per wake-up for all connections.",
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::path::Path;

    use ledger_journal::WriterStage;
    use probe::Stage;

    use crate::costs::known;
    use weir_node::stages::{BankStage, JudgePart, WorkerStage};

    fn names<S: Stage>(probes: Probes) -> Vec<(Probes, &'static str)> {
        S::ALL.iter().map(|stage| (probes, stage.name())).collect()
    }

    #[test]
    fn every_stage_has_one_row_and_every_row_a_stage() {
        let mut stages = names::<WorkerStage>(Worker);
        stages.extend(names::<JudgePart>(Judge));
        stages.extend(names::<BankStage>(Bank));
        stages.extend(names::<WriterStage>(Writer));
        for (probes, stage) in &stages {
            let rows = ROWS.iter().filter(|row| (row.probes, row.stage) == (*probes, *stage));
            assert_eq!(rows.count(), 1, "rows of {probes:?} {stage}");
        }
        assert_eq!(ROWS.len(), stages.len(), "a row names a stage that is not there");
    }

    #[test]
    fn every_row_is_where_it_says_and_says_why_it_may_stay() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for row in ROWS.iter().chain([&PROBES, &KERNEL]) {
            assert!(root.join(row.file).is_file(), "{}: no file {}", row.name, row.file);
            let sentences = row.why.matches(". ").count() + 1;
            assert!(row.why.len() > 40 && row.why.ends_with('.'), "{}: {}", row.name, row.why);
            assert_eq!(sentences, 1, "{}: one sentence: {}", row.name, row.why);
        }
        let names: HashSet<_> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len(), "two rows have one name");
    }

    /// Where pairs and workloads have been measured, rows name those that there are.
    #[test]
    fn what_rows_are_compared_with_was_measured() {
        let known = known::measured();
        let all = || ROWS.iter().chain([&PROBES, &KERNEL]);
        for beside in all().filter_map(|row| row.alternative) {
            let found = known.find(beside.pair, beside.case).is_some();
            assert!(found || known.pairs.is_empty(), "nothing measured as {beside:?}");
        }
        let workloads = &known::baseline().workloads;
        for workload in ROWS.iter().filter_map(|row| row.instructions) {
            assert!(workloads.contains_key(workload) || workloads.is_empty(), "{workload}");
        }
    }

    #[test]
    fn requests_are_counted_by_stages_that_there_are() {
        for row in ROWS {
            let counting = row.per.counted_by();
            let counted = |stage: &&str| ROWS.iter().any(|row| row.stage == *stage);
            assert_eq!(counting.is_empty(), row.per == Per::Second, "{}", row.name);
            assert!(counting.iter().all(counted), "{}", row.name);
        }
    }

    #[test]
    fn threads_are_told_by_their_names() {
        assert_eq!(Probes::of_thread("worker 3"), Some(Worker));
        assert_eq!(Probes::of_thread("bank"), Some(Bank));
        assert_eq!(Probes::of_thread("journal-writer"), Some(Writer));
        assert_eq!(Probes::of_thread("admin"), None);
    }
}
