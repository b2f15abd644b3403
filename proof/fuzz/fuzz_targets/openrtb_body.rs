//! One body of a bid request: see `openrtb_checks.rs`.
#![no_main]

#[allow(dead_code)] // shared with the other target
#[path = "../openrtb_checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::openrtb_body(data));
