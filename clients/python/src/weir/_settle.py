"""Confirms, settles and releases: repeated until they are answered."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, NamedTuple

from . import _wire as wire
from ._node import Node, backoff
from ._spool import Entry
from ._verdict import Verdict

if TYPE_CHECKING:
    from ._client import Client

JOBS_MAX = 1 << 16
"""How many wait for their answers at most."""

_NOT_NOW = frozenset((Verdict.BUSY, Verdict.JOURNAL, Verdict.CUT_OFF))


class Outcome(NamedTuple):
    """The answer to a confirm, a settle or a release."""

    verdict: Verdict
    repeat: bool = False
    """This is the first answer again, and nothing was booked now. The library repeats what was not answered: this is no fault."""


class Job:
    """A confirm, settle or release until its final answer."""

    __slots__ = ("avoid", "began", "client", "entry", "foreign", "future", "home", "outcome", "packed", "spooled", "tries")

    def __init__(self, client: Client, entry: Entry, home: Node | None, spooled: bool) -> None:
        self.client = client
        self.entry = entry
        self.home = home
        self.spooled = spooled
        self.packed = wire.RESOLVING.pack(entry.token, entry.amount, entry.action, entry.request_id)
        self.began = time.perf_counter()
        self.tries = 0
        self.avoid: Node | None = None
        self.foreign: set[int] = set()
        self.outcome: Outcome | None = None
        self.future: asyncio.Future[Outcome] | None = None

    @staticmethod
    def is_final(verdict: Verdict) -> bool:
        """Every answer but those that say "not now" is, also one that this library does not know."""
        return verdict not in _NOT_NOW

    def send(self) -> None:
        """Puts it on a connection of the node that is likeliest to answer, or tries again later."""
        client = self.client
        if client.is_shut or self.outcome is not None:
            return
        without, favourite = set(self.foreign), self.home
        avoid, self.avoid = self.avoid, None
        node = None
        if avoid is not None:
            other = client.choose(without | {avoid.index})
            if other is not None and other.connections and not other.is_last(time.monotonic()):
                node = other
            elif not avoid.connections:
                node = other
        node = node or client.choose(without, favourite)
        if node is not None:
            connection = node.pick()
            if connection is not None:
                connection.gather_job(self, self.packed)
                return
            node.open()
        self._later()

    def _later(self) -> None:
        self.tries += 1
        self.client.loop.call_later(backoff(self.tries), self.send)

    def again(self, node: Node) -> None:
        """Tries once more what a node did not answer."""
        self.avoid = node
        if self.outcome is None:
            self._later()

    def answered(self, node: Node, verdict: Verdict, repeat: bool) -> None:
        """Takes a node's answer; a final one ends it."""
        if self.outcome is not None:
            return
        if verdict == Verdict.CUT_OFF:
            node.put_last()
        if not self.is_final(verdict):
            self.again(node)
            return
        if verdict == Verdict.FOREIGN:
            self.foreign.add(node.index)
            if len(self.foreign) < len(self.client.nodes) and node is not self.home:
                self._later()
                return
        self.finish(Outcome(verdict, repeat))

    def finish(self, outcome: Outcome) -> None:
        """This is the final answer."""
        self.outcome = outcome
        self.client.ended(self)
        if self.future is not None and not self.future.done():
            self.future.set_result(self.outcome)

    async def wait(self, timeout: float | None) -> Outcome:
        """Waits for the final answer; PENDING if the time is over before."""
        if self.outcome is not None:
            return self.outcome
        if self.client.is_shut:
            return Outcome(Verdict.PENDING)
        if self.future is None:
            self.future = self.client.loop.create_future()
            self.client.waiting.add(self.future)
            self.future.add_done_callback(self.client.waiting.discard)
        if timeout is None:
            return await asyncio.shield(self.future)
        try:
            return await asyncio.wait_for(asyncio.shield(self.future), timeout)
        except asyncio.TimeoutError:
            return self.outcome or Outcome(Verdict.PENDING)  # a busy loop may be late with both
