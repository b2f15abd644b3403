//! What is due by time.

use crate::compose::Fields;
use crate::config::Role;
use crate::gap::RESEND_WAIT_MS;
use crate::session::{LOGON_WAIT_MS, LOGOUT_WAIT_MS, Session, SessionState};
use crate::store::{MessageStore, StoreError};
use crate::turn::{Disconnect, Turn};

impl Session {
    /// After how much silence the peer is asked whether it lives: 1.2 heartbeat intervals.
    fn test_after_ms(&self) -> u64 {
        self.link.heart_bt_ms / 5 * 6
    }

    /// After how much silence the connection is given up: 2.4 heartbeat intervals.
    pub(crate) fn silence_max_ms(&self) -> u64 {
        self.link.heart_bt_ms / 5 * 12
    }

    pub(crate) fn next_timer_ms(&self) -> Option<u64> {
        let link = &self.link;
        match self.state {
            SessionState::Disconnected => None,
            SessionState::LoggingOn => Some(link.since_ms + LOGON_WAIT_MS),
            SessionState::LoggingOut => Some(link.since_ms + LOGOUT_WAIT_MS),
            SessionState::LoggedOn => {
                let gap = self.gap.as_ref().map(|gap| gap.since_ms + RESEND_WAIT_MS);
                let next = [gap, link.period_end_ms].into_iter().flatten().min();
                if link.heart_bt_ms == 0 {
                    return next;
                }
                let silence =
                    if link.test_sent { self.silence_max_ms() } else { self.test_after_ms() };
                let heart_beat = link.last_out_ms + link.heart_bt_ms;
                let beat = heart_beat.min(link.last_in_ms + silence);
                Some(next.map_or(beat, |next| next.min(beat)))
            }
        }
    }

    pub(crate) fn timers<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        let waited_ms = turn.now.ms.saturating_sub(self.link.since_ms);
        match self.state {
            SessionState::Disconnected => {}
            SessionState::LoggingOn if waited_ms >= LOGON_WAIT_MS => {
                let seconds = LOGON_WAIT_MS / 1_000;
                self.disconnect(Disconnect::LogonTimeout { seconds }, turn);
            }
            SessionState::LoggingOut if waited_ms >= LOGOUT_WAIT_MS => {
                let reason = std::mem::take(&mut self.link.logout_text);
                self.disconnect(Disconnect::LoggedOut { reason }, turn);
            }
            SessionState::LoggingOn | SessionState::LoggingOut => {}
            SessionState::LoggedOn => {
                self.end_period(turn);
                self.gap_is_late(turn);
                self.heart_beat(turn);
            }
        }
    }

    fn heart_beat<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        if self.link.heart_bt_ms == 0 || self.state != SessionState::LoggedOn {
            return;
        }
        let silent_ms = turn.now.ms.saturating_sub(self.link.last_in_ms);
        if silent_ms >= self.silence_max_ms() {
            self.disconnect(Disconnect::Silent { ms: silent_ms }, turn);
            return;
        }
        if silent_ms >= self.test_after_ms() && !self.link.test_sent {
            self.link.test_sent = true;
            self.say(b"1", &Fields::new().text(112, b"TEST"), turn);
        }
        if turn.now.ms.saturating_sub(self.link.last_out_ms) >= self.link.heart_bt_ms {
            self.say(b"0", &Fields::new(), turn);
        }
    }

    /// Begins a new life of the session if the stored one began in an earlier period. Only between two logons: what is
    /// logged on is ended by its own period.
    pub(crate) fn enter_period<S: MessageStore>(
        &mut self,
        turn: &mut Turn<'_, S>,
    ) -> Result<(), StoreError> {
        self.track(turn);
        let between = match self.state {
            SessionState::Disconnected => true,
            // An initiator's Logon has left with a number already.
            SessionState::LoggingOn => self.config.role == Role::Acceptor,
            SessionState::LoggedOn | SessionState::LoggingOut => false,
        };
        if !between {
            return Ok(());
        }
        let period = self.config.schedule.period_at(turn.now.unix_ms);
        match period {
            Some(period) if period.start_unix_ms > turn.store.created_unix_ms() => {
                self.begin_again(turn)
            }
            _ => Ok(()),
        }
    }

    /// Notes the period that now is in, and when it ends.
    pub(crate) fn plan_end<S>(&mut self, turn: &Turn<'_, S>) {
        self.link.period = self.config.schedule.period_at(turn.now.unix_ms);
        self.link.period_end_ms = self.link.period.and_then(|period| {
            let left_ms = period.end_unix_ms.saturating_sub(turn.now.unix_ms).unsigned_abs();
            (period.end_unix_ms < i64::MAX).then_some(turn.now.ms.saturating_add(left_ms))
        });
    }

    /// Logs out when the period is over by the wall clock, whatever was done to that clock meanwhile.
    fn end_period<S: MessageStore>(&mut self, turn: &mut Turn<'_, S>) {
        let now = turn.now;
        if !self.link.period.is_some_and(|period| period.contains(now.unix_ms)) {
            self.log_out("Session period is over", turn);
        } else if self.link.period_end_ms.is_some_and(|end| now.ms >= end) {
            self.plan_end(turn);
        }
    }
}
