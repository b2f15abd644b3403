//! Which sizes a banner takes: one rule, for whoever chooses a creative and for the check of a bid.
//!
//! OpenRTB 2.6, 3.2.6 (Banner), 3.2.10 (Format) and `imp.instl`; the ranges `wmin` to `hmax` are those of 2.5, 3.2.6.

use crate::request::{Banner, BidRequest, Format, Imp};

impl<'t> BidRequest<'t> {
    /// Does a banner of this impression take a creative of `width` x `height` device independent pixels?
    ///
    /// A banner that says no size takes any. One that says several takes each: `format`, `w` and `h` beside it, the
    /// ranges of 2.5, and every size of a ratio from its least width on. A full-screen impression also takes what is
    /// smaller than one of its sizes. A size of 0, below 0, or that cannot be read fits nothing.
    #[must_use]
    pub fn takes_size(&self, imp: &Imp<'t>, banner: &Banner<'t>, width: u32, height: u32) -> bool {
        let formats = self.formats(banner);
        if formats.is_empty() && !banner.has_range() && !banner.has_size() {
            return true;
        }
        let of_banner = Format { width: banner.width, height: banner.height, ..Format::default() };
        fits(imp.interstitial, &of_banner, width, height)
            || formats.iter().any(|format| fits(imp.interstitial, format, width, height))
            || (banner.has_range() && banner.range_takes(width, height))
    }
}

impl Banner<'_> {
    /// Are there both a width and a height? One alone says no size.
    fn has_size(&self) -> bool {
        self.width.is_some() && self.height.is_some()
    }

    fn has_range(&self) -> bool {
        self.width_range != [None; 2] || self.height_range != [None; 2]
    }

    /// Where a range says only one end, the other is the exact size, else open.
    fn range_takes(&self, width: u32, height: u32) -> bool {
        let within = |[min, max]: [Option<u32>; 2], exact: Option<u32>, size: u32| {
            let (least, most) = (min.or(exact).unwrap_or(1), max.or(exact).unwrap_or(u32::MAX));
            size > 0 && (least..=most).contains(&size)
        };
        within(self.width_range, self.width, width)
            && within(self.height_range, self.height, height)
    }
}

fn fits(full_screen: bool, format: &Format, width: u32, height: u32) -> bool {
    match (format.width, format.height, format.width_ratio, format.height_ratio) {
        (Some(w), Some(h), ..) if full_screen => {
            (1..=w).contains(&width) && (1..=h).contains(&height)
        }
        (Some(w), Some(h), ..) => width > 0 && height > 0 && (width, height) == (w, h),
        (None, _, Some(w), Some(h)) => {
            width >= format.width_min.unwrap_or(1)
                && height > 0
                && u64::from(width) * u64::from(h) == u64::from(height) * u64::from(w)
        }
        _ => false,
    }
}
