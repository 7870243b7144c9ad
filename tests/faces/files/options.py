#!/usr/bin/python3
"""Every option of the Rust builders, every rule and every kind of event exists in C, C++ and Python, in the form that
the language has for it.

Rust's methods, fields and variants are the list: a new one fails here until each binding has it, or its row says why it
has not.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
from check import Checks, expect  # noqa: E402

TIMES = {"quiet", "rescan", "part_age", "patience"}
# Options of C that are functions, with the prefix of the builder.
FUNCTIONS = {"folder", "bind", "curve", "grant", "password", "user"}
IN_C = {"writable_folder": "folder", "user_by_key": "user", "user_by_password": "password"}
# Python's parameters, where they differ.
IN_PYTHON = {"folder": "folders", "writable_folder": "writable", "curve": "cert", "user_by_key": "users",
             "user_by_password": "passwords", "grant": "grants"}
# Rules of C that are functions, or several options.
RULES_IN_C = {"filter": ["exclude", "include"], "deletion": ["deletion", "deletion_most", "deletion_force"]}
RULES_IN_CPP = {"filter": ["exclude", "include"]}


def read(path):
    return (ROOT / path).read_text()


HEADER = read("crates/capi/include/pinnace_files.h")
PAGE = read("docs/reference/files.md")
OPTIONS_HPP = read("bindings/cpp/pinnace/files_options.hpp")
PYTHON = read("bindings/python/pinnace/files.py")


def block(text, start, end):
    """The part of a text from one line on, up to another."""
    expect(start in text, f"{start} is not there")
    return text.partition(start)[2].partition(end)[0]


def methods(path, of, least):
    source = block(read(path), f"\nimpl {of} {{", "\n}\n")
    found = [name for name in re.findall(r"^    pub fn (\w+)\((?:mut )?self", source, re.M)
             if name not in ("start", "connect")]
    expect(len(found) >= least, f"the methods of {of}: {found}")
    return found


def keys_of(path, table):
    return set(re.findall(r'Key\(\s*"(\w+)"', block(read(path), f"\nconst {table}:", "\n];\n")))


def missing(names, has):
    lacking = [name for name in names if not has(name)]
    expect(not lacking, f"without {', '.join(lacking)}")


def of_a_side(side, path, source, least):
    """The options of a server or client."""
    names = methods(path, f"{side.title()}Builder", least)
    keys, options = keys_of(source, f"{side.upper()}_KEYS"), f"pinnace_files_{side}_options"
    cpp = block(OPTIONS_HPP, f"\nclass {side.title()}Options {{", "\n};\n")
    python = block(PYTHON, f"\nclass {side.title()}(Owner):", "\n    ) -> None:")
    parameters = dict(re.findall(r"^        (\w+): ([^\n]*)", python, re.M))

    def in_c(name):
        word = IN_C.get(name, name)
        if word in FUNCTIONS:
            return all(f"{options}_{word}(" in text for text in (HEADER, PAGE))
        key = f"{word}_ms" if name in TIMES else word
        return key in keys and f" *   {key} " in HEADER and f"| `{key}` |" in PAGE

    def in_cpp(name):
        return f"Options &{name}({'Millis ' if name in TIMES else ''}" in cpp

    def in_python(name):
        found = parameters.get(IN_PYTHON.get(name, name), "")
        return found and ("Seconds" in found) == (name in TIMES)

    for has in (in_c, in_cpp, in_python):
        missing([f"{name} ({has.__name__})" for name in names], lambda row, has=has: has(row.partition(" ")[0]))


def of_a_server():
    of_a_side("server", "crates/files/src/server/builder.rs", "crates/interface/src/files.rs", 13)


def of_a_client():
    of_a_side("client", "crates/files/src/client/mod.rs", "crates/interface/src/files.rs", 8)


def rules():
    source = block(read("crates/files/src/rules.rs"), "\npub struct Rules {", "\n}\n")
    names = re.findall(r"^    pub (\w+):", source, re.M)
    expect(len(names) >= 7, f"the rules: {names}")
    keys = keys_of("crates/interface/src/rules.rs", "RULE_KEYS")
    cpp = block(OPTIONS_HPP, "\nclass Rules {", "\n};\n")
    python = block(read("bindings/python/pinnace/_files_rules.py"), "\nclass Rules:", "\n\n\n")

    def in_c(name):
        wanted = RULES_IN_C.get(name, [name])
        functions = [word for word in wanted if f"pinnace_files_rules_{word}(" in HEADER + PAGE]
        return functions == wanted or all(
            key in keys and f" *   {key} " in HEADER and f"| `{key}` |" in PAGE for key in wanted)

    missing(names, in_c)
    missing(names, lambda name: all(f"Rules &{word}(" in cpp for word in RULES_IN_CPP.get(name, [name])))
    missing(names, lambda name: f"    {name}: " in python)


def events():
    source = block(read("crates/files/src/dialogue/mod.rs"), "\npub enum Event {", "\n}\n")
    names = re.findall(r"^    ([A-Z]\w+)", source, re.M)
    expect(len(names) >= 11, f"the events: {names}")
    cpp = block(read("bindings/cpp/pinnace/files.hpp"), "\nenum class EventKind {", "\n};\n")
    python = read("bindings/python/pinnace/_files_transfer.py")
    missing(names, lambda name: f"#define PINNACE_FILES_{name.upper()} " in HEADER)
    missing(names, lambda name: f"    {name.lower()} = PINNACE_FILES_{name.upper()}," in cpp)
    missing(names, lambda name: f"\nclass {name}(NamedTuple):" in python and f'"{name}"' in PYTHON)


def main():
    checks = Checks()
    for check in (of_a_server, of_a_client, rules, events):
        checks.check(f"all options of file transfer: {check.__name__.replace('_', ' ')}", check)
    checks.finish()


main()
