//! Reading a message: where its fields end, the index of its fields, and the whole parse beside three engines.
//!
//! Every case reads the same different messages; the rounds of all cases are interleaved, also those of the engines, which are
//! processes of their own that do one round when they are told to. What an engine is given lies ready in the form that it reads
//! (a string, a buffer), and each message is a new object of the engine, as it makes one for what it receives.

use std::cell::RefCell;
use std::hint::black_box;
use std::time::{Duration, Instant};

use fix::{DataFields, Frame, Framing, Index, Simd, frame};
use fix_codec_rs::decoder::Decoder;
use probe::compare::{Outcome, TimedCase, measure_timed};
use probe::{Counters, Event};

use super::engines::Engine;
use super::messages::Kind;
use crate::Size;

/// Passes over all messages in a round: a round of the fastest way takes some 100 us.
const PASSES: u64 = 16;
/// What the fastest way of this processor may take for an order where it has AVX-512 VBMI2, ns.
const SOH_NS_MAX: f64 = 13.0;
const INDEX_NS_MAX: f64 = 60.0;
const CRATE: &str = "crate fix-codec-rs 0.1.0, no length, no checksum";
const MEMCHR: &str = "memchr_iter";
const WHOLE: &str = "Weir: frame, length, checksum, index";
/// What a program asks an order for.
const ASKED: [u32; 8] = [11, 55, 54, 38, 40, 44, 59, 34];

/// Prints the tables.
pub(super) fn run(size: Size) {
    for kind in Kind::both() {
        println!("\n### {} of {} bytes, {} fields", kind.name, kind.bytes(), kind.fields());
        let is_order = kind.name == "NewOrderSingle";
        ends(size, &kind, is_order);
        index(size, &kind, is_order);
        whole(size, &kind);
    }
}

/// What a row has to reach.
enum Bar {
    None,
    Ns(f64),
    /// No slower than another row.
    As(&'static str),
}

/// Reads one message, and returns how many fields it found.
type Read<'a> = Box<dyn FnMut(&[u8]) -> usize + 'a>;

/// One way to read messages: its name, what it has to reach, and a pass over one message.
struct Way<'a> {
    name: String,
    bar: Bar,
    read: Read<'a>,
}

impl<'a> Way<'a> {
    fn new(name: &str, read: impl FnMut(&[u8]) -> usize + 'a) -> Way<'a> {
        Way { name: name.to_owned(), bar: Bar::None, read: Box::new(read) }
    }

    fn bar(self, bar: Bar) -> Way<'a> {
        Way { bar, ..self }
    }

    fn pass(&mut self, kind: &Kind) {
        for message in &kind.messages {
            black_box((self.read)(black_box(message)));
        }
    }
}

fn ends(size: Size, kind: &Kind, is_order: bool) {
    let mut ways = Vec::new();
    for simd in Simd::all() {
        let mut ends = vec![0; 1_024];
        let name = format!("Weir, {}", simd.name());
        let read = move |bytes: &[u8]| simd.field_ends(bytes, &mut ends).unwrap_or(0);
        ways.push(Way::new(&name, read).bar(bar(simd, is_order.then_some(SOH_NS_MAX), MEMCHR)));
    }
    let mut ends = vec![0; 1_024];
    ways.push(Way::new(MEMCHR, move |bytes| {
        memchr::memchr_iter(fix::SOH, bytes).fold(0, |len, at| {
            ends[len] = at as u32 + 1;
            len + 1
        })
    }));
    let mut ends = vec![0; 1_024];
    ways.push(Way::new("byte by byte", move |bytes| byte_ends(bytes, &mut ends)));
    table("where its fields end, written down", size, kind, ways, Vec::new());
}

fn index(size: Size, kind: &Kind, is_order: bool) {
    let mut ways = Vec::new();
    for simd in Simd::all() {
        let mut index = Index::with(512, simd, DataFields::standard());
        // The frames lie ready, so that only the index is measured.
        let frames: Vec<Frame<'_>> = kind.messages.iter().map(|bytes| whole_frame(bytes)).collect();
        let mut at = 0;
        let name = format!("Weir, {}", simd.name());
        let read = move |_: &[u8]| {
            let frame = frames[at % frames.len()];
            at += 1;
            index.read(frame).map_or(0, |message| message.len())
        };
        ways.push(Way::new(&name, read).bar(bar(simd, is_order.then_some(INDEX_NS_MAX), CRATE)));
    }
    let mut decoder = Decoder::new();
    let read = move |bytes: &[u8]| decoder.decode(bytes).map_or(0, |message| message.len());
    ways.push(Way::new(CRATE, read));
    let mut fields = vec![(0, 0); 1_024];
    ways.push(Way::new("byte by byte", move |bytes| byte_index(bytes, &mut fields)));
    table("the index: tag and place of each field", size, kind, ways, Vec::new());
}

fn whole(size: Size, kind: &Kind) {
    let mut index = Index::new(512);
    let mut ways = vec![Way::new(WHOLE, move |bytes| {
        index.read(whole_frame(bytes)).map_or(0, |message| message.len())
    })];
    let mut index = Index::new(512);
    ways.push(Way::new("the same, and 8 values", move |bytes| {
        let Ok(message) = index.read(whole_frame(bytes)) else { return 0 };
        let values = ASKED.iter().filter_map(|tag| message.value(*tag));
        black_box(values.map(<[u8]>::len).sum::<usize>());
        message.len()
    }));
    let mut decoder = Decoder::new();
    ways.push(Way::new("crate fix-codec-rs 0.1.0 with both checks", move |bytes| {
        let Ok(message) = decoder.decode(bytes) else { return 0 };
        let sound = message.validate_body_length().and_then(|()| message.validate_checksum());
        sound.map_or(0, |()| message.len())
    }));
    let engines = Engine::start_all(size, kind);
    table("the whole parse", size, kind, ways, engines);
}

/// Only the widest instructions have a bar in ns; the others must keep up with the best that others have.
fn bar(simd: Simd, ns_max: Option<f64>, other: &'static str) -> Bar {
    match ns_max.filter(|_| simd.name() == "AVX-512 VBMI2") {
        Some(ns) => Bar::Ns(ns),
        None => Bar::As(other),
    }
}

/// Measures and prints one table; ways that read nothing are an error of this program.
fn table(
    what: &str,
    size: Size,
    kind: &Kind,
    mut ways: Vec<Way<'_>>,
    engines: Vec<Result<Engine, String>>,
) {
    for way in &mut ways {
        let read = (way.read)(&kind.messages[0]);
        assert!(read >= kind.fields(), "{} reads {read} of {} fields", way.name, kind.fields());
    }
    let (running, missing): (Vec<_>, Vec<_>) = engines.into_iter().partition(Result::is_ok);
    let running: Vec<RefCell<Engine>> = running.into_iter().flatten().map(RefCell::new).collect();
    let names: Vec<&'static str> = running.iter().map(|one| one.borrow().name).collect();
    let own_names: Vec<String> = ways.iter().map(|way| way.name.clone()).collect();
    let outcomes = {
        let mut cases: Vec<TimedCase<'_>> = Vec::new();
        for (way, name) in ways.iter_mut().zip(&own_names) {
            cases.push((name, Box::new(move || round(way, kind))));
        }
        for (engine, name) in running.iter().zip(&names) {
            cases.push((name, Box::new(move || engine.borrow_mut().round())));
        }
        measure_timed(size.pick(25, 1), &mut cases)
    };
    println!("\n| {what} | ns, median | least | times the first | instructions | bar |");
    println!("| --- | ---: | ---: | ---: | ---: | --- |");
    for (at, outcome) in outcomes.iter().enumerate() {
        let instructions = ways.get_mut(at).and_then(|way| instructions(way, kind));
        let bar = ways.get(at).map_or(String::new(), |way| verdict(&way.bar, outcome, &outcomes));
        let Outcome { name, median_ns, min_ns, ratio, .. } = outcome;
        let instructions = instructions.map_or("-".to_owned(), |count| format!("{count:.0}"));
        println!("| {name} | {median_ns:.1} | {min_ns:.1} | {ratio:.2} | {instructions} | {bar} |");
    }
    for error in missing.into_iter().filter_map(Result::err) {
        println!("| {error} | - | - | - | - | |");
    }
}

fn round(way: &mut Way<'_>, kind: &Kind) -> (u64, Duration) {
    let began = Instant::now();
    for _ in 0..PASSES {
        way.pass(kind);
    }
    (PASSES * kind.messages.len() as u64, began.elapsed())
}

/// Instructions of a message; `None` on a machine that does not count them.
fn instructions(way: &mut Way<'_>, kind: &Kind) -> Option<f64> {
    let mut counters = Counters::hardware().ok()?;
    let before = counters.read().ok()?;
    way.pass(kind);
    let counts = counters.read().ok()?.since(&before);
    Some(counts.get(Event::Instructions)? as f64 / kind.messages.len() as f64)
}

fn verdict(bar: &Bar, outcome: &Outcome, all: &[Outcome]) -> String {
    let (text, ns_max) = match bar {
        Bar::None => return String::new(),
        Bar::Ns(ns) => (format!("{ns:.0} ns"), *ns),
        Bar::As(name) => {
            let other = all.iter().find(|one| one.name == *name);
            (format!("{name}, or less"), other.map_or(f64::NAN, |one| one.median_ns))
        }
    };
    let met = if outcome.median_ns <= ns_max { "met" } else { "**missed**" };
    format!("{text}: {met}")
}

fn whole_frame(bytes: &[u8]) -> Frame<'_> {
    match frame(bytes, 65_536) {
        Framing::Whole(frame) => frame,
        _ => unreachable!("all messages are whole"),
    }
}

fn byte_ends(bytes: &[u8], ends: &mut [u32]) -> usize {
    let mut len = 0;
    for (end, byte) in (1..).zip(bytes) {
        if *byte == fix::SOH {
            ends[len] = end;
            len += 1;
        }
    }
    len
}

/// The index as a program has it that knows only the loop: tag and place of the value of each field.
fn byte_index(bytes: &[u8], fields: &mut [(u32, u32)]) -> usize {
    let (mut len, mut tag, mut in_tag) = (0, 0_u32, true);
    for (at, byte) in (1..).zip(bytes) {
        if in_tag && *byte == b'=' {
            fields[len] = (tag, at);
            in_tag = false;
        } else if in_tag {
            tag = tag.wrapping_mul(10).wrapping_add(u32::from(byte.wrapping_sub(b'0')));
        } else if *byte == fix::SOH {
            len += 1;
            (tag, in_tag) = (0, true);
        }
    }
    len
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_finds_the_same_ends_and_tags() {
        let [orders, reports] = Kind::both();
        for bytes in orders.messages.iter().chain(&reports.messages) {
            let mut byte_by_byte = vec![0; 1_024];
            let len = byte_ends(bytes, &mut byte_by_byte);
            let by_memchr: Vec<u32> =
                memchr::memchr_iter(fix::SOH, bytes).map(|at| at as u32 + 1).collect();
            assert_eq!(byte_by_byte[..len], by_memchr);
            let mut fields = vec![(0, 0); 1_024];
            let fields = {
                let len = byte_index(bytes, &mut fields);
                &fields[..len]
            };
            let mut decoder = Decoder::new();
            let theirs = decoder.decode(bytes).unwrap();
            let mut index = Index::new(512);
            let ours = index.read(whole_frame(bytes)).unwrap();
            assert!(ours.len() == len && theirs.len() == len && fields.len() == len);
            for (at, (tag, _)) in fields.iter().enumerate() {
                assert_eq!(ours.field(at).map(|field| field.tag), Some(*tag));
                assert_eq!(theirs.field(at).tag, *tag);
            }
        }
    }

    #[test]
    fn a_bar_is_met_or_missed_by_the_median() {
        let outcome = |name, ns| Outcome::of(name, &[ns], &[10.0]);
        let all = [outcome("ours", 12.0), outcome("other", 11.0)];
        assert_eq!(verdict(&Bar::Ns(13.0), &all[0], &all), "13 ns: met");
        assert_eq!(verdict(&Bar::As("other"), &all[0], &all), "other, or less: **missed**");
        assert_eq!(verdict(&Bar::None, &all[0], &all), "");
    }
}
