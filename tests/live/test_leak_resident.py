#!/usr/bin/env python3
"""A lost block that was hardly touched: what `report` says is leaked is what is resident of it."""

from harness import Fixture, Tap, memwhy, need_memwhy
from leak_checks import ONE_STOP

KEPT, LOST = 60, 90          # blocks of 1 MB: kept ones are written to, lost ones in one page each
SIZE = 1000000


def main():
    need_memwhy()
    tap = Tap()
    with Fixture("grower") as fixture:
        fixture.ask(f"keep {SIZE} {KEPT}")
        fixture.ask(f"graze {SIZE} {LOST}")
        for words in (ONE_STOP, ("--fork",)):
            report = memwhy("report", fixture.pid, "--json", *words).json()
            leak = next(row for row in report["verdicts"] if row["id"] == "native-leak")
            tap.equal(leak["basis"], "proven", f"{words[0]}: proven")
            tap.ok(LOST * 4096 <= leak["bytes"] <= LOST * 3 * 4096,
                   f"{words[0]}: by what is resident", leak["bytes"])
            tap.equal({remedy["gain_high_bytes"] for remedy in leak["remedies"]}, {leak["bytes"]},
                      f"{words[0]}: nor is more gained")
            leaks = memwhy("leaks", fixture.pid, "--json", *words).json()
            tap.ok(leaks["unreachable_bytes"] >= LOST * SIZE, f"{words[0]}: leaks has their sizes",
                   leaks["unreachable_bytes"])
    tap.done()


if __name__ == "__main__":
    main()
