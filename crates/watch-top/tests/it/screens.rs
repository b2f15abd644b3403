//! Whole screens from canned answers, compared with files of `tests/golden`.
//!
//! `WEIR_GOLDEN_WRITE=1 cargo test -p watch-top screens` writes them anew; look at them and review the difference like
//! code.

use std::path::Path;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};
use watch_top::app::App;
use watch_top::palette::Palette;
use watch_top::poll::{Closer, Refused, Round, Update};
use watch_top::{Sort, view};

use crate::canned;

const S: Duration = Duration::from_secs(1);

fn round(app: &App, node: Value, page: Value) -> Update {
    let closer = Closer {
        detail: canned::read(canned::detail()),
        refusals: canned::read(canned::refusals()),
        audit: canned::read(canned::audit()),
    };
    let detail = app.wants.detail.as_ref().map(|_| Ok(closer));
    let (node, page) = (canned::read(node), Ok(canned::read(page)));
    Update::Round(Box::new(Round { wants: app.wants.clone(), node, page, detail }))
}

/// An app that has watched a node for a while.
fn watched() -> App {
    let mut app = App::new("127.0.0.1:7780", 2 * S, Sort::Spend);
    for second in 0..120_u32 {
        let mut node = canned::node();
        node["as_of_ms"] = json!(canned::NOW_MS - u64::from(119 - second) * 2_000);
        let wave = f64::from(second % 40) * 4_000.0;
        node["workers"][0]["decisions_per_s"] = json!(150_000.0 + wave);
        app.update(round(&app, node, canned::page()), second * 2 * S);
    }
    app
}

const NOW: Duration = Duration::from_millis(238_400);

fn press(app: &mut App, code: KeyCode) {
    app.key(KeyEvent::new(code, KeyModifiers::NONE));
}

fn draw(app: &mut App, now: Duration, width: u16, height: u16) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    let palette = Palette::colours();
    let mut rows = 0;
    terminal
        .draw(|frame| rows = view::draw(app, now, &palette, frame.area(), frame.buffer_mut()))
        .unwrap();
    app.rows = rows;
    terminal
}

fn screen(app: &mut App, now: Duration, width: u16, height: u16) -> String {
    let terminal = draw(app, now, width, height);
    view::lines(terminal.backend().buffer()).join("\n") + "\n"
}

/// Compares with the file of this name.
fn golden(name: &str, found: &str) {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("WEIR_GOLDEN_WRITE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert!(found == expected, "{name}: expected\n{expected}\nfound\n{found}");
}

#[test]
fn a_node_at_work() {
    let mut app = watched();
    golden("table_120x40", &screen(&mut app, NOW, 120, 40));
    golden("table_80x24", &screen(&mut app, NOW, 80, 24));
    golden("table_40x12", &screen(&mut app, NOW, 40, 12));
    golden("table_160x50", &screen(&mut app, NOW, 160, 50));
}

#[test]
fn one_budget() {
    let mut app = watched();
    press(&mut app, KeyCode::Enter);
    golden("opening_80x24", &screen(&mut app, NOW, 80, 24));
    app.update(round(&app, canned::node(), canned::page()), NOW);
    golden("detail_120x40", &screen(&mut app, NOW, 120, 40));
    golden("detail_80x24", &screen(&mut app, NOW, 80, 24));
    for _ in 0..100 {
        press(&mut app, KeyCode::Down);
    }
    golden("detail_scrolled_80x24", &screen(&mut app, NOW, 80, 24));
}

#[test]
fn help() {
    let mut app = watched();
    press(&mut app, KeyCode::Char('?'));
    golden("help_80x24", &screen(&mut app, NOW, 80, 24));
}

#[test]
fn an_empty_node() {
    let mut app = App::new("127.0.0.1:7780", 2 * S, Sort::Spend);
    let node = json!({"as_of_ms": canned::NOW_MS, "node": 1, "run": 1, "version": env!("CARGO_PKG_VERSION")});
    app.update(round(&app, node, json!({"budgets": [], "matched": 0})), S);
    golden("empty_80x24", &screen(&mut app, S, 80, 24));
}

#[test]
fn before_the_first_answer() {
    let mut app = App::new("127.0.0.1:7780", 2 * S, Sort::Pace);
    golden("connecting_80x24", &screen(&mut app, S, 80, 24));
}

#[test]
fn a_lost_node() {
    let mut app = watched();
    let why = "node at 127.0.0.1:7780: Connection refused (os error 111); is it running?";
    app.update(Update::Lost { why: why.to_owned(), retry_in: 4 * S }, NOW + 9 * S);
    golden("lost_80x24", &screen(&mut app, NOW + 10 * S, 80, 24));
    golden("lost_120x40", &screen(&mut app, NOW + 10 * S, 120, 40));
}

#[test]
fn a_node_in_trouble() {
    let mut app = App::new("10.0.0.9:7780", 2 * S, Sort::Refusals);
    let mut node = canned::node();
    node["version"] = json!("9.9.9");
    node["journal"] = json!({"state": "failed", "failure": "No space left on device (os error 28)", "seal_us": null,
                             "lag_ms": 91_002, "unsealed_bytes": 268_435_456});
    node["proof"]["violations"] = json!(2);
    node["errors"] =
        json!([{"code": "journal", "count": 12}, {"code": "broken_frame", "count": 90_311}]);
    app.update(round(&app, node, canned::page()), S);
    golden("trouble_80x24", &screen(&mut app, S, 80, 24));
    golden("trouble_120x40", &screen(&mut app, S, 120, 40));
}

#[test]
fn a_filter_is_typed_and_refused() {
    let mut app = watched();
    for key in ['/', 'p', 'a', 'c', 'e', ':', 'x'] {
        press(&mut app, KeyCode::Char(key));
    }
    golden("typing_80x24", &screen(&mut app, NOW, 80, 24));
    let page = Err(Refused("filter: \"pace:x\": expected a range such as ..0.95".to_owned()));
    let node = canned::read(canned::node());
    let round = Round { wants: app.wants.clone(), node, page, detail: None };
    app.update(Update::Round(Box::new(round)), NOW);
    golden("refused_80x24", &screen(&mut app, NOW, 80, 24));
}

#[test]
fn a_chosen_row_is_marked_and_old_figures_are_grey() {
    let mut app = watched();
    press(&mut app, KeyCode::Down);
    let text = screen(&mut app, NOW, 80, 24);
    assert_eq!(text.matches('▸').count(), 1, "{text}");
    let old = draw(&mut app, NOW + 60 * S, 80, 24);
    // The cells that wide characters cover are not drawn.
    let dim = |cell: &ratatui::buffer::Cell| {
        cell.symbol() == " " || cell.modifier.contains(ratatui::style::Modifier::DIM)
    };
    assert!(old.backend().buffer().content[80..].iter().all(dim));
    assert!(view::lines(old.backend().buffer())[0].contains("old figures"));
}

/// Money stands below money, point below point, in every width that shows it.
#[test]
fn columns_are_aligned() {
    let mut app = watched();
    for width in 70..200 {
        let text = screen(&mut app, NOW, width, 40);
        // All characters before the amounts are one column wide in these rows.
        let point = |name: &str, amount: &str| {
            let line = text.lines().find(|line| line.contains(name)).unwrap();
            let at = line.find(amount).unwrap_or_else(|| panic!("{width}: {amount} in {line}"));
            line[..at].chars().count() + amount.find('.').unwrap()
        };
        assert_eq!(point("Launch", "1,234,567.89"), point("Overspent", "-1.51"), "{text}");
        assert_eq!(point("Launch", "12.34"), point("Overspent", "0.00"), "{text}");
    }
}

#[test]
fn what_is_piped_has_no_keys_and_no_trailing_blanks() {
    let app = watched();
    let text = watch_top::text(&app, NOW, 100);
    assert!(text.contains("Summer sale") && !text.contains("quit"), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line));
    assert!(!text.contains('\u{1b}'));
}
