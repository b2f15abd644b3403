//! GPP strings (IAB Tech Lab, Global Privacy Platform String 1.0): which sections there are, and what those of the
//! United States say.

use crate::privacy::bits::Bits;

/// Longest text that is read, in letters.
const LETTERS_MAX: usize = 64 * 1024;
const HEADER_TYPE: u32 = 3;
const HEADER_VERSION: u32 = 1;
/// The EU's TCF, as `regs.gpp_sid` numbers sections.
pub(crate) const SECTION_EU_TCF: u32 = 2;
/// The old US privacy text.
pub(crate) const SECTION_US_PRIVACY: u32 = 6;
/// The value of an opt-out field, and of a consent field, under which nothing is allowed.
const FREE: [u32; 2] = [0, 2];

/// A GPP string whose header could be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gpp<'t> {
    text: &'t str,
}

impl<'t> Gpp<'t> {
    /// Reads the header. `None` for what is no GPP string.
    pub(crate) fn read(text: &'t str) -> Option<Gpp<'t>> {
        if text.len() > LETTERS_MAX {
            return None;
        }
        let gpp = Gpp { text };
        gpp.each(|_, _| ()).map(|()| gpp)
    }

    /// Calls `visit` with the id and the text of every section, in order. `None` where the header is damaged or a
    /// section is missing.
    pub(crate) fn each(&self, mut visit: impl FnMut(u32, &'t str)) -> Option<()> {
        let mut sections = self.text.split('~');
        let mut header = Bits::new(sections.next()?);
        if header.int(6)? != HEADER_TYPE || header.int(6)? != HEADER_VERSION {
            return None;
        }
        let mut last = 0_u32;
        for _ in 0..header.int(12)? {
            let is_group = header.flag()?;
            let first = last.checked_add(header.fibonacci()?)?;
            last = if is_group { first.checked_add(header.fibonacci()?)? } else { first };
            for id in first..=last {
                visit(id, sections.next()?);
            }
        }
        Some(())
    }

    /// The text of a section.
    pub(crate) fn section(&self, id: u32) -> Option<&'t str> {
        let mut found = None;
        self.each(|one, text| found = if one == id { Some(text) } else { found })?;
        found
    }
}

/// Where a section of the United States keeps what matters: the places of fields of two bits in its core.
struct Layout {
    section: u32,
    version: u32,
    /// Opt-outs of sale, of sharing and of targeted advertising.
    opt_outs: &'static [usize],
    /// Consents for known children, as the first place and the number.
    children: (usize, usize),
    /// Consent to the use of the precise place; `None` = not read, which forbids it.
    precise_place: Option<usize>,
}

/// By the specification of each section (Sections/US-National, US-States). A section that is not here is not
/// understood, which forbids.
const LAYOUTS: [Layout; 7] = [
    layout(7, 1, &[18, 20, 22], (48, 2), Some(38)),
    layout(7, 2, &[18, 20, 22], (56, 3), Some(38)),
    layout(8, 1, &[12, 14], (34, 2), None),
    layout(9, 1, &[12, 14], (32, 1), None),
    layout(10, 1, &[12, 14], (30, 1), None),
    layout(11, 1, &[14, 16], (34, 1), None),
    layout(12, 1, &[12, 14], (32, 3), None),
];

const fn layout(
    section: u32,
    version: u32,
    opt_outs: &'static [usize],
    children: (usize, usize),
    precise_place: Option<usize>,
) -> Layout {
    Layout { section, version, opt_outs, children, precise_place }
}

/// What a section of the United States says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UsChoices {
    /// Opted out of sale, sharing or targeted advertising, by a field or by the browser's Global Privacy Control.
    pub(crate) opted_out: bool,
    /// A known child, without consent.
    pub(crate) child: bool,
    /// The precise place may be used.
    pub(crate) precise_place: bool,
}

/// Reads a section of the United States. `None` where it is not understood.
pub(crate) fn us_choices(section: u32, text: &str) -> Option<UsChoices> {
    let mut parts = text.split('.');
    let core = Bits::new(parts.next()?);
    let version = core.from(0).int(6)?;
    let layout = LAYOUTS.iter().find(|one| one.section == section && one.version == version)?;
    let field = |at: usize| core.from(at).int(2);
    let mut choices = UsChoices::default();
    for at in layout.opt_outs {
        choices.opted_out |= !FREE.contains(&field(*at)?);
    }
    for child in 0..layout.children.1 {
        choices.child |= !FREE.contains(&field(layout.children.0 + 2 * child)?);
    }
    if let Some(at) = layout.precise_place {
        choices.precise_place = FREE.contains(&field(at)?);
    }
    for part in parts {
        let mut bits = Bits::new(part);
        // The one part that there is: Global Privacy Control.
        if bits.int(2)? == 1 {
            choices.opted_out |= bits.flag()?;
        }
    }
    Some(choices)
}
