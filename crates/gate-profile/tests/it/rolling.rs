//! Rolling caps against every timestamp: never more than the limit in any window, wherever it starts.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use gate_profile::{Cap, Options, Profile, Profiles, Refused, Window};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::support::{self, MONDAY, shown_at};

const MINUTE: u64 = 60_000;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

const ROLLING: [(Window, u64); 3] =
    [(Window::RollingHour, HOUR), (Window::RollingDay, DAY), (Window::RollingWeek, 7 * DAY)];

fn length(window: Window) -> Option<u64> {
    ROLLING.iter().find(|(rolling, _)| *rolling == window).map(|(_, length)| *length)
}

/// Two campaigns and what both belong to: each with a rolling cap or two, and perhaps one of the calendar between them.
fn tree() -> impl Strategy<Value = [Vec<Cap>; 3]> {
    let some = vec![Window::RollingHour, Window::Day, Window::RollingDay, Window::RollingWeek];
    let level = move |item: u64| {
        let windows = prop::sample::subsequence(some.clone(), 1..=3);
        (windows, 1..5u16).prop_map(move |(windows, least)| {
            let cap = |(window, limit)| Cap { item, window, limit, offset_minutes: 60 };
            windows.into_iter().zip((1..).map(|times| least * times)).map(cap).collect()
        })
    };
    [level(1), level(2), level(3)]
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    /// The clock goes back; true time does not.
    Back(u64),
    Reserve {
        user: u64,
        campaign: usize,
        life: u64,
    },
    Confirm {
        hold: prop::sample::Index,
        life: u64,
    },
    Release {
        hold: prop::sample::Index,
    },
    Count {
        hold: prop::sample::Index,
    },
    Restart,
}

fn step(back: u32, restarts: u32) -> impl Strategy<Value = Step> {
    let (life, hold) = (1..3 * HOUR, any::<prop::sample::Index>());
    let pass =
        prop_oneof![0..MINUTE, 0..20 * MINUTE, 0..5 * HOUR, 0..2 * DAY, Just(HOUR), Just(DAY)];
    prop_oneof![
        20 => pass.prop_map(Step::Pass),
        back => prop_oneof![0..MINUTE, 0..HOUR].prop_map(Step::Back),
        60 => (0..2u64, 0..2usize, life.clone())
            .prop_map(|(user, campaign, life)| Step::Reserve { user, campaign, life }),
        10 => (hold.clone(), life).prop_map(|(hold, life)| Step::Confirm { hold, life }),
        10 => hold.clone().prop_map(|hold| Step::Release { hold }),
        50 => hold.prop_map(|hold| Step::Count { hold }),
        restarts => Just(Step::Restart),
    ]
}

struct Held {
    user: u64,
    hold: u64,
    caps: Vec<Cap>,
    deadline: u64,
    /// Neither billed, nor given back, nor lost to another reservation after its deadline.
    open: bool,
}

/// One run; users and holds of its own, in a store that all runs may share.
struct Run<'a> {
    /// None while it is opened again, in this folder.
    profiles: Option<Profiles>,
    folder: &'a Path,
    base: u64,
    /// True time, and how far the clock has gone back from it.
    time: u64,
    back: u64,
    made: Vec<Held>,
    /// True times of billing, by user, item and window.
    shown: BTreeMap<(u64, u64, Window), Vec<u64>>,
    /// How often a limit was reached.
    full: usize,
}

impl<'a> Run<'a> {
    fn new(profiles: &Profiles, folder: &'a Path, base: u64) -> Run<'a> {
        Run {
            profiles: Some(profiles.clone()),
            folder,
            base,
            time: MONDAY,
            back: 0,
            made: Vec::new(),
            shown: BTreeMap::new(),
            full: 0,
        }
    }

    fn profiles(&self) -> &Profiles {
        self.profiles.as_ref().unwrap()
    }

    /// What the clock says.
    fn now(&self) -> u64 {
        self.time - self.back
    }

    fn read(&self, user: u64) -> Profile {
        let mut profile = Profile::default();
        self.profiles().read(self.base + user, self.now(), &mut profile);
        profile
    }

    fn is_live(&self, held: &Held) -> bool {
        held.open && held.deadline > self.now()
    }

    fn live(&self, user: u64, cap: &Cap) -> usize {
        let on = |held: &&Held| held.user == user && held.caps.contains(cap) && self.is_live(held);
        self.made.iter().filter(on).count()
    }

    /// Impressions of the last `ms`, both ends included.
    fn shown(&self, user: u64, cap: &Cap, ms: u64) -> usize {
        let times = self.shown.get(&(user, cap.item, cap.window));
        times.into_iter().flatten().filter(|&&at| at + ms >= self.time).count()
    }

    fn reserve(&mut self, user: u64, caps: Vec<Cap>, life: u64) -> Result<(), TestCaseError> {
        let hold = self.base * 1_000 + self.made.len() as u64;
        let (now, deadline) = (self.now(), self.now() + life);
        let before = self.read(user);
        let lost = |held: &&mut Held| held.user == user && held.deadline <= now;
        self.made.iter_mut().filter(lost).for_each(|held| held.open = false);
        match self.profiles().reserve(self.base + user, hold, &caps, deadline, now) {
            Ok(()) => {
                prop_assert!(!before.capped(&caps));
                self.made.push(Held { user, hold, caps, deadline, open: true });
            }
            Err(Refused::Capped(which)) => {
                self.full += 1;
                let full = |cap: &Cap| before.used(cap) >= cap.limit.into();
                prop_assert_eq!(caps.iter().position(full), Some(which));
                let cap = &caps[which];
                if let Some(length) = length(cap.window) {
                    // A place is kept a seventh of the window too long, and while the clock stands still.
                    let kept = length + length / 7 + 8 + self.back;
                    let used = self.shown(user, cap, kept) + self.live(user, cap);
                    prop_assert!(used >= cap.limit.into(), "{} of {:?}", used, cap);
                }
            }
            Err(refused) => {
                let live = self.made.iter().filter(|held| held.user == user && self.is_live(held));
                prop_assert!(refused == Refused::Full && live.count() >= 32, "{:?}", refused);
            }
        }
        Ok(())
    }

    /// A billing without a reservation would count beyond a limit, because the impression happened: it is no part of
    /// the promise.
    fn count(&mut self, at: usize) -> Result<(), TestCaseError> {
        let (time, now, live) = (self.time, self.now(), self.is_live(&self.made[at]));
        let held = &mut self.made[at];
        if !live {
            return Ok(());
        }
        held.open = false;
        for cap in &held.caps {
            self.shown.entry((held.user, cap.item, cap.window)).or_default().push(time);
        }
        let held = &self.made[at];
        self.profiles().count(self.base + held.user, held.hold, &held.caps, now).unwrap();
        for cap in &held.caps {
            let Some(length) = length(cap.window) else { continue };
            let shown = self.shown(held.user, cap, length);
            prop_assert!(shown <= cap.limit.into(), "{} of {:?}", shown, cap);
        }
        Ok(())
    }

    fn release(&mut self, at: usize) {
        self.made[at].open = false;
        let held = &self.made[at];
        self.profiles().release(self.base + held.user, held.hold);
    }

    /// What log and store know is what memory knew. Reservations do not survive, so they go first.
    fn restart(&mut self, tree: &[Vec<Cap>; 3]) -> Result<(), TestCaseError> {
        (0..self.made.len()).for_each(|at| self.release(at));
        let used = |run: &Run<'_>| -> Vec<u32> {
            let user = |user| {
                let profile = run.read(user);
                tree.iter().flatten().map(move |cap| profile.used(cap)).collect::<Vec<_>>()
            };
            (0..2).flat_map(user).collect()
        };
        let before = used(self);
        support::written(self.profiles(), self.profiles().figures().last_seq);
        self.profiles = None;
        self.profiles = Some(support::open_with(self.folder, &options()));
        support::warm(self.profiles());
        prop_assert_eq!(used(self), before);
        Ok(())
    }

    fn step(&mut self, tree: &[Vec<Cap>; 3], step: &Step) -> Result<(), TestCaseError> {
        let made = self.made.len();
        match step {
            Step::Pass(ms) => self.time += ms,
            Step::Back(ms) => self.back += ms,
            Step::Reserve { user, campaign, life } => {
                self.reserve(*user, [&tree[*campaign][..], &tree[2]].concat(), *life)?;
            }
            Step::Restart => self.restart(tree)?,
            _ if made == 0 => {}
            Step::Confirm { hold, life } => {
                let at = hold.index(made);
                let (now, live) = (self.now(), self.is_live(&self.made[at]));
                let (user, hold) = (self.base + self.made[at].user, self.made[at].hold);
                let confirmed = self.profiles().confirm(user, hold, now + life, now);
                prop_assert_eq!(confirmed, live);
                if live {
                    self.made[at].deadline = now + life;
                }
            }
            Step::Release { hold } => self.release(hold.index(made)),
            Step::Count { hold } => self.count(hold.index(made))?,
        }
        Ok(())
    }
}

fn options() -> Options {
    Options { holds_kept_ms: 366 * DAY, ..support::options() }
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    })
}

#[test]
fn no_rolling_window_holds_more_than_its_limit() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open_with(folder.path(), &options());
    support::warm(&profiles);
    let (base, full) = (Cell::new(0), Cell::new(0));
    let cases = (tree(), prop::collection::vec(step(4, 0), 1..200));
    let result = runner(300).run(&cases, |(tree, steps)| {
        base.set(base.get() + 10);
        let mut run = Run::new(&profiles, folder.path(), base.get());
        steps.iter().try_for_each(|step| run.step(&tree, step))?;
        full.set(full.get() + run.full);
        Ok(())
    });
    result.unwrap();
    assert!(full.get() > 1_000, "limits were reached {} times", full.get());
}

/// The clock goes on, as the node's does, also over a restart: what a count of an earlier window comes to, after one of a later window,
/// depends on when the store merged the two.
#[test]
fn a_restart_knows_what_memory_knew() {
    let cases = (tree(), prop::collection::vec(step(0, 4), 1..150));
    let result = runner(8).run(&cases, |(tree, steps)| {
        let folder = tempfile::tempdir().unwrap();
        let profiles = support::open_with(folder.path(), &options());
        support::warm(&profiles);
        let mut run = Run::new(&profiles, folder.path(), 0);
        drop(profiles);
        steps.iter().try_for_each(|step| run.step(&tree, step))?;
        run.restart(&tree)
    });
    result.unwrap();
}

/// Where a day of the calendar would allow twice the limit, a rolling one does not; the places come back one after the
/// other, a day to a day and a seventh after their impressions.
#[test]
fn places_come_back_as_they_were_taken() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    support::warm(&profiles);
    let mut holds = 0;
    for (user, (window, length)) in (0..).zip(ROLLING) {
        let cap = |limit| Cap { item: 1, window, limit, offset_minutes: 0 };
        let mut shown = |limit, at| shown_at(&profiles, user, cap(limit), &mut holds, at);
        let later = MONDAY + length / 2;
        assert_eq!(shown(2, MONDAY - 1), 2);
        assert_eq!((shown(2, MONDAY), shown(3, later), shown(3, later + 1)), (0, 1, 0));
        assert_eq!(shown(3, MONDAY - 1 + length), 0, "{window:?}");
        assert_eq!(shown(3, MONDAY + length + length / 7 + 8), 2, "{window:?}");
    }
}

/// A clock that goes back neither gives a place again nor keeps one longer than it has gone back.
#[test]
fn a_clock_that_goes_back_keeps_the_running_step() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    support::warm(&profiles);
    let cap = |limit| Cap { item: 1, window: Window::RollingHour, limit, offset_minutes: 0 };
    let mut holds = 0;
    let mut shown = |limit, at| shown_at(&profiles, 1, cap(limit), &mut holds, at);
    assert_eq!((shown(1, MONDAY), shown(2, MONDAY - 10 * MINUTE)), (1, 1));
    assert_eq!((shown(2, MONDAY + HOUR), shown(2, MONDAY + HOUR + HOUR / 7 + 8)), (0, 2));
}

/// A step is counted in a byte: a larger limit is taken for 255, and billings beyond do not make room.
#[test]
fn a_rolling_cap_allows_255_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let profiles = support::open(folder.path());
    support::warm(&profiles);
    let cap = Cap { item: 1, window: Window::RollingDay, limit: 1_000, offset_minutes: 0 };
    let mut holds = 1_000;
    assert_eq!(shown_at(&profiles, 1, cap, &mut holds, MONDAY), 255);
    for hold in 0..300 {
        profiles.count(1, hold, &[cap], MONDAY).unwrap();
    }
    assert_eq!(shown_at(&profiles, 1, cap, &mut holds, MONDAY + 1), 0);
}
