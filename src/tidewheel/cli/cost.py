"""Defines the command `tidewheel cost`, which estimates the monthly cost of a workload."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from math import ceil
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tidewheel.cli.administration import AsJson
from tidewheel.cli.output import WIDE, print_json
from tidewheel.errors import InvalidValue

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from tidewheel.cost.bill import Bill, Line
    from tidewheel.cost.rivals import Rival

_SIDE_BY_SIDE = 110
"""The least width, in characters, for two tables side by side."""
_BAR = 16
_MOST_A_TOPIC = 33_000
"""Messages a second that a topic delivers with the default `part_rows` (`docs/capacity.md`)."""


def cost(
    per_day: Annotated[
        float, typer.Option(help="Messages sent a day, over all topics. 0 shows the cost of an idle stack.")
    ],
    delay_mean: Annotated[str, typer.Option(help="Mean delay of the messages, such as 90m, 7d or 8w.")] = "7d",
    spread: Annotated[str, typer.Option(help="Distribution of the delays: even, exponential or same.")] = "even",
    size: Annotated[int, typer.Option(help="Bytes of a message's body.")] = 500,
    subscriptions: Annotated[int, typer.Option(help="Subscriptions of each topic.")] = 1,
    topics: Annotated[int, typer.Option(help="Topics that share the messages.")] = 1,
    batch: Annotated[int, typer.Option(help="Messages that a client sends at once.")] = 100,
    environment: Annotated[str, typer.Option(help="The stack's environment.")] = "development",
    as_json: AsJson = False,
) -> None:
    """Estimate the monthly cost of messages, by AWS service and by flow, beside other ways to delay messages.

    The command calls no AWS service. It multiplies list prices of us-east-1, without free tiers, by counted
    requests and measured time.
    """
    from tidewheel.cost.bill import bill
    from tidewheel.cost.deployed import ENVIRONMENTS
    from tidewheel.cost.rivals import rivals
    from tidewheel.cost.workload import Spread, Workload
    from tidewheel.model.duration import delay_ms

    if environment not in ENVIRONMENTS:
        raise InvalidValue("environment", environment, f"give one of: {', '.join(ENVIRONMENTS)}")
    if spread not in list(Spread):
        raise InvalidValue("spread", spread, f"give one of: {', '.join(Spread)}")
    workload = Workload(
        per_day=per_day,
        delay_mean_s=delay_ms(delay_mean, "delay_mean") / 1000,
        spread=Spread(spread),
        size_bytes=size,
        subscriptions=subscriptions,
        topics=topics,
        batch=batch,
    )
    found = bill(workload, ENVIRONMENTS[environment])
    others = rivals(workload)
    if as_json:
        print_json(as_document(found, others, environment))
        return
    from rich.console import Console

    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    console = Console(width=None if told else WIDE)
    for part in shown(found, others, environment, console.width):
        console.print(part)


def as_document(bill: Bill, others: tuple[Rival, ...], environment: str) -> dict[str, Any]:
    """Returns everything as a JSON object."""
    from tidewheel.cost.bill import grouped, total
    from tidewheel.cost.prices import LISTED, REGION

    def part(lines: tuple[Line, ...]) -> dict[str, Any]:
        dollars = total(lines)
        return {
            "dollars_a_month": dollars,
            "dollars_a_million": bill.a_million(dollars),
            "by_service": grouped(lines, lambda line: line.service),
            "by_flow": grouped(lines, lambda line: line.flow),
            "lines": [asdict(line) for line in lines],
        }

    return {
        "workload": asdict(bill.workload),
        "environment": environment,
        "region": REGION,
        "prices_of": LISTED,
        "messages": part(bill.messages),
        "standing": part(bill.standing),
        "consumers": part(bill.consumers),
        "notes": notes(bill),
        "others": [asdict(other) | {"dollars_a_million": bill.a_million(other.dollars)} for other in others],
    }


def shown(bill: Bill, others: tuple[Rival, ...], environment: str, width: int) -> list[RenderableType]:
    """Returns the tables and texts for a terminal of this width."""
    from rich.table import Table
    from rich.text import Text

    from tidewheel.cost.bill import BESIDE_REQUESTS, total

    parts: list[RenderableType] = [Text(_heading(bill, environment)), Text()]
    if bill.messages:
        by_service = _sums("By service", bill, lambda line: line.service)
        by_flow = _sums("By flow", bill, lambda line: line.flow)
        if width >= _SIDE_BY_SIDE:
            both = Table.grid(padding=(0, 4))
            both.add_row(by_service, by_flow)
            parts.append(both)
        else:
            parts += [by_service, by_flow]
        asked = [line for line in bill.messages if line.flow not in BESIDE_REQUESTS]
        text = f"Requests and function time: {_money(bill.a_million(total(asked)))} a million."
        parts.append(Text(text, style="bold"))
    parts.append(_standing(bill))
    everything = total(bill.messages) + total(bill.standing)
    parts.append(Text(f"All: ${everything:,.2f} a month.", style="bold"))
    for line in bill.consumers:
        parts.append(Text(f"Consumers pay ${line.dollars:,.2f} a month in addition: {line.what}."))
    if bill.messages:
        parts += [Text(), _others(bill, others)]
    parts += [Text(note, style="bold") for note in notes(bill)]
    return parts


def notes(bill: Bill) -> list[str]:
    """Returns warnings beside the bill, if a topic gets more messages than it can deliver."""
    from tidewheel.cost.workload import DAY_S

    per_s = bill.workload.per_day / DAY_S
    if per_s / bill.workload.topics <= _MOST_A_TOPIC:
        return []
    return [
        f"Each topic would have {per_s / bill.workload.topics:,.0f} messages a second, and takes about "
        f"{_MOST_A_TOPIC:,}: divide them among {ceil(per_s / _MOST_A_TOPIC):,} topics, or raise part_rows. "
        "See docs/capacity.md."
    ]


def _heading(bill: Bill, environment: str) -> str:
    from tidewheel.cost.prices import LISTED, REGION

    workload = bill.workload
    prices = f"{environment}, {REGION}, list prices of {LISTED}, no free tier"
    if not workload.per_day:
        return f"An idle stack: {prices}."
    return (
        f"{workload.per_day:,.10g} messages a day, due in {_days(workload.delay_mean_s)} on average "
        f"({workload.spread} spread), of {workload.size_bytes:,} bytes, sent {workload.batch:,} at a time, to "
        f"{_count(workload.topics, 'topic')} with {_count(workload.subscriptions, 'subscription')}: {prices}."
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _days(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size or seconds == size:
            return f"{seconds / size:,.4g} {unit if seconds != size else unit[:-1]}"
    return f"{seconds:,.4g} seconds"


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    return table


def _sums(title: str, bill: Bill, by: Any) -> Table:
    from tidewheel.cost.bill import grouped, total

    whole = total(bill.messages)
    table = _table(title, "", "a month", "a million", "share")
    table.add_column("", no_wrap=True)
    for name, dollars in grouped(bill.messages, by).items():
        share = dollars / whole
        table.add_row(name, _money(dollars), _money(bill.a_million(dollars)), _share(share), "▇" * round(share * _BAR))
    table.add_section()
    table.add_row("messages", _money(whole), _money(bill.a_million(whole)), "", style="bold")
    return table


def _standing(bill: Bill) -> Table:
    from tidewheel.cost.bill import total

    table = _table("With or without messages", "", "a month")
    table.add_column("", overflow="fold")
    for line in bill.standing:
        table.add_row(f"{line.flow}: {line.service}", _money(line.dollars), line.what)
    pollers = total(line for line in bill.standing if line.flow == "pollers")
    table.add_section()
    table.add_row("all", _money(total(bill.standing)), "", style="bold")
    table.add_row("all but pollers", _money(total(bill.standing) - pollers), "", style="bold")
    return table


def _others(bill: Bill, others: tuple[Rival, ...]) -> Table:
    from tidewheel.cost.bill import total

    table = _table("The same messages by other ways", "", "a month", "a million")
    table.add_column("a copy costs", overflow="fold")
    whole = total(bill.messages) + total(bill.standing)
    table.add_row("Tidewheel, all of the above", _money(whole, 2), _money(bill.a_million(whole), 2), "", style="bold")
    for other in others:
        table.add_row(other.name, _money(other.dollars, 2), _money(bill.a_million(other.dollars), 2), other.formula)
    return table


def _money(dollars: float | None, decimals: int = 4) -> str:
    if dollars is None:
        return "-"
    return f"${dollars:,.{decimals}f}"


def _share(share: float) -> str:
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}"
