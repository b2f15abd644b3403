//! An application whose paths say what it does.

use std::io::Write;

use door_http::{
    App, Limits, Method, Methods, Next, Piece, PieceReply, Refusal, Reply, Request, Response, Then,
};
use door_transport::ConnId;
use flate2::Compression;
use flate2::write::GzEncoder;

/// What `/later` is answered with.
pub const LATE: Response<'static> =
    Response { status: 200, content_type: None, headers: b"", body: b"late" };

/// Size of the answers of `/bid` and `/page`.
pub const BID_BYTES: usize = 900;
pub const PAGE_BYTES: usize = 3000;

pub struct Site {
    limits: Limits,
    bid: Vec<u8>,
    page: Vec<u8>,
    /// Connections that wait for the answer of `/later`.
    pub late: Vec<ConnId>,
    /// What pieces of `/pieces/later` came to, until it is sent.
    pub late_pieces: Vec<(ConnId, Vec<u8>)>,
    is_late: bool,
    /// What came of a body of `/pieces/gathered`.
    pub gathered: Option<Vec<u8>>,
    /// Bytes of all pieces, and of the largest.
    pub piece_bytes: (usize, usize),
    pub refused: Vec<Refusal>,
    pub requests: usize,
}

/// How an answer of `/pieces` begins.
const PIECES: Response<'static> = Response {
    status: 200,
    content_type: Some("text/plain"),
    headers: b"X-Echo: yes\r\n",
    body: b"",
};
/// What a piece with a `!` is answered with.
pub const REFUSED: Response<'static> =
    Response { status: 400, content_type: None, headers: b"", body: b"no!" };

impl Site {
    pub fn new(limits: Limits) -> Site {
        limits.check().unwrap();
        let (bid, page) = (json(BID_BYTES), json(PAGE_BYTES));
        Site {
            limits,
            bid,
            page,
            late: Vec::new(),
            late_pieces: Vec::new(),
            is_late: false,
            gathered: None,
            piece_bytes: (0, 0),
            refused: Vec::new(),
            requests: 0,
        }
    }
}

impl App for Site {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn request(&mut self, conn: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        self.requests += 1;
        match request.path {
            "/bid" => reply.send(&Response::json(&self.bid)),
            "/page" => reply.send(&Response::json(&self.page)),
            "/none" => reply.status(204),
            "/echo" => {
                let kind = Some("text/plain");
                let headers = b"X-Echo: yes\r\n";
                reply.send(&Response {
                    status: 200,
                    content_type: kind,
                    headers,
                    body: request.body,
                })
            }
            "/size" => {
                // The body is the application's to write over.
                request.body.fill(b'x');
                let size = request.body.len().to_string();
                reply.send(&Response { body: size.as_bytes(), ..Response::empty(200) })
            }
            "/ask" => {
                let text = describe(&request);
                reply.send(&Response { body: text.as_bytes(), ..Response::empty(299) })
            }
            "/pieces" | "/pieces/later" if request.in_pieces => {
                assert!(request.body.is_empty());
                self.is_late = request.path.ends_with("later");
                reply.pieces(PIECES)
            }
            "/pieces/gathered" if request.in_pieces => {
                self.gathered = Some(Vec::new());
                reply.gather()
            }
            "/pieces/refused" => reply.send(&REFUSED),
            "/later" | "/pieces/refused-later" => {
                self.late.push(conn);
                reply.later()
            }
            _ => reply.status(404),
        }
    }

    /// All but small ones of known size.
    fn takes_pieces(&self, method: Method, path: &str, size: Option<usize>) -> bool {
        method == Method::Post && path.starts_with("/pieces") && size.is_none_or(|size| size > 10)
    }

    fn piece(&mut self, conn: ConnId, piece: Piece<'_>, reply: PieceReply<'_, '_>) -> Next {
        let (all, largest) = self.piece_bytes;
        self.piece_bytes = (all + piece.bytes.len(), largest.max(piece.bytes.len()));
        let answer = piece.bytes.to_ascii_uppercase();
        if let Some(gathered) = &mut self.gathered {
            gathered.extend_from_slice(&answer);
            return match (answer.contains(&b'!'), piece.is_last) {
                (true, _) => reply.fail(&REFUSED),
                (false, true) => reply.later(),
                (false, false) => reply.send(b"this does not leave"),
            };
        }
        if self.is_late {
            self.late_pieces.push((conn, answer));
            return reply.later();
        }
        if answer.contains(&b'!') { reply.fail(&REFUSED) } else { reply.send(&answer) }
    }

    fn refused(&mut self, why: Refusal) {
        self.refused.push(why);
    }
}

/// The same that takes more methods.
pub struct Shelf(pub Site);

impl App for Shelf {
    const METHODS: Methods = Methods::Resources;

    fn limits(&self) -> &Limits {
        self.0.limits()
    }

    fn request(&mut self, conn: ConnId, request: Request<'_>, reply: Reply<'_, '_>) -> Then {
        self.0.request(conn, request, reply)
    }

    fn refused(&mut self, why: Refusal) {
        self.0.refused(why);
    }
}

fn describe(request: &Request<'_>) -> String {
    let method = match request.method {
        Method::Get => "get",
        Method::Head => "head",
        Method::Post => "post",
        Method::Put => "put",
        Method::Patch => "patch",
        Method::Delete => "delete",
        Method::List => "list",
    };
    let header = request.header("x-test").unwrap_or(b"-").escape_ascii();
    let (query, json, gzip) = (request.query, request.json, request.accepts_gzip);
    format!("{method} [{query}] json={json} gzip={gzip} x-test={header}")
}

/// Text of `count` bytes that compresses like a request.
pub fn json(count: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for number in 0.. {
        if text.len() >= count {
            break;
        }
        let id = 1_000_003_usize.wrapping_mul(number * number);
        write!(text, "{{\"id\":\"{id:x}\",\"banner\":{{\"w\":300,\"h\":250}}}},").unwrap();
    }
    text.truncate(count);
    text
}

/// A request with a body of a stated size.
pub fn post(path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let size = body.len();
    let mut bytes =
        format!("POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Content-Length: {size}\r\n\r\n")
            .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// A request with a chunked body.
pub fn chunked(path: &str, headers: &str, body: &[u8], chunk_bytes: usize) -> Vec<u8> {
    let mut bytes =
        format!("POST {path} HTTP/1.1\r\nHost: x\r\n{headers}Transfer-Encoding: chunked\r\n\r\n")
            .into_bytes();
    for chunk in body.chunks(chunk_bytes) {
        write!(bytes, "{:X};ext=\"1\"\r\n", chunk.len()).unwrap();
        bytes.extend_from_slice(chunk);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes.extend_from_slice(b"0\r\nDigest: none\r\n\r\n");
    bytes
}

pub fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}
