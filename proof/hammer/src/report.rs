//! What a run found: one struct, printed as a table or as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::engine::NoticeCounts;
use crate::latency::Quantiles;

/// The result of a run. Amounts are micros of the budgets' units (items, for counts).
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// HOST:PORT.
    pub target: String,
    /// `closed` (as fast as answers come) or `open` (on schedule).
    pub mode: &'static str,
    /// How long asks were sent, in seconds.
    pub duration_s: f64,
    /// Connections opened.
    pub connections: u32,
    /// Frames in flight a connection (closed loop).
    pub depth: u32,
    /// Asks a frame.
    pub batch: u16,
    /// Sending threads.
    pub threads: u16,
    /// Budgets asked.
    pub budgets: usize,
    /// Seed.
    pub seed: u64,
    /// Asks answered, draining included.
    pub decisions: u64,
    /// Asks answered a second while the load ran.
    pub decisions_per_s: f64,
    /// Asks granted.
    pub granted: u64,
    /// Sum of the amounts granted.
    pub granted_micros: i64,
    /// Asks refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Whole frames refused, by reason.
    pub frames_refused: BTreeMap<&'static str, u64>,
    /// Frames of asks sent.
    pub frames: u64,
    /// Bytes sent.
    pub bytes_sent: u64,
    /// Bytes received.
    pub bytes_received: u64,
    /// Acknowledged as settled within holds.
    pub settled_micros: i64,
    /// Acknowledged as settled above holds.
    pub over_settled_micros: i64,
    /// Acknowledged as settled after the hold was gone.
    pub late_micros: i64,
    /// Sent, but not answered when the run ended.
    pub unanswered_micros: i64,
    /// Confirms, settles, releases.
    pub notices: NoticeCounts,
    /// Micros above limits, each budget's worst moment added up. Must be 0.
    pub over_micros: i64,
    /// Settles booked more than once. Must be 0.
    pub duplicates_booked: u64,
    /// Notices never answered, and acknowledged settles missing from the books. Must be 0.
    pub lost_acks: u64,
    /// Frames of asks never answered. Must be 0.
    pub lost_answers: u64,
    /// Of frames of asks; open loop: from the intended instant.
    pub latency_us: Quantiles,
    /// Of frames of notices, from writing to the answer after the seal.
    pub notice_latency_us: Quantiles,
    /// Open loop only: how well the sender kept its timetable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleReport>,
    /// CPU time of the node's workers for one ask; `null` where it does not tell.
    pub server_ns_per_request: Option<f64>,
    /// CPU time of the sending threads for one ask; `null` where the kernel does not tell.
    pub hammer_ns_per_request: Option<f64>,
    /// Audits made.
    pub audits: u64,
    /// Of them, with a check of the promises.
    pub promise_checks: u64,
    /// `ok`, or what is wrong.
    pub audit: String,
    /// Faults of the node or the connections, in words; the first few.
    pub errors: Vec<String>,
    /// What a reader of the figures should know.
    pub notes: Vec<String>,
    /// With `--asks-from`: what the file held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openrtb: Option<OpenRtbReport>,
}

/// How the open loop went.
#[derive(Debug, Clone, Serialize)]
pub struct ScheduleReport {
    /// Decisions a second asked for with `--rate`.
    pub asked_per_s: u64,
    /// Frames that left more than 1 ms after their time.
    pub frames_behind: u64,
    /// Frames that were due but never left.
    pub frames_skipped: u64,
    /// From due to sent.
    pub lag_us: Quantiles,
    /// The sender did not keep up: one frame in a hundred left over 1 ms late, or never.
    pub behind: bool,
}

/// What the OpenRTB file held.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct OpenRtbReport {
    /// Lines that are not empty.
    pub lines: usize,
    /// Lines that gave at least one ask.
    pub used: usize,
    /// Asks they gave: one an impression.
    pub asks: usize,
    /// Lines that are no usable request.
    pub bad: usize,
    /// Requests marked as test, which must not touch a budget.
    pub test: usize,
    /// Impressions without a floor, asked at the default.
    pub without_floor: usize,
    /// Impressions in a currency that no budget has.
    pub other_currency: usize,
    /// The first bad lines: number and reason.
    pub bad_lines: Vec<String>,
}

impl Report {
    /// The process exit code: 0, or 1 when the audit failed.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(self.audit != "ok" || self.over_micros > 0 || !self.errors.is_empty())
    }

    /// Prints the report as one JSON object and a newline.
    ///
    /// # Errors
    /// The writer fails.
    pub fn print_json(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Prints the report for people.
    ///
    /// # Errors
    /// The writer fails.
    pub fn print_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let line =
            |out: &mut dyn Write, name: &str, value: String| writeln!(out, "{name:<22}{value}");
        self.print_load(out)?;
        self.print_notices(out)?;
        let ns = |value: Option<f64>| value.map_or("unknown".into(), |v| format!("{v:.1}"));
        let (server, own) = (ns(self.server_ns_per_request), ns(self.hammer_ns_per_request));
        line(out, "ns a request", format!("node {server}, hammer {own} (CPU time)"))?;
        let checks =
            format!("{} audits, {} with a check of promises", self.audits, self.promise_checks);
        line(out, "audited", checks)?;
        line(out, "over", format!("{} micros", self.over_micros))?;
        line(out, "duplicates booked", self.duplicates_booked.to_string())?;
        line(out, "lost acks", self.lost_acks.to_string())?;
        line(out, "audit", self.audit.clone())?;
        for note in &self.notes {
            line(out, "note", note.clone())?;
        }
        for error in &self.errors {
            line(out, "error", error.clone())?;
        }
        Ok(())
    }

    fn print_load(&self, out: &mut dyn Write) -> io::Result<()> {
        let share = |part: u64| percent(part, self.decisions);
        let shape = match &self.schedule {
            Some(s) => format!("open loop at {}/s", grouped(s.asked_per_s)),
            None => format!("closed loop, {} frames in flight", self.depth),
        };
        writeln!(
            out,
            "{}: {shape}, {} connections, {} asks a frame, {} budgets, {:.1} s",
            self.target, self.connections, self.batch, self.budgets, self.duration_s
        )?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a rate is positive and small"
        )]
        let per_s = self.decisions_per_s.round() as u64;
        writeln!(
            out,
            "{:<22}{} ({} in all)",
            "decisions/s",
            grouped(per_s),
            grouped(self.decisions)
        )?;
        writeln!(out, "{:<22}{} ({})", "granted", grouped(self.granted), share(self.granted))?;
        for (reason, count) in by_count(&self.refused) {
            writeln!(out, "  refused {reason:<13} {} ({})", grouped(count), share(count))?;
        }
        for (reason, count) in by_count(&self.frames_refused) {
            writeln!(out, "  frames refused {reason} {}", grouped(count))?;
        }
        quantiles(out, "latency us", &self.latency_us)?;
        quantiles(out, "notice latency us", &self.notice_latency_us)?;
        if let Some(s) = &self.schedule {
            quantiles(out, "send lag us", &s.lag_us)?;
            if s.behind {
                writeln!(
                    out,
                    "{:<22}THE HAMMER FELL BEHIND: {} frames left over 1 ms late, {} never left",
                    "schedule", s.frames_behind, s.frames_skipped
                )?;
            }
        }
        Ok(())
    }

    fn print_notices(&self, out: &mut dyn Write) -> io::Result<()> {
        let n = &self.notices;
        writeln!(
            out,
            "{:<22}{} micros in {} settles; {} above holds, {} late, {} unanswered",
            "settled",
            self.settled_micros,
            n.settles_answered,
            self.over_settled_micros,
            self.late_micros,
            self.unanswered_micros
        )?;
        writeln!(
            out,
            "{:<22}{} confirmed, {} released, {} expired, {} repeated ({} answered as repeats), {} put off",
            "notices", n.confirmed, n.released, n.expired, n.repeats_sent, n.repeats_ok, n.put_off
        )?;
        if let Some(o) = &self.openrtb {
            writeln!(
                out,
                "{:<22}{} lines, {} used, {} asks, {} bad, {} test, {} without floor, {} in other currencies",
                "openrtb",
                o.lines,
                o.used,
                o.asks,
                o.bad,
                o.test,
                o.without_floor,
                o.other_currency
            )?;
            for bad in &o.bad_lines {
                writeln!(out, "  bad {bad}")?;
            }
        }
        Ok(())
    }
}

/// A row of quantiles.
pub(crate) fn quantiles(out: &mut dyn Write, name: &str, q: &Quantiles) -> io::Result<()> {
    writeln!(
        out,
        "{name:<22}p50 {:.1}  p99 {:.1}  p99.9 {:.1}  max {:.1}",
        q.p50, q.p99, q.p999, q.max
    )
}

/// `part` of `whole` in percent.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
    let share = if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    format!("{share:.1} %")
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The largest first.
pub(crate) fn by_count(counts: &BTreeMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    let mut list: Vec<_> = counts.iter().map(|(&name, &count)| (name, count)).collect();
    list.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        Report {
            target: "127.0.0.1:7700".into(),
            mode: "closed",
            duration_s: 1.0,
            connections: 8,
            depth: 8,
            batch: 10,
            threads: 1,
            budgets: 50,
            seed: 1,
            decisions: 1_234_567,
            decisions_per_s: 1_234_567.0,
            granted: 1_000_000,
            granted_micros: 5,
            refused: BTreeMap::from([("paced", 200_000), ("exhausted", 34_567)]),
            frames_refused: BTreeMap::new(),
            frames: 123_457,
            bytes_sent: 1,
            bytes_received: 1,
            settled_micros: 77,
            over_settled_micros: 0,
            late_micros: 0,
            unanswered_micros: 0,
            notices: NoticeCounts::default(),
            over_micros: 0,
            duplicates_booked: 0,
            lost_acks: 0,
            lost_answers: 0,
            latency_us: Quantiles { p50: 1.0, p99: 2.0, p999: 3.0, max: 4.0 },
            notice_latency_us: Quantiles::default(),
            schedule: None,
            server_ns_per_request: Some(61.2),
            hammer_ns_per_request: None,
            audits: 2,
            promise_checks: 0,
            audit: "ok".into(),
            errors: Vec::new(),
            notes: Vec::new(),
            openrtb: None,
        }
    }

    #[test]
    fn the_json_has_the_promised_shape() {
        let mut text = Vec::new();
        report().print_json(&mut text).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
        for number in [
            "decisions_per_s",
            "granted",
            "settled_micros",
            "over_micros",
            "duplicates_booked",
            "lost_acks",
            "server_ns_per_request",
            "frames",
            "bytes_sent",
            "bytes_received",
        ] {
            assert!(json[number].is_number(), "{number}");
        }
        assert!(json["hammer_ns_per_request"].is_null());
        assert_eq!(json["refused"]["paced"], 200_000);
        assert_eq!(json["audit"], "ok");
        for quantile in ["p50", "p99", "p999", "max"] {
            assert!(json["latency_us"][quantile].is_number(), "{quantile}");
        }
    }

    #[test]
    fn the_table_names_every_refusal() {
        let mut text = Vec::new();
        report().print_table(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("1,234,567"), "{text}");
        assert!(text.find("paced").unwrap() < text.find("exhausted").unwrap(), "{text}");
        assert!(text.contains("node 61.2, hammer unknown"), "{text}");
    }

    #[test]
    fn any_fault_is_exit_code_1() {
        assert_eq!(report().exit_code(), 0);
        assert_eq!(Report { over_micros: 1, ..report() }.exit_code(), 1);
        assert_eq!(Report { audit: "lost".into(), ..report() }.exit_code(), 1);
        assert_eq!(Report { errors: vec!["closed".into()], ..report() }.exit_code(), 1);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(12_345_678), "12,345,678");
    }
}
