//! Where the time of a node's threads goes, seen from outside: what `GET /metrics` says of the stages after traffic that
//! is known.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::json;
use wire::{Action, Verdict, resolve};

use crate::client::{ask, fresh_id};
use crate::openrtb::{Http, campaign, patient, request, wait_warm};
use crate::support::{Node, Setup, line, over_transports, wait_for};

const BATCH: [&str; 6] = ["frame_decode", "encode", "lookup", "judge", "token", "resolve"];
const OPENRTB: [&str; 9] = [
    "http",
    "json_read",
    "user_profile",
    "translate",
    "auction",
    "seal_note",
    "answer_write",
    "http_write",
    "notice",
];
const BOTH: [&str; 6] = ["receive", "from_bank", "timers", "to_bank", "gauges", "send"];
const BANK: [&str; 7] =
    ["booking", "timeline", "pacing", "upkeep", "commands", "journal_append", "send_down"];
const WRITER: [&str; 3] = ["close", "seal_wait", "tell"];

fn one_budget(every: u32) -> Setup {
    Setup::new(&line(1, "1000000", "")).with("probes.every", &every.to_string())
}

/// The samples of `/metrics`, by name and labels as they stand there.
struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    fn of(node: &Node) -> Metrics {
        let (status, text) = node.get("/metrics");
        assert_eq!(status, 200, "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let split = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_string(), value.parse().unwrap())
        };
        Metrics(samples.map(split).collect())
    }

    fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no {name} in {:#?}", self.0))
    }

    fn items(&self, thread: &str, stage: &str) -> f64 {
        let labels = format!("{{thread=\"{thread}\",stage=\"{stage}\"}}");
        self.get(&format!("weir_stage_sampled_items_total{labels}"))
    }

    fn requests(&self, door: &str, kind: &str) -> f64 {
        self.get(&format!("weir_requests_total{{door=\"{door}\",kind=\"{kind}\"}}"))
    }

    /// What all samples of a family that begin so add up to.
    fn sum(&self, begin: &str) -> f64 {
        let family = self.0.iter().filter(|(name, _)| name.starts_with(begin));
        family.map(|(_, value)| value).sum()
    }
}

/// Waits until the figures are as wanted: a turn is recorded when the next one begins.
fn wait_metrics(node: &Node, what: &str, holds: impl Fn(&Metrics) -> bool) -> Metrics {
    let mut last = Metrics::of(node);
    wait_for(what, || {
        last = Metrics::of(node);
        holds(&last)
    });
    last
}

#[test]
fn every_ask_is_counted_in_every_stage_of_the_batch_door() {
    over_transports(
        || one_budget(1),
        |node| {
            let mut client = node.client();
            let (mut asks, mut granted, mut frames) = (0.0, 0.0, 0.0);
            let mut tokens = Vec::new();
            wait_for("grants", || {
                let frame: Vec<_> = (0..10).map(|_| ask(fresh_id(), 1, 5)).collect();
                let answers = client.decide(&frame).into_iter();
                let given = answers.filter(|(verdict, _)| *verdict == Verdict::Granted);
                let before = tokens.len();
                tokens.extend(given.map(|(_, token)| token));
                granted += f64::from(u32::try_from(tokens.len() - before).unwrap());
                (asks, frames) = (asks + 10.0, frames + 1.0);
                tokens.len() >= 60
            });
            let settle = |token: &[u8; 32]| resolve::Item::new(*token, 5, Action::Settle, 0);
            let settles: Vec<_> = tokens.iter().take(3).map(settle).collect();
            client.resolve_all(&settles);
            frames += 1.0;

            let metrics = wait_metrics(node, "all counted", |metrics| {
                let requests = |kind| metrics.requests("batch", kind);
                let all = |thread, stages: &[&str]| {
                    stages.iter().all(|stage| metrics.items(thread, stage) > 0.0)
                };
                (requests("ask"), requests("resolve")) == (asks, 3.0)
                    && all("worker", &BATCH)
                    && all("worker", &BOTH)
                    && all("bank", &BANK)
                    && all("journal writer", &WRITER)
            });
            for (stage, items) in [
                ("frame_decode", frames),
                ("encode", asks),
                ("lookup", asks),
                ("judge", asks),
                ("token", granted),
                ("resolve", 3.0),
            ] {
                assert_eq!(metrics.items("worker", stage), items, "{stage}");
            }
            for stage in OPENRTB {
                assert_eq!(metrics.items("worker", stage), 0.0, "{stage}");
            }
            assert!(metrics.get("weir_door_seconds_total{door=\"batch\"}") > 0.0);
            assert_eq!(metrics.get("weir_door_seconds_total{door=\"openrtb\"}"), 0.0);
        },
    );
}

#[test]
fn every_bid_request_is_counted_in_every_stage_of_the_openrtb_door() {
    let node = patient(&[campaign(1, json!({}))]).with("probes.every", "1").start();
    let mut http = Http::to(&node);
    wait_warm(&node);
    let bids: Vec<_> = (0..3).map(|n| http.bid_soon(&request(n, json!({})))).collect();
    assert_eq!([http.win(&bids[0]), http.bill(&bids[0]), http.lose(&bids[1])], [204; 3]);

    let metrics = wait_metrics(&node, "all counted", |metrics| {
        let read = metrics.items("worker", "json_read");
        metrics.requests("openrtb", "bid_request") == read
            && metrics.items("worker", "http_write") == read + 3.0
            && metrics.requests("openrtb", "notice") == 3.0
    });
    let requests = metrics.requests("openrtb", "bid_request");
    for (stage, items) in [
        ("http", requests + 3.0),
        ("http_write", requests + 3.0),
        ("user_profile", requests),
        ("translate", requests),
        ("auction", requests),
        ("seal_note", 3.0),
        ("answer_write", 3.0),
        ("notice", 3.0),
    ] {
        assert_eq!(metrics.items("worker", stage), items, "{stage}");
    }
    for stage in BATCH {
        assert_eq!(metrics.items("worker", stage), 0.0, "{stage}");
    }
    assert!(metrics.get("weir_door_seconds_total{door=\"openrtb\"}") > 0.0);
}

#[test]
fn with_none_sampled_nothing_is_recorded_and_requests_still_are() {
    let node = one_budget(0).start();
    let mut client = node.client();
    let token = client.grant(1, 5);
    assert_eq!(client.settle(token, 5), (Verdict::Settled, false));
    let metrics = wait_metrics(&node, "the settle", |metrics| {
        metrics.requests("batch", "resolve") == 1.0 && metrics.requests("batch", "ask") > 0.0
    });
    assert!(metrics.sum("weir_turns_total") > 0.0);
    for family in ["weir_sampled_turns_total", "weir_stage_sampled_", "weir_door_seconds_total"] {
        assert_eq!(metrics.sum(family), 0.0, "{family}");
    }
}

/// Time in user mode of the node's workers, ns, as the kernel tells it.
fn user_ns(node: &Node) -> f64 {
    let folder = format!("/proc/{}/task", node.child.id());
    let tasks = std::fs::read_dir(folder).unwrap().map(|task| task.unwrap().path());
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.join("stat")).ok());
    let of_workers = stats.filter(|stat| stat.contains(" (worker) "));
    let user = |stat: String| -> f64 {
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        fields.split(' ').nth(11).unwrap().parse::<f64>().unwrap() * 1e7
    };
    of_workers.map(user).sum()
}

/// The stages of the sampled turns, for all turns, are most of the time that the workers spend in user mode, and they
/// are no more than has passed. Loose bounds: on a busy machine a turn that is interrupted takes longer than its work.
#[test]
fn the_stages_add_up_to_the_time_of_the_workers() {
    let began = Instant::now();
    let node = one_budget(4).start();
    let mut client = node.client();
    client.grant(1, 1);
    let asks: Vec<_> = (0..1_000).map(|_| ask(fresh_id(), 1, 1)).collect();
    wait_for("work for the worker", || {
        (0..50).for_each(|_| drop(client.decide(&asks)));
        user_ns(&node) >= 300e6
    });
    let stages = || 1e9 * Metrics::of(&node).sum("weir_door_seconds_total");
    let user_ns = user_ns(&node);
    wait_for("the stages of that time", || stages() > 0.5 * user_ns);
    #[allow(clippy::cast_precision_loss, reason = "some seconds in ns")]
    let passed_ns = began.elapsed().as_nanos() as f64;
    assert!(stages() < 2.0 * passed_ns, "{} of {passed_ns}", stages());
}
