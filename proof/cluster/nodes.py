"""Two nodes on a log of three real nats-servers: `proof/cluster/run`.

Callers spend with idempotency keys the whole time, and repeat what was not answered. Meanwhile the bank is killed and loses its disk, is stopped for longer
than its lease lasts, and ends cleanly; a standby's disk goes; the log's leader is killed, and all servers are. In the end every key gets the answer that it got,
byte for byte, and what is settled is the sum of what was acknowledged.

usage: nodes.py WEIR NATS-SERVER FOLDER [MODE]. Exit code 1: something does not hold.
MODE: `all`; `demo`, a bank that is killed and a standby that takes over; `gaps`, how long nothing is acknowledged then, with 1,000 and 50,000 budgets
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

PATIENCE_S = 60.0
AMOUNT_CENTS = 7
LEASE_MS = 5_000


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


T = TypeVar("T")


def until(what: str, get: Callable[[], T | None]) -> T:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if (got := get()) is not None:
            return got
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {PATIENCE_S:.0f} s")


class Servers:
    """Three nats-servers."""

    def __init__(self, binary: str, folder: Path) -> None:
        ports = free_ports(9)
        self.clients, self.monitors, self.routes = ports[:3], ports[3:6], ports[6:]
        self.binary, self.folder = binary, folder
        self.running: list[subprocess.Popen[bytes] | None] = [None, None, None]
        for at in range(3):
            self.start(at)

    def start(self, at: int) -> None:
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in self.routes)
        config = self.folder / f"n{at}.conf"
        config.write_text(
            f'server_name: n{at}\nlisten: 127.0.0.1:{self.clients[at]}\nhttp: 127.0.0.1:{self.monitors[at]}\n'
            f'jetstream {{ store_dir: "{self.folder}/store{at}", sync_interval: always }}\n'
            f"cluster {{ name: weir, listen: 127.0.0.1:{self.routes[at]}, routes: [{routes}] }}\n"
        )
        log = (self.folder / f"n{at}.log").open("ab")
        self.running[at] = subprocess.Popen([self.binary, "-c", str(config)], stdout=log, stderr=log)

    def kill(self, at: int) -> None:
        if (server := self.running[at]) is not None:
            server.kill()
            server.wait()
            self.running[at] = None

    def stream(self, stream: str) -> dict[str, Any]:
        """What a server says of a stream that has a leader."""

        def found() -> dict[str, Any] | None:
            for port in self.monitors:
                try:
                    page = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/jsz?streams=true", timeout=2))
                except OSError:
                    continue
                for account in page.get("account_details", []):
                    for one in account.get("stream_detail", []):
                        if one["name"] == stream and one["cluster"].get("leader"):
                            return dict(one)
            return None

        return until("a leader", found)

    def leader(self, stream: str) -> int:
        return int(self.stream(stream)["cluster"]["leader"][1:])


class Node:
    """A node, or what was one, with its folder."""

    def __init__(self, weir: str, folder: Path, name: str, log: str) -> None:
        self.weir, self.folder, self.name, self.log = weir, folder, name, log
        self.data, self.out = folder / f"data-{name}", folder / f"{name}.out"
        self.spend = ""
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, takeover: str = "auto", budgets: str = "budgets.jsonl") -> None:
        any_port = [part for door in ("batch", "openrtb", "spend", "admin") for part in (f"--{door}", "127.0.0.1:0")]
        command = [self.weir, "run", "--config", str(self.folder / "weir.toml"), "--log", self.log, "--data", str(self.data)]
        self.spend = ""
        with self.out.open("wb") as out, (self.folder / f"{self.name}.err").open("ab") as err:
            env = os.environ | {"WEIR_CLUSTER__NODE": self.name, "WEIR_CLUSTER__TAKEOVER": takeover}
            env["WEIR_BUDGETS__FILE"] = str(self.folder / budgets)
            self.process = subprocess.Popen(command + any_port, stdout=out, stderr=err, env=env)

    def lines(self) -> dict[str, str]:
        return dict(line.split(" ", 1) if " " in line else (line, "") for line in self.out.read_text().splitlines())

    def says(self, what: str) -> None:
        def said() -> bool | None:
            assert self.process is not None and self.process.poll() is None, f"{self.name} ended: {self.tail()}"
            return True if what in self.lines() else None

        until(f"{self.name}: {what}", said)
        if what == "ready":
            self.spend = self.lines()["spend"]

    def tail(self) -> str:
        return (self.folder / f"{self.name}.err").read_text()[-600:]

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def ends(self) -> int:
        process = self.process
        assert process is not None
        return until(f"the end of {self.name}", process.poll)

    def take_over(self) -> None:
        admin = self.lines()["admin"].removeprefix("http://").rstrip("/")
        command = [self.weir, "cluster", "take-over", "--target", admin, "--why", "a test"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    def follows(self) -> None:
        """Stands by, and has all that the log has."""
        self.says("standby")

        def is_even() -> bool | None:
            found = self.cluster()
            assert found["role"] == "standby" and found["failure"] is None, found
            return True if found["position"]["entry"] > 0 and found["lag_ms"] < 500 else None

        until(f"{self.name}: no lag", is_even)

    def differs(self) -> bool:
        """Is its budgets file another one than the one in force?"""
        with urllib.request.urlopen(f"{self.lines()['admin']}metrics", timeout=5) as answer:
            return "\nweir_cluster_files_differ 1\n" in answer.read().decode()

    def cluster(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.lines()['admin']}v1/cluster", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


class Callers:
    """Spends without pause, and remembers every answer."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes, self.answers, self.is_over = nodes, dict[str, bytes](), False
        self.times: list[float] = []
        self.threads = [threading.Thread(target=self.run) for _ in range(4)]
        for thread in self.threads:
            thread.start()

    def call(self, node: Node, key: str) -> bytes | None:
        body = json.dumps({"budget": 1, "amount": f"0.{AMOUNT_CENTS:02}"}).encode()
        headers = {"Content-Type": "application/json", "Idempotency-Key": key}
        request = urllib.request.Request(f"http://{node.spend}/v1/spend", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=3) as answer:
                told: bytes = answer.read()
                return told
        except (OSError, urllib.error.HTTPError, ValueError):
            return None

    def run(self) -> None:
        while not self.is_over:
            key = secrets.token_hex(12)
            while not self.is_over:
                answers = (self.call(node, key) for node in self.nodes if node.spend)
                if (answer := next((answer for answer in answers if answer), None)) is not None:
                    self.answers[key] = answer
                    self.times.append(time.monotonic())
                    break
                time.sleep(0.02)

    def go_on(self) -> None:
        before = len(self.answers)
        until("more acknowledged", lambda: True if len(self.answers) > before + 50 else None)

    def silence(self, since: float) -> float:
        """For how long nothing was acknowledged, at most, since that time."""
        times = [since, *sorted(at for at in self.times if at > since)]
        return max(after - before for before, after in zip(times, times[1:]))

    def audit(self, node: Node) -> None:
        """Every key gets its answer again, and the books have the sum, once what was out of doubt is settled."""
        for key, told in list(self.answers.items()):
            again = until("a repeat", lambda key=key: self.call(node, key))
            assert again == told, f"{key} was answered {told!r}, and now {again!r}"
        with urllib.request.urlopen(f"http://{node.spend}/v1/budgets/1", timeout=5) as answer:
            books = json.load(answer)
        settled = round(float(books["settled"]) * 100)
        least = AMOUNT_CENTS * len(self.answers)
        # A call of each caller may have been booked without an answer that came.
        assert least <= settled <= least + AMOUNT_CENTS * len(self.threads), f"{settled} cents, acknowledged {least}"


class Stage:
    """Servers, two nodes and their callers."""

    def __init__(self, weir: str, nats: str, folder: Path, budgets: int) -> None:
        folder.mkdir()
        self.servers = Servers(nats, folder)
        secret = folder / "secret"
        secret.write_text(secrets.token_hex(32))
        secret.chmod(0o600)
        monitors = [f"http://127.0.0.1:{port}" for port in self.servers.monitors]
        (folder / "weir.toml").write_text(
            f'[cluster]\nlog_monitors = {json.dumps(monitors)}\nsecret_file = "{secret}"\nlease_ms = {LEASE_MS}\n'
            f'[keys]\nlisten = ""\n[budgets]\nfile = "{folder}/budgets.jsonl"\n'
            "[journal]\nsegment_bytes = 4194304\nsnapshot_bytes = 1048576\n"
        )
        lines = (f'{{"id":{at},"name":"b{at}","unit":"USD","limit":"1000000"}}\n' for at in range(1, budgets + 1))
        (folder / "budgets.jsonl").write_text("".join(lines))
        log = "nats://" + ",".join(f"127.0.0.1:{port}" for port in self.servers.clients)
        self.a, self.b = (Node(weir, folder, name, log) for name in "ab")
        init = [weir, "cluster", "init", "--config", str(folder / "weir.toml"), "--log", log, "--data", str(folder / "none")]

        def made() -> bool | None:
            return True if subprocess.run(init, capture_output=True, check=False).returncode == 0 else None

        until("a stream", made)
        self.callers = Callers([self.a, self.b])

    def begin(self) -> None:
        self.a.start()
        self.a.says("ready")
        self.b.start()
        self.b.follows()
        self.callers.go_on()

    def row(self, what: str, began: float) -> float:
        silence = self.callers.silence(began)
        print(f"{what:46} silent for {silence:5.2f} s, {len(self.callers.answers)} acknowledged", flush=True)
        return silence

    def end(self) -> None:
        self.callers.is_over = True
        for node in (self.a, self.b):
            if node.process is not None:
                node.process.kill()
        for at in range(3):
            self.servers.kill(at)

    def audit(self, node: Node) -> None:
        self.callers.is_over = True
        for thread in self.callers.threads:
            thread.join()
        self.callers.audit(node)
        found = node.cluster()
        assert found["role"] == "bank" and found["node"] == node.name, found
        print(f"{len(self.callers.answers)} keys: each is answered as it was, byte for byte, and the books have their sum", flush=True)

    def kill(self, bank: Node, heir: Node) -> float:
        """Kills the bank; when that was."""
        began = time.monotonic()
        bank.signal(signal.SIGKILL)
        bank.ends()
        bank.spend = ""
        heir.says("ready")
        return began

    def stop(self, bank: Node, heir: Node) -> float:
        """Stops the bank; when that was."""
        began = time.monotonic()
        bank.signal(signal.SIGTERM)
        heir.says("ready")
        assert bank.ends() == 0, bank.tail()
        bank.spend = ""
        return began


def everything(stage: Stage) -> None:
    servers, a, b, callers = stage.servers, stage.a, stage.b, stage.callers
    stage.begin()
    began = stage.kill(a, b)
    shutil.rmtree(a.data)
    callers.go_on()
    stage.row("the bank is killed, and its disk is gone", began)
    callers.audit(b)
    # Its own file would leave nothing to be spent.
    (a.folder / "other.jsonl").write_text('{"id":1,"name":"b1","unit":"USD","limit":"0.01"}\n')
    a.start(budgets="other.jsonl")
    a.follows()
    began = time.monotonic()
    b.signal(signal.SIGSTOP)
    a.says("ready")
    time.sleep(max(0.0, began + LEASE_MS / 1e3 + 1.0 - time.monotonic()))
    b.signal(signal.SIGCONT)
    assert b.ends() == 75, b.tail()
    b.spend = ""
    callers.go_on()
    stage.row("the bank stands still for longer than its lease", began)
    kept = (a.data / "budgets-in-force.jsonl").read_bytes()
    assert a.differs() and kept == (a.folder / "budgets.jsonl").read_bytes(), a.tail()
    (a.folder / "other.jsonl").write_bytes(kept)
    until("the file in force", lambda: None if a.differs() else True)
    print("its heir had another budgets file: the one in force went on, until it was copied", flush=True)
    shutil.rmtree(b.data)
    b.start()
    b.follows()
    began = stage.stop(a, b)
    callers.go_on()
    stage.row("a clean stop; the standby had lost its disk", began)
    a.start("manual")
    a.follows()
    began = time.monotonic()
    b.signal(signal.SIGKILL)
    b.ends()
    b.spend = ""
    time.sleep(5)
    assert "ready" not in a.lines(), "a node that is to be told began by itself"
    a.take_over()
    a.says("ready")
    callers.go_on()
    stage.row("the bank is killed, and a node is told 5 s later", began)
    b.start()
    b.follows()
    stage.stop(a, b)
    began = time.monotonic()
    leader = servers.leader("WEIR_weir")
    servers.kill(leader)
    callers.go_on()
    stage.row("the log's leader is killed", began)
    a.start()
    a.follows()
    began = stage.kill(b, a)
    callers.go_on()
    stage.row("the bank is killed while a server is gone", began)
    servers.start(leader)
    began = time.monotonic()
    for at in range(3):
        servers.kill(at)
    for at in range(3):
        servers.start(at)
    callers.go_on()
    stage.row("all servers are killed", began)

    def is_trimmed() -> bool | None:
        # Each start of a standby puts a copy of its newest snapshot beside the log.
        b.start()
        b.follows()
        callers.go_on()
        time.sleep(2)
        b.signal(signal.SIGKILL)
        b.ends()
        return True if servers.stream("WEIR_weir")["state"]["first_seq"] > 1 else None

    until("a trimmed log", is_trimmed)
    shutil.rmtree(b.data)
    b.start()
    b.follows()
    assert "it begins anew from a base copy" in (b.folder / "b.err").read_text(), b.tail()
    first = servers.stream("WEIR_weir")["state"]["first_seq"]
    print(f"the log was trimmed, it begins with entry {first}; an empty node began from a base copy", flush=True)
    stage.stop(a, b)
    callers.go_on()
    stage.audit(b)


def demo(stage: Stage) -> None:
    stage.begin()
    print("bank `a` spends, `b` stands by and follows:\n", json.dumps(stage.b.cluster()), flush=True)
    began = stage.kill(stage.a, stage.b)
    shutil.rmtree(stage.a.data)
    stage.callers.go_on()
    stage.row("kill -9 of a, and its disk is gone", began)
    stage.a.start()
    stage.a.follows()
    print("`a` begins again with an empty folder, and follows `b`:\n", json.dumps(stage.a.cluster()), flush=True)
    began = stage.stop(stage.b, stage.a)
    stage.callers.go_on()
    stage.row("b is stopped cleanly", began)
    stage.audit(stage.a)


def gaps(stage: Stage) -> None:
    stage.begin()
    bank, heir = stage.a, stage.b
    for _ in range(3):
        for what, end in (("kill -9", stage.kill), ("a clean stop", stage.stop)):
            began = end(bank, heir)
            stage.callers.go_on()
            stage.row(what, began)
            bank.start()
            bank.follows()
            bank, heir = heir, bank
    stage.audit(bank)


def main(weir: str, nats: str, folder: Path, mode: str) -> None:
    for budgets in (1_000, 50_000) if mode == "gaps" else (1_000,):
        if mode == "gaps":
            print(f"{budgets} budgets")
        stage = Stage(weir, nats, folder / str(budgets), budgets)
        try:
            {"all": everything, "demo": demo, "gaps": gaps}[mode](stage)
        finally:
            stage.end()


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit("usage: nodes.py WEIR NATS-SERVER FOLDER [all|demo|gaps]")
    try:
        main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), (sys.argv[4:] or ["all"])[0])
    except AssertionError as error:
        sys.exit(f"nodes: {error}")
