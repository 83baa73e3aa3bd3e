#!/usr/bin/env python3
# timeout: 900
"""The part of matrix.py that every run of the tests can afford: cores of the system's C library in
every shape (live ones are test_shapes.py), and of what Debian's suites have a few shapes each, live
and by gcore; cores of aarch64 programs. One test a case."""

import libcs
from harness import Tap, need_memwhy
from matrix import ROWS, matrix_run, report
from shape_checks import SHAPES

EMULATED = ("single", "threads16", "tcache-full", "fastbins", "memalign", "static-threads")
FEW = ("threads16", "tcache-full", "brk-blocked", "mmapped", "static")


def main():
    need_memwhy()
    tap, own = Tap(), libcs.system_version()
    near = [row for row in ROWS if not row.arch.emulator]
    runs = [([row for row in near if row.version == own], SHAPES, ("gcore", "kernel core")),
            ([row for row in near if row.version != own and row.in_suites], FEW,
             ("live", "gcore")),
            ([row for row in ROWS if row.arch.emulator and row.version == own], EMULATED,
             ("emulator's core",))]
    for rows, shapes, sources in runs:
        for row, _, case in matrix_run(rows, shapes, sources):
            report(tap, row, case)
    tap.done()


if __name__ == "__main__":
    main()
