//! The node's clock: the system's time of day, but never going back.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// A difference between the time of day and the monotonic clock that counts as a step, ms. Time
/// services slew by at most 0.5 ms a second and step from about 128 ms on; what is less is noise.
pub const STEP_MS: u64 = 100;

/// The time of day in ms that never goes back. One a thread; it reads two clocks (50 ns), so read it
/// once a wake-up and use [`NodeClock::last_ms`] in between.
///
/// - The system clock is set **back**: the node clock holds still until the system clock has come
///   by again. Nothing expires early and no day begins twice; holds last longer by as much.
/// - It is set **forward**: the node clock follows at once.
///
/// Either is counted.
#[derive(Debug)]
pub struct NodeClock {
    started: Instant,
    state: ClockState,
}

/// What a [`NodeClock`] knows; [`ClockState::advance`] is all of its logic, without the reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockState {
    /// The node's time, ms since 1970 (UTC, without leap seconds).
    pub now_ms: u64,
    /// Times that the system clock was set back by more than [`STEP_MS`].
    pub stepped_back: u64,
    /// Times that the system clock was set forward by more than [`STEP_MS`].
    pub stepped_forward: u64,
    monotonic_ns: u64,
    wall_ms: u64,
}

impl NodeClock {
    /// A clock that starts with the system's time of day.
    #[must_use]
    pub fn new() -> NodeClock {
        NodeClock { started: Instant::now(), state: ClockState::start(0, system_ms()) }
    }

    /// A clock that does not start before an instant, ms since 1970: one that its user has already acted on. Where the
    /// system's time of day is before it, the clock holds still until that has come by.
    #[must_use]
    pub fn not_before(earliest_ms: u64) -> NodeClock {
        let mut clock = NodeClock::new();
        clock.state.now_ms = clock.state.now_ms.max(earliest_ms);
        clock
    }

    /// Reads the clocks and returns the node's time, ms since 1970.
    pub fn now_ms(&mut self) -> u64 {
        let monotonic_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.state = self.state.advance(monotonic_ns, system_ms());
        self.state.now_ms
    }

    /// What the last reading gave, ms since 1970; costs nothing.
    #[must_use]
    pub fn last_ms(&self) -> u64 {
        self.state.now_ms
    }

    /// Counters, and how far the node is ahead of the system.
    #[must_use]
    pub fn state(&self) -> ClockState {
        self.state
    }
}

impl Default for NodeClock {
    fn default() -> NodeClock {
        NodeClock::new()
    }
}

impl ClockState {
    /// The state at a first reading.
    #[must_use]
    pub fn start(monotonic_ns: u64, wall_ms: u64) -> ClockState {
        ClockState { now_ms: wall_ms, stepped_back: 0, stepped_forward: 0, monotonic_ns, wall_ms }
    }

    /// The state after a further reading of the monotonic clock (ns, any origin) and of the time of
    /// day (ms since 1970).
    #[must_use]
    pub fn advance(self, monotonic_ns: u64, wall_ms: u64) -> ClockState {
        let passed_ms = monotonic_ns.saturating_sub(self.monotonic_ns) / 1_000_000;
        let expected_ms = self.wall_ms.saturating_add(passed_ms);
        let back = wall_ms.saturating_add(STEP_MS) < expected_ms;
        let forward = wall_ms > expected_ms.saturating_add(STEP_MS);
        ClockState {
            now_ms: self.now_ms.max(wall_ms),
            stepped_back: self.stepped_back + u64::from(back),
            stepped_forward: self.stepped_forward + u64::from(forward),
            monotonic_ns: monotonic_ns.max(self.monotonic_ns),
            wall_ms,
        }
    }

    /// How far the node's time is ahead of the system's, ms: above 0 it is holding still after a step
    /// back.
    #[must_use]
    pub fn ahead_ms(self) -> u64 {
        self.now_ms - self.wall_ms
    }
}

/// The system's time of day, ms since 1970; 0 if it stands before that.
fn system_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1_700_000_000_000;
    const MS: u64 = 1_000_000;

    #[test]
    fn time_passes_as_the_system_says() {
        let clock = ClockState::start(0, START_MS).advance(250 * MS, START_MS + 250);
        assert_eq!((clock.now_ms, clock.ahead_ms()), (START_MS + 250, 0));
        assert_eq!((clock.stepped_back, clock.stepped_forward), (0, 0));
    }

    #[test]
    fn a_clock_can_begin_ahead_of_the_system() {
        let ahead_ms = system_ms() + 60_000;
        let mut clock = NodeClock::not_before(ahead_ms);
        assert_eq!(clock.now_ms(), ahead_ms);
        assert!(clock.state().ahead_ms() > 0);
        assert!(NodeClock::not_before(1).now_ms() > 1);
    }

    #[test]
    fn a_step_back_holds_the_clock_still_until_the_system_has_come_by() {
        let clock = ClockState::start(0, START_MS).advance(10 * MS, START_MS - 5_000);
        assert_eq!((clock.now_ms, clock.ahead_ms(), clock.stepped_back), (START_MS, 5_000, 1));
        let clock = clock.advance(3_010 * MS, START_MS - 2_000);
        assert_eq!((clock.now_ms, clock.stepped_back), (START_MS, 1), "one step counts once");
        let clock = clock.advance(5_020 * MS, START_MS + 10);
        assert_eq!((clock.now_ms, clock.ahead_ms()), (START_MS + 10, 0));
        assert_eq!((clock.stepped_back, clock.stepped_forward), (1, 0));
    }

    #[test]
    fn a_step_forward_is_followed_and_counted() {
        let clock = ClockState::start(0, START_MS).advance(MS, START_MS + 3_600_000);
        assert_eq!((clock.now_ms, clock.stepped_forward), (START_MS + 3_600_000, 1));
        let back = clock.advance(2 * MS, START_MS + 2);
        assert_eq!((back.now_ms, back.stepped_back), (START_MS + 3_600_000, 1));
    }

    /// The boundary: exactly the tolerance is no step, a millisecond more is.
    #[test]
    fn what_is_within_the_tolerance_is_no_step() {
        let start = ClockState::start(0, START_MS);
        let counts = |clock: ClockState| (clock.stepped_back, clock.stepped_forward);
        assert_eq!(counts(start.advance(0, START_MS - STEP_MS)), (0, 0));
        assert_eq!(counts(start.advance(0, START_MS - STEP_MS - 1)), (1, 0));
        assert_eq!(counts(start.advance(0, START_MS + STEP_MS)), (0, 0));
        assert_eq!(counts(start.advance(0, START_MS + STEP_MS + 1)), (0, 1));
    }

    /// A process that was stopped for an hour sees both clocks move: no step.
    #[test]
    fn a_long_sleep_is_no_step() {
        let hour_ms = 3_600_000;
        let clock = ClockState::start(0, START_MS).advance(hour_ms * MS, START_MS + hour_ms);
        assert_eq!((clock.now_ms, clock.stepped_forward), (START_MS + hour_ms, 0));
    }

    #[test]
    fn extremes_do_not_wrap() {
        let clock = ClockState::start(u64::MAX, u64::MAX).advance(0, 0).advance(u64::MAX, u64::MAX);
        assert_eq!(clock.now_ms, u64::MAX);
    }

    #[test]
    fn the_real_clock_reads_this_century_and_does_not_go_back() {
        let mut clock = NodeClock::new();
        let first_ms = clock.last_ms();
        assert!(first_ms > 1_600_000_000_000);
        let mut last_ms = first_ms;
        for _ in 0..1_000 {
            let now_ms = clock.now_ms();
            assert!(now_ms >= last_ms && clock.last_ms() == now_ms);
            last_ms = now_ms;
        }
    }
}
