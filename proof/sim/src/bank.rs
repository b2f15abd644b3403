//! The bank's thread: it takes what workers say, gives the journal what changes, and tells workers what follows from
//! it once that is sealed. As `crates/weir-node/src/bank/mod.rs`, a turn at a time.

use ledger::{KeyBytes, Out, ToBank, ToWorker, Verdict};

use crate::Bug;
use crate::journal::Held;
use crate::world::{Down, World, request_index};

impl World {
    /// Takes some messages of each worker.
    pub(crate) fn bank_turn(&mut self) {
        let mut out = Out::default();
        let refuse = self.journal.is_failing() || self.journal.is_full();
        for index in 0..self.workers.len() {
            for _ in 0..self.rng.below(30) {
                let Some(message) = self.workers[index].to_bank.pop_front() else { break };
                match message {
                    ToBank::Resolve { reply, .. } if refuse => self.refuse(index, reply),
                    message => {
                        if let ToBank::Resolve { reply, .. } = message {
                            let request = &mut self.requests[request_index(reply)];
                            request.at_ms = self.workers[index].judged(request.at_ms);
                        }
                        let worker = u16::try_from(index).expect("few workers");
                        self.bank.step(worker, message, &mut out);
                    }
                }
            }
        }
        self.bank.tick(self.now_ms, &mut out);
        self.append(&mut out);
        self.journal.turn();
        self.tell_failure();
    }

    /// Nothing that waits to be sealed may grow without end.
    fn refuse(&mut self, index: usize, reply: u64) {
        let verdict = Verdict::Journal;
        let answer = ToWorker::Resolved { reply, verdict, repeat: false };
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
        let mut records = self.journal.append(out, self.bank.now_ms());
        self.oracle.read(&records);
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
                Held::Key(key) => self.keys.push(key),
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
