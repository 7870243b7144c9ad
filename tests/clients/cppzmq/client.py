"""Debian's cppzmq-dev, with the C++ program beside this file, linked to the system's libzmq."""
from pathlib import Path

from check import run as output_of
from results import loaded_by, run_one

HERE = Path(__file__).resolve().parent
TESTS = "version pushPull multipart publish routerDealer poll proxy options shared errors monitor curve".split()


def install(home):
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    output_of(["c++", *flags, "-o", home / "smoke", HERE / "smoke.cpp", "-lzmq"])


def library(home, env):
    return loaded_by(home / "smoke", env)


def run(home, env, wanted):
    for name in wanted or TESTS:
        yield run_one(name, [home / "smoke", name], home, env)
