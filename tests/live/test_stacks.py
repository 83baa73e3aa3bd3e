#!/usr/bin/env python3
# timeout: 300
"""`memwhy stacks` on threads that stand in known functions, live and in cores.

  - live: the fixture's groups exactly, with its functions in its order, threads and names; the
    recursion frame by frame; the handler through the signal's frame; code made at run time by frame
    pointer, marked, and by its perf map, which is believed only from the target's own user
  - the same groups, at the same addresses, in gcore's core and in the kernel's
  - --symbols: a stripped copy of the fixture has no names of its own functions, with a directory of
    debug files it has them again, and one with another build-id is not believed; .gnu_debugdata
  - --lines against addr2line; --max-pause against the pauses that are told
  - real python3 and redis against gdb: the same functions in the same order
  - what is no process, and a process that is not ours
"""

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

from harness import (FIXTURES, Failure, Fixture, Skip, Tap, memwhy, need_memwhy, scratch_dir)
from test_cores import Script, core_of_kernel, gcore

PARTIAL = 4


def stacks(target, *options, code=None):
    result = memwhy("stacks", target, "--json", *options)
    if code is not None and result.code != code:
        raise Failure(f"stacks {target}: exit {result.code}, wanted {code}; {result.err[:300]}")
    return result.json()


def group_of(document, tid):
    found = [group for group in document["groups"] if tid in group["threads"]]
    return found[0] if found else {"threads": [], "frames": [], "names": []}


def functions(group):
    """Names of functions without offset and module; None for what has no symbol."""
    found = []
    for frame in group["frames"]:
        match = re.match(r"(.*?)(\+0x[0-9a-f]+)? \((.*)\)$", frame)
        found.append(match.group(1) if match else None)
    return found


def is_part(wanted, found):
    """Are the wanted names a run of the found ones?"""
    return any(found[i:i + len(wanted)] == wanted for i in range(len(found)))


def remove_perf_map(pid):
    try:
        os.unlink(f"/tmp/perf-{pid}.map")
    except FileNotFoundError:
        pass


# ---- the fixture ----


def check_groups(tap, fixture, document, source, has_names):
    truth = fixture.truth["groups"]
    for name, wanted in truth.items():
        group = group_of(document, wanted["tids"][0])
        tap.equal(group["threads"], sorted(wanted["tids"]),
                  f"{source}: {name} is one group of its threads")
        names = [text for text in wanted["functions"] if " " not in text or has_names]
        if name == "handler":
            names = names[:1]  # the signal's frames come between, see below
        found = [text for text in functions(group) if text is not None]
        tap.ok(is_part(names, found), f"{source}: {name} has its functions in order",
               f"{names} in {found[:9]}")
        if has_names:
            tap.equal(group["names"], [name], f"{source}: {name} has its threads' name")
    counts = [group["count"] for group in document["groups"]]
    tap.equal(counts, sorted(counts, reverse=True), f"{source}: the largest group is first")
    tap.equal(sum(counts), document["threads"], f"{source}: every thread is in one group")
    chain = functions(group_of(document, truth["chain"]["tids"][0]))
    tap.equal(chain.count("recurse"), fixture.truth["chain"], f"{source}: every recursion is there")
    deep = group_of(document, truth["deep"]["tids"][0])
    tap.ok(len(deep["frames"]) == 256 and not deep["is_whole"],
           f"{source}: the deep one is cut at 256 frames and says so", deep["end"])
    whole = [group["is_whole"] for group in document["groups"] if group is not deep]
    tap.ok(all(whole), f"{source}: all others are whole")
    tap.ok(any(row["kind"] == "stack-too-deep" for row in document["findings"]),
           f"{source}: that is a finding")
    handler = functions(group_of(document, truth["handler"]["tids"][0]))
    between = [handler.index(name) if name in handler else -1
               for name in ("on_signal", "raise", "handler_outer")]
    tap.ok(-1 not in between and between == sorted(between),
           f"{source}: through the signal's frame", handler)


def check_made(tap, fixture, document):
    if "made" not in fixture.truth["groups"]:
        return
    group = group_of(document, fixture.truth["groups"]["made"]["tids"][0])
    marked = [functions(group)[i] for i in group["by_frame_pointer"]]
    tap.equal(marked, ["made_outer"], "what the frame pointer found is marked, nothing else")
    others = [row for row in document["groups"] if row is not group]
    tap.ok(not any(row["by_frame_pointer"] for row in others), "no other frame needed it")


def check_perf_map_owner(tap, fixture):
    if os.geteuid() != 0 or "made" not in fixture.truth["groups"]:
        tap.skip("perf map of another user", "needs root")
        return
    tid = fixture.truth["groups"]["made"]["tids"][0]
    os.chown(f"/tmp/perf-{fixture.pid}.map", 65534, 65534)
    found = functions(group_of(stacks(fixture.pid), tid))
    tap.ok("made at run time" not in found and "made_outer" in found,
           "a perf map of another user is not believed", found)
    os.chown(f"/tmp/perf-{fixture.pid}.map", os.geteuid(), os.getegid())


def shape_of(document):
    return sorted((tuple(group["threads"]), tuple(group["addresses"]), group["is_whole"])
                  for group in document["groups"])


def test_fixture(tap):
    with Fixture("stacked") as fixture:
        try:
            live = stacks(fixture.pid, code=PARTIAL)
            check_groups(tap, fixture, live, "live", True)
            check_made(tap, fixture, live)
            check_perf_map_owner(tap, fixture)
            tap.ok(live["pauses"] >= 1 and live["longest_pause_seconds"] > 0,
                   "the pause is told", live["pauses"])
            for name, make in (("gcore", lambda: gcore(fixture.pid)),
                               ("the kernel's core", lambda: core_of_kernel(fixture))):
                try:
                    core = make()
                except Skip as why:
                    tap.skip(f"{name}: same groups", str(why))
                    continue
                document = stacks(core, code=PARTIAL)
                check_groups(tap, fixture, document, name, False)
                tap.equal(shape_of(document), shape_of(live), f"{name}: the groups of the process")
                os.unlink(core)
        finally:
            remove_perf_map(fixture.pid)


def test_mount_namespace(tap):
    """A program that is only in the target's own mount namespace."""
    place = os.path.join(scratch_dir(), "mounted")
    os.makedirs(place)
    if os.geteuid() != 0 or not shutil.which("unshare"):
        raise Skip("needs root and unshare (package util-linux)")
    text = f'mount -t tmpfs none {place} && cp {FIXTURES}/stacked {place} && ' \
           f'exec {place}/stacked {place}/truth'
    with subprocess.Popen(["unshare", "-m", "sh", "-c", text], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        if process.stdout.readline() != b"ready\n":
            raise Skip("no tmpfs may be mounted here")
        try:
            document = stacks(process.pid, code=PARTIAL)
            tap.equal(os.listdir(place), [], "its files are not here")
            group = max(document["groups"], key=lambda row: row["count"])
            tap.ok(is_part(["alpha_inner", "alpha_middle", "alpha_outer"], functions(group)),
                   "names from the target's mount namespace", group["frames"])
        finally:
            process.kill()
            process.wait(10)
            remove_perf_map(process.pid)


# ---- debug files ----


def tool(*words):
    if not shutil.which(words[0]):
        raise Skip(f"{words[0]} is not installed (package binutils)")
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def stripped(directory, mini=False):
    """A stripped copy of the fixture and its debug file; with .gnu_debugdata if mini."""
    program, debug = os.path.join(directory, "stacked"), os.path.join(directory, "full.debug")
    os.makedirs(directory)
    tool("objcopy", "--only-keep-debug", os.path.join(FIXTURES, "stacked"), debug)
    tool("strip", "-o", program, os.path.join(FIXTURES, "stacked"))
    if mini:
        small = os.path.join(directory, "mini")
        tool("objcopy", "-S", "--remove-section", ".comment", debug, small)
        tool("objcopy", "--strip-debug", debug, small)
        tool("xz", "-k", small)
        tool("objcopy", "--add-section", f".gnu_debugdata={small}.xz", program)
        os.unlink(debug)
    return program, debug


class Stacked:
    """A fixture program at a path of ours."""

    def __init__(self, program):
        self.truth_path = program + ".truth"
        self.process = subprocess.Popen([program, self.truth_path], stdout=subprocess.PIPE,
                                        cwd=scratch_dir())
        self.pid = self.process.pid
        self.process.stdout.readline()
        with open(self.truth_path, encoding="utf-8") as file:
            self.truth = json.load(file)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait(10)
        self.process.stdout.close()
        remove_perf_map(self.pid)

    def alpha(self, *options):
        return functions(group_of(stacks(self.pid, *options),
                                  self.truth["groups"]["alpha"]["tids"][0]))


def build_id(path):
    found = re.search(r"Build ID: ([0-9a-f]+)", tool("readelf", "-n", path))
    if not found:
        raise Skip("the compiler leaves no build-id")
    return found.group(1)


def test_symbols_dir(tap):
    root = os.path.join(scratch_dir(), "stripped")
    program, debug = stripped(root)
    wanted = ["alpha_inner", "alpha_middle", "alpha_outer"]
    number = build_id(program)
    copy = os.path.join(scratch_dir(), "whole")
    shutil.copy(os.path.join(FIXTURES, "stacked"), copy)
    with Stacked(copy) as target:
        whole = target.alpha()
    with Stacked(program) as target:
        bare = target.alpha()
        tap.ok("alpha_inner" not in bare and len(bare) == len(whole),
               "a stripped program: no names, and unwound all the same", bare)
        places = {"by build-id": f"a/.build-id/{number[:2]}/{number[2:]}.debug",
                  "by name": "b/stacked.debug", "by number": f"c/{number}.debug"}
        for how, place in places.items():
            path = os.path.join(root, place)
            os.makedirs(os.path.dirname(path))
            shutil.copy(debug, path)
            found = target.alpha("--symbols", os.path.join(root, place[0]))
            tap.ok(is_part(wanted, found), f"--symbols finds the debug file {how}", found)
        other = os.path.join(root, "d")
        os.makedirs(other)
        shutil.copy(os.path.join(FIXTURES, "storm"), os.path.join(other, "stacked.debug"))
        tap.ok("alpha_inner" not in target.alpha("--symbols", other),
               "a file of another build-id is not believed")
        size = os.path.getsize(debug)
        with open(debug, "rb") as file:
            whole = file.read()
        for part in range(1, 12):
            with open(os.path.join(other, "stacked.debug"), "wb") as file:
                file.write(whole[:size * part // 12])
            result = memwhy("stacks", target.pid, "--lines", "--symbols", other)
            tap.ok(result.code == PARTIAL and "alpha" in result.out,
                   f"a debug file cut at {part}/12 does no harm", f"{result.code} {result.err}")


def test_mini(tap):
    program, _ = stripped(os.path.join(scratch_dir(), "mini"), mini=True)
    with Stacked(program) as target:
        found = target.alpha()
        tap.ok(is_part(["alpha_inner", "alpha_middle", "alpha_outer"], found),
               ".gnu_debugdata names functions of a stripped program", found)


def test_lines(tap):
    with Fixture("stacked") as fixture:
        try:
            document = stacks(fixture.pid, "--lines")
        finally:
            remove_perf_map(fixture.pid)
        group = group_of(document, fixture.truth["groups"]["alpha"]["tids"][0])
        at = functions(group).index("alpha_inner")
        with open(f"/proc/{fixture.pid}/maps", encoding="utf-8") as file:
            base = next(int(line.split("-")[0], 16) for line in file if "/stacked" in line)
        address = int(group["addresses"][at], 16) - 1 - base
        said = tool("addr2line", "-e", fixture.path, hex(address)).split("\n")[0]
        wanted = os.path.basename(said.split(" ")[0])
        tap.equal(os.path.basename(group["lines"][at] or ""), wanted, "the line is addr2line's")
    result = memwhy("stacks", "--lines", "--help")
    tap.equal(result.code, 0, "--help")


# ---- another processor ----


def test_aarch64(tap):
    """qemu's core names no files and holds no code: frame pointers, checked with nm."""
    compiler, qemu = "aarch64-linux-gnu-gcc", "qemu-aarch64"
    for word, package in ((compiler, "gcc-aarch64-linux-gnu"), (qemu, "qemu-user")):
        if not shutil.which(word):
            raise Skip(f"{word} is not installed (package {package})")
    root = os.path.join(scratch_dir(), "aarch64")
    os.makedirs(root)
    sources = [os.path.join(os.path.dirname(__file__), "..", "fixtures", name)
               for name in ("stacked.c", "fx.c", "fx_io.c")]
    program = os.path.join(root, "stacked")
    tool(compiler, "-O2", "-g", "-pthread", "-D_GNU_SOURCE=", "-fno-omit-frame-pointer",
         *sources, "-o", program)
    with subprocess.Popen([qemu, "-L", "/usr/aarch64-linux-gnu", program, program + ".truth"],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=root) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGABRT)
        process.wait(60)
    cores = [name for name in os.listdir(root) if name.startswith("qemu_")]
    if not cores:
        raise Skip("qemu wrote no core here")
    with open(program + ".truth", encoding="utf-8") as file:
        truth = json.load(file)["groups"]
    document = stacks(os.path.join(root, cores[0]), code=PARTIAL)
    symbols = sorted((int(words[0], 16), words[2]) for words in
                     map(str.split, tool("nm", program).splitlines())
                     if len(words) == 3 and words[1] in "tT")
    for name in ("alpha", "beta"):
        group = group_of(document, truth[name]["tids"][0])
        offsets = [int(text, 16) - 0x5500000000 for text in group["addresses"]]
        found = [max(row for row in symbols if row[0] <= offset)[1]
                 for offset in offsets if 0 < offset < 0x10000]
        tap.equal(group["threads"], sorted(truth[name]["tids"]), f"aarch64: {name} is one group")
        tap.ok(is_part(truth[name]["functions"], found), f"aarch64: {name} by frame pointers",
               found)


# ---- many threads ----


MANY = """
import threading, time
threading.stack_size(1 << 18)
for i in range(397):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print(1, flush=True)
time.sleep(600)
"""


def test_many(tap):
    with Script(MANY) as target:
        time.sleep(.2)
        document = stacks(target.pid, code=0)
        tap.equal(document["threads"], 398, "every one of many threads")
        tap.ok(document["groups"][0]["count"] >= 390, "most are in one group",
               document["groups"][0]["count"])
        document = stacks(target.pid, "--max-pause", "1ms")
        tap.equal(document["threads"], 398, "--max-pause 1ms: every thread, in more stops")
        several = any(row["kind"] == "several-stops" for row in document["findings"])
        tap.equal(several, document["pauses"] > 1, "more than one stop is a finding")


# ---- real software ----


# Frames that stand on the stack: neither those of inlined functions nor the ones of tail calls that
# gdb adds from what debug information tells.
GDB_FRAMES = """
import gdb
for thread in gdb.selected_inferior().threads():
    thread.switch()
    frame = gdb.newest_frame()
    while frame:
        if frame.type() == gdb.NORMAL_FRAME:
            print("frame", thread.ptid[1], hex(frame.pc()), frame.name() or "??")
        frame = frame.older()
"""


def gdb_functions(pid):
    """tid -> [(address, function)]."""
    if not shutil.which("gdb"):
        raise Skip("gdb is not installed (package gdb)")
    script = os.path.join(scratch_dir(), "frames.py")
    with open(script, "w", encoding="ascii") as file:
        file.write(GDB_FRAMES)
    done = subprocess.run(["gdb", "-batch", "-nx", "-p", str(pid), "-x", script],
                          capture_output=True, text=True, timeout=120, check=False,
                          stdin=subprocess.DEVNULL, errors="replace")
    found = {}
    for line in done.stdout.splitlines():
        words = line.split(None, 3)
        if words[:1] == ["frame"]:
            found.setdefault(int(words[1]), []).append((int(words[2], 16), words[3]))
    if not found:
        raise Skip("gdb may not trace here: " + done.stderr[-200:])
    return found


def same_function(ours, gdbs):
    """Names of one address: aliases of glibc differ by prefixes and suffixes."""
    def bare(name):
        name = re.sub(r"\(.*", "", name).split("@")[0]
        return re.sub(r"^(_*GI_|_*libc_|_)+", "", name).replace("_impl", "")
    return gdbs == "??" or ours is None or bare(ours) == bare(gdbs)


def compare_with_gdb(tap, pid, what):
    ours = stacks(pid)
    gdbs = gdb_functions(pid)
    named, names, wrong = 0, 0, []
    for group in ours["groups"]:
        for tid in group["threads"]:
            rows = {int(text, 16): name
                    for text, name in zip(group["addresses"], functions(group))}
            if tid not in gdbs:
                wrong.append(f"gdb has no thread {tid}")
            for address, name in gdbs.get(tid, []):
                named += name != "??"
                if address not in rows:
                    wrong.append(f"{tid}: {name} at {address:x} is missing")
                elif not same_function(rows[address], name):
                    wrong.append(f"{tid}: {rows[address]} is {name}")
                else:
                    names += name != "??" and rows[address] is not None
    tap.ok(named > 0 and not wrong, f"{what}: every frame of gdb, by its name",
           "\n".join(wrong))
    tap.ok(names * 10 >= named * 9, f"{what}: nine of ten that gdb names have a name",
           f"{names} of {named}")


WAITING = """
import threading, time
def wait(): time.sleep(600)
for i in range(5):
    threading.Thread(target=wait, daemon=True).start()
time.sleep(.1)
print(1, flush=True)
time.sleep(600)
"""


def test_python(tap):
    with Script(WAITING) as target:
        time.sleep(.3)
        compare_with_gdb(tap, target.pid, "python3")


def test_redis(tap):
    if not shutil.which("redis-server"):
        raise Skip("redis-server is not installed (package redis-server)")
    socket = os.path.join(scratch_dir(), "redis.sock")
    with subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--hz", "1",
                           "--save", ""], stdout=subprocess.DEVNULL, cwd=scratch_dir()) as server:
        try:
            for _ in range(100):
                if os.path.exists(socket):
                    break
                time.sleep(.05)
            time.sleep(.3)
            compare_with_gdb(tap, server.pid, "redis")
        finally:
            server.kill()


# ---- what cannot be answered ----


def test_refused(tap):
    result = memwhy("stacks", "999999999")
    tap.ok(result.code == 3 and "memwhy: " in result.err, "no such process", result.err)
    smaps = b"00400000-00401000 r-xp 00000000 08:02 1 /bin/x\nSize: 4 kB\nRss: 4 kB\n"
    result = memwhy("stacks", "-", stdin=smaps)
    tap.ok(result.code in (3, 4) and result.out == "", "an smaps text has no stacks", result.err)
    if os.geteuid() == 0 and shutil.which("setpriv"):
        done = subprocess.run(["setpriv", "--reuid=65534", "--clear-groups", memwhy_path(),
                               "stacks", "1"], capture_output=True, text=True, check=False,
                              timeout=60)
        tap.ok(done.returncode == 3 and done.stdout == "", "a process of somebody else",
               done.stderr)


def memwhy_path():
    copy = os.path.join(scratch_dir(), "memwhy-copy")
    shutil.copy(os.environ.get("MEMWHY") or os.path.join(os.path.dirname(os.path.dirname(FIXTURES)),
                                                         "memwhy"), copy)
    os.chmod(copy, 0o755)
    return copy


def main():
    need_memwhy()
    tap = Tap()
    os.chdir(scratch_dir())
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    for name, test in (("fixture", test_fixture), ("mount namespace", test_mount_namespace),
                       ("--symbols", test_symbols_dir),
                       (".gnu_debugdata", test_mini), ("--lines", test_lines),
                       ("aarch64", test_aarch64), ("many threads", test_many),
                       ("python3", test_python), ("redis", test_redis), ("refused", test_refused)):
        tap.guard(name, test, tap)
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
