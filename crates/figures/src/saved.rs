//! Figures as bytes: what changed, with the sequence that it leads to.
//!
//! ```text
//!  head: "WEIRFIG3", from, to, since_ms, unplaced, seven numbers of rows, ...
//!  budgets: id, parent, kind, impressions, clicks, spend     their values now
//!  gone: id                                    budgets that are forgotten
//!  grants: grant, budget                       open ones
//!  closed: grant
//!  cells: hour, kind, budget, key, impressions, clicks, spend      open ones
//!  kept: file, first and last hour, bytes, sum     all files, where that changed
//!  kinds: unit, bytes of the zone's name, name    those that are new
//! ```
//! Numbers are 64 bits, or 32 where that is enough, little endian. Rows hold values and no differences: `from` says what they change.

use zerocopy::little_endian::{I64, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use ledger::Amount;
use money::{Unit, Zone};

use crate::cells::{CellId, Kept};
use crate::fold::{Budget, Figures, NO_HOUR, Total};

/// Those of earlier versions knew no cells: figures are counted again from the oldest record.
const MAGIC: [u8; 8] = *b"WEIRFIG3";
/// In place of the parent of a budget without one.
const NO_PARENT: u64 = u64::MAX;

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Head {
    magic: [u8; 8],
    /// The figures that this changes stand here; 0: it is all there is.
    from: U64,
    to: U64,
    since_ms: U64,
    unplaced: TotalRow,
    budgets: U64,
    gone: U64,
    grants: U64,
    closed: U64,
    cells: U64,
    /// Open cells of hours that began before are gone; rows of cells are newer.
    closed_before: U32,
    /// Cells are complete from this hour on.
    cells_from: U32,
    /// 1: the rows of files are all there are. 0: they are as they were.
    tells_kept: U64,
    kept: U64,
    kinds: U64,
}

const _: () = assert!(size_of::<Head>() == 128);

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct CellRow {
    hour: U32,
    kind: U32,
    budget: U64,
    key: U64,
    total: TotalRow,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct KeptRow {
    sequence: U64,
    first: U32,
    last: U32,
    bytes: U64,
    sum: U64,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TotalRow {
    impressions: U64,
    clicks: U64,
    spend: I64,
}

impl From<Total> for TotalRow {
    fn from(total: Total) -> TotalRow {
        TotalRow {
            impressions: total.impressions.into(),
            clicks: total.clicks.into(),
            spend: total.spend.get().into(),
        }
    }
}

impl TotalRow {
    fn read(&self) -> Result<Total, MergeError> {
        let spend = Amount::new(self.spend.get());
        let (impressions, clicks) = (self.impressions.get(), self.clicks.get());
        let total = Total { impressions, clicks, spend };
        (spend >= Amount::ZERO).then_some(total).ok_or(MergeError::Negative)
    }
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct BudgetRow {
    id: U64,
    parent: U64,
    kind: U64,
    total: TotalRow,
}

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct GrantRow {
    grant: U64,
    budget: U64,
}

/// Why bytes cannot be taken over. The figures are as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// Something else, or cut, or written by another version.
    #[error("these are no saved figures of this version: begin again at the oldest record")]
    Form,
    /// Others are missing before it, or it is not the first.
    #[error("saved figures that follow sequence {found}, expected {expected}: some are missing")]
    Gap {
        /// The sequence that they follow.
        found: u64,
        /// The sequence that these figures stand at.
        expected: u64,
    },
    /// An amount below nothing.
    #[error("saved figures with a spend below nothing")]
    Negative,
    /// The figures have changes that were not saved.
    #[error("saved figures cannot be taken over by figures that changed since they were saved")]
    Unsaved,
}

impl Figures {
    /// All of it as bytes.
    pub fn whole(&self) -> Vec<u8> {
        let cells = self.cells.open(0, u32::MAX).map(|(id, _)| id);
        let mut grants = self.grants.keys().copied();
        self.write(0, &mut self.budgets.keys().copied(), &mut grants, &mut cells.into_iter())
    }

    /// Was something folded since [`Figures::saved`] was called last?
    pub fn is_unsaved(&self) -> bool {
        self.saved != self.sequence
    }

    /// What changed since [`Figures::saved`] was called last, as bytes; all of it before the first time. `None` if nothing was folded since.
    /// The bytes are one batch: kept whole or not at all, they leave a store at one sequence.
    pub fn unsaved(&self) -> Option<Vec<u8>> {
        if self.saved == 0 {
            return Some(self.whole());
        }
        if self.saved == self.sequence {
            return None;
        }
        let mut budgets = self.changed.budgets.clone();
        budgets.sort_unstable();
        budgets.dedup();
        let mut grants = self.changed.grants.iter().copied();
        let mut cells = self.cells.changed.cells.iter().copied();
        Some(self.write(self.saved, &mut budgets.into_iter(), &mut grants, &mut cells))
    }

    /// Notes that what [`Figures::unsaved`] gave is durable.
    pub fn saved(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        for id in changed.budgets {
            if let Some(budget) = self.budgets.get_mut(&id) {
                budget.is_noted = false;
            }
        }
        self.cells.note_saved();
        self.saved = self.sequence;
    }

    fn write(
        &self,
        from: u64,
        budgets: &mut dyn Iterator<Item = u64>,
        grants: &mut dyn Iterator<Item = u64>,
        cells: &mut dyn Iterator<Item = CellId>,
    ) -> Vec<u8> {
        let (mut rows, mut gone) = (Vec::new(), Vec::<U64>::new());
        for id in budgets {
            match self.budgets.get(&id) {
                Some(Budget { parent, kind, total, .. }) => rows.push(BudgetRow {
                    id: id.into(),
                    parent: parent.unwrap_or(NO_PARENT).into(),
                    kind: u64::from(*kind).into(),
                    total: (*total).into(),
                }),
                None => gone.push(id.into()),
            }
        }
        let (mut open, mut closed) = (Vec::new(), Vec::<U64>::new());
        for grant in grants {
            match self.grants.get(&grant) {
                Some(budget) => {
                    open.push(GrantRow { grant: grant.into(), budget: (*budget).into() });
                }
                None => closed.push(grant.into()),
            }
        }
        let known = if from == 0 { 0 } else { self.cells.changed.kinds };
        let tells_kept = from == 0 || self.cells.changed.kept;
        let (kinds, cells) = (self.kinds_from(known), self.cell_rows(cells));
        let kept: Vec<KeptRow> = match tells_kept {
            true => self.cells.kept.iter().map(KeptRow::of).collect(),
            false => Vec::new(),
        };
        let head = Head {
            magic: MAGIC,
            from: from.into(),
            to: self.sequence.into(),
            since_ms: self.since_ms.into(),
            unplaced: self.unplaced.into(),
            budgets: (rows.len() as u64).into(),
            gone: (gone.len() as u64).into(),
            grants: (open.len() as u64).into(),
            closed: (closed.len() as u64).into(),
            cells: (cells.len() as u64).into(),
            closed_before: self.cells.changed.closed.into(),
            cells_from: self.cells.from.into(),
            tells_kept: u64::from(tells_kept).into(),
            kept: (kept.len() as u64).into(),
            kinds: ((self.cells.kinds.len() - known) as u64).into(),
        };
        let parts: [&[u8]; 8] = [
            head.as_bytes(),
            rows.as_bytes(),
            gone.as_bytes(),
            open.as_bytes(),
            closed.as_bytes(),
            cells.as_bytes(),
            kept.as_bytes(),
            &kinds,
        ];
        parts.concat()
    }

    /// The rows of those of these cells that are open.
    fn cell_rows(&self, cells: &mut dyn Iterator<Item = CellId>) -> Vec<CellRow> {
        let row = |id: CellId| {
            let (hour, kind, budget, key) = id;
            let total = self.cells.open.get(&id)?.total.into();
            let (hour, kind) = (hour.into(), kind.into());
            Some(CellRow { hour, kind, budget: budget.into(), key: key.into(), total })
        };
        cells.filter_map(row).collect()
    }

    fn kinds_from(&self, known: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (unit, zone) in &self.cells.kinds[known..] {
            // Names of zones are short.
            let name = &zone.name().as_bytes()[..zone.name().len().min(255)];
            bytes.extend(unit.to_code());
            bytes.extend([name.len().to_le_bytes()[0]]);
            bytes.extend(name);
        }
        bytes
    }

    /// Figures that [`Figures::whole`] gave, or the first [`Figures::unsaved`].
    ///
    /// # Errors
    /// [`MergeError`].
    pub fn read(bytes: &[u8]) -> Result<Figures, MergeError> {
        let mut figures = Figures::begin(0);
        figures.take_over(bytes).map(|()| figures)
    }

    /// Takes over what a later [`Figures::unsaved`] gave.
    ///
    /// # Errors
    /// [`MergeError`]; nothing changed.
    pub fn merge(&mut self, bytes: &[u8]) -> Result<(), MergeError> {
        if self.saved != self.sequence {
            return Err(MergeError::Unsaved);
        }
        self.take_over(bytes)
    }

    fn take_over(&mut self, bytes: &[u8]) -> Result<(), MergeError> {
        let (head, rest) = Head::ref_from_prefix(bytes).map_err(|_| MergeError::Form)?;
        let (from, to) = (head.from.get(), head.to.get());
        if head.magic != MAGIC || from > to || to == 0 {
            return Err(MergeError::Form);
        }
        if from != self.sequence {
            return Err(MergeError::Gap { found: from, expected: self.sequence });
        }
        let (budgets, rest) = rows::<BudgetRow>(rest, head.budgets)?;
        let (gone, rest) = rows::<U64>(rest, head.gone)?;
        let (open, rest) = rows::<GrantRow>(rest, head.grants)?;
        let (closed, rest) = rows::<U64>(rest, head.closed)?;
        let (cells, rest) = rows::<CellRow>(rest, head.cells)?;
        let (kept, rest) = rows::<KeptRow>(rest, head.kept)?;
        let kinds = read_kinds(rest, head.kinds.get())?;
        let known = if from == 0 { 0 } else { self.cells.kinds.len() };
        let all = (known + kinds.len()) as u64;
        let is_known = |kind: u64| kind < all;
        let sound = budgets.iter().all(|row| is_known(row.kind.get()))
            && cells.iter().all(|row| is_known(row.kind.get().into()));
        if !sound {
            return Err(MergeError::Form);
        }
        let cell_totals =
            cells.iter().map(|row| row.total.read()).collect::<Result<Vec<_>, _>>()?;
        let totals = budgets.iter().map(|row| row.total.read()).collect::<Result<Vec<_>, _>>()?;
        let unplaced = head.unplaced.read()?;
        for (unit, zone) in kinds {
            self.cells.kind(unit, &zone);
        }
        self.cells.drop_before(head.closed_before.get());
        for (row, total) in cells.iter().zip(cell_totals) {
            let id = (row.hour.get(), row.kind.get(), row.budget.get(), row.key.get());
            self.cells.put(id, total);
        }
        if head.tells_kept.get() != 0 {
            self.cells.kept = kept.iter().map(KeptRow::read).collect();
        }
        self.cells.from = head.cells_from.get();
        self.cells.note_saved();
        for (row, total) in budgets.iter().zip(totals) {
            let parent = Some(row.parent.get()).filter(|parent| *parent != NO_PARENT);
            let (kind, hour) = (u32::try_from(row.kind.get()).unwrap_or(0), NO_HOUR);
            let budget = Budget { parent, kind, hour, total, is_noted: false };
            self.budgets.insert(row.id.get(), budget);
        }
        for id in gone {
            self.budgets.remove(&id.get());
        }
        self.grants.extend(open.iter().map(|row| (row.grant.get(), row.budget.get())));
        for grant in closed {
            self.grants.remove(&grant.get());
        }
        (self.since_ms, self.unplaced) = (head.since_ms.get(), unplaced);
        (self.sequence, self.saved) = (to, to);
        Ok(())
    }
}

impl KeptRow {
    fn of(kept: &Kept) -> KeptRow {
        KeptRow {
            sequence: kept.sequence.into(),
            first: kept.first.into(),
            last: kept.last.into(),
            bytes: kept.bytes.into(),
            sum: u64::from(kept.sum).into(),
        }
    }

    fn read(&self) -> Kept {
        Kept {
            sequence: self.sequence.get(),
            first: self.first.get(),
            last: self.last.get(),
            bytes: self.bytes.get(),
            sum: u32::try_from(self.sum.get()).unwrap_or(0),
        }
    }
}

/// Units and zones: so many, and nothing behind them.
fn read_kinds(mut rest: &[u8], count: u64) -> Result<Vec<(Unit, Zone)>, MergeError> {
    let mut kinds = Vec::new();
    for _ in 0..count {
        let (code, behind) = rest.split_first_chunk().ok_or(MergeError::Form)?;
        let (length, behind) = behind.split_first().ok_or(MergeError::Form)?;
        let (name, behind) =
            behind.split_at_checked(usize::from(*length)).ok_or(MergeError::Form)?;
        let unit = Unit::from_code(*code).ok().flatten().ok_or(MergeError::Form)?;
        let zone = std::str::from_utf8(name).ok().and_then(|name| Zone::parse(name).ok());
        kinds.push((unit, zone.ok_or(MergeError::Form)?));
        rest = behind;
    }
    if rest.is_empty() { Ok(kinds) } else { Err(MergeError::Form) }
}

/// So many rows off the front.
fn rows<T>(bytes: &[u8], count: U64) -> Result<(&[T], &[u8]), MergeError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let count = usize::try_from(count.get()).map_err(|_| MergeError::Form)?;
    <[T]>::ref_from_prefix_with_elems(bytes, count).map_err(|_| MergeError::Form)
}
