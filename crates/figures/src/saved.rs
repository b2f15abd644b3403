//! Figures as bytes: what changed, with the sequence that it leads to.
//!
//! ```text
//!  head: "WEIRFIG2", from, to, since_ms, unplaced, four numbers of rows
//!  budgets: id, parent, impressions, clicks, spend     their values now
//!  gone: id                                    budgets that are forgotten
//!  grants: grant, budget                       open ones
//!  closed: grant
//! ```
//! Numbers are 64 bits, little endian. Rows hold values and no differences: `from` says what they change.

use std::borrow::Cow;

use zerocopy::little_endian::{I64, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use ledger::Amount;

use crate::fold::{Budget, Figures, Total};

const MAGIC: [u8; 8] = *b"WEIRFIG2";
/// Of figures without clicks.
const MAGIC_BEFORE_CLICKS: [u8; 8] = *b"WEIRFIG1";
/// Bytes of their head and of their rows of budgets, and where in both the clicks stand now.
const BEFORE_CLICKS: [(usize, usize); 2] = [(80, 40), (32, 24)];
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
}

const _: () = assert!(size_of::<Head>() == 88);

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
        self.write(0, &mut self.budgets.keys().copied(), &mut self.grants.keys().copied())
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
        Some(self.write(self.saved, &mut budgets.into_iter(), &mut grants))
    }

    /// Notes that what [`Figures::unsaved`] gave is durable.
    pub fn saved(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        for id in changed.budgets {
            if let Some(budget) = self.budgets.get_mut(&id) {
                budget.is_noted = false;
            }
        }
        self.saved = self.sequence;
    }

    fn write(
        &self,
        from: u64,
        budgets: &mut dyn Iterator<Item = u64>,
        grants: &mut dyn Iterator<Item = u64>,
    ) -> Vec<u8> {
        let (mut rows, mut gone) = (Vec::new(), Vec::<U64>::new());
        for id in budgets {
            match self.budgets.get(&id) {
                Some(Budget { parent, total, .. }) => rows.push(BudgetRow {
                    id: id.into(),
                    parent: parent.unwrap_or(NO_PARENT).into(),
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
        };
        let parts: [&[u8]; 5] =
            [head.as_bytes(), rows.as_bytes(), gone.as_bytes(), open.as_bytes(), closed.as_bytes()];
        parts.concat()
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
        let bytes = &*with_clicks(bytes);
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
        let totals = budgets.iter().map(|row| row.total.read()).collect::<Result<Vec<_>, _>>()?;
        let unplaced = head.unplaced.read()?;
        if !rest.is_empty() {
            return Err(MergeError::Form);
        }
        for (row, total) in budgets.iter().zip(totals) {
            let parent = Some(row.parent.get()).filter(|parent| *parent != NO_PARENT);
            self.budgets.insert(row.id.get(), Budget { parent, total, is_noted: false });
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

/// Figures as they are written now, of some that may have been written without clicks: none were counted.
fn with_clicks(bytes: &[u8]) -> Cow<'_, [u8]> {
    let [(head, at), (row, row_at)] = BEFORE_CLICKS;
    let Some((head, rest)) =
        bytes.split_at_checked(head).filter(|_| bytes.starts_with(&MAGIC_BEFORE_CLICKS))
    else {
        return Cow::Borrowed(bytes);
    };
    let count =
        head.get(48..56).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let rows = usize::try_from(count).ok().and_then(|count| count.checked_mul(row));
    let Some((rows, rest)) = rows.and_then(|rows| rest.split_at_checked(rows)) else {
        return Cow::Borrowed(bytes);
    };
    let mut all = [&MAGIC, &head[8..at], &[0; 8], &head[at..]].concat();
    for old in rows.chunks_exact(row) {
        all.extend([&old[..row_at], &[0; 8], &old[row_at..]].concat());
    }
    all.extend(rest);
    Cow::Owned(all)
}

/// So many rows off the front.
fn rows<T>(bytes: &[u8], count: U64) -> Result<(&[T], &[u8]), MergeError>
where
    T: FromBytes + Immutable + KnownLayout + Unaligned,
{
    let count = usize::try_from(count.get()).map_err(|_| MergeError::Form)?;
    <[T]>::ref_from_prefix_with_elems(bytes, count).map_err(|_| MergeError::Form)
}
