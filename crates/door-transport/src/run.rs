//! Running a worker's loop.

use crate::choose::{Backend, LISTENERS_MAX, RunError, choose};
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
    let choice = choose(options)?;
    if let Some(refusal) = &choice.refused {
        tracing::warn!(reason = %refusal, "falling back to epoll");
    }
    tracing::info!(backend = %choice.backend, doors = listeners.len(), "worker loop starts");
    match choice.backend {
        Backend::IoUring => uring::run(listeners, options, &mut service, handle)?,
        Backend::Epoll => epoll::run(listeners, options, &mut service, handle)?,
    }
    Ok(service)
}
