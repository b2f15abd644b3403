#!/usr/bin/env python3
"""Plants each kind of failure in the crates of planted/ and looks at what proof/unit/run makes of it.

usage: proof/unit/test_run.py"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
D = "door-http: tests::"

# What is planted ("NAME!" fails every time), what must be in target/flaky, what the output must say where the run has to fail.
CASES = [
    ("", [], None),
    ("a", [D + "a"], None),
    ("a b c", [D + "a", D + "b", D + "c"], None),
    ("a b c d", [D + "a", D + "b", D + "c", D + "d"], "4 tests passed only when run once more"),
    ("a!", [], "== failed: door-http: tests::a\n"),
    ("a b!", [D + "a"], "== failed: door-http: tests::b\n"),
    ("property", [], "== failed: door-http: tests::property\n"),
    ("pure", [], "== failed: money: tests::pure\n"),
    ("crashes", [], "== failed: weir: crashes::crash\n"),
    ("books", [], "== failed: weir: openrtb_money::books\n"),
    ("example", [], "== failed: examples in comments"),
    ("aborts", [], "door-http: lib door_http broke off with exit code -6"),
    ("exits", [], "door-http: lib door_http broke off with exit code 0"),
    ("hangs", [], "door-http: lib door_http finished nothing more for 3.0 s; unfinished: tests::hangs"),
    ("vanishing", [], "== failed: door-http: gone\n"),
    ("--cfg plant_build_error", [], "the tests do not build"),
]


def play(plant, target, built):
    build_error = plant.startswith("--cfg")
    environment = dict(
        os.environ, PLANT=plant, PLANT_SEEN=target, CARGO_TARGET_DIR=built, RUSTFLAGS=plant if build_error else "",
        RUSTDOCFLAGS="", RUST_BACKTRACE="0")
    command = [os.path.join(HERE, "run"), "--manifest-path", os.path.join(HERE, "planted/Cargo.toml"), "--target", target, "--limit", "3"]
    ended = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    read = lambda name: open(os.path.join(target, name)).read()
    return ended.returncode, ended.stdout, read("flaky").splitlines(), read("flaky.log")


def wrong(case, code, output, flaky, log):
    """What is wrong with the answer to a case, or None."""
    _, flaky_wanted, said = case
    if code != (0 if said is None else 1):
        return f"exit code {code}"
    if flaky != flaky_wanted:
        return f"target/flaky has {flaky}, wanted {flaky_wanted}"
    if said is not None and said not in output:
        return f"the output lacks {said!r}"
    missing = [name for name in flaky_wanted if f"flaky: {name}\n" not in output or f"---- {name}\n" not in log or "is planted" not in log]
    return f"output or target/flaky.log lacks {missing}" if missing else None


def main():
    failed = 0
    # The folder that is built in is kept from run to run.
    built = os.path.join(HERE, "../../target/unit-planted")
    for case in CASES:
        with tempfile.TemporaryDirectory() as target:
            code, output, flaky, log = play(case[0], target, built)
        fault = wrong(case, code, output, flaky, log)
        if fault:
            failed += 1
            print(f"planted {case[0]!r}: {fault}\n{output[-3000:]}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
