//! What lies beside the log, and base copies.

use std::path::{Path, PathBuf};

use super::*;
use crate::OpenError;
use crate::base::Packed;

const FILE: &str = "file.5a";

/// A file of three pieces.
fn bytes() -> Vec<u8> {
    (0..=250).cycle().take(2 * ENTRY_BYTES_MAX + 1).collect()
}

fn keep(log: &mut ClusterLog<Memory>) -> Result<(), ClusterError> {
    log.keep(FILE, &"about".into(), &mut &bytes()[..])
}

fn kept(log: &mut ClusterLog<Memory>) -> Result<Option<Vec<u8>>, LogFault> {
    let mut all = Vec::new();
    let found = log.kept(FILE, &mut |piece| {
        all.extend_from_slice(piece);
        Ok(())
    });
    found.map(|about| about.map(|_| all)).map_err(|error| error.fault)
}

#[test]
fn a_file_beside_the_log_is_there_whole_or_not_at_all() {
    let engine = memory();
    let mut log = open(&engine);
    assert_eq!(kept(&mut log), Ok(None), "no store");
    assert_eq!(log.all_kept("file").unwrap(), [""; 0]);
    engine.stream().pieces = Some(Default::default());
    // Cut after each piece, and then done again.
    for room in 0..4 {
        engine.stream().room = Some(room);
        let away = keep(&mut log).unwrap_err().fault;
        assert!(matches!(away, LogFault::Away(_)), "{room}: {away}");
        engine.stream().room = None;
        assert_eq!(kept(&mut log), Ok(None), "{room}");
    }
    keep(&mut log).unwrap();
    assert_eq!(kept(&mut log), Ok(Some(bytes())));
    assert_eq!(log.all_kept("file").unwrap(), [FILE]);
    let piece = |at: &str| format!("{FILE}.{at}");
    let damaged = |at, why| Err(LogFault::Piece { name: piece(at), why });
    assert_eq!(kept(&mut with_secret(&engine, 2)), damaged("head", OpenError::Secret));
    let mut other = ClusterLog::new(engine.clone(), name(), 2, key(1), "nats://n1:4222");
    assert_eq!(kept(&mut other), Err(LogFault::Incomplete(FILE.into())), "another node.id");
    type Change = fn(&mut std::collections::BTreeMap<String, Vec<u8>>);
    type Kept = Result<Option<Vec<u8>>, LogFault>;
    let rows: [(Change, Kept); 4] = [
        (
            |all| *all.get_mut("file.5a.1").unwrap() = all["file.5a.0"].clone(),
            damaged("1", OpenError::Damaged),
        ),
        (|all| all.get_mut("file.5a.2").unwrap()[30] ^= 1, damaged("2", OpenError::Damaged)),
        (|all| drop(all.remove("file.5a.2")), Err(LogFault::Incomplete(FILE.into()))),
        (|all| drop(all.remove("file.5a.head")), Ok(None)),
    ];
    let whole = engine.stream().pieces.clone();
    for (change, expected) in rows {
        engine.stream().pieces = whole.clone();
        change(engine.stream().pieces.as_mut().unwrap());
        assert_eq!(kept(&mut log), expected);
    }
    engine.stream().pieces = whole;
    log.keep_only("file", &|name| name != FILE).unwrap();
    assert!(engine.stream().pieces.as_ref().unwrap().is_empty());
}

/// Puts a copy of the place behind so many groups.
fn put(
    log: &mut ClusterLog<Memory>,
    all: &[Group],
    groups: usize,
    maker: u64,
) -> Result<u64, LogFault> {
    let text = format!("of {groups}").into_bytes();
    let files: Vec<Packed<'_>> = [("journal/snapshot", &text[..]), ("edits/log", b""), ("x", b"y")]
        .map(|(path, bytes)| (path.to_string(), bytes.len() as u64, Box::new(bytes) as Box<_>))
        .into();
    let at = all[groups - 1].after();
    log.put_base((at, 7), maker, files, &|| false).map_err(|error| error.fault)
}

/// The copy that a node begins from: its snapshot, and the place of it.
fn begins(log: &mut ClusterLog<Memory>, folder: &Path) -> Result<(String, Position), LogFault> {
    let base = log.unpack_base(folder).map_err(|error| error.fault)?;
    let text = |path: &str| std::fs::read_to_string(folder.join(path)).unwrap();
    assert_eq!((base.segment, text("edits/log"), text("x")), (7, String::new(), "y".into()));
    Ok((text("journal/snapshot"), base.position()))
}

struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_log_is_trimmed_behind_the_older_of_two_copies_and_a_node_begins_from_one() {
    let (engine, folder) =
        (memory(), Gone(std::env::temp_dir().join(format!("base-{}", std::process::id()))));
    let (mut log, all) = appended(&engine, 9);
    let (mut standby, mut other) = (open(&engine), open(&engine));
    assert_eq!(put(&mut standby, &all, 3, 1), Ok(0), "one is not enough");
    assert_eq!(put(&mut other, &all, 3, 2), Ok(0), "there is one as new");
    // Cut in half: not there, and its pieces go with the next one.
    engine.stream().room = Some(0);
    assert!(matches!(put(&mut other, &all, 4, 2), Err(LogFault::Away(_))));
    engine.stream().room = Some(1);
    put(&mut other, &all, 4, 2).unwrap_err();
    engine.stream().room = None;
    assert_eq!(engine.stream().trimmed, 0);
    assert_eq!(put(&mut standby, &all, 6, 1), Ok(3));
    let names = standby.all_kept("copy").unwrap();
    assert_eq!((engine.stream().trimmed, names.len()), (3, 2));
    assert_eq!(engine.stream().pieces.as_ref().unwrap().len(), 4, "a head and a piece each");
    // The bank goes on, nodes that have the place follow, and one that is behind it begins from a copy.
    let more = groups(all[8].after(), 1, 500);
    log.append(&more[0]).unwrap();
    assert_eq!(open(&engine).seek(all[2].after()).unwrap().entry, 3);
    let behind = open(&engine).seek(all[1].after()).unwrap_err().fault;
    assert!(matches!(behind, LogFault::Trimmed { first: 7, .. }), "{behind}");
    let mut empty = open(&engine);
    assert_eq!(begins(&mut empty, &folder.0), Ok(("of 6".into(), *all[5].after())));
    empty.seek(all[5].after()).unwrap();
    assert_eq!(read_on(&mut empty).unwrap().len(), 4);
    // Trimmed while one reads.
    let mut reader = open(&engine);
    reader.place = Place { position: *all[2].after(), entry: 3 };
    assert_eq!(put(&mut standby, &all, 9, 1), Ok(6));
    let cut = read_on(&mut reader).unwrap_err().fault;
    assert!(matches!(cut, LogFault::Trimmed { .. }), "{cut}");
    // What is wrong with the newest copy, and where a node begins then.
    let names = standby.all_kept("copy").unwrap();
    let (older, newest) = (format!("{}.0", names[0]), format!("{}.0", names[1]));
    let whole = engine.stream().pieces.clone();
    let damage = |name: &String| {
        engine.stream().pieces.as_mut().unwrap().get_mut(name).unwrap()[40] ^= 1;
    };
    damage(&newest);
    assert_eq!(begins(&mut empty, &folder.0).unwrap().0, "of 6");
    assert!(matches!(standby.trim(&|| false).unwrap_err().fault, LogFault::Piece { .. }));
    damage(&older);
    assert!(matches!(begins(&mut empty, &folder.0), Err(LogFault::Piece { .. })));
    engine.stream().pieces = whole;
    let secret = begins(&mut with_secret(&engine, 2), &folder.0);
    assert!(matches!(secret, Err(LogFault::Entry { why: OpenError::Secret, .. })), "{secret:?}");
    // Not trimmed, but lost: no copy leads to where the log begins.
    engine.stream().trimmed = 9;
    let lost = begins(&mut empty, &folder.0);
    assert_eq!(lost.map(|base| base.0), Ok("of 9".into()), "the newest still does");
    engine
        .stream()
        .entries
        .push(key(1).seal(11, groups(more[0].after(), 1, 600)[0].entry()).unwrap());
    engine.stream().trimmed = 10;
    assert!(matches!(begins(&mut empty, &folder.0), Err(LogFault::Trimmed { .. })));
    engine.stream().pieces = None;
    assert_eq!(begins(&mut empty, &folder.0), Err(LogFault::NoBase { first: 21 }));
}

/// The log was made anew, and copies of the one before are still there: newer than its own.
#[test]
fn a_copy_of_another_history_is_passed_over() {
    let (engine, folder) =
        (memory(), Gone(std::env::temp_dir().join(format!("base-fork-{}", std::process::id()))));
    let (mut log, all) = appended(&engine, 6);
    for groups in [2, 3, 5] {
        put(&mut log, &all, groups, 1).unwrap();
    }
    let names = log.all_kept("copy").unwrap();
    assert_eq!((names.len(), engine.stream().trimmed), (2, 3));
    engine.cut(4);
    let begin = |folder: &Path| begins(&mut open(&engine), folder).map(|base| base.0);
    assert_eq!(begin(&folder.0), Ok("of 3".into()), "the log ends before the newest one");
    let mut log = open(&engine);
    log.seek(all[3].after()).unwrap();
    let other = groups(all[3].after(), 3, 900);
    other.iter().for_each(|group| log.append(group).unwrap());
    assert_eq!(begin(&folder.0), Ok("of 3".into()), "it forks before the newest one");
    // Copies of this one are made all the same, and the log is trimmed behind them.
    assert_eq!(put(&mut log, &other, 1, 2), Ok(3));
    assert_eq!(put(&mut log, &other, 2, 2), Ok(5));
}

#[test]
fn a_copy_of_another_history_or_of_the_logs_very_end_trims_nothing() {
    let engine = memory();
    let (mut log, all) = appended(&engine, 4);
    assert_eq!(put(&mut log, &all, 4, 1), Ok(0));
    let other = groups(all[2].after(), 1, 900);
    let fork = log.put_base((other[0].after(), 7), 1, Vec::new(), &|| false).unwrap_err().fault;
    assert!(matches!(fork, LogFault::Fork { .. }), "{fork}");
    let later = groups(all[3].after(), 1, 700);
    let behind = log.put_base((later[0].after(), 7), 1, Vec::new(), &|| false).unwrap_err().fault;
    assert!(matches!(behind, LogFault::Behind { .. }), "newer than the log: {behind}");
    let _ = log.put_base((all[3].after(), 7), 1, Vec::new(), &|| true);
    log.append(&later[0]).unwrap();
    assert_eq!(put(&mut log, &later, 1, 1), Ok(4));
    assert_eq!(put(&mut log, &later, 1, 1), Ok(4), "as a kill before it was trimmed leaves it");
    // Two copies of the very end: its entry stays.
    log.keep_only("copy", &|_| false).unwrap();
    let name = log.all_kept("copy").unwrap();
    assert_eq!((name.len(), engine.stream().trimmed), (0, 4));
}
