//! The bank: the single writer of a node's balances.
//!
//! - `apply`: the only code that changes state; live and in replay.
//! - `fill`: how much money goes to which purse, and how it comes back.
//! - `hungry`: wants that wait for money on its way.
//! - `resolve`: confirm, settle, release.
//! - `keyed`: requests with keys of idempotency. `answers`: their first answers.
//! - `memos`: what doors have recorded, judged before it is.
//! - `named`: holds with a name: asks, facts, ends. `timed`: those that end by time.
//! - `timeline`: everything that happens because time passed.
//! - `reconcile`: what is known in the end of holds that expired.
//! - `configure`: taking over a set of budgets. `made`: budgets made on their first ask.
//! - `restore`: the state as parts, and back.
//! - `audit`: what must hold between the parts of the state.

mod answers;
mod apply;
mod audit;
mod configure;
mod fill;
mod hungry;
mod keyed;
mod made;
mod memos;
mod named;
mod reconcile;
mod resolve;
mod restore;
mod slots;
mod timed;
mod timeline;
mod unsealed;

use std::collections::BTreeMap;

use money::{Instant, Window};
use wire::Handle;

pub use apply::ReplayError;
pub use made::{Dormant, DormantWindows, OpenError};
pub use restore::{Restore, RestoreError};
pub use unsealed::UnsealedCredits;

use crate::books::{LINES, minus, plus};
use crate::grant::Grants;
use crate::keys::TokenKeys;
use crate::spec::{LEVELS_MAX, MADE_SLOT, TOLERANCE_PPM_MAX};
use crate::{
    Amount, Books, BudgetSpec, Claimed, Door, EDIT_TEXT_MAX, Edit, KeyBytes, KeyError,
    LedgerEvidence, Line, MemoAnswer, MemoJudge, NODE_BYTES_MAX, OPERATOR_TEXT_MAX, Record, Room,
    RoomError, ToBank, ToWorker, TokenKey, WindowLimit, WindowUse, room,
};
use answers::Answers;
use keyed::Claims;
use made::MadeBudgets;
use memos::Memos;
use named::NamedHolds;
use slots::Slots;
use timeline::Timeline;

/// How a bank behaves. One set for a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Workers that have purses, 1 ..= 1,024.
    pub workers: u16,
    /// How long an unconfirmed hold may live at most, with the rounding of its deadline.
    pub hold_ms_max: u64,
    /// How long workers may spend after the last append that is known to be in a log on other machines was sent; 0: the log is on the
    /// own disk. Recorded with the run.
    pub lease_ms: u64,
    /// How far clocks of machines that share a log may be apart.
    pub clock_error_ms: u64,
    /// The machine, at most [`crate::NODE_BYTES_MAX`] bytes of it. Recorded with the run.
    pub node: Box<str>,
    /// How long a confirmed hold waits to be settled.
    pub billing_ms: u64,
    /// What the end of the first clock means. True: whoever wins is confirmed before it, so that a hold of which nobody
    /// spoke was lost, and its money is free. False: nobody can tell a loss from silence, so for budgets with
    /// [`crate::OnExpiry::Hold`] the money stays held until it is reconciled. Recorded with the run.
    pub win_notices: bool,
    /// How long after its billing deadline a token is still judged. After that nothing is known of it.
    pub late_ms: u64,
    /// A purse should last about this long.
    pub refresh_ms: u64,
    /// A grant older than this is replaced, so that the marks of old holds can be forgotten.
    pub grant_ms_max: u64,
    /// Grants that may be open at once; above it no purse is filled by a new grant.
    pub grants_max: usize,
    /// Pages of marks (256 holds, 160 bytes each) that may exist; above it the answer is `Busy`.
    pub pages_max: usize,
    /// Holds settled with another amount than their own of which the amount may be kept (8 bytes each, with the room for growing at most 16);
    /// above it, it is not known of further ones, and a later higher price of theirs books nothing.
    pub amounts_max: usize,
    /// A billing notice that is lower than its hold leaves the rest held until the billing time is over, so that a later, higher one is paid
    /// from it and not from money that was handed out again.
    pub keep_rests: bool,
    /// Budgets made on their first ask that may be live at once...
    pub made_max: usize,
    /// ...and directly under one parent.
    pub made_under_max: usize,
    /// Answers that are kept for keys of idempotency, with the claims under way; above it a new key is [`Claimed::Busy`], or
    /// [`Claimed::Unkept`].
    pub answers_max: usize,
    /// How long each is kept, ms, from the stamp of its request; at least [`crate::keyed::ANSWER_KEPT_MS_MIN`].
    pub answers_kept_ms: u64,
    /// Named holds that may be open: above it an ask for another one is refused; what happened outside finds room.
    pub named_max: usize,
    /// What judges the memos of which door. A replay needs none of them.
    pub memo_judges: Vec<(Door, MemoJudge)>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            workers: 1,
            hold_ms_max: 2_250,
            lease_ms: 0,
            clock_error_ms: 500,
            node: "".into(),
            billing_ms: 3_600_000,
            win_notices: true,
            late_ms: 3_600_000,
            refresh_ms: 200,
            grant_ms_max: 600_000,
            grants_max: 4_000_000,
            pages_max: 8_000_000,
            amounts_max: 64_000_000,
            keep_rests: true,
            made_max: 1_000_000,
            made_under_max: 10_000,
            answers_max: 4_000_000,
            answers_kept_ms: 3_600_000,
            named_max: 1_048_576,
            memo_judges: Vec::new(),
        }
    }
}

/// What a step of the bank leads to. Records must be sealed, in order, before the messages go out.
#[derive(Clone, Debug, Default)]
pub struct Out {
    /// What changed.
    pub records: Vec<Record>,
    /// What to tell which worker, in order.
    pub messages: Vec<(u16, ToWorker)>,
    /// Budgets made on their first ask that ended.
    pub ended: Vec<Handle>,
    /// What became of claims, in order: worker, reply, answer. Those of [`Claimed::Answer`] wait for the records as messages do.
    pub claimed: Vec<(u16, u64, Claimed)>,
    /// What became of memos, in order: worker, reply, answer. They wait for the records as messages do.
    pub memos: Vec<(u16, u64, MemoAnswer)>,
    /// What facts of named holds made free at most: a slot, and how much on it and above it. For [`UnsealedCredits`].
    pub credits: Vec<(u32, Amount)>,
}

impl Out {
    fn send(&mut self, worker: u16, message: ToWorker) {
        self.messages.push((worker, message));
    }
}

/// At most so many bytes of a text, whole characters.
fn cut(text: &str, bytes_max: usize) -> Box<str> {
    text[..text.floor_char_boundary(bytes_max)].into()
}

const LIMITS: &str = "/docs/operations.md#limits-and-what-happens-at-each";

counters::counters! {
    /// Things worth counting that are not money.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Counts of u64, in "bank" {
        resolves: "Resolves judged, repeats included.";
        repeats: "Resolves that were answered with their first answer.";
        fills: "Purses filled.", family("weir_fills");
        recalls: "Purses recalled. Many: budgets near their end, or more workers than demand.";
        clock_back: "Stamps of a worker that went back; the later stamp counts.", failing("clock_back", "/docs/operations.md#the-clock");
        grants_full: "Wants that `ledger.grants_max` refused: raise the limit.", failing("grants_full", LIMITS);
        pages_full: "Resolves that `ledger.mark_pages_max` refused: raise the limit.", failing("mark_pages_full", LIMITS);
        amounts_full: "Settles of which the amount was not kept, as `ledger.amounts_max` was reached: a later higher price books nothing. Raise the limit.", failing("amounts_full", LIMITS);
        topped_up: "Billing notices with a higher price than was booked for their hold: the difference was booked.";
        amounts_unknown: "Billing notices of holds of which it is not known with what they were settled; nothing was booked.";
        made: "Budgets made on their first ask, or back after they had ended.", name("budgets_made");
        made_full: "Asks for a budget that `budgets.templates_max` or `budgets.templates_under_max` refused: raise the limit.", failing("templates_full", LIMITS), name("templates_full");
        idled: "Budgets made on their first ask that ended because nobody asked of them.", name("budgets_idled");
        keys_kept: "Answers kept for keys of idempotency.";
        keys_repeated: "Requests whose key was known, answered with the first answer.";
        keys_reused: "Requests whose key was used for another request before.";
        keys_unkept: "Confirms, settles and releases with keys that were done without an answer that is kept, because the keys of `spend.keys_max`, or half of them their caller's, were taken: their tokens make them safe to repeat.";
        keys_full: "Requests with keys that `spend.keys_max`, or the number that may be under way, refused.", failing("keys_full", LIMITS);
        memos: "Memos of doors recorded, alone or with their money.";
        memos_known: "Memos that were recorded before, answered with the first answer.";
        memos_refused: "Memos that their door's judge refused, or that no door can send.";
        memos_full: "Memos with new keys refused because their door has 65,536.", failing("memos_full", LIMITS);
        named_full: "Asks for a named hold refused because as many as may be are open.", failing("named_full", LIMITS);
        spent_full: "Settles refused because the total booked reached the limit of what can be counted.", failing("spent_full", LIMITS);
    }
}

/// A run of the node, with the options that outlive it in its tokens.
#[derive(Clone, Copy, Debug)]
struct Run {
    number: u32,
    hold_ms_max: u64,
    billing_ms: u64,
    win_notices: bool,
    lease_ms: u64,
    /// Its bank and workers have stopped.
    handed_over: bool,
}

impl Default for Run {
    /// Before the first one.
    fn default() -> Run {
        Run {
            number: 0,
            hold_ms_max: 0,
            billing_ms: 0,
            win_notices: true,
            lease_ms: 0,
            handed_over: false,
        }
    }
}

/// One budget and what the bank knows of it.
#[derive(Clone, Debug)]
struct Budget {
    spec: BudgetSpec,
    /// This budget, its parent, and so on up, as slots.
    chain: [u32; LEVELS_MAX],
    levels: usize,
    /// Configured budgets directly under it...
    children: Vec<u32>,
    /// ...and those that were made on their first ask.
    made_children: Vec<u32>,
    /// One that was made on its first ask: its place among those of its parent.
    place: u32,
    /// All that are under it, on all levels.
    below: u32,
    /// Its grants that are not closed.
    grants: u32,
    /// When somebody asked of it last, as far as the bank heard of it. Only of one that was made on its first ask.
    used_ms: u64,
    books: Books,
    /// The civil day; zero-length before the first.
    day: Window,
    /// What became of the money that was handed out on that day, by line; `Free` stays zero.
    day_lines: [Amount; LINES],
    /// What named holds booked on that day, less what credits took back: a credit of that day takes back no more.
    day_named: u64,
    /// What is used of each of its windows, in the order of its configuration. That of a fixed day is in `day_lines`.
    windows: Box<[WindowUse]>,
    /// What became of its holds and of those of the budgets under it.
    evidence: LedgerEvidence,
    /// Out under retired grants: all of it is in holds.
    retired_out: Amount,
    /// The same with that of the budgets under it.
    retired_below: Amount,
    /// Suspended, here and in the budgets under it, and free again once the suspension is over.
    returning: Amount,
    /// Resolved of the holds of its open grants whose lapse is not yet accounted: workers still count them as held,
    /// the books do not. Wide, because money that is released can be held again, often, before its first hold lapses.
    resolved_early: i128,
    /// What of its held money are the rests of settled holds, those under it included.
    rests: Amount,
    /// The last search for money in the purses of the budget and of those under it.
    search: Search,
    /// See [`Bank::expired_holds`].
    expired_holds: u64,
    /// Legs of named holds that are open, those on budgets under it included.
    named: u32,
    /// What of its held money named holds have, those under it included.
    named_held: Amount,
    /// What of its expired money named holds have that ended by time, those under it included.
    named_expired: Amount,
    /// See [`Bank::forced`].
    forced: u64,
}

/// A search for money among purses, continued by the next one.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// Where the next one begins.
    cursor: usize,
    at_ms: u64,
}

/// Everything that the bank knows of one purse.
#[derive(Clone, Copy, Debug, Default)]
struct PurseNote {
    /// The open grant; 0 means none.
    grant: u64,
    /// When the worker asked last.
    asked_ms: u64,
    /// When it was last told to give money back.
    recalled_ms: u64,
    /// The grant that it was told to give back and has not; 0 means none.
    recalling: u64,
    /// When it was last filled for asks that waited.
    fed_ms: u64,
    /// When it was last filled.
    filled_ms: u64,
    /// What was sent to it under its grant.
    given: Amount,
    /// What that was when it was last filled for asks that waited.
    called: Amount,
}

impl PurseNote {
    /// Notes money of its grant that is sent to it.
    fn send(&mut self, amount: Amount) {
        self.given = Amount::new(self.given.get().saturating_add(amount.get()));
    }
}

/// The bank. See the crate's page for its part in the whole.
#[derive(Clone, Debug)]
pub struct Bank {
    options: Options,
    run: Run,
    /// When what the start of this run suspended is over, ms since 1970.
    suspended_until_ms: u64,
    now_ms: u64,
    /// See [`Bank::steady`].
    steady_ms: Option<u64>,
    /// See [`Bank::sealing_takes`].
    sealing_ms: u64,
    /// Per worker: no later message of it carries an earlier stamp.
    safe_ms: Vec<u64>,
    budgets: Slots<Budget>,
    slots: BTreeMap<u64, u32>,
    /// Slots of configured budgets that are live, by handle.
    named: BTreeMap<Handle, u32>,
    made: MadeBudgets,
    /// Slot by worker.
    purse_notes: Vec<PurseNote>,
    grants: Grants,
    pages: usize,
    /// Entries of amounts in them.
    amounts: usize,
    keys: TokenKeys,
    answers: Answers,
    claims: Claims,
    memos: Memos,
    named_rows: NamedHolds,
    /// Whole messages, by room.
    kept: [u64; Room::ALL.len()],
    timeline: Timeline,
    hungry: hungry::Hungry,
    counts: Counts,
}

impl Bank {
    /// A bank without budgets, before its first run. Replay records into it if there are any, then
    /// [`Bank::start_run`].
    pub fn new(options: Options) -> Bank {
        assert!((1..=1024).contains(&options.workers), "1 to 1,024 workers");
        Bank {
            run: Run::default(),
            suspended_until_ms: 0,
            now_ms: 0,
            steady_ms: None,
            sealing_ms: 0,
            safe_ms: vec![0; usize::from(options.workers)],
            budgets: Slots::default(),
            slots: BTreeMap::new(),
            named: BTreeMap::new(),
            made: MadeBudgets::default(),
            purse_notes: Vec::new(),
            grants: Grants::default(),
            pages: 0,
            amounts: 0,
            keys: TokenKeys::default(),
            answers: Answers::default(),
            claims: Claims::default(),
            memos: Memos::default(),
            named_rows: NamedHolds::default(),
            kept: [0; Room::ALL.len()],
            timeline: Timeline::default(),
            hungry: hungry::Hungry::default(),
            counts: Counts::default(),
            options,
        }
    }

    /// Begins a run. Money that earlier runs had in purses and holds is suspended until none of those holds
    /// can be alive.
    pub fn start_run(&mut self, now_ms: u64, out: &mut Out) {
        self.now_ms = self.now_ms.max(now_ms);
        (self.timeline, self.hungry) = (Timeline::default(), hungry::Hungry::default());
        let record = Record::RunStarted {
            run: self.run.number + 1,
            at_ms: self.now_ms,
            suspended_until_ms: self.no_hold_is_alive_ms(),
            hold_ms_max: self.options.hold_ms_max,
            billing_ms: self.options.billing_ms,
            win_notices: self.options.win_notices,
            lease_ms: self.options.lease_ms,
            node: cut(&self.options.node, NODE_BYTES_MAX),
        };
        let suspended: Vec<u64> = self.not_yet_suspended().collect();
        self.book(record, out);
        for grant in suspended {
            self.note_suspended(grant, out);
        }
        self.begin_timeline();
    }

    /// From when on no unconfirmed hold of the run before can be alive. Its workers may hold money for as long as their lease lasts,
    /// by clocks that may differ from this one. Those of a run that handed over have stopped: holds end as they say themselves.
    fn no_hold_is_alive_ms(&self) -> u64 {
        let Run { hold_ms_max, lease_ms, handed_over, .. } = self.run;
        let lease_ms = if lease_ms > 0 { lease_ms + self.options.clock_error_ms } else { 0 };
        let over_ms = self.now_ms + lease_ms + hold_ms_max;
        let over_of = |number| self.grants.get(number).map_or(over_ms, |grant| grant.over_ms());
        let grants =
            self.not_yet_suspended().map(|number| over_of(number).clamp(self.now_ms, over_ms));
        if handed_over { grants.max().unwrap_or(self.now_ms) } else { over_ms }
    }

    /// Tells whoever follows the log that this bank is alive.
    pub fn beat(&mut self, out: &mut Out) {
        self.book(Record::Beat { at_ms: self.now_ms }, out);
    }

    /// Ends the run: all workers have stopped, and retired their purses. A purse that is open all the same is suspended by the next run as after
    /// a crash.
    pub fn hand_over(&mut self, out: &mut Out) {
        self.book(Record::Handover { at_ms: self.now_ms }, out);
    }

    /// Records a message about a room; returns how many that are.
    ///
    /// # Errors
    /// It is too long; nothing is recorded.
    pub fn keep(&mut self, room: Room, message: &[u8], out: &mut Out) -> Result<u64, RoomError> {
        room::cut(room, message)?.for_each(|part| self.book(part, out));
        Ok(self.kept(room))
    }

    /// How many messages about a room were recorded.
    pub fn kept(&self, room: Room) -> u64 {
        self.kept[room.index()]
    }

    /// For the trail: what the start of this run suspended in a grant.
    fn note_suspended(&mut self, number: u64, out: &mut Out) {
        let grant = self.grants.get(number).expect("suspended just now");
        let (until_ms, amount) = (grant.over_ms(), grant.out);
        self.book(Record::Suspended { grant: number, until_ms, amount }, out);
    }

    /// Makes tokens with this key from now on. `key` must come from the operating system's randomness.
    ///
    /// # Errors
    /// If a key with this id is in use.
    pub fn add_key(&mut self, key_id: u8, key: KeyBytes, out: &mut Out) -> Result<(), KeyError> {
        if self.keys().iter().any(|known| known.id == key_id) {
            return Err(KeyError::Twice(key_id));
        }
        self.book(Record::KeyAdded { key_id, key, at_ms: self.now_ms }, out);
        Ok(())
    }

    /// Forgets a key that no token within its life can have been made with.
    ///
    /// # Errors
    /// If there is no such key, or it is the one that mints.
    pub fn retire_key(&mut self, key_id: u8, out: &mut Out) -> Result<(), KeyError> {
        self.keys.clone().retire(key_id)?;
        self.book(Record::KeyRetired { key_id }, out);
        Ok(())
    }

    /// The token keys that are not retired, oldest first; the last one mints.
    pub fn keys(&self) -> &[TokenKey] {
        self.keys.all()
    }

    /// Notes who acts on the node, and why: before the step that does it. Texts are cut to
    /// [`crate::OPERATOR_TEXT_MAX`] bytes.
    pub fn note_operator(&mut self, who: &str, why: &str, out: &mut Out) {
        let [who, why] = [who, why].map(|text| cut(text, OPERATOR_TEXT_MAX));
        self.book(Record::Operator { at_ms: self.now_ms, who, why }, out);
    }

    /// Passes over so many numbers of grants: books each as an empty grant that is closed. For a start that goes on from
    /// records before those that were sealed: tokens of holds of the lost grants are then [`wire::Verdict::TooOld`], and never
    /// taken for holds of new ones. Nothing happens where there is no budget, as then no grant was ever made.
    pub fn pass_over(&mut self, numbers: u64, out: &mut Out) {
        let first = self.budgets.configured.first().map(|state| state.spec.id);
        let Some(budget) = first.or_else(|| self.slots.keys().next().copied()) else { return };
        let (amount, at_ms) = (Amount::ZERO, self.now_ms);
        for _ in 0..numbers {
            let grant = self.grants.next_number();
            self.book(Record::Granted { grant, budget, worker: 0, amount, at_ms }, out);
            self.book(Record::GrantClosed { grant }, out);
        }
    }

    /// Notes what somebody edits of a budget: after [`Bank::note_operator`] and before the step that does it. Texts are
    /// cut to [`crate::EDIT_TEXT_MAX`] bytes.
    pub fn note_edit(&mut self, edit: &Edit<'_>, out: &mut Out) {
        let [before, after] = [edit.before, edit.after].map(|text| cut(text, EDIT_TEXT_MAX));
        let Edit { record, budget, action, .. } = *edit;
        self.book(
            Record::Edited { at_ms: self.now_ms, record, budget, action, before, after },
            out,
        );
    }

    /// Takes one message of a worker.
    pub fn step(&mut self, worker: u16, message: ToBank, out: &mut Out) {
        match message {
            ToBank::Want { slot, need } => {
                self.want(worker, slot, need, out);
                self.send_echoes(out);
            }
            ToBank::Lapse { grant, deadline_ms, amount, holds, .. } => {
                if let Some(grant) = self.grants.get_mut(grant) {
                    grant.reported_ms = grant.reported_ms.max(deadline_ms);
                }
                self.timeline.lapse(grant, deadline_ms, (amount, holds));
                self.run_timeline(out);
            }
            ToBank::Retire { slot, grant, free } => self.retired(worker, slot, grant, free, out),
            ToBank::Return { grant, amount } => self.give_back(grant, amount, out),
            ToBank::Resolve { action, hold, amount, at_ms, origin, reply } => {
                let at_ms = self.stamp(worker, at_ms);
                let request = resolve::ResolveRequest { action, hold, amount, at_ms, origin };
                let resolution = self.resolve(request, None, out);
                out.send(worker, ToWorker::Resolved { reply, resolution });
            }
            ToBank::Click { hold, at_ms, origin, reply } => {
                let at_ms = self.stamp(worker, at_ms);
                let resolution = self.clicked(hold, at_ms, origin, out);
                out.send(worker, ToWorker::Resolved { reply, resolution });
            }
            ToBank::Echo { reply } => self.echo(worker, reply, out),
            ToBank::Owner { hold, reply } => {
                let message = self.owner(&hold, reply);
                out.send(worker, message);
            }
            ToBank::Tick { now_ms } => {
                self.stamp(worker, now_ms);
                self.run_timeline(out);
            }
        }
    }

    /// From here on the pauses of fillings and recalls are measured by this clock, which has to be one that never stands still, as
    /// the time of day may (see `probe::NodeClock`). No deadline and no day is judged by it. Without a call of this they are
    /// measured by [`Bank::now_ms`].
    pub fn steady(&mut self, steady_ms: u64) {
        self.steady_ms = Some(steady_ms);
    }

    /// How long a record waits at present until it is sealed. A purse that was filled hears of it only then: until it has had the money
    /// for as long, nobody else calls it back. On a slow disk two workers would take it from each other before either could use it.
    pub fn sealing_takes(&mut self, sealing_ms: u64) {
        self.sealing_ms = sealing_ms;
    }

    fn steady_ms(&self) -> u64 {
        self.steady_ms.unwrap_or(self.now_ms)
    }

    /// Lets the bank's own clock pass: days, flights, replacements. Call it some times per second.
    pub fn tick(&mut self, now_ms: u64, out: &mut Out) {
        self.now_ms = self.now_ms.max(now_ms);
        self.run_timeline(out);
        self.feed_hungry(None, out);
        self.run_due(out);
    }

    /// The slot of a budget: its index in every worker's purses, stable for the run.
    pub fn slot(&self, id: u64) -> Option<u32> {
        self.slots.get(&id).copied()
    }

    /// The number of slots of configured budgets. Those of budgets made on their first ask are [`Bank::made_slots`].
    pub fn slots(&self) -> usize {
        self.budgets.configured.len()
    }

    /// How many of the holds of this run, of the budget itself, are expired: their time is over, and nobody settled or
    /// released them within it. A confirmed hold has the longer time of its billing window. One that is settled afterwards
    /// stays counted, as late; but where expired money is kept ([`crate::OnExpiry::Hold`]) it is settled or released as if
    /// in time, and no longer counted. No part of the state: a replay knows nothing of it.
    pub fn expired_holds(&self, slot: u32) -> u64 {
        self.budget(slot).expired_holds
    }

    /// Were the holds of this grant made in the run that is live?
    pub fn is_of_run(&self, grant: u64) -> bool {
        self.timeline.is_live() && grant >= self.timeline.first_grant()
    }

    /// The books of the budget in a slot.
    pub fn books(&self, slot: u32) -> &Books {
        &self.budget(slot).books
    }

    /// The configuration of the budget in a slot.
    pub fn spec(&self, slot: u32) -> &BudgetSpec {
        &self.budget(slot).spec
    }

    /// The civil day of the budget and what of it is used: spent, held and handed out on that day.
    pub fn day(&self, slot: u32) -> (Window, Amount) {
        let budget = self.budget(slot);
        (budget.day, budget.day_used())
    }

    /// Each window of the budget itself, the shortest first: its limit, what of it is used at the bank's present, and the first
    /// instant after it; of a bucket the present.
    pub fn windows(&self, slot: u32) -> impl Iterator<Item = (WindowLimit, Amount, u64)> {
        let (budget, now_ms) = (self.budget(slot), self.now_ms);
        budget.windows().map(move |(window, used)| match window.is_day() {
            true => (*window, budget.day_used(), budget.day.end.ms()),
            false if window.is_bucket() => (*window, window.used_at(used, now_ms), now_ms),
            false => (*window, window.used_at(used, now_ms), used.until_ms),
        })
    }

    /// What of the present day's money stands on a line.
    pub fn day_line(&self, slot: u32, line: Line) -> Amount {
        self.budget(slot).day_lines[line as usize]
    }

    /// What the records say of holds of the budget, and of those under it, that are over.
    pub fn evidence(&self, slot: u32) -> LedgerEvidence {
        self.budget(slot).evidence
    }

    /// What may still be handed out to workers: the least, over the budget and its parents, of what is free beside the
    /// reserve for late settles and of what is left of the present windows, with what their owners tolerate
    /// of expired money. Below zero after debts. Whether the budget is active and in its flight is not asked.
    pub fn available(&self, slot: u32) -> Amount {
        let now_ms = self.now_ms;
        let levels = self.chain(slot).map(|level| self.budget(level).available(now_ms));
        levels.min().unwrap_or(Amount::ZERO)
    }

    /// The slot of the budget that a hold was reserved from; `None` where nothing is known of its grant any more.
    pub fn slot_of(&self, hold: &crate::Hold) -> Option<u32> {
        self.grants.get(hold.grant).map(|grant| grant.slot)
    }

    /// Slots in the order of budget ids, from this id on.
    pub fn slots_from(&self, id: u64) -> impl Iterator<Item = (u64, u32)> {
        self.slots.range(id..).map(|(id, slot)| (*id, *slot))
    }

    /// What is in confirmed holds of the budget and of those under it: the line `Held` without the rests of settled holds, which come back
    /// unless a higher price comes.
    pub fn confirmed(&self, slot: u32) -> Amount {
        let budget = self.budget(slot);
        minus(budget.books.line(Line::Held), budget.rests)
    }

    /// What is in unconfirmed holds of the budget and of those under it; the rest of the line `Purses` is
    /// unreserved. `reported` says for a slot what the workers' purses hold (see [`crate::Purses::held`]). What lies with
    /// budgets under it that were made on their first ask counts as unreserved: they may be many.
    pub fn unconfirmed(&self, slot: u32, reported: &impl Fn(u32) -> Amount) -> Amount {
        let budget = self.budget(slot);
        let resolved = Amount::new(i64::try_from(budget.resolved_early).unwrap_or(i64::MAX));
        let open = minus(reported(slot), resolved).max(Amount::ZERO);
        let own = plus(open, budget.retired_out);
        let below = budget.children.iter().map(|child| self.unconfirmed(*child, reported));
        below.fold(own, plus).min(budget.books.line(Line::Purses))
    }

    /// The latest instant that the bank has seen; after a replay, that its records name. A worker's clock must
    /// not start before it: its requests would be judged by this instant, not by its clock.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Number of this run.
    pub fn run(&self) -> u32 {
        self.run.number
    }

    /// Did this run end with [`Bank::hand_over`]?
    pub fn is_handed_over(&self) -> bool {
        self.run.handed_over
    }

    /// Counters.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Grants that are open, retired or suspended but not yet closed.
    pub fn grants(&self) -> usize {
        self.grants.len()
    }

    /// The most that can be booked as spent in one budget, debts included: four times the largest limit. Up
    /// to here no balance can overflow; a settle beyond it is refused with `BadAmount`.
    pub const SPENT_MAX: Amount = Amount::new(4 * money::LIMIT_MAX.get());

    /// The last instant, and the longest span, that may be in a record: far beyond any real one, and so far below
    /// the largest u64 that no sum of some of them can overflow.
    pub(crate) const MS_MAX: u64 = Instant::MAX.ms();

    /// All lines of the books, in the order of a statement.
    pub const LINES: [Line; LINES] = [
        Line::Free,
        Line::Purses,
        Line::Held,
        Line::Suspended,
        Line::Expired,
        Line::Settled,
        Line::OverSettled,
        Line::Late,
        Line::Inferred,
        Line::UnknownOrder,
    ];

    fn budget(&self, slot: u32) -> &Budget {
        &self.budgets[slot as usize]
    }

    /// The budget and its parents, from the bottom up.
    fn chain(&self, slot: u32) -> impl DoubleEndedIterator<Item = u32> + use<> {
        let budget = self.budget(slot);
        let (chain, levels) = (budget.chain, budget.levels);
        (0..levels).map(move |level| chain[level])
    }

    fn purse_note_mut(&mut self, slot: u32, worker: u16) -> &mut PurseNote {
        let (workers, worker) = (usize::from(self.options.workers), usize::from(worker));
        match slot.checked_sub(MADE_SLOT) {
            None => &mut self.purse_notes[slot as usize * workers + worker],
            Some(made) => &mut self.made.purse_notes[made as usize * workers + worker],
        }
    }

    fn book(&mut self, record: Record, out: &mut Out) {
        if let Err(error) = self.apply(&record) {
            panic!("the bank made a record that does not fit its own state: {error}");
        }
        out.records.push(record);
    }

    /// Notes a worker's stamp; a stamp that went back counts as the last one.
    fn stamp(&mut self, worker: u16, at_ms: u64) -> u64 {
        let safe = &mut self.safe_ms[usize::from(worker)];
        if at_ms < *safe {
            self.counts.clock_back += 1;
        }
        *safe = (*safe).max(at_ms);
        self.now_ms = self.now_ms.max(*safe);
        *safe
    }
}

impl Budget {
    /// What of the day's limit is used: everything handed out on that day that did not come back.
    fn day_used(&self) -> Amount {
        self.day_lines.iter().fold(Amount::ZERO, |sum, line| plus(sum, *line))
    }

    /// What this budget alone could hand out.
    fn available(&self, now_ms: u64) -> Amount {
        let left = self.windows().map(|(window, used)| self.left_of(window, used, now_ms));
        left.fold(self.left_of_life(), Amount::min)
    }

    /// The rest of its limit.
    fn left_of_life(&self) -> Amount {
        let free = minus(self.books.line(Line::Free), self.late_reserve());
        plus(free, self.tolerated(self.books.line(Line::Expired), self.spec.limit))
    }

    /// What its purses, and those of the budgets under it, would give back at most if they were all emptied: what is out under
    /// grants that are not retired. Part of it is in holds, of which the bank hears when a grant is retired.
    fn in_purses(&self) -> Amount {
        minus(self.books.line(Line::Purses), self.retired_below)
    }

    /// The rest of one of its windows. Only the day tolerates expired money: a week or month makes up for days that exceed
    /// their target, and a shorter one is over before anything expires.
    fn left_of(&self, window: &WindowLimit, used: &WindowUse, now_ms: u64) -> Amount {
        if !window.is_day() {
            return minus(window.limit, window.used_at(used, now_ms));
        }
        let tolerated = self.tolerated(self.day_lines[Line::Expired as usize], window.limit);
        plus(minus(window.limit, self.day_used()), tolerated)
    }

    /// What may be handed out under a limit although so much of it is expired: what experience presumes unspent, as
    /// far as the owner tolerates it.
    fn tolerated(&self, expired: Amount, limit: Amount) -> Amount {
        if self.spec.tolerance_ppm == 0 || expired == Amount::ZERO {
            return Amount::ZERO;
        }
        let most = part_of(limit, self.spec.tolerance_ppm, TOLERANCE_PPM_MAX);
        self.evidence.presumed_unspent(expired).min(most)
    }

    fn late_reserve(&self) -> Amount {
        let kept = part_of(self.spec.limit, self.spec.late_reserve_bp.into(), 10_000);
        minus(kept, self.books.debts()).max(Amount::ZERO)
    }
}

/// So many of `all` equal parts of a limit; rounded down.
fn part_of(limit: Amount, parts: u32, all: u32) -> Amount {
    let part = i128::from(limit.get()) * i128::from(parts) / i128::from(all);
    Amount::new(i64::try_from(part).expect("a part of a limit"))
}
