//! What the admin API shows of a log on other machines.

use serde::Serialize;
use utoipa::ToSchema;

/// How a node stands in its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Cluster {
    /// `bank`: it has begun the last run; `standby`: it follows, and waits until no bank speaks.
    #[schema(example = "bank")]
    pub role: &'static str,
    /// Name of the cluster.
    pub name: String,
    /// Name of this machine.
    pub node: String,
    /// The bank; null where a standby has not read who began the run.
    #[schema(required)]
    pub bank: Option<ClusterBank>,
    /// Up to where this node has the log.
    pub position: ClusterPosition,
    /// How long ago a standby had all of the log; 0 of the bank.
    pub lag_ms: u64,
    /// How long the bank may go on granting without an answer of the log; of a standby, how long it may by the configuration.
    pub lease_ms: u64,
    /// Does the log answer?
    pub log: ClusterEngine,
    /// What is durable on this machine alone.
    pub not_carried: Vec<&'static str>,
    /// Why a standby does not have on its disk what is in the log, and cannot take over; null where it can.
    #[schema(required)]
    pub failure: Option<String>,
}

/// Who began the last run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ClusterBank {
    /// Name of its machine.
    pub node: String,
    /// Number of the run.
    pub run: u32,
}

/// A place in the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ClusterPosition {
    /// Number of the last record.
    pub record: u64,
    /// Number of the last entry.
    pub entry: u64,
}

/// How the servers that keep the log answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct ClusterEngine {
    /// `up` or `away`.
    #[schema(example = "up")]
    pub state: &'static str,
    /// For how long it has been away, or since its last answer.
    pub since_ms: u64,
}
