"""FastAPI and Pydantic AI against a real node."""

from __future__ import annotations

import asyncio
import time

import pytest
from fastapi import Depends, FastAPI
from httpx import ASGITransport, AsyncClient
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage

import weir
from weir.fastapi import Budget, Held
from weir.pydantic_ai import Budget as ModelBudget


def has(client, budget, amount):
    """Whether a budget has an amount, once what is on its way is back."""
    end = time.monotonic() + 20
    while not (hold := client.reserve(budget, amount, "USD")):
        if hold.verdict == weir.Verdict.EXHAUSTED and time.monotonic() > end:
            return False
        time.sleep(0.05)
    return hold.release().verdict == weir.Verdict.RELEASED


def test_a_route_has_a_budget(url):
    with weir.connect_sync(url, timeout=20) as client:
        app = FastAPI()

        @app.get("/{team}/{cost}")
        async def spend(cost: str, held: Held = Depends(Budget("llm/{team}/{user}", most="0.40/USD", weir=client))) -> str:
            if cost == "broken":
                raise RuntimeError("the route fails")
            return str((await held.settle(cost)).verdict) if cost != "nothing" else "nothing"

        async def play():
            async with AsyncClient(transport=ASGITransport(app, raise_app_exceptions=False), base_url="http://x") as http:
                get = [("0.25", 200), ("nothing", 200), ("broken", 500), ("0.30", 200), ("0.05", 200), ("0.40", 200), ("0.01", 402)]
                for cost, status in get:
                    answer = await http.get(f"/a/{cost}?user=ann b")
                    assert answer.status_code == status, (cost, answer.text)
                assert "llm/a/ann:20b" in answer.json()["detail"] and "exhausted" in answer.json()["detail"]
                assert (await http.get("/a/0.01")).status_code == 422

        asyncio.run(play())


def test_an_agent_has_a_budget(url):
    """Of 1.00, by the prices of gpt-4o: 2.50 and 10 a million tokens."""
    with weir.connect_sync(url, timeout=20) as client:

        def answer(messages, info):
            if "fail" in str(messages[-1]):
                raise RuntimeError("the model fails")
            return ModelResponse([TextPart("yes")], usage=RequestUsage(input_tokens=40_000, output_tokens=20_000), model_name="gpt-4o")

        model = FunctionModel(answer, model_name="gpt-4o")
        agent = Agent(model, capabilities=[ModelBudget("llm/a/b", "USD", client)])

        async def play():
            with pytest.raises(RuntimeError):
                await agent.run("fail")
            for _ in range(3):
                assert (await agent.run("go")).output == "yes"
            with pytest.raises(weir.RefusedError, match="exhausted"):
                await agent.run("go")

        asyncio.run(play())
        assert has(client, "llm/a/b", "0.10")
        assert client.reserve("llm/a/b", "0.11", "USD").verdict in (weir.Verdict.EXHAUSTED, weir.Verdict.PURSE_EMPTY)
        unknown = Agent(FunctionModel(answer, model_name="nobody"), capabilities=[ModelBudget("llm/a/c", "USD", client)])
        with pytest.raises(weir.RefusedError, match="price is not known"):
            asyncio.run(unknown.run("go"))
