"""The batch protocol: SBE messages in frames of the Simple Open Framing Header. docs/formats.md has the byte diagrams."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ._verdict import WeirError, WrongDoorError

SCHEMA = 7700
SBE_LITTLE = 0xEB50
VERSION_MIN = 2
VERSION_MAX = 4
FIND_VERSION = 3
"""The first version that knows handles."""
EXTEND_VERSION = 4
"""The first that knows later ends."""

HEADER = 14
TOKEN = 32

HELLO, WELCOME, DECIDE, DECIDED, RESOLVE, RESOLVED, REFUSED, PING, PONG = range(1, 10)
FIND, FOUND, EXTEND, EXTENDED = 14, 15, 16, 17

REMEMBER = 1
AWAIT_FILL = 2
REPEAT = 1

CONFIRM, SETTLE, RELEASE = 1, 2, 3
ACTIONS = {CONFIRM: "confirm", SETTLE: "settle", RELEASE: "release"}

_FRAME = struct.Struct(">IH")
_HEADER = struct.Struct("<HHHH")
_GROUP = struct.Struct("<HH")
_DECIDE = struct.Struct("<QBHH")
_RESOLVE = struct.Struct("<QHH")
_WELCOME = struct.Struct("<HHIHHIIIQ")
_HELLO = struct.Struct("<HHQ")
_FOUND = struct.Struct("<QQ4sB")
_LENGTH = struct.Struct("<I")
_NUMBER = struct.Struct("<Q")
ASK = struct.Struct("<QQqQ4sHxx")
"""Request id, budget, amount, user, unit, pod."""
RESOLVING = struct.Struct("<32sqBQ")
"""Token, amount, action, request id."""
DECISION = struct.Struct("<32sB")
"""Token, verdict."""
RESOLUTION = struct.Struct("<BB")
"""Verdict, flags."""
EXTENDING = struct.Struct("<32sI")
"""Token, milliseconds from now."""
EXTENSION = struct.Struct("<BBQ")
"""Verdict, flags, the end in milliseconds since 1970."""

# Bytes that a root block has at least: those of its first version.
_ROOTS = {WELCOME: _WELCOME.size, DECIDED: 12, RESOLVED: 8, REFUSED: 9, PONG: 16, FOUND: _FOUND.size, EXTENDED: 8}


class ProtocolError(WeirError):
    """The node sent what cannot be read; the connection is of no more use."""


def frame(template: int, version: int, root: bytes, rest: bytes = b"") -> bytes:
    """A whole frame of a message whose root block is given."""
    return framed(template, version, len(root), root + rest)


def framed(template: int, version: int, block: int, body: bytes) -> bytes:
    """A whole frame of a root block of so many bytes and what follows it."""
    return _FRAME.pack(HEADER + len(body), SBE_LITTLE) + _HEADER.pack(block, template, SCHEMA, version) + body


def _data(content: bytes) -> bytes:
    return _LENGTH.pack(len(content)) + content


def hello(low: int, high: int, client_id: int, auth: bytes, name: bytes, version: int) -> bytes:
    """The first message of a connection."""
    return frame(HELLO, version, _HELLO.pack(low, high, client_id), _data(auth) + _data(name))


def decide(number: int, flags: int, asks: bytes, version: int) -> bytes:
    """A frame of asks, which are packed already."""
    return framed(DECIDE, version, 9, _DECIDE.pack(number, flags, ASK.size, len(asks) // ASK.size) + asks)


def resolve(number: int, resolves: bytes, version: int) -> bytes:
    """A frame of confirms, settles and releases, which are packed already."""
    return framed(RESOLVE, version, 8, _RESOLVE.pack(number, RESOLVING.size, len(resolves) // RESOLVING.size) + resolves)


def ping(number: int, version: int) -> bytes:
    """Is anyone there?"""
    return frame(PING, version, _NUMBER.pack(number))


def find(number: int, handle: bytes, version: int) -> bytes:
    """Which budget has this handle?"""
    return frame(FIND, version, _NUMBER.pack(number), _data(handle))


def extend(number: int, holds: bytes, version: int) -> bytes:
    """A frame of later ends, which are packed already."""
    return framed(EXTEND, version, 8, _RESOLVE.pack(number, EXTENDING.size, len(holds) // EXTENDING.size) + holds)


class Message(NamedTuple):
    """One whole frame, checked as far as its header and its root block go."""

    template: int
    version: int
    number: int
    """The frame that it answers; 0 in Welcome."""
    root: bytes
    rest: bytes
    """What follows the root block: groups, then data."""


class Welcome(NamedTuple):
    """The node's answer to Hello."""

    version: int
    node: int
    run: int
    batch_max: int
    worker: int
    frame_max: int
    hold_ms: int
    billing_ms: int
    now_ms: int


def frame_length(buffer: bytes | bytearray, at: int, most: int) -> int:
    """The length of the frame that begins there; 0 while there are too few bytes to tell."""
    if len(buffer) - at < _FRAME.size:
        return 0
    length, encoding = _FRAME.unpack_from(buffer, at)
    if bytes(buffer[at : at + 5]) == b"HTTP/":
        raise WrongDoorError("it speaks HTTP: this is not the batch door (default port 7700)")
    if encoding != SBE_LITTLE:
        raise ProtocolError(f"frame of encoding {encoding:#06x}, expected {SBE_LITTLE:#06x}")
    if not HEADER <= length <= most:
        raise ProtocolError(f"frame of {length} bytes, expected {HEADER} to {most}")
    return int(length)


def parse(whole: bytes) -> Message | None:
    """Reads a whole frame; None for a message that this library does not know, as a newer node may send."""
    if len(whole) < HEADER:
        raise ProtocolError(f"frame of {len(whole)} bytes, expected at least {HEADER}")
    block, template, schema, version = _HEADER.unpack_from(whole, _FRAME.size)
    if schema != SCHEMA:
        raise ProtocolError(f"message of schema {schema}, expected {SCHEMA}")
    least = _ROOTS.get(template)
    if least is None:
        return None
    if not least <= block <= len(whole) - HEADER:
        raise ProtocolError(f"message {template}: root block of {block} bytes, expected {least} to {len(whole) - HEADER}")
    number = 0 if template == WELCOME else _NUMBER.unpack_from(whole, HEADER)[0]
    return Message(template, version, number, whole[HEADER : HEADER + block], whole[HEADER + block :])


def welcome(message: Message) -> Welcome:
    """The numbers of Welcome."""
    return Welcome(*_WELCOME.unpack_from(message.root))


def found(message: Message) -> tuple[int, int, bytes]:
    """Verdict, budget and unit of Found."""
    _, budget, unit, verdict = _FOUND.unpack_from(message.root)
    return verdict, budget, unit


def entries(message: Message, layout: struct.Struct) -> Iterable[tuple[int, ...]]:
    """The entries of the first group of a message, each as far as this library knows it."""
    if len(message.rest) < _GROUP.size:
        raise ProtocolError(f"message {message.template} ends before its group")
    stride, count = _GROUP.unpack_from(message.rest)
    end = _GROUP.size + stride * count
    if stride < layout.size or end > len(message.rest):
        raise ProtocolError(
            f"message {message.template}: {count} entries of {stride} bytes, expected entries of at least {layout.size} in "
            f"{len(message.rest) - _GROUP.size} bytes"
        )
    if stride == layout.size:
        return list(layout.iter_unpack(memoryview(message.rest)[_GROUP.size : end]))
    return [layout.unpack_from(message.rest, at) for at in range(_GROUP.size, end, stride)]


def refusal(message: Message) -> tuple[int, str]:
    """Reason and detail of Refused."""
    if len(message.rest) < _LENGTH.size:
        raise ProtocolError("Refused ends before its detail")
    length = _LENGTH.unpack_from(message.rest)[0]
    if length > len(message.rest) - _LENGTH.size:
        raise ProtocolError(f"Refused: detail of {length} bytes, found {len(message.rest) - _LENGTH.size}")
    detail = message.rest[_LENGTH.size : _LENGTH.size + length]
    return message.root[8], detail.decode("utf-8", "replace")
