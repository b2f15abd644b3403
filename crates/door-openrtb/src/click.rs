//! Clicks: who is no person is sent on, and not counted; a person is always sent on, after the seal where that comes soon.

use door_transport::ConnId;
use ledger::{Handled, Hold, Resolution};
use openrtb::{Click, ClickKind, ClickStatus, Clicked, Redirect, Visitor};
use weir_budgets::campaign_index::CampaignIndex;
use weir_till::{Reply, stages::WorkerStage};
use wire::Verdict;

use super::clickers::told;
use super::counts::Happening;
use super::note::Note;
use super::waiting::{Waiting, WaitingClick};
use super::{BidGate, creative_number, unknown};

/// How long an answer waits for its seal, ms.
pub(crate) const CLICK_WAIT_MS: u64 = 100;

/// Where a creative leads, as its campaign stands now.
fn destination(campaign_index: &CampaignIndex, note: &Note) -> Option<Redirect> {
    let ad = campaign_index.ad(campaign_index.slot(note.campaign)?);
    let of = ad.creatives.iter().find(|shown| creative_number(shown.item) == note.creative);
    of?.click.clone()
}

impl BidGate<'_> {
    pub(crate) fn take_click(&mut self, conn: ConnId, click: &Click<'_>) -> Clicked {
        let clicked = match self.genuine(click) {
            Ok((hold, note, status)) => self.judge_click(conn, click, (hold, &note), status),
            Err(why) => {
                self.openrtb.counts.add(why, 1);
                let fallback = self.openrtb.facts.click_fallback.clone();
                let fallback = fallback.filter(|_| click.kind == ClickKind::Click);
                Clicked::Now(fallback.map_or(ClickStatus::Unknown, ClickStatus::To))
            }
        };
        self.till.lap(WorkerStage::Notice, 1);
        clicked
    }

    /// The hold of an id of a click, and what it is answered.
    fn genuine(&self, click: &Click<'_>) -> Result<(Hold, Note, ClickStatus), Happening> {
        let (hold, note) = self.till.open_note(click.id).map_err(unknown)?;
        let note = Note::from_bytes(&note);
        if !note.click {
            return Err(Happening::WrongKind);
        }
        let status = match click.kind {
            ClickKind::Track => ClickStatus::Taken,
            ClickKind::Click => destination(&self.till.snapshot.campaign_index, &note)
                .map(ClickStatus::To)
                .ok_or(Happening::ClickGone)?,
        };
        Ok((hold, note, status))
    }

    fn judge_click(
        &mut self,
        conn: ConnId,
        click: &Click<'_>,
        (hold, note): (Hold, &Note),
        status: ClickStatus,
    ) -> Clicked {
        let BidGate { openrtb, till } = self;
        openrtb.counts.add(Happening::Click, 1);
        if let Some(slot) = openrtb.exchanges.1.slot(note.exchange) {
            openrtb.seen.of_exchange(slot).clicks.add(1);
        }
        let judged_ms = hold.deadline_ms.saturating_add(openrtb.facts.judged_ms);
        let network = click.address.and_then(told).unwrap_or(openrtb.network);
        let uncounted = match click.visitor {
            Visitor::Head => Some(Happening::ClickHead),
            Visitor::Prefetch => Some(Happening::ClickPrefetch),
            Visitor::Crawler => Some(Happening::ClickCrawler),
            Visitor::Person if note.test => Some(Happening::ClickTest),
            Visitor::Person if till.at.now_ms > judged_ms => Some(Happening::ClickTooOld),
            Visitor::Person if !openrtb.clickers.take(network, till.clock.steady_ms()) => {
                Some(Happening::ClickCrowd)
            }
            Visitor::Person if till.sealing().is_err() || openrtb.waiting.is_full() => {
                Some(Happening::ClickUnsealed)
            }
            Visitor::Person => None,
        };
        if let Some(why) = uncounted {
            openrtb.counts.add(why, 1);
            return Clicked::Now(status);
        }
        openrtb.clicks += 1;
        let number = openrtb.clicks;
        let waits = WaitingClick { conn, number, status: Some(status) };
        let index = openrtb.waiting.open(Waiting::Click(waits)).expect("there is room");
        openrtb.hurried.push_until((index, number), till.clock.steady_ms() + CLICK_WAIT_MS);
        till.click(Reply { door: openrtb.number, index, entry: 0 }, hold, note.origin());
        Clicked::Later
    }

    /// What was counted of a click that the bank has sealed, or refused.
    pub(crate) fn count_click(&mut self, resolution: Resolution) {
        let happening = match (resolution.verdict, resolution.judged) {
            (Verdict::TooOld, _) => Happening::ClickTooOld,
            (Verdict::Busy | Verdict::Journal, _) => Happening::ClickUnsealed,
            (_, Handled::Before) => Happening::ClickRepeat,
            _ => Happening::ClickTaken,
        };
        self.openrtb.counts.add(happening, 1);
    }
}
