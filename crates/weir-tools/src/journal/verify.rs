//! `weir journal verify`: is anything missing or changed?

use std::io::Write;

use ledger_journal::WATERMARK;
use weir_node::known;

use super::holes::{Segment, Snapshot, Survey};
use super::text::time;
use super::trail::Folder;
use super::{JournalError, Outcome, Where};

#[derive(clap::Args)]
pub(super) struct VerifyArgs {
    #[command(flatten)]
    place: Where,
}

pub(super) fn run(args: &VerifyArgs, out: &mut dyn Write) -> Result<Outcome, JournalError> {
    let folder = args.place.folder()?;
    let mut survey = Survey::of(&folder)?;
    for _ in 0..3 {
        // A node that removes old files may be seen in the middle of it.
        if survey.is_sound() || !folder.is_running() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        survey = Survey::of(&folder)?;
    }
    // A reader that went away (`| head`) is no failure; the exit code still tells.
    let _ = print(&survey, out).and_then(|()| print_watermark(&folder, out));
    Ok(if survey.is_sound() { Outcome::Well } else { Outcome::Bad })
}

/// A line a file, and what it comes to.
pub(super) fn print(survey: &Survey, out: &mut dyn Write) -> std::io::Result<()> {
    for segment in &survey.segments {
        writeln!(out, "{}", segment_line(segment))?;
    }
    for snapshot in &survey.snapshots {
        writeln!(out, "{}", snapshot_line(snapshot))?;
    }
    let bytes: u64 = survey.segments.iter().map(|segment| segment.bytes).sum();
    let (segments, snapshots) = (survey.segments.len(), survey.snapshots.len());
    let records = survey.records;
    let verdict = match (survey.faults().count(), &survey.refusal) {
        (0, None) => "sound".to_string(),
        (0, Some(_)) => "DAMAGED".to_string(),
        (count, _) => format!("DAMAGED in {count} file(s)"),
    };
    writeln!(
        out,
        "{segments} segments with {records} records in {bytes} bytes, {snapshots} snapshots: {verdict}"
    )?;
    if survey.is_sound() { Ok(()) } else { advise(survey, out) }
}

/// What the data folder knows of the journal beside its files.
fn print_watermark(folder: &Folder, out: &mut dyn Write) -> std::io::Result<()> {
    match known::watermark(&folder.data) {
        Ok(None) => writeln!(
            out,
            "there is no {WATERMARK}, so a rollback could not be seen; the next start writes one"
        ),
        Ok(Some(mark)) => writeln!(
            out,
            "{WATERMARK}: before record {} all were sealed in run {}, in segment {}, {}",
            mark.sealed,
            mark.run,
            mark.segment,
            time(mark.at_ms)
        ),
        Err(error) => writeln!(out, "{error}; a start warns and writes it anew"),
    }
}

fn segment_line(segment: &Segment) -> String {
    let records = match segment.records {
        Some((first, last)) => format!("records {first}..{last} ({})", last - first + 1),
        None => "no records".into(),
    };
    let times = match (segment.times, segment.head) {
        (Some((first, last)), _) => format!("{} .. {}", time(first), time(last)),
        (None, Some(head)) => format!("begun {}", time(head.at_ms)),
        (None, None) => "-".into(),
    };
    let state = match &segment.fault {
        Some(damage) => format!(
            "DAMAGED at byte {}, record {}: {}",
            damage.offset, damage.sequence, damage.what
        ),
        None if segment.torn_bytes > 0 => format!(
            "torn at byte {}: a start would cut {} bytes that were never acknowledged",
            segment.offset, segment.torn_bytes
        ),
        None => "ok".into(),
    };
    format!("{}  {records}  {} bytes  {times}  {state}", segment.name, segment.bytes)
}

fn snapshot_line(snapshot: &Snapshot) -> String {
    let made = snapshot.head.map_or("-".into(), |head| time(head.at_ms));
    let state = match &snapshot.fault {
        Some(fault) => format!("DAMAGED: {fault}"),
        None if snapshot.proven && snapshot.is_earlier => {
            "ok, written by an earlier version; its books equal the replay of the records before it"
                .into()
        }
        None if snapshot.proven => "ok, equals the replay of the records before it".into(),
        None => "ok; the records before it are not kept, so nothing to compare it with".into(),
    };
    let before = snapshot.sequence;
    format!("{}  records before {before}  {} bytes  {made}  {state}", snapshot.name, snapshot.bytes)
}

/// What the operator can do.
fn advise(survey: &Survey, out: &mut dyn Write) -> std::io::Result<()> {
    if let Some(refusal) = &survey.refusal {
        writeln!(out, "a start refuses it: {refusal}")?;
    }
    if survey.faults().next().is_none() {
        // All that is there is whole: what the refusal says is what can be done.
        return Ok(());
    }
    let text = match (survey.start(), &survey.refusal) {
        (None, _) => {
            "No snapshot is sound and the first segments are gone: a node cannot start from this. Put a sound snapshot \
             of a backup into the folder, with the segments from its own on; restore a backup; or see `weir journal \
             repair --help`."
        }
        (Some(_), Some(_)) => {
            "A node does not start from this. Stop it if it runs, copy the folder, and restore the damaged files from \
             a backup: the same name, the same bytes. Without one see `weir journal repair --help`. Look after the \
             disk first: smartctl, dmesg."
        }
        (Some(_), None) => {
            "A node starts from this: the newest sound snapshot and what follows it are whole. The damaged files are \
             older; exports and audits cannot use them. Restore them from a backup, or set them aside with `weir \
             journal repair --from-snapshot`. Look after the disk: smartctl, dmesg."
        }
    };
    writeln!(out, "{text}")
}
