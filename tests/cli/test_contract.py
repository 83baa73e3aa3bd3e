#!/usr/bin/env python3
"""The JSON contract: names, types, null and not 0, sums that are exact, the order of verdicts.

Each command's document is checked whole: every member is there, in this order, with its type, and
nothing else. Then the arithmetic that the contract promises. Targets: fixtures, another allocator,
another libc, a static program, a core, smaps texts of many kernels, standard input, and a look
without the right to read memory.
"""
import glob
import json
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "live"))
import harness  # pylint: disable=wrong-import-position
from harness import Failure, Fixture, Skip, Tap, memwhy  # pylint: disable=wrong-import-position

LIBRARIES = "/usr/lib/x86_64-linux-gnu"
COUNT_MAX = 1 << 64
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
ADDRESS = re.compile(r"0x[0-9a-f]+\Z")
BASES = ("proven", "likely", "possible")
CATEGORIES = (
    "managed.heap managed.code managed.metadata malloc.in_use malloc.free malloc.metadata "
    "malloc.unsplit stack.main stack.threads file.text file.data file.mapped shared.memory device "
    "alias anon.other").split()
SETTINGS = re.compile(
    r"(MALLOC_|_RJEM_MALLOC_CONF|JE_MALLOC_CONF|GLIBC_TUNABLES|LD_PRELOAD|TCMALLOC_|MIMALLOC_|"
    r"JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|DOTNET_|COMPlus_|NODE_OPTIONS|UV_|PYTHON|"
    r"GO|RUBY_GC_|USE_ZEND_ALLOC|OMP_NUM_THREADS|OPENBLAS_NUM_THREADS)")
SECRET = "s3cret-4711"


# ---- types: each returns what is wrong, "" when nothing is ----


def is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def count(value):
    return "" if is_int(value) and 0 <= value < COUNT_MAX - 1 else f"no count: {value!r}"


def number(value):
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    return "" if good else f"no number: {value!r}"


def whole(value):
    return "" if is_int(value) else f"no integer: {value!r}"


def text(value):
    return "" if isinstance(value, str) and value else f"no text: {value!r}"


def flag(value):
    return "" if isinstance(value, bool) else f"no bool: {value!r}"


def time(value):
    return "" if isinstance(value, str) and TIME.match(value) else f"no time: {value!r}"


def address(value):
    return "" if isinstance(value, str) and ADDRESS.match(value) else f"no address: {value!r}"


def nullable(check):
    return lambda value: "" if value is None else check(value)


def one_of(*words):
    return lambda value: "" if value in words else f"{value!r} is none of {words}"


def same(wanted):
    return lambda value: "" if value == wanted else f"{value!r} is not {wanted!r}"


def many(check):
    def check_list(value):
        if not isinstance(value, list):
            return f"no list: {value!r}"
        problems = [f"[{at}]{check(item)}" for at, item in enumerate(value) if check(item)]
        return "; ".join(problems[:4])
    return check_list


def record(**members):
    """An object with these members in this order, no more and no fewer."""
    members = {name.rstrip("_"): check for name, check in members.items()}

    def check_object(value):
        if not isinstance(value, dict):
            return f"no object: {value!r}"
        if list(value) != list(members):
            extra, missing = set(value) - set(members), set(members) - set(value)
            return f": more {sorted(extra)}, missing {sorted(missing)}, or in another order"
        problems = [f".{name}: {members[name](item)}" for name, item in value.items()
                    if members[name](item)]
        return "; ".join(problems[:4])
    return check_object


def settings(value):
    if not isinstance(value, dict):
        return f"no object: {value!r}"
    return "; ".join(f"{name}={item!r}" for name, item in value.items()
                     if not SETTINGS.match(name) or not isinstance(item, str) or SECRET in item)


# ---- the contract ----

TARGET = record(
    kind=one_of("live", "core", "capture", "smaps"), pid=nullable(count), exe=nullable(text),
    arch=nullable(one_of("x86_64", "aarch64", "i386", "arm")), threads=nullable(count),
    cpus_online=nullable(count), cpus_allowed=nullable(count), cpu_quota=nullable(number),
    cgroup_limit_bytes=nullable(count), cgroup_bytes=nullable(count), started_at=nullable(time),
    env=nullable(settings))
CATEGORY = record(
    id=one_of(*CATEGORIES), rss_bytes=nullable(count), pss_bytes=nullable(count),
    swap_bytes=nullable(count), size_bytes=count, count=count, source=text)
PARAMETERS = record(
    mmap_threshold=count, trim_threshold=count, arena_max=count, no_dyn_threshold=flag,
    top_pad=count, arena_test=count, mmaps_max=count, tcache_count=count, tcache_max_bytes=count,
    thp_pagesize=count, hp_pagesize=count)
ALLOCATOR_MEMBERS = {
    "kind": text, "version": nullable(text), "walked": flag, "reconciled": flag,
    **{name: nullable(count) for name in (
        "arenas arena_limit heaps in_use_bytes in_use_count mmapped_bytes mmapped_count free_bytes "
        "free_count tcache_bytes fastbin_bytes top_bytes free_resident_bytes trimmable_bytes "
        "metadata_bytes skipped_bytes system_bytes sampled_arenas in_use_margin_bytes").split()},
    "parameters": nullable(PARAMETERS)}
RUNTIME = record(
    kind=one_of("dotnet", "jvm", "cpython", "go", "node"), version=nullable(text),
    heap_used_bytes=nullable(count), heap_committed_bytes=nullable(count),
    heap_rss_bytes=nullable(count), native_reported_bytes=nullable(count),
    direct_bytes=nullable(count), outside_runtime_rss_bytes=nullable(count))
CGROUP = record(
    version=one_of(1, 2), path=text, limit_bytes=nullable(count), limit_path=nullable(text),
    **{name: nullable(count) for name in (
        "high_bytes usage_bytes peak_bytes swap_bytes swap_limit_bytes anon_bytes "
        "file_bytes shmem_bytes active_file_bytes inactive_file_bytes file_mapped_bytes "
        "kernel_bytes slab_bytes slab_reclaimable_bytes slab_unreclaimable_bytes sock_bytes "
        "page_tables_bytes kernel_stack_bytes percpu_bytes hugetlb_bytes zswap_bytes oom_kills "
        "max_events").split()},
    cpu_quota=nullable(number), processes=nullable(count))
VERDICT = record(
    id=text, class_=one_of(*harness.CLASS_ORDER), basis=one_of(*BASES), bytes=count,
    part_of=nullable(text), minor=flag, summary=text,
    evidence=many(record(text=text, value=nullable(count), source=text)),
    ruled_out=many(record(id=text, why=text)),
    remedies=many(record(action=text, gain_low_bytes=nullable(count),
                         gain_high_bytes=nullable(count), basis=text, verify=text)))
FINDINGS = many(record(kind=text, count=count, first_address=nullable(address), bytes=count,
                       text=text))
PARTIAL = nullable(record(text=text, hint=nullable(text)))


def head(name):
    return {"schema": same(f"memwhy.{name}/1"), "memwhy_version": text, "taken_at": time,
            "target": TARGET}


TAIL = {"findings": FINDINGS, "partial": PARTIAL}
DOCUMENTS = {
    "report": record(
        **head("report"), pauses=count, paused_seconds=number, longest_pause_seconds=number,
        rss_bytes=nullable(count), peak_rss_bytes=nullable(count), swap_bytes=nullable(count),
        unknown_bytes=nullable(count), unknown_mappings=count, pss_bytes=nullable(count),
        anonymous_bytes=nullable(count), anon_huge_bytes=nullable(count),
        lazy_free_bytes=nullable(count), locked_bytes=nullable(count), categories=many(CATEGORY),
        allocators=many(record(**ALLOCATOR_MEMBERS)), runtimes=many(RUNTIME),
        cgroup=nullable(CGROUP), verdicts=many(VERDICT), peak=nullable(text), was=nullable(text),
        container=nullable(text), known=many(text), **TAIL),
    "heap": record(
        **head("heap"),
        allocators=many(record(**ALLOCATOR_MEMBERS, arena_list=many(record(
            address=address, main=flag, heaps=count, system_bytes=count,
            in_use_bytes=nullable(count), in_use_count=nullable(count),
            free_bytes=nullable(count), free_count=nullable(count), tcache_bytes=nullable(count),
            fastbin_bytes=nullable(count), top_bytes=count, free_resident_bytes=nullable(count),
            trimmable_bytes=nullable(count), metadata_bytes=nullable(count),
            attached_threads=count,
            reconciled=flag)))),
        sizes=many(record(size_bytes=count, in_use_count=count, free_count=count,
                          usable_bytes=count, in_use_bytes=count, free_bytes=count)),
        content=many(record(kind=text, sampled_bytes=count)), **TAIL),
    "pins": record(
        **head("pins"),
        pins=many(record(heap=address, block=address, size_bytes=count, usable_bytes=count,
                         state=one_of("in-use", "tcache", "fastbin"),
                         distance_from_top_bytes=count, would_release_bytes=nullable(count),
                         content=text)),
        **TAIL),
    "trim": record(
        **head("trim"), predicted_bytes=nullable(count), applied=flag,
        anon_before_bytes=nullable(count), anon_after_bytes=nullable(count),
        actual_bytes=nullable(whole), call_seconds=nullable(number),
        arenas=many(record(address=address, free_resident_bytes=count, trimmable_bytes=count,
                           top_resident_bytes=count)),
        **TAIL),
    "maps": record(
        **head("maps"), rss_bytes=nullable(count),
        mappings=many(record(
            start=address, end=address, perms=text, name=nullable(text), owner=nullable(text),
            category=one_of(*CATEGORIES, "unknown"), size_bytes=count, rss_bytes=nullable(count),
            pss_bytes=nullable(count), swap_bytes=nullable(count),
            anon_huge_bytes=nullable(count), locked_bytes=nullable(count),
            lazy_free_bytes=nullable(count), is_part=flag)),
        **TAIL),
}
GROUP = record(
    schema=same("memwhy.group/1"), memwhy_version=text, taken_at=time, cgroup=CGROUP, cgroups=count,
    process_count=count, read_count=count, hidden_count=count,
    **{name: nullable(count) for name in (
        "rss_bytes pss_bytes pss_anon_bytes pss_file_bytes pss_shmem_bytes anonymous_bytes "
        "swap_pss_bytes").split()},
    anon_difference_bytes=nullable(whole), file_difference_bytes=nullable(whole),
    unmapped_file_bytes=nullable(count),
    processes=many(record(
        pid=count, pss_bytes=nullable(count), rss_bytes=count, pss_anon_bytes=nullable(count),
        pss_file_bytes=nullable(count), pss_shmem_bytes=nullable(count),
        private_bytes=nullable(count), swap_bytes=nullable(count), threads=count, readable=flag,
        command=text)),
    verdicts=many(VERDICT), worst=nullable(DOCUMENTS["report"]), partial=PARTIAL)


# ---- what the numbers promise ----


def total(rows, name):
    return sum(row[name] for row in rows)


def account_problems(report):
    """Every resident byte once; without residency no rss at all."""
    rows, problems = report["categories"], []
    if [row["id"] for row in rows] != CATEGORIES:
        problems.append("categories are not all there, in their order")
    if report["rss_bytes"] is None:
        known = [row["id"] for row in rows
                 if (row["rss_bytes"], row["pss_bytes"], row["swap_bytes"]) != (None, None, None)]
        known += [name for name in ("unknown_bytes", "swap_bytes", "pss_bytes")
                  if report[name] is not None]
        return problems + [f"known without residency: {known}"] * bool(known)
    if total(rows, "rss_bytes") + report["unknown_bytes"] != report["rss_bytes"]:
        problems.append("categories and unknown are not RSS")
    for name in ("pss_bytes", "swap_bytes"):
        parts = {row[name] is None for row in rows}
        if parts != {report[name] is None}:
            problems.append(f"{name}: some rows know it and some do not")
        elif report[name] is not None and total(rows, name) > report[name]:
            problems.append(f"{name}: the rows are more than the whole")
    return problems


def verdict_problems(report):
    verdicts, rss = report["verdicts"], report["rss_bytes"]
    problems = harness.verdict_order_errors(verdicts)
    ids = [verdict["id"] for verdict in verdicts]
    tops = {verdict["id"]: verdict for verdict in verdicts if verdict["part_of"] is None}
    if len(ids) != len(set(ids)) or not ids or ids[-1] != "unknown":
        problems.append(f"ids are not unique, or unknown is not last: {ids}")
    charged = sum(verdict["bytes"] for verdict in tops.values() if verdict["class"] != "outside")
    if rss is not None:
        # What was recognised and not looked into is charged to no verdict: it has an owner.
        unread = next(row["rss_bytes"] for row in report["categories"]
                      if row["id"] == "malloc.unsplit")
        if charged > rss:
            problems.append(f"verdicts hold {charged} of {rss}")
        if verdicts[-1]["bytes"] != report["unknown_bytes"]:
            problems.append("the verdict unknown is not unknown_bytes")
        # Who shares it may be known all the same.
        forked = tops.get("copy-on-write", {"bytes": 0})["bytes"]
        if charged - forked + unread > rss:
            problems.append(f"verdicts {charged} and unread {unread} are more than {rss}")
    for verdict in verdicts:
        problems += one_verdict_problems(verdict, tops, report)
    return problems


def one_verdict_problems(verdict, tops, report):
    name, rss, problems = verdict["id"], report["rss_bytes"], []
    if verdict["part_of"] is not None and verdict["part_of"] not in tops:
        problems.append(f"{name}: part of {verdict['part_of']}, which is not there")
    if rss is not None and verdict["minor"] != (verdict["bytes"] < 1 << 20 and
                                                verdict["bytes"] * 50 < rss):
        problems.append(f"{name}: minor is {verdict['minor']} at {verdict['bytes']} of {rss}")
    if {item["id"] for item in verdict["ruled_out"]} & {
            other["id"] for other in report["verdicts"] if not other["minor"]}:
        problems.append(f"{name}: rules out what holds")
    for remedy in verdict["remedies"]:
        low, high = remedy["gain_low_bytes"], remedy["gain_high_bytes"]
        where = f"{name}: {remedy['action']}"
        if (low is None) != (high is None):
            problems.append(f"{where}: half a gain")
        elif low is None and not re.search(
                r"not predictable|no gain|not known here|experiment|reclaimable", remedy["basis"]):
            problems.append(f"{where}: neither a gain nor why there is none: {remedy['basis']}")
        elif low is not None and low > high:
            problems.append(f"{where}: {low} is more than {high}")
        elif low is not None and rss is not None and verdict["class"] != "outside" and high > rss:
            problems.append(f"{where}: gives {high} of {rss}")
    texts = [verdict["summary"], *(item["text"] for item in verdict["evidence"]),
             *(item["why"] for item in verdict["ruled_out"])]
    problems += [f"{name}: {line}" for line in texts
                 if re.search(r"18,446,744|1844674|\bnan\b|\binf\b|\(null\)|-nan", line)]
    return problems


def allocator_problems(document):
    problems = []
    for one in document["allocators"]:
        figures = [one[name] for name in ALLOCATOR_MEMBERS
                   if name not in ("kind", "version", "walked", "reconciled", "arena_limit",
                                   "sampled_arenas", "in_use_margin_bytes",
                                   "free_resident_bytes", "trimmable_bytes")]
        lacks_mp = any(finding["kind"] == "mp-not-found" for finding in document["findings"])
        if lacks_mp:  # of one allocator at least
            figures = [one[name] for name in ("in_use_bytes", "free_bytes", "system_bytes")]
        if not one["walked"]:
            if any(figure is not None for figure in figures) or one["reconciled"]:
                problems.append(f"{one['kind']}: figures without a walk")
            continue
        if None in figures:
            problems.append(f"{one['kind']}: a walk without a figure")
            continue
        if (one["in_use_bytes"] + one["free_bytes"] + one["metadata_bytes"] +
                one["skipped_bytes"] != one["system_bytes"]):
            problems.append(f"{one['kind']}: the parts are not system_bytes")
        if (one["mmapped_bytes"] or 0) > one["in_use_bytes"] or (
                one["tcache_bytes"] + one["fastbin_bytes"] + one["top_bytes"] > one["free_bytes"]):
            problems.append(f"{one['kind']}: a part is more than its whole")
        resident, trimmable = one["free_resident_bytes"], one["trimmable_bytes"]
        if (resident is None) != (trimmable is None) or (
                resident is not None and not trimmable <= resident <= one["free_bytes"]):
            problems.append(f"{one['kind']}: {trimmable} trimmable of {resident} resident")
    return problems


def heap_problems(document):
    problems = allocator_problems(document)
    for one in document["allocators"]:
        arenas = one["arena_list"]
        if one["walked"] and (one["arenas"] != len(arenas) or not arenas[0]["main"]):
            problems.append(f"{one['kind']}: {one['arenas']} arenas, {len(arenas)} listed")
        for arena in arenas:
            if (arena["in_use_bytes"] + arena["free_bytes"] + arena["metadata_bytes"] >
                    arena["system_bytes"]):
                problems.append(f"arena {arena['address']}: the parts are more than the whole")
    sizes = [row["size_bytes"] for row in document["sizes"]]
    walked = [one for one in document["allocators"] if one["walked"]]
    if sizes != sorted(set(sizes)):
        problems.append("sizes do not ascend")
    for name in ("in_use_bytes", "in_use_count"):
        if total(document["sizes"], name) != total(walked, name):
            problems.append(f"sizes: {name} is not that of the allocators")
    return problems


def trim_problems(document):
    drop = document["actual_bytes"]
    if document["applied"] and drop != document["anon_before_bytes"] - document["anon_after_bytes"]:
        return ["the drop is not before less after"]
    if not document["applied"] and (drop, document["anon_after_bytes"]) != (None, None):
        return ["a result without a run"]
    if document["predicted_bytes"] is None:
        return ["no prediction and no reason"] * (document["partial"] is None)
    if document["predicted_bytes"] != total(document["arenas"], "trimmable_bytes"):
        return ["the prediction is not the sum over arenas"]
    return []


def maps_problems(document):
    rows, problems = document["mappings"], []
    ranges = [(int(row["start"], 16), int(row["end"], 16)) for row in rows]
    if harness.Spans(ranges).overlaps() or ranges != sorted(ranges):
        problems.append("mappings overlap, or do not ascend")
    if any(end - start != row["size_bytes"] for (start, end), row in zip(ranges, rows)):
        problems.append("a size is not end less start")
    if document["rss_bytes"] is not None and total(rows, "rss_bytes") != document["rss_bytes"]:
        problems.append("the rows are not RSS")
    return problems


PROBLEMS = {
    "report": lambda document: account_problems(document) + verdict_problems(document) +
    allocator_problems(document),
    "heap": heap_problems, "pins": lambda document: [], "trim": trim_problems,
    "maps": maps_problems}


# ---- targets ----


def document_of(tap, name, command, words, codes, **more):
    """One command's JSON; None when there is none."""
    done = memwhy(command, *words, "--json", **more)
    if not tap.ok(done.code in codes, f"{name}: {command} exits with one of {codes}",
                  f"{done.code}: {done.err}"):
        return None
    document = done.json()
    problem = DOCUMENTS[command](document)
    if not tap.ok(not problem, f"{name}: {command} has the members and types of the contract",
                  problem):
        return None
    problems = PROBLEMS[command](document)
    tap.ok(not problems, f"{name}: {command} keeps what its numbers promise", "\n".join(problems))
    tap.ok((document["partial"] is not None) == (done.code == 4),
           f"{name}: {command} is partial when its exit code says so", done.code)
    return document


def check_all(tap, name, words, kind, commands=tuple(DOCUMENTS), codes=(0,), **more):
    documents = {}
    for command in commands:
        documents[command] = document_of(tap, name, command, words, codes, **more)
        if documents[command]:
            tap.equal(documents[command]["target"]["kind"], kind, f"{name}: {command}: the kind")
    return documents


def check_live(tap, name, pid, trim_codes=(0,), heap_codes=(0,)):
    """heap_codes: of the commands that ask for malloc's inside."""
    documents = check_all(tap, name, [pid], "live", ("report", "maps"))
    documents |= check_all(tap, name, [pid], "live", ("heap", "pins"), heap_codes)
    check_all(tap, name, [pid], "live", ("trim",), trim_codes)
    report = documents["report"]
    if not report:
        return documents
    target = report["target"]
    status = harness.status(pid)
    tap.equal(target["pid"], pid, f"{name}: the pid")
    tap.equal(target["exe"], os.readlink(f"/proc/{pid}/exe"), f"{name}: the program")
    tap.equal(target["threads"], int(status["Threads"]), f"{name}: threads")
    tap.equal(target["cpus_allowed"], bin(int(status["Cpus_allowed"].replace(",", ""), 16))
              .count("1"), f"{name}: CPUs allowed")
    tap.ok(report["rss_bytes"] == harness.smaps_rollup(pid)["Rss"], f"{name}: RSS is the kernel's",
           report["rss_bytes"])
    pauses = (report["pauses"], report["paused_seconds"], report["longest_pause_seconds"])
    tap.ok(pauses[2] <= pauses[1] and (pauses[0] > 0) == (pauses[1] > 0),
           f"{name}: pauses agree with each other", pauses)
    return documents


def fixture_targets(tap):
    shapes = (("state", "trimmable-free"), ("state", "arena-proliferation"),
              ("state", "fragmentation"), ("state", "heap-top-pinned"),
              ("state", "adaptive-mmap-threshold"), ("state", "thread-stacks"),
              ("state", "file-maps"), ("state", "shared-memory"), ("state", "native-leak"),
              ("state", "growth"))
    for program, shape in shapes:
        def one(program=program, shape=shape):
            secrets = {"PGPASSWORD": SECRET, "JAVA_TOOL_OPTIONS": f"-Dpassword={SECRET}",
                       "NODE_OPTIONS": f"--title={SECRET}", "LD_PRELOAD": "",
                       "MALLOC_TOP_PAD_": "131072", "API_TOKEN": SECRET}
            with Fixture(program, shape, env=secrets) as target:
                documents = check_live(tap, shape, target.pid)
                env = documents["report"]["target"]["env"]
                tap.equal(env.get("MALLOC_TOP_PAD_"), "131072", f"{shape}: settings are there")
                texts = [memwhy("report", target.pid, *words).out
                         for words in ((), ("--json",), ("--markdown",), ("--all",))]
                tap.ok(not any(SECRET in text for text in texts), f"{shape}: no secret is printed")
                tap.ok(os.path.dirname(target.truth_path) not in texts[2],
                       f"{shape}: the Markdown names no file", texts[2])
        tap.guard(shape, one)


def applied_trim(tap):
    with Fixture("state", "trimmable-free") as target:
        document = document_of(tap, "trim --apply", "trim", [target.pid, "--apply"], (0, 4))
        if document and document["applied"]:
            tap.close(document["actual_bytes"], document["predicted_bytes"],
                      document["predicted_bytes"] // 500, "trim --apply: what was predicted")


def other_allocators(tap):
    for library in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"):
        path = os.path.join(LIBRARIES, library)
        if not os.path.exists(path):
            tap.skip(library, "not installed")
            continue

        def one(path=path, library=library):
            with Sleeping([sys.executable, "-c", PROGRAM], {"LD_PRELOAD": path}) as pid:
                documents = check_live(tap, library, pid, heap_codes=(0, 4))
                kinds = [one["kind"] for one in documents["report"]["allocators"]
                         if not one["walked"]]
                tap.equal(kinds, [re.sub(r"^lib(\w+?)(_minimal)?\.so.*", r"\1", library)],
                          f"{library}: is named")
                for command in ("report", "heap", "pins"):
                    screen = memwhy(command, pid).out
                    tap.ok("no live block" not in screen and not re.search(
                        "memwhy (pins|trim|heap) ", screen.split("NEXT", 1)[1]),
                        f"{library}: {command} says nothing of what was not read", screen)
                done = memwhy(pid, "--fail-if", "leaked>0", "--fail-if", "trimmable>0")
                tap.equal(done.code, 4, f"{library}: what was not looked into decides no gate")
        tap.guard(library, one)


PROGRAM = ("import time\nkept = [bytes(n * 7) for n in range(3000)]\n"
           "print('ready', flush=True)\ntime.sleep(600)\n")
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{
    for (int i = 0; i < 20000; i++) {
        char *block = malloc(300);
        memset(block, 1, 300);
        if (i % 2)
            free(block);
    }
    puts("ready");
    fflush(stdout);
    pause();
}
"""


class Sleeping:
    """A program that says ready and sleeps; its pid."""

    def __init__(self, words, env=None):
        self.words, self.env = words, env or {}

    def __enter__(self):
        self.child = subprocess.Popen(self.words, stdout=subprocess.PIPE,
                                      env={"PATH": os.environ["PATH"], **self.env})
        if self.child.stdout.readline() != b"ready\n":
            self.__exit__()
            raise Failure(f"{self.words[0]} did not start")
        return self.child.pid

    def __exit__(self, *_):
        self.child.kill()
        self.child.stdout.close()
        self.child.wait(20)


def other_libraries(tap):
    source = os.path.join(harness.scratch_dir(), "small.c")
    with open(source, "w", encoding="ascii") as file:
        file.write(SOURCE)
    for name, compiler in (("static", ["gcc", "-static"]), ("musl", ["musl-gcc"]),
                           ("static musl", ["musl-gcc", "-static"])):
        def one(name=name, compiler=compiler):
            program = os.path.join(harness.scratch_dir(), name.replace(" ", "-"))
            try:
                subprocess.run([*compiler, "-o", program, source], check=True,
                               capture_output=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise Skip(f"cannot build with {compiler[0]}") from error
            with Sleeping([program]) as pid:
                check_live(tap, name, pid, (4,) if "musl" in name else (0,))
                tap.equal(memwhy(pid, "--fail-if", "leaked>1GiB").code, 0,
                          f"{name}: a gate is decided where the heap was read")
        tap.guard(name, one)


def core_target(tap, shape):
    with Fixture("state", shape) as target:
        live = memwhy("report", target.pid, "--json").json()
        prefix = os.path.join(harness.scratch_dir(), "core")
        try:
            subprocess.run(["gcore", "-o", prefix, str(target.pid)], check=True, timeout=120,
                           capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Skip("gcore (of gdb) cannot be run") from error
    # No residency, so no prediction: that part of the question stays unanswered.
    documents = check_all(tap, "core", [f"{prefix}.{target.pid}"], "core",
                          ("report", "heap", "maps"))
    documents |= check_all(tap, "core", [f"{prefix}.{target.pid}"], "core", ("pins", "trim"),
                           codes=(4,))
    screen = memwhy("pins", f"{prefix}.{target.pid}")
    tap.ok(screen.code == 4 and "which pages are resident is not known" in screen.out
           and "no live block" not in screen.out, "core: nor of what pins keep", screen.out)
    report = documents["report"]
    tap.equal(report["rss_bytes"], None, "core: RSS is not known")
    tap.equal(report["pauses"], 0, "core: nothing was paused")
    for name in ("in_use_bytes", "in_use_count", "free_bytes", "system_bytes", "arenas"):
        tap.equal(report["allocators"][0][name], live["allocators"][0][name], f"core: {name}")
    said = json.dumps([[verdict["summary"], verdict["evidence"], verdict["ruled_out"]]
                       for verdict in report["verdicts"]])
    tap.ok(not re.search(r"malloc_trim(\(0\))? would|still resident", said),
           "core: nothing is said of what is resident", said)


def smaps_targets(tap):
    for path in sorted(glob.glob(os.path.join(harness.TEXTS, "*.txt"))):
        name = os.path.basename(path)
        with open(path, "rb") as file:
            content = file.read()
        with open(path[:-3] + "json", encoding="ascii") as file:
            truth = json.load(file)
        codes = (0,) if truth["complete"] else (0, 4)
        documents = check_all(tap, name, [path], "smaps", ("report", "maps"), codes)
        check_all(tap, name, [path], "smaps", ("trim",), (4,))
        report = documents["report"]
        if not report:
            continue
        tap.equal(report["rss_bytes"], truth["rss_bytes"], f"{name}: RSS")
        tap.equal(report["swap_bytes"], truth["swap_bytes"], f"{name}: swap")
        piped = memwhy("report", "-", "--json", stdin=content).json()
        for document in (piped, report):
            document.pop("taken_at")
        tap.equal(piped, report, f"{name}: the same on standard input")


def without_rights(tap):
    """Root that may not trace: capabilities are dropped, the target is another user's."""
    if os.geteuid() != 0:
        raise Skip("needs root to drop rights")
    with Fixture("state", "trimmable-free") as target:
        done = subprocess.run(
            ["setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace",
             harness.MEMWHY, str(target.pid), "--json"], capture_output=True, check=False,
            timeout=60)
        if done.returncode not in (3, 4):
            raise Skip(f"setpriv does not take the right away: exit {done.returncode}")
    if done.returncode == 3:
        tap.ok(not done.stdout, "without rights: nothing at all")
        return
    report = json.loads(done.stdout)
    problem = DOCUMENTS["report"](report)
    tap.ok(not problem, "without rights: the same contract", problem)
    problems = PROBLEMS["report"](report)
    tap.ok(not problems, "without rights: the same promises", "\n".join(problems))
    tap.ok(report["partial"] is not None, "without rights: says so")


def mapping_level(tap):
    """--no-heap is what remains without the right to read: the same screen at mapping level."""
    with Fixture("state", "arena-proliferation") as target:
        document = document_of(tap, "--no-heap", "report", [target.pid, "--no-heap"], (0, 4))
        tap.equal(document["pauses"], 0, "--no-heap: nothing was paused")
        kept = [verdict["id"] for verdict in document["verdicts"]
                if verdict["class"] in ("leaked", "growing", "kept")]
        tap.equal(kept, [], "--no-heap: nothing is said of the inside of malloc")


def group_targets(tap):
    """Forked processes as a cgroup: a document of its own with a whole report in it."""
    root = os.path.join(harness.scratch_dir(), "cgroups")
    os.makedirs(os.path.join(root, "x"))
    with Fixture("forked", "private") as target:
        pids = [target.pid, *(child["pid"] for child in target.truth["children"])]
        check_live(tap, "forked", pids[3])
        document_of(tap, "forked --no-heap", "report", [pids[3], "--no-heap"], (0,))
        with open(os.path.join(root, "x", "cgroup.procs"), "w", encoding="ascii") as file:
            file.write("".join(f"{pid}\n" for pid in pids))
        for extra in ({}, {"memory.current": "500000000\n",
                           "memory.stat": "anon 4096\nfile 400000000\nactive_file 390000000\n"}):
            for name, content in extra.items():
                with open(os.path.join(root, "x", name), "w", encoding="ascii") as file:
                    file.write(content)
            group = memwhy("cgroup:/x", "--json", "--cgroup-root", root).json()
            problem = GROUP(group)
            tap.ok(not problem, "group: the members and types of the contract", problem)
            problems = PROBLEMS["report"](group["worst"])
            tap.ok(not problems, "group: the report keeps its promises", "\n".join(problems))
            tap.equal(harness.verdict_order_errors(group["verdicts"]), [], "group: order")


def main():
    harness.need_memwhy()
    tap = Tap()
    fixture_targets(tap)
    for name, group in (("trim --apply", applied_trim), ("allocators", other_allocators),
                        ("libraries", other_libraries), ("smaps", smaps_targets),
                        ("rights", without_rights), ("mapping level", mapping_level),
                        ("groups", group_targets)):
        tap.guard(name, group, tap)
    for shape in ("trimmable-free", "native-leak", "fragmentation"):
        tap.guard(f"core of {shape}", core_target, tap, shape)
    tap.done()


if __name__ == "__main__":
    main()
