//! The file that keeps confirms, settles and releases until they are answered. Its format is of all clients: see
//! `clients/conform/README.md`.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use wire::Action;

use crate::Token;
use crate::outbox::Order;

/// The longest file that is read, in bytes: far more than as many lines as may wait.
const LEN_MAX: u64 = 1 << 30;
/// A file without anything to do is emptied beyond this length, in bytes.
const EMPTIED_ABOVE: u64 = 64 << 10;
/// A longer one is written anew where little of it is still to be done, in bytes.
const REWRITTEN_ABOVE: u64 = 16 << 20;
/// ...which is when it has so many bytes for each order that is not done: eight lines.
const BYTES_PER_ORDER: u64 = 1 << 10;

/// An open spool file, locked.
#[derive(Debug)]
pub(crate) struct Spool {
    path: PathBuf,
    file: File,
    len: u64,
    /// The lines of orders that are not done.
    open: HashMap<(Token, u8), String>,
    rewritten_above: u64,
}

/// What a file holds.
#[derive(Debug, Default)]
struct Contents {
    orders: Vec<Order>,
    unreadable: usize,
}

fn action_of(name: &str) -> Option<Action> {
    Action::ALL.into_iter().find(|action| action.name() == name)
}

fn token_of(digits: &str) -> Option<Token> {
    let mut token = [0; 32];
    let is_small = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    if digits.len() != 64 || !digits.bytes().all(is_small) {
        return None;
    }
    for (byte, pair) in token.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(Token(token))
}

fn digits_of(token: &Token) -> String {
    token.0.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing into a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn line_of(order: &Order) -> String {
    let (action, token) = (order.action.name(), digits_of(&order.token));
    format!("{action} {token} {} {}\n", order.amount, order.request_id)
}

fn read_line(line: &str, open: &mut HashMap<(Token, u8), Order>) -> Option<()> {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["done", token, action] => {
            open.remove(&(token_of(token)?, action_of(action)?.as_raw()));
        }
        [action, token, amount, request_id] => {
            let (token, action) = (token_of(token)?, action_of(action)?);
            let (amount, request_id) = (amount.parse().ok()?, request_id.parse().ok()?);
            let order = Order { token, action, amount, request_id, issuer: None };
            open.insert((token, action.as_raw()), order);
        }
        _ => return None,
    }
    Some(())
}

/// What is not done; a last line without its end is one that cannot be read.
fn read(text: &str) -> Contents {
    let (mut open, mut unreadable) = (HashMap::new(), 0);
    for line in text.split_inclusive('\n') {
        let read = line.strip_suffix('\n').and_then(|line| read_line(line, &mut open));
        unreadable += usize::from(read.is_none());
    }
    let mut orders: Vec<Order> = open.into_values().collect();
    orders.sort_by_key(|order| (order.token.0, order.action.as_raw()));
    Contents { orders, unreadable }
}

fn key_of(order: &Order) -> (Token, u8) {
    (order.token, order.action.as_raw())
}

/// Opens and locks a file that its user alone may read: tokens are as good as the money that they hold.
fn open_locked(path: &Path) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
    loop {
        let file = options.open(path)?;
        if file.try_lock().is_err() {
            let text = format!("{}: another client has it open; give each its own", path.display());
            return Err(Error::new(ErrorKind::ResourceBusy, text));
        }
        // Whoever had it may have put another in its place meanwhile.
        if std::fs::metadata(path)
            .is_ok_and(|now| file.metadata().is_ok_and(|own| own.ino() == now.ino()))
        {
            return Ok(file);
        }
    }
}

impl Spool {
    /// Opens and locks the file, and writes it anew with what is not done; that, and the lines that could not be read.
    ///
    /// # Errors
    /// It cannot be read or written, is too long, or another client has it.
    pub(crate) fn open(path: &Path) -> Result<(Spool, Vec<Order>, usize), Error> {
        let mut file = open_locked(path)?;
        let len = file.metadata()?.len();
        if len > LEN_MAX {
            let text = format!("{}: {len} bytes, expected at most {LEN_MAX}", path.display());
            return Err(Error::new(ErrorKind::InvalidData, text));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let Contents { orders, unreadable } = read(&String::from_utf8_lossy(&bytes));
        if !bytes.ends_with(b"\n") && !bytes.is_empty() {
            // What follows must not become part of a line that has no end.
            file.write_all(b"\n")?;
        }
        let mut len = file.metadata()?.len();
        if orders.is_empty() {
            file.set_len(0)?;
            file.rewind()?;
            len = 0;
        }
        let open = orders.iter().map(|order| (key_of(order), line_of(order))).collect();
        let (path, rewritten_above) = (path.to_path_buf(), REWRITTEN_ABOVE);
        Ok((Spool { path, file, len, open, rewritten_above }, orders, unreadable))
    }

    /// Appends an order.
    pub(crate) fn note(&mut self, order: &Order) -> Result<(), Error> {
        let line = line_of(order);
        self.append(&line)?;
        self.open.insert(key_of(order), line);
        Ok(())
    }

    /// Appends that an order is answered for good.
    pub(crate) fn done(&mut self, order: &Order) -> Result<(), Error> {
        self.open.remove(&key_of(order));
        if self.open.is_empty() && self.len > EMPTIED_ABOVE {
            return self.cut(0);
        }
        if self.len > self.rewritten_above && self.len / BYTES_PER_ORDER > self.open.len() as u64 {
            if self.rewrite().is_ok() {
                return Ok(());
            }
            // As on a full disk: tried again when it is twice as long.
            self.rewritten_above = self.len.saturating_mul(2);
        }
        self.append(&format!("done {} {}\n", digits_of(&order.token), order.action.name()))
    }

    /// Writes the file anew, beside the old one, with what is not done; then it takes the old one's place at once.
    fn rewrite(&mut self) -> Result<(), Error> {
        let new = self.path.with_extension("new");
        // Of a rewriting that a crash cut short.
        let _ = std::fs::remove_file(&new);
        let mut file = open_locked(&new)?;
        let text: String = self.open.values().map(String::as_str).collect();
        file.write_all(text.as_bytes())?;
        std::fs::rename(&new, &self.path)?;
        (self.file, self.len) = (file, text.len() as u64);
        Ok(())
    }

    fn append(&mut self, line: &str) -> Result<(), Error> {
        if let Err(error) = self.file.write_all(line.as_bytes()) {
            // On a full disk a part of the line may stand there: the next line must not become its end.
            self.cut(self.len)?;
            return Err(error);
        }
        self.len += line.len() as u64;
        Ok(())
    }

    fn cut(&mut self, len: u64) -> Result<(), Error> {
        self.file.set_len(len)?;
        self.file.seek(SeekFrom::Start(len))?;
        self.len = len;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(first: u8, action: Action) -> Order {
        let amount = if action == Action::Settle { -5 } else { 0 };
        Order { token: Token([first; 32]), action, amount, request_id: u64::MAX, issuer: None }
    }

    /// First byte of the token, action, amount, request id.
    type Line = (u8, Action, i64, u64);

    fn open(path: &Path) -> (Spool, Vec<Line>, usize) {
        let (spool, orders, unreadable) = Spool::open(path).unwrap();
        let orders = orders.iter();
        let orders = orders.map(|o| (o.token.0[0], o.action, o.amount, o.request_id)).collect();
        (spool, orders, unreadable)
    }

    #[test]
    fn what_is_not_done_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let (mut spool, orders, _) = open(&path);
        assert!(orders.is_empty());
        for action in Action::ALL {
            spool.note(&order(7, action)).unwrap();
        }
        spool.note(&order(8, Action::Settle)).unwrap();
        spool.done(&order(7, Action::Release)).unwrap();
        assert_eq!(Spool::open(&path).unwrap_err().kind(), ErrorKind::ResourceBusy);
        drop(spool);
        let (_spool, orders, unreadable) = open(&path);
        let expected = [
            (7, Action::Confirm, 0, u64::MAX),
            (7, Action::Settle, -5, u64::MAX),
            (8, Action::Settle, -5, u64::MAX),
        ];
        assert_eq!((orders.as_slice(), unreadable), (expected.as_slice(), 0));
    }

    #[test]
    fn torn_and_foreign_lines_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let whole = line_of(&order(7, Action::Settle));
        let torn = &line_of(&order(8, Action::Settle))[..70];
        std::fs::write(&path, format!("{whole}not a line\nsettle 00 1 2\n\n{torn}")).unwrap();
        let (mut spool, orders, unreadable) = open(&path);
        assert_eq!((orders.len(), unreadable), (1, 4));
        spool.note(&order(9, Action::Settle)).unwrap();
        drop(spool);
        let (_spool, orders, unreadable) = open(&path);
        assert_eq!((orders.len(), unreadable), (2, 4), "the next line stands alone");
    }

    #[test]
    fn a_long_file_without_anything_to_do_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let (mut spool, ..) = open(&path);
        for _ in 0..600 {
            spool.note(&order(7, Action::Settle)).unwrap();
            spool.done(&order(7, Action::Settle)).unwrap();
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 2 * EMPTIED_ABOVE);
        drop(spool);
        assert!(open(&path).1.is_empty());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }

    #[test]
    fn a_long_file_is_written_anew_with_what_is_not_done() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("spool");
        let (mut spool, ..) = open(&path);
        spool.rewritten_above = 10_000;
        spool.note(&order(1, Action::Settle)).unwrap();
        for _ in 0..200 {
            spool.note(&order(7, Action::Settle)).unwrap();
            spool.done(&order(7, Action::Settle)).unwrap();
        }
        let meta = std::fs::metadata(&path).unwrap();
        assert!(meta.len() < 11_000, "{}", meta.len());
        assert_eq!(meta.mode() & 0o777, 0o600, "its user's alone");
        assert_eq!(Spool::open(&path).unwrap_err().kind(), ErrorKind::ResourceBusy);
        drop(spool);
        assert_eq!(open(&path).1, [(1, Action::Settle, -5, u64::MAX)]);
    }
}
