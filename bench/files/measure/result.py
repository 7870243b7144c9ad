"""result: figures with the CPU seconds and the memory of both sides, and the runs that they come from."""

import copy
from dataclasses import dataclass

from harness import turns
from harness.figures import Spread
from harness.turns import Bar, show

SIDES = ("sender", "receiver")


@dataclass(frozen=True)
class Figure:
    """A row: the measurement of one way."""

    case: str
    way: str
    spread: Spread | None  # None: no run gave a result
    unit: str
    cpu_s: dict  # Spread by side, in seconds; without a sender of its own there is only the receiver's
    peak_mib: dict  # likewise
    why: str = ""  # the reason if there is no result

    def cells(self):
        if self.spread is None:
            return (self.case, self.way, f"no result: {self.why}", "", "0", "", "")
        low, high = show(self.spread.low, self.unit), show(self.spread.high, self.unit)
        return (
            self.case,
            self.way,
            f"{show(self.spread.median, self.unit)} {self.unit}",
            f"{low}..{high}" if len(self.spread.values) > 1 else "",
            str(len(self.spread.values)),
            " / ".join(f"{spread.median:.2f}" for spread in self.cpu_s.values()),
            " / ".join(f"{spread.median:.1f}" for spread in self.peak_mib.values()),
        )


class Turns(turns.Turns):
    def part(self, name):
        """The same runs, of which only one part counts."""
        found = {way: {number: run[name] for number, run in runs.items()} for way, runs in self.found.items()}
        part = copy.copy(self)
        part.found = found
        return part

    def usage(self, way, key):
        """The medians of CPU seconds or memory, by side."""
        found = self.found[way].values()
        sides = [side for side in SIDES if any(side in run for run in found)]
        return {side: Spread.of(run[side][key] for run in found) for side in sides}

    def figure(self, case, way, value, unit):
        cpu_s, peak_mib = self.usage(way, "cpu_s"), self.usage(way, "peak_mib")
        return Figure(case, way, self.spread(way, value), unit, cpu_s, peak_mib, self.why.get(way, ""))

    def memory(self, case, way="ours"):
        """The bar of the memory of both sides of one client."""
        most = self.spread(way, lambda run: max(run[side]["peak_mib"] for side in SIDES))
        return Bar(f"{case}: memory of the larger side", most, "MiB", 32, 16, most=True)
