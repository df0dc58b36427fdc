"""Makes the ledgers and live views tables of the Glue Data Catalog, for queries with Athena.

The tables cost nothing and need no crawler: Athena computes the partitions from the query (partition projection).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aws_cdk import Aws, Fn, RemovalPolicy, Token
from aws_cdk import aws_glue as glue
from constructs import Construct

from tidewheel.cdk.names import service_name
from tidewheel.cdk.storage import Storage
from tidewheel.ledger.schema import COLUMNS, VIEW_COLUMNS, ColumnType
from tidewheel.model.object_names import LEDGERS, LIVE

_HIVE_TYPES = {
    ColumnType.INT64: "bigint",
    ColumnType.INT8: "tinyint",
    ColumnType.ID: "binary",
    ColumnType.TEXT: "string",
    ColumnType.TEXTS: "map<string,string>",
    ColumnType.BYTES: "binary",
}

PARTITIONS = {"topic": "string", "due_day": "string"}

TOPICS = {
    "projection.enabled": "true",
    # Topics come and go without a deployment, so their names cannot be listed: a query must name its topic.
    "projection.topic.type": "injected",
}
"""How Athena computes the partitions.
https://docs.aws.amazon.com/athena/latest/ug/partition-projection-setting-up.html"""
DAYS = {
    "projection.due_day.type": "date",
    "projection.due_day.format": "yyyy-MM-dd",
    "projection.due_day.range": "2020-01-01,NOW+11YEARS",
    "projection.due_day.interval": "1",
    "projection.due_day.interval.unit": "DAYS",
}

PARQUET: dict[str, Any] = {
    "input_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
    "output_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
    "serde_info": glue.CfnTable.SerdeInfoProperty(
        serialization_library="org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
    ),
}
"""The catalog's description of the Parquet format."""
CSV: dict[str, Any] = {
    "input_format": "org.apache.hadoop.mapred.TextInputFormat",
    "output_format": "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
    "serde_info": glue.CfnTable.SerdeInfoProperty(
        serialization_library="org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe",
        parameters={"field.delim": ",", "serialization.null.format": ""},
    ),
}
"""The catalog's description of a live view. Athena knows the compression by the end of the name."""


class Backlog(Construct):
    """The ledgers and the live views as tables for Athena.

    A ledger's folder is the day of its first row. The ledger may also hold rows of later days. The due time of each row
    is in deliver_at_ms.

    Attributes:
        database_name: The service's name, with `_` for `-`, so that Athena needs no quotes. The database has the table
            `ledgers`, partitioned by topic and by the day of each ledger's first slot, and the table `live`,
            partitioned by topic.
    """

    def __init__(self, scope: Construct, id_: str, *, storage: Storage) -> None:
        """Creates the database and the tables. All are deleted with the stack, since they hold no data."""
        super().__init__(scope, id_)
        database = glue.CfnDatabase(
            self,
            "Database",
            catalog_id=Aws.ACCOUNT_ID,
            database_input=glue.CfnDatabase.DatabaseInputProperty(
                name=_database_name(service_name(self)), description="Tidewheel: what is waiting"
            ),
        )
        database.apply_removal_policy(RemovalPolicy.DESTROY)
        self.database_name = database.ref
        self._table(
            "Ledgers",
            "Messages of all ledgers, those included that were delivered and not yet collected",
            location=storage.s3_bucket.s3_url_for_object(LEDGERS),
            partitions=PARTITIONS,
            columns={each.name: each.type for each in COLUMNS},
            format_=PARQUET,
            parameters={"classification": "parquet", **DAYS},
        )
        self._table(
            "Live",
            "Ledgers in force, cancelled messages, and ranges of messages that do not wait",
            location=storage.s3_bucket.s3_url_for_object(LIVE),
            partitions={"topic": PARTITIONS["topic"]},
            columns=VIEW_COLUMNS,
            format_=CSV,
            parameters={"classification": "csv", "skip.header.line.count": "1"},
        )

    def _table(
        self,
        id_: str,
        description: str,
        *,
        location: str,
        partitions: Mapping[str, str],
        columns: Mapping[str, ColumnType],
        format_: Mapping[str, Any],
        parameters: Mapping[str, str],
    ) -> None:
        folders = "".join(f"${{{each}}}/" for each in partitions)
        table = glue.CfnTable(
            self,
            id_,
            catalog_id=Aws.ACCOUNT_ID,
            database_name=self.database_name,
            table_input=glue.CfnTable.TableInputProperty(
                name=id_.lower(),
                description=description,
                table_type="EXTERNAL_TABLE",
                partition_keys=_columns(partitions),
                storage_descriptor=glue.CfnTable.StorageDescriptorProperty(
                    columns=_columns({name: _HIVE_TYPES[type_] for name, type_ in columns.items()}),
                    location=location,
                    **format_,
                ),
                parameters={"storage.location.template": f"{location}{folders}", **TOPICS, **parameters},
            ),
        )
        table.apply_removal_policy(RemovalPolicy.DESTROY)


def _columns(types: Mapping[str, str]) -> list[glue.CfnTable.ColumnProperty]:
    return [glue.CfnTable.ColumnProperty(name=name, type=type_) for name, type_ in types.items()]


def _database_name(service: str) -> str:
    """Returns the service's name with `_` for `-`.

    A stack's name is known only at deployment, so CloudFormation replaces the characters. Glue lowers the case.
    """
    return Fn.join("_", Fn.split("-", service)) if Token.is_unresolved(service) else service.replace("-", "_").lower()
