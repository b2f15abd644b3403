//! Which price a billing notice may name. What it says besides counts as a mistake, and the price that was sent is booked.

use openrtb::{BidRequest, Imp};

use super::counts::Happening;
use super::note::Naming;
use super::translate::at;

/// How far the price of a first-price auction may be from the bid: exchanges round. A share of the bid, one of so many.
const ROUNDING: i64 = 100;

impl Naming {
    /// By the kind of auction: the deal's, else the request's.
    pub(crate) fn of(request: &BidRequest<'_>, imp: &Imp<'_>, deal: Option<usize>) -> Naming {
        let own = deal.and_then(|place| at(request.deals(imp).get(place)?.auction_type));
        match own.or_else(|| at(request.top.auction_type)) {
            Some(gate_auction::PriceRule::First | gate_auction::PriceRule::Fixed) => {
                Naming::FirstPrice
            }
            Some(gate_auction::PriceRule::SecondPlus) | None => Naming::SecondPrice,
        }
    }
}

/// The bounds that are configured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedPrices {
    /// Of the bid: a price above so many times it is a mistake.
    pub(crate) factor_max: i64,
    /// Of the bid, in basis points: a price below it is a mistake in second-price auctions, too.
    pub(crate) share_min_bp: i64,
}

impl NamedPrices {
    /// Whether a notice's price counts; if not, what is wrong with it.
    pub(crate) fn judge(&self, naming: Naming, bid: i64, named: i64) -> Result<(), Happening> {
        let is_absurd = named < 1 || named > bid.saturating_mul(self.factor_max);
        let share_min = bid.saturating_mul(self.share_min_bp).div_euclid(10_000);
        let is_near = named.abs_diff(bid) <= (bid / ROUNDING).unsigned_abs();
        match naming {
            Naming::Markup if named != bid => Err(Happening::MarkupPrice),
            Naming::Markup => Ok(()),
            _ if is_absurd => Err(Happening::OddPrice),
            Naming::FirstPrice if !is_near => Err(Happening::FirstPrice),
            Naming::SecondPrice if named < share_min => Err(Happening::LowPrice),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_counts_where_it_can_be_meant() {
        use Happening::{FirstPrice, LowPrice, MarkupPrice, OddPrice};
        let bounds = NamedPrices { factor_max: 2, share_min_bp: 100 };
        let judge = |naming, named| bounds.judge(naming, 5_000_000, named).err();
        // Named price, and what is wrong with it: of an earlier version, in markup, at first and at second price.
        for (named, wrong) in [
            (0, [Some(OddPrice), Some(MarkupPrice), Some(OddPrice), Some(OddPrice)]),
            (1, [None, Some(MarkupPrice), Some(FirstPrice), Some(LowPrice)]),
            (49_999, [None, Some(MarkupPrice), Some(FirstPrice), Some(LowPrice)]),
            (50_000, [None, Some(MarkupPrice), Some(FirstPrice), None]),
            (4_949_999, [None, Some(MarkupPrice), Some(FirstPrice), None]),
            (4_950_000, [None, Some(MarkupPrice), None, None]),
            (5_000_000, [None, None, None, None]),
            (5_050_000, [None, Some(MarkupPrice), None, None]),
            (5_050_001, [None, Some(MarkupPrice), Some(FirstPrice), None]),
            (10_000_000, [None, Some(MarkupPrice), Some(FirstPrice), None]),
            (10_000_001, [Some(OddPrice), Some(MarkupPrice), Some(OddPrice), Some(OddPrice)]),
        ] {
            let all = [Naming::Earlier, Naming::Markup, Naming::FirstPrice, Naming::SecondPrice];
            assert_eq!(all.map(|naming| judge(naming, named)), wrong, "{named}");
        }
    }

    #[test]
    fn no_price_is_out_of_reach() {
        let bounds = NamedPrices { factor_max: i64::MAX, share_min_bp: 10_000 };
        for naming in [Naming::Earlier, Naming::Markup, Naming::FirstPrice, Naming::SecondPrice] {
            for bid in [i64::MIN, -1, 0, 1, i64::MAX] {
                for named in [i64::MIN, 0, 1, i64::MAX] {
                    let _ = bounds.judge(naming, bid, named);
                }
            }
            assert_eq!(bounds.judge(naming, 1, 1), Ok(()), "the bid itself: {naming:?}");
        }
    }
}
