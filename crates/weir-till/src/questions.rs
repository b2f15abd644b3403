//! Clients' questions that wait for the bank. An answer is large, so their number is bounded; but a client that asks one thing at
//! a time is never refused, however much others ask.

use std::collections::{HashMap, VecDeque};

use money::{Amount, Unit};
use wire::Reason;

use crate::books::{BookLine, Totals};

/// Questions that may wait for the bank beyond the first of each connection, of all connections of a worker.
const SHARED_MAX: usize = 64;

/// What a client wants to know from the bank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Question {
    /// The books of budgets.
    Books {
        /// Number of the frame to answer to.
        frame: u64,
        /// The least id wanted.
        from: u64,
        /// Budgets wanted.
        max: u16,
    },
    /// The counters.
    Totals {
        /// Number of the frame to answer to.
        frame: u64,
    },
    /// Where the budget with this id stands, whichever workers have met it.
    Budget(u64),
    /// Where the budget with this handle stands. None is made for it.
    Handle(Box<str>),
}

/// What a client asked to know.
#[derive(Debug)]
pub enum Answer {
    /// The books of budgets.
    Books {
        /// Number of the frame that asked.
        frame: u64,
        /// When, ms since 1970.
        now_ms: u64,
        /// There are budgets behind these.
        more: bool,
        /// One of each budget, by id.
        lines: Vec<BookLine>,
    },
    /// The counters.
    Totals {
        /// Number of the frame that asked.
        frame: u64,
        /// When, ms since 1970.
        now_ms: u64,
        /// They.
        totals: Totals,
    },
    /// Where one budget stands; `None`: there is none of this name.
    Budget(Option<Box<BudgetStanding>>),
}

/// Where a budget stands, for display: money moves while it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetStanding {
    /// Its number.
    pub id: u64,
    /// Its text name, if it has one.
    pub handle: Option<Box<str>>,
    /// What people call it.
    pub name: Box<str>,
    /// What its amounts count.
    pub unit: Unit,
    /// What it may spend in its life.
    pub limit: Amount,
    /// What is left of its narrowest window and of its parents; never below 0.
    pub available: Amount,
    /// What is set aside.
    pub held: Amount,
    /// All that is booked, over and late included.
    pub settled: Amount,
    /// Whether it may be spent from.
    pub status: &'static str,
}

/// The questions of a worker's clients.
#[derive(Debug, Default)]
pub struct Questions {
    /// How many wait, by connection; none of them 0.
    waiting: HashMap<u64, usize>,
    /// Of these, beyond the first of their connection.
    shared: usize,
    /// Those that are still to be sent: the queue to the bank was full.
    unsent: VecDeque<(u64, Question)>,
}

impl Questions {
    /// Takes a question of a connection, to be sent.
    ///
    /// # Errors
    /// `Busy`: the connection has one that waits already, and the places for more are taken.
    pub fn take(&mut self, conn: u64, question: Question) -> Result<(), Reason> {
        let of_conn = self.waiting.get(&conn).copied().unwrap_or(0);
        if of_conn > 0 {
            if self.shared >= SHARED_MAX {
                return Err(Reason::Busy);
            }
            self.shared += 1;
        }
        self.waiting.insert(conn, of_conn + 1);
        self.unsent.push_back((conn, question));
        Ok(())
    }

    /// The next one to send.
    pub fn next_unsent(&mut self) -> Option<(u64, Question)> {
        self.unsent.pop_front()
    }

    /// Puts back one that could not be sent.
    pub fn unsend(&mut self, conn: u64, question: Question) {
        self.unsent.push_front((conn, question));
    }

    /// No question waits for the bank.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Waits a question of this connection?
    pub fn has(&self, conn: u64) -> bool {
        self.waiting.contains_key(&conn)
    }

    /// The bank answered a question of this connection.
    pub fn answered(&mut self, conn: u64) {
        match self.waiting.remove(&conn) {
            Some(of_conn) if of_conn > 1 => {
                self.shared -= 1;
                self.waiting.insert(conn, of_conn - 1);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: Question = Question::Totals { frame: 1 };

    #[test]
    fn a_connection_that_asks_one_thing_at_a_time_is_never_refused() {
        let mut questions = Questions::default();
        for _ in 0..=SHARED_MAX {
            assert_eq!(questions.take(1, QUESTION), Ok(()));
        }
        assert_eq!(questions.take(1, QUESTION), Err(Reason::Busy), "bounded");
        for conn in 2..1_000 {
            assert_eq!(questions.take(conn, QUESTION), Ok(()), "connection {conn}");
            assert_eq!(questions.take(conn, QUESTION), Err(Reason::Busy), "one of its own");
        }
        questions.answered(2);
        assert_eq!(questions.take(2, QUESTION), Ok(()));
        questions.answered(1);
        assert_eq!(questions.take(3, QUESTION), Ok(()), "the place that another gave back");
    }

    #[test]
    fn every_place_comes_back() {
        let mut questions = Questions::default();
        for round in 0..3 {
            for conn in [1, 1, 2, 1] {
                assert_eq!(questions.take(conn, QUESTION), Ok(()), "round {round}");
            }
            [1, 2, 1, 1].iter().for_each(|conn| questions.answered(*conn));
            assert_eq!((questions.waiting.len(), questions.shared), (0, 0));
        }
        // Of a connection that is gone, or was never there.
        questions.answered(9);
        assert_eq!(questions.shared, 0);
    }

    #[test]
    fn what_could_not_be_sent_stays_first() {
        let mut questions = Questions::default();
        let totals = |frame| Question::Totals { frame };
        (1..4).for_each(|conn| questions.take(conn, totals(conn)).unwrap());
        let (conn, question) = questions.next_unsent().unwrap();
        questions.unsend(conn, question);
        let all: Vec<_> = std::iter::from_fn(|| questions.next_unsent()).collect();
        assert_eq!(all, [(1, totals(1)), (2, totals(2)), (3, totals(3))]);
    }
}
