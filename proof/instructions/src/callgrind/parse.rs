//! The format of callgrind's files, as far as it says who executed how many instructions.
//!
//! A file is lines. `fn=` says whose lines follow, `fl=`, `fi=` and `fe=` in which source file they stand (the last two
//! where code of another file was inlined). A line of numbers is a position and its costs. After `calls=` comes one such
//! line with what the called function cost in all, which is no cost of the caller. Names are written once:
//! `fn=(12) name`, later `fn=(12)`.

use std::collections::{BTreeMap, HashMap};

/// What was executed, by who executed it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Instructions in all.
    pub instructions: u64,
    /// Those of each function, without what it called. What was inlined into it counts as its own.
    pub functions: BTreeMap<String, u64>,
    /// Those of the lines of each source file, wherever they were inlined.
    pub files: BTreeMap<String, u64>,
    /// Reads and writes of data that the simulated caches missed; `None` where no caches were simulated.
    pub misses: Option<MissCounts>,
}

/// Cache misses of data, of the processor that callgrind simulates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissCounts {
    /// Of the first level.
    pub first: u64,
    /// Of the last level.
    pub last: u64,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// There is no count of instructions in it.
    #[error(
        "no line `events:` that names Ir, before the first costs; was it written by callgrind?"
    )]
    NoEvents,
    /// A line is none of the format's.
    #[error("line {line}: found {found:?}, expected {expected}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is there.
        found: String,
        /// What should be.
        expected: &'static str,
    },
    /// The parts do not add up.
    #[error("the functions have {found} instructions together, the line `totals:` says {said}")]
    Sum {
        /// The functions' sum.
        found: u64,
        /// What the file says.
        said: u64,
    },
}

/// Reads a file. What the function `left_out` executed itself is not in the profile.
///
/// # Errors
/// [`ParseError`] says what is wrong, and where.
pub fn parse(text: &str, left_out: &str) -> Result<Profile, ParseError> {
    let mut reader = Reader { positions: 1, left_out, ..Reader::default() };
    for (at, line) in text.lines().enumerate() {
        reader.line(line).map_err(|expected| ParseError::Line {
            line: at + 1,
            found: line.chars().take(80).collect(),
            expected,
        })?;
    }
    reader.finish()
}

#[derive(Default)]
struct Reader<'a> {
    left_out: &'a str,
    /// Instructions of the function that is left out.
    left_out_cost: u64,
    /// Numbers at the front of a line of costs that are no costs.
    positions: usize,
    /// Which of the costs are instructions.
    event: Option<usize>,
    /// Which are misses of the first level, and of the last one: reads and writes. Empty without simulated caches.
    miss_events: [Vec<usize>; 2],
    misses: MissCounts,
    functions: Names,
    files: Names,
    function: Option<usize>,
    file: Option<usize>,
    /// The next line of costs belongs to a call.
    after_call: bool,
    by_function: HashMap<usize, u64>,
    by_file: HashMap<usize, u64>,
    totals: Option<u64>,
}

/// Texts by number; those without a number get one of their own.
#[derive(Default)]
struct Names {
    texts: HashMap<usize, String>,
    plain: HashMap<String, usize>,
}

impl Reader<'_> {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let starts_with_number = |c: char| c.is_ascii_digit() || "+-*".contains(c);
        if line.starts_with(starts_with_number) {
            return self.costs(line);
        }
        if let Some((key, value)) = line.split_once('=') {
            return self.specification(key, value.trim());
        }
        if let Some((key, value)) = line.split_once(':') {
            return self.header(key, value.trim());
        }
        let is_comment = line.trim().is_empty() || line.starts_with('#');
        if is_comment { Ok(()) } else { Err("a header, a specification or costs") }
    }

    fn header(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "positions" => self.positions = value.split_whitespace().count(),
            "events" => self.events(value),
            "totals" => {
                let place = self.event.ok_or("`events:` before `totals:`")?;
                let total = value.split_whitespace().nth(place).unwrap_or("0");
                self.totals = Some(total.parse().map_err(|_| "numbers after `totals:`")?);
            }
            _ => {}
        }
        Ok(())
    }

    fn events(&mut self, names: &str) {
        let place = |wanted: &str| names.split_whitespace().position(|event| event == wanted);
        self.event = place("Ir");
        let level = |wanted: [&str; 2]| wanted.iter().filter_map(|name| place(name)).collect();
        self.miss_events = [level(["D1mr", "D1mw"]), level(["DLmr", "DLmw"])];
    }

    fn specification(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "fn" => self.function = Some(self.functions.number(value)?),
            "cfn" => drop(self.functions.number(value)?),
            "fl" | "fi" | "fe" => self.file = Some(self.files.number(value)?),
            "cfl" | "cfi" => drop(self.files.number(value)?),
            "calls" => self.after_call = true,
            // Objects and jumps say nothing about who executed what.
            _ => {}
        }
        Ok(())
    }

    fn costs(&mut self, line: &str) -> Result<(), &'static str> {
        let place = self.event.ok_or("`events:` with Ir before costs")?;
        if std::mem::take(&mut self.after_call) {
            return Ok(());
        }
        // Costs of zero at the end of a line are left out.
        let cost_at = |place: usize| -> Result<u64, &'static str> {
            let cost = line.split_whitespace().nth(self.positions + place).unwrap_or("0");
            cost.parse().map_err(|_| "numbers as costs")
        };
        let cost = cost_at(place)?;
        let [first, last] = &self.miss_events;
        for (sum, events) in [(&mut self.misses.first, first), (&mut self.misses.last, last)] {
            for event in events {
                *sum += cost_at(*event)?;
            }
        }
        let function = self.function.ok_or("`fn=` before costs")?;
        if function_name(self.functions.text(function)) == self.left_out {
            self.left_out_cost += cost;
            return Ok(());
        }
        *self.by_function.entry(function).or_default() += cost;
        if let Some(file) = self.file {
            *self.by_file.entry(file).or_default() += cost;
        }
        Ok(())
    }

    fn finish(self) -> Result<Profile, ParseError> {
        self.event.ok_or(ParseError::NoEvents)?;
        let simulated = self.miss_events.iter().all(|events| !events.is_empty());
        let misses = simulated.then_some(self.misses);
        let mut profile = Profile { misses, ..Profile::default() };
        for (number, cost) in &self.by_function {
            let name = function_name(self.functions.text(*number));
            *profile.functions.entry(name).or_default() += cost;
            profile.instructions += cost;
        }
        for (number, cost) in &self.by_file {
            *profile.files.entry(file_name(self.files.text(*number))).or_default() += cost;
        }
        let found = profile.instructions + self.left_out_cost;
        match self.totals {
            Some(said) if said != found => Err(ParseError::Sum { found, said }),
            _ => Ok(profile),
        }
    }
}

impl Names {
    /// The number of `(12) name`, `(12)` or `name`.
    fn number(&mut self, value: &str) -> Result<usize, &'static str> {
        let Some(rest) = value.strip_prefix('(') else {
            // Numbers of the file are small, so these are never taken for one.
            let next = usize::MAX - self.plain.len();
            let number = *self.plain.entry(value.to_string()).or_insert(next);
            self.texts.entry(number).or_insert_with(|| value.to_string());
            return Ok(number);
        };
        let (number, text) = rest.split_once(')').ok_or("`(number)` and perhaps a name")?;
        let number = number.parse().map_err(|_| "`(number)` and perhaps a name")?;
        if !text.trim().is_empty() {
            self.texts.insert(number, text.trim().to_string());
        }
        Ok(number)
    }

    fn text(&self, number: usize) -> &str {
        self.texts.get(&number).map_or("?", String::as_str)
    }
}

/// Without the hash that tells two builds apart, and what says how deep a recursion is.
fn function_name(name: &str) -> String {
    let name = name.split('\'').next().unwrap_or(name);
    match name.rsplit_once("::h") {
        Some((before, hash)) if hash.len() == 16 && hash.bytes().all(|c| c.is_ascii_hexdigit()) => {
            before.to_string()
        }
        _ => name.to_string(),
    }
}

/// From where the workspace, the package or the standard library begins: the same on every machine.
fn file_name(path: &str) -> String {
    if let Some((_, rest)) = path.split_once("/registry/src/") {
        return rest.split_once('/').map_or(rest, |(_, rest)| rest).to_string();
    }
    if let Some((package, file)) = generated(path) {
        return format!("{package}, generated: {file}");
    }
    let roots =
        if path.starts_with("/rustc/") { ["/library/"; 2] } else { ["/crates/", "/proof/"] };
    let known = roots.into_iter().find_map(|root| Some((root, path.split_once(root)?.1)));
    known.map_or_else(|| path.to_string(), |(root, rest)| format!("{}{rest}", &root[1..]))
}

/// Package and file of what a build script wrote: `.../build/wire-0123456789abcdef/out/weir.rs`.
fn generated(path: &str) -> Option<(&str, &str)> {
    let (folder, file) = path.split_once("/build/")?.1.split_once("/out/")?;
    Some((folder.rsplit_once('-')?.0, file))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Profile, ParseError> {
        super::parse(text, "")
    }

    /// Two objects, a function inlined from another file, calls, jumps, relative positions, a recursion.
    const FILE: &str = "\
# callgrind format
version: 1
creator: callgrind-3.19.0
cmd: ./program workload codec
part: 1

desc: I1 cache:
desc: Trigger: Program termination

positions: line
events: Ir Bc
summary: 1000 7

ob=(1) /home/somebody/program
fl=(1) /home/somebody/weir/crates/wire/src/frame.rs
fn=(1) wire::frame::split::h0123456789abcdef
16 20 3
+2 5
fi=(2) /rustc/0f1e2d/library/core/src/slice/index.rs
* 7 1
fe=(1)
-1 3
cob=(2) /lib/libc.so.6
cfi=(3) ???
cfn=(2) __memcpy_avx_unaligned_erms
calls=2 0
17 900 40
jump=3 20
+4
jcnd=1/2 +3
+1
cfn=(1)
calls=1 16
18 50 4
20 1

ob=(2)
fl=(3)
fn=(2)
0 60
fl=(1)
fn=(3) wire::frame::split::h0123456789abcdef'2
16 4
fn=plain
1 2

totals: 102 4
";

    #[test]
    fn costs_are_of_who_spent_them() {
        let profile = parse(FILE).unwrap();
        assert_eq!(profile.instructions, 102);
        let functions: Vec<(&str, u64)> =
            profile.functions.iter().map(|(name, cost)| (name.as_str(), *cost)).collect();
        assert_eq!(
            functions,
            [("__memcpy_avx_unaligned_erms", 60), ("plain", 2), ("wire::frame::split", 40)]
        );
        let files: Vec<(&str, u64)> =
            profile.files.iter().map(|(name, cost)| (name.as_str(), *cost)).collect();
        assert_eq!(
            files,
            [("???", 60), ("crates/wire/src/frame.rs", 35), ("library/core/src/slice/index.rs", 7)]
        );
    }

    #[test]
    fn one_function_can_be_left_out() {
        let profile = super::parse(FILE, "wire::frame::split").unwrap();
        assert_eq!(profile.instructions, 62);
        assert!(!profile.functions.contains_key("wire::frame::split"));
        assert!(!profile.files.contains_key("library/core/src/slice/index.rs"));
    }

    #[test]
    fn instructions_are_found_among_other_events() {
        let text = "positions: instr line\nevents: Dr Ir\nfn=a\n0x10 1 100 7\n0x14 1 5\n";
        // A position of two numbers; the second line's instructions are left out: zero.
        let text = text.replace("0x10", "16").replace("0x14", "20");
        assert_eq!(parse(&text).unwrap().instructions, 7);
    }

    #[test]
    fn hexadecimal_positions_are_positions() {
        let profile = parse("positions: instr line\nevents: Ir\nfn=a\n0x4010a0 12 9\n+3 * 2\n");
        assert_eq!(profile.unwrap().instructions, 11);
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let wrong = FILE.replace("totals: 102 4", "totals: 103 4");
        assert_eq!(parse(&wrong), Err(ParseError::Sum { found: 102, said: 103 }));
        assert_eq!(parse(""), Err(ParseError::NoEvents));
        assert_eq!(parse("events: Dr Dw\n"), Err(ParseError::NoEvents));
    }

    #[test]
    fn a_line_that_is_wrong_is_named() {
        let line = |text: &str| match parse(text) {
            Err(ParseError::Line { line, .. }) => line,
            other => panic!("{other:?}"),
        };
        assert_eq!(line("events: Ir\n12 3\n"), 2);
        assert_eq!(line("events: Ir\nfn=(x) a\n"), 2);
        assert_eq!(line("events: Ir\nfn=(1\n"), 2);
        assert_eq!(line("events: Ir\nfn=a\n1 x\n"), 3);
        assert_eq!(line("fn=a\n1 2\n"), 2);
        assert_eq!(line("what is this\n"), 1);
    }

    #[test]
    fn names_without_what_changes_from_build_to_build() {
        assert_eq!(function_name("a::b::h00ff00ff00ff00ff"), "a::b");
        assert_eq!(function_name("a::b::hash"), "a::b::hash");
        assert_eq!(
            file_name("/home/x/.cargo/registry/src/index-1/aes-0.9.4/src/lib.rs"),
            "aes-0.9.4/src/lib.rs"
        );
        assert_eq!(
            file_name("/rustc/0f/library/stdarch/crates/core_arch/src/x86/aes.rs"),
            "library/stdarch/crates/core_arch/src/x86/aes.rs"
        );
        assert_eq!(
            file_name("/home/x/target/release/build/wire-3f6361fc75a42a66/out/weir.rs"),
            "wire, generated: weir.rs"
        );
        assert_eq!(file_name("malloc.c"), "malloc.c");
    }
}
