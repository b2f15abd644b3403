//! What is asked of an engine that keeps the entries.

use std::ops::ControlFlow;

/// What came back for a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The engine's answer: JSON.
    Answer(Vec<u8>),
    /// No answer, and why: nobody knows what became of the request.
    Silence(String),
}

/// What is asked beside the entries. Pieces lie in a store of their own, the last one of each name; names have parts, `*` is any part and `>` all further ones.
#[derive(Debug)]
pub enum Ask<'a> {
    /// Make the store with these settings (JSON).
    Make(&'a str),
    /// Keep a piece.
    Put(&'a str, Vec<u8>),
    /// The piece of a name.
    Get(&'a str),
    /// The names that there are of these.
    Names(&'a str),
    /// Remove the pieces of these names.
    Remove(&'a str),
    /// Remove the log's entries before this number.
    Trim(u64),
    /// Remove the log.
    Drop,
}

/// An engine with one stream. Every call ends after a short time, with an answer or without.
pub trait Engine {
    /// Asks for an entry behind entry number `after`, with the number of its first record in a header.
    fn append(&mut self, after: u64, first_record: u64, sealed: Vec<u8>) -> Reply;

    /// Returns the entry with this number, as the stream's leader has it.
    fn entry(&mut self, number: u64) -> Reply;

    /// Returns the stream's settings and its state.
    fn info(&mut self) -> Reply;

    /// Makes a stream with these settings (JSON).
    fn create(&mut self, settings: &str) -> Reply;

    /// Hands the entries from a number on to `each`, with their numbers, until there are no more. What is read may be old.
    ///
    /// # Errors
    /// Why it ends before that.
    fn entries(
        &mut self,
        from: u64,
        each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), String>;

    /// Asks for something beside the entries.
    fn ask(&mut self, what: Ask<'_>) -> Reply;

    /// Returns the page `/varz` of each server's monitor, or why there is none, beside its address.
    fn monitors(&mut self) -> Vec<(String, Result<String, String>)>;
}

/// Which engine it is, is known when a node starts.
pub type AnyEngine = Box<dyn Engine + Send>;

impl Engine for AnyEngine {
    fn append(&mut self, after: u64, first_record: u64, sealed: Vec<u8>) -> Reply {
        (**self).append(after, first_record, sealed)
    }

    fn entry(&mut self, number: u64) -> Reply {
        (**self).entry(number)
    }

    fn info(&mut self) -> Reply {
        (**self).info()
    }

    fn create(&mut self, settings: &str) -> Reply {
        (**self).create(settings)
    }

    fn entries(
        &mut self,
        from: u64,
        each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), String> {
        (**self).entries(from, each)
    }

    fn ask(&mut self, what: Ask<'_>) -> Reply {
        (**self).ask(what)
    }

    fn monitors(&mut self) -> Vec<(String, Result<String, String>)> {
        (**self).monitors()
    }
}
