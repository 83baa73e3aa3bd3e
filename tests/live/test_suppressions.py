#!/usr/bin/env python3
"""--suppressions and --fail-if of `leaks` and `report`: kinds of leak that are left out by name."""

import os

from harness import Tap, memwhy, need_memwhy, scratch_dir
from leak_checks import ONE_STOP, leak_fixture


def suppressions(*lines):
    path = os.path.join(scratch_dir(), "suppressions")
    with open(path, "w", encoding="utf-8") as file:
        file.write("# kinds that are known\n" + "".join(f"{line}\n" for line in lines))
    return path


def row_of(group):
    return f"{group['usable_bytes']} {group['signature'] or '-'}"


def gated(command, pid, *lines):
    words = ("--suppressions", suppressions(*lines)) if lines else ()
    return memwhy(command, pid, "--json", "--fail-if", "leaked>0", *ONE_STOP, *words)


def check_none(tap, pid):
    """Without suppressions both commands hit the gate, and mean the same."""
    leaks, report = gated("leaks", pid), gated("report", pid)
    tap.equal((leaks.code, report.code), (1, 1), f"the gate is hit: {leaks.err}{report.err}")
    found = leaks.json()
    tap.equal(found["suppressed_count"], 0, "nothing is suppressed")
    tap.equal(sum(group["bytes"] for group in found["groups"]), found["unreachable_bytes"],
              "the groups are all that is lost")
    return found


def check_each(tap, pid, whole):
    """Each kind left out alone: the others stay, and the sums tell what is missing."""
    for group in whole["groups"]:
        row = row_of(group)
        found = gated("leaks", pid, row).json()
        left = [other for other in whole["groups"] if row_of(other) != row]
        out = [other for other in whole["groups"] if row_of(other) == row]
        tap.equal([row_of(other) for other in found["groups"]], [row_of(other) for other in left],
                  f"{row}: the others are there")
        tap.equal((found["suppressed_count"], found["suppressed_bytes"]),
                  tuple(sum(other[key] for other in out) for key in ("count", "bytes")),
                  f"{row}: what is left out is counted")
        tap.equal(found["unreachable_bytes"], whole["unreachable_bytes"],
                  f"{row}: it is lost all the same")


def check_all(tap, pid, whole):
    rows = [row_of(group) for group in whole["groups"]]
    leaks, report = gated("leaks", pid, *rows), gated("report", pid, *rows)
    tap.equal((leaks.code, report.code), (0, 0), f"all left out: the gate is not hit: {leaks.err}{report.err}")
    tap.equal([verdict["id"] for verdict in report.json()["verdicts"]
               if verdict["class"] == "leaked"], [], "and no verdict says leaked")
    tap.ok(f"{whole['unreachable_count']:,} lost blocks" in report.err, "the report says so",
           report.err)
    text = memwhy("leaks", pid, *ONE_STOP, "--suppressions", suppressions("*")).out
    tap.ok("nothing is leaked but what is suppressed" in text, "and so does the screen", text)
    but_one = gated("leaks", pid, *rows[1:])
    tap.equal((but_one.code, len(but_one.json()["groups"])), (1, 1), "one new kind hits it")


def check_refused(tap, pid):
    for lines, part in ((("12",), "line 2"), (("0 x",), "line 2")):
        result = gated("leaks", pid, *lines)
        tap.ok(result.code == 2 and part in result.err, f"{lines}: usage", result.err)
    result = memwhy("leaks", pid, "--suppressions", "/nonexistent")
    tap.ok(result.code == 2 and "/nonexistent" in result.err, "no such file: usage", result.err)
    twice = ("--suppressions", suppressions("a")) * 2
    tap.equal(memwhy("leaks", pid, *twice).code, 2, "given twice: usage")


def main():
    need_memwhy()
    tap = Tap()
    with leak_fixture("makers") as fixture:
        whole = check_none(tap, fixture.pid)
        tap.ok(len({row_of(group) for group in whole["groups"]}) > 1, "there are kinds to tell",
               whole["groups"])
        check_each(tap, fixture.pid, whole)
        check_all(tap, fixture.pid, whole)
        check_refused(tap, fixture.pid)
    tap.done()


if __name__ == "__main__":
    main()
