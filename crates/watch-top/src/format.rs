//! Figures as text. Amounts are whole numbers all the way; floats are only rates.

pub use admin_client::harmless;
use money::{Amount, Unit};
use ratatui::text::Span;

/// Decimals of a currency in a column; more are cut off downwards, so that no more is shown than there is.
const COLUMN_DECIMALS: usize = 2;
/// Stands for what is not known.
pub const NONE: &str = "–";

/// A whole number in groups of three.
#[must_use]
pub fn grouped(number: u64) -> String {
    group(&number.to_string())
}

fn group(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// An amount with all its decimals; base units where nobody knows the unit.
#[must_use]
pub fn exact(unit: Option<Unit>, amount: Amount) -> String {
    let text = unit.unwrap_or(Unit::Count).format(amount);
    let (sign, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, decimals) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    format!("{sign}{}{decimals}", group(whole))
}

/// An amount for a column: two decimals of a currency, rounded down (towards less). A count is followed by room for the
/// decimals of its neighbours, where `aligned` says that there are some.
#[must_use]
pub fn column(unit: Option<Unit>, amount: Amount, aligned: bool) -> String {
    match unit {
        Some(unit @ Unit::Currency(..)) => cents(unit, amount),
        _ if aligned => format!("{}   ", exact(unit, amount)),
        _ => exact(unit, amount),
    }
}

fn cents(unit: Unit, amount: Amount) -> String {
    let base_units = amount.get();
    let cent = 10_i64.pow(u32::try_from(unit.decimals() - COLUMN_DECIMALS).unwrap_or(0));
    let down = base_units.saturating_sub(base_units.rem_euclid(cent));
    // Only the lowest amount of all has no cent below it.
    exact(Some(unit), Amount::new(down))
}

/// Events per second.
#[must_use]
pub fn rate(per_s: f64) -> String {
    if !per_s.is_finite() || per_s < 0.0 {
        return NONE.to_owned();
    }
    match per_s {
        0.0 => "0".to_owned(),
        0.0..0.05 => "<0.1".to_owned(),
        0.05..9.95 => format!("{per_s:.1}"),
        9.95..1e9 => group(&format!("{per_s:.0}")),
        1e9..1e12 => format!("{:.2} G", per_s / 1e9),
        1e12..1e15 => format!("{:.2} T", per_s / 1e12),
        _ => ">999 T".to_owned(),
    }
}

/// A rate, or that it is not known.
#[must_use]
pub fn rate_or_none(per_s: Option<f64>) -> String {
    per_s.map_or_else(|| NONE.to_owned(), rate)
}

/// A count, or that it is not known.
#[must_use]
pub fn count_or_none(count: Option<u64>) -> String {
    count.map_or_else(|| NONE.to_owned(), grouped)
}

/// A short time with its unit.
#[must_use]
pub fn micros(us: Option<u64>) -> String {
    match us {
        None => NONE.to_owned(),
        Some(us @ 0..1_000) => format!("{us} µs"),
        Some(us @ 1_000..1_000_000) => {
            format!("{}.{:02} ms", us / 1_000, us % 1_000 / 10)
        }
        Some(us) => format!("{}.{:02} s", grouped(us / 1_000_000), us % 1_000_000 / 10_000),
    }
}

/// A long time in its two largest units.
#[must_use]
pub fn span_ms(ms: u64) -> String {
    let s = ms / 1_000;
    let (days, hours, minutes) = (s / 86_400, s / 3_600 % 24, s / 60 % 60);
    match s {
        0..60 => format!("{}.{} s", s, ms % 1_000 / 100),
        60..3_600 => format!("{minutes} min {:02} s", s % 60),
        3_600..86_400 => format!("{hours} h {minutes:02} min"),
        _ => format!("{} d {hours} h", grouped(days)),
    }
}

/// A size in memory or on disk.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 => format!("{} KiB", bytes >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes >> 20),
        _ => format!("{} GiB", grouped(bytes >> 30)),
    }
}

/// Millionths as whole percents.
#[must_use]
pub fn percent(ppm: u64) -> String {
    format!("{} %", grouped(ppm / 10_000))
}

/// A pace index (millionths, 1 = on plan) with two decimals, rounded down.
#[must_use]
pub fn index(ppm: i64) -> String {
    match ppm {
        ..0 => NONE.to_owned(),
        0..100_000_000 => format!("{}.{:02}", ppm / 1_000_000, ppm % 1_000_000 / 10_000),
        _ => ">99".to_owned(),
    }
}

/// The time of day of an instant, UTC, with milliseconds.
#[must_use]
pub fn clock(ms: u64) -> String {
    let (s, rest) = (ms / 1_000, ms % 1_000);
    format!("{:02}:{:02}:{:02}.{rest:03}", s / 3_600 % 24, s / 60 % 60, s % 60)
}

/// Date and time of an instant, UTC, by seconds.
#[must_use]
pub fn date(ms: u64) -> String {
    let text = money::Instant::from_ms(ms / 1_000 * 1_000).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

/// Columns of a terminal that a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    Span::raw(text).width()
}

/// A text in at most so many columns; what is cut off leaves an ellipsis. No wide character is cut in two.
#[must_use]
pub fn cut(text: &str, max: usize) -> String {
    if width(text) <= max {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut left = max.saturating_sub(1);
    for grapheme in Span::raw(text).styled_graphemes(ratatui::style::Style::new()) {
        let wide = width(grapheme.symbol);
        if wide > left {
            break;
        }
        left -= wide;
        kept.push_str(grapheme.symbol);
    }
    if max > 0 {
        kept.push('…');
    }
    kept
}

/// Figures as bars, in `rows` lines from top to bottom, the highest figure full; `None` for what is not known.
#[must_use]
pub fn bars(figures: &[Option<u64>], rows: usize) -> Vec<String> {
    const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let top = u128::from(figures.iter().flatten().copied().max().unwrap_or(0).max(1));
    let eighths = (rows * 8) as u128;
    let bar = |figure: u64, row: usize| {
        // Also nothing has a bar, a low one: it is known.
        let level = (u128::from(figure) * eighths).div_ceil(top).max(1);
        let below = ((rows - 1 - row) * 8) as u128;
        LEVELS[usize::try_from(level.saturating_sub(below)).unwrap_or(8).min(8)]
    };
    let line = |row| figures.iter().map(|figure| figure.map_or(' ', |f| bar(f, row))).collect();
    (0..rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usd() -> Option<Unit> {
        Unit::parse("USD").ok()
    }

    #[test]
    fn amounts_are_exact_or_rounded_down() {
        let table = [
            (0, "0.00", "0.00"),
            (1, "0.000001", "0.00"),
            (-1, "-0.000001", "-0.01"),
            (1_234_567_899_999, "1,234,567.899999", "1,234,567.89"),
            (-1_000_000_000, "-1,000.00", "-1,000.00"),
            (i64::MAX, "9,223,372,036,854.775807", "9,223,372,036,854.77"),
        ];
        for (base_units, whole, short) in table {
            let amount = Amount::new(base_units);
            assert_eq!(exact(usd(), amount), whole);
            assert_eq!(column(usd(), amount, true), short);
        }
    }

    #[test]
    fn counts_stand_below_the_whole_part_of_their_neighbours() {
        let amount = Amount::new(1_234_567);
        assert_eq!(column(Some(Unit::Count), amount, false), "1,234,567");
        assert_eq!(column(Some(Unit::Count), amount, true), "1,234,567   ");
        assert_eq!(column(None, amount, false), "1,234,567", "base units of an unknown unit");
    }

    #[test]
    fn rates_fit() {
        let table = [
            (0.0, "0"),
            (0.01, "<0.1"),
            (0.25, "0.2"),
            (9.94, "9.9"),
            (12.6, "13"),
            (1_284_031.2, "1,284,031"),
            (2.5e9, "2.50 G"),
            (1e300, ">999 T"),
            (f64::NAN, NONE),
            (-1.0, NONE),
        ];
        for (per_s, text) in table {
            assert_eq!(rate(per_s), text);
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(micros(Some(999)), "999 µs");
        assert_eq!(micros(Some(1_234)), "1.23 ms");
        assert_eq!(micros(Some(12_345_678)), "12.34 s");
        assert_eq!(span_ms(412), "0.4 s");
        assert_eq!(span_ms(61_000), "1 min 01 s");
        assert_eq!(span_ms(3 * 86_400_000 + 4 * 3_600_000), "3 d 4 h");
        assert_eq!(clock(1_767_225_600_512), "00:00:00.512");
        assert_eq!(date(1_767_225_600_512), "2026-01-01 00:00:00 UTC");
    }

    #[test]
    fn cuts_keep_wide_characters_whole() {
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("abc", 0), "");
        assert_eq!(harmless("a\u{202e}b\u{1b}[2Jc"), "ab[2Jc");
    }

    #[test]
    fn bars_are_relative_to_the_highest() {
        assert_eq!(bars(&[Some(0), None, Some(5), Some(10)], 1), ["▁ ▄█"]);
        assert_eq!(bars(&[Some(0), Some(0)], 1), ["▁▁"]);
        assert_eq!(bars(&[Some(1), Some(3), Some(4)], 2), [" ▄█", "▄██"]);
        assert_eq!(bars(&[Some(u64::MAX)], 1), ["█"]);
    }

    proptest! {
        #[test]
        fn exact_amounts_read_back(base_units in any::<i64>()) {
            for unit in [usd().unwrap(), Unit::Count] {
                let text = exact(Some(unit), Amount::new(base_units)).replace(',', "");
                prop_assert_eq!(unit.parse_amount(&text), Ok(Amount::new(base_units)));
            }
        }

        #[test]
        fn nothing_cut_is_too_wide(text in "\\PC{0,40}", max in 0_usize..20) {
            prop_assert!(width(&cut(&text, max)) <= max);
        }

        #[test]
        fn columns_never_show_more_than_there_is(base_units in -i64::MAX / 2..i64::MAX) {
            let unit = usd().unwrap();
            let shown = column(Some(unit), Amount::new(base_units), true).replace(',', "");
            let shown = unit.parse_amount(&shown).unwrap().get();
            prop_assert!(shown <= base_units && base_units - shown < 10_000);
        }
    }
}
