"""A strict reader of Prometheus' text format, version 0.0.4: anything that a scraper might refuse is a failure."""
import re
from typing import NamedTuple

from check import expect

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"'
SAMPLE = re.compile(rf"({NAME})(?:\{{((?:{LABEL},)*{LABEL})\}})? (\+Inf|-?\d+(?:\.\d+)?)")
ESCAPED = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Family(NamedTuple):
    kind: str
    samples: "list[tuple[dict[str, str], float]]"


def read(text):
    """The families by name. Each has a help text, then a type, then its samples, none of them twice."""
    expect(text.endswith("\n"), "the last line ends")
    families, helped, current = {}, None, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            expect(re.fullmatch(NAME, name) and words and name not in families, line)
            helped = name
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            expect(name == helped and kind in ("counter", "gauge"), line)
            expect(name.endswith("_total") == (kind == "counter"), line)
            current, families[name] = name, Family(kind, [])
        else:
            match = SAMPLE.fullmatch(line)
            expect(match and match[1] == current, line)
            labels = {name: re.sub(r"\\.", lambda found: ESCAPED[found[0]], value)
                      for name, value in re.findall(LABEL, match[2] or "")}
            expect(labels not in [of for of, _ in families[current].samples], f"twice: {line}")
            families[current].samples.append((labels, float(match.groups()[-1])))
    return families
