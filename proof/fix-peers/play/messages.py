"""FIX messages as bytes: taken apart, and made for the peers to send."""

import datetime

SOH = b"\x01"
# The versions, and how strictly the gate checks the client's messages.
VALIDATION = {"FIX.4.2": "full", "FIX.4.4": "structure", "FIXT.1.1": "off"}
VERSIONS = list(VALIDATION)

# Fields that a message may have before its body and that are of a connection, not of what is said.
HEADER = {8, 9, 34, 35, 43, 49, 50, 52, 56, 57, 97, 115, 116, 122, 128, 129, 142, 143, 144, 145, 1128, 1129, 1137}
# Messages of the session itself.
ADMIN = {b"0", b"1", b"2", b"3", b"4", b"5", b"A"}


def split(message):
    """The fields of a message as (tag, value), without the empty rest."""
    pairs = (part.split(b"=", 1) for part in message.rstrip(SOH).split(SOH))
    return [(int(tag), value) for tag, value in pairs]


def value(message, tag):
    """The first value of a tag; None if there is none."""
    found = [text for at, text in split(message) if at == tag]
    return found[0] if found else None


def number(message, tag):
    text = value(message, tag)
    return None if text is None else int(text)


def is_admin(message):
    return value(message, 35) in ADMIN


def is_repeat(message):
    """Says of itself that it may have come before: PossDupFlag or PossResend."""
    return b"Y" in (value(message, 43), value(message, 97))


def body(message):
    """Every byte after the header and before CheckSum."""
    start = 0
    for part in message.split(SOH):
        if int(part.split(b"=", 1)[0]) not in HEADER:
            break
        start += len(part) + 1
    return message[start : message.rindex(b"\x0110=") + 1]


def shown(message):
    return message.replace(SOH, b"|").decode("latin-1")


def sealed(begin_string, rest):
    """A whole message of a BeginString and everything from 35= on."""
    head = b"8=" + begin_string + SOH + b"9=%d" % len(rest) + SOH + rest
    return head + b"10=%03d" % (sum(head) % 256) + SOH


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%d-%H:%M:%S.%f")[:21].encode()


def order(version, kind, identity, shape=0, original=None):
    """An order (D), a cancel (F) or a replace (G). Each number of `shape` has other fields whose bytes must stay as they are."""
    fields = [b"11=" + identity.encode()]
    if original:
        fields.append(b"41=" + original.encode())
    if version == "FIX.4.2" and kind != "F":
        fields.append(b"21=1")
    fields += [b"55=ACME", b"54=1", b"60=" + now()]
    quantity = [b"100", b"002000.00", b"7", b"1.50", b"100"][shape % 5]
    fields.append(b"38=" + quantity)
    if kind != "F":
        fields += [b"40=2", b"44=" + [b"10", b"10.5000", b"0010.25", b"9.99", b"1"][shape % 5]]
    fields += SHAPES[shape % 5](version, kind)
    rest = b"35=" + kind.encode() + SOH + SOH.join(fields) + SOH
    return sealed(version.encode(), rest)


def plain(version, kind):
    return []


def with_users_tags(version, kind):
    text = [b"58=two  blanks, 100% = all |"]
    # No dictionary has these.
    return text if VALIDATION[version] == "full" else text + [b"9701=mine", b"20001=0007"]


def with_group(version, kind):
    if kind == "F":
        return []
    # quickfixgo sends a group that ends a body again with a second CheckSum inside, which is garbled: a field follows each group.
    if version == "FIX.4.2":
        return [b"78=2", b"79=first", b"80=3", b"79=second", b"80=4", b"100=X"]
    return [b"453=2", b"448=ONE", b"447=D", b"452=1", b"448=TWO", b"447=D", b"452=3", b"526=second-id"]


def with_data(version, kind):
    text = b"caf\xe9 = |8=FIX|"
    return [b"354=%d" % len(text), b"355=" + text]


SHAPES = [plain, with_users_tags, with_group, with_data, plain]
