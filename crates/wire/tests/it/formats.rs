//! `docs/formats.md` says what the schema says.

use wire::{Reason, Verdict};

const PAGE: &str = include_str!("../../../../docs/formats.md");

#[test]
fn verdicts_and_reasons_are_documented() {
    let verdicts = Verdict::ALL.map(|v| (v.as_raw(), v.name(), v.description()));
    let reasons = Reason::ALL.map(|r| (r.as_raw(), r.name(), r.description()));
    for (code, name, meaning) in verdicts.into_iter().chain(reasons) {
        let row = format!("| {code} | `{name}` | {meaning} |");
        assert!(PAGE.contains(&row), "docs/formats.md lacks the row {row}");
    }
}

#[test]
fn lengths_of_entries_are_documented() {
    use wire::{bid_context, books, decide, decided, resolve, resolved, totals};
    let drawn = [
        (size_of::<decide::Ask>(), 40),
        (size_of::<decided::Answer>(), 33),
        (size_of::<resolve::Item>(), 49),
        (size_of::<resolved::Answer>(), 2),
        (size_of::<books::Budget>(), 68),
        (size_of::<totals::Item>(), 9),
        (size_of::<bid_context::Block>(), 72),
        (size_of::<bid_context::Segment>(), 6),
        (size_of::<bid_context::Cap>(), 10),
    ];
    for (len, documented) in drawn {
        assert_eq!(len, documented, "mend docs/formats.md");
    }
}

#[test]
fn codes_and_names_are_unique() {
    for (i, one) in Verdict::ALL.iter().enumerate() {
        assert_eq!(Verdict::from_raw(one.as_raw()), Some(*one));
        assert!(Verdict::ALL[..i].iter().all(|other| other.name() != one.name()));
    }
    assert_eq!(Verdict::from_raw(255), None);
    assert_eq!(Verdict::PurseEmpty.to_string(), "purse_empty");
}
