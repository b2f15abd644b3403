//! Running a worker's loop.

use crate::choose::{self, Backend, LISTENERS_MAX, RunError};
use crate::epoll;
use crate::listen::Listener;
use crate::options::Options;
use crate::service::Service;
use crate::uring;
use crate::wake::Handle;

/// Gives the handle back also when the service panics.
struct Claim<'a>(&'a Handle);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.unclaim();
    }
}

/// Runs one worker on the calling thread until [`Handle::stop`], and gives the service back.
///
/// The caller pins the thread ([`cores::pin`](crate::cores::pin)) before. [`Service::opened`] gets the number of the
/// listener's door ([`Listener::with_door`]), or its place where it has none.
///
/// # Errors
/// Wrong options, a refused io_uring that was asked for by name, or a kernel that fails.
pub fn run<S: Service>(
    listeners: Vec<Listener>,
    options: &Options,
    mut service: S,
    handle: &Handle,
) -> Result<S, RunError> {
    options.check()?;
    if listeners.len() > LISTENERS_MAX {
        return Err(RunError::TooManyListeners { found: listeners.len() });
    }
    if !handle.claim() {
        return Err(RunError::HandleInUse);
    }
    let _claim = Claim(handle);
    let (ring, refused) = choose::open(options)?;
    if let Some(refusal) = refused {
        tracing::warn!(reason = %refusal, "falling back to epoll");
    }
    let backend = if ring.is_some() { Backend::IoUring } else { Backend::Epoll };
    tracing::info!(%backend, doors = listeners.len(), "worker loop starts");
    match ring {
        Some(ring) => uring::run(ring, listeners, options, &mut service, handle)?,
        None => epoll::run(listeners, options, &mut service, handle)?,
    }
    Ok(service)
}
