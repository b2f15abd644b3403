//! What a native creative has, and the answer that is made of it.

use std::fmt;

use crate::native::request::{NativeAsset, NativeKind, NativeRequest};
use crate::price::write_int;
use crate::request::Stream;
use crate::text::push_escaped;
use crate::vast::{StreamNeeds, StreamSpec};

/// The version that answers say.
const VERSION: &str = "1.2";
/// The event of an impression, and the method of an image: what `imptrackers` was before 1.2.
const IMPRESSION_BY_IMAGE: (u32, u32) = (1, 1);

/// An image of a creative.
#[derive(Clone, Copy, Debug)]
pub struct NativeImage<'a> {
    /// 1 icon, 3 main image.
    pub image_type: u32,
    /// Its address.
    pub url: &'a str,
    /// Its width in pixels.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Its type, as `image/png`; not known, it only fits where all are taken.
    pub mime: Option<&'a str>,
}

/// An address that is called when something happens.
#[derive(Clone, Copy, Debug)]
pub struct NativeTracker<'a> {
    /// 1 impression, 2 to 4 viewability.
    pub event: u32,
    /// 1 image, 2 script.
    pub method: u32,
    /// The address.
    pub url: &'a str,
}

/// A native creative as its owner describes it. Of several things that fit an asset the first is taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct NativeSpec<'a> {
    /// Titles.
    pub titles: &'a [&'a str],
    /// Images.
    pub images: &'a [NativeImage<'a>],
    /// Data: its type (1 sponsored, 2 description, 12 call to action, ...) and value.
    pub data: &'a [(u32, &'a str)],
    /// Videos, as VAST.
    pub videos: &'a [&'a str],
    /// Where a click leads.
    pub link: &'a str,
    /// What a click is told to.
    pub click_trackers: &'a [&'a str],
    /// What else is told.
    pub trackers: &'a [NativeTracker<'a>],
    /// The page of the privacy notice.
    pub privacy: Option<&'a str>,
}

/// A native creative, ready to answer requests.
#[derive(Clone, Debug)]
pub struct NativeSet {
    titles: Box<[Text]>,
    images: Box<[Image]>,
    data: Box<[(u32, Text)]>,
    videos: Box<[Video]>,
    /// `"link":{..}`.
    link: Box<[u8]>,
    trackers: Box<[Tracker]>,
    privacy: Option<Box<[u8]>>,
}

/// Text, escaped, with its length before that in characters.
#[derive(Clone, Debug)]
struct Text {
    chars: usize,
    escaped: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct Tracker {
    event: u32,
    method: u32,
    url: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct Image {
    image_type: u32,
    size: [u32; 2],
    mime: Option<Box<str>>,
    url: Box<[u8]>,
}

#[derive(Clone, Debug)]
struct Video {
    needs: StreamNeeds,
    duration_s: Option<u32>,
    vast: Box<[u8]>,
}

/// An asset that must be there, and of which the creative has none that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeMiss {
    /// Its id; `None` where the request has none, so that it cannot be answered.
    pub id: Option<i64>,
    /// `title`, `img`, `video`, `data`, or `unknown`.
    pub kind: &'static str,
}

impl fmt::Display for NativeMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => {
                write!(f, "the creative has nothing for the required asset {id} ({})", self.kind)
            }
            None => write!(f, "a required asset ({}) has no id", self.kind),
        }
    }
}

impl NativeSet {
    /// Prepares a creative.
    #[must_use]
    pub fn new(spec: &NativeSpec<'_>) -> NativeSet {
        NativeSet {
            titles: spec.titles.iter().map(|title| text(title)).collect(),
            images: spec.images.iter().map(image).collect(),
            data: spec.data.iter().map(|(data_type, value)| (*data_type, text(value))).collect(),
            videos: spec.videos.iter().map(|vast| video(vast)).collect(),
            link: link(spec),
            trackers: spec.trackers.iter().map(tracker).collect(),
            privacy: spec.privacy.map(escaped),
        }
    }

    /// Writes the answer to a request into `out`, as JSON text: the assets that were asked for, with their ids, and the
    /// trackers that the seller supports.
    ///
    /// # Errors
    /// The first required asset that this creative has nothing for; `out` is as before.
    pub fn write(&self, request: &NativeRequest<'_>, out: &mut Vec<u8>) -> Result<(), NativeMiss> {
        let start = out.len();
        let wrapped = request.wants_wrapped();
        if wrapped {
            out.extend_from_slice(b"{\"native\":");
        }
        out.extend_from_slice(b"{\"ver\":\"");
        out.extend_from_slice(request.version.filter(|_| wrapped).unwrap_or(VERSION).as_bytes());
        out.extend_from_slice(b"\",\"assets\":[");
        let mut is_first = true;
        for asset in request.assets() {
            let before = out.len();
            out.extend_from_slice(if is_first { b"{" } else { b",{" });
            if self.write_asset(&asset, out) {
                is_first = false;
                out.push(b'}');
                continue;
            }
            out.truncate(before);
            if asset.required {
                out.truncate(start);
                return Err(NativeMiss { id: asset.id, kind: name(&asset.kind) });
            }
        }
        out.extend_from_slice(b"],");
        out.extend_from_slice(&self.link);
        self.write_trackers(request, out);
        if let Some(privacy) = self.privacy.as_ref().filter(|_| request.privacy) {
            out.extend_from_slice(b",\"privacy\":\"");
            out.extend_from_slice(privacy);
            out.push(b'"');
        }
        out.extend_from_slice(if wrapped { b"}}" } else { b"}" });
        Ok(())
    }

    /// Writes the inside of an asset; false when there is none that fits.
    fn write_asset(&self, asset: &NativeAsset<'_>, out: &mut Vec<u8>) -> bool {
        let Some(id) = asset.id else { return false };
        out.extend_from_slice(b"\"id\":");
        if id < 0 {
            out.push(b'-');
        }
        write_int(out, id.unsigned_abs());
        if asset.required {
            out.extend_from_slice(b",\"required\":1");
        }
        match asset.kind {
            NativeKind::Title { chars_max } => self.write_title(chars_max, out),
            NativeKind::Image { .. } => self.write_image(&asset.kind, out),
            NativeKind::Video(ref stream) => self.write_video(stream, out),
            NativeKind::Data { data_type, chars_max } => self.write_data(data_type, chars_max, out),
            NativeKind::Unknown => false,
        }
    }

    fn write_title(&self, chars_max: Option<u32>, out: &mut Vec<u8>) -> bool {
        let found = self.titles.iter().find(|title| title.fits(chars_max));
        found.is_some_and(|title| {
            surround(out, b",\"title\":{\"text\":\"", &title.escaped, b"\"}");
            true
        })
    }

    fn write_image(&self, asked: &NativeKind<'_>, out: &mut Vec<u8>) -> bool {
        let Some(image) = self.images.iter().find(|image| image.fits(asked)) else { return false };
        out.extend_from_slice(b",\"img\":{\"type\":");
        write_int(out, u64::from(image.image_type));
        surround(out, b",\"url\":\"", &image.url, b"\",\"w\":");
        write_int(out, u64::from(image.size[0]));
        out.extend_from_slice(b",\"h\":");
        write_int(out, u64::from(image.size[1]));
        out.push(b'}');
        true
    }

    fn write_video(&self, stream: &Stream<'_>, out: &mut Vec<u8>) -> bool {
        let found = self.videos.iter().find(|video| video.fits(stream));
        found.is_some_and(|video| {
            surround(out, b",\"video\":{\"vasttag\":\"", &video.vast, b"\"}");
            true
        })
    }

    fn write_data(
        &self,
        data_type: Option<u32>,
        chars_max: Option<u32>,
        out: &mut Vec<u8>,
    ) -> bool {
        let fits = |(own, value): &&(u32, Text)| data_type == Some(*own) && value.fits(chars_max);
        let Some((own, value)) = self.data.iter().find(fits) else { return false };
        out.extend_from_slice(b",\"data\":{\"type\":");
        write_int(out, u64::from(*own));
        surround(out, b",\"value\":\"", &value.escaped, b"\"}");
        true
    }

    /// Those that the seller supports; to a seller of before 1.2, which does not say, those of an impression by image.
    fn write_trackers(&self, request: &NativeRequest<'_>, out: &mut Vec<u8>) {
        let says = request.says_trackers();
        let name: &[u8] = if says { b",\"eventtrackers\":[" } else { b",\"imptrackers\":[" };
        let mut is_first = true;
        for Tracker { event, method, url } in &self.trackers {
            let is_taken = match says {
                true => request.takes_tracker(*event, *method),
                false => (*event, *method) == IMPRESSION_BY_IMAGE,
            };
            if !is_taken {
                continue;
            }
            out.extend_from_slice(if is_first { name } else { b"," });
            is_first = false;
            if says {
                out.extend_from_slice(b"{\"event\":");
                write_int(out, u64::from(*event));
                out.extend_from_slice(b",\"method\":");
                write_int(out, u64::from(*method));
                surround(out, b",\"url\":\"", url, b"\"}");
            } else {
                surround(out, b"\"", url, b"\"");
            }
        }
        if !is_first {
            out.push(b']');
        }
    }
}

impl Text {
    fn fits(&self, chars_max: Option<u32>) -> bool {
        chars_max.is_none_or(|max| usize::try_from(max).is_ok_and(|max| self.chars <= max))
    }
}

impl Image {
    /// A least size alone, or beside a size, is a least size; a size alone is exact (4.4, Image Object).
    fn fits(&self, asked: &NativeKind<'_>) -> bool {
        let NativeKind::Image { image_type, size, size_min, mimes } = asked else { return false };
        let axis = |own: u32, exact: Option<u32>, min: Option<u32>| match (min, exact) {
            (Some(min), _) => own >= min,
            (None, Some(exact)) => own == exact,
            (None, None) => true,
        };
        let is_type = image_type.is_none_or(|asked| asked == self.image_type);
        let own = self.mime.as_deref();
        let plays = |mime: &str| own.is_some_and(|own| own.eq_ignore_ascii_case(mime));
        is_type
            && axis(self.size[0], size[0], size_min[0])
            && axis(self.size[1], size[1], size_min[1])
            && (mimes.is_empty() || mimes.iter().any(plays))
    }
}

impl Video {
    fn fits(&self, stream: &Stream<'_>) -> bool {
        let (min, max) = (stream.duration_min_s, stream.duration_max_s);
        let is_length = match self.duration_s {
            Some(seconds) => {
                min.is_none_or(|min| seconds >= min) && max.is_none_or(|max| seconds <= max)
            }
            None => max.is_none(),
        };
        is_length && self.needs.fits(stream).is_ok()
    }
}

fn name(kind: &NativeKind<'_>) -> &'static str {
    match kind {
        NativeKind::Title { .. } => "title",
        NativeKind::Image { .. } => "img",
        NativeKind::Video(_) => "video",
        NativeKind::Data { .. } => "data",
        NativeKind::Unknown => "unknown",
    }
}

fn surround(out: &mut Vec<u8>, before: &[u8], text: &[u8], after: &[u8]) {
    out.extend_from_slice(before);
    out.extend_from_slice(text);
    out.extend_from_slice(after);
}

fn escaped(text: &str) -> Box<[u8]> {
    let mut out = Vec::new();
    push_escaped(&mut out, text);
    out.into()
}

fn text(plain: &str) -> Text {
    Text { chars: plain.chars().count(), escaped: escaped(plain) }
}

fn image(image: &NativeImage<'_>) -> Image {
    Image {
        image_type: image.image_type,
        size: [image.width, image.height],
        mime: image.mime.map(Box::from),
        url: escaped(image.url),
    }
}

fn tracker(tracker: &NativeTracker<'_>) -> Tracker {
    Tracker { event: tracker.event, method: tracker.method, url: escaped(tracker.url) }
}

fn video(vast: &str) -> Video {
    let spec = StreamSpec::of_vast(vast);
    Video { needs: StreamNeeds::new(&spec), duration_s: spec.duration_s, vast: escaped(vast) }
}

fn link(spec: &NativeSpec<'_>) -> Box<[u8]> {
    let mut out = Vec::new();
    surround(&mut out, b"\"link\":{\"url\":\"", &escaped(spec.link), b"\"");
    crate::text::push_list(&mut out, "clicktrackers", spec.click_trackers);
    out.push(b'}');
    out.into()
}
