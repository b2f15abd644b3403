//! Benchmarks of whole parts of Weir beside the products and libraries they replace, as Markdown tables. Ways to do one small
//! thing are compared by `proof/costs`.
//!
//! `peers [NAME...] [--smoke]` with the names of [`BENCHMARKS`]; without a name, all of them. `--smoke` runs
//! tiny sizes once: it shows that they work, the figures mean nothing.
#![allow(
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    unreachable_pub,
    reason = "a program that prints figures: its amounts are made up, nothing is used from outside"
)]

mod bare;
mod daemon;
mod figures;
mod fix;
mod floor;
mod node;
mod openrtb;
mod pacing;
mod postgres;
mod redis;
mod settling;
mod spend;
mod spend_redis;
mod threads;
mod web;
mod weir_peer;

use std::process::ExitCode;

/// How much a benchmark does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Sizes and rounds for figures that are to be believed.
    Full,
    /// As small as it gets: every line of code once.
    Smoke,
}

impl Size {
    /// Picks one of two values.
    #[must_use]
    pub fn pick<T>(self, full: T, smoke: T) -> T {
        match self {
            Size::Full => full,
            Size::Smoke => smoke,
        }
    }
}

/// A benchmark: its name on the command line and what it runs.
type Benchmark = (&'static str, fn(Size));

const BENCHMARKS: &[Benchmark] = &[
    ("pacing", pacing::run),
    ("node", node::run),
    ("spend", spend::run),
    ("openrtb", openrtb::run),
    ("fix", fix::run),
    ("redis", redis::run),
    ("postgres", postgres::run),
    ("settles", settling::run),
];

fn main() -> ExitCode {
    let (flags, names): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with('-'));
    let unknown = |name: &&String| !BENCHMARKS.iter().any(|(known, _)| known == name);
    let wrong = flags.iter().find(|flag| *flag != "--smoke").or(names.iter().find(unknown));
    if let Some(wrong) = wrong {
        let all: Vec<&str> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "peers: no benchmark or flag {wrong:?}; there are {} and --smoke",
            all.join(", ")
        );
        return ExitCode::from(2);
    }
    let size = if flags.is_empty() { Size::Full } else { Size::Smoke };
    for (name, run) in BENCHMARKS {
        if names.is_empty() || names.iter().any(|wanted| wanted == name) {
            println!("\n## {name}");
            run(size);
        }
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every benchmark runs, on sizes that take no time.
    #[test]
    fn every_benchmark_runs() {
        for (_, run) in BENCHMARKS {
            run(Size::Smoke);
        }
    }
}
