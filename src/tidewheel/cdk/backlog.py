"""Makes the ledgers a table of the Glue Data Catalog, for queries with Athena.

The table costs nothing and needs no crawler: Athena computes the partitions from the query (partition projection).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Aws, Fn, RemovalPolicy, Token
from aws_cdk import aws_glue as glue
from constructs import Construct

from tidewheel.cdk.names import service_name
from tidewheel.cdk.storage import Storage
from tidewheel.ledger.schema import COLUMNS, ColumnType
from tidewheel.model.object_names import LEDGERS

TABLE_NAME = "ledgers"

_HIVE_TYPES = {
    ColumnType.INT64: "bigint",
    ColumnType.INT8: "tinyint",
    ColumnType.ID: "binary",
    ColumnType.TEXT: "string",
    ColumnType.TEXTS: "map<string,string>",
    ColumnType.BYTES: "binary",
}

PARTITIONS = {"topic": "string", "due_day": "string"}

PROJECTION = {
    "projection.enabled": "true",
    # Topics come and go without a deployment, so their names cannot be listed: a query must name its topic.
    "projection.topic.type": "injected",
    "projection.due_day.type": "date",
    "projection.due_day.format": "yyyy-MM-dd",
    "projection.due_day.range": "2020-01-01,NOW+11YEARS",
    "projection.due_day.interval": "1",
    "projection.due_day.interval.unit": "DAYS",
}
"""How Athena computes the partitions.
https://docs.aws.amazon.com/athena/latest/ug/partition-projection-setting-up.html"""

PARQUET: dict[str, Any] = {
    "input_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "output_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "serde_info": glue.CfnTable.SerdeInfoProperty(
        serialization_library="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
    ),
}
"""The catalog's description of the Parquet format."""


class Backlog(Construct):
    """The ledgers as a table for Athena.

    A ledger's folder is the day of its first row. The ledger may also hold rows of later days. The due time of each row
    is in deliver_at_ms.

    Attributes:
        database_name: The service's name, with `_` for `-`, so that Athena needs no quotes. The database has the table
            `ledgers`, partitioned by topic and by the day of each ledger's first slot.
    """

    def __init__(self, scope: Construct, id_: str, *, storage: Storage) -> None:
        """Creates the database and the table. Both are deleted with the stack, since they hold no data."""
        super().__init__(scope, id_)
        database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=_database_name(service_name(self)), description="Tidewheel: what is waiting"
            ),
        )
        location = storage.s3_bucket.s3_url_for_object(LEDGERS)
        table = glue.CfnTable(
            self,
            "Ledgers",
            catalog_id=Aws.ACCOUNT_ID,
            database_name=database.ref,
            table_input=glue.CfnTable.TableInputProperty(
                name=TABLE_NAME,
                description="Messages of all ledgers, those included that were delivered and not yet collected",
                table_type="EXTERNAL_TABLE",
                partition_keys=_columns(PARTITIONS),
                storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
                    columns=_columns({each.name: _HIVE_TYPES[each.type] for each in COLUMNS}),
                    location=location,
                    **PARQUET,
                ),
                parameters={
                    "classification": "parquet",
                    "storage.location.template": f"{location}${{topic}}/${{due_day}}/",
                    **PROJECTION,
                },
            ),
        )
        for resource in (database, table):
            resource.apply_removal_policy(RemovalPolicy.DESTROY)
        self.database_name = database.ref


def _columns(types: Mapping[str, str]) -> list[glue.CfnTable.ColumnProperty]:
    return [glue.CfnTable.ColumnProperty(name=name, type=type_) for name, type_ in types.items()]


def _database_name(service: str) -> str:
    """Returns the service's name with `_` for `-`.

    A stack's name is known only at deployment, so CloudFormation replaces the characters. Glue lowers the case.
    """
    return Fn.join("_", Fn.split("-", service)) if Token.is_unresolved(service) else service.replace("-", "_").lower()
