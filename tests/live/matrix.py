#!/usr/bin/env python3
"""The table of docs/guide/exactness.md: heap shapes on C libraries, live and in cores.

    matrix.py [--write FILE] [--no-fetch] [--libc VERSION]... [--arch NAME] [SHAPE...]
    matrix.py --save FILE ...         keep the results
    matrix.py --load FILE... --write FILE   make the page of kept results, in the order of ROWS

On each C library of ROWS that can be had (libcs.py) the program heapshape takes each shape. Then
everything of shape_checks.py is compared three times: live, in a core that gdb's gcore wrote, and
in a core that the kernel wrote. A C library that cannot be had is a row that says so. Prints TAP,
one line a case, and with --write makes the page. Exit 1: something was not exact.

MATRIX_ROOTS   folders of C libraries that are there already, separated by ":"; needed for those
               that no Debian suite has (built from their tags)
"""

import argparse
import collections
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import libcs
import test_musl
from harness import EXIT_SKIP, Failure, Skip, Tap, need_memwhy, scratch_dir
from shape_checks import SHAPES, check_heap, check_live, shape_fixture

# A C library more: a row here. in_suites: a Debian suite has it, or had it when this was written.
Row = collections.namedtuple("Row", "kind version in_suites arch", defaults=(libcs.X86_64,))
ROWS = [
    Row("glibc", (2, 24), False),
    Row("glibc", (2, 28), False),
    Row("glibc", (2, 31), True),
    Row("glibc", (2, 36), True),
    Row("glibc", (2, 41), True),
    Row("glibc", (2, 42), False),
    Row("glibc", (2, 43), True),
    Row("glibc", (2, 44), True),
    Row("glibc", (2, 31), True, libcs.AARCH64),
    Row("glibc", (2, 36), True, libcs.AARCH64),
    Row("glibc", (2, 41), True, libcs.AARCH64),
    Row("glibc", (2, 43), True, libcs.AARCH64),
    Row("glibc", (2, 44), True, libcs.AARCH64),
    Row("musl", (1, 2, 3), True),
    Row("musl", (1, 2, 5), True),
]
SOURCES = ("live", "gcore", "kernel core", "emulator's core")
CORE_FILTER = "0x31"  # private memory and ELF headers: not the shared record of the program
NOT_EMULATED = ("hugetlb1", "hugetlb2")
NOT_MUSL = {
    **dict.fromkeys(("tcache-off", "arenas-limit", "hugetlb1", "hugetlb2"),
                    "musl has no such setting"),
    "forked": "the kernel gives holes in the parent's blocks to the child's groups, which are then "
              "left out, and it is said",
}

Case = collections.namedtuple("Case", "row shape source passed failed why blocks")


class Count(Tap):
    """Counts instead of printing; keeps what failed."""

    def __init__(self):
        super().__init__()
        self.failures = []

    def _line(self, word, name, directive=""):
        self.count += 1
        if word != "ok":
            self.failures.append(name)

    def note(self, text):
        if self.failures:
            self.failures.append(f"  {text}")


# ---- cores ----


def gcore(fixture):
    if not shutil.which("gdb"):
        raise Skip("gdb is not installed")
    path = os.path.join(scratch_dir(), "gcore")
    words = ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off",
             "-iex", "set auto-load no", "-p", str(fixture.pid), "-ex", f"generate-core-file {path}"]
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          timeout=180, check=False)
    if not os.path.exists(path):
        raise Failure(f"gdb wrote no core: {done.stderr[-300:]}")
    return path


def core_pattern():
    with open("/proc/sys/kernel/core_pattern", encoding="utf-8") as file:
        pattern = file.read().strip()
    if pattern.startswith("|") or "/" in pattern:
        raise Skip("the kernel's cores do not go to the working directory here")
    return re.sub(r"%.", "*", pattern) + "*"


def kernel_core(fixture):
    """The kernel dumps it; the program is gone then."""
    pattern = os.path.join(scratch_dir(), core_pattern())
    os.kill(fixture.pid, signal.SIGABRT)
    fixture.process.wait(60)
    found = [path for path in glob.glob(pattern) if not path.endswith("gcore")]
    if len(found) != 1:
        raise Skip(f"the kernel wrote no core (limit of the container?): {found}")
    return found[0]


def emulator_core(fixture):
    """qemu writes one of the program that it runs, then the kernel one of qemu."""
    os.kill(fixture.pid, signal.SIGQUIT)
    fixture.process.wait(60)
    cores = glob.glob(os.path.join(scratch_dir(), "qemu_*.core"))
    for path in set(glob.glob(os.path.join(scratch_dir(), "*core*"))) - set(cores):
        os.unlink(path)
    if len(cores) != 1:
        raise Failure(f"the emulator wrote no core: {cores}")
    return cores[0]


WRITERS = {"gcore": gcore, "kernel core": kernel_core, "emulator's core": emulator_core}


# Musl's blocks are compared with what it notes beside each, in the program's memory: not after its
# end.
def row_sources(row):
    if row.kind == "musl":
        return SOURCES[:2]
    return SOURCES[3:] if row.arch.emulator else SOURCES[:3]


def row_lacks(row, shape):
    """Why a shape is not asked for on that C library; None: it is."""
    if row.arch.emulator and shape in NOT_EMULATED:
        return "not with an emulator"
    if row.kind == "musl" and shape in NOT_MUSL:
        return NOT_MUSL[shape]
    return None


def dumps_allow(fixture, core_filter=CORE_FILTER):
    hard = resource.prlimit(fixture.pid, resource.RLIMIT_CORE)[1]
    resource.prlimit(fixture.pid, resource.RLIMIT_CORE, (hard, hard))
    with open(f"/proc/{fixture.pid}/coredump_filter", "w", encoding="ascii") as file:
        file.write(core_filter)


# ---- cases ----


def case_run(row, shape, source, run):
    """One case: run(tap) compares and returns how many blocks the program held."""
    tap, blocks = Count(), 0
    try:
        blocks = run(tap)
    except Skip as why:
        return Case(row, shape, source, 0, 0, str(why), 0)
    except Exception as error:  # pylint: disable=broad-except
        tap.ok(False, f"{type(error).__name__}: {error}")
    return Case(row, shape, source, tap.count - tap.failed, tap.failed,
                "; ".join(tap.failures[:6]), blocks)


def musl_version(row, shape):
    """As `heap` is to tell it: a static program does not."""
    return "mallocng" if shape.startswith("static") else version_text(row)


def live_case(row, shape, libc, tap):
    with shape_fixture(shape, libc) as fixture:
        if row.kind == "musl":
            test_musl.check_live(tap, shape, musl_version(row, shape), fixture)
        else:
            check_live(tap, shape, fixture)
        return fixture.truth["live_count"]


def core_case(row, shape, fixture, write, tap):
    core = write(fixture)
    try:
        if row.kind == "musl":
            test_musl.check_heap(tap, shape, musl_version(row, shape), fixture, core)
        else:
            check_heap(tap, shape, fixture, core, is_live=False)
    finally:
        os.unlink(core)
    return fixture.truth["live_count"]


def shape_run(row, shape, libc, sources):
    """The cases of a shape; a program for the live one, one more for the cores."""
    lacks = row_lacks(row, shape)
    if lacks:
        for source in sources:
            yield Case(row, shape, source, 0, 0, lacks, 0)
        return
    if "live" in sources:
        yield case_run(row, shape, "live", lambda tap: live_case(row, shape, libc, tap))
    writers = [(source, WRITERS[source]) for source in sources if source in WRITERS]
    if not writers:
        return
    try:
        with shape_fixture(shape, libc) as fixture:
            dumps_allow(fixture, "0" if libc.arch.emulator else CORE_FILTER)
            for source, write in writers:
                yield case_run(row, shape, source,
                               lambda tap, write=write: core_case(row, shape, fixture, write,
                                                                   tap))
    except Skip as why:
        for source, _ in writers:
            yield Case(row, shape, source, 0, 0, str(why), 0)


def matrix_run(rows, shapes, sources=SOURCES, fetch=True):
    """Yields the cases of all rows; a row without its C library is one case of shape None."""
    found = libcs.libcs_find(rows, fetch)
    for row in rows:
        libc = found[row]
        if isinstance(libc, str):
            yield row, None, Case(row, None, None, 0, 0, libc, 0)
            continue
        for shape in shapes:
            both = [source for source in sources if source in row_sources(row)]
            for case in shape_run(row, shape, libc, both):
                yield row, libc, case


def version_text(row):
    return ".".join(map(str, row.version))


def row_name(row):
    other = "" if row.arch is libcs.X86_64 else f" {row.arch.name}"
    return f"{row.kind} {version_text(row)}{other}"


def report(tap, row, case):
    """One TAP line a case."""
    name = " ".join(filter(None, (row_name(row), case.shape, case.source)))
    if case.passed + case.failed == 0:
        tap.skip(name, case.why)
    else:
        tap.ok(case.failed == 0, f"{name}: {case.passed + case.failed} checks, "
                                 f"{case.blocks} blocks", case.why)


# ---- the page ----

HEAD = """# Exactness

Made by `make matrix`; do not edit. `tests/live/matrix.py` says how, `tests/live/shape_checks.py` what
is compared: every block that the program holds, with its exact size; every other block in use is
libc's own, to the byte; all ten fields of `mallinfo2()`; the sums of arenas, segments and lists. Live
also: the pages that `trim` names are those that `malloc_trim(0)` takes away, none missing and none
too many, and looking maps no page. One case is one shape on one C library from one source.

Of musl (`tests/live/test_musl.py`): every block that the program holds lies in a slot of its own,
which ends where musl notes beside the block that it does; nothing else is in use; sums equal musl's
counters; live also: every resident byte has an owner, and looking maps no page and changes no Rss.
"""


def cell(cases):
    """What a shape shows for one C library."""
    ran = [case for case in cases if case.passed + case.failed]
    if not ran:
        return "-"
    wrong = [case for case in ran if case.failed]
    if wrong:
        return "**not** " + ", ".join(case.source for case in wrong)
    lacking = [case.source for case in cases if case not in ran]
    return "exact" + (f" but for {', '.join(lacking)}" if lacking else "")


def summary(results):
    """One line a C library."""
    lines = ["| C library | from | " + " | ".join(SOURCES) + " | blocks | checks |",
             "|---|---|" + "---|" * (len(SOURCES) + 2)]
    for row, libc, cases in results:
        name = row_name(row)
        if libc is None:
            lines.append(f"| {name} | not had: {cases[0].why} |" + " - |" * (len(SOURCES) + 2))
            continue
        cells = []
        for source in SOURCES:
            ran = [case for case in cases if case.source == source and case.passed + case.failed]
            exact = sum(case.failed == 0 for case in ran)
            cells.append(f"{exact} of {len(ran)}" if ran else "-")
        blocks = sum(case.blocks for case in cases)
        checks = sum(case.passed + case.failed for case in cases)
        lines.append(f"| {name} | {libc.source} | {' | '.join(cells)} | {blocks:,} | {checks:,} |")
    return lines


def shapes_table(results, shapes):
    had = [(row, cases) for row, libc, cases in results if libc is not None]
    lines = ["| shape | " + " | ".join(row_name(row).removeprefix("glibc ") for row, _ in had) + " |",
             "|---|" + "---|" * len(had)]
    for shape in shapes:
        cells = [cell([case for case in cases if case.shape == shape]) for _, cases in had]
        lines.append(f"| {shape} | {' | '.join(cells)} |")
    return lines


def reasons(results):
    """Why cases were left out, each reason once."""
    lines = collections.OrderedDict()
    for row, _, cases in results:
        for case in cases:
            if case.shape and case.passed + case.failed == 0:
                key = f"{case.shape}: {case.why}"
                lines.setdefault(key, []).append(row_name(row))
    return [f"- {key} ({', '.join(sorted(set(versions)))})" for key, versions in lines.items()]


def page(results, shapes, seconds):
    parts = [HEAD, "\n".join(summary(results)), "", "\n".join(shapes_table(results, shapes)), ""]
    left_out = reasons(results)
    if left_out:
        parts += ["Left out (-):", "", "\n".join(left_out), ""]
    ran = sum(case.passed + case.failed > 0 for _, _, cases in results for case in cases)
    parts.append(f"{ran} cases; all together they took {seconds:.0f} s.")
    return "\n".join(parts) + "\n"


def page_write(path, results, shapes, seconds):
    with open(path, "w", encoding="utf-8") as file:
        file.write(page(results, shapes, seconds))


def results_collect(tap, cases):
    """[(row, libc, [cases])], with one TAP line each as they come."""
    results = []
    for row, libc, case in cases:
        report(tap, row, case)
        if not results or results[-1][0] != row:
            results.append((row, libc, []))
        results[-1][2].append(case)
    return results


def results_save(results, seconds, path):
    """What the page needs, as JSON."""
    kept = [{"row": ROWS.index(row), "source": libc.source if libc else None,
             "cases": [case._replace(row=None) for case in cases]} for row, libc, cases in results]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"seconds": seconds, "results": kept}, file)


def results_load(paths):
    """(results, seconds) of all files; a row that is in several is of the last."""
    rows, seconds = {}, 0
    for path in paths:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
        seconds += document["seconds"]
        for kept in document["results"]:
            row = ROWS[kept["row"]]
            cases = [Case(*fields)._replace(row=row) for fields in kept["cases"]]
            libc = kept["source"] and libcs.Libc(row.version, kept["source"], [], "", row.arch)
            rows[kept["row"]] = (row, libc, cases)
    return [rows[index] for index in sorted(rows)], seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", metavar="FILE")
    parser.add_argument("--save", metavar="FILE")
    parser.add_argument("--load", metavar="FILE", nargs="+")
    parser.add_argument("--no-fetch", action="store_true")
    parser.add_argument("--libc", action="append", metavar="VERSION", type=libcs.numbers)
    parser.add_argument("--arch", metavar="NAME")
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    arguments = parser.parse_args()
    if arguments.load:
        results, seconds = results_load(arguments.load)
        page_write(arguments.write, results, arguments.shapes or SHAPES, seconds)
        return
    need_memwhy()
    rows = [row for row in ROWS if (not arguments.libc or row.version in arguments.libc)
            and arguments.arch in (None, row.arch.name)]
    shapes, started, tap = arguments.shapes or SHAPES, time.monotonic(), Tap()
    results = results_collect(tap, matrix_run(rows, shapes, fetch=not arguments.no_fetch))
    seconds = time.monotonic() - started
    if arguments.save:
        results_save(results, seconds, arguments.save)
    if arguments.write:
        page_write(arguments.write, results, shapes, seconds)
    if not tap.count:
        sys.exit(EXIT_SKIP)
    tap.done()


if __name__ == "__main__":
    main()
