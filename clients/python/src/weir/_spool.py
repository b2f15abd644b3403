"""The file of what is not answered yet. clients/conform/README.md describes the format, which all clients share."""

from __future__ import annotations

import logging
import os
import re
from typing import NamedTuple

from ._verdict import BusyError, SpoolError
from ._wire import ACTIONS

try:
    import fcntl
except ImportError:  # not on Windows: see to it that one client has the spool open
    fcntl = None  # type: ignore[assignment]

SPOOL_MAX = 64 << 20
"""How large the file may become; what comes then is refused."""
REWRITE_AT = 1 << 20
"""From this size on the file is written anew when most of it is done."""

_LINE = re.compile(rb"(confirm|settle|release) ([0-9a-f]{64}) ([0-9]{1,19}) ([0-9]{1,20})", re.ASCII)
_DONE = re.compile(rb"done ([0-9a-f]{64}) (confirm|settle|release)", re.ASCII)
_CODES = {name.encode(): code for code, name in ACTIONS.items()}
_LINE_MAX = 256


class Entry(NamedTuple):
    """A settlement that is not done."""

    action: int
    token: bytes
    amount: int
    request_id: int

    def line(self) -> bytes:
        """The line that says it."""
        return f"{ACTIONS[self.action]} {self.token.hex()} {self.amount} {self.request_id}\n".encode()


def read(path: str) -> tuple[list[Entry], int]:
    """What is not done, in order, and how many lines could not be read."""
    open_entries: dict[tuple[int, bytes], Entry] = {}
    skipped = 0
    with open(path, "rb") as file:
        while line := file.readline(_LINE_MAX):
            if not line.endswith(b"\n"):
                skipped += 1
                while line and not line.endswith(b"\n"):
                    line = file.readline(_LINE_MAX)
                continue
            if found := _DONE.fullmatch(line[:-1]):
                open_entries.pop((_CODES[found[2]], bytes.fromhex(found[1].decode())), None)
                continue
            found = _LINE.fullmatch(line[:-1])
            if not found or int(found[3]) >= 2**63 or int(found[4]) >= 2**64:
                skipped += 1
                continue
            entry = Entry(_CODES[found[1]], bytes.fromhex(found[2].decode()), int(found[3]), int(found[4]))
            open_entries[entry.action, entry.token] = entry
    return list(open_entries.values()), skipped


class Spool:
    """The open file. One client at a time may have it open."""

    def __init__(self, path: str, log: logging.Logger) -> None:
        self.path = path
        self._log = log
        self._open: dict[tuple[int, bytes], Entry] = {}
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            self._lock(self._file)
            if not os.path.sameopenfile(self._file, again := os.open(path, os.O_RDONLY)):
                os.close(again)
                raise OSError("another client has written the file anew meanwhile")
            os.close(again)
            self.left, skipped = read(path)
            self._write_anew(self.left)
        except OSError as error:
            raise SpoolError(f"spool {path}: {error}") from error
        self._open = {(entry.action, entry.token): entry for entry in self.left}
        if skipped:
            log.warning("%d lines of the spool %s could not be read and are left out", skipped, path)

    @staticmethod
    def _lock(file: int) -> None:
        if fcntl is not None:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise OSError("another client has it open") from error

    def add(self, entry: Entry) -> None:
        """Writes a settlement down before it is sent for the first time."""
        if self._size > SPOOL_MAX:
            raise BusyError(f"the spool has {self._size} bytes, at most {SPOOL_MAX} expected: settlements are not answered")
        try:
            self._write(entry.line())
        except OSError as error:
            raise SpoolError(f"spool {self.path}: {error}") from error
        self._open[entry.action, entry.token] = entry

    def done(self, entry: Entry) -> None:
        """Writes down that it is over. What is not written down as done is sent again after a crash, and booked once."""
        self._open.pop((entry.action, entry.token), None)
        try:
            self._write(f"done {entry.token.hex()} {ACTIONS[entry.action]}\n".encode())
            if self._size > REWRITE_AT and self._size > 4 * _LINE_MAX * len(self._open):
                self._write_anew(list(self._open.values()))
        except OSError as error:
            self._log.warning("the spool %s cannot be written: %s", self.path, error)

    def _write(self, line: bytes) -> None:
        try:
            written = os.pwrite(self._file, line, self._size)
            if written != len(line):
                raise OSError("the disk is full")
        except OSError:
            # Half a line would spoil the next one.
            os.ftruncate(self._file, self._size)
            raise
        self._size += len(line)

    def _write_anew(self, left: list[Entry]) -> None:
        """Puts a file with what is left in place of this one, so that a crash leaves one or the other."""
        text = b"".join(entry.line() for entry in left)
        file = os.open(self.path + ".new", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self._lock(file)
            if os.pwrite(file, text, 0) != len(text):
                raise OSError("the disk is full")
            os.replace(self.path + ".new", self.path)
        except OSError:
            os.close(file)
            raise
        os.close(self._file)
        self._file, self._size = file, len(text)

    def close(self) -> None:
        """Lets the file go."""
        os.close(self._file)
