//! The file of reference prices, watched as the budgets file is: read once two looks find it unchanged, and taken whole or not at all.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use door_fix::gate::desk::FixDesk;
use weir_budgets::budgets;
use weir_budgets::prices::Prices;
use weir_config::config::Config;
use weir_door::thread::{SystemError, spawn};

use crate::looks::{FileCheck, GONE_LOOKS, Looks, Stamp, stamp};

/// Errors of a file that are written to the log.
const ERRORS_TOLD: usize = 20;

struct PriceWatch {
    path: PathBuf,
    desk: FixDesk,
    looks: Looks,
    proof: Option<FileCheck>,
    /// Looks since the file is gone.
    gone: u32,
}

/// Watches the file on a thread of its own, as the door's worker may let it wait; `None` where there is no file or no door.
pub(crate) fn watch(
    config: &Config,
    desk: Option<&FixDesk>,
    stop: &Arc<AtomicBool>,
) -> Result<Option<JoinHandle<()>>, SystemError> {
    let file = &config.fix.reference_prices;
    let Some(desk) = desk.filter(|_| !file.is_empty()).cloned() else { return Ok(None) };
    let (path, every) = (file.into(), Duration::from_millis(config.budgets.check_ms));
    let mut watch = PriceWatch { path, desk, looks: Looks::default(), proof: None, gone: 0 };
    let stopped = Arc::clone(stop);
    let thread = spawn("prices", move || {
        while !stopped.load(Ordering::Acquire) {
            watch.look();
            std::thread::park_timeout(every);
        }
    })?;
    Ok(Some(thread))
}

impl PriceWatch {
    fn look(&mut self) {
        let stamp = stamp(&self.path);
        self.gone = if stamp.is_none() { self.gone.saturating_add(1) } else { 0 };
        if self.gone == GONE_LOOKS {
            self.fail(&[format!("{} is gone", self.path.display())]);
        }
        if self.looks.is_still(stamp) {
            stamp.into_iter().for_each(|stamp| self.take(stamp));
        } else if self.looks.is_at_rest() && FileCheck::differs(&mut self.proof, &self.path) {
            self.looks.forget();
        }
    }

    /// Takes a file that had this stamp at two looks.
    fn take(&mut self, before: Stamp) {
        let bytes = budgets::bytes(&self.path);
        if stamp(&self.path) != Some(before) {
            return;
        }
        self.looks.judged(before);
        self.proof = bytes.as_deref().ok().map(FileCheck::of);
        match bytes.and_then(|bytes| Prices::of(&self.path, &bytes)) {
            Ok(prices) => {
                let symbols = prices.len();
                if self.set(Some(Arc::new(prices))) {
                    let file = self.path.display();
                    tracing::info!(%file, symbols, "FIX: reference prices are in force");
                }
            }
            Err(errors) => {
                let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
                self.fail(&errors);
            }
        }
    }

    fn fail(&mut self, errors: &[String]) {
        for error in errors.iter().take(ERRORS_TOLD) {
            tracing::error!("FIX: {error}");
        }
        tracing::error!(
            errors = errors.len(),
            "FIX: reference prices were not taken; those before, if there are any, stay in force"
        );
        self.set(None);
    }

    /// Tells the door. What it does not take is tried again.
    fn set(&mut self, prices: Option<Arc<Prices>>) -> bool {
        let told = self.desk.set_prices(prices);
        if let Err(error) = &told {
            tracing::warn!(%error, "FIX: reference prices are tried again");
            self.looks.forget();
        }
        told.is_ok()
    }
}
