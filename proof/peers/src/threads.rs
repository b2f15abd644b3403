//! What the kernel says of threads: how long they ran, and how long they could have run while others had their core.

/// What threads used so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Used {
    pub cpu_ns: u64,
    /// Ready to run, and not running.
    pub waited_ns: u64,
}

impl Used {
    /// What was used since `before`.
    pub fn since(self, before: Used) -> Used {
        Used {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
        }
    }

    fn add(&mut self, schedstat: &str) {
        let mut numbers = schedstat.split_whitespace().map(|text| text.parse().unwrap_or(0));
        self.cpu_ns += numbers.next().unwrap_or(0);
        self.waited_ns += numbers.next().unwrap_or(0);
    }
}

/// What the threads of a process used whose names begin with `name`, and its others.
pub fn used(process: u32, name: &str) -> Result<(Used, Used), String> {
    let (mut named, mut others) = (Used::default(), Used::default());
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).map_err(|e| e.to_string())?;
    for task in tasks.flatten() {
        // A thread that ended meanwhile has no account any more.
        let read = |file| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let sum = if read("comm").starts_with(name) { &mut named } else { &mut others };
        sum.add(&read("schedstat"));
    }
    Ok((named, others))
}

/// What the calling thread used.
pub fn own() -> Used {
    let mut used = Used::default();
    used.add(&std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default());
    used
}

/// Runs a client on a thread of its own, on core 1: what is measured has core 0.
pub fn client<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    let pinned = || {
        // Where there is no core 1 for us, it runs on another.
        let _ = door_transport::cores::pin(1);
        work()
    };
    let ended = std::thread::scope(|scope| scope.spawn(pinned).join());
    ended.unwrap_or_else(|_| Err("the client panicked".into()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn cpu_time_is_told_by_the_threads_name() {
        let busy = std::thread::Builder::new().name("busy-bee".into()).spawn(|| {
            let (mut sum, me) = (0_u64, std::process::id());
            let end = Instant::now() + Duration::from_secs(60);
            while used(me, "busy").unwrap().0.cpu_ns == 0 && Instant::now() < end {
                sum = std::hint::black_box(sum.wrapping_add(1));
            }
            (used(me, "busy").unwrap().0.cpu_ns, own().cpu_ns)
        });
        let (named_ns, own_ns) = busy.unwrap().join().unwrap();
        assert!(named_ns > 0 && own_ns >= named_ns);
        let (named, others) = used(std::process::id(), "nobody is called this").unwrap();
        assert!(named.cpu_ns == 0 && others.cpu_ns > 0);
    }
}
