//! Views to messages of the node.

use wire::EncodeError;
use wire::live::{
    Flags, Kind, Pacing, Period, Reason, Refill, Refusal, Status, delta, patch, snapshot,
    sparks as sparks_message,
};

use crate::board::words::{self, entry};
use crate::board::{Patches, Spark, Taken, View};
use crate::{Budget, State};

/// Rows of one message. It bounds what a connection buffers: 1.3 MB, the names and the handles.
pub(super) const ROWS_MAX: usize = 4_096;
/// Bytes of a name that are sent.
const NAME_MAX: usize = 1_000;
const NULL_U64: u64 = u64::MAX;
const NULL_U32: u32 = u32::MAX;

/// What every message of the node begins with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub(super) sequence: u64,
    pub(super) view: &'a View,
}

/// The windows of rows as entries of that module's message.
macro_rules! windows {
    ($message:ident, $rows:expr) => {{
        let mut entries: Vec<$message::Window> = Vec::new();
        for (row, state) in $rows {
            let (row, state): (u32, &State) = (row, state);
            for (of, period) in state.windows.iter().zip(Period::ALL) {
                let Some(of) = of else { continue };
                let refill = if of.bucket { Refill::Bucket } else { Refill::Fixed };
                let (limit, used) = (of.limit.get(), of.used.get());
                entries.push($message::Window::new(row, period, refill, 0, limit, used));
            }
        }
        entries
    }};
}

/// A part of a snapshot: `count` rows from `first` on, all of which exist.
pub(super) fn part(head: Head<'_>, first: usize, count: usize) -> Result<Vec<u8>, EncodeError> {
    let Head { sequence, view } = head;
    let budgets = view.budgets.get(first..).unwrap_or_default().iter().take(count);
    let states = view.states.get(first..).unwrap_or_default().iter().take(count);
    let texts = Texts::of(view, budgets.clone());
    let windows = windows!(snapshot, (row(first)..).zip(states.clone()));
    let mut bytes = vec![0; texts.encoded_len(count, windows.len())];
    let rows = row(view.rows());
    let block =
        snapshot::Block::new(sequence, view.as_of_ms, view.run, row(first), rows, hidden(view));
    let (entries, encoder) = snapshot::encode(&mut bytes, &block)?.budgets_mut(count)?;
    for (((entry, budget), zone), at) in
        entries.iter_mut().zip(budgets).zip(&texts.zone_of).zip(first..)
    {
        *entry = static_entry(budget, *zone, view.template_at(at));
    }
    let (entries, encoder) = encoder.states_mut(count)?;
    for ((entry, state), row) in entries.iter_mut().zip(states).zip(row(first)..) {
        *entry = entry!(snapshot, row, state);
    }
    let encoder = encoder.windows(&windows)?.names(&texts.names)?.zones(&texts.zones)?;
    encoder.handles(&texts.handles)?.templates(&texts.templates)?.finish();
    Ok(bytes)
}

/// The texts of a part, each of them lines.
struct Texts {
    names: String,
    zones: String,
    /// Which of the zones each budget has.
    zone_of: Vec<u16>,
    handles: String,
    templates: String,
}

impl Texts {
    fn of<'a>(view: &View, budgets: impl Iterator<Item = &'a Budget> + Clone) -> Texts {
        let (zones, zone_of) = zones(budgets.clone());
        let handles = budgets.clone().flat_map(|of| [of.handle.as_deref().unwrap_or(""), "\n"]);
        let templates = view.made.templates.iter().flat_map(|pattern| [&**pattern, "\n"]);
        Texts {
            names: names(budgets.clone()),
            zones,
            zone_of,
            handles: handles.collect(),
            templates: templates.collect(),
        }
    }

    fn encoded_len(&self, rows: usize, windows: usize) -> usize {
        let [names, zones] = [self.names.len(), self.zones.len()];
        let [handles, templates] = [self.handles.len(), self.templates.len()];
        snapshot::encoded_len(rows, rows, windows, names, zones, handles, templates)
    }
}

fn hidden(view: &View) -> u32 {
    u32::try_from(view.made.hidden).unwrap_or(u32::MAX)
}

fn static_entry(budget: &Budget, zone: u16, template: Option<u32>) -> snapshot::Budget {
    snapshot::Budget::new(
        budget.id,
        budget.parent.unwrap_or(NULL_U64),
        budget.start_ms.unwrap_or(NULL_U64),
        budget.end_ms.unwrap_or(NULL_U64),
        budget.unit.to_code(),
        zone,
        Pacing::from_raw(budget.pacing.code()).unwrap_or(Pacing::Asap),
        if budget.campaign { Kind::Campaign } else { Kind::Budget },
        template.unwrap_or(NULL_U32),
    )
}

/// The entries of these rows in a delta.
pub(super) fn entries(view: &View, rows: &[u32]) -> Vec<delta::State> {
    let states = rows.iter().filter_map(|&row| Some((row, view.states.get(row as usize)?)));
    states.map(|(row, state)| entry!(delta, row, state)).collect()
}

/// Entries that are made already, and those of further rows, all of which exist.
pub(super) fn delta(
    head: Head<'_>,
    (of_batch, shared): (&[u32], &[delta::State]),
    rows: &[u32],
) -> Result<Vec<u8>, EncodeError> {
    let Head { sequence, view } = head;
    let own = entries(view, rows);
    let count = shared.len() + own.len();
    let all = of_batch.iter().chain(rows).copied();
    let states = all.filter_map(|row| Some((row, view.states.get(row as usize)?)));
    let windows = windows!(delta, states);
    let mut bytes = vec![0; delta::encoded_len(count, windows.len())];
    let block = delta::Block::new(sequence, view.as_of_ms, view.run, hidden(view));
    let (entries, encoder) = delta::encode(&mut bytes, &block)?.states_mut(count)?;
    let (first, rest) = entries.split_at_mut(shared.len());
    first.copy_from_slice(shared);
    rest.copy_from_slice(&own);
    encoder.windows(&windows)?.finish();
    Ok(bytes)
}

/// What changed of rows that follow each other in a batch, or of others.
pub(super) fn patches(view: &View, rows: &[(u32, u64)]) -> Patches {
    let mut patches = Patches::default();
    rows.iter().for_each(|&(row, mask)| put(&mut patches, view, row, mask));
    patches
}

/// Adds a row, which exists.
fn put(patches: &mut Patches, view: &View, row: u32, mask: u64) {
    let Some(state) = view.states.get(row as usize) else { return };
    let changed = words::words(state).into_iter().enumerate().filter(|(at, _)| mask >> at & 1 == 1);
    patches.words.extend(changed.flat_map(|(_, word)| word.to_le_bytes()));
    patches.entries.push(patch::Change::new(row, mask));
    patches.ends.push(patches.words.len());
}

/// What is taken: of the batch what all get, and whole rows in the places of those that are older than that.
pub(super) fn patch(head: Head<'_>, taken: &Taken) -> Result<Vec<u8>, EncodeError> {
    let Head { sequence, view } = head;
    let shared = taken.shown.batch.patches(|rows| patches(view, rows));
    let mut all = Patches::default();
    let mut late = taken.late.iter().peekable();
    for at in taken.of_batch.clone() {
        let words = at.checked_sub(1).map_or(0, |before| shared.ends[before])..shared.ends[at];
        if late.next_if_eq(&&taken.shown.batch.rows[at]).is_some() {
            continue;
        }
        all.entries.push(shared.entries[at]);
        all.words.extend_from_slice(&shared.words[words]);
    }
    let late = taken.late.iter().map(|&row| (row, words::ALL));
    for (row, mask) in late.chain(taken.rows.iter().copied().zip(taken.masks.iter().copied())) {
        put(&mut all, view, row, mask);
    }
    let mut bytes = vec![0; patch::encoded_len(all.entries.len(), all.words.len())];
    let block = patch::Block::new(sequence, view.as_of_ms, view.run, hidden(view));
    patch::encode(&mut bytes, &block)?.changes(&all.entries)?.words(&all.words)?.finish();
    Ok(bytes)
}

pub(super) fn sparks(head: Head<'_>, sparks: &[(u32, Spark)]) -> Result<Vec<u8>, EncodeError> {
    let Head { sequence, view } = head;
    let steps: Vec<sparks_message::Step> = sparks
        .iter()
        .flat_map(|(_, spark)| spark.known())
        .map(|&spent| sparks_message::Step::new(spent))
        .collect();
    let mut bytes = vec![0; sparks_message::encoded_len(sparks.len(), steps.len())];
    let block = sparks_message::Block::new(sequence, view.as_of_ms, view.run);
    let (entries, encoder) =
        sparks_message::encode(&mut bytes, &block)?.sparks_mut(sparks.len())?;
    for (entry, (row, spark)) in entries.iter_mut().zip(sparks) {
        *entry = sparks_message::Spark::new(*row, self::row(spark.filled));
    }
    encoder.steps(&steps)?.finish();
    Ok(bytes)
}

fn row(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}

/// Names line by line: a budget's name holds no control characters, and if it does they are spaces here.
fn names<'a>(budgets: impl Iterator<Item = &'a Budget>) -> String {
    let mut names = String::new();
    for budget in budgets {
        let name = &budget.name[..budget.name.floor_char_boundary(NAME_MAX)];
        names.extend(name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }));
        names.push('\n');
    }
    names
}

/// The zones that occur, line by line, and which one each budget has. Few zones are in use, and neighbours share one.
fn zones<'a>(budgets: impl Iterator<Item = &'a Budget>) -> (String, Vec<u16>) {
    let mut known: Vec<&str> = Vec::new();
    let mut of_budget = Vec::with_capacity(ROWS_MAX);
    for budget in budgets {
        let at = known.iter().rposition(|zone| **zone == *budget.zone).unwrap_or_else(|| {
            known.push(&budget.zone);
            known.len() - 1
        });
        of_budget.push(u16::try_from(at).unwrap_or(u16::MAX));
    }
    let lines = known.iter().flat_map(|zone| [*zone, "\n"]).collect();
    (lines, of_budget)
}

#[cfg(test)]
mod tests {
    use money::Amount;
    use wire::live::Message;

    use super::*;
    use crate::board::MadeRows;
    use crate::board::tests::{budgets, view};
    use crate::model::WindowUse;

    #[test]
    fn codes_and_words_are_those_of_the_schema() {
        macro_rules! same {
            ($($kind:ident),*) => {$(
                let of_schema = $kind::ALL.map(|one| (one.as_raw(), one.name()));
                let ours: Vec<(u8, &str)> =
                    crate::model::$kind::ALL.iter().map(|one| (one.code(), one.word())).collect();
                assert_eq!(of_schema.as_slice(), ours);
            )*};
        }
        same!(Status, Reason, Pacing, Period);
        let of_schema =
            [Flags::DEBT, Flags::OPEN, Flags::LOWERED, Flags::EDITED].map(Flags::as_raw);
        assert_eq!(crate::Flags::ALL.map(|(flag, _)| flag.0), of_schema);
    }

    #[test]
    fn names_and_zones_are_lines() {
        let mut list = budgets(&[1, 3, 4, 5]).to_vec();
        list[1].name = "two\nlines\u{7f}".into();
        list[2].name = "ü".repeat(5_000).into();
        list[3].name = "".into();
        list[2].handle = Some("team-42/gpt-5".into());
        let mut view = view(9, &list.into(), &[1, 2, 3, 4]);
        let mut states = view.states.to_vec();
        let used = WindowUse { bucket: true, limit: Amount::new(10), used: Amount::new(-1) };
        states[2].windows[Period::Hour.as_raw() as usize] = Some(used);
        view.states = states.into();
        view.made = MadeRows {
            from: [0, 7].into(),
            templates: ["team/{x}".into()].into(),
            hidden: 990_000,
        };
        let bytes = part(Head { sequence: 5, view: &view }, 1, 3).unwrap();
        let Message::Snapshot(part) = Message::decode(&bytes).unwrap() else {
            panic!("another message")
        };
        let names: Vec<&str> = part.names().unwrap().lines().collect();
        assert_eq!(
            (names[0], names[1].len(), names[2], names.len()),
            ("two lines ", NAME_MAX, "", 3)
        );
        assert_eq!(part.zones(), Ok("UTC\nEurope/Zurich\n"));
        let zones: Vec<u16> = part.budgets().iter().map(|budget| budget.zone()).collect();
        assert_eq!(zones, [0, 1, 1]);
        assert_eq!((part.first_row(), part.rows_total(), part.sequence()), (1, 4, 5));
        assert_eq!(part.handles(), Ok("\nteam-42/gpt-5\n\n"));
        assert_eq!((part.templates(), part.hidden()), (Ok("team/{x}\n"), 990_000));
        let templates: Vec<u32> = part.budgets().iter().map(|one| one.template()).collect();
        assert_eq!(templates, [NULL_U32, 0, 7]);
        let windows: Vec<_> = part
            .windows()
            .iter()
            .map(|of| (of.row(), of.period(), of.refill(), of.limit(), of.used()))
            .collect();
        assert_eq!(windows, [(2, Some(Period::Hour), Some(Refill::Bucket), 10, -1)]);
        let states: Vec<(u32, i64)> =
            part.states().iter().map(|state| (state.row(), state.spent())).collect();
        assert_eq!(states, [(1, 2), (2, 3), (3, 4)]);
    }
}
