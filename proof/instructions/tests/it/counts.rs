//! What callgrind counts, and what the gate makes of it. `make test` tries the optimised program; this one is the tests'
//! own, so the plants are large.

use std::path::Path;

use instructions::baseline::Figures;
use instructions::callgrind::{self, Count, CountError, Run};
use instructions::gate::Comparison;
use instructions::workload::Name;

/// `None`, said loudly: without valgrind nothing is counted.
fn count(plant: f64, environment: &[(&str, &str)]) -> Option<Count> {
    if let Err(error) = callgrind::version() {
        eprintln!("SKIPPED, NOTHING WAS COUNTED: {error}");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = Run {
        program: Path::new(env!("CARGO_BIN_EXE_instructions")).to_owned(),
        workload: Name::Codec,
        ops: 320,
        plant,
        environment: environment.iter().map(|(key, value)| (key.into(), value.into())).collect(),
    };
    Some(callgrind::count(&run, folder.path()).unwrap())
}

fn compare(before: &Count, now: &Count) -> Comparison {
    let named = |count| ("codec".to_string(), Figures::of(Name::Codec, count));
    Comparison::of(&[named(before)].into(), &[named(now)].into())
}

#[test]
fn the_same_program_counts_the_same_and_a_plant_trips_by_name() {
    let (Some(first), Some(again)) = (count(0.0, &[]), count(0.0, &[("PADDING", "xxxxxxxxxxxxx")]))
    else {
        return;
    };
    assert_eq!(first, again, "to the instruction");
    assert!(first.ops == 320 && first.instructions() > 100.0);
    assert!(!compare(&first, &again).trips());
    let planted = count(first.instructions() / 10.0, &[]).unwrap();
    let table = compare(&first, &planted);
    println!("{table}");
    assert!(
        table.trips() && table.to_string().contains("instructions::workload::planted"),
        "{table}"
    );
    assert!(!compare(&planted, &first).trips(), "cheaper is no reason to stop");
}

#[test]
fn a_program_that_is_none_of_ours_is_told_apart() {
    if callgrind::version().is_err() {
        eprintln!("SKIPPED, NOTHING WAS COUNTED: there is no valgrind");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &str| Run {
        program: program.into(),
        workload: Name::Codec,
        ops: 1,
        plant: 0.0,
        environment: Vec::new(),
    };
    let error = callgrind::count(&run("/bin/echo"), folder.path()).unwrap_err();
    assert!(matches!(error, CountError::NoOperations { .. }), "{error}");
    let error = callgrind::count(&run("/bin/false"), folder.path()).unwrap_err();
    assert!(matches!(error, CountError::Failed { .. }), "{error}");
}
