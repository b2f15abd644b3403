//! A door and hand-made peers. Messages are written with `|` for SOH and without 8, 9, 49, 52, 56 and 10.

use door_fix::{
    Clock, Door, FixSessions, Guard, Happening, Line, Peer, SessionSpec, Step, VenueSpec,
};
use fix_session::{MemoryStore, MessageStores};

/// 2026-11-23 10:15:30 UTC.
pub(crate) const START_UNIX_MS: i64 = 1_795_428_930_000;

pub(crate) struct Desk<S: MessageStores, G: Guard = ()> {
    pub(crate) door: Door<S, G>,
    pub(crate) clock: Clock,
    /// Connections by number.
    pub(crate) lines: Vec<Option<Line>>,
    /// What each received and was not consumed.
    pub(crate) input: Vec<Vec<u8>>,
    pub(crate) begin_string: &'static str,
    pub(crate) happenings: Vec<Happening>,
}

pub(crate) fn spec(begin_string: &str) -> SessionSpec {
    let mut spec = SessionSpec::new(begin_string, "GATE", "CLIENT");
    spec.limits = Some(door_fix::Limits::None);
    spec
}

impl Desk<Vec<MemoryStore>> {
    /// A door with one session and stores in memory.
    pub(crate) fn new(begin_string: &'static str) -> Desk<Vec<MemoryStore>> {
        Desk::with(begin_string, vec![spec(begin_string)])
    }

    pub(crate) fn with(
        begin_string: &'static str,
        specs: Vec<SessionSpec>,
    ) -> Desk<Vec<MemoryStore>> {
        let stores = specs.iter().map(|_| MemoryStore::new(START_UNIX_MS)).collect();
        Desk::over(begin_string, specs, stores, ())
    }
}

impl<S: MessageStores, G: Guard> Desk<S, G> {
    pub(crate) fn over(
        begin_string: &'static str,
        specs: Vec<SessionSpec>,
        stores: S,
        guard: G,
    ) -> Desk<S, G> {
        Desk::passing(begin_string, specs, Vec::new(), stores, guard)
    }

    pub(crate) fn passing(
        begin_string: &'static str,
        specs: Vec<SessionSpec>,
        venues: Vec<VenueSpec>,
        stores: S,
        guard: G,
    ) -> Desk<S, G> {
        let config = FixSessions::new(specs, venues).unwrap();
        let clock = Clock { ms: 1_000, unix_us: START_UNIX_MS * 1_000 };
        let door = Door::new(config, stores, guard, table::Secret::new(11)).unwrap();
        let (lines, input, happenings) = (Vec::new(), Vec::new(), Vec::new());
        Desk { door, clock, lines, input, begin_string, happenings }
    }

    /// Opens a connection and returns its number.
    pub(crate) fn connect(&mut self) -> usize {
        self.connect_from(Peer::default())
    }

    pub(crate) fn connect_from(&mut self, peer: Peer) -> usize {
        let line = self.door.opened(self.lines.len() as u64, peer, self.clock);
        self.lines.push(line);
        self.input.push(Vec::new());
        self.lines.len() - 1
    }

    pub(crate) fn is_open(&self, at: usize) -> bool {
        self.lines[at].is_some()
    }

    /// Gives bytes to a connection; returns what the door sends, without the fields that are the same in all.
    pub(crate) fn gets_bytes(&mut self, at: usize, bytes: &[u8]) -> String {
        self.input[at].extend_from_slice(bytes);
        let input = std::mem::take(&mut self.input[at]);
        let mut out = Vec::new();
        let line = self.lines[at].as_mut().expect("an open connection");
        let step = self.door.received(line, &input, self.clock, &mut out);
        assert!(step.consumed <= input.len());
        self.input[at] = input[step.consumed..].to_vec();
        self.done(at, step, &out)
    }

    /// Gives a message to a connection as the first of a wake-up; returns what leaves before it ends.
    pub(crate) fn gets_first(&mut self, at: usize, text: &str) -> String {
        let (input, mut out) = (self.message(text), Vec::new());
        let line = self.lines[at].as_mut().expect("an open connection");
        let step = self.door.received_and_held(line, &input, self.clock, &mut out);
        assert_eq!(step.consumed, input.len());
        self.done(at, step, &out)
    }

    /// Ends the wake-up; returns what leaves with it: number and messages.
    pub(crate) fn flush(&mut self) -> Vec<(usize, String)> {
        self.door.flush(self.clock);
        self.happenings.extend(self.door.take_happenings());
        self.ready().iter().map(|one| (one.0, plain(&one.1))).collect()
    }

    pub(crate) fn gets(&mut self, at: usize, text: &str) -> String {
        let bytes = self.message(text);
        self.gets_bytes(at, &bytes)
    }

    /// Lets time pass, tick by tick as the door asks for it.
    pub(crate) fn waits(&mut self, at: usize, ms: u64) -> String {
        let (end, mut sent) = (self.clock.ms + ms, String::new());
        while let Some(line) = self.lines[at].as_mut() {
            let Some(due) = self.door.deadline_ms(line).filter(|due| *due <= end) else { break };
            let step = due.saturating_sub(self.clock.ms).max(1);
            self.advance(step);
            let mut out = Vec::new();
            let line = self.lines[at].as_mut().unwrap();
            let step = self.door.tick(line, self.clock, &mut out);
            sent += &self.done(at, step, &out);
        }
        self.advance(end.saturating_sub(self.clock.ms));
        sent
    }

    pub(crate) fn advance(&mut self, ms: u64) {
        self.clock.ms += ms;
        self.clock.unix_us += i64::try_from(ms).unwrap() * 1_000;
    }

    pub(crate) fn done(&mut self, at: usize, step: Step, out: &[u8]) -> String {
        self.happenings.extend(self.door.take_happenings());
        if step.close {
            self.drop_line(at);
        }
        plain(out)
    }

    /// Opens the connection to the venue, which is session 1; returns its number and the Logon.
    pub(crate) fn dial(&mut self) -> (usize, String) {
        self.dial_to(1)
    }

    /// The same of any session.
    pub(crate) fn dial_to(&mut self, venue: usize) -> (usize, String) {
        let (id, mut out) = (self.lines.len(), Vec::new());
        let line = self.door.dialled(id as u64, venue, self.clock, &mut out);
        self.lines.push(line);
        self.input.push(Vec::new());
        (id, plain(&out))
    }

    /// What waits for other connections than that of the last step: number and messages, as they are.
    pub(crate) fn ready(&mut self) -> Vec<(usize, Vec<u8>)> {
        let ready = self.door.take_ready();
        let ready = ready.into_iter().map(|one| {
            let line = usize::try_from(one.line).unwrap();
            if one.close {
                self.drop_line(line);
            }
            (line, one.bytes)
        });
        ready.collect()
    }

    pub(crate) fn drop_line(&mut self, at: usize) {
        if let Some(line) = self.lines[at].take() {
            self.door.closed(line);
        }
    }

    /// The whole message of a text. `begin@` before it replaces BeginString; 49, 52 and 56 of the text replace the usual ones, `-52` leaves one
    /// out, and `9=` or `10=` at its end replace these.
    pub(crate) fn message(&self, text: &str) -> Vec<u8> {
        let (begin, text) = text.split_once('@').unwrap_or((self.begin_string, text));
        let mut fields: Vec<String> = text.split_terminator('|').map(str::to_owned).collect();
        let mut take = |tag: &str| {
            let own = format!("{tag}=");
            let at = fields.iter().position(|field| field.starts_with(&own))?;
            Some(fields.remove(at))
        };
        let (length, sum) = (take("9"), take("10"));
        let (kind, seq) = (take("35").unwrap(), take("34"));
        let time = format!("52={}", self.time(0));
        let usual = [("49", "49=CLIENT".to_owned()), ("52", time), ("56", "56=GATE".to_owned())];
        let mut header = vec![kind];
        header.extend(seq);
        for (tag, value) in usual {
            let given = take(tag);
            header.push(given.unwrap_or(value));
        }
        for field in &fields {
            if let Some(tag) = field.strip_prefix('-') {
                header.retain(|one| !one.starts_with(&format!("{tag}=")));
            }
        }
        fields.retain(|field| !field.starts_with('-'));
        let body: String =
            header.iter().chain(&fields).map(|field| format!("{field}\x01")).collect();
        let length = length.unwrap_or(format!("9={}", body.len()));
        let mut message = format!("8={begin}\x01{length}\x01{body}").into_bytes();
        let right = format!("10={:03}", fix::sum(&message));
        message.extend_from_slice(sum.unwrap_or(right).as_bytes());
        message.push(1);
        message
    }

    /// The text of a time, seconds from now.
    pub(crate) fn time(&self, seconds: i64) -> String {
        let mut text = fix::TimestampText::default();
        let text = text.of_unix_ms(self.clock.unix_us / 1_000 + seconds * 1_000);
        String::from_utf8_lossy(text).into_owned()
    }
}

/// Messages without the fields that are the same in all, and with `|`. What is not a whole message stands there as it is.
pub(crate) fn plain(mut bytes: &[u8]) -> String {
    let mut text = String::new();
    while let fix::Framing::Whole(whole) = fix::frame(bytes, usize::MAX) {
        bytes = &bytes[whole.bytes().len()..];
        let message = String::from_utf8_lossy(whole.bytes()).replace('\x01', "|");
        for field in message.split_terminator('|') {
            if !["8=", "9=", "10=", "49=", "52=", "56="].iter().any(|tag| field.starts_with(tag)) {
                text += &format!("{field}|");
            }
        }
    }
    assert!(bytes.is_empty(), "a part of a message");
    text
}
