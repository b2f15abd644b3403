//! The scenarios, as far as the node reads them: `clients/conform/README.md` says what each member means. Steps are the client's.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// The scenarios that this program was compiled with.
pub const SCENARIOS: &str = include_str!("../../scenarios.json");

/// The whole file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The version of the format.
    pub format: u32,
    /// What the file is, for people.
    pub about: String,
    /// In the order in which they are to be read.
    pub scenarios: Vec<Scenario>,
}

/// One play.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Unique, of letters, digits and dashes.
    pub name: String,
    /// The rule that it shows, as a sentence.
    pub about: String,
    /// What the client's driver reads.
    #[serde(default)]
    pub options: serde_json::Value,
    /// What the client's driver does.
    pub steps: Vec<serde_json::Value>,
    /// The nodes; one that follows no rule where none is given.
    #[serde(default)]
    pub nodes: Vec<NodeScript>,
    /// What must have come in the end.
    #[serde(default)]
    pub must: Vec<Must>,
    /// Grants that may stay neither settled nor released in the end.
    #[serde(default)]
    pub open_grants: usize,
}

/// How one node differs from one that answers everything well.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[serde(default)]
pub struct NodeScript {
    /// Nobody listens at the beginning.
    pub down: bool,
    /// The token that Hello must show.
    pub auth: String,
    /// Entries a frame may hold.
    pub batch_max: u16,
    /// The schema version of Welcome.
    pub version: u16,
    /// It says `foreign` to tokens of other nodes.
    pub knows_own_tokens_only: bool,
    /// The budgets that have handles, and their numbers here.
    pub handles: HashMap<String, u64>,
    /// The first rule that fits a message applies.
    pub rules: Vec<Rule>,
}

impl Default for NodeScript {
    fn default() -> Self {
        Self {
            down: false,
            auth: String::new(),
            batch_max: 1000,
            version: wire::SCHEMA_VERSION,
            knows_own_tokens_only: false,
            handles: HashMap::new(),
            rules: Vec::new(),
        }
    }
}

/// What a node does with some messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Which messages.
    pub on: On,
    /// Only frames that hold an entry with this action.
    pub action: Option<String>,
    /// Only frames that hold an ask to this budget.
    pub budget: Option<u64>,
    /// So many fitting messages pass before the rule begins.
    #[serde(default)]
    pub skip: usize,
    /// So many messages it applies to, then no more.
    #[serde(default = "unlimited")]
    pub times: usize,
    /// One after the other.
    #[serde(rename = "do")]
    pub acts: Vec<Act>,
}

const fn unlimited() -> usize {
    usize::MAX
}

/// Which messages a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// A connection that was accepted, before its first message.
    Connection,
    /// Hello.
    Hello,
    /// Decide.
    Asks,
    /// Resolve.
    Resolves,
    /// Find.
    Find,
}

/// One thing that a node does.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Act {
    /// Answers, and books what the answer says.
    Answer(Answer),
    /// Makes the answer and books it, but keeps it until the driver says `send` with this label.
    Keep(String),
    /// Books as the answer would say, and sends nothing.
    Book,
    /// Refuses the frame, with the reason of this name or code.
    Refuse(Code),
    /// Sends these bytes, in hexadecimal digits.
    Bytes(String),
    /// Waits.
    DelayMs(u64),
    /// Ends the connection in order.
    Close,
    /// Ends it with a reset.
    Reset,
    /// Sends nothing.
    Ignore,
}

/// How an answer differs from a good one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answer {
    /// The verdicts of the entries in order; the last holds for all further ones. Those that are no yes book nothing.
    pub verdicts: Vec<Code>,
    /// Sends it twice.
    pub twice: bool,
    /// Answers another frame: its number is changed by these bits.
    pub frame_xor: u64,
    /// Sends only so many bytes of it.
    pub cut: Option<usize>,
    /// Sends it in pieces of so many bytes.
    pub pieces: Option<usize>,
    /// Writes it as a later version of the schema would: longer blocks and entries, and one more group.
    pub newer: bool,
    /// Leaves out the last entries, so many.
    pub short: usize,
    /// A handle stands for this budget, and no longer for the one before.
    pub budget: Option<u64>,
}

/// A verdict or a reason: its name, or a code that may be in no schema.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum Code {
    /// As in the schema, in small letters.
    Name(String),
    /// The number on the wire.
    Number(u8),
}

impl Code {
    /// The number of a verdict.
    ///
    /// # Errors
    /// The name that no verdict has.
    pub fn verdict(&self) -> Result<u8, String> {
        let name = match self {
            Code::Number(code) => return Ok(*code),
            Code::Name(name) => name,
        };
        let found = wire::Verdict::ALL.into_iter().find(|verdict| verdict.name() == name);
        found.map(wire::Verdict::as_raw).ok_or_else(|| format!("no verdict is called {name:?}"))
    }

    /// The number of a reason.
    ///
    /// # Errors
    /// The name that no reason has.
    pub fn reason(&self) -> Result<u8, String> {
        let name = match self {
            Code::Number(code) => return Ok(*code),
            Code::Name(name) => name,
        };
        let found = wire::Reason::ALL.into_iter().find(|reason| reason.name() == name);
        found.map(wire::Reason::as_raw).ok_or_else(|| format!("no reason is called {name:?}"))
    }
}

/// How often something must have come.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Must {
    /// What is counted.
    #[serde(flatten)]
    pub what: What,
    /// Exactly so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// At least so often; 1 where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<usize>,
    /// At most so often.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<usize>,
}

/// What came from the client: everything that is given must fit.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(default)]
pub struct What {
    /// `connection`, `closed`, `hello`, `asks` and `resolves` (frames), `ask`, `confirm`, `settle` and `release` (entries), `find`, `ping`.
    pub saw: String,
    /// To this node, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<usize>,
    /// Entries of the frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<usize>,
    /// An ask to this budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
    /// In base units.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub amount: Option<i64>,
    /// The letters of the unit, without the padding.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// The name of a request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<u64>,
    /// The user of an ask.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<u64>,
    /// A member of a pod, or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<bool>,
    /// With the flag `remember`, or without.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remember: Option<bool>,
    /// About the hold of the grant with this number; grants are counted from 1 in the order in which they were made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<u64>,
    /// The token of Hello.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<String>,
    /// The handle of Find.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}
