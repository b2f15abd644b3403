use proptest::prelude::*;

use super::*;

const LIMITS: ReadLimits =
    ReadLimits { hold_ms_max: 2_000, confirm_ms_max: 3_600_000, entries_max: 3 };
const TOKEN: &str = "-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s";

fn sender(key: Option<&[u8]>) -> Sender<'_> {
    static SECRET: std::sync::LazyLock<KeySecret> =
        std::sync::LazyLock::new(|| KeySecret::new([7; 16]));
    Sender { secret: &SECRET, who: "shop", key }
}

fn one(kind: CallKind, body: &str) -> Entry {
    let mut reader = Reader::default();
    reader.one(kind, body.as_bytes(), &sender(None), &LIMITS);
    reader.calls()[0].clone()
}

fn batch(body: &str) -> Result<Vec<Entry>, BadCall> {
    let mut reader = Reader::default();
    reader.batch(body.as_bytes(), &sender(None), &LIMITS)?;
    Ok(reader.calls().to_vec())
}

fn amount(call: &Call) -> &str {
    call.amount.as_ref().unwrap().as_str()
}

fn budget(body: &str) -> Result<String, String> {
    let call = one(CallKind::Reserve, &format!(r#"{{"budget":{body},"amount":"1"}}"#));
    let call = call.map_err(|why| why.to_string())?;
    let Subject::Budget(budget) = call.subject else { unreachable!() };
    Ok(format!("{:?}", budget.name()))
}

#[test]
fn a_reservation_is_read_with_all_its_members() {
    let body = r#" {"budget":1001, "amount":"0.15","unit":"USD","hold_ms":500,"wait_ms":0,"confirm":false} "#;
    let call = one(CallKind::Reserve, body).unwrap();
    assert_eq!(call.subject, Subject::Budget(Budget::Id(1001)));
    assert_eq!((amount(&call), call.unit), ("0.15", Some(*b"USD\0")));
    let rest = (call.hold_ms, call.wait_ms, call.confirm, call.keyed);
    assert_eq!(rest, (Some(500), Some(0), false, None));
    let body = "\u{feff}{\"budget\":\"a/b\",\"amount\":0.150,\"unit\":null,\"confirm\":true}";
    let call = one(CallKind::Reserve, body).unwrap();
    assert_eq!((amount(&call), call.unit), ("0.150", None));
    assert_eq!((call.hold_ms, call.wait_ms, call.confirm), (None, None, true));
}

#[test]
fn budgets_are_ids_or_handles() {
    for (body, expected) in [
        ("0", "Id(0)"),
        ("9007199254740992", "Id(9007199254740992)"),
        ("\"9007199254740993\"", "Id(9007199254740993)"),
        ("\"18446744073709551615\"", "Id(18446744073709551615)"),
        (r#""team-42\/gpt-5""#, "Handle(\"team-42/gpt-5\")"),
        (r#""te\u0061m""#, "Handle(\"team\")"),
    ] {
        assert_eq!(budget(body).as_deref(), Ok(expected), "{body}");
    }
    for (body, expected) in [
        ("-1", "an id"),
        ("1.0", "an id"),
        ("1e3", "an id"),
        ("9007199254740993", "2^53"),
        ("\"007\"", "leading zeros"),
        ("\"18446744073709551616\"", "an id"),
        ("true", "an id"),
        ("{}", "an object or an array"),
        ("null", "missing"),
        ("\"\"", "0 bytes"),
        ("\"a b\"", "character 2"),
        ("\"4_2\"", "letter"),
        ("\"a//b\"", "empty"),
        ("\"a/../b\"", "\"..\""),
        (&format!("\"{}\"", "h".repeat(10_240)), "10240 bytes, a handle has 1 to 128"),
        (&format!("\"{}\"", "\u{e9}".repeat(100)), "found 200 bytes, a handle has 1 to 128"),
        (&format!("\"{}\"", "\\u00e9".repeat(100)), "found 200 bytes, a handle has 1 to 128"),
    ] {
        let why = budget(body).unwrap_err();
        assert!(
            why.contains("budget") && why.contains(expected) && why.len() < 250,
            "{body}: {why}"
        );
    }
}

#[test]
fn amounts_keep_every_digit() {
    let spend =
        |written: &str| one(CallKind::Spend, &format!(r#"{{"budget":1,"amount":{written}}}"#));
    for written in [
        "1",
        "0",
        "0.5",
        "\"1\"",
        "9223372036854775807",
        "0.0000000000000001",
        "1234567890.123456789",
    ] {
        let call = spend(written).unwrap();
        assert_eq!(amount(&call), written.trim_matches('"'));
    }
    assert_eq!(amount(&spend(r#""\u0031.5""#).unwrap()), "1.5");
    for written in [
        "1e3",
        "\"1e3\"",
        "1E-2",
        "-5",
        "\"-5\"",
        "-0",
        "\"-0\"",
        "\"\"",
        "\"1,000\"",
        "\" 1\"",
        "\"+1\"",
        "\"01\"",
        "\"00.5\"",
        "\"1.\"",
        "\".5\"",
        "\"1.2.3\"",
        "true",
        "[1]",
        "\"NaN\"",
        &"1".repeat(41),
        &format!("\"{}\"", "1".repeat(4_000)),
    ] {
        let why = spend(written).unwrap_err();
        assert!(why.to_string().contains("without sign, exponent"), "{written}: {why}");
        let kind = why.kind();
        assert_eq!((kind.status, kind.verdict), (400, "bad_amount"), "{written}");
        assert_eq!(&*why.field().unwrap().name, "amount");
    }
    // No number of JSON.
    for written in ["01", "1.", ".5", "+1", "NaN"] {
        assert_eq!(spend(written).unwrap_err().kind().verdict, "malformed", "{written}");
    }
}

#[test]
fn holds_are_named_by_their_tokens() {
    let call =
        one(CallKind::Settle, &format!(r#"{{"token":"{TOKEN}","amount":"0.042"}}"#)).unwrap();
    assert_eq!((&call.subject, amount(&call)), (&Subject::Hold([0xfb; 32]), "0.042"));
    for kind in [CallKind::Confirm, CallKind::Release] {
        assert_eq!(one(kind, &format!(r#"{{"token":"{TOKEN}"}}"#)).unwrap().amount, None);
    }
    let whole = one(CallKind::Settle, &format!(r#"{{"token":"{TOKEN}"}}"#)).unwrap();
    assert_eq!(whole.amount, None, "the whole hold");
    let missing = one(CallKind::Settle, r#"{"amount":"1"}"#).unwrap_err();
    assert_eq!(missing.kind().verdict, "malformed");
    for token in [
        "",
        "abc",
        &TOKEN[1..],
        &format!("{TOKEN}="),
        &TOKEN.replace('-', "+"),
        &TOKEN.replace("-_s", "-_t"),
        &TOKEN.replacen('-', "\u{e9}", 1),
    ] {
        let why = one(CallKind::Release, &format!(r#"{{"token":"{token}"}}"#)).unwrap_err();
        assert!(why.to_string().contains("43 characters"), "{token}: {why}");
        assert_eq!((why.kind().status, why.kind().verdict), (400, "bad_token"));
        assert!(
            token.len() < 4 || !why.to_string().contains(token),
            "a token is not repeated: {why}"
        );
        assert!(!why.to_string().contains("found \"43 characters"), "{token}: {why}");
    }
}

#[test]
fn several_budgets_are_an_array_of_different_ones() {
    let read = |rest: &str| one(CallKind::Spend, &format!(r#"{{"amount":"1",{rest}}}"#));
    let call = read(r#""budgets": [ 1 , "a\/b","9007199254740993"] "#).unwrap();
    let names: Vec<_> = call.budgets().iter().map(Budget::name).collect();
    let [id, large] = [1, 9_007_199_254_740_993].map(wire::BudgetName::Id);
    assert_eq!(names, [id, wire::BudgetName::Handle("a/b"), large]);
    assert!(call.asks_for_row());
    assert!(!read(r#""budgets":null,"budget":1"#).unwrap().asks_for_row());
    let nine = (1..10).map(|id: u32| id.to_string()).collect::<Vec<_>>().join(",");
    for bad in
        ["[]", "[1]", "[1,1]", "{}", "7", "[1,[2]]", "[1,null]", "[1,\"..\"]", &format!("[{nine}]")]
    {
        let why = read(&format!("\"budgets\":{bad}")).unwrap_err();
        assert_eq!(
            (&*why.field().unwrap().name, why.kind().verdict),
            ("budgets", "malformed"),
            "{bad}"
        );
    }
    assert!(read(r#""budgets":[1,2],"budget":3"#).is_err());
    let extend = |rest: &str| one(CallKind::Extend, &format!(r#"{{"token":"{TOKEN}"{rest}}}"#));
    assert_eq!(extend(",\"confirm_ms\":1000").unwrap().confirm_ms, Some(1_000));
    for (bad, field) in [("", "confirm_ms"), (",\"confirm_ms\":5,\"amount\":1", "amount")] {
        assert_eq!(&*extend(bad).unwrap_err().field().unwrap().name, field);
    }
}

#[test]
fn members_are_known_and_stand_there_once() {
    let reserve = |rest: &str| {
        one(CallKind::Reserve, &format!(r#"{{"budget":1,"amount":"1",{rest}}}"#)).unwrap_err()
    };
    assert_eq!(reserve(r#""amount":"2""#), BadCall::Twice { member: "amount" });
    assert_eq!(reserve(r#""unit":null,"unit":"USD""#), BadCall::Twice { member: "unit" });
    assert_eq!(reserve(r#""\u0062udget":2"#), BadCall::Twice { member: "budget" });
    // Nothing says what the time is: the client's clock counts for nothing.
    let times = ["deadline", "deadline_ms", "at_ms", "time"];
    for stray in
        ["ammount", "token", "call", "key", "request_id", "Budget", ""].into_iter().chain(times)
    {
        let why = reserve(&format!("\"{stray}\":1")).to_string();
        assert!(why.starts_with(&format!("member {stray:?}: not one of reserve")), "{why}");
    }
    let why = one(CallKind::Spend, r#"{"budget":1,"amount":"1","confirm":true}"#).unwrap_err();
    assert!(why.to_string().contains("not one of spend"), "{why}");
    for kind in [CallKind::Confirm, CallKind::Release] {
        let why = one(kind, &format!(r#"{{"token":"{TOKEN}","amount":"1"}}"#)).unwrap_err();
        assert_eq!(&*why.field().unwrap().name, "amount", "{why}");
    }
    let long = "m".repeat(100_000);
    let why = reserve(&format!("\"{long}\":1"));
    assert!(why.to_string().len() < 250, "a stranger's text is not echoed whole");
}

#[test]
fn numbers_stay_in_their_ranges() {
    let with =
        |rest: &str| one(CallKind::Reserve, &format!(r#"{{"budget":1,"amount":"1",{rest}}}"#));
    assert!(with("\"hold_ms\":2000,\"wait_ms\":1000").is_ok());
    let why = with("\"hold_ms\":2001").unwrap_err();
    let told = why.to_string();
    assert!(
        told.contains("found \"2001\", expected at most 2000, which is ledger.hold_ms")
            && told.contains("\"confirm\":true"),
        "{told}"
    );
    assert_eq!((why.kind().status, &*why.field().unwrap().name), (400, "hold_ms"));
    let why = with("\"hold_ms\":5,\"confirm\":true").unwrap_err();
    assert_eq!((&*why.field().unwrap().name, why.kind().verdict), ("hold_ms", "malformed"));
    for (bad, expected) in [
        ("\"hold_ms\":0", "from 1 to 600000"),
        ("\"hold_ms\":600001", "from 1 to 600000"),
        (
            "\"hold_ms\":99999999999999999999",
            "found \"99999999999999999999\", expected a whole number from 1 to 600000",
        ),
        ("\"hold_ms\":1e3", "from 1 to 600000"),
        ("\"wait_ms\":1001", "from 0 to 1000"),
        ("\"wait_ms\":-1", "from 0 to 1000"),
        ("\"confirm\":true,\"confirm_ms\":999", "from 1000 to 3600000"),
        ("\"confirm\":true,\"confirm_ms\":3600001", "from 1000 to 3600000"),
        ("\"confirm_ms\":1000", "none without \"confirm\":true"),
    ] {
        let why = with(bad).unwrap_err().to_string();
        assert!(why.contains(expected), "{bad}: {why}");
    }
    for bad in ["\"hold_ms\":-1", "\"hold_ms\":1.5", "\"hold_ms\":\"5\""] {
        assert!(matches!(with(bad), Err(BadCall::Range { .. })), "{bad}: {:?}", with(bad));
    }
    for bad in ["\"confirm\":1", "\"unit\":\"usd\"", "\"unit\":7"] {
        assert!(matches!(with(bad), Err(BadCall::Value { .. })), "{bad}: {:?}", with(bad));
    }
}

#[test]
fn what_is_no_object_is_refused_with_its_place() {
    for (body, at) in [
        ("", 1),
        ("null", 1),
        ("[]", 1),
        ("{", 2),
        ("{}x", 3),
        ("{\"a\"}", 5),
        ("{\"a\":1,}", 8),
        ("{\"a\":{}", 8),
        (r#"{"a":"\x"}"#, 7),
        (r#"{"a":"\ud83d"}"#, 7),
        ("{\"a\":1 \"b\":2}", 8),
    ] {
        assert!(
            matches!(one(CallKind::Reserve, body), Err(BadCall::Json { at: found, .. }) if found == at),
            "{body}: {:?}",
            one(CallKind::Reserve, body)
        );
    }
    let mut reader = Reader::default();
    reader.one(CallKind::Reserve, b"{\"a\xff", &sender(None), &LIMITS);
    assert_eq!(reader.calls()[0], Err(BadCall::Utf8 { at: 4 }));
}

#[test]
fn a_batch_is_an_array_of_calls_that_say_which_they_are() {
    let body = format!(
        r#"[{{"call":"reserve","budget":1,"amount":"1"}}, {{"call":"settle","token":"{TOKEN}","amount":1}},{{"call":"refund"}}]"#
    );
    let calls = batch(&body).unwrap();
    assert_eq!(calls[0].as_ref().unwrap().kind, CallKind::Reserve);
    assert_eq!(calls[1].as_ref().unwrap().kind, CallKind::Settle);
    let why = calls[2].as_ref().unwrap_err().to_string();
    assert!(why.contains("\"refund\"") && why.contains("\"spend\""), "{why}");
    let one = r#"{"budget":1,"amount":"1"}"#;
    assert_eq!(
        batch(&format!("[{one}]")).unwrap()[0],
        Err(BadCall::Missing { member: "call", expected: CALL })
    );
    assert_eq!(batch(" [ ] "), Ok(Vec::new()));
    let many = batch(&format!("[{one},{one},{one},{one}]")).unwrap_err();
    assert_eq!(many, BadCall::Entries { max: 3 });
    assert_eq!(many.kind().status, 413);
    // What is JSON and no call is wrong alone, whatever it is and says.
    let good = r#"{"call":"spend","budget":1,"amount":"1"}"#;
    let odd = r#"{"call":"spend","budget":"a\"b\n","amount":"1"}"#;
    for bad in ["1", "null", "[]", "[[{}]]", r#"{"call":{"a":[1]}}"#, odd] {
        let calls = batch(&format!("[{bad},{good}]")).unwrap();
        assert!(calls[0].is_err() && calls[1].is_ok(), "{bad}");
    }
    for bad in ["{}", "[{}", "[{},]", "[{}] ,", "[{} {}]", "1"] {
        assert!(matches!(batch(bad), Err(BadCall::Json { .. })), "{bad}");
    }
    let nested = |depth: usize| format!("[{}{}]", "[".repeat(depth), "]".repeat(depth));
    assert!(batch(&nested(15)).is_ok());
    assert!(matches!(batch(&nested(16)), Err(BadCall::Deep { .. })));
}

#[test]
fn keys_come_in_the_header_or_in_the_entries() {
    let mut reader = Reader::default();
    let body = r#"{"budget":1,"amount":"1"}"#;
    let mut keyed = |key: &[u8], body: &str| {
        reader.one(CallKind::Spend, body.as_bytes(), &sender(Some(key)), &LIMITS);
        reader.calls()[0].clone().map(|call| call.keyed.unwrap())
    };
    let first = keyed(b"k1", body).unwrap();
    assert_eq!(keyed(b"\"k1\"", body).unwrap(), first);
    for other in [body.replace('1', "2"), body.replace("amount", "\\u0061mount")] {
        let other = keyed(b"k1", &other).unwrap();
        assert!(other.key == first.key && other.digest != first.digest, "by its bytes");
    }
    assert!(matches!(keyed(b"", body), Err(BadCall::Key(_))));
    let refused = reader.batch(b"[]", &sender(Some(b"k")), &LIMITS);
    assert!(refused.unwrap_err().to_string().contains("\"key\""));
    let entry = |key: &str| format!(r#"{{"call":"spend","budget":1,"amount":"1","key":{key}}}"#);
    let of = |key: &str| {
        let entry = batch(&format!("[{}]", entry(key))).unwrap().remove(0);
        entry.map(|call| call.keyed.unwrap())
    };
    let in_batch = of("\"k1\"").unwrap();
    assert!(in_batch.key == first.key && in_batch.digest != first.digest, "other bytes");
    assert_eq!(of("\"k1\"").unwrap(), in_batch);
    assert_eq!(of(r#""\"k1\"""#).unwrap().key, first.key, "quotes are taken off");
    assert_ne!(of("\"k2\"").unwrap().key, first.key);
    for bad in ["7", "\"\"", r#""\n""#, "\"\u{e9}\"", &format!("\"{}\"", "k".repeat(256))] {
        assert!(of(bad).unwrap_err().to_string().contains("printable ASCII"), "{bad}");
    }
}

proptest! {
    /// Whatever a stranger sends is read or refused, alone and in a batch.
    #[test]
    fn no_body_panics(bytes in prop::collection::vec(any::<u8>(), 0..64), text in "[\\[{\"budgetamoun:,0-9.\\\\u}\\] ]{0,64}") {
        for body in [bytes, text.into_bytes()] {
            let mut reader = Reader::default();
            for kind in CallKind::ALL {
                reader.one(kind, &body, &sender(Some(b"k")), &LIMITS);
                prop_assert_eq!(reader.calls().len(), 1);
            }
            if reader.batch(&body, &sender(None), &LIMITS).is_ok() {
                prop_assert!(reader.calls().len() <= LIMITS.entries_max);
            }
        }
    }

    /// A body is read alike however it is spaced, and whatever of it is escaped.
    #[test]
    fn spaces_and_escapes_change_nothing(id in 0..=EXACT_MAX, micros in 0..1_000_000_000_i64, space in "[ \t\r\n]{0,3}", unit: bool) {
        let (whole, part) = (micros / 1_000_000, micros % 1_000_000);
        let plain = format!(r#"{{"budget":{id},"amount":"{whole}.{part:06}"{}}}"#, if unit { ",\"unit\":\"USD\"" } else { "" });
        let spaced = plain.replace(':', &format!("{space}:{space}")).replace(',', &format!("{space},{space}"));
        let escaped = plain.replace("mount", "\\u006dount").replace("USD", "\\u0055SD");
        let read = one(CallKind::Reserve, &plain).unwrap();
        prop_assert_eq!(&one(CallKind::Reserve, &spaced).unwrap(), &read);
        prop_assert_eq!(one(CallKind::Reserve, &escaped).unwrap(), read);
    }
}
