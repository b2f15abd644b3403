//! Answers: head and body in one write.

use door_transport::Out;

use crate::gzip::Deflater;

/// One answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// The status, 200 to 999.
    pub status: u16,
    /// The value of `Content-Type`, if the body has one.
    pub content_type: Option<&'a str>,
    /// More header lines as they are sent, each with its CRLF; none of `Content-Type`, `Content-Encoding`,
    /// `Content-Length`, `Connection`, `Transfer-Encoding`, which the door writes.
    pub headers: &'a [u8],
    /// The body; left out with status 204 and 304, and in the answer to a `HEAD`.
    pub body: &'a [u8],
}

impl<'a> Response<'a> {
    /// A status and nothing else.
    pub const fn empty(status: u16) -> Self {
        Self { status, content_type: None, headers: b"", body: b"" }
    }

    /// Status 200 and a JSON body.
    pub const fn json(body: &'a [u8]) -> Self {
        Self { status: 200, content_type: Some("application/json"), headers: b"", body }
    }

    /// Neither has a body, and 204 no length either (RFC 9110, section 8.6).
    fn never_has_body(&self) -> bool {
        matches!(self.status, 204 | 304)
    }
}

/// What became of a request; only a [`Reply`] gives one.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the session goes by it"]
pub struct Then(pub(crate) Answered);

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answered {
    Now,
    Later,
    /// The body is taken in pieces, and the answer begins so.
    Pieces(Response<'static>),
    /// The body is taken in pieces, and answered once it is whole.
    Gathered,
}

/// What became of a piece of a body; only a [`PieceReply`] gives one.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the session goes by it"]
pub struct Next(pub(crate) Going);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    On,
    Later,
    /// The connection ends.
    End,
}

/// How the answer to one request has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) persistence: Persistence,
    /// The request was a `HEAD`.
    pub(crate) bodiless: bool,
}

impl Form {
    /// Whether the body of an answer follows its head.
    pub(crate) fn has_body(self, response: &Response<'_>) -> bool {
        !self.bodiless && !response.never_has_body()
    }
}

/// Whether the connection lives on, and what of it the answer must say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Persistence {
    /// Stays open, as HTTP/1.1 does by default.
    Open,
    /// Stays open for an HTTP/1.0 client that asked for it.
    KeepAlive,
    /// Ends after the answer.
    Close,
}

/// The way back to the client of one request.
pub struct Reply<'a, 'o> {
    pub(crate) out: &'a mut Out<'o>,
    pub(crate) deflater: &'a mut Deflater,
    pub(crate) form: Form,
    /// Bodies from here on are compressed.
    pub(crate) gzip_bytes_min: usize,
    pub(crate) in_pieces: bool,
}

impl Reply<'_, '_> {
    /// Answers: head and body go into the connection's output in one write, compressed when the client
    /// accepts that and the body is worth it.
    pub fn send(self, response: &Response<'_>) -> Then {
        let worth = response.body.len() >= self.gzip_bytes_min;
        let packed = if worth { self.deflater.deflate(response.body) } else { None };
        write(self.out, self.form, response, packed);
        Then(Answered::Now)
    }

    /// Answers with a status and nothing else.
    pub fn status(self, status: u16) -> Then {
        self.send(&Response::empty(status))
    }

    /// Leaves the answer to [`Session::answer`](crate::Session::answer).
    pub fn later(self) -> Then {
        Then(Answered::Later)
    }

    /// Takes the body in pieces, each of which [`App::piece`](crate::App::piece) gets. The answer goes out in chunks; it begins as `opening`
    /// says, whose body is left out, with the first of them.
    ///
    /// # Panics
    /// If the request is not [`Request::in_pieces`](crate::Request::in_pieces).
    pub fn pieces(self, opening: Response<'static>) -> Then {
        assert!(self.in_pieces, "the body of this request is whole");
        Then(Answered::Pieces(opening))
    }

    /// Takes the body in pieces, each of which [`App::piece`](crate::App::piece) gets, and answers once it is whole, as a whole request is
    /// answered: so that a large body is put together where it stays, and moved at no time in one go. What is sent of its pieces is left out.
    ///
    /// # Panics
    /// If the request is not [`Request::in_pieces`](crate::Request::in_pieces).
    pub fn gather(self) -> Then {
        assert!(self.in_pieces, "the body of this request is whole");
        Then(Answered::Gathered)
    }
}

/// The way back to the client of one piece of a body.
pub struct PieceReply<'a, 'o> {
    pub(crate) out: &'a mut Out<'o>,
    pub(crate) chunked: &'a mut ChunkedAnswer,
    pub(crate) is_last: bool,
}

impl PieceReply<'_, '_> {
    /// Sends what the piece came to, which may be nothing; with the last piece the answer is whole.
    pub fn send(self, bytes: &[u8]) -> Next {
        self.chunked.write(self.out, bytes, self.is_last);
        Next(Going::On)
    }

    /// Leaves it to [`Session::send_piece`](crate::Session::send_piece) or [`Session::fail_piece`](crate::Session::fail_piece). Nothing more of
    /// this connection is read until then. With the last piece of a body that is [gathered](Reply::gather) it leaves the answer, to
    /// [`Session::answer`](crate::Session::answer).
    pub fn later(self) -> Next {
        Next(Going::Later)
    }

    /// Ends the answer: with `response`, or, where a part of another answer has gone out, by cutting that off. The connection ends.
    pub fn fail(self, response: &Response<'_>) -> Next {
        self.chunked.fail(self.out, response);
        Next(Going::End)
    }
}

/// An answer that goes out in chunks (RFC 9112, section 7.1).
#[derive(Debug)]
pub(crate) struct ChunkedAnswer {
    pub(crate) form: Form,
    /// The body is gathered: nothing leaves before it is whole.
    pub(crate) gathers: bool,
    pub(crate) opening: Response<'static>,
    /// Its head has gone out.
    pub(crate) has_begun: bool,
}

impl ChunkedAnswer {
    /// Appends a chunk, after the head where that is missing, and the end where it is the last.
    pub(crate) fn write(&mut self, out: &mut Out<'_>, bytes: &[u8], is_last: bool) {
        if self.gathers {
            return;
        }
        if !self.has_begun && (is_last || !bytes.is_empty()) {
            self.has_begun = true;
            write_opening(out, self.form, &self.opening);
        }
        if !bytes.is_empty() {
            out.write(format!("{:x}\r\n", bytes.len()).as_bytes());
            out.write(bytes);
            out.write(b"\r\n");
        }
        if is_last {
            out.write(b"0\r\n\r\n");
        }
    }

    /// Answers with something else, as long as that is possible.
    pub(crate) fn fail(&mut self, out: &mut Out<'_>, response: &Response<'_>) {
        if !self.has_begun {
            write(out, Form { persistence: Persistence::Close, ..self.form }, response, None);
        }
    }
}

/// Writes the head of an answer in chunks.
fn write_opening(out: &mut Out<'_>, form: Form, opening: &Response<'_>) {
    let kind = opening.content_type.unwrap_or_default();
    let size = HEAD_BYTES_MAX + kind.len() + opening.headers.len();
    let mut pen = Pen { bytes: out.reserve(size), at: 0 };
    pen.status(opening.status);
    if opening.content_type.is_some() {
        pen.put(b"Content-Type: ");
        pen.put(kind.as_bytes());
        pen.put(b"\r\n");
    }
    pen.put(b"Transfer-Encoding: chunked\r\n");
    if form.persistence == Persistence::Close {
        pen.put(b"Connection: close\r\n");
    }
    pen.put(opening.headers);
    pen.put(b"\r\n");
    let written = pen.at;
    out.commit(written);
}

/// Bytes of an answer's head without what the application adds: more than all lines below together.
const HEAD_BYTES_MAX: usize = 256;

/// Writes a whole answer; `packed` is its body in gzip.
pub(crate) fn write(out: &mut Out<'_>, form: Form, response: &Response<'_>, packed: Option<&[u8]>) {
    if let Some(whole) = preformatted(form, response) {
        return out.write(whole);
    }
    let body = packed.unwrap_or(response.body);
    let length = Length { bytes: body.len(), is_packed: packed.is_some(), follow: body.len() };
    let mut pen = head(out, form, response, length);
    if form.has_body(response) {
        pen.put(body);
    }
    let written = pen.at;
    out.commit(written);
}

/// Writes the head of an answer whose body follows later, `bytes` of it.
pub(crate) fn write_head(out: &mut Out<'_>, form: Form, response: &Response<'_>, bytes: usize) {
    let length = Length { bytes, is_packed: false, follow: 0 };
    let written = head(out, form, response, length).at;
    out.commit(written);
}

/// Of a body.
struct Length {
    bytes: usize,
    is_packed: bool,
    /// Bytes that there is to be room for behind the head.
    follow: usize,
}

/// Writes a head, which is still to be committed.
fn head<'o>(out: &'o mut Out<'_>, form: Form, response: &Response<'_>, length: Length) -> Pen<'o> {
    let kind = response.content_type.unwrap_or_default();
    let size = HEAD_BYTES_MAX + kind.len() + response.headers.len() + length.follow;
    let mut pen = Pen { bytes: out.reserve(size), at: 0 };
    pen.status(response.status);
    if response.content_type.is_some() {
        pen.put(b"Content-Type: ");
        pen.put(kind.as_bytes());
        pen.put(b"\r\n");
    }
    if length.is_packed {
        pen.put(b"Content-Encoding: gzip\r\n");
    }
    if !response.never_has_body() {
        pen.put(b"Content-Length: ");
        pen.number(length.bytes);
        pen.put(b"\r\n");
    }
    pen.put(match form.persistence {
        Persistence::Open => b"",
        Persistence::KeepAlive => b"Connection: keep-alive\r\n",
        Persistence::Close => b"Connection: close\r\n",
    });
    pen.put(response.headers);
    pen.put(b"\r\n");
    pen
}

/// The whole answer, when it is one of the common empty ones.
fn preformatted(form: Form, response: &Response<'_>) -> Option<&'static [u8]> {
    let bare =
        response.content_type.is_none() && response.headers.is_empty() && response.body.is_empty();
    let status = Status::of(response.status).filter(|_| bare)?;
    match form.persistence {
        Persistence::Open => Some(status.open.as_bytes()),
        Persistence::Close => Some(status.close.as_bytes()),
        Persistence::KeepAlive => None,
    }
}

/// The texts of one status.
struct Status {
    line: &'static str,
    /// A whole answer without a body; the connection stays open.
    open: &'static str,
    /// The same; the connection ends.
    close: &'static str,
}

impl Status {
    fn of(code: u16) -> Option<&'static Self> {
        macro_rules! status {
            ($line:literal, $length:literal) => {
                Some(&Status {
                    line: concat!("HTTP/1.1 ", $line, "\r\n"),
                    open: concat!("HTTP/1.1 ", $line, "\r\n", $length, "\r\n"),
                    close: concat!(
                        "HTTP/1.1 ",
                        $line,
                        "\r\n",
                        $length,
                        "Connection: close\r\n\r\n"
                    ),
                })
            };
            ($line:literal) => {
                status!($line, "Content-Length: 0\r\n")
            };
        }
        match code {
            200 => status!("200 OK"),
            202 => status!("202 Accepted"),
            204 => status!("204 No Content", ""),
            400 => status!("400 Bad Request"),
            401 => status!("401 Unauthorized"),
            402 => status!("402 Payment Required"),
            403 => status!("403 Forbidden"),
            404 => status!("404 Not Found"),
            405 => status!("405 Method Not Allowed"),
            409 => status!("409 Conflict"),
            410 => status!("410 Gone"),
            413 => status!("413 Content Too Large"),
            414 => status!("414 URI Too Long"),
            415 => status!("415 Unsupported Media Type"),
            417 => status!("417 Expectation Failed"),
            421 => status!("421 Misdirected Request"),
            429 => status!("429 Too Many Requests"),
            431 => status!("431 Request Header Fields Too Large"),
            503 => status!("503 Service Unavailable"),
            _ => None,
        }
    }
}

/// Writes along reserved bytes.
struct Pen<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Pen<'_> {
    fn put(&mut self, text: &[u8]) {
        let end = self.at + text.len();
        self.bytes[self.at..end].copy_from_slice(text);
        self.at = end;
    }

    fn status(&mut self, code: u16) {
        match Status::of(code) {
            Some(status) => self.put(status.line.as_bytes()),
            None => {
                self.put(b"HTTP/1.1 ");
                self.number(usize::from(code));
                // The reason may be empty, the space before it may not be missing.
                self.put(b" \r\n");
            }
        }
    }

    fn number(&mut self, number: usize) {
        const DIGITS_MAX: usize = 20;
        let (mut digits, mut from, mut rest) = ([b'0'; DIGITS_MAX], DIGITS_MAX, number);
        loop {
            from -= 1;
            digits[from] = b"0123456789"[rest % 10];
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.put(&digits[from..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, 10, 1024, 98_765_432_109, usize::MAX] {
            let mut bytes = [0; 20];
            let mut pen = Pen { bytes: &mut bytes, at: 0 };
            pen.number(number);
            let at = pen.at;
            assert_eq!(str::from_utf8(&bytes[..at]), Ok(number.to_string().as_str()));
        }
    }
}
