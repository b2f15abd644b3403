//! Budgets that are made from templates on their first ask: what the bank takes for one, what others feel of a flood of them, how a
//! node starts with a million, and what one takes in memory.
//!
//! The node's worker is pinned to core 0, all clients and the node's other threads share core 1. The flood and the others keep to a
//! timetable each, and say how late they were themselves. Rounds with and without the flood take turns.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use ledger::{Bank, BudgetSpec, Options, Out};
use money::{Amount, Unit};
use probe::compare::median;
use wire::Handle;

use crate::Size;
use crate::daemon::folder_on_disk;
use crate::threads;
use crate::web::{Caller, Node, post};

/// New budgets per second, and the bank's time for one.
const FLOOD_RATE: u64 = 20_000;
const BANK_US_MAX: f64 = 20.0;
/// Connections of the flood, each with one batch of so many asks under way.
const FLOODERS: u64 = 8;
const BATCH: u64 = 25;
/// Asks of the others per second.
const OTHERS_RATE: u64 = 1_000;
/// Users of a team: no parent has more children.
const TEAM: u64 = 1_000;
/// Room for all, and a first ask waits for its money for as long as that takes on a busy machine.
const TERMS: [(&str, &str); 2] =
    [("WEIR_BUDGETS__TEMPLATES_MAX", "2000000"), ("WEIR_SPEND__WAIT_MS", "10000")];
const BUDGETS: &str = r#"{"id":1,"unit":"USD","limit":"900000000"}
{"id":1001,"unit":"USD","limit":"1000000"}
{"template":"llm/{team}","unit":"USD","limit":"900000"}
{"template":"llm/{team}/{user}","unit":"USD","limit":"5","parent":"llm/{team}"}
"#;

/// Prints the tables.
pub fn run(size: Size) {
    bank_alone(size);
    if let Err(error) = measure(size) {
        println!("\nbudgets from templates: NOT MEASURED: {error}");
    }
}

/// The state machine of the bank, without threads and journal.
fn bank_alone(size: Size) {
    let count = size.pick(100_000, 100);
    let mut bank = Bank::new(Options { made_max: 1_000_000, ..Options::default() });
    let mut out = Out::default();
    bank.start_run(1_800_000_000_000, &mut out);
    let usd = Unit::parse("USD").expect("a currency");
    let teams: Vec<BudgetSpec> =
        (1..=count / TEAM + 1).map(|id| BudgetSpec::plain(id, usd, money::LIMIT_MAX)).collect();
    bank.configure(&teams, &mut out).expect("sound budgets");
    let before = threads::own();
    for user in 0..count {
        let handle = Handle::parse(&format!("llm/team-{}/user-{user}", user / TEAM)).ok();
        let parent = Some(user / TEAM + 1);
        let plain = BudgetSpec::plain(0, usd, Amount::new(5_000_000));
        let spec = BudgetSpec { handle, parent, idle_ms: 86_400_000, ..plain };
        bank.open(spec, &mut out).expect("room for all");
        out.records.clear();
    }
    let us = threads::own().since(before).cpu_ns as f64 / count as f64 / 1e3;
    println!(
        "\nThe bank alone makes a budget in {us:.2} us of processor time; at most {BANK_US_MAX:.0}."
    );
}

fn measure(size: Size) -> Result<(), String> {
    let folder = folder_on_disk()?;
    let (file, data) = (folder.path().join("budgets.jsonl"), folder.path().join("data"));
    std::fs::write(&file, BUDGETS).map_err(|e| e.to_string())?;
    let node = Node::start(&file, &data, &TERMS)?;
    let mut names = Names(0);
    threads::client(|| floods(size, &node, &mut names))?;
    let resident = node.resident();
    let (made, began) = (names.0, Instant::now());
    threads::client(|| fill(&node, &mut names, size.pick(1_000_000, 1_000)))?;
    let filled_s = began.elapsed().as_secs_f64();
    let made = names.0.saturating_sub(made).max(1);
    println!("\n### {} live budgets from templates\n", names.0);
    println!("- made as fast as answers came: {:.0} per second", made as f64 / filled_s);
    let each = node.resident().saturating_sub(resident) / made;
    println!(
        "- memory of the node, with one worker that met and filled all of them: {each} bytes each"
    );
    starts(node, &file, &data)
}

/// Numbers users that nobody asked for before.
struct Names(u64);

impl Names {
    /// A batch that asks for so many of them.
    fn batch(&mut self, count: u64) -> Vec<u8> {
        let entry = |user: u64| {
            let team = user / TEAM;
            format!(
                "{{\"call\":\"reserve\",\"budget\":\"llm/team-{team}/user-{user}\",\"amount\":\"0.000015\"}}"
            )
        };
        let entries: Vec<String> = (self.0..self.0 + count).map(entry).collect();
        self.0 += count;
        post("/v1/batch", &format!("[{}]", entries.join(",")))
    }
}

/// What a round with or without a flood showed.
#[derive(Clone, Debug, Default)]
struct Round {
    /// Of the others, from the instant at which they were to ask, us.
    waits_us: Vec<f64>,
    /// How late the others, and the flood, came to ask, us.
    late_us: Vec<f64>,
    flood_late_us: Vec<f64>,
    made: u64,
    elapsed_s: f64,
    /// Of the node's threads but the workers, and how long those waited for a core.
    bank_ns: u64,
    bank_waited_ns: u64,
}

fn floods(size: Size, node: &Node, names: &mut Names) -> Result<(), String> {
    let duration = Duration::from_millis(size.pick(2_000, 20));
    let (mut calm, mut flooded) = (Vec::new(), Vec::new());
    // The first of both warms up.
    for round in 0..=size.pick(5, 1) {
        let pair =
            [self::round(node, names, duration, false)?, self::round(node, names, duration, true)?];
        if round > 0 {
            let [one, other] = pair;
            calm.push(one);
            flooded.push(other);
        }
    }
    println!(
        "\n### {FLOOD_RATE} new budgets per second, and {OTHERS_RATE} asks per second of others\n"
    );
    println!(
        "| | made per second | others: p50 us | p99 us | they asked too late, p99 us | flood asked too late, p99 us | bank, us of its thread \
         per budget | it waited for a core |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let calm_ns = middle(&calm, |round| round.bank_ns as f64);
    for (name, rounds) in [("without", &calm), ("with the flood", &flooded)] {
        let made = middle(rounds, |round| round.made as f64);
        let bank = match made > 0.0 {
            true => format!(
                "{:.1}",
                (middle(rounds, |round| round.bank_ns as f64) - calm_ns) / made / 1e3
            ),
            false => String::new(),
        };
        println!(
            "| {name} | {:.0} | {:.0} | {:.0} | {:.0} | {:.0} | {bank} | {:.0} % |",
            middle(rounds, |round| round.made as f64 / round.elapsed_s),
            middle(rounds, |round| quantile(&round.waits_us, 0.5)),
            middle(rounds, |round| quantile(&round.waits_us, 0.99)),
            middle(rounds, |round| quantile(&round.late_us, 0.99)),
            middle(rounds, |round| quantile(&round.flood_late_us, 0.99)),
            middle(rounds, |round| round.bank_waited_ns as f64 / round.elapsed_s / 1e7),
        );
    }
    println!(
        "\nThe bank's account has the fill of the purse and the first hold in it; at most {BANK_US_MAX:.0} us."
    );
    Ok(())
}

fn middle(rounds: &[Round], pick: impl Fn(&Round) -> f64) -> f64 {
    median(rounds.iter().map(pick).collect())
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get((sorted.len().saturating_sub(1) as f64 * share) as usize).copied().unwrap_or(0.0)
}

/// The others ask for a while, and the flood beside them if it is to.
fn round(node: &Node, names: &mut Names, duration: Duration, flood: bool) -> Result<Round, String> {
    let batches = match flood {
        true => FLOOD_RATE * duration.as_millis() as u64 / 1_000 / BATCH / FLOODERS,
        false => 0,
    };
    let plans: Vec<Vec<Vec<u8>>> =
        (0..FLOODERS).map(|_| (0..batches).map(|_| names.batch(BATCH)).collect()).collect();
    let period = Duration::from_micros(1_000_000 * BATCH * FLOODERS / FLOOD_RATE);
    let ask = [post("/v1/reserve", "{\"budget\":1001,\"amount\":\"0.000015\"}")];
    let count = (OTHERS_RATE * duration.as_millis() as u64 / 1_000) as usize;
    let (bank, began) = (threads::used(node.id(), "bank")?.0, Instant::now());
    let mut round = std::thread::scope(|scope| {
        let started = began;
        let flooders: Vec<_> = (0_u32..)
            .zip(&plans)
            .map(|(at, plan)| {
                let from = started + period * at / FLOODERS as u32;
                scope.spawn(move || timetable(node.spend, plan.iter(), from, period))
            })
            .collect();
        let period = Duration::from_micros(1_000_000 / OTHERS_RATE);
        let others = ask.iter().cycle().take(count);
        let others = scope.spawn(move || timetable(node.spend, others, started, period));
        let mut round = Round::default();
        for flooder in flooders {
            let (_, late_us) = flooder.join().map_err(|_| "a flooder panicked")??;
            round.flood_late_us.extend(late_us);
        }
        (round.waits_us, round.late_us) = others.join().map_err(|_| "the others panicked")??;
        Ok::<_, String>(round)
    })?;
    round.elapsed_s = began.elapsed().as_secs_f64();
    round.made = batches * BATCH * FLOODERS;
    let bank = threads::used(node.id(), "bank")?.0.since(bank);
    (round.bank_ns, round.bank_waited_ns) = (bank.cpu_ns, bank.waited_ns);
    Ok(round)
}

/// Sends requests at their instants, or once the one before is answered if that is later: how long each took from its instant, and how
/// much later than it could this client sent it, us.
fn timetable<'r>(
    to: SocketAddr,
    requests: impl Iterator<Item = &'r Vec<u8>>,
    from: Instant,
    period: Duration,
) -> Result<(Vec<f64>, Vec<f64>), String> {
    let mut caller = Caller::connect(to)?;
    let (mut waits_us, mut late_us, mut free) = (Vec::new(), Vec::new(), from);
    let us = |duration: Duration| duration.as_secs_f64() * 1e6;
    for (at, request) in (0..).zip(requests) {
        let due = from + period * at;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        late_us.push(us(Instant::now().saturating_duration_since(due.max(free))));
        caller.send(request)?;
        granted(&mut caller)?;
        free = Instant::now();
        waits_us.push(us(free.duration_since(due)));
    }
    Ok((waits_us, late_us))
}

/// The next answer, in which nothing may be refused.
fn granted(caller: &mut Caller) -> Result<(), String> {
    let mut refusal = None;
    caller.answers(1, |body| {
        let verdict = b"\"verdict\":";
        let at = body.windows(verdict.len()).position(|here| here == verdict);
        refusal =
            at.map(|at| String::from_utf8_lossy(&body[..body.len().min(at + 40)]).into_owned());
    })?;
    match refusal {
        None => Ok(()),
        Some(body) => Err(format!("an ask was refused: {body}")),
    }
}

/// Makes budgets as fast as answers come, until there are so many.
fn fill(node: &Node, names: &mut Names, until: u64) -> Result<(), String> {
    let mut callers: Vec<Caller> =
        (0..FLOODERS).map(|_| Caller::connect(node.spend)).collect::<Result<_, _>>()?;
    while names.0 < until {
        for caller in &mut callers {
            caller.send(&names.batch(100))?;
        }
        for caller in &mut callers {
            granted(caller)?;
        }
    }
    Ok(())
}

/// Ends the node, first as a stop and then as a crash, and starts it again on what it left.
fn starts(node: Node, file: &Path, data: &Path) -> Result<(), String> {
    drop(node);
    for how in ["a stop", "a crash right after a start"] {
        let began = Instant::now();
        let again = Node::start(file, data, &TERMS)?;
        let began_s = began.elapsed().as_secs_f64();
        let mib = again.resident() >> 20;
        println!("- start to `ready` after {how}: {began_s:.2} s, then {mib} MiB in memory");
        again.kill();
    }
    Ok(())
}
