//! The journal's records: golden vectors, round trips, and bytes that lie.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;
use wire::journal::{
    Beat, BillingLapsed, BudgetEnded, BudgetFlags, BudgetForgotten, BudgetIdled, Clicked, Clock,
    DayRolled, Door, DormantFlags, EditAction, Expired, GrantClosed, Granted, Handover, Keeps,
    KeyAdded, KeyRetired, Message, NamedEnded, Outcome, Period, PeriodRolled, Periods, Reconciled,
    Resolved, Resumed, Retired, Returned, RunFlags, RunStarted, Stage, StateBooks, StateEnd,
    StateGrant, StateHead, StateKey, StateMarks, Status, Suspended, ToppedUp, WindowRolled,
    answer_secret, beat, billing_lapsed, budget, budget_ended, budget_forgotten, budget_idled,
    clicked, day_rolled, edited, expired, grant_closed, granted, handover, key_added, key_retired,
    memo, named_ended, operator, period_rolled, reconciled, resolved, resolved_keyed,
    resolved_memo, resumed, retired, returned, run_started, state_answer, state_answer_secret,
    state_books, state_dormant, state_end, state_grant, state_head, state_key, state_marks,
    state_memo, suspended, topped_up, window_rolled,
};
use wire::{EncodeError, FrameError, MESSAGE_HEADER_LEN};
use zerocopy::IntoBytes;

use crate::property::{any_value, round_trip};
use crate::samples::Sample;
use crate::{corpus, golden};

type Written = Result<usize, EncodeError>;
type Writer = fn(&mut [u8]) -> Written;

const NOW_MS: u64 = 1_780_000_000_000;

/// Encodes a message that is a block and nothing else.
macro_rules! block {
    ($message:ident, $($value:expr),+ $(,)?) => {
        (stringify!($message), |buf: &mut [u8]| {
            Ok($message::encode(buf, &$message::Block::new($($value),+))?.finish())
        })
    };
}

/// One record of each kind, in the order of the schema.
pub(crate) fn samples() -> Vec<Sample> {
    let writers: [(&'static str, Writer); 44] = [
        ("run_started", write_run_started),
        ("budget", write_budget),
        block!(budget_ended, u64::MAX),
        block!(day_rolled, 1_001, NOW_MS, NOW_MS + 90_000_000),
        block!(granted, 0x0001_0000_0000_0007, 1_001, 5_000_000, NOW_MS, 2),
        block!(returned, 0x0001_0000_0000_0007, 4_000_000),
        ("resolved", write_resolved),
        block!(billing_lapsed, 7, NOW_MS + 3_600_000, i64::MAX),
        block!(retired, 7, NOW_MS + 2_000),
        block!(suspended, 7, NOW_MS + 4_000, 1),
        block!(resumed, 7, 1),
        block!(grant_closed, 7),
        block!(key_added, NOW_MS, key(), 255),
        block!(key_retired, 1),
        ("operator", write_operator),
        ("edited", write_edited),
        block!(expired, 7, NOW_MS + 2_000, 250_000, Clock::Billing),
        block!(reconciled, 7, NOW_MS + 2_000, 250_000),
        block!(period_rolled, 1_001, NOW_MS, NOW_MS + 604_800_000),
        block!(budget_idled, (1 << 62) + 7),
        block!(budget_forgotten, (1 << 62) + 7),
        block!(window_rolled, 1_001, NOW_MS, NOW_MS + 60_000, Period::Minute),
        ("resolved_keyed", write_resolved_keyed),
        block!(answer_secret, NOW_MS, key()),
        ("memo", write_memo),
        ("resolved_memo", write_resolved_memo),
        ("topped_up", write_topped_up),
        ("named", write_named),
        block!(named_ended, NOW_MS, key(), Door::Fix),
        ("timed", write_timed),
        block!(clicked, 7, NOW_MS + 2_000, 1_500_000, NOW_MS, 1_001, 3, 1, Door::Openrtb, 1),
        block!(beat, NOW_MS),
        block!(handover, NOW_MS + 1),
        ("kept", write_kept),
        ("state_head", write_state_head),
        ("state_books", write_state_books),
        ("state_grant", write_state_grant),
        ("state_marks", write_state_marks),
        block!(state_key, NOW_MS, key(), 7),
        ("state_dormant", write_state_dormant),
        block!(state_answer_secret, key()),
        ("state_answer", write_state_answer),
        ("state_memo", write_state_memo),
        block!(state_end, 12, 0xFEED_FACE_CAFE_BEEF),
    ];
    writers.into_iter().map(|(name, write)| (name, record(write))).collect()
}

fn record(write: Writer) -> Vec<u8> {
    let mut buf = vec![0xAA; 1_024];
    let len = write(&mut buf).expect("samples are small");
    buf.truncate(len);
    buf
}

fn named(name: &str) -> Vec<u8> {
    samples()
        .into_iter()
        .find(|(n, _)| *n == name)
        .map(|(_, bytes)| bytes)
        .expect("a sample's name")
}

fn key() -> [u8; 16] {
    std::array::from_fn(|i| 0xF8_u8.wrapping_add(u8::try_from(i).unwrap_or_default()))
}

fn marks() -> [u8; 128] {
    std::array::from_fn(|i| [0x10, 0x32, 0x54][i % 3])
}

fn write_kept(buf: &mut [u8]) -> Written {
    use wire::journal::{KeptFlags, Room, kept};
    let block = kept::Block::new(2, Room::Vault, KeptFlags::LAST);
    Ok(kept::encode(buf, &block)?.bytes(&key())?.finish())
}

fn write_budget(buf: &mut [u8]) -> Written {
    let flags = BudgetFlags::HAS_DAILY
        .with(BudgetFlags::HAS_PARENT)
        .with(BudgetFlags::HOLDS)
        .with(BudgetFlags::CAPS_WEEK);
    let (start, end) = (0, u64::MAX);
    let block = budget::Block::new(
        1_002,
        1_001,
        1_000_000_000,
        50_000_000,
        start,
        end,
        *b"EUR\0",
        250,
        Status::Paused,
        flags,
        1_000,
        300_000_000,
        10,
        0,
        70_000_000,
        0,
        900_000_000,
        Periods::MINUTE.with(Periods::DAY).with(Periods::MONTH),
        Periods::MINUTE.with(Periods::DAY),
        86_400_000,
    );
    let encoder = budget::encode(buf, &block)?.zone("Europe/Zurich")?;
    Ok(encoder.handle("llm/team-42/ann@example")?.finish())
}

fn write_named(buf: &mut [u8]) -> Written {
    use wire::journal::{NamedFlags, named};
    let flags = NamedFlags::FACT.with(NamedFlags::OPENS);
    let legs =
        [named::Leg::new(1_001, 10, 20, 30, 40, 50, 60), named::Leg::new(7, 1, 0, 0, 0, 0, 0)];
    let block = named::Block::new(NOW_MS, key(), Door::Fix, flags);
    Ok(named::encode(buf, &block)?.legs(&legs)?.label("ORDER-7 of Zürich")?.finish())
}

fn write_timed(buf: &mut [u8]) -> Written {
    use wire::journal::{NamedFlags, timed};
    let flags = NamedFlags::OPENS.with(NamedFlags::MOVED).with(NamedFlags::KEPT);
    let legs = [timed::Leg::new(1_001, 10, 20, 30, 40), timed::Leg::new(7, 10, 0, 0, 0)];
    let block = timed::Block::new(
        NOW_MS,
        NOW_MS + 60_000,
        10,
        9,
        7,
        NOW_MS + 2_000,
        3,
        1,
        key(),
        [1; 16],
        [2; 16],
        Door::Spend,
        Door::Spend,
        Outcome::Confirmed,
        flags,
    );
    Ok(timed::encode(buf, &block)?.legs(&legs)?.answer(&[b'e', 0, 255])?.finish())
}

fn write_state_dormant(buf: &mut [u8]) -> Written {
    let flags = DormantFlags::LIMITED.with(DormantFlags::HAS_WINDOWS);
    let day = (NOW_MS, NOW_MS + 86_400_000);
    let block = state_dormant::Block::new(
        (1 << 62) + 7,
        400,
        30,
        2,
        500,
        432,
        500,
        100,
        90,
        day.0,
        day.1,
        40,
        3,
        1,
        *b"USD\0",
        flags,
        5,
        6,
        7,
        8,
    );
    let windows = [
        state_dormant::Window::new(10, 77, NOW_MS + 60_000, 3, 5, Period::Minute, 1),
        state_dormant::Window::new(500, NOW_MS, NOW_MS + 2_592_000_000, 432, 0, Period::Month, 0),
    ];
    Ok(state_dormant::encode(buf, &block)?
        .windows(&windows)?
        .handle("llm/team-42/ann@example")?
        .finish())
}

fn write_resolved(buf: &mut [u8]) -> Written {
    let block = resolved::Block::new(
        0x0001_0000_0000_0007,
        NOW_MS + 2_000,
        1_500_000,
        1_500_001,
        NOW_MS + 1_999,
        0x1122_3344_5566_7788,
        u32::MAX,
        7,
        Outcome::SettledOver,
        Door::Batch,
    );
    Ok(resolved::encode(buf, &block)?.finish())
}

fn write_topped_up(buf: &mut [u8]) -> Written {
    let block = topped_up::Block::new(
        0x0001_0000_0000_0007,
        NOW_MS + 2_000,
        1_500_000,
        500_001,
        1_500_001,
        NOW_MS + 1_999,
        0x1122_3344_5566_7788,
        u32::MAX,
        7,
        Outcome::SettledOver,
        Door::Openrtb,
        1,
    );
    Ok(topped_up::encode(buf, &block)?.finish())
}

fn write_state_marks(buf: &mut [u8]) -> Written {
    let amounts = [state_marks::Amount::new(3, 7), state_marks::Amount::new(255, i64::MAX)];
    let block = state_marks::Block::new(1, marks(), 1);
    Ok(state_marks::encode(buf, &block)?.amounts(&amounts)?.finish())
}

fn write_run_started(buf: &mut [u8]) -> Written {
    let flags = RunFlags::NO_WIN_NOTICES;
    let block = run_started::Block::new(NOW_MS, NOW_MS + 4_000, 2_000, 3_600_000, 3, flags, 15_000);
    Ok(run_started::encode(buf, &block)?.node("bank-a")?.finish())
}

fn write_state_head(buf: &mut [u8]) -> Written {
    let (next_made, flags) = ((1 << 62) + 8, RunFlags::HANDED_OVER);
    let kept = [3, 2, 1];
    let block = state_head::Block::new(
        NOW_MS,
        2_000,
        3_600_000,
        8,
        u32::MAX,
        flags,
        next_made,
        15_000,
        kept[0],
        kept[1],
        kept[2],
    );
    Ok(state_head::encode(buf, &block)?.finish())
}

fn write_operator(buf: &mut [u8]) -> Written {
    let block = operator::Block::new(NOW_MS);
    Ok(operator::encode(buf, &block)?.who("Zoë")?.why("limit lowered — contract 12")?.finish())
}

fn write_edited(buf: &mut [u8]) -> Written {
    let block = edited::Block::new(NOW_MS, 8_812, 1_002, EditAction::Set);
    let edited = edited::encode(buf, &block)?;
    Ok(edited.before(r#"{"limit":"40.00"}"#)?.after(r#"{"limit":"55.50"}"#)?.finish())
}

fn write_state_books(buf: &mut [u8]) -> Written {
    let day_end = NOW_MS + 86_400_000;
    let block = state_books::Block::new(
        NOW_MS,
        day_end,
        -1,
        2,
        3,
        4,
        5,
        6,
        7,
        8,
        9,
        10,
        11,
        12,
        i64::MAX,
        14,
        15,
        16,
        17,
        18,
        19,
        20,
        NOW_MS,
        day_end,
        23,
        26,
        27,
        28,
        29,
    );
    let windows = [
        state_books::Window::new(0x0001_0000_0000_0007, NOW_MS + 60_000, 24, 59_999),
        state_books::Window::new(NOW_MS, NOW_MS + 604_800_000, 25, 0),
    ];
    Ok(state_books::encode(buf, &block)?.windows(&windows)?.finish())
}

fn write_resolved_keyed(buf: &mut [u8]) -> Written {
    let block = resolved_keyed::Block::new(
        7,
        NOW_MS + 2_000,
        150_000,
        42_000,
        NOW_MS,
        9,
        3,
        1,
        Outcome::Settled,
        Door::Keys,
        key(),
        [0xD1; 16],
    );
    Ok(resolved_keyed::encode(buf, &block)?.answer(b"first")?.finish())
}

fn write_state_answer(buf: &mut [u8]) -> Written {
    let block = state_answer::Block::new(NOW_MS, key(), [0xD1; 16], Outcome::Confirmed);
    Ok(state_answer::encode(buf, &block)?.answer(&[0, 255])?.finish())
}

fn write_memo(buf: &mut [u8]) -> Written {
    let block = memo::Block::new(NOW_MS, key(), Door::Fix);
    Ok(memo::encode(buf, &block)?.memo(&[0, 255])?.finish())
}

fn write_resolved_memo(buf: &mut [u8]) -> Written {
    let block = resolved_memo::Block::new(
        7,
        NOW_MS + 2_000,
        150_000,
        42_000,
        NOW_MS,
        9,
        3,
        1,
        Outcome::Settled,
        Door::Fix,
        key(),
        Door::Keys,
    );
    Ok(resolved_memo::encode(buf, &block)?.memo(b"34=7")?.finish())
}

fn write_state_memo(buf: &mut [u8]) -> Written {
    let block = state_memo::Block::new(NOW_MS, key(), Door::Spend);
    Ok(state_memo::encode(buf, &block)?.memo(b"34=8")?.finish())
}

fn write_state_grant(buf: &mut [u8]) -> Written {
    let block = state_grant::Block::new(
        0x0001_0000_0000_0007,
        1_002,
        3_600_000,
        1_500_000,
        NOW_MS + 4_000,
        NOW_MS,
        NOW_MS - 1,
        0,
        0,
        2,
        Stage::Suspended,
        Keeps::UNCONFIRMED.with(Keeps::CONFIRMED),
        NOW_MS + 2_000,
    );
    let billing = [
        state_grant::Billing::new(NOW_MS + 3_600_000, 1_000_000),
        state_grant::Billing::new(NOW_MS + 3_660_000, 500_000),
    ];
    let unconfirmed = [state_grant::Unconfirmed::new(NOW_MS + 10_000, 3)];
    let unbilled = [state_grant::Unbilled::new(NOW_MS + 3_600_000, 4)];
    let grant = state_grant::encode(buf, &block)?.billing(&billing)?;
    let rests = [state_grant::Rest::new(NOW_MS + 3_600_000, 5)];
    Ok(grant.unconfirmed(&unconfirmed)?.unbilled(&unbilled)?.rests(&rests)?.finish())
}

fn to_json(record: &[u8]) -> Value {
    let message = Message::decode(record).expect("a sound record");
    golden::named_values(message.name(), message.template_id(), |visitor| message.visit(visitor))
}

#[test]
fn vectors_are_what_is_encoded_and_decoded() {
    golden::check("journal/", "SBE message header", samples(), to_json);
}

#[test]
fn every_message_has_a_vector() {
    let ids: Vec<u16> = samples().iter().map(|(_, r)| u16::from_le_bytes([r[2], r[3]])).collect();
    for id in 0..=u16::MAX {
        let record = changed("grant_closed", |r| put_u16(r, TEMPLATE_AT, id));
        let is_unknown =
            matches!(Message::decode(&record), Err(FrameError::UnknownTemplate { .. }));
        assert_eq!(is_unknown, !ids.contains(&id), "template id {id}");
    }
}

#[test]
fn a_record_has_no_framing_header() {
    let record = named("grant_closed");
    assert_eq!(record.len(), MESSAGE_HEADER_LEN + size_of::<grant_closed::Block>());
    assert_eq!(record.len(), grant_closed::encoded_len());
    assert_eq!(record[..8], [8, 0, 12, 0, 0x15, 0x1E, 13, 0], "block, template, schema, version");
    // The two schemas do not take each other's messages, although both are SBE.
    let other = wire::Message::decode(&record).err();
    assert_eq!(other, Some(FrameError::UnknownEncoding { found: 0x151E }));
    let ping = crate::samples::named("ping");
    let other = Message::decode(&ping[wire::FRAME_HEADER_LEN..]).err();
    assert_eq!(other, Some(FrameError::UnknownSchema { found: 7_700, expected: 7_701 }));
}

#[test]
fn a_buffer_that_is_too_small_is_an_error() {
    let block = grant_closed::Block::new(7);
    for len in 0..grant_closed::encoded_len() {
        let full = grant_closed::encode(&mut vec![0; len], &block).map(|_| ());
        assert_eq!(full, Err(EncodeError::Full { need: 16, left: len }));
    }
}

/// As [`round_trip`], for a block that has grown since the first version: it is compared as it was written.
macro_rules! round_trip_of_grown {
    ($test:ident, $view:ident) => {
        proptest! {
            #[test]
            fn $test(block in any_value::<$test::Block>()) {
                let mut buf = vec![0xAA; $test::encoded_len()];
                let len = $test::encode(&mut buf, &block)?.finish();
                prop_assert_eq!(len, buf.len());
                prop_assert_eq!(&buf[BLOCK_AT..], block.as_bytes());
                $view::decode(&buf)?;
            }
        }
    };
}

round_trip!(budget_ended, BudgetEnded);
round_trip!(day_rolled, DayRolled);
round_trip!(granted, Granted);
round_trip!(returned, Returned);
round_trip!(resolved, Resolved);
round_trip!(billing_lapsed, BillingLapsed);
round_trip!(retired, Retired);
round_trip!(suspended, Suspended);
round_trip!(resumed, Resumed);
round_trip!(grant_closed, GrantClosed);
round_trip!(beat, Beat);
round_trip!(handover, Handover);
round_trip!(expired, Expired);
round_trip!(reconciled, Reconciled);
round_trip!(period_rolled, PeriodRolled);
round_trip!(window_rolled, WindowRolled);
round_trip!(key_added, KeyAdded);
round_trip!(key_retired, KeyRetired);
round_trip!(named_ended, NamedEnded);
round_trip!(clicked, Clicked);
round_trip_of_grown!(state_head, StateHead);
round_trip_of_grown!(topped_up, ToppedUp);
round_trip!(state_key, StateKey);
round_trip!(state_end, StateEnd);
round_trip!(budget_idled, BudgetIdled);
round_trip!(budget_forgotten, BudgetForgotten);

proptest! {
    #[test]
    fn run_started(block in any_value::<run_started::Block>(), node in ".{0,60}") {
        let mut buf = vec![0xAA; run_started::encoded_len(node.len())];
        let len = run_started::encode(&mut buf, &block)?.node(&node)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = RunStarted::decode(&buf)?;
        prop_assert_eq!(view.node(), Some(Ok(node.as_str())));
    }

    #[test]
    fn budget(block in any_value::<budget::Block>(), zone in ".{0,60}", handle in ".{0,60}") {
        let mut buf = vec![0xAA; budget::encoded_len(zone.len(), handle.len())];
        let len = budget::encode(&mut buf, &block)?.zone(&zone)?.handle(&handle)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = wire::journal::Budget::decode(&buf)?;
        prop_assert_eq!(&buf[BLOCK_AT..BLOCK_AT + size_of_val(&block)], block.as_bytes());
        prop_assert_eq!(view.zone(), Ok(zone.as_str()));
        prop_assert_eq!(view.handle(), Some(Ok(handle.as_str())));
    }

    #[test]
    fn state_grant(
        block in any_value::<state_grant::Block>(),
        billing in vec(any_value::<state_grant::Billing>(), 0..40),
        unconfirmed in vec(any_value::<state_grant::Unconfirmed>(), 0..40),
        unbilled in vec(any_value::<state_grant::Unbilled>(), 0..40),
        rests in vec(any_value::<state_grant::Rest>(), 0..40),
    ) {
        let lens = (billing.len(), unconfirmed.len(), unbilled.len(), rests.len());
        let mut buf = vec![0xAA; state_grant::encoded_len(lens.0, lens.1, lens.2, lens.3)];
        let grant = state_grant::encode(&mut buf, &block)?.billing(&billing)?;
        let len = grant.unconfirmed(&unconfirmed)?.unbilled(&unbilled)?.rests(&rests)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = StateGrant::decode(&buf)?;
        prop_assert_eq!(&buf[BLOCK_AT..BLOCK_AT + size_of_val(&block)], block.as_bytes());
        prop_assert_eq!(view.billing().as_slice(), Some(billing.as_slice()));
        let unconfirmed_again = view.unconfirmed().and_then(|group| group.as_slice());
        prop_assert_eq!(unconfirmed_again, Some(unconfirmed.as_slice()));
        let unbilled_again = view.unbilled().and_then(|group| group.as_slice());
        prop_assert_eq!(unbilled_again, Some(unbilled.as_slice()));
        let rests_again = view.rests().and_then(|group| group.as_slice());
        prop_assert_eq!(rests_again, Some(rests.as_slice()));
    }

    #[test]
    fn state_marks(
        block in any_value::<state_marks::Block>(),
        amounts in vec(any_value::<state_marks::Amount>(), 0..300),
    ) {
        let mut buf = vec![0xAA; state_marks::encoded_len(amounts.len())];
        let len = state_marks::encode(&mut buf, &block)?.amounts(&amounts)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = StateMarks::decode(&buf)?;
        prop_assert_eq!(&buf[BLOCK_AT..BLOCK_AT + size_of_val(&block)], block.as_bytes());
        let again = view.amounts().and_then(|group| group.as_slice());
        prop_assert_eq!(again, Some(amounts.as_slice()));
    }

    #[test]
    fn state_books(
        block in any_value::<state_books::Block>(),
        windows in vec(any_value::<state_books::Window>(), 0..6),
    ) {
        let mut buf = vec![0xAA; state_books::encoded_len(windows.len())];
        let len = state_books::encode(&mut buf, &block)?.windows(&windows)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = StateBooks::decode(&buf)?;
        prop_assert_eq!(&buf[BLOCK_AT..BLOCK_AT + size_of_val(&block)], block.as_bytes());
        let again = view.windows().and_then(|group| group.as_slice());
        prop_assert_eq!(again, Some(windows.as_slice()));
    }

    #[test]
    fn operator(block in any_value::<operator::Block>(), texts in (".{0,60}", ".{0,60}")) {
        let (who, why) = (texts.0.as_str(), texts.1.as_str());
        let mut buf = vec![0xAA; operator::encoded_len(who.len(), why.len())];
        let len = operator::encode(&mut buf, &block)?.who(who)?.why(why)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = wire::journal::Operator::decode(&buf)?;
        prop_assert_eq!((view.block(), view.who(), view.why()), (&block, Ok(who), Ok(why)));
    }

    /// Any few bytes changed, anywhere, then cut or made longer.
    #[test]
    fn mutations_never_panic(
        sample in 0..25_usize,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        len in 0..300_usize,
    ) {
        let mut record = samples().swap_remove(sample).1;
        for (at, byte) in changes {
            let at = at.index(record.len());
            record[at] = byte;
        }
        corpus::checks::journal_decode(&record);
        record.resize(len, 0xA5);
        corpus::checks::journal_decode(&record);
    }

    /// Random bytes, bare and behind a sound header of a random template.
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300), template in 0..50_u16, block in 0..140_u16) {
        corpus::checks::journal_decode(&bytes);
        let header =
            [block, template, wire::journal::SCHEMA_ID, wire::journal::SCHEMA_VERSION].map(u16::to_le_bytes);
        corpus::checks::journal_decode(&[&header.concat(), bytes.as_slice()].concat());
    }
}

/// A record that lies, its name, and what is wrong with it.
pub(crate) struct Lie {
    pub(crate) name: &'static str,
    pub(crate) record: Vec<u8>,
    pub(crate) error: FrameError,
}

const TEMPLATE_AT: usize = 2;
const SCHEMA_AT: usize = 4;
const VERSION_AT: usize = 6;
const BLOCK_AT: usize = MESSAGE_HEADER_LEN;
/// In `operator`: behind a root block of 8 bytes.
const WHO_AT: usize = BLOCK_AT + 8;

fn put_u16(record: &mut [u8], at: usize, value: u16) {
    record[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

fn changed(sample: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut record = named(sample);
    change(&mut record);
    record
}

/// Records with one false number each.
pub(crate) fn lies() -> Vec<Lie> {
    [header_lies(), part_lies()].into_iter().flatten().collect()
}

fn header_lies() -> Vec<Lie> {
    let lie = |name, record, error| Lie { name, record, error };
    let closed = |at, value| changed("grant_closed", |r| put_u16(r, at, value));
    vec![
        lie("nothing", vec![], FrameError::HeaderOutside { need: 8, left: 0 }),
        lie("half_header", vec![8, 0, 12, 0, 0x15], FrameError::HeaderOutside { need: 8, left: 5 }),
        lie(
            "other_schema",
            closed(SCHEMA_AT, 7_700),
            FrameError::UnknownSchema { found: 7_700, expected: 7_701 },
        ),
        lie(
            "version_too_old",
            closed(VERSION_AT, 0),
            FrameError::VersionUnsupported { found: 0, min: 1 },
        ),
        lie("unknown_template", closed(TEMPLATE_AT, 39), FrameError::UnknownTemplate { found: 39 }),
        lie("block_too_short", closed(0, 7), FrameError::BlockTooShort { found: 7, min: 8 }),
        lie("block_outside", closed(0, 9), FrameError::BlockOutside { block_len: 9, left: 8 }),
        lie(
            "block_far_outside",
            closed(0, u16::MAX),
            FrameError::BlockOutside { block_len: u16::MAX, left: 8 },
        ),
        lie(
            "trailing_bytes",
            changed("grant_closed", |r| r.extend([0; 3])),
            FrameError::TrailingBytes { left: 3 },
        ),
    ]
}

fn part_lies() -> Vec<Lie> {
    let lie = |name, record, error| Lie { name, record, error };
    let billing_at = BLOCK_AT + size_of::<state_grant::Block>();
    let last_at = named("state_grant").len() - 4 - size_of::<state_grant::Unbilled>();
    let group = "billing";
    let who = |len: u32| {
        changed("operator", |r| r[WHO_AT..WHO_AT + 4].copy_from_slice(&len.to_le_bytes()))
    };
    let left = named("operator").len() - WHO_AT - 4;
    let left_u32 = u32::try_from(left).expect("samples are small");
    vec![
        lie(
            "group_missing",
            changed("state_grant", |r| r.truncate(billing_at)),
            FrameError::GroupSizeOutside { group, need: 4, left: 0 },
        ),
        lie(
            "group_entry_zero",
            changed("state_grant", |r| put_u16(r, billing_at, 0)),
            FrameError::GroupBlockTooShort { group, found: 0, min: 16 },
        ),
        lie(
            "group_one_too_many",
            changed("state_grant", |r| put_u16(r, billing_at + 2, 6)),
            FrameError::GroupOutside { group, count: 6, block_len: 16, left: 92 },
        ),
        lie(
            "group_one_too_few",
            changed("state_grant", |r| put_u16(r, last_at + 2, 0)),
            FrameError::TrailingBytes { left: 16 },
        ),
        lie(
            "data_too_long",
            who(u32::MAX),
            FrameError::DataTooLong { data: "who", len: u32::MAX, max: 1_048_576 },
        ),
        lie(
            "data_outside",
            who(left_u32 + 1),
            FrameError::DataOutside { data: "who", len: left_u32 + 1, left },
        ),
        lie(
            "data_swallows_the_next",
            who(left_u32),
            FrameError::DataLengthOutside { data: "why", need: 4, left: 0 },
        ),
    ]
}

#[test]
fn each_lie_has_its_answer() {
    for Lie { name, record, error } in lies() {
        assert_eq!(Message::decode(&record).err(), Some(error), "{name}");
        assert!(error.to_string().contains(|c: char| c.is_ascii_digit()), "{name}: {error}");
    }
}

#[test]
fn every_truncation_and_every_byte_more_is_an_error() {
    for (name, mut record) in samples() {
        for len in 0..record.len() {
            assert!(Message::decode(&record[..len]).is_err(), "{name} cut to {len}");
        }
        record.push(0);
        let error = FrameError::TrailingBytes { left: 1 };
        assert_eq!(Message::decode(&record).err(), Some(error), "{name}");
    }
}

/// Later versions add fields at the end of blocks; what this reader knows of them it reads.
#[test]
fn a_newer_writer_may_send_more() {
    let record = changed("returned", |r| {
        put_u16(r, 0, 24);
        put_u16(r, VERSION_AT, wire::journal::SCHEMA_VERSION + 1);
        r.extend([0xFF; 8]);
    });
    let Ok(Message::Returned(returned)) = Message::decode(&record) else { panic!("a return") };
    assert_eq!(returned.amount(), 4_000_000);
}

/// What the first version did not know is not there, and everything else is.
#[test]
fn an_older_writer_sent_less() {
    let old = |name, block_len: u16| {
        changed(name, |r| {
            let whole = usize::from(u16::from_le_bytes([r[0], r[1]]));
            r.drain(BLOCK_AT + usize::from(block_len)..BLOCK_AT + whole);
            put_u16(r, 0, block_len);
            put_u16(r, VERSION_AT, 1);
        })
    };
    let mut record = old("run_started", 36);
    record.truncate(record.len() - (4 + "bank-a".len()));
    let run = RunStarted::decode(&record).expect("a run of the first version");
    assert_eq!((run.run(), run.flags()), (3, None));
    assert_eq!((run.lease_ms(), run.node()), (None, None));
    let mut record = old("budget", 56);
    record.truncate(record.len() - 4 - "llm/team-42/ann@example".len());
    let budget = wire::journal::Budget::decode(&record).expect("a budget of the first version");
    assert_eq!((budget.zone(), budget.tolerance_ppm()), (Ok("Europe/Zurich"), None));
    assert_eq!((budget.handle(), budget.idle_ms()), (None, None));
    let mut record = old("state_books", 120);
    record.truncate(record.len() - (4 + 2 * size_of::<state_books::Window>()));
    let books = StateBooks::decode(&record).expect("books of the first version");
    assert_eq!((books.day_late(), books.expired()), (i64::MAX, None));
    let mut record = old("state_marks", 132);
    record.truncate(record.len() - (4 + 2 * size_of::<state_marks::Amount>()));
    let marks = StateMarks::decode(&record).expect("marks of the first version");
    assert_eq!((marks.page(), marks.whole(), marks.amounts().is_none()), (1, None, true));
    let mut record = old("state_grant", 75);
    let groups = 3 * (4 + size_of::<state_grant::Rest>());
    record.truncate(record.len() - groups);
    let grant = StateGrant::decode(&record).expect("a grant of the first version");
    assert_eq!((grant.billing().len(), grant.keeps()), (2, None));
    assert!(grant.unconfirmed().is_none() && grant.unbilled().is_none());
    assert!(grant.rests().is_none());
    let mut record = named("topped_up");
    let uses_rest_at = record.len() - 1;
    record.truncate(uses_rest_at);
    put_u16(&mut record, 0, u16::try_from(uses_rest_at - BLOCK_AT).expect("short"));
    put_u16(&mut record, VERSION_AT, 6);
    let topped_up = ToppedUp::decode(&record).expect("one of version 6");
    assert_eq!((topped_up.total(), topped_up.uses_rest()), (1_500_001, None));
}
