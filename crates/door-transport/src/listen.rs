//! Listening sockets: one per worker on the same address, so that the kernel spreads connections.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::options::Limits;
use crate::service::Peer;
use crate::sys;
use crate::tls::ServerTls;

/// Why an address cannot be listened on.
#[derive(Debug, Error)]
pub enum BindError {
    /// The kernel refused a TCP address.
    #[error(
        "cannot listen on {address}: {source}; choose a free address of this machine, or port 0"
    )]
    Tcp {
        /// The address as asked for.
        address: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// The kernel refused a socket path.
    #[error("cannot listen on {}: {source}; choose a path in a folder this user may write", path.display())]
    Unix {
        /// The path as asked for.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another process answers on this socket path.
    #[error("cannot listen on {}: another process does; stop it or choose another path", path.display())]
    UnixInUse {
        /// The path as asked for.
        path: PathBuf,
    },
}

impl BindError {
    /// Is the address taken? It may become free: a process that just ended lets go of its sockets a
    /// little later where the kernel still works on their operations.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        matches!(self, Self::Tcp { source, .. } if source.kind() == io::ErrorKind::AddrInUse)
    }
}

/// One worker's share of a listening address.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    address: Option<SocketAddr>,
    tls: Option<ServerTls>,
    door: Option<usize>,
    limits: Option<Limits>,
}

impl Listener {
    /// The same listener, whose connections speak TLS: the service sees plain bytes, and hears of a connection once its
    /// handshake is over.
    #[must_use]
    pub fn with_tls(mut self, tls: ServerTls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The same listener as that of the door with this number, by which the service is told of its connections. Without one it is the
    /// listener's place among those of its worker.
    #[must_use]
    pub fn with_door(mut self, door: usize) -> Self {
        self.door = Some(door);
        self
    }

    /// The same listener, whose connections have limits of their own instead of those of the worker's [`Options`](crate::Options).
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    fn new(fd: OwnedFd, address: Option<SocketAddr>) -> Self {
        Listener { fd, address, tls: None, door: None, limits: None }
    }

    pub(crate) fn limits(&self) -> Option<Limits> {
        self.limits
    }

    pub(crate) fn door(&self) -> Option<usize> {
        self.door
    }

    pub(crate) fn tls(&self) -> Option<&ServerTls> {
        self.tls.as_ref()
    }

    /// The TCP address with its real port; `None` for a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Makes listening sockets.
#[derive(Debug)]
pub struct Listeners;

impl Listeners {
    /// Listens on `address` with `workers` sockets (at least one). Port 0 picks one free port for
    /// all of them. With several, the kernel spreads new connections by a hash of the addresses.
    ///
    /// # Errors
    /// The address is in use, or not of this machine, or not allowed for this user.
    pub fn bind(address: SocketAddr, workers: usize) -> Result<Vec<Listener>, BindError> {
        let failed = |source| BindError::Tcp { address, source };
        let workers = workers.max(1);
        if workers > 1 && address.port() != 0 {
            // Shared sockets would join another node of this user silently; an exclusive one fails.
            sys::listen_tcp(address, false).map_err(failed)?;
        }
        let first = sys::listen_tcp(address, workers > 1).map_err(failed)?;
        let real = match sys::local_of(first.as_fd()).map_err(failed)? {
            Peer::Tcp(real) => real,
            Peer::Local => address,
        };
        let mut all = vec![Listener::new(first, Some(real))];
        for _ in 1..workers {
            let fd = sys::listen_tcp(real, true).map_err(failed)?;
            all.push(Listener::new(fd, Some(real)));
        }
        Ok(all)
    }

    /// Listens on a Unix stream socket at `path`: one socket that `workers` share, for gateways on
    /// the same machine (a round trip costs about a third of TCP's). A socket file that nobody
    /// answers on is replaced.
    ///
    /// # Errors
    /// The path is taken by a live process or by another kind of file, or not writable.
    pub fn bind_unix(path: &Path, workers: usize) -> Result<Vec<Listener>, BindError> {
        let failed = |source| BindError::Unix { path: path.to_owned(), source };
        if fs::symlink_metadata(path).is_ok_and(|entry| entry.file_type().is_socket()) {
            if UnixStream::connect(path).is_ok() {
                return Err(BindError::UnixInUse { path: path.to_owned() });
            }
            fs::remove_file(path).map_err(failed)?;
        }
        let first = OwnedFd::from(UnixListener::bind(path).map_err(failed)?);
        let mut all = Vec::new();
        for _ in 1..workers {
            all.push(Listener::new(first.try_clone().map_err(failed)?, None));
        }
        all.push(Listener::new(first, None));
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_share_one_free_port_that_nobody_else_joins() {
        let all = Listeners::bind("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let address = all[0].local_addr().unwrap();
        assert_ne!(address.port(), 0);
        assert!(all.iter().all(|one| one.local_addr() == Some(address)));
        for workers in [1, 2] {
            let error = Listeners::bind(address, workers).unwrap_err();
            assert!(error.to_string().contains(&address.to_string()), "{error}");
        }
        drop(all);
        // Somebody else on this machine may be given a port that is free again: another one, then.
        let again = |_| {
            let address =
                Listeners::bind("127.0.0.1:0".parse().unwrap(), 2).unwrap()[0].local_addr();
            Listeners::bind(address.unwrap(), 2).is_ok()
        };
        assert!(Listeners::bind(address, 2).is_ok() || (0..20).any(again));
    }

    #[test]
    fn a_left_over_socket_file_is_replaced_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("door");
        let all = Listeners::bind_unix(&path, 2).unwrap();
        assert_eq!(all.len(), 2);
        assert!(matches!(Listeners::bind_unix(&path, 1), Err(BindError::UnixInUse { .. })));
        drop(all);
        Listeners::bind_unix(&path, 1).unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "kept").unwrap();
        assert!(matches!(Listeners::bind_unix(&file, 1), Err(BindError::Unix { .. })));
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    }
}
