//! Generates the codecs of the batch protocol, the journal and the live stream from their schemas into `OUT_DIR`; nothing
//! generated is kept in git.
//!
//! The same generator also translates the small schemas under `tests/schema/`: two versions of one protocol, which
//! prove that an old reader and a new writer understand each other and the reverse.

// A build script talks to cargo by printing.
#![allow(clippy::print_stdout)]

#[path = "build/mod.rs"]
mod generator;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use generator::Options;

/// Every schema is understood from its first version on; on a connection messages travel in frames.
const FRAMED: Options = Options { version_min: 1, framed: true };
/// A file or a WebSocket says by its own means where a message begins and ends.
const UNFRAMED: Options = Options { version_min: 1, framed: false };

/// (schema file, name of the generated file, options)
const SCHEMAS: [(&str, &str, Options); 5] = [
    ("../../schema/weir.xml", "weir.rs", FRAMED),
    ("../../schema/journal.xml", "journal.rs", UNFRAMED),
    ("../../schema/live.xml", "live.rs", UNFRAMED),
    ("tests/schema/evolve_old.xml", "evolve_old.rs", FRAMED),
    ("tests/schema/evolve_new.xml", "evolve_new.rs", FRAMED),
];

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=build");
    let Some(folder_out) = std::env::var_os("OUT_DIR").map(PathBuf::from) else {
        eprintln!("OUT_DIR is not set: this program is a build script, cargo runs it");
        return ExitCode::FAILURE;
    };
    for (file, name, options) in SCHEMAS {
        println!("cargo:rerun-if-changed={file}");
        if let Err(problem) = translate(Path::new(file), &folder_out.join(name), options) {
            eprintln!("{problem}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn translate(file: &Path, out: &Path, options: Options) -> Result<(), String> {
    let shown = file.display();
    let xml = std::fs::read_to_string(file).map_err(|e| format!("{shown}: cannot read: {e}"))?;
    let code = generator::generate(&shown.to_string(), &xml, options)
        .map_err(|problem| problem.to_string())?;
    std::fs::write(out, code).map_err(|e| format!("{}: cannot write: {e}", out.display()))
}
