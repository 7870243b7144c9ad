"""github.com/pebbe/zmq4 from the Go proxy, pinned by go.mod and go.sum, linked to the libzmq that pkg-config finds."""
import subprocess
from pathlib import Path

from check import run as output_of
from results import loaded_by, run_one

HERE = Path(__file__).resolve().parent
BUILD_S = 900
PACKAGES = {"zmq4": "github.com/pebbe/zmq4"}


def install(home):
    for name, package in PACKAGES.items():
        output_of(["go", "test", "-c", "-o", home / f"{name}.test", package], cwd=HERE, timeout=BUILD_S)


def library(home, env):
    return loaded_by(home / "zmq4.test", env)


def verdict(name):
    """A skipped test exits with the status of a passed one."""
    return lambda output: "passed" if f"--- PASS: {name} " in output else "skipped"


def run(home, env, wanted):
    program = home / "zmq4.test"
    listing = subprocess.run([program, "-test.list", "."], env=env, capture_output=True, text=True, check=True)
    for name in wanted or listing.stdout.split():
        yield run_one(name, [program, "-test.v", "-test.run", f"^{name}$"], home, env, verdict(name))
