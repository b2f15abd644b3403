//! Any answer of the right shape is drawn, at any size.

use std::time::Duration;

use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use serde_json::{Value, json};
use watch_top::app::App;
use watch_top::palette::Palette;
use watch_top::poll::{Closer, Round, Update};
use watch_top::{Sort, view};

use crate::canned;

fn text() -> impl Strategy<Value = Value> {
    prop_oneof![
        "\\PC{0,12}".prop_map(Value::from),
        ".{0,60}".prop_map(Value::from),
        "[a-z_]{1,12}".prop_map(Value::from),
        Just(json!("active")),
        Just(json!("USD")),
        Just(json!("count")),
        Just(json!("\u{202e}\u{1b}[2J\u{0}\u{200d}👩‍👩‍👧‍👦ﷺ")),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<u64>().prop_map(Value::from),
        (0..2_000_000_u64).prop_map(Value::from),
        Just(Value::Null)
    ]
}

fn index() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i64>().prop_map(Value::from),
        (0..3_000_000_i64).prop_map(Value::from),
        Just(Value::Null)
    ]
}

fn rate() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<f64>().prop_map(Value::from),
        (0.0..1e7).prop_map(Value::from),
        Just(Value::Null)
    ]
}

fn amount() -> impl Strategy<Value = Value> {
    let some = prop_oneof![any::<i64>(), -5_i64..5, Just(i64::MIN), Just(i64::MAX)];
    prop_oneof![some.prop_map(|amount| json!(amount.to_string())), Just(Value::Null)]
}

/// The same answer with its leaves replaced by others of their kind.
fn shaken(sample: &Value, name: &str) -> BoxedStrategy<Value> {
    match sample {
        Value::Object(fields) if !fields.is_empty() => {
            let fields: Vec<_> = fields
                .iter()
                .map(|(name, value)| {
                    let name = name.clone();
                    shaken(value, &name).prop_map(move |value| (name.clone(), value))
                })
                .collect();
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())).boxed()
        }
        Value::Array(items) if !items.is_empty() => {
            let pair = items.len() == 2 && items[0].is_string() && items[1].is_number();
            if pair {
                return (text(), any::<u64>())
                    .prop_map(|(word, count)| json!([word, count]))
                    .boxed();
            }
            prop::collection::vec(shaken(&items[0], name), 0..6).prop_map(Value::Array).boxed()
        }
        Value::String(digits)
            if digits.parse::<f64>().is_ok() && name != "id" && name != "record" =>
        {
            amount().boxed()
        }
        Value::String(_) => text().boxed(),
        Value::Number(_) if name == "index_ppm" => index().boxed(),
        Value::Number(_) if name == "count" => any::<u64>().prop_map(Value::from).boxed(),
        Value::Number(number) if number.is_f64() => rate().boxed(),
        Value::Number(_) => number().boxed(),
        other => prop_oneof![Just(other.clone()), Just(Value::Null)].boxed(),
    }
}

fn app_of(
    node: Value,
    page: Value,
    detail: Value,
    refusals: Value,
    audit: Value,
    opened: bool,
) -> App {
    let mut app = App::new("node:1", Duration::from_secs(2), Sort::Spend);
    app.wants.detail = opened.then(|| "17".to_owned());
    app.screen =
        if opened { watch_top::app::Screen::Detail } else { watch_top::app::Screen::Table };
    let closer = Closer {
        detail: canned::read(detail),
        refusals: canned::read(refusals),
        audit: canned::read(audit),
    };
    for second in 0..3 {
        let round = Round {
            wants: app.wants.clone(),
            node: canned::read(node.clone()),
            page: Ok(canned::read(page.clone())),
            detail: Some(Ok(closer.clone())),
        };
        app.update(Update::Round(Box::new(round)), Duration::from_secs(second));
    }
    app
}

fn draw(app: &App, width: u16, height: u16) -> Vec<String> {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    view::draw(app, Duration::from_secs(60), &Palette::colours(), area, &mut buffer);
    view::lines(&buffer)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_answer_is_drawn_at_any_size(
        node in shaken(&canned::node(), ""),
        page in shaken(&canned::page(), ""),
        detail in shaken(&canned::detail(), ""),
        refusals in shaken(&canned::refusals(), ""),
        audit in shaken(&canned::audit(), ""),
        opened in any::<bool>(),
        (width, height) in (1_u16..=300, 1_u16..=100),
        keys in prop::collection::vec(any::<char>(), 0..8),
    ) {
        let mut app = app_of(node, page, detail, refusals, audit, opened);
        let lines = draw(&app, width, height);
        let unsafe_signs = ['\u{1b}', '\u{0}', '\u{202e}'];
        prop_assert!(lines.iter().all(|line| !line.contains(unsafe_signs)));
        for key in keys {
            app.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
            app.key(KeyEvent::new(KeyCode::Down, KeyModifiers::NONE));
            draw(&app, width, height);
        }
    }
}

#[test]
fn every_size_is_drawn() {
    for opened in [false, true] {
        let app = app_of(
            canned::node(),
            canned::page(),
            canned::detail(),
            canned::refusals(),
            canned::audit(),
            opened,
        );
        for width in (1..=300).step_by(7) {
            for height in (1..=100).step_by(3) {
                assert_eq!(draw(&app, width, height).len(), usize::from(height));
            }
        }
    }
}
