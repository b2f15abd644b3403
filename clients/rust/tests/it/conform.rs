//! Every scenario of `clients/conform/scenarios.json`.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use fake_node::{SCENARIOS, Suite};

use crate::driver;

/// A scripted node in this process.
fn fake_node(suite: &Suite) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, suite) = (listener.local_addr().unwrap(), suite.clone());
    std::thread::spawn(move || fake_node::serve(&listener, &suite));
    address
}

/// `SCENARIO=name` runs those whose names hold it.
#[test]
fn every_scenario_is_passed() {
    let suite: Suite = serde_json::from_str(SCENARIOS).unwrap();
    let control = fake_node(&suite);
    let wanted = std::env::var("SCENARIO").unwrap_or_default();
    let chosen = suite.scenarios.into_iter().filter(|one| one.name.contains(&wanted));
    let chosen = Arc::new(chosen.collect::<Vec<_>>());
    let next = Arc::new(AtomicUsize::new(0));
    // They mostly wait.
    let threads = (0..8).map(|_| {
        let (chosen, next) = (Arc::clone(&chosen), Arc::clone(&next));
        std::thread::spawn(move || {
            let mut failed = Vec::new();
            while let Some(scenario) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                let run = || driver::run(scenario, control);
                let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
                if let Err(why) = run.unwrap_or_else(|_| Err("a panic, above".to_string())) {
                    failed.push(format!("{}: {why}\n    ({})", scenario.name, scenario.about));
                }
            }
            failed
        })
    });
    let threads: Vec<_> = threads.collect();
    let failed: Vec<String> = threads.into_iter().flat_map(|one| one.join().unwrap()).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), chosen.len(), failed.join("\n"));
}
