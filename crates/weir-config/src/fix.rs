//! The sessions of the FIX door, as the configuration has them.

use door_fix::{AddressRange, FixSessions, Limits, Route, SessionKeys, SessionSpec};
use fix_session::Schedule;

use crate::arrays::FixSession;
use crate::config::{Config, ConfigError};

/// Returns the checked sessions of a configuration.
///
/// # Errors
/// What is wrong with any of them, with the line of its entry.
pub fn sessions(config: &Config) -> Result<FixSessions, Vec<ConfigError>> {
    let (specs, failed): (Vec<_>, Vec<_>) =
        config.arrays.fix_session.iter().map(spec).partition(Result::is_ok);
    let errors: Vec<ConfigError> = failed.into_iter().filter_map(Result::err).flatten().collect();
    if !errors.is_empty() {
        return Err(errors);
    }
    let told = |error: door_fix::ConfigError| ConfigError {
        place: "fix.session".into(),
        text: error.to_string(),
    };
    FixSessions::new(specs.into_iter().flatten().collect(), Vec::new())
        .map_err(|errors| errors.into_iter().map(told).collect())
}

fn spec(entry: &FixSession) -> Result<SessionSpec, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let mut wrong = |key: &str, text: String| {
        let text = format!("fix.session.{key}: {text}");
        errors.push(ConfigError { place: entry.place.clone(), text });
    };
    for (key, value) in
        [("sender_comp_id", &entry.sender_comp_id), ("target_comp_id", &entry.target_comp_id)]
    {
        if value.is_empty() {
            wrong(key, "is not set, expected a CompID, such as \"GATE\"".into());
        }
    }
    if entry.limits != "none" {
        let found = &entry.limits;
        wrong(
            "limits",
            format!(
                "found {found:?}, expected \"none\": the gate asks for no money yet, which has to be said"
            ),
        );
    }
    if entry.route != "echo" {
        wrong("route", format!("found {:?}, expected \"echo\"", entry.route));
    }
    let schedule = Schedule::parse(&entry.schedule);
    if let Err(error) = &schedule {
        wrong("schedule", error.to_string());
    }
    let ranges: Vec<Result<AddressRange, _>> =
        entry.source_addresses.iter().map(|text| text.parse()).collect();
    for error in ranges.iter().filter_map(|range| range.as_ref().err()) {
        wrong("source_addresses", error.to_string());
    }
    let Ok(schedule) = schedule else { return Err(errors) };
    if !errors.is_empty() {
        return Err(errors);
    }
    let (sender, target) = (&entry.sender_comp_id, &entry.target_comp_id);
    let name = if entry.name.is_empty() { target } else { &entry.name };
    let certificate = Some(&entry.certificate_name).filter(|name| !name.is_empty());
    Ok(SessionSpec {
        keys: SessionKeys {
            name: name.clone(),
            begin_string: entry.begin_string.clone(),
            default_appl_ver_id: entry.default_appl_ver_id.clone(),
            sender_comp_id: sender.clone(),
            target_comp_id: target.clone(),
            heart_bt_int_s: entry.heart_bt_int_s,
            reset_on_logon: entry.reset_on_logon,
            next_expected: entry.next_expected,
            resend_chunk: entry.resend_chunk,
            schedule,
            throttle_per_s: entry.throttle_per_s,
            durability: entry.durability,
            max_latency_s: entry.max_latency_s,
            validation: entry.validation,
            body_bytes_max: entry.body_bytes_max,
            outbound_bytes_max: entry.outbound_bytes_max,
        },
        limits: Some(Limits::None),
        route: Route::Echo,
        source_addresses: ranges.into_iter().flatten().collect(),
        certificate_name: certificate.cloned(),
    })
}
