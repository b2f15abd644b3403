//! The node's clock: the system's time of day, but never going back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const NS_PER_MS: u64 = 1_000_000;
const US_PER_MS: u64 = 1_000;

/// A difference between the time of day and the monotonic clock that counts as a step, ms. Time
/// services slew by at most 0.5 ms a second and step from about 128 ms on; what is less is noise.
pub const STEP_MS: u64 = 100;

/// A step is followed once it has stood for this long, ms. A time of day that is wrong is mostly put right within seconds (a time
/// service that steps twice, a typing error, a broken virtual clock), and must not be acted on. After a step forward money would be
/// granted for a day that has not come, and after one back no hold would expire. What is right stays: to follow it ten seconds later
/// lets holds live, and days and flights go on, ten seconds longer.
pub const STEP_STANDS_MS: u64 = 10_000;

/// The time of day in ms that never goes back. One per thread; it reads two clocks (50 ns), so read it
/// once per wake-up and use [`NodeClock::last_ms`] in between.
///
/// The system clock is set forward or back against the monotonic clock: the node clock goes on by the monotonic clock until the step
/// has stood for [`STEP_STANDS_MS`]. Then
///
/// - it follows a step **forward**. A computer that slept looks the same, as the monotonic clock stands while it sleeps;
/// - it holds still after a step **back** until the system clock has come by again. Nothing expires early and no day begins twice;
///   holds last longer by as much.
///
/// Either is counted, and [`ClockState::held_ms`] says for how long the two clocks have been apart.
#[derive(Debug)]
pub struct NodeClock {
    source: TimeSource,
    /// The time of day at the start.
    started_ms: u64,
    /// The node's time with its microseconds, as of the last reading.
    now_us: u64,
    state: ClockState,
}

/// Where a clock reads the time.
#[derive(Debug)]
pub(crate) enum TimeSource {
    System(Instant),
    Hand(Arc<HandClock>),
}

/// A monotonic clock and a time of day that are set by hand, in place of the system's: for tests.
#[derive(Debug, Default)]
pub struct HandClock {
    monotonic_ms: AtomicU64,
    wall_ms: AtomicU64,
}

impl HandClock {
    /// At this time of day, ms since 1970.
    #[must_use]
    pub fn new(wall_ms: u64) -> Arc<HandClock> {
        Arc::new(HandClock { monotonic_ms: AtomicU64::new(0), wall_ms: AtomicU64::new(wall_ms) })
    }

    /// Time passes, ms.
    pub fn pass(&self, ms: u64) {
        self.monotonic_ms.fetch_add(ms, Relaxed);
        self.wall_ms.fetch_add(ms, Relaxed);
    }

    /// The time of day is set, by so many ms.
    pub fn step(&self, ms: i64) {
        let wall_ms = self.wall_ms.load(Relaxed).saturating_add_signed(ms);
        self.wall_ms.store(wall_ms, Relaxed);
    }
}

/// Everything that a [`NodeClock`] knows; [`ClockState::advance`] is all of its logic, without the reading.
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
    /// The last reading that was believed.
    believed: ClockReading,
    /// A step that is not followed yet.
    step: Option<Step>,
    /// Since when the node's time is not the system's, by the monotonic clock.
    apart_since_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockReading {
    monotonic_ns: u64,
    wall_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    since_ns: u64,
    is_back: bool,
    by_ms: u64,
}

impl NodeClock {
    /// A clock that starts with the system's time of day.
    #[must_use]
    pub fn new() -> NodeClock {
        NodeClock::of(TimeSource::System(Instant::now()))
    }

    /// A clock that does not start before an instant, ms since 1970: one that its user has already acted on. Where the
    /// system's time of day is before it, the clock holds still until that has come by.
    #[must_use]
    pub fn not_before(earliest_ms: u64) -> NodeClock {
        let mut clock = NodeClock::new();
        clock.state.now_ms = clock.state.now_ms.max(earliest_ms);
        clock
    }

    /// A clock that is set by hand.
    #[must_use]
    pub fn by_hand(hand: Arc<HandClock>) -> NodeClock {
        NodeClock::of(TimeSource::Hand(hand))
    }

    fn of(source: TimeSource) -> NodeClock {
        let (monotonic_ns, wall_us) = source.read();
        let wall_ms = wall_us / US_PER_MS;
        let state = ClockState::start(monotonic_ns, wall_ms);
        NodeClock { source, started_ms: wall_ms, now_us: wall_us, state }
    }

    /// Reads the clocks and returns the node's time, ms since 1970.
    pub fn now_ms(&mut self) -> u64 {
        let (monotonic_ns, wall_us) = self.source.read();
        self.state = self.state.advance(monotonic_ns, wall_us / US_PER_MS);
        let now_us = self.state.now_ms.saturating_mul(US_PER_MS) + wall_us % US_PER_MS;
        self.now_us = self.now_us.max(now_us);
        self.state.now_ms
    }

    /// What the last reading gave, ms since 1970; costs nothing.
    #[must_use]
    pub fn last_ms(&self) -> u64 {
        self.state.now_ms
    }

    /// The node's time as of the last reading, microseconds since 1970; costs nothing and never goes back. Where the node's time
    /// is not the system's, it is right to a millisecond.
    #[must_use]
    pub fn last_us(&self) -> u64 {
        self.now_us
    }

    /// The time of day at the clock's start and what the monotonic clock counted since, as of the last reading, ms: for pauses,
    /// which must end whatever becomes of the time of day. It does not jump, and does not stand still.
    #[must_use]
    pub fn steady_ms(&self) -> u64 {
        self.started_ms.saturating_add(self.state.monotonic_ns / NS_PER_MS)
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

impl TimeSource {
    /// The monotonic clock, ns, and the time of day, microseconds since 1970.
    pub(crate) fn read(&self) -> (u64, u64) {
        match self {
            TimeSource::System(started) => {
                (u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX), system_us())
            }
            TimeSource::Hand(hand) => (
                hand.monotonic_ms.load(Relaxed).saturating_mul(NS_PER_MS),
                hand.wall_ms.load(Relaxed).saturating_mul(US_PER_MS),
            ),
        }
    }
}

impl ClockState {
    /// The state at a first reading.
    #[must_use]
    pub fn start(monotonic_ns: u64, wall_ms: u64) -> ClockState {
        ClockState {
            now_ms: wall_ms,
            stepped_back: 0,
            stepped_forward: 0,
            monotonic_ns,
            wall_ms,
            believed: ClockReading { monotonic_ns, wall_ms },
            step: None,
            apart_since_ns: None,
        }
    }

    /// The state after a further reading of the monotonic clock (ns, any origin) and of the time of
    /// day (ms since 1970).
    #[must_use]
    pub fn advance(self, monotonic_ns: u64, wall_ms: u64) -> ClockState {
        let monotonic_ns = monotonic_ns.max(self.monotonic_ns);
        let since = |before: ClockReading| {
            let passed_ms = (monotonic_ns - before.monotonic_ns) / NS_PER_MS;
            before.wall_ms.saturating_add(passed_ms)
        };
        let last = ClockReading { monotonic_ns: self.monotonic_ns, wall_ms: self.wall_ms };
        let back = wall_ms.saturating_add(STEP_MS) < since(last);
        let forward = wall_ms > since(last).saturating_add(STEP_MS);
        // What the time of day would be without steps, and what the node's own time would be.
        let even_ms = since(self.believed);
        let own_ms = since(ClockReading { wall_ms: self.now_ms, ..last });
        let step = self.step_to(wall_ms, even_ms, monotonic_ns);
        let (now_ms, believed) = match step {
            None => (wall_ms, ClockReading { monotonic_ns, wall_ms }),
            // A node that stood still goes on, too, unless it is ahead of what the system says now.
            Some(_) => (even_ms.max(own_ms.min(wall_ms)), self.believed),
        };
        let now_ms = now_ms.max(self.now_ms);
        let apart = now_ms.abs_diff(wall_ms) > STEP_MS;
        ClockState {
            now_ms,
            stepped_back: self.stepped_back + u64::from(back),
            stepped_forward: self.stepped_forward + u64::from(forward),
            monotonic_ns,
            wall_ms,
            believed,
            step,
            apart_since_ns: apart.then(|| self.apart_since_ns.unwrap_or(monotonic_ns)),
        }
    }

    /// Returns the step that the time of day shows, if it has not stood for long enough to be believed.
    fn step_to(&self, wall_ms: u64, even_ms: u64, monotonic_ns: u64) -> Option<Step> {
        let (is_back, by_ms) = (wall_ms < even_ms, wall_ms.abs_diff(even_ms));
        if by_ms <= STEP_MS {
            return None;
        }
        let is_same =
            |step: &Step| step.is_back == is_back && step.by_ms.abs_diff(by_ms) <= STEP_MS;
        let begun = Step { since_ns: monotonic_ns, is_back, by_ms };
        let step = self.step.filter(is_same).unwrap_or(begun);
        let stood_ms = (monotonic_ns - step.since_ns) / NS_PER_MS;
        (stood_ms < STEP_STANDS_MS).then_some(step)
    }

    /// How far the node's time is ahead of the system's, ms: above 0 after a step back, which
    /// is not believed yet, or during which it is holding still.
    #[must_use]
    pub fn ahead_ms(self) -> u64 {
        self.now_ms.saturating_sub(self.wall_ms)
    }

    /// How far the node's time is behind the system's, ms: above 0 a forward step is not believed yet.
    #[must_use]
    pub fn behind_ms(self) -> u64 {
        self.wall_ms.saturating_sub(self.now_ms)
    }

    /// For how long the node's time and the system's have been more than [`STEP_MS`] apart, ms as of the last reading; 0 if they
    /// are not.
    #[must_use]
    pub fn held_ms(self) -> u64 {
        self.apart_since_ns.map_or(0, |since_ns| (self.monotonic_ns - since_ns) / NS_PER_MS)
    }
}

/// The system's time of day, microseconds since 1970; 0 if it stands before that.
fn system_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
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
        let ahead_ms = system_us() / US_PER_MS + 60_000;
        let mut clock = NodeClock::not_before(ahead_ms);
        assert_eq!(clock.now_ms(), ahead_ms);
        assert!(clock.state().ahead_ms() > 0);
        assert!(NodeClock::not_before(1).now_ms() > 1);
    }

    #[test]
    fn microseconds_are_those_of_the_system_and_never_go_back() {
        let mut clock = NodeClock::new();
        let mut last_us = clock.last_us();
        let mut between_milliseconds = false;
        for _ in 0..10_000 {
            let (before_us, now_ms, after_us) = (system_us(), clock.now_ms(), system_us());
            let now_us = clock.last_us();
            assert_eq!(now_us / US_PER_MS, now_ms);
            assert!(now_us >= last_us);
            if before_us <= after_us && clock.state().held_ms() == 0 {
                assert!(
                    (before_us..=after_us).contains(&now_us),
                    "{before_us} {now_us} {after_us}"
                );
            }
            between_milliseconds |= !now_us.is_multiple_of(US_PER_MS);
            last_us = now_us;
        }
        assert!(between_milliseconds);
        let hand = HandClock::new(START_MS);
        let mut clock = NodeClock::by_hand(Arc::clone(&hand));
        hand.step(-15_000);
        clock.now_ms();
        assert_eq!(clock.last_us(), START_MS * US_PER_MS);
    }

    #[test]
    fn a_step_back_that_stays_holds_the_clock_still_until_the_system_has_come_by() {
        let hand = HandClock::new(START_MS);
        let mut clock = NodeClock::by_hand(Arc::clone(&hand));
        hand.step(-15_000);
        assert_eq!((clock.now_ms(), clock.state().ahead_ms()), (START_MS, 15_000));
        hand.pass(STEP_STANDS_MS - 1);
        let stood_ms = START_MS + STEP_STANDS_MS - 1;
        assert_eq!(clock.now_ms(), stood_ms, "by the monotonic clock");
        hand.pass(1);
        assert_eq!(clock.now_ms(), stood_ms, "it stands still");
        hand.pass(14_998);
        assert_eq!((clock.now_ms(), clock.state().ahead_ms()), (stood_ms, 1));
        hand.pass(11);
        assert_eq!((clock.now_ms(), clock.state().ahead_ms()), (stood_ms + 10, 0));
        let state = clock.state();
        assert_eq!((state.stepped_back, state.stepped_forward), (1, 0), "one step counts once");
    }

    /// A time of day that is a day ahead, or an hour back, for 0.4 s: the node's clock goes on as if nothing had been.
    #[test]
    fn a_wrong_second_is_not_followed() {
        for (step_ms, ahead_ms, behind_ms) in
            [(86_400_000, 0, 86_400_000), (-3_600_000, 3_600_000, 0)]
        {
            let hand = HandClock::new(START_MS);
            let mut clock = NodeClock::by_hand(Arc::clone(&hand));
            hand.step(step_ms);
            for passed in 1..=40 {
                hand.pass(10);
                assert_eq!(clock.now_ms(), START_MS + passed * 10);
            }
            assert_eq!(
                (clock.state().ahead_ms(), clock.state().behind_ms()),
                (ahead_ms, behind_ms)
            );
            hand.step(-step_ms);
            hand.pass(10);
            assert_eq!((clock.now_ms(), clock.state().held_ms()), (START_MS + 410, 0));
            let state = clock.state();
            assert_eq!((state.stepped_forward, state.stepped_back), (1, 1), "both are counted");
        }
    }

    /// A broken virtual clock: every other reading is an hour back, for a minute.
    #[test]
    fn readings_that_go_back_now_and_then_leave_no_trace() {
        let hand = HandClock::new(START_MS);
        let mut clock = NodeClock::by_hand(Arc::clone(&hand));
        for round in 1..=600 {
            hand.step(if round % 2 == 0 { 3_600_000 } else { -3_600_000 });
            hand.pass(100);
            assert_eq!(clock.now_ms(), START_MS + round * 100);
        }
    }

    /// The time of day was wrong for longer than a step must stand, and is right again: the node goes on at once.
    #[test]
    fn a_clock_that_stood_still_goes_on_when_the_system_is_right_again() {
        let hand = HandClock::new(START_MS);
        let mut clock = NodeClock::by_hand(Arc::clone(&hand));
        hand.step(-3_600_000);
        let read_after = |clock: &mut NodeClock, ms| {
            hand.pass(ms);
            clock.now_ms()
        };
        clock.now_ms();
        let stood_ms = read_after(&mut clock, STEP_STANDS_MS);
        assert_eq!(read_after(&mut clock, 5_000), stood_ms, "it stands still");
        hand.step(3_600_000);
        assert_eq!(read_after(&mut clock, 0), stood_ms, "from where it stood");
        assert_eq!(read_after(&mut clock, 1_000), stood_ms + 1_000);
        read_after(&mut clock, STEP_STANDS_MS - 1_000);
        assert_eq!((clock.state().ahead_ms(), clock.state().behind_ms()), (0, 0));
    }

    #[test]
    fn a_step_forward_that_stays_is_followed_once_it_has_stood() {
        let hand = HandClock::new(START_MS);
        let mut clock = NodeClock::by_hand(Arc::clone(&hand));
        hand.step(3_600_000);
        assert_eq!(clock.now_ms(), START_MS);
        hand.pass(STEP_STANDS_MS - 1);
        assert_eq!(clock.now_ms(), START_MS + STEP_STANDS_MS - 1, "by the monotonic clock");
        assert_eq!(clock.state().held_ms(), STEP_STANDS_MS - 1);
        hand.pass(1);
        assert_eq!(clock.now_ms(), START_MS + STEP_STANDS_MS + 3_600_000);
        assert_eq!((clock.state().held_ms(), clock.state().behind_ms()), (0, 0));
        assert_eq!(clock.state().stepped_forward, 1);
    }

    /// The monotonic clock stands while a computer sleeps.
    #[test]
    fn a_computer_that_slept_is_right_soon_after_it_woke() {
        let hand = HandClock::new(START_MS);
        let mut clock = NodeClock::by_hand(Arc::clone(&hand));
        let night_ms: u64 = 8 * 3_600_000;
        hand.step(night_ms.cast_signed());
        let mut last_ms = START_MS;
        for _ in 0..STEP_STANDS_MS / 20 {
            let now_ms = clock.now_ms();
            assert!((last_ms..START_MS + STEP_STANDS_MS).contains(&now_ms));
            last_ms = now_ms;
            hand.pass(20);
        }
        assert_eq!(clock.now_ms(), START_MS + night_ms + STEP_STANDS_MS);
    }

    /// A clock that jumps about is never believed; the node's goes on by the monotonic clock, and says so.
    #[test]
    fn a_clock_that_does_not_settle_is_not_followed() {
        let hand = HandClock::new(START_MS);
        let mut clock = NodeClock::by_hand(Arc::clone(&hand));
        for round in 1..=60 {
            hand.step(if round % 2 == 0 { 1_000 } else { 60_000 });
            hand.pass(1_000);
            assert_eq!(clock.now_ms(), START_MS + round * 1_000);
        }
        assert_eq!(clock.state().held_ms(), 59_000);
    }

    #[test]
    fn pauses_end_while_the_clock_stands() {
        let hand = HandClock::new(START_MS);
        let mut clock = NodeClock::by_hand(Arc::clone(&hand));
        hand.step(-86_400_000);
        clock.now_ms();
        hand.pass(STEP_STANDS_MS);
        let (stood_ms, steady_ms) = (clock.now_ms(), clock.steady_ms());
        hand.pass(5_000);
        assert_eq!((clock.now_ms(), clock.steady_ms()), (stood_ms, steady_ms + 5_000));
        assert_eq!(clock.state().held_ms(), STEP_STANDS_MS + 5_000);
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
