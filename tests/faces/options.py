#!/usr/bin/python3
"""Every option of the Rust builder exists in C, C++ and Python, in the form that the language has for it.

The builder's methods are the list: a new one fails here until each binding has it, or its row says why it has not.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from check import Checks, expect  # noqa: E402

BUILDER = ["crates/delivery/src/client/builder.rs", "crates/delivery/src/client/builder/curve.rs"]
# Times, which C has in milliseconds. One method sets both delays of `retry`.
TIMES = {"lease", "interval", "ack_within", "reassign_after", "retain_for", "deduplicate_for", "linger",
         "handler_linger"}
IN_C = {
    "retry": ["retry_first_ms", "retry_most_ms"],
    **{name: [f"{name}_ms"] for name in TIMES},
}
# Options of C that are functions.
FUNCTIONS = {
    "topics": "pinnace_client_options_topic", "peer": "pinnace_client_options_peer",
    "curve": "pinnace_client_options_curve", "trust": "pinnace_client_options_trust",
    "cert": "pinnace_client_options_cert", "trust_file": "pinnace_client_options_trust_file",
    "on_error": "pinnace_client_on_error",
}
# The other languages' names, where they differ. In C++ on_error is a method of the client.
IN_CPP = {"topics": "topic"}
# In Python `cert` and `trust` take files, and `trust` keys, too; keys of our own are in a file only.
IN_PYTHON = {"peer": "peers", "curve": "cert", "trust_file": "trust"}


def methods():
    source = "".join((ROOT / path).read_text() for path in BUILDER)
    found = re.findall(r"^    pub fn (\w+)\(\s*mut self", source, re.M)
    expect(len(found) > 25 and "data_dir" in found, f"the builder's methods: {found}")
    return found


def missing(has):
    lacking = [name for name in methods() if not has(name)]
    expect(not lacking, f"without {', '.join(lacking)}")


def in_c():
    source = (ROOT / "crates/interface/src/delivery.rs").read_text()
    header = (ROOT / "crates/capi/include/pinnace_delivery.h").read_text()
    page = (ROOT / "docs/reference/delivery.md").read_text()
    keys = re.findall(r'Key\(\s*"(\w+)"', source)

    def has(name):
        if name in FUNCTIONS:
            return all(f"{FUNCTIONS[name]}(" in text for text in (header, page))
        wanted = IN_C.get(name, [name])
        return all(key in keys and f" *   {key} " in header and f"| `{key}` |" in page for key in wanted)

    missing(has)


def in_cpp():
    options = (ROOT / "bindings/cpp/pinnace/options.hpp").read_text()
    client = (ROOT / "bindings/cpp/pinnace/client.hpp").read_text()

    def has(name):
        if name == "on_error":
            return "void on_error(" in client
        time = "Millis " if name in TIMES else ""
        return f"Options &{IN_CPP.get(name, name)}({time}" in options

    missing(has)


def in_python():
    source = (ROOT / "bindings/python/pinnace/_client.py").read_text()
    signature = source.partition("def __init__(")[2].partition(") -> None:")[0]
    types = dict(re.findall(r"^        (\w+): ([^=\n]*)", signature, re.M))

    def has(name):
        found = types.get(IN_PYTHON.get(name, name), "")
        return found and ("Seconds" in found) == (name in TIMES or name == "retry")

    missing(has)


def main():
    checks = Checks()
    for check in (in_c, in_cpp, in_python):
        checks.check(f"all options: {check.__name__.replace('_', ' ')}", check)
    checks.finish()


main()
