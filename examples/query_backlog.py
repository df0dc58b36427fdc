"""Query the waiting messages of a topic's ledgers with DuckDB."""

# region duckdb
import duckdb

WAITING = """
    WITH waiting AS (
        SELECT DISTINCT ON (message_id) deliver_at_ms, octet_length(payload) AS bytes
        FROM read_parquet(?) WHERE deliver_at_ms >= ?
    )
    SELECT make_timestamp(deliver_at_ms * 1000)::DATE AS day, count(*) AS messages, sum(bytes) AS bytes
    FROM waiting GROUP BY day ORDER BY day
"""


def waiting_by_day(ledgers: str, now_ms: int) -> dict[str, tuple[int, int]]:
    """Returns how many messages wait for each day (UTC), and the bytes of their bodies.

    Args:
        ledgers: a glob of ledgers, such as "ledgers/orders/*/*.parquet"; with DuckDB's extension httpfs also
            "s3://my-bucket/ledgers/orders/*/*.parquet".
        now_ms: what is due before is left out.
    """
    found = duckdb.execute(WAITING, [ledgers, now_ms]).fetchall()
    return {str(day): (messages, int(size)) for day, messages, size in found}


# endregion
