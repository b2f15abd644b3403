//! `weir token new`: makes an access token and its line for a token file.

use std::io::{Read, Write};
use std::path::PathBuf;

use access::{AccessToken, Principal, Role, Scopes, file};
use clap::{Parser, Subcommand};
use door_keys::KeyScopes;

/// Bytes of a token on standard input; more is not a token.
const INPUT_BYTES_MAX: u64 = 4 << 10;

/// The command and its arguments.
#[derive(Debug, Parser)]
pub struct TokenArgs {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token and its line for a token file. The file gets the SHA-256 of the token only.
    #[command(
        after_help = "Examples:\n  weir token new --name shop --role spend --scope budget:1001,budget:2* --append tokens > shop.token\n  weir token new --name ann --role operate\n  weir token new --name crm --role keys --scope 'transit/encrypt/crm-*,transit/decrypt/crm-*'\n\nWith --append, standard output is the token alone. Without it, standard output is the line for the file, and the token\nis shown once on standard error."
    )]
    New(New),
}

#[derive(Debug, clap::Args)]
struct New {
    /// Name of the person or program that uses the token: 1 to 64 of A-Za-z0-9._-
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Role: read or operate (admin door), spend (batch and spend doors; read may look there), keys (keys door)
    #[arg(long, value_parser = role)]
    role: Role,
    /// The budgets that a spender may name: budget:ID, budget:DIGITS* for all ids that begin with these digits, handle:HANDLE, handle:BEGINNING* for all handles that begin so, or budget:*. Of the role keys, what may be done with which keys: transit/VERB/NAME or transit/VERB/NAME*. The default is all budgets, or all keys
    #[arg(long, value_name = "SCOPE,...", default_value = "", hide_default_value = true)]
    scope: String,
    /// Read a token from standard input instead of making one, and make the line with its digest
    #[arg(long)]
    hash: bool,
    /// Append the line to this token file, which is created if missing; other lines, owner and permissions stay
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
}

fn role(name: &str) -> Result<Role, String> {
    Role::parse(name).ok_or_else(|| "expected read, operate, spend or keys".into())
}

/// Runs the command. `out` gets the token where a file was changed, and else the line; `aside` what is not for a pipe.
///
/// # Errors
/// What is wrong with the arguments, the input or the file, or that an output cannot be written.
pub fn main(
    args: &TokenArgs,
    input: &mut dyn Read,
    out: &mut dyn Write,
    aside: &mut dyn Write,
) -> Result<(), String> {
    let TokenCommand::New(new) = &args.command;
    let token = if new.hash { read_token(input)? } else { made()? };
    let scopes = scopes(new.role, &new.scope)?;
    let principal = Principal::new(&new.name, new.role, token.digest(), scopes)
        .map_err(|fault| fault.to_string())?;
    let failed = |error: std::io::Error| format!("the output cannot be written: {error}");
    let (text, name) = (token.text(), principal.name());
    match &new.append {
        // The token first: a line whose token nobody has seen would be a lock without a key.
        Some(path) => {
            file::check_append(path, &principal).map_err(|error| error.to_string())?;
            if !new.hash {
                writeln!(out, "{text}").and_then(|()| out.flush()).map_err(failed)?;
            }
            file::append(path, &principal).map_err(|error| error.to_string())?;
            writeln!(aside, "{}: {name} may enter once the node has read it", path.display())
        }
        None => writeln!(out, "{principal}").and_then(|()| out.flush()).and_then(|()| {
            if new.hash {
                return Ok(());
            }
            writeln!(aside, "the token of {name}, shown this once: {text}")
        }),
    }
    .map_err(failed)
}

/// What a node would refuse at its start is refused here.
fn scopes(role: Role, text: &str) -> Result<Scopes, String> {
    let wrong = |error: String| format!("--scope: {error}");
    if role == Role::Keys {
        KeyScopes::parse(text).map_err(|error| wrong(error.to_string()))?;
    }
    role.scopes(text).map_err(|error| wrong(error.to_string()))
}

fn made() -> Result<AccessToken, String> {
    AccessToken::random().map_err(|error| format!("the system gives no randomness: {error}"))
}

fn read_token(input: &mut dyn Read) -> Result<AccessToken, String> {
    let mut text = String::new();
    let read = input.take(INPUT_BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| format!("standard input: {error}"))?;
    let token = AccessToken::parse(text.trim());
    token.ok_or_else(|| "standard input: expected a token, 16 to 256 of A-Za-z0-9_-".into())
}

#[cfg(test)]
mod tests {
    use access::TokenFile;

    use super::*;

    /// What a command prints on standard output and beside it, or its error.
    fn run(words: &str, input: &str) -> Result<(String, String), String> {
        let args = TokenArgs::try_parse_from(["token"].into_iter().chain(words.split(' ')));
        let (mut out, mut aside) = (Vec::new(), Vec::new());
        let args = args.map_err(|error| error.to_string())?;
        main(&args, &mut input.as_bytes(), &mut out, &mut aside)?;
        Ok((String::from_utf8(out).unwrap(), String::from_utf8(aside).unwrap()))
    }

    #[test]
    fn the_line_and_the_token_go_different_ways() {
        let words = "new --name shop --role spend --scope budget:7,budget:1*";
        let (line, aside) = run(words, "").unwrap();
        let token = aside.trim().rsplit(' ').next().unwrap();
        assert!(token.starts_with("weir_") && !line.contains(token), "{line}");
        let file = TokenFile::parse(&line).unwrap();
        let shop = file.find(token.as_bytes()).unwrap();
        assert_eq!((&**shop.name(), shop.role()), ("shop", Role::Spend));
        assert_eq!(shop.scopes().to_string(), "budget:7,budget:1*");
        assert!(!file.has_plain_token());
    }

    #[test]
    fn an_appended_token_lets_in_and_a_second_one_of_the_name_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        let words = format!("new --name ann --role operate --append {}", path.display());
        let (token, _) = run(&words, "").unwrap();
        let found = file::read(&path).unwrap();
        assert_eq!(found.file.find(token.trim().as_bytes()).unwrap().role(), Role::Operate);
        let before = std::fs::read(&path).unwrap();
        let args =
            TokenArgs::try_parse_from(["token"].into_iter().chain(words.split(' '))).unwrap();
        let (mut out, mut aside) = (Vec::new(), Vec::new());
        let told = main(&args, &mut &b""[..], &mut out, &mut aside).unwrap_err();
        assert!(told.contains("a second ann; nothing was written"), "{told}");
        assert_eq!(std::fs::read(&path).unwrap(), before);
        assert!(out.is_empty() && aside.is_empty(), "no token is shown that lets nobody in");
    }

    #[test]
    fn a_token_that_is_there_gets_the_line_of_its_digest() {
        let (line, aside) = run("new --name old --role read --hash", "0123456789abcdef\n").unwrap();
        assert!(aside.is_empty() && !line.contains("0123456789abcdef"));
        let file = TokenFile::parse(&line).unwrap();
        assert!(file.find(b"0123456789abcdef").is_some());
    }

    #[test]
    fn a_token_for_keys_has_scopes_that_the_keys_door_reads() {
        let scope = "transit/encrypt/crm-*,transit/*/one";
        let (line, _) = run(&format!("new --name crm --role keys --scope {scope}"), "").unwrap();
        assert!(line.starts_with("crm keys sha256:") && line.trim().ends_with(scope), "{line}");
        assert!(TokenFile::parse(&line).unwrap().has_role(&[Role::Keys]));
        let words = "new --name crm --role keys --scope transit/sign/one";
        let error = run(words, "").unwrap_err();
        assert!(error.contains("--scope: scope 1: expected transit/VERB/NAME"), "{error}");
    }

    #[test]
    fn what_no_file_could_have_is_refused() {
        for (words, input) in [
            ("new --name a!b --role read", ""),
            ("new --name a --role owner", ""),
            ("new --name a", ""),
            ("new --role read", ""),
            ("new --name a --role operate --scope budget:1", ""),
            ("new --name a --role spend --scope 1001", ""),
            ("new --name a --role keys --scope budget:1", ""),
            ("new --name a --role spend --scope transit/*/*", ""),
            ("new --name a --role spend --hash", "short"),
            ("new --name a --role spend --hash", "two words, not a token"),
            ("new --name a --role spend --append /nowhere/tokens", ""),
        ] {
            run(words, input).unwrap_err();
        }
    }
}
