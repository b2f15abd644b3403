//! Threads of ours: how one is started, and what the kernel says of it.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use probe::{Counters, Event};

/// Nanoseconds of a tick in which the kernel tells user and system time: 100 per second on every platform we run on,
/// whatever the kernel's own timer does (`USER_HZ`).
const TICK_NS: u64 = 10_000_000;

/// Which kernel thread somebody is, and what that costs.
#[derive(Debug, Default)]
pub struct ThreadMeter {
    id: AtomicU32,
    /// Of the processor, where the machine shows them.
    counters: Mutex<Option<Counters>>,
}

/// What a thread used since it began; 0 where the kernel does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// All of it, ns, as the scheduler counts it.
    pub cpu_ns: u64,
    /// In our own code, ns, in steps of 10 ms.
    pub user_ns: u64,
    /// In the kernel, ns, in steps of 10 ms.
    pub system_ns: u64,
    /// Times that the scheduler took it off its core against its will.
    pub preempted: u64,
    /// Instructions, where the machine counts them.
    pub instructions: Option<u64>,
}

impl ThreadMeter {
    /// Notes which thread this is, and begins to count; to be called on it.
    pub fn sign(&self) {
        let link = std::fs::read_link("/proc/thread-self").unwrap_or_default();
        let id = link.file_name().and_then(|name| name.to_str()?.parse().ok());
        self.id.store(id.unwrap_or(0), Relaxed);
        // Many a machine shows none, and the sheet says so.
        *self.counters.lock().unwrap_or_else(PoisonError::into_inner) = Counters::hardware().ok();
    }

    /// Processor time, ns.
    pub fn cpu_ns(&self) -> u64 {
        cpu_ns(&self.read("schedstat"), || self.read("stat"))
    }

    /// Processor time, and time in which it could have run and another one had its core, ns.
    pub fn cpu_and_wait_ns(&self) -> (u64, u64) {
        let schedstat = self.read("schedstat");
        let mut numbers = schedstat.split(' ').map(|ns| ns.trim().parse().unwrap_or(0));
        (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
    }

    /// What it used so far.
    pub fn usage(&self) -> Usage {
        let (user_ns, system_ns) = user_and_system_ns(&self.read("stat"));
        let (cpu_ns, preempted) = (self.cpu_ns(), preempted(&self.read("status")));
        Usage { cpu_ns, user_ns, system_ns, preempted, instructions: self.instructions() }
    }

    fn instructions(&self) -> Option<u64> {
        let mut counters = self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        counters.as_mut()?.read().ok()?.get(Event::Instructions)
    }

    /// A file about the thread; empty where there is none.
    fn read(&self, file: &str) -> String {
        let path = format!("/proc/self/task/{}/{file}", self.id.load(Relaxed));
        std::fs::read_to_string(path).unwrap_or_default()
    }
}

impl Usage {
    /// What was used between an earlier reading and this one.
    pub fn since(self, earlier: Usage) -> Usage {
        Usage {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            preempted: self.preempted.saturating_sub(earlier.preempted),
            instructions: self
                .instructions
                .zip(earlier.instructions)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }
}

/// As the scheduler counts it. A kernel without its statistics has no `schedstat`, or only zeros in it: then the coarse sum of
/// user and system time.
fn cpu_ns(schedstat: &str, stat: impl FnOnce() -> String) -> u64 {
    match schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0) {
        0 => {
            let (user_ns, system_ns) = user_and_system_ns(&stat());
            user_ns.saturating_add(system_ns)
        }
        ns => ns,
    }
}

/// Fields 14 and 15 of `stat`, counted behind the name, which may hold anything.
fn user_and_system_ns(stat: &str) -> (u64, u64) {
    let Some((_, fields)) = stat.rsplit_once(") ") else { return (0, 0) };
    let mut ticks = fields.split(' ').skip(11).map(|ticks| ticks.parse().unwrap_or(0));
    let mut next_ns = || u64::saturating_mul(ticks.next().unwrap_or(0), TICK_NS);
    (next_ns(), next_ns())
}

fn preempted(status: &str) -> u64 {
    let mut lines = status.lines();
    let count = lines.find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// The system has no randomness or no threads for us.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {text}")]
pub struct SystemError {
    /// What was wanted.
    what: &'static str,
    /// What the system said.
    text: String,
}

impl SystemError {
    /// The system refused `what`.
    pub fn new(what: &'static str, error: &impl ToString) -> SystemError {
        SystemError { what, text: error.to_string() }
    }
}

/// Starts a named thread.
///
/// # Errors
/// The system has no thread.
pub fn spawn<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, SystemError> {
    let thread = std::thread::Builder::new().name(name.to_string());
    thread.spawn(run).map_err(|e| SystemError::new("a thread", &e))
}

/// What runs on a thread that stays off the workers' cores, and so do threads that it starts. `rest` are the cores that workers leave; empty: it
/// runs wherever it is.
pub fn off_workers<R, F: FnOnce() -> R + Send>(
    rest: &[usize],
    run: F,
) -> impl FnOnce() -> R + Send + use<R, F> {
    let rest = rest.to_vec();
    move || {
        if !rest.is_empty()
            && let Err(error) = door_transport::cores::confine(&rest)
        {
            tracing::warn!(%error, "a thread of a door may run on the workers' cores");
        }
        run()
    }
}

/// Does something on such a thread, for the threads that it starts, and waits for it.
pub fn on_thread_off_workers<R: Send>(rest: &[usize], run: impl FnOnce() -> R + Send) -> R {
    let done = std::thread::scope(|scope| scope.spawn(off_workers(rest, run)).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_off_the_workers_cores_keeps_its_threads_there() {
        let allowed = || door_transport::cores::allowed().unwrap();
        let before = allowed();
        let rest = &before[before.len() - 1..];
        let seen = on_thread_off_workers(rest, || std::thread::spawn(allowed).join().unwrap());
        assert_eq!((seen.as_slice(), allowed()), (rest, before.clone()));
        assert_eq!(on_thread_off_workers(&[], allowed), before);
    }

    #[test]
    fn the_kernels_texts_are_read() {
        let stat = "77 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 31 0 0 20 0";
        assert_eq!(user_and_system_ns(stat), (2_500_000_000, 310_000_000));
        assert_eq!(cpu_ns("123456789 42 7\n", || stat.into()), 123_456_789);
        for none in ["0 0 0\n", ""] {
            assert_eq!(cpu_ns(none, || stat.into()), 2_810_000_000, "a kernel without statistics");
        }
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t6\n";
        assert_eq!(preempted(status), 6);
    }

    #[test]
    fn what_is_not_there_is_zero() {
        assert_eq!(
            (cpu_ns("", String::new), user_and_system_ns("1 (x"), preempted("")),
            (0, (0, 0), 0)
        );
        assert_eq!(ThreadMeter::default().usage(), Usage::default());
    }

    #[test]
    fn a_thread_that_works_is_seen_to() {
        let thread = ThreadMeter::default();
        thread.sign();
        let before = thread.usage();
        let mut sum = 0_u64;
        while thread.cpu_ns() - before.cpu_ns < 1_000_000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(thread.usage().since(before).cpu_ns >= 1_000_000);
    }
}
