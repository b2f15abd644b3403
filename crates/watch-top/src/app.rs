//! What is shown, and how keys and answers change it. Nothing here reads a clock or a socket: `now` is the time since the
//! program began.

use std::collections::VecDeque;
use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::answers::{Budget, Node, Page};
use crate::poll::{Closer, Refused, Round, Update};
use crate::query::{Query, Sort, Wants};

/// Samples of decisions that are kept.
const SAMPLES_MAX: usize = 600;
/// Characters of a filter.
const FILTER_MAX: usize = 200;
/// How often a node takes new figures, unless it is told otherwise (`admin.tick_ms`).
const TICK: Duration = Duration::from_secs(2);
/// So many ticks without new figures are late...
const TICKS_LATE: u32 = 2;
/// ...and so many old.
const TICKS_OLD: u32 = 5;

/// The content of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Screen {
    /// The node and the top budgets.
    #[default]
    Table,
    /// One budget.
    Detail,
    /// The keys.
    Help,
}

/// How the node is reached.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Link {
    /// Nothing came yet.
    #[default]
    Connecting,
    /// It answers.
    Live,
    /// It does not.
    Lost {
        /// Why, for people.
        why: String,
        /// When it is asked again.
        retry_at: Duration,
    },
}

/// How old the figures are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freshness {
    /// As new as they can be.
    Fresh,
    /// The node missed some ticks.
    Late,
    /// They are no longer true.
    Old,
}

/// What follows from a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing more.
    None,
    /// Something else is wanted of the node: [`App::wants`].
    Ask,
    /// The end.
    Quit,
}

/// All that is shown.
#[derive(Debug)]
pub struct App {
    /// Of the node, `HOST:PORT`.
    pub address: String,
    /// How often it is asked.
    pub every: Duration,
    /// What it is asked for.
    pub wants: Wants,
    /// The content of the screen.
    pub screen: Screen,
    /// The filter before somebody began to type another; `None` while nobody types.
    pub typing: Option<String>,
    /// How it is reached.
    pub link: Link,
    /// How the node stands.
    pub node: Node,
    /// The table.
    pub page: Page,
    /// What the table was asked for by.
    pub shown: Query,
    /// Why the node refuses the table.
    pub refused: Option<Refused>,
    /// The budget looked at.
    pub closer: Option<Result<Closer, Refused>>,
    /// The budget chosen in the table, by id: it is followed when rows move.
    pub chosen: Option<String>,
    /// Answers do not change what is shown.
    pub frozen: bool,
    /// Decisions per second, oldest first, each with its time.
    pub samples: VecDeque<(Duration, f64)>,
    /// Rows of the table on the screen, as last drawn.
    pub rows: usize,
    /// Lines of the detail above the screen.
    pub scroll: usize,
    /// When the figures last became newer.
    fresh_at: Option<Duration>,
}

impl App {
    /// Before the first answer.
    #[must_use]
    pub fn new(address: &str, every: Duration, sort: Sort) -> App {
        let query = Query { sort, ..Query::default() };
        App {
            address: address.to_owned(),
            every,
            wants: Wants { query: query.clone(), detail: None },
            screen: Screen::Table,
            typing: None,
            link: Link::Connecting,
            node: Node::default(),
            page: Page::default(),
            shown: query,
            refused: None,
            closer: None,
            chosen: None,
            frozen: false,
            samples: VecDeque::new(),
            rows: 1,
            scroll: 0,
            fresh_at: None,
        }
    }

    /// An answer, or that there is none.
    pub fn update(&mut self, update: Update, now: Duration) {
        match update {
            Update::Lost { why, retry_in } => {
                self.link = Link::Lost { why, retry_at: now.saturating_add(retry_in) };
            }
            Update::Round(round) => {
                self.link = Link::Live;
                if !self.frozen {
                    self.take(*round, now);
                }
            }
        }
    }

    fn take(&mut self, round: Round, now: Duration) {
        let newer = round.node.as_of_ms != self.node.as_of_ms || self.fresh_at.is_none();
        if newer || round.node.run != self.node.run {
            self.fresh_at = Some(now);
            self.sample(&round.node, now);
        }
        self.node = round.node;
        if round.wants.query == self.wants.query {
            match round.page {
                Ok(page) => (self.page, self.refused) = (page, None),
                Err(refused) => self.refused = Some(refused),
            }
            self.shown = round.wants.query;
        }
        if round.wants.detail.is_some() && round.wants.detail == self.wants.detail {
            self.closer = round.detail;
        }
    }

    fn sample(&mut self, node: &Node, now: Duration) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back((now, decisions_per_s(node)));
    }

    /// How long ago the figures became newer; `None` before the first.
    #[must_use]
    pub fn age(&self, now: Duration) -> Option<Duration> {
        self.fresh_at.map(|at| now.saturating_sub(at))
    }

    /// How old the figures are.
    #[must_use]
    pub fn freshness(&self, now: Duration) -> Freshness {
        let missed = |ticks: u32| TICK.saturating_mul(ticks).saturating_add(self.every);
        match self.age(now) {
            Some(age) if age <= missed(TICKS_LATE) => Freshness::Fresh,
            Some(age) if age <= missed(TICKS_OLD) => Freshness::Late,
            Some(_) => Freshness::Old,
            None => Freshness::Fresh,
        }
    }

    /// Is the table still that of another order or filter?
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.shown != self.wants.query
    }

    /// Row of the chosen budget.
    #[must_use]
    pub fn cursor(&self) -> Option<usize> {
        let chosen = self.chosen.as_ref()?;
        self.page.budgets.iter().position(|budget| budget.id == *chosen)
    }

    /// First row of the table on the screen: rows are turned page by page, so that they stay where they are.
    #[must_use]
    pub fn first_row(&self, rows: usize) -> usize {
        let rows = rows.max(1);
        self.cursor().unwrap_or(0) / rows * rows
    }

    /// A key.
    pub fn key(&mut self, key: KeyEvent) -> Effect {
        if key.kind == KeyEventKind::Release {
            return Effect::None;
        }
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return self.control(key.code);
        }
        if self.typing.is_some() {
            return self.type_filter(key.code);
        }
        match (self.screen, key.code) {
            (_, KeyCode::Char('q')) => Effect::Quit,
            (Screen::Help, _) => self.show(Screen::Table),
            (_, KeyCode::Char('?')) => self.show(Screen::Help),
            (_, KeyCode::Char(' ')) => {
                self.frozen = !self.frozen;
                Effect::Ask
            }
            (Screen::Table, code) => self.table_key(code),
            (Screen::Detail, code) => self.detail_key(code),
        }
    }

    fn control(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Char('c') => Effect::Quit,
            KeyCode::Char('u') if self.typing.is_some() => self.filter(String::new()),
            _ => Effect::None,
        }
    }

    /// Text that was pasted: belongs to the filter, if one is typed.
    pub fn paste(&mut self, text: &str) -> Effect {
        if self.typing.is_none() {
            return Effect::None;
        }
        let filter = format!("{}{text}", self.wants.query.filter);
        self.filter(filter)
    }

    fn type_filter(&mut self, code: KeyCode) -> Effect {
        let mut filter = self.wants.query.filter.clone();
        match code {
            KeyCode::Enter => {
                self.typing = None;
                return Effect::None;
            }
            KeyCode::Esc => filter = self.typing.take().unwrap_or_default(),
            KeyCode::Backspace => drop(filter.pop()),
            KeyCode::Char(c) => filter.push(c),
            _ => return Effect::None,
        }
        self.filter(filter)
    }

    fn filter(&mut self, filter: String) -> Effect {
        self.wants.query.filter =
            filter.chars().filter(|c| !c.is_control()).take(FILTER_MAX).collect();
        Effect::Ask
    }

    fn table_key(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.step(-1),
            KeyCode::Down | KeyCode::Char('j') => self.step(1),
            KeyCode::PageUp => self.step(-signed(self.rows)),
            KeyCode::PageDown => self.step(signed(self.rows)),
            KeyCode::Home | KeyCode::Char('g') => self.step(isize::MIN),
            KeyCode::End | KeyCode::Char('G') => self.step(isize::MAX),
            KeyCode::Char('s') | KeyCode::Right => self.sort(self.wants.query.sort.step(1)),
            KeyCode::Char('S') | KeyCode::Left => {
                self.sort(self.wants.query.sort.step(Sort::ALL.len() - 1))
            }
            KeyCode::Char(digit @ '1'..='5') => {
                let index = digit.to_digit(10).unwrap_or(1).saturating_sub(1);
                self.sort(Sort::ALL[index as usize])
            }
            KeyCode::Char('o') => {
                self.wants.query.reverse = !self.wants.query.reverse;
                self.unfrozen()
            }
            KeyCode::Char('/') => {
                self.typing = Some(self.wants.query.filter.clone());
                self.frozen = false;
                Effect::None
            }
            KeyCode::Enter => self.open(),
            KeyCode::Esc => {
                self.chosen = None;
                Effect::None
            }
            _ => Effect::None,
        }
    }

    fn detail_key(&mut self, code: KeyCode) -> Effect {
        match code {
            KeyCode::Up | KeyCode::Char('k') => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::Down | KeyCode::Char('j') => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Home | KeyCode::Char('g') => self.scroll = 0,
            KeyCode::Esc | KeyCode::Enter | KeyCode::Left | KeyCode::Backspace => {
                self.wants.detail = None;
                self.closer = None;
                return self.show(Screen::Table);
            }
            _ => {}
        }
        Effect::None
    }

    /// Shows a screen; a closed help goes back to the budget that was open.
    fn show(&mut self, screen: Screen) -> Effect {
        let open = screen == Screen::Table && self.wants.detail.is_some();
        self.screen = if open { Screen::Detail } else { screen };
        Effect::Ask
    }

    fn open(&mut self) -> Effect {
        let Some(budget) = self.page.budgets.get(self.cursor().unwrap_or(0)) else {
            return Effect::None;
        };
        self.chosen = Some(budget.id.clone());
        self.wants.detail = Some(budget.id.clone());
        (self.closer, self.scroll, self.frozen) = (None, 0, false);
        self.show(Screen::Detail)
    }

    fn sort(&mut self, sort: Sort) -> Effect {
        let reverse = sort == self.wants.query.sort && self.wants.query.reverse;
        (self.wants.query.sort, self.wants.query.reverse) = (sort, reverse);
        self.unfrozen()
    }

    fn unfrozen(&mut self) -> Effect {
        self.frozen = false;
        Effect::Ask
    }

    /// Chooses a row relative to the chosen one; the first step down chooses the first row.
    fn step(&mut self, rows: isize) -> Effect {
        let last = self.page.budgets.len().saturating_sub(1);
        let row = match self.cursor() {
            Some(row) => row.saturating_add_signed(rows).min(last),
            None if rows == isize::MAX => last,
            None => 0,
        };
        self.chosen = self.page.budgets.get(row).map(|budget| budget.id.clone());
        Effect::None
    }

    /// The budget looked at, as far as the table knows it.
    #[must_use]
    pub fn opened(&self) -> Option<&Budget> {
        let id = self.wants.detail.as_ref()?;
        self.page.budgets.iter().find(|budget| budget.id == *id)
    }
}

fn signed(rows: usize) -> isize {
    isize::try_from(rows).unwrap_or(isize::MAX)
}

/// What all workers decide in a second.
#[must_use]
pub fn decisions_per_s(node: &Node) -> f64 {
    node.workers.iter().filter_map(|worker| worker.decisions_per_s).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn app() -> App {
        let mut app = App::new("127.0.0.1:7780", 2 * S, Sort::Spend);
        app.update(round(&app.wants, &["a", "b", "c"], 1), S);
        app
    }

    fn round(wants: &Wants, ids: &[&str], as_of_ms: u64) -> Update {
        let budget = |id: &&str| Budget { id: (*id).to_owned(), ..Budget::default() };
        let page = Page { budgets: ids.iter().map(budget).collect(), ..Page::default() };
        let node = Node { as_of_ms: Some(as_of_ms), run: Some(1), ..Node::default() };
        let detail = wants.detail.as_ref().map(|_| Ok(Closer::default()));
        Update::Round(Box::new(Round { wants: wants.clone(), node, page: Ok(page), detail }))
    }

    fn press(app: &mut App, keys: &str) -> Effect {
        let mut last = Effect::None;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '\u{8}' => KeyCode::Backspace,
                '↓' => KeyCode::Down,
                '↑' => KeyCode::Up,
                '⇟' => KeyCode::PageDown,
                other => KeyCode::Char(other),
            };
            last = app.key(KeyEvent::new(code, KeyModifiers::NONE));
        }
        last
    }

    #[test]
    fn orders_change_by_key() {
        let mut app = app();
        assert_eq!(press(&mut app, "s"), Effect::Ask);
        assert_eq!(app.wants.query.sort, Sort::Pace);
        assert!(app.is_waiting(), "the table is still the old one");
        press(&mut app, "5o");
        assert_eq!((app.wants.query.sort, app.wants.query.reverse), (Sort::Remaining, true));
        press(&mut app, "S");
        assert_eq!((app.wants.query.sort, app.wants.query.reverse), (Sort::Refusals, false));
    }

    #[test]
    fn an_answer_to_an_older_question_is_not_shown() {
        let mut app = app();
        let old = app.wants.clone();
        press(&mut app, "s");
        app.update(round(&old, &["x"], 2), 2 * S);
        assert_eq!(app.page.budgets[0].id, "a");
        app.update(round(&app.wants.clone(), &["y"], 3), 3 * S);
        assert_eq!(app.page.budgets[0].id, "y");
        assert!(!app.is_waiting());
    }

    #[test]
    fn a_filter_is_typed_and_taken_back() {
        let mut app = app();
        press(&mut app, "/sq");
        assert_eq!(app.wants.query.filter, "sq", "keys are letters while it is typed");
        assert_eq!(press(&mut app, "\u{8}"), Effect::Ask);
        press(&mut app, "\n");
        assert_eq!((app.wants.query.filter.as_str(), &app.typing), ("s", &None));
        press(&mut app, "/xyz\u{1b}");
        assert_eq!(app.wants.query.filter, "s");
        press(&mut app, "/");
        app.paste("\u{1b}[2Jale");
        assert_eq!(app.wants.query.filter, "s[2Jale");
        app.paste(&"x".repeat(500));
        assert_eq!(app.wants.query.filter.len(), FILTER_MAX);
    }

    #[test]
    fn the_chosen_budget_is_followed() {
        let mut app = app();
        press(&mut app, "↓↓");
        assert_eq!(app.chosen.as_deref(), Some("b"));
        app.update(round(&app.wants.clone(), &["b", "c", "a"], 2), 2 * S);
        assert_eq!(app.cursor(), Some(0));
        press(&mut app, "G↓");
        assert_eq!(app.chosen.as_deref(), Some("a"), "it stops at the end");
        app.update(round(&app.wants.clone(), &["c"], 3), 3 * S);
        assert_eq!(app.cursor(), None, "it is not in the table");
        press(&mut app, "↓");
        assert_eq!(app.cursor(), Some(0));
        app.update(round(&app.wants.clone(), &[], 4), 4 * S);
        press(&mut app, "↓\n");
        assert_eq!(app.screen, Screen::Table, "there is nothing to open");
    }

    #[test]
    fn pages_are_turned_whole() {
        let mut app = app();
        let ids: Vec<String> = (0..50).map(|id| id.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        app.update(round(&app.wants.clone(), &ids, 2), 2 * S);
        app.rows = 10;
        press(&mut app, "↓⇟↓");
        assert_eq!((app.cursor(), app.first_row(10)), (Some(11), 10));
        press(&mut app, "↑↑");
        assert_eq!(app.first_row(10), 0);
        assert_eq!(app.first_row(0), 9, "no room for a row is no error");
    }

    #[test]
    fn a_budget_opens_and_closes() {
        let mut app = app();
        assert_eq!(press(&mut app, "\n"), Effect::Ask);
        assert_eq!((app.screen, app.wants.detail.as_deref()), (Screen::Detail, Some("a")));
        app.update(round(&app.wants.clone(), &["a"], 2), 2 * S);
        assert!(app.closer.is_some());
        press(&mut app, "?");
        assert_eq!(app.screen, Screen::Help);
        press(&mut app, "x");
        assert_eq!(app.screen, Screen::Detail);
        press(&mut app, "\u{1b}");
        assert_eq!(
            (app.screen, &app.wants.detail, app.closer.is_some()),
            (Screen::Table, &None, false)
        );
    }

    #[test]
    fn frozen_figures_stay() {
        let mut app = app();
        press(&mut app, " ");
        app.update(round(&app.wants.clone(), &["x"], 2), 2 * S);
        assert_eq!((app.page.budgets[0].id.as_str(), app.samples.len()), ("a", 1));
        press(&mut app, " ");
        app.update(round(&app.wants.clone(), &["x"], 3), 3 * S);
        assert_eq!(app.page.budgets[0].id, "x");
    }

    #[test]
    fn quitting_is_always_possible() {
        assert_eq!(press(&mut app(), "q"), Effect::Quit);
        assert_eq!(press(&mut app(), "\nq"), Effect::Quit);
        let mut typing = app();
        press(&mut typing, "/");
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(typing.key(control_c), Effect::Quit);
    }

    #[test]
    fn figures_grow_old_by_the_nodes_clock() {
        let mut app = app();
        assert_eq!(app.freshness(7 * S), Freshness::Fresh);
        app.update(round(&app.wants.clone(), &["a"], 1), 6 * S);
        assert_eq!(app.freshness(8 * S), Freshness::Late, "it answers, with the same figures");
        assert_eq!(app.freshness(14 * S), Freshness::Old);
        app.update(round(&app.wants.clone(), &["a"], 2), 14 * S);
        assert_eq!(app.freshness(14 * S), Freshness::Fresh);
        assert_eq!(app.samples.len(), 2, "one sample for each new set of figures");
    }

    #[test]
    fn a_lost_node_keeps_its_figures() {
        let mut app = app();
        app.update(Update::Lost { why: "gone".to_owned(), retry_in: 4 * S }, 10 * S);
        assert_eq!(app.link, Link::Lost { why: "gone".to_owned(), retry_at: 14 * S });
        assert_eq!(app.page.budgets.len(), 3);
        app.update(round(&app.wants.clone(), &["a"], 9), 15 * S);
        assert_eq!(app.link, Link::Live);
    }
}
