//! Caps against a reference that keeps every event.

use std::collections::BTreeMap;

use gate_profile::{Cap, Options, Profile, Profiles, Refused, Window};
use proptest::prelude::*;

use crate::support;

const MINUTE: u64 = 60_000;
const DAY: u64 = 24 * 60 * MINUTE;

/// Every event, and the plainest arithmetic.
#[derive(Default)]
struct Reference {
    /// (user, hold) to caps and deadline.
    reserved: BTreeMap<(u64, u64), (Vec<Cap>, u64)>,
    /// (user, item, window) to the times of its impressions.
    billed: BTreeMap<(u64, u64, Window), Vec<u64>>,
    counted: Vec<u64>,
}

impl Reference {
    fn number(cap: &Cap, at_ms: u64) -> i64 {
        let local = at_ms as i64 + i64::from(cap.offset_minutes) * 60_000;
        let day = 86_400_000;
        match cap.window {
            Window::Minute => local / 60_000,
            Window::Hour => local / 3_600_000,
            Window::Day => local / day,
            Window::Week => (local + 3 * day) / (7 * day),
            Window::Lifetime => 0,
            // Steps of a seventh, rounded up.
            Window::RollingHour => at_ms as i64 / 514_286,
            Window::RollingDay => at_ms as i64 / 12_342_858,
            Window::RollingWeek => at_ms as i64 / day,
        }
    }

    fn used(&self, user: u64, cap: &Cap, now_ms: u64) -> usize {
        let steps = if cap.window.is_rolling() { 7 } else { 0 };
        let oldest = Self::number(cap, now_ms) - steps;
        let billed = self.billed.get(&(user, cap.item, cap.window)).map_or(0, |times| {
            times.iter().filter(|&&at_ms| Self::number(cap, at_ms) >= oldest).count()
        });
        let on = |caps: &[Cap]| caps.iter().any(|c| (c.item, c.window) == (cap.item, cap.window));
        let live = self
            .reserved
            .iter()
            .filter(|((of, _), (caps, deadline))| *of == user && on(caps) && *deadline > now_ms);
        billed + live.count()
    }

    fn reserve(
        &mut self,
        user: u64,
        hold: u64,
        caps: &[Cap],
        deadline: u64,
        now: u64,
    ) -> Result<(), usize> {
        if self.reserved.get(&(user, hold)).is_some_and(|(_, deadline)| *deadline > now) {
            return Ok(());
        }
        let full = |cap: &Cap| self.used(user, cap, now) >= usize::from(cap.limit);
        if let Some(which) = caps.iter().position(full) {
            return Err(which);
        }
        if !caps.is_empty() {
            self.reserved.insert((user, hold), (caps.to_vec(), deadline));
        }
        Ok(())
    }

    fn count(&mut self, user: u64, hold: u64, caps: &[Cap], now: u64) {
        if self.counted.contains(&hold) {
            return;
        }
        if !caps.is_empty() {
            self.counted.push(hold);
            self.reserved.remove(&(user, hold));
        }
        let mut seen = Vec::new();
        for cap in caps {
            if !seen.contains(&(cap.item, cap.window)) {
                seen.push((cap.item, cap.window));
                self.billed.entry((user, cap.item, cap.window)).or_default().push(now);
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Pass(u64),
    Reserve { user: u64, hold: u64, caps: Vec<Cap>, life: u64 },
    Confirm { user: u64, hold: u64, life: u64 },
    Release { user: u64, hold: u64 },
    Count { user: u64, hold: u64, caps: Vec<Cap> },
}

fn caps() -> impl Strategy<Value = Vec<Cap>> {
    // The offset belongs to the item, as a campaign's time zone does.
    let cap = (0..4u64, 0..Window::ALL.len(), 0..4u16).prop_map(|(item, window, limit)| Cap {
        item,
        window: Window::ALL[window],
        limit,
        offset_minutes: [0, -300, 330, 840][item as usize],
    });
    prop::collection::vec(cap, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    let (user, hold, life) = (0..3u64, 0..40u64, 1..3 * MINUTE);
    prop_oneof![
        2 => prop_oneof![0..MINUTE, 0..DAY, Just(7 * DAY)].prop_map(Step::Pass),
        4 => (user.clone(), hold.clone(), caps(), life.clone())
            .prop_map(|(user, hold, caps, life)| Step::Reserve { user, hold, caps, life }),
        1 => (user.clone(), hold.clone(), life)
            .prop_map(|(user, hold, life)| Step::Confirm { user, hold, life }),
        1 => (user.clone(), hold.clone()).prop_map(|(user, hold)| Step::Release { user, hold }),
        2 => (user, hold, caps()).prop_map(|(user, hold, caps)| Step::Count { user, hold, caps }),
    ]
}

fn play(profiles: &Profiles, base: u64, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut reference = Reference::default();
    let mut profile = Profile::default();
    let mut now = support::now_ms();
    // Every case has users and holds of its own in one store.
    let at = |user: &u64| base * 1_000 + user;
    let name = |user: &u64, hold: &u64| base * 1_000 + user * 100 + hold;
    for step in steps {
        match step {
            Step::Pass(ms) => now += ms,
            Step::Reserve { user, hold, caps, life } => {
                let real = profiles.reserve(at(user), name(user, hold), caps, now + life, now);
                let expected = reference.reserve(at(user), name(user, hold), caps, now + life, now);
                prop_assert_eq!(real, expected.map_err(Refused::Capped));
            }
            Step::Confirm { user, hold, life } => {
                let found = reference.reserved.get_mut(&(at(user), name(user, hold)));
                let live = found.filter(|(_, deadline)| *deadline > now);
                let expected = live.map(|live| live.1 = now + life).is_some();
                prop_assert_eq!(
                    profiles.confirm(at(user), name(user, hold), now + life, now),
                    expected
                );
            }
            Step::Release { user, hold } => {
                profiles.release(at(user), name(user, hold));
                reference.reserved.remove(&(at(user), name(user, hold)));
            }
            Step::Count { user, hold, caps } => {
                profiles.count(at(user), name(user, hold), caps, now).unwrap();
                reference.count(at(user), name(user, hold), caps, now);
            }
        }
        for user in 0..3 {
            profiles.read(at(&user), now, &mut profile);
            for (item, &offset_minutes) in [0, -300, 330, 840].iter().enumerate() {
                for window in Window::ALL {
                    let cap = Cap { item: item as u64, window, limit: 2, offset_minutes };
                    let expected = reference.used(at(&user), &cap, now);
                    prop_assert_eq!(profile.used(&cap) as usize, expected, "{:?}", cap);
                    prop_assert_eq!(profile.capped(&[cap]), expected >= 2);
                }
            }
        }
    }
    Ok(())
}

#[test]
fn caps_are_what_the_plain_reference_says() {
    let folder = tempfile::tempdir().unwrap();
    // The reference never forgets a hold; the cases pass months.
    let options = Options { holds_kept_ms: 366 * DAY, ..support::options() };
    let profiles = support::open_with(folder.path(), &options);
    support::warm(&profiles);
    let base = std::cell::Cell::new(0);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let steps = prop::collection::vec(step(), 1..80);
    let result = runner.run(&steps, |steps| {
        base.set(base.get() + 1);
        play(&profiles, base.get(), &steps)
    });
    result.unwrap();
    assert_eq!(profiles.figures().uncounted, 0);
}
