//! Reading a message: what `crates/fix` does beside loops and hash maps.

use fix::{DataFields, Frame, Framing, Index, Message, Simd, frame};

use super::messages::messages;
use crate::pairs::{Meaning, Pair};
use crate::race::{Done, Way, each, race};
use crate::{Error, Size};

const ROUNDS: usize = 21;
const MESSAGES: usize = 500;
const TIMES: u64 = 8;
const SEED: u64 = 0xf1f1_0032;
const FIELDS_MAX: usize = 512;
/// What a program asks a message for; two of them are in no message here.
const ASKED: [u16; 8] = [11, 55, 54, 38, 44, 37, 40, 9_999];

type Slow = std::collections::HashMap<u16, (u32, u32)>;
type Fast = hashbrown::HashMap<u16, (u32, u32), foldhash::fast::RandomState>;

pub(super) fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let messages = messages(size.pick(MESSAGES, 50), SEED);
    let frames: Vec<Frame<'_>> = messages.iter().filter_map(|bytes| whole(bytes)).collect();
    let rounds = size.pick(ROUNDS, 1);
    Ok(vec![soh(&messages, rounds)?, index(&frames, rounds)?, lookup(&frames, rounds)?])
}

fn whole(bytes: &[u8]) -> Option<Frame<'_>> {
    match frame(bytes, 65_536) {
        Framing::Whole(frame) => Some(frame),
        _ => None,
    }
}

/// Mixes places or tags with their order.
fn mix(sum: u64, next: impl Into<u64>) -> u64 {
    sum.wrapping_mul(31) ^ next.into()
}

/// How many, and the last: of all of them the tests of `crates/fix` know that they are right.
fn brief(ends: &[u32], len: usize) -> u64 {
    mix(len as u64, ends.get(len.wrapping_sub(1)).copied().unwrap_or(0))
}

fn soh(messages: &[Vec<u8>], rounds: usize) -> Result<Pair, Error> {
    let mut ways: Vec<Way<'_>> = Vec::new();
    for simd in Simd::all() {
        let mut ends = vec![0; FIELDS_MAX];
        let read = move |bytes: &Vec<u8>| {
            let len = simd.field_ends(bytes, &mut ends).unwrap_or(0);
            brief(&ends, len)
        };
        ways.push((simd.name(), over(messages, read)));
    }
    let mut ends = vec![0; FIELDS_MAX];
    let by_memchr = move |bytes: &Vec<u8>| {
        let mut len = 0;
        for at in memchr::memchr_iter(fix::SOH, bytes) {
            ends[len] = narrow(at) + 1;
            len += 1;
        }
        brief(&ends, len)
    };
    ways.push(("memchr_iter", over(messages, by_memchr)));
    let mut ends = vec![0; FIELDS_MAX];
    let by_byte = move |bytes: &Vec<u8>| {
        let mut len = 0;
        for (end, byte) in (1..).zip(bytes) {
            if *byte == fix::SOH {
                ends[len] = end;
                len += 1;
            }
        }
        brief(&ends, len)
    };
    ways.push(("byte by byte", over(messages, by_byte)));
    let meaning = Meaning {
        rival: Some("memchr_iter"),
        faster: "the FIX engine takes the widest instructions that it finds at its start",
        slower: "a search byte by byte of a library would serve messages as short as these better",
        level: "the widest instructions pay nothing over a library's search",
    };
    let what = format!("The places of all field ends of {} FIX 4.4 messages.", messages.len());
    Ok(Pair::new("fix/soh", what, "message", race(rounds, ways)?, &meaning))
}

fn index(frames: &[Frame<'_>], rounds: usize) -> Result<Pair, Error> {
    let mut ways: Vec<Way<'_>> = Vec::new();
    for simd in Simd::all() {
        let mut index = Index::with(FIELDS_MAX, simd, DataFields::standard());
        let read = move |frame: &Frame<'_>| index.read(*frame).map_or(0, |one| one.len() as u64);
        ways.push((simd.name(), over(frames, read)));
    }
    let mut fields = vec![(0, (0, 0)); FIELDS_MAX];
    let by_byte = move |frame: &Frame<'_>| {
        let mut len = 0;
        for_each_field(frame.bytes(), |tag, place| {
            fields[len] = (tag, place);
            len += 1;
        });
        std::hint::black_box(&fields);
        len as u64
    };
    ways.push(("byte by byte, a list", over(frames, by_byte)));
    let (mut fast, mut slow) = (Fast::default(), Slow::default());
    let by_fast = move |frame: &Frame<'_>| {
        fast.clear();
        for_each_field(frame.bytes(), |tag, place| {
            fast.insert(tag, place);
        });
        fast.len() as u64
    };
    ways.push(("byte by byte, hashbrown with foldhash", over(frames, by_fast)));
    let by_slow = move |frame: &Frame<'_>| {
        slow.clear();
        for_each_field(frame.bytes(), |tag, place| {
            slow.insert(tag, place);
        });
        slow.len() as u64
    };
    ways.push(("byte by byte, the standard map", over(frames, by_slow)));
    let meaning = Meaning {
        rival: None,
        faster: "the tags of a message lie in one list, made eight at a time",
        slower: "a simpler index would be made faster",
        level: "how the index is made does not matter for messages as short as these",
    };
    let what = "Tag and place of each field of a FIX 4.4 message whose frame is known.";
    Ok(Pair::new("fix/index", what, "message", race(rounds, ways)?, &meaning))
}

fn lookup(frames: &[Frame<'_>], rounds: usize) -> Result<Pair, Error> {
    let mut indexes: Vec<Index> = frames.iter().map(|_| Index::new(64)).collect();
    let read = indexes.iter_mut().zip(frames).filter_map(|(index, frame)| index.read(*frame).ok());
    let read: Vec<Message<'_>> = read.collect();
    let fast: Vec<Fast> = frames.iter().map(|frame| fields_of(frame)).collect();
    let slow: Vec<Slow> = frames.iter().map(|frame| fields_of(frame)).collect();
    let ours = |message: &Message<'_>| {
        let found = ASKED.iter().filter_map(|tag| message.value((*tag).into()));
        found.fold(0, |sum, value| mix(sum, value.len() as u64))
    };
    let ways: Vec<Way<'_>> = vec![
        ("list of tags", over(&read, ours)),
        ("hashbrown with foldhash", over(&fast, |fields| asked(|tag| fields.get(&tag)))),
        ("the standard map", over(&slow, |fields| asked(|tag| fields.get(&tag)))),
    ];
    let meaning = Meaning {
        rival: None,
        faster: "32 tags are compared at once, and no hash is made",
        slower: "a hash map would find fields faster, but has to be made for each message",
        level: "a list of tags finds as fast as a hash map, and costs less to make",
    };
    let what = "Eight fields of a message that was read are looked up by tag, two of which may be missing.";
    Ok(Pair::new("fix/lookup", what, "message", race(rounds, ways)?, &meaning))
}

/// A round: each item so often.
fn over<'a, T>(
    items: &'a [T],
    mut work: impl FnMut(&T) -> u64 + 'a,
) -> Box<dyn FnMut() -> Done + 'a> {
    Box::new(move || each(items, TIMES, &mut work))
}

fn asked<'a>(get: impl Fn(u16) -> Option<&'a (u32, u32)>) -> u64 {
    let found = ASKED.iter().filter_map(|tag| get(*tag));
    found.fold(0, |sum, (from, to)| mix(sum, to - from))
}

/// The fields of a message in a map; of one that repeats, the first.
fn fields_of<M>(frame: &Frame<'_>) -> M
where
    M: Default + Extend<(u16, (u32, u32))>,
{
    let (mut fields, mut seen) = (Vec::new(), Vec::new());
    for_each_field(frame.bytes(), |tag, place| {
        if !seen.contains(&tag) {
            seen.push(tag);
            fields.push((tag, place));
        }
    });
    let mut map = M::default();
    map.extend(fields);
    map
}

/// Tag of each field, and where its value begins and ends.
fn for_each_field(bytes: &[u8], mut field: impl FnMut(u16, (u32, u32))) {
    let (mut tag, mut value) = (0_u16, None);
    for (at, byte) in (0..).zip(bytes) {
        match (*byte, value) {
            (b'=', None) => value = Some(at + 1),
            (fix::SOH, Some(from)) => {
                field(tag, (from, at));
                (tag, value) = (0, None);
            }
            (digit, None) => {
                tag = tag.wrapping_mul(10).wrapping_add(u16::from(digit.wrapping_sub(b'0')));
            }
            _ => {}
        }
    }
}

fn narrow(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}
