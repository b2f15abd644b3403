//! What the crate promises, from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attacks;
mod conformance;
mod corpus;
mod desk;
mod header;
mod heartbeats;
mod initiator;
mod logon;
mod logout;
mod network;
mod next_expected;
mod resend;
mod schedules;
mod sequence;
mod sequence_reset;
mod throttles;
mod unsure;

/// Every test that the README names exists.
#[test]
fn the_readme_names_tests_that_exist() {
    let readme = include_str!("../../README.md");
    let sources = [
        include_str!("attacks.rs"),
        include_str!("header.rs"),
        include_str!("heartbeats.rs"),
        include_str!("logon.rs"),
        include_str!("logout.rs"),
        include_str!("next_expected.rs"),
        include_str!("resend.rs"),
        include_str!("schedules.rs"),
        include_str!("sequence.rs"),
        include_str!("sequence_reset.rs"),
        include_str!("throttles.rs"),
        include_str!("unsure.rs"),
    ];
    let code = readme.split('`').skip(1).step_by(2);
    let tests = code.filter(|text| {
        text.matches('_').count() > 3
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    });
    let missing: Vec<&str> = tests
        .filter(|name| !sources.iter().any(|source| source.contains(&format!("fn {name}()"))))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
