//! Names of the files in a journal's folder.

use crate::format::Kind;

/// A segment that is ready to be begun: zeros, sealed.
pub(crate) const PREPARED: &str = "prepared.tmp";
/// A segment that is being made ready.
pub(crate) const PREPARING: &str = "preparing.tmp";
/// A segment that the writer makes itself, where none was prepared.
pub(crate) const BEGINNING: &str = "beginning.tmp";
/// A snapshot that is being written.
pub(crate) const SNAPSHOT: &str = "snapshot.tmp";

/// Files that a crash may leave half made.
pub(crate) const TEMPORARY: [&str; 4] = [PREPARED, PREPARING, BEGINNING, SNAPSHOT];

/// `segment-0000000001.weir`.
pub(crate) fn segment(number: u64) -> String {
    format!("segment-{number:010}.weir")
}

/// `snapshot-00000000000000000001.weir`, by the sequence of the first record that is not in it.
pub(crate) fn snapshot(sequence: u64) -> String {
    format!("snapshot-{sequence:020}.weir")
}

/// What a file of the folder is: its kind and number, if it is one of ours. Numbers begin with 1, and each has one
/// name only.
pub(crate) fn parse(name: &str) -> Option<(Kind, u64)> {
    let stem = name.strip_suffix(".weir")?;
    let (kind, number) = match stem.strip_prefix("segment-") {
        Some(number) => (Kind::Segment, number),
        None => (Kind::Snapshot, stem.strip_prefix("snapshot-")?),
    };
    let number = number.parse().ok().filter(|number| *number > 0)?;
    let ours = match kind {
        Kind::Segment => segment(number),
        Kind::Snapshot => snapshot(number),
    };
    (ours == name).then_some((kind, number))
}

/// Numbers of the files of a kind, rising.
pub(crate) fn numbers(names: &[String], kind: Kind) -> Vec<u64> {
    let found = names.iter().filter_map(|name| parse(name));
    let mut numbers: Vec<u64> = found.filter(|(k, _)| *k == kind).map(|(_, n)| n).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_files_are() {
        assert_eq!(parse(&segment(7)), Some((Kind::Segment, 7)));
        assert_eq!(parse(&snapshot(123)), Some((Kind::Snapshot, 123)));
        for other in [
            PREPARED,
            "lock",
            "segment-x.weir",
            "segment-7.weir",
            "segment-+000000007.weir",
            "segment-0000000000.weir",
            "segment-0000000007.weir.bak",
        ] {
            assert_eq!(parse(other), None, "{other}");
        }
        assert_eq!(parse(&segment(u64::MAX)), Some((Kind::Segment, u64::MAX)));
        let names = [segment(10), snapshot(1), segment(9)];
        assert_eq!(numbers(&names, Kind::Segment), [9, 10]);
    }
}
