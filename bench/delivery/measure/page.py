"""page: the result as Markdown, for the terminal and for docs/bench/delivery.md."""

import datetime
import os
import re

from harness import machine, markdown

from . import programs

FIGURES = ("case", "side", "on the disk: sender / receiver", "median", "smallest..largest", "runs", "CPU s/M")

EXPLAINED = """
- `make bench-delivery` writes this page. Sides run in turn, each round another one first; a ratio is the median of the
  ratios of runs of the same round.
- Ours are two processes, liner's are two clients in one process, as in its own benchmark. Every clock is
  CLOCK_MONOTONIC, which is one for all processes of a machine; the receiver tells its times through a pipe.
- On the disk, with `sync`: every message before its ticket resolves (fdatasync(2)); of the receiver, which messages
  were handled, before the sender forgets them. Elsewhere nothing is on any disk.
- Ours: the clock runs from before the first send until every ticket is resolved and the last handler has run. liner:
  until its callback has had the last. PUSH/PULL: until the last is received. Every message carries its number, and a
  run with one that is missing, twice or out of order is no result.
- Cycles: {cycle:,} messages, then a pause of {pause_ms} ms (liner's own benchmark has a second, and is slower without
  it), {cycles} times a run; the figure of a run is its median cycle.
- liner: `at_least_once_delivery` is set; it keeps what it has accepted in memory. Its Redis keeps nothing on the disk.
- One at a time: turns of {block} messages, {blocks} a run on each side. The disk's side writes as many bytes as the log
  does for one message, one behind the other, into a file of zeros made before, each followed by fdatasync(2), from the
  same process. The median is of turns, and so is the ratio. CPU: of the process.
- Recovery: the sender's process is killed (SIGKILL) when all is accepted, and started again while the receiver waits;
  the clock runs from before its start. "Nothing cached": the log's pages were dropped from the kernel's cache.
- Memory: private resident pages of the sender's process (smaps_rollup), with the receiver stopped (SIGSTOP).
- CPU s/M: user and system seconds a million messages, all processes of a side, set-up and Redis included.
"""


def facts(weather):
    redis = re.search(r"v=(\S+)", machine.output("redis-server", "--version") or "")
    rustc = machine.output("rustc", "--version")
    found = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": machine.cpu_facts(),
        "processors": f"{len(os.sched_getaffinity(0))}; virtual machine: {machine.virtual()}",
        "memory": machine.memory(),
        "disk": markdown.disk(programs.place()),
        "kernel": f"{os.uname().sysname} {os.uname().release.split('-')[0]}",
        "system": machine.system(),
        "ours": f"Pinnace, commit {machine.commit() or 'unknown'}",
        "liner": f"liner_broker 1.4.1, Redis {redis[1] if redis else '?'}",
        "libzmq": machine.package(),
        "Rust compiler": rustc.split(" (")[0] if rustc else None,
        **weather.told(),
    }
    return {key: value for key, value in found.items() if value}


def render(results, plan, weather):
    explained = EXPLAINED.format(**vars(plan))
    return markdown.render("Guaranteed delivery, measured", facts(weather), FIGURES, results, explained)
