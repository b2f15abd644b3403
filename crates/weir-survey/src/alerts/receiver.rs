//! Who gets alerts: the section `[alerts]` of `weir.toml` and the files that it names.

use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use webhook::{Endpoint, Options, Reach, Report, Secret, Sender, Trust};
use weir_config::config::{Config, ConfigError};

/// What the sender calls the receiver.
pub(super) const NAME: &str = "alerts";
/// How long an attempt may take: a stop waits for one that is under way.
const WAIT: Duration = Duration::from_secs(5);

/// Starts a sender to the receiver; `None` where none is configured.
///
/// # Errors
/// What is wrong with the section or its files, with the key that it is about.
pub(crate) fn start(config: &Config) -> Result<Option<(Sender, Receiver<Report>)>, String> {
    if config.alerts.url.is_empty() {
        return Ok(None);
    }
    let (endpoint, trust) = read(config)?;
    let options = Options { wait: WAIT, reach: Reach::Any, trust, ..Options::default() };
    let (reports, taken) = channel();
    let sender = Sender::start(&options, move |report| drop(reports.send(report)))
        .map_err(|error| format!("alerts.url: no webhook can be sent: {error}"))?;
    sender.put(endpoint).map_err(|error| format!("alerts.url: {error}"))?;
    Ok(Some((sender, taken)))
}

/// Judges the files that the section names.
#[must_use]
pub fn judge_files(config: &Config) -> Vec<ConfigError> {
    let is_there = !config.alerts.url.is_empty();
    let fault = is_there.then(|| read(config).err()).flatten();
    fault.map(|text| ConfigError { place: "alerts".into(), text }).into_iter().collect()
}

fn read(config: &Config) -> Result<(Endpoint, Trust), String> {
    let alerts = &config.alerts;
    let file = read_file("alerts.secret_file", &alerts.secret_file)?;
    let lines = file.lines().map(str::trim).filter(|line| !line.is_empty());
    let secrets: Result<Vec<Secret>, _> = lines.map(Secret::parse).collect();
    let secrets = secrets.map_err(|error| {
        let file = &alerts.secret_file;
        format!("alerts.secret_file: {file}: {error}, one secret in each line, the newest first")
    })?;
    let endpoint = Endpoint::new(NAME, &alerts.url, secrets);
    let endpoint = endpoint.map_err(|error| format!("alerts.url: {error}"))?;
    let trust = match (alerts.tls_ca.is_empty(), alerts.url.starts_with("https:")) {
        (true, true) => Trust::System,
        (true, false) => Trust::Only(Vec::new()),
        (false, _) => Trust::Only(certificates(&alerts.tls_ca)?),
    };
    Ok((endpoint, trust))
}

fn certificates(path: &str) -> Result<Vec<Vec<u8>>, String> {
    let file = read_file("alerts.tls_ca", path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(file.as_bytes()).collect();
    let read = read.map_err(|error| format!("alerts.tls_ca: {path}: {error}"))?;
    match read.is_empty() {
        true => Err(format!("alerts.tls_ca: {path}: no certificate in it, expected PEM")),
        false => Ok(read.into_iter().map(|one| one.to_vec()).collect()),
    }
}

fn read_file(key: &str, path: &str) -> Result<String, String> {
    std::fs::read_to_string(Path::new(path)).map_err(|error| format!("{key}: {path}: {error}"))
}
