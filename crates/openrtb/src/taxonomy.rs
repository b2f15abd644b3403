//! Categories of the IAB's content taxonomies 2.x beside those of 1.0, in which campaigns name theirs.
//!
//! The tables are what the IAB Tech Lab's "Content 1.0 to Content 2.0" says (InteractiveAdvertisingBureau/Taxonomies,
//! `Taxonomy Mappings`, under CC BY 3.0), by ids alone, and its guidance on sensitive topics of 2.2 (`implementation.md`). Minor
//! versions keep their ids, so they hold for 2.0 to 2.2. What is not in them is unknown, as all of 3.0 is, which "may not be
//! used alongside earlier versions".

use std::fmt;

use crate::lists::Texts;

/// `cattax` of the first content taxonomy.
pub const TAXONOMY_FIRST: u32 = 1;
/// `cattax` of 2.0, 2.1 and 2.2.
const MAPPED: [u32; 3] = [2, 5, 6];
/// Of these, the one that can say that a page is about something sensitive. 2 is also sent for all of 2.x.
const WITH_SENSITIVE: u32 = 6;
/// No counterpart, or none that means the same.
const NONE: u16 = 0;
/// Ids of sensitive topics are no numbers: they count from here.
const SENSITIVE_AT: u16 = 1_024;
const IDS: usize = SENSITIVE_AT as usize + 64;

/// By category of the first tier, from `IAB1`: its id, then those of `IAB1-1`, `IAB1-2` and so on.
#[rustfmt::skip]
const IDS_OF_FIRST: [(u16, &[u16]); 26] = [
    (1014, &[42, 432, 201, 440, 324, 338, 640]),
    (1, &[32, 34, 30, 25, 18, 8, 9, 10, 1, 22, 11, 22, 23, 13, 27, 14, 24, 15, 28, 4, 3, 19, 5]),
    (52, &[91, 102, 119, 72, 121, 102, 77, 78, 55, 57, 58, 107]),
    (123, &[126, 137, 395, 128, 127, 129, 123, 395, 130, 122, 125]),
    (132, &[132, 133, 132, 137, 137, 148, 147, 147, 139, 145, 146, 149, 134, 136, 137]),
    (186, &[193, 196, 194, 195, 197, 198, 305, 199, 190]),
    (223, &[225, 313, 297, 288, 233, 312, 300, 313, 301, 313, 314, 296, 287, 287, 315, 289, 316, 301, 309, 317, 313, 318, 313,
        296, 234, 235, 318, 301, 287, 304, 228, 229, 312, 301, 224, 236, 301, 230, 307, 310, 237, 311, 293, 231, 238]),
    (210, &[214, 215, 214, 214, 211, 222, 214, 217, 218, 219, 214, 221, 214, 214, 214, 212, 213, 211]),
    (239, &[205, 248, 249, 259, 270, 250, 271, 270, 260, 261, 262, 251, 266, 273, 266, 243, 265, 239, 252, 241, 253, 254, 255,
        239, 272, 246, 256, 267, 263, 680, 257]),
    (274, &[278, 279, 274, 275, 280, 634, 283, 284, 276]),
    (379, &[379, 383, NONE, 386, 379]),
    (379, &[382, 385, 384]),
    (391, &[410, 405, 391, 396, 411, 398, 410, 412, 413, 416, 414, 415]),
    (186, &[188, 189, 186, 191, 190, 198, 165, NONE]),
    (464, &[456, 465, 466, 470, 244, 471, 472, 469, 465, 390]),
    (422, &[426, 423, 424, 425, 427, 429, 430]),
    (483, &[518, 545, 492, 549, 485, 499, 486, 500, 491, 510, 511, 484, 511, 511, 512, 497, 496, 514, 516, 520, 492, 518, 521,
        501, 519, 547, 515, 525, 527, 227, 530, 511, 502, 503, 531, 504, 505, 537, 538, 539, 541, 542, 506, 533]),
    (552, &[553, 574, 552, 565, 552, 561]),
    (596, &[603, 610, 608, 631, 633, 635, 599, 600, 601, 599, 616, 611, 612, 606, 623, 614, 634, 619, 631, 631, 599, 613, 607,
        624, 618, 636, 599, 630, 634, 605, 615, 631, 629, 629, 627, 615]),
    (653, &[665, 656, 672, 658, 674, 675, 676, 660, 677, 660, 660, 678, 659, 659, 659, 659, 667, 668, 659, 657, 660, 660, 662,
        671, 151, 666, 659]),
    (441, &[442, 441, 451]),
    (473, &[474, 474, 473, 473]),
    (453, &[453, 457, 458, 459, 459, 460, 461, 462, 459, 453]),
    (NONE, &[]),
    (NONE, &[NONE, SENSITIVE_AT, SENSITIVE_AT + 1, SENSITIVE_AT + 2, SENSITIVE_AT + 3, NONE, NONE]),
    (SENSITIVE_AT + 4, &[SENSITIVE_AT + 4, SENSITIVE_AT + 5, SENSITIVE_AT + 6, SENSITIVE_AT + 6]),
];

/// Sensitive topics of 2.2, in the order of their numbers from [`SENSITIVE_AT`].
const SENSITIVE: [&str; 7] = ["I4GWI6", "Rm3SiT", "j9PaO9", "HxqYV1", "xtODT3", "6i4dB6", "mm3UXx"];

/// What a category of the first tier may be as well, where the guidance names several.
const ALSO: [(u8, &[u16]); 2] = [(1, &[201, 324, 338, 432, 640, 680]), (7, &[286])];

/// An id of 2.x and those right below it, as far as [`IDS_OF_FIRST`] or an id below has them.
#[rustfmt::skip]
const CHILDREN: [(u16, &[u16]); 55] = [
    (1, &[2, 16, 25, 27, 28, 30, 32, 34]),
    (2, &[3, 4, 5, 8, 9, 10, 11, 13, 14, 15]),
    (16, &[18, 19, 22, 23, 24]),
    (52, &[53, 90]),
    (53, &[55, 57, 58, 72, 77, 78]),
    (90, &[91, 102, 107, 119, 121, 122]),
    (123, &[125, 126, 127, 130]),
    (127, &[128, 129]),
    (132, &[133, 134, 136, 137, 145, 146, 147, 148, 149]),
    (137, &[139]),
    (150, &[151, 163]),
    (163, &[165]),
    (186, &[188, 189, 190, 191, 192]),
    (192, &[193, 194, 195, 196, 197, 198, 199]),
    (201, &[205]),
    (210, &[211, 212, 213, 214, 215, 217, 218, 219, 221, 222]),
    (223, &[224, 225, 228, 229, 230, 231, 232, 238]),
    (225, &[227]),
    (232, &[233, 236, 237]),
    (233, &[234, 235]),
    (239, &[241, 243, 244, 246, 248, 259, 260, 261, 264, 269, 273]),
    (248, &[249, 250, 251, 252, 253, 254, 255, 256, 257]),
    (261, &[262, 263]),
    (264, &[265, 266, 267]),
    (269, &[270, 271, 272]),
    (274, &[275, 276, 278, 279, 280, 283, 284]),
    (286, &[287]),
    (287, &[288, 289, 290, 296, 297, 300, 301, 302, 307, 309, 310, 311, 312, 313, 314, 315, 316, 317, 318]),
    (290, &[293]),
    (302, &[304, 305]),
    (379, &[382, 383, 384, 385, 386, 390]),
    (391, &[393, 396, 398, 405, 410, 415, 416]),
    (393, &[395]),
    (410, &[411, 412, 413, 414]),
    (422, &[423, 424, 425, 426, 427, 429, 430]),
    (432, &[440]),
    (441, &[442, 451]),
    (453, &[456, 457, 458, 459, 460, 461, 462]),
    (464, &[465, 466, 469, 470, 471, 472]),
    (473, &[474]),
    (483, &[484, 485, 486, 491, 492, 496, 498, 510, 511, 512, 514, 515, 516, 518, 520, 521, 525, 527, 530, 531, 533, 537, 538,
        539, 541, 542, 545, 547, 549]),
    (496, &[497]),
    (498, &[499, 500, 501, 502, 503, 504, 505, 506]),
    (518, &[519]),
    (552, &[553, 560, 574]),
    (560, &[561]),
    (561, &[565]),
    (596, &[599, 632]),
    (599, &[600, 601, 602, 616, 618, 619, 630, 631]),
    (602, &[603, 605, 606, 607, 608, 610, 611, 612, 613, 614, 615]),
    (619, &[623, 624, 627, 629]),
    (632, &[633, 634, 635, 636]),
    (653, &[655, 664]),
    (655, &[656, 657, 658, 659, 660, 662]),
    (664, &[665, 666, 667, 668, 671, 672, 674, 675, 676, 677, 678]),
];

/// A category of the first content taxonomy, `IAB17` or `IAB17-30`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstCategory {
    tier_1: u8,
    /// 0: none, the whole of the first tier.
    tier_2: u8,
}

impl FirstCategory {
    /// Reads its name. `None` for what is none of the taxonomy.
    #[must_use]
    pub fn read(name: &str) -> Option<FirstCategory> {
        let (tier_1, tier_2) = match name.strip_prefix("IAB")?.split_once('-') {
            Some((tier_1, tier_2)) => (tier_1, Some(number(tier_2)?)),
            None => (name.strip_prefix("IAB")?, None),
        };
        let tier_1 = number(tier_1)?;
        let (_, below) = IDS_OF_FIRST.get(usize::from(tier_1) - 1)?;
        let tier_2 = tier_2.unwrap_or(0);
        (usize::from(tier_2) <= below.len()).then_some(FirstCategory { tier_1, tier_2 })
    }

    /// Is it one of the first tier?
    #[must_use]
    pub fn is_whole(self) -> bool {
        self.tier_2 == 0
    }

    /// The one above it; of the first tier itself.
    #[must_use]
    pub fn whole(self) -> FirstCategory {
        FirstCategory { tier_2: 0, ..self }
    }

    fn id(self) -> u16 {
        let Some((whole, below)) = IDS_OF_FIRST.get(usize::from(self.tier_1) - 1) else {
            return NONE;
        };
        match self.tier_2 {
            0 => *whole,
            at => below.get(usize::from(at) - 1).copied().unwrap_or(NONE),
        }
    }

    /// The others that it may be.
    fn also(self) -> &'static [u16] {
        let found = ALSO.iter().find(|(tier_1, _)| self.tier_2 == 0 && *tier_1 == self.tier_1);
        found.map_or(&[], |(_, ids)| ids)
    }

    fn all() -> impl Iterator<Item = FirstCategory> {
        (1..).zip(IDS_OF_FIRST).flat_map(|(tier_1, (_, below))| {
            (0..).take(below.len() + 1).map(move |tier_2| FirstCategory { tier_1, tier_2 })
        })
    }
}

impl fmt::Display for FirstCategory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.tier_2 {
            0 => write!(f, "IAB{}", self.tier_1),
            tier_2 => write!(f, "IAB{}-{tier_2}", self.tier_1),
        }
    }
}

/// A number from 1 as these names have it: no sign, no zero in front.
fn number(text: &str) -> Option<u8> {
    let is_plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// Are its categories those of 2.x, which can be compared with those of the first?
#[must_use]
pub fn is_mapped(taxonomy: Option<u32>) -> bool {
    taxonomy.is_some_and(|taxonomy| MAPPED.contains(&taxonomy))
}

/// What no category of such a taxonomy can say, though a page may be it: names of the first taxonomy, each with what is
/// below it.
#[must_use]
pub fn unsaid(taxonomy: Option<u32>) -> &'static [&'static str] {
    match taxonomy {
        Some(WITH_SENSITIVE) => &["IAB24", "IAB25-1", "IAB25-6", "IAB25-7"],
        _ => &["IAB24", "IAB25", "IAB26"],
    }
}

/// The categories of the first taxonomy that a category of 2.x may be; none where it is unknown.
pub fn first_categories(name: &str) -> impl Iterator<Item = FirstCategory> + use<> {
    let id = id_of(name).unwrap_or(NONE);
    let is = move |one: &FirstCategory| {
        // What only may be meant, where something else surely is, is not looked at.
        one.id() == id || (id == 286 && one.also().contains(&id))
    };
    FirstCategory::all().filter(move |one| id != NONE && is(one))
}

/// The number that the tables have for an id of 2.x.
fn id_of(name: &str) -> Option<u16> {
    if let Some(at) = SENSITIVE.iter().position(|one| *one == name) {
        return Some(SENSITIVE_AT + u16::try_from(at).ok()?);
    }
    let is_plain = !name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit());
    name.parse().ok().filter(|id| is_plain && (1..SENSITIVE_AT).contains(id))
}

/// By id, the one above it; [`NONE`] where there is none.
const PARENTS: [u16; IDS] = parents();
/// Ids that are in a table.
const KNOWN: [u64; IDS / 64] = known();

const fn parents() -> [u16; IDS] {
    let mut parents = [NONE; IDS];
    let mut row = 0;
    while row < CHILDREN.len() {
        let (above, below) = CHILDREN[row];
        let mut at = 0;
        while at < below.len() {
            parents[below[at] as usize] = above;
            at += 1;
        }
        row += 1;
    }
    parents
}

const fn known() -> [u64; IDS / 64] {
    let mut known = [0; IDS / 64];
    let mut row = 0;
    while row < CHILDREN.len() {
        let (above, below) = CHILDREN[row];
        known = with(known, above, below);
        row += 1;
    }
    row = 0;
    while row < IDS_OF_FIRST.len() {
        let (whole, below) = IDS_OF_FIRST[row];
        known = with(known, whole, below);
        row += 1;
    }
    known[0] &= !1;
    known
}

const fn with(mut known: [u64; IDS / 64], one: u16, more: &[u16]) -> [u64; IDS / 64] {
    known[one as usize / 64] |= 1 << (one % 64);
    let mut at = 0;
    while at < more.len() {
        known[more[at] as usize / 64] |= 1 << (more[at] % 64);
        at += 1;
    }
    known
}

fn parent(id: u16) -> Option<u16> {
    PARENTS.get(usize::from(id)).copied().filter(|above| *above != NONE)
}

/// An id and all above it.
fn chain(id: u16) -> impl Iterator<Item = u16> {
    std::iter::successors(Some(id).filter(|id| *id != NONE), |id| parent(*id))
}

fn has(ids: &[u64; IDS / 64], id: u16) -> bool {
    ids.get(usize::from(id) / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
}

/// A block- or allowlist in categories of 2.x. Who names one names all below it.
#[derive(Clone, Debug)]
pub struct CategoryList {
    ids: [u64; IDS / 64],
    /// Some are in no table.
    has_unknown: bool,
    is_empty: bool,
}

impl CategoryList {
    /// Reads a list.
    #[must_use]
    pub fn read(names: Texts<'_>) -> CategoryList {
        let mut list =
            CategoryList { ids: [0; IDS / 64], has_unknown: false, is_empty: names.is_empty() };
        for name in names.iter() {
            match id_of(name.trim()).filter(|id| has(&KNOWN, *id)) {
                Some(id) => list.ids[usize::from(id) / 64] |= 1 << (id % 64),
                None => list.has_unknown = true,
            }
        }
        list
    }

    fn has(&self, id: u16) -> bool {
        has(&self.ids, id)
    }

    /// May a category of the first taxonomy be one of the list? It may, where nobody knows: where it has no counterpart, or
    /// the list names what is in no table.
    #[must_use]
    pub fn may_have(&self, category: &str) -> bool {
        if self.is_empty {
            return false;
        }
        let category = FirstCategory::read(category).filter(|one| one.id() != NONE);
        let Some(category) = category.filter(|_| !self.has_unknown) else { return true };
        let also = category.also().iter().copied().flat_map(chain);
        chain(category.id()).chain(also).any(|id| self.has(id)) || self.has(category.whole().id())
    }

    /// Is a category of the first taxonomy surely one of the list?
    #[must_use]
    pub fn has_surely(&self, category: &str) -> bool {
        let id = FirstCategory::read(category).map_or(NONE, FirstCategory::id);
        chain(id).any(|id| self.has(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for one in FirstCategory::all() {
            assert_eq!(FirstCategory::read(&one.to_string()), Some(one));
        }
        assert_eq!(FirstCategory::all().count(), 26 + 366);
        for wrong in [
            "", "IAB", "IAB0", "IAB27", "IAB1-0", "IAB1-8", "IAB01", "IAB1-", "1", "iab1",
            "IAB1-1-1", "IAB+1", "IAB999",
        ] {
            assert_eq!(FirstCategory::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn the_tables_agree() {
        let mut below: Vec<u16> = CHILDREN.iter().flat_map(|(_, below)| *below).copied().collect();
        let count = below.len();
        below.sort_unstable();
        below.dedup();
        assert_eq!(below.len(), count, "each has one above it");
        for one in FirstCategory::all() {
            let above = chain(one.id()).collect::<Vec<_>>();
            assert!(above.len() <= 5, "{one} has an end: {above:?}");
            assert!(one.also().iter().all(|id| has(&KNOWN, *id)), "{one}");
        }
        // Each id leads back to what has it.
        for one in FirstCategory::all().filter(|one| one.id() != NONE) {
            let name = match one.id().checked_sub(SENSITIVE_AT) {
                Some(at) => SENSITIVE[usize::from(at)].to_string(),
                None => one.id().to_string(),
            };
            assert!(first_categories(&name).any(|found| found == one), "{one}");
        }
        let none: Vec<String> = FirstCategory::all()
            .filter(|one| one.id() == NONE)
            .map(|one| one.to_string())
            .collect();
        let expected = ["IAB11-3", "IAB14-8", "IAB24", "IAB25", "IAB25-1", "IAB25-6", "IAB25-7"];
        assert_eq!(none, expected, "those without a counterpart");
    }

    #[test]
    fn what_a_category_may_be() {
        let of = |name: &str| first_categories(name).map(|one| one.to_string()).collect::<Vec<_>>();
        assert_eq!(of("518"), ["IAB17-1", "IAB17-22"]);
        assert_eq!(of("307"), ["IAB7-39"]);
        assert_eq!(of("286"), ["IAB7"]);
        assert_eq!(of("mm3UXx"), ["IAB26-3", "IAB26-4"]);
        for unknown in ["", "0", "0518", "90210", "1024", "1455", "+5", "IAB17", "RM3SIT", "53"] {
            assert!(of(unknown).is_empty(), "{unknown}");
        }
    }
}
