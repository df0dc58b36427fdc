"""Backlog: the ledgers as a table of the Glue Data Catalog, for Athena.

The table costs nothing and needs no crawler: its partitions are computed from the query (partition projection).
"""

from __future__ import annotations

from aws_cdk import Fn, RemovalPolicy, Token
from aws_cdk import aws_glue as glue
from constructs import Construct

from tidewheel.aws.s3_layout import LEDGERS
from tidewheel.cdk.names import service_name
from tidewheel.cdk.storage import Storage

TABLE_NAME = "ledgers"

COLUMNS = {
    "deliver_at_ms": glue.Schema.BIG_INT,
    "message_id": glue.Schema.BINARY,
    "key": glue.Schema.STRING,
    "attributes": glue.Schema.map(glue.Schema.STRING, glue.Schema.STRING),
    "payload": glue.Schema.BINARY,
    "encoding": glue.Schema.TINY_INT,
    "sent_at_ms": glue.Schema.BIG_INT,
    "expires_at_ms": glue.Schema.BIG_INT,
}
"""The columns of `tidewheel.ledger_rows.SCHEMA`."""

PROJECTION = {
    # Topics come and go without a deployment, so their names cannot be listed: a query must give one.
    "topic": glue.PartitionProjectionConfiguration.injected(),
    "due_day": glue.PartitionProjectionConfiguration.date(
        format="yyyy-MM-dd",
        min="2020-01-01",
        max="NOW+11YEARS",
        step=glue.DateProjectionStep(interval=1, interval_unit=glue.DateIntervalUnit.DAYS),
    ),
}


class Backlog(Construct):
    """What is waiting, as a table.

    A ledger may hold rows of later days than its folder's, which is the day of its first. Each row's own time is
    in deliver_at_ms.

    Attributes:
        database: Named like the service, with `_` for `-`, so that Athena needs no quotes.
        table: The table `ledgers`, partitioned by topic and by the day of each ledger's first slot.
    """

    def __init__(self, scope: Construct, id_: str, *, storage: Storage) -> None:
        """Make both. They hold no data, so they go with the stack."""
        super().__init__(scope, id_)
        self.database = glue.Database(
            self,
            "Database",
            database_name=_database_name(service_name(self)),
            description="Tidewheel: what is waiting",
            removal_policy=RemovalPolicy.DESTROY,
        )
        location = storage.s3_bucket.s3_url_for_object(LEDGERS)
        self.table = glue.S3Table(
            self,
            "Ledgers",
            database=self.database,
            table_name=TABLE_NAME,
            description="Messages of all ledgers, those included that were delivered and not yet collected",
            columns=[glue.Column(name=name, type=type_) for name, type_ in COLUMNS.items()],
            data_format=glue.DataFormat.PARQUET,
            has_encrypted_data=False,
            storage=glue.S3TableStorage.from_bucket(storage.s3_bucket),
            s3_prefix=LEDGERS,
            partition_keys=[glue.Column(name=name, type=glue.Schema.STRING) for name in PROJECTION],
            partition_projection=PROJECTION,
            parameters={"storage.location.template": f"{location}${{topic}}/${{due_day}}/"},
        )
        self.table.apply_removal_policy(RemovalPolicy.DESTROY)


def _database_name(service: str) -> str:
    """Return the name with `_` for `-`; the stack's is known only when it is deployed. Glue folds letters to small."""
    return Fn.join("_", Fn.split("-", service)) if Token.is_unresolved(service) else service.replace("-", "_").lower()
