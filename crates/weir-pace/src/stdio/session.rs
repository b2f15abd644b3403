//! What follows `GO`: batches of notices and requests.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::{BufRead, Write};

use ledger::{Action, Amount, Hold, Verdict};
use money::ASK_MAX;
use table::{Map, Secret, spread};

use super::error::{Fault, StdioError};
use super::lines::{InputLines, Words, number};
use super::setup::{BASE_MS, DAY_MS, Setup};
use super::{Silence, StdioOptions, Summary};
use crate::engine::{Engine, EngineOptions};

/// Longest request id, bytes.
const RID_BYTES_MAX: usize = 64;
/// The last second of a batch: with the last day of a flight before it, still a time that the ledger knows.
const SEC_MAX: u64 = 100_000_000_000;
/// InputLines of one kind in a batch.
const BATCH_MAX: u64 = 1 << 32;
/// Tables of ours are not attacked: who brings the ids also suffers.
const SECRET: Secret = Secret::new(0x7765_6972_2070_6163_652f_7374_6469_6f31);

/// A bid that was made.
#[derive(Clone, Copy)]
struct Bid {
    hold: Hold,
    campaign: u32,
    worker: u16,
}

/// Who would have the best offer for a request. The largest wins.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Offer {
    score: u64,
    tie: u64,
    price: i64,
    campaign: u32,
}

/// What became of a bid. Sorted by the request, wins first, dearest first: two notices that contradict each other are
/// judged alike whichever came first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Notice {
    request: u64,
    campaign: u32,
    paid: Reverse<Option<i64>>,
}

/// A conversation.
pub(super) struct Session {
    engine: Engine,
    /// Campaign id to its place in the engine.
    places: Map<u32>,
    ids: Vec<u64>,
    bids: Vec<Bid>,
    /// Request hash to its place in `bids`.
    by_request: HashMap<u64, u32>,
    notices: Vec<Notice>,
    answers: Vec<u8>,
    workers: u16,
    first_day: u64,
    /// The second of the last batch, and the instant of second 0.
    last: Option<u64>,
    zero_ms: u64,
    summary: Summary,
    /// The second of the first batch.
    first: Option<u64>,
    /// Offers above 0, and those of them in their flight.
    offers: u64,
    timely: u64,
}

impl Session {
    pub(super) fn new(setup: Setup, options: &StdioOptions) -> Result<Session, StdioError> {
        let Setup { campaigns, first_day } = setup;
        let mut places = Map::with_capacity(SECRET, campaigns.len());
        for (place, campaign) in (0..).zip(&campaigns) {
            places.insert(campaign.id, place);
        }
        let ids = campaigns.iter().map(|campaign| campaign.id).collect();
        let workers = options.workers;
        let engine_options =
            EngineOptions { workers, rank: options.rank, ..EngineOptions::default() };
        Ok(Session {
            engine: Engine::new(engine_options, campaigns, BASE_MS)?,
            places,
            ids,
            bids: Vec::new(),
            by_request: HashMap::with_capacity(1 << 16),
            notices: Vec::new(),
            answers: Vec::new(),
            workers,
            first_day,
            last: None,
            zero_ms: BASE_MS,
            summary: Summary::default(),
            first: None,
            offers: 0,
            timely: 0,
        })
    }

    /// Why nothing could be bid on, if so.
    fn silence(&self) -> Option<Silence> {
        let (first, last) = self.first.zip(self.last).filter(|_| self.summary.requests > 0)?;
        let campaigns = self.engine.campaigns();
        let second = |ms: u64| (i128::from(ms) - i128::from(self.zero_ms)) / 1_000;
        let begins = campaigns.iter().map(|one| second(one.day.start.ms())).min();
        let ends = campaigns.iter().map(|one| second(one.day.end.ms())).max();
        let Some((begins, ends)) = begins.zip(ends) else { return Some(Silence::NoCampaigns) };
        if campaigns.iter().all(|one| one.limit == Amount::ZERO) {
            return Some(Silence::NoMoney);
        }
        if begins > i128::from(last) {
            return Some(Silence::Ahead { begins, last });
        }
        if ends <= i128::from(first) {
            return Some(Silence::Over { ends, first });
        }
        match (self.offers, self.timely) {
            (0, _) => Some(Silence::NoOffers),
            (_, 0) => Some(Silence::Missed),
            _ => None,
        }
    }

    pub(super) fn run<R: BufRead>(
        mut self,
        lines: &mut InputLines<R>,
        mut output: impl Write,
    ) -> Result<Summary, StdioError> {
        const EXPECTED: &str = "T or END";
        loop {
            let mut words = lines.next(EXPECTED)?;
            match words.word(EXPECTED)? {
                b"T" => {
                    let (requests, notices) = self.begin(&mut words)?;
                    self.batch(lines, requests, notices)?;
                    output.write_all(&self.answers).map_err(StdioError::Write)?;
                    output.flush().map_err(StdioError::Write)?;
                }
                b"END" => {
                    words.end()?;
                    return Ok(Summary { silence: self.silence(), ..self.summary });
                }
                word => return Err(words.wrong(word, EXPECTED)),
            }
        }
    }

    /// `T sec nreq nnotice`: lets the time pass. Returns how many requests and notices follow.
    fn begin(&mut self, words: &mut Words<'_>) -> Result<(u64, u64), StdioError> {
        let found = words.number(SEC_MAX, "a second, 0 to 10^11")?;
        let requests = words.number(BATCH_MAX, "the number of requests")?;
        let notices = words.number(BATCH_MAX, "the number of notices")?;
        words.end()?;
        match self.last.replace(found) {
            Some(last) if found < last => return Err(words.input(Fault::Back { found, last })),
            Some(_) => {}
            None => {
                self.zero_ms = zero_ms(found, self.first_day);
                self.first = Some(found);
            }
        }
        self.engine.advance(self.zero_ms + found * 1_000);
        Ok((requests, notices))
    }

    fn batch<R: BufRead>(
        &mut self,
        lines: &mut InputLines<R>,
        requests: u64,
        notices: u64,
    ) -> Result<(), StdioError> {
        self.notices.clear();
        for _ in 0..notices {
            self.notice(&mut lines.next("a line W or L, a notice")?)?;
        }
        self.notices.sort_unstable();
        for at in 0..self.notices.len() {
            self.book(self.notices[at]);
        }
        self.engine.refresh();
        self.answers.clear();
        for _ in 0..requests {
            self.request(&mut lines.next("a line R, a request")?)?;
        }
        Ok(())
    }

    /// `W rid cid price` or `L rid cid`
    fn notice(&mut self, words: &mut Words<'_>) -> Result<(), StdioError> {
        const EXPECTED: &str = "W or L";
        let won = match words.word(EXPECTED)? {
            b"W" => true,
            b"L" => false,
            word => return Err(words.wrong(word, EXPECTED)),
        };
        let (request, _) = request_id(words)?;
        let id = words.number(u64::MAX, "the id of a campaign")?;
        let paid = match won {
            true => Some(words.number(ASK_MAX.get().unsigned_abs(), "a price in micros")?),
            false => None,
        };
        words.end()?;
        let campaign = self.places.get(id).ok_or_else(|| words.input(Fault::Unknown { id }))?;
        let paid = Reverse(paid.map(|paid| i64::try_from(paid).unwrap_or(i64::MAX)));
        self.notices.push(Notice { request, campaign, paid });
        Ok(())
    }

    fn book(&mut self, notice: Notice) {
        let bid = self.by_request.get(&notice.request).map(|place| self.bids[*place as usize]);
        let Some(bid) = bid.filter(|bid| bid.campaign == notice.campaign) else {
            self.summary.unknown += 1;
            return;
        };
        let (action, paid) = match notice.paid.0 {
            Some(paid) => (Action::Settle, Amount::new(paid)),
            None => (Action::Release, Amount::ZERO),
        };
        let (verdict, repeat) = self.engine.resolve(bid.worker, action, &bid.hold, paid);
        let count = match verdict {
            _ if repeat => &mut self.summary.repeats,
            Verdict::Settled | Verdict::Released => &mut self.summary.notices,
            Verdict::SettledOver | Verdict::SettledLate => &mut self.summary.debts,
            // Settled before, and now said to be lost; or so old that the ledger forgot it.
            _ => &mut self.summary.repeats,
        };
        *count += 1;
    }

    /// `R rid cid:value ..`
    fn request(&mut self, words: &mut Words<'_>) -> Result<(), StdioError> {
        const EXPECTED: &str = "R, a request";
        match words.word(EXPECTED)? {
            b"R" => {}
            word => return Err(words.wrong(word, EXPECTED)),
        }
        let (request, rid) = request_id(words)?;
        let worker = worker_of(request, self.workers);
        let best = self.best(words, request, worker)?;
        self.summary.requests += 1;
        self.answers.extend_from_slice(rid);
        match best.and_then(|offer| self.bid(offer, request, worker)) {
            Some(Offer { campaign, price, .. }) => {
                let id = self.ids[campaign as usize];
                // Writing into memory does not fail.
                let _ = writeln!(self.answers, " {id} {price}");
            }
            None => self.answers.extend_from_slice(b" -\n"),
        }
        Ok(())
    }

    /// Asks everybody who may bid.
    fn best(
        &mut self,
        words: &mut Words<'_>,
        request: u64,
        worker: u16,
    ) -> Result<Option<Offer>, StdioError> {
        const EXPECTED: &str = "campaign:value, the value in micros, 0 to 10^15";
        let mut best = None;
        while let Some(word) = words.next() {
            let (id, value) = pair(word).ok_or_else(|| words.wrong(word, EXPECTED))?;
            let campaign = self.places.get(id).ok_or_else(|| words.input(Fault::Unknown { id }))?;
            let place = campaign as usize;
            self.offers += u64::from(value > 0);
            self.timely += u64::from(value > 0 && self.engine.is_in_flight(place));
            let Some(price) = self.engine.bid(worker, place, request, value) else { continue };
            let (score, tie) =
                (self.engine.score(value, price), spread(request ^ self.engine.tie(place)));
            let offer = Offer { score, tie, price, campaign };
            // Who cannot reserve is out before anybody is compared.
            if Some(offer) > best && self.engine.able(worker, place, price) {
                best = Some(offer);
            }
        }
        Ok(best)
    }

    /// Reserves the bid, unless the request has one already.
    fn bid(&mut self, offer: Offer, request: u64, worker: u16) -> Option<Offer> {
        if self.by_request.contains_key(&request) {
            return None;
        }
        let place = u32::try_from(self.bids.len()).ok()?;
        let hold = self.engine.reserve(worker, offer.campaign as usize, offer.price)?;
        self.bids.push(Bid { hold, campaign: offer.campaign, worker });
        self.by_request.insert(request, place);
        self.summary.bids += 1;
        Some(offer)
    }
}

/// When second 0 is.
fn zero_ms(first_sec: u64, first_day: u64) -> u64 {
    let first_flight_sec = first_day * DAY_MS / 1_000;
    if first_sec + DAY_MS / 1_000 < first_flight_sec {
        BASE_MS + first_day * DAY_MS
    } else {
        BASE_MS
    }
}

/// A request id and its hash.
fn request_id<'a>(words: &mut Words<'a>) -> Result<(u64, &'a [u8]), StdioError> {
    const EXPECTED: &str = "the id of a request, at most 64 bytes";
    let word = words.word(EXPECTED)?;
    if word.len() > RID_BYTES_MAX {
        return Err(words.wrong(word, EXPECTED));
    }
    Ok((hash(word), word))
}

/// Any two request ids differ, but for a chance of one in a billion a day. FNV-1a, its bits spread at the end.
fn hash(word: &[u8]) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    spread(word.iter().fold(0xcbf2_9ce4_8422_2325, fold))
}

/// Not by the bits of the coins: workers then differ in nothing but their requests.
fn worker_of(request: u64, workers: u16) -> u16 {
    let share = (u128::from(spread(!request)) * u128::from(workers)) >> 64;
    u16::try_from(share).unwrap_or(0)
}

fn pair(word: &[u8]) -> Option<(u64, i64)> {
    let colon = word.iter().position(|byte| *byte == b':')?;
    let value = i64::try_from(number(&word[colon + 1..])?).ok()?;
    (value <= ASK_MAX.get()).then_some((number(&word[..colon])?, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_two_numbers() {
        assert_eq!(pair(b"7:1500"), Some((7, 1_500)));
        assert_eq!(pair(b"0:0"), Some((0, 0)));
        assert_eq!(pair(b"1:1000000000000000"), Some((1, ASK_MAX.get())));
        for wrong in ["7", "7:", ":7", "7:1:2", "7:-1", "7:1.5", "1:1000000000000001"] {
            assert_eq!(pair(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn wins_come_before_losses_and_the_dearest_first() {
        let notice = |paid| Notice { request: 1, campaign: 0, paid: Reverse(paid) };
        let mut notices = [notice(None), notice(Some(1)), notice(Some(3))];
        notices.sort_unstable();
        assert_eq!(notices.map(|notice| notice.paid.0), [Some(3), Some(1), None]);
    }

    #[test]
    fn requests_are_spread_over_workers() {
        let mut counts = [0; 4];
        for id in 0..4_000_u32 {
            let request = hash(id.to_string().as_bytes());
            assert_eq!(worker_of(request, 1), 0);
            counts[usize::from(worker_of(request, 4))] += 1;
        }
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }

    #[test]
    fn days_may_be_numbers_or_dates() {
        assert_eq!(zero_ms(0, 0), BASE_MS);
        assert_eq!(zero_ms(3 * 86_400, 3), BASE_MS);
        assert_eq!(zero_ms(0, 1), BASE_MS, "a flight that begins tomorrow");
        assert_eq!(zero_ms(0, 20_454), BASE_MS + 20_454 * DAY_MS);
    }
}
