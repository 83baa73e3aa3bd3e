"""Starting and stopping what the tests start, and nothing else.

Every process is started with its own session, a bare environment and a
parent-death signal, so that a killed test leaves no daemon behind. Stopping
goes by pid *and* start time: a pid that the kernel gave to someone else in
the meantime is never signalled.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time

import procfs

PR_SET_PDEATHSIG = 1
SECRET_IN_ENVIRONMENT = "token-that-no-report-may-show"
_libc = ctypes.CDLL(None, use_errno=True)


class TargetError(Exception):
    """The target could not be started, or did not do its work in time."""


class Unavailable(Exception):
    """The target cannot run on this machine; the text says why."""


def free_port():
    """A TCP port on 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def bare_environment(home, extra=None):
    """No allocator or runtime setting of the caller reaches the target."""
    env = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "SERVICE_TOKEN": SECRET_IN_ENVIRONMENT,
    }
    env.update(extra or {})
    return env


def give_to(path, user):
    """Make USER the owner of PATH (root only)."""
    shutil.chown(path, user, user)


def start(argv, cwd, log, env=None, user=None, stop_signal=signal.SIGTERM,
          **popen):
    """Start ARGV; its standard error goes to the file LOG.

    STOP_SIGNAL is also what the kernel sends when this process dies. USER
    must exist; only root can give one.
    """
    def die_with_parent():
        _libc.prctl(PR_SET_PDEATHSIG, int(stop_signal), 0, 0, 0)

    if user:
        popen.update(user=user, group=user, extra_groups=[])
    popen.setdefault("stdin", subprocess.DEVNULL)
    with open(log, "ab") as sink:
        popen.setdefault("stdout", sink)
        return subprocess.Popen(argv, cwd=cwd, stderr=sink, text=True,
                                env=bare_environment(cwd, env),
                                start_new_session=True,
                                preexec_fn=die_with_parent, **popen)


def run(argv, cwd, timeout, env=None, user=None):
    """Run a helper of the target to its end; its output, or TargetError."""
    identity = {"user": user, "group": user, "extra_groups": []} if user else {}
    try:
        done = subprocess.run(argv, cwd=cwd, env=bare_environment(cwd, env),
                              stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=timeout, check=False,
                              **identity)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TargetError(f"cannot run {argv[0]}: {error}") from error
    if done.returncode != 0:
        raise TargetError(f"{' '.join(argv[:3])} … ended with "
                          f"{done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def wait_until(condition, what, timeout, process=None):
    """Poll CONDITION until it is true; TargetError after TIMEOUT seconds."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if process is not None and process.poll() is not None:
            raise TargetError(f"{what}: ended early with {process.returncode}")
        if time.monotonic() > deadline:
            raise TargetError(f"{what}: not within {timeout} s")
        time.sleep(0.05)


def accepts(port):
    """True when something listens on 127.0.0.1:PORT."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def stop(process, stop_signal=signal.SIGTERM, timeout=10):
    """End PROCESS and whatever it started; SIGKILL for what stays."""
    below = procfs.descendants(process.pid)
    if process.poll() is None:
        process.send_signal(stop_signal)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            below += procfs.descendants(process.pid)
            process.kill()
            process.wait(timeout)
    for stream in (process.stdin, process.stdout):
        if stream:
            stream.close()
    _kill_remaining(below, timeout)


def _kill_remaining(below, timeout):
    """SIGKILL each (pid, start time) that still runs, after a short grace."""
    def remaining():
        return [pid for pid, began in below
                if procfs.start_time(pid) == began and procfs.is_running(pid)]

    deadline = time.monotonic() + min(2, timeout)
    while remaining() and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid in remaining():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
