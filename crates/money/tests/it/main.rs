//! Civil days of real time zones, and properties of all of them.

mod days;
