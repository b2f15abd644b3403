//! What the admin API shows of a log on other machines.

use serde::Serialize;
use utoipa::ToSchema;

/// How a node stands in its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Cluster {
    /// `bank`: it has begun the last run; `standby`: it waits until no bank speaks.
    #[schema(example = "bank")]
    pub role: &'static str,
    /// Name of the cluster.
    pub name: String,
    /// Name of this machine.
    pub node: String,
    /// The bank; null where a standby does not know it.
    #[schema(required)]
    pub bank: Option<ClusterBank>,
    /// Where the log ends, as this node knows it.
    pub position: ClusterPosition,
    /// How long a standby has heard nothing new; 0 of the bank.
    pub lag_ms: u64,
    /// How long the bank may go on granting without an answer of the log; of a standby, how long it may by the configuration.
    pub lease_ms: u64,
    /// Does the log answer?
    pub log: ClusterEngine,
    /// What is durable on this machine alone.
    pub not_carried: Vec<&'static str>,
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
