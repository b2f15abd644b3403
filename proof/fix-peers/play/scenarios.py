"""The scenarios: each is played with any engine as client and any as venue, in three versions of FIX at once."""

import random
import shutil
import time

import messages
import money
from books import Books
from messages import VERSIONS, order, value
from processes import Failed, Node, Peer, free_port, wait_for
from wire import Wire


class Play:
    """One node between two peers, with a wire before it and one behind it."""

    def __init__(self, weir, folder, client, venue, seed):
        self.random, self.ids = random.Random(seed), 0
        venue_port = free_port()
        self.south = Wire(venue_port)
        self.node = Node(weir, f"{folder}/node", self.south.port)
        self.north = Wire(self.node.port)
        self.client = Peer("client", client, f"{folder}/client", self.north.port)
        self.venue = Peer("venue", venue, f"{folder}/venue", venue_port)
        self.open_books()

    def start(self):
        self.venue.start()
        self.node.start()
        self.client.start()
        self.wait_logged_on()

    def end(self):
        for one in (self.client, self.venue, self.node):
            if one.process and one.process.poll() is None:
                one.kill()
        self.north.close()
        self.south.close()

    def open_books(self):
        self.books = [Books(version, self.client, self.venue) for version in VERSIONS]

    def wait_logged_on(self):
        """Waits until each session is logged on at both of its ends, and no gap is open."""
        states = {}

        def all_are():
            if not all(set(VERSIONS) <= peer.logged_on for peer in (self.client, self.venue)):
                return False
            states.update((name, one["state"]) for name, one in self.node.sessions().items() if not name.startswith("B-"))
            return set(states.values()) == {"logged_on"}

        def told():
            return f"logons: client {self.client.logged_on}, venue {self.venue.logged_on}, node {states}"

        wait_for(told, all_are)

    def send(self, kind="D", shape=0, original=None):
        """Has the client send one message in each version; its id."""
        self.ids += 1
        identity = f"id-{self.ids}"
        for version in VERSIONS:
            self.client.send(version, order(version, kind, identity, shape, original))
        return identity

    def wait_each(self, what, count):
        wait_for(what, lambda: all(count(books) for books in self.books))

    def settle(self):
        """Waits until everything is where it belongs, and both ends of each session count the same; then judges the books."""
        wait_for("the client to send", lambda: self.client.done() >= self.client.asked)
        self.wait_logged_on()
        wait_for(
            lambda: "orders and reports: " + str([messages.shown(one) for books in self.books for one in books.missing()[:2]]),
            lambda: not any(books.missing() for books in self.books),
        )
        self.same_numbers()
        for books in self.books:
            books.judge()
        if self.node.process.poll() is not None:
            raise Failed("the node has ended")

    def same_numbers(self):
        """The gate expects the number after the last one that the peer has used, or a later one: heartbeats go on."""

        def behind():
            sessions, found = self.node.sessions(), []
            for version in VERSIONS:
                for peer, name in ((self.client, f"C-{version}"), (self.venue, f"V-{version}")):
                    last, expected = messages.number(peer.of("kept", version)[-1], 34), sessions[name]["next_in"]
                    found += [f"{name}: {last} sent, {expected} expected"] if expected <= last else []
            return found

        wait_for(lambda: f"the same numbers: {behind()}", lambda: not behind())


def orders_and_fills(play):
    """Orders, replaces and cancels of five shapes reach the venue byte for byte, and so do its reports the client."""
    for shape in range(10):
        first = play.send("D", shape)
        second = play.send("G", shape, first)
        play.send("F", shape, second)
    play.settle()
    for books in play.books:
        if (len(books.at_venue()), len(books.reports())) != (30, 40):
            raise Failed(f"{books.version}: {len(books.at_venue())} orders, {len(books.reports())} reports")
        passed_on_as_kept(play.node, books.version)


def passed_on_as_kept(node, version):
    """What `weir fix messages` shows: what came in on one side went out on the other, in the same order."""
    for source, sink in ((f"C-{version}", f"V-{version}"), (f"V-{version}", f"C-{version}")):
        came = [messages.body(one) for way, one in node.kept(source) if way == "in" and not messages.is_admin(one)]
        went = [messages.body(one) for way, one in node.kept(sink) if way == "out" and not messages.is_admin(one)]
        if not came or came != went:
            raise Failed(f"{source}: {len(came)} came and {len(went)} went, or in another order, or changed")


def lost_messages(play):
    """One message is lost on each of the four ways; who misses it asks, and gets it."""
    for wire, is_near in ((play.north, True), (play.north, False), (play.south, True), (play.south, False)):
        for version in VERSIONS:
            start = b"8=" + version.encode() + messages.SOH
            wire.lose(lambda near, one, way=is_near, start=start: near == way and one.startswith(start) and not messages.is_admin(one))
        for shape in range(4):
            play.send("D", shape)
        wait_for("messages to be lost", lambda: not wire.to_lose)
        play.settle()


def lost_heartbeats(play):
    """A lost heartbeat is filled by a SequenceReset with GapFill, on each of the four ways."""
    for wire in (play.north, play.south):
        for is_near in (True, False):
            for version in VERSIONS:
                start = b"8=" + version.encode() + messages.SOH
                wire.lose(lambda near, one, way=is_near, start=start: near == way and one.startswith(start) and value(one, 35) == b"0")
    wait_for("heartbeats to be lost", lambda: not play.north.to_lose and not play.south.to_lose)
    play.send("D")
    play.settle()


def cut_lines(play):
    """Both wires are cut six times while orders flow."""
    for cut in range(6):
        for shape in range(6):
            play.send("D", shape)
            if shape == cut:
                (play.north if cut % 2 else play.south).cut()
        play.wait_logged_on()
    play.settle()


def killed(play, victim, times):
    """Kills a process while orders flow, and starts it again."""
    for _ in range(times):
        at = play.random.randrange(1, 8)
        for shape in range(8):
            if shape == at:
                time.sleep(play.random.random() * 0.05)
                victim.kill()
                if victim is play.client:
                    break
            play.send("D", shape)
        victim.start()
        play.wait_logged_on()
    play.settle()


def killed_node(play):
    """kill -9 of the node while orders flow, five times: nothing is lost, nothing comes twice without 43=Y."""
    killed(play, play.node, 5)


def killed_client(play):
    """kill -9 of the client while orders flow, three times."""
    killed(play, play.client, 3)


def killed_venue(play):
    """kill -9 of the venue while orders flow, twice: the waits between dials grow with each failure."""
    killed(play, play.venue, 2)


def restarts(play):
    """Node, client and venue are stopped as they ask for and started again: sessions go on where they were."""
    for one in (play.node, play.client, play.venue):
        play.send("D")
        play.settle()
        one.stop()
        if one is play.venue:
            # Nobody waits for it: the client is told at once.
            play.send("D")
            play.wait_each("refusals", lambda books: len(books.refusals()) > 0)
        if one is play.node:
            # The client keeps it, and the gate asks for it.
            play.send("D")
        one.start()
        play.settle()


def reset(play, session, reason):
    """As an operator does it. The wire may still hold a connection of a peer that is gone, or of a dial just begun: then it is done again."""

    def done():
        try:
            play.node.tool("reset", "--session", session, "--reason", reason)
        except Failed as why:
            if "has a connection" not in str(why):
                raise
            return False
        return True

    wait_for(f"{session} to be without a connection", done)


def client_forgot(play):
    """A client whose files are gone is told that its number is too low; after a reset by the operator it goes on."""
    play.client.stop()
    shutil.rmtree(f"{play.client.folder}/store")
    play.client.start()
    for version in VERSIONS:
        said = lambda: any(b"MsgSeqNum too low, expecting" in (value(one, 58) or b"") for one in play.client.of("in", version))
        wait_for(f"{version}: the Logout that says so", said)
    play.client.kill()
    for version in VERSIONS:
        reset(play, f"C-{version}", "the client lost its files")
    play.client.start()
    play.wait_logged_on()
    play.open_books()
    play.send("D")
    play.settle()


def venue_forgot(play):
    """A venue whose files are gone does not get orders under numbers that it does not know; after a reset by the operator it goes on."""
    play.venue.stop()
    shutil.rmtree(f"{play.venue.folder}/store")
    play.venue.start()
    log = f"{play.node.folder}/log"
    wait_for("the node to tell of it", lambda: b"too low" in open(log, "rb").read().lower())
    play.venue.kill()
    for version in VERSIONS:
        reset(play, f"V-{version}", "the venue lost its files")
    play.venue.start()
    play.wait_logged_on()
    play.open_books()
    play.send("D")
    play.settle()


def reset_with_each_logon(play):
    """Both sides begin at 1 with each logon (141=Y): what the client may have missed comes again with 97=Y."""
    for one in (play.client, play.venue, play.node):
        one.stop()
    play.client.settings["ResetOnLogon"] = "Y"
    play.node.reset_on_logon = True
    for _ in range(2):
        play.open_books()
        for one in (play.venue, play.node, play.client):
            if one.process.poll() is not None:
                one.start()
        play.wait_logged_on()
        play.send("D", 1)
        play.send("D", 2)
        play.settle()
        play.client.stop()
    for version in VERSIONS:
        logons = [one for one in play.client.of("in", version) if value(one, 35) == b"A"]
        if value(logons[-1], 141) != b"Y" or value(logons[-1], 34) != b"1":
            raise Failed(f"{version}: {messages.shown(logons[-1])}")


TABLE = [
    orders_and_fills,
    lost_messages,
    lost_heartbeats,
    cut_lines,
    restarts,
    killed_node,
    killed_client,
    killed_venue,
    money.orders_and_budgets,
    client_forgot,
    venue_forgot,
    reset_with_each_logon,
]
