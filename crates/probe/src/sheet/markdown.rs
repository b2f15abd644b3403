//! The sheet as Markdown.

use std::fmt::Write as _;

use super::table::{SUMS, figures};
use super::{Flag, Sheet, one_line};

impl Sheet {
    /// The sheet as a document: figures, totals, then the reasons row by row.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}.\n", escaped(&self.title), escaped(&self.facts()));
        text += &self.figures_table();
        text += &self.totals_table();
        text += &self.reasons_table();
        for note in &self.notes {
            let _ = writeln!(text, "- {}", escaped(note));
        }
        text
    }

    fn figures_table(&self) -> String {
        let mut text = "
| abstraction | mean, ns | p50, ns | p99, ns | per | count per it | ns per it | cores | instructions \
                        | the other way, ns | saves, ns per it | flags |
| :--- | ---: | ---: | ---: | :--- | ---: | ---: | ---: | ---: | ---: | ---: | :--- |
"
        .to_owned();
        for group in &self.groups {
            let _ = writeln!(text, "| **{}** |{}", escaped(&group.name), " |".repeat(11));
            for row in &group.rows {
                let inwards = "&emsp;".repeat(row.depth.into());
                let _ = write!(text, "| {inwards}{} |", escaped(&row.name));
                for figure in &figures(self, row)[..10] {
                    let _ = write!(text, " {} |", escaped(figure));
                }
                let flags: Vec<String> = row.flags().iter().map(Flag::to_string).collect();
                let _ = writeln!(text, " {} |", flags.join(", "));
            }
        }
        text
    }

    fn totals_table(&self) -> String {
        let unit = escaped(&self.requests.unit);
        let heads = SUMS.join(" | ");
        let mut text =
            format!("\n| totals, ns per {unit} | {heads} |\n| :--- |{}\n", " ---: |".repeat(5));
        for (name, figures) in self.sums() {
            let _ = writeln!(text, "| {} | {} |", escaped(&name), figures.join(" | "));
        }
        text
    }

    fn reasons_table(&self) -> String {
        let mut text = "
| abstraction | where | measured against | why it may stay |
| :--- | :--- | :--- | :--- |
"
        .to_owned();
        for (group, row) in self.rows() {
            let (group, name, place) =
                (escaped(&group.name), escaped(&row.name), escaped(&row.place));
            let other = row.alternative.as_ref().map(|other| escaped(&other.sentence()));
            let other = other.unwrap_or_else(|| "-".to_owned());
            let why = match Flag::NoJustification.is_on(row) {
                true => "**no justification**".to_owned(),
                false => escaped(row.justification.as_deref().unwrap_or_default()),
            };
            let _ = writeln!(text, "| {group}: {name} | `{place}` | {other} | {why} |");
        }
        text + "\n"
    }
}

/// A text for a cell or a line: it neither ends the cell nor begins a tag. Backticks and stars keep their meaning.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in one_line(text).chars() {
        if matches!(c, '\\' | '|' | '<') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}
