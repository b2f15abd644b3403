"""Holds, and the refusals that come in their place."""

from __future__ import annotations

import base64
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from . import _wire as wire
from ._amount import AMOUNT_MAX, Amount, base_units
from ._settle import Job, Outcome
from ._verdict import AmountError, ClosedError, Verdict, WeirError

if TYPE_CHECKING:
    from types import TracebackType

    from ._client import Client
    from ._connection import Extended
    from ._node import Node


class Refused:
    """A no to an ask: a value, not an error. It is false, so that ``if not hold`` reads well."""

    __slots__ = ("budget", "detail", "left", "retry_after", "verdict", "window")

    def __init__(
        self, verdict: Verdict, detail: str = "", *, retry_after: float | None = None, budget: int | str | None = None, window: str = "",
        left: Decimal | None = None,
    ) -> None:  # fmt: skip
        self.verdict = verdict
        self.detail = detail
        """What is known beyond the verdict, for people: of UNIT_MISMATCH the units; the JSON door's own words."""
        self.retry_after = retry_after
        """After how many seconds the same ask may be granted; None where waiting does not help or the door does not say."""
        self.budget = budget
        """The budget that said no, as it was asked for; None where the door does not say. This and what follows: the JSON door alone."""
        self.window = window
        """The window that has no more, such as ``day``; empty: the limit of a life, or none."""
        self.left = left
        """What is left there, in the unit of the ask; None where the door does not say."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return f"Refused({self.verdict}: {self.detail})" if self.detail else f"Refused({self.verdict})"


class Hold:
    """Money that was reserved. It is settled once, or released; leaving ``async with`` without a settle releases it.

    A hold that is dropped without either is released when it is collected, and the log says so once.
    """

    __slots__ = ("__weakref__", "_client", "_end", "_node", "_owned", "amount", "request_id", "token_bytes")

    def __init__(
        self, client: Client, node: Node | None, token: bytes, amount: Amount | None, request_id: int, owned: bool = True
    ) -> None:
        self._client = client
        self._node = node
        self._end: Job | None = None
        self._owned = owned
        self.token_bytes = token
        self.amount = amount
        """What was reserved; None where that is not known."""
        self.request_id = request_id
        """The name of the request in the books."""

    def __bool__(self) -> Literal[True]:
        return True

    def __repr__(self) -> str:
        return f"Hold({self.amount}, request_id={self.request_id})"

    @property
    def verdict(self) -> Verdict:
        """GRANTED."""
        return Verdict.GRANTED

    @property
    def token(self) -> str:
        """The hold as a text of 43 characters, with which another program can settle it: see ``Client.hold_of``."""
        return base64.urlsafe_b64encode(self.token_bytes).decode().rstrip("=")

    async def confirm(self, *, timeout: float | None = None) -> Outcome:
        """Says that the money will be spent: the hold lives until the node's billing deadline (an hour by default).

        It is for work of unknown length. It is repeated until it is answered; PENDING after the timeout, in seconds.
        """
        return await self._client.begin(wire.CONFIRM, self, 0).wait(timeout)

    async def extend(self, confirm_ms: int, *, timeout: float | None = None) -> Extended:
        """Moves the end of the hold to so many milliseconds from now, unless it is later already; an unconfirmed one is confirmed by it.

        The answer is false where the hold is settled, released or over, or where a batch door is too old for it. It is repeated until it
        is answered; a WeirError after the timeout, 1 s by default.
        """
        return await self._client.extend(self, confirm_ms, timeout=timeout)

    async def settle(self, amount: Amount | str | Decimal | int, *, timeout: float | None = None) -> Outcome:
        """Books what was spent, in the unit of the hold, and ends it.

        It is booked once: it is repeated, on any node that knows the hold, until it is answered. PENDING after the timeout, in
        seconds; the client goes on, and settling with the same amount waits for the same answer again. A hold that was settled with
        another amount answers ALREADY_SETTLED.
        """
        base = self._base(amount)
        job = self._finish(wire.SETTLE, base)
        if job.entry.action != wire.SETTLE:
            return Outcome(Verdict.ALREADY_RELEASED)
        if job.entry.amount != base:
            return Outcome(Verdict.ALREADY_SETTLED)
        return await job.wait(timeout)

    async def release(self, *, timeout: float | None = None) -> Outcome:
        """Gives the money back, and waits for the answer."""
        job = self._finish(wire.RELEASE, 0)
        if job.entry.action != wire.RELEASE:
            return Outcome(Verdict.ALREADY_SETTLED)
        return await job.wait(timeout)

    def release_soon(self) -> None:
        """Gives the money back without waiting; nothing happens if the hold was settled or released before."""
        if self._end is None:
            try:
                self._finish(wire.RELEASE, 0)
            except ClosedError:
                pass  # the hold ends at its deadline
            except WeirError as error:
                self._client.log.warning("hold %d was not released, it ends at its deadline: %s", self.request_id, error)

    async def __aenter__(self) -> Hold:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.release_soon()

    def __del__(self) -> None:
        if self._end is None and self._owned:
            self._client.dropped(self._node, self.token_bytes, self.request_id, self.amount)

    def _base(self, amount: Amount | str | Decimal | int) -> int:
        unit = self.amount.unit if self.amount is not None else ""
        if isinstance(amount, Amount):
            if unit and amount.unit and amount.unit != unit:
                raise AmountError(f"settled amount in {amount.unit} of a hold in {unit}")
            base = amount.base
        else:
            base = base_units(amount, unit)
        if not 0 <= base <= AMOUNT_MAX:
            raise AmountError(f"settled amount of {base} base units: expected 0 to {AMOUNT_MAX}")
        return base

    def _finish(self, action: int, amount: int) -> Job:
        """Begins the settle or the release that ends the hold, or is the one that did."""
        if self._end is None:
            self._end = self._client.begin(action, self, amount)
        return self._end

    def detach(self) -> None:
        """Leaves the hold to whoever has its token: this client does nothing more about it by itself."""
        self._owned = False
