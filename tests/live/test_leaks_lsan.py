#!/usr/bin/env python3
# timeout: 600
"""What clang's LeakSanitizer says of the same sources, built with it: the same bytes, as many blocks.

Each shape of tests/fixtures/leaks.c runs twice: as built without it, looked at by `leaks`, and built
with -fsanitize=leak, which looks at itself at the same moment. Both must find what the program
recorded. LeakSanitizer counts the bytes that were asked for, malloc those of its chunks.
Where the two differ by design the difference is exact, too.
"""

import collections
import os
import re
import shutil
import sys

import libcs
from harness import Failure, Skip, Tap, need_memwhy, scratch_dir
from leak_checks import (LOST, ONE_STOP, SOURCES, TLS, Built, build, check_target, leak_fixture,
                         rows_of, within)

SHAPES = ["lists", "trees", "hashes", "cycles", "interior", "freed", "tcache", "neighbours", "huge",
          "realloc", "many", "tls", "tls-dynamic", "specific", "registers", "stacks", "contexts",
          "ended", "makers", "regrown", "crowd", "destructor", "stale-stack", "limits"]
# Where the two differ by design: bytes and blocks that it finds beyond what is lost.
DIFFER = {
    "arrays": (5353, 101),    # it does not look into the program's own mappings
    "mappings": (14730, 30),  # nor for operands in generated code
    "red-zone": (788, 4),     # nor below the stack pointer
    "ignored": (-4248, -3),   # the program asks it to leave these out
}
SUMMARY = re.compile(r"SUMMARY: LeakSanitizer: (\d+) byte\(s\) leaked in (\d+) allocation")


def lsan_build():
    if not shutil.which("clang"):
        raise Skip("clang is not installed")
    program = os.path.join(scratch_dir(), "leaks-lsan")
    sources = [os.path.join(SOURCES, f"{name}.c") for name in libcs.PROGRAMS["leaks"]]
    try:
        build("clang", "-fsanitize=leak", *libcs.COMPILE, *sources, "-o", program, "-pthread",
              "-ldl", "-Wno-unused-command-line-argument")
    except Failure as why:
        raise Skip(f"clang builds nothing with -fsanitize=leak: {why}") from why
    return program


def lsan_says(program, shape):
    """(bytes, blocks) of its summary, and the record of that run."""
    log = os.path.join(scratch_dir(), f"lsan-{shape}")
    options = f"log_path={log}:exitcode=0:allocator_may_return_null=1"
    with Built(program, shape, env={"LSAN_OPTIONS": options, "LEAKS_TLS": TLS}) as fixture:
        rows, path = list(rows_of(fixture).values()), f"{log}.{fixture.pid}"
    text = ""
    if os.path.exists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    if "failed to suspend" in text or "encountered a fatal error" in text:
        raise Skip("LeakSanitizer may not stop threads here")
    found = SUMMARY.search(text)
    return tuple(map(int, found.groups())) if found else (0, 0), rows


def check_shape(tap, program, shape):
    with leak_fixture(shape) as fixture:
        check_target(tap, f"{shape}, memwhy", fixture, fixture.pid, *ONE_STOP)
        plain = [row["requested"] for row in rows_of(fixture).values() if row["state"] in LOST]
    said, rows = lsan_says(program, shape)
    lost = [row["requested"] for row in rows if row["state"] in LOST]
    tap.equal(collections.Counter(lost), collections.Counter(plain),
              f"{shape}: the program loses the same with and without LeakSanitizer")
    either = [row["requested"] for row in rows if row["state"] == "either"]
    more = DIFFER.get(shape, (0, 0))
    wanted = (sum(lost) + more[0], len(lost) + more[1])
    tap.ok(within(said[0], wanted[0], sum(either)) and within(said[1], wanted[1], len(either)),
           f"{shape}: LeakSanitizer finds {'the same' if more == (0, 0) else more}: bytes, blocks",
           f"it says {said}, wanted {wanted}, or more by {sum(either)}")


def main():
    need_memwhy()
    tap = Tap()
    try:
        program = lsan_build()
    except Skip as why:
        tap.skip("LeakSanitizer", str(why))
        tap.done()
    for shape in sys.argv[1:] or [*SHAPES, *DIFFER]:
        tap.guard(shape, check_shape, tap, program, shape)
    tap.done()


if __name__ == "__main__":
    main()
