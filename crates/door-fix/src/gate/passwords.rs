//! Checks passwords of Logons on a thread of their own: a check takes tens of milliseconds by design.

use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};

use crate::{Admission, Guard, PasswordFile, PasswordHash};
use door_transport::Waker;
use fix::Message;
use weir_door::thread::{SystemError, spawn};
use weir_till::{Arrivals, Owed, Pending};

/// Checks that may wait; a Logon beyond is refused, and its client tries again.
const CHECKS_MAX: usize = 64;
/// Bytes of a password that is checked.
const PASSWORD_BYTES_MAX: usize = 1_024;

/// Admits Logons by Username (553) and Password (554), for sessions that have a file.
pub(super) struct Passwords {
    /// By session.
    files: Vec<Option<PasswordFile>>,
    checks: Option<SyncSender<Check>>,
    /// Connections whose Logon is being checked.
    waiting: Pending<u64>,
    /// Of the worker that has the door, once that is known.
    answers: Option<Arc<Arrivals<bool>>>,
}

/// One password to be checked.
struct Check {
    hash: PasswordHash,
    /// Without such a user it is checked all the same, so that nobody learns from the time who is one.
    is_user: bool,
    password: zeroize::Zeroizing<Vec<u8>>,
    answer: Owed<bool>,
}

impl std::fmt::Debug for Passwords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Passwords")
    }
}

impl Passwords {
    /// Starts the thread if any session has a file.
    pub(super) fn new(files: Vec<Option<PasswordFile>>) -> Result<Passwords, SystemError> {
        let needs_checks = files.iter().any(Option::is_some);
        let waiting = Pending::new(CHECKS_MAX);
        let mut passwords = Passwords { files, checks: None, waiting, answers: None };
        if needs_checks {
            passwords.begin()?;
        }
        Ok(passwords)
    }

    /// Starts the thread, if it does not run.
    pub(super) fn begin(&mut self) -> Result<(), SystemError> {
        if self.checks.is_none() {
            let (checks, taken) = sync_channel::<Check>(CHECKS_MAX);
            spawn("fix-passwords", move || taken.into_iter().for_each(Check::carry_out))?;
            self.checks = Some(checks);
        }
        Ok(())
    }

    /// Takes others' files in the place of all, by the numbers of the sessions. A check that is under way is of no use to its Logon then.
    pub(super) fn replace(&mut self, files: impl Iterator<Item = (usize, Option<PasswordFile>)>) {
        self.files.clear();
        for (session, file) in files {
            if self.files.len() <= session {
                self.files.resize_with(session + 1, || None);
            }
            self.files[session] = file;
        }
    }

    /// Says whom answers wake.
    pub(super) fn wake(&mut self, waker: Waker) {
        self.answers = Some(Arrivals::new(waker));
    }

    /// The connections whose Logon was judged. One that was never checked, because the thread is gone, is refused.
    pub(super) fn judged(&mut self) -> Vec<(u64, bool)> {
        let Some(answers) = self.answers.as_ref().filter(|_| !self.waiting.is_empty()) else {
            return Vec::new();
        };
        let answers = answers.take().into_iter();
        let of_line = |(place, is_right): (u32, Option<bool>)| {
            Some((self.waiting.close(place)?, is_right.unwrap_or(false)))
        };
        answers.filter_map(of_line).collect()
    }

    /// Has a password checked.
    fn check(
        &mut self,
        line: u64,
        (hash, is_user): (PasswordHash, bool),
        password: &[u8],
    ) -> Admission {
        let (Some(checks), Some(answers)) = (&self.checks, &self.answers) else {
            return Admission::No;
        };
        let Some(place) = self.waiting.open(line) else { return Admission::No };
        let password = zeroize::Zeroizing::new(password.to_vec());
        let answer = Owed::new(place, answers);
        match checks.try_send(Check { hash, is_user, password, answer }) {
            Ok(()) => Admission::Later,
            Err(TrySendError::Full(check) | TrySendError::Disconnected(check)) => {
                check.answer.forget();
                self.waiting.close(place);
                Admission::No
            }
        }
    }
}

impl Check {
    fn carry_out(self) {
        let is_right = self.hash.is_of(&self.password);
        self.answer.give(is_right && self.is_user);
    }
}

impl Guard for Passwords {
    fn admits(&mut self, session: usize, line: u64, logon: &Message<'_>) -> Admission {
        let Some(file) = self.files.get(session).and_then(Option::as_ref) else {
            return Admission::Yes;
        };
        let (Some(user), Some(password)) = (logon.value(553), logon.value(554)) else {
            return Admission::No;
        };
        if password.len() > PASSWORD_BYTES_MAX {
            return Admission::No;
        }
        let hash = file.hash_of(user);
        self.check(line, hash, password)
    }
}

#[cfg(test)]
mod tests {
    use door_transport::Handle;

    use super::*;

    /// Of `secret`, by the reference's tool.
    const FILE: &str =
        "ann $argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$4mqQiyq0VpIzuZmp+8eSF3YJ7Av58TkEJ4LIdOVsAc4";

    #[test]
    fn who_waits_for_a_thread_that_is_gone_is_refused_and_so_is_who_comes_then() {
        let file = PasswordFile::parse(FILE).unwrap();
        let (checks, taken) = sync_channel(1);
        let waiting = Pending::new(CHECKS_MAX);
        let mut passwords =
            Passwords { files: vec![], checks: Some(checks), waiting, answers: None };
        let ann = || file.hash_of(b"ann");
        assert!(matches!(passwords.check(1, ann(), b"secret"), Admission::No), "nobody to wake");
        passwords.wake(Handle::new().unwrap().waker());
        assert!(matches!(passwords.check(1, ann(), b"secret"), Admission::Later));
        assert!(matches!(passwords.check(2, ann(), b"secret"), Admission::No), "one too many");
        taken.recv().unwrap().carry_out();
        assert!(matches!(passwords.check(3, ann(), b"wrong"), Admission::Later));
        taken.recv().unwrap().carry_out();
        assert_eq!(passwords.judged(), [(1, true), (3, false)]);
        assert!(matches!(passwords.check(4, ann(), b"secret"), Admission::Later));
        drop(taken);
        assert_eq!(passwords.judged(), [(4, false)]);
        assert!(matches!(passwords.check(5, ann(), b"secret"), Admission::No));
        assert_eq!((passwords.judged(), passwords.waiting.len()), (vec![], 0));
    }
}
