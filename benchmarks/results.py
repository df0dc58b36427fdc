"""Saves the results of benchmarks and other long checks, as a JSON file each.

    {
      "name": "dispatch",
      "command": "python -m benchmarks dispatch",
      "date": "2026-01-31",
      "machine": {"cpu": ..., "cores": ..., "memory_gib": ..., "os": ..., "python": ..., "pyarrow": ..., "boto3": ...,
                  "moto": ..., "load_at_start": ...},
      "figures": {...}
    }

`figures` holds numbers, texts, lists and mappings. A name ends in its unit. `load_at_start` counts the cores that other
programs kept busy in the second before the run. A load average would still contain the benchmark before.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidewheel.clock import SystemClock
from tidewheel.errors import InvalidValue

RESULTS = Path(__file__).parent / "results"
_CPU_TIMES = Path("/proc/stat")


def machine(load_at_start: float | None = None) -> dict[str, object]:
    """Describes this machine without names of hosts, users or paths.

    Args:
        load_at_start: cores that other programs keep busy; None leaves the entry out.
    """
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
        "os": f"{platform.platform(terse=True)}, {platform.machine()}",
        "python": platform.python_version(),
        **{package: _version(package) for package in ("pyarrow", "boto3", "moto")},
        **({} if load_at_start is None else {"load_at_start": round(load_at_start, 2)}),
    }


def load_now(sample_s: float = 1.0) -> float:
    """Returns how many cores other programs keep busy while this process sleeps.

    Args:
        sample_s: how long to sleep. A system without `/proc/stat` answers with its load average instead.
    """
    if not _CPU_TIMES.is_file():
        return os.getloadavg()[0]
    before_s, began_s = busy_s(_CPU_TIMES.read_text(encoding="ascii")), time.monotonic()
    time.sleep(sample_s)
    after_s, ended_s = busy_s(_CPU_TIMES.read_text(encoding="ascii")), time.monotonic()
    return (after_s - before_s) / (ended_s - began_s)


def busy_s(cpu_times: str) -> float:
    """Returns the seconds that all cores worked, or were taken by another virtual machine, since the system started."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, cpu_times.split("\n", 1)[0].split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def is_busy(load: float) -> bool:
    """Returns whether other programs take more than half a core, and so disturb a measurement."""
    return load > 0.5


def save(
    name: str,
    figures: Mapping[str, object],
    *,
    command: str,
    directory: Path = RESULTS,
    load_at_start: float | None = None,
) -> Path:
    """Writes a result, completely or not at all, and returns the file.

    Args:
        name: names the file: lower case, digits and underscores.
        figures: finite numbers, texts, lists and mappings.
        command: measures the same again.
        directory: where to write.
        load_at_start: from `load_now`; None where times are no part of the result.

    Raises:
        InvalidValue: the name is invalid, or JSON cannot hold a figure.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise InvalidValue("name", name, "Use lower-case letters, digits and underscores.")
    content = {
        "name": name,
        "command": command,
        "date": datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).date().isoformat(),
        "machine": machine(load_at_start),
        "figures": figures,
    }
    try:
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise InvalidValue("figures", str(figures)[:200], f"Give finite numbers and plain values: {error}.") from None
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.json"
    partial = path.with_suffix(".partial")
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)
    return path


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _cpu_model() -> str:
    names = Path("/proc/cpuinfo")
    lines = names.read_text(encoding="utf-8").splitlines() if names.is_file() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
