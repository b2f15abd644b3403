//! Many frames at once: every one is answered, in order, whatever the room for answers is.

use std::io::{Read, Write};

use door_transport::Options;

use crate::model::{Said, said};
use crate::support::{
    AUTH, Server, decide_frame, frames, hello_frame, over_transports, ping_frame,
};

/// Writes everything before it reads anything.
fn burst(server: &Server, count: u64) {
    let mut bytes = hello_frame(1, AUTH);
    for number in 1..=count {
        bytes.extend(decide_frame(number, 8));
        bytes.extend(ping_frame(number));
    }
    let client = server.client();
    let mut writer = client.0.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    // Answers pile up behind the first one, which is taken slowly.
    let mut first = [0; 16];
    (&client.0).read_exact(&mut first).unwrap();
    while server.seen.lock().unwrap().asks == 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut answers = first.to_vec();
    let len = 14 + welcome_len() + usize::try_from(count).unwrap() * pair_len();
    let mut rest = vec![0; len - first.len()];
    (&client.0).read_exact(&mut rest).unwrap();
    answers.extend(rest);
    sender.join().unwrap();
    let answers = frames(&answers);
    assert_eq!(said(&answers[0]), Said::Welcome);
    for (number, pair) in (1..=count).zip(answers[1..].chunks(2)) {
        assert_eq!((said(&pair[0]), said(&pair[1])), (Said::Decided(8), Said::Pong(number)));
    }
}

/// Bytes of Welcome behind its headers.
fn welcome_len() -> usize {
    wire::welcome::encoded_len() - 14
}

fn pair_len() -> usize {
    wire::decided::encoded_len(8) + wire::pong::encoded_len()
}

#[test]
fn with_little_room() {
    over_transports(&Options { output_bytes_max: 1_000, ..Options::default() }, |server| {
        burst(server, 2_000);
    });
}

#[test]
fn with_the_usual_room() {
    over_transports(&Options::default(), |server| burst(server, 20_000));
}

#[test]
fn with_more_room_than_sockets_have() {
    let options = Options { output_bytes_max: 4 << 20, ..Options::default() };
    over_transports(&options, |server| burst(server, 40_000));
}
