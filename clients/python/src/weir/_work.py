"""Work that has a budget: a hold as a context, and a decorator for functions."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import os
import re
from collections.abc import AsyncIterator, Callable, Iterator
from decimal import Decimal
from typing import Any, TypeVar

from ._amount import Amount
from ._client import Client
from ._hold import Hold, Refused
from ._sync import SyncClient, SyncHold, connect_sync
from ._verdict import WeirError

F = TypeVar("F", bound=Callable[..., Any])
RELEASE_WAIT = 5.0
"""How long the end of a block waits until its money is back, in seconds; the client goes on."""
RENEWED: dict[str, Any] = {"confirm_ms": 60_000, "renew": True}
"""How work is held: with an end a minute ahead, which the client moves on."""
_default: tuple[int, SyncClient] | None = None


class RefusedError(WeirError):
    """A budget said no to work that cannot go on without it."""

    def __init__(self, budget: int | str, refused: Refused) -> None:
        super().__init__(f"budget {budget}: {refused.verdict}{': ' * bool(refused.detail)}{refused.detail}")
        self.refused = refused
        """The verdict, and when to ask again."""


def default() -> SyncClient:
    """The client of the environment, WEIR_URL and WEIR_TOKEN; a process that was forked gets its own."""
    global _default
    if _default is None or _default[0] != os.getpid():
        _default = os.getpid(), connect_sync()
    return _default[1]


def handle_part(value: str) -> str:
    """A text as one part of a handle: what a part cannot have, and ``:``, as ``:`` and two hex digits of UTF-8."""
    plain = r"[^A-Za-z0-9_@.-]" if value.strip(".") else "."
    return re.sub(plain, lambda one: "".join(f":{byte:02X}" for byte in one[0].encode("utf-8", "surrogatepass")), value, flags=re.DOTALL)


def amount_of(most: Amount | str | Decimal | int, unit: str | None) -> Amount:
    """An amount, or text such as ``"0.02/USDn"``."""
    if isinstance(most, Amount):
        return most
    if isinstance(most, str) and unit is None:
        most, _, unit = most.partition("/")
    if not unit:
        raise TypeError("the unit of the amount is missing: say most='0.02/USDn'")
    return Amount.parse(most, unit)


@contextlib.asynccontextmanager
async def hold(
    client: Client, budget: int | str, most: Amount | str | Decimal | int, unit: str | None = None, *, timeout: float | None = None
) -> AsyncIterator[Hold]:
    """See ``Client.hold``."""
    answer = await client.reserve(budget, amount_of(most, unit), timeout=timeout, **RENEWED)
    if isinstance(answer, Refused):
        raise RefusedError(budget, answer)
    try:
        yield answer
    finally:
        if answer._end is None:
            await answer.release(timeout=RELEASE_WAIT)


@contextlib.contextmanager
def sync_hold(
    client: SyncClient, budget: int | str, most: Amount | str | Decimal | int, unit: str | None = None, *, timeout: float | None = None
) -> Iterator[SyncHold]:
    """See ``Client.hold``."""
    answer = client.reserve(budget, amount_of(most, unit), timeout=timeout, **RENEWED)
    if isinstance(answer, Refused):
        raise RefusedError(budget, answer)
    try:
        yield answer
    finally:
        if answer._hold._end is None:
            answer.release(timeout=RELEASE_WAIT)


def budgeted(
    budget: str, *, most: Amount | str, cost: Callable[[Any], Amount | str | Decimal | int] | None = None, client: SyncClient | None = None
) -> Callable[[F], F]:
    """Lets a function run only within a budget, async or not: it reserves ``most`` before, and settles ``cost`` of its result after.

    In the handle, ``{name}`` is the argument of that name. Without ``cost`` all of ``most`` is booked. An exception releases; a refusal is
    a RefusedError, and the function does not run. ``client``: of ``weir.connect_sync``; that of the environment if None.
    """
    amount = amount_of(most, None)
    if client is not None and not isinstance(client, SyncClient):
        raise TypeError("client: expected one of weir.connect_sync, also for functions that are async")

    def decorate(function: F) -> F:
        signature = inspect.signature(function)

        def handle(args: tuple[Any, ...], named: dict[str, Any]) -> str:
            bound = signature.bind(*args, **named)
            bound.apply_defaults()
            return re.sub(r"\{(\w+)\}", lambda name: handle_part(str(bound.arguments[name[1]])), budget)

        def spent(result: Any) -> Amount | str | Decimal | int:
            return amount if cost is None else cost(result)

        @functools.wraps(function)
        def run(*args: Any, **named: Any) -> Any:
            with sync_hold(client or default(), handle(args, named), amount) as held:
                result = function(*args, **named)
                held.settle(spent(result))
                return result

        @functools.wraps(function)
        async def run_async(*args: Any, **named: Any) -> Any:
            # The loop of the client is not the caller's.
            context = sync_hold(client or default(), handle(args, named), amount)
            held = await asyncio.to_thread(context.__enter__)
            try:
                result = await function(*args, **named)
                await asyncio.to_thread(held.settle, spent(result))
                return result
            finally:
                await asyncio.to_thread(context.__exit__, None, None, None)

        return run_async if inspect.iscoroutinefunction(function) else run  # type: ignore[return-value]

    return decorate
