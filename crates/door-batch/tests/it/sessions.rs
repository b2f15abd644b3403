//! What the door keeps of a connection, and what it tells the gate.

use access::TokenFile;
use door_batch::Question;
use door_transport::Options;
use wire::{Message, Reason, Verdict};

use crate::model::{Said, said};
use crate::support::{
    AUTH, LIMITS, SOME, WHOLE, books_frame, decide_frame, find_frame, frames, hello_frame,
    over_transports, ping_frame, resolve_frame,
};

#[test]
fn the_gate_is_asked_nothing_before_the_greeting() {
    over_transports(&Options::default(), |server| {
        for first in [decide_frame(1, 1), resolve_frame(1, 1), books_frame(1, 1), ping_frame(1)] {
            let stream = [first, decide_frame(2, 1)].concat();
            let answers = frames(&server.client().exchange(&stream, 1_000));
            assert_eq!(answers.len(), 1, "closed behind the refusal");
            assert_eq!(said(&answers[0]), Said::Refused(Reason::HelloExpected));
        }
        let seen = server.seen.lock().unwrap();
        assert_eq!((seen.asks, seen.resolves, seen.questions.len()), (0, 0, 0));
        assert_eq!(seen.refused, [Reason::HelloExpected; 4]);
    });
}

#[test]
fn the_gate_hears_who_asks_and_a_second_greeting_changes_that() {
    over_transports(&Options::default(), |server| {
        let stream =
            [hello_frame(11, AUTH), decide_frame(1, 1), hello_frame(22, AUTH), decide_frame(2, 1)];
        let answers = frames(&server.client().exchange(&stream.concat(), 13));
        assert_eq!(answers.len(), 4);
        assert_eq!(server.seen.lock().unwrap().clients, [11, 22]);
    });
}

#[test]
fn the_gate_hears_whose_token_was_shown() {
    over_transports(&Options::default(), |server| {
        let greetings = [WHOLE, SOME, AUTH].map(|token| hello_frame(1, token));
        let stream: Vec<u8> =
            greetings.into_iter().flat_map(|hello| [hello, decide_frame(1, 1)].concat()).collect();
        assert_eq!(frames(&server.client().exchange(&stream, 7)).len(), 6);
        assert_eq!(server.seen.lock().unwrap().limited, [false, true, false]);
    });
}

#[test]
fn who_is_limited_to_some_budgets_does_not_read_the_books_of_all() {
    over_transports(&Options::default(), |server| {
        let stream = [hello_frame(1, SOME), books_frame(2, 1), decide_frame(3, 1)].concat();
        let answers = frames(&server.client().exchange(&stream, 1_000));
        assert_eq!(said(&answers[1]), Said::Refused(Reason::Unauthorised));
        assert!(matches!(Message::decode(&answers[2]), Ok(Message::Decided(_))), "it lives on");
        assert!(server.seen.lock().unwrap().questions.is_empty());
    });
}

/// One connection, four files: the token keeps its place, gets scopes, is gone.
#[test]
fn a_replaced_token_file_counts_from_the_next_frame() {
    over_transports(&Options::default(), |server| {
        let mut client = server.client();
        client.send(&[hello_frame(1, WHOLE), decide_frame(1, 1)].concat());
        client.receive_frames(2);
        let mut limited = vec![false];
        for (file, is_limited) in [
            ("renamed spend whole-0123456789", false),
            ("whole spend whole-0123456789 budget:7", true),
        ] {
            server.tokens.replace(TokenFile::parse(file).unwrap());
            client.send(&decide_frame(2, 1));
            client.receive_frames(1);
            limited.push(is_limited);
            assert_eq!(server.seen.lock().unwrap().limited, limited);
        }
        let none = "other spend other-0123456789";
        server.tokens.replace(TokenFile::parse(none).unwrap());
        let answers =
            frames(&client.exchange(&[decide_frame(3, 1), decide_frame(4, 1)].concat(), 99));
        assert_eq!(answers.len(), 1, "closed behind the refusal");
        assert_eq!(said(&answers[0]), Said::Refused(Reason::Unauthorised));
        assert_eq!(server.seen.lock().unwrap().limited, limited);
        // Whoever has the one key for all has no place in any file.
        let stream = [hello_frame(1, AUTH), decide_frame(1, 1)].concat();
        assert_eq!(frames(&server.client().exchange(&stream, 99)).len(), 2);
    });
}

#[test]
fn a_find_is_answered_with_its_frame_at_once_or_later() {
    over_transports(&Options::default(), |server| {
        let handles = ["known", "later/a", "strange", "", &"x".repeat(2_000)];
        let finds = (1..).zip(handles).map(|(frame, handle)| find_frame(frame, handle.as_bytes()));
        let stream = [hello_frame(1, AUTH), finds.collect::<Vec<_>>().concat()].concat();
        let answers = frames(&server.client().exchange(&stream, 1_000));
        let found: Vec<_> = answers[1..].iter().map(|answer| found(answer)).collect();
        let unknown = |frame| (frame, 0, Some(Verdict::UnknownBudget));
        let known = (1, 1_001, Some(Verdict::Granted));
        assert_eq!(found, [known, unknown(3), unknown(4), unknown(5)]);
        // Bytes that are no text, and a client that names some budgets by their ids.
        let stream = [hello_frame(1, SOME), find_frame(1, &[0xFF]), find_frame(2, b"known")];
        let answers = frames(&server.client().exchange(&stream.concat(), 1_000));
        assert_eq!(said(&answers[1]), Said::Refused(Reason::Malformed));
        assert_eq!(self::found(&answers[2]), unknown(2));
    });
}

fn found(answer: &[u8]) -> (u64, u64, Option<Verdict>) {
    let Ok(Message::Found(found)) = Message::decode(answer) else { panic!("no Found") };
    (found.frame(), found.budget_id(), found.verdict())
}

#[test]
fn answers_stand_where_their_asks_stood() {
    over_transports(&Options::default(), |server| {
        let stream = [hello_frame(1, AUTH), decide_frame(9, 5)].concat();
        let answers = frames(&server.client().exchange(&stream, 1_000));
        let Ok(Message::Decided(decided)) = Message::decode(&answers[1]) else { panic!() };
        assert_eq!((decided.frame(), decided.snapshot()), (9, 3));
        let tokens: Vec<u8> = decided.answers().iter().map(|answer| answer.token()[31]).collect();
        assert_eq!(tokens, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn what_the_gate_refuses_is_told_with_its_frame_and_a_text() {
    over_transports(&Options::default(), |server| {
        let stream = [hello_frame(1, AUTH), resolve_frame(8, 2), books_frame(9, 1)].concat();
        let answers = frames(&server.client().exchange(&stream, 1_000));
        for (answer, (number, reason)) in
            answers[1..].iter().zip([(8, Reason::Busy), (9, Reason::ShuttingDown)])
        {
            let Ok(Message::Refused(refused)) = Message::decode(answer) else { panic!() };
            assert_eq!((refused.frame(), refused.reason()), (number, Some(reason)));
            assert!(refused.detail().unwrap().contains("later"));
        }
    });
}

#[test]
fn pages_of_books_are_bounded_by_batch_and_frame() {
    over_transports(&Options::default(), |server| {
        let stream = [hello_frame(1, AUTH), books_frame(1, 3), books_frame(2, u16::MAX)].concat();
        server.client().exchange(&stream, 1_000);
        let seen = server.seen.lock().unwrap();
        let page = |frame, max| Question::Books { frame, from: 0, max };
        let most = u16::try_from(LIMITS.batch_max).unwrap();
        assert_eq!(seen.questions, [page(1, 3), page(2, most)]);
    });
}

#[test]
fn a_greeting_that_fails_ends_the_connection() {
    over_transports(&Options::default(), |server| {
        let stream = [hello_frame(1, b"guess"), hello_frame(1, AUTH)].concat();
        let answers = frames(&server.client().exchange(&stream, 1_000));
        assert_eq!(answers.len(), 1, "one guess a connection");
        assert_eq!(said(&answers[0]), Said::Refused(Reason::Unauthorised));
    });
}
