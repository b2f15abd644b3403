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
use door_keys::BULK_PATH;
use door_transport::{ConnId, Out, Then as Going};
use vault::WipedBytes;

use super::audit::{self, Told};
use super::keeper::{Asker, OwnedRequest};
use super::late::{Late, LateAnswer, Owed};
use super::{
    BUSY, DoorOutbox, Front, KeysConn, LIMITED, NO_STORE, RETRY, ReadGate, Side, TOO_LARGE,
    TRANSIT_PATH, To, inline, response,
};

/// What leaves of an answer at once: some microseconds of copying.
const PART_BYTES: usize = 128 << 10;
/// How many of the largest bodies a worker has room for: those that arrive and answers that leave, together.
const LARGEST_AT_ONCE: usize = 4;
const NOT_ALLOWED: &[u8] = b"{\"errors\":[\"permission denied\"]}\n";

/// Tells whether so many bytes are moved in parts.
pub(super) fn is_large(bytes: usize) -> bool {
    bytes > ROOM_BYTES_KEPT
}

/// A request whose body is arriving.
pub(super) struct Gathering {
    request: OwnedRequest,
    /// Bytes that it will have, or has where it comes in chunks.
    bytes: usize,
}

impl Gathering {
    /// Takes a piece, and returns how many bytes more there are than were known. A body of unknown size has room for the largest as soon as it is
    /// large: to move it is what a worker has no time for.
    fn take(&mut self, piece: &[u8], body_bytes_max: usize) -> usize {
        let whole = self.request.body_len().saturating_add(piece.len());
        if is_large(whole) && whole > self.bytes {
            self.request.make_room(body_bytes_max);
        }
        self.request.take(piece);
        let more = whole.saturating_sub(self.bytes);
        self.bytes = self.bytes.max(whole);
        more
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
        let room = body_bytes_max.saturating_mul(LARGEST_AT_ONCE).saturating_sub(self.side.held);
        match size {
            Some(size) => is_large(size) && size <= body_bytes_max.min(room),
            None => room > 0,
        }
    }

    /// Takes a body in, or refuses it by its head; `bytes`: of one in chunks 0.
    pub(super) fn begin_gathering(
        &mut self,
        conn: ConnId,
        asked: &door_keys::Request<'_>,
        bytes: usize,
        reply: HttpReply<'_, '_>,
    ) -> Then {
        let (side, entered) = (&mut *self.side, &mut *self.entered);
        let Some(known) = asked.token.and_then(|token| side.enter(entered, token)) else {
            // Who has no token is refused, whatever the body is.
            return self.ask(conn, asked, reply);
        };
        if !side.terms.rates.allows(&known.used) {
            side.counters.keys.limited.add(1);
            return reply.send(&response(429, RETRY, LIMITED));
        }
        side.held = side.held.saturating_add(bytes);
        side.counters.keys.gathered.add(usize::from(is_large(bytes)));
        let request = OwnedRequest::begun(asked, bytes);
        *self.gathering = Some(Box::new(Gathering { request, bytes }));
        reply.gather()
    }

    /// Takes the next piece of a large body; with the last one the call is the pool's.
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
        let body_bytes_max = side.terms.http.body_bytes_max;
        let was_large = is_large(gathering.bytes);
        side.held = side.held.saturating_add(gathering.take(piece.bytes, body_bytes_max));
        side.counters.keys.gathered.add(usize::from(is_large(gathering.bytes) && !was_large));
        if gathering.bytes > body_bytes_max {
            side.counters.keys.refused_http.add(1);
            side.forget(*gathering);
            return reply.fail(&response(413, NO_STORE, TOO_LARGE));
        }
        if side.held > body_bytes_max.saturating_mul(LARGEST_AT_ONCE) {
            side.counters.keys.busy.add(1);
            side.forget(*gathering);
            return reply.fail(&response(503, RETRY, BUSY));
        }
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
        if side.waiting.len() >= side.terms.waiting_max {
            side.counters.keys.busy.add(1);
            side.forget(gathering);
            return reply.fail(&response(503, RETRY, BUSY));
        }
        side.held = side.held.saturating_sub(gathering.bytes);
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
            Err(body) => {
                side.terms.pool.put_away(body);
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

    /// A body does not become whole.
    pub(super) fn forget(&mut self, gathering: Gathering) {
        self.held = self.held.saturating_sub(gathering.bytes);
        self.terms.pool.put_away(gathering.request.into_body());
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
            self.held = self.held.saturating_add(bytes);
            self.leaving += 1;
        } else if !answered {
            self.counters.keys.clients_gone.add(1);
        }
        if let Some(body) = body {
            self.terms.pool.put_away(body);
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
        self.held = self.held.saturating_sub(leaving.body.len());
        self.leaving -= 1;
        self.terms.pool.put_away(leaving.body);
    }
}
