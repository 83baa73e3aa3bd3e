#!/usr/bin/env python3
# timeout: 3600
"""memwhy is killed while it looks at a process at work: the process never notices.

The target (tests/fixtures/busy.c) has four threads that allocate, calculate, sleep and talk through
a pipe, and count in a shared file. memwhy is killed with SIGKILL
  - at a random moment of every command and option, and
  - at the n-th system call by which it touches a target (tests/fixtures/killat.c), n rising, for
    the commands that stop or enter the target.
After each kill: the target lives, is untraced and not stopped, every thread has gone on counting,
none has found an error (registers, system calls and heap survive), it answers on its stdin, it has
no new children, the same open files and the same executable mappings, and memwhy left no process:
no copy of the target either, which would come to this test, since it collects orphans.

KILLS: number of kills, default 60. SEED: of the random moments, printed, default the time.
"""

import ctypes
import os
import random
import signal
import struct
import subprocess
import tempfile
import time

from harness import (FIXTURES, MEMWHY, Failure, Fixture, Tap, memwhy, need_memwhy, scratch_dir,
                     status)

COMMANDS = [line.split() for line in (
    "report PID", "report PID --fork", "heap PID --fork --json", "report PID --json", "report PID --markdown", "maps PID", "maps PID --unknown",
    "maps PID --json", "heap PID", "heap PID --json", "heap PID --list-blocks", "pins PID",
    "pins PID --json", "trim PID", "trim PID --json", "trim PID --pages", "verify BEFORE PID",
    "verify BEFORE PID --json", "doctor PID", "doctor PID --json", "PID")]
LIST = []  # without any argument: all processes
APPLY = [["trim", "PID", "--apply"], ["trim", "PID", "--apply", "--json"]]
FORK = [["heap", "PID", "--fork"]]
# What is swept call by call, over which calls, and its share of half of all kills.
SWEPT = [(["trim", "PID", "--apply"], "control", 0.4), (["trim", "PID", "--apply"], "any", 0.1),
         (["heap", "PID", "--fork"], "control", 0.25),
         (["heap", "PID", "--json"], "control", 0.1), (["report", "PID", "--json"], "any", 0.15)]
WORKERS, ERRORS, INTERRUPTED = 4, 4, 5
PR_SET_CHILD_SUBREAPER = 36


# ---- the target as seen from outside ----


class Target:
    def __init__(self, fixture, progress):
        self.fixture, self.pid, self.progress = fixture, fixture.pid, progress
        deadline = time.monotonic() + 30
        while not all(self.counts()[:WORKERS]):  # each has opened and mapped what it works with
            if time.monotonic() > deadline:
                raise Failure(f"its threads do not start: {self.counts()}")
            time.sleep(0.002)
        self.files, self.code = self.open_files(), self.executable()
        self.before = os.path.join(scratch_dir(), "before.json")

    def line(self, words):
        """The words of a command with the target's pid and an earlier report in them."""
        names = {"PID": str(self.pid), "BEFORE": self.before}
        return [names.get(word, word) for word in words]

    def counts(self):
        with open(self.progress, "rb") as file:
            return struct.unpack("<8Q", file.read(64))

    def open_files(self):
        base = f"/proc/{self.pid}/fd"
        return sorted((fd, os.readlink(f"{base}/{fd}")) for fd in os.listdir(base))

    def executable(self):
        with open(f"/proc/{self.pid}/maps", encoding="utf-8", errors="replace") as file:
            return [line for line in file if "x" in line.split()[1]]

    def tasks(self):
        for task in os.listdir(f"/proc/{self.pid}/task"):
            yield status(f"{self.pid}/task/{task}")

    def children(self, parent):
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    fields = file.read().rsplit(b")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == parent:
                found.append(int(name))
        return found

    def copies(self):
        """Of it, that live: without a parent they have come to us."""
        found = []
        for pid in self.children(os.getpid()):
            if pid == self.pid:
                continue
            try:
                if os.waitpid(pid, os.WNOHANG)[0] == 0:
                    found.append(pid)
            except ChildProcessError:
                continue
        return found

    def disturbed(self):
        """Stopped or traced threads: allowed for a moment after the kill, not longer."""
        return [(task["Pid"], task["State"], task["TracerPid"]) for task in self.tasks()
                if task["TracerPid"].strip() != "0" or task["State"][0] in "tTZX"]

    def errors(self, before):
        """What is wrong with the target now; [] when nothing is."""
        wrong, deadline = [], time.monotonic() + 5
        while self.disturbed() and time.monotonic() < deadline:
            time.sleep(0.002)
        if self.disturbed():
            wrong.append(f"stopped or traced: {self.disturbed()}")
        start = self.counts()
        while time.monotonic() < deadline:
            now = self.counts()
            if all(now[i] > start[i] for i in range(WORKERS)):
                break
            time.sleep(0.002)
        else:
            wrong.append(f"no progress: {start} {self.counts()}")
        if self.counts()[ERRORS] != before[ERRORS]:
            wrong.append(f"its threads found errors: {self.counts()[ERRORS]}")
        if self.children(self.pid):
            wrong.append(f"children: {self.children(self.pid)}")
        while self.copies() and time.monotonic() < deadline:
            time.sleep(0.002)
        if self.copies():
            wrong.append(f"copies: {self.copies()}")
        if self.open_files() != self.files:
            wrong.append(f"open files: {self.open_files()}")
        if self.executable() != self.code:
            wrong.append("executable mappings have changed")
        if not wrong and self.fixture.ask("ping", 5) != "done":
            wrong.append("does not answer")
        return wrong


# ---- killing ----


def group_is_empty(group):
    """Whether nothing of it lives on; a child that dies with memwhy is given a moment to be
    collected."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
            os.waitpid(-group, os.WNOHANG)  # an orphan of it came to us
        except ProcessLookupError:
            return True
        except ChildProcessError:
            pass
        time.sleep(0.02)
    os.killpg(group, signal.SIGKILL)
    return False


def kill_at_moment(words, delay):
    """True when memwhy was still running after delay seconds and was killed."""
    with subprocess.Popen([MEMWHY, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, start_new_session=True) as process:
        time.sleep(delay)
        was_running = process.poll() is None
        process.kill()
        process.wait(10)
        if not group_is_empty(process.pid):
            raise Failure(f"{words}: left a process behind")
    return was_running


def kill_at_call(words, calls, number):
    """The answer of killat: ("killed", number, call) or ("ended", stops, code)."""
    done = subprocess.run([os.path.join(FIXTURES, "killat"), calls, str(number), MEMWHY, *words],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=120, check=False,
                          start_new_session=True)
    if done.returncode == 77:
        return None
    answer = [line for line in done.stdout.decode("utf-8", "replace").splitlines()
              if line.startswith(("killed ", "ended "))]
    if not answer:
        raise Failure(f"killat said nothing; exit {done.returncode}")
    return answer[-1].split()


def durations(target, commands):
    """For each command, left alone: seconds, exit code, what it complains of."""
    first = memwhy("report", target.pid, "--json")
    with open(target.before, "w", encoding="utf-8") as file:
        file.write(first.out)
    seconds = {}
    for words in commands:
        result = memwhy(*target.line(words))
        seconds[" ".join(words)] = (result.seconds, result.code, result.err)
    return seconds


def applied_once(tap, target):
    """Left alone, --apply must succeed on this target at times, or killing it shows nothing."""
    before, answers = target.counts(), []
    for _ in range(30):
        result = memwhy(*target.line(APPLY[1]))
        answers.append((result.code, result.err[:100]))
        if result.code == 0 and result.json()["applied"]:
            break
    tap.ok(answers[-1][0] == 0 and result.json()["applied"], "trim --apply is let in at times",
           answers[-3:])
    tap.equal(target.errors(before), [], "and the target works after it")


def random_kills(tap, target, kills, dice):
    commands = COMMANDS + [LIST] + APPLY + FORK
    seconds = durations(target, commands)
    refused = [(name, code, err[:200]) for name, (_, code, err) in seconds.items()
               if code not in (0, 4) and "--apply" not in name and not name.startswith("verify")]
    tap.equal(refused, [], "left alone, every command succeeds")
    wrong, hits = [], 0
    for number in range(kills):
        # Every command in turn; every third kill is of one that enters the target.
        words = dice.choice(APPLY + FORK) if number % 3 == 2 else commands[number % len(commands)]
        name = " ".join(words)
        before = target.counts()
        delay = dice.uniform(0, 1.1 * seconds[name][0])
        hits += kill_at_moment(target.line(words), delay)
        for error in target.errors(before):
            wrong.append(f"{name}, killed after {delay:.4f} s: {error}")
        if wrong:
            break
    tap.equal(wrong, [], f"target is unharmed by {kills} kills at random moments")
    tap.ok(hits >= kills // 3, "most kills met a running memwhy", f"{hits} of {kills}")


def swept_kills(tap, target, words, calls, kills):
    """Kills at call 1, 2, …; when there are more calls than kills, evenly spread over them."""
    name, line = f"{' '.join(words)}, {calls} calls", target.line(words)
    answer = kill_at_call(line, calls, 1 << 30)
    if answer is None:
        tap.skip(f"{name}: kills at system calls", "this kernel cannot report system calls")
        return
    total, wrong, hits = int(answer[1]), [], 0
    if not tap.ok(total > 0, f"{name}: touches the target by known calls", answer):
        return
    for number in range(min(kills, total)):
        at = 1 + number * total // min(kills, total)
        before = target.counts()
        answer = kill_at_call(line, calls, at)
        hits += answer[0] == "killed"
        for error in target.errors(before):
            wrong.append(f"killed at call {at} ({answer[-1]}): {error}")
        if wrong:
            break
    tap.equal(wrong, [], f"{name}: target is unharmed by kills at {min(kills, total)} of "
                         f"{total} call stops")
    tap.ok(2 * hits >= min(kills, total), f"{name}: most kills met their call", hits)


def check(tap, kills, dice):
    progress = tempfile.mktemp(dir=scratch_dir())
    with Fixture("busy", progress) as fixture:
        target = Target(fixture, progress)
        time.sleep(0.2)
        before = target.counts()
        tap.equal(target.errors(before), [], "the target works before anything is done to it")
        applied_once(tap, target)
        random_kills(tap, target, kills // 2, dice)
        for words, calls, share in SWEPT:
            swept_kills(tap, target, words, calls, max(round(share * (kills - kills // 2)), 1))
        tap.equal(target.errors(before), [], "and works after everything")
        tap.note(f"{target.counts()[INTERRUPTED]} system calls of the target returned EINTR")


def main():
    need_memwhy()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    kills = int(os.environ.get("KILLS", "60"))
    seed = int(os.environ.get("SEED", time.time_ns() % 1000003))
    tap = Tap()
    tap.note(f"{kills} kills, SEED={seed}")
    tap.guard("kills", check, tap, kills, random.Random(seed))
    tap.done()


if __name__ == "__main__":
    main()
