//! The open loop's sender: sleeps until the next send is due, and keeps account of how late it was itself.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use hdrhistogram::Histogram;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::cpu::ThreadTimes;
use crate::latency::histogram;
use crate::schedule::Schedule;

/// A send this late was behind schedule, in ns.
const BEHIND_NS: u64 = 1_000_000;
/// The longest sleep, in ns: how often other things are looked at.
const SLEEP_NS_MAX: u64 = 1_000_000;

/// When sends are due, and how late they were. Lateness counts from the due instant to the moment the sender takes the
/// send up, and leaves out what had no room on any connection: that wait is the node's.
#[derive(Debug)]
pub(crate) struct Timetable {
    schedule: Schedule,
    alarm: Alarm,
    /// No connection had room when it was last tried.
    is_full: bool,
    /// What was due up to then waited for room.
    full_until_ns: u64,
    figures: Lateness,
}

/// How late the sender was itself.
#[derive(Debug)]
pub(crate) struct Lateness {
    /// From due to taken up, in ns.
    pub lag: Histogram<u64>,
    /// Sends over 1 ms late.
    pub behind: u64,
    /// Sends that were late because no connection had room.
    pub without_room: u64,
    /// Sends that were due and never left.
    pub skipped: u64,
    /// How long the thread could have run and waited for a core while it sent; `None` where the kernel does not tell.
    pub waited_ns: Option<u64>,
}

impl Lateness {
    pub(crate) fn new() -> Self {
        Self { lag: histogram(), behind: 0, without_room: 0, skipped: 0, waited_ns: None }
    }

    /// Adds another thread's.
    pub(crate) fn add(&mut self, other: &Self) {
        // Both have the same bounds, so nothing can be left out.
        let _ = self.lag.add(&other.lag);
        self.behind += other.behind;
        self.without_room += other.without_room;
        self.skipped += other.skipped;
        self.waited_ns = self.waited_ns.zip(other.waited_ns).map(|(one, two)| one + two);
    }
}

impl Timetable {
    /// A sender by `schedule`, woken under `token`.
    ///
    /// # Errors
    /// The system gives no timer.
    pub(crate) fn new(schedule: Schedule, poll: &Poll, token: Token) -> io::Result<Self> {
        let (alarm, figures) = (Alarm::new(poll, token)?, Lateness::new());
        Ok(Self { schedule, alarm, is_full: false, full_until_ns: 0, figures })
    }

    /// Whether a send is due.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.schedule.due_ns() <= now_ns
    }

    /// Takes up the next send, if it is due: its intended instant, from which its latency counts.
    pub(crate) fn take(&mut self, now_ns: u64) -> Option<u64> {
        let due_ns = self.schedule.take(now_ns)?;
        if std::mem::take(&mut self.is_full) {
            self.full_until_ns = now_ns;
        }
        if self.full_until_ns > 0 && due_ns <= self.full_until_ns {
            self.figures.without_room += 1;
        } else {
            let lag_ns = now_ns - due_ns;
            self.figures.lag.saturating_record(lag_ns);
            self.figures.behind += u64::from(lag_ns > BEHIND_NS);
        }
        Some(due_ns)
    }

    /// No connection has room for what is due.
    pub(crate) fn full(&mut self) {
        self.is_full = true;
    }

    /// The load is over: what is due by now and has not left never will. `times` is what the thread did meanwhile.
    pub(crate) fn end(&mut self, now_ns: u64, times: Option<ThreadTimes>) {
        self.figures.skipped = self.schedule.overdue(now_ns);
        self.figures.waited_ns = times.map(|times| times.waited_ns);
    }

    /// Sleeps until the next send is due or something comes in, for a millisecond at most. Where sends wait for room,
    /// only what comes in can bring it.
    ///
    /// # Errors
    /// The system refuses to wait, or to wake.
    pub(crate) fn sleep(
        &mut self,
        poll: &mut Poll,
        events: &mut Events,
        now_ns: u64,
    ) -> io::Result<()> {
        let wait_ns =
            if self.is_full { SLEEP_NS_MAX } else { self.schedule.due_ns().saturating_sub(now_ns) };
        self.alarm.wait(poll, events, wait_ns)
    }

    pub(crate) fn figures(self) -> Lateness {
        self.figures
    }
}

/// A timer of the kernel among the sockets of a poll. A poll's own limit of time counts whole milliseconds: too coarse
/// to be on time, which is why load tools spin.
#[derive(Debug)]
struct Alarm {
    timer: OwnedFd,
}

impl Alarm {
    fn new(poll: &Poll, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        poll.registry().register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { timer })
    }

    fn wait(&self, poll: &mut Poll, events: &mut Events, wait_ns: u64) -> io::Result<()> {
        if wait_ns == 0 {
            return poll.poll(events, Some(Duration::ZERO));
        }
        let wait_ns = wait_ns.min(SLEEP_NS_MAX);
        let once = Timespec { tv_sec: 0, tv_nsec: i64::try_from(wait_ns).unwrap_or(1_000_000) };
        let spec = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: once };
        timerfd_settime(self.timer.as_fd(), TimerfdTimerFlags::empty(), &spec)?;
        // Longer than any wait: the timer ends it.
        poll.poll(events, Some(Duration::from_millis(100)))
    }
}

/// Sleeps until something comes in, for a millisecond at most: the closed loop, and the drain of both.
///
/// # Errors
/// The system refuses to wait.
pub(crate) fn sleep_for_answers(poll: &mut Poll, events: &mut Events) -> io::Result<()> {
    poll.poll(events, Some(Duration::from_nanos(SLEEP_NS_MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn timetable(per_s: u64) -> (Timetable, Poll) {
        let poll = Poll::new().unwrap();
        (Timetable::new(Schedule::new(per_s, 1, 0, 1), &poll, Token(7)).unwrap(), poll)
    }

    #[test]
    fn a_sender_sleeps_and_is_never_early() {
        // Half a second of sends 5 ms apart: one who spins is awake all the time.
        let ((mut table, mut poll), start) = (timetable(200), Instant::now());
        let mut events = Events::with_capacity(8);
        let now_ns = || u64::try_from(start.elapsed().as_nanos()).unwrap();
        let (mut wakes, mut sent) = (0, 0_u64);
        while sent < 100 {
            let now = now_ns();
            while let Some(due_ns) = table.take(now) {
                assert!(due_ns <= now, "never early");
                sent += 1;
            }
            let now = now_ns();
            table.sleep(&mut poll, &mut events, now).unwrap();
            wakes += 1;
        }
        // A wake-up a millisecond, and some for sends; one who spins has hundreds of thousands.
        let elapsed_ms = u64::try_from(start.elapsed().as_millis()).unwrap();
        assert!(wakes <= elapsed_ms + sent + 100, "{wakes} wake-ups in {elapsed_ms} ms");
        assert_eq!(table.figures().lag.len(), sent);
    }

    #[test]
    fn lateness_is_ours_unless_there_was_no_room() {
        let (mut table, _poll) = timetable(1_000);
        assert_eq!(table.take(0), Some(0));
        // Ours: awake 3 ms after the second send was due.
        assert_eq!(table.take(4_000_000), Some(1_000_000));
        // The node's: nothing has room from here until 9 ms.
        table.full();
        assert_eq!(table.take(9_000_000), Some(2_000_000));
        while table.take(9_000_000).is_some() {}
        assert_eq!(table.take(10_000_000), Some(10_000_000));
        table.end(12_500_000, Some(ThreadTimes { cpu_ns: 1, waited_ns: 5 }));
        let figures = table.figures();
        assert_eq!((figures.lag.len(), figures.behind, figures.without_room), (3, 1, 8));
        assert_eq!((figures.skipped, figures.waited_ns), (2, Some(5)));
        assert!((2_990_000..=3_010_000).contains(&figures.lag.max()), "{}", figures.lag.max());
    }

    #[test]
    fn threads_add_up() {
        let mut sum = Lateness { waited_ns: Some(1), ..Lateness::new() };
        let other = Lateness {
            behind: 2,
            without_room: 3,
            skipped: 4,
            waited_ns: Some(5),
            ..Lateness::new()
        };
        sum.add(&other);
        assert_eq!((sum.behind, sum.without_room, sum.skipped, sum.waited_ns), (2, 3, 4, Some(6)));
        sum.add(&Lateness::new());
        assert_eq!(sum.waited_ns, None, "one that is not known makes the sum unknown");
    }
}
