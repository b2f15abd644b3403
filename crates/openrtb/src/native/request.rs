//! Reading the request of a native impression.

use simd_json::{Buffers, Tape};
use thiserror::Error;

use crate::json::Json;
use crate::lists::{Ints, Numbers, Texts};
use crate::request::{Native, Stream};

/// Longest request that is read, in bytes; the longest real ones have a few kilobytes.
const BYTES_MAX: usize = 64 * 1024;

/// Why a native impression gets no bid: nothing can be known of what is wanted.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, Hash)]
pub enum BadNative {
    /// No request.
    #[error("native.request: expected a text")]
    Empty,
    /// Longer than anything sensible.
    #[error("native.request: longer than 65,536 bytes")]
    TooLong,
    /// No JSON object.
    #[error("native.request: expected a JSON object")]
    Json,
    /// Nothing is asked for.
    #[error("native.request.assets: expected at least one object")]
    Assets,
}

/// What a seller wants of a native ad (4.1, Native Markup Request Object).
#[derive(Clone, Copy, Debug)]
pub struct NativeRequest<'n> {
    /// `ver`.
    pub version: Option<&'n str>,
    /// `context`: 1 content, 2 social, 3 product.
    pub context: Option<u32>,
    /// `plcmttype`: 1 in the feed, 2 atomic, 3 outside, 4 recommendation.
    pub placement: Option<u32>,
    /// `privacy`: the seller shows the buyer's privacy notice.
    pub privacy: bool,
    /// The request stands in an object with the one field `native`, as before 1.1.
    pub wrapped: bool,
    assets: Json<'n>,
    trackers: Json<'n>,
}

impl<'n> NativeRequest<'n> {
    fn new(json: Json<'n>) -> Result<NativeRequest<'n>, BadNative> {
        if !json.is_object() {
            return Err(BadNative::Json);
        }
        let inner = json.field("native");
        let (wrapped, json) = if inner.is_object() { (true, inner) } else { (false, json) };
        let request = NativeRequest {
            version: json.field("ver").text(),
            context: json.field("context").count(),
            placement: json.field("plcmttype").count(),
            privacy: json.field("privacy").flag().unwrap_or(false),
            wrapped,
            assets: json.field("assets"),
            trackers: json.field("eventtrackers"),
        };
        if request.assets().next().is_none() { Err(BadNative::Assets) } else { Ok(request) }
    }

    /// What is asked for, in order. Elements that are no objects are left out.
    pub fn assets(&self) -> impl Iterator<Item = NativeAsset<'n>> + use<'n> {
        self.assets.items().filter(|json| json.is_object()).map(asset)
    }

    /// Does the seller say which event trackers it supports? Otherwise it is one of before 1.2.
    #[must_use]
    pub fn says_trackers(&self) -> bool {
        self.trackers.items().any(|tracker| tracker.is_object())
    }

    /// May an event (1 impression, 2 to 4 viewability) be told in this way (1 image, 2 script)?
    #[must_use]
    pub fn takes_tracker(&self, event: u32, method: u32) -> bool {
        self.trackers.items().any(|tracker| {
            tracker.field("event").count() == Some(event)
                && Ints(tracker.field("methods")).contains(method)
        })
    }

    /// Must the answer stand in an object with the one field `native`? So it did before 1.1.
    #[must_use]
    pub fn wants_wrapped(&self) -> bool {
        self.version.map_or(self.wrapped, |version| matches!(version, "1" | "1.0"))
    }
}

/// One asset that is asked for.
#[derive(Clone, Copy, Debug)]
pub struct NativeAsset<'n> {
    /// `id`, to be repeated; one without cannot be answered.
    pub id: Option<i64>,
    /// `required`: without it there is no ad.
    pub required: bool,
    /// What it is.
    pub kind: NativeKind<'n>,
}

/// What kind of asset is asked for.
#[derive(Clone, Copy, Debug)]
pub enum NativeKind<'n> {
    /// `title`.
    Title {
        /// Most characters; `None` = any number.
        chars_max: Option<u32>,
    },
    /// `img`.
    Image {
        /// 1 icon, 3 main image; `None` = any.
        image_type: Option<u32>,
        /// `w` and `h`: exact, where there is no least size.
        size: [Option<u32>; 2],
        /// `wmin` and `hmin`.
        size_min: [Option<u32>; 2],
        /// `mimes`; empty = all.
        mimes: Texts<'n>,
    },
    /// `video`: its `mimes`, `minduration`, `maxduration` and `protocols`.
    Video(Stream<'n>),
    /// `data`.
    Data {
        /// 1 sponsored, 2 description, 3 rating, 6 price, 12 call to action, and others.
        data_type: Option<u32>,
        /// Most characters; `None` = any number.
        chars_max: Option<u32>,
    },
    /// None of those that are known.
    Unknown,
}

fn asset(json: Json<'_>) -> NativeAsset<'_> {
    let (mut id, mut required, mut kind) = (None, false, NativeKind::Unknown);
    for (key, value) in json.fields() {
        match key {
            "id" => id = value.int(),
            // What cannot be read must not become "not needed".
            "required" => required = !value.is_null() && value.flag().unwrap_or(true),
            "title" => kind = NativeKind::Title { chars_max: positive(value.field("len")) },
            "img" => kind = image(value),
            "video" => kind = video(value),
            "data" => {
                let data_type = value.field("type").count();
                kind = NativeKind::Data { data_type, chars_max: positive(value.field("len")) };
            }
            _ => {}
        }
    }
    NativeAsset { id, required, kind }
}

/// A number above zero. Sellers say 0 where they mean that there is no limit.
fn positive(json: Json<'_>) -> Option<u32> {
    json.count().filter(|number| *number > 0)
}

fn image(json: Json<'_>) -> NativeKind<'_> {
    let of = |name| positive(json.field(name));
    NativeKind::Image {
        image_type: of("type"),
        size: [of("w"), of("h")],
        size_min: [of("wmin"), of("hmin")],
        mimes: Texts(json.field("mimes")),
    }
}

fn video(json: Json<'_>) -> NativeKind<'_> {
    NativeKind::Video(Stream {
        mimes: Texts(json.field("mimes")),
        duration_min_s: json.field("minduration").count(),
        duration_max_s: positive(json.field("maxduration")),
        protocols: Numbers::of(Ints(json.field("protocols"))),
        whole: json,
        ..Stream::default()
    })
}

/// Reads requests of native impressions; one per worker. After a few of the usual size it allocates nothing.
pub struct NativeReader {
    text: Vec<u8>,
    buffers: Buffers,
    tape: Tape<'static>,
}

impl Default for NativeReader {
    fn default() -> Self {
        Self { text: Vec::new(), buffers: Buffers::default(), tape: Tape(Vec::new()) }
    }
}

impl NativeReader {
    /// Reads what a native impression asks for, and hands it to `then`.
    ///
    /// # Errors
    /// Why nothing can be known of it.
    pub fn read<R>(
        &mut self,
        native: &Native<'_>,
        then: impl FnOnce(&NativeRequest<'_>) -> R,
    ) -> Result<R, BadNative> {
        let text = native.request.ok_or(BadNative::Empty)?;
        if text.len() > BYTES_MAX {
            return Err(BadNative::TooLong);
        }
        let mut room = std::mem::take(&mut self.text);
        room.clear();
        room.extend_from_slice(text.as_bytes());
        let mut tape = std::mem::replace(&mut self.tape, Tape(Vec::new())).reset();
        let result = match simd_json::fill_tape(&mut room, &mut self.buffers, &mut tape) {
            Ok(()) => NativeRequest::new(Json(&tape.0)).map(|request| then(&request)),
            Err(_) => Err(BadNative::Json),
        };
        self.tape = tape.reset();
        self.text = room;
        result
    }
}
