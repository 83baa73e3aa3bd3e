#!/usr/bin/env python3
# timeout: 600
"""The shape of an incident: exception records that a runtime's library leaks, one at each throw,
among the live blocks of a program at work (tests/fixtures/clr_leak.c).

`leaks` names exactly those blocks, live, with --fork and in a core of the kernel; `report` calls
them a native leak. INCIDENT_LEAKED and INCIDENT_LIVE change
how many: default 5,279 among 120,011, those of the incident are 42,231 among a million.
"""

import json
import os

from harness import Fixture, Tap, memwhy, need_memwhy
from leak_checks import CORE_FILTER, ONE_STOP, leaks_of
from matrix import dumps_allow, kernel_core

LEAKED = int(os.environ.get("INCIDENT_LEAKED", "5279"))
LIVE = int(os.environ.get("INCIDENT_LIVE", "120011"))


def check_leaks(tap, name, answer, truth):
    got = [(group["size_bytes"], group["count"]) for group in answer["groups"]]
    sizes = {size for size, _ in got}
    tap.equal(sizes, {truth["leaked_size_bytes"]}, f"{name}: one size is lost")
    tap.equal(sum(count for _, count in got), truth["leaked_count"], f"{name}: all of it in groups")
    tap.equal((answer["unreachable_count"], answer["unreachable_bytes"]),
              (truth["leaked_count"], truth["leaked_count"] * truth["leaked_size_bytes"]),
              f"{name}: exactly {truth['leaked_count']} blocks are lost")
    tap.equal((answer["direct_count"], answer["indirect_count"]), (truth["leaked_count"], 0),
              f"{name}: each on its own, whatever leads to itself")
    more = answer["reachable_count"] - truth["live_count"]
    tap.ok(0 <= more < 8, f"{name}: all that is held is reached, and a few of libc's", more)


def check_report(tap, name, target, truth):
    report = memwhy("report", target, "--json").json()
    verdicts = {verdict["id"]: verdict for verdict in report["verdicts"]}
    verdict = verdicts.get("native-leak")
    if not tap.ok(verdict, f"{name}: report finds a native leak", list(verdicts)):
        return
    tap.note(json.dumps({key: verdict[key] for key in ("class", "basis", "bytes", "summary")}))
    tap.equal(verdict["class"], "leaked", f"{name}: report calls it leaked")
    whole = truth["leaked_count"] * truth["leaked_size_bytes"]
    tap.ok(0.9 * whole <= verdict["bytes"] <= whole, f"{name}: and charges it with its bytes",
           (verdict["bytes"], whole))


def main():
    need_memwhy()
    tap = Tap()
    with Fixture("clr_leak", LEAKED, LIVE) as fixture:
        truth = fixture.truth
        tap.equal((truth["leaked_count"], truth["function"]),
                  (LEAKED, "DispatchManagedException"), "the program is as it should be")
        check_leaks(tap, "live", leaks_of(fixture.pid, *ONE_STOP), truth)
        check_leaks(tap, "--fork", leaks_of(fixture.pid, "--fork"), truth)
        tap.guard("live report", check_report, tap, "live", fixture.pid, truth)
        dumps_allow(fixture, CORE_FILTER)
        core = kernel_core(fixture)
        try:
            check_leaks(tap, "core", leaks_of(core), truth)
            tap.guard("core report", check_report, tap, "core", core, truth)
        finally:
            os.unlink(core)
    tap.done()


if __name__ == "__main__":
    main()
