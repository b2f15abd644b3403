//! Creatives as they are sent, prepared when campaigns change.

use crate::text::{push_escaped, push_list};
use crate::vast::StreamNeeds;

/// In markup: our win notice. The bid then has no `nurl` of its own.
pub const MACRO_WIN: &str = "${WEIR_NURL}";
/// In markup: our billing notice, for the impression event of VAST. The bid then has no `burl` of its own.
pub const MACRO_BILL: &str = "${WEIR_BURL}";

/// In markup: the address of a click, which leads to where the creative's does.
pub const MACRO_CLICK: &str = "${WEIR_CLICK}";
/// The same, percent-encoded: for the parameter of an address that is clicked before.
pub const MACRO_CLICK_ESCAPED: &str = "${WEIR_CLICK_ESC}";
/// In markup: the address of a pixel, for a creative that leads there by itself.
pub const MACRO_CLICK_PIXEL: &str = "${WEIR_CLICK_PIXEL}";

/// What all of them begin with.
const MACROS_BEGIN: &str = "${WEIR_";
const MACROS: [(&str, Piece); 5] = [
    (MACRO_WIN, Piece::Win),
    (MACRO_BILL, Piece::Bill),
    (MACRO_CLICK, Piece::Click),
    (MACRO_CLICK_ESCAPED, Piece::ClickEscaped),
    (MACRO_CLICK_PIXEL, Piece::ClickPixel),
];

/// Returns the first macro in markup that begins as ours do, up to its brace, and is none of ours.
#[must_use]
pub fn unknown_macro(markup: &str) -> Option<&str> {
    let mut begun = markup.match_indices(MACROS_BEGIN).map(|(at, _)| &markup[at..]);
    let rest = begun.find(|rest| !MACROS.iter().any(|(name, _)| rest.starts_with(name)))?;
    Some(rest.split_inclusive('}').next().unwrap_or(rest).lines().next().unwrap_or_default())
}

/// Returns the names of our macros.
pub fn macros() -> impl Iterator<Item = &'static str> {
    MACROS.iter().map(|(name, _)| *name)
}

/// Has markup the address of a click?
#[must_use]
pub fn asks_click(markup: &str) -> bool {
    leads(markup) || markup.contains(MACRO_CLICK_PIXEL)
}

/// Has markup the address of a click that must lead somewhere?
#[must_use]
pub fn leads(markup: &str) -> bool {
    [MACRO_CLICK, MACRO_CLICK_ESCAPED].iter().any(|one| markup.contains(one))
}

/// What a creative is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mtype {
    /// HTML or the like.
    Banner = 1,
    /// VAST.
    Video = 2,
    /// VAST or DAAST of sound.
    Audio = 3,
    /// A native ad's JSON.
    Native = 4,
}

/// A creative as its owner describes it.
#[derive(Clone, Copy, Debug)]
pub struct AdSpec<'a> {
    /// The creative's id; a bid without one is not sent.
    pub crid: &'a str,
    /// What it is.
    pub mtype: Mtype,
    /// Domains of the advertiser.
    pub adomain: &'a [&'a str],
    /// Categories, of `cattax`.
    pub cat: &'a [&'a str],
    /// The taxonomy of `cat`; 1 = the specification's first.
    pub cattax: u32,
    /// Attributes of the creative, as the specification numbers them.
    pub attr: &'a [u32],
    /// The app that is advertised.
    pub bundle: Option<&'a str>,
    /// Language, ISO 639-1.
    pub language: Option<&'a str>,
    /// An image of it, for those who check ads.
    pub iurl: Option<&'a str>,
    /// Duration of video or audio, in seconds.
    pub duration_s: Option<u32>,
    /// All of it comes over HTTPS.
    pub secure: bool,
    /// What is shown, sent as `adm`. `${AUCTION_...}` is left to the exchange; [`MACRO_WIN`] and [`MACRO_BILL`]
    /// become our notices' addresses.
    pub markup: &'a str,
}

/// A creative, ready to be written into answers.
#[derive(Clone, Debug)]
pub struct Ad {
    /// `"crid":..,"adomain":..,..,"mtype":..`: what is the same in every bid.
    pub(crate) fields: Box<[u8]>,
    pub(crate) markup: Box<[Piece]>,
    pub(crate) tells_win: bool,
    pub(crate) tells_bill: bool,
    pub(crate) tells_pixel: bool,
    asks_click: bool,
    pub(crate) has_crid: bool,
    pub(crate) mtype: Mtype,
    pub(crate) adomain: Box<[Box<str>]>,
    pub(crate) cat: Box<[Box<str>]>,
    pub(crate) cattax: u32,
    pub(crate) attr: Box<[u32]>,
    pub(crate) bundle: Option<Box<str>>,
    pub(crate) language: Option<Box<str>>,
    pub(crate) duration_s: Option<u32>,
    pub(crate) secure: bool,
    pub(crate) stream: Option<StreamNeeds>,
}

/// A piece of markup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Escaped for a JSON string.
    Text(Box<[u8]>),
    /// The win notice's address.
    Win,
    /// The billing notice's address.
    Bill,
    /// The click's.
    Click,
    /// The same, percent-encoded.
    ClickEscaped,
    /// That of the click's pixel.
    ClickPixel,
}

impl Piece {
    /// The macro that it was.
    pub(crate) fn text(&self) -> &str {
        let of = MACROS.iter().find(|(_, piece)| piece == self);
        of.map_or("", |(name, _)| name)
    }
}

impl Ad {
    /// Prepares a creative.
    #[must_use]
    pub fn new(spec: &AdSpec<'_>) -> Ad {
        let markup = pieces(spec.markup);
        let owned = |list: &[&str]| list.iter().map(|one| Box::from(*one)).collect();
        Ad {
            fields: fields(spec).into(),
            tells_win: markup.contains(&Piece::Win),
            tells_bill: markup.contains(&Piece::Bill),
            tells_pixel: markup.contains(&Piece::ClickPixel),
            asks_click: asks_click(spec.markup),
            markup: markup.into(),
            has_crid: !spec.crid.is_empty(),
            mtype: spec.mtype,
            adomain: owned(spec.adomain),
            cat: owned(spec.cat),
            cattax: spec.cattax,
            attr: spec.attr.into(),
            bundle: spec.bundle.map(Box::from),
            language: spec.language.map(Box::from),
            duration_s: spec.duration_s,
            secure: spec.secure,
            stream: None,
        }
    }

    /// Does the billing notice's address stand in the markup, where everybody reads it?
    #[must_use]
    pub fn tells_bill(&self) -> bool {
        self.tells_bill
    }

    /// Has its markup the address of a click?
    #[must_use]
    pub fn asks_click(&self) -> bool {
        self.asks_click
    }

    /// What it is.
    #[must_use]
    pub fn mtype(&self) -> Mtype {
        self.mtype
    }

    /// Its duration, in seconds, if it has one.
    #[must_use]
    pub fn duration_s(&self) -> Option<u32> {
        self.duration_s
    }
}

fn fields(spec: &AdSpec<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    let text = |out: &mut Vec<u8>, name: &str, value: &str| {
        out.extend_from_slice(format!(",\"{name}\":\"").as_bytes());
        push_escaped(out, value);
        out.push(b'"');
    };
    out.extend_from_slice(format!("\"mtype\":{}", spec.mtype as u8).as_bytes());
    text(&mut out, "crid", spec.crid);
    push_list(&mut out, "adomain", spec.adomain);
    push_list(&mut out, "cat", spec.cat);
    if spec.cattax != 1 {
        out.extend_from_slice(format!(",\"cattax\":{}", spec.cattax).as_bytes());
    }
    if !spec.attr.is_empty() {
        out.extend_from_slice(format!(",\"attr\":{:?}", spec.attr).replace(' ', "").as_bytes());
    }
    let optional = [("bundle", spec.bundle), ("language", spec.language), ("iurl", spec.iurl)];
    for (name, value) in optional {
        if let Some(value) = value {
            text(&mut out, name, value);
        }
    }
    if let Some(seconds) = spec.duration_s {
        out.extend_from_slice(format!(",\"dur\":{seconds}").as_bytes());
    }
    out
}

/// Cuts markup at our own macros.
fn pieces(markup: &str) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut rest = markup;
    while !rest.is_empty() {
        let (text, piece, after) = cut(rest);
        if !text.is_empty() {
            let mut escaped = Vec::new();
            push_escaped(&mut escaped, text);
            pieces.push(Piece::Text(escaped.into()));
        }
        pieces.extend(piece);
        rest = after;
    }
    pieces
}

/// Cuts markup at the first of our own macros: what is before it, which it is, and what is behind.
pub(crate) fn cut(markup: &str) -> (&str, Option<Piece>, &str) {
    let mut from = 0;
    while let Some(at) = markup[from..].find(MACROS_BEGIN).map(|at| from + at) {
        let (before, rest) = markup.split_at(at);
        for (name, piece) in &MACROS {
            if let Some(after) = rest.strip_prefix(name) {
                return (before, Some(piece.clone()), after);
            }
        }
        from = at + MACROS_BEGIN.len();
    }
    (markup, None, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_cut_at_our_macros_only() {
        let text = |text: &str| Piece::Text(text.as_bytes().into());
        assert_eq!(pieces(""), []);
        assert_eq!(pieces("<a b=\"${AUCTION_PRICE}\">"), [text("<a b=\\\"${AUCTION_PRICE}\\\">")]);
        assert_eq!(
            pieces("${WEIR_BURL}${WEIR_NURL}x${WEIR_BURL}"),
            [Piece::Bill, Piece::Win, text("x"), Piece::Bill]
        );
        assert_eq!(pieces("${WEIR_"), [text("${WEIR_")]);
        assert_eq!(
            pieces("${WEIR_X}${WEIR_CLICK_ESC}${WEIR_CLICK}${WEIR_CLICK_PIXEL}"),
            [text("${WEIR_X}"), Piece::ClickEscaped, Piece::Click, Piece::ClickPixel]
        );
    }
}
