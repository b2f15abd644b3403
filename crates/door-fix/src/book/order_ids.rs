//! Orders by their OrderID (37), and executions that were booked for nobody before one was known.
//!
//! A report without a known ClOrdID may come before the order's own report says its OrderID: its executions are booked as of an order that nobody
//! sent from here. Once the OrderID is known they are merged into the order, in one flush. The ledger hears first of the order, which has them
//! then, and of the other one, which has nothing left, only when it has answered: what is killed in between is counted twice until the start that
//! follows, whose comparison ends that, and never missing. So that it can, the row that has nothing left stays as long as a closed order.

use fix::Message;
use fix_session::{MessageStore, StoreError};
use gate_orders::Alarm;

use super::Book;
use crate::known::{State, Whose};
use crate::report::id;
use crate::rows::{Held, HoldChange, RowChange, RowPlace};

impl Book {
    fn hash_of(&self, order_id: &[u8]) -> Option<u32> {
        (!order_id.is_empty()).then(|| self.ids.hash(order_id))
    }

    /// A row has other bytes, or goes.
    pub(super) fn index_row(&mut self, place: RowPlace, next: Option<&Held>) {
        let before = self.rows.get(place).map_or(&[][..], |row| row.held.order_id());
        let next = next.map_or(&[][..], Held::order_id);
        if before != next {
            let hashes = [before, next].map(|order_id| self.hash_of(order_id));
            self.rows.index(place, hashes);
        }
    }

    /// A change of a row is about to be taken back.
    pub(super) fn index_undone(&mut self, change: &RowChange) {
        match change {
            RowChange::Added(place) => self.index_row(*place, None),
            RowChange::Was(place, row) | RowChange::Removed(place, row) => {
                self.index_row(*place, Some(&row.held));
            }
            RowChange::Heard(..) => {}
        }
    }

    /// Orders with an OrderID, the newest first.
    pub(super) fn with_order_id(&self, order_id: &[u8]) -> Vec<RowPlace> {
        let mut found = Vec::new();
        self.rows.by_order_id.find(self.ids.hash(order_id), |place| {
            let row = self.rows.get(place).filter(|row| row.held.order_id() == order_id);
            found.extend(row.map(|row| (row.number, place)));
            false
        });
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.into_iter().map(|one| one.1).collect()
    }

    /// A report of an order may say its OrderID: what was booked under that for nobody, since the order was sent, is its own.
    pub(super) fn merge_unknown(
        &mut self,
        place: RowPlace,
        message: &Message<'_>,
        now_ms: u64,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let Some(order_id) = id(message, 37).filter(|_| message.msg_type() == b"8") else {
            return Ok(());
        };
        if self.rows.get(place).is_none_or(|row| row.held.order_id() == order_id) {
            return Ok(());
        }
        for other in self.with_order_id(order_id) {
            self.merge([place, other], order_id, now_ms, store)?;
        }
        Ok(())
    }

    fn merge(
        &mut self,
        [into, from]: [RowPlace; 2],
        order_id: &[u8],
        now_ms: u64,
        store: &mut dyn MessageStore,
    ) -> Result<(), StoreError> {
        let [Some(row), Some(other)] = [into, from].map(|place| self.rows.get(place)) else {
            return Ok(());
        };
        let Some(((head, order), (other_head, other_order))) =
            row.held.read().zip(other.held.read())
        else {
            return Ok(());
        };
        let agree = |one: &[u8], other: &[u8]| one.is_empty() || other.is_empty() || one == other;
        let is_its = agree(head.symbol, other_head.symbol) && agree(head.side, other_head.side);
        // A venue may have given an earlier order the same OrderID.
        let is_later = other.number > row.number;
        if other_order.is_known() || other_order.is_void() || !is_later || !is_its {
            return Ok(());
        }
        let (mut order, mut void) = (order.into_owned(), other_order.into_owned());
        match order.merge(&mut void) {
            Ok(effect) => self.alarms.extend(effect.alarm),
            Err(_) => {
                self.alarms.push(Alarm::BadReport);
                return Ok(());
            }
        }
        let keys = other_head.key.zip(head.key);
        let (key, mut room) = (other_head.key(), std::mem::take(&mut self.scratch));
        let held = [(&head, &order), (&other_head, &void)];
        let [held, left] = held.map(|(head, order)| Held::new(head, order, &mut room));
        self.scratch = room;
        self.holds.extend(keys.map(|(from, into)| HoldChange::Merged(from, into)));
        self.write_row(into, held, store)?;
        self.write_row(from, left, store)?;
        // It stays known by its OrderID. Reports with its ClOrdID are the order's.
        let own = [b"37=", order_id].concat();
        self.set_id(&own, (Whose::Order(from), None), State::Closed, now_ms, store)?;
        if key != own {
            self.set_id(&key, (Whose::Order(into), None), State::Closed, now_ms, store)?;
        }
        Ok(())
    }
}
