"""Every real program that memwhy is tried on, by name.

Each is a context manager; see target.py for what it offers and how to add
one:

    with targets.TARGETS["redis"]() as target:
        print(target.pid)
"""

from process import TargetError, Unavailable
from target import Target
from target_icinga import Icinga2
from target_runtimes import Dotnet, Node, OpenJDK, Python3
from target_servers import Nginx, PostgreSQL, Redis

TARGETS = {cls.name: cls for cls in (
    PostgreSQL, Redis, Nginx, Python3, Node, OpenJDK, Dotnet, Icinga2)}

__all__ = ["TARGETS", "Target", "TargetError", "Unavailable"]
