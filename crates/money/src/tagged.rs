//! Money, prices and counts that say in their type what they are.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use crate::amount::narrow;
use crate::{Amount, Rounding, Unit};

/// Impressions that a CPM price is for.
const MILLE: u64 = 1_000;
/// Most decimals of a rate.
const RATE_DECIMALS_MAX: usize = 12;

/// A currency as a type. [`currency`] has the common ones; make your own by implementing this for an empty type.
pub trait Currency: 'static {
    /// Its code in ISO 4217; [`Money::unit`] refuses others.
    const CODE: &'static str;
}

/// The common currencies as types.
pub mod currency {
    macro_rules! currencies {
        ($($name:ident $code:literal $long:literal,)*) => {$(
            #[doc = $long]
            #[derive(Clone, Copy, Debug)]
            pub enum $name {}
            impl super::Currency for $name {
                const CODE: &'static str = $code;
            }
        )*
        #[cfg(test)]
        pub(super) const ALL: &[&str] = &[$($code),*];
        };
    }
    currencies! {
        Usd "USD" "United States dollar.",
        Eur "EUR" "Euro.",
        Gbp "GBP" "Pound sterling.",
        Jpy "JPY" "Yen; in micros too, so that prices per impression can be told.",
        Chf "CHF" "Swiss franc.",
        Cad "CAD" "Canadian dollar.",
        Aud "AUD" "Australian dollar.",
        Cny "CNY" "Yuan renminbi.",
        Inr "INR" "Indian rupee.",
        Brl "BRL" "Brazilian real.",
    }
}

/// Derives what a type with a phantom parameter cannot derive without bounds on it.
macro_rules! plain_number {
    ($name:ident) => {
        impl<C> Clone for $name<C> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<C> Copy for $name<C> {}
        impl<C> PartialEq for $name<C> {
            fn eq(&self, other: &Self) -> bool {
                self.micros == other.micros
            }
        }
        impl<C> Eq for $name<C> {}
        impl<C> PartialOrd for $name<C> {
            fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }
        impl<C> Ord for $name<C> {
            fn cmp(&self, other: &Self) -> std::cmp::Ordering {
                self.micros.cmp(&other.micros)
            }
        }
        impl<C> Hash for $name<C> {
            fn hash<H: Hasher>(&self, state: &mut H) {
                self.micros.hash(state);
            }
        }
        impl<C: Currency> fmt::Debug for $name<C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({} micro{})", stringify!($name), self.micros, C::CODE)
            }
        }
    };
}

/// An amount of one currency, in micros.
///
/// Two currencies do not add up; this compiles:
/// ```
/// use money::{Money, currency::Usd};
/// let sum = Money::<Usd>::from_micros(1).checked_add(Money::<Usd>::from_micros(2));
/// assert_eq!(sum, Some(Money::from_micros(3)));
/// ```
/// and these do not:
/// ```compile_fail,E0308
/// use money::{Money, currency::{Eur, Usd}};
/// let sum = Money::<Usd>::from_micros(1).checked_add(Money::<Eur>::from_micros(2));
/// ```
/// ```compile_fail,E0369
/// use money::{Money, currency::{Eur, Usd}};
/// let sum = Money::<Usd>::from_micros(1) + Money::<Eur>::from_micros(2);
/// ```
/// ```compile_fail,E0308
/// use money::{Count, Money, currency::Usd};
/// let same = Money::<Usd>::from_micros(1) == Count::new(1);
/// ```
/// ```compile_fail,E0308
/// use money::{Cpm, Money, currency::Usd};
/// let sum = Money::<Usd>::from_micros(1).checked_add(Cpm::<Usd>::from_micros(1));
/// ```
/// ```compile_fail,E0308
/// use money::{Amount, Money, currency::Usd};
/// let sum = Money::<Usd>::from_micros(1).checked_add(Amount::new(1));
/// ```
pub struct Money<C> {
    micros: i64,
    currency: PhantomData<fn() -> C>,
}
plain_number!(Money);

impl<C: Currency> Money<C> {
    /// Nothing.
    pub const ZERO: Self = Self::from_micros(0);

    /// So many millionths of the currency.
    #[inline]
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Money { micros, currency: PhantomData }
    }

    /// The number of millionths.
    #[inline]
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.micros
    }

    /// The unit of the currency; `None` where its type has a code that ISO 4217 does not know.
    #[must_use]
    pub fn unit() -> Option<Unit> {
        Unit::parse(C::CODE).ok().filter(|unit| *unit != Unit::Count)
    }

    /// An amount of a budget whose unit is this currency; `None` where it is another unit.
    #[must_use]
    pub fn from_amount(amount: Amount, unit: Unit) -> Option<Self> {
        (Self::unit() == Some(unit)).then_some(Self::from_micros(amount.get()))
    }

    /// The amount for a budget of this unit; `None` where it is another unit.
    #[must_use]
    pub fn to_amount(self, unit: Unit) -> Option<Amount> {
        (Self::unit() == Some(unit)).then_some(Amount::new(self.micros))
    }

    /// The sum; `None` where it does not fit.
    #[inline]
    #[must_use]
    pub fn checked_add(self, other: Self) -> Option<Self> {
        self.micros.checked_add(other.micros).map(Self::from_micros)
    }

    /// The difference; `None` where it does not fit.
    #[inline]
    #[must_use]
    pub fn checked_sub(self, other: Self) -> Option<Self> {
        self.micros.checked_sub(other.micros).map(Self::from_micros)
    }

    /// So many of it, such as a price times a quantity; `None` where it does not fit.
    #[inline]
    #[must_use]
    pub fn checked_mul(self, count: Count) -> Option<Self> {
        self.micros.checked_mul(count.get()).map(Self::from_micros)
    }
}

/// Decimal text and code, such as `1.50 USD`.
impl<C: Currency> fmt::Display for Money<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Self::unit() {
            Some(unit) => write!(f, "{} {unit}", unit.format(Amount::new(self.micros))),
            None => write!(f, "{} micro{}", self.micros, C::CODE),
        }
    }
}

/// A number of whole items: impressions, keys, tokens, shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Count(i64);

impl Count {
    /// So many items.
    #[inline]
    #[must_use]
    pub const fn new(items: i64) -> Count {
        Count(items)
    }

    /// How many.
    #[inline]
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// An amount of a budget that counts; `None` where its unit is a currency.
    #[must_use]
    pub fn from_amount(amount: Amount, unit: Unit) -> Option<Count> {
        (unit == Unit::Count).then_some(Count(amount.get()))
    }

    /// The amount for a budget that counts; `None` where its unit is a currency.
    #[must_use]
    pub fn to_amount(self, unit: Unit) -> Option<Amount> {
        (unit == Unit::Count).then_some(Amount::new(self.0))
    }

    /// The sum; `None` where it does not fit.
    #[inline]
    #[must_use]
    pub fn checked_add(self, other: Count) -> Option<Count> {
        self.0.checked_add(other.0).map(Count)
    }

    /// The difference; `None` where it does not fit.
    #[inline]
    #[must_use]
    pub fn checked_sub(self, other: Count) -> Option<Count> {
        self.0.checked_sub(other.0).map(Count)
    }
}

/// A price per 1,000 impressions, in micros: 1,500,000 is 1.50 for 1,000 impressions and 1,500 micros for one.
///
/// A price is no money: it has to be multiplied by impressions first.
/// ```
/// use money::{Cpm, Money, Rounding, currency::Usd};
/// let price = Cpm::<Usd>::from_micros(1_500_001);
/// assert_eq!(price.for_impressions(1, Rounding::Up), Some(Money::from_micros(1_501)));
/// assert_eq!(price.for_impressions(1, Rounding::Down), Some(Money::from_micros(1_500)));
/// ```
pub struct Cpm<C> {
    micros: i64,
    currency: PhantomData<fn() -> C>,
}
plain_number!(Cpm);

impl<C: Currency> Cpm<C> {
    /// So many micros for 1,000 impressions.
    #[inline]
    #[must_use]
    pub const fn from_micros(micros: i64) -> Self {
        Cpm { micros, currency: PhantomData }
    }

    /// Micros for 1,000 impressions.
    #[inline]
    #[must_use]
    pub const fn micros(self) -> i64 {
        self.micros
    }

    /// What so many impressions cost; `None` where it does not fit. To reserve, round up: see [`Cpm::to_reserve`].
    #[inline]
    #[must_use]
    pub fn for_impressions(self, impressions: u64, rounding: Rounding) -> Option<Money<C>> {
        let price = Amount::new(self.micros).checked_mul_ratio(impressions, MILLE, rounding)?;
        Some(Money::from_micros(price.get()))
    }

    /// What must be reserved for so many impressions: their price rounded up, never in favour of overspend.
    #[inline]
    #[must_use]
    pub fn to_reserve(self, impressions: u64) -> Option<Money<C>> {
        self.for_impressions(impressions, Rounding::Up)
    }
}

/// A pinned exchange rate: how much of `To` one of `From` is, as an exact fraction with a number that a
/// reservation can remember. What is reserved at a rate is settled at the same rate.
///
/// ```
/// use money::{Money, Rate, Rounding, currency::{Eur, Usd}};
/// let rate = Rate::<Usd, Eur>::parse(7, "0.9231")?;
/// let euros = rate.convert(Money::from_micros(1_000_001), Rounding::Up);
/// assert_eq!(euros, Some(Money::from_micros(923_101)));
/// # Ok::<(), money::ParseRateError>(())
/// ```
/// It converts from one currency only, and to one only:
/// ```compile_fail,E0308
/// use money::{Money, Rate, Rounding, currency::{Eur, Gbp, Usd}};
/// let rate = Rate::<Usd, Eur>::parse(7, "0.9231").unwrap();
/// let euros = rate.convert(Money::<Gbp>::from_micros(1), Rounding::Up);
/// ```
pub struct Rate<From, To> {
    id: u64,
    num: u64,
    den: u64,
    currencies: PhantomData<fn(From) -> To>,
}

impl<From, To> Clone for Rate<From, To> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<From, To> Copy for Rate<From, To> {}

/// A text that is not a rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rate {found:?}: expected a positive decimal number with at most 12 decimals and at most 18 digits, such as \
     \"0.9231\""
)]
pub struct ParseRateError {
    /// The text that was found, at most its first 32 characters.
    pub found: String,
}

impl<From: Currency, To: Currency> Rate<From, To> {
    /// The rate `num / den`; `None` unless both are positive.
    #[must_use]
    pub const fn new(id: u64, num: u64, den: u64) -> Option<Self> {
        if num == 0 || den == 0 {
            return None;
        }
        Some(Rate { id, num, den, currencies: PhantomData })
    }

    /// Reads a decimal number, exactly.
    ///
    /// # Errors
    /// [`ParseRateError`] says what was expected.
    pub fn parse(id: u64, text: &str) -> Result<Self, ParseRateError> {
        let wrong = || ParseRateError { found: text.chars().take(32).collect() };
        let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
        let digits = format!("{whole}{part}");
        let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
        let short = part.len() <= RATE_DECIMALS_MAX && digits.len() <= 18;
        if whole.is_empty() || part.is_empty() || !plain || !short {
            return Err(wrong());
        }
        // At most 18 digits and 10^12: both fit.
        let num: u64 = digits.parse().map_err(|_| wrong())?;
        let den = part.bytes().fold(1_u64, |den, _| den * 10);
        Rate::new(id, num, den).ok_or_else(wrong)
    }

    /// The number it is known by.
    #[must_use]
    pub const fn id(self) -> u64 {
        self.id
    }

    /// Converts; `None` where the result does not fit. To reserve, round up.
    #[must_use]
    pub fn convert(self, money: Money<From>, rounding: Rounding) -> Option<Money<To>> {
        let exact = i128::from(money.micros) * i128::from(self.num);
        narrow(rounding.divide(exact, i128::from(self.den))).map(Money::from_micros)
    }
}

impl<From: Currency, To: Currency> fmt::Debug for Rate<From, To> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) = (From::CODE, To::CODE);
        write!(f, "Rate({from} to {to}, number {}: {} / {})", self.id, self.num, self.den)
    }
}

#[cfg(test)]
mod tests {
    use super::currency::{Eur, Jpy, Usd};
    use super::*;
    use crate::Scale;
    use proptest::prelude::*;

    fn unit(text: &str) -> Unit {
        Unit::parse(text).unwrap()
    }

    #[test]
    fn every_type_has_an_active_code() {
        assert!(
            currency::ALL
                .iter()
                .all(|code| matches!(Unit::parse(code), Ok(Unit::Currency(_, Scale::Micros))))
        );
    }

    #[test]
    fn amounts_are_tagged_and_untagged_by_unit_only() {
        let money = Money::<Usd>::from_micros(5);
        assert_eq!(money.to_amount(unit("USD")), Some(Amount::new(5)));
        assert_eq!(money.to_amount(unit("EUR")), None);
        assert_eq!(money.to_amount(Unit::Count), None);
        assert_eq!(Money::<Eur>::from_amount(Amount::new(5), unit("USD")), None);
        assert_eq!(
            Money::<Jpy>::from_amount(Amount::new(5), unit("JPY")),
            Some(Money::from_micros(5))
        );
        assert_eq!(Count::from_amount(Amount::new(5), unit("USD")), None);
        assert_eq!(Count::from_amount(Amount::new(5), Unit::Count), Some(Count::new(5)));
        assert_eq!(Count::new(5).to_amount(unit("USD")), None);
        assert_eq!(Count::new(5).to_amount(Unit::Count), Some(Amount::new(5)));
    }

    #[test]
    fn a_currency_that_iso_does_not_know_never_becomes_an_amount() {
        enum Shells {}
        impl Currency for Shells {
            const CODE: &'static str = "count";
        }
        assert_eq!(Money::<Shells>::from_micros(1).to_amount(Unit::Count), None);
        assert_eq!(Money::<Shells>::from_micros(1).to_string(), "1 microcount");
    }

    #[test]
    fn prints_money() {
        assert_eq!(Money::<Usd>::from_micros(-1_500_000).to_string(), "-1.50 USD");
        assert_eq!(format!("{:?}", Cpm::<Eur>::from_micros(7)), "Cpm(7 microEUR)");
    }

    #[test]
    fn edges_do_not_wrap() {
        let max = Money::<Usd>::from_micros(i64::MAX);
        assert_eq!(max.checked_add(Money::from_micros(1)), None);
        assert_eq!(max.checked_mul(Count::new(2)), None);
        assert_eq!(Money::<Usd>::from_micros(i64::MIN).checked_sub(Money::from_micros(1)), None);
        assert_eq!(Cpm::<Usd>::from_micros(i64::MAX).to_reserve(1_001), None);
        assert_eq!(Cpm::<Usd>::from_micros(i64::MAX).to_reserve(1_000), Some(max));
        assert_eq!(Count::new(i64::MAX).checked_add(Count::new(1)), None);
        assert_eq!(Count::new(i64::MIN).checked_sub(Count::new(1)), None);
        let rate = Rate::<Usd, Eur>::new(1, u64::MAX, 1).unwrap();
        assert_eq!(rate.convert(Money::from_micros(i64::MAX), Rounding::Up), None);
        assert!(
            Rate::<Usd, Eur>::new(1, 0, 1).is_none() && Rate::<Usd, Eur>::new(1, 1, 0).is_none()
        );
    }

    #[test]
    fn rates_are_read_exactly() {
        let yen = Rate::<Usd, Jpy>::parse(3, "155.125").unwrap();
        assert_eq!(yen.id(), 3);
        let one = Money::from_micros(1_000_000);
        assert_eq!(yen.convert(one, Rounding::Down), Some(Money::from_micros(155_125_000)));
        assert!(Rate::<Usd, Jpy>::parse(3, "155").is_ok());
        for wrong in
            ["", "0", "0.000", "1.", ".5", "-1", "1e3", "1,5", "1.1234567890123", &"9".repeat(19)]
        {
            let error = Rate::<Usd, Jpy>::parse(3, wrong).unwrap_err().to_string();
            assert!(error.contains("expected a positive decimal number"), "{wrong}: {error}");
        }
    }

    proptest! {
        #[test]
        fn reserving_never_favours_overspend(micros in 0_i64..1_000_000_000_000, n in 0_u64..1_000_000) {
            let (price, exact) = (Cpm::<Usd>::from_micros(micros), i128::from(micros) * i128::from(n));
            let reserve = i128::from(price.to_reserve(n).unwrap().micros());
            prop_assert!(reserve * 1_000 >= exact && (reserve - 1) * 1_000 < exact);
            let down = i128::from(price.for_impressions(n, Rounding::Down).unwrap().micros());
            prop_assert!(down <= reserve && reserve - down <= 1);
        }

        #[test]
        fn one_by_one_is_never_cheaper_than_at_once(micros in 0_i64..100_000_000, n in 1_u64..500) {
            let price = Cpm::<Usd>::from_micros(micros);
            let one = price.to_reserve(1).unwrap();
            let all = one.checked_mul(Count::new(i64::try_from(n).unwrap())).unwrap();
            prop_assert!(all >= price.to_reserve(n).unwrap());
        }

        #[test]
        fn there_and_back_never_gains(micros in 0_i64..1_000_000_000_000,
                                      num in 1_u64..1_000_000, den in 1_u64..1_000_000) {
            let there = Rate::<Usd, Eur>::new(1, num, den).unwrap();
            let back = Rate::<Eur, Usd>::new(2, den, num).unwrap();
            let money = Money::<Usd>::from_micros(micros);
            let trip = |rounding| back.convert(there.convert(money, rounding).unwrap(), rounding).unwrap();
            prop_assert!(trip(Rounding::Down) <= money && money <= trip(Rounding::Up));
        }

        #[test]
        fn tagging_round_trips(base_units: i64) {
            let amount = Amount::new(base_units);
            let money = Money::<Usd>::from_amount(amount, unit("USD")).unwrap();
            prop_assert_eq!(money.to_amount(unit("USD")), Some(amount));
        }
    }
}
