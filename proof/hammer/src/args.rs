//! The command line of `weir hammer`: one definition gives parser, help and checks.

use std::path::PathBuf;
use std::time::Duration;

use admin_client::Target;

use crate::HammerError;

/// Connections a run may open.
pub const CONNECTIONS_MAX: u32 = 65_536;
/// Frames in flight a connection in closed loop.
pub const DEPTH_MAX: u32 = 65_536;
/// Connections for notices.
pub const NOTICE_CONNECTIONS_MAX: u32 = 4_096;
/// Distinct bodies a run may hold in memory.
pub const BODIES_MAX: i64 = 1_000_000;
/// Asks in a frame that the schema's group header can count.
pub const BATCH_MAX: u16 = u16::MAX;
/// The largest amount an ask may name here, in micros: what a balance can hold a million times.
pub const AMOUNT_MICROS_MAX: i64 = 1_000_000_000_000;

/// Load a node's batch door, its OpenRTB door as an exchange would, or its FIX door as clients and a venue, and audit its books.
///
/// Examples: weir hammer --target 127.0.0.1:7700 --duration 10s --connections 8 --depth 8 --batch 10;
/// weir hammer --openrtb --target 127.0.0.1:7701 --books 127.0.0.1:7700 --rate 50000;
/// weir hammer --fix --target 127.0.0.1:7702 --venue 127.0.0.1:7790 --admin 127.0.0.1:7780
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// The node's batch door (with --openrtb: its OpenRTB door), HOST:PORT.
    #[arg(long, value_name = "HOST:PORT", required_unless_present = "generate_openrtb")]
    pub target: Option<String>,
    /// How long asks are sent (500ms, 10s, 2m, 1h); draining and the last audit take additional time.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub duration: Duration,
    /// Number of connections to the door.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=i64::from(CONNECTIONS_MAX)))]
    pub connections: u32,
    /// Closed loop: frames (with --openrtb: requests, with --fix: messages without an answer) in flight per connection.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=i64::from(DEPTH_MAX)))]
    pub depth: u32,
    /// Asks per frame.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..))]
    pub batch: u16,
    /// Open loop: decisions (with --openrtb: requests, with --fix: messages) per second, on a schedule that does not wait for slow answers.
    #[arg(long, value_name = "PER_S", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub rate: Option<u64>,
    /// Use the budgets 1..=N; without it the node is asked which budgets it has.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub budgets: Option<u32>,
    /// Zipf exponent of the budgets' popularity; 0 makes all equally popular.
    #[arg(long, default_value_t = 1.0, value_parser = parse_skew)]
    pub skew: f64,
    /// Amount that an ask reserves, in base units of its budget (micros; nanos for a unit such as USDn): N, or MIN..MAX (uniform).
    #[arg(long, default_value = "500..5000", value_parser = parse_amount, value_name = "MICROS")]
    pub amount: AmountRange,
    /// Seed of the random numbers; the same seed asks the same questions.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of distinct users in the asks.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub users: u64,
    /// Share of the granted holds that win and are settled.
    #[arg(long, default_value_t = 0.05, value_parser = parse_share, value_name = "SHARE")]
    pub win: f64,
    /// Share of the wins that are confirmed at once, before they are settled.
    #[arg(long, default_value_t = 0.5, value_parser = parse_share, value_name = "SHARE")]
    pub confirm: f64,
    /// Time from the grant to the settle, and to the loss notice. With --openrtb this stands for the minute from auction to
    /// billing on a web page; app banners take 5 of them, native 10, video and interstitials 30.
    #[arg(long, default_value = "20ms", value_parser = parse_duration)]
    pub settle_delay: Duration,
    /// Lowest price at which a win settles, as a share of its hold; prices are drawn between this and the whole hold.
    #[arg(long, default_value_t = 0.5, value_parser = parse_share, value_name = "SHARE")]
    pub price_share: f64,
    /// Share of the lost auctions whose loss notice never comes (1: silence, as exchanges mostly do).
    #[arg(long, default_value_t = 1.0, value_parser = parse_share, value_name = "SHARE")]
    pub loss_notice_lost: f64,
    /// Share of the wins whose billing notice never comes: nothing is settled, and the hold expires.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE")]
    pub win_notice_lost: f64,
    /// Share of the settles that are sent a second time; the node must book them once.
    #[arg(long, default_value_t = 0.01, value_parser = parse_share, value_name = "SHARE")]
    pub repeat: f64,
    /// Share of the settles that name more than their hold: a debt, made on purpose.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE")]
    pub over: f64,
    /// Share of the settles sent after their hold has expired: a debt, made on purpose.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE")]
    pub late: f64,
    /// Ask the node to remember its answers by request id.
    #[arg(long)]
    pub remember: bool,
    /// Sending threads; one is cheaper than a node's worker.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub threads: u16,
    /// Pin sending threads to this core and the ones after it.
    #[arg(long, value_name = "N")]
    pub core: Option<u16>,
    /// The door's auth token.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub auth: String,
    /// No other client uses these budgets, so sums must be equal and not only large enough.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "true|false")]
    pub exclusive: bool,
    /// Time between two audits while the load runs; 0s audits only before and after. Without it: 1s in closed loop, 0s
    /// with --rate, where latency is measured; there an audit is followed by a pause of 20 times its length at least.
    #[arg(long, value_parser = parse_duration)]
    pub audit_every: Option<Duration>,
    /// How long the last audit retries while the node is busy, gone or silent, before it reports that it could not look.
    #[arg(long, default_value = "30s", value_parser = parse_duration)]
    pub audit_patience: Duration,
    /// How long outstanding answers may take after the last ask.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub drain: Duration,
    /// Longest wait for a connection and for an answer of the books.
    #[arg(long, default_value = "10s", value_parser = parse_duration)]
    pub timeout: Duration,
    /// Send asks made from the OpenRTB requests in FILE (one per line) to the batch door.
    #[arg(long, value_name = "FILE")]
    pub asks_from: Option<PathBuf>,
    /// Play an exchange: --target is an OpenRTB door, and requests, wins and billing notices travel over HTTP.
    #[arg(long, conflicts_with_all = ["asks_from", "batch", "amount", "skew", "budgets", "users", "over", "confirm",
          "price_share", "remember", "floor_default"])]
    pub openrtb: bool,
    /// Exchange: the batch door of the same node, where its books are audited; without it nothing is audited.
    #[arg(long, value_name = "HOST:PORT", requires = "openrtb")]
    pub books: Option<String>,
    /// Exchange: send the bodies in FILE (one per line) instead of generated ones.
    #[arg(long, value_name = "FILE", requires = "openrtb")]
    pub requests: Option<PathBuf>,
    /// Exchange: number of distinct generated bodies, which are sent in turn.
    #[arg(long, default_value_t = 20_000, value_name = "N", requires = "openrtb",
          value_parser = clap::value_parser!(u32).range(1..=BODIES_MAX))]
    pub bodies: u32,
    /// Exchange: share of the bodies sent compressed.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE", requires = "openrtb")]
    pub gzip: f64,
    /// Exchange: share of the billing notices whose price macro was not expanded.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE", requires = "openrtb")]
    pub bad_macro: f64,
    /// Exchange: share of the billing notices with an impossible price.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE", requires = "openrtb")]
    pub absurd: f64,
    /// Exchange: connections that carry notices, one in flight each.
    #[arg(long, default_value_t = 64, value_name = "N", requires = "openrtb",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(NOTICE_CONNECTIONS_MAX)))]
    pub notice_connections: u32,
    /// Play the clients and the venue of a FIX door, --target: every client session that the node routes to its venue sends orders, the
    /// venue executes them awkwardly, and the node's budgets and orders are compared with the venue's books.
    #[arg(long, requires_all = ["venue", "admin"], conflicts_with_all = ["openrtb", "asks_from", "batch", "connections", "amount", "skew",
          "budgets", "users", "over", "late", "confirm", "price_share", "remember", "floor_default", "threads", "core", "auth", "win",
          "settle_delay", "loss_notice_lost", "win_notice_lost", "repeat", "exclusive", "live"])]
    pub fix: bool,
    /// FIX: where the venue listens; the node's [[fix.venue]] connects to it.
    #[arg(long, value_name = "HOST:PORT", requires = "fix")]
    pub venue: Option<String>,
    /// FIX: the node's admin door, as http://HOST:PORT or HOST:PORT, where its books are read.
    #[arg(long, value_name = "URL", requires = "fix")]
    pub admin: Option<Target>,
    /// FIX: a file that holds the bearer token of the admin door (role operate); without it the environment variable WEIR_TOKEN is used.
    #[arg(long, value_name = "FILE", requires = "fix")]
    pub token_file: Option<PathBuf>,
    /// Price of one impression, in micros, where an OpenRTB request names no floor.
    #[arg(long, default_value_t = 1_000, value_name = "MICROS",
          value_parser = clap::value_parser!(i64).range(1..=AMOUNT_MICROS_MAX))]
    pub floor_default: i64,
    /// Print N generated OpenRTB requests, one per line, and stop.
    #[arg(long, value_name = "N", conflicts_with = "target")]
    pub generate_openrtb: Option<u64>,
    /// Print the report as one JSON object.
    #[arg(long)]
    pub json: bool,
    /// Print no progress on standard error.
    #[arg(long)]
    pub quiet: bool,
    /// Print a block of figures per second instead of one line: decisions, p99, spent, held, refusals.
    #[arg(long, conflicts_with = "quiet")]
    pub live: bool,
}

/// An inclusive range of amounts in micros, 1..=[`AMOUNT_MICROS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmountRange {
    /// Lowest amount.
    pub min: i64,
    /// Highest amount.
    pub max: i64,
}

impl Args {
    /// The target, or an error that names the flag.
    pub(crate) fn target(&self) -> Result<&str, HammerError> {
        self.target.as_deref().ok_or_else(|| HammerError::Usage {
            flag: "target",
            found: "not given".into(),
            expected: "HOST:PORT of a batch door".into(),
        })
    }

    /// What clap cannot see in one flag alone.
    ///
    /// # Errors
    /// [`HammerError::Usage`] when flags contradict each other.
    pub fn check(&self) -> Result<(), HammerError> {
        let usage = |flag, found: String, expected: &str| {
            Err(HammerError::Usage { flag, found, expected: expected.into() })
        };
        if u32::from(self.threads) > self.connections {
            return usage(
                "threads",
                format!("{} threads for {} connections", self.threads, self.connections),
                "at least one connection a thread",
            );
        }
        if self.openrtb && self.threads > 1 {
            return usage(
                "threads",
                format!("{} threads", self.threads),
                "one: an exchange is played by one thread (start several hammers for more)",
            );
        }
        if self.bad_macro + self.absurd > 1.0 {
            return usage(
                "absurd",
                format!("--bad-macro {} and --absurd {} together", self.bad_macro, self.absurd),
                "at most 1: a notice is one or the other",
            );
        }
        if self.over + self.late > 1.0 {
            return usage(
                "late",
                format!("--over {} and --late {} together", self.over, self.late),
                "at most 1: a settle is one or the other",
            );
        }
        if self.duration.is_zero() {
            return usage("duration", "0".into(), "some time to send asks in");
        }
        if self.timeout.is_zero() {
            return usage("timeout", "0".into(), "some time for an answer to arrive in");
        }
        Ok(())
    }
}

/// Reads `500us`, `20ms`, `10s`, `2m`, `1h`; a fraction is allowed (`1.5s`).
fn parse_duration(text: &str) -> Result<Duration, String> {
    let expected = || format!("'{text}' is not a duration; write 500us, 20ms, 10s, 2m or 1h");
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(expected)?;
    let (number, unit) = text.split_at(split);
    let seconds_each = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err(expected()),
    };
    let number: f64 = number.parse().map_err(|_| expected())?;
    let seconds = number * seconds_each;
    if !(0.0..=31_536_000.0).contains(&seconds) {
        return Err(format!("'{text}' is outside 0 to one year"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

fn parse_share(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err(format!("'{text}' is not a share; write a number from 0 to 1")),
    }
}

fn parse_skew(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(skew) if (0.0..=10.0).contains(&skew) => Ok(skew),
        _ => Err(format!("'{text}' is not a Zipf exponent; write a number from 0 to 10")),
    }
}

fn parse_amount(text: &str) -> Result<AmountRange, String> {
    let expected = || {
        format!(
            "'{text}' is not an amount; write base units as N or MIN..MAX, 1 to {AMOUNT_MICROS_MAX}"
        )
    };
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let min: i64 = min.parse().map_err(|_| expected())?;
    let max: i64 = max.trim_start_matches('=').parse().map_err(|_| expected())?;
    if min < 1 || max < min || max > AMOUNT_MICROS_MAX {
        return Err(expected());
    }
    Ok(AmountRange { min, max })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, String> {
        Cli::try_parse_from(line.split_whitespace()).map(|c| c.args).map_err(|e| e.to_string())
    }

    #[test]
    fn the_documented_command_line_parses() {
        let args = parse(
            "hammer --target 127.0.0.1:7700 --duration 10s --connections 8 --depth 8 --batch 10 \
             --rate 1000000 --budgets 50 --win 0.05 --seed 1 --json",
        )
        .unwrap();
        assert_eq!(args.target.as_deref(), Some("127.0.0.1:7700"));
        assert_eq!(args.duration, Duration::from_secs(10));
        assert_eq!((args.connections, args.depth, args.batch), (8, 8, 10));
        assert_eq!((args.rate, args.budgets), (Some(1_000_000), Some(50)));
        assert!(args.json && args.exclusive);
        args.check().unwrap();
    }

    #[test]
    fn durations_amounts_and_shares_say_what_was_expected() {
        assert_eq!(parse_duration("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1_500)));
        for wrong in ["10", "s", "-1s", "9y", "1e99h", "NaNs"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_amount("7"), Ok(AmountRange { min: 7, max: 7 }));
        assert_eq!(parse_amount("1..=9"), Ok(AmountRange { min: 1, max: 9 }));
        for wrong in ["0", "9..1", "-4", "1..9999999999999999", "x"] {
            assert!(parse_amount(wrong).is_err(), "{wrong}");
        }
        for wrong in ["1.1", "-0.1", "NaN", "many"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
        assert!(parse("hammer").is_err_and(|e| e.contains("--target")));
        assert!(parse("hammer --target x:1 --batch 0").is_err());
    }

    #[test]
    fn contradictions_are_usage_errors() {
        let too_many = parse("hammer --target x:1 --connections 1 --threads 2").unwrap();
        assert_eq!(too_many.check().unwrap_err().exit_code(), 2);
        let debts = parse("hammer --target x:1 --over 0.6 --late 0.6").unwrap();
        assert!(debts.check().is_err());
    }

    #[test]
    fn an_exchange_takes_its_own_flags_and_no_others() {
        let line = "hammer --openrtb --target x:1 --books x:2 --gzip 0.5 --bad-macro 0.1 --absurd 0.1 \
                    --notice-connections 2 --rate 5 --requests f.jsonl";
        let args = parse(line).unwrap();
        args.check().unwrap();
        assert!(args.openrtb && args.bodies == 20_000);
        for wrong in ["--batch 3", "--asks-from f", "--over 0.1", "--remember"] {
            assert!(parse(&format!("hammer --openrtb --target x:1 {wrong}")).is_err(), "{wrong}");
        }
        assert!(parse("hammer --target x:1 --gzip 0.5").is_err_and(|e| e.contains("--openrtb")));
        for wrong in ["--threads 2", "--bad-macro 0.6 --absurd 0.6"] {
            let args = parse(&format!("hammer --openrtb --target x:1 {wrong}")).unwrap();
            assert_eq!(args.check().unwrap_err().exit_code(), 2, "{wrong}");
        }
    }

    #[test]
    fn the_generator_needs_no_target() {
        assert_eq!(parse("hammer --generate-openrtb 5").unwrap().generate_openrtb, Some(5));
    }
}
