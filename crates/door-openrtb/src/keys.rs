//! What bids are counted as in reports: exchange, place, creative and country in 64 bits, made of what is at hand.

use std::fmt::Debug;

use openrtb::Top;
use table::Secret;
use weir_budgets::campaigns::normal;

use super::exchanges::DEFAULT;

/// Keys that a worker remembers: a power of two.
const KNOWN: usize = 4_096;
/// How long it does: then it says again that they are in use.
const KNOWN_MS: u64 = 3_600_000;
/// All keys have it, so that none is a campaign's id.
const KEY_BIT: u64 = 1 << 63;
/// Bytes of a place and of a country that are kept.
const TEXT_BYTES_MAX: usize = 128;

/// Exchange, place, creative and country, each as a text; an unknown one is empty.
pub type Meaning<'a> = [&'a str; 4];

/// Who remembers what keys mean.
pub trait Meanings: Send + Sync + Debug {
    /// What makes keys: it stays the same over restarts, and no stranger knows it.
    fn secret(&self) -> u128;

    /// Notes what a key means, on its way to the disk. Returns what is to be counted instead: the key itself, or another one where
    /// there are too many.
    fn note(&self, key: u64, meaning: Meaning<'_>) -> u64;
}

/// A meaning of nothing, where nobody counts.
#[derive(Debug)]
pub struct NoMeanings;

impl Meanings for NoMeanings {
    fn secret(&self) -> u128 {
        0
    }

    fn note(&self, key: u64, _: Meaning<'_>) -> u64 {
        key
    }
}

/// A worker's keys.
#[derive(Debug)]
pub(crate) struct Keys {
    meanings: std::sync::Arc<dyn Meanings>,
    secret: Secret,
    /// By bits of a key: itself, and what is counted for it.
    known: Box<[(u64, u64)]>,
    /// Which hour they were noted in.
    hour: u64,
}

impl Keys {
    pub(crate) fn new(meanings: std::sync::Arc<dyn Meanings>) -> Keys {
        let secret = Secret::new(meanings.secret());
        Keys { meanings, secret, known: vec![(0, 0); KNOWN].into(), hour: 0 }
    }

    /// What a name of an exchange adds to keys: nothing that of the first, whose keys are as they were before there were several.
    pub(crate) fn of_exchange(&self, name: &str) -> u64 {
        if name == DEFAULT { 0 } else { self.secret.hash(name.as_bytes()) }
    }

    /// The key of a bid for an exchange, with what that adds.
    pub(crate) fn key(
        &mut self,
        (exchange, added): (&str, u64),
        top: &Top<'_>,
        creative: &str,
        now_ms: u64,
    ) -> u64 {
        let place = top.place.bundle.or(top.place.domain).unwrap_or("");
        let country = top.device.country.unwrap_or("");
        let hash = |text: &str| self.secret.hash(text.as_bytes());
        let all = hash(place) ^ hash(creative).rotate_left(21) ^ hash(country).rotate_left(42);
        // All zeros stand for the keys beyond what is kept.
        let key = table::spread(all ^ added.rotate_left(11)).max(1) | KEY_BIT;
        let hour = now_ms / KNOWN_MS;
        if hour != self.hour {
            self.hour = hour;
            self.known.fill((0, 0));
        }
        let at = usize::try_from(key & (KNOWN as u64 - 1)).unwrap_or(0);
        if self.known[at].0 != key {
            self.known[at] = (key, self.meet(key, exchange, top, creative));
        }
        self.known[at].1
    }

    #[cold]
    fn meet(&self, key: u64, exchange: &str, top: &Top<'_>, creative: &str) -> u64 {
        let place = match (top.place.bundle, top.place.domain) {
            (Some(bundle), _) => bundle.into(),
            (None, Some(domain)) => normal::domain(domain),
            (None, None) => "".into(),
        };
        let country = normal::country(top.device.country.unwrap_or(""));
        self.meanings.note(key, [exchange, cut(&place), creative, cut(&country)])
    }
}

/// The beginning of a text.
fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(TEXT_BYTES_MAX)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    /// Remembers two.
    #[derive(Debug, Default)]
    struct Two(Mutex<Vec<(u64, [String; 4])>>);

    impl Meanings for Two {
        fn secret(&self) -> u128 {
            7
        }

        fn note(&self, key: u64, meaning: Meaning<'_>) -> u64 {
            let mut all = self.0.lock().unwrap();
            if all.len() == 2 {
                return KEY_BIT;
            }
            all.push((key, meaning.map(str::to_owned)));
            key
        }
    }

    #[test]
    fn a_key_is_noted_once_an_hour_with_what_it_means() {
        let two = Arc::new(Two::default());
        let mut keys = Keys::new(two.clone());
        let top = |domain, bundle, country| {
            let mut top = Top::default();
            (top.place.domain, top.place.bundle, top.device.country) = (domain, bundle, country);
            top
        };
        let site = top(Some("WWW.News.Example"), None, Some("deu"));
        let long = "x".repeat(127) + "\u{e9}y";
        let app = top(Some("store.example"), Some(long.as_str()), None);
        let mut key =
            |top: &Top<'_>, creative: &str, now_ms| keys.key((DEFAULT, 0), top, creative, now_ms);
        let first = key(&site, "a", 1);
        assert_eq!([key(&site, "a", 2), key(&site, "a", KNOWN_MS - 1)], [first; 2]);
        let second = key(&app, "a", 3);
        assert_eq!(key(&site, "b", 4), KEY_BIT, "there is no room");
        let noted = two.0.lock().unwrap().clone();
        let texts = |texts: [&str; 4]| texts.map(str::to_owned);
        let place = normal::domain("WWW.News.Example").into_owned();
        assert_eq!(
            noted,
            [
                (first, texts(["default", &place, "a", &normal::country("deu")])),
                (second, texts(["default", &long[..127], "a", ""])),
            ]
        );
        assert!(first > KEY_BIT && second > KEY_BIT && first != second);
        two.0.lock().unwrap().clear();
        assert_eq!(key(&site, "a", KNOWN_MS - 1), first);
        assert!(two.0.lock().unwrap().is_empty(), "it is known");
        assert_eq!(key(&site, "a", KNOWN_MS), first, "the same in the next hour");
        assert_eq!(two.0.lock().unwrap().len(), 1);
        let added = keys.of_exchange("other");
        assert!(added != 0 && keys.of_exchange(DEFAULT) == 0);
        assert_ne!(keys.key(("other", added), &site, "a", 5), first, "another exchange");
    }
}
