#!/usr/bin/env python3
# timeout: 900
"""A program that allocates at full speed in 16 threads: nothing that it holds is called leaked.

tests/fixtures/leaks_busy.c loses nothing but a set of blocks that it lost at its start:
  - under one stop, and with --fork, exactly that set is unreachable, unless a thread was inside
    malloc each time: then what looks so is uncertain
  - across many stops at most that set is, and the rest that looks so is uncertain
LEAKS_BUSY_RUNS: how often under one stop, default 10; a third as often the other ways, which take
longer. A look that never saw the heap at rest has no answer, and says so.
"""

import collections
import os
import time

from harness import Failure, Fixture, Tap, memwhy, need_memwhy
from leak_checks import ONE_STOP, by_size

RUNS = int(os.environ.get("LEAKS_BUSY_RUNS", "10"))
LOST = 1009
OPEN_QUESTION = 4  # exit code: the heap was never seen at rest


class Tally:
    """What the runs of one way of looking gave."""

    def __init__(self):
        self.exact = self.open = 0
        self.wrong, self.uncertain = [], []


def look(fixture, tally, may_be_uncertain, *words):
    result = memwhy("leaks", fixture.pid, "--json", *words)
    if result.code == OPEN_QUESTION:
        tally.open += 1
        return
    if result.code != 0:
        raise Failure(f"leaks: exit {result.code}; {result.err[:300]}")
    answer = result.json()
    size, lost = fixture.truth["lost_size_bytes"], fixture.truth["lost_count"]
    count, uncertain = answer["unreachable_count"], answer["uncertain_count"]
    groups = by_size(answer["groups"], "count")
    tally.uncertain.append(uncertain)
    if uncertain:
        # The set is among what is uncertain, or still unreachable.
        good = count <= lost and count + uncertain >= lost
    else:
        good = count == lost and groups == collections.Counter({size: lost})
        tally.exact += good
    if not good:
        others = {key: value for key, value in groups.items() if key != size}
        tally.wrong.append((count, uncertain, groups[size], others))


def check(tap, name, fixture, may_be_uncertain, runs, *words):
    tally = Tally()
    for _ in range(runs):
        look(fixture, tally, may_be_uncertain, *words)
    tap.ok(not tally.wrong, f"{name}: {runs} looks, nothing held is called lost",
           "\n".join(map(str, tally.wrong)))
    if not may_be_uncertain and runs == RUNS:
        tap.ok(tally.exact > 0, f"{name}: some of them found an exact answer", tally.uncertain)
    tap.note(f"{name}: {tally.exact} exact, {tally.open} without an answer, "
             f"uncertain {tally.uncertain}")


def main():
    need_memwhy()
    tap, few = Tap(), max(1, RUNS // 3)
    with Fixture("leaks_busy", LOST) as fixture:
        deadline = time.monotonic() + 60
        while fixture.ask("works") != "done":
            if time.monotonic() > deadline:
                raise Failure("its threads do not work")
            time.sleep(0.05)
        tap.guard("one stop", check, tap, "one stop", fixture, False, RUNS, *ONE_STOP)
        tap.guard("--fork", check, tap, "--fork", fixture, False, few, "--fork")
        tap.guard("many stops", check, tap, "many stops", fixture, True, few,
                  "--max-pause", "1ms")
        tap.equal(fixture.ask("works"), "done", "the program works on, and found no error")
    tap.done()


if __name__ == "__main__":
    main()
