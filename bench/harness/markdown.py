"""markdown: a result as Markdown, for the terminal and for a page below docs/bench."""

import os
import pathlib
import re

from . import machine

BARS = ("case", "median", "smallest..largest", "bar", "aim", "")

# Share of the processors; with more other work, the figures are not reliable.
OTHER_WORK_PERCENT = 10


def table(headings, rows):
    rows = [headings, *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    lines = ["| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |" for row in rows]
    lines.insert(1, "| " + " | ".join("-" * max(width, 3) for width in widths) + " |")
    return "\n".join(lines)


def disk(folder):
    """The file system and the disk of a folder."""
    where = os.stat(folder).st_dev
    device = f"{os.major(where)}:{os.minor(where)}"
    kind = None
    for line in pathlib.Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if fields[2] == device:
            kind = fields[fields.index("-") + 1]
    queue = pathlib.Path(f"/sys/dev/block/{device}/queue")
    if not queue.exists():
        queue = queue.parent.parent / "queue"
    cache = machine.first_line(queue / "write_cache")
    name = re.search(r"^DEVNAME=([a-z]+)", text_of(f"/sys/dev/block/{device}/uevent"), re.MULTILINE)
    parts = [kind, name and name[1], cache and f"its cache: {cache}"]
    return ", ".join(part for part in parts if part)


def text_of(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def render(title, known, headings, results, explained):
    """The page. `known`: the facts about the machine; `headings`: those of the figures."""
    parts = [f"# {title}", table(("", "on this machine"), list(known.items()))]
    other = known.get("other work meanwhile", "0 %")
    if float(other.split()[0]) > OTHER_WORK_PERCENT:
        parts.append(f"Other work had {other} meanwhile, and the same disk: **a look, not a result.**")
    bars = [bar.cells() for result in results for bar in result.bars]
    if bars:
        parts += ["## Bars", table(BARS, bars)]
    figures = [figure.cells() for result in results for figure in result.figures]
    parts += ["## Figures", table(headings, figures)]
    notes = [f"- {note}" for result in results for note in result.notes]
    if notes:
        parts.append("\n".join(notes))
    parts += ["## What a figure is", explained.strip()]
    return "\n\n".join(parts) + "\n"
