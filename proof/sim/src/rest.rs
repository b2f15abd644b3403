//! The end of a run: faults stop, everything comes to rest, and all money is accounted for.

use ledger::{Amount, Line, Status};

use crate::files::Crash;
use crate::journal::NODE;
use crate::planted::NodeFolder;
use crate::world::World;

impl World {
    /// Faults stop, every budget is paused, clients get their answers, every deadline passes.
    pub(crate) fn rest(&mut self) -> Result<(), String> {
        self.calm = true;
        self.end_faults();
        self.zombies.clear();
        self.end_engine_faults()?;
        self.journal.sealer_mut().stuck_until_ms = 0;
        for spec in &mut self.specs {
            spec.status = Status::Paused;
        }
        self.configure();
        self.seal_all()?;
        for second in 0..60 {
            if second < 10 {
                self.repeat_all();
            }
            if second < 20 {
                self.rest_named()?;
            }
            for index in 0..self.workers.len() {
                self.workers_rest(index)?;
            }
            while self.workers.iter().any(|worker| !worker.to_bank.is_empty()) {
                self.bank_turn();
                self.seal_all()?;
            }
            self.deliver();
            if second == 50 {
                self.check_expired()?;
                self.reconcile_until(None, self.now_ms);
            }
            self.now_ms += if second < 10 { 1 } else { 1_000 };
        }
        self.stats.bank(self.bank.counts());
        self.stats.records(&self.model.records, &self.bank);
        self.stats.faults(&self.disk.faults());
        self.bank.audit()?;
        self.check_rest()?;
        self.check_last_recovery()
    }

    /// The writer comes back by itself, and seals all there is.
    pub(crate) fn seal_all(&mut self) -> Result<(), String> {
        for _ in 0..3 {
            self.journal.turn();
            self.writer_turn()?;
        }
        match self.journal.is_sealed() && !self.journal.is_failing() {
            true => Ok(()),
            false => Err("the disk works, and not everything is sealed".into()),
        }
    }

    /// What is expired is what nobody spoke of, to the unit; after a crash perhaps more.
    fn check_expired(&self) -> Result<(), String> {
        let sums = self.oracle.expired(&self.model.records);
        let timed = self.timed_sums();
        for spec in &self.specs {
            let Some(slot) = self.bank.slot(spec.id) else { continue };
            let expired = i128::from(self.bank.books(slot).line(Line::Expired).get());
            let (least, most) = sums.get(&spec.id).copied().unwrap_or_default();
            let left = self.left_of_orders(spec.id);
            let timed = timed.get(&spec.id).map_or(0, |sums| sums.expired);
            let most = if self.bank.run() == 1 { most + left } else { i128::MAX };
            if !(least + timed..=most.saturating_add(timed)).contains(&expired) {
                let id = spec.id;
                return Err(format!("budget {id}: {expired} expired, expected {least} to {most}"));
            }
        }
        Ok(())
    }

    /// No money is anywhere but free or spent, and what is spent is what clients were told, to the unit.
    fn check_rest(&mut self) -> Result<(), String> {
        let spent = self.oracle.spent(&self.model.records, self.narrow)?;
        let timed = self.timed_sums();
        for spec in &self.specs {
            let books =
                self.bank.slot(spec.id).map(|slot| *self.bank.books(slot)).unwrap_or_default();
            for line in [Line::Purses, Line::Held, Line::Suspended, Line::Expired] {
                if books.line(line) != Amount::ZERO {
                    return Err(format!("budget {}: money left behind: {books:?}", spec.id));
                }
            }
            let booked = i128::from(books.spent().get());
            let told = spent.get(&spec.id).copied().unwrap_or(0);
            let told = told + self.door.as_ref().map_or(0, |door| door.books.spent(spec.id));
            let told = told + timed.get(&spec.id).map_or(0, |sums| sums.spent);
            if told != booked {
                return Err(format!("budget {}: clients know of {told}, {booked} booked", spec.id));
            }
        }
        self.check_made(|number| spent.get(&number).copied().unwrap_or(0))?;
        if let Some(door) = &self.door {
            door.check_rest(|id| self.chain(id))?;
        }
        self.check_timed()?;
        self.fold()?;
        self.check_figures(&spent)?;
        if self.bank.grants() != 0 {
            return Err(format!("{} grants never closed", self.bank.grants()));
        }
        Ok(())
    }

    /// After a last power cut everything is there.
    fn check_last_recovery(&mut self) -> Result<(), String> {
        self.disk.crash(Crash::Power);
        let folder = NodeFolder::new(self.disk.clone(), self.bug);
        let recovered = ledger_journal::recover(&folder, &self.options, NODE, &mut |_| {});
        let recovered = recovered.map_err(|error| format!("the last recovery: {error}"))?;
        if self.plain() && recovered.bank.digest() != self.bank.digest() {
            return Err("the last state recovered differs from the live one".into());
        }
        Ok(())
    }
}
