//! The certificates of the workers' doors: read at the start, and again while the node runs.

use door_transport::tls::ServerTls;

use weir_config::config::Config;
use weir_config::doors::{DOORS, DoorSpec, TlsTexts};

/// What is in force at each door of the workers, in the order of [`DOORS`]; `None` for one without TLS.
#[derive(Clone, Debug)]
pub struct Certificates(Vec<Option<ServerTls>>);

impl Certificates {
    /// Reads the files that a configuration names.
    ///
    /// # Errors
    /// What is wrong at any of the doors.
    pub fn read(config: &Config) -> Result<Certificates, Vec<String>> {
        let read = read_all(config)?;
        Ok(Certificates(read.into_iter().map(|found| found.map(|(tls, _)| tls)).collect()))
    }

    /// Reads the files again and puts them in force: the next handshake is judged by them. Open connections go on.
    ///
    /// # Errors
    /// What is wrong at any of the doors, or what only a start can change; all doors then keep the certificates that they
    /// have.
    pub fn reload(&self, config: &Config) -> Result<(), Vec<String>> {
        let read = read_all(config)?;
        let doors = DOORS.iter().zip(&self.0).zip(&read);
        let changed = doors.filter(|((_, live), new)| live.is_some() != new.is_some());
        let errors: Vec<String> = changed
            .map(|((door, _), _)| {
                let name = door.name;
                format!(
                    "{name}.tls_cert: a door gets or loses TLS at a start only; restart the node"
                )
            })
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        for ((door, live), new) in DOORS.iter().zip(&self.0).zip(&read) {
            if let (Some(live), Some((_, texts))) = (live, new) {
                live.reload(&texts.options()).map_err(|error| vec![wrong(door, &error)])?;
            }
        }
        Ok(())
    }

    /// Of the door at this place.
    pub(crate) fn of(&self, door: usize) -> Option<&ServerTls> {
        self.0.get(door).and_then(Option::as_ref)
    }
}

/// By door, what its files hold, and that it can be used.
fn read_all(config: &Config) -> Result<Vec<Option<(ServerTls, TlsTexts)>>, Vec<String>> {
    let read = |door: &DoorSpec| {
        let Some(texts) = door.read_tls(config)? else { return Ok(None) };
        let tls = ServerTls::new(&texts.options()).map_err(|error| wrong(door, &error))?;
        Ok(Some((tls, texts)))
    };
    let (found, failed): (Vec<_>, Vec<_>) = DOORS.iter().map(read).partition(Result::is_ok);
    let errors: Vec<String> = failed.into_iter().filter_map(Result::err).collect();
    if errors.is_empty() { Ok(found.into_iter().flatten().collect()) } else { Err(errors) }
}

fn wrong(door: &DoorSpec, error: &door_transport::tls::TlsError) -> String {
    format!("{name}.tls_cert, {name}.tls_key, {name}.tls_clients: {error}", name = door.name)
}
