"""Verdicts: the answers to asks and settlements, as values."""

from __future__ import annotations

import enum


class Verdict(enum.IntEnum):
    """The answer to an ask or to a settlement.

    The codes below 256 come from the node; a code that this library does not know is kept, is called ``verdict_N`` and is a no. Those
    from 256 on are said by the library itself, when the node said nothing in time.
    """

    # Answers to an ask.
    GRANTED = 0
    UNKNOWN_BUDGET = 1
    BAD_AMOUNT = 2
    UNIT_MISMATCH = 3
    NOT_STARTED = 4
    ENDED = 5
    PAUSED = 6
    PACED = 7
    EXHAUSTED = 8
    DAY_EXHAUSTED = 9
    PURSE_EMPTY = 10
    POD_REFUSED = 11
    ID_REUSED = 12
    BUSY = 13
    JOURNAL = 14
    CUT_OFF = 15
    WINDOW_EXHAUSTED = 16
    # Answers to a confirm, a settle, a release or a later end; from EXPIRED on nothing was booked.
    CONFIRMED = 32
    SETTLED = 33
    SETTLED_OVER = 34
    SETTLED_LATE = 35
    RELEASED = 36
    EXTENDED = 37
    EXPIRED = 40
    ALREADY_SETTLED = 41
    ALREADY_RELEASED = 42
    FORGED = 43
    FOREIGN = 44
    TOO_OLD = 45
    BAD_ACTION = 46
    # Answers of the library itself.
    TIMEOUT = 256
    """The answer was not there at the caller's deadline; a grant that comes later is released by the library."""
    UNREACHABLE = 257
    """No node could be reached, or the connection was lost before the answer came."""
    CLOSED = 259
    """The client was closed."""
    PENDING = 260
    """The caller's wait for a settlement ended before its answer; the client goes on repeating it."""

    UNSUPPORTED = 262
    """The node is too old to know budgets by their handles, or later ends."""

    @classmethod
    def _missing_(cls, value: object) -> Verdict | None:
        if not isinstance(value, int) or not 0 <= value < 256:
            return None
        unknown = int.__new__(cls, value)
        unknown._name_ = f"VERDICT_{value}"
        unknown._value_ = value
        return unknown

    def __str__(self) -> str:
        return self._name_.lower()

    @property
    def booked(self) -> bool:
        """Whether a confirm, settle, release or later end took effect."""
        return 32 <= self <= 37


UNANSWERED = frozenset(
    (Verdict.UNREACHABLE, Verdict.TIMEOUT, Verdict.JOURNAL, Verdict.CLOSED, Verdict.BUSY, Verdict.CUT_OFF)
)
"""The verdicts of asks that no budget answered."""

VERDICTS: tuple[Verdict, ...] = tuple(Verdict(code) for code in range(256))
"""The verdict of each code of the wire."""

REASONS = (
    "", "malformed", "unknown_encoding", "unknown_schema", "unknown_template", "frame_too_large", "batch_too_large", "batch_empty",
    "version_unsupported", "hello_expected", "unauthorised", "busy", "shutting_down", "journal",
)  # fmt: skip
"""Why a whole frame was refused, by code."""


def reason_name(code: int) -> str:
    """The name of a reason, or its number."""
    return REASONS[code] if 0 < code < len(REASONS) else f"reason_{code}"


class WeirError(Exception):
    """Something is broken: not a refusal, which is a value."""


class UnauthorisedError(WeirError):
    """The node wants another auth token."""


class VersionError(WeirError):
    """The node speaks no version of the protocol that this library speaks."""


class WrongDoorError(WeirError):
    """The address is not that of a node's batch door: something there speaks HTTP."""


class FrameRefusedError(WeirError):
    """The node found a frame broken; nothing in it took effect."""


class TooLargeError(WeirError, ValueError):
    """A pod has more members than a frame may hold."""


class AmountError(WeirError, ValueError):
    """A text that is no amount of its unit, or an amount out of range."""


class BusyError(WeirError):
    """Too many settlements wait for their answers already, or the spool is full."""


class ClosedError(WeirError):
    """The client was closed."""


class SpoolError(WeirError):
    """The spool cannot be opened or written."""
