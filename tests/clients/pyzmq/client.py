"""pyzmq from PyPI: built from its sdist against the system's libzmq, with the tests that the sdist carries.

Its extension contains no path to libzmq, so the loader's path selects the library. The tests run outside the package's
source directory, which would hide the built package. A test that crashes the process, or hangs, counts as a result: a
new process continues the session after it.
"""
import json
import os
import tarfile
from pathlib import Path

from check import Failure, run as output_of
from results import Result

HERE = Path(__file__).resolve().parent
BUILD_S = 1200
SESSION_S = 1200
SDIST = "pyzmq-*.tar.gz"
TOOLS = ("pytest", "pytest-asyncio", "pytest-rerunfailures", "tornado", "gevent")
MAPS = """
import zmq
print(next(line.split()[-1] for line in open("/proc/self/maps") if "/libzmq" in line))
"""


def python(home):
    return home / "venv/bin/python"


def install(home):
    for old in home.glob(SDIST):
        old.unlink()
    output_of(["/usr/bin/python3", "-m", "venv", "--clear", home / "venv"], timeout=BUILD_S)
    pip = [python(home), "-m", "pip", "--disable-pip-version-check"]
    pinned = {"PIP_CONSTRAINT": HERE / "versions.txt"}
    sdist = ["--no-deps", "--no-binary", "pyzmq", "--require-hashes", "-r", HERE / "sdist.txt", "-d", home]
    output_of([*pip, "download", *sdist], timeout=BUILD_S, PIP_CONSTRAINT=HERE / "build.txt")
    archive = next(home.glob(SDIST))
    theirs = {"PYZMQ_NO_BUNDLE": "1", "ZMQ_PREFIX": "auto", "PYZMQ_LIBZMQ_RPATH": "OFF"}
    output_of([*pip, "install", "--no-deps", archive], timeout=BUILD_S, PIP_CONSTRAINT=HERE / "build.txt", **theirs)
    output_of([*pip, "install", *TOOLS], timeout=BUILD_S, **pinned)
    unpack(archive, home / "suite")


def unpack(archive, suite):
    """Unpacks the tests and their settings, without the package's sources."""
    with tarfile.open(archive) as files:
        for member in files.getmembers():
            inner = Path(*Path(member.name).parts[1:])
            if member.isfile() and (inner.parts[:1] == ("tests",) or str(inner) == "pytest.ini"):
                (suite / inner).parent.mkdir(parents=True, exist_ok=True)
                (suite / inner).write_bytes(files.extractfile(member).read())


def library(home, env):
    return output_of([python(home), "-c", MAPS], Path(env["LD_LIBRARY_PATH"])).strip()


def session(home, wanted, done):
    """Runs one pytest process on the tests that are wanted and not done. Returns its results, the test that it died in
    or None, whether it died, and its output."""
    choice, report, log = (home / name for name in ("choice.json", "report.jsonl", "log"))
    choice.write_text(json.dumps({"wanted": wanted, "done": sorted(done)}))
    report.write_text("")
    command = [python(home), HERE / "session.py", choice, report, log]
    try:
        output, died = output_of(command, Path(os.environ["LD_LIBRARY_PATH"]), SESSION_S, home / "suite"), False
    except Failure as failure:
        output, died = str(failure), True
    results, running = [], None
    for line in report.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "start":
            running = event["name"]
        else:
            results.append(Result(event["name"], event["outcome"], event["detail"]))
            running = None
    return results, running, died, output


def run(home, env, wanted):
    os.environ.update(env)
    done = set()
    while True:
        results, running, died, output = session(home, wanted, done)
        yield from results
        if running is None:
            if died and not results:
                raise Failure(output)
            return
        yield Result(running, "the process died or hung", (home / "log").read_text() + output[-2000:])
        done |= {result.name for result in results} | {running}
