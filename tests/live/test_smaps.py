#!/usr/bin/env python3
"""smaps texts as targets: kernels from 2.6.18 on, a 32-bit process, odd names, damaged ones.

Each text of tests/fixtures/smaps is given as a file and on standard input. Its report must account
for every byte of the sum of Rss, hold null for what that kernel did not print, and name what the
sidecar says it plainly is. Damaged and hostile texts must give an answer with a finding, or a
clear refusal; never a crash.
"""

import glob
import json
import os
import subprocess
import sys

from harness import TEXTS, Tap, account_sum, memwhy, need_memwhy, verdict_order_errors

FILES = ("file.text", "file.data", "file.mapped")
ARCHIVES = ".jsa"  # a mapped file that holds a runtime's metadata


def category(report, *ids):
    return sum(row["rss_bytes"] for row in report["categories"] if row["id"] in ids)


def archives_rss(path):
    """Of files that are counted as a runtime's metadata."""
    rows = memwhy("maps", path, "--json").json()["mappings"]
    return sum(row["rss_bytes"] or 0 for row in rows
               if (row["name"] or "").endswith(ARCHIVES) and row["category"] not in FILES)


def check_report(tap, name, report, truth, archives):
    tap.equal(report["schema"], "memwhy.report/1", f"{name}: schema")
    tap.equal(report["target"]["kind"], "smaps", f"{name}: kind")
    tap.equal(report["rss_bytes"], truth["rss_bytes"], f"{name}: rss")
    tap.equal(account_sum(report), report["rss_bytes"], f"{name}: account is exact")
    tap.equal(report["swap_bytes"], truth["swap_bytes"], f"{name}: swap")
    pss = [row["pss_bytes"] for row in report["categories"]]
    if truth["pss_bytes"] is None:
        tap.equal([value for value in pss if value is not None], [], f"{name}: pss is unknown")
    else:
        tap.ok(None not in pss and sum(pss) <= truth["pss_bytes"], f"{name}: pss", pss)
    if truth["file_bytes"] is not None:
        files = category(report, *FILES) + archives - truth["file_bytes"]
        tap.ok(0 <= files <= truth["edge_bytes"], f"{name}: files", f"{files} more than are files")
        tap.equal(category(report, "stack.main"), truth["stack_main_bytes"], f"{name}: main stack")
        tap.equal(category(report, "shared.memory"), truth["shared_bytes"], f"{name}: shared")
    if truth["stacks_bytes"] is not None:
        tap.equal(category(report, "stack.threads"), truth["stacks_bytes"], f"{name}: stacks")


def check_verdicts(tap, name, report, truth):
    verdicts = report["verdicts"]
    tap.equal(verdict_order_errors(verdicts), [], f"{name}: order of verdicts")
    tap.equal(verdicts[-1]["id"], "unknown", f"{name}: unknown comes last")
    tap.equal(verdicts[-1]["bytes"], report["unknown_bytes"], f"{name}: unknown has its bytes")
    if truth["first"]:
        tap.equal(verdicts[0]["id"], truth["first"], f"{name}: first verdict")
    if truth["first"] == "swapped":
        tap.equal(verdicts[0]["bytes"], truth["swap_bytes"], f"{name}: bytes in swap")
    if truth["complete"]:
        return
    tap.ok(report["findings"], f"{name}: the cut is a finding", report["findings"])


def check_text(tap, path):
    name = os.path.basename(path)[:-4]
    with open(path[:-4] + ".json", encoding="utf-8") as file:
        truth = json.load(file)
    with open(path, "rb") as file:
        data = file.read()
    by_file = memwhy("report", path, "--json")
    by_stdin = memwhy("report", "-", "--json", stdin=data)
    tap.ok(by_file.code in (0, 4), f"{name}: exit code",
           f"{by_file.code}: {by_file.err[:300]}")
    tap.equal(by_stdin.code, by_file.code, f"{name}: same exit code from standard input")
    first, second = by_file.json(), by_stdin.json()
    check_report(tap, name, first, truth, archives_rss(path))
    check_verdicts(tap, name, first, truth)
    for key in ("rss_bytes", "swap_bytes", "unknown_bytes", "categories", "verdicts"):
        tap.equal(second[key], first[key], f"{name}: {key} from standard input")
    text = memwhy("report", path)
    tap.ok(text.code == by_file.code and text.out, f"{name}: the screen",
           f"{text.code}: {text.err[:300]}")
    maps = memwhy("maps", path, "--json")
    tap.ok(maps.code in (0, 4), f"{name}: maps", f"{maps.code}: {maps.err[:300]}")
    maps.json()


# ---- damaged and hostile ----

HEADER = b"00400000-00401000 r-xp 00000000 fd:01 11                             /bin/a\n"
FIELDS = b"Size:                  4 kB\nRss:                   4 kB\n"
HOSTILE = {
    "empty": b"",
    "one newline": b"\n",
    "zeros": bytes(4096),
    "an image": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 16,
    "fields without a header": FIELDS * 7,
    "header only": HEADER,
    "number too large": HEADER + b"Rss:  99999999999999999999999 kB\n",
    "number that overflows as bytes": HEADER + b"Rss:  18014398509481984 kB\n",
    "sum that overflows": b"".join(
        b"%x-%x rw-p 0 00:00 0\nRss:  9007199254740991 kB\n" % (i << 32, (i << 32) + 4096)
        for i in range(1, 9)),
    "resident beyond its size": HEADER + b"Size:  4 kB\nRss:  4096 kB\n",
    "ends before it starts": b"00402000-00401000 r-xp 0 fd:01 11 /bin/a\n" + FIELDS,
    "overlapping": HEADER + FIELDS + HEADER + FIELDS,
    "descending": b"00500000-00501000 rw-p 0 00:00 0\n" + FIELDS + HEADER + FIELDS,
    "address too long": b"1" * 40 + b"-" + b"2" * 40 + b" rw-p 0 00:00 0\n" + FIELDS,
    "line of a megabyte": HEADER[:-1] + b"x" * (1 << 20) + b"\n" + FIELDS,
    "terminal escapes": HEADER[:-1] + b"\x1b[2J\x1b]0;owned\x07\n" + FIELDS,
    "not UTF-8": HEADER[:-1] + b"\xff\xfe\xc3\n" + FIELDS,
}


def check_hostile(tap, name, data):
    result = memwhy("report", "-", "--json", stdin=data)
    tap.ok(result.code in (0, 2, 3, 4), f"hostile, {name}: exit code", result.code)
    if result.code in (2, 3):
        tap.ok(result.err.strip(), f"hostile, {name}: says why")
        return
    report = result.json()
    tap.equal(account_sum(report), report["rss_bytes"], f"hostile, {name}: account is exact")
    screen = memwhy("report", "-", stdin=data)
    tap.ok("\x1b]" not in screen.out and "\x07" not in screen.out,
           f"hostile, {name}: no escape reaches the terminal")


def check_cuts(tap):
    """A text cut at every place: never a crash, never more than the whole."""
    with open(os.path.join(TEXTS, "linux-6.12.txt"), "rb") as file:
        data = file.read()
    with open(os.path.join(TEXTS, "linux-6.12.json"), encoding="utf-8") as file:
        whole = json.load(file)["rss_bytes"]
    wrong = []
    for at in range(0, len(data), 61):
        result = memwhy("report", "-", "--json", stdin=data[:at])
        if result.code in (2, 3):
            continue
        if result.code not in (0, 4):
            wrong.append(f"cut at {at}: exit {result.code}")
            continue
        report = result.json()
        if account_sum(report) != report["rss_bytes"] or (report["rss_bytes"] or 0) > whole:
            wrong.append(f"cut at {at}: rss {report['rss_bytes']}")
    tap.equal(wrong[:5], [], f"cut at {len(range(0, len(data), 61))} places")


def check_generated(tap):
    """The texts are what the generator writes: their sums are known, not guessed."""
    done = subprocess.run([sys.executable, os.path.join(TEXTS, "generate.py"), "--check"],
                          capture_output=True, text=True, check=False)
    tap.ok(done.returncode == 0, "texts are what generate.py writes", done.stderr)


def main():
    need_memwhy()
    tap = Tap()
    tap.guard("generated", check_generated, tap)
    for path in sorted(glob.glob(os.path.join(TEXTS, "*.txt"))):
        tap.guard(os.path.basename(path), check_text, tap, path)
    for name, data in HOSTILE.items():
        tap.guard(f"hostile, {name}", check_hostile, tap, name, data)
    tap.guard("cuts", check_cuts, tap)
    tap.done()


if __name__ == "__main__":
    main()
