//! One end of a FIX session, without a socket: numbers, what was sent, what is expected. It answers what belongs to the session, and hands
//! on all other messages, each once and in order. It shares no code with the door that it plays against.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{SystemTime, UNIX_EPOCH};

/// Messages that are kept to be sent again.
const KEPT_MAX: usize = 1 << 18;
/// HeartBtInt (108) of each Logon, and after how many ms without a message a Heartbeat is sent.
const HEARTBEAT_S: u64 = 30;
const QUIET_MS_MAX: u64 = 20_000;
/// Fields of a header that may be in a message of a peer; the body begins behind the last of them.
const HEADER: [u32; 16] = [8, 9, 34, 35, 43, 49, 50, 52, 56, 57, 97, 115, 116, 122, 128, 129];

/// A whole message.
#[derive(Clone, Debug)]
pub struct Message {
    text: String,
    fields: Vec<(u32, Range<usize>)>,
}

impl Message {
    pub(super) fn new(bytes: &[u8]) -> Message {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let (mut at, mut fields) = (0, Vec::new());
        for part in text.split_terminator('\x01') {
            let value = part.find('=').map_or(part.len(), |equals| equals + 1);
            let tag = part[..value].trim_end_matches('=').parse().unwrap_or(0);
            fields.push((tag, at + value..at + part.len()));
            at += part.len() + 1;
        }
        Message { text, fields }
    }

    /// Returns the value of the first field with this tag; empty where there is none.
    #[must_use]
    pub fn get(&self, tag: u32) -> &str {
        let found = self.fields.iter().find(|field| field.0 == tag);
        found.map_or("", |field| &self.text[field.1.clone()])
    }

    fn number(&self, tag: u32) -> u64 {
        self.get(tag).parse().unwrap_or(0)
    }

    /// Returns what is between the header and CheckSum (10).
    #[must_use]
    pub fn body(&self) -> &str {
        let is_header = |field: &&(u32, Range<usize>)| HEADER.contains(&field.0);
        let start = self.fields.iter().take_while(is_header).last().map_or(0, |f| f.1.end + 1);
        &self.text[start..self.text.len() - "10=000|".len()]
    }

    /// Returns the message with bars for its delimiters.
    #[must_use]
    pub fn shown(&self) -> String {
        self.text.replace('\x01', "|")
    }
}

/// Returns the length of the first message of `input`; `None` while it is not whole.
///
/// # Errors
/// In words: the bytes are no message.
fn framed(input: &[u8]) -> Result<Option<usize>, String> {
    let wrong =
        |what| Err(format!("{what}: {}", Message::new(&input[..input.len().min(200)]).shown()));
    let mut ends = input.iter().enumerate().filter(|byte| *byte.1 == 1).map(|byte| byte.0);
    let (Some(first), Some(second)) = (ends.next(), ends.next()) else { return Ok(None) };
    let length = std::str::from_utf8(&input[first + 1..second])
        .ok()
        .and_then(|text| text.strip_prefix("9="));
    let Some(length) =
        length.and_then(|text| text.parse::<usize>().ok()).filter(|len| *len < 1 << 24)
    else {
        return wrong("no BodyLength (9)");
    };
    let (sum_at, end) = (second + 1 + length, second + 1 + length + 7);
    if input.len() < end {
        return Ok(None);
    }
    let sum = input[..sum_at].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    match input[sum_at..end] == *format!("10={sum:03}\x01").as_bytes() {
        true => Ok(Some(end)),
        false => wrong("a wrong BodyLength (9) or CheckSum (10)"),
    }
}

/// One end of a session.
#[derive(Debug)]
pub struct Peer {
    begin_string: String,
    sender: String,
    target: String,
    /// Type and body of what was sent, the first of them with the number `first`.
    sent: VecDeque<(&'static str, String)>,
    first: u64,
    next_in: u64,
    /// The number from which the other side was asked to send again.
    asked: u64,
    last_out_ms: u64,
    /// Does the other side connect, and log on first?
    accepts: bool,
    /// Is the connection there, with a Logon on both ways?
    pub is_logged_on: bool,
    /// Bytes to be sent.
    pub out: Vec<u8>,
}

impl Peer {
    /// A session whose next numbers are these; one that `accepts` answers the Logon of the other side.
    #[must_use]
    pub fn new(
        [begin_string, sender, target]: [&str; 3],
        (next_out, next_in): (u64, u64),
        accepts: bool,
    ) -> Peer {
        Peer {
            begin_string: begin_string.to_owned(),
            sender: sender.to_owned(),
            target: target.to_owned(),
            sent: VecDeque::new(),
            first: next_out,
            next_in,
            asked: 0,
            last_out_ms: 0,
            accepts,
            is_logged_on: false,
            out: Vec::new(),
        }
    }

    /// Sends a Logon over a new connection.
    pub fn log_on(&mut self) {
        let version = if self.begin_string == "FIXT.1.1" { "1137=9|" } else { "" };
        self.out.clear();
        self.number("A", format!("98=0|108={HEARTBEAT_S}|{version}").replace('|', "\x01"), true);
    }

    /// The connection is gone: what was not sent is asked for at the next logon.
    pub fn lose(&mut self) {
        (self.is_logged_on, self.asked) = (false, 0);
        self.out.clear();
    }

    /// Numbers and keeps a message, and sends it over a connection that is there. A body that begins with 97=Y has it in its header.
    pub fn send(&mut self, kind: &'static str, body: String) {
        self.number(kind, body, self.is_logged_on);
    }

    /// Keeps a session that has nothing to say alive.
    pub fn beat(&mut self) {
        if self.is_logged_on && ms() > self.last_out_ms + QUIET_MS_MAX {
            self.send("0", String::new());
        }
    }

    fn number(&mut self, kind: &'static str, body: String, is_open: bool) {
        if is_open {
            self.write(self.first + self.sent.len() as u64, kind, "", &body);
        }
        self.sent.push_back((kind, body));
        if self.sent.len() > KEPT_MAX {
            self.sent.pop_front();
            self.first += 1;
        }
    }

    fn write(&mut self, seq: u64, kind: &str, more: &str, body: &str) {
        self.last_out_ms = ms();
        let Peer { begin_string, sender, target, .. } = self;
        let head = format!("35={kind}|34={seq}|49={sender}|52={}|56={target}|{more}", now());
        let head = format!("8={begin_string}|9={}|{head}", head.len() + body.len());
        let start = self.out.len();
        self.out.extend_from_slice(head.replace('|', "\x01").as_bytes());
        self.out.extend_from_slice(body.as_bytes());
        let sum = self.out[start..].iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        self.out.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
    }

    /// Takes the next message of `input`: how many bytes it has, and the message where it is new and none of the session itself; `None` while
    /// it is not whole.
    ///
    /// # Errors
    /// In words: the other side broke a rule of the session.
    pub fn hear(&mut self, input: &[u8]) -> Result<Option<(usize, Option<Message>)>, String> {
        let Some(len) = framed(input)? else { return Ok(None) };
        let message = Message::new(&input[..len]);
        let (seq, kind) = (message.number(34), message.get(35));
        if kind == "A" {
            if self.accepts {
                self.log_on();
            }
            self.is_logged_on = true;
        }
        if kind == "2" {
            self.send_again(message.number(7), message.number(16));
        }
        if seq > self.next_in {
            if self.asked != self.next_in {
                self.asked = self.next_in;
                self.send("2", format!("7={}\x0116=0\x01", self.next_in));
            }
            return Ok(Some((len, None)));
        }
        if seq < self.next_in {
            return match message.get(43) {
                "Y" => Ok(Some((len, None))),
                _ => Err(format!("the number {seq} again, without 43=Y: {}", message.shown())),
            };
        }
        self.next_in = if kind == "4" { message.number(36) } else { seq + 1 };
        match kind {
            "1" => self.send("0", format!("112={}\x01", message.get(112))),
            "5" => self.send("5", String::new()),
            _ => {}
        }
        let is_own = matches!(kind, "0" | "1" | "2" | "4" | "5" | "A");
        Ok(Some((len, (!is_own).then_some(message))))
    }

    /// Sends messages once more; what is the session's own, or no longer kept, is filled.
    fn send_again(&mut self, from: u64, to: u64) {
        let end = self.first + self.sent.len() as u64;
        let end = if to == 0 { end } else { end.min(to + 1) };
        let mut seq = from;
        while seq < end {
            let kept = |seq: u64| {
                usize::try_from(seq.checked_sub(self.first)?).ok().and_then(|at| self.sent.get(at))
            };
            let again = |seq: u64| kept(seq).filter(|one| !matches!(one.0, "0" | "2" | "5" | "A"));
            let next = (seq..end).find(|seq| again(*seq).is_some()).unwrap_or(end);
            let more = format!("43=Y|122={}|", now());
            if next > seq {
                self.write(seq, "4", &more, &format!("123=Y\x0136={next}\x01"));
                seq = next;
                continue;
            }
            let (kind, body) = again(seq).cloned().unwrap_or_default();
            self.write(seq, kind, &more, &body);
            seq += 1;
        }
    }
}

fn ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time as FIX writes it.
#[must_use]
pub(super) fn now() -> String {
    let text = money::Instant::from_ms(ms()).to_string();
    let (date, time) = text.trim_end_matches('Z').split_once('T').unwrap_or_default();
    let (time, part) = time.split_once('.').unwrap_or((time, ""));
    format!("{}-{time}.{part:0<3}", date.replace('-', ""))
}
