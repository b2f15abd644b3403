//! Budgets that bind orders: which orders, and how they count.

use serde_json::Value;

use crate::HammerError;

/// Prices are counted in this part of one, quantities in ones.
pub(super) const PRICE_UNITS: i128 = 10_000;
/// Amounts are counted in this part of one.
pub(super) const UNITS: i128 = 1_000_000_000;
/// BudgetLines of a budget in which nothing may be: no order here costs more than was held, none is unknown, and nothing is missed for long.
pub(super) const EMPTY: [&str; 3] = ["over_settled", "inferred", "unknown_order"];

/// What says which budgets bind an order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) account: String,
    pub(super) session: String,
    pub(super) symbol: String,
    pub(super) side: char,
}

/// A budget that binds orders.
#[derive(Debug, Default)]
pub(super) struct Budget {
    pub(super) id: String,
    is_count: bool,
    /// Of its binding; empty: any.
    pub(super) account: String,
    session: String,
    pub(super) symbol: String,
    sides: &'static str,
    /// Its lines before the run.
    pub(super) before: BudgetLines,
}

/// What the node has of a budget.
#[derive(Clone, Debug, Default)]
pub(super) struct BudgetLines {
    /// Its limit, what was executed in time and what of closed orders, what is held; and the sum of the lines that must stay empty.
    pub(super) limit: i128,
    pub(super) settled: i128,
    pub(super) late: i128,
    pub(super) held: i128,
    pub(super) empty: i128,
}

impl BudgetLines {
    /// By how much what was spent and is held exceeds the limit.
    pub(super) fn over(&self) -> i128 {
        self.settled + self.late + self.held + self.empty - self.limit
    }
}

/// Reads a decimal in parts of one; 0 of what is none.
pub(super) fn parts(value: &Value) -> i128 {
    let text = value.as_str().unwrap_or("0");
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    let (ones, rest) = text.split_once('.').unwrap_or((text, ""));
    let number = |text: &str| text.parse::<i128>().unwrap_or(0);
    sign * (number(ones) * UNITS + number(&format!("{rest:0<9}")[..9]))
}

/// Writes an amount.
pub(super) fn shown(amount: i128) -> String {
    let (sign, whole) = (if amount < 0 { "-" } else { "" }, amount.abs());
    let text = format!("{sign}{}.{:09}", whole / UNITS, whole % UNITS);
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').unwrap_or(text).to_owned()
}

impl Budget {
    /// Reads a budget of the node; `None` of one that binds no orders.
    pub(super) fn read(budget: &Value) -> Result<Option<Budget>, HammerError> {
        let binding = &budget["config"]["orders"];
        if !binding.is_object() {
            return Ok(None);
        }
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let id = text(&budget["id"]);
        if binding["firm"].is_string() {
            let what = format!(
                "budget {id} binds the orders of a firm, and the node does not say which sessions have it; bind sessions instead"
            );
            return Err(HammerError::Fix(what));
        }
        let sides = match binding["side"].as_str() {
            Some("buy") => "1",
            Some("sell") => "256",
            Some("short") => "56",
            _ => "1256",
        };
        Ok(Some(Budget {
            id,
            is_count: budget["unit"] == "count",
            account: text(&binding["account"]),
            session: text(&binding["session"]),
            symbol: text(&binding["symbol"]),
            sides,
            before: BudgetLines::default(),
        }))
    }

    pub(super) fn binds(&self, keys: &Keys) -> bool {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let ours = [&self.account, &self.session, &self.symbol];
        let theirs = [&keys.account, &keys.session, &keys.symbol];
        ours.into_iter().zip(theirs).all(|(ours, theirs)| fits(ours, theirs))
            && self.sides.contains(keys.side)
    }

    /// Returns what an executed or open quantity, that cost so many parts of a price, is in this budget.
    pub(super) fn amount(&self, (quantity, money): (i64, i128)) -> i128 {
        if self.is_count { i128::from(quantity) * UNITS } else { money * (UNITS / PRICE_UNITS) }
    }
}

pub(super) fn lines(budget: &Value) -> BudgetLines {
    let of = |name: &str| parts(&budget["lines"][name]);
    BudgetLines {
        limit: parts(&budget["limit"]),
        settled: of("settled"),
        late: of("late"),
        held: of("held"),
        empty: EMPTY.iter().map(|name| of(name)).sum(),
    }
}
