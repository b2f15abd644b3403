//! Bodies of our own making, from small to large, the same in every run.

use table::SplitMix64;

/// Numbers from a seed.
pub(crate) struct Numbers(SplitMix64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.0.below(end as u64)).unwrap()
    }
}

/// What an app's exchange sends when it says little: about 0.3 kB.
pub(crate) fn small() -> String {
    r#"{"id":"7d9e1c0a-55f2-4f7e-9d5c-0a1b2c3d4e5f","imp":[{"id":"1","banner":{"w":320,"h":50},"bidfloor":0.25,"tagid":"t-17"}],"app":{"id":"a-9","bundle":"com.example.game","publisher":{"id":"p-3"}},"device":{"ip":"192.0.2.7","os":"Android","ifa":"38400000-8cf0-11bd-b23e-10b96e40000d"},"at":1,"tmax":120,"cur":["USD"]}"#.into()
}

/// A website's request with all that is usual: about 1.7 kB.
pub(crate) fn usual() -> String {
    let ua = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36";
    format!(
        r#"{{"id":"0b6f1a52-7b6b-4a3c-9e54-2f8f6a1d9c11","at":1,"tmax":200,"cur":["USD"],"imp":[{{"id":"1","tagid":"/1234/news/top","secure":1,"bidfloor":0.85,"bidfloorcur":"USD","banner":{{"format":[{{"w":300,"h":250}},{{"w":336,"h":280}},{{"w":300,"h":600}}],"w":300,"h":250,"pos":1,"battr":[1,3,8,9],"api":[5,7]}},"pmp":{{"private_auction":0,"deals":[{{"id":"deal-77","bidfloor":2.5,"bidfloorcur":"USD","at":1,"wseat":["seat-1","seat-9"]}}]}},"exp":300,"ext":{{"gpid":"/1234/news/top#1","data":{{"pbadslot":"/1234/news/top"}}}}}}],"site":{{"id":"s-81","domain":"news.example","page":"https://news.example/world/2026/11/a-long-article-title-about-things","ref":"https://search.example/","cat":["IAB12","IAB12-1"],"sectioncat":["IAB12-1"],"publisher":{{"id":"p-4711","name":"News","domain":"example"}},"content":{{"language":"en","keywords":"world,news"}}}},"device":{{"ua":"{ua}","ip":"198.51.100.23","devicetype":2,"os":"Windows","osv":"10","js":1,"language":"en","w":1920,"h":1080,"dnt":0,"lmt":0,"geo":{{"country":"USA","region":"CA","city":"Los Angeles","type":2}}}},"user":{{"id":"u-55aa","buyeruid":"b-0f1e2d3c4b5a69788796a5b4c3d2e1f0","data":[{{"id":"dp-1","name":"provider","segment":[{{"id":"1201"}},{{"id":"1388"}},{{"id":"2044"}}]}}],"ext":{{"consent":"CPzHq4APzHq4AAMABBENAeEgAAAAAAAAAAAAAAAAAAAA"}}}},"regs":{{"ext":{{"gdpr":0,"us_privacy":"1YNN"}}}},"source":{{"tid":"9f5a7a3e-1111-4d4c-8f0e-d1a2b3c4d5e6","ext":{{"schain":{{"ver":"1.0","complete":1,"nodes":[{{"asi":"exchange.example","sid":"4711","hp":1}}]}}}}}},"bcat":["IAB25","IAB26","IAB7-39"],"badv":["bad.example","worse.example"]}}"#
    )
}

/// Two impressions, more lists: about 2.4 kB.
pub(crate) fn large() -> String {
    let video = r#"{"id":"2","video":{"mimes":["video/mp4","video/webm","application/javascript"],"plcmt":1,"pos":1,"skip":1,"delivery":[1,2],"placement":1,"minduration":5,"maxduration":30,"protocols":[2,3,5,6,7,8],"w":640,"h":360,"startdelay":0,"linearity":1,"playbackmethod":[1,2],"api":[1,2],"battr":[13,14]},"bidfloor":3.75,"bidfloorcur":"USD","secure":1,"tagid":"/1234/news/pre"},"#;
    let eids = r#""eids":[{"source":"id.example","uids":[{"id":"8b9aa1d5e0f64f7c9a3f9f5e6d7c8b9a","atype":1}]},{"source":"third.example","uids":[{"id":"0123456789abcdef0123456789abcdef","atype":1}]},{"source":"other.example","uids":[{"id":"XY1234567890abcdef","atype":3}]}],"#;
    usual()
        .replacen(r#""imp":["#, &format!(r#""imp":[{video}"#), 1)
        .replacen(r#""user":{"#, &format!(r#""user":{{{eids}"#), 1)
        .replacen(r#""badv":["#, r#""badv":["a.example","b.example","c.example","d.example","e.example","f.example","g.example","h.example","#, 1)
}

/// Sound bodies, and some that try to be more than they may.
pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let deep = |depth: usize| {
        format!(
            r#"{{"id":"r","imp":[{{"id":"1","banner":{{}}}}],"ext":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        )
    };
    let text = |text: &str| text.as_bytes().to_vec();
    vec![
        ("small", small().into()),
        ("usual", usual().into()),
        ("large", large().into()),
        ("everything", text(include_str!("everything.json"))),
        (
            "deals",
            text(
                r#"{"id":"r","imp":[{"id":"1","banner":{"w":1,"h":1},"pmp":{"private_auction":1,"deals":[{"id":"d","bidfloor":"4.5","at":3}]}}],"dooh":{"id":"x"}}"#,
            ),
        ),
        (
            "old_places",
            text(
                r#"{"id":"r","imp":[{"id":"1","native":{"request":"{}"}}],"regs":{"ext":{"gdpr":1}},"user":{"ext":{"consent":"c"}}}"#,
            ),
        ),
        (
            "floats",
            text(
                r#"{"id":"r","at":2.0,"tmax":100.0,"imp":[{"id":"1","banner":{"w":"300","h":250.0},"bidfloor":"0.1"}]}"#,
            ),
        ),
        (
            "duplicates",
            text(
                r#"{"id":"a","id":"b","imp":[{"id":"1","banner":{}},{"id":"1","banner":{}}],"cur":"USD"}"#,
            ),
        ),
        ("escapes", text(r#"{"id":"\u00e9\"\\\ud83d\ude00","imp":[{"id":"\t","banner":{}}]}"#)),
        (
            "wrong_types",
            text(
                r#"{"id":"r","imp":[{"id":"1","banner":[],"video":5,"pmp":"x","qty":[]}],"site":1,"device":"d","user":null}"#,
            ),
        ),
        ("lone_surrogate", text(r#"{"id":"\ud800","imp":[{"id":"1"}]}"#)),
        ("nan", text(r#"{"id":"r","imp":[{"id":"1","bidfloor":NaN}]}"#)),
        (
            "huge_numbers",
            text(
                r#"{"id":"r","tmax":99999999999999999999999,"imp":[{"id":"1","banner":{"w":1e308},"bidfloor":123456789012345678901234567890}]}"#,
            ),
        ),
        ("invalid_utf8", b"{\"id\":\"\xff\xfe\",\"imp\":[{\"id\":\"1\"}]}".to_vec()),
        ("nothing", Vec::new()),
        ("blank", text("   ")),
        ("half", text(r#"{"id":"r","imp":[{"id":"1""#)),
        ("deep", deep(2_000).into()),
    ]
}
