"""Running memwhy for the tests of its command line: plain, on a terminal, with things closed."""
import json
import os
import pty
import select
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEMWHY = os.environ.get("MEMWHY") or os.path.join(ROOT, "build", "memwhy")
SMAPS = os.path.join(ROOT, "tests", "fixtures", "smaps")
COMMANDS = ("report", "heap", "blocks", "leaks", "refs", "maps", "pins", "trim", "stacks", "diff",
            "collect", "verify", "doctor")


class Done:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def json(self):
        return json.loads(self.out)

    def __repr__(self):
        return f"exit {self.code}\n{self.out[:2000]}\n{self.err[:1000]}"


def environment(extra):
    env = {name: value for name, value in os.environ.items()
           if name not in ("NO_COLOR", "COLUMNS")}
    env["TERM"] = "xterm"
    env.update(extra or {})
    return env


def run(*words, stdin=b"", env=None, timeout=60, program=MEMWHY, **more):
    """memwhy with its output in pipes."""
    done = subprocess.run([program, *map(str, words)], input=stdin, capture_output=True,
                          env=environment(env), timeout=timeout, check=False, **more)
    return Done(done.returncode, done.stdout.decode("utf-8", "replace"),
                done.stderr.decode("utf-8", "replace"))


def run_on_terminal(*words, env=None, timeout=60):
    """memwhy with a terminal as standard output; its errors go there, too."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([MEMWHY, *map(str, words)], stdin=subprocess.DEVNULL, stdout=theirs,
                          stderr=theirs, env=environment(env)) as child:
        os.close(theirs)
        text = b""
        while select.select([ours], [], [], timeout)[0]:
            try:
                piece = os.read(ours, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            text += piece
        code = child.wait(timeout)
    os.close(ours)
    return Done(code, text.decode("utf-8", "replace").replace("\r\n", "\n"), "")


class Sleeper:
    """A process to look at: python3, with some memory of its own."""

    CODE = ("import sys, time\n"
            "kept = ['x' * n for n in range(2000)]\n"
            "print('ready', flush=True)\n"
            "sys.stdin.read()\n")

    def __init__(self, code=CODE, sleeps=True, program=sys.executable):
        self.code, self.sleeps, self.program = code, sleeps, program

    def __enter__(self):
        self.child = subprocess.Popen([self.program, "-c", self.code], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE)
        assert self.child.stdout.readline() == b"ready\n"
        self.pid = self.child.pid
        if self.sleeps:
            self.wait_until_asleep()
        return self

    def wait_until_asleep(self):
        """It has said that it is ready and reads: nothing of it moves while it is looked at."""
        for _ in range(1000):
            with open(f"/proc/{self.pid}/stat", encoding="latin-1") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "S":
                    return
            time.sleep(0.002)

    def __exit__(self, *_):
        if not self.sleeps:
            self.child.kill()
        self.child.stdin.close()
        self.child.stdout.close()
        self.child.wait(20)
