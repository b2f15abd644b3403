//! One connection: when it is read, written, pinged and closed.

use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep_until, timeout};

use super::StreamLimits;
use super::debug;
use super::request::{Fault, Request};
use super::session::Session;
use crate::Who;

/// How long a closed connection may take to say so too.
const CLOSE_WAIT: Duration = Duration::from_secs(1);
/// Bytes that the reason of a close may have (RFC 6455, section 5.5).
const REASON_BYTES_MAX: usize = 123;

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// As in `schema/live.xml`.
    Binary,
    /// The same as JSON, for people.
    Json,
}

/// Why a connection ends.
#[derive(Debug)]
enum End {
    /// The page left, or the connection broke.
    Gone,
    /// With this code and reason.
    Close(u16, String),
}

/// What a connection waits for.
enum Event {
    Stop,
    Received(Option<Result<Message, axum::Error>>),
    Ping,
    /// Perhaps a message may be sent now.
    Send,
}

pub(super) struct Socket {
    session: Session,
    form: Form,
    who: Who,
    limits: StreamLimits,
    versions: watch::Receiver<u64>,
    stop: watch::Receiver<bool>,
    /// When the page said something last.
    heard: Instant,
}

impl Socket {
    pub(super) fn new(
        session: Session,
        (form, who): (Form, Who),
        limits: StreamLimits,
        versions: watch::Receiver<u64>,
        stop: watch::Receiver<bool>,
    ) -> Socket {
        Socket { session, form, who, limits, versions, stop, heard: Instant::now() }
    }

    /// Serves the connection until it ends.
    pub(super) async fn run(mut self, mut connection: WebSocket) {
        self.heard = Instant::now();
        let End::Close(code, reason) = self.serve(&mut connection).await else { return };
        tracing::debug!(code, reason, "a live stream is closed");
        // The page may be gone, and a last message may not fit any more: then there is nobody to tell.
        let _ = timeout(CLOSE_WAIT, say_goodbye(&mut connection, code, &reason)).await;
    }

    async fn serve(&mut self, connection: &mut WebSocket) -> End {
        let mut ping = pings(self.limits.ping_every);
        loop {
            if let Err(end) = self.send_what_may(connection).await {
                return end;
            }
            let wake_at = self.session.wake_at().map(Instant::from_std);
            let (wants_views, has_wake) = (self.session.wants_views(), wake_at.is_some());
            // In this order: a pong that is there counts before its lack is judged.
            let event = tokio::select! {
                biased;
                _ = self.stop.wait_for(|stop| *stop) => Event::Stop,
                received = connection.recv() => Event::Received(received),
                _ = ping.tick() => Event::Ping,
                changed = self.versions.changed(), if wants_views => {
                    if changed.is_ok() { Event::Send } else { Event::Stop }
                }
                () = sleep_until(wake_at.unwrap_or(self.heard)), if has_wake => Event::Send,
            };
            let step = match event {
                Event::Stop => Err(stopped()),
                Event::Received(received) => self.received(received),
                Event::Ping => self.ping(connection).await,
                Event::Send => Ok(()),
            };
            if let Err(end) = step {
                return end;
            }
        }
    }

    async fn send_what_may(&mut self, connection: &mut WebSocket) -> Result<(), End> {
        let next = self.session.next(Instant::now().into_std());
        let message = next.map_err(|error| {
            tracing::error!(%error, "the live stream cannot write a message");
            End::Close(close_code::ERROR, "the node cannot write a message".to_string())
        })?;
        let Some(bytes) = message else { return Ok(()) };
        let message = match self.form {
            Form::Binary => Message::Binary(bytes.into()),
            Form::Json => Message::Text(debug::to_json(&bytes).into()),
        };
        self.send(connection, message).await
    }

    /// Sends within the time that a page may be silent.
    async fn send(&mut self, connection: &mut WebSocket, message: Message) -> Result<(), End> {
        tokio::select! {
            biased;
            _ = self.stop.wait_for(|stop| *stop) => Err(stopped()),
            sent = timeout(self.limits.silence_max, connection.send(message)) => match sent {
                Ok(sent) => sent.map_err(|_| End::Gone),
                Err(_) => Err(End::Close(close_code::AWAY, "the page takes nothing".to_string())),
            },
        }
    }

    async fn ping(&mut self, connection: &mut WebSocket) -> Result<(), End> {
        if !self.who.is_in_force() {
            let reason = "the token of this page is no longer one of this node".to_string();
            return Err(End::Close(close_code::POLICY, reason));
        }
        if self.heard.elapsed() >= self.limits.silence_max {
            return Err(End::Close(close_code::AWAY, "the page answers no pings".to_string()));
        }
        self.send(connection, Message::Ping(Vec::new().into())).await
    }

    fn received(&mut self, received: Option<Result<Message, axum::Error>>) -> Result<(), End> {
        let message = match received {
            None | Some(Ok(Message::Close(_))) => return Err(End::Gone),
            Some(Err(error)) => return Err(End::Close(close_code::PROTOCOL, error.to_string())),
            Some(Ok(message)) => message,
        };
        self.heard = Instant::now();
        let request = match (message, self.form) {
            (Message::Binary(bytes), _) => Request::decode(&bytes),
            (Message::Text(text), Form::Json) => Request::parse(&text),
            (Message::Text(_), Form::Binary) => {
                let reason = "text, expected binary messages; ?fmt=json takes text".to_string();
                return Err(End::Close(close_code::UNSUPPORTED, reason));
            }
            // Pings are answered by the connection itself.
            (Message::Ping(_) | Message::Pong(_) | Message::Close(_), _) => return Ok(()),
        };
        let fault = |fault: Fault| End::Close(close_code::PROTOCOL, fault.to_string());
        self.session.receive(request.map_err(fault)?).map_err(fault)
    }
}

fn pings(every: Duration) -> Interval {
    let mut ping = interval_at(Instant::now() + every, every);
    ping.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ping
}

fn stopped() -> End {
    End::Close(close_code::AWAY, "the node stops".to_string())
}

/// Says why, and reads on until the page has said so too: closing before would throw away what is under way.
async fn say_goodbye(connection: &mut WebSocket, code: u16, reason: &str) {
    let reason = Utf8Bytes::from(&reason[..reason.floor_char_boundary(REASON_BYTES_MAX)]);
    let close = Message::Close(Some(CloseFrame { code, reason }));
    if connection.send(close).await.is_ok() {
        while let Some(Ok(_)) = connection.recv().await {}
    }
}
