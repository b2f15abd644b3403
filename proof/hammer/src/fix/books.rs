//! The node's books of orders, and how they are compared with the venue's.

use std::collections::BTreeSet;

use admin_client::{Client, encode};
use serde_json::Value;

use super::budgets::{Budget, BudgetLines, EMPTY, UNITS, lines, parts, shown};
use super::venue::{Order, Venue};
use crate::HammerError;

/// The node's admin door.
#[derive(Clone)]
pub(super) struct Node(pub(super) Client);

impl Node {
    pub(super) fn get(&self, path: &str) -> Result<Value, HammerError> {
        self.0.get(path).map_err(|error| HammerError::Fix(error.to_string()))
    }

    /// Reads all budgets that bind orders, as they are before the run.
    pub(super) fn budgets(&self) -> Result<Vec<Budget>, HammerError> {
        let mut found = Vec::new();
        self.pages("/v1/budgets?max=1000", "budgets", |row| {
            let id = row["id"].as_str().unwrap_or("");
            let whole = self.get(&format!("/v1/budgets/{}", encode(id)))?;
            if let Some(mut budget) = Budget::read(&whole)? {
                budget.before = lines(&whole);
                found.push(budget);
            }
            Ok(())
        })?;
        Ok(found)
    }

    pub(super) fn lines(&self, budget: &Budget) -> Result<BudgetLines, HammerError> {
        self.get(&format!("/v1/budgets/{}", encode(&budget.id))).map(|found| lines(&found))
    }

    fn pages(
        &self,
        path: &str,
        rows: &str,
        mut each: impl FnMut(&Value) -> Result<(), HammerError>,
    ) -> Result<(), HammerError> {
        let mut cursor = String::new();
        loop {
            let page = self.get(&format!("{path}{cursor}"))?;
            page[rows].as_array().into_iter().flatten().try_for_each(&mut each)?;
            match page["next"].as_str() {
                Some(next) => cursor = format!("&cursor={}", encode(next)),
                None => return Ok(()),
            }
        }
    }

    /// Reads all budgets, and all orders.
    pub(super) fn read(&self, budgets: &[Budget]) -> Result<Found, HammerError> {
        let lines = budgets.iter().map(|budget| self.lines(budget)).collect::<Result<_, _>>()?;
        let mut orders = Vec::new();
        self.pages("/v1/fix/orders?max=1000", "orders", |row| {
            orders.push(row.clone());
            Ok(())
        })?;
        Ok(Found { lines, orders })
    }
}

/// What the node has of budgets and of orders.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) lines: Vec<BudgetLines>,
    orders: Vec<Value>,
}

impl Found {
    /// Compares each budget, and each order in each budget, with the venue's books. Returns the differences.
    pub(super) fn compare(&self, budgets: &[Budget], venue: &Venue, run: &str) -> Vec<String> {
        let (mut differences, mut listed) = (Vec::new(), BTreeSet::new());
        for row in &self.orders {
            let id = row["cl_ord_id"].as_str().unwrap_or("");
            match venue.order_of(id) {
                Some(at) => {
                    listed.insert(at);
                    differences.extend(compare_order(&venue.orders[at], row, budgets));
                }
                None if id.starts_with(run) && row["state"] != "closed" => {
                    differences.push(format!("order {id} is not in the venue's books: {row}"));
                }
                None => {}
            }
        }
        // What the node may forget is what is closed; its money is in the sums.
        let all = venue.orders.iter().enumerate();
        let lost = all.filter(|(at, order)| order.is_open && !listed.contains(at));
        differences.extend(lost.map(|(_, order)| {
            format!("order {} is open at the venue, and the node does not list it", order.id)
        }));
        for (at, (budget, found)) in budgets.iter().zip(&self.lines).enumerate() {
            let own = venue.orders.iter().filter(|order| order.legs.contains(&at));
            let sums = own.fold([0; 3], |sums: [i128; 3], order| {
                let amounts = order.amounts(budget);
                [0, 1, 2].map(|one| sums[one] + amounts[one])
            });
            differences.extend(compare_budget(budget, sums, found));
        }
        differences
    }
}

fn differ(what: &str, names: [&str; 4], node: [i128; 4], venue: [i128; 4]) -> Vec<String> {
    let each = names.into_iter().zip(node).zip(venue).filter(|((_, node), venue)| node != venue);
    each.map(|((name, node), venue)| {
        format!(
            "{what}: the node has {name} {}, the venue's books say {}",
            shown(node),
            shown(venue)
        )
    })
    .collect()
}

fn compare_budget(
    budget: &Budget,
    [settled, late, held]: [i128; 3],
    found: &BudgetLines,
) -> Vec<String> {
    let before = &budget.before;
    differ(
        &format!("budget {}", budget.id),
        ["settled", "late", "held", &EMPTY.join(" + ")],
        [
            found.settled - before.settled,
            found.late - before.late,
            found.held - before.held,
            found.empty - before.empty,
        ],
        [settled, late, held, 0],
    )
}

/// Compares an order as the node lists it: in each budget what is booked and held, and what is executed and open.
fn compare_order(order: &Order, row: &Value, budgets: &[Budget]) -> Vec<String> {
    let what = format!("order {}", order.id);
    let leaves = i128::from(order.leaves()) * UNITS;
    let legs = row["hold"].as_object().map_or(0, serde_json::Map::len);
    let quantities = [parts(&row["leaves"]), legs as i128, 0, 0];
    let names = ["leaves", "budgets", "", ""];
    let mut found = differ(&what, names, quantities, [leaves, order.legs.len() as i128, 0, 0]);
    for leg in &order.legs {
        let budget = &budgets[*leg];
        let [settled, late, held] = order.amounts(budget);
        let of = |name: &str| parts(&row[name][&budget.id]);
        let what = format!("{what} in budget {}", budget.id);
        found.extend(differ(
            &what,
            ["booked", "hold", "", ""],
            [of("booked"), of("hold"), 0, 0],
            [settled + late, held, 0, 0],
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fix::peer::{Message, Peer};

    fn budgets() -> Vec<Budget> {
        let read = |unit: &str, orders: Value| {
            let budget = json!({"id": unit, "unit": unit, "config": {"orders": orders}});
            Budget::read(&budget).unwrap()
        };
        let all = [
            read("USD", json!({"account": "A1"})),
            read("count", json!({"symbol": "ACME", "side": "buy"})),
            read("USD", json!({"session": "DESK2"})),
            read("USD", Value::Null),
        ];
        all.into_iter().flatten().collect()
    }

    /// A venue that has executed some of a purchase, 1,000 at 10.5, with the first seed that does so.
    fn venue(budgets: &[Budget]) -> Venue {
        let peer = || Peer::new(["FIX.4.4", "DESK1", "GATE"], (1, 1), false);
        let mut desk = peer();
        desk.is_logged_on = true;
        desk.send("D", "11=h-1|1=A1|55=ACME|54=1|40=2|44=10.5|38=1000|".replace('|', "\x01"));
        let order = Message::new(&desk.out);
        let all = (0..100).map(|seed| {
            let mut venue = Venue::new(peer(), budgets.len(), seed);
            venue.take(&order, (0, "DESK1"), budgets, 0);
            venue
        });
        let is_partly = |venue: &Venue| (1..1_000).contains(&venue.orders[0].leaves());
        all.into_iter().find(is_partly).expect("a seed that executes some")
    }

    #[test]
    fn every_difference_between_the_books_is_told() {
        let budgets = budgets();
        assert_eq!(budgets.len(), 3, "one binds no orders");
        let venue = venue(&budgets);
        let order = &venue.orders[0];
        assert_eq!(order.legs, [0, 1]);
        let [[settled, _, held], [count, _, left]] = [0, 1].map(|leg| order.amounts(&budgets[leg]));
        assert_eq!((count + left, held * 10), (1_000 * UNITS, left * 105));
        assert!(settled * 10 <= count * 105, "executed at the limit or below");
        let agrees = || {
            let text = |amount| shown(amount);
            let lines = |settled, held| BudgetLines { settled, held, ..BudgetLines::default() };
            let row = json!({"cl_ord_id": "h-1", "state": "open", "leaves": text(left),
                "hold": {"USD": text(held), "count": text(left)}, "booked": {"USD": text(settled), "count": text(count)}});
            Found {
                lines: vec![lines(settled, held), lines(count, left), lines(0, 0)],
                orders: vec![row],
            }
        };
        assert_eq!(agrees().compare(&budgets, &venue, "h"), [""; 0]);
        type Change = fn(&mut Found);
        let changes: [(Change, &str); 10] = [
            (|found| found.lines[0].settled += 1, "budget USD: the node has settled"),
            (|found| found.lines[1].held -= 1, "budget count: the node has held"),
            (|found| found.lines[2].late += 1, "budget USD: the node has late"),
            (|found| found.lines[0].empty += 1, "over_settled + inferred + unknown_order"),
            (
                |found| found.orders[0]["hold"]["USD"] = json!("0"),
                "in budget USD: the node has hold 0",
            ),
            (|found| found.orders[0]["booked"]["count"] = json!("1.5"), "has booked 1.5"),
            (|found| found.orders[0]["hold"]["3"] = json!("0"), "the node has budgets"),
            (|found| found.orders[0]["leaves"] = json!("-1"), "the node has leaves -1"),
            (|found| found.orders.clear(), "the node does not list it"),
            (
                |found| found.orders.push(json!({"cl_ord_id": "h-2", "state": "open"})),
                "not in the venue's books",
            ),
        ];
        for (change, expected) in changes {
            let mut found = agrees();
            change(&mut found);
            let told = found.compare(&budgets, &venue, "h");
            assert!(told.len() == 1 && told[0].contains(expected), "{expected}: {told:?}");
        }
    }

    #[test]
    fn amounts_are_read_and_written_exactly() {
        for text in ["0", "1", "-0.5", "630.000000001", "-12"] {
            assert_eq!(shown(parts(&json!(text))), text);
        }
        assert_eq!(parts(&json!("12.30")), 12_300_000_000);
    }
}
