//! The keys, and what the signs mean.

use ratatui::text::{Line, Span};

use super::Canvas;

const KEYS: [(&str, &str); 12] = [
    ("↑ ↓  k j", "choose a budget; the choice follows it when rows move"),
    ("PgUp PgDn", "a page of them; Home End: the first, the last"),
    ("Enter", "open it; Esc goes back"),
    ("s S", "next order, last order"),
    ("1 2 3 4 5", "by spend, pace, asks, refusals, what remains"),
    ("o", "turn the order around"),
    ("/", "filter: words of id or name, terms such as status:limited"),
    ("", "Enter keeps it, Esc takes it back, Ctrl-U clears it"),
    ("Space", "freeze the figures, or let them continue"),
    ("Esc", "choose nothing, to the top"),
    ("?", "this page"),
    ("q  Ctrl-C", "quit"),
];

const SIGNS: [(&str, &str); 6] = [
    ("PACE", "spent against planned by now; the bar's middle is the plan"),
    ("▼ = ▲", "behind (below 0.95), on plan, ahead (above 1.05)"),
    ("REMAINING", "free and in the workers' purses, rounded down"),
    ("SPEND/MIN", "spent in the last 60 s; rates are means of the last 10 s"),
    ("█ ▒ ·", "a core's time: busy, waiting for the kernel, idle"),
    ("p50 .. max", "from the door to the verdict, over the last 10 s"),
];

impl Canvas<'_> {
    pub(super) fn help_screen(&self, height: usize) -> Vec<Line<'static>> {
        let mut lines = vec![self.header(), self.heading("KEYS")];
        lines.extend(KEYS.iter().map(|(key, meaning)| self.explained(key, meaning)));
        lines.push(self.heading("SIGNS"));
        lines.extend(SIGNS.iter().map(|(sign, meaning)| self.explained(sign, meaning)));
        self.page(lines, height, &[("any key", "back"), ("q", "quit")])
    }

    fn heading(&self, text: &'static str) -> Line<'static> {
        Line::styled(format!(" {text}"), self.palette.head)
    }

    fn explained(&self, key: &str, meaning: &str) -> Line<'static> {
        Line::from(vec![
            Span::styled(format!("   {}", super::left(key, LABEL)), self.palette.strong),
            Span::raw(meaning.to_owned()),
        ])
    }
}

/// Columns of what is explained.
const LABEL: usize = 13;
