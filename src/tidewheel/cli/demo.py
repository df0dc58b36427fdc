"""Defines the command `tidewheel demo`, which replays real messages in virtual and in real time."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidewheel.cli.demo_plot import plot_of
from tidewheel.cost.rivals import schedules_dollars
from tidewheel.local import LocalTidewheel
from tidewheel.local.replay import (
    SUBSCRIPTIONS,
    Result,
    Sample,
    packaged_samples,
    read_samples,
    replay_real,
    replay_virtual,
)
from tidewheel.model.prices import cost

_REAL_SLOT_S = 1
_REAL_LOOKAHEAD_S = 4
# As deployed: the local runtime has one clock and would leave no room for skew.
_SKEW = {"TIDEWHEEL_MAX_SKEW_MS": "100"}

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def demo(
    output: Annotated[Path, typer.Option(help="Folder for the plot.")] = Path("build/demo"),
    real_seconds: Annotated[
        int, typer.Option(min=0, help="Length of the part in real time. 0 leaves this part out.")
    ] = 30,
    messages: Annotated[int | None, typer.Option(min=1, help="Maximum number of messages to replay.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Replay real messages over 60 days of virtual time, then for half a minute of real time.

    The demo takes two to five minutes. It prints lateness, requests and costs.
    """
    if not run_demo(output, real_seconds, messages, as_json):
        raise typer.Exit(1)


def run_demo(output: Path, real_seconds: int, limit: int | None, as_json: bool) -> bool:
    """Runs the demo, prints its tables and saves its plots. Returns whether all messages arrived once, none early."""
    console = Console(stderr=as_json)
    samples = read_samples(packaged_samples())
    samples = samples[:: max(1, len(samples) // limit)][:limit] if limit else samples
    topics = sorted({sample.topic for sample in samples})
    console.print(
        f"Replaying {len(samples):,} real messages to {' and '.join(topics)}, "
        f"{len(SUBSCRIPTIONS)} subscriptions each, on an emulated AWS in this process."
    )
    with LocalTidewheel(start="2026-01-01T00:00:00Z", environment=_SKEW) as stack:
        virtual = _with_bars(console, "60 days, virtual", samples, lambda p: replay_virtual(stack, samples, p))
    results = {"60 days, virtual time": virtual}
    if real_seconds:
        few = _squeeze(samples, real_seconds)
        with LocalTidewheel(
            clock="real", slot_s=_REAL_SLOT_S, lookahead_s=_REAL_LOOKAHEAD_S, environment=_SKEW
        ) as stack:
            name = f"{real_seconds} s, real"
            real = _with_bars(console, name, few, lambda p: replay_real(stack, few, real_seconds, p))
        results[f"{real_seconds} s, real time"] = real
    output.mkdir(parents=True, exist_ok=True)
    plot = output / "demo.svg"
    plot.write_text(plot_of(results), encoding="utf-8")
    sound = all(result.sound for result in results.values())
    if as_json:
        print(json.dumps({name: summary(result) for name, result in results.items()} | {"sound": sound}, indent=1))
    else:
        for table in (_outcome(results), _requests(results), _costs(results)):
            console.print(table)
            console.print()
        console.print("Few copies share a slot here. Other rates: tidewheel cost --per-day 1000000", highlight=False)
        console.print(f"Plot: {plot}")
        console.print(
            "[green]Every message arrived once, none early.[/]" if sound else "[red]The replay is unsound.[/]"
        )
    for name, result in results.items():
        for failure in result.failures[:5]:
            console.print(f"[red]{name}: {failure}[/]")
    return sound


def summary(result: Result) -> dict[str, Any]:
    """Returns a result's figures."""
    dollars = sum(cost(result.units).values())
    return {
        "sent": sum(result.sent.values()),
        "delivered": result.delivered,
        "lost": result.lost,
        "early": result.early,
        "duplicates": result.duplicates,
        "lateness_p50_ms": result.percentile_ms(50),
        "lateness_p99_ms": result.percentile_ms(99),
        "lateness_max_ms": max(result.lateness_ms, default=0),
        "objects_written": result.requests["s3.PutObject"],
        "objects_read": result.requests["s3.GetObject"],
        "requests": dict(sorted(result.requests.items())),
        "dollars": round(dollars, 6),
        "dollars_per_million": round(_a_million(dollars, result), 2),
        "dollars_with_eventbridge_scheduler": round(schedules_dollars(result.delivered), 6),
    }


def _with_bars(
    console: Console, name: str, samples: list[Sample], replay: Callable[[Callable[[int, int], None]], Result]
) -> Result:
    columns = (TextColumn("{task.description:>26}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bars:
        sent_bar = bars.add_task(f"{name}: sent", total=len(samples))
        delivered_bar = bars.add_task("delivered", total=len(samples) * len(SUBSCRIPTIONS))

        def progress(sent: int, delivered: int) -> None:
            bars.update(sent_bar, completed=sent)
            bars.update(delivered_bar, completed=delivered)

        return replay(progress)


def _squeeze(samples: list[Sample], seconds: int) -> list[Sample]:
    """Takes 20 messages a second, spread evenly over the samples and over the time except the last 3 s."""
    count = min(len(samples), seconds * 20)
    step = len(samples) / count
    span = max(1.0, seconds - 3)
    return [
        Sample(topic=one.topic, offset=timedelta(seconds=i * span / count), payload=one.payload)
        for i, one in ((i, samples[int(i * step)]) for i in range(count))
    ]


def _outcome(results: dict[str, Result]) -> Table:
    table = _table("What arrived", results)
    labels = {"sent": "messages sent", "delivered": "copies delivered"}
    summaries = [summary(result) for result in results.values()]
    for name in list(summaries[0])[: list(summaries[0]).index("requests")]:
        in_s = name.endswith("_ms")
        shown = (f"{each[name] / 1000:.2f} s" if in_s else f"{each[name]:,}" for each in summaries)
        table.add_row(labels.get(name, name.removesuffix("_ms").replace("_", " ")), *shown)
    return table


def _requests(results: dict[str, Result]) -> Table:
    table = _table("AWS requests", results)
    for operation in sorted({key for result in results.values() for key in result.requests}):
        table.add_row(operation, *(f"{result.requests[operation]:,}" for result in results.values()))
    return table


def _costs(results: dict[str, Result]) -> Table:
    """Returns the costs of the runs' requests and of their function time, assumed to be 0.1 GB-seconds a call."""
    table = _table("What a million copies cost at this rate", results)
    runs = list(results.values())
    costs = [cost(run.units) for run in runs]
    totals = [sum(by_service.values()) for by_service in costs]
    table.add_row("all", *(_dollars(d, run) for d, run in zip(totals, runs, strict=True)), style="bold")
    for service in costs[0]:
        table.add_row(f"  {service}", *(_dollars(each[service], run) for each, run in zip(costs, runs, strict=True)))
    return table


def _table(title: str, results: dict[str, Result]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("", no_wrap=True)
    for name in results:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _dollars(dollars: float, result: Result) -> str:
    return f"${_a_million(dollars, result):,.2f}"


def _a_million(dollars: float, result: Result) -> float:
    return dollars / max(1, result.delivered) * 1_000_000
