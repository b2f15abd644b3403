//! The three ways to keep a budget, as a gateway's worker uses them.

use serde_json::{Value, json};

use crate::http::Http;
use crate::provider::Line;
use crate::redis::Redis;
use crate::scene::BUDGET;

/// Where the counter is.
const KEY: &str = "spend:key:team-42";

/// May a call be made?
pub(crate) enum Asked {
    /// Yes; what must be known when its cost is.
    Yes(Pass),
    /// No: the budget is used up, or nobody can say.
    No,
}

/// What a call that may be made carries to its end.
pub(crate) enum Pass {
    /// Nothing is set aside for it.
    Bare,
    /// So many nanos are set aside.
    Reserved(u64),
    /// The token of a hold.
    Hold(String),
}

/// One worker's side of a store.
pub(crate) enum Store {
    /// `INCRBYFLOAT` of an estimate before, of the difference after; `open`: a call passes where the store does not answer.
    Reserve { redis: Redis, open: bool },
    /// The sum is looked at before, and added to after.
    Check { redis: Redis },
    /// Reserve with confirm before, settle after.
    Weir { http: Http, name: String, calls: u64 },
}

impl Store {
    /// `most` is the most that the call can cost.
    pub(crate) fn ask(&mut self, most: u64, line: &mut Line) -> Asked {
        match self {
            Store::Reserve { redis, open } => match reserve(redis, most, line) {
                Ok(true) => Asked::Yes(Pass::Reserved(most)),
                Ok(false) => Asked::No,
                // As LiteLLM: what cannot be reserved is not, unless `fail_closed_budget_enforcement` is set.
                Err(_) if *open => Asked::Yes(Pass::Bare),
                Err(_) => Asked::No,
            },
            Store::Check { redis } => match seeded(redis, line).and_then(|()| spent(redis)) {
                Ok(spent) if spent < dollars(BUDGET) => Asked::Yes(Pass::Bare),
                _ => Asked::No,
            },
            Store::Weir { http, name, calls } => {
                *calls += 1;
                let body = json!({"budget": 1, "amount": most, "unit": "count", "confirm": true});
                let (status, answer) =
                    http.insist("/v1/reserve", &format!("{name}-{calls}"), &body);
                match (status, &answer["token"]) {
                    (200, Value::String(token)) => Asked::Yes(Pass::Hold(token.clone())),
                    _ => Asked::No,
                }
            }
        }
    }

    /// The call is over.
    pub(crate) fn settle(&mut self, pass: Pass, cost: u64) {
        match (self, pass) {
            (Store::Reserve { redis, .. } | Store::Check { redis }, Pass::Bare) => {
                let _ = add(redis, dollars(cost));
            }
            (Store::Reserve { redis, .. }, Pass::Reserved(most)) => {
                let _ = add(redis, dollars(cost) - dollars(most));
            }
            (Store::Weir { http, name, calls }, Pass::Hold(token)) => {
                let body = json!({"token": token, "amount": cost});
                http.insist("/v1/settle", &format!("{name}-{calls}-settle"), &body);
            }
            _ => {}
        }
    }
}

/// Takes the estimate, and gives it back where the budget does not cover it.
fn reserve(redis: &mut Redis, most: u64, line: &mut Line) -> Result<bool, String> {
    seeded(redis, line)?;
    if add(redis, dollars(most))? <= dollars(BUDGET) {
        return Ok(true);
    }
    add(redis, -dollars(most))?;
    Ok(false)
}

/// A counter that is not there begins with what the database knows, as LiteLLM's does.
fn seeded(redis: &mut Redis, line: &mut Line) -> Result<(), String> {
    if redis.ask(&["EXISTS", KEY])?.as_deref() == Some("1") {
        return Ok(());
    }
    let known = dollars(line.say("database", 0)?);
    redis.ask(&["SET", KEY, &known.to_string(), "NX"]).map(|_| ())
}

fn add(redis: &mut Redis, dollars: f64) -> Result<f64, String> {
    let sum = redis.ask(&["INCRBYFLOAT", KEY, &format!("{dollars:.12}")])?;
    sum.and_then(|sum| sum.parse().ok()).ok_or_else(|| "no sum".to_owned())
}

fn spent(redis: &mut Redis) -> Result<f64, String> {
    let sum = redis.ask(&["GET", KEY])?;
    sum.and_then(|sum| sum.parse().ok()).ok_or_else(|| "no sum".to_owned())
}

/// These gateways count dollars in floats.
#[expect(clippy::cast_precision_loss, reason = "the imitated gateways do the same")]
fn dollars(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
