"""C libraries other than the system's: where they are, how to get them, programs for them.

A Libc says how a program is started on it. They are found
  - in the folders of MATRIX_ROOTS (separated by ":"): each sub-folder that holds a loader and a
    libc.so.6, in the places where packages have them, or side by side;
  - in build/matrix/roots-ARCH, filled from the packages libc6 and libc6-dev of those Debian suites that
    the mirror in the system's own apt sources has. Suites move, so a package is chosen by its
    version; the system's package lists and state stay as they are.
A program that was linked with the system's C library runs on the same or a newer one. For older
ones it is linked anew with the oldest libc6-dev that was found. A static form needs the archive of
the release itself. Programs for another processor are made by a cross compiler and run by qemu's
user-mode emulation; the C library of the cross compiler stands for the system's there.

To add a C library: a row in ROWS of matrix.py; for another kind of it a function in FINDERS here that
returns its Libc.
"""

import collections
import glob
import os
import re
import shlex
import shutil
import subprocess

import musl
from harness import FIXTURES, ROOT, Skip

WORK = os.path.join(ROOT, "build", "matrix")
SOURCES = os.path.join(ROOT, "tests", "fixtures")
SUITES = ("oldoldstable", "oldstable", "stable", "testing", "experimental")
MORE_SUITES = ("unstable",)  # large, and rarely has what the others have not
PROGRAMS = {
    "heapshape": ("heapshape", "shapes_common", "shapes_small", "shapes_large", "shapes_split", "fx",
                  "fx_io"),
    "leaks": ("leaks", "leaks_record", "leaks_graphs", "leaks_heap", "leaks_roots", "leaks_kinds",
              "fx", "fx_io"),
}
STATIC_PROGRAMS = ("heapshape",)
COMPILE = "-std=gnu17 -O2 -g -fno-builtin-malloc -fPIE -D_GNU_SOURCE -w".split()
FETCH_SECONDS = 240
Arch = collections.namedtuple("Arch", "name debian triplet loader compiler emulator sysroot")
X86_64 = Arch("x86_64", "amd64", "x86_64-linux-gnu", "ld-linux-x86-64.so.2",
              tuple(shlex.split(os.environ.get("CC", "gcc"))), (), "")
AARCH64 = Arch("aarch64", "arm64", "aarch64-linux-gnu", "ld-linux-aarch64.so.1",
               ("aarch64-linux-gnu-gcc",), ("qemu-aarch64",), "/usr/aarch64-linux-gnu")


class Libc:
    """A C library; version is a pair of numbers, or three."""

    def __init__(self, version, source, starts_with, programs, arch=X86_64):
        self.version, self.source, self.arch = version, source, arch
        self.starts_with = starts_with  # words before a program's path
        self.programs = programs        # directory of the programs that run on it

    def command(self, program):
        """The words that start a program of it."""
        words = self.arch.emulator if program.endswith("-static") else self.starts_with
        return [*words, os.path.join(self.programs, program)]


def run(words, timeout=FETCH_SECONDS, cwd=None):
    """Runs to its end; returns what it printed. Skip when it fails or is not there."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=timeout, cwd=cwd,
                              stdin=subprocess.DEVNULL, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Skip(f"{words[0]}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no reason given"]
        raise Skip(f"{words[0]}: {lines[-1]}")
    return done.stdout


def pair(text):
    return tuple(int(part) for part in text.split(".")[:2])


def numbers(text):
    """All that a version begins with: "1.2.5-3" -> (1, 2, 5)."""
    return tuple(int(part) for part in re.match(r"\d+(\.\d+)*", text).group().split("."))


def system_version(arch=X86_64):
    """Of the C library that the compiler of arch links with."""
    if arch is X86_64:
        return pair(os.confstr("CS_GNU_LIBC_VERSION").split()[1])
    for word in (*arch.emulator, arch.compiler[0]):
        if not shutil.which(word):
            raise Skip(f"{word} is not installed")
    libc = os.path.join(arch.sysroot, "lib", "libc.so.6")
    if not os.path.exists(libc):
        raise Skip(f"no C library for {arch.name}")
    return version_of(libc)


def places(arch):
    """Where packages and builds have libraries, below a root."""
    return ("", f"lib/{arch.triplet}", f"usr/lib/{arch.triplet}", "lib64", "usr/lib64")


def development(root, arch):
    """The directory of start files, and archives."""
    return os.path.join(root, "usr/lib", arch.triplet)


# ---- what is there ----


def version_of(libc):
    """From the banner in the file; None when it has none."""
    with open(libc, "rb") as file:
        found = re.search(rb"release version (2\.\d+)", file.read())
    return pair(found.group(1).decode()) if found else None


def folders_find(arch):
    """{version: (folder of loader and libc.so.6, root)}."""
    found = {}
    tops = [top for top in os.environ.get("MATRIX_ROOTS", "").split(":") if top]
    for top in [*tops, os.path.join(WORK, f"roots-{arch.debian}")]:
        for root in sorted(glob.glob(os.path.join(top, "*")) + glob.glob(f"{top}/*/root")):
            for place in places(arch):
                folder = os.path.abspath(os.path.join(root, place))
                if not all(os.path.exists(os.path.join(folder, name))
                           for name in ("libc.so.6", arch.loader)):
                    continue
                version = version_of(os.path.join(folder, "libc.so.6"))
                if version and (version not in found
                                or not has_development(found[version][1], arch)):
                    found[version] = (folder, root)
    return found


def has_development(root, arch):
    return all(os.path.exists(os.path.join(development(root, arch), name))
               for name in ("crt1.o", "Scrt1.o", "libc_nonshared.a"))


# ---- packages ----


def mirror():
    """(URI, suite) of the system's Debian archive, as apt has it configured."""
    text = run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(SUITE)",
                "Created-By: Packages"])
    rows = [line.split() for line in text.splitlines()]
    debian = [row for row in rows if len(row) == 2 and row[0].rstrip("/").endswith("/debian")]
    if not debian:
        raise Skip("apt has no Debian archive configured")
    return debian[0]


def keyring():
    for name in ("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"):
        path = os.path.join("/usr/share/keyrings", name)
        if os.path.exists(path):
            return f"[signed-by={path}] "
    return ""


def apt_prepare(debian, suites):
    """A package state of our own that has these suites; returns apt's options for it."""
    state = os.path.join(WORK, f"apt-{debian}")
    for folder in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(state, folder), exist_ok=True)
    (uri, own), trust = mirror(), keyring()
    with open(os.path.join(state, "list"), "w", encoding="utf-8") as file:
        for suite in suites:
            if suite != own or debian != X86_64.debian:  # that libc is there already
                file.write(f"deb {trust}{uri} {suite} main\n")
    with open(os.path.join(state, "status"), "w", encoding="utf-8"):
        pass
    settings = {
        "Dir::Etc::sourcelist": f"{state}/list", "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": f"{state}/lists", "Dir::State::status": f"{state}/status",
        "Dir::Cache": f"{state}/cache", "APT::Architecture": debian, "APT::Architectures": debian,
        "Acquire::Languages": "none", "APT::Sandbox::User": "root", "Acquire::Retries": "2",
        "Acquire::http::Timeout": "20", "Acquire::Check-Valid-Until": "false",
    }
    return [word for key, value in settings.items() for word in ("-o", f"{key}={value}")]


def packages_list(options, package, parts):
    """{version of so many numbers: package version} of all suites."""
    run(["apt-get", *options, "update"])
    rows = run(["apt-cache", *options, "madison", package]).splitlines()
    names = [row.split("|")[1].strip() for row in rows]
    return {numbers(name)[:parts]: name for name in reversed(names)}


def packages_fetch(versions, arch, packages=("libc6", "libc6-dev"), kind="debian"):
    """Fetches and unpacks the packages of each version that a suite has, into a folder of that kind;
    returns {version: why not} of the others."""
    missing, parts = {}, len(versions[0])
    try:
        options = apt_prepare(arch.debian, SUITES)
        known = packages_list(options, packages[0], parts)
        if not known or any(version not in known and version > min(known) for version in versions):
            options = apt_prepare(arch.debian, SUITES + MORE_SUITES)
            known = packages_list(options, packages[0], parts)
    except Skip as why:
        return {version: str(why) for version in versions}
    for version in versions:
        if version not in known:
            missing[version] = "no Debian suite has it"
            continue
        folder = os.path.join(WORK, f"roots-{arch.debian}", f"{kind}-{known[version]}")
        part = f"{folder}.part"
        shutil.rmtree(part, ignore_errors=True)
        os.makedirs(part)
        try:
            run(["apt-get", *options, "download",
                 *(f"{name}={known[version]}" for name in packages)], cwd=part)
            for package in glob.glob(os.path.join(part, "*.deb")):
                run(["dpkg-deb", "-x", package, part])
                os.unlink(package)
            os.rename(part, folder)
        except (Skip, OSError) as why:
            missing[version] = str(why)
    return missing


# ---- programs ----


def compiler_file(arch, name):
    return run([*arch.compiler, f"-print-file-name={name}"]).strip()


def objects_compile(arch):
    """{program: its object files}, for any libc."""
    folder = os.path.join(WORK, f"objects-{arch.name}")
    os.makedirs(folder, exist_ok=True)
    made = {}
    for name in sorted(set().union(*PROGRAMS.values())):
        source, made[name] = os.path.join(SOURCES, f"{name}.c"), os.path.join(folder, f"{name}.o")
        run([*arch.compiler, *COMPILE, "-c", source, "-o", made[name]])
    return {program: [made[name] for name in names] for program, names in PROGRAMS.items()}


def link(arch, version, root, objects, program, is_static=False):
    """Links with the C library under root and nothing of the system's."""
    folder = development(root, arch)
    start, begin, end = (("crt1.o", "crtbeginT.o", "crtend.o") if is_static
                         else ("Scrt1.o", "crtbeginS.o", "crtendS.o"))
    words = [*arch.compiler, "-nostdlib", "-static" if is_static else "-pie", "-o", program,
             os.path.join(folder, start), os.path.join(folder, "crti.o"),
             compiler_file(arch, begin), *objects]
    if is_static:
        words += ["-Wl,--start-group", *archives(folder), compiler_file(arch, "libgcc.a"),
                  compiler_file(arch, "libgcc_eh.a"), "-Wl,--end-group"]
        if version < (2, 35):  # the compiler's unwinder wants it; the programs never unwind
            words.append("-Wl,--defsym=_dl_find_object=abort")
    else:
        libraries = [os.path.join(root, place) for place in places(arch)]
        shared = [find(libraries, name)
                  for name in ("libpthread.so.0", "libdl.so.2", "libc.so.6", arch.loader)]
        words += ["-Wl,-z,now", *filter(None, shared), os.path.join(folder, "libc_nonshared.a"),
                  compiler_file(arch, "libgcc.a")]
    run([*words, compiler_file(arch, end), os.path.join(folder, "crtn.o")])


def archives(folder):
    # Whole: a static program takes weak references of libpthread (up to 2.33) for absent else.
    threads = os.path.join(folder, "libpthread.a")
    whole = ["-Wl,--whole-archive", threads, "-Wl,--no-whole-archive"]
    return [*(whole if os.path.exists(threads) else []), os.path.join(folder, "libc.a")]


def find(folders, name):
    paths = (os.path.join(folder, name) for folder in folders)
    return next((path for path in paths if os.path.exists(path)), None)


def programs_make(arch, version, root, linked, objects):
    """A directory with the programs for that version, linked with the C library under linked when
    the compiler's is newer; static ones where it has the archive."""
    folder = os.path.join(WORK, "programs-{}-{}.{}".format(arch.name, *version))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for name, files in objects.items():
        program = os.path.join(folder, name)
        if version >= system_version(arch):
            run([*arch.compiler, "-pie", "-Wl,-z,now", "-o", program, *files, "-pthread", "-ldl"])
        elif linked is None:
            raise Skip("no libc6-dev as old as that to link programs with")
        else:
            link(arch, version, linked, files, program)
    if has_development(root, arch) and find([development(root, arch)], "libc.a"):
        try:
            for name in STATIC_PROGRAMS:
                link(arch, version, root, objects[name], os.path.join(folder, f"{name}-static"),
                     is_static=True)
        except Skip as why:
            print("# no static program for {}.{}: {}".format(*version, why), flush=True)
    return folder


def system_libc(arch):
    """The compiler's own C library."""
    version = system_version(arch)
    if arch is X86_64:
        return Libc(version, "the system's", [], FIXTURES)
    folder = os.path.join(WORK, f"programs-{arch.name}")
    os.makedirs(folder, exist_ok=True)
    for name, files in objects_compile(arch).items():
        program = os.path.join(folder, name)
        run([*arch.compiler, "-pie", "-Wl,-z,now", "-o", program, *files, "-pthread", "-ldl"])
        if name in STATIC_PROGRAMS:
            run([*arch.compiler, "-static", "-o", program + "-static", *files, "-pthread"])
    return Libc(version, "the cross compiler's", [*arch.emulator, "-L", arch.sysroot], folder, arch)


def libcs_of_arch(arch, versions, fetch):
    """{version: Libc or a text why there is none}. The system's own is one of them whatever the
    folders have."""
    own, found, missing = system_version(arch), folders_find(arch), {}
    wanted = [version for version in versions if version != own and version not in found]
    if fetch and wanted:
        missing = packages_fetch(wanted, arch)
        found = folders_find(arch)
    with_development = [version for version in found if has_development(found[version][1], arch)]
    oldest = min((version for version in with_development if version < own), default=None)
    result, objects = {}, None
    for version in versions:
        try:
            if version == own:
                result[version] = system_libc(arch)
                continue
            if version not in found:
                raise Skip(missing.get(version, "not in MATRIX_ROOTS"))
            objects = objects or objects_compile(arch)
            folder, root = found[version]
            linked = root if version in with_development else oldest and found[oldest][1]
            programs = programs_make(arch, version, root, linked, objects)
            words = [*arch.emulator, os.path.join(folder, arch.loader), "--library-path", folder]
            result[version] = Libc(version, source_of(root), words, programs, arch)
        except Skip as why:
            result[version] = str(why)
    return result


def glibcs_find(arch, versions, fetch):
    try:
        return libcs_of_arch(arch, versions, fetch)
    except Skip as why:  # no compiler or emulator for it
        return {version: str(why) for version in versions}


# ---- musl ----


def musl_roots(arch):
    """{version: musl.Musl} of the system and of the folders."""
    tops = [top for top in os.environ.get("MATRIX_ROOTS", "").split(":") if top]
    tops.append(os.path.join(WORK, f"roots-{arch.debian}"))
    found = {}
    for root in ["/", *(root for top in tops for root in sorted(glob.glob(os.path.join(top, "*"))))]:
        try:
            release = musl.Musl(root)
            found.setdefault(numbers(release.version), release)
        except Skip:
            continue
    return found


def musl_libc(version, release, arch):
    """Its programs, in a folder as programs_make() makes it for a glibc."""
    folder = os.path.join(WORK, "programs-{}-musl-{}".format(arch.name, release.version))
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for is_static in (False, True):
        made = release.fixture("heapshape", *musl.HEAPSHAPE, static=is_static)
        shutil.copy(made, os.path.join(folder, "heapshape" + ("-static" if is_static else "")))
    root = os.path.basename(release.root)
    packaged = f"Debian's musl {root[len('musl-'):]}" if root.startswith("musl-") else "a folder"
    return Libc(version, "the system's" if release.root == "/" else packaged, [], folder, arch)


def musls_find(arch, versions, fetch):
    found, missing = musl_roots(arch), {}
    wanted = [version for version in versions if version not in found]
    if fetch and wanted:
        missing = packages_fetch(wanted, arch, ("musl", "musl-dev"), "musl")
        found = musl_roots(arch)
    return {version: musl_libc(version, found[version], arch) if version in found
            else missing.get(version, "not in MATRIX_ROOTS, and musl-tools is not installed")
            for version in versions}


# kind of a row: function(arch, versions, fetch) that returns {version: Libc or a text}
FINDERS = {"glibc": glibcs_find, "musl": musls_find}


def libcs_find(rows, fetch=True):
    """{row: Libc or a text why there is none}."""
    found = {}
    for kind, arch in sorted({(row.kind, row.arch) for row in rows}):
        same = [row for row in rows if (row.kind, row.arch) == (kind, arch)]
        by_version = FINDERS[kind](arch, [row.version for row in same], fetch)
        found.update((row, by_version[row.version]) for row in same)
    return found


def source_of(root):
    name = os.path.basename(root)
    if name.startswith("debian-"):
        return f"Debian's libc6 {name[len('debian-'):]}"
    packaged = glob.glob(os.path.join(root, "usr/share/doc/libc6/changelog.Debian.gz"))
    return "a package of Debian" if packaged else "built from its tag"
