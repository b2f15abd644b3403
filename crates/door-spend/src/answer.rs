//! What becomes of calls, as JSON and status.

use door_http::{Refusal, Response};
use money::{Amount, Instant, Unit};
use wire::Verdict;

use crate::call::Budget;
use crate::problem::{BadCall, Fault, Field, Kind, about, status_of};
use crate::read::EXACT_MAX;
use crate::write::{push, push_amount, push_instant, push_number, push_text, push_token};

const JSON: &str = "application/json";
const PROBLEM: &str = "application/problem+json";
/// Bytes of a body that stay allocated between requests.
const BODY_BYTES_KEPT: usize = 64 * 1024;

/// The field's word for "try again", with a status that balancers understand: another node may be further.
const STARTING: Kind = Kind { status: 503, verdict: "busy", title: "the node is starting" };
const NONE_IN_FORCE: &str = "the node is starting, and its budgets are not in force yet; nothing was booked; ask again. Where that lasts, its budgets \
    file was refused or is not there: /readyz of the admin door says so";

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An amount is set aside.
    Granted {
        /// The sealed token.
        token: [u8; 32],
        /// How much.
        amount: Amount,
        /// Of the budget.
        unit: Unit,
        /// Until when the hold lives, ms since 1970.
        deadline_ms: u64,
    },
    /// A hold is kept until its billing deadline, and that is sealed.
    Confirmed {
        /// It is the first answer again; nothing was booked now.
        repeat: bool,
        /// Until when the hold lives, ms since 1970.
        deadline_ms: u64,
    },
    /// A hold is kept until this end, and that is sealed.
    Extended {
        /// It had this end, or a later one; nothing was booked now.
        repeat: bool,
        /// Until when the hold lives, ms since 1970.
        deadline_ms: u64,
    },
    /// What was spent is booked, and that is sealed.
    Settled {
        /// Within the hold, above it, or after it was gone.
        verdict: Verdict,
        /// How much; `None`: it is not known any more, of a repeat.
        amount: Option<Amount>,
        /// Of the budget.
        unit: Unit,
        /// It is the first answer again; nothing was booked now.
        repeat: bool,
    },
    /// A hold is given back, and that is sealed.
    Released {
        /// It is the first answer again; nothing was booked now.
        repeat: bool,
    },
    /// Reserved and settled in one, and that is sealed.
    Spent {
        /// What it was booked as.
        verdict: Verdict,
        /// How much.
        amount: Amount,
        /// Of the budget.
        unit: Unit,
    },
    /// The node says no.
    Refused {
        /// Why.
        verdict: Verdict,
        /// When it is worth asking again, ms; 0 = it is not, or nobody knows.
        retry_after_ms: u64,
        /// What is wrong in particular; without it what the verdict means.
        detail: Option<Box<str>>,
        /// The member that is wrong, where it is one.
        field: Option<Box<Field>>,
        /// Which limit it was, for programs.
        limit: Option<Box<Limit>>,
    },
    /// No budget is in force yet, so nobody knows whether there is the one that the call names.
    Starting,
    /// The door says no.
    Faulty(Fault, &'static str),
    /// The call cannot be read.
    Bad(BadCall),
    /// What the first request under the same key was told, which this one waited for; or an answer that an earlier version kept.
    Kept {
        /// What it came to.
        verdict: Verdict,
        /// When it is worth asking again, seconds; 0 = it is not, or nobody knows.
        retry_after_s: u32,
        /// Its body; empty: the verdict says all.
        body: Box<[u8]>,
    },
}

/// Which limit refused an ask, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// The budget that was asked for, which need not be the one whose limit it is: that may be above it.
    pub budget: Option<Budget>,
    /// Which window; `None`: none, or the limit of a life.
    pub window: Option<&'static str>,
    /// What could be had.
    pub left: Option<(Amount, Unit)>,
}

/// Where a budget stands, for display: money moves while it is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub id: u64,
    /// Its text name, if it has one.
    pub handle: Option<Box<str>>,
    /// What people call it.
    pub name: Box<str>,
    /// What its amounts count.
    pub unit: Unit,
    /// What it may spend in its life.
    pub limit: Amount,
    /// What is left of its narrowest window and of its parents; never below 0.
    pub available: Amount,
    /// What is set aside.
    pub held: Amount,
    /// All that is booked, over and late included.
    pub settled: Amount,
    /// Whether it may be spent from.
    pub status: &'static str,
}

impl Outcome {
    /// A refusal with nothing to add.
    #[must_use]
    pub fn refused(verdict: Verdict) -> Outcome {
        Outcome::refused_for(verdict, soon_ms(verdict))
    }

    /// A refusal that says what is wrong in particular.
    #[must_use]
    pub fn told(verdict: Verdict, detail: &str) -> Outcome {
        Outcome::refused(verdict).saying(detail.into())
    }

    fn saying(mut self, text: String) -> Outcome {
        if let Outcome::Refused { detail, .. } = &mut self {
            *detail = Some(text.into());
        }
        self
    }

    /// The same refusal of an ask, with what is known of the limit.
    #[must_use]
    pub fn by(mut self, change: impl FnOnce(&mut Limit)) -> Outcome {
        if let Outcome::Refused { limit, .. } = &mut self {
            change(limit.get_or_insert_default());
        }
        self
    }

    /// A refusal because of a member.
    #[must_use]
    pub fn of_field(verdict: Verdict, detail: &str, field: Field) -> Outcome {
        let (field, detail) = (Some(Box::new(field)), Some(detail.into()));
        Outcome::Refused { verdict, retry_after_ms: 0, detail, field, limit: None }
    }

    /// A refusal after which it is worth asking again in so many milliseconds: when a window ends, or a bucket has enough.
    #[must_use]
    pub fn refused_for(verdict: Verdict, retry_after_ms: u64) -> Outcome {
        let is_soon = matches!(status_of(verdict), 429 | 503);
        let retry_after_ms = if is_soon { retry_after_ms.max(1) } else { 0 };
        Outcome::Refused { verdict, retry_after_ms, detail: None, field: None, limit: None }
    }

    /// The same refusal, with what was left of the limit, which was less than the ask.
    #[must_use]
    pub fn with_left(self, left: Amount, unit: Unit) -> Outcome {
        let meaning = self.verdict().map_or("", |verdict| about(verdict).1);
        let text = format!("{} {unit} is left: {meaning}", unit.format(left));
        self.saying(text).by(|limit| limit.left = Some((left, unit)))
    }

    /// The same refusal, of a window: what was left of its limit, and from when on there is more, ms since 1970.
    #[must_use]
    pub fn with_left_of(
        self,
        left: Amount,
        unit: Unit,
        period: &'static str,
        at_ms: u64,
    ) -> Outcome {
        let (shown, at) = (unit.format(left), Instant::from_ms(at_ms));
        let text = format!(
            "{shown} {unit} is left of the {period}'s limit, of the budget or of a parent; from {at} on there is more: ask again then, or sooner where holds give money back"
        );
        self.saying(text)
            .by(|limit| (limit.window, limit.left) = (Some(period), Some((left, unit))))
    }

    /// The same refusal, of a window that has no room for the ask at any time: it is final.
    #[must_use]
    pub fn larger_than(mut self, limit: Amount, unit: Unit, period: &'static str) -> Outcome {
        if let Outcome::Refused { retry_after_ms, .. } = &mut self {
            *retry_after_ms = 0;
        }
        let limit = unit.format(limit);
        let text = format!(
            "an ask of more than {limit} {unit}, the {period}'s whole limit of the budget or of a parent, is never granted: ask for less at a time, or raise the limit"
        );
        self.saying(text).by(|limit| limit.window = Some(period))
    }

    /// The status that it has alone.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Faulty(fault, _) => fault.status(),
            Self::Bad(why) => why.kind().status,
            Self::Starting => STARTING.status,
            Self::Refused { verdict, .. } | Self::Kept { verdict, .. } => {
                self.kind_of(*verdict).status
            }
            _ => self.verdict().map_or(200, status_of),
        }
    }

    /// The ledger's verdict that it stands for.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Granted { .. } => Some(Verdict::Granted),
            Self::Confirmed { .. } | Self::Extended { .. } => Some(Verdict::Confirmed),
            Self::Released { .. } => Some(Verdict::Released),
            Self::Starting => Some(Verdict::Busy),
            Self::Settled { verdict, .. }
            | Self::Spent { verdict, .. }
            | Self::Refused { verdict, .. }
            | Self::Kept { verdict, .. } => Some(*verdict),
            Self::Faulty(..) | Self::Bad(_) => None,
        }
    }

    /// Was nothing booked now, because it was before?
    #[must_use]
    pub fn is_repeat(&self) -> bool {
        match self {
            Self::Confirmed { repeat, .. }
            | Self::Extended { repeat, .. }
            | Self::Settled { repeat, .. }
            | Self::Released { repeat } => *repeat,
            _ => false,
        }
    }

    /// What a repeat under its key gets, beside the verdict, as long as the answer is kept: so few bytes that many keys fit into
    /// memory. Of a refusal nothing is kept.
    #[must_use]
    pub fn to_keep(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        if let (true, Some(verdict)) = (self.is_repeat(), self.verdict()) {
            bytes.extend([REPEATED, verdict.as_raw()]);
        }
        match self {
            Self::Granted { token, amount, unit, deadline_ms } => {
                bytes.push(GRANTED);
                bytes.extend_from_slice(token);
                bytes.extend_from_slice(&deadline_ms.to_le_bytes());
                keep_amount(&mut bytes, *amount, *unit);
            }
            Self::Confirmed { deadline_ms, .. } => {
                bytes.push(CONFIRMED);
                bytes.extend_from_slice(&deadline_ms.to_le_bytes());
            }
            Self::Extended { deadline_ms, .. } => {
                bytes.push(EXTENDED);
                bytes.extend_from_slice(&deadline_ms.to_le_bytes());
            }
            Self::Settled { amount, unit, .. } => {
                bytes.push(SETTLED);
                // What a repeat says no amount of is kept so.
                amount.iter().for_each(|amount| keep_amount(&mut bytes, *amount, *unit));
            }
            Self::Spent { amount, unit, .. } => {
                bytes.push(SPENT);
                keep_amount(&mut bytes, *amount, *unit);
            }
            Self::Released { .. } => bytes.push(RELEASED),
            _ => {}
        }
        bytes
    }

    /// What those get, beside the verdict, who wait for this answer under the same key: its own bytes, and when to ask again. It
    /// booked nothing, so it is never recorded, and may be as long as it is.
    #[must_use]
    pub fn to_tell(&self) -> Vec<u8> {
        if *self == Self::Starting {
            return vec![TOLD_STARTING];
        }
        let mut bytes = vec![TOLD];
        bytes.extend_from_slice(&seconds(self.retry_after_ms()).to_le_bytes());
        self.write(&mut bytes);
        bytes
    }

    /// The answer that was kept or told: what [`Outcome::to_keep`] or [`Outcome::to_tell`] gave, and the verdict that the call came to.
    #[must_use]
    pub fn kept(verdict: Verdict, bytes: Box<[u8]>) -> Outcome {
        let read = match &*bytes {
            [REPEATED, first, rest @ ..] => read_repeated(*first, rest),
            [GRANTED, rest @ ..] => read_granted(rest),
            [form @ (CONFIRMED | EXTENDED), rest @ ..] => rest.try_into().ok().map(|deadline| {
                let (repeat, deadline_ms) = (false, u64::from_le_bytes(deadline));
                match *form {
                    EXTENDED => Outcome::Extended { repeat, deadline_ms },
                    _ => Outcome::Confirmed { repeat, deadline_ms },
                }
            }),
            [SETTLED, rest @ ..] => read_amount(rest).map(|(amount, unit)| Outcome::Settled {
                verdict,
                amount: Some(amount),
                unit,
                repeat: false,
            }),
            [SPENT, rest @ ..] => {
                read_amount(rest).map(|(amount, unit)| Outcome::Spent { verdict, amount, unit })
            }
            [RELEASED] => Some(Outcome::Released { repeat: false }),
            [TOLD_STARTING] => Some(Outcome::Starting),
            [TOLD, rest @ ..] => rest.split_first_chunk().map(|(seconds, body)| Outcome::Kept {
                verdict,
                retry_after_s: u32::from_le_bytes(*seconds),
                body: body.into(),
            }),
            _ => None,
        };
        read.unwrap_or_else(|| Outcome::Kept {
            verdict,
            retry_after_s: seconds(soon_ms(verdict)),
            body: bytes,
        })
    }

    fn retry_after_ms(&self) -> u64 {
        match self {
            Self::Refused { retry_after_ms, .. } => *retry_after_ms,
            Self::Kept { retry_after_s, .. } => u64::from(*retry_after_s) * 1_000,
            Self::Faulty(fault, _) => u64::from(fault.status() == 503) * SOON_MS,
            Self::Starting => SOON_MS,
            _ => 0,
        }
    }

    /// Writes the object.
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Granted { token, amount, unit, deadline_ms } => {
                push(out, "{\"verdict\":\"granted\",\"token\":\"");
                push_token(out, token);
                push(out, "\",\"amount\":\"");
                push_amount(out, *unit, *amount);
                push(out, "\",\"deadline\":\"");
                push_instant(out, *deadline_ms);
                push(out, "\"}");
            }
            Self::Confirmed { repeat, deadline_ms } => {
                push(out, "{\"verdict\":\"confirmed\"");
                push_repeat(out, *repeat);
                push(out, ",\"deadline\":\"");
                push_instant(out, *deadline_ms);
                push(out, "\"}");
            }
            Self::Extended { repeat, deadline_ms } => {
                push(out, "{\"verdict\":\"extended\",\"deadline\":\"");
                push_instant(out, *deadline_ms);
                push(out, "\"");
                push_repeat(out, *repeat);
                push(out, "}");
            }
            Self::Settled { verdict, amount, unit, repeat } => {
                push_verdict(out, *verdict);
                if let Some(amount) = amount {
                    push_amount_member(out, *unit, *amount);
                }
                push_repeat(out, *repeat);
                push(out, "}");
            }
            Self::Spent { verdict, amount, unit } => {
                push_verdict(out, *verdict);
                push_amount_member(out, *unit, *amount);
                push(out, "}");
            }
            Self::Released { repeat } => {
                push(out, "{\"verdict\":\"released\"");
                push_repeat(out, *repeat);
                push(out, "}");
            }
            Self::Refused { verdict, detail, field, limit, .. } => {
                let detail = detail.as_deref().unwrap_or(about(*verdict).1);
                problem(out, self.kind_of(*verdict), detail, field.as_deref());
                self.push_limit(out, limit.as_deref());
            }
            Self::Starting => self.problem(out, STARTING, NONE_IN_FORCE),
            Self::Faulty(fault, detail) => self.problem(out, fault.kind(), detail),
            Self::Bad(why) => {
                problem(out, why.kind(), &why.to_string(), why.field().as_ref());
                push(out, "}");
            }
            Self::Kept { body, .. } if !body.is_empty() => out.extend_from_slice(body),
            Self::Kept { verdict, .. } if status_of(*verdict) == 200 => {
                push_verdict(out, *verdict);
                push_repeat(out, false);
                push(out, "}");
            }
            Self::Kept { verdict, .. } => self.problem(out, Kind::of(*verdict), about(*verdict).1),
        }
    }

    /// Writes the object of an error of which nothing more is known.
    fn problem(&self, out: &mut Vec<u8>, kind: Kind, detail: &str) {
        problem(out, kind, detail, None);
        self.push_limit(out, None);
    }

    /// The kind of a refusal. What is worth asking again at no time is final, whatever its verdict: 402 in place of 429.
    fn kind_of(&self, verdict: Verdict) -> Kind {
        let kind = Kind::of(verdict);
        let is_final = kind.status == 429 && self.retry_after_ms() == 0;
        Kind { status: if is_final { 402 } else { kind.status }, ..kind }
    }

    /// Ends the object of a refusal, with what programs want to know of the limit.
    fn push_limit(&self, out: &mut Vec<u8>, limit: Option<&Limit>) {
        let Limit { budget, window, left } = limit.cloned().unwrap_or_default();
        if let Some(budget) = budget {
            push(out, ",\"budget\":");
            match budget {
                Budget::Id(id) => push_number(out, id),
                Budget::Digits(id) => push_text(out, &id.to_string()),
                Budget::Handle(handle) => push_text(out, handle.as_str()),
            }
        }
        if let Some(window) = window {
            push(out, ",\"window\":");
            push_text(out, window);
        }
        if let Some((left, unit)) = left {
            push(out, ",\"left\":\"");
            push_amount(out, unit, left);
            push(out, "\"");
        }
        let retry_after_ms = self.retry_after_ms();
        if retry_after_ms > 0 {
            push(out, ",\"retry_after_ms\":");
            push_number(out, retry_after_ms);
        }
        push(out, "}");
    }
}

/// When it is worth asking again after a refusal of which no more is known, ms: money comes back when holds end, and plans and queues move on,
/// within a second.
const SOON_MS: u64 = 1_000;

fn soon_ms(verdict: Verdict) -> u64 {
    if matches!(status_of(verdict), 429 | 503) { SOON_MS } else { 0 }
}

/// As the header has it, which knows whole seconds.
fn seconds(ms: u64) -> u32 {
    u32::try_from(ms.div_ceil(1_000)).unwrap_or(u32::MAX)
}

/// The forms of kept answers, by their first byte. They are in journals: a form stays what it is.
const GRANTED: u8 = b'g';
pub(crate) const CONFIRMED: u8 = b'c';
/// What the bank adds the end to, which it alone knows.
pub(crate) const EXTENDED: u8 = b'e';
const SETTLED: u8 = b's';
const SPENT: u8 = b'p';
const RELEASED: u8 = b'r';
/// What was booked before the call: the verdict of that, and one of the forms above.
const REPEATED: u8 = b'R';
/// The form of an answer that is told and not kept, which no journal has: a number of seconds and a body.
const TOLD: u8 = b't';
/// Told and not kept as well: [`Outcome::Starting`].
const TOLD_STARTING: u8 = b'n';

fn keep_amount(bytes: &mut Vec<u8>, amount: Amount, unit: Unit) {
    bytes.extend_from_slice(&amount.get().to_le_bytes());
    bytes.extend_from_slice(&unit.to_code());
}

fn read_amount(bytes: &[u8]) -> Option<(Amount, Unit)> {
    let (amount, unit) = bytes.split_first_chunk()?;
    let unit = Unit::from_code(unit.try_into().ok()?).ok()??;
    Some((Amount::new(i64::from_le_bytes(*amount)), unit))
}

fn read_granted(bytes: &[u8]) -> Option<Outcome> {
    let (token, rest) = bytes.split_first_chunk()?;
    let (deadline, rest) = rest.split_first_chunk()?;
    let (amount, unit) = read_amount(rest)?;
    let deadline_ms = u64::from_le_bytes(*deadline);
    Some(Outcome::Granted { token: *token, amount, unit, deadline_ms })
}

/// What was booked before the call that this was the answer to.
fn read_repeated(verdict: u8, bytes: &[u8]) -> Option<Outcome> {
    let verdict = Verdict::from_raw(verdict)?;
    let mut outcome = match bytes {
        // Its unit is not said, as it has no amount.
        [SETTLED] => Outcome::Settled { verdict, amount: None, unit: Unit::Count, repeat: true },
        [REPEATED, ..] => return None,
        _ => Outcome::kept(verdict, bytes.into()),
    };
    match &mut outcome {
        Outcome::Confirmed { repeat, .. }
        | Outcome::Extended { repeat, .. }
        | Outcome::Settled { repeat, .. }
        | Outcome::Released { repeat } => *repeat = true,
        _ => return None,
    }
    Some(outcome)
}

fn push_verdict(out: &mut Vec<u8>, verdict: Verdict) {
    push(out, "{\"verdict\":\"");
    push(out, verdict.name());
    push(out, "\"");
}

fn push_amount_member(out: &mut Vec<u8>, unit: Unit, amount: Amount) {
    push(out, ",\"amount\":\"");
    push_amount(out, unit, amount);
    push(out, "\"");
}

fn push_repeat(out: &mut Vec<u8>, repeat: bool) {
    push(out, if repeat { ",\"repeat\":true" } else { ",\"repeat\":false" });
}

/// Writes the object of an error but for its end.
fn problem(out: &mut Vec<u8>, kind: Kind, detail: &str, field: Option<&Field>) {
    push(out, "{\"type\":\"/docs#");
    push(out, kind.verdict);
    push(out, "\",\"title\":\"");
    push(out, kind.title);
    push(out, "\",\"status\":");
    push_number(out, kind.status.into());
    push(out, ",\"detail\":");
    push_text(out, detail);
    push(out, ",\"verdict\":\"");
    push(out, kind.verdict);
    push(out, "\"");
    if let Some(Field { name, found, expected }) = field {
        push(out, ",\"field\":");
        push_text(out, name);
        push(out, ",\"found\":");
        match found {
            Some(found) => push_text(out, found),
            None => push(out, "null"),
        }
        push(out, ",\"expected\":");
        push_text(out, expected);
    }
}

/// Where answers are written; one per worker.
#[derive(Debug, Default)]
pub struct AnswerRoom {
    body: Vec<u8>,
    headers: Vec<u8>,
}

impl AnswerRoom {
    fn begin(&mut self) {
        self.body.clear();
        self.body.shrink_to(BODY_BYTES_KEPT);
        self.headers.clear();
    }

    /// The answer to a call that was alone.
    pub fn one(&mut self, outcome: &Outcome) -> Response<'_> {
        self.begin();
        outcome.write(&mut self.body);
        let retry_after_s = seconds(outcome.retry_after_ms());
        if retry_after_s > 0 {
            push(&mut self.headers, "Retry-After: ");
            push_number(&mut self.headers, retry_after_s.into());
            push(&mut self.headers, "\r\n");
        }
        let status = outcome.status();
        let kind = if status == 200 { JSON } else { PROBLEM };
        Response { status, content_type: Some(kind), headers: &self.headers, body: &self.body }
    }

    /// The answer to a batch: an array in the order of its entries.
    pub fn batch(&mut self, outcomes: &[Outcome]) -> Response<'_> {
        self.begin();
        let mut before = b'[';
        for outcome in outcomes {
            self.body.push(before);
            push(&mut self.body, "{\"status\":");
            push_number(&mut self.body, outcome.status().into());
            push(&mut self.body, ",\"body\":");
            outcome.write(&mut self.body);
            push(&mut self.body, "}");
            before = b',';
        }
        // Of no entries nothing is open yet.
        push(&mut self.body, if outcomes.is_empty() { "[]" } else { "]" });
        Response::json(&self.body)
    }

    /// Where a budget stands, or `None`: there is none that the caller may see.
    pub fn standing(&mut self, standing: Option<&Standing>) -> Response<'_> {
        let Some(of) = standing else { return self.one(&Outcome::refused(Verdict::UnknownBudget)) };
        self.begin();
        let out = &mut self.body;
        push(out, "{\"id\":");
        // As a budget is named in a call: a number that every reader takes exactly, else a text.
        let quote = if of.id > EXACT_MAX { "\"" } else { "" };
        push(out, quote);
        push_number(out, of.id);
        push(out, quote);
        push(out, ",\"handle\":");
        match &of.handle {
            Some(handle) => push_text(out, handle),
            None => push(out, "null"),
        }
        push(out, ",\"name\":");
        push_text(out, &of.name);
        push(out, ",\"unit\":");
        push_text(out, of.unit.as_str());
        let amounts = [
            ("limit", of.limit),
            ("available", of.available),
            ("held", of.held),
            ("settled", of.settled),
        ];
        for (name, amount) in amounts {
            push(out, ",\"");
            push(out, name);
            push(out, "\":\"");
            push_amount(out, of.unit, amount);
            push(out, "\"");
        }
        push(out, ",\"status\":");
        push_text(out, of.status);
        push(out, "}");
        Response { headers: b"Cache-Control: no-store\r\n", ..Response::json(&self.body) }
    }

    /// A request that is refused before it is a call.
    pub fn fault(&mut self, fault: Fault, detail: &str, headers: &'static [u8]) -> Response<'_> {
        self.begin();
        problem(&mut self.body, fault.kind(), detail, None);
        push(&mut self.body, "}");
        let status = fault.status();
        Response { status, content_type: Some(PROBLEM), headers, body: &self.body }
    }
}

macro_rules! refusals {
    ($($why:ident = $status:literal, $word:literal, $title:literal, $detail:literal;)*) => {
        /// What a client gets whose request is no sound HTTP.
        #[must_use]
        pub fn refusal(why: Refusal) -> Response<'static> {
            let body: &'static str = match why {
                $(Refusal::$why => concat!(
                    "{\"type\":\"/docs#", $word, "\",\"title\":\"", $title, "\",\"status\":", $status, ",\"detail\":\"", $detail,
                    "\",\"verdict\":\"", $word, "\"}"
                ),)*
            };
            let (content_type, body) = (Some(PROBLEM), body.as_bytes());
            Response { status: why.status(), content_type, headers: b"", body }
        }
    };
}

macro_rules! method_refused {
    ($expected:literal) => {
        concat!(
            "{\"type\":\"/docs#malformed\",\"title\":\"method not allowed\",\"status\":405,\"detail\":\"expected ",
            $expected, "\",\"verdict\":\"malformed\"}"
        )
        .as_bytes()
    };
}

/// What a method gets that HTTP knows and this door does not, on the path of a call.
pub(crate) const POST_ONLY: &[u8] = method_refused!("POST");
/// What a browser gets that sends something for a page, whatever the method.
pub(crate) const OF_A_PAGE: &[u8] = concat!(
    "{\"type\":\"/docs#forbidden\",\"title\":\"not allowed\",\"status\":403,\"detail\":\"a browser sends this for a page: found ",
    "Origin, or a Sec-Fetch-Site other than none or same-origin, expected neither\",\"verdict\":\"forbidden\"}"
)
.as_bytes();
/// The same on the paths that are only looked at.
pub(crate) const GET_ONLY: &[u8] = method_refused!("GET or HEAD");

refusals! {
    MalformedHead = 400, "malformed", "cannot be read", "the head of the request is not HTTP/1.0 or HTTP/1.1";
    HeadTooLarge = 431, "malformed", "the head is too large", "the head of the request is too large";
    TooManyHeaders = 431, "malformed", "the head is too large", "the request has too many header lines";
    TargetTooLong = 414, "malformed", "the target is too long", "the target of the request is too long";
    BadHost = 400, "malformed", "cannot be read", "expected exactly one Host header";
    AmbiguousLength = 400, "malformed", "cannot be read", "the length of the body is stated in two ways";
    BadContentLength = 400, "malformed", "cannot be read", "Content-Length: expected digits";
    BadTransferEncoding = 400, "malformed", "cannot be read", "Transfer-Encoding: expected chunked";
    BadChunk = 400, "malformed", "cannot be read", "a chunk of the body has no proper size or end";
    BodyTooLarge = 413, "malformed", "the body is too large", "the body is larger than spend.body_bytes_max";
    BadExpectation = 417, "malformed", "cannot be read", "Expect: expected 100-continue";
    UnknownMethod = 405, "malformed", "method not allowed", "expected GET, HEAD or POST";
    BadTarget = 400, "malformed", "cannot be read", "the target is neither a path nor an address";
    UnknownContentEncoding = 415, "malformed", "the body is not JSON", "Content-Encoding: expected gzip or identity";
    InflatedTooLarge = 413, "malformed", "the body is too large", "the unpacked body is larger than spend.body_bytes_max";
    BadGzip = 400, "malformed", "cannot be read", "the body is no gzip stream";
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(response: &Response<'_>) -> Value {
        serde_json::from_slice(response.body).unwrap()
    }

    fn granted() -> Outcome {
        let unit = Unit::parse("USD").unwrap();
        let (token, amount) = ([0xfb; 32], Amount::new(150_000));
        Outcome::Granted { token, amount, unit, deadline_ms: 1_795_426_200_250 }
    }

    fn usd() -> Unit {
        Unit::parse("USD").unwrap()
    }

    /// One of each that moved money, as text.
    fn moved() -> [(Outcome, Verdict, &'static str); 6] {
        let (amount, unit) = (Amount::new(42_000), usd());
        let deadline_ms = 1_795_426_200_250;
        let settled = Outcome::Settled {
            verdict: Verdict::SettledOver,
            amount: Some(amount),
            unit,
            repeat: false,
        };
        let spent = Outcome::Spent { verdict: Verdict::Settled, amount, unit };
        [
            (
                granted(),
                Verdict::Granted,
                r#"{"verdict":"granted","token":"-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s","amount":"0.15","deadline":"2026-11-23T09:30:00.250Z"}"#,
            ),
            (
                Outcome::Confirmed { repeat: false, deadline_ms },
                Verdict::Confirmed,
                r#"{"verdict":"confirmed","repeat":false,"deadline":"2026-11-23T09:30:00.250Z"}"#,
            ),
            (
                Outcome::Extended { repeat: false, deadline_ms },
                Verdict::Confirmed,
                r#"{"verdict":"extended","deadline":"2026-11-23T09:30:00.250Z","repeat":false}"#,
            ),
            (
                settled,
                Verdict::SettledOver,
                r#"{"verdict":"settled_over","amount":"0.042","repeat":false}"#,
            ),
            (spent, Verdict::Settled, r#"{"verdict":"settled","amount":"0.042"}"#),
            (
                Outcome::Released { repeat: false },
                Verdict::Released,
                r#"{"verdict":"released","repeat":false}"#,
            ),
        ]
    }

    #[test]
    fn answers_are_those_that_are_documented() {
        let mut room = AnswerRoom::default();
        for (outcome, verdict, text) in moved() {
            let answer = room.one(&outcome);
            assert_eq!((answer.status, answer.content_type), (200, Some("application/json")));
            assert_eq!(std::str::from_utf8(answer.body).unwrap(), text);
            assert_eq!(outcome.verdict(), Some(verdict));
        }
        let exhausted = room.one(&Outcome::refused(Verdict::Exhausted));
        assert_eq!((exhausted.status, exhausted.headers), (402, &b""[..]));
        assert_eq!(exhausted.content_type, Some("application/problem+json"));
        assert_eq!(read(&exhausted)["verdict"], "exhausted");
        for verdict in Verdict::ALL.into_iter().filter(|verdict| status_of(*verdict) >= 400) {
            let problem = room.one(&Outcome::refused(verdict));
            let (status, later) = (problem.status, matches!(problem.status, 429 | 503));
            let retry = if later { &b"Retry-After: 1\r\n"[..] } else { b"" };
            assert_eq!(problem.headers, retry, "{verdict:?}");
            let ms = later.then_some(1_000);
            assert_eq!(read(&problem)["retry_after_ms"].as_u64(), ms, "{verdict:?}: {status}");
        }
        assert_eq!(room.one(&Outcome::refused(Verdict::Expired)).status, 410);
        let stopping = room.one(&Outcome::Faulty(Fault::ShuttingDown, "it stops"));
        assert_eq!((stopping.status, stopping.headers), (503, &b"Retry-After: 1\r\n"[..]));
        assert_eq!(read(&stopping)["verdict"], "shutting_down");
        let starting = room.one(&Outcome::Starting);
        assert_eq!((starting.status, starting.headers), (503, &b"Retry-After: 1\r\n"[..]));
        assert_eq!(
            (&read(&starting)["verdict"], &read(&starting)["status"]),
            (&json!("busy"), &json!(503))
        );
    }

    #[test]
    fn entries_of_a_batch_have_their_status_and_the_body_that_they_have_alone() {
        let outcomes = [
            granted(),
            Outcome::Bad(BadCall::Twice { member: "amount" }),
            Outcome::kept(Verdict::Granted, granted().to_keep().into()),
            Outcome::refused(Verdict::AlreadySettled),
        ];
        let mut room = AnswerRoom::default();
        let alone: Vec<Value> = outcomes.iter().map(|outcome| read(&room.one(outcome))).collect();
        let answer = room.batch(&outcomes);
        assert_eq!(answer.status, 200);
        let all = read(&answer);
        for ((entry, alone), status) in
            all.as_array().unwrap().iter().zip(&alone).zip([200, 400, 200, 409])
        {
            assert_eq!(entry, &json!({"status": status, "body": alone}));
        }
        assert_eq!(all[2], all[0], "byte for byte");
        assert_eq!(room.batch(&[]).body, b"[]");
    }

    #[test]
    fn what_is_kept_is_short_and_answered_byte_for_byte() {
        let mut room = AnswerRoom::default();
        for (outcome, verdict, text) in moved() {
            let kept = outcome.to_keep();
            assert!(kept.len() <= 53, "{text}: {}", kept.len());
            assert_eq!(Outcome::kept(verdict, kept.into()), outcome);
        }
        // What earlier versions kept: the whole body, or nothing beside the verdict.
        let old = Outcome::kept(Verdict::Granted, b"{\"token\":\"x\"}"[..].into());
        assert_eq!((room.one(&old).status, room.one(&old).body), (200, &b"{\"token\":\"x\"}"[..]));
        let old = Outcome::kept(Verdict::Settled, Box::default());
        assert_eq!(room.one(&old).body, br#"{"verdict":"settled","repeat":false}"#);
        let old = Outcome::kept(Verdict::Busy, Box::default());
        assert_eq!(room.one(&old).headers, b"Retry-After: 1\r\n");
        assert!(Outcome::refused(Verdict::Busy).to_keep().is_empty(), "a refusal is not kept");
    }

    /// Whatever booked nothing: a repeat, which says so, and refusals with their time and their member, however long.
    #[test]
    fn who_waits_under_a_key_is_told_the_same_bytes() {
        let (amount, unit) = (Some(Amount::new(7)), usd());
        let verdict = Verdict::Settled;
        let field = Field::new("amount", Some(&"9".repeat(40)), &"x".repeat(600));
        let cases = [
            Outcome::Confirmed { repeat: true, deadline_ms: 9 },
            Outcome::Extended { repeat: true, deadline_ms: 9 },
            Outcome::Settled { verdict, amount, unit, repeat: true },
            Outcome::Settled { verdict, amount: None, unit, repeat: true },
            Outcome::Released { repeat: true },
            Outcome::refused(Verdict::Busy),
            Outcome::Starting,
            Outcome::refused(Verdict::Expired),
            Outcome::refused_for(Verdict::DayExhausted, 3_707_500).with_left(Amount::new(5), unit),
            Outcome::of_field(Verdict::BadAmount, &"long ".repeat(200), field),
        ];
        let mut room = AnswerRoom::default();
        for first in cases {
            let told = Outcome::kept(first.verdict().unwrap(), first.to_tell().into());
            let written = |answer: Response<'_>| {
                (answer.status, answer.headers.to_vec(), answer.body.to_vec())
            };
            assert_eq!(written(room.one(&told)), written(room.one(&first)), "{first:?}");
        }
        let (limit, unit) = (Amount::new(5), usd());
        let never = Outcome::refused(Verdict::DayExhausted).larger_than(limit, unit, "day");
        assert_eq!((room.one(&never).status, room.one(&never).headers), (402, &b""[..]));
        let never = read(&room.one(&never.by(|limit| limit.budget = Some(Budget::Digits(7)))));
        assert_eq!((&never["budget"], &never["window"]), (&json!("7"), &json!("day")));
        assert_eq!((&never["left"], &never["retry_after_ms"]), (&Value::Null, &Value::Null));
        let day = Outcome::refused_for(Verdict::DayExhausted, 3_707_500);
        let told = Outcome::kept(Verdict::DayExhausted, day.to_tell().into());
        assert_eq!(room.one(&told).headers, b"Retry-After: 3708\r\n");
        assert_eq!(read(&room.one(&told))["verdict"], "day_exhausted");
    }

    #[test]
    fn bad_fields_are_named_for_programs() {
        let mut room = AnswerRoom::default();
        let problem =
            read(&room.one(&Outcome::Bad(BadCall::Missing { member: "token", expected: "it" })));
        assert_eq!(
            (&problem["field"], &problem["found"], &problem["expected"]),
            (&json!("token"), &Value::Null, &json!("it"))
        );
        let found = crate::Text::cut("1e3");
        for (member, status, verdict) in
            [("amount", 400, "bad_amount"), ("token", 400, "bad_token"), ("unit", 400, "malformed")]
        {
            let bad = BadCall::Value { member, found, expected: "digits" };
            let problem = read(&room.one(&Outcome::Bad(bad)));
            assert_eq!(
                (&problem["status"], &problem["verdict"]),
                (&json!(status), &json!(verdict))
            );
            assert_eq!((&problem["field"], &problem["found"]), (&json!(member), &json!("1e3")));
        }
        let many = room.one(&Outcome::Bad(BadCall::Entries { max: 3 }));
        assert_eq!((many.status, read(&many)["verdict"].clone()), (413, json!("malformed")));
        let field = Field::new("amount", Some("7"), "at most 5");
        let problem = read(&room.one(&Outcome::of_field(Verdict::BadAmount, "too much", field)));
        assert_eq!(
            (&problem["detail"], &problem["expected"]),
            (&json!("too much"), &json!("at most 5"))
        );
    }

    #[test]
    fn where_a_budget_stands_has_these_members() {
        let standing = |id| Standing {
            id,
            handle: None,
            name: "a \"name\"".into(),
            unit: usd(),
            limit: Amount::new(10_000_000),
            available: Amount::ZERO,
            held: Amount::new(1),
            settled: Amount::new(10_000_000),
            status: "active",
        };
        let mut room = AnswerRoom::default();
        assert_eq!(
            std::str::from_utf8(room.standing(Some(&standing(7))).body).unwrap(),
            r#"{"id":7,"handle":null,"name":"a \"name\"","unit":"USD","limit":"10.00","available":"0.00","held":"0.000001","settled":"10.00","status":"active"}"#
        );
        let large = read(&room.standing(Some(&standing(EXACT_MAX + 1))));
        assert_eq!(large["id"], json!("9007199254740993"));
        assert_eq!(room.standing(None).status, 404);
    }

    #[test]
    fn a_stranger_cannot_break_out_of_a_text() {
        let found = crate::Text::cut("\"},{\u{1}\\");
        let bad = BadCall::Value { member: "amount", found, expected: "a number" };
        let mut room = AnswerRoom::default();
        let read = read(&room.one(&Outcome::Bad(bad)));
        assert_eq!(
            (read["status"].as_u64(), read["verdict"].as_str()),
            (Some(400), Some("bad_amount"))
        );
    }

    #[test]
    fn what_is_no_http_is_refused_with_an_object_as_well() {
        for why in Refusal::ALL {
            let answer = refusal(why);
            assert_eq!(read(&answer)["status"], answer.status, "{why:?}");
        }
    }
}
