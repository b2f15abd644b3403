//! The designs that lose money. Each is as good as it can be made without changing what gives it its name.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::{Bid, Design, Moment, NODES, Notice, Statement};

const SECOND_MS: u64 = 1_000;

/// Nodes do their work of each second one after the other.
fn is_turn(node: usize, now_ms: u64, every_ms: u64) -> bool {
    let shift_ms = every_ms / NODES as u64 * node as u64;
    (now_ms + shift_ms).is_multiple_of(every_ms)
}

/// A counter of what is left in a central store; nodes read it each second and deduct what they win.
pub(super) struct CachedRemaining {
    limits: Vec<i64>,
    left: Vec<i64>,
    /// Bids that the store has deducted.
    counted: BTreeSet<usize>,
    cached: [Vec<i64>; NODES],
    /// By node: wins that the store does not have yet. The exchange repeats them until it has.
    waiting: [BTreeMap<usize, (usize, i64)>; NODES],
}

impl CachedRemaining {
    pub(super) fn new(limits: &[i64]) -> CachedRemaining {
        let cached = std::array::from_fn(|_| limits.to_vec());
        let (limits, left) = (limits.to_vec(), limits.to_vec());
        let waiting = Default::default();
        CachedRemaining { limits, left, counted: BTreeSet::new(), cached, waiting }
    }

    fn write(&mut self, node: usize, moment: &mut Moment<'_>) {
        while let Some((bid, (budget, price))) = self.waiting[node].pop_first() {
            self.left[budget] -= price;
            self.counted.insert(bid);
            moment.ack(bid, Notice::Won);
        }
    }

    fn read(&mut self, node: usize, moment: &mut Moment<'_>) {
        self.cached[node].clone_from(&self.left);
        for (budget, left) in self.left.iter().enumerate() {
            moment.note(node, budget, || format!("reads from the store: {left} left"));
        }
    }
}

impl Design for CachedRemaining {
    fn ask(&mut self, bid: &Bid, _: &mut Moment<'_>) -> bool {
        bid.amount <= self.cached[bid.node][bid.budget]
    }

    fn notice(&mut self, bid: &Bid, notice: Notice, price: i64, moment: &mut Moment<'_>) {
        if notice == Notice::Billed || self.counted.contains(&bid.id) {
            moment.ack(bid.id, notice);
        } else if self.waiting[bid.node].insert(bid.id, (bid.budget, price)).is_none() {
            self.cached[bid.node][bid.budget] -= price;
        }
    }

    fn pass(&mut self, moment: &mut Moment<'_>) {
        for node in 0..NODES {
            if moment.linked[node] {
                self.write(node, moment);
                if is_turn(node, moment.now_ms, SECOND_MS) {
                    self.read(node, moment);
                }
            }
        }
    }

    fn crash(&mut self, node: usize, _: &mut Moment<'_>) -> Range<usize> {
        // Without having read the store it lets nothing out.
        self.cached[node].fill(0);
        self.waiting[node].clear();
        node..node + 1
    }

    fn statement(&self, budget: usize) -> Statement {
        let spent = i128::from(self.limits[budget] - self.left[budget]);
        Statement { spent, ..Statement::default() }
    }
}

/// What a slice has set aside for a bid.
#[derive(Clone, Copy)]
struct SliceHold {
    budget: usize,
    amount: i64,
    until_ms: u64,
}

/// Something not yet flushed, as what undoes it.
struct Undo {
    bid: usize,
    budget: usize,
    taken: i64,
    hold: Option<SliceHold>,
    was_settled: bool,
}

/// One node's slice.
#[derive(Default)]
struct Slice {
    left: Vec<i64>,
    spent: Vec<i64>,
    holds: BTreeMap<usize, SliceHold>,
    settled: BTreeMap<usize, i64>,
    unflushed: Vec<Undo>,
}

impl Slice {
    /// Longer than any notice of the market takes: the holds are not what is wrong here.
    const HOLD_MS: u64 = 25_000;

    fn take(&mut self, bid: usize, budget: usize, taken: i64) {
        self.left[budget] -= taken;
        let hold = self.holds.get(&bid).copied();
        let was_settled = self.settled.contains_key(&bid);
        self.unflushed.push(Undo { bid, budget, taken, hold, was_settled });
    }

    fn settle(&mut self, bid: &Bid, price: i64) {
        if self.settled.contains_key(&bid.id) {
            return;
        }
        // A bid that it does not know is booked all the same.
        let held = self.holds.get(&bid.id).map_or(0, |hold| hold.amount);
        self.take(bid.id, bid.budget, price - held);
        self.holds.remove(&bid.id);
        self.settled.insert(bid.id, price);
        self.spent[bid.budget] += price;
    }

    fn expire(&mut self, now_ms: u64) {
        while let Some((id, hold)) = self.holds.first_key_value().map(|(id, hold)| (*id, *hold)) {
            if hold.until_ms > now_ms {
                return;
            }
            self.take(id, hold.budget, -hold.amount);
            self.holds.remove(&id);
        }
    }

    fn forget(&mut self) {
        while let Some(undo) = self.unflushed.pop() {
            self.left[undo.budget] += undo.taken;
            match undo.hold {
                Some(hold) => self.holds.insert(undo.bid, hold),
                None => self.holds.remove(&undo.bid),
            };
            if !undo.was_settled
                && let Some(price) = self.settled.remove(&undo.bid)
            {
                self.spent[undo.budget] -= price;
            }
        }
    }
}

/// A fixed slice a node, in memory, its journal flushed each second.
pub(super) struct FlushedSlice {
    limits: Vec<i64>,
    slices: [Slice; NODES],
}

impl FlushedSlice {
    pub(super) fn new(limits: &[i64]) -> FlushedSlice {
        let nodes = i64::try_from(NODES).expect("few");
        let left: Vec<i64> = limits.iter().map(|limit| limit / nodes).collect();
        let spent = vec![0; left.len()];
        let slice = |_| Slice { left: left.clone(), spent: spent.clone(), ..Slice::default() };
        FlushedSlice { limits: limits.to_vec(), slices: std::array::from_fn(slice) }
    }
}

impl Design for FlushedSlice {
    fn ask(&mut self, bid: &Bid, _: &mut Moment<'_>) -> bool {
        let slice = &mut self.slices[bid.node];
        if bid.amount > slice.left[bid.budget] {
            return false;
        }
        slice.take(bid.id, bid.budget, bid.amount);
        let until_ms = bid.made_ms + Slice::HOLD_MS;
        slice.holds.insert(bid.id, SliceHold { budget: bid.budget, amount: bid.amount, until_ms });
        true
    }

    fn notice(&mut self, bid: &Bid, notice: Notice, price: i64, moment: &mut Moment<'_>) {
        if notice == Notice::Won {
            self.slices[bid.node].settle(bid, price);
        }
        moment.ack(bid.id, notice);
    }

    fn pass(&mut self, moment: &mut Moment<'_>) {
        for (node, slice) in self.slices.iter_mut().enumerate() {
            slice.expire(moment.now_ms);
            if is_turn(node, moment.now_ms, SECOND_MS) {
                slice.unflushed.clear();
            }
        }
    }

    fn crash(&mut self, node: usize, moment: &mut Moment<'_>) -> Range<usize> {
        let slice = &mut self.slices[node];
        let (left, spent) = (slice.left.clone(), slice.spent.clone());
        slice.forget();
        for budget in 0..left.len() {
            let (before, after) = (left[budget], slice.left[budget]);
            let lost = spent[budget] - slice.spent[budget];
            if lost > 0 {
                moment.note(node, budget, || {
                    format!("crashes: {before} left, back with {after}; forgot {lost} spent")
                });
            }
        }
        node..node + 1
    }

    fn statement(&self, budget: usize) -> Statement {
        let spent = self.slices.iter().map(|slice| i128::from(slice.spent[budget])).sum();
        let idle = self.slices.iter().map(|slice| i128::from(slice.left[budget])).sum();
        // All that is not spent is some node's.
        Statement { spent, late: 0, aside: i128::from(self.limits[budget]) - spent, idle }
    }
}

/// A share of a budget for one node and a time.
#[derive(Clone, Copy)]
struct Lease {
    node: usize,
    budget: usize,
    amount: i64,
    spent: i64,
    end_ms: u64,
}

/// A node's side of a lease.
#[derive(Clone, Copy, Default)]
struct Share {
    lease: usize,
    left: i64,
    end_ms: u64,
    /// Asked for since the last lease, granted or not.
    asked: i64,
}

/// Leases that are refunded when they end, less what the store knows as spent by then.
pub(super) struct LeaseRefund {
    limits: Vec<i64>,
    left: Vec<i64>,
    open: BTreeMap<usize, Lease>,
    next_lease: usize,
    shares: [Vec<Share>; NODES],
    lease_of: BTreeMap<usize, usize>,
    counted: BTreeSet<usize>,
    waiting: [BTreeMap<usize, (usize, i64)>; NODES],
}

impl LeaseRefund {
    const LEASE_MS: u64 = 2_000;

    pub(super) fn new(limits: &[i64]) -> LeaseRefund {
        LeaseRefund {
            limits: limits.to_vec(),
            left: limits.to_vec(),
            open: BTreeMap::new(),
            next_lease: 1,
            shares: std::array::from_fn(|_| vec![Share::default(); limits.len()]),
            lease_of: BTreeMap::new(),
            counted: BTreeSet::new(),
            waiting: Default::default(),
        }
    }

    fn write(&mut self, node: usize, moment: &mut Moment<'_>) {
        while let Some((bid, (budget, price))) = self.waiting[node].pop_first() {
            match self.open.get_mut(&self.lease_of[&bid]) {
                Some(lease) => lease.spent += price,
                // Its lease was refunded: what is left pays.
                None => self.left[budget] -= price,
            }
            self.counted.insert(bid);
            moment.ack(bid, Notice::Won);
        }
    }

    fn refund(&mut self, moment: &mut Moment<'_>) {
        let now_ms = moment.now_ms;
        for (_, lease) in self.open.extract_if(.., |_, lease| lease.end_ms <= now_ms) {
            let Lease { amount, spent, budget, .. } = lease;
            self.left[budget] += amount - spent;
            let (back, left) = (amount - spent, self.left[budget]);
            moment.note(lease.node, budget, || {
                format!("lease of {amount} ends, {spent} spent, {back} back: {left} left")
            });
        }
    }

    /// A node whose lease has ended gets what it was asked for in that time, as far as that is left.
    fn grant(&mut self, node: usize, now_ms: u64) {
        for (budget, share) in self.shares[node].iter_mut().enumerate() {
            let left = self.left[budget];
            let amount = share.asked.max(2_000).min(left);
            if share.end_ms > now_ms || amount <= 0 {
                continue;
            }
            self.left[budget] -= amount;
            let (lease, end_ms) = (self.next_lease, now_ms + LeaseRefund::LEASE_MS);
            self.next_lease += 1;
            self.open.insert(lease, Lease { node, budget, amount, spent: 0, end_ms });
            *share = Share { lease, left: amount, end_ms, asked: 0 };
        }
    }
}

impl Design for LeaseRefund {
    fn ask(&mut self, bid: &Bid, _: &mut Moment<'_>) -> bool {
        let share = &mut self.shares[bid.node][bid.budget];
        share.asked += bid.amount;
        if bid.made_ms >= share.end_ms || bid.amount > share.left {
            return false;
        }
        share.left -= bid.amount;
        self.lease_of.insert(bid.id, share.lease);
        true
    }

    fn notice(&mut self, bid: &Bid, notice: Notice, price: i64, moment: &mut Moment<'_>) {
        if notice == Notice::Billed || self.counted.contains(&bid.id) {
            moment.ack(bid.id, notice);
        } else {
            self.waiting[bid.node].insert(bid.id, (bid.budget, price));
        }
    }

    fn pass(&mut self, moment: &mut Moment<'_>) {
        self.refund(moment);
        for node in 0..NODES {
            if moment.linked[node] {
                self.write(node, moment);
                self.grant(node, moment.now_ms);
            }
        }
    }

    fn crash(&mut self, node: usize, _: &mut Moment<'_>) -> Range<usize> {
        // It may not use what it no longer knows; the lease ends by itself.
        self.shares[node].iter_mut().for_each(|share| share.left = 0);
        self.waiting[node].clear();
        node..node + 1
    }

    fn statement(&self, budget: usize) -> Statement {
        let leases = self.open.values().filter(|lease| lease.budget == budget);
        let (amount, open) = leases.fold((0, 0), |(amount, spent), lease| {
            (amount + i128::from(lease.amount), spent + i128::from(lease.spent))
        });
        let spent = i128::from(self.limits[budget] - self.left[budget]) - amount + open;
        let shares = self.shares.iter().map(|shares| shares[budget]);
        let live = shares.filter(|share| self.open.contains_key(&share.lease));
        let idle = live.map(|share| i128::from(share.left)).sum();
        Statement { spent, late: 0, aside: amount - open, idle }
    }
}
