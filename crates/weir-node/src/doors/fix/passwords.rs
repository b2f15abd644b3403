//! Checks passwords of Logons on a thread of their own: a check takes tens of milliseconds by design.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use door_fix::{Admission, Guard, PasswordFile, PasswordHash};
use door_transport::Waker;
use fix::Message;

use crate::error::StartError;
use crate::thread::spawn;

/// Checks that may wait; a Logon beyond is refused, and its client tries again.
const CHECKS_MAX: usize = 64;
/// Bytes of a password that is checked.
const PASSWORD_BYTES_MAX: usize = 1_024;

/// Admits Logons by Username (553) and Password (554), for sessions that have a file.
#[derive(Debug)]
pub(super) struct Passwords {
    /// By session.
    files: Vec<Option<PasswordFile>>,
    checks: Option<SyncSender<Check>>,
    answers: Receiver<(u64, bool)>,
    answered: Sender<(u64, bool)>,
    /// Of the worker that has the door.
    waker: Option<Waker>,
}

/// One password to be checked.
struct Check {
    line: u64,
    hash: PasswordHash,
    /// Without such a user it is checked all the same, so that nobody learns from the time who is one.
    is_user: bool,
    password: zeroize::Zeroizing<Vec<u8>>,
    answer: Sender<(u64, bool)>,
    waker: Option<Waker>,
}

impl Passwords {
    /// Starts the thread if any session has a file.
    pub(super) fn new(files: Vec<Option<PasswordFile>>) -> Result<Passwords, StartError> {
        let (answered, answers) = channel();
        let checks = if files.iter().any(Option::is_some) {
            let (checks, taken) = sync_channel::<Check>(CHECKS_MAX);
            spawn("fix-passwords", move || taken.into_iter().for_each(Check::carry_out))?;
            Some(checks)
        } else {
            None
        };
        Ok(Passwords { files, checks, answers, answered, waker: None })
    }

    /// Says whom answers wake.
    pub(super) fn wake(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// The next connection whose Logon was judged.
    pub(super) fn judged(&self) -> Option<(u64, bool)> {
        self.answers.try_recv().ok()
    }
}

impl Check {
    fn carry_out(self) {
        let is_right = self.hash.is_of(&self.password);
        // The door may be gone.
        let _ = self.answer.send((self.line, is_right && self.is_user));
        if let Some(waker) = &self.waker {
            waker.wake();
        }
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
        let (hash, is_user) = file.hash_of(user);
        let password = zeroize::Zeroizing::new(password.to_vec());
        let (answer, waker) = (self.answered.clone(), self.waker.clone());
        let check = Check { line, hash, is_user, password, answer, waker };
        let sent = self.checks.as_ref().is_some_and(|checks| checks.try_send(check).is_ok());
        if sent { Admission::Later } else { Admission::No }
    }
}
