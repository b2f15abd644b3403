//! The processor's own counters of events, for the calling thread, through the kernel's `perf_event`.

use std::fmt;
use std::fs;
use std::io;
use std::time::Duration;

use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Counter, Group};
use rustix::io::Errno;

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Cycles of the core, at whatever speed its clock runs.
    Cycles,
    /// Instructions that were completed.
    Instructions,
    /// Accesses that the last cache had not.
    CacheMisses,
    /// Branches that went another way than predicted.
    BranchMisses,
    /// CPU time, ns. The kernel's own figure, on every machine.
    TaskClockNs,
    /// Page faults. The kernel's own figure, on every machine.
    PageFaults,
}

/// Counters of the thread that opened them, counted together: over exactly the same time. Reading takes a system call.
pub struct Counters {
    group: Group,
    counters: Vec<(Event, Counter)>,
    with_kernel: bool,
}

/// The counts until some moment, or between two.
#[derive(Clone, Debug, PartialEq)]
pub struct Counts {
    values: Vec<(Event, u64)>,
    enabled_ns: u64,
    running_ns: u64,
}

/// Why nothing is counted. The text is meant for the table whose columns stay empty.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// The processor has none, or the hypervisor hides them.
    #[error("this machine shows no hardware counters (virtual machines often hide them)")]
    NoHardware,
    /// The kernel does not let this user have them.
    #[error(
        "the kernel forbids counters to this user (/proc/sys/kernel/perf_event_paranoid is {level}; \
         2 or less allows a program its own)"
    )]
    Forbidden {
        /// What the file says, `unknown` if it cannot be read.
        level: String,
    },
    /// Another user, such as the kernel's watchdog, held the processor's counters all the time.
    #[error(
        "the counters never ran: others hold all that the processor has (kernel.nmi_watchdog takes one)"
    )]
    NeverRan,
    /// Anything else.
    #[error("the kernel's perf_event_open or a read of its counters failed: {0}")]
    Failed(#[source] io::Error),
}

impl Event {
    /// Those of the processor.
    pub const HARDWARE: [Event; 4] =
        [Event::Cycles, Event::Instructions, Event::CacheMisses, Event::BranchMisses];
    /// Those that the kernel counts itself, on every machine.
    pub const SOFTWARE: [Event; 2] = [Event::TaskClockNs, Event::PageFaults];

    fn builder(self) -> Builder<'static> {
        match self {
            Event::Cycles => Builder::new(Hardware::CPU_CYCLES),
            Event::Instructions => Builder::new(Hardware::INSTRUCTIONS),
            Event::CacheMisses => Builder::new(Hardware::CACHE_MISSES),
            Event::BranchMisses => Builder::new(Hardware::BRANCH_MISSES),
            Event::TaskClockNs => Builder::new(Software::TASK_CLOCK),
            Event::PageFaults => Builder::new(Software::PAGE_FAULTS),
        }
    }
}

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events: Vec<Event> = self.counters.iter().map(|(event, _)| *event).collect();
        f.debug_struct("Counters").field("events", &events).finish_non_exhaustive()
    }
}

impl Counters {
    /// Starts to count cycles, instructions, cache and branch misses of this thread.
    ///
    /// # Errors
    /// [`Unavailable`] says why this machine, or this user, has none.
    pub fn hardware() -> Result<Counters, Unavailable> {
        Counters::open(&Event::HARDWARE)
    }

    /// Starts to count some events of this thread, those in the kernel too where that is allowed. The first one has to be
    /// there; others that the machine has not are left out.
    ///
    /// # Errors
    /// [`Unavailable`] says why this machine, or this user, has none.
    pub fn open(events: &[Event]) -> Result<Counters, Unavailable> {
        match Counters::open_as(events, true) {
            Err(Unavailable::Forbidden { .. }) => Counters::open_as(events, false),
            opened => opened,
        }
    }

    fn open_as(events: &[Event], with_kernel: bool) -> Result<Counters, Unavailable> {
        let mut group = Group::builder().exclude_kernel(!with_kernel).build_group()?;
        let mut counters = Vec::with_capacity(events.len());
        for &event in events {
            let opened = group.add(event.builder().exclude_kernel(!with_kernel));
            match opened.map_err(Unavailable::from) {
                Ok(counter) => counters.push((event, counter)),
                Err(Unavailable::NoHardware) if !counters.is_empty() => {}
                Err(unavailable) => return Err(unavailable),
            }
        }
        group.enable()?;
        Ok(Counters { group, counters, with_kernel })
    }

    /// Do the counts include what the kernel does for this thread?
    #[must_use]
    pub fn is_with_kernel(&self) -> bool {
        self.with_kernel
    }

    /// The counts so far.
    ///
    /// # Errors
    /// [`Unavailable::NeverRan`] when the processor's counters were never free, [`Unavailable::Failed`] when the kernel
    /// cannot be asked.
    pub fn read(&mut self) -> Result<Counts, Unavailable> {
        let data = self.group.read()?;
        let ns = |time: Option<Duration>| {
            u64::try_from(time.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
        };
        let (enabled_ns, running_ns) = (ns(data.time_enabled()), ns(data.time_running()));
        if running_ns == 0 && enabled_ns > 0 {
            return Err(Unavailable::NeverRan);
        }
        let value =
            |(event, counter): &(Event, Counter)| Some((*event, data.get(counter)?.value()));
        let values = self.counters.iter().filter_map(value).collect();
        Ok(Counts { values, enabled_ns, running_ns })
    }
}

impl Counts {
    /// What was counted of an event; `None` where the machine does not count it. Where the processor had to share its
    /// counters, the part that was not seen is estimated from the part that was.
    #[must_use]
    pub fn get(&self, event: Event) -> Option<u64> {
        let (_, value) = self.values.iter().find(|(own, _)| *own == event)?;
        let scaled = u128::from(*value) * u128::from(self.enabled_ns);
        let scaled = scaled.checked_div(u128::from(self.running_ns)).unwrap_or(0);
        Some(u64::try_from(scaled).unwrap_or(u64::MAX))
    }

    /// The counts between an earlier reading of the same counters and this one.
    #[must_use]
    pub fn since(&self, earlier: &Counts) -> Counts {
        let pairs = self.values.iter().zip(&earlier.values);
        Counts {
            values: pairs
                .map(|((event, now), (_, then))| (*event, now.saturating_sub(*then)))
                .collect(),
            enabled_ns: self.enabled_ns.saturating_sub(earlier.enabled_ns),
            running_ns: self.running_ns.saturating_sub(earlier.running_ns),
        }
    }
}

impl From<io::Error> for Unavailable {
    fn from(error: io::Error) -> Unavailable {
        match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP) => Unavailable::NoHardware,
            Some(Errno::ACCESS | Errno::PERM) => Unavailable::Forbidden { level: paranoid() },
            _ => Unavailable::Failed(error),
        }
    }
}

/// What the kernel allows.
fn paranoid() -> String {
    let level = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    level.map_or_else(|_| "unknown".to_string(), |level| level.trim().to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::machine::{chain, thread_cpu_ns};

    /// The kernel's own events take the same way as the processor's. A sandbox may forbid them all: then it says so.
    #[test]
    fn a_thread_is_counted() {
        let mut counters = match Counters::open(&Event::SOFTWARE) {
            Ok(counters) => counters,
            Err(unavailable) => {
                assert!(matches!(
                    unavailable,
                    Unavailable::Forbidden { .. } | Unavailable::Failed(_)
                ));
                return;
            }
        };
        let begun = Instant::now();
        let earlier = counters.read().expect("opened");
        let inner = thread_cpu_ns();
        chain(1_000_000);
        let inner = thread_cpu_ns() - inner;
        let counts = counters.read().expect("opened").since(&earlier);
        // What a hypervisor takes may count here and not there: no more than all the time that passed.
        let outer = begun.elapsed().as_nanos() * 101 / 100 + 1_000_000;
        let ns = counts.get(Event::TaskClockNs).expect("asked for");
        assert!(ns >= inner.saturating_sub(inner / 20), "{inner} {ns}");
        assert!(u128::from(ns) <= outer, "{ns} {outer}");
        assert_eq!(counts.get(Event::Cycles), None, "not asked for");
    }

    /// Either the machine counts, and then sensibly, or it says why not.
    #[test]
    fn hardware_counts_or_says_why_not() {
        match Counters::hardware() {
            Ok(mut counters) => {
                let earlier = counters.read().expect("opened");
                chain(1_000_000);
                let counts = counters.read().expect("opened").since(&earlier);
                let cycles = counts.get(Event::Cycles).expect("the first one is there");
                // Others may have all counters of the processor, a watchdog for one: then it says that none ran.
                assert!(cycles > 1_000_000 || counts.running_ns == 0, "{counts:?}");
            }
            Err(unavailable) => assert!(unavailable.to_string().len() > 20),
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let text = |errno: Errno| Unavailable::from(io::Error::from(errno)).to_string();
        assert!(text(Errno::NOENT).contains("no hardware counters"));
        assert!(text(Errno::ACCESS).contains("/proc/sys/kernel/perf_event_paranoid"));
        assert!(text(Errno::MFILE).contains("perf_event_open"));
    }

    #[test]
    fn what_was_not_seen_is_estimated() {
        let values = vec![(Event::Cycles, 1_000)];
        let shared = Counts { values, enabled_ns: 300, running_ns: 100 };
        assert_eq!(
            (shared.get(Event::Cycles), shared.get(Event::Instructions)),
            (Some(3_000), None)
        );
        let never = Counts { running_ns: 0, ..shared };
        assert_eq!(never.get(Event::Cycles), Some(0));
    }
}
