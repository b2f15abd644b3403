//! Any bytes of a FIX peer: see `fix_checks.rs`.
#![no_main]

#[path = "../fix_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::fix_parse(data));
