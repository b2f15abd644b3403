//! Bodies and answers of megabytes, which a worker moves in parts: what is done to one of them in one go keeps everybody else waiting for as
//! many milliseconds as it has megabytes.
//!
//! ```text
//!  head ──▶ token, rate, room ──▶ Gathering: piece after piece, where it stays ──▶ whole: the pool
//!  the pool's answer ──▶ Leaving: its head, and part after part as the client takes them ──▶ its bytes back to the pool, to be wiped
//! ```
//! A body in HTTP chunks, and one that is packed, is put together by the worker; so is one of HTTP/1.0, and one for which there is no room:
//! clients that begin bodies and do not go on take the way of no other.

use door_http::{
    After, Next, Piece, PieceReply, ROOM_BYTES_KEPT, Reply as HttpReply, Response, Then,
};
use door_keys::BULK_PATH;
use door_transport::{ConnId, Out, Then as Going};
use vault::WipedBytes;

use super::keeper::OwnedRequest;
use super::late::LateAnswer;
use super::{
    BUSY, DoorOutbox, Front, KeysConn, LIMITED, NO_STORE, RETRY, Side, TRANSIT_PATH, To, response,
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
    /// Bytes that it will have.
    bytes: usize,
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

    /// A large body of a call that may have it, and for which there is room.
    pub(super) fn is_gathered(&self, path: &str, size: Option<usize>) -> bool {
        let body_bytes_max = self.side.terms.http.body_bytes_max;
        let room = body_bytes_max.saturating_mul(LARGEST_AT_ONCE).saturating_sub(self.side.held);
        path.starts_with(TRANSIT_PATH)
            && size.is_some_and(|size| is_large(size) && size <= body_bytes_max.min(room))
    }

    /// Takes a large body in, or refuses it by its head.
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
        side.counters.keys.gathered.add(1);
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
        gathering.request.take(piece.bytes);
        if !piece.is_last {
            *self.gathering = Some(gathering);
            return reply.send(b"");
        }
        let (side, entered) = (&mut *self.side, &mut *self.entered);
        // A token may have been taken away meanwhile.
        let known = gathering.request.token().and_then(|token| side.enter(entered, token));
        let asker = known.map(|known| known.asker.clone());
        let Some(asker) = asker else {
            side.forget(*gathering);
            return reply.fail(&response(403, NO_STORE, NOT_ALLOWED));
        };
        if side.waiting.len() >= side.terms.waiting_max {
            side.counters.keys.busy.add(1);
            side.forget(*gathering);
            return reply.fail(&response(503, RETRY, BUSY));
        }
        side.held = side.held.saturating_sub(gathering.bytes);
        let mut request = gathering.request;
        request.is_whole(now_s);
        match side.leave(To::Pool, conn, request, Some(&asker)) {
            Ok(()) => reply.later(),
            Err(body) => {
                side.terms.pool.put_away(body);
                reply.fail(&response(503, RETRY, BUSY))
            }
        }
    }
}

impl Side {
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
