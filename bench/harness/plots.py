"""plots: the four pictures of the page, from figures."""

from .cases import CPU_AIM, size_label
from .svg import Drawing, Linear, Log, decades
from .table import short

SIDES = (
    ("limit", "kernel alone"),
    ("libzmq", "libzmq"),
    ("ours", "Pinnace"),
)  # the last one is drawn on top
WIDTH = 940


def throughput(all_figures):
    """Messages per second by size, without encryption: one panel per transport, both axes logarithmic."""
    panels = [
        (transport, [f for f in all_figures if is_plain_stream(f.case) and f.case.transport == transport])
        for transport in ("tcp", "ipc", "shm", "inproc")
    ]
    panels = [(transport, found) for transport, found in panels if found]
    if not panels:
        return ""
    values = [
        value
        for _, found in panels
        for f in found
        for spread in f.value.values()
        for value in (spread.low, spread.high)
    ]
    if not values:
        return ""
    low, high = decade_below(min(values)), decade_above(max(values))
    left, gap, top, bottom, height = 52, 22, 30, 46, 400
    breadth = (WIDTH - left - 8 - gap * (len(panels) - 1)) / len(panels)
    drawing = Drawing(WIDTH, height, "Messages a second by message size")
    rise = Log(low, high, height - bottom, top)
    for index, (transport, found) in enumerate(panels):
        start = left + index * (breadth + gap)
        across = Log(8, 2**20, start + 12, start + breadth - 12)
        throughput_frame(drawing, transport, rise, across, (start, start + breadth), index == 0)
        for side, name in SIDES:
            throughput_series(drawing, found, side, name, across, rise)
    return drawing.render()


def is_plain_stream(case):
    return case.kind == "stream" and case.pattern == "push" and case.security == "null"


def decade_below(value):
    return decades(value / 10, value)[-1]


def decade_above(value):
    return decades(value, value * 10)[0]


def throughput_frame(drawing, transport, rise, across, edges, with_labels):
    start, end = edges
    drawing.text(start, rise.to - 12, transport, "panel")
    for tick in decades(rise.low, rise.high):
        drawing.line(start, rise(tick), end, rise(tick), "grid")
        if with_labels:
            drawing.text(start - 8, rise(tick) + 4, short(tick), "tick", "end")
    for size in (8, 64, 1024, 16384, 2**20):
        drawing.line(across(size), rise.at, across(size), rise.at + 4, "axis")
        drawing.text(across(size), rise.at + 18, size_label(size).replace(" ", "\u00a0"), "tick", "middle")
    drawing.line(start, rise.at, end, rise.at, "axis")
    drawing.text((start + end) / 2, rise.at + 38, "bytes a message", "axis-name", "middle")


def throughput_series(drawing, found, side, name, across, rise):
    there = [(f, f.value[side]) for f in found if side in f.value]
    drawing.path([(across(f.case.size), rise(spread.median)) for f, spread in there], f"series {side}")
    for f, spread in there:
        x, y = across(f.case.size), rise(spread.median)
        note = f"{name}, {f.case.name}: {short(spread.median)} messages/s ({short(spread.low)} to {short(spread.high)})"
        drawing.line(x, rise(spread.low), x, rise(spread.high), f"range {side}")
        if side == "libzmq":
            drawing.rect(x - 4, y - 4, 8.0, 8.0, f"mark {side}", note)
        else:
            drawing.dot(x, y, 4.5 if side == "ours" else 3.0, f"mark {side}", note)


def grouped(all_figures):
    """Returns (heading, its figures), in order."""
    groups = {}
    for figures in all_figures:
        groups.setdefault(figures.case.group, []).append(figures)
    return groups.items()


ROW, HEAD, LABEL, VALUE = 26, 34, 150, 150


class Bars:
    """Rows of horizontal bars from 1x on a logarithmic axis, with the bar and the aim of each case."""

    def __init__(self, groups, low, high, ticks, label):
        self.groups = groups
        rows = sum(len(found) for _, found in groups)
        self.height = 30 + rows * ROW + len(groups) * HEAD
        self.drawing = Drawing(WIDTH, self.height, label)
        self.axis = Log(low, high, LABEL, WIDTH - VALUE)
        for tick in ticks:
            x = self.axis(tick)
            self.drawing.line(x, 22, x, self.height - 6, "one" if tick == 1 else "grid")
            self.drawing.text(
                x,
                14,
                f"{tick:g}x" if tick != 1 else "libzmq",
                "tick strong" if tick == 1 else "tick",
                "middle",
            )

    def render(self, row):
        """row(figures) returns the arguments of row_of, or None."""
        y = 30.0
        for heading, found in self.groups:
            self.drawing.text(0, y + 17, heading, "panel")
            y += HEAD
            for figures in found:
                self.row_of(y - 4, figures.case.name, *row(figures))
                y += ROW
        return self.drawing.render()

    def row_of(self, y, name, spread, at_least, aim, verdict):
        drawing, middle = self.drawing, y + ROW / 2
        drawing.text(LABEL - 12, middle + 4, name, "label", "end")
        if spread is None:
            drawing.text(WIDTH - VALUE + 16, middle + 4, "no result", "value bad")
            return
        begin, end = sorted((self.axis(1), self.axis(spread.median)))
        state = "bar missed" if verdict == "MISS" else "bar"
        drawing.rect(
            begin,
            y + 6,
            end - begin,
            ROW - 12,
            state,
            f"{name}: {spread.median:.2f}x, {spread.low:.2f} to {spread.high:.2f}",
        )
        for value in spread.values:
            drawing.dot(self.axis(value), middle, 2.0, "pair")
        if at_least is not None:
            x = self.axis(at_least)
            drawing.line(x, y + 2, x, y + ROW - 2, "least")
        if aim is not None:
            drawing.diamond(self.axis(aim), middle, 5, "aim", f"aim {aim:g}x")
        drawing.text(WIDTH - VALUE + 16, middle + 4, f"{spread.median:.2f}x", "value")
        if verdict in ("pass", "MISS"):
            drawing.text(
                WIDTH - VALUE + 78,
                middle + 4,
                "holds" if verdict == "pass" else "MISSED",
                "verdict" if verdict == "pass" else "verdict bad",
            )


def rate_row(figures):
    bar = figures.case.bar
    aim = bar.aim if bar and bar.aim != "limit" else aim_by_limit(figures)
    return figures.ratio, bar.at_least if bar else None, aim, figures.verdict


def aim_by_limit(figures):
    """The kernel's limit, as a multiple of libzmq's value."""
    limit, libzmq = figures.value.get("limit"), figures.value.get("libzmq")
    if figures.case.bar is None or limit is None or libzmq is None or not libzmq.median:
        return None
    return limit.median * figures.case.bar.aim_of_limit / libzmq.median


def ratios(all_figures):
    """Ratios of our rates to libzmq's, with the bars."""
    chosen = [f for f in all_figures if f.case.bar is not None and f.case.bar.measure == "rate"]
    if not chosen:
        return ""
    bars = Bars(grouped(chosen), 0.5, 20, (0.5, 1, 2, 3, 4, 6, 10, 20), "Rates as multiples of libzmq's")
    return bars.render(rate_row)


def processor_time(all_figures):
    """Ratios of our CPU seconds per message to libzmq's."""
    chosen = [f for f in all_figures if f.case.kind != "memory"]
    if not chosen:
        return ""
    bars = Bars(
        grouped(chosen),
        0.1,
        2,
        (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2),
        "Processor time as a multiple of libzmq's",
    )
    return bars.render(
        lambda f: (f.cpu_ratio, f.case.cpu_at_most, CPU_AIM if f.case.cpu_at_most else None, f.cpu_verdict)
    )


PLACES = (
    ("split", "each side on a processor of its own"),
    ("one", "both sides on one processor"),
    ("free", "two threads of one process"),
)


def latency(all_figures):
    """The p50 of round trips as bars, the p99 as whiskers; one panel per placement, each with its own axis."""
    panels = [
        (title, [f for f in all_figures if f.case.kind == "round" and f.case.place == place and f.value])
        for place, title in PLACES
    ]
    panels = [(title, found) for title, found in panels if found]
    if not panels:
        return ""
    row, case_gap, head = 22, 12, 62
    height = sum(head + sum(len(f.value) * row + case_gap for f in found) for _, found in panels)
    drawing, y = Drawing(WIDTH, height, "Round trips of 8 bytes"), 0.0
    for title, found in panels:
        drawing.text(0, y + 20, title, "panel")
        body = sum(len(f.value) * row + case_gap for f in found)
        latency_panel(drawing, found, y + head - 14, body, row, case_gap)
        y += head + body
    return drawing.render()


def latency_panel(drawing, found, y, body, row, case_gap):
    high = max(spread.median for f in found for spread in f.value.values()) * 1.6
    axis = Linear(high, LABEL + 90, WIDTH - VALUE)
    for tick in axis.ticks(6):
        drawing.line(axis(tick), y, axis(tick), y + body, "grid")
        drawing.text(axis(tick), y - 6, f"{tick:g} µs", "tick", "middle")
    y += case_gap / 2
    for f in found:
        drawing.text(LABEL - 42, y + len(f.value) * row / 2 + 4, f.case.name, "label", "end")
        for side, name in SIDES:
            if side in f.value:
                latency_row(drawing, axis, y, row, f, side, name)
                y += row
        y += case_gap


def latency_row(drawing, axis, y, row, figures, side, name):
    spread, p99, middle = figures.value[side], figures.p99.get(side), y + row / 2
    drawing.text(axis.at - 10, middle + 4, "raw socket" if side == "limit" else name, "tick", "end")
    note = f"{figures.case.name}, {name}: p50 {spread.median:.1f} µs ({spread.low:.1f} to {spread.high:.1f})"
    drawing.rect(axis.at, y + 3, axis(spread.median) - axis.at, row - 6, f"bar {side}", note)
    if p99:
        drawing.line(axis(spread.median), middle, axis(p99.median), middle, "whisker")
        if p99.median <= axis.high:
            drawing.line(axis(p99.median), y + 6, axis(p99.median), y + row - 6, "whisker")
    libzmq = figures.value.get("libzmq")
    if side == "ours" and figures.case.bar and libzmq:
        x = axis(libzmq.median * figures.case.bar.at_least)
        drawing.line(x, y, x, y + row, "least")
        aim = (
            figures.case.bar.aim_of_limit * figures.value["limit"].median
            if figures.case.bar.aim == "limit" and "limit" in figures.value
            else None
        )
        if figures.case.bar.aim != "limit":
            aim = figures.case.bar.aim * libzmq.median
        if aim is not None:
            drawing.diamond(axis(aim), middle, 5, "aim")
    missed = side == "ours" and figures.verdict == "MISS"
    drawing.text(WIDTH - VALUE + 16, middle + 4, f"{spread.median:.1f}", "value bad" if missed else "value")
    drawing.text(
        WIDTH - VALUE + 66,
        middle + 4,
        "MISSED" if missed else f"p99 {p99.median:.1f}" if p99 else "",
        "verdict bad" if missed else "tick",
    )
