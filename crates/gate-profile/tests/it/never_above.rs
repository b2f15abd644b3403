//! A cap is a promise: never more than its limit in a window, whatever comes in whichever order.

use std::cell::Cell;
use std::collections::BTreeMap;

use gate_profile::{Cap, Counted, Options, Profile, Profiles, Refused, Window};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::{self, MONDAY, shown_at};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Two creatives of one campaign, one of another, and what both campaigns belong to: each with a cap or two.
#[derive(Clone, Debug)]
struct Tree {
    creatives: [Vec<Cap>; 3],
    campaigns: [Vec<Cap>; 2],
    parent: Vec<Cap>,
}

impl Tree {
    /// All levels of a creative, which all must have a place.
    fn path(&self, creative: usize) -> Vec<Cap> {
        let campaign = &self.campaigns[creative / 2];
        [&self.creatives[creative][..], campaign, &self.parent].concat()
    }
}

fn level(item: u64, offset_minutes: i16) -> impl Strategy<Value = Vec<Cap>> {
    let calendar = Window::ALL.into_iter().filter(|window| !window.is_rolling());
    let windows = prop::sample::subsequence(calendar.collect::<Vec<_>>(), 1..=2);
    (windows, 1..6u16).prop_map(move |(windows, least)| {
        // The longer window allows more.
        let limits = (1..).map(|times| least * times);
        let cap = |(window, limit)| Cap { item, window, limit, offset_minutes };
        windows.into_iter().zip(limits).map(cap).collect()
    })
}

fn tree() -> impl Strategy<Value = Tree> {
    prop::sample::select(vec![0, -300, 330, 840]).prop_flat_map(|offset| {
        let of = |item| level(item, offset);
        let all = ([of(1), of(2), of(3)], [of(11), of(12)], of(21));
        all.prop_map(|(creatives, campaigns, parent)| Tree { creatives, campaigns, parent })
    })
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Reserve { user: u64, creative: usize, life: u64 },
    Confirm { hold: prop::sample::Index, life: u64 },
    Release { hold: prop::sample::Index },
    Count { hold: prop::sample::Index },
}

fn step() -> impl Strategy<Value = Step> {
    let (life, hold) = (1..3 * HOUR, any::<prop::sample::Index>());
    prop_oneof![
        2 => prop_oneof![0..MINUTE, 0..HOUR, 0..DAY].prop_map(Step::Pass),
        6 => (0..2u64, 0..3usize, life.clone())
            .prop_map(|(user, creative, life)| Step::Reserve { user, creative, life }),
        1 => (hold.clone(), life).prop_map(|(hold, life)| Step::Confirm { hold, life }),
        1 => hold.clone().prop_map(|hold| Step::Release { hold }),
        4 => hold.prop_map(|hold| Step::Count { hold }),
    ]
}

struct Held {
    user: u64,
    hold: u64,
    caps: Vec<Cap>,
    deadline: u64,
}

/// One run; users and holds of its own, in a store that all runs share.
struct Run<'a> {
    profiles: &'a Profiles,
    base: u64,
    now: u64,
    made: Vec<Held>,
    billed: Vec<u64>,
    /// Billed, by user, item, kind of window and the window's number; with the limit.
    counts: BTreeMap<(u64, u64, Window, u64), (u16, u16)>,
}

/// The window of the calendar, told as plainly as can be.
fn number(cap: &Cap, at_ms: u64) -> u64 {
    let local = at_ms.checked_add_signed(i64::from(cap.offset_minutes) * 60_000).unwrap();
    match cap.window {
        Window::Minute => local / MINUTE,
        Window::Hour => local / HOUR,
        Window::Day => local / DAY,
        // The epoch was a Thursday, and a Monday began four days later.
        Window::Week => (local - 4 * DAY) / (7 * DAY),
        Window::Lifetime => 0,
        rolling => unreachable!("{rolling:?} is no window of the calendar"),
    }
}

impl Run<'_> {
    fn reserve(&mut self, user: u64, caps: Vec<Cap>, life: u64) -> Result<(), TestCaseError> {
        let (user, hold) = (self.base + user, self.base * 1_000 + self.made.len() as u64);
        let deadline = self.now + life;
        let before = self.read(user);
        match self.profiles.reserve(user, hold, &caps, deadline, self.now) {
            Ok(()) => {
                prop_assert!(caps.iter().all(|cap| before.used(cap) < u32::from(cap.limit)));
                self.made.push(Held { user, hold, caps, deadline });
            }
            Err(Refused::Capped(which)) => {
                let full = |cap: &Cap| before.used(cap) >= u32::from(cap.limit);
                prop_assert_eq!(caps.iter().position(full), Some(which));
                let after = self.read(user);
                let unmoved = caps.iter().all(|cap| after.used(cap) == before.used(cap));
                prop_assert!(unmoved, "a refusal takes no place on any level");
            }
            Err(refused) => {
                let live = self.made.iter().filter(|held| self.is_live(held) && held.user == user);
                prop_assert!(refused == Refused::Full && live.count() >= 32, "{:?}", refused);
            }
        }
        Ok(())
    }

    fn read(&self, user: u64) -> Profile {
        let mut profile = Profile::default();
        self.profiles.read(user, self.now, &mut profile);
        profile
    }

    fn is_live(&self, held: &Held) -> bool {
        held.deadline > self.now && !self.billed.contains(&held.hold)
    }

    /// A repeated notice counts nothing. One whose hold is gone comes too late: it would count beyond a limit, because
    /// the impression happened, so it is no part of the promise.
    fn count(&mut self, at: usize) -> Result<(), TestCaseError> {
        let held = &self.made[at];
        let repeated = self.billed.contains(&held.hold);
        if !repeated && !self.is_live(held) {
            return Ok(());
        }
        let counted = self.profiles.count(held.user, held.hold, &held.caps, self.now).unwrap();
        prop_assert_eq!(matches!(counted, Counted::Again(_)), repeated);
        if !repeated {
            self.billed.push(held.hold);
            for cap in &held.caps {
                let window = (held.user, cap.item, cap.window, number(cap, self.now));
                self.counts.entry(window).or_insert((0, cap.limit)).0 += 1;
            }
        }
        Ok(())
    }

    fn step(&mut self, tree: &Tree, step: &Step) -> Result<(), TestCaseError> {
        let made = self.made.len();
        match step {
            Step::Pass(ms) => self.now += ms,
            Step::Reserve { user, creative, life } => {
                self.reserve(*user, tree.path(*creative), *life)?;
            }
            _ if made == 0 => {}
            Step::Confirm { hold, life } => {
                let at = hold.index(made);
                let live = self.is_live(&self.made[at]);
                let (now, held) = (self.now, &mut self.made[at]);
                let confirmed = self.profiles.confirm(held.user, held.hold, now + life, now);
                prop_assert_eq!(confirmed, live);
                held.deadline = if live { now + life } else { held.deadline };
            }
            Step::Release { hold } => {
                let held = &mut self.made[hold.index(made)];
                self.profiles.release(held.user, held.hold);
                held.deadline = 0;
            }
            Step::Count { hold } => self.count(hold.index(made))?,
        }
        let above = self.counts.iter().find(|(_, (count, limit))| count > limit);
        prop_assert_eq!(above, None);
        Ok(())
    }
}

/// Many cases in one store; each gets a number, for users and holds of its own.
fn check<S: Strategy>(
    profiles: &Profiles,
    strategy: &S,
    case: impl Fn(u64, S::Value) -> Result<(), TestCaseError>,
) {
    support::warm(profiles);
    let number = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let result = runner.run(strategy, |value| {
        number.set(number.get() + 1);
        case(number.get(), value)
    });
    result.unwrap();
}

/// On every level, in every window of the calendar: minutes, hours, days, weeks, for ever.
#[test]
fn no_window_holds_more_than_its_limit_on_any_level() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { holds_kept_ms: 366 * DAY, ..support::options() };
    let profiles = support::open_with(folder.path(), &options);
    let reached = Cell::new(0);
    let steps = prop::collection::vec(step(), 1..120);
    check(&profiles, &(tree(), steps), |number, (tree, steps)| {
        let (made, billed, counts) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (base, now) = (number * 10, MONDAY);
        let mut run = Run { profiles: &profiles, base, now, made, billed, counts };
        steps.iter().try_for_each(|step| run.step(&tree, step))?;
        reached.set(reached.get() + run.counts.values().filter(|(n, limit)| n == limit).count());
        Ok(())
    });
    assert!(reached.get() > 100, "limits were reached {} times", reached.get());
}

/// As many are shown as the strictest level of the path allows, and the refusal names it; a parent's cap is one for all
/// its children together.
#[test]
fn the_strictest_level_wins() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    let limits = prop::collection::vec(1..9u16, 6);
    let shows = prop::collection::vec(0..3usize, 60);
    check(&profiles, &(limits, shows), |user, (limits, shows)| {
        let cap = |item: usize| {
            let limit = limits[item];
            vec![Cap { item: item as u64, window: Window::Day, limit, offset_minutes: 0 }]
        };
        let tree = Tree {
            creatives: [cap(0), cap(1), cap(2)],
            campaigns: [cap(3), cap(4)],
            parent: cap(5),
        };
        let mut shown = [0; 6];
        for (hold, creative) in (user * 1_000..).zip(shows) {
            let path = tree.path(creative);
            let full = path.iter().position(|cap| shown[cap.item as usize] >= cap.limit);
            let reserved = profiles.reserve(user, hold, &path, MONDAY + MINUTE, MONDAY);
            prop_assert_eq!(reserved, full.map_or(Ok(()), |which| Err(Refused::Capped(which))));
            if full.is_none() {
                profiles.count(user, hold, &path, MONDAY).unwrap();
                path.iter().for_each(|cap| shown[cap.item as usize] += 1);
            }
        }
        prop_assert!(shown.iter().zip(&limits).all(|(shown, limit)| shown <= limit));
        prop_assert_eq!(shown[5], shown[3] + shown[4]);
        Ok(())
    });
}

/// The clock goes back over a boundary, or the offset does: summer time ends, or an operator moves the zone. What follows
/// counts in the window that was running.
#[test]
fn a_clock_that_goes_back_forgets_no_count() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    support::warm(&profiles);
    let mut holds = 0;
    let some = [
        // window, offset before, when it ends after the clock went back
        (Window::Minute, 0, HOUR + MINUTE),
        (Window::Hour, 0, 2 * HOUR),
        (Window::Day, 0, HOUR + DAY),
        (Window::Week, 0, HOUR + 7 * DAY),
        (Window::Day, 60, HOUR + DAY),
        (Window::Week, 60, HOUR + 7 * DAY),
    ];
    for (user, (window, offset_minutes, end)) in (0..).zip(some) {
        let ahead = Cap { item: 1, window, limit: 1, offset_minutes };
        let behind = Cap { limit: 3, offset_minutes: 0, ..ahead };
        let now = MONDAY - HOUR;
        let before = if offset_minutes == 0 { MONDAY } else { now };
        let mut shown = |cap, at| shown_at(&profiles, user, cap, &mut holds, at);
        assert_eq!(shown(ahead, before), 1);
        let then = [1, HOUR, end - 1, end].map(|ms| shown(behind, now + ms));
        assert_eq!(then, [2, 0, 0, 3], "{window:?} {offset_minutes}");
    }
}

/// When summer time ends, minutes and hours go on as ever: the last one before it is not longer.
#[test]
fn summer_time_changes_no_minute_and_no_hour() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    support::warm(&profiles);
    let mut holds = 0;
    for (user, (window, length)) in (0..).zip([(Window::Minute, MINUTE), (Window::Hour, HOUR)]) {
        let summer = Cap { item: 1, window, limit: 2, offset_minutes: 120 };
        let winter = Cap { offset_minutes: 60, ..summer };
        let mut shown = |cap, at| shown_at(&profiles, user, cap, &mut holds, at);
        assert_eq!(shown(summer, MONDAY - 1), 2);
        assert_eq!([MONDAY, MONDAY + length - 1].map(|at| shown(winter, at)), [2, 0]);
        assert_eq!(shown(winter, MONDAY + length), 2);
    }
}

/// Windows are the calendar's, they do not roll: around a boundary twice the limit may lie close together.
#[test]
fn a_window_of_the_calendar_is_no_rolling_window() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    support::warm(&profiles);
    let cap = Cap { item: 1, window: Window::Day, limit: 3, offset_minutes: 0 };
    let mut holds = 0;
    assert_eq!(shown_at(&profiles, 1, cap, &mut holds, MONDAY - 1), 3);
    assert_eq!(shown_at(&profiles, 1, cap, &mut holds, MONDAY), 3);
}
