"""Query ledgers with DuckDB."""

# region duckdb
import duckdb

QUERY = """
    SELECT make_timestamp(deliver_at_ms * 1000)::DATE AS day, count(*) AS messages
    FROM read_parquet(?) GROUP BY day ORDER BY day
"""


def count_by_day(ledgers: str) -> dict[str, int]:
    """Returns how many messages are due on each day, UTC; takes a path or a glob of ledgers."""
    return {str(day): messages for day, messages in duckdb.execute(QUERY, [ledgers]).fetchall()}


# endregion
