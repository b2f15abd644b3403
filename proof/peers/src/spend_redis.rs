//! The same reserve and settle at Redis, for the tables of the spend door: a script that checks and decrements, called by its hash, on a
//! server that syncs its append-only file before it answers, on core 0 like the node's worker.

use std::time::{Duration, Instant};

use probe::compare::median;

use crate::redis::{Server, Settings};
use crate::settling::DAY;
use crate::web::Caller;

/// The thread that runs its commands, and syncs.
pub const THREAD: &str = "redis-server";
/// An ask, in millionths: what the node is asked for.
const AMOUNT: &str = "15";
const PRICE: &str = "10";
/// How long Redis keeps a reservation.
const LIFETIME_MS: &str = "60000";

/// A Redis of our own with funded budgets, and how many reservations were asked of it.
pub struct Counters {
    server: Server,
    budgets: usize,
    asked: u64,
}

impl Counters {
    /// Starts one.
    pub fn start(budgets: usize) -> Result<Counters, String> {
        let settings = Settings { budgets, core: Some(0), ..Settings::default() };
        Ok(Counters { server: Server::start(settings)?, budgets, asked: 0 })
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.server.id()
    }

    /// A connection to it.
    pub fn connect(&self) -> Result<Caller, String> {
        Caller::connect(([127, 0, 0, 1], self.server.port()).into())
    }

    /// The next reservation: each has a name of its own, and budgets take turns.
    pub fn reserve(&mut self) -> Vec<u8> {
        self.asked += 1;
        let (budget, hold) = self.keys();
        let [reserve, _] = self.server.scripts();
        let deadline = self.asked.to_string();
        let keys = ["EVALSHA", reserve, "3", &budget, &hold, "deadlines"];
        command(&[&keys[..], &[AMOUNT, &DAY.to_string(), &deadline, LIFETIME_MS]].concat())
    }

    /// The settlement of the last reservation.
    fn settle(&self) -> Vec<u8> {
        let (budget, hold) = self.keys();
        let [_, settle] = self.server.scripts();
        let day = DAY.to_string();
        command(&["EVALSHA", settle, "3", &budget, &hold, "deadlines", PRICE, &day])
    }

    fn keys(&self) -> (String, String) {
        let budget = self.asked % self.budgets as u64 + 1;
        (format!("budget:{budget}"), format!("ask:{}", self.asked))
    }

    /// Reserves and settles, one after the other; the middle time of a settlement, us.
    pub fn p50_of_settles(
        &mut self,
        caller: &mut Caller,
        count: usize,
        pause: Duration,
    ) -> Result<f64, String> {
        let mut times_us = Vec::with_capacity(count);
        for _ in 0..count {
            std::thread::sleep(pause);
            caller.send(&self.reserve())?;
            let mut refused = caller.integers(1)?;
            let (settle, began) = (self.settle(), Instant::now());
            caller.send(&settle)?;
            refused += caller.integers(1)?;
            times_us.push(began.elapsed().as_secs_f64() * 1e6);
            if refused > 0 {
                return Err("Redis refused a reservation or its settlement".into());
            }
        }
        Ok(median(times_us))
    }
}

/// A command as Redis's protocol has it: an array of texts with their lengths.
fn command(parts: &[&str]) -> Vec<u8> {
    let part = |part: &&str| format!("${}\r\n{part}\r\n", part.len());
    let parts_text: String = parts.iter().map(part).collect();
    format!("*{}\r\n{parts_text}", parts.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_counts_its_parts_and_their_bytes() {
        assert_eq!(command(&["GET", "a"]), b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n");
    }
}
