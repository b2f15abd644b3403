//! The certificates of the workers' doors: read at the start, and again while the node runs.

use door_transport::tls::{ServerTls, TlsError};

use weir_config::config::Config;
use weir_config::doors::{DOORS, DoorSpec, TlsFiles};

/// What is in force at each door of the workers, in the order of [`DOORS`]; `None` for one without TLS.
#[derive(Clone, Debug)]
pub struct Certificates(Vec<Option<DoorTls>>);

#[derive(Clone, Debug)]
struct DoorTls {
    tls: ServerTls,
    /// Clients must show a certificate.
    asks_clients: bool,
}

impl Certificates {
    /// Reads the files that a configuration names.
    ///
    /// # Errors
    /// What is wrong at any of the doors.
    pub fn read(config: &Config) -> Result<Certificates, Vec<String>> {
        let (found, failed): (Vec<_>, Vec<_>) =
            DOORS.iter().map(|door| read(door, config)).partition(Result::is_ok);
        let errors: Vec<String> = failed.into_iter().filter_map(Result::err).flatten().collect();
        if errors.is_empty() {
            Ok(Certificates(found.into_iter().flatten().collect()))
        } else {
            Err(errors)
        }
    }

    /// Reads the files again, for [`replace`](Self::replace).
    ///
    /// # Errors
    /// What is wrong at any of the doors, or what only a start can change.
    pub fn read_again(&self, config: &Config) -> Result<Certificates, Vec<String>> {
        let read = Certificates::read(config)?;
        let doors = DOORS.iter().zip(&self.0).zip(&read.0);
        let errors: Vec<String> =
            doors.filter_map(|((door, live), new)| only_at_a_start(door.name, live, new)).collect();
        if errors.is_empty() { Ok(read) } else { Err(errors) }
    }

    /// Puts others in force at the doors that have TLS: the next handshake is judged by them. Open connections go on.
    pub fn replace(&self, with: &Certificates) {
        for (live, new) in self.0.iter().zip(&with.0) {
            if let (Some(live), Some(new)) = (live, new) {
                live.tls.replace(&new.tls);
            }
        }
    }

    /// Of the door at this place.
    pub(crate) fn of(&self, door: usize) -> Option<&ServerTls> {
        self.0.get(door).and_then(Option::as_ref).map(|door| &door.tls)
    }
}

fn read(door: &DoorSpec, config: &Config) -> Result<Option<DoorTls>, Vec<String>> {
    let Some(texts) = door.read_tls(config)? else { return Ok(None) };
    let asks_clients = texts.asks_clients();
    let tls =
        ServerTls::new(&texts.options()).map_err(|error| vec![wrong(door, config, &error)])?;
    Ok(Some(DoorTls { tls, asks_clients }))
}

/// Returns what of a door's TLS would change that only a start may change: without this, a door that asks for certificates would stand
/// open after a key was emptied by mistake.
fn only_at_a_start(name: &str, live: &Option<DoorTls>, new: &Option<DoorTls>) -> Option<String> {
    let asks = |tls: &Option<DoorTls>| tls.as_ref().is_some_and(|tls| tls.asks_clients);
    if live.is_some() != new.is_some() {
        return Some(format!(
            "{name}.tls_cert: a door gets or loses TLS only at a start; restart the node"
        ));
    }
    (asks(live) != asks(new)).then(|| {
        format!(
            "{name}.tls_clients: a door begins or ceases to ask clients for certificates only at a start; restart the node"
        )
    })
}

/// Says which file is at fault, and by which key it is named.
fn wrong(door: &DoorSpec, config: &Config, error: &TlsError) -> String {
    let TlsFiles { cert, key, clients } = (door.tls)(config);
    let name = door.name;
    let which = match error {
        TlsError::Roots(_)
        | TlsError::Root(_)
        | TlsError::Pem { what: "roots", .. }
        | TlsError::Empty { what: "roots" } => format!("tls_clients {clients}"),
        TlsError::Pem { what: "private key", .. } => format!("tls_key {key}"),
        TlsError::Pair(_) => format!("tls_cert {cert} and {name}.tls_key {key}"),
        _ => format!("tls_cert {cert}"),
    };
    format!("{name}.{which}: {error}")
}
