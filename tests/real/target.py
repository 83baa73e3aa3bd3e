"""The common part of every target: packages, directory, work, end.

To add a target: derive a class, name its packages, start it in `_start`,
let it do work in `_work`, answer in `ping`, and list it in targets.py.
"""

import os
import shutil
import subprocess
import tempfile

import process
import procfs
from process import TargetError, Unavailable


class Target:
    """One program under test, used as a context manager.

    Entering starts it, lets it do its work and returns with it idle; leaving
    stops it and removes its directory. `pid` is the process worth asking
    about and `pids` all such processes by role.
    """

    name = ""                  # as given to run_target.py
    packages = ()              # Debian packages that it needs
    program = ""               # the file whose presence shows they are there
    allocator = "glibc"        # kind memwhy must report, first
    runtime = None             # kind memwhy must report, or None
    secrets = ()               # texts in its memory that no report may show

    def __init__(self):
        self.directory = None
        self.pids = {}
        self._processes = []   # (Popen, stop signal), in order of start

    @property
    def pid(self):
        return next(iter(self.pids.values()))

    def __enter__(self):
        self.install()
        self.directory = tempfile.mkdtemp(prefix=f"memwhy-{self.name}-")
        try:
            self._start()
            self._work()
        except BaseException as error:
            log = self._log_tail()
            self.__exit__(None, None, None)
            if isinstance(error, TargetError):
                raise TargetError(f"{self.name}: {error}\n{log}") from error
            raise
        return self

    def __exit__(self, *_):
        try:
            self._end()
        finally:
            for started, stop_signal in reversed(self._processes):
                process.stop(started, stop_signal)
            self._processes.clear()
            if self.directory:
                shutil.rmtree(self.directory, ignore_errors=True)
                self.directory = None

    # To be supplied by each target -------------------------------------

    def _start(self):
        """Start and wait until ready; fill `pids`."""
        raise NotImplementedError

    def _work(self):
        """Give the memory a history: allocate, and free a part of it."""

    def _end(self):
        """Close connections; the processes are stopped afterwards."""

    def ping(self):
        """True when the target still serves; never blocks for long."""
        raise NotImplementedError

    # Shared --------------------------------------------------------------

    def installed(self):
        return shutil.which(self.program, path=process.bare_environment("/")["PATH"])

    def install(self):
        """Install the packages when they are missing; Unavailable if not."""
        if self.installed():
            return
        what = " ".join(self.packages)
        if not self.packages:
            raise Unavailable(f"{self.program} is not on this machine")
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise Unavailable(f"needs the Debian packages {what}")
        with _NoServices():
            error = _apt_get("install", "-y", "--no-install-recommends", *self.packages)
            if error and not _apt_get("update"):
                error = _apt_get("install", "-y", "--no-install-recommends", *self.packages)
        if error or not self.installed():
            raise Unavailable(f"cannot install {what}: {error}")

    def path(self, *parts):
        return os.path.join(self.directory, *parts)

    def write(self, name, text):
        """Write a file of the target's directory; its path."""
        with open(self.path(name), "w", encoding="utf-8") as f:
            f.write(text)
        return self.path(name)

    def launch(self, argv, **options):
        """Start a process that is stopped when the target is left."""
        started = process.start(argv, self.directory, self.path("log"), **options)
        self._processes.append(
            (started, options.get("stop_signal", process.signal.SIGTERM)))
        return started

    def running(self):
        return all(procfs.is_running(pid) for pid in self.pids.values())

    def _log_tail(self):
        try:
            with open(self.path("log"), encoding="utf-8", errors="replace") as f:
                return f.read()[-2000:]
        except OSError:
            return ""


def _apt_get(*words):
    """Run apt-get; "" or the end of what it complained about."""
    done = subprocess.run(
        ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300", *words],
        env=process.bare_environment("/root", {"DEBIAN_FRONTEND": "noninteractive"}),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600,
        check=False)
    return done.stderr.strip()[-200:] if done.returncode else ""


class _NoServices:
    """Keeps a package's maintainer scripts from starting a system service.

    Debian asks /usr/sbin/policy-rc.d; an existing one is respected.
    """

    path = "/usr/sbin/policy-rc.d"

    def __enter__(self):
        self.ours = not os.path.exists(self.path)
        if self.ours:
            with open(self.path, "w", encoding="ascii") as f:
                f.write("#!/bin/sh\nexit 101\n")
            os.chmod(self.path, 0o755)

    def __exit__(self, *_):
        if self.ours:
            os.unlink(self.path)
