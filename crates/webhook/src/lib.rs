//! Sends signed webhooks, as [Standard Webhooks](https://www.standardwebhooks.com) 1.0.0 describes them.
//!
//! - [`Secret`] is what an endpoint and the sender share; [`signatures`] signs with all secrets of an endpoint, so that one
//!   can be replaced by the next without a gap.
//! - [`Endpoint`] is where messages go; [`Reach`] says which addresses that may be.
//! - [`Sender`] has a bounded queue and a few threads of its own. It repeats what failed, with growing pauses and jitter,
//!   and reports what became of every message that it took, once.
//!
//! The queue is memory: what waits when the process ends is lost. Whoever needs more writes a message down before it gives
//! it to [`Sender::send`], notes the [`Report`], and sends what has none again after a start, under the same id: receivers
//! tell repeats by it.

#![forbid(unsafe_code)]

mod endpoint;
mod post;
mod queue;
mod secret;
mod sender;

pub use endpoint::{Endpoint, EndpointError, Reach};
pub use post::Trust;
pub use queue::{Message, MessageError, Outcome, Report, SendError};
pub use secret::{Secret, SecretError, signatures};
pub use sender::{Options, Sender};
