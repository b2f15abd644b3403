//! HTTP/1.1 on a worker of [`door_transport`]: whole requests to an application, its answers back.
//!
//! The door knows HTTP and nothing of what is asked. A [`Session`] a connection turns received bytes into
//! [`Request`]s for an [`App`]; the body is whole, out of its chunks, inflated, and mutable, because readers
//! of JSON work in place. An application that asks for it ([`App::takes_pieces`]) gets a body of any size in
//! [`Piece`]s, and answers in chunks meanwhile: one piece is under way, and no more is read before it is
//! answered, nor while the client does not take its answers. What a client did wrong the session refuses itself, with a [`Refusal`] that it
//! counts.
//!
//! # What a peer cannot do
//! - Smuggle: where two readers could see two different ends of a message (RFC 9112, section 6), it is
//!   refused and the connection closed. Line ends are CRLF, a length is digits, a transfer coding is
//!   `chunked`.
//! - Make memory grow: heads, bodies, inflated bodies and pieces have limits ([`Limits`]); a body that says
//!   too large a size is refused before it is read.
//! - Take a part for the whole: an answer in chunks that fails in the middle has no last chunk.
//! - Make work grow: a head is parsed again only when another of its lines is complete, a chunked body is
//!   walked once, a body of a known size is not looked at before it is there.
//! - Get a 5xx: whatever is wrong is the client's 4xx. The application may answer what it wants.

mod accept;
mod chunked;
mod gzip;
mod head;
mod limits;
mod refusal;
mod reply;
mod request;
mod room;
mod session;

pub use limits::{HEADERS_MAX, Limits, LimitsError};
pub use refusal::Refusal;
pub use reply::{Next, PieceReply, Reply, Response, Then};
pub use request::{Method, Methods, RefusedRequest, Request};
pub use room::{ROOM_BYTES_KEPT, Room};
pub use session::{After, Begun, PIECE_BYTES_MAX, Piece, Session};

use door_transport::ConnId;

/// What stands behind the door.
pub trait App {
    /// The methods that it takes. A request with another one is answered 405 with these in its `Allow` line.
    const METHODS: Methods = Methods::Calls;

    /// What the door accepts. Read once per call of [`Session::received`].
    fn limits(&self) -> &Limits;

    /// One whole request. It is answered through `reply`, now or later; the value that it returns is what
    /// the reply gave for that, so no request is left without.
    ///
    /// After [`Reply::later`] nothing more of this connection is read until [`Session::answer`].
    fn request(&mut self, conn: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then;

    /// Whether the application wants the body of this request in pieces, as it arrives, and not whole: bodies of any size in little memory.
    /// `size` is what the head says, `None` of a body in chunks. Asked of HTTP/1.1, where a body comes and is not packed; then
    /// [`App::request`] has the head, and [`App::piece`] the body.
    fn takes_pieces(&self, _method: Method, _path: &str, _size: Option<usize>) -> bool {
        false
    }

    /// The next piece of a body whose request was answered with [`Reply::pieces`] or [`Reply::gather`]; there is always a last one, perhaps without bytes, unless
    /// the connection ends before. The value that it returns is what the reply gave.
    fn piece(&mut self, _conn: ConnId, _piece: Piece<'_>, reply: PieceReply<'_, '_>) -> Next {
        reply.fail(&Response::empty(404))
    }

    /// A request was refused by the door; for the counters.
    fn refused(&mut self, why: Refusal);

    /// What the client gets that was refused so: the status of the reason, and perhaps a body. To a method that is none of
    /// [`App::METHODS`] the answer says which are, unless it has header lines of its own.
    fn refusal(&self, why: Refusal, _of: &RefusedRequest<'_>) -> Response<'static> {
        Response::empty(why.status())
    }
}
