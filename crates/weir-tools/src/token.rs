//! `weir token new`: makes an access token and its line for a token file.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use access::{AccessToken, Principal, Role, Scopes, file, found_scope};
use clap::{Parser, Subcommand};
use door_keys::KeyScopes;

/// Bytes of a token on standard input; more is not a token.
const INPUT_BYTES_MAX: u64 = 4 << 10;
/// Permissions of a file with a token.
const MODE: u32 = 0o600;

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
        after_help = "Examples:\n  weir token new --name shop --role spend --scope budget:1001,budget:2* --append tokens --out shop.token\n  weir token new --name ann --role operate\n  weir token new --name crm --role keys --scope 'transit/encrypt/crm-*,transit/decrypt/crm-*'\n\nWith --append, standard output is the token alone. Without it, standard output is the line for the file, and the token\nis shown once on standard error. With --out, the token goes into a file of its own that only its owner can read."
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
    /// The budgets that a spender may name: budget:ID, budget:DIGITS* for all ids that begin with these digits, handle:HANDLE, handle:BEGINNING* for all handles that begin so, or budget:*. Of the role keys, what may be done with which keys: transit/VERB/NAME or transit/VERB/NAME*. Commas stand between scopes, or the option is given again. The default is all budgets, or all keys
    #[arg(long, value_name = "SCOPE,...")]
    scope: Vec<String>,
    /// Read a token from standard input instead of making one, and make the line with its digest
    #[arg(long)]
    hash: bool,
    /// Append the line to this token file, which is created if missing; other lines, owner and permissions stay
    #[arg(long, value_name = "FILE")]
    append: Option<PathBuf>,
    /// Write the token into this new file, which only its owner can read (mode 600), in place of showing it
    #[arg(long, value_name = "FILE", conflicts_with = "hash")]
    out: Option<PathBuf>,
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
    let scopes = scopes(new.role, &new.scope.join(","))?;
    let principal = Principal::new(&new.name, new.role, token.digest(), scopes)
        .map_err(|fault| fault.to_string())?;
    if let Some(path) = &new.append {
        file::check_append(path, &principal).map_err(|error| error.to_string())?;
    }
    // The token first: a line whose token nobody has seen would be a lock without a key.
    match &new.out {
        Some(path) => keep(path, token.text())?,
        None if new.append.is_some() && !new.hash => say(out, token.text())?,
        None => {}
    }
    let name = principal.name();
    match &new.append {
        Some(path) => {
            let is_new = !path.exists();
            if let Err(error) = file::append(path, &principal) {
                new.out.iter().for_each(|token| _ = std::fs::remove_file(token));
                return Err(error.to_string());
            }
            say(
                aside,
                &format!(
                    "{}: {name} may enter once the node has read it: {}",
                    path.display(),
                    read_by(is_new)
                ),
            )?;
        }
        None => say(out, &principal.to_string())?,
    }
    match &new.out {
        Some(path) => say(aside, &format!("the token of {name} is in {}", path.display())),
        None if new.append.is_some() || new.hash => Ok(()),
        None => say(aside, &format!("the token of {name}, shown this once: {}", token.text())),
    }
}

/// What makes a node read a line of a file.
fn read_by(is_new: bool) -> &'static str {
    match is_new {
        true => {
            "the file is new; name it as the tokens_file of the door's section, and restart the node (weir reload takes no file where there was none)"
        }
        false => {
            "weir reload makes it do so at once, if it was started with this file; where tokens_file is set anew it needs a restart"
        }
    }
}

fn say(to: &mut dyn Write, line: &str) -> Result<(), String> {
    let said = writeln!(to, "{line}").and_then(|()| to.flush());
    said.map_err(|error| format!("the output cannot be written: {error}"))
}

/// Writes a token into a file that is not there yet.
fn keep(path: &Path, token: &str) -> Result<(), String> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(MODE).open(path);
    let written = opened.and_then(|mut file| {
        let written = writeln!(file, "{token}").and_then(|()| file.sync_all());
        written.inspect_err(|_| _ = std::fs::remove_file(path))
    });
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => format!(
            "--out {}: the file is there already, and may hold a token that somebody uses; name another one",
            path.display()
        ),
        _ => format!("--out {}: {error}", path.display()),
    })
}

/// What a node would refuse at its start is refused here.
fn scopes(role: Role, text: &str) -> Result<Scopes, String> {
    if role == Role::Keys {
        KeyScopes::parse(text)
            .map_err(|error| format!("--scope: {error}{}", found_scope(text, error.place)))?;
    }
    role.scopes(text).map_err(|error| format!("--scope: {error}{}", error.found(text)))
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
        let (token, aside) = run(&words, "").unwrap();
        assert!(aside.contains("the file is new") && aside.contains("restart"), "{aside}");
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
        let (_, aside) = run(&words.replace("ann", "bob"), "").unwrap();
        assert!(aside.contains("weir reload makes it do so at once, if"), "{aside}");
    }

    #[test]
    fn a_token_in_a_file_of_its_own_is_for_its_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let [tokens, own] = ["tokens", "own"].map(|name| folder.path().join(name));
        let words = |name: &str| {
            let [tokens, own] = [&tokens, &own].map(|path| path.display());
            format!("new --name {name} --role spend --append {tokens} --out {own}")
        };
        let (out, aside) = run(&words("shop"), "").unwrap();
        let token = std::fs::read_to_string(&own).unwrap();
        assert!(out.is_empty() && !aside.contains(token.trim()), "{aside}");
        assert_eq!(std::fs::metadata(&own).unwrap().permissions().mode() & 0o777, MODE);
        let before = std::fs::read(&tokens).unwrap();
        assert!(file::read(&tokens).unwrap().file.find(token.trim().as_bytes()).is_some());
        let told = run(&words("other"), "").unwrap_err();
        assert!(told.contains("is there already"), "{told}");
        assert_eq!(std::fs::read_to_string(&own).unwrap(), token);
        assert_eq!(std::fs::read(&tokens).unwrap(), before, "nobody is let in by an unseen token");
        std::fs::remove_file(&own).unwrap();
        assert!(run(&words("shop"), "").unwrap_err().contains("a second shop"));
        assert!(!own.exists(), "no token that lets nobody in");
        let alone = format!("new --name ann --role read --out {}", own.display());
        let (line, _) = run(&alone, "").unwrap();
        let token = std::fs::read_to_string(&own).unwrap();
        assert!(TokenFile::parse(&line).unwrap().find(token.trim().as_bytes()).is_some());
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
        let again =
            "new --name crm --role keys --scope transit/encrypt/crm-* --scope transit/*/one";
        assert!(run(again, "").unwrap().0.trim().ends_with(&format!(" {scope}")), "one or two");
        let words = "new --name crm --role keys --scope transit/sign/one";
        let error = run(words, "").unwrap_err();
        assert!(error.contains("--scope: scope 1: expected transit/VERB/NAME"), "{error}");
        assert!(error.ends_with("; found \"transit/sign/one\""), "{error}");
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
            ("new --name a --role spend --out /nowhere/token", ""),
            ("new --name a --role spend --hash --out token", "0123456789abcdef"),
        ] {
            run(words, input).unwrap_err();
        }
    }
}
