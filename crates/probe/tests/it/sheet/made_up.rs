//! A sheet that no machine ever measured, for tests.

use probe::Nanos;
use probe::sheet::{Alternative, Group, Requests, Row, Sheet};

fn requests(unit: &str, count: u64) -> Requests {
    Requests { unit: unit.to_owned(), count }
}

fn row(name: &str, place: &str, mean: Nanos, count: f64) -> Row {
    Row {
        name: name.to_owned(),
        place: place.to_owned(),
        depth: 0,
        per: requests("ask", 10_000_000),
        count,
        mean,
        p50: None,
        p99: None,
        instructions: None,
        alternative: None,
        justification: None,
    }
}

fn alternative(
    name: &str,
    ours_ns: f64,
    ns: f64,
    (ratio_low, ratio_high): (f64, f64),
) -> Alternative {
    let measured = "2 shared cores, 2026-11-21".to_owned();
    let ratio = ns / ours_ns;
    Alternative { name: name.to_owned(), ours_ns, ns, ratio, ratio_low, ratio_high, measured }
}

fn worker() -> Group {
    let lookup = Row {
        p50: Some(Nanos::new(3.1, 0.2)),
        p99: Some(Nanos::new(41.0, 0.2)),
        instructions: Some(31.4),
        alternative: Some(alternative("HashMap<u64, u32>", 4.0, 20.0, (4.8, 5.3))),
        justification: Some("Five times as fast in batches; `std` cannot prefetch.".to_owned()),
        ..row("table lookup", "src/table.rs", Nanos::new(5.0, 0.2), 1e7)
    };
    let decode = Row {
        justification: Some("Frames are checked once and read in place | no copy.".to_owned()),
        ..row("decode", "src/decode.rs", Nanos::new(25.0, 0.5), 1e7)
    };
    let bounds =
        Row { depth: 1, ..row("bounds checks", "src/decode.rs", Nanos::new(0.3, 0.5), 1e7) };
    let send = Row {
        p99: Some(Nanos::new(18_250.0, 10.0)),
        alternative: Some(alternative("epoll", 900.0, 700.0, (0.7, 0.9))),
        ..row("send", "src/send.rs", Nanos::new(1_200.0, 1.0), 500_000.0)
    };
    Group {
        name: "worker 0".to_owned(),
        cpu_ns: Some(1e9),
        rows: vec![lookup, decode, bounds, send],
    }
}

fn bank() -> Group {
    let booking = Row {
        per: requests("settlement", 0),
        justification: Some("One writer.".to_owned()),
        ..row("booking", "src/bank.rs", Nanos::new(90.0, 3.0), 0.0)
    };
    Group { name: "bank".to_owned(), cpu_ns: Some(2e6), rows: vec![booking] }
}

/// Two groups; rows of every kind and with every flag.
pub(super) fn sheet() -> Sheet {
    Sheet {
        title: "made up".to_owned(),
        machine: "2 shared cores".to_owned(),
        date: "2026-11-21".to_owned(),
        seconds: 2.0,
        requests: requests("ask", 10_000_000),
        groups: vec![worker(), bank()],
        notes: vec!["one turn in 64 was sampled".to_owned()],
    }
}
