//! Lists: search, filter, sort, pages, CSV. The API is compared with a naive reading of its own answers.

use std::cmp::Ordering;

use proptest::prelude::*;
use serde_json::{Value, json};

use watch::history::Minute;

use crate::fake::{Door, NOW_MS};
use crate::http::get;

/// All budgets of a list, page by page.
fn pages(door: &Door, query: &str, max: usize) -> Vec<Value> {
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let answer =
            get(format!("/v1/budgets?max={max}&{query}{cursor}")).send(door.to).expect(200).json();
        found.extend(answer["budgets"].as_array().unwrap().iter().cloned());
        match answer["next"].as_str() {
            None => return found,
            Some(next) => cursor = format!("&cursor={next}"),
        }
    }
}

fn ids(budgets: &[Value]) -> Vec<u64> {
    budgets.iter().map(|budget| budget["id"].as_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn pages_make_the_whole() {
    let door = Door::open(157);
    for sort in ["", "-spent", "name", "end,-asks", "-reason,unit", "daily", "-id"] {
        let whole = ids(&pages(&door, &format!("sort={sort}"), 1_000));
        assert_eq!(ids(&pages(&door, &format!("sort={sort}"), 10)), whole, "{sort}");
        let mut sorted = whole.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (1..=157).collect::<Vec<u64>>(), "{sort}");
    }
    let first = get("/v1/budgets?max=10").send(door.to).expect(200).json();
    assert_eq!((&first["matched"], &first["as_of_ms"]), (&json!(157), &json!(NOW_MS)));
}

#[test]
fn a_budget_is_found_by_its_handle() {
    let door = Door::open(30);
    let shown = |path: &str| get(path).send(door.to);
    let named = shown("/v1/budgets/team-42%2Fgpt-5").expect(200).json();
    assert_eq!((&named["id"], &named["handle"]), (&json!("7"), &json!("team-42/gpt-5")));
    assert_eq!(shown("/v1/budgets/7").expect(200).json(), named);
    assert_eq!(named["named_holds"], json!({"count": 3, "hold": "1.50"}));
    assert!(shown("/v1/budgets/8").expect(200).json()["handle"].is_null());
    assert_eq!(ids(&pages(&door, "q=42/gpt", 10)), [7]);
    shown("/v1/budgets/team-42%2Fgpt-6").expect(404);
    for wrong in ["007", "team%2042", &"h".repeat(10_240)] {
        shown(&format!("/v1/budgets/{wrong}")).expect(400);
    }
}

#[test]
fn what_is_nothing_is_last_both_ways() {
    let door = Door::open(30);
    for sort in ["end", "-end", "pace", "-pace", "parent", "-parent", "top_refusal", "-reason"] {
        let column = sort.trim_start_matches('-');
        let field = match column {
            "end" => "end_ms",
            "pace" => "index_ppm",
            other => other,
        };
        let budgets = pages(&door, &format!("sort={sort}"), 7);
        let firsts = budgets.iter().take_while(|budget| !budget[field].is_null()).count();
        assert!(firsts > 0 && firsts < 30, "{sort}: {firsts}");
        assert!(budgets[firsts..].iter().all(|budget| budget[field].is_null()), "{sort}");
    }
}

#[test]
fn rows_that_move_do_not_disturb_a_cursor() {
    let door = Door::open(60);
    let answer = get("/v1/budgets?max=20&sort=-since,name").send(door.to).expect(200).json();
    let next = answer["next"].as_str().unwrap().to_string();
    let mut seen = ids(answer["budgets"].as_array().unwrap());
    // Every row gets another sort key, and stays after the cursor or before it, as it was.
    let mut view = door.node.view(NOW_MS + 2_000);
    let mut states = view.states.to_vec();
    for (budget, state) in view.budgets.iter().zip(&mut states) {
        state.since_ms =
            if seen.contains(&budget.id) { NOW_MS } else { NOW_MS - 9_000 - budget.id };
    }
    view.states = states.into();
    door.server.board().publish(view);
    let rest = pages(&door, &format!("sort=-since,name&cursor={next}"), 1_000);
    seen.extend(ids(&rest));
    seen.sort_unstable();
    assert_eq!(seen, (1..=60).collect::<Vec<u64>>());
    get(format!("/v1/budgets?sort=name&cursor={next}")).send(door.to).problem(400, "malformed");
}

#[test]
fn searches_and_filters_by_example() {
    let door = Door::open(120);
    let count = |query: &str| {
        get(format!("/v1/budgets?{query}")).send(door.to).expect(200).json()["matched"].clone()
    };
    assert_eq!(count("q=BUDGET%2012%20"), 2, "12 and 120: spaces around do not count");
    assert_eq!(count("q=120"), 1);
    assert_eq!(count("q=nobody"), 0);
    assert_eq!(count("filter=unit:count"), 12);
    assert_eq!(count("filter=id:17,18,999"), 2);
    assert_eq!(count("filter=limit:1000..1000"), 108);
    assert_eq!(count("filter=limit:..1000.000001;unit:USD"), 108);
    assert_eq!(count("filter=limit:2000000..;unit:count"), 12);
    assert_eq!(count("filter=name:~budget%2525"), 0);
    assert_eq!(count("filter=campaign:yes;zone:Europe%252FBerlin"), 60);
    assert_eq!(count("filter=parent:1"), 17);
    assert_eq!(count("filter=flags:debt,edited"), 7 * 12 + 5);
}

/// A term of a filter.
#[derive(Clone, Debug)]
enum Term {
    Word(&'static str, &'static str),
    /// Column, field, is it an amount, from and to in hundredths.
    Range((&'static str, &'static str, bool), u32, Option<u32>),
    Text(String),
}

impl Term {
    fn write(&self) -> String {
        let number = |hundredths: &u32| format!("{}.{:02}", hundredths / 100, hundredths % 100);
        match self {
            Term::Word(column, word) => format!("{column}:{word}"),
            Term::Range((column, ..), from, to) => {
                format!(
                    "{column}:{}..{}",
                    number(from),
                    to.as_ref().map(number).unwrap_or_default()
                )
            }
            Term::Text(text) => format!("name:~{}", text.replace(' ', "%20")),
        }
    }

    /// What it means on a row of JSON.
    fn holds(&self, row: &Value) -> bool {
        match self {
            Term::Word("campaign", word) => row["campaign"] == (*word == "yes"),
            Term::Word(column, word) => row[*column] == **word,
            Term::Text(text) => {
                row["name"].as_str().unwrap().to_lowercase().contains(&text.to_lowercase())
            }
            Term::Range((_, field, amount), from, to) => {
                let bound = |hundredths: &u32| i128::from(*hundredths) * 10_000;
                millionths(row, field, *amount).is_some_and(|value| {
                    value >= bound(from) && to.as_ref().is_none_or(|to| value <= bound(to))
                })
            }
        }
    }
}

fn millionths(row: &Value, field: &str, amount: bool) -> Option<i128> {
    let scale = if amount && row["unit"] == "count" { 1_000_000 } else { 1 };
    match &row[field] {
        Value::String(_) => Some(base_units(row, field) * scale),
        Value::Number(number) if field == "index_ppm" => number.as_i64().map(i128::from),
        #[allow(clippy::cast_possible_truncation, reason = "hundredths are exact")]
        Value::Number(number) => {
            number.as_f64().map(|rate| (rate * 100.0).round() as i128 * 10_000)
        }
        _ => None,
    }
}

fn term() -> impl Strategy<Value = Term> {
    let words = vec![
        ("status", "active"),
        ("status", "limited"),
        ("status", "error"),
        ("unit", "USD"),
        ("unit", "EUR"),
        ("pacing", "coin"),
        ("pacing", "steer"),
        ("campaign", "yes"),
        ("campaign", "no"),
    ];
    let columns = vec![
        ("spent", "spent", true),
        ("held", "held", true),
        ("asks", "asks_per_s", false),
        ("pace", "index_ppm", false),
    ];
    let range = (prop::sample::select(columns), 0_u32..120, prop::option::of(0_u32..120));
    prop_oneof![
        prop::sample::select(words).prop_map(|(column, word)| Term::Word(column, word)),
        range.prop_map(|(column, from, to)| Term::Range(column, from, to)),
        "[a-zA-Z0-9 ]{1,3}".prop_map(Term::Text),
    ]
}

/// An amount of a row, which is decimal text in its unit.
fn base_units(row: &Value, field: &str) -> i128 {
    let unit = money::Unit::parse(row["unit"].as_str().unwrap()).unwrap();
    unit.parse_amount(row[field].as_str().unwrap()).unwrap().get().into()
}

#[test]
fn filters_agree_with_a_naive_one() {
    let door = Door::open(150);
    let all = pages(&door, "", 1_000);
    let config = ProptestConfig::with_cases(80);
    let mut runner = proptest::test_runner::TestRunner::new_with_rng(
        config,
        proptest::test_runner::TestRng::deterministic_rng(
            proptest::test_runner::RngAlgorithm::ChaCha,
        ),
    );
    let terms = prop::collection::vec(term(), 1..3);
    runner
        .run(&terms, |terms| {
            let filter: Vec<String> = terms.iter().map(Term::write).collect();
            let filter = filter.join(";");
            let is_match = |row: &&Value| terms.iter().all(|term| term.holds(row));
            let naive: Vec<Value> = all.iter().filter(is_match).cloned().collect();
            // The filter is encoded once more for the address.
            let found = pages(&door, &format!("filter={}", filter.replace('%', "%25")), 1_000);
            prop_assert_eq!(ids(&found), ids(&naive), "{}", filter);
            Ok(())
        })
        .unwrap();
}

#[test]
fn sorts_agree_with_a_naive_one() {
    let door = Door::open(150);
    let amount = |row: &Value, field: &str| -> i128 {
        let base = base_units(row, field);
        if row["unit"] == "count" { base * 1_000_000 } else { base }
    };
    let order = |a: &Value, b: &Value| -> Ordering {
        a["unit"]
            .as_str()
            .cmp(&b["unit"].as_str())
            .then(amount(b, "spent").cmp(&amount(a, "spent")))
    };
    let mut naive = pages(&door, "", 1_000);
    naive.sort_by(order);
    assert_eq!(ids(&pages(&door, "sort=unit,-spent", 40)), ids(&naive));
}

#[test]
fn csv_is_the_view_in_base_units() {
    let door = Door::open(1_300);
    let answer = get("/v1/budgets.csv?filter=unit:count&sort=-id").send(door.to).expect(200);
    assert_eq!(answer.header("content-type"), Some("text/csv; charset=utf-8"));
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    let name = answer.header("content-disposition").unwrap();
    assert!(
        name.starts_with("attachment; filename=\"budgets-2026-11-18T") && name.ends_with(".csv\""),
        "{name}"
    );
    let lines: Vec<&str> = answer.text().split("\r\n").collect();
    assert_eq!(lines.len(), 1 + 130 + 1);
    let head: Vec<&str> = lines[0].split(',').collect();
    let first: Vec<&str> = lines[1].split(',').collect();
    let of = |name: &str| first[head.iter().position(|known| *known == name).unwrap()];
    assert_eq!((of("id"), of("unit"), of("limit"), of("daily")), ("1300", "count", "2000000", ""));
    assert_eq!(of("since"), money::Instant::from_ms(NOW_MS - 5_000).to_string());
    let whole = get("/v1/budgets.csv").send(door.to).expect(200);
    let column = |name: &str| head.iter().position(|known| *known == name).unwrap();
    let whole_lines: Vec<Vec<&str>> =
        whole.text().lines().map(|line| line.split(',').collect()).collect();
    // Of the fake each third budget has an hour; that of an even one is a bucket.
    for (id, kind) in [(3, Some("")), (4, None), (6, Some("b"))] {
        let one = get(format!("/v1/budgets/{id}")).send(door.to).expect(200).json();
        let (line, limit) = (&whole_lines[id], one["limit"].as_str().unwrap());
        assert_eq!(line[column("handle")], one["handle"].as_str().unwrap_or_default());
        assert_eq!(line[column("limit")], limit);
        let expected = kind.map(|kind| format!("hour={limit}{kind}")).unwrap_or_default();
        assert_eq!(line[column("windows")], expected);
    }
    assert_eq!(whole.text().lines().count(), 1_301);
}

#[test]
fn history_is_columns_of_steps() {
    let door = Door::open(3);
    let minute = NOW_MS / 60_000 - 20;
    let first = minute - minute % 5;
    for at in [first, first + 1, first + 7] {
        let offset = i64::try_from(at - first).unwrap();
        let row = Minute {
            spent: 100 + offset,
            planned: Some(90),
            asks: 2,
            latency_p99_us: 40,
            ..Minute::default()
        };
        door.server.history().record(at, &[(2, row)]).unwrap();
    }
    let (from, to) = (first * 60_000, (first + 15) * 60_000);
    let path = format!("/v1/budgets/2/history?from_ms={from}&to_ms={to}&step_ms=300000");
    let answer = get(path).send(door.to).expect(200).json();
    assert_eq!((&answer["step_ms"], &answer["from_ms"]), (&json!(300_000), &json!(from)));
    assert_eq!(answer["t_ms"], json!([from + 300_000, from + 600_000, to]));
    assert_eq!(answer["spent"], json!(["0.000101", "0.000107", null]));
    assert_eq!(answer["planned"], json!(["0.00009", "0.00009", null]));
    assert_eq!(answer["asks"], json!([4, 2, null]));
    assert_eq!(answer["latency_p99_us"], json!([40, 40, null]));
    let default = get("/v1/budgets/2/history").send(door.to).expect(200).json();
    assert_eq!(default["step_ms"], 120_000);
    get("/v1/budgets/9/history").send(door.to).problem(404, "unknown");
    for wrong in
        ["step_ms=1", "step_ms=0", "from_ms=5&to_ms=4", "to_ms=253402041600001", "step_ms=86460000"]
    {
        get(format!("/v1/budgets/2/history?{wrong}")).send(door.to).problem(400, "malformed");
    }
}

#[test]
fn one_budget_has_its_books_and_configuration() {
    let door = Door::open(3);
    let answer = get("/v1/budgets/2").send(door.to).expect(200);
    assert_eq!(answer.header("etag"), Some("\"1\""));
    let budget = answer.json();
    assert_eq!(budget["config"]["limit"], "1000.00");
    assert_eq!(budget["limit"], "1000.00");
    assert_eq!(budget["lines"]["free"], "0.00");
    let sum = ["spent", "held", "available"].map(|field| base_units(&budget, field));
    assert_eq!(sum.iter().sum::<i128>(), 1_000_000_000);
    let refusals = get("/v1/budgets/2/refusals").send(door.to).expect(200).json();
    assert_eq!(refusals["verdicts"], json!([{"verdict": "paced", "count": 3}]));
    assert_eq!(refusals["recent"], json!([{"at_ms": 1, "verdict": "paced", "budget": "2"}]));
    assert_eq!(refusals["recent_of"], 16_384);
    assert_eq!(refusals["why"][1], json!({"reason": "floor", "count": 80, "estimate": 81_920}));
    assert_eq!(refusals["top_reason"], "floor", "who was not looked for was not refused");
}
