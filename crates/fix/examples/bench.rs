//! What reading a message costs, pass by pass, beside `memchr` and a loop over bytes in the same run:
//!
//! ```text
//! cargo run --release -p fix --example bench
//! ```
//!
//! 512 different messages of each kind, because a message that repeats lets the processor foretell every branch. A figure is the median
//! of 101 rounds over all of them; the smallest round stands behind it.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a tool that measures")]

use std::hint::black_box;
use std::time::Instant;

use fix::{
    DataFields, Decimal, Dictionary, Envelope, Framing, Index, Sending, Simd, TimestampText,
    Validation, frame,
};

const MESSAGES: usize = 512;
const ROUNDS: usize = 101;

fn made(body: &str) -> Vec<u8> {
    let body = body.replace('|', "\x01");
    let text = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
    let sum = fix::sum(text.as_bytes());
    format!("{text}10={sum:03}\x01").into_bytes()
}

/// A NewOrderSingle of 22 fields and 223 bytes, give or take the digits of its numbers.
fn order(random: &mut impl FnMut(u32) -> u32) -> Vec<u8> {
    let (id, seq, quantity) = (random(100_000_000), random(1_000_000), random(100_000));
    let (account, price, places) = (random(10_000), random(5_000), random(10_000));
    made(&format!(
        "35=D|49=CLIENT1|56=GATE|34={seq}|52=20261123-10:15:30.{:03}|50=TRADER7|11=ORD-{id}|1=ACCT-{account}|55=MSFT|207=XNAS|54={}|\
         60=20261123-10:15:30.{:03}|38={quantity}|40=2|44={price}.{places}|59=0|15=USD|21=1|58=desk eleven|",
        random(1000),
        1 + random(2),
        random(1000),
    ))
}

/// An ExecutionReport of 39 fields with a group.
fn report(random: &mut impl FnMut(u32) -> u32) -> Vec<u8> {
    let (id, seq, quantity) = (random(100_000_000), random(1_000_000), random(100_000));
    made(&format!(
        "35=8|49=GATE|56=CLIENT1|34={seq}|52=20261123-10:15:30.{:03}|57=TRADER7|37=EX-{id}|11=ORD-{id}|17=E{id}|150=F|39=1|1=ACCT-{}|\
         453=2|448=FIRM{}|447=D|452=1|448=CLEAR{}|447=D|452=4|55=MSFT|207=XNAS|54={}|38={quantity}|40=2|44={}.{}|59=0|15=USD|\
         32={}|31={}.{}|151={}|14={}|6={}.{}|60=20261123-10:15:30.{:03}|528=A|58=partial fill|851=2|",
        random(1000),
        random(10_000),
        random(100),
        random(100),
        1 + random(2),
        random(5_000),
        random(10_000),
        random(1_000),
        random(5_000),
        random(10_000),
        random(10_000),
        random(10_000),
        random(5_000),
        random(10_000),
        random(1000),
    ))
}

/// Median and minimum in nanoseconds per message.
fn measure(messages: &[Vec<u8>], mut pass: impl FnMut(&[u8]) -> usize) -> (f64, f64) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for message in messages {
                black_box(pass(black_box(message)));
            }
            start.elapsed().as_secs_f64() * 1e9 / messages.len() as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    (rounds[ROUNDS / 2], rounds[0])
}

fn row(name: &str, kinds: &[Vec<Vec<u8>>; 2], mut pass: impl FnMut(&[u8]) -> usize) {
    let [order, report] = [0, 1].map(|kind| measure(&kinds[kind], &mut pass));
    println!(
        "{name:<44} {:>7.1} ({:>6.1}) {:>9.1} ({:>6.1})",
        order.0, order.1, report.0, report.1
    );
}

fn byte_loop_ends(bytes: &[u8], ends: &mut [u32]) -> usize {
    let mut len = 0;
    for (end, byte) in (1..).zip(bytes) {
        if *byte == 1 {
            ends[len] = end;
            len += 1;
        }
    }
    len
}

fn memchr_ends(bytes: &[u8], ends: &mut [u32]) -> usize {
    let mut len = 0;
    for at in memchr::memchr_iter(1, bytes) {
        ends[len] = u32::try_from(at).unwrap() + 1;
        len += 1;
    }
    len
}

/// The index as a program would write it that has only the loop: tag and place of the value of each field.
fn byte_loop_index(bytes: &[u8], fields: &mut [(u32, u32)]) -> usize {
    let (mut len, mut tag, mut in_tag) = (0, 0_u32, true);
    for (at, byte) in (1..).zip(bytes) {
        if in_tag && *byte == b'=' {
            fields[len] = (tag, at);
            in_tag = false;
        } else if in_tag {
            tag = tag.wrapping_mul(10).wrapping_add(u32::from(byte.wrapping_sub(b'0')));
        } else if *byte == 1 {
            len += 1;
            (tag, in_tag) = (0, true);
        }
    }
    len
}

fn passes(kinds: &[Vec<Vec<u8>>; 2]) {
    let mut ends = vec![0; 600];
    let mut fields = vec![(0, 0); 600];
    row("SOH, byte loop", kinds, |bytes| byte_loop_ends(bytes, &mut ends));
    row("SOH, memchr", kinds, |bytes| memchr_ends(bytes, &mut ends));
    for simd in Simd::all() {
        let name = format!("SOH, {}", simd.name());
        row(&name, kinds, |bytes| simd.field_ends(bytes, &mut ends).unwrap());
    }
    row("checksum", kinds, |bytes| usize::from(fix::sum(bytes)));
    row("frame with checksum", kinds, |bytes| match frame(bytes, 65_536) {
        Framing::Whole(frame) => frame.bytes().len(),
        _ => 0,
    });
    row("index, byte loop", kinds, |bytes| byte_loop_index(bytes, &mut fields));
    for simd in Simd::all() {
        let mut index = Index::with(512, simd, DataFields::standard());
        let frames: Vec<_> = kinds.iter().flatten().map(|bytes| framed(bytes)).collect();
        let name = format!("index, {}", simd.name());
        let mut at = 0;
        // The frames lie ready, so that only the index is measured; both kinds are walked ROUNDS times, one after the other.
        row(&name, kinds, |_| {
            let kind = at / (MESSAGES * ROUNDS);
            let frame = frames[kind * MESSAGES + at % MESSAGES];
            at += 1;
            index.read(frame).unwrap().len()
        });
        let name = format!("frame, checksum and index, {}", simd.name());
        row(&name, kinds, |bytes| index.read(framed(bytes)).unwrap().len());
        let name = format!("  ... and 8 lookups, {}", simd.name());
        row(&name, kinds, |bytes| {
            let message = index.read(framed(bytes)).unwrap();
            [11, 55, 54, 38, 40, 44, 59, 34].iter().filter_map(|tag| message.find(*tag)).sum()
        });
        let name = format!("  ... and 8 values, {}", simd.name());
        row(&name, kinds, |bytes| {
            let message = index.read(framed(bytes)).unwrap();
            let values =
                [11, 55, 54, 38, 40, 44, 59, 34].iter().filter_map(|tag| message.value(*tag));
            values.map(<[u8]>::len).sum()
        });
    }
}

/// The steps of a message that passes through, beside the copy of its bytes.
fn rewriting(kinds: &[Vec<Vec<u8>>; 2]) {
    let mut out = vec![0; 2048];
    let mut index = Index::new(512);
    let mut clock = TimestampText::default();
    let envelope = Envelope::new("FIX.4.4", "GATE", "VENUE").unwrap();
    let mut now = 1_795_428_930_123;
    row("copy of the bytes", kinds, |bytes| {
        out[..bytes.len()].copy_from_slice(bytes);
        bytes.len()
    });
    row("text of the time", kinds, |_| {
        now += 1;
        usize::from(clock.of_unix_ms(now)[20])
    });
    row("frame, checksum, index and rewrite", kinds, |bytes| {
        let message = index.read(framed(bytes)).unwrap();
        now += 1;
        let sending = Sending { seq: 123_456, time: clock.of_unix_ms(now), first_sent: None };
        envelope.write(&message, sending, &mut out).unwrap()
    });
    let dictionary = Dictionary::fix44();
    let levels = [
        ("off", Validation::Off),
        ("structure", Validation::Structure),
        ("full", Validation::Full(&dictionary)),
    ];
    for (name, validation) in levels {
        row(&format!("frame, checksum, index, checked: {name}"), kinds, |bytes| {
            let message = index.read(framed(bytes)).unwrap();
            validation.check(&message).unwrap();
            message.len()
        });
    }
    row("frame, checksum, index and 2 decimals", kinds, |bytes| {
        let message = index.read(framed(bytes)).unwrap();
        let read = |tag| Decimal::parse(message.value(tag).unwrap()).unwrap().places();
        usize::from(read(38) + read(44))
    });
}

fn framed(bytes: &[u8]) -> fix::Frame<'_> {
    let Framing::Whole(frame) = frame(bytes, 65_536) else { panic!("no message") };
    frame
}

fn main() {
    let mut state = 0x0bad_5eed_u64;
    let mut random = |below: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        u32::try_from(state >> 33).unwrap() % below
    };
    let orders: Vec<Vec<u8>> = (0..MESSAGES).map(|_| order(&mut random)).collect();
    let reports: Vec<Vec<u8>> = (0..MESSAGES).map(|_| report(&mut random)).collect();
    let mean = |kind: &[Vec<u8>]| kind.iter().map(Vec::len).sum::<usize>() / kind.len();
    println!(
        "ns per message, median (minimum); order of {} bytes, report of {} bytes",
        mean(&orders),
        mean(&reports)
    );
    let kinds = [orders, reports];
    passes(&kinds);
    rewriting(&kinds);
}
