//! The batch door: SBE frames to asks, verdicts to frames.
//!
//! The door knows the protocol and no money rule. What it is asked it hands to a [`Gate`]; what a client did
//! wrong it refuses itself, with a reason that it counts. A broken frame inside a sound framing header is refused
//! and the connection lives on; once the framing itself is broken, nobody knows where the next frame begins, so
//! the refusal is followed by a close.

mod client;
pub mod gate;

use std::sync::Arc;

use access::Principal;
use door_transport::{ConnId, Out, Step};
use wire::{
    Decide, Extend, FrameError, Hello, Message, Reason, Resolve, SCHEMA_VERSION,
    SCHEMA_VERSION_MIN, Split, Verdict, books, decided, found, frame, pong, refused, welcome,
};

pub use access::Denied;
pub use client::Client;

/// What stands behind the door.
pub trait Gate {
    /// What the door accepts.
    fn limits(&self) -> Limits;

    /// Whom the token of a Hello lets in: a principal, or nobody in particular where the door has one key for all, or none.
    ///
    /// # Errors
    /// Why it lets nobody in.
    fn enter(&self, token: &[u8]) -> Result<Option<Arc<Principal>>, Denied>;

    /// Number of the token file in force. When it changes, a session looks for its principal again before the next frame.
    fn tokens_number(&self) -> u32;

    /// The principal as the token file in force has it.
    ///
    /// # Errors
    /// Why it would not be let in any more.
    fn enter_again(&self, principal: &Principal) -> Result<Arc<Principal>, Denied>;

    /// The facts of this node; the door fills in the version.
    fn welcome(&self) -> welcome::Block;

    /// Milliseconds since the Unix epoch, as of this wake-up.
    fn now_ms(&self) -> u64;

    /// Number of the configuration snapshot in force.
    fn snapshot(&self) -> u32;

    /// Decides a batch: writes one answer an ask, in order.
    fn decide(&mut self, client: &Client, batch: &Decide<'_>, answers: &mut [decided::Answer]);

    /// A batch that may wait, as `frame`, before it is judged: true if the gate keeps a copy and answers later, with
    /// [`decide_frame`]; false if it is to be judged now.
    fn postpone(&mut self, _: ConnId, _: &Client, _: &Decide<'_>, _frame: &[u8]) -> bool {
        false
    }

    /// Takes a batch of resolves; the answer follows when everything in it is sealed.
    ///
    /// # Errors
    /// The reason why it takes none of it.
    fn resolve(&mut self, conn: ConnId, batch: &Resolve<'_>) -> Result<(), Reason>;

    /// Takes a batch of later ends, as [`Gate::resolve`].
    ///
    /// # Errors
    /// The reason why it takes none of it.
    fn extend(&mut self, conn: ConnId, batch: &Extend<'_>) -> Result<(), Reason>;

    /// Takes a question about the node's books or counters; the answer follows.
    ///
    /// # Errors
    /// The reason why it does not.
    fn question(&mut self, conn: ConnId, question: Question) -> Result<(), Reason>;

    /// Looks a budget up by its handle, and has it made if a template matches. `None`: the answer follows, with [`write_found`].
    fn find(&mut self, conn: ConnId, client: &Client, frame: u64, handle: &str) -> Option<Found>;

    /// A frame was refused; for the counters.
    fn refused(&mut self, reason: Reason);

    /// A frame has come so far; for a gate that measures where time goes.
    #[inline(always)]
    fn passed(&mut self, _: Passed) {}
}

/// How far a frame of asks or resolves has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It is checked, and can be read.
    Decoded,
    /// The answer to its asks is written.
    Encoded,
}

/// What the door accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries a frame may hold.
    pub batch_max: usize,
    /// Bytes a frame may have.
    pub frame_bytes_max: u32,
}

/// Something to read from the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// The books of budgets.
    Books {
        /// Frame number to answer to.
        frame: u64,
        /// The least id wanted.
        from: u64,
        /// Budgets wanted.
        max: u16,
    },
    /// The counters.
    Totals {
        /// Frame number to answer to.
        frame: u64,
    },
}

/// What became of a client's `Find`.
pub type Found = Result<Budget, Verdict>;

/// A budget as a client has to name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Its id.
    pub id: u64,
    /// The code of its unit.
    pub unit: [u8; 4],
}

/// What the door keeps a connection.
#[derive(Clone, Debug, Default)]
pub struct Session {
    greeted: bool,
    client: Client,
    /// Of the token file that the client's principal was found in.
    tokens_number: u32,
}

impl Session {
    /// Reads what a connection received: all whole frames in it.
    pub fn received<G: Gate>(
        &mut self,
        id: ConnId,
        input: &[u8],
        out: &mut Out<'_>,
        gate: &mut G,
    ) -> Step {
        let limits = gate.limits();
        let mut consumed = 0;
        // Without room for answers the rest waits: the transport calls again once there is some.
        while out.room() > 0 {
            match frame::split(&input[consumed..], limits.frame_bytes_max) {
                Ok(Split::Frame(frame)) => {
                    consumed += frame.len();
                    if let Err(refusal) = self.frame(id, frame, out, gate, limits) {
                        let close = refusal.close;
                        refuse(out, gate, frame::frame_number_hint(frame), &refusal);
                        if close {
                            return Step::Close { consumed, after_output: true };
                        }
                    }
                }
                Ok(Split::Incomplete { need }) => return Step::Read { consumed, need },
                Err(error) => {
                    refuse(out, gate, 0, &Refusal::closing(error));
                    return Step::Close { consumed, after_output: true };
                }
            }
        }
        Step::Read { consumed, need: 0 }
    }

    #[inline]
    fn frame<G: Gate>(
        &mut self,
        id: ConnId,
        frame: &[u8],
        out: &mut Out<'_>,
        gate: &mut G,
        limits: Limits,
    ) -> Result<(), Refusal> {
        if self.tokens_number != gate.tokens_number() {
            self.enter_again(gate)?;
        }
        match Message::decode(frame).map_err(Refusal::of)? {
            Message::Decide(batch) if self.greeted => {
                check_batch(batch.asks().len(), limits)?;
                gate.passed(Passed::Decoded);
                // Whoever asks one thing at a time delays nobody by waiting, and would only ask again.
                let may_wait = batch.flags().await_fill() || batch.asks().len() == 1;
                if may_wait && gate.postpone(id, &self.client, &batch, frame) {
                    return Ok(());
                }
                decide(&self.client, &batch, out, gate);
                gate.passed(Passed::Encoded);
                Ok(())
            }
            Message::Resolve(batch) if self.greeted => {
                check_batch(batch.resolves().len(), limits)?;
                gate.passed(Passed::Decoded);
                gate.resolve(id, &batch).map_err(Refusal::plain)
            }
            Message::Hello(hello) => self.hello(&hello, out, gate),
            _ if !self.greeted => Err(Refusal::hello_expected()),
            Message::Ping(ping) => {
                let block = pong::Block::new(ping.frame(), gate.now_ms());
                write(out, pong::encoded_len(), |buf| Ok(pong::encode(buf, &block)?.finish()));
                Ok(())
            }
            Message::Find(find) => {
                let handle = find.handle().map_err(|_| Refusal::not_utf8())?;
                if let Some(found) = gate.find(id, &self.client, find.frame(), handle) {
                    write_found(out, find.frame(), found);
                }
                Ok(())
            }
            Message::Extend(batch) => {
                check_batch(batch.holds().len(), limits)?;
                gate.extend(id, &batch).map_err(Refusal::plain)
            }
            // Of all budgets.
            Message::BooksRequest(_) | Message::TotalsRequest(_) if self.client.is_limited() => {
                Err(Refusal::of_all_budgets())
            }
            Message::BooksRequest(request) => {
                let (from, max) = (request.from_budget_id(), request.max());
                let max = max.min(books_max(limits));
                let question = Question::Books { frame: request.frame(), from, max };
                gate.question(id, question).map_err(Refusal::plain)
            }
            Message::TotalsRequest(request) => {
                let question = Question::Totals { frame: request.frame() };
                gate.question(id, question).map_err(Refusal::plain)
            }
            _ => Err(Refusal::of(FrameError::UnknownTemplate {
                found: frame::template_id(frame).unwrap_or(0),
            })),
        }
    }

    fn hello<G: Gate>(
        &mut self,
        hello: &Hello<'_>,
        out: &mut Out<'_>,
        gate: &mut G,
    ) -> Result<(), Refusal> {
        let (min, max) = (hello.version_min(), hello.version_max());
        if min.max(SCHEMA_VERSION_MIN) > max.min(SCHEMA_VERSION) {
            return Err(Refusal {
                reason: Reason::VersionUnsupported,
                detail: format!(
                    "the client reads versions {min} to {max}, this node {SCHEMA_VERSION_MIN} to {SCHEMA_VERSION}"
                ),
                close: true,
            });
        }
        let principal = gate.enter(hello.auth()).map_err(Refusal::denied)?;
        self.greeted = true;
        self.client = Client { id: hello.client_id(), principal };
        self.tokens_number = gate.tokens_number();
        let mut block = gate.welcome();
        block.set_version(SCHEMA_VERSION.min(max));
        write(out, welcome::encoded_len(), |buf| Ok(welcome::encode(buf, &block)?.finish()));
        Ok(())
    }
}

impl Session {
    /// After the token file was replaced: its principal as the new file has it.
    #[cold]
    fn enter_again<G: Gate>(&mut self, gate: &G) -> Result<(), Refusal> {
        if let Some(principal) = &mut self.client.principal {
            *principal = gate.enter_again(principal).map_err(Refusal::denied)?;
        }
        self.tokens_number = gate.tokens_number();
        Ok(())
    }
}

/// Judges a frame that the gate kept when it was asked to [`Gate::postpone`] it, and writes the answer.
pub fn decide_frame<G: Gate>(client: &Client, frame: &[u8], out: &mut Out<'_>, gate: &mut G) {
    let Ok(Message::Decide(batch)) = Message::decode(frame) else {
        unreachable!("only frames that were read are kept")
    };
    decide(client, &batch, out, gate);
}

#[inline]
fn decide<G: Gate>(client: &Client, batch: &Decide<'_>, out: &mut Out<'_>, gate: &mut G) {
    let count = batch.asks().len();
    let block = decided::Block::new(batch.frame(), gate.snapshot());
    write(out, decided::encoded_len(count), |buf| {
        let (answers, encoder) = decided::encode(buf, &block)?.answers_mut(count)?;
        gate.decide(client, batch, answers);
        Ok(encoder.finish())
    });
}

/// Writes the answer to a `Find`.
pub fn write_found(out: &mut Out<'_>, frame: u64, found: Found) {
    let block = match found {
        Ok(Budget { id, unit }) => found::Block::new(frame, id, unit, Verdict::Granted),
        Err(why) => found::Block::new(frame, 0, [0; 4], why),
    };
    write(out, found::encoded_len(), |buf| Ok(found::encode(buf, &block)?.finish()));
}

/// Writes one message straight into the connection's output.
#[inline]
pub fn write(
    out: &mut Out<'_>,
    len: usize,
    encode: impl FnOnce(&mut [u8]) -> Result<usize, wire::EncodeError>,
) {
    let written = encode(out.reserve(len));
    out.commit(written.expect("encoded_len is the length that encode needs"));
}

/// Budgets that one answer may hold: no frame is longer than what Welcome said.
fn books_max(limits: Limits) -> u16 {
    let (empty, one) = (books::encoded_len(0), books::encoded_len(1));
    let room = usize::try_from(limits.frame_bytes_max).unwrap_or(usize::MAX).saturating_sub(empty);
    u16::try_from(limits.batch_max.min(room / (one - empty))).unwrap_or(u16::MAX)
}

fn check_batch(found: usize, limits: Limits) -> Result<(), Refusal> {
    let (reason, detail) = if found == 0 {
        (Reason::BatchEmpty, "the batch has no entries, expected at least one".to_string())
    } else if found > limits.batch_max {
        let text = format!("the batch has {found} entries, accepted up to {}", limits.batch_max);
        (Reason::BatchTooLarge, text)
    } else {
        return Ok(());
    };
    Err(Refusal { reason, detail, close: false })
}

/// Why a frame is not taken.
struct Refusal {
    reason: Reason,
    detail: String,
    close: bool,
}

impl Refusal {
    /// The framing is sound, the message is not.
    fn of(error: FrameError) -> Refusal {
        Refusal { reason: error.reason(), detail: error.to_string(), close: false }
    }

    fn closing(error: FrameError) -> Refusal {
        Refusal { close: true, ..Refusal::of(error) }
    }

    fn plain(reason: Reason) -> Refusal {
        let detail = match reason {
            Reason::Busy => "too many frames wait for their answers; send this one again later",
            Reason::Journal => {
                "the journal cannot be written at present; send this one again later"
            }
            Reason::ShuttingDown => "the node is stopping; send this to another or later",
            _ => "",
        };
        Refusal { reason, detail: detail.into(), close: false }
    }

    fn denied(why: Denied) -> Refusal {
        Refusal { reason: Reason::Unauthorised, detail: client::told(why), close: true }
    }

    fn of_all_budgets() -> Refusal {
        let detail = "the scopes of this token limit it to some budgets; books and totals are of all of them";
        Refusal { reason: Reason::Unauthorised, detail: detail.into(), close: false }
    }

    fn not_utf8() -> Refusal {
        let detail = "the handle is not UTF-8".into();
        Refusal { reason: Reason::Malformed, detail, close: false }
    }

    fn hello_expected() -> Refusal {
        let detail = "the first message of a connection must be Hello".into();
        Refusal { reason: Reason::HelloExpected, detail, close: true }
    }
}

#[cold]
fn refuse<G: Gate>(out: &mut Out<'_>, gate: &mut G, frame: u64, refusal: &Refusal) {
    gate.refused(refusal.reason);
    let block = refused::Block::new(frame, refusal.reason);
    let detail = refusal.detail.as_str();
    write(out, refused::encoded_len(detail.len()), |buf| {
        Ok(refused::encode(buf, &block)?.detail(detail)?.finish())
    });
}
