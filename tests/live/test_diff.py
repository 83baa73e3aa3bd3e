#!/usr/bin/env python3
"""`diff`: what grew between two moments, exactly: a program that grows and shrinks by order
(tests/fixtures/grower.c), between cores, since a core, and while memwhy waits; with a control."""

import contextlib
import os
import threading
import time

from harness import Fixture, Skip, Tap, TEXTS, memwhy, need_memwhy
from leak_checks import CORE_FILTER, ONE_STOP
from matrix import dumps_allow, gcore

CHANGE = ("keep 312 500", "keep 1000 70", "lose 488 90", "type 72 40", "free 200 300")
# chunk size: (before, after, lost, stayed)
SIZES = {"320": (0, 500, 0, 0), "1008": (0, 70, 0, 0), "496": (0, 90, 90, 0),
         "80": (0, 40, 0, 0), "208": (1000, 700, 0, 700)}
DAY = 86400


def rows_of(document, what):
    return {row["id"]: row for row in document["rows"] if row["what"] == what}


def order(fixture, *orders):
    for line in orders:
        if fixture.ask(line) != "done":
            raise AssertionError(f"{line}: not done")


def check_arithmetic(tap, name, document):
    """What holds in every answer."""
    wrong = []
    for row in document["rows"]:
        for of in ("bytes", "count"):
            before, after = row[f"before_{of}"], row[f"after_{of}"]
            wanted = None if before is None or after is None else after - before
            if row[f"delta_{of}"] != wanted:
                wrong.append(row)
    tap.equal(wrong, [], f"{name}: every change is after less before")
    for moment in ("before", "after"):
        total = sum(row[f"{moment}_bytes"] for row in document["rows"] if row["what"] == "category")
        if document["category_measure"] == "resident":
            tap.equal(total, document[f"rss_{moment}_bytes"],
                      f"{name}: categories sum to RSS {moment}")
    order_of = [("category", "size", "signature").index(row["what"]) for row in document["rows"]]
    tap.equal(order_of, sorted(order_of), f"{name}: categories, sizes, signatures")
    for what in ("category", "size", "signature"):
        grown = [row["delta_bytes"] - (row["control_delta_bytes"] or 0)
                 for row in document["rows"] if row["what"] == what]
        tap.equal(grown, sorted(grown, reverse=True), f"{name}: {what}: by growth")


def check_change(tap, name, document, sizes, same=True):
    """sizes: as SIZES; every other size is unchanged."""
    check_arithmetic(tap, name, document)
    rows = rows_of(document, "size")
    for size, (before, after, lost, stayed) in sizes.items():
        row = rows.get(size, {})
        tap.equal((row.get("before_count"), row.get("after_count"), row.get("delta_count"),
                   row.get("delta_unreachable_count"), row.get("survived_count")),
                  (before, after, after - before, lost, stayed if same else None),
                  f"{name}: blocks of {size}")
        tap.equal((row.get("before_bytes"), row.get("after_bytes")),
                  (before * int(size), after * int(size)), f"{name}: bytes of {size}")
    others = {size: row["delta_count"] for size, row in rows.items()
              if row["delta_count"] != 0 and size not in sizes}
    tap.equal(others, {}, f"{name}: nothing else changed")
    tap.equal(document["same_process"], same, f"{name}: one process or two")


def check_cores(tap, fixture):
    dumps_allow(fixture, CORE_FILTER)
    before = gcore(fixture)
    first = before + ".first"
    os.rename(before, first)
    order(fixture, *CHANGE)
    after = gcore(fixture)
    try:
        document = memwhy("diff", first, after, "--json").json()
        check_change(tap, "two cores", document, SIZES)
        tap.equal(document["elapsed_by"], "file times", "two cores: time")
        tap.ok(any("80 marker" in name for name in rows_of(document, "signature")),
               "two cores: the kind by its function", list(rows_of(document, "signature")))
        document = memwhy("diff", first, fixture.pid, "--json", *ONE_STOP).json()
        check_change(tap, "since a core", document, SIZES)
        document = memwhy("diff", after, first, "--json").json()
        back = {size: (after_, before_, -lost, stayed)
                for size, (before_, after_, lost, stayed) in SIZES.items()}
        check_change(tap, "backwards", document, back)
        tap.equal(document["elapsed_seconds"], None, "backwards: no time")
        text = memwhy("diff", first, after).out
        for part in ("WHERE", "SIZES", "SIGNATURES", "+156.2", "by the times of the files"):
            tap.ok(part in text, f"the screen says {part}", text)
        tap.equal([line for line in text.splitlines() if len(line) > 100], [], "and fits")
        check_controls(tap, first, after)
    finally:
        for path in (first, after):
            if os.path.exists(path):
                os.unlink(path)


def check_controls(tap, before, after):
    """A control that did the same: nothing is left; one that did nothing: all is."""
    document = memwhy("diff", before, after, "--control", before, "--control", after,
                      "--json").json()
    left = {row["id"]: row["delta_bytes"] - row["control_delta_bytes"]
            for row in document["rows"] if row["delta_bytes"] != row["control_delta_bytes"]}
    tap.equal(left, {}, "the same control: nothing grew beside it")
    check_change(tap, "the same control", document, SIZES)
    text = memwhy("diff", before, after, "--control", before, "--control", after).out
    tap.equal(text.count("nothing grew"), 2, "the same control: the screen says so")
    document = memwhy("diff", before, after, "--control", before, "--control", before,
                      "--json").json()
    tap.equal({row["control_delta_count"] for row in document["rows"] if row["what"] == "size"},
              {0}, "an idle control takes nothing off")


@contextlib.contextmanager
def ordered_later(seconds, *pairs):
    """Orders to fixtures while memwhy waits."""
    def run():
        time.sleep(seconds)
        for fixture, orders in pairs:
            order(fixture, *orders)
    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def check_waiting(tap, fixture):
    """diff PID --after, and a control that grew part of the same."""
    with Fixture("grower") as control:
        with ordered_later(4, (fixture, ("keep 2040 60", "free 1000 20")),
                           (control, ("keep 2040 50",))):
            result = memwhy("diff", fixture.pid, "--after", "10s", "--control", control.pid,
                            "--json", *ONE_STOP)
        document = result.json()
        check_change(tap, "--after", document,
                     {"2048": (0, 60, 0, 0), "1008": (70, 50, 0, 50)})
        tap.ok(10 <= document["elapsed_seconds"] < 60, "--after: the time",
               document["elapsed_seconds"])
        tap.equal(document["elapsed_by"], "clock", "--after: by the clock")
        row = rows_of(document, "size")["2048"]
        tap.equal((row["delta_count"], row["control_delta_count"]), (60, 50),
                  "--control: its growth beside")
        document = memwhy("diff", fixture.pid, control.pid, "--json", *ONE_STOP).json()
        tap.equal((document["same_process"], rows_of(document, "size")["208"]["survived_count"]),
                  (False, None), "two processes: nobody stays")
        check_arithmetic(tap, "two processes", document)


def check_texts(tap):
    """Two smaps texts: categories alone."""
    path = os.path.join(TEXTS, sorted(name for name in os.listdir(TEXTS)
                                      if name.endswith(".txt"))[0])
    result = memwhy("diff", path, path, "--json")
    document = result.json()
    tap.equal({row["what"] for row in document["rows"]}, {"category"}, "texts have categories")
    tap.equal({row["delta_bytes"] for row in document["rows"]}, {0}, "and one does not grow")


def check_refused(tap, fixture):
    pid = fixture.pid
    for words in ((pid,), (pid, pid, "--after", "1s"), (pid, "--after", "0s"),
                  (pid, "--after", "soon"), (pid, pid, "--control", pid),
                  (pid, "--after", "1s", "--control", pid, "--control", pid)):
        result = memwhy("diff", *words)
        tap.ok(result.code == 2 and result.err, f"{words[1:]}: usage", result.err)
    tap.equal(memwhy("diff", "/nonexistent", pid).code, 3, "no such target")


def main():
    need_memwhy()
    tap = Tap()
    with Fixture("grower") as fixture:
        try:
            check_cores(tap, fixture)
        except Skip as why:
            tap.skip("cores", str(why))
            order(fixture, *CHANGE)
        check_waiting(tap, fixture)
        check_texts(tap)
        check_refused(tap, fixture)
    tap.done()


if __name__ == "__main__":
    main()
