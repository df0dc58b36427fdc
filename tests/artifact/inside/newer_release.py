"""Simulates a newer release with an additional field in all writes. Each handler of a copied archive imports it first.

| written | has one more |
|---|---|
| items of the table, put or updated | attribute |
| jobs, plans, checkpoints, settings, a schedule's input, an event for another function | member of the JSON object |
| ledgers | tag |
| the header of a delivered message | member |

That is what a release may add within a layout. What it reads stays as it is.
"""

import importlib
import json
import re
import types

import botocore.client

NAME = "of_a_newer_release"
_VALUE = {"M": {"count": {"N": "7"}, "names": {"L": [{"S": "x"}]}}}
_DOCUMENT = {NAME: {"count": 7}}
_JSON_WRITERS = ("aws.runs", "aws.scheduler_wheel", "model.checkpoint", "model.job", "model.plan", "model.settings")


def with_more(operation, parameters):
    """Returns the parameters of a DynamoDB call with an additional attribute in each written item."""
    if operation == "PutItem":
        return parameters | {"Item": parameters["Item"] | {NAME: _VALUE}}
    if operation == "UpdateItem":
        return _update(parameters)
    if operation == "TransactWriteItems":
        return parameters | {"TransactItems": [_entry(each) for each in parameters["TransactItems"]]}
    return parameters


def _entry(entry):
    [(kind, operation)] = entry.items()
    if kind == "Put":
        return {kind: with_more("PutItem", operation)}
    return {kind: _update(operation)} if kind == "Update" else entry


def _update(parameters):
    expression, added = re.subn(r"\bSET ", "SET #newer = :newer, ", parameters["UpdateExpression"], count=1)
    if not added:
        expression = f"SET #newer = :newer {expression}"
    names = parameters.get("ExpressionAttributeNames", {}) | {"#newer": NAME}
    values = parameters.get("ExpressionAttributeValues", {}) | {":newer": _VALUE}
    return parameters | {
        "UpdateExpression": expression,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
    }


def _write_more_items():
    call = botocore.client.BaseClient._make_api_call

    def call_with_more(self, operation, parameters):
        if self.meta.service_model.service_name == "dynamodb":
            parameters = with_more(operation, parameters)
        return call(self, operation, parameters)

    botocore.client.BaseClient._make_api_call = call_with_more


def _dumps(value, **options):
    return json.dumps(value | _DOCUMENT if isinstance(value, dict) else value, **options)


def _write_more_json():
    writer = types.SimpleNamespace(**{**vars(json), "dumps": _dumps})
    for name in _JSON_WRITERS:
        module = importlib.import_module(f"tidewheel.{name}")
        assert module.json is json, name
        module.json = writer


def _write_more_in_headers():
    received = importlib.import_module("tidewheel.model.received")
    header_text = received.header_text

    def header_with_more(*arguments, **keywords):
        return json.dumps(json.loads(header_text(*arguments, **keywords)) | {"newer": 7})

    received.header_text = header_with_more


def _write_more_tags():
    writer = importlib.import_module("tidewheel.ledger.writer").LedgerWriter
    make = writer.__init__

    def make_with_more(self, *arguments, **keywords):
        make(self, *arguments, **keywords)
        self._tags[NAME] = "7"

    writer.__init__ = make_with_more


_write_more_items()
_write_more_json()
_write_more_in_headers()
_write_more_tags()
