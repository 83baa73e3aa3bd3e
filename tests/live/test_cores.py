#!/usr/bin/env python3
# timeout: 600
"""Cores of a process that stands still against the process itself, and cores that lack something.

  - heap --json of the live process, of gcore's and of the kernel's core of the same moment, packed
    with zstd and through a pipe: the same figures, the same blocks, the same version of glibc
  - where the kernel's file tells the residency, the account's anonymous rows are the live ones
  - more than 65,535 segments; libc's data left out, as createdump does; a libc of another build;
    stacks that gcore loses behind a guard page
  - cut at some hundred places, and bytes of headers and notes overwritten: never a crash or a hang,
    always an error or a finding with the missing bytes, and conservation in what is left

CORES_CUTS and CORES_CORRUPTIONS change how many (default 160, 80).
"""

import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys

from harness import Failure, Fixture, Skip, Tap, memwhy, need_memwhy, scratch_dir

SHAPES = ["single", "threads16", "fastbins", "mmapped", "static-threads"]
# Not in a core: what of it was resident (by gcore), how many CPUs there are.
NOT_IN_CORES = ("arena_limit",)
RESIDENCY = ("free_resident_bytes", "trimmable_bytes")
SEGMENT = struct.Struct("<IIQQQQQQ")
PT_NULL, PT_LOAD, PN_XNUM = 0, 1, 0xffff
PYTHON = """
import sys, time
x = [str(i) * 7 for i in range(49999)]
print(1, flush=True)
time.sleep(600)
"""
# Threads whose stacks begin with a guard marker, as glibc 2.42 makes them.
GUARDED = """
import ctypes, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
tids = []
def run():
    tids.append(threading.get_native_id())
    time.sleep(600)
for i in range(3):
    threading.Thread(target=run, daemon=True).start()
while len(tids) < 3:
    time.sleep(.01)
def pointer(tid):
    words = open(f"/proc/self/task/{tid}/syscall").read().split()
    return int(words[-2], 16) if len(words) > 2 else 0
while not all(map(pointer, tids)):
    time.sleep(.01)
total = 0
for line in list(open("/proc/self/maps")):
    start, end = (int(word, 16) for word in line.split()[0].split("-"))
    if any(start <= pointer(tid) < end for tid in tids):
        total += end - start
        if libc.madvise(start, 4096, 102) != 0:
            total = -1
            break
print(total, flush=True)
time.sleep(600)
"""


# ---- processes and their cores ----


class Script:
    """A python3 that has printed a line and waits."""

    def __init__(self, text):
        self.process = subprocess.Popen([shutil.which("python3") or sys.executable, "-c", text],
                                        stdout=subprocess.PIPE, cwd=scratch_dir())
        self.pid = self.process.pid
        self.said = self.process.stdout.readline().decode().strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()


def gcore(pid):
    if not shutil.which("gcore"):
        raise Skip("gcore is not installed (package gdb)")
    prefix = os.path.join(scratch_dir(), "gcore")
    done = subprocess.run(["gcore", "-o", prefix, str(pid)], capture_output=True, timeout=120,
                          check=False, stdin=subprocess.DEVNULL)
    path = f"{prefix}.{pid}"
    if not os.path.exists(path):
        raise Skip("gdb may not trace here: " + done.stderr.decode("utf-8", "replace")[-200:])
    return path


def core_of_kernel(target):
    """Ends the target; the core that the kernel wrote."""
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as file:
        pattern = file.read().strip()
    if pattern.startswith(("|", "/")) or "%" in pattern:
        raise Skip(f"kernel.core_pattern is {pattern!r}, not a name in the working directory")
    before = set(os.listdir("."))
    os.kill(target.pid, signal.SIGABRT)
    target.process.wait(60)
    new = [name for name in set(os.listdir(".")) - before if name.startswith(pattern)]
    if not new:
        raise Skip("the kernel wrote no core here")
    path = f"kernel.{target.pid}"
    os.rename(new[0], path)
    return os.path.abspath(path)


# ---- what is compared ----


def heap_of(target, stdin=None):
    result = memwhy("heap", target, "--json", stdin=stdin)
    if result.code != 0:
        raise Failure(f"heap {target}: exit {result.code}; {result.err[:300]}")
    return result.json()


def findings_of(document):
    return {row["kind"]: row for row in document["findings"]}


def allocator_of(document):
    if not document["allocators"]:
        raise Failure(f"no allocator found; {document['findings']}")
    return document["allocators"][0]


def figures(document, drop):
    """The allocator's figures without those that a core cannot have."""
    allocator = {key: value for key, value in allocator_of(document).items() if key not in drop}
    allocator["arena_list"] = [{key: value for key, value in row.items() if key not in drop}
                               for row in allocator["arena_list"]]
    return allocator, document["sizes"]


def differences(left, right):
    rows = [f"{key}: {left[0].get(key)} and {right[0].get(key)}" for key in right[0]
            if left[0].get(key) != right[0].get(key) and key != "arena_list"]
    return "\n".join(rows) or "arenas or sizes differ"


def blocks_of(target):
    result = memwhy("heap", target, "--list-blocks")
    if result.code != 0:
        raise Failure(f"heap --list-blocks {target}: exit {result.code}; {result.err[:300]}")
    return result.out


def conservation_errors(document):
    """What does not add up in the allocators of a document."""
    errors = []
    for row in document.get("allocators", []):
        parts = [row[f"{part}_bytes"] for part in ("in_use", "free", "metadata", "skipped")]
        if row["walked"] and None not in parts and sum(parts) != row["system_bytes"]:
            errors.append(f"{parts} are not {row['system_bytes']}")
    return errors


# ---- the same process, its cores ----


def check_same(tap, name, live, path, drop=NOT_IN_CORES + RESIDENCY, stdin=None):
    core = heap_of(path, stdin)
    wanted, got = figures(live, drop), figures(core, drop)
    tap.ok(got == wanted, f"{name}: the same figures", differences(got, wanted))
    return core


def check_residency(tap, name, live_report, path):
    """Rows of anonymous memory of the kernel's core are the live ones."""
    report = memwhy("report", path, "--json").json()
    if report["rss_bytes"] is None:
        tap.skip(f"{name}: residency", "the file's holes tell none")
        return
    apart = [f"{row['id']}: {row['rss_bytes']} live, {got['rss_bytes']}"
             for row, got in zip(live_report["categories"], report["categories"])
             if row["rss_bytes"] != got["rss_bytes"] and row["id"].split(".")[0] != "file"]
    tap.ok(not apart, f"{name}: anonymous rows are the live ones", "\n".join(apart))
    total = sum(row["rss_bytes"] for row in report["categories"]) + report["unknown_bytes"]
    tap.equal(total, report["rss_bytes"], f"{name}: rows and unknown add up to Rss")
    tap.ok("core-rss-anonymous" in findings_of(report), f"{name}: it says what Rss leaves out")
    screen = " ".join(memwhy("report", path).out.split())
    tap.ok("anonymous RSS" in screen and "Rss is that of anonymous memory alone" in screen,
           f"{name}: so does the screen", screen[:400])
    tap.ok("anonymous RSS" in memwhy("report", path, "--markdown").out
           and "anonymous RSS" in memwhy("maps", path).out,
           f"{name}: and the Markdown, and maps")
    heap = allocator_of(heap_of(path))
    live = live_report["allocators"][0]
    tap.equal([heap[key] for key in RESIDENCY], [live[key] for key in RESIDENCY],
              f"{name}: resident and trimmable free bytes")


def check_packed(tap, name, live, path):
    if not shutil.which("zstd"):
        tap.skip(f"{name}.zst", "zstd is not installed")
        return
    packed = path + ".zst"
    subprocess.run(["zstd", "-qf1", path, "-o", packed], check=True)
    check_same(tap, f"{name}.zst", live, packed)
    with open(packed, "rb") as file:
        check_same(tap, f"{name}.zst from a pipe", live, "-", stdin=file.read())
    os.unlink(packed)


def cores_against_live(tap, name, target, packs):
    live, blocks = heap_of(target.pid), blocks_of(target.pid)
    live_report = memwhy("report", target.pid, "--json").json()
    live_report["allocators"] = live["allocators"]
    path = gcore(target.pid)
    core = check_same(tap, f"{name}, gcore", live, path)
    tap.equal(allocator_of(core)["version"], allocator_of(live)["version"],
              f"{name}, gcore: version")
    tap.ok(blocks_of(path) == blocks, f"{name}, gcore: every block the same")
    os.unlink(path)
    path = core_of_kernel(target)
    check_same(tap, f"{name}, kernel", live, path)
    tap.ok(blocks_of(path) == blocks, f"{name}, kernel: every block the same")
    check_residency(tap, f"{name}, kernel", live_report, path)
    if packs:
        check_packed(tap, f"{name}, kernel", live, path)
    os.unlink(path)


def shape_against_live(tap, shape):
    program = "heapshape-static" if shape.startswith("static") else "heapshape"
    with Fixture(program, shape) as target:
        cores_against_live(tap, shape, target, shape == "threads16")


def python_against_live(tap):
    with Script(PYTHON) as target:
        cores_against_live(tap, "python3", target, False)


# ---- cores made to lack something ----


class Core:
    """A core's headers and bytes, to be changed."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.bytes = bytearray(file.read())
        at, = struct.unpack_from("<Q", self.bytes, 32)
        count, = struct.unpack_from("<H", self.bytes, 56)
        self.headers = [at + i * SEGMENT.size for i in range(count)]

    def segments(self):
        """(place of the header, type, flags, offset, address, bytes in the file)"""
        for at in self.headers:
            kind, flags, offset, address, _, size, _, _ = SEGMENT.unpack_from(self.bytes, at)
            yield at, kind, flags, offset, address, size

    def write(self, name):
        path = os.path.join(scratch_dir(), name)
        with open(path, "wb") as file:
            file.write(self.bytes)
        return path


def find_main_arena(heap):
    return int(next(row["address"] for row in heap["arena_list"] if row["main"]), 16)


def without_data_of_libc(tap, path, whole):
    """As createdump leaves it out: main_arena is not there, the heaps are."""
    core, main_arena = Core(path), find_main_arena(whole)
    for at, kind, _, _, address, size in core.segments():
        if kind == PT_LOAD and address <= main_arena < address + size:
            struct.pack_into("<I", core.bytes, at, PT_NULL)
    document = heap_of(core.write("no-libc-data"))
    found, heap = findings_of(document), allocator_of(document)
    tap.ok("main-arena-missing" in found, "without libc's data: it says so", found)
    tap.equal([[one["kind"] for one in document["allocators"]],
               [one["kind"] for one in document["findings"]].count("main-arena-missing")],
              [["glibc"], 1], "without libc's data: its heaps are found once")
    tap.ok(not heap["reconciled"] and not next(row for row in heap["arena_list"]
                                               if row["main"])["reconciled"],
           "without libc's data: nothing is called proven, the main arena least")
    tap.equal([heap[key] for key in ("parameters", "mmapped_bytes", "mmapped_count")],
              [None, None, None], "without libc's data: what only mp_ tells is null, not 0")
    words = [" ".join(memwhy(command, os.path.join(scratch_dir(), "no-libc-data"), *more).out
                      .split()) for command, more in (("heap", ()), ("report", ("--markdown",)))]
    tap.ok("not found in malloc's memory" in words[0] and "could not be counted" in words[0]
           and "mmap_threshold" not in words[0], "without libc's data: so says the screen",
           words[0])
    tap.ok("mmapped ones not counted" in words[1] and "mmap_threshold 0" not in words[1],
           "without libc's data: and the Markdown", words[1])
    tap.equal(heap["version"], whole["version"], "without libc's data: version, from the file")
    threads = [sorted(([row["address"], [row[key] for key in row if key not in RESIDENCY]]
                       for row in one["arena_list"] if not row["main"])) for one in (heap, whole)]
    apart = [f"{got}\n{want}" for got, want in zip(*threads) if got != want]
    tap.ok(len(threads[0]) == len(threads[1]) > 0 and not apart,
           f"without libc's data: {len(threads[1])} arenas of threads are the same",
           "\n".join(apart) or f"{len(threads[0])} arenas")
    mains = [next(row for row in one["arena_list"] if row["main"]) for one in (heap, whole)]
    tap.equal(mains[0]["system_bytes"], mains[1]["system_bytes"],
              "without libc's data: the main heap is found")
    tap.equal(mains[0]["in_use_bytes"] - mains[1]["fastbin_bytes"], mains[1]["in_use_bytes"],
              "without libc's data: what is in use but for fastbins")
    tap.equal(conservation_errors(document), [], "without libc's data: conservation")


def with_another_libc(tap, path, whole):
    """The core's build-id of libc is not the file's: the file is not believed, and it is said."""
    core, main_arena = Core(path), find_main_arena(whole)
    first = None
    for _, kind, _, offset, address, size in core.segments():
        head = bytes(core.bytes[offset:offset + 4])
        if kind == PT_LOAD and address <= main_arena and size and head == b"\x7fELF":
            first = offset
    at = core.bytes.index(b"GNU\0", first)
    while struct.unpack_from("<I", core.bytes, at - 4)[0] != 3: # NT_GNU_BUILD_ID
        at = core.bytes.index(b"GNU\0", at + 4)
    core.bytes[at + 4] ^= 0xff
    document = heap_of(core.write("other-libc"))
    found = findings_of(document)
    tap.ok("core-file-differs" in found and "libc" in found["core-file-differs"]["text"]
           and found["core-file-differs"]["bytes"] > 0, "another libc: it says so", found)
    heap = allocator_of(document)
    tap.ok("-" in heap["version"], "another libc: the version is a range", heap["version"])
    tap.equal(heap["in_use_bytes"], whole["in_use_bytes"], "another libc: the heap is the same")


def with_very_many_segments(tap, path, whole):
    """66,000 more segments: e_phnum is PN_XNUM, and section 0 has the number."""
    core = Core(path)
    table = b"".join(bytes(core.bytes[at:at + SEGMENT.size]) for at in core.headers)
    core.bytes += b"\0" * (-len(core.bytes) % 4096)
    page = len(core.bytes)
    core.bytes += b"x" * 4096
    more = (SEGMENT.pack(PT_LOAD, 4, page, 0x100000000 + i * 8192, 0, 4096, 4096, 4096)
            for i in range(66000))
    headers = len(core.bytes)
    core.bytes += table + b"".join(more)
    count, section = len(core.headers) + 66000, len(core.bytes)
    core.bytes += b"\0" * 44 + struct.pack("<I", count) + b"\0" * 16 # sh_info
    struct.pack_into("<QQ", core.bytes, 32, headers, section)
    struct.pack_into("<HHHH", core.bytes, 54, SEGMENT.size, PN_XNUM, 64, 1)
    result = memwhy("heap", core.write("many"), "--json")
    tap.equal(figures(result.json(), NOT_IN_CORES + RESIDENCY)[0],
              figures({"allocators": [whole], "sizes": []}, NOT_IN_CORES + RESIDENCY)[0],
              "66,000 more segments: the same heap")
    tap.ok(result.seconds < 20, "66,000 more segments: in time", result.seconds)


def lost_stacks(tap):
    with Script(GUARDED) as target:
        if int(target.said) < 0:
            raise Skip("the kernel has no MADV_GUARD_INSTALL (Linux 6.13)")
        path = gcore(target.pid)
        found = findings_of(heap_of(path)).get("core-stack-lost")
        os.unlink(path)
        tap.ok(found and found["count"] >= 1, "guards in stacks: gcore's loss is found", found)
        tap.equal(found and found["bytes"], int(target.said), "guards in stacks: bytes that it lost")
        path = core_of_kernel(target)
        tap.ok("core-stack-lost" not in findings_of(heap_of(path)),
               "guards in stacks: the kernel loses none")
        os.unlink(path)


# ---- damage ----


def answer_errors(result, needs_finding):
    """What is wrong with the answer to a damaged core; "" when all is well."""
    if result.code < 0 or result.code == 5 or result.seconds > 10:
        return f"exit {result.code} after {result.seconds:.1f} s; {result.err[:200]}"
    if result.code != 0 and not result.out:
        return "" if result.err.startswith("memwhy: ") else f"no reason; exit {result.code}"
    document = json.loads(result.out)
    errors = conservation_errors(document)
    cut = findings_of(document).get("core-truncated")
    if needs_finding and not (cut and cut["bytes"] > 0):
        errors.append(f"nothing says that it is cut: {document['findings']}")
    return "; ".join(errors)


def places_to_cut(core, count):
    """Around every edge of headers and segments, and anywhere."""
    edges = {0, 1, 3, 16, 63, 64, core.headers[0], core.headers[-1]}
    for at, _, _, offset, _, size in core.segments():
        edges.update((at, at + 30, offset, offset + 1, offset + size // 2, offset + size - 1))
    chosen = random.Random(7)
    edges = chosen.sample(sorted(edges), min(len(edges), count * 3 // 4))
    edges += [chosen.randrange(len(core.bytes)) for _ in range(count - len(edges))]
    return sorted({place for place in edges if 0 <= place < len(core.bytes)}, reverse=True)


def cut_anywhere(tap, name, path):
    core = Core(path)
    end = max(offset + size for _, kind, _, offset, _, size in core.segments() if size)
    copy = core.write("cut")
    places = places_to_cut(core, int(os.environ.get("CORES_CUTS", "160")))
    errors = []
    for place in places: # descending: each is a shorter one of the same file
        os.truncate(copy, place)
        wrong = answer_errors(memwhy("heap", copy, "--json"), place < end)
        if wrong:
            errors.append(f"cut at {place} of {end}: {wrong}")
    tap.ok(not errors, f"{name}: cut at {len(places)} places", "\n".join(errors))


def cut_before_memory(tap, name, path):
    """Headers and notes only: that no allocator was found answers nothing."""
    core = Core(path)
    first = min(offset for _, kind, _, offset, _, size in core.segments()
                if kind == PT_LOAD and size)
    core.bytes = core.bytes[:first + 100]
    short = core.write("short")
    for command in ("report", "heap", "pins"):
        result = memwhy(command, short, "--json")
        partial = result.json()["partial"] or {"text": "", "hint": ""}
        tap.equal((result.code, "no allocator is in what is left" in partial["text"],
                   "ulimit -c" in (partial["hint"] or "")), (4, True, True),
                  f"{name}, headers only: {command} says that it does not know")
        screen = memwhy(command, short)
        tap.ok(screen.code == 4 and "the core is cut" in " ".join(screen.out.split()),
               f"{name}, headers only: so does the screen of {command}", screen.out)
    result = memwhy("report", short, "--no-heap", "--json")
    tap.equal((result.code, result.json()["partial"]), (0, None),
              f"{name}, headers only: a report of mappings is whole")


def cut_packed(tap, name, path):
    if not shutil.which("zstd"):
        raise Skip("zstd is not installed")
    packed = os.path.join(scratch_dir(), "cut.zst")
    subprocess.run(["zstd", "-qf1", path, "-o", packed], check=True)
    size, errors = os.path.getsize(packed), []
    for part in range(24, 0, -1):
        os.truncate(packed, size * part // 25)
        wrong = answer_errors(memwhy("heap", packed, "--json"), True)
        if wrong:
            errors.append(f"cut at {part} of 25: {wrong}")
    tap.ok(not errors, f"{name}.zst: cut at 24 places", "\n".join(errors))


def corrupt(tap, name, path):
    """Bytes of headers and notes overwritten, one or some at a time."""
    core, chosen = Core(path), random.Random(11)
    count = int(os.environ.get("CORES_CORRUPTIONS", "80"))
    places = list(range(64)) * 8 # the ELF header, too
    for at, kind, _, offset, _, size in core.segments():
        places += range(at, at + SEGMENT.size)
        if kind == 4: # PT_NOTE
            places += range(offset, min(offset + size, offset + 2000))
    errors, copy = [], core.write("corrupt")
    for _ in range(count):
        with open(copy, "r+b") as file:
            changed = [chosen.choice(places) for _ in range(chosen.choice((1, 1, 4, 16)))]
            for place in changed:
                file.seek(place)
                file.write(bytes([chosen.randrange(256)]))
        wrong = answer_errors(memwhy(chosen.choice(("heap", "heap", "report", "maps")), copy,
                                     "--json"), False)
        if wrong:
            errors.append(f"{changed}: {wrong}")
        with open(copy, "r+b") as file:
            for place in changed:
                file.seek(place)
                file.write(core.bytes[place:place + 1])
    tap.ok(not errors, f"{name}: {count} times bytes overwritten", "\n".join(errors))


def made_cores(tap):
    with Fixture("heapshape", "threads16") as target:
        path = gcore(target.pid)
        whole = allocator_of(heap_of(path))
        for check in (without_data_of_libc, with_another_libc, with_very_many_segments):
            tap.guard(check.__name__, check, tap, path, whole)
        tap.guard("gcore, corrupted", corrupt, tap, "gcore", path)
        os.unlink(path)
        path = core_of_kernel(target)
        tap.guard("kernel, cut", cut_anywhere, tap, "kernel", path)
        tap.guard("kernel, headers only", cut_before_memory, tap, "kernel", path)
        tap.guard("kernel, packed and cut", cut_packed, tap, "kernel", path)
        tap.guard("kernel, corrupted", corrupt, tap, "kernel", path)
        os.unlink(path)


def main():
    need_memwhy()
    resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
    os.chdir(scratch_dir())
    tap = Tap()
    wanted = sys.argv[1:]
    for shape in SHAPES:
        if not wanted or shape in wanted:
            tap.guard(shape, shape_against_live, tap, shape)
    for name, run in (("python3", python_against_live), ("stacks", lost_stacks),
                      ("made", made_cores)):
        if not wanted or name in wanted:
            tap.guard(name, run, tap)
    tap.done()


if __name__ == "__main__":
    main()
