//! One session and a hand-made peer; messages are written with `|` for SOH, without 8, 9, 49, 52, 56 and 10.

use fix::{Index, Message, TimestampText};
use fix_session::{
    Application, Disconnect, MemoryStore, MessageStore, Notice, Now, Outbox, Role, Session,
    SessionConfig, Turn,
};

/// 2026-11-23 10:15:30 UTC.
pub(crate) const START_UNIX_MS: i64 = 1_795_428_930_000;

/// The session under test (`GATE`), its store, and what came out. Its peer is `CLIENT`.
pub(crate) struct Desk {
    pub(crate) session: Session,
    pub(crate) store: MemoryStore,
    pub(crate) out: Outbox,
    pub(crate) now: Now,
    pub(crate) index: Index,
    /// MsgSeqNum and ClOrdID (11) of the messages that the application got.
    pub(crate) taken: Taken,
    /// What the session asked to close the connection for.
    pub(crate) closed: Option<Disconnect>,
    pub(crate) notices: Vec<Notice>,
    /// All bytes that the session sent.
    pub(crate) said: Vec<u8>,
}

/// The application: it notes what it gets.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) messages: Vec<String>,
    /// ClOrdIDs that are not sent again.
    pub(crate) stale: Vec<String>,
}

impl<S: MessageStore> Application<S> for Taken {
    fn take(&mut self, _session: &mut Session, message: &Message<'_>, _turn: &mut Turn<'_, S>) {
        let text =
            |tag| String::from_utf8_lossy(message.value(tag).unwrap_or_default()).into_owned();
        self.messages.push(format!("{} {}", text(34), text(11)));
    }

    fn may_resend(&mut self, message: &Message<'_>) -> bool {
        let id = String::from_utf8_lossy(message.value(11).unwrap_or_default()).into_owned();
        !self.stale.contains(&id)
    }
}

impl Desk {
    pub(crate) fn with(change: impl FnOnce(&mut SessionConfig)) -> Desk {
        let mut config = SessionConfig::new(Role::Acceptor, "FIX.4.4", "GATE", "CLIENT");
        change(&mut config);
        let now = Now { ms: 5_000_000, unix_ms: START_UNIX_MS };
        Desk {
            session: Session::new(config).unwrap(),
            store: MemoryStore::new(now.unix_ms),
            out: Outbox::default(),
            now,
            index: Index::new(512),
            taken: Taken::default(),
            closed: None,
            notices: Vec::new(),
            said: Vec::new(),
        }
    }

    /// An acceptor with a connection and no Logon.
    pub(crate) fn connected() -> Desk {
        let mut desk = Desk::with(|_| {});
        assert_eq!(desk.connect(), "");
        desk
    }

    /// An acceptor that is logged on; both sides are at 2.
    pub(crate) fn logged_on() -> Desk {
        Desk::logged_on_with(|_| {})
    }

    pub(crate) fn logged_on_with(change: impl FnOnce(&mut SessionConfig)) -> Desk {
        let mut desk = Desk::with(change);
        desk.connect();
        assert_eq!(desk.gets("35=A|34=1|98=0|108=30|"), "35=A|34=1|98=0|108=30|");
        desk
    }

    pub(crate) fn connect(&mut self) -> String {
        self.closed = None;
        self.step(|session, _, turn, _| session.connected(turn).unwrap())
    }

    /// Gives a message with the usual header; returns what the session sends, as it was written by its peer.
    pub(crate) fn gets(&mut self, text: &str) -> String {
        let bytes = self.message(text);
        self.gets_bytes(&bytes)
    }

    pub(crate) fn gets_bytes(&mut self, bytes: &[u8]) -> String {
        self.step(|session, index, turn, taken| {
            let used = session.feed(bytes, index, turn, taken);
            assert!(used <= bytes.len());
        })
    }

    /// Lets time pass, tick by tick as the session asks for it.
    pub(crate) fn waits(&mut self, ms: u64) -> String {
        let end = self.now.ms + ms;
        let mut sent = String::new();
        while let Some(due) = self.session.deadline_ms().filter(|due| *due <= end) {
            let step = due.saturating_sub(self.now.ms).max(1);
            self.advance(step);
            sent += &self.step(|session, _, turn, _| session.tick(turn));
        }
        self.advance(end.saturating_sub(self.now.ms));
        sent
    }

    fn advance(&mut self, ms: u64) {
        self.now.ms += ms;
        self.now.unix_ms += i64::try_from(ms).unwrap();
    }

    pub(crate) fn sends(&mut self, id: &str) -> String {
        let body = format!("11={id}\x01");
        self.step(|session, _, turn, _| {
            session.send(b"8", body.as_bytes(), turn).unwrap();
        })
    }

    pub(crate) fn resumes(&mut self) -> String {
        self.step(|session, index, turn, taken| session.resume(index, turn, taken))
    }

    pub(crate) fn step(
        &mut self,
        act: impl FnOnce(&mut Session, &mut Index, &mut Turn<'_, MemoryStore>, &mut Taken),
    ) -> String {
        let mut turn = Turn { now: self.now, store: &mut self.store, out: &mut self.out };
        act(&mut self.session, &mut self.index, &mut turn, &mut self.taken);
        let out = std::mem::take(&mut self.out);
        self.notices.extend(out.notices);
        if out.disconnect.is_some() {
            self.closed = out.disconnect;
        }
        self.said.extend_from_slice(&out.bytes);
        plain(&out.bytes)
    }

    /// The whole message of a text. `begin@` before it replaces BeginString; 49, 52 and 56 of the text replace the usual ones, and
    /// `-52` leaves one out.
    pub(crate) fn message(&self, text: &str) -> Vec<u8> {
        let (begin, text) =
            text.split_once('@').unwrap_or((&self.session.config().begin_string, text));
        self.framed(begin, &self.body(text))
    }

    fn body(&self, text: &str) -> String {
        let mut fields: Vec<&str> = text.split_terminator('|').collect();
        let kind = fields.remove(0);
        let seq = match fields.first() {
            Some(field) if field.starts_with("34=") => format!("{}|", fields.remove(0)),
            _ => String::new(),
        };
        let time = self.time(0);
        let mut header = String::new();
        for (tag, value) in [("49", "CLIENT"), ("52", time.as_str()), ("56", "GATE")] {
            let own = format!("{tag}=");
            if let Some(at) = fields.iter().position(|field| field.starts_with(&own)) {
                header += &format!("{}|", fields.remove(at));
            } else if let Some(at) = fields.iter().position(|field| *field == format!("-{tag}")) {
                fields.remove(at);
            } else {
                header += &format!("{tag}={value}|");
            }
        }
        let rest: String = fields.iter().map(|field| format!("{field}|")).collect();
        format!("{kind}|{seq}{header}{rest}").replace('|', "\x01")
    }

    fn framed(&self, begin: &str, body: &str) -> Vec<u8> {
        let mut message = format!("8={begin}\x019={}\x01{body}", body.len()).into_bytes();
        let sum = fix::sum(&message);
        message.extend_from_slice(format!("10={sum:03}\x01").as_bytes());
        message
    }

    /// The text of a time, seconds from now.
    pub(crate) fn time(&self, seconds: i64) -> String {
        let mut text = TimestampText::default();
        let text = text.of_unix_ms(self.now.unix_ms + seconds * 1_000);
        String::from_utf8_lossy(text).into_owned()
    }

    pub(crate) fn logout_reason(&self) -> &str {
        match &self.closed {
            Some(Disconnect::LoggedOut { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }
}

/// Messages without the fields that are the same in all, and with `|`.
pub(crate) fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace('\x01', "|");
    let fields = text.split_terminator('|').filter(|field| {
        !["8=", "9=", "10=", "49=", "52=", "56="].iter().any(|tag| field.starts_with(tag))
    });
    fields.map(|field| format!("{field}|")).collect()
}
