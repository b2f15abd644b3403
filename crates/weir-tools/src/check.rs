//! `weir check`: a data folder and a budgets file judged as a start of a node on them would judge them.

use std::collections::HashMap;
use std::path::Path;

use vault_store::KekSource;
use weir_budgets::budgets::{self, Budget};
use weir_budgets::campaign_index::ExchangeTerms;
use weir_budgets::orders;
use weir_config::config::Config;
use weir_config::doors::{DOORS, DoorSpec};

use crate::{journal, vault};

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

/// What the file with the key of the vault is worth.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeyOfVault {
    /// What is hardly meant: there is no such file, so that the keys stay sealed.
    pub warning: Option<String>,
    /// A sentence about the keys that it opens; empty where there is nothing to say.
    pub found: String,
}

/// Judges the file with the key of the vault, and the keys of the data folder, as a start would.
///
/// # Errors
/// Why a start would refuse it; it begins with the key of the configuration, if that is at fault.
pub fn key_of_vault(config: &Config) -> Result<KeyOfVault, String> {
    let mut judged = KeyOfVault::default();
    if config.keys.listen.address().is_none() {
        return Ok(judged);
    }
    let folder = config.node.data_dir.join("vault");
    let (has_keys, begun) = (folder.join("keys").exists(), folder.with_file_name("vault-begun"));
    if !has_keys && begun.exists() {
        let (folder, begun) = (folder.display(), begun.display());
        return Err(format!(
            "keys: {folder} has no keys, and {begun} says that it had some; a start here is refused"
        ));
    }
    let file = &config.vault.key_file;
    if file.is_empty() {
        return Ok(judged);
    }
    let source = KekSource::File(file.into());
    let read = source.read().map_err(|error| format!("{error}; a start here is refused"))?;
    let Some(kek) = read else {
        judged.warning = Some(format!("{}; the keys stay sealed", source.absence()));
        return Ok(judged);
    };
    let count = match has_keys {
        true => vault::judge(&folder, kek)
            .map_err(|error| format!("{source}: {error}; a start here is refused"))?,
        false => None,
    };
    judged.found = match count {
        Some(count) => {
            format!(" The key of {source} opens the keys in {}: {count}.", folder.display())
        }
        None => format!(
            " There are no keys in {} yet: the key of {source} becomes theirs at the first start.",
            folder.display()
        ),
    };
    Ok(judged)
}

/// Lines with a doubt of one kind that are told one by one.
const WARNINGS_TOLD: usize = 3;

/// What a sound budgets file says that is hardly meant: budgets that cannot spend, or not as their limits say, and
/// creatives that the notices of this configuration keep from secure pages.
#[must_use]
pub fn warnings(config: &Config, file: &Path, now: money::Instant) -> Vec<String> {
    let read = if file.exists() { budgets::read(file) } else { Ok(Vec::new()) };
    let Ok(budgets) = read else { return Vec::new() };
    let mut found = budgets::warnings(&budgets, &file.display().to_string(), now);
    found.sort_by_key(|(doubt, _)| *doubt);
    let mut told = Vec::new();
    for alike in found.chunk_by(|(one, _), (other, _)| one == other) {
        told.extend(alike.iter().take(WARNINGS_TOLD).map(|(_, line)| line.to_string()));
        let more = alike.len().saturating_sub(WARNINGS_TOLD);
        let lines = if more == 1 { "line" } else { "lines" };
        let text = || format!("{}: {more} more {lines} of which the same is true", file.display());
        told.extend((more > 0).then(text));
    }
    told.extend(
        orders::crowded(&budgets, &file.display().to_string()).map(|told| told.to_string()),
    );
    told.extend(insecure_notices(config, file, &budgets));
    told.extend(order_limits(config, file, &budgets));
    let alerts = budgets.iter().filter(|budget| !budget.alerts.is_empty()).count();
    told.extend((alerts > 0 && config.alerts.url.is_empty()).then(|| {
        let file = file.display();
        format!("{file}: {alerts} of its budgets alert nobody: alerts.url is empty, set it, or take `alerts` out of their lines")
    }));
    told
}

/// Budgets that bind orders which no session holds against them, or sessions whose orders no budget binds.
fn order_limits(config: &Config, file: &Path, budgets: &[Budget]) -> Option<String> {
    let is_live = |budget: &&Budget| budget.spec.status != ledger::Status::Ended;
    let binds = budgets.iter().filter(is_live).filter(|budget| budget.orders.is_some()).count();
    let limited = config.arrays.fix_session.iter().filter(|session| session.limits != "none");
    let (limited, file) = (limited.count(), file.display());
    match (binds, limited) {
        (1.., 0) => Some(format!(
            "{file}: {binds} of its budgets bind orders, and no fix.session has limits = \"budgets\": no order is held in them"
        )),
        (0, 1..) => Some(format!(
            "{file}: none of its budgets has `orders`, and limits = \"budgets\" of {limited} fix.session holds each order in one: every order is refused with \"no budget\""
        )),
        _ => None,
    }
}

fn insecure_notices(config: &Config, file: &Path, budgets: &[Budget]) -> Option<String> {
    config.openrtb.listen.address()?;
    let creatives = ExchangeTerms::of(config).insecure_creatives(budgets);
    (creatives > 0).then(|| {
        format!(
            "{}: creatives whose markup has addresses of our notices, {creatives} of them, are not shown where an impression says \
             `secure` 1, as nearly all do: the notices are HTTP; set openrtb.public_url to an https:// address, or openrtb.tls_cert",
            file.display()
        )
    })
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
    use vault_store::KeyFile;

    use super::*;

    #[test]
    fn the_file_with_the_key_of_the_vault_is_read_as_a_start_reads_it() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kek");
        let mut config = Config::default();
        assert_eq!(key_of_vault(&config), Ok(KeyOfVault::default()));
        config.vault.key_file = file.display().to_string();
        config.node.data_dir = folder.path().join("data");
        let missing = key_of_vault(&config).unwrap();
        let warning = missing.warning.unwrap();
        assert!(warning.contains("there is no such file; the keys stay sealed"), "{warning}");
        assert_eq!(missing.found, "");
        for (text, mode, wrong) in [
            ("11".repeat(32), 0o600, None),
            ("11".repeat(31), 0o600, Some("expected 64 hexadecimal digits")),
            ("11".repeat(32), 0o644, Some("its mode is 644")),
        ] {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            match (key_of_vault(&config), wrong) {
                (Ok(KeyOfVault { warning: None, found }), None) => {
                    assert!(found.contains("There are no keys in"), "{found}");
                }
                (Err(error), Some(wrong)) => {
                    assert!(
                        error.starts_with("vault.key_file ") && error.contains(wrong),
                        "{error}"
                    );
                }
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn the_keys_of_the_data_folder_are_judged_as_a_start_judges_them() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let (file, data) = (folder.path().join("kek"), folder.path().join("data"));
        let mut config = Config::default();
        config.vault.key_file = file.display().to_string();
        config.node.data_dir.clone_from(&data);
        let kept = data.join("vault");
        std::fs::create_dir_all(&kept).unwrap();
        let (written, keys) = KeyFile::open(&kept, vault_store::Options::default()).unwrap();
        let secret = ::vault::SecretKey::from_bytes(&[0x11; 32]);
        let mut store = ::vault::KeyStore::new(keys, written).unwrap();
        store.unseal(::vault::KeyEncryptionKey::new(&secret)).unwrap();
        drop(store);
        let judged = |digits: &str| {
            std::fs::write(&file, digits.repeat(32)).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            key_of_vault(&config)
        };
        let before = std::fs::read(kept.join("keys")).unwrap();
        let opens = format!("opens the keys in {}: 0.", kept.display());
        let found = judged("11").unwrap().found;
        assert!(
            found.starts_with(" The key of vault.key_file ") && found.ends_with(&opens),
            "{found}"
        );
        let refused = |digits: &str| judged(digits).unwrap_err();
        let other = refused("22");
        assert!(other.starts_with(&format!("vault.key_file {}: ", file.display())), "{other}");
        assert!(other.ends_with("a start here is refused"), "{other}");
        assert_eq!(std::fs::read(kept.join("keys")).unwrap(), before, "nothing is written");
        std::fs::write(kept.join("keys"), [&[0xff], &before[1..]].concat()).unwrap();
        assert!(refused("11").contains(&kept.display().to_string()), "{}", refused("11"));
        std::fs::remove_file(kept.join("keys")).unwrap();
        let found = judged("11").unwrap().found;
        assert!(found.contains("becomes theirs at the first start"), "{found}");
        std::fs::write(data.join("vault-begun"), "").unwrap();
        assert!(refused("11").contains("says that it had some"), "{}", refused("11"));
    }

    #[test]
    fn notices_that_keep_creatives_from_secure_pages_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("budgets.jsonl");
        let told = |markup: &str, secure: bool, change: &dyn Fn(&mut Config)| {
            let shown = serde_json::json!({"id": "v", "format": "banner", "sizes": "any", "adomain": ["a.example"],
                "markup": markup, "secure": secure});
            let line = serde_json::json!({"id": 1, "limit": "9", "bid": "1", "creatives": [shown]});
            std::fs::write(&file, line.to_string()).unwrap();
            let mut config = Config::default();
            change(&mut config);
            let told = warnings(&config, &file, money::Instant::from_ms(0));
            told.iter().filter(|line| line.contains("openrtb.public_url")).count()
        };
        let calls = "<img src=\"${WEIR_BURL}\">";
        assert_eq!(told(calls, true, &|_| ()), 1);
        assert_eq!(told("<b>", true, &|_| ()), 0, "no notice stands in it");
        assert_eq!(told(calls, false, &|_| ()), 0, "it does not claim to be");
        assert_eq!(
            told(calls, true, &|config| config.openrtb.public_url = "http://a.example".into()),
            1
        );
        assert_eq!(
            told(calls, true, &|config| config.openrtb.public_url = "https://a.example".into()),
            0
        );
        assert_eq!(told(calls, true, &|config| config.openrtb.tls_cert = "a.pem".into()), 0);
        assert_eq!(told(calls, true, &|config| config.openrtb.listen = "".parse().unwrap()), 0);
    }

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
