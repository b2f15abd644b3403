//! The real strategies and the real ledger on small days of traffic.

use gate_pacing::Strategy;
use weir_pace::sim::day::{Auction, Day, Notices};
use weir_pace::sim::make::{Size, make};
use weir_pace::sim::run::{Run, run};
use weir_pace::sim::run_cells::{Case, Entrants, FIXED, Source, run_all};
use weir_pace::sim::run_engine::{Settings, engine};
use weir_pace::sim::scenario::{BASE, Scenario};

const SIZE: Size = Size { requests: 20_000, campaigns: 6 };

fn settings(workers: u16) -> Settings {
    Settings { gain: 64, workers, tolerance_ppm: 0, release: false, by_value: false }
}

fn run_day(day: &Day, strategy: Strategy, notices: &Notices, workers: u16) -> Run {
    let mut engine = engine(day, strategy, notices, &settings(workers)).unwrap();
    let run = run(day, Auction::Second, notices, workers, &mut engine);
    engine.audit().unwrap();
    run
}

#[test]
fn no_budget_is_overspent_and_every_impression_is_booked() {
    let silent = Notices { losses: false, lost_ppm: 300_000, ..Notices::default() };
    for name in ["base", "restarts", "late", "repeated", "tiny"] {
        let scenario = Scenario::find(name).unwrap();
        let day = make(5, &SIZE, scenario, Auction::Second);
        for strategy in Strategy::ALL {
            let run = run_day(&day, strategy, &scenario.notices(silent), 2);
            for (campaign, row) in day.campaigns.iter().zip(&run.campaigns) {
                let spent = row.total();
                assert!(
                    spent <= campaign.budget,
                    "{name} {strategy}: {spent} of {}",
                    campaign.budget
                );
                assert_eq!(row.booked, spent, "{name} {strategy}: campaign {}", campaign.id);
            }
            assert!(run.wins > 0, "{name} {strategy}: nothing was won");
        }
    }
}

#[test]
fn answers_do_not_depend_on_how_many_workers_share_the_requests() {
    let day = make(6, &SIZE, &BASE, Auction::Second);
    for strategy in Strategy::ALL {
        let one = run_day(&day, strategy, &Notices::default(), 1);
        let four = run_day(&day, strategy, &Notices::default(), 4);
        assert_eq!(one, four, "{strategy}");
    }
}

#[test]
fn a_restart_changes_no_answer_of_a_pure_strategy() {
    let day = make(7, &SIZE, &BASE, Auction::Second);
    let mut killed = day.clone();
    killed.restarts = vec![20_000, 40_000, 60_000];
    let run = |day| run_day(day, Strategy::Curve, &Notices::default(), 1);
    assert_eq!(run(&day), run(&killed));
}

#[test]
fn cells_come_in_order_whatever_the_threads_do() {
    let case = |seed| Case {
        source: Source::Made { scenario: &BASE, seed, size: SIZE },
        auction: Auction::First,
    };
    let entrants = Entrants {
        strategies: vec![Strategy::Asap, Strategy::Curve],
        fixed: true,
        settings: settings(2),
        notices: Notices::default(),
    };
    let cases: Vec<_> = (1..=3).map(case).collect();
    let cells = |threads| run_all(&cases, &entrants, threads, &|| {}).unwrap();
    let (one, three) = (cells(1), cells(3));
    let names: Vec<_> = one.iter().map(|cell| (cell.seed, cell.strategy)).collect();
    assert_eq!(
        names[..4],
        [(Some(1), FIXED), (Some(1), "asap"), (Some(1), "curve"), (Some(2), FIXED)]
    );
    assert_eq!(format!("{one:?}"), format!("{three:?}"));
}
