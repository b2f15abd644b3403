//! Limits of stretches of time, several at once: what may be handed out in each minute, hour, day, week or month.
//!
//! A **fixed** window begins and ends with the clocks of the budget's zone, and its limit is whole again at its end: what is used
//! of it is what was handed out in it and did not come back. Around an edge as much as two limits can be spent in a short time.
//!
//! A **bucket** refills all the time, at its limit per period, up to its limit. Around no edge there is a burst, and what comes
//! back refills it at once. Its arithmetic is whole numbers and keeps what it rounds off, so that nothing drifts.

use money::{Instant, Zone};

use crate::Amount;
use crate::books::{minus, plus};

/// A stretch of time that a limit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Period {
    /// A minute of the zone's clocks.
    Minute = 1,
    /// An hour of the zone's clocks; shorter where they change within it.
    Hour,
    /// A civil day.
    Day,
    /// Sunday to Saturday.
    Week,
    /// A civil month.
    Month,
}

impl Period {
    /// All of them, the shortest first.
    pub const ALL: [Period; 5] =
        [Period::Minute, Period::Hour, Period::Day, Period::Week, Period::Month];

    /// What files and programs call it: `minute`.
    pub const fn name(self) -> &'static str {
        match self {
            Period::Minute => "minute",
            Period::Hour => "hour",
            Period::Day => "day",
            Period::Week => "week",
            Period::Month => "month",
        }
    }

    /// In how many milliseconds a bucket refills: a day has 24 hours, a month 30 days.
    pub const fn refill_ms(self) -> u64 {
        match self {
            Period::Minute => 60_000,
            Period::Hour => 3_600_000,
            Period::Day => 86_400_000,
            Period::Week => 7 * 86_400_000,
            Period::Month => 30 * 86_400_000,
        }
    }

    /// The one that an instant is in.
    pub fn at(self, at: Instant, zone: &Zone) -> money::Window {
        match self {
            Period::Minute => money::minute_at(at, zone),
            Period::Hour => money::hour_at(at, zone),
            Period::Day => money::day_at(at, zone),
            Period::Week => money::week_at(at, zone),
            Period::Month => money::month_at(at, zone),
        }
    }
}

/// How a window's limit comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowKind {
    /// All at once, at the end of the window.
    #[default]
    Fixed,
    /// All the time.
    Bucket,
}

/// What may be handed out in each stretch of time of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowLimit {
    /// Which stretch, in the budget's zone.
    pub period: Period,
    /// How the limit comes back.
    pub kind: WindowKind,
    /// The amount that may be spent in it: 0 ..= `money::LIMIT_MAX`.
    pub limit: Amount,
}

/// The windows of a budget: at most one of each period, the shortest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Windows(Box<[WindowLimit]>);

impl Windows {
    /// Of these limits. Of several of one period the last counts.
    pub fn of(limits: impl IntoIterator<Item = WindowLimit>) -> Windows {
        limits.into_iter().fold(Windows::default(), Windows::with)
    }

    /// A fixed window of days and nothing else; nothing at all without a limit.
    pub fn daily(limit: Option<Amount>) -> Windows {
        Windows::of(limit.map(|limit| WindowLimit::fixed(Period::Day, limit)))
    }

    /// These, with this one in the place of the one of its period.
    #[must_use]
    pub fn with(self, limit: WindowLimit) -> Windows {
        let mut all = self.without(limit.period).0.into_vec();
        all.push(limit);
        all.sort_unstable_by_key(|window| window.period);
        Windows(all.into_boxed_slice())
    }

    /// These, without the one of a period.
    #[must_use]
    pub fn without(self, period: Period) -> Windows {
        let mut all = self.0.into_vec();
        all.retain(|window| window.period != period);
        Windows(all.into_boxed_slice())
    }

    /// All of them, the shortest first.
    #[inline]
    pub fn all(&self) -> &[WindowLimit] {
        &self.0
    }

    /// The one of a period.
    pub fn get(&self, period: Period) -> Option<WindowLimit> {
        self.0.iter().copied().find(|window| window.period == period)
    }

    /// The limit of each civil day, where it is a fixed window: what a plan spreads over the day.
    pub fn day_limit(&self) -> Option<Amount> {
        self.get(Period::Day).filter(|day| day.kind == WindowKind::Fixed).map(|day| day.limit)
    }

    /// Is there one that a purse must not be filled for before anybody asks: a bucket, or one shorter than a day? What an idle
    /// worker had of it would be missing elsewhere.
    pub(crate) fn are_tight(&self) -> bool {
        self.0.iter().any(|window| window.is_tight())
    }
}

impl WindowLimit {
    /// A fixed window.
    pub fn fixed(period: Period, limit: Amount) -> WindowLimit {
        WindowLimit { period, kind: WindowKind::Fixed, limit }
    }

    /// A bucket.
    pub fn bucket(period: Period, limit: Amount) -> WindowLimit {
        WindowLimit { period, kind: WindowKind::Bucket, limit }
    }

    pub(crate) fn is_bucket(&self) -> bool {
        self.kind == WindowKind::Bucket
    }

    /// A fixed window of days: the lines of the day in the budget's state count it, and no [`WindowUse`] does.
    pub(crate) fn is_day(&self) -> bool {
        self.period == Period::Day && !self.is_bucket()
    }

    /// Made of whole days: a grant counts by its day. In others it counts by its number.
    pub(crate) fn is_of_days(&self) -> bool {
        !self.is_bucket() && self.period >= Period::Day
    }

    pub(crate) fn is_tight(&self) -> bool {
        !self.is_of_days()
    }

    /// Is it to be begun before anything is handed out now?
    pub(crate) fn is_due(&self, used: &WindowUse, now_ms: u64) -> bool {
        used.until_ms == 0 || !self.is_bucket() && used.until_ms <= now_ms
    }

    /// Does money of a grant, whose spend belongs to the day that begins at `day_ms`, count in the window that is present?
    #[inline]
    pub(crate) fn counts(&self, used: &WindowUse, grant: u64, day_ms: u64) -> bool {
        match self.is_of_days() {
            true => (used.since..used.until_ms).contains(&day_ms),
            false => used.until_ms > 0 && grant >= used.since,
        }
    }

    /// What is used of it at an instant.
    pub(crate) fn used_at(&self, used: &WindowUse, now_ms: u64) -> Amount {
        match self.is_bucket() {
            true => used.refilled(*self, now_ms).used,
            false if self.is_due(used, now_ms) => Amount::ZERO,
            false => used.used,
        }
    }

    /// From when on a window has so much, where nothing comes back before. No more than its limit.
    pub(crate) fn has_at_ms(&self, used: &WindowUse, now_ms: u64, amount: i128) -> u64 {
        let refill_ms = if self.is_bucket() { i128::from(self.period.refill_ms()) } else { 0 };
        let rate = i128::from(self.limit.get()).max(1);
        let wait_ms = u64::try_from((amount * refill_ms + rate - 1) / rate).unwrap_or(u64::MAX);
        self.counted_from_ms(used, now_ms).saturating_add(wait_ms)
    }

    /// The end of a fixed window; of a bucket the instant at which it would have had nothing, if nothing had been taken from it since: from there on
    /// an ask waits for as much as it needs ([`crate::No::retry_at_ms`]).
    pub(crate) fn counted_from_ms(&self, used: &WindowUse, now_ms: u64) -> u64 {
        if !self.is_bucket() {
            return used.until_ms;
        }
        let used = used.refilled(*self, now_ms);
        let short = i128::from(used.used.get()) - i128::from(self.limit.get());
        let parts = short * i128::from(self.period.refill_ms()) - i128::from(used.rest);
        let rate = i128::from(self.limit.get()).max(1);
        let wait_ms = (parts + rate - 1).div_euclid(rate);
        u64::try_from((i128::from(now_ms) + wait_ms).max(0)).unwrap_or(u64::MAX)
    }
}

/// What is used of a window that is present: everything handed out in it that did not come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowUse {
    /// What counts in it. Weeks and months: money of days from this instant on. Others: of grants from this number on.
    pub since: u64,
    /// First instant after it; of a bucket the instant up to which it is refilled. 0 before the first.
    pub until_ms: u64,
    /// How much is used.
    pub used: Amount,
    /// Of a bucket: what was refilled beyond whole units, in parts of [`Period::refill_ms`]. Of a day, week or month: what named holds
    /// booked in it, of which credits take back at most so much.
    pub rest: u64,
}

impl WindowUse {
    /// Money leaves the free line.
    #[inline]
    pub(crate) fn take(&mut self, amount: Amount) {
        self.used = plus(self.used, amount);
    }

    /// As if so much had not been taken.
    pub(crate) fn without(self, amount: Amount) -> WindowUse {
        WindowUse { used: minus(self.used, amount).max(Amount::ZERO), ..self }
    }

    /// Money comes back to it. What a bucket has no room for is not counted.
    #[inline]
    pub(crate) fn give_back(&mut self, amount: Amount, is_bucket: bool) {
        self.used = minus(self.used, amount);
        if is_bucket && self.used <= Amount::ZERO {
            // It is full: what was refilled beyond whole units has no room either.
            (self.used, self.rest) = (Amount::ZERO, 0);
        }
    }

    /// A bucket at a later instant.
    pub(crate) fn refilled(mut self, of: WindowLimit, now_ms: u64) -> WindowUse {
        let past_ms = now_ms.saturating_sub(self.until_ms);
        if past_ms == 0 || self.until_ms == 0 {
            return self;
        }
        self.until_ms = now_ms;
        let length_ms = u128::from(of.period.refill_ms());
        let rate = u128::from(of.limit.get().max(0).cast_unsigned());
        let parts = rate * u128::from(past_ms) + u128::from(self.rest);
        let back = i64::try_from(parts / length_ms).unwrap_or(i64::MAX);
        if back >= self.used.get() {
            (self.used, self.rest) = (Amount::ZERO, 0);
        } else {
            self.used = minus(self.used, Amount::new(back));
            self.rest = u64::try_from(parts % length_ms).expect("less than a period");
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::No;
    use proptest::prelude::*;

    fn full_since(until_ms: u64) -> WindowUse {
        WindowUse { since: 1, until_ms, ..WindowUse::default() }
    }

    /// What an ask is told that such a window has no room for.
    fn ready_ms(window: WindowLimit, used: &WindowUse, now_ms: u64, amount: i64) -> Option<u64> {
        let WindowLimit { period, kind, limit } = window;
        let until_ms = window.counted_from_ms(used, now_ms);
        let no = No { period: Some(period), kind, limit, until_ms, ..No::LATER };
        no.retry_at_ms(Amount::new(amount))
    }

    #[test]
    fn windows_are_sorted_and_one_of_a_period() {
        let amount = Amount::new;
        let windows = Windows::of([
            WindowLimit::fixed(Period::Month, amount(100)),
            WindowLimit::bucket(Period::Minute, amount(2)),
            WindowLimit::fixed(Period::Minute, amount(3)),
        ]);
        let expected = [
            WindowLimit::fixed(Period::Minute, amount(3)),
            WindowLimit::fixed(Period::Month, amount(100)),
        ];
        assert_eq!(windows.all(), expected);
        assert_eq!((windows.day_limit(), windows.are_tight()), (None, true));
        let windows = windows.without(Period::Minute);
        assert!(!windows.are_tight() && windows.get(Period::Minute).is_none());
        let bucket = Windows::of([WindowLimit::bucket(Period::Day, amount(1))]);
        assert_eq!((bucket.day_limit(), bucket.are_tight()), (None, true));
    }

    #[test]
    fn a_bucket_that_is_full_again_keeps_no_part_of_a_unit() {
        let bucket = WindowLimit::bucket(Period::Minute, Amount::new(10));
        let mut used = full_since(1_000);
        used.take(Amount::new(2));
        used = used.refilled(bucket, 10_000);
        assert_eq!((used.used.get(), used.rest), (1, 30_000), "half a unit beyond a whole one");
        used.give_back(Amount::new(1), true);
        assert_eq!((used.used.get(), used.rest), (0, 0));
        used.take(Amount::new(10));
        assert_eq!(bucket.used_at(&used, 15_999).get(), 10, "the next unit takes six seconds");
        assert_eq!(bucket.used_at(&used, 16_000).get(), 9);
    }

    #[test]
    fn a_bucket_of_ten_per_minute_gives_one_each_six_seconds() {
        let bucket = WindowLimit::bucket(Period::Minute, Amount::new(10));
        let mut used = full_since(1_000);
        used.take(Amount::new(10));
        for (now_ms, left) in [(1_000, 10), (6_999, 10), (7_000, 9), (60_999, 1), (61_000, 0)] {
            assert_eq!(bucket.used_at(&used, now_ms).get(), left, "at {now_ms}");
        }
        assert_eq!(ready_ms(bucket, &used, 2_000, 1), Some(7_000));
        assert_eq!(ready_ms(bucket, &used, 2_000, 10), Some(61_000));
        assert_eq!(ready_ms(bucket, &used, 2_000, 11), None);
        used.give_back(Amount::new(99), true);
        assert_eq!(used.used, Amount::ZERO, "it never has more than its limit");
        let none = WindowLimit::bucket(Period::Minute, Amount::ZERO);
        assert_eq!(ready_ms(none, &used, 2_000, 1), None);
    }

    proptest! {
        /// Looked at often or seldom: it is the same.
        #[test]
        fn a_bucket_does_not_drift(limit in 0..=money::LIMIT_MAX.get(), used in 0..=money::LIMIT_MAX.get(),
                                   steps in prop::collection::vec(0_u64..100_000_000, 1..20), month: bool) {
            let period = if month { Period::Month } else { Period::Minute };
            let bucket = WindowLimit::bucket(period, Amount::new(limit));
            let first = WindowUse { used: Amount::new(used), ..full_since(5) };
            let (mut slow, mut now_ms) = (first, 5);
            for step in steps {
                now_ms += step;
                slow = slow.refilled(bucket, now_ms);
                prop_assert_eq!(slow, WindowUse { until_ms: slow.until_ms, ..first.refilled(bucket, now_ms) });
            }
        }

        /// At the instant that it names there is enough, and two milliseconds before there is not.
        #[test]
        fn a_bucket_is_ready_when_it_says(limit in 1_i64..1_000_000_000, used in 0_i64..2_000_000_000,
                                          rest in 0_u64..60_000, amount in 1_i64..1_000_000_000) {
            let bucket = WindowLimit::bucket(Period::Minute, Amount::new(limit));
            let now_ms = 1_000_000;
            let state = WindowUse { used: Amount::new(used), rest, ..full_since(now_ms) };
            let Some(ready_ms) = ready_ms(bucket, &state, now_ms, amount) else {
                prop_assert!(amount > limit);
                return Ok(());
            };
            let left = |at_ms| limit - bucket.used_at(&state, at_ms).get();
            prop_assert!(left(ready_ms.max(now_ms)) >= amount);
            prop_assert!(ready_ms < now_ms + 2 || left(ready_ms - 2) < amount);
        }
    }
}
