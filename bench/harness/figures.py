"""figures: computes medians, ratios and verdicts from rows. Runs no program.

A ratio is the median of the ratios of the pairs, each of two adjacent runs; never the ratio of two medians. The spread
is the smallest and the largest value, and the interquartile range (IQR).
"""

import statistics
from dataclasses import dataclass

from .cases import CPU_AIM


@dataclass(frozen=True)
class Spread:
    median: float
    low: float
    high: float
    iqr: float
    values: tuple

    @staticmethod
    def of(values):
        values = tuple(values)
        if not values:
            return None
        quarters = (
            statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else (values[0],) * 3
        )
        return Spread(statistics.median(values), min(values), max(values), quarters[2] - quarters[0], values)


@dataclass(frozen=True)
class Figures:
    """The results of a case. Values that were not measured are None."""

    case: object
    pairs: int
    value: dict  # side: Spread of the rate (1/s), the p50 (µs) or the bytes
    ratio: Spread | None
    cpu: dict  # side: Spread of CPU seconds per million messages, sender and receiver together
    cpu_ratio: Spread | None
    of_limit: Spread | None  # ratio of ours to the kernel's limit
    p99: dict  # side: Spread, round trips only
    shortest_s: float  # the shortest run of the pairs
    verdict: str  # pass, MISS, "-" (no bar), or "no result"
    cpu_verdict: str
    aim_met: bool | None


def value_keys(case):
    """The keys of a case's value. The largest of several counts, so the bar holds for both ends of a connection."""
    keys = {"round": ("p50_us",), "memory": ("accepted_bytes", "connected_bytes")}
    return keys.get(case.kind, ("rate",))


def by_side(rows, *keys):
    """Returns {side: {round: value}}. A value is the largest of its keys."""
    found = {}
    for row in rows:
        values = [float(row[key]) for key in keys if row[key] not in ("", None)]
        if values:
            found.setdefault(row["side"], {})[row["round"]] = max(values)
    return found


def pair_ratios(found, above, below):
    a, b = found.get(above, {}), found.get(below, {})
    return Spread.of(a[index] / b[index] for index in sorted(a.keys() & b.keys()) if b[index] > 0)


def cpu_per_million(rows):
    return by_side(
        [
            {**row, "cpu": float(row["cpu_s"]) / float(row["messages"]) * 1e6 if row["cpu_s"] != "" else ""}
            for row in rows
        ],
        "cpu",
    )


def spreads(found):
    return {side: Spread.of(values.values()) for side, values in found.items()}


def judge(case, ours, ratio, of_limit):
    if case.bar is None:
        return "-"
    if case.bar.measure == "bytes":
        return "no result" if ours is None else "pass" if ours.median <= case.bar.at_least else "MISS"
    if case.bar.measure == "limit":
        ratio = of_limit
    if ratio is None:
        return "no result"
    good = (
        ratio.median >= case.bar.at_least if case.bar.measure == "rate" else ratio.median <= case.bar.at_least
    )
    return "pass" if good else "MISS"


def judge_cpu(case, ratio):
    if case.cpu_at_most is None or case.kind == "memory":
        return "-"
    if ratio is None:
        return "no result"
    good = ratio.median < 1.0 if case.cpu_at_most == 1.0 else ratio.median <= case.cpu_at_most
    return "pass" if good else "MISS"


def meets_aim(case, ours, ratio, of_limit):
    if case.bar is None or case.bar.aim is None:
        return None
    if case.bar.measure == "bytes":
        return None if ours is None else ours.median <= case.bar.aim
    measured, aim = (of_limit, case.bar.aim_of_limit) if case.bar.aim == "limit" else (ratio, case.bar.aim)
    if measured is None:
        return None
    return measured.median >= aim if case.bar.measure == "rate" else measured.median <= aim


def of_case(case, rows, broken=()):
    """The figures of one case from its rows."""
    found, cpu = by_side(rows, *value_keys(case)), cpu_per_million(rows)
    ratio, of_limit = pair_ratios(found, "ours", "libzmq"), pair_ratios(found, "ours", "limit")
    cpu_ratio, value = pair_ratios(cpu, "ours", "libzmq"), spreads(found)
    verdict, cpu_verdict = judge(case, value.get("ours"), ratio, of_limit), judge_cpu(case, cpu_ratio)
    if broken and verdict == "pass":
        verdict = "MISS"  # the other runs do not make up for a failed one
    return Figures(
        case,
        len(ratio.values) if ratio else 0,
        value,
        ratio,
        spreads(cpu),
        cpu_ratio,
        of_limit,
        spreads(by_side(rows, "p99_us")),
        min((float(row["seconds"]) for row in rows if row["seconds"] != ""), default=0.0),
        verdict,
        cpu_verdict,
        meets_aim(case, value.get("ours"), ratio, of_limit),
    )


def of_all(cases, rows, broken):
    per_case = {}
    for row in rows:
        per_case.setdefault(row["case"], []).append(row)
    return [
        of_case(case, per_case.get(case.name, []), broken.get(case.name, ()))
        for case in cases
        if case.name in per_case or case.name in broken
    ]


def missed(all_figures):
    """The missed bars, as (case name, kind of bar)."""
    out = []
    for figures in all_figures:
        if figures.verdict in ("MISS", "no result"):
            out.append((figures.case.name, "memory" if figures.case.kind == "memory" else "speed"))
        if figures.cpu_verdict in ("MISS", "no result"):
            out.append((figures.case.name, "CPU"))
    return out


def bar_text(bar):
    """The bar in words: "2x", "0.95x of the time", "16 KiB"."""
    if bar is None:
        return ""
    if bar.measure == "bytes":
        return f"{bar.at_least / 1024:g} KiB"
    return f"{bar.at_least:g}x" + (" raw" if bar.measure == "limit" else "")


def aim_text(bar):
    if bar is None or bar.aim is None:
        return ""
    if bar.aim == "limit":
        return "ideal" if bar.measure == "rate" else f"{bar.aim_of_limit:g}x raw"
    if bar.measure == "bytes":
        return f"{bar.aim / 1024:g} KiB"
    return f"{bar.aim:g}x"


CPU_AIM_TEXT = f"{CPU_AIM:g}x"
