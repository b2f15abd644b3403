//! What a campaign is asked, packed: all of it lies side by side, so that asking it waits for memory once or twice.
//!
//! ```text
//!   conditions ─ modifiers ─ deals ─ creatives: where each begins, then each: head, keys
//! ```

use crate::campaign::{Campaign, Creative, Modifier};
use crate::conditions;
use crate::key::UNKNOWN;
use crate::request::Format;

/// Words of a cache line.
const LINE: usize = 64 / size_of::<u32>();
/// Words of a creative before its keys.
const HEAD: usize = 8;
/// In the first word of a head: loads everything by HTTPS.
const SECURE: u32 = 1 << 8;

/// Where a campaign's record lies, and how long its parts are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    start: u32,
    conditions: u32,
    deals: u32,
    /// At most [`CREATIVES_MAX`](crate::CREATIVES_MAX).
    creatives: u16,
    /// At most [`MODIFIERS_MAX`](crate::MODIFIERS_MAX).
    modifiers: u8,
    pub(crate) deals_only: bool,
}

impl Span {
    /// The number of creatives the campaign has.
    #[inline]
    pub(crate) fn creatives(&self) -> usize {
        self.creatives.into()
    }

    #[inline]
    pub(crate) fn has_modifiers(&self) -> bool {
        self.modifiers > 0
    }
}

/// All records, in the order of slots.
#[derive(Debug, Default)]
pub(crate) struct Records {
    words: Vec<u32>,
}

/// What one campaign is asked.
#[derive(Clone, Copy)]
pub(crate) struct Record<'a> {
    /// The part of its targeting that is not known to hold for whoever was found.
    pub(crate) conditions: &'a [u32],
    modifiers: &'a [u32],
    pub(crate) deals: &'a [u32],
    creatives: &'a [u32],
    /// The number of creatives.
    pub(crate) count: usize,
}

/// A creative.
#[derive(Clone, Copy)]
pub(crate) struct Outline<'a> {
    head: &'a [u32; HEAD],
    keys: &'a [u32],
}

impl Records {
    /// For when all are written: from here on lines of records are lines of the memory. `spans` are all that were given out.
    pub(crate) fn settle<'a>(mut self, spans: impl Iterator<Item = &'a mut Span>) -> Records {
        self.words.resize(self.words.len() + LINE, 0);
        let mut words = table::in_huge_pages(self.words);
        let first = words.as_ptr().align_offset(size_of::<[u32; LINE]>()).min(LINE);
        words.rotate_right(first);
        spans.for_each(|span| span.start += small(first));
        Records { words }
    }

    pub(crate) fn add(&mut self, campaign: &Campaign) -> Span {
        let words = &mut self.words;
        let mut start = words.len();
        conditions::push_refusals(&campaign.targeting, words);
        let conditions = words.len() - start;
        for Modifier { segment, factor } in &campaign.modifiers {
            words.extend([*segment, *factor]);
        }
        words.extend_from_slice(&campaign.targeting.deals);
        let creatives = words.len();
        words.resize(creatives + campaign.creatives.len(), 0);
        for (at, creative) in campaign.creatives.iter().enumerate() {
            words[creatives + at] = small(words.len() - creatives);
            push_creative(creative, words);
        }
        // Where that saves a line it begins with the next one.
        let (length, within) = (words.len() - start, start % LINE);
        if (within + length).div_ceil(LINE) > length.div_ceil(LINE) {
            words.splice(start..start, std::iter::repeat_n(0, LINE - within));
            start += LINE - within;
        }
        Span {
            start: small(start),
            conditions: small(conditions),
            deals: small(campaign.targeting.deals.len()),
            creatives: u16::try_from(campaign.creatives.len()).unwrap_or(u16::MAX),
            modifiers: u8::try_from(campaign.modifiers.len()).unwrap_or(u8::MAX),
            deals_only: campaign.targeting.deals_only,
        }
    }

    #[inline]
    pub(crate) fn get(&self, span: &Span) -> Record<'_> {
        let words = &self.words[span.start as usize..];
        let (conditions, words) = words.split_at(span.conditions as usize);
        let (modifiers, words) = words.split_at(usize::from(span.modifiers) * 2);
        let (deals, creatives) = words.split_at(span.deals as usize);
        Record { conditions, modifiers, deals, creatives, count: span.creatives() }
    }

    /// Asks for the memory of a record.
    #[inline]
    pub(crate) fn prefetch(&self, span: &Span) {
        let words = &self.words[span.start as usize..];
        words.iter().step_by(LINE).take(3).for_each(table::prefetch);
    }
}

fn push_creative(creative: &Creative, words: &mut Vec<u32>) {
    let sizes = creative.sizes.len();
    let domains = sizes + creative.domains.len();
    let categories = domains + creative.categories.len();
    let attributes = categories + creative.attributes.len();
    words.extend([
        creative.format as u32 | if creative.secure { SECURE } else { 0 },
        creative.duration_s,
        creative.bundle.unwrap_or(UNKNOWN),
        creative.language.unwrap_or(UNKNOWN),
    ]);
    words.extend([sizes, domains, categories, attributes].map(small));
    words.extend(creative.sizes.iter().copied().map(pack));
    words.extend_from_slice(&creative.domains);
    words.extend_from_slice(&creative.categories);
    words.extend(creative.attributes.iter().copied().map(u32::from));
}

impl<'a> Record<'a> {
    #[inline]
    pub(crate) fn modifiers(&self) -> impl Iterator<Item = Modifier> + use<'a> {
        let pairs = self.modifiers.as_chunks().0.iter();
        pairs.map(|&[segment, factor]| Modifier { segment, factor })
    }

    /// The creative at a position below `count`.
    #[inline]
    pub(crate) fn creative(&self, at: usize) -> Option<Outline<'a>> {
        let words = self.creatives.get(*self.creatives.get(at)? as usize..)?;
        let (head, keys) = words.split_first_chunk()?;
        Some(Outline { head, keys })
    }

    pub(crate) fn creatives(&self) -> impl Iterator<Item = Outline<'a>> {
        (0..self.count).map_while(|at| self.creative(at))
    }
}

impl<'a> Outline<'a> {
    #[inline]
    pub(crate) fn format(&self) -> Format {
        match self.head[0] & 0xff {
            1 => Format::Banner,
            2 => Format::Video,
            3 => Format::Audio,
            _ => Format::Native,
        }
    }

    #[inline]
    pub(crate) fn secure(&self) -> bool {
        self.head[0] & SECURE != 0
    }

    #[inline]
    pub(crate) fn duration_s(&self) -> u32 {
        self.head[1]
    }

    /// [`UNKNOWN`] for none.
    #[inline]
    pub(crate) fn bundle(&self) -> u32 {
        self.head[2]
    }

    /// [`UNKNOWN`] where it is not said.
    #[inline]
    pub(crate) fn language(&self) -> u32 {
        self.head[3]
    }

    /// Width and height, each [`pack`]ed.
    #[inline]
    pub(crate) fn sizes(&self) -> &'a [u32] {
        &self.keys[..self.head[4] as usize]
    }

    #[inline]
    pub(crate) fn domains(&self) -> &'a [u32] {
        &self.keys[self.head[4] as usize..self.head[5] as usize]
    }

    #[inline]
    pub(crate) fn categories(&self) -> &'a [u32] {
        &self.keys[self.head[5] as usize..self.head[6] as usize]
    }

    #[inline]
    pub(crate) fn attributes(&self) -> &'a [u32] {
        &self.keys[self.head[6] as usize..self.head[7] as usize]
    }
}

/// A size as one number.
#[inline]
pub(crate) fn pack((width, height): (u16, u16)) -> u32 {
    u32::from(width) << 16 | u32::from(height)
}

/// The reverse of [`pack`].
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the halves are taken apart")]
pub(crate) fn unpack(size: u32) -> (u16, u16) {
    ((size >> 16) as u16, size as u16)
}

/// At most 2^20 campaigns; their words are counted with 32 bits, which is 16 GiB.
fn small(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
