//! Sessions and venues that come, change and go while the node runs.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use super::operating::{call, session, wait_state};
use super::venues::{accept, listeners};
use super::{Client, SESSION, door, field, setup};
use crate::support::{Node, line, output, stderr, stdout, text, wait_for, weir};

const REMOVED: &str = "session removed from the configuration";
const CHANGED: &str = "session changed in the configuration";

fn folder(node: &Node) -> PathBuf {
    node.budgets_file().parent().unwrap().to_owned()
}

fn configure(node: &Node, config: &str) {
    std::fs::write(folder(node).join("weir.toml"), config).unwrap();
}

fn reload(node: &Node) -> Output {
    output(weir().args(["reload", "--data", text(&node.data())]))
}

/// Puts a configuration in force; what `weir reload` says of it.
pub(super) fn reloads(node: &Node, config: &str) -> String {
    configure(node, config);
    let done = reload(node);
    assert!(done.status.success(), "{}\n{}", stderr(&done), node.log());
    stdout(&done)
}

/// A configuration that is refused; every reason.
fn refused(node: &Node, config: &str) -> String {
    configure(node, config);
    let done = reload(node);
    assert_eq!(done.status.code(), Some(1), "{}", stdout(&done));
    assert!(stderr(&done).contains("nothing was changed"), "{}", stderr(&done));
    stderr(&done)
}

fn client(name: &str, route: &str) -> String {
    SESSION.replace("CLIENT1", name).replace("echo", route)
}

fn venue(name: &str, address: SocketAddr, more: &str) -> String {
    format!(
        "[[fix.venue]]\nname = \"{name}\"\nsender_comp_id = \"GATE\"\ntarget_comp_id = \"VENUE\"\n\
         connect = [\"{address}\"]\n{more}"
    )
}

fn log_on(node: &Node, name: &'static str, next_out: u64) -> Client {
    let mut client = attempt(node, name, next_out);
    let answer = client.receive().unwrap_or_else(|| panic!("a Logon: {}", node.log()));
    assert_eq!(field(&answer, "35"), "A", "{answer}");
    client
}

fn attempt(node: &Node, name: &'static str, next_out: u64) -> Client {
    let stream = TcpStream::connect(door(node)).unwrap();
    let mut client = Client { next_out, ..Client::over(stream, (name, "GATE")) };
    client.send("A", "98=0|108=30|");
    client
}

fn is_echoed(client: &mut Client, id: &str) {
    client.order(id);
    assert_eq!(field(&client.receive_message(), "11"), id);
}

/// It gets a Logout with this text, and answers it.
fn is_logged_out(client: &mut Client, said: &str) {
    let logout = client.receive_message();
    assert_eq!([field(&logout, "35"), field(&logout, "58")], ["5", said], "{logout}");
    client.send("5", "");
    assert_eq!(client.receive(), None, "the node closes");
}

fn names(node: &Node) -> Vec<String> {
    let (_, answer) = call(node.admin, "GET", "/v1/fix/sessions", &Value::Null);
    let all = answer["sessions"].as_array().unwrap().iter();
    all.map(|one| one["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn clients_come_and_go_and_come_back_with_their_numbers() {
    let node = setup(SESSION).start();
    let mut first = Client::log_on(&node, 1);
    let both = format!("{}{SESSION}", client("CLIENT2", "echo"));
    let said = reloads(&node, &both);
    assert!(said.contains("fix.session CLIENT2: was not there, is there"), "{said}");
    assert!(!said.contains("CLIENT1"), "{said}");
    assert_eq!(names(&node), ["CLIENT2", "CLIENT1"], "in the order of the file");
    is_echoed(&mut first, "undisturbed");
    let mut second = log_on(&node, "CLIENT2", 1);
    is_echoed(&mut second, "new");
    let said = reloads(&node, &client("CLIENT2", "echo"));
    assert!(said.contains("fix.session CLIENT1: was there, is not there"), "{said}");
    is_logged_out(&mut first, REMOVED);
    assert_eq!(attempt(&node, "CLIENT1", 4).receive(), None, "nobody may log on");
    assert_eq!(names(&node), ["CLIENT2"]);
    is_echoed(&mut second, "undisturbed");
    // Back by a signal, and killed directly after: numbers go on, before and behind the kill.
    configure(&node, &both);
    node.signal("HUP");
    wait_for("the session to be back", || names(&node).len() == 2);
    let mut first = log_on(&node, "CLIENT1", 4);
    is_echoed(&mut first, "back");
    reloads(&node, &client("CLIENT2", "echo"));
    reloads(&node, &both);
    let node = node.restart();
    assert_eq!(session(&node, "CLIENT1")["next_in"], 6);
    let mut first = log_on(&node, "CLIENT1", 6);
    is_echoed(&mut first, "behind the kill");
}

#[test]
fn a_configuration_with_an_error_changes_nothing_and_every_error_is_told() {
    let node = setup(SESSION).start();
    let mut first = Client::log_on(&node, 1);
    let wrong = format!(
        "{}{}route = \"nowhere\"\nsource_addresses = [\"10.0.0.0/33\"]\n",
        SESSION.replace("\"CLIENT1\"", "\"OTHER\"\nname = \"CLIENT1\""),
        client("CLIENT2", "echo").replace("route = \"echo\"\n", "")
    );
    let said = refused(&node, &wrong);
    for expected in ["found \"nowhere\"", "fix.session.source_addresses"] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    let other = SESSION.replace("\"CLIENT1\"", "\"OTHER\"\nname = \"CLIENT1\"");
    let said = refused(&node, &format!("{other}{}", client("CLIENT2", "echo")));
    assert!(said.contains("target_comp_id is \"OTHER\", and \"CLIENT1\""), "{said}");
    let missing = format!("{SESSION}password_file = \"/nowhere/passwords\"\n");
    assert!(refused(&node, &missing).contains("/nowhere/passwords"));
    let larger = format!("{SESSION}body_bytes_max = 1000000\n");
    assert!(refused(&node, &larger).contains("restart the node"));
    let moved = format!("[fix]\nworker = \"0\"\n{SESSION}{}", client("CLIENT2", "echo"));
    assert!(refused(&node, &moved).contains("fix.worker: \"last\" is in force"));
    assert_eq!(names(&node), ["CLIENT1"]);
    is_echoed(&mut first, "as before");
    let smaller = format!("{SESSION}body_bytes_max = 1000\n");
    let said = reloads(&node, &smaller);
    assert!(said.contains("fix.session.body_bytes_max of CLIENT1: was 65536, is 1000"), "{said}");
    is_echoed(&mut first, "at once");
    first.send("D", &format!("11=large|58={}|", "x".repeat(1_000)));
    assert_eq!(first.receive(), None, "it is more than the session takes now");
    // A door that is off stays off.
    let off = setup("").start();
    let said = refused(&off, SESSION);
    assert!(said.contains("the FIX door is off, and opens only at a start"), "{said}");
}

#[test]
fn a_fill_for_a_client_that_was_removed_waits_for_it() {
    for limits in ["none", "budgets"] {
        a_fill_waits(limits);
    }
}

fn a_fill_waits(limits: &str) {
    let ([listener], addresses) = listeners();
    let venue = venue("venue1", addresses[0], "");
    let of = |name: &str, firm| {
        let limits = format!("limits = {limits:?}\nfirm = \"{firm}\"");
        client(name, "venue1").replace("limits = \"none\"", &limits)
    };
    let with = |name: &str| format!("{}{venue}", of(name, "F"));
    let setup = setup(&with("CLIENT1"));
    let budget = line(1, "100000", ",\"orders\":{\"symbol\":\"ACME\"}");
    std::fs::write(setup.budgets_file(), budget).unwrap();
    let node = setup.start();
    let mut far = accept(&listener, 1);
    far.send("A", "98=0|108=30|");
    wait_state(&node, "venue1", "logged_on");
    let mut first = Client::log_on(&node, 1);
    first.order("a");
    assert_eq!(field(&far.receive_message(), "11"), "a");
    // It gets another firm, then another client takes its place, and the fill comes then.
    reloads(&node, &format!("{}{venue}", of("CLIENT1", "G")));
    reloads(&node, &with("CLIENT2"));
    for told in ["the session has another firm now", "or has another name: its open orders"] {
        assert_eq!(node.log().contains(told), limits == "budgets", "{}", node.log());
    }
    let mut second = log_on(&node, "CLIENT2", 1);
    far.send("8", "11=a|17=1|37=V|39=2|150=2|55=ACME|54=1|38=100|32=100|31=9|14=100|151=0|6=9|");
    far.send("1", "112=behind the fill|");
    assert_eq!(field(&far.receive().expect("a Heartbeat"), "112"), "behind the fill");
    is_logged_out(&mut first, REMOVED);
    second.order("b");
    assert_eq!(field(&far.receive_message(), "11"), "b", "and nothing came before");
    far.send("8", "11=b|17=2|37=W|39=2|150=2|55=ACME|54=1|38=100|32=100|31=9|14=100|151=0|6=9|");
    assert_eq!(field(&second.receive_message(), "11"), "b", "its own, and not the other's");
    reloads(&node, &format!("{}{}", of("CLIENT1", "F"), with("CLIENT2")));
    // It had Logon and Logout: the fill has number 3.
    let mut first = log_on(&node, "CLIENT1", 4);
    first.send("2", "7=3|16=0|");
    let fill = first.receive_message();
    assert_eq!(["43", "34", "11", "17"].map(|tag| field(&fill, tag)), ["Y", "3", "a", "1"]);
    if limits == "budgets" {
        node.wait_budget(1, "both fills", |books| books.settled == 2 * 900 * 1_000_000);
    }
}

fn fill(far: &mut Client, id: &str, execution: &str) {
    let of = format!("11={id}|17={execution}|37=V|39=2|150=2|55=ACME|54=1|38=100|");
    far.send("8", &format!("{of}32=100|31=9|14=100|151=0|6=9|"));
}

/// The venue as it comes back; `logon` is its next number.
fn far_again(node: &Node, listener: &std::net::TcpListener, logon: u64) -> Client {
    let mut far = accept(listener, logon);
    far.send("A", "98=0|108=30|");
    wait_state(node, "venue1", "logged_on");
    far
}

/// A second client comes while the node runs, which is killed directly after, and again by the configuration of a start. What was the first
/// one's before stays that.
#[test]
fn who_joins_a_venue_takes_over_no_order_of_its_only_client_also_after_kills() {
    let ([listener], addresses) = listeners();
    let venue = venue("venue1", addresses[0], "");
    let one = format!("{}{venue}", client("CLIENT1", "venue1"));
    let both = format!("{}{one}", client("CLIENT2", "venue1"));
    for by_reload in [true, false] {
        let node = setup(&one).start();
        let mut far = far_again(&node, &listener, 1);
        let mut first = Client::log_on(&node, 1);
        for id in ["a", "b"] {
            first.order(id);
            assert_eq!(field(&far.receive_message(), "11"), id);
        }
        if by_reload {
            reloads(&node, &both);
            let mut second = log_on(&node, "CLIENT2", 1);
            second.order("a");
            assert_eq!(field(&second.receive_message(), "58"), "Duplicate ClOrdID");
            fill(&mut far, "a", "1");
            assert_eq!(field(&first.receive_message(), "17"), "1", "the first one's");
        } else {
            configure(&node, &both);
        }
        let node = node.restart();
        let mut far = far_again(&node, &listener, if by_reload { 3 } else { 2 });
        let mut second = log_on(&node, "CLIENT2", if by_reload { 3 } else { 1 });
        second.order("b");
        assert_eq!(field(&second.receive_message(), "58"), "Duplicate ClOrdID");
        let mut first = log_on(&node, "CLIENT1", 4);
        fill(&mut far, "b", "2");
        assert_eq!(field(&first.receive_message(), "17"), "2", "the first one's");
        first.send("F", "11=c|41=b|55=ACME|54=1|38=100|60=20261123-10:00:00|");
        let cancel = far.receive_message();
        assert_eq!(
            ["35", "11", "41"].map(|tag| field(&cancel, tag)),
            ["F", "c", "b"],
            "and only it came"
        );
    }
}

/// Killed within moments of a signal: whatever of the reload was done, an order's fill is its own client's or waits.
#[test]
fn a_kill_within_a_reload_loses_no_owner() {
    let ([listener], addresses) = listeners();
    let venue = venue("venue1", addresses[0], "");
    let one = format!("{}{venue}", client("CLIENT1", "venue1"));
    let mut node = setup(&one).start();
    let mut far = far_again(&node, &listener, 1);
    let mut first = Client::log_on(&node, 1);
    first.order("a");
    assert_eq!(field(&far.receive_message(), "11"), "a");
    for (round, ms) in [0, 3, 9].into_iter().enumerate() {
        let joined = format!("{}{one}", client(["B", "C", "D"][round], "venue1"));
        configure(&node, &joined);
        node.signal("HUP");
        std::thread::sleep(std::time::Duration::from_millis(ms));
        node = node.restart();
        let next = 2 + 2 * round as u64;
        let mut far = far_again(&node, &listener, next);
        let mut first = log_on(&node, "CLIENT1", 3 + round as u64);
        let execution = round.to_string();
        fill(&mut far, "a", &execution);
        assert_eq!(field(&first.receive_message(), "17"), execution);
    }
}

#[test]
fn venues_are_dialled_redialled_and_hung_up() {
    let ([one, two, waiting], addresses) = listeners();
    let closed = addresses[2];
    drop(waiting);
    let node = setup(SESSION).start();
    let mut first = Client::log_on(&node, 1);
    let with = |address, more: &str| {
        format!("{}{}", client("CLIENT1", "venue1"), venue("venue1", address, more))
    };
    // One that is added, and waits for its next attempt: another address is tried at once.
    let said = reloads(&node, &with(closed, ""));
    assert!(said.contains("fix.venue venue1: was not there, is there"), "{said}");
    assert!(said.contains("fix.session.route of CLIENT1: was \"echo\", is \"venue1\""), "{said}");
    wait_for("attempts", || node.log().matches("a venue cannot be reached").count() >= 3);
    reloads(&node, &with(addresses[0], ""));
    let mut far = accept(&one, 1);
    far.send("A", "98=0|108=30|");
    wait_state(&node, "venue1", "logged_on");
    first.order("a");
    assert_eq!(field(&far.receive_message(), "11"), "a");
    // Reached otherwise: a Logout here, and a Logon there.
    reloads(&node, &with(addresses[1], "heart_bt_int_s = 17\n"));
    is_logged_out(&mut far, CHANGED);
    let mut far =
        Client { next_out: 3, ..Client::over(two.accept().unwrap().0, ("VENUE", "GATE")) };
    let logon = far.receive().expect("a Logon");
    assert_eq!([field(&logon, "108"), field(&logon, "34")], ["17", "4"], "{logon}");
    // In the middle of a logon: there is nothing to be said, and it is closed.
    reloads(&node, &with(addresses[0], ""));
    assert_eq!(far.receive(), None);
    let mut far = accept(&one, 3);
    far.send("A", "98=0|108=30|");
    wait_state(&node, "venue1", "logged_on");
    reloads(&node, SESSION);
    is_logged_out(&mut far, REMOVED);
    is_echoed(&mut first, "echo");
    one.set_nonblocking(true).unwrap();
    wait_for("the venue to be gone", || names(&node) == ["CLIENT1"]);
    reloads(&node, SESSION);
    let again = one.accept().map(|_| ()).map_err(|error| error.kind());
    assert_eq!(again, Err(std::io::ErrorKind::WouldBlock), "it is dialled no more");
    // And back: the numbers go on.
    one.set_nonblocking(false).unwrap();
    reloads(&node, &with(addresses[0], ""));
    let stream = one.accept().unwrap().0;
    stream.set_nonblocking(false).unwrap();
    let mut far = Client { next_out: 5, ..Client::over(stream, ("VENUE", "GATE")) };
    assert_eq!(field(&far.receive().expect("a Logon"), "34"), "7");
}

#[test]
fn a_password_file_that_is_new_counts_and_so_do_its_lines_after_a_reload() {
    const SECRET: &str =
        "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$4mqQiyq0VpIzuZmp+8eSF3YJ7Av58TkEJ4LIdOVsAc4";
    let node = setup(SESSION).start();
    let mut first = Client::log_on(&node, 1);
    let file = folder(&node).join("fix-passwords");
    std::fs::write(&file, format!("ann {SECRET}\n")).unwrap();
    let config = format!("{SESSION}validation = \"off\"\npassword_file = {:?}\n", text(&file));
    reloads(&node, &config);
    is_logged_out(&mut first, CHANGED);
    assert_eq!(attempt(&node, "CLIENT1", 3).receive(), None);
    let with_password = |next_out, user: &str| {
        let stream = TcpStream::connect(door(&node)).unwrap();
        let mut client = Client { next_out, ..Client::over(stream, ("CLIENT1", "GATE")) };
        client.send("A", &format!("98=0|108=30|553={user}|554=secret|"));
        client
    };
    let mut first = with_password(3, "ann");
    assert_eq!(field(&first.receive().expect("a Logon"), "35"), "A");
    std::fs::write(&file, format!("bob {SECRET}\n")).unwrap();
    reloads(&node, &config);
    is_echoed(&mut first, "it counts from the next Logon on");
    drop(first);
    wait_state(&node, "CLIENT1", "waiting");
    assert_eq!(with_password(5, "ann").receive(), None);
    assert_eq!(field(&with_password(5, "bob").receive().expect("a Logon"), "35"), "A");
}

/// Both at once, and many times: one of them may be refused, and what is in force is what one of them read.
#[test]
fn reloads_at_once_leave_whole_sessions() {
    let node = setup(SESSION).start();
    let mut first = Client::log_on(&node, 1);
    let both = format!("{SESSION}{}", client("CLIENT2", "echo"));
    for round in 0..10 {
        configure(&node, if round % 2 == 0 { &both } else { SESSION });
        let done: Vec<Output> = std::thread::scope(|scope| {
            let asking = [(); 3].map(|()| scope.spawn(|| reload(&node)));
            asking.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(done.iter().any(|one| one.status.success()), "{}", stderr(&done[0]));
        for one in done.iter().filter(|one| !one.status.success()) {
            assert!(stderr(one).contains("a reload is under way"), "{}", stderr(one));
        }
        assert_eq!(names(&node).len(), 2 - round % 2);
        is_echoed(&mut first, &format!("order-{round}"));
    }
}

/// Whose orders a budget can limit follows from the sessions in force, for the file, the API and `weir check`.
#[test]
fn bindings_name_sessions_and_firms_that_there_are() {
    let with_firm = format!("{SESSION}firm = \"F\"\n");
    let bound = |id, orders: &str| line(id, "10", &format!(",\"orders\":{orders}"));
    let node = setup(&with_firm).start();
    let both = bound(1, r#"{"session":"CLIENT1","firm":"F"}"#);
    node.reload(&both);
    let budget = json!({"id": "2", "name": "x", "unit": "count", "limit": "5", "orders": {"session": "CLIENT2", "side": "buy"}});
    let create = json!({"budget": budget, "why": "a new desk"});
    let (status, told) = call(node.admin, "POST", "/v1/budgets", &create);
    let why = "orders.session: found \"CLIENT2\", expected the name of a fix.session; known here: CLIENT1";
    assert!(status == 422 && told.to_string().contains(&why.replace('"', "\\\"")), "{told}");
    reloads(&node, &format!("{with_firm}{}", client("CLIENT2", "echo")));
    let (status, told) = call(node.admin, "POST", "/v1/budgets", &create);
    assert_eq!((status, &told["config"]["orders"]), (201, &budget["orders"]), "{told}");

    let wrong = format!("{both}{}", bound(3, r#"{"firm":"G","side":"any"}"#));
    node.replace_budgets(&wrong);
    let why = ":2: orders.firm: found \"G\", expected the key firm of a fix.session; known here: F";
    let is_told = |stat: &Value| {
        let errors = stat["budgets_file"]["errors"].as_array().cloned().unwrap_or_default();
        errors.iter().any(|error| error.as_str().is_some_and(|error| error.ends_with(why)))
    };
    node.wait_stat("the file to be refused", is_told);
    let (config, file) = (folder(&node).join("weir.toml"), node.budgets_file());
    let check = ["check", "--config", text(&config), "--budgets", text(&file)];
    let told = output(weir().args(check));
    assert_eq!(told.status.code(), Some(1));
    assert!(stderr(&told).contains(why), "{}", stderr(&told));
    let crowd: String = (1..=9).map(|id| bound(id, r#"{"symbol":"X"}"#)).collect();
    std::fs::write(&file, crowd).unwrap();
    let told = output(weir().args(check));
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    assert!(
        stderr(&told).contains("one order could fit the bindings of 9 budgets"),
        "{}",
        stderr(&told)
    );
}
