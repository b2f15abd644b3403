//! `weir reload`: a running node reads its configuration again.

use std::io::Write;

use admin_client::{FetchError, OpenError, Options, harmless};
use serde_json::Value;

/// Which node.
#[derive(Debug, clap::Args)]
pub struct ReloadArgs {
    #[command(flatten)]
    node: Options,
}

/// Why nothing was reloaded.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The command line.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The node was not reached, or does not let us.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The node judged the configuration.
    #[error("nothing was changed, for {} reason(s)\n{}", .0.len(), .0.join("\n"))]
    Refused(Vec<String>),
}

/// Asks a node to reload, and prints what it read.
///
/// # Errors
/// [`ReloadError`]; the node goes on as before.
pub fn main(args: &ReloadArgs, out: &mut dyn Write) -> Result<(), ReloadError> {
    let client = args.node.open()?;
    let lines = |answer: &Value, of: &str| -> Vec<String> {
        let texts = answer[of].as_array().into_iter().flatten().filter_map(Value::as_str);
        texts.map(harmless).collect()
    };
    match client.post("/v1/reload")? {
        Ok(answer) => {
            let applied = lines(&answer, "applied");
            let none = "nothing to read: no entry of the FIX door is another, and no key of the configuration names a file that is read while the node runs";
            // Whoever gave `out` knows what became of it.
            let _ = match applied.is_empty() {
                true => writeln!(out, "{none}"),
                false => writeln!(out, "{}", applied.join("\n")),
            };
            Ok(())
        }
        Err(answer) => Err(ReloadError::Refused(lines(&answer, "errors"))),
    }
}
