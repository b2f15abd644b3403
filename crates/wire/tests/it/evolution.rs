//! Old and new versions of one protocol understand each other: the two schemas under `tests/schema`.

use wire::{EncodeError, FrameError};

/// The protocol in its first version.
#[allow(dead_code, unreachable_pub)] // generated for use as a crate's public face
mod old {
    include!(concat!(env!("OUT_DIR"), "/evolve_old.rs"));
}

/// The same, two versions later.
#[allow(dead_code, unreachable_pub)] // generated for use as a crate's public face
mod new {
    include!(concat!(env!("OUT_DIR"), "/evolve_new.rs"));
}

fn old_frame() -> Result<Vec<u8>, EncodeError> {
    let mut buf = vec![0; old::order::encoded_len(2, 3)];
    let lines = [old::order::Line::new(10, -1), old::order::Line::new(20, 2)];
    let block = old::order::Block::new(7, old::Colour::Green);
    old::order::encode(&mut buf, &block)?.lines(&lines)?.note(b"abc")?.finish();
    Ok(buf)
}

fn new_frame() -> Result<Vec<u8>, EncodeError> {
    let mut buf = vec![0; new::order::encoded_len(2, 3, 5)];
    let lines = [
        new::order::Line::new(10, -1, *b"AAA", i64::MIN),
        new::order::Line::new(20, 2, *b"BBB", 5),
    ];
    let options = new::Options::GIFT_WRAPPED;
    let block = new::order::Block::new(7, new::Colour::Blue, options, new::Colour::Red, [9; 16]);
    new::order::encode(&mut buf, &block)?.lines(&lines)?.note(b"abc")?.greeting("hello")?.finish();
    Ok(buf)
}

#[test]
fn an_old_reader_skips_what_a_new_writer_added() {
    let frame = new_frame().expect("it fits");
    let order = old::Order::decode(&frame).expect("readable");
    assert_eq!((order.frame(), order.note()), (7, &b"abc"[..]));
    assert_eq!((order.colour(), order.colour_raw()), (None, 2), "blue came later");
    let lines: Vec<(u32, i16)> = order.lines().iter().map(|l| (l.item(), l.count())).collect();
    assert_eq!(lines, [(10, -1), (20, 2)]);
    assert_eq!(order.lines().get(1).map(|l| l.item()), Some(20), "by the writer's stride");
    assert_eq!(order.lines().get(2), None);
    assert_eq!(order.lines().as_slice(), None, "the entries are not side by side");
}

#[test]
fn an_old_reader_does_not_know_a_new_message() {
    let mut buf = [0; new::cancel::encoded_len()];
    new::cancel::encode(&mut buf, &new::cancel::Block::new(7)).expect("it fits").finish();
    assert!(matches!(new::Message::decode(&buf), Ok(new::Message::Cancel(_))));
    assert_eq!(old::Message::decode(&buf).err(), Some(FrameError::UnknownTemplate { found: 2 }));
}

#[test]
fn a_new_reader_sees_that_an_old_writer_did_not_send_fields() {
    let frame = old_frame().expect("it fits");
    let order = new::Order::decode(&frame).expect("readable");
    assert_eq!((order.frame(), order.colour()), (7, Some(new::Colour::Green)));
    assert_eq!((order.options(), order.lining(), order.lining_raw()), (None, None, None));
    assert_eq!((order.digest(), order.greeting()), (None, None));
    assert_eq!(order.note(), b"abc");
    assert_eq!(order.lines().as_slice(), None);
    for (line, item) in order.lines().iter().zip([10, 20]) {
        assert_eq!((line.item(), line.tag(), line.price()), (item, None, None));
    }
}

#[test]
fn a_new_reader_sees_all_of_a_new_writer() {
    let frame = new_frame().expect("it fits");
    let order = new::Order::decode(&frame).expect("readable");
    assert_eq!(order.colour(), Some(new::Colour::Blue));
    assert_eq!(order.options().map(new::Options::gift_wrapped), Some(true));
    assert_eq!((order.lining(), order.digest()), (Some(new::Colour::Red), Some(&[9; 16])));
    assert_eq!(order.greeting(), Some(Ok("hello")));
    let lines: Vec<_> = order.lines().iter().map(|l| (l.item(), l.tag(), l.price())).collect();
    assert_eq!(lines, [(10, Some(*b"AAA"), Some(i64::MIN)), (20, Some(*b"BBB"), Some(5))]);
    assert_eq!(order.lines().as_slice().map(<[_]>::len), Some(2));
}

/// A writer of version 2 sends `options`, `lining` and `tag`, but not what came in version 3.
#[test]
fn a_writer_in_between_sends_some() {
    let frame = new_frame().expect("it fits");
    // Cut from the root block: the digest of version 3 (16 bytes); from each line: the price (8 bytes); the greeting.
    let mut between = frame[..14 + 12].to_vec();
    between.extend(17_u16.saturating_sub(8).to_le_bytes());
    between.extend(2_u16.to_le_bytes());
    let lines_at = 14 + 28 + 4;
    between.extend(&frame[lines_at..lines_at + 9]);
    between.extend(&frame[lines_at + 17..lines_at + 26]);
    between.extend(3_u32.to_le_bytes());
    between.extend(b"abc");
    let len = u32::try_from(between.len()).expect("small");
    between[..4].copy_from_slice(&len.to_be_bytes());
    between[6..8].copy_from_slice(&12_u16.to_le_bytes());
    between[12..14].copy_from_slice(&2_u16.to_le_bytes());

    let order = new::Order::decode(&between).expect("readable");
    assert_eq!((order.lining(), order.digest()), (Some(new::Colour::Red), None));
    assert_eq!(order.greeting(), None);
    let lines: Vec<_> = order.lines().iter().map(|l| (l.tag(), l.price())).collect();
    assert_eq!(lines, [(Some(*b"AAA"), None), (Some(*b"BBB"), None)]);
}

/// A frame that says version 3 but has the blocks of version 1: the fields are absent, nothing is read beyond.
#[test]
fn a_short_block_of_a_new_version_has_no_late_fields() {
    let mut frame = old_frame().expect("it fits");
    frame[12..14].copy_from_slice(&3_u16.to_le_bytes());
    frame.extend(0_u32.to_le_bytes()); // version 3 has a greeting
    let len = u32::try_from(frame.len()).expect("small");
    frame[..4].copy_from_slice(&len.to_be_bytes());
    let order = new::Order::decode(&frame).expect("readable");
    assert_eq!((order.options(), order.digest(), order.greeting()), (None, None, Some(Ok(""))));
    assert!(order.lines().iter().all(|l| l.tag().is_none() && l.price().is_none()));
}

/// The reverse: a writer of version 1 whose blocks are longer than its version says. The version decides.
#[test]
fn a_long_block_of_an_old_version_has_no_late_fields() {
    let mut frame = new_frame().expect("it fits");
    frame[12..14].copy_from_slice(&1_u16.to_le_bytes());
    frame.truncate(frame.len() - 4 - 5); // version 1 has no greeting
    let len = u32::try_from(frame.len()).expect("small");
    frame[..4].copy_from_slice(&len.to_be_bytes());
    let order = new::Order::decode(&frame).expect("readable");
    assert_eq!((order.options(), order.lining_raw(), order.digest()), (None, None, None));
    assert_eq!(order.lines().as_slice(), None, "the whole struct would show fields of version 2");
    assert!(order.lines().iter().all(|l| l.tag().is_none() && l.price().is_none()));
}

#[test]
fn trailing_bytes_are_for_newer_writers_only() {
    let mut frame = new_frame().expect("it fits");
    frame.extend([1, 2]);
    let len = u32::try_from(frame.len()).expect("small");
    frame[..4].copy_from_slice(&len.to_be_bytes());
    assert_eq!(new::Order::decode(&frame).err(), Some(FrameError::TrailingBytes { left: 2 }));
    frame[12..14].copy_from_slice(&4_u16.to_le_bytes());
    assert!(new::Order::decode(&frame).is_ok());
}

/// The schema allows 1,000 bytes of note.
#[test]
fn data_may_be_as_long_as_the_schema_says_and_no_longer() {
    let mut frame = vec![0; old::order::encoded_len(0, 1_001)];
    let block = old::order::Block::default();
    let encode = |buf: &mut [u8], note: &[u8]| -> Result<usize, EncodeError> {
        Ok(old::order::encode(buf, &block)?.lines(&[])?.note(note)?.finish())
    };
    let note = [7; 1_001];
    let too_long = EncodeError::TooLong { data: "note", len: 1_001, max: 1_000 };
    assert_eq!(encode(&mut frame, &note), Err(too_long));
    let len = encode(&mut frame, &note[..1_000]).expect("it fits");
    let order = old::Order::decode(&frame[..len]).expect("readable");
    assert_eq!(order.note().len(), 1_000);

    // One byte more, in both lengths.
    let frame_len = u32::try_from(frame.len()).expect("small");
    frame[..4].copy_from_slice(&frame_len.to_be_bytes());
    let at = len - 1_000 - 4;
    frame[at..at + 4].copy_from_slice(&1_001_u32.to_le_bytes());
    let error = FrameError::DataTooLong { data: "note", len: 1_001, max: 1_000 };
    assert_eq!(old::Order::decode(&frame).err(), Some(error));
}

/// The batch protocol itself: version 1 had no request id in the entries of Resolve.
#[test]
fn a_client_of_version_1_gives_its_settlements_no_name() {
    let mut buf = [0; wire::resolve::encoded_len(2)];
    let item = |first, amount| {
        wire::resolve::Item::new([first; 32], amount, wire::Action::Settle, u64::MAX)
    };
    let entries = [item(1, 10), item(2, 20)];
    let block = wire::resolve::Block::new(5);
    wire::resolve::encode(&mut buf, &block)
        .and_then(|e| e.resolves(&entries))
        .expect("it fits")
        .finish();

    let (head, items) = buf.split_at(14 + 8 + 4);
    let mut old = head.to_vec();
    items.chunks(49).for_each(|item| old.extend(&item[..41]));
    let len = u32::try_from(old.len()).expect("small");
    old[..4].copy_from_slice(&len.to_be_bytes());
    old[12..14].copy_from_slice(&1_u16.to_le_bytes());
    old[22..24].copy_from_slice(&41_u16.to_le_bytes());
    let resolve = wire::Resolve::decode(&old).expect("readable");
    let read: Vec<_> = resolve
        .resolves()
        .iter()
        .map(|r| (r.token()[0], r.amount(), r.action(), r.request_id()))
        .collect();
    let settle = Some(wire::Action::Settle);
    assert_eq!(read, [(1, 10, settle, None), (2, 20, settle, None)]);
}

#[test]
fn lengths_of_blocks() {
    assert_eq!((size_of::<old::order::Block>(), size_of::<new::order::Block>()), (9, 28));
    assert_eq!((size_of::<new::order::BlockBase>(), size_of::<new::order::LineBase>()), (9, 6));
}
