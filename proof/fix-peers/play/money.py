"""Orders that are held against budgets: after each step the node's books are the venue's, and those of the client."""

from decimal import Decimal

import messages
from messages import SOH, VERSIONS, is_repeat, sealed, value
from processes import Failed, wait_for


class Order:
    """What the reports on an order say of it."""

    def __init__(self, report):
        self.quantity, self.price = Decimal(value(report, 38).decode()), Decimal(value(report, 44).decode())
        self.is_open, self.executions = True, {}

    def take(self, report, is_42):
        """An execution counts as late when the order was closed before it; a correction and a bust change it where it counts."""
        said, amount = value(report, 150), None
        if is_42:
            what = {b"1": "bust", b"2": "correct"}.get(value(report, 20), "fill" if said in (b"1", b"2") else None)
        else:
            what = {b"H": "bust", b"G": "correct", b"F": "fill"}.get(said)
        if what:
            amount = (Decimal(value(report, 32).decode()), Decimal(value(report, 31).decode()))
        if what == "fill":
            self.executions[value(report, 17)] = [amount, not self.is_open]
        elif what:
            self.executions[value(report, 19)][0] = amount if what == "correct" else (Decimal(0), Decimal(0))
        elif said == b"5":
            self.quantity, self.price = Decimal(value(report, 38).decode()), Decimal(value(report, 44).decode())
        if value(report, 39) in (b"2", b"4", b"8"):
            self.is_open = False

    def sums(self):
        """Settled, held and late."""
        of = lambda late: sum((shares * price for (shares, price), is_late in self.executions.values() if is_late == late), Decimal(0))
        left = self.quantity - sum(shares for (shares, _), _ in self.executions.values())
        return [of(False), left * self.price if self.is_open else Decimal(0), of(True)]


def books(reports, version):
    """Settled, held and late of all orders that the reports are on, and of each by the ClOrdID of its version in force."""
    orders, names, seen = {}, {}, set()
    for one in reports:
        # What the gate refused never was an order of the venue.
        if value(one, 35) != b"8" or value(one, 150) == b"8" or value(one, 17) in seen:
            continue
        seen.add(value(one, 17))
        identity = value(one, 11)
        known = names.get(value(one, 41)) or names.get(identity)
        order = orders.pop(known, None) or Order(one)
        order.take(one, version == "FIX.4.2")
        # A cancel's own ClOrdID is no version's.
        names[identity] = identity if known is None or value(one, 150) == b"5" else known
        orders[names[identity]] = order
    each = {identity.decode(): order.sums() for identity, order in orders.items()}
    return [sum(column) for column in zip([Decimal(0)] * 3, *each.values())], each


class Desk:
    """The three books of one version, from now on."""

    def __init__(self, play, number):
        self.play, self.version, self.budget = play, VERSIONS[number], 9001 + number
        self.start = [len(play.venue.of("kept", self.version)), len(play.client.of("got", self.version))]

    def of_venue(self):
        return books(self.play.venue.of("kept", self.version)[self.start[0] :], self.version)

    def of_client(self):
        return books(self.play.client.of("got", self.version)[self.start[1] :], self.version)

    def of_node(self):
        lines = self.play.node.get(f"/v1/budgets/{self.budget}")["lines"]
        each = {}
        for row in self.play.node.get(f"/v1/fix/orders?budget={self.budget}&max=1000")["orders"]:
            each[row["cl_ord_id"]] = [Decimal(row[key][str(self.budget)]) for key in ("booked", "hold")]
        for name in ("over_settled", "inferred", "unknown_order"):
            if Decimal(lines[name]) != 0:
                raise Failed(f"{self.version}: {name} is {lines[name]}")
        return [Decimal(lines[name]) for name in ("settled", "held", "late")], each

    def agree(self, expected):
        sums, of_orders = self.of_node()
        venue, each = self.of_venue()
        booked = {identity: [settled + late, held] for identity, (settled, held, late) in each.items()}
        return [sums, venue, self.of_client()[0]] == [expected] * 3 and of_orders == booked

    def shown(self):
        return f"{self.version}: node {self.of_node()}, venue {self.of_venue()}, client {self.of_client()[0]}"


def send(play, kind, quantity, price, original=None, rests=True):
    """Has the client send an order, a replace or a cancel in each version; its id."""
    play.ids += 1
    identity = f"id-{play.ids}"
    for version in VERSIONS:
        fields = [f"35={kind}", f"11={identity}"] + ([f"41={original}"] if original else [])
        fields += ["55=ACME", "54=1", f"38={quantity}", "60=" + messages.now().decode()]
        if kind != "F":
            fields += ["40=2", f"44={price}"] + (["59=1"] if rests else []) + (["21=1"] if version == "FIX.4.2" else [])
        play.client.send(version, sealed(version.encode(), SOH.join(one.encode() for one in fields) + SOH))
    return identity


def report(play, identity, what, quantity, price, execution, names=None, cum=0, leaves=0, header=""):
    """Has the venue report an execution, or change one."""
    kinds = {"fill": ("F", "0", "1"), "correct": ("G", "2", "1"), "bust": ("H", "1", "1"), "late": ("F", "0", "4")}
    for version in VERSIONS:
        kind, transaction, status = kinds[what]
        how = f"20={transaction}|150={'1' if status == '1' else '4'}" if version == "FIX.4.2" else f"150={kind}"
        if what == "late" and version == "FIX.4.2":
            how = "20=0|150=1"
        names_it = f"19={names}|" if names else ""
        status = status if leaves else "4"
        rest = f"35=8|{header}37=V|11={identity}|17={execution}|{names_it}{how}|39={status}|55=ACME|54=1|38=100|44=10|32={quantity}|31={price}|"
        rest += f"14={cum}|151={leaves}|6={price}|60={messages.now().decode()}|"
        play.venue.send(version, sealed(version.encode(), rest.replace("|", SOH.decode()).encode()))


def restart(play, limits=None):
    """Ends the node, with a kill -9 unless its configuration changes, and starts it again."""
    if limits:
        play.node.stop()
        play.node.limits = limits
    else:
        play.node.kill()
    play.node.start()
    play.wait_logged_on()


def steps(play):
    """What is done, with what is settled, held and late then: each row is compared before the next is done."""
    first = send(play, "D", 100, "10")
    yield "an order rests", 0, 1000, 0
    report(play, first, "fill", 40, "9.5", "X1", cum=40, leaves=60)
    yield "40 at 9.50", 380, 600, 0
    report(play, first, "fill", 40, "9.5", "X1", cum=40, leaves=60, header="97=Y|")
    yield "the same report again", 380, 600, 0
    second = send(play, "G", 150, "10.1", first)
    yield "replaced by 150 at 10.10", 380, 1111, 0
    send(play, "D", 1000, "10")
    yield "an order above the limit is refused", 380, 1111, 0
    send(play, "G", 1000, "10", second)
    yield "and so is a replace", 380, 1111, 0
    report(play, second, "correct", 40, "9.25", "X2", names="X1", cum=40, leaves=110)
    yield "corrected to 9.25", 370, 1111, 0
    restart(play)
    yield "kill -9 of the node", 370, 1111, 0
    third = send(play, "F", 150, "", second)
    yield "cancelled", 370, 0, 0
    report(play, third, "late", 10, "10", "X3", cum=50)
    yield "10 at 10 that crossed with it", 370, 0, 100
    report(play, third, "bust", 40, "9.25", "X4", names="X1", cum=10)
    yield "the first execution is taken back", 0, 0, 100
    send(play, "D", 100, "10.25", rests=False)
    yield "an order that is filled at once", 1025, 0, 100


def orders_and_budgets(play):
    """Each step of an order's life moves exactly the money that the reports of the engine behind the gate say."""
    restart(play, "budgets")
    desks = [Desk(play, number) for number in range(len(VERSIONS))]
    for what, *sums in steps(play):
        wait_for("the peers to send", lambda: all(peer.done() >= peer.asked for peer in (play.client, play.venue)))
        for desk in desks:
            wait_for(lambda: f"{what}: expected {sums}; {desk.shown()}", lambda: desk.agree(sums))
    for desk in desks:
        got = play.client.of("got", desk.version)[desk.start[1] :]
        refused = [one for one in got if b"limit" in (value(one, 58) or b"")]
        if [value(one, 35) for one in refused if not is_repeat(one)] != [b"8", b"9"]:
            raise Failed(f"{desk.version}: refusals: {[messages.shown(one) for one in refused]}")
    restart(play, "none")
    play.open_books()
    play.send("D")
    play.settle()
