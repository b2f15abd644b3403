//! Where a budget stands, as the spend door shows it.

use ledger::{Amount, Bank, Status};
use money::Instant;
use weir_till::{BookLine, BudgetStanding};

/// For display: what is reserved is as old as the workers' last word. `line`: the books of a slot.
pub(super) fn standing(
    bank: &Bank,
    slot: u32,
    title: &str,
    line: &impl Fn(u32) -> BookLine,
) -> BudgetStanding {
    let (spec, own) = (bank.spec(slot), line(slot));
    BudgetStanding {
        id: spec.id,
        handle: spec.handle.as_ref().map(|handle| handle.as_str().into()),
        name: title.into(),
        unit: spec.unit,
        limit: own.limit,
        available: available(bank, slot, line),
        held: own.held,
        settled: own.spent(),
        status: status(bank, slot),
    }
}

/// What is left of the narrowest limit of a budget and of those above it, when what is settled and held is taken off.
fn available(bank: &Bank, slot: u32, line: &impl Fn(u32) -> BookLine) -> Amount {
    let (mut least, mut level) = (None, Some(slot));
    while let Some(slot) = level {
        let line = line(slot);
        let of_life = sum([line.free, line.purses]);
        // What workers have and nobody reserved is used of a window, and can still be spent in it.
        let of_windows = bank
            .windows(slot)
            .map(|(window, used, _)| sum([less(window.limit, used), line.purses]));
        least = of_windows.chain([of_life]).chain(least).min();
        level = bank.spec(slot).parent.and_then(|id| bank.slot(id));
    }
    least.unwrap_or(Amount::ZERO).max(Amount::ZERO)
}

fn status(bank: &Bank, slot: u32) -> &'static str {
    let (spec, now) = (bank.spec(slot), Instant::from_ms(bank.now_ms()));
    match spec.status {
        Status::Ended => "ended",
        _ if now >= spec.end => "ended",
        Status::Paused => "paused",
        Status::Active if now < spec.start => "not_started",
        Status::Active => "active",
    }
}

fn sum<const N: usize>(amounts: [Amount; N]) -> Amount {
    Amount::total(amounts).unwrap_or(Amount::ZERO)
}

fn less(one: Amount, other: Amount) -> Amount {
    one.checked_sub(other).unwrap_or(Amount::ZERO)
}
