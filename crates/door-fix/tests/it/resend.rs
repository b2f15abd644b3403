//! A peer asks for very many messages again, while another one trades.

use std::path::Path;
use std::time::{Duration, Instant};

use door_fix::{Checks, FixSessions, Route, SessionSpec};
use fix_session::{MessageStore, MessageStores};
use fix_store::{FileStores, NumbersFile, Options};

use crate::desk::{Desk, START_UNIX_MS};

const MESSAGES: u64 = 1_000_000;
/// What one step of a resend writes at most: 64 KiB, and the message that makes it larger.
const PIECE_BYTES_MAX: usize = (64 << 10) + 1_024;

fn echo(name: &str) -> SessionSpec {
    let mut session = SessionSpec::new("FIX.4.4", "GATE", name);
    session.limits = Some(door_fix::Limits::None);
    (session.route, session.keys.validation) = (Route::Echo, Checks::Off);
    session
}

/// A session A to which so many reports were sent, and a session B.
fn desk(root: &Path) -> Desk<FileStores<NumbersFile>> {
    let config = FixSessions::new(vec![echo("A"), echo("B")], vec![]).unwrap();
    let mut stores = FileStores::open(root, Options::default()).unwrap();
    for (name, durability) in config.stores() {
        stores.add(name, durability, START_UNIX_MS).unwrap();
    }
    let mut desk = Desk::passing("FIX.4.4", vec![echo("A"), echo("B")], vec![], stores, ());
    let report = desk.message(
        "35=8|34=1|49=GATE|56=A|11=order|17=execution|37=venue|39=1|150=F|55=ACME|54=1|38=100|32=10|31=9.99|151=90|14=10|6=9.99|",
    );
    let stores = desk.door.stores();
    for number in 1..=MESSAGES {
        stores.store(0).put(&report).unwrap();
        if number % 10_000 == 0 || number == MESSAGES {
            stores.flush(&[0]).unwrap();
        }
    }
    desk
}

#[test]
fn very_many_messages_are_sent_again_in_pieces_and_others_are_answered_between_them() {
    let root = tempfile::tempdir().unwrap();
    let mut desk = desk(root.path());
    let [a, b] = [("A", "35=A|34=1|49=A|98=0|108=0|"), ("B", "35=A|34=1|49=B|98=0|108=0|")].map(
        |(_, logon)| {
            let line = desk.connect();
            assert!(desk.gets(line, logon).starts_with("35=A|"));
            line
        },
    );
    let request = desk.message("35=2|34=2|49=A|7=1|16=0|");
    let (mut out, clock, begun) = (Vec::new(), desk.clock, Instant::now());
    desk.door.received(desk.lines[a].as_mut().unwrap(), &request, clock, &mut out);
    let (mut got, mut pieces, mut seq) = (resent(&out), 1, 1);
    let (mut longest, mut answered) = (begun.elapsed(), Duration::ZERO);
    while desk.door.is_resending(desk.lines[a].as_ref().unwrap()) {
        assert!(out.len() <= PIECE_BYTES_MAX, "{} bytes at once", out.len());
        // Whoever else trades waits for one piece, however many there are.
        seq += 1;
        let since = Instant::now();
        let echoed = desk.gets(b, &format!("35=D|34={seq}|49=B|11=b{seq}|"));
        assert!(echoed.contains(&format!("|11=b{seq}|")), "{echoed}");
        answered = answered.max(since.elapsed());
        out.clear();
        let since = Instant::now();
        desk.door.resume(desk.lines[a].as_mut().unwrap(), clock, &mut out);
        longest = longest.max(since.elapsed());
        got += resent(&out);
        pieces += 1;
    }
    assert_eq!(got, MESSAGES);
    assert!(pieces > MESSAGES / 400, "{pieces} pieces");
    println!(
        "{MESSAGES} messages again in {:?}: {pieces} pieces, the longest {longest:?}; the other session was answered in {answered:?} at most",
        begun.elapsed()
    );
}

/// An operator set the next number as high as it can be: the peer is told at once, by one gap fill.
#[test]
fn a_number_that_was_set_far_ahead_costs_a_resend_one_gap_fill() {
    let root = tempfile::tempdir().unwrap();
    let config = FixSessions::new(vec![echo("A")], vec![]).unwrap();
    let mut stores = FileStores::open(root.path(), Options::default()).unwrap();
    for (name, durability) in config.stores() {
        stores.add(name, durability, START_UNIX_MS).unwrap();
    }
    let mut desk = Desk::passing("FIX.4.4", vec![echo("A")], vec![], stores, ());
    let line = desk.connect();
    desk.gets(line, "35=A|34=1|49=A|98=0|108=0|");
    desk.gets(line, "35=D|34=2|49=A|11=a|");
    desk.drop_line(line);
    desk.door.stores().set_numbers(0, 999_999_998, 3).unwrap();
    let line = desk.connect();
    let logon = desk.gets(line, "35=A|34=3|49=A|98=0|108=0|");
    assert_eq!(logon, "35=A|34=999999998|98=0|108=0|");
    let again = desk.gets(line, "35=2|34=4|49=A|7=2|16=0|");
    let time = desk.time(0);
    let fill = format!("35=4|34=3|43=Y|122={time}|36=999999999|123=Y|");
    assert_eq!(again, format!("35=D|34=2|43=Y|122={time}|11=a|{fill}"));
    assert!(!desk.door.is_resending(desk.lines[line].as_ref().unwrap()));
}

fn resent(bytes: &[u8]) -> u64 {
    let count = bytes.windows(6).filter(|part| part == b"\x0143=Y\x01").count();
    // The Logon between them and the present is a gap fill.
    let filled = bytes.windows(6).filter(|part| part == b"\x01123=Y").count();
    (count - filled) as u64
}
