"""Messages that no engine sends, made with simplefix, at a session of each version that checks everything; its parser reads the answers."""

import socket

import simplefix

from messages import VERSIONS, now
from processes import PATIENCE_S, Failed


class Line:
    """A connection of the session BAD."""

    def __init__(self, play, version, next_out):
        self.version, self.next_out, self.parser = version, next_out, simplefix.FixParser()
        self.socket = socket.create_connection(("127.0.0.1", play.node.port), timeout=PATIENCE_S)

    def message(self, kind, *pairs, **header):
        """A good header and these fields; `header` has other values for it, None leaves one out."""
        made = simplefix.FixMessage()
        known = {"begin": self.version, "seq": self.next_out, "sender": "BAD", "time": now(), "target": "GATE", **header}
        made.append_pair(8, known["begin"])
        made.append_pair(35, kind)
        for tag, name in ((34, "seq"), (49, "sender"), (52, "time"), (56, "target")):
            if known[name] is not None:
                made.append_pair(tag, known[name])
        for tag, value in pairs:
            made.append_pair(tag, value)
        self.next_out += 1
        return made.encode()

    def send(self, *bytes_of_messages):
        self.socket.sendall(b"".join(bytes_of_messages))

    def receive(self):
        """The next message that is no Heartbeat; None once the connection is closed."""
        while True:
            found = self.parser.get_message()
            if found and found.get(35) != b"0":
                return found
            if not found:
                try:
                    piece = self.socket.recv(65536)
                except ConnectionResetError:
                    piece = b""
                if not piece:
                    return None
                self.parser.append_buffer(piece)

    def expect(self, why, **values):
        found = self.receive()
        for tag, value in ((int(name[1:]), value) for name, value in values.items()):
            has = found.get(tag) if found else None
            if has != (None if value is None else str(value).encode()):
                raise Failed(f"{self.version}: {why}: tag {tag} is {has}, not {value}, in {found}")

    def expect_closed(self, why):
        if found := self.receive():
            raise Failed(f"{self.version}: {why}: not closed, but {found}")

    def answer_logout(self):
        """Says Logout, where the other side has not closed already."""
        try:
            self.send(self.message("5"))
        except OSError:
            pass

    def log_on(self):
        version = [(1137, 9)] if self.version == "FIXT.1.1" else []
        self.send(self.message("A", (98, 0), (108, 30), *version))
        self.expect("a Logon", t35="A")


def order(version, **changes):
    """The fields of a good order; `t38="x"` is another value, None leaves one out."""
    fields = {11: "bad-1", 21: 1, 55: "ACME", 54: 1, 60: now(), 38: 100, 40: 2, 44: 10}
    fields.update({int(name[1:]): value for name, value in changes.items()})
    return [(tag, value) for tag, value in fields.items() if value is not None]


# What is wrong with a message of a session that goes on: type, fields, then 371, 373 and 58 of the Reject.
REJECTED = [
    ("a required tag is missing", "D", {"t54": None}, 54, 1, "Required tag missing"),
    ("a tag that no dictionary has", "D", {"t9999": "x"}, 9999, 0, "Invalid tag number"),
    ("a tag of another message", "D", {"t17": "x"}, 17, 2, "Tag not defined for this message type"),
    ("a value that is not there", "D", {"t54": "Z"}, 54, 5, "Value is incorrect (out of range) for this tag"),
    ("an empty value", "D", {"t55": ""}, 55, 4, "Tag specified without a value"),
    ("a number that is none", "D", {"t38": "+1.0"}, 38, 6, "Incorrect data format for value"),
    ("a time that is none", "D", {"t60": "20261125"}, 60, 6, "Incorrect data format for value"),
    ("an unknown type", "ZZ", {}, None, 11, "Invalid MsgType"),
    ("a tag twice", "D", {"t40": 2, "twice": 40}, 40, 13, "Tag appears more than once"),
    ("a field of the header in the body", "D", {"t50": "desk"}, 50, 14, "Tag specified out of required order"),
    ("a group that is shorter than its count", "D", {"count": 3}, None, 16, "Incorrect NumInGroup count for repeating group"),
]


def is_rejected(line, name, kind, changes, tag, reason, text):
    changes = dict(changes)
    twice, count = changes.pop("twice", None), changes.pop("count", None)
    fields = order(line.version, **changes)
    if twice:
        fields.append((twice, dict(fields)[twice]))
    if count:
        tag = 78 if line.version == "FIX.4.2" else 453
        fields += [(78, count), (79, "a"), (80, 1)] if tag == 78 else [(453, count), (448, "a"), (447, "D"), (452, 1)]
    # 4.2 ends with reason 11.
    known = None if line.version == "FIX.4.2" and reason > 11 else reason
    seq = line.next_out
    line.send(line.message(kind, *fields))
    line.expect(name, t35=3, t45=seq, t58=text, t371=tag, t372=kind, t373=known)


def garbled(line):
    """What is garbled is ignored; the gap that it leaves is asked for, and a gap fill closes it."""
    at = line.next_out
    good = line.message("D", *order(line.version))
    wrong_sum = good[:-4] + b"%03d\x01" % ((int(good[-4:-1]) + 1) % 256)
    too_long = good.replace(b"\x019=", b"\x019=1", 1)
    # It swallows what follows up to the next CheckSum.
    line.send(wrong_sum, too_long, b"x" * 2000 + b"\x0110=000\x01", b"8=FIX nonsense\x01")
    line.send(line.message("1", (112, "after it")))
    line.expect("a gap", t35=2, t7=at, t16=0)
    line.send(line.message("4", (123, "Y"), (36, at + 2), seq=at))
    line.next_out = at + 2
    line.send(line.message("D", *order(line.version, t11=f"good-{line.version}")))
    line.expect("the echo", t35="D")


def endings(version):
    """What ends a connection: header, fields, and the answers before the end."""
    late = "20200101-00:00:00.000"
    other = "FIX.4.4" if version != "FIX.4.4" else "FIX.4.2"
    return [
        ("a number that is too low", {"seq": 1}, [{"t35": 5, "t58": True}]),
        ("another CompID", {"sender": "WORSE"}, [{"t35": 3, "t373": 9}, {"t35": 5}]),
        ("a time long ago", {"time": late}, [{"t35": 3, "t373": 10}, {"t35": 5}]),
        ("another BeginString", {"begin": other}, [{"t35": 5, "t58": "Incorrect BeginString"}]),
        ("no number", {"seq": None}, [{"t35": 5, "t58": "Received message without MsgSeqNum"}]),
    ]


def strangers(play, version):
    """Who is no session is told nothing."""
    for header in ({"sender": "NOBODY"}, {"target": "NOBODY"}, {"begin": "FIX.4.3"}):
        line = Line(play, version, 1)
        line.send(line.message("A", (98, 0), (108, 30), (1137, 9), **header))
        line.expect_closed(str(header))
    for first in (b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 64, b"8=FIX.4.4\x019=99999999\x0135=A\x01"):
        line = Line(play, version, 1)
        line.send(first)
        line.expect_closed(repr(first))
    line = Line(play, version, 1)
    line.send(line.message("D", *order(version)))
    line.expect_closed("an order before a Logon")


def next_number(play, version):
    return play.node.sessions()[f"B-{version}"]["next_in"]


def bad_messages(play):
    """Bad messages get the answer that the rules name, or none; meanwhile the peers trade."""
    for version in VERSIONS:
        play.send("D", 1)
        strangers(play, version)
        line = Line(play, version, next_number(play, version))
        line.log_on()
        for row in REJECTED:
            is_rejected(line, *row)
        play.send("D", 2)
        garbled(line)
        line.send(line.message("5"))
        line.expect("a Logout", t35=5)
        line.expect_closed("a Logout")
        for name, header, answers in endings(version):
            line = Line(play, version, next_number(play, version))
            line.log_on()
            if header.get("seq") == 1:
                answers = [{"t35": 5, "t58": f"MsgSeqNum too low, expecting {line.next_out} but received 1"}]
            line.send(line.message("D", *order(version), **header))
            for answer in answers:
                line.expect(name, **answer)
            line.answer_logout()
            line.expect_closed(name)
    play.settle()


TABLE = [bad_messages]
