//! What a node measured of itself over a while.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger_journal::WriterStage;
use probe::{
    Cycles, Histogram, Laps, LapsFigures, LapsReader, Reader, Stage, StageFigures, TimerCost,
};
use weir_door::{
    WorkerCounters,
    thread::{ThreadMeter, Usage},
};
use weir_till::stages::WorkerProbes;

use crate::doors::DOORS;
use crate::stages::{BankStage, JudgePart, Sampling, WorkerStage};

/// Between two moments of a running node.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Between the two moments, seconds.
    pub seconds: f64,
    /// Requests by door and kind, as in [`DOORS`].
    pub requests: Vec<Vec<u64>>,
    /// One entry a thread that has probes.
    pub threads: Vec<MeasuredThread>,
}

/// One thread.
#[derive(Clone, Debug)]
pub struct MeasuredThread {
    /// `worker 0`, `bank`, `journal-writer`.
    pub name: String,
    /// Processor time, ns, as the kernel counts it.
    pub cpu_ns: u64,
    /// Of it in our own code, ns, as the kernel estimates it, in steps of 10 ms. Stages are of this.
    pub user_ns: u64,
    /// Of it in the kernel, ns, likewise.
    pub system_ns: u64,
    /// Times that the scheduler took it off its core against its will.
    pub preempted: u64,
    /// Turns, sampled or not.
    pub turns: u64,
    /// Turns that were sampled: figures of stages are of these.
    pub sampled: u64,
    /// Ticks in which the probes brought their sums up to date after sampled turns; in no stage.
    pub own_ticks: u64,
    /// Laps in which it lost its core: they hold what it ran, and are in no quantile.
    pub lost_laps: u64,
    /// Ticks of these laps that others had.
    pub lost_ticks: u64,
    /// By stage: its name in `probe::Stage::name`, and what was recorded.
    pub stages: Vec<(&'static str, StageFigures)>,
    /// What one of the stages is made of, recorded in other turns.
    pub parts: Option<MeasuredParts>,
    /// Hardware counters, where the machine has them.
    pub instructions: Option<u64>,
}

/// What a stage is made of. The turns that were sampled for it are none of those that were sampled for the stages, so
/// these figures are "of which", and no part of the sum.
#[derive(Clone, Debug)]
pub struct MeasuredParts {
    /// The stage.
    pub of: &'static str,
    /// Turns among which were chosen those to sample.
    pub turns: u64,
    /// Turns that were sampled.
    pub sampled: u64,
    /// By part, as by stage.
    pub parts: Vec<(&'static str, StageFigures)>,
}

/// Time of all workers since the start, by the door that it served, and what the doors did with it. Every figure only
/// rises. Times are those of the sampled turns, without the timer, times the number of turns that one stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ByDoor {
    /// As in [`DOORS`].
    pub doors: [DoorUse; DOORS.len()],
    /// Stages that serve all doors, ns.
    pub shared_ns: u64,
}

/// What one door took and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoorUse {
    /// Stages that serve it alone, ns.
    pub ns: u64,
    /// Its requests, by kind.
    pub requests: Vec<u64>,
}

impl DoorUse {
    /// Its requests of all kinds.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.iter().copied().fold(0, u64::saturating_add)
    }
}

impl Measured {
    /// Requests of all kinds at all doors.
    #[must_use]
    pub fn all_requests(&self) -> u64 {
        self.requests.iter().flatten().copied().fold(0, u64::saturating_add)
    }
}

/// Where the figures of a running node are read.
#[derive(Debug)]
pub struct Sources {
    sampling: Sampling,
    workers: Vec<WorkerSource>,
    bank: Source<BankStage>,
    writer: Source<WriterStage>,
}

/// A thread with probes.
#[derive(Debug)]
struct Source<S> {
    thread: Arc<ThreadMeter>,
    laps: LapsReader<S>,
}

#[derive(Debug)]
struct WorkerSource {
    counters: Arc<WorkerCounters>,
    laps: LapsReader<WorkerStage>,
    parts: LapsReader<JudgePart>,
    /// By door, as in [`DOORS`]: from the beginning of a turn to the end of each answer in it, ticks.
    latency: [Reader; DOORS.len()],
}

/// The probes of one thread, for it, and who it is, to be noted by it.
#[derive(Debug)]
pub(crate) struct Probes<S> {
    pub(crate) laps: Laps<S>,
    pub(crate) thread: Arc<ThreadMeter>,
}

/// The probes of all threads of a node, for them.
#[derive(Debug)]
pub(crate) struct NodeProbes {
    /// One per worker.
    pub(crate) workers: Vec<WorkerProbes>,
    pub(crate) bank: Probes<BankStage>,
    pub(crate) writer: Probes<WriterStage>,
}

impl Sources {
    /// Probes for a node with these workers, and where they are read. One turn of a worker in `every` is sampled; 0 for
    /// none.
    pub(crate) fn new(every: u32, workers: &[Arc<WorkerCounters>]) -> (NodeProbes, Sources) {
        let sampling = Sampling::new(every);
        let worker = |counters: &Arc<WorkerCounters>| {
            let (mut laps, laps_reader) = Laps::new(sampling.worker);
            let latency = std::array::from_fn(|door| laps.mark(DOORS[door].answered));
            let (parts, parts_reader) = Laps::new(sampling.parts);
            let counters = Arc::clone(counters);
            let source = WorkerSource { counters, laps: laps_reader, parts: parts_reader, latency };
            (WorkerProbes::new(laps, parts), source)
        };
        let (worker_probes, workers) = workers.iter().map(worker).unzip();
        let (bank_probes, bank) = pair(sampling.bank);
        let (writer_probes, writer) = pair(sampling.writer);
        let probes =
            NodeProbes { workers: worker_probes, bank: bank_probes, writer: writer_probes };
        (probes, Sources { sampling, workers, bank, writer })
    }

    /// By door, all workers: how long after the beginning of its wake-up an answer was whole, in sampled turns, ticks.
    pub fn latency(&self) -> [Histogram; DOORS.len()] {
        std::array::from_fn(|door| {
            let mut all = Histogram::new();
            self.workers.iter().for_each(|worker| all.merge(&worker.latency[door].read()));
            all
        })
    }

    /// Worker time and requests by door, since the start.
    pub fn by_door(&self) -> ByDoor {
        let mut by_door = ByDoor::default();
        for worker in &self.workers {
            by_door.add_times(&worker.laps.read(), self.sampling.worker);
            by_door.add_counts(&worker.counters);
        }
        by_door
    }
}

fn pair<S: Stage>(every: u32) -> (Probes<S>, Source<S>) {
    let (laps, reader) = Laps::new(every);
    let thread = Arc::new(ThreadMeter::default());
    (Probes { laps, thread: Arc::clone(&thread) }, Source { thread, laps: reader })
}

impl ByDoor {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate of a time, kept to the range by `as`"
    )]
    fn add_times(&mut self, figures: &LapsFigures, every: u32) {
        let ns_a_tick = Cycles::get().ns_per_tick() * f64::from(every);
        let timer = TimerCost::get().mean_ticks();
        for (stage, recorded) in WorkerStage::ALL.iter().zip(&figures.stages) {
            let ticks = recorded.ticks as f64 - recorded.laps as f64 * timer;
            let door = DOORS.iter().position(|door| door.stages.contains(stage));
            let sum = door.map_or(&mut self.shared_ns, |door| &mut self.doors[door].ns);
            *sum = sum.saturating_add((ticks * ns_a_tick) as u64);
        }
    }

    fn add_counts(&mut self, counters: &WorkerCounters) {
        for (door, found) in DOORS.iter().zip(&mut self.doors) {
            found.requests.resize(door.requests.len(), 0);
            for (kind, sum) in door.requests.iter().zip(&mut found.requests) {
                *sum = sum.saturating_add((kind.count)(counters));
            }
        }
    }
}

/// All figures at one moment.
#[derive(Clone, Debug)]
pub struct Reading {
    at: Instant,
    requests: ByDoor,
    threads: Vec<ThreadReading>,
}

#[derive(Clone, Debug)]
struct ThreadReading {
    name: String,
    usage: Usage,
    stages: Recorded,
    parts: Option<Recorded>,
}

/// What was recorded, and the names of the stages.
#[derive(Clone, Debug)]
struct Recorded {
    names: Vec<&'static str>,
    figures: LapsFigures,
}

impl Reading {
    /// Reads everything. It takes some hundred microseconds a thread, and none of the node's threads waits for it.
    pub fn take(sources: &Sources) -> Reading {
        let worker = |(number, source): (usize, &WorkerSource)| ThreadReading {
            name: format!("worker {number}"),
            usage: source.counters.thread.usage(),
            stages: Recorded::read(&source.laps),
            parts: Some(Recorded::read(&source.parts)),
        };
        let mut threads: Vec<_> = sources.workers.iter().enumerate().map(worker).collect();
        threads.push(sources.bank.read("bank"));
        threads.push(sources.writer.read("journal-writer"));
        Reading { at: Instant::now(), requests: sources.by_door(), threads }
    }

    /// How long ago it was taken.
    pub fn age(&self) -> Duration {
        self.at.elapsed()
    }

    /// Worker time and requests by door, since the start.
    pub fn by_door(&self) -> &ByDoor {
        &self.requests
    }

    /// What happened between an earlier reading of the same node and this one.
    pub fn since(&self, earlier: &Reading) -> Measured {
        let doors = self.requests.doors.iter().zip(&earlier.requests.doors);
        let requests = doors.map(|(now, then)| {
            let kinds = now.requests.iter().zip(&then.requests);
            kinds.map(|(now, then)| now.saturating_sub(*then)).collect()
        });
        let threads = self.threads.iter().zip(&earlier.threads);
        Measured {
            seconds: self.at.saturating_duration_since(earlier.at).as_secs_f64(),
            requests: requests.collect(),
            threads: threads.map(|(now, then)| now.since(then).measured()).collect(),
        }
    }

    /// What happened since the node began, `seconds` ago.
    pub fn into_total(self, seconds: f64) -> Measured {
        let requests = self.requests.doors.into_iter().map(|door| door.requests).collect();
        let threads = self.threads.into_iter().map(ThreadReading::measured).collect();
        Measured { seconds, requests, threads }
    }
}

impl<S: Stage> Source<S> {
    fn read(&self, name: &str) -> ThreadReading {
        let stages = Recorded::read(&self.laps);
        ThreadReading { name: name.to_string(), usage: self.thread.usage(), stages, parts: None }
    }
}

impl ThreadReading {
    fn since(&self, earlier: &ThreadReading) -> ThreadReading {
        let parts = self.parts.as_ref().zip(earlier.parts.as_ref());
        ThreadReading {
            name: self.name.clone(),
            usage: self.usage.since(earlier.usage),
            stages: self.stages.since(&earlier.stages),
            parts: parts.map(|(now, then)| now.since(then)),
        }
    }

    fn measured(self) -> MeasuredThread {
        let Usage { cpu_ns, user_ns, system_ns, preempted, instructions } = self.usage;
        let LapsFigures { turns, sampled, own_ticks, lost_laps, lost_ticks, .. } =
            self.stages.figures;
        MeasuredThread {
            name: self.name,
            cpu_ns,
            user_ns,
            system_ns,
            preempted,
            turns,
            sampled,
            own_ticks,
            lost_laps,
            lost_ticks,
            stages: self.stages.named(),
            parts: self.parts.map(MeasuredParts::of_judge),
            instructions,
        }
    }
}

impl MeasuredParts {
    fn of_judge(recorded: Recorded) -> MeasuredParts {
        let LapsFigures { turns, sampled, .. } = recorded.figures;
        MeasuredParts { of: WorkerStage::Judge.name(), turns, sampled, parts: recorded.named() }
    }
}

impl Recorded {
    fn read<S: Stage>(reader: &LapsReader<S>) -> Recorded {
        let names = S::ALL.iter().map(|stage| stage.name()).collect();
        Recorded { names, figures: reader.read() }
    }

    fn since(&self, earlier: &Recorded) -> Recorded {
        let figures = self.figures.since(&earlier.figures);
        Recorded { names: self.names.clone(), figures }
    }

    fn named(self) -> Vec<(&'static str, StageFigures)> {
        self.names.into_iter().zip(self.figures.stages).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::doors::Doors;
    use door_batch::gate::counts::BatchCounts;
    use door_openrtb::counts::{Counts, Happening};
    use weir_door::DoorSet;
    use wire::Verdict;

    /// Workers' probes of which every turn is sampled.
    fn one_worker() -> (Arc<WorkerCounters>, NodeProbes, Sources) {
        let counters = Arc::new(Doors::counters());
        let (probes, sources) = Sources::new(1, &[Arc::clone(&counters)]);
        (counters, probes, sources)
    }

    /// A whole turn: the next one has begun when it is over.
    fn turn(worker: &mut WorkerProbes, laps: &[(WorkerStage, usize)]) {
        laps.iter().for_each(|(stage, items)| worker.lap(*stage, *items));
        worker.begin();
    }

    fn stage<'a>(thread: &'a MeasuredThread, name: &str) -> &'a StageFigures {
        thread.stages.iter().find(|(known, _)| *known == name).map(|(_, found)| found).unwrap()
    }

    #[test]
    fn what_happened_between_two_readings_and_nothing_else() {
        let (counters, mut probes, sources) = one_worker();
        let worker = &mut probes.workers[0];
        let count = |verdict: Verdict, asks| {
            counters.of::<BatchCounts>().verdicts[usize::from(verdict.as_raw())]
                .store(asks, Relaxed);
        };
        worker.begin();
        turn(worker, &[(WorkerStage::Lookup, 10), (WorkerStage::Judge, 10)]);
        count(Verdict::Granted, 10);
        let earlier = Reading::take(&sources);
        turn(worker, &[(WorkerStage::Lookup, 7), (WorkerStage::Encode, 0)]);
        turn(worker, &[(WorkerStage::Lookup, 5)]);
        count(Verdict::Granted, 19);
        count(Verdict::Paced, 3);
        counters.of::<BatchCounts>().resolved[usize::from(Verdict::Settled.as_raw())]
            .store(2, Relaxed);
        let mut happened = Counts::default();
        happened.add(Happening::Requests, 4);
        happened.add(Happening::Bill, 1);
        happened.publish(counters.of());

        let measured = Reading::take(&sources).since(&earlier);
        assert_eq!(measured.requests, [vec![12, 2], vec![4, 1], vec![0, 0], vec![], vec![]]);
        let names = measured.threads.iter().map(|thread| thread.name.as_str());
        assert_eq!(names.collect::<Vec<_>>(), ["worker 0", "bank", "journal-writer"]);
        let worker = &measured.threads[0];
        assert_eq!((worker.turns, worker.sampled), (2, 2));
        let of = |name| (stage(worker, name).laps, stage(worker, name).items);
        assert_eq!([of("lookup"), of("judge"), of("encode")], [(2, 12), (0, 0), (1, 0)]);
        // A lap in which the thread lost its core is in no quantile.
        assert!(stage(worker, "lookup").an_item.count() == 12 || worker.lost_laps > 0);

        let total = Reading::take(&sources).into_total(1.0);
        assert_eq!((total.requests[0][0], total.all_requests()), (22, 29));
        assert_eq!(stage(&total.threads[0], "lookup").items, 22);
    }

    #[test]
    fn parts_are_of_turns_of_their_own() {
        let counters = Arc::new(Doors::counters());
        let (mut probes, sources) = Sources::new(2, &[counters]);
        let worker = &mut probes.workers[0];
        let (mut by_stages, mut by_parts) = (0, 0);
        for _ in 0..5_000 {
            worker.begin();
            worker.lap(WorkerStage::Judge, 1);
            if worker.has_parts() {
                worker.parts.lap(JudgePart::Purse, 1);
                by_parts += 1;
            }
            by_stages += u64::from(worker.laps.is_on());
        }
        drop(probes);
        let thread = &Reading::take(&sources).into_total(1.0).threads[0];
        let parts = thread.parts.as_ref().unwrap();
        assert_eq!((parts.of, parts.turns, parts.sampled), ("judge", 5_000 - by_stages, by_parts));
        assert_eq!(parts.parts.iter().map(|(_, part)| part.items).sum::<u64>(), by_parts);
        assert_eq!(stage(thread, "judge").items, by_stages);
        assert!(by_stages > 0 && by_parts > 0);
    }

    #[test]
    fn without_sampling_nothing_is_recorded() {
        let counters = Arc::new(Doors::counters());
        let (mut probes, sources) = Sources::new(0, &[counters]);
        let worker = &mut probes.workers[0];
        for _ in 0..1_000 {
            worker.begin();
            worker.lap(WorkerStage::Receive, 1);
            assert!(!worker.has_parts());
        }
        drop(probes);
        let thread = &Reading::take(&sources).into_total(1.0).threads[0];
        assert_eq!((thread.turns, thread.sampled, thread.own_ticks), (1_000, 0, 0));
        assert!(thread.stages.iter().all(|(_, stage)| (stage.ticks, stage.laps) == (0, 0)));
        let by_door = sources.by_door();
        assert!(by_door.shared_ns == 0 && by_door.doors.iter().all(|door| door.ns == 0));
    }

    #[test]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some ms in ns")]
    fn time_is_scaled_and_goes_to_the_door_that_it_served() {
        let (_, _probes, sources) = one_worker();
        let mut figures = sources.workers[0].laps.read();
        for (stage, ticks) in [
            (WorkerStage::Judge, 1_000_000),
            (WorkerStage::Auction, 2_000_000),
            (WorkerStage::Send, 3_000_000),
        ] {
            figures.stages[stage.index()].ticks = ticks;
        }
        let mut by_door = ByDoor::default();
        by_door.add_times(&figures, 64);
        let ns = |ticks: f64| (ticks * 64.0 * Cycles::get().ns_per_tick()) as u64;
        let near = |found: u64, expected: u64| assert!(found.abs_diff(expected) <= 1, "{found}");
        near(by_door.doors[0].ns, ns(1e6));
        near(by_door.doors[1].ns, ns(2e6));
        near(by_door.shared_ns, ns(3e6));
        // Each lap holds one reading of the timer; what is less than nothing counts as nothing.
        figures.stages[WorkerStage::Judge.index()].laps = 1_000;
        figures.stages[WorkerStage::Send.index()].laps = u64::MAX / 2;
        let mut less = ByDoor::default();
        less.add_times(&figures, 64);
        near(less.doors[0].ns, ns(1e6 - 1e3 * TimerCost::get().mean_ticks()));
        assert_eq!(less.shared_ns, 0);
    }
}
