"""Reads AWS calls from HTTP requests, with the parameters that decide what IAM allows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

from tidewheel.local.emulator.wire_calls import JSON_SERVICES, WireRequest, operation_of, s3_place


class UnknownCall(Exception):
    """The operation, or the IAM requests, of a call are unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of an operation, with names and parameters as in boto3."""

    service: str
    operation: str
    params: Mapping[str, Any]


def read_call(request: WireRequest) -> Call:
    """Returns the call of a request, with parameters as far as IAM needs them.

    Raises:
        UnknownCall: the operation's name is unknown.
    """
    operation = operation_of(request)
    if operation is None:
        raise UnknownCall(f"{request.service}: {request.method} {request.url}")
    params: Mapping[str, Any] = {}
    if request.service in JSON_SERVICES and "x-amz-target" in request.headers:
        params = json.loads(request.body or b"{}")
    elif request.service == "s3":
        params = _s3_params(request, operation)
    elif request.service == "scheduler":
        params = _scheduler_params(request)
    elif request.service == "lambda" and operation == "Invoke":
        params = {"FunctionName": unquote(urlsplit(request.url).path).split("/")[-2]}
    return Call(service=request.service, operation=operation, params=params)


def _s3_params(request: WireRequest, operation: str) -> dict[str, Any]:
    bucket, key = s3_place(request)
    params: dict[str, Any] = {"Bucket": bucket, "Key": key}
    query = parse_qs(urlsplit(request.url).query, keep_blank_values=True)
    if "prefix" in query:
        params["Prefix"] = query["prefix"][0]
    if operation == "DeleteObjects":
        params["Delete"] = {"Objects": list(_named_objects(request.body))}
    if "if-none-match" in request.headers:
        params["IfNoneMatch"] = request.headers["if-none-match"]
    source = request.headers.get("x-amz-copy-source")
    if source is not None:
        source_bucket, _, source_key = unquote(source.partition("?")[0]).lstrip("/").partition("/")
        params["CopySource"] = {"Bucket": source_bucket, "Key": source_key}
    return params


def _named_objects(body: bytes) -> Iterable[dict[str, str]]:
    for element in ElementTree.fromstring(body).iter():
        if element.tag.rpartition("}")[2] == "Key":
            yield {"Key": element.text or ""}


def _scheduler_params(request: WireRequest) -> dict[str, Any]:
    parts = urlsplit(request.url)
    name = unquote(parts.path).strip("/").partition("/")[2]
    if not name:
        return {}
    params = json.loads(request.body or b"{}")
    group = params.get("GroupName") or parse_qs(parts.query).get("groupName", [None])[0]
    return {**params, "Name": name, "GroupName": group}
