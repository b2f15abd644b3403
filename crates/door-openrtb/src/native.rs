//! Native bids: made for each request of what a creative has.

use std::cell::RefCell;

use openrtb::{Native, NativeReader, NativeSet};

/// Where a worker reads native requests and writes what answers them.
#[derive(Default)]
pub(super) struct NativeRoom(RefCell<(NativeReader, Vec<u8>)>);

impl NativeRoom {
    /// Hands on the native ad that a request asks for, as JSON. `None` where the request cannot be read, or the creative
    /// has nothing for an asset that it requires.
    pub(super) fn make<R>(
        &self,
        native: &Native<'_>,
        set: &NativeSet,
        then: impl FnOnce(&str) -> R,
    ) -> Option<R> {
        let (reader, out) = &mut *self.0.borrow_mut();
        out.clear();
        reader.read(native, |request| set.write(request, out)).ok()?.ok()?;
        Some(then(std::str::from_utf8(out).ok()?))
    }
}
