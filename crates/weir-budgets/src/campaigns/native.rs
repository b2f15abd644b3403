//! Native creatives: the markup of one is an answer by Native Ads 1.2, whose assets are what requests are answered with.

use openrtb::{NativeImage, NativeSet, NativeSpec, NativeTracker};
use serde_json::Value;

/// An image of no type is a main image.
const MAIN_IMAGE: u32 = 3;
/// What `imptrackers` was before 1.2: the event of an impression, told by an image.
const IMPRESSION: u32 = 1;
const BY_IMAGE: u32 = 1;
/// Types of images by the ends of their addresses: answers do not say them, and requests ask for them.
const IMAGE_TYPES: [(&str, &str); 5] = [
    ("png", "image/png"),
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
];

/// Reads what a native creative has to show.
///
/// # Errors
/// The first thing that is wrong with its markup, with its place.
pub fn native_set(markup: &str) -> Result<NativeSet, String> {
    let json: Value = serde_json::from_str(markup)
        .map_err(|error| format!("expected native JSON (Native Ads 1.2), found none: {error}"))?;
    let root = json.get("native").filter(|inner| inner.is_object()).unwrap_or(&json);
    let link = text(&root["link"]["url"]).ok_or("native JSON: link.url: missing")?;
    let click_trackers = texts(&root["link"]["clicktrackers"]);
    let mut assets = Assets::default();
    for (at, asset) in list(&root["assets"]).iter().enumerate() {
        assets.add(asset).map_err(|why| format!("native JSON: assets[{at}]{why}"))?;
    }
    let Assets { titles, images, data, videos } = assets;
    if titles.is_empty() && images.is_empty() && data.is_empty() && videos.is_empty() {
        return Err("native JSON: assets: expected at least one".to_string());
    }
    let impressions = texts(&root["imptrackers"]);
    let impressions = impressions.iter().map(|url| (IMPRESSION, BY_IMAGE, *url));
    let events = list(&root["eventtrackers"]).iter().filter_map(|tracker| {
        Some((number(&tracker["event"])?, number(&tracker["method"])?, text(&tracker["url"])?))
    });
    let trackers = impressions.chain(events);
    let trackers: Vec<NativeTracker<'_>> =
        trackers.map(|(event, method, url)| NativeTracker { event, method, url }).collect();
    Ok(NativeSet::new(&NativeSpec {
        titles: &titles,
        images: &images,
        data: &data,
        videos: &videos,
        link,
        click_trackers: &click_trackers,
        trackers: &trackers,
        privacy: text(&root["privacy"]),
    }))
}

#[derive(Default)]
struct Assets<'a> {
    titles: Vec<&'a str>,
    images: Vec<NativeImage<'a>>,
    data: Vec<(u32, &'a str)>,
    videos: Vec<&'a str>,
}

impl<'a> Assets<'a> {
    fn add(&mut self, asset: &'a Value) -> Result<(), String> {
        let of = |value: &'a Value, field: &str| {
            text(value).ok_or_else(|| format!(".{field}: missing; expected text"))
        };
        if let Some(title) = asset.get("title") {
            self.titles.push(of(&title["text"], "title.text")?);
        } else if let Some(image) = asset.get("img") {
            let url = of(&image["url"], "img.url")?;
            self.images.push(NativeImage {
                image_type: number(&image["type"]).unwrap_or(MAIN_IMAGE),
                url,
                width: number(&image["w"]).unwrap_or(0),
                height: number(&image["h"]).unwrap_or(0),
                mime: image_mime(url),
            });
        } else if let Some(data) = asset.get("data") {
            let data_type =
                number(&data["type"]).ok_or(".data.type: missing; expected a number")?;
            self.data.push((data_type, of(&data["value"], "data.value")?));
        } else if let Some(video) = asset.get("video") {
            self.videos.push(of(&video["vasttag"], "video.vasttag")?);
        } else {
            return Err(": expected title, img, data or video".to_string());
        }
        Ok(())
    }
}

fn image_mime(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next()?;
    let (_, end) = path.rsplit_once('.')?;
    IMAGE_TYPES.iter().find(|(name, _)| name.eq_ignore_ascii_case(end)).map(|(_, mime)| *mime)
}

fn text(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn texts(value: &Value) -> Vec<&str> {
    list(value).iter().filter_map(text).collect()
}

#[cfg(test)]
mod tests {
    use openrtb::{Native, NativeReader};

    use super::*;

    const MARKUP: &str = r#"{"native":{"assets":[{"id":1,"title":{"text":"All new"}},{"title":{"text":"New"}},
        {"img":{"url":"https://i.example/a.PNG?x=1","w":1200,"h":627}},{"img":{"type":1,"url":"https://i.example/b","w":80,"h":80}},
        {"data":{"type":2,"value":"Buy it"}},{"video":{"vasttag":"<VAST version=\"4.0\"/>"}}],
        "link":{"url":"https://b.example","clicktrackers":["https://b.example/c"]},"imptrackers":["${WEIR_BURL}"],
        "eventtrackers":[{"event":2,"method":1,"url":"https://b.example/v"}],"privacy":"https://b.example/p"}}"#;

    fn answer(request: &str) -> Option<Value> {
        let (native, mut out) =
            (Native { request: Some(request), ..Native::default() }, Vec::new());
        let set = native_set(MARKUP).unwrap();
        let written = NativeReader::default().read(&native, |request| set.write(request, &mut out));
        written.unwrap().ok()?;
        Some(serde_json::from_slice(&out).unwrap())
    }

    #[test]
    fn the_assets_of_the_markup_answer_requests() {
        let all = answer(
            r#"{"ver":"1.2","privacy":1,"eventtrackers":[{"event":1,"methods":[1]},{"event":2,"methods":[1]}],"assets":[
            {"id":7,"title":{"len":3}},{"id":8,"img":{"type":3,"wmin":600,"mimes":["image/png"]}},{"id":9,"data":{"type":2}}]}"#,
        )
        .unwrap();
        assert_eq!(all["assets"][0], serde_json::json!({"id": 7, "title": {"text": "New"}}));
        assert_eq!(all["assets"][1]["img"]["url"], "https://i.example/a.PNG?x=1");
        assert_eq!(
            (&all["assets"][2]["id"], &all["assets"][2]["data"]["value"]),
            (&9.into(), &"Buy it".into())
        );
        assert_eq!(all["eventtrackers"].as_array().unwrap().len(), 2);
        assert_eq!(
            (&all["privacy"], &all["link"]["url"]),
            (&"https://b.example/p".into(), &"https://b.example".into())
        );
        // An icon of no known type does not show that it is a picture of a type; nothing is a logo.
        assert_eq!(
            answer(r#"{"assets":[{"id":1,"required":1,"img":{"type":1,"mimes":["image/png"]}}]}"#),
            None
        );
        assert_eq!(answer(r#"{"assets":[{"id":1,"required":1,"data":{"type":12}}]}"#), None);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (markup, expected) in [
            ("<b>", "expected native JSON (Native Ads 1.2), found none: "),
            ("{}", "native JSON: link.url: missing"),
            (r#"{"link":{"url":"u"}}"#, "native JSON: assets: expected at least one"),
            (
                r#"{"link":{"url":"u"},"assets":[{"id":1}]}"#,
                "native JSON: assets[0]: expected title",
            ),
            (
                r#"{"link":{"url":"u"},"assets":[{"title":{}}]}"#,
                "native JSON: assets[0].title.text: missing",
            ),
            (
                r#"{"link":{"url":"u"},"assets":[{"data":{"value":"x"}}]}"#,
                "native JSON: assets[0].data.type",
            ),
        ] {
            let error = native_set(markup).unwrap_err();
            assert!(error.starts_with(expected), "{markup}: {error}");
        }
    }
}
