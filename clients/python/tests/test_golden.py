"""The codec against schema/golden, and against bytes that no node should send."""

from __future__ import annotations

import json
import pathlib
import random
import struct

import pytest

import weir
from weir import _wire as wire
from weir._verdict import reason_name

GOLDEN = pathlib.Path(__file__).resolve().parents[3] / "schema" / "golden"
ACTIONS = {name: code for code, name in wire.ACTIONS.items()}


def vector(name):
    lines = (GOLDEN / f"{name}.hex").read_text().splitlines()
    frame = bytes.fromhex("".join(line for line in lines if not line.startswith("#")))
    version = struct.unpack_from("<H", frame, 12)[0]
    return frame, version, json.loads((GOLDEN / f"{name}.json").read_text())["fields"]


def parsed(name):
    frame, _, fields = vector(name)
    assert wire.frame_length(frame, 0, 1 << 16) == len(frame)
    return wire.parse(frame), fields


def test_hello():
    frame, version, f = vector("hello")
    found = wire.hello(f["versionMin"], f["versionMax"], f["clientId"], bytes.fromhex(f["auth"]), f["name"].encode(), version)
    assert found == frame


def test_decide():
    frame, version, f = vector("decide")
    asks = b"".join(
        wire.ASK.pack(a["requestId"], a["budgetId"], a["amount"], a["userId"], bytes.fromhex(a["unit"]), a["pod"]) for a in f["asks"]
    )
    assert wire.decide(f["frame"], f["flags"], asks, version) == frame


def test_resolve():
    frame, version, f = vector("resolve")
    resolves = b"".join(
        wire.RESOLVING.pack(bytes.fromhex(r["token"]), r["amount"], ACTIONS[r["action"]], r["requestId"]) for r in f["resolves"]
    )
    assert wire.resolve(f["frame"], resolves, version) == frame


def test_ping():
    frame, version, f = vector("ping")
    assert wire.ping(f["frame"], version) == frame


def test_welcome():
    message, f = parsed("welcome")
    found = wire.welcome(message)
    assert found == wire.Welcome(
        f["version"], f["node"], f["run"], f["batchMax"], f["worker"], f["frameMax"], f["holdMs"], f["billingMs"], f["nowMs"]
    )


def test_decided():
    message, f = parsed("decided")
    found = [(token.hex(), str(weir.Verdict(code))) for token, code in wire.entries(message, wire.DECISION)]
    assert message.number == f["frame"] and found == [(a["token"], a["verdict"]) for a in f["answers"]]


def test_resolved():
    message, f = parsed("resolved")
    found = [(str(weir.Verdict(code)), flags) for code, flags in wire.entries(message, wire.RESOLUTION)]
    assert found == [(a["verdict"], a["flags"]) for a in f["answers"]]


def test_refused():
    message, f = parsed("refused")
    code, detail = wire.refusal(message)
    assert (message.number, reason_name(code), detail) == (f["frame"], f["reason"], f["detail"])


def test_pong():
    message, f = parsed("pong")
    assert message.number == f["frame"]


def test_find():
    frame, version, f = vector("find")
    assert wire.find(f["frame"], f["handle"].encode(), version) == frame


def test_found():
    message, f = parsed("found")
    code, budget, unit = wire.found(message)
    assert (message.number, str(weir.Verdict(code)), budget, unit.hex()) == (f["frame"], f["verdict"], f["budgetId"], f["unit"])


def test_extend():
    frame, version, f = vector("extend")
    holds = b"".join(wire.EXTENDING.pack(bytes.fromhex(hold["token"]), hold["confirmMs"]) for hold in f["holds"])
    assert wire.extend(f["frame"], holds, version) == frame


def test_extended():
    message, f = parsed("extended")
    found = [(str(weir.Verdict(code)), flags, end) for code, flags, end in wire.entries(message, wire.EXTENSION)]
    assert message.number == f["frame"] and found == [(a["verdict"], a["flags"], a["deadlineMs"]) for a in f["answers"]]


@pytest.mark.parametrize("name", ["extended", "found", "welcome", "decided", "resolved", "refused", "pong", "books", "hello"])
def test_a_broken_frame_is_read_or_refused(name):
    """20,000 changed frames: each is read, left out, or a ProtocolError; nothing else is raised."""
    frame, _, _ = vector(name)
    chance = random.Random(7700)
    for _ in range(3000):
        changed = bytearray(frame[: chance.choice((len(frame), chance.randrange(len(frame) + 1)))])
        for _ in range(chance.randrange(4)):
            if changed:
                changed[chance.randrange(len(changed))] = chance.randrange(256)
        try:
            wire.frame_length(changed, 0, 1 << 20)
            message = wire.parse(bytes(changed))
            if message is None:
                continue
            if message.template == wire.WELCOME:
                wire.welcome(message)
            elif message.template == wire.REFUSED:
                wire.refusal(message)
            elif message.template == wire.FOUND:
                wire.found(message)
            else:
                for layout in (wire.DECISION, wire.RESOLUTION, wire.EXTENSION):
                    list(wire.entries(message, layout))
        except wire.ProtocolError:
            pass
