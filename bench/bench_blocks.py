"""`blocks` on cores, beside `cat` of the same warm file: groups and repeated text of five million
blocks; the words of one size of them, and of incident 1's shape, 42,231 blocks of 3,392 bytes among
a million others. Every answer is checked.

BENCH_BLOCKS: blocks for each of 8 threads, 1,250,000 unless set, of which half are freed.
"""
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import benchlib

THREADS = 8
BLOCKS = int(os.environ.get("BENCH_BLOCKS", "1250000"))
RECORDS, OTHERS = 42231, 1000000
RUNS = 5
PEAK_MIB = 140
# In runs of cat: the walk alone is one, and reading blocks all over the core another two.
RATIO = {"groups": 8.0, "fields": 5.0, "records": 10.0}


def core_of(folder, *command):
    """What the program said, and the core that it left; None when the kernel writes none here."""
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
    child = subprocess.Popen([*map(str, command), "abort"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True, cwd=folder)
    said = child.stdout.readline().split()
    child.communicate("\n")
    found = [path for path in Path(folder).iterdir() if path.name.startswith("core")]
    return [int(word) for word in said], (found[0] if found else None)


def timed(command):
    started = time.monotonic()
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    return 1e3 * (time.monotonic() - started), out


def bench(what, core, arguments, check, ratio):
    """Median of RUNS beside cat, taken in turns."""
    cats, ours = [], []
    command = [benchlib.MEMWHY, "blocks", core, *arguments, "--json"]
    for _ in range(RUNS):
        started = time.monotonic()
        with open("/dev/null", "wb") as null:
            subprocess.run(["cat", core], stdout=null, check=True)
        cats.append(1e3 * (time.monotonic() - started))
        took, out = timed(command)
        ours.append(took)
        check(json.loads(out))
    cat = statistics.median(cats[1:])
    benchlib.row(what, "ms", statistics.median(ours[1:]), {"cat": cat}, ratio * cat)
    benchlib.row(f"{what}: peak resident", "MiB", benchlib.measure(command, 2).peak_mib, {},
                 PEAK_MIB)


def many(folder):
    said, core = core_of(folder, benchlib.BUILD / "bench/manyblocks", THREADS, BLOCKS, "ascending")
    if not core:
        benchlib.skip("the kernel writes no core into the working directory here")
    held = said[1]

    def check_groups(document):
        count = sum(group["count"] for group in document["groups"])
        benchlib.check("groups: every block", 0 <= count - held <= 4 * THREADS, count - held)
        # a fill of one byte is text when that is printable: 95 of 256 are, and the ends of lines
        share = document["strings"]["text_count"] / held
        benchlib.check("groups: blocks with text", 0.37 < share < 0.40, share)

    def check_fields(document):
        fields = document["fields"]
        benchlib.check("fields: each word", len(fields) == 33, len(fields))
        benchlib.check("fields: of all blocks", {field["count"] for field in fields} ==
                       {group["count"] for group in document["groups"]}, fields[0]["count"])
        # the fill is one byte in all words but the last, and 256 kinds of them; libc has a block
        benchlib.check("fields: values", 256 <= fields[1]["distinct"] <= 258,
                       fields[1]["distinct"])

    bench("5 million blocks: groups and text", core, (), check_groups, RATIO["groups"])
    bench("5 million blocks: words of one size", core, ("--size", "264", "--fields"), check_fields,
          RATIO["fields"])
    core.unlink()


def records(folder):
    core = core_of(folder, benchlib.BUILD / "bench/records", RECORDS, OTHERS)[1]

    def check(document):
        at = {field["offset"]: field for field in document["fields"]}
        benchlib.check("records: all of them", document["groups"][0]["count"] == RECORDS,
                       document["groups"][0]["count"])
        benchlib.check("records: the constant", at[0x30]["constant"] == "0x1f800010001f",
                       at[0x30]["constant"])
        benchlib.check("records: 82 values", at[0x98]["distinct"] == 82, at[0x98]["distinct"])
        benchlib.check("records: one to each", at[0xa0]["distinct_is_lower_bound"] and
                       at[0xa0]["max"] == hex(RECORDS - 1), at[0xa0]["max"])
        kinds = {at[offset]["kind"] for offset in range(0x1a0, 0x2a0, 8)}
        benchlib.check("records: noise", kinds == {"random"}, kinds)
        zeros = sum(field["kind"] == "zero" for field in document["fields"])
        benchlib.check("records: zeros", zeros == 425 - 35, zeros)

    bench("42,231 records: words", core, ("--size", "3400", "--fields"), check, RATIO["records"])
    core.unlink()


def main():
    subprocess.run(["ninja", "-C", benchlib.BUILD, "bench/manyblocks", "bench/records",
                    "bench/measure", "memwhy"], check=True, stdout=subprocess.DEVNULL)
    folder = tempfile.mkdtemp(prefix="memwhy-bench-", dir=os.environ.get("BENCH_DIR"))
    try:
        many(folder)
        records(folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
