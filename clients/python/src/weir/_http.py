"""A node's JSON door: connections of HTTP/1.1, one request at a time on each."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import time
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

from ._deadline import Deadline
from ._node import DIAL_TIMEOUT, LAST_FOR
from ._verdict import VersionError

CONNECTIONS_MAX = 64
"""Open connections to a node at most; more calls wait for one of them."""
ANSWER_MAX = 16 << 20
"""The longest answer that is read, in bytes."""

_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]{1,9})\r", re.IGNORECASE)
_encode = json.JSONEncoder(separators=(",", ":")).encode
_RETRY = re.compile(rb"\r\nretry-after: *([0-9]{1,9})\r", re.IGNORECASE)
_LAST = re.compile(rb"\r\nconnection: *close\r", re.IGNORECASE)
_END = b"\r\n\r\n"


class Answer(NamedTuple):
    """What a node said to a call."""

    status: int
    body: Any
    """The JSON value; None where the body is no JSON."""
    retry_after: float | None
    """The header, in seconds."""


class Exchange(asyncio.Protocol):
    """A connection."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport
        self.usable = True
        """Whether another request may be sent: it is open, and nobody left an answer unread."""
        self._future: asyncio.Future[Answer | None] | None = None
        self._read = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionResetError("the node closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._read += data
        future = self._future
        if future is None or future.done():
            return self._fail(ConnectionResetError("an answer came that nobody asked for"))
        head = self._read.find(_END)
        if head < 0:
            if len(self._read) > ANSWER_MAX:
                self._fail(VersionError("the head of an answer has no end: no node is there"))
            return
        lines = bytes(self._read[: head + 2])
        length = _LENGTH.search(lines)
        if not lines.startswith(b"HTTP/1.") or not lines[9:12].isdigit() or length is None:
            return self._fail(VersionError(f"{lines[:32]!r} is no answer of a JSON door"))
        whole = head + len(_END) + int(length[1])
        if whole > ANSWER_MAX:
            self._fail(VersionError(f"an answer of {whole} bytes: at most {ANSWER_MAX} are read"))
        elif len(self._read) >= whole:
            after = _RETRY.search(lines)
            future.set_result(
                Answer(int(lines[9:12]), _value(self._read[head + len(_END) : whole]), float(after[1]) if after else None)
            )
            del self._read[:whole]
            self._future = None
            if _LAST.search(lines) or self._read:
                self.shut()

    def _fail(self, error: Exception) -> None:
        self.usable = False
        if self._future is not None and not self._future.done():
            self._future.set_exception(error)
        self.transport.abort()

    async def ask(self, request: bytes, deadline: Deadline) -> Answer:
        """Sends a request and waits for its answer; Late after the deadline, and then the connection is of no more use."""
        self._future = future = asyncio.get_running_loop().create_future()
        timer = deadline.end(future, None)
        self.transport.write(request)
        try:
            answer: Answer | None = await future
        finally:
            timer.cancel()
            if self._future is future:
                self.shut()
        if answer is None:
            raise Late("the node did not answer in time")
        return answer

    def shut(self) -> None:
        """Closes the connection."""
        self.usable = False
        self.transport.abort()


class HttpNode:
    """The address of a JSON door, such as ``http://127.0.0.1:7704``."""

    def __init__(self, index: int, url: str, token: str, tls: ssl.SSLContext | None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
            raise ValueError(f"address {url!r}: expected http or https, a host and a port, such as 'http://127.0.0.1:7704'")
        self.index, self.address = index, url
        self.host, self.port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
        self.refusal: Exception | None = None
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        auth = f"Authorization: Bearer {token}\r\n" if token else ""
        if "\n" in auth or "\r" in token:
            raise ValueError("the token has an end of line in it")
        host = f"[{self.host}]" if ":" in self.host else self.host
        self._head = f" HTTP/1.1\r\nHost: {host}:{self.port}\r\n{auth}".encode()
        self._idle: list[Exchange] = []
        self._open: set[Exchange] = set()
        self._room = asyncio.Semaphore(CONNECTIONS_MAX)
        self._last_until = 0.0

    def is_last(self, now: float) -> bool:
        """Whether it went wrong within the last second."""
        return now < self._last_until

    def put_last(self) -> None:
        """It goes to the end of the list for a second."""
        self._last_until = time.monotonic() + LAST_FOR

    async def call(self, path: str, body: Any, deadline: Deadline, key: str = "") -> Answer:
        """Posts a body, or gets the path where that is None. An OSError where there is no answer: Unsent, Late, or a lost connection."""
        text = b"" if body is None else _encode(body).encode()
        keyed = f"Idempotency-Key: {key}\r\n" if key else ""
        kind = "GET " if body is None else "POST "
        typed = "" if body is None else f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        request = b"".join((kind.encode(), path.encode(), self._head, keyed.encode(), typed.encode(), b"\r\n", text))
        async with self._room:
            exchange = await self._exchange(deadline)
            self._open.add(exchange)
            try:
                return await exchange.ask(request, deadline)
            finally:
                if exchange.usable:
                    self._idle.append(exchange)
                else:
                    self._open.discard(exchange)

    async def _exchange(self, deadline: Deadline) -> Exchange:
        while self._idle:
            exchange = self._idle.pop()
            if exchange.usable:
                return exchange
            self._open.discard(exchange)
        try:
            dial = asyncio.get_running_loop().create_connection(Exchange, self.host, self.port, ssl=self._tls)
            return (await asyncio.wait_for(dial, min(deadline.left(), DIAL_TIMEOUT)))[1]
        except (OSError, asyncio.TimeoutError) as error:
            self.put_last()
            raise Unsent(f"{self.address} cannot be reached: {error or 'no answer in time'}") from error

    def shut(self) -> None:
        """Closes its connections."""
        for exchange in self._open:
            exchange.shut()
        self._open.clear()
        self._idle.clear()


class Unsent(ConnectionError):
    """The node never got the request."""


class Late(ConnectionError):
    """The answer was not there at the deadline."""


def _value(text: bytearray) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
