//! Bodies and answers of megabytes, which a worker moves in parts: what is done to one of them in one go keeps everybody else waiting for as
//! many milliseconds as it has megabytes.
//!
//! ```text
//!  head ──▶ token, rate, room ──▶ Gathering: piece after piece, where it stays ──▶ whole: the pool
//!  the pool's answer ──▶ Leaving: its head, and part after part as the client takes them ──▶ its bytes back to the pool, to be wiped
//! ```
//! So does a body in HTTP chunks, whose size nobody knows before, and which a worker answers itself where it turns out to be small. A body that is
//! packed is put together by the worker; so is one of HTTP/1.0, and one for which there is no room: clients that begin bodies and do not go on take the way of
//! no other. Who has no token is refused by the head, so that nothing of the body is kept.

use door_http::{
    After, Next, Piece, PieceReply, ROOM_BYTES_KEPT, Reply as HttpReply, Response, Then,
};
use door_transport::{ConnId, Out, Then as Going};
use vault::WipedBytes;

use super::audit::{self, Told};
use super::keeper::{Asker, OwnedRequest};
use super::late::{Late, LateAnswer, Owed};
use super::pool::Spent;
use super::{
    BUSY, DoorOutbox, Front, KeysConn, LIMITED, NO_STORE, RETRY, ReadGate, Side, TOO_LARGE,
    TRANSIT_PATH, To, inline, response,
};
use crate::BULK_PATH;

/// What leaves of an answer at once: some microseconds of copying.
const PART_BYTES: usize = 128 << 10;
/// How many of the largest bodies a worker has room for while they arrive, and again while their answers leave.
const LARGEST_AT_ONCE: usize = 4;
/// What has to come of a body in each `transport.partial_ms_max`, where it does not become whole.
const COMES_ON_BYTES: usize = 64 << 10;
const NOT_ALLOWED: &[u8] = b"{\"errors\":[\"permission denied\"]}\n";

/// Tells whether so many bytes are moved in parts.
pub(super) fn is_large(bytes: usize) -> bool {
    bytes > ROOM_BYTES_KEPT
}

/// A request whose body is arriving.
pub(super) struct Gathering {
    request: OwnedRequest,
    /// Bytes of room that are kept for it: its size, or where it comes in chunks those of the largest.
    room: usize,
    in_chunks: bool,
    /// How many bytes there were when this was looked at last.
    seen: Option<usize>,
}

impl Gathering {
    /// Takes a piece. One in chunks gets its room as soon as it is large: to move it then is what a worker has no time for.
    fn take(&mut self, piece: &[u8]) {
        if is_large(self.request.body_len() + piece.len()) {
            self.request.make_room(self.room);
        }
        self.request.take(piece);
    }

    /// Tells whether enough has come since this was asked last.
    pub(super) fn comes_on(&mut self) -> bool {
        let bytes = self.request.body_len();
        let seen = self.seen.replace(bytes);
        seen.is_none_or(|seen| bytes - seen >= COMES_ON_BYTES)
    }
}

/// An answer that is leaving.
pub(super) struct Leaving {
    body: WipedBytes,
    sent: usize,
    after: After,
}

impl Leaving {
    /// Writes the next part; tells how the connection goes on where it was the last.
    fn write(&mut self, out: &mut Out<'_>) -> Option<After> {
        let rest = self.body.get(self.sent..).unwrap_or_default();
        let part = rest.get(..PART_BYTES).unwrap_or(rest);
        out.write(part);
        self.sent += part.len();
        if self.sent < self.body.len() {
            out.ask_for_more();
            return None;
        }
        Some(self.after)
    }
}

impl Front<'_> {
    /// A bulk stream that says no size, or one that is larger than a body may be.
    pub(super) fn is_stream(&self, path: &str, size: Option<usize>) -> bool {
        let body_bytes_max = self.side.terms.http.body_bytes_max;
        path.starts_with(BULK_PATH) && size.is_none_or(|size| size > body_bytes_max)
    }

    /// A body that may be a large one, and for which there is room.
    pub(super) fn is_gathered(&self, size: Option<usize>) -> bool {
        let body_bytes_max = self.side.terms.http.body_bytes_max;
        let room = self.side.room(self.side.arriving);
        match size {
            Some(size) => is_large(size) && size <= body_bytes_max.min(room),
            None => body_bytes_max <= room,
        }
    }

    /// Takes a body in, or refuses it by its head; `size`: `None` of one in chunks.
    pub(super) fn begin_gathering(
        &mut self,
        conn: ConnId,
        asked: &crate::Request<'_>,
        size: Option<usize>,
        reply: HttpReply<'_, '_>,
    ) -> Then {
        let (side, entered) = (&mut *self.side, &mut *self.entered);
        let Some(known) = asked.token.and_then(|token| side.enter(entered, token)) else {
            // Who has no token is refused, whatever the body is.
            return side.ask_as(conn, asked, None, reply);
        };
        if !side.terms.rates.allows(&known.used) {
            side.counters.limited.add(1);
            return reply.send(&response(429, RETRY, LIMITED));
        }
        let room = size.unwrap_or(side.terms.http.body_bytes_max);
        side.arriving += room;
        side.counters.gathered.add(usize::from(size.is_some()));
        let request = OwnedRequest::begun(asked, size.unwrap_or_default());
        *self.gathering =
            Some(Box::new(Gathering { request, room, in_chunks: size.is_none(), seen: None }));
        reply.gather()
    }

    /// Takes the next piece of a body; with the last one it is whole.
    pub(super) fn gather(
        &mut self,
        conn: ConnId,
        piece: Piece<'_>,
        reply: PieceReply<'_, '_>,
    ) -> Next {
        let now_s = self.till.clock.last_ms() / 1_000;
        let Some(mut gathering) = self.gathering.take() else {
            return reply.fail(&response(503, RETRY, BUSY));
        };
        let side = &mut *self.side;
        let before = gathering.request.body_len();
        let bytes = before.saturating_add(piece.bytes.len());
        if bytes > gathering.room {
            side.counters.refused_http.add(1);
            side.forget(*gathering);
            return reply.fail(&response(413, NO_STORE, TOO_LARGE));
        }
        gathering.take(piece.bytes);
        let grew_large = gathering.in_chunks && is_large(bytes) && !is_large(before);
        side.counters.gathered.add(usize::from(grew_large));
        if !piece.is_last {
            *self.gathering = Some(gathering);
            return reply.send(b"");
        }
        gathering.request.is_whole(now_s);
        self.answer_gathered(conn, *gathering, reply)
    }

    /// Answers a body that is whole: here where it is small, else by the pool.
    fn answer_gathered(
        &mut self,
        conn: ConnId,
        gathering: Gathering,
        reply: PieceReply<'_, '_>,
    ) -> Next {
        let (side, entered) = (&mut *self.side, &mut *self.entered);
        // A token may have been taken away meanwhile.
        let known = gathering.request.token().and_then(|token| side.enter(entered, token));
        let Some(asker) = known.map(|known| known.asker.clone()) else {
            side.forget(gathering);
            return reply.fail(&response(403, NO_STORE, NOT_ALLOWED));
        };
        // So may the room for answers, and the audit.
        if let Some(refused) = side.unable(gathering.request.path()) {
            side.forget(gathering);
            return reply.fail(&refused);
        }
        side.arriving -= gathering.room;
        let request = gathering.request;
        side.keys.refresh();
        let path = request.path().strip_prefix(TRANSIT_PATH).unwrap_or_default();
        let is_small = inline::is_small(path, request.body_len(), side.keys.keys());
        if is_small && side.answer_late(conn, &request, &asker) {
            return reply.later();
        }
        let to = if is_small { To::Keeper } else { To::Pool };
        match side.leave(to, conn, request, Some(&asker)) {
            Ok(()) => reply.later(),
            Err(request) => {
                side.terms.pool.put_away(Spent::Request { _wiped: *request });
                reply.fail(&response(503, RETRY, BUSY))
            }
        }
    }
}

impl Side {
    /// Does a small call, whose answer leaves with this wake-up's lines; false: only the keeper can do it.
    fn answer_late(&mut self, conn: ConnId, request: &OwnedRequest, asker: &Asker) -> bool {
        let gate = &mut ReadGate(self.keys.keys());
        let answer = self.door.answer(&request.request(), Some(&asker.caller()), gate);
        let Some(answer) = answer else { return false };
        let line = self
            .terms
            .audit
            .as_ref()
            .and_then(|_| audit::line(asker.principal.name(), answer.status, &answer.audit));
        let late = Late::Answer(LateAnswer::of(&answer));
        let place = self.waiting.open(conn).expect("it was looked for room");
        let owed = Owed::new(place, &self.arrivals);
        match line {
            Some(line) => self.told.push(Told { line, answer: Some((owed, late)) }),
            None => owed.give(late),
        }
        self.door.wipe();
        true
    }

    /// Room for what moves in parts one way, where so many bytes are taken.
    fn room(&self, taken: usize) -> usize {
        let body_bytes_max = self.terms.http.body_bytes_max;
        body_bytes_max.saturating_mul(LARGEST_AT_ONCE).saturating_sub(taken)
    }

    /// A body does not become whole.
    pub(super) fn forget(&mut self, gathering: Gathering) {
        self.arriving -= gathering.room;
        self.terms.pool.put_away(Spent::Request { _wiped: gathering.request });
    }

    /// Tells whether an answer is a large one for which there is room. Others are the transport's at once, which bounds what it keeps.
    pub(super) fn leaves_in_parts(&self, bytes: usize) -> bool {
        is_large(bytes) && bytes <= self.room(self.leaving)
    }

    /// Writes the head of a large answer, and its first part.
    pub(super) fn begin_answer<S>(
        &mut self,
        id: ConnId,
        answer: LateAnswer,
        outbox: &mut DoorOutbox<'_, '_, S, KeysConn>,
    ) {
        let LateAnswer { status, headers, content_type, body, .. } = answer;
        let head = Response { content_type: Some(content_type), ..response(status, headers, b"") };
        let bytes = body.len();
        let mut is_leaving = false;
        let mut body = Some(body);
        let answered = outbox.answer(id, |conn, out| {
            let Some(begun) = conn.http.begin_answer(out, &head, bytes) else {
                return conn.http.fail_piece(out, &head);
            };
            match body.take() {
                Some(body) if begun.has_body => {
                    let leaving = Leaving { body, sent: 0, after: begun.after };
                    let leaving = conn.leaving.insert(Box::new(leaving));
                    leaving.write(out);
                    is_leaving = true;
                    None
                }
                spent => {
                    body = spent;
                    Some(begun.after)
                }
            }
        });
        if is_leaving {
            self.leaving += bytes;
        } else if !answered {
            self.counters.clients_gone.add(1);
        }
        if let Some(body) = body {
            self.terms.pool.put_away(Spent::Answer { _wiped: body });
        }
    }

    /// Writes the next part of a large answer, where there is one.
    pub(super) fn go_on(&mut self, conn: &mut KeysConn, out: &mut Out<'_>) -> Going {
        let after = conn.leaving.as_mut().and_then(|leaving| leaving.write(out));
        let Some(after) = after else { return Going::Stay };
        if let Some(leaving) = conn.leaving.take() {
            self.has_left(*leaving);
        }
        match after {
            After::Resume => Going::Resume,
            After::Close => Going::Close { after_output: true },
        }
    }

    /// An answer has left, or its client has.
    pub(super) fn has_left(&mut self, leaving: Leaving) {
        self.leaving -= leaving.body.len();
        self.terms.pool.put_away(Spent::Answer { _wiped: leaving.body });
    }
}
