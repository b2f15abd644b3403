"""Deadlines of asks, on an event loop that other work may keep busy."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

LATE = 0.001
"""Timers that are later than this, in seconds, show that the event loop was busy."""

T = TypeVar("T")


class Deadline:
    """The moment from which an ask is late.

    A busy event loop sends no ask, reads no answer and is late with its timers. The time that is lost so is not the node's: it is added
    to the deadline, up to as much as the ask had, so that an answer which has arrived, or is about to, is read before it is given up.
    """

    __slots__ = ("_at", "_spare")

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds
        self._spare = seconds

    def left(self) -> float:
        """Seconds until the ask is late; 0 where it is."""
        now = time.monotonic()
        if self._at < now:
            self.lose(now - self._at, now)
        return max(self._at - now, 0.0)

    def lose(self, seconds: float, now: float) -> None:
        """Adds time that the event loop was busy with other work."""
        if seconds > LATE and self._spare > 0:
            more = min(seconds, self._spare)
            self._spare -= more
            self._at = max(self._at, now) + more

    def end(self, future: asyncio.Future[T], result: T) -> asyncio.TimerHandle:
        """Gives the future this result if it has none by the deadline."""
        return future.get_loop().call_later(self.left(), self._check, future, result, 2)

    def _check(self, future: asyncio.Future[T], result: T, turns: int) -> None:
        if future.done():
            return
        if self.left():
            self.end(future, result)
        elif turns:
            # After what is to be sent in this turn, and what can be read in the next.
            future.get_loop().call_soon(self._check, future, result, turns - 1)
        else:
            future.set_result(result)
