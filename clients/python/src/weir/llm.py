"""Budgets around the SDKs of OpenAI and Anthropic: each request reserves the most that it can cost, and settles what it did cost.

    import weir.llm
    client = weir.llm.wrap(OpenAI(), budget="llm/team-42")     # WEIR_URL and WEIR_TOKEN say where Weir is

Every request of the client is guarded, whatever method makes it, each retry by itself. A refusal is an HTTP answer, so that the SDK's own errors tell
it: 429 with Retry-After (`RateLimitError`, which the SDK repeats), 402 where waiting does not help, 503 where Weir cannot be asked.
Prices are those of the package `genai-prices`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import json
import logging
import math
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from decimal import ROUND_CEILING, Decimal
from typing import Any, NamedTuple, TypeVar

from genai_prices import Usage, calc_price, extract_usage

from ._amount import unit_decimals
from ._hold import Hold, Refused
from ._json import JsonClient
from ._sync import SyncClient
from ._verdict import UNANSWERED, Verdict, WeirError
from ._work import RENEWED, default, handle_part

log = logging.getLogger("weir")
T = TypeVar("T")
OUTPUT_MOST = 16_384
"""Tokens that a request is believed to bring at most where it names no limit."""
END_WAIT = 2.0
"""So long a finished answer waits until it is booked, in seconds; after it that goes on behind it."""
OVER_MAX = 100
"""A settle of more than so many times its hold is refused by the node: the rest is booked as a spend."""
_LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_DELTAS = ("content_block_delta", "response.output_text.delta")
_FREE = ("/count_tokens", "/input_tokens", "/moderations")
_UNPRICED = ("/batches", "/runs", "/invoke", "/invoke-with-response-stream", ":rawPredict", ":streamRawPredict")
"""Requests that cost money, and do not say of which model."""

def wrap(
    client: T, *, budget: str | Callable[[dict[str, Any]], str] = "llm/{model}", unit: str = "USDn", weir: SyncClient | None = None,
    output_most: int = OUTPUT_MOST,
) -> T:  # fmt: skip
    """Guards a client of the package `openai` or `anthropic`, of either kind, and returns it.

    ``budget``: a handle, in which ``{model}`` is the request's model, or a function of the request's body. ``weir``: a client of
    ``weir.connect_sync``; that of the environment if None. ``output_most``: tokens of an answer without a limit of its own; a request
    that names one can cost no more.
    """
    inner = client._client  # type: ignore[attr-defined]
    family = next(base.__module__.partition(".")[0] for base in type(inner).__mro__ if base.__module__.startswith("httpx"))
    guard = Guard(budget, unit, weir, output_most)
    inner.send = (_async_send if hasattr(inner, "aclose") else _send)(guard, inner.send, sys.modules[family])
    return client


class Plan(NamedTuple):
    """What a request is about."""

    budget: str
    most: Decimal
    model: str
    url: str
    flavor: str
    tokens: int
    """Of the request, at most: its bytes."""
    hides_usage: bool
    """The caller did not ask for the chunk with the usage, this module did."""


class Denied(NamedTuple):
    """A request that is not sent."""

    status: int
    message: str
    retry_after: float | None = None

    def response(self, http: Any, request: Any) -> Any:
        """The answer in place of the provider's."""
        headers = {} if self.retry_after is None else {"Retry-After": str(max(1, math.ceil(self.retry_after)))}
        error = {"type": "weir", "message": self.message, "code": self.status}
        return http.Response(self.status, json={"type": "error", "error": error}, headers=headers, request=request)


class Guard:
    """What the wrapped clients share."""

    def __init__(self, budget: str | Callable[[dict[str, Any]], str], unit: str, weir: SyncClient | None, output_most: int) -> None:
        self._budget, self._unit, self._weir, self._output_most = budget, unit, weir, output_most

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Runs work on the loop of Weir's client: callers may have any loop, or none."""
        return asyncio.run_coroutine_threadsafe(work, (self._weir or default())._loop)

    def wait(self, work: Coroutine[Any, Any, Any]) -> None:
        """Runs work, and waits for it, but not for ever."""
        with contextlib.suppress(TimeoutError, concurrent.futures.TimeoutError):
            self.start(work).result(END_WAIT)

    def plan(self, http: Any, request: Any) -> tuple[Any, Plan | Denied | None]:
        """The request to send, and what it may cost; None where it costs nothing."""
        path, body = request.url.path, None
        if request.method == "POST" and "json" in request.headers.get("content-type", ""):
            body = json.loads(request.content)
        if not isinstance(body, dict) or "model" not in body or path.endswith(_FREE):
            multipart = "multipart" in request.headers.get("content-type", "") and "/files" not in path
            costs = request.method == "POST" and (multipart or path.endswith(_UNPRICED))
            return request, Denied(402, f"{path}: its price is not known") if costs else None
        flavor = "default" if path.endswith("/messages") else path.rstrip("/").rpartition("/")[2]
        flavor = {"completions": "chat", "default": "default"}.get(flavor, flavor)
        hides_usage = flavor == "chat" and bool(body.get("stream")) and not (body.get("stream_options") or {}).get("include_usage")
        if hides_usage:
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        content = json.dumps(body).encode() if hides_usage else request.content
        headers = [(name, value) for name, value in request.headers.multi_items() if name not in ("content-length", "accept-encoding")]
        # What is streamed is read on its way.
        headers.append(("accept-encoding", "identity"))
        sent = http.Request(request.method, request.url, headers=headers, content=content, extensions=request.extensions)
        output = max((body[name] for name in _LIMITS if isinstance(body.get(name), int)), default=self._output_most)
        copies = max(int(body.get(name) or 1) for name in ("n", "best_of"))
        model, url = str(body["model"]), str(request.url)
        most = self.price(model, url, Usage(input_tokens=len(content), output_tokens=0 if flavor == "embeddings" else output * copies))
        if most is None:
            return request, Denied(402, f"model {model}: its price is not known")
        if not most:
            return request, None
        budget = self._budget(body) if callable(self._budget) else self._budget.replace("{model}", handle_part(model))
        return sent, Plan(budget, most, model, url, flavor, len(content), hides_usage)

    def price(self, model: str, url: str, usage: Any) -> Decimal | None:
        """What tokens cost, up to the next base unit; None for a model that nobody knows."""
        for where in ({"provider_api_url": url}, {}):
            try:
                price = calc_price(usage, model, **where).total_price  # type: ignore[call-overload]
            except LookupError:
                continue
            return Decimal(price).quantize(Decimal(1).scaleb(-unit_decimals(self._unit)), ROUND_CEILING)
        return None

    async def reserve(self, budget: str, most: Decimal) -> Hold | Refused:
        """Holds an amount of the guard's unit."""
        client = (self._weir or default())._client
        return await client.reserve(budget, most, self._unit, **RENEWED)

    async def begin(self, plan: Plan) -> Hold | Denied:
        """Reserves, or says why not."""
        try:
            answer = await self.reserve(plan.budget, plan.most)
        except WeirError as error:
            answer = Refused(Verdict.UNREACHABLE, str(error))
        if isinstance(answer, Hold):
            return answer
        if answer.verdict in UNANSWERED:
            return Denied(503, f"budget {plan.budget} cannot be asked: {answer.verdict}", 1)
        message = f"budget {plan.budget}: {answer.verdict}: the request may cost {plan.most} {self._unit}; {answer.detail}"
        return Denied(402 if answer.retry_after is None else 429, message, answer.retry_after)

    async def end(self, hold: Hold, plan: Plan, meter: Meter) -> None:
        """Settles what was counted."""
        usage = meter.usage(plan)
        cost = None if usage is None else self.price(meter.model or plan.model, plan.url, usage)
        if cost is None:
            log.warning("what a request of %s did cost is not known: its whole hold is booked", plan.model)
            cost = plan.most
        client, within = (self._weir or default())._client, min(cost, plan.most * OVER_MAX)
        if not isinstance(client, JsonClient):
            within = cost  # the batch door takes any settle
        verdict = (await hold.settle(within)).verdict
        if cost > within and isinstance(client, JsonClient):
            verdict = (await client.spend(plan.budget, cost - within, self._unit)).verdict
        if not verdict.booked:
            log.error("%s of %s were not booked: %s", cost, plan.budget, verdict)

    async def fail(self, hold: Hold) -> None:
        """Gives the money back."""
        await hold.release()

    async def broken(self, http: Any, error: BaseException, hold: Hold, plan: Plan) -> None:
        """Gives the money back where the request cannot have reached the provider, and books all of it where it may have."""
        if isinstance(error, (http.ConnectError, http.ConnectTimeout, http.PoolTimeout, http.UnsupportedProtocol)):
            await hold.release()
        else:
            log.warning("a request of %s has no answer, and may be billed: its whole hold is booked", plan.model)
            await hold.settle(plan.most)

    def given_back(self, asked: Future[Any]) -> None:
        """Gives back what came after its caller was gone."""
        if isinstance(hold := asked.result(), Hold):
            self.start(self.fail(hold))


class Meter:
    """Reads the usage of an answer as it comes by."""

    def __init__(self, plan: Plan) -> None:
        self.model = ""
        self._plan = plan
        self._body: dict[str, Any] | None = None
        self._deltas = 0
        self._rest = b""
        self._is_whole = False

    def whole(self, content: bytes) -> None:
        """An answer that is not streamed."""
        self._is_whole = True
        with contextlib.suppress(ValueError):
            body = json.loads(content)
            if isinstance(body, dict):
                self._take(body)

    def chunk(self, data: bytes) -> bytes:
        """A part of a stream; what the caller gets of it."""
        *events, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        return b"".join(event + b"\n\n" for event in events if self._event(event))

    def last(self) -> bytes:
        """What is left at the end of a stream."""
        rest, self._rest = self._rest, b""
        if rest and self._body is None and not self._deltas:
            self.whole(rest)  # it was no stream of events
        return rest

    def _event(self, event: bytes) -> bool:
        for line in event.split(b"\n"):
            if not line.startswith(b"data:"):
                continue
            try:
                value = json.loads(line[5:])
            except ValueError:
                continue  # [DONE]
            if isinstance(value, dict):
                self._stream(value)
                if self._plan.hides_usage and value.get("choices") == [] and value.get("usage"):
                    return False
        return True

    def _stream(self, value: dict[str, Any]) -> None:
        kind = value.get("type")
        if kind in _DELTAS or (kind is None and value.get("choices")):
            self._deltas += 1
        if kind == "message_start":
            self._take(value.get("message") or {})
        elif kind == "message_delta" and self._body is not None:
            self._body = {**self._body, "usage": {**(self._body.get("usage") or {}), **(value.get("usage") or {})}}
            self._deltas = 0
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            self._take(value.get("response") or {})
        elif kind is None and value.get("usage"):
            self._take(value)

    def _take(self, body: dict[str, Any]) -> None:
        self._body, self.model = body, str(body.get("model") or "")

    def usage(self, plan: Plan) -> Any:
        """What was used: as the provider says, else of a stream the bytes of the request and a token for each part; None: nobody knows."""
        if self._body is not None and self._body.get("usage"):
            provider = "anthropic" if plan.flavor == "default" else "openai"
            try:
                usage = extract_usage(self._body, provider_id=provider, api_flavor=plan.flavor).usage
            except (LookupError, ValueError) as error:
                log.warning("the usage of %s cannot be read: %s", plan.model, error)
            else:
                # The first word of Anthropic's stream counts one token of output; the parts that came are more.
                if plan.flavor == "default" and self._deltas:
                    usage.output_tokens = max(usage.output_tokens or 0, self._deltas)
                return usage
        return None if self._is_whole else Usage(input_tokens=plan.tokens, output_tokens=self._deltas)


def _send(guard: Guard, send: Any, http: Any) -> Any:
    class Metered(http.SyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, meter: Meter, done: Callable[[], Any]) -> None:
            self._stream, self._meter, self._done = stream, meter, done

        def __iter__(self) -> Iterator[bytes]:
            for data in self._stream:
                yield self._meter.chunk(data)
            yield self._meter.last()

        def close(self) -> None:
            self._stream.close()
            done, self._done = self._done, lambda: None
            done()

    def guarded(request: Any, *, stream: bool = False, **more: Any) -> Any:
        sent, plan = guard.plan(http, request)
        if plan is None:
            return send(request, stream=stream, **more)
        hold = guard.start(guard.begin(plan)).result() if isinstance(plan, Plan) else plan
        if isinstance(hold, Denied):
            return hold.response(http, request)
        assert isinstance(plan, Plan)
        try:
            response = send(sent, stream=stream, **more)
        except BaseException as error:
            guard.start(guard.broken(http, error, hold, plan))
            raise
        if response.status_code >= 400:
            guard.wait(guard.fail(hold))
            return response
        meter = Meter(plan)
        if stream:
            response.stream = Metered(response.stream, meter, lambda: guard.wait(guard.end(hold, plan, meter)))
        else:
            meter.whole(response.content)
            guard.wait(guard.end(hold, plan, meter))
        return response

    return guarded


def _async_send(guard: Guard, send: Any, http: Any) -> Any:
    async def run(work: Coroutine[Any, Any, Any]) -> None:
        # A caller that is cancelled, or waits no longer, does not cancel what became of its money.
        await asyncio.wait([asyncio.wrap_future(guard.start(work))], timeout=END_WAIT)

    class Metered(http.AsyncByteStream):  # type: ignore[misc]
        def __init__(self, stream: Any, meter: Meter, done: Callable[[], Any]) -> None:
            self._stream, self._meter = stream, meter
            self._done: Callable[[], Any] | None = done

        async def __aiter__(self) -> AsyncIterator[bytes]:
            async for data in self._stream:
                yield self._meter.chunk(data)
            yield self._meter.last()

        async def aclose(self) -> None:
            done, self._done = self._done, None
            try:
                await self._stream.aclose()
            finally:
                if done is not None:
                    await done()

    async def begin(plan: Plan) -> Hold | Denied:
        asked = guard.start(guard.begin(plan))
        try:
            return await asyncio.shield(asyncio.wrap_future(asked))
        except asyncio.CancelledError:
            asked.add_done_callback(guard.given_back)
            raise

    async def guarded(request: Any, *, stream: bool = False, **more: Any) -> Any:
        sent, plan = guard.plan(http, request)
        if plan is None:
            return await send(request, stream=stream, **more)
        hold = await begin(plan) if isinstance(plan, Plan) else plan
        if isinstance(hold, Denied):
            return hold.response(http, request)
        assert isinstance(plan, Plan)
        try:
            response = await send(sent, stream=stream, **more)
        except BaseException as error:
            guard.start(guard.broken(http, error, hold, plan))
            raise
        if response.status_code >= 400:
            await run(guard.fail(hold))
            return response
        meter = Meter(plan)
        if stream:
            response.stream = Metered(response.stream, meter, lambda: run(guard.end(hold, plan, meter)))
        else:
            meter.whole(response.content)
            await run(guard.end(hold, plan, meter))
        return response

    return guarded
