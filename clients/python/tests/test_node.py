"""Against a real node, and what the README and the examples say."""

from __future__ import annotations

import asyncio
import pathlib
import re
import subprocess
import sys

import pytest

import weir

PACKAGE = pathlib.Path(__file__).resolve().parents[1]


def program_of(text, address, loop):
    """The machine of the tests may be busy for longer than an ask waits."""
    assert "127.0.0.1:7700" in text
    text = re.sub(r'"127\.0\.0\.1:7700"', f'"{address}", timeout=20', text)
    return text if loop == "asyncio" else f"import uvloop; uvloop.install()\n{text}"


def run(program, address, loop, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(program_of(program, address, loop))
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=120, env={"PYTHONPATH": str(PACKAGE / "src")}, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_readme(node, loop, tmp_path):
    programs = re.findall(r"```python\n(import.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    assert len(programs) == 2
    for at, program in enumerate(programs):
        assert run(program, node, loop, tmp_path) == "settled\n", at


def test_examples(node, loop, tmp_path):
    """Each example says what it prints in its last comment lines."""
    for example in sorted((PACKAGE / "examples").glob("*.py")):
        text = example.read_text()
        expected = "".join(re.findall(r"^# prints: (.*\n)", text, re.MULTILINE))
        assert run(text, node, loop, tmp_path) == expected, example.name


def test_verdicts_of_a_real_node(node):
    async def play():
        async with weir.connect(node, timeout=20) as client:
            hold = await client.reserve(1001, "0.15", "USD")
            assert (await hold.confirm()).verdict == weir.Verdict.CONFIRMED
            assert await hold.settle("0.2") == weir.Outcome(weir.Verdict.SETTLED_OVER)
            assert (await hold.release()).verdict == weir.Verdict.ALREADY_SETTLED
            asks = [weir.Ask(1001, "9", "USD", pod=1), weir.Ask(1001, "9", "USD", pod=1), weir.Ask(1001, "1", "USDn"),
                    weir.Ask(5, "1", "USD"), weir.Ask(1001, "1", "USD")]  # fmt: skip
            answers = await client.reserve_all(asks)
            assert not answers[0] and not answers[1]
            assert [str(answer.verdict) for answer in answers[2:]] == ["unit_mismatch", "unknown_budget", "granted"]
            assert (await answers[4].release()).verdict == weir.Verdict.RELEASED
            handle, other = "llm/team-42/ann@example", "the budget is in another unit, the ask in EUR"
            answers = [await client.reserve(budget, "1", "EUR") for budget in (1001, handle)]
            answers += await client.reserve_all([weir.Ask(budget, "1", "EUR") for budget in (1001, handle)])
            assert [answer.detail for answer in answers] == [other, "the budget is in USD, the ask in EUR"] * 2
            assert repr(answers[0]) == f"Refused(unit_mismatch: {other})"

    asyncio.run(play())


def test_a_cold_burst(node):
    """A gateway that starts: more callers at once than frames fit in flight, on connections that are not all open yet."""

    async def play(budget, **more):
        async with weir.connect(node, timeout=60) as client:
            holds = await asyncio.gather(*(client.reserve(budget, "0.0001", "USD", **more) for _ in range(1000)))
            assert {str(hold.verdict) for hold in holds} == {"granted"}

    for budget in (1001, "llm/team-42/ann@example"):
        asyncio.run(play(budget))
        asyncio.run(play(budget, retry=True))


def test_a_budget_is_made_on_its_first_ask(node):
    async def play():
        async with weir.connect(node, timeout=20) as client:
            for cost in ("0.1", "0.15"):
                async with await client.reserve("llm/team-42/ann@example", "0.15", "USD") as hold:
                    assert (await hold.settle(cost)).verdict == weir.Verdict.SETTLED
            answers = await client.reserve_all([weir.Ask("llm/team-42/bob", "0.01", "USD"), weir.Ask("llm/nobody", "0.01", "USD")])
            assert [str(answer.verdict) for answer in answers] == ["granted", "unknown_budget"]
            assert (await answers[0].release()).verdict == weir.Verdict.RELEASED

    asyncio.run(play())


def test_the_blocking_client(node):
    with weir.connect_sync(node, timeout=20) as client:
        with client.reserve(1001, "0.15", "USD") as hold:
            assert hold.settle("0.05").verdict == weir.Verdict.SETTLED
        with client.reserve(1001, "0.15", "USD") as hold:
            again = client.hold_of(hold.token)
        assert again.confirm().verdict == weir.Verdict.ALREADY_RELEASED
        answers = client.reserve_all([weir.Ask(1001, "0.1", "USD"), weir.Ask(5, "0.1", "USD")])
        assert [str(answer.verdict) for answer in answers] == ["granted", "unknown_budget"]
        assert answers[0].release().verdict == weir.Verdict.RELEASED
    with pytest.raises(weir.ClosedError):
        client.reserve(1001, "0.15", "USD")


def test_a_hold_ends_with_its_program(node):
    """Its end moves on while somebody has the hold; one that is left is over at its end."""

    async def play():
        async with weir.connect(node, timeout=20) as client:
            renewed = await client.reserve(1001, "0.30", "USD", confirm_ms=1_000, renew=True)
            left = await client.reserve(1001, "0.20", "USD", confirm_ms=1_000)
            left.detach()
            async with client.hold(1001, most="0.10/USD") as hold:
                assert (await hold.extend(1_000)).repeat, "it has a minute"
                assert (await hold.settle("0.10")).verdict == weir.Verdict.SETTLED
            await asyncio.sleep(3)
            assert (await left.extend(2_000)).verdict == weir.Verdict.EXPIRED
            extended = await renewed.extend(5_000)
            assert extended and not extended.repeat and extended.deadline is not None
            assert (await renewed.settle("0.30")).verdict == weir.Verdict.SETTLED

    asyncio.run(play())
