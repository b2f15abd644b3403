//! What a command line that was not understood most likely meant.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error of a command line, with a tip where a file stands alone: files are values of flags.
#[must_use]
pub fn explained(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
        && let Some(flag) = flag_of(argument)
    {
        let tip = format!("a file is given with its flag: {flag} {argument}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The flag that a file with this name is given with, if it is one of a node's.
fn flag_of(argument: &str) -> Option<&'static str> {
    let (_, ending) = argument.rsplit_once('.')?;
    match ending {
        "jsonl" | "ndjson" | "csv" => Some("--budgets"),
        "toml" => Some("--config"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::{Arg, Command};

    use super::*;

    fn told(argument: &str) -> String {
        let command = Command::new("run").arg(Arg::new("budgets").long("budgets"));
        explained(command.try_get_matches_from(["run", argument]).unwrap_err()).to_string()
    }

    #[test]
    fn a_file_without_its_flag_is_told_the_flag() {
        for (argument, flag) in [
            ("budgets.jsonl", "--budgets budgets.jsonl"),
            ("a.b/c.csv", "--budgets a.b/c.csv"),
            ("weir.toml", "--config weir.toml"),
        ] {
            let told = told(argument);
            assert!(told.contains(&format!("a file is given with its flag: {flag}")), "{told}");
        }
        for argument in ["budgets", "--budget", "x.txt"] {
            assert!(!told(argument).contains("a file is given"), "{argument}");
        }
    }
}
