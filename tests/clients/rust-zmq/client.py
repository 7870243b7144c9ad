"""The Rust crate `zmq` from the registry, with the tests and the Cargo.lock that its package carries."""
import json
from pathlib import Path

from check import Failure, run as output_of
from results import loaded_by, run_one

HERE = Path(__file__).resolve().parent
BUILD_S = 1200
# It checks that some programs do not compile: it does not use libzmq.
NOT_BUILT = "compile-tests"


def manifest():
    metadata = json.loads(output_of(["cargo", "metadata", "--format-version=1", "--locked"], cwd=HERE, timeout=BUILD_S))
    return next(package["manifest_path"] for package in metadata["packages"] if package["name"] == "zmq")


def install(home):
    """Builds its test programs, and records their paths."""
    crate = Path(manifest())
    targets = sorted(file.stem for file in (crate.parent / "tests").glob("*.rs") if file.stem != NOT_BUILT)
    choice = [word for target in targets for word in ("--test", target)]
    build = ["cargo", "test", "--no-run", "--locked", "--message-format=json", "--target-dir", home / "target"]
    messages = output_of([*build, "--manifest-path", crate, *choice], timeout=BUILD_S).splitlines()
    built = [json.loads(line) for line in messages if line.startswith("{")]
    programs = {message["target"]["name"]: message["executable"] for message in built if message.get("executable")}
    if sorted(programs) != targets:
        raise Failure(f"built {sorted(programs)}, not {targets}")
    (home / "programs.json").write_text(json.dumps(programs))


def programs_of(home):
    return json.loads((home / "programs.json").read_text())


def library(home, env):
    return loaded_by(programs_of(home)["test"], env)


def run(home, env, wanted):
    programs = programs_of(home)
    env = {**env, "RUST_BACKTRACE": "0"}
    if wanted is None:
        wanted = []
        for target, program in programs.items():
            listing = output_of([program, "--list"], Path(env["LD_LIBRARY_PATH"]))
            tests = (line.removesuffix(": test") for line in listing.splitlines() if line.endswith(": test"))
            wanted += [f"{target} {test}" for test in tests]
    for name in wanted:
        target, _, test = name.partition(" ")
        command = [programs[target], "--exact", test]
        yield run_one(name, command, home, env, lambda output: "passed" if ": ok. 1 passed" in output else "not run")
