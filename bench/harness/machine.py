"""machine: the facts about the machine that belong to a result."""

import datetime
import os
import pathlib
import platform
import re
import resource
import subprocess

from . import programs


def first_line(path):
    try:
        return pathlib.Path(path).read_text(encoding="utf-8").splitlines()[0].strip()
    except (OSError, IndexError):
        return None


def output(*argv):
    try:
        return subprocess.run(
            argv, capture_output=True, text=True, check=True, cwd=programs.ROOT
        ).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def cpu_facts():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    fields = dict(re.findall(r"^(.+?)\s*:\s*(.*)$", text, re.MULTILINE))
    name = fields.get("model name") or fields.get("CPU part") or platform.machine()
    family = [fields[key] for key in ("cpu family", "model") if key in fields]
    detail = f" (family {family[0]}, model {family[1]})" if len(family) == 2 else ""
    return f"{name}{detail}, {fields['cpu MHz']} MHz" if "cpu MHz" in fields else name + detail


def cache():
    found = []
    for index in range(4):
        base = f"/sys/devices/system/cpu/cpu0/cache/index{index}/"
        kind, level, size = (first_line(base + leaf) for leaf in ("type", "level", "size"))
        if size and kind != "Instruction":
            found.append(f"L{level} {size.replace('K', ' KiB').replace('M', ' MiB')}")
    return ", ".join(found) or None


def memory():
    kib = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text(encoding="utf-8"))
    return f"{int(kib[1]) / 2**20:.0f} GiB" if kib else None


class Weather:
    """Other load on the processors from construction to told(): other programs' work, and time stolen by the host."""

    def __init__(self):
        self.began = self.look()

    @staticmethod
    def look():
        """Seconds, summed over processors: total, busy, stolen by the host, and of this program and its children."""
        ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in first_line("/proc/stat").split()[1:9]]
        user, nice, system, idle, iowait, irq, softirq, steal = ticks
        own = sum(
            usage.ru_utime + usage.ru_stime
            for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        )
        busy = user + nice + system + irq + softirq
        return busy + idle + iowait + steal, busy, steal, own

    def told(self, unwaited=0.0):
        """`unwaited`: CPU seconds of this program's descendants that it has not waited for."""
        whole, busy, stolen, own = (after - before for before, after in zip(self.began, self.look()))
        if whole <= 0:
            return {}
        others = max(0.0, busy - own - unwaited)
        return {
            "other work meanwhile": f"{100 * others / whole:.1f} % of the processors",
            "taken by the host meanwhile": f"{100 * stolen / whole:.1f} %",
        }


def virtual():
    text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    return "yes" if re.search(r"^flags.*\bhypervisor\b", text, re.MULTILINE) else "not seen"


def system():
    release = platform.freedesktop_os_release() if hasattr(platform, "freedesktop_os_release") else {}
    return release.get("PRETTY_NAME", "Linux")


def commit():
    """The measured commit; with a "+" if files of the library differ from it."""
    head = output("git", "rev-parse", "--short=12", "HEAD")
    changed = output("git", "status", "--porcelain", "--", "crates", "Cargo.toml", "Cargo.lock")
    return f"{head}{'+' if changed else ''}" if head else None


def facts(versions):
    """The facts about the machine for the page and the table, in order. None of them identifies the host."""
    rustc = output("rustc", "--version")
    found = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": cpu_facts(),
        "processors": f"{len(os.sched_getaffinity(0))}, {platform.machine()}",
        "caches": cache(),
        "virtual machine": virtual(),
        "memory": memory(),
        "governor": first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not readable",
        "kernel": f"{platform.system()} {platform.release().split('-')[0]}",
        "system": system(),
        "C library": " ".join(platform.libc_ver()),
        "C compiler": (output(programs.compiler(), "--version") or "").splitlines()[0],
        "Rust compiler": rustc.split(" (")[0] if rustc else None,
        "ours": f"Pinnace, commit {commit() or 'unknown'} (says {versions.get('ours', '?')})",
        "libzmq": f"{versions.get('libzmq', '?')}, the system's package {package() or ''}".rstrip(),
    }
    return {key: value for key, value in found.items() if value}


def package():
    return output("dpkg-query", "-W", "-f", "${Version}", "libzmq5")
