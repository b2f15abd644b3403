//! `weir dev`: what a node without any file is made of, and the lines that somebody pastes to try it.
//!
//! The budgets are written on the command line: `llm=10.00/USD`. The data folder is a temporary one that goes with the node, unless
//! `--data` names one. A door whose usual address is taken gets the next free one.

use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use money::Unit;
use serde_json::json;
use tempfile::TempDir;
use weir_config::config::{self, Config};
use weir_config::doors::{ADMIN, DoorSpec, all_doors};
use weir_config::listen::Listen;
use weir_node::doors::JUDGES;
use wire::Handle;

use crate::door_addresses::DoorAddresses;

/// What a budget is made of where none is given.
const DEFAULT: &str = "demo=100.00/USD";
/// Ports above the usual one that are tried where that is taken.
const PORTS_TRIED: u16 = 100;
/// What the pasted lines reserve and settle of a currency.
const ASKED: &str = "0.25";
const SPENT: &str = "0.18";
/// Doors that listen although nobody named them.
const SERVED: [&str; 3] = ["batch", "spend", "admin"];
/// The file of budgets in the data folder.
const BUDGETS: &str = "budgets.jsonl";

/// The command's arguments.
#[derive(Debug, Args)]
pub struct DevArgs {
    /// A budget: a handle, the amount that may be spent, and a unit (USD by default), such as llm=10.00 or keys=500/count. Can be repeated
    #[arg(long, value_name = "HANDLE=AMOUNT[/UNIT]", default_value = DEFAULT)]
    budget: Vec<DevBudget>,
    /// Keep the data in this folder; without it they go with the node
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    doors: DoorAddresses,
}

/// A budget of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevBudget {
    name: Handle,
    /// As it was written: exact decimal text of `unit`.
    limit: String,
    unit: Unit,
}

impl FromStr for DevBudget {
    type Err = String;

    fn from_str(text: &str) -> Result<DevBudget, String> {
        let shape = || format!("found {text:?}, expected HANDLE=AMOUNT[/UNIT] such as {DEFAULT}");
        let (name, rest) = text.split_once('=').ok_or_else(shape)?;
        let (limit, unit) = rest.split_once('/').unwrap_or((rest, "USD"));
        let name = Handle::parse(name).map_err(|error| error.to_string())?;
        let unit = Unit::parse(unit).map_err(|error| error.to_string())?;
        let amount = unit.parse_amount(limit).map_err(|error| error.to_string())?;
        if amount.get() <= 0 || amount > money::LIMIT_MAX {
            let max = unit.format(money::LIMIT_MAX);
            return Err(format!(
                "limit {limit} of {name}: expected more than 0, at most {max} {unit}"
            ));
        }
        Ok(DevBudget { name, limit: limit.to_owned(), unit })
    }
}

/// A node that is ready to be started.
#[derive(Debug)]
pub struct Dev {
    /// Its configuration: the defaults, and what the environment says.
    pub config: Config,
    /// Doors that get the next free address instead of their usual one.
    pub moved: Vec<(&'static str, SocketAddr)>,
    budgets: Vec<DevBudget>,
    /// Removed when this is dropped: after the node has ended.
    temporary: Option<TempDir>,
}

impl Dev {
    /// Makes the data folder and its file of budgets.
    ///
    /// # Errors
    /// The folder or the file cannot be written, or two budgets have one name.
    pub fn new(args: &DevArgs) -> Result<Dev, String> {
        if let Some(name) = twice(&args.budget) {
            return Err(format!("--budget: {name} appears twice, expected one of each name"));
        }
        let mut config = config::load(None, config::environment(), JUDGES).map_err(|errors| {
            errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
        })?;
        if config.budgets.file != Config::default().budgets.file {
            return Err(format!(
                "the environment names a budgets file, {}, and `weir dev` has the budgets of its command line; unset WEIR_BUDGETS__FILE, or start `weir run`",
                config.budgets.file.display()
            ));
        }
        config.cluster = Config::default().cluster;
        args.doors.apply(&mut config);
        for door in all_doors().filter(|door| !SERVED.contains(&door.name)) {
            if !(door.listen)(&config).is_chosen() {
                (door.set_listen)(&mut config, Listen::UNUSED);
            }
        }
        let moved = all_doors().filter_map(|door| move_if_taken(door, &args.doors, &mut config));
        let moved = moved.collect();
        let of_environment = config.node.data_dir != Config::default().node.data_dir;
        let kept =
            args.data.clone().or_else(|| of_environment.then(|| config.node.data_dir.clone()));
        let temporary = match &kept {
            Some(_) => None,
            None => Some(TempDir::with_prefix("weir-dev-").map_err(|error| {
                format!("no temporary folder can be made: {error}; name one with --data DIR")
            })?),
        };
        let data =
            kept.unwrap_or_else(|| temporary.as_ref().expect("made above").path().to_owned());
        let file = data.join(BUDGETS);
        write(&file, &lines(&args.budget))
            .map_err(|error| format!("{}: {error}", file.display()))?;
        config.node.data_dir = data;
        config.budgets.file = file;
        Ok(Dev { config, moved, budgets: args.budget.clone(), temporary })
    }

    /// What the person at the terminal reads once the node is up: at the end a line for each door and `ready`, as of any node.
    /// `address` says where a door listens, by its name.
    #[must_use]
    pub fn welcome(&self, address: impl Fn(&str) -> Option<SocketAddr>) -> String {
        let mut text = "Weir is up. Ctrl-C stops it. ".to_owned();
        let _ = match &self.temporary {
            Some(_) => writeln!(text, "Its data go when it ends; --data DIR keeps them."),
            None => writeln!(text, "Its data stay in {}.", self.config.node.data_dir.display()),
        };
        for (door, usual) in &self.moved {
            let _ = writeln!(
                text,
                "The address {usual} is taken; the {door} door is at {}.",
                place(address(door))
            );
        }
        for budget in &self.budgets {
            let _ = writeln!(text, "Budget {} has {} {}.", budget.name, budget.limit, budget.unit);
        }
        let scheme = self.config.admin_scheme();
        let admin = place(address(ADMIN.name));
        let _ = writeln!(text, "\nThe dashboard: {scheme}://{admin}/ui/");
        let _ = writeln!(
            text,
            "Tools: weir top --target {scheme}://{admin} (weir stat, why, costs alike)"
        );
        let paste = "Paste this to reserve, and then to settle what it did cost:";
        let _ = match address("spend") {
            Some(_) if !self.config.spend.tokens_file.is_empty() => writeln!(
                text,
                "\nThe spend door asks for a token of {}: docs/spend.md has calls with one.\n",
                self.config.spend.tokens_file
            ),
            Some(spend) => writeln!(text, "\n{paste}\n\n{}\n", self.curl(spend)),
            None => writeln!(text, "\nThe spend door is off.\n"),
        };
        for door in all_doors().filter(|door| !(door.listen)(&self.config).is_unused()) {
            let _ = writeln!(text, "{} {}", door.name, place(address(door.name)));
        }
        text + "ready"
    }

    /// Two lines for any POSIX shell. `confirm`, because a person needs more than the two seconds of a hold.
    fn curl(&self, spend: SocketAddr) -> String {
        let first = &self.budgets[0];
        let (asked, spent) = amounts(first);
        let scheme = if self.config.spend.tls_cert.is_empty() { "http" } else { "https" };
        let (url, budget) = (format!("{scheme}://{spend}/v1"), first.name.as_str());
        format!(
            r#"TOKEN=$(curl -s {url}/reserve -d '{{"budget":"{budget}","amount":"{asked}","confirm":true}}' | sed 's/.*"token":"\([^"]*\)".*/\1/')
curl -s {url}/settle -d '{{"token":"'$TOKEN'","amount":"{spent}"}}'"#
        )
    }
}

/// Where a door listens, for people.
fn place(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "off".to_owned(), |address| address.to_string())
}

/// The first name that two budgets have.
fn twice(budgets: &[DevBudget]) -> Option<&Handle> {
    let mut names: Vec<&Handle> = budgets.iter().map(|budget| &budget.name).collect();
    names.sort();
    names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

/// What the pasted lines reserve of a budget, and what they settle: of a small one a tenth, one item at least.
fn amounts(budget: &DevBudget) -> (String, String) {
    let amount = |text: &str| budget.unit.parse_amount(text).ok();
    let limit = amount(&budget.limit).expect("parsed before");
    match budget.unit.currency().and_then(|_| amount(ASKED)) {
        Some(asked) if asked <= limit => (ASKED.to_owned(), SPENT.to_owned()),
        _ => {
            let tenth = (limit.get() / 10).clamp(1, money::ASK_MAX.get());
            let tenth = budget.unit.format(money::Amount::new(tenth));
            (tenth.clone(), tenth)
        }
    }
}

/// Gives a door that nobody placed the next free address where its usual one is taken; the address that it was.
fn move_if_taken(
    door: &'static DoorSpec,
    given: &DoorAddresses,
    config: &mut Config,
) -> Option<(&'static str, SocketAddr)> {
    let usual = (door.listen)(config).address()?;
    let is_taken = |address| matches!(TcpListener::bind(address), Err(error) if error.kind() == io::ErrorKind::AddrInUse);
    if given.names(door) || usual.port() == 0 || !is_taken(usual) {
        return None;
    }
    let others: Vec<SocketAddr> =
        all_doors().filter_map(|other| (other.listen)(config).address()).collect();
    let next = (1..=PORTS_TRIED).filter_map(|step| usual.port().checked_add(step));
    let mut next = next.map(|port| SocketAddr::new(usual.ip(), port));
    let free = next.find(|address| !others.contains(address) && !is_taken(*address));
    let moved = free.unwrap_or_else(|| SocketAddr::new(usual.ip(), 0));
    (door.set_listen)(config, moved.into());
    Some((door.name, usual))
}

/// One line per budget; ids count from 1.
fn lines(budgets: &[DevBudget]) -> String {
    let line = |(id, budget): (u64, &DevBudget)| {
        let unit = budget.unit.to_string();
        let handle = budget.name.as_str();
        json!({"id": id, "handle": handle, "name": handle, "unit": unit, "limit": budget.limit})
            .to_string()
            + "\n"
    };
    (1..).zip(budgets).map(line).collect()
}

/// Writes the file where it is not so already: ids of a kept folder stay with their budgets.
fn write(file: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    match std::fs::read_to_string(file) {
        Ok(there) if there == text => Ok(()),
        Ok(_) => Err(io::Error::other(
            "the folder has other budgets; start it with `weir run --data` and `--budgets`, or name another folder",
        )),
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::fs::write(file, text),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_and_what_is_none_is_explained() {
        let budget: DevBudget = "team-42/gpt-5=10.50/USD".parse().unwrap();
        assert_eq!((budget.name.as_str(), budget.limit.as_str()), ("team-42/gpt-5", "10.50"));
        let error = |text: &str| text.parse::<DevBudget>().unwrap_err();
        let budget: DevBudget = "team-42/gpt-5=250".parse().unwrap();
        assert_eq!((budget.limit.as_str(), budget.unit.as_str()), ("250", "USD"));
        assert!(error("llm").contains("expected HANDLE=AMOUNT[/UNIT] such as demo=100.00/USD"));
        assert!(error("llm=").contains("amount"));
        assert!(error("7=10/USD").contains("digits only"));
        assert!(error("llm=10/usd").contains("did you mean \"USD\"?"));
        assert!(error("llm=1.5/count").contains("a count is a whole number"));
        assert!(error("llm=0/USD").contains("expected more than 0"));
        assert!(error("llm=-1/USD").contains("expected more than 0"));
    }

    #[test]
    fn a_folder_with_other_budgets_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("new").join(BUDGETS);
        let of = |text: &str| lines(&[text.parse().unwrap()]);
        write(&file, &of("a=1.00/USD")).unwrap();
        write(&file, &of("a=1.00/USD")).unwrap();
        let error = write(&file, &of("a=2.00/USD")).unwrap_err().to_string();
        assert!(error.contains("has other budgets"), "{error}");
        assert_eq!(std::fs::read_to_string(&file).unwrap(), of("a=1.00/USD"));
    }

    #[test]
    fn a_name_twice_is_found_and_the_first_ask_fits_the_budget() {
        let parse = |text: &str| text.parse::<DevBudget>().unwrap();
        assert_eq!(twice(&[parse("b=1/USD"), parse("a=1/USD")]), None);
        assert_eq!(twice(&[parse("a=1/USD"), parse("a=2/EUR")]).unwrap().as_str(), "a");
        let asked = |text: &str| amounts(&parse(text));
        assert_eq!(asked("a=10.00/USD"), ("0.25".into(), "0.18".into()));
        assert_eq!(asked("a=0.20/USD"), ("0.02".into(), "0.02".into()));
        assert_eq!(asked("a=3/count"), ("1".into(), "1".into()));
        let most = money::ASK_MAX.get().to_string();
        assert_eq!(asked("a=1000000000000000000/count"), (most.clone(), most));
    }
}
