"""Plain messages through ingest, beside the packs of the Python client and the bare floor of `ingest`.

    python -m benchmarks plain

The same real messages in five ways, each from Lambda's records to a committed ledger, against an endpoint that costs
next to nothing: in packs; in envelopes of 100, ten a call; in envelopes of 2,000, about as many as SQS takes; and one
by one, ten a call. Messages due soon become a ledger a call. Messages due later are forwarded as packs, and ten packs
share a ledger. Bare: `pyarrow.parquet.write_table` of the same sorted rows, PUT. CPU time of this process, medians of
interleaved rounds. `read` is `read_plain` alone.
"""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench_ingest import NOW_MS, Service, packed
from benchmarks.bench_ledger import messages
from benchmarks.endpoint import client, endpoint
from benchmarks.rounds import cpu_ms, interleaved
from tidewheel.flows.delivery.adopt import adopt
from tidewheel.flows.delivery.ingest import ingest
from tidewheel.flows.delivery.ingest_batch import pack_of
from tidewheel.model.message import id_deliver_at_ms
from tidewheel.model.pack import PACK_ATTRIBUTE, Arrival, Pack
from tidewheel.model.plain import PREFIX, read_plain
from tidewheel.model.received import QueuedMessage
from tidewheel.model.settings import TopicSettings
from tidewheel.model.topic_state import new_topic_state
from tidewheel.storage.items import encode_topic_state

ROWS = 20_000
ALONE = 1_000
"""Messages that are sent one by one, each with a tenth of a call."""
RUNS = 7
ENVELOPES = (100, 2_000)
A_CALL = 10
Record = dict[str, Any]


def benchmark(*, quick: bool) -> dict[str, object]:
    """Measures each way in."""
    rows, runs = (4_000, 3) if quick else (ROWS, RUNS)
    table = messages(rows, "replay")
    few = messages(ALONE, "replay")
    state = encode_topic_state(new_topic_state("t", "g", TopicSettings(), NOW_MS))
    with endpoint({"GetItem": json.dumps({"Item": state}).encode()}) as url:
        ports: Any = Service(url)
        s3 = client("s3", url)

        def bare() -> None:
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd", compression_level=1)
            s3.put_object(Bucket="ledgers", Key="bare", Body=sink.getvalue().to_pybytes())

        whole = {"packs": [record(data) for data in packed(table)]}
        whole |= {f"envelopes_of_{size}": list(envelopes(table, size)) for size in ENVELOPES}
        alone = {
            "packs_of_one": [record(data) for each in one_by_one(few) for data in packed(each)],
            "one_by_one": [record(body, **wishes) for body, wishes in plain_of(few)],
        }
        actions: dict[str, Callable[[], object]] = {"bare": bare}
        counts: dict[str, int] = {}
        for name, records in (whole | alone).items():
            actions[name] = partial(soon, ports, records)
            counts[name] = rows if name in whole else ALONE
            if not name.startswith("packs"):
                actions[f"{name}_forwarded"] = partial(later, ports, records)
                actions[f"{name}_read"] = partial(read_all, records)
                counts |= dict.fromkeys((f"{name}_forwarded", f"{name}_read"), counts[name])
        rounds = interleaved(runs, cpu_ms, actions)
    a_second = {f"{name}_a_second": count / rounds.median_ms(name) * 1000 for name, count in counts.items()}
    return {
        "messages": rows,
        "messages_one_by_one": ALONE,
        "bare_write_and_put_ms": rounds.median_ms("bare"),
        **rounds.ratio("packs_ratio", "bare", "packs"),
        **a_second,
        **{
            name: figure
            for each in (*whole, *(f"{way}_forwarded" for way in whole))
            if each in counts and each != "packs"
            for name, figure in rounds.ratio(f"{each}_to_packs", "packs", each).items()
        },
        **rounds.ratio("one_by_one_to_packs_of_one", "packs_of_one", "one_by_one"),
        **rounds.ratio("one_by_one_forwarded_to_packs_of_one", "packs_of_one", "one_by_one_forwarded"),
    }


def record(body: str | bytes, **wishes: str) -> Record:
    """Returns an SQS message as a record of Lambda's event: a pack, or text with attributes of ours."""
    data = body if isinstance(body, bytes) else None
    given = {PREFIX + name: {"stringValue": value, "dataType": "String"} for name, value in wishes.items()}
    if data is not None:
        given = {PACK_ATTRIBUTE: {"binaryValue": base64.b64encode(data).decode(), "dataType": "Binary"}}
    return {
        "messageId": str(uuid.uuid4()),
        "body": "{}" if isinstance(body, bytes) else body,
        "attributes": {"SentTimestamp": str(NOW_MS), "ApproximateReceiveCount": "1"},
        "messageAttributes": given,
        "eventSourceARN": "arn:aws:sqs:us-east-1:1:urgent",
    }


def plain_of(table: pa.Table) -> Iterator[tuple[str, dict[str, str]]]:
    """Yields the body and options of each message."""
    ids = table["message_id"].cast(pa.binary()).to_pylist()
    for id, text in zip(ids, table["payload"].cast(pa.string()).to_pylist(), strict=True):
        yield text, {"topic": "t", "delay": str((id_deliver_at_ms(id) - NOW_MS) / 1000)}


def one_by_one(table: pa.Table) -> list[pa.Table]:
    """Returns a table for each message."""
    return [table.slice(place, 1) for place in range(table.num_rows)]


def envelopes(table: pa.Table, size: int) -> Iterator[Record]:
    """Yields the messages in envelopes, with bodies that are JSON."""
    for some in calls(list(plain_of(table)), size):
        parts = [{"body": json.loads(body), "delay": float(wishes["delay"])} for body, wishes in some]
        yield record(json.dumps({"tidewheel": {"topic": "t"}, "messages": parts}))


def read(records: Sequence[Record]) -> list[tuple[str, Pack]]:
    """Reads the records of a call."""
    found = []
    for message in map(QueuedMessage.of_record, records):
        if PACK_ATTRIBUTE in message.attributes:
            found.append((message.id, pack_of(message)))
        else:
            arrival = Arrival(name=message.id, retried=False, taken_ms=message.sent_at_ms)
            found.append((message.id, read_plain(message, None).pack(arrival)))
    return found


def read_all(records: Sequence[Record]) -> None:
    """Reads all records."""
    for some in calls(records):
        read(some)


def soon(ports: Any, records: Sequence[Record]) -> None:
    """Ingests records as messages that cannot wait, a ledger for each ten."""
    for some in calls(records):
        packs = read(some)
        if not packs[0][1].generation:
            packs = adopt(ports, "t", packs, "s3", None).packs
        ingest(ports, "t", [pack for _, pack in packs])


def later(ports: Any, records: Sequence[Record]) -> None:
    """Forwards records, and ingests what was forwarded."""
    forwarded: list[bytes] = []
    for some in calls(records):
        done = adopt(ports, "t", read(some), "s3", lambda _, data: forwarded.append(data))
        assert not done.packs
    for datas in calls(forwarded):
        ingest(ports, "t", [pack for _, pack in read([record(data) for data in datas])])


def calls(some: Sequence[Any], size: int = A_CALL) -> list[Sequence[Any]]:
    """Returns the messages of each call."""
    return [some[start : start + size] for start in range(0, len(some), size)]
