//! The cost sheet: what follows from its facts, and how it is written.

mod made_up;

use probe::Nanos;
use probe::sheet::{Flag, Row, Sheet};
use proptest::prelude::*;

use made_up::sheet;

#[test]
fn what_follows_from_the_facts() {
    let sheet = sheet();
    let [lookup, decode, bounds, send] = &sheet.groups[0].rows[..] else {
        panic!("four rows");
    };
    assert_eq!(lookup.per_request(), Some(1.0));
    assert_eq!(lookup.ns_per_request(), Some(Nanos::new(5.0, 0.2)));
    assert_eq!(lookup.saving_ns_per_request(), Some(20.0));
    assert_eq!(lookup.flags(), []);
    assert_eq!(decode.flags(), [Flag::NoAlternative]);
    assert_eq!(bounds.flags(), [Flag::NoJustification, Flag::NoAlternative, Flag::BelowResolution]);
    assert_eq!(send.flags(), [Flag::NoJustification, Flag::AlternativeCheaper]);
    // 700 ns for 900 of ours, of 1,200 ns in one request of 20.
    assert!(send.saving_ns_per_request().is_some_and(|ns| (ns + 60.0 * 2.0 / 9.0).abs() < 1e-9));
    assert_eq!(sheet.cores(send.total().middle_ns()), Some(0.3));
}

#[test]
fn an_interval_that_holds_one_is_no_cheaper_alternative() {
    let mut send = sheet().groups[0].rows[3].clone();
    send.alternative.as_mut().unwrap().ratio_high = 1.0;
    assert!(!Flag::AlternativeCheaper.is_on(&send));
    send.justification = Some("  ".to_owned());
    assert!(Flag::NoJustification.is_on(&send), "blanks justify nothing");
    (send.mean, send.count) = (Nanos::exact(0.0), 0.0);
    assert!(!Flag::BelowResolution.is_on(&send), "what never happened was not too short to see");
}

#[test]
fn recorded_and_unaccounted_add_up_and_parts_do_not_count_twice() {
    let sheet = sheet();
    let worker = sheet.groups[0].totals();
    assert_eq!(worker.recorded.middle_ns(), 5e7 + 25e7 + 60e7);
    assert_eq!(worker.unaccounted_ns(), Some(1e8));
    assert_eq!(worker.unaccounted_share(), Some(0.1));
    let all = sheet.totals();
    assert_eq!(all.recorded.middle_ns() + all.unaccounted_ns().unwrap(), all.cpu_ns.unwrap());
}

#[test]
fn a_group_without_a_known_time_leaves_the_sheet_without_one() {
    let mut sheet = sheet();
    sheet.groups[1].cpu_ns = None;
    assert_eq!(sheet.totals().unaccounted_ns(), None);
    let table = sheet.table(false);
    let bank = table.lines().rfind(|line| line.starts_with("bank")).unwrap();
    let figures: Vec<&str> = bank.split_whitespace().collect();
    assert_eq!(figures, ["bank", "0", "-", "-", "-", "-"]);
}

#[test]
fn nothing_at_all_is_written_without_a_panic() {
    let mut empty = Sheet { groups: Vec::new(), seconds: 0.0, ..sheet() };
    empty.requests.count = 0;
    assert!(empty.table(true).contains("made up"));
    assert!(empty.markdown().contains("# made up"));
    assert!(empty.json().contains("\"groups\": []"));
    assert_eq!(empty.open_metrics("x_"), "");
}

/// Holds a text against the file that shows it. To accept a change, write what the failure prints into the file.
fn assert_shown(text: &str, snapshot: &str) {
    assert!(text == snapshot, "not as in tests/it/sheet/snapshots; this is it now:\n{text}<<");
}

#[test]
fn the_table_is_as_shown_and_fits() {
    let text = sheet().table(false);
    assert_shown(&text, include_str!("snapshots/table.txt"));
    assert!(text.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn long_names_are_cut_so_that_lines_fit() {
    let table = named(&"very long ".repeat(20)).table(true);
    assert!(table.contains("…"));
    assert!(table.lines().all(|line| line.chars().count() <= 120), "{table}");
}

#[test]
fn the_wide_table_is_as_shown() {
    assert_shown(&sheet().table(true), include_str!("snapshots/wide.txt"));
}

#[test]
fn the_json_is_as_shown() {
    assert_shown(&sheet().json(), include_str!("snapshots/sheet.json"));
}

#[test]
fn the_markdown_is_as_shown() {
    assert_shown(&sheet().markdown(), include_str!("snapshots/sheet.md"));
}

#[test]
fn the_metrics_are_as_shown() {
    assert_shown(&sheet().open_metrics("made_up_"), include_str!("snapshots/metrics.txt"));
}

/// A sheet whose texts are all of a stranger's making.
fn named(text: &str) -> Sheet {
    let mut sheet = sheet();
    sheet.title = text.to_owned();
    sheet.machine = text.to_owned();
    sheet.requests.unit = text.to_owned();
    sheet.notes = vec![text.to_owned()];
    sheet.groups[0].name = text.to_owned();
    let row: &mut Row = &mut sheet.groups[0].rows[0];
    row.name = text.to_owned();
    row.place = text.to_owned();
    row.per.unit = text.to_owned();
    row.justification = Some(text.to_owned());
    if let Some(other) = &mut row.alternative {
        other.name = text.to_owned();
        other.measured = text.to_owned();
    }
    sheet
}

/// Any text, and often what has a meaning to somebody.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![any::<String>(), "[\\\\\"|<>{}=,`\n\r\t\u{0}\u{1b}a ]{0,12}"]
}

/// The value of a label, read as OpenMetrics says, and what stands behind it.
fn label<'a>(sample: &'a str, name: &str) -> Option<(String, &'a str)> {
    let rest = sample.strip_prefix(name)?.strip_prefix("=\"")?;
    let (mut value, mut chars) = (String::new(), rest.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &rest[at + 1..])),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                c @ ('"' | '\\') => c,
                _ => return None,
            }),
            c => value.push(c),
        }
    }
    None
}

/// Bars that end a cell.
fn cells(line: &str) -> usize {
    let mut is_escaped = false;
    let ends = line.chars().filter(|c| {
        let ends = *c == '|' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    ends.count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn json_reads_back(text in text()) {
        let read: serde_json::Value = serde_json::from_str(&named(&text).json()).unwrap();
        let row = &read["groups"][0]["rows"][0];
        for found in [&read["title"], &read["notes"][0], &row["name"], &row["alternative"]["name"]] {
            prop_assert_eq!(found.as_str(), Some(text.as_str()));
        }
    }

    #[test]
    fn labels_read_back(text in text()) {
        let metrics = named(&text).open_metrics("made_up_");
        for line in metrics.split('\n').filter(|line| !line.starts_with("# ") && !line.is_empty()) {
            let (name, labels) = line.split_once('{').unwrap();
            prop_assert!(name.starts_with("made_up_cost_"), "{}", line);
            let (group, rest) = label(labels, "group").unwrap();
            prop_assert!(group == text || group == "bank", "{}", line);
            let value = match rest.strip_prefix(",") {
                Some(rest) => label(rest, "abstraction").unwrap().1,
                None => rest,
            };
            let (_, value) = value.split_once("} ").unwrap();
            prop_assert!(value.parse::<f64>().is_ok(), "{}", line);
        }
    }

    #[test]
    fn a_markdown_row_has_the_cells_of_its_table(text in text()) {
        let markdown = named(&text).markdown();
        let mut head = 0;
        for line in markdown.lines() {
            let found = if line.starts_with('|') { cells(line) } else { 0 };
            prop_assert!(head == 0 || found == 0 || found == head, "{}", line);
            head = found;
        }
        prop_assert!(!markdown.chars().any(|c| c.is_control() && c != '\n'));
    }

    #[test]
    fn a_terminal_gets_lines_and_nothing_else(text in text()) {
        let table = named(&text).table(true);
        prop_assert!(!table.chars().any(|c| c.is_control() && c != '\n'));
    }
}
