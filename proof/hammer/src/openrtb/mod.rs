//! OpenRTB requests as asks: who wants to spend how much from which budget.
//!
//! One impression is one ask:
//! - **request id**: a stable hash of the request's `id`, the impression's `id` and the line number; when the file is
//!   replayed, every round changes it.
//! - **user**: a hash of the first of `user.id`, `user.buyeruid`, `device.ifa`; without any, of the request's `id`.
//! - **amount**: the floor is a CPM price, the ask is for one impression: floor / 1,000, in micros, rounded up. The
//!   floor is `imp.bidfloor`, in `imp.bidfloorcur`; in a private auction (`pmp.private_auction` 1) the lowest
//!   `deals[].bidfloor` in its own `bidfloorcur` instead (a deal does not inherit the impression's currency). A
//!   currency that is not named is USD. No floor, or one that is not positive: the default, in the budget's own unit.
//! - **budget**: a hash of the inventory, modulo the number of budgets in the floor's currency, in the order of their
//!   ids. The inventory is the first of `site.domain`, `app.bundle`, `dooh.domain`, the publisher's id, the site's or
//!   app's id, `imp.tagid`, the request's `id`. If no budget has the currency, the ask still names it and goes to one
//!   of all budgets: the node must refuse it. Budgets that count items are left out.
//!
//! Numbers may be quoted or carry a needless `.0`, as real exchanges send them. A request with `test` 1 asks nothing.

mod generate;

use serde_json::Value;

use crate::args::AMOUNT_MICROS_MAX;
use crate::asks::Ask;
use crate::random::hash_bytes;
use crate::report::OpenRtbReport;

pub use generate::generate;

/// Bad lines that are told apart in the report; the others are only counted.
pub const BAD_LINES_KEPT_MAX: usize = 20;
/// Impressions of one request that are used at most.
pub const IMPRESSIONS_MAX: usize = 1_024;

pub(crate) const COUNT_UNIT: [u8; 4] = *b"COUN";
const OWN_UNIT: [u8; 4] = [0; 4];

/// A floor of one impression, in micros of a currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Floor {
    micros: i64,
    unit: [u8; 4],
}

/// Budgets by unit: which indexes a currency may use.
struct Choice<'a> {
    units: &'a [[u8; 4]],
    any: Vec<u32>,
}

/// Maps all lines. `units[i]` is the unit of the budget with index i, all NUL where it is not known; `floor_default` is
/// the amount of an ask without a floor, in micros.
pub(crate) fn map_lines(
    text: &[u8],
    units: &[[u8; 4]],
    floor_default: i64,
) -> (Vec<Ask>, OpenRtbReport) {
    let choice = Choice::new(units);
    let mut report = OpenRtbReport::default();
    let mut asks = Vec::new();
    for (number, line) in (1_u64..).zip(text.split(|&byte| byte == b'\n')) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        report.lines += 1;
        match map_line(line, number, &choice, floor_default, &mut report) {
            Ok(Some(mut more)) => {
                report.used += 1;
                asks.append(&mut more);
            }
            Ok(None) => report.test += 1,
            Err(reason) => {
                report.bad += 1;
                if report.bad_lines.len() < BAD_LINES_KEPT_MAX {
                    report.bad_lines.push(format!("line {number}: {reason}"));
                }
            }
        }
    }
    report.asks = asks.len();
    (asks, report)
}

/// The asks of one request; `None` for a test request.
fn map_line(
    line: &[u8],
    number: u64,
    choice: &Choice<'_>,
    floor_default: i64,
    report: &mut OpenRtbReport,
) -> Result<Option<Vec<Ask>>, String> {
    let request: Value = serde_json::from_slice(line).map_err(|e| format!("no JSON: {e}"))?;
    if !request.is_object() {
        return Err("not a JSON object".into());
    }
    let id = text(&request["id"]).ok_or("no id; every request has one")?;
    if text(&request["test"]).as_deref() == Some("1") {
        return Ok(None);
    }
    let imps = request["imp"].as_array().filter(|imps| !imps.is_empty());
    let imps = imps.ok_or("no imp; a request offers at least one impression")?;
    let user = hash_bytes(2, user_key(&request).unwrap_or_else(|| id.clone()).as_bytes());
    let mut asks = Vec::with_capacity(imps.len());
    let mut counts = (0, 0);
    for (place, imp) in imps.iter().take(IMPRESSIONS_MAX).enumerate() {
        let imp_id = text(&imp["id"]).unwrap_or_else(|| format!("#{place}"));
        let floor = floor(imp).map_err(|reason| format!("imp {imp_id}: {reason}"))?;
        let key = inventory(&request).or_else(|| text(&imp["tagid"])).unwrap_or_else(|| id.clone());
        let unit = floor.map_or(OWN_UNIT, |f| f.unit);
        let (budget, unit, is_known) = choice.pick(hash_bytes(3, key.as_bytes()), unit);
        counts.0 += usize::from(floor.is_none());
        counts.1 += usize::from(!is_known);
        let name = format!("{id}\0{imp_id}");
        let amount = floor.map_or(floor_default, |f| f.micros);
        asks.push(Ask {
            request_id: hash_bytes(number, name.as_bytes()),
            budget,
            amount,
            user,
            unit,
        });
    }
    report.without_floor += counts.0;
    report.other_currency += counts.1;
    Ok(Some(asks))
}

impl<'a> Choice<'a> {
    fn new(units: &'a [[u8; 4]]) -> Self {
        let indexes = || (0_u32..).zip(units);
        let mut any: Vec<u32> =
            indexes().filter(|&(_, unit)| *unit != COUNT_UNIT).map(|(i, _)| i).collect();
        if any.is_empty() {
            any = indexes().map(|(i, _)| i).collect();
        }
        Self { units, any }
    }

    /// The budget for a hash and a wanted unit, the unit to name, and whether a budget has that unit.
    fn pick(&self, hash: u64, unit: [u8; 4]) -> (u32, [u8; 4], bool) {
        let of_unit = |unit: [u8; 4]| {
            self.any.iter().copied().filter(|&i| self.units[i as usize] == unit).collect::<Vec<_>>()
        };
        let (list, named, is_known) = match unit {
            OWN_UNIT => (self.any.clone(), OWN_UNIT, true),
            _ => match (of_unit(unit), of_unit(OWN_UNIT)) {
                (list, _) if !list.is_empty() => (list, unit, true),
                // The books do not tell the unit: let the node read the amount in its own.
                (_, unknown) if !unknown.is_empty() => (unknown, OWN_UNIT, true),
                _ => (self.any.clone(), unit, false),
            },
        };
        let place = usize::try_from(hash % (list.len().max(1) as u64)).unwrap_or(0);
        (list.get(place).copied().unwrap_or(0), named, is_known)
    }
}

/// A string, or a number as its text; empty is as good as absent.
pub(crate) fn text(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number_text(number),
        Value::Bool(flag) => u8::from(*flag).to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// The shortest decimal text that means this number: what the sender wrote, but for exponents and needless zeros.
fn number_text(number: &serde_json::Number) -> String {
    match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(n), ..) => n.to_string(),
        (_, Some(n), _) => n.to_string(),
        // Display of a double is the shortest text that reads back to it, never with an exponent.
        (.., Some(n)) => n.to_string(),
        _ => number.to_string(),
    }
}

fn user_key(request: &Value) -> Option<String> {
    let (user, device) = (&request["user"], &request["device"]);
    text(&user["id"]).or_else(|| text(&user["buyeruid"])).or_else(|| text(&device["ifa"]))
}

fn inventory(request: &Value) -> Option<String> {
    let (site, app, dooh) = (&request["site"], &request["app"], &request["dooh"]);
    [
        &site["domain"],
        &app["bundle"],
        &dooh["domain"],
        &site["publisher"]["id"],
        &app["publisher"]["id"],
        &dooh["publisher"]["id"],
        &site["id"],
        &app["id"],
        &dooh["id"],
    ]
    .into_iter()
    .find_map(text)
}

/// The floor of one impression; `None` where there is none.
fn floor(imp: &Value) -> Result<Option<Floor>, String> {
    let pmp = &imp["pmp"];
    let is_private = text(&pmp["private_auction"]).as_deref() == Some("1");
    let deals = pmp["deals"].as_array().filter(|deals| is_private && !deals.is_empty());
    let Some(deals) = deals else { return price(&imp["bidfloor"], &imp["bidfloorcur"]) };
    let mut lowest: Option<Floor> = None;
    for deal in deals {
        if let Some(found) = price(&deal["bidfloor"], &deal["bidfloorcur"])?
            && lowest.is_none_or(|l| found.micros < l.micros)
        {
            lowest = Some(found);
        }
    }
    Ok(lowest)
}

fn price(cpm: &Value, currency: &Value) -> Result<Option<Floor>, String> {
    let Some(cpm) = text(cpm) else { return Ok(None) };
    if cpm.starts_with('-') {
        return Ok(None);
    }
    let micros = micros_of_cpm(&cpm)?;
    if micros == 0 {
        return Ok(None);
    }
    let currency = text(currency).unwrap_or_else(|| "USD".into()).to_ascii_uppercase();
    let letters = currency.as_bytes();
    let [a, b, c] = letters else {
        return Err(format!("bidfloorcur '{currency}' is not an ISO 4217 code"));
    };
    if !letters.iter().all(u8::is_ascii_uppercase) {
        return Err(format!("bidfloorcur '{currency}' is not an ISO 4217 code"));
    }
    Ok(Some(Floor { micros, unit: [*a, *b, *c, 0] }))
}

/// Decimal text of a price per 1,000 as micros for one, rounded up: whole units x 1,000, then three decimals, then one
/// more if anything is left.
fn micros_of_cpm(cpm: &str) -> Result<i64, String> {
    let wrong = || format!("bidfloor '{cpm}' is not a decimal number");
    let (whole, decimals) = cpm.split_once('.').unwrap_or((cpm, ""));
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if cpm == "." || cpm.is_empty() || !is_digits(whole) || !is_digits(decimals) {
        return Err(wrong());
    }
    let too_high =
        || format!("bidfloor '{cpm}' is above {} per thousand", AMOUNT_MICROS_MAX / 1_000);
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| too_high())? };
    let mut thousandths = 0;
    let mut left = false;
    for (place, digit) in decimals.bytes().enumerate() {
        let digit = i64::from(digit - b'0');
        match place {
            0 => thousandths += digit * 100,
            1 => thousandths += digit * 10,
            2 => thousandths += digit,
            _ => left |= digit > 0,
        }
    }
    whole
        .checked_mul(1_000)
        .and_then(|micros| micros.checked_add(thousandths + i64::from(left)))
        .filter(|micros| *micros <= AMOUNT_MICROS_MAX)
        .ok_or_else(too_high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const USD: [u8; 4] = *b"USD\0";
    const EUR: [u8; 4] = *b"EUR\0";

    fn map(lines: &str, units: &[[u8; 4]]) -> (Vec<Ask>, OpenRtbReport) {
        map_lines(lines.as_bytes(), units, 1_000)
    }

    #[test]
    fn a_floor_is_the_price_of_one_impression_rounded_up() {
        for (cpm, micros) in [
            ("1.25", 1_250),
            ("0.01", 10),
            ("0.001", 1),
            ("0.0001", 1),
            ("0.00123", 2),
            ("20", 20_000),
            ("5.0", 5_000),
            (".5", 500),
            ("3.", 3_000),
            ("0", 0),
            ("999999999.999", 999_999_999_999),
        ] {
            assert_eq!(micros_of_cpm(cpm), Ok(micros), "{cpm}");
        }
        for wrong in ["", ".", "1,5", "1e3", "NaN", "+1", "99999999999999999999", "1000000001"] {
            assert!(micros_of_cpm(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_mean_the_same_in_every_spelling() {
        let line = |floor: &str| {
            let (asks, report) =
                map(&format!(r#"{{"id":"a","imp":[{{"id":"1","bidfloor":{floor}}}]}}"#), &[USD]);
            assert_eq!(report.bad, 0, "{:?}", report.bad_lines);
            asks[0].amount
        };
        assert_eq!([line("1.5"), line("\"1.5\""), line("1.50"), line("15e-1")], [1_500; 4]);
        assert_eq!([line("2"), line("2.0"), line("\" 2 \"")], [2_000; 3]);
        assert_eq!(line("1e-05"), 1, "a hundredth of a micro still costs one");
        assert_eq!([line("0"), line("-1"), line("null"), line("\"\"")], [1_000; 4]);
    }

    #[test]
    fn the_budget_follows_inventory_and_currency() {
        let line = |domain: &str, cur: &str| {
            format!(
                r#"{{"id":"a","site":{{"domain":"{domain}"}},"imp":[{{"id":"1","bidfloor":1,"bidfloorcur":"{cur}"}}]}}"#
            )
        };
        let units = [USD, EUR, USD, EUR, COUNT_UNIT];
        for domain in ["a.example", "b.example", "c.example", "d.example"] {
            let (asks, _) = map(&line(domain, "eur"), &units);
            assert!([1, 3].contains(&asks[0].budget) && asks[0].unit == EUR);
            let again = map(&line(domain, "EUR"), &units).0;
            assert_eq!(again[0].budget, asks[0].budget, "the same domain, the same budget");
        }
        let (asks, report) = map(&line("a.example", "PLN"), &units);
        assert_eq!((asks[0].unit, report.other_currency), (*b"PLN\0", 1));
        assert_ne!(asks[0].budget, 4, "a count is no money");
        let (asks, report) = map(&line("a.example", "PLN"), &[OWN_UNIT; 3]);
        assert_eq!((asks[0].unit, report.other_currency), (OWN_UNIT, 0));
    }

    #[test]
    fn a_private_auction_asks_for_its_lowest_deal_in_the_deals_currency() {
        let line = r#"{"id":"a","imp":[{"id":"1","bidfloor":9,"bidfloorcur":"EUR","pmp":{"private_auction":1,
            "deals":[{"id":"d1","bidfloor":4.5},{"id":"d2","bidfloor":3.25}]}}]}"#
            .replace('\n', "");
        let (asks, _) = map(&line, &[USD, EUR]);
        assert_eq!((asks[0].amount, asks[0].unit), (3_250, USD));
        let (asks, _) =
            map(&line.replace("private_auction\":1", "private_auction\":0"), &[USD, EUR]);
        assert_eq!((asks[0].amount, asks[0].unit), (9_000, EUR));
    }

    #[test]
    fn ids_are_stable_and_differ_by_line_and_impression() {
        let line = r#"{"id":"same","imp":[{"id":"1"},{"id":"2"},{}]}"#;
        let (asks, report) = map(&format!("{line}\n{line}\n"), &[USD]);
        assert_eq!((report.lines, report.used, report.asks), (2, 2, 6));
        let ids: std::collections::HashSet<u64> = asks.iter().map(|a| a.request_id).collect();
        assert_eq!(ids.len(), 6);
        assert_eq!(asks[0].request_id, hash_bytes(1, b"same\x001"));
        assert_eq!(asks[0].user, asks[5].user);
    }

    #[test]
    fn bad_lines_are_named_and_do_not_stop_the_rest() {
        let lines = "\n{\"id\":\"a\",\"imp\":[{\"id\":\"1\"}]}\nnonsense\n[]\n{\"imp\":[{}]}\n{\"id\":\"a\"}\n\
             {\"id\":\"a\",\"imp\":[{\"id\":\"1\",\"bidfloor\":\"x\"}]}\n\
             {\"id\":\"t\",\"test\":1,\"imp\":[{\"id\":\"1\"}]}\n\
             {\"id\":\"c\",\"imp\":[{\"id\":\"1\",\"bidfloor\":1,\"bidfloorcur\":\"EURO\"}]}";
        let (asks, report) = map(lines, &[USD]);
        assert_eq!((asks.len(), report.lines, report.used, report.test), (1, 8, 1, 1));
        assert_eq!(report.bad, 6);
        let starts = [
            "line 3: no JSON",
            "line 4",
            "line 5: no id",
            "line 6: no imp",
            "line 7: imp 1",
            "line 9",
        ];
        for (line, start) in report.bad_lines.iter().zip(starts) {
            assert!(line.starts_with(start), "{line}");
        }
    }

    proptest! {
        #[test]
        fn rounding_is_up_and_less_than_a_micro(thousandths_of_a_micro in 0_u64..10_000_000_000) {
            let cpm = format!("{}.{:06}", thousandths_of_a_micro / 1_000_000, thousandths_of_a_micro % 1_000_000);
            let micros = u64::try_from(micros_of_cpm(&cpm).unwrap()).unwrap();
            prop_assert_eq!(micros, thousandths_of_a_micro.div_ceil(1_000));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let (asks, report) = map_lines(&bytes, &[USD], 1_000);
            prop_assert!(asks.is_empty() || report.used > 0);
        }
    }
}
