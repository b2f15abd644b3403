//! What a run found: one struct, printed as a table or as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use crate::desk::Outcome;
use crate::frames::NoticeCounts;
use crate::latency::Quantiles;
use crate::timetable::Lateness;

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
    /// Asks per frame.
    pub batch: u16,
    /// Sending threads.
    pub threads: u16,
    /// Budgets asked.
    pub budgets: usize,
    /// Seed.
    pub seed: u64,
    /// Asks answered, draining included.
    pub decisions: u64,
    /// Asks answered per second while the load ran.
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
    /// Base units above limits, each budget's worst moment added up. Must be 0.
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
    /// Looks at the books or the totals that failed (busy, a closed connection, no answer in time) and were made again.
    pub looks_failed: u64,
    /// What the last audit came to: the books held, are wrong, or could not be looked at.
    pub audit_outcome: Outcome,
    /// `ok`, or what is wrong, or why nobody could look.
    pub audit: String,
    /// Faults of the node or the connections, in words; the first few.
    pub errors: Vec<String>,
    /// Notes for a reader of the figures.
    pub notes: Vec<String>,
    /// With `--asks-from`: what the file held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub openrtb: Option<OpenRtbReport>,
}

/// How the open loop went.
#[derive(Debug, Clone, Serialize)]
pub struct ScheduleReport {
    /// Decisions per second asked for with `--rate`.
    pub asked_per_s: u64,
    /// Frames (with `--openrtb`: requests) that left more than 1 ms after their time.
    pub frames_behind: u64,
    /// Frames that were due but never left.
    pub frames_skipped: u64,
    /// Frames that were late because no connection had room: the node's lateness, not the sender's.
    pub frames_without_room: u64,
    /// How late the sender was itself: from due to taken up.
    pub lag_us: Quantiles,
    /// How long the sending threads could have run and waited for a core, in ms; `null` where the kernel does not tell.
    pub waited_for_core_ms: Option<f64>,
    /// The sender did not keep up: one frame in a hundred left over 1 ms late, or never.
    pub behind: bool,
    /// Why the latency is not to be trusted, each in words; empty where it is.
    pub doubts: Vec<String>,
}

/// A part of the latency's p99 that the sender's own lateness may be, and of the time that its threads may wait for a
/// core, before the figures are doubted.
const OWN_SHARE_MAX: f64 = 0.1;
const WAITED_SHARE_MAX: f64 = 0.01;

impl ScheduleReport {
    /// Judges a run of `threads` threads over `load_ns` with this `latency`.
    pub(crate) fn new(
        asked_per_s: u64,
        lateness: &Lateness,
        latency: &Quantiles,
        load_ns: u64,
        threads: u16,
    ) -> Self {
        let lag_us = Quantiles::of(&lateness.lag);
        let behind = lag_us.p99 > 1_000.0 || lateness.skipped > lateness.lag.len() / 100;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds with one decimal")]
        let ms = |ns: u64| (ns as f64 / 100_000.0).round() / 10.0;
        let waited_for_core_ms = lateness.waited_ns.map(ms);
        let waited_share =
            waited_for_core_ms.unwrap_or(0.0) / (ms(load_ns) * f64::from(threads)).max(1.0);
        let doubts = [
            behind.then(|| {
                "the hammer fell behind its schedule: one send in a hundred was over 1 ms late, or never left".to_owned()
            }),
            (!behind && lag_us.p99 > latency.p99 * OWN_SHARE_MAX).then(|| {
                format!(
                    "the hammer's own lateness (p99 {:.1} us) is more than a tenth of the latency (p99 {:.1} us)",
                    lag_us.p99, latency.p99
                )
            }),
            (waited_share > WAITED_SHARE_MAX).then(|| {
                format!("the hammer waited for a core {:.1} % of the time: give it one of its own (--core)", waited_share * 100.0)
            }),
        ];
        ScheduleReport {
            asked_per_s,
            frames_behind: lateness.behind,
            frames_skipped: lateness.skipped,
            frames_without_room: lateness.without_room,
            lag_us,
            waited_for_core_ms,
            behind,
            doubts: doubts.into_iter().flatten().collect(),
        }
    }

    /// What a reader of the figures should know of it.
    pub(crate) fn note(&self) -> Option<String> {
        (!self.doubts.is_empty())
            .then(|| format!("do not trust the latency: {}", self.doubts.join("; ")))
    }

    /// Prints it for people.
    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        quantiles(out, "send lag us", &self.lag_us)?;
        let waited =
            self.waited_for_core_ms.map_or("unknown".to_owned(), |ms| format!("{ms:.1} ms"));
        writeln!(
            out,
            "{:<22}waited for a core {waited}; {} sends without room, {} over 1 ms late, {} never left",
            "sender", self.frames_without_room, self.frames_behind, self.frames_skipped
        )?;
        if self.behind {
            writeln!(
                out,
                "{:<22}THE HAMMER FELL BEHIND: {} frames left over 1 ms late, {} never left",
                "schedule", self.frames_behind, self.frames_skipped
            )?;
        }
        Ok(())
    }
}

/// What the OpenRTB file held.
#[derive(Debug, Clone, Default, Serialize, PartialEq, Eq)]
pub struct OpenRtbReport {
    /// Lines that are not empty.
    pub lines: usize,
    /// Lines that gave at least one ask.
    pub used: usize,
    /// Asks they gave: one per impression.
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
        line(out, "ns per request", format!("node {server}, hammer {own} (CPU time)"))?;
        let checks = format!(
            "{} audits, {} with a check of promises; {} looks failed",
            self.audits, self.promise_checks, self.looks_failed
        );
        line(out, "audited", checks)?;
        line(out, "over", format!("{} base units", self.over_micros))?;
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
            "{}: {shape}, {} connections, {} asks per frame, {} budgets, {:.1} s",
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
            s.print(out)?;
        }
        Ok(())
    }

    fn print_notices(&self, out: &mut dyn Write) -> io::Result<()> {
        let n = &self.notices;
        writeln!(
            out,
            "{:<22}{} base units in {} settles; {} above holds, {} late, {} unanswered",
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
            looks_failed: 0,
            audit_outcome: Outcome::Held,
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
        assert_eq!(json["audit_outcome"], "held");
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

    #[test]
    fn a_latency_that_may_be_our_own_is_doubted() {
        let judge = |lag_ns: u64, skipped: u64, waited_ns: Option<u64>, p99: f64| {
            let mut lateness = Lateness { skipped, waited_ns, ..Lateness::new() };
            (0..100).for_each(|_| lateness.lag.saturating_record(lag_ns));
            let latency = Quantiles { p99, ..Quantiles::default() };
            ScheduleReport::new(1_000, &lateness, &latency, 1_000_000_000, 1)
        };
        for waited_ns in [Some(1_000_000), None] {
            let trusted = judge(10_000, 0, waited_ns, 500.0);
            assert_eq!((&trusted.doubts[..], trusted.note()), (&[][..], None), "{trusted:?}");
            assert_eq!(trusted.waited_for_core_ms, waited_ns.map(|_| 1.0));
        }
        for (doubted, expected) in [
            (judge(60_000, 0, Some(0), 500.0), "own lateness (p99 60"),
            (judge(2_000_000, 0, Some(0), 50_000.0), "fell behind"),
            (judge(10_000, 5, Some(0), 500.0), "fell behind"),
            (judge(10_000, 0, Some(50_000_000), 500.0), "waited for a core 5.0 % of the time"),
        ] {
            assert_eq!(doubted.doubts.len(), 1, "{doubted:?}");
            let note = doubted.note().unwrap();
            assert!(
                note.starts_with("do not trust the latency: ") && note.contains(expected),
                "{note}"
            );
        }
    }
}
