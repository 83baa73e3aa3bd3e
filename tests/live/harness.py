"""What the live tests share: TAP output, starting fixtures, running memwhy, reading /proc.

Environment:
  MEMWHY           the program under test; default build/memwhy
  MEMWHY_FIXTURES  the directory of the fixture programs; default build/tests/fixtures
  FIXTURE_LD       words put before a fixture's command, e.g. "ld.so --library-path DIR", to run
                   the fixtures on another C library than the system's
Everything started here is ended here, by pid. Files go to a directory beside the fixtures, which
is removed again; not to /tmp, because that may be a tmpfs and count as shared memory.
"""

import atexit
import bisect
import itertools
import json
import os
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEMWHY = os.environ.get("MEMWHY") or os.path.join(ROOT, "build", "memwhy")
FIXTURES = os.path.abspath(
    os.environ.get("MEMWHY_FIXTURES") or os.path.join(ROOT, "build", "tests", "fixtures"))
TEXTS = os.path.join(ROOT, "tests", "fixtures", "smaps")
EXIT_SKIP = 77
PAGE = os.sysconf("SC_PAGE_SIZE")


class Tap:
    """Numbers and prints test lines; the plan comes last."""

    def __init__(self):
        self.count = 0
        self.failed = 0
        self.skipped = 0

    def _line(self, word, name, directive=""):
        self.count += 1
        clean = name.replace("#", "\\#").replace("\n", " ")
        print(f"{word} {self.count} - {clean}{directive}", flush=True)

    def ok(self, condition, name, detail=None):
        """One test; detail is printed when it fails."""
        if condition:
            self._line("ok", name)
            return True
        self.failed += 1
        self._line("not ok", name)
        for line in str(detail if detail is not None else "").splitlines()[:40]:
            self.note(line)
        return False

    def equal(self, got, wanted, name):
        return self.ok(got == wanted, name, f"got {got!r}, wanted {wanted!r}")

    def close(self, got, wanted, tolerance, name):
        """Numbers no further apart than tolerance; None is never close."""
        near = isinstance(got, int) and abs(got - wanted) <= tolerance
        return self.ok(near, name, f"got {got!r}, wanted {wanted} +- {tolerance}")

    def skip(self, name, why):
        self.skipped += 1
        self._line("ok", name, f" # SKIP {why}")

    def note(self, text):
        print(f"# {text}", flush=True)

    def guard(self, name, run, *args):
        """Runs a group of tests; an exception in it is one failed test, not the end."""
        try:
            run(*args)
        except Skip as why:
            self.skip(name, str(why))
        except Exception as error:  # pylint: disable=broad-except
            self.ok(False, f"{name}: runs to its end", f"{type(error).__name__}: {error}")

    def done(self):
        print(f"1..{self.count}", flush=True)
        if self.skipped:
            self.note(f"{self.skipped} skipped")
        sys.exit(1 if self.failed or not self.count else 0)


class Skip(Exception):
    """What a test needs is not there; the text says what."""


class Failure(Exception):
    """A program did not do what it must before anything can be compared."""


def bail(why):
    print(f"Bail out! {why}", flush=True)
    sys.exit(1)


def need_memwhy():
    if not os.access(MEMWHY, os.X_OK):
        bail(f"no program {MEMWHY}; build it or set MEMWHY")


_scratch = None
_numbers = itertools.count()


def scratch_dir():
    global _scratch  # pylint: disable=global-statement
    if _scratch is None:
        base = FIXTURES if os.access(FIXTURES, os.W_OK) else None
        _scratch = tempfile.mkdtemp(prefix="live-", dir=base)
        atexit.register(shutil.rmtree, _scratch, True)
    return _scratch


# ---- memwhy ----


class Result:
    def __init__(self, code, out, err, seconds):
        self.code, self.out, self.err, self.seconds = code, out, err, seconds

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise Failure(f"no JSON ({error}); exit {self.code}; {self.err[:400]}") from error


def memwhy(*args, stdin=None, timeout=120, env=None):
    """Runs memwhy to its end. stdin is bytes or None."""
    started = time.monotonic()
    done = subprocess.run([MEMWHY, *map(str, args)], input=stdin, capture_output=True,
                          timeout=timeout, check=False, env=env,
                          stdin=subprocess.DEVNULL if stdin is None else None)
    return Result(done.returncode, done.stdout.decode("utf-8", "replace"),
                  done.stderr.decode("utf-8", "replace"), time.monotonic() - started)


# ---- fixtures ----


def system_command(program):
    """The words that start a fixture of the system's C library, or of FIXTURE_LD."""
    words = [] if program.endswith("-static") else shlex.split(os.environ.get("FIXTURE_LD", ""))
    return [*words, os.path.join(FIXTURES, program)]


class Fixture:
    """A fixture program, from its start to ready and on to its end; use it with `with`.

    libc (libcs.py) says where its programs are and how they are started; None: those of the
    system's C library, or of FIXTURE_LD. It runs in the scratch directory: its cores go there."""

    def __init__(self, program, *args, env=None, timeout=120, libc=None):
        command = libc.command(program) if libc else system_command(program)
        self.path = command[-1]
        if not os.access(self.path, os.X_OK):
            raise Skip(f"fixture {program} is not built")
        number = next(_numbers)
        self.truth_path = os.path.join(scratch_dir(), f"{program}-{number}.json")
        full = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), **(env or {})}
        self.process = subprocess.Popen(
            [*command, *map(str, args), self.truth_path], env=full, bufsize=0,
            cwd=scratch_dir(), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self._pending = b""
        self.pid = self.process.pid
        try:
            self._await_ready(timeout)
        except BaseException:
            self.end()
            raise
        with open(self.truth_path, encoding="utf-8") as file:
            self.truth = json.load(file)
        self.pid = self.truth.get("pid", self.pid)  # of a child that it went on in

    def _await_ready(self, timeout):
        """Reads up to the line that begins with ready; what came before is kept in `said`."""
        self.said = []
        try:
            line = self.line(timeout)
            while not line.startswith("ready"):
                self.said.append(line)
                line = self.line(timeout)
        except Failure as error:
            code = self.process.poll()
            why = self.process.stderr.read(400).decode("utf-8", "replace") if code else ""
            if code == EXIT_SKIP:
                raise Skip(why.strip()) from error
            raise Failure(f"{error}; exit {code}; {why}") from error

    def line(self, timeout=60):
        deadline = time.monotonic() + timeout
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            ready = select.select([self.process.stdout], [], [], max(left, 0))[0]
            data = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not ready:
                raise Failure("fixture is silent")
            if not data:
                self.process.wait(10)
                raise Failure("fixture has ended")
            self._pending += data
        line, self._pending = self._pending.split(b"\n", 1)
        return line.decode()

    def ask(self, command, timeout=60):
        """Sends a command; returns the line that answers."""
        self.process.stdin.write(command.encode() + b"\n")
        return self.line(timeout)

    def json(self, command, timeout=60):
        """Sends a command whose answer is one line or more of JSON."""
        text = self.ask(command, timeout)
        while True:
            try:
                return json.loads(text)
            except ValueError:
                text += self.line(timeout)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            pipe.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    # -- what it wrote --

    def blocks(self):
        """The block table: dicts with address, usable, requested, offset, state, thread."""
        rows = []
        with open(self.truth_path + ".blocks", encoding="ascii") as file:
            for text in file:
                address, usable, requested, offset, state, thread = text.split()
                rows.append({"address": int(address, 16), "usable": int(usable),
                             "requested": int(requested), "offset": int(offset),
                             "state": state, "thread": int(thread)})
        return rows

    def mapped_pages(self):
        """Asks for the mapped pages of its private anonymous memory, the zero page included."""
        if self.ask("pages") != "pages":
            raise Failure("fixture cannot list its pages")
        return pages_read(self.truth_path + ".pages")

    def trim(self):
        """It calls malloc_trim(0): (anonymous before, after, pages before, pages after)."""
        words = self.ask("trim").split()
        if words[0] != "trim":
            raise Failure(f"fixture answered {words}")
        return (int(words[2]), int(words[3]), pages_read(self.truth_path + ".before"),
                pages_read(self.truth_path + ".after"))


def pages_read(path):
    with open(path, encoding="ascii") as file:
        return pages_parse(file.read())


def pages_parse(text):
    """Page numbers of "0xSTART 0xEND" lines. Raises when a line is not page-aligned."""
    pages = set()
    for line in text.splitlines():
        start, end = (int(word, 16) for word in line.split())
        if start % PAGE or end % PAGE or end <= start:
            raise Failure(f"not a range of pages: {line}")
        pages.update(range(start // PAGE, end // PAGE))
    return pages


def pages_show(pages, limit=5):
    return ", ".join(hex(page * PAGE) for page in sorted(pages)[:limit])


# ---- the kernel's figures ----


def smaps_rollup(pid):
    """smaps_rollup of pid in bytes."""
    figures = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        for line in list(file)[1:]:
            name, value = line.split(":")
            figures[name] = int(value.split()[0]) * 1024
    return figures


def status(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


# ---- checks that several tests make ----


class Spans:
    """Non-overlapping half-open ranges, to ask what an address lies in."""

    def __init__(self, ranges):
        self.ranges = sorted(ranges)
        self.starts = [start for start, _ in self.ranges]

    def find(self, address):
        at = bisect.bisect_right(self.starts, address) - 1
        return at >= 0 and address < self.ranges[at][1]

    def overlaps(self):
        pairs = zip(self.ranges, self.ranges[1:])
        return [(a, b) for a, b in pairs if a[1] > b[0]]


def account_sum(report):
    """Resident bytes of all categories and of unknown; None when the target has no residency."""
    parts = [row["rss_bytes"] for row in report["categories"]] + [report["unknown_bytes"]]
    return None if all(part is None for part in parts) else sum(parts)


CLASS_ORDER = ["leaked", "growing", "kept", "outside", "needed"]


def verdict_order_errors(verdicts):
    """What is wrong with the order: minor ones last, by class, then by bytes; unknown at the end."""
    def rank(verdict):
        last = verdict["id"] == "unknown"
        return (last, bool(verdict.get("minor")), CLASS_ORDER.index(verdict["class"]),
                -(verdict["bytes"] or 0))
    tops = [verdict for verdict in verdicts if verdict["part_of"] is None]
    ranks = [rank(verdict) for verdict in tops]
    return [f"{a['id']} before {b['id']}" for a, b, x, y
            in zip(tops, tops[1:], ranks, ranks[1:]) if x > y]
