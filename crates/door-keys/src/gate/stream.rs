//! Bulk streams whose bodies come in pieces: each piece is worked on by its worker, or by the pool, and answered before the next is read.
//!
//! ```text
//!  request ──▶ crate::Bulk, kept with the connection
//!  piece ──▶ little work: done at once ─┐
//!        └─▶ else: the pool ────────────┴─▶ the first results and the end: once their line is in the audit ──▶ a chunk of the answer
//! ```
//! A stream that is one piece has the line of any call. Another one has two: `"stream":"begun"` before its first results leave, and `"done"`
//! before its end does, or `"cut"` where it ended early.

use std::sync::Arc;

use door_http::{Next, Piece, PieceReply, Reply as HttpReply, Response, Then};
use door_transport::ConnId;
use vault::WipedBytes;

use super::audit::{self, AuditDesk, StreamPart, Told};
use super::keeper::Asker;
use super::late::{Late, LateAnswer, Owed};
use super::{
    BUSY, Entered, Front, LIMITED, NO_STORE, RETRY, ReadGate, STOPPING, Side, inline, response,
};
use crate::{Bulk, BulkError};

/// Streams of one worker at once. Each may hold an item that is not whole, and what a piece came to: some MiB together.
pub(super) const STREAMS_MAX: usize = 256;
/// Why a place for an answer is found.
const ROOM: &str = "each stream has a place of its own";
const NOT_ALLOWED: &[u8] = b"{\"errors\":[\"permission denied\"]}\n";
const OPENING: Response<'static> = Response {
    status: 200,
    content_type: Some("application/octet-stream"),
    headers: NO_STORE,
    body: b"",
};

/// A stream under way: with its connection, or with whoever works on a piece of it.
pub(super) struct Stream {
    pub(super) bulk: Bulk,
    asker: Asker,
    /// A line says that it has begun: results may have left.
    is_told: bool,
    /// Of the token file that allowed it.
    number: u32,
    /// As many hold one as there are streams.
    _counted: Arc<()>,
}

/// A piece for the pool.
pub(super) struct PieceJob {
    pub(super) piece: WorkedPiece,
    pub(super) now_s: u64,
    pub(super) owed: Owed,
}

/// A piece that is, or was, worked on.
pub(super) struct WorkedPiece {
    pub(super) stream: Box<Stream>,
    is_last: bool,
    /// What it came to so far.
    pub(super) out: WipedBytes,
    /// Whether the stream goes on.
    end: Result<(), BulkError>,
}

impl WorkedPiece {
    /// Works on it; false: only a thread that may wait can go on.
    pub(super) fn work<G: crate::Gate>(&mut self, gate: &mut G, now_s: u64) -> bool {
        let bulk = &mut self.stream.bulk;
        let worked = bulk.work(gate, now_s, &mut self.out);
        self.end = match worked {
            Err(BulkError::Elsewhere) => return false,
            Ok(()) if self.is_last => bulk.finish(&mut self.out).map(|_| ()),
            other => other,
        };
        true
    }

    /// The line that has to be written before what it came to leaves, where there is one.
    fn line(&mut self) -> Option<String> {
        let part = match (&self.end, self.stream.is_told) {
            (Err(_), true) => StreamPart::Cut,
            (Ok(()), true) if self.is_last => StreamPart::Done,
            (Ok(()), true) => return None,
            (Err(_), false) => StreamPart::Whole,
            (Ok(()), false) if self.is_last => StreamPart::Whole,
            (Ok(()), false) if self.out.is_empty() => return None,
            (Ok(()), false) => {
                self.stream.is_told = true;
                StreamPart::Begun
            }
        };
        let status = self.end.map_or_else(|why| why.status(), |()| 200);
        self.stream.line(status, part)
    }

    /// Gives it back to its worker: once its line is written, where it has one.
    pub(super) fn give(mut self, audit: Option<&AuditDesk>, owed: Owed) {
        let told = audit.and_then(|audit| self.line().map(|line| (audit, line)));
        match told {
            Some((audit, line)) => {
                audit.wait(Told { line, answer: Some((owed, Late::Piece(self))) });
            }
            None => owed.give(Late::Piece(self)),
        }
    }
}

impl Stream {
    fn line(&self, status: u16, part: StreamPart) -> Option<String> {
        let mut audit = self.bulk.audit();
        if part == StreamPart::Whole && status != 200 {
            // As of every call that is refused as a whole.
            (audit.items, audit.failed) = (1, 1);
        }
        audit::stream_line(self.asker.principal.name(), status, &audit, part)
    }
}

impl Front<'_> {
    /// Begins a stream, or refuses it.
    pub(super) fn begin_stream(
        &mut self,
        conn: ConnId,
        asked: &crate::Request<'_>,
        reply: HttpReply<'_, '_>,
    ) -> Then {
        let (side, entered) = (&mut *self.side, &mut *self.entered);
        let known = asked.token.and_then(|token| side.enter(entered, token));
        if known.is_some_and(|known| !side.terms.rates.allows(&known.used)) {
            side.counters.limited.add(1);
            return reply.send(&response(429, RETRY, LIMITED));
        }
        if Arc::strong_count(&side.streams) > STREAMS_MAX {
            side.counters.busy.add(1);
            return reply.send(&response(503, RETRY, BUSY));
        }
        side.keys.refresh();
        let caller = known.map(|known| known.asker.caller());
        let begun = side.door.bulk(asked, caller.as_ref(), &mut ReadGate(side.keys.keys()));
        let answer = match (begun, known) {
            (Ok(bulk), Some(known)) => {
                let (asker, number) = (known.asker.clone(), known.number);
                let _counted = Arc::clone(&side.streams);
                let stream = Stream { bulk, asker, is_told: false, number, _counted };
                *self.stream = Some(Box::new(stream));
                side.counters.streams.add(1);
                return reply.pieces(OPENING);
            }
            (Err(answer), _) => answer,
            (Ok(_), None) => return reply.send(&response(403, NO_STORE, NOT_ALLOWED)),
        };
        let line = known.filter(|_| side.terms.audit.is_some()).and_then(|known| {
            audit::line(known.asker.principal.name(), answer.status, &answer.audit)
        });
        let late = LateAnswer::of(&answer);
        let Some(line) = line else {
            side.counters.tell(late.status, late.items);
            return reply.send(&response(late.status, late.headers, &late.body));
        };
        let owed = side.owe(conn).expect("the guard found room");
        side.told.push(Told { line, answer: Some((owed, Late::Answer(late))) });
        reply.later()
    }

    /// Works on a piece, or leaves it to the pool.
    pub(super) fn take_piece(
        &mut self,
        conn: ConnId,
        piece: Piece<'_>,
        reply: PieceReply<'_, '_>,
    ) -> Next {
        let side = &mut *self.side;
        // Without a stream there is no answer that asked for pieces.
        let Some(mut stream) = self.stream.take() else {
            return reply.fail(&response(503, RETRY, STOPPING));
        };
        if !side.still_allows(self.entered, &mut stream) {
            side.cut(&stream, 403);
            return reply.fail(&response(403, NO_STORE, NOT_ALLOWED));
        }
        stream.bulk.take(piece.bytes);
        side.keys.refresh();
        let now_s = self.till.clock.last_ms() / 1_000;
        let out = WipedBytes::default();
        let mut worked = WorkedPiece { stream, is_last: piece.is_last, out, end: Ok(()) };
        let keys = side.keys.keys();
        let is_small = inline::is_small_piece(&worked.stream.bulk, keys);
        if is_small && worked.work(&mut ReadGate(keys), now_s) {
            self.answer_piece(conn, worked, reply)
        } else {
            self.leave_piece(conn, worked, now_s, reply)
        }
    }

    /// Answers a piece that was worked on here.
    fn answer_piece(
        &mut self,
        conn: ConnId,
        mut worked: WorkedPiece,
        reply: PieceReply<'_, '_>,
    ) -> Next {
        let side = &mut *self.side;
        let line = side.terms.audit.is_some().then(|| worked.line()).flatten();
        if let Some(line) = line {
            let owed = side.owe(conn).expect(ROOM);
            side.told.push(Told { line, answer: Some((owed, Late::Piece(worked))) });
            return reply.later();
        }
        side.count_end(&worked);
        match worked.end {
            Ok(()) => {
                let next = reply.send(&worked.out);
                *self.stream = (!worked.is_last).then_some(worked.stream);
                next
            }
            Err(why) => reply.fail(&response(why.status(), headers_of(why), &why.body())),
        }
    }

    fn leave_piece(
        &mut self,
        conn: ConnId,
        piece: WorkedPiece,
        now_s: u64,
        reply: PieceReply<'_, '_>,
    ) -> Next {
        let side = &mut *self.side;
        let owed = side.owe(conn).expect(ROOM);
        side.counters.by_pool.add(1);
        side.terms.pool.leave(Box::new(PieceJob { piece, now_s, owed }));
        reply.later()
    }
}

fn headers_of(why: BulkError) -> &'static [u8] {
    if why.status() == 503 { RETRY } else { NO_STORE }
}

impl Side {
    /// Whether who began a stream may go on: asked of every piece, so that a token that was taken away ends it.
    fn still_allows(&mut self, entered: &mut Option<Box<Entered>>, stream: &mut Stream) -> bool {
        self.tokens.refresh();
        if self.tokens.number() == stream.number {
            return true;
        }
        let token = entered.as_ref().map(|known| known.token.clone());
        let Some(known) = token.and_then(|token| self.enter(entered, &token)) else { return false };
        stream.number = known.number;
        known.asker.scopes.allows(stream.bulk.verb(), stream.bulk.key().as_str())
    }

    /// A stream ends early. Whether its line can be written or not, nothing more of it leaves.
    pub(super) fn cut(&mut self, stream: &Stream, status: u16) {
        let counts = &self.counters;
        counts.streams_cut.add(1);
        let audit = stream.bulk.audit();
        counts.tell(status, Some((audit.items, audit.failed)));
        let part = if stream.is_told { StreamPart::Cut } else { StreamPart::Whole };
        let line = stream.line(status, part);
        if let (Some(audit), Some(line)) = (&self.terms.audit, line) {
            // Without room in its queue the line is lost, and the one that it had begun stays.
            let _ = audit.tell(vec![Told { line, answer: None }]);
        }
    }

    /// Counts a stream that has come to its end.
    fn count_end(&self, worked: &WorkedPiece) {
        let counts = &self.counters;
        let audit = worked.stream.bulk.audit();
        match worked.end {
            Ok(()) if worked.is_last => counts.tell(200, Some((audit.items, audit.failed))),
            Ok(()) => {}
            Err(why) => {
                counts.streams_cut.add(1);
                counts.tell(why.status(), Some((audit.items, audit.failed)));
            }
        }
    }

    /// A piece is back: writes what it came to.
    pub(super) fn piece_is_back<S>(
        &mut self,
        id: ConnId,
        worked: WorkedPiece,
        outbox: &mut super::DoorOutbox<'_, '_, S, super::KeysConn>,
    ) {
        let is_open = outbox.answer(id, |conn, out| match worked.end {
            Ok(()) => conn.http.send_piece(out, &worked.out),
            Err(why) => {
                let body = why.body();
                conn.http.fail_piece(out, &response(why.status(), headers_of(why), &body))
            }
        });
        if !is_open {
            self.counters.clients_gone.add(1);
            if worked.end.is_ok() && !worked.is_last {
                self.cut(&worked.stream, CLIENT_GONE);
            } else {
                self.count_end(&worked);
            }
            return;
        }
        self.count_end(&worked);
        if worked.end.is_ok() && !worked.is_last {
            let mut stream = Some(worked.stream);
            outbox.with(id, |conn, _| conn.stream = stream.take());
        }
    }
}

/// The status in the audit of a stream whose client was gone before its end: nobody was sent it.
pub(super) const CLIENT_GONE: u16 = 499;
