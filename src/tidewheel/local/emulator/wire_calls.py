"""Reads AWS calls from HTTP requests, with service, operation and parameters.

Why: an access check sees an HTTP request only, from botocore in this process or from Spark's S3 client, which does not
use botocore. Parameters are read as far as `iam_requests` needs them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

from tidewheel.errors import UnknownCall

_JSON_SERVICES = frozenset({"dynamodb", "glue", "sqs", "ssm"})
_S3_HOST = re.compile(r"(?:(?P<bucket>.+)\.)?s3[.-]")
_LISTING = frozenset(
    {
        "continuation-token",
        "delimiter",
        "encoding-type",
        "fetch-owner",
        "list-type",
        "marker",
        "max-keys",
        "prefix",
        "start-after",
    }
)
_SCOPE = re.compile(r"Credential=[^/]+/[^/]+/([^/]+)/([^/]+)/")
_SCHEDULES = {"POST": "CreateSchedule", "PUT": "UpdateSchedule", "GET": "GetSchedule", "DELETE": "DeleteSchedule"}
_S3_OBJECT = {"GET": "GetObject", "HEAD": "HeadObject", "DELETE": "DeleteObject"}
_S3_BUCKET = {"PUT": "CreateBucket", "HEAD": "HeadBucket", "DELETE": "DeleteBucket"}


@dataclass(frozen=True, slots=True, kw_only=True)
class WireRequest:
    """An HTTP request to a service.

    Attributes:
        service: the service's name in boto3.
        operation: the operation's name, if the sender knows it.
        headers: by name in lower case.
        body: the whole body, or a part that is not needed.
    """

    service: str
    operation: str | None
    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call of an operation, with names and parameters as in boto3."""

    service: str
    operation: str
    params: Mapping[str, Any]


def of_botocore(service: str, operation: str, params: Mapping[str, Any]) -> WireRequest:
    """Reads a request prepared by botocore."""
    body = params["body"]
    if isinstance(body, str):
        body = body.encode()
    named = {name.lower(): _text(value) for name, value in params["headers"].items()}
    return WireRequest(
        service=service,
        operation=operation,
        method=params["method"],
        url=params["url"],
        headers=named,
        body=bytes(body) if isinstance(body, bytes | bytearray) else b"",  # a stream is an object's content
    )


def of_wsgi(environ: Mapping[str, Any], body: bytes) -> WireRequest:
    """Reads a request from HTTP. The service is taken from the signature."""
    headers = {
        name.removeprefix("HTTP_").replace("_", "-").lower(): str(value)
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    scope = scope_of(environ)
    path = environ.get("RAW_URI") or environ["PATH_INFO"] + "?" + environ.get("QUERY_STRING", "")
    return WireRequest(
        service=scope[0] if scope else "unsigned",
        operation=None,
        method=environ["REQUEST_METHOD"],
        url=f"http://{headers.get('host', '')}{path}",
        headers=headers,
        body=body,
    )


def scope_of(environ: Mapping[str, Any]) -> tuple[str, str] | None:
    """Returns the service and the Region for which a request from HTTP is signed."""
    signed = environ.get("HTTP_AUTHORIZATION") or unquote(environ.get("QUERY_STRING", ""))
    found = _SCOPE.search(signed)
    return (found[2], found[1]) if found else None


def read_call(request: WireRequest) -> Call:
    """Returns the call of a request. The call has no parameters if its operation is unknown.

    Raises:
        UnknownCall: even the operation's name is unknown.
    """
    if request.service in _JSON_SERVICES and "x-amz-target" in request.headers:
        operation = request.headers["x-amz-target"].rpartition(".")[2]
        return Call(service=request.service, operation=operation, params=json.loads(request.body or b"{}"))
    if request.service == "s3":
        return _s3(request)
    if request.service == "scheduler":
        return _scheduler(request)
    if request.service == "lambda":
        return _lambda(request)
    return _unread(request)


def _unread(request: WireRequest) -> Call:
    if request.operation is None:
        raise UnknownCall(f"{request.service}: {request.method} {request.url}")
    return Call(service=request.service, operation=request.operation, params={})


def _s3(request: WireRequest) -> Call:
    parts = urlsplit(request.url)
    query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
    query.pop("x-id", None)  # botocore's name of the operation
    host = _S3_HOST.match(parts.hostname or "")
    path = unquote(parts.path).lstrip("/")
    bucket, _, key = (host["bucket"], "", path) if host and host["bucket"] else path.partition("/")
    operation = _s3_operation(request, query, bool(key))
    if operation is None:
        return _unread(request)
    params: dict[str, Any] = {"Bucket": bucket, "Key": key}
    if "prefix" in query:
        params["Prefix"] = query["prefix"]
    if operation == "DeleteObjects":
        params["Delete"] = {"Objects": list(_named_objects(request.body))}
    if "if-none-match" in request.headers:
        params["IfNoneMatch"] = request.headers["if-none-match"]
    source = request.headers.get("x-amz-copy-source")
    if source is not None:
        source_bucket, _, source_key = unquote(source.partition("?")[0]).lstrip("/").partition("/")
        params["CopySource"] = {"Bucket": source_bucket, "Key": source_key}
    return Call(service="s3", operation=operation, params=params)


def _s3_operation(request: WireRequest, query: Mapping[str, str], has_key: bool) -> str | None:
    """Returns the operation's name. Returns None if the query is unknown here."""
    if not has_key:
        if request.method == "GET" and "location" in query:
            return "GetBucketLocation"
        if request.method == "GET" and set(query) <= _LISTING:
            return "ListObjectsV2" if "list-type" in query else "ListObjects"
        if request.method == "POST" and "delete" in query:
            return "DeleteObjects"
        return None if query else _S3_BUCKET.get(request.method)
    if "uploadId" in query or "uploads" in query:
        uploads = {"PUT": "UploadPart", "GET": "ListParts", "DELETE": "AbortMultipartUpload"}
        posted = "CreateMultipartUpload" if "uploads" in query else "CompleteMultipartUpload"
        return posted if request.method == "POST" else uploads.get(request.method)
    if query:
        return None
    if request.method == "PUT":
        return "CopyObject" if "x-amz-copy-source" in request.headers else "PutObject"
    return _S3_OBJECT.get(request.method)


def _named_objects(body: bytes) -> Iterable[dict[str, str]]:
    for element in ElementTree.fromstring(body).iter():
        if element.tag.rpartition("}")[2] == "Key":
            yield {"Key": element.text or ""}


def _scheduler(request: WireRequest) -> Call:
    parts = urlsplit(request.url)
    folder, _, name = unquote(parts.path).strip("/").partition("/")
    if folder != "schedules":
        return _unread(request)
    if not name:
        return Call(service="scheduler", operation="ListSchedules", params={})
    params = json.loads(request.body or b"{}")
    group = params.get("GroupName") or parse_qs(parts.query).get("groupName", [None])[0]
    operation = _SCHEDULES[request.method]
    return Call(service="scheduler", operation=operation, params={**params, "Name": name, "GroupName": group})


def _lambda(request: WireRequest) -> Call:
    found = re.search(r"/functions/([^/]+)/invocations$", unquote(urlsplit(request.url).path))
    if found is None:
        return _unread(request)
    return Call(service="lambda", operation="Invoke", params={"FunctionName": found[1]})


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
