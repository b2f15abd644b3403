"""The client's edges that need no scripted node."""

from __future__ import annotations

import asyncio
import time

import pytest

import weir
from weir import _spool, _wire as wire
from weir._client import _frame_of
from weir._connection import QUEUE_MAX, Flight, Lane
from weir._deadline import Deadline


class TinyNode(asyncio.Protocol):
    """Grants every ask of budget 1 and finds every handle; counts what comes."""

    def __init__(self, seen):
        self.seen = seen
        self.input = bytearray()

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.input += data
        while (length := wire.frame_length(self.input, 0, 1 << 20)) and len(self.input) >= length:
            frame, self.input = bytes(self.input[:length]), self.input[length:]
            block, template = wire._HEADER.unpack_from(frame, 6)[:2]
            root, rest = frame[14 : 14 + block], frame[14 + block :]
            if template == wire.HELLO:
                self.transport.write(wire.frame(wire.WELCOME, 3, wire._WELCOME.pack(3, 0, 1, 1000, 0, 1 << 18, 15000, 3600000, 0)))
            elif template == wire.FIND:
                self.seen.append("find")
                self.transport.write(wire.frame(wire.FOUND, 3, root + wire._FOUND.pack(0, 1, b"USD\0", 0)[8:]))
            elif template == wire.DECIDE:
                asks = list(wire.ASK.iter_unpack(rest[4:]))
                self.seen += ["ask"] * len(asks)
                body = b"".join(wire.DECISION.pack(bytes([9] * 32), 0) if ask[1] == 1 else wire.DECISION.pack(b"", 1) for ask in asks)
                self.transport.write(wire.frame(wire.DECIDED, 3, root[:8] + b"\0\0\0\0", wire._GROUP.pack(33, len(asks)) + body))
            else:
                actions = [entry[2] for entry in wire.RESOLVING.iter_unpack(rest[4:])]
                self.seen += [wire.ACTIONS[action] for action in actions]
                body = b"".join(bytes([{1: 32, 2: 33, 3: 36}[action], 0]) for action in actions)
                self.transport.write(wire.frame(wire.RESOLVED, 3, root[:8], wire._GROUP.pack(2, len(actions)) + body))


def play(scene, **options):
    """Runs a scene with a client of a tiny node; gives what the node saw."""
    seen = []

    async def whole():
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: TinyNode(seen), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with weir.connect(f"127.0.0.1:{port}", timeout=20, **options) as client:
            await scene(client)
        server.close()

    asyncio.run(asyncio.wait_for(whole(), 60))
    return seen


def test_floats_are_refused_and_nothing_is_sent():
    async def scene(client):
        for amount in (0.15, float("inf"), True):
            with pytest.raises(TypeError):
                await client.reserve(1, amount, "USD")
        with pytest.raises(TypeError):
            await client.reserve(1, "0.15")
        for amount in ("0", "-1", "1e3", "0.0000001", 10**10):
            with pytest.raises(weir.AmountError):
                await client.reserve(1, amount, "USD")
        for wrong in ({"budget": -1}, {"budget": 2**64}, {"user": 2**64}, {"request_id": -5}):
            with pytest.raises(ValueError):
                await client.reserve(**{"budget": 1, "amount": "1", "unit": "USD"} | wrong)
        with pytest.raises(ValueError):
            await client.reserve_all([weir.Ask(1, "1", "USD", pod=1 << 16)])

    assert play(scene) == []


def test_a_hold_is_settled_in_its_own_unit():
    async def scene(client):
        hold = await client.reserve(1, "0.15", "USD")
        with pytest.raises(TypeError):
            await hold.settle(0.1)
        with pytest.raises(weir.AmountError):
            await hold.settle(weir.Amount.parse("1", "EUR"))
        with pytest.raises(weir.AmountError):
            await hold.settle("-0.1")
        assert (await hold.settle("0.1")).verdict == weir.Verdict.SETTLED
        assert (await hold.settle("0.1")).verdict == weir.Verdict.SETTLED
        assert (await hold.settle("0.2")).verdict == weir.Verdict.ALREADY_SETTLED

    assert play(scene) == ["ask", "settle"]


def test_handles_are_found_once():
    async def scene(client):
        for _ in range(3):
            async with await client.reserve("team-42/gpt-5", "0.15", "USD"):
                pass
        answers = await client.reserve_all([weir.Ask("team-42/gpt-5", "1", "USD"), weir.Ask("x" * 10_000, "1", "USD")])
        assert answers[0] and answers[1].verdict == weir.Verdict.UNKNOWN_BUDGET
        answers[0].release_soon()
        assert await client.find("team-42/gpt-5") == weir.Found(weir.Verdict.GRANTED, 1, "USD")

    seen = play(scene)
    assert seen.count("find") == 1 and seen.count("release") == 4


def test_callers_share_the_question_for_a_handle():
    async def scene(client):
        holds = await asyncio.gather(*(client.reserve(handle, "0.01", "USD") for handle in ("a", "b") for _ in range(500)))
        assert all(holds)
        assert all([connection._finding == {} for connection in client.nodes[0].connections])

    assert play(scene).count("find") == 2


def test_frames_that_nobody_awaits_do_not_pile_up():
    lane, settlement = Lane(0), Flight(0)
    settlement.jobs.append(None)
    lane.wait(settlement)
    for _ in range(10_000):
        lane.wait(Flight(0))
        assert len(lane.queue) <= QUEUE_MAX + 1
    assert lane.queue[0] is settlement


def test_a_cancelled_caller_keeps_nothing():
    async def scene(client):
        task = asyncio.ensure_future(client.reserve(1, "0.15", "USD"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.2)

    # An ask that was not sent yet is not sent; one that was is released.
    assert play(scene) == []
    assert play(scene, linger=0) == ["ask", "release"]


def test_tasks_share_a_frame():
    async def scene(client):
        holds = await asyncio.gather(*(client.reserve(1, "0.01", "USD") for _ in range(50)))
        await asyncio.gather(*(hold.settle("0.01") for hold in holds))

    assert play(scene) == ["ask"] * 50 + ["settle"] * 50


def test_addresses_and_options_that_are_none():
    for addresses in ("", " , ", "host", "host:port", ":1", "h:99999", ["127.0.0.1:1"] * 65):
        with pytest.raises(ValueError):
            weir.connect(addresses)
    for options in ({"connections": 0}, {"timeout": 0}, {"linger": -1}, {"answer_wait": 0}):
        with pytest.raises(ValueError):
            weir.connect("127.0.0.1:1", **options)


@pytest.mark.parametrize(
    ("options", "timeout", "confirm", "expected"),
    [({}, None, False, 0.02), ({}, None, True, 1), ({}, 0.005, True, 0.005), ({"timeout": 3}, None, False, 3),
     ({"timeout": 3}, None, True, 3), ({"timeout": 3}, 5, True, 5)],
)  # fmt: skip
def test_an_explicit_deadline_wins(options, timeout, confirm, expected, monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 100)
    assert weir.connect("127.0.0.1:1", **options)._deadline(timeout, confirm).left() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("looks", "left"),
    [([0.4], 0.6), ([1.0005], 0), ([1.5], 0.5), ([1.5, 2.0], 0), ([1.5, 2.2], 0.2), ([7], 1), ([7, 9], 0), ([1.5, 2.5, 3.1], 0)],
)
def test_time_that_a_busy_loop_loses_is_added_to_a_deadline(looks, left, monkeypatch):
    """Of an ask of 1 s, looked at so many seconds after it was made: its timers are late, but at most 1 s is added."""
    monkeypatch.setattr("time.monotonic", lambda: 0)
    deadline = Deadline(1.0)
    for now in looks:
        monkeypatch.setattr("time.monotonic", lambda now=now: now)
        found = deadline.left()
    assert found == pytest.approx(left)


def test_an_answer_to_a_busy_loop_is_no_timeout():
    async def scene(client):
        for budget in (1, "team-42/gpt-5"):
            asking = asyncio.ensure_future(client.reserve(budget, "0.15", "USD", timeout=0.5))
            await asyncio.sleep(0)
            time.sleep(1.1)  # other work, in which nothing is sent or read
            assert await asking

    assert play(scene).count("ask") == 2


def test_tokens_that_are_none():
    async def scene(client):
        for token in ("", "x", "=" * 43, "A" * 44, "é" * 43, "A" * 42 + " "):
            with pytest.raises(ValueError):
                client.hold_of(token)
        assert client.hold_of("A" * 43).token == "A" * 43

    assert play(scene) == []


def test_one_client_has_the_spool_open(tmp_path):
    path = str(tmp_path / "spool")

    async def scene(client):
        other = weir.connect(client.nodes[0].address, spool=path)
        with pytest.raises(weir.SpoolError):
            await other.open()
        async with await client.reserve(1, "0.15", "USD") as hold:
            await hold.settle("0.1")

    play(scene, spool=path)
    assert _spool.read(path) == ([], 0)


def test_a_spool_is_written_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(_spool, "REWRITE_AT", 2000)
    path = tmp_path / "spool"

    async def scene(client):
        for _ in range(60):
            hold = await client.reserve(1, "0.15", "USD")
            await hold.settle("0.1")
        with pytest.raises(weir.SpoolError):
            await weir.connect(client.nodes[0].address, spool=str(path)).open()

    play(scene, spool=str(path))
    assert path.stat().st_size < 4000


def test_pods_are_not_taken_apart():
    def pods(*members):
        return [weir.Ask(1, 1, "count", pod=pod) for pod in members]

    assert _frame_of(pods(0, 0, 0), 0, 2) == 2
    assert _frame_of(pods(0, 1, 1), 0, 2) == 1
    assert _frame_of(pods(1, 1, 1), 0, 2) == 0
    assert _frame_of(pods(1, 1, 2, 2), 0, 3) == 2
