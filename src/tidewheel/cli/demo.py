"""Defines the command `tidewheel demo`, which replays real messages in virtual and in real time."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.output import print_table, progress_bar
from tidewheel.errors import needs_extra

if TYPE_CHECKING:
    from tidewheel.local.replay import Result, Sample

_REAL_SLOT_S = 1
_REAL_LOOKAHEAD_S = 4
# As deployed: the local runtime has one clock and would leave no room for skew.
_SKEW = {"TIDEWHEEL_MAX_SKEW_MS": "100"}
_LABELS = {"sent": "messages sent", "delivered": "copies delivered"}


def demo(
    real_seconds: Annotated[
        int, typer.Option(min=0, help="Length of the part in real time. 0 leaves this part out.")
    ] = 30,
    messages: Annotated[int | None, typer.Option(min=1, help="Maximum number of messages to replay.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Replay real messages over 60 days of virtual time, then for half a minute of real time.

    The demo takes two to five minutes, and prints lateness and costs.
    """
    with needs_extra("tidewheel demo", "local"):
        from tidewheel.local import LocalTidewheel, replay

    samples = replay.read_samples(replay.packaged_samples())
    samples = samples[:: max(1, len(samples) // messages)][:messages] if messages else samples
    topics = sorted({sample.topic for sample in samples})
    typer.echo(
        f"Replaying {len(samples):,} real messages to {' and '.join(topics)}, "
        f"{len(replay.SUBSCRIPTIONS)} subscriptions each, on an emulated AWS in this process.",
        err=as_json,
    )
    with (
        LocalTidewheel(start="2026-01-01T00:00:00Z", environment=_SKEW) as stack,
        progress_bar("60 days, virtual time") as (_, advance),
    ):
        results = {"60 days, virtual time": replay.replay_virtual(stack, samples, advance)}
    if real_seconds:
        name, few = f"{real_seconds} s, real time", _squeeze(samples, real_seconds)
        with (
            LocalTidewheel(
                clock="real", slot_s=_REAL_SLOT_S, lookahead_s=_REAL_LOOKAHEAD_S, environment=_SKEW
            ) as stack,
            progress_bar(name) as (_, advance),
        ):
            results[name] = replay.replay_real(stack, few, real_seconds, advance)
    sound = all(result.sound for result in results.values())
    summaries = {name: summary(result) for name, result in results.items()}
    if as_json:
        typer.echo(json.dumps(summaries | {"sound": sound}, indent=1))
    else:
        names = [each for each in next(iter(summaries.values())) if each != "requests"]
        print_table(["", *summaries], [_row(name, summaries.values()) for name in names])
        typer.echo("Few copies share a slot here. Other rates: tidewheel cost --per-day 1000000")
        typer.echo("Every message arrived once, none early." if sound else "The replay is unsound.")
    for name, result in results.items():
        for failure in result.failures[:5]:
            typer.echo(f"{name}: {failure}", err=True)
    if not sound:
        raise typer.Exit(1)


def summary(result: Result) -> dict[str, Any]:
    """Returns a result's figures."""
    from tidewheel.cost.rivals import schedules_dollars
    from tidewheel.model.prices import cost

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
        "dollars_per_million": round(dollars / max(1, result.delivered) * 1_000_000, 2),
        "dollars_with_eventbridge_scheduler": round(schedules_dollars(result.delivered), 6),
    }


def _row(name: str, summaries: Iterable[dict[str, Any]]) -> list[object]:
    """Returns a figure of each replay, behind its label."""
    label = _LABELS.get(name, name.removesuffix("_ms").replace("_", " "))
    return [label, *(f"{each[name] / 1000:.2f} s" if name.endswith("_ms") else each[name] for each in summaries)]


def _squeeze(samples: list[Sample], seconds: int) -> list[Sample]:
    """Takes 20 messages a second, spread evenly over the samples and over the time except the last 3 s."""
    from tidewheel.local.replay import Sample

    count = min(len(samples), seconds * 20)
    step = len(samples) / count
    span = max(1.0, seconds - 3)
    return [
        Sample(topic=one.topic, offset=timedelta(seconds=i * span / count), payload=one.payload)
        for i, one in ((i, samples[int(i * step)]) for i in range(count))
    ]
