"""Work of unknown length, without asyncio: a confirmed hold lives for an hour, not for seconds."""

import weir

with weir.connect_sync("127.0.0.1:7700") as client:
    hold = client.reserve(budget=1001, amount="0.15", unit="USD", confirm=True)
    if hold:
        with hold:
            print(hold.settle("0.15").verdict)
# prints: settled
