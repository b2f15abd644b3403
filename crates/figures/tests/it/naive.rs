//! What figures must be, found for each settlement by searching in the records before it.

use std::collections::BTreeMap;

use figures::{Figures, KEY_NONE, KEY_OTHER, KEY_UNKNOWN, Total};
use ledger::{Amount, Bank, Door, Hold, Options, Origin, Record, Verdict};

use crate::bench::replay;

fn is_settled(record: &Record, of: &Hold) -> bool {
    let settled = [Verdict::Settled, Verdict::SettledOver, Verdict::SettledLate];
    matches!(record, Record::Resolved { hold, verdict, .. } if hold == of && settled.contains(verdict))
}

/// Impressions, clicks and spend.
pub(crate) type Sums = (u64, u64, i64);

/// What a record counts: of which grant, for whom, when, how much. A click counts where bill and click are both there, whatever records say
/// of that.
fn counted(records: &[Record], index: usize) -> Option<(u64, Origin, u64, Sums)> {
    let earlier = &records[..index];
    Some(match &records[index] {
        Record::Resolved { hold, amount, at_ms, origin, .. } => {
            is_settled(&records[index], hold).then_some(())?;
            let of_it =
                |record: &Record| matches!(record, Record::Clicked { hold: of, .. } if of == hold);
            let clicks = u64::from(earlier.iter().any(of_it));
            (hold.grant, *origin, *at_ms, (1, clicks, amount.get()))
        }
        Record::ToppedUp { hold, amount, at_ms, origin, .. } => {
            (hold.grant, *origin, *at_ms, (0, 0, amount.get()))
        }
        Record::Clicked { hold, at_ms, origin, .. } => {
            let billed = earlier.iter().any(|record| is_settled(record, hold));
            (hold.grant, *origin, *at_ms, (0, u64::from(billed), 0))
        }
        _ => return None,
    })
}

fn add(sums: &mut Sums, more: Sums) {
    *sums = (sums.0 + more.0, sums.1 + more.1, sums.2 + more.2);
}

fn budget_of(before: &[Record], grant: u64) -> u64 {
    let found = before.iter().rev().find_map(|record| match record {
        Record::Granted { grant: of, budget, .. } if *of == grant => Some(*budget),
        _ => None,
    });
    found.expect("a grant was given to a budget")
}

/// Sums per budget that settled anything.
pub(crate) fn naive(records: &[Record]) -> BTreeMap<u64, Sums> {
    let mut sums = BTreeMap::<u64, Sums>::new();
    for (index, record) in records.iter().enumerate() {
        if let Record::BudgetForgotten { id } = record {
            sums.remove(id);
        }
        let Some((grant, _, _, more)) = counted(records, index) else { continue };
        let mut next = Some(budget_of(&records[..index], grant));
        while let Some(id) = next {
            add(sums.entry(id).or_default(), more);
            let spec = records[..index].iter().rev().find_map(|record| match record {
                Record::Budget { spec } if spec.id == id => Some(spec),
                _ => None,
            });
            next = spec.unwrap().parent;
        }
    }
    sums
}

/// Sums per hour, budget and key; all budgets have their days in UTC.
fn naive_cells(records: &[Record]) -> BTreeMap<(u64, u64, u64), Sums> {
    let mut sums = BTreeMap::<_, Sums>::new();
    for index in 0..records.len() {
        let Some((grant, origin, at_ms, more)) = counted(records, index) else { continue };
        if more == (0, 0, 0) {
            continue;
        }
        let key = match origin.door {
            Door::Openrtb | Door::Admin if origin.request_id > KEY_OTHER => origin.request_id,
            Door::Openrtb | Door::Admin => KEY_UNKNOWN,
            _ => KEY_NONE,
        };
        let id = (at_ms / 3_600_000 * 60, budget_of(&records[..index], grant), key);
        add(sums.entry(id).or_default(), more);
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
    let cells = figures.cells().open(0, u32::MAX).map(|((hour, _, budget, key), total)| {
        let sums = (total.impressions, total.clicks, total.spend.get());
        ((u64::from(hour), budget, key), sums)
    });
    let cells: BTreeMap<_, _> = cells.filter(|(_, sums)| *sums != (0, 0, 0)).collect();
    assert_eq!(cells, naive_cells(records));
    books(figures, &replay(options, records), &named(records));
}

/// What named holds booked, per budget: no impression of theirs is counted.
fn named(records: &[Record]) -> BTreeMap<u64, i64> {
    let (mut parents, mut rows) = (BTreeMap::new(), BTreeMap::<_, i64>::new());
    let mut sums = BTreeMap::new();
    for record in records {
        let hold = match record {
            Record::Budget { spec } => {
                parents.insert(spec.id, spec.parent);
                continue;
            }
            Record::NamedEnded { door, key, .. } => {
                rows.retain(|(of, at, _), _| (of, at) != (door, key));
                continue;
            }
            Record::Named { hold, .. } => hold,
            Record::Timed(change) => &change.row.hold,
            _ => continue,
        };
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
