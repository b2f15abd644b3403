//! Changes: of one, of many, taken back.

use serde_json::{Value, json};

use crate::fake::{Door, NOW_MS, is_pause};
use crate::http::{Answer, Call, call, get};

fn patch(id: u64, tag: &str, changes: &Value) -> Call {
    call("PATCH", format!("/v1/budgets/{id}"))
        .with("If-Match", tag)
        .json(&json!({"changes": changes, "why": "test"}))
}

fn bulk(door: &Door, key: &str, body: &Value) -> Answer {
    call("POST", "/v1/bulk").with("Idempotency-Key", key).json(body).send(door.to)
}

#[test]
fn a_change_needs_the_newest_tag() {
    let door = Door::open(3);
    let missing =
        call("PATCH", "/v1/budgets/1").json(&json!({"changes": {"limit": "5"}, "why": "test"}));
    missing.send(door.to).problem(428, "if_match");
    let changed =
        patch(1, "\"1\"", &json!({"limit": "2000.50", "daily": "10"})).send(door.to).expect(200);
    assert_eq!(changed.header("etag"), Some("\"2\""));
    let budget = changed.json();
    assert_eq!((&budget["limit"], &budget["daily"]), (&json!("2000.50"), &json!("10.00")));
    let conflict = patch(1, "\"1\"", &json!({"limit": "7"})).send(door.to).problem(412, "conflict");
    assert_eq!((&conflict["found"], &conflict["expected"]), (&json!("\"2\""), &json!("\"1\"")));
    assert_eq!(door.node.field(1, "limit"), "2000.50");
    // The board is still the one of before, the answer is not.
    let seen = get("/v1/budgets/1").send(door.to).expect(200);
    assert_eq!((seen.header("etag"), &seen.json()["limit"]), (Some("\"2\""), &json!("2000.50")));
    let cleared = patch(1, "\"2\"", &json!({"daily": null})).send(door.to).expect(200).json();
    assert_eq!(cleared["daily"], Value::Null);
    patch(1, "\"3\"", &json!({"limit": "666.00"})).send(door.to).problem(422, "refused");
    patch(9, "\"1\"", &json!({"limit": "5"})).send(door.to).problem(404, "unknown");
    door.publish(NOW_MS + 2_000);
    assert_eq!(get("/v1/budgets/1").send(door.to).expect(200).header("etag"), Some("\"3\""));
}

#[test]
fn of_two_changes_one_wins() {
    let door = Door::open(1);
    let to = door.to;
    let send = |limit: &'static str| {
        std::thread::spawn(move || patch(1, "\"1\"", &json!({"limit": limit})).send(to).status)
    };
    let mut statuses = [send("1"), send("2")].map(|thread| thread.join().unwrap());
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 412]);
}

#[test]
fn a_pause_is_recorded_once() {
    let door = Door::open(3);
    let switch = |what: &str| {
        call("POST", format!("/v1/budgets/2/{what}")).json(&json!({"why": "test"})).send(door.to)
    };
    let paused = switch("pause").expect(200).json();
    assert_eq!((&paused["status"], &paused["reason"]), (&json!("paused"), &json!("owner")));
    switch("pause").expect(200);
    assert_eq!(door.node.edits(), 1);
    door.publish(NOW_MS + 2_000);
    assert_eq!(switch("resume").expect(200).json()["status"], "active");
    let records = get("/v1/audit?budget=2").send(door.to).expect(200).json();
    let records = records["records"].as_array().unwrap();
    assert_eq!(records.len(), 2);
    assert!(is_pause(&records[1]));
    assert_eq!(records[1]["changes"][0]["after"], json!({"status": "paused"}));
    let tagged =
        call("POST", "/v1/budgets/2/pause").with("If-Match", "\"1\"").json(&json!({"why": "test"}));
    tagged.send(door.to).problem(412, "conflict");
}

#[test]
fn a_budget_is_made() {
    let door = Door::open(2);
    let body = json!({"budget": {"id": "4711", "name": "Autumn", "unit": "EUR", "limit": "12.50", "tz": "Europe/Berlin"}, "why": "test"});
    let made = call("POST", "/v1/budgets")
        .with("Idempotency-Key", "autumn-sale")
        .json(&body)
        .send(door.to)
        .expect(201);
    assert_eq!(
        (made.header("location"), made.header("etag")),
        (Some("/v1/budgets/4711"), Some("\"1\""))
    );
    let budget = made.json();
    let expected = json!({"id": "4711", "name": "Autumn", "unit": "EUR", "limit": "12.50", "available": "12.50", "tz": "Europe/Berlin"});
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(&budget[field], value, "{field}");
    }
    let again = call("POST", "/v1/budgets")
        .with("Idempotency-Key", "autumn-sale")
        .json(&body)
        .send(door.to)
        .expect(201);
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    call("POST", "/v1/budgets").json(&body).send(door.to).problem(409, "exists");
    get("/v1/budgets/4711").send(door.to).expect(200);
    for bad in [
        json!({"id": 5, "name": "a", "unit": "EUR", "limit": "1"}),
        json!({"id": "5", "name": "", "unit": "EUR", "limit": "1"}),
        json!({"id": "5", "name": "a", "unit": "EUR"}),
        json!({"id": "5", "name": "a", "unit": "EUR", "limit": 1}),
    ] {
        let body = json!({"budget": bad, "why": "test"});
        call("POST", "/v1/budgets").json(&body).send(door.to).problem(400, "malformed");
    }
}

#[test]
fn a_budget_is_changed_by_its_handle() {
    let door = Door::open(8);
    let by = |method: &'static str, handle: &str, what: &str| {
        call(method, format!("/v1/budgets/{handle}{what}")).with("If-Match", "\"1\"")
    };
    let renamed = by("PATCH", "team-42%2Fgpt-5", "")
        .json(&json!({"changes": {"handle": "team-42/gpt-6"}, "why": "test"}));
    let renamed = renamed.send(door.to).expect(200).json();
    assert_eq!((&renamed["id"], &renamed["handle"]), (&json!("7"), &json!("team-42/gpt-6")));
    // The board still has the old name, and that is nobody's.
    let gone = get("/v1/budgets/team-42%2Fgpt-5").send(door.to).problem(404, "unknown");
    assert!(gone["detail"].as_str().unwrap().contains("\"team-42/gpt-5\""), "{gone}");
    let named = "/v1/budgets/team-42%2Fgpt-6";
    let paused = call("POST", format!("{named}/pause")).json(&json!({"why": "test"}));
    assert_eq!(paused.send(door.to).expect(200).json()["status"], "paused");
    let resumed = call("POST", format!("{named}/resume")).json(&json!({"why": "test"}));
    assert_eq!(resumed.send(door.to).expect(200).json()["id"], "7");
    get(format!("{named}/history")).send(door.to).expect(200);
    get(format!("{named}/refusals")).send(door.to).expect(200);
    get("/v1/budgets/nobody/history").send(door.to).problem(404, "unknown");
    let records = get("/v1/audit?budget=team-42/gpt-6").send(door.to).expect(200).json();
    assert_eq!(records["records"].as_array().unwrap().len(), 3);
    get("/v1/audit?budget=nobody").send(door.to).problem(404, "unknown");
    get("/v1/audit?budget=007").send(door.to).problem(400, "malformed");
    let select = json!({"ids": ["team-42/gpt-6", "1"]});
    let pause = |select: &Value| {
        let body = json!({"action": "pause", "select": select, "expected": 2, "dry_run": true, "why": "test"});
        call("POST", "/v1/bulk").json(&body).send(door.to)
    };
    let rows = pause(&select).expect(200).json();
    assert_eq!((&rows["rows"][0]["id"], &rows["changed"]), (&json!("7"), &json!(2)));
    pause(&json!({"ids": ["team-42/gpt-6", "7"]})).problem(400, "malformed");
    pause(&json!({"ids": ["team-42/gpt-5", "1"]})).problem(404, "unknown");
    let cleared = by("PATCH", "7", "").with("If-Match", "\"4\"");
    let cleared = cleared.json(&json!({"changes": {"handle": null}, "why": "test"}));
    assert_eq!(cleared.send(door.to).status, 412, "the first If-Match counts");
}

#[test]
fn ten_thousand_budgets_at_once() {
    let door = Door::open(10_500);
    let body = |dry_run: bool| {
        json!({"action": "scale", "changes": {"limit_ppm": 1_100_000}, "expected": 9_449, "dry_run": dry_run, "why": "more room",
            "select": {"filter": "unit:USD", "q": "ann", "except": ["17"]}})
    };
    let dry = call("POST", "/v1/bulk").json(&body(true)).send(door.to).expect(200).json();
    assert_eq!(
        (&dry["changed"], &dry["record"], &dry["dry_run"]),
        (&json!(9_449), &Value::Null, &json!(true))
    );
    let effect = &dry["effect"][0];
    assert_eq!(dry["effect"].as_array().unwrap().len(), 1);
    assert_eq!((&effect["unit"], &effect["limit_before"]), (&json!("USD"), &json!("9449000.00")));
    assert_eq!(effect["limit_after"], "10393900.00");
    assert_eq!(door.node.edits(), 0);

    let first = bulk(&door, "0123-4567", &body(false)).expect(200);
    assert_eq!(first.header("idempotent-replay"), None);
    let answer = first.json();
    assert_eq!((&answer["matched"], &answer["changed"]), (&json!(9_449), &json!(9_449)));
    assert_eq!(answer["rows"][0]["after"], json!({"limit": "1100.00"}));
    assert_eq!(
        (door.node.field(1, "limit"), door.node.field(17, "limit")),
        (json!("1100.00"), json!("1000.00"))
    );

    // By now the filter matches other budgets; the key stands for the first answer all the same.
    door.node.unready(Some("disk full"));
    door.publish(NOW_MS + 2_000);
    let again = bulk(&door, "0123-4567", &body(false)).expect(200);
    assert_eq!(again.header("idempotent-replay"), Some("true"));
    let again = again.json();
    assert_eq!((&again["record"], &again["rows"]), (&answer["record"], &answer["rows"]));
    assert_eq!(door.node.edits(), 1);
    let mut other = body(false);
    other["why"] = json!("something else");
    bulk(&door, "0123-4567", &other).problem(409, "key_reused");
    bulk(&door, "0123-4568", &body(false)).problem(503, "journal");
}

#[test]
fn what_moved_meanwhile_is_not_changed() {
    let door = Door::open(50);
    let body =
        json!({"action": "pause", "select": {"filter": "unit:USD"}, "expected": 44, "why": "test"});
    let moved = bulk(&door, "11111111", &body).problem(409, "moved");
    assert_eq!((&moved["found"], &moved["expected"]), (&json!("45"), &json!("44")));
    assert_eq!(door.node.edits(), 0);
    // A scale counts from what the page saw: a limit that changed since is refused, not multiplied.
    patch(3, "\"1\"", &json!({"limit": "5"})).send(door.to).expect(200);
    let body = json!({"action": "scale", "changes": {"limit_ppm": 2_000_000}, "select": {"ids": ["3", "4", "99"]}, "expected": 3, "why": "test"});
    let answer = bulk(&door, "22222222", &body).expect(200).json();
    let results: Vec<&Value> =
        answer["rows"].as_array().unwrap().iter().map(|row| &row["result"]).collect();
    assert_eq!(results, [&json!("refused"), &json!("changed"), &json!("refused")]);
    assert_eq!(answer["rows"][0]["problem"]["status"], 412);
    assert_eq!(
        (&answer["rows"][2]["id"], &answer["rows"][2]["problem"]["status"]),
        (&json!("99"), &json!(404))
    );
    assert_eq!(door.node.field(3, "limit"), "5");
}

#[test]
fn a_scale_never_overflows() {
    let door = Door::open(10);
    patch(10, "\"1\"", &json!({"limit": "900000000000000000"})).send(door.to).expect(200);
    door.publish(NOW_MS + 2_000);
    let body = json!({"action": "scale", "changes": {"limit_ppm": 100_000_000}, "select": {}, "expected": 10, "why": "test"});
    let answer = bulk(&door, "33333333", &body).expect(200).json();
    assert_eq!((&answer["changed"], &answer["refused"]), (&json!(9), &json!(1)));
    let row = &answer["rows"][9];
    assert_eq!((&row["id"], &row["problem"]["status"]), (&json!("10"), &json!(422)));
    assert!(
        row["problem"]["detail"]
            .as_str()
            .unwrap()
            .contains("900000000000000000 times 100000000 millionths")
    );
}

#[test]
fn a_record_is_taken_back_once() {
    let door = Door::open(40);
    let body = json!({"action": "pause", "select": {}, "expected": 40, "why": "wrong creative"});
    let record =
        bulk(&door, "44444444", &body).expect(200).json()["record"].as_str().unwrap().to_string();
    let listed = get("/v1/audit?max=1").send(door.to).expect(200).json();
    assert_eq!((&listed["records"][0]["rows"], &listed["next"]), (&json!(40), &Value::Null));
    assert_eq!(listed["records"][0]["changes"].as_array().unwrap().len(), 20);
    let whole = get(format!("/v1/audit/{record}")).send(door.to).expect(200).json();
    assert_eq!(whole["changes"].as_array().unwrap().len(), 40);
    let undo = |key: &str| {
        let call = call("POST", format!("/v1/audit/{record}/undo")).with("Idempotency-Key", key);
        call.json(&json!({"why": "it was right"})).send(door.to)
    };
    let undone = undo("55555555").expect(200).json();
    assert_eq!(undone["changed"], 40);
    assert_eq!(undo("55555555").expect(200).header("idempotent-replay"), Some("true"));
    undo("66666666").problem(409, "undone");
    let listed = get("/v1/audit?max=1").send(door.to).expect(200).json();
    assert_eq!((&listed["records"][0]["undo_of"], &listed["next"]), (&json!(record), &json!("2")));
    let older = get("/v1/audit?max=1&cursor=2").send(door.to).expect(200).json();
    assert_eq!(older["records"][0]["undone_by"], "2");
    let missing = call("POST", "/v1/audit/99/undo")
        .with("Idempotency-Key", "77777777")
        .json(&json!({"why": "test"}));
    missing.send(door.to).problem(404, "unknown");
}

#[test]
fn a_dry_run_of_an_undo_says_what_it_comes_to_and_does_nothing() {
    let door = Door::open(40);
    let body = json!({"action": "set", "changes": {"limit": "7"}, "select": {"ids": ["1", "2"]}, "expected": 2, "why": "test"});
    let set = bulk(&door, "88888888", &body).expect(200).json();
    let undo = |body: Value| {
        let record = set["record"].as_str().unwrap();
        call("POST", format!("/v1/audit/{record}/undo")).json(&body)
    };
    let told = undo(json!({"why": "test", "dry_run": true})).send(door.to).expect(200).json();
    let counts = (&told["dry_run"], &told["record"], &told["changed"]);
    assert_eq!(counts, (&json!(true), &Value::Null, &json!(2)));
    assert_eq!(told["rows"][0]["before"], set["rows"][0]["after"]);
    assert_eq!(told["rows"][0]["after"], set["rows"][0]["before"]);
    let (now, then) = (&set["effect"][0], &told["effect"][0]);
    assert_eq!(
        (&then["limit_before"], &then["limit_after"]),
        (&now["limit_after"], &now["limit_before"])
    );
    assert_eq!((door.node.field(1, "limit"), door.node.edits()), (json!("7"), 1));
    // In earnest it needs a key, and is not taken for the dry run.
    undo(json!({"why": "test"})).send(door.to).problem(400, "malformed");
    let done = undo(json!({"why": "test"})).with("Idempotency-Key", "99999999");
    assert_eq!(done.send(door.to).expect(200).json()["changed"], 2);
    assert_eq!(door.node.edits(), 2);
    undo(json!({"why": "test", "dry_run": true})).send(door.to).problem(409, "undone");
}

#[test]
fn readiness_says_why() {
    let door = Door::open(1);
    assert_eq!(get("/readyz").send(door.to).expect(200).text(), "ready\n");
    door.node.unready(Some("the journal cannot seal: disk full"));
    let problem = get("/readyz").send(door.to).problem(503, "not_ready");
    assert_eq!(problem["detail"], "the journal cannot seal: disk full");
    get("/healthz").send(door.to).expect(200);
    let pause = call("POST", "/v1/budgets/1/pause").json(&json!({"why": "test"}));
    pause.send(door.to).problem(503, "journal");
}
