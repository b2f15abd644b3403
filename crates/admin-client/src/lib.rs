//! One client of a node's admin door for all command-line tools: where the node is, who asks, whom to trust, and what to
//! do when there is no answer.
//!
//! [`Access`] is the one definition of the options `--target`, `--token-file` and `--ca`; [`Options`] adds `--data`. They
//! open a [`Client`], whose every request is bounded: the time of the whole exchange, the head, the body. Each request
//! has a connection of its own, follows no redirect and takes no proxy from the environment, so that the token reaches
//! the host that was named and no other.
//!
//! **Trust.** Without `--ca`, the certificates that the system trusts count (its store, or what `SSL_CERT_FILE` and
//! `SSL_CERT_DIR` name): an admin door is an internal service, whose CA an organisation installs there. With `--ca`, the
//! certificates of that file count and no others. There is no switch that turns the check off.

#![forbid(unsafe_code)]

mod client;
mod error;
mod options;
mod target;
mod text;
mod token;
mod trust;

pub use client::{Client, WAIT};
pub use error::{FetchError, OpenError};
pub use options::{Access, Options};
pub use target::{Target, TargetError};
pub use text::{encode, harmless};
pub use token::Token;
pub use trust::Trust;
