#!/usr/bin/env python3
# timeout: 900
"""Processes in a known state: the right verdict first, its bytes counted, look-alikes absent.

For each state of tests/fixtures/state.c, and for the sample of `make demo`, `report PID --json`:
  - rss_bytes is the kernel's, and the categories plus unknown are rss_bytes, exactly;
  - verdicts are ordered by class, then bytes; minor ones later, `unknown` last; those that are
    part of nothing do not add up to more than RSS (what is outside RSS aside);
  - the first verdict, its class and bytes are what the program counted, causes are named beside it;
  - look-alikes are not reported as more than minor;
  - each verdict has evidence with a source, and kept and leaked ones a remedy and how to verify it;
  - the screen opens with the class and id of the first verdict.
States may be given as arguments.
"""

import json
import os
import re
import shutil
import subprocess
import sys

from harness import (PAGE, Fixture, Skip, Tap, account_sum, memwhy, need_memwhy, scratch_dir,
                     smaps_rollup, verdict_order_errors)

ENVIRONMENT = {
    "allocator-cache": {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=4099"},
    "leftover": {"MALLOC_ARENA_MAX": "2", "LD_PRELOAD": "/nonexistent/lib/libjemalloc.so.2"},
}
STATES = [
    "trimmable-free", "arena-proliferation", "fragmentation", "heap-top-pinned",
    "adaptive-mmap-threshold", "allocator-cache", "thread-stacks", "file-maps", "shared-memory",
    "thp-bloat", "thp-sampled", "thp-zeros", "thp-stacks", "lazy-free", "mapping-leak",
    "healthy", "leftover", "native-leak", "growth",
]
NEED_RESIDENCY = {"thp-bloat", "thp-stacks", "lazy-free", "mapping-leak", "device-memory",
                  "managed-unused"}
CLASSES = ("leaked", "growing", "kept", "outside", "needed")
BASES = ("proven", "likely", "possible")


def find(verdicts, name):
    return next((verdict for verdict in verdicts if verdict["id"] == name), None)


def weighty(verdicts):
    return [verdict for verdict in verdicts if not verdict.get("minor")]


# ---- what holds for every report ----


def check_account(tap, name, report, pid, unowned=0):
    rollup = smaps_rollup(pid)
    tap.equal(report["schema"], "memwhy.report/1", f"{name}: schema")
    tap.equal(report["target"]["pid"], pid, f"{name}: pid")
    tap.equal(report["rss_bytes"], rollup["Rss"], f"{name}: rss is the kernel's")
    tap.equal(account_sum(report), report["rss_bytes"], f"{name}: account is exact")
    tap.ok(abs(report["unknown_bytes"] - unowned) <= 0.03 * report["rss_bytes"],
           f"{name}: unknown is at most 3 %", report["unknown_bytes"])
    names = [row["id"] for row in report["categories"]]
    tap.equal(len(set(names)), len(names), f"{name}: each category once")
    tap.ok(all(row["rss_bytes"] >= 0 and row["source"] for row in report["categories"]),
           f"{name}: categories have a source", report["categories"])


def check_shape(tap, name, report, explained=0):
    """Form and order of the verdicts; `explained` bytes have a verdict, and most no owner."""
    verdicts = report["verdicts"]
    tap.equal(verdict_order_errors(verdicts), [], f"{name}: order of verdicts")
    tap.equal(verdicts[-1]["id"], "unknown", f"{name}: unknown comes last")
    tap.close(verdicts[-1]["bytes"] + explained, report["unknown_bytes"],
              64 << 10 if explained else 0, f"{name}: unknown has its bytes")
    inside = [verdict["bytes"] for verdict in verdicts
              if verdict["part_of"] is None and verdict["class"] != "outside"]
    tap.ok(sum(inside) <= report["rss_bytes"], f"{name}: no byte is charged twice",
           f"{sum(inside)} of {report['rss_bytes']}")
    ids = {verdict["id"] for verdict in verdicts}
    wrong = [verdict["id"] for verdict in verdicts
             if verdict["class"] not in CLASSES or verdict["basis"] not in BASES
             or not verdict["summary"] or verdict["part_of"] not in ids | {None}]
    tap.equal(wrong, [], f"{name}: verdicts are well formed")
    wrong = [verdict["id"] for verdict in weighty(verdicts) if verdict["id"] != "unknown"
             and not (verdict["evidence"] and all(item["source"] for item in verdict["evidence"]))]
    tap.equal(wrong, [], f"{name}: verdicts have evidence with a source")
    wrong = [verdict["id"] for verdict in weighty(verdicts)
             if verdict["class"] in ("leaked", "kept") and verdict["part_of"] is None
             and not any(remedy["verify"] for remedy in verdict["remedies"])]
    tap.equal(wrong, [], f"{name}: remedies say how to verify them")


def check_screen(tap, name, pid, first):
    """The text: one screen of at most 100 columns that opens with the first verdict."""
    result = memwhy("report", pid)
    tap.ok(result.code in (0, 4), f"{name}: report succeeds", f"{result.code}: {result.err[:300]}")
    lines = result.out.splitlines()
    wide = [line for line in lines if len(line) > 100]
    tap.equal(wide[:2], [], f"{name}: at most 100 columns")
    word = r"^(LEAKED|GROWING|KEPT|OUTSIDE|NEEDED)\b"
    head = next((line for line in lines if re.match(word, line)), "")
    if first["class"] in ("leaked", "growing", "kept"):
        tap.ok(head.startswith(first["class"].upper()) and first["id"] in head,
               f"{name}: the screen opens with it", head or result.out[:500])
    tap.ok("unknown" in result.out, f"{name}: unknown is on the screen")
    tap.ok("\x1b" not in result.out, f"{name}: no colour into a pipe")


# ---- one state ----


def check_first(tap, name, verdicts, truth):
    first = verdicts[0]
    tap.ok(first["id"] in truth["first"], f"{name}: first verdict", f"got {first['id']}, wanted "
           f"{truth['first']}; {[(v['id'], v['bytes']) for v in verdicts]}")
    if truth["class"]:
        tap.equal(first["class"], truth["class"], f"{name}: class")
    if truth["bytes"] is not None:
        tap.close(first["bytes"], truth["bytes"], truth["tolerance_bytes"], f"{name}: bytes")
    for cause in truth["causes"]:
        verdict = find(verdicts, cause["id"])
        if not tap.ok(verdict is not None, f"{name}: names {cause['id']}"):
            continue
        tap.equal(verdict["part_of"], first["id"], f"{name}: {cause['id']} is part of it")
        tap.close(verdict["bytes"], cause["bytes"], cause["tolerance_bytes"],
                  f"{name}: bytes of {cause['id']}")
    heavy = {verdict["id"] for verdict in weighty(verdicts)}
    tap.equal(sorted(heavy & set(truth["absent"])), [], f"{name}: no look-alike")
    if first["class"] == "growing" or "candidate" in first["summary"]:
        tap.ok(first["basis"] != "proven", f"{name}: a candidate is not called proven",
               first["basis"])


def check_kept(tap, name, pid, report, truth):
    """Pins and parameters that the state set."""
    heap = report["allocators"][0]
    tap.equal(heap["kind"], "glibc", f"{name}: allocator")
    tap.equal(heap["parameters"]["mmap_threshold"], truth["mmap_threshold"] or 131072,
              f"{name}: mmap_threshold in force")
    tap.equal(heap["parameters"]["arena_max"], truth["arena_max"], f"{name}: arena_max in force")
    if truth["pin"]:
        pins = memwhy("pins", pid, "--json").json()["pins"]
        pin = next((row for row in pins if row["block"] == truth["pin"]["address"]), None)
        if tap.ok(pin is not None, f"{name}: the pin is found", f"{truth['pin']}; {pins[:3]}"):
            tap.equal(pin["size_bytes"], truth["pin"]["size_bytes"], f"{name}: size of the pin")
            tap.equal(pin["distance_from_top_bytes"], truth["pin"]["distance_from_top_bytes"],
                      f"{name}: distance of the pin")
            tap.close(pin["would_release_bytes"], truth["bytes"], truth["tolerance_bytes"],
                      f"{name}: what the pin holds back")


def check_mentioned(tap, name, report, truth):
    """Words that must be said somewhere other than in the echo of the environment."""
    rest = json.dumps({key: value for key, value in report.items() if key != "target"})
    for word in truth["mentioned"]:
        tap.ok(word in rest, f"{name}: speaks of {word}")


def check_trim(tap, name, fixture, truth):
    """What trimmable-free promises is what the program's own malloc_trim(0) then gives back."""
    predicted = memwhy("trim", fixture.pid, "--json").json()["predicted_bytes"]
    report = memwhy("report", fixture.pid, "--json").json()
    tap.equal(report["allocators"][0]["trimmable_bytes"], predicted,
              f"{name}: trim and report agree")
    before, after, present, left = fixture.trim()
    tap.equal(before - after, predicted, f"{name}: predicted is what trim gives back")
    tap.equal(len(present - left) * PAGE, predicted, f"{name}: and so are the pages")
    verdicts = memwhy("report", fixture.pid, "--json").json()["verdicts"]
    heavy = {verdict["id"] for verdict in weighty(verdicts)}
    tap.ok("trimmable-free" not in heavy, f"{name}: after the trim nothing is trimmable", heavy)


def check_state(tap, state):
    with Fixture("state", state, env=ENVIRONMENT.get(state)) as fixture:
        truth = fixture.truth
        result = memwhy("report", fixture.pid, "--json")
        tap.equal((result.code, result.err), (0, ""), f"{state}: report succeeds quietly")
        report = result.json()
        unowned = truth["unowned_bytes"]
        check_account(tap, state, report, fixture.pid, unowned)
        check_shape(tap, state, report, report["verdicts"][0]["bytes"] if unowned else 0)
        check_first(tap, state, report["verdicts"], truth)
        check_kept(tap, state, fixture.pid, report, truth)
        check_mentioned(tap, state, report, truth)
        check_screen(tap, state, fixture.pid, report["verdicts"][0])
        if truth["class"] == "kept":
            check_trim(tap, state, fixture, truth)


def check_growth(tap):
    """What grows is counted anew: the same list, 20,011 blocks longer."""
    with Fixture("state", "growth") as fixture:
        def in_use():
            report = memwhy("report", fixture.pid, "--json").json()
            heap = report["allocators"][0]
            candidate = find(report["verdicts"], "unbounded-growth")
            return heap["in_use_count"], heap["in_use_bytes"], candidate
        count, size, first = in_use()
        tap.ok(first and first["basis"] == "possible" and "candidate" in first["summary"]
               and first["part_of"] == "healthy", "growth: a candidate beside what is needed", first)
        tap.equal(fixture.ask("grow 20011"), "done", "growth: grows")
        grown, grown_size, first = in_use()
        chunk = fixture.truth["bytes"] // 60013
        tap.equal((grown - count, grown_size - size), (20011, 20011 * chunk),
                  "growth: exactly the new blocks are more")
        tap.close(first["bytes"], 80024 * chunk, 80024, "growth: the verdict has grown with it")


def check_remedy_of_huge_pages(tap):
    """The same program without huge pages holds less by what the remedy promises."""
    with Fixture("state", "thp-bloat") as bloated, Fixture("state", "thp-off") as cured:
        first = memwhy("report", bloated.pid, "--json").json()["verdicts"][0]
        remedy = first["remedies"][0]
        less = smaps_rollup(bloated.pid)["Rss"] - smaps_rollup(cured.pid)["Rss"]
        slack = 256 << 10  # pages of the C library that one has touched and the other not
        tap.ok(remedy["gain_low_bytes"] - slack <= less <= remedy["gain_high_bytes"] + slack,
               "thp-off: gives what was promised", f"{less} less; {remedy}")
        report = memwhy("report", cured.pid, "--json").json()
        tap.equal([v["id"] for v in report["verdicts"] if v["id"].startswith("thp")], [],
                  "thp-off: no bloat is left")


def check_core(tap, state):
    """A core has bytes and no residency: what only residency tells is not said of it."""
    if not shutil.which("gcore"):
        raise Skip("no gcore")
    with Fixture("state", state) as fixture:
        prefix = os.path.join(scratch_dir(), "core")
        subprocess.run(["gcore", "-o", prefix, str(fixture.pid)], capture_output=True,
                       timeout=120, check=False)
        core = f"{prefix}.{fixture.pid}"
        if not os.path.exists(core):
            raise Skip("gcore wrote no core")
        report = memwhy("report", core, "--json").json()
        os.unlink(core)
        if report["rss_bytes"] is not None:
            raise Skip("this core tells what is resident")
        said = {verdict["id"] for verdict in report["verdicts"]}
        tap.equal(sorted(said & NEED_RESIDENCY), [], f"{state}: nothing is made up for a core")
        tap.ok("unknown" in said, f"{state}: the core has verdicts", said)


PYTHON = "/usr/bin/python3"
SCATTERED = """
import sys
strings = [str(i) + "abcdefgh" * 6 for i in range(600011)]
kept = strings[::401]
del strings
sys._debugmallocstats()
print("ready", file=sys.stderr, flush=True)
sys.stdin.read()
"""


def check_python(tap):
    """Free pools in arenas that are not empty: CPython's own statistics say how many."""
    if not os.access(PYTHON, os.X_OK):
        raise Skip(f"no {PYTHON}")
    with subprocess.Popen([PYTHON, "-c", SCATTERED], stdin=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        said = "".join(iter(process.stderr.readline, "ready\n"))
        report = memwhy("report", process.pid, "--json").json()
        process.stdin.close()
    match = re.search(r"(\d+) unused pools \* (\d+) bytes", said)
    if not match:
        raise Skip("this Python has other statistics")
    unused = int(match[1]) * int(match[2])
    first = report["verdicts"][0]
    tap.equal((first["id"], first["class"]), ("managed-unused", "kept"), "python: first verdict")
    # pools that were never carved out of the last arenas are not resident
    tap.close(first["bytes"], unused, 4 << 20, "python: bytes in free pools")


def check_sample(tap):
    """The demo: leaked before kept before needed."""
    with Fixture("sample", 600) as fixture:
        truth = fixture.truth
        report = memwhy("report", fixture.pid, "--json").json()
        check_account(tap, "sample", report, fixture.pid)
        check_shape(tap, "sample", report)
        verdicts = weighty(report["verdicts"])
        tap.equal([(v["id"], v["class"]) for v in verdicts[:2]],
                  [("native-leak", "leaked"), ("trimmable-free", "kept")], "sample: in this order")
        tap.close(verdicts[0]["bytes"], truth["leaked"]["bytes"], truth["leaked"]["bytes"] // 1000,
                  "sample: leaked bytes")
        tap.close(verdicts[1]["bytes"], truth["trimmable_bytes"], 512 << 10, "sample: kept bytes")
        heap = report["allocators"][0]
        tap.close(heap["in_use_bytes"], truth["leaked"]["bytes"] + truth["needed"]["bytes"],
                  16 << 10, "sample: in use")
        check_screen(tap, "sample", fixture.pid, verdicts[0])


def main():
    need_memwhy()
    tap = Tap()
    chosen = sys.argv[1:]
    for state in chosen or STATES:
        if state in STATES:
            tap.guard(state, check_state, tap, state)
    if not chosen or "growth" in chosen:
        tap.guard("growth", check_growth, tap)
    if not chosen or "thp-off" in chosen:
        tap.guard("thp-off", check_remedy_of_huge_pages, tap)
    if not chosen or "python" in chosen:
        tap.guard("python", check_python, tap)
    if not chosen or "core" in chosen:
        for state in ("thp-bloat", "lazy-free"):
            tap.guard(f"core of {state}", check_core, tap, state)
    if not chosen or "sample" in chosen:
        tap.guard("sample", check_sample, tap)
    tap.done()


if __name__ == "__main__":
    main()
