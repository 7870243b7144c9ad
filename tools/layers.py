"""A rule of tools/tidy: inside the engine a module uses those below it in LAYERS, tests aside.

Cargo enforces this between crates, and nothing does inside one. UPWARD lists the uses that still point upwards; a new
one is a breach, and so is an entry of the list that is no longer needed.
"""
import re

# From the lowest to the highest. A folder is one module with its `mod.rs` or the file beside it.
LAYERS = """
error label table spin readiness events medium context_options drops endpoint peer options socket_kind conflate ends
mailbox ownership pipe link monitor transports patterns pending_sleep reactor socket zap context poll poller stats
""".split()
# Waiting (mailbox, ownership, link/batch, pending_sleep) needs both sides: a caller that sleeps serves connections.
UPWARD = {
    ("mailbox", "link"), ("mailbox", "monitor"), ("mailbox", "ownership"), ("mailbox", "pipe"), ("mailbox", "poller"),
    ("mailbox", "reactor"), ("mailbox", "socket"), ("ownership", "reactor"), ("pipe", "link"), ("link", "socket"),
    ("link", "reactor"), ("monitor", "socket"), ("pending_sleep", "context"), ("pending_sleep", "poll"),
    ("pending_sleep", "poller"), ("pending_sleep", "socket"), ("reactor", "zap"), ("reactor", "socket"),
    ("reactor", "context"), ("socket", "context"), ("zap", "context"),
}
ENGINE = "crates/engine/src/"
ROOTS = ("lib.rs", "fuzzing.rs")
USE = re.compile(r"\bcrate::(?:\{|(\w+))")


class Layers:
    def __init__(self):
        self.rank = {module: rank for rank, module in enumerate(LAYERS)}
        self.needed = set()
        self.has_engine = False

    def look(self, tidy, path, code):
        """Takes in one source file; `code` is without comments and literals."""
        name = str(path)
        if not name.startswith(ENGINE) or name.removeprefix(ENGINE) in ROOTS:
            return
        if path.name.endswith("tests.rs") or path.name == "scripted.rs":
            return
        self.has_engine = True
        module = name.removeprefix(ENGINE).split("/")[0].removesuffix(".rs")
        if module not in self.rank:
            return tidy.say(path, 1, f"{module} is not in tools/layers.py: LAYERS")
        code = re.split(r"#\[cfg\(test\)\]\nmod \w+ \{", code, maxsplit=1)[0]
        for found in USE.finditer(code):
            line = code.count("\n", 0, found.start()) + 1
            if found[1] is None:
                tidy.say(path, line, "one `use crate::` a module, so that its layer can be seen")
            elif self.rank.get(found[1], -1) > self.rank[module]:
                self.needed.add((module, found[1]))
                if (module, found[1]) not in UPWARD:
                    tidy.say(path, line, f"{module} points upwards to {found[1]} (tools/layers.py)")

    def end(self, tidy):
        if self.has_engine and "mailbox" in {module for module, _ in self.needed}:
            for module, other in sorted(UPWARD - self.needed):
                tidy.say(ENGINE + module, 1, f"no longer points upwards to {other}: take it out of tools/layers.py")

    def summary(self):
        return f"{len(self.needed)} uses in the engine that point upwards"
