"""The system's CZMQ: its library exports a test for each class. One process per class, each in its own directory."""
import re
import subprocess
from pathlib import Path

from check import Failure, run as output_of
from results import run_one

CALL = """
import ctypes, sys
getattr(ctypes.CDLL("libczmq.so.4"), sys.argv[1] + "_test")(ctypes.c_bool(False))
"""
MAPS = """
import ctypes
ctypes.CDLL("libczmq.so.4")
print(next(line.split()[-1] for line in open("/proc/self/maps") if "/libzmq" in line))
"""
PYTHON = "/usr/bin/python3"


def install(_home):
    """tools/setup installs it with the system's package manager."""


def library(_home, env):
    return output_of([PYTHON, "-c", MAPS], Path(env["LD_LIBRARY_PATH"])).strip()


def classes():
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libczmq\.so\.4 .*=> (\S+)", listing)
    if not found:
        raise Failure("no libczmq.so.4 (Debian: libczmq4)")
    symbols = output_of(["nm", "-D", "--defined-only", found[1]])
    return sorted(re.findall(r" T (z\w+)_test$", symbols, re.M))


def run(home, env, wanted):
    for name in wanted or classes():
        folder = home / name
        folder.mkdir(exist_ok=True)
        yield run_one(name, [PYTHON, "-c", CALL, name], folder, env)
