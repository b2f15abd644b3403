//! What the law, and the user, leave a buyer of the data in a request: one table, for whoever uses any of it.
//!
//! Everything closes: what is said and cannot be understood forbids what it could forbid. What is forbidden is data,
//! not the bid: a bid without any is contextual. The table is [`PrivacyCause::forbids`]; `docs/privacy.md` shows it.

mod bits;
mod gpp;
mod tcf;

use crate::request::Top;
use gpp::{Gpp, SECTION_EU_TCF, SECTION_US_PRIVACY};

pub use tcf::{BadConsent, Consent};

/// Sections of the United States: the nation's, and the states'.
const SECTIONS_US: std::ops::RangeInclusive<u32> = 7..=27;
/// In `gpp_sid`: no section applies.
const NO_SECTION: i64 = -1;

/// Who we are under the TCF, and which purposes our uses of data need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivacyTerms {
    /// Our number in the Global Vendor List; `None` = not on it, so that nobody can have agreed to us.
    pub vendor: Option<u16>,
    /// Purposes that ids and profiles need. Default: 1 (storage), 3 and 4 (profiles for advertising, and their use).
    pub purposes_of_ids: Purposes,
    /// Purposes that segments of the request need. Default: 4.
    pub purposes_of_segments: Purposes,
}

/// Purposes of the TCF, at least one: each has to be agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purposes(u32);

impl Purposes {
    /// The purposes that there are: 1 to this.
    pub const LAST: u8 = 11;
    /// What ids and profiles need, where nothing else is said: 1 (storage), 3 and 4 (profiles for advertising, and their use).
    pub const OF_IDS: Purposes = Purposes(0b1101);
    /// What segments of the request need, where nothing else is said: 4.
    pub const OF_SEGMENTS: Purposes = Purposes(0b1000);

    /// These. `None` where there are none, one appears twice, or one does not exist.
    pub fn of(numbers: impl IntoIterator<Item = u8>) -> Option<Purposes> {
        let mut all = 0_u32;
        for number in numbers {
            let bit = 1 << (1..=Self::LAST).contains(&number).then(|| number - 1)?;
            if all & bit != 0 {
                return None;
            }
            all |= bit;
        }
        (all != 0).then_some(Purposes(all))
    }

    /// Their numbers, ascending.
    pub fn numbers(self) -> impl Iterator<Item = u8> {
        (1..=Self::LAST).filter(move |number| self.0 >> (number - 1) & 1 == 1)
    }
}

impl Default for PrivacyTerms {
    fn default() -> Self {
        Self {
            vendor: None,
            purposes_of_ids: Purposes::OF_IDS,
            purposes_of_segments: Purposes::OF_SEGMENTS,
        }
    }
}

/// Data whose use may be forbidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PersonalData {
    /// Ids of user and device, and the profiles and counters behind them.
    Ids = 1,
    /// Segments that the request tells (`user.data`).
    Segments = 2,
    /// The place, where it is more precise than a region.
    PrecisePlace = 4,
}

const IDS: u8 = PersonalData::Ids as u8;
const SEGMENTS: u8 = PersonalData::Segments as u8;
const PLACE: u8 = PersonalData::PrecisePlace as u8;

/// Why data must not be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PrivacyCause {
    /// `regs.coppa`: directed at children.
    Coppa,
    /// The GDPR applies, and there is no consent text.
    ConsentAbsent,
    /// The GDPR applies, and the consent text cannot be read.
    ConsentUnreadable,
    /// The user did not agree to us, or we are not on the vendor list.
    ConsentVendor,
    /// The user did not agree to a purpose that ids and profiles need.
    ConsentForIds,
    /// The user did not agree to a purpose that segments need.
    ConsentForSegments,
    /// The user did not agree to the use of the precise place.
    ConsentForPlace,
    /// `us_privacy`: the user opted out of sale, or the text cannot be read.
    UsPrivacy,
    /// A GPP section: the user opted out of sale, sharing or targeted advertising.
    GppOptOut,
    /// A GPP section: a known child, without consent.
    GppChild,
    /// A GPP section: no consent to the use of the precise place.
    GppPlace,
    /// A GPP section that applies is absent or not understood.
    GppUnreadable,
    /// `regs.gpc`: the browser's Global Privacy Control.
    Gpc,
    /// `device.lmt`.
    LimitsTracking,
    /// `device.dnt`.
    DoNotTrack,
}

impl PrivacyCause {
    /// Every cause, in the order of their numbers.
    pub const ALL: [Self; 15] = [
        Self::Coppa,
        Self::ConsentAbsent,
        Self::ConsentUnreadable,
        Self::ConsentVendor,
        Self::ConsentForIds,
        Self::ConsentForSegments,
        Self::ConsentForPlace,
        Self::UsPrivacy,
        Self::GppOptOut,
        Self::GppChild,
        Self::GppPlace,
        Self::GppUnreadable,
        Self::Gpc,
        Self::LimitsTracking,
        Self::DoNotTrack,
    ];

    /// The cause's name in metrics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Coppa => "coppa",
            Self::ConsentAbsent => "consent_absent",
            Self::ConsentUnreadable => "consent_unreadable",
            Self::ConsentVendor => "consent_vendor",
            Self::ConsentForIds => "consent_ids",
            Self::ConsentForSegments => "consent_segments",
            Self::ConsentForPlace => "consent_place",
            Self::UsPrivacy => "us_privacy",
            Self::GppOptOut => "gpp_opt_out",
            Self::GppChild => "gpp_child",
            Self::GppPlace => "gpp_place",
            Self::GppUnreadable => "gpp_unreadable",
            Self::Gpc => "gpc",
            Self::LimitsTracking => "lmt",
            Self::DoNotTrack => "dnt",
        }
    }

    /// Does it forbid the use of this data? The table of all causes.
    #[must_use]
    pub fn forbids(self, data: PersonalData) -> bool {
        self.forbidden() & data as u8 != 0
    }

    const fn forbidden(self) -> u8 {
        match self {
            Self::Coppa
            | Self::ConsentAbsent
            | Self::ConsentUnreadable
            | Self::ConsentVendor
            | Self::UsPrivacy
            | Self::GppOptOut
            | Self::GppChild
            | Self::GppUnreadable
            | Self::Gpc
            | Self::LimitsTracking
            | Self::DoNotTrack => IDS | SEGMENTS | PLACE,
            Self::ConsentForIds => IDS,
            Self::ConsentForSegments => SEGMENTS,
            Self::ConsentForPlace | Self::GppPlace => PLACE,
        }
    }
}

/// What a request leaves us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privacy {
    causes: u16,
    forbidden: u8,
}

impl Privacy {
    /// Judges a request.
    #[must_use]
    pub fn of(top: &Top<'_>, terms: &PrivacyTerms) -> Privacy {
        let mut privacy = Privacy::default();
        let (regs, device) = (&top.regs, &top.device);
        let said = [
            (regs.coppa, PrivacyCause::Coppa),
            (regs.gpc, PrivacyCause::Gpc),
            (device.limits_tracking, PrivacyCause::LimitsTracking),
            (device.do_not_track, PrivacyCause::DoNotTrack),
            (regs.us_privacy.is_some_and(opts_out), PrivacyCause::UsPrivacy),
        ];
        for (_, cause) in said.into_iter().filter(|(is_said, _)| *is_said) {
            privacy.add(cause);
        }
        privacy.judge_gpp(top, terms);
        if regs.gdpr == Some(true) {
            // Of 2.6 the text stands in `user`; some send it as a section of the GPP string only.
            let section = || Gpp::read(regs.gpp?)?.section(SECTION_EU_TCF);
            privacy.judge_consent(top.user.consent.or_else(section), terms);
        }
        privacy
    }

    /// May this data be used?
    #[must_use]
    pub fn permits(self, data: PersonalData) -> bool {
        self.forbidden & data as u8 == 0
    }

    /// Why something is forbidden; nothing where all is permitted.
    pub fn causes(self) -> impl Iterator<Item = PrivacyCause> {
        PrivacyCause::ALL.into_iter().filter(move |cause| self.causes >> *cause as u8 & 1 == 1)
    }

    fn add(&mut self, cause: PrivacyCause) {
        self.causes |= 1 << cause as u8;
        self.forbidden |= cause.forbidden();
    }

    fn judge_consent(&mut self, text: Option<&str>, terms: &PrivacyTerms) {
        let Some(text) = text else { return self.add(PrivacyCause::ConsentAbsent) };
        let Ok(consent) = Consent::read(text, terms.vendor.unwrap_or(0)) else {
            return self.add(PrivacyCause::ConsentUnreadable);
        };
        if !consent.vendor {
            return self.add(PrivacyCause::ConsentVendor);
        }
        let agreed = |purposes: Purposes| purposes.numbers().all(|one| consent.purpose(one));
        if !agreed(terms.purposes_of_ids) {
            self.add(PrivacyCause::ConsentForIds);
        }
        if !agreed(terms.purposes_of_segments) {
            self.add(PrivacyCause::ConsentForSegments);
        }
        if !consent.precise_place() {
            self.add(PrivacyCause::ConsentForPlace);
        }
    }

    /// Judges the sections that apply; where the request does not say which, all of the United States that are there.
    fn judge_gpp(&mut self, top: &Top<'_>, terms: &PrivacyTerms) {
        let regs = &top.regs;
        let Some(text) = regs.gpp else {
            // Sections apply, and none is there.
            if regs.gpp_sections.iter().any(|section| section > 0) {
                self.add(PrivacyCause::GppUnreadable);
            }
            return;
        };
        if regs.gpp_sections.iter().any(|section| section == NO_SECTION) {
            return;
        }
        let Some(gpp) = Gpp::read(text) else { return self.add(PrivacyCause::GppUnreadable) };
        if regs.gpp_sections.is_empty() {
            let judged = gpp.each(|id, text| {
                if SECTIONS_US.contains(&id) || id == SECTION_US_PRIVACY {
                    self.judge_section(id, text, terms);
                }
            });
            debug_assert!(judged.is_some(), "the header was read before");
            return;
        }
        for section in regs.gpp_sections.iter() {
            let found = u32::try_from(section).ok().and_then(|id| Some((id, gpp.section(id)?)));
            match found {
                Some((id, text)) => self.judge_section(id, text, terms),
                None => self.add(PrivacyCause::GppUnreadable),
            }
        }
    }

    fn judge_section(&mut self, id: u32, text: &str, terms: &PrivacyTerms) {
        match id {
            SECTION_EU_TCF => self.judge_consent(Some(text), terms),
            SECTION_US_PRIVACY if opts_out(text) => self.add(PrivacyCause::UsPrivacy),
            SECTION_US_PRIVACY => {}
            _ => match gpp::us_choices(id, text).filter(|_| SECTIONS_US.contains(&id)) {
                None => self.add(PrivacyCause::GppUnreadable),
                Some(choices) => {
                    let said = [
                        (choices.opted_out, PrivacyCause::GppOptOut),
                        (choices.child, PrivacyCause::GppChild),
                        (!choices.precise_place, PrivacyCause::GppPlace),
                    ];
                    let said = said.into_iter().filter(|(is_said, _)| *is_said);
                    said.for_each(|(_, cause)| self.add(cause));
                }
            },
        }
    }
}

/// Does a US privacy text (version 1: notice given, opted out of sale, covered by the agreement; each `Y`, `N` or `-`)
/// opt out? One that is no such text does.
fn opts_out(text: &str) -> bool {
    let [b'1', rest @ ..] = text.as_bytes() else { return true };
    let is_sound = rest.len() == 3 && rest.iter().all(|mark| b"YyNn-".contains(mark));
    !is_sound || rest.get(1).is_none_or(|mark| b"Yy".contains(mark))
}
