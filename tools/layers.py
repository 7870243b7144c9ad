"""A rule of tools/tidy: inside the engine a module uses its own layer and those below it, tests aside.

Cargo enforces this between crates, and nothing does inside one.
"""
import re

# One layer a line, from the lowest to the highest. A folder is one module with its `mod.rs` or the file beside it.
# The modules of the connections refer to each other: a link has a mailbox, a mailbox its links, a pipe both.
LAYERS = """
error label table spin readiness events medium context_options drops
endpoint peer
options
transports authorization queue
socket_kind
io link mailbox monitor ownership pipe waiting
inproc routing
patterns
reactor
context
socket
poll zap_handler
poller stats
"""
ENGINE = "crates/engine/src/"
ROOTS = ("lib.rs", "fuzzing.rs")
USE = re.compile(r"\bcrate::(?:\{|(\w+))")


class Layers:
    def __init__(self):
        self.layers = [line.split() for line in LAYERS.split("\n") if line]
        self.rank = {module: rank for rank, layer in enumerate(self.layers) for module in layer}

    def look(self, tidy, path, code):
        """Takes in one source file; `code` is without comments and literals."""
        name = str(path)
        if not name.startswith(ENGINE) or name.removeprefix(ENGINE) in ROOTS:
            return
        if path.name.endswith("tests.rs") or path.name == "scripted.rs":
            return
        module = name.removeprefix(ENGINE).split("/")[0].removesuffix(".rs")
        if module not in self.rank:
            return tidy.say(path, 1, f"{module} is not in tools/layers.py: LAYERS")
        code = re.split(r"#\[cfg\(test\)\]\nmod \w+ \{", code, maxsplit=1)[0]
        for found in USE.finditer(code):
            line = code.count("\n", 0, found.start()) + 1
            if found[1] is None:
                tidy.say(path, line, "one `use crate::` a module, so that its layer can be seen")
            elif self.rank.get(found[1], -1) > self.rank[module]:
                tidy.say(path, line, f"{module} points upwards to {found[1]} (tools/layers.py)")

    def summary(self):
        return f"{len(self.rank)} modules of the engine in {len(self.layers)} layers"
