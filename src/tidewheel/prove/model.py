"""Computes the units and starts of a trial by the model of `tidewheel.cost`, and reads them of CloudWatch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import ceil
from statistics import median
from typing import TYPE_CHECKING, Any

from tidewheel.clock import utc
from tidewheel.cost.figures import FIGURES, FLOWS, FUNCTIONS, added, slowness, warm_ms
from tidewheel.cost.stream import Runs
from tidewheel.model.triggers import SWEEP_INTERVAL_S
from tidewheel.prove.trial import LEDGER_S, PACK, SETTINGS, Trial

if TYPE_CHECKING:
    from tidewheel.client.connection import Connection

_REPORT = re.compile(r"Duration: ([\d.]+) ms\s+Billed(?:.*Init Duration: ([\d.]+) ms)?", re.DOTALL)


def runs(trial: Trial) -> list[Runs]:
    """Returns the runs of the flows in the second part of a trial, with the dispatch of the lost schedule."""
    packs, ledgers = trial.messages // PACK, trial.messages // PACK // 2
    first, last = (int((trial.began_ms / 1000 + at_s) // SETTINGS.slot_s) for at_s in LEDGER_S)
    slots, rows, direct = last - first + 1, ledgers * PACK, packs - ledgers
    ingest = {"ledger": ledgers, "lowered": 1, "direct": direct, "sends": direct * PACK // 10}
    dispatch = {"call": slots + 1, "subscription": slots + 1, "armed": slots - 1, "ten_parts": slots}
    deliver = {"call": slots, "segment": slots * ledgers, "sends": slots * ceil(rows / slots / 10), "complete": slots}
    return [
        Runs("send", {"call": packs}),
        Runs("ingest", dict.fromkeys(("call", "ten_packs", "topic"), packs) | ingest, trial.messages),
        Runs("dispatch", dispatch | dict.fromkeys(("inline", "segment", "sends"), 1), 1),
        Runs("deliver", deliver, rows),
        Runs("record", {"call": slots + 1}),
        Runs("collect", dict.fromkeys(("call", "again", "checkpoint"), 2)),
        Runs("sweep", {"call": (trial.ended_ms - trial.began_ms) / 1000 / SWEEP_INTERVAL_S, "topic": 1}),
    ]


def units_by_model(trial: Trial) -> dict[str, float]:
    """Returns the units of the flows for all messages of a trial but the first. Nothing counts requests of groups."""
    units = added((each.units(), 1) for each in runs(trial))
    return {unit: count for unit, count in units.items() if unit != "sqs.fair"}


def own_units(asked: Mapping[str, int]) -> dict[str, float]:
    """Returns the units of the client's requests, without its sends: "service.Operation" -> number."""
    billed = [({unit: 1.0}, asked.get(name, 0)) for name, unit in FIGURES["billed"].items() if "Send" not in name]
    reads = asked.get("dynamodb.GetItem", 0) + asked.get("dynamodb.Query", 0)
    return added([*billed, ({"dynamodb.read": 1.0}, reads)])


def starts(connection: Connection, trial: Trial) -> dict[str, dict[str, float]]:
    """Returns function -> its cold starts and warm calls, with the median of Lambda's reports and the model's."""
    found = {}
    for function in FUNCTIONS:
        pages = connection.client("logs").get_paginator("filter_log_events")
        group = f"/aws/lambda/{connection.stack}-{function}"
        times = {"startTime": trial.created_ms, "endTime": trial.ended_ms}
        answers = pages.paginate(logGroupName=group, filterPattern='"REPORT RequestId"', **times)
        reports = [_REPORT.search(event["message"]) for answer in answers for event in answer["events"]]
        cold = [float(each[2]) for each in reports if each and each[2]]
        warm = [float(each[1]) for each in reports if each and not each[2]]
        flows = [each for each in runs(trial) if FLOWS[each.flow].function == function]
        calls, requests = sum(each.calls for each in flows), added((each.requests(), 1) for each in flows)
        all_ms = warm_ms(function, calls, sum(each.messages for each in flows), requests)
        start_ms = round(FUNCTIONS[function]["start_ms"] * slowness(function))
        found[function] = {"cold": len(cold), "cold_ms": median(cold or [0]), "cold_ms_by_model": start_ms}
        warm_model_ms = round(all_ms / max(1, calls))
        found[function] |= {"warm": len(warm), "warm_ms": median(warm or [0]), "warm_ms_by_model": warm_model_ms}
    return found


def units_by_cloudwatch(connection: Connection, trial: Trial) -> dict[str, float]:
    """Returns the units that CloudWatch counted of the stack during a trial. Units without values are left out."""
    settings = connection.settings
    table, group = f'TableName="{settings.table}"', f'ScheduleGroup="{settings.schedule_group}"'
    functions = " OR ".join(f'FunctionName="{connection.stack}-{name}"' for name in FUNCTIONS)
    searches = {
        "dynamodb.read": f'Namespace="AWS/DynamoDB" MetricName="ConsumedReadCapacityUnits" {table}',
        "dynamodb.write": f'Namespace="AWS/DynamoDB" MetricName="ConsumedWriteCapacityUnits" {table}',
        "scheduler.invocation": f'Namespace="AWS/Scheduler" MetricName="InvocationAttemptCount" {group}',
        "lambda.invocation": f'{{AWS/Lambda,FunctionName}} MetricName="Invocations" ({functions})',
    }
    queries: Any = [
        {"Id": unit.replace(".", "_"), "Expression": f"SUM(SEARCH('{each}', 'Sum', 60))"}
        for unit, each in searches.items()
    ]
    answer = connection.client("cloudwatch").get_metric_data(
        MetricDataQueries=queries, StartTime=utc(trial.began_ms), EndTime=utc(trial.ended_ms)
    )
    sums = {each["Id"].replace("_", "."): sum(each["Values"]) for each in answer["MetricDataResults"]}
    return {unit: count for unit, count in sums.items() if count}
