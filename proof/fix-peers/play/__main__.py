"""Plays the table of scenarios; proof/fix-peers/run starts this. Exit code 0: all hold; 1: something does not."""

import argparse
import os
import time
import traceback

import bad
import planted
import scenarios
from engines import Engine
from processes import Failed


def main():
    arguments = argparse.ArgumentParser(prog="proof/fix-peers/run")
    arguments.add_argument("--weir", required=True)
    arguments.add_argument("--work", required=True)
    arguments.add_argument("--dictionaries", required=True)
    arguments.add_argument("--go", required=True)
    arguments.add_argument("--java", required=True)
    arguments.add_argument("--only", default="", help="scenarios whose names hold this")
    arguments.add_argument("--pairs", default="go-java,java-go")
    arguments.add_argument("--seed", type=int, default=0)
    told = arguments.parse_args()
    engines = {"go": Engine("quickfixgo", [told.go], f"{told.dictionaries}/"), "java": Engine("QuickFIX/J", told.java.split())}
    seed = told.seed or int(time.time())
    print(f"fix-peers: seed {seed}", flush=True)
    planted.check()
    failures = 0
    for pair in told.pairs.split(","):
        client, venue = (engines[name] for name in pair.split("-"))
        failures += play(told, pair, client, venue, seed)
    print(f"fix-peers: {failures} scenarios failed", flush=True)
    raise SystemExit(1 if failures else 0)


def play(told, pair, client, venue, seed):
    table = [one for one in bad.TABLE + scenarios.TABLE if told.only in one.__name__]
    print(f"== {client.name} as client, {venue.name} as venue", flush=True)
    world = scenarios.Play(os.path.abspath(told.weir), f"{told.work}/{pair}", client, venue, seed)
    name = "start"
    try:
        world.start()
        for one in table:
            name, start = one.__name__, time.monotonic()
            world.open_books()
            one(world)
            print(f"   ok    {name:24} {time.monotonic() - start:5.1f} s", flush=True)
    except (Failed, OSError) as error:
        print(f"   FAIL  {name}: {error}\n         files: {told.work}/{pair}", flush=True)
        if not isinstance(error, Failed):
            traceback.print_exc()
        return 1
    finally:
        world.end()
    return 0


main()
