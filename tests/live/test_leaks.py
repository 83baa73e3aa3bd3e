#!/usr/bin/env python3
# timeout: 900
"""What nothing leads to, exactly: programs that know it of each of their blocks.

  - each shape of tests/fixtures/leaks.c, live under one stop and with --fork; all of them in one
    program in a core of gcore and of the kernel, with an arena a thread and with one arena; the
    second opinion of reach.py of the same core
  - C++ containers and objects; musl; all shapes on the C libraries of Debian's suites
  - counts, bytes, direct and indirect, each size's share; no block of libc's own is called lost

Shapes may be given as arguments.
"""

import os
import shutil
import sys

import libcs
import musl
import reach
from harness import Skip, Tap, need_memwhy
from leak_checks import (CORE_FILTER, ONE_STOP, TLS, Built, check_answer, check_target, cxx_program,
                         leak_fixture, leaks_of, truth_of)
from matrix import ROWS, dumps_allow, gcore, kernel_core, row_name
from shape_checks import list_blocks

SHAPES = ["lists", "trees", "hashes", "arrays", "cycles", "interior", "freed", "tcache",
          "neighbours", "huge", "realloc", "many", "tls", "tls-dynamic", "specific", "registers",
          "red-zone", "stacks", "contexts", "ended", "mappings", "makers", "regrown",
          "crowd", "destructor", "stale-stack", "ignored", "limits"]
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
MUSL_SOURCES = ("leaks.c", "leaks_record.c", "leaks_graphs.c", "leaks_heap.c", "leaks_roots.c",
                "leaks_kinds.c")


def check_shape(tap, shape):
    with leak_fixture(shape) as fixture:
        check_target(tap, shape, fixture, fixture.pid, *ONE_STOP)
        check_target(tap, f"{shape}, --fork", fixture, fixture.pid, "--fork")


def check_core(tap, name, fixture, write, is_second=False):
    """A core of the program; and what the simple marking of the same core says."""
    core = write(fixture)
    try:
        listing = list_blocks(core)
        check_target(tap, name, fixture, core, listing=listing)
        if is_second:
            lost = reach.lost(core, [(block.address, block.size, block.state) for block in listing])
            truth, _ = truth_of(fixture, core, listing)
            # It takes what an ended thread has left for roots.
            off = {block.start for block in lost} ^ truth.lost_addresses
            tap.ok(len(off) <= 64, f"{name}: reach.py says the same but for a few", len(off))
    finally:
        os.unlink(core)


def check_cores(tap, name, env, writers=(("gcore", gcore), ("kernel core", kernel_core)),
                libc=None):
    with leak_fixture("all", libc, env) as fixture:
        dumps_allow(fixture, CORE_FILTER)
        for source, write in writers:
            tap.guard(f"{name}, {source}", check_core, tap, f"{name}, {source}", fixture, write,
                      write is kernel_core and libc is None)


def check_cxx(tap, compiler):
    if not shutil.which(compiler):
        raise Skip(f"{compiler} is not installed")
    with Built(cxx_program(compiler)) as fixture:
        check_target(tap, compiler, fixture, fixture.pid, *ONE_STOP)


def check_libc(tap, row, libc):
    """All shapes on another glibc, live and in a core."""
    name = row_name(row)
    if isinstance(libc, str):
        raise Skip(libc)
    with leak_fixture("all", libc) as fixture:
        check_target(tap, f"{name}, live", fixture, fixture.pid, *ONE_STOP)
    check_cores(tap, name, None, [("kernel core", kernel_core)], libc)


def check_libcs(tap):
    rows = [row for row in ROWS if row.kind == "glibc" and row.in_suites
            and not row.arch.emulator and row.version != libcs.system_version()]
    found = libcs.libcs_find(rows)
    for row in rows:
        tap.guard(row_name(row), check_libc, tap, row, found[row])


def check_musl(tap, release):
    program = release.fixture("leaks", *MUSL_SOURCES)
    for shape in SHAPES:
        name = f"musl {release.version} {shape}"
        with Built(program, shape, env={"LEAKS_TLS": TLS}) as fixture:
            check_target(tap, name, fixture, fixture.pid, *ONE_STOP)
    with Built(program, "all", env={"LEAKS_TLS": TLS}) as fixture:
        dumps_allow(fixture, CORE_FILTER)
        check_core(tap, f"musl {release.version} all, gcore", fixture, gcore)


def check_musls(tap):
    for release in musl.releases():
        tap.guard(f"musl {release.version}", check_musl, tap, release)


def check_many_stops(tap):
    """A program that stands still is the same under many stops: nothing held is called lost."""
    with leak_fixture("all") as fixture:
        answer = leaks_of(fixture.pid, "--max-pause", "1us")
        truth, whole = truth_of(fixture, fixture.pid)
        least = sum(sum(counts.values()) for counts in (truth.direct, truth.indirect))
        either = sum(truth.either.values())
        tap.ok(answer["unreachable_count"] <= least + either, "many stops: no more than is lost",
               answer["unreachable_count"])
        both = answer["unreachable_count"] + answer["uncertain_count"]
        tap.ok(both >= least, "many stops: what is lost is counted, as such or as uncertain",
               (both, least))
        if answer["uncertain_count"] == 0:
            check_answer(tap, "many stops", answer, truth, whole)


def main():
    need_memwhy()
    tap = Tap()
    for shape in sys.argv[1:] or SHAPES:
        tap.guard(shape, check_shape, tap, shape)
    if len(sys.argv) == 1:
        tap.guard("cores", check_cores, tap, "all", None)
        tap.guard("one arena", check_cores, tap, "all, one arena", ONE_ARENA,
                  [("kernel core", kernel_core)])
        tap.guard("many stops", check_many_stops, tap)
        for compiler in ("g++", "clang++"):
            tap.guard(compiler, check_cxx, tap, compiler)
        tap.guard("musl", check_musls, tap)
        tap.guard("C libraries", check_libcs, tap)
    tap.done()


if __name__ == "__main__":
    main()
