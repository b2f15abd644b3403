//! What holds for every message and every mutation.

use proptest::collection::vec;
use proptest::prelude::*;
use wire::{
    Action, Books, BooksRequest, Decide, Decided, EncodeError, Message, Ping, Pong, Resolve,
    Resolved, Totals, TotalsRequest, Welcome, books, books_request, decide, decided, ping, pong,
    resolve, resolved, totals, totals_request, welcome,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::{corpus, samples};

/// A block or entry of any content: each bit pattern is a value.
pub(crate) fn any_value<T: FromBytes + std::fmt::Debug>() -> impl Strategy<Value = T> {
    vec(any::<u8>(), size_of::<T>())
        .prop_map(|bytes| T::read_from_bytes(&bytes).expect("exactly as long"))
}

/// Round trip of a message that is a block, or a block and one group.
macro_rules! round_trip {
    ($test:ident, $view:ident) => {
        proptest! {
            #[test]
            fn $test(block in any_value::<$test::Block>()) {
                let mut buf = vec![0xAA; $test::encoded_len()];
                let len = $test::encode(&mut buf, &block)?.finish();
                prop_assert_eq!(len, buf.len());
                let view = $view::decode(&buf)?;
                prop_assert_eq!(view.block().as_bytes(), block.as_bytes());
            }
        }
    };
    ($test:ident, $view:ident, $group:ident, $entry:ident) => {
        proptest! {
            #[test]
            fn $test(
                block in any_value::<$test::Block>(),
                entries in vec(any_value::<$test::$entry>(), 0..40),
                short in any::<prop::sample::Index>(),
            ) {
                let mut buf = vec![0xAA; $test::encoded_len(entries.len())];
                let len = $test::encode(&mut buf, &block)?.$group(&entries)?.finish();
                prop_assert_eq!(len, buf.len());
                let view = $view::decode(&buf)?;
                prop_assert_eq!(view.block(), &block);
                prop_assert_eq!(view.$group().as_slice(), Some(entries.as_slice()));
                prop_assert_eq!(view.$group().len(), entries.len());
                prop_assert!(view.$group().iter().eq(entries.iter()));
                for (i, entry) in entries.iter().enumerate() {
                    prop_assert_eq!(view.$group().get(i), Some(entry));
                }
                prop_assert_eq!(view.$group().get(entries.len()), None);
                let mut short = vec![0; short.index(buf.len())];
                let full = $test::encode(&mut short, &block)
                    .and_then(|e| e.$group(&entries))
                    .map(|_| ());
                let is_full = matches!(full, Err(EncodeError::Full { .. }));
                prop_assert!(is_full);
            }
        }
    };
}
pub(crate) use round_trip;

round_trip!(welcome, Welcome);
round_trip!(ping, Ping);
round_trip!(pong, Pong);
round_trip!(books_request, BooksRequest);
round_trip!(totals_request, TotalsRequest);
round_trip!(decide, Decide, asks, Ask);
round_trip!(decided, Decided, answers, Answer);
round_trip!(resolved, Resolved, answers, Answer);
round_trip!(books, Books, budgets, Budget);
round_trip!(totals, Totals, verdicts, Item);

proptest! {
    /// Its entries have a field of version 2: readers see views.
    #[test]
    fn resolve(
        block in any_value::<resolve::Block>(),
        entries in vec(any_value::<resolve::Item>(), 0..40),
    ) {
        let mut buf = vec![0xAA; resolve::encoded_len(entries.len())];
        let len = resolve::encode(&mut buf, &block)?.resolves(&entries)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = Resolve::decode(&buf)?;
        prop_assert_eq!(view.block(), &block);
        prop_assert_eq!(view.resolves().as_slice(), Some(entries.as_slice()));
        let again = view.resolves().iter().map(|r| {
            let mut item =
                resolve::Item::new(*r.token(), r.amount(), Action::Settle, r.request_id().expect("version 2"));
            item.set_action_raw(r.action_raw());
            item
        });
        prop_assert!(again.eq(entries.iter().copied()));
    }

    #[test]
    fn hello(block in any_value::<wire::hello::Block>(), auth in vec(any::<u8>(), 0..99), name in ".{0,30}") {
        let mut buf = vec![0xAA; wire::hello::encoded_len(auth.len(), name.len())];
        let len = wire::hello::encode(&mut buf, &block)?.auth(&auth)?.name(&name)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = wire::Hello::decode(&buf)?;
        prop_assert_eq!((view.block(), view.auth(), view.name()), (&block, auth.as_slice(), Ok(name.as_str())));
    }

    #[test]
    fn refused(block in any_value::<wire::refused::Block>(), detail in ".{0,60}") {
        let mut buf = vec![0xAA; wire::refused::encoded_len(detail.len())];
        wire::refused::encode(&mut buf, &block)?.detail(&detail)?.finish();
        let view = wire::Refused::decode(&buf)?;
        prop_assert_eq!((view.block(), view.detail()), (&block, Ok(detail.as_str())));
    }

    #[test]
    fn bid_context(
        block in any_value::<wire::bid_context::Block>(),
        segments in vec(any_value::<wire::bid_context::Segment>(), 0..40),
        caps in vec(any_value::<wire::bid_context::Cap>(), 0..40),
        texts in (".{0,60}", ".{0,60}"),
    ) {
        let (page, agent) = (&texts.0, &texts.1);
        let mut buf =
            vec![0xAA; wire::bid_context::encoded_len(segments.len(), caps.len(), page.len(), agent.len())];
        let encoder = wire::bid_context::encode(&mut buf, &block)?.segments(&segments)?.caps(&caps)?;
        let len = encoder.page(page)?.user_agent(agent)?.finish();
        prop_assert_eq!(len, buf.len());
        let view = wire::BidContext::decode(&buf)?;
        prop_assert_eq!(view.block(), &block);
        prop_assert_eq!(view.segments().as_slice(), Some(segments.as_slice()));
        prop_assert_eq!(view.caps().as_slice(), Some(caps.as_slice()));
        prop_assert_eq!((view.page(), view.user_agent()), (Ok(page.as_str()), Ok(agent.as_str())));
    }

    /// Any few bytes changed, anywhere, with and without a true length in front.
    #[test]
    fn mutations_never_panic(
        sample in 0..14_usize,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
        mend in any::<bool>(),
    ) {
        let mut frame = samples::all().swap_remove(sample).1;
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        if let Some(cut) = cut {
            frame.truncate(cut.index(frame.len()));
        }
        if mend && frame.len() >= 6 {
            let len = u32::try_from(frame.len()).expect("small");
            frame[..4].copy_from_slice(&len.to_be_bytes());
            frame[4..6].copy_from_slice(&wire::ENCODING_TYPE.to_be_bytes());
        }
        corpus::checks::frame_decode(&frame);
    }

    /// Random bytes, bare and behind sound headers of a random template.
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..300), template in 0..25_u16, block in 0..99_u16) {
        corpus::checks::frame_decode(&bytes);
        corpus::checks::frame_stream(&bytes);
        let len = u32::try_from(14 + bytes.len()).expect("small");
        let headers = [
            &len.to_be_bytes()[..],
            &wire::ENCODING_TYPE.to_be_bytes(),
            &block.to_le_bytes(),
            &template.to_le_bytes(),
            &wire::SCHEMA_ID.to_le_bytes(),
            &wire::SCHEMA_VERSION.to_le_bytes(),
        ];
        corpus::checks::frame_decode(&[&headers.concat(), bytes.as_slice()].concat());
    }
}

#[test]
fn groups_and_data_have_limits() {
    let mut buf = vec![0; 65_535 * 9 + 100];
    let block = wire::totals::Block::default();
    let too_many =
        wire::totals::encode(&mut buf, &block).and_then(|e| e.verdicts_mut(65_535).map(|_| ()));
    assert_eq!(
        too_many,
        Err(EncodeError::TooMany { group: "verdicts", count: 65_535, max: 65_534 })
    );
    let most =
        wire::totals::encode(&mut buf, &block).and_then(|e| e.verdicts_mut(65_534).map(|_| ()));
    assert_eq!(most, Ok(()));

    let detail = "x".repeat(1_048_577);
    let mut buf = vec![0; wire::refused::encoded_len(detail.len())];
    let block = wire::refused::Block::default();
    let too_long =
        wire::refused::encode(&mut buf, &block).and_then(|e| e.detail(&detail).map(|_| ()));
    assert_eq!(
        too_long,
        Err(EncodeError::TooLong { data: "detail", len: 1_048_577, max: 1_048_576 })
    );
}

#[test]
fn absurd_counts_do_not_wrap() {
    assert_eq!(wire::decide::encoded_len(usize::MAX), usize::MAX);
    assert!(Message::decode(&[]).is_err());
}
