//! Which orders a budget limits: `"orders": {"account", "session", "firm", "symbol", "side"}` of its line, or in a table
//! `account=A1;side=buy`; and the index that finds the budgets of an order.
//!
//! A binding names the values that an order must have, all of them; what it leaves out may be anything. An order is held in every budget
//! whose binding it fits.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use gate_orders::{LEGS_MAX, Leg};
use ledger::Status;
use ledger::spec::LEVELS_MAX;
use money::Unit;
use serde_json::{Map, Value};
use weir_config::config::Config;

use crate::budgets::{Budget, LineError};
use crate::campaigns::fields::{shown, text, word};

/// The keys of a binding: texts, in the order of its values, and the side.
pub(crate) const KEYS: [&str; TEXTS + 1] = ["account", "session", "firm", "symbol", "side"];
/// How many of them are texts.
const TEXTS: usize = 4;
/// Longest text of a binding, bytes.
const TEXT_BYTES_MAX: usize = 64;

/// The side of the orders that a budget binds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Side {
    /// All of them.
    #[default]
    Any,
    /// Side (54) 1.
    Buy,
    /// Sales, short ones too: 2, 5 and 6.
    Sell,
    /// Short sales alone, exempt ones too: 5 and 6.
    Short,
}

impl Side {
    const ALL: [(&str, Side); 4] =
        [("any", Side::Any), ("buy", Side::Buy), ("sell", Side::Sell), ("short", Side::Short)];

    /// Returns the side of an order by its Side (54); `None` of crosses and all else that is neither a purchase nor a sale.
    #[must_use]
    pub fn of_order(side: &[u8]) -> Option<Side> {
        match side {
            b"1" => Some(Side::Buy),
            b"2" => Some(Side::Sell),
            b"5" | b"6" => Some(Side::Short),
            _ => None,
        }
    }

    /// Reports whether orders of another side are among those of this one.
    fn has(self, order: Side) -> bool {
        self == Side::Any || self == order || (self, order) == (Side::Sell, Side::Short)
    }
}

/// The orders that a budget binds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binding {
    /// By place in [`KEYS`]; `None`: whatever the order has.
    values: [Option<Box<str>>; TEXTS],
    side: Side,
}

/// Reads a binding, in either form.
///
/// # Errors
/// Everything that is wrong, with what was found and what was expected.
pub(crate) fn read(value: &Value) -> Result<Binding, String> {
    let (mut binding, mut is_empty, mut faults) = (Binding::default(), true, Vec::new());
    for (name, value) in named(value)?.iter().filter(|(_, value)| !value.is_null()) {
        is_empty = false;
        let read = match KEYS.iter().position(|key| key == name) {
            Some(TEXTS) => word(value, &Side::ALL).map(|side| binding.side = side),
            Some(place) => {
                text(value, "1 to 64 characters of ASCII, without control characters", |text| {
                    let is_sound = (1..=TEXT_BYTES_MAX).contains(&text.len())
                        && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
                    is_sound.then(|| binding.values[place] = Some(text.into()))
                })
            }
            None => Err(format!("there is no such key; known are {}", KEYS.join(", "))),
        };
        faults.extend(read.err().map(|fault| format!("{name}: {fault}")));
    }
    if is_empty {
        let all = KEYS.join(", ");
        faults.push(format!(
            "found nothing in it, expected at least one of {all}; {{\"side\":\"any\"}} binds every order"
        ));
    }
    if faults.is_empty() { Ok(binding) } else { Err(faults.join("; ")) }
}

/// The keys with their values, as an object or in a table has them.
fn named(value: &Value) -> Result<Map<String, Value>, String> {
    let expected = || {
        let found = shown(value);
        format!(
            "found {found}, expected an object such as {{\"account\":\"A1\",\"side\":\"buy\"}}, or in a table account=A1;side=buy"
        )
    };
    let fields = match value {
        Value::Object(fields) => return Ok(fields.clone()),
        Value::String(fields) => fields,
        _ => return Err(expected()),
    };
    let mut read = Map::new();
    for part in fields.split(';').filter(|part| !part.trim().is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(expected)?;
        let name = name.trim();
        if read.insert(name.into(), value.trim().into()).is_some() {
            return Err(format!("found {} twice, expected it once", shown(&name.into())));
        }
    }
    Ok(read)
}

/// Reports whether two values say the same of orders; `null` says that the budget binds none.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    let of = |value: &Value| if value.is_null() { Ok(None) } else { read(value).map(Some) };
    of(a).is_ok_and(|a| of(b) == Ok(a))
}

/// The sessions that may send orders, with the firm of each; empty: none.
#[derive(Clone, Debug, Default)]
pub struct OrderTerms(HashMap<String, String>);

impl OrderTerms {
    /// Returns those of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> OrderTerms {
        let all = config.arrays.fix_session.iter();
        OrderTerms(all.map(|one| (one.name().to_owned(), one.firm.clone())).collect())
    }

    /// Returns what is wrong with a binding: a budget whose orders nobody can send limits nothing.
    #[must_use]
    pub fn faults(&self, binding: &Binding) -> Vec<String> {
        let [_, session, firm, _] = &binding.values;
        let mut faults = Vec::new();
        let own = session.as_ref().map(|session| self.0.get(&**session));
        if let (Some(session), Some(None)) = (session, own) {
            let known = known(self.0.keys());
            faults.push(format!(
                "orders.session: found {session:?}, expected the name of a fix.session; {known}"
            ));
        }
        let Some(firm) = firm else { return faults };
        match own.flatten() {
            _ if !self.0.values().any(|of| **of == **firm) => {
                let known = known(self.0.values().filter(|firm| !firm.is_empty()));
                faults.push(format!(
                    "orders.firm: found {firm:?}, expected the key firm of a fix.session; {known}"
                ));
            }
            Some(own) if **own != **firm => {
                faults.push(format!("orders.firm: found {firm:?}, expected {own:?}, the firm of that session: no order fits both"));
            }
            _ => {}
        }
        faults
    }
}

fn known<'n>(names: impl Iterator<Item = &'n String>) -> String {
    const SHOWN_MAX: usize = 8;
    let mut names: Vec<&str> = names.map(String::as_str).collect();
    names.sort_unstable();
    names.dedup();
    match names.get(..SHOWN_MAX) {
        Some(first) if names.len() > SHOWN_MAX => format!("known here: {}, ...", first.join(", ")),
        _ if names.is_empty() => "none is configured".into(),
        _ => format!("known here: {}", names.join(", ")),
    }
}

/// Adds what the bindings of a file say that no session can fit to what else is wrong with it.
///
/// # Errors
/// All of it, with its lines.
pub fn checked<T>(
    path: &Path,
    terms: &OrderTerms,
    budgets: &[&Budget],
    other: Result<T, Vec<LineError>>,
) -> Result<T, Vec<LineError>> {
    let bound = budgets.iter().filter_map(|budget| Some((budget.line, budget.orders.as_ref()?)));
    let faults = bound.flat_map(|(line, binding)| {
        terms.faults(binding).into_iter().map(move |text| (line, text))
    });
    let mut errors: Vec<LineError> = faults
        .map(|(line, text)| LineError { file: path.display().to_string(), line, text })
        .collect();
    match other {
        Ok(read) if errors.is_empty() => Ok(read),
        Ok(_) => Err(errors),
        Err(others) => {
            errors.extend(others);
            errors.sort_by_key(|error| error.line);
            Err(errors)
        }
    }
}

/// Warns of more budgets than an order can have that could all bind one: such an order is refused.
#[must_use]
pub fn crowded(budgets: &[Budget], file: &str) -> Option<LineError> {
    let index = OrderIndex::of(budgets.iter().filter_map(|budget| {
        let is_live = budget.spec.status != Status::Ended;
        Some((budget.orders.as_deref()?, budget.spec.id, budget.spec.unit)).filter(|_| is_live)
    }));
    // Of each shape an order fits one set: the largest are the worst case.
    let mut largest: HashMap<[u32; 5], &Vec<Leg>> = HashMap::new();
    for (key, legs) in &index.legs {
        let set = largest.entry(shape_of(*key)).or_insert(legs);
        let size = |set: &[Leg]| (set.len(), Reverse(set[0].budget));
        if size(legs) > size(set) {
            *set = legs;
        }
    }
    let worst = |order: Side| {
        let sets = largest.iter().filter(|(shape, _)| side_of(**shape).has(order));
        let mut ids: Vec<u64> =
            sets.flat_map(|(_, legs)| legs.iter().map(|leg| leg.budget)).collect();
        ids.sort_unstable();
        ids
    };
    let ids = [Side::Buy, Side::Sell, Side::Short].map(worst).into_iter().max_by_key(Vec::len)?;
    let first = budgets.iter().find(|budget| ids.len() > LEGS_MAX && ids[0] == budget.spec.id)?;
    let shown: Vec<String> = ids.iter().take(LEGS_MAX + 1).map(u64::to_string).collect();
    let text = format!(
        "budget {}: one order could fit the bindings of {} budgets ({}), and one that fits more than {LEGS_MAX} is refused; let fewer \
         budgets bind the same orders",
        ids[0],
        ids.len(),
        shown.join(", ")
    );
    Some(LineError { file: file.to_owned(), line: first.line, text })
}

/// What an order has that bindings name.
#[derive(Clone, Copy, Debug)]
pub struct OrderKeys<'o> {
    /// Account (1); empty: none.
    pub account: &'o [u8],
    /// The name of its session.
    pub session: &'o [u8],
    /// The firm of its session; empty: none.
    pub firm: &'o [u8],
    /// Symbol (55).
    pub symbol: &'o [u8],
    /// See [`Side::of_order`]; never [`Side::Any`].
    pub side: Side,
}

/// Why an order has no legs, and is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unbound {
    /// Nothing limits it.
    #[error("no budget")]
    NoBudget,
    /// It fits more budgets than it can hold in.
    #[error("{0} budgets bind the order, at most {LEGS_MAX} can")]
    TooMany(usize),
}

/// The budgets of orders by what they bind. Immutable: each configuration has its own.
///
/// Bindings that name the same keys have one shape. An order is looked up once for each shape that there is, at most 64, however many
/// budgets have it.
#[derive(Debug, Default)]
pub struct OrderIndex {
    /// Numbers of the texts, from 1; 0 is none.
    texts: [HashMap<Box<[u8]>, u32>; TEXTS],
    /// All ones where bindings of the shape name a text; the side's place in [`Side::ALL`].
    shapes: Vec<[u32; 5]>,
    /// By the numbers of the texts and the side.
    legs: HashMap<[u32; 5], Vec<Leg>>,
    /// Bound budgets above bound ones. What is held in a budget is held in those above it, so an order names only the lowest.
    above: HashMap<u64, Vec<u64>>,
}

fn shape_of(key: [u32; 5]) -> [u32; 5] {
    let [texts @ .., side] = key;
    let [a, b, c, d] = texts.map(|text| if text == 0 { 0 } else { u32::MAX });
    [a, b, c, d, side]
}

fn side_of(shape: [u32; 5]) -> Side {
    Side::ALL[shape[4] as usize].1
}

impl OrderIndex {
    /// Returns the index of these bindings, each with its budget.
    pub fn of<'b>(bound: impl IntoIterator<Item = (&'b Binding, u64, Unit)>) -> OrderIndex {
        let mut index = OrderIndex::default();
        for (binding, budget, unit) in bound {
            let mut key = [0; 5];
            for ((number, texts), value) in
                key.iter_mut().zip(&mut index.texts).zip(&binding.values)
            {
                let Some(value) = value else { continue };
                let next = u32::try_from(texts.len() + 1).unwrap_or(u32::MAX);
                *number = *texts.entry(value.as_bytes().into()).or_insert(next);
            }
            key[4] = binding.side as u32;
            let shape = shape_of(key);
            if !index.shapes.contains(&shape) {
                index.shapes.push(shape);
            }
            index.legs.entry(key).or_default().push(Leg { budget, unit });
        }
        index
    }

    /// Puts the budgets that bind an order in `legs`, in the order of their ids.
    ///
    /// # Errors
    /// Why the order is refused; `legs` is empty then.
    pub fn bind(&self, order: &OrderKeys<'_>, legs: &mut Vec<Leg>) -> Result<(), Unbound> {
        legs.clear();
        let OrderKeys { account, session, firm, symbol, side } = *order;
        let mut numbers = [0; TEXTS];
        for ((number, texts), text) in
            numbers.iter_mut().zip(&self.texts).zip([account, session, firm, symbol])
        {
            *number = texts.get(text).copied().unwrap_or(0);
        }
        let [a, b, c, d] = numbers;
        for shape in self.shapes.iter().filter(|shape| side_of(**shape).has(side)) {
            let key = [a & shape[0], b & shape[1], c & shape[2], d & shape[3], shape[4]];
            // A text that no binding names has no number: it would be taken for one that is not asked for.
            if shape_of(key) == *shape {
                legs.extend(self.legs.get(&key).into_iter().flatten());
            }
        }
        let above = legs.iter().filter_map(|leg| self.above.get(&leg.budget));
        let above: Vec<u64> = above.flatten().copied().collect();
        legs.retain(|leg| !above.contains(&leg.budget));
        let found = legs.len();
        if (1..=LEGS_MAX).contains(&found) {
            legs.sort_unstable_by_key(|leg| leg.budget);
            return Ok(());
        }
        legs.clear();
        Err(if found == 0 { Unbound::NoBudget } else { Unbound::TooMany(found) })
    }
}

/// The bindings in force, with their index, which is made anew where they change.
#[derive(Debug, Default)]
pub struct Bindings {
    bound: HashMap<u64, (Arc<Binding>, Unit)>,
    index: Arc<OrderIndex>,
}

impl Bindings {
    /// Returns the index of those in force.
    #[must_use]
    pub fn index(&self) -> &Arc<OrderIndex> {
        &self.index
    }

    /// Takes over what these budgets bind, and no others; ended ones bind nothing. `parent` tells which budget is above one.
    pub fn replace(&mut self, budgets: &[Budget], parent: impl Fn(u64) -> Option<u64>) {
        let bound = budgets.iter().filter_map(|budget| Some((budget.spec.id, bound(budget)?)));
        let bound = bound.collect();
        if self.bound != bound {
            self.bound = bound;
            self.make_index(parent);
        }
    }

    /// Takes over what some budgets bind, and reports whether that is another than before.
    pub fn amend(&mut self, budgets: &[Budget], parent: impl Fn(u64) -> Option<u64>) -> bool {
        let mut is_changed = false;
        for budget in budgets {
            let (id, now) = (budget.spec.id, bound(budget));
            is_changed |= self.bound.get(&id) != now.as_ref();
            match now {
                Some(now) => drop(self.bound.insert(id, now)),
                None => drop(self.bound.remove(&id)),
            }
        }
        if is_changed {
            self.make_index(parent);
        }
        is_changed
    }

    fn make_index(&mut self, parent: impl Fn(u64) -> Option<u64>) {
        let all = self.bound.iter().map(|(id, (orders, unit))| (&**orders, *id, *unit));
        let mut index = OrderIndex::of(all);
        index.above.extend(self.bound.keys().filter_map(|id| {
            let above = std::iter::successors(parent(*id), |id| parent(*id)).take(LEVELS_MAX);
            let above: Vec<u64> = above.filter(|id| self.bound.contains_key(id)).collect();
            (!above.is_empty()).then_some((*id, above))
        }));
        self.index = Arc::new(index);
    }
}

fn bound(budget: &Budget) -> Option<(Arc<Binding>, Unit)> {
    let orders = budget.orders.clone().filter(|_| budget.spec.status != Status::Ended);
    Some((orders?, budget.spec.unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn of(value: &Value) -> Binding {
        read(value).unwrap()
    }

    #[test]
    fn a_table_says_the_same_as_an_object() {
        let all = json!({"account": "A1", "session": "desk", "firm": "F", "symbol": "BRK.B", "side": "sell"});
        let table = json!("account=A1; session=desk;firm = F;symbol=BRK.B;side=sell;");
        assert!(same(&all, &table) && !same(&all, &json!({"account": "A1"})));
        assert!(same(&json!({"side": "any", "firm": null}), &json!("side=any")));
        assert!(same(&Value::Null, &Value::Null) && !same(&Value::Null, &json!("side=any")));
        let sound = "1 to 64 characters of ASCII, without control characters";
        for (wrong, told) in [
            (
                json!({}),
                "found nothing in it, expected at least one of account, session, firm, symbol, side; {\"side\":\"any\"} binds",
            ),
            (json!({"account": null}), "found nothing in it"),
            (json!(""), "found nothing in it"),
            (json!({"account": ""}), &*format!("account: found \"\", expected {sound}")),
            (json!({"account": "\u{e9}"}), "account: found \"\u{e9}\""),
            (json!({"symbol": "a\u{1}b"}), "symbol: found \"a\\u0001b\""),
            (json!({"symbol": "x".repeat(65)}), "symbol: found \"xxx"),
            (
                json!({"side": "long", "firm": 7}),
                "firm: found 7, expected 1 to 64 characters of ASCII, without control characters; side: found \"long\", expected \"any\", \"buy\", \"sell\" or \"short\"",
            ),
            (
                json!({"colour": "red"}),
                "colour: there is no such key; known are account, session, firm, symbol, side",
            ),
            (json!("account=A;account=B"), "found \"account\" twice"),
            (json!("account"), "found \"account\", expected an object such as"),
            (json!(["A"]), "found [\"A\"], expected an object such as"),
        ] {
            let error = read(&wrong).unwrap_err();
            assert!(error.starts_with(told), "{wrong}: {error}");
        }
    }

    #[test]
    fn what_no_session_can_fit_is_told() {
        let sessions = [("desk", "F"), ("algo", "G"), ("free", "")];
        let terms = OrderTerms(sessions.map(|(name, firm)| (name.into(), firm.into())).into());
        for (binding, told) in [
            (json!({"session": "desk", "firm": "F", "account": "any"}), &[][..]),
            (json!({"symbol": "X"}), &[]),
            (
                json!({"session": "desc"}),
                &[
                    "orders.session: found \"desc\", expected the name of a fix.session; known here: algo, desk, free",
                ],
            ),
            (
                json!({"session": "x", "firm": "H"}),
                &[
                    "orders.session: found \"x\"",
                    "orders.firm: found \"H\", expected the key firm of a fix.session; known here: F, G",
                ],
            ),
            (
                json!({"session": "desk", "firm": "G"}),
                &["orders.firm: found \"G\", expected \"F\", the firm of that session"],
            ),
            (
                json!({"session": "free", "firm": "F"}),
                &["orders.firm: found \"F\", expected \"\", the firm of that session"],
            ),
        ] {
            let faults = terms.faults(&of(&binding));
            assert_eq!(faults.len(), told.len(), "{faults:?}");
            assert!(
                faults.iter().zip(told).all(|(fault, told)| fault.starts_with(told)),
                "{faults:?}"
            );
        }
        let none = OrderTerms::default().faults(&of(&json!({"firm": "F"})));
        assert!(none[0].ends_with("none is configured"), "{none:?}");
    }

    fn budgets(bindings: &[Value]) -> Vec<Budget> {
        let line = |(id, orders): (usize, &Value)| {
            format!("{}\n", json!({"id": id, "limit": "1", "orders": orders}))
        };
        let text: String = bindings.iter().enumerate().map(line).collect();
        let file = crate::budgets::file_of("b.jsonl".as_ref(), text.as_bytes()).unwrap();
        file.lines.into_iter().map(|line| line.budget).collect()
    }

    #[test]
    fn more_budgets_than_an_order_can_have_are_warned_of_and_its_order_is_refused() {
        let mut all = vec![json!({"account": "A"}); 5];
        all.extend(vec![json!({"symbol": "X", "side": "sell"}); 3]);
        all.extend([
            json!({"symbol": "X", "side": "buy"}),
            json!({"account": "B", "side": "short"}),
        ]);
        let order =
            |account, side| OrderKeys { account, session: b"s", firm: b"", symbol: b"X", side };
        let found = |all: &[Budget], keys: &OrderKeys<'_>| {
            let (mut bindings, mut legs) = (Bindings::default(), Vec::new());
            bindings.replace(all, |_| None);
            let found = bindings.index().bind(keys, &mut legs);
            (found, legs.iter().map(|leg| leg.budget).collect::<Vec<_>>())
        };
        let mut read = budgets(&all);
        assert_eq!(found(&read, &order(b"A", Side::Short)), (Ok(()), (0..8).collect()));
        assert_eq!(found(&read, &order(b"A", Side::Buy)), (Ok(()), vec![0, 1, 2, 3, 4, 8]));
        assert_eq!(found(&read, &order(b"C", Side::Buy)), (Ok(()), vec![8]));
        let other = OrderKeys { symbol: b"Y", ..order(b"C", Side::Buy) };
        assert_eq!(found(&read, &other), (Err(Unbound::NoBudget), vec![]));
        // An order of account A and one of account B are two.
        let told = crowded(&read, "b.jsonl").map(|told| told.to_string()).unwrap();
        assert!(told.starts_with("b.jsonl:1: budget 0: one order could fit the bindings of 9 budgets (0, 1, 2, 3, 4, 5, 6, 7, 9)"), "{told}");
        read[9].spec.status = Status::Ended;
        assert_eq!(crowded(&read, "b.jsonl"), None);
        all.push(json!("side=any"));
        let read = budgets(&all);
        assert_eq!(found(&read, &order(b"A", Side::Sell)), (Err(Unbound::TooMany(9)), vec![]));
    }

    #[test]
    fn a_changed_binding_makes_another_index_and_nothing_else_does() {
        let (mut bindings, mut all) =
            (Bindings::default(), budgets(&[json!("account=A"), json!("side=buy"), Value::Null]));
        bindings.replace(&all, |_| None);
        let first = Arc::clone(bindings.index());
        bindings.replace(&all, |_| None);
        all[0].spec.limit = ledger::Amount::new(7);
        assert!(!bindings.amend(&all, |_| None) && Arc::ptr_eq(&first, bindings.index()));
        all[0].orders = None;
        all[2].orders = Some(Arc::new(of(&json!("symbol=X"))));
        assert!(bindings.amend(&all[..1], |_| None) && bindings.amend(&all[2..], |_| None));
        let mut legs = Vec::new();
        let order =
            OrderKeys { account: b"A", session: b"", firm: b"", symbol: b"X", side: Side::Buy };
        bindings.index().bind(&order, &mut legs).unwrap();
        assert_eq!(legs.iter().map(|leg| leg.budget).collect::<Vec<_>>(), [1, 2]);
        first.bind(&order, &mut legs).unwrap();
        assert_eq!(
            legs.iter().map(|leg| leg.budget).collect::<Vec<_>>(),
            [0, 1],
            "who has it keeps it"
        );
        all[1].spec.status = Status::Ended;
        bindings.replace(&all[..2], |_| None);
        assert_eq!(bindings.index().bind(&order, &mut legs), Err(Unbound::NoBudget));
    }

    /// 3 is below 2, which binds nothing, below 1, below 0; 4 is beside them.
    #[test]
    fn an_order_is_held_in_the_lowest_of_its_budgets_and_so_once_in_those_above() {
        let all = ["account=A", "side=buy", "", "symbol=X", "firm=F"];
        let all = budgets(&all.map(|text| if text.is_empty() { Value::Null } else { json!(text) }));
        let parent = |id: u64| id.checked_sub(1).filter(|_| id < 4);
        let mut bindings = Bindings::default();
        bindings.replace(&all, parent);
        let mut legs = Vec::new();
        let order = |account, firm, symbol| OrderKeys {
            account,
            session: b"s",
            firm,
            symbol,
            side: Side::Buy,
        };
        for (order, expected) in [
            (order(b"A", b"F", b"X"), vec![3, 4]),
            (order(b"A", b"", b"X"), vec![3]),
            (order(b"A", b"F", b"Y"), vec![1, 4]),
            (OrderKeys { side: Side::Sell, ..order(b"A", b"", b"Y") }, vec![0]),
        ] {
            bindings.index().bind(&order, &mut legs).unwrap();
            let found: Vec<u64> = legs.iter().map(|leg| leg.budget).collect();
            assert_eq!(found, expected, "{order:?}");
        }
        assert!(bindings.amend(&budgets(&[Value::Null]), parent), "it binds nothing any more");
        assert_eq!(bindings.index().above[&3], [1]);
    }

    fn side() -> impl Strategy<Value = Side> {
        prop::sample::select(&Side::ALL[..]).prop_map(|(_, side)| side)
    }

    /// What a binding is, said without an index.
    fn fits(binding: &Binding, order: &OrderKeys<'_>) -> bool {
        let texts = [order.account, order.session, order.firm, order.symbol];
        let side = match binding.side {
            Side::Any => true,
            Side::Buy => order.side == Side::Buy,
            Side::Sell => matches!(order.side, Side::Sell | Side::Short),
            Side::Short => order.side == Side::Short,
        };
        let mut pairs = binding.values.iter().zip(texts);
        side && pairs
            .all(|(value, text)| value.as_ref().is_none_or(|value| value.as_bytes() == text))
    }

    proptest! {
        #[test]
        fn an_order_has_the_budgets_whose_bindings_it_fits(
            bindings in prop::collection::vec((prop::array::uniform4(prop::option::weighted(0.4, "[abc]")), side()), 0..40),
            orders in prop::collection::vec((prop::array::uniform4("[abcd]?"), side()), 1..20),
        ) {
            let bindings: Vec<Binding> = bindings.into_iter()
                .map(|(values, side)| Binding { values: values.map(|value| value.map(Into::into)), side })
                .collect();
            let usd = Unit::parse("USD").unwrap();
            let index = OrderIndex::of((0..).zip(&bindings).map(|(id, binding)| (binding, id, usd)));
            let mut legs = Vec::new();
            for (texts, side) in orders.iter().filter(|(_, side)| *side != Side::Any) {
                let [account, session, firm, symbol] = texts.each_ref().map(String::as_bytes);
                let order = OrderKeys { account, session, firm, symbol, side: *side };
                let expected: Vec<u64> =
                    (0..).zip(&bindings).filter(|(_, one)| fits(one, &order)).map(|(id, _)| id).collect();
                let found = index.bind(&order, &mut legs);
                match expected.len() {
                    0 => prop_assert_eq!(found, Err(Unbound::NoBudget)),
                    more @ 9.. => prop_assert_eq!(found, Err(Unbound::TooMany(more))),
                    _ => {
                        prop_assert_eq!(found, Ok(()));
                        prop_assert_eq!(legs.iter().map(|leg| leg.budget).collect::<Vec<_>>(), expected);
                    }
                }
            }
        }
    }
}
