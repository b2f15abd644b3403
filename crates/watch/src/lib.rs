//! What people and tools see of a node, and how they change it: the admin API, the live stream, the history and the
//! embedded dashboard.
//!
//! Everything runs on threads of its own, never on a worker. The node tells how its budgets stand by publishing to a
//! [`Board`], and carries out what is asked through the trait [`Node`]; nothing here knows how.
//!
//! - [`Server`] opens the door: HTTP or HTTPS, tokens with roles, origins, limits.
//! - `api` has the calls under `/v1`; `query` filters, sorts and pages; `docs/api.md` is the contract.
//! - `assets` serves the dashboard, which the build script packed into the binary.

#![forbid(unsafe_code)]

mod api;
mod assets;
mod auth;
pub mod board;
pub mod cluster;
pub mod fix;
mod guard;
pub mod history;
pub mod live;
pub mod model;
pub mod node;
mod problem;
mod query;
pub mod report;
mod server;
mod tls;
pub mod vault;

pub use assets::{Asset, ui_version};
pub use auth::{AdminRole, Who};
pub use board::Board;
pub use history::History;
pub use model::{Budget, Counted, Flags, Pacing, Reason, State, Status};
pub use node::Node;
pub use problem::{Kind as ProblemKind, problem};
pub use server::{Options, Server, Standby, StartError};
pub use tls::Tls;
