//! Gates made of the engines of others (`proof/fix-peers`): a session for the client, one to the venue, and an application that passes
//! messages between them. They keep messages in their own file stores, and may run on both cores.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use crate::Size;
use crate::daemon::{Daemon, folder_on_disk, free_port};
use crate::fix::engines::{go_program, java_program};

/// An engine, and whether its store flushes each message.
struct Kind {
    name: &'static str,
    command: fn(Size) -> Result<Command, String>,
    flushes: bool,
}

const KINDS: [Kind; 3] = [
    Kind {
        name: "QuickFIX/J 2.3.2, its file store as it ships (no flush)",
        command: |size| java_program(size, "Bridge"),
        flushes: false,
    },
    Kind {
        name: "quickfixgo 0.9.10, its file store without flush",
        command: |size| go_program(size, "bridge"),
        flushes: false,
    },
    Kind {
        name: "quickfixgo 0.9.10, its file store as it ships (flushes each)",
        command: |size| go_program(size, "bridge"),
        flushes: true,
    },
];

/// A gate of somebody else's engine; dropping it ends the process.
pub(super) struct Bridge {
    pub(super) name: &'static str,
    pub(super) daemon: Daemon,
    pub(super) address: SocketAddr,
    /// Whether it waits for the disk.
    pub(super) flushes: bool,
}

impl Bridge {
    /// Starts them all; an error names the engine and why it is not there.
    pub(super) fn start_all(size: Size, venue: SocketAddr) -> Vec<Result<Bridge, String>> {
        let start = |kind: &Kind| {
            let made = (kind.command)(size).and_then(|command| Bridge::start(kind, command, venue));
            made.map_err(|error| format!("{}: NOT MEASURED: {error}", kind.name))
        };
        KINDS.iter().map(start).collect()
    }

    fn start(kind: &Kind, mut command: Command, venue: SocketAddr) -> Result<Bridge, String> {
        let folder = folder_on_disk()?;
        let log = folder.path().join("log");
        let stores = folder.path().join("stores");
        std::fs::create_dir(&stores).map_err(|e| e.to_string())?;
        let port = free_port()?;
        command.args([port.to_string(), venue.port().to_string()]).arg(stores);
        command.arg(if kind.flushes { "Y" } else { "N" });
        let mut daemon = Daemon::start(command, folder, port)?;
        daemon.wait_for(|_| is_ready(&log))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Ok(Bridge { name: kind.name, daemon, address, flushes: kind.flushes })
    }
}

fn is_ready(log: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(log).map_err(|e| e.to_string())?;
    let ready = text.lines().any(|line| line == "ready");
    ready.then_some(()).ok_or_else(|| "its venue is not logged on".to_owned())
}
