//! The sheet as Markdown.

use std::fmt::Write as _;

use super::table::{SUMS, figures};
use super::{Sheet, one_line};

/// Which of all figures a document shows.
const COLUMNS: [usize; 8] = [0, 1, 2, 3, 4, 5, 9, 10];

impl Sheet {
    /// The sheet as a document: figures and totals. The columns that few need, and the reasons, are in the text's
    /// wide form and in JSON.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n\n{}.\n", escaped(&self.title), escaped(&self.facts()));
        text += &self.figures_table();
        text += &self.totals_table();
        text.push('\n');
        for note in &self.notes {
            let _ = writeln!(text, "- {}", escaped(note));
        }
        text
    }

    fn figures_table(&self) -> String {
        let mut text = "
| abstraction | mean, ns | p50 | p99 | per | count per it | ns per it | saves | flags |
| :--- | ---: | ---: | ---: | :--- | ---: | ---: | ---: | :--- |
"
        .to_owned();
        for group in &self.groups {
            let _ =
                writeln!(text, "| **{}** |{}", escaped(&group.name), " |".repeat(COLUMNS.len()));
            for row in &group.rows {
                let inwards = "&emsp;".repeat(row.depth.into());
                let _ = write!(text, "| {inwards}{} |", escaped(&row.name));
                let figures = figures(self, row);
                let cells = COLUMNS.map(|at| escaped(&figures[at]));
                let _ = writeln!(text, " {} |", cells.join(" | "));
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
