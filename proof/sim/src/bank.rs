//! The bank's thread: it takes what workers say, gives the journal what changes, and tells workers what follows from
//! it once that is sealed. As `crates/weir-node/src/bank/mod.rs`, a turn at a time.

use ledger::{Claimed, Door, KeyBytes, Keyed, Out, Resolution, ToBank, ToWorker, Verdict};

use crate::Bug;
use crate::journal::Held;
use crate::orders::ORDERS;
use crate::planted::top_up_in_full;
use crate::world::{Down, Up, World, request_index};

impl World {
    /// Takes some messages of each worker.
    pub(crate) fn bank_turn(&mut self) {
        let mut out = Out::default();
        let refuse = self.journal.is_failing() || self.journal.is_full();
        for index in 0..self.workers.len() {
            for _ in 0..self.rng.below(30) {
                let Some(message) = self.workers[index].to_bank.pop_front() else { break };
                match message {
                    Up::Ledger(ToBank::Resolve { reply, .. } | ToBank::Click { reply, .. })
                    | Up::Keyed(Keyed::Resolve { reply, .. } | Keyed::Keep { reply, .. })
                        if refuse =>
                    {
                        self.refuse(index, reply);
                    }
                    Up::Keyed(Keyed::Memo(request)) if refuse => {
                        self.refuse_memo(index, request.reply);
                    }
                    message => self.bank_step(index, message, &mut out),
                }
            }
        }
        let first = out.messages.len();
        self.bank.tick(self.now_ms, &mut out);
        self.check_noes(&mut out, first);
        self.append(&mut out);
        self.journal.turn();
        self.tell_failure();
    }

    fn bank_step(&mut self, index: usize, mut message: Up, out: &mut Out) {
        if let (Up::Ledger(ToBank::Resolve { origin, .. }), Some(Bug::DropTopUps)) =
            (&mut message, self.bug)
        {
            origin.door = Door::Batch;
        }
        let worker = u16::try_from(index).expect("few workers");
        if let Up::Ledger(ToBank::Resolve { reply, .. })
        | Up::Keyed(
            Keyed::Resolve { reply, .. } | Keyed::Keep { reply, .. } | Keyed::Claim { reply, .. },
        ) = message
        {
            let stamp = match reply >= ORDERS {
                true => self.orders.stamp(reply),
                false => &mut self.requests[request_index(reply)].at_ms,
            };
            *stamp = self.workers[index].judged(*stamp);
            if reply < ORDERS {
                let request = self.requests[request_index(reply)];
                self.oracle.holds[request.hold].judged(request.at_ms);
            }
        }
        if let Up::Ledger(ToBank::Click { at_ms, .. }) = message {
            // Its stamp counts for whatever its worker says later.
            self.workers[index].judged(at_ms);
        }
        let first = out.messages.len();
        match message {
            Up::Ledger(message) => self.bank.step(worker, message, out),
            Up::Keyed(Keyed::Memo(request)) => self.step_memo(index, *request, out),
            Up::Keyed(message) => self.bank.step_keyed(worker, message, out),
        }
        self.check_noes(out, first);
        self.hold_memos(out);
        // A claim waits for no record, but a first answer waits for its own.
        for (worker, reply, claimed) in std::mem::take(&mut out.claimed) {
            let worker = usize::from(worker);
            if matches!(claimed, Claimed::Answer { .. }) {
                self.append(out);
                self.journal.hold(Held::Claimed(worker, reply, claimed));
            } else {
                self.workers[worker].to_worker.push_back(Down::Claimed(reply, claimed));
            }
        }
    }

    /// Nothing that waits to be sealed may grow without end.
    fn refuse(&mut self, index: usize, reply: u64) {
        let resolution = Resolution::refused(Verdict::Journal);
        let answer = ToWorker::Resolved { reply, resolution };
        self.workers[index].to_worker.push_back(Down::Ledger(answer));
        let failing = self.journal.is_failing();
        self.stats.one(if failing { "refused: journal fails" } else { "refused: journal full" });
    }

    /// Workers stop granting at once when the disk fails, and go on when it works.
    fn tell_failure(&mut self) {
        let failing = self.journal.is_failing();
        if failing != std::mem::replace(&mut self.journal.told_failing, failing) {
            for worker in &mut self.workers {
                worker.to_worker.push_back(Down::JournalFails(failing));
            }
        }
    }

    /// Gives the journal what the bank did.
    pub(crate) fn append(&mut self, out: &mut Out) {
        if self.bug == Some(Bug::TopUpInFull) {
            out.records.iter_mut().for_each(top_up_in_full);
        }
        let mut records = self.journal.append(out, &self.bank);
        for handle in out.ended.drain(..) {
            self.journal.hold(Held::Ended(handle));
        }
        self.oracle.read(&records);
        self.note_rolled(&records);
        self.model.records.append(&mut records);
    }

    /// What waited for the records that are sealed by now goes out.
    pub(crate) fn deliver(&mut self) {
        let early = self.bug == Some(Bug::AnswerBeforeSeal);
        while let Some(held) = self.journal.next_held(early) {
            match held {
                Held::Down(worker, message) => {
                    self.workers[worker].to_worker.push_back(Down::Ledger(message));
                }
                Held::Claimed(worker, reply, claimed) => {
                    self.workers[worker].to_worker.push_back(Down::Claimed(reply, claimed));
                }
                Held::Memo(worker, reply, answer) => {
                    self.workers[worker].to_worker.push_back(Down::Memo(reply, answer));
                }
                Held::Opened(worker, template, slot) => {
                    self.workers[worker].to_worker.push_back(Down::Opened(template, slot));
                }
                Held::Ended(handle) => {
                    for worker in &mut self.workers {
                        worker.to_worker.push_back(Down::Ended(handle.clone()));
                    }
                }
                Held::Named(message, done, changes) => self.named_sealed(message, done, changes),
                Held::Timed(told) => {
                    let heard = self.timed_told(told);
                    self.false_no = self.false_no.take().or(heard.err());
                }
                Held::Key(key) => self.keys.push(key),
                Held::Change(kept) => self.changes_told = kept,
            }
        }
    }

    pub(crate) fn add_key(&mut self, id: u8, out: &mut Out) {
        let key = [self.rng.next().to_le_bytes(), self.rng.next().to_le_bytes()].concat();
        let key = KeyBytes(key.try_into().expect("16 bytes"));
        self.bank.add_key(id, key, out).expect("its id is not in use");
        self.append(out);
        self.journal.hold(Held::Key(*self.bank.keys().last().expect("just added")));
    }

    /// Tokens are made with a new key; the oldest one is forgotten.
    pub(crate) fn rotate_key(&mut self) {
        if self.bank.keys().last().is_none_or(|newest| !self.keys.contains(newest)) {
            // Keys change seldom: the last one is long sealed.
            return;
        }
        let mut out = Out::default();
        let [oldest, .., newest] = *self.bank.keys() else {
            return self.add_key(2, &mut out);
        };
        if self.bank.keys().len() > 3 {
            self.stats.one("token key retired");
            self.keys.retain(|key| *key != oldest);
            self.bank.retire_key(oldest.id, &mut out).expect("it does not mint");
        }
        self.add_key(newest.id.wrapping_add(1), &mut out);
    }
}
