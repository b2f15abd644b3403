//! The processor's counter of ticks, and what a tick is in nanoseconds.
//!
//! The counter of a modern processor runs at one speed whatever the cores do, and all cores agree on it. Where either is
//! not so, [`ticks`] reads the system's monotonic clock instead, and [`Cycles::note`] says so.
#![allow(
    unsafe_code,
    reason = "the counters are read by instructions that std has no safe name for"
)]
#![allow(
    clippy::cast_precision_loss,
    reason = "ticks and ns of one process stay below 2^53 for weeks"
)]

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

use crate::calibration::{Calibration, pair};

/// What [`ticks`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The time stamp counter of x86-64.
    TimeStampCounter,
    /// The virtual counter of aarch64.
    VirtualCounter,
    /// The system's monotonic clock, in ns: the processor's counter is no clock here.
    MonotonicClock(Rejected),
}

/// Why the processor's counter is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    /// The processor does not promise that it runs at one speed and never stops.
    NotInvariant,
    /// The kernel found it unstable: it is not among the clock sources that it offers.
    Kernel,
    /// There is none that this crate knows.
    Unknown,
}

/// How [`ticks_ordered`] keeps its reading apart from the work around it. Which one it is, the process finds by a
/// [`Calibration`] of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A fence before it: it waits for the work before, but work behind it may begin before it ends.
    FenceBefore,
    /// A fence on either side: dearer, for processors on which work behind a reading begins in its shadow.
    FenceAround,
}

/// What a tick is on this machine, found once per process.
#[derive(Clone, Debug)]
pub struct Cycles {
    source: Source,
    ns_per_tick: f64,
    error_ppm: f64,
    stated_hz: Option<f64>,
    start: Anchor,
}

/// How far the counter has strayed from the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Parts per million of the time passed; above 0 the counter runs fast.
    pub ppm: f64,
    /// How far [`Drift::ppm`] may be off, from the width of the readings; less the longer the time is.
    pub error_ppm: f64,
}

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anchor {
    ticks: u64,
    at: Instant,
    /// Ticks between the readings of the counter before and after that of the clock.
    width: u64,
}

const UNDECIDED: u8 = 0;
const CLOCK: u8 = 1;
/// The counter, as [`Reading::FenceBefore`] and as [`Reading::FenceAround`].
const COUNTER: u8 = 2;
const FENCED: u8 = 3;

/// What [`ticks`] reads and how, decided at the first use and never changed: all ticks of a process compare.
static CHOSEN: AtomicU8 = AtomicU8::new(UNDECIDED);

/// How long the calibration waits.
const CALIBRATE: Duration = Duration::from_millis(18);
/// Readings of both clocks of which the tightest is taken.
const ANCHOR_TRIES: usize = 32;
/// Time services slew the monotonic clock by up to 500 ppm; beyond twice that, a counter has lied.
const DRIFT_PPM_MAX: f64 = 1_000.0;

/// Reads the counter. Not ordered with what stands around it: the processor may read it some instructions early or late.
#[inline(always)]
#[must_use]
pub fn ticks() -> u64 {
    if chosen() == CLOCK { clock_ns() } else { counter::read() }
}

/// [`ticks`] that waits until everything before it is done, so that what is between two of them is all between them. Half as
/// dear again as [`ticks`], which reads a chain of 40 dependent instructions up to 45 ns short. Dearer still where the
/// processor needs [`Reading::FenceAround`].
#[inline(always)]
#[must_use]
pub fn ticks_ordered() -> u64 {
    let chosen = chosen();
    if chosen == CLOCK {
        return clock_ns();
    }
    let ticks = counter::read_ordered();
    if chosen == FENCED {
        counter::fence();
    }
    ticks
}

/// [`ticks`], and the number of the core that this thread ran on at that moment.
#[inline]
#[must_use]
pub fn ticks_and_core() -> (u64, u32) {
    if chosen() == CLOCK { (clock_ns(), core()) } else { counter::read_with_core() }
}

/// One load and a branch that goes one way.
#[inline(always)]
fn chosen() -> u8 {
    match CHOSEN.load(Relaxed) {
        UNDECIDED => decide(),
        chosen => chosen,
    }
}

/// Finds out what to read and how, unless that is known; some 5 ms the first time. Whoever measures calls it before the
/// first reading, which else takes as long.
#[cold]
#[inline(never)]
pub(crate) fn decide() -> u8 {
    decided().chosen
}

/// What was found about the counter at the first use.
struct Decided {
    source: Source,
    chosen: u8,
    readings: Vec<(Reading, Calibration)>,
}

fn decided() -> &'static Decided {
    static DECIDED: OnceLock<Decided> = OnceLock::new();
    DECIDED.get_or_init(|| {
        let source = counter::judge();
        let readings = if source.is_counter() { calibrate_readings() } else { Vec::new() };
        let chosen = if source.is_counter() { cheapest_right(&readings) } else { CLOCK };
        CHOSEN.store(chosen, Relaxed);
        Decided { source, chosen, readings }
    })
}

/// Both ways of reading, the cheaper one first.
fn calibrate_readings() -> Vec<(Reading, Calibration)> {
    let before = |unmeasured, steps| pair(unmeasured, steps, counter::read_ordered);
    let around = || {
        let ticks = counter::read_ordered();
        counter::fence();
        ticks
    };
    vec![
        (Reading::FenceBefore, Calibration::of(before)),
        (
            Reading::FenceAround,
            Calibration::of(|unmeasured, steps| pair(unmeasured, steps, around)),
        ),
    ]
}

/// The second fence, where it is worth its price.
fn cheapest_right(readings: &[(Reading, Calibration)]) -> u8 {
    match readings {
        [(_, before), (_, around)] if around.is_worth_more_than(before) => FENCED,
        _ => COUNTER,
    }
}

/// Ns of the monotonic clock since the first call.
fn clock_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    u64::try_from(START.get_or_init(Instant::now).elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// The core that this thread runs on.
fn core() -> u32 {
    u32::try_from(rustix::thread::sched_getcpu()).unwrap_or(u32::MAX)
}

impl Cycles {
    /// The calibration of this process; the first call takes some 20 ms.
    pub fn get() -> &'static Cycles {
        static CYCLES: OnceLock<Cycles> = OnceLock::new();
        CYCLES.get_or_init(Cycles::calibrate)
    }

    /// One window between two moments that are each known to some 30 ns. Its error is their width by its length, so one
    /// long window tells more than the best of several short ones.
    fn calibrate() -> Cycles {
        let (source, start) = (decided().source, Anchor::now());
        let (ns_per_tick, error_ppm) = if source.is_counter() {
            std::thread::sleep(CALIBRATE);
            start.rate_until(Anchor::now())
        } else {
            (1.0, 0.0)
        };
        let stated_hz = if source.is_counter() { counter::stated_hz() } else { None };
        Cycles { source, ns_per_tick, error_ppm, stated_hz, start }
    }

    /// Nanoseconds of a tick.
    #[must_use]
    pub fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }

    /// How far [`Cycles::ns_per_tick`] may be off, parts per million: the width of the readings it was found by.
    #[must_use]
    pub fn error_ppm(&self) -> f64 {
        self.error_ppm
    }

    /// Ticks a second.
    #[must_use]
    pub fn hz(&self) -> f64 {
        1e9 / self.ns_per_tick
    }

    /// What [`ticks`] reads.
    #[must_use]
    pub fn source(&self) -> Source {
        self.source
    }

    /// How [`ticks_ordered`] reads the counter here; `None` where it reads the system's clock.
    #[must_use]
    pub fn reading(&self) -> Option<Reading> {
        match decide() {
            COUNTER => Some(Reading::FenceBefore),
            FENCED => Some(Reading::FenceAround),
            _ => None,
        }
    }

    /// The ways of reading the counter that [`Cycles::reading`] was chosen from, each with its calibration; none where the
    /// system's clock is read.
    #[must_use]
    pub fn readings(&self) -> &'static [(Reading, Calibration)] {
        &decided().readings
    }

    /// Ticks a second as the processor or the hypervisor states it, where one does.
    #[must_use]
    pub fn stated_hz(&self) -> Option<f64> {
        self.stated_hz
    }

    /// A second calibration, from the first one to now: did the counter keep its speed? Takes some microseconds.
    #[must_use]
    pub fn check(&self) -> Drift {
        self.drift_since(&self.start)
    }

    /// How far the counter strayed since a moment.
    pub(crate) fn drift_since(&self, from: &Anchor) -> Drift {
        let (ns_per_tick, error_ppm) = from.rate_until(Anchor::now());
        Drift {
            ppm: (self.ns_per_tick / ns_per_tick - 1.0) * 1e6,
            error_ppm: error_ppm + self.error_ppm,
        }
    }

    /// One sentence about the counter, for the head of a table: what is read, its speed, and what is wrong with it.
    #[must_use]
    pub fn note(&self) -> String {
        let Source::MonotonicClock(why) = self.source else {
            let (mhz, error) = (self.hz() / 1e6, self.error_ppm);
            let stated = self.stated_hz.map(|hz| {
                let off = (self.hz() / hz - 1.0) * 1e6;
                format!(", {off:+.0} ppm from the stated {:.1} MHz", hz / 1e6)
            });
            let stated = stated.unwrap_or_default();
            return format!("{} at {mhz:.3} MHz (within {error:.0} ppm{stated})", self.source);
        };
        format!(
            "NO CYCLE COUNTER: {why}; times come from the system's monotonic clock and are coarser and dearer"
        )
    }
}

impl Source {
    /// Is it the processor's own?
    #[must_use]
    pub fn is_counter(self) -> bool {
        !matches!(self, Source::MonotonicClock(_))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::TimeStampCounter => "time stamp counter",
            Source::VirtualCounter => "virtual counter",
            Source::MonotonicClock(_) => "monotonic clock",
        })
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reading::FenceBefore => "a fence before",
            Reading::FenceAround => "a fence on either side",
        })
    }
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rejected::NotInvariant => "the processor's counter is not invariant",
            Rejected::Kernel => "the kernel does not trust the processor's counter",
            Rejected::Unknown => "the processor has no counter that is known here",
        })
    }
}

impl Drift {
    /// Is it more than a time service's slewing and the readings' width explain?
    #[must_use]
    pub fn is_suspicious(&self) -> bool {
        self.ppm.abs() > DRIFT_PPM_MAX + self.error_ppm
    }
}

impl Anchor {
    /// The tightest of several readings.
    pub(crate) fn now() -> Anchor {
        let read = || {
            let (before, at, after) = (ticks(), Instant::now(), ticks());
            let width = after.saturating_sub(before);
            Anchor { ticks: before.saturating_add(width / 2), at, width }
        };
        let tighter =
            |best: Anchor, next: Anchor| if next.width < best.width { next } else { best };
        (1..ANCHOR_TRIES).fold(read(), |best, _| tighter(best, read()))
    }

    /// Ns per tick from this moment to a later one, and the error in parts per million.
    fn rate_until(&self, end: Anchor) -> (f64, f64) {
        let passed = end.ticks.saturating_sub(self.ticks).max(1) as f64;
        let passed_ns = end.at.saturating_duration_since(self.at).as_nanos().max(1) as f64;
        // Each moment is known to half its width, either way.
        let unknown = (self.width + end.width) as f64 / 2.0;
        (passed_ns / passed, unknown / passed * 1e6)
    }
}

/// The rule for x86-64: the processor promises one speed (Linux derives `constant_tsc` and `nonstop_tsc` from the same bit),
/// and the kernel, which watches the counters of all cores, has not struck it off its list.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
fn judge_tsc(invariant: bool, clock_sources: Option<&str>) -> Source {
    let offered = |list: &str| list.split_whitespace().any(|name| name == "tsc");
    match (invariant, clock_sources) {
        (false, _) => Source::MonotonicClock(Rejected::NotInvariant),
        (true, Some(list)) if !offered(list) => Source::MonotonicClock(Rejected::Kernel),
        (true, _) => Source::TimeStampCounter,
    }
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use super::{Source, judge_tsc};
    use std::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc};
    use std::fs;

    const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0/available_clocksource";

    pub(super) fn judge() -> Source {
        let has = __cpuid(0x8000_0000).eax >= 0x8000_0007;
        let invariant = has && __cpuid(0x8000_0007).edx & (1 << 8) != 0;
        judge_tsc(invariant, fs::read_to_string(SOURCES).ok().as_deref())
    }

    /// From the processor's leaf of the counter's frequency, else from the one of KVM and VMware.
    pub(super) fn stated_hz() -> Option<f64> {
        let leaf = |first: u32, leaf: u32| (__cpuid(first).eax >= leaf).then(|| __cpuid(leaf));
        let crystal = leaf(0, 0x15).filter(|leaf| leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0);
        let hypervisor = || {
            let under = __cpuid(1).ecx & (1 << 31) != 0;
            leaf(0x4000_0000, 0x4000_0010).filter(|leaf| under && leaf.eax != 0)
        };
        crystal
            .map(|leaf| f64::from(leaf.ecx) * f64::from(leaf.ebx) / f64::from(leaf.eax))
            .or_else(|| hypervisor().map(|leaf| f64::from(leaf.eax) * 1e3))
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        // SAFETY: every x86-64 processor has the instruction; it reads a counter and touches no memory.
        unsafe { _rdtsc() }
    }

    /// The fence lets the reading begin when all before is done. What follows may begin before the reading ends.
    #[inline(always)]
    pub(super) fn read_ordered() -> u64 {
        // SAFETY: as `read`; the fence belongs to SSE2, which is part of x86-64.
        unsafe {
            _mm_lfence();
            _rdtsc()
        }
    }

    /// What follows begins when all before is done.
    #[inline(always)]
    pub(super) fn fence() {
        // SAFETY: as `read_ordered`.
        unsafe { _mm_lfence() }
    }

    #[inline(always)]
    pub(super) fn read_with_core() -> (u64, u32) {
        let mut aux = 0;
        // SAFETY: processors with an invariant counter, the only ones that get here, have the instruction (it is the
        // older of the two); it writes the one word that it is given.
        let ticks = unsafe { __rdtscp(&raw mut aux) };
        // Linux keeps the core's number in the lower 12 bits, the memory node's above.
        (ticks, aux & 0xfff)
    }
}

#[cfg(target_arch = "aarch64")]
mod counter {
    use super::{Source, core};
    use std::arch::asm;

    /// The architecture promises one speed and one value for all cores.
    pub(super) fn judge() -> Source {
        Source::VirtualCounter
    }

    pub(super) fn stated_hz() -> Option<f64> {
        let hz: u64;
        // SAFETY: Linux lets user code read the register; it touches no memory and no flag.
        unsafe {
            asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags))
        };
        (hz > 0).then_some(hz as f64)
    }

    #[inline(always)]
    pub(super) fn read() -> u64 {
        let ticks: u64;
        // SAFETY: Linux lets user code read the virtual counter; it touches no memory and no flag.
        unsafe {
            asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack, preserves_flags));
        }
        ticks
    }

    #[inline(always)]
    pub(super) fn read_ordered() -> u64 {
        let ticks: u64;
        // SAFETY: as `read`; the barrier orders instructions and changes nothing. Without `nomem`, so that the compiler
        // moves no access to memory across.
        unsafe {
            asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
        }
        ticks
    }

    #[inline(always)]
    pub(super) fn fence() {
        // SAFETY: as `read_ordered`.
        unsafe { asm!("isb", options(nostack, preserves_flags)) }
    }

    #[inline(always)]
    pub(super) fn read_with_core() -> (u64, u32) {
        (read(), core())
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod counter {
    use super::{Rejected, Source, clock_ns, core};

    pub(super) fn judge() -> Source {
        Source::MonotonicClock(Rejected::Unknown)
    }

    pub(super) fn stated_hz() -> Option<f64> {
        None
    }

    pub(super) fn read() -> u64 {
        clock_ns()
    }

    pub(super) fn read_ordered() -> u64 {
        clock_ns()
    }

    pub(super) fn fence() {}

    pub(super) fn read_with_core() -> (u64, u32) {
        (clock_ns(), core())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_counter_is_trusted_where_processor_and_kernel_agree() {
        let rejected = Source::MonotonicClock;
        assert_eq!(judge_tsc(true, Some("tsc kvm-clock \n")), Source::TimeStampCounter);
        assert_eq!(judge_tsc(true, None), Source::TimeStampCounter);
        assert_eq!(judge_tsc(true, Some("hpet acpi_pm")), rejected(Rejected::Kernel));
        assert_eq!(judge_tsc(false, Some("tsc")), rejected(Rejected::NotInvariant));
    }

    /// Every way of reading is on one scale: taken in turn, none goes back. On one core a counter cannot, and all cores of
    /// a trusted one agree far better than a migration takes.
    #[test]
    fn all_ways_of_reading_agree() {
        let mut last = ticks();
        for _ in 0..1_000 {
            let read = [ticks(), ticks_ordered(), ticks_and_core().0];
            // `ticks` is not ordered with its neighbours: allow it the length of the processor's window.
            assert!(read.iter().all(|&now| now + 2_000 >= last), "{last} {read:?}");
            last = read[1];
        }
    }

    #[test]
    fn the_core_is_one_that_this_machine_has() {
        let cores = fs::read_to_string("/sys/devices/system/cpu/possible").expect("Linux has it");
        let last = cores.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<u32>().ok());
        assert!(Some(ticks_and_core().1) <= last && Some(core()) <= last);
    }

    #[test]
    fn the_fallback_counts_nanoseconds() {
        let (from, begun) = (clock_ns(), Instant::now());
        std::thread::sleep(Duration::from_millis(2));
        let inner = u64::try_from(begun.elapsed().as_nanos()).expect("2 ms");
        assert!(clock_ns() - from >= inner);
    }

    #[test]
    fn a_calibration_states_an_error_and_holds_later() {
        let cycles = Cycles::get();
        assert!(cycles.error_ppm() < 1_000.0, "{}", cycles.note());
        assert!(cycles.hz() > 1e6 && cycles.hz() < 1e10, "{}", cycles.note());
        let drift = cycles.check();
        assert!(!drift.is_suspicious(), "{drift:?}");
        assert!(drift.error_ppm > 0.0 || !cycles.source().is_counter());
    }

    #[test]
    fn a_counter_of_another_speed_is_found_out() {
        let mut cycles = Cycles::get().clone();
        std::thread::sleep(Duration::from_millis(5));
        cycles.ns_per_tick *= 1.05;
        let drift = cycles.check();
        assert!(drift.is_suspicious() && drift.ppm > 40_000.0, "{drift:?}");
    }

    #[test]
    fn the_note_is_loud_without_a_counter() {
        let mut cycles = Cycles::get().clone();
        cycles.source = Source::MonotonicClock(Rejected::Kernel);
        assert!(cycles.note().starts_with("NO CYCLE COUNTER: the kernel"));
    }

    #[test]
    fn the_note_compares_with_what_is_stated() {
        let mut cycles = Cycles::get().clone();
        cycles.source = Source::TimeStampCounter;
        cycles.ns_per_tick = 0.5;
        cycles.stated_hz = Some(2e9 / 1.0001);
        assert!(cycles.note().contains("+100 ppm from the stated 1999.8 MHz"), "{}", cycles.note());
    }
}
