//! `weir journal audit`: every balance recomputed from the records alone.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use admin_client::{Access, Client};
use ledger::{Bank, Line};
use ledger_journal::Fault;
use serde_json::{Value, json};
use wire::Handle;

use super::balances::{Account, Balances, Fate, Lines};
use super::live::{self, Spends, SpentLines};
use super::text;
use super::trail::Folder;
use super::{JournalError, Outcome, Progress, Where};
use crate::WhichBudget;

#[derive(clap::Args)]
pub(super) struct AuditArgs {
    #[command(flatten)]
    place: Where,
    /// With --target: compare with the running node, too.
    #[command(flatten)]
    access: Access,
    /// Also compare with the running node at the address in the data folder.
    #[arg(long, conflicts_with = "target")]
    live: bool,
    /// Also print the lines of this budget; with --json, no other budget. All are compared.
    #[arg(long, value_name = "ID|HANDLE")]
    budget: Option<WhichBudget>,
    /// Print one JSON object with every budget; amounts are in base units: micros, nanos for a unit such as USDn, or items.
    #[arg(long)]
    json: bool,
}

/// How often a comparison with a node that is not quiet is tried again.
const TRIES: usize = 4;
const PAUSE: Duration = Duration::from_millis(250);

pub(super) fn run(args: &AuditArgs, out: &mut dyn Write) -> Result<Outcome, JournalError> {
    let folder = args.place.folder()?;
    let client = (args.live || args.access.target.is_some())
        .then(|| args.access.open(&folder.data))
        .transpose()
        .map_err(|error| JournalError::Live(error.to_string()))?;
    let mut audit = Audit::read(&folder, client.as_ref())?;
    for _ in 1..TRIES {
        // Settles that came in meanwhile: the next look may find the node quiet.
        if audit.live.as_ref().is_none_or(|live| live.equal) {
            break;
        }
        std::thread::sleep(PAUSE);
        audit = Audit::read(&folder, client.as_ref())?;
    }
    // A reader that went away (`| head`) is no failure; the exit code still tells.
    let asked = args.budget.as_ref();
    if let Some(named) = asked.filter(|_| audit.shown(asked).next().is_none()) {
        return Err(JournalError::Usage(format!("no record tells of a budget {named}")));
    }
    let _ = match args.json {
        true => audit.print_json(asked, out),
        false => audit.print(asked, out),
    };
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
    /// Why a start would refuse the journal: then records are missing, however well the others add up.
    refusal: Option<String>,
    live: Option<Live>,
}

/// How the node's books compare.
struct Live {
    /// `HOST:PORT` of its admin door.
    address: String,
    /// The node said the same before and after the reading, and the records say it too.
    equal: bool,
    /// Budgets whose spend moved meanwhile and lies between what was said before and after.
    between: u64,
    /// Budgets that differ: the records, the node before, the node after.
    differing: BTreeMap<u64, [SpentLines; 3]>,
}

impl Audit {
    fn read(folder: &Folder, client: Option<&Client>) -> Result<Audit, JournalError> {
        let before = client.map(live::spends).transpose()?;
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
        let after = client.map(live::spends).transpose()?;
        let live = match (client, before, after) {
            (Some(client), Some(before), Some(after)) => {
                Some(Live::compare(client.address(), &balances, &before, &after))
            }
            _ => None,
        };
        let differences = compare(&balances, &bank);
        let bank_audit = bank.audit().err();
        let refusal = folder.refusal()?;
        let refusal = refusal.map(|error| format!("a start refuses this journal: {error}"));
        Ok(Audit { snapshot, last, balances, differences, bank_audit, refusal, live })
    }

    fn is_well(&self) -> bool {
        self.differences.is_empty()
            && self.balances.wrong == 0
            && self.unexplained().next().is_none()
            && self.bank_audit.is_none()
            && self.refusal.is_none()
            && self.live.as_ref().is_none_or(|live| live.differing.is_empty())
    }

    /// Budgets with more out or spent than their limit, without a reason.
    fn unexplained(&self) -> impl Iterator<Item = &Account> {
        self.balances.accounts.iter().filter(|account| account.unexplained() > 0)
    }

    /// The budgets that are asked for; all, where none is.
    fn shown<'a>(&'a self, asked: Option<&'a WhichBudget>) -> impl Iterator<Item = &'a Account> {
        let is_asked = move |account: &&Account| {
            asked.is_none_or(|named| named.is(account.id, account.handle.as_ref()))
        };
        self.balances.accounts.iter().filter(is_asked)
    }

    fn print(&self, asked: Option<&WhichBudget>, out: &mut dyn Write) -> std::io::Result<()> {
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
        for account in self.shown(asked).filter(|_| asked.is_some()) {
            let sums = sums(account.unit, account.limit, account.lines);
            let handle = account.handle.as_ref().map_or(String::new(), |of| format!(" {of}"));
            writeln!(out, "budget {}{handle}: {sums}, in {} settles", account.id, account.settles)?;
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
        for text in balances.told.iter().chain(&self.bank_audit).chain(&self.refusal) {
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
        let mut sums: BTreeMap<String, (money::Unit, i128, Lines)> = BTreeMap::new();
        for account in self.balances.accounts.iter().filter(|account| account.is_top()) {
            let nothing = (account.unit, 0, Lines::default());
            let (_, limit, lines) = sums.entry(account.unit.to_string()).or_insert(nothing);
            *limit += account.limit;
            lines.iter_mut().zip(account.lines).for_each(|(sum, line)| *sum += line);
        }
        let shown = |(unit, limit, lines)| self::sums(unit, limit, lines);
        sums.into_iter().map(|(unit, sums)| (unit, shown(sums))).collect()
    }

    fn print_json(&self, asked: Option<&WhichBudget>, out: &mut dyn Write) -> std::io::Result<()> {
        let budgets: Vec<Value> =
            self.shown(asked).map(|account| self.budget_json(account)).collect();
        let balances = &self.balances;
        let live = self.live.as_ref().map(|live| {
            let ids: Vec<u64> = live.differing.keys().copied().collect();
            let address = &live.address;
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
            "findings": balances
                .told
                .iter()
                .chain(&self.bank_audit)
                .chain(&self.refusal)
                .collect::<Vec<_>>(),
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
        let mut budget = json!({
            "id": account.id,
            "handle": account.handle.as_ref().map(Handle::as_str),
            "unit": account.unit.to_string(),
            "limit": number(account.limit),
            "settles": account.settles,
            "differences": differences,
        });
        for line in Bank::LINES {
            budget[line.name()] = number(account.line(line));
        }
        budget
    }
}

/// A limit and the lines of books, in their unit.
fn sums(unit: money::Unit, limit: i128, lines: Lines) -> String {
    let named = Bank::LINES.map(Line::name).into_iter().zip(lines);
    let parts = std::iter::once(("limit", limit)).chain(named);
    let parts: Vec<String> =
        parts.map(|(name, sum)| format!("{name} {}", text::amount(Some(unit), sum))).collect();
    parts.join(", ")
}

fn compare(balances: &Balances, bank: &Bank) -> BTreeMap<u64, Vec<(String, i128, i128)>> {
    let differing = balances.accounts.iter().filter_map(|account| {
        let lines = account.differences(bank);
        (!lines.is_empty()).then_some((account.id, lines))
    });
    differing.collect()
}

impl Live {
    fn compare(address: &str, balances: &Balances, before: &Spends, after: &Spends) -> Live {
        let address = address.to_owned();
        let mut live = Live { address, equal: true, between: 0, differing: BTreeMap::new() };
        // A node shows no books of those that ended.
        for account in balances.accounts.iter().filter(|account| account.fate == Fate::Live) {
            let here = Line::SPENT.map(|line| account.line(line));
            let (first, second) = (before.get(&account.id), after.get(&account.id));
            let (first, second) =
                (first.copied().unwrap_or_default(), second.copied().unwrap_or_default());
            if first == here && second == here {
                continue;
            }
            live.equal = false;
            // What is spent only grows, so the records that were read in between cannot be outside.
            let inside = |line: usize| (first[line]..=second[line]).contains(&here[line]);
            if (0..here.len()).all(inside) {
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
                "DIFFERENCE budget {id}, the lines of what is spent: records {here:?}, node {before:?} before \
                 the reading and {after:?} after it"
            )?;
        }
        let address = &self.address;
        if self.equal {
            return writeln!(
                out,
                "node at {address}: the lines of what is spent of every budget equal the records up to {last}"
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

#[cfg(test)]
mod tests {
    use super::*;
    use ledger::{Amount, Clock, Door, Hold, Options, Origin, Record, Verdict};

    const LIMIT: i64 = 1_000_000_000;

    fn resolved(seq: u32, held: i64, verdict: Verdict, amount: i64) -> Record {
        let hold = Hold { grant: 1, seq, node: 1, deadline_ms: 5_000, amount: Amount::new(held) };
        let origin = Origin { door: Door::Batch, request_id: 0 };
        Record::Resolved {
            hold,
            verdict,
            amount: Amount::new(amount),
            at_ms: 2_000,
            origin,
            keeps_rest: false,
            clicked: false,
            kept: None,
        }
    }

    fn granted(grant: u64, amount: i64) -> Record {
        Record::Granted { grant, budget: 7, worker: 0, amount: Amount::new(amount), at_ms: 1_000 }
    }

    fn run_started(run: u32) -> Record {
        Record::RunStarted {
            run,
            at_ms: 3_000,
            suspended_until_ms: 9_000,
            hold_ms_max: 2_000,
            billing_ms: 3_600_000,
            win_notices: false,
            lease_ms: 0,
            node: "".into(),
        }
    }

    /// Records that leave money on every line.
    fn records() -> Vec<Record> {
        let unit = money::Unit::parse("USD").unwrap();
        let spec = ledger::BudgetSpec::plain(7, unit, Amount::new(LIMIT));
        let (grant, clock, deadline_ms) = (1, Clock::Hold, 1_500);
        vec![
            run_started(1),
            Record::Budget { spec: Box::new(spec) },
            granted(1, 400_000_000),
            Record::Expired { grant, clock, deadline_ms, amount: Amount::new(3_000_000) },
            resolved(1, 4_000_000, Verdict::Confirmed, 0),
            resolved(2, 5_000_000, Verdict::SettledOver, 11_000_000),
            resolved(3, 7_000_000, Verdict::SettledLate, 7_000_000),
            run_started(2),
            granted(2, 50_000_000),
        ]
    }

    fn audit() -> Audit {
        let (mut bank, mut balances) = (Bank::new(Options::default()), Balances::default());
        for (sequence, record) in (1..).zip(records()) {
            balances.take(sequence, &record);
            bank.replay(&record).unwrap();
        }
        let (differences, bank_audit) = (compare(&balances, &bank), bank.audit().err());
        let (snapshot, refusal, live) = (None, None, None);
        Audit { snapshot, last: 9, balances, differences, bank_audit, refusal, live }
    }

    fn printed(print: impl Fn(&Audit, &mut dyn Write) -> std::io::Result<()>) -> String {
        let mut text = Vec::new();
        print(&audit(), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    /// The differences that records leave, as an audit finds them.
    fn differences(records: &[Record]) -> BTreeMap<u64, Vec<(String, i128, i128)>> {
        let (mut bank, mut balances) = (Bank::new(Options::default()), Balances::default());
        for (sequence, record) in (1..).zip(records) {
            balances.take(sequence, record);
            bank.replay(record).unwrap();
        }
        assert_eq!(balances.told, Vec::<String>::new());
        compare(&balances, &bank)
    }

    #[test]
    fn a_made_budget_that_ended_differs_only_where_what_it_spent_does() {
        let id = ledger::spec::MADE_ID_MIN;
        let spec = ledger::BudgetSpec {
            handle: Some(wire::Handle::parse("llm/ann").unwrap()),
            idle_ms: 1_000,
            ..ledger::BudgetSpec::plain(id, money::Unit::parse("USD").unwrap(), Amount::new(LIMIT))
        };
        let made = || Record::Budget { spec: Box::new(spec.clone()) };
        let idled = || Record::BudgetIdled { id };
        assert_eq!(differences(&[run_started(1), made(), idled()]), BTreeMap::new());
        let amount = Amount::new(40);
        let spends = [
            Record::Granted { grant: 1, budget: id, worker: 0, amount, at_ms: 1_000 },
            resolved(1, 40, Verdict::Settled, 40),
            Record::Retired { grant: 1, deadline_ms: 5_000 },
            Record::GrantClosed { grant: 1 },
        ];
        let mut all = vec![run_started(1), made()];
        all.extend(spends);
        all.push(idled());
        assert_eq!(differences(&all), BTreeMap::new());
        all.push(made());
        assert_eq!(differences(&all), BTreeMap::new(), "it came back with what it spent");

        let (mut bank, mut balances) = (Bank::new(Options::default()), Balances::default());
        for (sequence, record) in (1..).zip(&all[..all.len() - 1]) {
            balances.take(sequence, record);
            bank.replay(record).unwrap();
        }
        balances.accounts[0].lines[ledger::Line::Settled as usize] += 1;
        assert_eq!(compare(&balances, &bank)[&id], [("settled".to_string(), 41, 40)]);
    }

    #[test]
    fn text_and_json_name_every_line_and_add_up_to_the_limit() {
        let text = printed(|audit, out| audit.print(None, out));
        assert!(text.ends_with("the books are right\n"), "{text}");
        let sums = text.lines().find_map(|line| line.strip_prefix("USD: ")).unwrap();
        let sums = sums.split(", ").map(|part| part.split_once(' ').unwrap());
        let micros = |text: &str| money::Unit::parse("USD").unwrap().parse_amount(text).unwrap();
        let text: BTreeMap<&str, i64> = sums.map(|(name, sum)| (name, micros(sum).get())).collect();

        let json: Value =
            serde_json::from_str(&printed(|audit, out| audit.print_json(None, out))).unwrap();
        let json = &json["budgets"][0];
        let expected = [537, 50, 4, 388, 3, 5, 6, 7].map(|dollars| dollars * 1_000_000);
        for (line, expected) in Bank::LINES.into_iter().zip(expected) {
            let name = line.name();
            assert_eq!((name, text.get(name)), (name, Some(&expected)));
            assert_eq!((name, json[name].as_i64()), (name, Some(expected)));
        }
        assert_eq!((text["limit"], json["limit"].as_i64()), (LIMIT, Some(LIMIT)));
        assert_eq!(text.len(), 1 + Bank::LINES.len(), "the limit, and each line once");
        assert_eq!(text.values().sum::<i64>(), 2 * LIMIT, "the lines add up to the limit");
    }
}
