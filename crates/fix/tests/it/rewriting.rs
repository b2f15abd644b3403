//! What passes through keeps its body byte for byte.

use crate::made::{made, made_of_bytes, order, text, whole};
use fix::{Envelope, Index, RewriteError, Sending, Signed};
use proptest::prelude::*;

const TIME: &[u8] = b"20261123-10:15:31.000";

fn envelope() -> Envelope {
    Envelope::new("FIX.4.4", "GATE", "VENUE").unwrap()
}

fn sending(seq: u64) -> Sending<'static> {
    Sending { seq, time: TIME, first_sent: None }
}

/// The new message with `|` for SOH, without 8, 9 and 10, which are checked.
fn rewritten(envelope: &Envelope, body: &str, sending: Sending<'_>) -> String {
    let bytes = made("FIX.4.4", body);
    let mut index = Index::new(512);
    let message = index.read(whole(&bytes)).unwrap();
    let mut out = vec![0; 4096];
    let len = envelope.write(&message, sending, &mut out).unwrap();
    let new = whole(&out[..len]);
    let body =
        String::from_utf8(new.bytes()[new.body_start()..new.trailer_start()].to_vec()).unwrap();
    body.replace('\x01', "|")
}

#[test]
fn the_header_is_new_and_the_body_stays() {
    let head = "35=D|49=CLIENT|56=GATE|34=17|52=20261123-10:15:30.123456|50=T7|97=Y|";
    let body = "11=a|58=|38=002000.00|9999=x|38=1|70000=y|453=1|448=F|447=D|95=3|96=a|b|";
    let new = rewritten(&envelope(), &format!("{head}{body}"), sending(9));
    let wanted = "35=D|34=9|49=GATE|52=20261123-10:15:31.000|56=VENUE|50=T7|97=Y|";
    assert_eq!(new, format!("{wanted}{body}"));
}

#[test]
fn a_copy_of_the_client_is_a_new_message_for_the_venue() {
    let head = "35=D|43=Y|49=C|56=G|34=17|52=20261123-10:15:30|122=20261123-10:15:29|369=4|";
    let new = rewritten(&envelope(), &format!("{head}11=a|"), sending(9));
    assert_eq!(new, "35=D|34=9|49=GATE|52=20261123-10:15:31.000|56=VENUE|11=a|");
}

#[test]
fn a_message_that_is_sent_again_says_so() {
    let again = Sending { seq: 9, time: TIME, first_sent: Some(b"20261123-10:00:00.000") };
    let head = "35=D|34=9|49=GATE|52=20261123-10:00:00.000|56=VENUE|50=x|";
    let new = rewritten(&envelope(), &format!("{head}11=a|"), again);
    let wanted = "35=D|34=9|43=Y|49=GATE|52=20261123-10:15:31.000|56=VENUE|122=20261123-10:00:00.000|50=x|11=a|";
    assert_eq!(new, wanted);
}

#[test]
fn fields_of_the_header_are_set_and_dropped_as_told() {
    let envelope = envelope().set(115, Some("CLIENT")).unwrap().set(50, None).unwrap();
    let new = rewritten(&envelope, "35=D|49=C|56=G|34=1|52=x|50=T|115=old|57=S|11=a|", sending(2));
    let wanted = "35=D|34=2|49=GATE|52=20261123-10:15:31.000|56=VENUE|115=CLIENT|57=S|11=a|";
    assert_eq!(new, wanted);
}

/// Without validation a peer may put fields of the header behind the body; two senders in one message would be the venue's to choose.
#[test]
fn replaced_fields_in_the_body_do_not_pass() {
    let new = rewritten(&envelope(), "35=D|11=a|49=EVIL|55=X|34=7|52=x|56=G|57=S|", sending(3));
    assert_eq!(new, "35=D|34=3|49=GATE|52=20261123-10:15:31.000|56=VENUE|11=a|55=X|57=S|");
}

#[test]
fn signatures_do_not_survive() {
    for signed in ["90=3|91=a|b|11=a|", "11=a|93=2|89=xy|", "93=1|89=||"] {
        let bytes = made("FIX.4.4", &format!("35=D|49=C|56=G|34=1|52=x|{signed}"));
        let mut index = Index::new(64);
        let message = index.read(whole(&bytes)).unwrap();
        let mut out = vec![7; 400];
        let refused = envelope().write(&message, sending(1), &mut out);
        assert_eq!(refused, Err(RewriteError::Signed));
        assert!(out.iter().all(|byte| *byte == 7));
        let len = envelope().signed(Signed::Strip).write(&message, sending(1), &mut out).unwrap();
        let mut index = Index::new(64);
        let stripped = text(&index.read(whole(&out[..len])).unwrap());
        let left =
            ["89=", "90=", "91=", "93="].iter().any(|tag| stripped.contains(&format!("|{tag}")));
        assert!(!left, "{stripped}");
        assert_eq!(stripped.contains("11=a"), signed.contains("11=a"));
    }
}

#[test]
fn a_lying_length_is_not_passed_on() {
    let bytes = made("FIX.4.4", "35=D|49=C|56=G|34=1|52=x|95=5|96=ab|11=a|");
    let mut index = Index::new(64);
    let message = index.read(whole(&bytes)).unwrap();
    let refused = envelope().write(&message, sending(1), &mut [0; 400]);
    assert_eq!(refused, Err(RewriteError::Fault));
}

#[test]
fn a_small_room_is_told_what_is_needed() {
    let bytes = order(1);
    let mut index = Index::new(64);
    let message = index.read(whole(&bytes)).unwrap();
    let mut out = vec![0; 400];
    let len = envelope().write(&message, sending(1), &mut out).unwrap();
    for room in 0..len {
        let refused = envelope().write(&message, sending(1), &mut out[..room]);
        assert_eq!(refused, Err(RewriteError::NoRoom { needed: len }));
    }
    assert_eq!(envelope().write(&message, sending(1), &mut out[..len]), Ok(len));
}

#[test]
fn values_of_the_header_are_checked() {
    for (begin, sender, target) in
        [("", "a", "b"), ("a", "", "b"), ("a", "b", ""), ("a", "b\x01", "c")]
    {
        assert!(Envelope::new(begin, sender, target).is_err());
    }
    assert_eq!(envelope().set(115, Some("a\x01b")).unwrap_err().tag, 115);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Any body that can be read passes byte for byte, whatever it holds, unless it has fields that are never passed.
    #[test]
    fn bodies_stay_byte_for_byte(
        fields in proptest::collection::vec((1000_u32..80_000, "[ -~]{0,12}"), 0..30),
        data in proptest::collection::vec(any::<u8>(), 0..30),
        seq in any::<u64>(),
    ) {
        let mut body = b"11=a\x01".to_vec();
        for (tag, value) in fields.iter().filter(|(tag, _)| ![1128, 1129, 1156].contains(tag)) {
            body.extend_from_slice(format!("{tag}={value}\x01").as_bytes());
        }
        body.extend_from_slice(format!("95={}\x0196=", data.len()).as_bytes());
        body.extend_from_slice(&data);
        body.push(1);
        let head = b"35=D\x0149=C\x0156=G\x0134=1\x0152=x\x01".to_vec();
        let bytes = made_of_bytes("FIX.4.4", &[head, body.clone()].concat());
        let mut index = Index::new(64);
        let Ok(message) = index.read(whole(&bytes)) else { return Ok(()) };
        prop_assume!(message.fault().is_none());
        let mut out = vec![0; 2048];
        let len = envelope().write(&message, sending(seq), &mut out).unwrap();
        let new = whole(&out[..len]);
        prop_assert!(new.bytes()[..new.trailer_start()].ends_with(&body));
        let mut again = Index::new(64);
        let again = again.read(new).unwrap();
        prop_assert_eq!(again.number(34), Some(seq));
        let mut twice = vec![0; 2048];
        let twice_len = envelope().write(&again, sending(seq), &mut twice).unwrap();
        prop_assert_eq!(&twice[..twice_len], new.bytes());
    }
}
