//! What must hold between the parts of the bank's state, and a figure to compare states by.

use super::answers::Answers;
use super::memos::Memos;
use super::{Bank, Budget, MadeBudgets, Slots};
use crate::books::{SPENT, plus};
use crate::grant::{Expired, Grant, Sums};
use crate::part::Stage;
use crate::spec::{MADE_ID_MIN, MADE_SLOT};
use crate::{Amount, BudgetSpec, LedgerEvidence, Line, OnExpiry, WindowKind, WindowLimit};

impl Bank {
    /// A figure over everything that records decide: the run, budgets, books, days, grants and the marks of their
    /// holds, token keys, answers and memos.
    /// Banks with equal figures have, for all that matters here, equal states.
    pub fn digest(&self) -> u64 {
        let mut digest = Digest(u64::from(self.run.number));
        digest.eat(self.run.hold_ms_max);
        digest.eat(self.run.billing_ms);
        digest.eat_if(!self.run.win_notices, 1);
        digest.eat_if(self.run.lease_ms > 0, self.run.lease_ms);
        digest.eat_if(self.run.handed_over, 2);
        for (room, kept) in (0..).zip(self.kept) {
            digest.eat_if(kept > 0, room);
            digest.eat_if(kept > 0, kept);
        }
        for slot in self.slots.values() {
            let budget = self.budget(*slot);
            // Those of budgets made on their first ask are given anew by each run.
            if *slot < MADE_SLOT {
                digest.eat(u64::from(*slot));
            }
            digest.spec(&budget.spec);
            digest.eat(budget.day.start.ms());
            digest.eat(budget.day.end.ms());
            for line in Bank::LINES {
                let (life, day) = (budget.books.line(line), budget.day_lines[line as usize]);
                let is_later = line == Line::Expired || line > Line::Late;
                if !is_later || (life, day) != (Amount::ZERO, Amount::ZERO) {
                    digest.eat_if(line > Line::Late, line as u64);
                    digest.amount(life);
                    digest.amount(day);
                }
            }
            digest.evidence(&budget.evidence);
            digest.windows(budget);
        }
        digest.made(&self.made);
        for (number, grant) in self.grants.numbers() {
            let id = self.budget(grant.slot).spec.id;
            let budget = if grant.slot < MADE_SLOT { u64::from(grant.slot) } else { id };
            digest.grant(number, grant, budget);
        }
        digest.eat(self.grants.next_number());
        for key in self.keys() {
            digest.eat(u64::from(key.id));
            digest.eat(key.since_ms);
            digest.bytes(&key.key.0);
        }
        digest.answers(&self.answers);
        digest.memos(&self.memos);
        digest.named(self);
        digest.0
    }

    /// A figure over what is known of the amounts that holds were settled with. Two banks can know more or less of them and be equal in
    /// all that records decide, so it is no part of [`Bank::digest`].
    pub fn amounts_digest(&self) -> u64 {
        let mut digest = Digest(0);
        for (number, grant) in self.grants.numbers() {
            for (at, page) in grant.marks() {
                digest.eat(number);
                digest.eat(u64::from(at));
                digest.eat(u64::from(page.is_whole()));
                for (place, amount) in page.amounts() {
                    digest.eat(u64::from(place));
                    digest.amount(amount);
                }
            }
        }
        digest.0
    }

    /// The digest over the books alone: what a snapshot of any earlier version holds, too. Later versions may note more beside them.
    pub fn books_digest(&self) -> u64 {
        let mut digest = Digest(u64::from(self.run.number));
        for (id, slot) in &self.slots {
            let books = &self.budget(*slot).books;
            digest.eat(*id);
            digest.amount(books.limit());
            for line in Bank::LINES {
                digest.line(line, books.line(line));
            }
        }
        digest.eat(self.grants.next_number());
        digest.0
    }

    /// Checks everything that must hold between budgets, grants and days; for tests and after a replay.
    ///
    /// # Errors
    /// What does not hold.
    pub fn audit(&self) -> Result<(), String> {
        self.audit_state()?;
        let mut rests = Slots::like(&self.budgets, Amount::ZERO);
        for (_, grant) in self.grants.numbers() {
            for slot in self.chain(grant.slot) {
                let sum = &mut rests[slot as usize];
                *sum = plus(*sum, grant.rests.total());
            }
        }
        for (budget, rests) in self.budgets.iter().zip(rests.iter()) {
            if budget.rests != *rests {
                let (id, kept) = (budget.spec.id, budget.rests);
                return Err(format!("budget {id}: {kept:?} are rests, grants say {rests:?}"));
            }
        }
        Ok(())
    }

    /// What budgets count of named holds is what these say.
    fn audit_named(&self) -> Result<(), String> {
        let mut sums = Slots::like(&self.budgets, (0, 0, 0));
        for (hold, timed) in self.named_unordered() {
            let is_expired = timed.is_some_and(|row| row.line() == Line::Expired);
            for leg in &hold.legs {
                let slot = self.slot(leg.budget).ok_or("a named hold of no budget")?;
                for level in self.chain(slot) {
                    sums[level as usize].0 += 1;
                    let sums = &mut sums[level as usize];
                    let sum = if is_expired { &mut sums.2 } else { &mut sums.1 };
                    *sum += i128::from(leg.amounts.hold.get());
                }
            }
        }
        for (budget, sums) in self.budgets.iter().zip(sums.iter()) {
            let [held, expired] =
                [budget.named_held, budget.named_expired].map(|sum| i128::from(sum.get()));
            let kept = (budget.named, held, expired);
            if kept != *sums {
                let id = budget.spec.id;
                return Err(format!("budget {id}: {kept:?} of named holds, they say {sums:?}"));
            }
        }
        Ok(())
    }

    /// The same for what a snapshot holds, without what is kept beside it.
    pub(super) fn audit_state(&self) -> Result<(), String> {
        let mut lives = Slots::like(&self.budgets, GrantTotals::default());
        let mut days = lives.clone();
        let none = |budget: &Budget| vec![0; budget.windows.len()];
        let mut windows: Slots<Vec<i128>> = self.budgets.map(none);
        let mut resolved = Slots::like(&self.budgets, 0);
        for (number, grant) in self.grants.numbers() {
            if grant.held != plus(grant.billing.total(), grant.rests.total()) {
                return Err(format!("grant {number}: held differs from its billing deadlines"));
            }
            resolved[grant.slot as usize] += grant.resolved_early();
            for (slot, day) in self.chain(grant.slot).zip(grant.days) {
                lives[slot as usize].add(grant);
                let budget = self.budget(slot);
                if budget.day.start.ms() == day {
                    days[slot as usize].add(grant);
                }
                for ((window, used), sum) in budget.windows().zip(&mut windows[slot as usize]) {
                    if !window.is_bucket() && window.counts(used, number, day) {
                        *sum += GrantTotals::of(grant).total();
                    }
                }
            }
        }
        self.audit_named()?;
        for (budget, sums) in self.budgets.iter().zip(windows.iter()) {
            budget.audit_windows(sums)?;
        }
        for (budget, resolved) in self.budgets.iter().zip(resolved.iter()) {
            if budget.resolved_early != *resolved {
                let (id, kept) = (budget.spec.id, budget.resolved_early);
                return Err(format!(
                    "budget {id}: {kept} was resolved early, grants say {resolved}"
                ));
            }
        }
        self.answers.audit()?;
        let grants = || self.grants.numbers().map(|(_, grant)| grant);
        let pages: usize = grants().map(Grant::pages).sum();
        let amounts: usize = grants().map(Grant::amounts).sum();
        if (pages, amounts) != (self.pages, self.amounts) {
            let counted = (self.pages, self.amounts);
            return Err(format!(
                "pages, amounts: {counted:?} are counted, {pages}, {amounts} there"
            ));
        }
        let sums = lives.iter().zip(days.iter());
        self.budgets.iter().zip(sums).try_for_each(|(budget, (life, day))| budget.audit(life, day))
    }
}

/// What grants say is on the lines that grants are about.
#[derive(Clone, Copy, Debug, Default)]
struct GrantTotals {
    purses: i128,
    held: i128,
    suspended: i128,
    expired: i128,
}

impl GrantTotals {
    fn of(grant: &Grant) -> GrantTotals {
        let mut sum = GrantTotals::default();
        sum.add(grant);
        sum
    }

    fn total(&self) -> i128 {
        self.lines().into_iter().map(|(_, sum)| sum).sum()
    }

    fn add(&mut self, grant: &Grant) {
        let out = match grant.line_out() {
            Line::Suspended => &mut self.suspended,
            Line::Expired => &mut self.expired,
            _ => &mut self.purses,
        };
        *out += i128::from(grant.out.get());
        self.expired += i128::from(grant.expired.total().get());
        self.held += i128::from(grant.held.get());
    }

    fn lines(&self) -> [(Line, i128); 4] {
        [
            (Line::Purses, self.purses),
            (Line::Held, self.held),
            (Line::Suspended, self.suspended),
            (Line::Expired, self.expired),
        ]
    }
}

impl Budget {
    /// `sums`: what grants say is out of each window.
    fn audit_windows(&self, sums: &[i128]) -> Result<(), String> {
        let id = self.spec.id;
        for ((window, used), sum) in self.windows().zip(sums) {
            let named = if window.is_of_days() && used.until_ms > 0 {
                plus(self.named_held, self.named_expired)
            } else {
                Amount::ZERO
            };
            if i128::from(used.used.get()) < *sum + i128::from(named.get()) {
                let name = window.period.name();
                return Err(format!("budget {id}: of its {name} {used:?}, grants say {sum}"));
            }
        }
        Ok(())
    }

    fn audit(&self, life: &GrantTotals, today: &GrantTotals) -> Result<(), String> {
        let (id, books) = (self.spec.id, &self.books);
        let (mut life, mut today) = (*life, *today);
        for (sums, counts) in [(&mut life, true), (&mut today, !self.day.is_empty())] {
            if counts {
                sums.held += i128::from(self.named_held.get());
                sums.expired += i128::from(self.named_expired.get());
            }
        }
        let agrees = |(line, sum): (Line, i128)| i128::from(books.line(line).get()) == sum;
        if !life.lines().into_iter().all(agrees) {
            return Err(format!("budget {id}: books {books:?}, grants and named holds {life:?}"));
        }
        // A day may count more: what it took over from one that it overlaps.
        let day = |line: Line| i128::from(self.day_lines[line as usize].get());
        let counted = today.lines().into_iter().all(|(line, sum)| day(line) >= sum);
        let negative = self.day_lines.iter().any(|line| *line < Amount::ZERO);
        if !counted || negative {
            return Err(format!(
                "budget {id}: day {:?}, grants and named holds {today:?}",
                self.day_lines
            ));
        }
        Ok(())
    }
}

/// Weeks and months were there before the others: a state that has no others keeps its figure.
fn window_tag(window: &WindowLimit) -> u64 {
    let kind = if window.kind == WindowKind::Bucket { 32 } else { 0 };
    kind + 3 + window.period as u64
}

/// A running figure: FNV-1a with a rotation, over words.
struct Digest(u64);

impl Digest {
    fn eat(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    /// For what came later than the first journals: a state that has none of it keeps its figure. `tag` says what it is.
    fn eat_if(&mut self, there: bool, tag: u64) {
        if there {
            self.eat(tag);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.eat(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            self.eat(chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
        }
    }

    fn maybe(&mut self, word: Option<u64>) {
        self.eat(u64::from(word.is_some()));
        self.eat(word.unwrap_or(0));
    }

    fn spec(&mut self, spec: &BudgetSpec) {
        self.eat(spec.id);
        self.bytes(&spec.unit.to_code());
        self.amount(spec.limit);
        self.maybe(spec.windows.day_limit().map(|daily| daily.get().cast_unsigned()));
        self.eat(spec.start.ms());
        self.eat(spec.end.ms());
        self.bytes(spec.zone.name().as_bytes());
        self.eat(spec.status as u64);
        self.maybe(spec.parent);
        self.eat(u64::from(spec.late_reserve_bp));
        self.eat_if(spec.on_expiry == OnExpiry::Hold, 2);
        for window in spec.windows.all().iter().filter(|window| !window.is_day()) {
            self.eat(window_tag(window));
            self.amount(window.limit);
        }
        if spec.tolerance_ppm > 0 {
            self.eat(u64::from(spec.tolerance_ppm));
        }
        if let Some(handle) = &spec.handle {
            self.bytes(handle.as_str().as_bytes());
        }
        self.eat_if(spec.idle_ms > 0, spec.idle_ms);
    }

    fn windows(&mut self, budget: &Budget) {
        for (window, used) in budget.windows().filter(|(_, used)| used.until_ms > 0) {
            self.eat(used.since);
            self.eat(used.until_ms);
            self.amount(used.used);
            self.eat_if(window.is_bucket() || used.rest > 0, used.rest);
        }
        self.eat_if(budget.day_named > 0, budget.day_named);
    }

    fn spent(&mut self, spent: [Amount; SPENT]) {
        Line::SPENT.into_iter().zip(spent).for_each(|(line, amount)| self.line(line, amount));
    }

    /// Lines since version 8 count where something is on them: of earlier snapshots the figure stays.
    fn line(&mut self, line: Line, amount: Amount) {
        if line <= Line::Late || amount != Amount::ZERO {
            self.eat_if(line > Line::Late, line as u64);
            self.amount(amount);
        }
    }

    fn evidence(&mut self, evidence: &LedgerEvidence) {
        if *evidence != LedgerEvidence::default() {
            evidence.sums().into_iter().for_each(|sum| self.amount(sum));
        }
    }

    fn made(&mut self, made: &MadeBudgets) {
        self.eat_if(made.next_id > MADE_ID_MIN, made.next_id);
        for dormant in made.dormant.values() {
            self.eat(dormant.id);
            self.bytes(dormant.handle.as_str().as_bytes());
            self.bytes(&dormant.unit.to_code());
            self.eat(u64::from(dormant.limited));
            self.spent(dormant.spent);
            self.evidence(&dormant.evidence);
            let Some(windows) = &dormant.windows else { continue };
            for instant in [windows.day.start, windows.day.end] {
                self.eat(instant.ms());
            }
            self.spent(windows.day_spent);
            for (window, used) in windows.limits.all().iter().zip(&windows.uses) {
                self.eat(window.period as u64);
                self.eat(u64::from(window.kind == WindowKind::Bucket));
                self.amount(window.limit);
                for word in [used.since, used.until_ms, used.rest] {
                    self.eat(word);
                }
                self.amount(used.used);
            }
        }
    }

    fn grant(&mut self, number: u64, grant: &Grant, budget: u64) {
        self.eat(number);
        self.eat(budget);
        self.eat(u64::from(grant.worker));
        self.eat(grant.billing_ms);
        self.amount(grant.out);
        self.amount(grant.held);
        let (stage, stage_ms) = match grant.stage {
            Stage::Open => (0, 0),
            Stage::Retired { deadline_ms } => (1, deadline_ms),
            Stage::Suspended { until_ms } => (2, until_ms),
            Stage::Expired { until_ms } => (3, until_ms),
        };
        self.eat(stage);
        self.eat(stage_ms);
        grant.days.iter().for_each(|day| self.eat(*day));
        for sum in grant.billing.all() {
            self.eat(sum.deadline_ms);
            self.amount(sum.amount);
        }
        self.eat_if(grant.keeps.unconfirmed, 3);
        self.eat_if(grant.keeps.confirmed, 4);
        self.expired(&grant.expired);
        self.sums(7, &grant.rests);
        // With what holds were settled is no part of it: how much of that is known is a matter of options, and of who wrote a snapshot.
        for (number, page) in grant.marks() {
            self.eat(u64::from(number));
            self.bytes(page.marks());
        }
    }

    fn answers(&mut self, answers: &Answers) {
        if let Some(secret) = answers.secret {
            self.bytes(&secret.0);
        }
        for kept in answers.certain() {
            self.bytes(&kept.key.to_le_bytes());
            self.bytes(&kept.digest.to_le_bytes());
            self.bytes(kept.answer);
            self.eat(u64::from(kept.verdict.as_raw()));
            self.eat(kept.at_ms);
        }
    }

    fn memos(&mut self, memos: &Memos) {
        for (door, key, bytes, at_ms) in memos.iter() {
            self.eat(door as u64);
            self.bytes(&key.to_le_bytes());
            self.bytes(bytes);
            self.eat(at_ms);
        }
    }

    /// They lie in an order of no meaning, so what each says is added up.
    fn named(&mut self, bank: &Bank) {
        let of_each = bank.named_unordered().map(|(hold, timed)| {
            let mut one = Digest(hold.door as u64);
            one.bytes(&hold.key.to_le_bytes());
            one.bytes(hold.label.as_bytes());
            for leg in &hold.legs {
                one.eat(leg.budget);
                leg.amounts.lines().for_each(|(_, amount)| one.amount(amount));
            }
            if let Some(row) = timed {
                one.amount(row.amount);
                one.eat(row.until_ms);
                one.eat(u64::from(row.state.as_raw()));
            }
            one.0
        });
        let sum = of_each.fold(0, u64::wrapping_add);
        self.eat_if(bank.named_len() > 0, sum ^ 8);
    }

    fn expired(&mut self, expired: &Expired) {
        self.eat_if(expired.until_ms > 0, expired.until_ms);
        for (tag, sums) in [(5, &expired.unconfirmed), (6, &expired.unbilled)] {
            self.sums(tag, sums);
        }
    }

    fn sums(&mut self, tag: u64, sums: &Sums) {
        for sum in sums.all() {
            self.eat(tag);
            self.eat(sum.deadline_ms);
            self.amount(sum.amount);
        }
    }

    fn amount(&mut self, amount: Amount) {
        self.eat(amount.get().cast_unsigned());
    }
}
