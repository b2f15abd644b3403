//! The certificates of the workers' doors: read at the start, and again while the node runs.

use door_transport::tls::ServerTls;

use weir_config::config::Config;
use weir_config::doors::{DOORS, DoorSpec};

/// What is in force at each door of the workers, in the order of [`DOORS`]; `None` for one without TLS.
#[derive(Clone, Debug)]
pub struct Certificates(Vec<Option<ServerTls>>);

impl Certificates {
    /// Reads the files that a configuration names.
    ///
    /// # Errors
    /// What is wrong at any of the doors.
    pub fn read(config: &Config) -> Result<Certificates, Vec<String>> {
        let read = |door: &DoorSpec| {
            let Some(texts) = door.read_tls(config)? else { return Ok(None) };
            ServerTls::new(&texts.options()).map(Some).map_err(|error| wrong(door, &error))
        };
        let (found, failed): (Vec<_>, Vec<_>) = DOORS.iter().map(read).partition(Result::is_ok);
        let errors: Vec<String> = failed.into_iter().filter_map(Result::err).collect();
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
        let changed = doors.filter(|((_, live), new)| live.is_some() != new.is_some());
        let errors: Vec<String> = changed
            .map(|((door, _), _)| {
                let name = door.name;
                format!(
                    "{name}.tls_cert: a door gets or loses TLS only at a start; restart the node"
                )
            })
            .collect();
        if errors.is_empty() { Ok(read) } else { Err(errors) }
    }

    /// Puts others in force at the doors that have TLS: the next handshake is judged by them. Open connections go on.
    pub fn replace(&self, with: &Certificates) {
        for (live, new) in self.0.iter().zip(&with.0) {
            if let (Some(live), Some(new)) = (live, new) {
                live.replace(new);
            }
        }
    }

    /// Of the door at this place.
    pub(crate) fn of(&self, door: usize) -> Option<&ServerTls> {
        self.0.get(door).and_then(Option::as_ref)
    }
}

fn wrong(door: &DoorSpec, error: &door_transport::tls::TlsError) -> String {
    format!("{name}.tls_cert, {name}.tls_key, {name}.tls_clients: {error}", name = door.name)
}
