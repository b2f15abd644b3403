//! The live stream: `GET /v1/live`, a WebSocket with the messages of `schema/live.xml`.
//!
//! - `session` has the rules of one connection, without socket or clock: a snapshot in parts, then what changes, and
//!   never a message before the last one is acknowledged.
//! - `encode` turns views into messages, `request` reads those of the page, `debug` shows both as JSON.
//! - `socket` is the connection itself: pings, time-outs, the reasons to close.
//!
//! A page that is slow or hidden costs two bits per row on the [`Board`], and the buffer of one message. What changed of a
//! row since pages got it costs 16 bytes per row, once for all pages: no state is kept twice.

mod debug;
mod encode;
mod request;
mod session;
mod socket;

use std::sync::Arc;
use std::time::Duration;

use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use serde::Deserialize;
use tokio::sync::{Semaphore, watch};

use crate::problem::{Kind, Problem};
use crate::{Board, Who};
use request::REQUEST_BYTES_MAX;
use session::Session;
use socket::{Form, Socket};

/// The subprotocols, the best first; the number rises only with changes that old pages cannot read.
pub const SUBPROTOCOLS: [&str; 2] = [PATCHES, "weir.live.2"];
/// The one whose changes are `Patch`es.
const PATCHES: &str = "weir.live.3";
/// Most connections there can be, whatever is configured.
const CONNECTIONS_MAX: usize = 10_000;
/// Bytes that are read from a connection at once: messages of pages are short.
const READ_BYTES: usize = 4 << 10;

/// The rules that a stream keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamLimits {
    /// Connections at once; more are refused with 503.
    pub connections: usize,
    /// How often a connection is pinged.
    pub ping_every: Duration,
    /// A page that says nothing for so long, not even a pong, is gone; so is one that takes nothing.
    pub silence_max: Duration,
    /// Snapshots of one connection are at least so far apart.
    pub snapshot_every: Duration,
}

impl StreamLimits {
    /// The documented times.
    #[must_use]
    pub const fn new(connections: usize) -> StreamLimits {
        StreamLimits {
            connections,
            ping_every: Duration::from_secs(5),
            silence_max: Duration::from_secs(20),
            snapshot_every: Duration::from_secs(2),
        }
    }
}

/// All live streams of a node.
#[derive(Clone, Debug)]
pub struct Live(Arc<Streams>);

#[derive(Debug)]
struct Streams {
    board: Arc<Board>,
    limits: StreamLimits,
    places: Arc<Semaphore>,
    stop: watch::Receiver<bool>,
}

impl Live {
    /// Streams of what `board` shows; all end when `stop` turns true, and none begins from then on.
    #[must_use]
    pub fn new(board: Arc<Board>, limits: StreamLimits, stop: watch::Receiver<bool>) -> Live {
        let limits =
            StreamLimits { connections: limits.connections.min(CONNECTIONS_MAX), ..limits };
        let places = Arc::new(Semaphore::new(limits.connections));
        Live(Arc::new(Streams { board, limits, places, stop }))
    }

    /// The route `/v1/live`. Who may ask for it, and from which origin, is checked before.
    pub fn routes(&self) -> Router {
        Router::new().route("/v1/live", get(open)).with_state(self.clone())
    }

    /// The number of connections.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.0.limits.connections.saturating_sub(self.0.places.available_permits())
    }

    /// Waits, after a stop, until every connection is closed; each takes at most a second for it.
    pub async fn ended(&self) {
        let places = u32::try_from(self.0.limits.connections).unwrap_or(u32::MAX);
        // It fails only where the semaphore is closed, which nobody does.
        let _ = self.0.places.acquire_many(places).await;
    }
}

/// Options in the address.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StreamParams {
    fmt: Option<String>,
}

async fn open(
    State(Live(streams)): State<Live>,
    who: Option<Extension<Who>>,
    Query(params): Query<StreamParams>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let opened = match upgrade {
        Ok(upgrade) => streams.open(&params, upgrade, who.map_or_else(Who::local, |who| who.0)),
        Err(refused) => return refused.into_response(),
    };
    opened.unwrap_or_else(IntoResponse::into_response)
}

impl Streams {
    fn open(
        &self,
        params: &StreamParams,
        upgrade: WebSocketUpgrade,
        who: Who,
    ) -> Result<Response, Problem> {
        let form = match params.fmt.as_deref() {
            None => Form::Binary,
            Some("json") => Form::Json,
            Some(other) => return Err(Problem::malformed("fmt", other, "json, or nothing")),
        };
        let upgrade = upgrade
            .protocols(SUBPROTOCOLS)
            .read_buffer_size(READ_BYTES)
            .max_frame_size(REQUEST_BYTES_MAX)
            .max_message_size(REQUEST_BYTES_MAX);
        if form == Form::Binary && upgrade.selected_protocol().is_none() {
            let field = "Sec-WebSocket-Protocol";
            let expected = SUBPROTOCOLS.join(" or ");
            return Err(Problem::malformed(field, "another protocol or none", &expected));
        }
        let selected = upgrade.selected_protocol().and_then(|name| name.to_str().ok());
        // Words of a patch would tell people nothing.
        let patches = form == Form::Binary && selected == Some(PATCHES);
        if *self.stop.borrow() {
            return Err(Problem::stopping());
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let most = self.limits.connections;
            let detail =
                format!("{most} live streams are open, no more are allowed; see admin.live_max");
            return Err(Problem::new(Kind::NotReady, detail));
        };
        let session = Session::new(self.board.follow(), self.limits.snapshot_every, patches);
        let socket = Socket::new(
            session,
            (form, who),
            self.limits,
            self.board.versions(),
            self.stop.clone(),
        );
        Ok(upgrade.on_upgrade(move |connection| async move {
            socket.run(connection).await;
            drop(place);
        }))
    }
}
