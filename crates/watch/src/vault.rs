//! What the admin API shows of the vault: its keys and how they are used. It has no field that could hold a secret.

use serde::Serialize;
use utoipa::ToSchema;

/// Which keys are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VaultPage {
    /// Those behind this name; empty for the first.
    pub after: String,
    /// At most so many.
    pub max: usize,
}

/// How the vault stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub struct Vault {
    /// Where the keys door listens; null where it is off.
    #[schema(required, example = "127.0.0.1:7703")]
    pub listen: Option<String>,
    /// The key that unwraps the others is not here: calls about keys are answered 503.
    pub sealed: bool,
    /// All keys; 0 while they are sealed.
    pub count: u64,
    /// Calls about keys since the start, with whatever status.
    pub calls: u64,
    /// Items of these calls.
    pub items: u64,
    /// Items that failed.
    pub items_failed: u64,
    /// Requests answered 403.
    pub denied: u64,
    /// A page of the keys, by name.
    pub keys: Vec<VaultKey>,
    /// The name to give as `after` for the next page; null on the last.
    #[schema(required)]
    pub next: Option<String>,
}

/// How a key stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct VaultKey {
    /// Its name.
    #[schema(example = "orders")]
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    #[schema(example = "aes256-gcm-siv")]
    pub kind: String,
    /// The number of its latest version.
    #[schema(minimum = 1)]
    pub latest_version: u32,
    /// How many versions are kept.
    pub versions: u64,
    /// The least version that still opens messages.
    pub min_decryption_version: u32,
    /// When its latest version was made.
    pub rotated_ms: u64,
    /// After how many seconds it is rotated by itself; null: never.
    #[schema(required)]
    pub rotates_every_s: Option<u64>,
    /// Messages that the latest version sealed; after a restart as many as it may have sealed. Null of a key that seals none.
    #[schema(required)]
    pub messages: Option<u64>,
    /// So many it may seal.
    #[schema(required)]
    pub messages_max: Option<u64>,
    /// Its bytes may be exported.
    pub exportable: bool,
    /// It may be deleted.
    pub deletion_allowed: bool,
    /// It is out of use until it is taken back: calls with it are refused.
    pub soft_deleted: bool,
}
