//! Alerts: each once, sealed before it is sent, and sent again after a crash until the receiver has it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::spend::{Caller, patient};
use crate::support::{Node, Setup, line, output, stderr, wait_for, weir};

const SECRET: &str = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// Messages with their ids.
type Came = Vec<(String, Value)>;

/// A receiver: what came, by id; it fails while it is told to.
#[derive(Clone, Default)]
struct Inbox(Arc<Mutex<(bool, Came)>>);

impl Inbox {
    /// Opens it; returns its address.
    fn open(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/alerts", listener.local_addr().unwrap());
        let inbox = self.clone();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                let (mut id, mut length, mut signed) = (String::new(), 0, false);
                let mut lines = reader.by_ref().lines().map_while(Result::ok);
                for line in lines.by_ref().take_while(|line| !line.is_empty()) {
                    let (name, value) = line.split_once(": ").unwrap_or((&line, ""));
                    match name.to_ascii_lowercase().as_str() {
                        "webhook-id" => id = value.to_string(),
                        "content-length" => length = value.parse().unwrap(),
                        "webhook-signature" => signed = value.starts_with("v1,"),
                        _ => {}
                    }
                }
                let mut body = vec![0; length];
                reader.read_exact(&mut body).unwrap();
                let (fails, came) = &mut *inbox.0.lock().unwrap();
                let status = if *fails || !signed { "503 Busy" } else { "204 No Content" };
                came.push((id, serde_json::from_slice(&body).unwrap()));
                // Who has gone reads no answer.
                let _ = write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            }
        });
        url
    }

    fn fail(&self, fails: bool) {
        self.0.lock().unwrap().0 = fails;
    }

    fn came(&self) -> Came {
        self.0.lock().unwrap().1.clone()
    }

    fn wait(&self, count: usize) -> Came {
        wait_for(&format!("{count} alerts"), || self.came().len() >= count);
        self.came()
    }
}

fn alerting(budgets: &str, url: &str) -> Setup {
    let setup = patient(budgets).with("admin.tick_ms", "50");
    let secret = setup.folder().join("alert-secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let secret = secret.to_str().unwrap().to_string();
    setup.with("alerts.url", url).with("alerts.secret_file", &secret)
}

fn spend(node: &Node, budget: &Value, amount: &str) {
    let body = json!({"budget": budget, "amount": amount}).to_string();
    let answer = Caller::to(node).post("/v1/spend", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
}

#[test]
fn a_share_is_told_once_and_again_after_a_kill_until_the_receiver_has_it() {
    let inbox = Inbox::default();
    let url = inbox.open();
    let template = r#"{"template":"llm/{team}","limit":"2","windows":{"month":"1"},"alerts":[1]}"#;
    let budgets = line(1, "10", r#","alerts":[0.5,0.8]"#) + &line(2, "10", "") + template + "\n";
    let mut node = alerting(&budgets, &url).start();
    spend(&node, &json!(2), "10");
    spend(&node, &json!(1), "5");
    let (id, first) = inbox.wait(1)[0].clone();
    assert_eq!(first["type"], "budget.threshold");
    let data = &first["data"];
    let told =
        [&data["budget"], &data["window"], &data["threshold"], &data["spent"], &data["limit"]];
    assert_eq!(told, ["1", "limit", "0.5", "5.00", "10.00"]);
    node.wait_stat("it is noted", |stat| stat["alerts"]["delivered"] == 1);
    inbox.fail(true);
    spend(&node, &json!(1), "3");
    spend(&node, &json!("llm/a"), "1");
    let failed = inbox.wait(3);
    node.signal("KILL");
    node.wait_end();
    inbox.fail(false);
    let node = node.restart();
    let again = inbox.wait(5);
    let ids = |of: &[(String, Value)]| of.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    let (mut before, mut after) = (ids(&failed[1..3]), ids(&again[3..5]));
    before.sort();
    after.sort();
    assert_eq!(before, after, "the same ids");
    assert!(!after.contains(&id), "what arrived is not sent again");
    let of = |budget: &str| again.iter().rev().find(|(_, one)| one["data"][budget] != Value::Null);
    assert!(of("handle").is_some_and(|(_, one)| one["data"]["window"] == "month"), "{again:?}");
    node.wait_stat("all are noted", |stat| stat["alerts"]["delivered"] == 2);
    // A file that cannot be taken, and then again one that can.
    node.replace_budgets("no budget\n");
    let refused = inbox.wait(6)[5].1.clone();
    assert_eq!(
        (&refused["type"], &refused["data"]["file"]),
        (&json!("file.refused"), &json!("budgets"))
    );
    node.wait_stat("it is noted", |stat| stat["alerts"]["delivered"] == 3);
    node.reload(&budgets);
    let node = node.restart();
    node.wait_stat("a look", |stat| stat["alerts"]["waiting"] == 0);
    assert_eq!(inbox.came().len(), 6, "{:?}", inbox.came());
}

#[test]
fn a_receiver_that_cannot_be_used_is_told_of_before_and_at_the_start() {
    let check = |setup: &Setup| {
        stderr(&output(
            weir().arg("check").arg("--budgets").arg(setup.budgets_file()).envs(environment(setup)),
        ))
    };
    let setup = alerting(&line(1, "1", ""), "https://127.0.0.1:1/x");
    std::fs::write(setup.folder().join("alert-secret"), "hello\n").unwrap();
    let alone = Setup::new(&line(1, "1", r#","alerts":[1]"#));
    assert!(check(&alone).contains("alert nobody: alerts.url is empty"), "{}", check(&alone));
    let told = check(&setup);
    assert!(told.contains("alerts.secret_file") && told.contains("whsec_"), "{told}");
    let refused = setup.try_start().err().unwrap();
    assert!(refused.contains("alerts.secret_file"), "{refused}");
}

/// What a node is given by its environment, for another command.
fn environment(setup: &Setup) -> Vec<(String, String)> {
    let command = setup.command();
    let given = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    given
        .map(|(name, value)| (name.to_str().unwrap().into(), value.to_str().unwrap().into()))
        .collect()
}
