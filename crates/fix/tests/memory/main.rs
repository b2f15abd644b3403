//! Reading messages allocates nothing. In a binary of its own, because it counts every allocation of the process; one test, so that
//! nothing else runs beside it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::alloc::System;

use fix::{
    DataFields, Decimal, Dictionary, Envelope, Framing, Index, Sending, Simd, TimestampText,
    Validation,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn allocations() -> usize {
    let stats = ALLOCATOR.stats();
    stats.allocations + stats.reallocations
}

fn made(body: &str) -> Vec<u8> {
    let body = body.replace('|', "\x01");
    let text = format!("8=FIX.4.4\x019={}\x01{body}", body.len());
    let sum = fix::sum(text.as_bytes());
    format!("{text}10={sum:03}\x01").into_bytes()
}

#[test]
fn nothing_allocates_per_message() {
    let messages = [
        made("35=D|49=A|56=B|34=2|52=20261123-10:00:00|11=id|55=MSFT|54=1|38=100|40=2|44=12.5|"),
        made("35=B|49=A|56=B|34=3|52=20261123-10:00:00|95=3|96=a|b|70000=x|0=y|"),
        made("35=B|49=A|56=B|34=3|52=20261123-10:00:00|95=9|96=a|b|"),
        made("35=B|garbled|"),
    ];
    let envelope = Envelope::new("FIX.4.4", "GATE", "VENUE").unwrap();
    let (mut out, mut clock) = (vec![0; 1_000], TimestampText::default());
    let dictionary = Dictionary::fix44();
    let ways: Vec<Simd> = Simd::all().collect();
    for simd in ways {
        let mut index = Index::with(512, simd, DataFields::standard());
        let mut round = || {
            let before = allocations();
            let mut read = 0;
            for message in &messages {
                let Framing::Whole(frame) = fix::frame(message, 1_000) else { continue };
                let Ok(message) = index.read(frame) else { continue };
                read += message.fields().count() + message.find(70_000).unwrap_or(0);
                let price = message.value(44).and_then(|value| Decimal::parse(value).ok());
                read += usize::from(price.is_some());
                read += usize::from(Validation::Full(&dictionary).check(&message).is_ok());
                read += usize::from(Validation::Structure.check(&message).is_ok());
                let time = clock.of_unix_ms(1_795_428_930_123);
                let sending = Sending { seq: 7, time, first_sent: None };
                read += envelope.write(&message, sending, &mut out).unwrap_or(0);
            }
            assert!(read > 20);
            allocations() - before
        };
        // The runner's own thread may allocate beside a round, but hardly beside each of ten.
        let least = (0..10).map(|_| round()).min();
        assert_eq!(least, Some(0), "{}", simd.name());
    }
}
