"""Read a ledger with pyarrow: whole, and one segment of it."""

# region pyarrow
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq


def count_by_day(ledger: Path) -> dict[str, int]:
    """Returns how many messages of a ledger are due on each day, UTC."""
    times = pq.read_table(ledger, columns=["deliver_at_ms"]).column("deliver_at_ms")
    days = times.cast(pa.timestamp("ms")).cast(pa.date32()).value_counts()
    return {str(each["values"]): each["counts"].as_py() for each in days}


def read_segment(range_bytes: bytes) -> pa.Table:
    """Reads one segment, as a range GET returned it: its bytes behind Parquet's magic are a Parquet file."""
    checksum, rest = range_bytes[:4], range_bytes[4:]
    if zlib.crc32(rest) != int.from_bytes(checksum, "little"):
        raise ValueError("the segment is damaged")
    return pq.read_table(pa.BufferReader(b"PAR1" + range_bytes))


# endregion
