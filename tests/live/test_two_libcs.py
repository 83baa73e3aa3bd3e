#!/usr/bin/env python3
"""Two C libraries in one process, the second in a namespace of its own: both are walked, each equals
its own mallinfo2, and every block of both is listed with its size. Live and in cores."""

import os

from harness import Fixture, Tap, memwhy, need_memwhy
from matrix import dumps_allow, gcore, kernel_core
from shape_checks import IN_USE, list_blocks


def check_allocator(tap, name, heap, info):
    tap.equal((heap["kind"], heap["walked"], heap["reconciled"]), ("glibc", True, True),
              f"{name}: walked and proven")
    tap.equal(sum(row["system_bytes"] for row in heap["arena_list"]), info["arena"],
              f"{name}: arena")
    tap.equal((heap["mmapped_count"], heap["mmapped_bytes"]), (info["hblks"], info["hblkhd"]),
              f"{name}: hblks, hblkhd")
    tap.equal(heap["free_bytes"] - heap["tcache_bytes"], info["fordblks"], f"{name}: fordblks")
    tap.equal(heap["fastbin_bytes"], info["fsmblks"], f"{name}: fsmblks")
    tap.equal(heap["in_use_bytes"] - heap["mmapped_bytes"] + heap["tcache_bytes"]
              + heap["metadata_bytes"], info["uordblks"], f"{name}: uordblks")
    tap.equal(heap["arena_list"][0]["top_bytes"], info["keepcost"], f"{name}: keepcost")


def check(tap, name, truth, target):
    heap = memwhy("heap", target, "--json")
    tap.equal((heap.code, heap.err), (0, ""), f"{name}: heap succeeds quietly")
    allocators = heap.json()["allocators"]
    if not tap.equal(len(allocators), 2, f"{name}: two allocators"):
        return
    for which, allocator in zip(("first", "second"), allocators):
        check_allocator(tap, f"{name}, {which}", allocator, truth[which])
    listed = {block.address: block for block in list_blocks(target)}
    for which in ("first", "second"):
        wrong = []
        for text, usable in truth[f"{which}_blocks"]:
            block = listed.get(int(text, 16))
            if not block or block.state not in IN_USE or block.size - usable not in (8, 16):
                wrong.append((text, usable, block))
        tap.equal(wrong[:3], [], f"{name}: every held block of the {which} one")
    report = memwhy("report", target, "--json").json()
    sizes = {row["id"]: row["size_bytes"] for row in report["categories"]}
    tap.equal(sizes["malloc.in_use"] + sizes["malloc.free"] + sizes["malloc.metadata"],
              sum(allocator["system_bytes"] for allocator in allocators),
              f"{name}: the account has both")


def main():
    need_memwhy()
    tap = Tap()

    def run():
        with Fixture("twolibcs") as fixture:
            dumps_allow(fixture)
            check(tap, "live", fixture.truth, fixture.pid)
            for name, write in (("gcore", gcore), ("kernel core", kernel_core)):
                def core_check(name=name, write=write):
                    core = write(fixture)
                    check(tap, name, fixture.truth, core)
                    os.unlink(core)
                tap.guard(name, core_check)
    tap.guard("two C libraries", run)
    tap.done()


if __name__ == "__main__":
    main()
