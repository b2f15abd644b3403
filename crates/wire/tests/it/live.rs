//! The live stream's messages: golden vectors that the page's tests read too, and what its layout promises.

use serde_json::Value;
use wire::live::{
    Flags, Kind, Message, Pacing, Period, Reason, Refill, Refusal, Status, acknowledge, delta,
    patch, resync, snapshot, sparks, watch,
};
use wire::{EncodeError, FrameError, Verdict};

use crate::golden;
use crate::samples::Sample;

type Written = Result<usize, EncodeError>;
type Writer = fn(&mut [u8]) -> Written;

const NOW_MS: u64 = 1_795_300_001_504;
const DAY_ENDS_MS: u64 = 1_795_323_600_000;
const NULL_U64: u64 = u64::MAX;
const NULL_I64: i64 = i64::MIN;
/// Integers up to here are exact in JavaScript.
const SAFE_MAX: i64 = (1 << 53) - 1;

/// States of these rows, for the message of that module: the two have types of their own, of the same bytes.
macro_rules! states {
    ($message:ident, $rows:expr) => {
        $rows.map(|row: u32| if row == 0 { plain!($message) } else { extreme!($message, row) })
    };
}
/// A campaign with a plan and a daily limit.
macro_rules! plain {
    ($message:ident) => {
        $message::State::new(
            0,
            Status::Limited,
            Reason::Floor,
            Refusal::Paced,
            Flags::OPEN,
            NOW_MS - 1_381,
            12_000_000_000,
            4_100_250_000,
            0,
            1_500_000,
            7_898_250_000,
            DAY_ENDS_MS - 86_400_000,
            DAY_ENDS_MS,
            400_000_000,
            210_000_000,
            180_000_000,
            400_000_000,
            180_000_000,
            DAY_ENDS_MS,
            310_000,
            123_456,
            2_345,
            121_111,
            90_000,
            3_900_000_000,
            1_560_000,
            19_500,
        )
    };
}
/// Nulls, negative amounts, and amounts that JavaScript rounds.
macro_rules! extreme {
    ($message:ident, $row:expr) => {
        $message::State::new(
            $row,
            Status::Exhausted,
            Reason::Limit,
            Refusal::Exhausted,
            Flags::DEBT.with(Flags::LOWERED),
            0,
            1_000_000_000_000_000_000,
            SAFE_MAX + 2,
            1,
            0,
            -SAFE_MAX - 2,
            0,
            NULL_U64 - 1,
            NULL_I64,
            NULL_I64,
            NULL_I64,
            NULL_I64,
            0,
            NULL_U64,
            -1,
            u32::MAX,
            0,
            1,
            1,
            NULL_I64,
            NULL_U64,
            NULL_U64,
        )
    };
}

macro_rules! window {
    ($message:ident, $row:expr, $period:expr, $refill:expr) => {
        $message::Window::new($row, $period, $refill, 0, 10_000_000, 8_200_000)
    };
}

/// At least one of each message, in the order of the schema.
fn samples() -> Vec<Sample> {
    let writers: [(&'static str, Writer); 9] = [
        ("snapshot", write_snapshot),
        ("snapshot_empty", |buf| {
            let block = snapshot::Block::new(1, NOW_MS, 3, 0, 0, 0);
            let groups = snapshot::encode(buf, &block)?.budgets(&[])?.states(&[])?.windows(&[])?;
            Ok(groups.names("")?.zones("")?.handles("")?.templates("")?.finish())
        }),
        ("delta", |buf| {
            let block = delta::Block::new(u64::from(u32::MAX) + 2, NOW_MS + 2_000, 3, 990_000);
            let states = delta::encode(buf, &block)?.states(&states!(delta, [1, 0]))?;
            Ok(states.windows(&[window!(delta, 0, Period::Week, Refill::Fixed)])?.finish())
        }),
        ("delta_empty", |buf| {
            let block = delta::Block::new(3, NOW_MS, 3, 0);
            Ok(delta::encode(buf, &block)?.states(&[])?.windows(&[])?.finish())
        }),
        ("patch", |buf| {
            // Of row 1 the status, what is spent and its impressions; of row 0 a lower word, and a window of a week.
            let masks = [1 << 1 | 0b11 << 6 | 0b11 << 38, 1 << 10 | 1 << 42 | 0b1111 << 56];
            let changes = [patch::Change::new(1, masks[0]), patch::Change::new(0, masks[1])];
            let words: [u32; 11] =
                [0x05_08_0a_03, 1, 0x20_0000, 7, 1, 1_600_000, 1 << 3, 10_000_000, 0, 8_200_000, 0];
            let words: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
            let block = patch::Block::new(6, NOW_MS + 4_000, 3, 0);
            Ok(patch::encode(buf, &block)?.changes(&changes)?.words(&words)?.finish())
        }),
        ("sparks", |buf| {
            let sparks =
                [sparks::Spark::new(7, 3), sparks::Spark::new(8, 0), sparks::Spark::new(9, 2)];
            let steps = [0, 1_500_000, -2, 9_007_199_254_740_993, 5].map(sparks::Step::new);
            let block = sparks::Block::new(4, NOW_MS, 3);
            Ok(sparks::encode(buf, &block)?.sparks(&sparks)?.steps(&steps)?.finish())
        }),
        ("acknowledge", |buf| {
            let block = acknowledge::Block::new(u64::from(u32::MAX) + 2);
            Ok(acknowledge::encode(buf, &block)?.finish())
        }),
        ("watch", |buf| {
            let rows = [0, 7, u32::MAX].map(watch::Row::new);
            Ok(watch::encode(buf, &watch::Block::new(4))?.rows(&rows)?.finish())
        }),
        ("resync", |buf| Ok(resync::encode(buf, &resync::Block::new(5))?.finish())),
    ];
    writers.into_iter().map(|(name, write)| (name, message(write))).collect()
}

fn write_snapshot(buf: &mut [u8]) -> Written {
    let (start, end) = (1_772_323_200_000, 1_780_272_000_000);
    let unit = *b"USD\0";
    let budgets = [
        snapshot::Budget::new(
            17,
            NULL_U64,
            start,
            end,
            unit,
            1,
            Pacing::Curve,
            Kind::Campaign,
            u32::MAX,
        ),
        snapshot::Budget::new(
            u64::MAX - 1,
            17,
            NULL_U64,
            NULL_U64,
            *b"COUN",
            0,
            Pacing::Asap,
            Kind::Budget,
            0,
        ),
    ];
    let windows = [
        window!(snapshot, 0, Period::Minute, Refill::Bucket),
        window!(snapshot, 0, Period::Month, Refill::Fixed),
    ];
    let block = snapshot::Block::new(1, NOW_MS, 3, 0, 2, 7);
    let groups =
        snapshot::encode(buf, &block)?.budgets(&budgets)?.states(&states!(snapshot, [0, 1]))?;
    let texts = groups
        .windows(&windows)?
        .names("spring sale\nSchlüssel ✓\n")?
        .zones("UTC\nAmerica/New_York\n")?;
    Ok(texts.handles("\nteam-42/gpt-5\n")?.templates("{team}/{model}\n")?.finish())
}

fn message(write: Writer) -> Vec<u8> {
    let mut buf = vec![0xAA; 1_024];
    let len = write(&mut buf).expect("samples are small");
    buf.truncate(len);
    buf
}

fn to_json(message: &[u8]) -> Value {
    let message = Message::decode(message).expect("a sound message");
    let mut values = golden::named_values(message.name(), message.template_id(), |visitor| {
        message.visit(visitor)
    });
    exact(&mut values);
    values
}

/// Integers that JavaScript would round, as text.
fn exact(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(exact),
        Value::Object(values) => values.values_mut().for_each(exact),
        Value::Number(number)
            if number.as_i64().is_none_or(|n| n.unsigned_abs() > SAFE_MAX.unsigned_abs()) =>
        {
            *value = Value::String(number.to_string());
        }
        _ => {}
    }
}

#[test]
fn vectors_are_what_is_encoded_and_decoded() {
    golden::check("live/", "SBE message header", samples(), to_json);
}

#[test]
fn every_message_has_a_vector() {
    let ids: Vec<u16> = samples().iter().map(|(_, m)| u16::from_le_bytes([m[2], m[3]])).collect();
    for id in 0..=u16::MAX {
        let mut message = message(|buf| Ok(resync::encode(buf, &resync::Block::new(5))?.finish()));
        message[2..4].copy_from_slice(&id.to_le_bytes());
        let is_unknown =
            matches!(Message::decode(&message), Err(FrameError::UnknownTemplate { .. }));
        assert_eq!(is_unknown, !ids.contains(&id), "template id {id}");
    }
}

#[test]
fn a_page_reads_by_words_of_32_bits() {
    let lens = [
        size_of::<snapshot::Block>(),
        size_of::<snapshot::Budget>(),
        size_of::<snapshot::State>(),
        size_of::<snapshot::Window>(),
        size_of::<delta::Block>(),
        size_of::<patch::Block>(),
        size_of::<patch::Change>(),
        size_of::<sparks::Block>(),
        size_of::<sparks::Spark>(),
        size_of::<sparks::Step>(),
    ];
    assert_eq!(lens, [32, 44, 168, 24, 24, 24, 12, 20, 8, 8], "mend docs/api.md");
    assert!(lens.iter().all(|len| len % 4 == 0));
}

#[test]
fn states_of_snapshots_and_deltas_are_the_same_bytes() {
    use zerocopy::IntoBytes;
    let (of_snapshot, of_delta) = (states!(snapshot, [0, 1]), states!(delta, [0, 1]));
    assert_eq!(of_snapshot.as_bytes(), of_delta.as_bytes());
}

#[test]
fn refusals_are_the_verdicts_that_refuse_an_ask() {
    for raw in 1..=u8::MAX {
        let verdict = Verdict::from_raw(raw).filter(|_| raw < Verdict::Confirmed.as_raw());
        let refusal = Refusal::from_raw(raw);
        assert_eq!(refusal.map(Refusal::name), verdict.map(Verdict::name), "code {raw}");
    }
}
