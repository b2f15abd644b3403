"""Amounts and units: exact, never a float."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from decimal import Decimal

from ._verdict import AmountError

AMOUNT_MAX = 1_000_000_000_000_000
"""The largest amount that may be asked for, in base units."""

_INT64_MAX = 2**63 - 1
_TEXT = re.compile(r"(-?)([0-9]{1,40})(?:\.([0-9]{1,40}))?", re.ASCII)
_UNIT = re.compile(r"[A-Z]{3}n?", re.ASCII)


def unit_code(unit: str) -> bytes:
    """The four bytes of the wire for ``USD`` (millionths), ``USDn`` (billionths) or ``count``; for ``""``, the budget's own unit."""
    if unit == "count":
        return b"COUN"
    if unit == "":
        return b"\0\0\0\0"
    if not isinstance(unit, str) or not _UNIT.fullmatch(unit):
        raise AmountError(f"unit {unit!r}: expected a currency such as 'USD', the same in billionths such as 'USDn', or 'count'")
    return unit.encode().ljust(4, b"\0")


def unit_of(code: bytes) -> str:
    """The text of the four bytes of the wire."""
    return "count" if code == b"COUN" else code.rstrip(b"\0").decode("ascii", "replace")


def unit_decimals(unit: str) -> int:
    """How many decimals an amount of the unit can have: 6, 9 or none."""
    if unit in ("", "count"):
        return 0
    return 9 if len(unit) == 4 else 6


@dataclass(frozen=True, slots=True)
class Amount:
    """An exact sum: so many base units (millionths or billionths of a currency, or whole items) of a unit.

    ``Amount.parse("0.15", "USD")`` reads decimal text, ``Amount(150_000, "USD")`` takes base units. With the unit ``""`` base units
    are of whatever the budget counts in.
    """

    base: int
    unit: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.base, bool) or not isinstance(self.base, int):
            raise TypeError(f"base units are an int, not {type(self.base).__name__}: amounts are exact")
        if not -_INT64_MAX - 1 <= self.base <= _INT64_MAX:
            raise AmountError(f"amount of {self.base} base units: expected 64 bits at most")
        unit_code(self.unit)

    @staticmethod
    def parse(value: str | Decimal | int, unit: str) -> Amount:
        """Reads decimal text, a Decimal or a whole number of the unit, without any rounding; a float is a TypeError."""
        return Amount(base_units(value, unit), unit)

    @property
    def decimal(self) -> Decimal:
        """The amount as a Decimal of the unit."""
        return Decimal(self.base).scaleb(-unit_decimals(self.unit))

    def __str__(self) -> str:
        """The shortest decimal text that reads back as the same amount; a currency has at least two decimals."""
        sign, magnitude = ("-", -self.base) if self.base < 0 else ("", self.base)
        decimals = unit_decimals(self.unit)
        if decimals == 0:
            return f"{sign}{magnitude}"
        whole, part = divmod(magnitude, 10**decimals)
        digits = f"{part:0{decimals}d}".rstrip("0").ljust(2, "0")
        return f"{sign}{whole}.{digits}"


def base_units(value: str | Decimal | int, unit: str) -> int:
    """Base units of decimal text, of a Decimal or of a whole number of the unit."""
    if isinstance(value, str):
        return _of_text(value, unit)
    if isinstance(value, Decimal):
        if not value.is_finite() or abs(value.adjusted()) > 40:
            raise AmountError(f"amount {value!r}: expected a number of the unit {unit}")
        return _of_text(format(value, "f"), unit)
    if isinstance(value, int) and not isinstance(value, bool):
        return _of_text(str(value), unit) if abs(value) < 10**20 else _too_large(str(value), unit)
    raise TypeError(f"an amount is a str, a Decimal, an int or an Amount, not {type(value).__name__}: amounts are exact")


@functools.lru_cache(maxsize=1024)
def _of_text(text: str, unit: str) -> int:
    unit_code(unit)
    most = unit_decimals(unit)
    parts = _TEXT.fullmatch(text) if len(text) <= 82 else None
    if parts is None:
        raise AmountError(f"amount {text[:32]!r}: expected digits with at most {most} decimals, such as '0.15'")
    sign, whole, decimals = parts[1], parts[2], parts[3] or ""
    if len(decimals) > most:
        raise AmountError(f"amount {text[:32]!r}: found {len(decimals)} decimals, expected at most {most} for {unit or 'base units'}")
    base = int(whole + decimals.ljust(most, "0"))
    if sign:
        base = -base
    if not -_INT64_MAX - 1 <= base <= _INT64_MAX:
        _too_large(text, unit)
    return base


def _too_large(text: str, unit: str) -> int:
    raise AmountError(f"amount {text[:32]!r}: too large, expected at most {Amount(_INT64_MAX, unit)} {unit}")
