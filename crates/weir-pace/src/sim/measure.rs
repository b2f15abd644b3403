//! What a run is judged by.
//!
//! All figures are of the **truth at the time of the auction**: an impression counts as spent when it was won, not when
//! a notice said so. A campaign is **binding** if its best multiplier in hindsight is below 1
//! ([`Hindsight::binds`]): it must be paced. Others cannot spend their budgets whatever is done, and tell nothing of
//! pacing.

use super::bound::Hindsight;
use super::day::{Day, DayCampaign, MINUTES, PLAN_ONE};
use super::run::{CampaignRun, Run};

/// A plan aims to have spent the whole budget after this share of its day: [`target`].
const PLAN_END: f64 = 0.995;
/// A campaign has recovered when it is this close to its plan again, as a share of the budget...
const RECOVERED: f64 = 0.01;
/// ...and stays there for so many minutes, or to the end of the day.
const RECOVERED_MINUTES: usize = 60;

/// The figures of one run. Shares are of one: 0.01 is 1 %.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measures {
    /// Of the campaign whose budget was overspent the most, in the books or in truth, whichever is more.
    pub overspend: Overspend,
    /// Truly spent and not in the books in the end, or the reverse, micros over all campaigns. 0 wherever a billing file
    /// comes.
    pub unbooked_micros: i64,
    /// Spent of the budget; mean over binding campaigns.
    pub utilisation: f64,
    /// Mean absolute deviation: |spent - target| as a share of the budget, mean over the minutes of the day and over
    /// binding campaigns.
    pub deviation_mean: f64,
    /// The largest deviation of the day; median over binding campaigns.
    pub deviation_max: f64,
    /// The largest deviation of any binding campaign.
    pub deviation_worst: f64,
    /// Value won by all campaigns, as a share of the bound.
    pub value_of_bound: f64,
    /// Value won by all campaigns, as a share of what the best fixed multipliers in hindsight won.
    pub value_of_fixed: f64,
    /// Value won for each unit spent, all campaigns together.
    pub return_on_spend: f64,
    /// How long after the event of the day the campaigns were back on their plans.
    pub recovery: Recovery,
    /// The day by minutes.
    pub course: Course,
}

/// Back on the plan after an outage or a spike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Recovery {
    /// Nothing happened on this day.
    #[default]
    NoEvent,
    /// Minutes from the end of the event until the deviation, mean over binding campaigns, is at most 1 % and stays so for
    /// an hour or to the end of the day. 0: it never was above.
    Minutes(u32),
    /// Not on this day.
    Never,
}

/// Mean over binding campaigns at the ends of minutes, [`MINUTES`] + 1 points, as shares of the budget.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// Truly spent.
    pub spent: Vec<f64>,
    /// What the plan wanted: [`target`].
    pub planned: Vec<f64>,
    /// Deviation, |spent - planned| of each campaign.
    pub deviation: Vec<f64>,
}

/// What the plan of a campaign wants to have spent after so many minutes, as a share of its budget: min(1, P / 0.995).
pub fn target(campaign: &DayCampaign, minute: usize) -> f64 {
    let share = campaign.plan.get(minute).or(campaign.plan.last()).copied().unwrap_or(PLAN_ONE);
    (share_of(share, PLAN_ONE) / PLAN_END).min(1.0)
}

/// How far a budget was overspent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Overspend {
    /// Millionths of the budget, rounded up.
    pub ppm: u64,
    /// Micros.
    pub micros: i64,
}

impl Measures {
    /// Judges a run. `fixed_value` is the value that the best fixed multipliers won; `event_end_s` the second of the day
    /// at which the event of the scenario is over.
    pub fn of(
        day: &Day,
        run: &Run,
        hindsight: &Hindsight,
        fixed_value: i64,
        event_end_s: Option<u32>,
    ) -> Measures {
        let binding = (0..day.campaigns.len()).filter(|&campaign| hindsight.binds(campaign));
        let tracks: Vec<Track> = binding
            .map(|campaign| Track::of(&day.campaigns[campaign], &run.campaigns[campaign]))
            .collect();
        let course = Course::of(&tracks);
        let mut worst: Vec<f64> = tracks.iter().map(Track::deviation_max).collect();
        worst.sort_by(f64::total_cmp);
        let value = real(run.value());
        Measures {
            overspend: overspend(day, run),
            unbooked_micros: run.campaigns.iter().map(|row| (row.total() - row.booked).abs()).sum(),
            utilisation: mean(tracks.iter().map(Track::utilisation)),
            deviation_mean: mean(tracks.iter().map(Track::deviation_mean)),
            deviation_max: worst.get(worst.len() / 2).copied().unwrap_or(0.0),
            deviation_worst: worst.last().copied().unwrap_or(0.0),
            value_of_bound: ratio(value, hindsight.bound.value),
            value_of_fixed: ratio(value, real(fixed_value)),
            return_on_spend: ratio(value, real(run.spent())),
            recovery: event_end_s.map_or(Recovery::NoEvent, |end| Recovery::of(&course, end)),
            course,
        }
    }
}

impl Measures {
    /// One figure for several days: means, but the worst overspend, unbooked money and recovery.
    pub fn mean(days: &[&Measures]) -> Measures {
        let mean = |of: fn(&Measures) -> f64| mean(days.iter().map(|day| of(day)));
        Measures {
            overspend: days.iter().map(|day| day.overspend).max().unwrap_or_default(),
            unbooked_micros: days.iter().map(|day| day.unbooked_micros).max().unwrap_or(0),
            utilisation: mean(|day| day.utilisation),
            deviation_mean: mean(|day| day.deviation_mean),
            deviation_max: mean(|day| day.deviation_max),
            deviation_worst: mean(|day| day.deviation_worst),
            value_of_bound: mean(|day| day.value_of_bound),
            value_of_fixed: mean(|day| day.value_of_fixed),
            return_on_spend: mean(|day| day.return_on_spend),
            recovery: days.iter().map(|day| day.recovery).max().unwrap_or_default(),
            course: Course::mean(days.iter().map(|day| &day.course)),
        }
    }
}

/// The budget that was overspent the most, in the books or in truth.
fn overspend(day: &Day, run: &Run) -> Overspend {
    let each = day.campaigns.iter().zip(&run.campaigns).map(|(campaign, row)| {
        let micros = (row.total().max(row.booked) - campaign.budget).max(0);
        let ppm = (i128::from(micros) * 1_000_000).checked_div(i128::from(campaign.budget));
        let above = i128::from(micros > 0);
        Overspend { ppm: u64::try_from(ppm.unwrap_or(0) + above).unwrap_or(u64::MAX), micros }
    });
    each.max().unwrap_or_default()
}

/// A binding campaign's day, as shares of its budget.
struct Track {
    spent: Vec<f64>,
    planned: Vec<f64>,
}

impl Track {
    fn of(campaign: &DayCampaign, row: &CampaignRun) -> Track {
        let budget = real(campaign.budget);
        Track {
            spent: row.spent.iter().map(|&spent| ratio(real(spent), budget)).collect(),
            planned: (0..=MINUTES).map(|minute| target(campaign, minute)).collect(),
        }
    }

    fn deviations(&self) -> impl Iterator<Item = f64> {
        self.spent.iter().zip(&self.planned).map(|(spent, planned)| (spent - planned).abs())
    }

    fn deviation_mean(&self) -> f64 {
        mean(self.deviations())
    }

    fn deviation_max(&self) -> f64 {
        self.deviations().fold(0.0, f64::max)
    }

    fn utilisation(&self) -> f64 {
        self.spent.last().copied().unwrap_or(0.0)
    }
}

impl Course {
    fn of(tracks: &[Track]) -> Course {
        let tracks = tracks.iter();
        Course {
            spent: mean_of_lines(tracks.clone().map(|track| track.spent.iter().copied())),
            planned: mean_of_lines(tracks.clone().map(|track| track.planned.iter().copied())),
            deviation: mean_of_lines(tracks.map(Track::deviations)),
        }
    }

    fn mean<'a>(courses: impl Iterator<Item = &'a Course> + Clone) -> Course {
        let line = |of: fn(&Course) -> &Vec<f64>| {
            mean_of_lines(courses.clone().map(|course| of(course).iter().copied()))
        };
        Course {
            spent: line(|course| &course.spent),
            planned: line(|course| &course.planned),
            deviation: line(|course| &course.deviation),
        }
    }
}

/// Point by point; lines have a point for each end of a minute.
fn mean_of_lines(lines: impl Iterator<Item = impl Iterator<Item = f64>>) -> Vec<f64> {
    let (mut sums, mut count) = (vec![0.0; MINUTES + 1], 0.0);
    for line in lines {
        count += 1.0;
        sums.iter_mut().zip(line).for_each(|(sum, point)| *sum += point);
    }
    sums.into_iter().map(|sum| ratio(sum, count)).collect()
}

impl Recovery {
    fn of(course: &Course, end_s: u32) -> Recovery {
        let end = (end_s.div_ceil(60) as usize).min(MINUTES);
        let after = &course.deviation[end..];
        let stays = |from: &usize| {
            let hour = after[*from..].iter().take(RECOVERED_MINUTES);
            hour.copied().all(|deviation| deviation <= RECOVERED)
        };
        let minutes = (0..after.len()).find(stays).and_then(|minutes| u32::try_from(minutes).ok());
        minutes.map_or(Recovery::Never, Recovery::Minutes)
    }
}

fn share_of(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn mean(figures: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut count) = (0.0, 0.0);
    for figure in figures {
        sum += figure;
        count += 1.0;
    }
    ratio(sum, count)
}

/// 0 of nothing.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn real(micros: i64) -> f64 {
    micros as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::bound::Bound;

    /// A campaign of 1000 whose plan is even in time.
    fn campaign() -> DayCampaign {
        let minutes = MINUTES as u64;
        let plan = (0..=minutes).map(|minute| PLAN_ONE / minutes * minute).collect();
        DayCampaign { budget: 1000, plan, ..DayCampaign::default() }
    }

    fn row(spent: impl Fn(usize) -> i64) -> CampaignRun {
        let spent: Vec<i64> = (0..=MINUTES).map(spent).collect();
        CampaignRun { value: 3000, booked: spent[MINUTES], spent }
    }

    fn judge(rows: Vec<CampaignRun>, multipliers: Vec<f64>, event_end_s: Option<u32>) -> Measures {
        let day = Day { campaigns: vec![campaign(); rows.len()], ..Day::default() };
        let bound = Bound { value: 10_000.0, reached: 9_990.0, rates: Vec::new() };
        let run = Run { campaigns: rows, ..Run::default() };
        Measures::of(&day, &run, &Hindsight { bound, multipliers }, 6000, event_end_s)
    }

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-3, "{found} for {expected}");
    }

    /// What the plan of [`campaign`] wants.
    fn planned(minute: usize) -> i64 {
        i64::try_from((minute * 200_000).div_euclid(MINUTES * 199)).unwrap().min(1000)
    }

    #[test]
    fn the_plan_is_over_a_little_before_the_day() {
        let campaign = campaign();
        close(target(&campaign, 0), 0.0);
        close(target(&campaign, 720), 0.5 / 0.995);
        assert_eq!(target(&campaign, 1433), 1.0);
        assert_eq!(target(&campaign, MINUTES), 1.0);
    }

    #[test]
    fn only_binding_campaigns_tell_of_pacing_and_all_of_value() {
        let rows = vec![row(planned), row(|_| 0)];
        let measures = judge(rows, vec![0.5, 1.0], None);
        close(measures.utilisation, 1.0);
        close(measures.deviation_mean, 0.0);
        close(measures.value_of_bound, 0.6);
        close(measures.value_of_fixed, 1.0);
        close(measures.return_on_spend, 6.0);
        assert_eq!(
            (measures.overspend, measures.recovery),
            (Overspend::default(), Recovery::NoEvent)
        );
    }

    #[test]
    fn deviations_are_shares_of_the_budget() {
        let late = row(|minute| planned(minute) - if minute >= 720 { 100 } else { 0 });
        let measures = judge(vec![late, row(planned), row(planned)], vec![0.5; 3], None);
        close(measures.deviation_mean, 0.1 * 721.0 / 1441.0 / 3.0);
        close(measures.deviation_worst, 0.1);
        close(measures.deviation_max, 0.0);
        close(measures.utilisation, 0.9 / 3.0 + 2.0 / 3.0);
        close(measures.course.deviation[800], 0.1 / 3.0);
    }

    #[test]
    fn one_micro_above_a_budget_is_seen_in_the_books_and_in_truth() {
        let over = |spent: i64, booked| CampaignRun { booked, ..row(|_| spent) };
        let in_books = judge(vec![over(1000, 1001)], vec![1.0], None);
        assert_eq!(in_books.overspend, Overspend { ppm: 1001, micros: 1 });
        assert_eq!(in_books.unbooked_micros, 1);
        let in_truth = judge(vec![over(1001, 990)], vec![1.0], None);
        assert_eq!((in_truth.overspend.micros, in_truth.unbooked_micros), (1, 11));
    }

    #[test]
    fn recovery_is_when_the_plan_is_kept_for_an_hour() {
        let event_end_s = Some(600 * 60);
        let behind = |from: usize, to: usize| {
            let row =
                row(|minute| planned(minute) - if (from..to).contains(&minute) { 20 } else { 0 });
            judge(vec![row], vec![0.5], event_end_s).recovery
        };
        assert_eq!(behind(580, 613), Recovery::Minutes(13));
        assert_eq!(behind(580, 600), Recovery::Minutes(0));
        assert_eq!(behind(640, 650), Recovery::Minutes(50), "within the hour it was off again");
        assert_eq!(behind(700, 710), Recovery::Minutes(0), "that is another story");
        assert_eq!(behind(600, MINUTES + 1), Recovery::Never);
    }

    #[test]
    fn of_several_days_the_worst_overspend_and_recovery_count() {
        let day = |micros, recovery, utilisation| Measures {
            overspend: Overspend { ppm: 1, micros },
            recovery,
            utilisation,
            ..Measures::default()
        };
        let days = [day(0, Recovery::Minutes(9), 1.0), day(7, Recovery::Minutes(3), 0.5)];
        let mean = Measures::mean(&[&days[0], &days[1]]);
        assert_eq!((mean.overspend.micros, mean.recovery), (7, Recovery::Minutes(9)));
        close(mean.utilisation, 0.75);
        assert!(Recovery::Never > Recovery::Minutes(u32::MAX));
    }
}
