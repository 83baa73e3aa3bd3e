#!/usr/bin/env python3
# timeout: 600
"""Across libcs, roots, namespaces and users: memwhy works, or says exactly why not.

  - a root that holds one static musl program and nothing else (distroless), one with musl's loader
    and a dynamic program (Alpine): the target is in a pid and mount namespace of its own and is
    looked at from outside, by its pid there: every block, and the version from its own root's file;
  - memwhy itself, linked statically, inside such a root and in the target's namespaces, by the pid
    there, without any file of its own system: on a musl target and on a glibc one;
  - the names of files and users inside mean nothing outside: a root with a decoy of that name;
  - an unprivileged user on a process of his own, and on another's: what is missing and the next
    command to type.
A memwhy that is linked with musl cannot be built here: its libraries (jansson, zstd) exist for
glibc only. Its walkers do not know which libc they run on; the static one is what is carried into
such roots.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys

import musl
from harness import MEMWHY, ROOT, Failure, Skip, Tap, account_sum, need_memwhy, scratch_dir

STATIC = os.environ.get("MEMWHY_STATIC") or os.path.join(ROOT, "build-static", "memwhy")
BLOCKS, BLOCK_BYTES, FREED = 3001, 1009, 1000
PROGRAM = f"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(void)
{{
    static void *held[{BLOCKS}];
    for (int i = 0; i < {BLOCKS}; i++)
        held[i] = memset(malloc({BLOCK_BYTES}), 'x', {BLOCK_BYTES});
    for (int i = 0; i < {FREED}; i++)
        free(held[3 * i]);
    if (write(1, "ready\\n", 6) != 6)
        return 1;
    for (;;)
        pause();
}}
"""
NOBODY = 65534


def need_namespaces():
    if os.geteuid() != 0:
        raise Skip("needs root to make namespaces and to enter a root")
    for tool in ("unshare", "nsenter", "chroot"):
        if not shutil.which(tool):
            raise Skip(f"{tool} is not installed (apt-get install util-linux coreutils)")
    done = subprocess.run(["unshare", "--pid", "--mount", "--fork", "true"], check=False,
                          capture_output=True, text=True)
    if done.returncode:
        raise Skip(f"unshare --pid --mount is not permitted: {done.stderr.strip()}")


def need_static():
    """One file that needs no other: made by `make static`."""
    if "MEMWHY_STATIC" in os.environ:
        return
    done = subprocess.run(["make", "-C", ROOT, "static"], check=False, capture_output=True,
                          text=True, env={**os.environ, "NO_DEPS": "1"})
    if done.returncode:
        raise Skip(f"a static memwhy cannot be built: {done.stdout[-300:]}")


# ---- roots and what runs in them ----


def root_make(name, program, libraries=()):
    """A new root with the program as /app, memwhy as /memwhy, an empty /proc and those libraries,
    each a pair of its path here and there."""
    root = os.path.join(scratch_dir(), name)
    os.makedirs(os.path.join(root, "proc"))
    shutil.copy(program, os.path.join(root, "app"))
    shutil.copy(STATIC, os.path.join(root, "memwhy"))
    for source, place in libraries:
        path = root + place
        os.makedirs(os.path.dirname(path), exist_ok=True)
        shutil.copy(os.path.realpath(source), path)
    return root


def glibc_libraries(program):
    """What ldd says that the program needs, its loader included."""
    said = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    paths = {word for word in said.split() if word.startswith("/")}
    return [(path, path) for path in sorted(paths)]


@contextlib.contextmanager
def contained(root):
    """/app in root, in a pid and a mount namespace of its own with its own /proc: pid there is 1.
    Gives the pid outside."""
    inner = f'mount -t proc proc "{root}/proc" && exec chroot "{root}" /app'
    # unshare's child is the shell, which becomes the program: pid 1 of the namespace.
    starter = subprocess.Popen(
        ["unshare", "--pid", "--mount", "--fork", "--kill-child=KILL", "sh", "-c", inner],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0)
    try:
        if starter.stdout.readline() != b"ready\n":
            starter.kill()
            why = starter.stderr.read(300).decode("utf-8", "replace").strip()
            raise Skip(f"a program cannot be started in namespaces of its own: {why}")
        with open(f"/proc/{starter.pid}/task/{starter.pid}/children", encoding="ascii") as file:
            children = file.read().split()
        if len(children) != 1:
            raise Failure(f"unshare has the children {children}")
        yield int(children[0])
    finally:
        starter.kill()
        starter.wait(10)
        starter.stdout.close()
        starter.stderr.close()


def run(*words, **options):
    return subprocess.run([str(word) for word in words], check=False, capture_output=True,
                          text=True, timeout=120, stdin=subprocess.DEVNULL, **options)


def inside(pid, root, *words):
    """The static memwhy, in the namespaces and the root of pid."""
    return run("nsenter", "--target", pid, "--pid", "--mount", "chroot", root, "/memwhy", *words)


# ---- what must come of it ----


def check_report(tap, name, done, kind, version):
    if not tap.equal((done.returncode, done.stderr), (0, ""), f"{name}: succeeds quietly"):
        return None
    report = json.loads(done.stdout)
    tap.equal(account_sum(report), report["rss_bytes"], f"{name}: the account adds up")
    tap.ok(report["unknown_bytes"] <= report["rss_bytes"] * 3 // 100,
           f"{name}: at most 3 % of it unknown", report["unknown_bytes"])
    found = [(one["kind"], one["walked"], one["reconciled"]) for one in report["allocators"]]
    if not tap.equal(found, [(kind, True, True)], f"{name}: {kind} walked and reconciled"):
        return None
    heap = report["allocators"][0]
    if version:
        tap.equal(heap["version"], version, f"{name}: its version")
    held = BLOCKS - FREED
    tap.ok(held <= heap["in_use_count"] <= held + 4, f"{name}: the blocks that the program holds",
           heap["in_use_count"])
    return report


def may_follow_map_files():
    """Are we CAP_SYS_ADMIN to the kernel, too, and not just in a user namespace?"""
    folder = "/proc/self/map_files"
    try:
        os.stat(os.path.join(folder, os.listdir(folder)[0]))
    except OSError:
        return False
    return True


def check_contained(tap, name, root, kind, version):
    with contained(root) as pid:
        tap.ok(os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid"),
               f"{name}: the target has a pid namespace of its own")
        outer = check_report(tap, f"{name}, from outside", run(MEMWHY, "report", pid, "--json"),
                             kind, version)
        inner = check_report(tap, f"{name}, from inside",
                             inside(pid, root, "report", "1", "--json"), kind, version)
        if outer and inner:
            tap.equal((inner["target"]["pid"], inner["target"]["exe"]), (1, "/app"),
                      f"{name}: inside it is pid 1, /app")
            if not may_follow_map_files():
                # A glibc's exact version comes from its file. The path is one of the other mount
                # namespace, whose root is not the target's: without map_files it is not found, and
                # the version is the range that the layout tells.
                for report in (inner, outer):
                    report["allocators"][0].pop("version")
            tap.equal(inner["allocators"], outer["allocators"],
                      f"{name}: inside and outside agree on every figure of the heap")
        done = inside(pid, root, "heap", "1", "--list-blocks")
        tap.equal((done.returncode, len(done.stdout.splitlines()) >= BLOCKS), (0, True),
                  f"{name}: every block is listed inside")
        done = inside(pid, root, "trim", "1")
        wanted = (4, True) if kind == "musl" else (0, False)
        tap.equal((done.returncode, "musl has no malloc_trim" in " ".join(done.stdout.split())),
                  wanted, f"{name}: trim inside")


def musl_static(tap, release, source):
    program = release.compile("app", [source], static=True)
    check_contained(tap, "distroless", root_make("distroless", program), "musl", "mallocng")


def musl_dynamic(tap, release, source):
    program = release.compile("app", [source])
    loader = "/lib/ld-musl-" + os.uname().machine + ".so.1"
    root = root_make("alpine", program, [(release.libc, loader)])
    check_contained(tap, "alpine", root, "musl", release.version)


def glibc_root(tap, source):
    """The same with glibc, whose loader and libraries are that root's own."""
    program = os.path.join(scratch_dir(), "app-glibc")
    done = run("gcc", "-O2", "-fno-builtin-malloc", "-o", program, source)
    if done.returncode:
        raise Skip("gcc cannot build a program")
    root = root_make("debian", program, glibc_libraries(program))
    version = os.confstr("CS_GNU_LIBC_VERSION").split()[1] if may_follow_map_files() else None
    check_contained(tap, "glibc root", root, "glibc", version)


def misleading_root(tap, release, source):
    """A file of the same name outside is another one: nothing may be read from it."""
    program = release.compile("app", [source])
    loader = "/lib/ld-musl-" + os.uname().machine + ".so.1"
    root = root_make("misleading", program, [(release.libc, loader)])
    with contained(root) as pid:
        # The name is not that of the mapped file any more, which is now a deleted one.
        decoy = root + loader + ".new"
        with open(root + loader, "rb") as old, open(decoy, "wb") as new:
            new.write(old.read().replace(release.version.encode(), b"9.9.9"))
        os.rename(decoy, root + loader)
        done = run(MEMWHY, "report", pid, "--json")
        tap.equal(done.returncode, 0, "misleading root: succeeds")
        heap = json.loads(done.stdout)["allocators"][0]
        known = (release.version,) if may_follow_map_files() else (release.version, "mallocng")
        tap.ok(heap["version"] in known,
               "misleading root: nothing is taken from another file", heap["version"])
        tap.equal((heap["walked"], heap["reconciled"]), (True, True),
                  "misleading root: walked all the same")


# ---- users ----


def as_nobody(*words):
    return run("setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", *words)


@contextlib.contextmanager
def started(words):
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, bufsize=0)
    try:
        if process.stdout.readline() != b"ready\n":
            raise Failure(f"{words} is not ready")
        yield process.pid
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def unprivileged(tap, release, source):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skip("needs root and setpriv to become another user")
    program = release.compile("app", [source])
    memwhy = os.path.join(scratch_dir(), "memwhy-of-nobody")
    shutil.copy(MEMWHY, memwhy)
    os.chmod(scratch_dir(), 0o755)
    done = as_nobody(memwhy, "--version")
    if done.returncode:
        raise Skip(f"another user cannot run a file of this folder: {done.stderr.strip()}")
    with started(["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups",
                  program]) as pid:
        check_report(tap, "own process", as_nobody(memwhy, "report", pid, "--json"), "musl",
                     release.version)
    with started([program]) as pid:
        done = as_nobody(memwhy, "report", pid)
        words = " ".join((done.stdout + done.stderr).split())
        tap.equal(done.returncode, 3, "another's process: exit code 3, no access")
        tap.ok("ermission denied" in words or "not permitted" in words or "may not" in words,
               "another's process: what is missing", words)
        tap.ok(f"memwhy doctor {pid}" in words or "sudo memwhy" in words,
               "another's process: the next command to type", words)
        done = as_nobody(memwhy, "doctor", pid)
        words = " ".join((done.stdout + done.stderr).split())
        tap.ok("CAP_SYS_PTRACE" in words or "sudo memwhy" in words,
               "another's process: doctor names the right and a way to get it", words)


def main():
    need_memwhy()
    tap = Tap()
    source = os.path.join(scratch_dir(), "app.c")
    with open(source, "w", encoding="ascii") as file:
        file.write(PROGRAM)

    def in_namespaces(test, *args):
        def one():
            need_namespaces()
            need_static()
            test(tap, *args)
        return one

    try:
        release = musl.releases()[0]
    except Skip as why:
        release = None
        tap.skip("musl roots", str(why))
    if release:
        tap.guard("distroless", in_namespaces(musl_static, release, source))
        tap.guard("alpine", in_namespaces(musl_dynamic, release, source))
        tap.guard("misleading root", in_namespaces(misleading_root, release, source))
        tap.guard("another user", unprivileged, tap, release, source)
    tap.guard("glibc root", in_namespaces(glibc_root, source))
    tap.done()


if __name__ == "__main__":
    sys.exit(main())
