//! The tools of the command line: what `weir` does beside running a node.
//!
//! | part | command |
//! | --- | --- |
//! | [`check`] | `weir check`: a folder and a file judged as a start would judge them |
//! | [`costs`] | `weir costs`: what every abstraction costs, of a running node or of one that is loaded for it |
//! | [`dev`] | `weir dev`: a node without any file, to try it
//! | [`door_addresses`] | the flags of `weir run` that say where doors listen |
//! | [`fix`] | `weir fix`: FIX sessions of a running node, and what a stopped one kept of them |
//! | [`journal`] | `weir journal`: look into a journal, prove it, export it, repair it |
//! | [`profiles`] | `weir profiles`: users' segments from a file into a stopped node |
//! | [`reload`] | `weir reload`: a running node reads its configuration again |
//! | [`sample`], [`sample_campaigns`] | `weir sample-budgets`, `weir sample-campaigns`: made-up files to try a node with |
//! | [`signals`] | what stops and reloads a process |
//! | [`stat`] | `weir stat`: the live counters of a running node |
//! | [`token`] | `weir token`: make access tokens |
//! | [`vault`] | `weir vault`: the keys of a running node, and those of a stopped one or of a copy |
//! | [`why`] | `weir why`: why a campaign does not bid |
//!
//! A tool writes to what it is given and returns its errors as values; the crate `weir` has the command line, standard output and
//! the exit codes. [`words`] has the sentences that the tools and the dashboard share.

#![forbid(unsafe_code)]

pub mod check;
pub mod cluster;
pub mod costs;
pub mod dev;
pub mod door_addresses;
pub mod fix;
pub mod journal;
mod numbers;
pub mod profiles;
pub mod reload;
pub mod report;
pub mod sample;
pub mod sample_campaigns;
pub mod signals;
pub mod stat;
pub mod token;
pub mod usage;
pub mod vault;
mod which;
pub mod why;
pub mod words;

pub use which::WhichBudget;
