//! The token file in force, which can be replaced while doors read it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::principal::TokenFile;

/// The token file in force at a door: one for all who hold a clone.
#[derive(Clone, Debug)]
pub struct LiveTokens(Arc<Slot>);

#[derive(Debug)]
struct Slot {
    /// Grows with each file, so that a reader sees a change without the lock.
    number: AtomicU32,
    file: Mutex<Arc<TokenFile>>,
}

impl LiveTokens {
    /// A door's first file.
    #[must_use]
    pub fn new(file: TokenFile) -> LiveTokens {
        LiveTokens(Arc::new(Slot { number: AtomicU32::new(0), file: Mutex::new(Arc::new(file)) }))
    }

    /// Puts a file in force, whole. Readers with a [`TokenView`] have it from their next refresh.
    pub fn replace(&self, file: TokenFile) {
        let mut in_force = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        *in_force = Arc::new(file);
        // Under the lock: nobody sees a number without its file.
        self.0.number.fetch_add(1, Ordering::Release);
    }

    /// The file in force. Takes a lock for a moment: for doors off the hot path.
    #[must_use]
    pub fn file(&self) -> Arc<TokenFile> {
        self.read().1
    }

    /// A view for a reader that looks often.
    #[must_use]
    pub fn view(&self) -> TokenView {
        let (number, file) = self.read();
        TokenView { tokens: self.clone(), number, file }
    }

    fn read(&self) -> (u32, Arc<TokenFile>) {
        let file = self.0.file.lock().unwrap_or_else(PoisonError::into_inner);
        (self.0.number.load(Ordering::Relaxed), Arc::clone(&file))
    }
}

/// One reader's view of a token file: it stays the same until it is refreshed.
#[derive(Clone, Debug)]
pub struct TokenView {
    tokens: LiveTokens,
    number: u32,
    file: Arc<TokenFile>,
}

impl TokenView {
    /// Takes over the file in force. Where it has not changed this is one load of an atomic number.
    #[inline]
    pub fn refresh(&mut self) {
        if self.tokens.0.number.load(Ordering::Acquire) != self.number {
            (self.number, self.file) = self.tokens.read();
        }
    }

    /// Which file it is, counted from 0.
    #[inline]
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The file.
    #[must_use]
    pub fn file(&self) -> &TokenFile {
        &self.file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: &str = "ann read aaaaaaaaaaaaaaaa";
    const BOB: &str = "bob read bbbbbbbbbbbbbbbb";

    #[test]
    fn a_view_changes_only_when_it_is_refreshed() {
        let tokens = LiveTokens::new(TokenFile::parse(ANN).unwrap());
        let mut view = tokens.view();
        tokens.replace(TokenFile::parse(BOB).unwrap());
        assert!(view.file().find(b"aaaaaaaaaaaaaaaa").is_some(), "in the middle of a batch");
        assert!(tokens.file().find(b"aaaaaaaaaaaaaaaa").is_none());
        view.refresh();
        assert!(view.file().find(b"aaaaaaaaaaaaaaaa").is_none());
        assert_eq!((view.file().find(b"bbbbbbbbbbbbbbbb").is_some(), view.number()), (true, 1));
    }

    /// Each file names one principal twice: a view that mixes two files would find one of each.
    #[test]
    fn files_are_seen_whole_while_they_are_replaced() {
        let file = |turn: u32| {
            TokenFile::parse(&format!(
                "a{turn} read aaaaaaaaaaaaaaaa\nb{turn} read bbbbbbbbbbbbbbbb"
            ))
            .unwrap()
        };
        let tokens = LiveTokens::new(file(0));
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let mut view = tokens.view();
                        while view.number() < 500 {
                            view.refresh();
                            let found =
                                [&b"aaaaaaaaaaaaaaaa"[..], b"bbbbbbbbbbbbbbbb"].map(|token| {
                                    view.file().find(token).unwrap().name()[1..]
                                        .parse::<u32>()
                                        .unwrap()
                                });
                            assert_eq!(found, [view.number(); 2]);
                        }
                    })
                })
                .collect();
            (1..=500).for_each(|turn| tokens.replace(file(turn)));
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        });
    }
}
