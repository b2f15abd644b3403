//! What may go wrong on a day, and how the simulator does it to us.

use super::day::{Day, Notices, SECONDS};

const HOUR_S: u32 = 3600;

/// A day that differs from the [base](BASE) in one way.
///
/// Budgets, plan, forecast and landscape are those of the evening before, in every scenario: whatever changes in the
/// day itself is a surprise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// The name of options and reports.
    pub name: &'static str,
    /// What happens, for people.
    pub about: &'static str,
    /// Requests come more or less often than expected for a while.
    pub traffic: Option<Change>,
    /// Outside bids are higher or lower than expected for a while.
    pub price: Option<Change>,
    /// Forecast requests, in percent of the true expectation. The budgets follow the forecast.
    pub forecast_percent: u32,
    /// The forecast's shape in time is off by a wave of this many percent, see [`SHAPE`].
    pub shape_percent: u32,
    /// We answer nothing for so many seconds, at the busiest time of the afternoon (12:00 to 18:00).
    pub outage_s: u32,
    /// The process is killed every so many seconds; 0: never.
    pub restart_every_s: u32,
    /// How large the budgets are.
    pub budgets: Budgets,
    /// Notices are late by up to this; `None`: as the run asks for.
    pub late_s_max: Option<u32>,
    /// Notices lost, in millionths; `None`: as the run asks for.
    pub lost_ppm: Option<u32>,
    /// Notices repeated, in millionths; `None`: as the run asks for.
    pub repeated_ppm: Option<u32>,
}

/// A factor on something for a part of the day.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// From this second of the day.
    pub from_s: u32,
    /// To before this second of the day.
    pub to_s: u32,
    /// Times this.
    pub factor: f64,
}

/// How large the budgets of a day are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budgets {
    /// 1 % to 200 %, spread evenly over the logarithm, of what the campaign would spend on the forecast day if it bid
    /// its full value, alone and without a limit.
    Parts,
    /// So many impressions, from the first to the last campaign spread evenly over the logarithm, at the mean price it would pay
    /// so.
    Impressions(u32, u32),
}

/// Nothing unexpected.
pub const BASE: Scenario = Scenario {
    name: "base",
    about: "A day as forecast: only chance differs.",
    traffic: None,
    price: None,
    forecast_percent: 100,
    shape_percent: 0,
    outage_s: 0,
    restart_every_s: 0,
    budgets: Budgets::Parts,
    late_s_max: None,
    lost_ppm: None,
    repeated_ppm: None,
};

const OUTAGE: Scenario = Scenario {
    name: "outage",
    about: "For 30 minutes, at the busiest time between 12:00 and 18:00, we answer nothing.",
    outage_s: 1800,
    ..BASE
};

const SPIKE: Scenario = Scenario {
    name: "spike",
    about: "From 15:00 to 15:15 five times the expected requests come.",
    traffic: Some(Change { from_s: 15 * HOUR_S, to_s: 15 * HOUR_S + 900, factor: 5.0 }),
    ..BASE
};

const FORECAST_HIGH: Scenario = Scenario {
    name: "forecast+40",
    about: "The forecast promised 40 % more requests than come; budgets follow the forecast.",
    forecast_percent: 140,
    ..BASE
};

const FORECAST_LOW: Scenario = Scenario {
    name: "forecast-40",
    about: "The forecast promised 40 % fewer requests than come; budgets follow the forecast.",
    forecast_percent: 60,
    ..BASE
};

/// The forecast at time `t` of the day (0 to 1) is off by the factor `1 + 0.4 * sin(2 pi * (t + phase))`, its sum kept;
/// the phase is drawn with the seed.
pub const SHAPE: Scenario = Scenario {
    name: "shape",
    about: "The forecast spread the requests wrongly over the day: off by a sine of one wave a day and +-40 %.",
    shape_percent: 40,
    ..BASE
};

const PRICE: Scenario = Scenario {
    name: "price",
    about: "From 12:00 on outside bids are twice as high as before.",
    price: Some(Change { from_s: 12 * HOUR_S, to_s: SECONDS, factor: 2.0 }),
    ..BASE
};

const RESTARTS: Scenario = Scenario {
    name: "restarts",
    about: "The process is killed and started again every hour, 23 times.",
    restart_every_s: HOUR_S,
    ..BASE
};

const LATE: Scenario = Scenario {
    name: "late",
    about: "Notices come up to 900 seconds late.",
    late_s_max: Some(900),
    ..BASE
};

const LOST: Scenario = Scenario {
    name: "lost",
    about: "20 % of the notices never come.",
    lost_ppm: Some(200_000),
    ..BASE
};

const REPEATED: Scenario = Scenario {
    name: "repeated",
    about: "5 % of the notices come twice.",
    repeated_ppm: Some(50_000),
    ..BASE
};

const TINY: Scenario = Scenario {
    name: "tiny",
    about: "Budgets of 8 to 400 impressions, at the mean price of a win with full bids.",
    budgets: Budgets::Impressions(8, 400),
    ..BASE
};

const TEN: Scenario = Scenario {
    name: "ten",
    about: "Budgets of ten impressions, at the mean price of a win with full bids.",
    budgets: Budgets::Impressions(10, 10),
    ..BASE
};

const CRUNCH: Scenario = Scenario {
    name: "crunch",
    about: "From 21:00 to the end only 40 % of the expected requests come, and outside bids are 50 % higher.",
    traffic: Some(Change { from_s: 21 * HOUR_S, to_s: SECONDS, factor: 0.4 }),
    price: Some(Change { from_s: 21 * HOUR_S, to_s: SECONDS, factor: 1.5 }),
    ..BASE
};

impl Scenario {
    /// All scenarios, in the order of reports.
    pub const ALL: &[Scenario] = &[
        BASE,
        OUTAGE,
        SPIKE,
        FORECAST_HIGH,
        FORECAST_LOW,
        SHAPE,
        PRICE,
        RESTARTS,
        LATE,
        LOST,
        REPEATED,
        TINY,
        TEN,
        CRUNCH,
    ];

    /// The scenario of a name.
    pub fn find(name: &str) -> Option<&'static Scenario> {
        Scenario::ALL.iter().find(|scenario| scenario.name == name)
    }

    /// The notices of this scenario where those of the run are `base`.
    pub fn notices(&self, base: Notices) -> Notices {
        Notices {
            late_s_max: self.late_s_max.unwrap_or(base.late_s_max),
            lost_ppm: self.lost_ppm.unwrap_or(base.lost_ppm),
            repeated_ppm: self.repeated_ppm.unwrap_or(base.repeated_ppm),
            ..base
        }
    }

    /// The span of the disturbance from which a campaign should recover: an outage or a burst of requests that ends
    /// before the day does, in seconds of the day.
    pub fn event(&self, day: &Day) -> Option<(u32, u32)> {
        let burst = self.traffic.map(|change| (change.from_s, change.to_s));
        day.outages.first().copied().or(burst).filter(|&(_, to)| to < SECONDS)
    }

    /// Whether the day itself, not only its notices or restarts, is that of another scenario: such days need not be
    /// made twice.
    pub fn same_day(&self, other: &Scenario) -> bool {
        let day = |scenario: &Scenario| Scenario {
            name: "",
            about: "",
            late_s_max: None,
            lost_ppm: None,
            repeated_ppm: None,
            ..*scenario
        };
        day(self) == day(other)
    }
}

impl Change {
    /// The factor in a minute of the day.
    pub(crate) fn in_minute(change: Option<Change>, minute: usize) -> f64 {
        let inside = |change: &Change| {
            (change.from_s as usize..change.to_s as usize).contains(&(minute * 60))
        };
        change.filter(inside).map_or(1.0, |change| change.factor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_scenario_is_found_by_its_own_name_and_tells_what_it_is() {
        let names: BTreeSet<_> = Scenario::ALL.iter().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), Scenario::ALL.len());
        for scenario in Scenario::ALL {
            assert_eq!(Scenario::find(scenario.name), Some(scenario));
            assert!(scenario.about.ends_with('.'), "{}", scenario.name);
        }
        assert_eq!(Scenario::find("Base"), None);
    }

    #[test]
    fn only_what_a_scenario_names_changes_in_the_notices() {
        let base = Notices { losses: false, reconcile_every_s: 900, ..Notices::default() };
        let of = |name| Scenario::find(name).unwrap().notices(base);
        assert_eq!(of("base"), base);
        assert_eq!(of("crunch"), base);
        assert_eq!(of("late"), Notices { late_s_max: 900, ..base });
        assert_eq!(of("lost"), Notices { lost_ppm: 200_000, ..base });
        assert_eq!(of("repeated"), Notices { repeated_ppm: 50_000, ..base });
    }

    #[test]
    fn days_that_differ_in_notices_only_are_the_same_day() {
        let same: Vec<_> = Scenario::ALL
            .iter()
            .filter(|scenario| scenario.same_day(&BASE))
            .map(|scenario| scenario.name)
            .collect();
        assert_eq!(same, ["base", "late", "lost", "repeated"]);
    }

    #[test]
    fn a_change_ends_before_its_last_minute() {
        let spike = SPIKE.traffic;
        let factor = |minute| Change::in_minute(spike, minute);
        assert_eq!([899, 900, 914, 915].map(factor), [1.0, 5.0, 5.0, 1.0]);
        assert_eq!(Change::in_minute(None, 900), 1.0);
    }
}
