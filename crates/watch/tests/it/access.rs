//! Who may do what, from where, and over TLS.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use access::{LiveTokens, TokenFile};
use futures_util::StreamExt;
use serde_json::json;
use tokio_rustls::rustls;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use watch::cluster::{Cluster, ClusterEngine, ClusterPosition};
use watch::{Node, Options, Server, Standby, StartError, Tls};

use crate::fake::{Door, Fake};
use crate::http::{Answer, call, get};

const FILE: &str = "ann operate aaaaaaaaaaaaaaaa\nscreen read bbbbbbbbbbbbbbbb";

fn tokens(file: &str) -> LiveTokens {
    LiveTokens::new(TokenFile::parse(file).unwrap())
}

fn guarded() -> Door {
    Door::with(3, |options| {
        options.tokens = Some(tokens(FILE));
        options.origins = vec!["https://ops.example".into()];
    })
}

#[test]
fn tokens_say_who_may_do_what() {
    let door = guarded();
    let problem = get("/v1/budgets").send(door.to);
    assert_eq!(problem.header("www-authenticate"), Some("Bearer realm=\"weir\""));
    problem.problem(401, "unauthorised");
    get("/v1/budgets")
        .with("Authorization", "Bearer wrongwrongwrongw")
        .send(door.to)
        .problem(401, "unauthorised");
    get("/stat").send(door.to).problem(401, "unauthorised");
    get("/nowhere").send(door.to).problem(401, "unauthorised");
    let read = ("Authorization", "Bearer bbbbbbbbbbbbbbbb");
    let me = get("/v1/me").with(read.0, read.1).send(door.to).expect(200).json();
    assert_eq!(me, json!({"name": "screen", "role": "read"}));
    let pause = call("POST", "/v1/budgets/1/pause").json(&json!({"why": "test"}));
    pause.with(read.0, read.1).send(door.to).problem(403, "forbidden");
    let pause = call("POST", "/v1/budgets/1/pause").json(&json!({"why": "test"}));
    pause.with("Authorization", "Bearer aaaaaaaaaaaaaaaa").send(door.to).expect(200);
    let audit = get("/v1/audit").with(read.0, read.1).send(door.to).expect(200).json();
    assert_eq!(audit["records"][0]["who"], "ann");
    for public in ["/healthz", "/readyz", "/v1/openapi.json", "/docs/api", "/ui/"] {
        get(public).send(door.to).expect(200);
    }
}

#[test]
fn a_token_of_another_door_opens_nothing_here() {
    let door = Door::with(1, |options| {
        options.tokens = Some(tokens(&format!("{FILE}\nshop spend cccccccccccccccc budget:1")));
    });
    let refused = get("/v1/me").with("Authorization", "Bearer cccccccccccccccc").send(door.to);
    let detail = refused.problem(403, "forbidden")["detail"].to_string();
    assert!(detail.contains("role spend") && !detail.contains("cccc"), "{detail}");
}

#[test]
fn a_replaced_file_counts_from_the_next_call_and_ends_streams() {
    let live = tokens(FILE);
    let door = Door::with(1, |options| options.tokens = Some(live.clone()));
    let status = |token: &str| {
        get("/v1/me").with("Authorization", format!("Bearer {token}")).send(door.to).status
    };
    assert_eq!((status("aaaaaaaaaaaaaaaa"), status("bbbbbbbbbbbbbbbb")), (200, 200));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut request = format!("ws://{}/v1/live", door.to).into_client_request().unwrap();
        let protocol = "weir.live.2, bearer.bbbbbbbbbbbbbbbb".parse().unwrap();
        request.headers_mut().insert("sec-websocket-protocol", protocol);
        let (mut page, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        live.replace(TokenFile::parse("ann operate aaaaaaaaaaaaaaaa").unwrap());
        let end = tokio::time::timeout(Duration::from_secs(90), async {
            loop {
                if let Message::Close(why) = page.next().await.unwrap().unwrap() {
                    return why.unwrap();
                }
            }
        });
        let why = end.await.unwrap();
        assert_eq!((u16::from(why.code), why.reason.contains("token")), (1008, true));
    });
    assert_eq!((status("aaaaaaaaaaaaaaaa"), status("bbbbbbbbbbbbbbbb")), (200, 401));
}

#[test]
fn names_and_pages_of_strangers_are_refused() {
    let door = guarded();
    get("/ui/").with("Host", "evil.example").send(door.to).problem(421, "host");
    let port = door.to.port();
    get("/v1/me")
        .with("Host", format!("localhost:{port}"))
        .send(door.to)
        .problem(401, "unauthorised");
    let from = |origin: &str| {
        let call = call("POST", "/v1/budgets/2/pause").json(&json!({"why": "test"}));
        call.with("Authorization", "Bearer aaaaaaaaaaaaaaaa").with("Origin", origin).send(door.to)
    };
    from("http://evil.example").problem(403, "forbidden");
    from("null").problem(403, "forbidden");
    from("https://ops.example").expect(200);
    from(&format!("http://{}", door.to)).expect(200);
    get("/v1/live").with("Origin", "http://evil.example").send(door.to).problem(403, "forbidden");
}

#[test]
fn every_answer_is_hardened() {
    let door = Door::open(1);
    for path in ["/ui/", "/v1/budgets", "/v1/budgets/999", "/nowhere", "/docs/api"] {
        let answer = get(path).send(door.to);
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.starts_with("default-src 'self';") && policy.contains("frame-ancestors 'none'")
        );
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
        assert!(answer.header("cache-control").is_some());
    }
}

fn options(folder: &tempfile::TempDir) -> Options {
    Options {
        live_max: 1,
        live_rows: watch::board::LIVE_ROWS,
        tokens: None,
        tls: None,
        origins: Vec::new(),
        history: folder.path().join("history"),
        keep_days: 1,
        run_id: String::new(),
        version: String::new(),
        docs: &[],
    }
}

#[test]
fn a_standby_tells_how_its_cluster_is_and_nothing_else() {
    let told = || Cluster {
        role: "standby",
        name: "weir".into(),
        node: "b".into(),
        bank: None,
        position: ClusterPosition { record: 811, entry: 204 },
        lag_ms: 120,
        lease_ms: 15_000,
        log: ClusterEngine { state: "up", since_ms: 4_000 },
        not_carried: vec!["profiles"],
        failure: Some("no space".into()),
    };
    let folder = tempfile::tempdir().unwrap();
    let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
    let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
    let hear = {
        let heard = Arc::clone(&heard);
        move |who: &str, why: &str| heard.lock().unwrap().push(format!("{who}: {why}"))
    };
    let metrics = || "weir_cluster_files_differ 1\n# EOF\n".into();
    let door = Standby::start(listener(), options(&folder), told, metrics, hear.clone()).unwrap();
    for (path, status) in
        [("/healthz", 200), ("/readyz", 503), ("/v1/budgets", 503), ("/v1/cluster", 200)]
    {
        assert_eq!(get(path).send(door.address()).status, status, "{path}");
    }
    let expected = json!({"role": "standby", "name": "weir", "node": "b", "bank": null,
        "position": {"record": 811, "entry": 204}, "lag_ms": 120, "lease_ms": 15_000,
        "log": {"state": "up", "since_ms": 4_000}, "not_carried": ["profiles"],
        "failure": "no space"});
    assert_eq!(get("/v1/cluster").send(door.address()).json(), expected);
    let metrics_text = get("/metrics").send(door.address()).body;
    assert_eq!(metrics_text, b"weir_cluster_files_differ 1\n# EOF\n");
    let take_over = |why| call("POST", "/v1/cluster/take-over").json(&json!({ "why": why }));
    for (why, status) in [("no", 422), ("a\u{7}bel", 422), ("its machine is gone", 200)] {
        assert_eq!(take_over(why).send(door.address()).status, status, "{why}");
    }
    assert_eq!(*heard.lock().unwrap(), ["local: its machine is gone"]);
    // With tokens only for those who have one.
    let guarded = Options { tokens: Some(tokens(FILE)), ..options(&folder) };
    let door = Standby::start(listener(), guarded, told, metrics, hear).unwrap();
    assert_eq!(take_over("its machine is gone").send(door.address()).status, 401);
    assert_eq!(get("/v1/cluster").send(door.address()).status, 401);
    assert_eq!(get("/readyz").send(door.address()).status, 503);
}

#[test]
fn a_door_to_the_network_wants_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let start = |tokens, origins| {
        let options = Options { tokens, origins, ..options(&folder) };
        let node: Arc<dyn Node> = Arc::new(Fake::default());
        Server::start(TcpListener::bind("0.0.0.0:0").unwrap(), options, node, axum::Router::new())
    };
    assert!(matches!(start(None, Vec::new()), Err(StartError::Open(_))));
    let tokens = || Some(tokens(FILE));
    assert!(matches!(start(tokens(), vec!["ops.example".into()]), Err(StartError::Origin(_))));
    start(tokens(), Vec::new()).unwrap().stop();
}

#[test]
fn a_stop_ends_idle_connections() {
    let door = Door::open(1);
    let mut idle = TcpStream::connect(door.to).unwrap();
    idle.set_read_timeout(Some(Duration::from_secs(90))).unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut first = [0; 12];
    idle.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");
    let to = door.to;
    door.server.stop();
    // Reads the rest of the answer, and then that the connection has ended.
    let mut rest = Vec::new();
    idle.read_to_end(&mut rest).unwrap();
    assert!(TcpStream::connect(to).is_err());
}

#[test]
fn https_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_string()]).unwrap();
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).unwrap();
    std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    assert!(Tls::read(&key, &key).unwrap_err().contains("no certificate"));
    assert!(Tls::read(&certificate, &certificate).unwrap_err().contains("a private key in PEM"));
    let tls = Tls::read(&certificate, &key).unwrap();
    let door = Door::with(1, |options| options.tls = Some(tls));

    let mut roots = rustls::RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let mut session = rustls::ClientConnection::new(config, name).unwrap();
    let mut socket = TcpStream::connect(door.to).unwrap();
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    let origin = format!("https://localhost:{}", door.to.port());
    let pause = call("POST", "/v1/budgets/1/pause")
        .json(&json!({"why": "over TLS"}))
        .with("Origin", origin);
    stream.write_all(&pause.bytes(&format!("localhost:{}", door.to.port()))).unwrap();
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let answer = Answer::parse(&bytes, false).expect(200);
    assert_eq!(answer.json()["status"], "paused");
}
