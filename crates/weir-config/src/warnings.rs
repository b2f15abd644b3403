//! What a configuration may say and hardly means.

use std::path::{Path, PathBuf};

use door_transport::cores::CoreList;

use crate::config::{self, Config, ConfigError};

/// Warnings about a sound configuration, by the files that are there now.
#[must_use]
pub fn warnings(config: &Config) -> Vec<String> {
    let (key_file, data) = (Path::new(&config.vault.key_file), &config.node.data_dir);
    let beside = key_beside_its_keys("vault.key_file", key_file, data);
    beside.into_iter().chain(open_beside_guarded(config)).collect()
}

/// The configuration file that stands in this folder and nobody named: people take it for read.
#[must_use]
pub fn unread_file(named: Option<&Path>) -> Option<String> {
    unread_in(Path::new(""), named)
}

fn unread_in(folder: &Path, named: Option<&Path>) -> Option<String> {
    let usual = folder.join("weir.toml");
    (named.is_none() && usual.is_file())
        .then(|| format!("{} is not read: name it with --config weir.toml", usual.display()))
}

/// A core that `workers.cores` names and this machine does not have, or does not give this process. A check warns of it, because the
/// file may be for another machine; a start refuses it.
#[must_use]
pub fn missing_core(config: &Config, file: Option<&Path>) -> Option<ConfigError> {
    let allowed = door_transport::cores::allowed().ok()?;
    let text = missing_of(&config.workers.cores, &allowed)?;
    let place = config::place_of(file, config::environment(), "workers.cores");
    Some(ConfigError { place: place.unwrap_or_else(|| "workers".into()), text })
}

fn missing_of(cores: &CoreList, allowed: &[usize]) -> Option<String> {
    let CoreList::Cores(named) = cores else { return None };
    let missing = named.iter().find(|core| !allowed.contains(core))?;
    let there = CoreList::Cores(allowed.to_vec());
    Some(format!(
        "workers.cores: found {cores}, expected cores of {there}, which this process may use on this machine; core {missing} is not among them"
    ))
}

/// A worker that a door is to have and that there is not on this machine, where `workers.cores` leaves their number to it; else
/// [`config::load`] refuses it. A check warns of it, because the file may be for another machine; a start refuses it.
#[must_use]
pub fn missing_worker(config: &Config, file: Option<&Path>) -> Option<ConfigError> {
    let cores = &config.workers.cores;
    let allowed = door_transport::cores::allowed().ok()?;
    let workers = cores.place(&allowed).ok()?.workers.len();
    let (door, text) = crate::doors::all_doors()
        .find_map(|door| Some((door, door.missing_home(config, workers)?)))
        .filter(|_| *cores == CoreList::Auto)?;
    let place = config::place_of(file, config::environment(), &format!("{}.worker", door.name));
    let text = format!("{text}: as many as this machine gives by workers.cores = \"auto\"");
    Some(ConfigError { place: place.unwrap_or_else(|| door.name.into()), text })
}

/// Who asks one door for tokens believes that money is guarded; another that lets everybody spend, or change budgets, says otherwise.
fn open_beside_guarded(config: &Config) -> Vec<String> {
    let (batch, spend, admin) = (&config.batch, &config.spend, &config.admin);
    let is_set = |words: &[&String]| words.iter().any(|word| !word.is_empty());
    let doors = [
        (
            "batch",
            &batch.listen,
            is_set(&[&batch.tokens_file, &batch.auth_token, &batch.tls_clients]),
        ),
        ("spend", &spend.listen, is_set(&[&spend.tokens_file, &spend.tls_clients])),
        ("admin", &admin.listen, is_set(&[&admin.tokens_file])),
    ];
    let guarded = doors.iter().find(|(_, listen, guarded)| *guarded && listen.address().is_some());
    let Some((guarded, ..)) = guarded else { return Vec::new() };
    let open = doors.iter().filter(|(_, _, guarded)| !guarded);
    let told = open.filter_map(|(door, listen, _)| {
        let address = listen.address()?;
        let what = if *door == "admin" { "change budgets" } else { "spend" };
        Some(format!(
            "{door}.listen: everybody who reaches {address} may {what} without a token, though the {guarded} door asks for one; set \
             {door}.tokens_file, or {door}.listen = \"\" to close it"
        ))
    });
    told.collect()
}

/// A file with the key that wraps the keys, named by `named`, that lies in the data folder: whoever copies that, for a backup say, copies the
/// key that opens what is in it.
#[must_use]
pub fn key_beside_its_keys(named: &str, key_file: &Path, data: &Path) -> Option<String> {
    if key_file.as_os_str().is_empty() {
        return None;
    }
    whole(key_file).starts_with(whole(data)).then(|| {
        format!(
            "{named}: {} lies in the data folder {}: whoever has a copy of the folder can unseal it; keep the key elsewhere",
            key_file.display(),
            data.display()
        )
    })
}

/// The path without links, as far as there is something.
fn whole(path: &Path) -> PathBuf {
    if let Ok(whole) = path.canonicalize() {
        return whole;
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) if !parent.as_os_str().is_empty() => whole(parent).join(name),
        (_, Some(name)) => whole(Path::new(".")).join(name),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_file_that_nobody_named_is_told() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(unread_in(folder.path(), None), None);
        std::fs::write(folder.path().join("weir.toml"), "").unwrap();
        let told = unread_in(folder.path(), None).unwrap();
        assert!(told.ends_with("weir.toml is not read: name it with --config weir.toml"), "{told}");
        assert_eq!(unread_in(folder.path(), Some(Path::new("other.toml"))), None);
    }

    #[test]
    fn a_core_that_is_not_there_is_told_with_those_that_are() {
        let told = |cores: &str| missing_of(&cores.parse().unwrap(), &[0, 1, 2, 5]);
        assert_eq!((told("auto"), told("2,5,0")), (None, None));
        let text = told("0,3").unwrap();
        assert!(text.starts_with("workers.cores: found 0,3, expected cores of 0-2,5,"), "{text}");
        assert!(text.ends_with("core 3 is not among them"), "{text}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        std::fs::write(&file, "[node]\nid = 2\n[workers]\n\ncores = \"1023\"\n").unwrap();
        let config = config::load(Some(&file), std::iter::empty(), &[]).unwrap();
        let told = missing_core(&config, Some(&file)).unwrap();
        assert_eq!(told.place, format!("{}:5", file.display()));
    }

    #[test]
    fn a_worker_that_there_is_not_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("weir.toml");
        let read = |text: &str| {
            let session = "[[fix.session]]\nsender_comp_id = \"G\"\ntarget_comp_id = \"C\"\nlimits = \"none\"\nroute = \"echo\"\n";
            std::fs::write(&file, format!("{text}{session}")).unwrap();
            config::load(Some(&file), std::iter::empty(), &[])
        };
        let far = read("[fix]\nworker = 9000\n").unwrap();
        let told = missing_worker(&far, Some(&file)).unwrap();
        assert_eq!(told.place, format!("{}:2", file.display()));
        assert!(told.text.starts_with("fix.worker: found 9000, expected 0"), "{told}");
        let near = read("[fix]\nworker = 0\n").unwrap();
        assert!(missing_worker(&near, Some(&file)).is_none());
        // Where the cores are named the file alone tells how many workers there are.
        let cores = "[workers]\ncores = \"0,1\"\n[fix]\n";
        read(&format!("{cores}worker = 1\n")).unwrap();
        let errors = read(&format!("{cores}worker = 2\n")).unwrap_err();
        assert_eq!(
            errors[0].to_string(),
            format!("{}:4: fix.worker: found 2, expected 0 to 1 or \"last\"", file.display())
        );
        std::fs::write(&file, format!("{cores}worker = 2\n")).unwrap();
        config::load(Some(&file), std::iter::empty(), &[]).expect("the door is off");
    }

    #[test]
    fn a_door_that_is_open_beside_one_that_asks_for_tokens_is_told() {
        let told = |change: &dyn Fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            let starts = warnings(&config).into_iter();
            starts.map(|told| told.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(told(&|_| ()), [""; 0], "by default this machine is trusted");
        let spend = |config: &mut Config| config.spend.tokens_file = "tokens".into();
        assert_eq!(told(&spend), ["batch.listen", "admin.listen"]);
        let rest = |config: &mut Config| {
            spend(config);
            config.batch.auth_token = "secret".into();
            config.admin.tokens_file = "tokens".into();
        };
        assert_eq!(told(&rest), [""; 0]);
        let admin = |config: &mut Config| {
            config.admin.tokens_file = "tokens".into();
            config.batch.listen = "".parse().unwrap();
        };
        assert_eq!(told(&admin), ["spend.listen"], "what is off is not open");
    }

    #[test]
    fn a_key_in_the_data_folder_is_told_however_its_path_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&data, &link).unwrap();
        let told = |data: &Path, key_file: PathBuf| {
            let mut config = Config::default();
            config.node.data_dir = data.to_owned();
            config.vault.key_file = key_file.to_str().unwrap().to_owned();
            warnings(&config)
        };
        for inside in ["kek", "vault/kek", "../data/kek"] {
            assert_eq!(told(&data, data.join(inside)).len(), 1, "{inside}");
        }
        assert_eq!(told(&data, link.join("kek")).len(), 1);
        assert_eq!(told(&link, data.join("kek")).len(), 1);
        for outside in ["kek", "data-2/kek"] {
            assert!(told(&data, folder.path().join(outside)).is_empty(), "{outside}");
        }
        assert!(told(&data, PathBuf::new()).is_empty(), "none is configured");
    }
}
