use std::fmt::Write as _;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Write as _};
use std::process::ExitCode;
use std::thread::JoinHandle;

use gate_pacing::Strategy;
use proptest::prelude::*;
use weir_pace::stdio::{StdioError, StdioOptions, Summary, run};

use crate::engine_market::{Answer, BAD, Bidder, Mail, Market, Notice, Request, Seen};

fn options(strategy: Strategy) -> StdioOptions {
    StdioOptions { strategy, ..StdioOptions::default() }
}

fn say(input: &str) -> Result<(String, Summary), StdioError> {
    let mut output = Vec::new();
    let summary = run(input.as_bytes(), &mut output, &options(Strategy::Asap))?;
    Ok((String::from_utf8(output).unwrap(), summary))
}

#[test]
fn a_conversation() {
    let input = "\
C 7 1000 0
C 8 500 0
GO
T 0 4 0
R a 7:300 8:200
R b 8:400 7:200
R c
R d 7:900 8:0
T 1 3 3
W a 7 250
L b 8
L d 7
R e 7:800
R f 8:500
R a 7:1
T 200 2 2
W a 7 250
W e 7 800
R g 7:1
R h 8:1
END
";
    let (output, summary) = say(input).unwrap();
    // At d, 300 of campaign 7 are held: 900 are not there, and 8 may bid nothing. At a, there is a bid already.
    let expected = "\
a 7 300
b 8 400
c -
d -
e -
f 8 500
a -
g 7 1
h -
";
    // Campaign 7 settles 250, so 750 are left: too little for e.
    assert_eq!(output, expected);
    let expected = Summary {
        requests: 9,
        bids: 4,
        notices: 2,
        repeats: 1,
        unknown: 2,
        debts: 0,
        silence: None,
    };
    assert_eq!(summary, expected);
}

#[test]
fn a_conversation_in_which_nothing_can_be_bid_on_says_why() {
    let told = |setup: &str, batches: &str| {
        let (output, summary) = say(&format!("{setup}GO\n{batches}END\n")).unwrap();
        assert!(summary.bids == 0 && !output.contains(':'), "{output}");
        summary.silence.map(|silence| silence.to_string()).unwrap_or_default()
    };
    let (one, ask) = ("C 1 1000 0\n", "T 5 1 0\nR a 1:10\n");
    let ahead = told("C 1 1000 1\nC 2 1000 3\n", ask);
    assert!(
        ahead.contains("the first at second 86400 (day 1), the last batch is of second 5 (day 0)"),
        "{ahead}"
    );
    let over = told(one, "T 200000 1 0\nR a 1:10\n");
    assert!(
        over.contains(
            "the last ends at second 86400 (day 1), the first batch is of second 200000 (day 2)"
        ),
        "{over}"
    );
    assert!(told("", "T 5 1 0\nR a\n").contains("no campaign stands before GO"));
    assert!(told("C 1 0 0\n", ask).contains("the budget of every campaign is 0"));
    assert!(told(one, "T 5 2 0\nR a 1:0\nR b\n").contains("no request says who may bid"));
    let missed = told("C 1 1000 0\nC 2 1000 1\n", "T 5 1 0\nR a 2:10\nT 90000 1 0\nR b 1:10\n");
    assert!(missed.contains("during the day of its flight"), "{missed}");
    // Nothing was asked; or all that could be bid on was too dear.
    assert_eq!(told(one, ""), "");
    assert_eq!(told(one, "T 5 1 0\nR a 1:2000\n"), "");
}

#[test]
fn a_win_may_come_long_after_the_bid_was_forgotten() {
    let input = "C 1 1000 0\nGO\nT 0 1 0\nR a 1:1000\nT 50000 1 0\nR b 1:1\nT 80000 1 1\nW a 1 400\nR c 1:600\nEND\n";
    let (output, summary) = say(input).unwrap();
    assert_eq!(output, "a 1 1000\nb -\nc 1 600\n", "held until the notice, then the rest is free");
    assert_eq!((summary.notices, summary.debts), (1, 0));
}

#[test]
fn contradictory_notices_are_judged_alike_in_any_order() {
    let ask = |notices: &str| {
        let input =
            format!("C 1 1000 0\nGO\nT 0 1 0\nR a 1:1000\nT 1 1 3\n{notices}R b 1:700\nEND\n");
        say(&input).unwrap()
    };
    let one = ask("L a 1\nW a 1 200\nW a 1 400\n");
    assert_eq!(one, ask("W a 1 400\nW a 1 200\nL a 1\n"));
    assert_eq!(one.0, "a 1 1000\nb -\n", "the dearest counts");
}

#[test]
fn days_may_be_numbers_or_dates() {
    for (first_day, second, bid) in [
        (0, 0, true),
        (0, 86_399, true),
        (0, 86_400, false),
        (1, 0, false),
        (1, 86_400, true),
        (20_000, 0, true),
    ] {
        let input = format!("C 1 9 {first_day}\nGO\nT {second} 1 0\nR a 1:5\nEND\n");
        let expected = if bid { "a 1 5\n" } else { "a -\n" };
        assert_eq!(say(&input).unwrap().0, expected, "day {first_day}, second {second}");
    }
}

#[test]
fn the_last_of_all_times_can_be_reached() {
    let input =
        "C 1 9 1000000\nC 2 9 0\nGO\nT 0 1 0\nR a 1:5\nT 100000000000 1 0\nR b 1:1 2:1\nEND\n";
    assert_eq!(say(input).unwrap().0, "a -\nb -\n");
}

#[test]
fn an_end_is_an_end() {
    assert_eq!(say("END\nwhatever").unwrap(), (String::new(), Summary::default()));
    assert_eq!(say("GO\nEND\n").unwrap(), (String::new(), Summary::default()));
}

#[test]
fn a_bad_line_before_the_day_is_refused() {
    let p = |value: &str| vec![value; 1_441].join(" ");
    let falls = format!("2 {}", p("1"));
    let falls = falls.rsplit_once(' ').unwrap().0.to_owned();
    let setup = "C 1 1000 0\n";
    judge_refusals([
        ("X 1".to_owned(), "line 1: found \"X\", expected C, P, F, L, GO or END"),
        (
            "C 1 1000\n".to_owned(),
            "line 1: the line ends, expected the number of its first day, 0 to 1,000,000",
        ),
        ("C 1 -5 0\n".to_owned(), "line 1: found \"-5\", expected a budget in micros, 0 to 10^18"),
        ("C 1 1 0 9\n".to_owned(), "line 1: found \"9\" where the line should end"),
        (format!("{setup}{setup}"), "line 2: a second C line for campaign 1"),
        (format!("L 2 0.5:1\n{setup}GO\n"), "line 1: campaign 2 has no C line"),
        (
            format!("{setup}P 1 0 0.5 1\n"),
            "line 2: the line ends, expected 1,441 cumulative values, one at each end of a minute",
        ),
        (
            format!("{setup}P 1 {}\n", p("0.5")),
            "line 2: the plan stays at 0.5; expected cumulative shares that rise from the first to the last value",
        ),
        (
            format!("{setup}F 1 {falls}\n"),
            "line 2: value 1 of the table is less than the one before it; expected cumulative values",
        ),
        (
            format!("{setup}F 1 nan\n"),
            "line 2: found \"nan\", expected 1,441 cumulative values, one at each end of a minute",
        ),
        (
            format!("{setup}L 1 2:1\n"),
            "line 2: found \"2:1\", expected multiplier:spend, as in 0.25:310.5, the multiplier above 0 and at most 1",
        ),
        (
            format!("{setup}L 1 0.5:2 0.6:1\n"),
            "line 2: landscape: the spend of point 1 is below the one before, expected that it never falls",
        ),
    ]);
}

#[test]
fn a_bad_line_of_the_day_is_refused() {
    let setup = "C 1 1000 0\n";
    let play = "C 1 1000 0\nGO\nT 5 1 0\n";
    let long = "x".repeat(65);
    judge_refusals([
        (format!("{setup}GO\nGO\n"), "line 3: found \"GO\", expected T or END"),
        (format!("{play}T 5 0 0\n"), "line 4: found \"T\", expected R, a request"),
        (
            format!("{play}R\n"),
            "line 4: the line ends, expected the id of a request, at most 64 bytes",
        ),
        (
            format!("{play}R {long} 1:1\n"),
            "line 4: found \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", expected the id of a request, at most 64 bytes",
        ),
        (format!("{play}R a 1:1 2:5\n"), "line 4: campaign 2 has no C line"),
        (
            format!("{play}R a 1:1.5\n"),
            "line 4: found \"1:1.5\", expected campaign:value, the value in micros, 0 to 10^15",
        ),
        (
            format!("{play}R a 1:1\nT 4 0 0\n"),
            "line 5: second 4 comes after second 5; expected seconds that do not fall",
        ),
        (format!("{setup}GO\nT 5 0 1\nR a 1:1\n"), "line 4: found \"R\", expected W or L"),
        (
            format!("{setup}GO\nT 5 0 1\nW a 1\n"),
            "line 4: the line ends, expected a price in micros",
        ),
        (format!("{setup}GO\nT 5 0 1\nL a 9\n"), "line 4: campaign 9 has no C line"),
    ]);
}

fn judge_refusals<const N: usize>(table: [(String, &str); N]) {
    for (input, expected) in table {
        let error = say(&input).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.exit_code(), ExitCode::from(2), "{expected}");
    }
}

#[test]
fn an_input_that_just_ends_is_a_failure() {
    for (input, expected) in [
        ("", "the input ends after line 0, expected C, P, F, L, GO or END"),
        ("GO\nT 0 1 0\n", "the input ends after line 2, expected a line R, a request"),
        ("GO\nT 0 0 0\n", "the input ends after line 2, expected T or END"),
    ] {
        let error = say(input).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.exit_code(), ExitCode::from(1));
    }
}

#[test]
fn options_are_checked() {
    let workers = StdioOptions { workers: 0, ..options(Strategy::Asap) };
    let error = run(&b"GO\nEND\n"[..], Vec::new(), &workers).unwrap_err();
    assert_eq!(error.to_string(), "0 workers, expected 1 to 16");
}

/// `weir pace --stdio` in a thread, spoken to as an outside program does.
struct Talk {
    input: Option<PipeWriter>,
    output: BufReader<PipeReader>,
    thread: Option<JoinHandle<Result<Summary, StdioError>>>,
    late: Vec<Notice>,
}

impl Talk {
    fn new(options: StdioOptions, budgets: &[i64]) -> Talk {
        let (from, mut input) = std::io::pipe().unwrap();
        let (output, to) = std::io::pipe().unwrap();
        let thread = std::thread::spawn(move || run(BufReader::new(from), to, &options));
        let mut setup = String::new();
        for (id, budget) in budgets.iter().enumerate() {
            let shares: Vec<String> =
                (0..=1_440).map(|minute| format!("{:.6}", f64::from(minute) / 1_440.0)).collect();
            let counts: Vec<String> =
                (0..=1_440).map(|minute| format!("{}", f64::from(minute) * 3.6)).collect();
            let points: Vec<String> =
                (1..=16).map(|i| format!("{}:{}", f64::from(i) / 16.0, i * i)).collect();
            writeln!(
                setup,
                "L {id} {}\nP {id} {}\nC {id} {budget} 0\nF {id} {}",
                points.join(" "),
                shares.join(" "),
                counts.join(" ")
            )
            .unwrap();
        }
        setup.push_str("GO\n");
        input.write_all(setup.as_bytes()).unwrap();
        let output = BufReader::new(output);
        Talk { input: Some(input), output, thread: Some(thread), late: Vec::new() }
    }

    fn end(mut self) -> Summary {
        let mut input = self.input.take().unwrap();
        input.write_all(b"END\n").unwrap();
        self.thread.take().unwrap().join().unwrap().unwrap()
    }
}

impl Bidder for Talk {
    fn batch(&mut self, second: u64, notices: &[Notice], requests: &[Request]) -> Vec<Answer> {
        let late = std::mem::take(&mut self.late);
        let mut text = format!("T {second} {} {}\n", requests.len(), notices.len() + late.len());
        for notice in late.iter().chain(notices) {
            let Notice { request, campaign, paid } = notice;
            match paid {
                Some(paid) => writeln!(text, "W {request:x} {campaign} {paid}").unwrap(),
                None => writeln!(text, "L {request:x} {campaign}").unwrap(),
            }
        }
        for request in requests {
            write!(text, "R {:x}", request.id).unwrap();
            request.eligible.iter().for_each(|(id, value)| write!(text, " {id}:{value}").unwrap());
            text.push('\n');
        }
        self.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        let mut read = |request: &Request| {
            line.clear();
            self.output.read_line(&mut line).unwrap();
            let words: Vec<&str> = line.split_whitespace().collect();
            assert_eq!(words[0], format!("{:x}", request.id));
            match words[1..] {
                ["-"] => None,
                [campaign, bid] => Some((campaign.parse().unwrap(), bid.parse().unwrap())),
                _ => panic!("{line:?}"),
            }
        };
        requests.iter().map(&mut read).collect()
    }

    /// The protocol has no billing file: what was billed comes as late notices.
    fn reconcile(&mut self, _: u64, billed: &[Notice]) {
        self.late.extend(billed);
    }
}

const BUDGETS: [i64; 3] = [900_000, 200_000, 3_000];

fn play(market: Market, options: StdioOptions) -> (Seen, Summary) {
    let mut talk = Talk::new(options, &BUDGETS);
    let seen = market.run(&mut talk);
    (seen, talk.end())
}

fn part(seed: u64, mail: Mail) -> Market {
    Market { seconds: 20_000, ..Market::new(seed, mail, &BUDGETS) }
}

#[test]
fn a_day_is_spent_and_not_overspent() {
    for strategy in Strategy::ALL {
        let (seen, summary) = play(Market::new(5, BAD, &BUDGETS), options(strategy));
        // A bid whose loss is never told stays held, so the last bit of the budget does too.
        assert!(
            seen.spent[0] >= 750_000 && seen.spent[1] >= 150_000,
            "{strategy}: {:?}",
            seen.spent
        );
        assert_eq!((summary.unknown, summary.debts), (0, 0));
        assert!(summary.repeats > 100, "{summary:?}");
    }
}

const LINE: &str =
    "[CPFLTWR] [0-9 :.]{0,20}|GO|END|T [0-3] [0-2] [0-2]|R a 1:[0-9]{1,5}|C 1 [0-9]{1,6} 0";

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn answers_depend_on_requests_and_notices_only(seed: u64, order: u64, workers in 2_u16..=16,
                                                   strategy in 0..Strategy::ALL.len()) {
        let options = options(Strategy::ALL[strategy]);
        let (plain, _) = play(part(seed, BAD), options.clone());
        let shuffled = Market { shuffle: Some(order), ..part(seed, BAD) };
        let (other, summary) = play(shuffled, StdioOptions { workers, ..options });
        prop_assert!(plain == other);
        prop_assert_eq!(summary.debts, 0);
    }

    /// Whatever comes in, the answer is an answer or an error.
    #[test]
    fn no_input_breaks_it(lines in prop::collection::vec(LINE, 0..12)) {
        let _ = say(&lines.join("\n"));
    }
}
