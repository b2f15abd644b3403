//! The one way to the system.

pub(crate) mod op;

use std::io;

use op::Op;

/// Does an operation, or meets the fault that is planted there.
#[cfg_attr(not(any(test, feature = "planted")), inline(always))]
pub(crate) fn operate<T>(op: Op<'_>, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    #[cfg(any(test, feature = "planted"))]
    return crate::planted::operate(op, act);
    #[cfg(not(any(test, feature = "planted")))]
    {
        let _ = op;
        act()
    }
}
