//! What figures must be, found for each settlement by searching in the records before it.

use std::collections::BTreeMap;

use figures::{Figures, Total};
use ledger::{Amount, Bank, Hold, Options, Record, Verdict};

use crate::bench::replay;

fn is_settled(record: &Record, of: &Hold) -> bool {
    let settled = [Verdict::Settled, Verdict::SettledOver, Verdict::SettledLate];
    matches!(record, Record::Resolved { hold, verdict, .. } if hold == of && settled.contains(verdict))
}

/// Impressions, clicks and spend per budget that settled anything. A click counts where bill and click are both there, whatever records say
/// of that.
pub(crate) fn naive(records: &[Record]) -> BTreeMap<u64, (u64, u64, i64)> {
    let mut sums = BTreeMap::<u64, (u64, u64, i64)>::new();
    for (index, record) in records.iter().enumerate() {
        let earlier = &records[..index];
        let (grant, impressions, clicks, amount) = match record {
            Record::Resolved { hold, amount, .. } => {
                if !is_settled(record, hold) {
                    continue;
                }
                let of_it = |record: &Record| matches!(record, Record::Clicked { hold: of, .. } if of == hold);
                (hold.grant, 1, u64::from(earlier.iter().any(of_it)), *amount)
            }
            Record::ToppedUp { hold, amount, .. } => (hold.grant, 0, 0, *amount),
            Record::Clicked { hold, .. } => {
                let billed = earlier.iter().any(|record| is_settled(record, hold));
                (hold.grant, 0, u64::from(billed), Amount::ZERO)
            }
            Record::BudgetForgotten { id } => {
                sums.remove(id);
                continue;
            }
            _ => continue,
        };
        let before = || records[..index].iter().rev();
        let mut next = before().find_map(|record| match record {
            Record::Granted { grant: of, budget, .. } if *of == grant => Some(*budget),
            _ => None,
        });
        assert!(next.is_some(), "grant {grant} was given to a budget");
        while let Some(id) = next {
            let (all, clicked, spend) = sums.entry(id).or_default();
            (*all, *clicked) = (*all + impressions, *clicked + clicks);
            *spend += amount.get();
            let spec = before().find_map(|record| match record {
                Record::Budget { spec } if spec.id == id => Some(spec),
                _ => None,
            });
            next = spec.unwrap().parent;
        }
    }
    sums
}

/// Folded one by one.
pub(crate) fn folded(records: &[Record]) -> Figures {
    let mut figures = Figures::begin(1);
    for (record, sequence) in records.iter().zip(1..) {
        figures.fold(sequence, 7, std::slice::from_ref(record)).unwrap();
    }
    figures
}

/// The figures are what the model says, and their spend is that of the books.
pub(crate) fn check(figures: &Figures, options: &Options, records: &[Record]) {
    assert_eq!(figures.sequence(), records.len() as u64 + 1);
    assert_eq!(figures.unplaced(), Total::default());
    let sums = naive(records);
    for (id, total) in figures.totals() {
        let expected = sums.get(&id).copied().unwrap_or_default();
        let found = (total.impressions, total.clicks, total.spend.get());
        assert_eq!(found, expected, "budget {id}");
    }
    for (id, (.., spend)) in sums {
        assert!(spend == 0 || figures.total(id).is_some(), "budget {id}");
    }
    books(figures, &replay(options, records), &named(records));
}

/// What named holds booked, per budget: no impression of theirs is counted.
fn named(records: &[Record]) -> BTreeMap<u64, i64> {
    let (mut parents, mut rows) = (BTreeMap::new(), BTreeMap::<_, i64>::new());
    let mut sums = BTreeMap::new();
    for record in records {
        match record {
            Record::Budget { spec } => _ = parents.insert(spec.id, spec.parent),
            Record::Named { hold, .. } => {
                for leg in &hold.legs {
                    let booked: i64 = leg.amounts.spent.iter().map(|amount| amount.get()).sum();
                    let before = rows.insert((hold.door, hold.key, leg.budget), booked);
                    let mut next = Some(leg.budget);
                    while let Some(id) = next {
                        *sums.entry(id).or_default() += booked - before.unwrap_or(0);
                        next = parents[&id];
                    }
                }
            }
            Record::NamedEnded { door, key, .. } => {
                rows.retain(|(of, at, _), _| (of, at) != (door, key));
            }
            _ => {}
        }
    }
    sums
}

fn books(figures: &Figures, bank: &Bank, named: &BTreeMap<u64, i64>) {
    for (id, slot) in bank.slots_from(0) {
        let spend = figures.total(id).map(|total| total.spend.get());
        let spent = bank.books(slot).spent().get() - named.get(&id).unwrap_or(&0);
        assert_eq!(spend, Some(spent), "the books of budget {id}");
    }
    let unknown = figures.totals().filter(|(id, _)| bank.slot(*id).is_none());
    for (id, total) in unknown {
        assert!(total.spend > Amount::ZERO, "budget {id} is gone, and nothing is kept of it");
    }
}
