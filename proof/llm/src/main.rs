//! The end of a budget of a language model gateway: 64 streams at once, `kill -9` of the caller and of the store in the middle, and
//! how much more than the budget was spent. What is spent is what a provider charges, which this program keeps itself.
//!
//! `llm --weir PATH [--only NAME] [--seed N]` prints a table. It starts itself again as the caller that it kills.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it prints a table")]

mod caller;
mod http;
mod provider;
mod redis;
mod scene;
mod store;

use std::process::ExitCode;

use scene::{Scene, Seen, Way};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("caller") => caller::run(&words[1..]),
        _ => compare(&words),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("llm: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(words: &[String]) -> Result<(), String> {
    let option = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).cloned()
    };
    let weir = option("--weir").ok_or("say where the binary is: --weir target/release/weir")?;
    let seed =
        option("--seed").map_or(Ok(1), |text| text.parse()).map_err(|_| "--seed takes a number")?;
    let only = option("--only");
    println!(
        "budget {} nanos, {} streams, seed {seed}; caller killed at 40 %, store at 70 % of the budget\n",
        scene::BUDGET,
        caller::STREAMS
    );
    println!("| what counts | overspent, nanos | of the budget | left unspent | calls |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for way in
        Way::ALL.into_iter().filter(|way| only.as_deref().is_none_or(|only| only == way.name()))
    {
        let seen = Scene::new(way, &weir, seed)?.play()?;
        let over = seen.charged.saturating_sub(scene::BUDGET);
        let left = scene::BUDGET.saturating_sub(seen.charged);
        let Seen { calls, .. } = seen;
        println!("| {} | {over} | {} | {} | {calls} |", way.about(), percent(over), percent(left));
    }
    Ok(())
}

/// A part of the budget, to a tenth of a percent.
fn percent(nanos: u64) -> String {
    let permille = nanos * 1_000 / scene::BUDGET;
    format!("{}.{} %", permille / 10, permille % 10)
}
