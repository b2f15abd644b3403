"""A client for programs without asyncio: the same client on an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine, Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ._amount import Amount
from ._client import Ask, Client, connect
from ._connection import Extended
from ._hold import Hold, Refused
from ._settle import Outcome
from ._verdict import ClosedError, Verdict, WeirError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

T = TypeVar("T")


class SyncHold:
    """A Hold whose calls block. Leaving ``with`` without a settle releases it."""

    def __init__(self, client: SyncClient, hold: Hold) -> None:
        self._client = client
        self._hold = hold

    def __bool__(self) -> Literal[True]:
        return True

    def __repr__(self) -> str:
        return repr(self._hold)

    @property
    def verdict(self) -> Verdict:
        """GRANTED."""
        return Verdict.GRANTED

    @property
    def token(self) -> str:
        """The hold as a text of 43 characters."""
        return self._hold.token

    @property
    def amount(self) -> Amount | None:
        """What was reserved."""
        return self._hold.amount

    @property
    def request_id(self) -> int:
        """The name of the request in the books."""
        return self._hold.request_id

    def confirm(self, *, timeout: float | None = None) -> Outcome:
        """See ``Hold.confirm``."""
        return self._client._run(self._hold.confirm(timeout=timeout))

    def extend(self, confirm_ms: int, *, timeout: float | None = None) -> Extended:
        """See ``Hold.extend``."""
        return self._client._run(self._hold.extend(confirm_ms, timeout=timeout))

    def settle(self, amount: Amount | str | Decimal | int, *, timeout: float | None = None) -> Outcome:
        """See ``Hold.settle``."""
        return self._client._run(self._hold.settle(amount, timeout=timeout))

    def release(self, *, timeout: float | None = None) -> Outcome:
        """See ``Hold.release``."""
        return self._client._run(self._hold.release(timeout=timeout))

    def __enter__(self) -> SyncHold:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._client._soon(self._hold.release_soon)


class SyncClient:
    """A Client whose calls block; any thread may call it. Made by ``weir.connect_sync``."""

    def __init__(self, addresses: str | Sequence[str] | None, **options: Any) -> None:
        self._client: Client = connect(addresses, **options)
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._loop.run_forever, name="weir", daemon=True)
        self._closed = False
        self._thread.start()
        try:
            self._run(self._client.open())
        except BaseException:
            self._stop()
            raise

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._closed:
            work.close()
            raise ClosedError("the client was closed")
        if self._process != os.getpid():
            work.close()
            raise WeirError("the client was opened before the process was forked: open one in each process")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _soon(self, work: Any) -> None:
        if not self._closed:
            self._loop.call_soon_threadsafe(work)

    def _wrapped(self, answer: Hold | Refused) -> SyncHold | Refused:
        return SyncHold(self, answer) if isinstance(answer, Hold) else answer

    def reserve(self, budget: int | str, amount: Amount | str | Decimal | int, unit: str | None = None, **more: Any) -> SyncHold | Refused:
        """See ``Client.reserve``."""
        return self._wrapped(self._run(self._client.reserve(budget, amount, unit, **more)))

    def hold(
        self, budget: int | str, most: Amount | str | Decimal | int, unit: str | None = None, *, timeout: float | None = None
    ) -> AbstractContextManager[SyncHold]:
        """See ``Client.hold``."""
        from ._work import sync_hold

        return sync_hold(self, budget, most, unit, timeout=timeout)

    def reserve_all(self, asks: Iterable[Ask], *, timeout: float | None = None) -> list[SyncHold | Refused]:
        """See ``Client.reserve_all``."""
        return [self._wrapped(answer) for answer in self._run(self._client.reserve_all(asks, timeout=timeout))]

    def hold_of(self, token: str, amount: Amount | None = None, request_id: int = 0) -> SyncHold:
        """See ``Client.hold_of``."""
        return SyncHold(self, self._client.hold_of(token, amount, request_id))

    def close(self, timeout: float = 5.0) -> int:
        """See ``Client.close``."""
        if self._closed:
            return 0
        left = self._run(self._client.close(timeout))
        self._stop()
        return left

    def _stop(self) -> None:
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def connect_sync(addresses: str | Sequence[str] | None = None, **options: Any) -> SyncClient:
    """An open client for programs without asyncio. It takes what ``connect`` takes, and is closed by ``with`` or ``close()``."""
    return SyncClient(addresses, **options)
