//! What an operator decides about the door.

use access::HostGuard;
use money::CurrencyCode;
use thiserror::Error;

use crate::read::{ReadLimits, currency_of};

/// Bids of one answer, at most, where nothing else is said.
pub const BIDS_MAX: usize = 256;

/// What an operator decides about the door.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Limits of HTTP.
    pub http: door_http::Limits,
    /// Limits of a request.
    pub read: ReadLimits,
    /// The names by which it may be called. Default: any.
    pub hosts: HostGuard,
    /// Paths that take bid requests. Default: `/openrtb2/bid`.
    pub bid_paths: Vec<String>,
    /// How the world reaches this node's notices: scheme, host and perhaps a path, without a slash at the end.
    /// Default: `http://127.0.0.1:7701`.
    pub notice_base_url: String,
    /// Taken off `tmax` for the way back and the exchange's own work, in milliseconds. Default: 30.
    pub margin_ms: u32,
    /// `tmax` of a request that does not say it, in milliseconds. Default: 150.
    pub tmax_default_ms: u32,
    /// How no bid is said. Default: [`NoBidForm::Empty`].
    pub no_bid: NoBidForm,
    /// The currency that a request without `cur` accepts. Default: USD.
    pub default_currency: CurrencyCode,
    /// Bids of one answer, at most. Default: [`BIDS_MAX`].
    pub bids_max: usize,
    /// Bids carry a loss notice (`lurl`). Default: true.
    pub loss_notices: bool,
    /// The header in which a balancer tells who clicks. Default: empty, who connects.
    pub address_header: String,
}

/// What is agreed with one exchange: a part of [`Settings`], which says it of the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExchangeSettings {
    /// The path that takes its bid requests.
    pub path: String,
    /// Taken off `tmax`, in milliseconds.
    pub margin_ms: u32,
    /// `tmax` of a request that does not say it, in milliseconds.
    pub tmax_default_ms: u32,
    /// How no bid is said.
    pub no_bid: NoBidForm,
    /// The currency that a request without `cur` accepts.
    pub default_currency: CurrencyCode,
    /// Bids carry a loss notice.
    pub loss_notices: bool,
}

/// How no bid is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBidForm {
    /// Status 204 and nothing else.
    Empty,
    /// Status 200 and `{"id":..,"nbr":..}`; a missed deadline is still a 204.
    Reason,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            http: door_http::Limits::default(),
            read: ReadLimits::default(),
            hosts: HostGuard::Any,
            bid_paths: vec!["/openrtb2/bid".into()],
            notice_base_url: "http://127.0.0.1:7701".into(),
            margin_ms: 30,
            tmax_default_ms: 150,
            no_bid: NoBidForm::Empty,
            default_currency: currency_of("USD").expect("an active currency"),
            bids_max: BIDS_MAX,
            loss_notices: true,
            address_header: String::new(),
        }
    }
}

/// A setting that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    /// The address of notices.
    #[error(
        "notice_base_url = {found:?}: expected http:// or https:// and a host, in letters that need no escape, \
         without a slash at the end"
    )]
    NoticeBaseUrl {
        /// The value to which it was set.
        found: String,
    },
    /// A path of bid requests.
    #[error(
        "bid_paths: {found:?}: expected a path that begins with / and is not one of the door's own"
    )]
    BidPath {
        /// The value to which it was set.
        found: String,
    },
    /// No path of bid requests.
    #[error("bid_paths is empty: expected at least one path")]
    NoBidPath,
}

impl Settings {
    /// Returns what is agreed with the first exchange.
    #[must_use]
    pub fn first_exchange(&self) -> ExchangeSettings {
        ExchangeSettings {
            path: self.bid_paths.first().cloned().unwrap_or_default(),
            margin_ms: self.margin_ms,
            tmax_default_ms: self.tmax_default_ms,
            no_bid: self.no_bid,
            default_currency: self.default_currency,
            loss_notices: self.loss_notices,
        }
    }

    /// Checks what can be checked.
    ///
    /// # Errors
    /// The first setting that cannot be used.
    pub fn check(&self) -> Result<(), SettingsError> {
        let url = &self.notice_base_url;
        let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        // Nothing that JSON, XML or HTML would have to escape: the address stands in all of them.
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b":/.-_~[]@%".contains(&byte);
        let is_sound = host.is_some_and(|host| {
            !host.is_empty()
                && !host.starts_with('/')
                && !host.ends_with('/')
                && host.bytes().all(plain)
        });
        if !is_sound {
            return Err(SettingsError::NoticeBaseUrl { found: url.clone() });
        }
        if self.bid_paths.is_empty() {
            return Err(SettingsError::NoBidPath);
        }
        self.bid_paths.iter().try_for_each(|path| check_bid_path(path))
    }
}

/// Checks a path of bid requests.
///
/// # Errors
/// It is not one, or one of the door's own.
pub fn check_bid_path(path: &str) -> Result<(), SettingsError> {
    let is_own = path == crate::HEALTH_PATH || path.starts_with(crate::NOTICE_PATH);
    match path.starts_with('/') && !is_own {
        true => Ok(()),
        false => Err(SettingsError::BidPath { found: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_and_each_setting_is_checked() {
        assert_eq!(Settings::default().check(), Ok(()));
        for url in
            ["", "https://", "ftp://a", "https://a/", "https://a b", "https://a\"", "http:///x"]
        {
            let settings = Settings { notice_base_url: url.into(), ..Settings::default() };
            assert_eq!(settings.check(), Err(SettingsError::NoticeBaseUrl { found: url.into() }));
        }
        for path in ["", "bid", "/n/win/x", "/health"] {
            let settings = Settings { bid_paths: vec![path.into()], ..Settings::default() };
            assert_eq!(settings.check(), Err(SettingsError::BidPath { found: path.into() }));
        }
        let settings = Settings { bid_paths: Vec::new(), ..Settings::default() };
        assert_eq!(settings.check(), Err(SettingsError::NoBidPath));
    }
}
