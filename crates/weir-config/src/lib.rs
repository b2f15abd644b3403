//! What a node is told by `weir.toml` and the environment, and what follows from it before anything runs. `weir-budgets` reads the budgets
//! file.
//!
//! | part | what it is |
//! | --- | --- |
//! | [`config`] | `weir.toml` and the environment: every key with its default, its meaning and its range |
//! | [`doors`] | what the configuration comes to for the event loops and the doors |
//! | [`arrays`] | entries of which a file may have several, such as `[[fix.session]]` |
//! | [`environment`] | names in the environment that look like keys and are none |
//! | [`listen`] | where a door listens, or that it is off |
//! | [`paths`] | what relative paths are relative to |
//! | [`private`] | who may read what is in the data folder |
//!
//! Everything here is a function of files and of the environment: there is no thread, and no clock but the time that a caller gives.

#![forbid(unsafe_code)]

pub mod arrays;
pub mod config;
pub mod doors;
pub mod environment;
mod fix_arrays;
pub mod listen;
mod openrtb_arrays;
pub mod paths;
pub mod private;
pub(crate) mod values;
pub mod warnings;
