//! The spend door while the bank, which is the test, takes its time.

use ledger::spec::MADE_ID_MIN;
use ledger::{Action, MADE_SLOT, Need, No, Owner, TimedRefusal};
use money::Unit;
use weir_budgets::budgets;
use weir_till::{Answer, ApartMessage, Made};

use super::*;
use crate::messages::{BySlot, Piece};

/// More than is in a purse, in dollars and in base units.
const MUCH: (&str, Amount) = ("2000000", Amount::new(2_000_000_000_000));

struct Slow {
    bench: Bench,
    config: Config,
    budgets: Vec<Budget>,
    _folder: tempfile::TempDir,
}

impl Slow {
    fn new() -> Slow {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("budgets.jsonl");
        let lines = [1, 2].map(|id| format!(r#"{{"id":{id},"unit":"USD","limit":"9000000"}}"#));
        std::fs::write(&file, lines.join("\n")).unwrap();
        let budgets = budgets::read(&file).unwrap();
        let config = Config::default();
        let mut bench = Bench::new(&config, &budgets, folder.path()).unwrap();
        bench.wake(1);
        Slow { bench, config, budgets, _folder: folder }
    }

    fn send(&mut self, request: &str) -> String {
        self.bench.spend(request.as_bytes(), |answer| String::from_utf8_lossy(answer).into()).1
    }

    fn post(&mut self, path: &str, body: &str) -> String {
        let len = body.len();
        let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len}");
        self.send(&format!("{head}\r\n\r\n{body}"))
    }

    /// A token of the budget, whose owner the worker then forgets.
    fn foreign(&mut self, budget: u64) -> String {
        let body = format!(r#"{{"budget":{budget},"amount":"1"}}"#);
        let answer = self.post("/v1/reserve", &body);
        let (_, rest) = answer.split_once("\"token\":\"").unwrap();
        let snapshot = snapshot(&self.config, &self.budgets).unwrap();
        let slots = self.budgets.len();
        let paces = vec![Pace::OPEN; slots].into();
        let by_slot = Box::new(BySlot { cells: SlotCells::new(slots), paces });
        self.say(Down::Snapshot(Arc::new(snapshot), by_slot));
        self.turn();
        rest[..43].to_owned()
    }

    fn say(&mut self, message: Down) {
        assert!(self.bench.to_worker.try_send(message).is_ok());
    }

    /// A wake-up ends, and the next begins. What the worker says to the bank, and whether nothing is under way.
    fn turn(&mut self) -> (Vec<Up>, bool) {
        let Bench { worker, unconnected, from_worker, .. } = &mut self.bench;
        let turn = worker.turn(&mut unconnected.outbox());
        let said = std::iter::from_fn(|| from_worker.recv()).collect();
        self.bench.wake(1);
        (said, turn.drained)
    }

    /// The bank has nothing for the ask of this purse, and has answered all that was said.
    fn deny(&mut self, slot: u32, echo: u64) {
        let no = No { from: MUCH.1, ..No::to_all(Verdict::Exhausted) };
        self.say(Down::Ledger(ToWorker::Deny { slot, no }));
        self.say(Down::Ledger(ToWorker::Echo { reply: echo }));
    }
}

/// The asks for money that wait for the bank, and the echo behind them.
fn wants(said: &[Up]) -> (Vec<(u32, Need)>, Option<u64>) {
    let wants = said.iter().filter_map(|message| match message {
        Up::Ledger(ToBank::Want { slot, need }) => Some((*slot, *need)),
        _ => None,
    });
    let echo = said.iter().find_map(|message| match message {
        Up::Ledger(ToBank::Echo { reply }) => Some(*reply),
        _ => None,
    });
    (wants.collect(), echo)
}

/// What becomes of a hold, of so much, and who hears of it.
fn resolve(said: &[Up]) -> Option<(Action, Amount, u64)> {
    said.iter().find_map(|message| match message {
        Up::Ledger(ToBank::Resolve { action, hold, reply, .. }) => {
            Some((*action, hold.amount, *reply))
        }
        _ => None,
    })
}

/// Who wants to know whose a hold is.
fn owner_asked(said: &[Up]) -> u64 {
    let asked = said.iter().find_map(|message| match message {
        Up::Ledger(ToBank::Owner { reply, .. }) => Some(*reply),
        _ => None,
    });
    asked.unwrap()
}

fn owner(budget: u64, reply: u64) -> Down {
    let (slot, unit) = (u32::try_from(budget - 1).unwrap(), Unit::from_code(*b"USD\0"));
    let of = Owner { slot, id: budget, unit: unit.unwrap().unwrap(), billing_ms: 1_000 };
    Down::Ledger(ToWorker::Owner { reply, of: Some(of) })
}

/// Before the first configuration nobody knows which budgets there are; between it and its templates, which handles are theirs. A
/// configuration without budgets is one.
#[test]
fn before_a_configuration_is_in_force_no_budget_is_said_to_be_unknown() {
    let mut slow = Slow::new();
    slow.bench.worker.empty();
    let by_id = r#"{"budget":1,"amount":"1"}"#;
    let by_handle = r#"{"budget":"llm/ann","amount":"1"}"#;
    let look = "GET /v1/budgets/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let health = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let is_early = |answer: String| {
        assert!(
            answer.starts_with("HTTP/1.1 503 ") && answer.contains("Retry-After: 1"),
            "{answer}"
        );
        assert!(answer.contains("not in force yet"), "{answer}");
    };
    let is_unknown = |answer: String| {
        let told = answer.starts_with("HTTP/1.1 404 ") && answer.contains("unknown_budget");
        assert!(told, "{answer}");
    };
    for body in [by_id, by_handle] {
        is_early(slow.post("/v1/reserve", body));
    }
    is_early(slow.send(look));
    is_early(slow.send(health));
    let batch = slow.post("/v1/batch", r#"[{"call":"spend","budget":1,"amount":"1"}]"#);
    assert!(batch.contains(r#""status":503,"body""#) && batch.contains(r#""busy""#), "{batch}");
    assert!(slow.turn().1, "nothing waits, and the bank is asked nothing");

    let none = snapshot(&slow.config, &[]).unwrap();
    let by_slot = Box::new(BySlot { cells: SlotCells::new(0), paces: Box::default() });
    slow.say(Down::Snapshot(Arc::new(none), by_slot));
    slow.turn();
    is_unknown(slow.post("/v1/reserve", by_id));
    is_early(slow.post("/v1/reserve", by_handle));
    is_early(slow.send(health));
    slow.say(Down::Templates(Arc::default()));
    slow.turn();
    is_unknown(slow.post("/v1/reserve", by_handle));
    assert!(slow.send(health).starts_with("HTTP/1.1 200 "));
}

/// A budget of a template that ends while an ask of it waits is made anew: a name that a template matches is never unknown. What was made
/// in its slot meanwhile is another's.
#[test]
fn a_budget_that_ends_while_an_ask_of_it_waits_is_found_anew() {
    let line = br#"{"template":"u/{user}","unit":"USD","limit":"9000000"}"#;
    let opened = |handle: &str, (slot, id): (u32, u64)| {
        let made = Made { slot: MADE_SLOT + slot, id: MADE_ID_MIN + id, unit: *b"USD\0" };
        Down::Opened(handle.into(), Ok(made))
    };
    let asked = |said: &[Up]| said.iter().filter(|message| matches!(message, Up::Open(_))).count();
    // Another budget in its slot; the same one in another slot.
    for (handle, there) in [("u/bob", (0, 2)), ("u/ann", (1, 1))] {
        let mut slow = Slow::new();
        let file = budgets::file_of(Path::new("t.jsonl"), line).unwrap();
        slow.say(Down::Templates(Arc::new(file.templates)));
        slow.turn();
        let ask = r#"{"budget":"u/ann","amount":"1","wait_ms":1000}"#;
        assert_eq!(slow.post("/v1/reserve", ask), "", "it waits");
        assert_eq!(asked(&slow.turn().0), 1);
        slow.say(opened("u/ann", (0, 1)));
        let (wanted, echo) = wants(&slow.turn().0);
        assert_eq!(wanted[0].0, MADE_SLOT);
        slow.say(Down::Ended("u/ann".into()));
        slow.say(opened(handle, there));
        slow.say(Down::Ledger(ToWorker::Echo { reply: echo.unwrap() }));
        let (said, drained) = slow.turn();
        let wants_there = wants(&said).0.iter().any(|(slot, _)| *slot == MADE_SLOT + 1);
        assert!(!drained && (asked(&said) == 1 || wants_there), "{handle}: {said:?}");
    }
}

/// An ask behind a release, in one batch, of whichever budget, waits for its turn for longer than for its money, and the bank says no before.
#[test]
fn an_entry_asks_anew_at_its_turn_for_what_came_back_before_it() {
    for of in [1, 2] {
        let mut slow = Slow::new();
        let token = slow.foreign(of);
        let ask = format!(
            r#"{{"call":"reserve","budget":1,"amount":"{}","confirm":true,"wait_ms":10}}"#,
            MUCH.0
        );
        let batch = format!(r#"[{{"call":"release","token":"{token}"}},{ask}]"#);
        assert_eq!(slow.post("/v1/batch", &batch), "", "it waits");
        let (said, drained) = slow.turn();
        assert!(!drained);
        let asker = owner_asked(&said);
        let (asked, echo) = wants(&said);
        assert_eq!((asked.len(), asked[0].0), (1, 0), "at once");
        slow.deny(0, echo.unwrap());
        assert!(wants(&slow.turn().0).0.is_empty() && slow.bench.from_worker.recv().is_none());
        // The bank is slow to say whose the hold is: this is none of the ask's time.
        slow.bench.wake(1_000);
        slow.say(owner(of, asker));
        let (said, _) = slow.turn();
        let (action, amount, _) = resolve(&said).unwrap();
        assert_eq!((action, amount), (Action::Release, Amount::new(1_000_000)));
        let (asked, echo) = wants(&said);
        assert_eq!((asked.len(), asked[0].0), (1, 0), "once more, behind the release");
        assert_eq!(asked[0].1.called, MUCH.1, "and it waits for the word");
        let (valid_from_ms, valid_until_ms) = (0, u64::MAX);
        let fill =
            ToWorker::Fill { slot: 0, grant: 9, amount: MUCH.1, valid_from_ms, valid_until_ms };
        slow.say(Down::Ledger(fill));
        slow.say(Down::Ledger(ToWorker::Echo { reply: echo.unwrap() }));
        let (action, amount, _) = resolve(&slow.turn().0).unwrap();
        assert_eq!((action, amount), (Action::Confirm, MUCH.1));
    }
}

/// What an entry was told at its turn is final, and without any return what it was told before.
#[test]
fn an_entry_is_told_no_once_at_its_turn() {
    for returns in [true, false] {
        let mut slow = Slow::new();
        let token = slow.foreign(2);
        let first = if returns { "release" } else { "confirm" };
        let batch = format!(
            r#"[{{"call":"{first}","token":"{token}"}},{{"call":"reserve","budget":1,"amount":"{}","wait_ms":1000}}]"#,
            MUCH.0
        );
        assert_eq!(slow.post("/v1/batch", &batch), "");
        let (said, _) = slow.turn();
        let asker = owner_asked(&said);
        let (_, echo) = wants(&said);
        slow.deny(0, echo.unwrap());
        slow.say(owner(2, asker));
        let (said, _) = slow.turn();
        let (_, _, reply) = resolve(&said).unwrap();
        let (_, echo) = wants(&said);
        assert_eq!(echo.is_some(), returns, "asked anew where money came back");
        if let Some(echo) = echo {
            slow.deny(0, echo);
            let (_, echo) = wants(&slow.turn().0);
            assert_eq!(echo, None, "once");
        }
        let resolution = Resolution::refused(Verdict::Released);
        slow.say(Down::Ledger(ToWorker::Resolved { reply, resolution }));
        assert!(slow.turn().1, "both have their outcome");
    }
}

/// Others give money back without end: whoever asks for what is not there is told so all the same, and long before its time is up.
#[test]
fn the_banks_word_is_doubted_a_few_times_and_then_taken() {
    let mut slow = Slow::new();
    let ask = format!(r#"{{"budget":1,"amount":"{}","wait_ms":1000}}"#, MUCH.0);
    assert_eq!(slow.post("/v1/reserve", &ask), "", "it waits");
    let mut questions = 0;
    loop {
        let (said, drained) = slow.turn();
        let (asked, echo) = wants(&said);
        questions += asked.len();
        assert!(questions < 10);
        match echo {
            Some(echo) => slow.deny(0, echo),
            None => {
                assert!(drained, "it is told");
                break;
            }
        }
        slow.bench.worker.counters().returned.note();
    }
    assert_eq!(questions, 3, "once, and for two doubts");
}

#[test]
fn a_stop_waits_for_questions_under_way() {
    let mut slow = Slow::new();
    let look = "GET /v1/budgets/1 HTTP/1.1\r\nHost: localhost\r\n\r\n";
    assert_eq!(slow.send(look), "", "only the bank knows");
    let (said, drained) = slow.turn();
    assert!(!drained && !slow.turn().1, "however long that takes");
    let conn = said.iter().find_map(|message| match message {
        Up::Question { conn, .. } => Some(*conn),
        _ => None,
    });
    let answer = Box::new(Answer::Budget(None));
    slow.say(Down::Answer { conn: conn.unwrap(), answer });
    assert!(slow.turn().1);
}

/// The bank finds the money of several budgets in purses: it is asked again until the call's time is up. What plans let through for it they have
/// again each time.
#[test]
fn an_ask_of_several_budgets_is_repeated_while_purses_have_the_money() {
    let mut once = Pace::OPEN;
    once.take(Amount::new(once.allowance().get() - 1_000_000));
    let slow = || {
        let mut slow = Slow::new();
        slow.say(Down::Paces(Piece { first: 0, paces: vec![Pace::OPEN, once] }));
        slow.turn();
        slow
    };
    let asked = |said: &[Up]| {
        said.iter().find_map(|message| match message {
            Up::Apart(apart) => match &apart.message {
                ApartMessage::Timed(request) => Some(request.reply),
                _ => None,
            },
            _ => None,
        })
    };
    let ask = |wait_ms: u32| format!(r#"{{"budgets":[1,2],"amount":"1","wait_ms":{wait_ms}}}"#);
    for (wait_ms, asks) in [(20, 5..12), (0, 1..2)] {
        let (mut slow, mut count) = (slow(), 0);
        assert_eq!(slow.post("/v1/reserve", &ask(wait_ms)), "", "it waits");
        loop {
            let (said, drained) = slow.turn();
            if drained {
                break;
            }
            let Some(reply) = asked(&said) else { continue };
            count += 1;
            let (why, left) = (Verdict::PurseEmpty, Amount::ZERO);
            let answer = Err(TimedRefusal::Leg { leg: 1, why, left, window: None });
            slow.say(Down::Timed { reply, answer: Box::new(answer) });
        }
        assert!(asks.contains(&count), "{count}");
    }
    let other = slow().post("/v1/reserve", &ask(0).replace("\"1\"", "\"1.000001\""));
    assert!(other.contains("\"paced\"") && other.contains("\"budget\":2"), "{other}");
}
