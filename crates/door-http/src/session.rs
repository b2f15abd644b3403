//! One connection's side of HTTP.

use std::mem::MaybeUninit;

use door_transport::{ConnId, Out, Outbox, Step};

use crate::App;
use crate::chunked::{Walk, Walked};
use crate::head::{Framing, Head, Slots};
use crate::limits::{HEADERS_MAX, Limits};
use crate::refusal::Refusal;
use crate::reply::{self, Answered, Form, Persistence, Reply, Response, Then};
use crate::request::{Method, Methods, RefusedRequest, Request};
use crate::room::Room;

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

/// The state that the door keeps per connection.
#[derive(Debug, Default)]
pub struct Session {
    arriving: Arriving,
    /// The form of the answer that is owed.
    late: Option<Form>,
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
        if self.late.is_some() {
            return Step::Pause { consumed: 0 };
        }
        let limits = *app.limits();
        let mut context = Context { id, limits, out, room, app };
        let mut consumed = 0;
        // Without room for answers the rest waits: the transport calls again once there is some.
        while context.out.room() > 0 && consumed < input.len() {
            match self.look(&input[consumed..], &mut context) {
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
        Some(match form.persistence {
            Persistence::Open | Persistence::KeepAlive => After::Resume,
            Persistence::Close => After::Close,
        })
    }

    /// Whether a late answer is owed.
    pub fn owes(&self) -> bool {
        self.late.is_some()
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
        match self.arriving.advance(input, &mut slots, &context.limits, A::METHODS, context.out) {
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
        match context.request(head, &message[head.len..], form) {
            Ok(Then(Answered::Now)) => {}
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
    /// Unpacks the body as it was `sent` and asks the application.
    fn request(&mut self, head: &Head<'_, '_>, sent: &[u8], form: Form) -> Result<Then, Refusal> {
        let ask = head.ask?;
        let max = self.limits.inflated_bytes_max;
        let (body, deflater) = self.room.take(sent, head.framing, ask.coding, max)?;
        let request = Request {
            method: ask.method,
            path: ask.path,
            query: ask.query,
            body,
            json: ask.json,
            host: ask.host,
            from_page: ask.from_page,
            accepts_gzip: head.accepts_gzip,
            headers: head.headers,
        };
        let gzip_bytes_min =
            if head.accepts_gzip { self.limits.gzip_bytes_min } else { usize::MAX };
        let reply = Reply { out: &mut *self.out, deflater, form, gzip_bytes_min };
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
    /// At least so many bytes must be there; 0 = some more than now.
    More { need: usize },
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
