//! The state of a row as words of 32 bits, and which of them differ: what a message says of a row that changed.

use money::Amount;
use wire::live::{Flags, Reason, Refusal, Status, delta};
use zerocopy::IntoBytes;

use crate::State;

/// Words of a row, some of them unused.
const WORDS: usize = 64;
/// Bytes of a word.
const BYTES: usize = size_of::<u32>();
/// The word of the windows' periods; each window has four words from [`WINDOWS_AT`] on.
const PERIODS_AT: usize = size_of::<delta::State>() / BYTES;
const WINDOWS_AT: usize = PERIODS_AT + 2;
/// The lower words of values of 64 bits.
const WIDE: u64 = (0x5555_5555 & !1) | 0b01_0101 << 36 | 0x5555_5555_5555_5555 << WINDOWS_AT;
/// Those of them without a sign.
const UNSIGNED: u64 = 1 << 2 | 1 << 14 | 1 << 16 | 1 << 28 | 0b101 << 38;
/// All words that a row may have.
pub(crate) const ALL: u64 = !(1 | 1 << (PERIODS_AT + 1));
/// The lower word of what is planned by now.
const PLANNED_AT: usize = 20;
/// Integers up to here are exact in a page.
const SAFE_MAX: u64 = (1 << 53) - 1;

const _: () = assert!(WINDOWS_AT + 4 * crate::model::Period::ALL.len() == WORDS);

/// The state of a row as the entry of that module's message: two types, the same bytes.
macro_rules! entry {
    ($message:ident, $row:expr, $state:expr) => {{
        let (row, state): (u32, &$crate::State) = ($row, $state);
        let amount = |amount: Option<money::Amount>| amount.map_or(i64::MIN, money::Amount::get);
        $message::State::new(
            row,
            Status::from_raw(state.status.code()).unwrap_or(Status::Active),
            Reason::from_raw(state.reason.code()).unwrap_or(Reason::None),
            Refusal::from_raw(state.top_refusal).unwrap_or(Refusal::None),
            Flags::from_raw(state.flags.0),
            state.since_ms,
            state.limit.get(),
            state.spent.get(),
            state.debt.get(),
            state.held.get(),
            state.available.get(),
            state.window_start_ms,
            state.window_end_ms,
            amount(state.window_budget),
            amount(state.window_planned),
            amount(state.window_spent),
            amount(state.daily),
            state.day_spent.get(),
            state.day_ends_ms.unwrap_or(u64::MAX),
            state.spend_minute.get(),
            state.asks,
            state.grants,
            state.refusals,
            state.top_refusals,
            amount(state.counted.map(|counted| counted.spend)),
            state.counted.map_or(u64::MAX, |counted| counted.impressions),
            state.counted.and_then(|counted| counted.clicks).unwrap_or(u64::MAX),
        )
    }};
}
pub(crate) use entry;

/// The words of a state: those of its entry, then its windows.
pub(crate) fn words(state: &State) -> [u32; WORDS] {
    let mut words = [0; WORDS];
    let entry = entry!(delta, 0, state);
    for (word, bytes) in words.iter_mut().zip(entry.as_bytes().as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    for (period, window) in state.windows.iter().enumerate() {
        let Some(window) = window else { continue };
        words[PERIODS_AT] |= (1 | u32::from(window.bucket) << 8) << period;
        for (at, amount) in [window.limit, window.used].into_iter().enumerate() {
            let at = WINDOWS_AT + 4 * period + 2 * at;
            [words[at], words[at + 1]] = halves(amount);
        }
    }
    words
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is cut off on purpose")]
fn halves(amount: Amount) -> [u32; 2] {
    let bits = amount.get().cast_unsigned();
    [bits as u32, (bits >> 32) as u32]
}

/// The words that somebody who has `before` needs for `now`.
pub(super) fn mask(before: &State, now: &State) -> u64 {
    let (before, now) = (words(before), words(now));
    (1..WORDS).filter(|at| before[*at] != now[*at]).fold(0, |mask, at| {
        let low = at & !1;
        if WIDE >> low & 1 == 0 {
            return mask | 1 << at;
        }
        let value = |words: &[u32; WORDS]| {
            (u64::from(words[low]) | u64::from(words[low + 1]) << 32).cast_signed()
        };
        let (before, now) = (value(&before), value(&now));
        let is_signed = UNSIGNED >> low & 1 == 0;
        mask | wide(before, now, is_signed || before.min(now) >= 0) << low
    })
}

/// The words of a value of 64 bits: the lower one alone where a page, which keeps doubles, still knows the other.
fn wide(before: i64, now: i64, is_small: bool) -> u64 {
    let is_exact = is_small && before.unsigned_abs().max(now.unsigned_abs()) <= SAFE_MAX;
    match before == now {
        true => 0b00,
        false if is_exact && before >> 32 == now >> 32 => 0b01,
        false => 0b11,
    }
}

/// The words of what is planned by now.
pub(super) fn plan_mask(before: &State, now: &State) -> u64 {
    let planned = |state: &State| state.window_planned.map_or(i64::MIN, Amount::get);
    wide(planned(before), planned(now), true) << PLANNED_AT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Counted;
    use crate::model::WindowUse;

    const SAFE: i64 = (1 << 53) - 1;

    /// Bits of the words from `at` on.
    fn bits(at: usize, bits: u64) -> u64 {
        bits << at
    }

    #[test]
    fn a_mask_has_the_words_that_a_page_does_not_know() {
        type Change = fn(&mut State, i64);
        let spent: Change = |state, to| state.spent = Amount::new(to);
        let planned: Change = |state, to| {
            state.window_planned = (to != i64::MIN).then_some(Amount::new(to));
        };
        let used: Change = |state, to| {
            let window = WindowUse { used: Amount::new(to), ..WindowUse::default() };
            state.windows[4] = (to != i64::MIN).then_some(window);
        };
        let impressions: Change = |state, to| {
            state.counted = Some(Counted { impressions: to.unsigned_abs(), ..Counted::default() });
        };
        let since: Change = |state, to| state.since_ms = to.cast_unsigned();
        let cases: [(Change, i64, i64, u64); 18] = [
            (since, 7, 9, bits(2, 0b01)),
            (since, -1, -5, bits(2, 0b11)),
            (spent, 5, 5, 0),
            (spent, 5, 6, bits(6, 0b01)),
            (spent, -1, -2, bits(6, 0b01)),
            (spent, 5, -5, bits(6, 0b11)),
            (spent, u32::MAX.into(), 1 << 32, bits(6, 0b11)),
            (spent, 1 << 32, 2 << 32, bits(6, 0b11)),
            (spent, SAFE - 1, SAFE, bits(6, 0b01)),
            (spent, SAFE, SAFE + 1, bits(6, 0b11)),
            (spent, SAFE + 2, SAFE, bits(6, 0b11)),
            (planned, i64::MIN, 0, bits(20, 0b11)),
            (planned, 7, i64::MIN, bits(20, 0b11)),
            (planned, 7, 8, bits(20, 0b01)),
            (used, 7, 8, bits(62, 0b01)),
            (used, 7, 1 << 40, bits(62, 0b11)),
            (used, i64::MIN, 0, bits(42, 0b01)),
            (impressions, 7, 8, bits(38, 0b01)),
        ];
        for (change, before, now, expected) in cases {
            let state = |to| {
                let mut state = State::default();
                change(&mut state, to);
                state
            };
            let (before, now) = (state(before), state(now));
            assert_eq!(mask(&before, &now), expected, "{before:?} to {now:?}");
            assert_eq!(mask(&now, &before), expected, "and back");
            assert_eq!(plan_mask(&before, &now), expected & bits(20, 0b11));
        }
        let codes = State { flags: crate::Flags::DEBT, top_refusals: 1, ..State::default() };
        assert_eq!(mask(&State::default(), &codes), bits(1, 1) | bits(35, 1));
        let bids = State { counted: Some(Counted::default()), ..State::default() };
        assert_eq!(mask(&State::default(), &bids), bits(36, 0b1111));
    }
}
