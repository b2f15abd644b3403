"""The event loops of the tests, and a real node for them: WEIR is the path of the program."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess

import pytest
import uvloop

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=LOOPS, autouse=True)
def loop(request, monkeypatch):
    """The name of the event loop of a test: each runs on asyncio's own and on uvloop's, also where the client makes the loop."""
    for module in (asyncio, asyncio.events):
        monkeypatch.setattr(module, "new_event_loop", LOOPS[request.param])
    return request.param


TEMPLATE = '{"template":"llm/{team}/{user}","unit":"USD","limit":"1.00","idle":"24h"}\n{"template":"nanos/{what}","unit":"USDn","limit":"1","idle":"24h"}\n'


@pytest.fixture
def node(doors):
    """The batch address of a node of its own with the budget of the README."""
    return doors["batch"]


@pytest.fixture
def url(doors):
    """The JSON door of such a node."""
    return f"http://{doors['spend'].removeprefix('http://')}"


@pytest.fixture
def doors(tmp_path):
    """The addresses of a node of its own, by door."""
    program = os.environ.get("WEIR")
    if not program:
        pytest.skip("WEIR names no node; make clients-python runs this test")
    budgets = tmp_path / "budgets.jsonl"
    budgets.write_text('{"id":1001,"unit":"USD","limit":"10.00"}\n' + TEMPLATE)
    # The machine of the tests may be busy for longer than a node waits for its bank.
    config = tmp_path / "weir.toml"
    config.write_text("[batch]\nwait_ms = 10000\n")
    command = [program, "run", "--config", str(config), "--budgets", str(budgets), "--data", str(tmp_path / "data")]
    usage = subprocess.run([program, "run", "--help"], capture_output=True, text=True, check=True).stdout
    for door in ("--batch", "--openrtb", "--admin", "--spend"):
        if f"{door} " in usage:
            command += [door, "127.0.0.1:0"]
    with open(tmp_path / "log", "wb") as log, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as running:
        try:
            found = {}
            for line in running.stdout:
                if line.startswith("ready"):
                    break
                found.update([line.split()[:2]])
            else:
                raise AssertionError((tmp_path / "log").read_text())
            yield found
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(60)
