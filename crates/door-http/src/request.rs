//! One request, as the application sees it.

/// What a request wants done. Which of them an application takes, its [`Methods`] say; every other is answered 405.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`.
    Get,
    /// `HEAD`: the door sends the head of the answer and leaves its body out.
    Head,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
    /// `LIST`: what clients of secret stores send in the place of a `GET` for the names below a path.
    List,
}

impl Method {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "POST" => Some(Self::Post),
            "GET" => Some(Self::Get),
            "HEAD" => Some(Self::Head),
            "PUT" => Some(Self::Put),
            "PATCH" => Some(Self::Patch),
            "DELETE" => Some(Self::Delete),
            "LIST" => Some(Self::List),
            _ => None,
        }
    }
}

/// The methods that an application takes ([`App::METHODS`](crate::App::METHODS)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Methods {
    /// `GET`, `HEAD` and `POST`.
    Calls,
    /// Also `PUT`, `PATCH`, `DELETE` and `LIST`.
    Resources,
}

impl Methods {
    /// Reads the name of a method; `None` if it is none of these.
    pub(crate) fn parse(self, text: &str) -> Option<Method> {
        let method = Method::parse(text)?;
        let is_call = matches!(method, Method::Get | Method::Head | Method::Post);
        (is_call || self == Self::Resources).then_some(method)
    }

    /// What a 405 says in its `Allow` line.
    pub(crate) const fn allow(self) -> &'static [u8] {
        match self {
            Self::Calls => b"Allow: GET, HEAD, POST\r\n",
            Self::Resources => b"Allow: GET, HEAD, POST, PUT, PATCH, DELETE, LIST\r\n",
        }
    }
}

/// One whole request; everything borrows from the worker's buffers.
pub struct Request<'a> {
    /// The method.
    pub method: Method,
    /// The path of the target, beginning with `/`, as sent: percent-encoding is left as it is.
    pub path: &'a str,
    /// What follows the first `?` of the target, as sent; empty when there is none.
    pub query: &'a str,
    /// The body: whole, out of its chunks, inflated. It may be written over.
    pub body: &'a mut [u8],
    /// The body is not here: it comes in pieces ([`App::piece`](crate::App::piece)), if the reply says that it is taken so.
    pub in_pieces: bool,
    /// Bytes of the body as it is sent; `None` of one in chunks.
    pub size: Option<usize>,
    /// The body is JSON by its `Content-Type`, or has none.
    pub json: bool,
    /// Whom the client means: the authority of an absolute target, else the value of `Host`, as sent. `None`: HTTP/1.0 that
    /// says neither.
    pub host: Option<&'a [u8]>,
    /// A browser sends it for a page: it has an `Origin`, or a `Sec-Fetch-Site` other than `none`.
    pub from_page: bool,
    /// The client takes gzip; what [`Reply::send`](crate::Reply::send) heeds by itself.
    pub accepts_gzip: bool,
    pub(crate) headers: &'a [httparse::Header<'a>],
}

impl<'a> Request<'a> {
    /// The value of the first header `name`, in any case of letters; without the spaces around it.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
        found.map(|header| header.value)
    }

    /// The values of all headers `name`, in any case of letters.
    pub fn headers<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        named(self.headers, name)
    }

    /// Whether there are several headers `name`: another reader might take another one.
    pub fn has_several(&self, name: &str) -> bool {
        self.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name)).nth(1).is_some()
    }
}

/// A request that the door refused although its head could be read.
#[derive(Clone, Copy)]
pub struct RefusedRequest<'a> {
    /// What it asked for, as sent; empty where that could not be read.
    pub target: &'a str,
    pub(crate) headers: &'a [httparse::Header<'a>],
}

impl<'a> RefusedRequest<'a> {
    /// The values of all headers `name`, in any case of letters.
    pub fn headers(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        named(self.headers, name)
    }
}

fn named<'a, 'n>(
    headers: &'a [httparse::Header<'a>],
    name: &'n str,
) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
    let of_name = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
    of_name.map(|header| header.value)
}
