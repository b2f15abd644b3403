//! A bid context to measure with: about 2,300 bytes as JSON, at most 700 as SBE.
//!
//! The struct here is what a bidder would hold in memory; JSON libraries read and write it through serde, so that a
//! benchmark compares formats and not shapes. Text borrows from the JSON where the library can lend it.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use wire::{BidContext, Eligibility, EncodeError, bid_context as wire_context};

/// Segments of a sample.
const SEGMENTS: u64 = 30;
/// Frequency caps of a sample.
const CAPS: u64 = 13;

/// The message `BidContext` in native types. Fields are as in the schema.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)] // the schema documents them
pub struct BidContextJson<'a> {
    pub request_id: u64,
    pub user_id: u64,
    pub now_ms: u64,
    pub deadline_ms: u64,
    pub eligibility: u64,
    pub floor_micros: i64,
    pub site: u64,
    pub placement: u32,
    pub width: u16,
    pub height: u16,
    #[serde(borrow)]
    pub currency: Cow<'a, str>,
    #[serde(borrow)]
    pub country: Cow<'a, str>,
    pub device_type: u8,
    pub hour_of_week: u8,
    pub segments: Vec<Segment>,
    pub caps: Vec<Cap>,
    #[serde(borrow)]
    pub page: Cow<'a, str>,
    #[serde(borrow)]
    pub user_agent: Cow<'a, str>,
}

/// A bid context that owns its text.
pub type BidContextOwned = BidContextJson<'static>;

/// A segment the user is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)] // the schema documents them
pub struct Segment {
    pub segment: u32,
    pub weight: u16,
}

/// How often a campaign was and may be shown to the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[allow(missing_docs)] // the schema documents them
pub struct Cap {
    pub campaign: u32,
    pub shown: u16,
    pub cap: u16,
    pub window_minutes: u16,
}

/// A made-up bid context; the same seed gives the same one.
pub fn bid_context(seed: u64) -> BidContextOwned {
    let mut random = Random(seed);
    let now_ms = 1_780_000_000_000 + random.below(10_000_000_000);
    BidContextJson {
        request_id: random.next(),
        user_id: random.next(),
        now_ms,
        deadline_ms: now_ms + 80 + random.below(220),
        eligibility: random.below(1 << 12),
        floor_micros: 10_000 + random.below(9_000_000).cast_signed(),
        site: random.next(),
        placement: random.u32(1_000_000),
        width: 300,
        height: 250,
        currency: Cow::Borrowed("USD"),
        country: Cow::Borrowed("FR"),
        device_type: 1 + random.u8(7),
        hour_of_week: random.u8(168),
        segments: (0..SEGMENTS)
            .map(|_| Segment {
                segment: 100_000 + random.u32(900_000),
                weight: random.u16(u16::MAX),
            })
            .collect(),
        caps: (0..CAPS).map(|_| random.cap()).collect(),
        page: Cow::Owned(format!(
            "https://news.example.org/{}/article-{:08}.html?ref=home",
            ["world", "sport", "money", "style"][usize::from(random.u8(4))],
            random.below(100_000_000)
        )),
        user_agent: Cow::Borrowed(
            "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
        ),
    }
}

impl BidContextJson<'_> {
    /// Bytes of the whole frame.
    pub fn encoded_len(&self) -> usize {
        let (segments, caps) = (self.segments.len(), self.caps.len());
        wire_context::encoded_len(segments, caps, self.page.len(), self.user_agent.len())
    }

    /// Writes the whole frame; returns its bytes.
    ///
    /// # Errors
    /// The buffer is too small, or a part is larger than the schema allows.
    #[inline]
    pub fn encode_into(&self, buf: &mut [u8]) -> Result<usize, EncodeError> {
        let encoder = wire_context::encode(buf, &self.block())?;
        let (segments, encoder) = encoder.segments_mut(self.segments.len())?;
        for (slot, s) in segments.iter_mut().zip(&self.segments) {
            *slot = wire_context::Segment::new(s.segment, s.weight);
        }
        let (caps, encoder) = encoder.caps_mut(self.caps.len())?;
        for (slot, c) in caps.iter_mut().zip(&self.caps) {
            *slot = wire_context::Cap::new(c.campaign, c.shown, c.cap, c.window_minutes);
        }
        Ok(encoder.page(&self.page)?.user_agent(&self.user_agent)?.finish())
    }

    #[inline]
    fn block(&self) -> wire_context::Block {
        wire_context::Block::new(
            self.request_id,
            self.user_id,
            self.now_ms,
            self.deadline_ms,
            Eligibility::from_raw(self.eligibility),
            self.floor_micros,
            self.site,
            self.placement,
            self.width,
            self.height,
            padded(&self.currency),
            padded(&self.country),
            self.device_type,
            self.hour_of_week,
        )
    }

    /// The same sum as [`read_all`], of the struct.
    #[inline]
    pub fn sum_all(&self) -> u64 {
        let mut sum = Sum::default();
        sum.add(self.request_id).add(self.user_id).add(self.now_ms).add(self.deadline_ms);
        sum.add(self.eligibility).add(self.floor_micros.cast_unsigned()).add(self.site);
        sum.add(self.placement).add(self.width).add(self.height);
        sum.add(u32::from_le_bytes(padded(&self.currency)));
        sum.add(u16::from_le_bytes(padded(&self.country)));
        sum.add(self.device_type).add(self.hour_of_week);
        for s in &self.segments {
            sum.add(s.segment).add(s.weight);
        }
        for c in &self.caps {
            sum.add(c.campaign).add(c.shown).add(c.cap).add(c.window_minutes);
        }
        sum.0
    }
}

/// Reads every field that a bid decision needs (all but the two texts) and adds them up, so that no read can be left
/// out.
#[inline]
pub fn read_all(context: &BidContext<'_>) -> u64 {
    let mut sum = Sum::default();
    sum.add(context.request_id()).add(context.user_id()).add(context.now_ms());
    sum.add(context.deadline_ms()).add(context.eligibility().as_raw());
    sum.add(context.floor_micros().cast_unsigned()).add(context.site());
    sum.add(context.placement()).add(context.width()).add(context.height());
    sum.add(u32::from_le_bytes(context.currency()));
    sum.add(u16::from_le_bytes(context.country()));
    sum.add(context.device_type()).add(context.hour_of_week());
    match context.segments().as_slice() {
        Some(segments) => segments.iter().for_each(|s| sum.segment(s)),
        None => context.segments().iter().for_each(|s| sum.segment(s)),
    }
    match context.caps().as_slice() {
        Some(caps) => caps.iter().for_each(|c| sum.cap(c)),
        None => context.caps().iter().for_each(|c| sum.cap(c)),
    }
    sum.0
}

#[derive(Default)]
struct Sum(u64);

impl Sum {
    #[inline]
    fn add(&mut self, value: impl Into<u64>) -> &mut Self {
        self.0 = self.0.wrapping_add(value.into());
        self
    }

    #[inline]
    fn segment(&mut self, s: &wire_context::Segment) {
        self.add(s.segment()).add(s.weight());
    }

    #[inline]
    fn cap(&mut self, c: &wire_context::Cap) {
        self.add(c.campaign()).add(c.shown()).add(c.cap()).add(c.window_minutes());
    }
}

/// Text at the beginning of an array, NUL behind it; text that is too long is cut.
#[inline]
fn padded<const LEN: usize>(text: &str) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    for (to, from) in bytes.iter_mut().zip(text.bytes()) {
        *to = from;
    }
    bytes
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn u32(&mut self, end: u32) -> u32 {
        u32::try_from(self.below(end.into())).unwrap_or_default()
    }

    fn u16(&mut self, end: u16) -> u16 {
        u16::try_from(self.below(end.into())).unwrap_or_default()
    }

    fn u8(&mut self, end: u8) -> u8 {
        u8::try_from(self.below(end.into())).unwrap_or_default()
    }

    fn cap(&mut self) -> Cap {
        Cap {
            campaign: 100_000 + self.u32(900_000),
            shown: self.u16(10),
            cap: 10 + self.u16(20),
            window_minutes: [60, 1_440, 10_080][usize::from(self.u8(3))],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_benchmark() {
        for seed in 0..200 {
            let context = bid_context(seed);
            let json = serde_json::to_string(&context).expect("a plain struct");
            assert!((2_200..=2_400).contains(&json.len()), "seed {seed}: {} bytes", json.len());
            let len = context.encoded_len();
            assert!(len <= 700, "seed {seed}: {len} bytes");
        }
    }

    #[test]
    fn json_and_sbe_hold_the_same() {
        for seed in 0..50 {
            let context = bid_context(seed);
            let json = serde_json::to_string(&context).expect("a plain struct");
            let back: BidContextJson<'_> = serde_json::from_str(&json).expect("our own text");
            assert_eq!(back, context);

            let mut buf = [0; 700];
            let len = context.encode_into(&mut buf).expect("it fits");
            assert_eq!(len, context.encoded_len());
            let view = BidContext::decode(&buf[..len]).expect("our own frame");
            assert_eq!(read_all(&view), context.sum_all());
            assert_eq!(view.page(), Ok(&*context.page));
            assert_eq!(view.user_agent(), Ok(&*context.user_agent));
        }
    }
}
