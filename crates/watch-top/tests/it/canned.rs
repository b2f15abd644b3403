//! Answers of a node, as JSON of `docs/api.md`.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// 2026-11-22T12:03:04.512Z.
pub(crate) const NOW_MS: u64 = 1_795_348_984_512;

pub(crate) fn read<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn node() -> Value {
    let worker = |core: u64, busy: u64, wait: u64| {
        json!({"core": core, "busy_ppm": busy, "idle_ppm": 1_000_000 - busy - wait, "wait_ppm": wait,
               "decisions_per_s": 321_007.75})
    };
    json!({
        "as_of_ms": NOW_MS, "node": 1, "run": 3, "version": env!("CARGO_PKG_VERSION"),
        "uptime_ms": 273_600_000,
        "workers": [worker(2, 640_000, 120_000), worker(3, 712_000, 90_000), worker(4, 95_000, 900_000),
                    worker(5, 931_000, 10_000)],
        "doors": [
            {"door": "batch", "verdicts": [{"verdict": "granted", "per_s": 1_100_412.0}, {"verdict": "paced", "per_s": 80_120.4},
                          {"verdict": "exhausted", "per_s": 20_001.0}, {"verdict": "purse_empty", "per_s": 312.0},
                          {"verdict": "busy", "per_s": 0.4}, {"verdict": "ended", "per_s": 0.0}],
             "latency": {"p50_us": 4, "p90_us": 9, "p99_us": 12, "p999_us": 40, "max_us": 310, "buckets": []}},
            {"door": "openrtb", "verdicts": [{"verdict": "bid", "per_s": 61_001.0}, {"verdict": "no_bid", "per_s": 22_184.0}],
             "latency": {"p50_us": 11, "p90_us": 30, "p99_us": 45, "p999_us": 120, "max_us": 1_203, "buckets": []}}
        ],
        "queues": [{"queue": "resolves_waiting", "depth": 3_900, "max": 4_096}, {"queue": "notices", "depth": 1, "max": 4_096}],
        "journal": {"state": "sealing", "failure": null, "seal_us": {"p50": 301, "p99": 812, "max": 2_040}, "lag_ms": 3,
                    "unsealed_bytes": 12_400, "bytes": 9_812_331_112_u64},
        "grants": {"open": 91_223, "max": 4_000_000},
        "proof": {"checked_ms": NOW_MS - 1_200, "budgets": 50_000, "violations": 0, "held_and_spent_ok": true, "debts": 0},
        "errors": [{"code": "journal", "count": 0, "doc": "/docs/journal.md"}]
    })
}

/// What a row of the table is made of.
struct Row {
    id: &'static str,
    name: &'static str,
    unit: &'static str,
    status: &'static str,
    reason: Option<&'static str>,
    index_ppm: Option<i64>,
    spend: &'static str,
    available: &'static str,
}

/// With its amounts as the node writes them: decimal text in the unit.
fn in_units(mut budget: Value) -> Value {
    let unit = money::Unit::parse(budget["unit"].as_str().unwrap()).unwrap();
    let decimal = |amount: &mut Value| {
        if let Some(text) = amount.as_str() {
            *amount = unit.format(money::Amount::new(text.parse().unwrap())).into();
        }
    };
    let fields = [
        "limit",
        "spent",
        "debt",
        "held",
        "available",
        "window_budget",
        "window_planned",
        "window_spent",
        "day_spent",
        "spend_minute",
    ];
    fields.iter().for_each(|field| decimal(&mut budget[*field]));
    if let Some(lines) = budget["lines"].as_object_mut() {
        lines.values_mut().for_each(decimal);
    }
    if let Some(spark) = budget["spark"].as_array_mut() {
        spark.iter_mut().for_each(decimal);
    }
    budget
}

fn row(row: &Row) -> Value {
    json!({
        "id": row.id, "name": row.name, "unit": row.unit, "campaign": true, "status": row.status, "reason": row.reason,
        "since_ms": NOW_MS - 754_000, "limit": "12000000000", "spent": "3500123456", "debt": "0", "held": "99876544",
        "available": row.available, "window_start_ms": 1_795_305_600_000_u64, "window_end_ms": 1_795_392_000_000_u64,
        "window_budget": "500000000", "window_planned": "251000000", "window_spent": "155620000",
        "index_ppm": row.index_ppm, "daily": null, "day_spent": "155620000", "day_ends_ms": null,
        "asks_per_s": 1_203.4, "grants_per_s": 310.0, "refusals_per_s": 893.4, "top_refusal": "paced",
        "top_refusals_per_s": 850.0, "spend_minute": row.spend, "tz": "Europe/Vienna", "start_ms": null, "end_ms": null,
        "pacing": "steer", "parent": null, "flags": ["open"]
    })
}

const ROWS: [Row; 7] = [
    Row {
        id: "17",
        name: "Summer sale, all shops",
        unit: "USD",
        status: "limited",
        reason: Some("outbid"),
        index_ppm: Some(620_000),
        spend: "31000000",
        available: "8400000000",
    },
    Row {
        id: "18",
        name: "Launch",
        unit: "EUR",
        status: "active",
        reason: None,
        index_ppm: Some(998_000),
        spend: "12345678",
        available: "1234567890123",
    },
    Row {
        id: "4096",
        name: "夏のセール キャンペーン 2026",
        unit: "JPY",
        status: "active",
        reason: Some("catching_up"),
        index_ppm: Some(1_310_000),
        spend: "980000000",
        available: "90000000000",
    },
    Row {
        id: "5",
        name: "👩‍🚀 e\u{301}toile — Zürich",
        unit: "CHF",
        status: "paused",
        reason: Some("owner"),
        index_ppm: None,
        spend: "0",
        available: "1",
    },
    Row {
        id: "18446744073709551614",
        name: "A name that is far too long for any table and goes on and on",
        unit: "count",
        status: "exhausted",
        reason: Some("limit"),
        index_ppm: Some(1_000_000),
        spend: "1200",
        available: "0",
    },
    Row {
        id: "77",
        name: "Overspent by others",
        unit: "USD",
        status: "error",
        reason: Some("journal"),
        index_ppm: Some(45_000_000_000),
        spend: "1",
        available: "-1500001",
    },
    Row {
        id: "80",
        name: "Not begun",
        unit: "GBP",
        status: "waiting",
        reason: Some("flight_ahead"),
        index_ppm: None,
        spend: "0",
        available: "5000000000",
    },
];

pub(crate) fn page() -> Value {
    json!({"as_of_ms": NOW_MS, "matched": 50_000, "budgets": ROWS.iter().map(|one| in_units(row(one))).collect::<Vec<_>>(), "next": "abc"})
}

pub(crate) fn detail() -> Value {
    let mut detail = row(&ROWS[0]);
    let more = json!({
        "lines": {"free": "8000000000", "purses": "400000000", "held": "99876544", "suspended": "0", "expired": "0",
                  "settled": "3500000000", "over_settled": "123456", "late": "0",
                  "inferred": "0", "unknown_order": "0"},
        "holds": {"made": 91_233, "open": 312, "settled": 80_112, "released": 9_001, "expired": 1_808, "late": null},
        "caps": [{"per": "1d", "max": 3, "of": "campaign"}],
        "spark": ["0", "1000000", "2000000", "4000000", "8000000", "16000000", "15000000", "15500000", "15500000",
                  "15500000"]
    });
    detail.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    in_units(detail)
}

pub(crate) fn refusals() -> Value {
    json!({
        "verdicts": [["paced", 8_120], ["purse_empty", 31]], "survey_every": 1_024, "auctioned": 409_600, "surveyed": 400,
        "why": [{"reason": "floor", "count": 311}, {"reason": "outbid", "count": 89}], "recent": []
    })
}

pub(crate) fn audit() -> Value {
    json!({"records": [
        {"record": "8812", "at_ms": NOW_MS - 3_600_000, "who": "ann", "action": "set", "why": "more room for the weekend",
         "rows": 1, "undone_by": null, "undo_of": null,
         "changes": [{"id": "17", "before": {"limit": "10000.00"}, "after": {"limit": "12000.00"}}]},
        {"record": "8801", "at_ms": NOW_MS - 90_000_000, "who": "ben", "action": "resume", "why": "creative is right now",
         "rows": 1, "undone_by": null, "undo_of": null,
         "changes": [{"id": 17, "before": {"status": "paused"}, "after": {"status": "active"}}]}
    ], "next": null})
}
