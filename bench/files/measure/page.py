"""page: the result as Markdown, for the terminal and for docs/bench/files.md."""

import datetime
import os
import pathlib

from harness import machine, markdown

from . import programs

FIGURES = ("case", "way", "median", "smallest..largest", "runs", "CPU s: sender / receiver", "MiB: sender / receiver")

CONGESTION = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control")

EXPLAINED = """
- `make bench-files` writes this page. Ways run in turn, each round another one first; a ratio is the median of the
  ratios of runs of the same round, and more than 1 is faster.
- Every run is two processes over the loopback: a server that is up already, and a receiver. The time is that of the
  receiver's process, from before it is started until it has ended: `pinnace files get`, `rsync -a`, `cp -r`, or the
  client of the Guide's model. Its start and its connection are part of it.
- Content is random, so it does not compress. The source was just written: it is in the kernel's cache, on the disk too,
  and no run drops it from there. No way waits until its copy is on the disk. sync(2) before each run writes out what
  the run before has left.
- Before each case the harness writes as much memory as the case uses, and frees it: in a virtual machine, memory that
  was never used costs its first user several times the time of a copy.
- After each run, outside of the time, the copy's digest is compared with the source's (SHA-256); a run with another one
  is no result. Ours verifies every byte that it receives (BLAKE3), also what it discards; the Guide's models verify
  nothing.
- A large file has {mib} MiB. Where nothing else is said, source and copy are in memory (/dev/shm).
- The Guide's models are those of `examples/c`, on the system's libzmq, without a high-water mark: with the Guide's own
  model 3 loses chunks.
- rsync receives from an rsync daemon over tcp, without compression.
- "Again": from a server that has sent the whole file once before, and has kept the values of its groups: it reads the
  file, and does not hash it. The receiver verifies every byte as ever.
- "Bare" is what the steps themselves cost here: one thread reads a file, hashes it (BLAKE3) and writes it to a tcp
  connection; one thread of another process receives, hashes, and writes or discards (`bench/files/load/src/bare.rs`).
  There are no frames and no credit, it cannot go on after an interruption, and only the whole is verified.
- TCP's congestion control on this machine is above. Within a host the engine and "bare" use Reno, which does not pace.
- Small files: {files:,} of 1 KiB, a thousand in each folder. "Nothing changed": the same command again.
- Ten changed runs: the receiver has an earlier version of the file that differs in ten runs of 1/1024 of its size, not
  aligned to any block. Counted is the content that the server has sent.
- {clients} clients: in one process, all of the same file of {crowd_mib} MiB, discarded. The server may have 2.5 MB for
  each client and 64 MiB beside. "At the first end": how far the clients are when the first one has the whole file.
- 50 ms round trip: through a proxy that delays each direction by 25 ms and sends 1 Gbit/s. It holds what is under way
  and 1 MiB more. "Plain tcp" sends as many zeros through the same proxy: what it carries.
- CPU s: user and system seconds of a side, start and end included. MiB: the peak of resident memory of the side's
  process; rsync has several, and the largest counts. Both columns leave out the proxy.
"""


def facts(weather):
    rustc = machine.output("rustc", "--version")
    rsync = (machine.output("rsync", "--version") or "").split()
    found = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": machine.cpu_facts(),
        "processors": f"{len(os.sched_getaffinity(0))}; virtual machine: {machine.virtual()}",
        "memory": machine.memory(),
        "disk": markdown.disk(programs.disk()),
        "kernel": f"{os.uname().sysname} {os.uname().release.split('-')[0]}",
        "TCP congestion control": CONGESTION.read_text(encoding="utf-8").strip(),
        "system": machine.system(),
        "ours": f"Pinnace, commit {machine.commit() or 'unknown'}",
        "rsync": rsync[2] if len(rsync) > 2 else None,
        "libzmq": machine.package(),
        "Rust compiler": rustc.split(" (")[0] if rustc else None,
        **weather.told(),
    }
    return {key: value for key, value in found.items() if value}


def render(results, plan, weather):
    sizes = {"mib": plan.bytes >> 20, "crowd_mib": plan.crowd_bytes >> 20}
    explained = EXPLAINED.format(**sizes, **vars(plan))
    return markdown.render("File transfer, measured", facts(weather), FIGURES, results, explained)
