"""Rules of tools/tidy on words in the crates' sources, except tests: one meaning per name, and the field's terms.

- A type name is defined once in a crate, except those in SAME_NAME; associated types do not count.
- At most WHO_LINES lines of comments and names have "who", "whoever" or "whom": a sentence names the thing that acts.
- The words that docs/internals/glossary.md rejects are not used.
"""
import re

# Crate and name, and the reason why several types have the same name.
SAME_NAME = {
    ("zmtp", "Client"): "one in the module of each protocol: curve, plain, ws, socks",
    ("zmtp", "Server"): "likewise",
    ("zmtp", "Error"): "likewise, the module's error type",
    ("sys", "Socket"): "one for the build with OpenPGM, one for that without",
    ("engine", "Tls"): "likewise of the feature tls",
    ("engine", "TlsFailure"): "likewise",
    ("engine", "TlsSide"): "likewise",
    ("delivery", "TlsClient"): "likewise",
}
WHO_LINES = 10
WHO = re.compile(r"(?<![A-Za-z])(?:who|whoever|whom)(?![A-Za-z])", re.I)
TYPE = re.compile(r"^(?:pub(?:\([a-z ]+\))? )?(?:struct|enum|trait|type|union) ([A-Z]\w*)")
GLOSSARY = "docs/internals/glossary.md"
ROW = re.compile(r"^\| (`[^|]*`) \| ([a-z, ]+) \|", re.M)


def is_source(path):
    """True for a source file of a crate that is not a test."""
    parts = path.parts
    is_test = path.name.endswith("tests.rs") or path.name == "scripted.rs" or "tests" in parts
    return len(parts) > 3 and parts[0] == "crates" and parts[2] == "src" and path.suffix == ".rs" and not is_test


def without_tests(text):
    return re.split(r"^#\[cfg\(test\)\]\nmod \w+ \{", text, maxsplit=1, flags=re.M)[0]


class Words:
    def __init__(self, glossary):
        self.types = {}
        self.who = []
        self.unused = [(words, where) for words, where in ROW.findall(glossary)]

    def look(self, tidy, path, text, code):
        """Checks one source file. `code` is `text` without comments and literals, with the same lines."""
        if not is_source(path):
            return
        crate = path.parts[1]
        text = without_tests(text)
        lines = text.splitlines()
        for number, (line, bare) in enumerate(zip(lines, code.split("\n")), 1):
            if found := TYPE.match(bare):
                self.types.setdefault((crate, found[1]), []).append((path, number))
            comment = re.search(r"//.*", line)
            if WHO.search((comment[0] if comment else "") + bare.replace("_", " ")):
                self.who.append((path, number))
        for words, where in self.unused:
            if where != "all" and crate not in re.findall(r"[a-z]+", where):
                continue
            for word in re.findall(r"`(\w+)`", words):
                for number, line in enumerate(lines, 1):
                    if re.search(rf"\b{word}\b", line):
                        tidy.say(path, number, f"`{word}`: {GLOSSARY} has another word")

    def end(self, tidy):
        for (crate, name), places in sorted(self.types.items()):
            if len(places) > 1 and (crate, name) not in SAME_NAME:
                path, line = places[-1]
                others = ", ".join(f"{other}:{number}" for other, number in places[:-1])
                tidy.say(path, line, f"a second type {name} in the crate: {others}")
        if len(self.who) > WHO_LINES:
            for path, number in self.who:
                tidy.say(path, number, f"who: name what acts ({len(self.who)} lines; {WHO_LINES} is the limit)")

    def summary(self):
        twice = sum(len(places) > 1 for places in self.types.values())
        return f"{twice} type names defined more than once in a crate, {len(self.who)} lines with who"
