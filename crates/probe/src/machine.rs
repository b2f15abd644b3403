//! What machine this is, and what it did to a measurement.
//!
//! A measurement on a shared machine is disturbed now and then. It is then *marked*, so that whoever reads it knows;
//! throwing it away silently would make the rest look better than it is.

use std::fmt;
use std::fs;
use std::hint::black_box;
use std::marker::PhantomData;

use rustix::time::{ClockId, clock_gettime};

use crate::cycles::{Anchor, Cycles, Drift, ticks_and_core, ticks_ordered};

/// A change of the core's clock that is worth a mark, as a share.
const CLOCK_CHANGE_MAX: f64 = 0.03;
/// Ms of a unit of `/proc/stat`: Linux shows 100 per second to programs on every architecture of this crate.
const MS_PER_STAT_TICK: u64 = 10;
/// Dependent steps that tell the speed of the core's clock, and how often they are tried.
const CHAIN_STEPS: u32 = 2_000;
const CHAIN_TRIES: usize = 8;

/// Watches the machine during a measurement of this thread. Starting and reading take some 100 us each: for runs of
/// milliseconds and more, outside the timed part.
#[derive(Debug)]
pub struct Watch {
    stolen_ms: u64,
    switches: Switches,
    core: u32,
    chain_ticks: u64,
    anchor: Anchor,
    /// The figures are those of one thread.
    this_thread: PhantomData<*const ()>,
}

/// What happened between [`Watch::start`] and [`Watch::marks`]. Displays as `clean`, or as what happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marks {
    /// Ms that the hypervisor gave to others while a core of this machine wanted to run; all cores together, in steps of
    /// 10.
    pub stolen_ms: u64,
    /// Times that this thread lost its core although it had work.
    pub preempted: u64,
    /// Times that this thread went to sleep by itself; no disturbance.
    pub slept: u64,
    /// Is the thread on another core than at the start?
    pub moved: bool,
    /// Change of the core's clock against the counter: 0.05 is 5 % faster. From a chain of dependent instructions, whose
    /// number of cycles is fixed.
    pub clock_change: f64,
    /// How far the counter strayed from the monotonic clock.
    pub drift: Drift,
}

/// The machine, for the heading of a table. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What the processor calls itself.
    pub model: String,
    /// Logical cores.
    pub cores: usize,
    /// Linux's release.
    pub kernel: String,
    /// Is it a virtual machine? `None` where the processor does not tell.
    pub is_virtual: Option<bool>,
}

/// Context switches of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Switches {
    voluntary: u64,
    involuntary: u64,
}

impl Watch {
    /// Watches from here on.
    #[must_use]
    pub fn start() -> Watch {
        let chain_ticks = chain_ticks();
        let stolen_ms = stolen_ms(&read("/proc/stat"));
        let switches = Switches::parse(&read("/proc/thread-self/status"));
        let (_, core) = ticks_and_core();
        let anchor = Anchor::now();
        Watch { stolen_ms, switches, core, chain_ticks, anchor, this_thread: PhantomData }
    }

    /// What happened until here.
    #[must_use]
    pub fn marks(&self) -> Marks {
        let drift = Cycles::get().drift_since(&self.anchor);
        let (_, core) = ticks_and_core();
        let switches = Switches::parse(&read("/proc/thread-self/status"));
        Marks {
            stolen_ms: stolen_ms(&read("/proc/stat")).saturating_sub(self.stolen_ms),
            preempted: switches.involuntary.saturating_sub(self.switches.involuntary),
            slept: switches.voluntary.saturating_sub(self.switches.voluntary),
            moved: core != self.core,
            clock_change: clock_change(self.chain_ticks, chain_ticks()),
            drift,
        }
    }
}

impl Marks {
    /// Did nothing disturb the measurement?
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.stolen_ms == 0
            && self.preempted == 0
            && !self.moved
            && !self.has_clock_changed()
            && !self.drift.is_suspicious()
    }

    fn has_clock_changed(&self) -> bool {
        self.clock_change.abs() > CLOCK_CHANGE_MAX
    }
}

impl fmt::Display for Marks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |happened: bool, text: String| happened.then_some(text);
        let (percent, ppm) = (self.clock_change * 100.0, self.drift.ppm);
        let marks = [
            told(self.stolen_ms > 0, format!("{} ms stolen by the hypervisor", self.stolen_ms)),
            told(self.preempted > 0, format!("preempted {} times", self.preempted)),
            told(self.moved, "moved to another core".to_string()),
            told(self.has_clock_changed(), format!("core clock changed by {percent:+.0} %")),
            told(self.drift.is_suspicious(), format!("counter drifts by {ppm:+.0} ppm")),
        ];
        let marks: Vec<String> = marks.into_iter().flatten().collect();
        f.write_str(if marks.is_empty() { "clean" } else { "" })?;
        f.write_str(&marks.join(", "))
    }
}

impl Machine {
    /// This one.
    #[must_use]
    pub fn detect() -> Machine {
        Machine::parse(&read("/proc/cpuinfo"), &read("/proc/sys/kernel/osrelease"))
    }

    fn parse(cpuinfo: &str, release: &str) -> Machine {
        let value = |name: &str| field(cpuinfo, name);
        let model = value("model name").unwrap_or(std::env::consts::ARCH).to_string();
        let cores = cpuinfo.lines().filter(|line| line.starts_with("processor")).count().max(1);
        let is_virtual =
            value("flags").map(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
        Machine { model, cores, kernel: release.trim().to_string(), is_virtual }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.is_virtual {
            Some(true) => ", virtual machine",
            Some(false) => ", bare metal",
            None => "",
        };
        let cores = if self.cores == 1 { "core" } else { "cores" };
        write!(f, "{}, {} {cores}, Linux {}{kind}", self.model, self.cores, self.kernel)
    }
}

/// CPU time that this thread has used, ns: user and system, without what it slept or waited for a core.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, ns) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(ns.unwrap_or(0))
}

/// Does so many steps of which each needs the one before: a fixed number of the core's cycles, whatever else it could do
/// at once.
#[inline(never)]
pub(crate) fn chain(steps: u32) -> u64 {
    let step = |x: u64, _| x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    black_box((0..black_box(steps)).fold(black_box(1), step))
}

/// Ticks of the quickest of some chains.
fn chain_ticks() -> u64 {
    let once = |_| {
        let begun = ticks_ordered();
        chain(CHAIN_STEPS);
        ticks_ordered().saturating_sub(begun)
    };
    (0..CHAIN_TRIES).map(once).min().unwrap_or(0)
}

/// How much faster the clock has become, from the ticks of one and the same work.
#[allow(clippy::cast_precision_loss, reason = "ticks of some microseconds")]
fn clock_change(before_ticks: u64, after_ticks: u64) -> f64 {
    before_ticks.max(1) as f64 / after_ticks.max(1) as f64 - 1.0
}

/// A file of `/proc`; nothing where there is none, which marks nothing.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The value of a line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(own, _)| own.trim() == name).map(|(_, value)| value.trim())
}

/// The eighth number of the line of all cores.
fn stolen_ms(stat: &str) -> u64 {
    let all = stat.lines().next().unwrap_or_default();
    let stolen = all.split_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    stolen.unwrap_or(0).saturating_mul(MS_PER_STAT_TICK)
}

impl Switches {
    fn parse(status: &str) -> Switches {
        let count = |name| field(status, name).and_then(|count| count.parse().ok()).unwrap_or(0);
        Switches {
            voluntary: count("voluntary_ctxt_switches"),
            involuntary: count("nonvoluntary_ctxt_switches"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    const NO_DRIFT: Drift = Drift { ppm: 0.0, error_ppm: 1.0 };
    const CLEAN: Marks = Marks {
        stolen_ms: 0,
        preempted: 0,
        slept: 5,
        moved: false,
        clock_change: 0.01,
        drift: NO_DRIFT,
    };

    #[test]
    fn marks_say_what_happened() {
        assert_eq!((CLEAN.is_clean(), CLEAN.to_string().as_str()), (true, "clean"));
        let drift = Drift { ppm: -5_000.0, error_ppm: 1.0 };
        let spoilt =
            Marks { stolen_ms: 20, preempted: 3, slept: 0, moved: true, clock_change: -0.2, drift };
        assert_eq!(
            spoilt.to_string(),
            "20 ms stolen by the hypervisor, preempted 3 times, moved to another core, \
             core clock changed by -20 %, counter drifts by -5000 ppm"
        );
    }

    #[test]
    fn any_mark_is_enough() {
        let drift = Drift { ppm: 2_000.0, ..NO_DRIFT };
        let spoilt = [
            Marks { stolen_ms: 10, ..CLEAN },
            Marks { preempted: 1, ..CLEAN },
            Marks { moved: true, ..CLEAN },
            Marks { clock_change: 0.04, ..CLEAN },
            Marks { drift, ..CLEAN },
        ];
        assert!(spoilt.iter().all(|marks| !marks.is_clean() && marks.to_string() != "clean"));
    }

    #[test]
    fn files_of_the_kernel_are_read() {
        assert_eq!(stolen_ms("cpu  3552308 158077 246730 850578 76723 0 10203 5902 0 0\n"), 59_020);
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(Switches::parse(status), Switches { voluntary: 7, involuntary: 3 });
        assert_eq!((stolen_ms(""), Switches::parse("?")), (0, Switches::default()));
    }

    #[test]
    fn machines_are_described() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Fast 9000\nflags\t\t: fpu hypervisor lm\n\n\
                       processor\t: 1\nmodel name\t: Fast 9000\nflags\t\t: fpu hypervisor lm\n";
        let machine = Machine::parse(cpuinfo, "6.1.0-13\n");
        assert_eq!(machine.to_string(), "Fast 9000, 2 cores, Linux 6.1.0-13, virtual machine");
        let metal = Machine::parse(&cpuinfo.replace("hypervisor ", ""), "6.1");
        assert_eq!(metal.is_virtual, Some(false));
        let other = Machine::parse("processor\t: 0\nCPU part\t: 0xd0c\n", "6.1");
        assert_eq!((other.model.as_str(), other.is_virtual), (std::env::consts::ARCH, None));
        assert!(Machine::detect().to_string().contains("Linux"));
    }

    #[test]
    fn a_sleep_is_seen_and_is_no_disturbance() {
        let watch = Watch::start();
        // A sleep whose time is over before the thread could leave its core is none: it may take more than one.
        let seen = (0..1_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            watch.marks().slept >= 1
        });
        assert!(seen);
    }

    #[test]
    fn a_slower_clock_shows() {
        assert_eq!(clock_change(1_000, 2_000), -0.5);
        assert_eq!(clock_change(1_000, 1_000), 0.0);
        assert!(chain_ticks() > 0);
    }

    /// CPU time is the thread's own: it grows with its work, and not while it sleeps.
    #[test]
    fn cpu_time_counts_work_and_no_sleep() {
        // Some systems count what a hypervisor takes from a thread as the thread's own: not in every try.
        let sleeps = |_| {
            let begun = thread_cpu_ns();
            std::thread::sleep(Duration::from_millis(30));
            thread_cpu_ns() - begun < 15_000_000
        };
        assert!((0..100).any(sleeps));
        let (from, begun) = (Instant::now(), thread_cpu_ns());
        chain(1_000_000);
        let worked = u128::from(thread_cpu_ns() - begun);
        // The two clocks are not set by each other.
        let outer = from.elapsed().as_nanos() * 101 / 100 + 1_000_000;
        assert!(worked > 100_000 && worked <= outer, "{worked} of {outer}");
    }
}
