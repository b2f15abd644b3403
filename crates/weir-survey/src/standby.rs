//! What people see of a log on other machines: of the bank, and of a node that stands by.

use axum::body::Bytes;
use watch::cluster::{Cluster, ClusterBank, ClusterEngine, ClusterPosition};
use weir_config::config::Config;
use weir_node::cluster::{Heard, NOT_CARRIED, node_name};
use weir_node::pulse::OnLog;

use crate::costs::openmetrics::Exposition;
use crate::watching::metrics::{cluster_lag, cluster_role};

/// A log whose answer is this much later than a beat is away, ms.
const AWAY_MS: u64 = 1_000;

/// How the bank of a log stands.
pub(crate) fn of_bank(config: &Config, on_log: &OnLog) -> Cluster {
    let (silent_ms, node) = (on_log.lease.silent_ms(), node_name(config).unwrap_or_default());
    let is_up = silent_ms < 2 * config.cluster.beat_ms + AWAY_MS;
    Cluster {
        role: "bank",
        bank: Some(ClusterBank { node: node.clone(), run: on_log.run }),
        lag_ms: 0,
        lease_ms: on_log.lease.left_ms(),
        ..cluster(config, node, on_log.at.get(), (is_up, silent_ms))
    }
}

/// How a node stands by.
pub(crate) fn of_standby(config: &Config, node: String, heard: &Heard) -> Cluster {
    let bank = heard.bank.clone().map(|(node, run)| ClusterBank { node, run });
    let log = (heard.is_up, heard.since_ms);
    Cluster {
        bank,
        lag_ms: heard.lag_ms,
        failure: heard.failure.clone(),
        ..cluster(config, node, heard.position, log)
    }
}

/// What a node that stands by has for `GET /metrics`.
pub(crate) fn metrics_of_standby(heard: &Heard, files_differ: bool) -> Bytes {
    let mut text = Exposition::default();
    cluster_role(&mut text, "standby", files_differ);
    cluster_lag(&mut text, "Since all of the log was here.", heard.lag_ms);
    text.finish().into()
}

fn cluster(
    config: &Config,
    node: String,
    (record, entry): (u64, u64),
    (is_up, since_ms): (bool, u64),
) -> Cluster {
    Cluster {
        role: "standby",
        name: config.cluster.name.clone(),
        node,
        bank: None,
        position: ClusterPosition { record, entry },
        lag_ms: 0,
        lease_ms: config.cluster.lease_ms,
        log: ClusterEngine { state: if is_up { "up" } else { "away" }, since_ms },
        not_carried: NOT_CARRIED.to_vec(),
        failure: None,
    }
}
