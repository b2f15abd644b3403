//! What the FIX door counts.

use counters::{Counter, counters};
use door_fix::Happening;
use fix_session::Notice;

counters! {
    /// Counters of the worker that has the door.
    #[derive(Debug, Default)]
    pub struct FixCounts of Counter, in "doors.fix" {
        logons: "Logons that were accepted, of clients and of venues.";
        refused_logons: "Connections that were closed because they showed no Logon of a session that they may have.";
        resets: "Resets of both sequence numbers of a session.";
        gaps: "Gaps in what a peer sent, each asked for again.";
        rejects: "Messages answered with a Reject (3).";
        peer_rejects: "Messages of ours that a peer answered with a Reject (3).";
        lost: "Messages that a peer gave up with a SequenceReset, and numbers that show that one side has lost data.", failing("fix_lost", "/docs/fix.md#alarms");
        unaddressed: "Messages of a venue that could go to no client; they are in the venue's store.", failing("fix_unaddressed", "/docs/fix.md#alarms");
        store_failures: "Steps whose messages could not be kept, so that nothing of them left.", failing("fix_store", "/docs/fix.md#alarms");
    }
}

impl FixCounts {
    /// Counts what happened, and writes it to the log where somebody should know.
    pub(super) fn tell(&self, session: &str, happening: &Happening) {
        match happening {
            // Strangers can cause these: the counter tells, and whoever looks for a reason sets log.level.
            Happening::Refused(_, why) => {
                self.refused_logons.add(1);
                tracing::debug!(session, %why, "FIX: a connection was refused");
            }
            Happening::Notice(_, notice) => self.tell_notice(session, notice),
            Happening::Ends(_, why) => {
                tracing::info!(session, ?why, "FIX: the connection of a session ends")
            }
            Happening::StoreFailed(_, error) => {
                self.store_failures.add(1);
                tracing::error!(session, %error, "FIX: messages could not be kept; nothing of that step left");
            }
            Happening::Unaddressed(_) => {
                self.unaddressed.add(1);
                tracing::error!(
                    session,
                    "FIX: a message of a venue could go to no client; it is in the venue's store"
                );
            }
            Happening::UnknownRejected(_) => {
                self.peer_rejects.add(1);
                tracing::warn!(
                    session,
                    "FIX: a peer rejected a message that is not known to be anybody's"
                );
            }
            other => tracing::warn!(session, ?other, "FIX"),
        }
    }

    fn tell_notice(&self, session: &str, notice: &Notice) {
        match notice {
            Notice::LoggedOn { heart_bt_int_s } => {
                self.logons.add(1);
                tracing::info!(session, heart_bt_int_s, "FIX: a session is logged on");
            }
            Notice::Reset => {
                self.resets.add(1);
                tracing::info!(session, "FIX: both sequence numbers begin at 1 again");
            }
            Notice::GapOpened { from, to } => {
                self.gaps.add(1);
                tracing::info!(session, from, to, "FIX: messages are missing and asked for again");
            }
            Notice::GapClosed => {
                tracing::info!(session, "FIX: everything that was missing has come")
            }
            Notice::PeerSkipped { .. } | Notice::NotInStore { .. } | Notice::PeerIsAhead { .. } => {
                self.lost.add(1);
                tracing::error!(session, ?notice, "FIX: messages are lost");
            }
            Notice::Rejected { seq, rejection } => {
                self.rejects.add(1);
                tracing::debug!(session, seq, ?rejection, "FIX: a message was rejected");
            }
            Notice::PeerRejected { ref_seq, text } => {
                self.peer_rejects.add(1);
                tracing::warn!(session, ?ref_seq, text, "FIX: the peer rejected a message");
            }
            other => tracing::info!(session, ?other, "FIX"),
        }
    }
}
