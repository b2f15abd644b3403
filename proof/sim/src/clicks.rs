//! Clicks, and the figures of campaigns: folded from what is sealed, as the node's reader does. However banks crash, a click counts once,
//! with its bill, and figures are what the journal says.

use std::collections::{BTreeMap, BTreeSet};

use figures::{Figures, Total};
use ledger::{Amount, Door, Origin, Record, Resolution, ToBank, Verdict};

use crate::Bug;
use crate::rng::Rng;
use crate::world::{Up, World};

/// Replies from here on are those of clicks.
pub(crate) const CLICKS: u64 = 3 << 62;

/// What people click, and what was counted.
#[derive(Debug)]
pub(crate) struct Clicks {
    rng: Rng,
    /// Holds that somebody clicked...
    asked: BTreeSet<usize>,
    /// ...and of which somebody heard that it was their first click, or a later one.
    told: BTreeSet<usize>,
    /// Those of which somebody heard the former.
    new: BTreeSet<usize>,
    figures: Figures,
}

impl Clicks {
    pub(crate) fn new(seed: u64) -> Clicks {
        let rng = Rng::new(seed ^ 0x0063_6c69_636b_7321);
        let [asked, told, new] = [const { BTreeSet::new() }; 3];
        Clicks { rng, asked, told, new, figures: Figures::begin(1) }
    }
}

/// What the figures' reader takes for a record.
fn misread(record: &Record, bug: Option<Bug>) -> Record {
    let mut record = record.clone();
    match (&mut record, bug) {
        // Each click counts when it comes...
        (Record::Clicked { billed, .. }, Some(Bug::CountTwice | Bug::CountUnbilled)) => {
            *billed = true;
        }
        // ...and with one of the two faults, with its bill as well.
        (Record::Resolved { clicked, .. }, Some(Bug::CountUnbilled)) => *clicked = false,
        _ => {}
    }
    record
}

impl World {
    /// Somebody clicks what was bought with a hold: a recent one mostly.
    pub(crate) fn send_click(&mut self) {
        let (rng, holds) = (&mut self.clicks.rng, self.oracle.holds.len());
        if holds == 0 || !rng.chance(60) {
            return;
        }
        let recent = rng.chance(900);
        let hold = holds - 1 - rng.index(if recent { holds.min(60) } else { holds });
        let Some(worker) = self.awake_worker() else { return };
        self.clicks.asked.insert(hold);
        let at_ms = self.read_clock(worker);
        let origin = Origin { door: Door::Openrtb, request_id: hold as u64 };
        let reply = CLICKS | hold as u64;
        let hold = self.oracle.holds[hold].hold;
        self.flush(worker);
        let click = ToBank::Click { hold, at_ms, origin, reply };
        self.workers[worker].to_bank.push_back(Up::Ledger(click));
    }

    /// Somebody hears what became of a click.
    pub(crate) fn clicked(&mut self, reply: u64, resolution: Resolution) -> Result<(), String> {
        let hold = usize::try_from(reply - CLICKS).expect("an index");
        let is_repeat = resolution.is_repeat();
        match resolution.verdict {
            Verdict::Journal | Verdict::Busy | Verdict::TooOld => return Ok(()),
            _ if is_repeat => self.stats.one("click: again"),
            Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate => {
                self.stats.one("click: after its bill");
            }
            _ => self.stats.one("click: before its bill"),
        }
        self.clicks.told.insert(hold);
        match is_repeat || self.clicks.new.insert(hold) {
            true => Ok(()),
            false => Err(format!("a click was new twice: {:?}", self.oracle.holds[hold])),
        }
    }

    /// The figures' reader gets to run.
    pub(crate) fn fold(&mut self) -> Result<(), String> {
        let end = match self.bug {
            Some(Bug::CountBeforeSeal) => self.model.next_sequence(),
            _ => self.journal.sealed(),
        };
        let figures = &mut self.clicks.figures;
        let from = figures.sequence();
        let place = |sequence: u64| usize::try_from(sequence - 1).expect("records are in memory");
        let records = self.model.records.get(place(from)..place(end.max(from))).unwrap_or_default();
        let records: Vec<Record> = records.iter().map(|record| misread(record, self.bug)).collect();
        figures.fold(from, self.now_ms, &records).map_err(|error| error.to_string())
    }

    /// What a crash lost was counted nowhere.
    pub(crate) fn check_folded(&self) -> Result<(), String> {
        let (counted, there) = (self.clicks.figures.sequence(), self.model.next_sequence());
        match counted <= there {
            true => Ok(()),
            false => Err(format!("figures have all before {counted}, the journal before {there}")),
        }
    }

    /// Everything is billed and clicked that ever will be: each budget's figures are those of its holds.
    pub(crate) fn check_figures(&mut self, spent: &BTreeMap<u64, i128>) -> Result<(), String> {
        let (mut billed, mut clicked) = (BTreeSet::new(), BTreeSet::new());
        for record in &self.model.records {
            match record {
                Record::Resolved {
                    hold,
                    verdict: Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate,
                    ..
                } => _ = billed.insert((hold.grant, hold.seq)),
                Record::Clicked { hold, .. } if !clicked.insert((hold.grant, hold.seq)) => {
                    return Err(format!("the journal has two clicks of {hold:?}"));
                }
                _ => {}
            }
        }
        let mut expected = BTreeMap::<u64, Total>::new();
        for (index, known) in self.oracle.holds.iter().enumerate() {
            let name = (known.hold.grant, known.hold.seq);
            let (is_billed, is_clicked) = (billed.contains(&name), clicked.contains(&name));
            if self.clicks.told.contains(&index) && !is_clicked
                || is_clicked && !self.clicks.asked.contains(&index)
            {
                return Err(format!(
                    "clicked in the journal {is_clicked}, not so heard: {known:?}"
                ));
            }
            self.stats.count("click: never billed", u64::from(is_clicked && !is_billed));
            for id in known.chain.iter().filter(|_| is_billed) {
                let total = expected.entry(*id).or_default();
                total.impressions += 1;
                total.clicks += u64::from(is_clicked);
            }
        }
        for spec in &self.specs {
            let mut expected = expected.get(&spec.id).copied().unwrap_or_default();
            let spend = spent.get(&spec.id).copied().unwrap_or(0);
            expected.spend = Amount::new(i64::try_from(spend).expect("what books can have"));
            let found = self.clicks.figures.total(spec.id).unwrap_or_default();
            if found != expected {
                return Err(format!("budget {}: counted {found:?}, not {expected:?}", spec.id));
            }
        }
        Ok(())
    }
}
