"""Many asks share a frame, and members of a pod are granted all or none. A refusal is a value, and tells why."""

import asyncio

import weir


async def main() -> None:
    async with weir.connect("127.0.0.1:7700") as client:
        asks = [
            weir.Ask(1001, "0.01", "USD", pod=1),
            weir.Ask(1001, "0.02", "USD", pod=1),
            weir.Ask(1001, "3", "count"),
            weir.Ask(7, "0.01", "USD"),
        ]
        for answer in await client.reserve_all(asks):
            print(answer.verdict)
            if answer:
                await answer.release()


asyncio.run(main())
# prints: granted
# prints: granted
# prints: unit_mismatch
# prints: unknown_budget
