"""A capability of Pydantic AI: each request of an agent to a model reserves the most that it can cost, and settles what it did cost.

    from weir.pydantic_ai import Budget
    agent = Agent("openai:gpt-4o-mini", capabilities=[Budget("llm/team-42")])     # WEIR_URL and WEIR_TOKEN say where Weir is

It works with every model, streamed or not. A refusal ends the run with a `weir.RefusedError`; no request is sent. Where the run is
cancelled on the way, all of the estimate is booked, because the provider may bill it. Clients that `weir.llm.wrap` guards already need no
capability beside it. Prices are those of the package `genai-prices`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from genai_prices import Usage
from pydantic_ai import RunContext
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse
from pydantic_ai.models import ModelRequestContext

from ._hold import Hold, Refused
from ._sync import SyncClient
from ._verdict import Verdict, WeirError
from ._work import RefusedError, handle_part
from .llm import OUTPUT_MOST, Guard


@dataclass
class Budget(AbstractCapability[Any]):
    """Holds money of a budget for each request to a model."""

    budget: str | Callable[[RunContext[Any]], str] = "llm/{model}"
    """A handle, in which ``{model}`` is the model's name; or a function of the run."""
    unit: str = "USDn"
    """The budget's unit."""
    weir: SyncClient | None = None
    """A client of ``weir.connect_sync``; that of the environment if None."""
    output_most: int = OUTPUT_MOST
    """Tokens of an answer where the model's settings name no ``max_tokens``."""

    async def wrap_model_request(self, ctx: RunContext[Any], *, request_context: ModelRequestContext, handler: Any) -> ModelResponse:
        """Reserves before the request, and settles after it."""
        model, guard = request_context.model, Guard("", self.unit, self.weir, self.output_most)
        url = str(getattr(model, "base_url", None) or "")
        budget = self.budget(ctx) if callable(self.budget) else self.budget.replace("{model}", handle_part(model.model_name))
        most = guard.price(model.model_name, url, self._most(request_context))
        if not most:
            raise RefusedError(budget, Refused(Verdict.BAD_AMOUNT, f"model {model.model_name}: its price is not known"))
        hold = await self._reserve(guard, budget, most)
        try:
            response: ModelResponse = await handler(request_context)
        except asyncio.CancelledError:
            guard.start(hold.settle(most))
            raise
        except BaseException:
            guard.start(hold.release())
            raise
        used = response.usage
        usage = Usage(
            input_tokens=used.input_tokens,
            cache_write_tokens=used.cache_write_tokens,
            cache_read_tokens=used.cache_read_tokens,
            output_tokens=used.output_tokens,
        )
        cost = guard.price(response.model_name or model.model_name, url, usage) if used.has_values() else most
        await asyncio.shield(asyncio.wrap_future(guard.start(hold.settle(most if cost is None else cost))))
        return response

    def _most(self, request: ModelRequestContext) -> Usage:
        """No token is shorter than a byte."""
        parameters = request.model_request_parameters
        tools = [*parameters.function_tools, *parameters.output_tools]
        sizes = (len(repr((tool.name, tool.description, tool.parameters_json_schema)).encode()) for tool in tools)
        settings = request.model_settings or {}
        output = settings.get("max_tokens") or self.output_most
        return Usage(input_tokens=len(ModelMessagesTypeAdapter.dump_json(request.messages)) + sum(sizes), output_tokens=output)

    async def _reserve(self, guard: Guard, budget: str, most: Decimal) -> Hold:
        asked = guard.start(guard.reserve(budget, most))
        try:
            answer = await asyncio.shield(asyncio.wrap_future(asked))
        except asyncio.CancelledError:
            asked.add_done_callback(guard.given_back)
            raise
        except WeirError as error:
            raise RefusedError(budget, Refused(Verdict.UNREACHABLE, str(error))) from error
        if isinstance(answer, Refused):
            raise RefusedError(budget, answer)
        return answer
