"""Lists all benchmarks, with the goals of their figures.

A benchmark is a module with a function `benchmark(*, quick) -> figures`. Its docstring says how it measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """A benchmark.

    Attributes:
        name: names its results, and its module unless `module` does.
        title: heads its tables.
        slow: whether it runs with `--all` only.
        extra: a module that must be installed beside the development tools.
        goals: figure -> its bound, as `>= 0.7` or `<= 125`.
        module: has `benchmark`.
    """

    name: str
    title: str
    slow: bool = False
    extra: str | None = None
    goals: Mapping[str, str] = field(default_factory=dict)
    module: str = ""


_ALL = (
    Benchmark(
        name="ledger",
        title="Encode and decode ledgers",
        goals={
            "encode_ratio_like_for_like": ">= 0.8",
            "encode_ratio": ">= 0.7",
            "decode_5000_rows_ms": "<= 7",
            "bytes_a_message": "<= 125",
        },
    ),
    Benchmark(name="ingest", title="Ingest", goals={"ingest_ratio": ">= 0.7", "ingest_from_queue_ratio": ">= 0.3"}),
    Benchmark(name="plain", title="Plain messages", goals={"envelopes_of_2000_to_packs": ">= 0.2"}),
    Benchmark(
        name="worker",
        title="A worker's CPU",
        goals={f"{kind}_to_bare": "<= 1.5" for kind in ("one", "threads", "coroutines")},
    ),
    Benchmark(name="plan", title="Plan a slot"),
    Benchmark(name="dispatch", title="Dispatch", goals={"dispatch_ratio_same_options": ">= 0.9"}),
    Benchmark(
        name="memory",
        title="Memory of a dispatch",
        goals={"dispatch_peak_ratio": "<= 1.1", "dispatch_peak_ratio_most": "<= 1.1"},
    ),
    Benchmark(
        name="index",
        title="Index bytes a message",
        goals={"index_bytes_a_message": "<= 1", "index_bytes_a_message_merged": "<= 1"},
    ),
    Benchmark(
        name="precision",
        title="Lateness under load",
        goals={"p99_at_20_ms": "<= 1100", "p99_at_100_ms": "<= 1100"}
        | dict.fromkeys(("early", "lost", "duplicates"), "<= 0"),
    ),
    Benchmark(name="capacity", title="Limits that a steady stream reaches"),
    Benchmark(name="fairness", title="Waiting behind a busy topic", goals={"most_quiet_waits_s": "<= 3"}),
    Benchmark(
        name="herd",
        title="Many messages due in one second",
        goals={"ten_million_late_by_s": "<= 2", "ten_million_sent_twice": "<= 0", "most_write_units_a_part": "<= 4"},
    ),
    Benchmark(name="growth", title="What grows with what", slow=True),
    Benchmark(name="ten_billion", title="Ten billion messages wait", slow=True),
    Benchmark(
        name="merge",
        title="Merge",
        slow=True,
        extra="duckdb",
        goals={
            "threads_to_duckdb": "<= 1.3",
            "threads_memory_at_twice_the_input": "<= 1.1",
            "function_memory_at_twice_the_input": "<= 1.1",
        },
    ),
    Benchmark(name="console", title="Pages of the console", slow=True, goals={"most_cpu_ms": "<= 300"}),
    Benchmark(name="rebuild", title="Rebuild", slow=True, goals={"glue_100m_s": "<= 90"}),
    Benchmark(
        name="import",
        title="Import",
        slow=True,
        extra="duckdb",
        goals={"least_rows_a_second": ">= 100000", "peak_mb_of_many": "<= 2500"},
    ),
    Benchmark(
        name="cost", title="S3 and DynamoDB of a steady stream", slow=True, goals={"dollars_a_million": "<= 0.03"}
    ),
    Benchmark(
        name="contention",
        title="Fifty callers of one topic",
        slow=True,
        goals={"commits_given_up": "<= 0", "cancels_given_up": "<= 0"},
    ),
    Benchmark(
        name="retention",
        title="Ten years of short and long delays",
        slow=True,
        goals={
            "most_dead_bytes_above_live": "<= 65536",
            "extra_rewritten_a_byte_sent": "<= 1",
            "puts_to_338c277": "<= 2",
            "gets_to_338c277": "<= 2",
        },
    ),
    Benchmark(name="cold_start", title="Cold start", slow=True),
    Benchmark(name="function_time", title="Time of functions", slow=True),
    Benchmark(
        name="peers",
        title="The same stream through others",
        slow=True,
        extra="redis",
        module="benchmarks.peers.measure",
    ),
)
BENCHMARKS: Mapping[str, Benchmark] = {each.name: each for each in _ALL}
"""By name, in the order in which they run."""
