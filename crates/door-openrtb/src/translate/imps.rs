//! The impressions of a request: what they take, what they block, what they cost.

use gate_auction::{
    BlockedAttribute, Deal, DurationFloor, Format, Impression, Placement, Pod, Space, Timing,
};
use openrtb::{Banner, BidRequest, Imp, Stream, Texts, TimedFloors};
use weir_budgets::campaign_index::CampaignIndex;
use weir_config::config::Pods;

use super::{DealLists, ImpLists, Lists, Part, Terms, TimingLists, at};

/// Most sizes of one banner that are looked for: beyond them a creative of another size that would fit is not found.
const SIZES_MAX: usize = 64;

impl Lists {
    pub(super) fn read_imp(
        &mut self,
        request: &BidRequest<'_>,
        imp: &Imp<'_>,
        campaign_index: &CampaignIndex,
        terms: &Terms,
    ) {
        let lists = ImpLists {
            placements: self.read_placements(request, imp, campaign_index),
            attributes: self.read_attributes(imp),
            deals: self.read_deals(request, imp, campaign_index, terms),
            timings: self.read_timings(imp, terms),
            floor: terms.floor(imp.floor, has_timed_floor(imp)),
            secure: imp.secure,
            private: imp.private_auction,
            group: if terms.pods == Pods::Together { group(request, imp) } else { 0 },
        };
        self.imps.push(lists);
    }

    /// None where another impression has the same id: a bid for one could be taken for the other.
    fn read_placements(
        &mut self,
        request: &BidRequest<'_>,
        imp: &Imp<'_>,
        campaign_index: &CampaignIndex,
    ) -> Part {
        let from = self.placements.len();
        if request.imps.iter().filter(|other| other.id == imp.id).count() > 1 {
            return from..from;
        }
        if let Some(banner) = &imp.banner {
            self.read_banner(request, imp, banner, campaign_index);
        }
        for (format, stream) in [(Format::Video, &imp.video), (Format::Audio, &imp.audio)] {
            if let Some(stream) = stream {
                self.placements.push(placement(format, stream.width, stream.height));
            }
        }
        if imp.native.is_some() {
            self.placements.push(placement(Format::Native, None, None));
        }
        from..self.placements.len()
    }

    /// Every size that it takes, by the rule of the check ([`BidRequest::takes_size`]): those that it names, and where it
    /// takes more than these, those of our creatives. One that says no size takes any.
    fn read_banner(
        &mut self,
        request: &BidRequest<'_>,
        imp: &Imp<'_>,
        banner: &Banner<'_>,
        campaign_index: &CampaignIndex,
    ) {
        let formats = request.formats(banner);
        let has_range = banner.width_range != [None; 2] || banner.height_range != [None; 2];
        let has_size = banner.width.is_some() && banner.height.is_some();
        if formats.is_empty() && !has_range && !has_size {
            self.placements.push(placement(Format::Banner, None, None));
            return;
        }
        let from = self.placements.len();
        let named = formats.iter().map(|format| (format.width, format.height));
        for (width, height) in named.chain([(banner.width, banner.height)]) {
            let size = width.zip(height).and_then(|(w, h)| Some((small(w)?, small(h)?)));
            self.placements.extend(size.map(|(width, height)| banner_of(width, height)));
        }
        let has_ratio = formats.iter().any(|format| format.width_ratio.is_some());
        if !imp.interstitial && !has_range && !has_ratio {
            return;
        }
        let offer = |lists: &mut Lists, width: u16, height: u16| {
            let is_room = lists.placements.len() - from < SIZES_MAX;
            if is_room && request.takes_size(imp, banner, width.into(), height.into()) {
                lists.placements.push(banner_of(width, height));
            }
        };
        for &(width, height) in campaign_index.banner_sizes() {
            offer(self, width, height);
        }
        // For creatives of any size: the least of a ratio, the largest of a range.
        for (width, height) in formats.iter().filter_map(least_of_ratio).chain(end_of(banner)) {
            offer(self, width, height);
        }
    }

    /// What is blocked, each for its own format.
    fn read_attributes(&mut self, imp: &Imp<'_>) -> Part {
        let from = self.attributes.len();
        let lists = [
            (Format::Banner, imp.banner.map(|banner| banner.attributes_blocked)),
            (Format::Video, imp.video.map(|video| video.attributes_blocked)),
            (Format::Audio, imp.audio.map(|audio| audio.attributes_blocked)),
            (Format::Native, imp.native.map(|native| native.attributes_blocked)),
        ];
        for (format, list) in lists {
            let numbers = list.into_iter().flat_map(|list| list.iter());
            let attributes = numbers.filter_map(|number| u16::try_from(number).ok());
            self.attributes
                .extend(attributes.map(|attribute| BlockedAttribute { format, attribute }));
        }
        from..self.attributes.len()
    }

    /// Floors by duration, the exchange's fee on top.
    fn read_floors(&mut self, floors: TimedFloors<'_>, terms: &Terms) -> Part {
        let from = self.floors.len();
        self.floors.extend(floors.ranges().map(|range| DurationFloor {
            min_s: range.min_s,
            max_s: range.max_s,
            micros: terms.gross(range.floor_micros),
        }));
        from..self.floors.len()
    }

    fn read_deals(
        &mut self,
        request: &BidRequest<'_>,
        imp: &Imp<'_>,
        campaign_index: &CampaignIndex,
        terms: &Terms,
    ) -> Part {
        let (from, words) = (self.deals.len(), campaign_index.dictionary());
        for deal in request.deals(imp) {
            let timed = deal.timed_floors;
            let by_second = timed.per_second_micros.map(|micros| terms.gross(micros));
            let lists = DealLists {
                id: words.key(Space::Deal, deal.id),
                floor: terms.floor(deal.floor, timed.is_stated()),
                floor_per_second_micros: by_second,
                floors: self.read_floors(timed, terms),
                at: at(deal.auction_type),
                guaranteed: deal.guaranteed,
                seats: self.seats(words, terms, deal.seats_allowed, Texts::default()),
                domains: self.advertisers(campaign_index, deal.advertisers_allowed, true),
            };
            self.deals.push(lists);
        }
        from..self.deals.len()
    }

    fn read_timings(&mut self, imp: &Imp<'_>, terms: &Terms) -> Part {
        let from = self.timings.len();
        for (format, stream) in [(Format::Video, &imp.video), (Format::Audio, &imp.audio)] {
            if let Some(stream) = stream {
                let (exact, floors) = (stream.durations_s.iter(), stream.timed_floors);
                let by_second = floors.per_second_micros.map(|micros| terms.gross(micros));
                let timing = TimingLists {
                    format,
                    min_s: stream.duration_min_s.unwrap_or(0),
                    max_s: stream.duration_max_s.unwrap_or(u32::MAX),
                    exact_s: self.part(exact.filter_map(|seconds| u32::try_from(seconds).ok())),
                    pod: dynamic_pod(stream),
                    floor_per_second_micros: by_second,
                    floors: self.read_floors(floors, terms),
                };
                self.timings.push(timing);
            }
        }
        from..self.timings.len()
    }

    pub(super) fn deal<'a>(&'a self, deal: &DealLists) -> Deal<'a> {
        Deal {
            id: deal.id,
            floor: deal.floor,
            floor_per_second_micros: deal.floor_per_second_micros,
            floors: &self.floors[deal.floors.clone()],
            at: deal.at,
            guaranteed: deal.guaranteed,
            seats: &self.keys[deal.seats.clone()],
            domains: &self.keys[deal.domains.clone()],
        }
    }

    pub(super) fn timing<'a>(&'a self, timing: &TimingLists) -> Timing<'a> {
        Timing {
            format: timing.format,
            min_s: timing.min_s,
            max_s: timing.max_s,
            exact_s: &self.keys[timing.exact_s.clone()],
            pod: timing.pod,
            floor_per_second_micros: timing.floor_per_second_micros,
            floors: &self.floors[timing.floors.clone()],
        }
    }

    pub(super) fn impression<'a>(
        &'a self,
        imp: &ImpLists,
        deals: &'a [Deal<'a>],
        timings: &'a [Timing<'a>],
    ) -> Impression<'a> {
        Impression {
            placements: &self.placements[imp.placements.clone()],
            floor: imp.floor,
            secure: imp.secure,
            attributes_blocked: &self.attributes[imp.attributes.clone()],
            deals: &deals[imp.deals.clone()],
            timings: &timings[imp.timings.clone()],
            private: imp.private,
            group: imp.group,
        }
    }
}

fn placement(format: Format, width: Option<u32>, height: Option<u32>) -> Placement {
    let pixels = |size: Option<u32>| u16::try_from(size.unwrap_or(0)).unwrap_or(u16::MAX);
    match (pixels(width), pixels(height)) {
        (0, _) | (_, 0) => Placement { format, width: 0, height: 0 },
        (width, height) => Placement { format, width, height },
    }
}

fn banner_of(width: u16, height: u16) -> Placement {
    Placement { format: Format::Banner, width, height }
}

/// A width or height that creatives can have; 0 is none.
fn small(pixels: u32) -> Option<u16> {
    u16::try_from(pixels).ok().filter(|pixels| *pixels > 0)
}

/// The smallest size of a ratio that is at least as wide as it must be.
fn least_of_ratio(format: &openrtb::Format) -> Option<(u16, u16)> {
    let (width, height) = format.width_ratio.zip(format.height_ratio)?;
    let times = format.width_min.unwrap_or(1).max(1).div_ceil(width.max(1));
    Some((small(width.checked_mul(times)?)?, small(height.checked_mul(times)?)?))
}

/// The largest size of a banner's ranges; where a range has no end, its beginning.
fn end_of(banner: &Banner<'_>) -> Option<(u16, u16)> {
    let end = |[min, max]: [Option<u32>; 2], exact: Option<u32>| small(max.or(exact).or(min)?);
    end(banner.width_range, banner.width).zip(end(banner.height_range, banner.height))
}

/// The dynamic pod that it is, if it is one: it says how long all ads of it may play.
fn dynamic_pod(stream: &Stream<'_>) -> Option<Pod> {
    let duration_s = stream.pod_duration_s?;
    Some(Pod { duration_s, ads_max: stream.pod_ads_max.unwrap_or(u32::MAX) })
}

fn has_timed_floor(imp: &Imp<'_>) -> bool {
    [&imp.video, &imp.audio].into_iter().flatten().any(|stream| stream.timed_floors.is_stated())
}

/// Impressions of one pod have one number: the position of the first of them, from 1. 0 is no pod.
fn group(request: &BidRequest<'_>, imp: &Imp<'_>) -> u32 {
    let Some(pod) = pod_of(imp) else { return 0 };
    let mut members = (1..).zip(request.imps).filter(|(_, other)| pod_of(other) == Some(pod));
    let first = members.next().map_or(0, |(at, _)| at);
    if members.next().is_some() { first } else { 0 }
}

fn pod_of<'t>(imp: &Imp<'t>) -> Option<&'t str> {
    [&imp.video, &imp.audio].into_iter().flatten().find_map(|stream| stream.pod_id)
}
