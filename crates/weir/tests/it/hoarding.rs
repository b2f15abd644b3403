//! Asks for more than there is, again and again, beside callers who ask for little: who is told that a budget is exhausted, and when.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::spend::{Caller, patient};
use crate::support::{cores, line, over_transports};

/// The callers' connections are spread over the workers by the kernel.
const CALLERS: usize = 8;
const LONGEST: Duration = Duration::from_secs(60);

/// One caller of a team asks for a thousand times what the team has, without a pause. Nobody else hears that the team's money is
/// used up before it is.
#[test]
fn who_asks_for_more_than_there_is_takes_nothing_from_others() {
    let budgets = [
        line(1, "1", ""),
        line(2, "5000", r#","parent":1"#),
        line(3, "5000", r#","parent":1"#),
        line(4, "5000", r#","parent":1"#),
    ]
    .concat();
    let setup = || patient(&budgets).with("workers.cores", &cores(2));
    over_transports(setup, |node| {
        let done = AtomicBool::new(false);
        let mut greedy = [Caller::to(node), Caller::to(node)];
        let mut callers: Vec<Caller> = (0..CALLERS).map(|_| Caller::to(node)).collect();
        std::thread::scope(|scope| {
            for caller in &mut greedy {
                scope.spawn(|| {
                    while !done.load(Relaxed) {
                        let ask = json!({"budget": 2, "amount": "1000", "wait_ms": 5});
                        let (status, answer) = caller.call("reserve", &ask);
                        assert!(matches!(status, 402 | 429), "{answer}");
                    }
                });
            }
            let (mut granted, begun) = (0, Instant::now());
            for at in 0.. {
                let ask = json!({"budget": 3 + at / CALLERS % 2, "amount": "0.01", "wait_ms": 250});
                let (status, answer) = callers[at % CALLERS].call("spend", &ask);
                granted += usize::from(status == 200);
                let is_over = granted == 100 || begun.elapsed() > LONGEST;
                done.fetch_or(is_over, Relaxed);
                if is_over {
                    break;
                }
                assert!(matches!(status, 200 | 429), "after {granted}: {answer}");
            }
            assert_eq!(granted, 100, "all that there is, soon");
            let ask = json!({"budget": 3, "amount": "0.01"});
            let (status, answer) = callers[0].call("spend", &ask);
            assert_eq!((status, &answer["verdict"]), (402, &json!("exhausted")), "{answer}");
        });
    });
}
