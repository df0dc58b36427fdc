"""Stores the items of moto's tables that are built like Tidewheel's in `MemoryDynamoDBClient`s.

Why, all measured on moto 5.2.5:
- `TransactWriteItems` deep-copies every table that it names, to be able to roll back: milliseconds for 100 items.
- `Query` sorts and walks all items of the table, whatever the keys.
- moto computes the types and sizes of attributes anew at each comparison, and parses an update expression at each use.
- A request is parsed and answered by way of WSGI and the service's model: half a millisecond.
- A table that names its encryption gets an RSA key, even if encryption is off: a tenth of a second or more.

moto keeps the tables themselves, and all items of other tables. `MemoryDynamoDBClient` answers the operations that
`tidewheel.storage` uses, as it does for `MemoryTidewheel`: clients in this process without moto, others by moto's
handler. Moto answers other reads, and makes backups, from a copy. Other writes are refused.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from botocore import xform_name
from botocore.exceptions import ClientError
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.core.responses import ActionResult
from moto.dynamodb.exceptions import MockValidationException
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

from tidewheel.local.emulator.patching import Patches
from tidewheel.local.emulator.wire import REGION, Answer, Operation
from tidewheel.memory.dynamodb import MemoryDynamoDBClient
from tidewheel.storage.table_keys import CHECK_INDEX, CHECK_PARTITION_KEY, CHECK_SORT_KEY, PARTITION_KEY, SORT_KEY

_READS = ("batch_get_item", "get_item", "query", "scan", "transact_get_items")
_BACKUPS = ("create_backup", "export_table_to_point_in_time", "restore_table_to_point_in_time")
_WRITES = ("batch_write_item", "delete_item", "put_item", "transact_write_items", "update_item")
_DIRECT = ("DeleteItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem")
_PARTIQL = ("batch_execute_statement", "execute_statement", "execute_transaction")


class EmulatedTables:
    """Holds the items of the tables that are built like Tidewheel's.

    Attributes:
        operations: by service and name, answer without moto if the request is for one of these tables alone.
        touched: called with a table's name and the key of each item that changes.
    """

    def __init__(self) -> None:
        self._clients: WeakKeyDictionary[Table, MemoryDynamoDBClient] = WeakKeyDictionary()
        self.touched: Callable[..., None] = lambda *_: None
        self.operations: dict[tuple[str, str], Operation] = {
            ("dynamodb", each): partial(self._directly, xform_name(each)) for each in _DIRECT
        }

    def client(self, table_name: str, region: str = REGION) -> MemoryDynamoDBClient | None:
        """Returns the items of a table, or None for an absent or another table."""
        table = dynamodb_backends[DEFAULT_ACCOUNT_ID][region].tables.get(table_name)
        return None if table is None else self._client_of(table)

    def install(self, patches: Patches) -> None:
        """Replaces moto's operations on items, and its keys of tables without encryption."""
        for name in _READS + _BACKUPS + _WRITES + _PARTIQL:
            patches.set(DynamoHandler, name, self._answering(name, getattr(DynamoHandler, name)))
        key_of: Any = vars(Table)["_get_default_encryption_key"]

        def key_if_encrypted(table: Table, account_id: str, region: str) -> str:
            return str(key_of(table, account_id, region)) if (table.sse_specification or {}).get("Enabled") else ""

        patches.set(Table, "_get_default_encryption_key", key_if_encrypted)

    def _client_of(self, table: Table) -> MemoryDynamoDBClient | None:
        if table not in self._clients and _is_built_like_ours(table):
            client = self._clients[table] = MemoryDynamoDBClient(table.name)
            client.touched = partial(self._touch, table.name)
            for item in table.all_items():  # of a restored backup
                client.put_item(TableName=table.name, Item=item.to_json()["Attributes"])
            table.items.clear()
        return self._clients.get(table)

    def _touch(self, *key: str) -> None:
        self.touched(*key)

    def _answering(self, name: str, own: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Returns the method of moto's DynamoDB that answers an operation on items."""

        def answer(handler: Any) -> Any:
            request, tables = dict(handler.body), handler.dynamodb_backend.tables
            ours, alone = self._ours(request, tables)
            if not ours:
                return own(handler)
            try:
                answered = self._ask(name, request, ours[0]) if alone else None
            except ClientError as error:
                return _refusal(error)
            if answered is not None:
                return ActionResult(answered)
            if name in _WRITES + _PARTIQL:
                raise MockValidationException(f"{name} with these parameters is not emulated for Tidewheel's table")
            return self._from_copy(handler, ours, own)

        return answer

    def _directly(self, name: str, params: dict[str, Any]) -> Answer | None:
        """Answers botocore's request from the items of one table. Returns None if moto must answer."""
        if f".{REGION}." not in params["url"]:
            return None
        request = json.loads(params["body"], object_hook=_decoded)
        ours, alone = self._ours(request, dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables)
        if not (ours and alone):
            return None
        try:
            answered = self._ask(name, request, ours[0])
        except ClientError as error:
            body, headers = _refusal(error)
            return headers["status"], headers, body
        return None if answered is None else (200, {}, json.dumps(answered, default=_encoded))

    def _ours(self, request: dict[str, Any], tables: Mapping[str, Table]) -> tuple[list[Table], bool]:
        """Returns the tables built like ours that a request names, and whether it names one table only, by its name."""
        names = [*_named(request)]
        plain = [each.rpartition("table/")[2] for each in names]  # a name or an ARN
        named = {tables[each] for each in plain if each in tables}
        return [each for each in named if self._client_of(each) is not None], len(named) == 1 and plain == names

    def _ask(self, name: str, request: dict[str, Any], table: Table) -> dict[str, Any] | None:
        """Returns a client's answer, or None for what the client does not emulate.

        Raises:
            ClientError: the client refused the request.
        """
        ask = getattr(self._clients[table], name, None)
        try:
            return None if ask is None else ask(**request)
        except ClientError as error:
            if name not in _READS or error.response["Error"]["Code"] != "ValidationException":
                raise
        except (KeyError, TypeError):  # a parameter that the client does not know
            pass
        return None

    def _from_copy(self, handler: Any, tables: Sequence[Table], own: Callable[[Any], Any]) -> Any:
        try:
            for table in tables:
                table.items.clear()
                for item in self._clients[table].items():
                    handler.dynamodb_backend.put_item(table.name, item)
            return own(handler)
        finally:
            for table in tables:
                table.items.clear()


def _is_built_like_ours(table: Table) -> bool:
    keys = {each.name: [key["AttributeName"] for key in each.schema] for each in table.global_indexes}
    own_keys = table.hash_key_attr, table.range_key_attr
    return own_keys == (PARTITION_KEY, SORT_KEY) and keys == {CHECK_INDEX: [CHECK_PARTITION_KEY, CHECK_SORT_KEY]}


def _encoded(data: bytes) -> str:
    """Returns an attribute's value of bytes as JSON has it."""
    return base64.b64encode(data).decode()


def _decoded(value: dict[str, Any]) -> dict[str, Any]:
    """Returns an attribute's value of bytes as DynamoDB stores it, and any other JSON object as it is."""
    match value:
        case {"B": str(data)}:
            return {"B": base64.b64decode(data)}
        case {"BS": list(data)}:
            return {"BS": [base64.b64decode(each) for each in data]}
    return value


def _named(request: dict[str, Any]) -> Iterator[str]:
    """Yields the names of the tables that a request names, and all other names in a PartiQL statement."""
    yield from request.get("RequestItems", ())
    yield request.get("SourceTableName") or request.get("SourceTableArn") or request.get("TableArn", "")
    for entry in (request, *request.get("Statements", ()), *request.get("TransactStatements", ())):
        yield from re.findall(r"[\w.-]+", entry.get("Statement", ""))
    for entry in (request, *(part for each in request.get("TransactItems", ()) for part in each.values())):
        yield entry.get("TableName", "")


def _refusal(error: ClientError) -> tuple[str, dict[str, Any]]:
    """Returns the answer of moto's DynamoDB for an error of the client in memory."""
    code, message = error.response["Error"]["Code"], error.response["Error"]["Message"]
    fields = {name: value for name, value in error.response.items() if name in ("CancellationReasons", "Item")}
    document = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message, **fields}
    return json.dumps(document, default=_encoded), {"status": 400, "Content-Type": "application/x-amz-json-1.0"}
