//! The terminal: raw while it is ours, as it was before whatever happens.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::TopError;
use crate::app::{App, Effect};
use crate::palette::Palette;
use crate::poll::Poller;
use crate::view;

/// How long a key is waited for before answers are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How often the age of the figures is drawn anew.
const REDRAW: Duration = Duration::from_millis(500);

/// Shows the app until somebody quits, or a signal ends it.
///
/// # Errors
/// The terminal fails, or the polling thread ended.
pub(crate) fn show(app: &mut App, poller: &Poller, started: Instant) -> Result<(), TopError> {
    let signals = Signals::catch().map_err(TopError::Terminal)?;
    // Also sets a panic hook that restores the terminal before the panic is printed.
    let mut screen = Screen(ratatui::try_init().map_err(TopError::Terminal)?);
    let palette = Palette::of_environment();
    let mut drawn: Option<Instant> = None;
    while !signals.came() {
        if drawn.is_none_or(|at| at.elapsed() >= REDRAW) {
            screen.draw(app, &palette, started.elapsed())?;
            drawn = Some(Instant::now());
        }
        while let Some(update) = poller.next()? {
            app.update(update, started.elapsed());
            drawn = None;
        }
        if drawn.is_none() || !event::poll(LOOK).map_err(TopError::Terminal)? {
            continue;
        }
        let effect = match event::read().map_err(TopError::Terminal)? {
            Event::Key(key) => app.key(key),
            Event::Paste(text) => app.paste(&text),
            _ => Effect::None,
        };
        match effect {
            Effect::Quit => break,
            Effect::Ask => poller.want(app.wants.clone()),
            Effect::None => {}
        }
        drawn = None;
    }
    Ok(())
}

/// The terminal while it is ours.
struct Screen(DefaultTerminal);

impl Screen {
    fn draw(&mut self, app: &mut App, palette: &Palette, now: Duration) -> Result<(), TopError> {
        let mut rows = app.rows;
        let draw = |frame: &mut ratatui::Frame<'_>| {
            let area = frame.area();
            rows = view::draw(app, now, palette, area, frame.buffer_mut());
        };
        self.0.draw(draw).map_err(TopError::Terminal)?;
        app.rows = rows;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone (SIGHUP) cannot be restored, and need not be.
        let _ = ratatui::try_restore();
    }
}

/// The signals that end a program, while they are ours.
struct Signals {
    came: Arc<AtomicBool>,
    ids: Vec<SigId>,
}

impl Signals {
    fn catch() -> io::Result<Signals> {
        let mut signals = Signals { came: Arc::default(), ids: Vec::new() };
        for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            signals.ids.push(signal_hook::flag::register(signal, Arc::clone(&signals.came))?);
        }
        Ok(signals)
    }

    fn came(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            signal_hook::low_level::unregister(id);
        }
    }
}
