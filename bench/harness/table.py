"""table: the figures as text for a terminal."""

from . import figures as figures_module
from .figures import CPU_AIM_TEXT, aim_text, bar_text

SUFFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value):
    """Three significant digits and a suffix: 12.3M, 845k, 97.2"""
    for unit, letter in SUFFIXES:
        if abs(value) >= unit:
            return (
                f"{value / unit:.3g}{letter}" if abs(value) < 999.5 * unit else f"{value / unit:.0f}{letter}"
            )
    return f"{value:.3g}"


def plain(spread):
    """Three significant digits of the median, never an exponent: 0.0906, 1030"""
    return f"{spread.median:.3g}" if spread.median < 999.5 else f"{spread.median:.0f}"


def show_value(case, value):
    if case.kind == "round":
        return f"{value:.1f}µs"
    return f"{value / 1024:.1f}KiB" if case.kind == "memory" else short(value)


def cell(case, spread):
    """Median, range, and the interquartile range as a share of the median."""
    if spread is None:
        return "no result"
    iqr = 100 * spread.iqr / spread.median if spread.median else 0
    median, low, high = (show_value(case, value) for value in (spread.median, spread.low, spread.high))
    return f"{median} {low}..{high} ±{iqr:.0f}%"


def times(spread):
    return f"{spread.median:.2f}x" if spread else "-"


def times_range(spread):
    return f"{spread.median:.2f}x {spread.low:.2f}..{spread.high:.2f}" if spread else "-"


def cpu_cell(figures):
    parts = [plain(figures.cpu[side]) if side in figures.cpu else "-" for side in ("ours", "libzmq")]
    return "/".join(parts) if figures.cpu else "-"


HEADINGS = (
    "case",
    "ours",
    "libzmq",
    "ratio",
    "at least",
    "aim",
    "",
    "CPU s/M",
    "CPU ratio",
    "at most",
    "",
    "of limit",
)


LEGEND = (
    "Rates in messages a second (fan: received by all), times as p50, memory per connection, of the end that holds",
    "more: median, smallest..largest, ± middle half. Ratios are medians over pairs of runs made in turn; of times and",
    f"CPU, below 1 is better. CPU: seconds a million messages, all sides together; the aim is {CPU_AIM_TEXT}.",
)


def line(figures):
    case = figures.case
    aim = aim_text(case.bar)
    cpu_bar = (
        "" if figures.cpu_verdict == "-" else ("<1x" if case.cpu_at_most == 1.0 else f"{case.cpu_at_most:g}x")
    )
    return (
        case.name,
        cell(case, figures.value.get("ours")),
        cell(case, figures.value.get("libzmq")),
        times_range(figures.ratio),
        bar_text(case.bar),
        aim + (" ✓" if figures.aim_met else ""),
        figures.verdict,
        cpu_cell(figures),
        times(figures.cpu_ratio),
        cpu_bar,
        figures.cpu_verdict,
        times(figures.of_limit),
    )


def render(all_figures, broken):
    """The table, with its legend and the missed bars below it."""
    lines, rows = [], [HEADINGS]
    rows += [line(figures) for figures in all_figures]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    group = None
    for index, row in enumerate(rows):
        if index > 0 and all_figures[index - 1].case.group != group:
            group = all_figures[index - 1].case.group
            lines.append(f"-- {group}")
        lines.append("  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip())
    lines.append("")
    lines.extend(LEGEND)
    short_runs = [
        figures.case.name
        for figures in all_figures
        if figures.case.kind != "memory" and figures.shortest_s < 1
    ]
    if short_runs:
        lines.append(f"Runs shorter than a second in: {' '.join(short_runs)}")
    for name, reasons in broken.items():
        lines.append(f"{name}: {len(reasons)} run(s) failed; the last: {reasons[-1]}")
    missed = figures_module.missed(all_figures)
    lines.append(
        "Every bar holds."
        if not missed
        else "MISSED: " + ", ".join(f"{name} ({what})" for name, what in missed)
    )
    return "\n".join(lines)
