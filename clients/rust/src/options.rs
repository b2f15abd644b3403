//! How a client behaves, and what it tells.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Verdict};

/// What a hook hears.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// What was done.
    pub what: What,
    /// What came of it.
    pub verdict: Verdict,
    /// How long it took, from the call to the answer, in nanoseconds.
    pub ns: u64,
}

/// What a hook hears about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum What {
    /// One ask.
    Reserve,
    /// A confirm, when it is answered for good.
    Confirm,
    /// A later end, when it is answered for good or nobody waits for it any more.
    Extend,
    /// A settle, when it is answered for good.
    Settle,
    /// A release, when it is answered for good.
    Release,
}

impl What {
    /// The name in small letters.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            What::Reserve => "reserve",
            What::Confirm => "confirm",
            What::Extend => "extend",
            What::Settle => "settle",
            What::Release => "release",
        }
    }
}

type Hook = Arc<dyn Fn(&Event) + Send + Sync>;
type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// How a client behaves. Made by [`Options::new`], changed by its methods.
#[derive(Clone)]
pub struct Options {
    pub(crate) nodes: Vec<String>,
    pub(crate) auth: Vec<u8>,
    pub(crate) name: String,
    pub(crate) connections: usize,
    pub(crate) deadline: Option<Duration>,
    pub(crate) linger: Duration,
    pub(crate) batch_max: usize,
    pub(crate) answer: Duration,
    pub(crate) wait: Duration,
    pub(crate) connect: Duration,
    pub(crate) unsettled_max: usize,
    pub(crate) await_fill: bool,
    pub(crate) spool: Option<PathBuf>,
    pub(crate) hook: Option<Hook>,
    pub(crate) log: Log,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Arc<rustls::ClientConfig>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the auth token.
        f.debug_struct("Options")
            .field("nodes", &self.nodes)
            .field("connections", &self.connections)
            .field("deadline", &self.deadline)
            .field("linger", &self.linger)
            .field("batch_max", &self.batch_max)
            .field("spool", &self.spool)
            .finish_non_exhaustive()
    }
}

/// A bidder's time.
const DEADLINE: Duration = Duration::from_millis(20);
/// Where a hold is confirmed at once the work is long, and can wait for its money.
const CONFIRM_DEADLINE: Duration = Duration::from_secs(1);

fn to_stderr(line: &str) {
    use std::io::Write;
    // Where nobody reads standard error, nobody misses the line.
    let _ = writeln!(std::io::stderr(), "weir-client: {line}");
}

impl Options {
    /// Addresses of nodes with commas between them, such as `10.0.0.1:7700,10.0.0.2:7700`: the first that can be reached is used.
    #[must_use]
    pub fn new(nodes: &str) -> Options {
        let nodes = nodes.split(',').map(|node| node.trim().to_string());
        Options {
            nodes: nodes.filter(|node| !node.is_empty()).collect(),
            auth: Vec::new(),
            name: "weir-client".to_string(),
            connections: 2,
            deadline: None,
            linger: Duration::from_micros(50),
            batch_max: 0,
            answer: Duration::from_secs(2),
            wait: Duration::from_secs(30),
            connect: Duration::from_secs(1),
            unsettled_max: 1 << 16,
            await_fill: true,
            spool: None,
            hook: None,
            log: Arc::new(to_stderr),
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// The auth token of the batch door; none by default.
    #[must_use]
    pub fn auth(mut self, token: &[u8]) -> Options {
        self.auth = token.to_vec();
        self
    }

    /// Speaks TLS with the nodes, as this configuration says: which certificates it trusts, and its own where nodes ask for one. The
    /// name in a node's certificate is that of its address.
    #[cfg(feature = "tls")]
    #[must_use]
    pub fn tls(mut self, config: Arc<rustls::ClientConfig>) -> Options {
        self.tls = Some(config);
        self
    }

    /// What the node's logs call this client.
    #[must_use]
    pub fn name(mut self, name: &str) -> Options {
        self.name = name.to_string();
        self
    }

    /// Connections to a node, 1 to 8; 2 by default.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Options {
        self.connections = connections;
        self
    }

    /// How long an ask waits for its answer; by default 20 ms, and 1 s for one that confirms its hold.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Options {
        self.deadline = Some(deadline);
        self
    }

    /// How long an ask waits for others that go in the same frame; 50 us by default, zero for not at all.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Options {
        self.linger = linger;
        self
    }

    /// Entries of a frame at most; 0, the default, for as many as the node takes.
    #[must_use]
    pub fn batch_max(mut self, batch_max: usize) -> Options {
        self.batch_max = batch_max;
        self
    }

    /// How long the answer to a confirm, settle or release is waited for before it is repeated; 2 s by default.
    #[must_use]
    pub fn answer(mut self, answer: Duration) -> Options {
        self.answer = answer;
        self
    }

    /// How long [`Hold::settle`](crate::Hold::settle) and its like wait; 30 s by default. The client goes on by itself afterwards.
    #[must_use]
    pub fn wait(mut self, wait: Duration) -> Options {
        self.wait = wait;
        self
    }

    /// How many confirms, settles and releases may wait for their answers; 65,536 by default.
    #[must_use]
    pub fn unsettled_max(mut self, unsettled_max: usize) -> Options {
        self.unsettled_max = unsettled_max;
        self
    }

    /// Lets the node wait some milliseconds for its bank where a worker's share is short of an ask, as it is at the first large ask
    /// of a fresh budget; on by default.
    #[must_use]
    pub fn await_fill(mut self, await_fill: bool) -> Options {
        self.await_fill = await_fill;
        self
    }

    /// Keeps confirms, settles and releases that are not answered yet in a file, so that a crash of this process loses none.
    #[must_use]
    pub fn spool(mut self, path: impl Into<PathBuf>) -> Options {
        self.spool = Some(path.into());
        self
    }

    /// Hears of each ask, and of each confirm, settle and release. Called on the client's own threads too: it must be quick.
    #[must_use]
    pub fn hook(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Options {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Takes the client's log lines; standard error by default.
    #[must_use]
    pub fn log(mut self, log: impl Fn(&str) + Send + Sync + 'static) -> Options {
        self.log = Arc::new(log);
        self
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.nodes.is_empty() || self.nodes.len() > 64 {
            let found = self.nodes.len();
            return Err(Error::Options(format!("{found} addresses of nodes, expected 1 to 64")));
        }
        if !(1..=8).contains(&self.connections) {
            let found = self.connections;
            return Err(Error::Options(format!("{found} connections to a node, expected 1 to 8")));
        }
        if self.name.len() > 256 || self.auth.len() > 4096 {
            return Err(Error::Options(
                "a name above 256 bytes or an auth token above 4,096".to_string(),
            ));
        }
        Ok(())
    }

    /// How long an ask waits that names no deadline itself.
    pub(crate) fn deadline_of(&self, confirm: bool) -> Duration {
        self.deadline.unwrap_or(if confirm { CONFIRM_DEADLINE } else { DEADLINE })
    }

    pub(crate) fn tell(&self, what: What, verdict: Verdict, ns: u64) {
        if let Some(hook) = &self.hook {
            hook(&Event { what, verdict, ns });
        }
    }
}
