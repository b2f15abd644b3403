//! The driver of one scenario: what `clients/conform/README.md` says a client's driver does.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use fake_node::Scenario;
use serde_json::{Value, json};
use weir_client::{Action, Amount, Answer, Ask, Client, Decision, Error, Hold, Options, Unit};

type Outcome = Result<(), String>;

/// Plays a scenario to the client.
pub(crate) fn run(scenario: &Scenario, control: SocketAddr) -> Outcome {
    let stream = TcpStream::connect(control).unwrap();
    let mut driver = Driver {
        control: BufReader::new(stream),
        options: scenario.options.clone(),
        nodes: String::new(),
        folder: tempfile::tempdir().unwrap(),
        client: None,
        holds: Arc::default(),
        calls: HashMap::new(),
        seen: Arc::default(),
        logged: Arc::default(),
    };
    let answer = driver.say(&json!({ "play": scenario.name }))?;
    let nodes: Vec<&str> =
        answer["nodes"].as_array().unwrap().iter().map(|node| node.as_str().unwrap()).collect();
    driver.nodes = nodes.join(",");
    for (at, step) in scenario.steps.iter().enumerate() {
        driver.step(step).map_err(|why| format!("step {at}, {step}: {why}"))?;
    }
    drop(driver.client.take());
    let verdict = driver.say(&json!("judge"))?;
    match verdict["passed"] == json!(true) {
        true => Ok(()),
        false => Err(verdict.to_string()),
    }
}

struct Driver {
    control: BufReader<TcpStream>,
    options: Value,
    nodes: String,
    folder: tempfile::TempDir,
    client: Option<Arc<Client>>,
    holds: Arc<Mutex<HashMap<String, Hold>>>,
    calls: HashMap<String, JoinHandle<Outcome>>,
    /// What the hook heard: names of what and verdict.
    seen: Arc<Mutex<Vec<(String, String)>>>,
    logged: Arc<Mutex<Vec<String>>>,
}

fn ms(value: &Value, otherwise: u64) -> Duration {
    Duration::from_millis(value.as_u64().unwrap_or(otherwise))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// What the scenario calls an error.
fn kind(error: &Error) -> &'static str {
    match error {
        Error::Unauthorised(_) => "unauthorised",
        Error::Version(_) => "version",
        Error::WrongDoor(_) => "wrong_door",
        Error::Refused { .. } => "refused",
        Error::Amount(_) => "amount",
        Error::TooLarge { .. } => "too_large",
        Error::Done => "done",
        _ => "another",
    }
}

/// Compares what a call gave with what a step expects.
fn expect(step: &Value, found: &Value) -> Outcome {
    for (name, wanted) in step["expect"].as_object().into_iter().flatten() {
        let fits = match (name.as_str(), wanted) {
            ("verdict", Value::Array(several)) => several.contains(&found["verdict"]),
            ("verdicts", Value::Array(each)) => {
                let places = found["verdicts"].as_array().cloned().unwrap_or_default();
                let fits = |(wanted, found): (&Value, &Value)| match wanted {
                    Value::Array(several) => several.contains(found),
                    one => one == found,
                };
                each.len() == places.len() && each.iter().zip(&places).all(fits)
            }
            _ => *wanted == found[name],
        };
        if !fits {
            return Err(format!("expected {name} {wanted}, found {found}"));
        }
    }
    Ok(())
}

impl Driver {
    fn say(&mut self, order: &Value) -> Result<Value, String> {
        self.control.get_mut().write_all(format!("{order}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.control.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        if answer["ok"] == json!(true) { Ok(answer) } else { Err(answer.to_string()) }
    }

    fn client(&self) -> Result<&Arc<Client>, String> {
        self.client.as_ref().ok_or_else(|| "the client is not open".to_string())
    }

    fn spool(&self) -> PathBuf {
        self.folder.path().join("spool")
    }

    fn step(&mut self, step: &Value) -> Outcome {
        match text(&step["do"]) {
            "open" => self.open(step),
            "close" => self.close(step),
            "order" => self.say(&step["order"]).map(|_| ()),
            "sleep" => {
                std::thread::sleep(ms(&step["ms"], 0));
                Ok(())
            }
            "join" => {
                let call = self.calls.remove(text(&step["call"])).ok_or("no such call")?;
                call.join().unwrap()
            }
            "observed" => self.observed(step),
            "said" => {
                let logged = self.logged.lock().unwrap();
                let is_said = logged.iter().any(|line| line.contains(text(&step["text"])));
                is_said.then_some(()).ok_or_else(|| format!("the log says {logged:?}"))
            }
            "drop" => self.drop_hold(step),
            "drop_if" => {
                self.holds.lock().unwrap().remove(text(&step["hold"]));
                Ok(())
            }
            "detach" => {
                let hold = self.holds.lock().unwrap().remove(text(&step["hold"]));
                hold.ok_or("no such hold")?.into_token();
                Ok(())
            }
            "spool_append" => {
                let mut options = std::fs::OpenOptions::new();
                let mut file = options.append(true).create(true).open(self.spool()).unwrap();
                file.write_all(text(&step["text"]).as_bytes()).unwrap();
                Ok(())
            }
            "spool_pending" => {
                let found = json!({ "count": pending(&self.spool()) });
                expect(&json!({ "expect": { "count": step["count"] } }), &found)
            }
            "amount" => amount(step),
            "format" => {
                let unit = Unit::parse(text(&step["unit"])).unwrap();
                let base = text(&step["base"]).parse().unwrap();
                expect(step, &json!({ "text": unit.format(Amount::new(base)) }))
            }
            call @ ("reserve" | "reserve_all" | "confirm" | "extend" | "settle" | "release") => {
                self.call(call, step)
            }
            unknown => Err(format!("no step is called {unknown:?}")),
        }
    }

    fn open(&mut self, step: &Value) -> Outcome {
        let set = &self.options;
        let (seen, logged) = (Arc::clone(&self.seen), Arc::clone(&self.logged));
        let mut options = Options::new(&self.nodes)
            .deadline(ms(&set["deadline_ms"], 10_000))
            .answer(ms(&set["answer_ms"], 10_000))
            .linger(Duration::from_micros(set["linger_us"].as_u64().unwrap_or(0)))
            .connections(usize::try_from(set["connections"].as_u64().unwrap_or(1)).unwrap())
            .batch_max(usize::try_from(set["batch_max"].as_u64().unwrap_or(0)).unwrap())
            .auth(text(&set["auth"]).as_bytes())
            .hook(move |event| {
                let heard = (event.what.name().to_string(), event.verdict.name().to_string());
                seen.lock().unwrap().push(heard);
            })
            .log(move |line| logged.lock().unwrap().push(line.to_string()));
        if set["spool"] == json!(true) {
            options = options.spool(self.spool());
        }
        let probe = Ask::text(1, "1", "count").unwrap();
        let wanted = step["expect"]["error"].as_str();
        let opened = Client::open(options).and_then(|client| {
            self.client = Some(Arc::new(client));
            match wanted {
                Some(_) => self.client.as_ref().unwrap().reserve(&probe).map(|_| ()),
                None => Ok(()),
            }
        });
        expect(step, &json!({ "error": opened.as_ref().err().map(kind) }))?;
        match wanted {
            Some(_) => Ok(()),
            None => opened.map_err(|error| error.to_string()),
        }
    }

    fn close(&mut self, step: &Value) -> Outcome {
        self.holds.lock().unwrap().clear();
        let client = self.client.take().ok_or("the client is not open")?;
        let client = Arc::try_unwrap(client).map_err(|_| "a call is under way: join it first")?;
        client.close(ms(&step["wait_ms"], 5_000));
        Ok(())
    }

    fn observed(&self, step: &Value) -> Outcome {
        let wanted = (text(&step["what"]).to_string(), text(&step["verdict"]).to_string());
        let seen = self.seen.lock().unwrap();
        let found = seen.iter().filter(|heard| **heard == wanted).count() as u64;
        let fits = match (step["count"].as_u64(), step["min"].as_u64()) {
            (Some(count), _) => found == count,
            (None, min) => found >= min.unwrap_or(1),
        };
        if fits { Ok(()) } else { Err(format!("{found} times, of {seen:?}")) }
    }

    fn drop_hold(&mut self, step: &Value) -> Outcome {
        let before = self.logged.lock().unwrap().len();
        let hold = self.holds.lock().unwrap().remove(text(&step["hold"]));
        drop(hold.ok_or("no such hold")?);
        let logged = self.logged.lock().unwrap().len() - before;
        expect(step, &json!({ "logged": logged }))
    }

    /// A call, beside the next steps or before them.
    fn call(&mut self, call: &str, step: &Value) -> Outcome {
        let (client, holds) = (Arc::clone(self.client()?), Arc::clone(&self.holds));
        let (call, step) = (call.to_string(), step.clone());
        let start = step["start"].as_str().map(str::to_string);
        let run = move || {
            let found = match call.as_str() {
                "reserve" => reserve(&client, &holds, &step),
                "reserve_all" => reserve_all(&client, &holds, &step),
                action => resolve(&holds, action, &step),
            };
            // The client can be closed when the call is joined.
            drop(client);
            let found = found.unwrap_or_else(
                |error| json!({ "error": kind(&error), "text": error.to_string() }),
            );
            if step["expect"]["error"].is_null() && !found["error"].is_null() {
                return Err(found.to_string());
            }
            expect(&step, &found)
        };
        match start {
            Some(name) => drop(self.calls.insert(name, std::thread::spawn(run))),
            None => return run(),
        }
        Ok(())
    }
}

type Holds = Mutex<HashMap<String, Hold>>;

fn ask(step: &Value) -> Result<Ask, Error> {
    let ask = Ask::text(
        step["budget"].as_u64().unwrap_or(0),
        text(&step["amount"]),
        text(&step["unit"]),
    )?;
    Ok(Ask {
        user: step["user"].as_u64().unwrap_or(0),
        request_id: step["request_id"].as_u64().unwrap_or(0),
        retry: step["retry"] == json!(true),
        confirm: step["confirm"] == json!(true),
        pod: u16::try_from(step["pod"].as_u64().unwrap_or(0)).unwrap(),
        deadline: step["deadline_ms"].as_u64().map(Duration::from_millis),
        ..ask
    })
}

/// The same ask of as many callers as the step says, at the same time. Their holds are dropped.
fn reserve_at_once(client: &Client, step: &Value, times: u64) -> Result<Value, Error> {
    let ask = ask(step)?;
    let verdicts = std::thread::scope(|scope| {
        let calls = (0..times).map(|_| scope.spawn(|| Ok(client.reserve(&ask)?.verdict())));
        let calls: Vec<_> = calls.collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect::<Result<Vec<_>, Error>>()
    })?;
    Ok(verdicts_of(verdicts.into_iter().map(|verdict| verdict.name()).collect()))
}

fn reserve(client: &Client, holds: &Holds, step: &Value) -> Result<Value, Error> {
    if let Some(times) = step["times"].as_u64() {
        return reserve_at_once(client, step, times);
    }
    let decision = match step["budget"].as_str() {
        Some(handle) => client.reserve_from(handle, &ask(step)?)?,
        None => client.reserve(&ask(step)?)?,
    };
    let verdict = decision.verdict();
    if let (Decision::Granted(hold), Some(name)) = (decision, step["hold"].as_str()) {
        holds.lock().unwrap().insert(name.to_string(), hold);
    }
    Ok(json!({ "verdict": verdict.name(), "code": verdict.code() }))
}

fn reserve_all(client: &Client, holds: &Holds, step: &Value) -> Result<Value, Error> {
    let asks = step["asks"].as_array().unwrap().iter().map(ask);
    let asks = asks.collect::<Result<Vec<Ask>, Error>>()?;
    let times = usize::try_from(step["times"].as_u64().unwrap_or(1)).unwrap();
    let mut asks = asks.repeat(times);
    if step["pod"] == json!(true) {
        asks.iter_mut().for_each(|ask| ask.pod = 1);
    }
    let mut answers: Vec<Answer> = Vec::new();
    client.reserve_all(&asks, &mut answers)?;
    let mut names = step["holds"].as_array().into_iter().flatten();
    for (ask, answer) in asks.iter().zip(&answers).filter(|(_, answer)| answer.verdict.is_granted())
    {
        let hold = client.hold(ask, answer);
        if let Some(name) = names.next() {
            holds.lock().unwrap().insert(text(name).to_string(), hold);
        }
    }
    Ok(verdicts_of(answers.iter().map(|answer| answer.verdict.name()).collect()))
}

fn verdicts_of(verdicts: Vec<&str>) -> Value {
    let same = verdicts.iter().all(|verdict| Some(verdict) == verdicts.first());
    let all = if same { verdicts.first().copied() } else { None };
    json!({ "verdicts": verdicts, "all": all })
}

fn resolve(holds: &Holds, action: &str, step: &Value) -> Result<Value, Error> {
    let name = text(&step["hold"]);
    let mut hold = holds.lock().unwrap().remove(name).unwrap();
    let wait = ms(&step["wait_ms"], 30_000);
    if action == "extend" {
        let extended = hold.extend_within(ms(&step["confirm_ms"], 0), wait);
        holds.lock().unwrap().insert(name.to_string(), hold);
        let extended = extended?;
        let (verdict, deadline_ms) = (extended.verdict.name(), extended.deadline_ms);
        return Ok(
            json!({ "verdict": verdict, "repeat": extended.repeat, "deadline_ms": deadline_ms }),
        );
    }
    let outcome = match action {
        "confirm" => hold.resolve_within(Action::Confirm, Amount::new(0), wait),
        "release" => hold.resolve_within(Action::Release, Amount::new(0), wait),
        _ => {
            let unit = hold.unit().unwrap();
            let amount = unit.parse_amount(text(&step["amount"])).unwrap();
            hold.resolve_within(Action::Settle, amount, wait)
        }
    };
    holds.lock().unwrap().insert(name.to_string(), hold);
    let outcome = outcome?;
    let (verdict, repeat) = (outcome.verdict, outcome.repeat);
    Ok(json!({ "verdict": verdict.name(), "code": verdict.code(), "repeat": repeat }))
}

fn amount(step: &Value) -> Outcome {
    let unit = Unit::parse(text(&step["unit"])).map_err(|error| error.to_string())?;
    let read = unit.parse_amount(text(&step["text"]));
    let found = match read {
        Ok(amount) => json!({ "base": amount.get().to_string() }),
        Err(_) => json!({ "error": true }),
    };
    expect(step, &found)
}

/// Entries of a spool file that are not done.
fn pending(path: &std::path::Path) -> usize {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let mut open = std::collections::HashSet::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["done", token, action] => drop(open.remove(&(token, action))),
            [action, token, _, _] => drop(open.insert((token, action))),
            _ => {}
        }
    }
    open.len()
}
