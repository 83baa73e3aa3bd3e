#!/usr/bin/env python3
# timeout: 600
"""--fork reads a frozen copy of the target: the same figures, one pause, and nothing left behind.

This test collects orphans, so that every copy ends here and can be counted. To look at a copy while
it lives, memwhy is stopped (SIGSTOP) as soon as there is one.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import tempfile
import time

from harness import (MEMWHY, PAGE, Failure, Fixture, Skip, Tap, account_sum, memwhy, need_memwhy,
                     scratch_dir, smaps_rollup, status)

FIELDS = ("arenas", "heaps", "in_use_bytes", "in_use_count", "free_bytes", "free_count",
          "tcache_bytes", "fastbin_bytes", "top_bytes", "mmapped_bytes", "mmapped_count",
          "free_resident_bytes", "trimmable_bytes", "metadata_bytes", "system_bytes", "reconciled")
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP = 36, 38, 22
libc = ctypes.CDLL(None, use_errno=True)


# ---- processes ----


def parents():
    """pid -> parent of every process."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                found[int(name)] = int(file.read().rsplit(b")", 1)[1].split()[1])
        except OSError:
            continue
    return found


def children(pid):
    return [one for one, parent in parents().items() if parent == pid]


class Orphans:
    """What came to us since the beginning: copies, killed."""

    def __init__(self):
        self.known = set(children(os.getpid()))

    def collect_ended(self):
        """Forgets those that have ended."""
        for pid in children(os.getpid()):
            if pid not in self.known:
                os.waitpid(pid, os.WNOHANG)

    def collect(self, seconds=5.0):
        """Collects those that have ended; the list of (pid, signal). Waits for the living."""
        ended, deadline = [], time.monotonic() + seconds
        while time.monotonic() < deadline:
            living = [pid for pid in children(os.getpid()) if pid not in self.known]
            for pid in living:
                got, state = os.waitpid(pid, os.WNOHANG)
                if got:
                    ended.append((pid, os.WTERMSIG(state) if os.WIFSIGNALED(state) else None))
            if not living:
                return ended
            time.sleep(0.002)
        raise Failure(f"copies live on: {living}")


class Held:
    """memwhy in the middle of reading a copy."""

    def __init__(self, pid):
        deadline = time.monotonic() + 30
        self.target, self.copy, self.said = pid, None, ""
        while not self.copy:
            if time.monotonic() > deadline:
                raise Failure("memwhy was never seen with a copy")
            self.process = subprocess.Popen([MEMWHY, "heap", str(pid), "--fork", "--list-blocks"],
                                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE)
            self.copy = self.find_copy()
            if not self.copy:
                self.finish()

    def find_copy(self):
        """Stops memwhy with a copy; None when it was too quick."""
        while self.process.poll() is None:
            for pid in children(os.getpid()):
                if self.is_copy(pid):
                    self.process.send_signal(signal.SIGSTOP)
                    time.sleep(0.05)
                    return pid if self.is_copy(pid) else None
        return None

    def is_copy(self, pid):
        """Stopped at birth, and held until it has given up its files and the target runs on."""
        try:
            now = status(pid)
            return (now["State"][0] == "t" and status(self.target)["TracerPid"] == "0" and os.listdir(f"/proc/{pid}/fd") == [] and
                    os.path.exists(f"/proc/{self.process.pid}/task/{now['TracerPid']}"))
        except (OSError, KeyError):
            return False

    def kill(self):
        self.process.kill()
        self.process.communicate(timeout=10)

    def finish(self):
        self.process.send_signal(signal.SIGCONT)
        out, said = self.process.communicate(timeout=60)
        self.said = said.decode("utf-8", "replace")
        return self.process.returncode, out


# ---- the same figures ----


def check_figures(tap, shape):
    orphans = Orphans()
    with Fixture("heapshape", shape) as fixture:
        orphans.known.add(fixture.pid)
        fixture.mapped_pages()
        quiet, rollup = fixture.mapped_pages(), smaps_rollup(fixture.pid)
        live = memwhy("heap", fixture.pid, "--json").json()
        result = memwhy("heap", fixture.pid, "--json", "--fork")
        tap.equal((result.code, result.err), (0, ""), f"{shape}: heap --fork succeeds quietly")
        fork = result.json()
        for field in FIELDS:
            tap.equal(fork["allocators"][0][field], live["allocators"][0][field],
                      f"{shape}: {field}")
        tap.ok(fork["sizes"] == live["sizes"], f"{shape}: the sizes")
        lists = [sorted(memwhy("heap", fixture.pid, "--list-blocks", *words).out.splitlines())
                 for words in ((), ("--fork",))]
        tap.ok(lists[0] and lists[0] == lists[1], f"{shape}: the same blocks")
        pins = [memwhy("pins", fixture.pid, "--json", *words).json()["pins"]
                for words in ((), ("--fork",))]
        tap.ok(pins[0] == pins[1], f"{shape}: the same pins")
        check_report(tap, shape, fixture.pid)
        changed = fixture.mapped_pages() ^ quiet
        tap.ok(len(changed) <= 2, f"{shape}: no page is mapped or lost but the signal frames'",
               changed)
        tap.close(smaps_rollup(fixture.pid)["Anonymous"], rollup["Anonymous"], 2 * PAGE,
                  f"{shape}: Anonymous stays")
        copies = orphans.collect()
        tap.ok(len(copies) >= 5 and {end for _, end in copies} == {signal.SIGKILL},
               f"{shape}: each copy was killed, none is left", copies)
        tap.equal(children(fixture.pid), [], f"{shape}: the target has no child")


def check_report(tap, shape, pid):
    live = memwhy("report", pid, "--json").json()
    fork = memwhy("report", pid, "--json", "--fork").json()
    tap.equal(account_sum(fork), fork["rss_bytes"], f"{shape}: the account is RSS")
    tap.equal(fork["rss_bytes"], live["rss_bytes"], f"{shape}: RSS is that of the target")
    tap.equal([(row["id"], row["rss_bytes"]) for row in fork["categories"]],
              [(row["id"], row["rss_bytes"]) for row in live["categories"]],
              f"{shape}: the categories")
    tap.equal(fork["pauses"], 1, f"{shape}: one pause")
    tap.ok(0 < fork["longest_pause_seconds"] == fork["paused_seconds"],
           f"{shape}: as long as it says", fork["paused_seconds"])
    maps = [[{**row, "pss_bytes": 0} for row in memwhy("maps", pid, "--json", *words).json()
             ["mappings"]] for words in ((), ("--fork",))]  # others map the same libraries
    tap.ok(maps[0] and maps[0] == maps[1], f"{shape}: the same maps",
           [(a, b) for a, b in zip(*maps) if a != b])


# ---- while the copy lives ----


PIPER = """
import os, sys, time
blocks = [bytearray(700) for _ in range(400000)]
read_end, write_end = os.pipe()
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("open"):
        out = os.open(line.split()[1], os.O_WRONLY)
    elif line.startswith("close"):
        os.close(out)
    elif line.startswith("wait"):
        try:
            print("wait", os.waitpid(-1, os.WNOHANG))
        except ChildProcessError:
            print("wait none")
    print("done", flush=True)
"""


class Python:
    """A python3 at work on PIPER or another program that says ready and answers lines."""

    def __init__(self, text, *before):
        self.process = subprocess.Popen([*before, sys.executable, "-c", text],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.process.stdout.readline().split()
        if not self.said or self.said[0] != "ready":
            self.end()
            raise Skip(" ".join(self.said) or "the target did not start")
        self.pid = int(self.said[1]) if len(self.said) > 1 else self.process.pid

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        lines = []
        while not lines or lines[-1] != "done":
            lines.append(self.process.stdout.readline().strip())
            if lines[-1] == "":
                raise Failure("the target has ended")
        return lines[:-1]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        self.process.stdin.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def check_alive(tap):
    """The copy holds no file, is no child, and dies with memwhy."""
    fifo = os.path.join(scratch_dir(), "fifo")
    os.mkfifo(fifo)
    with Python(PIPER) as target:
        orphans = Orphans()
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        target.ask(f"open {fifo}")
        held = Held(target.pid)
        orphans.collect_ended()
        tap.ok(held.copy != target.pid, "there is a copy without open files", held.copy)
        tap.equal(children(target.pid), [], "it is no child of the target")
        tap.equal(target.ask("wait"), ["wait none"], "which has nobody to wait for")
        tap.equal(status(target.pid)["TracerPid"], "0", "and is not traced")
        target.ask("close")
        poll = select.poll()
        poll.register(reader)
        tap.ok(poll.poll(2000) and os.read(reader, 1) == b"",
               "a pipe that the target closes is closed")
        os.close(reader)
        held.kill()
        tap.equal(orphans.collect(2.0), [(held.copy, signal.SIGKILL)],
                  "memwhy is killed: so is the copy")
        held = Held(target.pid)
        orphans.collect_ended()
        code, out = held.finish()
        tap.ok(code == 0 and out.count(b"\n") > 100000, "left alone it reads to the end", code)
        copies = orphans.collect(2.0)  # more than one where the heap was caught busy
        tap.ok((held.copy, signal.SIGKILL) in copies and {end for _, end in copies} ==
               {signal.SIGKILL}, "and no copy is left", copies)
        held = Held(target.pid)
        os.kill(held.copy, signal.SIGKILL)
        code, out = held.finish()
        whole = code == 0 and out.count(b"\n") > 100000  # a heap that looked torn: a new copy
        tap.ok(whole or (code == 3 and not out and "was killed while it was read" in held.said),
               "the copy is killed: a new one, or no answer", (code, len(out), held.said))
        orphans.collect(2.0)
        held = Held(target.pid)
        target.process.kill()
        target.process.wait(10)
        code, out = held.finish()
        tap.ok(code in (0, 3), "the target is killed: memwhy ends in order", (code, len(out)))
        tap.equal({end for _, end in orphans.collect(2.0)}, {signal.SIGKILL},
                  "and no copy is left then")


# ---- a target at work ----


def check_busy(tap):
    progress = tempfile.mktemp(dir=scratch_dir())
    orphans = Orphans()
    with Fixture("busy", progress) as fixture:
        orphans.known.add(fixture.pid)
        wrong, pauses = [], []
        for number in range(15):
            result = memwhy("report", fixture.pid, "--json", "--fork")
            report = result.json()
            heap = report["allocators"][0]
            if result.code != 0 or not heap["reconciled"]:
                wrong.append((number, result.code, result.err[:100], heap["reconciled"],
                              [one["kind"] for one in report["findings"]]))
            if account_sum(report) != report["rss_bytes"]:
                wrong.append((number, "account", account_sum(report), report["rss_bytes"]))
            pauses.append(report["pauses"])
        tap.ok(not wrong, "busy: every copy of a heap at work is sound", wrong)
        tap.note(f"busy: pauses {pauses}")
        tap.equal(fixture.ask("ping", 5), "done", "busy: it answers")
        tap.equal(children(fixture.pid), [], "busy: it has no child")
        tap.equal({end for _, end in orphans.collect()}, {signal.SIGKILL}, "busy: no copy is left")


# ---- what is refused ----


WITH_FILTER = f"""
import ctypes, struct, sys
libc = ctypes.CDLL(None)
code = struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000)
room = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(room))
libc.prctl({PR_SET_NO_NEW_PRIVS}, 1, 0, 0, 0)
if libc.prctl({PR_SET_SECCOMP}, 2, program, 0, 0) != 0:
    print("no seccomp filters here")
    sys.exit()
print("ready", flush=True)
sys.stdin.read()
"""
COLLECTOR = f"""
import ctypes, os, sys
ctypes.CDLL(None).prctl({PR_SET_CHILD_SUBREAPER}, 1, 0, 0, 0)
print("ready", flush=True)
for line in sys.stdin:
    try:
        print("wait", os.waitpid(-1, os.WNOHANG))
    except ChildProcessError:
        print("wait none")
    print("done", flush=True)
"""
PLAIN = 'import sys; print("ready", flush=True); sys.stdin.read()'
INIT = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
if libc.unshare(0x20000000) != 0:  # CLONE_NEWPID
    print("no right to make a pid namespace")
    sys.exit()
pid = os.fork()
if pid == 0:
    libc.prctl(1, 9, 0, 0, 0)  # dies with its parent
    sys.stdin.read()
    os._exit(0)
print("ready", pid, flush=True)
os.waitpid(pid, 0)
"""


def refused(tap, name, text, words):
    orphans = Orphans()
    with Python(text) as target:
        orphans.known.add(target.process.pid)
        result = memwhy("heap", target.pid, "--fork")
        tap.ok(result.code == 3 and all(word in result.err for word in words),
               f"{name}: is refused with the reason", (result.code, result.err))
        tap.ok("leave out --fork" in result.err, f"{name}: and with what to do", result.err)
        tap.equal(status(target.pid)["TracerPid"], "0", f"{name}: is left alone")
        tap.equal(memwhy("heap", target.pid).code, 0, f"{name}: can be read without")
        if text == COLLECTOR:
            tap.equal(target.ask("wait"), ["wait none"], f"{name}: has nobody to wait for")
        tap.equal(orphans.collect(1.0), [], f"{name}: was not forked")


def check_refusals(tap):
    tap.guard("seccomp", refused, tap, "seccomp", WITH_FILTER, ["seccomp filter"])
    tap.guard("collector", refused, tap, "collector", COLLECTOR, ["PR_SET_CHILD_SUBREAPER"])
    tap.guard("init", refused, tap, "init", INIT, ["init of its pid namespace"])
    result = memwhy("heap", os.path.join(os.path.dirname(__file__), "../fixtures/smaps",
                                         "linux-5.10.txt"), "--fork")
    tap.ok(result.code == 3 and "only a running process" in result.err, "a text cannot be forked",
           (result.code, result.err))
    result = memwhy("report", os.getpid(), "--fork", "--no-heap")
    tap.ok(result.code == 2 and "exclude" in result.err, "--no-heap leaves nothing to fork for",
           (result.code, result.err))


# ---- what a fork leaves out ----


LEAVES_OUT = """
import mmap, sys
room = mmap.mmap(-1, {size}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
room.write(b"x" * {size})
room.madvise(mmap.MADV_DONTFORK)
print("ready", flush=True)
sys.stdin.read()
"""


def check_left_out(tap):
    for size, words in ((1 << 20, "under the same stop"), (16 << 20, "may be newer")):
        with Python(LEAVES_OUT.format(size=size)) as target:
            report = memwhy("report", target.pid, "--json", "--fork").json()
            found = [one for one in report["findings"] if one["kind"] == "fork-left-out"]
            tap.ok(len(found) == 1 and words in found[0]["text"],
                   f"{size >> 20} MiB of MADV_DONTFORK are named", report["findings"])
            tap.equal(account_sum(report), report["rss_bytes"],
                      f"{size >> 20} MiB of MADV_DONTFORK: the account is RSS")
            leaks = memwhy("leaks", target.pid, "--json", "--fork").json()
            tap.equal(leaks["exact"], size == 1 << 20,
                      f"{size >> 20} MiB of MADV_DONTFORK: what looks lost is certain, or is not")


def main():
    need_memwhy()
    tap = Tap()
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        tap.skip("--fork", "this kernel has no PR_SET_CHILD_SUBREAPER")
        tap.done()
    with Python(PLAIN) as target:
        answer = memwhy("heap", target.pid, "--fork")
        if answer.code == 3 and "x86-64 only" in answer.err:
            tap.skip("--fork", "needs x86-64")
            tap.done()
    for shape in ("arenas-default", "threads16", "many-heaps"):
        tap.guard(shape, check_figures, tap, shape)
    tap.guard("alive", check_alive, tap)
    tap.guard("busy", check_busy, tap)
    tap.guard("refusals", check_refusals, tap)
    tap.guard("left out", check_left_out, tap)
    tap.done()


if __name__ == "__main__":
    main()
