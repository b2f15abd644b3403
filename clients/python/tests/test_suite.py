"""The driver of clients/conform: each scenario is a test. WEIR_FAKE_NODE is the path of the scripted node (cargo build -p fake-node)."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import os
import pathlib
import subprocess

import pytest

import weir
from weir import _spool

CONFORM = pathlib.Path(__file__).resolve().parents[2] / "conform"
NODE = os.environ.get("WEIR_FAKE_NODE")
SUITE = json.loads((CONFORM / "scenarios.json").read_text())


def names() -> list[str]:
    return [scenario["name"] for scenario in SUITE["scenarios"]]


@pytest.fixture(scope="module")
def control():
    if not NODE:
        pytest.skip("WEIR_FAKE_NODE names no scripted node; make clients-python runs this test")
    with subprocess.Popen([NODE, str(CONFORM / "scenarios.json")], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        yield json.loads(node.stdout.readline())["control"]
        node.stdin.close()


def test_format():
    assert SUITE["format"] == 1


@pytest.mark.parametrize("name", names())
def test_scenario(name, control, tmp_path):
    play = next(scenario for scenario in SUITE["scenarios"] if scenario["name"] == name)
    asyncio.run(asyncio.wait_for(Driver(play, str(tmp_path / "spool")).run(control), 120))


def name_of(verdict):
    return "unknown" if str(verdict).startswith("verdict_") else str(verdict)


def fits(found, expected):
    return found in expected if isinstance(expected, list) else found == expected


ERRORS = {
    weir.UnauthorisedError: "unauthorised", weir.VersionError: "version", weir.WrongDoorError: "wrong_door", weir.FrameRefusedError: "refused", weir.TooLargeError: "too_large",
    weir.AmountError: "amount",
}  # fmt: skip


class Driver:
    def __init__(self, play, spool):
        self.play, self.spool = play, spool
        self.client, self.holds, self.calls, self.events = None, {}, {}, []
        self.logged, self.refusal = [], ""
        self.log = logging.Logger(play["name"])
        handler = logging.Handler()
        handler.emit = lambda record: self.logged.append(record.getMessage())
        self.log.addHandler(handler)

    async def run(self, control):
        host, port = control.rsplit(":", 1)
        self.reader, self.writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
        try:
            self.nodes = (await self.order({"play": self.play["name"]}))["nodes"]
            for at, step in enumerate(self.play["steps"]):
                try:
                    await self.step(step)
                except BaseException as error:
                    error.add_note(f"step {at}: {step}") if hasattr(error, "add_note") else None
                    raise
            if self.client is not None:
                await self.client.close(0)
            judged = await self.order("judge")
            assert judged["passed"], f"{judged['failures']}\nseen: {judged.get('seen')}"
        finally:
            if self.client is not None:
                await self.client.close(0)
            self.writer.close()
            await self.writer.wait_closed()

    async def order(self, order):
        self.writer.write(json.dumps(order).encode() + b"\n")
        answer = json.loads(await self.reader.readline())
        assert answer["ok"], answer
        return answer

    async def step(self, step):
        do = step["do"]
        if do in ("reserve", "reserve_all", "confirm", "extend", "settle", "release"):
            call = self.call(step)
            if "start" in step:
                self.calls[step["start"]] = asyncio.ensure_future(call)
            else:
                await call
        else:
            await getattr(self, f"do_{do}")(step)

    async def do_open(self, step):
        o = self.play.get("options", {})
        options = {
            "auth": o.get("auth", ""), "timeout": o.get("deadline_ms", 10000) / 1000, "linger": o.get("linger_us", 0) / 1e6,
            "connections": o.get("connections", 1), "batch_max": o.get("batch_max", 0), "answer_wait": o.get("answer_ms", 10000) / 1000,
            "spool": self.spool if o.get("spool") else None, "hook": self.events.append, "log": self.log,
        }  # fmt: skip
        expected = step.get("expect", {}).get("error")
        client = weir.connect(self.nodes, **options)
        if expected is None:
            self.client = await client.open()
            return
        with pytest.raises(weir.WeirError) as found:
            await client.open()
        assert ERRORS[found.type] == expected

    async def do_close(self, step):
        await self.client.close(step.get("wait_ms", 5000) / 1000)

    async def do_join(self, step):
        await self.calls[step["call"]]

    async def do_order(self, step):
        await self.order(step["order"])

    async def do_sleep(self, step):
        await asyncio.sleep(step["ms"] / 1000)

    async def do_detach(self, step):
        self.holds.pop(step["hold"]).detach()

    async def do_drop(self, step):
        before = len(self.logged)
        del self.holds[step["hold"]]
        gc.collect()
        await asyncio.sleep(0)
        assert len(self.logged) - before == step.get("expect", {}).get("logged", len(self.logged) - before), self.logged

    async def do_drop_if(self, step):
        self.holds.pop(step["hold"], None)

    async def do_observed(self, step):
        loop = asyncio.get_running_loop()
        until = loop.time() + 20
        while True:
            found = sum(event.what == step["what"] and name_of(event.verdict) == step["verdict"] for event in self.events)
            if found == step["count"] if "count" in step else found >= step.get("min", 1):
                return
            assert loop.time() < until and found <= step.get("count", found), (found, self.events)
            await asyncio.sleep(0.005)

    async def do_said(self, step):
        assert step["text"] in self.refusal or any(step["text"] in line for line in self.logged), (self.refusal, self.logged)

    async def do_spool_append(self, step):
        with open(self.spool, "a", newline="") as file:
            file.write(step["text"])

    async def do_spool_pending(self, step):
        assert len(_spool.read(self.spool)[0]) == step["count"]

    async def do_amount(self, step):
        if step["expect"].get("error"):
            with pytest.raises(weir.AmountError):
                weir.Amount.parse(step["text"], step["unit"])
        else:
            assert str(weir.Amount.parse(step["text"], step["unit"]).base) == step["expect"]["base"]

    async def do_format(self, step):
        assert str(weir.Amount(int(step["base"]), step["unit"])) == step["expect"]["text"]

    async def call(self, step):
        expect = step.get("expect", {})
        try:
            found = await getattr(self, f"call_{step['do']}")(step)
        except (weir.WeirError, asyncio.CancelledError) as error:
            assert "error" in expect, repr(error)
            assert ERRORS[type(error)] == expect["error"]
            return
        assert "error" not in expect, f"{found}, expected the error {expect['error']}"
        for member, expected in expect.items():
            if member == "verdicts":
                verdicts = [name_of(answer) for answer in found]
                assert len(verdicts) == len(expected) and all(map(fits, verdicts, expected)), verdicts
            elif member == "all":
                assert {name_of(answer) for answer in found} == {expected}
            elif member == "verdict":
                assert fits(name_of(found.verdict), expected), found
            elif member == "deadline_ms":
                assert found.deadline.timestamp() * 1000 == expected, found
            elif member == "code":
                assert int(found.verdict) == expected
            else:
                assert getattr(found, member) == expected, found

    async def call_reserve(self, step):
        more = {key: step[key] for key in ("user", "request_id", "retry", "confirm") if key in step}
        if "deadline_ms" in step:
            more["timeout"] = step["deadline_ms"] / 1000
        asks = [self.client.reserve(step["budget"], step["amount"], step["unit"], **more) for _ in range(step.get("times", 1))]
        answers = await asyncio.gather(*asks)
        if "times" in step:
            return [answer.verdict for answer in answers]
        answer = answers[0]
        self.refusal = repr(answer)
        if answer and "hold" in step:
            self.holds[step["hold"]] = answer
        return weir.Outcome(answer.verdict)

    async def call_reserve_all(self, step):
        pod = int(step.get("pod") is True)
        asks = [
            weir.Ask(ask["budget"], ask["amount"], ask["unit"], ask.get("user", 0), ask.get("request_id", 0), ask.get("pod", pod))
            for ask in step["asks"] * step.get("times", 1)
        ]
        timeout = step["deadline_ms"] / 1000 if "deadline_ms" in step else None
        answers = await self.client.reserve_all(asks, timeout=timeout)
        self.holds.update(zip(step.get("holds", []), [answer for answer in answers if answer]))
        return [answer.verdict for answer in answers]

    async def call_confirm(self, step):
        return await self.holds[step["hold"]].confirm(timeout=step.get("wait_ms", 30000) / 1000)

    async def call_extend(self, step):
        return await self.holds[step["hold"]].extend(step["confirm_ms"], timeout=step.get("wait_ms", 30000) / 1000)

    async def call_settle(self, step):
        return await self.holds[step["hold"]].settle(step["amount"], timeout=step.get("wait_ms", 30000) / 1000)

    async def call_release(self, step):
        return await self.holds[step["hold"]].release(timeout=step.get("wait_ms", 30000) / 1000)
