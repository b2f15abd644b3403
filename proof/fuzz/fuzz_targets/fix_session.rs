//! Any talk of a FIX peer: see `fix_session_checks.rs`.
#![no_main]

#[path = "../fix_session_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    checks::fix_session(data);
});
