#!/usr/bin/env python3
# timeout: 600
"""`memwhy report` on real programs from Debian, and on a .NET program.

Prints TAP. Words on the command line choose tests by parts of their names,
e.g. "Redis" or "unknown". A target that is not on this machine and cannot be
installed is one skipped line with the package's name.
"""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "support")]

import memwhy                                             # noqa: E402
import tap                                                # noqa: E402
from report_checks import for_target                      # noqa: E402

PostgreSQLTest = for_target("postgresql")
RedisTest = for_target("redis")
NginxTest = for_target("nginx")
Python3Test = for_target("python3")
NodeTest = for_target("node")
OpenJDKTest = for_target("openjdk")
DotnetTest = for_target("dotnet")
# A small load here; the incident itself is test_icinga.py.
Icinga2Test = for_target("icinga2", hosts=1000, rounds=1, parallel=20)

if __name__ == "__main__":
    memwhy.require()
    tap.main()
