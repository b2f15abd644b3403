//! A page of marks: what became of 256 holds of a grant, and what those were settled with that were settled.
//!
//! A hold that was settled with its own amount needs no entry, as its token says the amount. Another amount has one. Where there is no
//! room for an entry, or an earlier version wrote the page, it is **partial**: then no entry means that the amount is not known.

use crate::Amount;
use crate::part::MARKS_BYTES;

/// Holds whose marks share a page.
pub(crate) const PAGE_HOLDS: u32 = 256;
const _: () = assert!(PAGE_HOLDS as usize == 2 * MARKS_BYTES);

/// Bits of an entry that hold the amount; the rest is the place of the hold in its page.
const AMOUNT_BITS: u32 = 56;
const AMOUNT_MASK: u64 = (1 << AMOUNT_BITS) - 1;
const _: () = assert!(money::ASK_MAX.get().cast_unsigned() <= AMOUNT_MASK);
const _: () =
    assert!((PAGE_HOLDS as u64 - 1) << AMOUNT_BITS >> AMOUNT_BITS == PAGE_HOLDS as u64 - 1);

/// Bit of a mark: the hold was clicked.
const CLICKED: u8 = 8;

/// What became of a hold; three bits of four, so that a repeated request gets its first answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Nobody spoke of it yet: alive until its deadline, then expired.
    Open,
    Confirmed,
    Settled,
    SettledOver,
    SettledLate,
    Released,
    /// Settled with less than its amount; the rest stays held until its billing time is over.
    SettledKeepsRest,
    /// It is a hold that ends by time now, and that says what became of it.
    Moved,
}

impl Mark {
    /// By their three bits; pages that are read have none of the numbers that are no mark.
    const ALL: [Mark; 8] = {
        let mut all = [Mark::Open; 8];
        all[Mark::Confirmed as usize] = Mark::Confirmed;
        all[Mark::Settled as usize] = Mark::Settled;
        all[Mark::SettledOver as usize] = Mark::SettledOver;
        all[Mark::SettledLate as usize] = Mark::SettledLate;
        all[Mark::Released as usize] = Mark::Released;
        all[Mark::SettledKeepsRest as usize] = Mark::SettledKeepsRest;
        all[Mark::Moved as usize] = Mark::Moved;
        all
    };

    /// The mark a verdict leaves; `None` for verdicts that leave none.
    pub(crate) fn of(verdict: wire::Verdict) -> Option<Mark> {
        use wire::Verdict;
        match verdict {
            Verdict::Confirmed => Some(Mark::Confirmed),
            Verdict::Settled => Some(Mark::Settled),
            Verdict::SettledOver => Some(Mark::SettledOver),
            Verdict::SettledLate => Some(Mark::SettledLate),
            Verdict::Released => Some(Mark::Released),
            _ => None,
        }
    }

    /// What a hold is, as the answer to a request that changes nothing.
    pub(crate) fn verdict(self) -> wire::Verdict {
        use wire::Verdict;
        match self {
            Mark::Open => Verdict::Granted,
            Mark::Confirmed | Mark::Moved => Verdict::Confirmed,
            Mark::Settled | Mark::SettledKeepsRest => Verdict::Settled,
            Mark::SettledOver => Verdict::SettledOver,
            Mark::SettledLate => Verdict::SettledLate,
            Mark::Released => Verdict::Released,
        }
    }

    #[inline]
    pub(crate) fn is_settled(self) -> bool {
        matches!(
            self,
            Mark::Settled | Mark::SettledOver | Mark::SettledLate | Mark::SettledKeepsRest
        )
    }
}

/// The marks and amounts of 256 holds.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    marks: [u8; MARKS_BYTES],
    /// A settled hold without an entry was settled with an amount that nobody knows any more, perhaps.
    partial: bool,
    /// In the order in which they came, each hold once.
    amounts: Vec<u64>,
}

#[inline]
fn place_of(seq: u32) -> u8 {
    (seq % PAGE_HOLDS).to_le_bytes()[0]
}

#[inline]
fn entry(place: u8, amount: Amount) -> u64 {
    u64::from(place) << AMOUNT_BITS | amount.get().cast_unsigned() & AMOUNT_MASK
}

#[inline]
fn split(entry: u64) -> (u8, Amount) {
    (entry.to_be_bytes()[0], Amount::new((entry & AMOUNT_MASK).cast_signed()))
}

impl Page {
    pub(crate) fn new() -> Page {
        Page { marks: [0; MARKS_BYTES], partial: false, amounts: Vec::new() }
    }

    /// A page that was read; `None` if no grant could have it.
    pub(crate) fn of(
        marks: [u8; MARKS_BYTES],
        whole: bool,
        amounts: &[(u8, Amount)],
    ) -> Option<Page> {
        let mut page = Page { marks, partial: false, amounts: Vec::with_capacity(amounts.len()) };
        let mut seen = [false; PAGE_HOLDS as usize];
        for (place, amount) in amounts {
            let again = std::mem::replace(&mut seen[usize::from(*place)], true);
            let sound = page.mark(u32::from(*place)).is_settled()
                && (Amount::ZERO..=money::ASK_MAX).contains(amount);
            if again || !sound {
                return None;
            }
            page.amounts.push(entry(*place, *amount));
        }
        page.partial = !whole && (0..PAGE_HOLDS).any(|seq| page.mark(seq).is_settled());
        Some(page)
    }

    #[inline]
    pub(crate) fn mark(&self, seq: u32) -> Mark {
        self.state(seq).0
    }

    /// What became of a hold, and whether it was clicked: one look for both.
    #[inline]
    pub(crate) fn state(&self, seq: u32) -> (Mark, bool) {
        let bits = self.marks[Page::byte_of(seq)] >> Page::shift_of(seq) & 0xF;
        (Mark::ALL[usize::from(bits & !CLICKED)], bits & CLICKED != 0)
    }

    pub(crate) fn click(&mut self, seq: u32) {
        self.marks[Page::byte_of(seq)] |= CLICKED << Page::shift_of(seq);
    }

    /// Changes what became of a hold; clicked it stays.
    #[inline]
    pub(crate) fn set_mark(&mut self, seq: u32, mark: Mark) {
        let byte = &mut self.marks[Page::byte_of(seq)];
        *byte = *byte & !(0x7 << Page::shift_of(seq)) | (mark as u8) << Page::shift_of(seq);
    }

    /// What a hold was settled with; `None` if that is not known, or it is not settled.
    pub(crate) fn amount(&self, seq: u32, held: Amount) -> Option<Amount> {
        if !self.mark(seq).is_settled() {
            return None;
        }
        match self.find(seq) {
            Some(at) => Some(split(self.amounts[at]).1),
            None if self.partial => None,
            None => Some(held),
        }
    }

    /// Needs a hold an entry that is settled with this amount, and was not settled before?
    #[inline(always)]
    pub(crate) fn needs_entry(&self, held: Amount, amount: Amount) -> bool {
        amount != held || self.partial
    }

    /// Changes what a settled hold is settled with in all. False: it has no entry.
    pub(crate) fn renote(&mut self, seq: u32, total: Amount) -> bool {
        let found = self.find(seq);
        if let Some(at) = found {
            self.amounts[at] = entry(place_of(seq), total);
        }
        found.is_some()
    }

    /// Notes what a hold is settled with in all that has no entry, where fewer are there than the most. False: there was no room.
    #[inline(always)]
    pub(crate) fn note(
        &mut self,
        seq: u32,
        amount: Amount,
        there: &mut usize,
        most: usize,
    ) -> bool {
        if *there >= most {
            self.partial = true;
            return false;
        }
        self.amounts.push(entry(place_of(seq), amount));
        *there += 1;
        true
    }

    fn find(&self, seq: u32) -> Option<usize> {
        // Whoever asks again mostly does so soon.
        self.amounts.iter().rposition(|entry| split(*entry).0 == place_of(seq))
    }

    pub(crate) fn marks(&self) -> &[u8; MARKS_BYTES] {
        &self.marks
    }

    /// Is the amount of every settled hold known?
    pub(crate) fn is_whole(&self) -> bool {
        !self.partial
    }

    /// The entries: place in the page, and amount.
    pub(crate) fn amounts(&self) -> impl ExactSizeIterator<Item = (u8, Amount)> {
        self.amounts.iter().map(|entry| split(*entry))
    }

    pub(crate) fn prefetch(&self, seq: u32) {
        table::prefetch(&self.marks[Page::byte_of(seq)]);
        table::prefetch(&self.amounts);
    }

    #[inline]
    fn byte_of(seq: u32) -> usize {
        (seq % PAGE_HOLDS / 2) as usize
    }

    #[inline]
    fn shift_of(seq: u32) -> u32 {
        seq % 2 * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Amount = Amount::new(10);

    /// Settles a hold; returns how many entries that takes, or nothing where it needs one and there is no room.
    fn settled(page: &mut Page, seq: u32, amount: i64, has_room: bool) -> Option<usize> {
        page.set_mark(seq, Mark::Settled);
        let (amount, mut there) = (Amount::new(amount), 0);
        let noted = !page.needs_entry(HELD, amount)
            || page.note(seq, amount, &mut there, usize::from(has_room));
        noted.then_some(there)
    }

    #[test]
    fn only_another_amount_than_the_holds_takes_room() {
        let mut page = Page::new();
        assert_eq!(page.amount(3, HELD), None, "not settled");
        assert_eq!(settled(&mut page, 3, 10, true), Some(0));
        assert_eq!(settled(&mut page, 4, 0, true), Some(1));
        assert_eq!(settled(&mut page, 256 + 255, money::ASK_MAX.get(), true), Some(1));
        let known = [3, 4, 255].map(|seq| page.amount(seq, HELD));
        assert_eq!(known, [Some(HELD), Some(Amount::ZERO), Some(money::ASK_MAX)]);
        assert!(page.renote(4, Amount::new(7)), "its entry is changed");
        assert!(!page.renote(3, Amount::new(12)), "it has none");
        assert!(page.note(3, Amount::new(12), &mut 0, 1));
        let known = [3, 4].map(|seq| page.amount(seq, HELD));
        assert_eq!(known, [Some(Amount::new(12)), Some(Amount::new(7))]);
    }

    #[test]
    fn without_room_an_amount_is_unknown_and_never_wrong() {
        let mut page = Page::new();
        assert_eq!(settled(&mut page, 1, 10, false), Some(0), "needs no room");
        assert_eq!(settled(&mut page, 2, 9, true), Some(1));
        assert_eq!(settled(&mut page, 3, 9, false), None);
        let known = [1, 2, 3].map(|seq| page.amount(seq, HELD));
        assert_eq!(known, [None, Some(Amount::new(9)), None]);
        assert_eq!(settled(&mut page, 4, 10, true), Some(1), "from then on each takes room");
        assert_eq!(page.amount(4, HELD), Some(HELD));
        assert!(page.note(1, Amount::new(8), &mut 0, 1));
        assert_eq!(page.amount(1, HELD), Some(Amount::new(8)));
    }

    #[test]
    fn pages_that_cannot_be_are_refused() {
        let mut page = Page::new();
        settled(&mut page, 2, 9, true);
        let marks = *page.marks();
        let read = |whole, amounts: &[(u8, i64)]| {
            let amounts: Vec<_> =
                amounts.iter().map(|(place, amount)| (*place, Amount::new(*amount))).collect();
            Page::of(marks, whole, &amounts)
        };
        let same = read(true, &[(2, 9)]).unwrap();
        assert_eq!((same.amount(2, HELD), same.is_whole()), (Some(Amount::new(9)), true));
        let older = read(false, &[]).unwrap();
        assert_eq!((older.amount(2, HELD), older.is_whole()), (None, false));
        let none = Page::of([0; MARKS_BYTES], false, &[]).unwrap();
        assert!(none.is_whole(), "nothing is settled, so nothing is unknown");
        for wrong in [&[(3, 9)][..], &[(2, 9), (2, 9)], &[(2, -1)], &[(2, i64::MAX)]] {
            assert!(read(true, wrong).is_none(), "{wrong:?}");
        }
    }

    #[test]
    fn a_click_stays_whatever_becomes_of_its_hold() {
        let mut page = Page::new();
        page.click(3);
        let clicked = |page: &Page| [2, 3, 4].map(|seq| page.state(seq).1);
        for mark in Mark::ALL {
            page.set_mark(3, mark);
            page.set_mark(2, mark);
            assert_eq!((page.mark(3), page.mark(2), page.mark(4)), (mark, mark, Mark::Open));
            assert_eq!(clicked(&page), [false, true, false]);
        }
        let read = Page::of(*page.marks(), false, &[]).unwrap();
        assert_eq!((clicked(&read), read.mark(3)), ([false, true, false], Mark::ALL[7]));
    }
}
