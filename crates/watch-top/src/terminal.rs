//! The terminal: raw while it is ours, as it was before whatever happens.
//!
//! A terminal may go away (a closed window, an ended ssh). Reading keys from it then ends the session, and must not be
//! left to crossterm, which reads an end of input again and again without looking at anything else. So the terminal is
//! waited for here ([`Input`]), and a second thread ([`Backstop`]) ends the process where the first one is stuck in a
//! read or a write that does not come back.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use ratatui::crossterm::terminal::disable_raw_mode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::TopError;
use crate::app::{App, Effect};
use crate::palette::Palette;
use crate::poll::Poller;
use crate::view;

/// How long a key is waited for before answers are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long the screen may take to end by itself, once it shall.
const GRACE: Duration = Duration::from_secs(1);
/// How often the backstop looks whether it shall.
const BACKSTOP_LOOK: Duration = Duration::from_millis(100);
/// How often the age of the figures is drawn anew.
const REDRAW: Duration = Duration::from_millis(500);

/// Shows the app until somebody quits, a signal ends it, or the terminal is gone.
///
/// # Errors
/// The terminal fails, or the polling thread ended.
pub(crate) fn show(app: &mut App, poller: &Poller, started: Instant) -> Result<(), TopError> {
    let signals = Signals::catch().map_err(TopError::Terminal)?;
    let input = Arc::new(Input::open().map_err(TopError::Terminal)?);
    let _backstop =
        Backstop::start(Arc::clone(&signals.came), Arc::clone(&input)).map_err(TopError::Thread)?;
    let shown = until_quit(app, poller, started, &signals, &input);
    // What a terminal says that is gone is no failure of ours.
    if input.is_gone() { Ok(()) } else { shown }
}

fn until_quit(
    app: &mut App,
    poller: &Poller,
    started: Instant,
    signals: &Signals,
    input: &Input,
) -> Result<(), TopError> {
    // Also sets a panic hook that restores the terminal before the panic is printed.
    let mut screen = TerminalGuard(Some(ratatui::try_init().map_err(TopError::Terminal)?));
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
        if drawn.is_none() {
            continue;
        }
        if input.wait(LOOK).map_err(TopError::Terminal)? == Came::End {
            break;
        }
        // Without a key, too: a new size comes by a signal that crossterm catches.
        while event::poll(Duration::ZERO).map_err(TopError::Terminal)? {
            let effect = match event::read().map_err(TopError::Terminal)? {
                Event::Key(key) => app.key(key),
                Event::Paste(text) => app.paste(&text),
                _ => Effect::None,
            };
            match effect {
                Effect::Quit => return Ok(()),
                Effect::Ask => poller.want(app.wants.clone()),
                Effect::None => {}
            }
            drawn = None;
        }
    }
    Ok(())
}

/// Where keys come from: standard input if that is a terminal, or else the terminal that the process belongs to, as
/// crossterm chooses it.
enum Input {
    Stdin,
    Controlling(File),
}

/// What has come of a wait for keys.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// Keys, or none yet.
    Keys,
    /// The terminal is gone: no key will ever come.
    End,
}

impl Input {
    fn open() -> io::Result<Input> {
        match io::stdin().is_terminal() {
            true => Ok(Input::Stdin),
            false => File::open("/dev/tty").map(Input::Controlling),
        }
    }

    /// Waits for keys for at most this long.
    fn wait(&self, longest: Duration) -> io::Result<Came> {
        let longest = Timespec { tv_sec: 0, tv_nsec: longest.subsec_nanos().into() };
        self.poll(PollFlags::IN, &longest)
    }

    fn is_gone(&self) -> bool {
        self.poll(PollFlags::empty(), &Timespec::default()).is_ok_and(|came| came == Came::End)
    }

    fn poll(&self, flags: PollFlags, longest: &Timespec) -> io::Result<Came> {
        let stdin = io::stdin();
        let fd: BorrowedFd<'_> = match self {
            Input::Stdin => stdin.as_fd(),
            Input::Controlling(file) => file.as_fd(),
        };
        let mut fds = [PollFd::from_borrowed_fd(fd, flags)];
        match poll(&mut fds, Some(longest)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
        Ok(if fds[0].revents().intersects(gone) { Came::End } else { Came::Keys })
    }
}

/// A thread that ends the process where it shall end and does not within [`GRACE`]: keys are read from, or a screen is
/// written to, a terminal that takes nothing and says nothing any more.
struct Backstop {
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Backstop {
    fn start(came: Arc<AtomicBool>, input: Arc<Input>) -> io::Result<Backstop> {
        let done = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&done);
        let thread =
            std::thread::Builder::new().name("top-backstop".to_owned()).spawn(move || {
                let mut since = None;
                while !ended.load(Ordering::Acquire) {
                    if came.load(Ordering::Relaxed) || input.is_gone() {
                        let since: &Instant = since.get_or_insert_with(Instant::now);
                        if since.elapsed() >= GRACE {
                            // The mode of the terminal only: its screen takes no more bytes.
                            let _ = disable_raw_mode();
                            std::process::exit(0);
                        }
                    }
                    std::thread::park_timeout(BACKSTOP_LOOK);
                }
            })?;
        Ok(Backstop { done, thread: Some(thread) })
    }
}

impl Drop for Backstop {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// The terminal while it is ours; `None` only while it is dropped.
struct TerminalGuard(Option<DefaultTerminal>);

impl TerminalGuard {
    fn draw(&mut self, app: &mut App, palette: &Palette, now: Duration) -> Result<(), TopError> {
        let mut rows = app.rows;
        let draw = |frame: &mut ratatui::Frame<'_>| {
            let area = frame.area();
            rows = view::draw(app, now, palette, area, frame.buffer_mut());
        };
        if let Some(terminal) = &mut self.0 {
            terminal.draw(draw).map_err(TopError::Terminal)?;
        }
        app.rows = rows;
        Ok(())
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        // A terminal that is gone cannot be restored, and need not be; and its value must not try to show the cursor again
        // when it is dropped, which complains on standard error, which is gone as well.
        if ratatui::try_restore().is_err() {
            std::mem::forget(self.0.take());
        }
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
