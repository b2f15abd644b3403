//! Bids into an answer: checked one by one, written once.

use std::ops::Range;

use money::CurrencyCode;

use crate::ad::{Ad, MACRO_BILL, MACRO_CLICK_PIXEL, MACRO_WIN, Piece, cut};
use crate::check::{Rules, Violation, check, pod};
use crate::no_bid::NoBidReason;
use crate::notice::{Addresses, IdRoom, NoticeIds, NoticeKind};
use crate::price::{write_int, write_micros};
use crate::request::{BidRequest, Deal, Imp};
use crate::text::push_escaped;

/// A bid's own id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BidId<'a> {
    /// A text.
    Text(&'a str),
    /// A number, sent as hexadecimal digits.
    Number(u128),
}

/// One bid.
#[derive(Clone, Copy, Debug)]
pub struct Bid<'a> {
    /// Its id, unique within the answer.
    pub id: BidId<'a>,
    /// The impression's place in the request.
    pub imp: usize,
    /// The deal's place among the impression's deals.
    pub deal: Option<usize>,
    /// What would be shown.
    pub ad: &'a Ad,
    /// The price of a thousand impressions, in micros.
    pub price_micros: i64,
    /// Its currency; the same in all bids of an answer.
    pub currency: CurrencyCode,
    /// The applicable floor converted to that currency, rounded up. Only looked at where the floor has another.
    pub floor_micros: Option<i64>,
    /// Who bids; empty = no seat.
    pub seat: &'a str,
    /// Bids of one seat with the same number are all taken or none.
    pub group: Option<u16>,
    /// The campaign's id; empty = none.
    pub cid: &'a str,
    /// Width of a banner; 0 = not said.
    pub width: u32,
    /// Height of a banner; 0 = not said.
    pub height: u32,
    /// What the notices bring back.
    pub notice_ids: NoticeIds<'a>,
    /// Seconds that may pass between auction and impression.
    pub expires_s: Option<u32>,
    /// Where in the pod it may run, as the specification numbers it.
    pub slot_in_pod: Option<i8>,
}

/// Everything that a worker keeps for its answers.
#[derive(Default)]
pub(crate) struct AnswerRoom {
    /// Kept, so that it need not be cleared for every bid.
    ids: IdRoom,
    /// The pushed bids as JSON objects, one after the other.
    bids: Vec<u8>,
    /// Seats and ids of bids, escaped.
    names: Vec<u8>,
    pushed: Vec<Pushed>,
    /// The answer.
    pub(crate) body: Vec<u8>,
    /// The last currency and its letters, which take a search to find.
    letters: Option<(CurrencyCode, &'static str)>,
}

/// A bid in an [`AnswerRoom`].
struct Pushed {
    object: Range<usize>,
    seat: Range<usize>,
    id: Range<usize>,
    group: Option<u16>,
    imp: usize,
    duration_s: u32,
    is_written: bool,
}

/// What is pushed at some point, to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark(usize);

/// The answer to one request.
pub struct Answer<'a> {
    request: &'a BidRequest<'a>,
    frame: Frame<'a>,
    room: &'a mut AnswerRoom,
    currency: Option<CurrencyCode>,
    response_id: Option<u128>,
}

/// What is the same for all answers of a door, and the deadline.
#[derive(Clone, Copy)]
pub(crate) struct Frame<'a> {
    pub(crate) addresses: &'a Addresses,
    pub(crate) default_currency: CurrencyCode,
    pub(crate) bids_max: usize,
    pub(crate) loss_notices: bool,
    pub(crate) deadline_ms: u64,
}

impl<'a> Answer<'a> {
    pub(crate) fn new(
        request: &'a BidRequest<'a>,
        frame: Frame<'a>,
        room: &'a mut AnswerRoom,
    ) -> Answer<'a> {
        room.bids.clear();
        room.names.clear();
        room.pushed.clear();
        Answer { request, frame, room, currency: None, response_id: None }
    }

    /// When the answer must be ready, in milliseconds since the Unix epoch: arrival, plus `tmax`, less the
    /// margin.
    #[must_use]
    pub fn deadline_ms(&self) -> u64 {
        self.frame.deadline_ms
    }

    /// The number of bids that are pushed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.room.pushed.len()
    }

    /// Is none pushed?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.room.pushed.is_empty()
    }

    /// Our own id of the answer (`bidid`), sent as hexadecimal digits.
    pub fn set_response_id(&mut self, id: u128) {
        self.response_id = Some(id);
    }

    /// Checks a bid against the request and, if nothing is wrong, adds it.
    ///
    /// # Errors
    /// What is wrong. The answer is as before; the caller gives back what it holds for the bid.
    pub fn push(&mut self, bid: &Bid<'_>) -> Result<(), Violation> {
        let ad = bid.ad;
        let markup = Markup::Prepared {
            pieces: &ad.markup,
            tells_win: ad.tells_win,
            tells_bill: ad.tells_bill,
            tells_pixel: ad.tells_pixel,
        };
        self.push_as(bid, &markup)
    }

    /// The same with markup made for this request, as of native ads ([`crate::NativeSet::write`]), in place of the
    /// creative's own. [`crate::MACRO_WIN`] and [`crate::MACRO_BILL`] in it become our notices' addresses.
    ///
    /// # Errors
    /// What is wrong, as for [`push`](Self::push).
    pub fn push_made(&mut self, bid: &Bid<'_>, markup: &str) -> Result<(), Violation> {
        self.push_as(bid, &Markup::Made(markup))
    }

    fn push_as(&mut self, bid: &Bid<'_>, markup: &Markup<'_>) -> Result<(), Violation> {
        if self.room.pushed.len() >= self.frame.bids_max {
            return Err(Violation::TooManyBids);
        }
        if self.currency.is_some_and(|currency| currency != bid.currency) {
            return Err(Violation::CurrencyMixed);
        }
        if !bid.notice_ids.are_sound() {
            return Err(Violation::NoticeId);
        }
        let rules = Rules {
            code: self.room.letters(bid.currency),
            default_currency: self.frame.default_currency,
            notices_secure: self.frame.addresses.is_secure(),
            has_markup: !markup.is_empty(),
            browser_notices: [Piece::Win, Piece::Bill, Piece::ClickPixel]
                .iter()
                .any(|piece| markup.tells(piece)),
        };
        let (imp, deal) = check(self.request, bid, &rules)?;
        pod(imp, bid.ad, self.room.shown_in(bid.imp))?;
        self.room.push_names(bid)?;
        let from = self.room.bids.len();
        self.write_bid(bid, markup, imp, deal);
        if let Some(pushed) = self.room.pushed.last_mut() {
            pushed.object = from..self.room.bids.len();
        }
        self.currency = Some(bid.currency);
        Ok(())
    }

    /// Where the answer stands.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.room.pushed.len())
    }

    /// Takes back the bids that were pushed since `mark`.
    pub fn undo_to(&mut self, mark: Mark) {
        let Some(first) = self.room.pushed.get(mark.0) else { return };
        let (bids, names) = (first.object.start, first.seat.start);
        self.room.bids.truncate(bids);
        self.room.names.truncate(names);
        self.room.pushed.truncate(mark.0);
        if mark.0 == 0 {
            self.currency = None;
        }
    }

    fn write_bid(
        &mut self,
        bid: &Bid<'_>,
        markup: &Markup<'_>,
        imp: &Imp<'_>,
        deal: Option<&Deal<'_>>,
    ) {
        let AnswerRoom { ids, bids: out, .. } = &mut *self.room;
        let (frame, ids) = (self.frame, ids.encode(&bid.notice_ids));
        let notice = |out: &mut Vec<u8>, kind| frame.addresses.write(out, kind, &ids);
        let ad = bid.ad;
        out.extend_from_slice(b"{\"id\":\"");
        push_id(out, bid.id);
        out.extend_from_slice(b"\",\"impid\":\"");
        push_escaped(out, imp.id);
        out.extend_from_slice(b"\",\"price\":");
        write_micros(out, bid.price_micros.unsigned_abs());
        out.extend_from_slice(b",\"adm\":\"");
        markup.write(out, notice, |out, piece| frame.addresses.write_click(out, piece, &ids));
        out.push(b'"');
        let own = [
            (!markup.tells(&Piece::Win), ",\"nurl\":\"", NoticeKind::Win),
            (!markup.tells(&Piece::Bill), ",\"burl\":\"", NoticeKind::Bill),
            (frame.loss_notices, ",\"lurl\":\"", NoticeKind::Loss),
        ];
        for (_, name, kind) in own.into_iter().filter(|(wanted, ..)| *wanted) {
            out.extend_from_slice(name.as_bytes());
            notice(out, kind);
            out.push(b'"');
        }
        out.push(b',');
        out.extend_from_slice(&ad.fields);
        push_text(out, "cid", bid.cid);
        push_text(out, "dealid", deal.map_or("", |deal| deal.id));
        push_int(out, "w", (bid.width > 0).then_some(bid.width));
        push_int(out, "h", (bid.height > 0).then_some(bid.height));
        push_int(out, "exp", bid.expires_s);
        if let Some(slot) = bid.slot_in_pod {
            out.extend_from_slice(b",\"slotinpod\":");
            if slot < 0 {
                out.push(b'-');
            }
            write_int(out, u64::from(slot.unsigned_abs()));
        }
        out.push(b'}');
    }

    /// Writes the whole answer into the room's body; false when there is no bid.
    pub(crate) fn finish(self) -> bool {
        let Some(currency) = self.currency else { return false };
        let code = self.room.letters(currency);
        let AnswerRoom { bids, names, pushed, body, .. } = self.room;
        body.clear();
        body.extend_from_slice(b"{\"id\":\"");
        push_escaped(body, self.request.id);
        if let Some(id) = self.response_id {
            body.extend_from_slice(b"\",\"bidid\":\"");
            push_id(body, BidId::Number(id));
        }
        body.extend_from_slice(b"\",\"cur\":\"");
        body.extend_from_slice(code.as_bytes());
        body.extend_from_slice(b"\",\"seatbid\":[");
        for first in 0..pushed.len() {
            if !pushed[first].is_written {
                write_seat(body, bids, names, &mut pushed[first..]);
            }
        }
        close(body, b']');
        body.push(b'}');
        true
    }
}

/// What a bid shows.
enum Markup<'a> {
    /// The creative's own, escaped already.
    Prepared { pieces: &'a [Piece], tells_win: bool, tells_bill: bool, tells_pixel: bool },
    /// Made for the request.
    Made(&'a str),
}

impl Markup<'_> {
    fn is_empty(&self) -> bool {
        match self {
            Markup::Prepared { pieces, .. } => pieces.is_empty(),
            Markup::Made(text) => text.is_empty(),
        }
    }

    fn tells(&self, piece: &Piece) -> bool {
        match (self, piece) {
            (_, Piece::Text(_) | Piece::Click | Piece::ClickEscaped) => false,
            (Markup::Prepared { tells_pixel, .. }, Piece::ClickPixel) => *tells_pixel,
            (Markup::Made(text), Piece::ClickPixel) => text.contains(MACRO_CLICK_PIXEL),
            (Markup::Prepared { tells_win, .. }, Piece::Win) => *tells_win,
            (Markup::Prepared { tells_bill, .. }, Piece::Bill) => *tells_bill,
            (Markup::Made(text), Piece::Win) => text.contains(MACRO_WIN),
            (Markup::Made(text), Piece::Bill) => text.contains(MACRO_BILL),
        }
    }

    fn write(
        &self,
        out: &mut Vec<u8>,
        notice: impl Fn(&mut Vec<u8>, NoticeKind),
        click: impl Fn(&mut Vec<u8>, &Piece),
    ) {
        let macros = |out: &mut Vec<u8>, piece: &Piece| match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Win => notice(out, NoticeKind::Win),
            Piece::Bill => notice(out, NoticeKind::Bill),
            click_piece => click(out, click_piece),
        };
        match self {
            Markup::Prepared { pieces, .. } => pieces.iter().for_each(|piece| macros(out, piece)),
            Markup::Made(text) => {
                let mut rest = *text;
                while !rest.is_empty() {
                    let (before, piece, after) = cut(rest);
                    push_escaped(out, before);
                    piece.iter().for_each(|piece| macros(out, piece));
                    rest = after;
                }
            }
        }
    }
}

/// Writes the seat and group of the first bid, with all the bids that belong there.
fn write_seat(body: &mut Vec<u8>, bids: &[u8], names: &[u8], pushed: &mut [Pushed]) {
    let Some(first) = pushed.first() else { return };
    let (seat, group) = (&names[first.seat.clone()], first.group);
    body.push(b'{');
    if !seat.is_empty() {
        body.extend_from_slice(b"\"seat\":\"");
        body.extend_from_slice(seat);
        body.extend_from_slice(b"\",");
    }
    if group.is_some() {
        body.extend_from_slice(b"\"group\":1,");
    }
    body.extend_from_slice(b"\"bid\":[");
    let belongs = |bid: &&mut Pushed| bid.group == group && &names[bid.seat.clone()] == seat;
    for bid in pushed.iter_mut().filter(belongs) {
        bid.is_written = true;
        body.extend_from_slice(&bids[bid.object.clone()]);
        body.push(b',');
    }
    close(body, b']');
    body.extend_from_slice(b"},");
}

/// Ends a list, whose elements each left a comma behind.
fn close(out: &mut [u8], end: u8) {
    if let Some(last) = out.last_mut() {
        *last = end;
    }
}

/// The answer that says why there is no bid.
pub(crate) fn write_no_bid(body: &mut Vec<u8>, id: &str, reason: NoBidReason) {
    body.clear();
    body.extend_from_slice(b"{\"id\":\"");
    push_escaped(body, id);
    body.extend_from_slice(b"\",\"nbr\":");
    write_int(body, u64::from(reason.code()));
    body.push(b'}');
}

impl AnswerRoom {
    fn letters(&mut self, currency: CurrencyCode) -> &'static str {
        match self.letters {
            Some((known, letters)) if known == currency => letters,
            _ => {
                let letters = currency.as_str();
                self.letters = Some((currency, letters));
                letters
            }
        }
    }

    /// Notes seat and id of a bid. Its id must be there, and no other bid's.
    fn push_names(&mut self, bid: &Bid<'_>) -> Result<(), Violation> {
        let from = self.names.len();
        push_escaped(&mut self.names, bid.seat);
        let middle = self.names.len();
        push_id(&mut self.names, bid.id);
        let id = middle..self.names.len();
        let same = |other: &Pushed| self.names[other.id.clone()] == self.names[id.clone()];
        if id.is_empty() || self.pushed.iter().any(same) {
            self.names.truncate(from);
            return Err(Violation::BidId);
        }
        let (seat, group) = (from..middle, bid.group);
        let (imp, duration_s) = (bid.imp, bid.ad.duration_s.unwrap_or(0));
        self.pushed.push(Pushed {
            object: 0..0,
            seat,
            id,
            group,
            imp,
            duration_s,
            is_written: false,
        });
        Ok(())
    }

    /// How many ads the answer has for an impression, and how many seconds they play.
    fn shown_in(&self, imp: usize) -> (u32, u32) {
        let ads = self.pushed.iter().filter(|other| other.imp == imp);
        ads.fold((0, 0), |(ads, seconds): (u32, u32), ad| {
            (ads.saturating_add(1), seconds.saturating_add(ad.duration_s))
        })
    }
}

fn push_id(out: &mut Vec<u8>, id: BidId<'_>) {
    match id {
        BidId::Text(text) => push_escaped(out, text),
        BidId::Number(number) => {
            let digits = (128 - number.leading_zeros()).div_ceil(4).max(1);
            for place in (0..digits).rev() {
                let digit = usize::try_from(number >> (4 * place) & 15).unwrap_or(0);
                out.push(b"0123456789abcdef"[digit]);
            }
        }
    }
}

/// Writes `,"name":"text"`; nothing for an empty text.
fn push_text(out: &mut Vec<u8>, name: &str, text: &str) {
    if text.is_empty() {
        return;
    }
    push_name(out, name);
    out.push(b'"');
    push_escaped(out, text);
    out.push(b'"');
}

/// Writes `,"name":number`, if there is one.
fn push_int(out: &mut Vec<u8>, name: &str, number: Option<u32>) {
    if let Some(number) = number {
        push_name(out, name);
        write_int(out, u64::from(number));
    }
}

fn push_name(out: &mut Vec<u8>, name: &str) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
}
