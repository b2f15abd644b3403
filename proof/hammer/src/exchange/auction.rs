//! The exchange's own auction: is a bid acceptable, does it win, what does it pay, and what becomes of its notices. Pure.

use crate::args::Args;
use crate::random::Random;

use super::bids::{Answer, Bid};
use super::bodies::{Body, Rule, ThousandFloor};

/// Spread of the best rival's price around ours, as the standard deviation of its logarithm.
const RIVAL_SPREAD: f64 = 0.5;

/// A bid that may take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Its price.
    pub price_micros: i64,
    /// The floor it had to reach, 0 where it is in another currency.
    pub floor_micros: i64,
    /// How its price comes about.
    pub rule: Rule,
    /// The number of impressions it stands for, in millionths.
    pub multiplier_micros: i64,
    /// From auction to billing, in minutes.
    pub delay_minutes: u32,
}

/// Judges a bid against the request.
///
/// # Errors
/// Why an exchange drops it.
pub(crate) fn judge(
    body: &Body,
    answer: &Answer<'_>,
    bid: &Bid<'_>,
) -> Result<Offer, &'static str> {
    let imp = body.imps.iter().find(|imp| imp.id == *bid.impid).ok_or("unknown impid")?;
    let price_micros = bid.price_micros().filter(|price| *price > 0).ok_or("no price")?;
    if bid.crid.is_empty() {
        return Err("no crid");
    }
    if bid.burl.is_empty() {
        return Err("no burl");
    }
    let (floor, rule) = if bid.dealid.is_empty() {
        if imp.is_private {
            return Err("open bid in a private auction");
        }
        (&imp.floor, body.rule)
    } else {
        let deal = imp.deals.iter().find(|deal| deal.id == *bid.dealid).ok_or("unknown deal")?;
        (&deal.floor, deal.rule)
    };
    let floor_micros = floor_in(floor, answer.currency());
    if price_micros < floor_micros {
        return Err("below the floor");
    }
    let (multiplier_micros, delay_minutes) = (imp.multiplier_micros, imp.delay_minutes);
    Ok(Offer { price_micros, floor_micros, rule, multiplier_micros, delay_minutes })
}

/// A floor in another currency than the bids cannot be compared: this exchange knows no rates.
fn floor_in(floor: &ThousandFloor, currency: &str) -> i64 {
    if floor.currency == currency { floor.micros } else { 0 }
}

/// Whether another bid of the answer for the same impression goes before this one: a higher price, or as high and earlier.
pub(crate) fn is_beaten(answer: &Answer<'_>, bid: &Bid<'_>) -> bool {
    let mut is_earlier = true;
    answer.bids().any(|other| {
        if std::ptr::eq(other, bid) {
            is_earlier = false;
            return false;
        }
        let (theirs, ours) = (other.price_micros(), bid.price_micros());
        other.impid == bid.impid && (theirs > ours || (theirs == ours && is_earlier))
    })
}

/// How an auction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cleared {
    /// What the winner pays: between the floor and the bid if that is ours.
    pub price_micros: i64,
    /// What would have won.
    pub min_to_win_micros: i64,
}

/// Clears an auction that our bid won or lost against the best of the rivals, whose price is log-normal around ours.
pub(crate) fn clear(offer: &Offer, won: bool, random: &mut Random) -> Cleared {
    let ours = offer.price_micros;
    let rival = rival_micros(ours, won, random).max(offer.floor_micros.min(ours));
    if !won {
        let price_micros = rival.max(ours.saturating_add(1));
        return Cleared { price_micros, min_to_win_micros: price_micros.saturating_add(1) };
    }
    let price_micros = match offer.rule {
        Rule::First => ours,
        Rule::Second => rival.min(ours),
        Rule::Fixed if offer.floor_micros > 0 => offer.floor_micros,
        Rule::Fixed => ours,
    };
    Cleared { price_micros: price_micros.max(1), min_to_win_micros: rival.min(ours).max(1) }
}

/// The best rival's price: below ours where we won, above it where not (the law is mirrored at our price).
fn rival_micros(ours: i64, won: bool, random: &mut Random) -> i64 {
    let step = (RIVAL_SPREAD * normal(random)).abs();
    let factor = if won { -step } else { step }.exp();
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "a made-up price; what is paid is this whole number of micros"
    )]
    let micros = (ours as f64 * factor).min(1e15) as i64;
    micros
}

/// A standard normal number (Box and Muller).
fn normal(random: &mut Random) -> f64 {
    let (u, v) = (1.0 - random.unit(), random.unit());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// When and how often a won impression is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Billing {
    /// The notice is lost.
    Never,
    /// As it should be.
    Once,
    /// Twice at the same moment.
    TwiceAtOnce,
    /// Again after the first was answered.
    TwiceInTurn,
    /// After the hold expired; the win was not notified either.
    Late,
}

/// What a billing notice says for a price.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Said {
    /// The clearing price.
    Price,
    /// The macro as it stands.
    Literal,
    /// The macro, percent-encoded.
    Encoded,
    /// Nothing.
    Empty,
    /// A text that is no price.
    Nonsense(&'static str),
    /// The price of a thousand thousands: a slip of the unit.
    Slip,
}

impl Said {
    /// Whether the notice tells a price that can be booked; if not, the bid's own price counts.
    pub(crate) fn is_price(self) -> bool {
        self == Self::Price
    }
}

/// The shares that fates are drawn by; all 0.0..=1.0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MarketShares {
    /// Of bids that win.
    pub win: f64,
    loss_notice_lost: f64,
    win_notice_lost: f64,
    repeat: f64,
    late: f64,
    bad_macro: f64,
    absurd: f64,
}

impl MarketShares {
    /// As the flags say.
    pub(crate) fn new(args: &Args) -> Self {
        Self {
            win: args.win,
            loss_notice_lost: args.loss_notice_lost,
            win_notice_lost: args.win_notice_lost,
            repeat: args.repeat,
            late: args.late,
            bad_macro: args.bad_macro,
            absurd: args.absurd,
        }
    }

    /// Whether a loss is notified.
    pub(crate) fn loss_is_told(&self, random: &mut Random) -> bool {
        self.loss_notice_lost < 1.0 && !random.chance(self.loss_notice_lost)
    }

    /// Draws how a win is billed.
    pub(crate) fn billing(&self, random: &mut Random) -> Billing {
        if random.chance(self.win_notice_lost) {
            return Billing::Never;
        }
        if random.chance(self.late) {
            return Billing::Late;
        }
        match (random.chance(self.repeat), random.chance(0.5)) {
            (false, _) => Billing::Once,
            (true, false) => Billing::TwiceAtOnce,
            (true, true) => Billing::TwiceInTurn,
        }
    }

    /// Draws what a billing notice says.
    pub(crate) fn said(&self, random: &mut Random) -> Said {
        let (at, form) = (random.unit(), random.below(4));
        match (at < self.bad_macro, at < self.bad_macro + self.absurd) {
            (true, _) if form < 2 => Said::Literal,
            (true, _) if form == 2 => Said::Encoded,
            (true, _) => Said::Empty,
            (_, true) if form == 0 => Said::Slip,
            (_, true) if form == 1 => Said::Nonsense("-1"),
            (_, true) if form == 2 => Said::Nonsense("NaN"),
            (_, true) => Said::Nonsense("99999999999999999999"),
            _ => Said::Price,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::bodies::Bodies;
    use proptest::prelude::*;

    const REQUEST: &str = r#"{"id":"r","at":2,"imp":[
        {"id":"1","bidfloor":1.5},
        {"id":"2","bidfloor":9,"bidfloorcur":"EUR"},
        {"id":"3","pmp":{"private_auction":1,"deals":[{"id":"d","bidfloor":2,"at":3}]},"qty":{"multiplier":4}}]}"#;

    fn judged(bid: &str) -> Result<Offer, &'static str> {
        let bodies =
            Bodies::render([REQUEST.replace('\n', "").as_bytes()].into_iter(), "h", 0.0, 1);
        let text = format!(r#"{{"id":"r","seatbid":[{{"bid":[{bid}]}}]}}"#);
        let answer = Answer::read(text.as_bytes()).unwrap();
        let bid = answer.bids().next().unwrap();
        judge(&bodies.list[0], &answer, bid)
    }

    #[test]
    fn bids_are_judged_as_exchanges_do() {
        let bid = |imp: &str, price: &str, more: &str| {
            judged(&format!(r#"{{"impid":"{imp}","price":{price},"crid":"c","burl":"u"{more}}}"#))
        };
        let offer = bid("1", "1.5", "").unwrap();
        assert_eq!(
            (offer.price_micros, offer.floor_micros, offer.rule),
            (1_500_000, 1_500_000, Rule::Second)
        );
        assert_eq!(bid("2", "1", "").unwrap().floor_micros, 0, "euros are not dollars");
        let deal = bid("3", "2", r#","dealid":"d""#).unwrap();
        assert_eq!((deal.rule, deal.multiplier_micros), (Rule::Fixed, 4_000_000));
        assert_eq!(bid("1", "1.499999", ""), Err("below the floor"));
        assert_eq!(bid("3", "2", ""), Err("open bid in a private auction"));
        assert_eq!(bid("3", "2", r#","dealid":"x""#), Err("unknown deal"));
        assert_eq!(bid("4", "2", ""), Err("unknown impid"));
        for price in ["0", "-1", "\"2\"", "null"] {
            assert_eq!(bid("1", price, ""), Err("no price"), "{price}");
        }
        assert_eq!(judged(r#"{"impid":"1","price":2,"burl":"u"}"#), Err("no crid"));
        assert_eq!(judged(r#"{"impid":"1","price":2,"crid":"c"}"#), Err("no burl"));
    }

    #[test]
    fn one_bid_an_impression_is_ahead() {
        let bid = |imp: u8, price: f64| format!(r#"{{"impid":"{imp}","price":{price}}}"#);
        let bids = [bid(1, 1.0), bid(1, 2.0), bid(2, 1.5), bid(1, 2.0)].join(",");
        let text = format!(r#"{{"seatbid":[{{"bid":[{bids}]}}]}}"#);
        let answer = Answer::read(text.as_bytes()).unwrap();
        let beaten: Vec<bool> = answer.bids().map(|bid| is_beaten(&answer, bid)).collect();
        assert_eq!(beaten, [true, false, false, true]);
    }

    proptest! {
        #[test]
        fn a_winner_pays_between_floor_and_bid(
            price_micros in 1_i64..1_000_000_000_000, floor in 0_i64..1_000_000_000_000, seed: u64, rule in 0..3_usize,
        ) {
            let floor_micros = floor.min(price_micros);
            let rule = [Rule::First, Rule::Second, Rule::Fixed][rule];
            let offer = Offer { price_micros, floor_micros, rule, multiplier_micros: 1, delay_minutes: 1 };
            let mut random = Random::new(seed, 0);
            let won = clear(&offer, true, &mut random);
            prop_assert!((floor_micros.max(1)..=price_micros).contains(&won.price_micros), "{won:?}");
            prop_assert!(rule != Rule::First || won.price_micros == price_micros);
            let lost = clear(&offer, false, &mut random);
            prop_assert!(lost.price_micros > price_micros && lost.min_to_win_micros > price_micros, "{lost:?}");
        }
    }

    #[test]
    fn rivals_lie_around_us_and_shares_are_kept() {
        let mut random = Random::new(5, 0);
        let offer = Offer {
            price_micros: 1_000_000,
            floor_micros: 0,
            rule: Rule::Second,
            multiplier_micros: 1,
            delay_minutes: 1,
        };
        let paid: Vec<i64> =
            (0..10_000).map(|_| clear(&offer, true, &mut random).price_micros).collect();
        let mean = paid.iter().sum::<i64>() / 10_000;
        assert!(
            (650_000..750_000).contains(&mean),
            "half a log-normal law of spread 0.5 has mean 0.70: {mean}"
        );
        let shares = MarketShares {
            win: 0.5,
            loss_notice_lost: 1.0,
            win_notice_lost: 0.1,
            repeat: 0.2,
            late: 0.1,
            bad_macro: 0.2,
            absurd: 0.1,
        };
        let count = |is: &mut dyn FnMut() -> bool| (0..10_000).filter(|_| is()).count();
        assert!(!shares.loss_is_told(&mut random));
        let never = count(&mut || shares.billing(&mut random) == Billing::Never);
        assert!((850..1_150).contains(&never), "{never}");
        let unpriced = count(&mut || !shares.said(&mut random).is_price());
        assert!((2_800..3_200).contains(&unpriced), "{unpriced}");
    }
}
