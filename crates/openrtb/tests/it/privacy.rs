//! What is forbidden, by whom, and that whatever cannot be understood forbids.

use openrtb::{
    BadConsent, Consent, PersonalData, Privacy, PrivacyCause, PrivacyTerms, Purposes, ReadLimits,
    Reader,
};
use proptest::prelude::*;

/// The example of the TCF's specification: purposes 1 to 3, vendors 2, 6 and 8.
const EXAMPLE: &str = "COvFyGBOvFyGBAbAAAENAPCAAOAAAAAAAAAAAEEUACCKAAA";
/// The example of GPP's specification, in which nobody agreed to anything, as its EU section.
const NOTHING: &str = "CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA";
/// Not opted out, and with the browser's control off, as a consent platform sends it for section 7.
const US_FREE: &str = "DBABLA~BVQqAAAAAgA.QA";

#[test]
fn public_examples_of_tcf_strings() {
    let with_segments = format!(
        "{EXAMPLE}.IFoEUQQgAIQwgIwQABAEAAAAOIAACAIAAAAQAIAgEAACEAAAAAgAQBAAAAAAAGBAAgAAAAAAAFAAECAAAgAAQARAEQAAAAAJAAIAAgAAAYQEAAAQmAgBC3ZAYzUw"
    );
    for text in [EXAMPLE, &with_segments] {
        for vendor in 0..12 {
            let consent = Consent::read(text, vendor).unwrap();
            assert_eq!(consent.vendor, [2, 6, 8].contains(&vendor), "{vendor}");
            let agreed: Vec<u8> = (0..30).filter(|purpose| consent.purpose(*purpose)).collect();
            assert_eq!((agreed, consent.precise_place()), (vec![1, 2, 3], false));
        }
    }
    let nothing = Consent::read(NOTHING, 2).unwrap();
    assert!(!nothing.vendor && (1..=24).all(|purpose| !nothing.purpose(purpose)));
}

/// Writes bits as base64url.
fn letters(bits: &[(u32, u32)]) -> String {
    let text: String =
        bits.iter().map(|(value, len)| format!("{value:0>len$b}", len = *len as usize)).collect();
    let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let sextets = text.as_bytes().chunks(6);
    sextets
        .map(|chunk| {
            let chunk = format!("{:0<6}", std::str::from_utf8(chunk).unwrap());
            char::from(alphabet[usize::from_str_radix(&chunk, 2).unwrap()])
        })
        .collect()
}

/// A consent of our own making: features, purposes, vendors as ranges or bits, and restrictions.
fn consent(features: u32, purposes: u32, vendors: &[(u32, u32)], limits: &[(u32, u32)]) -> String {
    let mut bits = vec![
        (2, 6),
        (0, 18),
        (0, 18),
        (0, 18),
        (0, 18),
        (0, 12),
        (0, 12),
        (0, 6),
        (0, 12),
        (0, 12),
    ];
    bits.extend([(4, 6), (1, 1), (0, 1), (features, 12), (purposes, 24), (0, 24), (0, 1), (0, 12)]);
    bits.extend(vendors);
    // Legitimate interests: a field of eight bits.
    bits.extend([(8, 16), (0, 1), (255, 8)]);
    bits.push((u32::try_from(limits.len()).unwrap(), 12));
    for (purpose, kind) in limits {
        bits.extend([(*purpose, 6), (*kind, 2), (1, 12), (1, 1), (20, 16), (40, 16)]);
    }
    letters(&bits)
}

const ALL: u32 = 0xff_ff_ff;
/// Vendors 5 and 30 to 33, as ranges.
const RANGES: [(u32, u32); 8] =
    [(33, 16), (1, 1), (2, 12), (0, 1), (5, 16), (1, 1), (30, 16), (33, 16)];

#[test]
fn vendors_of_ranges_and_restrictions_of_publishers() {
    let text = consent(1 << 11, ALL, &RANGES, &[]);
    for vendor in 0..40 {
        let read = Consent::read(&text, vendor).unwrap();
        assert_eq!(read.vendor, vendor == 5 || (30..=33).contains(&vendor), "{vendor}");
        assert!(read.precise_place() && (1..=24).all(|purpose| read.purpose(purpose)));
    }
    // Not allowed; consent required; legitimate interest required: the first and the third forbid. Vendors 20 to 40.
    let text = consent(0, ALL, &RANGES, &[(3, 0), (4, 1), (5, 2)]);
    let forbidden = |vendor| {
        let read = Consent::read(&text, vendor).unwrap();
        (1..=24).filter(|purpose| !read.purpose(*purpose)).collect::<Vec<u8>>()
    };
    assert_eq!((forbidden(30), forbidden(5)), (vec![3, 5], vec![]));
}

#[test]
fn what_is_no_tcf_string_says_nothing() {
    for (text, why) in [
        ("", BadConsent::Cut),
        ("x", BadConsent::Version),
        ("C", BadConsent::Cut),
        ("BOEFEAyOEFEAyAHABDENAI4AAAB9vABAASA", BadConsent::Version),
        ("C!vFyGBOvFyGBAbAAAENAPCAAOAAAAAAAAAAAEEUACCKAAA", BadConsent::Cut),
    ] {
        assert_eq!(Consent::read(text, 2), Err(why), "{text}");
    }
    for end in 0..EXAMPLE.len() - 3 {
        assert!(Consent::read(&EXAMPLE[..end], 2).is_err(), "{end}");
    }
    assert_eq!(Consent::read(&"C".repeat(40_000), 2), Err(BadConsent::TooLong));
}

fn judge(fields: &str) -> Privacy {
    let terms = PrivacyTerms { vendor: Some(5), ..PrivacyTerms::default() };
    judge_as(fields, &terms)
}

#[test]
fn purposes_are_a_set_of_those_that_exist() {
    let of = |numbers: &[u8]| {
        Purposes::of(numbers.iter().copied()).map(|all| all.numbers().collect::<Vec<_>>())
    };
    assert_eq!(of(&[4, 1, 11]), Some(vec![1, 4, 11]));
    for wrong in [&[][..], &[0], &[12], &[255], &[1, 3, 1]] {
        assert_eq!(of(wrong), None, "{wrong:?}");
    }
    let terms = PrivacyTerms::default();
    assert_eq!(of(&[1, 3, 4]), Some(terms.purposes_of_ids.numbers().collect()));
    assert_eq!(of(&[4]), Some(terms.purposes_of_segments.numbers().collect()));
}

fn judge_as(fields: &str, terms: &PrivacyTerms) -> Privacy {
    let mut body = format!(r#"{{"id":"r","imp":[{{"id":"1"}}],{fields}}}"#).into_bytes();
    Reader::default()
        .read(&mut body, &ReadLimits::default(), |request| Privacy::of(&request.top, terms))
        .unwrap()
}

fn causes(privacy: Privacy) -> Vec<&'static str> {
    privacy.causes().map(PrivacyCause::name).collect()
}

const EVERYTHING: [PersonalData; 3] =
    [PersonalData::Ids, PersonalData::Segments, PersonalData::PrecisePlace];

#[test]
fn each_signal_has_its_cause() {
    let full = consent(1 << 11, ALL, &RANGES, &[]);
    let gdpr = |text: &str| format!(r#""regs":{{"gdpr":1}},"user":{{"consent":"{text}"}}"#);
    for (fields, expected) in [
        (r#""at":1"#.to_owned(), vec![]),
        (r#""regs":{"coppa":1}"#.into(), vec!["coppa"]),
        (r#""regs":{"gdpr":1}"#.into(), vec!["consent_absent"]),
        (r#""regs":{"gdpr":0},"user":{"consent":"x"}"#.into(), vec![]),
        (gdpr("x"), vec!["consent_unreadable"]),
        (gdpr(EXAMPLE), vec!["consent_vendor"]),
        (gdpr(&full), vec![]),
        (gdpr(&consent(0, ALL, &RANGES, &[])), vec!["consent_place"]),
        // Purposes 1 to 3 and not 4.
        (
            gdpr(&consent(1 << 11, 0b111 << 21, &RANGES, &[])),
            vec!["consent_ids", "consent_segments"],
        ),
        // Purpose 4 alone.
        (gdpr(&consent(1 << 11, 1 << 20, &RANGES, &[])), vec!["consent_ids"]),
        (r#""regs":{"us_privacy":"1YNN"}"#.into(), vec![]),
        (r#""regs":{"us_privacy":"1---"}"#.into(), vec![]),
        (r#""regs":{"ext":{"us_privacy":"1YYN"}}"#.into(), vec!["us_privacy"]),
        (r#""regs":{"us_privacy":"yes"}"#.into(), vec!["us_privacy"]),
        (r#""regs":{"gpc":1}"#.into(), vec!["gpc"]),
        (r#""regs":{"ext":{"gpc":"1"}}"#.into(), vec!["gpc"]),
        (r#""device":{"lmt":1,"dnt":1}"#.into(), vec!["lmt", "dnt"]),
    ] {
        assert_eq!(causes(judge(&fields)), expected, "{fields}");
    }
    let nobody = judge_as(&gdpr(&full), &PrivacyTerms::default());
    assert_eq!(causes(nobody), ["consent_vendor"], "who is on no list has nobody's consent");
}

#[test]
fn sections_of_a_gpp_string_that_apply_are_judged() {
    let gpp = |text: &str, sections: &str| format!(r#""regs":{{"gpp":"{text}"{sections}}}"#);
    for (text, sections, expected) in [
        (US_FREE, r#","gpp_sid":[7]"#, vec![]),
        (US_FREE, r#","gpp_sid":["7"]"#, vec![]),
        (US_FREE, "", vec![]),
        // Opted out of sale alone, of sharing alone, of targeted advertising alone.
        ("DBABLA~BVQaAAAAAgA.QA", r#","gpp_sid":[7]"#, vec!["gpp_opt_out"]),
        ("DBABLA~BVQmAAAAAgA.QA", r#","gpp_sid":[7]"#, vec!["gpp_opt_out"]),
        ("DBABLA~BVQpAAAAAgA.QA", r#","gpp_sid":[7]"#, vec!["gpp_opt_out"]),
        // The browser's control, and a known child.
        ("DBABLA~BVQqAAAAAgA.YA", "", vec!["gpp_opt_out"]),
        ("DBABLA~BVQqAAAAQgA.QA", "", vec!["gpp_child"]),
        // It is opted out of, and no section applies.
        ("DBABLA~BVQaAAAAAgA.QA", r#","gpp_sid":[-1]"#, vec![]),
        // A section that applies is not there; a version, and a state, that nobody knows.
        (US_FREE, r#","gpp_sid":[8]"#, vec!["gpp_unreadable"]),
        ("DBABLA~ZVQqAAAAAgA", "", vec!["gpp_unreadable"]),
        ("DBABLA~BVQ", "", vec!["gpp_unreadable"]),
        ("DBABLA", "", vec!["gpp_unreadable"]),
        ("none", "", vec!["gpp_unreadable"]),
        ("", r#","gpp_sid":[7]"#, vec!["gpp_unreadable"]),
        ("", "", vec![]),
        // The specification's examples: EU and US privacy.
        ("DBACNYA~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA~1YNN", r#","gpp_sid":[6]"#, vec![]),
        ("DBACNYA~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA~1YYN", "", vec!["us_privacy"]),
        (
            "DBACNYA~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA~1YNN",
            r#","gpp_sid":[2]"#,
            vec!["consent_vendor"],
        ),
        (
            "DBABjw~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA~1YNN",
            r#","gpp_sid":[5]"#,
            vec!["gpp_unreadable"],
        ),
    ] {
        assert_eq!(causes(judge(&gpp(text, sections))), expected, "{text} {sections}");
    }
    let eu_only =
        r#""regs":{"gdpr":1,"gpp":"DBABMA~CPXxRfAPXxRfAAfKABENB-CgAAAAAAAAAAYgAAAAAAAA"}"#;
    assert_eq!(causes(judge(eu_only)), ["consent_vendor"]);
}

/// California, Virginia, Colorado, Utah and Connecticut keep their fields in places of their own.
#[test]
fn states_have_layouts_of_their_own() {
    // The header of one section: its id in Fibonacci coding.
    let headers = [(8, "000011"), (9, "100011"), (10, "010011"), (11, "001011"), (12, "101011")];
    for (id, code) in headers {
        let fields = if id == 11 { [14, 16] } else { [12, 14] };
        let code = u32::from_str_radix(code, 2).unwrap();
        let header = letters(&[(3, 6), (1, 6), (1, 12), (0, 1), (code, 6)]);
        let section = |set: Option<u32>| {
            let bits: Vec<(u32, u32)> =
                (6..50).step_by(2).map(|at| (u32::from(set == Some(at)), 2)).collect();
            letters(&[vec![(1, 6)], bits].concat())
        };
        let of = |set| {
            let text = format!("{header}~{}", section(set));
            causes(judge(&format!(r#""regs":{{"gpp":"{text}","gpp_sid":[{id}]}}"#)))
        };
        assert_eq!(of(None), ["gpp_place"], "section {id}");
        for field in fields {
            assert!(of(Some(field)).contains(&"gpp_opt_out"), "section {id}, field at {field}");
        }
        assert!(!of(Some(6)).contains(&"gpp_opt_out"), "a notice is no opt-out");
    }
}

#[test]
fn every_cause_has_a_name_of_its_own_and_forbids_something() {
    for (place, cause) in PrivacyCause::ALL.into_iter().enumerate() {
        assert_eq!(cause as usize, place);
        let twins = PrivacyCause::ALL.into_iter().filter(|other| other.name() == cause.name());
        assert_eq!(twins.count(), 1);
        assert!(EVERYTHING.into_iter().any(|data| cause.forbids(data)), "{cause:?}");
    }
    let child = judge(r#""regs":{"coppa":1}"#);
    assert!(EVERYTHING.into_iter().all(|data| !child.permits(data)));
    let free = judge(r#""at":1"#);
    assert!(EVERYTHING.into_iter().all(|data| free.permits(data)));
    let place = judge(&format!(
        r#""regs":{{"gdpr":1}},"user":{{"consent":"{}"}}"#,
        consent(0, ALL, &RANGES, &[])
    ));
    assert!(place.permits(PersonalData::Ids) && place.permits(PersonalData::Segments));
    assert!(!place.permits(PersonalData::PrecisePlace));
}

/// The document shows the table that is enforced.
#[test]
fn the_document_has_the_table() {
    let document = include_str!("../../../../docs/privacy.md");
    for cause in PrivacyCause::ALL {
        let marks = EVERYTHING.map(|data| if cause.forbids(data) { "no" } else { "yes" });
        let row = format!("| `{}` | {} |", cause.name(), marks.join(" | "));
        assert!(document.contains(&row), "expected the row {row}");
    }
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "[A-Za-z0-9_.~=-]{0,120}", vendor in any::<u16>()) {
        for text in [text.clone(), format!("C{text}"), format!("{EXAMPLE}{text}")] {
            let _ = Consent::read(&text, vendor);
            let gpp = format!(r#""regs":{{"gdpr":1,"gpp":"DBABLA~B{text}"}},"user":{{"consent":"{text}"}}"#);
            let _ = judge(&gpp);
            let _ = judge(&format!(r#""regs":{{"gpp":"D{text}","gpp_sid":[2,5,6,7,12]}}"#));
        }
    }
}
