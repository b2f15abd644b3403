//! `weir journal audit`: every balance recomputed from the records alone.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use ledger::{Bank, Line};
use ledger_journal::Fault;
use serde_json::{Value, json};

use super::balances::{Account, Balances};
use super::live::{self, Spends};
use super::text;
use super::trail::Folder;
use super::{JournalError, Outcome, Progress, Where};
use crate::stat;

#[derive(clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Where,
    /// Compare with the running node, too: its admin address.
    #[arg(long, value_name = "HOST:PORT", conflicts_with = "live")]
    target: Option<SocketAddr>,
    /// The same, with the address from the data folder.
    #[arg(long)]
    live: bool,
    /// As one JSON object, every budget; amounts in base units.
    #[arg(long)]
    json: bool,
}

/// How often a comparison with a node that is not quiet is tried again.
const TRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(250);

pub(super) fn run(args: &Args, out: &mut dyn Write) -> Result<Outcome, JournalError> {
    let folder = args.place.folder()?;
    let target = match (args.target, args.live) {
        (None, true) => {
            let found = stat::address_of(&folder.data);
            Some(found.map_err(|error| JournalError::Live(error.to_string()))?)
        }
        (target, _) => target,
    };
    let mut audit = Audit::read(&folder, target)?;
    for _ in 1..TRIES {
        // Settles that came in meanwhile: the next look may find the node quiet.
        if audit.live.as_ref().is_none_or(|live| live.equal) {
            break;
        }
        std::thread::sleep(PAUSE);
        audit = Audit::read(&folder, target)?;
    }
    // A reader that went away (`| head`) is no failure; the exit code still tells.
    let _ = if args.json { audit.print_json(out) } else { audit.print(out) };
    Ok(if audit.is_well() { Outcome::Well } else { Outcome::Bad })
}

struct Audit {
    snapshot: Option<u64>,
    /// Sequence of the last record.
    last: u64,
    balances: Balances,
    /// Per budget: the lines that differ from the bank's books; name, here, there.
    differences: BTreeMap<u64, Vec<(String, i128, i128)>>,
    bank_audit: Option<String>,
    live: Option<Live>,
}

/// How the node's books compare.
struct Live {
    address: SocketAddr,
    /// The node said the same before and after the reading, and the records say it too.
    equal: bool,
    /// Budgets whose spend moved meanwhile and lies between what was said before and after.
    between: u64,
    /// Budgets that differ: the records, the node before, the node after.
    differing: BTreeMap<u64, [[i128; 3]; 3]>,
}

impl Audit {
    fn read(folder: &Folder, target: Option<SocketAddr>) -> Result<Audit, JournalError> {
        let before = target.map(live::spends).transpose()?;
        let base = folder.base()?;
        let (mut bank, snapshot) = (base.bank, base.snapshot);
        let (mut balances, mut progress) = (Balances::of(&bank), Progress::new());
        let mut last = base.start.position.map_or(0, |at| at.sequence - 1);
        folder.walk(base.start, &mut |place, record| {
            progress.count();
            last = place.at.sequence;
            balances.take(last, &record);
            bank.replay(&record).map_err(|error| Fault::Replay(error.to_string()))
        })?;
        drop(progress);
        let after = target.map(live::spends).transpose()?;
        let live = match (target, before, after) {
            (Some(address), Some(before), Some(after)) => {
                Some(Live::compare(address, &balances, &before, &after))
            }
            _ => None,
        };
        let differences = compare(&balances, &bank);
        let bank_audit = bank.audit().err();
        Ok(Audit { snapshot, last, balances, differences, bank_audit, live })
    }

    fn is_well(&self) -> bool {
        self.differences.is_empty()
            && self.balances.wrong == 0
            && self.unexplained().next().is_none()
            && self.bank_audit.is_none()
            && self.live.as_ref().is_none_or(|live| live.differing.is_empty())
    }

    /// Budgets with more out or spent than their limit, without a reason.
    fn unexplained(&self) -> impl Iterator<Item = &Account> {
        self.balances.accounts.iter().filter(|account| account.unexplained() > 0)
    }

    fn print(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let balances = &self.balances;
        let from = match self.snapshot {
            Some(sequence) => {
                format!("snapshot {sequence} and {} records after it", balances.records)
            }
            None => format!("all {} records", balances.records),
        };
        writeln!(out, "recomputed from {from}, up to record {}", self.last)?;
        for (unit, sums) in self.per_unit() {
            writeln!(out, "{unit}: {sums}")?;
        }
        for (id, lines) in &self.differences {
            for (name, here, there) in lines {
                writeln!(
                    out,
                    "DIFFERENCE budget {id}, {name}: records {here}, replayed books {there}"
                )?;
            }
        }
        for account in self.unexplained() {
            let (id, more) = (account.id, account.unexplained());
            writeln!(
                out,
                "OVER THE LIMIT budget {id}: {more} that no debt and no lowered limit explains"
            )?;
        }
        for text in balances.told.iter().chain(&self.bank_audit) {
            writeln!(out, "WRONG {text}")?;
        }
        writeln!(
            out,
            "{} budgets, {} settles; differing from the replayed books: {}; over their limit: {}; grants beyond \
             what was free: {}; holds settled twice: {}; other findings: {}",
            balances.accounts.len(),
            balances.accounts.iter().map(|account| account.settles).sum::<u64>(),
            self.differences.len(),
            self.unexplained().count(),
            balances.overspends,
            balances.settled_twice,
            balances.wrong - balances.overspends - balances.settled_twice,
        )?;
        self.live.iter().try_for_each(|live| live.print(self.last, out))?;
        writeln!(
            out,
            "{}",
            if self.is_well() { "the books are right" } else { "THE BOOKS ARE NOT RIGHT" }
        )
    }

    /// Sums of the budgets without a parent: those under one are in it.
    fn per_unit(&self) -> BTreeMap<String, String> {
        let mut sums: BTreeMap<String, (money::Unit, [i128; 8])> = BTreeMap::new();
        for account in self.balances.accounts.iter().filter(|account| account.is_top()) {
            let (_, sum) = sums.entry(account.unit.to_string()).or_insert((account.unit, [0; 8]));
            sum[0] += account.limit;
            sum[1..].iter_mut().zip(account.lines).for_each(|(sum, line)| *sum += line);
        }
        const NAMES: [&str; 8] =
            ["limit", "free", "purses", "held", "suspended", "settled", "over_settled", "late"];
        let shown = |(unit, sum): (money::Unit, [i128; 8])| {
            let parts = NAMES.iter().zip(sum);
            let parts: Vec<String> = parts
                .map(|(name, sum)| format!("{name} {}", text::amount(Some(unit), sum)))
                .collect();
            parts.join(", ")
        };
        sums.into_iter().map(|(unit, sums)| (unit, shown(sums))).collect()
    }

    fn print_json(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let budgets: Vec<Value> =
            self.balances.accounts.iter().map(|account| self.budget_json(account)).collect();
        let balances = &self.balances;
        let live = self.live.as_ref().map(|live| {
            let ids: Vec<u64> = live.differing.keys().copied().collect();
            let address = live.address.to_string();
            json!({ "target": address, "equal": live.equal, "between": live.between, "differing": ids })
        });
        let answer = json!({
            "well": self.is_well(),
            "snapshot": self.snapshot,
            "records": balances.records,
            "last": self.last,
            "budgets": budgets,
            "differing": self.differences.len(),
            "over_limit": self.unexplained().count(),
            "grants_beyond_free": balances.overspends,
            "settled_twice": balances.settled_twice,
            "findings": balances.told.iter().chain(&self.bank_audit).collect::<Vec<_>>(),
            "live": live,
        });
        writeln!(out, "{answer}")
    }

    fn budget_json(&self, account: &Account) -> Value {
        // Each line is within the limits of amounts, or a finding; then it is shown as text.
        let number = |value: i128| {
            i64::try_from(value).map_or_else(|_| value.to_string().into(), Value::from)
        };
        let differences: Vec<Value> = self.differences.get(&account.id).into_iter().flatten().map(
            |(name, here, there)| json!({ "line": name, "records": number(*here), "books": number(*there) }),
        ).collect();
        json!({
            "id": account.id,
            "unit": account.unit.to_string(),
            "limit": number(account.limit),
            "free": number(account.line(Line::Free)),
            "purses": number(account.line(Line::Purses)),
            "held": number(account.line(Line::Held)),
            "suspended": number(account.line(Line::Suspended)),
            "settled": number(account.line(Line::Settled)),
            "over_settled": number(account.line(Line::OverSettled)),
            "late": number(account.line(Line::Late)),
            "settles": account.settles,
            "differences": differences,
        })
    }
}

fn compare(balances: &Balances, bank: &Bank) -> BTreeMap<u64, Vec<(String, i128, i128)>> {
    let differing = balances.accounts.iter().filter_map(|account| {
        let lines = match bank.slot(account.id) {
            Some(slot) => account.differences(bank, slot),
            None => vec![("limit".into(), account.limit, 0)],
        };
        (!lines.is_empty()).then_some((account.id, lines))
    });
    differing.collect()
}

impl Live {
    fn compare(address: SocketAddr, balances: &Balances, before: &Spends, after: &Spends) -> Live {
        let mut live = Live { address, equal: true, between: 0, differing: BTreeMap::new() };
        for account in &balances.accounts {
            let here =
                [Line::Settled, Line::OverSettled, Line::Late].map(|line| account.line(line));
            let (first, second) = (before.get(&account.id), after.get(&account.id));
            let (first, second) =
                (first.copied().unwrap_or_default(), second.copied().unwrap_or_default());
            if first == here && second == here {
                continue;
            }
            live.equal = false;
            // What is spent only grows, so the records that were read in between cannot be outside.
            let inside = |line: usize| (first[line]..=second[line]).contains(&here[line]);
            if (0..3).all(inside) {
                live.between += 1;
            } else {
                live.differing.insert(account.id, [here, first, second]);
            }
        }
        live
    }

    fn print(&self, last: u64, out: &mut dyn Write) -> std::io::Result<()> {
        for (id, [here, before, after]) in &self.differing {
            writeln!(
                out,
                "DIFFERENCE budget {id}, settled, over_settled and late: records {here:?}, node {before:?} before \
                 the reading and {after:?} after it"
            )?;
        }
        let address = self.address;
        if self.equal {
            return writeln!(
                out,
                "node at {address}: settled, over_settled and late of every budget equal the records up to {last}"
            );
        }
        writeln!(
            out,
            "node at {address}: settles went on, so equality cannot be seen. {} budgets lie between what the node \
             said before and after the reading, {} do not. For equality run this while no settles come in.",
            self.between,
            self.differing.len()
        )
    }
}
