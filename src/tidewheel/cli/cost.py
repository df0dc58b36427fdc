"""Defines the command `tidewheel cost`, which estimates the monthly cost of a workload."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from tidewheel.cli.administration import AsJson
from tidewheel.cli.output import print_json, print_table
from tidewheel.errors import InvalidValue

if TYPE_CHECKING:
    from tidewheel.cost.bill import Bill


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
    plain: Annotated[
        bool, typer.Option("--plain", help="Plain messages: alone with --batch 1, or in envelopes of a batch.")
    ] = False,
    keyed: Annotated[
        float, typer.Option(help="Share of the messages with a key, from 0 to 1. Consumers claim these.")
    ] = 0,
    environment: Annotated[
        str, typer.Option(help="The stack's environment: development or production.")
    ] = "development",
    as_json: AsJson = False,
) -> None:
    """Estimate the monthly cost of messages by AWS service, beside other ways to delay messages.

    The command calls no AWS service, and multiplies list prices of us-east-1 by counted requests and measured time.
    Totals are also shown with AWS's free tiers, for an account without other uses.
    """
    from tidewheel.cost.bill import ENVIRONMENTS, bill
    from tidewheel.cost.rivals import rivals
    from tidewheel.cost.workload import Spread, Workload
    from tidewheel.model.duration import delay_ms
    from tidewheel.model.prices import LISTED, REGION

    for name, given, known in (("environment", environment, ENVIRONMENTS), ("spread", spread, list(Spread))):
        if given not in known:
            raise InvalidValue(name, given, f"give one of: {', '.join(known)}")
    workload = Workload(
        per_day=per_day,
        delay_mean_s=delay_ms(delay_mean, "delay_mean") / 1000,
        spread=Spread(spread),
        size_bytes=size,
        subscriptions=subscriptions,
        topics=topics,
        batch=batch,
        plain=plain,
        keyed=keyed,
    )
    found = bill(workload, ENVIRONMENTS[environment])
    others = rivals(workload)
    if as_json:
        document = asdict(found) | {"total": found.total, "dollars_a_million": found.a_million(found.total)}
        document |= {"environment": environment, "region": REGION, "prices_of": LISTED, "notes": notes(found)}
        print_json(document | {"others": others})
        return
    typer.echo(f"Dollars a month: {environment}, {REGION}, list prices of {LISTED}.\n")
    rows = [
        (part, _money(found.messages.get(part)), _money(found.standing.get(part)))
        for part in {**found.messages, **found.standing}
    ]
    rows.append(("all", _money(sum(found.messages.values())), _money(sum(found.standing.values()))))
    print_table(["", "messages", "with or without messages"], rows)
    if per_day:
        typer.echo(f"\nRequests and function time: {_money(found.a_million(found.requests))} a million.")
        typer.echo(f"Consumers pay ${found.consumers:,.2f} a month in addition.\n")
        ways = [("Tidewheel, all of the above", found.total, found.free, "")]
        ways += [(o.name, o.dollars, o.free, o.formula) for o in others]
        bills = [
            (name, f"${dollars:,.2f}", f"${max(0.0, dollars - free):,.2f}", f"${found.a_million(dollars):,.2f}", how)
            for name, dollars, free, how in ways
        ]
        print_table(["the same messages by", "a month", "with free tiers", "a million", "a copy costs"], bills)
    else:
        typer.echo(f"\nAll: ${found.total:,.2f}, with free tiers ${found.total - found.free:,.2f}.")
    for note in notes(found):
        typer.echo(note)


def notes(bill: Bill) -> list[str]:
    """Returns the range of Glue's cost, if the stack has Spark jobs."""
    from tidewheel.model.prices import ASSUMED_GLUE_RUN_DPU_HOURS, DEAR_GLUE_RUN_DPU_HOURS

    if "Glue" not in bill.messages:
        return []
    most = bill.total + bill.messages["Glue"] * (DEAR_GLUE_RUN_DPU_HOURS / ASSUMED_GLUE_RUN_DPU_HOURS - 1)
    return [f"Glue's runs are assumed to be short. With ten workers for eight minutes, all is ${most:,.2f}."]


def _money(dollars: float | None) -> str:
    return "-" if dollars is None else f"${dollars:,.4f}"
