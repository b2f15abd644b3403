//! A journal's folder with any bytes in its file: see `journal_checks.rs`.
#![no_main]

#[allow(dead_code)] // shared with the other targets
#[path = "../journal_checks.rs"]
mod checks;
#[allow(dead_code)] // shared with the tests of the journal
#[path = "../../../crates/ledger-journal/tests/it/files.rs"]
mod files;

libfuzzer_sys::fuzz_target!(|data: &[u8]| checks::journal_files(data));
