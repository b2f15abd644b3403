//! One frame of any bytes: see `checks.rs`.
#![no_main]

#[allow(dead_code)] // shared with the other targets
#[path = "../checks.rs"]
mod checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::frame_decode(data));
