#!/usr/bin/env python3
"""Forked processes that share memory, alone and as a cgroup: every figure against the kernel's.

The program forked(.c) has one block of 64 MiB and seven children that each wrote to a known number
of its pages. What is asked:
  - does the kernel say so: shared and private bytes of the block, in each process, to the page;
  - copy-on-write of a report: bytes and sums equal those of smaps and smaps_rollup, read here;
  - memory that is shared by a shared mapping is no copy-on-write;
  - `memwhy cgroup:PATH` and a container's id, in trees of v1 and v2 that are made here: processes
    by PSS, sums, how they fit to memory.stat, groups below, then the report of the worst.

While the kernel moves a page to make room for larger ones (compaction) it counts that page as
mapped once: for a moment PSS and what is private are too high, in some process, in memwhy's reading
or in the one here. So a comparison to the byte is a trial: when one of its figures is not equal it
is made again, TRIALS times at most, and all figures of one trial must be equal. Writing 1 to
/proc/sys/vm/compact_memory five times a second makes most first trials fail.
"""

import os
import re
import sys
import time

from harness import (PAGE, Fixture, Tap, account_sum, memwhy, need_memwhy, scratch_dir,
                     smaps_rollup, verdict_order_errors)

MIB = 1 << 20
TRIALS = 8
FILES = 256 << 10  # of PSS: programs that come and go map the same libraries
CONTAINER = "3f2a9c017e4b8d60" + "a1c4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a"
OTHER = "3f2a9c017e4b8d60" + "b1c4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a"


class Trial(Tap):
    """Keeps its lines, to be printed by another one."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def _line(self, word, name, directive=""):
        self.lines.append((Tap._line, (word, name, directive)))

    def note(self, text):
        self.lines.append((Tap.note, (text,)))

    def print(self, tap):
        for method, words in self.lines:
            method(tap, *words)
        tap.failed += self.failed


def steady(tap, check, *args):
    """check(tap, *args), again while the kernel's figures are on the move; its result."""
    for last in range(1, TRIALS + 1):
        trial = Trial()
        result = check(trial, *args)
        if not trial.failed or last == TRIALS:
            trial.print(tap)
            return result
        time.sleep(0.05 * last)


def smaps(pid):
    """Mappings of pid: dicts of bytes, with start, end, perms and name."""
    rows = []
    with open(f"/proc/{pid}/smaps", encoding="utf-8", errors="replace") as file:
        for line in file:
            head = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)", line)
            if head:
                rows.append({"start": int(head[1], 16), "end": int(head[2], 16), "perms": head[3],
                             "name": head[4].strip()})
            elif line.rstrip().endswith(" kB"):
                key, value = line.split(":")
                rows[-1][key] = int(value.split()[0]) * 1024
    return rows


def forked_bytes(row):
    """Private anonymous bytes that others map, too."""
    if row["perms"].endswith("s"):
        return 0
    is_file = row["name"].startswith("/")
    shared = row["Shared_Dirty"] + (0 if is_file else row["Shared_Clean"])
    return min(shared, row["Anonymous"])


def find(verdicts, name):
    return next((verdict for verdict in verdicts if verdict["id"] == name), None)


def values(verdict):
    """The numbers of its evidence, in order."""
    return [item["value"] for item in verdict["evidence"]]


def members(truth):
    """pid -> pages of the block that are its own."""
    own = {truth["pid"]: truth["own_pages"]}
    own.update({child["pid"]: child["own_pages"] for child in truth["children"]})
    return own


def total(pids, key):
    return sum(smaps_rollup(pid)[key] for pid in pids)


# ---- one process ----


def check_kernel(tap, truth):
    """The truth is true: else nothing below means anything."""
    start = int(truth["address"], 16)
    for pid, own in members(truth).items():
        row = next(row for row in smaps(pid) if row["start"] <= start < row["end"])
        tap.equal((row["Private_Dirty"], row["Shared_Dirty"] + row["Shared_Clean"]),
                  (own * PAGE, (truth["pages"] - own) * PAGE), f"{pid}: the block, to the page")


def check_process(tap, pid, truth):
    own = members(truth)
    rows = smaps(pid)
    result = memwhy("report", pid, "--json")
    tap.equal((result.code, result.err), (0, ""), f"{pid}: report succeeds quietly")
    report = result.json()
    shared = sum(forked_bytes(row) for row in rows)
    copies = sum(row["Anonymous"] - forked_bytes(row) for row in rows if forked_bytes(row) > 0)
    verdict = find(report["verdicts"], "copy-on-write")
    if not tap.ok(verdict, f"{pid}: copy-on-write", report["verdicts"]):
        return
    tap.equal((verdict["class"], verdict["basis"], verdict["part_of"]), ("needed", "proven", None),
              f"{pid}: class and basis")
    wanted = (truth["pages"] - own[pid]) * PAGE + truth["small_bytes"]
    tap.close(verdict["bytes"], wanted, 512 << 10, f"{pid}: bytes are those of the blocks")
    tap.ok(verdict["bytes"] <= shared, f"{pid}: no more than the kernel has", verdict["bytes"])
    growth = total(own, "Anonymous") - total(own, "Pss_Anon")
    said = values(verdict)
    tap.equal(said[:3], [shared, 8, total(own, "Rss")], f"{pid}: shared bytes, processes, RSS")
    tap.close(said[3], total(own, "Pss"), FILES, f"{pid}: PSS")
    tap.equal(said[4:], [growth, copies], f"{pid}: what copies would cost, own copies")
    tap.equal([remedy["gain_high_bytes"] for remedy in verdict["remedies"]], [None, copies],
              f"{pid}: the gain is bounded by its own copies")
    tap.close(copies, own[pid] * PAGE, MIB, f"{pid}: which are the pages it wrote to")
    after = sum(forked_bytes(row) for row in smaps(pid))
    tap.equal(after, shared, f"{pid}: looking at it has copied nothing")
    tap.equal(account_sum(report), report["rss_bytes"], f"{pid}: the account is exact")
    tap.equal(verdict_order_errors(report["verdicts"]), [], f"{pid}: order of verdicts")
    inside = sum(verdict["bytes"] for verdict in report["verdicts"]
                 if verdict["part_of"] is None and verdict["class"] != "outside")
    tap.equal(inside, report["rss_bytes"], f"{pid}: each byte is charged once")


def check_private(tap):
    with Fixture("forked", "private") as fixture:
        truth = fixture.truth
        steady(tap, check_kernel, truth)
        children = [child["pid"] for child in truth["children"]]
        for pid in (truth["pid"], children[0], children[5]):
            steady(tap, check_process, pid, truth)
        text = memwhy("report", children[5]).out
        tap.ok(re.search(r"^NEEDED [0-9.]+ MiB  copy-on-write  \[proven\]", text, re.M),
               "the screen names it", text)
        plain = memwhy("report", children[5], "--json", "--no-heap").json()
        verdict = find(plain["verdicts"], "copy-on-write")
        tap.ok(verdict and verdict["bytes"] > 50 * MIB and plain["pauses"] == 0,
               "and without the heap", verdict)


def check_shared(tap):
    """The look-alike: a shared mapping of the same size, forked alike."""
    with Fixture("forked", "shared") as fixture:
        for pid in (fixture.truth["pid"], fixture.truth["children"][2]["pid"]):
            verdicts = memwhy("report", pid, "--json").json()["verdicts"]
            tap.ok(not find(verdicts, "copy-on-write"), f"shared {pid}: no copy-on-write", verdicts)
            tap.equal(verdicts[0]["id"], "shared-memory", f"shared {pid}: shared memory")


# ---- groups ----


def write(directory, name, text):
    os.makedirs(directory, exist_ok=True)
    with open(os.path.join(directory, name), "w", encoding="ascii") as file:
        file.write(f"{text}\n")


def tree_make(version, truth, path, extra=()):
    """A root with one group at path: the parent in it, the children in two groups below."""
    root = os.path.join(scratch_dir(), f"group{version}{len(os.listdir(scratch_dir()))}")
    group = os.path.join(root, "memory" if version == 1 else "", path.lstrip("/"))
    children = [child["pid"] for child in truth["children"]]
    write(group, "cgroup.procs", "\n".join(map(str, [truth["pid"], *extra])))
    write(os.path.join(group, "a"), "cgroup.procs", "\n".join(map(str, children[:3])))
    write(os.path.join(group, "a", "b"), "cgroup.procs", "\n".join(map(str, children[3:])))
    pids = [truth["pid"], *children]
    anon, mapped = total(pids, "Pss_Anon") + 3 * MIB, total(pids, "Pss_File") + MIB
    stat = {"anon": anon, "file": mapped + 200 * MIB, "active_file": 120 * MIB,
            "inactive_file": 80 * MIB + mapped, "file_mapped": mapped, "shmem": 2 * MIB}
    kernel, limit = 31 * MIB, 1009 * MIB
    usage = stat["anon"] + stat["file"] + kernel
    if version == 2:
        write(group, "memory.max", limit)
        write(group, "memory.current", usage)
        write(group, "memory.stat", "\n".join(f"{key} {value}" for key, value in
                                              {**stat, "kernel": kernel, "sock": 0}.items()))
    else:
        names = {"anon": "total_rss", "file": "total_cache", "file_mapped": "total_mapped_file"}
        write(group, "memory.limit_in_bytes", limit)
        write(group, "memory.usage_in_bytes", usage)
        write(group, "memory.kmem.usage_in_bytes", kernel)
        write(group, "memory.stat", "\n".join(f"{names.get(key, 'total_' + key)} {value}"
                                              for key, value in stat.items()))
    return root, {**stat, "kernel": kernel, "usage": usage, "limit": limit}


def check_group_figures(tap, label, group, truth, stat, path):
    pids = list(members(truth))
    figures = {pid: smaps_rollup(pid) for pid in pids}
    tap.equal(group["schema"], "memwhy.group/1", f"{label}: schema")
    cgroup = group["cgroup"]
    tap.equal([cgroup["path"], cgroup["limit_path"], cgroup["usage_bytes"], cgroup["limit_bytes"],
               cgroup["anon_bytes"], cgroup["file_bytes"], cgroup["kernel_bytes"]],
              [path, path, stat["usage"], stat["limit"], stat["anon"], stat["file"],
               stat["kernel"]], f"{label}: the cgroup's own figures")
    tap.equal([group["cgroups"], group["process_count"], group["read_count"],
               group["hidden_count"], cgroup["processes"]], [3, 8, 8, 0, 8], f"{label}: counts")
    sums = {"rss_bytes": "Rss", "pss_bytes": "Pss", "pss_anon_bytes": "Pss_Anon",
            "pss_file_bytes": "Pss_File", "pss_shmem_bytes": "Pss_Shmem",
            "anonymous_bytes": "Anonymous"}
    for field, key in sums.items():
        tap.close(group[field], sum(figures[pid][key] for pid in pids),
                  FILES if key in ("Pss", "Pss_File") else 0, f"{label}: sum of {key}")
    tap.equal(group["anon_difference_bytes"], stat["anon"] - group["pss_anon_bytes"],
              f"{label}: anonymous memory that is in no process")
    tap.equal(group["file_difference_bytes"],
              stat["file_mapped"] - group["pss_file_bytes"] - group["pss_shmem_bytes"],
              f"{label}: mapped files")
    tap.equal(group["unmapped_file_bytes"], stat["file"] - stat["file_mapped"],
              f"{label}: page cache that nobody maps")
    rows = group["processes"]
    tap.equal(rows, sorted(rows, key=lambda row: -row["pss_bytes"]), f"{label}: by PSS")
    tap.equal(sorted(row["pid"] for row in rows), sorted(pids), f"{label}: each process once")
    tap.equal([(row["rss_bytes"], row["pss_anon_bytes"], row["private_bytes"]) for row in rows],
              [(figures[row["pid"]]["Rss"], figures[row["pid"]]["Pss_Anon"],
                figures[row["pid"]]["Private_Clean"] + figures[row["pid"]]["Private_Dirty"])
               for row in rows], f"{label}: figures of each")
    for row in rows:  # each is rounded down to 1 KiB
        parts = row["pss_anon_bytes"] + row["pss_file_bytes"] + row["pss_shmem_bytes"]
        tap.close(row["pss_bytes"], parts, 3 << 10, f"{label}: the parts of PSS add up")
    tap.ok(all(row["command"] == "forked" and row["threads"] == 1 and row["readable"]
               for row in rows), f"{label}: names", rows)


def check_group_verdicts(tap, label, group, stat):
    verdicts = group["verdicts"]
    tap.equal([(verdict["id"], verdict["class"]) for verdict in verdicts],
              [("page-cache", "outside"), ("copy-on-write", "needed")],
              f"{label}: verdicts about the group")
    forked = find(verdicts, "copy-on-write")
    tap.equal(forked["bytes"], group["anonymous_bytes"] - group["pss_anon_bytes"],
              f"{label}: what RSS counts more than once")
    tap.ok(forked["bytes"] > 380 * MIB, f"{label}: seven copies of nearly all", forked["bytes"])
    cache = stat["active_file"] + stat["inactive_file"] - stat["file_mapped"]
    tap.equal(find(verdicts, "page-cache")["bytes"], cache, f"{label}: page cache")
    worst = group["worst"]
    tap.equal(worst["schema"], "memwhy.report/1", f"{label}: the worst has a whole report")
    tap.equal(worst["target"]["pid"], group["processes"][0]["pid"], f"{label}: of the first")
    tap.equal(account_sum(worst), worst["rss_bytes"], f"{label}: its account is exact")
    tap.ok(worst["allocators"][0]["walked"], f"{label}: its heap was read")


def check_screen(tap, label, result, group):
    lines = result.out.splitlines()
    tap.equal([line for line in lines if len(line) > 100], [], f"{label}: at most 100 columns")
    text = " ".join(result.out.split())
    worst = group["worst"]["target"]["pid"]
    for part in ("8 processes in 3 cgroups", f"of 1,009.0 ({group['cgroup']['usage_bytes'] * 100}"
                 [:12], "3.0 is in none of them", "200.0 in no process", "nothing was paused",
                 f"WORST PID {worst}, forked", f"memwhy {worst} forked"):
        tap.ok(part in text, f"{label}: the screen says '{part}'", result.out)
    row = next((line.split() for line in lines if line.split()[:1] == ["sum"]), None)
    pss = f"{group['pss_bytes'] / MIB:,.1f}"
    tap.ok(row and row[1] == pss, f"{label}: the sum of PSS", f"{row}, wanted {pss}")


def check_target(tap, label, target, options, truth, stat, path):
    result = memwhy(target, "--json", *options)
    tap.equal((result.code, result.err), (0, ""), f"{label}: succeeds quietly")
    group = result.json()
    check_group_figures(tap, label, group, truth, stat, path)
    check_group_verdicts(tap, label, group, stat)


def check_screens(tap, label, target, options):
    group = memwhy(target, "--json", *options).json()
    result = memwhy(target, *options)
    tap.equal((result.code, result.err), (0, ""), f"{label}: the screen, too")
    check_screen(tap, label, result, group)


def check_group(tap, version):
    with Fixture("forked", "private") as fixture:
        truth = fixture.truth
        path = f"/docker/{CONTAINER}" if version == 1 else f"/box.slice/docker-{CONTAINER}.scope"
        root, stat = tree_make(version, truth, path)
        options = ("--cgroup-root", root)
        for target in (f"cgroup:{path}", CONTAINER[:12], f"containerd://{CONTAINER}"):
            steady(tap, check_target, f"v{version} {target[:20]}", target, options, truth, stat,
                   path)
        steady(tap, check_screens, f"v{version}", f"cgroup:{path}", options)
        plain = memwhy(f"cgroup:{path}", "--json", "--no-heap", *options).json()
        tap.equal(plain["worst"]["pauses"], 0, f"v{version}: --no-heap pauses nothing")
        part = memwhy(f"cgroup:{path}/a/b", "--json", *options).json()
        tap.equal((part["process_count"], part["cgroups"]), (4, 1), f"v{version}: a group below")
        tap.equal((part["cgroup"]["limit_bytes"], part["cgroup"]["limit_path"],
                   part["cgroup"]["usage_bytes"]), (stat["limit"], path, None),
                  f"v{version}: under the limit of the one above")


def check_gone(tap):
    """Members that are no more, that are seen twice, or that nobody can see."""
    with Fixture("forked", "private") as fixture:
        truth = fixture.truth
        with Fixture("forked", "shared") as other:
            gone = other.truth["pid"]
        root, _ = tree_make(2, truth, "/x", extra=[gone, truth["children"][0]["pid"]])
        result = memwhy("cgroup:/x", "--json", "--cgroup-root", root)
        tap.equal((result.code, result.json()["process_count"]), (0, 8),
                  "gone and doubled members are no matter")
        root, _ = tree_make(2, truth, "/x", extra=[0, 0])
        result = memwhy("cgroup:/x", "--json", "--cgroup-root", root)
        group = result.json()
        tap.equal((result.code, group["hidden_count"], group["process_count"]), (4, 2, 8),
                  "members of another pid namespace make the answer partial")
        tap.ok("2 processes" in group["partial"]["text"], "and it says why", group["partial"])
        tap.ok(group["worst"], "with the report of the worst that is seen")


def check_empty(tap):
    root = os.path.join(scratch_dir(), "empty")
    write(os.path.join(root, "x"), "cgroup.procs", "")
    write(os.path.join(root, "x"), "memory.current", 5 * MIB)
    result = memwhy("cgroup:/x", "--json", "--cgroup-root", root)
    group = result.json()
    tap.equal((result.code, group["processes"], group["worst"], group["pss_bytes"]),
              (0, [], None, None), "an empty group has an answer")
    text = memwhy("cgroup:/x", "--cgroup-root", root)
    tap.ok(text.code == 0 and "No process" in text.out, "and a screen", text.out)


def check_refusals(tap):
    """What needs one process names the worst; what is not there says so."""
    with Fixture("forked", "private") as fixture:
        truth = fixture.truth
        root, _ = tree_make(2, truth, f"/docker/{CONTAINER}")
        options = ("--cgroup-root", root)
        target = CONTAINER[:12]
        worst = memwhy(target, "--json", "--no-heap", *options).json()["processes"][0]["pid"]
        before = os.path.join(scratch_dir(), "before.json")
        with open(before, "w", encoding="utf-8") as file:
            file.write(memwhy(worst, "--json").out)
        for words, hint in (((target, "--markdown"), f"memwhy report {worst} --markdown"),
                            ((target, "--fail-if", "rss>0"), f"memwhy report {worst} --fail-if"),
                            (("heap", target), f"memwhy heap {worst}\n"),
                            (("maps", target), f"memwhy maps {worst}\n"),
                            (("pins", target), f"memwhy pins {worst}\n"),
                            (("trim", target, "--apply"), f"memwhy trim {worst}\n"),
                            (("verify", before, target), f"memwhy verify {before} {worst}\n")):
            result = memwhy(*words, *options)
            tap.equal((result.code, result.out), (2, ""), f"{words}: needs one process")
            tap.ok(f"hint: {hint}" in result.err and "group of 8" in result.err,
                   f"{words}: names the worst", result.err)
        write(os.path.join(root, "docker", OTHER), "cgroup.procs", "")
        result = memwhy(target, *options)
        tap.equal((result.code, result.out), (3, ""), "an ambiguous id")
        tap.ok("fits 2 containers" in result.err and CONTAINER[:18] in result.err
               and OTHER[:18] in result.err, "candidates are listed", result.err)
        for words, part in ((("cgroup:/nothing",), "there is no cgroup '/nothing'"),
                            (("cgroup:",), "needs a path"),
                            (("cgroup:/../x",), "no path of a cgroup"),
                            (("0123456789ab",), "there is no container '0123456789ab'"),
                            (("111111111111",), "there is no container '111111111111'"),
                            (("4194305",), "4194305")):
            result = memwhy(*words, *options)
            tap.equal((result.code, result.out), (3, ""), f"{words[0]}: exit 3")
            tap.ok(part in result.err, f"{words[0]}: says so", result.err)


def main():
    need_memwhy()
    tap = Tap()
    tap.guard("private", check_private, tap)
    tap.guard("shared", check_shared, tap)
    for version in (2, 1):
        tap.guard(f"v{version}", check_group, tap, version)
    tap.guard("gone", check_gone, tap)
    tap.guard("empty", check_empty, tap)
    tap.guard("refusals", check_refusals, tap)
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
