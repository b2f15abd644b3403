//! `weir top`: the essentials of a running node in a terminal.
//!
//! A thread ([`poll`]) asks the node's admin API ([`answers`]) every now and then. What it answers and the keys
//! that are pressed change an [`app::App`], a state machine without a clock; [`view::draw`] draws it. So everything but
//! the terminal itself is tested without one.

pub mod answers;
pub mod app;
pub mod format;
pub mod palette;
pub mod poll;
pub mod query;
mod terminal;
pub mod view;

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use admin_client::{Client, FetchError};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::app::App;
use crate::palette::Palette;
use crate::poll::{Poller, Update};
pub use crate::query::{Sort, SortError};

/// Least time between two rounds of questions.
pub const EVERY_MIN: Duration = Duration::from_millis(200);
/// How long an answer may take: a screen is not held up for longer.
const WAIT: Duration = Duration::from_secs(5);
/// Lines of a screen that is printed.
const ONCE_HEIGHT: u16 = 40;
/// Columns of a screen that is printed where nobody says how many there are.
const ONCE_WIDTH: u16 = 120;

/// What to show.
#[derive(Clone, Debug)]
pub struct Options {
    /// The node to show.
    pub client: Client,
    /// How often the node is asked; less than [`EVERY_MIN`] is that.
    pub every: Duration,
    /// The first order of the table.
    pub sort: Sort,
    /// Print one screen as plain text and end; also done where standard output is no terminal.
    pub once: bool,
}

/// Why there is nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum TopError {
    /// The first question was not answered.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The one screen as text cannot be written.
    #[error("standard output: {0}")]
    Output(io::Error),
    /// The terminal cannot be drawn on.
    #[error("the terminal: {0}")]
    Terminal(io::Error),
    /// The system gives no thread.
    #[error("no thread can be started: {0}")]
    Thread(io::Error),
    /// A bug of ours.
    #[error(transparent)]
    Ended(#[from] poll::Ended),
}

/// Shows a node until somebody quits; or once, as text.
///
/// # Errors
/// [`TopError`]; before anything is drawn if the node does not answer at all. Once it did, a lost connection is shown and
/// made again.
pub fn run(options: &Options) -> Result<(), TopError> {
    let client = options.client.clone().with_wait(WAIT);
    let every = options.every.max(EVERY_MIN);
    let started = Instant::now();
    let mut app = App::new(client.address(), every, options.sort);
    let first = poll::round(&client, &app.wants)?;
    app.update(Update::Round(Box::new(first)), started.elapsed());
    if options.once || !io::stdout().is_terminal() {
        return print(&app, started.elapsed()).map_err(TopError::Output);
    }
    let poller = Poller::start(client, every, app.wants.clone()).map_err(TopError::Thread)?;
    terminal::show(&mut app, &poller, started)
}

/// One screen on standard output. A reader that went away (`| head`) is no failure.
fn print(app: &App, now: Duration) -> io::Result<()> {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = columns.unwrap_or(ONCE_WIDTH).clamp(40, 400);
    let mut out = io::stdout().lock();
    let written = out.write_all(text(app, now, width).as_bytes()).and_then(|()| out.flush());
    written.or_else(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(()),
        _ => Err(error),
    })
}

/// One screen as plain text: no colours, no keys, no blanks at the ends of lines.
#[must_use]
pub fn text(app: &App, now: Duration, width: u16) -> String {
    let area = Rect::new(0, 0, width, ONCE_HEIGHT);
    let mut buffer = Buffer::empty(area);
    view::draw(app, now, &Palette::plain(), area, &mut buffer);
    let lines = view::lines(&buffer);
    // The last line says which keys there are.
    let shown = &lines[..lines.len().saturating_sub(1)];
    let mut text = shown.join("\n").trim_end().to_owned();
    text.push('\n');
    text
}
