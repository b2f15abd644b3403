//! What a budgets file changed, for the audit log: who lowered this limit, and when?
//!
//! The last set in force is kept in `set` beside the log of edits, so that a start can tell what a file changed while no node ran, and
//! names are known where a file is refused. It is one checksum of eight hexadecimal digits, a head `{"format":1,"record":12}`, and
//! for each budget that the file names a line `17 {"id":17,"limit":"10"}`: its id and what its own line says, without a campaign's
//! fields. What the API made or changed is in the log.
//!
//! A set is written to `set.new` first; the record of its changes, whose number it has, goes to the log, and then it gets its name. A
//! crash in between leaves a `set.new` whose record is in the log or is not: the first is taken, the second is not, and its changes are
//! found again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use watch::node::{EDITABLE, Fields, FileChange, LARGE_TIMES, LargeChange, large_change};
use weir_budgets::budgets::Line;
use weir_config::private;

use super::entry::{Outcome, Row};
use super::overlay::{self, Overlay, Overlays, same, saying, spoken};

/// Rows of a record: the first budgets that a file changed.
pub(super) const ROWS_MAX: usize = 100;
/// Version of the format of `set`.
const FORMAT: u32 = 1;
/// Digits of the checksum.
const SUM_LEN: usize = 8;

/// The first line of a kept set.
#[derive(Debug, Serialize, Deserialize)]
struct Head {
    format: u32,
    /// The record of its changes, or the one that was next where it changed nothing.
    record: u64,
}

/// A set that was kept: by budget, what its line of the file said.
#[derive(Debug)]
pub(super) struct LastSet(BTreeMap<u64, Box<str>>);

impl LastSet {
    /// Reads the set that is kept in a folder; `is_recorded` tells of a record's number whether the log has it. One that is damaged is
    /// as good as none.
    pub(super) fn read(folder: &Path, is_recorded: impl Fn(u64) -> bool) -> Option<LastSet> {
        let (path, new) = (folder.join("set"), folder.join("set.new"));
        if let Ok((head, _)) = read(&new)
            && is_recorded(head.record)
            && let Err(error) = fs::rename(&new, &path)
        {
            tracing::warn!(%error, file = %new.display(), "the newest set of budgets cannot be given its name");
        }
        match read(&path) {
            Ok((_, lines)) => Some(LastSet(lines)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(
                    %error, file = %path.display(),
                    "the last set of budgets is not known: what the budgets file changed since is not recorded"
                );
                None
            }
        }
    }

    /// What the lines said, in the order of ids.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u64, &str)> {
        self.0.iter().map(|(id, said)| (*id, &**said))
    }
}

fn read(path: &Path) -> io::Result<(Head, BTreeMap<u64, Box<str>>)> {
    parse(&fs::read(path)?).ok_or_else(|| {
        let text = "found damage, expected a set of budgets with its checksum";
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

fn parse(bytes: &[u8]) -> Option<(Head, BTreeMap<u64, Box<str>>)> {
    let (sum, text) = bytes.split_at_checked(SUM_LEN)?;
    let sum = u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?;
    let text =
        std::str::from_utf8(text).ok().filter(|text| crc32c::crc32c(text.as_bytes()) == sum)?;
    let mut lines = text.lines();
    let head: Head = serde_json::from_str(lines.next()?).ok()?;
    let line = |line: &str| {
        let (id, said) = line.split_once(' ')?;
        Some((id.parse().ok()?, said.into()))
    };
    let lines = lines.map(line).collect::<Option<_>>()?;
    (head.format == FORMAT).then_some((head, lines))
}

/// A set that is written, and has not its name yet.
pub(super) struct UnnamedSet(PathBuf);

impl UnnamedSet {
    /// Replaces the set before it.
    pub(super) fn put_in_place(self) -> io::Result<()> {
        fs::rename(self.0.join("set.new"), self.0.join("set"))?;
        File::open(self.0)?.sync_all()
    }
}

/// What is known of a budget: what its line says, and what lies on top.
#[derive(Clone, Copy, Debug)]
struct Words<'a> {
    said: &'a str,
    overlay: Option<&'a Overlay>,
}

impl Words<'_> {
    fn fields(&self, id: u64) -> Fields {
        match self.overlay {
            Some(Overlay::Created(fields)) => overlay::effective(id, fields, None),
            overlay => overlay::effective(
                id,
                &serde_json::from_str(self.said).unwrap_or_default(),
                overlay,
            ),
        }
    }

    fn is_of_file(&self) -> bool {
        !matches!(self.overlay, Some(Overlay::Created(_)))
    }
}

/// A set that was in force, with what the API changed on top.
pub(super) struct FileSet<'a>(BTreeMap<u64, Words<'a>>);

impl<'a> FileSet<'a> {
    /// Of what lines say, by id, and of what the API made.
    pub(super) fn with(
        said: impl Iterator<Item = (u64, &'a str)>,
        overlays: &'a Overlays,
    ) -> FileSet<'a> {
        let on_top = |id: u64| overlays.get(&id).filter(|one| !matches!(one, Overlay::Away { .. }));
        let created = overlays.iter().filter(|(_, one)| matches!(one, Overlay::Created(_)));
        let created = created.map(|(id, one)| (*id, Words { said: "{}", overlay: Some(one) }));
        let said = said.map(|(id, said)| (id, Words { said, overlay: on_top(id) }));
        FileSet(said.chain(created).collect())
    }

    /// The budgets' names.
    pub(super) fn names(&self) -> impl Iterator<Item = (u64, String)> {
        self.0.iter().map(|(id, words)| {
            let name = saying(&words.fields(*id), "name").as_str().unwrap_or_default().to_string();
            (*id, name)
        })
    }
}

/// A set that is in force from now on.
pub(super) struct NewSet<'a> {
    /// Each line with what it says as text, in the order of ids.
    lines: BTreeMap<u64, (&'a Line, String)>,
    overlays: &'a Overlays,
}

impl<'a> NewSet<'a> {
    /// Of a file's lines, with what the API changed on top.
    pub(super) fn of(lines: &'a [Line], overlays: &'a Overlays) -> NewSet<'a> {
        let text = |line: &Line| serde_json::to_string(&line.said).expect("a map with text keys");
        let lines = lines.iter().map(|line| (line.budget.spec.id, (line, text(line)))).collect();
        NewSet { lines, overlays }
    }

    fn words(&self, id: u64) -> Option<Words<'_>> {
        self.lines.get(&id).map(|(_, said)| Words { said, overlay: self.overlays.get(&id) })
    }

    /// How many budgets are other than before, and the first of them: those that changed, those that ended, those that were added.
    pub(super) fn since(&self, before: &FileSet<'_>) -> (FileChange, Vec<Row>) {
        let (mut rows, mut ended, mut added) = (Vec::new(), Vec::new(), Vec::new());
        let mut change = FileChange::default();
        for (id, (line, _)) in &self.lines {
            let now = self.words(*id).expect("its line is there");
            let Some(was) = before.0.get(id) else {
                change.added += 1;
                keep(&mut added, || row(*id, Fields::new(), shown(&now.fields(*id))));
                continue;
            };
            if now.said == was.said && now.overlay == was.overlay {
                continue;
            }
            let (was, now) = differing(line, &was.fields(*id), &now.fields(*id));
            if !now.is_empty() {
                change.changed += 1;
                warn_of_large(line, &was, &now);
                keep(&mut rows, || row(*id, was, now));
            }
        }
        for (id, was) in before.0.iter().filter(|(id, _)| !self.lines.contains_key(id)) {
            change.ended += 1;
            keep(&mut ended, || row(*id, shown(&was.fields(*id)), Fields::new()));
        }
        rows.extend(ended);
        rows.extend(added);
        rows.truncate(ROWS_MAX);
        (change, rows)
    }

    /// Does the file say word by word what it said before?
    pub(super) fn is_said_by(&self, before: &FileSet<'_>) -> bool {
        let was = before.0.iter().filter(|(_, words)| words.is_of_file());
        self.of_file().eq(was.map(|(id, words)| (*id, words.said)))
    }

    /// What the file says, without what the API made.
    fn of_file(&self) -> impl Iterator<Item = (u64, &str)> {
        let words = self.lines.keys().filter_map(|id| Some((*id, self.words(*id)?)));
        words.filter(|(_, words)| words.is_of_file()).map(|(id, words)| (id, words.said))
    }

    /// Writes what the file says beside the log, with the number of the record of its changes, and waits for the disk.
    pub(super) fn write_new(&self, folder: &Path, record: u64) -> io::Result<UnnamedSet> {
        let head = serde_json::to_string(&Head { format: FORMAT, record })?;
        let mut text = vec![b'0'; SUM_LEN];
        writeln!(text, "{head}")?;
        self.of_file().try_for_each(|(id, said)| writeln!(text, "{id} {said}"))?;
        let sum = format!("{:08x}", crc32c::crc32c(&text[SUM_LEN..]));
        text[..SUM_LEN].copy_from_slice(sum.as_bytes());
        let mut file = private::create(&folder.join("set.new"))?;
        file.write_all(&text)?;
        file.sync_all()?;
        Ok(UnnamedSet(folder.into()))
    }
}

/// A file is not refused for it: who wrote it is told, and the audit log marks it.
fn warn_of_large(line: &Line, was: &Fields, now: &Fields) {
    let spec = &line.budget.spec;
    let Some(large) = large_change(spec.unit, was, now) else { return };
    let field = large.field();
    let (before, after) = (saying(was, field), saying(now, field));
    match large {
        LargeChange::Grows(_) => tracing::warn!(
            budget = spec.id, line = line.budget.line, field, %before, %after,
            "the budgets file makes a limit more than {LARGE_TIMES} times as large; is it in the budget's unit?"
        ),
        LargeChange::Goes(_, periods) => tracing::warn!(
            budget = spec.id, line = line.budget.line, field, %before, %after,
            "the budgets file takes away the limit per {}; is it meant?", periods.join(", per ")
        ),
    }
}

fn keep(rows: &mut Vec<Row>, row: impl FnOnce() -> Row) {
    if rows.len() < ROWS_MAX {
        rows.push(row());
    }
}

fn row(id: u64, before: Fields, after: Fields) -> Row {
    Row { id, outcome: Outcome::Changed, before, after, said: Fields::new(), revision: 0 }
}

/// The fields that people change.
fn shown(fields: &Fields) -> Fields {
    let editable = fields.iter().filter(|(field, _)| EDITABLE.contains(&field.as_str()));
    editable.map(|(field, value)| (field.clone(), value.clone())).collect()
}

/// The fields that people change and that are another now: before, and after.
fn differing(line: &Line, was: &Fields, now: &Fields) -> (Fields, Fields) {
    let (id, unit) = (line.budget.spec.id, line.budget.spec.unit);
    let (mut before, mut after) = (Fields::new(), Fields::new());
    for field in EDITABLE {
        let of = |fields: &Fields| -> Value { spoken(id, field, saying(fields, field)) };
        let (old, new) = (of(was), of(now));
        if !same(id, unit, field, &old, &new) {
            before.insert(field.into(), old);
            after.insert(field.into(), new);
        }
    }
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Line> {
        weir_budgets::budgets::file_of("b.jsonl".as_ref(), text.as_bytes()).unwrap().lines
    }

    fn write(folder: &Path, text: &str, record: u64) -> UnnamedSet {
        let (lines, overlays) = (lines(text), Overlays::new());
        NewSet::of(&lines, &overlays).write_new(folder, record).unwrap()
    }

    fn kept(folder: &Path, is_recorded: bool) -> Option<usize> {
        LastSet::read(folder, |record| is_recorded && record == 7).map(|set| set.lines().count())
    }

    const ONE: &str = "{\"id\":1,\"limit\":\"10\"}\n";
    const TWO: &str = "{\"id\":1,\"limit\":\"10\"}\n{\"id\":2,\"limit\":\"10\"}\n";

    #[test]
    fn a_set_without_its_name_counts_where_its_record_is_in_the_log() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(kept(folder.path(), true), None);
        write(folder.path(), ONE, 6).put_in_place().unwrap();
        assert_eq!(kept(folder.path(), true), Some(1));
        write(folder.path(), TWO, 7);
        assert_eq!(kept(folder.path(), false), Some(1));
        assert_eq!(kept(folder.path(), true), Some(2));
        assert_eq!(kept(folder.path(), false), Some(2), "it has its name now");
    }

    #[test]
    fn a_set_with_one_other_bit_or_cut_anywhere_is_none() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), TWO, 7).put_in_place().unwrap();
        let whole = fs::read(folder.path().join("set")).unwrap();
        for at in 0..whole.len() {
            let mut strange = whole.clone();
            strange[at] ^= 1;
            assert!(parse(&strange).is_none(), "byte {at}");
            assert!(parse(&whole[..at]).is_none(), "cut to {at}");
        }
        assert!(parse(&whole).is_some());
    }
}
