//! What the FIX door counts, and writes to the log.

use std::time::{Duration, Instant};

use super::limits::RefusedFor;
use crate::{Caller, Happening, Refused};
use counters::{Counter, counters};
use door_transport::CloseReason;
use fix_session::{Disconnect, Notice};
use fix_store::OpenError;
use gate_orders::Alarm;

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
        lost: "Messages that a peer gave up with a SequenceReset, numbers that show that one side has lost data, and records that cannot be read.", failing("fix_lost", "/docs/fix.md#alarms");
        unaddressed: "Messages of a venue that could go to no client; they are in the venue's store.", failing("fix_unaddressed", "/docs/fix.md#alarms");
        order_alarms: "Reports that do not fit what is known of an order, or that no budget could be told of.", failing("fix_orders", "/docs/fix.md#alarms");
        doubtful: "Orders of which no book of a venue can say whether they left, or whether the ledger has booked them, or of which the venue does not say whether it has them; what is held stays held.", failing("fix_doubt", "/docs/fix.md#alarms");
        refused_limit: "Orders and replaces that were refused because a budget has less left.";
        refused_closed_budget: "Orders and replaces that were refused because a budget is paused, has not begun, or has ended.";
        refused_no_budget: "Orders that were refused because no budget binds them, or too many.";
        refused_unpriced: "Messages that were refused because what they cost at most cannot be told.";
        refused_value: "Orders and replaces that were refused because they cost more than `order_value_max` of their session.";
        refused_quantity: "Orders and replaces that were refused because they are larger than `order_quantity_max` of their session.";
        refused_restricted: "Orders and replaces that were refused because their session may not trade their instrument.";
        refused_no_reference: "Orders and replaces that were refused because their symbols have no reference price.";
        refused_killed: "Orders and replaces that were refused because orders of their session, account or firm are stopped.";
        away: "Times that a client was away for longer than its `cancel_on_disconnect_s`.";
        cancels: "Cancels that the gate sent for open orders that are stopped, or whose client is away.";
        cancels_refused: "Cancels of the gate that a venue refused; the order may be open still.", failing("fix_cancels", "/docs/fix.md#alarms");
        refused_duplicate: "Orders, cancels and replaces that were refused because their ClOrdID is in use.";
        refused_no_order: "Replaces that were refused because what they replace is closed or unknown.";
        refused_too_late: "Orders and replaces that were refused because they came too late, or were to be sent again too late.";
        refused_unanswered: "Orders and replaces that were refused because the ledger did not judge them in time.";
        refused_journal: "Orders and replaces that were refused because nothing can be recorded.";
        refused_no_room: "Orders and replaces that were refused because there is no room for more open orders.";
        refused_by_venue: "Orders, cancels and replaces of sessions with limits whose message the venue rejected.";
        price_failures: "Times that the file of reference prices could not be read, was wrong or was gone; the prices before stay in force.", failing("fix_prices", "/docs/fix.md#alarms");
        unread: "Connections that were closed because the peer left more than `outbound_bytes_max` unread.";
        store_failures: "Steps whose messages could not be kept, so that nothing of them left.", failing("fix_store", "/docs/fix.md#alarms");
    }
}

impl FixCounts {
    /// Counts what happened, and writes it to the log where somebody should know.
    pub(super) fn tell(&self, session: &str, happening: &Happening) {
        match happening {
            // `RefusalLog` tells of it.
            Happening::Refused(..) => self.refused_logons.add(1),
            Happening::Notice(_, notice) => self.tell_notice(session, notice),
            Happening::Ends(_, why) => {
                let is_refused = matches!(
                    why,
                    Disconnect::Closed | Disconnect::UnfitLogon | Disconnect::LogonTime
                );
                self.refused_logons.add(is_refused.into());
                tracing::info!(session, %why, "FIX: the connection of a session ends");
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
            Happening::OrderRefused(_, why) => {
                self.counter_of(*why).add(1);
                tracing::debug!(session, ?why, "FIX: an order was refused");
            }
            Happening::Away(_) => {
                self.away.add(1);
                tracing::warn!(
                    session,
                    "FIX: the client is away for longer than its cancel_on_disconnect_s: its open orders are cancelled"
                );
            }
            Happening::InDoubt(_, orders, told) => self.tell_doubt(session, *orders, told),
            Happening::Cancelled(_) => self.cancels.add(1),
            Happening::CancelRefused(_, told) => {
                self.cancels_refused.add(1);
                tracing::error!(
                    session,
                    "FIX: the venue refused a cancel of the gate; the order may be open still: cancel it with the venue. {told}"
                );
            }
            other => match sentence(other) {
                Some((Weight::Lost, told)) => {
                    self.lost.add(1);
                    tracing::error!(session, "FIX: {told}");
                }
                Some((Weight::Known, told)) => tracing::warn!(session, "FIX: {told}"),
                Some((Weight::Order, told)) => {
                    self.order_alarms.add(1);
                    tracing::error!(session, "FIX: {told}");
                }
                None => tracing::warn!(session, ?other, "FIX"),
            },
        }
    }

    fn tell_doubt(&self, session: &str, orders: usize, told: &str) {
        self.doubtful.add(orders);
        tracing::error!(
            session,
            orders,
            "FIX: the venue does not say whether it has these messages: what they hold stays held. Compare their orders with the venue. ClOrdID (11) {told}"
        );
    }

    fn counter_of(&self, why: RefusedFor) -> &Counter {
        match why {
            RefusedFor::Limit => &self.refused_limit,
            RefusedFor::ClosedBudget => &self.refused_closed_budget,
            RefusedFor::NoBudget => &self.refused_no_budget,
            RefusedFor::Unpriced => &self.refused_unpriced,
            RefusedFor::Value => &self.refused_value,
            RefusedFor::Quantity => &self.refused_quantity,
            RefusedFor::Restricted => &self.refused_restricted,
            RefusedFor::NoReference => &self.refused_no_reference,
            RefusedFor::Killed => &self.refused_killed,
            RefusedFor::Duplicate => &self.refused_duplicate,
            RefusedFor::NoOrder => &self.refused_no_order,
            RefusedFor::TooLate => &self.refused_too_late,
            RefusedFor::Unanswered => &self.refused_unanswered,
            RefusedFor::Journal => &self.refused_journal,
            RefusedFor::NoRoom => &self.refused_no_room,
            RefusedFor::Venue => &self.refused_by_venue,
        }
    }

    /// Writes to the log that a connection is gone without a Logout; `is_refused`: a venue's that had not answered our Logon.
    pub(super) fn tell_gone(&self, session: &str, is_refused: bool, why: CloseReason) {
        let why = why.name();
        match is_refused {
            true => tracing::warn!(
                session,
                why,
                "FIX: a venue ended the connection in place of answering our Logon; compare begin_string, the CompIDs, and from where and with what it lets in"
            ),
            false => tracing::info!(
                session,
                why,
                "FIX: the connection of a session is gone without a Logout"
            ),
        }
    }

    /// Counts that somebody removed the file of numbers, and writes it to the log.
    pub(super) fn tell_removed(&self, error: &OpenError) {
        self.store_failures.add(1);
        tracing::error!(
            %error,
            "FIX: the file of sequence numbers was moved away or removed while the node runs; it is written anew with the next message"
        );
    }

    /// Counts a connection that was closed because its peer does not read, and writes it to the log.
    pub(super) fn tell_unread(&self, session: &str, bytes: usize) {
        self.unread.add(1);
        tracing::warn!(
            session,
            bytes,
            "FIX: the peer left more than outbound_bytes_max unread and is disconnected; it gets these messages by a gap"
        );
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
            Notice::WaitingLost => {
                self.lost.add(1);
                tracing::error!(
                    session,
                    "FIX: a message that may not have reached the peer before the numbers began again is not kept any more, and cannot be sent as a new one; compare its orders with the peer's"
                );
            }
            other => tracing::info!(session, ?other, "FIX"),
        }
    }
}

/// What the log is told of refused connections: strangers can cause these, so there are at most so many lines a minute.
#[derive(Debug, Default)]
pub(super) struct RefusalLog {
    minute: Option<Instant>,
    lines: u32,
    left_out: u64,
}

const LINES_PER_MINUTE: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);

impl RefusalLog {
    /// Tells of a connection whose first message has CompIDs; of others, and of those beyond the limit, at `debug` only.
    pub(super) fn tell(&mut self, session: &str, why: Refused, caller: &Caller, now: Instant) {
        let address = caller.address.map(tracing::field::display);
        let left_out = match &caller.comp_ids {
            Some(_) => self.may_tell(now),
            None => None,
        };
        let Some((left_out, [sender, target])) = left_out.zip(caller.comp_ids.as_ref()) else {
            tracing::debug!(session, %why, address, comp_ids = ?caller.comp_ids, "FIX: a connection was refused");
            return;
        };
        tracing::warn!(
            session,
            %why,
            sender_comp_id = ?sender,
            target_comp_id = ?target,
            address,
            left_out,
            "FIX: a Logon was refused without an answer; compare its CompIDs and BeginString with fix.session, and from where and with what that lets in"
        );
    }

    /// How many lines were left out before this one; `None`: it is left out, too.
    fn may_tell(&mut self, now: Instant) -> Option<u64> {
        if self.minute.is_none_or(|began| now.duration_since(began) >= MINUTE) {
            (self.minute, self.lines) = (Some(now), 0);
        }
        if self.lines == LINES_PER_MINUTE {
            self.left_out += 1;
            return None;
        }
        self.lines += 1;
        Some(std::mem::take(&mut self.left_out))
    }
}

/// What becomes of something that is said in a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weight {
    /// It is counted as lost.
    Lost,
    Known,
    /// It is counted as an alarm of orders.
    Order,
}

/// What is to be said of the ids of a venue's orders: what it means, and what to do.
fn sentence(happening: &Happening) -> Option<(Weight, String)> {
    let said = match happening {
        Happening::IdsLost(_, records) => {
            let told = format!(
                "{records} records of whose the orders and requests at this venue are cannot be read: they are damaged, or their file is gone. Reports on these orders may go to no client; they are kept in the venue's files then. Compare the open orders with the venue and with the clients, and name in `unaddressed` who gets what is nobody's"
            );
            (Weight::Lost, told)
        }
        Happening::IdsFill(_, ids) => {
            let told = format!(
                "{ids} orders at this venue are not known to be closed, 7/8 of those that there is room for: when it is taken, new orders are refused. Look for orders whose last reports did not come"
            );
            (Weight::Known, told)
        }
        Happening::IdsFull(_) => {
            let told = "a new order was refused, because all the room for ids at this venue is taken by orders that are not known to be closed. Look for orders whose last reports did not come";
            (Weight::Known, told.to_owned())
        }
        Happening::NotSentAgain(_) => {
            let told = "the venue asked again for an order that is older than max_order_age_ms, and on which it has reported: it was not sent again, and its client was told nothing";
            (Weight::Known, told.to_owned())
        }
        Happening::OtherFirm(_) => {
            let told = "the session has another firm now: its open orders keep the budgets that they were opened with, also those of the firm before";
            (Weight::Known, told.to_owned())
        }
        Happening::Removed(_) => {
            let told = "the session is not configured any more, or has another name: its open orders keep their budgets, and what the venue reports on them is booked, and kept for the session of this name";
            (Weight::Known, told.to_owned())
        }
        Happening::OrderAlarm(_, alarm) => (Weight::Order, of_order(*alarm).to_owned()),
        Happening::NobodysOrder { is_booked, .. } => {
            let booked = match is_booked {
                true => "booked as unknown_order",
                false => {
                    "booked nowhere, because no budget binds it, its ids and amounts cannot be read, or no new execution is reported"
                }
            };
            let told = format!(
                "the venue executed an order that nobody sent from here: it is {booked}. Compare the venue's orders with yours"
            );
            (Weight::Order, told)
        }
        Happening::NotBooked(why) => {
            let told = format!(
                "what became of an order cannot be booked ({why:?}). Its next report tries again, and so does the next start; compare the venue's executions with the books"
            );
            (Weight::Order, told)
        }
        _ => return None,
    };
    Some(said)
}

fn of_order(alarm: Alarm) -> &'static str {
    match alarm {
        Alarm::OtherContent => {
            "a report of a known ExecID (17) has another quantity or price: the first one counts. Compare the execution with the venue"
        }
        Alarm::UnknownReference => {
            "a correction or a bust names an execution (19) that is not known: its sums count. Compare the order's executions with the venue"
        }
        Alarm::Missed => {
            "CumQty (14) says that an execution did not come: it is booked at the report's average price, as inferred. Ask the venue for it"
        }
        Alarm::BadReport => {
            "a report of an order cannot be counted: a quantity, a price or a sum is missing or out of range. Look at it with `weir fix messages`, and compare the order with the venue"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::of;

    #[test]
    fn refused_logons_fill_no_log() {
        let (mut log, began) = (RefusalLog::default(), Instant::now());
        let told = |log: &mut RefusalLog, second: u64, times: usize| {
            let now = began + Duration::from_secs(second);
            (0..times).filter_map(|_| log.may_tell(now)).collect::<Vec<u64>>()
        };
        assert_eq!(told(&mut log, 0, 4), [0; 4]);
        assert_eq!(told(&mut log, 59, 1_000), [0; 6]);
        assert_eq!(told(&mut log, 60, 12), [994, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(told(&mut log, 600, 1), [2]);
    }

    #[test]
    fn what_is_said_of_ids_has_its_session_and_says_what_to_do() {
        let counts = FixCounts::default();
        for (happening, lost, parts) in [
            (Happening::IdsLost(7, 12), 1, ["12 records", "name in `unaddressed`"]),
            (Happening::IdsFill(7, 900), 1, ["900 orders", "Look for orders"]),
            (Happening::IdsFull(7), 1, ["was refused", "Look for orders"]),
            (Happening::OtherFirm(7), 1, ["another firm", "keep the budgets"]),
            (Happening::Removed(7), 1, ["another name", "keep their budgets"]),
            (Happening::NotSentAgain(7), 1, ["max_order_age_ms", "was told nothing"]),
        ] {
            assert_eq!(of(&happening), Some(7), "{happening:?}");
            let (_, told) = sentence(&happening).unwrap();
            assert!(parts.iter().all(|part| told.contains(part)), "{told}");
            counts.tell("VENUE", &happening);
            assert_eq!(counts.lost.get(), lost, "{happening:?}");
        }
        for (alarms, happening, part) in [
            (1, Happening::OrderAlarm(7, Alarm::OtherContent), "the first one counts"),
            (2, Happening::OrderAlarm(7, Alarm::UnknownReference), "its sums count"),
            (3, Happening::OrderAlarm(7, Alarm::Missed), "as inferred"),
            (4, Happening::OrderAlarm(7, Alarm::BadReport), "cannot be counted"),
            (5, Happening::NobodysOrder { venue: 7, is_booked: false }, "booked nowhere"),
            (6, Happening::NobodysOrder { venue: 7, is_booked: true }, "unknown_order"),
        ] {
            assert!(sentence(&happening).unwrap().1.contains(part), "{happening:?}");
            counts.tell("VENUE", &happening);
            assert_eq!((of(&happening), counts.order_alarms.get()), (Some(7), alarms));
        }
        let refused = Happening::OrderRefused(7, RefusedFor::Journal);
        counts.tell("CLIENT1", &refused);
        assert_eq!((of(&refused), counts.refused_journal.get()), (Some(7), 1));
        counts.tell("CLIENT1", &Happening::Notice(7, Notice::WaitingLost));
        assert_eq!(counts.lost.get(), 2);
    }
}
