"""The streaming JSON encoder: a document of 500,000 rows. Its memory must not grow with the rows.

Peers: jansson, which builds the document before it writes it, and Python's json. Both documents are
read back and must be the same.
"""
import json
import subprocess
import sys

import benchlib

ROWS, PEAK_MIB_MAX = 500000, 4.0
PYTHON = ("import json, sys; json.dump([{'size_bytes': i * 16, 'in_use_count': i % 1000003, "
          "'address': hex(0x7f0000000000 + i * 4096), 'name': '/usr/lib/libc.so.6'} "
          "for i in range(ROWS)], sys.stdout)").replace("ROWS", str(ROWS))


def main():
    program = benchlib.BUILD / "bench/json_stream"
    subprocess.run(["ninja", "-C", benchlib.BUILD, "bench/json_stream"], check=True,
                   stdout=subprocess.DEVNULL)
    documents = [json.loads(subprocess.run([program, kind, "20011"], check=True,
                                           stdout=subprocess.PIPE).stdout)
                 for kind in ("ours", "jansson")]
    benchlib.check("both documents are the same", documents[0] == documents[1])
    benchlib.check("every row is there", len(documents[0]) == 20011, len(documents[0]))

    ours = benchlib.measure([program, "ours", str(ROWS)], runs=7)
    small = benchlib.measure([program, "ours", "1000"], runs=7)
    jansson = benchlib.measure([program, "jansson", str(ROWS)], runs=3)
    python = benchlib.measure([sys.executable, "-c", PYTHON], runs=1)
    benchlib.check("every run ended well",
                   ours.codes == jansson.codes == python.codes == [0], ours.codes)
    benchlib.check("memory does not grow with the document",
                   ours.peak_mib - small.peak_mib < 0.5, f"{small.peak_mib} {ours.peak_mib} MiB")
    benchlib.row("wall, 500,000 rows", "ms", ours.wall_ms,
                 {"jansson": jansson.wall_ms, "python json": python.wall_ms})
    benchlib.row("peak resident", "MiB", ours.peak_mib,
                 {"jansson": jansson.peak_mib, "python json": python.peak_mib}, PEAK_MIB_MAX)


if __name__ == "__main__":
    main()
