//! Who may do what at a door: one format of token files, one guard of names, one guard of origins, for every door.
//!
//! - [`TokenFile`] reads lines `name role token [scope,...]` and finds the [`Principal`] that a token belongs to.
//! - [`Role`] says what a principal may do, [`Scopes`] with which budgets or keys; a door accepts only the roles that mean something to it.
//! - [`LiveTokens`] holds the file in force and swaps it whole while doors read it.
//! - [`AccessToken`] makes a token, [`append`](file::append) puts its line into a file.
//! - [`KeySecret`] makes the short names under which requests with keys of idempotency are known.
//! - [`names_variable`] and [`is_secret`] know a secret that stands where the name of a variable or of a file belongs.
//! - [`HostGuard`] and [`OriginGuard`] keep the pages of strangers away from a door that speaks HTTP.
//!
//! Parsing and judging are pure; only [`mod@file`] touches the disk, and only [`AccessToken::random`] asks the system for
//! randomness. A token is never repeated in an error, and no `Debug` shows one.

#![forbid(unsafe_code)]

pub mod file;
mod host;
mod idempotency;
mod live;
mod origin;
mod principal;
mod scope;
mod token;
mod variable;

pub use host::{BadHost, HostGuard, without_port};
pub use idempotency::KeySecret;
pub use live::{LiveTokens, TokenView};
pub use origin::{BadOrigin, OriginGuard};
pub use principal::{Denied, LineError, LineFault, Principal, Role, TokenFile};
pub use scope::{ScopeError, Scopes, found_scope};
pub use token::{AccessToken, TokenDigest};
pub use variable::{is_secret, names_variable};
