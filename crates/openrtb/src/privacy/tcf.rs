//! A TCF string of version 2 (IAB Tech Lab, Consent string and vendor list formats v2, The Core String; v2.2 has the
//! same bits), as far as one vendor is concerned.

use thiserror::Error;

use crate::privacy::bits::{Bits, is_letter};

/// Longest text that is read: the core of one that names all vendors has some 22,000 letters.
const LETTERS_MAX: usize = 32 * 1024;
const VERSION: u32 = 2;
/// Where the interesting fields begin.
const SPECIAL_FEATURES_AT: usize = 140;
const VENDORS_AT: usize = 213;
/// Restriction types that forbid a purpose to whoever relies on consent: not allowed, legitimate interest required.
const FORBIDDING: [u32; 2] = [0, 2];

/// Why a consent text says nothing.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
pub enum BadConsent {
    /// Of another version.
    #[error("expected a TCF string of version 2")]
    Version,
    /// It ends early, or has a letter that base64url has not.
    #[error("the TCF string ends early, or is not base64url")]
    Cut,
    /// Longer than all vendors need.
    #[error("the TCF string is longer than 32,768 letters")]
    TooLong,
}

/// What a user agreed to, and what the publisher leaves of it to one vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consent {
    /// Purposes to which the user agreed and which the publisher leaves to the vendor: bit 0 is purpose 1.
    purposes: u32,
    /// Special features to which the user agreed: bit 0 is the precise place.
    special_features: u32,
    /// The user agreed to this vendor.
    pub vendor: bool,
}

impl Consent {
    /// Reads what a text says of a vendor. Segments behind the core are not looked at.
    ///
    /// # Errors
    /// Why it says nothing, which is no consent.
    pub fn read(text: &str, vendor: u16) -> Result<Consent, BadConsent> {
        if text.len() > LETTERS_MAX {
            return Err(BadConsent::TooLong);
        }
        let core = text.split('.').next().unwrap_or("");
        if !core.bytes().all(is_letter) {
            return Err(BadConsent::Cut);
        }
        let mut bits = Bits::new(core);
        match bits.int(6) {
            Some(VERSION) => core_of(bits, vendor).ok_or(BadConsent::Cut),
            Some(_) => Err(BadConsent::Version),
            None => Err(BadConsent::Cut),
        }
    }

    /// Did the user agree to a purpose (1 to 24), with nothing of the publisher against it?
    #[must_use]
    pub fn purpose(&self, purpose: u8) -> bool {
        (1..=24).contains(&purpose) && self.purposes >> (purpose - 1) & 1 == 1
    }

    /// Did the user agree to the use of the precise place (special feature 1)?
    #[must_use]
    pub fn precise_place(&self) -> bool {
        self.special_features & 1 == 1
    }
}

fn core_of(bits: Bits<'_>, vendor: u16) -> Option<Consent> {
    let mut fields = bits.from(SPECIAL_FEATURES_AT);
    let special_features = mirrored(fields.int(12)?, 12);
    let mut purposes = mirrored(fields.int(24)?, 24);
    let mut rest = bits.from(VENDORS_AT);
    let agreed = has_vendor(&mut rest, vendor)?;
    // Legitimate interests of vendors: passed over, to reach the publisher's restrictions.
    has_vendor(&mut rest, vendor)?;
    for _ in 0..rest.int(12)? {
        let (purpose, kind) = (rest.int(6)?, rest.int(2)?);
        if in_ranges(&mut rest, vendor)? && FORBIDDING.contains(&kind) {
            purposes &= !(1_u32.checked_shl(purpose.wrapping_sub(1)).unwrap_or(0));
        }
    }
    Some(Consent { purposes, special_features, vendor: agreed })
}

/// Turns the first of so many bits into the lowest.
fn mirrored(value: u32, bits: u32) -> u32 {
    value.reverse_bits() >> (32 - bits)
}

/// Is a vendor in a field of bits, or a list of ranges? Reads to its end.
fn has_vendor(bits: &mut Bits<'_>, vendor: u16) -> Option<bool> {
    let last = usize::try_from(bits.int(16)?).ok()?;
    if bits.flag()? {
        return in_ranges(bits, vendor);
    }
    let place = usize::from(vendor);
    if place == 0 || place > last {
        bits.skip(last)?;
        return Some(false);
    }
    bits.skip(place - 1)?;
    let is_set = bits.flag()?;
    bits.skip(last - place)?;
    Some(is_set)
}

fn in_ranges(bits: &mut Bits<'_>, vendor: u16) -> Option<bool> {
    let vendor = u32::from(vendor);
    let mut is_in = false;
    for _ in 0..bits.int(12)? {
        let is_range = bits.flag()?;
        let first = bits.int(16)?;
        let last = if is_range { bits.int(16)? } else { first };
        is_in |= vendor > 0 && (first..=last).contains(&vendor);
    }
    Some(is_in)
}
