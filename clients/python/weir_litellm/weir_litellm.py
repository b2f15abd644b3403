"""Weir as the budgets of a LiteLLM proxy: each call reserves the most that it can cost, and settles what it did cost.

    litellm_settings:
      callbacks: ["weir_litellm.hook"]

The environment configures it: WEIR_URL, WEIR_TOKEN, WEIR_BUDGETS, WEIR_UNIT, WEIR_CONFIRM_MS, WEIR_NO_PRICE,
WEIR_UNREACHABLE. README.md explains them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import re
import threading
import time
from collections import OrderedDict
from decimal import ROUND_CEILING, Decimal
from typing import Any, NamedTuple

import litellm
import weir
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from weir import Verdict

log = logging.getLogger("weir")

NAMES = ("key", "user", "team", "org", "tag", "model")
"""What a pattern of WEIR_BUDGETS can name."""
BUDGETS_MAX = 8
"""Budgets of one hold at most."""
HOLD_S = 3600
"""After so long a hold that nothing ended is the node's: it has expired there, or stays held."""
RELEASE_WAIT = 1.0
"""So long a failed call waits for its money to be given back; after it that goes on behind it."""
LIMITS = ("max_completion_tokens", "max_tokens", "max_output_tokens")
"""Where a request says how long its answer may be. Of several a provider may take any."""
OVER_MAX = 100
"""A settle of more than so many times its hold is refused by the node: the rest is booked as a spend."""
_UNKNOWN = frozenset((Verdict.UNREACHABLE, Verdict.TIMEOUT, Verdict.JOURNAL, Verdict.CLOSED, Verdict.BUSY, Verdict.CUT_OFF))


class Settings(NamedTuple):
    """The environment, read once."""

    patterns: tuple[str, ...]
    unit: str
    confirm_ms: int
    """How long after the proxy a call keeps its money; renewed while the call runs."""
    no_price: str
    """``deny``, ``allow``, or the amount of a flat price."""
    allow_unreachable: bool

    @staticmethod
    def read(env: Any = os.environ) -> Settings:
        """Reads and checks the environment; a ValueError says which variable is wrong."""
        given = env.get("WEIR_BUDGETS", "llm/{key}")
        patterns = tuple(pattern.strip() for pattern in given.split(","))
        unknown = set(re.findall(r"\{([^}]*)\}", given)) - set(NAMES)
        if unknown or not all(patterns) or not 1 <= len(set(patterns)) == len(patterns) <= BUDGETS_MAX:
            names = ", ".join(NAMES)
            raise ValueError(f"WEIR_BUDGETS={given!r}: expected 1 to {BUDGETS_MAX} patterns of {names} in braces, such as llm/{{team}}/{{key}}")
        unit = env.get("WEIR_UNIT", "USDn")
        confirm = env.get("WEIR_CONFIRM_MS", "60000")
        if not confirm.isascii() or not confirm.isdigit() or not 1_000 <= int(confirm) <= 3_600_000:
            raise ValueError(f"WEIR_CONFIRM_MS={confirm!r}: expected milliseconds from 1000 to 3600000, and no more than ledger.billing_ms")
        no_price = env.get("WEIR_NO_PRICE", "deny")
        if no_price not in ("deny", "allow"):
            kind, _, flat = no_price.partition(":")
            if kind != "flat" or weir.Amount.parse(flat, unit).base <= 0:
                raise ValueError(f"WEIR_NO_PRICE={no_price!r}: expected deny, allow, or a price such as flat:0.05")
            no_price = flat
        unreachable = env.get("WEIR_UNREACHABLE", "deny")
        if unreachable not in ("deny", "allow"):
            raise ValueError(f"WEIR_UNREACHABLE={unreachable!r}: expected deny or allow")
        return Settings(patterns, unit, int(confirm), no_price, unreachable == "allow")


class Call(NamedTuple):
    """A call that is under way."""

    data: dict[str, Any]
    """The proxy's own object of the call: clients may choose its id."""
    since: float
    budgets: tuple[str, ...] = ()
    hold: weir.Hold | None = None
    """None while it asks for it, and where it needs none."""

    def is_of(self, data: dict[str, Any]) -> bool:
        """Whether this is the proxy's object of the call, or a copy of it."""
        request = self.data.get("proxy_server_request")
        return self.data is data or (request is not None and data.get("proxy_server_request") is request)

    @property
    def budget(self) -> str:
        """For people."""
        return ", ".join(self.budgets)


class Hook(CustomLogger):  # type: ignore[misc]
    """The callback. ``counts`` says how many calls were refused, let through without a hold, and ended without a price."""

    def __init__(self, settings: Settings | None = None, client: Any = None) -> None:
        super().__init__()
        self.settings = settings or Settings.read()
        self.counts = {"refused": 0, "unreachable_denied": 0, "unreachable_allowed": 0, "no_price_denied": 0, "no_price_allowed": 0}
        self._client = client
        self._opening: asyncio.Lock | None = None
        self._calls: OrderedDict[str, Call] = OrderedDict()
        # The estimator loads its tables at its first use, which takes seconds.
        threading.Thread(target=_warm, name="weir-warm", daemon=True).start()

    # --- before the call ---

    async def async_pre_call_hook(self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str) -> None:
        """Reserves the most that the call can cost, or raises an HTTPException: 429, 402, or 503 where the node cannot be asked."""
        call_id = str(data.get("litellm_call_id") or "")
        if not call_id:
            raise _denied(400, "the call has no id: what it costs could not be booked")
        if (running := self._calls.get(call_id)) is not None:
            if running.is_of(data):
                return
            raise _denied(409, f"a call with the id {call_id} is under way: send another x-litellm-call-id, or none")
        self._calls[call_id] = Call(data, time.monotonic())
        try:
            await self._reserve(call_id, user_api_key_dict, data)
        except BaseException:
            self._calls.pop(call_id, None)
            raise
        now = time.monotonic()
        for old, call in list(self._calls.items())[:2]:
            if now - call.since > HOLD_S:
                del self._calls[old]
                if call.hold is not None:
                    log.warning("call %s never ended: its hold on %s is left to the node", old, call.budget)
                    call.hold.detach()

    async def _reserve(self, call_id: str, user_api_key_dict: Any, data: dict[str, Any]) -> None:
        patterns = self.settings.patterns
        found = (budget_of(pattern, user_api_key_dict, data) for pattern in patterns)
        budgets = tuple(dict.fromkeys(budget for budget in found if budget is not None))
        if not budgets:
            raise _denied(402, f"no budget: {', '.join(patterns)}: each has a name without a value in this call")
        asked = budgets if len(budgets) > 1 else budgets[0]
        most = await self._most(user_api_key_dict, data)
        if most is None:
            return
        try:
            client = await self._open()
            hold = await client.reserve(asked, most, self.settings.unit, confirm_ms=self.settings.confirm_ms, renew=True)
        except weir.WeirError as error:
            log.error("a call could not ask its budget: %s", error)
            hold = weir.Refused(Verdict.UNREACHABLE, str(error))
        if isinstance(hold, weir.Refused):
            return self._refuse(", ".join(budgets), most, hold)
        self._calls[call_id] = Call(data, time.monotonic(), budgets, hold)

    def _refuse(self, budget: str, most: Decimal, no: weir.Refused) -> None:
        if no.verdict in _UNKNOWN:
            if self.settings.allow_unreachable:
                self.counts["unreachable_allowed"] += 1
                return
            self.counts["unreachable_denied"] += 1
            raise _denied(503, f"budget {budget} cannot be asked: {no.verdict}", retry_after=1)
        self.counts["refused"] += 1
        message = f"budget {no.budget or budget}: {no.verdict}: the call may cost {most} {self.settings.unit}; {no.detail}"
        raise _denied(402 if no.retry_after is None else 429, message, retry_after=no.retry_after)

    async def _most(self, key: Any, data: dict[str, Any]) -> Decimal | None:
        """The most that a call can cost; None where it needs no hold."""
        estimate = await estimate_of(data, getattr(key, "request_route", None) or "/chat/completions")
        most = exact(estimate, self.settings.unit)
        if most:
            return most
        if most is not None and not exact(await estimate_of({**data, LIMITS[0]: 1_000, "messages": [{"role": "user", "content": "a price?"}]}, "/chat/completions"), "USDn"):
            return None  # the model is free
        if self.settings.no_price == "deny":
            self.counts["no_price_denied"] += 1
            raise _denied(402, f"model {data.get('model')}: its price is not known")
        if self.settings.no_price == "allow":
            self.counts["no_price_allowed"] += 1
            return None
        return Decimal(self.settings.no_price)

    async def _open(self) -> Any:
        if self._client is None:
            self._opening = self._opening or asyncio.Lock()
            async with self._opening:
                if self._client is None:
                    self._client = await weir.connect(name="weir-litellm").open()
        return self._client

    # --- after it ---

    async def async_log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
        """Settles what the call did cost: also a stream's part, where its client went away."""
        call = self._calls.pop(str(kwargs.get("litellm_call_id") or ""), None)
        if call is not None and call.hold is not None:
            await self._in_its_loop(self._settle(call, call.hold, kwargs.get("response_cost")))

    async def _settle(self, call: Call, hold: weir.Hold, cost: Any) -> None:
        spent = exact(cost, self.settings.unit)
        most = hold.amount
        assert most is not None
        if spent is None:
            log.warning("a call on %s ended without a price: its whole hold of %s is booked", call.budget, most)
            spent = most.decimal
        within = min(spent, most.decimal * OVER_MAX)
        outcome = await hold.settle(within)
        if spent > within:
            asked = call.budgets if len(call.budgets) > 1 else call.budgets[0]
            outcome = await self._client.spend(asked, spent - within, self.settings.unit)
        if not outcome.verdict.booked:
            log.error("%s of %s were not booked: %s", spent, call.budget, outcome.verdict)

    async def async_post_call_failure_hook(
        self, request_data: dict[str, Any], original_exception: Exception, user_api_key_dict: Any, traceback_str: str | None = None
    ) -> None:
        """Gives the money back: the call failed for good. (`async_log_failure_event` fires for each attempt of a retry.)"""
        call_id = str(request_data.get("litellm_call_id") or "")
        call = self._calls.get(call_id)
        # Another call with its id that fails, or was refused for it, does not end it.
        if call is not None and call.is_of(request_data):
            del self._calls[call_id]
            if call.hold is not None:
                await self._in_its_loop(_release(call.hold))

    async def _in_its_loop(self, work: Any) -> None:
        """Runs work on the loop of the client: the proxy may log on another."""
        loop = self._client.loop
        if loop is asyncio.get_running_loop():
            await work
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


async def _release(hold: weir.Hold) -> None:
    await hold.release(timeout=RELEASE_WAIT)


def _warm() -> None:
    try:
        from litellm.proxy.spend_tracking import budget_reservation  # noqa: F401

        litellm.token_counter(model="gpt-4o", text="warm")
    except Exception as error:  # the first call says what is wrong
        log.debug("the estimator is not warm: %s", error)


def bounded(data: dict[str, Any]) -> dict[str, Any]:
    """The request with the largest of its limits as its only one; an HTTPException where one is no number of tokens."""
    inner = data.get("inferenceConfig")
    given = {name: data[name] for name in (*LIMITS, "n", "best_of") if data.get(name) is not None}
    if isinstance(inner, dict) and inner.get("maxTokens") is not None:
        given["inferenceConfig.maxTokens"] = inner["maxTokens"]
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise _denied(400, f"{name}: {value!r}: expected a whole number of at least 1")
    limits = [value for name, value in given.items() if name not in ("n", "best_of")]
    rest = {name: value for name, value in data.items() if name not in LIMITS and name != "inferenceConfig"}
    return {**rest, LIMITS[0]: max(limits)} if limits else rest


async def estimate_of(data: dict[str, Any], route: str) -> float | None:
    """The proxy's own estimate of the most that a request can cost; None for a model without a price."""
    from litellm.proxy import proxy_server
    from litellm.proxy.spend_tracking import budget_reservation as estimator

    data, router = bounded(data), proxy_server.llm_router
    tokens = await estimator.count_request_input_tokens(request_body=data, route=route, llm_router=router)
    return estimator.estimate_request_max_cost(request_body=data, route=route, llm_router=router, input_token_counts=tokens)


def exact(cost: Any, unit: str) -> Decimal | None:
    """A cost, which LiteLLM has as a float, up to the next base unit; None where it is no amount."""
    if isinstance(cost, bool) or not isinstance(cost, (int, float, Decimal)):
        return None
    value = Decimal(repr(cost)) if isinstance(cost, float) else Decimal(cost)
    if not value.is_finite() or value < 0 or value > 1_000_000:
        return None
    return value.quantize(Decimal(1).scaleb(-(9 if unit.endswith("n") else 6)), ROUND_CEILING)


def budget_of(pattern: str, key: Any, data: dict[str, Any]) -> str | None:
    """The handle of a call's budget; None where a name of the pattern has no value."""
    tags = (data.get("metadata") or {}).get("tags") or data.get("tags") or [None]
    values = {
        "key": getattr(key, "key_alias", None) or getattr(key, "token", None),
        "user": getattr(key, "user_id", None),
        "team": getattr(key, "team_alias", None) or getattr(key, "team_id", None),
        "org": getattr(key, "org_id", None),
        "tag": tags[0] if isinstance(tags, list) else None,
        "model": data.get("model"),
    }
    if any(values[name] in (None, "") for name in re.findall(r"\{([^}]*)\}", pattern)):
        return None
    return re.sub(r"\{([^}]*)\}", lambda name: weir.handle_part(str(values[name[1]])), pattern)


def _denied(status: int, message: str, retry_after: float | None = None) -> HTTPException:
    headers = None if retry_after is None else {"Retry-After": str(max(1, math.ceil(retry_after)))}
    return HTTPException(status_code=status, detail={"error": message}, headers=headers)


def __getattr__(name: str) -> Any:
    """The hook is made when the proxy asks for it, so that importing this module reads no environment."""
    if name == "hook":
        globals()["hook"] = made = Hook()
        return made
    raise AttributeError(f"module 'weir_litellm' has no attribute {name!r}")
