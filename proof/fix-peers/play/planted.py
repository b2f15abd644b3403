"""What the books must find: each fault is planted in books that are right, which pass."""

import collections

from books import Books
from messages import SOH, sealed
from processes import Failed


class Said:
    def __init__(self):
        self.said = collections.defaultdict(list)


def message(kind, seq, identity, more="", header=""):
    tag = {"D": "11", "8": "11=o|17", "j": "372=D|380=4|58=Application not available|45"}[kind]
    rest = f"35={kind}|34={seq}|{header}{tag}={identity}|{more}"
    return sealed(b"FIX.4.4", rest.replace("|", SOH.decode()).encode())


def right():
    """Two orders that arrive and one that is refused, two reports."""
    client, venue = Said(), Said()
    books = Books("FIX.4.4", client, venue)
    put = lambda peer, event, *what: peer.said[event].append(("FIX.4.4", message(*what)))
    for number in (1, 2):
        put(client, "kept", "D", number, f"o{number}", "44=1.0|")
        put(venue, "got", "D", number + 5, f"o{number}", "44=1.0|")
        put(venue, "kept", "8", number, f"e{number}")
        put(client, "got", "8", number + 9, f"e{number}")
    put(client, "kept", "D", 3, "o3")
    put(client, "got", "j", 12, 3)
    return books, client.said["got"], venue.said["got"]


FAULTS = {
    "lost: an order": lambda client, venue: venue.pop(0),
    "lost: a report": lambda client, venue: client.pop(0),
    "lost: a refusal": lambda client, venue: client.pop(2),
    "twice: an order": lambda client, venue: venue.append(venue[0]),
    "twice: a report": lambda client, venue: client.append(client[0]),
    "twice: a refusal": lambda client, venue: client.append(client[2]),
    "both: refused and passed on": lambda client, venue: client.append(("FIX.4.4", message("j", 13, 1))),
    "changed: a byte": lambda client, venue: venue.__setitem__(0, ("FIX.4.4", message("D", 6, "o1", "44=1.00|"))),
    "order: of orders": lambda client, venue: venue.reverse(),
}


def check():
    """Raises where a fault is not found, or one is found in right books."""
    right()[0].judge()
    books, client, venue = right()
    again = message("D", 6, "o1", "44=1.0|", header="43=Y|")
    venue.append(("FIX.4.4", again))
    books.judge()
    for name, plant in FAULTS.items():
        books, client, venue = right()
        plant(client, venue)
        try:
            books.judge()
        except Failed:
            continue
        raise Failed(f"planted and not found: {name}")
