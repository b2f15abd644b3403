//! Which backend carries a worker, and what can go wrong when one starts.

use std::fmt;
use std::io;

use thiserror::Error;

use crate::options::{Options, OptionsError, Transport};
use crate::uring;

/// The backend in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    /// io_uring.
    IoUring,
    /// epoll.
    Epoll,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IoUring => "io_uring",
            Self::Epoll => "epoll",
        })
    }
}

/// Why the kernel does not give this process an io_uring.
#[derive(Debug, Error)]
#[error("io_uring is refused: {call}: {source} ({})", explain(source))]
pub struct Refusal {
    /// The step that failed.
    pub call: &'static str,
    /// What the kernel said.
    pub source: io::Error,
}

/// What an error of io_uring's set-up usually means, and what to do.
fn explain(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::ENOSYS) => "this kernel has no io_uring: use transport = \"epoll\"",
        Some(libc::EPERM | libc::EACCES) => {
            "a seccomp profile (containers) or kernel.io_uring_disabled forbids it: allow \
             io_uring_setup, io_uring_enter and io_uring_register, or use transport = \"epoll\""
        }
        Some(libc::ENOMEM) => {
            "not enough memory, or the locked-memory limit is too low: raise it (ulimit -l) or \
             lower receive_buffers"
        }
        Some(libc::EINVAL) => {
            "this kernel is too old: Linux 6.1 is needed, or 6.0 without deferred completion"
        }
        Some(libc::EMFILE | libc::ENFILE) => "out of descriptors: raise ulimit -n",
        _ => "use transport = \"epoll\" if it stays",
    }
}

/// The backend to use, and why it is not the better one.
#[derive(Debug)]
pub struct Choice {
    /// What will carry the loop.
    pub backend: Backend,
    /// Why auto fell back to epoll.
    pub refused: Option<Refusal>,
}

/// Decides on a backend by setting up, and dropping, an io_uring as the worker would.
///
/// A worker decides anew when it begins: what one got the next may be refused, where memory is short.
///
/// # Errors
/// io_uring was asked for by name and the kernel refuses it.
pub fn choose(options: &Options) -> Result<Choice, Refusal> {
    let (ring, refused) = open(options)?;
    let backend = if ring.is_some() { Backend::IoUring } else { Backend::Epoll };
    Ok(Choice { backend, refused })
}

/// The ring to use, none for epoll, and why auto fell back to epoll.
///
/// # Errors
/// io_uring was asked for by name and the kernel refuses it.
pub(crate) fn open(options: &Options) -> Result<(Option<uring::Ring>, Option<Refusal>), Refusal> {
    if options.transport == Transport::Epoll {
        return Ok((None, None));
    }
    match uring::open(options) {
        Ok(ring) => Ok((Some(ring), None)),
        Err(refusal) if options.transport == Transport::Auto => Ok((None, Some(refusal))),
        Err(refusal) => Err(refusal),
    }
}

/// Why a loop did not run, or ended early.
#[derive(Debug, Error)]
pub enum RunError {
    /// An option is outside its range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// io_uring was asked for by name and is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another loop runs with this handle; each worker needs its own.
    #[error("this handle already runs a loop: make one handle a worker")]
    HandleInUse,
    /// More listeners than a worker can tell apart.
    #[error("{found} listeners for one worker: expected at most {LISTENERS_MAX}")]
    TooManyListeners {
        /// How many there were.
        found: usize,
    },
    /// A kernel call failed that does not fail on a healthy machine.
    #[error("{what}: {source}")]
    Kernel {
        /// The call.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
}

/// Listeners of one worker.
pub(crate) const LISTENERS_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_refusal_says_what_to_do() {
        let cases = [
            (libc::ENOSYS, "no io_uring"),
            (libc::EPERM, "seccomp"),
            (libc::ENOMEM, "ulimit -l"),
            (libc::EINVAL, "too old"),
            (libc::EMFILE, "ulimit -n"),
            (libc::EIO, "transport = \"epoll\""),
        ];
        for (errno, words) in cases {
            let source = io::Error::from_raw_os_error(errno);
            let text = Refusal { call: "io_uring_setup", source }.to_string();
            assert!(text.contains(words) && text.contains("io_uring_setup"), "{text}");
        }
    }
}
