//! Which messages are rejected, with which reason and tag.

use crate::made::{made, made_of_bytes, whole};
use fix::{Dictionary, Index, RejectReason, Rejection, Validation};
use proptest::prelude::*;

const HEAD: &str = "49=TW44|34=2|52=20261123-10:15:30.123|56=ISLD|";
const ORDER: &str = "11=ID|21=1|40=1|54=1|38=200.00|55=INTC|60=20261123-10:15:30|";

fn check_in(begin: &str, body: &str, validation: Validation<'_>) -> Result<(), Rejection> {
    let bytes = made(begin, body);
    let mut index = Index::new(512);
    let message = index.read(whole(&bytes)).unwrap();
    validation.check(&message)
}

/// Code and tag of the rejection by the crate's own dictionary of a version.
fn full_in(begin: &str, dictionary: &Dictionary, body: &str) -> Option<(u8, Option<i64>)> {
    let rejection = check_in(begin, body, Validation::Full(dictionary)).err();
    rejection.map(|rejection| (rejection.reason.code(), rejection.tag))
}

fn full44(msg_type: &str, body: &str) -> Option<(u8, Option<i64>)> {
    full_in("FIX.4.4", &Dictionary::fix44(), &format!("35={msg_type}|{HEAD}{body}"))
}

#[test]
fn orders_of_every_version_are_good() {
    let order = format!("35=D|{HEAD}{ORDER}");
    for (begin, dictionary) in [
        ("FIX.4.2", Dictionary::fix42()),
        ("FIX.4.4", Dictionary::fix44()),
        ("FIXT.1.1", Dictionary::fixt11_fix50sp2()),
    ] {
        assert_eq!(full_in(begin, &dictionary, &order), None, "{begin}");
        assert_eq!(full_in(begin, &dictionary, &format!("35=0|{HEAD}")), None);
        let head = "35=A|49=A|34=1|52=20261123-10:15:30|56=B|98=0|108=30|";
        let logon = if begin == "FIXT.1.1" { format!("{head}1137=9|") } else { head.to_string() };
        assert_eq!(full_in(begin, &dictionary, &logon), None);
    }
    let header = "1128=9|49=A|34=2|52=20261123-10:15:30|56=B|";
    assert_eq!(
        full_in("FIXT.1.1", &Dictionary::fixt11_fix50sp2(), &format!("35=D|{header}{ORDER}")),
        None
    );
    assert_eq!(full44("D", &format!("{ORDER}1128=9|")), Some((0, Some(1128))));
}

/// 373=0: a tag that is no field of the version.
#[test]
fn tags_that_do_not_exist_are_rejected() {
    for (field, tag) in [
        ("999=HI|", 999),
        ("0=HI|", 0),
        ("-1=HI|", -1),
        ("5000=HI|", 5000),
        ("123456=HI|", 123_456),
    ] {
        assert_eq!(full44("0", field), Some((0, Some(tag))));
    }
    let fields = [("447=D|", 447), ("101=1|", 101), ("789=1|", 789)];
    for (field, tag) in fields {
        let rejected = full_in("FIX.4.2", &Dictionary::fix42(), &format!("35=0|{HEAD}{field}"));
        assert_eq!(rejected, Some((0, Some(tag))));
    }
}

/// 373=1, 2, 4, 5, 6, 11, 13, 14.
#[test]
fn single_mistakes_have_their_reason() {
    let without = |field: &str| ORDER.replace(field, "");
    let with = |field: &str| format!("{ORDER}{field}");
    for (body, wanted) in [
        (without("54=1|"), (1, Some(54))),
        (without("40=1|"), (1, Some(40))),
        (without("60=20261123-10:15:30|"), (1, Some(60))),
        (with("41=x|"), (2, Some(41))),
        (with("58=|"), (4, Some(58))),
        (ORDER.replace("21=1", "21=4"), (5, Some(21))),
        (with("167=BOO|"), (5, Some(167))),
        (with("18=1 G 2 !|"), (5, Some(18))),
        (ORDER.replace("200.00", "+200.00"), (6, Some(38))),
        (ORDER.replace("60=20261123-10:15:30", "60=20261123"), (6, Some(60))),
        (with("113=Y|"), (2, Some(113))),
        (with("121=y|"), (6, Some(121))),
        (ORDER.replace("40=1", "40=1|40=2"), (13, Some(40))),
        (with("34=3|"), (14, Some(34))),
        (with("50=x|"), (14, Some(50))),
        (with("93=1|89=x|58=x|"), (14, Some(58))),
    ] {
        assert_eq!(full44("D", &body), Some(wanted), "{body}");
    }
    for good in ["167=CS|", "18=1 G 2|", "93=1|89=x|"] {
        assert_eq!(full44("D", &with(good)), None, "{good}");
    }
    assert_eq!(full44("ZZ", ORDER), Some((11, None)));
    assert_eq!(full44("UX", "58=x|"), None, "types of users' own");
    assert_eq!(full44("UX", "5000=x|"), Some((0, Some(5000))));
    let headless = "35=0|49=A|34=1|56=B|";
    assert_eq!(full_in("FIX.4.4", &Dictionary::fix44(), headless), Some((1, Some(52))));
}

/// FIX 5.0 SP2 has kinds of securities, fees and days of settlement that 4.4 does not have.
#[test]
fn values_of_fix_50_sp2_are_its_own() {
    let dictionary = Dictionary::fixt11_fix50sp2();
    let header = "49=A|34=2|52=20261123-10:15:30|56=B|";
    let report = "37=o|17=e|150=0|39=0|55=X|54=1|151=1|14=0|136=1|137=1|138=USD|";
    for (tag, good, bad) in [
        (63, "0 9 B C D5 M3 W2 Y10 D123456789", "A D DD D0 D05 5D X5 ZZ 10 D# D1x"),
        (167, "CS FUT FXNDF FXSPOT MLEG ? TMCP", "BOO cs CSX FX"),
        (139, "1 12 13 14", "0 15 x 1x"),
    ] {
        let start = if tag == 139 {
            format!("35=8|{header}{report}")
        } else {
            format!("35=D|{header}{ORDER}")
        };
        let found =
            |value: &str| full_in("FIXT.1.1", &dictionary, &format!("{start}{tag}={value}|"));
        for value in good.split(' ') {
            assert_eq!(found(value), None, "{tag}={value}");
        }
        for value in bad.split(' ') {
            assert_eq!(found(value), Some((5, Some(tag))), "{tag}={value}");
        }
    }
}

#[test]
fn groups_are_counted_and_ordered() {
    let with = |group: &str| {
        full44("D", &format!("11=ID|40=1|54=1|38=1|55=X|{group}60=20261123-10:15:30|"))
    };
    for (group, wanted) in [
        ("386=2|336=PRE|336=POST|", None),
        ("386=0|", None),
        ("386=3|336=PRE-OPEN|336=AFTER-HOURS|", Some((16, Some(386)))),
        ("386=1|336=PRE|336=POST|", Some((16, Some(386)))),
        ("386=1|", Some((16, Some(386)))),
        ("386=18446744073709551617|336=x|", Some((16, Some(386)))),
        ("386=-1|", Some((6, Some(386)))),
        ("386=x|336=PRE|", Some((6, Some(386)))),
        ("386=1|625=x|336=PRE|", Some((15, Some(625)))),
        ("386=1|336=PRE|625=1|625=2|", Some((13, Some(625)))),
        ("336=PRE|", Some((2, Some(336)))),
        ("386=1|336=PRE|386=1|336=PRE|", Some((13, Some(386)))),
        ("453=2|448=A|447=D|452=1|448=B|802=1|523=s|803=1|", None),
        ("453=2|448=A|447=D|452=1|448=B|802=2|523=s|803=1|", Some((16, Some(802)))),
        ("453=1|448=A|447=D|452=1|999=x|", Some((0, Some(999)))),
        ("78=1|79=acc|80=100|", None),
        ("78=2|79=acc|79=acc2|80=100|", None),
    ] {
        assert_eq!(with(group), wanted, "{group}");
    }
    // The count is judged before the values of the members.
    let wrong =
        full_in("FIX.4.4", &Dictionary::fix44(), &format!("35=D|{HEAD}{ORDER}453=2|448=A|447=!|"));
    assert_eq!(wrong, Some((16, Some(453))));
}

#[test]
fn hops_of_the_header_are_a_group() {
    let head = |hops: &str| format!("35=0|49=A|34=2|52=20261123-10:15:30|56=B|{hops}");
    let dictionary = Dictionary::fix44();
    assert_eq!(full_in("FIX.4.4", &dictionary, &head("627=1|628=h|630=4|112=x|")), None);
    assert_eq!(full_in("FIX.4.4", &dictionary, &head("627=2|628=h|112=x|")), Some((16, Some(627))));
}

#[test]
fn structure_knows_no_dictionary() {
    let structure = |body: &str| check_in("FIX.4.4", body, Validation::Structure).err();
    let rejected = |body: &str| structure(body).map(|found| (found.reason.code(), found.tag));
    assert_eq!(rejected(&format!("35=D|{HEAD}{ORDER}{ORDER}9999=x|70000=y|-1=x|")), None);
    assert_eq!(rejected(&format!("35=D|{HEAD}5001=|")), Some((4, Some(5001))));
    assert_eq!(rejected(&format!("35=D|{HEAD}70000=|")), Some((4, Some(70_000))));
    assert_eq!(rejected("35=D|55=X|34=3|49=A|52=x|56=B|"), Some((14, Some(34))));
    assert_eq!(rejected("35=D|49=A|52=x|56=B|55=X|"), Some((1, Some(34))));
    assert_eq!(rejected(&format!("35=D|{HEAD}95=9|96=a|58=x|")), Some((5, Some(95))));
}

#[test]
fn off_lets_pass_what_can_be_read() {
    let off = |body: &str| {
        check_in("FIX.4.4", body, Validation::Off)
            .err()
            .map(|found| (found.reason.code(), found.tag))
    };
    assert_eq!(off(&format!("35=ZZ|{HEAD}58=|58=|0=x|70000=y|55=a|34=9|")), None);
    assert_eq!(off("35=8|49=A|56=B|34=2|"), Some((1, Some(52))));
    assert_eq!(off(&format!("35=8|{HEAD}95=x|96=a|")), Some((5, Some(95))));
}

#[test]
fn reasons_have_the_texts_that_peers_match_on() {
    let reason = RejectReason::IncorrectGroupCount;
    assert_eq!(
        (reason.code(), reason.text()),
        (16, "Incorrect NumInGroup count for repeating group")
    );
    assert_eq!(reason.code_in(b"FIX.4.4"), Some(16));
    assert_eq!(reason.code_in(b"FIX.4.2"), None, "FIX 4.2 knows 0 to 11 only");
    assert_eq!(RejectReason::InvalidMsgType.code_in(b"FIX.4.2"), Some(11));
    let rejection = Rejection { reason: RejectReason::InvalidTagNumber, tag: Some(-1) };
    assert_eq!(rejection.to_string(), "Invalid tag number (tag -1)");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Counts, delimiters and members in any order: judged, never a panic, and the same for the same message.
    #[test]
    fn any_fields_are_judged(fields in proptest::collection::vec(
        (prop_oneof![Just(386_i64), Just(336), Just(625), Just(453), Just(448), Just(802), Just(523), Just(78), Just(79), Just(539), Just(524), -2_i64..1000],
         prop_oneof![(0_u32..4).prop_map(|n| n.to_string()), "[ -~]{0,6}"]), 0..40)) {
        let mut body = format!("35=D|{HEAD}{ORDER}").replace('|', "\x01").into_bytes();
        for (tag, value) in fields {
            body.extend_from_slice(format!("{tag}={value}\x01").as_bytes());
        }
        let bytes = made_of_bytes("FIX.4.4", &body);
        let mut index = Index::new(128);
        let Ok(message) = index.read(whole(&bytes)) else { return Ok(()) };
        let dictionary = Dictionary::fix44();
        for validation in [Validation::Off, Validation::Structure, Validation::Full(&dictionary)] {
            prop_assert_eq!(validation.check(&message), validation.check(&message));
        }
    }
}
