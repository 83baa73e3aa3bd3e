#!/usr/bin/env python3
"""The JSON contract of the commands about blocks, pointers, stacks and growth: as test_contract.py,
each document whole, live, of a core, and where no memory can be read."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "live")]
import harness                                            # noqa: E402
from harness import Fixture, Skip, Tap, memwhy            # noqa: E402
from matrix import dumps_allow, gcore                     # noqa: E402
from test_contract import (PARTIAL, TAIL, address, count, flag, head, many,  # noqa: E402
                           nullable, number, one_of, record, same, text, time, whole)

KINDS = ("zero", "constant", "small-int", "heap-pointer", "stack-pointer", "code-pointer",
         "data-pointer", "text", "float", "random", "mixed")
ROOTS = ("register", "stack", "data", "anonymous memory", "generated code", "shared memory",
         "unparsed heap memory")
LOST = {name: nullable(count) for name in (
    "reachable_count reachable_bytes unreachable_count unreachable_bytes direct_count direct_bytes "
    "indirect_count indirect_bytes uncertain_count uncertain_bytes suppressed_count "
    "suppressed_bytes stale_stack_bytes").split()}
PART = record(offset=count, width=one_of(1, 2, 4), value=nullable(address))
FIELD = record(
    offset=count, distinct=count, distinct_is_lower_bound=flag, constant=nullable(address),
    kind=one_of(*KINDS), resolved=nullable(text), symbol=nullable(text), parts=many(PART),
    count=count, min=nullable(address), max=nullable(address), entropy_bits=nullable(number),
    top=nullable(address), top_count=nullable(count), top_name=nullable(text), zero_count=count,
    heap_pointer_count=count, stack_pointer_count=count, code_pointer_count=count,
    data_pointer_count=count, source_line=nullable(text), call=nullable(text))
STRING = record(count=count, length_bytes=count, bytes=count, wasted_bytes=count,
                sample_address=address, text=nullable(text))
STEP = record(address=address, size_bytes=count, offset=nullable(count))
ROOT = record(kind=one_of(*ROOTS), address=nullable(address), name=nullable(text),
              tid=nullable(count))
DOCUMENTS = {
    "leaks": record(
        **head("leaks"), exact=flag, **LOST,
        groups=many(record(size_bytes=count, usable_bytes=count, count=count, bytes=count,
                           direct_count=count, signature=nullable(text), layout=nullable(text),
                           type=nullable(text), caller=nullable(text), constants=nullable(text),
                           sample_address=address)),
        **TAIL),
    "blocks": record(
        **head("blocks"), size_bytes=nullable(count),
        groups=many(record(size_bytes=count, usable_bytes=count, count=count, bytes=count,
                           unreachable_count=nullable(count), layout=nullable(text))),
        fields=many(FIELD),
        strings=nullable(record(text_count=count, text_bytes=count, distinct=count,
                                repeated_count=count, wasted_bytes=count, is_lower_bound=flag,
                                rows=many(STRING))),
        list=many(record(address=address, size_bytes=count, usable_bytes=count)), **TAIL),
    "refs": record(
        **head("refs"), address=address,
        kind=one_of("block", "free", "stack", "module", "mapping", "unmapped"),
        name=nullable(text), tid=nullable(count),
        block=nullable(record(address=address, offset=count, size_bytes=count,
                              usable_bytes=count, layout=nullable(text), reachable=flag,
                              exact=flag, retained_count=count, retained_bytes=count)),
        referrer_count=count, referrers=many(STEP), root_count=count, roots=many(ROOT),
        path=many(STEP), path_root=nullable(ROOT), **TAIL),
    "stacks": record(
        **head("stacks"), pauses=count, paused_seconds=number, longest_pause_seconds=number,
        threads=count,
        groups=many(record(count=count, threads=many(count), names=many(text), frames=many(text),
                           addresses=many(nullable(address)),
                           lines=nullable(many(nullable(text))),
                           by_frame_pointer=many(count), is_whole=flag, end=nullable(text))),
        **TAIL),
    "diff": record(
        schema=same("memwhy.diff/1"), memwhy_version=text, before_at=nullable(time),
        after_at=nullable(time), elapsed_seconds=nullable(number),
        elapsed_by=one_of("clock", "file times"), same_process=flag, has_control=flag,
        rss_before_bytes=nullable(count), rss_after_bytes=nullable(count),
        rss_delta_bytes=nullable(whole), category_measure=one_of("resident", "mapped"),
        rows=many(record(
            what=one_of("category", "size", "signature"), id=text, before_bytes=nullable(count),
            after_bytes=nullable(count), delta_bytes=nullable(whole),
            before_count=nullable(count), after_count=nullable(count),
            delta_count=nullable(whole), delta_unreachable_count=nullable(whole),
            survived_count=nullable(count), control_delta_bytes=nullable(whole),
            control_delta_count=nullable(whole))),
        partial=PARTIAL),
}


def check(tap, name, command, *words, codes=(0,)):
    result = memwhy(command, *words, "--json")
    tap.ok(result.code in codes, f"{name}: exit code", result.code)
    document = result.json()
    problem = DOCUMENTS[command](document)
    tap.ok(not problem, f"{name}: {command}: the members and types of the contract", problem)
    return document


def check_sums(tap, name, leaks, blocks):
    """What the two say of the same blocks."""
    whole_count = sum(leaks[f"{what}_count"] for what in ("reachable", "unreachable", "uncertain"))
    tap.equal(sum(group["count"] for group in blocks["groups"]), whole_count,
              f"{name}: blocks and leaks count the same")
    tap.equal(sum(group["count"] for group in leaks["groups"]),
              leaks["unreachable_count"] + leaks["uncertain_count"], f"{name}: groups are all")
    tap.equal(leaks["direct_count"] + leaks["indirect_count"], leaks["unreachable_count"],
              f"{name}: direct and indirect")
    for group in blocks["groups"]:
        if group["bytes"] != group["size_bytes"] * group["count"]:
            tap.equal(group["bytes"], group["size_bytes"] * group["count"], f"{name}: {group}")


def check_target(tap, name, target, codes=(0,)):
    leaks = check(tap, name, "leaks", target, codes=codes)
    blocks = check(tap, name, "blocks", target, codes=codes)
    if blocks["groups"]:
        size = blocks["groups"][0]["size_bytes"]
        for words in (("--size", size, "--fields"), ("--size", size, "--list"),
                      ("--size", size, "--fields", "--contents")):
            check(tap, f"{name} {words[-1]}", "blocks", target, *words, codes=codes)
        check_sums(tap, name, leaks, blocks)
        listed = check(tap, name, "blocks", target, "--list", "--limit", 1, codes=codes)
        place = listed["list"][0]["address"]
        check(tap, f"{name} a block", "refs", target, place, codes=codes)
    check(tap, f"{name} nowhere", "refs", target, "0x10", codes=codes)
    check(tap, name, "stacks", target, codes=codes)
    check(tap, name, "diff", target, target, codes=codes)


def main():
    harness.need_memwhy()
    tap = Tap()
    for shape in ("native-leak", "trimmable-free", "fragmentation"):
        with Fixture("state", shape) as fixture:
            check_target(tap, f"{shape} live", fixture.pid)
            check(tap, shape, "diff", fixture.pid, "--after", "1s", "--control", fixture.pid)
            check(tap, f"{shape} --fork", "leaks", fixture.pid, "--fork")
            try:
                dumps_allow(fixture, "0x7f")
                check_target(tap, f"{shape} core", gcore(fixture))
            except Skip as why:
                tap.skip(f"{shape} core", str(why))
    texts = sorted(name for name in os.listdir(harness.TEXTS) if name.endswith(".txt"))
    path = os.path.join(harness.TEXTS, texts[0])
    check(tap, texts[0], "leaks", path, codes=(4,))
    check(tap, texts[0], "blocks", path, codes=(4,))
    check(tap, texts[0], "diff", path, path, codes=(0, 4))
    tap.done()


if __name__ == "__main__":
    main()
