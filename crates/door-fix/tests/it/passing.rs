//! A client, the gate, and a venue: what goes through, byte for byte, and what does not.

use door_fix::{Happening, Route, VenueSpec};
use fix::{Framing, Index, frame};
use fix_session::{MemoryStore, MessageStore};
use proptest::prelude::*;

use crate::desk::{Desk, START_UNIX_MS, plain, spec};

type Pair = Desk<Vec<MemoryStore>>;

const LOGON: &str = "35=A|34=1|98=0|108=30|";
const ORDER: &str = "11=a|38=002000.00|55=IBM|9999=own|58=|";

/// A gate with the client (session 0) and the venue (session 1), neither connected. The client's messages are not checked.
fn gate() -> Pair {
    let mut client = spec("FIX.4.4");
    (client.route, client.keys.validation) = (Route::Venue("VENUE".into()), door_fix::Checks::Off);
    let venue = VenueSpec::new("FIX.4.4", "GATE", "VENUE");
    let stores = vec![MemoryStore::new(START_UNIX_MS), MemoryStore::new(START_UNIX_MS)];
    Desk::passing("FIX.4.4", vec![client], vec![venue], stores, ())
}

/// Both logged on: client, venue.
fn logged_on() -> (Pair, usize, usize) {
    let mut desk = gate();
    let client = desk.connect();
    assert_eq!(desk.gets(client, LOGON), LOGON);
    let venue = venue_logs_on(&mut desk, 1);
    (desk, client, venue)
}

fn venue_logs_on(desk: &mut Pair, seq: u64) -> usize {
    let (venue, logon) = desk.dial();
    assert!(logon.starts_with("35=A|") && logon.ends_with("98=0|108=30|"), "{logon}");
    assert_eq!(desk.gets(venue, &from_venue(&format!("35=A|34={seq}|98=0|108=30|"))), "");
    venue
}

fn from_venue(text: &str) -> String {
    format!("{text}49=VENUE|")
}

/// The messages for the one other connection.
fn other(desk: &mut Pair, line: usize) -> String {
    let ready = desk.ready();
    assert!(ready.iter().all(|one| one.0 == line), "{ready:?}");
    ready.iter().map(|one| plain(&one.1)).collect()
}

#[test]
fn orders_go_through_and_reports_come_back() {
    let (mut desk, client, venue) = logged_on();
    assert_eq!(desk.gets(client, &format!("35=D|34=2|115=DESK|{ORDER}")), "");
    assert_eq!(other(&mut desk, venue), format!("35=D|34=2|115=DESK|{ORDER}"));
    assert_eq!(desk.gets(venue, &from_venue("35=8|34=2|37=x|11=a|150=0|5000=q|")), "");
    assert_eq!(other(&mut desk, client), "35=8|34=2|37=x|11=a|150=0|5000=q|");
    // Towards the venue an order that fills the client's gap is new, and PossResend stays.
    desk.gets(client, &format!("35=D|34=3|43=Y|97=Y|122={}|{ORDER}", desk.time(-1)));
    assert_eq!(other(&mut desk, venue), format!("35=D|34=3|97=Y|{ORDER}"));
}

#[test]
fn without_a_venue_nothing_is_taken_and_nothing_waits() {
    let mut desk = gate();
    let client = desk.connect();
    desk.gets(client, LOGON);
    let refused = "58=Application not available|372=D|379=a|380=4|";
    assert_eq!(
        desk.gets(client, &format!("35=D|34=2|{ORDER}")),
        format!("35=j|34=2|45=2|{refused}")
    );
    // The venue is logged on and its first gap is open: what comes from the past comes first.
    let venue = desk.dial().0;
    assert_eq!(desk.gets(venue, &from_venue("35=A|34=3|98=0|108=30|")), "35=2|34=2|7=1|16=0|");
    assert_eq!(
        desk.gets(client, &format!("35=D|34=3|{ORDER}")),
        format!("35=j|34=3|45=3|{refused}")
    );
    let fill = format!("35=4|34=1|43=Y|122={}|36=4|123=Y|", desk.time(0));
    assert_eq!(desk.gets(venue, &from_venue(&fill)), "");
    desk.gets(client, &format!("35=D|34=4|{ORDER}"));
    assert_eq!(other(&mut desk, venue), format!("35=D|34=3|{ORDER}"));
    // A later gap stops no order.
    assert_eq!(desk.gets(venue, &from_venue("35=0|34=9|")), "35=2|34=4|7=4|16=0|");
    desk.gets(client, &format!("35=D|34=5|{ORDER}"));
    assert_eq!(other(&mut desk, venue), format!("35=D|34=5|{ORDER}"));
    desk.drop_line(venue);
    assert!(desk.gets(client, &format!("35=F|34=6|{ORDER}")).contains("|372=F|379=a|380=4|"));
    assert_eq!(desk.door.stores()[1].next_out(), 6);
}

#[test]
fn a_report_for_an_absent_client_is_seen_as_a_gap() {
    let (mut desk, client, venue) = logged_on();
    desk.drop_line(client);
    desk.gets(venue, &from_venue("35=8|34=2|11=a|150=F|"));
    assert_eq!(desk.ready(), []);
    let client = desk.connect();
    assert_eq!(desk.gets(client, "35=A|34=2|98=0|108=30|"), "35=A|34=3|98=0|108=30|");
    let again = desk.gets(client, "35=2|34=3|7=2|16=0|");
    assert!(again.starts_with("35=8|34=2|43=Y|122=") && again.contains("|11=a|150=F|"), "{again}");
}

#[test]
fn a_rejection_is_told_to_who_sent_it_with_his_number() {
    let (mut desk, client, venue) = logged_on();
    desk.gets(client, "35=1|34=2|112=x|");
    desk.gets(client, &format!("35=D|34=3|{ORDER}"));
    assert_eq!(other(&mut desk, venue), format!("35=D|34=2|{ORDER}"));
    desk.gets(venue, &from_venue("35=3|34=2|45=2|58=no|371=55|372=D|373=5|"));
    assert_eq!(other(&mut desk, client), "35=j|34=3|45=3|58=no|372=D|379=a|380=0|");
    desk.gets(venue, &from_venue("35=j|34=3|45=2|58=never|372=D|379=b|380=6|"));
    assert_eq!(other(&mut desk, client), "35=j|34=4|45=3|58=never|372=D|379=a|380=6|");
    // What is no order has the id that the venue names.
    desk.gets(client, "35=V|34=4|262=m|");
    assert_eq!(other(&mut desk, venue), "35=V|34=3|262=m|");
    desk.gets(venue, &from_venue("35=j|34=4|45=3|58=no|372=V|379=m|380=3|"));
    assert_eq!(other(&mut desk, client), "35=j|34=5|45=4|58=no|372=V|379=m|380=3|");
    // One that names nobody's message is told to nobody but counted.
    desk.gets(venue, &from_venue("35=3|34=5|45=1|58=logon|"));
    assert_eq!(desk.ready(), []);
    assert!(desk.happenings.contains(&Happening::UnknownRejected(1)));
}

/// It would tell the venue of executions, and others, that only a venue can know of.
#[test]
fn what_only_a_venue_may_send_is_not_taken_from_a_client() {
    let (mut desk, client, venue) = logged_on();
    let types = "8 9 N r BZ b AI d f h w y AO AP AQ BD BF".split(' ');
    let mut seq = 2;
    for msg_type in types {
        let id = if msg_type == "8" { "17=e|" } else { "" };
        let told = desk.gets(client, &format!("35={msg_type}|34={seq}|37=x|{id}150=F|32=100|"));
        let named = if id.is_empty() { "" } else { "379=e|" };
        let text = "58=Unsupported Message Type";
        assert_eq!(told, format!("35=j|34={seq}|45={seq}|{text}|372={msg_type}|{named}380=3|"));
        assert_eq!(desk.ready(), [], "{msg_type}");
        seq += 1;
    }
    // Neither while the venue is away.
    desk.drop_line(venue);
    assert!(desk.gets(client, &format!("35=8|34={seq}|17=e|")).ends_with("|380=3|"));
    // What both may send passes.
    let venue = venue_logs_on(&mut desk, 2);
    for (out, msg_type) in (3..).zip(["S", "i", "W", "AE", "B", "AG", "U1"]) {
        seq += 1;
        assert_eq!(desk.gets(client, &format!("35={msg_type}|34={seq}|58=x|")), "");
        assert_eq!(other(&mut desk, venue), format!("35={msg_type}|34={out}|58=x|"));
    }
}

#[test]
fn signed_orders_are_refused_and_signed_reports_arrive() {
    let (mut desk, client, venue) = logged_on();
    let refused = desk.gets(client, "35=D|34=2|11=a|93=3|89=abc|");
    assert!(refused.starts_with("35=j|34=2|45=2|58=a message with a signature"), "{refused}");
    assert_eq!(desk.ready(), []);
    desk.gets(venue, &from_venue("35=8|34=2|11=a|150=F|93=3|89=abc|"));
    assert_eq!(other(&mut desk, client), "35=8|34=3|11=a|150=F|");
}

#[test]
fn a_venue_without_a_client_loses_nothing_in_silence() {
    let venue = VenueSpec::new("FIX.4.4", "GATE", "VENUE");
    let stores = vec![MemoryStore::new(START_UNIX_MS), MemoryStore::new(START_UNIX_MS)];
    let mut desk = Desk::passing("FIX.4.4", vec![spec("FIX.4.4")], vec![venue], stores, ());
    let venue = venue_logs_on(&mut desk, 1);
    desk.gets(venue, &from_venue("35=8|34=2|11=a|150=F|"));
    assert!(desk.happenings.contains(&Happening::Unaddressed(1)));
    // A second connection to it is not taken.
    let (second, logon) = desk.dial();
    assert!(!desk.is_open(second) && logon.is_empty());
}

/// The bytes of a message behind its header and before its CheckSum.
fn body(message: &[u8]) -> Vec<u8> {
    let Framing::Whole(whole) = frame(message, usize::MAX) else { panic!("no whole message") };
    let mut index = Index::new(512);
    let message = index.read(whole).unwrap();
    message.stretch(message.body_at(), message.len() - 1).unwrap().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every field of a body, known or not, repeated or empty, with zeros and in its order.
    #[test]
    fn every_byte_of_a_body_passes(
        fields in proptest::collection::vec((1_u32..99_999, "[ -~&&[^|]]{0,12}"), 1..30),
        report in any::<bool>(),
    ) {
        let small = |tag: u32| tag < 512 && (fix::tag::is_header(tag) || fix::tag::is_trailer(tag));
        let data = fix::DataFields::standard();
        let fields = fields.into_iter().filter(|(tag, _)| {
            !small(*tag) && !fix::tag::is_header(*tag) && *tag != 45
                && u16::try_from(*tag).is_ok_and(|tag| data.data_of(tag).is_none())
        });
        let text: String = fields.map(|(tag, value)| format!("{tag}={value}\x01")).collect();
        let (mut desk, client, venue) = logged_on();
        let (from, to, kind) = if report { (venue, client, "8") } else { (client, venue, "D") };
        let sender = if report { "VENUE" } else { "CLIENT" };
        let time = desk.time(0);
        let text = format!("35={kind}\x0134=2\x0149={sender}\x0152={time}\x0156=GATE\x0111=a\x01{text}");
        let mut message = format!("8=FIX.4.4\x019={}\x01{text}", text.len()).into_bytes();
        let sum = fix::sum(&message);
        message.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
        prop_assert_eq!(desk.gets_bytes(from, &message), "");
        let ready = desk.ready();
        prop_assert_eq!(ready.len(), 1);
        prop_assert_eq!(ready[0].0, to);
        prop_assert_eq!(body(&ready[0].1), body(&message));
    }
}
