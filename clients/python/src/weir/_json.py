"""The same client over a node's JSON door: for programs that reach a node by HTTP, through proxies, with an access token."""

from __future__ import annotations

import asyncio
import base64
import datetime
import os
import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any, cast

from ._amount import Amount
from ._client import Client, _amount, _check
from ._connection import Extended
from ._deadline import Deadline
from ._hold import Hold, Refused
from ._http import Answer, HttpNode, Late, Unsent
from ._node import backoff
from ._settle import Job, Outcome
from ._spool import Entry
from ._verdict import UNANSWERED, UnauthorisedError, Verdict, VersionError, WeirError
from ._wire import ACTIONS, RELEASE, SETTLE

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterable, Sequence

    from ._client import Ask, Options

TIMEOUT = 1.0
"""How long an ask waits by default, in seconds: its answer is sealed, and the caller's work is longer than that."""
ENTRIES_MAX = 10_000
"""Asks in one call of the door at most."""
_UNKNOWN = Verdict(255)
_MOVED = (502, 503, 504)
"""Not of the node's budgets: it begins, ends or cannot write, or a proxy has lost it."""


class JsonClient(Client):
    """Asks one or more nodes by their JSON doors. Made by ``weir.connect`` for addresses that begin with http."""

    def __init__(self, addresses: Sequence[str], options: Options, log: logging.Logger) -> None:
        if options.spool is not None:
            raise ValueError("a spool needs the batch door: a settlement over JSON names its unit, which the file does not have")
        super().__init__(addresses, options, log)

    def _nodes(self, names: list[str]) -> list[Any]:
        self.doors = [HttpNode(at, name, self.options.auth, self.options.tls) for at, name in enumerate(names)]
        return []

    async def open(self) -> Client:
        self.loop = asyncio.get_running_loop()
        for door in self.doors:
            try:
                answer = await door.call("/healthz", None, Deadline(5.0))
            except OSError as error:
                # A program may start while its nodes are down: they are used when they are there.
                self.log.warning("no answer yet: %s", error)
                continue
            except VersionError:
                await self._end()
                raise
            if answer.status == 401:
                await self._end()
                raise _unauthorised(door, answer)
        return self

    async def _end(self) -> None:
        self._shut()
        for door in self.doors:
            door.shut()
        await asyncio.sleep(0)

    # --- asking ---

    async def reserve(
        self, budget: int | str | Sequence[int | str], amount: Amount | str | Decimal | int, unit: str | None = None, *, user: int = 0,
        request_id: int = 0, timeout: float | None = None, retry: bool = True, confirm: bool = False, confirm_ms: int | None = None,
        renew: bool = False,
    ) -> Hold | Refused:  # fmt: skip
        """As the other client's. ``budget``: also two to eight of them, which all give the same amount, or none does: one hold.
        ``confirm_ms``: confirmed, and ended after so long, where the client is gone by then; with ``renew`` the client moves that end on
        until the hold is settled or released.
        """
        began = time.perf_counter()
        exact = _amount(amount, unit)
        _check(exact.base)
        if user or request_id:
            raise ValueError("user and request_id need the batch door")
        body = self._body(budget, exact, confirm or confirm_ms is not None)
        if confirm_ms is not None:
            body["confirm_ms"] = confirm_ms
        answer = await self._ask("/v1/reserve", body, self._deadline(timeout), exact)
        (hold,) = answer if isinstance(answer, list) else [answer]
        self._observe("reserve", hold.verdict, began)
        self._renewed(hold, confirm_ms if renew else None)
        return hold

    async def _extend(self, hold: Hold, confirm_ms: int, deadline: Deadline, foreign: set[int]) -> Extended | None:
        door = cast("HttpNode | None", hold._node) or self.choose_door(None)
        try:
            answer = await door.call("/v1/extend", {"token": hold.token, "confirm_ms": confirm_ms}, deadline)
        except OSError as error:
            self.log.debug("an extend is repeated: %s", error)
            return None
        if answer.status in (401, *_MOVED):
            return None
        verdict = _refusal(answer).verdict
        if verdict != Verdict.EXTENDED:
            return None if verdict in UNANSWERED else Extended(verdict)
        deadline_at = datetime.datetime.fromisoformat(answer.body["deadline"].replace("Z", "+00:00"))
        return Extended(verdict, answer.body["repeat"], deadline_at)

    async def reserve_all(self, asks: Iterable[Ask], *, timeout: float | None = None) -> list[Hold | Refused]:
        began = time.perf_counter()
        whole, deadline = list(asks), self._deadline(timeout)
        if any(ask.pod or ask.user or ask.request_id for ask in whole):
            raise ValueError("pods, users and request ids need the batch door")
        amounts = [_amount(ask.amount, ask.unit) for ask in whole]
        calls = [self._body(ask.budget, amount, False) | {"call": "reserve", "key": _key()} for ask, amount in zip(whole, amounts)]
        answers: list[Hold | Refused] = []
        for at in range(0, len(calls), ENTRIES_MAX):
            part = slice(at, at + ENTRIES_MAX)
            answer = await self._ask("/v1/batch", calls[part], deadline, *amounts[part])
            answers += answer if isinstance(answer, list) else [answer] * len(amounts[part])
        for one in answers:
            self._observe("reserve", one.verdict, began)
        return answers

    async def spend(
        self, budget: int | str | Sequence[int | str], amount: Amount | str | Decimal | int, unit: str | None = None, *, timeout: float | None = None
    ) -> Outcome:
        """Books an amount that is spent already or at once: reserve and settle in one. PENDING after the timeout: it may be booked."""
        exact = _amount(amount, unit)
        _check(exact.base)
        answer = await self._ask("/v1/spend", self._body(budget, exact, False), self._deadline(timeout), exact)
        refused = answer[0] if isinstance(answer, list) else answer
        return Outcome(Verdict.PENDING if refused.verdict in (Verdict.TIMEOUT, Verdict.JOURNAL) else refused.verdict)

    def _deadline(self, timeout: float | None, confirm: bool = False) -> Deadline:
        return super()._deadline(timeout if timeout is not None else self.options.timeout or TIMEOUT)

    def _body(self, budget: int | str | Sequence[int | str], amount: Amount, confirm: bool) -> dict[str, Any]:
        if not amount.unit:
            raise ValueError("the JSON door takes amounts with their unit: say unit='USD'")
        whom = {"budget": budget} if isinstance(budget, (int, str)) else {"budgets": list(budget)}
        body: dict[str, Any] = {**whom, "amount": str(amount), "unit": amount.unit}
        if confirm:
            body["confirm"] = True
        if not self.options.wait:
            body["wait_ms"] = 0
        return body

    async def _ask(self, path: str, body: Any, deadline: Deadline, *amounts: Amount) -> list[Hold | Refused] | Refused:
        """Asks until there is an answer: under one key, so that a repeat after a lost connection gets the first one's."""
        self._check_loop()
        if self._closing:
            return Refused(Verdict.CLOSED)
        key, door, tries, sent = "" if path == "/v1/batch" else _key(), self.choose_door(None), 0, False
        try:
            while deadline.left():
                try:
                    answer = await door.call(path, body, deadline, key)
                    if answer.status not in _MOVED:
                        return self._holds(door, path, answer, amounts)
                except Unsent:
                    # It has nothing of this ask: another may.
                    door = door if sent else self.choose_door(door)
                except Late:
                    sent = True
                    break
                except OSError:
                    sent = True
                else:
                    door.put_last()
                    if (refused := _refusal(answer)).verdict == Verdict.JOURNAL:
                        # The node may come to grant it yet: its key says.
                        self._recall(door, path, body, key, amounts)
                        return refused
                    # The node did not begin it; of a proxy that lost the answer nobody knows.
                    sent |= answer.status != 503
                    door = door if sent else self.choose_door(door)
                tries += 1
                await asyncio.sleep(min(backoff(tries), deadline.left()))
        except asyncio.CancelledError:
            self._recall(door, path, body, key, amounts)
            raise
        if not sent:
            return Refused(Verdict.UNREACHABLE)
        self._recall(door, path, body, key, amounts)
        return Refused(Verdict.TIMEOUT)

    def _holds(self, door: HttpNode, path: str, answer: Answer, amounts: Sequence[Amount]) -> list[Hold | Refused] | Refused:
        if path != "/v1/batch":
            return [self._hold(door, answer, amounts[0])]
        if answer.status != 200 or not isinstance(answer.body, list) or len(answer.body) != len(amounts):
            return _refusal(answer)
        parts = [Answer(part["status"], part["body"], None) for part in answer.body]
        return [self._hold(door, part, amount) for part, amount in zip(parts, amounts)]

    def _hold(self, door: HttpNode, answer: Answer, amount: Amount) -> Hold | Refused:
        if answer.status in (401, 403) and _refusal(answer).verdict == _UNKNOWN:
            raise _unauthorised(door, answer)
        token = _token(answer)
        if token is None:
            return _refusal(answer)
        return Hold(self, cast("Any", door), token, amount, 0)

    def _recall(self, door: HttpNode, path: str, body: Any, key: str, amounts: Sequence[Amount]) -> None:
        """Gives back what an ask was granted that nobody waits for any more: its key says what that was."""
        if self.is_shut:
            return
        self._pending += 1
        self.begin_task(self._give_back(door, path, body, key, amounts))

    async def _give_back(self, door: HttpNode, path: str, body: Any, key: str, amounts: Sequence[Amount]) -> None:
        tries = 0
        try:
            while tries < 20:
                tries += 1
                try:
                    answer = await door.call(path, body, Deadline(self.options.answer_wait), key)
                    if answer.status not in _MOVED:
                        holds = self._holds(door, path, answer, amounts)
                        for hold in holds if isinstance(holds, list) else []:
                            if isinstance(hold, Hold):
                                hold.detach()
                                self._job(RELEASE, hold, 0)
                        return
                except OSError:
                    pass
                except WeirError as error:
                    self.log.warning("an ask that came too late may hold its money until its end: %s", error)
                    return
                await asyncio.sleep(backoff(tries))
        finally:
            self._done()

    # --- settling ---

    def choose_door(self, without: HttpNode | None) -> HttpNode:
        """The first node that works, not this one if there is another."""
        now = time.monotonic()
        return min(self.doors, key=lambda door: (door is without, door.is_last(now)))

    def _start(self, entry: Entry, home: Any, spooled: bool = False) -> Job:
        raise NotImplementedError("begin() has the hold, and its unit")

    def begin(self, action: int, hold: Hold, amount: int) -> Job:
        self._may_begin()
        return self._job(action, hold, amount)

    def _job(self, action: int, hold: Hold, amount: int) -> Job:
        unit = hold.amount.unit if hold.amount is not None else ""
        if action == SETTLE and not unit:
            raise ValueError("the unit of the hold is not known: hold_of(token, Amount.parse('0.15', 'USD'))")
        job = JsonJob(self, Entry(action, hold.token_bytes, amount, 0), cast("Any", hold._node), hold.token, unit)
        self._pending += 1
        self.begin_task(job.run())
        return job

    def release_late(self, node: Any, token: bytes, request_id: int = 0) -> None:
        if not self._closing:
            Hold(self, node, token, None, 0, owned=False).release_soon()


class JsonJob(Job):
    """A confirm, settle or release over JSON until its final answer. Its token makes a repeat safe, and its key tells the answer also when the
    node has forgotten the hold."""

    __slots__ = ("body", "door", "key")

    def __init__(self, client: JsonClient, entry: Entry, door: HttpNode | None, token: str, unit: str) -> None:
        super().__init__(client, entry, None, False)
        self.door, self.key = door, _key()
        self.body: dict[str, Any] = {"token": token}
        if entry.action == SETTLE:
            self.body["amount"] = str(Amount(entry.amount, unit))

    async def run(self) -> None:
        """Asks the node that granted, or where that is not known each, until one has answered."""
        client = self.client
        assert isinstance(client, JsonClient)
        path, at = f"/v1/{ACTIONS[self.entry.action]}", 0
        while self.outcome is None:
            door = self.door or client.doors[at % len(client.doors)]
            verdict, repeat = await self._try(door, path)
            if verdict == Verdict.FOREIGN and self.door is None:
                self.foreign.add(door.index)
                at += 1
                if len(self.foreign) < len(client.doors):
                    continue
            if verdict is not None and self.is_final(verdict):
                self.finish(Outcome(verdict, repeat))
                return
            self.tries += 1
            at += 1
            await asyncio.sleep(backoff(self.tries))

    async def _try(self, door: HttpNode, path: str) -> tuple[Verdict | None, bool]:
        try:
            answer = await door.call(path, self.body, Deadline(self.client.options.answer_wait), self.key)
        except (OSError, VersionError) as error:
            self.client.log.debug("%s is repeated: %s", path, error)
            return None, False
        if answer.status in _MOVED:
            return None, False
        if answer.status == 401:
            if self.tries % 16 == 0:
                self.client.log.warning("%s waits for its answer: %s", path, _unauthorised(door, answer))
            return None, False
        verdict = _refusal(answer).verdict
        repeat = isinstance(answer.body, dict) and answer.body.get("repeat") is True
        return (Verdict.BAD_ACTION if verdict == _UNKNOWN else verdict), repeat


def _key() -> str:
    # Not counted: a program that forks would say a number twice.
    return os.urandom(12).hex()


def _token(answer: Answer) -> bytes | None:
    body = answer.body if isinstance(answer.body, dict) else {}
    if answer.status != 200 or body.get("verdict") != "granted":
        return None
    token: bytes = base64.urlsafe_b64decode(body["token"] + "=")
    return token


def _refusal(answer: Answer) -> Refused:
    body = answer.body if isinstance(answer.body, dict) else {}
    verdict = Verdict.__members__.get(str(body.get("verdict", "")).upper(), _UNKNOWN)
    left, wait_ms = body.get("left"), body.get("retry_after_ms")
    return Refused(
        verdict, str(body.get("detail", f"status {answer.status}")),
        retry_after=wait_ms / 1000 if isinstance(wait_ms, int) else answer.retry_after, budget=body.get("budget"),
        window=str(body.get("window") or ""), left=Decimal(left) if isinstance(left, str) else None,
    )  # fmt: skip


def _unauthorised(door: HttpNode, answer: Answer) -> UnauthorisedError:
    return UnauthorisedError(f"{door.address}: status {answer.status}: {_refusal(answer).detail}")
