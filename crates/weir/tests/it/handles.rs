//! Budgets by their handles, from the admin API to the doors: made, asked, renamed, kept apart. And one in nanos on the same way.

use serde_json::{Value, json};
use wire::Verdict;

use crate::openrtb::{Answer, Http};
use crate::spend::{Caller, patient};
use crate::support::{Node, line, output, stderr, stdout, text, wait_for, wait_value, weir};

/// A call of the admin API.
fn admin(node: &Node, call: &str, headers: &str, body: &Value) -> Answer {
    let mut http = Http::connect(node.admin);
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
    let length = body.len();
    let head = format!(
        "{call} HTTP/1.1\r\nHost: localhost\r\n{kind}{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    http.send(head.as_bytes());
    http.receive()
}

fn look(node: &Node, path: &str) -> Answer {
    admin(node, &format!("GET {path}"), "", &Value::Null)
}

fn create(node: &Node, budget: &Value) -> Answer {
    admin(node, "POST /v1/budgets", "", &json!({"budget": budget, "why": "a test"}))
}

/// Changes fields of a budget as it is now.
fn patch(node: &Node, name: &str, changes: &Value) -> Answer {
    let path = format!("/v1/budgets/{name}");
    let tag = format!("If-Match: {}\r\n", look(node, &path).header("etag").unwrap());
    let body = json!({"changes": changes, "why": "a test"});
    admin(node, &format!("PATCH {path}"), &tag, &body)
}

fn new(id: &str, handle: &str) -> Value {
    json!({"id": id, "handle": handle, "name": "made by a test", "unit": "USD", "limit": "10"})
}

/// A limit that is read and written back is the same, also one below a cent, of a currency without cents, in nanos or of items.
#[test]
fn what_was_read_is_written_back_and_changes_nothing() {
    let terms = [
        ("1234567.89", r#","unit":"USD","daily":"2.000001""#),
        ("0.000001", r#","unit":"JPY","daily":"0.000001""#),
        ("10", r#","unit":"EURn","daily":"0.000000001""#),
        ("9", r#","unit":"count","daily":"2""#),
    ];
    let lines = (1..).zip(terms).map(|(id, (limit, more))| line(id, limit, more));
    let numbers = r#"{"id":5,"limit":1000,"daily":50,"windows":{"month":900,"hour":{"limit":9,"kind":"bucket"}}}"#;
    let node = patient(&(lines.collect::<String>() + numbers + "\n")).start();
    for id in 1..=5 {
        let path = format!("/v1/budgets/{id}");
        wait_for("the survey", || look(&node, &path).status == 200);
        let (seen, read) = (look(&node, &path), look(&node, &path).json());
        let mut changes = json!({"limit": read["limit"], "daily": read["daily"]});
        if id == 5 {
            changes = json!({"limit": read["config"]["limit"], "daily": read["config"]["daily"], "windows": read["config"]["windows"]});
            assert_eq!(changes["limit"], "1000", "the file has a whole number");
        }
        let written = patch(&node, &id.to_string(), &changes);
        assert_eq!(written.status, 200, "{}", written.json());
        assert_eq!(written.header("etag"), seen.header("etag"));
        let after = written.json();
        assert_eq!((&after["limit"], &after["daily"]), (&read["limit"], &read["daily"]));
    }
    assert_eq!(look(&node, "/v1/audit").json()["records"], json!([]), "nothing was changed");
}

#[test]
fn a_millionfold_slip_is_refused_until_it_is_confirmed() {
    let node = patient(&(line(1, "10100.00", "") + &line(2, "5", ""))).start();
    let slip = json!({"limit": "10100000000"});
    let refused = patch(&node, "1", &slip);
    let told = refused.json()["detail"].to_string();
    assert!(refused.status == 422 && told.contains("confirm_large"), "{told}");
    assert_eq!(look(&node, "/v1/budgets/1").json()["limit"], "10100.00");
    let bulk = |confirm_large: bool, dry_run: bool| {
        let body = json!({"action": "set", "changes": slip, "select": {"ids": ["1", "2"]}, "expected": 2,
            "dry_run": dry_run, "confirm_large": confirm_large, "why": "a test"});
        let key = if dry_run { "" } else { "Idempotency-Key: 0123-4567\r\n" };
        admin(&node, "POST /v1/bulk", key, &body).json()
    };
    let answer = bulk(false, true);
    assert_eq!((&answer["refused"], &answer["changed"]), (&json!(2), &json!(0)), "{answer}");
    let answer = bulk(true, true);
    assert_eq!((&answer["changed"], &answer["rows"][0]["large"]), (&json!(2), &json!(true)));
    let record = bulk(true, false)["record"].as_str().unwrap().to_owned();
    let record = look(&node, &format!("/v1/audit/{record}")).json();
    assert_eq!(record["changes"][1]["large"], true, "{record}");
}

/// Between two surveys, too.
#[test]
fn what_is_spent_of_a_budget_is_as_new_as_its_lines() {
    let node = patient(&line(1, "10", r#","daily":"8""#)).with("admin.tick_ms", "60000").start();
    wait_for("the first survey", || look(&node, "/v1/budgets/1").json()["lines"]["free"] != "0");
    let mut client = node.client();
    let token = client.grant(1, 2_000_000);
    assert_eq!(client.settle(token, 2_000_000).0, Verdict::Settled);
    let found = look(&node, "/v1/budgets/1").json();
    let settled = &found["lines"]["settled"];
    assert_eq!([&found["spent"], &found["day_spent"]], [settled; 2], "{found:#}");
    assert_eq!(settled, "2.00");
}

/// Spends until the door knows the handle: workers hear of changes soon after they are answered.
fn spend(node: &Node, handle: &str) {
    let mut caller = Caller::to(node);
    wait_for("the handle at the spend door", || {
        let (status, answer) =
            caller.call("spend", &json!({"budget": handle, "amount": "0.000001"}));
        assert!(status == 200 || answer["verdict"] == "unknown_budget", "{answer}");
        status == 200
    });
}

/// Waits until no door knows the handle.
fn is_nobodys(node: &Node, handle: &str) {
    let (mut caller, mut client) = (Caller::to(node), node.client());
    wait_for("the end of the handle", || {
        let (_, answer) = caller.call("spend", &json!({"budget": handle, "amount": "0.000001"}));
        answer["verdict"] == "unknown_budget" && client.find(handle) == Err(Verdict::UnknownBudget)
    });
}

#[test]
fn a_handle_made_by_the_api_is_known_at_all_doors_and_may_change() {
    let node = patient(&line(1, "10", "")).start();
    let made = create(&node, &new("7", "team-42/gpt-5"));
    assert_eq!((made.status, &made.json()["handle"]), (201, &json!("team-42/gpt-5")));
    spend(&node, "team-42/gpt-5");
    let mut client = node.client();
    assert_eq!(client.find("team-42/gpt-5"), Ok(7));
    let token = client.grant(7, 2);

    let named = "/v1/budgets/team-42%2Fgpt-5";
    let shown = look(&node, named);
    assert_eq!((shown.status, &shown.json()["id"]), (200, &json!("7")));
    let paused = admin(&node, &format!("POST {named}/pause"), "", &json!({"why": "a test"}));
    assert_eq!((paused.status, &paused.json()["status"]), (200, &json!("paused")));
    let resumed = admin(&node, &format!("POST {named}/resume"), "", &json!({"why": "a test"}));
    assert_eq!(resumed.status, 200);

    let renamed = patch(&node, "team-42%2Fgpt-5", &json!({"handle": "team-42/gpt-6"}));
    assert_eq!((renamed.status, &renamed.json()["handle"]), (200, &json!("team-42/gpt-6")));
    spend(&node, "team-42/gpt-6");
    is_nobodys(&node, "team-42/gpt-5");
    assert_eq!(look(&node, named).status, 404);
    // A hold from before the change stays the budget's.
    assert_eq!(client.settle(token, 2).0, Verdict::Settled);
    assert_eq!(client.find("team-42/gpt-6"), Ok(7));
    drop(client);

    let node = node.restart();
    spend(&node, "team-42/gpt-6");
    is_nobodys(&node, "team-42/gpt-5");
    assert_eq!(look(&node, "/v1/budgets/team-42%2Fgpt-6").json()["id"], "7");
    assert_eq!(node.budget(7).settled, 5);
    let records = look(&node, "/v1/audit?budget=team-42/gpt-6").json();
    let actions: Vec<_> =
        records["records"].as_array().unwrap().iter().map(|record| &record["action"]).collect();
    assert_eq!(actions, ["set", "resume", "pause", "create"]);
    let audit = output(weir().args([
        "journal",
        "audit",
        "--budget",
        "team-42/gpt-6",
        "--data",
        text(&node.data()),
    ]));
    assert!(stdout(&audit).contains("budget 7 team-42/gpt-6: limit 10.00"), "{}", stderr(&audit));
    let nobody =
        output(weir().args(["journal", "audit", "--budget", "x", "--data", text(&node.data())]));
    assert_eq!(nobody.status.code(), Some(2), "{}", stdout(&nobody));
}

#[test]
fn a_handle_is_one_live_budgets() {
    let budgets = line(1, "10", ",\"handle\":\"shop\"") + &line(2, "10", ",\"handle\":\"shop/b\"");
    let node = patient(&budgets).start();
    let taken = |answer: Answer, holder: u64| {
        let problem = answer.json();
        assert_eq!(
            (answer.status, &problem["type"]),
            (409, &json!("/docs/api#exists")),
            "{problem}"
        );
        assert_eq!(problem["field"], "handle");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(&format!("is that of budget {holder};")), "{detail}");
    };
    taken(create(&node, &new("7", "shop")), 1);
    taken(patch(&node, "2", &json!({"handle": "shop"})), 1);
    assert_eq!(look(&node, "/v1/budgets/7").status, 404);
    for (wrong, told) in [
        ("77", "digits only"),
        ("a b", "found ' ' at character 2, expected one of"),
        ("a//b", "between slashes"),
        (&*"h".repeat(129), "129 bytes, a handle has 1 to 128"),
    ] {
        for answer in
            [create(&node, &new("7", wrong)), patch(&node, "2", &json!({"handle": wrong}))]
        {
            let problem = answer.json();
            assert_eq!((answer.status, &problem["field"]), (422, &json!("handle")), "{problem}");
            assert!(problem["detail"].as_str().unwrap().contains(told), "{problem}");
        }
    }
    // One that is given up may be another's, and is that one's at the doors.
    assert_eq!(patch(&node, "shop", &json!({"handle": null})).status, 200);
    assert_eq!(patch(&node, "2", &json!({"handle": "shop"})).status, 200);
    let mut client = node.client();
    wait_for("the other's handle", || client.find("shop") == Ok(2));
    is_nobodys(&node, "shop/b");
    // An empty text is none, as null is.
    let emptied = patch(&node, "shop", &json!({"handle": ""}));
    assert_eq!((emptied.status, &emptied.json()["handle"]), (200, &Value::Null));
    assert_eq!(create(&node, &new("8", "")).json()["handle"], Value::Null);
    is_nobodys(&node, "shop");
}

#[test]
fn a_budget_in_nanos_is_exact_from_the_door_to_the_export() {
    let budgets = line(1, "10", "") + &line(5, "1", ",\"unit\":\"USDn\",\"handle\":\"llm/nano\"");
    let node = patient(&budgets).start();
    let mut caller = Caller::to(&node);
    let granted = wait_value("a grant", || {
        let ask = json!({"budget": "llm/nano", "amount": "0.000000123", "unit": "USDn"});
        let (status, answer) = caller.call("reserve", &ask);
        (status == 200).then_some(answer)
    });
    assert_eq!(granted["amount"], "0.000000123");
    let settle = json!({"token": granted["token"], "amount": "0.000000021"});
    assert_eq!(caller.call("settle", &settle).0, 200);
    for _ in 0..10 {
        let ask = json!({"budget": 5, "amount": "0.000000003"});
        assert_eq!(caller.call("spend", &ask).0, 200);
    }
    let (status, answer) = caller.call("reserve", &json!({"budget": 5, "amount": "0.0000000001"}));
    assert_eq!(status, 400, "finer than a nano: {answer}");
    let (status, _) = caller.call("reserve", &json!({"budget": 5, "amount": "1", "unit": "USD"}));
    assert_ne!(status, 200, "scales are never mixed");
    node.wait_budget(5, "all settled", |books| (books.settled, books.held) == (51, 0));
    let shown = caller.get("/v1/budgets/llm/nano").json();
    assert_eq!((&shown["unit"], &shown["settled"]), (&json!("USDn"), &json!("0.000000051")));

    let path = "/v1/budgets/llm%2Fnano";
    let told = wait_value("the survey", || {
        let told = look(&node, path).json();
        (told["spent"] == "0.000000051").then_some(told)
    });
    assert_eq!((&told["unit"], &told["limit"]), (&json!("USDn"), &json!("1.00")));
    let raised = patch(&node, "5", &json!({"limit": "2.000000001"})).json();
    assert_eq!(
        (&raised["limit"], &raised["config"]["limit"]),
        (&json!("2.000000001"), &json!("2.000000001"))
    );
    let finer = patch(&node, "5", &json!({"limit": "2.0000000001"}));
    assert!([400, 422].contains(&finer.status), "{}", finer.json());
    let data = node.data();
    let period = ["--from", "2020-01-01", "--to", "2100-01-01", "--format", "csv"];
    let exported = output(weir().args(["journal", "export", "--data", text(&data)]).args(period));
    let rows = stdout(&exported);
    assert!(exported.status.success(), "{}", stderr(&exported));
    assert_eq!(
        rows.lines().filter(|row| row.contains(",5,USDn,settled,0.000000003,")).count(),
        10,
        "{rows}"
    );
    assert_eq!(
        rows.lines().filter(|row| row.contains(",5,USDn,settled,0.000000021,")).count(),
        1,
        "{rows}"
    );
    let audit =
        output(weir().args(["journal", "audit", "--budget", "llm/nano", "--data", text(&data)]));
    assert!(stdout(&audit).contains("settled 0.000000051"), "{}", stdout(&audit));
}

/// A parent may be named as every other budget is; the table for spreadsheets has handles and windows as a budgets file has them.
#[test]
fn a_parent_is_named_by_its_handle_and_the_table_has_both() {
    let node = patient(&line(1, "10", ",\"handle\":\"team-42\"")).start();
    let with = |id: &str, handle: &str, more: Value| {
        let mut budget = new(id, handle);
        budget.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        create(&node, &budget)
    };
    let windows = json!({"minute": "2", "month": {"limit": "9.5", "kind": "bucket"}});
    let made =
        with("7", "team-42/a", json!({"parent": "team-42", "windows": windows, "daily": "5"}));
    assert_eq!((made.status, &made.json()["parent"]), (201, &json!("1")), "{}", made.json());
    let made = with("8", "team-42/b", json!({"parent": "1"}));
    assert_eq!((made.status, &made.json()["parent"]), (201, &json!("1")), "{}", made.json());
    for nobody in ["team-43", "99"] {
        let refused = with("9", "team-42/c", json!({"parent": nobody}));
        assert_eq!(refused.status, 422, "{}", refused.json());
        assert!(refused.json()["detail"].as_str().unwrap().contains(nobody), "{}", refused.json());
    }
    let rows = wait_value("the table", || {
        // In pieces, with a line of their length each: no line of the table has so few columns.
        let (_, table) = node.get("/v1/budgets.csv?sort=id");
        let rows = table.lines().map(|line| line.split(',').map(String::from).collect());
        let rows: Vec<Vec<String>> = rows.filter(|row: &Vec<String>| row.len() > 9).collect();
        (rows.len() == 4).then_some(rows)
    });
    let column = |name: &str| rows[0].iter().position(|known| *known == name).unwrap();
    let of = |row: usize, name: &str| rows[row][column(name)].as_str();
    assert_eq!((of(1, "handle"), of(1, "windows"), of(1, "parent")), ("team-42", "", ""));
    let found = (of(2, "handle"), of(2, "windows"), of(2, "daily"), of(2, "parent"));
    assert_eq!(found, ("team-42/a", "minute=2.00;month=9.50b", "5.00", "1"));
    assert_eq!((of(3, "handle"), of(3, "windows")), ("team-42/b", ""));
}

#[test]
fn journal_inspect_stat_and_why_take_a_handle_as_an_id() {
    let node =
        crate::openrtb::patient(&[crate::openrtb::campaign(1, json!({"handle": "shop"}))]).start();
    spend(&node, "shop");
    let data = node.data();
    let run = |words: &[&str]| {
        let done = output(weir().args(words).args(["--data", text(&data)]));
        (done.status.code(), stdout(&done) + &stderr(&done))
    };
    let (inspect, settled) = (["journal", "inspect", "--budget"], ["--type", "settled"]);
    let of = |name: &str| run(&[&inspect[..], &[name], &settled].concat());
    let (code, records) = of("shop");
    assert_eq!((code, records.lines().count() > 0), (Some(0), true), "{records}");
    assert_eq!(of("1").1, records);
    assert_eq!(of("nobody"), (Some(0), String::new()), "no budget ever had it");
    let stat = |name: &str| run(&["stat", "--budget", name]);
    let ((code, said), (_, by_id)) = (stat("shop"), stat("1"));
    assert_eq!((code, said.contains("shop")), (Some(0), true), "{said}");
    assert_eq!(said.lines().next(), by_id.lines().next());
    assert_ne!(stat("nobody").0, Some(0));
    let why = |name: &str| run(&["why", name]);
    let ((code, said), (_, by_id)) = (why("shop"), why("1"));
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(said.lines().next(), by_id.lines().next());
    let (code, said) = why("nobody");
    assert!(code != Some(0) && said.contains("nobody"), "{code:?} {said}");
}

/// Scopes follow a budget's handle; whoever renames it is told whom that lets in, and whom out.
#[test]
fn a_rename_names_the_tokens_whose_reach_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokens");
    std::fs::write(
        &file,
        "a spend aaaaaaaaaaaaaaaa handle:llm/*\nb spend bbbbbbbbbbbbbbbb handle:team/*\n",
    )
    .unwrap();
    let lines = line(1, "10", ",\"handle\":\"llm/one\"");
    let node = patient(&lines).with("spend.tokens_file", text(&file)).start();
    let call = |token: &str, budget: &str| {
        let mut caller = Caller::to(&node).with(&format!("Authorization: Bearer {token}"));
        caller.call("reserve", &json!({"budget": budget, "amount": "1"})).0
    };
    assert_eq!((call("aaaaaaaaaaaaaaaa", "llm/one"), call("bbbbbbbbbbbbbbbb", "1")), (200, 404));
    let renamed = patch(&node, "1", &json!({"handle": "team/one"}));
    let expected = json!([{"token": "a", "gains": false}, {"token": "b", "gains": true}]);
    assert_eq!((renamed.status, &renamed.json()["reach"]), (200, &expected), "{renamed:?}");
    wait_for("the new reach at the door", || {
        (call("aaaaaaaaaaaaaaaa", "1"), call("bbbbbbbbbbbbbbbb", "team/one")) == (404, 200)
    });
    let again = patch(&node, "1", &json!({"name": "other"}));
    assert_eq!((again.status, &again.json()["reach"]), (200, &json!([])));
    let record = look(&node, "/v1/audit?budget=1").json()["records"][1]["record"].clone();
    let undo = format!("POST /v1/audit/{}/undo", record.as_str().unwrap());
    let told = admin(&node, &undo, "", &json!({"why": "a test", "dry_run": true})).json();
    let expected = json!([{"token": "a", "gains": true}, {"token": "b", "gains": false}]);
    assert_eq!(told["rows"][0]["reach"], expected, "{told:#}");
}
