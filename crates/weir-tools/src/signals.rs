//! The signals of the process.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::SIGHUP;

/// Ctrl-C, SIGTERM and SIGQUIT: the first asks to stop, the second ends the process.
#[derive(Debug, Default)]
pub struct Signals {
    stop: Arc<AtomicBool>,
    hung_up: Arc<AtomicBool>,
    /// There was a terminal when the signals were caught.
    had_terminal: bool,
}

impl Signals {
    /// Catches them from now on.
    ///
    /// # Errors
    /// The system refuses; for people.
    pub fn catch() -> Result<Signals, String> {
        let signals = Signals::default();
        for signal in signal_hook::consts::TERM_SIGNALS {
            let stop = || Arc::clone(&signals.stop);
            signal_hook::flag::register_conditional_shutdown(*signal, 1, stop()).map_err(failed)?;
            signal_hook::flag::register(*signal, stop()).map_err(failed)?;
        }
        // A file that may not grow is an error of its write, like a full disk; the default is to end the process.
        let ignored = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(signal_hook::consts::SIGXFSZ, ignored).map_err(failed)?;
        Ok(signals)
    }

    /// SIGHUP, too: it asks to reload, and where the terminal is gone it asks to stop. Where it was ignored from the start, as by
    /// `nohup`, a terminal may go; then it only reloads.
    ///
    /// # Errors
    /// The system refuses; for people.
    pub fn and_hang_up(self) -> Result<Signals, String> {
        let had_terminal = has_terminal() && !is_ignored(SIGHUP);
        signal_hook::flag::register(SIGHUP, Arc::clone(&self.hung_up)).map_err(failed)?;
        Ok(Signals { had_terminal, ..self })
    }

    /// What a signal to stop sets.
    #[must_use]
    pub fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// Is the node to stop?
    #[must_use]
    pub fn is_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Was a reload asked for since the last call? A SIGHUP because the terminal is gone asks to stop instead.
    #[must_use]
    pub fn take_reload(&self) -> bool {
        if !self.hung_up.swap(false, Ordering::AcqRel) {
            return false;
        }
        let is_closed = self.had_terminal && !has_terminal();
        if is_closed {
            self.stop.store(true, Ordering::Release);
        }
        !is_closed
    }
}

fn failed(error: io::Error) -> String {
    format!("signals cannot be caught: {error}")
}

/// Has this process a terminal that controls it? The kernel takes it away before it tells so by SIGHUP.
fn has_terminal() -> bool {
    std::fs::File::open("/dev/tty").is_ok()
}

/// Does this process ignore a signal? False where the system does not say.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) & (1 << (signal - 1)) != 0
}
