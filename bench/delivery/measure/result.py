"""result: figures, and the runs that they come from."""

from dataclasses import dataclass

from harness import turns
from harness.figures import Spread
from harness.turns import show


@dataclass(frozen=True)
class Figure:
    """A row: the measurement of one side."""

    case: str
    side: str
    durable: str  # what the sender and the receiver have on the disk
    spread: Spread | None  # None: no run gave a result
    unit: str
    cpu: Spread | None = None  # CPU seconds per million messages, of all processes
    why: str = ""  # the reason if there is no result

    def cells(self):
        if self.spread is None:
            return (self.case, self.side, self.durable, f"no result: {self.why}", "", "0", "")
        low, high = show(self.spread.low, self.unit), show(self.spread.high, self.unit)
        return (
            self.case,
            self.side,
            self.durable,
            f"{show(self.spread.median, self.unit)} {self.unit}",
            f"{low}..{high}" if len(self.spread.values) > 1 else "",
            str(len(self.spread.values)),
            f"{self.cpu.median:.2f}" if self.cpu else "",
        )


class Turns(turns.Turns):
    def figure(self, case, name, durable, value, unit, messages=None):
        cpu = self.spread(name, lambda found: found["cpu_s"] / messages * 1e6) if messages else None
        why = self.why.get(name, "")
        return Figure(case, name, durable, self.spread(name, value), unit, cpu, why)
