//! The fields of messages, and the parts of data fields put together.

use crate::made::{indexes, made, made_of_bytes, order, text, whole};
use fix::{Fault, Garbled};

const HEAD: &str = "35=B|49=A|56=B|34=2|52=20261123-10:00:00.000|";

/// The fields behind the header and before CheckSum, which is the same for every way.
fn body_of(bytes: &[u8]) -> (String, Option<Fault>) {
    let mut answers: Vec<(String, Option<Fault>)> = indexes()
        .iter_mut()
        .map(|index| {
            let message = index.read(whole(bytes)).unwrap();
            (text(&message), message.fault())
        })
        .collect();
    let first = answers.pop().unwrap();
    assert!(answers.iter().all(|answer| *answer == first), "{answers:?} {first:?}");
    let body = first.0.split_once(HEAD).unwrap().1;
    let whole = first.1.is_none().then(|| &body[..body.len() - "10=000|".len()]);
    (whole.unwrap_or(body).to_string(), first.1)
}

fn error_of(body: &str) -> Garbled {
    let bytes = made("FIX.4.4", &format!("{HEAD}{body}"));
    let mut errors: Vec<Garbled> =
        indexes().iter_mut().map(|index| index.read(whole(&bytes)).unwrap_err()).collect();
    let first = errors.pop().unwrap();
    assert!(errors.iter().all(|error| *error == first), "{errors:?}");
    first
}

#[test]
fn an_order_has_its_fields() {
    let bytes = order(77);
    for mut index in indexes() {
        let message = index.read(whole(&bytes)).unwrap();
        assert_eq!(message.len(), 22);
        assert_eq!(message.msg_type(), b"D");
        assert_eq!(message.begin_string(), b"FIX.4.4");
        assert_eq!(message.value(11), Some(&b"ORD-10000077"[..]));
        assert_eq!(message.value(58), Some(&b"desk eleven"[..]));
        assert_eq!(message.number(34), Some(10_077));
        assert_eq!(message.value(9999), None);
        assert_eq!(message.body_at(), 8);
        assert_eq!(message.field(message.len()), None);
        assert_eq!(message.stretch(0, message.len()), Some(&bytes[..]));
        assert_eq!(message.tag_at(21), Some(10));
    }
}

#[test]
fn odd_values_and_tags_pass() {
    let body = "58=|5001=a=b=|70000=x|999999999=y|0=z|-1=u|-12=v|38=1|38=2|";
    let bytes = made("FIX.4.4", &format!("{HEAD}{body}"));
    assert_eq!(body_of(&bytes), (body.to_string(), None));
    for mut index in indexes() {
        let message = index.read(whole(&bytes)).unwrap();
        assert_eq!(message.value(70_000), Some(&b"x"[..]));
        assert_eq!(message.value(999_999_999), Some(&b"y"[..]));
        assert_eq!(message.value(0), Some(&b"z"[..]), "zero and negative tags are 0");
        let second = message.find_from(38, message.find(38).unwrap() + 1).unwrap();
        assert_eq!(message.value_at(second), Some(&b"2"[..]));
        assert_eq!(message.tag_text_at(message.find(0).unwrap() + 1), Some(&b"-1"[..]));
    }
}

#[test]
fn what_is_no_tag_is_garbled() {
    let at = |found: Garbled| matches!(found, Garbled::Tag { at } if at > 50);
    let bad = [
        "x|",
        "58|",
        "=5|",
        "|",
        "038=1|",
        "00=1|",
        "+5=1|",
        "5 8=1|",
        " 58=1|",
        "5.8=1|",
        "--1=1|",
        "-=1|",
        "-01=1|",
        "9999999999=1|",
        "58\u{e9}=x|",
        "1234567=ok|12345678x=1|",
        "58:=1|",
        "5/8=1|",
    ];
    for body in bad {
        assert!(at(error_of(body)), "{body}");
        assert!(at(error_of(&format!("58=ok|{body}58=ok|"))), "{body}");
        assert!(at(error_of(&format!("{}{body}", "1=a|".repeat(40)))), "{body}");
    }
}

#[test]
fn data_fields_hold_any_bytes() {
    for data in [
        &b"plain"[..],
        b"a\x01b",
        b"\x0138=100\x0144=1\x01",
        b"\x01",
        b"",
        b"==\x01\x01==",
        b"x\x01y",
    ] {
        let mut body =
            format!("{HEAD}58=before|95={}|96=", data.len()).replace('|', "\x01").into_bytes();
        body.extend_from_slice(data);
        body.extend_from_slice(b"\x0138=5\x01");
        let shown = String::from_utf8_lossy(data).replace('\x01', "<SOH>");
        let wanted = format!("58=before|95={}|96={shown}|38=5|", data.len());
        assert_eq!(body_of(&made_of_bytes("FIX.4.4", &body)), (wanted, None));
    }
}

#[test]
fn several_data_fields_stand_one_after_the_other() {
    let body = "95=3|96=a|b|354=5|355=1=2|3|58=x|1401=2|1402=|||93=4|89=q|1=|";
    let wanted =
        "95=3|96=a<SOH>b|354=5|355=1=2<SOH>3|58=x|1401=2|1402=<SOH><SOH>|93=4|89=q<SOH>1=|";
    assert_eq!(body_of(&made("FIX.4.4", &format!("{HEAD}{body}"))), (wanted.to_string(), None));
}

/// The data field is the last one: its end is the byte before CheckSum.
#[test]
fn a_data_field_ends_before_the_check_sum() {
    let good = made("FIX.4.4", &format!("{HEAD}95=6|96=10=123|"));
    assert_eq!(body_of(&good), ("95=6|96=10=123|".to_string(), None));
    for lie in ["95=7|96=10=123|", "95=13|96=10=123|", "95=12|96=10=123|", "95=5|96=10=123|"] {
        let body = made("FIX.4.4", &format!("{HEAD}{lie}"));
        let length = lie.split('|').next().unwrap();
        let wanted = (format!("{length}|"), Some(Fault::DataLength { length: 95 }));
        assert_eq!(body_of(&body), wanted, "{lie}");
    }
}

#[test]
fn a_length_without_its_data_field_is_a_plain_field() {
    for body in
        ["95=3|58=a|", "95=3|", "96=x|95=1|", "95=3|97=Y|96=x|", "160=5|58=x|", "95=1|95=1|96=x|"]
    {
        let bytes = made("FIX.4.4", &format!("{HEAD}{body}"));
        assert_eq!(body_of(&bytes), (body.to_string(), None), "{body}");
    }
}

#[test]
fn the_pairs_of_a_dictionary_count() {
    let mut data = fix::DataFields::standard();
    data.add(5020, 5021);
    let bytes = made("FIX.4.4", &format!("{HEAD}5020=3|5021=a|b|58=x|"));
    for simd in fix::Simd::all() {
        let mut index = fix::Index::with(64, simd, data.clone());
        let message = index.read(whole(&bytes)).unwrap();
        assert_eq!(message.value(5021), Some(&b"a\x01b"[..]));
        assert_eq!(message.value(58), Some(&b"x"[..]));
    }
}

#[test]
fn more_fields_than_room_are_refused() {
    let bytes = made("FIX.4.4", &format!("{HEAD}{}", "58=x|".repeat(60)));
    for simd in fix::Simd::all() {
        for fields_max in [0, 1, 3, 66, 67] {
            let mut index = fix::Index::with(fields_max, simd, fix::DataFields::standard());
            let refused = index.read(whole(&bytes)).unwrap_err();
            assert_eq!(
                refused,
                Garbled::TooManyFields { fields_max: fields_max.try_into().unwrap() }
            );
        }
        let mut index = fix::Index::with(68, simd, fix::DataFields::standard());
        assert_eq!(index.read(whole(&bytes)).unwrap().len(), 68);
    }
}
