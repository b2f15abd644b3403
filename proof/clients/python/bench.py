"""Measures what an ask costs the Python client in processor time, against a real node.

usage: bench.py ADDRESS [BUDGET] [SECONDS] [JSON-ADDRESS]
"""

import asyncio
import logging
import os
import sys
import time

import weir


async def measure(client, what, callers, entries, budget, seconds, ends):
    one = weir.Amount(1, "count")
    asks = [weir.Ask(budget, one) for _ in range(entries)]
    done = granted = 0
    began, before = time.monotonic(), os.times()

    async def caller():
        nonlocal done, granted
        while time.monotonic() - began < seconds:
            answers = await client.reserve_all(asks) if entries > 1 else [await client.reserve(budget, one)]
            done += entries
            for answer in answers:
                if answer:
                    granted += 1
                    if ends == "released":
                        answer.release_soon()
                    else:
                        answer.detach()

    await asyncio.gather(*(caller() for _ in range(callers)))
    took, after = time.monotonic() - began, os.times()
    own, kernel = after.user - before.user, after.system - before.system
    print(
        f"python: {callers:2} callers, {entries:3} asks a frame, {what:<9}: {own / done * 1e6:6.2f} us of processor an ask, {kernel / done * 1e6:6.2f} in "
        f"the kernel, {done / took:8.0f} asks/s, {100 * granted / done:3.0f} % granted",
        flush=True,
    )


async def main():
    address, budget, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    logging.disable(logging.WARNING)
    async with weir.connect(address, timeout=1) as client:
        await measure(client, "refused", 4, 100, 2**64 - 1, seconds, "")
        await measure(client, "granted", 4, 100, budget, seconds, "")
        await measure(client, "released", 4, 100, budget, seconds, "released")
        await measure(client, "granted", 4, 10, budget, seconds, "")
        await measure(client, "granted", 32, 1, budget, seconds, "")
    if len(sys.argv) > 4:
        async with weir.connect(f"http://{sys.argv[4]}", timeout=5) as client:
            for callers in (1, 8, 32):
                await measure(client, "over JSON", callers, 1, budget, seconds, "")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: bench.py ADDRESS [BUDGET] [SECONDS] [JSON-ADDRESS]")
    sys.argv += ["1", "2"][len(sys.argv) - 2 :] if len(sys.argv) < 4 else []
    asyncio.run(main())
