"""Results of tests, and tests that run as one process each."""
import subprocess
from dataclasses import dataclass

DEADLINE_S = 120
DETAIL_LINES = 12


@dataclass
class Result:
    name: str
    outcome: str
    detail: str = ""

    @property
    def passed(self):
        return self.outcome == "passed"

    def summary(self):
        return (self.detail.strip().splitlines() or [""])[-1].strip()

    def line(self, client):
        if self.passed:
            return f"ok {client} {self.name}"
        last = self.detail.strip().splitlines()[-DETAIL_LINES:]
        return "\n    ".join([f"FAILED {client} {self.name}: {self.outcome}", *last])


def run_one(name, command, cwd, env, verdict=None):
    """Runs a test as a process. Its exit status decides, and then `verdict` on its output, if given."""
    try:
        done = subprocess.run(
            command, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            text=True, errors="replace", timeout=DEADLINE_S,
        )
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        return Result(name, f"not done after {DEADLINE_S} s", output)
    if done.returncode < 0:
        return Result(name, f"killed by signal {-done.returncode}", done.stdout)
    if done.returncode:
        return Result(name, f"exit {done.returncode}", done.stdout)
    return Result(name, verdict(done.stdout) if verdict else "passed", done.stdout)


def loaded_by(program, env):
    """The libzmq.so.5 that the loader selects for a program."""
    listing = subprocess.run(["ldd", program], env=env, capture_output=True, text=True).stdout
    return next((line.split()[2] for line in listing.splitlines() if "libzmq.so.5 =>" in line), None)
