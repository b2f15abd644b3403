"""Measures what a hold of eight budgets costs a real node beside one of a single budget: its processor time of a reserve and a settle.

usage: eight.py JSON-ADDRESS PID
"""

import asyncio
import os
import sys

import weir

CALLERS, CALLS = 64, 12_800


def used(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(client, pid, budgets, **more):
    async def caller():
        for _ in range(CALLS // CALLERS):
            hold = await client.reserve(budgets, weir.Amount(1, "count"), **more)
            await hold.settle(1)

    before = used(pid)
    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return (used(pid) - before) / CALLS * 1e6


async def main():
    address, pid = sys.argv[1], sys.argv[2]
    async with weir.connect(f"http://{address}", timeout=30) as client:
        await measure(client, pid, 1)
        for _ in range(3):
            plain, one = await measure(client, pid, 1), await measure(client, pid, 1, confirm_ms=60_000)
            eight = await measure(client, pid, list(range(1, 9)), confirm_ms=60_000)
            print(f"node: us of processor a reserve and a settle: plain {plain:.1f}; with an end, of one budget {one:.1f}, of eight {eight:.1f}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
