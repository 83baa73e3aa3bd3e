#!/usr/bin/env python3
"""A glibc that does not exist yet: a core in which main_arena was moved 8 bytes, as a new field in
front of its bins would move it. memwhy must say "unknown layout" everywhere and print no figure of
the heap; what it knows of mappings stays."""

import os
import struct

from harness import Failure, Fixture, Tap, memwhy, need_memwhy
from matrix import dumps_allow, gcore

BINS, WORD, DATA_MAX = 127, 8, 1 << 20


def segments(core):
    """(offset in the file, address, size) of writable segments that may be data."""
    count, size = struct.unpack_from("<H", core, 56)[0], struct.unpack_from("<H", core, 54)[0]
    start = struct.unpack_from("<Q", core, 32)[0]
    for index in range(count):
        kind, flags, offset, address, _, length, memory, _ = struct.unpack_from(
            "<IIQQQQQQ", core, start + index * size)
        if kind == 1 and flags & 2 and 0 < length <= DATA_MAX:
            yield offset, address, min(length, memory)


def bins_find(core):
    """(offset in the file, address) of main_arena's bins: the ring of one arena closes."""
    for offset, address, size in segments(core):
        words = size // WORD
        data = struct.unpack_from(f"<{words}Q", core, offset)
        for index in range(words - 256):
            at = address + index * WORD
            if at - data[index + 256] in (24, 104, 112):
                empty = sum(data[index + 2 * bin] == at + 16 * bin - 16 for bin in range(BINS))
                if empty > BINS // 2:
                    return offset + index * WORD, at
    raise Failure("no main_arena in the core")


def arena_move(core, by):
    """Moves the words from top to the end of malloc_state; empty bins stay empty."""
    offset, address = bins_find(core)
    moved = bytearray(core[offset - 16:offset - 16 + 2200])
    for index in range(BINS):
        pair = struct.unpack_from("<QQ", moved, 16 + 16 * index)
        own = address + 16 * index - 16
        struct.pack_into("<QQ", moved, 16 + 16 * index,
                         *(word + by if word == own else word for word in pair))
    core[offset - 16 + by:offset - 16 + by + len(moved)] = moved


def check(tap):
    with Fixture("heapshape", "topped") as fixture:
        dumps_allow(fixture)
        path = gcore(fixture)
        with open(path, "rb") as file:
            core = bytearray(file.read())
        before = memwhy("heap", path, "--json")
        tap.equal(before.json()["allocators"][0]["walked"], True, "the core as it was is walked")
        arena_move(core, 8)
        with open(path, "wb") as file:
            file.write(core)
        heap = memwhy("heap", path, "--json")
        text = memwhy("heap", path)
        report = memwhy("report", path, "--json")
        os.unlink(path)
    tap.equal(heap.code, 4, "heap: exit code of a partial answer")
    allocators = heap.json()["allocators"]
    tap.equal([(row["kind"], row["walked"]) for row in allocators], [("glibc", False)],
              "one allocator, not walked")
    numbers = {key: value for key, value in allocators[0].items() if isinstance(value, int)
               and not isinstance(value, bool)}
    tap.equal(numbers, {}, "no figure of it")
    kinds = [finding["kind"] for finding in heap.json()["findings"]]
    tap.ok("glibc-layout-unknown" in kinds, "the finding", kinds)
    tap.ok("unknown layout" in text.err + text.out, "the text says so", text.err + text.out)
    split = [row for row in report.json()["categories"] if row["size_bytes"]
             and row["id"].startswith("malloc.") and row["id"] != "malloc.unsplit"]
    tap.equal(split, [], "the account splits nothing")


def main():
    need_memwhy()
    tap = Tap()
    tap.guard("unknown layout", check, tap)
    tap.done()


if __name__ == "__main__":
    main()
