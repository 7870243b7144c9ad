"""cases: what runs in turn, and the bars."""

from dataclasses import dataclass

from harness import turns
from harness.figures import Spread
from harness.table import short

SEED_RATE = 9614  # erlang-czmq's own figure, messages a second
TRIPS = 20_000


@dataclass(frozen=True)
class Figure:
    case: str
    way: str
    unit: str
    spread: Spread | None
    why: str | None
    cpu: list
    seconds: float

    def cells(self):
        if self.spread is None:
            return (self.case, self.way, self.why or "no result", "", "", "", "")
        show = short if self.unit == "1/s" else lambda value: f"{value:.0f}"
        cpu = " / ".join(f"{value:.2f}" for value in self.cpu)
        each = sum(self.cpu) / (self.spread.median * self.seconds) * 1e6 if self.cpu else 0
        return (
            self.case,
            self.way,
            f"{show(self.spread.median)} {self.unit}",
            f"{show(self.spread.low)}..{show(self.spread.high)}",
            str(len(self.spread.values)),
            cpu,
            f"{each:.2f}" if each else "",
        )


def rate(found):
    return found["rate"]


def figures(case, unit, found, seconds):
    rows = []
    for way in found.found:
        cpus = [run["cpu"] for run in found.found[way].values()]
        cpu = [sum(column) / len(column) for column in zip(*cpus)]
        rows.append(Figure(case, way, unit, found.spread(way, rate), found.why.get(way), cpu, seconds))
    return rows


def streams(octets):
    """The case of one size of messages."""

    def case(run, rounds):
        name = f"{octets} octets"
        pairs = {
            "C to C": ("C", "C"),
            "C to ours, batch": ("C", "batch"),
            "ours to C, batch": ("batch", "C"),
            "ours to ours, batch": ("batch", "batch"),
            "C to ours, one by one": ("C", "each"),
            "ours to C, one by one": ("one", "C"),
            "ours to ours, one by one": ("one", "each"),
            "czmq to czmq": ("czmq", "czmq"),
            "NIF to NIF": ("nif", "nif"),
        }
        sides = {way: lambda pair=pair: run.stream(*pair, octets) for way, pair in pairs.items()}
        sides |= {f"bare port, {way}": lambda way=way: run.bare(way, octets) for way in ("batch", "each")}
        found = turns.Turns(rounds, sides)
        bars = bars_of(found) if octets == 512 else []
        return turns.Result(figures(name, "1/s", found, run.milliseconds / 1000), bars)

    return case


def bars_of(found):
    def of(above, below):
        return found.ratio(above, below, rate)

    batch, each, nif = "bare port, batch", "bare port, each", "NIF to NIF"
    czmq = {number: value / SEED_RATE for number, value in found.of("czmq to czmq", rate).items()}
    return [
        turns.Bar("512 octets, batch, of a bare port", of("ours to ours, batch", batch), "x", 0.15, 0.3),
        turns.Bar("512 octets, batch, of the NIF", of("ours to ours, batch", nif), "x", 3),
        turns.Bar("512 octets, one by one, of a bare port", of("ours to ours, one by one", each), "x", 0.12, 0.25),
        turns.Bar("512 octets, one by one, of the NIF", of("ours to ours, one by one", nif), "x", 1),
        turns.Bar("512 octets, C to ours, batch, of a bare port", of("C to ours, batch", batch), "x", 0.2, 0.4),
        turns.Bar("512 octets, ours to C, batch, of a bare port", of("ours to C, batch", batch), "x", 0.2, 0.4),
        turns.Bar(f"czmq to czmq, of {SEED_RATE:,} a second", Spread.of(czmq.values()), "x", 15, 50),
    ]


def trips(run, rounds):
    """Round trips. A smaller value is better."""
    count = max(run.milliseconds * TRIPS // 2000, 100)
    ways = {"ours": lambda: run.trips(count), "ports that only pass on": lambda: run.bare_trips(count)}
    found = turns.Turns(rounds, ways)
    ratio = found.ratio("ours", "ports that only pass on", rate)
    bar = turns.Bar("round trip, of ports that only pass on", ratio, "x", 3, 2, most=True)
    return turns.Result(figures("round trip", "µs", found, 0), [bar])


CASES = {"512": streams(512), "8": streams(8), "16384": streams(16384), "trips": trips}
