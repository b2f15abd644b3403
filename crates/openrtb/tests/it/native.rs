//! Native ads: any request is read or refused, and an answer has what was asked for, or there is none.

use openrtb::{
    BadNative, Native, NativeImage, NativeMiss, NativeReader, NativeSet, NativeSpec, NativeTracker,
};
use proptest::prelude::*;
use serde_json::{Value, json};

const VAST: &str = r#"<VAST version="3.0"><Linear><Duration>00:00:15</Duration><MediaFile type="video/mp4"/></Linear></VAST>"#;

fn set() -> NativeSet {
    let image = |image_type, width, height| NativeImage {
        image_type,
        url: "https://i.example/\"1\".png",
        width,
        height,
        mime: Some("image/png"),
    };
    let tracker = |event, method, url| NativeTracker { event, method, url };
    NativeSet::new(&NativeSpec {
        titles: &["A title that is rather long", "Sch\u{f6}n"],
        images: &[image(1, 80, 80), image(3, 1200, 627), image(3, 300, 250)],
        data: &[(1, "Brand"), (2, "A long text about it"), (2, "Short"), (12, "Buy")],
        videos: &[VAST],
        link: "https://shop.example/?a=1&b=\"2\"",
        click_trackers: &["https://t.example/c"],
        trackers: &[
            tracker(1, 1, "${WEIR_BURL}"),
            tracker(1, 2, "https://t.example/i.js"),
            tracker(2, 1, "https://t.example/v"),
        ],
        privacy: Some("https://shop.example/privacy"),
    })
}

fn read(request: &str) -> Result<Result<Value, NativeMiss>, BadNative> {
    let native = Native { request: Some(request), ..Native::default() };
    NativeReader::default().read(&native, |request| {
        let mut out = b"before".to_vec();
        let result = set().write(request, &mut out);
        assert!(result.is_ok() || out == b"before");
        result.map(|()| serde_json::from_slice(&out[6..]).unwrap())
    })
}

/// The answer to a request for these assets.
fn assets(assets: Value) -> Result<Value, NativeMiss> {
    let request = json!({"ver": "1.2", "assets": assets});
    read(&request.to_string()).unwrap().map(|answer| answer["assets"].clone())
}

#[test]
fn an_answer_in_full() {
    let request = json!({"ver": "1.2", "privacy": 1, "assets": [
        {"id": 7, "required": 1, "title": {"len": 25}},
        {"id": 2, "required": 1, "img": {"type": 3, "wmin": 600, "hmin": 300, "mimes": ["image/jpg", "image/PNG"]}},
        {"id": 3, "img": {"type": 1, "w": 50, "h": 50}},
        {"id": 4, "data": {"type": 2, "len": 10}},
        {"id": 5, "video": {"mimes": ["video/mp4"], "protocols": [2, 3], "minduration": 5, "maxduration": 15}},
    ], "eventtrackers": [{"event": 1, "methods": [1]}, {"event": 2, "methods": [2]}]});
    let expected = json!({"ver": "1.2", "assets": [
        {"id": 7, "required": 1, "title": {"text": "Sch\u{f6}n"}},
        {"id": 2, "required": 1, "img": {"type": 3, "url": "https://i.example/\"1\".png", "w": 1200, "h": 627}},
        {"id": 4, "data": {"type": 2, "value": "Short"}},
        {"id": 5, "video": {"vasttag": VAST}},
    ], "link": {"url": "https://shop.example/?a=1&b=\"2\"", "clicktrackers": ["https://t.example/c"]},
        "eventtrackers": [{"event": 1, "method": 1, "url": "${WEIR_BURL}"}],
        "privacy": "https://shop.example/privacy"});
    assert_eq!(read(&request.to_string()), Ok(Ok(expected)));
}

#[test]
fn what_is_required_and_missing_is_no_bid() {
    for (asset, kind) in [
        (json!({"title": {"len": 3}}), "title"),
        (json!({"img": {"type": 3, "w": 301, "h": 250}}), "img"),
        (json!({"img": {"type": 2}}), "img"),
        (json!({"img": {"type": 3, "wmin": 300, "hmin": 700}}), "img"),
        (json!({"img": {"mimes": ["image/gif"]}}), "img"),
        (json!({"data": {"type": 3}}), "data"),
        (json!({"data": {}}), "data"),
        (json!({"data": {"type": 12, "len": 2}}), "data"),
        (json!({"video": {"protocols": [7]}}), "video"),
        (json!({"video": {"maxduration": 14}}), "video"),
        (json!({"video": {"mimes": ["video/webm"]}}), "video"),
        (json!({"video": {"linearity": 2}}), "video"),
        (json!({"hologram": {}}), "unknown"),
    ] {
        let mut one = asset;
        one["id"] = json!(9);
        assert_eq!(assets(json!([one])), Ok(json!([])), "{one}: what is not required is left out");
        for required in [json!(1), json!(true), json!("yes")] {
            one["required"] = required;
            assert_eq!(assets(json!([one])), Err(NativeMiss { id: Some(9), kind }), "{one}");
        }
    }
    let nameless = json!([{"required": 1, "title": {}}]);
    assert_eq!(assets(nameless), Err(NativeMiss { id: None, kind: "title" }));
}

#[test]
fn sizes_of_images_are_exact_or_least() {
    let image =
        |img: Value| assets(json!([{"id": 1, "img": img}])).unwrap()[0]["img"]["w"].as_u64();
    assert_eq!(image(json!({"type": 3, "w": 300, "h": 250})), Some(300));
    assert_eq!(image(json!({"type": 3, "w": 600, "wmin": 100})), Some(1200), "the first that fits");
    assert_eq!(image(json!({"type": 3, "hmin": 627})), Some(1200));
    assert_eq!(image(json!({"type": 1, "w": 0, "h": "0"})), Some(80), "0 is no size");
    assert_eq!(image(json!({})), Some(80));
}

#[test]
fn sellers_of_before_1_2_get_what_they_know() {
    let old = r#"{"native":{"ver":"1.0","assets":[{"id":"1","title":{}}]}}"#;
    let answer = read(old).unwrap().unwrap();
    let native = &answer["native"];
    assert_eq!((&native["ver"], &native["assets"][0]["id"]), (&json!("1.0"), &json!(1)));
    assert_eq!(native["imptrackers"], json!(["${WEIR_BURL}"]));
    assert!(native.get("eventtrackers").is_none() && native.get("privacy").is_none());
    let wrapped = r#"{"native":{"ver":"1.2","assets":[{"id":1,"title":{}}]}}"#;
    assert!(read(wrapped).unwrap().unwrap().get("native").is_none(), "since 1.1 answers are bare");
    let unsaid = r#"{"native":{"assets":[{"id":1,"title":{}}]}}"#;
    assert!(read(unsaid).unwrap().unwrap().get("native").is_some());
    let none = r#"{"assets":[{"id":1,"title":{}}],"eventtrackers":[{"event":9,"methods":[9]}]}"#;
    let answer = read(none).unwrap().unwrap();
    assert!(answer.get("eventtrackers").is_none() && answer.get("imptrackers").is_none());
}

#[test]
fn what_cannot_be_understood_is_said() {
    for (request, expected) in [
        ("", BadNative::Json),
        ("{", BadNative::Json),
        ("[]", BadNative::Json),
        ("{}", BadNative::Assets),
        (r#"{"assets":[]}"#, BadNative::Assets),
        (r#"{"native":{"assets":[1]}}"#, BadNative::Assets),
    ] {
        assert_eq!(read(request), Err(expected), "{request}");
    }
    let long = " ".repeat(64 * 1024 + 1);
    assert_eq!(read(&long), Err(BadNative::TooLong));
    let none = NativeReader::default().read(&Native::default(), |_| ());
    assert_eq!(none, Err(BadNative::Empty));
}

#[test]
fn a_reader_forgets_the_request_before() {
    let mut reader = NativeReader::default();
    let mut count = |request: &str| {
        let native = Native { request: Some(request), ..Native::default() };
        reader.read(&native, |request| request.assets().count())
    };
    assert_eq!(count(r#"{"assets":[{"id":1},{"id":2},{"id":3}]}"#), Ok(3));
    assert_eq!(count("{"), Err(BadNative::Json));
    assert_eq!(count(r#"{"assets":[{"id":1}]}"#), Ok(1));
}

proptest! {
    /// Whatever is asked for: each asset of the answer was asked for, with that id and of that kind.
    #[test]
    fn answers_have_nothing_that_was_not_asked_for(
        asked in proptest::collection::vec((0_i64..99, any::<bool>(), 0_usize..6, 0_u32..40), 1..6)
    ) {
        let kinds = ["title", "img", "video", "data", "hologram", "title"];
        let all: Vec<Value> = asked.iter().map(|(id, required, kind, number)| json!({
            "id": id, "required": u8::from(*required),
            kinds[*kind]: {"len": number, "type": number % 13, "maxduration": number},
        })).collect();
        match assets(Value::from(all.clone())) {
            Ok(answer) => for asset in answer.as_array().unwrap() {
                let fits = |one: &&Value| one["id"] == asset["id"]
                    && kinds.iter().any(|kind| one.get(kind).is_some() && asset.get(kind).is_some());
                prop_assert!(all.iter().any(|one| fits(&one)), "{} of {:?}", asset, all);
            },
            Err(miss) => {
                let id = json!(miss.id);
                prop_assert!(all.iter().any(|one| one["id"] == id && one["required"] == 1));
            }
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "[{}\\[\\]\":,a-z0-9]{0,60}") {
        let _ = read(&text);
        let _ = read(&format!(r#"{{"assets":[{{"id":1,{text}}}]}}"#));
    }
}

/// Real requests, where the environment names their folder.
#[test]
fn real_requests_are_read() {
    let Some(folder) = std::env::var_os("CORPUS") else {
        println!("CORPUS is not set: the real bodies are not tried");
        return;
    };
    let path = std::path::Path::new(&folder).join("openrtb/bodies.jsonl");
    let lines = std::fs::read_to_string(&path).unwrap();
    let bodies = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let (mut readable, mut answered, mut refused) = (0, 0, 0);
    for body in bodies {
        for imp in body["imp"].as_array().into_iter().flatten() {
            let Some(request) = imp["native"]["request"].as_str() else { continue };
            match read(request) {
                Ok(Ok(_)) => (readable, answered) = (readable + 1, answered + 1),
                Ok(Err(_)) => readable += 1,
                Err(_) => refused += 1,
            }
        }
    }
    println!("{readable} real native requests read, {answered} answered, {refused} not understood");
    assert!(readable > 0 && answered > 0);
}
