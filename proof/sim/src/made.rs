//! Budgets made on their first ask: in some worlds clients ask for them by their handles, they end while nobody asks, and come back.
//! The oracle knows each of them by its handle, whatever ids it has in its lives.

use ledger::{Amount, BudgetSpec, MADE_SLOT, OnExpiry, Out, Windows};
use money::Unit;
use wire::Handle;

use crate::Bug;
use crate::journal::Held;
use crate::oracle::Cap;
use crate::rng::Rng;
use crate::world::{Worker, World};

/// Numbers of handles at the oracle: behind the ids of configured budgets.
const FIRST: u64 = 1 << 40;

/// What can be made, and the chance for it: of its own, so that other worlds stay as they were.
#[derive(Debug)]
pub(crate) struct Made {
    rng: Rng,
    pub(crate) templates: Vec<Template>,
}

/// One budget that can be made.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    spec: BudgetSpec,
    /// The one that binds it, if it can be made too.
    above: Option<usize>,
}

impl Template {
    pub(crate) fn handle(&self) -> &Handle {
        self.spec.handle.as_ref().expect("drawn with one")
    }
}

/// What the oracle calls a template's budget.
pub(crate) fn number(template: usize) -> u64 {
    FIRST + template as u64
}

/// The template of a number.
pub(crate) fn template_of(number: u64) -> Option<usize> {
    usize::try_from(number.checked_sub(FIRST)?).ok()
}

impl Made {
    /// Four worlds in ten have some, but for those with a fault planted elsewhere; those with one planted in theirs always do.
    pub(crate) fn draw(seed: u64, bug: Option<Bug>) -> Option<Made> {
        let mut rng = Rng::new(seed ^ 0x006d_6164_655f_6f6e);
        let some = rng.chance(400);
        if !bug.map_or(some, Bug::is_of_made) {
            return None;
        }
        let count = 2 + rng.index(4);
        let templates = (0..count).map(|index| draw_template(&mut rng, index)).collect();
        Some(Made { rng, templates })
    }
}

fn draw_template(rng: &mut Rng, index: usize) -> Template {
    let above = (index > 0 && rng.chance(500)).then_some(0);
    let parent = (index > 0 && above.is_none() && rng.chance(500)).then_some(1);
    let limited = rng.chance(700);
    let limit = if limited { Amount::new(rng.between(100, 5_000)) } else { money::LIMIT_MAX };
    let daily = (!limited || rng.chance(500)).then(|| Amount::new(rng.between(50, 2_000)));
    let spec = BudgetSpec {
        handle: Handle::parse(&format!("made/{index}")).ok(),
        windows: Windows::daily(daily),
        parent,
        on_expiry: if rng.chance(500) { OnExpiry::Hold } else { OnExpiry::Release },
        idle_ms: 2_000 + rng.below(6_000),
        ..BudgetSpec::plain(0, Unit::parse("USD").expect("a currency"), limit)
    };
    Template { spec, above }
}

impl World {
    /// Now and then a client asks of a budget by its handle, and nobody does for a while.
    pub(crate) fn step_made(&mut self) -> Result<(), String> {
        let Some(made) = &mut self.made else { return Ok(()) };
        let (pick, index) = (made.rng.below(1_000), made.rng.index(made.templates.len()));
        match pick {
            0..60 => self.ask_made(index),
            60..62 => {
                self.stats.one("made: nobody asks for a while");
                self.now_ms += 40_000;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn ask_made(&mut self, index: usize) -> Result<(), String> {
        let Some(worker) = self.awake_worker() else { return Ok(()) };
        if !self.may_grant(worker) {
            return Ok(());
        }
        let Some(slot) = self.workers[worker].opened.get(&index).copied() else {
            return self.open_made(worker, index);
        };
        let Some(made) = &mut self.made else { return Ok(()) };
        let most = made.templates[index].spec.limit.get().min(5_000) / 20;
        let amount = Amount::new(made.rng.between(1, most.max(2)));
        let now_ms = self.read_clock(worker);
        let purses = &mut self.workers[worker].made;
        let at = purses.at(now_ms);
        match purses.reserve(slot - MADE_SLOT, amount, at) {
            Ok(hold) => {
                self.stats.one("made: ask granted");
                self.granted(self.made_chain(index), hold, now_ms)
            }
            Err(why) => self.check_refusal(worker, slot, amount, why),
        }
    }

    /// A worker that does not know the budget asks the bank; both hear of it once it is sealed.
    fn open_made(&mut self, worker: usize, index: usize) -> Result<(), String> {
        if self.journal.is_failing() || self.journal.is_full() {
            return Ok(());
        }
        let Some(made) = &self.made else { return Ok(()) };
        let template = made.templates[index].clone();
        let above = template.above.map(|above| made.templates[above].spec.clone());
        let mut out = Out::default();
        let mut spec = template.spec;
        if let Some(above) = above {
            let slot = self.bank.open(above, &mut out).map_err(|error| error.to_string())?;
            spec.parent = Some(self.bank.spec(slot).id);
        }
        let handle = spec.handle.clone().expect("drawn with one");
        let (live, kept) = (self.bank.made(&handle), self.bank.dormant(&handle).is_some());
        if self.bug == Some(Bug::MakeAnew) && kept {
            spec.handle = Handle::parse(&format!("{handle}-anew")).ok();
        }
        let slot = self.bank.open(spec, &mut out);
        if slot.is_err() && self.bank.slot(1).is_none() {
            // The crash came before the first configuration was sealed.
            return Ok(());
        }
        let slot = slot.map_err(|error| format!("{handle}: {error}"))?;
        self.stats.count("made: a budget", u64::from(live.is_none()));
        self.stats.count("made: a budget came back", u64::from(live.is_none() && kept));
        self.append(&mut out);
        self.journal.hold(Held::Opened(worker, index, slot));
        Ok(())
    }

    /// A worker hears of a budget.
    pub(crate) fn opened_made(&mut self, worker: usize, index: usize, slot: u32) {
        let Worker { made, opened, .. } = &mut self.workers[worker];
        made.grow_to((slot - MADE_SLOT) as usize + 1, 4);
        if opened.insert(index, slot) != Some(slot) {
            made.forget(slot - MADE_SLOT);
            self.workers[worker].told.remove(&slot);
        }
        for index in self.made_levels(index) {
            let Some(made) = &self.made else { return };
            let spec = &made.templates[index].spec;
            let daily = spec.windows.day_limit().map(|daily| i128::from(daily.get()));
            let cap = Cap { lifetime: spec.limit.get().into(), daily };
            self.oracle.set_cap(number(index), cap);
        }
    }

    /// A worker hears that a budget ended.
    pub(crate) fn ended_made(&mut self, worker: usize, handle: &Handle) {
        let Some(made) = &self.made else { return };
        let index = made.templates.iter().position(|template| template.handle() == handle);
        index.and_then(|index| self.workers[worker].opened.remove(&index));
        self.stats.one("made: a budget ended");
    }

    fn made_levels(&self, index: usize) -> Vec<usize> {
        let above = self.made.as_ref().and_then(|made| made.templates[index].above);
        std::iter::once(index).chain(above).collect()
    }

    fn made_chain(&self, index: usize) -> Vec<u64> {
        let mut chain: Vec<u64> = self.made_levels(index).into_iter().map(number).collect();
        let parent = self.made.as_ref().and_then(|made| made.templates[index].spec.parent);
        chain.extend(parent.into_iter().flat_map(|parent| self.chain(parent)));
        chain
    }

    /// What the books say is spent by the budget with this handle, live or ended, must be what clients were told. Where it has no
    /// limit for its life it may have been forgotten.
    pub(crate) fn check_made(&self, spent: impl Fn(u64) -> i128) -> Result<(), String> {
        let Some(made) = &self.made else { return Ok(()) };
        for (index, template) in made.templates.iter().enumerate() {
            let handle = template.handle();
            let live = self.bank.made(handle).map(|slot| self.bank.books(slot).spent());
            let kept = self.bank.dormant(handle);
            let kept = kept.map(|dormant| {
                let sum = dormant.spent.iter().map(|amount| i128::from(amount.get()));
                sum.sum::<i128>()
            });
            let booked = live.map(|spent| i128::from(spent.get())).or(kept).unwrap_or(0);
            let told = spent(number(index));
            let limited = template.spec.limit < money::LIMIT_MAX;
            if booked > told || limited && booked != told {
                return Err(format!("{handle}: clients know of {told}, {booked} booked"));
            }
        }
        Ok(())
    }
}
