"""turns: sides that run in turn, and the bars that their figures must reach."""

from dataclasses import dataclass, field

from . import trial
from .figures import Spread, pair_ratios
from .table import short


@dataclass(frozen=True)
class Bar:
    """The value that a figure must reach."""

    case: str
    measured: Spread | None  # None: there is no result
    unit: str
    bar: float | None  # None: there is none
    aim: float | None = None
    most: bool = False  # the bar is an upper bound

    def holds(self, against):
        if self.measured is None or against is None:
            return False
        value = self.measured.median
        return value <= against if self.most else value >= against

    @property
    def verdict(self):
        if self.measured is None:
            return "no result"
        if self.bar is not None and not self.holds(self.bar):
            return "MISS"
        return "aim" if self.holds(self.aim) else "" if self.bar is None else "pass"

    def cells(self):
        sign = "≤" if self.most else "≥"
        bar, aim = (
            "" if value is None else f"{sign} {show(value, self.unit)} {self.unit}" for value in (self.bar, self.aim)
        )
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


def verdict(results):
    """The last line of a run, and whether all went well. A figure without a spread is that of a run that failed."""
    missed = [bar.case for result in results for bar in result.bars if bar.verdict in ("MISS", "no result")]
    broken = any(figure.spread is None for result in results for figure in result.figures)
    bars = any(result.bars for result in results)
    if missed or broken:
        return f"MISSED: {'; '.join(missed) or 'runs failed'}", False
    return "Every bar holds." if bars else "Everything runs.", True
