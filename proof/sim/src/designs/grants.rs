//! Ours: the ledger as it is, one node with a worker for each of the market's nodes. A crash takes the whole node:
//! the bank and every worker.

use std::collections::VecDeque;
use std::ops::Range;

use ledger::{
    Action, Amount, Bank, BudgetSpec, Door, KeyRing, Line, OnExpiry, Options, Origin, Out,
    PurseOptions, Purses, Record, ToBank, ToWorker, Token, Verdict, token,
};
use money::{Instant, Unit};

use super::{Ack, Bid, Design, Moment, NODES, Notice, Statement};

/// From a record's appending to its seal.
const SEAL_MS: u64 = 4;
const DAY_MS: u64 = 86_400_000;

/// A journal that seals after some milliseconds.
#[derive(Default)]
struct GrantJournal {
    sealed: Vec<Record>,
    unsealed: VecDeque<(u64, Record)>,
    /// Messages with the number of records that must be sealed before they may go out.
    waiting: VecDeque<(usize, u16, ToWorker)>,
}

impl GrantJournal {
    fn append(&mut self, out: Out, now_ms: u64) {
        let due_ms = now_ms + SEAL_MS;
        self.unsealed.extend(out.records.into_iter().map(|record| (due_ms, record)));
        let needed = self.sealed.len() + self.unsealed.len();
        let messages = out.messages.into_iter();
        self.waiting.extend(messages.map(|(worker, message)| (needed, worker, message)));
    }

    fn seal(&mut self, now_ms: u64) {
        while let Some((_, record)) = self.unsealed.pop_front_if(|(due_ms, _)| *due_ms <= now_ms) {
            self.sealed.push(record);
        }
    }

    fn next_message(&mut self) -> Option<(u16, ToWorker)> {
        let sealed = self.sealed.len();
        let next = self.waiting.pop_front_if(|(needed, ..)| *needed <= sealed)?;
        Some((next.1, next.2))
    }

    /// Of what was not sealed, half happens to be on disk.
    fn crash(&mut self) {
        let kept = self.unsealed.len() / 2;
        self.sealed.extend(self.unsealed.drain(..kept).map(|(_, record)| record));
        self.unsealed.clear();
        self.waiting.clear();
    }
}

struct GrantWorker {
    purses: Purses,
    inbox: VecDeque<ToWorker>,
}

/// The ledger, its journal and its workers.
pub(super) struct Grants {
    options: Options,
    purse_options: PurseOptions,
    bank: Bank,
    journal: GrantJournal,
    workers: Vec<GrantWorker>,
    slots: Vec<u32>,
    ring: KeyRing,
    /// What the world has in its notice addresses, by bid.
    tokens: Vec<Token>,
}

impl Grants {
    pub(super) fn new(limits: &[i64], hold_ms: u64, now_ms: u64) -> Grants {
        let purse_options = PurseOptions { node: 1, hold_ms };
        let options = Options {
            workers: u16::try_from(NODES).expect("few"),
            hold_ms_max: purse_options.hold_ms_max(),
            billing_ms: 60_000,
            ..Options::default()
        };
        let mut grants = Grants {
            bank: Bank::new(options.clone()),
            options,
            purse_options,
            journal: GrantJournal::default(),
            workers: Vec::new(),
            slots: Vec::new(),
            ring: KeyRing::new(1, 1, [7; 16]),
            tokens: Vec::new(),
        };
        let specs: Vec<BudgetSpec> =
            (1..).zip(limits).map(|(id, limit)| spec(id, *limit, now_ms)).collect();
        let mut out = Out::default();
        grants.bank.start_run(now_ms, &mut out);
        grants.bank.configure(&specs, &mut out).expect("sound budgets");
        grants.journal.append(out, now_ms);
        let slot = |spec: &BudgetSpec| grants.bank.slot(spec.id).expect("configured");
        grants.slots = specs.iter().map(slot).collect();
        grants.start_workers();
        grants
    }

    fn start_workers(&mut self) {
        let (options, slots) = (self.purse_options, self.bank.slots());
        let worker =
            |_| GrantWorker { purses: Purses::new(options, slots), inbox: VecDeque::new() };
        self.workers = (0..NODES).map(worker).collect();
    }

    fn worker_turn(&mut self, node: usize, moment: &mut Moment<'_>) {
        let worker = &mut self.workers[node];
        while let Some(message) = worker.inbox.pop_front() {
            match message {
                ToWorker::Resolved { reply, resolution } => {
                    answer(reply, resolution.verdict, moment);
                }
                message => worker.purses.take(message, moment.now_ms),
            }
        }
        worker.purses.turn(moment.now_ms);
        worker.purses.tick(moment.now_ms);
    }
}

fn spec(id: u64, limit: i64, now_ms: u64) -> BudgetSpec {
    BudgetSpec {
        start: Instant::from_ms(now_ms - DAY_MS),
        end: Instant::from_ms(now_ms + DAY_MS),
        on_expiry: OnExpiry::Release,
        ..BudgetSpec::plain(id, Unit::parse("USD").expect("a currency"), Amount::new(limit))
    }
}

/// An acknowledgement goes back to the exchange, unless the bank asked for patience or could not book it.
fn answer(reply: u64, verdict: Verdict, moment: &mut Moment<'_>) {
    let notice = if reply.is_multiple_of(2) { Notice::Won } else { Notice::Billed };
    let bid = usize::try_from(reply / 2).expect("fits");
    if !matches!(verdict, Verdict::Busy | Verdict::BadAmount | Verdict::TooOld) {
        moment.acks.push(Ack { bid, notice, late: verdict == Verdict::SettledLate });
    }
}

impl Design for Grants {
    fn ask(&mut self, bid: &Bid, moment: &mut Moment<'_>) -> bool {
        let purses = &mut self.workers[bid.node].purses;
        let at = purses.at(moment.now_ms);
        let amount = Amount::new(bid.amount);
        let Ok(hold) = purses.reserve(self.slots[bid.budget], amount, at) else { return false };
        let mut tokens = [[0; token::TOKEN_LEN]];
        self.ring.write(&hold, &mut tokens[0]);
        self.ring.seal(&mut tokens, &[0], |token| token);
        assert_eq!(self.tokens.len(), bid.id, "a bid that goes out has a token");
        self.tokens.extend(tokens);
        true
    }

    fn notice(&mut self, bid: &Bid, notice: Notice, price: i64, moment: &mut Moment<'_>) {
        let (action, amount) = match notice {
            Notice::Won => (Action::Confirm, 0),
            Notice::Billed => (Action::Settle, price),
        };
        self.workers[bid.node].purses.send(ToBank::Resolve {
            action,
            hold: self.ring.open(&self.tokens[bid.id]).expect("a token of ours"),
            amount: Amount::new(amount),
            at_ms: moment.now_ms,
            origin: Origin { door: Door::Openrtb, request_id: bid.id as u64 },
            reply: bid.id as u64 * 2 + u64::from(notice == Notice::Billed),
        });
    }

    fn pass(&mut self, moment: &mut Moment<'_>) {
        let mut out = Out::default();
        for node in 0..NODES {
            self.worker_turn(node, moment);
            while moment.linked[node]
                && let Some(message) = self.workers[node].purses.next_message()
            {
                self.bank.step(u16::try_from(node).expect("few"), message, &mut out);
            }
        }
        self.bank.tick(moment.now_ms, &mut out);
        self.journal.append(out, moment.now_ms);
        self.journal.seal(moment.now_ms);
        while let Some((worker, message)) = self.journal.next_message() {
            self.workers[usize::from(worker)].inbox.push_back(message);
        }
    }

    fn crash(&mut self, node: usize, moment: &mut Moment<'_>) -> Range<usize> {
        // One process, so it dies as often as one node of the others.
        if node != 0 {
            return 0..0;
        }
        self.journal.crash();
        self.bank = Bank::new(self.options.clone());
        for record in &self.journal.sealed {
            self.bank.replay(record).expect("what was sealed replays");
        }
        let mut out = Out::default();
        self.bank.start_run(moment.now_ms, &mut out);
        self.bank.open_all(&mut out);
        self.journal.append(out, moment.now_ms);
        self.start_workers();
        for (budget, slot) in self.slots.iter().enumerate() {
            let books = self.bank.books(*slot);
            let [free, suspended] =
                [Line::Free, Line::Suspended].map(|line| books.line(line).get());
            let text = || format!("crashes, all with it: {free} free, {suspended} suspended");
            moment.note(node, budget, text);
        }
        0..NODES
    }

    fn statement(&self, budget: usize) -> Statement {
        let slot = self.slots[budget];
        let books = self.bank.books(slot);
        let sum = |lines: &[Line]| -> i128 {
            lines.iter().map(|line| i128::from(books.line(*line).get())).sum()
        };
        Statement {
            spent: i128::from(books.spent().get()),
            late: sum(&[Line::OverSettled, Line::Late]),
            aside: sum(&[Line::Purses, Line::Held, Line::Suspended]),
            idle: self
                .workers
                .iter()
                .map(|worker| i128::from(worker.purses.free(slot).get()))
                .sum(),
        }
    }

    fn is_exact(&self) -> bool {
        true
    }
}
