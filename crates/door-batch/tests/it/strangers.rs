//! Any bytes at all: the door answers as the model says, and lives on.

use door_transport::{Options, Transport};
use proptest::prelude::*;

use crate::model::{Said, expected, said};
use crate::support::{
    AUTH, Server, books_frame, decide_frame, frames, hello_frame, hello_of_versions, ping_frame,
    resolve_frame,
};

fn sound_frame() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(hello_frame(1, AUTH)),
        Just(hello_frame(1, b"wrong")),
        (any::<u64>(), 0usize..12).prop_map(|(number, count)| decide_frame(number, count)),
        (any::<u64>(), 0usize..12).prop_map(|(number, count)| resolve_frame(number, count)),
        any::<u64>().prop_map(ping_frame),
        (any::<u64>(), any::<u16>()).prop_map(|(number, max)| books_frame(number, max)),
    ]
}

/// A stream of frames that begins with a greeting, mostly.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    (prop::bool::weighted(0.9), prop::collection::vec(sound_frame(), 0..12)).prop_map(
        |(greet, frames)| {
            let greeting = greet.then(|| hello_frame(1, AUTH));
            greeting.into_iter().chain(frames).flatten().collect()
        },
    )
}

/// The same with some bytes changed, and cut off somewhere.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>());
    (stream(), prop::collection::vec(change, 0..4), any::<prop::sample::Index>()).prop_map(
        |(mut bytes, changes, cut)| {
            if bytes.is_empty() {
                return bytes;
            }
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(bytes.len() - cut.index(bytes.len()) / 4);
            bytes
        },
    )
}

fn check(server: &Server, bytes: &[u8], piece: usize) {
    let answers: Vec<Said> =
        frames(&server.client().exchange(bytes, piece)).iter().map(|frame| said(frame)).collect();
    assert_eq!(answers, expected(bytes));
}

fn run(strategy: impl Strategy<Value = Vec<u8>>, cases: u32) {
    let server = Server::start(Options { transport: Transport::Auto, ..Options::default() });
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(bytes in strategy, piece in prop_oneof![1usize..40, Just(100_000)])| {
        check(&server, &bytes, piece);
    });
    // What was refused was counted, one by one.
    check(&server, &ping_frame(1), 1);
    assert_eq!(server.seen.lock().unwrap().refused.last(), Some(&wire::Reason::HelloExpected));
}

#[test]
fn random_bytes_lead_to_a_refusal_or_a_wait() {
    run(prop::collection::vec(any::<u8>(), 0..300), 200);
}

#[test]
fn sound_streams_are_answered_frame_by_frame() {
    run(stream(), 300);
}

#[test]
fn damaged_streams_are_answered_as_far_as_they_are_sound() {
    run(damaged(), 400);
}

/// Ranges that begin above their end too: they have nothing in common with anybody.
#[test]
fn ranges_of_versions_are_taken_at_their_word() {
    let server = Server::start(Options::default());
    for (min, max) in (0..5).flat_map(|min| (0..5).map(move |max| (min, max))) {
        check(&server, &hello_of_versions(min, max, 1, AUTH), 100);
    }
}

#[test]
fn the_refusals_on_the_wire_are_those_that_are_counted() {
    let server = Server::start(Options::default());
    let stream =
        [hello_frame(1, AUTH), decide_frame(1, 0), decide_frame(2, 9), resolve_frame(3, 1)];
    let answers = frames(&server.client().exchange(&stream.concat(), 7));
    let refused: Vec<wire::Reason> = answers
        .iter()
        .filter_map(|frame| match said(frame) {
            Said::Refused(reason) => Some(reason),
            _ => None,
        })
        .collect();
    assert_eq!(refused.len(), 3);
    assert_eq!(server.seen.lock().unwrap().refused, refused);
}
