//! What can go wrong: before there is a client, and with a request. Each is one sentence that says what to do.

use std::path::PathBuf;
use std::time::Duration;

use crate::Target;

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nobody said where the node is.
    #[error("{}: {text}; is a node running on this data folder? Give --data or --target", path.display())]
    NoAddress {
        /// The file that should say it.
        path: PathBuf,
        /// The fault in it.
        text: String,
    },
    /// The token cannot be used.
    #[error("{place}: {what}")]
    Token {
        /// The file or the variable that holds it.
        place: String,
        /// What is wrong with it, and what was expected.
        what: &'static str,
    },
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file that an option names cannot be read.
    #[error("{option} {}: {source}", path.display())]
    OptionFile {
        /// The option.
        option: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A file of CA certificates cannot be used.
    #[error("{}: {text}; expected certificates in PEM", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        text: String,
    },
    /// A CA for a door that is not asked over TLS.
    #[error("--ca has no meaning for {0}, which is not asked over TLS; give --target https://{address}", address = .0.address())]
    CaWithoutTls(Target),
}

impl OpenError {
    /// Names the option that a file which cannot be read was given with.
    pub(crate) fn of_option(self, option: &'static str) -> OpenError {
        match self {
            OpenError::File { path, source } => OpenError::OptionFile { option, path, source },
            other => other,
        }
    }
}

/// Why there is no answer. The token is in none of them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// No connection.
    #[error("node at {address}: {text}; is it running?")]
    Unreachable {
        /// Where it should be.
        address: String,
        /// The error of the operating system.
        text: String,
    },
    /// Who answers is not the node of the data folder.
    #[error(
        "the node at {address} does not run on {}: it is another node, or another run; the node of {} is not running. \
         Start it, or give --target {address} if the other one is meant",
        data.display(), data.display()
    )]
    OtherNode {
        /// Where it answers.
        address: String,
        /// The data folder.
        data: PathBuf,
    },
    /// The answer was not complete in time.
    #[error(
        "node at {address}: no whole answer to {path} within {} ms; it hangs or is overloaded, or this is not its admin \
         door: try again, and look at the node's log",
        wait.as_millis()
    )]
    Slow {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// How long it had.
        wait: Duration,
    },
    /// The connection ended in the middle.
    #[error(
        "node at {address}: the connection ended before the answer to {path} did ({text}); was the node stopped, or is this another door, such as \
         the batch door? Try again"
    )]
    Broken {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// What happened.
        text: String,
    },
    /// A door with TLS was asked without.
    #[error("{address} speaks TLS; give --target https://{address}")]
    SpeaksTls {
        /// Where that is.
        address: String,
    },
    /// A door without TLS was asked with.
    #[error(
        "{address} does not speak TLS; give --target http://{address}, or set admin.tls_cert and admin.tls_key at the node"
    )]
    SpeaksNoTls {
        /// Where that is.
        address: String,
    },
    /// The certificate is signed by nobody who is trusted.
    #[error(
        "{address}: its certificate is signed by a CA that is not trusted here; give --ca FILE with the CA's certificate \
         (PEM), or add the CA to the system's store"
    )]
    UnknownCa {
        /// Where that is.
        address: String,
    },
    /// The certificate is signed by another CA than those of the file that was given.
    #[error(
        "{address}: its certificate is not signed by a CA in {}; give the certificate of the CA that signed it (PEM) as --ca, \
         or leave --ca out if the system's store has it",
        ca.display()
    )]
    OtherCa {
        /// Where that is.
        address: String,
        /// The file that was given.
        ca: PathBuf,
    },
    /// The certificate is for another host.
    #[error(
        "{address}: its certificate is not for {host}{names}; give --target https://NAME:PORT with a name in it"
    )]
    WrongName {
        /// Where that is.
        address: String,
        /// The name that was asked for.
        host: String,
        /// The names in the certificate, as `, but for ...`; empty where they are not known.
        names: String,
    },
    /// The certificate is not valid now.
    #[error(
        "{address}: its certificate {text}; renew it (admin.tls_cert at the node), or set this machine's clock"
    )]
    Expired {
        /// Where that is.
        address: String,
        /// Since when, or until when.
        text: String,
    },
    /// The two do not agree on a connection.
    #[error("{address}: no TLS connection: {text}; is this the admin door of a node?")]
    Tls {
        /// Where that is.
        address: String,
        /// The fault, as text.
        text: String,
    },
    /// The answer is not HTTP.
    #[error("{address}: {text}; is this the admin door of a node?")]
    NotHttp {
        /// Where that is.
        address: String,
        /// The fault, as text.
        text: String,
    },
    /// The answer is too long.
    #[error(
        "{address}: an answer to {path} of more than {bytes_max} bytes; is this the admin door of a node?"
    )]
    TooLong {
        /// Where that is.
        address: String,
        /// What was asked for.
        path: String,
        /// What is taken at most, in bytes.
        bytes_max: u64,
    },
    /// The answer names another place.
    #[error(
        "{address} answers {path} with a redirect to {to:?}, which is not followed; give the node's own address as --target"
    )]
    Redirect {
        /// Where that is.
        address: String,
        /// What was asked for.
        path: String,
        /// The other place.
        to: String,
    },
    /// The token is none of the node's.
    #[error(
        "node at {address} does not know the token in {place} and wants a token that it knows: its admin.tokens_file has the \
         lines `name role token`"
    )]
    UnknownToken {
        /// Where it is.
        address: String,
        /// The file or the variable that the token came from.
        place: String,
    },
    /// No token.
    #[error(
        "node at {address} wants a token that it knows: give --token-file FILE or set WEIR_TOKEN; its admin.tokens_file \
         has the lines `name role token`"
    )]
    Unauthorised {
        /// Where it is.
        address: String,
    },
    /// The token may not.
    #[error(
        "node at {address}: this token may not call {path}: {text}; reading needs the role read or operate, a change needs operate"
    )]
    Forbidden {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// Its words.
        text: String,
    },
    /// No such thing, in the node's own words.
    #[error("{text} at {address}")]
    Unknown {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// Its words.
        text: String,
    },
    /// Something that speaks HTTP has no such path, and no words for it as an admin door has.
    #[error(
        "{address} has no {path}: it is not the admin door; is it another door of the node? `weir run` prints the address of the admin \
         door as `admin`"
    )]
    NotAdmin {
        /// Where that is.
        address: String,
        /// What was asked for.
        path: String,
    },
    /// It understood, and does not answer.
    #[error("node at {address} answers {path} with {status}: {text}")]
    Refused {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// The status code.
        status: u16,
        /// Its words.
        text: String,
    },
    /// An answer of another form.
    #[error(
        "node at {address}: the answer to {path} has another form than this weir ({}) expects: {text}; use the weir of the \
         node's release",
        env!("CARGO_PKG_VERSION")
    )]
    OtherForm {
        /// Where it is.
        address: String,
        /// What was asked for.
        path: String,
        /// What does not fit.
        text: String,
    },
}
