//! The hammer without the rest of the program: `cargo run --release -p hammer --example hammer -- --target HOST:PORT`.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: hammer::Args,
}

fn main() -> ExitCode {
    let args = Cli::parse().args;
    match hammer::main(&args, &AtomicBool::new(false), &mut std::io::stdout().lock()) {
        Ok(code) => ExitCode::from(code),
        Err(_) => ExitCode::FAILURE,
    }
}
