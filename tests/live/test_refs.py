#!/usr/bin/env python3
"""`refs`: what an address is, who points to it, a path from a root, what would be lost with it; of
a program whose graph is known (tests/fixtures/referred.c), live, with --fork and in a core."""

from harness import Fixture, Skip, Tap, memwhy, need_memwhy
from leak_checks import CORE_FILTER, ONE_STOP
from matrix import dumps_allow, gcore, kernel_core

NODE = 72          # bytes that a node asks for, and can use
LIST_OFFSET = 16   # of the word that points on
LIST = [f"list{i}" for i in range(5)]


class Asked:
    """refs of one target."""

    def __init__(self, tap, name, truth, target, *words):
        self.tap, self.name, self.truth = tap, name, truth
        self.target, self.words = target, words

    def of(self, place, offset=0):
        result = memwhy("refs", self.target, hex(self.truth[place] + offset), "--json",
                        *self.words)
        self.tap.equal(result.code, 0, f"{self.name}, {place}: exit code")
        return result.json()

    def equal(self, got, wanted, what):
        self.tap.equal(got, wanted, f"{self.name}, {what}")

    def hexes(self, places):
        return [f"0x{self.truth[place]:x}" for place in places]


def check_places(asked):
    """Kinds and names of addresses that are no block in use."""
    for place, kind, symbol in (("list_head", "module", "list_head"), ("slot", "module", "table+0x"),
                                ("code", "module", "graph_make"), ("frame", "stack", None),
                                ("page", "mapping", None), ("gone", "free", None)):
        found = asked.of(place)
        asked.equal((found["kind"], found["block"]), (kind, None), f"{place}: kind")
        if symbol:
            asked.equal(symbol in (found["name"] or ""), True, f"{place}: {found['name']}")
    asked.equal(asked.of("frame")["tid"], asked.truth["tid"], "the thread of a stack")
    asked.equal(memwhy("refs", asked.target, "0x10", "--json", *asked.words).json()["kind"],
                "unmapped", "nothing is mapped there")


def check_block(asked, place, retained, state="reachable", **wanted):
    """retained: places that are lost with it."""
    found = asked.of(place, 5)
    block = found["block"]
    asked.equal((found["kind"], block["address"], block["offset"], block["usable_bytes"]),
                ("block", f"0x{asked.truth[place]:x}", 5, NODE), f"{place}: the block")
    asked.equal((block["reachable"], block["exact"]), (state == "reachable", True),
                f"{place}: state")
    asked.equal((block["retained_count"], block["retained_bytes"]),
                (len(retained), len(retained) * block["size_bytes"]), f"{place}: retained")
    for key, value in wanted.items():
        asked.equal(sorted(step["address"] for step in found[key]),
                    sorted(asked.hexes(value)), f"{place}: {key}")
    return found


def check_root(asked, found, place, kind, where):
    """The root at the end of the path; where: the address of the word."""
    root = found["path_root"]
    asked.equal((root["kind"], root["address"]), (kind, f"0x{where:x}"), f"{place}: its root")


def check_list(asked):
    """A chain: each block is on the path to those behind, and retains them, but for the last one's
    target, to which a second way leads."""
    for i, place in enumerate(LIST):
        found = check_block(asked, place, LIST[i:], referrers=LIST[:i][-1:])
        asked.equal([step["address"] for step in found["path"]], asked.hexes(LIST[:i]),
                    f"{place}: path")
        asked.equal({step["offset"] for step in found["path"]}, {LIST_OFFSET} if i else set(),
                    f"{place}: offsets")
        check_root(asked, found, place, "data", asked.truth["list_head"])


def check_others(asked):
    found = check_block(asked, "owner", ["owner", "leaf"], referrers=[])
    check_root(asked, found, "owner", "data", asked.truth["slot"])
    asked.equal("table+0x" in found["path_root"]["name"], True, "owner: the root's name")
    found = check_block(asked, "shared", ["shared"], referrers=["list4", "owner"])
    asked.equal([step["address"] for step in found["path"]], asked.hexes(["owner"]),
                "shared: the shorter path")
    check_block(asked, "leaf", ["leaf"], referrers=["owner"])
    found = check_block(asked, "mapped", ["mapped"], referrers=[])
    check_root(asked, found, "mapped", "anonymous memory", asked.truth["page"] + 77 * 8)
    found = check_block(asked, "framed", ["framed"], referrers=[])
    asked.equal((found["path_root"]["kind"] in ("stack", "register"), found["path_root"]["tid"]),
                (True, asked.truth["tid"]), "framed: its root")
    asked.equal("stack" in {root["kind"] for root in found["roots"]}, True, "framed: the frame")


def check_lost(asked):
    check_block(asked, "lost", ["lost", "below"], "lost", referrers=[], path=[])
    check_block(asked, "below", ["below"], "lost", referrers=["lost"], path=["lost"])
    # Of a cycle one block stands for all: it leads to the others.
    first = "ring0" if asked.of("ring0")["block"]["retained_count"] == 2 else "ring1"
    for place, other in (("ring0", "ring1"), ("ring1", "ring0")):
        kept = ["ring0", "ring1"] if place == first else [place]
        found = check_block(asked, place, kept, "lost", referrers=[other])
        asked.equal(found["path_root"], None, f"{place}: no root")


def check_text(tap, fixture):
    result = memwhy("refs", fixture.pid, hex(fixture.truth["shared"] + 8), *ONE_STOP)
    for part in ("byte 8 of a block of 72 usable bytes", "held:", "table+0x", "NEXT"):
        tap.ok(part in result.out, f"the screen says {part}", result.out)
    tap.ok("lost: nothing leads to it" in
           memwhy("refs", fixture.pid, hex(fixture.truth["lost"]), *ONE_STOP).out,
           "the screen says that it is lost")
    for word in ("12g", "", "0x", "-1", "0x1ffffffffffffffff"):
        tap.equal(memwhy("refs", fixture.pid, word).code, 2, f"'{word}' is no address")


def check(asked):
    for part in (check_places, check_list, check_others, check_lost):
        part(asked)


def main():
    need_memwhy()
    tap = Tap()
    with Fixture("referred") as fixture:
        check(Asked(tap, "live", fixture.truth, fixture.pid, *ONE_STOP))
        check(Asked(tap, "--fork", fixture.truth, fixture.pid, "--fork"))
        check_text(tap, fixture)
        dumps_allow(fixture, CORE_FILTER)
        for name, write in (("gcore", gcore), ("kernel core", kernel_core)):
            try:
                check(Asked(tap, name, fixture.truth, write(fixture)))
            except Skip as why:
                tap.skip(name, str(why))
    tap.done()


if __name__ == "__main__":
    main()
