"""The section of `docs/performance.md` about the peers, from the figures alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.peers.costs import MEAN_DELAY_DAYS, per_day
from benchmarks.peers.documented import CRASHES, OTHERS, Fact
from benchmarks.peers.peer import NAMES, SETTINGS, Peer
from benchmarks.peers.plots import COST, PRECISION, WAITING
from benchmarks.peers.prices import HOURS_A_MONTH, LISTED, TASK_DOLLARS_AN_HOUR
from benchmarks.peers.tidewheel_stack import MAX_SKEW_MS
from benchmarks.peers.waiting import LEDGER_ROWS, SPAN_MS
from benchmarks.results import Result, load_text

_COSTS = {
    "tidewheel": "Tidewheel, all told",
    "tidewheel_bare": "Tidewheel without metrics, logs and traces, as the others are",
    "tidewheel_one_by_one": "Tidewheel, each message sent by itself",
    "schedules": NAMES[Peer.SCHEDULES],
    "ahead": NAMES[Peer.AHEAD],
    "dynein": NAMES[Peer.DYNEIN],
    "redis_no_task": "Redis, one node, polled by what consumes the messages",
    "redis": "Redis, one node, and a task that polls",
    "redis_replica": "Redis, with a replica, and the task",
    "redis_durable": "Redis, durable, and the task",
}
_LATE = {
    "tidewheel": "Tidewheel, through ledgers",
    "tidewheel_real": "Tidewheel, due within 15 minutes",
    "redis_fast": "Redis, polled every 10 ms",
    "redis_real": "Redis, polled every second",
    "dynein": NAMES[Peer.DYNEIN],
    "ahead": NAMES[Peer.AHEAD],
    "schedules": NAMES[Peer.SCHEDULES],
}
_TWICE = ", and a crash between send and delete sends twice"


def markdown(result: Result) -> str:
    """Returns the section: tables, each figure with its command.

    Args:
        result: what `benchmarks.peers.measure` measured, saved and loaded again.
    """
    figures = result.figures
    parts = [
        _beginning(result),
        _better(figures),
        _cost_table(figures),
        _request_table(figures),
        _precision_table(figures),
        _waiting_table(figures),
        _crashes(figures),
        _facts("### Not run here", OTHERS),
    ]
    return "\n\n".join(parts) + "\n"


def _beginning(result: Result) -> str:
    figures: Any = result.figures
    described, arrived = figures["stream"], figures["delivered"]
    sound = all(
        row["delivered"] == row["sent"] and not row["early"] and not row["duplicates"] for row in arrived.values()
    )
    delivered = "each once, none early" if sound else "NOT ALL ONCE AND IN TIME: nothing below counts"
    without = "" if figures["redis"] else " There was no redis-server: Redis is left out."
    return "\n".join(
        [
            "## Beside others, on the same stream",
            "",
            f"`{result.command}` measures all of this; here on {result.date}{load_text(result)}. "
            "Every peer gets the same real messages "
            f"({described['mean_body_bytes']:.0f} B on average), sent {described['lead_s'] // 60} minutes before the "
            f"first is due, and delivered them: {delivered}.{without} Those on AWS run on the same emulator as "
            "Tidewheel, and are counted by the same meter.",
            "",
            _table(["peer", "how it is set"], [[NAMES[Peer(peer)], SETTINGS[Peer(peer)]] for peer in arrived]),
        ]
    )


def _better(figures: Any) -> str:
    """Returns where another is the better choice."""
    said = []
    cheaper_from = figures["cheaper_from"]
    if cheaper_from["schedules"] and cheaper_from["schedules_after_free_tier"]:
        alone, free = (_round(cheaper_from[name]) for name in ("schedules", "schedules_after_free_tier"))
        said.append(
            f"- **A schedule a message** costs less below {alone:,.0f} messages a day, with its free tier below "
            f"{free:,.0f}. Idle it costs nothing, and nothing is deployed. It may be a minute late."
        )
    fast = figures["precision"].get("redis_fast")
    if fast:
        said.append(
            f"- **Redis** is more precise when it is polled often: half of the messages within {fast['p50_ms']} ms of "
            "their time. Tidewheel's time is SQS's, whole seconds. Redis also cancels up to the last moment."
        )
    for peer in (Peer.DYNEIN, Peer.AHEAD):
        crossing = cheaper_from[peer.value]
        if crossing and crossing > figures["series"][0]["per_day"]:
            said.append(
                f"- **{NAMES[peer]}**, costs less below {_round(crossing):,.0f} messages a day. What it does when "
                f"something fails is yours to write{_TWICE if peer is Peer.AHEAD else ''}."
            )
    said.append(
        "- **Pollers** of one's own are a few hundred lines that one understands, and cancel up to the last moment. "
        "They must run, and be watched."
    )
    against = (
        "Costs are set against Tidewheel's all told, with metrics, logs and traces, which the others' do not have."
    )
    return f"### Where another is better\n\n{against}\n\n" + "\n".join(said)


def _cost_table(figures: Any) -> str:
    sizes = sorted(figures["costs"], key=int)
    rows = []
    for name, label in _COSTS.items():
        costs = [figures["costs"][size].get(name) for size in sizes]
        if any(costs):
            idle = figures["idle"].get(name)
            runs = _runs(idle, dict(zip(sizes, costs, strict=True)))
            cells = [_dollars(idle and idle["a_month"]), *(_dollars(cost and cost["a_month"]) for cost in costs)]
            rows.append([label, *cells, _dollars(costs[-1] and costs[-1]["a_million"]), runs])
    waiting = [f"{int(size):,} waiting" for size in sizes]
    return "\n".join(
        [
            "### Dollars a month",
            "",
            _table(["", "idle", *waiting, f"a million, with {int(sizes[-1]):,} waiting", "you run"], rows),
            "",
            f"Messages wait {MEAN_DELAY_DAYS:.0f} days on average: {int(sizes[-1]):,} waiting are "
            f"{per_day(int(sizes[-1])):,.0f} a day. List prices of us-east-1 without free tiers "
            f"({figures['prices_of']}; ElastiCache with Valkey, and Fargate, {LISTED}). A poller is the smallest "
            f"Fargate task, ${TASK_DOLLARS_AN_HOUR * HOURS_A_MONTH:,.2f}. Consumers are in nobody's bill; Redis's "
            "poller may be one, and then its task is not Redis's. "
            "Requests are counted on the emulator at small numbers and extended in a straight line; "
            "Tidewheel's bill is `tidewheel cost`, whose requests tests hold to what the local stack counts.",
            "",
            f"![Dollars a month by messages a day](images/{COST})",
        ]
    )


def _runs(idle: Mapping[str, Any] | None, costs: Mapping[str, Mapping[str, Any] | None]) -> str:
    """Returns what always runs: when nothing waits, and from how many waiting messages on something else."""
    runs: str | None = idle and idle["runs"]
    said = [runs or "nothing"]
    for size, cost in costs.items():
        if cost and cost["runs"] != runs:
            runs = cost["runs"]
            said.append(f"with {int(size):,} waiting {runs}")
    return "; ".join(said)


def _items(held: Mapping[str, Any]) -> str:
    each = {int(size): row["dynamodb_bytes"] / -(-int(size) // LEDGER_ROWS) for size, row in held.items()}
    told = ", ".join(f"{item_bytes:,.0f} B with {min(size, LEDGER_ROWS):,}" for size, item_bytes in each.items())
    return (
        f"A ledger's item holds the index of few messages and grows with them; that of many is in the ledger, and its "
        f"item small: {told}."
    )


def _request_table(figures: Any) -> str:
    rows = []
    for peer, found in figures["requests"].items():
        names = sorted({*found["a_message"], *found["an_hour"]})
        for place, name in enumerate(names):
            rows.append(
                [
                    NAMES[Peer(peer)] if place == 0 else "",
                    f"`{name}`",
                    _count(found["a_message"].get(name)),
                    _count(found["an_hour"].get(name)),
                ]
            )
    months = figures["asked_a_month"]
    sizes = sorted(months, key=int)
    totals = [
        [NAMES[Peer(peer)], *(f"{sum(months[size][peer].values()):,.0f}" for size in sizes)] for peer in months["0"]
    ]
    ours = dict(figures["tidewheel_requests"])
    messages = ours.pop("messages")
    told = ", ".join(f"{count:,} `{name}`" for name, count in ours.items())
    described = figures["stream"]
    return "\n".join(
        [
            "### Requests",
            "",
            _table(["peer", "operation", "a message", "an hour, whatever is due"], rows),
            "",
            f"From runs of 0, {described['few']:,} and {described['more']:,} messages, due within "
            f"{described['span_s']} s. Receiving and acknowledging by consumers is in it for Redis only, whose poller "
            "is the consumer. Tidewheel asks by ledger, slot and ten messages, not by message: for the "
            f"{messages:,} messages, all told, {told}.",
            "",
            _table(["requests a month", "idle", *(f"{int(size):,} waiting" for size in sizes[1:])], totals),
            "",
            "Extended in a straight line; Tidewheel's by the arithmetic of `tidewheel cost`, with Lambda's polls of "
            "empty queues and the sweep's looks, which are most of them while little is due. Redis's are round trips.",
        ]
    )


def _precision_table(figures: Any) -> str:
    rows = []
    for name, label in _LATE.items():
        found = figures["precision"].get(name)
        if found is None:
            continue
        if found["clock"] == "documented":
            rows.append([label, "documented", "", "not stated", "not stated", f"{found['max_ms']:,} ms"])
        else:
            times = [f"{found[key]:,} ms" for key in ("p50_ms", "p99_ms", "max_ms")]
            rows.append([label, found["clock"], f"{found['messages']:,}", *times])
    return "\n".join(
        [
            "### Lateness",
            "",
            _table(["", "clock", "messages", "p50", "p99", "latest"], rows),
            "",
            "With the virtual clock nothing takes time but the polls and SQS's whole seconds: on AWS the time of the "
            f"requests comes on top for everybody. Tidewheel's times have {MAX_SKEW_MS} ms in them in case clocks "
            "differ, as deployed; the others trust their clocks. A schedule fires within the minute that begins at its "
            "time ([source](https://docs.aws.amazon.com/scheduler/latest/UserGuide/schedule-types.html)).",
            "",
            f"![Lateness of each peer](images/{PRECISION})",
        ]
    )


def _waiting_table(figures: Any) -> str:
    held = figures["waiting"]
    sizes = sorted(held["tidewheel"], key=int)
    rows = []
    if "redis" in held:
        rows.append(["Redis, `used_memory`", *_sizes(held["redis"]["memory_bytes"], sizes), "measured at each"])
    rows += [
        ["DynamoDB, items", *_sizes(held["dynein"]["dynamodb_bytes"], sizes), "measured for one, times so many"],
        ["Tidewheel, ledgers in S3", *_sizes(_field(held, "s3_bytes"), sizes), "written at each"],
        ["Tidewheel, index in DynamoDB", *_sizes(_field(held, "dynamodb_bytes"), sizes), "written at each"],
        ["A schedule a message", *["none of yours"] * len(sizes), ""],
    ]
    return "\n".join(
        [
            "### What waiting messages take up",
            "",
            _table(["", *(f"{int(size):,}" for size in sizes), ""], rows),
            "",
            "Only Redis holds them in memory that is paid by the hour. Tidewheel's functions hold none between runs. "
            f"Ledgers are of up to {LEDGER_ROWS:,} messages, as merges leave them. {_items(held['tidewheel'])} These "
            f"messages are due within {SPAN_MS // 86_400_000} days; [over 60](#index-bytes-a-message) the index of a "
            "small ledger is larger.",
            "",
            f"![Bytes by messages waiting](images/{WAITING})",
        ]
    )


def _crashes(figures: Any) -> str:
    kept = figures["kept_after_kill"]
    told = ""
    if kept:
        told = (
            f"\n\nMeasured: of {kept['sent']:,} messages sent, the server's process was killed and started again: "
            f"{kept['append_only_file']:,} were left with an append-only file, {kept['snapshots']:,} with the "
            "snapshots that Redis makes as it comes. A process that dies does not lose what the operating system has; "
            "a machine does."
        )
    return _facts("### What a crash loses", CRASHES) + told


def _facts(heading: str, facts: Iterable[Fact]) -> str:
    rows = [[fact.about, f"{fact.says} ([source]({fact.source}))"] for fact in facts]
    return f"{heading}\n\n" + _table(["", ""], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _field(held: Mapping[str, Any], name: str) -> dict[str, int]:
    return {size: row[name] for size, row in held["tidewheel"].items()}


def _sizes(by_waiting: Mapping[str, int], sizes: Iterable[str]) -> list[str]:
    return [_bytes(by_waiting[size]) + f" ({_count(by_waiting[size] / int(size))} B each)" for size in sizes]


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}" if size >= 10 else f"{size:,.1f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def _dollars(value: float | None) -> str:
    if value is None:
        return ""
    return f"${value:,.2f}" if value >= 0.1 or value == 0 else f"${value:.4f}"


def _count(value: float | None) -> str:
    """Returns a number to two places, and nothing for what would be zero then."""
    return "" if value is None or value < 0.005 else f"{value:,.2f}".rstrip("0").rstrip(".")


def _round(value: float) -> float:
    """Returns a number to two places, as a claim should be."""
    digits = len(str(round(value))) - 2
    return round(value, -digits)
