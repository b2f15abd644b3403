//! Which settings of a stream and of a server keep what they acknowledge. No I/O.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::ClusterName;
use crate::log::ENTRY_BYTES_MAX;
use crate::seal::SEAL_BYTES;

/// Where a stream says the `node.id` of its nodes.
const NODE_ID: &str = "weir_node_id";
/// ...and with which record the journal ends that `init` puts into it.
const RECORDS: &str = "weir_records";
/// Servers that hold a copy of every entry.
const REPLICAS_MIN: u64 = 3;
/// Bytes of an entry's headers and of what JetStream adds, at most.
const HEADER_BYTES_MAX: usize = 4 << 10;
/// What a server must take.
const PAYLOAD_MIN: usize = ENTRY_BYTES_MAX + SEAL_BYTES + HEADER_BYTES_MAX;

/// Settings of a new stream, as JetStream takes them. `records`: the last one that is put there before any run.
pub(crate) fn stream_settings(name: &ClusterName, node: u16, records: u64) -> String {
    let mut settings = json!({
        "name": name.stream(),
        "description": "Weir: the log of a ledger. Entries are encrypted; only its nodes write here.",
        "metadata": { NODE_ID: node.to_string() },
        "subjects": [name.subject()],
        "num_replicas": REPLICAS_MIN,
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0,
        "max_msgs_per_subject": -1, "max_msg_size": -1,
        "allow_direct": false,
        "deny_delete": true,
        // Entries behind a base copy are purged.
        "deny_purge": false,
    });
    if records > 0 {
        settings["metadata"][RECORDS] = records.to_string().into();
    }
    settings.to_string()
}

/// With which record the journal ends that begins a stream, by what the engine says of it; 0: it begins empty.
pub(crate) fn records(info: &Value) -> u64 {
    let said = info["config"]["metadata"][RECORDS].as_str();
    said.and_then(|records| records.parse().ok()).unwrap_or(0)
}

/// Settings of the stream beside it: the last piece of each name.
pub(crate) fn store_settings(name: &ClusterName, node: u16) -> String {
    json!({
        "name": name.store(),
        "description": "Weir: what lies beside the log of a ledger. Pieces are encrypted; only its nodes write here.",
        "metadata": { NODE_ID: node.to_string() },
        "subjects": [name.piece(">")],
        "num_replicas": REPLICAS_MIN,
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0,
        "max_msgs_per_subject": 1, "max_msg_size": -1,
        "allow_direct": false,
    })
    .to_string()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Stream {
    metadata: BTreeMap<String, String>,
    subjects: Vec<String>,
    num_replicas: u64,
    storage: String,
    retention: String,
    discard: String,
    persist_mode: Option<String>,
    max_age: i64,
    max_msgs_per_subject: i64,
    max_msg_size: i64,
    allow_direct: bool,
    deny_delete: bool,
    allow_rollup_hdrs: bool,
    allow_msg_ttl: bool,
    no_ack: bool,
    sealed: bool,
    mirror: Value,
    sources: Value,
    subject_transform: Value,
}

/// Names of the servers that hold a stream, if its settings are those of a log.
///
/// # Errors
/// Each setting that is not, and what it must be.
pub(crate) fn stream(name: &ClusterName, node: u16, info: &Value) -> Result<Vec<String>, String> {
    let (of, subjects) = (name.stream(), vec![name.subject()]);
    let found = Stream::deserialize(&info["config"]).map_err(|error| {
        format!("{of}: the engine describes the stream in another form: {error}")
    })?;
    let of_node = found.metadata.get(NODE_ID).map_or("another program", String::as_str);
    if of_node != node.to_string() {
        return Err(format!(
            "the stream {of} was made for node.id {of_node}, and this node has node.id {node}: tokens of one would be foreign to the other. All nodes of a cluster have the same node.id; another cluster has another cluster.name"
        ));
    }
    let size = found.max_msg_size;
    let is_size = size <= 0 || usize::try_from(size).is_ok_and(|size| size >= PAYLOAD_MIN);
    let mode = found.persist_mode.as_deref().unwrap_or("default");
    let rules = [
        (found.num_replicas >= REPLICAS_MIN, format!("num_replicas is {}, must be 3", found.num_replicas)),
        (found.storage == "file", format!("storage is {:?}, must be \"file\"", found.storage)),
        (found.retention == "limits", format!("retention is {:?}, must be \"limits\"", found.retention)),
        (found.discard == "new", format!("discard is {:?}, must be \"new\": a full stream deletes the oldest entries", found.discard)),
        (mode != "async", "persist_mode is \"async\", must be left out: entries are acknowledged before they are on disk".into()),
        (!found.allow_direct, "allow_direct is true, must be false: reads would come from servers that are behind".into()),
        (found.deny_delete, "deny_delete is false, must be true".into()),
        (!found.allow_rollup_hdrs, "allow_rollup_hdrs is true, must be false: a message could purge the log".into()),
        (found.max_age == 0 && !found.allow_msg_ttl, "max_age or allow_msg_ttl is set: entries would expire".into()),
        (found.max_msgs_per_subject <= 0, "max_msgs_per_subject is set, must be -1: old entries would be deleted".into()),
        (is_size, format!("max_msg_size is {size}, must be -1 or at least {PAYLOAD_MIN}")),
        (!found.no_ack && !found.sealed, "no_ack or sealed is set: nothing would be acknowledged".into()),
        (found.subjects == subjects, format!("subjects are {:?}, must be {subjects:?}", found.subjects)),
        (
            [&found.mirror, &found.sources, &found.subject_transform].iter().all(|value| value.is_null()),
            "mirror, sources or subject_transform is set: entries would come from elsewhere".into(),
        ),
    ];
    let wrong: Vec<String> = rules.into_iter().filter(|rule| !rule.0).map(|rule| rule.1).collect();
    if !wrong.is_empty() {
        return Err(format!(
            "the stream {of} does not keep what it acknowledges: {}. Change it with `nats stream edit {of}`, or make it anew",
            wrong.join("; ")
        ));
    }
    let cluster = &info["cluster"];
    let replicas = cluster["replicas"].as_array().into_iter().flatten();
    let names = replicas.map(|replica| &replica["name"]).chain([&cluster["leader"]]);
    let mut names: Vec<String> = names.filter_map(Value::as_str).map(str::to_string).collect();
    names.sort();
    match cluster["leader"].as_str() {
        Some(_) => Ok(names),
        None => Err(format!("the stream {of} has no leader now: try again")),
    }
}

/// Judges the page `/varz` of the server whose monitor has this address. Returns the server's name.
///
/// # Errors
/// What of the server is not as it must be, with its name.
pub(crate) fn server(address: &str, page: &Result<String, String>) -> Result<String, String> {
    let page = page.as_ref().map_err(|why| {
        format!("{address} (log_monitors) does not answer: {why}. Whether that server syncs is unknown: start it, or correct the address")
    })?;
    let none = || {
        format!(
            "{address} (log_monitors) is no monitor of a NATS server: expected the JSON of its page /varz"
        )
    };
    let page: Value = serde_json::from_str(page).map_err(|_| none())?;
    let name = page["server_name"].as_str().ok_or_else(none)?;
    let settings = &page["jetstream"]["config"];
    if !settings.is_object() {
        return Err(format!("the server {name} ({address}) has no JetStream: switch it on there"));
    }
    if settings["sync_always"].as_bool() != Some(true) {
        return Err(format!(
            "the server {name} ({address}) acknowledges before its disk has synced: set `sync_interval: always` in its `jetstream` block and restart it"
        ));
    }
    let payload = page["max_payload"].as_u64().unwrap_or(0);
    if payload < PAYLOAD_MIN as u64 {
        return Err(format!(
            "the server {name} ({address}) has max_payload {payload}, entries need {PAYLOAD_MIN}: set `max_payload: 1MB` there"
        ));
    }
    Ok(name.to_string())
}

/// Judges a whole engine: its stream, and its servers. A server that does not answer acknowledges nothing: unless `all` have to answer, most of
/// those that hold the stream are enough. Returns which do not.
///
/// # Errors
/// Each thing that is not as it must be.
pub(crate) fn engine(
    name: &ClusterName,
    node: u16,
    info: &Value,
    pages: &[(String, Result<String, String>)],
    all: bool,
) -> Result<Vec<String>, String> {
    let holders = stream(name, node, info)?;
    let (mut known, mut silent) = (Vec::new(), Vec::new());
    for (address, page) in pages {
        match server(address, page) {
            Ok(server) => known.push(server),
            Err(why) if page.is_err() && !all => silent.push(why),
            Err(why) => return Err(why),
        }
    }
    let unknown: Vec<&String> = holders.iter().filter(|holder| !known.contains(holder)).collect();
    match unknown.first() {
        None => Ok(silent),
        Some(_) if unknown.len() <= silent.len() && 2 * unknown.len() < holders.len() => Ok(silent),
        Some(_) if unknown.len() <= silent.len() => Err(silent.join("; ")),
        Some(unknown) => Err(format!(
            "the server {unknown} holds the stream {} and has no monitor in `log_monitors`: add its address, as in http://{unknown}:8222",
            name.stream()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nats-server 2.15.2 says of a stream that was made with [`stream_settings`].
    pub(crate) fn info() -> Value {
        let mut config: Value =
            serde_json::from_str(&stream_settings(&"a".parse().unwrap(), 1, 0)).unwrap();
        for (key, value) in [("mirror_direct", json!(false)), ("compression", json!("none"))] {
            config[key] = value;
        }
        let replicas = ["n2", "n3"].map(|name| json!({"name": name, "current": true}));
        json!({"config": config, "cluster": {"leader": "n1", "replicas": replicas}})
    }

    fn page(name: &str, of: &str, value: Value) -> Result<String, String> {
        let mut page = json!({"server_name": name, "max_payload": 1 << 20});
        page["jetstream"]["config"] =
            json!({"sync_interval": 120_000_000_000_u64, "sync_always": true});
        if let Some(at) = page.pointer_mut(of) {
            *at = value;
        }
        Ok(page.to_string())
    }

    fn pages(names: &[&str]) -> Vec<(String, Result<String, String>)> {
        let page = |name: &&str| (format!("http://{name}:8222"), page(name, "-", Value::Null));
        names.iter().map(page).collect()
    }

    #[test]
    fn a_setting_that_loses_entries_is_refused_with_its_name() {
        let name = "a".parse().unwrap();
        assert_eq!(stream(&name, 1, &info()), Ok(["n1", "n2", "n3"].map(String::from).to_vec()));
        for (key, value) in [
            ("num_replicas", json!(1)),
            ("storage", json!("memory")),
            ("retention", json!("workqueue")),
            ("discard", json!("old")),
            ("persist_mode", json!("async")),
            ("allow_direct", json!(true)),
            ("deny_delete", json!(false)),
            ("allow_rollup_hdrs", json!(true)),
            ("max_age", json!(1)),
            ("allow_msg_ttl", json!(true)),
            ("max_msgs_per_subject", json!(100)),
            ("max_msg_size", json!(ENTRY_BYTES_MAX)),
            ("no_ack", json!(true)),
            ("sealed", json!(true)),
            ("subjects", json!(["weir.>"])),
            ("mirror", json!({"name": "OTHER"})),
            ("sources", json!([{"name": "OTHER"}])),
        ] {
            let mut info = info();
            info["config"][key] = value;
            let error = stream(&name, 1, &info).unwrap_err();
            assert!(error.contains(key) && error.contains("WEIR_a"), "{error}");
        }
        let mut leaderless = info();
        leaderless["cluster"] = json!({});
        assert!(stream(&name, 1, &leaderless).unwrap_err().contains("no leader"));
        assert!(stream(&name, 1, &json!({})).unwrap_err().contains("another form"));
        assert!(
            stream(&name, 2, &info())
                .unwrap_err()
                .contains("node.id 1, and this node has node.id 2")
        );
        let by_hand = json!({"config": {}});
        assert!(stream(&name, 1, &by_hand).unwrap_err().contains("for node.id another program"));
    }

    #[test]
    fn a_server_that_may_lose_is_refused_with_its_name() {
        let name = "a".parse().unwrap();
        let judged = |pages: &[_], all| engine(&name, 1, &info(), pages, all);
        assert_eq!(judged(&pages(&["n1", "n2", "n3", "n4"]), true), Ok(Vec::new()));
        let sync = "/jetstream/config/sync_always";
        for (bad, expected) in [
            (page("n2", sync, json!(false)), "n2 (http://n2:8222) acknowledges before"),
            (page("n2", sync, Value::Null), "sync_interval: always"),
            (page("n2", "/jetstream", json!({})), "n2 (http://n2:8222) has no JetStream"),
            (page("n2", "/max_payload", json!(ENTRY_BYTES_MAX)), "max_payload 262144"),
            (page("n4", "-", Value::Null), "n2 holds the stream WEIR_a"),
            (Err("connection refused".into()), "http://n2:8222 (log_monitors) does not answer"),
            (Ok("<html>".into()), "is no monitor"),
            (Ok("{}".into()), "is no monitor"),
        ] {
            let mut pages = pages(&["n1", "n2", "n3"]);
            pages[1].1 = bad;
            let error = judged(&pages, true).unwrap_err();
            assert!(error.contains(expected), "{error}");
            // A node begins while one server is gone, and no other fault is passed over.
            let is_gone = pages[1].1.is_err();
            assert_eq!(judged(&pages, false).is_ok_and(|silent| silent == [error]), is_gone);
            pages[2].1 = Err("connection refused".into());
            assert!(judged(&pages, false).is_err(), "one of three is no majority");
        }
        assert!(judged(&[], false).unwrap_err().contains("log_monitors"));
    }
}
