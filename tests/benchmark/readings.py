"""What the kernel says about processes and the machine: the files below /proc."""

import os
import platform
from dataclasses import dataclass
from pathlib import Path

_TICK = 1.0 / os.sysconf("SC_CLK_TCK")  # seconds
_PAGE = os.sysconf("SC_PAGE_SIZE")  # bytes


@dataclass(frozen=True)
class Usage:
    """What a process has used so far."""

    user: float  # seconds of processor time
    system: float  # seconds of processor time
    resident: int  # bytes of memory, now

    def __sub__(self, earlier: "Usage") -> "Usage":
        """Processor time between two readings; memory as it is now."""
        return Usage(self.user - earlier.user, self.system - earlier.system, self.resident)


def usage(pid: int) -> Usage | None:
    """The usage of a process; None when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        statm = Path(f"/proc/{pid}/statm").read_text()
    except OSError:
        return None
    return parse_usage(stat, statm)


def parse_usage(stat: str, statm: str) -> Usage:
    """From the texts of /proc/PID/stat and statm (proc(5)): utime is field 14, stime 15, resident pages the second."""
    fields = stat[stat.rindex(")") + 2:].split()  # from field 3 on: the name before may hold blanks and parentheses
    return Usage(int(fields[11]) * _TICK, int(fields[12]) * _TICK, int(statm.split()[1]) * _PAGE)


def kernel_memory() -> int:
    """Bytes that the kernel holds for itself (Slab in /proc/meminfo): most of what sockets cost is there."""
    return meminfo(Path("/proc/meminfo").read_text(), "Slab")


def meminfo(text: str, name: str) -> int:
    """One value of /proc/meminfo in bytes; 0 where it is missing."""
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0


def processor_name(text: str) -> str:
    """The processor's name in the text of /proc/cpuinfo."""
    for line in text.splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def machine(open_files: int) -> dict[str, object]:
    """What the figures depend on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor_name(Path("/proc/cpuinfo").read_text()),
        "kernel": platform.release(),
        "memory": meminfo(Path("/proc/meminfo").read_text(), "MemTotal"),
        "open_files": open_files,
    }
