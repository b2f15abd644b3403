// What must hold for any talk of a FIX peer. The fuzz target calls this function, and so does the test that replays its corpus in plain
// `cargo test`.

use fix::{Framing, Index, Message, TimestampText, frame, sum};
use fix_session::{
    Application, MemoryStore, MessageStore, Now, Outbox, Role, Session, SessionConfig,
    SessionState, Turn,
};

/// 2026-11-23 10:15:30 UTC.
const START_UNIX_MS: i64 = 1_795_428_930_000;

struct Taken(usize);

impl<S: MessageStore> Application<S> for Taken {
    fn take(&mut self, session: &mut Session, _message: &Message<'_>, turn: &mut Turn<'_, S>) {
        self.0 += 1;
        // An application that answers at once, within the turn.
        let _ = session.send(b"8", b"11=x\x01", turn);
    }

    fn may_resend(&mut self, _message: &Message<'_>) -> bool {
        self.0.is_multiple_of(2)
    }
}

/// Lines of a peer's messages without 8, 9, 49, 52, 56 and 10, with bars for SOH. `~N` lets N milliseconds pass, `!` cuts the connection
/// and opens another, and a line that begins with `=` is bytes as they are.
/// Returns how many messages the sessions said.
pub(crate) fn fix_session(bytes: &[u8]) -> u64 {
    [Role::Acceptor, Role::Initiator].map(|role| talk(role, bytes)).iter().sum()
}

fn talk(role: Role, bytes: &[u8]) -> u64 {
    let mut config = SessionConfig::new(role, "FIX.4.4", "GATE", "CLIENT");
    config.next_expected = bytes.len().is_multiple_of(2);
    let mut session = Session::new(config).expect("plain texts");
    let mut store = MemoryStore::new(START_UNIX_MS);
    let mut now = Now { ms: 5_000_000, unix_ms: START_UNIX_MS };
    let (mut index, mut taken, mut input) = (Index::new(256), Taken(0), Vec::new());
    let mut out = Outbox::default();
    let mut count = 0;
    for line in std::iter::once(&b"!"[..]).chain(bytes.split(|byte| *byte == b'\n').take(200)) {
        let mut turn = Turn { now, store: &mut store, out: &mut out };
        match line.split_first() {
            Some((b'!', _)) => {
                session.disconnected();
                input.clear();
                let _ = session.connected(&mut turn);
            }
            Some((b'~', ms)) => {
                let ms = std::str::from_utf8(ms).ok().and_then(|ms| ms.trim().parse::<u32>().ok());
                let ms = ms.unwrap_or(0) % 200_000;
                now.ms += u64::from(ms);
                now.unix_ms += i64::from(ms);
                turn.now = now;
                session.tick(&mut turn);
            }
            Some((b'=', raw)) => input.extend_from_slice(raw),
            _ => input.extend_from_slice(&whole(line, now)),
        }
        let mut turn = Turn { now, store: &mut store, out: &mut out };
        let used = session.feed(&input, &mut index, &mut turn, &mut taken);
        assert!(used <= input.len());
        input.drain(..used);
        assert!(store.next_in() >= 1 && store.next_out() >= 1);
        said(&std::mem::take(&mut out.bytes), &mut count);
        if out.disconnect.take().is_some() {
            assert!(session.state() == SessionState::Disconnected, "{:?}", session.state());
            input.clear();
        }
        out.notices.clear();
    }
    count
}

/// A message of the peer with a right frame and header.
fn whole(line: &[u8], now: Now) -> Vec<u8> {
    let body: Vec<u8> = line.iter().map(|byte| if *byte == b'|' { 1 } else { *byte }).collect();
    let (kind, rest) =
        body.split_at(body.iter().position(|byte| *byte == 1).map_or(0, |at| at + 1));
    let mut time = TimestampText::default();
    let time = time.of_unix_ms(now.unix_ms);
    let header = [&b"49=CLIENT\x0152="[..], time, b"\x0156=GATE\x01"].concat();
    let body = [kind, &header, rest].concat();
    let mut message = format!("8=FIX.4.4\x019={}\x01", body.len()).into_bytes();
    message.extend_from_slice(&body);
    message.extend_from_slice(format!("10={:03}\x01", sum(&message)).as_bytes());
    message
}

/// What a session says is whole messages, and nothing else.
fn said(mut bytes: &[u8], count: &mut u64) {
    while !bytes.is_empty() {
        let Framing::Whole(message) = frame(bytes, 1 << 20) else {
            panic!("no whole message: {:?}", String::from_utf8_lossy(bytes))
        };
        *count += 1;
        bytes = &bytes[message.bytes().len()..];
    }
}
