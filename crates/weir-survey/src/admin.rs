//! The admin door: what the crate `watch` shows and changes, and calls for tools beside it: counters and balances (`/stat`,
//! `/books`, `/why`), what the node costs (`/costs`), updates of users' segments (`/profiles`), reconciliation.

use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender as Commands};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use clap::ValueEnum;
use door_fix::gate::desk::FixDesk;
use door_keys::gate::desk::KeysDesk;
use door_transport::Handle;
use figures_store::Desk;
use gate_auction::Fates;
use gate_profile::{Profiles, UpdateError};
use ledger::{Amount, WindowKind, WindowLimit};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use watch::ProblemKind;
use weir_config::config::Config;
use weir_config::doors::ADMIN;
use weir_door::{Tokens, WorkerCounters};
use weir_node::bank::reconcile::{self, Booking, Failure, Fault, Freed, NotSealed, Outcome};
use weir_node::bank::{AboutBudget, BooksPage, Command, Report, ask};
use weir_node::doors::DOORS;
use weir_node::measured::Sources;
use weir_node::pulse::Pulse;
use weir_node::reconcile_file::Row;
use weir_node::start::Engine;
use weir_pacer::Standing;
use weir_till::BookLine;

use crate::StartError;
use crate::alerts::{self, AlertCounts};
use crate::costs::metrics::Metrics;
use crate::costs::{self, Format, SECONDS_MAX, SECONDS_MIN};
use crate::counted::{FileCounts, Registry};
use crate::pace_text;
use crate::reload::{NotReloaded, Reloader};

/// How long an answer of a worker is waited for.
const WORKERS_WAIT: Duration = Duration::from_secs(5);
/// Bytes of a reconciliation file.
const RECONCILE_BYTES_MAX: usize = 256 << 20;
/// Rows of `/books` in one answer.
const BOOKS_MAX: usize = 1_000;
/// Cost sheets that may be made at once: each takes a thread and some memory while it is measured.
const COSTS_MAX: usize = 4;

/// What the admin door knows without asking the bank.
#[derive(Clone, Debug)]
pub(crate) struct Status(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    node: u16,
    started: Instant,
    /// Where the workers' doors listen, by place; `None` for one that is off.
    doors: Vec<Option<SocketAddr>>,
    handles: Vec<Handle>,
    counters: Vec<Arc<WorkerCounters>>,
    pulse: Arc<Pulse>,
    figures: Desk,
    profiles: Profiles,
    fix: Option<FixDesk>,
    vault: Option<KeysDesk>,
    survey_every: u64,
    sources: Arc<Sources>,
    metrics: Metrics,
    costs: Arc<Semaphore>,
    alerts: Arc<AlertCounts>,
    budgets: Mutex<BudgetsStatus>,
    /// When the configuration was last refused, ms since 1970 UTC, and its first error.
    reload_refused: Mutex<Option<(u64, String)>>,
    /// As it is in force.
    config: Mutex<Config>,
    /// Where the log is on other machines: this node's budgets file and the one that was in force when this run began are not the same.
    files_differ: AtomicBool,
    /// The configuration was read again since the watcher looked.
    is_reloaded: AtomicBool,
}

/// How the budgets file stands.
#[derive(Debug, Default)]
struct BudgetsStatus {
    names: HashMap<u64, String>,
    counts: FileCounts,
    errors: Vec<String>,
    /// When the errors were found, ms since 1970 UTC.
    refused_ms: Option<u64>,
    /// Why no budget is in force: the file was refused at the start, and none was taken since.
    none_in_force: Option<String>,
}

impl Status {
    /// For a node that runs.
    pub(crate) fn new(config: &Config, engine: &Engine) -> Status {
        Status(Arc::new(Shared {
            node: config.node.id,
            started: Instant::now(),
            doors: engine.addresses().map(|(_, address)| address).collect(),
            handles: engine.handles().to_vec(),
            counters: engine.counters().to_vec(),
            pulse: Arc::clone(engine.pulse()),
            figures: engine.figures().clone(),
            profiles: engine.profiles().clone(),
            fix: engine.fix().cloned(),
            vault: engine.vault().cloned(),
            survey_every: config.openrtb.survey_every,
            metrics: Metrics::new(Arc::clone(engine.sources())),
            sources: Arc::clone(engine.sources()),
            costs: Arc::new(Semaphore::new(COSTS_MAX)),
            alerts: Arc::default(),
            reload_refused: Mutex::default(),
            budgets: Mutex::default(),
            config: Mutex::new(config.clone()),
            files_differ: AtomicBool::new(false),
            is_reloaded: AtomicBool::new(false),
        }))
    }

    /// Returns where the workers' doors listen, by place; `None` for one that is off.
    pub(crate) fn doors(&self) -> &[Option<SocketAddr>] {
        &self.0.doors
    }

    /// A set of budgets is in force.
    pub(crate) fn configured(&self, names: HashMap<u64, String>) {
        let mut budgets = self.budgets();
        budgets.names = names;
        budgets.counts.loads += 1;
        budgets.errors.clear();
        budgets.refused_ms = None;
        budgets.none_in_force = None;
    }

    /// No set of budgets is in force yet; these are the names of the last one.
    pub(crate) fn last_names(&self, names: HashMap<u64, String>) {
        self.budgets().names = names;
    }

    /// Gives budgets that nobody configures the names that they had in the last set in force.
    pub(crate) fn give_names(&self, unnamed: &mut [watch::Budget]) {
        let budgets = self.budgets();
        for budget in unnamed {
            if let Some(name) = budgets.names.get(&budget.id) {
                budget.name = name.as_str().into();
            }
        }
    }

    /// A set of budgets was refused.
    pub(crate) fn refused(&self, errors: Vec<String>, at: money::Instant) {
        let mut budgets = self.budgets();
        budgets.refused_ms = Some(at.ms());
        budgets.counts.refused += 1;
        budgets.errors = errors;
    }

    /// The file was refused at the start, so that there are no budgets to go on with.
    pub(crate) fn refused_at_start(&self, why: String) {
        self.budgets().none_in_force = Some(why);
    }

    /// Are budgets in force, as far as a file was there at the start?
    ///
    /// # Errors
    /// The file was refused at the start, and none was taken since; for people.
    pub(crate) fn check_budgets(&self) -> Result<(), String> {
        self.budgets().none_in_force.clone().map_or(Ok(()), Err)
    }

    /// Was a set of budgets taken in this run? Until then nothing may be spent.
    pub(crate) fn is_in_force(&self) -> bool {
        self.budgets().counts.loads > 0
    }

    /// How the budgets file stands, with at most so many errors.
    pub(crate) fn budgets_file(&self, errors_max: usize) -> Value {
        let budgets = self.budgets();
        let errors: Vec<&String> = budgets.errors.iter().take(errors_max).collect();
        json!({
            "in_force": budgets.counts.loads > 0,
            "refused_ms": budgets.refused_ms,
            "more_errors": budgets.errors.len() - errors.len(),
            "errors": errors,
        })
    }

    pub(crate) fn counters(&self) -> &[Arc<WorkerCounters>] {
        &self.0.counters
    }

    /// The files that are refused at present, by name, with when that was and the first error.
    pub(crate) fn refused_files(&self) -> [(&'static str, Option<(u64, String)>); alerts::FILES] {
        let budgets = self.budgets();
        let error = budgets.errors.first().cloned().unwrap_or_default();
        let reload = self.0.reload_refused.lock().unwrap_or_else(PoisonError::into_inner).clone();
        [("budgets", budgets.refused_ms.map(|at_ms| (at_ms, error))), ("configuration", reload)]
    }

    /// Notes what became of a reload.
    pub(crate) fn reloaded(&self, reloaded: &Result<Vec<String>, NotReloaded>) {
        let now = probe::NodeClock::new().now_ms();
        let refused = match reloaded {
            Err(NotReloaded::UnderWay) => return,
            Err(why) => why.clone().lines().into_iter().next().map(|first| (now, first)),
            Ok(_) => {
                self.0.is_reloaded.store(true, Relaxed);
                None
            }
        };
        *self.0.reload_refused.lock().unwrap_or_else(PoisonError::into_inner) = refused;
    }

    pub(crate) fn alerts(&self) -> &Arc<AlertCounts> {
        &self.0.alerts
    }

    /// Signs of life of the bank.
    pub(crate) fn figures(&self) -> &Desk {
        &self.0.figures
    }

    pub(crate) fn pulse(&self) -> &Pulse {
        &self.0.pulse
    }

    pub(crate) fn handles(&self) -> &[Handle] {
        &self.0.handles
    }

    pub(crate) fn profiles(&self) -> &Profiles {
        &self.0.profiles
    }

    /// Where FIX sessions are reached; `None` where that door is off.
    pub(crate) fn fix(&self) -> Option<&FixDesk> {
        self.0.fix.as_ref()
    }

    /// Where the keys of the vault are looked at; `None` where their door is off.
    pub(crate) fn vault(&self) -> Option<&KeysDesk> {
        self.0.vault.as_ref()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// One auction in so many is surveyed for why-not.
    pub(crate) fn survey_every(&self) -> u64 {
        self.0.survey_every
    }

    /// Frames of resolves and notices that wait for the bank.
    pub(crate) fn waiting(&self) -> u64 {
        self.0.counters.iter().map(|counters| counters.waiting.get()).sum()
    }

    /// The configuration in force.
    pub(crate) fn config(&self) -> Config {
        self.0.config.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Another configuration is in force.
    pub(crate) fn set_config(&self, config: Config) {
        *self.0.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Was the configuration read again since this was asked last?
    pub(crate) fn take_reloaded(&self) -> bool {
        self.0.is_reloaded.swap(false, Relaxed)
    }

    /// Is this node's budgets file another one than the one in force when this run began?
    pub(crate) fn files_differ(&self) -> bool {
        self.0.files_differ.load(Relaxed)
    }

    pub(crate) fn set_files_differ(&self, differ: bool) {
        self.0.files_differ.store(differ, Relaxed);
    }

    pub(crate) fn file_counts(&self) -> FileCounts {
        self.budgets().counts
    }

    pub(crate) fn uptime_ms(&self) -> u64 {
        u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.0.sources
    }

    fn budgets(&self) -> std::sync::MutexGuard<'_, BudgetsStatus> {
        // Plain data: a thread that died while it held this left nothing half done that matters.
        self.0.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is told of a budget.
type Budget = (BookLine, Option<Standing>);

#[derive(Clone)]
struct App {
    status: Status,
    commands: Commands<Command>,
    reloader: Arc<Reloader>,
}

/// Takes the address, so that a taken one is known before anything else starts.
pub(crate) fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    let failed = |source| StartError::Admin { address, source };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// The calls beside those of `watch`, behind the same checks.
pub(crate) fn routes(
    status: Status,
    commands: Commands<Command>,
    reloader: Arc<Reloader>,
) -> Router {
    Router::new()
        .route("/stat", get(stat))
        .route("/books", get(books))
        .route("/why", get(why))
        .route("/costs", get(show_costs))
        .route("/profiles", post(update_profile))
        .route("/v1/reconcile", post(reconcile).layer(DefaultBodyLimit::max(RECONCILE_BYTES_MAX)))
        .route("/v1/reload", post(reload_config))
        .with_state(App { status, commands, reloader })
}

/// How the doors are opened, as far as files say.
///
/// # Errors
/// What is wrong with the tokens or the certificates, all of it.
pub fn door_options(config: &Config) -> Result<(watch::Options, Tokens), Vec<String>> {
    let admin = &config.admin;
    let (tokens, tls) = match (Tokens::read(config, DOORS), tls(&admin.tls_cert, &admin.tls_key)) {
        (Ok(tokens), Ok(tls)) => (tokens, tls),
        (tokens, tls) => {
            let errors = tokens.err().into_iter().flatten().chain(tls.err());
            return Err(errors.collect());
        }
    };
    let origins = admin.origins.split(',').map(str::trim).filter(|origin| !origin.is_empty());
    let options = watch::Options {
        live_max: admin.live_max,
        live_rows: admin.live_rows,
        tokens: tokens.of(ADMIN.name).cloned(),
        tls,
        origins: origins.map(String::from).collect(),
        history: config.node.data_dir.join("history"),
        keep_days: config.history.keep_days,
        run_id: String::new(),
        version: env!("CARGO_PKG_VERSION").to_string(),
        docs: &[],
    };
    Ok((options, tokens))
}

/// The pair of the admin door, if it has one.
pub(crate) fn tls(certificate: &str, key: &str) -> Result<Option<watch::Tls>, String> {
    if certificate.is_empty() || key.is_empty() {
        return Ok(None);
    }
    watch::Tls::read(certificate.as_ref(), key.as_ref()).map(Some)
}

/// Reads the configuration again; the answer says what is in force now, or why nothing was changed.
async fn reload_config(State(app): State<App>, Extension(who): Extension<watch::Who>) -> Response {
    let reloader = Arc::clone(&app.reloader);
    match tokio::task::spawn_blocking(move || reload(&reloader, &who.name)).await {
        Ok(Ok(applied)) => Json(json!({ "applied": applied })).into_response(),
        Ok(Err(why)) => {
            let kind = match why {
                NotReloaded::UnderWay => ProblemKind::Reloading,
                NotReloaded::Refused(_) => ProblemKind::NotReloaded,
            };
            let errors = why.lines();
            let members = Map::from_iter([("errors".to_string(), json!(errors))]);
            watch::problem(kind, errors.join("; "), members)
        }
        Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping"),
    }
}

/// Reloads for `who`, and says in the log what became of it.
pub(crate) fn reload(reloader: &Reloader, who: &str) -> Result<Vec<String>, NotReloaded> {
    let reloaded = reloader.reload();
    tell_reloaded(who, &reloaded);
    reloaded
}

/// Logs what became of a reload.
pub(crate) fn tell_reloaded(who: &str, reloaded: &Result<Vec<String>, NotReloaded>) {
    match reloaded {
        Ok(applied) => {
            applied.iter().for_each(|line| tracing::info!("{line}"));
            tracing::info!(who, "the configuration was reloaded");
        }
        Err(why) => {
            let errors = why.clone().lines();
            errors.iter().for_each(|error| tracing::error!("{error}"));
            tracing::error!(
                who,
                errors = errors.len(),
                "the reload was refused whole; nothing was changed"
            );
        }
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct StatQuery {
    /// An id or a handle.
    budget: Option<String>,
}

async fn stat(State(app): State<App>, Query(query): Query<StatQuery>) -> Response {
    let id = match query.budget {
        None => None,
        Some(text) => match app.id_of(&text).await {
            Ok(id) => Some(id),
            Err(answer) => return answer,
        },
    };
    let asked = move |commands: &Commands<Command>| {
        let report = ask(commands, |reply| Command::Report { reply })?;
        let from = id.unwrap_or(0);
        let max = usize::from(id.is_some());
        let page = ask(commands, |reply| Command::Books { from, max, reply })?;
        let about = id.map(|id| ask(commands, |reply| Command::About { id, reply }));
        Some((report, page, about.flatten().flatten()))
    };
    let (report, page, about) = match app.ask_bank(asked).await {
        Ok(found) => found,
        Err(detail) => return problem(StatusCode::SERVICE_UNAVAILABLE, &detail),
    };
    let mut answer = app.totals(&report);
    if let Some(id) = id {
        let Some(line) = page.lines.first().filter(|(line, _)| line.id == id) else {
            return problem(StatusCode::NOT_FOUND, &format!("there is no budget {id}"));
        };
        let fates = app.ask_workers(id).await.unwrap_or_default();
        let names = app.status.budgets();
        let Value::Object(fields) = row(line, &names.names, &fates) else {
            unreachable!("a row is an object")
        };
        answer.extend(fields);
        let AboutBudget { handle, windows } = about.unwrap_or_default();
        answer.insert("handle".into(), json!(handle.as_ref().map(wire::Handle::as_str)));
        answer.insert("windows".into(), windows.iter().map(window).collect());
    }
    Json(Value::Object(answer)).into_response()
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BooksQuery {
    #[serde(default)]
    from: u64,
    max: Option<usize>,
}

async fn books(State(app): State<App>, Query(query): Query<BooksQuery>) -> Response {
    let (from, max) = (query.from, query.max.unwrap_or(BOOKS_MAX).min(BOOKS_MAX));
    let asked = move |commands: &Commands<Command>| {
        ask(commands, |reply| Command::Books { from, max, reply })
    };
    let BooksPage { lines, next } = match app.ask_bank(asked).await {
        Ok(page) => page,
        Err(detail) => return problem(StatusCode::SERVICE_UNAVAILABLE, &detail),
    };
    let names = app.status.budgets();
    let rows: Vec<Value> = lines.iter().map(|line| row(line, &names.names, &[])).collect();
    Json(json!({ "budgets": rows, "next": next })).into_response()
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct WhyQuery {
    /// An id or a handle.
    campaign: String,
}

/// Why a campaign did not bid, counted by all workers.
async fn why(State(app): State<App>, Query(query): Query<WhyQuery>) -> Response {
    let id = match app.id_of(&query.campaign).await {
        Ok(id) => id,
        Err(answer) => return answer,
    };
    let Some(fates) = app.ask_workers(id).await else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, "the workers do not answer");
    };
    if fates.is_empty() {
        let detail =
            format!("there is no campaign {id} that bids; it may be a budget without a bid");
        return problem(StatusCode::NOT_FOUND, &detail);
    }
    let mut answer = fates_json(&fates);
    answer["campaign"] = id.into();
    answer["name"] = json!(app.status.budgets().names.get(&id));
    answer["survey_every"] = app.status.0.survey_every.into();
    answer["pace"] = app.pace(id).await;
    Json(answer).into_response()
}

/// How campaigns fared, as JSON: counts and shares of the impressions surveyed.
fn fates_json(fates: &[Fates]) -> Value {
    let sum = |count: &dyn Fn(&Fates) -> u64| fates.iter().map(count).sum::<u64>();
    let (auctioned, surveyed) = (sum(&|fates| fates.auctioned), sum(&|fates| fates.impressions));
    let reasons =
        gate_auction::Reason::ALL.map(|reason| (reason.name(), sum(&|fates| fates.of(reason))));
    let mut counts: BTreeMap<&str, u64> = reasons.into_iter().collect();
    counts.insert("bid", sum(&|fates| fates.won.into()));
    counts.insert("outbid", sum(&|fates| fates.outbid.into()));
    json!({ "auctioned": auctioned, "surveyed": surveyed, "counts": counts })
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CostsQuery {
    seconds: Option<String>,
    format: Option<String>,
}

impl CostsQuery {
    /// How long to measure, and how to write it; or what is wrong with the question.
    fn read(&self) -> Result<(f64, Format), String> {
        const SECONDS: f64 = 2.0;
        let seconds = match self.seconds.as_deref().map(str::parse::<f64>) {
            None => SECONDS,
            Some(Ok(seconds)) if (SECONDS_MIN..=SECONDS_MAX).contains(&seconds) => seconds,
            Some(_) => {
                return Err(format!(
                    "seconds: expected a number from {SECONDS_MIN} to {SECONDS_MAX}"
                ));
            }
        };
        let format = match self.format.as_deref() {
            None => Format::default(),
            Some(name) => Format::from_str(name, false).map_err(|_| {
                "format: expected json, markdown, openmetrics, text or wide".to_string()
            })?,
        };
        Ok((seconds, format))
    }
}

/// The cost sheet over the next seconds.
async fn show_costs(
    State(app): State<App>,
    query: Result<Query<CostsQuery>, QueryRejection>,
) -> Response {
    let read = query.map_err(|error| error.body_text()).and_then(|Query(query)| query.read());
    let (seconds, format) = match read {
        Ok(read) => read,
        Err(detail) => return problem(StatusCode::BAD_REQUEST, &detail),
    };
    let Ok(_place) = app.status.0.costs.try_acquire() else {
        let detail = format!("{COSTS_MAX} others are measuring; try again when they are done");
        return problem(StatusCode::TOO_MANY_REQUESTS, &detail);
    };
    // Ends the wait when the one who asked has gone, or the node stops: this future is dropped then.
    let (wanted, gone) = mpsc::channel::<()>();
    let status = app.status.clone();
    let measured = tokio::task::spawn_blocking(move || {
        let wait = |length| matches!(gone.recv_timeout(length), Err(RecvTimeoutError::Timeout));
        let sheet = costs::measure(&status.0.sources, seconds, wait)?;
        Some(costs::write(&sheet, format))
    });
    let text = measured.await.ok().flatten();
    drop(wanted);
    match text {
        Some(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        None => problem(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping"),
    }
}

/// A change of a user's segments; names are what campaigns call them.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileUpdate {
    user: String,
    set: Option<Vec<String>>,
    #[serde(default)]
    add: Vec<String>,
    #[serde(default)]
    remove: Vec<String>,
}

async fn update_profile(State(app): State<App>, body: String) -> Response {
    let update: ProfileUpdate = match serde_json::from_str(&body) {
        Ok(update) => update,
        Err(error) => {
            let expected = r#"expected {"user":"id","set":["segment"]}, or "add" and "remove""#;
            return problem(StatusCode::BAD_REQUEST, &format!("{error}; {expected}"));
        }
    };
    let profiles = app.status.0.profiles.clone();
    let done = tokio::task::spawn_blocking(move || update.apply(&profiles)).await;
    match done {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(error)) => problem(StatusCode::CONFLICT, &error.to_string()),
        Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "the profiles do not answer"),
    }
}

impl ProfileUpdate {
    fn apply(&self, profiles: &Profiles) -> Result<(), UpdateError> {
        let user = gate_profile::user_key(&self.user);
        let keys = |names: &[String]| -> Vec<u32> {
            names.iter().map(|name| gate_profile::segment_key(name)).collect()
        };
        if let Some(names) = &self.set {
            profiles.set_segments(user, &keys(names))?;
        }
        if !self.add.is_empty() {
            profiles.add_segments(user, &keys(&self.add))?;
        }
        if !self.remove.is_empty() {
            profiles.remove_segments(user, &keys(&self.remove))?;
        }
        Ok(())
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct ReconcileQuery {
    /// The file is complete up to here.
    until: Option<String>,
}

/// Books what an exchange billed and what it did not. The file is read and judged whole before its first line is booked.
async fn reconcile(
    State(app): State<App>,
    Query(query): Query<ReconcileQuery>,
    body: String,
) -> Response {
    let until_ms = match query.until.as_deref().map(money::Instant::parse) {
        None => None,
        Some(Ok(until)) => Some(until.ms()),
        Some(Err(error)) => {
            return problem(StatusCode::BAD_REQUEST, &format!("until: {error}"));
        }
    };
    // A watermark alone needs no lines.
    let rows = match body.trim().is_empty() && until_ms.is_some() {
        true => Ok(Vec::new()),
        false => weir_node::reconcile_file::parse(&body),
    };
    let rows = match rows {
        Ok(rows) => rows,
        Err(errors) => {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return problem(StatusCode::BAD_REQUEST, &texts.join("; "));
        }
    };
    let bank = BankClerk(app.commands.clone());
    let booked =
        tokio::task::spawn_blocking(move || reconcile::book_file(&bank, rows, until_ms)).await;
    match booked {
        Ok(Ok(answer)) => Json(answer).into_response(),
        Ok(Err(failure)) => {
            let kind = match &failure {
                Failure::Refused { .. } => ProblemKind::RefusedLines,
                Failure::Unanswered => ProblemKind::NotReady,
                Failure::Unfinished(_) => ProblemKind::Unfinished,
            };
            let (detail, members) = failure.told();
            watch::problem(kind, detail, members)
        }
        Err(_) => problem(StatusCode::SERVICE_UNAVAILABLE, "the node is stopping"),
    }
}

/// The bank as what books a file. Lines go to it in parts, so that it has time for others in between.
struct BankClerk(Commands<Command>);

impl reconcile::Clerk for BankClerk {
    fn judge(&self, rows: Vec<Row>) -> Option<Vec<Result<Booking, Fault>>> {
        ask(&self.0, |reply| Command::JudgeRows { rows, reply })
    }

    fn book(&self, rows: Vec<Booking>) -> Result<Vec<Outcome>, NotSealed> {
        sealed(ask(&self.0, |reply| Command::Reconcile { rows, reply }))
    }

    fn complete(&self, until_ms: u64, why: String) -> Result<Vec<Freed>, NotSealed> {
        sealed(ask(&self.0, |reply| Command::Complete { until_ms, why, reply }))
    }
}

fn sealed<T>(answer: Option<Result<T, String>>) -> Result<T, NotSealed> {
    answer.ok_or(NotSealed::Unknown)?.map_err(NotSealed::Refused)
}

impl App {
    /// The id of the budget that a text names.
    async fn id_of(&self, text: &str) -> Result<u64, Response> {
        let handle: Box<str> = match wire::Handle::check(text) {
            Ok(()) => text.into(),
            Err(error) => {
                let told = format!("found no id and no handle; expected one: {error}");
                return text.parse().map_err(|_| problem(StatusCode::BAD_REQUEST, &told));
            }
        };
        let asked = move |commands: &Commands<Command>| {
            ask(commands, |reply| Command::Find { handle, reply })
        };
        let found = self.ask_bank(asked).await;
        let found = found.map_err(|told| problem(StatusCode::SERVICE_UNAVAILABLE, &told))?;
        let unknown = format!("there is no budget with the handle {text:?}");
        found.ok_or_else(|| problem(StatusCode::NOT_FOUND, &unknown))
    }

    /// One answer a worker that knows the campaign; `None` if one of them does not answer.
    async fn ask_workers(&self, campaign: u64) -> Option<Vec<Fates>> {
        let (commands, workers) = (self.commands.clone(), self.status.0.counters.len());
        let asked = tokio::task::spawn_blocking(move || {
            let (reply, answers) = mpsc::channel();
            commands.send(Command::Why { campaign, reply }).ok()?;
            let answer = |_| answers.recv_timeout(WORKERS_WAIT).ok();
            (0..workers).map(answer).collect::<Option<Vec<Option<Fates>>>>()
        });
        let fates = asked.await.ok().flatten()?;
        Some(fates.into_iter().flatten().collect())
    }

    /// How a budget stands against its plan; null where the bank does not answer, or knows no plan.
    async fn pace(&self, id: u64) -> Value {
        let books = move |commands: &Commands<Command>| {
            ask(commands, |reply| Command::Books { from: id, max: 1, reply })
        };
        let page = self.ask_bank(books).await.ok();
        let line = page.and_then(|page| page.lines.into_iter().find(|(line, _)| line.id == id));
        let standing = line.and_then(|(_, standing)| standing);
        standing.map_or(Value::Null, |standing| pace_text::to_json(&standing, None))
    }

    /// The bank answers on a thread of its own; waiting for it must not stop this one. A bank that is stuck is not waited for.
    async fn ask_bank<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Commands<Command>) -> Option<T> + Send + 'static,
    ) -> Result<T, String> {
        self.status.pulse().check_turns()?;
        let commands = self.commands.clone();
        let asked = tokio::task::spawn_blocking(move || question(&commands));
        asked.await.ok().flatten().ok_or_else(|| "the bank does not answer".to_string())
    }

    /// The counters, and the facts beside them.
    fn totals(&self, report: &Report) -> Map<String, Value> {
        let status = &self.status;
        let answer = json!({
            "node": status.0.node,
            "uptime_ms": status.uptime_ms(),
            "workers": status.0.counters.len(),
            "journal": journal(&report.journal),
            "profiles": { "warm": status.0.profiles.figures().warm },
            "bank": {
                "budgets": report.budgets, "snapshot": report.snapshot, "grants_open": report.grants,
                "turn_age_ms": status.pulse().age_ms(),
            },
            "clock": {
                "ahead_ms": status.pulse().clock_ahead_ms(), "held_ms": status.pulse().clock_held_ms(),
            },
            "budgets_file": status.budgets_file(usize::MAX),
        });
        let Value::Object(mut answer) = answer else { unreachable!("made as an object") };
        Registry::read(status, report).write_stat(&mut answer);
        answer
    }
}

/// How the journal stands, beside its counters.
fn journal(figures: &ledger_journal::Figures) -> Value {
    let micros = |q: f64| figures.seal_ns.quantile(q) / 1_000;
    let kept = &figures.kept;
    json!({
        "state": if figures.failure.is_some() { "failing" } else { "sealing" },
        "failure": figures.failure,
        "sealed": figures.sealed.saturating_sub(1),
        "seal_us": { "p50": micros(0.5), "p99": micros(0.99), "max": figures.seal_ns.max() / 1_000 },
        "snapshot": kept.snapshot.saturating_sub(1),
        "snapshot_ms": kept.snapshot_ms,
        "keeper_failure": kept.failure,
    })
}

/// The books of a budget, and how it stands on its plan.
fn row((line, standing): &Budget, names: &HashMap<u64, String>, fates: &[Fates]) -> Value {
    let pace = standing.as_ref().map(|standing| {
        let held = i128::from(line.held.get()) * 1_000_000;
        let held_ppm = held.checked_div(i128::from(standing.progress.budget.get())).unwrap_or(0);
        let under = pace_text::under(standing, u64::try_from(held_ppm).unwrap_or(0), fates);
        pace_text::to_json(standing, under)
    });
    json!({
        "id": line.id,
        "name": names.get(&line.id),
        "unit": line.unit.to_string(),
        "limit": line.limit.get(),
        "free": line.free.get(),
        "purses": line.purses.get(),
        "held": line.held.get(),
        "expired": line.expired.get(),
        "settled": line.settled.get(),
        "over_settled": line.over_settled.get(),
        "late": line.late.get(),
        "inferred": line.inferred.get(),
        "unknown_order": line.unknown_order.get(),
        "pace": pace,
    })
}

/// A window of a budget, in base units.
fn window((window, used, ends_ms): &(WindowLimit, Amount, u64)) -> Value {
    let left = i128::from(window.limit.get()) - i128::from(used.get());
    json!({
        "period": window.period.name(),
        "bucket": window.kind == WindowKind::Bucket,
        "limit": window.limit.get(),
        "used": used.get(),
        "left": i64::try_from(left).unwrap_or(i64::MIN),
        "ends_ms": ends_ms,
    })
}

/// An error; the door puts the text into the form that all its errors have.
fn problem(status: StatusCode, detail: &str) -> Response {
    (status, detail.to_string()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_told_of_as_many_rows_as_the_board_is_made_for() {
        assert_eq!(Config::default().admin.live_rows, watch::board::LIVE_ROWS);
    }
}
