#!/usr/bin/python3
"""The peer against itself: its codec with the vectors, client with server, each switch, and the command lines.

    tests/filemq/test.py [--library DIR] [--pinnace COMMAND] [WORD...]

With COMMAND, the built `pinnace`, its server and client run against the peer instead.
DIR contains the libzmq.so.5 to run on (default: the loader's). Each WORD selects the behaviours with the word in their
names. Without pyzmq in this Python, the one that `tests/clients/run --install pyzmq` has installed runs the tests.
"""
from __future__ import annotations

import argparse
import importlib.util
import os
import sys
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PYTHON = ROOT / "target/clients/pyzmq/venv/bin/python"
LIBRARY = "FILEMQ_LIBRARY"


def start_with_pyzmq(library: Path | None) -> None:
    """Runs this program again if the library or the interpreter is another one."""
    python = sys.executable if importlib.util.find_spec("zmq") else str(PYTHON)
    if not Path(python).exists():
        sys.exit("tests/filemq: pyzmq is missing; tests/clients/run --install pyzmq installs it")
    wanted = str(library.resolve()) if library else os.environ.get(LIBRARY, "")
    if python != sys.executable or wanted != os.environ.get(LIBRARY, ""):
        env = {**os.environ, LIBRARY: wanted}
        if wanted:
            env["LD_LIBRARY_PATH"] = wanted
        os.execve(python, [python, *sys.argv], env)


def in_a_place(behaviour: Callable[..., None]) -> None:
    from filemq.place import Place
    with Place() as place:
        behaviour(place)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--library", type=Path)
    options.add_argument("--pinnace", type=Path, metavar="COMMAND")
    options.add_argument("words", nargs="*")
    given = options.parse_args()
    start_with_pyzmq(given.library)
    sys.dont_write_bytecode = True
    # The directory of a script comes first in the path, and its modules would hide others.
    sys.path[:1] = [str(ROOT / "tests"), str(ROOT / "tools")]
    from check import Checks
    from filemq import codec, commands, pinnace, protocol, served, switched, watched

    checks = Checks()
    behaviours = (*protocol.BEHAVIOURS, *switched.BEHAVIOURS, *commands.BEHAVIOURS)
    if given.pinnace:
        os.environ[pinnace.COMMAND] = str(given.pinnace.resolve())
        behaviours = (*served.BEHAVIOURS, *watched.BEHAVIOURS)
    for name, check in () if given.pinnace else codec.CHECKS.items():
        if not given.words or any(word in name for word in given.words):
            checks.check(name, check)
    for behaviour in behaviours:
        name = behaviour.__name__.replace("_", " ")
        if not given.words or any(word in name for word in given.words):
            checks.check(name, in_a_place, behaviour)
    checks.finish()


main()
