"""Requests of a wrapped SDK, as the SDKs make them: over httpx, to a provider that answers strangely."""

from __future__ import annotations

import asyncio
import json
import time
import types
from decimal import Decimal

import httpx
import pytest

import weir
from weir import llm

BODY = {"model": "gpt-4o-mini", "max_tokens": 100, "messages": []}
MILLION = {"model": "gpt-4o-mini", "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}}
PART = b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n'
LENGTH = len(json.dumps({**BODY, "stream": True, "stream_options": {"include_usage": True}}))
"""Of the request of a stream; each byte counts as a token at 0.15 dollars a million, one of the answer is 0.60."""
CASES = [
    ("a cost above 100 holds", False, json.dumps(MILLION).encode(), Decimal("0.15")),
    ("no usage", False, b'{"model":"gpt-4o-mini"}', None),
    ("no JSON", False, b"<html>", None),
    ("a stream without usage", True, 3 * PART + b"data: [DONE]\n\n", (LENGTH * Decimal("0.15") + 3 * Decimal("0.60")) / 10**6),
]


def pieces(answer):
    yield from (answer[at : at + 30] for at in range(0, len(answer), 30))


async def async_pieces(answer):
    for piece in pieces(answer):
        yield piece


def wrapped(gate, budget, answer):
    """A client of each kind whose provider says this, in pieces."""
    one = httpx.Client(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=pieces(answer))))
    several = httpx.AsyncClient(transport=httpx.MockTransport(lambda _: httpx.Response(200, content=async_pieces(answer))))
    return [llm.wrap(types.SimpleNamespace(_client=client), budget=budget, unit="USDn", weir=gate)._client for client in (one, several)]


@pytest.fixture
def gate(tmp_path, request):
    url = request.getfixturevalue("url")
    with weir.connect_sync(url, timeout=20) as client:
        yield client


def left(gate, budget):
    """What a budget of one dollar has left, by what it refuses."""
    return gate.reserve(budget, "2", "USDn").left


@pytest.mark.parametrize(("what", "stream", "answer", "cost"), CASES)
def test_what_a_provider_may_answer(gate, what, stream, answer, cost):
    budget = "nanos/" + what.replace(" ", "-")
    one, several = wrapped(gate, budget, answer)
    url, body = "https://api.openai.com/v1/chat/completions", {**BODY, **({"stream": True} if stream else {})}
    with one.stream("POST", url, json=body) as response:
        assert b"".join(response.iter_bytes()) == answer
    spent = 1 - left(gate, budget)
    # Where nobody knows, the most that the request could cost.
    expected = cost if cost is not None else (len(json.dumps(body, separators=(",", ":"))) * Decimal("0.15") + 100 * Decimal("0.60")) / 10**6
    assert abs(spent - expected) <= expected / 20, (spent, expected)

    async def again():
        if not stream:
            assert (await several.post(url, json=body)).content == answer
            return
        async with several.stream("POST", url, json=body) as response:
            assert await response.aread() == answer

    # Each request of another loop.
    asyncio.run(again())
    asyncio.run(again())
    assert abs(1 - left(gate, budget) - 3 * spent) <= expected / 20, "read as it comes, or whole"


@pytest.mark.parametrize(("error", "is_booked"), [(httpx.ReadTimeout, True), (httpx.ReadError, True), (httpx.ConnectError, False)])
def test_a_request_without_an_answer_is_booked_where_it_may_have_arrived(gate, error, is_booked):
    def fail(request):
        raise error("gone", request=request)

    budget = f"nanos/{error.__name__.lower()}"
    one = llm.wrap(types.SimpleNamespace(_client=httpx.Client(transport=httpx.MockTransport(fail))), budget=budget, unit="USDn", weir=gate)._client
    with pytest.raises(error):
        one.post("https://api.openai.com/v1/chat/completions", json=BODY)
    for _ in range(200):
        if (spent := 1 - left(gate, budget)) == 0 or is_booked:
            break
        time.sleep(0.01)
    assert (spent > 0) == is_booked
    assert one.post("https://api.openai.com/v1/batches", json={"input_file_id": "f"}).status_code == 402


def test_a_stream_of_anthropic_without_a_usage(gate):
    events = [{"type": "message_start", "message": {"model": "claude-3-5-haiku-latest", "usage": None}}, {"type": "message_start"},
              {"type": "message_delta", "usage": None}, {"type": "response.failed"}]  # fmt: skip
    answer = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    one, _ = wrapped(gate, "nanos/anthropic", answer)
    body = {"model": "claude-3-5-haiku-latest", "max_tokens": 100, "messages": [], "stream": True}
    with one.stream("POST", "https://api.anthropic.com/v1/messages", json=body) as response:
        assert b"".join(response.iter_bytes()) == answer
    assert 0 < 1 - left(gate, "nanos/anthropic") < 1


def test_a_price_of_zero_needs_no_hold(gate, monkeypatch):
    one, _ = wrapped(gate, "nanos/free", b"{}")
    monkeypatch.setattr(llm, "calc_price", lambda *_, **__: types.SimpleNamespace(total_price=0))
    assert one.post("https://api.openai.com/v1/chat/completions", json=BODY).status_code == 200
    assert left(gate, "nanos/free") == 1
