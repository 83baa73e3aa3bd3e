#!/usr/bin/env python3
# timeout: 900
"""musl's mallocng: every slot against what the program knows, with musl's own header as a witness.

For each release of musl (the system's, and those of MUSL_ROOTS; see musl.py), each shape of
tests/fixtures/heapshape.c that does not need glibc, linked dynamically and statically:
  - every block the program holds lies in a slot in use, alone in it; musl's own header of the block
    (read from /proc/PID/mem) names that slot's index, and the size it notes, counted back from the
    end of that slot, is the size that was asked for: so the slot has exactly its bounds;
  - as many slots are in use as the program holds blocks: musl's libc has none of its own here, and
    those of stdio, which one program opens a file with, are told by their number and size;
  - in use + free + metadata is the whole, sums equal musl's counters, nothing is trimmable;
  - every resident byte of the process has an owner;
  - looking changes nothing: same pages before and after;
  - a core that gcore takes gives the same slots.
A program that allocates all the time in four threads is walked, too: what does not add up is said.
Shapes may be given as arguments.
"""

import bisect
import collections
import os
import shutil
import struct
import subprocess
import sys
import time

import musl
from musl import HEAPSHAPE
from harness import (PAGE, Failure, Fixture, Skip, Tap, account_sum, memwhy, need_memwhy,
                     pages_show, scratch_dir, smaps_rollup)

SHAPES = ["single", "threads16", "tcache-full", "fastbins", "mmapped", "memalign", "realloc",
          "arenas-default", "brk-blocked", "hugetlb1", "holes", "topped", "big-threshold",
          "many-heaps", "decoy", "split"]
STATIC_SHAPES = ["single", "threads16", "memalign", "realloc", "many-heaps"]
CORE_SHAPES = ["threads16", "memalign", "many-heaps", "split"]
IN_USE = ("in-use", "mmapped")
SLOT_HEADER = 4
OWN_BYTES = 131052  # blocks of so many bytes have a mapping of their own

OWN = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int count, char **words)
{
    static void *held[100];
    for (int i = 0; i < 100; i++)
        held[i] = malloc(53);
    FILE *file = fopen("/proc/self/stat", "r");
    char line[16];
    if (!file || !fgets(line, sizeof line, file))
        return 1;
    if (write(1, "ready\n", 6) != 6)
        return 1;
    for (;;)
        pause();
}
"""

BUSY = r"""
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *run(void *argument)
{
    static _Thread_local char *held[500];
    uint32_t random = (uint32_t)(uintptr_t)argument;
    for (;;) {
        random = random * 1664525 + 1013904223;
        size_t at = random >> 8 & 511;
        if (at >= 500)
            continue;
        free(held[at]);
        size_t size = (random >> 17) % (random >> 30 ? 700 : 150000);
        held[at] = malloc(size);
        if (held[at])
            memset(held[at], 1, size < 4096 ? size : 4096);
    }
    return NULL;
}
int main(void)
{
    pthread_t thread;
    for (uintptr_t i = 1; i <= 4; i++)
        if (pthread_create(&thread, NULL, run, (void *)(i * 2654435761u)))
            return 1;
    if (write(1, "ready\n", 6) != 6)
        return 1;
    sleep(120);
    return 0;
}
"""

Slot = collections.namedtuple("Slot", "start size state")


def slots_read(target):
    result = memwhy("heap", target, "--list-blocks")
    if result.code != 0:
        raise Failure(f"heap --list-blocks: exit {result.code}; {result.err[:400]}")
    rows = (line.split() for line in result.out.splitlines())
    return sorted(Slot(int(start, 16), int(size), state) for start, size, state, _ in rows)


# ---- the truth ----


class Memory:
    """Bytes of a process, as the kernel gives them."""

    def __init__(self, pid):
        self.file = open(f"/proc/{pid}/mem", "rb", buffering=0)

    def u8(self, address):
        return os.pread(self.file.fileno(), 1, address)[0]

    def u32(self, address):
        return struct.unpack("<I", os.pread(self.file.fileno(), 4, address))[0]


def noted_size(memory, address, slot):
    """The size that musl notes for the block at address, if the slot ends where it is said to."""
    end = slot.start + slot.size - SLOT_HEADER
    reserved = memory.u8(address - 3) >> 5
    if reserved == 5:
        reserved = memory.u32(end - 4)
    return end - reserved - address


def held_errors(records, slots, memory, taken):
    """Held blocks that are not as they must be; fills taken with the indices of their slots."""
    starts = [slot.start for slot in slots]
    for record in records:
        address, size = record["address"], record["requested"]
        at = bisect.bisect_right(starts, address) - 1
        slot = slots[at]
        if at < 0 or slot.state not in IN_USE or at in taken:
            yield f"{address:#x} is in no slot of its own in use: {slot}"
            continue
        taken.add(at)
        if address + size > slot.start + slot.size - SLOT_HEADER:
            yield f"{address:#x} of {size} is larger than its slot: {slot}"
        elif noted_size(memory, address, slot) != size:
            yield f"{address:#x}: musl notes {noted_size(memory, address, slot)}, not {size}"


def overlaps(slots):
    return [(a, b) for a, b in zip(slots, slots[1:]) if a.start + a.size > b.start]


# ---- one shape ----


def check_totals(tap, name, heap, slots, version, is_live):
    tap.equal((heap["kind"], heap["walked"], heap["reconciled"]), ("musl", True, True),
              f"{name}: walked, and sums equal musl's counters")
    tap.equal(heap["version"], version, f"{name}: version")
    tap.equal(heap["in_use_bytes"] + heap["free_bytes"] + heap["metadata_bytes"],
              heap["system_bytes"], f"{name}: in use + free + metadata is the whole")
    trimmable = 0 if is_live else None  # a core does not tell what was resident
    tap.equal((heap["skipped_bytes"], heap["trimmable_bytes"], heap["arenas"]), (0, trimmable, 1),
              f"{name}: nothing skipped, nothing trimmable, one arena")
    for key, states in (("in_use", IN_USE), ("free", ("free",))):
        sizes = [slot.size for slot in slots if slot.state in states]
        tap.equal((len(sizes), sum(sizes)), (heap[f"{key}_count"], heap[f"{key}_bytes"]),
                  f"{name}: listed {key}")


def check_account(tap, name, pid):
    report = memwhy("report", pid, "--json").json()
    tap.equal(account_sum(report), report["rss_bytes"], f"{name}: the account adds up")
    tap.equal(report["unknown_bytes"], 0, f"{name}: every resident byte has an owner")


def core_findings(document):
    """What a core of a sound heap has no business to say."""
    return [finding for finding in document["findings"] if not finding["kind"].startswith("core-")]


def check_heap(tap, name, version, fixture, target):
    """What `heap` says of target: the program, or a core of it while it stands still."""
    # One stop, however slow the machine is.
    result = memwhy("heap", target, "--json", "--max-pause", "10s")
    tap.equal((result.code, result.err), (0, ""), f"{name}: heap succeeds quietly")
    document = result.json()
    findings = document["findings"] if target == fixture.pid else core_findings(document)
    tap.equal(findings, [], f"{name}: nothing found fault with")
    tap.equal(len(document["allocators"]), 1, f"{name}: one allocator")
    slots = slots_read(target)
    tap.equal(overlaps(slots)[:3], [], f"{name}: slots do not overlap")
    check_totals(tap, name, document["allocators"][0], slots, version, target == fixture.pid)
    held = [row for row in fixture.blocks() if row["state"] == "live"]
    taken, memory = set(), Memory(fixture.pid)
    tap.equal(list(held_errors(held, slots, memory, taken))[:5], [],
              f"{name}: all {len(held)} held blocks, each in a slot of its bounds")
    own = [slot for at, slot in enumerate(slots) if slot.state in IN_USE and at not in taken]
    tap.equal(own[:5], [], f"{name}: nothing else is in use")
    mapped = [row for row in held if row["requested"] >= OWN_BYTES]
    got = sum(1 for slot in slots if slot.state == "mmapped")
    tap.ok(got >= len(mapped), f"{name}: blocks with a mapping of their own",
           f"{got} of at least {len(mapped)}")


def check_live(tap, name, version, fixture):
    """The program itself, and that it is left as it was."""
    fixture.mapped_pages()
    quiet, rollup = fixture.mapped_pages(), smaps_rollup(fixture.pid)
    check_heap(tap, name, version, fixture, fixture.pid)
    check_account(tap, name, fixture.pid)
    seen = smaps_rollup(fixture.pid)
    tap.equal((seen["Anonymous"], seen["Rss"]), (rollup["Anonymous"], rollup["Rss"]),
              f"{name}: looking changes neither Anonymous nor Rss")
    changed = fixture.mapped_pages() ^ quiet
    tap.equal(len(changed), 0, f"{name}: looking maps no page")
    if changed:
        tap.note(pages_show(changed))


def check_core(tap, name, version, fixture):
    if not shutil.which("gcore"):
        raise Skip("gcore is not installed (apt-get install gdb)")
    prefix = os.path.join(scratch_dir(), "core")
    subprocess.run(["gcore", "-o", prefix, str(fixture.pid)], check=True, capture_output=True,
                   timeout=120)
    core = f"{prefix}.{fixture.pid}"
    try:
        check_heap(tap, f"{name} core", version, fixture, core)
        tap.equal(slots_read(core), slots_read(fixture.pid), f"{name}: the core has the same slots")
    finally:
        os.unlink(core)


def check_shape(tap, release, program, shape):
    is_static = program.endswith("-static")
    name = f"{release.version}{' static' if is_static else ''} {shape}"
    version = "mallocng" if is_static else release.version
    with Fixture(program, shape) as fixture:
        check_live(tap, name, version, fixture)
        if shape in CORE_SHAPES:
            tap.guard(f"{name}: core", check_core, tap, name, version, fixture)


# ---- texts and verdicts ----


def check_words(tap, release, program):
    """musl is explained in its own words: no malloc_trim, no arenas."""
    name = f"{release.version} words"
    with Fixture(program, "holes") as fixture:
        report = memwhy("report", fixture.pid, "--json").json()
        free = next(row["rss_bytes"] for row in report["categories"] if row["id"] == "malloc.free")
        verdict = next((one for one in report["verdicts"] if one["id"] == "allocator-cache"), {})
        tap.equal((verdict.get("class"), verdict.get("basis"), verdict.get("bytes")),
                  ("kept", "proven", free), f"{name}: all that is free is kept by the allocator")
        remedies = [remedy["action"] for remedy in verdict.get("remedies", [])]
        tap.ok(remedies and not any("trim" in one or "ARENA" in one for one in remedies),
               f"{name}: no remedy of glibc's", remedies)
        for command in ("report", "heap", "pins"):
            result = memwhy(command, fixture.pid)
            tap.equal(result.code, 0, f"{name}: {command} succeeds")
            tap.ok("tcache" not in result.out and "memwhy trim" not in result.out
                   and "would give back" not in result.out,
                   f"{name}: {command} says nothing of glibc", result.out)
        for words in (["trim"], ["trim", "--apply"]):
            result = memwhy(words[0], fixture.pid, *words[1:])
            tap.equal(result.code, 4, f"{name}: {' '.join(words)} leaves the question open")
            tap.ok("musl has no malloc_trim" in " ".join(result.out.split()),
                   f"{name}: {' '.join(words)} says why", result.out)


# ---- libc's own blocks, and a program that does not stand still ----


def start(program):
    process = subprocess.Popen([program], stdout=subprocess.PIPE, bufsize=0)
    if process.stdout.readline() != b"ready\n":
        process.kill()
        raise Failure(f"{program} is not ready")
    return process


def end(process):
    process.kill()
    process.wait(10)
    process.stdout.close()


def source_write(name, text):
    path = os.path.join(scratch_dir(), name)
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
    return path


def check_own(tap, release):
    """A FILE of stdio is one block: 232 bytes of it, 8 to push back to, 1,024 of buffer."""
    program = release.compile("own", [source_write("own.c", OWN)])
    process = start(program)
    try:
        sizes = collections.Counter(slot.size for slot in slots_read(process.pid)
                                    if slot.state in IN_USE)
        tap.equal(sizes.pop(64, 0), 100, f"{release.version}: the program's own blocks")
        rest = sorted(sizes.elements())
        tap.ok(len(rest) == 1 and 1264 + SLOT_HEADER <= rest[0] <= 1632,
               f"{release.version}: and stdio's", rest)
    finally:
        end(process)


def check_busy(tap, release):
    program = release.compile("busy", [source_write("busy.c", BUSY)])
    process, reconciled, rounds = start(program), 0, 20
    try:
        for _ in range(rounds):
            result = memwhy("heap", process.pid, "--json")
            heap = result.json()["allocators"][0]
            whole = heap["in_use_bytes"] + heap["free_bytes"] + heap["metadata_bytes"]
            if whole + heap["skipped_bytes"] != heap["system_bytes"] or result.code != 0:
                tap.ok(False, f"{release.version}: bytes are conserved", heap)
            if heap["reconciled"]:
                reconciled += 1
            elif not result.json()["findings"]:
                tap.ok(False, f"{release.version}: what does not add up is said", heap)
            time.sleep(0.01)
        tap.ok(process.poll() is None, f"{release.version}: the program runs on")
        tap.ok(reconciled > 0, f"{release.version}: a heap in motion, {reconciled} of {rounds} "
               "walks add up")
    finally:
        end(process)


def check_stops(tap, release, program):
    """Under a stop for each page of metadata a still heap is the same one, and one in motion is
    said to be so."""
    name = f"{release.version} stops"
    with Fixture(program, "single") as fixture:
        documents = [memwhy("heap", fixture.pid, "--json", "--max-pause", pause).json()
                     for pause in ("10s", "1us")]
        one, many = (document["allocators"][0] for document in documents)
        tap.equal(many, one, f"{name}: the same figures")
        tap.equal(documents[1]["sizes"], documents[0]["sizes"], f"{name}: the same sizes")
        said = [finding["text"] for finding in documents[1]["findings"]
                if finding["kind"] == "several-stops"]
        tap.ok(said and " 0 of " in said[0], f"{name}: several, and nothing has changed", said)
        tap.equal(documents[0]["findings"], [], f"{name}: one stop is enough")
        report = memwhy("report", fixture.pid, "--json", "--max-pause", "1us").json()
        tap.ok(report["pauses"] > 3, f"{name}: so many pauses", report["pauses"])
        tap.equal(account_sum(report), report["rss_bytes"], f"{name}: the account adds up")
    process = start(release.compile("busy", [source_write("busy.c", BUSY)]))
    try:
        moved = 0
        for _ in range(20):
            document = memwhy("heap", process.pid, "--json", "--max-pause", "1us").json()
            heap = document["allocators"][0]
            whole = heap["in_use_bytes"] + heap["free_bytes"] + heap["metadata_bytes"]
            tap.equal(whole + heap["skipped_bytes"], heap["system_bytes"],
                      f"{name}: in motion, bytes are conserved")
            moved += any(finding["kind"] == "several-stops"
                         and "a moment that never was" in finding["text"]
                         and not heap["reconciled"] for finding in document["findings"])
        tap.ok(moved > 0, f"{name}: in motion, it is said and not called proven", moved)
    finally:
        end(process)


def check_release(tap, release, shapes):
    programs = {False: release.fixture("heapshape", *HEAPSHAPE),
                True: release.fixture("heapshape", *HEAPSHAPE, static=True)}
    for shape in shapes or SHAPES:
        tap.guard(shape, check_shape, tap, release, programs[False], shape)
    for shape in shapes or STATIC_SHAPES:
        tap.guard(shape, check_shape, tap, release, programs[True], shape)
    if not shapes:
        tap.guard("words", check_words, tap, release, programs[False])
        tap.guard("own", check_own, tap, release)
        tap.guard("busy", check_busy, tap, release)
        tap.guard("stops", check_stops, tap, release, programs[False])


def main():
    need_memwhy()
    tap = Tap()
    if PAGE != 4096:
        tap.skip("musl", f"pages of {PAGE} bytes: the truth is of 4,096")
        tap.done()
    try:
        for release in musl.releases():
            tap.guard(release.version, check_release, tap, release, sys.argv[1:])
    except Skip as why:
        tap.skip("musl", str(why))
    tap.done()


if __name__ == "__main__":
    main()
