//! Native ads (Native Ads API 1.2): what the seller asks for, and an answer made of what a creative has.
//!
//! The request is JSON inside a text of the bid request, so it is read by itself, and only for impressions that a native
//! campaign may bid for. The answer has the ids, kinds and sizes that were asked for, or there is none.

mod request;
mod set;

pub use request::{BadNative, NativeAsset, NativeKind, NativeReader, NativeRequest};
pub use set::{NativeImage, NativeMiss, NativeSet, NativeSpec, NativeTracker};
