//! The array of the OpenRTB door: `[[openrtb.exchange]]`.

use gate_auction::Pricing;
use money::CurrencyCode;

use crate::arrays::entry;
use crate::config::sections::openrtb;
use crate::values::Rates;

entry! {
    /// An exchange at the OpenRTB door. What it leaves out is as in `[openrtb]`.
    pub OpenRtbExchange = openrtb.exchange by name {
        name: String = String::new(), " What the exchange is called in reports and counters: 1 to 32 of `a` to `z`, digits, - and _. The name `default` is that of the keys of `openrtb`. Required.";
        path: String = String::new(), " Path of its bid requests; with `openrtb.path_token`, /TOKEN stands behind it. Empty: /openrtb2/NAME.";
        seat: String = String::new(), " Our seat there: of all bids, in place of the campaigns' `seat`. Empty: theirs.";
        currency: Option<CurrencyCode> = None, " Currency of bids, wherever `cur` takes it; one of `rates`, or `openrtb.currency`.";
        rates: Option<Rates> = None, " Value of one unit of other currencies in `openrtb.currency`, for floors and bids.";
        fee_bp: Option<u16> = None, [0..=9_000], " Its fee in basis points of the bid.";
        margin_ms: Option<u64> = None, [0..=60_000], " Part of tmax that is left for the network, milliseconds.";
        tmax_ms: Option<u64> = None, [1..=60_000], " The tmax that applies to requests without one, milliseconds.";
        pricing: Option<Pricing> = None, " Price that is sent: \"first\", \"second\" or \"at\".";
        no_bid_body: Option<bool> = None, " Answer 200 with a no-bid code instead of 204.";
        loss_notices: Option<bool> = None, " Bids carry a loss notice address.";
        qps_max: u32 = 0, " Bid requests that are read in one second, by all workers; further ones are answered 204. 0: all.";
    }
}

impl OpenRtbExchange {
    /// Returns what holds for it: the keys of the section, with its own in their place.
    #[must_use]
    pub fn over(&self, section: &openrtb) -> openrtb {
        openrtb {
            currency: self.currency.unwrap_or(section.currency),
            rates: self.rates.clone().unwrap_or_else(|| section.rates.clone()),
            fee_bp: self.fee_bp.unwrap_or(section.fee_bp),
            margin_ms: self.margin_ms.unwrap_or(section.margin_ms),
            tmax_ms: self.tmax_ms.unwrap_or(section.tmax_ms),
            pricing: self.pricing.unwrap_or(section.pricing),
            no_bid_body: self.no_bid_body.unwrap_or(section.no_bid_body),
            loss_notices: self.loss_notices.unwrap_or(section.loss_notices),
            ..section.clone()
        }
    }
}
