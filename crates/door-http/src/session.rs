//! One connection's side of HTTP.

use std::mem::MaybeUninit;

use door_transport::{ConnId, Out, Outbox, Step};

use crate::App;
use crate::chunked::{Chunks, Taken, Walk, Walked};
use crate::head::{Coding, Framing, Head, Slots};
use crate::limits::{HEADERS_MAX, Limits};
use crate::refusal::Refusal;
use crate::reply::{
    self, Answered, ChunkedAnswer, Form, Going, Next, Persistence, PieceReply, Reply, Response,
    Then,
};
use crate::request::{Method, Methods, RefusedRequest, Request};
use crate::room::Room;

/// Bytes of a piece of a body, at most.
pub const PIECE_BYTES_MAX: usize = 64 * 1024;

/// A piece of a body that is taken as it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Its bytes, at most [`PIECE_BYTES_MAX`]; where one ends has no meaning.
    pub bytes: &'a [u8],
    /// The body ends with it.
    pub is_last: bool,
}

/// What a client gets that waits for leave to send its body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// What a connection does after its late answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the connection is paused until it is settled"]
pub enum After {
    /// It reads on.
    Resume,
    /// It ends, because the client or the protocol version asked for that.
    Close,
}

impl After {
    /// Tells the transport; false when the connection is gone.
    pub fn settle<C>(self, outbox: &mut Outbox<'_, C>, id: ConnId) -> bool {
        match self {
            Self::Resume => outbox.resume(id),
            Self::Close => outbox.close(id),
        }
    }
}

/// An answer whose head was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "the connection is paused until it is settled"]
pub struct Begun {
    /// How the connection goes on behind the body.
    pub after: After,
    /// Whether the body is to follow: none follows the answer to a `HEAD`.
    pub has_body: bool,
}

impl Form {
    /// How a connection goes on behind such an answer.
    fn after(self) -> After {
        match self.persistence {
            Persistence::Open | Persistence::KeepAlive => After::Resume,
            Persistence::Close => After::Close,
        }
    }
}

/// The state that the door keeps per connection.
#[derive(Debug, Default)]
pub struct Session {
    arriving: Arriving,
    /// The form of the answer that is owed.
    late: Option<Form>,
    /// The body that is taken in pieces.
    pieces: Option<Box<Pieces>>,
}

/// A body that is taken in pieces, and its answer.
#[derive(Debug)]
struct Pieces {
    rest: Rest,
    answer: ChunkedAnswer,
    /// A piece is with the application.
    waits: bool,
    /// The last piece is with the application, or was.
    is_last: bool,
}

/// What is still to come of a body.
#[derive(Debug)]
enum Rest {
    Sized(usize),
    Chunked(Chunks),
}

/// How far the request at the start of the input has come.
#[derive(Debug)]
enum Arriving {
    /// Its head is not whole in the first `seen` bytes.
    Head { seen: usize },
    /// It is whole with `end` bytes.
    Sized { end: usize },
    /// It is whole at the end of its chunks.
    Chunked(Walk),
}

impl Default for Arriving {
    fn default() -> Self {
        Self::Head { seen: 0 }
    }
}

/// What a look at the start of the input came to.
enum Look {
    /// So many bytes are done with.
    Done(usize),
    /// Also done with, and nothing may follow before the late answer.
    Later(usize),
    /// Also done with, and nothing follows.
    Last(usize),
    /// At least so many bytes must be there; 0 = some more than now.
    More(usize),
}

/// What a request meets on its way.
struct Context<'a, 'o, A> {
    id: ConnId,
    limits: Limits,
    out: &'a mut Out<'o>,
    room: &'a mut Room,
    app: &'a mut A,
}

impl Session {
    /// Reads what a connection received: all whole requests in it.
    pub fn received<A: App>(
        &mut self,
        id: ConnId,
        input: &[u8],
        out: &mut Out<'_>,
        room: &mut Room,
        app: &mut A,
    ) -> Step {
        if self.owes() {
            return Step::Pause { consumed: 0 };
        }
        let limits = *app.limits();
        let mut context = Context { id, limits, out, room, app };
        let mut consumed = 0;
        // Without room for answers the rest waits: the transport calls again once there is some.
        while context.out.room() > 0 && consumed < input.len() {
            let rest = &input[consumed..];
            let look = match self.pieces {
                Some(_) => self.look_at_piece(rest, &mut context),
                None => self.look(rest, &mut context),
            };
            match look {
                Look::Done(count) => consumed += count,
                Look::Later(count) => return Step::Pause { consumed: consumed + count },
                Look::Last(count) => {
                    return Step::Close { consumed: consumed + count, after_output: true };
                }
                Look::More(need) => return Step::Read { consumed, need },
            }
        }
        Step::Read { consumed, need: 0 }
    }

    /// Writes the late answer of the request that was left with [`Reply::later`], never compressed. Then the
    /// connection goes on as the result says ([`After::settle`]).
    ///
    /// `None`, and nothing is written, when no answer is owed.
    pub fn answer(&mut self, out: &mut Out<'_>, response: &Response<'_>) -> Option<After> {
        let form = self.late.take()?;
        reply::write(out, form, response, None);
        Some(form.after())
    }

    /// Writes the head of the late answer of a request, whose body of `bytes` bytes is written piece by piece where there is room for it; that
    /// of `response` is left out. Then the connection goes on as the result says, once all of the body is written.
    ///
    /// `None`, and nothing is written, when no answer is owed.
    pub fn begin_answer(
        &mut self,
        out: &mut Out<'_>,
        response: &Response<'_>,
        bytes: usize,
    ) -> Option<Begun> {
        let form = self.late.take()?;
        reply::write_head(out, form, response, bytes);
        Some(Begun { after: form.after(), has_body: form.has_body(response) })
    }

    /// Sends what the piece came to that was left with [`PieceReply::later`]; `None`, and nothing is written, when none was. Then the
    /// connection goes on as the result says.
    pub fn send_piece(&mut self, out: &mut Out<'_>, bytes: &[u8]) -> Option<After> {
        let pieces = self.pieces.as_mut().filter(|pieces| pieces.waits)?;
        pieces.waits = false;
        pieces.answer.write(out, bytes, pieces.is_last);
        if !pieces.is_last {
            return Some(After::Resume);
        }
        let after = pieces.answer.form.after();
        self.pieces = None;
        Some(after)
    }

    /// Ends the answer of the piece that was left with [`PieceReply::later`], as [`PieceReply::fail`] does.
    pub fn fail_piece(&mut self, out: &mut Out<'_>, response: &Response<'_>) -> Option<After> {
        let mut pieces = self.pieces.take_if(|pieces| pieces.waits)?;
        pieces.answer.fail(out, response);
        Some(After::Close)
    }

    /// Whether a late answer is owed, or that of a piece.
    pub fn owes(&self) -> bool {
        self.late.is_some() || self.pieces.as_ref().is_some_and(|pieces| pieces.waits)
    }

    /// Takes the next piece of the body that begins `input`, and asks the application.
    fn look_at_piece<A: App>(&mut self, input: &[u8], context: &mut Context<'_, '_, A>) -> Look {
        let Some(pieces) = &mut self.pieces else { return Look::More(0) };
        let Context { id, out, room, app, .. } = context;
        let (bytes, taken) = match pieces.rest.take(input, room.joined()) {
            Ok(taken) => taken,
            Err(why) => {
                app.refused(why);
                let response = app.refusal(why, &RefusedRequest { target: "", headers: &[] });
                pieces.answer.fail(out, &response);
                self.pieces = None;
                return Look::Last(input.len());
            }
        };
        let Taken { consumed, is_whole } = taken;
        pieces.is_last = is_whole;
        if bytes.is_empty() && !is_whole {
            return if consumed > 0 { Look::Done(consumed) } else { Look::More(0) };
        }
        let reply = PieceReply { out, chunked: &mut pieces.answer, is_last: is_whole };
        let Next(going) = app.piece(*id, Piece { bytes, is_last: is_whole }, reply);
        let closes = pieces.answer.form.persistence == Persistence::Close;
        match going {
            Going::Later if pieces.answer.gathers && is_whole => {
                self.late = Some(pieces.answer.form);
                self.pieces = None;
                return Look::Later(consumed);
            }
            Going::Later => {
                pieces.waits = true;
                return Look::Later(consumed);
            }
            Going::On if !is_whole => return Look::Done(consumed),
            Going::On | Going::End => {}
        }
        // What was gathered and has no answer has none to wait for.
        let is_over = going == Going::End || pieces.answer.gathers;
        self.pieces = None;
        if is_over || closes { Look::Last(consumed) } else { Look::Done(consumed) }
    }

    /// Asks the application whose body is to come in pieces, of which none is read yet.
    fn begin_pieces<A: App>(
        &mut self,
        head: &Head<'_, '_>,
        is_all: bool,
        context: &mut Context<'_, '_, A>,
    ) -> Look {
        let form = Form { persistence: head.persistence, bodiless: false };
        // What refuses the body leaves it unread, so that nothing can follow.
        let last = Form { persistence: Persistence::Close, ..form };
        match context.request(head, None, last) {
            Ok(Then(answered @ (Answered::Pieces(_) | Answered::Gathered))) => {
                if head.expects && is_all {
                    context.out.write(CONTINUE);
                }
                let rest = match head.framing {
                    Framing::Sized(size) => Rest::Sized(size),
                    Framing::Chunked => Rest::Chunked(Chunks::Size),
                };
                let (opening, gathers) = match answered {
                    Answered::Pieces(opening) => (opening, false),
                    _ => (Response::empty(200), true),
                };
                let answer = ChunkedAnswer { form, gathers, opening, has_begun: false };
                let pieces = Pieces { rest, answer, waits: false, is_last: false };
                self.pieces = Some(Box::new(pieces));
                Look::Done(head.len)
            }
            Ok(Then(Answered::Later)) => {
                self.late = Some(last);
                Look::Later(head.len)
            }
            Ok(Then(Answered::Now)) => Look::Last(head.len),
            Err(why) => {
                context.refuse(why, last, &RefusedRequest { target: "", headers: head.headers });
                Look::Last(head.len)
            }
        }
    }

    /// Handles the request that begins `input`, if it is whole.
    fn look<A: App>(&mut self, input: &[u8], context: &mut Context<'_, '_, A>) -> Look {
        // Empty lines before a request are an old habit of clients (RFC 9112, section 2.2).
        match input {
            [b'\r', b'\n', ..] => return Look::Done(2),
            [b'\r'] => return Look::More(2),
            _ => {}
        }
        let mut slots = [const { MaybeUninit::uninit() }; HEADERS_MAX];
        let Context { limits, out, app, .. } = &mut *context;
        let wants = |head: &Head<'_, '_>| wants_pieces(&**app, head);
        match self.arriving.advance(input, &mut slots, limits, A::METHODS, out, wants) {
            Ok(Progress::Pieces { head }) => {
                self.arriving = Arriving::default();
                self.begin_pieces(&head, head.len == input.len(), context)
            }
            Ok(Progress::Whole { head, end }) => {
                self.arriving = Arriving::default();
                self.handle(&head, &input[..end], context)
            }
            Ok(Progress::More { need }) => Look::More(need),
            Err(why) => {
                let form = Form { persistence: Persistence::Close, bodiless: false };
                context.refuse(why, form, &RefusedRequest { target: "", headers: &[] });
                Look::Last(input.len())
            }
        }
    }

    /// Hands a whole request to the application.
    fn handle<A: App>(
        &mut self,
        head: &Head<'_, '_>,
        message: &[u8],
        context: &mut Context<'_, '_, A>,
    ) -> Look {
        let bodiless = head.ask.is_ok_and(|ask| ask.method == Method::Head);
        let form = Form { persistence: head.persistence, bodiless };
        match context.request(head, Some(&message[head.len..]), form) {
            // A reply refuses to take pieces of a body that is whole.
            Ok(Then(Answered::Now | Answered::Pieces(_) | Answered::Gathered)) => {}
            Ok(Then(Answered::Later)) => {
                self.late = Some(form);
                return Look::Later(message.len());
            }
            Err(why) => {
                let of = RefusedRequest { target: target_of(message), headers: head.headers };
                context.refuse(why, form, &of);
            }
        }
        match form.persistence {
            Persistence::Close => Look::Last(message.len()),
            Persistence::Open | Persistence::KeepAlive => Look::Done(message.len()),
        }
    }
}

impl<A: App> Context<'_, '_, A> {
    /// Unpacks the body as it was `sent` and asks the application; `None`: its body comes in pieces.
    fn request(
        &mut self,
        head: &Head<'_, '_>,
        sent: Option<&[u8]>,
        form: Form,
    ) -> Result<Then, Refusal> {
        let ask = head.ask?;
        let max = self.limits.inflated_bytes_max;
        let in_pieces = sent.is_none();
        let framing = if in_pieces { Framing::Sized(0) } else { head.framing };
        let (body, deflater) =
            self.room.take(sent.unwrap_or_default(), framing, ask.coding, max)?;
        let request = Request {
            method: ask.method,
            path: ask.path,
            query: ask.query,
            body,
            in_pieces,
            size: match head.framing {
                Framing::Sized(size) => Some(size),
                Framing::Chunked => None,
            },
            json: ask.json,
            host: ask.host,
            from_page: ask.from_page,
            accepts_gzip: head.accepts_gzip,
            headers: head.headers,
        };
        let gzip_bytes_min =
            if head.accepts_gzip { self.limits.gzip_bytes_min } else { usize::MAX };
        let reply = Reply { out: &mut *self.out, deflater, form, gzip_bytes_min, in_pieces };
        Ok(self.app.request(self.id, request, reply))
    }

    #[cold]
    fn refuse(&mut self, why: Refusal, form: Form, of: &RefusedRequest<'_>) {
        self.app.refused(why);
        let mut response = self.app.refusal(why, of);
        if response.status == 405 && response.headers.is_empty() {
            response.headers = A::METHODS.allow();
        }
        reply::write(self.out, form, &response, None);
    }
}

/// Whether the application wants this body in pieces, and its client can take the answer so.
fn wants_pieces<A: App>(app: &A, head: &Head<'_, '_>) -> bool {
    let size = match head.framing {
        Framing::Sized(size) => Some(size),
        Framing::Chunked => None,
    };
    let fits = head.reads_chunks && size != Some(0);
    head.ask.is_ok_and(|ask| {
        fits && ask.coding == Coding::Identity && app.takes_pieces(ask.method, ask.path, size)
    })
}

/// What the first line of a request asks for.
#[cold]
fn target_of(message: &[u8]) -> &str {
    let target = message.split(|byte| *byte == b' ').nth(1);
    target.and_then(|target| std::str::from_utf8(target).ok()).unwrap_or_default()
}

/// What the look at an arriving request found.
enum Progress<'h, 'b> {
    /// It is whole and ends there.
    Whole { head: Head<'h, 'b>, end: usize },
    /// Its head is whole, and its body is wanted in pieces.
    Pieces { head: Head<'h, 'b> },
    /// At least so many bytes must be there; 0 = some more than now.
    More { need: usize },
}

impl Rest {
    /// Takes the next piece off `input`; one in chunks is put together in `room`.
    fn take<'a>(
        &mut self,
        input: &'a [u8],
        room: &'a mut Vec<u8>,
    ) -> Result<(&'a [u8], Taken), Refusal> {
        match self {
            Rest::Sized(left) => {
                let count = input.len().min(*left).min(PIECE_BYTES_MAX);
                *left -= count;
                let taken = Taken { consumed: count, is_whole: *left == 0 };
                Ok((input.get(..count).unwrap_or_default(), taken))
            }
            Rest::Chunked(chunks) => {
                room.clear();
                let taken = chunks.take(input, room, PIECE_BYTES_MAX)?;
                Ok((room, taken))
            }
        }
    }
}

impl Arriving {
    /// Reads on in the request that begins `input`.
    fn advance<'h, 'b>(
        &mut self,
        input: &'b [u8],
        slots: Slots<'h, 'b>,
        limits: &Limits,
        methods: Methods,
        out: &mut Out<'_>,
        wants_pieces: impl FnOnce(&Head<'_, '_>) -> bool,
    ) -> Result<Progress<'h, 'b>, Refusal> {
        // The head is parsed when it may be whole, and once more when the body is.
        if let Some(need) = self.missing(input, limits)? {
            return Ok(Progress::More { need });
        }
        let Some(head) = Head::parse(input, slots, limits, methods)? else {
            *self = Self::Head { seen: input.len() };
            return Ok(Progress::More { need: 0 });
        };
        let begins = matches!(self, Self::Head { .. });
        if begins {
            if wants_pieces(&head) {
                return Ok(Progress::Pieces { head });
            }
            *self = Self::body(&head, limits)?;
        }
        match self.walk(input, limits)? {
            Walked::Whole { end } => Ok(Progress::Whole { head, end }),
            Walked::More { need } => {
                if begins && head.expects && head.len == input.len() {
                    out.write(CONTINUE);
                }
                Ok(Progress::More { need })
            }
        }
    }

    /// The body that a head announces.
    fn body(head: &Head<'_, '_>, limits: &Limits) -> Result<Self, Refusal> {
        match head.framing {
            Framing::Sized(size) if size > limits.body_bytes_max => Err(Refusal::BodyTooLarge),
            Framing::Sized(size) => Ok(Self::Sized { end: head.len.saturating_add(size) }),
            Framing::Chunked => Ok(Self::Chunked(Walk::new(head.len))),
        }
    }

    /// What to wait for before it is worth to parse the head.
    fn missing(&mut self, input: &[u8], limits: &Limits) -> Result<Option<usize>, Refusal> {
        if let Self::Head { seen } = *self {
            // Only another end of a line, or the size, can make a head whole or wrong.
            let new = input.get(seen..).unwrap_or_default();
            let worth = seen == 0 || new.contains(&b'\n') || input.len() >= limits.head_bytes_max;
            if worth {
                return Ok(None);
            }
            *self = Self::Head { seen: input.len() };
            return Ok(Some(0));
        }
        match self.walk(input, limits)? {
            Walked::Whole { .. } => Ok(None),
            Walked::More { need } => Ok(Some(need)),
        }
    }

    /// Looks for the end of the body.
    fn walk(&mut self, input: &[u8], limits: &Limits) -> Result<Walked, Refusal> {
        match self {
            Self::Head { .. } => Ok(Walked::More { need: 0 }),
            Self::Sized { end } if *end <= input.len() => Ok(Walked::Whole { end: *end }),
            Self::Sized { end } => Ok(Walked::More { need: *end }),
            Self::Chunked(walk) => walk.advance(input, limits.body_bytes_max),
        }
    }
}
