//! Bulk streams of any size at the keys door of a real node: pieces in, chunks out, and what ends one early.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};

use serde_json::{Value, json};

use crate::keys::{Client, HELLO, audit, door, own_token, sealed, unsealed, write_secret};
use crate::keys_attacks::{TOKENS, of, with_tokens};
use crate::support::{Node, PATIENCE, over_transports, wait_for};

/// Far more than the body of a request may have in these tests.
const ITEMS: u32 = 60_000;
const BODY_BYTES_MAX: &str = "65536";

fn item(number: u32) -> Vec<u8> {
    let text = format!("serial {number:025}");
    [&u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat()
}

fn items(count: u32) -> Vec<u8> {
    (0..count).flat_map(item).collect()
}

fn trailer(items: u32, failed: u64) -> Vec<u8> {
    [&[0; 4][..], &u64::from(items).to_le_bytes(), &failed.to_le_bytes()].concat()
}

/// A client that sends a body in chunks and reads its answer so.
struct Stream {
    writer: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Stream {
    /// With the token of the node's own making.
    fn begin(node: &Node, path: &str) -> Stream {
        let token = own_token(&node.data());
        Stream::with(node, path, &token, "Transfer-Encoding: chunked")
    }

    fn with(node: &Node, path: &str, token: &str, framing: &str) -> Stream {
        let writer = TcpStream::connect(door(node)).unwrap();
        writer.set_nodelay(true).unwrap();
        writer.set_read_timeout(Some(PATIENCE)).unwrap();
        writer.set_write_timeout(Some(PATIENCE)).unwrap();
        let reader = BufReader::new(writer.try_clone().unwrap());
        let mut stream = Stream { writer, reader };
        stream.send(&format!(
            "POST /v1/transit/bulk/{path} HTTP/1.1\r\nHost: localhost\r\nX-Vault-Token: {token}\r\n{framing}\r\n\r\n"
        ));
        stream
    }

    fn send(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).unwrap();
    }

    fn chunk(&mut self, bytes: &[u8]) {
        let chunk = [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
        self.writer.write_all(&chunk).unwrap();
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        // A reset ends it as a close does.
        let count = self.reader.read_line(&mut line).unwrap_or(0);
        (count > 0).then(|| line.trim_end().to_owned())
    }

    /// The status and whether the body comes in chunks.
    fn head(&mut self) -> (u16, bool) {
        let status = self.line().unwrap()[9..12].parse().unwrap();
        let mut is_chunked = false;
        loop {
            match self.line().unwrap().as_str() {
                "" => return (status, is_chunked),
                line => is_chunked |= line == "Transfer-Encoding: chunked",
            }
        }
    }

    /// The next chunk, empty at the end; `None` where the connection ends without one.
    fn next(&mut self) -> Option<Vec<u8>> {
        let size = usize::from_str_radix(&self.line()?, 16).unwrap();
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).ok()?;
        chunk.truncate(size);
        Some(chunk)
    }

    /// All that comes, and whether its end did.
    fn rest(&mut self) -> (Vec<u8>, bool) {
        let mut all = Vec::new();
        loop {
            match self.next() {
                None => return (all, false),
                Some(chunk) if chunk.is_empty() => return (all, true),
                Some(chunk) => all.extend_from_slice(&chunk),
            }
        }
    }
}

/// Sends a whole body while the answer is read.
fn play(node: &Node, path: &str, body: &[u8], is_chunked: bool) -> (u16, Vec<u8>, bool) {
    let framing = match is_chunked {
        true => "Transfer-Encoding: chunked".to_owned(),
        false => format!("Content-Length: {}", body.len()),
    };
    let mut stream = Stream::with(node, path, &own_token(&node.data()), &framing);
    let mut writer = stream.writer.try_clone().unwrap();
    let body = body.to_vec();
    let sends = std::thread::spawn(move || {
        // Whoever is refused has not been read.
        if !is_chunked {
            return drop(writer.write_all(&body));
        }
        for part in body.chunks(9_001) {
            let head = format!("{:x}\r\n", part.len());
            if writer.write_all(&[head.as_bytes(), part, b"\r\n"].concat()).is_err() {
                return;
            }
        }
        drop(writer.write_all(b"0\r\n\r\n"));
    });
    let (status, in_chunks) = stream.head();
    let (answer, is_whole) = if in_chunks { stream.rest() } else { (Vec::new(), false) };
    sends.join().unwrap();
    (status, answer, is_whole)
}

fn lines_of(node: &Node, verb: &str) -> Vec<Value> {
    audit(&node.data()).into_iter().filter(|line| line["verb"] == verb).collect()
}

/// What the lines say: items, failed ones, status, and what of the stream.
fn told(lines: &[Value]) -> Vec<(u64, u64, u64, String)> {
    let of = |line: &Value| {
        let number = |name: &str| line[name].as_u64().unwrap();
        let part = line["stream"].as_str().unwrap_or_default().to_owned();
        (number("items"), number("failed"), number("status"), part)
    };
    lines.iter().map(of).collect()
}

fn line(items: u64, failed: u64, status: u64, part: &str) -> (u64, u64, u64, String) {
    (items, failed, status, part.to_owned())
}

/// Waits until the last line of a verb says this: no answer waits for the line of a stream that was cut.
fn wait_line(node: &Node, verb: &str, last: &(u64, u64, u64, String)) {
    wait_for("the last line", || told(&lines_of(node, verb)).last() == Some(last));
}

fn cut(node: &Node) -> u64 {
    node.stat()["doors"]["keys"]["streams_cut"].as_u64().unwrap()
}

/// A stream that is far larger than a body may be, both ways, in chunks and of a stated size, worked on by workers and by the pool.
#[test]
fn a_stream_of_any_size_goes_both_ways() {
    let setup = || unsealed().with("keys.body_bytes_max", BODY_BYTES_MAX);
    over_transports(setup, |node| {
        let mut client = Client::to(node);
        client.data("POST", "transit/keys/a", &json!({"type": "aes256-cbc-cmac"}));
        client.data("POST", "transit/keys/b", &json!({"type": "aes256-gcm-siv"}));
        let plain = items(ITEMS);
        for (key, is_chunked) in [("a", true), ("b", false)] {
            let path = |verb: &str| format!("{verb}/{key}?aad=row");
            let (status, sealed, is_whole) = play(node, &path("encrypt"), &plain, is_chunked);
            assert_eq!((status, is_whole), (200, true), "{key}");
            let mut sealed = sealed.strip_suffix(&trailer(ITEMS, 0)[..]).unwrap().to_vec();
            let (_, opened, is_whole) = play(node, &path("decrypt"), &sealed, is_chunked);
            assert!(is_whole && opened == [&plain[..], &trailer(ITEMS, 0)].concat(), "{key}");
            // One bit of the last item: it fails alone.
            *sealed.last_mut().unwrap() ^= 1;
            let (status, opened, is_whole) = play(node, &path("decrypt"), &sealed, is_chunked);
            assert_eq!((status, is_whole), (200, true), "{key}");
            let expected = [&[0xff; 4][..], &trailer(ITEMS, 1)].concat();
            let end = &opened[opened.len().saturating_sub(expected.len())..];
            assert_eq!(end, expected, "{key}");
        }
        let counts = node.stat()["doors"]["keys"].clone();
        assert_eq!((&counts["streams"], &counts["streams_cut"]), (&json!(6), &json!(0)));
        assert_eq!(counts["items"], json!(6 * ITEMS + 2), "{counts}");
        assert!(counts["by_pool"].as_u64().unwrap() > 0, "{counts}");
        let told = told(&lines_of(node, "decrypt"));
        let all = u64::from(ITEMS);
        let ends: Vec<_> = told.iter().filter(|line| line.3 == "done").cloned().collect();
        let end = |failed| line(all, failed, 200, "done");
        assert_eq!(ends, [end(0), end(1), end(0), end(1)]);
        assert_eq!(told.iter().filter(|line| line.3 == "begun").count(), 4);
    });
}

/// Results come before the request ends, to a client that waits for them; the connection serves on. A small stream has one line.
#[test]
fn a_client_that_asks_item_by_item_is_answered_so() {
    over_transports(unsealed, |node| {
        Client::to(node).encrypt("a", HELLO);
        let mut stream = Stream::begin(node, "encrypt/a");
        stream.chunk(&item(0));
        assert_eq!(stream.head(), (200, true));
        let first = stream.next().unwrap();
        stream.chunk(&[item(1), item(2)].concat());
        let more = stream.next().unwrap();
        assert!(more.len() == 2 * first.len(), "{} {}", more.len(), first.len());
        stream.send("0\r\n\r\n");
        assert_eq!(stream.rest(), (trailer(3, 0), true));
        stream.send(&format!(
            "POST /v1/transit/bulk/decrypt/a HTTP/1.1\r\nHost: localhost\r\nX-Vault-Token: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
            own_token(&node.data())
        ));
        let body = [&first[..], &more].concat();
        stream.send(&format!("{:x}\r\n", body.len()));
        stream.writer.write_all(&[&body[..], b"\r\n0\r\n\r\n"].concat()).unwrap();
        assert_eq!(stream.head(), (200, true));
        assert_eq!(stream.rest(), ([items(3), trailer(3, 0)].concat(), true));
        let lines = lines_of(node, "encrypt");
        let expected = [line(1, 0, 200, ""), line(1, 0, 200, "begun"), line(3, 0, 200, "done")];
        assert_eq!(told(&lines), expected);
        let opened = lines_of(node, "decrypt");
        let opened = told(&opened);
        assert_eq!(opened.last().map(|line| (line.0, line.2)), Some((3, 200)), "{opened:?}");
    });
}

/// A fault before the first result is answered as such; a later one leaves the answer without its end. Never is it a success.
#[test]
fn a_fault_is_answered_or_cuts_the_answer_off_and_is_no_success() {
    let node = unsealed().start();
    Client::to(&node).encrypt("a", HELLO);
    let lie = (2_u32 << 20).to_le_bytes();
    let mut stream = Stream::begin(&node, "encrypt/a");
    stream.chunk(&lie);
    assert_eq!(stream.head().0, 400);
    let mut stream = Stream::begin(&node, "encrypt/a");
    stream.chunk(&items(5));
    assert_eq!(stream.head(), (200, true));
    stream.next().unwrap();
    stream.chunk(&lie);
    assert_eq!(stream.rest(), (Vec::new(), false));
    // The request ends within an item, in the framing of HTTP and without it.
    let mut stream = Stream::begin(&node, "encrypt/a");
    stream.chunk(&items(5));
    stream.head();
    stream.next().unwrap();
    stream.chunk(b"\x05");
    stream.send("0\r\n\r\n");
    assert_eq!(stream.rest(), (Vec::new(), false));
    let mut stream = Stream::begin(&node, "encrypt/a");
    stream.chunk(&items(5));
    stream.head();
    stream.next().unwrap();
    stream.send("nonsense\r\n");
    assert_eq!(stream.rest(), (Vec::new(), false));
    wait_for("all of them", || cut(&node) == 4);
    wait_line(&node, "encrypt", &line(5, 0, 499, "cut"));
    let lines = lines_of(&node, "encrypt");
    let begun = || line(5, 0, 200, "begun");
    let cut = || line(5, 0, 400, "cut");
    let gone = line(5, 0, 499, "cut");
    let expected = [line(1, 1, 400, ""), begun(), cut(), begun(), cut(), begun(), gone];
    assert_eq!(told(&lines)[1..], expected);
}

/// A client that ends, or is gone, within its stream: what was done of it is in the audit, its place is free.
#[test]
fn a_client_that_is_gone_within_its_stream_is_told_in_the_audit() {
    over_transports(unsealed, |node| {
        Client::to(node).encrypt("a", HELLO);
        for half in [true, false] {
            let mut stream = Stream::begin(node, "encrypt/a");
            stream.chunk(&items(7));
            stream.head();
            stream.next().unwrap();
            if half {
                stream.writer.shutdown(Shutdown::Write).unwrap();
                assert_eq!(stream.rest(), (Vec::new(), false));
            }
        }
        wait_for("both", || cut(node) == 2);
        wait_for("their lines", || lines_of(node, "encrypt").len() == 5);
        let lines = lines_of(node, "encrypt");
        let [begun, gone] = [line(7, 0, 200, "begun"), line(7, 0, 499, "cut")];
        assert_eq!(told(&lines)[1..], [begun.clone(), gone.clone(), begun, gone]);
    });
}

/// Who may not, or may no longer, gets nothing; what is refused has not been read.
#[test]
fn a_stream_has_to_be_allowed_from_its_first_piece_to_its_last() {
    let folder = tempfile::tempdir().unwrap();
    let node = with_tokens(folder.path()).start();
    let chunked = "Transfer-Encoding: chunked";
    let mut all = of(&node, "all-0123456789ab");
    all.data("POST", "transit/keys/crm-a", &json!({}));
    for (path, token, status) in [
        ("encrypt/crm-a", "nobody-123456789", 403),
        ("decrypt/crm-a", "crm-0123456789ab", 403),
        ("encrypt/none", "all-0123456789ab", 400),
        ("rewrap/crm-a", "all-0123456789ab", 404),
    ] {
        let mut stream = Stream::with(&node, path, token, chunked);
        assert_eq!(stream.head(), (status, false), "{path}");
        assert!(stream.reader.read_to_end(&mut Vec::new()).is_ok(), "it is closed: {path}");
    }
    assert_eq!(told(&lines_of(&node, "decrypt")), [line(1, 1, 403, "")]);
    let mut stream = Stream::with(&node, "encrypt/crm-a", "all-0123456789ab", chunked);
    stream.chunk(&items(2));
    assert_eq!(stream.head(), (200, true));
    stream.next().unwrap();
    write_secret(&folder.path().join("tokens"), &TOKENS.replace("all keys all", "all keys new"));
    node.signal("HUP");
    wait_for("the new file", || all.ask("GET", "transit/keys/crm-a", "").status == 403);
    stream.chunk(&items(2));
    assert_eq!(stream.rest(), (Vec::new(), false));
    wait_line(&node, "encrypt", &line(2, 0, 403, "cut"));
    let node = sealed().start();
    assert_eq!(Stream::begin(&node, "encrypt/a").head(), (503, false));
}

/// Streams that are open take no place from calls, and no more of them are open than may be.
#[test]
fn open_streams_are_bounded_and_hold_up_no_call() {
    let node = unsealed().start();
    let mut client = Client::to(&node);
    client.encrypt("a", HELLO);
    let mut open = Vec::new();
    for _ in 0..256 {
        let mut stream = Stream::begin(&node, "encrypt/a");
        stream.chunk(&item(0));
        assert_eq!(stream.head(), (200, true));
        open.push(stream);
    }
    assert_eq!(Stream::begin(&node, "encrypt/a").head(), (503, false));
    client.encrypt("a", HELLO);
    drop(open.pop());
    wait_for("the free place", || cut(&node) == 1);
    let mut last = Stream::begin(&node, "encrypt/a");
    last.send("0\r\n\r\n");
    assert_eq!((last.head(), last.rest()), ((200, true), (trailer(0, 0), true)));
    // A stop waits for nobody who might send more.
    let mut node = node;
    node.interrupt();
    assert!(node.wait_end().success());
    assert!(!open.remove(0).rest().1);
}
