//! A scripted node: it plays one scenario of the conformance suite to a client, and judges what the client sent.
//!
//! A driver connects to the control address and says in lines of JSON what it wants; `clients/conform/README.md` describes them. Each
//! control connection is a play of its own, with its own nodes on free ports of the loopback interface.

mod control;
mod frames;
mod judge;
mod ledger;
mod node;
mod play;
mod scenario;

pub use control::serve;
pub use scenario::{
    Act, Answer, Code, Must, NodeScript, On, Rule, SCENARIOS, Scenario, Suite, What,
};
