"""One connection: frames in flight, gathering, answers."""

from __future__ import annotations

import asyncio
import datetime
import struct
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from . import _wire as wire
from ._amount import unit_of
from ._deadline import LATE, Deadline
from ._verdict import VERDICTS, UnauthorisedError, Verdict, VersionError, WeirError, reason_name

if TYPE_CHECKING:
    from ._node import Node
    from ._settle import Job

WINDOW = 32
"""Frames of a connection that are in flight at most."""
RESOLVES_MAX = 8
"""Those of them that are confirms, settles and releases: asks take the others, and neither keeps the other waiting."""
QUEUE_MAX = 64
"""Frames of settlements that wait for their turn; those beyond try another time. Asks wait, however many, until their deadlines."""
FRAME_MAX = 16 << 20
"""Bounds what a node may make this library allocate."""
TURN = 0.001
"""Below this the loop's own timer is too coarse: what is gathered is sent at the loop's next turn."""

_VERSION_UNSUPPORTED, _UNAUTHORISED, _BUSY, _SHUTTING_DOWN, _JOURNAL = 8, 10, 11, 12, 13

Decision = tuple[bytes, int]


class Found(NamedTuple):
    """What a handle stands for on one node."""

    verdict: Verdict
    """GRANTED: the budget is there."""
    budget: int = 0
    """Its number there: another node may have another for a budget that it made of a template."""
    unit: str = ""
    """What it counts in."""


class Extended(NamedTuple):
    """What became of a later end. It is true where the hold has it."""

    verdict: Verdict
    """EXTENDED, or why not."""
    repeat: bool = False
    """The end was as late before."""
    deadline: datetime.datetime | None = None
    """When the hold ends; None unless extended."""

    def __bool__(self) -> bool:
        return self.verdict == Verdict.EXTENDED


def _at_ms(ms: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.timezone.utc) + datetime.timedelta(milliseconds=ms)


class Call:
    """A caller that waits for answers to its asks in one frame."""

    __slots__ = ("answers", "deadline", "future", "node", "retry")

    def __init__(self, future: asyncio.Future[Verdict | None], node: Node, deadline: Deadline, retry: bool = False) -> None:
        self.deadline = deadline
        self.future = future
        self.node = node
        self.retry = retry
        self.answers: list[Decision] = []

    def refuse(self, verdict: Verdict | None) -> None:
        """All of its asks got the same no; None stands for a frame that was broken."""
        if not self.future.done():
            self.future.set_result(verdict)

    def answer(self, answers: list[Decision]) -> bool:
        """Gives it its entries of an answer; false if it no longer waits."""
        if self.future.done():
            return False
        self.answers = answers
        self.future.set_result(Verdict.GRANTED)
        return True


class Flight:
    """One frame on its way."""

    __slots__ = ("entries", "extends", "flags", "given_up", "handle", "jobs", "lane", "lookups", "parts", "sent_at")

    def __init__(self, flags: int, handle: bytes = b"", extends: bytes = b"") -> None:
        # A question for the budget of a handle, or for a later end; such frames have neither parts nor jobs.
        self.handle = handle
        self.extends = extends
        self.lookups: set[asyncio.Future[Any]] = set()
        self.flags = flags
        self.entries = bytearray()
        # Asks: who waits for which entries, in order.
        self.parts: list[tuple[Call, int]] = []
        # Confirms, settles and releases, in the order of the entries; these frames have no parts.
        self.jobs: list[Job] = []
        self.sent_at = 0.0
        self.given_up = False
        self.lane: Lane

    def is_awaited(self) -> bool:
        """Whether anybody still waits for the answer to a frame of asks or to a question."""
        return any(not call.future.done() for call, _ in self.parts) or any(not future.done() for future in self.lookups)

    def found(self, found: Found | Extended) -> None:
        """Answers all who asked the question."""
        for future in self.lookups:
            if not future.done():
                future.set_result(found)

    def drop_abandoned(self) -> None:
        """Takes out the asks whose answers nobody waits for any more: what is late is not asked."""
        if all(not call.future.done() for call, _ in self.parts):
            return
        kept, entries, at = [], bytearray(), 0
        for call, count in self.parts:
            end = at + count * wire.ASK.size
            if not call.future.done():
                kept.append((call, count))
                entries += self.entries[at:end]
            at = end
        self.parts, self.entries = kept, entries


class Lane:
    """Frames of one kind: how many are in flight, and those that wait for room."""

    __slots__ = ("in_flight", "most", "queue", "sweep_at")

    def __init__(self, most: int) -> None:
        self.most = most
        self.in_flight = 0
        self.queue: deque[Flight] = deque()
        self.sweep_at = QUEUE_MAX

    def wait(self, flight: Flight) -> None:
        """Lets a frame wait for room. What nobody awaits any more is swept out: there are at most twice as many as callers that wait."""
        self.queue.append(flight)
        if len(self.queue) > self.sweep_at:
            self.queue = deque(flight for flight in self.queue if flight.jobs or flight.is_awaited())
            self.sweep_at = max(QUEUE_MAX, 2 * len(self.queue))


class Connection(asyncio.Protocol):
    """A connection of a node. It is of use once it has been welcomed."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.loop = node.client.loop
        self.welcomed: asyncio.Future[wire.Welcome] = self.loop.create_future()
        self.version = wire.VERSION_MIN
        self.batch_max = 1
        self.frame_max = 1 << 16
        self.opened_at = 0.0
        self.last_read = time.monotonic()
        self.lost = False
        self._transport: asyncio.Transport | None = None
        # Done when the socket is closed.
        self._gone: asyncio.Future[None] = self.loop.create_future()
        self._input = bytearray()
        self._number = 0
        self._flights: dict[int, Flight] = {}
        self._lanes = Lane(WINDOW - RESOLVES_MAX), Lane(RESOLVES_MAX)
        self._finding: dict[bytes, Flight] = {}
        self._asks: Flight | None = None
        self._resolves: Flight | None = None

    @property
    def load(self) -> int:
        """Frames in flight, and those that wait for room."""
        asks, resolves = self._lanes
        return asks.in_flight + len(asks.queue) + resolves.in_flight + len(resolves.queue)

    # --- what asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No check of its class: those of other event loops, such as uvloop's, need not be derived from asyncio's.
        self._transport = cast(asyncio.Transport, transport)
        # Frames go to the socket at once: uvloop keeps them for the end of its turn otherwise, which may be long.
        self._transport.set_write_buffer_limits(0)
        self.node.open_sockets.add(self._gone)
        self._gone.add_done_callback(self.node.open_sockets.discard)
        o = self.node.client.options
        self._transport.write(
            wire.hello(wire.VERSION_MIN, wire.VERSION_MAX, o.client_id, o.auth.encode(), o.name.encode(), wire.VERSION_MIN)
        )

    def data_received(self, data: bytes) -> None:
        self.last_read = time.monotonic()
        source: bytes | bytearray
        if self._input:
            self._input += data
            source = self._input
        else:
            source = data
        at = 0
        try:
            while (length := wire.frame_length(source, at, self.frame_max)) and len(source) - at >= length:
                self._take(bytes(source[at : at + length]))
                at += length
        except (WeirError, struct.error) as error:
            self.lose(error)
            return
        if source is data:
            self._input = bytearray(data[at:])
        else:
            del self._input[:at]

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set_result(None)
        self.lose(exc, in_order=exc is None and not self._input)

    # --- answers ---

    def _take(self, frame: bytes) -> None:
        message = wire.parse(frame)
        if message is None:
            return
        if message.template == wire.WELCOME:
            self._welcome(wire.welcome(message))
        elif message.template == wire.REFUSED:
            self._refused(message)
        elif message.template == wire.DECIDED:
            answers = wire.entries(message, wire.DECISION)
            self._decided(self._land(message.number), list(answers))  # type: ignore[arg-type]
        elif message.template == wire.RESOLVED:
            resolutions = wire.entries(message, wire.RESOLUTION)
            self._resolved(self._land(message.number), list(resolutions))  # type: ignore[arg-type]
        elif message.template == wire.FOUND:
            flight = self._land(message.number)
            code, budget, unit = wire.found(message)
            if flight is not None:
                flight.found(Found(VERDICTS[code], budget, unit_of(unit)))
        elif message.template == wire.EXTENDED:
            ends = list(wire.entries(message, wire.EXTENSION))
            flight = self._land(message.number)
            if flight is not None and ends:
                code, flags, end = ends[0]
                verdict = VERDICTS[code]
                flight.found(Extended(verdict, bool(flags & wire.REPEAT), _at_ms(end) if verdict == Verdict.EXTENDED else None))

    def _welcome(self, welcome: wire.Welcome) -> None:
        if self.welcomed.done():
            return
        if not wire.VERSION_MIN <= welcome.version <= wire.VERSION_MAX:
            self.welcomed.set_exception(
                VersionError(f"version {welcome.version} found, {wire.VERSION_MIN} to {wire.VERSION_MAX} expected")
            )
            return
        self.version = welcome.version
        most = self.node.client.options.batch_max or welcome.batch_max
        self.batch_max = max(1, min(most, welcome.batch_max, (welcome.frame_max - 32) // wire.RESOLVING.size))
        self.frame_max = min(max(welcome.frame_max, 1 << 16), FRAME_MAX)
        self.opened_at = time.monotonic()
        self.welcomed.set_result(welcome)

    def _land(self, number: int) -> Flight | None:
        """Takes a frame out of flight; None if there is none of this number, as after an answer that came twice."""
        flight = self._flights.pop(number, None)
        if flight is not None:
            lane = flight.lane
            lane.in_flight -= 1
            while lane.queue and lane.in_flight < lane.most:
                self._place(lane.queue.popleft())
        return flight

    def _decided(self, flight: Flight | None, answers: list[Decision]) -> None:
        if flight is None or not flight.parts:
            return
        client = self.node.client
        at = 0
        for call, count in flight.parts:
            mine = answers[at : at + count]
            at += count
            if not call.answer(mine):
                for token, verdict in mine:
                    if verdict == Verdict.GRANTED and not (call.retry and any(token == known for known, _ in call.answers)):
                        client.release_late(self.node, token)
            if any(verdict == Verdict.CUT_OFF for _, verdict in mine):
                self.node.put_last()
        if at != len(answers):
            client.log.warning("%s: %d answers to a frame of %d asks", self.node.address, len(answers), at)

    def _resolved(self, flight: Flight | None, answers: list[tuple[int, int]]) -> None:
        if flight is None:
            return
        if len(answers) != len(flight.jobs):
            self.node.client.log.warning("%s: %d answers to %d settlements", self.node.address, len(answers), len(flight.jobs))
        for at, job in enumerate(flight.jobs):
            code, flags = answers[at] if at < len(answers) else (Verdict.BUSY, 0)
            if flight.given_up and not job.is_final(VERDICTS[code]):
                continue  # it is under way elsewhere
            job.answered(self.node, VERDICTS[code], bool(flags & wire.REPEAT))

    def _refused(self, message: wire.Message) -> None:
        code, detail = wire.refusal(message)
        what = f"{reason_name(code)}: {detail[:200]}"
        flight = self._land(message.number)
        if not self.welcomed.done() or message.number == 0:
            kinds = {_UNAUTHORISED: UnauthorisedError, _VERSION_UNSUPPORTED: VersionError}
            error = kinds.get(code, wire.ProtocolError)(f"the node refused the connection: {what}")
            if not self.welcomed.done():
                self.welcomed.set_exception(error)
            self.lose(error)
            return
        if flight is None:
            return
        verdict: Verdict | None = {_BUSY: Verdict.BUSY, _JOURNAL: Verdict.JOURNAL}.get(code, Verdict.UNREACHABLE)
        if code == _SHUTTING_DOWN:
            self.node.put_last()
        elif verdict == Verdict.UNREACHABLE:
            self.node.client.log.warning("%s: a frame was refused: %s", self.node.address, what)
            verdict = None if code < _VERSION_UNSUPPORTED else verdict
        if verdict == Verdict.BUSY and flight.parts and all(call.retry and not call.future.done() for call, _ in flight.parts):
            self.loop.call_later(0.0025, self._send, flight)
            return
        self._fail([flight], verdict)

    # --- frames ---

    def ask(self, call: Call, flags: int, entries: bytes, count: int) -> None:
        """Sends asks, which are packed already, as a frame of their own."""
        flight = Flight(flags)
        flight.entries += entries
        flight.parts.append((call, count))
        self._send(flight)

    def gather_ask(self, call: Call, flags: int, entry: bytes) -> None:
        """Adds one ask to the frame that is being gathered."""
        flight = self._asks
        if flight is None:
            flight = self._asks = Flight(flags)
            flight.sent_at = time.monotonic()  # for as long as it gathers, since when it does
            self._later(self._flush_asks, flight, self.node.client.options.linger)
        flight.entries += entry
        flight.parts.append((call, 1))
        if len(flight.parts) >= self.batch_max or not self.node.client.options.linger:
            self._flush_asks(flight)

    def find(self, handle: bytes) -> asyncio.Future[Found]:
        """Asks which budget a handle stands for: once for all callers that wait for the same handle."""
        future: asyncio.Future[Found] = self.loop.create_future()
        known = self._finding.get(handle)
        flight = known if known is not None and known.is_awaited() else Flight(0, handle)
        flight.lookups.add(future)
        future.add_done_callback(partial(self._found, flight))
        if flight is not known:
            self._finding[handle] = flight
            self._send(flight)
        return future

    def extend(self, token: bytes, confirm_ms: int) -> asyncio.Future[Any]:
        """Asks for a later end of a hold: an Extended, or Found with the verdict where there was no answer."""
        future: asyncio.Future[Any] = self.loop.create_future()
        flight = Flight(0, extends=wire.EXTENDING.pack(token, confirm_ms))
        flight.lookups.add(future)
        self._send(flight)
        return future

    def _found(self, flight: Flight, future: asyncio.Future[Found]) -> None:
        flight.lookups.discard(future)
        if not flight.lookups and self._finding.get(flight.handle) is flight:
            del self._finding[flight.handle]

    def gather_job(self, job: Job, entry: bytes) -> None:
        """Adds a confirm, settle or release to the frame that is being gathered."""
        flight = self._resolves
        if flight is None:
            flight = self._resolves = Flight(0)
            self._later(self._flush_resolves, flight, min(self.node.client.options.linger, TURN / 2))
        flight.entries += entry
        flight.jobs.append(job)
        if len(flight.jobs) >= self.batch_max or not self.node.client.options.linger:
            self._flush_resolves(flight)

    def _later(self, flush: Any, flight: Flight, linger: float) -> None:
        if linger >= TURN:
            self.loop.call_later(linger, flush, flight)
        elif linger > 0:
            self.loop.call_soon(flush, flight)

    def _flush_asks(self, flight: Flight) -> None:
        if self._asks is flight:
            self._asks = None
            now = time.monotonic()
            lost = now - flight.sent_at - self.node.client.options.linger
            if lost > LATE:
                for call, _ in flight.parts:
                    call.deadline.lose(lost, now)
            self._send(flight)

    def _flush_resolves(self, flight: Flight) -> None:
        if self._resolves is flight:
            self._resolves = None
            self._send(flight)

    def _send(self, flight: Flight) -> None:
        lane = flight.lane = self._lanes[bool(flight.jobs)]
        if self.lost:
            self._fail([flight], Verdict.UNREACHABLE)
        elif lane.in_flight < lane.most and not lane.queue:
            self._place(flight)
        elif flight.jobs and len(lane.queue) >= QUEUE_MAX:
            self._fail([flight], Verdict.BUSY)
        else:
            lane.wait(flight)

    def _place(self, flight: Flight) -> None:
        if not flight.jobs:
            flight.drop_abandoned()
            if not flight.parts and not flight.is_awaited():
                return
        flight.lane.in_flight += 1
        self._number += 1
        flight.sent_at = time.monotonic()
        self._flights[self._number] = flight
        assert self._transport is not None
        if flight.handle:
            self._transport.write(wire.find(self._number, flight.handle, self.version))
        elif flight.extends:
            self._transport.write(wire.extend(self._number, flight.extends, self.version))
        elif flight.jobs:
            self._transport.write(wire.resolve(self._number, bytes(flight.entries), self.version))
        else:
            self._transport.write(wire.decide(self._number, flight.flags, bytes(flight.entries), self.version))

    # --- endings ---

    def _fail(self, flights: list[Flight], verdict: Verdict | None) -> None:
        for flight in flights:
            for call, _ in flight.parts:
                call.refuse(verdict)
            flight.found(Found(Verdict.UNREACHABLE if verdict is None else verdict))
            if not flight.given_up:
                for job in flight.jobs:
                    job.again(self.node)

    def lose(self, cause: BaseException | None, in_order: bool = False) -> None:
        """Ends the connection, once: whatever is in flight on it is told."""
        if self.lost:
            return
        self.lost = True
        if self._transport is not None:
            self._transport.abort()
        if not self.welcomed.done():
            self.welcomed.set_exception(cause or ConnectionResetError("the node closed the connection before it welcomed"))
        flights = list(self._flights.values())
        # An idle connection that the node ends in order is no fault of the node.
        if flights or not in_order:
            self.node.put_last()
        for lane in self._lanes:
            flights += lane.queue
            lane.queue.clear()
        flights += [flight for flight in (self._asks, self._resolves) if flight is not None]
        self._flights, self._asks, self._resolves = {}, None, None
        self.node.forget(self, cause)
        self._fail(flights, Verdict.UNREACHABLE)

    def abort(self) -> None:
        """Ends a connection that nobody uses yet."""
        if self.welcomed.done() and not self.welcomed.cancelled():
            self.welcomed.exception()  # it was heard of
        if self._transport is not None:
            self._transport.abort()

    def watch(self, now: float, patience: float) -> None:
        """Settlements whose answers take too long go elsewhere; a connection on which nothing comes at all is given up."""
        stuck = False
        for flight in list(self._flights.values()):
            age = now - flight.sent_at
            if age <= patience:
                continue
            stuck = stuck or now - self.last_read > patience or age > 4 * patience
            if flight.jobs and not flight.given_up:
                flight.given_up = True
                for job in flight.jobs:
                    job.again(self.node)
        if stuck:
            self.lose(TimeoutError("no answer came in time"))
