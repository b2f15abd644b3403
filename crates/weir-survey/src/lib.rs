//! A running node as people see it: the bank and the workers of `weir-node`, and around them what the admin door shows and changes.
//!
//! ```text
//!  workers: tallies, gauges ─┐   watching: a round every admin.tick_ms
//!  bank: Command::Survey, ───┼─▶ status, reason, rates, load ──▶ watch::Board, watch::History
//!  costs: probes ────────────┘                                        │
//!  watcher: the budgets file ──▶ weir_edits::Edits ◀── watch::Node ◀── admin: the calls of people and tools
//! ```
//!
//! - [`Node`] starts everything, in the order that makes a failed start leave nothing behind, and stops it.
//! - `watcher` takes changes of the budgets file.
//! - `watching` looks at all budgets some times per second; everything that is shown is read from what it found.
//! - `alerts` sends webhooks of what the looks find.
//! - `admin` has the calls for tools beside those of `watch`: `/stat`, `/books`, `/why`, `/costs`, `/profiles`, `/v1/reconcile`.
//! - `in_force` compares the budgets file with that of a log on other machines.
//! - `reload` reads the configuration again.
//! - [`costs`] makes the cost sheet of what the probes of `weir-node` recorded.
//! - `pace_text` says whether a budget is on its plan, and why not.
//!
//! All of it runs on threads of its own, and asks workers and bank by messages: nothing here is on the way from an ask to its answer.

#![forbid(unsafe_code)]

mod admin;
mod alerts;
pub mod costs;
mod counted;
mod file_changes;
mod in_force;
mod looks;
mod pace_text;
mod prices;
mod reload;
mod standby;
mod start;
mod watcher;
mod watching;

pub use admin::door_options;
pub use alerts::receiver::judge_files;
pub use counted::Registry;
pub use pace_text::SAMPLE_MIN;
pub use reload::{ConfigSource, NotReloaded};
pub use start::{Node, Standby, StartError, StoodBy, stand_by};
