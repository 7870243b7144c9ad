"""Shared by the test scripts: named checks, which print a line each, and the final line that `make test` adds up."""
import os
import re
import subprocess
import sys
from pathlib import Path

DEADLINE_S = 120


class Failure(Exception):
    """A check did not find what it expected."""


def expect(truth, what):
    if not truth:
        raise Failure(what)


def run(command, library=None, timeout=DEADLINE_S, cwd=None, **more_env):
    """Runs a program, with LD_LIBRARY_PATH set to the folder `library`. Returns its output; a Failure contains it."""
    env = {**os.environ, **{k: str(v) for k, v in more_env.items()}}
    if library:
        env["LD_LIBRARY_PATH"] = str(library)
    command = [str(word) for word in command]
    try:
        done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired as late:
        raise Failure(f"{' '.join(command)}: not done after {timeout} s\n{late.stdout or b''}") from None
    if done.returncode:
        raise Failure(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def system_library():
    """The libzmq.so.5 that the loader finds on the system, unless it is our own. None if there is none."""
    listing = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    for path in re.findall(r"libzmq\.so\.5 .*=> (\S+)", listing):
        if b"pinnace_version" not in Path(path).read_bytes():
            return Path(path)
    return None


def results(output):
    """The `result key=value ...` lines of an example's output, as one dictionary."""
    lines = [line.split()[1:] for line in output.splitlines() if line.startswith("result ")]
    return dict(pair.split("=", 1) for line in lines for pair in line)


class Checks:
    """Runs checks and counts them; the process ends with finish()."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, function, *arguments, **named):
        try:
            function(*arguments, **named)
        except (Failure, OSError) as problem:
            self.failed += 1
            print(f"FAILED {name}: {problem}", flush=True)
        else:
            self.passed += 1
            print(f"ok {name}", flush=True)

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed")
        sys.exit(1 if self.failed else 0)
