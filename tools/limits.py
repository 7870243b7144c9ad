"""The values in docs/internals/limits.md, taken from the constants of the crates' sources.

Each row of its tables begins with the names of constants, their values, and the files that define them. The values are
written by `tools/limits`, and tools/check-docs checks that they are up to date. Rows with other names are written by
hand.
"""
import re

PAGE = "docs/internals/limits.md"
CONST = re.compile(r"\b(?:const|static) (\w+): ([^=;]+?)(?: = ([^;]+))?;", re.S)
# Constants in bytes, and in nanoseconds, whose names or types do not say so.
BYTES = re.compile(
    r"BYTES|^(INLINE_MAX|LOAN_MIN|COMMAND_MAX|GATHER_MAX|RING_MAX|LOCAL_SEND_BUFFER|CONTROL_MAX|MAX_LINE|MAX_HEAD"
    r"|FRAGMENTED_MAX|MESSAGE_MIN|DATAGRAM_MAX|WINDOW|COST|OVERDRAFT|PART_MAX|FRAME_MAX|UNSENT_MAX|GATHERED_MAX|MOST"
    r"|INBOX_MAX|CREDIT_MAX|GROUP|BLOCK)$"
)
NANOSECONDS = {"LONE_GAP"}
UNITS = [("s", 10**9), ("ms", 10**6), ("us", 10**3), ("ns", 1)]
FACTORS = {"secs": 10**9, "millis": 10**6, "micros": 10**3, "nanos": 1}
# From here on a power of two is written as one.
POWER = 1 << 18
ROW = re.compile(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|(.*)$")


class Unknown(Exception):
    """A constant cannot be found or read."""


def constants(path):
    """{name: (type, expression)} of a source file."""
    found = {}
    for match in CONST.finditer(re.sub(r"//.*", "", path.read_text())):
        found.setdefault(match[1], (match[2], match[3]))
    return found


def value(path, name):
    """A constant's value: a number, or for a Duration its nanoseconds."""
    known = constants(path)
    if name not in known:
        raise Unknown(f"{path} has no constant {name}")
    of_type, text = known[name]
    if "Cells<" in of_type:
        text = re.search(r"\{(.*)\}", of_type)[1]
    text = re.sub(r"^if cfg!\(\w+\) \{.*?\} else \{(.*)\}$", r"\1", text.strip(), flags=re.S)
    duration = re.fullmatch(r"(?:Duration|std::time::Duration)::from_(\w+)\((.*)\)", text)
    if duration:
        return number(path, duration[2]) * FACTORS[duration[1]]
    return number(path, text)


def number(path, text):
    text = re.sub(r"\b[A-Z][A-Z0-9_]*\b", lambda name: str(value(path, name[0])), text).replace("_", "")
    if not re.fullmatch(r"[\d\s()+*<-]+", text):
        raise Unknown(f"{path}: cannot read `{text}`")
    return eval(text)  # Digits and operators alone.


def written(path, name, amount):
    """A value as the page shows it."""
    if "Duration" in constants(path)[name][0] or name in NANOSECONDS:
        unit, size = next((unit, size) for unit, size in UNITS if amount % size == 0)
        return f"{amount // size} {unit}"
    if BYTES.search(name):
        parts = []
        for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
            # 384 KiB, not 0 MiB; 2560 KiB, not 2 MiB + 512 KiB.
            if amount >= size and (amount % size == 0 or amount % size < 4096):
                parts.append(f"{amount // size} {unit}")
                amount %= size
        if amount or not parts:
            parts.append(f"{amount:,}" + ("" if parts else " bytes"))
        return " + ".join(parts)
    if amount >= POWER and amount & (amount - 1) == 0:
        return f"2^{amount.bit_length() - 1}"
    return f"{amount:,}"


def files_of(root, cell, before, crate):
    """The source files that a cell names: `engine `link/tx`, `link/rx``, `the same`, or a path in the page's crate."""
    if cell == "the same":
        return before
    word = re.match(r"(\w+) `", cell)
    source = root / "crates" / (word[1] if word else crate) / "src"
    names = [name.removesuffix(".rs") + ".rs" for name in re.findall(r"`([^`]+)`", cell)]
    return [source / name for name in names]


def values_of(root, names, files):
    """The cell of values for a row's names."""
    listed = re.findall(r"`(\w+)`", names)
    if len(listed) == 1 and len(files) > 1:
        return ", ".join(written(file, listed[0], value(file, listed[0])) for file in files)
    files = files if len(files) == len(listed) else files[:1] * len(listed)
    amounts = [value(file, name) for file, name in zip(files, listed)]
    if " x " in names:
        return written(files[0], listed[0], amounts[0] * amounts[1])
    return ", ".join(written(*one) for one in zip(files, listed, amounts))


def generated(root, page):
    """The page with the values of the sources."""
    lines, files, crate = [], [], "delivery"
    for line in page.splitlines():
        row = ROW.match(line)
        heading = re.search(r"file in `(\w+)/src`", line)
        crate = heading[1] if heading else crate
        if row and re.match(r"`[A-Z][A-Z0-9_]*`", row[1]) and row[3] != "options":
            files = files_of(root, row[3], files, crate)
            line = f"| {row[1]} | {values_of(root, row[1], files)} | {row[3]} |{row[4]}"
        lines.append(line)
    return "\n".join(lines) + "\n"
