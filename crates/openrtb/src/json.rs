//! One value of the tape that the JSON reader filled, and what a tolerant reader takes it for.
//!
//! Nothing here recurses: a value is skipped by its count of nodes, however deep it is.

use std::fmt;

use simd_json::{Node, StaticNode};

use crate::price::{self, Decimal};

/// A value: its node and all that is inside it. Without a node it is absent.
#[derive(Clone, Copy, Default)]
pub(crate) struct Json<'t>(pub(crate) &'t [Node<'t>]);

/// The number of nodes the first value of `nodes` takes.
#[inline]
pub(crate) fn size(nodes: &[Node<'_>]) -> usize {
    match nodes.first() {
        Some(Node::Object { count, .. } | Node::Array { count, .. }) => count + 1,
        Some(_) => 1,
        None => 0,
    }
}

/// Cuts the first value off.
#[inline]
fn cut<'t>(nodes: &'t [Node<'t>]) -> Option<(Json<'t>, &'t [Node<'t>])> {
    if nodes.is_empty() {
        return None;
    }
    let (value, rest) = nodes.split_at_checked(size(nodes))?;
    Some((Json(value), rest))
}

impl fmt::Debug for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} nodes", self.0.len())
    }
}

impl<'t> Json<'t> {
    /// Is it a JSON object?
    pub(crate) fn is_object(self) -> bool {
        matches!(self.0.first(), Some(Node::Object { .. }))
    }

    /// Absent, or `null`.
    pub(crate) fn is_null(self) -> bool {
        matches!(self.0.first(), None | Some(Node::Static(StaticNode::Null)))
    }

    /// The fields of an object, in order; of anything else none.
    #[inline]
    pub(crate) fn fields(self) -> Fields<'t> {
        match self.0.split_first() {
            Some((Node::Object { .. }, inside)) => Fields(inside),
            _ => Fields(&[]),
        }
    }

    /// The last field of this name.
    pub(crate) fn field(self, name: &str) -> Json<'t> {
        let found = self.fields().filter(|(key, _)| *key == name).last();
        found.map_or(Json(&[]), |(_, value)| value)
    }

    /// The elements of an array. One value in place of a list is a list of one; `null` is none.
    #[inline]
    pub(crate) fn items(self) -> Items<'t> {
        match self.0.split_first() {
            Some((Node::Array { .. }, inside)) => Items(inside),
            _ if self.is_null() => Items(&[]),
            _ => Items(self.0),
        }
    }

    /// How many elements [`items`](Self::items) gives.
    pub(crate) fn items_len(self) -> usize {
        match self.0.first() {
            Some(Node::Array { len, .. }) => *len,
            _ => usize::from(!self.is_null()),
        }
    }

    /// Text that is not empty.
    #[inline]
    pub(crate) fn text(self) -> Option<&'t str> {
        match self.0.first() {
            Some(Node::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// Is it a whole number that can be written as text in one way only?
    #[inline]
    pub(crate) fn is_number(self) -> bool {
        matches!(self.0.first(), Some(Node::Static(StaticNode::I64(_) | StaticNode::U64(_))))
    }

    /// A whole number: `2`, `2.0`, `"2"`.
    #[inline]
    pub(crate) fn int(self) -> Option<i64> {
        match self.0.first()? {
            Node::Static(StaticNode::I64(value)) => Some(*value),
            Node::Static(StaticNode::U64(value)) => i64::try_from(*value).ok(),
            Node::Static(StaticNode::F64(value)) => whole(*value),
            Node::String(text) => match text.parse() {
                Ok(value) => Some(value),
                Err(_) => whole(text.parse().ok()?),
            },
            _ => None,
        }
    }

    /// A whole number that is not negative and fits 32 bits.
    #[inline]
    pub(crate) fn count(self) -> Option<u32> {
        u32::try_from(self.int()?).ok()
    }

    /// `0`, `1`, as a number, quoted, or as `false` and `true`.
    pub(crate) fn flag(self) -> Option<bool> {
        if let Some(Node::Static(StaticNode::Bool(flag))) = self.0.first() {
            return Some(*flag);
        }
        match self.int()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    /// A price: a number, or one in quotes. `None` when there is none, absurd when there is no telling.
    pub(crate) fn price(self) -> Option<Decimal> {
        match self.0.first()? {
            Node::Static(StaticNode::Null) => None,
            Node::Static(StaticNode::I64(units)) => Some(price::of_units(*units)),
            Node::Static(StaticNode::U64(units)) => {
                Some(i64::try_from(*units).map_or(Decimal::Absurd, price::of_units))
            }
            Node::Static(StaticNode::F64(value)) => Some(price::of_float(*value)),
            Node::String("") => None,
            Node::String(text) => Some(price::of_text(text).unwrap_or(Decimal::Absurd)),
            _ => Some(Decimal::Absurd),
        }
    }
}

/// Exact: a float below 2^53 that has no fraction is a whole number.
fn whole(value: f64) -> Option<i64> {
    const END: f64 = 9_007_199_254_740_992.0;
    let is_whole = value.abs() < END && value.fract() == 0.0;
    #[expect(clippy::cast_possible_truncation, reason = "checked in the line above")]
    is_whole.then_some(value as i64)
}

/// The fields of an object.
pub(crate) struct Fields<'t>(&'t [Node<'t>]);

impl<'t> Iterator for Fields<'t> {
    type Item = (&'t str, Json<'t>);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (Node::String(key), rest) = self.0.split_first()? else { return None };
        let (value, rest) = cut(rest)?;
        self.0 = rest;
        Some((key, value))
    }
}

/// The elements of a list.
#[derive(Clone)]
pub(crate) struct Items<'t>(&'t [Node<'t>]);

impl<'t> Iterator for Items<'t> {
    type Item = Json<'t>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (value, rest) = cut(self.0)?;
        self.0 = rest;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<R>(text: &str, check: impl FnOnce(Json<'_>) -> R) -> R {
        let mut bytes = text.as_bytes().to_vec();
        let tape = simd_json::to_tape(&mut bytes).unwrap();
        check(Json(&tape.0))
    }

    #[test]
    fn whole_numbers_in_every_dress() {
        for (text, expected) in [
            ("2", Some(2)),
            ("2.0", Some(2)),
            ("-2", Some(-2)),
            ("\"2\"", Some(2)),
            ("\"2.0\"", Some(2)),
            ("2e2", Some(200)),
            ("2.5", None),
            ("\"\"", None),
            ("\"two\"", None),
            ("\"inf\"", None),
            ("true", None),
            ("null", None),
            ("[2]", None),
            ("18446744073709551615", None),
            ("1e300", None),
            ("-9223372036854775808", Some(i64::MIN)),
        ] {
            assert_eq!(with(text, |json| json.int()), expected, "{text}");
        }
    }

    #[test]
    fn flags_and_counts() {
        for (text, expected) in
            [("1", Some(true)), ("0.0", Some(false)), ("\"1\"", Some(true)), ("true", Some(true))]
        {
            assert_eq!(with(text, |json| json.flag()), expected, "{text}");
        }
        for text in ["2", "\"yes\"", "null", "{}", "[1]"] {
            assert_eq!(with(text, |json| json.flag()), None, "{text}");
        }
        assert_eq!(with("-1", |json| json.count()), None);
        assert_eq!(with("4294967295", |json| json.count()), Some(u32::MAX));
    }

    #[test]
    fn prices_that_cannot_be_read_are_not_prices_of_zero() {
        for (text, expected) in [
            ("null", None),
            ("\"\"", None),
            ("1.5", Some(Decimal::Micros(1_500_000))),
            ("\"1.5\"", Some(Decimal::Micros(1_500_000))),
            ("3", Some(Decimal::Micros(3_000_000))),
            ("-3", Some(Decimal::Negative)),
            ("\"cheap\"", Some(Decimal::Absurd)),
            ("{}", Some(Decimal::Absurd)),
            ("true", Some(Decimal::Absurd)),
            ("18446744073709551615", Some(Decimal::Absurd)),
        ] {
            assert_eq!(with(text, |json| json.price()), expected, "{text}");
        }
    }

    #[test]
    fn fields_skip_what_is_nested_and_the_last_of_a_name_counts() {
        let text = r#"{"a":{"x":[1,[2,{"y":3}]]},"b":[],"a":5,"c":"d"}"#;
        with(text, |json| {
            let keys: Vec<&str> = json.fields().map(|(key, _)| key).collect();
            assert_eq!(keys, ["a", "b", "a", "c"]);
            assert_eq!(json.field("a").int(), Some(5));
            assert!(json.field("b").items_len() == 0 && json.field("nothing").is_null());
            assert_eq!(json.field("c").items().count(), 1);
            assert_eq!(json.field("c").items_len(), 1);
        });
        with("[1,[2,3],null]", |json| {
            assert_eq!(json.items().count(), 3);
            assert_eq!(json.items_len(), 3);
            assert_eq!(json.fields().count(), 0);
        });
    }
}
