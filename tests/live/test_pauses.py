#!/usr/bin/env python3
"""Several short stops see the same heap as one: a still process, read under ever smaller pauses.

The process does not move, so its arenas read under a stop for each 16 MiB of them must give the
figures that one stop gives, block for block, the pages of a trim too; and no stop may be long.
"""

import sys

from harness import Fixture, Tap, memwhy, need_memwhy

FIELDS = ("arenas", "heaps", "in_use_bytes", "in_use_count", "free_bytes", "free_count",
          "tcache_bytes", "fastbin_bytes", "top_bytes", "mmapped_bytes", "mmapped_count",
          "free_resident_bytes", "trimmable_bytes", "metadata_bytes", "system_bytes", "reconciled")
# What a busy machine adds to a few milliseconds.
PAUSE_SECONDS_MAX = 0.5
MAIN_HEAP_MIB = 300


def check(tap, shape):
    with Fixture("heapshape", shape) as fixture:
        one = memwhy("heap", fixture.pid, "--json").json()
        many = memwhy("heap", fixture.pid, "--json", "--max-pause", "1us").json()
        for field in FIELDS:
            tap.equal(many["allocators"][0][field], one["allocators"][0][field],
                      f"{shape}: {field}")
        rows = [sorted((row["address"], row["in_use_bytes"], row["free_bytes"])
                       for row in heap["allocators"][0]["arena_list"]) for heap in (one, many)]
        tap.equal(rows[1], rows[0], f"{shape}: the arenas")
        tap.equal(many["sizes"], one["sizes"], f"{shape}: the sizes")
        kinds = [finding["kind"] for finding in many["findings"]]
        tap.ok("several-stops" in kinds, f"{shape}: says that there were several stops", kinds)
        report = memwhy("report", fixture.pid, "--json", "--max-pause", "1us").json()
        tap.ok(report["pauses"] >= report["allocators"][0]["arenas"],
               f"{shape}: at least a stop for each arena", report["pauses"])
        tap.ok(report["longest_pause_seconds"] < PAUSE_SECONDS_MAX, f"{shape}: no long stop",
               report["longest_pause_seconds"])
        lists = [sorted(memwhy("heap", fixture.pid, "--list-blocks", *words).out.splitlines())
                 for words in ((), ("--max-pause", "1us"))]
        tap.equal(len(lists[1]), len(lists[0]), f"{shape}: as many blocks")
        names = [[line.split()[:3] for line in lines] for lines in lists]
        tap.ok(names[0] == names[1], f"{shape}: the same blocks")
        pages = [memwhy("trim", fixture.pid, "--pages", *words).out
                 for words in ((), ("--max-pause", "1us"))]
        tap.ok(pages[0] and pages[1] == pages[0], f"{shape}: the same pages of a trim")


def check_main_heap(tap, pieces):
    """The main arena's memory is searched for under stops that are too short for all of it."""
    with Fixture("mainheap", pieces, MAIN_HEAP_MIB) as fixture:
        for pause in ("20ms", "1ms"):
            name = f"{pieces} main heap, {pause}"
            done = memwhy("heap", fixture.pid, "--json", "--max-pause", pause).json()
            heap = done["allocators"][0]
            own = heap["in_use_count"] - fixture.truth["held_count"]
            tap.ok(0 <= own < 8, f"{name}: blocks", own)
            tap.ok(heap["reconciled"], f"{name}: reconciled")
            kinds = [finding["kind"] for finding in done["findings"]]
            tap.ok(set(kinds) <= {"several-stops"}, f"{name}: all of it was found", kinds)
        tap.ok("several-stops" in kinds, f"{name}: not under one stop", kinds)


def main():
    need_memwhy()
    tap = Tap()
    for shape in ("arenas-default", "threads16", "many-heaps", "brk-blocked", "foreign-sbrk"):
        tap.guard(shape, check, tap, shape)
    for pieces in ("whole", "foreign", "blocked"):
        tap.guard(pieces, check_main_heap, tap, pieces)
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
