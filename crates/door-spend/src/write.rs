//! Pieces of JSON into a buffer: amounts, instants, tokens, texts. Nothing is allocated once the buffer is warm.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use money::{Amount, Unit};

/// Characters of a token's text.
pub(crate) const TOKEN_CHARS: usize = 43;
/// Decimals that a currency shows at least.
const DECIMALS_SHOWN: usize = 2;

pub(crate) fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// A whole number.
pub(crate) fn push_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    out.extend_from_slice(decimal(number, &mut digits, 1));
}

/// The digits of a number, at least `min` of them.
fn decimal(number: u64, digits: &mut [u8; 20], min: usize) -> &[u8] {
    let (mut from, mut rest) = (digits.len(), number);
    while rest > 0 || digits.len() - from < min {
        from -= 1;
        digits[from] = b"0123456789"[usize::try_from(rest % 10).unwrap_or(0)];
        rest /= 10;
    }
    &digits[from..]
}

/// The text that [`Unit::format`] gives.
pub(crate) fn push_amount(out: &mut Vec<u8>, unit: Unit, amount: Amount) {
    let (mut digits, decimals) = ([0; 20], unit.decimals());
    if amount.get() < 0 {
        out.push(b'-');
    }
    let all = decimal(amount.get().unsigned_abs(), &mut digits, decimals + 1);
    let (whole, parts) = all.split_at(all.len() - decimals);
    out.extend_from_slice(whole);
    if decimals > 0 {
        let end = parts.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        out.push(b'.');
        out.extend_from_slice(&parts[..end.max(DECIMALS_SHOWN)]);
    }
}

/// The instant as `2026-11-23T09:30:00.250Z` (RFC 3339), always with milliseconds.
pub(crate) fn push_instant(out: &mut Vec<u8>, ms: u64) {
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date_of(days);
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let parts = [
        (year, 4, b'-'),
        (month, 2, b'-'),
        (day, 2, b'T'),
        (hour, 2, b':'),
        (minute, 2, b':'),
        (of_day / 1_000 % 60, 2, b'.'),
        (of_day % 1_000, 3, b'Z'),
    ];
    for (number, width, then) in parts {
        let mut digits = [0; 20];
        out.extend_from_slice(decimal(number, &mut digits, width));
        out.push(then);
    }
}

/// Year, month and day of a number of days since 1970, by the calendar of 400 years that begins in March.
fn date_of(days: u64) -> (u64, u64, u64) {
    let shifted = days.saturating_add(719_468);
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// A token as text.
pub(crate) fn push_token(out: &mut Vec<u8>, token: &[u8; 32]) {
    let at = out.len();
    out.resize(at + TOKEN_CHARS, 0);
    // Exactly as many characters as 32 bytes take.
    let written = URL_SAFE_NO_PAD.encode_slice(token, &mut out[at..]);
    debug_assert_eq!(written, Ok(TOKEN_CHARS));
}

/// A text with quotes around it, and what JSON asks for inside of it.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..=0x1f => {
                let hex = |digit: u8| b"0123456789abcdef"[usize::from(digit & 15)];
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[hex(byte >> 4), hex(byte)]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use money::Instant;
    use proptest::prelude::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn instants_have_milliseconds() {
        let known = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_795_426_200_250, "2026-11-23T09:30:00.250Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        ];
        for (ms, text) in known {
            assert_eq!(written(|out| push_instant(out, ms)), text);
        }
    }

    proptest! {
        #[test]
        fn amounts_are_written_as_the_unit_writes_them(amount: i64, small in -20_000_000_i64..20_000_000) {
            for unit in ["USD", "JPY", "count"].map(|unit| Unit::parse(unit).unwrap()) {
                for amount in [amount, small].map(Amount::new) {
                    prop_assert_eq!(written(|out| push_amount(out, unit, amount)), unit.format(amount));
                }
            }
        }

        #[test]
        fn instants_are_those_of_the_calendar(ms in 0..253_402_041_600_000_u64) {
            let text = written(|out| push_instant(out, ms));
            prop_assert_eq!(Instant::parse(&text).unwrap(), Instant::from_ms(ms));
        }

        #[test]
        fn texts_and_tokens_are_read_back(text in ".{0,20}", token: [u8; 32], number: u64) {
            let json = written(|out| push_text(out, &text));
            prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
            let known = written(|out| push_token(out, &token));
            prop_assert_eq!(URL_SAFE_NO_PAD.decode(&known).unwrap(), token);
            prop_assert_eq!(written(|out| push_number(out, number)), number.to_string());
        }
    }
}
