#!/usr/bin/env python3
"""A sample of 300 arenas tells about all of them, within what it says that it may be off.

Each process has arenas of random amounts, of which random shares are in use. The same arenas are
chosen whenever it is looked at, so the answers do not depend on luck: of the 20 processes all lie
within the margin, where 19 must.
"""

import re
import sys

from harness import Fixture, Tap, account_sum, memwhy, need_memwhy

THREADS, CHOSEN = 300, 64
# Under one stop, however busy the machine is: then nothing else is to be said.
STEADY = ("--max-pause", "60s")
PROCESSES, WITHIN_MIN = 20, 19
# libc's own struct in each arena: a tcache of any version.
OWN_MIN, OWN_MAX = 0, 0x330
EXACT = ("arenas", "heaps", "mmapped_bytes", "mmapped_count", "top_bytes", "system_bytes")
UNREAD = ("in_use_bytes", "in_use_count", "free_bytes", "free_count", "free_resident_bytes",
          "trimmable_bytes", "metadata_bytes")


def conserved(heap):
    return (heap["in_use_bytes"] + heap["free_bytes"] + heap["metadata_bytes"] +
            heap["skipped_bytes"])


def check_whole(tap, fixture, whole, seed):
    """All arenas: the sum of the program's own blocks."""
    heap = whole["allocators"][0]
    in_use = sum(row["in_use_bytes"] for row in heap["arena_list"] if not row["main"])
    own = (in_use - fixture.truth["held_bytes"]) / THREADS
    tap.ok(heap["reconciled"] and own == int(own) and OWN_MIN <= own <= OWN_MAX,
           f"{seed}: all: the program's blocks and one of libc in each arena", own)
    tap.equal([heap["sampled_arenas"], heap["in_use_margin_bytes"]], [None, None],
              f"{seed}: all: no sample")


def check_sample(tap, whole, sample, seed):
    """Returns whether what is in use lies within the margin."""
    all_of, heap = whole["allocators"][0], sample["allocators"][0]
    tap.equal(heap["sampled_arenas"], CHOSEN, f"{seed}: so many arenas")
    tap.equal(conserved(heap), heap["system_bytes"], f"{seed}: conservation")
    tap.equal([heap[name] for name in EXACT], [all_of[name] for name in EXACT],
              f"{seed}: what is known without blocks is the same")
    tap.ok(not heap["reconciled"], f"{seed}: not called reconciled")
    rows = [row for row in heap["arena_list"] if row["in_use_bytes"] is None]
    tap.equal(len(rows), THREADS - CHOSEN, f"{seed}: rows of the others say nothing")
    tap.ok(all(row[name] is None for row in rows for name in UNREAD) and
           all(row["system_bytes"] and row["reconciled"] is False for row in rows),
           f"{seed}: but their size", rows[:1])
    read = {row["address"]: row for row in heap["arena_list"] if row["in_use_bytes"] is not None}
    tap.ok(all(read[row["address"]] == row for row in all_of["arena_list"]
               if row["address"] in read), f"{seed}: rows that were read are those of all")
    kinds = [finding["kind"] for finding in sample["findings"]]
    tap.equal(kinds, ["arenas-sampled"], f"{seed}: says so, and nothing else")
    margin = heap["in_use_margin_bytes"]
    tap.ok(0 < margin < heap["in_use_bytes"] / 4, f"{seed}: the margin is worth saying", margin)
    return abs(heap["in_use_bytes"] - all_of["in_use_bytes"]) <= margin


def check_seed(tap, seed, within):
    with Fixture("arenas", THREADS, seed) as fixture:
        whole = memwhy("heap", fixture.pid, "--json", *STEADY, "--sample-arenas", "all").json()
        sample = memwhy("heap", fixture.pid, "--json", *STEADY,
                        "--sample-arenas", CHOSEN).json()
        check_whole(tap, fixture, whole, seed)
        within.append(check_sample(tap, whole, sample, seed))


def check_words(tap):
    """The rest of the option, and what the screens print."""
    with Fixture("arenas", THREADS, 3) as fixture:
        default = memwhy("heap", fixture.pid, "--json").json()["allocators"][0]
        more = memwhy("heap", fixture.pid, "--json", "--sample-arenas", THREADS).json()
        tap.ok(default["reconciled"] and default["sampled_arenas"] is None,
               "a small heap is read whole unless asked")
        tap.ok(more["allocators"][0]["reconciled"], "as many as there are: all")
        report = memwhy("report", fixture.pid, "--json", "--sample-arenas", CHOSEN).json()
        tap.equal(account_sum(report), report["rss_bytes"], "the account adds up to the RSS")
        bases = {verdict["id"]: verdict["basis"] for verdict in report["verdicts"]
                 if verdict["class"] == "kept"}
        tap.ok(bases and "proven" not in bases.values(), "nothing kept is proven", bases)
        for name in ("heap", "report"):
            screen = memwhy(name, fixture.pid, "--sample-arenas", CHOSEN).out
            tap.ok(re.search(r"in use +~\d", screen), f"{name}: ~ before an estimate", screen)
            tap.ok(re.search(r"± \d+\.\d", screen), f"{name}: ± and the margin", screen)
            tap.ok(f"{CHOSEN} of {THREADS} thread arenas" in " ".join(screen.split()),
                   f"{name}: how many were read", screen)
        few = memwhy("heap", fixture.pid, "--json", *STEADY, "--sample-arenas", 2).json()
        tap.equal([finding["kind"] for finding in few["findings"]], ["arenas-sampled"],
                  "a few arenas: the caches of all other threads are not called damaged")
        one = memwhy("heap", fixture.pid, "--json", "--sample-arenas", 1).json()["allocators"][0]
        tap.equal(conserved(one), one["system_bytes"], "one arena: conservation")
        tap.ok(one["in_use_margin_bytes"] >= one["system_bytes"] // 2, "one arena tells nothing")
        for words in (["--sample-arenas", "0"], ["--sample-arenas", "x"],
                      ["--sample-arenas", "8", "--list-blocks"]):
            tap.equal(memwhy("heap", fixture.pid, *words).code, 2, f"refused: {' '.join(words)}")
        tap.equal(memwhy("pins", fixture.pid, "--sample-arenas", "8").code, 2, "pins reads all")


def main():
    need_memwhy()
    tap = Tap()
    within = []
    for seed in range(1, PROCESSES + 1):
        tap.guard(f"seed {seed}", check_seed, tap, seed, within)
    tap.ok(sum(within) >= WITHIN_MIN, f"{sum(within)} of {PROCESSES} within the margin", within)
    tap.guard("words", check_words, tap)
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
