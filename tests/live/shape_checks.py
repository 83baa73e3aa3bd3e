"""The checks of a heap of known shape: every block, every total and every page against what the
program knows. Used by test_shapes.py and matrix.py.

For a shape of tests/fixtures/heapshape.c, of `heap --json`, `heap --list-blocks`, `trim --json`
and `trim --pages`:
  - the totals equal the program's own mallinfo2, where glibc counts cached (tcache) blocks as in
    use and memwhy as free:
        sum of arena_list[].system_bytes          == arena
        system_bytes                              == arena + hblkhd
        in_use + free + metadata                  == system_bytes
        mmapped_count, mmapped_bytes              == hblks, hblkhd
        free_bytes - tcache_bytes                 == fordblks
        fastbin_bytes, number of fastbin blocks   == fsmblks, smblks
        number of free blocks and tops            == ordblks
        in_use - mmapped + tcache + metadata      == uordblks
        top of the main arena                     == keepcost
    (an aligned mmapped block begins inside its mapping: what lies before it is in mmapped_bytes
    and metadata_bytes, not in in_use_bytes)
  - every block the program holds is listed in use with its exact size, none that it freed is, and
    what is in use beyond that is, byte for byte, what libc allocated for itself.
Of a live program also:
  - the pages that trim names are the pages that malloc_trim(0) then takes away;
  - looking changes nothing: same pages before and after.
"""

import collections

from harness import (Failure, Fixture, PAGE, Spans, memwhy, pages_parse, pages_show, smaps_rollup)

TUNABLES = {
    "tcache-off": "glibc.malloc.tcache_count=0",
    "hugetlb1": "glibc.malloc.hugetlb=1",
    "hugetlb2": "glibc.malloc.hugetlb=2",
}
SHAPES = [
    "single", "threads16", "tcache-full", "tcache-off", "fastbins", "mmapped", "memalign",
    "realloc", "arenas-limit", "arenas-default", "brk-blocked", "foreign-sbrk", "hugetlb1",
    "hugetlb2", "static", "static-threads", "holes", "topped", "big-threshold", "many-heaps",
    "decoy", "split", "forked",
]
IN_USE = ("in-use", "mmapped")
STATES = ("in-use", "free", "tcache", "fastbin", "top", "mmapped")

Block = collections.namedtuple("Block", "address size state arena")


def list_blocks(target):
    result = memwhy("heap", target, "--list-blocks")
    if result.code != 0:
        raise Failure(f"heap --list-blocks: exit {result.code}; {result.err[:400]}")
    blocks = []
    for line in result.out.splitlines():
        address, size, state, arena = line.split()
        if state not in STATES:
            raise Failure(f"unknown state in: {line}")
        blocks.append(Block(int(address, 16), int(size), state, arena))
    return blocks


def tally(blocks, *states):
    sizes = [block.size for block in blocks if block.state in states]
    return len(sizes), sum(sizes)


# ---- totals ----


def glibc_is(truth, at_least):
    return tuple(map(int, truth["glibc"].split(".")[:2])) >= at_least


def check_totals(tap, name, heap, info, truth):
    """heap is the allocator's row, info the program's mallinfo2."""
    main = heap["arena_list"][0]
    arena = sum(row["system_bytes"] for row in heap["arena_list"])
    mapped, before = info["hblkhd"], truth["live_mmapped_offset_bytes"]
    if glibc_is(truth, (2, 43)):
        # mremap adds 16 bytes too much to the counter (2.43, 2.44).
        drift = mapped - heap["mmapped_bytes"]
        tap.ok(drift >= 0 and drift % 16 == 0, f"{name}: drift of hblkhd", drift)
        mapped -= drift
        before += 16 * info["hblks"]  # and each mapping ends in 16 bytes that no block has
    tap.equal(arena, info["arena"], f"{name}: arena")
    tap.equal(heap["system_bytes"], info["arena"] + mapped, f"{name}: system_bytes")
    tap.equal(heap["in_use_bytes"] + heap["free_bytes"] + heap["metadata_bytes"],
              heap["system_bytes"], f"{name}: in use + free + metadata is the whole")
    tap.equal((heap["mmapped_count"], heap["mmapped_bytes"]), (info["hblks"], mapped),
              f"{name}: hblks, hblkhd")
    tap.equal(heap["free_bytes"] - heap["tcache_bytes"], info["fordblks"], f"{name}: fordblks")
    tap.equal(heap["fastbin_bytes"], info["fsmblks"], f"{name}: fsmblks")
    tap.equal(heap["in_use_bytes"] - heap["mmapped_bytes"] + heap["tcache_bytes"]
              + heap["metadata_bytes"], info["uordblks"], f"{name}: uordblks")
    tap.equal(main["top_bytes"], info["keepcost"], f"{name}: keepcost")
    tap.equal(0, info["usmblks"], f"{name}: usmblks")
    for key in ("in_use_bytes", "free_bytes", "top_bytes"):
        rows = sum(row[key] for row in heap["arena_list"])
        extra = heap["mmapped_bytes"] - before if key == "in_use_bytes" else 0
        tap.equal(rows + extra, heap[key], f"{name}: arenas add up to {key}")
    return before


def version_covers(text, version):
    """Is "2.36" what "2.36" or "2.35-2.42" says?"""
    minors = [int(part.split(".")[1]) for part in text.split("-")]
    return minors[0] <= int(version.split(".")[1]) <= minors[-1]


def check_known(tap, name, heap, truth, is_live):
    """Facts that the program set or caused."""
    known, parameters = truth["known"], heap["parameters"]
    tap.equal(heap["kind"], "glibc", f"{name}: kind")
    if is_live and not truth["shape"].startswith("static"):
        tap.equal(heap["version"], truth["glibc"], f"{name}: version")
    else:  # a core may lack the constants of libc: then the layout tells
        tap.ok(version_covers(heap["version"], truth["glibc"]), f"{name}: version",
               heap["version"])
    tap.equal(heap["arenas"], len(heap["arena_list"]), f"{name}: arenas are listed")
    if known["arenas"]:
        tap.equal(heap["arenas"], known["arenas"], f"{name}: number of arenas")
    if is_live or known["arena_max"]:  # a core does not know the processors
        tap.equal(heap["arena_limit"], known["arena_max"] or truth["arena_limit"],
                  f"{name}: arena limit")
    tap.equal(parameters["arena_max"], known["arena_max"] or 0, f"{name}: arena_max")
    # Later versions make the huge page the mmap threshold when glibc.malloc.hugetlb=2.
    if truth["shape"] != "hugetlb2" or not glibc_is(truth, (2, 37)):
        tap.equal(parameters["mmap_threshold"], known["mmap_threshold"] or 131072,
                  f"{name}: mmap_threshold")
        tap.equal(parameters["no_dyn_threshold"], known["no_dyn_threshold"],
                  f"{name}: no_dyn_threshold")
    tap.equal(parameters["trim_threshold"], known["trim_threshold"] or 131072,
              f"{name}: trim_threshold")
    if known["segments_min"]:
        tap.ok(heap["arena_list"][0]["heaps"] >= known["segments_min"],
               f"{name}: pieces of the main heap", heap["arena_list"][0])
    if known["heaps_min"]:
        most = max(row["heaps"] for row in heap["arena_list"][1:])
        tap.ok(most >= known["heaps_min"], f"{name}: heaps of a thread arena", most)


# ---- blocks ----


def check_list(tap, name, heap, blocks, info, before):
    """The list against the totals of the same program; before: bytes of mappings before blocks.
    Returns how many blocks of each size are in use and free."""
    counts = {state: tally(blocks, state) for state in STATES}
    tap.equal(counts["fastbin"][0], info["smblks"], f"{name}: smblks")
    tap.equal(counts["free"][0] + counts["top"][0], info["ordblks"], f"{name}: ordblks")
    for key, states in (("in_use", IN_USE), ("mmapped", ("mmapped",)),
                        ("free", ("free", "top", "tcache", "fastbin"))):
        wanted = (heap[f"{key}_count"],
                  heap[f"{key}_bytes"] - (before if key == "mmapped" else 0))
        tap.equal(tally(blocks, *states), wanted, f"{name}: listed {key}")
    for state in ("tcache", "fastbin", "top"):
        tap.equal(counts[state][1], heap[f"{state}_bytes"], f"{name}: listed {state}")
    headers = Spans((block.address - 16, block.address - 16 + block.size) for block in blocks)
    tap.equal(headers.overlaps()[:3], [], f"{name}: blocks do not overlap")
    sizes = collections.Counter(block.size for block in blocks if block.state in IN_USE)
    frees = collections.Counter(block.size for block in blocks if block.state not in IN_USE)
    return sizes, frees


def check_sizes(tap, name, rows, sizes, frees):
    """The size histogram of the JSON against the list."""
    got = {row["size_bytes"]: (row["in_use_count"], row["free_count"]) for row in rows}
    wanted = {size: (sizes[size], frees[size]) for size in set(sizes) | set(frees)}
    differing = sorted(size for size in set(got) | set(wanted)
                       if got.get(size, (0, 0)) != wanted.get(size, (0, 0)))
    tap.equal(differing[:5], [], f"{name}: sizes")


def live_errors(records, listed):
    for record in records:
        block = listed.get(record["address"])
        if block is None or block.state not in IN_USE:
            yield f"{record['address']:#x} is {block.state if block else 'not listed'}"
        elif block.size - record["usable"] not in ((16, 8) if block.state == "mmapped" else (8,)):
            yield f"{record['address']:#x}: size {block.size}, usable {record['usable']}"


def freed_errors(records, listed, held, libc_sizes):
    """Freed blocks that are in use (other than as libc's own), cached ones not in their cache."""
    for record in records:
        address, state = record["address"], record["state"]
        block = listed.get(address)
        if state == "live" or held.find(address):
            continue
        if state == "freed":
            if block and block.state in IN_USE and block.size not in libc_sizes:
                yield f"{address:#x} was freed and is {block.state}, {block.size}"
        elif not block or block.state != state or block.size != record["usable"] + 8:
            yield f"{address:#x} is not in {state}: {block}"


def check_blocks(tap, name, fixture, blocks):
    """The program's own record against the list; returns what is in use and not in it."""
    truth, records = fixture.truth, fixture.blocks()
    live = {record["address"]: record for record in records if record["state"] == "live"}
    listed = {block.address: block for block in blocks}
    tap.equal(len(listed), len(blocks), f"{name}: no block listed twice")
    tap.equal(len(live), truth["live_count"], f"{name}: the record is whole")
    tap.equal(list(live_errors(live.values(), listed))[:5], [],
              f"{name}: all {len(live)} held blocks, with their sizes")
    held = Spans((address, address + record["requested"] + 1) for address, record in live.items())
    thread = truth["libc_threads_bytes"] // (truth["threads_started"] or 1) & ~15
    sizes = cache_sizes(truth) + (thread, thread + 16)
    tap.equal(list(freed_errors(records, listed, held, sizes))[:5], [],
              f"{name}: no freed block in use, cached ones in their cache")
    return [block for block in blocks if block.state in IN_USE and block.address not in live]


def cache_sizes(truth):
    """Chunk sizes that a thread's cache can have: 16 more when a smaller rest would be left."""
    if not glibc_is(truth, (2, 26)):
        return (0,)  # there is no cache yet
    if glibc_is(truth, (2, 42)):
        return (0x300, 0x310, 0x320)
    return (0x290, 0x2a0) if glibc_is(truth, (2, 30)) else (0x250, 0x260)


def check_libc(tap, name, truth, blocks, own):
    """Blocks in use beyond the program's are a cache per thread and what threads cost libc."""
    caches = [block for block in own if block.size in cache_sizes(truth)]
    others = sum(block.size for block in own) - sum(block.size for block in caches)
    arenas = {block.arena for block in blocks if block.state != "mmapped"}
    alive = 1 + truth["threads_parked"]
    lazy = glibc_is(truth, (2, 43))  # a cache comes with a thread's first free, not its first malloc
    least = 0 if glibc_is(truth, (2, 42)) else min(len(arenas), alive)  # 2.42: first small malloc
    if not glibc_is(truth, (2, 26)):
        least = alive = 0
    tap.ok(least <= len(caches) <= alive,
           f"{name}: a cache for each thread",
           f"{len(caches)} caches, {alive} threads, {len(arenas)} arenas")
    first = 0 if lazy else cache_sizes(truth)[0]  # of the main thread, in libc_before_bytes
    # What is no multiple of 16 there lies before the first chunk: up to 2.31 the loader keeps
    # GLIBC_TUNABLES at the start of the heap. It is metadata, not a block.
    before = truth["libc_before_bytes"] & ~15
    tap.equal(others, before - first + truth["libc_threads_bytes"],
              f"{name}: every other block is libc's own")


# ---- trim ----


def check_trim(tap, name, fixture):
    pid = fixture.pid
    for _ in range(3):  # khugepaged may make huge pages of advised memory in between
        huge = smaps_rollup(pid)["AnonHugePages"]
        predicted = memwhy("trim", pid, "--json").json()
        pages = pages_parse(memwhy("trim", pid, "--pages").out)
        if smaps_rollup(pid)["AnonHugePages"] == huge:
            break
    before, after, present, left = fixture.trim()
    gone = present - left
    tap.equal(predicted["applied"], False, f"{name}: nothing applied unasked")
    tap.equal(predicted["anon_before_bytes"], before, f"{name}: Anonymous before")
    tap.equal(predicted["predicted_bytes"], len(pages) * PAGE, f"{name}: pages are the bytes")
    missing, extra = gone - pages, pages - gone
    tap.equal(len(missing), 0, f"{name}: no page missing of {len(gone)}")
    tap.equal(len(extra), 0, f"{name}: no page too many")
    if missing or extra:
        tap.note(f"missing {pages_show(missing)}; extra {pages_show(extra)}")
    tap.equal(before - after, predicted["predicted_bytes"], f"{name}: the drop in Anonymous")
    again = memwhy("trim", pid, "--json").json()
    tap.equal(again["predicted_bytes"], 0, f"{name}: nothing is left to trim")


# ---- one shape ----


def shape_fixture(shape, libc=None):
    """The program in that shape; libc as in harness.Fixture."""
    program = "heapshape-static" if shape.startswith("static") else "heapshape"
    env = {"GLIBC_TUNABLES": TUNABLES[shape]} if shape in TUNABLES else {}
    return Fixture(program, shape, env=env, libc=libc)


def check_heap(tap, name, fixture, target, is_live=True):
    """What `heap` says of target, the program or a core of it."""
    truth, info = fixture.truth, fixture.truth["mallinfo2"]
    result = memwhy("heap", target, "--json")
    tap.equal((result.code, result.err), (0, ""), f"{name}: heap succeeds quietly")
    document = result.json()
    tap.equal(document["schema"], "memwhy.heap/1", f"{name}: schema")
    tap.equal(len(document["allocators"]), 1, f"{name}: one allocator")
    heap = document["allocators"][0]
    tap.equal((heap["walked"], heap["reconciled"]), (True, True), f"{name}: proven")
    blocks = list_blocks(target)
    before = check_totals(tap, name, heap, info, truth)
    check_known(tap, name, heap, truth, is_live)
    sizes, frees = check_list(tap, name, heap, blocks, info, before)
    check_sizes(tap, name, document["sizes"], sizes, frees)
    check_libc(tap, name, truth, blocks, check_blocks(tap, name, fixture, blocks))


def check_live(tap, shape, fixture):
    fixture.mapped_pages()
    quiet, rollup = fixture.mapped_pages(), smaps_rollup(fixture.pid)
    check_heap(tap, shape, fixture, fixture.pid)
    tap.equal(smaps_rollup(fixture.pid)["Anonymous"], rollup["Anonymous"],
              f"{shape}: looking changes no Anonymous")
    changed = fixture.mapped_pages() ^ quiet
    tap.equal(len(changed), 0, f"{shape}: looking maps no page")
    if changed:
        tap.note(pages_show(changed))
    check_trim(tap, shape, fixture)
    after = fixture.json("info")["mallinfo2"]
    heap = memwhy("heap", fixture.pid, "--json").json()["allocators"][0]
    check_totals(tap, f"{shape} trimmed", heap, after, fixture.truth)


def check_shape(tap, shape, libc=None):
    with shape_fixture(shape, libc) as fixture:
        check_live(tap, shape, fixture)
