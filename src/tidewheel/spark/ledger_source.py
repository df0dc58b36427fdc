"""Defines Spark's data source `tidewheel.ledger`, which only writes: see `tidewheel.spark.ledger_sink`.

Spark's own Parquet reader reads ledgers, and reads only the columns of a query, which a source in Python cannot. The
topic's live view names the ledgers: docs/query.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from tidewheel.errors import InvalidValue


class LedgerSource(DataSource):
    """Defines the data source."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `frame.write.format`."""
        return "tidewheel.ledger"

    def schema(self) -> StructType:
        """Refuses to read.

        Raises:
            InvalidValue: always. Spark asks for the schema before it reads.
        """
        raise InvalidValue("format", self.name(), "it only writes: read a topic's live view, as docs/query.md shows")

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a writer of rows with these columns.

        Raises:
            InvalidValue: the mode is `overwrite`, which would be a purge.
        """
        # The class is sent to Spark's workers, which need neither boto3 nor the modules of imports for it.
        from tidewheel.spark.ledger_sink import LedgerSink

        if overwrite:
            raise InvalidValue("mode", "overwrite", "messages are only added: give append")
        return LedgerSink(self.options, schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        """Returns a writer of a stream's batches.

        Raises:
            InvalidValue: the output mode is `complete`, which would send rows again.
        """
        from tidewheel.spark.ledger_sink import LedgerStreamSink

        if overwrite:
            raise InvalidValue("outputMode", "complete", "messages are only added: give append")
        return LedgerStreamSink(self.options, schema)


def check_options(options: Mapping[str, str], names: Collection[str]) -> None:
    """Refuses options of other names, since a name in another spelling would do nothing.

    Raises:
        InvalidValue: an option has none of the names.
    """
    for name, value in options.items():
        if name not in names:
            raise InvalidValue(name, value, f"there is no such option; give some of {', '.join(sorted(names))}")
