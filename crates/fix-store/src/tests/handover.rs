//! One file `numbers` after the other, with a kill and a loss of power between any two things that the disk is asked for.

use std::ops::ControlFlow;

use disk::planted::{FAULTS, Fault, Planted, Recording, at_each_operation, calls_of};

use super::*;
use crate::handover::here::set_steps;
use crate::{Direction, numbers, read_history, read_memos};

/// A file takes four to eight steps.
const GROWTH: u64 = 1_500;
const STEPS: u64 = 30;

/// What may be found from so many operations on.
type Allowed = (usize, Vec<[Seen; 2]>);

const SEALED: [Durability; 2] = [Durability::Sealed; 2];
/// A step of the second session alone waits for nothing.
const MIXED: [Durability; 2] = [Durability::Sealed, Durability::Written];

/// A disk that was worked with for a while.
struct Lived {
    durabilities: [Durability; 2],
    recording: Recording,
    allowed: Vec<Allowed>,
}

/// What a step makes of a state: a message of the sessions in turn or of both, and then for long of the second one.
fn act(stores: &mut Stores, step: u64, state: &mut [Seen; 2]) -> Vec<usize> {
    let sessions = match step % 20 {
        5 | 10 => vec![0, 1],
        ..10 => vec![usize::from(step.is_multiple_of(2))],
        _ => vec![1],
    };
    for at in &sessions {
        let (store, text) = (stores.store(*at), message("M", step, 90));
        store.note_received(&message("R", step, 20));
        store.set_next_in(step + 1).unwrap();
        store.put(&text).unwrap();
        state[*at].numbers.0 += 1;
        state[*at].numbers.1 = step + 1;
        state[*at].messages.push(Some(text));
    }
    sessions
}

/// Works in steps, also where the disk refuses some, and stops.
fn lived(
    root: &Path,
    durabilities: [Durability; 2],
    segment_bytes: u64,
    planted: Option<Planted>,
) -> Lived {
    Recording::begin(root);
    let mut stores = open(root, segment_bytes);
    [0, 1].into_iter().for_each(|at| stores.set_durability(at, durabilities[at]));
    let mut kept = seen_both(&mut stores);
    let mut allowed = vec![(0, vec![kept.clone()])];
    let work = || {
        let mut may_be = vec![kept.clone()];
        for step in 1..=STEPS {
            let mut then = kept.clone();
            let sessions = act(&mut stores, step, &mut then);
            may_be.push(then.clone());
            allowed.push((Recording::length(), may_be.clone()));
            if stores.flush(&sessions).is_ok() {
                kept = then;
                may_be = vec![kept.clone()];
                allowed.push((Recording::length(), may_be.clone()));
            }
            assert_eq!(seen_both(&mut stores), kept, "{step}");
        }
        drop(stores);
    };
    match planted {
        Some(planted) => planted.during(work).0,
        None => work(),
    }
    Lived { durabilities, recording: Recording::end(root), allowed }
}

/// Tells what is found in a folder by who only looks, and by who goes on with it.
fn found(root: &Path, segment_bytes: u64, are_segments_whole: bool) -> [Seen; 2] {
    let memos = read_memos(root).unwrap();
    let told = ["A", "B"].map(|name| {
        let mut sent = Vec::new();
        read_history(root, name, |kept| {
            sent.extend(kept.message.filter(|_| kept.direction == Direction::Out).map(Vec::from));
            ControlFlow::Continue(())
        })
        .unwrap();
        sent
    });
    let mut stores = open(root, segment_bytes);
    let found = seen_both(&mut stores);
    for (at, name) in ["A", "B"].into_iter().enumerate() {
        let memo = memos
            .iter()
            .find(|memo| memo.0 == name)
            .map_or((1, 1), |(_, memo)| (memo.next_out, memo.next_in));
        assert_eq!(memo, (found[at].numbers.0, found[at].numbers.1), "who looks sees the same");
        let there: Vec<&Vec<u8>> = found[at].messages.iter().flatten().collect();
        // Where a loss of power tore a segment, only who opens the folder mends it. What a crash left behind the last that counts is told, too.
        let are_told = there.iter().all(|message| told[at].contains(message));
        assert!(are_told || !are_segments_whole, "{name}");
        stores.store(at).put(b"goes on").unwrap();
    }
    stores.flush(&[0, 1]).unwrap();
    let after = seen_both(&mut stores);
    drop(stores);
    assert!(!numbers::next_path(root).exists(), "one file is left");
    assert_eq!(seen_both(&mut open(root, segment_bytes)), after);
    found
}

/// Reports whether a state was found. Of a step that was not kept, or not yet, the numbers may count without the messages.
fn fits(found: &Seen, state: &Seen, kept: &Seen) -> bool {
    let (first, later) = found.messages.split_at(kept.messages.len().min(found.messages.len()));
    let mut later_ones = later.iter().zip(state.messages.iter().skip(kept.messages.len()));
    found.numbers == state.numbers
        && first == kept.messages
        && later_ones.all(|(one, other)| one.is_none() || one == other)
}

/// Ends a life after operations, and goes on with what is left. Returns how often two files were in use.
fn end_anywhere(
    lived: &Lived,
    segment_bytes: u64,
    losses: u64,
    is_end: impl Fn(usize) -> bool,
) -> u64 {
    let mut of_two = 0;
    lived.recording.at_each_ending(losses, is_end, |ending, left| {
        let allowed = &lived.allowed.iter().rfind(|allowed| allowed.0 <= ending.at).unwrap().1;
        let next = std::fs::read(numbers::next_path(left));
        of_two += u64::from(next.is_ok_and(|next| numbers::content_end(&next) > 64));
        let found = found(left, segment_bytes, !ending.is_loss);
        // A loss of power may take what was only written.
        let is_safe = |at: usize| !ending.is_loss || lived.durabilities[at] == Durability::Sealed;
        let is_left = |state: &[Seen; 2]| {
            [0, 1]
                .into_iter()
                .all(|at| !is_safe(at) || fits(&found[at], &state[at], &allowed[0][at]))
        };
        let is_allowed = allowed.iter().any(is_left);
        assert!(is_allowed, "{ending:?}: {found:?} is none of {allowed:?}");
    });
    of_two
}

/// With a helper that never gets to work, one that is slow, and one that is quick.
const PACES: [usize; 4] = [0, 1, 2, usize::MAX];

#[test]
fn a_kill_or_a_loss_of_power_at_any_moment_leaves_what_was_sealed() {
    numbers::growth::set(GROWTH);
    for (segment_bytes, durabilities) in [(700, SEALED), (1 << 20, SEALED), (1 << 20, MIXED)] {
        for steps in PACES {
            set_steps(steps);
            let root = folder();
            let lived = lived(root.path(), durabilities, segment_bytes, None);
            assert!(lived.recording.renames_of("numbers.next") > 1, "{steps}");
            let of_two = end_anywhere(&lived, segment_bytes, 3, |_| true);
            assert!(of_two > 10, "{of_two}");
        }
    }
}

#[test]
fn a_kill_at_any_moment_leaves_what_was_written() {
    numbers::growth::set(GROWTH);
    for steps in PACES {
        set_steps(steps);
        let root = folder();
        let lived = lived(root.path(), [Durability::Written; 2], 1 << 20, None);
        assert!(end_anywhere(&lived, 1 << 20, 0, |_| true) > 10);
    }
}

/// A sync that fails once may have lost what it was to bring to the disk, whatever the next one says.
#[test]
fn so_it_is_where_the_disk_fails_once() {
    numbers::growth::set(GROWTH);
    let lives =
        [(0, 1 << 20, SEALED), (1, 1 << 20, MIXED), (2, 700, SEALED), (usize::MAX, 1 << 20, MIXED)];
    for (turn, (steps, segment_bytes, durabilities)) in (0..).zip(lives) {
        set_steps(steps);
        at_each_operation(&[Fault::Once], |root, planted| {
            let lived = lived(root, durabilities, segment_bytes, Some(planted));
            // Every operation fails in all lives; the lives take turns in where they end. A life does the same thing 30 times.
            if planted.after % 4 != turn {
                return;
            }
            let failed = usize::try_from(planted.after).unwrap();
            // Often behind the failure, and then now and then.
            let is_end = |at: usize| at > failed && (at < failed + 25 || at % 20 == failed % 20);
            end_anywhere(&lived, segment_bytes, 2, is_end);
        });
    }
}

/// Whatever fails of a handover, the steps go on, and later there is one file again.
#[test]
fn what_fails_of_a_handover_is_done_later() {
    numbers::growth::set(GROWTH);
    for steps in [1, usize::MAX] {
        set_steps(steps);
        at_each_operation(&FAULTS, |root, planted| {
            lived(root, SEALED, 1 << 20, Some(planted));
            let mut stores = open(root, 1 << 20);
            let mut state = seen_both(&mut stores);
            for step in 1..=STEPS {
                let sessions = act(&mut stores, step, &mut state);
                stores.flush(&sessions).unwrap();
            }
            assert_eq!(seen_both(&mut stores), state, "{planted:?}");
            drop(stores);
            assert!(!numbers::next_path(root).exists(), "{planted:?}");
        });
    }
}

/// A step waits for its own group and for nothing else, also where the next file is used.
#[test]
fn no_step_waits_for_the_next_file() {
    numbers::growth::set(GROWTH);
    for (durability, syncs) in [(Durability::Written, 0), (Durability::Sealed, 1)] {
        let root = folder();
        let mut stores = open(root.path(), 1 << 20);
        [0, 1].into_iter().for_each(|at| stores.set_durability(at, durability));
        let mut state = seen_both(&mut stores);
        // The segments are begun.
        set_steps(0);
        let sessions = [1, 2].map(|step| act(&mut stores, step, &mut state));
        sessions.iter().for_each(|sessions| stores.flush(sessions).unwrap());
        let mut used = 0;
        for step in 3..=STEPS {
            // What the helper does is not counted.
            set_steps(usize::MAX);
            stores.numbers_file().work();
            set_steps(0);
            let before = stores.numbers_file().end();
            let sessions = act(&mut stores, step, &mut state);
            let calls = calls_of(|| stores.flush(&sessions).unwrap());
            assert_eq!(calls.syncs, syncs, "{durability:?} {step}");
            used += u64::from(stores.numbers_file().end() < before);
        }
        assert!(used > 2, "{used}");
    }
}

/// A head of the newer file that is damaged though it has groups is no file that nobody used.
#[test]
fn a_newer_file_is_left_out_only_if_it_has_nothing() {
    numbers::growth::set(GROWTH);
    let root = folder();
    let mut stores = open(root.path(), 1 << 20);
    let mut state = seen_both(&mut stores);
    set_steps(1);
    let next = numbers::next_path(root.path());
    let is_used = || std::fs::read(&next).is_ok_and(|next| numbers::content_end(&next) > 64);
    for step in 1.. {
        let sessions = act(&mut stores, step, &mut state);
        stores.flush(&sessions).unwrap();
        if is_used() {
            break;
        }
    }
    let left = folder();
    for name in ["numbers", "numbers.next"] {
        std::fs::copy(root.path().join(name), left.path().join(name)).unwrap();
    }
    let bytes = std::fs::read(&next).unwrap();
    let next = numbers::next_path(left.path());
    for length in 0..=64 {
        std::fs::write(&next, vec![7; length]).unwrap();
        assert_eq!(numbers::look(left.path()).unwrap().len(), 2);
    }
    for at in (0..12).chain(16..28) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        std::fs::write(&next, damaged).unwrap();
        let error = numbers::look(left.path()).unwrap_err().to_string();
        assert!(error.contains("numbers.next"), "{error}");
    }
}
