//! A node that has nothing to say beside the board, and refuses every change.

use axum::body::Bytes;
use serde_json::{Value, json};
use watch::Node;
use watch::node::{AuditRecord, Detail, Edit, EditError, Edited, Fields, Refusals};

pub(crate) struct MadeUp;

impl Node for MadeUp {
    fn id_of(&self, _: &str) -> Option<u64> {
        None
    }

    fn edit(&self, _: Edit) -> Result<Edited, EditError> {
        Err(EditError::Journal("made-up budgets have none".into()))
    }

    fn revision(&self, _: u64) -> Option<u64> {
        None
    }

    fn fields(&self, _: u64) -> Option<Fields> {
        None
    }

    fn detail(&self, _: u64) -> Option<Detail> {
        None
    }

    fn refusals(&self, _: u64) -> Option<Refusals> {
        None
    }

    fn audit(&self, _: Option<u64>, _: Option<u64>, _: usize) -> Vec<AuditRecord> {
        Vec::new()
    }

    fn audit_record(&self, _: u64) -> Option<AuditRecord> {
        None
    }

    fn status(&self) -> Value {
        json!({})
    }

    fn costs(&self) -> Value {
        json!({ "rows": [] })
    }

    fn config(&self) -> Value {
        json!({})
    }

    fn metrics(&self) -> Bytes {
        Bytes::from_static(b"# EOF\n")
    }

    fn ready(&self) -> Result<(), String> {
        Ok(())
    }
}
