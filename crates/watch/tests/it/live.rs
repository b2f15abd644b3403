//! The live stream over real connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use money::{Amount, Unit};
use proptest::prelude::*;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, Response};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};
use watch::board::View;
use watch::live::{Live, SUBPROTOCOLS, StreamLimits};
use watch::{Board, Budget, Pacing, State};
use wire::live as messages;

/// Nothing here takes so long, unless it hangs.
const PATIENCE: Duration = Duration::from_secs(90);
/// Long enough for a node that would send something to do so.
const MOMENT: Duration = Duration::from_millis(200);

type Connection = WebSocketStream<MaybeTlsStream<TcpStream>>;

struct Node {
    board: Arc<Board>,
    live: Live,
    stop: tokio::sync::watch::Sender<bool>,
    address: SocketAddr,
}

impl Node {
    async fn start(limits: StreamLimits) -> Node {
        Node::showing(Board::default(), limits).await
    }

    async fn showing(board: Board, limits: StreamLimits) -> Node {
        let board = Arc::new(board);
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let live = Live::new(Arc::clone(&board), limits, stopped);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(axum::serve(listener, live.routes()).into_future());
        Node { board, live, stop, address }
    }

    /// Budgets 0 to `spent.len()`, which have spent so much.
    fn publish(&self, as_of_ms: u64, spent: &[i64]) {
        let budget = |id: usize| Budget {
            id: id as u64,
            name: format!("budget {id}").into(),
            handle: None,
            unit: Unit::Count,
            parent: None,
            campaign: false,
            start_ms: None,
            end_ms: None,
            zone: "UTC".into(),
            pacing: Pacing::Asap,
            revision: as_of_ms,
        };
        let state = |&spent: &i64| State { spent: Amount::new(spent), ..State::default() };
        self.board.publish(View {
            as_of_ms,
            run: 7,
            generation: 1,
            budgets: (0..spent.len()).map(budget).collect(),
            states: spent.iter().map(state).collect(),
            ..View::default()
        });
    }

    async fn open(
        &self,
        path: &str,
        protocol: Option<&str>,
    ) -> Result<(Connection, Response<Option<Vec<u8>>>), Error> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request()?;
        if let Some(protocol) = protocol {
            request
                .headers_mut()
                .insert("sec-websocket-protocol", HeaderValue::from_str(protocol)?);
        }
        connect_async(request).await
    }

    async fn connect(&self) -> Connection {
        self.open("/v1/live", Some("weir.live.2, bearer.secret")).await.unwrap().0
    }

    /// Status of the answer to a connection that is refused.
    async fn refuses(&self, path: &str, protocol: Option<&str>) -> u16 {
        match self.open(path, protocol).await {
            Err(Error::Http(response)) => response.status().as_u16(),
            other => panic!("expected a refusal, found {:?}", other.map(|_| ())),
        }
    }
}

/// A page may be silent for as long as a busy machine may keep a thread off its core, and longer.
fn limits() -> StreamLimits {
    let snapshot_every = Duration::from_millis(50);
    StreamLimits { snapshot_every, silence_max: PATIENCE, ..StreamLimits::new(10) }
}

/// What tests look at.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Snapshot { sequence: u64, first: u32, rows: usize, total: u32 },
    Delta { sequence: u64, as_of_ms: u64, states: Vec<(u32, i64)> },
    Patch { sequence: u64, as_of_ms: u64, changes: Vec<(u32, u64)>, words: Vec<u8> },
    Sparks { sequence: u64, rows: Vec<u32> },
}

fn read(bytes: &[u8]) -> Frame {
    match messages::Message::decode(bytes).unwrap() {
        messages::Message::Snapshot(part) => {
            assert_eq!((part.budgets().len(), part.run()), (part.states().len(), 7));
            let (sequence, rows) = (part.sequence(), part.states().len());
            Frame::Snapshot { sequence, first: part.first_row(), rows, total: part.rows_total() }
        }
        messages::Message::Delta(delta) => {
            let states = delta.states().iter().map(|state| (state.row(), state.spent())).collect();
            Frame::Delta { sequence: delta.sequence(), as_of_ms: delta.as_of_ms(), states }
        }
        messages::Message::Patch(patch) => {
            let changes = patch.changes().iter().map(|one| (one.row(), one.mask())).collect();
            let (sequence, as_of_ms) = (patch.sequence(), patch.as_of_ms());
            Frame::Patch { sequence, as_of_ms, changes, words: patch.words().into() }
        }
        messages::Message::Sparks(sparks) => {
            let rows = sparks.sparks().iter().map(|spark| spark.row()).collect();
            Frame::Sparks { sequence: sparks.sequence(), rows }
        }
        other => panic!("{} is none of the node's", other.name()),
    }
}

/// What comes next and is no ping.
async fn message(connection: &mut Connection) -> Option<Result<Message, Error>> {
    loop {
        match timeout(PATIENCE, connection.next()).await.expect("a message") {
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            other => return other,
        }
    }
}

async fn next(connection: &mut Connection) -> Message {
    message(connection).await.expect("an open connection").unwrap()
}

async fn frame(connection: &mut Connection) -> Frame {
    read(&next(connection).await.into_data())
}

/// Does nothing but pings come for a moment?
async fn is_quiet(connection: &mut Connection) -> bool {
    timeout(MOMENT, next(connection)).await.is_err()
}

async fn close_code(connection: &mut Connection) -> u16 {
    loop {
        match next(connection).await {
            Message::Close(Some(close)) => return close.code.into(),
            Message::Close(None) => panic!("closed without a code"),
            _ => {}
        }
    }
}

async fn send(connection: &mut Connection, bytes: Vec<u8>) {
    connection.send(Message::Binary(bytes.into())).await.unwrap();
}

fn acknowledge(sequence: u64) -> Vec<u8> {
    let mut bytes = vec![0; messages::acknowledge::encoded_len()];
    let block = messages::acknowledge::Block::new(sequence);
    messages::acknowledge::encode(&mut bytes, &block).unwrap().finish();
    bytes
}

fn resync(sequence: u64) -> Vec<u8> {
    let mut bytes = vec![0; messages::resync::encoded_len()];
    messages::resync::encode(&mut bytes, &messages::resync::Block::new(sequence)).unwrap().finish();
    bytes
}

fn watch_rows(rows: &[u32]) -> Vec<u8> {
    let rows: Vec<_> = rows.iter().copied().map(messages::watch::Row::new).collect();
    let mut bytes = vec![0; messages::watch::encoded_len(rows.len())];
    let block = messages::watch::Block::new(0);
    messages::watch::encode(&mut bytes, &block).unwrap().rows(&rows).unwrap().finish();
    bytes
}

#[tokio::test]
async fn a_snapshot_then_deltas_then_sparks() {
    let node = Node::start(limits()).await;
    let (mut page, response) =
        node.open("/v1/live", Some("weir.live.2, bearer.secret")).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], SUBPROTOCOLS[1]);
    assert!(is_quiet(&mut page).await, "nothing is published yet");
    let mut spent = vec![0; 5_000];
    node.publish(1, &spent);
    let first = Frame::Snapshot { sequence: 1, first: 0, rows: 4_096, total: 5_000 };
    assert_eq!(frame(&mut page).await, first);
    send(&mut page, acknowledge(1)).await;
    let second = Frame::Snapshot { sequence: 2, first: 4_096, rows: 904, total: 5_000 };
    assert_eq!(frame(&mut page).await, second);
    send(&mut page, acknowledge(2)).await;
    assert!(is_quiet(&mut page).await);
    spent[4_999] = 8;
    node.publish(2, &spent);
    let states = vec![(4_999, 8)];
    assert_eq!(frame(&mut page).await, Frame::Delta { sequence: 3, as_of_ms: 2, states });
    send(&mut page, acknowledge(3)).await;
    node.publish(3, &spent);
    assert_eq!(frame(&mut page).await, Frame::Delta { sequence: 4, as_of_ms: 3, states: vec![] });
    send(&mut page, acknowledge(4)).await;
    send(&mut page, watch_rows(&[17, 4_999, 5_000])).await;
    assert_eq!(frame(&mut page).await, Frame::Sparks { sequence: 5, rows: vec![17, 4_999] });
}

#[tokio::test]
async fn changes_come_as_patches_where_the_page_takes_them() {
    let node = Node::start(limits()).await;
    node.publish(1, &[5, 6]);
    let (mut page, response) =
        node.open("/v1/live", Some("weir.live.2, weir.live.3")).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], SUBPROTOCOLS[0]);
    let first = Frame::Snapshot { sequence: 1, first: 0, rows: 2, total: 2 };
    assert_eq!(frame(&mut page).await, first);
    send(&mut page, acknowledge(1)).await;
    node.publish(2, &[5, 9]);
    let changes = vec![(1, 1 << 6)];
    let patch =
        Frame::Patch { sequence: 2, as_of_ms: 2, changes, words: 9_u32.to_le_bytes().into() };
    assert_eq!(frame(&mut page).await, patch);
    // What it missed, it gets whole.
    node.publish(3, &[7, 9]);
    node.publish(4, &[7, 8]);
    send(&mut page, acknowledge(2)).await;
    let Frame::Patch { changes, words, .. } = frame(&mut page).await else { panic!("no patch") };
    let whole = !(1 | 1 << 43);
    assert_eq!((changes, words.len()), (vec![(1, 1 << 6), (0, whole)], (1 + 62) * 4));
}

#[tokio::test]
async fn so_many_rows_a_view_and_those_that_the_page_watches() {
    let node = Node::showing(Board::new(2), limits()).await;
    node.publish(1, &[0; 5]);
    let (mut page, mut other) = (node.connect().await, node.connect().await);
    for page in [&mut page, &mut other] {
        frame(page).await;
        send(page, acknowledge(1)).await;
    }
    send(&mut page, watch_rows(&[4])).await;
    assert_eq!(frame(&mut page).await, Frame::Sparks { sequence: 2, rows: vec![4] });
    send(&mut page, acknowledge(2)).await;
    let told = [vec![0, 1, 4], vec![2, 3], vec![4], vec![]];
    for (as_of_ms, rows) in (2..).zip(told) {
        node.publish(as_of_ms, &[7; 5]);
        let watches = as_of_ms == 2;
        let of_all = rows.iter().copied().filter(|&row| row != 4 || !watches);
        for (page, sequence, rows) in
            [(&mut page, as_of_ms + 1, rows.clone()), (&mut other, as_of_ms, of_all.collect())]
        {
            let states = rows.into_iter().map(|row| (row, 7)).collect();
            assert_eq!(frame(page).await, Frame::Delta { sequence, as_of_ms, states });
            send(page, acknowledge(sequence)).await;
        }
    }
}

#[tokio::test]
async fn a_resync_brings_a_snapshot() {
    let node = Node::start(limits()).await;
    node.publish(1, &[1, 2]);
    let mut page = node.connect().await;
    frame(&mut page).await;
    send(&mut page, resync(1)).await;
    let again = Frame::Snapshot { sequence: 2, first: 0, rows: 2, total: 2 };
    assert_eq!(frame(&mut page).await, again);
}

#[tokio::test]
async fn other_budgets_bring_a_snapshot() {
    let node = Node::start(limits()).await;
    node.publish(1, &[1, 2]);
    let mut page = node.connect().await;
    frame(&mut page).await;
    send(&mut page, acknowledge(1)).await;
    node.publish(2, &[1, 2, 3]);
    let again = Frame::Snapshot { sequence: 2, first: 0, rows: 3, total: 3 };
    assert_eq!(frame(&mut page).await, again);
}

#[tokio::test]
async fn a_slow_page_gets_fewer_and_newer_messages() {
    let node = Node::start(limits()).await;
    node.publish(1, &[0, 0, 0]);
    let mut page = node.connect().await;
    frame(&mut page).await;
    for as_of_ms in 2..=50 {
        node.publish(as_of_ms, &[as_of_ms.cast_signed(), 0, 7]);
    }
    assert!(is_quiet(&mut page).await);
    send(&mut page, acknowledge(1)).await;
    let states = vec![(0, 50), (2, 7)];
    assert_eq!(frame(&mut page).await, Frame::Delta { sequence: 2, as_of_ms: 50, states });
    send(&mut page, acknowledge(2)).await;
    assert!(is_quiet(&mut page).await, "what was missed is not sent later");
}

/// A thread that is kept from its core for as long as a page may be silent makes every page silent: then the page may be
/// silent for longer.
#[tokio::test]
async fn a_hidden_page_stays_and_a_silent_one_is_closed() {
    for moment in [MOMENT, MOMENT * 10, MOMENT * 30] {
        if hidden_stays_silent_is_closed(moment).await {
            return;
        }
    }
    panic!("a page that answers pings is closed");
}

async fn hidden_stays_silent_is_closed(moment: Duration) -> bool {
    let silence_max = moment * 2;
    let node = Node::start(StreamLimits { ping_every: moment / 4, silence_max, ..limits() }).await;
    node.publish(1, &[0]);
    let (mut hidden, mut silent) = (node.connect().await, node.connect().await);
    frame(&mut hidden).await;
    // Reading answers pings; nothing is acknowledged.
    if let Ok(end) = timeout(moment * 6, message(&mut hidden)).await {
        assert!(is_end(end), "more than pings came");
        return false;
    }
    // It is told why, unless it says nothing for a second more.
    while let Some(Ok(message)) = message(&mut silent).await {
        if let Message::Close(close) = message {
            assert_eq!(u16::from(close.expect("a code").code), 1001);
        }
    }
    let closed = async {
        while node.live.connections() == 2 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, closed).await.expect("the silent one's place is free");
    node.publish(2, &[5]);
    // It fails where the page is closed, as below.
    let _ = hidden.send(Message::Binary(acknowledge(1).into())).await;
    let Some(Ok(Message::Binary(bytes))) = message(&mut hidden).await else { return false };
    let states = vec![(0, 5)];
    assert_eq!(read(&bytes), Frame::Delta { sequence: 2, as_of_ms: 2, states });
    assert_eq!(node.live.connections(), 1);
    true
}

fn is_end(message: Option<Result<Message, Error>>) -> bool {
    matches!(message, None | Some(Err(_) | Ok(Message::Close(_))))
}

#[tokio::test]
async fn no_more_connections_than_allowed() {
    let node = Node::start(StreamLimits { connections: 2, ..limits() }).await;
    let (first, second) = (node.connect().await, node.connect().await);
    assert_eq!(node.refuses("/v1/live", Some(SUBPROTOCOLS[0])).await, 503);
    drop(first);
    let again = async {
        while node.live.connections() == 2 {
            tokio::task::yield_now().await;
        }
        node.connect().await
    };
    timeout(PATIENCE, again).await.expect("a place that is free again");
    drop(second);
}

#[tokio::test]
async fn handshakes_that_are_refused() {
    let node = Node::start(limits()).await;
    assert_eq!(node.refuses("/v1/live", None).await, 400);
    assert_eq!(node.refuses("/v1/live", Some("weir.live.1")).await, 400);
    assert_eq!(node.refuses("/v1/live?fmt=xml", Some(SUBPROTOCOLS[0])).await, 400);
    assert_eq!(node.refuses("/v1/live?format=json", Some(SUBPROTOCOLS[0])).await, 400);
    assert_eq!(node.live.connections(), 0);
}

#[tokio::test]
async fn messages_that_do_not_fit_close_the_connection() {
    let node = Node::start(limits()).await;
    node.publish(1, &[0]);
    let mut own = Vec::new();
    let cases = [
        (Message::Binary(vec![1, 2, 3].into()), 1002),
        (Message::Binary(acknowledge(2).into()), 1002),
        (Message::Binary(resync(u64::MAX).into()), 1002),
        (Message::Binary(watch_rows(&[0; 257]).into()), 1002),
        (Message::Binary(vec![0; 5_000].into()), 1002),
        (Message::Text("{\"acknowledge\":1}".into()), 1003),
    ];
    for (message, code) in cases {
        let mut page = node.connect().await;
        own.extend(next(&mut page).await.into_data());
        page.send(message.clone()).await.unwrap();
        assert_eq!(close_code(&mut page).await, code, "{message:?}");
    }
    let mut page = node.connect().await;
    let echoed = next(&mut page).await;
    page.send(echoed).await.unwrap();
    assert_eq!(close_code(&mut page).await, 1002, "the node's own message");
}

#[tokio::test]
async fn the_same_in_json_for_people() {
    let node = Node::start(limits()).await;
    node.publish(1, &[5]);
    let (mut person, _) = node.open("/v1/live?fmt=json", None).await.unwrap();
    let text = next(&mut person).await.into_text().unwrap();
    assert!(text.starts_with("{\"fields\":{\"asOfMs\":1,"), "{text}");
    person.send(Message::Text("{\"acknowledge\":1}".into())).await.unwrap();
    node.publish(2, &[6]);
    let text = next(&mut person).await.into_text().unwrap();
    assert!(text.contains("\"spent\":6") && text.contains("\"message\":\"Delta\""), "{text}");
    person.send(Message::Text("acknowledge!".into())).await.unwrap();
    assert_eq!(close_code(&mut person).await, 1002);
}

#[tokio::test]
async fn a_stop_says_so() {
    let node = Node::start(limits()).await;
    node.publish(1, &[5]);
    let (mut reads, waits) = (node.connect().await, node.connect().await);
    frame(&mut reads).await;
    node.stop.send(true).unwrap();
    assert_eq!(close_code(&mut reads).await, 1001);
    assert_eq!(node.refuses("/v1/live", Some(SUBPROTOCOLS[0])).await, 503);
    timeout(PATIENCE, node.live.ended()).await.expect("all connections end");
    assert_eq!(node.live.connections(), 0);
    drop(waits);
}

/// Whatever pages send: the node goes on serving others.
#[test]
fn no_messages_of_a_page_hurt_the_node() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = runtime.block_on(Node::start(limits()));
    node.publish(1, &[5]);
    let bytes = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..64),
        (
            proptest::sample::select(vec![acknowledge(1), resync(1), watch_rows(&[0, 1])]),
            any::<prop::sample::Index>(),
            any::<u8>()
        )
            .prop_map(|(mut bytes, at, byte)| {
                let at = at.index(bytes.len());
                bytes[at] = byte;
                bytes
            }),
    ];
    let cases = ProptestConfig::with_cases(64);
    proptest!(cases, |(messages in proptest::collection::vec(bytes, 0..8))| {
        runtime.block_on(async {
            let mut page = node.connect().await;
            for bytes in messages {
                // The node may have closed by now, which is its right.
                let _ = page.send(Message::Binary(bytes.into())).await;
            }
            drop(page);
            let mut other = node.connect().await;
            let expected = Frame::Snapshot { sequence: 1, first: 0, rows: 1, total: 1 };
            assert_eq!(frame(&mut other).await, expected);
        });
    });
}
