"""The asyncio client."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import logging
import os
import random
import ssl
import struct
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _wire as wire
from ._amount import AMOUNT_MAX, Amount, base_units, unit_code
from ._connection import WINDOW, Call, Connection, Extended, Found
from ._deadline import Deadline
from ._hold import Hold, Refused
from ._node import Node, backoff
from ._settle import JOBS_MAX, Job, Outcome
from ._spool import Entry, Spool
from ._verdict import (
    UNANSWERED, VERDICTS, AmountError, BusyError, ClosedError, FrameRefusedError, TooLargeError, Verdict, WeirError,
)  # fmt: skip

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

NODES_MAX = 64
TIMEOUT = 0.020
"""How long an ask waits for its answer by default, in seconds: a bidder's time."""
CONFIRM_TIMEOUT = 1.0
"""The same where the hold is confirmed at once: the work is long, and can wait for its money."""
HANDLE_MAX = 128
FOUND_MAX = 1 << 16
"""Handles of a node that are remembered; then all are forgotten."""
NOBODY = 2**64 - 1
"""The number of no budget: configured ones are below 2^62, and those made of templates are counted from there."""
UNIT_MISMATCH = int(Verdict.UNIT_MISMATCH)
REPEAT_AFTER = 0.25
"""How long an ask with ``retry`` waits at most before it is repeated, in seconds."""


class Event(NamedTuple):
    """What a hook hears: once for every ask and settlement that is over."""

    what: str
    """``reserve``, ``confirm``, ``extend``, ``settle`` or ``release``."""
    verdict: Verdict
    took: float
    """Seconds, with all repetitions."""


@dataclass(frozen=True)
class Options:
    """What ``connect`` takes; times are seconds."""

    auth: str = ""
    name: str = "weir-python"
    client_id: int = 0
    tls: ssl.SSLContext | None = None
    timeout: float | None = None
    linger: float = 0.000_050
    batch_max: int = 0
    connections: int = 2
    answer_wait: float = 10.0
    spool: str | None = None
    wait: bool = True
    hook: Callable[[Event], None] | None = None


@dataclass(slots=True)
class Ask:
    """A request to reserve an amount of a budget."""

    budget: int | str
    """The budget's number, or its handle, such as ``"team-42/gpt-5"``."""
    amount: Amount | str | Decimal | int
    """The most that may be spent: it is what is reserved."""
    unit: str | None = None
    """The unit of the amount; not needed where that is an ``Amount``."""
    user: int = 0
    """Whom it is for, in plans that look at users."""
    request_id: int = 0
    """The name of the request in the books; 0 lets the library draw one."""
    pod: int = 0
    """Neighbours with the same number, which is not 0, are granted all or none."""


class Client:
    """Asks one or more nodes. Made by ``weir.connect``; belongs to the event loop in which it was opened."""

    def __init__(self, addresses: str | Sequence[str], options: Options, log: logging.Logger) -> None:
        names = addresses.split(",") if isinstance(addresses, str) else addresses
        self.options = options
        self.log = log
        named = [name.strip() for name in names if name.strip()]
        if not 1 <= len(named) <= NODES_MAX:
            raise ValueError(f"{len(named)} addresses found, expected 1 to {NODES_MAX} such as '127.0.0.1:7700'")
        self.nodes = self._nodes(named)
        no_time = options.timeout is not None and options.timeout <= 0
        if options.connections < 1 or no_time or options.linger < 0 or options.batch_max < 0 or options.answer_wait <= 0:
            raise ValueError(f"options {options}: expected positive times, and one connection at least")
        self.is_shut = False
        self.waiting: set[asyncio.Future[Outcome]] = set()
        self.loop: asyncio.AbstractEventLoop
        self._ids = random.getrandbits(63)
        self._pending = 0
        self._closing = False
        self._idle: asyncio.Future[None] | None = None
        self._spool: Spool | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._flags = wire.AWAIT_FILL if options.wait else 0
        self._tasks: set[asyncio.Task[Any]] = set()

    def _nodes(self, names: list[str]) -> list[Node]:
        return [Node(self, at, name) for at, name in enumerate(names)]

    # --- opening and closing ---

    async def __aenter__(self) -> Client:
        await self.open()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    async def open(self) -> Client:
        """Opens the client. It returns when a node has answered; where none can be reached it logs that and returns too.

        Raises UnauthorisedError or VersionError where the node wants another token or version, WrongDoorError where something speaks
        HTTP at its address, SpoolError for the spool.
        """
        self.loop = asyncio.get_running_loop()
        connection, verdict = await self._route(Deadline(5.0))
        if connection is None:
            for node in self.nodes:
                if node.refusal is not None:
                    await self._end()
                    raise node.refusal
            # A program may start while its nodes are down: they are used when they are there.
            self.log.warning("no node answers yet (%s): %s", verdict, ", ".join(node.address for node in self.nodes))
        if self.options.spool is not None:
            try:
                self._spool = Spool(self.options.spool, self.log)
            except WeirError:
                await self._end()
                raise
            for entry in self._spool.left:
                self._start(entry, None, spooled=True)
        self._look_after()
        return self

    async def close(self, timeout: float = 5.0) -> int:
        """Ends the client, after what is to be confirmed, settled and released is answered, or the timeout in seconds.

        Returns how many were not answered: they are lost unless there is a spool.
        """
        await asyncio.sleep(0)  # what was dropped a moment ago is released
        self._closing = True
        if self._pending and not self.is_shut:
            self._idle = self.loop.create_future()
            await asyncio.wait([self._idle], timeout=timeout)
        left = self._pending
        if left and not self.is_shut:
            self.log.warning("%d settlements were not answered when the client was closed", left)
        await self._end()
        return left

    async def _end(self) -> None:
        self._shut()
        for node in self.nodes:
            await node.gone()

    def begin_task(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs work until it is done or the client ends."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _shut(self) -> None:
        if self.is_shut:
            return
        self.is_shut = self._closing = True
        if self._watch is not None:
            self._watch.cancel()
        for task in self._tasks:
            task.cancel()
        for node in self.nodes:
            node.shut()
        if self._spool is not None:
            self._spool.close()
        for future in list(self.waiting):
            if not future.done():
                future.set_result(Outcome(Verdict.PENDING))

    def _look_after(self) -> None:
        """Looks at the connections from time to time."""
        now = time.monotonic()
        for node in self.nodes:
            for connection in list(node.connections):
                connection.watch(now, self.options.answer_wait)
        every = min(1.0, max(self.options.answer_wait / 4, 0.001))
        self._watch = self.loop.call_later(every, self._look_after)

    # --- nodes ---

    def choose(self, without: set[int], favourite: Node | None = None) -> Node | None:
        """The node to ask now, of those that are not left out.

        One that works before one that went wrong within the last second, one with a connection before one without, the favourite
        before others, then in the order of ``connect``.
        """
        now = time.monotonic()
        nodes = [node for node in self.nodes if node.index not in without]
        return min(nodes, key=lambda node: (node.is_last(now), not node.connections, node is not favourite), default=None)

    async def _route(self, deadline: Deadline) -> tuple[Connection | None, Verdict]:
        """A connection for an ask, after the one that is being opened for it; without one the verdict says why."""
        first = self.nodes[0]
        if first.connections and not first.is_last(time.monotonic()):
            return first.pick(), Verdict.GRANTED
        tried: set[int] = set()
        while (node := self.choose(tried)) is not None:
            connection = node.pick()
            if connection is not None:
                return connection, Verdict.GRANTED
            if not await node.wait_open(deadline):
                tried.add(node.index)
            if not deadline.left():
                return None, Verdict.TIMEOUT
        return None, Verdict.UNREACHABLE

    # --- asking ---

    async def reserve(
        self, budget: int | str, amount: Amount | str | Decimal | int, unit: str | None = None, *, user: int = 0, request_id: int = 0,
        timeout: float | None = None, retry: bool = False, confirm: bool = False, confirm_ms: int | None = None, renew: bool = False,
    ) -> Hold | Refused:  # fmt: skip
        """Asks for an amount: a Hold, or a Refused with the verdict, which is false.

        After the timeout (seconds; 20 ms by default) the verdict is TIMEOUT, and a grant that comes later is released by the library.
        With ``confirm`` the hold is confirmed at once, for work of unknown length: it lives for an hour and not for seconds. The timeout
        covers the confirm, too, and is 1 s by default; a hold that is not confirmed by then is released.
        ``confirm_ms``: confirmed, and ended after so long, where the client is gone by then; with ``renew`` the client moves that end on
        until the hold is settled or released. A node that is too old for that confirms alone.
        Nothing is asked twice; with ``retry`` the ask is repeated on its connection, under the same request id, while no answer comes.
        Asks that are made at the same time share a frame. The budget is a number or a handle: the library asks each node once for a
        handle's number. A float is a TypeError, a text that is no amount an AmountError.
        """
        began = time.perf_counter()
        confirm |= confirm_ms is not None
        deadline = self._deadline(timeout, confirm)
        exact = _amount(amount, unit)
        _check(exact.base)
        answer = await self._reserve(budget, exact, user, request_id, deadline, retry)
        if isinstance(budget, str) and answer.verdict == Verdict.UNKNOWN_BUDGET and await self._stands_for_another(budget, deadline):
            answer = await self._reserve(budget, exact, user, request_id, deadline, retry)
        self._observe("reserve", answer.verdict, began)
        if answer and confirm:
            answer = await self._confirmed(answer, deadline, confirm_ms)
        self._renewed(answer, confirm_ms if renew else None)
        return answer

    def _deadline(self, timeout: float | None, confirm: bool = False) -> Deadline:
        """When an ask is late that is made now: what the caller says, else what the options say, else the default."""
        given = self.options.timeout if timeout is None else timeout
        default = CONFIRM_TIMEOUT if confirm else TIMEOUT
        return Deadline(default if given is None else given)

    async def _confirmed(self, hold: Hold, deadline: Deadline, confirm_ms: int | None) -> Hold | Refused:
        """Confirms a hold that was just granted; one that cannot be confirmed in time is released."""
        verdict = Verdict.PENDING
        try:
            if confirm_ms is not None:
                with contextlib.suppress(WeirError):
                    verdict = (await self.extend(hold, confirm_ms, timeout=deadline.left())).verdict
                if verdict == Verdict.EXTENDED:
                    verdict = Verdict.CONFIRMED
                    return hold
                if verdict != Verdict.UNSUPPORTED:
                    return Refused(Verdict.TIMEOUT if verdict == Verdict.PENDING else verdict)
                verdict = Verdict.PENDING
            job = self.begin(wire.CONFIRM, hold, 0)
            while verdict == Verdict.PENDING and not self.is_shut and (left := deadline.left()):
                verdict = (await job.wait(left)).verdict
        finally:
            if verdict != Verdict.CONFIRMED:
                hold.release_soon()
        if verdict == Verdict.CONFIRMED:
            return hold
        return Refused(Verdict.TIMEOUT if verdict == Verdict.PENDING else verdict)

    async def _reserve(
        self, budget: int | str, exact: Amount, user: int, request_id: int, deadline: Deadline, retry: bool
    ) -> Hold | Refused:
        connection, verdict = await self._route_open(deadline)
        if connection is None:
            return Refused(verdict)
        name = budget
        if isinstance(budget, str):
            found = await self._find(connection, budget, deadline)
            if found.verdict != Verdict.GRANTED:
                return Refused(found.verdict)
            budget = found.budget
        try:
            request_id = request_id or self._next_id()
            entry = wire.ASK.pack(request_id, budget, exact.base, user, unit_code(exact.unit), 0)
        except struct.error as error:
            raise _not_an_ask(error) from None
        call = Call(self.loop.create_future(), connection.node, deadline, retry)
        if retry:
            connection.ask(call, self._flags | wire.REMEMBER, entry, 1)
            self._repeat(call, connection, entry, deadline)
        else:
            connection.gather_ask(call, self._flags, entry)
        verdict = await self._answer(call, deadline)
        if verdict != Verdict.GRANTED:
            return Refused(verdict)
        if not call.answers:
            return Refused(Verdict.UNREACHABLE)
        token, code = call.answers[0]
        if code == UNIT_MISMATCH:
            return _mismatch(exact, connection.node, name)
        return Refused(VERDICTS[code]) if code else Hold(self, connection.node, token, exact, request_id)

    async def extend(self, hold: Hold, confirm_ms: int, *, timeout: float | None = None) -> Extended:
        """See ``Hold.extend``."""
        if not 0 < confirm_ms < 2**32:
            raise ValueError(f"confirm_ms of {confirm_ms}: expected 1000 to the node's billing time, in milliseconds")
        began, deadline, tries = time.perf_counter(), self._deadline(timeout, True), 0
        foreign: set[int] = set()
        self._check_loop()
        while not self._closing:
            extended = await self._extend(hold, confirm_ms, deadline, foreign)
            if extended is not None:
                self._observe("extend", extended.verdict, began)
                return extended
            tries += 1
            if not deadline.left():
                raise WeirError("the hold may not be extended: no answer in time")
            await asyncio.sleep(min(backoff(tries), deadline.left()))
        raise ClosedError("the client was closed")

    async def _extend(self, hold: Hold, confirm_ms: int, deadline: Deadline, foreign: set[int]) -> Extended | None:
        """Asks a node for a later end, but those where the token is foreign; None: to be repeated."""
        node = self.choose(foreign, hold._node)
        connection = node.pick() if node is not None else None
        if node is None or connection is None:
            if node is not None:
                node.open()
            return None
        if connection.version < wire.EXTEND_VERSION:
            return Extended(Verdict.UNSUPPORTED)
        future = connection.extend(hold.token_bytes, confirm_ms)
        timer = Deadline(min(deadline.left(), self.options.answer_wait)).end(future, Extended(Verdict.TIMEOUT))
        try:
            said = await future
        finally:
            timer.cancel()
        if said.verdict == Verdict.CUT_OFF:
            node.put_last()
        if said.verdict == Verdict.FOREIGN and node is not hold._node:
            foreign.add(node.index)
            return said if len(foreign) == len(self.nodes) else None
        return said if isinstance(said, Extended) and said.verdict not in UNANSWERED else None

    def _renewed(self, hold: Hold | Refused, confirm_ms: int | None) -> None:
        """Begins to move the end of a hold on, if it is one."""
        if confirm_ms is not None and isinstance(hold, Hold):
            self.begin_task(self._renew(weakref.ref(hold), confirm_ms))

    async def _renew(self, of: weakref.ref[Hold], confirm_ms: int) -> None:
        """Moves the end of a hold on, three times as often as it has to, while somebody has the hold."""
        while True:
            await asyncio.sleep(confirm_ms / 3000)
            hold = of()
            if hold is None or hold._end is not None or not hold._owned or self._closing:
                return
            try:
                extended = await self.extend(hold, confirm_ms, timeout=confirm_ms / 3000)
                if extended.verdict == Verdict.UNSUPPORTED:
                    return  # it has the node's own time
                if not extended:
                    self.log.warning("hold %s is not renewed: it is over", hold.amount)
                    return
            except WeirError as error:
                self.log.warning("hold %s was not renewed yet: %s", hold.amount, error)
            del hold

    def hold(
        self, budget: int | str, most: Amount | str | Decimal | int, unit: str | None = None, *, timeout: float | None = None
    ) -> AbstractAsyncContextManager[Hold]:
        """Reserves for the work of an ``async with``: confirmed at once, released where nothing was settled, also by an exception.

        The hold ends a minute after its program does: the client renews it. ``most`` is an amount, or text such as ``"0.02/USDn"``. A refusal is a RefusedError.
        """
        from ._work import hold

        return hold(self, budget, most, unit, timeout=timeout)

    async def find(self, handle: str, *, timeout: float | None = None) -> Found:
        """Asks the first node that works which budget a handle stands for.

        A budget that is not there yet is made, where one of the node's templates fits the handle. Asks with a handle do this by
        themselves, once for each handle.
        """
        deadline = self._deadline(timeout)
        connection, verdict = await self._route_open(deadline)
        return Found(verdict) if connection is None else await self._find(connection, handle, deadline)

    async def _find(self, connection: Connection, handle: str, deadline: Deadline) -> Found:
        known = connection.node.found.get(handle)
        if known is not None:
            return known
        name = handle.encode()
        if connection.version < wire.FIND_VERSION:
            return Found(Verdict.UNSUPPORTED)
        if not 0 < len(name) <= HANDLE_MAX:
            return Found(Verdict.UNKNOWN_BUDGET)
        future = connection.find(name)
        timer = deadline.end(future, Found(Verdict.TIMEOUT))
        try:
            found = await future
        finally:
            timer.cancel()
        if found.verdict == Verdict.GRANTED:
            if len(connection.node.found) >= FOUND_MAX:
                connection.node.found.clear()
            connection.node.found[handle] = found
        return found

    async def _stands_for_another(self, handle: str, deadline: Deadline) -> bool:
        """Whether a handle stands for another budget than before: that one may be over."""
        connection, _ = await self._route_open(deadline)
        before = connection.node.found.pop(handle, None) if connection is not None else None
        if connection is None or before is None:
            return False
        found = await self._find(connection, handle, deadline)
        return found.verdict == Verdict.GRANTED and found.budget != before.budget

    async def reserve_all(self, asks: Iterable[Ask], *, timeout: float | None = None) -> list[Hold | Refused]:
        """Asks for several amounts in one frame, or as few as hold them; answers come in their order.

        Members of a pod stand side by side and are granted all or none; a pod that is larger than a frame is a TooLargeError, and then
        nothing is asked.
        """
        began = time.perf_counter()
        deadline = self._deadline(timeout)
        whole = list(asks)
        refused: dict[int, Verdict] = {}
        exact = [_amount(ask.amount, ask.unit) for ask in whole]
        answers: list[Hold | Refused] = []
        waiting: list[tuple[Call, int, list[int]]] = []
        at = 0
        try:
            while at < len(whole) or waiting:
                if at == len(whole) or len(waiting) == WINDOW:
                    await self._take(waiting, whole, exact, answers, deadline)
                    continue
                connection, verdict = await self._route_open(deadline)
                if connection is None:
                    while waiting:
                        await self._take(waiting, whole, exact, answers, deadline)
                    answers += [Refused(verdict)] * (len(whole) - at)
                    break
                count = _frame_of(whole, at, connection.batch_max)
                if count == 0:
                    raise TooLargeError(f"a pod has more members than the {connection.batch_max} asks that a frame may hold")
                asks = whole[at : at + count]
                noes = await self._name(connection, asks, deadline)
                call, ids = self._send(connection, asks, exact[at : at + count], deadline)
                waiting.append((call, at, ids))
                refused.update((at + place, verdict) for place, verdict in noes.items())
                at += count
        except BaseException:
            # Whatever went wrong, a frame that is under way may grant what nobody would hear of, and what was granted goes to nobody.
            for call, _, _ in waiting:
                self._abandon(call)
            for answer in answers:
                if isinstance(answer, Hold):
                    answer.release_soon()
            raise
        for place, verdict in refused.items():
            if answers[place].verdict == Verdict.UNKNOWN_BUDGET:
                answers[place] = Refused(verdict)
        if self.options.hook is not None:
            for answer in answers:
                self._observe("reserve", answer.verdict, began)
        return answers

    async def _name(self, connection: Connection, asks: list[Ask], deadline: Deadline) -> dict[int, Verdict]:
        """Gives asks with handles the numbers of their budgets; the verdicts of those that have none, by place."""
        noes: dict[int, Verdict] = {}
        for place, ask in enumerate(asks):
            if isinstance(ask.budget, str):
                found = await self._find(connection, ask.budget, deadline)
                budget = found.budget
                if found.verdict != Verdict.GRANTED:
                    # The node refuses it, and the rest of its pod.
                    noes[place], budget = found.verdict, NOBODY
                asks[place] = replace(ask, budget=budget)
        return noes

    def _send(self, connection: Connection, asks: list[Ask], amounts: list[Amount], deadline: Deadline) -> tuple[Call, list[int]]:
        """Sends one frame of asks; gives their request ids."""
        first = self._ids
        self._ids = (first + len(asks)) & (2**63 - 1)
        ids = [ask.request_id or (first + at) for at, ask in enumerate(asks, 1)]
        pack = wire.ASK.pack
        try:
            entries = b"".join(
                pack(request_id, ask.budget, amount.base, ask.user, _code_of(amount.unit), ask.pod)
                for request_id, ask, amount in zip(ids, asks, amounts)
            )
        except struct.error as error:
            raise _not_an_ask(error) from None
        call = Call(self.loop.create_future(), connection.node, deadline)
        connection.ask(call, self._flags, entries, len(asks))
        return call, ids

    async def _take(
        self, waiting: list[tuple[Call, int, list[int]]], whole: list[Ask], exact: list[Amount], answers: list[Hold | Refused],
        deadline: Deadline,
    ) -> None:  # fmt: skip
        """Waits for the answer to the oldest frame of a call."""
        call, at, ids = waiting.pop(0)
        verdict = await self._answer(call, deadline)
        if verdict != Verdict.GRANTED:
            answers += [Refused(verdict)] * len(ids)
            return
        node = call.node
        for entry, amount, request_id in zip(call.answers, exact[at : at + len(ids)], ids):
            token, code = entry
            if not code:
                answers.append(Hold(self, node, token, amount, request_id))
            elif code == UNIT_MISMATCH:
                answers.append(_mismatch(amount, node, whole[len(answers)].budget))
            else:
                answers.append(Refused(VERDICTS[code]))
        # The answer had too few entries.
        answers += [Refused(Verdict.UNREACHABLE)] * (len(ids) - len(call.answers))

    def _repeat(self, call: Call, connection: Connection, entry: bytes, deadline: Deadline) -> None:
        """Sends an ask again while no answer comes: after a quarter of its time, and ever later."""
        pause = min(deadline.left() / 4, REPEAT_AFTER)

        def again(pause: float) -> None:
            if not call.future.done() and not connection.lost:
                connection.ask(call, self._flags | wire.REMEMBER, entry, 1)
                self.loop.call_later(2 * pause, again, 2 * pause)

        self.loop.call_later(pause, again, pause)

    async def _route_open(self, deadline: Deadline) -> tuple[Connection | None, Verdict]:
        self._check_loop()
        if self._closing:
            return None, Verdict.CLOSED
        return await self._route(deadline)

    async def _answer(self, call: Call, deadline: Deadline) -> Verdict:
        """Waits for the answer to a frame until the deadline."""
        timer = deadline.end(call.future, Verdict.TIMEOUT)
        try:
            verdict = await call.future
        except asyncio.CancelledError:
            self._abandon(call)
            raise
        finally:
            timer.cancel()
        if verdict is None:
            raise FrameRefusedError("the node found the frame broken; the log says what it found")
        return verdict

    def _abandon(self, call: Call) -> None:
        """Nobody waits for these answers: what they grant is released."""
        if call.future.done() and not call.future.cancelled():
            for token, verdict in call.answers:
                if verdict == Verdict.GRANTED:
                    self.release_late(call.node, token)
        call.future.cancel()

    def _next_id(self) -> int:
        self._ids = (self._ids + 1) & (2**63 - 1)
        return self._ids or self._next_id()

    def _observe(self, what: str, verdict: Verdict, began: float) -> None:
        if self.options.hook is not None:
            self.options.hook(Event(what, verdict, time.perf_counter() - began))

    # --- settling ---

    def hold_of(self, token: str, amount: Amount | None = None, request_id: int = 0) -> Hold:
        """The hold of a token from elsewhere, such as from another program. It is not released when it is dropped."""
        try:
            whole = base64.b64decode(token + "=", altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            whole = b""
        if len(token) != 43 or len(whole) != wire.TOKEN:
            raise ValueError(f"token of {len(token)} characters: expected 43 of A-Z, a-z, 0-9, - and _")
        return Hold(self, None, whole, amount, request_id, owned=False)

    def begin(self, action: int, hold: Hold, amount: int) -> Job:
        """Begins to confirm, settle or release a hold."""
        return self._start(Entry(action, hold.token_bytes, amount, hold.request_id), hold._node)

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self.loop:
            raise WeirError("the client belongs to another event loop: open one in each loop, and in each process")

    def _may_begin(self) -> None:
        self._check_loop()
        if self._closing:
            raise ClosedError("the client was closed")
        if self._pending >= JOBS_MAX:
            raise BusyError(f"{JOBS_MAX} settlements wait for their answers already; try again")

    def _start(self, entry: Entry, home: Node | None, spooled: bool = False) -> Job:
        self._may_begin()
        if self._spool is not None and not spooled:
            self._spool.add(entry)
            spooled = True
        job = Job(self, entry, home, spooled)
        self._pending += 1
        job.send()
        return job

    def ended(self, job: Job) -> None:
        """Counts out what has its final answer."""
        if job.spooled and self._spool is not None and not self.is_shut:
            self._spool.done(job.entry)
        if self.options.hook is not None and job.outcome is not None:
            self._observe(wire.ACTIONS[job.entry.action], job.outcome.verdict, job.began)
        self._done()

    def _done(self) -> None:
        self._pending -= 1
        if self._idle is not None and not self._pending and not self._idle.done():
            self._idle.set_result(None)

    def release_late(self, node: Node | None, token: bytes, request_id: int = 0) -> None:
        """Gives back what was granted to nobody."""
        if self._closing:
            return
        try:
            self._start(Entry(wire.RELEASE, token, 0, request_id), node)
        except WeirError as error:
            self.log.warning("a grant was not released, it ends at its deadline: %s", error)

    def dropped(self, node: Node | None, token: bytes, request_id: int, amount: Amount | None) -> None:
        """A hold was collected without being settled or released; any thread may say so."""
        if self.is_shut or self.loop.is_closed():
            return
        self.log.warning("hold %d of %s was dropped without being settled or released; it is released now", request_id, amount)
        self.loop.call_soon_threadsafe(self.release_late, node, token, request_id)


def _amount(amount: Amount | str | Decimal | int, unit: str | None) -> Amount:
    if isinstance(amount, Amount):
        if unit is not None and amount.unit not in ("", unit):
            raise AmountError(f"amount in {amount.unit} asked for in {unit}")
        return amount
    if unit is None:
        raise TypeError("the unit of the amount is missing: say unit='USD', or give an Amount")
    return _exact(amount, unit)


_AMOUNTS: dict[tuple[str, str], Amount] = {}


def _exact(amount: str | Decimal | int, unit: str) -> Amount:
    if not isinstance(amount, str):
        return Amount(base_units(amount, unit), unit)
    known = _AMOUNTS.get((amount, unit))
    if known is None:
        known = Amount.parse(amount, unit)
        if len(_AMOUNTS) >= 1024:
            _AMOUNTS.clear()
        _AMOUNTS[amount, unit] = known
    return known


def _mismatch(amount: Amount, node: Node, budget: int | str) -> Refused:
    """The no to an ask in another unit than its budget's; it names both where the budget was looked up by its handle."""
    found = node.found.get(budget) if isinstance(budget, str) else None
    unit = found.unit if found is not None and found.unit not in ("", amount.unit) else "another unit"
    return Refused(Verdict.UNIT_MISMATCH, f"the budget is in {unit}, the ask in {amount.unit}")


_CODES: dict[str, bytes] = {}


def _code_of(unit: str) -> bytes:
    code = _CODES.get(unit)
    if code is None:
        code = _CODES[unit] = unit_code(unit)  # as many as there are currencies
    return code


def _not_an_ask(error: struct.error) -> ValueError:
    return ValueError(f"budget, user and request id are numbers of 64 bits, a pod one of 16 bits, none below 0: {error}")


def _check(base: int) -> None:
    if not 0 < base <= AMOUNT_MAX:
        raise AmountError(f"amount of {base} base units: expected 1 to {AMOUNT_MAX}")


def _frame_of(asks: list[Ask], at: int, most: int) -> int:
    """How many asks the next frame takes without taking a pod apart; 0 where a pod is larger than a frame."""
    if len(asks) - at <= most:
        return len(asks) - at
    count = most
    while count > 0 and asks[at + count].pod and asks[at + count - 1].pod == asks[at + count].pod:
        count -= 1
    return count


def connect(
    addresses: str | Sequence[str] | None = None, *, auth: str = "", token: str = "", name: str = "weir-python", client_id: int = 0,
    tls: ssl.SSLContext | None = None, timeout: float | None = None, linger: float = 0.000_050, batch_max: int = 0, connections: int = 2,
    answer_wait: float = 10.0, spool: str | None = None, wait: bool = True, hook: Callable[[Event], None] | None = None,
    log: logging.Logger | None = None,
) -> Client:  # fmt: skip
    """A client of the nodes at these addresses, to be opened with ``async with``. Times are seconds.

    An address is that of a batch door, such as ``10.0.0.1:7700``, or of a JSON door, such as ``https://weir:7704``; without one the
    environment names it, ``WEIR_URL``, and the access token, ``WEIR_TOKEN``. ``token``: the same token as ``auth``.
    ``timeout``: how long an ask waits for its answer; 20 ms by default, 1 s for one that confirms and over JSON. ``linger``: how long
    asks wait for others to share their frame (below a millisecond: until the event loop's next turn; 0: not at all). ``batch_max``: asks
    a frame at most. ``connections``: to a node in use. ``answer_wait``: after how long without an answer a settlement is repeated.
    ``spool``: a file that keeps what is not answered, so that a crash loses none. ``wait``: the node may wait a few milliseconds for
    money that has to be fetched. ``hook``: hears of every ask and settlement that is over; it must be quick.
    """
    if addresses is None:
        addresses, token = os.environ.get("WEIR_URL", ""), token or auth or os.environ.get("WEIR_TOKEN", "")
        if not addresses.strip():
            raise ValueError("no address: give one, or set WEIR_URL, such as 'http://127.0.0.1:7704'")
    client_id = client_id or random.getrandbits(64)
    options = Options(token or auth, name, client_id, tls, timeout, linger, batch_max, connections, answer_wait, spool, wait, hook)
    names = addresses.split(",") if isinstance(addresses, str) else addresses
    over_json = [name.strip().startswith(("http://", "https://")) for name in names]
    log = log or logging.getLogger("weir")
    if not any(over_json):
        return Client(names, options, log)
    if not all(over_json):
        raise ValueError("addresses of batch doors and of JSON doors together: a client speaks with one kind")
    from ._json import JsonClient

    return JsonClient(names, options, log)
