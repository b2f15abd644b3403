//! Notes the compiler's version: the figures belong to it.

use std::process::Command;

fn main() {
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(compiler).arg("--version").output();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    // "rustc 1.95.0 (59807616e 2026-04-14)"
    let version = version.unwrap_or_default();
    let version = version.split(' ').nth(1).unwrap_or("unknown").trim();
    println!("cargo::rustc-env=RUSTC_VERSION={version}");
    println!("cargo::rerun-if-changed=build.rs");
}
