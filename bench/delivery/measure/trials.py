"""trials: one run of one side, as a dictionary of the pairs that it printed and its CPU seconds."""

import pathlib
import resource
import statistics
import tempfile

from harness import trial

from . import logs, programs

LIMIT_S = 600


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def numbers(value):
    """Parses a list of numbers such as "1,2,3", or a single number."""
    return [int(part) for part in str(value).split(",") if part]


class Runner:
    """Runs the programs. Calls `say` with each command."""

    def __init__(self, built, say):
        self.built, self.say = built, say

    def run(self, side, argv):
        self.say(f"{side}: {' '.join(argv)}")
        cpu = cpu_of_children()
        found = trial.run([str(self.built[side]), *argv], limit_s=LIMIT_S)
        return {**found, "cpu_s": cpu_of_children() - cpu}

    def ours(self, load, look=None, side="ours", **words):
        """A run of ours, or of another build of it, in a temporary directory. `look` is called with the directory
        before it is removed."""
        with tempfile.TemporaryDirectory(prefix="run-", dir=programs.place()) as directory:
            words["dir"] = directory
            found = self.run(side, [load, *(f"{key}={value}" for key, value in words.items())])
            return {**found, **(look(pathlib.Path(directory)) if look else {})}

    def liner(self, load, **words):
        """The CPU seconds are those of liner and of its Redis."""
        cpu = cpu_of_children()
        with programs.redis() as url:
            words["redis"] = url
            found = self.run("liner", [load, *(f"{key}={value}" for key, value in words.items())])
        return {**found, "cpu_s": cpu_of_children() - cpu}

    def libzmq(self, size, count, cycles, pause_ms):
        return self.run("libzmq", [str(word) for word in (size, count, cycles, pause_ms)])


def syncs(directory):
    """The median of the bytes that the sender's log wrote per sync."""
    sizes = logs.sync_sizes(directory / "sender")
    return {"sync_bytes": int(statistics.median(sizes))} if sizes else {}


def cycle_rate(found, count):
    """Messages per second, by the median of a run's cycles."""
    return count / statistics.median(numbers(found["cycles_ns"])) * 1e9


def tenths(found, count):
    """Messages per second of each tenth. The first tenth starts at `first_ns`, if the run has it."""
    times = [found.get("first_ns", 0), *numbers(found["tenths_ns"])]
    return [count / 10 / (end - begin) * 1e9 for begin, end in zip(times, times[1:])]
