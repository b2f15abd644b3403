"""The processes of a play: the node, and the peers with what they say."""

import base64
import collections
import json
import os
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import messages

# Nothing takes longer on a healthy machine, however busy it is.
PATIENCE_S = 90


class Failed(Exception):
    """Something does not hold."""


def wait_for(what, holds):
    """Waits until `holds` returns something true, which it returns."""
    end = time.monotonic() + PATIENCE_S
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > end:
            raise Failed(f"still waiting for {what() if callable(what) else what}")
        time.sleep(0.02)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Node:
    """A node with one client session and one venue for each version, and one session that is echoed."""

    def __init__(self, weir, folder, venue_port, reset_on_logon=False):
        self.weir, self.folder, self.port = weir, folder, free_port()
        os.makedirs(folder, exist_ok=True)
        sample = subprocess.run([weir, "sample-budgets", "--count", "1"], check=True, capture_output=True)
        with open(f"{folder}/budgets.jsonl", "wb") as file:
            file.write(sample.stdout)
            for number, version in enumerate(messages.VERSIONS):
                line = {"id": 9001 + number, "name": version, "limit": "5000", "orders": {"session": f"C-{version}"}}
                file.write(json.dumps(line).encode() + b"\n")
        # What the clients' orders are held against: "none", or "budgets".
        self.limits = "none"
        self.venue_port, self.reset_on_logon = venue_port, reset_on_logon
        self.lives, self.process = 0, None

    def write_config(self):
        entries = []
        for version in messages.VERSIONS:
            keys = f'begin_string = "{version}"\nsender_comp_id = "GATE"\n'
            keys += f"reset_on_logon = {str(self.reset_on_logon).lower()}\nheart_bt_int_s = 2\n"
            entries.append(f'[[fix.session]]\nname = "C-{version}"\ntarget_comp_id = "CLIENT"\nlimits = "{self.limits}"\n')
            entries.append(f'route = "V-{version}"\nvalidation = "{messages.VALIDATION[version]}"\n{keys}')
            entries.append(f'[[fix.venue]]\nname = "V-{version}"\ntarget_comp_id = "VENUE"\n')
            entries.append(f'connect = ["127.0.0.1:{self.venue_port}"]\n{keys}')
        for version in messages.VERSIONS:
            entries.append(f'[[fix.session]]\nname = "B-{version}"\nbegin_string = "{version}"\nsender_comp_id = "GATE"\n')
            entries.append('target_comp_id = "BAD"\nlimits = "none"\nroute = "echo"\n')
        with open(f"{self.folder}/weir.toml", "w", encoding="utf-8") as file:
            file.write("".join(entries))

    def start(self):
        self.lives += 1
        self.write_config()
        arguments = ["--config", "weir.toml", "--budgets", "budgets.jsonl", "--data", "data", "--fix", f"127.0.0.1:{self.port}"]
        for door in ("batch", "admin"):
            arguments += [f"--{door}", "127.0.0.1:0"]
        for door in ("openrtb", "spend", "keys"):
            arguments += [f"--{door}", ""]
        environment = dict(os.environ, WEIR_WORKERS__PIN="false", WEIR_JOURNAL__SEGMENT_BYTES="4194304")
        with open(f"{self.folder}/log", "ab") as log:
            self.process = subprocess.Popen(
                [self.weir, "run", *arguments], cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=log
            )
        for line in self.process.stdout:
            if line.startswith(b"admin "):
                self.admin = line.split()[1].decode().rstrip("/")
            if line == b"ready\n":
                return
        raise Failed(f"the node does not start; see {self.folder}/log")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        if self.process.wait(timeout=PATIENCE_S) != 0:
            raise Failed("the node ends with an error when it is stopped")

    def tool(self, *words):
        """What `weir fix` prints."""
        done = subprocess.run([self.weir, "fix", *words, "--data", f"{self.folder}/data"], capture_output=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            raise Failed(f"weir fix {' '.join(words)}: {done.returncode} {done.stdout!r} {done.stderr!r}")
        return done.stdout

    def get(self, path):
        """What the admin door answers."""
        with urllib.request.urlopen(self.admin + path, timeout=PATIENCE_S) as answer:
            return json.load(answer)

    def sessions(self):
        return {one["name"]: one for one in json.loads(self.tool("status", "--json"))["sessions"]}

    def kept(self, session):
        """Every message of a session's files as (direction, bytes)."""
        lines = self.tool("messages", "--session", session, "--raw").split(b"\n")
        parts = (line.split(b" ", 3) for line in lines if line)
        return [(direction.decode(), message) for _, direction, _, message in parts]


class Peer:
    """A client or a venue: an unmodified engine with a small program of ours around it. What it says stays over its lives."""

    def __init__(self, role, engine, folder, port, **settings):
        self.role, self.engine, self.folder, self.port = role, engine, folder, port
        self.settings, self.lives, self.process = settings, 0, None
        # By event, (BeginString, bytes) in order.
        self.said = collections.defaultdict(list)
        self.logged_on = set()
        os.makedirs(folder, exist_ok=True)

    def start(self):
        self.lives += 1
        path = f"{self.folder}/settings-{self.lives}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.engine.settings(self))
        log = open(f"{self.folder}/errors", "ab")
        self.process = subprocess.Popen(
            [*self.engine.command, self.role, path, str(self.lives)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        )
        log.close()
        self.reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self.asked = self.done()
        before = len(self.said["ready"])
        self.reader.start()
        wait_for(f"{self} to start; see {self.folder}/errors", lambda: len(self.said["ready"]) > before)

    def _read(self, pipe):
        with open(f"{self.folder}/said", "ab") as said:
            for line in pipe:
                event, session, text = (line.decode().split(" ") + [""])[:3]
                payload = base64.b64decode(text.strip())
                said.write(f"{time.time():.3f} {event} {session} {messages.shown(payload)}\n".encode("latin-1"))
                if event == "logon":
                    self.logged_on.add(session)
                if event == "logout":
                    self.logged_on.discard(session)
                self.said[event].append((session, payload))

    def done(self):
        """How many commands it has carried out, in all of its lives."""
        return len(self.said["done"])

    def command(self, text):
        self.process.stdin.write(text.encode() + b"\n")
        self.process.stdin.flush()

    def send(self, version, message):
        self.asked += 1
        self.command(f"send {version} {base64.b64encode(message).decode()}")

    def of(self, event, version):
        return [message for session, message in list(self.said[event]) if session == version]

    def kill(self):
        self.process.kill()
        self.gone()

    def stop(self):
        self.command("stop")
        self.gone()

    def gone(self):
        self.process.wait(timeout=PATIENCE_S)
        self.reader.join(timeout=PATIENCE_S)
        self.logged_on.clear()

    def __str__(self):
        return f"the {self.role} ({self.engine.name})"
