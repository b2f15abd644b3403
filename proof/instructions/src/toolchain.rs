//! What besides our code decides how many instructions something takes.

use std::fmt;
use std::process::Command;

use serde::{Deserialize, Serialize};

use crate::callgrind::{self, CountError};

/// Counts made with two different ones cannot be compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: String,
    /// How it was told to compile: `release`, or `debug`.
    pub profile: String,
    /// The processor's kind, with what valgrind shows the program of its instruction sets.
    pub target: String,
    /// Which processor valgrind plays is its own choice.
    pub valgrind: String,
    /// It has the `memcpy` and the allocator.
    pub libc: String,
}

impl Toolchain {
    /// What this program was made with and runs on.
    ///
    /// # Errors
    /// There is no valgrind.
    pub fn here() -> Result<Toolchain, CountError> {
        Ok(Toolchain {
            rustc: env!("INSTRUCTIONS_RUSTC").to_string(),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" }.to_string(),
            target: format!("{} {}{}", std::env::consts::ARCH, instruction_set(), lacking()),
            valgrind: callgrind::version()?,
            libc: said(Command::new("getconf").arg("GNU_LIBC_VERSION")),
        })
    }
}

impl Toolchain {
    /// 16 hexadecimal digits that two different ones do not share: FNV-1a of what it displays as.
    #[must_use]
    pub fn hash(&self) -> String {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        format!("{:016x}", self.to_string().bytes().fold(0xcbf2_9ce4_8422_2325, step))
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Toolchain { rustc, profile, target, valgrind, libc } = self;
        write!(f, "rustc {rustc} ({profile}), {target}, {valgrind}, {libc}")
    }
}

/// The first line that a command prints.
fn said(command: &mut Command) -> String {
    let text = command.output().ok().and_then(|output| String::from_utf8(output.stdout).ok());
    text.and_then(|text| text.lines().next().map(str::to_string))
        .unwrap_or_else(|| "unknown".into())
}

/// Valgrind shows one of a few processors, the best that the real one can play.
#[cfg(target_arch = "x86_64")]
fn instruction_set() -> &'static str {
    if std::arch::is_x86_feature_detected!("avx2") {
        "avx2"
    } else if std::arch::is_x86_feature_detected!("avx") {
        "avx"
    } else {
        "sse"
    }
}

/// What valgrind passes on of the real processor besides, where that lacks it: a library may then take another way.
#[cfg(target_arch = "x86_64")]
fn lacking() -> String {
    let passed_on = [
        ("f16c", std::arch::is_x86_feature_detected!("f16c")),
        ("rdrand", std::arch::is_x86_feature_detected!("rdrand")),
        ("rdseed", std::arch::is_x86_feature_detected!("rdseed")),
    ];
    let lacks = passed_on.into_iter().filter(|(_, has)| !has);
    lacks.map(|(name, _)| format!(" without {name}")).collect()
}

#[cfg(not(target_arch = "x86_64"))]
fn instruction_set() -> &'static str {
    "base"
}

#[cfg(not(target_arch = "x86_64"))]
fn lacking() -> String {
    String::new()
}
