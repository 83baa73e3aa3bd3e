#!/usr/bin/env python3
# timeout: 900
"""`collect`: a capture answers what the process did, and is whole or not there.

  - every byte of memory that is in it is that of the process; what is not, is not resident
  - report, heap, maps, leaks, blocks and trim of it equal those of the stopped process
  - gdb loads it: threads, stacks, mappings; a compressed one is read as it is
  - refused: what does not fit into one stop, a core, no output, no room
  - killed at random moments: no file, no child, the target goes on
"""

import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

from harness import MEMWHY, Failure, Fixture, Tap, memwhy, need_memwhy, scratch_dir

KILLS = int(os.environ.get("KILLS", "40"))
WHILE_STOPPED = ("--max-pause", "30s")
PAGE = 4096
PT_LOAD = 1
# What depends on the moment, or on what a capture does not hold.
MOMENT = {"taken_at", "target", "pauses", "paused_seconds", "longest_pause_seconds", "cgroup",
          "container", "peak", "peak_rss_bytes", "findings"}


def capture_path(name="capture"):
    return os.path.join(scratch_dir(), name)


class Stopped:
    """A fixture that stands still for as long as this lives."""

    def __init__(self, *words, **env):
        self.fixture = Fixture(*words, env=env or None)
        self.pid = self.fixture.pid

    def __enter__(self):
        self.fixture.__enter__()
        os.kill(self.pid, signal.SIGSTOP)
        time.sleep(.05)
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGCONT)
        self.fixture.__exit__(None, None, None)


def collect(tap, name, pid, path, *words):
    result = memwhy("collect", pid, "-o", path, "--json", *words)
    tap.equal(result.code, 0, f"{name}: collect: {result.err}")
    if result.code:
        raise Failure(result.err)
    document = result.json()
    tap.equal(document["file_bytes"], os.path.getsize(path), f"{name}: its size is said")
    tap.equal(os.stat(path).st_mode & 0o777, 0o600, f"{name}: for its owner alone")
    return document


# ---- bytes ----


def loads(data):
    """(address, memory bytes, file offset, file bytes) of each PT_LOAD."""
    at, = struct.unpack_from("<Q", data, 32)
    count, = struct.unpack_from("<H", data, 56)
    for i in range(count):
        kind, _, offset, address, _, in_file, in_memory, _ = struct.unpack_from(
            "<IIQQQQQQ", data, at + 56 * i)
        if kind == PT_LOAD:
            yield address, in_memory, offset, in_file


def check_bytes(tap, name, pid, path):
    """Of a process that stands still."""
    with open(path, "rb") as file:
        data = file.read()
    wrong, compared, absent, last = [], 0, [], 0
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for address, size, offset, in_file in loads(data):
            if address < last or in_file not in (0, size):
                wrong.append(hex(address))
            last = address + size
            if not in_file:
                absent.append((address, size))
                continue
            memory.seek(address)
            if memory.read(size) != data[offset:offset + size]:
                wrong.append(hex(address))
            compared += size
    tap.equal(wrong, [], f"{name}: {compared} bytes are those of the process")
    tap.ok(compared > 0 and absent, f"{name}: there are bytes, and pages without", compared)
    check_absent(tap, name, pid, absent)


def check_absent(tap, name, pid, absent):
    """A page that is left out is not resident, or a clean one of a file."""
    wrong = []
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for address, size in absent:
            pagemap.seek(address // PAGE * 8)
            entries = pagemap.read(min(size, 1 << 30) // PAGE * 8)
            for i, (entry,) in enumerate(struct.iter_unpack("<Q", entries)):
                if entry >> 63 and not entry >> 61 & 1 and entry & ((1 << 55) - 1):
                    wrong.append(hex(address + i * PAGE))
    zero = [page for page in wrong if is_zero_page(pid, int(page, 16))]
    tap.equal(sorted(set(wrong) - set(zero))[:5], [], f"{name}: nothing resident is left out")


def is_zero_page(pid, address):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(PAGE) == bytes(PAGE)


# ---- answers ----


def without_moment(value):
    """Pss changes with what others map."""
    if isinstance(value, dict):
        return {key: without_moment(item) for key, item in value.items()
                if key not in MOMENT and key != "pss_bytes"}
    return [without_moment(item) for item in value] if isinstance(value, list) else value


def check_answers(tap, name, pid, path):
    live = {}
    for words in (("heap",), ("maps",), ("leaks",), ("trim",), ("blocks",), ("report",)):
        answers = [memwhy(*words, target, "--json", *more)
                   for target, more in ((pid, WHILE_STOPPED), (path, ()))]
        tap.equal([answer.code for answer in answers], [0, 0], f"{name}: {words[0]}: exit codes")
        documents = [without_moment(answer.json()) for answer in answers]
        live[words[0]] = documents[0]
        if words == ("trim",):
            documents = [{"predicted": document["predicted_bytes"]} for document in documents]
        if words == ("report",):
            check_report(tap, name, *documents)
            continue
        differing = {key for key in documents[0] if documents[0][key] != documents[1].get(key)}
        tap.equal(differing, set(), f"{name}: {words[0]} of the capture is that of the process")
    tap.ok(live["leaks"]["exact"], f"{name}: exact")


def check_report(tap, name, live, captured):
    for key in ("rss_bytes", "anonymous_bytes", "swap_bytes", "unknown_bytes", "categories",
                "allocators"):
        tap.equal(captured[key], live[key], f"{name}: report: {key}")
    told = [[(verdict["id"], verdict["class"], verdict["basis"], verdict["bytes"])
             for verdict in report["verdicts"]] for report in (live, captured)]
    tap.equal(told[1], told[0], f"{name}: report: verdicts")


def check_debugger(tap, name, path, program, threads):
    if not shutil.which("gdb"):
        tap.skip(f"{name}: gdb", "gdb is not installed")
        return
    done = subprocess.run(
        ["gdb", "-q", "-nx", "-batch", "-iex", "set debuginfod enabled off", "-ex", "info threads",
         "-ex", "thread apply all bt 30", "-ex", "info proc mappings", program, path],
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120, check=False)
    tap.equal(len(re.findall(r"^[* ] \d+ +Thread ", done.stdout, re.M)), threads,
              f"{name}: gdb sees the threads")
    tap.ok(" in main " in done.stdout or "main (" in done.stdout, f"{name}: and their stacks",
           done.stdout)
    tap.ok(os.path.basename(program) in done.stdout.split("Mapped address spaces", 1)[-1],
           f"{name}: and the mappings", done.stdout)


def check_whole(tap, name, words, threads):
    with Stopped(*words) as target:
        for how in ((), ("--fork",)):
            path = capture_path()
            if how:
                os.kill(target.pid, signal.SIGCONT)
            told = collect(tap, f"{name} {' '.join(how)}", target.pid, path, *how,
                           *(() if how else WHILE_STOPPED))
            if not how:
                check_bytes(tap, name, target.pid, path)
                check_answers(tap, name, target.pid, path)
                check_debugger(tap, name, path, target.fixture.path, threads)
            tap.ok(told["memory_bytes"] <= told["resident_bytes"] and told["pauses"] == 1,
                   f"{name} {' '.join(how)}: what is resident, in one pause", told)
            os.unlink(path)


# ---- streams and limits ----


def check_stream(tap, pid):
    """To a pipe, through zstd; read as it is."""
    path = capture_path("capture.zst")
    with open(path, "wb") as file, subprocess.Popen(
            [MEMWHY, "collect", str(pid), "-o", "-", "--fork"], stdout=subprocess.PIPE) as writer:
        packed = subprocess.run(["zstd", "-q", "-1"], stdin=writer.stdout, stdout=file,
                                check=False, timeout=120)
    tap.equal((writer.returncode, packed.returncode), (0, 0), "a capture through a pipe and zstd")
    report = memwhy("report", path, "--json").json()
    tap.equal(report["target"]["kind"], "capture", "is a capture")
    tap.ok(report["rss_bytes"], "and knows what was resident", report["rss_bytes"])
    os.unlink(path)


def check_cut(tap, pid):
    """Cut anywhere: what is missing is said, nothing crashes."""
    path = capture_path()
    collect(tap, "to be cut", pid, path, "--fork")
    with open(path, "rb") as file:
        data = file.read()
    codes = set()
    for share in (0.0001, 0.001, 0.01, 0.3, 0.7, 0.999):
        with open(path, "wb") as file:
            file.write(data[:int(len(data) * share)])
        codes.add(memwhy("report", path, "--json").code)
        codes.add(memwhy("leaks", path, "--json").code)
    tap.ok(codes <= {0, 3, 4}, "cut captures are read as far as they go", codes)
    os.unlink(path)


def check_refused(tap, pid):
    path = capture_path("refused")
    for words, code, part in (
            ((pid, "-o", path, "--max-pause", "1us"), 3, "--fork"),
            ((pid,), 2, "-o"),
            ((pid, "-o", "/nonexistent/folder/x", "--fork"), 3, "/nonexistent"),
            ((99999999, "-o", path), 3, "99999999"),
            (("/proc/self/exe", "-o", path), 3, "")):
        result = memwhy("collect", *words)
        tap.ok(result.code in (code, 4) and part in result.err, f"{words[1:]}: refused",
               f"{result.code} {result.err}")
    limit = (1 << 20, 1 << 20)
    done = subprocess.run(
        [MEMWHY, "collect", str(pid), "-o", path, "--fork"], capture_output=True, check=False,
        timeout=60, preexec_fn=lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
                                        resource.setrlimit(resource.RLIMIT_FSIZE, limit)))
    tap.ok(done.returncode in (3, 4, 5) and b"cannot write" in done.stderr, "no room: said",
           done.stderr)
    tap.equal([name for name in os.listdir(scratch_dir()) if name.startswith("refused")], [],
              "nothing is left behind")


def check_kills(tap, pid):
    path, draw, done = capture_path("killed"), random.Random(4711), 0
    for _ in range(KILLS):
        with subprocess.Popen([MEMWHY, "collect", str(pid), "-o", path, "--fork"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
            time.sleep(draw.random() * .25)
            writer.kill()
        if os.path.exists(path):
            done += 1
            report = memwhy("report", path, "--json")
            tap.ok(report.code == 0, "a file that is there is whole", report.err)
            os.unlink(path)
    time.sleep(.1)
    left = [name for name in os.listdir(scratch_dir()) if name.startswith("killed")]
    tap.equal(left, [], f"{KILLS} kills, {done} too late: no part is left")
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
    tap.equal((status["State"][0] in "SR", status["TracerPid"].strip()), (True, "0"),
              "the target goes on")
    children = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True,
                              text=True, check=False).stdout.split()
    tap.equal(children, [], "without children")


def main():
    need_memwhy()
    tap = Tap()
    for name, words, threads in (("single", ("heapshape", "single"), 1),
                                 ("mmapped", ("heapshape", "mmapped"), 1),
                                 ("threads16", ("heapshape", "threads16"), 17),
                                 ("fragmentation", ("state", "fragmentation"), 1)):
        tap.guard(name, check_whole, tap, name, words, threads)
    with Fixture("state", "trimmable-free") as fixture:
        for check in (check_stream, check_cut, check_refused, check_kills):
            tap.guard(check.__name__, check, tap, fixture.pid)
    tap.done()


if __name__ == "__main__":
    main()
