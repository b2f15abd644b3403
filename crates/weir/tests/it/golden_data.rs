//! What earlier versions kept on disk, and what their clients said: the recordings of `schema/golden/data`.
//!
//! Each folder is opened, audited and used by the program of today, and each session is answered by it as it was answered
//! then. `schema/golden/data/record` makes the three files of a version.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wire::Verdict;

use crate::client::{Client, Reply, Token, ping_frame};
use crate::support::{Node, Setup, line, output, stderr, stdout, text, wait_for, weir};

/// Frame head and message head: length, encoding, block length, template, schema, version.
const HEAD_LEN: usize = 14;
/// A hold is over so long after its deadline, whatever the clock was rounded to.
const ROUNDING_MS: u64 = 500;
/// The size of a group, in front of its entries.
const GROUP_LEN: usize = 4;
const TOKEN_LEN: usize = 32;

/// The first versions of which a folder and a session are kept.
const FIRST_JOURNAL: u16 = 1;
const FIRST_CLIENT: u16 = 1;

const WELCOME: u16 = 2;
const DECIDED: u16 = 4;
const RESOLVED: u16 = 6;

/// A recorded version: a data folder and a session, by the formats that their node wrote.
#[derive(Clone, Debug)]
struct Golden {
    name: String,
    /// Version of the journal's messages.
    journal: u16,
    /// Format of the log of edits; 0 where there was none yet.
    edits: u16,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/golden/data")
}

fn goldens() -> Vec<Golden> {
    let names = std::fs::read_dir(folder()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let golden = |file: String| {
        let name = file.strip_suffix(".tar.gz")?.to_string();
        let parts: Vec<&str> = name.split('-').collect();
        let ["journal", journal, "edits", edits] = parts[..] else {
            panic!("{file}: not named journal-N-edits-N")
        };
        let (journal, edits) = (journal.parse().unwrap(), edits.parse().unwrap());
        Some(Golden { name, journal, edits })
    };
    let mut all: Vec<Golden> = names.filter_map(golden).collect();
    all.sort_by_key(|golden| (golden.journal, golden.edits));
    all
}

impl Golden {
    fn file(&self, suffix: &str) -> PathBuf {
        folder().join(format!("{}.{suffix}", self.name))
    }

    fn read(&self, suffix: &str) -> String {
        std::fs::read_to_string(self.file(suffix)).unwrap()
    }

    /// A copy of the folder, with the budgets that it had.
    fn unpack(&self) -> Setup {
        let setup = Setup::new("");
        let into = setup.budgets_file().parent().unwrap().to_path_buf();
        let mut tar = Command::new("tar");
        tar.args(["--no-same-owner", "-xzf"]).arg(self.file("tar.gz")).arg("-C").arg(into);
        let unpacked = output(&mut tar);
        assert!(unpacked.status.success(), "{}: {}", self.name, stderr(&unpacked));
        setup
    }
}

/// Frames of a session: sent or answered, and the bytes.
fn session(name: &str) -> Vec<(bool, Vec<u8>)> {
    let bytes = |hex: &str| -> Vec<u8> {
        let digits: Vec<&str> = hex.split("").filter(|digit| !digit.is_empty()).collect();
        digits.chunks(2).map(|two| u8::from_str_radix(&two.concat(), 16).unwrap()).collect()
    };
    let frame = |line: &str| match line.split_once(' ') {
        Some((">", hex)) => (true, bytes(hex)),
        Some(("<", hex)) => (false, bytes(hex)),
        _ => panic!("{name}: {line}"),
    };
    let text = std::fs::read_to_string(folder().join(format!("{name}.session"))).unwrap();
    text.lines().map(frame).collect()
}

fn journal(data: &Path, arguments: &[&str]) -> String {
    let ran = output(weir().arg("journal").args(arguments).args(["--data", text(data)]));
    assert!(ran.status.success(), "{arguments:?}: {}{}", stdout(&ran), stderr(&ran));
    stdout(&ran)
}

/// The format that a node writes its log of edits in.
fn edits_format(data: &Path) -> u16 {
    let log = std::fs::read_to_string(data.join("edits/log")).unwrap();
    let (_, head) = log.lines().next().unwrap().split_once(' ').unwrap();
    let head: Value = serde_json::from_str(head).unwrap();
    u16::try_from(head["head"]["format"].as_u64().unwrap()).unwrap()
}

/// By budget, what an audit says of it.
fn balances(audit: &str) -> BTreeMap<String, Value> {
    let audit: Value = serde_json::from_str(audit).unwrap();
    let budgets = audit["budgets"].as_array().unwrap().iter();
    budgets.map(|budget| (budget["id"].to_string(), budget.clone())).collect()
}

/// The same balances as were recorded; a version may tell more than an earlier one did.
fn assert_balances(found: &str, recorded: &str, name: &str) {
    let (found, recorded) = (balances(found), balances(recorded));
    assert_eq!(found.keys().collect::<Vec<_>>(), recorded.keys().collect::<Vec<_>>(), "{name}");
    for (id, recorded) in &recorded {
        for (field, value) in recorded.as_object().unwrap() {
            assert_eq!(&found[id][field], value, "{name}: {field} of budget {id}");
        }
    }
}

/// What was settled of each budget, as the running node tells it.
fn assert_settled(node: &Node, recorded: &str) {
    for (id, recorded) in balances(recorded) {
        let books = node.budget(id.parse().unwrap());
        let told = [books.limit, books.settled, books.over_settled, books.late];
        let then = ["limit", "settled", "over_settled", "late"].map(|line| recorded[line].as_i64());
        assert_eq!(told.map(Some), then, "budget {id}");
    }
}

fn template(frame: &[u8]) -> u16 {
    u16::from_le_bytes([frame[8], frame[9]])
}

/// The number that a client gives to a question, and finds in its answer.
fn frame_id(frame: &[u8]) -> &[u8] {
    &frame[HEAD_LEN..HEAD_LEN + 8]
}

fn u16_at(frame: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([frame[at], frame[at + 1]]))
}

/// Where the entries of a frame's group begin.
fn entries(frame: &[u8]) -> std::iter::StepBy<std::ops::Range<usize>> {
    let group = HEAD_LEN + u16_at(frame, 6);
    let (len, count) = (u16_at(frame, group), u16_at(frame, group + 2));
    let first = group + GROUP_LEN;
    (first..first + len * count).step_by(len)
}

fn token_at(frame: &[u8], at: usize) -> Token {
    frame[at..at + TOKEN_LEN].try_into().unwrap()
}

/// Replays a session, and compares each answer byte by byte but for what no two runs have in common.
struct Replay {
    client: Client,
    hold_ms: u64,
    /// Tokens then, and now.
    tokens: BTreeMap<Token, Token>,
}

impl Replay {
    /// What the client said, with the tokens that this node gave.
    fn sent(&self, frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        for at in 0..frame.len().saturating_sub(TOKEN_LEN - 1) {
            if let Some(now) = self.tokens.get(&token_at(&frame, at)) {
                frame[at..at + TOKEN_LEN].copy_from_slice(now);
            }
        }
        frame
    }

    fn exchange(&mut self, question: &[u8], recorded: &[u8]) {
        let late = template(recorded) == RESOLVED
            && entries(recorded).any(|at| recorded[at] == Verdict::SettledLate.as_raw());
        if late {
            self.wait_until_holds_end();
        }
        self.client.send(&self.sent(question));
        let (mut now, mut then) = (self.client.receive_bytes(), recorded.to_vec());
        assert_eq!(template(&now), template(&then), "{:?}", crate::client::reply(&now));
        match template(&then) {
            WELCOME => {
                self.hold_ms = u64::try_from(u16_at(&now, 30)).unwrap();
                // Run, worker, clock.
                for same in [18..22, 24..26, 38..46] {
                    now[same.clone()].fill(0);
                    then[same].fill(0);
                }
            }
            DECIDED => {
                let given = entries(&then).map(|at| (token_at(&then, at), token_at(&now, at)));
                self.tokens.extend(given.filter(|(then, _)| *then != [0; TOKEN_LEN]));
                let snapshot = HEAD_LEN + 8;
                for answer in [&mut now, &mut then] {
                    answer[snapshot..snapshot + 4].fill(0);
                    for at in entries(&answer.clone()) {
                        let is_given = token_at(answer, at) != [0; TOKEN_LEN];
                        answer[at..at + TOKEN_LEN].fill(u8::from(is_given));
                    }
                }
            }
            _ => {}
        }
        // Whoever answers says which version it writes; the client goes by the welcome.
        now[12..HEAD_LEN].fill(0);
        then[12..HEAD_LEN].fill(0);
        assert_eq!(now, then);
    }

    /// The clock of the node, ms.
    fn now_ms(&mut self) -> u64 {
        self.client.send(&ping_frame(u64::MAX));
        match self.client.receive() {
            Reply::Pong { now_ms, .. } => now_ms,
            other => panic!("{other:?}"),
        }
    }

    fn wait_until_holds_end(&mut self) {
        let end = self.now_ms() + self.hold_ms + ROUNDING_MS;
        wait_for("the end of all holds", || self.now_ms() > end);
    }
}

/// Every answer is the one that was recorded. Returns the version that both agreed on.
fn replay(node: &Node, name: &str) -> u16 {
    let mut replay = Replay { client: node.stranger(), hold_ms: 0, tokens: BTreeMap::new() };
    let session = session(name);
    let (questions, mut answers): (Vec<_>, Vec<_>) = session.iter().partition(|(sent, _)| *sent);
    assert!(questions.len() > 20 && questions.len() == answers.len(), "{name}: whole");
    let (_, welcome) = answers[0].clone();
    assert_eq!(template(&welcome), WELCOME);
    for (index, (_, question)) in questions.into_iter().enumerate() {
        // What settles is answered when it is sealed; meanwhile the client asked for more.
        let of_it = |answer: &[u8]| index == 0 || frame_id(answer) == frame_id(question);
        let at = answers.iter().position(|(_, answer)| of_it(answer)).expect("it was answered");
        replay.exchange(question, &answers.remove(at).1);
    }
    assert!(!replay.tokens.is_empty());
    u16::try_from(u16_at(&welcome, HEAD_LEN)).unwrap()
}

/// What a start says of the formats that it raised.
fn said_of_formats(node: &Node) -> Vec<String> {
    let log = node.log();
    let raised = log.lines().filter_map(|line| Some((line, line.find(" raised from ")?)));
    raised.map(|(line, at)| line[at + " raised from ".len()..].to_string()).collect()
}

fn stop(mut node: Node) {
    node.terminate();
    assert!(node.wait_end().success(), "{}", node.log());
}

/// Opens it, compares the books, lets its client speak, goes on, and stays sound.
fn open_and_use(golden: &Golden) -> u16 {
    let (setup, recorded) = (golden.unpack(), golden.read("balances.json"));
    let data = setup.data();
    assert!(journal(&data, &["verify"]).contains(": sound"), "{}", golden.name);
    assert_balances(&journal(&data, &["audit", "--json"]), &recorded, &golden.name);

    let node = setup.clone().start();
    assert_settled(&node, &recorded);
    let mut expected = Vec::new();
    let today = edits_format(&data);
    if (1..today).contains(&golden.edits) {
        expected.push(format!("{} to {today}", golden.edits));
    }
    let today = wire::journal::SCHEMA_VERSION;
    if golden.journal < today {
        expected.push(format!("{} to {today}", golden.journal));
    }
    let mut said = said_of_formats(&node);
    said.sort();
    expected.sort();
    assert_eq!(said, expected, "{}: {}", golden.name, node.log());

    let version = replay(&node, &golden.name);
    let before = node.budget(1);
    let mut client = node.client();
    let token = client.grant(1, 1_000);
    assert_eq!(client.settle(token, 900), (Verdict::Settled, false));
    stop(node);

    assert!(journal(&data, &["verify"]).contains(": sound"), "{}", golden.name);
    let audit: Value = serde_json::from_str(&journal(&data, &["audit", "--json"])).unwrap();
    assert_eq!(audit["well"], true, "{}: {audit}", golden.name);
    let node = setup.start();
    assert_eq!(node.budget(1).settled, before.settled + 900, "{}", golden.name);
    assert_eq!(said_of_formats(&node), [""; 0], "raised once");
    version
}

/// The clients of versions that had no journal yet, against a new node.
fn serve_clients_alone() -> Vec<u16> {
    let budgets: String = (1..=4).map(|id| line(id, "1000000", "")).collect();
    let budgets = budgets + &line(5, "1000", r#","status":"paused""#);
    let name = |version: u16| format!("client-{version}");
    let alone = (FIRST_CLIENT..=wire::SCHEMA_VERSION).map(name);
    let alone = alone.filter(|name| folder().join(format!("{name}.session")).exists());
    alone.map(|name| replay(&Setup::new(&budgets).start(), &name)).collect()
}

#[test]
fn what_earlier_versions_left_is_opened_audited_and_used() {
    let all = goldens();
    let mut versions: BTreeSet<u16> = all.iter().map(open_and_use).collect();
    versions.extend(serve_clients_alone());
    let record = "is without golden data: see schema/golden/data/record";
    for version in FIRST_JOURNAL..=wire::journal::SCHEMA_VERSION {
        let is_there = all.iter().any(|golden| golden.journal == version);
        assert!(is_there, "version {version} of the journal's messages {record}");
    }
    let node = Setup::new("").start();
    for format in 1..=edits_format(&node.data()) {
        let is_there = all.iter().any(|golden| golden.edits == format);
        assert!(is_there, "format {format} of the log of edits {record}");
    }
    for version in FIRST_CLIENT..=wire::SCHEMA_VERSION {
        assert!(versions.contains(&version), "a client of version {version} {record}");
    }
}
