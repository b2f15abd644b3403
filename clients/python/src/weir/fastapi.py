"""Budgets for routes of FastAPI: money is held before the route runs, and what it does not settle is given back.

    from weir.fastapi import Budget, Held

    @app.post("/answer/{team}")
    async def answer(held: Annotated[Held, Depends(Budget("llm/{team}", most="0.02/USDn"))]) -> str:
        ...
        await held.settle("0.0131")

A refusal is 429 with Retry-After, 402 where waiting does not help, and 503 where Weir cannot be asked; the route does not run.
"""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from decimal import Decimal
from typing import Any, TypeVar

from fastapi import HTTPException
from starlette.requests import HTTPConnection

from ._amount import Amount
from ._hold import Hold
from ._settle import Outcome
from ._sync import SyncClient
from ._verdict import UNANSWERED, WeirError
from ._work import RELEASE_WAIT, RENEWED, amount_of, default, handle_part

T = TypeVar("T")


class Held:
    """The money of one call of a route."""

    def __init__(self, weir: SyncClient, hold: Hold) -> None:
        self._weir, self._hold = weir, hold

    @property
    def token(self) -> str:
        """The hold as a text of 43 characters."""
        return self._hold.token

    async def settle(self, amount: Amount | str | Decimal | int) -> Outcome:
        """See ``Hold.settle``."""
        return await _run(self._weir, self._hold.settle(amount))

    async def release(self) -> Outcome:
        """See ``Hold.release``. What is not settled when the route has ended is released."""
        return await _run(self._weir, self._hold.release(timeout=RELEASE_WAIT))


class Budget:
    """A dependency that holds ``most`` of a budget, and is a ``Held``.

    ``budget``: a handle, in which ``{name}`` is that parameter of the path, else of the query; or a function of the request. ``weir``: a
    client of ``weir.connect_sync``; that of the environment if None.
    """

    def __init__(
        self, budget: str | Callable[[HTTPConnection], int | str], *, most: Amount | str, weir: SyncClient | None = None
    ) -> None:
        self._budget, self._most, self._weir = budget, amount_of(most, None), weir

    async def __call__(self, request: HTTPConnection) -> AsyncIterator[Held]:
        """Runs around the route."""
        weir, budget = self._weir or default(), self._handle(request)
        try:
            answer = await _run(weir, weir._client.reserve(budget, self._most, **RENEWED))
        except WeirError as error:
            raise HTTPException(503, f"budget {budget} cannot be asked: {error}", {"Retry-After": "1"}) from error
        if not isinstance(answer, Hold):
            after = {} if answer.retry_after is None else {"Retry-After": str(max(1, math.ceil(answer.retry_after)))}
            status = 503 if answer.verdict in UNANSWERED else 402 if answer.retry_after is None else 429
            raise HTTPException(status, f"budget {answer.budget or budget}: {answer.verdict}: {answer.detail}", after)
        held = Held(weir, answer)
        try:
            yield held
        finally:
            if answer._end is None:
                await held.release()

    def _handle(self, request: HTTPConnection) -> int | str:
        if callable(self._budget):
            return self._budget(request)

        def value(name: re.Match[str]) -> str:
            found = request.path_params.get(name[1], request.query_params.get(name[1]))
            if found is None:
                raise HTTPException(422, f"{name[1]}: missing; it names the budget")
            return handle_part(str(found))

        return re.sub(r"\{(\w+)\}", value, self._budget)


async def _run(weir: SyncClient, work: Coroutine[Any, Any, T]) -> T:
    """Runs work on the loop of Weir's client; a caller that is cancelled does not cancel what became of its money."""
    return await asyncio.shield(asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, weir._loop)))
