"""Reserve what the work may cost, work, settle what it did cost."""

import asyncio
from decimal import Decimal

import weir


async def work() -> Decimal:
    return Decimal("0.042")


async def main() -> None:
    async with weir.connect("127.0.0.1:7700") as client:
        hold = await client.reserve(budget=1001, amount="0.15", unit="USD")
        if not hold:
            print("not now:", hold.verdict)
            return
        async with hold:  # leaving without a settle releases
            outcome = await hold.settle(await work())
            print(outcome.verdict)


asyncio.run(main())
# prints: settled
