//! Everything that an exchange needs of a bid response; all else in it is skipped without a copy.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::price;

/// A bid response.
#[derive(Debug, Deserialize)]
pub(crate) struct Answer<'a> {
    /// The request's id, repeated.
    #[serde(borrow, default)]
    pub id: Cow<'a, str>,
    /// Currency of the prices; empty means USD.
    #[serde(borrow, default)]
    cur: Cow<'a, str>,
    /// Bids by seat.
    #[serde(borrow, default)]
    pub seatbid: Vec<Seat<'a>>,
}

/// The bids of one seat.
#[derive(Debug, Deserialize)]
pub(crate) struct Seat<'a> {
    /// Who bids.
    #[serde(borrow, default)]
    pub seat: Cow<'a, str>,
    /// 1: all of these bids or none.
    #[serde(default)]
    pub group: u8,
    /// The bids.
    #[serde(borrow, default)]
    pub bid: Vec<Bid<'a>>,
}

/// One bid.
#[derive(Debug, Deserialize)]
pub(crate) struct Bid<'a> {
    /// The bidder's own id of it.
    #[serde(borrow, default)]
    pub id: Cow<'a, str>,
    /// The impression.
    #[serde(borrow, default)]
    pub impid: Cow<'a, str>,
    #[serde(borrow, default)]
    price: Option<&'a RawValue>,
    /// Called when the bid wins.
    #[serde(borrow, default)]
    pub nurl: Cow<'a, str>,
    /// Called when the impression is billed.
    #[serde(borrow, default)]
    pub burl: Cow<'a, str>,
    /// Called when the bid loses.
    #[serde(borrow, default)]
    pub lurl: Cow<'a, str>,
    /// The campaign: in this house, the budget in decimal.
    #[serde(borrow, default)]
    pub cid: Cow<'a, str>,
    /// The creative; a bid without one is dropped.
    #[serde(borrow, default)]
    pub crid: Cow<'a, str>,
    /// Ad id, for its macro.
    #[serde(borrow, default)]
    pub adid: Cow<'a, str>,
    /// The deal it is made under, or empty.
    #[serde(borrow, default)]
    pub dealid: Cow<'a, str>,
}

impl<'a> Answer<'a> {
    /// Reads a response body.
    ///
    /// # Errors
    /// In words: it is no JSON, or not of this shape.
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|e| e.to_string())
    }

    /// Currency of the prices.
    pub(crate) fn currency(&self) -> &str {
        if self.cur.is_empty() { "USD" } else { &self.cur }
    }

    /// All bids.
    pub(crate) fn bids(&self) -> impl Iterator<Item = &Bid<'a>> {
        self.seatbid.iter().flat_map(|seat| &seat.bid)
    }
}

impl Bid<'_> {
    /// Price for a thousand, in micros; `None` where it is missing, quoted, negative or no number.
    pub(crate) fn price_micros(&self) -> Option<i64> {
        self.price.and_then(|raw| price::read(raw.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    #[test]
    fn no_bid_has_many_spellings() {
        for body in [
            "{}",
            r#"{"id":"a","seatbid":[]}"#,
            r#"{"id":"a","nbr":501}"#,
            r#"{"seatbid":[{"bid":[]}]}"#,
        ] {
            let answer = Answer::read(body.as_bytes()).unwrap();
            assert_eq!((answer.bids().count(), answer.currency()), (0, "USD"), "{body}");
        }
        for wrong in ["", "[", "null", r#"{"seatbid":7}"#, r#"{"id":"a"#] {
            assert!(Answer::read(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        "[ -~é\\\\\"\n]{0,20}"
    }

    fn bid() -> impl Strategy<Value = Value> {
        (text(), text(), 0_i64..10_000_000, text(), text(), any::<bool>()).prop_map(
            |(id, impid, micros, burl, adm, terse)| {
                let price: Value = serde_json::from_str(&price::text(micros)).unwrap();
                let mut bid = json!({"id": id, "price": price, "impid": impid, "burl": burl, "adm": adm, "w": 300});
                if !terse {
                    let more = json!({"nurl": burl, "crid": id, "cid": "7", "ext": {"price": -1, "a": [null, 1.5]}});
                    let more = more.as_object().unwrap().clone();
                    bid.as_object_mut().unwrap().extend(more);
                }
                bid
            },
        )
    }

    proptest! {
        #[test]
        fn it_reads_what_a_general_reader_reads(bids in proptest::collection::vec(bid(), 0..4), seat in text(), id in text()) {
            let whole = json!({"ext": {"seatbid": 7}, "id": id, "cur": "EUR", "seatbid": [{"seat": seat, "bid": bids}]});
            let body = whole.to_string();
            let answer = Answer::read(body.as_bytes()).unwrap();
            prop_assert_eq!((&*answer.id, &*answer.seatbid[0].seat, answer.currency()), (&*id, &*seat, "EUR"));
            prop_assert_eq!(answer.bids().count(), bids.len());
            for (ours, theirs) in answer.bids().zip(&bids) {
                let field = |name: &str| theirs[name].as_str().unwrap_or("");
                prop_assert_eq!(&*ours.id, field("id"));
                prop_assert_eq!(&*ours.impid, field("impid"));
                prop_assert_eq!(&*ours.nurl, field("nurl"));
                prop_assert_eq!(&*ours.burl, field("burl"));
                prop_assert_eq!(&*ours.crid, field("crid"));
                let micros = (theirs["price"].as_f64().unwrap() * 1e6).round();
                #[expect(clippy::cast_possible_truncation, reason = "small whole number")]
                let micros = micros as i64;
                prop_assert_eq!(ours.price_micros(), Some(micros));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Answer::read(&bytes);
        }
    }
}
