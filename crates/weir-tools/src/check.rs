//! `weir check`: a data folder and a budgets file judged as a start of a node on them would judge them.

use std::collections::HashMap;
use std::path::Path;

use weir_config::budgets;
use weir_config::config::Config;
use weir_config::doors::{DOORS, DoorSpec};

use crate::journal;

/// A sentence about the doors that are off; empty where all are on.
#[must_use]
pub fn doors_that_are_off(config: &Config) -> String {
    // One that nobody needs is no news.
    let is_off = |door: &&DoorSpec| {
        let listen = (door.listen)(config);
        listen.address().is_none() && listen.is_chosen()
    };
    let off: Vec<&str> = DOORS.iter().filter(is_off).map(|door| door.name).collect();
    if off.is_empty() { String::new() } else { format!(" Doors that are off: {}.", off.join(", ")) }
}

/// A sentence about how many new keys of idempotency a second the spend door has room for; empty where the door is off.
#[must_use]
pub fn rate_of_keys(config: &Config) -> String {
    if config.spend.listen.address().is_none() {
        return String::new();
    }
    let (max, keep_s) = (config.spend.keys_max, config.spend.keys_keep_s);
    let rate = u64::try_from(max).unwrap_or(u64::MAX) / keep_s.max(1);
    format!(
        " The spend door has room for {rate} new idempotency keys a second (spend.keys_max = {max}, each kept for spend.keys_keep_s = \
         {keep_s})."
    )
}

/// Lines with a warning that are told one by one.
const WARNINGS_TOLD: usize = 10;

/// What a sound budgets file says that is hardly meant: budgets that cannot spend, or not as their limits say.
#[must_use]
pub fn warnings(file: &Path, now: money::Instant) -> Vec<String> {
    let Ok(budgets) = budgets::read(file) else { return Vec::new() };
    let mut told: Vec<String> = budgets::warnings(&budgets, &file.display().to_string(), now)
        .iter()
        .map(ToString::to_string)
        .collect();
    let more = told.len().saturating_sub(WARNINGS_TOLD);
    told.truncate(WARNINGS_TOLD);
    told.extend((more > 0).then(|| format!("{}: {more} more lines like these", file.display())));
    told
}

/// What a node on `node.data_dir` would say at its start, against its journal and against a file whose lines are sound, line by
/// line: changes of `unit` and `parent`, and more budgets that end than may. `None`: there is no journal to judge by. Only reads,
/// also beside a running node.
///
/// # Errors
/// Why a start would refuse the journal, or why the log of edits cannot be read.
pub fn against_journal(
    config: &Config,
    file: Option<&Path>,
) -> Result<Option<Vec<String>>, String> {
    let data = &config.node.data_dir;
    let bank = journal::bank_of_start(data, config.node.id)?;
    let Some(bank) = bank else { return Ok(None) };
    let Some(file) = file else { return Ok(Some(Vec::new())) };
    let Ok(lines) = budgets::read_lines(file) else { return Ok(Some(Vec::new())) };
    let places: HashMap<u64, usize> =
        lines.iter().map(|line| (line.budget.spec.id, line.budget.line)).collect();
    let now = money::Instant::from_ms(probe::NodeClock::new().now_ms());
    let share = config.budgets.end_share_max_percent;
    let told = weir_edits::judge_as_node(&data.join("edits"), lines, &bank, share, now);
    let told = told.map_err(|error| format!("edits: {error}"))?;
    let text = |(id, text): (u64, String)| match places.get(&id) {
        Some(line) => format!("{}:{line}: {text}", file.display()),
        None => format!("{}: {text}", file.display()),
    };
    Ok(Some(told.into_iter().map(text).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_keys_is_their_room_over_their_time() {
        let mut config = Config::default();
        let told = rate_of_keys(&config);
        assert!(told.contains("1111 new idempotency keys a second"), "{told}");
        config.spend.keys_keep_s = 86_400;
        assert!(rate_of_keys(&config).contains(" 46 new"), "{}", rate_of_keys(&config));
        config.spend.listen = "".parse().unwrap();
        assert_eq!(rate_of_keys(&config), "");
    }
}
