//! Campaigns that change while bids are out, what is refused, and the commands that explain.

use std::io::Write;
use std::path::Path;
use std::process::Output;

use serde_json::{Value, json};

use crate::openrtb::{Http, campaign, check_no_violation, imp, lines, patient, request, wait_warm};
use crate::support::{Node, Setup, output, stderr, stdout, text, wait_for, weir};

fn run(arguments: &[&str]) -> Output {
    output(weir().args(arguments))
}

fn check_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", stdout(output), stderr(output));
}

#[test]
fn bids_of_former_campaigns_still_book() {
    let capped = json!({"caps": [{"per": "day", "max": 9}]});
    let node = patient(&[campaign(1, capped), campaign(2, json!({"bid": "1.00"}))]).start();
    let mut http = Http::to(&node);
    wait_warm(&node);
    let of_one = |http: &mut Http, id: &str| {
        http.bid_when("the first campaign", &request(id, json!({})), |bid| bid.campaign == 1)
    };
    let out: Vec<_> = ["a", "b", "c"].map(|id| of_one(&mut http, id)).into();
    // It pays less now.
    node.reload(&lines(&[
        campaign(1, json!({"bid": "1.50"})),
        campaign(2, json!({"bid": "1.00"})),
    ]));
    http.bid_when("the new price", &request("d", json!({})), |bid| {
        (bid.campaign, bid.price_micros) == (1, 1_500_000)
    });
    assert_eq!([http.win(&out[0]), http.bill(&out[0])], [204; 2]);
    assert_eq!(node.budget(1).settled, 2_000, "the price that was sent");
    // A plain budget now, and then not in the file at all.
    let plain = json!({"id": 1, "limit": "1000"});
    node.reload(&lines(&[plain, campaign(2, json!({"bid": "1.00"}))]));
    http.bid_when("the other campaign", &request("e", json!({})), |bid| bid.campaign == 2);
    assert_eq!(http.bill(&out[1]), 204);
    node.reload(&lines(&[campaign(2, json!({"bid": "1.00"}))]));
    assert_eq!(http.bill(&out[2]), 204);
    let books = node.budget(1);
    assert_eq!(books.settled + books.over_settled + books.late, 3 * 2_000, "{books:?}");
    check_no_violation(&node);
}

#[test]
fn campaigns_change_under_load_without_a_wrong_answer() {
    let version = |n: u64| {
        let bid = format!("{}.00", 1 + n % 5);
        lines(&[campaign(n % 7 + 1, json!({"bid": bid})), campaign(9, json!({"bid": "0.50"}))])
    };
    // Each file leaves one of two campaigns out.
    let setup = patient(&[campaign(9, json!({"bid": "0.50"}))]);
    let node = setup.with("budgets.end_share_max_percent", "100").start();
    let mut http = Http::to(&node);
    http.bid_soon(&request("first", json!({})));
    std::thread::scope(|scope| {
        let reloads = scope.spawn(|| (0..15).for_each(|n| node.reload(&version(n))));
        let mut bids = Vec::new();
        while !reloads.is_finished() {
            let requests: Vec<Value> = (0..20).map(|n| request(n, json!({}))).collect();
            bids.extend(http.bids_in_one(&requests).concat());
            for bid in bids.drain(..) {
                assert_eq!(http.bill(&bid), 204);
            }
        }
    });
    check_no_violation(&node);
    let stat = node.stat();
    assert!(stat["bank"]["budgets"].as_u64() >= Some(2), "{stat:#}");
}

/// Replaces the file and waits until it is refused; what was told.
fn refused(node: &Node, text: &str) -> String {
    let refused = |stat: &Value| stat["budgets_file"]["refused"].as_u64().unwrap();
    let before = refused(&node.stat());
    node.replace_budgets(text);
    let stat = node.wait_stat("the refusal", |stat| refused(stat) > before);
    stat["budgets_file"]["errors"].to_string()
}

#[test]
fn a_file_that_is_refused_leaves_everything_as_it_was() {
    let node = patient(&[campaign(1, json!({}))]).start();
    let mut http = Http::to(&node);
    let bid = http.bid_soon(&request("a", json!({})));
    let bad = lines(&[campaign(1, json!({"bid": "7.00"})), campaign(2, json!({"bid": "free"}))]);
    let said = refused(&node, &bad);
    assert!(said.contains("budgets.jsonl:2: ") && said.contains("free"), "{said}");
    let foreign = [
        campaign(1, json!({"bid": "7.00"})),
        json!({"id": 5, "limit": "1", "unit": "EUR"}),
        campaign(3, json!({"unit": "EUR"})),
        campaign(4, json!({"unit": "JPY"})),
    ];
    let said = refused(&node, &lines(&foreign));
    for what in ["budgets.jsonl:3: ", "EUR", "budgets.jsonl:4: ", "JPY", "openrtb.currency is USD"]
    {
        assert!(said.contains(what), "{what} in {said}");
    }
    assert!(!said.contains("budgets.jsonl:2:"), "a plain budget may have any unit: {said}");
    let next = http.bid_soon(&request("b", json!({})));
    assert_eq!((next.campaign, next.price_micros), (1, 2_000_000));
    assert_eq!(http.bill(&bid), 204);
    // The same from the command line, and as a start.
    let file = node.budgets_file();
    let checked = run(&["check", "--budgets", text(&file)]);
    check_code(&checked, 1);
    for what in ["budgets.jsonl:3: ", "budgets.jsonl:4: ", "2 error(s)"] {
        assert!(stderr(&checked).contains(what), "{what} in {}", stderr(&checked));
    }
    let started = output(&mut patient(&foreign).command());
    check_code(&started, 1);
    assert!(stderr(&started).contains("budgets.jsonl:3: "), "{}", stderr(&started));
    node.replace_budgets(&lines(&[campaign(1, json!({})), foreign[1].clone()]));
    check_code(&run(&["check", "--budgets", text(&file)]), 0);
}

fn why(node: &Node, campaign: u64) -> Value {
    let target = node.admin.to_string();
    let asked = run(&["why", &campaign.to_string(), "--target", &target, "--json"]);
    check_code(&asked, 0);
    serde_json::from_str(&stdout(&asked)).unwrap()
}

#[test]
fn the_counters_of_why_add_up_to_what_was_surveyed() {
    let deals = json!({"deals": ["d"], "deals_only": true});
    let campaigns = [
        campaign(1, json!({"bid": "5.00", "targeting": {"domains": {"any": ["site.example"]}}})),
        campaign(2, json!({"bid": "3.00", "seat": "s2"})),
        campaign(3, json!({"bid": "4.00", "targeting": deals})),
        campaign(4, json!({"bid": "0.10"})),
        campaign(5, json!({"bid": "6.00", "caps": [{"per": "day", "max": 1}]})),
        json!({"id": 6, "limit": "1"}),
    ];
    let node = patient(&campaigns).with("openrtb.survey_every", "1").start();
    let mut http = Http::to(&node);
    wait_warm(&node);
    let mut impressions = 0;
    for number in 0..60 {
        let floor = imp("1", json!({"bidfloor": 1.0}));
        let fields = match number % 4 {
            0 => json!({"imp": [floor]}),
            1 => json!({"imp": [floor], "site": {"domain": "other.example"}}),
            2 => json!({"imp": [floor], "bseat": ["s2"]}),
            _ => json!({"imp": [floor, imp("2", json!({}))]}),
        };
        impressions += fields["imp"].as_array().unwrap().len() as u64;
        http.bids(&request(number, fields));
    }
    let all: Vec<Value> = (1..=5).map(|id| why(&node, id)).collect();
    for answer in &all {
        assert_eq!(answer["surveyed"], impressions, "{answer:#}");
        let counts = answer["counts"].as_object().unwrap();
        let sum: u64 = counts.values().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(sum, impressions, "{answer:#}");
    }
    for (id, reason, count) in
        [(1, "targeting", 15), (2, "seat", 15), (3, "targeting", 75), (4, "floor", 60)]
    {
        assert_eq!(all[id - 1]["counts"][reason], count, "{:#}", all[id - 1]);
    }
    assert!(all[0]["counts"]["bid"].as_u64() > Some(0), "{:#}", all[0]);
    assert!(all[1]["counts"]["outbid"].as_u64() > Some(0), "{:#}", all[1]);
    assert!(all[4]["counts"]["cap"].as_u64() > Some(0), "{:#}", all[4]);
    let target = node.admin.to_string();
    let told = run(&["why", "4", "--target", &target]);
    check_code(&told, 0);
    let told = stdout(&told);
    assert!(told.contains("75 impressions surveyed") && told.contains("below the floor"), "{told}");
    let second = told.lines().nth(1).unwrap();
    assert!(
        second.starts_with("active since 2") || second.starts_with("limited since 2"),
        "{told}"
    );
    assert!(told.contains("what keeps it most from those that it wants: "), "{told}");
    for unknown in ["6", "99"] {
        let told = run(&["why", unknown, "--target", &target]);
        check_code(&told, 1);
        assert!(stderr(&told).contains("no campaign"), "{}", stderr(&told));
    }
}

#[test]
fn one_request_is_explained_without_a_node() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        text_of(&path)
    };
    let campaigns = [
        campaign(1, json!({"name": "the winner"})),
        campaign(2, json!({"targeting": {"geo": {"any": ["DEU"]}}})),
        campaign(3, json!({"bid": "1.00"})),
        campaign(4, json!({"bid": "0.10"})),
    ];
    let file = write("campaigns.jsonl", &lines(&campaigns));
    let floor = imp("slot", json!({"bidfloor": 0.5}));
    let body = write("request.json", &request("asked", json!({"imp": [floor]})).to_string());
    let told = run(&["why", "--request", &body, "--budgets", &file]);
    check_code(&told, 0);
    let said = stdout(&told);
    for what in [
        "request asked, 4 campaigns",
        "impression slot",
        "wants geo?",
        "3 of 4 left",
        "campaign 1 the winner bids 2.000000 CPM",
    ] {
        assert!(said.contains(what), "{what} in {said}");
    }
    let told = run(&["why", "4", "--request", &body, "--budgets", &file]);
    check_code(&told, 0);
    assert!(stdout(&told).contains("does not bid: floor"), "{}", stdout(&told));
    let told = run(&["why", "--all", "--request", &body, "--budgets", &file]);
    check_code(&told, 0);
    for id in 1..=4 {
        assert!(stdout(&told).contains(&format!("campaign {id} ")), "{}", stdout(&told));
    }
    let missing = text_of(&folder.path().join("none"));
    let cut = write("cut.json", "{\"id\":\"1\"");
    let foreign = write("foreign.jsonl", &lines(&[campaign(1, json!({"unit": "EUR"}))]));
    for (request, campaigns, expected) in [
        (&missing, &file, "none: "),
        (&cut, &file, "expected one bid request"),
        (&body, &missing, "none: cannot be read"),
        (&body, &cut, "cut.json: a budgets file is called"),
        (&body, &foreign, "foreign.jsonl:1: campaign 1 is in EUR"),
    ] {
        let told = run(&["why", "--request", request, "--budgets", campaigns]);
        check_code(&told, 1);
        assert!(stderr(&told).contains(expected), "{expected} in {}", stderr(&told));
    }
    check_code(&run(&["why"]), 2);
}

fn text_of(path: &Path) -> String {
    text(path).to_string()
}

/// Loads a file of segments into the data folder of a node that does not run.
fn load_profiles(setup: &Setup, more: &[&str], lines: &[u8]) -> Output {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines).unwrap();
    let mut command = weir();
    command.arg("profiles").arg(file.path()).arg("--data").arg(setup.data()).args(more);
    output(&mut command)
}

#[test]
fn segments_from_a_file_are_there_when_the_node_starts() {
    let wants = json!({"bid": "9.00", "targeting": {"segments": {"any": ["gold"]}}});
    let setup = patient(&[campaign(1, wants), campaign(2, json!({}))]);
    let nowhere = load_profiles(&setup, &[], b"ann,gold\n");
    check_code(&nowhere, 1);
    assert!(stderr(&nowhere).contains("is not the data folder of a node; start a node on it once"));
    assert!(!setup.data().exists(), "a typing error makes no folder");
    drop(setup.clone().start());
    let empty = load_profiles(&setup, &[], b"\n");
    check_code(&empty, 1);
    assert!(stderr(&empty).contains("nothing was loaded"), "{}", stderr(&empty));
    let loaded =
        load_profiles(&setup, &[], b"ann,gold,x\nbob,y\n\n,gold\ncid\n\xff,z\nann,,gold\n");
    check_code(&loaded, 1);
    let told = ":4: found no user before the first comma, expected user,segment[,segment...]";
    assert!(stderr(&loaded).contains(told), "{}", stderr(&loaded));
    let said = stdout(&loaded);
    for what in [
        "7 lines: 2 loaded, 1 empty",
        "no user before the first comma, lines 4",
        "no segment after the user, lines 5",
        "not UTF-8, lines 6",
        "a segment without a name, lines 7",
    ] {
        assert!(said.contains(what), "{what} in {said}");
    }
    check_code(&load_profiles(&setup, &["--add"], b"bob,gold\n"), 0);
    let node = setup.clone().start();
    let mut http = Http::to(&node);
    wait_warm(&node);
    let of = |user: &str| request("p", json!({"user": {"id": user}}));
    for user in ["ann", "bob"] {
        http.bid_when("who is in the segment", &of(user), |bid| bid.campaign == 1);
    }
    http.bid_when("who is not", &of("cid"), |bid| bid.campaign == 2);
    // A running node's profiles are its own.
    let loaded = load_profiles(&setup, &[], b"cid,gold\n");
    check_code(&loaded, 1);
    assert!(stderr(&loaded).contains("in use by another node"), "{}", stderr(&loaded));
    drop(node);
    check_code(&load_profiles(&setup, &[], b"ann,x\n"), 0);
    let node = setup.start();
    let mut http = Http::to(&node);
    wait_warm(&node);
    // Replaced, not added to.
    wait_for("the one without the segment", || {
        let bob = http.bid(&of("bob")).map(|bid| bid.campaign);
        let ann = http.bid(&of("ann")).map(|bid| bid.campaign);
        (bob, ann) == (Some(1), Some(2))
    });
    let data = node.data().parent().unwrap().to_path_buf();
    std::fs::create_dir(data.join("journal")).unwrap();
    let told = run(&["profiles", "nowhere.csv", "--data", text(&data)]);
    check_code(&told, 1);
    assert!(stderr(&told).contains("nowhere.csv"), "{}", stderr(&told));
}
