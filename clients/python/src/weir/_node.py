"""One node's address, and the connections to it."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from ._connection import WINDOW, Connection, Found
from ._deadline import Deadline
from ._verdict import UnauthorisedError, VersionError, WeirError, WrongDoorError

if TYPE_CHECKING:
    from ._client import Client

DIAL_TIMEOUT = 5.0
LAST_FOR = 1.0
"""How long a node that went wrong stays behind the others, in seconds."""
BACKOFF_MIN = 0.010
BACKOFF_MAX = 5.0


def backoff(tries: int) -> float:
    """How long to wait before the try after so many, in seconds: doubling, with jitter, so that many clients do not come at once."""
    whole = min(BACKOFF_MAX, BACKOFF_MIN * (1 << min(max(tries - 1, 0), 20)))
    return whole * (0.5 + random.random() / 2)


class Node:
    """An address."""

    def __init__(self, client: Client, index: int, address: str) -> None:
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise ValueError(f"address {address!r}: expected a host and a port, such as '127.0.0.1:7700'")
        self.client = client
        self.index = index
        self.address = address
        self.host, self.port = host.strip("[]"), int(port)
        self.connections: list[Connection] = []
        self.open_sockets: set[asyncio.Future[None]] = set()
        """Of connections in whatever state: each is done when its socket is closed."""
        self.found: dict[str, Found] = {}
        """What handles stand for here."""
        self.refusal: Exception | None = None
        """Why this client may not use the node, if that is why it cannot be reached."""
        self._last_until = 0.0
        self._filling: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._failures = 0
        self._failed_at = 0.0
        self._retry: asyncio.TimerHandle | None = None
        self._shut = False

    def is_last(self, now: float) -> bool:
        """Whether it went wrong within the last second."""
        return now < self._last_until

    def put_last(self) -> None:
        """It goes to the end of the list for a second."""
        self._last_until = time.monotonic() + LAST_FOR

    def pick(self) -> Connection | None:
        """The first connection that has room, else the one with the most."""
        best = None
        for connection in self.connections:
            if connection.load < WINDOW // 4:
                return connection
            if best is None or connection.load < best.load:
                best = connection
        return best

    async def wait_open(self, deadline: Deadline) -> bool:
        """Waits until a connection is open; false if it cannot be, or not in time."""
        self.open()
        changed = self._changed
        while not changed.is_set() and (left := deadline.left()):
            try:
                await asyncio.wait_for(changed.wait(), left)
            except asyncio.TimeoutError:
                pass
        return bool(self.connections)

    def open(self, at_once: bool = False) -> None:
        """Begins to open connections, unless that is under way or was tried a moment ago."""
        if self._shut or self._filling is not None:
            return
        wait = 0.0 if at_once else self._failed_at + BACKOFF_MIN - time.monotonic()
        self._filling = self.client.loop.create_task(self._fill(wait))

    async def _fill(self, wait: float) -> None:
        """Opens connections until the pool is full; the first one tells those who wait."""
        try:
            if wait > 0:
                await asyncio.sleep(wait)
            while len(self.connections) < self.client.options.connections and not self._shut:
                connection = await self._connect()
                if self._shut:
                    # It was opened while the client was being closed.
                    connection.lose(None, in_order=True)
                if not connection.lost:
                    self.connections.append(connection)
                    self.refusal = None
                self._announce()
        except (OSError, asyncio.TimeoutError, WeirError) as error:
            if isinstance(error, (UnauthorisedError, VersionError, WrongDoorError)):
                self.refusal = type(error)(f"{self.address}: {error}")
            self._failures += 1
            self._failed_at = time.monotonic()
            self.put_last()
            self._retry_later()
        finally:
            self._filling = None
            self._announce()

    async def _connect(self) -> Connection:
        connection = Connection(self)
        tls = self.client.options.tls
        try:
            await asyncio.wait_for(
                self.client.loop.create_connection(lambda: connection, self.host, self.port, ssl=tls), DIAL_TIMEOUT
            )
            await asyncio.wait_for(connection.welcomed, DIAL_TIMEOUT)
        except BaseException:
            connection.lost = True
            connection.abort()
            raise
        return connection

    def _announce(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _retry_later(self) -> None:
        """Tries again by itself, so that a node that comes back is found."""
        if self._shut or self._retry is not None:
            return

        def again() -> None:
            self._retry = None
            if len(self.connections) < self.client.options.connections:
                self.open(at_once=True)

        self._retry = self.client.loop.call_later(backoff(self._failures), again)

    def forget(self, lost: Connection, cause: BaseException | None) -> None:
        """Takes a lost connection out of the pool, and opens another."""
        if lost not in self.connections:
            return
        self.connections.remove(lost)
        # A connection that does not last is no better than one that cannot be opened.
        self._failures = self._failures + 1 if time.monotonic() - lost.opened_at < LAST_FOR else 0
        if cause is not None:
            self.client.log.debug("%s: connection lost: %s", self.address, cause)
        self._retry_later()

    async def gone(self) -> None:
        """Waits until all sockets are closed, after ``shut``."""
        if self._filling is not None:
            await asyncio.wait([self._filling], timeout=1)
        if self.open_sockets:
            await asyncio.wait(self.open_sockets, timeout=1)

    def shut(self) -> None:
        """Ends all connections."""
        self._shut = True
        if self._retry is not None:
            self._retry.cancel()
        if self._filling is not None:
            self._filling.cancel()
        for connection in list(self.connections):
            connection.lose(None, in_order=True)
