//! What a node is told: the configuration, the budgets file, and what follows from both before anything runs.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`config`] | `weir.toml` and the environment: every key with its default, its meaning and its range |
//! | [`doors`] | what the configuration comes to for the event loops and the doors |
//! | [`arrays`] | entries of which a file may have several, such as `[[fix.session]]` |
//! | [`environment`] | names in the environment that look like keys and are none |
//! | [`fix`] | the sessions of the FIX door, checked |
//! | [`listen`] | where a door listens, or that it is off |
//! | [`budgets`] | the budgets file, line by line, whole or not at all |
//! | [`campaigns`] | the part of a line that bids: targeting, creatives, caps |
//! | [`campaign_index`] | the campaigns of a file as the index that the auction asks, with currencies |
//! | `vault` | what unseals the keys of the keys door, checked |
//! | [`paths`] | what relative paths are relative to |
//! | [`private`] | who may read what is in the data folder |
//!
//! Everything here is a function of files and of the environment: there is no thread, and no clock but the time that a caller gives.

#![forbid(unsafe_code)]

pub mod arrays;
pub mod budgets;
pub mod campaign_index;
pub mod campaigns;
pub mod config;
pub mod doors;
pub mod environment;
pub mod fix;
mod fix_arrays;
mod fix_credentials;
pub mod listen;
pub mod paths;
pub mod private;
pub mod templates;
pub(crate) mod values;
mod vault;
pub mod warnings;
pub mod windows;
