//! NATS JetStream as an engine. Its client is async; it runs on a runtime that only the calling thread drives, while it waits for an answer.

use std::future::Future;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, Consumer, DeliverPolicy, pull};
use async_nats::jetstream::{self, stream::Stream};
use async_nats::{
    Client, ConnectOptions, HeaderMap, Request, RequestError, RequestErrorKind, ServerAddr,
};
use futures_util::StreamExt;
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::engine::Ask;
use crate::{ClusterError, ClusterName, Engine, LogFault, Reply};

/// The last entry that an append expects.
const EXPECTED_LAST: &str = "Nats-Expected-Last-Sequence";
/// The first record of an entry, for people and tools.
const FIRST_RECORD: &str = "Weir-First-Record";
/// How the servers list the connection.
const CLIENT: &str = "weir";
/// A server that does not answer in this time is left for another one.
const PING: Duration = Duration::from_millis(500);
/// A reader that fails is made anew so often, each time after the time of an answer.
const READS: u32 = 5;
/// Entries that are fetched at once.
const FETCHED_MAX: usize = 64;
/// The engine forgets a reader that has not fetched for so long.
const READER_MS: u64 = 30_000;
/// A page of a monitor is not waited for any longer.
const MONITOR: Duration = Duration::from_secs(2);

/// Which servers, and how to reach them.
#[derive(Clone)]
pub struct Servers {
    /// `nats://host:4222` or `tls://host:4222`, perhaps with `user:password@`.
    pub addresses: Vec<String>,
    /// Of each server, the address of its monitor: `http://host:8222`.
    pub monitors: Vec<String>,
    /// A file of credentials as `nsc` makes them, for servers that know users by keys.
    pub credentials: Option<PathBuf>,
    /// The CA of the servers' certificates, where the system does not trust it anyway.
    pub ca: Option<PathBuf>,
    /// How long an answer may take. Then nobody knows.
    pub answer: Duration,
}

impl Servers {
    /// The addresses for a text, without users and passwords.
    pub fn shown(&self) -> String {
        let bare = |address: &String| {
            let (scheme, rest) = address.split_once("://").unwrap_or(("nats", address));
            let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
            format!("{scheme}://{host}")
        };
        self.addresses.iter().map(bare).collect::<Vec<_>>().join(", ")
    }
}

impl std::fmt::Debug for Servers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.shown())
    }
}

/// A stream of JetStream.
pub struct JetStream {
    runtime: Runtime,
    client: Client,
    stream: Stream<()>,
    name: ClusterName,
    servers: Servers,
    http: ureq::Agent,
    /// A reader of the engine's, and the entry that it hands out next: whoever follows asks it again and again.
    reader: Option<(Reader, u64)>,
}

type Reader = Consumer<pull::Config>;

impl std::fmt::Debug for JetStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "JetStream {{ {} at {} }}", self.name.stream(), self.servers.shown())
    }
}

impl JetStream {
    /// Connects to one of the servers. When that one fails, the client goes on to the others by itself.
    ///
    /// # Errors
    /// [`LogFault::Away`]: no server answers, an address is none, or the CA cannot be read.
    pub fn connect(name: &ClusterName, servers: Servers) -> Result<JetStream, ClusterError> {
        let log = format!("{} at {}", name.stream(), servers.shown());
        let away = |why: String| ClusterError { log: log.clone(), fault: LogFault::Away(why) };
        let addresses: Result<Vec<ServerAddr>, _> =
            servers.addresses.iter().map(|address| address.parse()).collect();
        // What it says may have a password in it.
        let addresses = addresses.map_err(|_| {
            away("one of the addresses is none: write them as nats://host:4222".to_string())
        })?;
        let mut options = ConnectOptions::new()
            .name(CLIENT)
            .request_timeout(Some(servers.answer))
            .connection_timeout(2 * servers.answer)
            .ping_interval(PING);
        if let Some(ca) = &servers.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let Some(file) = &servers.credentials {
            let read = std::fs::read_to_string(file).and_then(|text| options.credentials(&text));
            options = read.map_err(|error| away(format!("{}: {error}", file.display())))?;
        }
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| away(error.to_string()))?;
        // The client's tasks are of the runtime that it was made in.
        let connected = runtime.block_on(async {
            let client = options.connect(addresses).await.map_err(|error| error.to_string())?;
            let stream = jetstream::new(client.clone()).get_stream_no_info(name.stream()).await;
            Ok((client, stream.map_err(|error| error.to_string())?))
        });
        let (client, stream) = connected.map_err(away)?;
        let http = ureq::Agent::config_builder()
            .timeout_global(Some(MONITOR))
            .max_redirects(0)
            .build()
            .into();
        let name = name.clone();
        Ok(JetStream { runtime, client, stream, name, servers, http, reader: None })
    }

    fn request(&self, subject: String, request: Request) -> Reply {
        match self.runtime.block_on(self.client.send_request(subject, request)) {
            Ok(message) => Reply::Answer(message.payload.to_vec()),
            Err(error) => Reply::Silence(self.silence(&error)),
        }
    }

    fn ask_api(&self, what: &str, body: String) -> Reply {
        self.ask_of(&self.name.stream(), what, body)
    }

    fn ask_of(&self, stream: &str, what: &str, body: String) -> Reply {
        self.request(format!("$JS.API.{what}.{stream}"), Request::new().payload(body.into()))
    }

    fn silence(&self, error: &RequestError) -> String {
        match error.kind() {
            RequestErrorKind::TimedOut => {
                format!("no answer within {} ms", self.servers.answer.as_millis())
            }
            RequestErrorKind::NoResponders => {
                "nobody answers: the stream has no leader now, or does not exist".to_string()
            }
            _ => error.to_string(),
        }
    }

    fn monitor(&self, address: &str) -> Result<String, String> {
        if !address.starts_with("http://") {
            return Err("write it as http://host:8222".to_string());
        }
        let page = self.http.get(format!("{}/varz", address.trim_end_matches('/'))).call();
        let page = page.and_then(|mut page| page.body_mut().read_to_string());
        page.map_err(|error| error.to_string())
    }
}

impl Engine for JetStream {
    fn append(&mut self, after: u64, first_record: u64, sealed: Vec<u8>) -> Reply {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED_LAST, after.to_string());
        headers.insert(FIRST_RECORD, first_record.to_string());
        self.request(self.name.subject(), Request::new().headers(headers).payload(sealed.into()))
    }

    fn entry(&mut self, number: u64) -> Reply {
        self.ask_api("STREAM.MSG.GET", json!({ "seq": number }).to_string())
    }

    fn info(&mut self) -> Reply {
        self.ask_api("STREAM.INFO", String::new())
    }

    fn create(&mut self, settings: &str) -> Reply {
        self.ask_api("STREAM.CREATE", settings.to_string())
    }

    fn entries(
        &mut self,
        from: u64,
        each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), String> {
        // A reader that was made just now may not be there yet, and one whose server ends is gone.
        let (mut next, mut is_over, mut tries) = (from, false, 0..READS);
        loop {
            let kept = self.reader.take().filter(|(_, at)| *at == next).map(|(reader, _)| reader);
            let was_kept = kept.is_some();
            let read = self.read(kept, next, &mut |number, bytes| {
                next = number + 1;
                let taken = each(number, bytes);
                is_over = taken.is_break();
                taken
            });
            match read {
                // There is more where it is asked for: what it reads from may never have that.
                Ok(_) if was_kept && next == from => {}
                Ok(reader) => {
                    // One that was left in the middle has handed out more.
                    self.reader = (!is_over).then_some((reader, next));
                    return Ok(());
                }
                Err(_) if was_kept => {}
                Err(error) if tries.next().is_none() => return Err(error),
                Err(_) => std::thread::sleep(self.servers.answer),
            }
        }
    }

    fn ask(&mut self, what: Ask<'_>) -> Reply {
        let (store, name) = (self.name.store(), |name| self.name.piece(name));
        match what {
            Ask::Make(settings) => self.ask_of(&store, "STREAM.CREATE", settings.to_string()),
            Ask::Put(piece, bytes) => {
                self.request(name(piece), Request::new().payload(bytes.into()))
            }
            Ask::Get(piece) => {
                let body = json!({ "last_by_subj": name(piece) });
                self.ask_of(&store, "STREAM.MSG.GET", body.to_string())
            }
            Ask::Names(of) => {
                let body = json!({ "subjects_filter": name(of) });
                self.ask_of(&store, "STREAM.INFO", body.to_string())
            }
            Ask::Remove(of) => {
                let body = json!({ "filter": name(of) });
                self.ask_of(&store, "STREAM.PURGE", body.to_string())
            }
            Ask::Drop => self.ask_api("STREAM.DELETE", String::new()),
            Ask::Trim(before) => self.ask_api("STREAM.PURGE", json!({ "seq": before }).to_string()),
        }
    }

    fn monitors(&mut self) -> Vec<(String, Result<String, String>)> {
        let page = |address: &String| (address.clone(), self.monitor(address));
        self.servers.monitors.iter().map(page).collect()
    }
}

impl JetStream {
    /// Reads entries with one reader, which is made unless there is one that stands there, and returns it.
    fn read(
        &self,
        kept: Option<Reader>,
        from: u64,
        each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<Reader, String> {
        let (stream, answer) = (&self.stream, self.servers.answer);
        self.runtime.block_on(async {
            let config = pull::Config {
                deliver_policy: DeliverPolicy::ByStartSequence { start_sequence: from },
                ack_policy: AckPolicy::None,
                inactive_threshold: Duration::from_millis(READER_MS),
                memory_storage: true,
                num_replicas: 1,
                ..pull::Config::default()
            };
            let reader = match kept {
                Some(reader) => reader,
                None => within(answer, stream.create_consumer(config)).await?,
            };
            loop {
                let batch = reader.fetch().max_messages(FETCHED_MAX).messages();
                let mut batch = within(answer, batch).await?;
                let mut is_end = true;
                while let Some(message) = within(answer, next(&mut batch)).await? {
                    let message = message.map_err(|error| error.to_string())?;
                    let info = message.info().map_err(|error| error.to_string())?;
                    is_end = info.pending == 0;
                    if each(info.stream_sequence, &message.payload).is_break() {
                        return Ok(reader);
                    }
                }
                if is_end {
                    return Ok(reader);
                }
            }
        })
    }
}

/// Waits for the next message, which nothing but time can prevent.
async fn next<S: futures_util::Stream + Unpin>(
    batch: &mut S,
) -> Result<Option<S::Item>, std::convert::Infallible> {
    Ok(batch.next().await)
}

/// Waits for something at most so long.
async fn within<T, X: std::fmt::Display>(
    answer: Duration,
    what: impl Future<Output = Result<T, X>>,
) -> Result<T, String> {
    match tokio::time::timeout(answer, what).await {
        Ok(done) => done.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {} ms", answer.as_millis())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_fails_says_where_and_shows_no_password() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        for (address, shown, expected) in [
            ("nats://u:secret@h:x".to_string(), "nats://h:x".to_string(), "nats://host:4222"),
            ("u:secret@h:x".into(), "nats://h:x".into(), "nats://host:4222"),
            (format!("nats://u:secret@{free}"), format!("nats://{free}"), "refused"),
        ] {
            let servers = Servers {
                addresses: vec![address],
                monitors: Vec::new(),
                credentials: None,
                ca: None,
                answer: Duration::from_secs(5),
            };
            assert_eq!(format!("{servers:?}"), shown);
            let error = JetStream::connect(&"a".parse().unwrap(), servers).unwrap_err().to_string();
            assert!(error.starts_with(&format!("WEIR_a at {shown}: ")), "{error}");
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
    }

    /// The journal's writer takes it along to its thread.
    #[test]
    fn a_log_goes_to_another_thread() {
        fn goes<T: ledger_journal::Log + Send + 'static>() {}
        goes::<crate::ClusterLog>();
    }
}
