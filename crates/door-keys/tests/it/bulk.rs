//! The bulk stream: cut anywhere, items that fail, its end.

use door_keys::{
    BULK_PATH, Bulk, BulkError, Caller, Door, Gate, NotChanged, NotUnsealed, STREAM_ITEM_BYTES_MAX,
    Settings, Unsealing, Waiting,
};
use proptest::prelude::*;
use vault::{Change, Keys};

use crate::support::{Node, b64};

fn begin(node: &mut Node, path: &str) -> Result<Bulk, (u16, String)> {
    let path = format!("{BULK_PATH}{path}");
    let request = node.request("POST", &path, b"");
    let scopes = node.scopes.clone();
    let caller = Caller { name: "tester", scopes: &scopes };
    node.door.bulk(&request, Some(&caller), &mut node.store).map_err(|answer| {
        let body: serde_json::Value = serde_json::from_slice(answer.body).unwrap();
        (answer.status, body["errors"][0].as_str().unwrap().to_owned())
    })
}

fn frames<T: AsRef<[u8]>>(items: &[T]) -> Vec<u8> {
    let frame = |item: &T| {
        let item = item.as_ref();
        [&u32::try_from(item.len()).unwrap().to_le_bytes(), item].concat()
    };
    items.iter().flat_map(frame).collect()
}

/// Sends a stream in pieces of these lengths, again and again. Returns results, items and failed ones.
fn play(
    node: &mut Node,
    path: &str,
    body: &[u8],
    pieces: &[usize],
) -> (Vec<Option<Vec<u8>>>, u64, u64) {
    let mut bulk = begin(node, path).unwrap();
    let (mut out, mut rest, mut lengths) = (Vec::new(), body, pieces.iter().cycle());
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*lengths.next().unwrap()).clamp(1, rest.len()));
        bulk.push(now, &mut node.store, 5, &mut out).unwrap();
        rest = later;
    }
    let told = bulk.finish(&mut out).unwrap();
    let mut results = Vec::new();
    let mut at = out.as_slice();
    loop {
        let (length, later) = at.split_first_chunk::<4>().unwrap();
        at = later;
        match u32::from_le_bytes(*length) {
            0 => break,
            u32::MAX => results.push(None),
            length => {
                let (item, later) = at.split_at(usize::try_from(length).unwrap());
                results.push(Some(item.to_vec()));
                at = later;
            }
        }
    }
    let (items, failed) = at.split_at(8);
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
    assert_eq!((number(items), number(failed)), told);
    (results, told.0, told.1)
}

const KINDS: [&str; 5] =
    ["aes256-gcm96", "aes128-gcm96", "aes256-gcm-siv", "aes256-cbc-cmac", "aes256-cbc-hmac-sha256"];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_sealed_opens_wherever_it_is_cut(
        items in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..600),
        pieces in prop::collection::vec(1..400_usize, 1..5),
        kind in 0..KINDS.len(),
        rows in any::<bool>(),
    ) {
        let mut node = Node::with_key(&format!(r#"{{"type":"{}"}}"#, KINDS[kind]));
        let query = if rows { "?aad=row" } else { "" };
        let (sealed, count, failed) = play(&mut node, &format!("encrypt/a{query}"), &frames(&items), &pieces);
        let empty = items.iter().filter(|item| item.is_empty()).count();
        prop_assert_eq!((count, failed), (items.len() as u64, empty as u64));
        // What failed keeps its place, so that the others keep their rows.
        let again: Vec<Vec<u8>> = sealed.iter().map(|item| item.clone().unwrap_or_default()).collect();
        node.post("transit/keys/a/rotate", "");
        let (opened, _, _) = play(&mut node, &format!("decrypt/a{query}"), &frames(&again), &pieces);
        let expected: Vec<Option<Vec<u8>>> =
            items.iter().map(|item| (!item.is_empty()).then(|| item.clone())).collect();
        prop_assert_eq!(opened, expected);
    }
}

#[test]
fn a_sealed_item_is_what_the_json_form_has() {
    let mut node = Node::with_key("{}");
    let (sealed, _, _) = play(&mut node, "encrypt/a", &frames(&[b"hello"]), &[1]);
    let (version, message) = sealed[0].as_ref().unwrap().split_at(4);
    assert_eq!(version, 1_u32.to_le_bytes());
    assert_eq!(node.decrypt(&format!("vault:v1:{}", b64(message))), Ok("hello".into()));
}

#[test]
fn an_item_that_does_not_open_fails_alone() {
    let mut node = Node::with_key("{}");
    let items: Vec<String> = (0..600).map(|at| format!("serial {at}")).collect();
    let (sealed, _, _) = play(&mut node, "encrypt/a?aad=row", &frames(&items), &[1000]);
    let mut sealed: Vec<Vec<u8>> = sealed.into_iter().map(Option::unwrap).collect();
    sealed[7][20] ^= 1;
    sealed[8][0] = 9;
    sealed[9].truncate(3);
    sealed[10] = Vec::new();
    sealed.swap(300, 301);
    let (opened, count, failed) = play(&mut node, "decrypt/a?aad=row", &frames(&sealed), &[777]);
    assert_eq!((count, failed), (600, 6));
    for (at, item) in opened.iter().enumerate() {
        let expected = (![7, 8, 9, 10, 300, 301].contains(&at)).then(|| items[at].as_bytes());
        assert_eq!(item.as_deref(), expected, "{at}");
    }
}

#[test]
fn a_stream_that_is_cut_has_no_end() {
    let mut node = Node::with_key("{}");
    let whole = frames(&[b"hello", b"world"]);
    for length in 0..whole.len() {
        let mut bulk = begin(&mut node, "encrypt/a").unwrap();
        let mut out = Vec::new();
        bulk.push(&whole[..length], &mut node.store, 5, &mut out).unwrap();
        let cut = bulk.finish(&mut out);
        let item = if length < 9 { 0 } else { 1 };
        let expected =
            if [0, 9].contains(&length) { Ok((item, 0)) } else { Err(BulkError::Cut { item }) };
        assert_eq!(cut, expected, "{length}");
    }
    node.door = Door::new(Settings { body_bytes_max: 100, ..Settings::default() }).unwrap();
    let mut bulk = begin(&mut node, "encrypt/a").unwrap();
    let long = frames(&[vec![1; 100], vec![1; 101]]);
    let error = bulk.push(&long[..108], &mut node.store, 5, &mut Vec::new());
    assert_eq!(
        error,
        Err(BulkError::TooLong { item: 1, bytes: 101, max: 100 }),
        "before it is there"
    );
}

#[test]
fn a_stream_has_to_be_allowed() {
    let mut node = Node::with_key("{}");
    node.post("transit/keys/d", r#"{"derived":true}"#);
    node.post("transit/keys/h", r#"{"type":"hmac"}"#);
    let mut status = |path: &str| begin(&mut node, path).unwrap_err();
    assert_eq!(status("encrypt/none"), (400, "encryption key not found".into()));
    assert!(status("encrypt/d").1.contains("no contexts"));
    assert!(status("encrypt/h").1.contains("not supported for key type hmac"));
    assert_eq!(status("encrypt/a?aad=x").0, 400);
    assert_eq!(status("rewrap/a").0, 404);
    assert_eq!(status("encrypt").0, 404);
    let mut node = node.limited("transit/decrypt/a");
    assert_eq!(begin(&mut node, "encrypt/a").unwrap_err().0, 403);
    assert!(begin(&mut node, "decrypt/a").is_ok());
    assert_eq!(
        begin(&mut Node::sealed(), "decrypt/a").unwrap_err(),
        (503, "Vault is sealed".into())
    );
}

/// Without pieces: the whole stream is the body of one request.
#[test]
fn a_whole_stream_is_the_body_of_a_request() {
    let mut node = Node::with_key("{}");
    let scopes = node.scopes.clone();
    let mut post = |path: &str, body: &[u8]| {
        let path = format!("{BULK_PATH}{path}");
        let request = node.request("POST", &path, body);
        let caller = Caller { name: "tester", scopes: &scopes };
        let answer = node.door.answer(&request, Some(&caller), &mut node.store).unwrap();
        let audit = (answer.audit.version, answer.audit.items, answer.audit.failed);
        (answer.status, answer.content_type, answer.body.to_vec(), audit)
    };
    let body = frames(&[&b"hello"[..], b"", b"world"]);
    let (status, kind, sealed, audit) = post("encrypt/a?aad=row", &body);
    assert_eq!((status, kind, audit), (200, "application/octet-stream", (1, 3, 1)));
    // What failed stands there as a length of its own, and the trailer is no item.
    let (trailer, mut sealed) =
        (sealed[sealed.len() - 20..].to_vec(), sealed[..sealed.len() - 20].to_vec());
    assert_eq!(trailer, [&[0; 4][..], &3_u64.to_le_bytes(), &1_u64.to_le_bytes()].concat());
    let at = sealed.windows(4).position(|bytes| bytes == [0xff; 4]).unwrap();
    sealed[at..at + 4].fill(0);
    let (status, _, opened, audit) = post("decrypt/a?aad=row", &sealed);
    assert_eq!((status, audit), (200, (1, 3, 1)));
    assert_eq!(opened[..22], [&frames(&[b"hello"])[..], &[0xff; 4], &frames(&[b"world"])].concat());
    // Cut, or with a length that is a lie: refused as a whole, and nothing of it is answered.
    let lie = [&body[..], &u32::MAX.to_le_bytes(), b"x"].concat();
    for (wrong, text) in
        [(&body[..body.len() - 1], "ends within item 2"), (&lie, "item 3 has 4294967295 bytes")]
    {
        let (status, kind, told, audit) = post("encrypt/a", wrong);
        let told = String::from_utf8(told).unwrap();
        assert_eq!((status, kind), (400, "application/json"), "{told}");
        assert!(told.contains(text) && told.starts_with("{\"errors\":["), "{told}");
        assert_eq!(audit.2, 1);
    }
    let (status, _, told, _) = post("decrypt/a?aad=row", &sealed[..sealed.len() - 1]);
    assert_eq!(status, 400);
    assert!(!told.windows(5).any(|bytes| bytes == b"hello"), "a plaintext of a refused stream");
    assert_eq!(post("encrypt/a", b"").2, [0; 20]);
    assert_eq!(post("rewrap/a", b"").0, 404);
    let node = &mut node;
    assert_eq!(node.call("GET", "transit/bulk/encrypt/a", "").status, 405);
    assert_eq!(Node::sealed().call("POST", "transit/bulk/encrypt/a", "").status, 503);
    let mut limited = Node::with_key("{}").limited("transit/decrypt/a");
    assert_eq!(limited.call("POST", "transit/bulk/encrypt/a", "").status, 403);
}

/// The version that opened, where one did.
#[test]
fn the_audit_of_a_stream_has_the_version_that_opened() {
    let mut node = Node::with_key("{}");
    let mut sealed_by_both = Vec::new();
    for version in 1..=2 {
        let mut bulk = begin(&mut node, "encrypt/a").unwrap();
        let mut out = Vec::new();
        bulk.push(&frames(&[&b"hello"[..], b"world"]), &mut node.store, 5, &mut out).unwrap();
        assert_eq!(bulk.audit().version, version);
        let mut bulk = begin(&mut node, "decrypt/a").unwrap();
        bulk.push(&frames(&[&b"no message"[..]]), &mut node.store, 5, &mut Vec::new()).unwrap();
        assert_eq!((bulk.audit().version, bulk.audit().failed), (0, 1), "none");
        bulk.push(&out, &mut node.store, 5, &mut Vec::new()).unwrap();
        assert_eq!((bulk.audit().version, bulk.audit().failed), (version, 1));
        sealed_by_both.extend(out);
        assert_eq!(node.post("transit/keys/a/rotate", "").status, 200);
    }
    let mut bulk = begin(&mut node, "decrypt/a").unwrap();
    bulk.push(&sealed_by_both, &mut node.store, 5, &mut Vec::new()).unwrap();
    assert_eq!((bulk.audit().version, bulk.audit().items), (0, 4), "several");
}

/// The keys of a thread that may not wait.
struct ReadGate<'a>(&'a Keys);

impl Gate for ReadGate<'_> {
    fn keys(&self) -> &Keys {
        self.0
    }

    fn change(&mut self, _: Change, _: u64) -> Result<bool, NotChanged> {
        Err(NotChanged::Elsewhere)
    }

    fn unseal(&mut self, _: Unsealing) -> Result<(), NotUnsealed> {
        Err(NotUnsealed::Elsewhere)
    }
}

/// A stream that a thread cannot go on with loses nothing: one that may wait does the rest, and no item is done twice.
#[test]
fn a_stream_goes_on_where_one_may_wait() {
    let mut node = Node::with_key("{}");
    let items: Vec<String> = (0..700).map(|at| format!("serial {at}")).collect();
    let mut bulk = begin(&mut node, "encrypt/a?aad=row").unwrap();
    let whole = frames(&items);
    bulk.take(&whole[..whole.len() - 3]);
    let bytes = items[..699].iter().map(String::len).sum();
    assert_eq!(bulk.waiting(), Waiting { items: 699, bytes });
    let mut out = Vec::new();
    let work = bulk.work(&mut ReadGate(node.store.keys()), 5, &mut out);
    assert_eq!((work, out.len()), (Err(BulkError::Elsewhere), 0), "no message is reserved yet");
    bulk.work(&mut node.store, 5, &mut out).unwrap();
    bulk.take(&whole[whole.len() - 3..]);
    bulk.work(&mut ReadGate(node.store.keys()), 5, &mut out).unwrap();
    assert_eq!((bulk.waiting(), bulk.held_bytes()), (Waiting::default(), 0));
    let audit = bulk.audit();
    assert_eq!((audit.key, audit.version, audit.items, audit.failed), ("a", 1, 700, 0));
    assert_eq!(bulk.finish(&mut out), Ok((700, 0)));
    let sealed = &out[..out.len() - 20];
    let (opened, _, failed) = play(&mut node, "decrypt/a?aad=row", sealed, &[3000]);
    let expected: Vec<_> = items.iter().map(|item| Some(item.as_bytes().to_vec())).collect();
    assert_eq!((opened, failed), (expected, 0));
}

/// Sealed meanwhile, it is over: not one item is said to have failed. An item that would have to be held whole is bounded.
#[test]
fn a_stream_ends_where_the_keys_are_sealed_or_an_item_is_too_long_to_be_held() {
    let mut node = Node::with_key("{}");
    let mut bulk = begin(&mut node, "encrypt/a").unwrap();
    let mut out = Vec::new();
    bulk.push(&frames(&[b"hello"]), &mut node.store, 5, &mut out).unwrap();
    node.store.seal();
    let before = out.clone();
    let error = bulk.push(&frames(&[b"world"]), &mut node.store, 5, &mut out).unwrap_err();
    assert_eq!((error, error.status(), out), (BulkError::Sealed, 503, before));
    assert_eq!(error.body(), b"{\"errors\":[\"Vault is sealed\"]}\n");
    let mut node = Node::with_key("{}");
    let mut bulk = begin(&mut node, "encrypt/a").unwrap();
    let bytes = u32::try_from(STREAM_ITEM_BYTES_MAX + 1).unwrap();
    let error = bulk.push(&bytes.to_le_bytes(), &mut node.store, 5, &mut Vec::new()).unwrap_err();
    assert_eq!(error, BulkError::TooLong { item: 0, bytes, max: STREAM_ITEM_BYTES_MAX });
    assert_eq!(error.status(), 400);
}
