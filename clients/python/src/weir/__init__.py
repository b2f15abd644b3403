"""The Python client of Weir, a spend gate: reserve money of a budget before it is spent, settle what was spent.

    async with weir.connect("127.0.0.1:7700") as client:
        hold = await client.reserve(budget=1001, amount="0.15", unit="USD")
        if not hold:
            return hold.verdict          # EXHAUSTED, PAUSED, TIMEOUT ...: a value, not an exception
        async with hold:                 # leaving without a settle releases
            await hold.settle(await work())

An ask has a deadline, 20 ms unless it names another (1 s for one that confirms its hold); what is granted too late is given back by the library, and nothing is asked
twice. Confirms, settles and releases are the opposite: they are repeated, on any node, until a node has answered. Amounts are decimal
text, Decimal or int; a float is a TypeError.
"""

from ._amount import AMOUNT_MAX, Amount
from ._client import Ask, Client, Event, connect
from ._connection import Extended, Found
from ._hold import Hold, Refused
from ._settle import Outcome
from ._sync import SyncClient, SyncHold, connect_sync
from ._verdict import (
    AmountError,
    BusyError,
    ClosedError,
    FrameRefusedError,
    SpoolError,
    TooLargeError,
    UnauthorisedError,
    Verdict,
    VersionError,
    WeirError,
    WrongDoorError,
)
from ._wire import ProtocolError
from ._work import RefusedError, budgeted, default, handle_part

__all__ = [
    "AMOUNT_MAX",
    "Amount",
    "AmountError",
    "Ask",
    "BusyError",
    "Client",
    "ClosedError",
    "Event",
    "Extended",
    "Found",
    "FrameRefusedError",
    "Hold",
    "Outcome",
    "ProtocolError",
    "Refused",
    "RefusedError",
    "SpoolError",
    "SyncClient",
    "SyncHold",
    "TooLargeError",
    "UnauthorisedError",
    "Verdict",
    "VersionError",
    "WeirError",
    "WrongDoorError",
    "budgeted",
    "connect",
    "connect_sync",
    "default",
    "handle_part",
]
