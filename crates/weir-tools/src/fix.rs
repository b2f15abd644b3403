//! `weir fix`: FIX sessions of a running node, and what a stopped one kept of them.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

use admin_client::{Client, FetchError, OpenError, Options, encode, harmless};
use clap::{Args, Subcommand};
use fix_store::{Direction, Kept, Place, last_times, read_history_from, read_memos, session_names};
use money::Instant;
use serde_json::{Value, json};

use crate::numbers::number;

/// Messages that are asked for at once.
const PAGE: u32 = 1_000;
/// Bytes of a page: it ends with the message that makes it larger than 1 MiB, a message may have 16 MiB, and each byte of it may take six.
const PAGE_BYTES_MAX: u64 = 128 << 20;
/// Whose orders are stopped.
const KILL: &str = "/v1/fix/kill";
const SOH: char = '\x01';

/// Looks at FIX sessions, or does something to one.
#[derive(Debug, Args)]
pub struct FixArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show how the sessions stand: state, sequence numbers, gaps, last messages.
    #[command(
        after_help = "Example: weir fix status\n\nOf a node that is stopped it shows what is in the data folder: numbers, and when messages were last kept."
    )]
    Status(StatusArgs),
    /// Print the messages of a session, both directions, one per line.
    #[command(
        after_help = "Example: weir fix messages --session CLIENT1 --from 2026-11-23T10:00:00Z\n\nLines are TIME in|out SESSION MESSAGE, with | for SOH and *** for passwords. A running node wants the role operate: messages are\norders. Of a node that is stopped they come from the data folder."
    )]
    Messages(MessagesArgs),
    /// List the orders that the venues know: open ones, and closed ones for a day.
    #[command(
        after_help = "Example: weir fix orders\n\nA running node wants the role operate. `-` stands for what no message said."
    )]
    Orders(OrdersArgs),
    /// Let both sequence numbers of a session without a connection begin again at 1.
    #[command(
        after_help = "Example: weir fix reset --session CLIENT1 --reason \"agreed with the desk\"\n\nThe peer has to do the same. The reason goes into the audit (GET /v1/audit)."
    )]
    Reset(ActArgs),
    /// Ask the peer of a session to send messages again.
    #[command(
        after_help = "Example: weir fix resend --session CLIENT1 --from 120 --reason \"we lost it\"\n\nNothing is taken twice. The gate sends its own messages again only when the peer asks."
    )]
    Resend(ResendArgs),
    /// Send a Logout to a session.
    #[command(
        after_help = "Example: weir fix logout --session CLIENT1 --reason \"end of the day\"\n\nA client may log on again, and a venue is connected to again."
    )]
    Logout(ActArgs),
    /// Stop orders of a session, an account or a firm, and cancel the open ones.
    #[command(
        after_help = "Example: weir fix kill --scope firm --name ACME --reason \"a fat finger\"\n\nNew orders and replaces are refused from now on, cancels pass. It lasts over restarts, until weir fix enable. Prints all that is\nstopped. What is stopped already is cancelled again."
    )]
    Kill(KillArgs),
    /// Let orders pass again that were stopped.
    #[command(
        after_help = "Example: weir fix enable --scope firm --name ACME --reason \"the desk has mended it\"\n\nWhere the node has tokens, it needs another one than that which stopped them. Prints what is stopped still."
    )]
    Enable(KillArgs),
    /// List whose orders are stopped.
    Kills(KillsArgs),
}

#[derive(Debug, Args)]
struct StatusArgs {
    #[command(flatten)]
    node: Options,
    /// Show this session alone.
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct MessagesArgs {
    #[command(flatten)]
    node: Options,
    /// The session's name in the configuration.
    #[arg(long, value_name = "NAME")]
    session: String,
    /// Print no messages from before this time, as 2026-11-23T10:00:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<Instant>,
    /// Print no messages from this time on.
    #[arg(long, value_name = "TIME")]
    to: Option<Instant>,
    /// Keep SOH, and every other byte, as it is.
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    /// Print one JSON object per message.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct OrdersArgs {
    #[command(flatten)]
    node: Options,
    /// Print one JSON object per order.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct ActArgs {
    #[command(flatten)]
    node: Options,
    /// The session's name in the configuration.
    #[arg(long, value_name = "NAME")]
    session: String,
    /// Why, 3 to 500 characters, for the audit.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Debug, Args)]
struct ResendArgs {
    #[command(flatten)]
    act: ActArgs,
    /// MsgSeqNum of the first message that is to be sent again.
    #[arg(long, value_name = "N", value_parser = number)]
    from: u64,
    /// MsgSeqNum of the last one; 0: all there are.
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = number)]
    to: u64,
}

#[derive(Debug, Args)]
struct KillArgs {
    #[command(flatten)]
    node: Options,
    /// What the name names.
    #[arg(long, value_name = "SCOPE", value_parser = ["session", "account", "firm"])]
    scope: String,
    /// The session, the account (1) or the firm, exactly.
    #[arg(long, value_name = "NAME")]
    name: String,
    /// Why, 3 to 500 characters, for the audit.
    #[arg(long, value_name = "TEXT")]
    reason: String,
}

#[derive(Debug, Args)]
struct KillsArgs {
    #[command(flatten)]
    node: Options,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

/// Why a command did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// The command line.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The node was not reached, or does not do it.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The files of a stopped node.
    #[error(transparent)]
    Files(#[from] fix_store::OpenError),
    /// There is no such session.
    #[error("there is no FIX session {name:?}{}", among(known))]
    NoSession {
        /// What was asked for.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The answer has another form.
    #[error("the node's answer has another form: no {0}; use the weir of the node's release")]
    Form(&'static str),
    /// Output.
    #[error("cannot write: {0}")]
    Output(#[from] std::io::Error),
}

fn among(known: &[String]) -> String {
    match known.is_empty() {
        true => "; no FIX session is configured there".into(),
        false => format!("; there are: {}", known.join(", ")),
    }
}

/// Carries out a command.
///
/// # Errors
/// [`FixError`].
pub fn main(args: &FixArgs, out: &mut dyn Write, told: &mut dyn Write) -> Result<(), FixError> {
    match &args.command {
        Command::Status(args) => status(args, out, told),
        Command::Messages(args) => messages(args, out, told),
        Command::Orders(args) => orders(args, out),
        Command::Reset(args) => act(args, "reset", &json!({"reason": args.reason}), out),
        Command::Logout(args) => act(args, "logout", &json!({"reason": args.reason}), out),
        Command::Resend(ResendArgs { act: args, from, to }) => {
            let body = json!({"from": from, "to": to, "reason": args.reason});
            act(args, "resend", &body, out)
        }
        Command::Kill(args) => kills(&args.node.open()?.post_json(KILL, &args.body())?, false, out),
        Command::Enable(args) => {
            kills(&args.node.open()?.delete_json(KILL, &args.body())?, false, out)
        }
        Command::Kills(args) => kills(&args.node.open()?.get(KILL)?, args.json, out),
    }
}

/// Asks the node, or else takes the files of its data folder, where nobody said which node.
fn node_or_files<T>(
    node: &Options,
    told: &mut dyn Write,
    ask: impl FnOnce(&Client) -> Result<T, FetchError>,
) -> Result<Option<T>, FixError> {
    let folder = node.data.join("fix");
    let may_read = node.access.target.is_none() && folder.exists();
    let error: FixError = match node.open().map(|client| ask(&client)) {
        Ok(Ok(answer)) => return Ok(Some(answer)),
        Ok(Err(error @ (FetchError::Unreachable { .. } | FetchError::OtherNode { .. }))) => {
            error.into()
        }
        Ok(Err(error)) => return Err(error.into()),
        Err(error @ OpenError::NoAddress { .. }) => error.into(),
        Err(error) => return Err(error.into()),
    };
    if !may_read {
        return Err(error);
    }
    writeln!(told, "weir: no node runs on {}; this is what its files have", node.data.display())?;
    Ok(None)
}

fn status(args: &StatusArgs, out: &mut dyn Write, told: &mut dyn Write) -> Result<(), FixError> {
    let asked = node_or_files(&args.node, told, |client| client.get("/v1/fix/sessions"))?;
    let found: Value = match asked {
        Some(answer) => answer,
        None => kept_status(&args.node.data.join("fix"))?,
    };
    let all = found["sessions"].as_array().ok_or(FixError::Form("sessions"))?;
    let is_meant = |one: &&Value| args.session.as_ref().is_none_or(|name| one["name"] == **name);
    let shown: Vec<&Value> = all.iter().filter(is_meant).collect();
    if let (Some(name), true) = (&args.session, shown.is_empty()) {
        let known = all.iter().filter_map(|one| one["name"].as_str()).map(harmless).collect();
        return Err(FixError::NoSession { name: name.clone(), known });
    }
    // A stopped node's files do not say it.
    let refused = &found["refused_logons"];
    if args.json {
        writeln!(out, "{}", json!({ "sessions": shown, "refused_logons": refused }))?;
        return Ok(());
    }
    table(&shown, out)?;
    if let Some(count) = refused.as_u64().filter(|count| *count > 0) {
        writeln!(
            told,
            "weir: refused logons since the start: {count}; the node's log has their CompIDs and addresses"
        )?;
    }
    Ok(())
}

/// What the files of a stopped node say, as the node would.
fn kept_status(folder: &Path) -> Result<Value, FixError> {
    let mut sessions = Vec::new();
    for (name, memo) in read_memos(folder)? {
        let [last_in, last_out] = last_times(folder, &name)?;
        let ms = |us: Option<i64>| us.map(|us| us.div_euclid(1_000));
        sessions.push(json!({
            "name": name, "next_out": memo.next_out, "next_in": memo.next_in,
            "last_in_ms": ms(last_in), "last_out_ms": ms(last_out),
        }));
    }
    Ok(json!({ "sessions": sessions }))
}

const ORDER_COLUMNS: [(&str, &str); 12] = [
    ("session", "session"),
    ("venue", "venue"),
    ("cl_ord_id", "cl_ord_id"),
    ("order_id", "order_id"),
    ("account", "account"),
    ("symbol", "symbol"),
    ("side", "side"),
    ("quantity", "quantity"),
    ("price", "price"),
    ("cum", "cum"),
    ("leaves", "leaves"),
    ("state", "state"),
];

const KILL_COLUMNS: [(&str, &str); 6] = [
    ("scope", "scope"),
    ("name", "name"),
    ("at_ms", "since"),
    ("who", "by"),
    ("sealed", "sealed"),
    ("reason", "reason"),
];

/// Each page is a table: a million orders are not kept to align their columns.
fn orders(args: &OrdersArgs, out: &mut dyn Write) -> Result<(), FixError> {
    let client = args.node.open()?;
    let mut path = format!("/v1/fix/orders?max={PAGE}");
    loop {
        let found: Value = client.get(&path)?;
        let all = found["orders"].as_array().ok_or(FixError::Form("orders"))?;
        if args.json {
            all.iter().try_for_each(|order| writeln!(out, "{order}"))?;
        } else if !all.is_empty() {
            columned(&ORDER_COLUMNS, &all.iter().collect::<Vec<_>>(), out)?;
        }
        let Some(next) = found["next"].as_str() else { return Ok(()) };
        path = format!("/v1/fix/orders?max={PAGE}&cursor={}", encode(next));
    }
}

/// Columns: what a session is asked for, and how the column is called.
const COLUMNS: [(&str, &str); 14] = [
    ("name", "session"),
    ("kind", "kind"),
    ("state", "state"),
    ("next_out", "next out"),
    ("next_in", "next in"),
    ("address", "address"),
    ("route", "route"),
    ("gaps", "gaps"),
    ("messages_in", "in"),
    ("messages_out", "out"),
    ("latency_p50_us", "p50 us"),
    ("latency_p99_us", "p99 us"),
    ("last_in_ms", "last in"),
    ("last_out_ms", "last out"),
];

fn table(sessions: &[&Value], out: &mut dyn Write) -> Result<(), FixError> {
    // What no session has is not known of any of them.
    let is_known = |name: &str| sessions.iter().any(|one| one.get(name).is_some());
    let columns: Vec<(&str, &str)> =
        COLUMNS.into_iter().filter(|column| is_known(column.0)).collect();
    columned(&columns, sessions, out)?;
    if sessions.is_empty() {
        writeln!(out, "there is no FIX session")?;
    }
    Ok(())
}

fn columned(
    columns: &[(&str, &str)],
    lines: &[&Value],
    out: &mut dyn Write,
) -> Result<(), FixError> {
    let heading: Vec<String> = columns.iter().map(|column| column.1.to_owned()).collect();
    let row = |one: &&Value| columns.iter().map(|column| cell(column.0, &one[column.0])).collect();
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(lines.iter().map(row)).collect();
    let wide = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(wide).collect();
    for row in &rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, wide)| format!("{cell:<wide$}")).collect();
        writeln!(out, "{}", cells.join("  ").trim_end())?;
    }
    Ok(())
}

fn cell(column: &str, value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => harmless(text),
        Value::Number(ms) if column.ends_with("_ms") => {
            Instant::from_ms(ms.as_u64().unwrap_or(0)).to_string()
        }
        other => other.to_string(),
    }
}

fn act(args: &ActArgs, act: &str, body: &Value, out: &mut dyn Write) -> Result<(), FixError> {
    let path = format!("/v1/fix/sessions/{}/{act}", encode(&args.session));
    let session = args.node.open()?.post_json(&path, body)?;
    table(&[&session], out)
}

impl KillArgs {
    fn body(&self) -> Value {
        json!({"scope": self.scope, "name": self.name, "reason": self.reason})
    }
}

fn kills(found: &Value, is_json: bool, out: &mut dyn Write) -> Result<(), FixError> {
    let all = found["kills"].as_array().ok_or(FixError::Form("kills"))?;
    if is_json {
        writeln!(out, "{found}")?;
    } else if all.is_empty() {
        writeln!(out, "no orders are stopped")?;
    } else {
        columned(&KILL_COLUMNS, &all.iter().collect::<Vec<_>>(), out)?;
    }
    Ok(())
}

/// One message, wherever it comes from.
struct MessageLine<'l> {
    at_us: u64,
    is_out: bool,
    /// `None`: it is damaged.
    bytes: Option<&'l [u8]>,
}

fn messages(
    args: &MessagesArgs,
    out: &mut dyn Write,
    told: &mut dyn Write,
) -> Result<(), FixError> {
    let mut cursor = None;
    loop {
        let path = page_path(args, cursor.as_deref());
        // Only the first question tells whether there is a node.
        let found: Option<Value> = match &cursor {
            None => node_or_files(&args.node, told, |client| page(client, &path))?,
            Some(_) => Some(page(&args.node.open()?, &path)?),
        };
        let Some(found) = found else { return kept_messages(args, out) };
        let all = found["messages"].as_array().ok_or(FixError::Form("messages"))?;
        for message in all {
            print_answered(args, message, out)?;
        }
        cursor = found["next"].as_str().map(str::to_owned);
        if cursor.is_none() {
            return Ok(());
        }
    }
}

fn page(client: &Client, path: &str) -> Result<Value, FetchError> {
    client.clone().with_body_bytes_max(PAGE_BYTES_MAX).get(path)
}

fn page_path(args: &MessagesArgs, cursor: Option<&str>) -> String {
    let mut path = format!("/v1/fix/sessions/{}/messages?max={PAGE}", encode(&args.session));
    for (name, time) in [("from_ms", args.from), ("to_ms", args.to)] {
        if let Some(time) = time {
            path += &format!("&{name}={}", time.ms());
        }
    }
    cursor.map_or(path.clone(), |cursor| format!("{path}&cursor={cursor}"))
}

fn print_answered(
    args: &MessagesArgs,
    message: &Value,
    out: &mut dyn Write,
) -> Result<(), FixError> {
    let hex = message["hex"].as_str().map(|hex| {
        let digits: Vec<u8> = hex
            .chars()
            .filter_map(|c| c.to_digit(16))
            .filter_map(|d| u8::try_from(d).ok())
            .collect();
        digits.chunks(2).map(|two| two.iter().fold(0, |byte, digit| byte << 4 | digit)).collect()
    });
    let bytes: Option<Vec<u8>> = hex.or(message["message"].as_str().map(|text| text.into()));
    let at_us = message["at_us"].as_u64().ok_or(FixError::Form("at_us"))?;
    let is_out = message["direction"] == "out";
    print(args, &MessageLine { at_us, is_out, bytes: bytes.as_deref() }, out)
}

fn kept_messages(args: &MessagesArgs, out: &mut dyn Write) -> Result<(), FixError> {
    let folder = args.node.data.join("fix");
    let known = session_names(&folder)?;
    if !known.contains(&args.session) {
        return Err(FixError::NoSession { name: args.session.clone(), known });
    }
    let us = |time: Instant| i64::try_from(time.ms().saturating_mul(1_000)).unwrap_or(i64::MAX);
    let (from_us, to_us) = (args.from.map_or(i64::MIN, us), args.to.map_or(i64::MAX, us));
    let mut printed = Ok(());
    let each = |kept: Kept<'_>| {
        if kept.at_us < to_us {
            let at_us = u64::try_from(kept.at_us).unwrap_or(0);
            let is_out = kept.direction == Direction::Out;
            printed = print(args, &MessageLine { at_us, is_out, bytes: kept.message }, out);
        }
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    read_history_from(&folder, &args.session, Place::default(), from_us, each)?;
    printed
}

fn print(args: &MessagesArgs, line: &MessageLine<'_>, out: &mut dyn Write) -> Result<(), FixError> {
    let (at, direction) = (time(line.at_us), if line.is_out { "out" } else { "in" });
    if args.json {
        let text = line.bytes.map(String::from_utf8_lossy);
        let message = json!({
            "at": at, "at_us": line.at_us, "direction": direction, "session": args.session, "message": text,
        });
        writeln!(out, "{message}")?;
        return Ok(());
    }
    write!(out, "{at} {direction} {} ", harmless(&args.session))?;
    match line.bytes {
        None => write!(out, "(damaged)")?,
        Some(bytes) if args.raw => out.write_all(bytes)?,
        Some(bytes) => {
            let text = String::from_utf8_lossy(bytes).replace(SOH, "|");
            write!(out, "{}", harmless(&text))?;
        }
    }
    writeln!(out)?;
    Ok(())
}

/// RFC 3339 with microseconds.
fn time(us: u64) -> String {
    let second = Instant::from_ms(us / 1_000_000 * 1_000).to_string();
    format!("{}.{:06}Z", second.trim_end_matches('Z'), us % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds() {
        assert_eq!(time(1_795_428_000_000_123), "2026-11-23T10:00:00.000123Z");
        assert_eq!(time(0), "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn sessions_are_shown_with_what_is_known_of_them() {
        let one = json!({"name": "A", "next_out": 7, "next_in": 12, "last_in_ms": 1_795_428_000_000_u64,
            "last_out_ms": null});
        let mut out = Vec::new();
        table(&[&one], &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let words: Vec<Vec<&str>> =
            text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(words[0].join(" "), "session next out next in last in last out");
        assert_eq!(words[1], ["A", "7", "12", "2026-11-23T10:00:00Z", "-"]);
    }
}
