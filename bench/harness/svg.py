"""svg: the drawing primitives of the plots. Colours and fonts are classes; the page's style sheet defines them, for
light and for dark mode.
"""

import html
import math


class Log:
    """A logarithmic axis from low..high onto at..to (pixels)."""

    def __init__(self, low, high, at, to):
        self.low, self.high, self.at, self.to = low, high, at, to

    def __call__(self, value):
        value = min(max(value, self.low), self.high)
        share = math.log(value / self.low) / math.log(self.high / self.low)
        return self.at + share * (self.to - self.at)


class Linear:
    """A linear axis from 0..high onto at..to (pixels)."""

    def __init__(self, high, at, to):
        self.high, self.at, self.to = high, at, to

    def __call__(self, value):
        return self.at + min(max(value, 0), self.high) / self.high * (self.to - self.at)

    def ticks(self, wanted=5):
        rough = self.high / wanted
        power = 10 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
        return [step * index for index in range(int(self.high / step + 1e-9) + 1)]


def decades(low, high):
    """The powers of ten from low to high."""
    return [
        10.0**exponent
        for exponent in range(math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9) + 1)
    ]


class Drawing:
    """An SVG picture, built element by element."""

    def __init__(self, width, height, label):
        self.width, self.height, self.label, self.parts = width, height, label, []

    def add(self, name, text=None, title=None, **attributes):
        """Adds an element. The browser shows `title` as a tooltip; `cls` becomes class."""
        pairs = "".join(
            f' {("class" if key == "cls" else key.replace("_", "-"))}="{shown(value)}"'
            for key, value in attributes.items()
            if value is not None
        )
        inner = (f"<title>{html.escape(title)}</title>" if title else "") + (
            html.escape(text) if text is not None else ""
        )
        self.parts.append(f"<{name}{pairs}>{inner}</{name}>" if inner else f"<{name}{pairs}/>")

    def line(self, x1, y1, x2, y2, cls):
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)

    def text(self, x, y, text, cls="", anchor="start"):
        self.add("text", text, x=x, y=y, cls=cls or None, text_anchor=anchor)

    def rect(self, x, y, width, height, cls, title=None):
        self.add("rect", title=title, x=x, y=y, width=max(width, 0.5), height=height, cls=cls)

    def dot(self, x, y, radius, cls, title=None):
        self.add("circle", title=title, cx=x, cy=y, r=radius, cls=cls)

    def diamond(self, x, y, radius, cls, title=None):
        self.add(
            "path",
            title=title,
            cls=cls,
            d=f"M{x:.1f} {y - radius:.1f}l{radius} {radius}l{-radius} {radius}l{-radius} {-radius}z",
        )

    def path(self, points, cls):
        steps = " ".join(f"{'L' if index else 'M'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(points))
        self.add("path", d=steps, cls=cls)

    def render(self):
        return (
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{html.escape(self.label)}" '
            f'style="min-width:{min(self.width, 620)}px;max-width:{self.width}px">'
            + "\n".join(self.parts)
            + "</svg>"
        )

    def render_alone(self, style):
        """The picture as a file of its own, with its style sheet."""
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'role="img" aria-label="{html.escape(self.label)}">\n<style>{style}</style>\n'
            + "\n".join(self.parts)
            + "\n</svg>\n"
        )


def shown(value):
    return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else html.escape(str(value))
