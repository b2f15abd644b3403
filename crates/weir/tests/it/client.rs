//! A blocking client of the batch door.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};

use wire::{
    Action, DecideFlags, EncodeError, Message, Reason, Split, Verdict, books_request, decide,
    extend, find, frame, hello, ping, resolve, totals_request,
};

use crate::support::{PATIENCE, wait_for};

pub(crate) type Token = [u8; 32];

/// Frames that the client takes.
const FRAME_MAX: u32 = 1 << 24;

/// Request ids that no other test of the process uses.
pub(crate) fn fresh_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A frame of the node, in owned form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Welcome { version: u16, node: u16, batch_max: u16, worker: u16, frame_max: u32 },
    Decided { frame: u64, answers: Vec<(Verdict, Token)> },
    Resolved { frame: u64, answers: Vec<(Verdict, bool)> },
    Extended { frame: u64, answers: Vec<(Verdict, bool, u64)> },
    Refused { frame: u64, reason: Reason, detail: String },
    Pong { frame: u64, now_ms: u64 },
    Books { frame: u64, more: bool, lines: Vec<BookLine> },
    Found { frame: u64, verdict: Verdict, id: u64 },
    Totals { frame: u64, decisions: u64, granted: u64, resolves: u64, repeats: u64 },
}

/// A budget's books as the batch door tells them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BookLine {
    pub(crate) id: u64,
    pub(crate) limit: i64,
    pub(crate) sum: i64,
    pub(crate) settled: i64,
    pub(crate) unit: [u8; 4],
}

/// One ask in the unit of the budget.
pub(crate) fn ask(request: u64, budget: u64, amount: i64) -> decide::Ask {
    decide::Ask::new(request, budget, amount, 7, [0; 4], 0, 0)
}

/// One member of a pod.
pub(crate) fn pod_ask(budget: u64, amount: i64, pod: u16) -> decide::Ask {
    decide::Ask::new(fresh_id(), budget, amount, 7, [0; 4], pod, 0)
}

pub(crate) fn encoded(
    len: usize,
    encode: impl FnOnce(&mut [u8]) -> Result<usize, EncodeError>,
) -> Vec<u8> {
    let mut buf = vec![0; len];
    let written = encode(&mut buf).unwrap();
    assert_eq!(written, len);
    buf
}

pub(crate) fn hello_frame(versions: (u16, u16), client: u64, auth: &[u8]) -> Vec<u8> {
    let name = "test";
    encoded(hello::encoded_len(auth.len(), name.len()), |buf| {
        let block = hello::Block::new(versions.0, versions.1, client);
        Ok(hello::encode(buf, &block)?.auth(auth)?.name(name)?.finish())
    })
}

pub(crate) fn decide_frame(frame: u64, flags: DecideFlags, asks: &[decide::Ask]) -> Vec<u8> {
    encoded(decide::encoded_len(asks.len()), |buf| {
        Ok(decide::encode(buf, &decide::Block::new(frame, flags))?.asks(asks)?.finish())
    })
}

pub(crate) fn resolve_frame(frame: u64, items: &[resolve::Item]) -> Vec<u8> {
    encoded(resolve::encoded_len(items.len()), |buf| {
        Ok(resolve::encode(buf, &resolve::Block::new(frame))?.resolves(items)?.finish())
    })
}

pub(crate) fn ping_frame(frame: u64) -> Vec<u8> {
    encoded(ping::encoded_len(), |buf| Ok(ping::encode(buf, &ping::Block::new(frame))?.finish()))
}

pub(crate) fn books_frame(frame: u64, from: u64, max: u16) -> Vec<u8> {
    let block = books_request::Block::new(frame, from, max);
    encoded(books_request::encoded_len(), |buf| Ok(books_request::encode(buf, &block)?.finish()))
}

pub(crate) fn totals_frame(frame: u64) -> Vec<u8> {
    let block = totals_request::Block::new(frame);
    encoded(totals_request::encoded_len(), |buf| Ok(totals_request::encode(buf, &block)?.finish()))
}

pub(crate) fn find_frame(frame: u64, handle: &str) -> Vec<u8> {
    let block = find::Block::new(frame);
    encoded(find::encoded_len(handle.len()), |buf| {
        Ok(find::encode(buf, &block)?.handle(handle)?.finish())
    })
}

/// One connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    unread: Vec<u8>,
    frame: u64,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client { stream, unread: Vec::new(), frame: 0 }
    }

    /// Another handle on the same connection, for a second thread.
    pub(crate) fn writer(&self) -> TcpStream {
        self.stream.try_clone().unwrap()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The same, where the node may end at any moment; false if it has.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        match self.stream.write_all(bytes) {
            Ok(()) => true,
            Err(e) if matches!(e.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset) => {
                false
            }
            Err(error) => panic!("not sent: {error}"),
        }
    }

    pub(crate) fn next_frame(&mut self) -> u64 {
        self.frame += 1;
        self.frame
    }

    /// The next frame of the node as it came; `None` at the end of the connection.
    pub(crate) fn try_receive_bytes(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Split::Frame(frame) = frame::split(&self.unread, FRAME_MAX).unwrap() {
                let frame = frame.to_vec();
                self.unread.drain(..frame.len());
                return Some(frame);
            }
            let mut chunk = [0; 65_536];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.unread.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                // The process was stopped and goes on.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer: {error}"),
            }
        }
    }

    pub(crate) fn receive_bytes(&mut self) -> Vec<u8> {
        self.try_receive_bytes().expect("the node ended the connection")
    }

    pub(crate) fn receive(&mut self) -> Reply {
        reply(&self.receive_bytes())
    }

    /// The node ends the connection, with nothing more to say.
    pub(crate) fn expect_end(&mut self) {
        if let Some(frame) = self.try_receive_bytes() {
            panic!("expected the end of the connection, got {:?}", reply(&frame));
        }
    }

    /// A refusal for this reason; returns what it says.
    pub(crate) fn expect_refusal(&mut self, expected: Reason) -> (u64, String) {
        match self.receive() {
            Reply::Refused { frame, reason, detail } if reason == expected => (frame, detail),
            other => panic!("expected a refusal as {expected:?}, got {other:?}"),
        }
    }

    /// Says Hello and takes the welcome.
    pub(crate) fn hello(&mut self) -> Reply {
        self.hello_as(fresh_id())
    }

    pub(crate) fn hello_as(&mut self, client: u64) -> Reply {
        self.send(&hello_frame((1, 1), client, b""));
        let reply = self.receive();
        assert!(matches!(reply, Reply::Welcome { .. }), "{reply:?}");
        reply
    }

    /// The id of the budget with this handle, made if a template matches, or why there is none.
    pub(crate) fn find(&mut self, handle: &str) -> Result<u64, Verdict> {
        let sent = self.next_frame();
        self.send(&find_frame(sent, handle));
        match self.receive() {
            Reply::Found { frame, verdict: Verdict::Granted, id } if frame == sent => Ok(id),
            Reply::Found { frame, verdict, .. } if frame == sent => Err(verdict),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn ping(&mut self) {
        let frame = self.next_frame();
        self.send(&ping_frame(frame));
        let reply = self.receive();
        assert!(matches!(reply, Reply::Pong { frame: echoed, .. } if echoed == frame), "{reply:?}");
    }

    pub(crate) fn decide_with(
        &mut self,
        flags: DecideFlags,
        asks: &[decide::Ask],
    ) -> Vec<(Verdict, Token)> {
        let sent = self.next_frame();
        self.send(&decide_frame(sent, flags, asks));
        match self.receive() {
            Reply::Decided { frame, answers } if frame == sent && answers.len() == asks.len() => {
                answers
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn decide(&mut self, asks: &[decide::Ask]) -> Vec<(Verdict, Token)> {
        self.decide_with(DecideFlags::default(), asks)
    }

    /// The verdict on one ask with an id of its own.
    pub(crate) fn verdict(&mut self, budget: u64, amount: i64) -> Verdict {
        self.decide(&[ask(fresh_id(), budget, amount)])[0].0
    }

    /// Asks until it is granted: a purse may have to be filled first.
    pub(crate) fn grant(&mut self, budget: u64, amount: i64) -> Token {
        let mut token = [0; 32];
        wait_for("a grant", || {
            let (verdict, given) = self.decide(&[ask(fresh_id(), budget, amount)])[0];
            assert!(matches!(verdict, Verdict::Granted | Verdict::PurseEmpty), "{verdict:?}");
            token = given;
            verdict == Verdict::Granted
        });
        assert_ne!(token, [0; 32]);
        token
    }

    /// Asks until this is the verdict: changes of the configuration travel for some milliseconds.
    pub(crate) fn wait_verdict(&mut self, budget: u64, amount: i64, expected: Verdict) {
        let mut last = None;
        wait_for(&format!("{expected:?} for budget {budget}"), || {
            last = Some(self.verdict(budget, amount));
            last == Some(expected)
        });
    }

    pub(crate) fn resolve_all(&mut self, items: &[resolve::Item]) -> Vec<(Verdict, bool)> {
        let sent = self.next_frame();
        self.send(&resolve_frame(sent, items));
        match self.receive() {
            Reply::Resolved { frame, answers } if frame == sent && answers.len() == items.len() => {
                answers
            }
            other => panic!("{other:?}"),
        }
    }

    /// The verdict, and whether it is a first answer given again.
    pub(crate) fn resolve(&mut self, token: Token, amount: i64, action: Action) -> (Verdict, bool) {
        self.resolve_all(&[resolve::Item::new(token, amount, action, 0)])[0]
    }

    pub(crate) fn settle(&mut self, token: Token, amount: i64) -> (Verdict, bool) {
        self.resolve(token, amount, Action::Settle)
    }

    /// Later ends of holds, in one frame: the verdict of each, whether its end stays, and its end.
    pub(crate) fn extend(&mut self, holds: &[(Token, u32)]) -> Vec<(Verdict, bool, u64)> {
        let sent = self.next_frame();
        let holds: Vec<_> =
            holds.iter().map(|(token, ms)| extend::Hold::new(*token, *ms)).collect();
        self.send(&encoded(extend::encoded_len(holds.len()), |buf| {
            Ok(extend::encode(buf, &extend::Block::new(sent))?.holds(&holds)?.finish())
        }));
        match self.receive() {
            Reply::Extended { frame, answers } if frame == sent => answers,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn books(&mut self, from: u64, max: u16) -> (bool, Vec<BookLine>) {
        let sent = self.next_frame();
        self.send(&books_frame(sent, from, max));
        match self.receive() {
            Reply::Books { frame, more, lines } if frame == sent => (more, lines),
            other => panic!("{other:?}"),
        }
    }
}

/// Reads a frame of the node.
pub(crate) fn reply(frame: &[u8]) -> Reply {
    match Message::decode(frame).unwrap() {
        Message::Welcome(m) => Reply::Welcome {
            version: m.version(),
            node: m.node(),
            batch_max: m.batch_max(),
            worker: m.worker(),
            frame_max: m.frame_max(),
        },
        Message::Decided(m) => Reply::Decided {
            frame: m.frame(),
            answers: m.answers().iter().map(|a| (a.verdict().unwrap(), *a.token())).collect(),
        },
        Message::Resolved(m) => {
            let answers = m.answers().iter().map(|a| (a.verdict().unwrap(), a.flags().repeat()));
            Reply::Resolved { frame: m.frame(), answers: answers.collect() }
        }
        Message::Extended(m) => {
            let told = |a: &wire::extended::Answer| {
                (a.verdict().unwrap(), a.flags().repeat(), a.deadline_ms())
            };
            Reply::Extended { frame: m.frame(), answers: m.answers().iter().map(told).collect() }
        }
        Message::Refused(m) => Reply::Refused {
            frame: m.frame(),
            reason: m.reason().unwrap(),
            detail: m.detail().unwrap().to_string(),
        },
        Message::Pong(m) => Reply::Pong { frame: m.frame(), now_ms: m.now_ms() },
        Message::Books(m) => {
            let lines = m.budgets().iter().map(|b| BookLine {
                id: b.budget_id(),
                limit: b.limit(),
                sum: b.free() + b.purses() + b.held() + b.settled() + b.over_settled() + b.late(),
                settled: b.settled(),
                unit: b.unit(),
            });
            Reply::Books { frame: m.frame(), more: m.more() != 0, lines: lines.collect() }
        }
        Message::Found(found) => Reply::Found {
            frame: found.frame(),
            verdict: found.verdict().unwrap(),
            id: found.budget_id(),
        },
        Message::Totals(m) => Reply::Totals {
            frame: m.frame(),
            decisions: m.decisions(),
            granted: m.granted(),
            resolves: m.resolves(),
            repeats: m.repeats(),
        },
        other => panic!("a node does not send {other:?}"),
    }
}
