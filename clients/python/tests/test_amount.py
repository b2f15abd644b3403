"""Amounts are exact, and never a float."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from weir import Amount, AmountError, Verdict
from weir._amount import unit_code


@pytest.mark.parametrize(
    ("value", "unit", "base"),
    [("0.15", "USD", 150_000), (Decimal("0.0000054"), "USDn", 5_400), (3, "EUR", 3_000_000), (12, "count", 12),
     (Decimal("1E+3"), "USD", 10**9), ("-9223372036854.775808", "USD", -(2**63))],
)  # fmt: skip
def test_what_is_read(value, unit, base):
    assert Amount.parse(value, unit) == Amount(base, unit)


@pytest.mark.parametrize("value", [0.15, float("nan"), True, None, b"1", 1j])
def test_what_is_no_number_for_money(value):
    with pytest.raises(TypeError):
        Amount.parse(value, "USD")
    with pytest.raises(TypeError):
        Amount(value, "USD")


@pytest.mark.parametrize("value", [Decimal("NaN"), Decimal("Infinity"), Decimal("1E-7"), Decimal("1E+999999"), 10**400, "9" * 5000, "1_0", "٣"])
def test_what_is_too_large_or_too_fine(value):
    with pytest.raises(AmountError):
        Amount.parse(value, "USD")


@pytest.mark.parametrize("unit", ["usd", "US", "USDx", "USDnn", "", "Ünn"])
def test_units(unit):
    if unit:
        with pytest.raises(AmountError):
            unit_code(unit)
    else:
        assert unit_code(unit) == bytes(4)


def test_text_and_decimal_go_there_and_back():
    chance = random.Random(1)
    for unit in ("USD", "USDn", "count"):
        for _ in range(2000):
            amount = Amount(chance.randrange(-(2**63), 2**63) >> chance.randrange(64), unit)
            assert Amount.parse(str(amount), unit) == amount
            assert Amount.parse(amount.decimal, unit) == amount


def test_verdicts_are_values():
    assert str(Verdict.EXHAUSTED) == "exhausted" and Verdict(200) == 200 and str(Verdict(200)) == "verdict_200"
    assert Verdict.SETTLED_OVER.booked and not Verdict.EXPIRED.booked
    with pytest.raises(ValueError):
        Verdict(999)
