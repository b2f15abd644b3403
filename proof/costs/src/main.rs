//! Prints the tables. `costs smoke` does the same work in small.

use std::process::ExitCode;

use costs::Size;

#[allow(clippy::print_stdout)] // a program whose output this is
fn main() -> ExitCode {
    let size = match std::env::args().nth(1).as_deref() {
        None => Size::FULL,
        Some("smoke") => Size::SMOKE,
        Some(other) => {
            eprintln!("costs: unknown argument {other}; use no argument, or smoke");
            return ExitCode::from(2);
        }
    };
    match costs::tables(size) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("costs: {error}");
            ExitCode::FAILURE
        }
    }
}
