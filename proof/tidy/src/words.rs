//! Habits of language that make a sentence hard to read.

use crate::tree::{Breach, Tree};

/// Words that count something per something else: `ns a request` should be `ns per request`.
const COUNTED: [&str; 14] = [
    "ns",
    "us",
    "bytes",
    "bit",
    "bits",
    "instructions",
    "micros",
    "once",
    "twice",
    "times",
    "one",
    "object",
    "lock",
    "thread",
];
/// The nouns per which such words count.
const UNITS: [&str; 40] = [
    "line",
    "door",
    "frame",
    "connection",
    "second",
    "minute",
    "hour",
    "budget",
    "request",
    "ask",
    "hold",
    "worker",
    "row",
    "page",
    "wake-up",
    "turn",
    "crate",
    "file",
    "node",
    "user",
    "campaign",
    "impression",
    "record",
    "group",
    "batch",
    "item",
    "call",
    "run",
    "lap",
    "purse",
    "slot",
    "key",
    "entry",
    "tick",
    "message",
    "segment",
    "operation",
    "process",
    "byte",
    "creative",
];
/// Plural nouns that are counted per time: `asks a second` should be `asks per second`.
const EVENTS: [&str; 8] =
    ["decisions", "requests", "auctions", "asks", "holds", "settlements", "records", "bids"];
/// Words that may follow the unit. A verb may not: in "which one a connection meets" nothing is counted per connection.
const FOLLOWING: [&str; 20] = [
    "of", "in", "on", "at", "for", "with", "and", "or", "than", "to", "beside", "by", "over", "so",
    "as", "from", "per", "when", "where", "while",
];
/// Phrases that readers stumbled over, and what to write instead.
const PHRASES: [(&str, &str); 4] = [
    ("did not end well", "shut down with errors"),
    ("is there twice", "appears twice"),
    ("met by nobody", "nothing satisfies it"),
    ("of whom nobody", "name the person or say what is missing"),
];

/// Lines of a text with an article where "per" belongs, or with a phrase that readers stumbled over. `file` is what the breaches name.
pub fn tics(file: &str, text: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let found = article_for_per(line).or_else(|| phrase(line));
        breaches.extend(found.map(|what| Breach { file: file.to_string(), line: number, what }));
    }
    breaches
}

/// The tics of all Rust sources: comments and messages alike.
pub fn tics_of_sources(tree: &Tree) -> Vec<Breach> {
    tree.sources.iter().flat_map(|source| tics(&source.file, &source.text)).collect()
}

fn phrase(line: &str) -> Option<String> {
    let (found, better) = PHRASES.iter().find(|(phrase, _)| line.contains(phrase))?;
    Some(format!("\"{found}\": write \"{better}\""))
}

fn article_for_per(line: &str) -> Option<String> {
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    words.windows(3).enumerate().find_map(|(at, three)| {
        let counted = three[0].trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let unit = three[2].trim_end_matches(|c: char| !c.is_alphanumeric());
        let per_time = EVENTS.contains(&counted.as_str()) && ["second", "minute"].contains(&unit);
        let per_unit = COUNTED.contains(&counted.as_str()) && UNITS.contains(&unit);
        let is_article = three[1] == "a" || three[1] == "an";
        // The unit ends its clause, or a preposition follows it.
        let next = words.get(at + 3).map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
        let ends = unit.len() < three[2].len()
            || next.is_none_or(|next| next.is_empty() || FOLLOWING.contains(&next));
        (is_article && ends && (per_time || per_unit))
            .then(|| format!("\"{counted} {} {unit}\": write \"{counted} per {unit}\"", three[1]))
    })
}
