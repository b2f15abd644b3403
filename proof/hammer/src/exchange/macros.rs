//! The substitution macros of notice URLs (OpenRTB 2.6, section 4.4).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Everything that an exchange knows when it calls a notice. An empty text removes its macro, as the specification wants it for
/// values that were not given.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts<'a> {
    /// The request's id.
    pub auction_id: &'a str,
    /// The bid's id.
    pub bid_id: &'a str,
    /// The impression's id.
    pub imp_id: &'a str,
    /// The seat.
    pub seat_id: &'a str,
    /// The bid's `adid`.
    pub ad_id: &'a str,
    /// The clearing price; `None` leaves the macro as it stands, as a broken ad server does.
    pub price: Option<&'a str>,
    /// Currency of the prices.
    pub currency: &'a str,
    /// Loss reason code; empty in notices of wins.
    pub loss: &'a str,
    /// What would have won.
    pub min_to_win: &'a str,
    /// The number of impressions the bid stands for.
    pub multiplier: &'a str,
}

impl Facts<'_> {
    /// The value of a macro by its name; `None` leaves it as it stands.
    fn value(&self, name: &str) -> Option<&str> {
        match name {
            "AUCTION_ID" => Some(self.auction_id),
            "AUCTION_BID_ID" => Some(self.bid_id),
            "AUCTION_IMP_ID" => Some(self.imp_id),
            "AUCTION_SEAT_ID" => Some(self.seat_id),
            "AUCTION_AD_ID" => Some(self.ad_id),
            "AUCTION_PRICE" => self.price,
            "AUCTION_CURRENCY" => Some(self.currency),
            "AUCTION_LOSS" => Some(self.loss),
            "AUCTION_MIN_TO_WIN" => Some(self.min_to_win),
            "AUCTION_MULTIPLIER" => Some(self.multiplier),
            // Known to the specification, not to this exchange.
            "AUCTION_MBR" | "AUCTION_IMP_TS" => Some(""),
            _ => None,
        }
    }
}

/// Appends `url` with its macros replaced. Values are percent-encoded, `:B64` ones are put in base64 before.
pub(crate) fn expand(url: &str, facts: &Facts<'_>, out: &mut Vec<u8>) {
    let mut rest = url;
    while let Some(begin) = rest.find("${") {
        let Some(len) = rest[begin..].find('}') else { break };
        let whole = &rest[begin..=begin + len];
        let name = &whole[2..len];
        out.extend_from_slice(&rest.as_bytes()[..begin]);
        match name.strip_suffix(":B64") {
            Some(name) => match facts.value(name) {
                Some(value) => push_encoded(STANDARD.encode(value).as_bytes(), out),
                None => out.extend_from_slice(whole.as_bytes()),
            },
            None => match facts.value(name) {
                Some(value) => push_encoded(value.as_bytes(), out),
                None => out.extend_from_slice(whole.as_bytes()),
            },
        }
        rest = &rest[begin + whole.len()..];
    }
    out.extend_from_slice(rest.as_bytes());
}

/// Percent-encodes all but the unreserved characters (RFC 3986, section 2.3).
fn push_encoded(value: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(byte);
        } else {
            let digit = |nibble: u8| HEX[usize::from(nibble)];
            out.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FACTS: Facts<'static> = Facts {
        auction_id: "a 1",
        bid_id: "b",
        imp_id: "2",
        seat_id: "seat/7",
        ad_id: "",
        price: Some("1.250000"),
        currency: "EUR",
        loss: "102",
        min_to_win: "1.3",
        multiplier: "1",
    };

    fn expanded(url: &str, facts: &Facts<'_>) -> String {
        let mut out = Vec::new();
        expand(url, facts, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn macros_become_their_values() {
        let url = "http://x/n/${AUCTION_PRICE}/${AUCTION_CURRENCY}?a=${AUCTION_ID}&s=${AUCTION_SEAT_ID}&ad=${AUCTION_AD_ID}.";
        assert_eq!(expanded(url, &FACTS), "http://x/n/1.250000/EUR?a=a%201&s=seat%2F7&ad=.");
        let url = "${AUCTION_LOSS}${AUCTION_MIN_TO_WIN}${AUCTION_BID_ID}${AUCTION_IMP_ID}${AUCTION_MULTIPLIER}${AUCTION_MBR}";
        assert_eq!(expanded(url, &FACTS), "1021.3b21");
        assert_eq!(expanded("p=${AUCTION_PRICE:B64}", &FACTS), "p=MS4yNTAwMDA%3D");
    }

    #[test]
    fn what_is_no_macro_stays() {
        for url in [
            "",
            "plain",
            "${",
            "${AUCTION_PRICE",
            "${OTHER}",
            "$ {AUCTION_PRICE}",
            "}{$",
            "${X:B64}",
        ] {
            assert_eq!(expanded(url, &FACTS), url);
        }
    }

    #[test]
    fn a_price_may_be_left_out_by_mistake() {
        let unexpanded = Facts { price: None, ..FACTS };
        assert_eq!(
            expanded("/p/${AUCTION_PRICE}/${AUCTION_CURRENCY}", &unexpanded),
            "/p/${AUCTION_PRICE}/EUR"
        );
        let encoded = Facts { price: Some("${AUCTION_PRICE}"), ..FACTS };
        assert_eq!(expanded("/p/${AUCTION_PRICE}/", &encoded), "/p/%24%7BAUCTION_PRICE%7D/");
        let empty = Facts { price: Some(""), ..FACTS };
        assert_eq!(expanded("/p/${AUCTION_PRICE}/", &empty), "/p//");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(url in "(\\$|\\{|\\}|AUCTION_PRICE|:B64|é|x){0,12}") {
            let _ = expanded(&url, &FACTS);
        }
    }
}
