"""A pytest session that logs the start and the end of each test: `session.py CHOICE REPORT LOG`.

CHOICE is JSON: the tests wanted (null for all) and those already done. REPORT gets one line of JSON per event, written
at once, so that it shows how far a crashed process got. LOG gets the stacks of all threads if the process crashes or a
test takes too long, which ends the process.
"""
import faulthandler
import json
import sys

import pytest

TEST_S = 120


class Recorder:
    def __init__(self, choice, report, log):
        self.wanted, self.done = choice["wanted"], set(choice["done"])
        self.report, self.log = report, log
        self.outcome, self.detail = "passed", ""

    def write(self, **event):
        self.report.write(json.dumps(event) + "\n")
        self.report.flush()

    def pytest_collection_modifyitems(self, config, items):
        chosen = self.wanted if self.wanted is None else set(self.wanted)
        keep = [item for item in items if item.nodeid not in self.done and (chosen is None or item.nodeid in chosen)]
        config.hook.pytest_deselected(items=[item for item in items if item not in keep])
        items[:] = keep

    def pytest_runtest_logstart(self, nodeid):
        self.write(event="start", name=nodeid)
        faulthandler.dump_traceback_later(TEST_S, exit=True, file=self.log)

    def pytest_runtest_logreport(self, report):
        if report.when == "setup":
            self.outcome, self.detail = "passed", ""
        if report.outcome not in ("passed", "rerun") and self.outcome != "failed":
            self.outcome = report.outcome
            self.detail = report.longrepr[2] if isinstance(report.longrepr, tuple) else self.failure(report)

    @staticmethod
    def failure(report):
        crash = getattr(report.longrepr, "reprcrash", None)
        return report.longreprtext + (f"\n{crash.message}" if crash else "")

    def pytest_runtest_logfinish(self, nodeid):
        faulthandler.cancel_dump_traceback_later()
        self.write(event="end", name=nodeid, outcome=self.outcome, detail=self.detail)


def main():
    choice, report, log = sys.argv[1:]
    with open(choice) as words, open(report, "a") as lines, open(log, "w") as stacks:
        faulthandler.enable(stacks)
        recorder = Recorder(json.load(words), lines, stacks)
        options = ["-q", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--durations=0"]
        status = pytest.main(options, plugins=[recorder])
        faulthandler.disable()
    # Failed tests (1) and no tests left to run (5) are normal results.
    sys.exit(0 if status in (0, 1, 5) else int(status))


main()
