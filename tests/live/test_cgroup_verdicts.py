#!/usr/bin/env python3
"""A container at its limit whose process is small: who holds it, from a cgroup made by hand.

A directory stands for /sys/fs/cgroup (`--cgroup-root`), in the form of cgroup v2 and of v1. The
target is a small healthy process; the group around it is filled by the kernel, by file cache or by
another process. The report must say that it is not this process, with the bytes of the files.
"""

import os
import sys

from harness import Fixture, Tap, account_sum, memwhy, need_memwhy, scratch_dir

MIB = 1 << 20
LIMIT = 503 * MIB

# bytes of each figure, prime MiB; what is charged to nobody here is the process itself
GROUPS = {
    "kernel-memory": {"anon": 23 * MIB, "active_file": 2 * MIB, "inactive_file": 3 * MIB,
                      "slab": 443 * MIB, "slab_reclaimable": 401 * MIB, "sock": 5 * MIB,
                      "pagetables": 7 * MIB, "kernel_stack": 2 * MIB},
    "page-cache": {"anon": 23 * MIB, "active_file": 397 * MIB, "inactive_file": 61 * MIB,
                   "slab": 3 * MIB, "slab_reclaimable": 2 * MIB, "sock": 0, "pagetables": MIB,
                   "kernel_stack": MIB},
    "other-process": {"anon": 467 * MIB, "active_file": 2 * MIB, "inactive_file": 3 * MIB,
                      "slab": 3 * MIB, "slab_reclaimable": 2 * MIB, "sock": 0, "pagetables": MIB,
                      "kernel_stack": MIB},
}


def usage(group):
    return sum(group[key] for key in ("anon", "active_file", "inactive_file", "slab", "sock",
                                      "pagetables", "kernel_stack"))


def kernel(group):
    return sum(group[key] for key in ("slab", "sock", "pagetables", "kernel_stack"))


def write(directory, name, text):
    with open(os.path.join(directory, name), "w", encoding="ascii") as file:
        file.write(f"{text}\n")


def v2_make(root, path, group):
    """The files of cgroup v2 below root."""
    directory = os.path.join(root, path.lstrip("/"))
    os.makedirs(directory, exist_ok=True)
    write(root, "cgroup.controllers", "cpu memory")
    write(directory, "memory.max", LIMIT)
    write(directory, "memory.current", usage(group))
    write(directory, "memory.high", "max")
    stat = dict(group, file=group["active_file"] + group["inactive_file"],
                kernel=kernel(group) - group["sock"],
                slab_unreclaimable=group["slab"] - group["slab_reclaimable"], shmem=0,
                file_mapped=0)
    write(directory, "memory.stat", "\n".join(f"{key} {value}" for key, value in stat.items()))
    write(directory, "cgroup.procs", "1\n2\n3")
    return directory


def v1_make(root, path, group):
    """The files of the v1 memory controller below root/memory."""
    directory = os.path.join(root, "memory", path.lstrip("/"))
    os.makedirs(directory, exist_ok=True)
    write(directory, "memory.limit_in_bytes", LIMIT)
    write(directory, "memory.usage_in_bytes", usage(group))
    write(directory, "memory.kmem.usage_in_bytes", kernel(group))
    stat = {"hierarchical_memory_limit": LIMIT, "total_rss": group["anon"],
            "total_cache": group["active_file"] + group["inactive_file"],
            "total_active_file": group["active_file"],
            "total_inactive_file": group["inactive_file"], "total_mapped_file": 0}
    write(directory, "memory.stat", "\n".join(f"{key} {value}" for key, value in stat.items()))
    write(directory, "cgroup.procs", "1\n2\n3")
    return directory


def paths_of(pid):
    """The memory group's path by version: its v1 line, and the v2 one."""
    paths = {}
    with open(f"/proc/{pid}/cgroup", encoding="ascii") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == "":
                paths[2] = path
            elif "memory" in controllers.split(","):
                paths[1] = path
    return paths


def find(verdicts, identity):
    return next((verdict for verdict in verdicts if verdict["id"] == identity), None)


def check(tap, version, name, group):
    with Fixture("state", "healthy") as fixture:
        root = os.path.join(scratch_dir(), f"cgroup{version}-{name}")
        paths = paths_of(fixture.pid)
        path = paths.get(version, "/")
        (v2_make if version == 2 else v1_make)(root, path, group)
        label = f"v{version} {name}"
        result = memwhy("report", fixture.pid, "--json", "--cgroup-root", root)
        tap.equal(result.code, 0, f"{label}: report succeeds")
        report = result.json()
        tap.equal(account_sum(report), report["rss_bytes"], f"{label}: the account is exact")
        tap.equal(report["target"]["cgroup_limit_bytes"], LIMIT, f"{label}: limit")
        tap.equal(report["target"]["cgroup_bytes"], usage(group), f"{label}: usage")
        verdicts = report["verdicts"]
        if name == "other-process":
            tap.ok(not find(verdicts, "kernel-memory") and not find(verdicts, "page-cache"),
                   f"{label}: neither the kernel nor the cache is blamed", verdicts)
        else:
            first = verdicts[0]
            wanted = kernel(group) if name == "kernel-memory" else (
                group["active_file"] + group["inactive_file"])
            tap.equal(first["id"], name, f"{label}: first verdict")
            tap.equal(first["class"], "outside", f"{label}: class")
            tap.close(first["bytes"], wanted, 0 if name == "kernel-memory" else 8 * MIB,
                      f"{label}: bytes")
            look_alike = "page-cache" if name == "kernel-memory" else "kernel-memory"
            tap.ok(not find(verdicts, look_alike), f"{label}: no {look_alike}")
        text = memwhy("report", fixture.pid, "--cgroup-root", root).out
        tap.ok("this process is not what fills it" in " ".join(text.split()),
               f"{label}: the screen says that the process is not what fills it", text)


def main():
    need_memwhy()
    tap = Tap()
    for version in (2, 1):
        for name, group in GROUPS.items():
            tap.guard(f"v{version} {name}", check, tap, version, name, group)
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
