#!/usr/bin/env python3
"""Several stops on a heap that moves: blocks come and go between them, their sum stays the same.

What lies at the place where a stop ended may be gone at the next. That is uncertain, not damage: no
run may speak of any, each must conserve every byte, and what is in use is known but for what the
threads are turning over at the moment.

  MOVING_RUNS  runs for each process; 10 unless set
"""

import os
import re
import sys

from harness import Fixture, Tap, memwhy, need_memwhy

RUNS = int(os.environ.get("MOVING_RUNS") or 10)
MIB, THREADS = 200, 3
PERCENT_OFF = 1
# What reading a target that runs may say: a thread can be stopped in the middle of its tcache, which
# has no lock, and a busy machine can be too slow for the pause.
ALLOWED = {"several-stops", "account-skew", "tcache-torn", "pause-expired"}


def check_run(tap, fixture, name):
    done = memwhy("heap", fixture.pid, "--json", "--max-pause", "10ms")
    tap.equal(done.code, 0, f"{name}: exit")
    document = done.json()
    heap = document["allocators"][0]
    tap.equal(heap["in_use_bytes"] + heap["free_bytes"] + heap["metadata_bytes"] +
              heap["skipped_bytes"], heap["system_bytes"], f"{name}: conservation")
    held = fixture.truth["held_bytes"]
    tap.close(heap["in_use_bytes"], held, held * PERCENT_OFF // 100, f"{name}: in use")
    kinds = {finding["kind"]: finding for finding in document["findings"]}
    if kinds.get("several-stops", {"bytes": 0})["bytes"]:
        tap.note(f"{name}: {kinds['several-stops']['bytes']} bytes at boundaries that were gone")
    tap.ok(not set(kinds) - ALLOWED, f"{name}: nothing is called damaged", kinds)
    stops = re.search(r"under (\d+) stops", kinds.get("several-stops", {"text": ""})["text"])
    tap.ok(stops and int(stops[1]) > 1, f"{name}: says how many stops", kinds)


def check(tap, arenas):
    # Without a tcache: what is freed merges with its neighbours, and boundaries move.
    env = {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    with Fixture("churn", THREADS, arenas, MIB, env=env) as fixture:
        before = int(fixture.ask("rounds").split()[1])
        fixture.line()
        for run in range(RUNS):
            check_run(tap, fixture, f"{arenas} arenas, run {run}")
        after = int(fixture.ask("rounds").split()[1])
        tap.ok(after > before + RUNS, f"{arenas} arenas: it moved meanwhile", (before, after))


def main():
    need_memwhy()
    tap = Tap()
    for arenas in (1, 2):
        tap.guard(f"{arenas} arenas", check, tap, arenas)
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
