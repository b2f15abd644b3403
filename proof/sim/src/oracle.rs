//! The oracle: keeps its own books, in 128-bit integers, from nothing but what the outside world can see
//! (which holds were granted, which answers came back), and says when the ledger broke a promise.

use std::collections::BTreeMap;

use ledger::{Action, Handled, Hold, Keeps, OnExpiry, Record, Resolution, Verdict};
use money::{Instant, Window};

use crate::client::Request;
use crate::windows::WindowTrail;
use crate::world::World;

/// A hold as the outside world knows it.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    /// Ids of the budget and its parents.
    pub(crate) chain: Vec<u64>,
    /// What its token says.
    pub(crate) hold: Hold,
    /// The run that granted it.
    pub(crate) run: u32,
    /// The billing window of that run.
    pub(crate) billing_ms: u64,
    /// When it was granted.
    pub(crate) made_ms: u64,
    /// What a settle for it asks to book; the same in every repeat, but for billing notices.
    pub(crate) price: i64,
    /// Billing notices settle it: the highest price that came counts.
    pub(crate) billed: bool,
    /// What settles named.
    pub(crate) named: Vec<i64>,
    /// The most that a billing notice was told to be booked.
    pub(crate) told: i64,
    /// A confirm was answered `Confirmed`.
    pub(crate) confirmed: bool,
    /// Somebody asked to release it.
    pub(crate) release_asked: bool,
    /// Somebody asked to settle it.
    pub(crate) settle_asked: bool,
    /// A release was answered `Released`.
    pub(crate) released: bool,
    /// A settle was answered: with this verdict.
    pub(crate) settled: Option<Verdict>,
    /// The exchange's bill names it: what that leaves of the hold is free at once.
    pub(crate) in_bill: bool,
    /// A request about it was judged after its billing time: if that settled it, nothing was left of it for one that was read before.
    pub(crate) judged_late: bool,
    /// Answers "booked now" to settles of this hold.
    pub(crate) bookings: u32,
    /// It was answered that nothing is known of it any more.
    pub(crate) too_old: bool,
    /// What of it stays held when its time is over.
    pub(crate) keeps: Keeps,
}

impl Known {
    /// A hold that was granted just now.
    pub(crate) fn new(
        chain: Vec<u64>,
        hold: Hold,
        run: u32,
        billing_ms: u64,
        made_ms: u64,
        price: i64,
    ) -> Known {
        Known {
            chain,
            hold,
            run,
            billing_ms,
            made_ms,
            price,
            billed: false,
            named: Vec::new(),
            told: 0,
            confirmed: false,
            release_asked: false,
            settle_asked: false,
            released: false,
            settled: None,
            in_bill: false,
            judged_late: false,
            bookings: 0,
            too_old: false,
            keeps: Keeps::default(),
        }
    }

    /// Somebody asks something of it.
    pub(crate) fn asks(&mut self, action: Action) {
        self.release_asked |= action == Action::Release;
        self.settle_asked |= action == Action::Settle;
    }

    /// Does it stay held when its time is over?
    fn is_kept(&self) -> bool {
        self.keeps.unconfirmed || self.keeps.confirmed && self.confirmed
    }

    /// The bank judges a request about it by this stamp.
    pub(crate) fn judged(&mut self, at_ms: u64) {
        self.judged_late |= at_ms >= self.hold.deadline_ms + self.billing_ms;
    }

    /// Is it what a settle must be answered again?
    pub(crate) fn is_told(&self, again: &Resolution, narrow: bool) -> bool {
        let amount = again.amount.map(|amount| amount.get());
        let fits = match (self.billed, amount) {
            (_, None) => narrow,
            (true, Some(amount)) => amount >= self.told,
            (false, Some(amount)) => amount == self.price,
        };
        fits && again.is_repeat() && (self.billed || Some(again.verdict) == self.settled)
    }

    /// Does a settle that is answered say what is booked?
    fn check_amount(
        &self,
        request: &Request,
        resolution: &Resolution,
        narrow: bool,
    ) -> Result<(), String> {
        let fits = match resolution.amount.map(|amount| amount.get()) {
            None => narrow && resolution.judged == Handled::Before,
            Some(amount) if request.notice => {
                amount >= request.amount && self.named.contains(&amount)
            }
            Some(amount) if self.billed => self.named.contains(&amount),
            Some(amount) => amount == self.price,
        };
        match fits {
            true => Ok(()),
            false => Err(format!("{request:?} is told {resolution:?}: {self:?}")),
        }
    }

    /// A settle was answered with one of the verdicts that book.
    fn note_settled(
        &mut self,
        request: &Request,
        resolution: &Resolution,
        narrow: bool,
    ) -> Result<(), String> {
        self.check_amount(request, resolution, narrow)?;
        let verdict = resolution.verdict;
        // A later price changes the verdict that the first had.
        if !self.billed && self.settled.is_some_and(|first| first != verdict) {
            return Err(format!("a repeat was answered {verdict:?}: {self:?}"));
        }
        self.settled = Some(verdict);
        self.bookings += u32::from(resolution.judged == Handled::Now);
        if let Some(amount) = resolution.amount.filter(|_| request.notice) {
            self.told = self.told.max(amount.get());
        }
        Ok(())
    }

    /// The least that can be booked for it where it is settled.
    fn least(&self) -> i64 {
        self.named.iter().copied().min().unwrap_or(self.price)
    }

    /// Its client waits for the answer to a settle.
    pub(crate) fn waits(&self) -> bool {
        self.settle_asked && self.settled.is_none() && !self.too_old
    }
}

/// What the journal says of what is kept when the time of holds is over.
#[derive(Debug, Default)]
struct Trail {
    win_notices: bool,
    /// Budgets that hold.
    holding: BTreeMap<u64, bool>,
    keeps: BTreeMap<u64, Keeps>,
    /// Per grant: up to when everything is known.
    reconciled: BTreeMap<u64, u64>,
    windows: WindowTrail,
}

impl Trail {
    fn take(&mut self, record: &Record) {
        self.windows.take(record);
        match record {
            Record::RunStarted { win_notices, .. } => self.win_notices = *win_notices,
            Record::Budget { spec } => {
                self.holding.insert(spec.id, spec.on_expiry == OnExpiry::Hold);
            }
            Record::Granted { grant, budget, .. } => {
                let confirmed = self.holding.get(budget).copied().unwrap_or(false);
                let keeps = Keeps { unconfirmed: confirmed && !self.win_notices, confirmed };
                self.keeps.entry(*grant).or_insert(keeps);
            }
            Record::Reconciled { grant, until_ms, .. } => {
                let known_ms = self.reconciled.entry(*grant).or_default();
                *known_ms = (*known_ms).max(*until_ms);
            }
            _ => {}
        }
    }
}

/// A limit to hold the ledger to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cap {
    pub(crate) lifetime: i128,
    pub(crate) daily: Option<i128>,
}

/// The oracle's books.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// Every hold ever granted.
    pub(crate) holds: Vec<Known>,
    names: BTreeMap<(u64, u32), usize>,
    caps: BTreeMap<u64, Cap>,
    trail: Trail,
}

impl Oracle {
    /// The limits that hold from now on, or what the ledger had out when they changed: a lowered limit takes
    /// nothing back.
    pub(crate) fn set_cap(&mut self, id: u64, cap: Cap) {
        self.caps.insert(id, cap);
    }

    /// The journal goes on.
    pub(crate) fn read(&mut self, records: &[Record]) {
        records.iter().for_each(|record| self.trail.take(record));
    }

    /// The journal ended earlier: here it is from its beginning.
    pub(crate) fn read_again(&mut self, records: &[Record]) {
        self.trail = Trail::default();
        self.read(records);
    }

    /// What of the holds of a grant stays held.
    pub(crate) fn keeps(&self, grant: u64) -> Keeps {
        self.trail.keeps.get(&grant).copied().unwrap_or_default()
    }

    /// May the bills have said that it was lost?
    pub(crate) fn is_reconciled(&self, known: &Known) -> bool {
        let known_ms = self.trail.reconciled.get(&known.hold.grant);
        known_ms.is_some_and(|known_ms| known.hold.deadline_ms <= *known_ms)
    }

    /// Its money is there, however late it is.
    fn is_there(&self, known: &Known) -> bool {
        known.is_kept() && !self.is_reconciled(known)
    }

    /// A hold was granted.
    ///
    /// # Errors
    /// If another hold has the same identity.
    pub(crate) fn granted(&mut self, known: Known) -> Result<(), String> {
        self.trail.windows.made(known.hold.grant, known.made_ms)?;
        let billed = World::is_billed(self.holds.len(), Action::Settle);
        let known = Known { billed, ..known };
        let name = (known.hold.grant, known.hold.seq);
        if let Some(other) = self.names.insert(name, self.holds.len()) {
            let other = &self.holds[other];
            return Err(format!("two holds with one identity: {other:?} and {known:?}"));
        }
        self.holds.push(known);
        Ok(())
    }

    /// An answer came back for a request about a hold. `judged_ms`: until when it may have waited.
    pub(crate) fn answered(
        &mut self,
        request: &Request,
        resolution: Resolution,
        judged_ms: u64,
        narrow: bool,
    ) -> Result<(), String> {
        let Request { hold: index, action, at_ms, .. } = *request;
        let (verdict, repeat) = (resolution.verdict, resolution.is_repeat());
        let topped_up = resolution.judged == Handled::ToppedUp;
        let is_there = self.is_there(&self.holds[index]);
        let known = &mut self.holds[index];
        let billing_ms = known.billing_ms;
        let in_time = at_ms < known.hold.deadline_ms;
        // Billing deadlines are rounded up by at most a 64th of the window.
        let billing_over = known.hold.deadline_ms + billing_ms + billing_ms / 64 + 1;
        let fits = match (action, verdict) {
            (Action::Confirm, Verdict::Confirmed) => repeat || in_time,
            (Action::Confirm, Verdict::Expired) => !in_time,
            // A confirm that was read in time may have been judged after the release.
            (Action::Release, Verdict::Expired) => {
                !in_time && (!is_there || !known.keeps.unconfirmed)
            }
            (Action::Confirm, Verdict::AlreadySettled | Verdict::AlreadyReleased) => true,
            (Action::Release, Verdict::AlreadySettled) => true,
            (Action::Release, Verdict::Released) => {
                repeat || at_ms < billing_over || known.keeps.confirmed
            }
            (Action::Settle, Verdict::Settled) => known.least() <= known.hold.amount.get(),
            (Action::Settle, Verdict::SettledOver) if topped_up => {
                let total = resolution.amount.map_or(0, |total| total.get());
                let is_beyond = total > known.hold.amount.get();
                at_ms < billing_over && (is_beyond || narrow || known.in_bill || known.judged_late)
            }
            (Action::Settle, Verdict::SettledOver) => {
                known.billed || known.price > known.hold.amount.get()
            }
            (Action::Settle, Verdict::SettledLate) => {
                let alive =
                    in_time || known.confirmed && at_ms < known.hold.deadline_ms + billing_ms;
                repeat || topped_up || !alive && !is_there || known.release_asked
            }
            (_, Verdict::TooOld) => at_ms.max(judged_ms) >= billing_over,
            // Only in worlds with narrow bounds; see `World::check_rest`.
            (_, Verdict::Busy) => true,
            // Nothing was looked at: the disk did not take anything.
            (_, Verdict::Journal) => !repeat,
            _ => false,
        };
        if !fits {
            return Err(format!(
                "{action:?} at {at_ms} answered {verdict:?} (repeat {repeat}): {known:?}"
            ));
        }
        match verdict {
            Verdict::Confirmed => known.confirmed = true,
            Verdict::Released => known.released = true,
            Verdict::TooOld => known.too_old = true,
            Verdict::Settled | Verdict::SettledOver | Verdict::SettledLate => {
                known.note_settled(request, &resolution, narrow)?;
            }
            _ => {}
        }
        if known.bookings > 1 {
            return Err(format!("booked {} times: {known:?}", known.bookings));
        }
        Ok(())
    }

    /// No budget is overspent: what is settled within holds and what holds can still become never exceeds a
    /// limit; nor do they with what is out or spent of it under names, less what facts forced.
    pub(crate) fn check_exposure(
        &self,
        now_ms: u64,
        narrow: bool,
        day_of: impl Fn(u64) -> Window,
        named: impl Fn(u64) -> i128,
    ) -> Result<(), String> {
        let mut lifetime: BTreeMap<u64, i128> = BTreeMap::new();
        let mut today: BTreeMap<u64, i128> = BTreeMap::new();
        for known in &self.holds {
            let exposed = self.exposed(known, now_ms, narrow);
            for id in &known.chain {
                *lifetime.entry(*id).or_default() += exposed;
                if day_of(*id).contains(Instant::from_ms(known.made_ms)) {
                    *today.entry(*id).or_default() += exposed;
                }
            }
        }
        for (id, cap) in &self.caps {
            let used = lifetime.get(id).copied().unwrap_or(0) + named(*id);
            if used > cap.lifetime {
                return Err(format!("budget {id}: {used} spent or held, limit {}", cap.lifetime));
            }
            let used = today.get(id).copied().unwrap_or(0);
            if cap.daily.is_some_and(|daily| used > daily) {
                return Err(format!(
                    "budget {id}: {used} spent or held today, limit {:?}",
                    cap.daily
                ));
            }
        }
        Ok(())
    }

    /// Nothing was handed out beyond a window.
    pub(crate) fn check_windows(&self) -> Result<(), String> {
        self.trail.windows.fault().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// What the ledger says is out or spent within holds must stay within the lifetime limit, too.
    /// Returns by how much it is above it, as facts forced it.
    pub(crate) fn check_cap(&self, id: u64, within: i128, forced: i128) -> Result<i128, String> {
        let above = within - self.caps.get(&id).expect("every budget has a cap").lifetime;
        if above > forced {
            return Err(format!("budget {id}: books say {within} out, {above} above its limit"));
        }
        Ok(above)
    }

    /// What a hold counts for at least: its booked price within the hold, or the hold while it can be settled in
    /// time. A request on its way may already have been booked, and money above its price be free again; but not what a billing notice
    /// left, where a higher one can follow in time.
    fn exposed(&self, known: &Known, now_ms: u64, narrow: bool) -> i128 {
        let within = known.least().min(known.hold.amount.get());
        let in_time = now_ms < known.hold.deadline_ms || self.is_there(known);
        let billing_ends = known.hold.deadline_ms + known.billing_ms;
        match known.settled {
            Some(Verdict::Settled)
                if known.billed && now_ms < billing_ends && !narrow && !known.in_bill =>
            {
                i128::from(known.hold.amount.get())
            }
            Some(Verdict::Settled | Verdict::SettledOver) => i128::from(within),
            Some(_) => 0,
            None if known.released || known.release_asked => 0,
            None if known.settle_asked && in_time => i128::from(within),
            None if known.settle_asked => 0,
            None if in_time => i128::from(known.hold.amount.get()),
            None if known.confirmed && now_ms < billing_ends => i128::from(known.hold.amount.get()),
            None => 0,
        }
    }

    /// What must be expired of each budget when every hold's time is over: at least, and if no run ended in a crash, at
    /// most. Between them is what was reconciled by deadlines that the ledger rounds up.
    pub(crate) fn expired(&self, journal: &[Record]) -> BTreeMap<u64, (i128, i128)> {
        let mut confirmed: BTreeMap<(u64, u32), bool> = BTreeMap::new();
        for record in journal {
            // That a hold was reserved under a key is no word about it.
            if let Record::Resolved { hold, verdict, .. } = record
                && *verdict != Verdict::Granted
            {
                confirmed.insert((hold.grant, hold.seq), *verdict == Verdict::Confirmed);
            }
        }
        let mut sums: BTreeMap<u64, (i128, i128)> = BTreeMap::new();
        for known in &self.holds {
            let kept = match confirmed.get(&(known.hold.grant, known.hold.seq)) {
                None => known.keeps.unconfirmed,
                Some(true) => known.keeps.confirmed,
                Some(false) => false,
            };
            let amount = if kept { i128::from(known.hold.amount.get()) } else { 0 };
            for id in &known.chain {
                let (least, most) = sums.entry(*id).or_default();
                *least += if self.is_reconciled(known) { 0 } else { amount };
                *most += amount;
            }
        }
        sums
    }

    /// Everything that was spent, by budget, from what clients were told. The journal must agree with each of them;
    /// it also says whether a settle was booked whose client only heard, much later, that it is too old to tell.
    pub(crate) fn spent(
        &self,
        journal: &[Record],
        narrow: bool,
    ) -> Result<BTreeMap<u64, i128>, String> {
        let mut booked = booked(journal)?;
        let mut spent: BTreeMap<u64, i128> = BTreeMap::new();
        for known in &self.holds {
            let entry = booked.remove(&(known.hold.grant, known.hold.seq));
            let told = known.settled.map(|verdict| (verdict, known.price));
            let fits = match (known.billed, entry) {
                // The highest price that came: of those that were lost on their way nobody knows.
                (true, Some((_, amount))) => amount >= known.told && known.named.contains(&amount),
                (true, None) => told.is_none(),
                (false, entry) => told.is_none() || told == entry,
            };
            if !fits {
                return Err(format!("the journal says {entry:?}: {known:?}"));
            }
            if known.waits() && !narrow {
                return Err(format!("a settle was never answered: {known:?}"));
            }
            if entry.is_some() && !known.settle_asked {
                return Err(format!("nobody settled it: {known:?}"));
            }
            let amount = entry.map_or(0, |(_, amount)| amount);
            for id in known.chain.iter().filter(|_| entry.is_some()) {
                *spent.entry(*id).or_default() += i128::from(amount);
            }
        }
        match booked.is_empty() {
            true => Ok(spent),
            false => Err(format!("holds that nobody was granted: {booked:?}")),
        }
    }
}

/// By grant and number: how a hold was settled first, and what is booked for it in all.
type Booked = BTreeMap<(u64, u32), (Verdict, i64)>;

/// What the journal says is booked.
fn booked(journal: &[Record]) -> Result<Booked, String> {
    let mut booked = Booked::new();
    for record in journal {
        match record {
            Record::Resolved {
                verdict: Verdict::Confirmed | Verdict::Released | Verdict::Granted,
                ..
            } => {}
            Record::Resolved { hold, verdict, amount, .. } => {
                let entry = (*verdict, amount.get());
                if booked.insert((hold.grant, hold.seq), entry).is_some() {
                    return Err(format!("booked twice in the journal: {hold:?}"));
                }
            }
            Record::ToppedUp { hold, amount, total, .. } => {
                let entry = booked.get_mut(&(hold.grant, hold.seq));
                let (_, all) = entry.ok_or_else(|| format!("topped up, not settled: {hold:?}"))?;
                *all += amount.get();
                if *all != total.get() {
                    return Err(format!(
                        "{all} is booked, and the journal says {total:?}: {hold:?}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(booked)
}
