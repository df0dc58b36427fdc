"""The results of benchmarks: one JSON file each, with the machine, the date and the command that made it.

A file of `benchmarks/results/`:

    {
      "name": "dispatch",
      "command": "python -m benchmarks dispatch",
      "date": "2026-01-31",
      "machine": {"cpu": ..., "cores": ..., "memory_gib": ..., "os": ..., "python": ..., "pyarrow": ..., "boto3": ...,
                  "moto": ..., "load_at_start": ...},
      "figures": {...}
    }

`figures` is whatever the benchmark measured: numbers, texts, lists and mappings of them. Names end in their units.
`load_at_start` is how many cores other programs kept busy in the second before this benchmark began; results of which
times are no part may lack it. It is no load average: that would still hold the benchmark that ran before.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidewheel.clock import SystemClock
from tidewheel.errors import InvalidValue

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("pyarrow", "boto3", "moto")
# With more than half a core of other programs' work, what is measured is disturbed.
BUSY_LOAD = 0.5
_CPU_TIMES = Path("/proc/stat")
_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a file of results says.

    Attributes:
        name: The benchmark, and the file's name without `.json`.
        command: What to type to measure it again.
        machine: What it was measured on.
        date: The day, UTC, as `2026-01-31`.
        figures: What was measured.
    """

    name: str
    command: str
    machine: Mapping[str, object]
    date: str
    figures: Mapping[str, object]


def machine(load_at_start: float | None = None) -> dict[str, object]:
    """Returns what this machine is: hardware, system and versions; no names of hosts, users or paths.

    Args:
        load_at_start: Cores that others kept busy, as `load_now` found it before the measurement; left out if None.
    """
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
        "os": _operating_system(),
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
        **({} if load_at_start is None else {"load_at_start": round(load_at_start, 2)}),
    }


def load_now(sample_s: float = 1.0) -> float:
    """Returns how many cores are busy, while this process waits: what other programs take of the machine.

    Args:
        sample_s: How long to wait. Where the system does not count, its load average of the last minute is returned.
    """
    if not _CPU_TIMES.is_file():
        return os.getloadavg()[0]
    before_s, began_s = busy_s(_CPU_TIMES.read_text(encoding="ascii")), time.monotonic()
    time.sleep(sample_s)
    after_s, ended_s = busy_s(_CPU_TIMES.read_text(encoding="ascii")), time.monotonic()
    return (after_s - before_s) / (ended_s - began_s)


def busy_s(cpu_times: str) -> float:
    """Returns the seconds that all cores together worked, or were taken by a neighbour, since the machine started."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, cpu_times.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def is_busy(load: float) -> bool:
    """Says whether other programs take so much of the machine that times are worth little.

    Args:
        load: Cores that they keep busy, as `load_now` finds it.
    """
    return load > BUSY_LOAD


def load_text(result: Result) -> str:
    """Returns what a date in a sentence is followed by if the machine was busy before; empty if it was quiet."""
    load = result.machine.get("load_at_start")
    if not isinstance(load, int | float) or not is_busy(load):
        return ""
    return f", **on a busy machine** (others wanted {load:.2g} cores just before), so times are too long"


def save(
    name: str,
    figures: Mapping[str, object],
    *,
    command: str,
    directory: Path = RESULTS,
    load_at_start: float | None = None,
) -> Path:
    """Writes a benchmark's result, whole or not at all.

    Args:
        name: The benchmark's name: lower case, digits and underscores.
        figures: What was measured: anything that JSON can say.
        command: What to type in a checkout to measure it again.
        directory: Where to; `benchmarks/results`, if not given.
        load_at_start: What `load_now` found before the measurement; None where times are no part of it.

    Returns:
        The file.

    Raises:
        InvalidValue: The name is not one, or a figure is not finite or not JSON.
    """
    path = _path(name, directory)
    now_ms = SystemClock().now_ms()
    content = {
        "name": name,
        "command": command,
        "date": datetime.fromtimestamp(now_ms / 1000, UTC).date().isoformat(),
        "machine": machine(load_at_start),
        "figures": figures,
    }
    try:
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidValue(
            "figures", str(figures)[:200], f"Give finite numbers, texts, lists, mappings: {error}."
        ) from None
    directory.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def load(name: str, directory: Path = RESULTS) -> Result:
    """Reads a result.

    Args:
        name: The benchmark's name.
        directory: Where from; `benchmarks/results`, if not given.

    Raises:
        InvalidValue: There is no such file, or it is not a result.
    """
    path = _path(name, directory)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Result(
            name=content["name"],
            command=content["command"],
            machine=content["machine"],
            date=content["date"],
            figures=content["figures"],
        )
    except FileNotFoundError:
        raise InvalidValue(
            "result", name, f"It was not measured; there is {', '.join(names(directory)) or 'none'}."
        ) from None
    except (ValueError, KeyError, TypeError):
        raise InvalidValue("result", path.name, "Give a file that benchmarks.results.save wrote.") from None


def names(directory: Path = RESULTS) -> list[str]:
    """Returns the names of all results of a directory, sorted."""
    return sorted(path.stem for path in directory.glob("*.json"))


def _path(name: str, directory: Path) -> Path:
    if not _NAME.fullmatch(name):
        raise InvalidValue("name", name, "Use lower-case letters, digits and underscores.")
    return directory / f"{name}.json"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    if sys.platform == "linux":
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _operating_system() -> str:
    if sys.platform == "linux":
        try:
            return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {platform.machine()}"
        except (OSError, KeyError):
            pass
    return f"{platform.system()} {platform.release()}, {platform.machine()}"
