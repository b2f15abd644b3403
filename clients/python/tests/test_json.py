"""The client over the JSON door: a real node, and doors that lose answers."""

from __future__ import annotations

import asyncio
import json
import os
from decimal import Decimal

import pytest

import weir
from weir import Verdict


def test_a_real_node(url):
    async def play():
        async with weir.connect(url, timeout=20) as client:
            hold = await client.reserve(1001, "0.15", "USD", confirm=True)
            assert (await hold.confirm()).verdict == Verdict.CONFIRMED
            assert await hold.settle("0.2") == weir.Outcome(Verdict.SETTLED_OVER)
            again = client.hold_of(hold.token, weir.Amount.parse("0.15", "USD"))
            assert (await again.settle("0.2")).repeat
            assert (await client.hold_of(hold.token).release()).verdict == Verdict.ALREADY_SETTLED
            async with await client.reserve("llm/team-42/ann@example", "0.15", "USD") as hold:
                pass
            assert (await client.hold_of(hold.token).confirm()).verdict == Verdict.ALREADY_RELEASED
            with pytest.raises(ValueError, match="unit of the hold"):
                await client.hold_of(hold.token).settle(150_000)
            assert (await client.spend(1001, "0.1", "USD")).verdict == Verdict.SETTLED
            assert (await client.spend(1001, "100", "USD")).verdict == Verdict.EXHAUSTED
            asks = [weir.Ask(1001, "0.1", "USD"), weir.Ask(5, "0.1", "USD"), weir.Ask(1001, "11", "USD"), weir.Ask(1001, "1", "EUR")]
            answers = await client.reserve_all(asks)
            assert [str(one.verdict) for one in answers] == ["granted", "unknown_budget", "exhausted", "unit_mismatch"]
            assert "left" in answers[2].detail
            assert (await answers[0].release()).verdict == Verdict.RELEASED

    asyncio.run(play())


def test_a_hold_of_several_budgets_that_ends_with_its_program(url):
    """One token: all give, or none does. Its end moves on while somebody has the hold, and what is left ends by itself."""

    async def play():
        async with weir.connect(url, timeout=20) as client:
            both = [1001, "llm/team/ann"]
            refused = await client.reserve(both, "1.01", "USD", confirm_ms=1_000)
            assert refused.verdict == Verdict.EXHAUSTED and not refused.window
            assert (refused.budget, refused.left, refused.retry_after) == ("llm/team/ann", Decimal("1.00"), None)
            hold = await client.reserve(both, "0.60", "USD", confirm_ms=1_000)
            assert await hold.extend(2_000) and await hold.extend(1_000), "never shorter"
            assert (await hold.settle("0.50")).verdict == Verdict.SETTLED
            assert not await hold.extend(2_000)
            assert (await client.reserve("llm/team/ann", "0.51", "USD")).verdict == Verdict.EXHAUSTED
            renewed = await client.reserve(both, "0.30", "USD", confirm_ms=1_000, renew=True)
            left = await client.reserve(both, "0.20", "USD", confirm_ms=1_000)
            left.detach()  # its program is gone
            await asyncio.sleep(2.5)
            assert (await renewed.settle("0.30")).verdict == Verdict.SETTLED
            assert (await client.hold_of(left.token, left.amount).settle("0.10")).verdict == Verdict.SETTLED, "it was kept as expired"
            assert (await client.spend(both, "0.10", "USD")).verdict == Verdict.SETTLED

    asyncio.run(play())


def test_a_cold_burst(url):
    async def play():
        async with weir.connect(url, timeout=60) as client:
            holds = await asyncio.gather(*(client.reserve(1001, "0.0001", "USD", confirm=True) for _ in range(500)))
            assert {str(hold.verdict) for hold in holds} == {"granted"}
            ends = await asyncio.gather(*(hold.settle("0.0001") for hold in holds))
            assert {str(end.verdict) for end in ends} == {"settled"}

    asyncio.run(play())


def test_the_blocking_client_from_the_environment(url, monkeypatch):
    monkeypatch.setenv("WEIR_URL", url)
    with weir.connect_sync(timeout=20) as client, client.reserve(1001, "0.15", "USD") as hold:
        assert hold.settle("0.05").verdict == Verdict.SETTLED


def test_work_within_a_budget(url):
    """A hold as a context, and decorated functions, of both kinds; what is left on an exception; a refusal."""
    with weir.connect_sync(url, timeout=20) as client:

        @weir.budgeted("llm/{team}/{user}", most="0.40/USD", cost=lambda words: f"0.0{len(words)}", client=client)
        def answer(team, user="ann"):
            return "four"

        @weir.budgeted("llm/{team}/bob", most="0.60/USD", client=client)
        async def think(team, fails=False):
            return 1 // (not fails)

        assert answer("a/b") == "four"
        assert client.reserve("llm/a:2Fb/ann", "0.97", "USD").verdict == Verdict.EXHAUSTED
        assert asyncio.run(think("x")) == 1
        with pytest.raises(weir.RefusedError, match="llm/x/bob: exhausted"):
            asyncio.run(think("x"))
        with pytest.raises(ZeroDivisionError):
            asyncio.run(think("y", fails=True))
        with client.hold("llm/y/bob", most="1/USD") as hold:
            assert hold.settle("0.5").verdict == Verdict.SETTLED
        with pytest.raises(weir.RefusedError), client.hold("llm/y/bob", most="0.9/USD"):
            pass

    async def play():
        async with weir.connect(url, timeout=20) as other:
            with pytest.raises(KeyError):
                async with other.hold("llm/z/bob", most="1/USD"):
                    raise KeyError
            async with other.hold("llm/z/bob", most="1/USD") as hold:
                assert (await hold.settle("1")).verdict == Verdict.SETTLED

    asyncio.run(play())


def test_parts_of_handles():
    names = {"a/b": "a:2Fb", "a:2Fb": "a:3A2Fb", "..": ":2E:2E", "v1.2": "v1.2", "ann@example": "ann@example", "é\n": ":C3:A9:0A"}
    assert {name: weir.handle_part(name) for name in names} == names


GRANTED = {"verdict": "granted", "token": "A" * 43, "amount": "0.15", "deadline": "2026-11-23T09:30:00.250Z"}


class Door:
    """A door that plays a script: of each request an answer, or None for a connection that is lost after it was read."""

    def __init__(self, *script):
        self.script, self.heard, self.keys = list(script), [], []

    async def serve(self, reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                fields = dict(line.lower().split(": ", 1) for line in head.split("\r\n")[1:] if line)
                await reader.readexactly(int(fields.get("content-length", 0)))
                path = head.split()[1]
                if path != "/healthz":
                    self.heard.append(path.removeprefix("/v1/"))
                    self.keys.append(fields.get("idempotency-key"))
                status, body, *pause = (200, {}) if path == "/healthz" else self.script.pop(0) or (0, None)
                await asyncio.sleep(*(pause or [0]))
                if not status:
                    break
                text = json.dumps(body)
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\nRetry-After: 7\r\n\r\n{text}".encode())
        except (OSError, EOFError):
            pass
        finally:
            writer.close()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"

    async def __aexit__(self, *_):
        self.server.close()


NO = {"verdict": "paced", "detail": "later", "budget": 1001, "window": "day", "left": "0.02", "retry_after_ms": 6500}
RELEASED = (200, {"verdict": "released", "repeat": False})
SETTLED = (200, {"verdict": "settled", "repeat": False})
CASES = [
    # What the door says to the ask, the verdict, what it hears in all.
    ([None, (200, GRANTED), RELEASED], "granted", ["reserve", "reserve", "release"]),
    ([(503, {"verdict": "shutting_down"}), (200, GRANTED), RELEASED], "granted", ["reserve", "reserve", "release"]),
    # Not known yet: what it comes to is given back.
    ([(503, {"verdict": "journal"}), (200, GRANTED), RELEASED], "journal", ["reserve", "reserve", "release"]),
    ([(429, NO)], "paced", ["reserve"]),
    ([(418, {"verdict": "of a later node"})], "verdict_255", ["reserve"]),
    # The answer comes too late: what it grants is given back, by the key.
    ([(200, GRANTED, 0.5), (200, GRANTED), RELEASED], "timeout", ["reserve", "reserve", "release"]),
    ([(200, GRANTED, 0.5), (429, NO)], "timeout", ["reserve", "reserve"]),
    ([(200, GRANTED), None, (503, {}), RELEASED], "granted", ["reserve", "release", "release", "release"]),
]


@pytest.mark.parametrize(("script", "verdict", "heard"), CASES)
def test_answers_that_are_lost_late_or_strange(script, verdict, heard):
    async def play():
        door = Door(*script)
        async with door as url:
            client = await weir.connect(url, timeout=0.25).open()
            answer = await client.reserve(1001, "0.15", "USD")
            assert str(answer.verdict) == verdict
            if answer:
                await answer.release()
            elif verdict == "paced":
                told = (answer.detail, answer.budget, answer.window, answer.left, answer.retry_after)
                assert told == ("later", 1001, "day", Decimal("0.02"), 6.5)
            assert await client.close() == 0
            assert door.heard == heard
            for call in set(heard):
                assert len({key for key, what in zip(door.keys, heard) if what == call}) == 1, "one key, whatever is repeated"
            assert None not in door.keys

    asyncio.run(play())


def test_what_is_over_and_what_is_not():
    """A passing no ends no renewal."""
    extended = (200, {"verdict": "extended", "deadline": "2026-11-23T09:30:00.250Z", "repeat": False})
    busy = (429, {"verdict": "busy", "retry_after_ms": 1})

    async def play(script, work):
        async with Door((200, GRANTED), *script) as url:
            async with weir.connect(url) as client:
                return (await work(await client.reserve(1001, "0.15", "USD"))).verdict

    async def all_of_them():
        assert await play([busy, (401, {}), extended], lambda hold: hold.extend(2_000)) == Verdict.EXTENDED

    asyncio.run(all_of_them())


def test_a_caller_that_goes_away_leaves_no_hold():
    async def play():
        door = Door((200, GRANTED, 0.2), (200, GRANTED), RELEASED)
        async with door as url:
            client = await weir.connect(url).open()
            ask = asyncio.create_task(client.reserve(1001, "0.15", "USD", confirm=True))
            await asyncio.sleep(0.05)
            ask.cancel()
            await asyncio.wait([ask])
            assert await client.close() == 0
            assert door.heard == ["reserve", "reserve", "release"]

    asyncio.run(play())


def test_two_nodes(url):
    async def play():
        async with Door((200, GRANTED), SETTLED) as other:
            # The first is down: another is asked. Its token is settled where it was granted.
            async with weir.connect(f"http://127.0.0.1:1,{other}", timeout=5) as client:
                hold = await client.reserve(1001, "0.15", "USD")
                assert (await hold.settle("0.15")).verdict == Verdict.SETTLED
        async with Door((404, {"verdict": "foreign"})) as other, weir.connect([url], timeout=20) as client:
            hold = await client.reserve(1001, "0.15", "USD")
            hold.detach()
            async with weir.connect([other, url], timeout=20) as both:
                assert (await both.hold_of(hold.token, hold.amount).settle("0.1")).verdict == Verdict.SETTLED

    asyncio.run(play())


def test_another_loop_and_another_process(url, node):
    """A client belongs to its loop and its process: elsewhere it says so, and nothing waits for ever."""

    async def play():
        for address in (url, node):
            async with weir.connect(address, timeout=20) as client:
                asks, hold = [weir.Ask(1001, "0.1", "USD")], client.hold_of("A" * 43)
                for work in (client.reserve(1001, "0.1", "USD"), client.reserve_all(asks), hold.confirm(), hold.extend(2_000)):
                    with pytest.raises(weir.WeirError, match="another event loop"):
                        await asyncio.to_thread(asyncio.run, work)

    asyncio.run(play())
    with weir.connect_sync(url, timeout=20) as client:
        hold = client.reserve(1001, "0.1", "USD")
        child = os.fork()
        if not child:
            try:
                hold.settle("0.1")
            except weir.WeirError as error:
                os._exit("fork" in str(error))
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1
        assert hold.settle("0.1").verdict == Verdict.SETTLED


def test_what_cannot_be():
    for address, more in [("http://", {}), ("http://a:1/path", {}), ("https://a:1,b:2", {}), ("http://a:1", {"spool": "x"}),
                          ("http://a:1", {"token": "a\r\nb"})]:  # fmt: skip
        with pytest.raises(ValueError, match="address|spool|token"):
            weir.connect(address, **more)

    async def play():
        async with Door((401, {"detail": "no"})) as url:
            client = await weir.connect(url).open()
            with pytest.raises(weir.UnauthorisedError):
                await client.reserve(1, "1", "USD")
            for ask in ({"user": 1}, {"request_id": 1}):
                with pytest.raises(ValueError, match="batch door"):
                    await client.reserve(1, "1", "USD", **ask)
            with pytest.raises(TypeError):
                await client.reserve(1, 0.5, "USD")
            await client.close()
            assert (await client.reserve(1, "1", "USD")).verdict == Verdict.CLOSED

    asyncio.run(play())
