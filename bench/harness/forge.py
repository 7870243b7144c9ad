"""forge: the figures as Markdown with a picture, for the pages of a code forge: README.md and rates.svg."""

from . import figures as figures_module
from .cases import size_label
from .figures import aim_text, bar_text
from .plots import grouped
from .svg import Drawing, Linear
from .table import plain, short, show_value, times

PICTURE = "rates.svg"
# The cases in the picture, and their labels.
SHOWN = (
    ("inproc-8", "between threads"),
    ("shm-64", "between processes"),
    ("tcp-64", "over TCP, one host"),
)
SIDES = (("ours", "Pinnace"), ("libzmq", "libzmq"))
WIDTH, LEFT, RIGHT, BAR, GAP, TOP = 760, 190, 90, 22, 20, 34
# The picture's own style sheet. Both sides are visible on white and on black.
STYLE = """
text { font: 14px system-ui, sans-serif; fill: #1f2328; }
.soft { fill: #59636e; } .strong { font-weight: 600; }
.ours { fill: #2f6fdb; } .libzmq { fill: #9aa4b1; }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc; } .soft { fill: #9198a1; }
  .ours { fill: #5b93f5; } .libzmq { fill: #6b7683; }
}
"""
HEADINGS = ("case", "Pinnace", "libzmq", "ratio", "at least", "aim", "", "CPU", "")


def picture(all_figures):
    """Messages per second of some cases, with a bar for each side. Empty if none was measured on both sides."""
    found = {f.case.name: f for f in all_figures}
    shown = [(found[name], label) for name, label in SHOWN if name in found and len(found[name].value) >= 2]
    if not shown:
        return ""
    height = TOP + len(shown) * (2 * BAR + GAP)
    drawing = Drawing(WIDTH, height, "Messages a second, Pinnace and libzmq")
    most = max(spread.median for f, _ in shown for spread in f.value.values())
    across = Linear(most, LEFT, WIDTH - RIGHT)
    drawing.text(LEFT, 18, "messages a second, one connection", "soft")
    for index, (f, label) in enumerate(shown):
        y = TOP + index * (2 * BAR + GAP)
        drawing.text(LEFT - 12, y + BAR - 3, label, "strong", "end")
        drawing.text(LEFT - 12, y + 2 * BAR - 5, size_label(f.case.size), "soft", "end")
        for row, (side, name) in enumerate(SIDES):
            median, top = f.value[side].median, y + row * BAR
            drawing.rect(LEFT, top, across(median) - LEFT, BAR - 3, side)
            drawing.text(across(median) + 8, top + BAR - 7, f"{name} {short(median)}")
    return drawing.render_alone(STYLE)


def row(figures):
    case, value = figures.case, figures.value
    most = "" if case.bar is None or case.bar.measure == "rate" else "≤ "
    cpu = "–"
    if figures.cpu_ratio is not None:
        cpu = f"{times(figures.cpu_ratio)} ({plain(figures.cpu['ours'])} / {plain(figures.cpu['libzmq'])})"
    cells = (
        case.name,
        *(show_value(case, value[side].median) if side in value else "–" for side, _ in SIDES),
        times(figures.ratio) if figures.ratio else "–",
        f"{most}{bar_text(case.bar)}" if case.bar else "",
        aim_text(case.bar) + (" ✓" if figures.aim_met else ""),
        figures.verdict.strip("-"),
        cpu,
        figures.cpu_verdict.strip("-"),
    )
    return f"| {' | '.join(cells)} |"


def markdown(all_figures, facts):
    missed = figures_module.missed(all_figures)
    verdict = "Every bar holds." if not missed else "Missed: " + ", ".join(f"{a} ({b})" for a, b in missed) + "."
    hidden = ("date", "pairs", "seconds", "failed")
    lines = [
        "# Pinnace beside libzmq",
        "",
        f"Measured on {facts['date']} by `make bench`: {facts['pairs']} pairs of runs a case, in turn, the faster side"
        f" of each for about {facts['seconds']:g} s. A ratio is the median of the pairs' ratios. Rates are messages a"
        " second, times are medians (p50), CPU is seconds for a million messages of both ends together. The spread"
        " of each, and the plots, are in `index.html` beside this page.",
        "",
        f"**{verdict}**",
        "",
        f"![Messages a second]({PICTURE})",
        "",
        "| the machine | |",
        "| --- | --- |",
        *(f"| {key} | {value} |" for key, value in facts.items() if key not in hidden),
    ]
    for heading, found in grouped(all_figures):
        lines += ["", f"## {heading[0].upper()}{heading[1:]}", "", f"| {' | '.join(HEADINGS)} |"]
        lines += ["|" + " --- |" * len(HEADINGS), *(row(figures) for figures in found)]
    return "\n".join(lines) + "\n"


def write(path, all_figures, facts):
    """Writes README.md and, if there is a picture, rates.svg into the folder `path`."""
    (path / "README.md").write_text(markdown(all_figures, facts), encoding="utf-8")
    drawn = picture(all_figures)
    if drawn:
        (path / PICTURE).write_text(drawn, encoding="utf-8")
