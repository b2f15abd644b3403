"""Measures where the time of an ask goes when its event loop is busy, as a gateway's is: 200 callers compute, ask and compute again.

usage: lag.py ADDRESS [BUDGET] [BUSY_MS] [TIMEOUT_MS] [asyncio|uvloop]

It has three parts: from the call until the bytes leave, on the wire and in the node, and from the answer's arrival until the caller
wakes. A relay in a process of its own, which does nothing else, takes the two times in the middle.
"""

import asyncio
import logging
import multiprocessing
import socket
import statistics
import sys
import threading
import time

import weir
from weir import _wire as wire
from weir._connection import Connection

CALLERS = 200


def relay(target, ready, times):
    """Passes one connection on, and notes when each frame of asks and each answer came by."""
    listener = socket.create_server(("127.0.0.1", 0))
    ready.put(listener.getsockname()[1])
    client, _ = listener.accept()
    host, port = target.rsplit(":", 1)
    node = socket.create_connection((host, int(port)))
    seen = {wire.DECIDE: {}, wire.DECIDED: {}}

    def copy(source, sink, template):
        source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = bytearray()
        while data := source.recv(1 << 20):
            now = time.monotonic()
            sink.sendall(data)
            whole += data
            while (length := wire.frame_length(whole, 0, 1 << 24)) and len(whole) >= length:
                if wire._HEADER.unpack_from(whole, 6)[1] == template:
                    seen[template][wire._NUMBER.unpack_from(whole, wire.HEADER)[0]] = now
                del whole[:length]
        sink.shutdown(socket.SHUT_WR)

    back = threading.Thread(target=copy, args=(node, client, wire.DECIDED))
    back.start()
    copy(client, node, wire.DECIDE)
    back.join()
    times.put(seen)


def compute(seconds):
    """Keeps the loop busy, as reading a request and counting its tokens does."""
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass


async def play(port, budget, busy, timeout):
    frames = {}
    place, answer = Connection._place, weir.Client._answer

    def placed(self, flight):
        place(self, flight)
        frames.update((call, self._number) for call, _ in flight.parts)

    mine = {}

    async def answered(self, call, deadline):
        mine[asyncio.current_task()] = call
        return await answer(self, call, deadline)

    Connection._place, weir.Client._answer = placed, answered
    rows = []

    async def caller(client):
        await asyncio.sleep(0)
        compute(busy)
        began = time.monotonic()
        hold = await client.reserve(budget, weir.Amount(1), timeout=timeout)
        rows.append((began, frames.get(mine[asyncio.current_task()]), time.monotonic(), str(hold.verdict)))
        compute(busy)
        if hold:
            hold.detach()

    async with weir.connect(f"127.0.0.1:{port}", connections=1) as client:
        await client.reserve(budget, weir.Amount(1), timeout=5)
        await asyncio.gather(*(caller(client) for _ in range(CALLERS)))
    return rows


def main():
    logging.disable(logging.WARNING)
    target, budget, busy, timeout, loop = (sys.argv[1:] + ["1", "1", "20", "asyncio"][len(sys.argv) - 2 :])[:5]
    ready, times = multiprocessing.Queue(), multiprocessing.Queue()
    multiprocessing.Process(target=relay, args=(target, ready, times), daemon=True).start()
    work = play(ready.get(), int(budget) if budget.isdigit() else budget, float(busy) / 1000, float(timeout) / 1000)
    if loop == "uvloop":
        import uvloop

        rows = uvloop.run(work)
    else:
        rows = asyncio.run(work)
    seen = times.get()
    verdicts = [verdict for _, _, _, verdict in rows]
    counts = ", ".join(f"{verdicts.count(one)} {one}" for one in sorted(set(verdicts)))
    print(f"python on {loop}, {CALLERS} callers with {busy} ms of other work before and after each ask, timeout {timeout} ms: {counts}")
    parts = {"before the bytes leave": [], "on the wire, in the node": [], "from arrival to waking": []}
    for began, frame, woke, _ in rows:
        left, back = seen[wire.DECIDE].get(frame), seen[wire.DECIDED].get(frame)
        if left and back:
            for part, took in zip(parts.values(), (left - began, back - left, woke - back)):
                part.append(1000 * took)
    for name, took in parts.items():
        if took:
            print(f"  {name:<24} median {statistics.median(took):8.2f} ms, most {max(took):8.2f} ms")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
