//! The options that every tool beside a node has.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;

use crate::token::VARIABLE;
use crate::{Client, OpenError, Target, TargetError, Token, Trust};

/// Where a node is, who asks, and whom to trust. A token comes from `--token-file` or from the variable `WEIR_TOKEN`.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Access {
    /// The node's admin door (of weir vault: its keys door) as http://HOST:PORT, https://HOST:PORT or HOST:PORT; by default the address in the data folder
    #[arg(long, value_name = "URL", value_parser = TargetParser)]
    pub target: Option<Target>,
    /// A file that holds the bearer token and nothing else; without it the environment variable WEIR_TOKEN is used
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// CA certificates (PEM) to trust instead of the system's, for https://
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// Reads a target. Its error does not repeat what was given, as clap's own would: there may be a password in it.
#[derive(Clone, Copy)]
struct TargetParser;

impl TypedValueParser for TargetParser {
    type Value = Target;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Target, clap::Error> {
        let Some(text) = value.to_str() else {
            return Err(clap::Error::new(ErrorKind::InvalidUtf8).with_cmd(command));
        };
        let wrong =
            |error| clap::Error::raw(ErrorKind::ValueValidation, format!("--target: {error}\n"));
        text.parse().map_err(|error: TargetError| wrong(error).with_cmd(command))
    }
}

/// The same for tools that read nothing else of a data folder.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct Options {
    /// Where a node is, and who asks.
    #[command(flatten)]
    pub access: Access,
    /// The node's data folder
    #[arg(long, value_name = "DIR", default_value = "weir-data")]
    pub data: PathBuf,
}

impl Options {
    /// A client of the node that is meant. What is unwise is said on standard error.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self) -> Result<Client, OpenError> {
        self.access.open(&self.data)
    }
}

impl Access {
    /// A client of the node that is meant, or else of the one that runs on the folder `data`. What is unwise is said on
    /// standard error.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&self, data: &Path) -> Result<Client, OpenError> {
        Ok(told(self.client(data, std::env::var_os(VARIABLE).as_deref())?))
    }

    /// The same of another door, by its name. Who gives no token shows the one in `own_token`, if there is that file. Nothing in an answer
    /// of such a door says which node it is.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_door(
        &self,
        data: &Path,
        door: &str,
        own_token: &Path,
    ) -> Result<Client, OpenError> {
        let target = self.target.clone().map_or_else(|| Target::of_door(data, door), Ok)?;
        let variable = std::env::var_os(VARIABLE);
        let is_own = self.token_file.is_none() && variable.is_none() && own_token.exists();
        let file = if is_own { Some(own_token) } else { self.token_file.as_deref() };
        Ok(told(self.client_of(target, file, variable.as_deref())?))
    }

    fn client(
        &self,
        data: &Path,
        variable: Option<&OsStr>,
    ) -> Result<(Client, Vec<String>), OpenError> {
        let target = self.target.clone().map_or_else(|| Target::of_data(data), Ok)?;
        let (client, warnings) = self.client_of(target, self.token_file.as_deref(), variable)?;
        Ok((if self.target.is_some() { client } else { client.of_data(data) }, warnings))
    }

    fn client_of(
        &self,
        target: Target,
        token_file: Option<&Path>,
        variable: Option<&OsStr>,
    ) -> Result<(Client, Vec<String>), OpenError> {
        let (token, mut warnings) = match token_file {
            Some(file) => {
                // The node's own file is of no option.
                let is_own = self.token_file.is_none();
                let named = |error: OpenError| match is_own {
                    true => error,
                    false => error.of_option("--token-file"),
                };
                let (token, warning) = Token::of_file(file).map_err(named)?;
                (Some(token), warning.into_iter().collect())
            }
            None => (Token::of_environment(variable)?, Vec::new()),
        };
        if token.is_some() && !target.is_tls() && !target.is_loopback() {
            warnings.push(format!(
                "the token travels unencrypted to {}; give https:// if the door has TLS",
                target.address()
            ));
        }
        let trust = match (&self.ca, target.is_tls()) {
            (Some(file), true) => {
                Some(Trust::of_file(file).map_err(|error| error.of_option("--ca"))?)
            }
            (Some(_), false) => return Err(OpenError::CaWithoutTls(target)),
            (None, true) => Some(Trust::system()),
            (None, false) => None,
        };
        Ok((Client::new(target, token, trust), warnings))
    }
}

fn told((client, warnings): (Client, Vec<String>)) -> Client {
    for warning in warnings {
        let _ = writeln!(io::stderr(), "weir: warning: {warning}");
    }
    client
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn parse(words: &[&str]) -> Result<Options, clap::Error> {
        Cli::try_parse_from([&["tool"], words].concat()).map(|cli| cli.options)
    }

    fn open(words: &[&str], variable: Option<&str>) -> Result<(Client, Vec<String>), String> {
        let options = parse(words).unwrap();
        options
            .access
            .client(&options.data, variable.map(OsStr::new))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_wrong_target_is_wrong_usage() {
        let error = parse(&["--target", "nowhere"]).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert!(error.to_string().contains("expected http://HOST:PORT"), "{error}");
        let error = parse(&["--target", "https://ann:secret@node:1"]).unwrap_err();
        assert!(error.exit_code() == 2 && !error.to_string().contains("secret"), "{error}");
        assert_eq!(parse(&[]).unwrap().data, Path::new("weir-data"));
    }

    #[test]
    fn a_token_that_is_sent_in_the_open_is_warned_of() {
        let secret = "0123456789abcdef";
        let (client, warnings) = open(&["--target", "10.0.0.1:1"], Some(secret)).unwrap();
        assert!(!format!("{client:?}").contains(secret));
        assert!(
            warnings[0].contains("unencrypted to 10.0.0.1:1") && !warnings[0].contains(secret),
            "{warnings:?}"
        );
        for (target, variable) in [
            ("127.0.0.1:1", Some(secret)),
            ("10.0.0.1:1", None),
            ("https://10.0.0.1:1", Some(secret)),
        ] {
            assert!(open(&["--target", target], variable).unwrap().1.is_empty(), "{target}");
        }
    }

    #[test]
    fn a_ca_without_tls_is_an_error() {
        let error = open(&["--target", "localhost:1", "--ca", "ca.pem"], None).unwrap_err();
        assert!(error.contains("--ca") && error.contains("https://localhost:1"), "{error}");
    }

    #[test]
    fn the_file_goes_before_the_environment() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "\n").unwrap();
        let words = ["--target", "localhost:1", "--token-file", path.to_str().unwrap()];
        assert!(open(&words, Some("0123456789abcdef")).unwrap_err().contains("no token"));
        assert!(open(&words[..2], Some("")).unwrap_err().starts_with("WEIR_TOKEN: "));
    }
}
