//! A door for tests that uses each thing which a worker offers to a door, once: ticks, a connection that it opens itself, bytes to
//! another connection, answers that another thread makes, memos that the bank records, a body larger than memory, and TLS below it.
//!
//! A client sends lines, and the first letter says what becomes of the rest: `e` echo, `l` echo that another thread answers later,
//! `p` pass it to the connection that the door dialled, whose answer comes back, `b` a body of so many bytes follows and comes
//! back, `m` a key, a space and a memo, whose first one stands, `n` a budget, a key and how much a named hold is to have, `w` who am I by my certificate, `t` nothing but a heartbeat.

mod tests;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::Sender;

use door_transport::tls::{ClientTls, Secured};
use door_transport::{ConnId, Dial, DialId, Out, Peer, Step, Then, Unreachable};
use ledger::{
    Amount, DoorMemos, LegAmounts, Memo, MemoAnswer, MemoJudge, MemoJudgement, MemoMoney,
    NamedKind, NamedLeg, NamedSay,
};
use weir_door::{Door, DoorOutbox, Heard, NamedDoor};
use weir_till::{Arrivals, Owed, Pending, Reply, Till};

/// What another thread answers, and to whom.
type LateEcho = (Owed<Vec<u8>>, Vec<u8>);
/// Connections that may wait for an answer.
const WAITING_MAX: usize = 1_024;

/// What others see of the door.
#[derive(Debug, Default)]
struct EchoSeen {
    door_ticks: AtomicU64,
    heartbeats: AtomicU64,
    dials_failed: AtomicU64,
    pauses: AtomicU64,
}

#[derive(Debug, Default)]
struct EchoConn {
    /// The door opened it.
    dialled: bool,
    /// Who its certificate says that the peer is.
    name: Option<String>,
    /// Bytes of the body that are still to come back.
    body: usize,
    /// An answer is still to come: nothing is read until then, so answers leave in the order of their lines.
    owes: bool,
}

/// As whose memos those of this door are recorded.
const MEMOS_OF: ledger::Door = ledger::Door::Fix;

fn judge(memos: &DoorMemos<'_>, memo: &Memo) -> MemoJudgement {
    memos.get(memo.key).map_or(MemoJudgement::New, |first| MemoJudgement::Known(first.into()))
}

struct EchoDoor {
    /// Its place among the doors of its worker.
    number: u8,
    dial: Dial,
    dial_id: Option<DialId>,
    dialled: Option<ConnId>,
    /// Who passed something to the dialled connection.
    asker: Option<ConnId>,
    /// Bytes for other connections.
    passing: Vec<(ConnId, Vec<u8>)>,
    /// Connections that wait for the other thread, or for the bank.
    waiting: Pending<ConnId>,
    asks: Sender<LateEcho>,
    answers: Arc<Arrivals<Vec<u8>>>,
    seen: Arc<EchoSeen>,
}

impl EchoDoor {
    fn new(
        number: u8,
        addresses: Vec<SocketAddr>,
        tls: ClientTls,
        (asks, answers): (Sender<LateEcho>, Arc<Arrivals<Vec<u8>>>),
        seen: Arc<EchoSeen>,
    ) -> EchoDoor {
        let (backoff_ms_min, backoff_ms_max) = (5, 40);
        let dial = Dial { tls: Some(tls), backoff_ms_min, backoff_ms_max, ..Dial::new(addresses) };
        EchoDoor {
            number,
            dial,
            dial_id: None,
            dialled: None,
            asker: None,
            passing: Vec::new(),
            waiting: Pending::new(WAITING_MAX),
            asks,
            answers,
            seen,
        }
    }

    /// Answers one line, now or later.
    fn answer(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut EchoConn,
        line: &[u8],
        out: &mut Out<'_>,
    ) {
        let (command, text) = line.split_first().unwrap_or((&b't', &[]));
        match command {
            b'e' => out.write(&[text, b"\n"].concat()),
            b'l' | b'm' | b'n' => match self.waiting.open(id) {
                Some(place) if *command == b'l' => {
                    let owed = Owed::new(place, &self.answers);
                    let _ = self.asks.send((owed, [text, b"\n"].concat()));
                    conn.owes = true;
                }
                Some(place) if *command == b'n' => conn.owes = self.ask_named(till, place, text),
                Some(place) => conn.owes = self.send_memo(till, place, text, out),
                None => out.write(b"busy\n"),
            },
            b'p' => {
                self.asker = Some(id);
                self.passing.extend(self.dialled.map(|to| (to, [text, b"\n"].concat())));
            }
            b'b' => {
                let size = str::from_utf8(text).ok().and_then(|size| size.parse().ok());
                conn.body = size.unwrap_or(0);
            }
            b'w' => out.write(format!("{:?}\n", conn.name).as_bytes()),
            _ => _ = self.seen.heartbeats.fetch_add(1, Relaxed),
        }
    }

    /// Asks for a named hold; false: that is refused at once.
    fn ask_named(&self, till: &mut Till, place: u32, text: &[u8]) -> bool {
        let words = str::from_utf8(text).unwrap_or_default().split(' ');
        let [budget, key, hold] =
            words.map(|word| word.parse().unwrap_or(0)).collect::<Vec<u32>>()[..]
        else {
            return false;
        };
        let amounts = LegAmounts { hold: Amount::new(hold.into()), ..LegAmounts::default() };
        let legs = vec![NamedLeg { budget: budget.into(), amounts }];
        let label = "an echo".into();
        let say = NamedSay { kind: NamedKind::Ask, key: key.into(), label, legs };
        till.named(Reply { door: self.number, index: place, entry: 0 }, vec![say]).is_ok()
    }

    /// Sends a memo to the bank; false: it is refused at once.
    fn send_memo(&mut self, till: &mut Till, place: u32, text: &[u8], out: &mut Out<'_>) -> bool {
        let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
        let (key, bytes) = (&text[..end], text.get(end + 1..).unwrap_or(&[]));
        let key = str::from_utf8(key).ok().and_then(|key| key.parse().ok()).unwrap_or(0);
        let memo = Memo { door: MEMOS_OF, key, bytes: bytes.into() };
        let reply = Reply { door: self.number, index: place, entry: 0 };
        let sent = till.memo(reply, memo, MemoMoney::Without);
        if let Err(refusal) = &sent {
            self.waiting.close(place);
            out.write(format!("{refusal}\n").as_bytes());
        }
        sent.is_ok()
    }

    /// Answers who waits at a place, and reads on.
    fn answer_late<S>(
        &mut self,
        place: u32,
        answer: &[u8],
        outbox: &mut DoorOutbox<'_, '_, S, EchoConn>,
    ) {
        let Some(id) = self.waiting.close(place) else { return };
        let told = outbox.with(id, |conn, out| {
            conn.owes = false;
            out.write(answer);
        });
        if told.is_some() {
            outbox.all().resume(id);
        }
    }
}

impl Door for EchoDoor {
    const NAME: &'static str = "echo";
    const JUDGE: Option<(ledger::Door, MemoJudge)> = Some((MEMOS_OF, judge));
    const NAMED: Option<NamedDoor> =
        Some(NamedDoor { door: MEMOS_OF, compare: |_, _| Ok(Vec::new()) });
    type Conn = EchoConn;
    type Counts = ();

    fn opened(&mut self, _: &mut Till, _: ConnId, _: Peer) -> EchoConn {
        EchoConn::default()
    }

    fn secured(&mut self, _: ConnId, conn: &mut EchoConn, secured: &Secured<'_>) {
        conn.name = secured.common_name();
    }

    fn received(
        &mut self,
        till: &mut Till,
        id: ConnId,
        conn: &mut EchoConn,
        input: &[u8],
        out: &mut Out<'_>,
    ) -> Step {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            let piece = &rest[..conn.body.min(rest.len()).min(out.room())];
            out.write(piece);
            (consumed, conn.body) = (consumed + piece.len(), conn.body - piece.len());
            if out.room() == 0 {
                out.ask_for_more();
                self.seen.pauses.fetch_add(1, Relaxed);
                return Step::Pause { consumed };
            }
            let rest = &input[consumed..];
            let end = rest.iter().position(|byte| *byte == b'\n').filter(|_| conn.body == 0);
            let Some(end) = end else { return Step::Read { consumed, need: 0 } };
            let line = &rest[..end];
            if conn.dialled {
                self.passing.extend(self.asker.map(|to| (to, [line, b"\n"].concat())));
            } else {
                self.answer(till, id, conn, line, out);
            }
            consumed += end + 1;
            if conn.owes {
                return Step::Pause { consumed };
            }
        }
    }

    fn drained(&mut self, _: &mut Till, _: ConnId, _: &mut EchoConn, _: &mut Out<'_>) -> Then {
        Then::Resume
    }

    fn dialled(&mut self, _: &mut Till, id: ConnId, dial: DialId, _: Peer) -> Option<EchoConn> {
        if self.dial_id != Some(dial) {
            return None;
        }
        self.dialled = Some(id);
        Some(EchoConn { dialled: true, ..EchoConn::default() })
    }

    fn owes(&self, _: &Till, _: ConnId, conn: &EchoConn) -> bool {
        conn.owes
    }

    fn tick_ms(&self, conn: &EchoConn) -> u64 {
        if conn.dialled { 20 } else { 0 }
    }

    /// A heartbeat on the connection that the door opened.
    fn tick(
        &mut self,
        _: &mut Till,
        _: ConnId,
        _: &mut EchoConn,
        _: u64,
        out: &mut Out<'_>,
    ) -> Then {
        out.write(b"t\n");
        Then::Stay
    }

    fn door_tick_ms(&self) -> u64 {
        15
    }

    fn heard<S>(
        &mut self,
        _: &mut Till,
        heard: Heard<'_>,
        outbox: &mut DoorOutbox<'_, '_, S, EchoConn>,
    ) {
        match heard {
            Heard::Tick => {
                self.seen.door_ticks.fetch_add(1, Relaxed);
                if self.dial_id.is_none() {
                    self.dial_id = outbox.all().dial(self.dial.clone());
                }
            }
            Heard::DialFailed(dial, _) => {
                let own = self.dial_id == Some(dial);
                self.seen.dials_failed.fetch_add(u64::from(own), Relaxed);
            }
            Heard::Named(reply, answers) => {
                self.answer_late(reply.index, format!("{answers:?}\n").as_bytes(), outbox);
            }
            Heard::Recorded(reply, answer) => {
                let answer = match answer {
                    MemoAnswer::New { .. } => "new\n".into(),
                    MemoAnswer::Known { answer } => [&b"known "[..], &answer, b"\n"].concat(),
                    other => format!("{other:?}\n").into(),
                };
                self.answer_late(reply.index, &answer, outbox);
            }
            _ => {}
        }
    }

    fn turn<S>(&mut self, _: &mut Till, outbox: &mut DoorOutbox<'_, '_, S, EchoConn>) {
        for (place, answer) in self.answers.take() {
            self.answer_late(place, answer.as_deref().unwrap_or(b"lost\n"), outbox);
        }
        let outbox = outbox.all();
        self.passing.retain(|(to, bytes)| outbox.offer(*to, bytes) == Err(Unreachable::Full));
    }

    fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
