//! The questions of a run, drawn once before it: the hot loop only cycles through them.
//!
//! A row is one ask. Its *fate* (what would become of the hold, were it granted) is drawn here too, so that the scan of
//! an answer touches only the few rows that have one.

use crate::args::AmountRange;
use crate::random::{Random, Zipf};

/// Rows of a synthetic table at least: enough that no branch predictor learns the pattern by heart.
pub(crate) const ROWS_MIN: usize = 1 << 16;
/// Rows of a synthetic table at most: beyond it the table would crowd the caches of the machine.
pub(crate) const ROWS_MAX: usize = 1 << 17;

/// One ask as drawn, before it is encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    /// The request id of the first pass; later passes change it, see [`IdRule`].
    pub request_id: u64,
    /// Index of the budget in the run's list.
    pub budget: u32,
    /// At most this much is reserved, in micros.
    pub amount: i64,
    /// The user.
    pub user: u64,
    /// ISO 4217 letters padded with NUL; all NUL for the budget's own unit.
    pub unit: [u8; 4],
}

/// What the hammer does with a hold, if it gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Won: confirmed at once or not, then settled.
    Win {
        /// Confirm before the settle.
        confirm: bool,
        /// Settle this much, in micros.
        price: i64,
        /// How often and when the settle is sent again.
        repeat: Repeat,
        /// Wait until the hold has expired.
        late: bool,
    },
    /// Won and confirmed, but the billing notice is lost.
    Unbilled,
    /// Lost, and the loss notice comes: release.
    Lost,
}

/// Whether a settle is sent twice on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// Once.
    Never,
    /// The second follows the first in the same frame.
    SameFrame,
    /// The second follows the answer to the first.
    AfterAnswer,
}

/// A fated row of the table.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fated {
    /// Row number.
    pub row: u32,
    /// What happens to its hold.
    pub fate: Fate,
}

/// The shares that fates are drawn by; all 0.0..=1.0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shares {
    /// Of granted holds that win.
    pub win: f64,
    /// Of wins that are confirmed first.
    pub confirm: f64,
    /// Lowest price as a share of the hold.
    pub price: f64,
    /// Of loss notices that are lost.
    pub loss_notice_lost: f64,
    /// Of billing notices that are lost.
    pub win_notice_lost: f64,
    /// Of settles sent twice.
    pub repeat: f64,
    /// Of settles above their hold.
    pub over: f64,
    /// Of settles after their hold expired.
    pub late: f64,
}

/// How a pass over the table makes fresh request ids from the rows' ids, by one exclusive or.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdRule {
    /// Rows are numbered from 0: the pass number goes above them, all mixed with a salt. Never repeats.
    Sequential {
        /// From the seed.
        salt: u64,
    },
    /// Rows have hashes for ids: pass 0 keeps them, later passes change every bit.
    Hashed,
}

impl IdRule {
    /// What the ids of pass `pass` are changed by. Passes of different threads must not have equal numbers.
    #[must_use]
    pub(crate) const fn pass_xor(self, pass: u64) -> u64 {
        match self {
            Self::Sequential { salt } => salt ^ (pass << 20),
            Self::Hashed if pass == 0 => 0,
            Self::Hashed => table::spread(pass),
        }
    }
}

const _: () = assert!(ROWS_MAX <= 1 << 20, "sequential ids keep 20 bits for the row");

/// All rows of a run.
#[derive(Debug)]
pub(crate) struct AskTable {
    /// The asks, in sending order; at least one frame's worth.
    pub rows: Vec<Ask>,
    /// The rows that have a fate, ascending.
    pub fated: Vec<Fated>,
    /// For each row, the place in `fated` of the first fated row not before it.
    pub fated_from: Vec<u32>,
    /// How passes change ids.
    pub ids: IdRule,
}

/// What a synthetic table is drawn from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Draw {
    /// Number of budgets, at least 1.
    pub budgets: usize,
    /// Zipf exponent of their popularity.
    pub skew: f64,
    /// Range of amounts.
    pub amount: AmountRange,
    /// Distinct users.
    pub users: u64,
    /// Seed of everything.
    pub seed: u64,
}

impl AskTable {
    /// Draws a synthetic table: budgets by Zipf over a seeded shuffle of their order, amounts and users uniform.
    #[must_use]
    pub(crate) fn synthetic(draw: &Draw, shares: &Shares, batch: u16) -> Self {
        let mut random = Random::new(draw.seed, 1);
        let rank_to_budget = shuffled(draw.budgets, &mut random);
        let zipf = Zipf::new(draw.budgets, draw.skew);
        let wanted = draw.budgets.saturating_mul(2).next_power_of_two();
        let rows = (0..wanted.clamp(ROWS_MIN, ROWS_MAX))
            .map(|row| Ask {
                request_id: row as u64,
                budget: rank_to_budget[zipf.draw(&mut random)],
                amount: random.between(draw.amount.min, draw.amount.max),
                user: random.below(draw.users).saturating_add(1),
                unit: [0; 4],
            })
            .collect();
        let salt = table::spread(draw.seed ^ 0x7769_6572) & !((1 << 20) - 1);
        Self::with_fates(rows, shares, draw.seed, IdRule::Sequential { salt }, batch)
    }

    /// Makes a table of given asks (at least one), repeated in their order until it has [`ROWS_MIN`] rows; the ids
    /// of the repetitions differ.
    #[must_use]
    pub(crate) fn replay(asks: &[Ask], shares: &Shares, seed: u64, batch: u16) -> Self {
        let rounds = ROWS_MIN.div_ceil(asks.len().max(1));
        let mut rows = Vec::with_capacity(rounds * asks.len());
        for round in 0..rounds as u64 {
            // The upper half keeps these numbers apart from those of later passes.
            let change = if round == 0 { 0 } else { table::spread(round | 1 << 63) };
            rows.extend(
                asks.iter().map(|ask| Ask { request_id: ask.request_id ^ change, ..ask.clone() }),
            );
        }
        Self::with_fates(rows, shares, seed, IdRule::Hashed, batch)
    }

    fn with_fates(rows: Vec<Ask>, shares: &Shares, seed: u64, ids: IdRule, batch: u16) -> Self {
        let mut rows = rows;
        // One frame is one contiguous run of rows.
        let mut copy = 0;
        while !rows.is_empty() && rows.len() < usize::from(batch) {
            rows.push(rows[copy].clone());
            copy += 1;
        }
        let mut random = Random::new(seed, 2);
        let mut fated = Vec::new();
        let mut fated_from = Vec::with_capacity(rows.len() + 1);
        for (row, ask) in (0_u32..).zip(&rows) {
            fated_from.push(u32::try_from(fated.len()).unwrap_or(u32::MAX));
            if let Some(fate) = draw_fate(ask.amount, shares, &mut random) {
                fated.push(Fated { row, fate });
            }
        }
        fated_from.push(u32::try_from(fated.len()).unwrap_or(u32::MAX));
        Self { rows, fated, fated_from, ids }
    }

    /// The fated rows among `first..first + count`.
    #[inline]
    #[must_use]
    pub(crate) fn fates(&self, first: usize, count: usize) -> &[Fated] {
        let from = self.fated_from[first] as usize;
        let to = self.fated_from[first + count] as usize;
        &self.fated[from..to]
    }
}

fn shuffled(n: usize, random: &mut Random) -> Vec<u32> {
    let mut order: Vec<u32> = (0..u32::try_from(n).unwrap_or(u32::MAX)).collect();
    for i in (1..order.len()).rev() {
        let j = usize::try_from(random.below(i as u64 + 1)).unwrap_or(i);
        order.swap(i, j);
    }
    order
}

fn draw_fate(amount: i64, shares: &Shares, random: &mut Random) -> Option<Fate> {
    if !random.chance(shares.win) {
        return (!random.chance(shares.loss_notice_lost)).then_some(Fate::Lost);
    }
    if random.chance(shares.win_notice_lost) {
        return Some(Fate::Unbilled);
    }
    let kind = random.unit();
    let late = kind < shares.late;
    let over = !late && kind < shares.late + shares.over;
    let price = if over {
        amount.saturating_add(amount / 2 + 1)
    } else {
        random.between(lowest_price(amount, shares.price), amount)
    };
    let repeat = match (random.chance(shares.repeat), random.chance(0.5)) {
        (false, _) => Repeat::Never,
        (true, true) => Repeat::SameFrame,
        (true, false) => Repeat::AfterAnswer,
    };
    // A confirmed hold lives until the billing deadline: a late settle must come without confirm.
    let confirm = random.chance(shares.confirm) && !late;
    Some(Fate::Win { confirm, price, repeat, late })
}

/// `share` in millionths of the amount, at least 1 micro.
fn lowest_price(amount: i64, share: f64) -> i64 {
    #[expect(clippy::cast_possible_truncation, reason = "a share of 0.0..=1.0 gives 0..=1,000,000")]
    let millionths = (share * 1e6) as i64;
    let price = i128::from(amount) * i128::from(millionths) / 1_000_000;
    i64::try_from(price).unwrap_or(amount).clamp(1, amount.max(1))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::HashSet;

    pub(crate) const SHARES: Shares = Shares {
        win: 0.05,
        confirm: 0.5,
        price: 0.5,
        loss_notice_lost: 1.0,
        win_notice_lost: 0.0,
        repeat: 0.01,
        over: 0.0,
        late: 0.0,
    };

    fn draw() -> Draw {
        let amount = AmountRange { min: 500, max: 5_000 };
        Draw { budgets: 50, skew: 1.0, amount, users: 1_000, seed: 1 }
    }

    #[test]
    fn the_same_seed_draws_the_same_table() {
        let a = AskTable::synthetic(&draw(), &SHARES, 10);
        let b = AskTable::synthetic(&draw(), &SHARES, 10);
        assert_eq!(a.rows, b.rows);
        let other = AskTable::synthetic(&Draw { seed: 2, ..draw() }, &SHARES, 10);
        assert_ne!(a.rows, other.rows);
    }

    #[test]
    fn rows_stay_in_their_ranges() {
        let table = AskTable::synthetic(&draw(), &SHARES, 10);
        assert_eq!(table.rows.len(), ROWS_MIN);
        for row in &table.rows {
            assert!(row.budget < 50);
            assert!((500..=5_000).contains(&row.amount));
            assert!((1..=1_000).contains(&row.user));
        }
    }

    #[test]
    fn request_ids_never_repeat_within_passes() {
        let table = AskTable::synthetic(&draw(), &SHARES, 10);
        let mut seen = HashSet::new();
        for pass in 0..4 {
            let change = table.ids.pass_xor(pass);
            assert!(table.rows.iter().all(|row| seen.insert(row.request_id ^ change)), "{pass}");
        }
    }

    #[test]
    fn replayed_ids_are_the_hashes_first_and_differ_later() {
        let ask = |id| Ask { request_id: id, budget: 0, amount: 5, user: 1, unit: [0; 4] };
        let table = AskTable::replay(&[ask(77), ask(78)], &SHARES, 1, 10);
        assert_eq!(table.rows.len(), ROWS_MIN);
        assert_eq!((table.rows[0].request_id, table.rows[1].request_id), (77, 78));
        assert_eq!(table.ids.pass_xor(0), 0);
        let mut seen = HashSet::new();
        for pass in 0..3 {
            let change = table.ids.pass_xor(pass);
            assert!(table.rows.iter().all(|row| seen.insert(row.request_id ^ change)));
        }
    }

    #[test]
    fn fates_come_in_their_shares() {
        let table = AskTable::synthetic(&draw(), &SHARES, 10);
        let wins = table.fated.len();
        // 65,536 draws at 5 %: 3,277 expected, one standard deviation is 56.
        assert!((2_950..3_600).contains(&wins), "{wins}");
        let confirmed = table
            .fated
            .iter()
            .filter(|f| matches!(f.fate, Fate::Win { confirm: true, .. }))
            .count();
        assert!((wins * 2 / 5..wins * 3 / 5).contains(&confirmed), "{confirmed} of {wins}");
        let noisy = Shares { loss_notice_lost: 0.0, ..SHARES };
        let table = AskTable::synthetic(&draw(), &noisy, 10);
        assert_eq!(table.fated.len(), ROWS_MIN, "every hold has an end when every notice comes");
    }

    #[test]
    fn prices_stay_within_the_hold_unless_over_is_asked_for() {
        let all_win = Shares { win: 1.0, ..SHARES };
        let check = |shares: &Shares, ok: &dyn Fn(i64, i64) -> bool| {
            let table = AskTable::synthetic(&draw(), shares, 10);
            for fated in &table.fated {
                let Fate::Win { price, .. } = fated.fate else { panic!("all win") };
                assert!(ok(price, table.rows[fated.row as usize].amount), "{price}");
            }
        };
        check(&all_win, &|price, hold| price >= hold / 2 && price <= hold);
        check(&Shares { over: 1.0, ..all_win }, &|price, hold| price > hold);
        let late = AskTable::synthetic(&draw(), &Shares { late: 1.0, ..all_win }, 10);
        assert!(
            late.fated
                .iter()
                .all(|f| matches!(f.fate, Fate::Win { confirm: false, late: true, .. }))
        );
    }

    #[test]
    fn fates_of_a_range_are_those_between_its_ends() {
        let table = AskTable::synthetic(&draw(), &SHARES, 10);
        for first in [0, 17, 1_000, ROWS_MIN - 10] {
            let expected: Vec<u32> = table
                .fated
                .iter()
                .map(|f| f.row)
                .filter(|&row| (first..first + 10).contains(&(row as usize)))
                .collect();
            let found: Vec<u32> = table.fates(first, 10).iter().map(|f| f.row).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn many_budgets_get_a_larger_table() {
        let big = Draw { budgets: 50_000, ..draw() };
        assert_eq!(AskTable::synthetic(&big, &SHARES, 10).rows.len(), ROWS_MAX);
    }
}
