//! Lists of a request, read in place: nothing is copied, an element is looked at when it is asked for.

use std::fmt;

use crate::json::Json;
use crate::price::UNREACHABLE_MICROS;

/// A list of texts. Elements that are empty or no text are left out.
#[derive(Clone, Copy, Default)]
pub struct Texts<'t>(pub(crate) Json<'t>);

impl<'t> Texts<'t> {
    /// The texts, in order.
    pub fn iter(self) -> impl Iterator<Item = &'t str> {
        self.0.items().filter_map(Json::text)
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    /// Is `text` among them, letter for letter?
    #[must_use]
    pub fn contains(self, text: &str) -> bool {
        self.iter().any(|other| other == text)
    }
}

impl fmt::Debug for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A list of whole numbers. Elements that are none are left out.
#[derive(Clone, Copy, Default)]
pub struct Ints<'t>(pub(crate) Json<'t>);

impl<'t> Ints<'t> {
    /// The numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = i64> + 't {
        self.0.items().filter_map(Json::int)
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.iter().next().is_none()
    }

    /// Is `number` among them?
    #[must_use]
    pub fn contains(self, number: u32) -> bool {
        self.iter().any(|other| other == i64::from(number))
    }
}

impl fmt::Debug for Ints<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A list of whole numbers that every campaign asks: read once, as a bit for each small number.
#[derive(Clone, Copy, Default)]
pub struct Numbers<'t> {
    list: Ints<'t>,
    bits: u64,
}

impl<'t> Numbers<'t> {
    /// The bit of all numbers that have none of their own.
    const OTHERS: u32 = u64::BITS - 1;

    pub(crate) fn of(list: Ints<'t>) -> Numbers<'t> {
        let bit = |number: i64| u32::try_from(number).unwrap_or(Self::OTHERS).min(Self::OTHERS);
        Numbers { list, bits: list.iter().fold(0, |bits, number| bits | 1 << bit(number)) }
    }

    /// The numbers, in order.
    pub fn iter(self) -> impl Iterator<Item = i64> + 't {
        self.list.iter()
    }

    /// Is there none?
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.bits == 0
    }

    /// Is `number` among them?
    #[must_use]
    pub fn contains(self, number: u32) -> bool {
        let may_be = self.bits >> number.min(Self::OTHERS) & 1 != 0;
        may_be && (number < Self::OTHERS || self.list.contains(number))
    }
}

impl fmt::Debug for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.list.fmt(f)
    }
}

/// One segment that somebody put a user into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'t> {
    /// The id of whose data it is (`data.id`, else `data.name`).
    pub data: Option<&'t str>,
    /// The segment's id.
    pub id: &'t str,
}

/// The segments of all `data` objects of a user.
#[derive(Clone, Copy, Default)]
pub struct Segments<'t>(pub(crate) Json<'t>);

impl<'t> Segments<'t> {
    /// The segments, in order.
    pub fn iter(self) -> impl Iterator<Item = Segment<'t>> {
        self.0.items().flat_map(|data| {
            let owner = data.field("id").text().or(data.field("name").text());
            let ids = data.field("segment").items().filter_map(|one| one.field("id").text());
            ids.map(move |id| Segment { data: owner, id })
        })
    }
}

impl fmt::Debug for Segments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One id of a user at an identity provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eid<'t> {
    /// The provider's domain.
    pub source: &'t str,
    /// The id.
    pub id: &'t str,
}

/// The ids of a user at identity providers.
#[derive(Clone, Copy, Default)]
pub struct Eids<'t>(pub(crate) Json<'t>);

impl<'t> Eids<'t> {
    /// The ids, in order; those without a source are left out.
    pub fn iter(self) -> impl Iterator<Item = Eid<'t>> {
        self.0.items().filter_map(|one| Some((one, one.field("source").text()?))).flat_map(
            |(one, source)| {
                let ids = one.field("uids").items().filter_map(|uid| uid.field("id").text());
                ids.map(move |id| Eid { source, id })
            },
        )
    }
}

impl fmt::Debug for Eids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One station of a supply chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node<'t> {
    /// The advertising system's domain.
    pub asi: Option<&'t str>,
    /// The seller's id there.
    pub sid: Option<&'t str>,
    /// Whether it takes part in the payment.
    pub pays: bool,
    /// Its id of the request.
    pub request_id: Option<&'t str>,
}

/// The stations of a supply chain, the publisher's first.
#[derive(Clone, Copy, Default)]
pub struct Nodes<'t>(pub(crate) Json<'t>);

impl<'t> Nodes<'t> {
    /// The stations, in order.
    pub fn iter(self) -> impl Iterator<Item = Node<'t>> {
        self.0.items().filter(|node| node.is_object()).map(|node| Node {
            asi: node.field("asi").text(),
            sid: node.field("sid").text(),
            pays: node.field("hp").flag().unwrap_or(false),
            request_id: node.field("rid").text(),
        })
    }
}

impl fmt::Debug for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The floor of a range of durations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DurationFloor {
    /// Shortest duration, in seconds.
    pub min_s: u32,
    /// Longest duration, in seconds, inclusive.
    pub max_s: u32,
    /// The floor, in micros.
    pub floor_micros: i64,
}

/// Floors that go by the duration of a video or audio ad.
#[derive(Clone, Copy, Default)]
pub struct TimedFloors<'t> {
    /// The floor of a second (`mincpmpersec`), in micros; one of 0 or less says nothing.
    pub per_second_micros: Option<i64>,
    pub(crate) ranges: Json<'t>,
}

impl<'t> TimedFloors<'t> {
    /// Is there a floor that goes by the duration?
    #[must_use]
    pub fn is_stated(self) -> bool {
        self.per_second_micros.is_some() || self.ranges().next().is_some()
    }

    /// The floors of `durfloors`, in order. A range without a floor, or with one of 0 or less, says nothing: `bidfloor` holds there.
    pub fn ranges(self) -> impl Iterator<Item = DurationFloor> + 't {
        let ranges = self.ranges.items().filter(|range| range.is_object());
        let floors = ranges.map(|range| DurationFloor {
            min_s: range.field("mindur").count().unwrap_or(0),
            max_s: range.field("maxdur").count().unwrap_or(u32::MAX),
            floor_micros: range.field("bidfloor").price().map_or(0, |floor| floor.as_floor()),
        });
        floors.filter(|floor| floor.floor_micros > 0)
    }

    /// The floor of an ad of `duration_s` seconds, in micros; `None` where these floors say nothing of it.
    ///
    /// Without a duration it is the worst that it could be: a floor by the second cannot be met, of ranges
    /// the highest counts. If both are there, which the specification rules out, the higher one counts.
    #[must_use]
    pub fn floor_micros(self, duration_s: Option<u32>) -> Option<i64> {
        let by_second = self.per_second_micros.map(|micros| match duration_s {
            Some(seconds) => micros.saturating_mul(i64::from(seconds)),
            None => UNREACHABLE_MICROS,
        });
        let fits = |range: &DurationFloor| {
            duration_s.is_none_or(|seconds| (range.min_s..=range.max_s).contains(&seconds))
        };
        let by_range = self.ranges().filter(fits).map(|range| range.floor_micros).max();
        by_second.max(by_range)
    }
}

impl fmt::Debug for TimedFloors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TimedFloors")
            .field("per_second_micros", &self.per_second_micros)
            .field("ranges", &self.ranges().collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_list() {
        let list = "[0,2,\"7\",62,63,64,-1,9223372036854775807,1.5,null,\"x\"]";
        let mut bytes = list.as_bytes().to_vec();
        let tape = simd_json::to_tape(&mut bytes).unwrap();
        let list = Ints(Json(&tape.0));
        let numbers = Numbers::of(list);
        for number in (0..130).chain([u32::MAX]) {
            assert_eq!(numbers.contains(number), list.contains(number), "{number}");
        }
        assert!(!numbers.is_empty() && Numbers::of(Ints::default()).is_empty());
    }
}
