//! The exchanges of the door: what is agreed with each. Other ones can take their place while the node runs; what is known of one that
//! is gone is its name, which bids that are out carry.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openrtb::{ExchangeSettings, NoBidForm, check_bid_path};
use weir_config::arrays::{Entry, OpenRtbExchange};
use weir_config::config::{Config, ConfigError, sections};

use super::translate::Terms;

/// Names of exchanges in one run, the first among them.
pub(crate) const EXCHANGES_MAX: usize = 64;
/// The exchange that the keys of `[openrtb]` are.
pub(crate) const DEFAULT: &str = "default";
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 32;
/// Bytes of a path.
const PATH_BYTES_MAX: usize = 256;

/// What is agreed with one exchange.
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) name: &'static str,
    /// Its place among the counters, the same for the whole run.
    pub(crate) slot: usize,
    /// What notes of its bids say: 0 of the first.
    pub(crate) mark: u32,
    pub(crate) terms: Terms,
    pub(crate) settings: ExchangeSettings,
    pub(crate) rate: Arc<Rate>,
}

/// How many requests are read in a second, by all workers.
#[derive(Debug)]
pub(crate) struct Rate {
    /// 0: all.
    max: u32,
    /// The latest second, and above 32 bits below it how many were read in it.
    state: AtomicU64,
}

impl Rate {
    fn new(max: u32) -> Rate {
        Rate { max, state: AtomicU64::new(0) }
    }

    /// Takes one, if there is one left. `steady_ms` is asked only where there is a limit.
    #[inline]
    pub(crate) fn take(&self, steady_ms: impl FnOnce() -> u64) -> bool {
        self.max == 0 || self.take_at(steady_ms() / 1_000)
    }

    fn take_at(&self, second: u64) -> bool {
        const COUNT: u64 = u32::MAX as u64;
        let second = second << 32;
        let next = |state: u64| {
            // Who is late by the clock counts in the second that others are in.
            let state = if state < second { second } else { state };
            (state & COUNT < u64::from(self.max)).then_some(state + 1)
        };
        self.state.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok()
    }
}

/// The exchanges that are in force.
#[derive(Clone, Debug)]
pub struct Exchanges {
    /// The first, and the others in the order of the file.
    pub(crate) all: Vec<Exchange>,
    /// By place among the counters, what notes say; also of those that are gone.
    marks: Vec<u32>,
}

impl Exchanges {
    /// The exchange of a bid; `None`: it is gone.
    pub(crate) fn of(&self, mark: u32) -> Option<&Exchange> {
        self.all.iter().find(|one| one.mark == mark)
    }

    /// The place of its counters; `None`: it was gone when the node started.
    pub(crate) fn slot(&self, mark: u32) -> Option<usize> {
        self.marks.iter().position(|one| *one == mark)
    }
}

/// Where the exchanges are replaced. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ExchangeDesk(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// Rises with each replacement.
    version: AtomicU64,
    in_force: Mutex<Arc<Exchanges>>,
    /// By place among the counters.
    names: Mutex<Vec<&'static str>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ExchangeDesk {
    /// Takes the exchanges of a configuration.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub(crate) fn new(config: &Config) -> Result<ExchangeDesk, String> {
        let desk = ExchangeDesk(Arc::new(Shared {
            version: AtomicU64::new(0),
            in_force: Mutex::new(Arc::new(Exchanges { all: Vec::new(), marks: Vec::new() })),
            names: Mutex::default(),
        }));
        let read = desk.read_again(config).map_err(|errors| errors.join("; "))?;
        desk.adopt(read);
        Ok(desk)
    }

    /// Reads the exchanges of another configuration, for [`adopt`](Self::adopt).
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn read_again(&self, config: &Config) -> Result<Exchanges, Vec<String>> {
        let wrong = judge(config);
        if !wrong.is_empty() {
            return Err(wrong.iter().map(ConfigError::to_string).collect());
        }
        let mut names = lock(&self.0.names);
        let o = &config.openrtb;
        let entries = &config.arrays.openrtb_exchange;
        let configured = std::iter::once(DEFAULT).chain(entries.iter().map(|one| &*one.name));
        let new: Vec<&str> = configured.filter(|name| !names.contains(name)).collect();
        if names.len() + new.len() > EXCHANGES_MAX {
            let most = EXCHANGES_MAX - 1;
            return Err(vec![format!(
                "openrtb.exchange: more than {most} names since the start, all of which have counters; restart the node"
            )]);
        }
        // Bounded: so many names in a run.
        names.extend(new.into_iter().map(|name| &*name.to_owned().leak()));
        let slot = |name: &str| names.iter().position(|one| *one == name).unwrap_or(0);
        let exchange =
            |name: &str, (path, seat, qps_max): (String, &str, u32), of: &sections::openrtb| {
                let (terms, settings) = (Terms::of(o, of, seat), settings(path, of));
                let (slot, mark) = (slot(name), mark(name));
                Exchange {
                    name: names[slot],
                    slot,
                    mark,
                    terms,
                    settings,
                    rate: Arc::new(Rate::new(qps_max)),
                }
            };
        let mut all = vec![exchange(DEFAULT, (first_path(o), "", 0), o)];
        all.extend(entries.iter().map(|entry| {
            let own = (path_of(entry, o), &*entry.seat, entry.qps_max);
            exchange(&entry.name, own, &entry.over(o))
        }));
        Ok(Exchanges { all, marks: names.iter().map(|name| mark(name)).collect() })
    }

    /// Puts exchanges in force, from each worker's next request on.
    pub fn adopt(&self, read: Exchanges) {
        *lock(&self.0.in_force) = Arc::new(read);
        self.0.version.fetch_add(1, Ordering::Release);
    }

    /// Which are in force: another number, other ones.
    #[inline]
    pub(crate) fn version(&self) -> u64 {
        self.0.version.load(Ordering::Acquire)
    }

    pub(crate) fn in_force(&self) -> Arc<Exchanges> {
        Arc::clone(&lock(&self.0.in_force))
    }

    /// All names since the start, by place among the counters.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        lock(&self.0.names).clone()
    }
}

/// What notes say for a name, in all runs the same: FNV-1a.
fn mark(name: &str) -> u32 {
    if name == DEFAULT {
        return 0;
    }
    let step = |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, step).max(1)
}

fn settings(path: String, o: &sections::openrtb) -> ExchangeSettings {
    let small = |ms: u64| u32::try_from(ms).unwrap_or(u32::MAX);
    ExchangeSettings {
        path,
        margin_ms: small(o.margin_ms),
        tmax_default_ms: small(o.tmax_ms),
        no_bid: if o.no_bid_body { NoBidForm::Reason } else { NoBidForm::Empty },
        default_currency: o.currency,
        loss_notices: o.loss_notices,
    }
}

fn with_token(path: &str, token: &str) -> String {
    if token.is_empty() { path.to_owned() } else { format!("{path}/{token}") }
}

/// The path of the first exchange's requests.
pub(crate) fn first_path(o: &sections::openrtb) -> String {
    with_token("/openrtb2/bid", &o.path_token)
}

fn path_of(entry: &OpenRtbExchange, o: &sections::openrtb) -> String {
    match &*entry.path {
        "" => with_token(&format!("/openrtb2/{}", entry.name), &o.path_token),
        path => with_token(path, &o.path_token),
    }
}

/// Returns what is wrong with the exchanges of a configuration, each with its line.
#[must_use]
pub fn judge(config: &Config) -> Vec<ConfigError> {
    let (o, mut errors) = (&config.openrtb, Vec::new());
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::from([first_path(o)]));
    let mut marks = BTreeSet::from([mark(DEFAULT)]);
    for entry in &config.arrays.openrtb_exchange {
        let mut wrong = |key: &str, found: &str, expected: String| {
            if !entry.places().is_wrong(key) {
                let text =
                    format!("openrtb.exchange.{key}: found \"{found}\", expected {expected}");
                errors.push(ConfigError { place: entry.places().of(key).to_owned(), text });
            }
        };
        let name = &*entry.name;
        let plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(plain) {
            wrong("name", name, format!("1 to {NAME_BYTES_MAX} of a to z, digits, - and _"));
        } else if name == DEFAULT {
            wrong("name", name, "another name: it is that of the keys of [openrtb]".into());
        } else if !names.insert(name) {
            wrong("name", name, "a name of its own: another exchange has it".into());
        } else if !marks.insert(mark(name)) {
            wrong("name", name, "another name: bids could not tell it from another one".into());
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
        let (written, path) = (&*entry.path, path_of(entry, o));
        if path.len() > PATH_BYTES_MAX
            || !path.bytes().all(plain)
            || written.ends_with('/')
            || check_bid_path(&path).is_err()
        {
            let form = "/ and up to 255 letters, digits and -_.~/, no / at the end, none of the door's own paths";
            wrong("path", written, form.into());
        } else if !name.is_empty() && !paths.insert(path.clone()) {
            let shown = if o.path_token.is_empty() { &path } else { written };
            wrong("path", shown, "a path of its own: another exchange has it".into());
        }
        let of = entry.over(o);
        let has_rate = of.rates.conversions().iter().any(|rate| rate.from == of.currency);
        if of.currency != o.currency && !has_rate {
            let expected = format!("{}, or one of the exchange's rates", o.currency.as_str());
            wrong("currency", of.currency.as_str(), expected);
        }
    }
    let count = config.arrays.openrtb_exchange.len();
    if let Some(first) = config.arrays.openrtb_exchange.get(EXCHANGES_MAX - 1) {
        let text =
            format!("openrtb.exchange: found {count}, expected at most {}", EXCHANGES_MAX - 1);
        errors.push(ConfigError { place: first.places().of("name").to_owned(), text });
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(names: impl Iterator<Item = String>) -> Config {
        let mut config = Config::default();
        let entry = |name| OpenRtbExchange { name, ..OpenRtbExchange::default() };
        config.arrays.openrtb_exchange = names.map(entry).collect();
        config
    }

    #[test]
    fn a_rate_is_of_each_second_whoever_asks_late() {
        let rate = Rate::new(2);
        let taken = [5, 5, 5, 6, 5, 5, 7].map(|second| rate.take_at(second));
        assert_eq!(taken, [true, true, false, true, true, false, true]);
        assert!((0..9).all(|_| Rate::new(0).take(|| panic!("no clock is needed"))));
    }

    #[test]
    fn a_name_keeps_its_counters_and_its_mark_for_a_run() {
        let desk = ExchangeDesk::new(&config(["a".into(), "b".into()].into_iter())).unwrap();
        let before = desk.in_force();
        let slots =
            |set: &Exchanges| set.all.iter().map(|one| (one.name, one.slot)).collect::<Vec<_>>();
        assert_eq!(slots(&before), [(DEFAULT, 0), ("a", 1), ("b", 2)]);
        desk.adopt(desk.read_again(&config(["c".into(), "b".into()].into_iter())).unwrap());
        let after = desk.in_force();
        assert_eq!(slots(&after), [(DEFAULT, 0), ("c", 3), ("b", 2)]);
        let gone = mark("a");
        assert!(after.of(gone).is_none() && before.of(gone).is_some() && desk.version() == 2);
        assert_eq!(
            [0, gone, mark("c"), mark("d")].map(|mark| after.slot(mark)),
            [Some(0), Some(1), Some(3), None]
        );
        let many = |count: usize| config((0..count).map(|n| format!("x{n}")));
        let told = desk.read_again(&many(EXCHANGES_MAX - 3)).unwrap_err();
        assert!(told[0].contains("more than 63 names since the start"), "{told:?}");
        assert_eq!(judge(&many(EXCHANGES_MAX - 1)).len(), 0);
        assert_eq!(judge(&many(EXCHANGES_MAX)).len(), 1);
    }
}
