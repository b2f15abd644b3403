//! The requests of a run, rendered once before it: sending one is a copy with a fresh id patched into it.

use std::io::Write as _;
use std::ops::Range;

use flate2::Crc;
use flate2::write::DeflateEncoder;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::openrtb::{BAD_LINES_KEPT_MAX, text};
use crate::random::Random;

use super::price::{self, ONE};

/// Digits of a request id.
pub(crate) const ID_LEN: usize = 16;
/// A stored block of a deflate stream holds at most this much.
const STORED_LEN_MAX: usize = 65_535;
/// Header of a gzip member and of the stored block that begins it.
const GZIP_HEAD_LEN: usize = 10 + 5;
/// `tmax` of a request that names none, in ms.
const TMAX_MS_DEFAULT: u64 = 500;

/// How the price of an auction comes about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The winner pays its bid.
    First,
    /// The winner pays what the next one would have.
    Second,
    /// The floor is the price (`at` 3 of a deal).
    Fixed,
}

/// A floor of a thousand impressions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ThousandFloor {
    /// Micros.
    pub micros: i64,
    /// Its currency.
    pub currency: String,
}

/// A deal of an impression.
#[derive(Debug)]
pub(crate) struct Deal {
    /// Its id.
    pub id: String,
    /// Its floor, in its own currency.
    pub floor: ThousandFloor,
    /// Its own auction type.
    pub rule: Rule,
}

/// Everything that the auction needs of an impression.
#[derive(Debug)]
pub(crate) struct Imp {
    /// Its id.
    pub id: String,
    /// Its floor.
    pub floor: ThousandFloor,
    /// Its deals.
    pub deals: Vec<Deal>,
    /// Only bids under a deal are wanted.
    pub is_private: bool,
    /// The number of impressions a bid stands for, in millionths.
    pub multiplier_micros: i64,
    /// From auction to billing, in minutes, as the implementation guide has it.
    pub delay_minutes: u32,
}

/// One request.
#[derive(Debug)]
pub(crate) struct Body {
    bytes: Range<usize>,
    /// Place of the id in `bytes`.
    id_at: usize,
    /// Compressed: what is needed to mend the checksum.
    gzip: Option<Gzip>,
    /// Impressions.
    pub imps: Vec<Imp>,
    /// Auction type.
    pub rule: Rule,
    /// How long an answer may take, in ns.
    pub tmax_ns: u64,
    /// A test is not billable: its bids are not called back.
    pub is_test: bool,
}

#[derive(Debug)]
struct Gzip {
    /// The stored block with the id in it, as a place in `Body::bytes`.
    stored: Range<usize>,
    /// Checksum of what follows it.
    rest: Crc,
}

/// All requests of a run.
#[derive(Debug, Default)]
pub(crate) struct Bodies {
    bytes: Vec<u8>,
    /// In sending order.
    pub list: Vec<Body>,
    sizes: Vec<u64>,
    bad: usize,
    bad_lines: Vec<String>,
}

/// What bodies are made of.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct BodiesReport {
    /// Distinct bodies.
    pub used: usize,
    /// Of them, sent compressed.
    pub compressed: usize,
    /// Lines of the file that are no usable request.
    pub bad: usize,
    /// The first of them: number and reason.
    pub bad_lines: Vec<String>,
    /// Bytes of a body before compression, half of them at most.
    pub bytes_p50: u64,
    /// The largest.
    pub bytes_max: u64,
}

/// Finds the id without copying anything else.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
}

impl Bodies {
    /// Renders lines as whole HTTP requests to `host`; a share `gzip` of them compressed. Bad lines are counted.
    pub(crate) fn render<'a>(
        lines: impl Iterator<Item = &'a [u8]>,
        host: &str,
        gzip: f64,
        seed: u64,
    ) -> Self {
        let mut bodies = Self::default();
        let mut random = Random::new(seed, 7_000);
        for (number, line) in (1_u64..).zip(lines) {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let compressed = random.chance(gzip);
            if let Err(reason) = bodies.add(line, host, compressed) {
                bodies.bad += 1;
                if bodies.bad_lines.len() < BAD_LINES_KEPT_MAX {
                    bodies.bad_lines.push(format!("line {number}: {reason}"));
                }
            }
        }
        bodies
    }

    /// What was rendered.
    pub(crate) fn report(&self) -> BodiesReport {
        let mut sizes = self.sizes.clone();
        sizes.sort_unstable();
        BodiesReport {
            used: self.list.len(),
            compressed: self.list.iter().filter(|body| body.gzip.is_some()).count(),
            bad: self.bad,
            bad_lines: self.bad_lines.clone(),
            bytes_p50: sizes.get(sizes.len() / 2).copied().unwrap_or(0),
            bytes_max: sizes.last().copied().unwrap_or(0),
        }
    }

    /// Appends request number `at` with this id to `out`.
    pub(crate) fn send(&self, at: usize, id: &[u8; ID_LEN], out: &mut Vec<u8>) {
        let body = &self.list[at];
        let begin = out.len();
        out.extend_from_slice(&self.bytes[body.bytes.clone()]);
        let copy = &mut out[begin..];
        copy[body.id_at..body.id_at + ID_LEN].copy_from_slice(id);
        if let Some(gzip) = &body.gzip {
            let mut crc = Crc::new();
            crc.update(&copy[gzip.stored.clone()]);
            crc.combine(&gzip.rest);
            let trailer = copy.len() - 8;
            copy[trailer..trailer + 4].copy_from_slice(&crc.sum().to_le_bytes());
        }
    }

    fn add(&mut self, line: &[u8], host: &str, compressed: bool) -> Result<(), String> {
        let request: Value = serde_json::from_slice(line).map_err(|e| format!("no JSON: {e}"))?;
        let head: Head<'_> = serde_json::from_slice(line).map_err(|e| format!("no id: {e}"))?;
        let imps = request["imp"].as_array().filter(|imps| !imps.is_empty());
        let imps = imps.ok_or("no imp; a request offers at least one impression")?;
        let is_app = request["app"].is_object();
        let imps = imps.iter().map(|value| imp(value, is_app)).collect();
        let old = head.id.get();
        let id_begin = old.as_ptr().addr() - line.as_ptr().addr();
        let mut body = line[..id_begin].to_vec();
        body.extend_from_slice(b"\"0000000000000000\"");
        let id_end = body.len();
        body.extend_from_slice(&line[id_begin + old.len()..]);

        let compressed = compressed && id_end <= STORED_LEN_MAX;
        let (sent, rest) =
            if compressed { squeeze(&body, id_end) } else { (body.clone(), Crc::new()) };
        let begin = self.bytes.len();
        let encoding = if compressed { "Content-Encoding: gzip\r\n" } else { "" };
        let head = format!(
            "POST /openrtb2/bid HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             x-openrtb-version: 2.6\r\n{encoding}Content-Length: {}\r\n\r\n",
            sent.len()
        );
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(&sent);
        let body_at = head.len() + if compressed { GZIP_HEAD_LEN } else { 0 };
        self.sizes.push(body.len() as u64);
        self.list.push(Body {
            bytes: begin..self.bytes.len(),
            id_at: body_at + id_begin + 1,
            gzip: compressed.then_some(Gzip { stored: body_at..body_at + id_end, rest }),
            imps,
            rule: rule(&request["at"]).unwrap_or(Rule::Second),
            tmax_ns: whole(&request["tmax"]).unwrap_or(TMAX_MS_DEFAULT).saturating_mul(1_000_000),
            is_test: whole(&request["test"]) == Some(1),
        });
        Ok(())
    }
}

/// A gzip member whose first block is stored, up to `stored`, so that the id in it can be changed in place; the rest is
/// compressed. Also the checksum of the rest.
fn squeeze(body: &[u8], stored: usize) -> (Vec<u8>, Crc) {
    let mut out = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let len = u16::try_from(stored).unwrap_or(u16::MAX);
    out.push(0);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(&body[..stored]);
    let mut encoder = DeflateEncoder::new(out, flate2::Compression::default());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(&body[stored..]);
    let mut out = encoder.finish().unwrap_or_default();
    let (mut all, mut rest) = (Crc::new(), Crc::new());
    all.update(body);
    rest.update(&body[stored..]);
    out.extend_from_slice(&all.sum().to_le_bytes());
    out.extend_from_slice(&all.amount().to_le_bytes());
    (out, rest)
}

fn imp(value: &Value, is_app: bool) -> Imp {
    let pmp = &value["pmp"];
    let deals = pmp["deals"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_full = whole(&value["instl"]) == Some(1) || value["video"].is_object();
    let delay_minutes = match (is_full, value["native"].is_object()) {
        (true, _) => 30,
        (_, true) => 10,
        _ if is_app => 5,
        _ => 1,
    };
    Imp {
        id: text(&value["id"]).unwrap_or_default(),
        floor: floor(value),
        deals: deals
            .iter()
            .map(|deal| Deal {
                id: text(&deal["id"]).unwrap_or_default(),
                floor: floor(deal),
                rule: rule(&deal["at"]).unwrap_or(Rule::Second),
            })
            .collect(),
        is_private: whole(&pmp["private_auction"]) == Some(1),
        multiplier_micros: text(&value["qty"]["multiplier"])
            .and_then(|multiplier| price::read(&multiplier))
            .unwrap_or(ONE),
        delay_minutes,
    }
}

fn floor(value: &Value) -> ThousandFloor {
    let micros = text(&value["bidfloor"]).and_then(|cpm| price::read(&cpm)).unwrap_or(0);
    let currency = text(&value["bidfloorcur"]).unwrap_or_else(|| "USD".into());
    ThousandFloor { micros, currency: currency.to_ascii_uppercase() }
}

fn rule(at: &Value) -> Option<Rule> {
    match whole(at)? {
        1 => Some(Rule::First),
        3 => Some(Rule::Fixed),
        _ => Some(Rule::Second),
    }
}

/// A whole number in any of the spellings that exchanges send.
fn whole(value: &Value) -> Option<u64> {
    let text = text(value)?;
    text.split_once('.').map_or(text.as_str(), |(whole, _)| whole).parse().ok()
}

/// The id of request number `serial` in hexadecimal digits. Different serials never have equal ids.
pub(crate) fn id_text(salt: u64, serial: u64) -> [u8; ID_LEN] {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let id = table::spread(serial ^ salt).to_be_bytes();
    let mut text = [0; ID_LEN];
    for (pair, byte) in text.chunks_exact_mut(2).zip(id) {
        pair[0] = HEX[usize::from(byte >> 4)];
        pair[1] = HEX[usize::from(byte & 15)];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const LINE: &str = r#"{"imp":[{"id":"1","bidfloor":"1.5","bidfloorcur":"eur","qty":{"multiplier":2.5},"instl":1,
        "pmp":{"private_auction":1.0,"deals":[{"id":"d","bidfloor":2,"at":3}]}},{"id":2}],"ext":{"id":"inner"},
        "id" : "old-\u0041","at":1,"tmax":"120","test":0}"#;

    fn sent(bodies: &Bodies, at: usize, id: &[u8; ID_LEN]) -> Value {
        let mut out = b"before".to_vec();
        bodies.send(at, id, &mut out);
        let request = &out[6..];
        let split = request.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
        let head = String::from_utf8(request[..split].to_vec()).unwrap();
        let body = &request[split..];
        assert!(head.contains(&format!("Content-Length: {}\r\n", body.len())), "{head}");
        if !head.contains("gzip") {
            return serde_json::from_slice(body).unwrap();
        }
        let mut plain = Vec::new();
        flate2::read::GzDecoder::new(body).read_to_end(&mut plain).unwrap();
        serde_json::from_slice(&plain).unwrap()
    }

    #[test]
    fn only_the_id_is_changed_plain_and_compressed() {
        for gzip in [0.0, 1.0] {
            let line = LINE.replace('\n', "");
            let bodies = Bodies::render([line.as_bytes()].into_iter(), "h:1", gzip, 1);
            assert_eq!(bodies.report().compressed, usize::from(gzip > 0.5));
            for serial in 0..3 {
                let id = id_text(9, serial);
                let mut expected: Value = serde_json::from_str(&line).unwrap();
                expected["id"] = Value::from(std::str::from_utf8(&id).unwrap());
                assert_eq!(sent(&bodies, 0, &id), expected);
            }
        }
    }

    #[test]
    fn the_auction_knows_floors_deals_and_delays() {
        let bodies = Bodies::render([LINE.as_bytes()].into_iter(), "h:1", 0.0, 1);
        let body = &bodies.list[0];
        assert_eq!((body.rule, body.tmax_ns, body.is_test), (Rule::First, 120_000_000, false));
        let imp = &body.imps[0];
        assert_eq!(imp.floor, ThousandFloor { micros: 1_500_000, currency: "EUR".into() });
        assert_eq!(
            (imp.multiplier_micros, imp.delay_minutes, imp.is_private),
            (2_500_000, 30, true)
        );
        assert_eq!((imp.deals[0].rule, imp.deals[0].floor.currency.as_str()), (Rule::Fixed, "USD"));
        assert_eq!((body.imps[1].id.as_str(), body.imps[1].delay_minutes), ("2", 1));
    }

    #[test]
    fn bad_lines_are_named() {
        let lines = ["", "nonsense", r#"{"imp":[{}]}"#, r#"{"id":"a"}"#, r#"{"id":7,"imp":[{}]}"#];
        let bodies = Bodies::render(lines.iter().map(|line| line.as_bytes()), "h:1", 0.0, 1);
        let report = bodies.report();
        assert_eq!((report.used, report.bad), (1, 3), "{report:?}");
        assert!(report.bad_lines[2].starts_with("line 4: no imp"), "{report:?}");
    }

    #[test]
    fn ids_are_unique() {
        let ids: std::collections::HashSet<_> =
            (0..10_000).map(|serial| id_text(3, serial)).collect();
        assert_eq!(ids.len(), 10_000);
    }
}
