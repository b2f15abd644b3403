//! What a budget is configured to be, and whether a set of budgets makes sense together.

use std::collections::BTreeMap;

use money::{Instant, Unit, Zone};
use wire::Handle;

use crate::{Amount, Windows};

/// Budgets on the way from a budget to its topmost parent, itself included.
pub const LEVELS_MAX: usize = 4;
/// Budgets a node can carry, those that have ended included: what they spent stays known.
pub const BUDGETS_MAX: usize = 4_000_000;

/// Ids from here on are those of budgets that were made on their first ask; nobody else chooses one of them.
pub const MADE_ID_MIN: u64 = 1 << 62;

/// Slots from here on are those of budgets that were made on their first ask. They come and go one by one; so what is kept by slot
/// of configured budgets, and made anew with each configuration, knows nothing of them.
pub const MADE_SLOT: u32 = 1 << 31;

/// May money be reserved from the budget?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Yes, within its flight and limits.
    Active,
    /// The owner stopped it for now.
    Paused,
    /// It was removed from the configuration; what it spent is still known.
    Ended,
}

/// What becomes of a hold's money when its time is over and no notice said what became of the hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnExpiry {
    /// It stays held until a late notice or a reconciliation says so: nothing can be spent twice.
    #[default]
    Hold,
    /// It is free at once, and a notice that comes later is a debt.
    Release,
}

/// `tolerance_ppm` of this much is the whole limit.
pub const TOLERANCE_PPM_MAX: u32 = 1_000_000;

/// A budget's configuration, as far as money goes.
#[derive(Clone, Debug, PartialEq)]
pub struct BudgetSpec {
    /// Chosen by the owner; unique. One from [`MADE_ID_MIN`] on was chosen by the bank.
    pub id: u64,
    /// Its unique text name, if it has one.
    pub handle: Option<Handle>,
    /// Unit of all its amounts.
    pub unit: Unit,
    /// The amount that may be spent in its life: 0 ..= `money::LIMIT_MAX`.
    pub limit: Amount,
    /// What may be spent in each minute, hour, day, week and month. A window that is new, or of another kind than before, counts
    /// from the instant at which it came; one of whole days from the beginning of that day.
    pub windows: Windows,
    /// The flight: no reservation before it...
    pub start: Instant,
    /// ...or from this instant on.
    pub end: Instant,
    /// Where its days begin.
    pub zone: Zone,
    /// May money be reserved?
    pub status: Status,
    /// A budget that binds this one too: money is taken from both.
    pub parent: Option<u64>,
    /// Share of the limit kept back for late and over-settled spend, in 1 / 10,000; 0 ..= 10,000.
    pub late_reserve_bp: u16,
    /// What becomes of holds of which nothing is heard in time. A grant keeps what it was made with.
    pub on_expiry: OnExpiry,
    /// Share of the limit that may be handed out although as much is expired and not reconciled, where experience says
    /// that it was not spent; in 1 / 1,000,000, 0 ..= [`TOLERANCE_PPM_MAX`]. Above 0 the limit is no longer strict.
    pub tolerance_ppm: u32,
    /// A budget that was made on its first ask ends when nobody asked of it for so long, milliseconds, and no token of it can be
    /// judged any more; 0 = never.
    pub idle_ms: u64,
}

impl BudgetSpec {
    /// An active budget with a limit for its life and nothing else: no windows, no parent, days in UTC, a flight without ends.
    pub fn plain(id: u64, unit: Unit, limit: Amount) -> BudgetSpec {
        BudgetSpec {
            id,
            handle: None,
            unit,
            limit,
            windows: Windows::default(),
            start: Instant::EPOCH,
            end: Instant::MAX,
            zone: Zone::utc(),
            status: Status::Active,
            parent: None,
            late_reserve_bp: 0,
            on_expiry: OnExpiry::Hold,
            tolerance_ppm: 0,
            idle_ms: 0,
        }
    }
}

/// What is wrong with one budget of a set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Two budgets with one id.
    #[error("budget {id}: the id is used twice; ids must be unique")]
    IdTwice {
        /// The id.
        id: u64,
    },
    /// Two live budgets with one handle.
    #[error(
        "budget {id}: handle {handle:?} is that of budget {other}; a handle names one live budget"
    )]
    HandleTwice {
        /// The budget.
        id: u64,
        /// The handle.
        handle: Handle,
        /// Who has it.
        other: u64,
    },
    /// A limit outside the documented range.
    #[error("budget {id}: {field} is {found}, expected 0 to {max} base units", max = money::LIMIT_MAX.get())]
    Limit {
        /// The budget.
        id: u64,
        /// `limit`, or the period of a window.
        field: &'static str,
        /// The value that was given.
        found: i64,
    },
    /// The flight ends before it begins.
    #[error("budget {id}: end {end} is not after start {start}")]
    Flight {
        /// The budget.
        id: u64,
        /// Its start.
        start: Instant,
        /// Its end.
        end: Instant,
    },
    /// More than the whole limit held back.
    #[error("budget {id}: late_reserve_bp is {found}, expected 0 to 10000")]
    LateReserve {
        /// The budget.
        id: u64,
        /// The value that was given.
        found: u16,
    },
    /// More than the whole limit handed out twice.
    #[error("budget {id}: tolerance_ppm is {found}, expected 0 to {TOLERANCE_PPM_MAX}")]
    Tolerance {
        /// The budget.
        id: u64,
        /// The value that was given.
        found: u32,
    },
    /// A parent that is not in the set.
    #[error("budget {id}: parent {parent} is not a budget of this set")]
    NoParent {
        /// The budget.
        id: u64,
        /// The missing parent.
        parent: u64,
    },
    /// Parent and child in different units.
    #[error("budget {id}: unit {unit} differs from {parent_unit} of its parent {parent}")]
    ParentUnit {
        /// The budget.
        id: u64,
        /// Its unit.
        unit: Unit,
        /// Its parent.
        parent: u64,
        /// The parent's unit.
        parent_unit: Unit,
    },
    /// A chain of parents that is too long or goes round.
    #[error("budget {id}: more than {LEVELS_MAX} levels of parents, or a circle")]
    TooDeep {
        /// The budget.
        id: u64,
    },
    /// A budget that is live cannot change what its balances are made of.
    #[error("budget {id}: {field} of a known budget cannot change; end it and use a new id")]
    Fixed {
        /// The budget.
        id: u64,
        /// `unit` or `parent`.
        field: &'static str,
    },
    /// A change of a budget that is not there.
    #[error("budget {id}: there is no such budget to be changed")]
    Unknown {
        /// The id.
        id: u64,
    },
    /// A budget that was made on its first ask, and has no handle.
    #[error(
        "budget {id}: it was made on its first ask and has no handle; ids from {MADE_ID_MIN} on are the bank's to give"
    )]
    NoHandle {
        /// The id.
        id: u64,
    },
    /// Two budgets that were made on their first ask, with one handle.
    #[error("budget {id}: its handle is that of budget {other}")]
    MadeTwice {
        /// The id.
        id: u64,
        /// The other one's.
        other: u64,
    },
    /// Too many.
    #[error("{found} budgets, at most {BUDGETS_MAX} are possible")]
    TooMany {
        /// How many there were.
        found: usize,
    },
}

impl SpecError {
    /// The budget that is wrong; 0 where it is the whole set.
    pub fn id(&self) -> u64 {
        match self {
            SpecError::IdTwice { id }
            | SpecError::HandleTwice { id, .. }
            | SpecError::Limit { id, .. }
            | SpecError::Flight { id, .. }
            | SpecError::LateReserve { id, .. }
            | SpecError::Tolerance { id, .. }
            | SpecError::NoParent { id, .. }
            | SpecError::ParentUnit { id, .. }
            | SpecError::TooDeep { id }
            | SpecError::Fixed { id, .. }
            | SpecError::NoHandle { id }
            | SpecError::MadeTwice { id, .. }
            | SpecError::Unknown { id } => *id,
            SpecError::TooMany { .. } => 0,
        }
    }
}

/// Checks a whole set; returns every error, not only the first.
pub fn check(specs: &[BudgetSpec]) -> Vec<SpecError> {
    let mut errors = Vec::new();
    if specs.len() > BUDGETS_MAX {
        errors.push(SpecError::TooMany { found: specs.len() });
        return errors;
    }
    let mut by_id = BTreeMap::new();
    for spec in specs {
        if by_id.insert(spec.id, spec).is_some() {
            errors.push(SpecError::IdTwice { id: spec.id });
        }
    }
    check_handles(specs, &mut errors);
    for spec in specs {
        check_alone(spec, &mut errors);
        check_parents(spec, &by_id, &mut errors);
    }
    errors
}

/// A handle names one live budget. That of one that ended is free for another.
fn check_handles(specs: &[BudgetSpec], errors: &mut Vec<SpecError>) {
    let mut by_handle = BTreeMap::new();
    for spec in specs.iter().filter(|spec| spec.status != Status::Ended) {
        let Some(handle) = &spec.handle else { continue };
        match by_handle.insert(handle, spec.id) {
            // One id twice is told already.
            Some(other) if other != spec.id => {
                let handle = handle.clone();
                errors.push(SpecError::HandleTwice { id: spec.id, handle, other });
            }
            _ => {}
        }
    }
}

/// Checks one budget by itself: whatever does not depend on others. Returns every error.
pub fn check_one(spec: &BudgetSpec) -> Vec<SpecError> {
    let mut errors = Vec::new();
    check_alone(spec, &mut errors);
    errors
}

pub(crate) fn check_alone(spec: &BudgetSpec, errors: &mut Vec<SpecError>) {
    let id = spec.id;
    let windows = spec.windows.all().iter().map(|window| (window.period.name(), window.limit));
    for (field, amount) in std::iter::once(("limit", spec.limit)).chain(windows) {
        if amount < Amount::ZERO || amount > money::LIMIT_MAX {
            errors.push(SpecError::Limit { id, field, found: amount.get() });
        }
    }
    if spec.end <= spec.start {
        errors.push(SpecError::Flight { id, start: spec.start, end: spec.end });
    }
    if spec.late_reserve_bp > 10_000 {
        errors.push(SpecError::LateReserve { id, found: spec.late_reserve_bp });
    }
    if spec.tolerance_ppm > TOLERANCE_PPM_MAX {
        errors.push(SpecError::Tolerance { id, found: spec.tolerance_ppm });
    }
}

fn check_parents(
    spec: &BudgetSpec,
    by_id: &BTreeMap<u64, &BudgetSpec>,
    errors: &mut Vec<SpecError>,
) {
    let id = spec.id;
    let mut level = spec;
    for _ in 0..LEVELS_MAX {
        let Some(parent) = level.parent else { return };
        let Some(above) = by_id.get(&parent) else {
            if level.id == id {
                errors.push(SpecError::NoParent { id, parent });
            }
            return;
        };
        if above.unit != level.unit && level.id == id {
            let (unit, parent_unit) = (level.unit, above.unit);
            errors.push(SpecError::ParentUnit { id, unit, parent, parent_unit });
            return;
        }
        level = above;
    }
    errors.push(SpecError::TooDeep { id });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::spec;

    #[test]
    fn a_sound_set_passes() {
        let child = BudgetSpec { parent: Some(1), ..spec(2, 10) };
        assert_eq!(check(&[spec(1, 10), child]), []);
    }

    #[test]
    fn every_error_is_reported() {
        let set = [
            spec(1, 10),
            spec(1, 10),
            spec(2, -1),
            BudgetSpec { end: Instant::from_ms(0), ..spec(3, 1) },
            BudgetSpec { parent: Some(99), ..spec(4, 1) },
            BudgetSpec { unit: Unit::Count, parent: Some(1), ..spec(5, 1) },
            BudgetSpec { parent: Some(6), ..spec(6, 1) },
            BudgetSpec { late_reserve_bp: 10_001, ..spec(7, 1) },
            BudgetSpec { tolerance_ppm: 1_000_001, ..spec(8, 1) },
            BudgetSpec { unit: Unit::parse("USDn").unwrap(), parent: Some(1), ..spec(9, 1) },
        ];
        let text: Vec<String> = check(&set).iter().map(|e| e.to_string()).collect();
        for expected in [
            "budget 1: the id is used twice",
            "budget 2: limit is -1, expected 0 to",
            "budget 3: end",
            "budget 4: parent 99 is not a budget",
            "budget 5: unit count differs from USD",
            "budget 6: more than 4 levels",
            "budget 7: late_reserve_bp is 10001",
            "budget 8: tolerance_ppm is 1000001",
            "budget 9: unit USDn differs from USD of its parent 1",
        ] {
            assert!(text.iter().any(|t| t.starts_with(expected)), "{expected} not in {text:#?}");
        }
        assert_eq!(text.len(), 9);
    }

    #[test]
    fn a_handle_names_one_live_budget() {
        let named = |id, handle: &str| BudgetSpec {
            handle: Some(Handle::parse(handle).unwrap()),
            ..spec(id, 10)
        };
        let ended = BudgetSpec { status: Status::Ended, ..named(3, "llm/a") };
        // Handles are compared byte by byte: another case is another name.
        assert_eq!(check(&[named(1, "llm/a"), named(2, "llm/A"), ended]), []);
        let errors = check(&[named(1, "llm/a"), named(2, "llm/a")]);
        let expected =
            "budget 2: handle \"llm/a\" is that of budget 1; a handle names one live budget";
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }

    #[test]
    fn depth_is_bounded() {
        let chain: Vec<BudgetSpec> = (1..=5)
            .map(|id| BudgetSpec { parent: (id > 1).then(|| id - 1), ..spec(id, 1) })
            .collect();
        assert_eq!(check(&chain[..4]), []);
        assert_eq!(check(&chain), [SpecError::TooDeep { id: 5 }]);
    }
}
