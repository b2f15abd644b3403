//! The client against doors that are slow, huge, broken, hostile, or not what they should be.

mod doors;
mod plain;
mod tls;
