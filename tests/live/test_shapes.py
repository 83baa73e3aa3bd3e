#!/usr/bin/env python3
# timeout: 1200
"""Heaps of known shape on one C library, live: what is compared is told in shape_checks.py.

Shapes may be given as arguments. FIXTURE_LD (harness.py) runs them on another C library than the
system's; matrix.py does that for all there are, and for cores.
"""

import sys

from harness import Tap, need_memwhy
from shape_checks import SHAPES, check_shape


def main():
    need_memwhy()
    tap = Tap()
    for shape in sys.argv[1:] or SHAPES:
        tap.guard(shape, check_shape, tap, shape)
    tap.done()


if __name__ == "__main__":
    main()
