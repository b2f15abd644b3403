//! What a command line that was not understood most likely meant.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The error of a command line, with a tip where a file stands alone and the command has a flag for it: files are values of flags.
#[must_use]
pub fn explained(
    mut error: clap::Error,
    program: &Command,
    words: impl IntoIterator<Item = String>,
) -> clap::Error {
    let mut command = program;
    for word in words {
        command = command.find_subcommand(word).unwrap_or(command);
    }
    let has = |flag: &str| command.get_arguments().any(|one| one.get_long() == Some(&flag[2..]));
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg)
        && let Some(flag) = flag_of(argument).filter(|flag| has(flag))
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
    use clap::Arg;

    use super::*;

    fn told(argument: &str) -> String {
        let flags = ["budgets", "config"].map(|flag| Arg::new(flag).long(flag));
        let program = Command::new("weir")
            .subcommand(Command::new("run").args(flags))
            .subcommand(Command::new("dev"));
        let told = |name: &str| {
            let words = ["weir", name, argument].map(String::from);
            let error = program.clone().try_get_matches_from(words.clone()).unwrap_err();
            explained(error, &program, words).to_string()
        };
        assert!(!told("dev").contains("a file is given"), "it has none of the flags");
        told("run")
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
