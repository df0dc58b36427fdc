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
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tidewheel.clock import SystemClock
from tidewheel.errors import InvalidValue

RESULTS = Path(__file__).parent / "results"
PACKAGES = ("pyarrow", "boto3", "moto")
# Above this share of one core, other programs disturb what is measured.
BUSY_LOAD = 0.5
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LOAD_AT_START = os.getloadavg()[0]


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


def machine() -> dict[str, object]:
    """Returns what this machine is: hardware, system and versions; no names of hosts, users or paths."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages / 2**30, 1),
        "os": _operating_system(),
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
        "load_at_start": round(_LOAD_AT_START, 2),
    }


def is_busy(load: float = _LOAD_AT_START) -> bool:
    """Says whether other programs ran when this process began: times are then worth little.

    Args:
        load: The machine's load average of the last minute; when this module was loaded, if not given.
    """
    return load > BUSY_LOAD


def save(name: str, figures: Mapping[str, object], *, command: str, directory: Path = RESULTS) -> Path:
    """Writes a benchmark's result, whole or not at all.

    Args:
        name: The benchmark's name: lower case, digits and underscores.
        figures: What was measured: anything that JSON can say.
        command: What to type in a checkout to measure it again.
        directory: Where to; `benchmarks/results`, if not given.

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
        "machine": machine(),
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
