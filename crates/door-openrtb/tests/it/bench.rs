//! The measurements of the example `openrtb_bench`; the tests run a very small one.

use std::borrow::Cow;
use std::hint::black_box;
use std::time::Instant;

use door_openrtb::{
    Ad, Answer, Bid, BidId, BidRequest, Door, Event, Gate, Notice, NoticeStatus, Noticed, Outcome,
    ReadLimits, Reader,
};
use door_transport::ConnId;
use serde::Deserialize;

use crate::bidder::{BANNER, NOW_MS, bid, door};
use crate::bodies;

/// How much is measured.
#[derive(Clone, Copy)]
pub(crate) enum Size {
    /// Enough to see that it works.
    #[cfg_attr(not(test), allow(dead_code))]
    Small,
    /// Enough to see what it costs.
    #[cfg_attr(test, allow(dead_code))]
    Large,
}

/// One line a body and subject: the median of interleaved rounds, with the fastest and the slowest.
pub(crate) fn measure(size: Size) -> Vec<String> {
    let (rounds, repeats) = match size {
        Size::Small => (3, 3),
        // Rounds shorter than a time slice, so that the fastest ones were not interrupted.
        Size::Large => (101, 100),
    };
    let mut lines = Vec::new();
    for (name, body) in
        [("small", bodies::small()), ("usual", bodies::usual()), ("large", bodies::large())]
    {
        let mut subjects = subjects(body.as_bytes());
        let mut times: Vec<Vec<u64>> = subjects.iter().map(|_| Vec::new()).collect();
        for _ in 0..rounds {
            for ((_, subject), times) in subjects.iter_mut().zip(&mut times) {
                let started = Instant::now();
                (0..repeats).for_each(|_| subject());
                let nanos = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
                times.push(nanos / repeats);
            }
        }
        for ((subject, _), times) in subjects.iter().zip(&mut times) {
            times.sort_unstable();
            let (middle, last) = (times[times.len() / 2], times[times.len() - 1]);
            let bytes = body.len();
            lines.push(format!(
                "{name:6} {bytes:5} B  {subject:34} {middle:7} ns  ({} to {last})",
                times[0]
            ));
        }
    }
    lines
}

type Subject<'a> = (&'static str, Box<dyn FnMut() + 'a>);

fn subjects(body: &[u8]) -> Vec<Subject<'_>> {
    let limits = ReadLimits::default();
    let (mut reader, mut room) = (Reader::default(), body.to_vec());
    let view = move || {
        // Reading takes escapes away in place, so each subject works on a fresh copy or on its own.
        room.copy_from_slice(body);
        let read = reader.read(&mut room, &limits, |request| black_box(request.imps.len()));
        assert!(read.is_ok());
    };
    let (mut buffers, mut room) = (simd_json::Buffers::default(), body.to_vec());
    let mut kept = simd_json::Tape(Vec::new());
    let tape = move || {
        room.copy_from_slice(body);
        let mut tape = std::mem::replace(&mut kept, simd_json::Tape(Vec::new())).reset();
        assert!(simd_json::fill_tape(&mut room, &mut buffers, &mut tape).is_ok());
        kept = black_box(tape).reset();
    };
    let structs = move || {
        let request: Request<'_> = serde_json::from_slice(body).unwrap();
        black_box(request.imp.len());
    };
    vec![
        ("simd-json, tape only", Box::new(tape)),
        ("simd-json, tape and view", Box::new(view)),
        ("serde_json, structs of these fields", Box::new(structs)),
        ("whole answer: view and no bid", Box::new(answer(body, 0))),
        ("whole answer: view, check, 1 bid", Box::new(answer(body, 1))),
        ("whole answer: view, check, 4 bids", Box::new(answer(body, 4))),
    ]
}

/// A request read and answered with so many bids for its last impression.
fn answer(body: &[u8], bids: u64) -> impl FnMut() + use<'_> {
    let (mut door, mut gate): (Door, Fixed) = (door(), Fixed { ad: Ad::new(&BANNER), bids });
    let mut room = body.to_vec();
    move || {
        room.copy_from_slice(body);
        let answer = door.bid(&mut room, &mut gate);
        assert_eq!(answer.status, if bids == 0 { 204 } else { 200 });
        black_box(answer.body.len());
    }
}

/// Bids so often for the last impression.
struct Fixed {
    ad: Ad,
    bids: u64,
}

impl Gate for Fixed {
    fn now_ms(&self) -> u64 {
        NOW_MS
    }

    fn bid(&mut self, request: &BidRequest<'_>, answer: &mut Answer<'_>) -> Outcome {
        let imp = request.imps.len() - 1;
        let has_formats = request.imps[imp].banner.is_some_and(|b| !request.formats(&b).is_empty());
        let (width, height) = if has_formats { (300, 250) } else { (320, 50) };
        for number in 0..self.bids {
            let id = BidId::Number(u128::from(number));
            let bid = Bid { id, imp, width, height, ..bid(&self.ad) };
            assert_eq!(answer.push(&bid), Ok(()));
        }
        Outcome::Bids
    }

    fn notice(&mut self, _: ConnId, _: &Notice<'_>) -> Noticed {
        Noticed::Now(NoticeStatus::Taken)
    }

    fn refused(&mut self, _: door_http::Refusal) {}

    fn count(&mut self, _: Event) {}
}

/// The usual way: the same fields as structs, texts borrowed where they have no escapes.
#[derive(Deserialize)]
#[allow(dead_code)] // only read into
struct Request<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    at: Option<u32>,
    tmax: Option<u32>,
    test: Option<u8>,
    #[serde(default)]
    cur: Vec<Cow<'a, str>>,
    #[serde(default)]
    wseat: Vec<Cow<'a, str>>,
    #[serde(default)]
    bcat: Vec<Cow<'a, str>>,
    #[serde(default)]
    badv: Vec<Cow<'a, str>>,
    imp: Vec<Imp<'a>>,
    site: Option<Place<'a>>,
    app: Option<Place<'a>>,
    device: Option<Device<'a>>,
    user: Option<User<'a>>,
    regs: Option<Regs<'a>>,
    source: Option<Source<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Imp<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    tagid: Option<Cow<'a, str>>,
    secure: Option<u8>,
    bidfloor: Option<f64>,
    bidfloorcur: Option<Cow<'a, str>>,
    exp: Option<u32>,
    banner: Option<Banner>,
    video: Option<Video<'a>>,
    pmp: Option<Pmp<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Banner {
    w: Option<u32>,
    h: Option<u32>,
    #[serde(default)]
    format: Vec<Format>,
    #[serde(default)]
    battr: Vec<u32>,
    #[serde(default)]
    api: Vec<u32>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Format {
    w: Option<u32>,
    h: Option<u32>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Video<'a> {
    #[serde(default, borrow)]
    mimes: Vec<Cow<'a, str>>,
    minduration: Option<u32>,
    maxduration: Option<u32>,
    #[serde(default)]
    protocols: Vec<u32>,
    w: Option<u32>,
    h: Option<u32>,
    #[serde(default)]
    battr: Vec<u32>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Pmp<'a> {
    private_auction: Option<u8>,
    #[serde(default, borrow)]
    deals: Vec<Deal<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Deal<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    bidfloor: Option<f64>,
    bidfloorcur: Option<Cow<'a, str>>,
    at: Option<u32>,
    #[serde(default)]
    wseat: Vec<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Place<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    domain: Option<Cow<'a, str>>,
    bundle: Option<Cow<'a, str>>,
    #[serde(default)]
    cat: Vec<Cow<'a, str>>,
    #[serde(default)]
    sectioncat: Vec<Cow<'a, str>>,
    publisher: Option<Publisher<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Publisher<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    domain: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Device<'a> {
    #[serde(borrow)]
    ip: Option<Cow<'a, str>>,
    ifa: Option<Cow<'a, str>>,
    os: Option<Cow<'a, str>>,
    language: Option<Cow<'a, str>>,
    devicetype: Option<u32>,
    lmt: Option<u8>,
    dnt: Option<u8>,
    geo: Option<Geo<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Geo<'a> {
    #[serde(borrow)]
    country: Option<Cow<'a, str>>,
    region: Option<Cow<'a, str>>,
    r#type: Option<u32>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct User<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    buyeruid: Option<Cow<'a, str>>,
    #[serde(default)]
    data: Vec<Data<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Data<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
    #[serde(default)]
    segment: Vec<Segment<'a>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Segment<'a> {
    #[serde(borrow)]
    id: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Regs<'a> {
    coppa: Option<u8>,
    gdpr: Option<u8>,
    #[serde(borrow)]
    us_privacy: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[allow(dead_code)]
struct Source<'a> {
    #[serde(borrow)]
    tid: Option<Cow<'a, str>>,
}

#[cfg(test)]
#[test]
fn every_subject_runs() {
    let lines = measure(Size::Small);
    assert_eq!(lines.len(), 18);
    assert!(lines.iter().all(|line| line.contains(" ns ")), "{lines:?}");
}
