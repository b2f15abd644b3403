//! Strangers' bytes: each fault has its answer, its counter, and no effect on others.

use std::time::Instant;

use wire::{DecideFlags, Message, Reason, Verdict};

use crate::client::{
    Client, Reply, ask, books_frame, decide_frame, fresh_id, hello_frame, ping_frame, reply,
    resolve_frame, totals_frame,
};
use crate::support::{Node, Setup, line, over_transports};

fn one_budget() -> Setup {
    Setup::new(&line(1, "1000000", ""))
}

/// Numbers that only depend on the seed.
fn noise(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[0]
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// A frame with one byte changed.
fn changed(frame: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at] = byte;
    frame
}

#[test]
fn garbage_is_refused_and_closed() {
    over_transports(one_budget, |node| {
        let mut bystander = node.client();
        for seed in 0..8 {
            let mut client = node.stranger();
            client.send(&noise(seed, 500));
            let (frame, detail) = client.expect_refusal(Reason::UnknownEncoding);
            assert_eq!(frame, 0, "nobody knows which frame this was");
            assert!(detail.contains("expected 0xeb50"), "{detail}");
            client.expect_end();
        }
        node.wait_refused("unknown_encoding", 8);
        node.wait_closed("service_closed", 8);
        bystander.ping();
    });
}

#[test]
fn garbage_behind_a_greeting_is_refused_after_the_answers_before_it() {
    over_transports(one_budget, |node| {
        let mut client = node.client();
        let mut bytes = ping_frame(1);
        bytes.extend_from_slice(&[0xff; 64]);
        client.send(&bytes);
        assert!(matches!(client.receive(), Reply::Pong { frame: 1, .. }));
        client.expect_refusal(Reason::UnknownEncoding);
        client.expect_end();
    });
}

#[test]
fn a_broken_message_in_a_sound_frame_is_refused_and_the_connection_lives() {
    over_transports(one_budget, |node| {
        let mut client = node.client();
        let good = decide_frame(77, DecideFlags::default(), &[ask(1, 1, 5)]);
        // The two bytes in front of the entry say how many entries there are.
        let count_at = good.len() - size_of::<wire::decide::Ask>() - 2;
        for (broken, reason) in [
            (changed(&good, count_at, 200), Reason::Malformed),
            (changed(&good, count_at, 0), Reason::Malformed),
            (changed(&good, 6, 1), Reason::Malformed),
            (changed(&good, 8, 99), Reason::UnknownTemplate),
            (changed(&good, 10, 99), Reason::UnknownSchema),
            (changed(&good, 12, 0), Reason::VersionUnsupported),
        ] {
            client.send(&broken);
            client.expect_refusal(reason);
        }
        client.ping();
        node.wait_refused("malformed", 3);
        node.wait_refused("unknown_template", 1);
        node.wait_refused("unknown_schema", 1);
        node.wait_refused("version_unsupported", 1);
    });
}

#[test]
fn a_refusal_names_its_frame() {
    over_transports(one_budget, |node| {
        let mut client = node.client();
        client.send(&decide_frame(4711, DecideFlags::default(), &[]));
        assert_eq!(client.expect_refusal(Reason::BatchEmpty).0, 4711);
        client.send(&resolve_frame(4712, &[]));
        assert_eq!(client.expect_refusal(Reason::BatchEmpty).0, 4712);
        node.wait_refused("batch_empty", 2);
    });
}

#[test]
fn messages_of_a_node_are_refused_from_a_client() {
    over_transports(one_budget, |node| {
        let mut client = node.client();
        client.send(&ping_frame(1));
        let pong = client.receive_bytes();
        client.send(&pong);
        client.expect_refusal(Reason::UnknownTemplate);
        client.ping();
    });
}

#[test]
fn frames_byte_by_byte_are_answered_like_whole_ones() {
    over_transports(one_budget, |node| {
        let mut client = node.stranger();
        let mut bytes = hello_frame((1, 1), 5, b"");
        bytes.extend(ping_frame(9));
        bytes.extend(decide_frame(10, DecideFlags::default(), &[ask(fresh_id(), 404, 5)]));
        for byte in &bytes {
            client.send(std::slice::from_ref(byte));
        }
        assert!(matches!(client.receive(), Reply::Welcome { .. }));
        assert!(matches!(client.receive(), Reply::Pong { frame: 9, .. }));
        let Reply::Decided { frame: 10, answers } = client.receive() else { panic!("no answer") };
        assert_eq!(answers[0].0, Verdict::UnknownBudget);
    });
}

#[test]
fn half_a_frame_and_silence_ends_in_a_time_out() {
    let setup = || one_budget().with("transport.partial_ms_max", "300");
    over_transports(setup, |node| {
        let whole = decide_frame(1, DecideFlags::default(), &[ask(1, 1, 5)]);
        let mut bystander = node.client();
        let mut clients: Vec<Client> = Vec::new();
        for half in [&whole[..3], &whole[..8], &whole[..whole.len() - 1]] {
            let mut client = node.client();
            client.send(half);
            clients.push(client);
        }
        for client in &mut clients {
            client.expect_end();
        }
        node.wait_closed("slow_message", 3);
        bystander.ping();
        let decided = node.door()["decisions"].as_u64().unwrap();
        assert_eq!(decided, 0, "half a frame is no frame");
    });
}

#[test]
fn a_frame_longer_than_accepted_is_refused_by_its_head_alone() {
    let setup = || one_budget().with("batch.frame_bytes_max", "4096");
    over_transports(setup, |node| {
        let mut client = node.client();
        // 6 bytes: 4,097 bytes are to follow, and the encoding.
        client.send(&[0, 0, 0x10, 0x01, 0xEB, 0x50]);
        let (_, detail) = client.expect_refusal(Reason::FrameTooLarge);
        assert!(detail.contains("4097") && detail.contains("4096"), "{detail}");
        client.expect_end();
        node.wait_refused("frame_too_large", 1);
        let mut client = node.client();
        client.send(&[0xFF, 0xFF, 0xFF, 0xFF, 0xEB, 0x50]);
        client.expect_refusal(Reason::FrameTooLarge);
        client.expect_end();
        node.wait_refused("frame_too_large", 2);
    });
}

#[test]
fn a_frame_length_that_cannot_hold_its_headers_is_refused() {
    over_transports(one_budget, |node| {
        let mut client = node.client();
        client.send(&[0, 0, 0, 6, 0xEB, 0x50, 0, 0]);
        client.expect_refusal(Reason::Malformed);
        client.expect_end();
    });
}

#[test]
fn batches_are_bounded() {
    let setup = || one_budget().with("batch.batch_max", "16");
    over_transports(setup, |node| {
        let mut client = node.stranger();
        let Reply::Welcome { batch_max, .. } = client.hello() else { panic!() };
        assert_eq!(batch_max, 16);
        let asks: Vec<_> = (0..17).map(|_| ask(fresh_id(), 404, 5)).collect();
        client.send(&decide_frame(3, DecideFlags::default(), &asks));
        let (frame, detail) = client.expect_refusal(Reason::BatchTooLarge);
        assert_eq!(frame, 3);
        assert!(detail.contains("17") && detail.contains("16"), "{detail}");
        let items = vec![wire::resolve::Item::new([0; 32], 0, wire::Action::Settle, 0); 17];
        client.send(&resolve_frame(4, &items));
        assert_eq!(client.expect_refusal(Reason::BatchTooLarge).0, 4);
        assert_eq!(client.decide(&asks[..16]).len(), 16, "the largest one is taken");
        node.wait_refused("batch_too_large", 2);
        assert_eq!(node.wait_stat("16", |s| s["doors"]["batch"]["decisions"] == 16)["node"], 1);
    });
}

#[test]
fn the_first_message_is_hello() {
    over_transports(one_budget, |node| {
        let asks = [ask(fresh_id(), 1, 5)];
        let firsts = [
            decide_frame(1, DecideFlags::default(), &asks),
            resolve_frame(1, &[wire::resolve::Item::new([0; 32], 0, wire::Action::Settle, 0)]),
            ping_frame(1),
            books_frame(1, 0, 1),
            totals_frame(1),
        ];
        for first in &firsts {
            let mut client = node.stranger();
            client.send(first);
            client.expect_refusal(Reason::HelloExpected);
            client.expect_end();
        }
        node.wait_refused("hello_expected", 5);
        assert_eq!(node.door()["decisions"], 0);
    });
}

#[test]
fn other_versions_are_refused_and_others_agree_on_the_newest_both_know() {
    over_transports(one_budget, |node| {
        for versions in [(5, 9), (0, 0)] {
            let mut client = node.stranger();
            client.send(&hello_frame(versions, 1, b""));
            let (_, detail) = client.expect_refusal(Reason::VersionUnsupported);
            assert!(detail.contains("this node 1 to 4"), "{detail}");
            client.expect_end();
        }
        node.wait_refused("version_unsupported", 2);
        let mut client = node.stranger();
        client.send(&hello_frame((0, 9), 1, b""));
        assert!(matches!(client.receive(), Reply::Welcome { version: 4, .. }));
        let mut client = node.stranger();
        client.send(&hello_frame((1, 1), 1, b""));
        assert!(matches!(client.receive(), Reply::Welcome { version: 1, .. }));
    });
}

#[test]
fn the_auth_token_is_asked_for() {
    let setup = || one_budget().with("batch.auth_token", "open sesame");
    over_transports(setup, |node| {
        for wrong in [&b""[..], b"open", b"open sesamE", b"open sesame and more"] {
            let mut client = node.stranger();
            client.send(&hello_frame((1, 1), 1, wrong));
            let (_, detail) = client.expect_refusal(Reason::Unauthorised);
            assert!(!detail.contains("sesame"), "the secret is not told: {detail}");
            client.expect_end();
        }
        node.wait_refused("unauthorised", 4);
        let mut client = node.stranger();
        client.send(&hello_frame((1, 1), 1, b"open sesame"));
        assert!(matches!(client.receive(), Reply::Welcome { .. }));
    });
}

#[test]
fn pings_books_and_totals_are_answered() {
    let budgets = || {
        let lines: String = (1..=5).map(|id| line(id * 10, "3", "")).collect();
        Setup::new(&lines)
    };
    over_transports(budgets, |node| {
        let mut client = node.client();
        client.send(&ping_frame(42));
        let Reply::Pong { frame: 42, now_ms } = client.receive() else { panic!("no pong") };
        let epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert!(epoch.as_millis().abs_diff(now_ms.into()) < 60_000, "{now_ms}");

        let (more, lines) = client.books(0, 3);
        assert!(more);
        assert_eq!(lines.iter().map(|l| l.id).collect::<Vec<_>>(), [10, 20, 30]);
        assert!(
            lines.iter().all(|l| (l.limit, l.sum, l.unit) == (3_000_000, 3_000_000, *b"USD\0"))
        );
        let (more, lines) = client.books(31, 100);
        assert!(!more);
        assert_eq!(lines.iter().map(|l| l.id).collect::<Vec<_>>(), [40, 50]);
        assert_eq!(client.books(51, 100), (false, Vec::new()));

        client.grant(10, 1);
        let stat = node.wait_stat("the counters", |s| s["doors"]["batch"]["granted"] == 1);
        client.send(&totals_frame(43));
        let Reply::Totals { frame: 43, decisions, granted, .. } = client.receive() else {
            panic!()
        };
        assert_eq!(granted, 1);
        assert_eq!(Some(decisions), stat["doors"]["batch"]["decisions"].as_u64());
    });
}

#[test]
fn no_answer_is_longer_than_the_node_says() {
    let setup = || {
        let lines: String = (1..=1100).map(|id| line(id, "3", "")).collect();
        Setup::new(&lines)
    };
    over_transports(setup, |node| {
        let mut client = node.stranger();
        let Reply::Welcome { frame_max, .. } = client.hello() else { panic!() };
        let (mut from, mut seen) = (0, 0);
        for number in 1.. {
            client.send(&books_frame(number, from, u16::MAX));
            let bytes = client.receive_bytes();
            assert!(bytes.len() <= frame_max as usize, "{} bytes, {frame_max} told", bytes.len());
            let Reply::Books { more, lines, .. } = reply(&bytes) else { panic!("no books") };
            seen += lines.len();
            from = lines.last().unwrap().id + 1;
            if !more {
                break;
            }
        }
        assert_eq!(seen, 1100);
    });
}

/// Sends frames without a pause while nobody reads, then reads all the answers.
#[test]
fn whoever_reads_late_gets_every_answer() {
    const FRAMES: u64 = 60_000;
    over_transports(one_budget, |node| {
        let mut client = node.client();
        let mut writer = client.writer();
        let sender = std::thread::spawn(move || {
            use std::io::Write;
            let asks: Vec<_> = (0..4).map(|i| ask(i, 404, 5)).collect();
            let mut bytes = Vec::new();
            for number in 1..=FRAMES {
                bytes.extend(decide_frame(number, DecideFlags::default(), &asks));
            }
            writer.write_all(&bytes).unwrap();
        });
        // Long enough that the answers fill the socket and then the node's own room for them.
        node.wait_stat("answers that wait", |stat| {
            stat["doors"]["batch"]["output_bytes_waiting"].as_u64() > Some(300_000)
        });
        for number in 1..=FRAMES {
            let bytes = client.receive_bytes();
            let Message::Decided(decided) = Message::decode(&bytes).unwrap() else { panic!() };
            assert_eq!(decided.frame(), number);
        }
        sender.join().unwrap();
    });
}

#[test]
fn a_burst_in_one_go_is_answered_whole() {
    const FRAMES: u64 = 8_000;
    over_transports(one_budget, |node| {
        let start = Instant::now();
        let mut client = node.client();
        let mut writer = client.writer();
        let asks: Vec<_> = (0..10).map(|i| ask(i, 404, 5)).collect();
        let bytes: Vec<u8> = (1..=FRAMES)
            .flat_map(|number| decide_frame(number, DecideFlags::default(), &asks))
            .collect();
        let sender = std::thread::spawn(move || std::io::Write::write_all(&mut writer, &bytes));
        for number in 1..=FRAMES {
            let Reply::Decided { frame, answers } = client.receive() else { panic!() };
            assert_eq!((frame, answers.len()), (number, 10));
        }
        sender.join().unwrap().unwrap();
        println!("{FRAMES} frames of 10 in {} ms", start.elapsed().as_millis());
    });
}

#[test]
fn the_log_of_a_node_under_abuse_stays_short() {
    over_transports(one_budget, |node: &mut Node| {
        for seed in 0..50 {
            let mut client = node.stranger();
            client.send(&noise(seed, 20));
            client.expect_refusal(Reason::UnknownEncoding);
        }
        node.wait_refused("unknown_encoding", 50);
        let lines = node.log().lines().count();
        assert!(lines < 20, "{lines} lines for 50 bad connections:\n{}", node.log());
    });
}
