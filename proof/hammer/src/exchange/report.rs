//! What an exchange run found, and its progress while it goes on.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::atomic::Ordering;

use serde::Serialize;

use crate::desk::Outcome;
use crate::latency::Quantiles;
use crate::progress::{AuditedSums, amount, money};
use crate::report::{ScheduleReport, grouped, percent, quantiles};

use super::bodies::BodiesReport;
use super::books::Books;
use super::notices::KindCounts;

/// The result of an exchange run. Money is micros of the bids' currency; a CPM price is micros per thousand impressions.
#[derive(Debug, Clone, Serialize)]
pub struct ExchangeReport {
    /// The OpenRTB door, HOST:PORT.
    pub target: String,
    /// `closed` (as fast as answers come) or `open` (on schedule).
    pub mode: &'static str,
    /// How long requests were sent, in seconds.
    pub duration_s: f64,
    /// Connections that carry requests.
    pub connections: u32,
    /// Requests in flight a connection (closed loop).
    pub depth: u32,
    /// Connections that carry notices.
    pub notice_connections: u32,
    /// Seed.
    pub seed: u64,
    /// The bodies.
    pub bodies: BodiesReport,
    /// Requests sent.
    pub requests: u64,
    /// Requests answered per second while the load ran.
    pub requests_per_s: f64,
    /// Bytes of requests sent.
    pub bytes_sent: u64,
    /// Bytes of their answers.
    pub bytes_received: u64,
    /// Answers by status code.
    pub statuses: BTreeMap<u16, u64>,
    /// Answers that were no bid.
    pub no_bids: u64,
    /// Answers with bids.
    pub with_bids: u64,
    /// Answers with bids, as a share of all answers.
    pub bid_rate: f64,
    /// Bids.
    pub bids: u64,
    /// Bids dropped as exchanges do, by reason. Each is a fault.
    pub bids_dropped: BTreeMap<&'static str, u64>,
    /// Bids in test requests.
    pub bids_test: u64,
    /// Answers with bids that came after `tmax`; their bids lost.
    pub timeouts: u64,
    /// Answers with bids in time, a second.
    pub goodput_per_s: f64,
    /// Bids that won.
    pub wins: u64,
    /// Wins as a share of the bids that took part.
    pub win_rate: f64,
    /// Mean price of the bids that took part.
    pub cpm_bid_micros: i64,
    /// Billings acknowledged.
    pub billed: u64,
    /// What they cost.
    pub spend_micros: i64,
    /// The same for a thousand billings.
    pub cpm_paid_micros: i64,
    /// Billings sent and not acknowledged when the run ended.
    pub unanswered_micros: i64,
    /// Wins whose billing was never told, on purpose.
    pub unbilled: u64,
    /// Billings after the end of their hold, on purpose.
    pub late: u64,
    /// Billings with the price macro not expanded, on purpose.
    pub bad_macros: u64,
    /// Billings with an impossible price, on purpose.
    pub absurd: u64,
    /// Notices by kind: `win`, `bill`, `bill again`, `loss`.
    pub notices: BTreeMap<&'static str, KindCounts>,
    /// Of requests; open loop: from the intended instant.
    pub latency_us: Quantiles,
    /// Of notices, from calling to the answer.
    pub notice_latency_us: Quantiles,
    /// Open loop only: how well the sender kept its timetable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduleReport>,
    /// CPU time of the node's workers for one request; `null` where it is not known.
    pub server_ns_per_request: Option<f64>,
    /// CPU time of the sending thread for one request; `null` where the kernel does not tell.
    pub hammer_ns_per_request: Option<f64>,
    /// Audits made.
    pub audits: u64,
    /// Budgets audited.
    pub budgets: usize,
    /// Micros above limits, each budget's worst moment added up. Must be 0.
    pub over_micros: i64,
    /// Budgets with more booked than was billed. Must be 0.
    pub duplicates_booked: u64,
    /// Notices never answered for good, and budgets with acknowledged billings missing. Must be 0.
    pub lost_acks: u64,
    /// Requests never answered. Must be 0.
    pub lost_answers: u64,
    /// Looks at the books or the totals that failed (busy, a closed connection, no answer in time) and were made again.
    pub looks_failed: u64,
    /// What the last audit came to; `not_audited` without `--books`.
    pub audit_outcome: Outcome,
    /// `ok`, `not audited`, or what is wrong, or why nobody could look.
    pub audit: String,
    /// Faults of the node or the connections, in words; the first few.
    pub errors: Vec<String>,
    /// Notes for a reader of the figures.
    pub notes: Vec<String>,
    /// What is wrong, each in words; empty means exit code 0.
    #[serde(skip)]
    pub(crate) wrongs: Vec<String>,
}

impl ExchangeReport {
    /// The process exit code: 0, or 1 when anything was wrong.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        u8::from(!self.wrongs.is_empty())
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
        self.print_load(out)?;
        self.print_money(out)?;
        self.print_notices(out)?;
        let ns = |value: Option<f64>| value.map_or("unknown".into(), |v| format!("{v:.0}"));
        let (server, own) = (ns(self.server_ns_per_request), ns(self.hammer_ns_per_request));
        row(out, "ns per request", &format!("node {server}, hammer {own} (CPU time)"))?;
        row(
            out,
            "audited",
            &format!(
                "{} audits of {} budgets; {} looks failed",
                self.audits, self.budgets, self.looks_failed
            ),
        )?;
        row(out, "over", &format!("{} micros", self.over_micros))?;
        row(out, "duplicates booked", &self.duplicates_booked.to_string())?;
        row(out, "lost acks", &self.lost_acks.to_string())?;
        row(out, "audit", &self.audit)?;
        self.notes.iter().try_for_each(|note| row(out, "note", note))?;
        self.errors.iter().try_for_each(|error| row(out, "error", error))
    }

    fn print_load(&self, out: &mut dyn Write) -> io::Result<()> {
        let shape = match &self.schedule {
            Some(s) => format!("open loop at {}/s", grouped(s.asked_per_s)),
            None => format!("closed loop, {} requests in flight", self.depth),
        };
        let (target, connections, duration) = (&self.target, self.connections, self.duration_s);
        writeln!(out, "{target}: {shape}, {connections} connections, {duration:.1} s")?;
        let b = &self.bodies;
        let sizes = format!(
            "{} distinct, p50 {} bytes, max {}, {} compressed, {} bad lines",
            b.used, b.bytes_p50, b.bytes_max, b.compressed, b.bad
        );
        row(out, "bodies", &sizes)?;
        b.bad_lines.iter().try_for_each(|bad| writeln!(out, "  bad {bad}"))?;
        let all = grouped(self.requests);
        row(
            out,
            "requests/s",
            &format!("{} ({all} in all)", grouped(rounded(self.requests_per_s))),
        )?;
        let statuses: Vec<String> =
            self.statuses.iter().map(|(status, n)| format!("{status}: {}", grouped(*n))).collect();
        row(out, "answers", &statuses.join("  "))?;
        quantiles(out, "latency us", &self.latency_us)?;
        quantiles(out, "notice latency us", &self.notice_latency_us)?;
        let Some(s) = &self.schedule else { return Ok(()) };
        s.print(out)
    }

    fn print_money(&self, out: &mut dyn Write) -> io::Result<()> {
        let cpm = |micros: i64| money(i128::from(micros));
        let answers = self.with_bids + self.no_bids;
        let bids = format!(
            "{} in {} answers ({}), mean CPM {}, {} after tmax, {}/s in time, {} of tests",
            grouped(self.bids),
            grouped(self.with_bids),
            percent(self.with_bids, answers),
            cpm(self.cpm_bid_micros),
            self.timeouts,
            grouped(rounded(self.goodput_per_s)),
            self.bids_test
        );
        row(out, "bids", &bids)?;
        for (reason, count) in &self.bids_dropped {
            writeln!(out, "  dropped: {reason:<11} {}", grouped(*count))?;
        }
        row(out, "wins", &format!("{} ({:.1} %)", grouped(self.wins), self.win_rate * 100.0))?;
        let spend = format!(
            "{} in {} billings, CPM {}; {} micros unanswered",
            money(i128::from(self.spend_micros)),
            grouped(self.billed),
            cpm(self.cpm_paid_micros),
            self.unanswered_micros
        );
        row(out, "spend", &spend)?;
        let odd = format!(
            "{} never billed, {} late, {} with the macro unexpanded, {} with an absurd price",
            self.unbilled, self.late, self.bad_macros, self.absurd
        );
        row(out, "on purpose", &odd)
    }

    fn print_notices(&self, out: &mut dyn Write) -> io::Result<()> {
        for (kind, n) in &self.notices {
            let answers: Vec<String> = n
                .answers
                .iter()
                .map(|(status, count)| format!("{status}: {}", grouped(*count)))
                .collect();
            let text = format!(
                "{} sent, {} acknowledged, {} retried, {} lost, {} unsent; answers {}",
                grouped(n.sent),
                grouped(n.acknowledged),
                n.retried,
                n.lost,
                n.unsent,
                answers.join("  ")
            );
            row(out, &format!("notices {kind}"), &text)?;
        }
        Ok(())
    }
}

fn row(out: &mut dyn Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(out, "{name:<22}{value}")
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is positive and small"
)]
fn rounded(rate: f64) -> u64 {
    rate.round() as u64
}

/// The counters at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ExchangeMoment {
    /// Seconds since the start.
    at_s: f64,
    answered: u64,
    bids: u64,
    wins: u64,
    billed: u64,
    spend: i64,
}

impl ExchangeMoment {
    /// Reads them.
    pub(crate) fn read(books: &Books, at_s: f64) -> Self {
        Self {
            at_s,
            answered: books.tally.decisions.load(Ordering::Acquire),
            bids: books.bids.load(Ordering::Acquire),
            wins: books.wins.load(Ordering::Acquire),
            billed: books.tally.settles.load(Ordering::Acquire),
            spend: books.spend.load(Ordering::Acquire),
        }
    }

    fn since(&self, last: &Self) -> Self {
        Self {
            at_s: (self.at_s - last.at_s).max(1e-3),
            answered: self.answered.saturating_sub(last.answered),
            bids: self.bids.saturating_sub(last.bids),
            wins: self.wins.saturating_sub(last.wins),
            billed: self.billed.saturating_sub(last.billed),
            spend: self.spend.saturating_sub(last.spend),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a rate for the eye")]
    fn per_s(&self) -> u64 {
        rounded(self.answered as f64 / self.at_s)
    }

    /// One line on the interval since `last`.
    pub(crate) fn line(
        &self,
        last: &Self,
        latency: &Quantiles,
        audited: Option<&AuditedSums>,
    ) -> String {
        let since = self.since(last);
        let over = audited.map_or("not audited".into(), |a| format!("over {}", a.over));
        format!(
            "{:6.1} s  {:>9}/s  p99 {:>8.1} us  bids {}  wins {}  spend {}  {over}",
            self.at_s,
            grouped(since.per_s()),
            latency.p99,
            grouped(since.bids),
            grouped(since.wins),
            money(i128::from(self.spend))
        )
    }

    /// A block of lines on the interval since `last`.
    pub(crate) fn block(
        &self,
        last: &Self,
        latency: &Quantiles,
        audited: Option<&AuditedSums>,
    ) -> String {
        let since = self.since(last);
        let books = audited.map_or("  books     not audited".into(), |a| {
            format!(
                "  books     spent {}   held {}   over {}",
                amount(a.spent, a.unit),
                amount(a.held, a.unit),
                amount(a.over.into(), a.unit)
            )
        });
        let (per_s, all) = (grouped(since.per_s()), grouped(self.answered));
        let lines = [
            format!("{:6.1} s   {per_s} requests/s   ({all} so far)", self.at_s),
            format!(
                "  latency   p50 {:.1} us   p99 {:.1} us   max {:.1} us",
                latency.p50, latency.p99, latency.max
            ),
            format!(
                "  bids      {} ({} an answer)   wins {} ({})",
                grouped(since.bids),
                percent(since.bids, since.answered),
                grouped(since.wins),
                percent(since.wins, since.bids)
            ),
            format!(
                "  billed    {} in {} notices",
                money(i128::from(self.spend)),
                grouped(self.billed)
            ),
            books,
        ];
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_shows_the_interval_and_the_books() {
        let last =
            ExchangeMoment { at_s: 1.0, answered: 100, bids: 10, wins: 1, billed: 1, spend: 500 };
        let now = ExchangeMoment {
            at_s: 3.0,
            answered: 2_100,
            bids: 510,
            wins: 51,
            billed: 20,
            spend: 1_500_000,
        };
        let audited = AuditedSums { spent: 1_500_000, held: 7, over: 0, unit: *b"USD\0" };
        let line = now.line(&last, &Quantiles::default(), Some(&audited));
        assert!(line.contains("1,000/s") && line.contains("bids 500  wins 50"), "{line}");
        assert!(line.contains("spend 1.500000  over 0"), "{line}");
        let block = now.block(&last, &Quantiles::default(), None);
        assert!(block.contains("not audited") && block.contains("wins 50 (10.0 %)"), "{block}");
    }
}
