//! No report is lost over a reset of a client's numbers, whatever the reset and whoever ends in between.

use std::path::Path;

use door_fix::{Act, Checks, FixSessions, Route, SessionSpec, VenueSpec};
use fix_session::{MessageStores, Schedule};
use fix_store::{FileStores, NumbersFile, Options};

use crate::desk::{Desk, START_UNIX_MS, plain, spec};

type Gate = Desk<FileStores<NumbersFile>>;

const RESET: &str = "35=A|34=1|98=0|108=30|141=Y|";

fn client() -> SessionSpec {
    let mut client = spec("FIX.4.4");
    (client.route, client.keys.validation) = (Route::Venue("VENUE".into()), Checks::Off);
    client
}

/// A process that opens the files of a folder: a client (session 0) and a venue (session 1).
fn gate(root: &Path, client: SessionSpec) -> Gate {
    let venue = VenueSpec::new("FIX.4.4", "GATE", "VENUE");
    let config = FixSessions::new(vec![client.clone()], vec![venue.clone()]).unwrap();
    let mut stores = FileStores::open(root, Options::default()).unwrap();
    for (name, durability) in config.stores() {
        stores.add(name, durability, START_UNIX_MS).unwrap();
    }
    Desk::passing("FIX.4.4", vec![client], vec![venue], stores, ())
}

/// Connects the venue, whose next number is `seq`.
fn venue(desk: &mut Gate, seq: u64) -> usize {
    let (venue, _) = desk.dial();
    desk.gets(venue, &format!("35=A|34={seq}|98=0|108=30|49=VENUE|"));
    venue
}

fn report(desk: &mut Gate, venue: usize, seq: u64, id: &str) {
    desk.gets(venue, &format!("35=8|34={seq}|11={id}|150=F|32=100|49=VENUE|"));
    desk.ready();
}

/// Connects the client; returns what it gets from its Logon on.
fn client_gets(desk: &mut Gate, logon: &str) -> String {
    let at = desk.connect();
    let mut said = desk.gets(at, logon);
    while desk.lines[at].as_ref().is_some_and(|line| desk.door.is_resending(line)) {
        let mut out = Vec::new();
        let step = desk.door.resume(desk.lines[at].as_mut().unwrap(), desk.clock, &mut out);
        said += &desk.done(at, step, &out);
    }
    said
}

fn fill(seq: u64, id: &str) -> String {
    format!("35=8|34={seq}|97=Y|11={id}|150=F|32=100|")
}

/// The client logs on, gets one report that arrives for sure and one that may not, leaves, and a third comes; then the process is killed.
fn before(root: &Path) {
    let mut desk = gate(root, client());
    let at = desk.connect();
    desk.gets(at, "35=A|34=1|98=0|108=30|");
    let venue = venue(&mut desk, 1);
    report(&mut desk, venue, 2, "sure");
    desk.clock.ms += 72_000;
    desk.clock.unix_us += 72_000_000;
    desk.gets(at, "35=0|34=2|");
    report(&mut desk, venue, 3, "sent");
    desk.drop_line(at);
    report(&mut desk, venue, 4, "absent");
}

#[test]
fn after_a_reset_of_the_client_and_a_kill_the_client_gets_what_may_not_have_reached_it() {
    let root = tempfile::tempdir().unwrap();
    before(root.path());
    let wanted = format!("{RESET}{}{}", fill(2, "sent"), fill(3, "absent"));
    assert_eq!(client_gets(&mut gate(root.path(), client()), RESET), wanted);
    // Killed once more before the client can be sure to have them, and reset once more: twice is harmless.
    assert_eq!(client_gets(&mut gate(root.path(), client()), RESET), wanted);
    // Long after they arrived they do not come again.
    let mut desk = gate(root.path(), client());
    let at = desk.connect();
    desk.gets(at, "35=A|34=2|98=0|108=30|");
    desk.clock.ms += 72_000;
    desk.clock.unix_us += 72_000_000;
    desk.gets(at, "35=0|34=3|");
    drop(desk);
    assert_eq!(client_gets(&mut gate(root.path(), client()), RESET), RESET);
}

#[test]
fn reset_on_logon_repeats_too() {
    let root = tempfile::tempdir().unwrap();
    before(root.path());
    let mut spec = client();
    spec.keys.reset_on_logon = true;
    let said = client_gets(&mut gate(root.path(), spec), "35=A|34=1|98=0|108=30|");
    assert_eq!(said, format!("35=A|34=1|98=0|108=30|{}{}", fill(2, "sent"), fill(3, "absent")));
}

#[test]
fn a_new_period_that_begins_with_a_report_repeats_too() {
    let root = tempfile::tempdir().unwrap();
    before(root.path());
    let mut spec = client();
    spec.keys.schedule = Schedule::parse("daily 12:00 UTC").unwrap();
    let mut desk = gate(root.path(), spec.clone());
    desk.clock.unix_us += 3 * 3_600_000_000;
    let venue = venue(&mut desk, 5);
    // It begins the period, and is in it already.
    report(&mut desk, venue, 6, "new");
    drop(desk);
    let mut desk = gate(root.path(), spec);
    desk.clock.unix_us += 3 * 3_600_000_000;
    let said = client_gets(&mut desk, "35=A|34=1|98=0|108=30|");
    assert_eq!(said, format!("35=A|34=2|98=0|108=30|{}{}", fill(3, "sent"), fill(4, "absent")));
}

#[test]
fn numbers_that_an_operator_sets_repeat_too() {
    for (next_out, next_in) in [(1, 1), (900, 1), (3, 7)] {
        let root = tempfile::tempdir().unwrap();
        before(root.path());
        let mut desk = gate(root.path(), client());
        desk.door.stores().set_numbers(0, next_out, next_in).unwrap();
        drop(desk);
        let logon = format!("35=A|34={next_in}|98=0|108=30|");
        let said = client_gets(&mut gate(root.path(), client()), &logon);
        let next = next_out + 1;
        let wanted = format!("{}{}", fill(next, "sent"), fill(next + 1, "absent"));
        assert_eq!(said, format!("35=A|34={next_out}|98=0|108=30|{wanted}"));
    }
}

/// What is repeated and that it is are one change: a kill at any message neither loses one nor sends it a third time.
#[test]
fn a_kill_between_the_parts_loses_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut desk = gate(root.path(), client());
    let from = venue(&mut desk, 1);
    for seq in 2..=2_500 {
        report(&mut desk, from, seq, &format!("id{seq}"));
    }
    let mut sent = Vec::new();
    for life in 0.. {
        drop(desk);
        desk = gate(root.path(), client());
        let at = desk.connect();
        // The first Logon resets; later ones go on, and ask for nothing.
        let seq = life + 1;
        let reset = if life == 0 { "141=Y|" } else { "" };
        desk.gets(at, &format!("35=A|34={seq}|98=0|108=30|{reset}"));
        if !desk.door.is_resending(desk.lines[at].as_ref().unwrap()) {
            break;
        }
        let mut out = Vec::new();
        let step = desk.door.resume(desk.lines[at].as_mut().unwrap(), desk.clock, &mut out);
        let said = desk.done(at, step, &out);
        sent.extend(
            said.split('|').filter_map(|field| field.strip_prefix("11=")).map(str::to_owned),
        );
        assert!(life < 50);
    }
    let wanted: Vec<String> = (2..=2_500).map(|seq| format!("id{seq}")).collect();
    assert_eq!(sent, wanted);
}

#[test]
fn the_echo_keeps_nothing_for_a_reset() {
    let root = tempfile::tempdir().unwrap();
    let open = || {
        let mut stores = FileStores::open(root.path(), Options::default()).unwrap();
        stores.add("CLIENT", fix_session::Durability::Sealed, START_UNIX_MS).unwrap();
        Desk::over("FIX.4.4", vec![spec("FIX.4.4")], stores, ())
    };
    let order = "11=a|21=1|38=1|40=1|54=1|55=IBM|60=20261123-10:15:30|";
    let mut desk = open();
    let at = desk.connect();
    desk.gets(at, "35=A|34=1|98=0|108=30|");
    assert!(desk.gets(at, &format!("35=D|34=2|{order}")).starts_with("35=D|34=2|"));
    drop(desk);
    let mut desk = open();
    assert_eq!(client_gets(&mut desk, RESET), RESET);
    assert_eq!(desk.door.stores().store(0).flushed().unsure_from, 0);
}

/// What the venue gets of the last step, without numbers and times.
fn venue_gets(desk: &mut Gate) -> String {
    desk.ready().into_iter().map(|one| plain(&one.1)).collect()
}

/// The gate's numbers of a client begin again and the client's do not: what it sends again under them may be at the venue already.
#[test]
fn orders_of_before_a_reset_that_are_sent_again_are_said_to_be_that() {
    let root = tempfile::tempdir().unwrap();
    let mut desk = gate(root.path(), client());
    venue(&mut desk, 1);
    let at = desk.connect();
    desk.gets(at, "35=A|34=1|98=0|108=30|");
    desk.gets(at, "35=B|34=2|148=news|");
    assert_eq!(venue_gets(&mut desk), "35=B|34=2|148=news|");
    desk.gets(at, "35=D|34=3|11=old|55=X|");
    assert_eq!(venue_gets(&mut desk), "35=D|34=3|11=old|55=X|");
    desk.drop_line(at);
    let before = desk.time(0);
    desk.clock.ms += 60_000;
    desk.clock.unix_us += 60_000_000;
    desk.door.act(0, &Act::Reset, desk.clock).unwrap();
    desk.clock.ms += 1_000;
    desk.clock.unix_us += 1_000_000;
    let at = desk.connect();
    let asked = desk.gets(at, "35=A|34=5|98=0|108=30|");
    assert!(asked.contains("35=2|34=2|7=1|16=0|"), "{asked}");
    desk.gets(at, &format!("35=4|34=1|43=Y|122={before}|123=Y|36=2|"));
    desk.gets(at, &format!("35=B|34=2|43=Y|122={before}|148=news|"));
    assert_eq!(venue_gets(&mut desk), "35=B|34=4|97=Y|148=news|");
    desk.gets(at, &format!("35=D|34=3|43=Y|122={before}|11=old|55=X|"));
    assert_eq!(venue_gets(&mut desk), "35=D|34=5|97=Y|11=old|55=X|");
    // What was lost on its way under the new numbers comes for the first time; the client's clock may be two minutes off.
    desk.clock.unix_us += 121_000_000;
    let now = desk.time(0);
    desk.gets(at, &format!("35=D|34=4|43=Y|122={now}|11=new|55=X|"));
    assert_eq!(venue_gets(&mut desk), "35=D|34=6|11=new|55=X|");
    // And again, under whatever number.
    desk.gets(at, &format!("35=D|34=6|43=Y|122={now}|11=new|55=X|"));
    assert_eq!(venue_gets(&mut desk), "35=D|34=7|97=Y|11=new|55=X|");
}

#[test]
fn reports_that_are_sent_again_since_an_operator_wanted_them_are_said_to_be_that() {
    let root = tempfile::tempdir().unwrap();
    let mut desk = gate(root.path(), client());
    let at = venue(&mut desk, 1);
    report(&mut desk, at, 2, "a");
    desk.drop_line(at);
    desk.clock.unix_us += 300_000_000;
    desk.door.keep(1, desk.clock, |stores| stores.set_numbers(1, 2, 2)).unwrap();
    let now = desk.time(-1);
    drop(desk);
    // A later process knows it, too.
    let mut desk = gate(root.path(), client());
    let at = desk.dial().0;
    desk.gets(at, "35=A|34=3|98=0|108=30|49=VENUE|");
    let client = desk.connect();
    desk.gets(client, "35=A|34=1|98=0|108=30|");
    desk.ready();
    desk.gets(at, &format!("35=8|34=2|43=Y|122={now}|11=a|150=F|32=100|49=VENUE|"));
    assert_eq!(venue_gets(&mut desk), "35=8|34=3|97=Y|11=a|150=F|32=100|");
}

/// Nobody has to be told goodbye who has not said hello: a stop does not wait for it.
#[test]
fn a_venue_that_has_not_answered_the_logon_is_not_waited_for() {
    let root = tempfile::tempdir().unwrap();
    let mut desk = gate(root.path(), client());
    let (at, logon) = desk.dial();
    assert!(logon.starts_with("35=A|"), "{logon}");
    let (line, mut out) = (desk.lines[at].as_mut().unwrap(), Vec::new());
    let step = desk.door.log_out(line, "the gate is stopping", desk.clock, &mut out);
    assert!(step.close && out.is_empty());
}
