//! One message of each kind, with the values of the golden vectors: small ones, largest ones, text beyond ASCII.

use wire::{
    Action, DecideFlags, Eligibility, EncodeError, Reason, ResolvedFlags, Verdict, bid_context,
    books, books_request, decide, decided, extend, extended, find, found, hello, ping, pong,
    refused, resolve, resolved, totals, totals_request, welcome,
};

/// Name of the message (its module) and its whole frame.
pub(crate) type Sample = (&'static str, Vec<u8>);

type Written = Result<usize, EncodeError>;
type Writer = fn(&mut [u8]) -> Written;

/// All messages of the schema, in its order.
pub(crate) fn all() -> Vec<Sample> {
    let writers: [(&'static str, Writer); 18] = [
        ("hello", write_hello),
        ("welcome", write_welcome),
        ("decide", write_decide),
        ("decided", write_decided),
        ("resolve", write_resolve),
        ("resolved", write_resolved),
        ("refused", write_refused),
        ("ping", |buf| Ok(ping::encode(buf, &ping::Block::new(9))?.finish())),
        ("pong", |buf| Ok(pong::encode(buf, &pong::Block::new(9, 1_780_000_000_123))?.finish())),
        ("books_request", |buf| {
            Ok(books_request::encode(buf, &books_request::Block::new(10, 1_001, 512))?.finish())
        }),
        ("books", write_books),
        ("totals_request", |buf| {
            Ok(totals_request::encode(buf, &totals_request::Block::new(u64::MAX))?.finish())
        }),
        ("totals", write_totals),
        ("find", |buf| {
            Ok(find::encode(buf, &find::Block::new(14))?
                .handle("llm/team-42/ann@example")?
                .finish())
        }),
        ("found", |buf| {
            let block = found::Block::new(14, 1 << 62, *b"USDn", Verdict::Granted);
            Ok(found::encode(buf, &block)?.finish())
        }),
        ("extend", |buf| {
            let holds = [extend::Hold::new(token(1), 60_000), extend::Hold::new(token(101), 0)];
            Ok(extend::encode(buf, &extend::Block::new(16))?.holds(&holds)?.finish())
        }),
        ("extended", |buf| {
            let (repeat, none) = (ResolvedFlags::REPEAT, ResolvedFlags::NONE);
            let answers = [
                extended::Answer::new(Verdict::Extended, repeat, 1_780_000_060_000),
                extended::Answer::new(Verdict::BadAmount, none, 0),
            ];
            Ok(extended::encode(buf, &extended::Block::new(16))?.answers(&answers)?.finish())
        }),
        ("bid_context", write_bid_context),
    ];
    writers.into_iter().map(|(name, write)| (name, frame(write))).collect()
}

/// The frame of one sample.
pub(crate) fn named(name: &str) -> Vec<u8> {
    all().into_iter().find(|(n, _)| *n == name).map(|(_, frame)| frame).expect("a sample's name")
}

fn frame(write: Writer) -> Vec<u8> {
    let mut buf = vec![0; 4096];
    let len = write(&mut buf).expect("samples are small");
    buf.truncate(len);
    buf
}

fn token(first: u8) -> [u8; 32] {
    std::array::from_fn(|i| first.wrapping_add(u8::try_from(i).unwrap_or_default()))
}

fn write_hello(buf: &mut [u8]) -> Written {
    let block = hello::Block::new(1, 3, 0xC0FF_EE00_0000_0001);
    Ok(hello::encode(buf, &block)?
        .auth(&[0xDE, 0xAD, 0x00, 0xFF])?
        .name("gateway-7 «Zürich»")?
        .finish())
}

fn write_welcome(buf: &mut [u8]) -> Written {
    let block =
        welcome::Block::new(2, 7, 42, 1_024, 3, 262_144, 2_000, 3_600_000, 1_780_000_000_000);
    Ok(welcome::encode(buf, &block)?.finish())
}

fn write_decide(buf: &mut [u8]) -> Written {
    let asks = [
        decide::Ask::new(1, 1_001, 1_500_000, 77, *b"USD\0", 0, 0),
        decide::Ask::new(u64::MAX, 1_002, i64::MAX, u64::MAX, *b"COUN", u16::MAX, 0),
        decide::Ask::new(3, 0, -1, 0, [0; 4], 1, 0),
    ];
    let flags = DecideFlags::REMEMBER.with(DecideFlags::AWAIT_FILL);
    let block = decide::Block::new(0x0102_0304_0506_0708, flags);
    Ok(decide::encode(buf, &block)?.asks(&asks)?.finish())
}

fn write_decided(buf: &mut [u8]) -> Written {
    let block = decided::Block::new(0x0102_0304_0506_0708, u32::MAX);
    let (answers, encoder) = decided::encode(buf, &block)?.answers_mut(3)?;
    answers[0] = decided::Answer::new(token(1), Verdict::Granted);
    answers[1] = decided::Answer::new([0; 32], Verdict::BadAmount);
    answers[2] = decided::Answer::new([0; 32], Verdict::PurseEmpty);
    Ok(encoder.finish())
}

fn write_resolve(buf: &mut [u8]) -> Written {
    let resolves = [
        resolve::Item::new(token(1), 0, Action::Confirm, 0),
        resolve::Item::new(token(101), 1_499_999, Action::Settle, 0x1122_3344_5566_7788),
        resolve::Item::new(token(224), i64::MIN, Action::Release, u64::MAX),
    ];
    Ok(resolve::encode(buf, &resolve::Block::new(11))?.resolves(&resolves)?.finish())
}

fn write_resolved(buf: &mut [u8]) -> Written {
    let answers = [
        resolved::Answer::new(Verdict::Confirmed, ResolvedFlags::NONE),
        resolved::Answer::new(Verdict::SettledOver, ResolvedFlags::REPEAT),
        resolved::Answer::new(Verdict::BadAction, ResolvedFlags::NONE),
    ];
    Ok(resolved::encode(buf, &resolved::Block::new(11))?.answers(&answers)?.finish())
}

fn write_refused(buf: &mut [u8]) -> Written {
    let block = refused::Block::new(12, Reason::BatchTooLarge);
    Ok(refused::encode(buf, &block)?
        .detail("1,025 entries found, at most 1,024 expected — split it")?
        .finish())
}

fn write_books(buf: &mut [u8]) -> Written {
    let budgets = [
        books::Budget::new(1_001, 1_000_000_000, -5, 3, 2, 1_000_000_000, 4, 1, *b"EUR\0"),
        books::Budget::new(1_002, i64::MAX, i64::MAX, 0, 0, 0, 0, 0, *b"COUN"),
    ];
    let block = books::Block::new(10, 1_780_000_000_456, 1);
    Ok(books::encode(buf, &block)?.budgets(&budgets)?.finish())
}

fn write_totals(buf: &mut [u8]) -> Written {
    let verdicts =
        [totals::Item::new(90, Verdict::Granted), totals::Item::new(u64::MAX, Verdict::Exhausted)];
    let block = totals::Block::new(13, 1_780_000_000_789, 5_000_000_000, 100, 90, 80, 2);
    Ok(totals::encode(buf, &block)?.verdicts(&verdicts)?.finish())
}

fn write_bid_context(buf: &mut [u8]) -> Written {
    let block = bid_context::Block::new(
        1,
        2,
        1_780_000_000_000,
        1_780_000_000_120,
        Eligibility::BANNER.with(Eligibility::CONSENT).with(Eligibility::APP),
        -250_000,
        0xFEED_FACE_CAFE_BEEF,
        4_000_000_000,
        300,
        250,
        *b"EUR\0",
        *b"FR",
        4,
        167,
    );
    let segments =
        [bid_context::Segment::new(10, 65_535), bid_context::Segment::new(4_294_967_295, 1)];
    let caps = [bid_context::Cap::new(5, 1, 3, 1_440)];
    let encoder = bid_context::encode(buf, &block)?.segments(&segments)?.caps(&caps)?;
    Ok(encoder.page("https://example.org/ä?q=1")?.user_agent("")?.finish())
}
