//! The door itself: one thread, its event loop, its connections.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use access::{LiveTokens, OriginGuard};
use axum::body::Bytes;
use axum::extract::Extension;
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use axum::{Router, middleware};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::api::{self, App};
use crate::assets::Asset;
use crate::auth::Who;
use crate::cluster::Cluster;
use crate::guard::{Gate, guard, harden};
use crate::history::{History, HistoryError};
use crate::live::{Live, StreamLimits};
use crate::problem::{Kind, Problem};
use crate::tls::Tls;
use crate::{Board, Node, assets, problem};

/// Connections at once; more wait to be accepted.
const CONNECTIONS_MAX: usize = 1_024;
/// Threads that wait for the node.
const WAITERS_MAX: usize = 16;
/// How long the head of a request may take; also how long a connection may be idle.
const HEAD_WAIT: Duration = Duration::from_secs(20);
/// How long the handshake of TLS may take.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// Bytes of a head, with its address and headers.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Headers of a request.
const HEADERS_MAX: usize = 64;
/// How long a stop waits for answers that are under way.
const STOP_WAIT: Duration = Duration::from_secs(2);
/// How long the door waits where the system has no connection for it.
const ACCEPT_WAIT: Duration = Duration::from_millis(50);

/// The header that tells which run of which node answers.
const RUN_ID: &str = "weir-run-id";

/// How a door is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Live streams at once.
    pub live_max: usize,
    /// Rows that a survey tells every live stream of at most, beside those that a page watches; others
    /// follow in turn.
    pub live_rows: usize,
    /// Who may do what; without tokens everybody on this machine may do everything. Whoever keeps a clone can replace the file
    /// while the door is open.
    pub tokens: Option<LiveTokens>,
    /// HTTPS instead of HTTP.
    pub tls: Option<Tls>,
    /// Other pages that may change things and open live streams: `https://ops.example`.
    pub origins: Vec<String>,
    /// Folder of the history.
    pub history: PathBuf,
    /// Days that the history is kept.
    pub keep_days: u32,
    /// Which run of which node this is, told with every answer in the header `weir-run-id`: visible ASCII; empty: not told.
    pub run_id: String,
    /// Version of the node, for the API's description.
    pub version: String,
    /// Pages of the documentation, served under `/docs/`: errors lead to them.
    pub docs: &'static [Asset],
}

/// Why a door does not open.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Anybody in the network could change budgets.
    #[error(
        "the admin door would listen on {0} without tokens: set admin.tokens_file, or listen on 127.0.0.1"
    )]
    Open(SocketAddr),
    /// An origin that no browser sends.
    #[error("admin.origins: {0}")]
    Origin(#[from] access::BadOrigin),
    /// The history cannot be used.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The system refused something.
    #[error("the admin door: {0}")]
    System(#[from] std::io::Error),
}

/// A running door.
#[derive(Debug)]
pub struct Server {
    board: Arc<Board>,
    history: Arc<History>,
    live: Live,
    opened: Opened,
}

/// Its thread, which ends with it.
#[derive(Debug)]
struct Opened {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

/// The door of a node that stands by: it says so, and how the cluster is.
#[derive(Debug)]
pub struct Standby(Opened);

impl Standby {
    /// Opens it. `cluster` and `metrics` are asked for each call; `take_over` hears who has the node take over, and why.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub fn start(
        listener: TcpListener,
        options: Options,
        cluster: impl Fn() -> Cluster + Clone + Send + Sync + 'static,
        metrics: impl Fn() -> Bytes + Clone + Send + Sync + 'static,
        take_over: impl Fn(&str, &str) + Clone + Send + Sync + 'static,
    ) -> Result<Standby, StartError> {
        let why = "this node stands by: another one is the bank of its cluster; GET /v1/cluster";
        let not_ready = move || std::future::ready(Problem::new(Kind::NotReady, why));
        let told = {
            let cluster = cluster.clone();
            move || std::future::ready(axum::Json(cluster()))
        };
        let begun = move |Extension(who): Extension<Who>, body: Bytes| {
            let why = why_of(&body);
            std::future::ready(why.map(|why| {
                take_over(&who.name, &why);
                axum::Json(cluster())
            }))
        };
        let exposed =
            move |headers: HeaderMap| std::future::ready(api::node::exposed(&headers, metrics()));
        let routes = Router::new()
            .route("/metrics", axum::routing::get(exposed))
            .route("/healthz", axum::routing::get(|| std::future::ready("ok\n")))
            .route("/v1/cluster", axum::routing::get(told))
            .route("/v1/cluster/take-over", axum::routing::post(begun))
            .fallback(not_ready);
        Opened::start(listener, options, routes, None, watch::channel(false)).map(Standby)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }
}

/// Why somebody has a node take over.
fn why_of(body: &[u8]) -> Result<String, Problem> {
    let found: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let why = found["why"].as_str().unwrap_or_default();
    let is_text = (3..=500).contains(&why.chars().count()) && !why.chars().any(char::is_control);
    let wrong = || {
        Problem::at(
            Kind::Unfit,
            "why",
            why,
            "3 to 500 characters, as in {\"why\":\"the bank's machine is gone\"}",
        )
    };
    is_text.then(|| why.to_string()).ok_or_else(wrong)
}

impl Opened {
    fn start(
        listener: TcpListener,
        options: Options,
        routes: Router,
        live: Option<Live>,
        (stop, stopped): (watch::Sender<bool>, watch::Receiver<bool>),
    ) -> Result<Opened, StartError> {
        let address = listener.local_addr()?;
        if !address.ip().is_loopback() && options.tokens.is_none() {
            return Err(StartError::Open(address));
        }
        let origins = OriginGuard::new(options.tls.is_some(), options.origins)?;
        listener.set_nonblocking(true)?;
        let gate = Gate::new(options.tokens, origins, address.ip())?;
        let run_id = HeaderValue::from_str(&options.run_id).ok().filter(|id| !id.is_empty());
        let routes = dress(routes, gate, run_id);
        let door = Door { routes, tls: options.tls, live, stopped };
        let runtime = runtime()?;
        let named = std::thread::Builder::new().name("admin".into());
        let thread = named.spawn(move || door.run(runtime, listener))?;
        Ok(Opened { address, stop, thread: Some(thread) })
    }
}

impl Server {
    /// Opens a door on a thread of its own. `extra` are further calls, behind the same checks; they have none of the
    /// paths of this crate and no fallback.
    ///
    /// # Errors
    /// See [`StartError`]; nothing runs then.
    pub fn start(
        listener: TcpListener,
        options: Options,
        node: Arc<dyn Node>,
        extra: Router,
    ) -> Result<Server, StartError> {
        let history = Arc::new(History::open(&options.history, options.keep_days)?);
        let board = Arc::new(Board::new(options.live_rows));
        let (stop, stopped) = watch::channel(false);
        let app = App::new(node, Arc::clone(&board), Arc::clone(&history));
        let live =
            Live::new(Arc::clone(&board), StreamLimits::new(options.live_max), stopped.clone());
        let routes = api::routes(app, &options.version, options.tokens.is_some())
            .merge(live.routes())
            .merge(extra)
            .merge(assets::routes(options.docs));
        let opened = Opened::start(listener, options, routes, Some(live.clone()), (stop, stopped))?;
        Ok(Server { board, history, live, opened })
    }

    /// Where the node publishes how its budgets stand.
    #[must_use]
    pub fn board(&self) -> &Arc<Board> {
        &self.board
    }

    /// Where the node records each minute.
    #[must_use]
    pub fn history(&self) -> &Arc<History> {
        &self.history
    }

    /// Live streams at the moment.
    #[must_use]
    pub fn streams(&self) -> usize {
        self.live.connections()
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.opened.address
    }

    /// Accepts nothing more, answers what is under way for at most some seconds, and ends.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // It fails only where the thread has ended already.
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(WAITERS_MAX)
        .thread_name("admin-waits")
        .build()
}

/// All checks around all calls, from the inside to the outside.
fn dress(routes: Router, gate: Gate, run_id: Option<HeaderValue>) -> Router {
    let told = move |mut answer: Response| {
        if let Some(id) = &run_id {
            answer.headers_mut().insert(RUN_ID, id.clone());
        }
        std::future::ready(answer)
    };

    routes
        .layer(middleware::from_fn_with_state(gate, guard))
        .layer(middleware::from_fn(problem::mend))
        .layer(middleware::from_fn(harden))
        .layer(middleware::map_response(told))
}

struct Door {
    routes: Router,
    tls: Option<Tls>,
    live: Option<Live>,
    stopped: watch::Receiver<bool>,
}

impl Door {
    fn run(self, runtime: Runtime, listener: TcpListener) {
        runtime.block_on(async {
            match tokio::net::TcpListener::from_std(listener) {
                Ok(listener) => self.accept(listener).await,
                Err(error) => tracing::error!(%error, "the admin door cannot listen"),
            }
        });
        runtime.shutdown_timeout(STOP_WAIT);
    }

    async fn accept(&self, listener: tokio::net::TcpListener) {
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut connections = JoinSet::new();
        let mut stopped = self.stopped.clone();
        loop {
            let accepted = tokio::select! {
                accepted = next(&listener, &places) => accepted,
                () = ended(&mut stopped) => break,
            };
            match accepted {
                Ok((stream, place)) => {
                    let served = serve(
                        stream,
                        self.tls.as_ref().map(Tls::acceptor),
                        self.routes.clone(),
                        stopped.clone(),
                    );
                    connections.spawn(async move {
                        served.await;
                        drop(place);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the admin door could not accept a connection");
                    tokio::time::sleep(ACCEPT_WAIT).await;
                }
            }
            while connections.try_join_next().is_some() {}
        }
        drop(listener);
        let all = async {
            while connections.join_next().await.is_some() {}
            if let Some(live) = &self.live {
                live.ended().await;
            }
        };
        if timeout(STOP_WAIT, all).await.is_err() {
            tracing::warn!("the admin door cut connections that did not end");
        }
    }
}

/// Waits for the stop.
async fn ended(stopped: &mut watch::Receiver<bool>) {
    // It fails only where the server is gone, which is a stop too.
    let _ = stopped.wait_for(|stop| *stop).await;
}

type Place = tokio::sync::OwnedSemaphorePermit;

async fn next(
    listener: &tokio::net::TcpListener,
    places: &Arc<Semaphore>,
) -> std::io::Result<(TcpStream, Place)> {
    let place = Arc::clone(places).acquire_owned().await;
    let place = place.map_err(std::io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    Ok((stream, place))
}

async fn serve(
    stream: TcpStream,
    tls: Option<TlsAcceptor>,
    routes: Router,
    stopped: watch::Receiver<bool>,
) {
    let Some(tls) = tls else { return speak(stream, routes, stopped).await };
    match timeout(HANDSHAKE_WAIT, tls.accept(stream)).await {
        Ok(Ok(stream)) => speak(stream, routes, stopped).await,
        Ok(Err(error)) => tracing::debug!(%error, "a handshake with the admin door failed"),
        Err(_) => tracing::debug!("a handshake with the admin door took too long"),
    }
}

async fn speak<S>(stream: S, routes: Router, mut stopped: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(routes))
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = ended(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the admin door ended");
    }
}
