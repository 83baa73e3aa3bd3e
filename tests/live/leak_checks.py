"""Comparing `memwhy leaks` with what a program recorded of its blocks (tests/fixtures/leaks.h)."""

import bisect
import collections
import os
import subprocess

import libcs
from harness import FIXTURES, Failure, Fixture, Skip, memwhy, scratch_dir
from shape_checks import list_blocks

IN_USE = ("in-use", "mmapped")
LOST = ("direct", "indirect")
ONE_STOP = ("--max-pause", "10s")  # however slow the machine is
CORE_FILTER = "0x7f"               # everything that may hold a pointer
TLS = os.path.join(FIXTURES, "leaks_tls.so")

# Blocks of one kind: {chunk size: how many}.
Truth = collections.namedtuple("Truth", "held direct indirect either lost_addresses names")


def leak_fixture(shape, libc=None, env=None, program="leaks"):
    return Fixture(program, shape, env={"LEAKS_TLS": TLS, **(env or {})}, libc=libc)


def rows_of(fixture):
    """{address: its last row} of what is not freed."""
    last = {row["address"]: row for row in fixture.blocks()}
    return {address: row for address, row in last.items() if row["state"] != "freed"}


def truth_of(fixture, target, listing=None):
    """What was recorded, with the sizes that the allocator gives them (those of heap
    --list-blocks: another test compares them with the allocator's own)."""
    blocks = sorted(block for block in listing or list_blocks(target) if block.state in IN_USE)
    starts = [block.address for block in blocks]
    counts = {kind: collections.Counter() for kind in ("held", *LOST, "either")}
    lost, names = set(), collections.defaultdict(set)
    for address, row in rows_of(fixture).items():
        at = bisect.bisect_right(starts, address) - 1
        if at < 0 or address >= blocks[at].address + blocks[at].size:
            raise Failure(f"{address:#x}, {row['state']}, is in no block in use")
        size = blocks[at].size
        counts[row["state"]][size] += 1
        names[size].add(f"{fixture.truth['shapes'][row['thread']]}: {row['state']}")
        if row["state"] in LOST or row["state"] == "either":
            lost.add(blocks[at].address)
            lost.add(address)
    whole = (len(blocks), sum(block.size for block in blocks))
    return Truth(*counts.values(), lost, names), whole


def leaks_of(target, *words):
    result = memwhy("leaks", target, "--json", *words)
    if result.code != 0:
        raise Failure(f"leaks {target}: exit {result.code}; {result.err[:300]}")
    return result.json()


def within(count, least, more):
    return least <= count <= least + more


def by_size(groups, field):
    sums = collections.Counter()
    for group in groups:
        sums[group["size_bytes"]] += group[field]
    return sums


# Where mappings come to lie is chance, and so is a number that looks like an address: with all shapes
# in one process it holds a lost block or two now and then. Never the contrary.
HELD_BY_CHANCE = 3


def check_groups(tap, name, answer, truth, by_chance):
    """Each size: as many as are lost."""
    got, wrong = by_size(answer["groups"], "count"), []
    for size in sorted({*got, *truth.direct, *truth.indirect}):
        wanted, more = truth.direct[size] + truth.indirect[size], truth.either[size]
        missing = wanted - got[size]
        if 0 < missing <= by_chance:
            by_chance -= missing
        elif not within(got[size], wanted, more):
            wrong.append(f"{got[size]} of {size} bytes, not {wanted}"
                         f"{f' to {wanted + more}' if more else ''}: "
                         f"{', '.join(sorted(truth.names[size]))}")
    tap.ok(not wrong, f"{name}: what is lost, by size", "\n".join(wrong))
    wrong = [group for group in answer["groups"]
             if group["bytes"] != group["size_bytes"] * group["count"]
             or int(group["sample_address"], 16) not in truth.lost_addresses]
    tap.ok(not wrong, f"{name}: each group's bytes, and a block of it", wrong[:3])


def check_answer(tap, name, answer, truth, whole):
    """An answer of one moment: everything is reachable or not."""
    tap.equal((answer["uncertain_count"], answer["uncertain_bytes"]), (0, 0),
              f"{name}: nothing is uncertain")
    direct, indirect = (sum(counts.values()) for counts in (truth.direct, truth.indirect))
    either = sum(truth.either.values())
    by_chance = HELD_BY_CHANCE if len(truth.lost_addresses) > 10000 else 0
    for field, wanted in (("unreachable_count", direct + indirect), ("direct_count", direct),
                          ("indirect_count", indirect)):
        tap.ok(within(answer[field], wanted - by_chance, either + by_chance), f"{name}: {field}",
               f"got {answer[field]}, wanted {wanted}{f' to {wanted + either}' if either else ''}")
    tap.equal(answer["direct_count"] + answer["indirect_count"], answer["unreachable_count"],
              f"{name}: direct and indirect are all")
    check_groups(tap, name, answer, truth, by_chance)
    tap.equal(sum(by_size(answer["groups"], "bytes").values()), answer["unreachable_bytes"],
              f"{name}: the groups' bytes are all")
    got = tuple(answer[f"reachable_{what}"] + answer[f"unreachable_{what}"]
                for what in ("count", "bytes"))
    tap.equal(got, whole, f"{name}: reachable and unreachable are all blocks in use")


def check_target(tap, name, fixture, target, *words, listing=None):
    truth, whole = truth_of(fixture, target, listing)
    check_answer(tap, name, leaks_of(target, *words), truth, whole)


# ---- programs that are built for a test ----

SOURCES = os.path.join(libcs.ROOT, "tests", "fixtures")
CXX_PARTS = ("leaks_record", "leaks_roots", "fx", "fx_io")


def build(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False,
                          stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise Failure(f"{' '.join(words[:2])}: {done.stderr[-400:]}")


def cxx_program(compiler):
    """The path of leaks_cxx, built by g++ or clang++ with the system's libstdc++."""
    objects = []
    for name in CXX_PARTS:
        objects.append(os.path.join(scratch_dir(), f"cxx-{name}.o"))
        if not os.path.exists(objects[-1]):
            build(*libcs.X86_64.compiler, *libcs.COMPILE, "-c",
                  os.path.join(SOURCES, f"{name}.c"), "-o", objects[-1])
    program = os.path.join(scratch_dir(), f"leaks_cxx-{compiler}")
    build(compiler, "-std=c++17", "-O1", "-g", os.path.join(SOURCES, "leaks_cxx.cc"), *objects,
          "-o", program, "-pthread", "-ldl")
    return program


class Built(Fixture):
    """A program that a test has built."""

    def __init__(self, path, *args, **more):
        folder, name = os.path.split(path)
        super().__init__(name, *args, libc=libcs.Libc((0, 0), "built here", [], folder), **more)
