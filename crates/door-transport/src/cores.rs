//! Which cores the workers get, and pinning threads to them.

use std::fmt;
use std::io;
use std::str::FromStr;

use thiserror::Error;

use crate::sys;

/// Core numbers above this are not understood.
const CORE_MAX: usize = 1023;

/// The cores for the workers, one worker a core: `"auto"`, or a list such as `"0,2-5"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CoreList {
    /// Picked from the cores this process may use; see [`CoreList::place`].
    #[default]
    Auto,
    /// Exactly these, in this order.
    Cores(Vec<usize>),
}

/// Why a list of cores cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CoresError {
    /// Not a list of cores.
    #[error(
        "cores: cannot read {part:?} in {text:?}: expected \"auto\" or a list such as \"0,2-5\""
    )]
    Unreadable {
        /// The whole text.
        text: String,
        /// The part that is wrong.
        part: String,
    },
    /// A core named twice; two workers on one core only hinder each other.
    #[error("cores: core {core} is listed twice: name each core once")]
    Twice {
        /// The core.
        core: usize,
    },
    /// A core this process may not use.
    #[error("cores: core {core} is not available: this process may use {allowed}")]
    NotAllowed {
        /// The core.
        core: usize,
        /// The allowed cores as a list.
        allowed: String,
    },
    /// The process may use no core at all, which no kernel allows.
    #[error("cores: the list of allowed cores is empty")]
    None,
}

/// Why a thread was not pinned.
#[derive(Debug, Error)]
#[error(
    "cannot pin this thread to core(s) {cores}: {source}; check the cores against the process's CPU set"
)]
pub struct PinError {
    /// The cores as a list.
    pub cores: String,
    /// What the kernel said.
    pub source: io::Error,
}

/// Where threads go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// One entry per worker: its core, or `None` to run unpinned.
    pub workers: Vec<Option<usize>>,
    /// The cores for every other thread of the process.
    pub rest: Vec<usize>,
}

impl FromStr for CoreList {
    type Err = CoresError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.trim() == "auto" {
            return Ok(Self::Auto);
        }
        let mut cores = Vec::new();
        for part in text.split(',') {
            let wrong = || CoresError::Unreadable { text: text.into(), part: part.trim().into() };
            let (first, last) = range(part.trim()).ok_or_else(wrong)?;
            for core in first..=last {
                if cores.contains(&core) {
                    return Err(CoresError::Twice { core });
                }
                cores.push(core);
            }
        }
        Ok(Self::Cores(cores))
    }
}

/// `"3"` or `"2-5"`.
fn range(part: &str) -> Option<(usize, usize)> {
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits { text.parse::<usize>().ok() } else { None }
    };
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last && last <= CORE_MAX).then_some((first, last))
}

impl fmt::Display for CoreList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cores(cores) => f.write_str(&text(cores)),
        }
    }
}

/// A list of cores with runs shortened: `0,2-5`.
fn text(cores: &[usize]) -> String {
    let runs = cores.chunk_by(|a, b| *b == a + 1);
    let parts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        one => one.iter().map(ToString::to_string).collect(),
    });
    parts.collect::<Vec<_>>().join(",")
}

impl CoreList {
    /// Gives the workers their cores out of `allowed` (see [`allowed`]).
    ///
    /// Auto leaves cores for the bank, the journal and the admin side: with 1 core there is one
    /// unpinned worker that shares it with the rest; with 2 to 4 all but the last core get a worker
    /// each; with 5 to 16 all but the last two; beyond that all but an eighth.
    ///
    /// # Errors
    /// A listed core is not in `allowed`.
    pub fn place(&self, allowed: &[usize]) -> Result<Placement, CoresError> {
        let cores = match self {
            Self::Cores(cores) => cores,
            Self::Auto => return place_auto(allowed),
        };
        if let Some(&core) = cores.iter().find(|core| !allowed.contains(core)) {
            return Err(CoresError::NotAllowed { core, allowed: text(allowed) });
        }
        let free = allowed.iter().copied().filter(|core| !cores.contains(core));
        let mut rest: Vec<usize> = free.collect();
        if rest.is_empty() {
            rest = allowed.to_vec();
        }
        Ok(Placement { workers: cores.iter().copied().map(Some).collect(), rest })
    }
}

fn place_auto(allowed: &[usize]) -> Result<Placement, CoresError> {
    let kept = match allowed.len() {
        0 => return Err(CoresError::None),
        1 => return Ok(Placement { workers: vec![None], rest: allowed.to_vec() }),
        2..=4 => 1,
        5..=16 => 2,
        many => many / 8,
    };
    let (workers, rest) = allowed.split_at(allowed.len() - kept);
    Ok(Placement { workers: workers.iter().copied().map(Some).collect(), rest: rest.to_vec() })
}

/// The cores this thread may use, ascending.
///
/// # Errors
/// The kernel does not tell.
pub fn allowed() -> io::Result<Vec<usize>> {
    sys::affinity()
}

/// Pins the calling thread to one core.
///
/// # Errors
/// The core does not exist or this process may not use it.
pub fn pin(core: usize) -> Result<(), PinError> {
    confine(&[core])
}

/// Lets the calling thread, and threads it starts later, run on `cores` only.
///
/// # Errors
/// None of the cores exists or may be used by this process.
pub fn confine(cores: &[usize]) -> Result<(), PinError> {
    sys::set_affinity(cores).map_err(|source| PinError { cores: text(cores), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_printed() {
        let cases = [("auto", CoreList::Auto), ("0,2-5", CoreList::Cores(vec![0, 2, 3, 4, 5]))];
        for (written, list) in cases {
            assert_eq!(written.parse(), Ok(list.clone()));
            assert_eq!(list.to_string(), written);
        }
        assert_eq!(" 7 , 3".parse(), Ok(CoreList::Cores(vec![7, 3])));
    }

    #[test]
    fn nonsense_is_named() {
        for written in
            ["", "a", "1-", "-1", "5-2", "1,,2", "+1", "1-2-3", "99999999999999999999", "0-5000"]
        {
            let error = written.parse::<CoreList>().unwrap_err();
            assert!(matches!(error, CoresError::Unreadable { .. }), "{written}: {error}");
        }
        assert_eq!("1,0-2".parse::<CoreList>(), Err(CoresError::Twice { core: 1 }));
    }

    fn auto(count: usize) -> Placement {
        CoreList::Auto.place(&(0..count).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn auto_is_sane_on_one_two_and_many_cores() {
        assert_eq!(auto(1), Placement { workers: vec![None], rest: vec![0] });
        assert_eq!(auto(2), Placement { workers: vec![Some(0)], rest: vec![1] });
        for (count, workers) in [(4, 3), (8, 6), (16, 14), (64, 56)] {
            let placed = auto(count);
            assert_eq!(placed.workers.len(), workers);
            assert_eq!(placed.rest.len(), count - workers);
        }
        assert_eq!(CoreList::Auto.place(&[]), Err(CoresError::None));
    }

    #[test]
    fn a_list_stays_within_the_allowed_cores() {
        let list = CoreList::Cores(vec![4, 2]);
        let placed = list.place(&[2, 3, 4]).unwrap();
        assert_eq!(placed, Placement { workers: vec![Some(4), Some(2)], rest: vec![3] });
        assert_eq!(list.place(&[2, 4]).unwrap().rest, [2, 4]);
        let error = list.place(&[0, 1, 2]).unwrap_err();
        assert!(
            error.to_string().contains("core 4") && error.to_string().contains("0-2"),
            "{error}"
        );
    }

    #[test]
    fn a_thread_is_pinned_where_it_may_run() {
        std::thread::spawn(|| {
            let core = allowed().unwrap()[0];
            pin(core).unwrap();
            assert_eq!(allowed().unwrap(), [core]);
            assert!(pin(CORE_MAX).is_err() && pin(usize::MAX).is_err());
        })
        .join()
        .unwrap();
    }
}
