//! What was told of a budget or a file, as the memo that keeps it, and what is to be told next.

use ledger::{Amount, Period, WindowKind};
use weir_budgets::alerts::WHOLE;
use weir_node::bank::rows::SurveyRow;

/// First byte of a memo: how the rest is read.
const FORM: u8 = 1;
/// Bytes of a text in a memo.
const TEXT_BYTES_MAX: usize = 200;

/// What of a budget something is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Scope {
    /// Its limit.
    Limit,
    /// Its day, week or month.
    Window(Period),
    /// Money of holds of which nobody said what became of them.
    Expired,
}

impl Scope {
    pub(super) const ALL: [Scope; 5] = [
        Scope::Limit,
        Scope::Window(Period::Day),
        Scope::Window(Period::Week),
        Scope::Window(Period::Month),
        Scope::Expired,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Scope::Limit => "limit",
            Scope::Window(period) => period.name(),
            Scope::Expired => "expired",
        }
    }
}

/// A share of a limit that was used, or money that expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Crossing {
    /// The share, in ten-thousandths; [`WHOLE`] of expired money.
    pub(super) share: u16,
    /// The first instant after the window, ms: tells windows apart. 0: the budget's life.
    pub(super) end_ms: u64,
    /// When it was seen.
    pub(super) at_ms: u64,
    /// What was used by then, or had expired.
    pub(super) used: Amount,
    /// The limit by then.
    pub(super) limit: Amount,
    /// The receiver has it, or it was given up.
    pub(super) is_done: bool,
}

/// What was told of one budget, by place in [`Scope::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Told(pub(super) [Option<Crossing>; Scope::ALL.len()]);

impl Told {
    /// Returns what is to be told of a budget that alerts at these shares, after this; `None`: nothing new. The smallest share comes first.
    pub(super) fn next(&self, row: &SurveyRow, shares: &[u16], now_ms: u64) -> Option<Told> {
        let mut next = *self;
        for (told, scope) in next.0.iter_mut().zip(Scope::ALL) {
            if let Some(crossing) = look(*told, scope, row, shares, now_ms) {
                *told = Some(crossing);
            }
        }
        (next != *self).then_some(next)
    }

    /// Is nothing left to send?
    pub(super) fn is_done(&self) -> bool {
        self.0.iter().flatten().all(|crossing| crossing.is_done)
    }

    pub(super) fn to_bytes(self) -> Box<[u8]> {
        let mut bytes = vec![FORM];
        for (place, crossing) in (0u8..).zip(self.0) {
            let Some(Crossing { share, end_ms, at_ms, used, limit, is_done }) = crossing else {
                continue;
            };
            bytes.extend([place, u8::from(is_done)]);
            bytes.extend(share.to_le_bytes());
            for word in [end_ms, at_ms] {
                bytes.extend(word.to_le_bytes());
            }
            for amount in [used, limit] {
                bytes.extend(amount.get().to_le_bytes());
            }
        }
        bytes.into()
    }

    /// Reads a memo; `None`: a later version wrote it.
    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Told> {
        let (form, rest) = bytes.split_first()?;
        let (crossings, []) = rest.as_chunks::<36>() else { return None };
        let mut told = (*form == FORM).then(Told::default)?;
        for crossing in crossings {
            let word = |at: usize| crossing[at..at + 8].try_into().expect("eight bytes");
            let amount = |at: usize| Amount::new(i64::from_le_bytes(word(at)));
            *told.0.get_mut(usize::from(crossing[0]))? = Some(Crossing {
                is_done: crossing[1] != 0,
                share: u16::from_le_bytes([crossing[2], crossing[3]]),
                end_ms: u64::from_le_bytes(word(4)),
                at_ms: u64::from_le_bytes(word(12)),
                used: amount(20),
                limit: amount(28),
            });
        }
        Some(told)
    }
}

/// What is new of one scope, beside what was told of it.
fn look(
    told: Option<Crossing>,
    scope: Scope,
    row: &SurveyRow,
    shares: &[u16],
    now_ms: u64,
) -> Option<Crossing> {
    let (used, limit, end_ms) = match scope {
        Scope::Limit => (row.spent(), row.line.limit, 0),
        Scope::Window(period) => {
            let place = Period::ALL.iter().position(|one| *one == period)?;
            let (window, used) = row.windows[place].filter(|of| of.0.kind == WindowKind::Fixed)?;
            let spent = if period == Period::Day { row.day_spent } else { spent_of(row, used) };
            (spent, window.limit, row.window_ends_ms[place])
        }
        Scope::Expired => (row.line.expired, row.line.limit, row.day.end.ms()),
    };
    let share = match scope {
        Scope::Expired => WHOLE,
        _ => shares.iter().copied().filter(|share| reaches(used, limit, *share)).max()?,
    };
    let is_new = match (told, scope) {
        (None, Scope::Expired) => used > Amount::ZERO,
        // Once a day, and only of what came since.
        (Some(told), Scope::Expired) => used > told.used && told.end_ms != end_ms,
        (None, _) => true,
        // Of a larger limit each share is another amount.
        (Some(told), _) => told.end_ms != end_ms || share > told.share || limit > told.limit,
    };
    let at_ms = now_ms;
    is_new.then_some(Crossing { share, end_ms, at_ms, used, limit, is_done: false })
}

/// What of a week or month is spent: what was handed out and did not come back, less what workers and holds have now. What they had before it
/// began comes off, too, until it is spent.
fn spent_of(row: &SurveyRow, used: Amount) -> Amount {
    let out = [row.line.purses, row.line.held, row.line.expired];
    let out = out.iter().fold(row.suspended.get(), |sum, part| sum.saturating_add(part.get()));
    Amount::new(used.get().saturating_sub(out).max(0))
}

/// Is so much of a limit used? A limit of nothing has no shares.
fn reaches(used: Amount, limit: Amount, share: u16) -> bool {
    let of = |amount: Amount, parts: u16| i128::from(amount.get()) * i128::from(parts);
    limit > Amount::ZERO && of(used, WHOLE) >= of(limit, share)
}

/// A file that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedFile {
    /// When.
    pub(super) at_ms: u64,
    /// Its first error.
    pub(super) why: String,
    /// The receiver has it, or it was given up.
    pub(super) is_done: bool,
}

impl RefusedFile {
    pub(super) fn new(at_ms: u64, mut why: String) -> RefusedFile {
        why.truncate(why.floor_char_boundary(TEXT_BYTES_MAX));
        RefusedFile { at_ms, why, is_done: false }
    }

    pub(super) fn to_bytes(&self) -> Box<[u8]> {
        let mut bytes = vec![FORM, u8::from(self.is_done)];
        bytes.extend(self.at_ms.to_le_bytes());
        bytes.extend(self.why.as_bytes());
        bytes.into()
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<RefusedFile> {
        let (head, why) = bytes.split_first_chunk::<10>()?;
        let [FORM, is_done, at @ ..] = head else { return None };
        let why = String::from_utf8_lossy(why).into_owned();
        Some(RefusedFile { at_ms: u64::from_le_bytes(*at), why, is_done: *is_done != 0 })
    }
}

#[cfg(test)]
mod tests {
    use ledger::WindowLimit;

    use super::*;
    use crate::watching::tests::row;

    const SHARES: [u16; 2] = [5_000, 8_000];

    fn spent(limit: i64, settled: i64) -> SurveyRow {
        let mut row = row(7, limit);
        row.line.settled = Amount::new(settled);
        row
    }

    /// What is told of the limit, step by step: the share, or 0 where nothing is new.
    fn shares(steps: &[(i64, i64)]) -> Vec<u16> {
        let mut told = Told::default();
        let step =
            |(limit, settled): &(i64, i64)| match told.next(&spent(*limit, *settled), &SHARES, 9) {
                Some(next) => {
                    told = next;
                    next.0[0].unwrap().share
                }
                None => 0,
            };
        steps.iter().map(step).collect()
    }

    #[test]
    fn a_share_is_told_once_and_of_several_the_highest() {
        for (steps, expected) in [
            (
                &[(100, 49), (100, 50), (100, 79), (100, 80), (100, 300)][..],
                &[0, 5_000, 0, 8_000, 0][..],
            ),
            (&[(100, 90), (100, 100)], &[8_000, 0]),
            // A credit, and the same again.
            (&[(100, 80), (100, 40), (100, 80)], &[8_000, 0, 0]),
            // A larger limit is another amount; a smaller one that is passed already was told.
            (&[(100, 80), (200, 80), (200, 160)], &[8_000, 0, 8_000]),
            (&[(100, 80), (1_000, 490), (1_000, 500), (1_000, 800)], &[8_000, 0, 5_000, 8_000]),
            (&[(100, 80), (90, 85)], &[8_000, 0]),
            (&[(0, 0), (0, 5)], &[0, 0]),
            (&[(i64::MAX, i64::MAX)], &[8_000]),
        ] {
            assert_eq!(shares(steps), expected, "{steps:?}");
        }
    }

    /// How a budget stands of whose week so much was handed out, of this to purses and holds.
    fn week(kind: WindowKind, handed_out: i64, out: i64) -> SurveyRow {
        let mut row = spent(1_000, 0);
        let limit = WindowLimit { period: Period::Week, kind, limit: Amount::new(10) };
        row.windows[3] = Some((limit, Amount::new(handed_out)));
        (row.line.purses, row.line.held) = (Amount::new(out - out / 2), Amount::new(out / 2));
        row
    }

    #[test]
    fn what_is_with_workers_and_in_holds_is_not_spent_and_buckets_have_no_shares() {
        let next = |row: &SurveyRow| Told::default().next(row, &SHARES, 9);
        assert_eq!(next(&week(WindowKind::Fixed, 10, 6)), None);
        let told = next(&week(WindowKind::Fixed, 10, 5)).unwrap().0[2].unwrap();
        assert_eq!((told.share, told.used), (5_000, Amount::new(5)));
        assert_eq!(next(&week(WindowKind::Fixed, 3, 9)), None, "handed out before the week");
        assert_eq!(next(&week(WindowKind::Bucket, 10, 0)), None);
    }

    #[test]
    fn a_window_is_told_of_anew_when_the_next_one_has_begun() {
        let day = WindowLimit::fixed(Period::Day, Amount::new(10));
        let of = |used: i64, end_ms: u64| {
            let mut row = spent(1_000, 0);
            (row.windows[2], row.window_ends_ms[2]) = (Some((day, Amount::ZERO)), end_ms);
            row.day_spent = Amount::new(used);
            row
        };
        let first = Told::default().next(&of(8, 100), &SHARES, 9).unwrap();
        assert_eq!((first.0[0], first.0[1].unwrap().share), (None, 8_000));
        assert_eq!(first.next(&of(9, 100), &SHARES, 9), None);
        assert_eq!(first.next(&of(0, 200), &SHARES, 9), None);
        assert_eq!(first.next(&of(5, 200), &SHARES, 9).unwrap().0[1].unwrap().share, 5_000);
    }

    #[test]
    fn expired_money_is_told_once_a_day() {
        let of = |expired: i64, day_end: u64| {
            let mut row = spent(1_000, 0);
            row.line.expired = Amount::new(expired);
            row.day.end = money::Instant::from_ms(day_end);
            row
        };
        let first = Told::default().next(&of(3, 100), &[], 9).unwrap();
        assert_eq!(first.0[4].unwrap().used, Amount::new(3));
        assert_eq!(first.next(&of(5, 100), &[], 9), None, "the same day");
        assert_eq!(first.next(&of(3, 200), &[], 9), None, "nothing new");
        assert!(first.next(&of(5, 200), &[], 9).is_some());
        assert_eq!(Told::default().next(&of(0, 100), &[], 9), None);
    }

    #[test]
    fn memos_read_back_and_fit() {
        let crossing = Crossing {
            share: WHOLE,
            end_ms: u64::MAX,
            at_ms: 7,
            used: Amount::new(i64::MIN),
            limit: Amount::new(i64::MAX),
            is_done: true,
        };
        let told = Told([Some(crossing); 5]);
        let bytes = told.to_bytes();
        assert!(bytes.len() <= ledger::MEMO_BYTES_MAX);
        assert_eq!(Told::of_bytes(&bytes), Some(told));
        let one = Told([None, Some(Crossing { is_done: false, ..crossing }), None, None, None]);
        assert_eq!(Told::of_bytes(&one.to_bytes()), Some(one));
        assert_eq!([&[][..], &[2], &[FORM, 1]].map(Told::of_bytes), [None; 3]);
        let file = RefusedFile::new(9, "ä".repeat(500));
        assert!(
            file.to_bytes().len() <= ledger::MEMO_BYTES_MAX && file.why.len() == TEXT_BYTES_MAX
        );
        assert_eq!(RefusedFile::of_bytes(&file.to_bytes()), Some(file));
    }
}
