"""Bombs, which are small inputs with huge contents, each in its own process with bounded memory.

Run as a program (`python -m tests.fuzz.bombs <which>`) it bounds its address space to what it has and `ROOM_MIB` more,
lets one bomb go, and prints the most memory that it took, in MiB. Without bounds it would be killed, or take the
machine's memory.
"""

from __future__ import annotations

import base64
import datetime as dt
import resource
import sys
import zlib
from collections.abc import Callable

import pyarrow as pa

from tests.fuzz.good import NOW_MS, PACKS, ledger
from tests.packs import fields_of, pack_of
from tidewheel.errors import CorruptMetadata, CorruptPack
from tidewheel.flows.administration.subscribe import create_topic
from tidewheel.ledger.index import decode_segments
from tidewheel.local import MemoryTidewheel
from tidewheel.memory.sqs_message import MemoryMessage
from tidewheel.model.checkpoint import decode_checkpoint
from tidewheel.model.checksum import sealed
from tidewheel.model.pack import PACK_ATTRIBUTE, decode_pack
from tidewheel.model.plan import decode_plan
from tidewheel.model.settings import TopicSettings

ROOM_MIB = 600
"""Ingest has 1,024 MiB, of which Python, Arrow and boto3 take the rest."""
_GIB = 2**30


def _zeros(size_bytes: int) -> bytes:
    """A zlib stream of a number of zeros, compressed to a thousandth."""
    packer, chunk = zlib.compressobj(9), bytes(2**24)
    return b"".join([packer.compress(chunk) for _ in range(size_bytes // len(chunk))] + [packer.flush()])


def _refused(decode: Callable[[bytes], object], bomb: bytes) -> None:
    try:
        decode(bomb)
    except (CorruptMetadata, CorruptPack):
        return
    raise AssertionError("the bomb was taken for something")


def pack() -> None:
    """A pack of a megabyte with a gibibyte of contents."""
    _refused(lambda data: decode_pack(data, NOW_MS), sealed(b"\x01" + _zeros(_GIB)))


def tables() -> None:
    """A segment table and a manifest with half a gibibyte of contents."""
    bomb = sealed(_zeros(_GIB // 2))
    _refused(decode_segments, bomb)
    _refused(lambda data: decode_plan("orders", 1, 2, data), bomb)


def numbers() -> None:
    """A segment table of one endless number."""
    _refused(decode_segments, sealed(zlib.compress(b"\xff" * 2**25)))
    _refused(decode_segments, sealed(zlib.compress(b"\x80" * 2**25)))


def nested() -> None:
    """JSON with a million levels, for each reader of JSON."""
    deep = zlib.compress(b"[" * 1_000_000)
    _refused(lambda data: decode_pack(data, NOW_MS), sealed(b"\x01" + deep))
    _refused(lambda data: decode_plan("orders", 1, 2, data), sealed(deep))
    _refused(decode_checkpoint, sealed(deep))


def batch() -> None:
    """A batch of 120 valid packs of some KB, with 370 MB of contents together."""
    stack = _stack()
    service = stack.service
    document = fields_of(PACKS[0])
    [generation] = [state.generation for state in [service.topic_states.read("orders")] if state is not None]
    count = 28
    found = []
    for number in range(120):
        ids = [(NOW_MS + 10**8 + number << 80 | number * count + i).to_bytes(16) for i in range(count)]
        one = document | {
            "gen": generation,
            "ids": base64.b64encode(b"".join(ids)).decode(),
            "enc": "0" * count,
            "bodies": ["x" * 110_000] * count,
            "sent": NOW_MS,
        }
        del one["attrs"]
        data = pack_of(one)
        assert len(data) < 20_000, len(data)
        found.append(_message(number, data))
    _bound()
    failed = stack._functions.batch("ingest", stack.queue("tidewheel_bulk").arn, found)
    assert not failed, failed
    rows = sum(bucket.rows for bucket in service.buckets.all("orders"))
    assert rows == 120 * count, rows


def _stack() -> MemoryTidewheel:
    stack = MemoryTidewheel(start=dt.datetime.fromtimestamp(NOW_MS / 1000, dt.UTC))
    create_topic(stack.service, stack.clock, "orders", TopicSettings())
    return stack


def _message(number: int, data: bytes) -> MemoryMessage:
    attributes = {PACK_ATTRIBUTE: {"DataType": "Binary", "BinaryValue": data}}
    return MemoryMessage(
        id=f"m{number}",
        body="{}",
        message_attributes=attributes,
        size_bytes=len(data),
        arrival=number,
        sent_at_ms=NOW_MS,
        ready_at_ms=NOW_MS,
        visible_at_ms=NOW_MS,
        receipt_handle=f"tidewheel_bulk/{number}",
    )


def _memory_mib(name: str) -> int:
    with open("/proc/self/status", encoding="ascii") as status:  # noqa: PTH123 - no file of the project
        return next(int(line.split()[1]) // 1024 for line in status if line.startswith(name))


def _bound() -> None:
    most = (_memory_mib("VmSize") + ROOM_MIB) * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


BOMBS: dict[str, Callable[[], None]] = {each.__name__: each for each in (pack, tables, numbers, nested, batch)}


def main(which: str) -> None:
    """Sets off a bomb and prints the used memory."""
    ledger()  # whatever Arrow loads late is loaded
    pa.set_cpu_count(1)
    before = _memory_mib("VmRSS")
    if which != "batch":
        _bound()
    BOMBS[which]()
    print(_memory_mib("VmHWM") - before)


if __name__ == "__main__":
    main(sys.argv[1])
