"""A provider of OpenAI's and Anthropic's calls. It counts what it bills, and fails as a model's name says: flaky ones once, broken always."""

import asyncio
import json
import sys

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse

IN, OUT = 20, 10
FLAKY = ("flaky", "gpt-4.1-nano")
WORD_S = 0.02
app = FastAPI()
bill: dict[str, int] = {}
tried: set[str] = set()


@app.get("/bill")
async def get_bill():
    return bill


def event(kind, **more):
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n"


def data(value):
    return f"data: {json.dumps(value)}\n\n"


async def anthropic(message, usage):
    begun = {**message, "content": [], "stop_reason": None, "usage": {"input_tokens": IN, "output_tokens": 1}}
    yield event("message_start", message=begun)
    yield event("content_block_start", index=0, content_block={"type": "text", "text": ""})
    for _ in range(OUT):
        yield event("content_block_delta", index=0, delta={"type": "text_delta", "text": "word "})
        await asyncio.sleep(WORD_S)
    yield event("content_block_stop", index=0)
    yield event("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage={"output_tokens": OUT})
    yield event("message_stop")


async def openai(base, usage):
    base = {**base, "object": "chat.completion.chunk"}
    for _ in range(OUT):
        yield data({**base, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "word "}, "finish_reason": None}]})
        await asyncio.sleep(WORD_S)
    yield data({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    yield data({**base, "choices": [], "usage": usage}) + "data: [DONE]\n\n"


@app.get("/v1/models")
async def models():
    return {"object": "list", "data": []}


@app.post("/{path:path}")
async def post(path: str, request: Request):
    body = await request.json()
    model, streamed = body["model"], body.get("stream")
    said = json.dumps(body)
    if model in FLAKY and said not in tried:
        tried.add(said)
        return JSONResponse({"error": {"message": "overloaded", "type": "server_error"}}, 503)
    if "broken" in model:
        return JSONResponse({"error": {"message": "it is broken", "type": "server_error"}}, 500)
    bill[model] = bill.get(model, 0) + 1
    text = "word " * OUT
    if path.endswith("/messages"):
        usage = {"input_tokens": IN, "output_tokens": OUT}
        message = {"id": "m", "type": "message", "role": "assistant", "model": model, "content": [{"type": "text", "text": text}],
                   "stop_reason": "end_turn", "stop_sequence": None, "usage": usage}  # fmt: skip
        return StreamingResponse(anthropic(message, usage), media_type="text/event-stream") if streamed else message
    usage = {"prompt_tokens": IN, "completion_tokens": OUT, "total_tokens": IN + OUT}
    base = {"id": "c", "created": 1, "model": model}
    if streamed:
        return StreamingResponse(openai(base, usage), media_type="text/event-stream")
    await asyncio.sleep(WORD_S)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return {**base, "object": "chat.completion", "choices": [choice], "usage": usage}


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="warning")
