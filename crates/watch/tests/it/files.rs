//! The embedded dashboard, or the page that says how to build it.

use crate::fake::Door;
use crate::http::{call, get};

#[test]
fn the_dashboard_or_how_to_build_it() {
    let door = Door::open(1);
    let root = get("/").send(door.to).expect(307);
    assert_eq!(root.header("location"), Some("/ui/"));
    let page = get("/ui/").send(door.to).expect(200);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    if watch::ui_version() == "absent" {
        assert!(page.text().contains("make web\ncargo build --release"));
        assert!(page.text().contains("The dashboard is not built in"));
        return;
    }
    assert!(page.text().contains("<div id=\"root\">"));
    let tag = page.header("etag").unwrap().to_string();
    let known = get("/ui/").with("If-None-Match", &*tag).send(door.to).expect(304);
    assert!(known.body.is_empty());
    // An address of the app is the same page.
    assert_eq!(get("/ui/campaign/17?q=sale").send(door.to).expect(200).header("etag"), Some(&*tag));
    get("/ui/assets/missing.js").send(door.to).problem(404, "unknown");
    // Where it has none it says so itself, and that is never "unchanged".
    for nowhere in ["/ui/nowhere", "/ui/campaign/a%20b"] {
        let answer = get(nowhere).with("If-None-Match", "*").send(door.to).expect(404);
        assert_eq!((answer.text(), answer.header("etag")), (page.text(), None), "{nowhere}");
    }
    let guessed = get("/ui/campaigns/17?q=sale").send(door.to).expect(307);
    assert_eq!(guessed.header("location"), Some("/ui/campaign/17?q=sale"));
    let script = page.text().split("src=\"").nth(1).unwrap().split('"').next().unwrap().to_string();
    let plain = get(&*script).send(door.to).expect(200);
    assert!(plain.header("cache-control").unwrap().contains("immutable"));
    assert_eq!(plain.header("content-encoding"), None);
    let packed = get(&*script).with("Accept-Encoding", "gzip, br").send(door.to).expect(200);
    assert_eq!(packed.header("content-encoding"), Some("br"));
    assert_eq!(packed.header("vary"), Some("Accept-Encoding"));
    assert!(packed.body.len() * 2 < plain.body.len());
    let head = call("HEAD", &*script).send(door.to).expect(200);
    assert!(head.body.is_empty());
    assert_eq!(head.header("content-length"), Some(&*plain.body.len().to_string()));
}
