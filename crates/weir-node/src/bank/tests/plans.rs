//! How the parameters of plans go round.

use gate_pacing::Pace;

use super::*;
use crate::bank::plans::PIECE;
use crate::messages::Piece;

/// The pieces that a worker is sent.
fn pieces(down: &mut Receiver<Down>) -> Vec<Piece> {
    let all = std::iter::from_fn(|| down.recv());
    let piece = |message| if let Down::Paces(piece) = message { Some(piece) } else { None };
    all.filter_map(piece).collect()
}

/// A bank of 5,000 budgets whose round takes 40 ms; nothing is on its way to its two workers.
fn bench() -> (Bench, Arc<HandClock>) {
    let mut bench = Bench::with(tempfile::tempdir().unwrap(), 2, &[]);
    let hand = bench.set_by_hand(bench.thread.bank.now_ms());
    bench.configure();
    bench.thread.plans.tick_ms = 40;
    // From the beginning of a round on.
    hand.pass(80);
    while bench.turn_and_take()[0].last().is_none_or(|piece| piece.paces.len() == PIECE) {}
    (bench, hand)
}

impl Bench {
    /// What the workers are sent in a turn.
    fn turn_and_take(&mut self) -> [Vec<Piece>; 2] {
        self.thread.turn();
        [pieces(&mut self.down), pieces(&mut self.others[0].1)]
    }
}

#[test]
fn a_round_takes_each_budget_once_in_order_and_some_hundred_a_turn() {
    let (mut bench, hand) = bench();
    let slots = bench.thread.bank.slots();
    let (mut buffers, mut next, mut rounds) = (std::collections::HashSet::new(), [0; 2], 0);
    for _ in 0..200 {
        hand.pass(1);
        let [one, two] = bench.turn_and_take();
        assert!(one.len() <= 1 && one.len() == two.len(), "{} in a turn", one.len());
        for (worker, piece) in one.into_iter().chain(two).enumerate() {
            assert_eq!(piece.first as usize, next[worker]);
            assert!(piece.paces.iter().all(|pace| *pace != Pace::CLOSED));
            next[worker] = (next[worker] + piece.paces.len()) % slots;
            rounds += usize::from(next[worker] == 0);
            buffers.insert(piece.paces.as_ptr());
            let up = [&mut bench.up, &mut bench.others[0].0];
            assert!(up[worker].try_send(Up::Old(Old::Piece(piece))).is_ok());
        }
    }
    assert_eq!((rounds, next), (2 * 5, [0; 2]));
    assert_eq!(buffers.len(), 2, "what comes back is written anew");
}

#[test]
fn a_worker_that_takes_nothing_is_sent_the_newest_alone() {
    let (mut bench, hand) = bench();
    let link = &mut bench.thread.links[0];
    while link.down.try_send(Down::JournalFails(false)).is_ok() {}
    for _ in 0..200 {
        hand.pass(1);
        bench.thread.turn();
    }
    let pieces = bench.thread.bank.slots().div_ceil(PIECE);
    assert_eq!(bench.thread.links[0].backlog.len(), pieces, "each budget once");
    while bench.down.recv().is_some() {}
    assert_eq!(bench.turn_and_take()[0].len(), pieces);
}
