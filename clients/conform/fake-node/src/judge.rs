//! What came, and whether it is what had to come.

use serde::Serialize;

use crate::frames::{Ask, Entry};
use crate::ledger;
use crate::play::{Conn, Play};
use crate::scenario::{Must, What};

/// One thing that came from the client.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Seen {
    pub(crate) saw: &'static str,
    pub(crate) node: usize,
    pub(crate) connection: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) entries: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) budget: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) amount: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request_id: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pod: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remember: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) grant: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) auth: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handle: Option<String>,
}

impl Seen {
    pub(crate) fn of(saw: &'static str, conn: &Conn) -> Seen {
        Seen { saw, node: conn.node, connection: conn.number, ..Seen::default() }
    }

    pub(crate) fn of_ask(conn: &Conn, ask: &Ask) -> Seen {
        let letters = ask.unit.iter().take_while(|letter| **letter != 0).copied().collect();
        Seen {
            budget: Some(ask.budget),
            amount: Some(ask.amount),
            unit: String::from_utf8(letters).ok(),
            request_id: Some(ask.request_id),
            user: Some(ask.user),
            ..Seen::of("ask", conn)
        }
    }

    pub(crate) fn of_entry(conn: &Conn, entry: &Entry) -> Seen {
        Seen {
            amount: Some(entry.amount),
            request_id: Some(entry.request_id),
            grant: ledger::number_of(&entry.token),
            ..Seen::of(entry.name(), conn)
        }
    }

    fn is(&self, what: &What) -> bool {
        fn fits<T: PartialEq>(wanted: &Option<T>, found: &Option<T>) -> bool {
            wanted.is_none() || wanted == found
        }
        self.saw == what.saw
            && what.node.is_none_or(|node| node == self.node)
            && fits(&what.entries, &self.entries)
            && fits(&what.budget, &self.budget)
            && fits(&what.amount, &self.amount)
            && fits(&what.unit, &self.unit)
            && fits(&what.request_id, &self.request_id)
            && fits(&what.user, &self.user)
            && fits(&what.pod, &self.pod)
            && fits(&what.remember, &self.remember)
            && fits(&what.grant, &self.grant)
            && fits(&what.auth, &self.auth)
            && fits(&what.handle, &self.handle)
    }
}

/// How often something came.
pub(crate) fn count(seen: &[Seen], what: &What) -> usize {
    seen.iter().filter(|seen| seen.is(what)).count()
}

fn failure(must: &Must, found: usize) -> Option<String> {
    let (min, max) = match (must.count, must.min, must.max) {
        (Some(count), ..) => (count, count),
        (None, None, None) => (1, usize::MAX),
        (None, min, max) => (min.unwrap_or(0), max.unwrap_or(usize::MAX)),
    };
    if (min..=max).contains(&found) {
        return None;
    }
    let what = serde_json::to_string(&must.what).unwrap_or_default();
    let most = if max == usize::MAX { "any number".to_string() } else { max.to_string() };
    Some(format!("{what} came {found} times, expected {min} to {most}"))
}

/// The verdict on a play: an object with `passed`, `failures` and, where it failed, what came.
pub(crate) fn judge(play: &Play) -> serde_json::Value {
    let state = play.lock();
    let mut failures = state.faults.clone();
    let musts = play.scenario.must.iter();
    failures.extend(musts.filter_map(|must| failure(must, count(&state.seen, &must.what))));
    let open = state.ledger.open();
    if open.len() > play.scenario.open_grants {
        failures.push(format!("the grants {open:?} were neither settled nor released"));
    }
    match failures.is_empty() {
        true => serde_json::json!({ "ok": true, "passed": true, "failures": [] }),
        false => serde_json::json!({
            "ok": true, "passed": false, "failures": failures, "seen": state.seen,
        }),
    }
}
