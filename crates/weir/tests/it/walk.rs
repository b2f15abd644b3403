//! `docs/life-of-a-bid.md` shows bytes: they are those that the codec writes today.

use wire::{
    Action, DecideFlags, FrameError, Message, Reason, ResolvedFlags, Verdict, decide, decided,
    refused, resolve, resolved,
};

use crate::client::{Token, decide_frame, encoded, hello_frame, resolve_frame};

const PAGE: &str = include_str!("../../../../docs/life-of-a-bid.md");
const TOKEN: &str = "<the 32 bytes of the token>";

/// The frames of the page, in order, with the token of the answer where the page only names it.
fn frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for block in
        PAGE.split("```").skip(1).step_by(2).filter(|block| block.starts_with("\n00 00 00"))
    {
        let mut frame = Vec::new();
        for line in block.lines() {
            // What a line says of its bytes stands behind a wide gap.
            let shown = line.split("    ").next().unwrap_or_default();
            let (hex, text) = shown.split_once('"').unwrap_or((shown, ""));
            let (named, hex) = match hex.split_once(TOKEN) {
                Some((_, hex)) => (true, hex),
                None => (false, hex),
            };
            if named {
                frame.extend_from_slice(&token(&frames[3]));
            }
            let byte =
                |digits: &str| u8::from_str_radix(digits, 16).unwrap_or_else(|_| panic!("{line}"));
            frame.extend(hex.split_whitespace().map(byte));
            frame.extend_from_slice(text.trim_end_matches('"').as_bytes());
        }
        frames.push(frame);
    }
    frames
}

fn token(decided: &[u8]) -> Token {
    let Ok(Message::Decided(answer)) = Message::decode(decided) else { panic!("no Decided") };
    *answer.answers().get(0).unwrap().token()
}

#[test]
fn the_bytes_of_the_page_are_those_of_the_codec() {
    let frames = frames();
    let [hello, ask, refusal, answer, confirm, confirmed] = &frames[..] else {
        panic!("the page has {} frames, expected 6", frames.len())
    };
    assert_eq!(*hello, hello_with(b"walk"), "Hello");
    let walk = decide::Ask::new(501, 1001, 100_000, 77, *b"USD\0", 0, 0);
    assert_eq!(*ask, decide_frame(7, DecideFlags::default(), &[walk]), "Decide");
    let detail = FrameError::UnknownTemplate { found: 99 }.to_string();
    let refused = encoded(refused::encoded_len(detail.len()), |buf| {
        let block = refused::Block::new(0, Reason::UnknownTemplate);
        Ok(refused::encode(buf, &block)?.detail(&detail)?.finish())
    });
    assert_eq!(*refusal, refused, "Refused");
    let token = token(answer);
    let granted = encoded(decided::encoded_len(1), |buf| {
        let answers = [decided::Answer::new(token, Verdict::Granted)];
        Ok(decided::encode(buf, &decided::Block::new(7, 1))?.answers(&answers)?.finish())
    });
    assert_eq!(*answer, granted, "Decided");
    assert_eq!(&token[..11], [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1], "grant 1, number 0, node 1, key 1");
    assert_eq!(token[16..24], 100_000_i64.to_le_bytes(), "the amount");
    let item = resolve::Item::new(token, 0, Action::Confirm, 0);
    assert_eq!(*confirm, resolve_frame(8, &[item]), "Resolve");
    let sealed = encoded(resolved::encoded_len(1), |buf| {
        let answers = [resolved::Answer::new(Verdict::Confirmed, ResolvedFlags::default())];
        Ok(resolved::encode(buf, &resolved::Block::new(8))?.answers(&answers)?.finish())
    });
    assert_eq!(*confirmed, sealed, "Resolved");
    for (settled, verdict, flags) in [
        ("`21 00`, settled", Verdict::Settled, ResolvedFlags::default()),
        ("repeat flag, `21 01`", Verdict::Settled, ResolvedFlags::REPEAT),
        ("`2b 00`, forged", Verdict::Forged, ResolvedFlags::default()),
    ] {
        let bytes = format!("`{:02x} {:02x}`", verdict.as_raw(), flags.as_raw());
        assert!(settled.contains(&bytes) && PAGE.contains(settled), "{settled}: {bytes}");
    }
}

/// As the page's client says hello: it reads all versions that there are.
fn hello_with(name: &[u8]) -> Vec<u8> {
    let mut frame = hello_frame((wire::SCHEMA_VERSION_MIN, wire::SCHEMA_VERSION), 42, b"");
    // The clients of these tests are called "test", as long a name.
    let at = frame.len() - name.len();
    frame[at..].copy_from_slice(name);
    frame
}
