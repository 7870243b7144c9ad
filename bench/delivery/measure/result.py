"""result: figures, bars, and the order of runs."""

from dataclasses import dataclass, field

from harness import trial
from harness.figures import Spread, pair_ratios
from harness.table import short


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


@dataclass(frozen=True)
class Bar:
    """The value that a figure must reach."""

    case: str
    measured: Spread | None  # None: there is no result
    unit: str
    bar: float
    aim: float
    most: bool = False  # the bar is an upper bound

    def holds(self, against):
        if self.measured is None:
            return False
        value = self.measured.median
        return value <= against if self.most else value >= against

    @property
    def verdict(self):
        if self.measured is None:
            return "no result"
        return "MISS" if not self.holds(self.bar) else "aim" if self.holds(self.aim) else "pass"

    def cells(self):
        sign = "≤" if self.most else "≥"
        bar, aim = (f"{sign} {show(value, self.unit)} {self.unit}" for value in (self.bar, self.aim))
        value = f"{show(self.measured.median, self.unit)} {self.unit}" if self.measured else "no result"
        span = ""
        if self.measured and len(self.measured.values) > 1:
            span = f"{show(self.measured.low, self.unit)}..{show(self.measured.high, self.unit)}"
        return (self.case, value, span, bar, aim, self.verdict)


@dataclass
class Result:
    figures: list = field(default_factory=list)
    bars: list = field(default_factory=list)
    notes: list = field(default_factory=list)


def show(value, unit):
    if unit in ("1/s", "B"):
        return short(value)
    return f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


class Turns:
    """Sides that run in turn: in every round each once, each round another one first. A side that fails does not run
    again."""

    def __init__(self, rounds, sides):
        self.found, self.why = {name: {} for name in sides}, {}
        names = list(sides)
        for number in range(rounds):
            at = number % len(names)
            for name in names[at:] + names[:at]:
                if name in self.why:
                    continue
                try:
                    self.found[name][number] = sides[name]()
                except trial.Failed as failed:
                    self.why[name] = str(failed)
                    self.found[name] = {}

    def of(self, name, value):
        """The value of each run of a side, by round."""
        return {number: value(found) for number, found in self.found[name].items()}

    def spread(self, name, value):
        return Spread.of(self.of(name, value).values())

    def ratio(self, above, below, value):
        """The value of one side divided by that of another, round by round."""
        return pair_ratios({name: self.of(name, value) for name in (above, below)}, above, below)

    def figure(self, case, name, durable, value, unit, messages=None):
        cpu = self.spread(name, lambda found: found["cpu_s"] / messages * 1e6) if messages else None
        why = self.why.get(name, "")
        return Figure(case, name, durable, self.spread(name, value), unit, cpu, why)
