//! The two forms in which metrics are told: OpenMetrics, and the text format that came before it.

use axum::body::Bytes;
use axum::http::{HeaderMap, header};

/// How metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// OpenMetrics 1.0, what the node writes.
    OpenMetrics,
    /// The Prometheus text format 0.0.4.
    Text,
}

impl Format {
    /// The text format is for who asks for it and does not know the other.
    pub(super) fn of(headers: &HeaderMap) -> Format {
        let accepted = headers.get_all(header::ACCEPT);
        let accepts = |name: &str| {
            accepted
                .iter()
                .filter_map(|value| value.to_str().ok())
                .any(|value| value.contains(name))
        };
        match accepts("text/plain") && !accepts("application/openmetrics-text") {
            true => Format::Text,
            false => Format::OpenMetrics,
        }
    }

    pub(super) fn media_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    pub(super) fn write(self, openmetrics: Bytes) -> Bytes {
        match (self, std::str::from_utf8(&openmetrics)) {
            (Format::Text, Ok(text)) => older(text).into(),
            _ => openmetrics,
        }
    }
}

/// OpenMetrics names a counter without the `_total` of its samples, an info without `_info`, has units, and an end.
fn older(openmetrics: &str) -> String {
    let types: std::collections::BTreeMap<&str, &str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines().filter_map(|line| older_line(line, &types)) {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

fn older_line(line: &str, types: &std::collections::BTreeMap<&str, &str>) -> Option<String> {
    let Some(comment) = line.strip_prefix("# ") else { return Some(line.to_string()) };
    let (keyword, rest) = comment.split_once(' ')?;
    let (name, rest) = rest.split_once(' ')?;
    let (suffix, kind) = match types.get(name).copied() {
        Some("counter") => ("_total", "counter"),
        Some("info") => ("_info", "gauge"),
        Some("unknown") => ("", "untyped"),
        Some(kind) => ("", kind),
        None => return None,
    };
    match keyword {
        "TYPE" => Some(format!("# TYPE {name}{suffix} {kind}")),
        "HELP" => Some(format!("# HELP {name}{suffix} {rest}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_format_says_the_same() {
        let new = "# TYPE a counter\n# HELP a Counts.\na_total{x=\"1\"} 2\n# TYPE b_seconds gauge\n\
                   # UNIT b_seconds seconds\n# HELP b_seconds Lasts.\nb_seconds 0.5\n# TYPE c info\n\
                   # HELP c Is.\nc_info{v=\"2\"} 1\n# EOF\n";
        let old = "# TYPE a_total counter\n# HELP a_total Counts.\na_total{x=\"1\"} 2\n# TYPE b_seconds gauge\n\
                   # HELP b_seconds Lasts.\nb_seconds 0.5\n# TYPE c_info gauge\n# HELP c_info Is.\n\
                   c_info{v=\"2\"} 1\n";
        assert_eq!(older(new), old);
    }

    #[test]
    fn who_takes_text_only_gets_text() {
        let of = |value: &str| {
            Format::of(&HeaderMap::from_iter([(header::ACCEPT, value.parse().unwrap())]))
        };
        assert_eq!(of("text/plain;version=0.0.4"), Format::Text);
        assert_eq!(
            of("application/openmetrics-text;version=1.0.0,text/plain;q=0.5"),
            Format::OpenMetrics
        );
        assert_eq!(of("*/*"), Format::OpenMetrics);
        assert_eq!(Format::of(&HeaderMap::new()), Format::OpenMetrics);
    }
}
