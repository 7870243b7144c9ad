"""docs/compatibility.md as rows: each row's subject, its status, the test that proves it, and the switch that must make
this test fail."""
import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/compatibility.md"
STATUSES = ("works", "taken", "absent")
TRANSPORTS = ("tcp", "ipc", "inproc", "udp", "ws", "wss", "tls+tcp", "vsock", "tipc", "pgm", "epgm", "norm", "vmci")
MECHANISMS = ("NULL", "PLAIN", "CURVE", "GSSAPI")
PROPERTIES = ("ZMQ_MORE", "ZMQ_SRCFD", "ZMQ_SHARED", "Socket-Type", "Routing-Id", "Identity", "User-Id",
              "Peer-Address", "X-", "__fd")
CAPABILITIES = ("ipc", "pgm", "tipc", "norm", "curve", "gssapi", "vmci", "draft", "WS", "WSS", "vsock")


class Row(NamedTuple):
    line: int
    section: str
    number: str
    name: str
    readable_only: bool
    status: str
    test: str

    def label(self):
        return f"{self.section}: {self.name}"


def rows():
    """Every row of the sections with tests: their tables end in the columns `status` and `test`."""
    section, columns, found = "", None, []
    for line, text in enumerate(PAGE.read_text().splitlines(), 1):
        cells = [cell.strip() for cell in text.split("|")[1:-1]]
        if text.startswith("#"):
            section, columns = text.lstrip("# "), None
        elif not text.startswith("|"):
            columns = None
        elif columns is None:
            columns = cells
        elif columns[-2:] == ["status", "test"] and not set(text) <= set("|- "):
            found.append(row_of(line, section, dict(zip(columns, cells))))
    return found


def row_of(line, section, cells):
    number = cells.get("number", "")
    name = next(value for key, value in cells.items() if key != "number").strip("`")
    return Row(line, section, number, name, cells.get("access") == "get", cells["status"], cells["test"].strip("`"))


def status_word(row):
    """The first word of the status: "works" of "works, where the kernel has it"."""
    return re.match(r"\w*", row.status).group()


def switch_of(row):
    """The value of SWITCH_OFF that makes the row untrue."""
    status = status_word(row)
    if row.section == "Functions":
        return f"function:{row.name}"
    if row.section in ("Socket options", "Context options"):
        kind = "option" if row.section == "Socket options" else "context"
        if status == "absent":
            return f"taken-{kind}:{row.number}"
        return f"unknown-{kind}:{row.number}" if row.readable_only or status == "taken" else f"{kind}:{row.number}"
    if row.section == "Message properties":
        return f"message-property:{row.number}" if row.number else f"property:{row.name}"
    if row.section == "Capabilities":
        return f"has:{row.name}"
    kind = {"Socket types": "type", "Transports": "transport", "Mechanisms": "mechanism", "Monitor events": "event"}
    prefix = "taken-" if status == "absent" else ""
    return f"{prefix}{kind[row.section]}:{row.number or row.name}"


def wanted():
    """(section, name) of everything that must have a row, from the headers and the lists above."""
    folder = ROOT / "crates/capi/include"
    headers = (folder / "zmq.h").read_text() + (folder / "zmq_draft.h").read_text()
    for name in re.findall(r"^ZMQ_EXPORT [^;]*?\b(zmq_\w+)\(", headers, re.M):
        yield "Functions", name
    for name in re.findall(r"^#define (ZMQ_EVENT_\w+) 0x", headers, re.M):
        if name not in ("ZMQ_EVENT_ALL", "ZMQ_EVENT_CLOSE_FAILED"):
            yield "Monitor events", name
    lists = {"Transports": TRANSPORTS, "Mechanisms": MECHANISMS, "Message properties": PROPERTIES,
             "Capabilities": CAPABILITIES}
    for section, names in lists.items():
        for name in names:
            yield section, name


def complaints(found, tests):
    """The errors of the page, given the names of all existing tests. The engine's own tests compare the options and the
    socket types with the page's tables."""
    for section, name in wanted():
        if not any((row.section, row.name) == (section, name) for row in found):
            yield f"no row in {section}: {name}"
    for row in found:
        where = f"{PAGE.name}:{row.line}: {row.label()}"
        if status_word(row) not in STATUSES:
            yield f"{where}: the status is none of {', '.join(STATUSES)}"
        elif status_word(row) != "works" and ":" not in row.status:
            yield f"{where}: no reason"
        if not row.test:
            yield f"{where}: no test"
        elif row.test not in tests:
            yield f"{where}: there is no test {row.test}"
