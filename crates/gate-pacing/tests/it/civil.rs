//! Days as they are: short and long ones, without midnight or with two, and parts of days. Every share is
//! compared with one that is added up minute by minute.

use gate_pacing::{Counters, DayParts, Forecast, Memo, Pace, Plan, PlanSpec, Shape, Strategy};
use money::{Amount, Instant, Window, Zone, day_at, hour_of_week};

const MINUTE_MS: u64 = 60_000;
const LIMIT: i64 = 1_000_000_000_000;

/// Zone, an instant of the day, its length in minutes, the local time at which it begins, and how often 00:00
/// comes.
const DAYS: [(&str, &str, u64, &str, usize); 14] = [
    ("UTC", "2026-03-29T12:00:00Z", 24 * 60, "00:00", 1),
    ("Europe/Paris", "2026-03-29T12:00:00Z", 23 * 60, "00:00", 1),
    ("Europe/Paris", "2026-10-25T12:00:00Z", 25 * 60, "00:00", 1),
    ("Australia/Lord_Howe", "2026-10-04T03:00:00Z", 23 * 60 + 30, "00:00", 1),
    ("Australia/Lord_Howe", "2026-04-05T03:00:00Z", 24 * 60 + 30, "00:00", 1),
    ("Antarctica/Troll", "2026-03-29T12:00:00Z", 22 * 60, "00:00", 1),
    ("Antarctica/Troll", "2026-10-25T12:00:00Z", 26 * 60, "00:00", 1),
    ("Africa/Cairo", "2026-04-24T12:00:00Z", 23 * 60, "01:00", 0),
    ("America/Havana", "2026-03-08T16:00:00Z", 23 * 60, "01:00", 0),
    ("America/Santiago", "2026-09-06T16:00:00Z", 23 * 60, "01:00", 0),
    ("Asia/Beirut", "2026-03-29T12:00:00Z", 23 * 60, "01:00", 0),
    ("Atlantic/Azores", "2026-03-29T12:00:00Z", 23 * 60, "01:00", 0),
    ("America/Havana", "2026-11-01T16:00:00Z", 25 * 60, "00:00", 2),
    ("Atlantic/Azores", "2026-10-25T12:00:00Z", 25 * 60, "00:00", 2),
];

/// Some weight of an hour, no two neighbours alike.
fn weight(hour: usize) -> u16 {
    u16::try_from(1 + hour * 37 % 101).expect("small")
}

fn local_minute(at: Instant, zone: &Zone) -> u64 {
    let offset_ms = zone.offset_at(at).offset_ms;
    let local_ms = i64::try_from(at.ms()).expect("small") + offset_ms;
    u64::try_from(local_ms.rem_euclid(86_400_000)).expect("a day") / MINUTE_MS
}

fn minutes(window: &Window) -> impl Iterator<Item = Instant> + use<> {
    let Window { start, end } = *window;
    (start.ms()..end.ms()).step_by(60_000).map(Instant::from_ms)
}

/// A daily plan, and what it plans by an instant.
struct Day {
    plan: Plan,
    counters: Counters,
}

impl Day {
    fn new(zone: &Zone, day: Window, shape: Shape, day_parts: Option<DayParts>) -> Day {
        let spec = PlanSpec::new(1, Strategy::Curve, Window::ALWAYS, zone.clone());
        let plan = Plan::new(PlanSpec { daily: true, shape, day_parts, ..spec }).expect("daily");
        let (limit, day_cap) = (Amount::new(9 * LIMIT), Some(Amount::new(LIMIT)));
        Day { plan, counters: Counters { limit, day, day_cap, ..Counters::default() } }
    }

    /// Compares the plan at every quarter of an hour with the sum of weights of minutes until then.
    fn check(&self, about: &str, weight: impl Fn(Instant) -> u64) {
        let window = self.counters.day;
        let whole: u64 = minutes(&window).map(&weight).sum();
        let (mut before, mut memo) = (0, Memo::default());
        for (minute, at) in minutes(&window).enumerate() {
            if minute % 15 == 0 {
                let exact = u128::from(before) * LIMIT.unsigned_abs() as u128 * 1_000
                    / (u128::from(whole) * 995);
                let exact = i64::try_from(exact).expect("an amount").min(LIMIT);
                let planned = self.plan.progress(&self.counters, at).planned.get();
                assert!(planned.abs_diff(exact) < 1_000, "{about}, {at:?}: {planned} for {exact}");
            }
            let forecast = Forecast::default();
            let pace = self.plan.parameters(&self.counters, &forecast, at, 1_000, 1, &mut memo);
            let open = self.plan.progress(&self.counters, at).open;
            assert_eq!(pace == Pace::CLOSED, !open, "{about}, {at:?}");
            before += weight(at);
        }
        let last = Instant::from_ms(window.end.ms() - 1);
        assert_eq!(self.plan.progress(&self.counters, last).planned.get(), LIMIT, "{about}");
    }
}

#[test]
fn days_are_as_long_as_they_are() {
    for (zone, noon, len, start, midnights) in DAYS {
        let (zone, about) = (Zone::parse(zone).expect("a zone"), format!("{zone} {noon}"));
        let day = day_at(Instant::parse(noon).expect("an instant"), &zone);
        assert_eq!(day.len_ms(), len * MINUTE_MS, "{about}");
        let first = local_minute(day.start, &zone);
        assert_eq!(format!("{:02}:{:02}", first / 60, first % 60), start, "{about}");
        let zero = minutes(&day).filter(|at| local_minute(*at, &zone) == 0).count();
        assert_eq!(zero, midnights, "{about}");
    }
}

#[test]
fn hours_that_are_missing_have_no_share_and_repeated_ones_have_it_twice() {
    let weights: [u16; 168] = std::array::from_fn(weight);
    let shape = Shape::hourly(&weights).expect("168 weights");
    for (zone, noon, ..) in DAYS {
        let (zone, about) = (Zone::parse(zone).expect("a zone"), format!("{zone} {noon}"));
        let day = day_at(Instant::parse(noon).expect("an instant"), &zone);
        let hour = |at| u64::from(weights[usize::from(hour_of_week(at, &zone))]);
        Day::new(&zone, day, shape.clone(), None).check(&about, hour);
        Day::new(&zone, day, Shape::linear(), None).check(&about, |_| 1);
    }
}

#[test]
fn the_plan_is_flat_outside_its_day_parts() {
    let parts = DayParts::parse("00:30-03:15, 22:00-23:45").expect("parts");
    let weights: [u16; 24] = std::array::from_fn(weight);
    let open = |at: Instant, zone: &Zone| {
        let minute = local_minute(at, zone);
        (30..195).contains(&minute) || (1_320..1_425).contains(&minute)
    };
    for (zone, noon, ..) in DAYS {
        let (zone, about) = (Zone::parse(zone).expect("a zone"), format!("{zone} {noon}"));
        let day = day_at(Instant::parse(noon).expect("an instant"), &zone);
        let line = Day::new(&zone, day, Shape::linear(), Some(parts.clone()));
        line.check(&about, |at| u64::from(open(at, &zone)));
        let shape = Shape::hourly(&weights).expect("24 weights");
        let curve = Day::new(&zone, day, shape, Some(parts.clone()));
        curve.check(&about, |at| {
            let hour = usize::try_from(local_minute(at, &zone) / 60).expect("an hour");
            u64::from(open(at, &zone)) * u64::from(weights[hour])
        });
        for at in minutes(&day) {
            let progress = line.plan.progress(&line.counters, at);
            assert_eq!(progress.open, open(at, &zone), "{about}, {at:?}");
        }
    }
}

/// A day on which nothing is open plans nothing, and leaves its money to the others.
#[test]
fn days_without_parts_are_closed() {
    let zone = Zone::utc();
    let start = Instant::parse("2026-11-20T00:00:00Z").expect("a Friday");
    let flight = Window { start, end: Instant::parse("2026-11-24T00:00:00Z").expect("Tuesday") };
    let parts = DayParts::parse("mon-fri 08:00-20:00").ok();
    let spec = PlanSpec::new(1, Strategy::Schedule, flight, zone.clone());
    let plan = Plan::new(PlanSpec { daily: true, day_parts: parts, ..spec }).expect("daily");
    let budget = |text: &str| {
        let at = Instant::parse(text).expect("an instant");
        let limit = Amount::new(1_000);
        let counters = Counters { limit, day: day_at(at, &zone), ..Counters::default() };
        let progress = plan.progress(&counters, at);
        (progress.budget.get(), progress.open)
    };
    assert_eq!(budget("2026-11-20T12:00:00Z"), (500, true));
    assert_eq!(budget("2026-11-21T12:00:00Z"), (0, false));
    assert_eq!(budget("2026-11-23T12:00:00Z"), (1_000, true), "nothing was spent on Friday");
}

/// A weight that no hour of the window has: an evenly busy window.
#[test]
fn a_window_without_weight_is_evenly_busy() {
    let paris = Zone::parse("Europe/Paris").expect("a zone");
    let mut weights = [0; 24];
    weights[2] = 1;
    let shape = Shape::hourly(&weights).expect("24 weights");
    let day = |text| day_at(Instant::parse(text).expect("an instant"), &paris);
    let march = Day::new(&paris, day("2026-03-29T12:00:00Z"), shape.clone(), None);
    march.check("no 02:00", |_| 1);
    let october = Day::new(&paris, day("2026-10-25T12:00:00Z"), shape, None);
    october.check("02:00 twice", |at| u64::from(local_minute(at, &paris) / 60 == 2));
}
