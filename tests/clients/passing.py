"""The list of a client's tests that pass on libzmq.

Each line is a test's name; a trailing `  # long` excludes it from the short form. `# NAME: reason` excludes a test, and
any other `#` line is a comment. Rewriting the list keeps the marks, the comments and the exclusions.
"""
from check import Failure

LONG = "  # long"
REASON_COLUMNS = 110
HEAD = "# Tests that pass on libzmq in three runs, written by `tests/clients/run --learn`; those with # are left out."


class Passing:
    def __init__(self, path):
        self.path = path
        self.lines = path.read_text().splitlines() if path.exists() else []
        self.long = {line.removesuffix(LONG) for line in self.lines if line.endswith(LONG)}

    def names(self):
        return [line.removesuffix(LONG) for line in self.lines if line and not line.startswith("#")]

    def wanted(self, short):
        names = [name for name in self.names() if not (short and name in self.long)]
        if not names:
            raise Failure(f"{self.path} names no test")
        return names

    def write(self, runs):
        """Writes the list from three runs, each a dictionary of results by name."""
        names = list(dict.fromkeys(name for run in runs for name in run))
        remarks = [line for line in self.lines if line.startswith("#") and line != HEAD]
        left_out = {name for name in names if any(line.startswith(f"# {name}: ") for line in remarks)}
        for name in names:
            results = [run.get(name) for run in runs]
            if name not in left_out and not all(result and result.passed for result in results):
                left_out.add(name)
                remarks.append(f"# {name}: {self.reason(results)}")
        kept = [name + LONG * (name in self.long) for name in names if name not in left_out]
        self.path.write_text("\n".join([HEAD, *remarks, *kept]) + "\n")

    @staticmethod
    def reason(results):
        bad = [result for result in results if not (result and result.passed)]
        first = next((f"{result.outcome}, {result.summary()}" for result in bad if result), "it did not run")
        if all(result and result.outcome == "skipped" for result in results):
            return f"skipped: {results[0].summary().removeprefix('Skipped: ')}"[:REASON_COLUMNS]
        return f"{len(results) - len(bad)} of {len(results)} runs: {first}"[:REASON_COLUMNS]
