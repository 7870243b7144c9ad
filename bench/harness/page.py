"""page: the figures, the plots and the machine's facts as one self-contained HTML file."""

import html
import pathlib
from string import Template

from . import figures as figures_module
from . import plots
from .figures import aim_text, bar_text
from .table import plain, show_value

PAGE = Template((pathlib.Path(__file__).parent / "page.html").read_text(encoding="utf-8"))
CSS = (pathlib.Path(__file__).parent / "page.css").read_text(encoding="utf-8")


def legend(*entries):
    """entries: (class of the mark, its label)"""
    spans = "".join(f'<span><i class="i-{mark}"></i>{words}</span>' for mark, words in entries)
    return f'<div class="legend">{spans}</div>'


def bars_legend(least):
    return legend(
        ("bar", "median of the pairs"),
        ("missed", "short of what is asked"),
        ("pair", "a pair"),
        ("least", least),
        ("aim", "aim"),
    )


LEGEND_LINES = legend(
    ("ours", "Pinnace"), ("libzmq", "libzmq"), ("limit", "one thread a side, nothing but frames and copies")
)
LEGEND_LATENCY = legend(
    ("bar", "Pinnace"),
    ("libzmq", "libzmq"),
    ("raw", "raw socket"),
    ("whisker", "to p99"),
    ("least", "at most"),
    ("aim", "aim"),
)


def tile(value, text):
    return f'<div class="tile"><b>{html.escape(value)}</b><span>{html.escape(text)}</span></div>'


HIGHLIGHTS = (
    ("tcp-64", "libzmq's rate, 64 B over tcp"),
    ("ipc-1032", "libzmq's rate, 1,032 B over ipc"),
    ("inproc-8", "libzmq's rate, 8 B between threads"),
    ("lat1-ipc", "libzmq's round-trip time, ipc, one processor"),
)


def tiles(all_figures):
    judged = [verdict for f in all_figures for verdict in (f.verdict, f.cpu_verdict) if verdict != "-"]
    held = sum(verdict == "pass" for verdict in judged)
    found = {f.case.name: f for f in all_figures}
    parts = [tile(f"{held} of {len(judged)}", "bars held, of speed, CPU and memory")]
    parts += [
        tile(f"{found[name].ratio.median:.2f}x", text)
        for name, text in HIGHLIGHTS
        if name in found and found[name].ratio
    ]
    return "".join(parts)


def notice(all_figures, facts):
    parts = []
    missed = figures_module.missed(all_figures)
    if missed:
        parts.append(
            "Missed: "
            + ", ".join(f"<code>{html.escape(name)}</code> ({what})" for name, what in missed)
            + "."
        )
    for name, reasons in facts["failed"].items():
        parts.append(
            f"<code>{html.escape(name)}</code>: {len(reasons)} failed, the last with: {html.escape(reasons[-1])}."
        )
    if facts["pairs"] < 7 or facts["seconds"] < 1:
        parts.append("Few or short runs: a look, not a result.")
    return f"<p class=\"notice\">{' '.join(parts)}</p>" if parts else ""


def sections(all_figures):
    least, most = bars_legend("at least"), bars_legend("at most")
    parts = (
        (
            "Messages a second, by size",
            "Push/pull over one connection, in the clear; ipc is by its socket, shm is ipc by shared memory."
            " The pale band behind a mark spans all runs.",
            LEGEND_LINES,
            plots.throughput(all_figures),
        ),
        (
            "How many times libzmq's rate",
            "Where the aim is the kernel's limit, the diamond stands where that was measured.",
            least,
            plots.ratios(all_figures),
        ),
        (
            "Round trips of 8 bytes",
            "Shorter is better. Each panel has its own scale.",
            LEGEND_LATENCY,
            plots.latency(all_figures),
        ),
        (
            "Processor time a message, over libzmq's",
            "Left of the line is less. Both sides of a run together.",
            most,
            plots.processor_time(all_figures),
        ),
    )
    return "\n".join(
        f'<h2>{title}</h2>\n<p class="soft">{text}</p>\n<div class="plot">{legend}{picture}</div>'
        for title, text, legend, picture in parts
        if picture
    )


def spread_cell(case, spread):
    if spread is None:
        return "–"
    iqr = 100 * spread.iqr / spread.median if spread.median else 0
    return (
        f"{show_value(case, spread.median)}<small>{show_value(case, spread.low)} – {show_value(case, spread.high)}, "
        f"±{iqr:.0f}%</small>"
    )


def ratio_cell(spread):
    return f"{spread.median:.2f}x<small>{spread.low:.2f} – {spread.high:.2f}</small>" if spread else "–"


def verdict_cell(verdict):
    return (
        ""
        if verdict == "-"
        else f"<span class=\"{'pass' if verdict == 'pass' else 'miss'}\">{verdict}</span>"
    )


def limit_cell(figures):
    limit = figures.value.get("limit")
    share = f"<small>ours {figures.of_limit.median:.2f}x of it</small>" if figures.of_limit else ""
    return show_value(figures.case, limit.median) + share if limit else "–"


def cpu_cell(figures):
    if figures.cpu_ratio is None:
        return "–"
    seconds = f"{plain(figures.cpu['ours'])} / {plain(figures.cpu['libzmq'])}"
    return f"{figures.cpu_ratio.median:.2f}x<small>{seconds}</small>"


TABLE_HEADINGS = ("case", "Pinnace", "libzmq", "ratio", "at least", "aim", "", "kernel alone", "CPU", "")


def table_row(figures):
    case, value = figures.case, figures.value
    aim = aim_text(case.bar) + (" ✓" if figures.aim_met else "")
    at_least = (
        bar_text(case.bar) if case.bar is None or case.bar.measure == "rate" else "≤ " + bar_text(case.bar)
    )
    cells = (
        html.escape(case.name),
        *(spread_cell(case, value.get(side)) for side in ("ours", "libzmq")),
        ratio_cell(figures.ratio),
        at_least,
        aim,
        verdict_cell(figures.verdict),
        limit_cell(figures),
        cpu_cell(figures),
        verdict_cell(figures.cpu_verdict),
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def table(all_figures):
    lines = ["<table><tr>" + "".join(f"<th>{text}</th>" for text in TABLE_HEADINGS) + "</tr>"]
    for heading, found in plots.grouped(all_figures):
        lines.append(
            f'<tr class="group"><td colspan="{len(TABLE_HEADINGS)}">{html.escape(heading)}</td></tr>'
        )
        lines.extend(table_row(figures) for figures in found)
    return "\n".join(lines) + "</table>"


def render(all_figures, facts):
    """The page. facts: those of machine.facts, plus pairs, seconds and failed."""
    shown = "".join(
        f"<dt>{html.escape(key)}</dt><dd>{html.escape(str(value))}</dd>"
        for key, value in facts.items()
        if key not in ("date", "pairs", "seconds", "failed")
    )
    return PAGE.substitute(
        css=CSS,
        date=html.escape(facts["date"]),
        tiles=tiles(all_figures),
        facts=shown,
        runs=f"{facts['pairs']} pairs a case (raw-: three times as many); "
        f"the faster side of each runs for about {facts['seconds']:g} s.",
        notice=notice(all_figures, facts),
        sections=sections(all_figures),
        table=table(all_figures),
    )
