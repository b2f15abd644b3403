//! One day of traffic: requests in order of time, the campaigns eligible for each, and what was known the evening
//! before.
//!
//! Flat tables, so that a million requests are a few allocations and a run reads them front to back. Money is integer
//! micros of one currency; a price or a value is that of **one impression**.

/// Minutes in a simulated day; a table by minute has one more point, for the end.
pub const MINUTES: usize = 1440;
/// Seconds in a simulated day.
pub const SECONDS: u32 = 86_400;
/// A cumulative share of one in [`DayCampaign::plan`].
pub const PLAN_ONE: u64 = 1 << 32;
/// Forecast requests in [`DayCampaign::arrivals`] are in 1/256 of a request.
pub const ARRIVALS_ONE: u64 = 1 << 8;

/// A day of traffic with the campaigns that want it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Day {
    /// The campaigns; [`Eligible::campaign`] is a place here.
    pub campaigns: Vec<DayCampaign>,
    /// The requests, [`DayRequest::at_ms`] never falling.
    pub requests: Vec<DayRequest>,
    /// Who may bid for what; a request owns a run of it.
    pub eligible: Vec<Eligible>,
    /// When the simulated day begins, milliseconds since 1970 (UTC).
    pub start_ms: u64,
    /// Spans of the day, seconds `from..to`, in which we answer nothing.
    pub outages: Vec<(u32, u32)>,
    /// Seconds of the day, rising, at which the process is killed and started again.
    pub restarts: Vec<u32>,
}

/// One request for one impression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayRequest {
    /// Hash of the request's id: coins and ties come from it.
    pub id: u64,
    /// When, milliseconds into the day.
    pub at_ms: u32,
    /// First of its run in [`Day::eligible`].
    pub first: u32,
    /// Length of its run; 0 if no campaign wants it.
    pub count: u16,
    /// Highest outside bid, micros per impression: we win with a bid of at least this (a tie is ours).
    pub price: i64,
}

/// A campaign that may bid for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eligible {
    /// Place in [`Day::campaigns`].
    pub campaign: u16,
    /// What the impression is worth to it, micros: the highest bid allowed; at least 1.
    pub value: i64,
}

/// A campaign of the day and what was known about it the evening before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DayCampaign {
    /// The campaign's number.
    pub id: u64,
    /// Budget of the day, micros.
    pub budget: i64,
    /// Cumulative shares of the plan at the [`MINUTES`] + 1 ends of minutes: from 0 to [`PLAN_ONE`].
    pub plan: Vec<u64>,
    /// Cumulative **forecast** of eligible requests at the same points, in units of 1/[`ARRIVALS_ONE`].
    pub arrivals: Vec<u64>,
    /// Yesterday's landscape: bid multiplier (Q32, rising) to spend per eligible request (micros, Q16).
    pub landscape: Vec<(u64, u64)>,
}

impl Day {
    /// The campaigns eligible for a request of this day.
    pub fn eligible(&self, request: &DayRequest) -> &[Eligible] {
        let first = request.first as usize;
        &self.eligible[first..first + usize::from(request.count)]
    }

    /// Whether we answer at this millisecond of the day: outside every outage.
    pub fn answers(&self, at_ms: u32) -> bool {
        let second = at_ms / 1000;
        !self.outages.iter().any(|&(from, to)| (from..to).contains(&second))
    }
}

/// How a won impression is priced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Auction {
    /// The winner pays the highest outside bid.
    Second,
    /// The winner pays its own bid.
    First,
}

impl Auction {
    /// Both, in the order of reports.
    pub const ALL: [Auction; 2] = [Auction::Second, Auction::First];

    /// The name of options and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Auction::Second => "second",
            Auction::First => "first",
        }
    }

    /// What a bid pays for an impression whose highest outside bid is `price`; `None` if it loses.
    pub fn pays(self, bid: i64, price: i64) -> Option<i64> {
        if bid < price {
            return None;
        }
        match self {
            Auction::Second => Some(price.max(0)),
            Auction::First => Some(bid),
        }
    }
}

/// How word of wins and losses comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notices {
    /// A notice is late by up to this many seconds, evenly spread.
    pub late_s_max: u32,
    /// Notices that never come, in millionths.
    pub lost_ppm: u32,
    /// Notices that come twice, in millionths.
    pub repeated_ppm: u32,
    /// Whether losses are told at all; a silent exchange tells only wins.
    pub losses: bool,
    /// A billing file comes every so many seconds; 0: never.
    pub reconcile_every_s: u32,
    /// The billing file is complete up to so many seconds before it comes.
    pub reconcile_after_s: u32,
}

impl Default for Notices {
    /// Up to a minute late, 5 % lost, none repeated, losses told, billing file every hour, complete up to ten minutes
    /// before.
    fn default() -> Notices {
        Notices {
            late_s_max: 60,
            lost_ppm: 50_000,
            repeated_ppm: 0,
            losses: true,
            reconcile_every_s: 3600,
            reconcile_after_s: 600,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tie_is_won_and_a_second_price_is_never_negative() {
        assert_eq!(Auction::Second.pays(9, 10), None);
        assert_eq!(Auction::Second.pays(10, 10), Some(10));
        assert_eq!(Auction::Second.pays(12, 10), Some(10));
        assert_eq!(Auction::Second.pays(12, -1), Some(0));
        assert_eq!(Auction::First.pays(12, 10), Some(12));
        assert_eq!(Auction::First.pays(9, 10), None);
    }

    #[test]
    fn an_outage_ends_before_its_last_second() {
        let day = Day { outages: vec![(10, 20)], ..Day::default() };
        assert!(day.answers(9_999) && !day.answers(10_000));
        assert!(!day.answers(19_999) && day.answers(20_000));
    }
}
