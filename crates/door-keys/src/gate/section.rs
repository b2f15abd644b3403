//! What unseals the keys of the keys door, as far as the configuration alone can tell whether it may.

use std::net::IpAddr;

use weir_config::config::{Config, ConfigError};

/// What each key of the vault that names a place of the key is called.
const SOURCES: &str = "vault.key_file, vault.key_env, vault.key_program and vault.transit_address";

/// Returns what is wrong with the section `vault`.
#[must_use]
pub fn judge(config: &Config) -> Vec<ConfigError> {
    let without_place = |text| ConfigError { place: String::new(), text };
    faults(config).into_iter().map(without_place).collect()
}

/// Returns what is wrong, and what was expected.
fn faults(config: &Config) -> Vec<String> {
    let vault = &config.vault;
    let sources = [&vault.key_file, &vault.key_env, &vault.key_program, &vault.transit_address];
    let set = sources.iter().filter(|source| !source.is_empty()).count();
    let mut faults: Vec<String> =
        secrets_for_names(config).chain(secrets_for_files(config)).collect();
    if set > 1 {
        faults.push(format!("{SOURCES}: {set} of them are set, expected one at most"));
    }
    if vault.transit_address.is_empty() {
        faults.extend(without_address(config));
    } else {
        faults.extend(transit(config));
    }
    faults
}

/// Secrets that stand where the name of a variable belongs. They are not repeated: errors and logs are for more people than secrets.
fn secrets_for_names(config: &Config) -> impl Iterator<Item = String> {
    let vault = &config.vault;
    let keys = [
        ("key_env", &vault.key_env, "the key itself", "vault.key_file"),
        (
            "transit_token_env",
            &vault.transit_token_env,
            "the token itself",
            "vault.transit_token_file",
        ),
    ];
    let wrong =
        keys.into_iter().filter(|(_, name, ..)| !name.is_empty() && !access::names_variable(name));
    wrong.map(|(key, _, secret, file)| {
        format!(
            "vault.{key}: expected the name of an environment variable (letters, digits and _, such as WEIR_SECRET), and not {secret}; what was found is \
             not repeated here. Put the secret into such a variable, or into a file named by {file}; one that stood here was seen by whoever sees \
             this configuration"
        )
    })
}

/// Secrets that stand where the path of a file belongs. They are not repeated either.
fn secrets_for_files(config: &Config) -> impl Iterator<Item = String> {
    let vault = &config.vault;
    let keys = [
        ("key_file", &vault.key_file),
        ("key_program", &vault.key_program),
        ("transit_token_file", &vault.transit_token_file),
    ];
    let wrong = keys.into_iter().filter(|(_, path)| access::is_secret(path));
    wrong.map(|(key, _)| {
        format!(
            "vault.{key}: expected the path of a file, and not the key or the token itself; what was found is not repeated here. Put the secret into \
             a file of mode 600; one that stood here was seen by whoever sees this configuration"
        )
    })
}

/// Keys that say nothing alone.
fn without_address(config: &Config) -> impl Iterator<Item = String> {
    let vault = &config.vault;
    let keys = [
        ("transit_token_file", &vault.transit_token_file),
        ("transit_token_env", &vault.transit_token_env),
        ("transit_key_name", &vault.transit_key_name),
        ("transit_tls_ca_cert", &vault.transit_tls_ca_cert),
    ];
    let set = keys.into_iter().filter(|(_, value)| !value.is_empty());
    set.map(|(key, _)| format!("vault.{key} is set, and vault.transit_address is not: set both"))
}

fn transit(config: &Config) -> Vec<String> {
    let vault = &config.vault;
    let mut faults: Vec<String> = address_fault(&vault.transit_address).into_iter().collect();
    if [&vault.transit_token_file, &vault.transit_token_env].iter().all(|place| place.is_empty()) {
        faults.push("vault.transit_address is set: set vault.transit_token_file or vault.transit_token_env, too".into());
    } else if !vault.transit_token_file.is_empty() && !vault.transit_token_env.is_empty() {
        faults.push(
            "vault.transit_token_file and vault.transit_token_env: both are set, expected one"
                .into(),
        );
    }
    if !is_name(&vault.transit_key_name) {
        faults.push(format!(
            "vault.transit_key_name: found {:?}, expected the name of a key of the other Transit: letters, digits and -_.",
            vault.transit_key_name
        ));
    }
    if !vault.transit_mount_path.trim_matches('/').split('/').all(is_name) {
        faults.push(format!(
            "vault.transit_mount_path: found {:?}, expected a path such as transit: letters, digits and -_. between slashes",
            vault.transit_mount_path
        ));
    }
    if !vault.transit_tls_ca_cert.is_empty() && vault.transit_address.starts_with("http://") {
        faults.push("vault.transit_tls_ca_cert is set, and vault.transit_address is http://: expected https://".into());
    }
    faults
}

/// A name of a key, or a part of a path.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !matches!(text, "." | "..")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// An address that is none, or to which a secret would go in the clear. One with a password in it is not repeated.
fn address_fault(address: &str) -> Option<String> {
    const EXPECTED: &str = "expected https://HOST:PORT, such as https://keys.example:7703";
    if address.contains('@') {
        return Some(format!(
            "vault.transit_address: a user or a password does not belong there; {EXPECTED}, and the token in vault.transit_token_file"
        ));
    }
    let (scheme, rest) = address.split_once("://").unwrap_or_default();
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    let host = host_of(authority);
    let Some(host) = host.filter(|_| matches!(scheme, "https" | "http")) else {
        return Some(format!("vault.transit_address: found {address:?}, {EXPECTED}"));
    };
    let is_loopback =
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    (scheme == "http" && !is_loopback).then(|| {
        format!("vault.transit_address: found {address:?}, which is beyond this machine and not encrypted; {EXPECTED}")
    })
}

/// The host of `HOST` or `HOST:PORT`, without the brackets of an IPv6 address.
fn host_of(authority: &str) -> Option<&str> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (host, (!port.is_empty()).then_some(port))
        }
        None => {
            let (host, port) = authority.split_at(authority.find(':').unwrap_or(authority.len()));
            (Some(host).filter(|host| is_name(host))?, (!port.is_empty()).then_some(port))
        }
    };
    let is_port = |port: &str| {
        let digits = port.strip_prefix(':').unwrap_or_default();
        digits.bytes().all(|byte| byte.is_ascii_digit())
            && digits.parse::<u16>().is_ok_and(|port| port > 0)
    };
    port.is_none_or(is_port).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Config {
        let mut config = Config::default();
        config.vault.transit_address = "https://keys.example:7703".into();
        config.vault.transit_token_file = "token".into();
        config.vault.transit_key_name = "kek".into();
        config
    }

    /// The faults of a sound configuration after a change.
    fn told(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = sound();
        change(&mut config);
        faults(&config)
    }

    #[test]
    fn one_place_of_the_key_at_most() {
        assert!(faults(&Config::default()).is_empty() && faults(&sound()).is_empty());
        let both = told(|config| config.vault.key_file = "kek".into());
        assert!(both[0].contains("2 of them are set, expected one at most"), "{both:?}");
        let alone = told(|config| config.vault.transit_address.clear());
        assert_eq!(alone.len(), 2, "{alone:?}");
        assert!(alone[0].contains("vault.transit_token_file is set"), "{alone:?}");
    }

    #[test]
    fn a_secret_in_the_place_of_a_variables_name_is_refused_and_not_repeated() {
        let key = "c0ffee00".repeat(8);
        for (secret, is_name) in [(key.as_str(), false), ("c0ffee-c0ffee", false), ("C0FFEE", true)]
        {
            let of_key = told(|config| {
                config.vault = Config::default().vault;
                config.vault.key_env = secret.into();
            });
            let of_token = told(|config| {
                config.vault.transit_token_file.clear();
                config.vault.transit_token_env = secret.into();
            });
            for (fault, key) in [(of_key, "vault.key_env"), (of_token, "vault.transit_token_env")] {
                assert_eq!(fault.len(), usize::from(!is_name), "{fault:?}");
                let text = fault.join("");
                assert!(
                    is_name || text.starts_with(&format!("{key}: expected the name of")),
                    "{text}"
                );
                assert!(!text.to_lowercase().contains("c0ffee"), "{text}");
            }
        }
    }

    #[test]
    fn a_secret_in_the_place_of_a_path_is_refused_and_not_repeated() {
        let key = "c0ffee00".repeat(8);
        let file = format!("/etc/{key}");
        for (path, faults) in [(&key, 1), (&file, 0)] {
            let alone = |set: fn(&mut Config, String)| {
                told(|config| {
                    config.vault = Config::default().vault;
                    set(config, path.clone());
                })
            };
            let of_file = alone(|config, path| config.vault.key_file = path);
            let of_program = alone(|config, path| config.vault.key_program = path);
            let of_token = told(|config| config.vault.transit_token_file = path.clone());
            for (name, fault) in [
                ("key_file", of_file),
                ("key_program", of_program),
                ("transit_token_file", of_token),
            ] {
                assert_eq!(fault.len(), faults, "{fault:?}");
                let text = fault.join("");
                assert!(
                    faults == 0 || text.starts_with(&format!("vault.{name}: expected the path")),
                    "{text}"
                );
                assert!(!text.contains("c0ffee"), "{text}");
            }
        }
    }

    #[test]
    fn another_transit_is_reached_without_showing_a_secret_to_the_network() {
        let address = |text: &str| told(|config| config.vault.transit_address = text.into());
        for good in [
            "https://keys.example",
            "https://10.0.0.1:1/",
            "http://127.0.0.1:7703",
            "http://localhost:1",
            "http://[::1]:7703",
            "https://[2001:db8::1]",
        ] {
            assert!(address(good).is_empty(), "{good}: {:?}", address(good));
        }
        for bad in [
            "keys.example:7703",
            "ftp://keys",
            "https://",
            "https://a:",
            "https://a:0",
            "https://a:65536",
            "https://a:+1",
            "https://a/v1",
            "https://a b",
            "https://[::1",
            "https://[x]:1",
            "http://a?b",
        ] {
            assert!(address(bad)[0].contains("expected https://HOST:PORT"), "{bad}");
        }
        for open in ["http://keys.example:7703", "http://10.0.0.1", "http://localhost.example:1"] {
            assert!(address(open)[0].contains("not encrypted"), "{open}");
        }
        let password = address("https://me:sesame@keys:1");
        assert!(!password[0].contains("sesame"), "{password:?}");
    }

    #[test]
    fn what_another_transit_needs_is_told() {
        let no_token = told(|config| config.vault.transit_token_file.clear());
        assert!(no_token[0].contains("set vault.transit_token_file or"), "{no_token:?}");
        let two = told(|config| config.vault.transit_token_env = "TOKEN".into());
        assert!(two[0].contains("both are set, expected one"), "{two:?}");
        for name in ["", "a/b", "..", "a b"] {
            let fault = told(|config| config.vault.transit_key_name = name.into());
            assert!(fault[0].starts_with("vault.transit_key_name: found"), "{fault:?}");
        }
        for (path, faults) in [("transit/", 0), ("ns1/team-a/transit", 0), ("", 1), ("a//b", 1)] {
            let found = told(|config| config.vault.transit_mount_path = path.into());
            assert_eq!(found.len(), faults, "{path}: {found:?}");
        }
        let ca = told(|config| {
            config.vault.transit_tls_ca_cert = "ca.pem".into();
            config.vault.transit_address = "http://127.0.0.1:1".into();
        });
        assert!(ca[0].contains("expected https://"), "{ca:?}");
    }
}
