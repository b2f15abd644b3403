//! The paths of the door, and what HTTP says in each case.

use door_http::{App, Limits, Method, Refusal, Reply, Request, Response, Then};
use door_transport::ConnId;

use crate::answer::{Answer, AnswerRoom, Frame, write_no_bid};
use crate::click::{Click, ClickKind, ClickStatus, Clicked, clicked};
use crate::no_bid::NoBidReason;
use crate::notice::{Addresses, NOTICE_ID_BYTES_MAX, NOTICE_PATH, Notice};
use crate::read::Reader;
use crate::request::BidRequest;
use crate::settings::{ExchangeSettings, NoBidForm, Settings, SettingsError};
use crate::{Event, Gate, NoticeStatus, Noticed, Outcome, Passed};

/// Answers 200 while the node serves, and 503 before its budgets are in force.
pub const HEALTH_PATH: &str = "/health";

/// The header line that all answers to bid requests carry.
pub const VERSION_HEADER: &[u8] = b"x-openrtb-version: 2.6\r\n";

const JSON: &str = "application/json;charset=utf-8";

/// The encodings of a bid request: the place where another one gets its reader.
enum BodyEncoding {
    Json,
}

impl BodyEncoding {
    /// No `Content-Type` means JSON. One that is not JSON's is no bid request: it is all that a page may send without asking.
    fn of(request: &Request<'_>) -> Option<BodyEncoding> {
        request.json.then_some(BodyEncoding::Json)
    }
}

/// Why a request is refused that is not one of an exchange.
const WRONG_HOST: &[u8] = b"this door has another name: expected as Host localhost, 127.0.0.1, [::1], the address that it listens on, \
    the host of openrtb.public_url, or one of openrtb.hosts\n";
const FROM_PAGE: &[u8] = b"a browser sends this for a page: found Origin or Sec-Fetch-Site, expected neither in a bid request\n";
const STARTING: &[u8] = b"starting: the budgets are not in force yet\n";
const NOT_JSON: &[u8] = b"expected Content-Type: application/json\n";

/// A refusal with its reason.
fn refusal(status: u16, reason: &'static [u8]) -> Response<'static> {
    Response { status, content_type: Some("text/plain"), headers: b"", body: reason }
}

/// The door of one worker: its settings and its work space.
pub struct Door {
    settings: Settings,
    /// What is agreed with the first, and with the others.
    exchanges: Vec<ExchangeSettings>,
    addresses: Addresses,
    reader: Reader,
    room: AnswerRoom,
}

impl Door {
    /// A door with these settings.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn new(settings: Settings) -> Result<Door, SettingsError> {
        settings.check()?;
        let addresses = Addresses::new(&settings.notice_base_url);
        let exchanges = vec![settings.first_exchange()];
        let (reader, room) = (Reader::default(), AnswerRoom::default());
        Ok(Door { settings, exchanges, addresses, reader, room })
    }

    /// Takes the exchanges beside the first, each with a path of its own ([`check_bid_path`](crate::check_bid_path)).
    pub fn set_exchanges(&mut self, others: impl Iterator<Item = ExchangeSettings>) {
        self.exchanges.truncate(1);
        self.exchanges.extend(others);
    }

    /// The exchange that sends its bid requests to a path.
    fn exchange_of(&self, path: &str) -> Option<usize> {
        if self.settings.bid_paths.iter().any(|known| known == path) {
            return Some(0);
        }
        let at = self.exchanges[1..].iter().position(|one| one.path == path)?;
        Some(at + 1)
    }

    /// Its settings.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Answers a body of the first exchange: what HTTP says, and the answer's body. The way past HTTP, for tools and tests.
    pub fn bid<G: Gate>(&mut self, body: &mut [u8], gate: &mut G) -> Response<'_> {
        self.bid_of(0, body, gate)
    }

    fn bid_of<G: Gate>(&mut self, exchange: usize, body: &mut [u8], gate: &mut G) -> Response<'_> {
        let Door { settings, exchanges, addresses, reader, room } = self;
        let agreed = (&exchanges[exchange], settings.bids_max);
        let read = if is_over(body, agreed.0, gate) {
            gate.passed(Passed::Read);
            gate.count(Event::Shed);
            Ok(Said::Nothing)
        } else {
            reader.read(body, &settings.read, |request| {
                gate.passed(Passed::Read);
                if request.top.imps_left_out > 0 {
                    gate.count(Event::ImpsLeftOut(request.top.imps_left_out));
                }
                decide(request, agreed, addresses, room, gate)
            })
        };
        let (status, content_type) = match read {
            Ok(Said::Bids | Said::Reason) => (200, Some(JSON)),
            Ok(Said::Nothing) => (204, None),
            Err(why) => {
                gate.passed(Passed::Read);
                gate.count(Event::BadRequest(why));
                room.body.clear();
                room.body.extend_from_slice(why.to_string().as_bytes());
                room.body.push(b'\n');
                (400, Some("text/plain"))
            }
        };
        gate.passed(Passed::Written);
        let body = if content_type.is_some() { self.room.body.as_slice() } else { b"" };
        Response { status, content_type, headers: VERSION_HEADER, body }
    }
}

/// What is in the answer's body.
enum Said {
    Bids,
    Reason,
    Nothing,
}

/// Whether the time for an answer is over before the request is parsed. Of a node that keeps up nothing waits, and nothing is looked for.
#[inline]
fn is_over<G: Gate>(body: &[u8], agreed: &ExchangeSettings, gate: &mut G) -> bool {
    let waited_ms = gate.clock_ms().saturating_sub(gate.arrived_ms());
    waited_ms > 0 && {
        let tmax_ms = find_tmax(body).unwrap_or_else(|| agreed.tmax_default_ms.into());
        let margin_ms = u64::from(agreed.margin_ms);
        // Who leaves no time at all is told so, however long it waited.
        tmax_ms > margin_ms && waited_ms + margin_ms >= tmax_ms
    }
}

/// The first `tmax` of a body, found without parsing it.
#[cold]
fn find_tmax(body: &[u8]) -> Option<u64> {
    const KEY: &[u8] = b"\"tmax\"";
    let value = &body[memchr::memmem::find(body, KEY)? + KEY.len()..];
    let value = value.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
    let value = value.strip_prefix(b"\"").unwrap_or(value);
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    str::from_utf8(&value[..digits]).ok()?.parse().ok()
}

/// Asks the gate, unless there is no time for it.
fn decide<G: Gate>(
    request: &BidRequest<'_>,
    (agreed, bids_max): (&ExchangeSettings, usize),
    addresses: &Addresses,
    room: &mut AnswerRoom,
    gate: &mut G,
) -> Said {
    let arrived_ms = gate.arrived_ms();
    let tmax_ms = request.top.tmax_ms.unwrap_or(agreed.tmax_default_ms);
    let frame = Frame {
        addresses,
        default_currency: agreed.default_currency,
        bids_max,
        loss_notices: agreed.loss_notices,
        deadline_ms: arrived_ms + u64::from(tmax_ms.saturating_sub(agreed.margin_ms)),
    };
    let outcome = if frame.deadline_ms > arrived_ms {
        let mut answer = Answer::new(request, frame, room);
        let outcome = gate.bid(request, &mut answer);
        let bids = u32::try_from(answer.len()).unwrap_or(u32::MAX);
        if outcome == Outcome::Bids && answer.finish() {
            gate.count(Event::Bids(bids));
            return Said::Bids;
        }
        outcome
    } else {
        Outcome::NoBid(NoBidReason::InsufficientTime)
    };
    let reason = match outcome {
        Outcome::NoBid(reason) => reason,
        Outcome::Bids => NoBidReason::Unknown,
        Outcome::Shed => {
            gate.count(Event::Shed);
            return Said::Nothing;
        }
    };
    gate.count(Event::NoBid(reason));
    if agreed.no_bid == NoBidForm::Empty || reason == NoBidReason::InsufficientTime {
        return Said::Nothing;
    }
    write_no_bid(&mut room.body, request.id, reason);
    Said::Reason
}

/// The answer to a notice.
#[must_use]
pub fn noticed(status: NoticeStatus) -> Response<'static> {
    Response::empty(match status {
        NoticeStatus::Taken => 204,
        NoticeStatus::Unknown => 404,
        NoticeStatus::Busy => 429,
    })
}

/// A door with its gate: what HTTP calls.
pub struct Front<'a, G> {
    /// The door.
    pub door: &'a mut Door,
    /// What stands behind it.
    pub gate: &'a mut G,
}

impl<G: Gate> Front<'_, G> {
    fn bid(&mut self, exchange: usize, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        if request.from_page {
            self.gate.count(Event::FromPage);
            return reply.send(&refusal(403, FROM_PAGE));
        }
        match BodyEncoding::of(&request) {
            Some(BodyEncoding::Json) if !self.gate.of_exchange(exchange) => {
                reply.send(&Response { headers: VERSION_HEADER, ..Response::empty(204) })
            }
            Some(BodyEncoding::Json) => {
                reply.send(&self.door.bid_of(exchange, request.body, self.gate))
            }
            None => {
                self.gate.count(Event::UnknownFormat);
                reply.send(&refusal(415, NOT_JSON))
            }
        }
    }

    fn notice(&mut self, conn: ConnId, path: &str, reply: Reply<'_, '_>) -> Then {
        let mut id = [0; NOTICE_ID_BYTES_MAX];
        match Notice::parse(path, &mut id) {
            Ok(notice) => match self.gate.notice(conn, &notice) {
                Noticed::Now(status) => reply.send(&noticed(status)),
                Noticed::Later => reply.later(),
            },
            Err(why) => {
                self.gate.count(Event::BadNotice(why));
                reply.send(&noticed(NoticeStatus::Unknown))
            }
        }
    }

    fn click(
        &mut self,
        conn: ConnId,
        (kind, rest): (ClickKind, &str),
        request: &Request<'_>,
        reply: Reply<'_, '_>,
    ) -> Then {
        let mut id = [0; NOTICE_ID_BYTES_MAX];
        let told = (request, self.door.settings.address_header.as_str());
        let click = Click::parse(kind, rest, told, &mut id);
        let came = match click {
            Ok(click) => self.gate.click(conn, &click),
            Err(why) => {
                self.gate.count(Event::BadNotice(why));
                Clicked::Now(ClickStatus::Unknown)
            }
        };
        match came {
            Clicked::Now(status) => reply.send(&clicked(&status)),
            Clicked::Later => reply.later(),
        }
    }

    fn wrong_method(&mut self, allow: &'static [u8], reply: Reply<'_, '_>) -> Then {
        self.gate.count(Event::WrongMethod);
        reply.send(&Response { headers: allow, ..Response::empty(405) })
    }

    /// Answers by path and method.
    fn route(&mut self, conn: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        let (path, method) = (request.path, request.method);
        if !self.door.settings.hosts.allows(request.host) {
            self.gate.count(Event::WrongHost);
            return reply.send(&refusal(421, WRONG_HOST));
        }
        if let Some(exchange) = self.door.exchange_of(path) {
            return match method {
                Method::Post => self.bid(exchange, request, reply),
                _ => self.wrong_method(b"Allow: POST\r\n", reply),
            };
        }
        if let Some(click) = ClickKind::of(path) {
            return match click.0.takes(method) {
                true => self.click(conn, click, &request, reply),
                false => self.wrong_method(click.0.allow(), reply),
            };
        }
        if path.starts_with(NOTICE_PATH) {
            return self.notice(conn, path, reply);
        }
        match (path, method) {
            (HEALTH_PATH, Method::Get | Method::Head) if self.gate.is_starting() => {
                reply.send(&refusal(503, STARTING))
            }
            (HEALTH_PATH, Method::Get | Method::Head) => reply
                .send(&Response { content_type: Some("text/plain"), ..Response::json(b"ok\n") }),
            (HEALTH_PATH, _) => self.wrong_method(b"Allow: GET, HEAD\r\n", reply),
            _ => {
                self.gate.count(Event::UnknownPath);
                reply.status(404)
            }
        }
    }
}

impl<G: Gate> App for Front<'_, G> {
    fn limits(&self) -> &Limits {
        &self.door.settings.http
    }

    fn request(&mut self, conn: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        self.gate.passed(Passed::Arrived);
        let then = self.route(conn, request, reply);
        self.gate.passed(Passed::Answered);
        then
    }

    fn refused(&mut self, why: Refusal) {
        self.gate.refused(why);
    }
}
