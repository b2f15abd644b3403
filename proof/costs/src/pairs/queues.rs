//! Handing items to another thread: `table::ring` (`rtrb`, whose refusal says full or closed) beside `rtrb` itself,
//! `crossbeam`, the standard bounded channel, and a queue behind a mutex.
//!
//! - *one thread*: push one, pop one: what the instructions cost, nothing is shared.
//! - *core to core*: one thread pushes, another pops, both as fast as they can and neither sleeps: time
//!   from the first push to the last pop, divided by the items. Both threads run before the time is
//!   taken. Where the machine gives the process only one core at times, the slowest rounds show it.

use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use super::{Meaning, Pair};
use crate::race::{Done, TimedWay, Way, race, race_timed};
use crate::{Error, Size};

const CAPACITY: usize = 1_024;
const ITEMS: u64 = 400_000;
const ROUNDS: usize = 11;
/// How long two new threads run before their time is taken.
const SETTLE: Duration = Duration::from_millis(12);

/// Makes the pairs `queue/core-to-core` and `queue/one-thread`.
///
/// # Errors
/// The ways did different work.
pub fn run(size: Size) -> Result<Vec<Pair>, Error> {
    let (rounds, items) = (size.pick(ROUNDS, 1), size.pick(ITEMS, 2_000));
    Ok(vec![core_to_core(rounds, items)?, one_thread(rounds, items)?])
}

fn one_thread(rounds: usize, items: u64) -> Result<Pair, Error> {
    let (mut sender, mut receiver) = table::ring::channel(CAPACITY);
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
    let array = crossbeam_queue::ArrayQueue::new(CAPACITY);
    let (cross_in, cross_out) = crossbeam_channel::bounded(CAPACITY);
    let (std_in, std_out) = mpsc::sync_channel(CAPACITY);
    let mutex = Mutex::new(VecDeque::with_capacity(CAPACITY));
    let ways: Vec<Way<'_>> = vec![
        (
            "table::ring",
            pairs(items, move |item| {
                let _ = sender.try_send(item);
                receiver.recv()
            }),
        ),
        (
            "rtrb",
            pairs(items, move |item| {
                let _ = producer.push(item);
                consumer.pop().ok()
            }),
        ),
        (
            "crossbeam ArrayQueue",
            pairs(items, move |item| {
                let _ = array.push(item);
                array.pop()
            }),
        ),
        (
            "crossbeam bounded channel",
            pairs(items, move |item| {
                let _ = cross_in.try_send(item);
                cross_out.try_recv().ok()
            }),
        ),
        (
            "std sync_channel",
            pairs(items, move |item| {
                let _ = std_in.try_send(item);
                std_out.try_recv().ok()
            }),
        ),
        (
            "Mutex<VecDeque>",
            pairs(items, move |item| {
                lock(&mutex).push_back(item);
                lock(&mutex).pop_front()
            }),
        ),
    ];
    let meaning = Meaning {
        rival: None,
        faster: "the ring stays",
        slower: "one thread is not what the ring is for",
        level: "one thread is not what the ring is for",
    };
    let what = "Push one item, pop one item, on one thread: what the instructions cost.";
    Ok(Pair::new("queue/one-thread", what, "item", race(rounds, ways)?, &meaning))
}

fn core_to_core(rounds: usize, items: u64) -> Result<Pair, Error> {
    let ways: Vec<TimedWay<'_>> = vec![
        ("table::ring", Box::new(move || ours(items))),
        ("rtrb", Box::new(move || plain_rtrb(items))),
        ("crossbeam ArrayQueue", Box::new(move || crossbeam_array(items))),
        ("crossbeam bounded channel", Box::new(move || crossbeam_bounded(items))),
        ("std sync_channel", Box::new(move || std_sync(items))),
        ("Mutex<VecDeque>", Box::new(move || mutex_queue(items))),
    ];
    let meaning = Meaning {
        rival: None,
        faster: "the ring stays",
        slower: "what the wrapper adds costs more than it should",
        level: "the wrapper costs nothing that can be told",
    };
    let what = "One thread pushes, another pops, both as fast as they can; neither sleeps.";
    Ok(Pair::new("queue/core-to-core", what, "item", race_timed(rounds, ways)?, &meaning))
}

/// Pushes and pops `items` times; `step` does one of each.
fn pairs<'a>(
    items: u64,
    mut step: impl FnMut(u64) -> Option<u64> + 'a,
) -> Box<dyn FnMut() -> Done + 'a> {
    Box::new(move || {
        let got = (0..items).filter_map(|item| step(black_box(item))).fold(0, u64::wrapping_add);
        Done { operations: items, result: black_box(got) }
    })
}

fn ours(items: u64) -> (Done, Duration) {
    let (mut sender, mut receiver) = table::ring::channel(CAPACITY);
    let push = move |item| sender.try_send(item).is_ok();
    cross(items, push, move |take| receiver.recv().map(take).is_some())
}

fn plain_rtrb(items: u64) -> (Done, Duration) {
    let (mut producer, mut consumer) = rtrb::RingBuffer::new(CAPACITY);
    let push = move |item| producer.push(item).is_ok();
    cross(items, push, move |take| consumer.pop().map(take).is_ok())
}

fn crossbeam_array(items: u64) -> (Done, Duration) {
    let queue = crossbeam_queue::ArrayQueue::new(CAPACITY);
    cross(items, |item| queue.push(item).is_ok(), |take| queue.pop().map(take).is_some())
}

fn crossbeam_bounded(items: u64) -> (Done, Duration) {
    let (sender, receiver) = crossbeam_channel::bounded(CAPACITY);
    let push = move |item| sender.try_send(item).is_ok();
    cross(items, push, move |take| receiver.try_recv().map(take).is_ok())
}

fn std_sync(items: u64) -> (Done, Duration) {
    let (sender, receiver) = mpsc::sync_channel(CAPACITY);
    let push = move |item| sender.try_send(item).is_ok();
    cross(items, push, move |take| receiver.try_recv().map(take).is_ok())
}

fn mutex_queue(items: u64) -> (Done, Duration) {
    let queue = Mutex::new(VecDeque::with_capacity(CAPACITY));
    let push = |item| {
        let mut queue = lock(&queue);
        let fits = queue.len() < CAPACITY;
        if fits {
            queue.push_back(item);
        }
        fits
    };
    cross(items, push, |take| {
        let item = lock(&queue).pop_front();
        item.map(take).is_some()
    })
}

/// Runs `push` on a thread of its own and `pop` here. Either says whether it got on; `pop` hands what
/// it got to its argument.
fn cross(
    items: u64,
    mut push: impl FnMut(u64) -> bool + Send,
    mut pop: impl FnMut(&mut dyn FnMut(u64)) -> bool,
) -> (Done, Duration) {
    let go = AtomicBool::new(false);
    let (mut sum, mut count) = (0u64, 0);
    let elapsed = std::thread::scope(|scope| {
        scope.spawn(|| {
            patiently(|| go.load(Ordering::Acquire));
            for item in 0..items {
                patiently(|| push(item));
            }
        });
        // Both threads spin for a few ticks of the scheduler: only then has it given each its core.
        let spawned = Instant::now();
        patiently(|| spawned.elapsed() > SETTLE);
        go.store(true, Ordering::Release);
        let started = Instant::now();
        while count < items {
            patiently(|| {
                pop(&mut |item| {
                    sum = sum.wrapping_add(item);
                    count += 1;
                })
            });
        }
        started.elapsed()
    });
    (Done { operations: items, result: sum }, elapsed)
}

/// Tries until it works: at once again, with one pause of the processor, and now and then letting
/// others run, for a shared machine.
fn patiently(mut attempt: impl FnMut() -> bool) {
    let mut failures = 0u32;
    while !attempt() {
        failures += 1;
        if failures.is_multiple_of(2_000) {
            std::thread::yield_now();
        }
        std::hint::spin_loop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
