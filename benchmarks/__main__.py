"""Runs every benchmark: `python -m benchmarks [--json FILE]`. Each hot path stands beside its bare floor."""

from __future__ import annotations

import argparse
import json
import platform
from pathlib import Path

import boto3
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from benchmarks import bench_dispatch, bench_ingest, bench_ledger, bench_memory

# figure -> (what it says, goal, whether more is better)
GOALS: dict[str, tuple[str, float, bool]] = {
    "encode_ratio": ("encode a ledger: bare Arrow write / ours", 0.7, True),
    "ingest_ratio": ("encode + PUT + commit: bare write + PUT / ours", 0.7, True),
    "decode_5000_rows_ms": ("decode a segment of 5,000 rows, ms", 7.0, False),
    "dispatch_ratio": ("dispatch: bare SendMessageBatch loop / ours", 0.9, True),
    "dispatch_peak_ratio": ("dispatch peak memory: 1,000,000 waiting / 1,000", 1.1, False),
    "index_bytes_a_message": ("index bytes a message, 50,000 a ledger", 1.0, False),
    "bytes_a_message": ("stored bytes a message", 125.0, False),
}


def main() -> None:
    """Runs all, prints a table with the goals and saves every figure as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    data = next((path for path in bench_ledger.DATA if path.exists()), bench_ledger.DATA[-1])
    parser.add_argument("--data", type=Path, default=data)
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"))
    given = parser.parse_args()
    console = Console()
    figures: dict[str, object] = {}
    for name, run in {
        "ledger": lambda: bench_ledger.measure(bench_ledger.messages(given.data, 50_000, "replay"), 15),
        "ingest": lambda: bench_ingest.main(given.data),
        "dispatch": lambda: bench_dispatch.main(given.data),
        "memory": bench_memory.main,
    }.items():
        with console.status(f"{name} ..."):
            figures |= run()
    figures["index_bytes_a_message"] = figures["index_bytes_a_message"]["whole_item"]  # type: ignore[index]
    machine = f"Python {platform.python_version()}, pyarrow {pa.__version__}, boto3 {boto3.__version__}"
    table = Table(title=f"{platform.machine()}, {machine}", title_justify="left")
    for heading in ("", "measured", "goal"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, (what, goal, more) in GOALS.items():
        value = float(figures[name])  # type: ignore[arg-type]
        reached = value >= goal if more else value <= goal
        colour = "green" if reached else "red"
        table.add_row(what, f"[{colour}]{value:.3g}[/]", f"{'>=' if more else '<='} {goal:g}")
    console.print(table)
    given.json.parent.mkdir(parents=True, exist_ok=True)
    given.json.write_text(json.dumps({"machine": machine, **figures}, indent=1) + "\n")
    console.print(f"All figures: {given.json}")


if __name__ == "__main__":
    main()
