//! The ledger of lines: `proof/tidy/size.jsonl` says how large each crate may be.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::circles::circles;
use crate::tree::{Tree, files, read_text};

/// The file, from the root.
pub const SIZES: &str = "proof/tidy/size.jsonl";
/// The row of all Rust files that are in no room.
const ALL: &str = "all but the rooms";
/// A row for the first time, and a raised cap, end at the next multiple of this many lines.
const STEP: usize = 100;
/// A raised cap has a reason of at least so many letters.
const REASON_LETTERS_MIN: usize = 20;
/// What a row to paste has in place of the reason that it needs.
const WHY: &str = "WHY?";

/// Figures by name: `src`, `tests` and `circles` of a crate; `lines` of a room, and of all Rust files that are in none.
type Figures = BTreeMap<String, usize>;

/// A row of the ledger.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Row {
    /// The folder of the crate, or of a room: a crate or folder for something new, which has one sum for all that it brings.
    #[serde(rename = "crate")]
    folder: String,
    /// The room's name: where the reason of a raised cap begins with it, the raise counts as lines of the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    room: Option<String>,
    caps: Figures,
    /// The caps of its first row. They stay.
    began: Figures,
    reason: String,
}

impl Row {
    /// How many lines above its first caps it may have.
    fn raised(&self) -> usize {
        let lines = self.caps.iter().filter(|(what, _)| *what != "circles");
        lines.map(|(what, cap)| cap.saturating_sub(self.began[what])).sum()
    }

    fn paste(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers")
    }
}

/// Compares the tree with the text of its ledger. Each breach says what to do, with the row to paste where there is one.
pub fn sizes(tree: &Tree, ledger: &str) -> Vec<String> {
    let rows = match read(ledger) {
        Ok(rows) => rows,
        Err(breach) => return vec![breach],
    };
    let counts = count(tree, &rows);
    let mut breaches: Vec<String> = rows.iter().flat_map(|row| judge(tree, row, &counts)).collect();
    for (folder, counted) in &counts {
        if !rows.iter().any(|row| row.folder == *folder) {
            let began: Figures =
                counted.iter().map(|(what, n)| (what.clone(), cap(what, *n))).collect();
            let (folder, caps, reason) = (folder.clone(), began.clone(), String::new());
            let row = Row { folder, room: None, caps, began, reason };
            breaches.push(format!("{SIZES}: add the missing row\n{}", row.paste()));
        }
    }
    breaches
}

fn read(ledger: &str) -> Result<Vec<Row>, String> {
    let row = |(index, line): (usize, &str)| {
        let place = format!("{SIZES}:{}", index + 1);
        let row: Row = serde_json::from_str(line).map_err(|error| {
            format!("{place}: {error}; expected {{\"crate\":..,\"caps\":{{..}},\"began\":{{..}},\"reason\":..}}")
        })?;
        let (of_crate, of_room) = (["circles", "src", "tests"], ["lines"]);
        let is_one = row.room.is_some() || row.folder == ALL;
        let named = if is_one { &of_room[..] } else { &of_crate[..] };
        let whole = [&row.caps, &row.began].iter().all(|figures| figures.keys().eq(named));
        whole.then_some(row).ok_or(format!("{place}: expected {named:?} in `caps` and in `began`"))
    };
    ledger.lines().enumerate().map(row).collect()
}

/// What there is, by the folder of its row.
fn count(tree: &Tree, rows: &[Row]) -> BTreeMap<String, Figures> {
    let is_room = |folder: &str| rows.iter().any(|row| row.room.is_some() && row.folder == folder);
    let (mut counts, mut all) = (BTreeMap::<String, Figures>::new(), 0);
    for source in tree.sources.iter().filter(|source| !is_room(&source.crate_folder)) {
        let lines = source.text.lines().count();
        let of_crate = counts.entry(source.crate_folder.clone()).or_insert_with(|| {
            let circles = circles(tree, &source.crate_folder).len();
            [("src", 0), ("tests", 0), ("circles", circles)].map(|(k, n)| (k.into(), n)).into()
        });
        let what = if source.is_product() { "src" } else { "tests" };
        *of_crate.entry(what.into()).or_default() += lines;
        all += lines;
    }
    counts.insert(ALL.into(), [("lines".to_string(), all)].into());
    for row in rows {
        let Some(room) = &row.room else { continue };
        let prefix = format!("{room}: ");
        let lent = rows.iter().filter(|row| row.room.is_none() && row.reason.starts_with(&prefix));
        let lent = lent.map(Row::raised);
        let own = files(&tree.root.join(&row.folder), &["rs", "py"]).unwrap_or_default();
        let own = own.iter().filter_map(|path| read_text(path).ok());
        let lines = lent.sum::<usize>() + own.map(|text| text.lines().count()).sum::<usize>();
        counts.insert(row.folder.clone(), [("lines".to_string(), lines)].into());
    }
    counts
}

/// A cap for this figure: circles are counted exactly.
fn cap(what: &str, counted: usize) -> usize {
    if what == "circles" { counted } else { counted.next_multiple_of(STEP) }
}

fn judge(tree: &Tree, row: &Row, counts: &BTreeMap<String, Figures>) -> Vec<String> {
    let folder = &row.folder;
    let Some(counted) = counts.get(folder) else {
        return vec![format!("{SIZES}: {folder} is gone: its row can go")];
    };
    let letters = row.reason.chars().filter(|letter| letter.is_alphabetic()).count();
    let has_reason = letters >= REASON_LETTERS_MIN && !row.reason.contains(WHY);
    let (mut breaches, mut fitting) = (Vec::new(), row.clone());
    for (what, limit) in &row.caps {
        let (count, began) = (counted[what], row.began[what]);
        let lines = if what == "lines" { "lines".to_string() } else { format!("lines of {what}") };
        breaches.extend(match what.as_str() {
            "circles" if count > *limit => Some(format!(
                "{folder}: {count} circles of files, the cap is {limit} and only falls: move what two files import from each other into a third\n{:?}",
                circles(tree, folder)
            )),
            "circles" if count < *limit => {
                fitting.caps.insert(what.clone(), count);
                Some(format!("{folder}: {count} circles of files, the cap is {limit}: lower it"))
            }
            "circles" if *limit > began => {
                Some(format!("{SIZES}: {folder} began with {began} circles; this cap only falls"))
            }
            _ if count > *limit => {
                fitting.caps.insert(what.clone(), cap(what, count));
                Some(format!(
                    "{folder}: {count} {lines}, the cap is {limit}: make it smaller, or raise the cap and say in `reason` what the lines are for"
                ))
            }
            _ if *limit > began && !has_reason => Some(format!(
                "{SIZES}: {folder} has a cap of {limit} {what}, above {began}: `reason` says what for, in {REASON_LETTERS_MIN} letters or more"
            )),
            _ => None,
        });
    }
    if fitting.raised() > row.raised() {
        fitting.reason = format!("{} {WHY}", row.reason).trim_start().to_string();
    }
    if fitting.caps != row.caps {
        breaches.push(fitting.paste());
    }
    // One text for each row, so that what is to be pasted stands below all that is wrong with it.
    if breaches.is_empty() { breaches } else { vec![breaches.join("\n")] }
}
