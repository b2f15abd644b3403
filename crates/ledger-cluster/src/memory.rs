//! An engine in memory that answers as JetStream does, and loses, forgets and lies on request: for tests.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::engine::Ask;
use crate::{ClusterName, Engine, Reply};

/// What happens to one append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineFault {
    /// The request is lost.
    Lost,
    /// It is stored, and the answer is lost.
    Unanswered,
    /// The engine refuses it, as a full one does.
    Refused,
    /// It is stored with whatever number is next.
    NotCompared,
}

/// A stream in memory.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    settings: Option<Value>,
    /// Entries that were trimmed.
    pub(crate) trimmed: usize,
    pub(crate) entries: Vec<Vec<u8>>,
    pub(crate) faults: Vec<EngineFault>,
    /// Pieces beside the log; `None`: there is no store.
    pub(crate) pieces: Option<BTreeMap<String, Vec<u8>>>,
    /// So many more pieces are kept, and then the store is away.
    pub(crate) room: Option<usize>,
    /// Requests for single entries get no answer.
    pub(crate) is_mute: bool,
    /// Readers are shown so many entries fewer.
    pub(crate) stale: usize,
    /// They are, but where the log ends is told as it is.
    pub(crate) slow: usize,
    /// So often it is said that there is no stream.
    pub(crate) gone: usize,
    pub(crate) appends: usize,
}

/// Clones are clients of the same engine.
#[derive(Clone, Debug)]
pub struct Memory(Arc<Mutex<Entries>>, ClusterName);

impl Memory {
    /// An engine without a stream.
    pub fn new(name: ClusterName) -> Memory {
        Memory(Arc::default(), name)
    }

    pub(crate) fn stream(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has these happen to the next appends.
    pub fn plant(&self, faults: &[EngineFault]) {
        self.stream().faults.extend(faults.iter().rev());
    }

    /// Forgets all entries behind so many.
    pub fn cut(&self, entries: usize) {
        self.stream().entries.truncate(entries);
    }

    /// How many entries there are.
    pub fn entries(&self) -> usize {
        self.stream().entries.len()
    }

    pub(crate) fn error(code: u64, text: &str) -> Reply {
        let error = json!({"code": 400, "err_code": code, "description": text});
        Reply::Answer(json!({ "error": error }).to_string().into_bytes())
    }
}

impl Engine for Memory {
    fn append(&mut self, after: u64, _: u64, sealed: Vec<u8>) -> Reply {
        let mut stream = self.stream();
        stream.appends += 1;
        let silence = Reply::Silence("no answer within 400 ms".into());
        let (fault, last) = (stream.faults.pop(), stream.entries.len() as u64);
        match fault {
            Some(EngineFault::Lost) => return silence,
            Some(EngineFault::Refused) => return Memory::error(10077, "maximum bytes exceeded"),
            Some(EngineFault::NotCompared) => {}
            _ if after != last => {
                return Memory::error(10071, &format!("wrong last sequence: {last}"));
            }
            _ => {}
        }
        stream.entries.push(sealed);
        match fault {
            Some(EngineFault::Unanswered) => silence,
            _ => {
                let answer = json!({"stream": self.1.stream(), "seq": last + 1});
                Reply::Answer(answer.to_string().into())
            }
        }
    }

    fn entry(&mut self, number: u64) -> Reply {
        let stream = self.stream();
        if stream.is_mute {
            return Reply::Silence("no answer within 400 ms".into());
        }
        let at = usize::try_from(number).unwrap_or(usize::MAX);
        match stream.entries.get(at.wrapping_sub(1)).filter(|_| at > stream.trimmed) {
            None => Memory::error(10037, "no message found"),
            Some(bytes) => {
                let message = json!({"seq": number, "data": STANDARD.encode(bytes)});
                Reply::Answer(json!({ "message": message }).to_string().into())
            }
        }
    }

    fn info(&mut self) -> Reply {
        let mut stream = self.stream();
        let gone = stream.gone;
        stream.gone = gone.saturating_sub(1);
        let Some(settings) = stream.settings.as_ref().filter(|_| gone == 0) else {
            return Memory::error(10059, "stream not found");
        };
        let last = stream.entries.len() - stream.stale;
        let state = json!({"first_seq": stream.trimmed + 1, "last_seq": last});
        let info = json!({"config": settings, "cluster": {"leader": "n1"}, "state": state});
        Reply::Answer(info.to_string().into())
    }

    fn create(&mut self, settings: &str) -> Reply {
        let (mut stream, settings) = (self.stream(), serde_json::from_str(settings).ok());
        if stream.settings.is_some() && stream.settings != settings {
            return Memory::error(
                10058,
                "stream name already in use with a different configuration",
            );
        }
        stream.settings = settings;
        Reply::Answer(json!({}).to_string().into())
    }

    fn entries(
        &mut self,
        from: u64,
        each: &mut dyn FnMut(u64, &[u8]) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let stream = self.stream();
        let from = usize::try_from(from - 1).unwrap_or(usize::MAX).max(stream.trimmed);
        let shown = &stream.entries[..stream.entries.len() - stream.stale - stream.slow];
        let _ = (from..)
            .zip(shown.iter().skip(from))
            .try_for_each(|(at, bytes)| each(at as u64 + 1, bytes));
        Ok(())
    }

    fn ask(&mut self, what: Ask<'_>) -> Reply {
        let mut stream = self.stream();
        let done = Reply::Answer(json!({"success": true}).to_string().into());
        if stream.room == Some(0) {
            return Reply::Silence("no answer within 400 ms".into());
        }
        if let Ask::Trim(before) = what {
            stream.trimmed = usize::try_from(before - 1).unwrap_or(usize::MAX);
            return done;
        }
        if let Ask::Drop = what {
            (stream.settings, stream.entries, stream.trimmed) = (None, Vec::new(), 0);
            return done;
        }
        if let Ask::Make(_) = what {
            stream.pieces.get_or_insert_default();
            return done;
        }
        let Entries { pieces: Some(pieces), room, .. } = &mut *stream else {
            return Memory::error(10059, "stream not found");
        };
        match what {
            Ask::Put(name, bytes) => {
                *room = room.map(|room| room - 1);
                pieces.insert(name.into(), bytes);
            }
            Ask::Get(name) => {
                let Some(bytes) = pieces.get(name) else {
                    return Memory::error(10037, "no message found");
                };
                let message = json!({"seq": 1, "data": STANDARD.encode(bytes)});
                return Reply::Answer(json!({ "message": message }).to_string().into());
            }
            Ask::Names(of) => {
                let names = pieces.keys().filter(|name| fits(of, name));
                let subjects: BTreeMap<_, _> = names.map(|name| (self.1.piece(name), 1)).collect();
                let info = json!({"state": {"subjects": subjects}});
                return Reply::Answer(info.to_string().into());
            }
            Ask::Remove(of) => pieces.retain(|name, _| !fits(of, name)),
            Ask::Make(_) | Ask::Trim(_) | Ask::Drop => {}
        }
        done
    }

    fn monitors(&mut self) -> Vec<(String, Result<String, String>)> {
        let config = json!({"sync_always": true});
        let page =
            json!({"server_name": "n1", "max_payload": 1 << 20, "jetstream": {"config": config}});
        vec![("http://n1:8222".into(), Ok(page.to_string()))]
    }
}

/// Is it one of these names?
fn fits(of: &str, name: &str) -> bool {
    let (mut of, mut name) = (of.split('.'), name.split('.'));
    loop {
        match (of.next(), name.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(part), Some(other)) if part == "*" || part == other => {}
            _ => return false,
        }
    }
}
